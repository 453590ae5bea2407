//! A peer program on the other end of two pipes.
//!
//! The protocol: the peer says `ok ...` once it is ready; then one command per line is answered by
//! one line, `ops ns ...` (unsigned integers), `ok ...` or `error ...`. A command may bring lines
//! of data behind its own.
#![forbid(unsafe_code)]

mod place;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub use place::peers;

/// What one side did in a slice, or a peer answered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// Operations done.
    pub ops: u64,
    /// Nanoseconds they took.
    pub ns: u64,
    /// What else the peer said, such as a checksum.
    pub rest: Vec<u64>,
}

impl Answer {
    /// Returns operations per second.
    pub fn rate(&self) -> f64 {
        self.ops as f64 * 1e9 / self.ns.max(1) as f64
    }
}

/// Why a peer was no help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The peer's answer is not `ops ns ...`, or it is an error.
    #[error("peer {peer} answered {answer:?} to {command:?}")]
    Answer {
        /// The program.
        peer: String,
        /// What it was told.
        command: String,
        /// What it said.
        answer: String,
    },
    /// The peer could not be started, or a pipe failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

/// A running peer program. It ends when this is dropped.
#[derive(Debug)]
pub struct Peer {
    name: String,
    greeting: String,
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts `program` and waits until it says that it is ready.
    pub fn spawn(program: &Path, arguments: &[&str]) -> Result<Self, PeerError> {
        let stem = program.file_stem().unwrap_or(program.as_os_str());
        let name = [&[&*stem.to_string_lossy()], arguments].concat().join(" ");
        let fail = |source| PeerError::Io { what: format!("start {name}"), source };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(fail)?;
        let (Some(commands), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(fail(std::io::ErrorKind::BrokenPipe.into()));
        };
        let answers = BufReader::new(answers);
        let mut peer = Self { name, greeting: String::new(), child, commands, answers };
        let greeting = peer.line()?;
        peer.greeting = peer.ok("its start", greeting)?;
        Ok(peer)
    }

    /// Returns the program and its arguments.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the peer said of itself when it started.
    pub fn greeting(&self) -> &str {
        &self.greeting
    }

    /// Sends `command` and returns its figures.
    pub fn ask(&mut self, command: &str) -> Result<Answer, PeerError> {
        let line = self.send(command)?;
        parse(&line).ok_or_else(|| self.refusal(command, line))
    }

    /// Sends `command` and returns what follows the `ok` of its answer.
    pub fn tell(&mut self, command: &str) -> Result<String, PeerError> {
        let line = self.send(command)?;
        self.ok(command, line)
    }

    fn send(&mut self, command: &str) -> Result<String, PeerError> {
        writeln!(self.commands, "{command}").and_then(|()| self.commands.flush()).map_err(
            |source| PeerError::Io { what: format!("tell {} {command:?}", self.name), source },
        )?;
        self.line()
    }

    fn line(&mut self) -> Result<String, PeerError> {
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .map_err(|source| PeerError::Io { what: format!("read from {}", self.name), source })?;
        Ok(line.trim_end().to_owned())
    }

    fn ok(&self, command: &str, line: String) -> Result<String, PeerError> {
        match line.strip_prefix("ok") {
            Some(rest) => Ok(rest.trim_start().to_owned()),
            None => Err(self.refusal(command, line)),
        }
    }

    fn refusal(&self, command: &str, answer: String) -> PeerError {
        // A command may bring thousands of lines.
        let command = command.lines().next().unwrap_or_default().to_owned();
        PeerError::Answer { peer: self.name.clone(), command, answer }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A peer that has ended by itself is no reason for a complaint.
        let _ = writeln!(self.commands, "quit");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the figures of an answer, `None` where it has none.
fn parse(line: &str) -> Option<Answer> {
    let numbers: Option<Vec<u64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    match numbers?.as_slice() {
        [ops, ns, rest @ ..] => Some(Answer { ops: *ops, ns: *ns, rest: rest.to_vec() }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHO: &str = "echo ok echo 1; while read -r a b c; do echo \"$b $c\"; done";

    fn shell(script: &str) -> Result<Peer, PeerError> {
        Peer::spawn(Path::new("/bin/sh"), &["-c", script])
    }

    #[test]
    fn commands_and_answers() {
        let mut peer = shell(ECHO).unwrap();
        assert_eq!(peer.greeting(), "echo 1");
        let answer = peer.ask("x 5 20 7").unwrap();
        assert_eq!(answer, Answer { ops: 5, ns: 20, rest: vec![7] });
        assert_eq!(answer.rate(), 2.5e8);
        assert_eq!(peer.tell("x ok done").unwrap(), "done");
    }

    #[test]
    fn refusals_are_errors() {
        let mut peer = shell(ECHO).unwrap();
        let refusal = peer.ask("x error no memory").unwrap_err().to_string();
        assert!(refusal.ends_with("answered \"error no memory\" to \"x error no memory\""));
        assert!(peer.ask("x 5").is_err());
        assert!(peer.tell("x 5 6").is_err());
    }

    #[test]
    fn a_peer_that_never_was_ready() {
        let error = shell("exit 1").unwrap_err().to_string();
        assert!(error.ends_with("answered \"\" to \"its start\""), "{error}");
        assert!(Peer::spawn(Path::new("/no/such/peer"), &[]).is_err());
    }
}
