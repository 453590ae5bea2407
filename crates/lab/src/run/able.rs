//! Which trials a device can make, as far as it said beforehand.

use niclab_device::Setup;

use super::{ExperimentRun, RunDevice, Task};

/// `false` where a device said beforehand that it cannot be brought into this state.
pub(crate) fn is_able(device: &RunDevice, setup: &Setup) -> bool {
    device.absent.is_none() && (setup.rules.is_empty() || !lacks_rules(device))
}

/// `false` where a device said beforehand that it cannot make this trial.
pub(crate) fn can_make(device: &RunDevice, run: &ExperimentRun, trial: usize) -> bool {
    lacks(device, run, trial).is_none() && device.absent.is_none()
}

/// What a device said beforehand that it lacks for this trial.
pub(crate) fn lacks(device: &RunDevice, run: &ExperimentRun, trial: usize) -> Option<&'static str> {
    let trial = &run.trials[trial];
    let needs_rules = trial.plan().is_some() || !run.setups[trial.setup].rules.is_empty();
    if needs_rules && lacks_rules(device) {
        return Some("rules");
    }
    let about = &device.about;
    let has_hosts = !about.hosts.is_empty();
    match trial.task {
        Task::Offer { .. } if lacks_named(device, FRAMES) => Some(FRAMES),
        Task::Exchange { .. } if !has_hosts => Some(ECHO),
        Task::Apply { .. } if !has_hosts => Some(APPLICATIONS),
        Task::Stream { .. } if !has_hosts => Some(STREAM),
        Task::Process { .. } if about.programmed.is_empty() => Some(PROGRAMS),
        Task::Serve { .. } if about.serving.is_empty() => Some(STORE),
        _ => None,
    }
}

/// What a device that takes no frames of a generator says that it lacks.
pub(crate) const FRAMES: &str = "frames";
/// The same of one that cannot exchange messages.
pub(crate) const ECHO: &str = "echo";
/// Of one that has no stamps of any message.
pub(crate) const STAMPS: &str = "stamps";
/// Of one that cannot serve applications.
pub(crate) const APPLICATIONS: &str = "applications";
/// Of one that cannot carry bulk data.
pub(crate) const STREAM: &str = "stream";
/// Of one that runs no programs.
pub(crate) const PROGRAMS: &str = "programs";
/// Of one that has no store.
pub(crate) const STORE: &str = "key-value store";

/// `true` where a device said beforehand that it has no rules.
pub(crate) fn lacks_rules(device: &RunDevice) -> bool {
    lacks_named(device, "rules")
}

/// `true` where a device said beforehand that it lacks this.
pub(crate) fn lacks_named(device: &RunDevice, capability: &str) -> bool {
    device.about.not_supported.iter().any(|lacking| lacking == capability)
}
