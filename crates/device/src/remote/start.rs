//! Starting an agent, and hearing its greeting.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::name::AgentPlace;
use super::protocol::{AgentHost, Greeting, VERSION};
use crate::conversation::{Conversation, Counterpart, excerpt};
use crate::face::DeviceError;

/// How long the agent may take to greet: ssh connects, and the program may have to be copied.
const GREETING_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the agent may take to restore its host after its input has ended.
const GRACE: Duration = Duration::from_secs(15);

/// Bytes that a login shell may write before the agent greets.
const NOISE_MAX: usize = 64 << 10;

/// How agents are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentStart {
    /// The niclab program of this host.
    pub program: PathBuf,
    /// Copy it to other hosts and run it there, instead of the `niclab` that is installed there.
    pub deploy: bool,
}

/// Starts an agent and hears its greeting, which names its machine.
pub(super) fn start(
    text: &str,
    place: &AgentPlace,
    start: &AgentStart,
) -> Result<(Conversation, AgentHost), DeviceError> {
    let broken = |reason: String| DeviceError::Broken { device: text.to_owned(), reason };
    let program = match start.deploy && *place != AgentPlace::Here {
        false => None,
        true => Some(read_program(&start.program).map_err(|e| broken(e.to_string()))?),
    };
    let command = command(place, start, program.as_ref().map(Vec::len));
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
        Ok(Some(Greeting { niclab_agent, host })) if niclab_agent == VERSION => Ok((agent, host)),
        Ok(Some(Greeting { niclab_agent, .. })) => Err(agent.fail(&format!(
            "is niclab {}, this one is {VERSION}: install the same there, or copy this one with \
             --deploy",
            excerpt(&niclab_agent)
        ))),
        Ok(None) => Err(agent.fail("does not greet as niclab's does")),
        Err(error) => Err(explained(error, place, start)),
    }
}

/// The agent's greeting; `None` where other lines come without an end.
fn greeting(agent: &mut Conversation) -> Result<Option<Greeting>, DeviceError> {
    let mut noise = 0;
    while noise < NOISE_MAX {
        let line = agent.line(GREETING_TIMEOUT)?;
        if let Ok(greeting) = serde_json::from_str(&line) {
            return Ok(Some(greeting));
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
        _ if start.deploy && ended("126") => {
            "; the copy cannot be run there: TMPDIR may forbid it, or the machine is another one"
                .to_owned()
        }
        _ if !start.deploy && ended("127") => {
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

/// The command that starts an agent. With `copied`, it first reads the program, which has that many
/// bytes, from its standard input.
fn command(place: &AgentPlace, start: &AgentStart, copied: Option<usize>) -> Command {
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
        AgentPlace::Here => {
            let mut command = Command::new(&start.program);
            command.arg("agent");
            command
        }
        AgentPlace::Ssh(destination) => {
            let mut command = Command::new("ssh");
            // ssh asks no question, because nobody would answer, and notices a dead connection.
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
