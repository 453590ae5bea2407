//! `ssh://HOST=DEVICE`, `exec:COMMAND=DEVICE`: a device of another host; and `TESTER -> DEVICE`: a
//! testbed of two hosts.
//!
//! niclab starts its agent there (`niclab agent`) by the system's ssh, or by any command that hands
//! on standard input and output, and asks it as it would ask the device. Keys, users and names of
//! hosts are ssh's business. The agent ends with its input: nothing is left on the other host.

mod agent;
mod asked;
mod cores;
mod files;
mod name;
mod output;
mod pair;
pub mod protocol;
mod start;
#[cfg(test)]
mod tests;

pub use self::agent::serve;
use self::asked::AskedDevice;
use self::files::{of_setup, of_task};
use self::name::Name;
pub use self::name::{device_of, is_remote, of_halves};
use self::pair::TwoHosts;
use self::protocol::{AgentAnswer, AgentRequest};
pub use self::start::AgentStart;
use crate::face::{DeviceError, DeviceInfo, Observation, Setup, SetupReport, Task, Testbed};
use crate::rule_case::{RuleCases, RuleCasesObservation};
use crate::two_hosts::Role;

/// A device of another host, as seen from here.
struct RemoteBed(AskedDevice);

/// Opens a device of another host, or a testbed of two hosts.
///
/// # Errors
/// [`DeviceError::BadName`]; [`DeviceError::Broken`] and [`DeviceError::Interrupted`]: an agent
/// cannot be started, is of another version, or ended; those of the device.
pub fn open(text: &str, start: &AgentStart) -> Result<Box<dyn Testbed>, DeviceError> {
    if let Some(halves) = name::halves(text) {
        if halves.0 == halves.1 {
            let reason = "tester and device are one port; give two that are cabled to each other";
            return Err(DeviceError::BadName { text: text.into(), reason: reason.into() });
        }
        return Ok(Box::new(TwoHosts::open(text, halves, start)?));
    }
    let mut device = AskedDevice::start(text, (Name::parse(text)?, Role::Whole), start)?;
    device.open()?;
    Ok(Box::new(RemoteBed(device)))
}

impl Testbed for RemoteBed {
    fn about(&self) -> &DeviceInfo {
        &self.0.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        self.0.reconnect()?;
        self.0.send_files(of_setup(setup))?;
        match self.0.ask(&AgentRequest::Setup(setup.clone()))? {
            AgentAnswer::Ready(report) => Ok(report),
            other => Err(self.0.confused(&other)),
        }
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let needs_setup = matches!(task, Task::Load { .. } | Task::Plan(_));
        if !needs_setup {
            self.0.reconnect()?;
        }
        self.0.send_files(of_task(task).into_iter())?;
        match self.0.ask(&AgentRequest::Measure(task.clone()))? {
            AgentAnswer::Observed(observation) => Ok(*observation),
            other => Err(self.0.confused(&other)),
        }
    }

    fn try_rules(&mut self, cases: &RuleCases) -> Result<RuleCasesObservation, DeviceError> {
        self.0.reconnect()?;
        match self.0.ask(&AgentRequest::TryRules(cases.clone()))? {
            AgentAnswer::Tried(observation) => Ok(observation),
            other => Err(self.0.confused(&other)),
        }
    }
}
