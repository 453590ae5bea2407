//! A peer program: one command per line, one answer per line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::paired::Slice;

/// A running peer. It is told to quit when dropped.
pub struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts `program`, pinned by itself to `core`, and waits until it is ready.
    pub fn start(program: &str, core: usize) -> Result<Self, String> {
        let mut child = Command::new(program)
            .arg(core.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes to the peer".into());
        };
        let mut peer = Self { child, input, output: BufReader::new(output) };
        let banner = peer.answer()?;
        println!("# peer: {banner}");
        Ok(peer)
    }

    /// Sends one command; its answer, or what the peer says is wrong.
    pub fn ask(&mut self, command: &str) -> Result<String, String> {
        writeln!(self.input, "{command}").map_err(|error| error.to_string())?;
        self.answer()
    }

    /// Sends a command whose answer is `ops ns`.
    pub fn slice(&mut self, command: &str) -> Result<Slice, String> {
        let answer = self.ask(command)?;
        let mut numbers = answer.split(' ').map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(ops)), Some(Ok(ns))) => Ok(Slice { ops, ns }),
            _ => Err(format!("{command}: {answer}")),
        }
    }

    fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        match line.trim_end() {
            "" => Err("the peer is gone".into()),
            error if error.starts_with("error") => Err(error.into()),
            answer => Ok(answer.into()),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = writeln!(self.input, "quit");
        let _ = self.child.wait();
    }
}
