//! Trials on the wire: a load, and the operations of a plan on the interface's rules meanwhile.

use niclab_load::rings::BURST;

use super::name::Path;
use super::rings::{Function, Rings};
use super::rules::{self, RuleTable};
use super::wire_counters::WireCounters;
use super::{End, refused};
use crate::capability;
use crate::control::{Carrier, InstalledBlock, Patterns};
use crate::cores::{self, Cores};
use crate::face::DeviceError;
use crate::pair::{PlanThread, PlanWork, PlannedSide, Stage, Trial, TrialPlan};
use crate::plan::{ControlCore, RulesPlan};
use crate::two_hosts::{DeviceObservation, FarLink};
use crate::{Control, Load, LoadObservation};

/// What a trial needs of the testbed.
pub(super) struct TrialWire<'a> {
    /// The device's name.
    pub name: &'a str,
    pub path: Path,
    pub rings: &'a mut Rings,
    pub cores: Cores,
    /// `None`: it is on another host.
    pub tester: Option<&'a End>,
    pub device: &'a End,
}

impl TrialWire<'_> {
    /// Offers a load, while a plan is carried out, if there is one.
    pub(super) fn run(
        &mut self,
        load: &Load,
        plan: Option<TrialPlan<'_>>,
    ) -> Result<LoadObservation, DeviceError> {
        self.rings.drain()?;
        let tester = self.tester.ok_or_else(|| DeviceError::lacks(capability::TWO_HOSTS))?;
        let (path, device) = (self.path, self.device);
        let counted = WireCounters::now(path, Some(tester), device)?;
        let depth = self.rings.function.depth() as u32;
        let trial = Trial { device: self.name, load, depth, core: Some(self.cores.tester) };
        let cores = self.cores;
        let Rings { tester: rings, function } = &mut *self.rings;
        let Some(rings) = rings else { return Err(DeviceError::lacks(capability::TWO_HOSTS)) };
        let (stage, beside) = stage(function, cores, plan);
        rings.outlet.begin_stamps(load);
        let ends = (&mut rings.outlet, &mut rings.inlet);
        let observed = trial.run(ends, vec![stage], beside);
        check_function(function, device)?;
        let mut observation = observed?;
        observation.stamped = rings.end_stamps(load)?;
        let sink =
            rings.inlet.counters().map_err(|e| refused("reading the sink's counters", &e))?;
        counted.account(&mut observation, sink.dropped, (tester, device))?;
        Ok(observation)
    }

    /// Serves a tester on another host, while a plan is carried out, if there is one.
    pub(super) fn serve(
        &mut self,
        load: &Load,
        plan: Option<TrialPlan<'_>>,
        far: &FarLink,
    ) -> Result<DeviceObservation, DeviceError> {
        self.rings.drain()?;
        let (path, device) = (self.path, self.device);
        let counted = WireCounters::now(path, None, device)?;
        let depth = self.rings.function.depth() as u32;
        let trial = Trial { device: self.name, load, depth, core: Some(self.cores.tester) };
        let function = &mut self.rings.function;
        let (stage, beside) = stage(function, self.cores, plan);
        let served = trial.serve(vec![stage], beside, &mut *far.borrow_mut());
        check_function(function, device)?;
        let mut observation = served?;
        counted.enter(&mut observation, device)?;
        Ok(observation)
    }

    /// Works on the rules by a plan while `run` deals with frames. The rules of the set-up are back
    /// afterwards.
    pub(super) fn run_planned<P: RuleTable, O>(
        &mut self,
        (load, plan): (&Load, &RulesPlan),
        table: &mut P,
        blocks: &mut [InstalledBlock<u32>],
        run: impl FnOnce(&mut Self, TrialPlan<'_>) -> Result<O, DeviceError>,
    ) -> Result<(O, Control), DeviceError> {
        rules::check_plan::<P>(plan, true)?;
        let core = plan_core(plan, 1 + usize::from(self.tester.is_some()))?;
        let patterns = Patterns::of_plan(plan)?;
        let mut carrier =
            Carrier::new(plan, (patterns.as_ref(), &*blocks), load.duration_ns, |steps| {
                rules::target(table, plan, blocks, steps.len())
            })?;
        let mut requests = core.and_then(|_| carrier.requester());
        let trial_plan = match core {
            None => TrialPlan::Same(&mut carrier),
            Some(core) => TrialPlan::Distinct {
                work: &mut carrier,
                requests: requests.as_mut().map(|requests| requests as &mut dyn PlanWork),
                core,
            },
        };
        let observed = run(self, trial_plan);
        let (control, ids) = carrier.end();
        rules::undo(table, plan, blocks, &ids)?;
        Ok((observed?, control))
    }
}

/// The function's stage, and the thread of a plan on a core of its own.
fn stage<'f, 'p: 'f>(
    function: &'f mut Function,
    cores: Cores,
    plan: Option<TrialPlan<'p>>,
) -> (Stage<'f>, Option<PlanThread<'f>>) {
    let core = Some(cores.device);
    let (on_function, beside) = match plan {
        None => (None, None),
        Some(TrialPlan::Same(work)) => (Some(work), None),
        Some(TrialPlan::Distinct { work, requests, core }) => {
            (requests, Some(PlanThread { core: Some(core), work }))
        }
    };
    let stage = match on_function {
        None => Stage::new("function", core, function),
        Some(work) => Stage::new("function", core, PlannedSide::new(function, work, BURST)),
    };
    (stage, beside)
}

/// Refuses a trial in which the function's interface failed: what was lost then says nothing of the
/// device but that it broke.
fn check_function(function: &mut Function, device: &End) -> Result<(), DeviceError> {
    match function.take_error() {
        None => Ok(()),
        Some(error) => Err(refused(&format!("forwarding frames on {}", device.link.name), &error)),
    }
}

/// The core of a plan, where it has one of its own, behind those in use.
fn plan_core(plan: &RulesPlan, used: usize) -> Result<Option<u32>, DeviceError> {
    match plan.core {
        ControlCore::Same => Ok(None),
        ControlCore::Distinct => match cores::allowed().get(used) {
            Some(core) => Ok(Some(*core)),
            None => Err(DeviceError::lacks(match used {
                1 => "a core beside the function's: this process may use no more",
                _ => "a core beside the tester's and the function's: this process may use no more",
            })),
        },
    }
}
