//! The interface of everything that is measured.

mod about;
mod breakdown;
mod error;
mod hosts;
#[cfg(test)]
pub(crate) mod measured;
mod processed;
mod requests;
mod setup;
mod task;

pub use self::about::{DeviceInfo, Fact, HostEnvironment, PathNode};
pub use self::breakdown::{BreakdownObservation, BreakdownParts, BreakdownTerm};
pub use self::error::DeviceError;
pub use self::hosts::{
    Family, Host, RoundTrips, RoundTripsObservation, StreamObservation, Streaming,
};
pub use self::processed::{Processing, ProgramObservation, WorstCase};
pub use self::requests::{Application, Energy, LinkUse, RequestsObservation};
pub use self::setup::{Function, ProofResult, Receive, RuleBlock, RuleProof, Setup, SetupReport};
pub use self::task::{Observation, Task};

use crate::capability;
use crate::rule_case::{RuleCases, RuleCasesObservation};
use crate::two_hosts::{HalfObservation, HalfTask};

/// A device under test with its generator and its sink.
pub trait Testbed {
    /// Its description and capabilities.
    fn about(&self) -> &DeviceInfo;

    /// Brings the device into the state that `setup` describes, whatever state it was in.
    ///
    /// Refused rules are data and stand in the report; an error means that nothing can be measured.
    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError>;

    /// Carries out a task.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] where the device lacks the task as a whole
    /// ([`Task::not_supported`]) or a part of it; [`DeviceError::BadLoad`] for a number that is out
    /// of range; [`DeviceError::BadPlan`] for a plan that does not fit the set-up, or has no end
    /// without a load; [`DeviceError::Absent`] where no server answers; [`DeviceError::Broken`].
    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError>;

    /// Carries out cases of rules and frames on the queues of the set-up, one after the other, each
    /// without other rules. Afterwards the device needs another set-up.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] where the device has no rules, or cannot show where single
    /// frames come out; [`DeviceError::Broken`].
    fn try_rules(&mut self, cases: &RuleCases) -> Result<RuleCasesObservation, DeviceError> {
        let _ = cases;
        Err(DeviceError::lacks(capability::RULE_CASES))
    }

    /// Carries out one half's part of a testbed of two hosts.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] of a whole testbed, and for tasks of the other half; those of
    /// [`Testbed::measure`].
    fn measure_half(&mut self, task: &HalfTask) -> Result<HalfObservation, DeviceError> {
        let _ = task;
        Err(DeviceError::lacks(capability::TWO_HOSTS))
    }
}
