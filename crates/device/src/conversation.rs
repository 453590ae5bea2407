//! A process that is asked on its standard input and answers on its standard output: one JSON
//! document a line, each way. Each of its failures is an error with a reason, never a hang.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::face::DeviceError;

/// Lines of the process's messages that an error may quote.
const QUOTED_LINES_MAX: usize = 6;

/// Longest answer; a histogram is some tens of kilobytes.
const ANSWER_LEN_MAX: u64 = 64 << 20;

/// Longest part of a message that is read as one line.
const MESSAGE_LEN_MAX: u64 = 4096;

/// At most so many answers are kept until they are read; the process waits with more.
const ANSWERS_MAX: usize = 4;

/// A line with one of these words, in any case, says why something was not done.
const CAUSES: &[&str] = &[
    "cannot",
    "can't",
    "could not",
    "denied",
    "error",
    "fail",
    "invalid",
    "no such",
    "not found",
    "not supported",
    "refuse",
    "requires",
    "unable",
    "unknown",
    "unrecognized",
];

/// How long the readers may take to see the end of a process that has ended.
const READERS_MAX: Duration = Duration::from_millis(200);

/// How often an end is looked for.
const PAUSE: Duration = Duration::from_millis(1);

/// The process that is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counterpart<'a> {
    /// The device, for messages.
    pub device: &'a str,
    /// The name of the process in messages.
    pub program: &'a str,
    /// How long the process may take to end once its input has.
    pub grace: Duration,
    /// Beginnings of lines that it writes to standard error at each start, which explain nothing.
    pub usual: &'static [&'static str],
}

/// A part of the input of the process.
enum Input {
    Bytes(Vec<u8>),
    /// A line that is written from now on whenever nothing else was written for this long.
    Sign(Vec<u8>, Duration),
}

/// The process while it runs; ended and reaped with this value.
pub(crate) struct Conversation {
    device: String,
    program: String,
    child: Child,
    /// Bytes for its standard input, which a thread writes: a process that reads nothing must not
    /// stop this one.
    input: Option<Sender<Input>>,
    answers: Option<Receiver<io::Result<String>>>,
    messages: Arc<Mutex<VecDeque<String>>>,
    readers: Vec<JoinHandle<()>>,
    grace: Duration,
}

impl Conversation {
    /// Starts `command`.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start(mut command: Command, with: Counterpart<'_>) -> io::Result<Conversation> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for niclab, which then ends the process in its own time.
        command.process_group(0);
        let mut child = command.spawn()?;
        let (sender, answers) = sync_channel(ANSWERS_MAX);
        let messages = Arc::new(Mutex::new(VecDeque::new()));
        let mut readers = Vec::new();
        if let Some(output) = child.stdout.take() {
            readers.push(thread::spawn(move || {
                for answer in AnswerLines(BufReader::new(output)) {
                    if sender.send(answer).is_err() {
                        break;
                    }
                }
            }));
        }
        if let Some(errors) = child.stderr.take() {
            let messages = Arc::clone(&messages);
            let usual = with.usual;
            readers.push(thread::spawn(move || {
                keep_some(BufReader::new(errors), usual, &messages);
            }));
        }
        let (device, program) = (with.device.to_owned(), with.program.to_owned());
        let (input, writes) = channel();
        if let Some(stdin) = child.stdin.take() {
            thread::spawn(move || write_all(stdin, &writes));
        }
        let (input, answers, grace) = (Some(input), Some(answers), with.grace);
        Ok(Conversation { device, program, child, input, answers, messages, readers, grace })
    }

    /// Writes bytes that are no request. If that fails, the process has ended, and the next answer
    /// is the error.
    pub(crate) fn write(&mut self, bytes: Vec<u8>) {
        if let Some(input) = &self.input {
            let _ = input.send(Input::Bytes(bytes));
        }
    }

    /// Writes this line from now on whenever nothing else was written for that long, whatever the
    /// calling thread does: a sign of life for the process.
    pub(crate) fn give_signs(&mut self, line: &str, every: Duration) {
        if let Some(input) = &self.input {
            let _ = input.send(Input::Sign(format!("{line}\n").into_bytes(), every));
        }
    }

    /// Asks; the answer is for [`Conversation::receive`].
    ///
    /// # Errors
    /// [`DeviceError::Broken`]: the process has ended before.
    pub(crate) fn send(&mut self, request: &impl Serialize) -> Result<(), DeviceError> {
        if self.input.is_none() {
            return Err(self.broken(format!("{} has ended before", self.program)));
        }
        let mut line = serde_json::to_string(request)
            .map_err(|e| self.broken(format!("the request cannot be written: {e}")))?;
        line.push('\n');
        self.write(line.into_bytes());
        Ok(())
    }

    /// The next answer.
    ///
    /// # Errors
    /// [`DeviceError::Broken`], and the process is ended: it has ended by itself, it says nothing
    /// for that long, or its answer cannot be read.
    pub(crate) fn receive<A: DeserializeOwned>(
        &mut self,
        timeout: Duration,
    ) -> Result<A, DeviceError> {
        let line = self.line(timeout)?;
        serde_json::from_str(&line)
            .map_err(|_| self.fail(&format!("gave an unreadable answer: {}", excerpt(&line))))
    }

    /// The next line of its output.
    ///
    /// # Errors
    /// As [`Conversation::receive`].
    pub(crate) fn line(&mut self, timeout: Duration) -> Result<String, DeviceError> {
        let answers = self.answers.as_ref();
        match answers.map_or(Err(RecvTimeoutError::Disconnected), |of| of.recv_timeout(timeout)) {
            Ok(Ok(line)) => Ok(line),
            Ok(Err(e)) => Err(self.fail(&format!("gave an unreadable answer: {e}"))),
            Err(RecvTimeoutError::Timeout) => {
                Err(self.fail(&format!("gave no answer within {} s", timeout.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let ended = self.end();
                Err(self.fail(&format!("ended: {ended}")))
            }
        }
    }

    /// Ends the process; the error says why, with what it wrote last.
    pub(crate) fn fail(&mut self, what: &str) -> DeviceError {
        self.end();
        self.broken(format!("{} {what}{}", self.program, self.quoted()))
    }

    /// Ends the process, and adds what it wrote to the reason for that.
    pub(crate) fn explain(&mut self, reason: String) -> String {
        self.end();
        reason + &self.quoted()
    }

    fn broken(&self, reason: String) -> DeviceError {
        DeviceError::Broken { device: self.device.clone(), reason }
    }

    /// The lines of its standard error that say why, or else the last ones, for the end of a
    /// message. After its end all of them are there.
    fn quoted(&self) -> String {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<&str> = messages.iter().map(String::as_str).collect();
        let causes: Vec<&str> = all.iter().copied().filter(|line| says_why(line)).collect();
        let lines = if causes.is_empty() { all } else { causes };
        if lines.is_empty() {
            String::new()
        } else {
            format!("; its output: {}", lines.join(" | "))
        }
    }

    /// Ends and reaps the process; says how it ended.
    fn end(&mut self) -> String {
        self.input = None;
        // Nobody waits for an answer any more, its reader neither.
        self.answers = None;
        let begun = Instant::now();
        while !matches!(self.child.try_wait(), Ok(Some(_))) {
            if begun.elapsed() >= self.grace {
                let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
                break;
            }
            thread::sleep(PAUSE);
        }
        let status = self.child.wait();
        // Another process may have inherited the pipes; nothing waits for its end.
        let begun = Instant::now();
        while !self.readers.iter().all(JoinHandle::is_finished) && begun.elapsed() < READERS_MAX {
            thread::sleep(PAUSE);
        }
        status.map_or_else(|e| e.to_string(), |status| status.to_string())
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.end();
    }
}

/// Writes to the process until nothing more is to be written, or it has ended.
fn write_all(mut stdin: ChildStdin, parts: &Receiver<Input>) {
    let mut sign = (Vec::new(), Duration::MAX);
    loop {
        let written = match parts.recv_timeout(sign.1) {
            Ok(Input::Bytes(bytes)) => stdin.write_all(&bytes),
            Ok(Input::Sign(line, every)) => {
                sign = (line, every);
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => stdin.write_all(&sign.0),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if written.is_err() {
            return;
        }
    }
}

/// The lines of the process's output, none longer than [`ANSWER_LEN_MAX`].
struct AnswerLines<R>(BufReader<R>);

impl<R: Read> Iterator for AnswerLines<R> {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<io::Result<String>> {
        let mut line = String::new();
        match (&mut self.0).take(ANSWER_LEN_MAX).read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(Ok(line)),
            Err(e) => Some(Err(e)),
        }
    }
}

/// Keeps lines of the process's messages: those that say why, the first and the last of them, and
/// else the last ones.
fn keep_some(mut errors: impl BufRead, usual: &[&str], messages: &Mutex<VecDeque<String>>) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut errors).take(MESSAGE_LEN_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if line.is_empty() || usual.iter().any(|start| line.starts_with(start)) {
            continue;
        }
        let mut messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
        if messages.len() == QUOTED_LINES_MAX {
            let least = messages.iter().position(|line| !says_why(line));
            messages.remove(least.unwrap_or(QUOTED_LINES_MAX / 2));
        }
        messages.push_back(excerpt(&line));
    }
}

/// Whether a line says why something was not done.
fn says_why(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    CAUSES.iter().any(|cause| line.contains(cause))
}

/// The start of a text, without control characters.
pub(crate) fn excerpt(text: &str) -> String {
    let mut shown = text.trim_end().chars().filter(|c| !c.is_control());
    let mut short: String = shown.by_ref().take(160).collect();
    if shown.next().is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(program: &str, arguments: &[&str]) -> Conversation {
        let grace = Duration::from_millis(10);
        let with = Counterpart { device: "card", program: "it", grace, usual: &["hello"] };
        let mut command = Command::new(program);
        command.args(arguments);
        Conversation::start(command, with).unwrap()
    }

    #[test]
    fn a_process_that_neither_reads_nor_answers_is_an_error_and_no_hang() {
        let begun = Instant::now();
        let mut deaf = start("sleep", &["60"]);
        // More than the pipe holds.
        deaf.write(vec![b'x'; 4 << 20]);
        deaf.send(&"request").unwrap();
        let error = deaf.receive::<String>(Duration::from_millis(50)).unwrap_err().to_string();
        assert_eq!(error, "card failed: it gave no answer within 0 s");
        assert_eq!(
            deaf.send(&"request").unwrap_err().to_string(),
            "card failed: it has ended before"
        );
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn what_is_written_arrives_whole_before_the_end_of_the_input() {
        let script = "echo hello >&2; head -c 4194304 | wc -c; read line; echo $line; exec cat";
        let mut counts = start("sh", &["-c", script]);
        counts.write(vec![b'x'; 4 << 20]);
        let long = Duration::from_secs(30);
        assert_eq!(counts.receive::<u32>(long).unwrap(), 4 << 20);
        counts.send(&7).unwrap();
        assert_eq!(counts.receive::<u32>(long).unwrap(), 7);
    }

    #[test]
    fn signs_are_given_whatever_the_caller_does() {
        let mut hears = start("sh", &["-c", "read a; read b; read c; echo \"[$a, $b, $c]\"; cat"]);
        hears.give_signs("7", Duration::from_millis(1));
        assert_eq!(hears.receive::<[u32; 3]>(Duration::from_secs(30)).unwrap(), [7; 3]);
    }

    #[test]
    fn a_long_message_is_cut() {
        assert_eq!(excerpt("short\n"), "short");
        assert_eq!(excerpt(&"x".repeat(200)).chars().count(), 161);
        assert_eq!(excerpt("a\u{1b}[31mred\n"), "a[31mred");
    }
}
