//! An intrusion detection at work: a card between a port and a Suricata for each part of the rules.
//!
//! The card takes packets while the engines are ready (`gate`). It gives each engine its packets
//! ([`SteeringTables`](crate::SteeringTables)): by a TAP interface, or by a pipe that the card
//! waits for (`pipe`), if they come from a trace. Engines are started (`start`) with the user's
//! configuration (`settings`), each on a CPU (`child`), watched and started again (`engine`), and
//! asked by their sockets (`command_socket`). Their events become those of one engine (`setup`,
//! `merge`) in one file (`eve`).
//!
//! **Other rules hold from one instant on.** First every engine gets the rules that it will have,
//! beside those that it has. Then the card takes the tables of the new partition between two
//! bursts. From then on the events of the new rules count, and those of the old ones do not. At
//! last every engine drops the old rules. If an engine refuses the new rules, all go on with the
//! old ones.

mod account;
mod child;
mod command_socket;
mod engine;
mod error;
mod eve;
mod gate;
mod merge;
mod pipe;
mod reload;
mod settings;
mod setup;
mod start;
mod usage;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use niclab_card::{Card, CardResult, PortName};

use account::Account;
use engine::{END, Engine, EngineChange, Output};
use eve::EveFile;
use gate::Gate;
use merge::Merge;
use pipe::Pipe;
use reload::Reload;
use setup::Setup;

pub use error::{EngineError, RunError};
pub use eve::EVE;
pub use merge::EventCounters;

/// Events that wait between the engines and niclab.
const EVENTS_MAX: usize = 8_192;

/// How often card and engines are looked after.
const LOOK: Duration = Duration::from_millis(50);

/// How long engines may take to inspect what they have when a run ends, and to count it, which they
/// do every 3 s.
const FINISH: Duration = Duration::from_secs(10);

/// How long engines may take to end if nobody wants to wait for them.
const STOPPED_END: Duration = Duration::from_secs(5);

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
    /// An engine that died takes packets again.
    Restarted {
        /// Which engine, from 0.
        engine: usize,
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
    /// Engines keep rules that do not hold. Their events do not count. It is tried again if a file
    /// could not be written.
    NotDropped(RunError),
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
    /// Packets for it that the card dropped, because it was not there or too slow.
    pub packets_dropped: u64,
    /// Those of `packets` that it did not inspect, because it was too slow or died. An engine
    /// counts every 3 s: what it inspected after that and before it died is in this number, too.
    /// `None` if it did not say how many it inspected.
    pub packets_missed: Option<u64>,
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
    /// Packets that the card took, from when the engines were ready to the call of
    /// [`IdsRun::shut_down`].
    pub packets: u64,
    /// Packets that came in this time, and that the card had no room for.
    pub packets_missed: u64,
    /// Each engine.
    pub engines: Vec<EngineResult>,
    /// Alerts that count, by `gid` and `sid`.
    pub alerts: BTreeMap<(u32, u32), u64>,
    /// Events that are not in the order of their times in the file.
    pub late: u64,
    /// The card.
    pub card: CardResult,
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
    /// Lets packets pass while the engines take them.
    gate: Gate,
    accounts: Vec<Account>,
    reload: Option<Reload>,
    /// How long the engines took to load the rules that hold.
    loading: Duration,
    /// The generation of the rules in the directories of the engines, from 1.
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
        for (engine, given) in self.given().into_iter().enumerate() {
            match self.engines[engine].look() {
                Some(EngineChange::Ready) => {
                    self.accounts[engine].start(given);
                    self.events.push(RunEvent::Restarted { engine });
                }
                Some(EngineChange::Died(error)) => {
                    self.accounts[engine].die(given, self.engines[engine].take_inspected());
                    self.events.push(RunEvent::Died { engine, error });
                    self.refuse_rules_of_the_dead(engine);
                }
                Some(EngineChange::Refused { generation, error }) => {
                    self.refused(engine, generation, error);
                }
                None => {}
            }
        }
        self.look_at_reload();
        // An engine takes other rules when it has a frame.
        self.pipes.iter().for_each(|pipe| pipe.nudge(self.reload.is_some()));
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

    /// Packets that the card has given to each engine.
    fn given(&self) -> Vec<u64> {
        let counters = self.card.as_ref().map(Card::counters).unwrap_or_default();
        let given = |engine: usize| counters.ports.get(engine + 1).map_or(0, |port| port.tx_frames);
        (0..self.engines.len()).map(given).collect()
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

    /// Time on CPUs of each engine so far, the time of its start included; none if it has no
    /// process.
    pub fn cpu(&self) -> Vec<Option<Duration>> {
        self.pids().into_iter().map(|pid| usage::cpu(pid?)).collect()
    }

    /// Process of each engine, if it has one.
    pub fn pids(&self) -> Vec<Option<u32>> {
        self.engines.iter().map(Engine::pid).collect()
    }

    /// Ends the card and then the engines. Those of an interface inspect and count what they have
    /// before, for some seconds at most. If `is_stopped` says so, slow ones are not waited for
    /// after that.
    ///
    /// # Errors
    /// [`RunError::File`] if not all events could be written.
    pub fn shut_down(mut self, is_stopped: &dyn Fn() -> bool) -> Result<RunResult, RunError> {
        if self.pipes.is_empty() {
            self.let_engines_finish(is_stopped);
        }
        let card = self.shut_down_card(is_stopped);
        self.shut_down_engines(is_stopped);
        let ports = &card.counters.ports;
        let counters = self.merge.counters().to_vec();
        let mut engines = Vec::new();
        for (number, (engine, events)) in self.engines.iter_mut().zip(counters).enumerate() {
            let (given, dropped) =
                ports.get(number + 1).map_or((0, 0), |port| (port.tx_frames, port.tx_dropped));
            let usage = engine.usage();
            engines.push(EngineResult {
                packets: given,
                packets_dropped: dropped,
                packets_missed: engine
                    .inspected_at_end(given)
                    .map(|of| self.accounts[number].missed(given, of)),
                events,
                deaths: engine.deaths,
                cpu: usage.cpu,
                resident_bytes: usage.resident_bytes,
            });
        }
        let result = RunResult {
            packets: ports.first().map_or(0, |port| port.rx_frames),
            packets_missed: ports.first().map_or(0, |port| port.rx_missed),
            engines,
            alerts: self.merge.alerts().clone(),
            late: self.merge.late(),
            card,
        };
        let written = self.eve.finish();
        written.map_err(|(path, source)| RunError::File { path, source })?;
        Ok(result)
    }

    /// Gives the engines no more packets, and waits until they have inspected and counted those
    /// that they have.
    fn let_engines_finish(&mut self, is_stopped: &dyn Fn() -> bool) {
        self.gate.close();
        // A Ctrl-C that has ended the run does not end this wait.
        let was_stopped = is_stopped();
        let until = Instant::now() + FINISH;
        loop {
            // The cores of the card give what they have taken.
            self.turn(LOOK);
            let is_settled = |(engine, given): (usize, u64)| {
                let (of, account) = (&self.engines[engine], &self.accounts[engine]);
                !of.is_ready() || of.counted().is_some_and(|count| account.is_settled(given, count))
            };
            let are_settled = self.given().into_iter().enumerate().all(is_settled);
            let is_enough = is_stopped() && !was_stopped;
            if are_settled || is_enough || Instant::now() >= until {
                return;
            }
        }
    }

    /// Ends the card, and takes events meanwhile: the card may wait for an engine, and an engine
    /// for niclab.
    fn shut_down_card(&mut self, is_stopped: &dyn Fn() -> bool) -> CardResult {
        let Some(card) = self.card.take() else { return CardResult::default() };
        self.pipes.iter().for_each(|pipe| pipe.wait_until(Instant::now() + END));
        let ending = std::thread::spawn(move || card.shut_down());
        while !ending.is_finished() {
            if is_stopped() {
                self.pipes.iter().for_each(|pipe| pipe.wait_until(Instant::now()));
            }
            self.take_events(Instant::now() + LOOK);
            self.write_events(false);
        }
        ending.join().unwrap_or_default()
    }

    fn shut_down_engines(&mut self, is_stopped: &dyn Fn() -> bool) {
        self.engines.iter().for_each(Engine::ask_to_end);
        let until = Instant::now() + END;
        // All have to be asked.
        while self.engines.iter_mut().map(Engine::is_gone).filter(|is_gone| !is_gone).count() > 0 {
            let until = if is_stopped() { until - END + STOPPED_END } else { until };
            if Instant::now() >= until {
                break;
            }
            self.take_events(Instant::now() + LOOK);
            self.write_events(false);
        }
        self.engines.iter_mut().for_each(Engine::kill);
        // Nothing is written any more, and what was written is read to its end.
        let until = Instant::now() + STOPPED_END;
        while let Ok(Output { engine, line, is_whole }) =
            self.output.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            self.merge.take(engine, line, is_whole, Instant::now());
        }
        self.write_events(true);
    }
}

impl Drop for IdsRun {
    fn drop(&mut self) {
        // A core of the card may wait for an engine.
        self.pipes.iter().for_each(|pipe| pipe.wait_until(Instant::now()));
        self.engines.clear();
    }
}

/// The time of day, nanoseconds since 1970.
fn now_ns() -> i128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128
}
