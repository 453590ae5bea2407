//! `niclab analytics`: the most frequent keys of tuples, window by window.

mod card;
mod failure;
mod input;
mod notices;
mod results;
mod screen;
mod send;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use niclab_analytics::definition::{Query, WindowResult};
use niclab_analytics::job::{ClusterOptions, EngineOptions, JobEngine, is_of_a_lost_connection};
use niclab_analytics::window::Windows;
use niclab_lab::words;

use crate::arguments::{AnalyticsArguments, AnalyticsCommand};
use crate::cores::cores;
use crate::failure::Failure;
use crate::files;
use crate::metrics::AnalyticsMetrics;
use crate::output::say;
use crate::rules::counted;
use crate::run::stop_flag;
use notices::Notices;

pub use failure::AnalyticsFailure;
pub use input::InputCounters;

/// Bytes of a file of processes.
const HOSTFILE_LEN_MAX: u64 = 1 << 20;
/// How long the other processes are waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Results that wait to be written; more make the workers wait.
const RESULTS_AHEAD: usize = 256;
/// How long results may take to be written after a stop: their reader may have stopped, too.
const GRACE: Duration = Duration::from_secs(2);
/// How often a thread that waits for another one looks.
const LOOK: Duration = Duration::from_millis(1);
/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// Counts until the input ends or it is stopped; or sends.
pub fn run(arguments: &AnalyticsArguments) -> Result<(), Failure> {
    if let Some(AnalyticsCommand::Send(arguments)) = &arguments.command {
        return send::run(arguments);
    }
    let stop = stop_flag()?;
    let query = query(arguments)?;
    let cluster = arguments.hostfile.as_deref().zip(arguments.process);
    let cluster = cluster.map(|(path, process)| processes(path, process)).transpose()?;
    if cluster.is_some() {
        hide_lost_connections();
    }
    let is_first = cluster.as_ref().is_none_or(|cluster| cluster.process == 0);
    let cores = cores(&arguments.cores)?;
    let mut options = EngineOptions { cluster, ..EngineOptions::new(query, cores) };
    let mut input = input::OpenInput::open(arguments)?;
    let inboxes = input.inboxes(&mut options)?;
    let output = arguments.output.as_deref();
    let (output, mut unused) = results::ResultLines::open(output, arguments.live, query.windows)?;
    let (sender, results) = mpsc::sync_channel(RESULTS_AHEAD);
    let (stopped, until) = (Arc::clone(&stop), OnceLock::new());
    let emit = Box::new(move |result| hand_over(&sender, result, &stopped, &until));
    let observers = Box::new(|_| Box::new(()) as _);
    let engine = match inboxes {
        Some(inboxes) => JobEngine::start_on(inboxes, options, emit, observers),
        None => JobEngine::start(options, emit, observers),
    };
    let engine = engine.map_err(AnalyticsFailure::from)?;
    let counters = Arc::new(InputCounters::default());
    let metrics = arguments.metrics;
    let metrics =
        metrics.map(|at| AnalyticsMetrics::start(at, engine.view(), Arc::clone(&counters)));
    let _metrics = metrics.transpose()?;
    let windows = windows_text(arguments);
    if !arguments.live {
        say(&format!("analytics: tuples from {}; {windows}; Ctrl-C ends it", input.name()));
    }
    let live = arguments.live.then_some(windows);
    let notices = input.awaited().filter(|_| !arguments.live);
    let notices = notices.map(|of| Notices::start(Arc::clone(&counters), of)).transpose()?;
    let writing = write(results, live, output, Arc::clone(&counters), Arc::clone(&stop))?;
    let fed = feed(engine, input, &counters, &stop);
    // The windows before a wrong line are written whatever their reader's speed is. After other
    // failures nobody waits for it, and a live view ends.
    let is_wrong_line = matches!(&fed, Err(Failure::Analytics(AnalyticsFailure::Json { .. })));
    if fed.is_err() && (arguments.live || !is_wrong_line) {
        stop.store(true, Ordering::Relaxed);
    }
    drop(notices);
    let written = written(writing, &stop);
    if fed.is_ok() || written.is_err() || counters.windows() > 0 {
        unused.keep();
    }
    written?;
    if fed.is_ok() || counters.windows() > 0 {
        totals(&counters, is_first);
    }
    fed
}

/// Gives a result to the thread that writes it. The workers wait for a slow reader; after a stop
/// they wait for [`GRACE`] in all.
fn hand_over(
    sender: &SyncSender<WindowResult>,
    mut result: WindowResult,
    stop: &AtomicBool,
    until: &OnceLock<Instant>,
) {
    while let Err(TrySendError::Full(back)) = sender.try_send(result) {
        result = back;
        let is_stopped = stop.load(Ordering::Relaxed);
        if is_stopped && Instant::now() >= *until.get_or_init(|| Instant::now() + GRACE) {
            return;
        }
        thread::sleep(LOOK);
    }
}

/// Sets a flag if its thread panics.
struct StopGuard(Arc<AtomicBool>);

impl Drop for StopGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Starts the thread that writes results, and shows them with the text of `live`. It sets `stop` if
/// it fails: without it nothing needs to be counted.
fn write(
    results: Receiver<WindowResult>,
    live: Option<String>,
    mut output: results::ResultLines,
    counters: Arc<InputCounters>,
    stop: Arc<AtomicBool>,
) -> Result<JoinHandle<Result<(), Failure>>, Failure> {
    let write = move || {
        let StopGuard(stop) = &StopGuard(stop);
        let written = match live {
            Some(windows) => screen::show(&results, &windows, &mut output, &counters, stop),
            None => output.write_all(&results, &counters),
        };
        if written.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        written
    };
    Ok(thread::Builder::new().name("results".to_owned()).spawn(write)?)
}

/// How the thread that writes results has ended. After a stop it may take [`GRACE`].
fn written(writing: JoinHandle<Result<(), Failure>>, stop: &AtomicBool) -> Result<(), Failure> {
    let mut until = None;
    while !writing.is_finished() {
        let is_stopped = stop.load(Ordering::Relaxed);
        if is_stopped && Instant::now() >= *until.get_or_insert_with(|| Instant::now() + GRACE) {
            let reason = "nobody reads the results, so some windows are missing; read standard \
                          output to its end, or give -o FILE";
            return Err(std::io::Error::other(reason).into());
        }
        thread::sleep(LOOK);
    }
    let panicked = |_| Err(std::io::Error::other("the thread that writes results panicked").into());
    writing.join().unwrap_or_else(panicked)
}

/// Feeds an engine to the end of its input, and waits for the end of its workers.
fn feed(
    engine: JobEngine,
    input: input::OpenInput,
    counters: &InputCounters,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let fed = input.feed(&engine, counters, stop);
    if fed.is_err() || stop.load(Ordering::Relaxed) {
        engine.stop();
    }
    while !engine.is_over() && !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
    }
    engine.stop();
    let ended = engine.join().map_err(AnalyticsFailure::from);
    // A wrong input is why workers were stopped.
    fed.and(ended.map_err(Failure::from))
}

/// Leaves panics of timely about lost connections unsaid: an error of its own says it.
fn hide_lost_connections() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        if !text.is_some_and(is_of_a_lost_connection) {
            others(panic);
        }
    }));
}

fn query(arguments: &AnalyticsArguments) -> Result<Query, AnalyticsFailure> {
    let AnalyticsArguments { length_ms, slide_ms, stream, top, .. } = arguments;
    let windows = Windows::new(length_ms.saturating_mul(MS), slide_ms.saturating_mul(MS))?;
    Ok(Query { stream: *stream, windows, top: usize::from(*top) })
}

fn windows_text(arguments: &AnalyticsArguments) -> String {
    let AnalyticsArguments { length_ms, slide_ms, stream, .. } = arguments;
    format!("stream {stream}, windows of {length_ms} ms every {slide_ms} ms")
}

/// The processes that a file names, of which this is one.
fn processes(path: &Path, process: usize) -> Result<ClusterOptions, Failure> {
    let text = files::text(path, HOSTFILE_LEN_MAX)?;
    let lines = text.lines().map(str::trim).enumerate();
    let named: Vec<(usize, &str)> = lines.filter(|(_, line)| !line.is_empty()).collect();
    let wrong = |reason: String| AnalyticsFailure::Hostfile { path: path.to_owned(), reason };
    if named.is_empty() {
        return Err(wrong("it names no process; write HOST:PORT, a line each".to_owned()).into());
    }
    let has_port = |text: &str| {
        let port = text.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        port.is_some_and(|port| port > 0)
    };
    if let Some((at, text)) = named.iter().find(|(_, text)| !has_port(text)) {
        return Err(wrong(format!("line {}: `{text}`: write HOST:PORT", at + 1)).into());
    }
    let addresses = named.into_iter().map(|(_, line)| line.to_owned()).collect();
    Ok(ClusterOptions { process, addresses, patience: PATIENCE })
}

/// Says what was done.
fn totals(counters: &InputCounters, is_first: bool) {
    let (tuples, whole) = (counters.tuples(), |count: u64| words::whole(count as f64));
    let taken = counted(tuples.taken, "tuple", "tuples");
    let mut text = format!("{taken}, {} late", whole(tuples.late));
    if tuples.frames > 0 {
        text += &format!(
            "; {}, {} malformed; {} duplicates, {} beyond the sequence window, {} without room, \
             {} refused",
            counted(tuples.frames, "frame", "frames"),
            whole(tuples.malformed),
            whole(tuples.duplicates),
            whole(tuples.beyond),
            whole(tuples.no_room),
            whole(tuples.refused),
        );
    }
    if tuples.foreign > 0 {
        let frames = counted(tuples.foreign, "frame", "frames");
        text += &format!("; {frames} of sources with keys of several cores");
    }
    let silent = counters.received().silent_sources;
    if silent > 0 {
        text += &format!("; {} fell silent", counted(silent as u64, "source", "sources"));
    }
    if is_first {
        text += &format!("; {}", counted(counters.windows(), "window", "windows"));
    }
    say(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_stops_the_command_with_an_error() {
        let stop = Arc::new(AtomicBool::new(false));
        let guard = StopGuard(Arc::clone(&stop));
        let writing = thread::spawn(move || {
            let _guard = guard;
            panic!("no way");
        });
        let error = written(writing, &AtomicBool::new(false)).unwrap_err().to_string();
        assert_eq!(error, "output: the thread that writes results panicked");
        assert!(stop.load(Ordering::Relaxed));
    }

    #[test]
    fn workers_wait_for_a_slow_reader_and_a_stop_ends_the_wait() {
        let (sender, results) = mpsc::sync_channel(1);
        let (stop, until) = (AtomicBool::new(false), OnceLock::new());
        let hand_over = |window| {
            let result = WindowResult { window, top: Vec::new() };
            hand_over(&sender, result, &stop, &until);
        };
        let after = |pause| thread::sleep(Duration::from_millis(pause));
        thread::scope(|scope| {
            let workers = scope.spawn(|| (0..3).for_each(hand_over));
            after(50);
            assert!(!workers.is_finished(), "the second result has no room");
            assert_eq!([(); 2].map(|()| results.recv().unwrap().window), [0, 1]);
            workers.join().unwrap();
            let workers = scope.spawn(|| hand_over(3));
            after(50);
            assert!(!workers.is_finished());
            stop.store(true, Ordering::Relaxed);
            workers.join().unwrap();
        });
    }
}
