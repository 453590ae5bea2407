//! `niclab analytics`: the most frequent keys of tuples, window by window.

mod failure;
mod input;
mod results;
mod screen;
mod send;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use niclab_analytics::definition::{Query, WindowResult};
use niclab_analytics::job::{ClusterOptions, EngineOptions, JobEngine};
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

pub use failure::AnalyticsFailure;
pub use input::InputCounters;

/// Bytes of a file of processes.
const HOSTFILE_LEN_MAX: u64 = 1 << 20;
/// How long the other processes are waited for.
const PATIENCE: Duration = Duration::from_secs(60);
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
    let is_first = cluster.as_ref().is_none_or(|cluster| cluster.process == 0);
    let cores = cores(&arguments.cores)?;
    let options = EngineOptions { cluster, ..EngineOptions::new(query, cores) };
    let input = input::OpenInput::open(arguments)?;
    let mut output =
        results::ResultLines::open(arguments.output.as_deref(), arguments.live, query.windows)?;
    let (sender, results) = mpsc::channel::<WindowResult>();
    // Whoever has no receiver is at its end.
    let emit = Box::new(move |result| _ = sender.send(result));
    let engine = JobEngine::start(options, emit, Box::new(|_| Box::new(())))
        .map_err(AnalyticsFailure::from)?;
    let counters = Arc::new(InputCounters::default());
    let metrics = arguments.metrics;
    let metrics =
        metrics.map(|at| AnalyticsMetrics::start(at, engine.view(), Arc::clone(&counters)));
    let _metrics = metrics.transpose()?;
    let windows = windows_text(arguments);
    if !arguments.live {
        say(&format!("analytics: tuples from {}; {windows}; Ctrl-C ends it", input.name()));
    }
    let (stop, shown, is_live) = (&*stop, &*counters, arguments.live);
    let (fed, written) = thread::scope(|scope| {
        let writing = scope.spawn(move || {
            let written = match is_live {
                true => screen::show(&results, &windows, &mut output, shown, stop),
                false => output.write_all(&results, shown),
            };
            // Nothing is counted for nobody.
            if written.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            written
        });
        let fed = feed(engine, input, shown, stop);
        (fed, writing.join())
    });
    written.unwrap_or(Ok(()))?;
    fed?;
    totals(&counters, is_first);
    Ok(())
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
        thread::sleep(Duration::from_millis(1));
    }
    engine.stop();
    engine.join().map_err(AnalyticsFailure::from)?;
    fed
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
            "; {}, {} malformed; {} duplicates, {} beyond the window, {} without room, {} refused",
            counted(tuples.frames, "frame", "frames"),
            whole(tuples.malformed),
            whole(tuples.duplicates),
            whole(tuples.beyond),
            whole(tuples.no_room),
            whole(tuples.refused),
        );
    }
    if is_first {
        text += &format!("; {}", counted(counters.windows(), "window", "windows"));
    }
    say(&text);
}
