//! The socket that a card is told things by, and who speaks to it.
//!
//! The socket takes lines. Each is a command, and is answered by one line: a JSON object that has
//! `error` where the command was not carried out.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write, stdout};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use niclab_card::{Card, Counters};
use niclab_nic::rule::session::Record;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::{capture, rss, table};
use crate::failure::Failure;
use crate::rules;

/// Longest command over the socket, bytes.
const COMMAND_LEN_MAX: u64 = 1 << 20;

/// How long the other side of the socket may take.
const PATIENCE: Duration = Duration::from_secs(5);

const COMMANDS: &str = "capture, counters, rss, stop, or a flow command";

/// The socket of a card that runs. It goes with this.
pub(super) struct Control {
    path: PathBuf,
    listener: UnixListener,
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Control {
    /// Listens there. What a killed card left is taken away; one that runs is not disturbed.
    pub(super) fn bind(path: &Path) -> Result<Control, Failure> {
        let refused = |reason: String| Failure::Control { path: path.to_path_buf(), reason };
        let bind = || UnixListener::bind(path);
        let listener = match bind() {
            Err(error) if error.kind() == ErrorKind::AddrInUse => match UnixStream::connect(path) {
                Err(gone) if gone.kind() == ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path).map_err(|error| refused(error.to_string()))?;
                    bind()
                }
                _ => {
                    let reason = "it is there already: another card, or a file; choose another \
                                      path for --control";
                    return Err(refused(reason.to_owned()));
                }
            },
            bound => bound,
        };
        let listener = listener.map_err(|error| {
            refused(format!("{error}; --control takes the path of a socket to be made"))
        })?;
        listener.set_nonblocking(true).map_err(|error| refused(error.to_string()))?;
        Ok(Control { path: path.to_path_buf(), listener })
    }

    /// Answers who comes within so much time; whether the card is to end.
    pub(super) fn serve(&self, card: &mut Card, patience: Duration) -> bool {
        let timeout = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
        let waited =
            poll(&mut [PollFd::new(&self.listener.as_fd(), PollFlags::IN)], Some(&timeout));
        match waited.ok().and_then(|_| self.listener.accept().ok()) {
            // Who goes before it has its answer does not want it.
            Some((stream, _)) => answer(stream, card).unwrap_or(false),
            None => false,
        }
    }
}

/// Carries out the commands of one who is connected; whether the card is to end.
fn answer(stream: UnixStream, card: &mut Card) -> io::Result<bool> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new((&stream).take(COMMAND_LEN_MAX)).read_line(&mut line)?;
    let (answer, is_end) = match line.trim() {
        "counters" => (json!(card.counters()), false),
        "stop" => (json!({ "done": ["the card ends"] }), true),
        text => match text.split_whitespace().next() {
            Some("flow" | "set") => (flow(card, text), false),
            Some("capture") => (capture::answer(card, text), false),
            Some("rss") => (rss::answer(card, text), false),
            Some(word) => {
                (json!({ "error": format!("`{word}` is no command: {COMMANDS}") }), false)
            }
            None => (json!({ "error": format!("no command: {COMMANDS}") }), false),
        },
    };
    writeln!(&stream, "{answer}")?;
    Ok(is_end)
}

fn flow(card: &mut Card, text: &str) -> Value {
    match card.apply(text) {
        Err(error) => json!({ "error": error.to_string() }),
        Ok(records) => {
            let says = |(port, record): &(u16, Record)| {
                let told = rules::told(record).unwrap_or_else(|| done(record));
                format!("port {port}: {told}")
            };
            json!({ "done": records.iter().map(says).collect::<Vec<String>>() })
        }
    }
}

/// What was done by a command that says nothing else.
fn done(record: &Record) -> String {
    match record {
        Record::Created { rule } => format!("rule {rule} created"),
        Record::Destroyed { rule } => format!("rule {rule} destroyed"),
        Record::Updated { rule } => format!("rule {rule} updated"),
        Record::Validated => "the rule can be created".to_owned(),
        _ => "done".to_owned(),
    }
}

/// Tells a card that runs a command, and prints what it says.
pub(super) fn ctl(path: &Path, is_json: bool, command: &str) -> Result<(), Failure> {
    let refused = |error: io::Error| Failure::Control {
        path: path.to_path_buf(),
        reason: format!("{error}; no card listens there: niclab nic --control {}", path.display()),
    };
    let stream = UnixStream::connect(path).map_err(refused)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(refused)?;
    writeln!(&stream, "{}", command.replace('\n', " ")).map_err(refused)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(refused)?;
    let odd = || Failure::Control {
        path: path.to_path_buf(),
        reason: "what listens there is no card".to_owned(),
    };
    let answer: Value = serde_json::from_str(&line).map_err(|_| odd())?;
    if is_json {
        write!(stdout(), "{line}")?;
    }
    if let Some(reason) = answer["error"].as_str() {
        return Err(Failure::Refused { reason: reason.to_owned() });
    }
    if is_json {
        return Ok(());
    }
    match answer["done"].as_array() {
        Some(lines) => {
            for line in lines.iter().filter_map(Value::as_str) {
                writeln!(stdout(), "{line}")?;
            }
        }
        None => {
            let counters: Counters = serde_json::from_value(answer).map_err(|_| odd())?;
            write!(stdout(), "{}", table(&counters))?;
        }
    }
    Ok(())
}
