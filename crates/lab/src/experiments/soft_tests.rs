//! Each experiment that the embedded device takes part in runs on the product's card: the engine of
//! the card has taken every frame that the device says it received.

use niclab_device::soft::Soft;
use niclab_device::{DeviceError, DeviceInfo, Observation, Setup, SetupReport, Task, Testbed};

use super::*;
use crate::spec::GridName;
use crate::validation;

/// Tasks of an experiment that are carried out; the device refuses all others.
const TASKS: u32 = 2;

/// Time of each task, nanoseconds: a busy machine takes a core away for tens of milliseconds.
const SHORT_NS: u64 = 50_000_000;

/// The embedded device, whose card is asked behind each task what its engine has taken.
struct Watched {
    soft: Soft,
    /// Tasks that had frames, and tasks of rules alone.
    tasks: u32,
    operations: u32,
}

impl Watched {
    fn new() -> Watched {
        Watched { soft: Soft::open().unwrap(), tasks: 0, operations: 0 }
    }

    fn is_enough(&self) -> Result<(), DeviceError> {
        match self.tasks + self.operations < TASKS {
            true => Ok(()),
            false => Err(DeviceError::lacks("more tasks")),
        }
    }
}

impl Testbed for Watched {
    fn about(&self) -> &DeviceInfo {
        self.soft.about()
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        self.is_enough()?;
        self.soft.setup(setup)
    }

    /// Each task is a short one, and the card has to have taken all the frames that were received.
    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        self.is_enough()?;
        let before = self.soft.card_frames();
        let observed = self.soft.measure(&short(task))?;
        let received = match &observed {
            Observation::Load(observed) => observed.received,
            Observation::Program(observed) => observed.packets - observed.lost,
            Observation::Store(observed) => observed.requests * observed.passes_ns.len() as u64,
            Observation::Detection(observed) => observed.packets,
            Observation::Analytics(observed) => observed.frames,
            _ => {
                self.operations += 1;
                return Ok(observed);
            }
        };
        let taken = self.soft.card_frames() - before;
        assert!(received > 0 && taken >= received, "{received} received, {taken} by the engine");
        self.tasks += 1;
        Ok(observed)
    }
}

fn short(task: &Task) -> Task {
    let mut short = task.clone();
    match &mut short {
        Task::Load { load, .. } => {
            (load.duration_ns, load.warmup_ns) = (SHORT_NS, SHORT_NS / 5);
        }
        Task::Program(of) => (of.duration_ns, of.warmup_ns) = (1, 0),
        Task::Store(of) => (of.duration_ns, of.warmup_ns) = (1, 0),
        Task::Detection(of) => (of.duration_ns, of.warmup_ns) = (1, 0),
        Task::Analytics(of) => (of.duration_ns, of.warmup_ns) = (1, 0),
        _ => {}
    }
    short
}

#[test]
fn every_experiment_on_the_embedded_device_runs_the_engine_of_the_card() {
    let on_soft = registered().filter(|(_, one)| one.devices.contains(&"soft"));
    let mut measured = 0;
    for (_, one) in on_soft {
        let mut device = Watched::new();
        validation::measure(&mut device, one.name, GridName::Reduced, &[], None).unwrap();
        let tasks = (device.tasks, device.operations);
        println!("{}: {} tasks with frames, {} of rules alone", one.name, tasks.0, tasks.1);
        assert!(tasks.0 > 0 || tasks.1 > 0, "{}: no task was carried out", one.name);
        measured += u32::from(tasks.0 > 0);
    }
    assert!(measured >= 9, "{measured} experiments had frames");
}
