//! `ssh://HOST=DEVICE`, `exec:COMMAND=DEVICE`: a device of another host.
//!
//! niclab starts its agent there (`niclab agent`) by the system's ssh, or by any command that hands
//! on standard input and output, and asks it as it would ask the device. Keys, users and names of
//! hosts are ssh's business. The agent ends with its input: nothing is left on the other host.

mod agent;
mod files;
mod name;
pub mod protocol;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub use self::agent::serve;
use self::files::{SentFiles, of_setup, of_task};
pub use self::name::is_remote;
use self::name::{AgentPlace, Name};
use self::protocol::{AgentAnswer, AgentRequest, Greeting, Opened, VERSION};
use crate::conversation::{Conversation, Counterpart, excerpt};
use crate::face::{
    DeviceError, DeviceInfo, Fact, HostEnvironment, Observation, Setup, SetupReport, Task, Testbed,
};
use crate::rule_case::{RuleCases, RuleCasesObservation};

/// How long the agent may take to greet: ssh connects, and the program may have to be copied.
const GREETING_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a working agent may be silent: ten of its signs.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// How long the agent may take to put its host in order once its input has ended.
const GRACE: Duration = Duration::from_secs(15);

/// Bytes that a login shell may write before the agent greets.
const NOISE_MAX: usize = 64 << 10;

/// How an agent is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentStart {
    /// The program that is copied to the other host and run there; `None`: the `niclab` that is
    /// installed there.
    pub deployed: Option<PathBuf>,
}

/// A device of another host, as seen from here.
struct RemoteBed {
    /// As it was asked for.
    text: String,
    name: Name,
    start: AgentStart,
    about: DeviceInfo,
    /// `None` when the agent has failed: the next set-up starts another one.
    agent: Option<Conversation>,
    /// Files that the agent has a copy of.
    sent: SentFiles,
}

/// Opens a device of another host.
///
/// # Errors
/// [`DeviceError::BadName`]; [`DeviceError::Broken`] and [`DeviceError::Interrupted`]: the agent
/// cannot be started, is of another version, or ended; those of the device.
pub fn open(text: &str, start: &AgentStart) -> Result<Box<dyn Testbed>, DeviceError> {
    let name = Name::parse(text)?;
    let mut bed = RemoteBed {
        text: text.to_owned(),
        name,
        start: start.clone(),
        about: DeviceInfo::default(),
        agent: None,
        sent: SentFiles::default(),
    };
    bed.connect()?;
    Ok(Box::new(bed))
}

impl RemoteBed {
    /// Starts an agent, and has it open the device.
    fn connect(&mut self) -> Result<(), DeviceError> {
        (self.agent, self.sent) = (None, SentFiles::default());
        self.agent = Some(start(&self.text, &self.name.place, &self.start)?);
        let Opened { about, environment } =
            match self.ask(&AgentRequest::Open(self.name.device.clone()))? {
                AgentAnswer::Opened(opened) => *opened,
                other => return Err(self.confused(&other)),
            };
        let mut about = DeviceInfo { name: self.text.clone(), ..about };
        let place = self.name.place.to_string();
        about.facts.insert(0, Fact { name: "host".into(), value: place.clone() });
        about.environment = Some(Box::new(HostEnvironment { place, ..environment }));
        self.about = about;
        Ok(())
    }

    /// Starts another agent in the place of one that has failed.
    fn reconnect(&mut self) -> Result<(), DeviceError> {
        match self.agent {
            Some(_) => Ok(()),
            None => self.connect().map_err(interrupted),
        }
    }

    /// Asks, and waits for the answer as long as the agent shows that it works on it.
    fn ask(&mut self, request: &AgentRequest) -> Result<AgentAnswer, DeviceError> {
        let answer = match &mut self.agent {
            Some(agent) => agent.send(request).and_then(|()| answer(agent)),
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
    fn send_files<'a>(&mut self, paths: impl Iterator<Item = &'a Path>) -> Result<(), DeviceError> {
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
    fn confused(&mut self, answer: &AgentAnswer) -> DeviceError {
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

impl Testbed for RemoteBed {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        self.reconnect()?;
        self.send_files(of_setup(setup))?;
        match self.ask(&AgentRequest::Setup(setup.clone()))? {
            AgentAnswer::Ready(report) => Ok(report),
            other => Err(self.confused(&other)),
        }
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let needs_setup = matches!(task, Task::Load { .. } | Task::Plan(_));
        if !needs_setup {
            self.reconnect()?;
        }
        self.send_files(of_task(task).into_iter())?;
        match self.ask(&AgentRequest::Measure(task.clone()))? {
            AgentAnswer::Observed(observation) => Ok(*observation),
            other => Err(self.confused(&other)),
        }
    }

    fn try_rules(&mut self, cases: &RuleCases) -> Result<RuleCasesObservation, DeviceError> {
        self.reconnect()?;
        match self.ask(&AgentRequest::TryRules(cases.clone()))? {
            AgentAnswer::Tried(observation) => Ok(observation),
            other => Err(self.confused(&other)),
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

/// The agent's answer.
fn answer(agent: &mut Conversation) -> Result<AgentAnswer, DeviceError> {
    loop {
        match agent.receive(SILENCE_MAX)? {
            AgentAnswer::Working => {}
            answer => return Ok(answer),
        }
    }
}

/// Starts an agent and hears its greeting.
fn start(text: &str, place: &AgentPlace, start: &AgentStart) -> Result<Conversation, DeviceError> {
    let broken = |reason: String| DeviceError::Broken { device: text.to_owned(), reason };
    let program = match &start.deployed {
        None => None,
        Some(path) => Some(read_program(path).map_err(|e| broken(e.to_string()))?),
    };
    let command = command(place, program.as_ref().map(Vec::len));
    let counterpart = Counterpart { device: text, program: "its agent", grace: GRACE, usual: &[] };
    let mut agent = Conversation::start(command, counterpart).map_err(|e| {
        let remedy = match (place, e.kind()) {
            (AgentPlace::Ssh(_), io::ErrorKind::NotFound) => ": install ssh (openssh-client)",
            _ => "",
        };
        broken(format!("its agent cannot be started: {e}{remedy}"))
    })?;
    if let Some(program) = program {
        agent.write(program);
    }
    match greeting(&mut agent) {
        Ok(Some(version)) if version == VERSION => Ok(agent),
        Ok(Some(version)) => Err(agent.fail(&format!(
            "is niclab {}, this one is {VERSION}: install the same there, or copy this one with \
             --deploy",
            excerpt(&version)
        ))),
        Ok(None) => Err(agent.fail("does not greet as niclab's does")),
        Err(error) => Err(explained(error, place, start)),
    }
}

/// The version in the agent's greeting; `None` where other lines come without an end.
fn greeting(agent: &mut Conversation) -> Result<Option<String>, DeviceError> {
    let mut noise = 0;
    while noise < NOISE_MAX {
        let line = agent.line(GREETING_TIMEOUT)?;
        if let Ok(Greeting { niclab_agent }) = serde_json::from_str(&line) {
            return Ok(Some(niclab_agent));
        }
        noise += line.len();
    }
    Ok(None)
}

/// Adds the remedy to the error of an agent that never greeted.
fn explained(error: DeviceError, place: &AgentPlace, start: &AgentStart) -> DeviceError {
    let DeviceError::Broken { device, reason } = error else { return error };
    // 255 is ssh's own; 126 and 127 are the shell's (POSIX, 2.8.2).
    let ended = |status: &str| reason.contains(&format!("exit status: {status}"));
    let remedy = match place {
        AgentPlace::Ssh(destination) if ended("255") => format!(
            "; `ssh -o BatchMode=yes {destination} true` has to work without a question: keys, \
             users and names of hosts are set in ssh's configuration"
        ),
        _ if start.deployed.is_some() && ended("126") => {
            "; the copy cannot be run there: TMPDIR may forbid it, or the machine is another one"
                .to_owned()
        }
        _ if start.deployed.is_none() && ended("127") => {
            "; install niclab there, in the PATH of a command without a login, or copy this one \
             with --deploy"
                .to_owned()
        }
        _ => String::new(),
    };
    DeviceError::Broken { device, reason: reason + &remedy }
}

/// The program that is copied.
fn read_program(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
}

/// The command that starts an agent. With `copied`, the command first copies a program of so many
/// bytes from its standard input.
fn command(place: &AgentPlace, copied: Option<usize>) -> Command {
    // The copy is gone when the agent ends, however it ends.
    let agent = match copied {
        None => "niclab agent".to_owned(),
        Some(len) => format!(
            "sh -c 'umask 077; d=$(mktemp -d) || exit 1; trap \"rm -rf $d\" EXIT; \
             trap \"exit 1\" HUP INT TERM; head -c {len} >$d/niclab && chmod 700 $d/niclab && \
             $d/niclab agent'"
        ),
    };
    match place {
        AgentPlace::Ssh(destination) => {
            let mut command = Command::new("ssh");
            // No question, which nobody would answer; a dead connection is seen.
            command.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
            command.args(["-o", "ServerAliveInterval=3", "-o", "ServerAliveCountMax=3"]);
            command.arg("--").arg(destination).arg(agent);
            command
        }
        AgentPlace::Exec(prefix) => {
            let mut command = Command::new("sh");
            command.arg("-c").arg(format!("exec {prefix} {agent}"));
            command
        }
    }
}
