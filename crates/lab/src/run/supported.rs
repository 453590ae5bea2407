//! The trials that a device can make, as far as it reported its capabilities beforehand.

use niclab_device::Setup;
use niclab_device::capability::{
    ANALYTICS, APPLICATIONS, DETECTION, ECHO, FRAMES, PROGRAMS, RULES, STORE, STREAM,
};

use super::{ExperimentRun, RunDevice, TaskIndex};

/// `false` where a device said beforehand that it cannot be brought into this state.
pub(crate) fn is_able(device: &RunDevice, setup: &Setup) -> bool {
    device.absent.is_none() && (setup.rules.is_empty() || !lacks_rules(device))
}

/// `false` where a device said beforehand that it cannot make this trial.
pub(crate) fn can_make(device: &RunDevice, run: &ExperimentRun, trial: usize) -> bool {
    lacks(device, run, trial).is_none() && device.absent.is_none()
}

/// The capability for this trial that a device reported missing beforehand.
pub(crate) fn lacks(device: &RunDevice, run: &ExperimentRun, trial: usize) -> Option<&'static str> {
    let trial = &run.trials[trial];
    let needs_rules = trial.plan().is_some() || !run.setups[trial.setup].rules.is_empty();
    if needs_rules && lacks_rules(device) {
        return Some(RULES);
    }
    let about = &device.about;
    let has_hosts = !about.hosts.is_empty();
    match trial.task {
        TaskIndex::Offer { .. } if lacks_named(device, FRAMES) => Some(FRAMES),
        TaskIndex::RoundTrips { .. } if !has_hosts => Some(ECHO),
        TaskIndex::Apply { .. } if !has_hosts => Some(APPLICATIONS),
        TaskIndex::Stream { .. } if !has_hosts => Some(STREAM),
        TaskIndex::Process { .. } if about.programmed.is_empty() => Some(PROGRAMS),
        TaskIndex::Serve { .. } if about.serving.is_empty() => Some(STORE),
        TaskIndex::Detect { .. } if about.detecting.is_empty() => Some(DETECTION),
        TaskIndex::Count { .. } if about.counting.is_empty() => Some(ANALYTICS),
        _ => None,
    }
}

/// `true` where a device said beforehand that it has no rules.
pub(crate) fn lacks_rules(device: &RunDevice) -> bool {
    lacks_named(device, RULES)
}

/// `true` where a device said beforehand that it lacks this.
pub(crate) fn lacks_named(device: &RunDevice, capability: &str) -> bool {
    device.about.not_supported.iter().any(|lacking| lacking == capability)
}
