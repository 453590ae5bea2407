//! `niclab nic`: the software card as a program.

mod applications;
mod capture;
mod card_program;
pub mod control;
mod ctl;
mod memory;
mod rss;
mod rule_counters;
pub mod sample;
mod table_contents;
mod top;
mod wait;

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use niclab_card::{
    Balance, Card, CardConfig, CardError, CardWorkload, PacketProcessor, PortError, PortName,
    RssAdjustment,
};
use niclab_control::{ApplicationCounters, CardCounters, ExternalQueueCounters, PortCounters};
use niclab_lab::words;
use niclab_nic::rule::text::rss_key;
use serde_json::json;

use crate::arguments::{BalanceBy, NicArguments, NicCommand};
use crate::cores::cores;
use crate::failure::Failure;
use crate::metrics::CardMetrics;
use crate::output::stdout;
use crate::readiness::Readiness;
use crate::run::stop_flag;
use crate::{output, rules};
use control::{Access, Control};
use rule_counters::RuleCounters;

/// How often the card is tended and the stop flag looked at.
const TEND: Duration = Duration::from_millis(100);

/// How often counters are printed.
const INTERVAL: Duration = Duration::from_secs(1);

/// Runs a card, or talks to one.
pub fn run(arguments: &NicArguments) -> Result<(), Failure> {
    match &arguments.command {
        Some(NicCommand::Ctl(arguments)) => ctl::run(arguments),
        Some(NicCommand::Top(arguments)) => top::run(arguments),
        None => card(arguments),
    }
}

/// Runs a card until it is stopped.
fn card(arguments: &NicArguments) -> Result<(), Failure> {
    let (stop, mut readiness) = (stop_flag()?, Readiness::new());
    let cores = cores(&arguments.cores)?;
    let text = arguments.rules.as_deref().map(rules::text).transpose()?.unwrap_or_default();
    let group = arguments.control_group.as_deref();
    let control = arguments.control.as_deref();
    let control = control.map(|path| Control::bind(path, group, Access::Full)).transpose()?;
    let metrics = arguments.metrics.map(|listen| CardMetrics::start(listen, None)).transpose()?;
    let NicArguments { ports, queues, receive, .. } = arguments;
    let (ports, queues, receive) = (ports.clone(), *queues, *receive);
    let balance = arguments.balance.as_ref().map(balance).transpose()?;
    let external_queues = arguments.external_queues.clone();
    let config =
        CardConfig { receive, balance, external_queues, ..CardConfig::new(ports, queues, cores) };
    let program = arguments.program.as_deref();
    let program = program.map(|path| card_program::open(path, arguments.tables.as_deref()));
    let applications = arguments.applications.iter();
    let applications =
        applications.map(|path| applications::open(path, config.ports.len(), config.cores.len()));
    let runs = CardWorkload {
        rules: &text,
        program: program.transpose()?.map(PacketProcessor::from),
        applications: applications.collect::<Result<_, _>>()?,
        ..CardWorkload::default()
    };
    let mut card =
        Card::start_with(&config, runs).map_err(|error| match (error, &arguments.rules) {
            (CardError::Rules(error), Some(path)) => Failure::Rules { path: path.clone(), error },
            (error, _) => error.into(),
        })?;
    warn_of_down_ports(&config.ports);
    say_hidden(&config.ports);
    let until = arguments.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut live = Live::new(arguments.json, card.counters());
    let is_over =
        || stop.load(Ordering::Relaxed) || until.is_some_and(|until| Instant::now() >= until);
    readiness.ready();
    work(&mut card, (control, metrics), &mut live, is_over)?;
    drop(readiness);
    let counting = RuleCounters::of(&mut card, config.ports.len());
    let ended = card.shut_down();
    live.end(&ended.counters, &counting)?;
    match (ended.frames_lost, ended.errors.is_empty()) {
        (0, true) => Ok(()),
        (0, false) => Err(Failure::Output(io::Error::other(ended.errors.join("; ")))),
        (lost, _) => Err(Failure::FramesLost { lost, frames: ended.frames }),
    }
}

/// Tends a card, and answers whoever asks about it, until it is over.
fn work(
    card: &mut Card,
    (mut control, metrics): (Option<Control>, Option<CardMetrics>),
    live: &mut Live,
    is_over: impl Fn() -> bool,
) -> io::Result<()> {
    let (mut is_stopped, mut tended_at) = (false, Instant::now());
    while !is_stopped && !is_over() && !card.is_finished() {
        let rest = TEND.saturating_sub(tended_at.elapsed());
        match &mut control {
            Some(control) => is_stopped = control.serve(card, rest),
            None => std::thread::sleep(rest),
        }
        metrics.iter().for_each(|metrics| metrics.serve(card));
        // Who asks for something does not hasten this.
        if tended_at.elapsed() < TEND {
            continue;
        }
        tended_at = Instant::now();
        live.missing(card.run_housekeeping());
        card.balance().iter().for_each(say);
        live.show(card)?;
    }
    Ok(())
}

/// Says of which ports the interface is switched off. Where the kernel does not tell, the card runs
/// all the same.
pub fn warn_of_down_ports(ports: &[PortName]) {
    for port in ports {
        if let Ok(Some(name)) = port.down_interface() {
            let remedy = format!("switch it on by `ip link set dev {name} up`");
            output::say(&format!("niclab: {port}: the interface is down: {remedy}"));
        }
    }
}

/// Says by which ports frames may come without checksums and nobody can tell which.
pub fn say_hidden(ports: &[PortName]) {
    for port in ports {
        if let Ok(Some(name)) = port.partial_checksum_interface() {
            output::say(&format!(
                "niclab: {port}: {name} is a veth end: TCP/UDP frames may lack checksums and \
                 AF_XDP does not mark them; run `ethtool -K PEER tx off`"
            ));
        }
    }
}

/// `1 frame`, `65,536 frames`.
fn frames(count: u64) -> String {
    rules::counted(count, "frame", "frames")
}

/// The outcome of an application's frames.
fn of_application(of: &ApplicationCounters) -> String {
    let whole = |value: u64| words::whole(value as f64);
    format!(
        "application {}: {}, {} missed beyond its share; {} dropped by its program, {} \
         reported through its rings, {} unfit for it, {} outside of what it has, {} found its ring \
         full; {} too many for the core of a queue, {} for a port; {} ms of work",
        of.name,
        frames(of.frames),
        whole(of.missed),
        whole(of.drops),
        whole(of.reported),
        whole(of.faults),
        whole(of.outside),
        whole(of.ring_full),
        whole(of.queue_missed),
        whole(of.tx_dropped),
        whole(of.busy_ns / 1_000_000),
    )
}

/// The outcome of an external queue's frames.
fn of_external_queue(of: &ExternalQueueCounters) -> String {
    let whole = |value: u64| words::whole(value as f64);
    let state = match (&of.ended, of.is_there) {
        (_, true) => "there".to_owned(),
        (None, false) => "awaited".to_owned(),
        (Some(why), false) => format!("awaited; the last one: {why}"),
    };
    format!(
        "external queue {} ({state}): {} given, {} dropped, {} sent by it, {} refused",
        of.queue,
        frames(of.given_frames),
        whole(of.dropped),
        whole(of.taken_frames),
        whole(of.refused),
    )
}

/// The reaction to a queue that fills; reads the keys of a file.
fn balance(by: &BalanceBy) -> Result<Balance, Failure> {
    let path = match by {
        BalanceBy::Moves { save_cores } => return Ok(Balance::Moves { save_cores: *save_cores }),
        BalanceBy::Keys(path) => path,
    };
    let refused = |reason: String| Failure::Keys { path: path.clone(), reason };
    let text = rules::text(path)?;
    let mut keys = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            let key = rss_key(line).map_err(|why| refused(format!("line {number}: {why}")))?;
            keys.push(key);
        }
    }
    match keys.is_empty() {
        true => Err(refused("no key in it; write one a line, in hexadecimal digits".to_owned())),
        false => Ok(Balance::Keys(keys)),
    }
}

/// Says that the RSS of a port has changed.
fn say(balanced: &RssAdjustment) {
    let how = match balanced.moved_entries {
        Some(count) => {
            let entries = rules::plural(count, "entry", "entries");
            let name = if count == 1 { "names" } else { "name" };
            format!("{entries} of its table {name} another queue")
        }
        None => "it has the next key".to_owned(),
    };
    output::say(&format!("niclab: port {}: {how}", balanced.port));
}

/// The output of a running card.
struct Live {
    json: bool,
    before: CardCounters,
    shown_at: Instant,
    /// The errors of the ports that are down.
    said: Vec<String>,
    /// By port: it was said that frames come without whole checksums.
    has_said_partial: Vec<bool>,
}

impl Live {
    fn new(json: bool, before: CardCounters) -> Live {
        let has_said_partial = vec![false; before.ports.len()];
        Live { json, before, shown_at: Instant::now(), said: Vec::new(), has_said_partial }
    }

    /// Says once what is not there, and why.
    fn missing(&mut self, what: Vec<(String, PortError)>) {
        let reasons: Vec<String> =
            what.into_iter().map(|(name, error)| format!("{name} is not there: {error}")).collect();
        for reason in reasons.iter().filter(|reason| !self.said.contains(reason)) {
            output::say(&format!("niclab: {reason}"));
        }
        self.said = reasons;
    }

    /// Says once of each port that frames come by it without whole checksums.
    fn partial(&mut self, counters: &CardCounters) {
        for (port, has_said) in counters.ports.iter().zip(&mut self.has_said_partial) {
            if port.rx_partial_checksums > 0 && !*has_said {
                *has_said = true;
                output::say(&format!("niclab: {}", partial(&port.name)));
            }
        }
    }

    /// Prints what was counted since the last time, where that was a second ago.
    fn show(&mut self, card: &Card) -> io::Result<()> {
        let passed = self.shown_at.elapsed();
        if passed < INTERVAL {
            return Ok(());
        }
        let now = card.counters();
        self.partial(&now);
        if self.json {
            writeln!(stdout(), "{}", json!(now))?;
        } else if now.ports != self.before.ports {
            let seconds = passed.as_secs_f64();
            let ports = now.ports.iter().zip(&self.before.ports);
            let line: Vec<String> = ports.map(|(now, old)| rates(now, old, seconds)).collect();
            writeln!(stdout(), "{}", line.join("; "))?;
        }
        (self.before, self.shown_at) = (now, Instant::now());
        Ok(())
    }

    /// Prints all that was counted, by rules too.
    fn end(&mut self, counters: &CardCounters, counting: &RuleCounters) -> io::Result<()> {
        self.partial(counters);
        let mut all = json!(counters);
        all["rules"] = counting.json();
        match self.json {
            true => writeln!(stdout(), "{all}"),
            false => write!(stdout(), "{}{}", table(counters), counting.words()),
        }
    }
}

/// The warning that frames of a port have partial checksums, with the remedy.
fn partial(name: &str) -> String {
    format!(
        "{name}: TCP or UDP frames arrive with incomplete checksums (CHECKSUM_PARTIAL) and leave \
         so; run `ethtool -K IFACE tx off` on the sender."
    )
}

/// How many frames came without whole checksums, where there are any.
fn without_checksums(port: &PortCounters) -> String {
    match port.rx_partial_checksums {
        0 => String::new(),
        count => format!(", {} without whole checksums", words::whole(count as f64)),
    }
}

/// Frames that found the ring to the core of their queue full.
fn at_queues(port: &PortCounters) -> u64 {
    port.queues.iter().map(|queue| queue.rx_missed).sum()
}

/// The frames that a program dropped, if any.
fn by_program(port: &PortCounters) -> String {
    let whole = |value: u64| words::whole(value as f64);
    let faults = match (port.program_drops, port.program_faults) {
        (0, 0) => String::new(),
        (drops, faults) => {
            format!(", {} by the program, {} unfit for it", whole(drops), whole(faults))
        }
    };
    let report = match port.program_reported {
        0 => String::new(),
        report => format!(", {} reported through a ring", whole(report)),
    };
    match port.program_ring_full {
        0 => faults + &report,
        full => format!("{faults}{report}, {} found a ring full", whole(full)),
    }
}

/// Frames a second of a port.
fn rates(now: &PortCounters, before: &PortCounters, seconds: f64) -> String {
    let rate = |now: u64, before: u64| words::whole(now.saturating_sub(before) as f64 / seconds);
    let received = rate(now.rx_frames, before.rx_frames);
    let sent = rate(now.tx_frames, before.tx_frames);
    let lost = |of: &PortCounters| of.rx_missed + of.tx_dropped + of.held_drops + at_queues(of);
    let lost = match lost(now).saturating_sub(lost(before)) {
        0 => String::new(),
        lost => format!(", {} lost", words::whole(lost as f64)),
    };
    let state = if now.is_up { "" } else { " (gone)" };
    format!("{}{state} in {received}/s, out {sent}/s{lost}", now.name)
}

/// All counters, a line each.
fn table(counters: &CardCounters) -> String {
    let mut text = String::new();
    for (number, port) in counters.ports.iter().enumerate() {
        let whole = |value: u64| words::whole(value as f64);
        let state = if port.is_up { "" } else { ", gone" };
        // A string takes whatever is written to it.
        let _ = writeln!(
            text,
            "port {number} {}{state}: in {} ({} B){}, {} missed by the port, {} missed by queues, \
             {} dropped by rules, {} dropped while held{}; out {} ({} B), {} dropped",
            port.name,
            frames(port.rx_frames),
            whole(port.rx_bytes),
            without_checksums(port),
            whole(port.rx_missed),
            whole(at_queues(port)),
            whole(port.rule_drops),
            whole(port.held_drops),
            by_program(port),
            frames(port.tx_frames),
            whole(port.tx_bytes),
            whole(port.tx_dropped),
        );
        for (queue, of) in port.queues.iter().enumerate() {
            let core = counters.cores.get(of.core).map_or(0, |core| core.core);
            let (frames, bytes, missed) = (frames(of.rx_frames), whole(of.rx_bytes), of.rx_missed);
            let _ = writeln!(
                text,
                "  queue {queue} on core {core}: {frames} ({bytes} B), {} missed",
                whole(missed)
            );
        }
        for queue in &port.external_queues {
            let _ = writeln!(text, "  {}", of_external_queue(queue));
        }
    }
    for of in &counters.applications {
        let _ = writeln!(text, "{}", of_application(of));
    }
    text
}
