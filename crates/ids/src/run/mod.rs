//! An intrusion detection at work: a card between a port and a Suricata for each part of the rules.
//!
//! The card gives each engine its packets ([`SteeringTables`](crate::SteeringTables)): by a TAP
//! interface, or by a pipe that the card waits for (`pipe`), if they come from a trace. Engines
//! are started (`start`) with the user's configuration (`settings`), each on a CPU (`child`),
//! watched and started again (`engine`), and asked by their sockets (`command_socket`). Their
//! events become those of one engine (`setup`, `merge`) in one file (`eve`).
//!
//! **Other rules hold from one instant on.** First every engine gets the rules that it will have,
//! beside those that it has. Then the card takes the tables of the new partition between two
//! bursts. From then on the events of the new rules count, and those of the old ones do not. At
//! last every engine drops the old rules. If an engine refuses the new rules, all go on with the
//! old ones.

mod child;
mod command_socket;
mod engine;
mod error;
mod eve;
mod merge;
mod pipe;
mod settings;
mod setup;
mod start;
mod usage;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use niclab_card::{Card, CardResult, PortName};
use niclab_program::Pipeline;

use crate::partition::Partition;
use crate::rule::Rule;
use engine::{END, Engine, EngineChange, Output};
use eve::EveFile;
use merge::Merge;
use pipe::Pipe;
use settings::RULES;
use setup::Setup;
use start::{of_program, pipeline};

pub use error::{EngineError, RunError};
pub use eve::EVE;
pub use merge::EventCounters;

/// Events that wait between the engines and niclab.
const EVENTS_MAX: usize = 8_192;

/// How often card and engines are looked after.
const LOOK: Duration = Duration::from_millis(50);

/// How long all cores of the card may take until they have another program.
const SWITCH: Duration = Duration::from_secs(10);

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Where packets come from: an interface, or a trace.
    pub port: PortName,
    /// The cores of the card: one if the packets come from a trace.
    pub card_cores: Vec<u32>,
    /// The CPU of each engine. Their number is that of the cores of the partition.
    pub engine_cpus: Vec<u32>,
    /// Suricata.
    pub suricata: PathBuf,
    /// Its configuration.
    pub config: PathBuf,
    /// The directory of the results, which exists: [`EVE`] and a directory for each engine.
    pub directory: PathBuf,
}

/// Something that whoever watches the run wants to know.
#[derive(Debug)]
pub enum RunEvent {
    /// An engine takes packets; whether another one died before it.
    Ready {
        /// Which engine, from 0.
        engine: usize,
        /// Whether it was started again.
        is_restart: bool,
    },
    /// An engine died. It is started again.
    Died {
        /// Which engine, from 0.
        engine: usize,
        /// Why.
        error: EngineError,
    },
    /// The new rules hold.
    Reloaded {
        /// Time until every engine had them.
        loading: Duration,
        /// Time that the cores of the card took to change.
        switching: Duration,
    },
    /// The new rules are refused; the old ones hold.
    NotReloaded(RunError),
    /// Events cannot be written; they wait.
    NotWritten(String),
    /// Events are written again.
    Written,
    /// A port of the card is gone, with the reason.
    Port(String),
}

/// What became of the packets and events of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineResult {
    /// Packets that the card gave it.
    pub packets: u64,
    /// Packets for it that the card dropped: it was not there.
    pub packets_dropped: u64,
    /// Packets that the kernel dropped before it took them; none if it takes them from a pipe.
    pub packets_missed: u64,
    /// Its events.
    pub events: EventCounters,
    /// How often it died.
    pub deaths: u64,
    /// Time on CPUs since it was ready for packets.
    pub cpu: Duration,
    /// The most memory that it had at a time, bytes.
    pub resident_bytes: u64,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// Packets that came.
    pub packets: u64,
    /// Packets that came, and that the card had no room for.
    pub packets_missed: u64,
    /// Each engine.
    pub engines: Vec<EngineResult>,
    /// Alerts that count, by `gid` and `sid`.
    pub alerts: BTreeMap<(u32, u32), u64>,
    /// Events that stand behind a later one in the file.
    pub late: u64,
    /// The card.
    pub card: CardResult,
}

/// Other rules on their way.
struct Reload {
    setup: Arc<Setup>,
    pipeline: Option<Box<Pipeline>>,
    /// The generation of the files that the engines have to load.
    generation: u64,
    since: Instant,
}

/// An intrusion detection at work. Its engines end with this value, or with the thread that made
/// it.
pub struct IdsRun {
    config: RunConfig,
    setup: Arc<Setup>,
    card: Option<Card>,
    pipes: Vec<Pipe>,
    engines: Vec<Engine>,
    output: Receiver<Output>,
    merge: Merge,
    eve: EveFile,
    reload: Option<Reload>,
    generation: u64,
    looked: Instant,
    is_eve_failing: bool,
    missing: Vec<String>,
    events: Vec<RunEvent>,
}

/// The directory of an engine.
fn place(directory: &Path, engine: usize) -> PathBuf {
    directory.join(format!("engine-{engine}"))
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> RunError {
    move |source| RunError::File { path: path.to_owned(), source }
}

impl IdsRun {
    /// Writes the rules of each engine.
    fn write_rules(&self, text: impl Fn(usize) -> String) -> Result<(), RunError> {
        (0..self.config.engine_cpus.len()).try_for_each(|core| {
            let path = place(&self.config.directory, core).join(RULES);
            fs::write(&path, text(core)).map_err(failed(&path))
        })
    }

    /// Takes events and looks after card and engines for a time. Call it again and again.
    pub fn turn(&mut self, time: Duration) -> Vec<RunEvent> {
        let until = Instant::now() + time;
        loop {
            let next = until.min(self.looked + LOOK);
            self.take_events(next);
            if self.looked.elapsed() >= LOOK {
                self.look();
            }
            if Instant::now() >= until {
                return std::mem::take(&mut self.events);
            }
        }
    }

    /// Takes the events that come until then.
    fn take_events(&mut self, until: Instant) {
        loop {
            let now = Instant::now();
            let rest = until.saturating_duration_since(now);
            if self.eve.is_full() {
                return std::thread::sleep(rest);
            }
            match self.output.recv_timeout(rest) {
                Ok(Output { engine, line, is_whole }) => {
                    self.merge.take(engine, line, is_whole, now);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
            if now >= until {
                return;
            }
        }
    }

    fn look(&mut self) {
        self.looked = Instant::now();
        self.write_events(false);
        for (engine, of) in self.engines.iter_mut().enumerate() {
            match of.look() {
                Some(EngineChange::Ready { is_restart }) => {
                    self.events.push(RunEvent::Ready { engine, is_restart });
                }
                Some(EngineChange::Died(error)) => {
                    self.events.push(RunEvent::Died { engine, error });
                }
                // Another engine may have refused the same rules before.
                Some(EngineChange::Refused { generation, error })
                    if generation == self.generation =>
                {
                    self.refuse_reload(RunError::Engine { engine, error });
                    break;
                }
                Some(EngineChange::Refused { .. }) => {}
                None => {}
            }
        }
        self.look_at_reload();
        let missing = self.card.iter_mut().flat_map(Card::run_housekeeping);
        let missing: Vec<String> =
            missing.map(|(name, error)| format!("{name} is not there: {error}")).collect();
        for reason in &missing {
            if !self.missing.contains(reason) && !reason.starts_with("engine:") {
                self.events.push(RunEvent::Port(reason.clone()));
            }
        }
        self.missing = missing;
    }

    fn write_events(&mut self, all: bool) {
        let now = Instant::now();
        while let Some(line) = self.merge.next(now, all) {
            self.eve.push(&line);
        }
        self.eve.flush();
        let failure = self.eve.failure().map(ToString::to_string);
        match (failure, self.is_eve_failing) {
            (Some(reason), false) => self.events.push(RunEvent::NotWritten(reason)),
            (None, true) => self.events.push(RunEvent::Written),
            _ => {}
        }
        self.is_eve_failing = self.eve.failure().is_some();
    }

    /// Replaces the rules, while packets flow. [`IdsRun::turn`] says when they hold, or why not.
    ///
    /// # Errors
    /// [`RunError`]; the old rules hold.
    pub fn reload(&mut self, rules: Vec<Rule>, partition: Partition) -> Result<(), RunError> {
        let pipeline = Some(Box::new(pipeline(&partition)?));
        let setup = Arc::new(Setup::new(rules, partition, Some(&self.setup)));
        let both = |core| self.setup.text(core, None) + &setup.text(core, Some(&self.setup));
        self.write_rules(both)?;
        self.generation += 1;
        let generation = self.generation;
        self.reload = Some(Reload { setup, pipeline, generation, since: Instant::now() });
        self.engines.iter_mut().for_each(|engine| engine.reload(generation));
        Ok(())
    }

    /// Whether rules are being replaced.
    pub fn is_reloading(&self) -> bool {
        self.reload.is_some()
    }

    /// Changes to the new rules, if every engine has them.
    fn look_at_reload(&mut self) {
        let (Some(reload), Some(card)) = (&mut self.reload, &mut self.card) else { return };
        let generation = reload.generation;
        if !self.engines.iter().all(|engine| engine.has_loaded(generation)) {
            return;
        }
        let loading = reload.since.elapsed();
        let Some(pipeline) = reload.pipeline.take() else { return };
        let (from_ns, since) = (now_ns(), Instant::now());
        let change = card.set_program(Some(*pipeline));
        while card.core_without_program().is_some() && since.elapsed() < SWITCH {
            std::thread::sleep(Duration::from_micros(100));
        }
        let setup = Arc::clone(&reload.setup);
        self.reload = None;
        if let Err(error) = change {
            return self.refuse_reload(of_program(&error));
        }
        self.merge.change(Arc::clone(&setup), from_ns, now_ns());
        self.setup = setup;
        self.events.push(RunEvent::Reloaded { loading, switching: since.elapsed() });
        self.drop_others();
    }

    /// Goes on with the rules that hold.
    fn refuse_reload(&mut self, error: RunError) {
        self.reload = None;
        self.events.push(RunEvent::NotReloaded(error));
        self.drop_others();
    }

    /// Has every engine drop the rules that do not hold.
    fn drop_others(&mut self) {
        if let Err(error) = self.write_rules(|core| self.setup.text(core, None)) {
            self.events.push(RunEvent::NotReloaded(error));
        }
        self.generation += 1;
        let generation = self.generation;
        self.engines.iter_mut().for_each(|engine| engine.reload(generation));
    }

    /// Whether all packets of a trace were given to the engines.
    pub fn is_finished(&self) -> bool {
        self.card.as_ref().is_some_and(Card::is_finished)
    }

    /// Packets that came so far, and alerts that count.
    pub fn progress(&self) -> (u64, u64) {
        let counters = self.card.as_ref().map(Card::counters);
        let packets = counters.and_then(|counters| Some(counters.ports.first()?.rx_frames));
        let alerts = self.merge.counters().iter().map(|of| of.alerts).sum();
        (packets.unwrap_or(0), alerts)
    }

    /// Process of each engine, if it has one.
    pub fn pids(&self) -> Vec<Option<u32>> {
        self.engines.iter().map(Engine::pid).collect()
    }

    /// Ends the card and then the engines, which inspect what they have. `is_stopped` says that
    /// nobody wants to wait for slow ones.
    ///
    /// # Errors
    /// [`RunError::File`] if not all events could be written.
    pub fn shut_down(mut self, is_stopped: &dyn Fn() -> bool) -> Result<RunResult, RunError> {
        // What has left the card may not have arrived yet.
        self.turn(LOOK * 2);
        let asked: Vec<_> = match self.pipes.is_empty() {
            true => self.engines.iter().map(Engine::counters).collect(),
            false => vec![None; self.engines.len()],
        };
        let patience = if is_stopped() { Duration::ZERO } else { END };
        self.pipes.iter().for_each(|pipe| pipe.wait_until(Instant::now() + patience));
        let card = self.card.take().map(Card::shut_down);
        self.engines.iter().for_each(Engine::ask_to_end);
        let until = Instant::now() + END;
        // All have to be asked.
        while self.engines.iter_mut().map(Engine::is_gone).filter(|is_gone| !is_gone).count() > 0 {
            if Instant::now() >= until {
                break;
            }
            self.take_events(Instant::now() + LOOK);
            self.write_events(false);
        }
        let ends: Vec<_> =
            self.engines.iter().map(|engine| (engine.deaths, engine.usage())).collect();
        self.engines.clear();
        while let Ok(Output { engine, line, is_whole }) = self.output.try_recv() {
            self.merge.take(engine, line, is_whole, Instant::now());
        }
        self.write_events(true);
        let card = card.unwrap_or(CardResult {
            counters: Default::default(),
            items: None,
            frames: 0,
            frames_lost: 0,
            errors: Vec::new(),
        });
        let ports = &card.counters.ports;
        let engine = |(number, events): (usize, &EventCounters)| {
            let port = ports.get(number + 1);
            EngineResult {
                packets: port.map_or(0, |port| port.tx_frames),
                packets_dropped: port.map_or(0, |port| port.tx_dropped),
                packets_missed: asked[number].map_or(0, |(_, missed)| missed),
                events: *events,
                deaths: ends[number].0,
                cpu: ends[number].1.cpu,
                resident_bytes: ends[number].1.resident_bytes,
            }
        };
        let result = RunResult {
            packets: ports.first().map_or(0, |port| port.rx_frames),
            packets_missed: ports.first().map_or(0, |port| port.rx_missed),
            engines: self.merge.counters().iter().enumerate().map(engine).collect(),
            alerts: self.merge.alerts().clone(),
            late: self.merge.late(),
            card,
        };
        let written = self.eve.finish();
        written.map_err(|(path, source)| RunError::File { path, source })?;
        Ok(result)
    }
}

/// The time of day, nanoseconds since 1970.
fn now_ns() -> i128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128
}
