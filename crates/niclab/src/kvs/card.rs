//! The card that brings UDP to `niclab kvs`.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use niclab_apps::endpoint::Identity;
use niclab_apps::kvs::store::limits::PARTITIONS_MAX;
use niclab_apps::kvs::store::{DMA_PARTITION_BYTES_MIN, StoreError};
use niclab_apps::kvs::transport::{Server, ServerError, ServerOptions, ServerTotals, moment};
use niclab_card::items::{self, Items};
use niclab_card::{self as card, Card, CardConfig, CardWorkload, PortName, Receive, steering};
use niclab_lab::words;

use crate::arguments::{KvsArguments, KvsMode};
use crate::failure::Failure;
use crate::host_address::{mac, read};
use crate::metrics::CardMetrics;
use crate::nic::control::{Access, Control};
use crate::nic::warn_of_down_ports;
use crate::output;
use crate::output::stdout;
use crate::rules;

/// How often the card is tended.
const TEND: Duration = Duration::from_millis(100);

/// Memory of a partition into which values of every length fit, bytes.
const PARTITION_BYTES: usize = 9 << 20;

/// How many partitions a store has in a mode: as many as cores; where all cores share all of them
/// by bursts, twice as many, so that one is free (the row `kvs` of benches/rows), as long as the
/// longest values fit.
pub fn partitions(mode: KvsMode, options: &ServerOptions) -> usize {
    let cores = options.cores.len();
    let twice = mode == KvsMode::Rss && options.memory_bytes >= 2 * cores * PARTITION_BYTES;
    if twice { (2 * cores).min(PARTITIONS_MAX.max(cores)) } else { cores }
}

/// A card that is to be.
pub struct CardSettings {
    config: CardConfig,
    mode: KvsMode,
    ip: Ipv4Addr,
    network_bits: u8,
    memory_bytes: usize,
    control: Option<Control>,
}

/// The counters of server and card.
pub struct Totals {
    /// The server.
    pub server: ServerTotals,
    card: card::CardResult,
}

impl CardSettings {
    /// The settings of the card; `None` if UDP comes by the system's sockets.
    pub fn new(
        arguments: &KvsArguments,
        options: &ServerOptions,
    ) -> Result<Option<CardSettings>, Failure> {
        let refused = |reason: String| Err(Failure::Address { reason });
        let (port, address) = match (arguments.mode, &arguments.port, &arguments.address) {
            (KvsMode::Kernel, None, None)
                if arguments.control.is_none() && arguments.receive.is_none() =>
            {
                return Ok(None);
            }
            (KvsMode::Kernel, _, _) => {
                return refused(
                    "--port, --address, --control and --receive are for --mode rss, steer and dma"
                        .to_owned(),
                );
            }
            (_, Some(port), Some(address)) => (port.clone(), address),
            _ => return refused("--mode rss, steer and dma need --port and --address".to_owned()),
        };
        if matches!(port, PortName::Pcap(_)) {
            return refused(format!("--port {port}: not supported: a store behind packet traces"));
        }
        let (ip, network_bits) = read(address)?;
        let memory_bytes = options.memory_bytes;
        if arguments.mode == KvsMode::Dma {
            check(options.cores.len(), memory_bytes)?;
        }
        let cores = options.cores.len();
        let queues = match arguments.mode {
            KvsMode::Steer => steering::queues(cores),
            _ => cores as u16,
        };
        let config = CardConfig {
            receive: arguments.receive.unwrap_or(Receive::Interrupt),
            ..CardConfig::new(vec![port], queues, options.cores.clone())
        };
        let group = arguments.control_group.as_deref();
        let control = arguments.control.as_deref();
        let control = control.map(|path| Control::bind(path, group, Access::ReadOnly));
        let (control, mode) = (control.transpose()?, arguments.mode);
        Ok(Some(CardSettings { config, mode, ip, network_bits, memory_bytes, control }))
    }

    /// Serves by the card and by the system's sockets until `stop` is set. The banner is said once
    /// all is open.
    pub fn serve(
        self,
        server: Server,
        (banner, ready): (&str, impl FnOnce() -> io::Result<()>),
        metrics: Option<CardMetrics>,
        stop: &AtomicBool,
    ) -> Result<Totals, Failure> {
        let CardSettings { config, mode, ip, network_bits, memory_bytes, control } = self;
        let (port, cores) = (server.udp_port(), config.cores.len());
        let mac = mac(&config.ports[0], ip)?;
        let identity = Identity { mac, ip, network_bits, port };
        let (mut program, mut segments) = (None, Vec::new());
        match mode {
            KvsMode::Kernel | KvsMode::Rss => {}
            KvsMode::Steer => program = Some(steering::pipeline(&identity, cores)?.into()),
            KvsMode::Dma => {
                let (mut items, of_cores) = Items::new(&identity, cores, memory_bytes, None)?;
                items.set_time(moment());
                (program, segments) = (Some(items.into()), of_cores);
            }
        }
        let services = server.services(identity, segments);
        let runs = CardWorkload { program, services, ..CardWorkload::default() };
        let mut card = Card::start_with(&config, runs)?;
        warn_of_down_ports(&config.ports);
        let (name, at, tcp) = (&config.ports[0], SocketAddr::from((ip, port)), server.address());
        writeln!(stdout(), "{banner}\nUDP by a card at {at} ({mac}), {name}; TCP at {tcp}")?;
        ready()?;
        let served = thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let served = server.run(stop);
                stop.store(true, Ordering::Relaxed);
                served
            });
            work(&mut card, (control, metrics), stop);
            // A core that breaks off ends all.
            stop.store(true, Ordering::Relaxed);
            serving.join()
        });
        // What it has told until then is part of what the server has done.
        let ended = card.shut_down();
        let over = served.map_err(|_| io::Error::other("the server ended by a fault"))??;
        let server = over.ended();
        match (ended.frames_lost, ended.errors.is_empty()) {
            (0, true) => Ok(Totals { server, card: ended }),
            (0, false) => Err(io::Error::other(ended.errors.join("; ")).into()),
            (lost, _) => Err(Failure::FramesLost { lost, frames: ended.frames }),
        }
    }
}

/// Tends a card, and answers whoever asks about it, until it is over.
fn work(
    card: &mut Card,
    (mut control, metrics): (Option<Control>, Option<CardMetrics>),
    stop: &AtomicBool,
) {
    let (mut message, mut tended_at) = (String::new(), Instant::now());
    let mut is_stopped = false;
    while !is_stopped && !stop.load(Ordering::Relaxed) && !card.is_finished() {
        let rest = TEND.saturating_sub(tended_at.elapsed());
        match &mut control {
            Some(control) => is_stopped = control.serve(card, rest),
            None => thread::sleep(rest),
        }
        metrics.iter().for_each(|metrics| metrics.serve(card));
        // Who asks for something does not hasten this.
        if tended_at.elapsed() < TEND {
            continue;
        }
        tended_at = Instant::now();
        card.set_items_time(moment());
        let missing = card.run_housekeeping();
        let reasons: Vec<String> =
            missing.iter().map(|(name, error)| format!("{name}: {error}")).collect();
        let now = reasons.join("; ");
        if !now.is_empty() && now != message {
            output::say(&format!("niclab: {now}"));
        }
        message = now;
    }
}

/// Checks that a card can write items for `cores` cores with `bytes` of memory.
fn check(cores: usize, bytes: usize) -> Result<(), Failure> {
    if cores > items::CORES_MAX {
        let most = items::CORES_MAX;
        let reason = format!("--mode dma: {cores} cores: the card writes for {most} at most");
        return Err(Failure::Address { reason });
    }
    let least = cores * DMA_PARTITION_BYTES_MIN;
    if bytes < least {
        let error = StoreError::Memory { bytes, least, partitions: cores };
        return Err(ServerError::Store(error).into());
    }
    Ok(())
}

/// Prints the outcome of the card's frames.
pub fn print(served: &Totals) -> Result<(), Failure> {
    let Totals { server, card } = served;
    let counted = &server.frames;
    let whole = |count: u64| words::whole(count as f64);
    let mut out = stdout();
    writeln!(
        out,
        "{} by the card: {}, {}; {} ARP, {} echo, {} TCP \
         refused, {} at other ports; {} malformed, {} fragments, {} not to be answered, {} for \
         others, {} answers without a frame",
        rules::counted(counted.frames, "frame", "frames"),
        rules::counted(counted.datagrams, "datagram", "datagrams"),
        rules::counted(counted.answers, "answer", "answers"),
        whole(counted.arp),
        whole(counted.echoes),
        whole(counted.resets),
        whole(counted.unreachable),
        whole(counted.malformed),
        whole(counted.fragments),
        whole(counted.refused),
        whole(counted.strange),
        whole(counted.unsent),
    )?;
    if let Some(report) = &card.items {
        let ports = card.counters.ports.iter();
        let dropped: u64 = ports.map(|port| port.program_faults + port.program_ring_full).sum();
        writeln!(
            out,
            "the card stored {} and reported {}; {} passed unchanged, {} dropped; {} events unfit",
            rules::counted(report.stored, "item", "items"),
            rules::counted(report.requests, "requested key", "requested keys"),
            rules::counted(report.passed_through, "frame", "frames"),
            whole(dropped),
            whole(server.statistics.unfit),
        )?;
    }
    for port in &card.counters.ports {
        let queues = port.queues.iter().map(|queue| whole(queue.rx_frames)).collect::<Vec<_>>();
        let missed = port.queues.iter().map(|queue| queue.rx_missed).sum::<u64>();
        writeln!(
            out,
            "{}: by queue {}; {} missed by the port, {} missed by queues; {} dropped when sent",
            port.name,
            queues.join(", "),
            whole(port.rx_missed),
            whole(missed),
            whole(port.tx_dropped),
        )?;
    }
    Ok(())
}
