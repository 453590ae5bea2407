//! The input of `analytics`: opened before anything else starts.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use niclab_analytics::inbox::Inbox;
use niclab_analytics::input::{
    Generator, GeneratorSpec, InputSnapshot, InputStatus, JsonError, JsonTuples, LocalCounters,
    LocalInput, UdpInput, UdpOptions,
};
use niclab_analytics::job::{EngineOptions, JobEngine};
use niclab_analytics::receiver::{ReceiverCounters, ReceiverOptions};
use niclab_device::address;

use super::card::{self, CardInput};
use super::{AnalyticsFailure, MS};
use crate::arguments::{AnalyticsArguments, GeneratorArguments, TupleInput};
use crate::failure::Failure;
use crate::output::one_line;

/// The port of UDP that an address without one has.
pub const PORT: u16 = 9_770;
/// Lines that are read ahead.
pub const LINES_AHEAD: usize = 4_096;
/// How long a line is waited for before those before it are handed over.
const TURN: Duration = Duration::from_millis(10);
/// How long a program that sends lines may take to accept.
const CONNECT: Duration = Duration::from_secs(5);

/// What an input has done, and how many windows came out.
#[derive(Debug, Default)]
pub struct InputCounters {
    local: LocalCounters,
    udp: InputStatus,
    card: Mutex<Option<InputSnapshot>>,
    windows: AtomicU64,
}

impl InputCounters {
    /// Counters of the tuples; those of frames are 0 if the input has none.
    pub fn tuples(&self) -> ReceiverCounters {
        let counters = self.received().counters;
        ReceiverCounters {
            taken: counters.taken + self.local.taken(),
            late: counters.late + self.local.late(),
            ..counters
        }
    }

    /// What a receiving side has and has done, by sockets or by a card.
    pub fn received(&self) -> InputSnapshot {
        let card = *self.card.lock().unwrap_or_else(PoisonError::into_inner);
        card.unwrap_or_else(|| self.udp.read())
    }

    /// Takes note of what a card has received.
    pub fn set_card(&self, received: InputSnapshot) {
        *self.card.lock().unwrap_or_else(PoisonError::into_inner) = Some(received);
    }

    /// Sources of UDP that were heard of lately and have not ended.
    pub fn live_sources(&self) -> usize {
        self.received().live_sources
    }

    /// Windows that came out.
    pub fn windows(&self) -> u64 {
        self.windows.load(Ordering::Relaxed)
    }

    /// Counts a window.
    pub fn count_window(&self) {
        self.windows.fetch_add(1, Ordering::Relaxed);
    }
}

/// Lines of any text.
pub type JsonLines = JsonTuples<Box<dyn BufRead + Send>>;

/// Tuples without a network in between.
pub enum LocalTuples {
    /// From a seed.
    Generator(Generator),
    /// Lines of JSON.
    Json(JsonLines),
}

impl LocalTuples {
    /// Opens an input other than UDP; `None` if it is UDP.
    pub fn open(
        input: &TupleInput,
        generator: &GeneratorArguments,
    ) -> Result<Option<LocalTuples>, Failure> {
        let failed = |input: String, error: String, is_address: bool| AnalyticsFailure::Input {
            input,
            error,
            is_address,
        };
        let text: Box<dyn BufRead + Send> = match input {
            TupleInput::Udp(_) => return Ok(None),
            TupleInput::Generator => {
                let spec = spec(generator);
                let generator = Generator::new(spec).map_err(AnalyticsFailure::from)?;
                return Ok(Some(LocalTuples::Generator(generator)));
            }
            TupleInput::Json(path) if path.as_os_str() == "-" => {
                Box::new(BufReader::new(io::stdin()))
            }
            TupleInput::Json(path) => {
                let remedy = |error| format!("{error}; give a file that can be read");
                let name = format!("json:{}", one_line(&path.display().to_string()));
                let file = File::open(path).map_err(|error| failed(name, remedy(error), false))?;
                Box::new(BufReader::new(file))
            }
            TupleInput::JsonTcp(text) => {
                let at = address::read(text, 0).map_err(Failure::address("--input json-tcp"))?;
                let remedy = |error| format!("{error}; start the program that sends lines there");
                let name = format!("json-tcp:{}", one_line(text));
                let stream = TcpStream::connect_timeout(&at, CONNECT)
                    .map_err(|error| failed(name, remedy(error), true))?;
                Box::new(BufReader::new(stream))
            }
        };
        Ok(Some(LocalTuples::Json(JsonTuples::new(text))))
    }
}

fn spec(arguments: &GeneratorArguments) -> GeneratorSpec {
    GeneratorSpec {
        tuples: arguments.tuples,
        keys: arguments.keys,
        exponent: arguments.zipf,
        start_ns: 0,
        interval_ns: arguments.interval_ns,
        seed: arguments.seed,
    }
}

/// The name of an input, as it is typed.
pub fn name(input: &TupleInput) -> String {
    match input {
        TupleInput::Udp(address) => format!("udp:{}", one_line(address)),
        TupleInput::Json(path) => format!("json:{}", one_line(&path.display().to_string())),
        TupleInput::JsonTcp(address) => format!("json-tcp:{}", one_line(address)),
        TupleInput::Generator => "generator".to_owned(),
    }
}

enum InputKind {
    Udp(UdpInput),
    Card(Box<CardInput>),
    Local(LocalTuples),
}

/// An input that is open.
pub struct OpenInput {
    kind: InputKind,
    name: String,
}

impl OpenInput {
    /// Opens the input that was asked for.
    pub fn open(arguments: &AnalyticsArguments) -> Result<OpenInput, Failure> {
        if let Some(local) = LocalTuples::open(&arguments.input, &arguments.generator)? {
            card::refuse(arguments)?;
            if arguments.until_end {
                let reason = "--until-end is for --input udp; this input ends by itself".to_owned();
                return Err(Failure::Address { reason });
            }
            let name = name(&arguments.input);
            return Ok(OpenInput { kind: InputKind::Local(local), name });
        }
        let TupleInput::Udp(text) = &arguments.input else {
            return Err(Failure::Address { reason: "--input: not an address of UDP".to_owned() });
        };
        let listen = address::read(text, PORT).map_err(Failure::address("--input udp"))?;
        let receiver = ReceiverOptions {
            sources_awaited: arguments.sources.into(),
            silence_ns: arguments.silence_ms * MS,
            ..ReceiverOptions::default()
        };
        if let Some(card) = CardInput::new(arguments, listen, receiver)? {
            let name = card.name();
            return Ok(OpenInput { kind: InputKind::Card(Box::new(card)), name });
        }
        let options = UdpOptions { listen, receiver, until_end: arguments.until_end };
        let failed = |error| AnalyticsFailure::Listen { address: listen.to_string(), error };
        let udp = UdpInput::bind(options).map_err(failed)?;
        let name = format!("udp:{}", udp.address()?);
        Ok(OpenInput { kind: InputKind::Udp(udp), name })
    }

    /// Its name, with the address that it has.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sources that have to be there before a window is complete; `None` if it has no sources.
    pub fn awaited(&self) -> Option<usize> {
        match &self.kind {
            InputKind::Udp(udp) => Some(udp.options().receiver.sources_awaited),
            InputKind::Card(card) => Some(card.awaited()),
            InputKind::Local(_) => None,
        }
    }

    /// The inboxes of the workers, if the input brings its own; and the lanes that others need.
    pub fn inboxes(
        &mut self,
        options: &mut EngineOptions,
    ) -> Result<Option<Vec<Arc<Inbox>>>, Failure> {
        match &mut self.kind {
            InputKind::Card(card) => card.inboxes(options),
            InputKind::Udp(_) | InputKind::Local(_) => Ok(None),
        }
    }

    /// Feeds an engine until the input ends, or `stop` is set.
    pub fn feed(
        self,
        engine: &JobEngine,
        counters: &InputCounters,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let OpenInput { kind, name } = self;
        let local = || LocalInput::new(engine, &counters.local);
        match kind {
            InputKind::Udp(udp) => Ok(udp.run(engine, stop, &counters.udp, &mut ())?),
            InputKind::Card(card) => card.feed(engine, counters, stop),
            InputKind::Local(LocalTuples::Generator(mut generator)) => {
                let mut input = local();
                if generator.all(|tuple| input.take(&tuple, stop)) {
                    input.end();
                }
                Ok(())
            }
            InputKind::Local(LocalTuples::Json(lines)) => {
                let fed = feed_lines(local(), lines, engine, stop)?;
                Ok(fed.map_err(|error| AnalyticsFailure::Json { input: name, error })?)
            }
        }
    }
}

/// Feeds lines. A thread of its own reads them, so that a sender that pauses delays neither the
/// tuples before the pause nor the end of the command.
fn feed_lines(
    mut input: LocalInput<'_>,
    mut lines: JsonLines,
    engine: &JobEngine,
    stop: &AtomicBool,
) -> io::Result<Result<(), JsonError>> {
    let (sender, receiver) = mpsc::sync_channel(LINES_AHEAD);
    let read = move || {
        while let Some(read) = lines.tuple().transpose() {
            let is_last = read.is_err();
            if sender.send(read).is_err() || is_last {
                return;
            }
        }
    };
    thread::Builder::new().name("lines".to_owned()).spawn(read)?;
    let mut flushed_at = Instant::now();
    loop {
        let at_once = receiver.recv_timeout(Duration::ZERO);
        if at_once.is_err() || flushed_at.elapsed() >= TURN {
            input.flush();
            flushed_at = Instant::now();
        }
        match at_once.or_else(|_| receiver.recv_timeout(TURN)) {
            Ok(Ok(tuple)) if input.take(&tuple, stop) => {}
            Ok(Ok(_)) => return Ok(Ok(())),
            // The other processes end only with this one, so it does not wait for the workers.
            Ok(Err(error)) if engine.has_others() => return Ok(Err(error)),
            Ok(Err(error)) => {
                // What stands before the wrong line counts as if the input had ended there.
                input.end();
                while !stop.load(Ordering::Relaxed) && !engine.is_over() {
                    thread::sleep(TURN);
                }
                return Ok(Err(error));
            }
            Err(RecvTimeoutError::Timeout) => {
                if stop.load(Ordering::Relaxed) || engine.is_over() {
                    return Ok(Ok(()));
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                input.end();
                return Ok(Ok(()));
            }
        }
    }
}
