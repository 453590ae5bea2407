//! Tuples by a card: `--mode rss`, `steer` and `dma`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use niclab_analytics::card::{HostReception, RingsSetup, TupleRings};
use niclab_analytics::inbox::Inbox;
use niclab_analytics::input::InputSnapshot;
use niclab_analytics::job::{EngineOptions, JobEngine};
use niclab_analytics::receiver::ReceiverOptions;
use niclab_apps::endpoint::Identity;
use niclab_card::{Card, CardConfig, CardWorkload, PortName, Receive};

use super::AnalyticsFailure;
use super::input::InputCounters;
use crate::arguments::{AnalyticsArguments, TupleInput, TupleMode};
use crate::cores::cores;
use crate::failure::Failure;
use crate::host_address::{mac, read};
use crate::nic::warn_of_down_ports;
use crate::output::say;

/// How often the card is looked after: a source's first tuples wait for it in mode dma.
const LOOK: Duration = Duration::from_millis(5);
/// Looks between two rounds of housekeeping.
const HOUSEKEEPING_LOOKS: u32 = 20;
/// How long a sender that missed the last acknowledgement is answered after the end.
const LINGER: Duration = Duration::from_millis(1_500);

fn refused(reason: &str) -> Failure {
    Failure::Address { reason: reason.to_owned() }
}

/// Refuses what is for cards alone.
pub fn refuse(arguments: &AnalyticsArguments) -> Result<(), Failure> {
    let AnalyticsArguments { mode, port, address, card_cores, receive, .. } = arguments;
    let is_for_card = port.is_some()
        || address.is_some()
        || !card_cores.is_empty()
        || receive.is_some()
        || *mode != TupleMode::Kernel;
    match arguments.input {
        _ if !is_for_card => Ok(()),
        TupleInput::Udp(_) => Err(refused(
            "--port, --address, --card-cores and --receive: give --mode rss, steer or dma, too",
        )),
        _ => Err(refused(
            "--mode, --port, --address, --card-cores and --receive are for --input udp",
        )),
    }
}

/// A card that is to be, and what receives behind it.
pub struct CardInput {
    config: CardConfig,
    mode: TupleMode,
    ip: Ipv4Addr,
    identity: Identity,
    options: ReceiverOptions,
    until_end: bool,
    rings: Option<RingsSetup>,
}

/// What receives, while it runs.
enum Reception {
    Host(Box<HostReception>),
    Rings(Box<TupleRings>),
}

impl CardInput {
    /// The card that was asked for; `None`: the system's sockets.
    pub fn new(
        arguments: &AnalyticsArguments,
        listen: SocketAddr,
        options: ReceiverOptions,
    ) -> Result<Option<CardInput>, Failure> {
        let AnalyticsArguments { mode, port, address, .. } = arguments;
        let (port, address) = match (mode, port, address) {
            (TupleMode::Kernel, ..) => return refuse(arguments).map(|()| None),
            (_, Some(port), Some(address)) => (port.clone(), address),
            _ => {
                let reason = "--mode rss, steer and dma need --port and --address".to_owned();
                return Err(Failure::Address { reason });
            }
        };
        if matches!(port, PortName::Pcap(_)) {
            let reason = format!("--port {port}: not supported: tuples from packet traces");
            return Err(Failure::Address { reason });
        }
        let (ip, network_bits) = read(address)?;
        if !listen.ip().is_loopback() && !listen.ip().is_unspecified() && listen.ip() != ip {
            let reason = format!("--input udp:{listen}: --address is {ip}; give the same");
            return Err(Failure::Address { reason });
        }
        let wanted = match &arguments.card_cores[..] {
            [] => &arguments.cores,
            cores => cores,
        };
        let cores = cores(wanted)?;
        let mac = mac(&port, ip)?;
        let config = CardConfig {
            receive: arguments.receive.unwrap_or(Receive::Interrupt),
            ..CardConfig::new(vec![port], cores.len() as u16, cores)
        };
        let identity = Identity { mac, ip, network_bits, port: listen.port() };
        let (mode, until_end) = (*mode, arguments.until_end);
        Ok(Some(CardInput { config, mode, ip, identity, options, until_end, rings: None }))
    }

    /// Sources that have to be there before a window is complete.
    pub fn awaited(&self) -> usize {
        self.options.sources_awaited
    }

    /// Its name.
    pub fn name(&self) -> String {
        format!("udp:{}:{} by a card, {}", self.ip, self.identity.port, self.config.ports[0])
    }

    /// The inboxes that it brings, and the lanes that it needs of others.
    pub fn inboxes(
        &mut self,
        options: &mut EngineOptions,
    ) -> Result<Option<Vec<Arc<Inbox>>>, Failure> {
        let cores = self.config.cores.len();
        if self.mode != TupleMode::Dma {
            options.lanes = cores;
            return Ok(None);
        }
        let workers = options.cores.len();
        if options.cluster.is_some() {
            let reason = "--mode dma: not supported: several processes; niclab lacks it".to_owned();
            return Err(Failure::Address { reason });
        }
        let windows = options.query.windows;
        let setup = TupleRings::setup(self.identity, (workers, cores), windows, self.options);
        let setup = setup.map_err(AnalyticsFailure::from)?;
        let inboxes = setup.inboxes.clone();
        self.rings = Some(setup);
        Ok(Some(inboxes))
    }

    /// Feeds an engine by a card until its sources end, if so asked for, or `stop` is set.
    pub fn feed(
        self,
        engine: &JobEngine,
        counters: &InputCounters,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let CardInput { config, mode, identity, options, until_end, rings, .. } = self;
        let (program, services, mut reception) = match rings {
            Some(RingsSetup { rings, program, services, .. }) => {
                (Some(program), services, Reception::Rings(Box::new(rings)))
            }
            None => {
                let shape = (config.cores.len(), mode == TupleMode::Steer);
                let observers = |_| Box::new(()) as _;
                let made = HostReception::new(engine, identity, shape, options, &observers);
                let mut host = made.map_err(AnalyticsFailure::from)?;
                let services = std::mem::take(&mut host.services);
                (host.program.take(), services, Reception::Host(Box::new(host)))
            }
        };
        let program = program.map(Into::into);
        let runs = CardWorkload { program, services, ..CardWorkload::default() };
        let mut card = Card::start_with(&config, runs)?;
        warn_of_down_ports(&config.ports);
        say(&format!("analytics: the card's Ethernet address is {}", identity.mac));
        let (mut looks, mut closed_at, mut message) = (0_u32, None, String::new());
        while !stop.load(Ordering::Relaxed) && !card.is_finished() {
            counters.set_card(reception.look(&mut card));
            if until_end && closed_at.is_none() && reception.is_closed(&mut card) {
                engine.close();
                closed_at = Some(Instant::now());
            }
            if closed_at.map_or(engine.is_over(), |at: Instant| at.elapsed() >= LINGER) {
                break;
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(HOUSEKEEPING_LOOKS) {
                look_after(&mut card, &mut message);
            }
            thread::sleep(LOOK);
        }
        counters.set_card(reception.look(&mut card));
        let ended = card.shut_down();
        match (ended.frames_lost, ended.errors.is_empty()) {
            (0, true) => Ok(()),
            (0, false) => Err(std::io::Error::other(ended.errors.join("; ")).into()),
            (lost, _) => Err(Failure::FramesLost { lost, frames: ended.frames }),
        }
    }
}

/// Lets the card tidy up, and says what its ports lack.
fn look_after(card: &mut Card, message: &mut String) {
    let missing = card.run_housekeeping();
    let reasons: Vec<String> =
        missing.iter().map(|(name, error)| format!("{name}: {error}")).collect();
    let now = reasons.join("; ");
    if !now.is_empty() && now != *message {
        say(&format!("niclab: {now}"));
    }
    *message = now;
}

impl Reception {
    /// Looks at the sources; what was received so far.
    fn look(&mut self, card: &mut Card) -> InputSnapshot {
        match self {
            Reception::Host(host) => host.received(),
            Reception::Rings(rings) => {
                if let Some(program) = card.program() {
                    rings.tend(program);
                }
                rings.received()
            }
        }
    }

    /// Whether all sources have ended, and nothing more is taken: it sees to that.
    fn is_closed(&mut self, card: &mut Card) -> bool {
        match self {
            Reception::Host(host) => host.is_finished() && host.close(),
            Reception::Rings(rings) => {
                rings.is_finished() && card.program().is_some_and(|program| rings.close(program))
            }
        }
    }
}
