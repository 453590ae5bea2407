//! Trials on the wire: a load, and the operations of a plan on the interface's rules meanwhile.

use niclab_load::rings::BURST;

use super::name::Path;
use super::rings::Rings;
use super::rules::{self, RuleTable};
use super::wire_counters::WireCounters;
use super::{End, refused};
use crate::control::{Carrier, InstalledBlock, Patterns};
use crate::cores::{self, Cores};
use crate::face::DeviceError;
use crate::pair::{PlanThread, PlanWork, PlannedSide, Stage, Trial, TrialPlan};
use crate::plan::{ControlCore, RulesPlan};
use crate::{Load, LoadObservation};

/// What a trial needs of the testbed.
pub(super) struct TrialWire<'a> {
    /// The device's name.
    pub name: &'a str,
    pub path: Path,
    pub rings: &'a mut Rings,
    pub cores: Cores,
    pub tester: &'a End,
    pub device: &'a End,
}

impl TrialWire<'_> {
    /// Offers a load, while a plan is carried out, if there is one.
    pub(super) fn run(
        &mut self,
        load: &Load,
        plan: Option<TrialPlan<'_>>,
    ) -> Result<LoadObservation, DeviceError> {
        let TrialWire { rings, tester, device, .. } = self;
        rings.drain()?;
        let counted = WireCounters::now(self.path, tester, device)?;
        let depth = rings.function.depth() as u32;
        let trial = Trial { device: self.name, load, depth, core: Some(self.cores.tester) };
        let core = Some(self.cores.device);
        let (on_function, beside) = match plan {
            None => (None, None),
            Some(TrialPlan::Same(work)) => (Some(work), None),
            Some(TrialPlan::Distinct { work, requests, core }) => {
                (requests, Some(PlanThread { core: Some(core), work }))
            }
        };
        let function = match on_function {
            None => Stage::new("function", core, &mut rings.function),
            Some(work) => {
                Stage::new("function", core, PlannedSide::new(&mut rings.function, work, BURST))
            }
        };
        let ends = (&mut rings.outlet, &mut rings.inlet);
        let observed = trial.run(ends, vec![function], beside);
        // What was lost then says nothing of the device but that it broke.
        if let Some(error) = rings.function.take_error() {
            return Err(refused(&format!("forwarding frames on {}", device.link.name), &error));
        }
        let mut observation = observed?;
        let sink = rings.inlet.counters();
        let sink = sink.map_err(|e| refused("reading the sink's counters", &e))?;
        counted.account(&mut observation, sink.dropped, (tester, device))?;
        Ok(observation)
    }

    /// Offers a load while a plan works on the rules. The rules of the set-up are back afterwards.
    pub(super) fn run_planned<P: RuleTable>(
        &mut self,
        (load, plan): (&Load, &RulesPlan),
        table: &mut P,
        blocks: &mut [InstalledBlock<u32>],
    ) -> Result<LoadObservation, DeviceError> {
        rules::check_plan::<P>(plan, true)?;
        let core = plan_core(plan)?;
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
        let observed = self.run(load, Some(trial_plan));
        let (control, ids) = carrier.end();
        rules::undo(table, plan, blocks, &ids)?;
        let mut observation = observed?;
        observation.control = Some(control);
        Ok(observation)
    }
}

/// The core of a plan, where it has one of its own.
fn plan_core(plan: &RulesPlan) -> Result<Option<u32>, DeviceError> {
    match plan.core {
        ControlCore::Same => Ok(None),
        ControlCore::Distinct => match cores::allowed().get(2) {
            Some(core) => Ok(Some(*core)),
            None => Err(DeviceError::lacks(
                "a core beside the tester's and the function's: there is none",
            )),
        },
    }
}
