//! `niclab nic`: the software card as a program, and the socket that it is told things by.
//!
//! The socket takes lines. Each is a command, and is answered by one line: a JSON object that has
//! `error` where the command was not carried out.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write, stdout};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use niclab_card::{Card, CardConfig, CardError, Counters, PortCounters, PortError};
use niclab_device::cores::allowed;
use niclab_lab::words;
use niclab_nic::rule::session::Record;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use crate::arguments::{NicArguments, NicCommand};
use crate::failure::Failure;
use crate::run::stop_flag;
use crate::{progress, rules};

/// How often the card is tended and the stop flag looked at.
const TEND: Duration = Duration::from_millis(100);

/// How often counters are printed.
const INTERVAL: Duration = Duration::from_secs(1);

/// Longest command over the socket, bytes.
const COMMAND_LEN_MAX: u64 = 1 << 20;

/// How long the other side of the socket may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs a card, or talks to one.
pub fn run(arguments: &NicArguments) -> Result<(), Failure> {
    match &arguments.command {
        Some(NicCommand::Ctl { control, json, words }) => ctl(control, *json, &words.join(" ")),
        None => card(arguments),
    }
}

/// Runs a card until it is stopped.
fn card(arguments: &NicArguments) -> Result<(), Failure> {
    let stop = stop_flag()?;
    let there = allowed();
    let cores = match &arguments.cores[..] {
        [] => there.iter().copied().take(1).collect(),
        cores => cores.to_vec(),
    };
    if let Some(&core) = cores.iter().find(|core| !there.contains(core)) {
        return Err(Failure::Core { core: core as usize, there });
    }
    if let Some(core) =
        cores.iter().enumerate().find_map(|(i, c)| cores[..i].contains(c).then_some(c))
    {
        return Err(Failure::Twice { name: format!("core {core}") });
    }
    let text = arguments.rules.as_deref().map(rules::text).transpose()?.unwrap_or_default();
    let control = arguments.control.as_deref().map(Control::bind).transpose()?;
    let config = CardConfig { ports: arguments.ports.clone(), queues: arguments.queues, cores };
    let mut card =
        Card::start(&config, &text).map_err(|error| match (error, &arguments.rules) {
            (CardError::Rules(error), Some(path)) => Failure::Rules { path: path.clone(), error },
            (error, _) => error.into(),
        })?;
    let until = arguments.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut live = Live::new(arguments.json, card.counters());
    let mut is_told = false;
    while !stop.load(Ordering::Relaxed)
        && !is_told
        && !card.is_over()
        && until.is_none_or(|until| Instant::now() < until)
    {
        match &control {
            Some(control) => is_told = control.serve(&mut card, TEND),
            None => std::thread::sleep(TEND),
        }
        live.missing(card.tend());
        live.show(&card)?;
    }
    let ended = card.end();
    live.end(&ended.counters)?;
    match (ended.frames_lost, ended.trouble.is_empty()) {
        (0, true) => Ok(()),
        (0, false) => Err(Failure::Output(io::Error::other(ended.trouble.join("; ")))),
        (lost, _) => Err(Failure::FramesLost { lost, frames: ended.frames }),
    }
}

/// What is printed while a card runs.
struct Live {
    json: bool,
    before: Counters,
    shown_at: Instant,
    /// What stood in the way of the ports that are gone.
    said: Vec<String>,
}

impl Live {
    fn new(json: bool, before: Counters) -> Live {
        Live { json, before, shown_at: Instant::now(), said: Vec::new() }
    }

    /// Says once why a port is not there.
    fn missing(&mut self, ports: Vec<(String, PortError)>) {
        let reasons: Vec<String> =
            ports.into_iter().map(|(name, error)| format!("{name} is gone: {error}")).collect();
        for reason in reasons.iter().filter(|reason| !self.said.contains(reason)) {
            progress::say(&format!("niclab: {reason}"));
        }
        self.said = reasons;
    }

    /// Prints what was counted since the last time, where that was a second ago.
    fn show(&mut self, card: &Card) -> io::Result<()> {
        let passed = self.shown_at.elapsed();
        if passed < INTERVAL {
            return Ok(());
        }
        let now = card.counters();
        if self.json {
            writeln!(stdout(), "{}", json!(now))?;
        } else if now != self.before {
            let seconds = passed.as_secs_f64();
            let ports = now.ports.iter().zip(&self.before.ports);
            let line: Vec<String> = ports.map(|(now, old)| rates(now, old, seconds)).collect();
            writeln!(stdout(), "{}", line.join("; "))?;
        }
        (self.before, self.shown_at) = (now, Instant::now());
        Ok(())
    }

    /// Prints all that was counted.
    fn end(&self, counters: &Counters) -> io::Result<()> {
        match self.json {
            true => writeln!(stdout(), "{}", json!(counters)),
            false => write!(stdout(), "{}", table(counters)),
        }
    }
}

/// Frames a second of a port.
fn rates(now: &PortCounters, before: &PortCounters, seconds: f64) -> String {
    let rate = |now: u64, before: u64| words::whole(now.saturating_sub(before) as f64 / seconds);
    let received = rate(now.rx_frames, before.rx_frames);
    let sent = rate(now.tx_frames, before.tx_frames);
    let lost = |of: &PortCounters| {
        let at_queues: u64 = of.queues.iter().map(|queue| queue.rx_missed).sum();
        of.rx_missed + of.tx_dropped + at_queues
    };
    let lost = match lost(now).saturating_sub(lost(before)) {
        0 => String::new(),
        lost => format!(", {} lost", words::whole(lost as f64)),
    };
    let state = if now.is_up { "" } else { " (gone)" };
    format!("{}{state} in {received}/s, out {sent}/s{lost}", now.name)
}

/// All counters, a line each.
fn table(counters: &Counters) -> String {
    let mut text = String::new();
    for (number, port) in counters.ports.iter().enumerate() {
        let whole = |value: u64| words::whole(value as f64);
        let state = if port.is_up { "" } else { ", gone" };
        // A string takes whatever is written to it.
        let _ = writeln!(
            text,
            "port {number} {}{state}: in {} frames ({} B), {} missed, {} dropped by rules; out {} \
             frames ({} B), {} dropped",
            port.name,
            whole(port.rx_frames),
            whole(port.rx_bytes),
            whole(port.rx_missed),
            whole(port.rule_drops),
            whole(port.tx_frames),
            whole(port.tx_bytes),
            whole(port.tx_dropped),
        );
        for (queue, of) in port.queues.iter().enumerate() {
            let core = counters.cores.get(of.core).map_or(0, |core| core.core);
            let (frames, bytes, missed) = (whole(of.rx_frames), whole(of.rx_bytes), of.rx_missed);
            let _ = writeln!(
                text,
                "  queue {queue} on core {core}: {frames} frames ({bytes} B), {} missed",
                whole(missed)
            );
        }
    }
    text
}

/// The socket of a card that runs. It goes with this.
struct Control {
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
    fn bind(path: &Path) -> Result<Control, Failure> {
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
    fn serve(&self, card: &mut Card, patience: Duration) -> bool {
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
        text if text.starts_with("flow") || text.starts_with("set") => (flow(card, text), false),
        "" => (json!({ "error": "no command: counters, stop, or a flow command" }), false),
        text => {
            let word = text.split_whitespace().next().unwrap_or_default();
            let error = format!("`{word}` is no command: counters, stop, or a flow command");
            (json!({ "error": error }), false)
        }
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
fn ctl(path: &Path, is_json: bool, command: &str) -> Result<(), Failure> {
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
