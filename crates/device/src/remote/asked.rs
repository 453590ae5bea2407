//! A device whose agent is asked.

use std::path::Path;

use super::files::SentFiles;
use super::name::{AgentPlace, Name};
use super::protocol::{AgentAnswer, AgentRequest, OpenDevice, Opened, SILENCE_MAX, TakenCores};
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
    pub about: DeviceInfo,
    /// `None` when the agent has failed: the next set-up starts another one.
    agent: Option<Conversation>,
    /// Files that the agent has a copy of.
    sent: SentFiles,
    /// The machine that it runs on.
    machine: String,
    /// The cores of the other half, of whatever machine.
    others: Option<TakenCores>,
}

impl AskedDevice {
    /// Starts the agent of a device, and has it open the device. Where the other half of a testbed
    /// is on the same machine, its cores are left alone.
    pub(super) fn open(
        text: &str,
        (name, role): (Name, Role),
        start: &AgentStart,
        others: Option<TakenCores>,
    ) -> Result<AskedDevice, DeviceError> {
        let mut device = AskedDevice {
            text: text.to_owned(),
            name,
            role,
            start: start.clone(),
            about: DeviceInfo::default(),
            agent: None,
            sent: SentFiles::default(),
            machine: String::new(),
            others,
        };
        device.connect()?;
        Ok(device)
    }

    /// Starts an agent, and has it open the device.
    fn connect(&mut self) -> Result<(), DeviceError> {
        (self.agent, self.sent) = (None, SentFiles::default());
        self.agent = Some(start(&self.text, &self.name.place, &self.start)?);
        let Opened { about, environment, machine } =
            match self.ask(&AgentRequest::Open(OpenDevice {
                name: self.name.device.clone(),
                role: self.role,
                others: self.others.clone(),
            }))? {
                AgentAnswer::Opened(opened) => *opened,
                other => return Err(self.confused(&other)),
            };
        let mut about = DeviceInfo { name: self.text.clone(), ..about };
        let place = self.name.place.to_string();
        about.facts.insert(0, Fact { name: "host".into(), value: place.clone() });
        if self.name.place != AgentPlace::Here {
            about.environments.push(HostEnvironment { place, ..environment });
        }
        (self.about, self.machine) = (about, machine);
        Ok(())
    }

    /// The cores that it has, for the other half.
    pub(super) fn taken(&self) -> TakenCores {
        let cores = self.about.places.iter().filter_map(|place| place.core).collect();
        TakenCores { machine: self.machine.clone(), cores }
    }

    /// Shows the agent that somebody waits for its work, if it does any. Where it has ended, the
    /// next request tells.
    pub(super) fn show_waiting(&mut self) {
        if let Some(agent) = &mut self.agent {
            let _ = agent.send(&AgentRequest::Waiting);
        }
    }

    /// Starts another agent in the place of one that has failed.
    pub(super) fn reconnect(&mut self) -> Result<(), DeviceError> {
        match self.agent {
            Some(_) => Ok(()),
            None => self.connect().map_err(interrupted),
        }
    }

    /// Asks, and waits for the answer as long as the agent shows that it works on it.
    pub(super) fn ask(&mut self, request: &AgentRequest) -> Result<AgentAnswer, DeviceError> {
        self.ask_beside(request, || {})
    }

    /// The same, and calls `beside` each time that the agent shows that it works.
    pub(super) fn ask_beside(
        &mut self,
        request: &AgentRequest,
        beside: impl FnMut(),
    ) -> Result<AgentAnswer, DeviceError> {
        let answer = match &mut self.agent {
            Some(agent) => agent.send(request).and_then(|()| answer(agent, beside)),
            None => Err(self.gone()),
        };
        match answer {
            Ok(AgentAnswer::Refused(error)) => Err(self.located(error)),
            Ok(answer) => Ok(answer),
            Err(error) => {
                self.agent = None;
                Err(interrupted(error))
            }
        }
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

    /// An answer to another question.
    pub(super) fn confused(&mut self, answer: &AgentAnswer) -> DeviceError {
        let answer = serde_json::to_string(answer).unwrap_or_default();
        let what = format!("gave the answer to another question: {}", excerpt(&answer));
        let error = self.agent.as_mut().map(|agent| agent.fail(&what));
        self.agent = None;
        error.map_or_else(|| self.gone(), interrupted)
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
            | DeviceError::BadPlan { .. }) => error,
        }
    }
}

/// A failure of the agent or of the way to it, while the device may be well.
fn interrupted(error: DeviceError) -> DeviceError {
    match error {
        DeviceError::Broken { device, reason } => DeviceError::Interrupted { device, reason },
        error => error,
    }
}

/// The agent's answer. Until it comes, each sign of the agent gets one of this side.
fn answer(agent: &mut Conversation, mut beside: impl FnMut()) -> Result<AgentAnswer, DeviceError> {
    loop {
        match agent.receive(SILENCE_MAX)? {
            AgentAnswer::Working => {
                agent.send(&AgentRequest::Waiting)?;
                beside();
            }
            answer => return Ok(answer),
        }
    }
}
