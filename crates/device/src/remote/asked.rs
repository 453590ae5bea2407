//! A device whose agent is asked.

use std::path::Path;

use super::files::SentFiles;
use super::name::{AgentPlace, Name};
use super::protocol::{
    AgentAnswer, AgentHost, AgentRequest, OpenDevice, Opened, SIGN, SIGN_EVERY, SILENCE_MAX,
};
use super::start::{AgentStart, start};
use crate::conversation::{Conversation, excerpt};
use crate::face::{DeviceError, DeviceInfo, Fact, HostEnvironment};
use crate::two_hosts::Role;

/// A device, or half a testbed, with the agent that has it.
pub(super) struct AskedDevice {
    /// As it was asked for.
    text: String,
    name: Name,
    role: Role,
    start: AgentStart,
    /// The machine of its agent.
    pub host: AgentHost,
    /// The cores that its agent is to use; `None`: all that it may.
    pub cores: Option<Vec<u32>>,
    pub about: DeviceInfo,
    /// `None` when the agent has failed: the next set-up starts another one.
    agent: Option<Conversation>,
    /// Files that the agent has a copy of.
    sent: SentFiles,
}

impl AskedDevice {
    /// Starts the agent of a device, which is to be opened next.
    pub(super) fn start(
        text: &str,
        (name, role): (Name, Role),
        start: &AgentStart,
    ) -> Result<AskedDevice, DeviceError> {
        let mut device = AskedDevice {
            text: text.to_owned(),
            name,
            role,
            start: start.clone(),
            host: AgentHost::default(),
            cores: None,
            about: DeviceInfo::default(),
            agent: None,
            sent: SentFiles::default(),
        };
        device.connect()?;
        Ok(device)
    }

    fn connect(&mut self) -> Result<(), DeviceError> {
        (self.agent, self.sent) = (None, SentFiles::default());
        let (mut agent, host) = start(&self.text, &self.name.place, &self.start)?;
        agent.give_signs(SIGN, SIGN_EVERY);
        (self.agent, self.host) = (Some(agent), host);
        Ok(())
    }

    /// Has the agent open the device.
    pub(super) fn open(&mut self) -> Result<(), DeviceError> {
        open_at_once(&mut [self])
    }

    fn ask_to_open(&mut self) -> Result<(), DeviceError> {
        self.send(&AgentRequest::Open(OpenDevice {
            name: self.name.device.clone(),
            role: self.role,
            cores: self.cores.clone(),
        }))
    }

    /// Takes the agent's description of the device that it has opened.
    fn opened(&mut self) -> Result<(), DeviceError> {
        let Opened { about, environment } = match self.answer()? {
            AgentAnswer::Opened(opened) => *opened,
            other => return Err(self.confused(&other)),
        };
        let mut about = DeviceInfo { name: self.text.clone(), ..about };
        let place = self.name.place.to_string();
        about.facts.insert(0, Fact { name: "host".into(), value: place.clone() });
        if self.name.place != AgentPlace::Here {
            about.environments.push(HostEnvironment { place, ..environment });
        }
        self.about = about;
        Ok(())
    }

    /// Starts another agent in the place of one that has failed.
    pub(super) fn reconnect(&mut self) -> Result<(), DeviceError> {
        reconnect([self])
    }

    /// Asks, and waits for the answer as long as the agent shows that it works on it.
    pub(super) fn ask(&mut self, request: &AgentRequest) -> Result<AgentAnswer, DeviceError> {
        self.send(request)?;
        self.answer()
    }

    fn send(&mut self, request: &AgentRequest) -> Result<(), DeviceError> {
        let Some(agent) = &mut self.agent else { return Err(self.gone()) };
        agent.send(request).map_err(|error| self.lost(error))
    }

    fn answer(&mut self) -> Result<AgentAnswer, DeviceError> {
        let Some(agent) = &mut self.agent else { return Err(self.gone()) };
        match answer(agent) {
            Ok(AgentAnswer::Refused(error)) => Err(self.located(error)),
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.lost(error)),
        }
    }

    /// The agent is gone; the next set-up starts another one.
    fn lost(&mut self, error: DeviceError) -> DeviceError {
        self.agent = None;
        interrupted(error)
    }

    /// Hands over the files that the agent does not have.
    pub(super) fn send_files<'a>(
        &mut self,
        paths: impl Iterator<Item = &'a Path>,
    ) -> Result<(), DeviceError> {
        let mut sent = std::mem::take(&mut self.sent);
        let done = sent.send(paths, |part| match self.ask(&AgentRequest::Keep(part))? {
            AgentAnswer::Kept => Ok(()),
            other => Err(self.confused(&other)),
        });
        self.sent = sent;
        done
    }

    fn gone(&self) -> DeviceError {
        let reason = "its agent has ended; the next set-up starts another one".to_owned();
        DeviceError::Interrupted { device: self.text.clone(), reason }
    }

    /// Ends an agent that gave the answer to another question.
    pub(super) fn confused(&mut self, answer: &AgentAnswer) -> DeviceError {
        let answer = serde_json::to_string(answer).unwrap_or_default();
        self.end(&format!("gave the answer to another question: {}", excerpt(&answer)))
    }

    /// Ends an agent that did this.
    pub(super) fn end(&mut self, what: &str) -> DeviceError {
        match self.agent.take() {
            Some(mut agent) => interrupted(agent.fail(what)),
            None => self.gone(),
        }
    }

    /// An error of the other host, which says so.
    fn located(&self, error: DeviceError) -> DeviceError {
        let place = &self.name.place;
        match error {
            DeviceError::BadName { reason, .. } => {
                DeviceError::BadName { text: self.text.clone(), reason }
            }
            DeviceError::Absent { what, remedy } => {
                DeviceError::Absent { what: format!("on {place}: {what}"), remedy }
            }
            DeviceError::Rights { what, remedy } => {
                DeviceError::Rights { what: format!("on {place}: {what}"), remedy }
            }
            DeviceError::Cores { needed, available, remedy, .. } => {
                DeviceError::Cores { device: self.text.clone(), needed, available, remedy }
            }
            DeviceError::Broken { reason, .. } => {
                DeviceError::Broken { device: self.text.clone(), reason }
            }
            DeviceError::NoServer { reason } => {
                DeviceError::NoServer { reason: format!("on {place}: {reason}") }
            }
            DeviceError::Silent { reason } => {
                DeviceError::Silent { reason: format!("on {place}: {reason}") }
            }
            DeviceError::Interrupted { reason, .. } => {
                DeviceError::Interrupted { device: self.text.clone(), reason }
            }
            error @ (DeviceError::NotSupported { .. }
            | DeviceError::BadLoad { .. }
            | DeviceError::BadPlan { .. }
            | DeviceError::TooLate) => error,
        }
    }
}

/// Has the agents of these devices open them, all at the same time: the link between two ports
/// comes up when both are started. An agent that does not open its device ends.
///
/// # Errors
/// The first one, after all have answered; it says the others too.
pub(super) fn open_at_once(devices: &mut [&mut AskedDevice]) -> Result<(), DeviceError> {
    let asked: Vec<_> = devices.iter_mut().map(|device| device.ask_to_open()).collect();
    let opened = devices.iter_mut().zip(asked).map(|(device, asked)| {
        let opened = asked.and_then(|()| device.opened());
        opened.inspect_err(|_| device.agent = None)
    });
    let failed: Vec<DeviceError> = opened.filter_map(Result::err).collect();
    failed.into_iter().reduce(DeviceError::with).map_or(Ok(()), Err)
}

/// Starts other agents in the place of those that have failed.
///
/// # Errors
/// As [`open_at_once`].
pub(super) fn reconnect<const N: usize>(devices: [&mut AskedDevice; N]) -> Result<(), DeviceError> {
    let mut gone: Vec<_> = devices.into_iter().filter(|device| device.agent.is_none()).collect();
    if let Err(error) = gone.iter_mut().try_for_each(|device| device.connect()) {
        // None of them has opened its device.
        gone.iter_mut().for_each(|device| device.agent = None);
        return Err(interrupted(error));
    }
    open_at_once(&mut gone).map_err(interrupted)
}

/// A failure of the agent or of the way to it, while the device may be well.
fn interrupted(error: DeviceError) -> DeviceError {
    match error {
        DeviceError::Broken { device, reason } => DeviceError::Interrupted { device, reason },
        error => error,
    }
}

/// The agent's answer.
fn answer(agent: &mut Conversation) -> Result<AgentAnswer, DeviceError> {
    loop {
        match agent.receive(SILENCE_MAX)? {
            AgentAnswer::Working => {}
            answer => return Ok(answer),
        }
    }
}
