//! `niclab ids run`: an intrusion detection at work.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use niclab_card::{CardResult, PortName};
use niclab_ids::partition::{CORES_MAX, Partition, PartitionError};
use niclab_ids::rule::Rule;
use niclab_ids::run::{EVE, IdsRun, RunConfig, RunError, RunEvent, RunResult};
use niclab_result::detection::{DETECTION_SCHEMA, DetectionDocument, DetectionEngine, RuleAlerts};
use niclab_result::partition::PartitionDocument;
use signal_hook::consts::SIGHUP;
use signal_hook::flag;

use super::{CONFIG, Divided, IdsFailure, divided, remove};
use crate::arguments::IdsRunArguments;
use crate::cores::cores;
use crate::failure::Failure;
use crate::nic::{say_hidden, warn_of_down_ports};
use crate::output::{json, one_line, say, stdout};
use crate::readiness::Readiness;
use crate::rules::counted;
use crate::run::stop_flag;
use crate::tables::{self, Grid};

/// How often the flags are looked at.
const TURN: Duration = Duration::from_millis(50);

/// How often packets and alerts are printed.
const INTERVAL: Duration = Duration::from_secs(1);

/// What an engine is called on the path.
const SURICATA: &str = "suricata";

/// Runs engines behind a card, until they have seen a trace or somebody stops them.
pub fn run(arguments: &IdsRunArguments) -> Result<(), Failure> {
    let (stop, mut readiness) = (stop_flag()?, Readiness::new());
    let reload = Arc::new(AtomicBool::new(false));
    flag::register(SIGHUP, Arc::clone(&reload))?;
    let is_stopped = || stop.load(Ordering::Relaxed);
    let config = config(arguments)?;
    let path = &arguments.output;
    PartitionDocument::make_place(path)?;
    let started = divided(&arguments.rules).and_then(|divided| {
        write(path, &divided)?;
        let Divided { rules, partition, .. } = divided;
        IdsRun::start(config.clone(), (rules, partition), &is_stopped).map_err(refused)
    });
    let run = started.inspect_err(|_| clean(path, arguments.rules.cores))?;
    readiness.ready();
    warn_of_down_ports(std::slice::from_ref(&arguments.port));
    say_hidden(std::slice::from_ref(&arguments.port));
    let engines = config.engine_cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    say(&format!(
        "engines are ready on CPU {engines}; reload rules by `kill -HUP {}`",
        std::process::id()
    ));
    say_shared(&config.engine_cpus);
    let mut running = Running { run, arguments, reloads: 0, since: Instant::now() };
    let time = arguments.seconds.map(Duration::from_secs);
    let until = time.and_then(|time| Instant::now().checked_add(time));
    let is_over = || is_stopped() || until.is_some_and(|until| Instant::now() >= until);
    // Nobody may read what it says; the engines are ended all the same.
    let worked = running.work(&reload, is_over);
    drop(readiness);
    let Running { run, reloads, since, .. } = running;
    let time = since.elapsed();
    if !matches!(arguments.port, PortName::Pcap(_)) {
        say("no more packets are taken; the engines count those that they inspected, which takes \
             some seconds (Ctrl-C again: end without a result)");
    }
    let result = run.shut_down(&is_stopped).map_err(refused)?;
    let document = document(arguments, &config, &result, (reloads, time));
    document.write(path)?;
    worked?;
    match arguments.json {
        true => json(&document)?,
        false => print(&document)?,
    }
    say(&format!("events: {}", one_line(&path.join(EVE).display().to_string())));
    let CardResult { frames, frames_lost: lost, errors, .. } = result.card;
    match (lost, errors.is_empty()) {
        (0, true) => Ok(()),
        (0, false) => Err(Failure::Output(std::io::Error::other(errors.join("; ")))),
        _ => Err(Failure::FramesLost { lost, frames }),
    }
}

fn config(arguments: &IdsRunArguments) -> Result<RunConfig, Failure> {
    if !(1..=CORES_MAX).contains(&arguments.rules.cores) {
        return Err(IdsFailure::Partition(PartitionError::Cores(arguments.rules.cores)).into());
    }
    let is_source = match &arguments.port {
        PortName::Xdp(_) | PortName::Packet(_) => true,
        PortName::Pcap(files) => files.output.is_none(),
        PortName::Tap(_) => false,
    };
    if !is_source {
        return Err(IdsFailure::Port { port: arguments.port.to_string() }.into());
    }
    let card_cores = cores(&arguments.card_cores)?;
    let is_trace = matches!(arguments.port, PortName::Pcap(_));
    if is_trace && card_cores.len() > 1 {
        return Err(IdsFailure::TraceCores.into());
    }
    let there = niclab_device::cores::allowed();
    let others: Vec<u32> =
        there.iter().copied().filter(|core| !card_cores.contains(core)).collect();
    let cpus = if others.is_empty() { there } else { others };
    let engine_cpus = cpus.into_iter().cycle().take(arguments.rules.cores).collect();
    let config = match &arguments.rules.config {
        Some(path) => path.clone(),
        None if Path::new(CONFIG).exists() => PathBuf::from(CONFIG),
        None => return Err(IdsFailure::NoConfig.into()),
    };
    let found = match &arguments.suricata {
        // Engines work in directories of their own.
        Some(path) => Some(std::path::absolute(path)?),
        None => niclab_device::program::find(SURICATA),
    };
    Ok(RunConfig {
        port: arguments.port.clone(),
        card_cores,
        engine_cpus,
        suricata: found.ok_or(IdsFailure::NoSuricata)?,
        config,
        directory: arguments.output.clone(),
    })
}

/// Says that engines have no CPU of their own, if so.
fn say_shared(engine_cpus: &[u32]) {
    let cpus: BTreeSet<u32> = engine_cpus.iter().copied().collect();
    if cpus.len() < engine_cpus.len() {
        say(&format!(
            "{} engines share {}: more engines than CPUs do not inspect more packets",
            engine_cpus.len(),
            counted(cpus.len() as u64, "CPU", "CPUs"),
        ));
    }
}

/// Writes the rules of each core and the page.
fn write(path: &Path, divided: &Divided) -> Result<(), Failure> {
    let page = niclab_report::partition_html(&divided.document)?;
    Ok(divided.document.write(path, &divided.files, &page)?)
}

/// Removes a directory that this command made, if there is no event in it.
fn clean(path: &Path, cores: usize) {
    for core in 0..cores {
        let _ = std::fs::remove_dir_all(path.join(format!("engine-{core}")));
    }
    let _ = std::fs::remove_file(path.join(EVE));
    let _ = std::fs::remove_file(path.join(niclab_result::partition::PARTITION));
    remove(path, cores);
}

fn refused(error: RunError) -> Failure {
    match error {
        RunError::Card(error) => error.into(),
        RunError::Stopped => IdsFailure::Stopped.into(),
        error => IdsFailure::Run(error).into(),
    }
}

/// A run, and the rules that come to it.
struct Running<'a> {
    run: IdsRun,
    arguments: &'a IdsRunArguments,
    reloads: u64,
    since: Instant,
}

impl Running<'_> {
    fn work(&mut self, reload: &AtomicBool, is_over: impl Fn() -> bool) -> Result<(), Failure> {
        let (mut shown, mut before, mut next) = (Instant::now(), (0, 0), None);
        while !is_over() && !self.run.is_finished() {
            for event in self.run.turn(TURN) {
                self.report(event, &mut next)?;
            }
            if !self.run.is_reloading() && reload.swap(false, Ordering::Relaxed) {
                next = self.reload();
            }
            let now = self.run.progress();
            if !self.arguments.json && shown.elapsed() >= INTERVAL && now != before {
                let passed = shown.elapsed().as_secs_f64();
                let rate = (now.0 - before.0) as f64 / passed;
                writeln!(stdout(), "{rate:.0} packets/s, {} alerts", now.1)?;
                (shown, before) = (Instant::now(), now);
            }
        }
        Ok(())
    }

    /// Gives the engines the rules that the files have now. What is wrong with them is said, and
    /// the old ones hold.
    fn reload(&mut self) -> Option<Divided> {
        let given = divided(&self.arguments.rules).and_then(|divided| {
            let (rules, partition): (Vec<Rule>, Partition) =
                (divided.rules.clone(), divided.partition.clone());
            let given = self.run.reload(rules, partition);
            given.map_err(refused)?;
            Ok(divided)
        });
        given.inspect_err(|failure| say(&format!("the old rules hold: {failure}"))).ok()
    }

    fn report(&mut self, event: RunEvent, next: &mut Option<Divided>) -> Result<(), Failure> {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        match event {
            RunEvent::Restarted { engine } => {
                say(&format!("engine {engine}: it takes packets again"));
            }
            RunEvent::Died { engine, error } => {
                say(&format!("engine {engine}: {error}; it is started again"));
            }
            RunEvent::Reloaded { loading, switching } => {
                self.reloads += 1;
                if let Some(divided) = next.take()
                    && let Err(failure) = write(&self.arguments.output, &divided)
                {
                    say(&format!("the files of the new partition are not written: {failure}"));
                }
                say(&format!(
                    "the new rules hold: engines took {:.1} s to load them, the card {:.1} ms to \
                     change",
                    loading.as_secs_f64(),
                    millis(switching)
                ));
            }
            RunEvent::NotReloaded(error) => {
                *next = None;
                say(&format!("the old rules hold: {error}"));
            }
            RunEvent::NotDropped(error) => {
                say(&format!("engines still have rules that do not count any more: {error}"));
            }
            RunEvent::NotWritten(reason) => say(&format!("{EVE}: {reason}; events wait")),
            RunEvent::Written => say(&format!("{EVE}: events are written again")),
            RunEvent::Port(reason) => say(&format!("niclab: {reason}")),
        }
        Ok(())
    }
}

fn document(
    arguments: &IdsRunArguments,
    config: &RunConfig,
    result: &RunResult,
    (reloads, time): (u64, Duration),
) -> DetectionDocument {
    let engine = |(of, cpu): (&niclab_ids::run::EngineResult, &u32)| DetectionEngine {
        cpu: *cpu,
        packets: of.packets,
        packets_dropped: of.packets_dropped,
        packets_missed: of.packets_missed,
        alerts: of.events.alerts,
        other_events: of.events.others,
        double_events: of.events.doubles,
        damaged_events: of.events.damaged,
        deaths: of.deaths,
        cpu_seconds: of.cpu.as_secs_f64(),
        resident_bytes: of.resident_bytes,
    };
    let alerts = result.alerts.iter();
    DetectionDocument {
        schema: DETECTION_SCHEMA,
        program: format!("niclab {}", env!("CARGO_PKG_VERSION")),
        port: arguments.port.to_string(),
        seconds: time.as_secs_f64(),
        packets: result.packets,
        packets_missed: result.packets_missed,
        engines: result.engines.iter().zip(&config.engine_cpus).map(engine).collect(),
        alerts: alerts.map(|(&(gid, sid), &alerts)| RuleAlerts { gid, sid, alerts }).collect(),
        late_events: result.late,
        reloads,
    }
}

/// Prints a row for each engine.
fn print(document: &DetectionDocument) -> Result<(), Failure> {
    let (out, width) = (&mut stdout(), tables::width());
    writeln!(out, "{}", tables::wrapped(&document.lead(), width))?;
    let columns =
        ["engine", "CPU", "packets", "lost", "alerts", "events", "deaths", "time", "memory"];
    let row = |(at, of): (usize, &DetectionEngine)| {
        let lost = of.packets_dropped + of.packets_missed.unwrap_or(0);
        let events = of.alerts + of.other_events;
        let start = [at as u64, u64::from(of.cpu), of.packets, lost, of.alerts, events, of.deaths];
        let used = [
            format!("{:.1} s", of.cpu_seconds),
            format!("{:.0} MB", of.resident_bytes as f64 / 1e6),
        ];
        start.into_iter().map(|count| count.to_string()).chain(used).collect()
    };
    let rows = document.engines.iter().enumerate().map(row).collect();
    Grid { columns: columns.map(str::to_owned).to_vec(), rows }.print(width, out)?;
    Ok(())
}
