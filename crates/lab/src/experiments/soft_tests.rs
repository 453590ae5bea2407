//! Each experiment that the embedded device takes part in runs on the product's card: the engine of
//! the card has taken every frame that the device says it received.

use niclab_device::soft::Soft;
use niclab_device::{
    About, Answered, Control, DeviceError, Load, Observation, Plan, Processed, Processing,
    RulesPlan, Serving, Setup, SetupReport, Testbed,
};

use super::*;
use crate::spec::GridName;
use crate::validation;

/// Tasks of an experiment that are carried out; the device refuses all others.
const TASKS: u32 = 2;

/// Time of each task, nanoseconds: longer than a busy machine keeps a core from the card.
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
            false => Err(DeviceError::NotSupported { capability: "more tasks".to_owned() }),
        }
    }

    /// Carries out a task; `received` says of what was seen how many frames the card has to have
    /// taken.
    fn task<T>(
        &mut self,
        task: impl FnOnce(&mut Soft) -> Result<T, DeviceError>,
        received: impl FnOnce(&T) -> u64,
    ) -> Result<T, DeviceError> {
        self.is_enough()?;
        let before = self.soft.card_frames();
        let seen = task(&mut self.soft)?;
        let (received, taken) = (received(&seen), self.soft.card_frames() - before);
        assert!(received > 0 && taken >= received, "{received} received, {taken} by the engine");
        self.tasks += 1;
        Ok(seen)
    }
}

impl Testbed for Watched {
    fn about(&self) -> &About {
        self.soft.about()
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        self.is_enough()?;
        self.soft.setup(setup)
    }

    fn operate(&mut self, plan: &RulesPlan) -> Result<Control, DeviceError> {
        self.is_enough()?;
        self.operations += 1;
        self.soft.operate(plan)
    }

    fn process(&mut self, processing: &Processing) -> Result<Processed, DeviceError> {
        let short = Processing { duration_ns: 1, warmup_ns: 0, ..processing.clone() };
        self.task(|soft| soft.process(&short), |seen| seen.packets - seen.lost)
    }

    fn serve(&mut self, serving: &Serving) -> Result<Answered, DeviceError> {
        let short = Serving { duration_ns: 1, warmup_ns: 0, ..serving.clone() };
        self.task(|soft| soft.serve(&short), |seen| seen.requests * seen.passes_ns.len() as u64)
    }

    fn run(&mut self, load: &Load, plan: &Plan) -> Result<Observation, DeviceError> {
        let short = Load { duration_ns: SHORT_NS, warmup_ns: SHORT_NS / 5, ..load.clone() };
        self.task(|soft| soft.run(&short, plan), |seen| seen.received)
    }
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
