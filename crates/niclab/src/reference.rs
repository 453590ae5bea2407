//! The testbed of reference trials: a software card of its own, beside the devices of the run.

use niclab_device::{DeviceError, LoadObservation, Observation, Plan, Task, Testbed};
use niclab_lab::reference::{is_worth, load, setup};
use niclab_lab::run::Run;

use crate::output::say;

/// Makes the reference trials of a run.
pub struct ReferenceBed(Box<dyn Testbed>);

impl ReferenceBed {
    /// Opens the card, if reference trials tell something of the run. A run goes on without them
    /// where the card cannot be had.
    pub fn open(run: &Run) -> Option<ReferenceBed> {
        let open = || {
            let mut bed = niclab_device::open("soft")?;
            bed.setup(&setup())?;
            Ok(ReferenceBed(bed))
        };
        is_worth(run).then(open).and_then(or_warn)
    }

    /// Makes a trial.
    pub fn measure(&mut self) -> Option<LoadObservation> {
        let task = Task::Load { load: load(), plan: Plan::Rest };
        or_warn(self.0.measure(&task).and_then(Observation::into_load))
    }
}

/// The result, or `None` after saying what failed.
fn or_warn<T>(result: Result<T, DeviceError>) -> Option<T> {
    result.inspect_err(|error| say(&format!("reference trials stop here: {error}"))).ok()
}
