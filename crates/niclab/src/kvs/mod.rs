//! `niclab kvs`: a key-value store for memcached's clients, until it is stopped.

mod card;
mod daemon;

use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::ValueEnum;
use niclab_apps::kvs::store::Spread;
use niclab_apps::kvs::transport::{Server, ServerOptions, ServerTotals, Udp};
use niclab_device::address;
use niclab_device::cores::allowed;
use niclab_lab::words;
use signal_hook::consts::SIGHUP;
use signal_hook::flag;

use crate::arguments::{KvsArguments, KvsMode, UdpChoice};
use crate::cores::cores;
use crate::failure::Failure;
use crate::metrics::{CardMetrics, StoreMetrics};
use crate::output::stdout;
use crate::readiness::Readiness;
use crate::rules::counted;
use crate::run::stop_flag;

/// Port of memcached's clients.
const PORT: u16 = 11211;

/// Serves until it is stopped, then says what it did.
pub fn run(arguments: &KvsArguments) -> Result<(), Failure> {
    if arguments.daemon && !daemon::is_child() {
        return daemon::start();
    }
    let (stop, mut readiness) = (stop_flag()?, Readiness::new());
    // As memcached: whoever started it may log out.
    flag::register(SIGHUP, Arc::new(AtomicBool::new(false)))?;
    let (listen, udp) = addresses(arguments)?;
    let memory = arguments.memory_mib.map_or(arguments.memory, Bytes::of_mib);
    let mut options = ServerOptions {
        listen,
        udp,
        cores: threads(arguments)?,
        partitions: 0,
        spread: match arguments.mode {
            KvsMode::Steer | KvsMode::Dma => Spread::Steered,
            KvsMode::Kernel | KvsMode::Rss => Spread::Secret,
        },
        memory_bytes: memory.0,
        connections_max: arguments.connections,
        idle_timeout: arguments.idle_timeout.map(Duration::from_secs),
        buffers_bytes_max: arguments.buffers.0,
    };
    options.partitions = card::partitions(arguments.mode, &options);
    let wanted = card::CardSettings::new(arguments, &options)?;
    let on_cores = options.cores.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let server = Server::bind(options)?;
    let end = match arguments.daemon {
        true => format!("`kill {}`", std::process::id()),
        false => "Ctrl-C".to_owned(),
    };
    let (at, apart) =
        (server.address(), server.udp_address().filter(|udp| *udp != server.address()));
    let protocols = if server.udp_address() == Some(at) { "TCP and UDP" } else { "TCP" };
    let apart = apart.map_or(String::new(), |udp| format!(", UDP at {udp}"));
    let banner = format!(
        "kvs over {protocols} at {at}{apart}; cores {on_cores}; {memory} of memory; {end} ends it"
    );
    let may_move = arguments.control.as_ref().is_none_or(|path| path.is_absolute());
    let mut ready = || {
        readiness.ready();
        if arguments.daemon { daemon::detach(may_move) } else { Ok(()) }
    };
    let statistics = server.statistics();
    let Some(wanted) = wanted else {
        let metrics = arguments.metrics.map(|listen| StoreMetrics::start(listen, statistics));
        let _metrics = metrics.transpose()?;
        writeln!(stdout(), "{banner}")?;
        ready()?;
        return print(&server.run(&stop)?.ended());
    };
    let metrics = arguments.metrics.map(|listen| CardMetrics::start(listen, Some(statistics)));
    let metrics = metrics.transpose()?;
    let served = wanted.serve(server, (&banner, ready), metrics, &stop)?;
    print(&served.server)?;
    card::print(&served)
}

/// Where TCP is served, and whether and where UDP is. As in memcached, a port of UDP alone is one
/// of TCP too.
fn addresses(arguments: &KvsArguments) -> Result<(SocketAddr, Udp), Failure> {
    let KvsArguments { listen, tcp_port, udp, .. } = arguments;
    if listen.contains(',') {
        let reason = format!("--listen {listen}: give one address, or 0.0.0.0 for all");
        return Err(Failure::Address { reason });
    }
    let udp_port = if let Some(UdpChoice::At(port)) = udp { Some(*port) } else { None };
    let port = tcp_port.or(udp_port).unwrap_or(PORT);
    let address = address::read(listen, port).map_err(Failure::address("--listen"))?;
    match tcp_port {
        Some(port) if address::has_port(listen) && *port != address.port() => {
            let reason = format!("--listen {listen} and -p {port} name two ports; give one");
            return Err(Failure::Address { reason });
        }
        _ => {}
    }
    let udp = match udp {
        None => Udp::OnLoopback,
        Some(UdpChoice::On) => Udp::On,
        Some(UdpChoice::Off) => Udp::Off,
        Some(UdpChoice::At(port)) if *port == address.port() => Udp::On,
        Some(UdpChoice::At(port)) => Udp::At(*port),
    };
    Ok((address, udp))
}

/// The core of each thread: those that are named, or as many threads as are asked for on the cores
/// that may be used.
fn threads(arguments: &KvsArguments) -> Result<Vec<u32>, Failure> {
    let Some(count) = arguments.threads.map(usize::from) else { return cores(&arguments.cores) };
    let there = allowed();
    if arguments.mode != KvsMode::Kernel && count > there.len() {
        let (mode, has) = (arguments.mode, there.len());
        let mode = mode.to_possible_value().map_or(String::new(), |of| of.get_name().to_owned());
        let reason = format!(
            "--threads {count}: with --mode {mode} each thread has a core of its own, and this \
             process may use {has}; give at most {has}"
        );
        return Err(Failure::Address { reason });
    }
    Ok(there.iter().copied().cycle().take(count).collect())
}

fn print(ended: &ServerTotals) -> Result<(), Failure> {
    let (standing, counters) = (&ended.server, &ended.statistics.ever);
    let whole = |count: u64| words::whole(count as f64);
    let mut out = stdout();
    writeln!(
        out,
        "{}, {} refused; {}; {} in, {} out",
        counted(standing.total_connections, "connection", "connections"),
        whole(standing.rejected_connections),
        counted(standing.datagrams, "datagram", "datagrams"),
        counted(standing.bytes_read, "byte", "bytes"),
        whole(standing.bytes_written)
    )?;
    writeln!(
        out,
        "{} read, {} found; {} stored; {} there, {} evicted",
        counted(counters.cmd_get, "key", "keys"),
        whole(counters.get_hits),
        whole(counters.cmd_set),
        counted(ended.statistics.curr_items, "item", "items"),
        whole(counters.evictions)
    )?;
    writeln!(
        out,
        "waited {} for a partition, {} in all",
        counted(ended.statistics.lock_waits, "time", "times"),
        words::time(ended.statistics.lock_wait_ns as f64)
    )?;
    Ok(())
}

/// A number of bytes, as it was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub usize);

/// Units of bytes, the largest first.
const UNITS: [(&str, usize); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Bytes {
    /// So many MiB.
    fn of_mib(mib: u32) -> Bytes {
        Bytes((mib as usize).saturating_mul(1 << 20))
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(split);
        let factor = match unit {
            "" => Some(1),
            unit => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor),
        };
        let bytes = factor.and_then(|factor| digits.parse::<usize>().ok()?.checked_mul(factor));
        let limit = |bytes: &usize| *bytes <= isize::MAX as usize;
        let wrong = || format!("`{text}` is no size: give one such as 64MiB, 1GiB or 67108864");
        bytes.filter(limit).map(Bytes).ok_or_else(wrong)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |unit: &&(&str, usize)| self.0 >= unit.1 && self.0.is_multiple_of(unit.1);
        let (name, factor) = UNITS.iter().find(fits).copied().unwrap_or(("B", 1));
        write!(f, "{} {name}", self.0 / factor)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn typed(options: &str) -> KvsArguments {
        let words = ["niclab", "kvs"].into_iter().chain(options.split_whitespace());
        match Arguments::try_parse_from(words).unwrap().command {
            Command::Kvs(arguments) => arguments,
            _ => unreachable!("kvs was typed"),
        }
    }

    #[test]
    fn ports_are_those_that_memcached_would_have() {
        let read = |options: &str| {
            let addresses = addresses(&typed(options)).map_err(|failure| failure.to_string());
            addresses.map(|(tcp, udp)| (tcp.to_string(), udp))
        };
        for (options, tcp, udp) in [
            ("", "127.0.0.1:11211", Udp::OnLoopback),
            ("-p 11300", "127.0.0.1:11300", Udp::OnLoopback),
            ("-l 0.0.0.0 -p 11300 -U 0", "0.0.0.0:11300", Udp::Off),
            ("-l ::1 -U 11300", "[::1]:11300", Udp::On),
            ("-p 11211 -U 11300", "127.0.0.1:11211", Udp::At(11300)),
            ("-l 127.0.0.1:11300 -U 11211", "127.0.0.1:11300", Udp::At(11211)),
            ("-l 127.0.0.1:11300 -p 11300", "127.0.0.1:11300", Udp::OnLoopback),
            ("--listen 127.0.0.1:0 --udp on", "127.0.0.1:0", Udp::On),
        ] {
            assert_eq!(read(options), Ok((tcp.to_owned(), udp)), "{options}");
        }
        let two = read("-l 127.0.0.1:11300 -p 11211").unwrap_err();
        assert_eq!(two, "--listen 127.0.0.1:11300 and -p 11211 name two ports; give one");
        assert!(read("-l 127.0.0.1,::1").unwrap_err().contains("give one address"));
    }

    #[test]
    fn threads_share_the_cores_where_the_system_brings_requests() {
        let there = allowed();
        let count = there.len() + 1;
        let on = threads(&typed(&format!("-t {count}"))).unwrap();
        assert_eq!((on.len(), on[0], on[count - 1]), (count, there[0], there[0]));
        assert_eq!(threads(&typed("-t 1")).unwrap(), [there[0]]);
        let card = format!("-t {count} --mode rss --port tap:a --address 10.0.0.1/8");
        let message = threads(&typed(&card)).unwrap_err().to_string();
        assert!(message.contains("each thread has a core of its own"), "{message}");
    }

    #[test]
    fn sizes_are_read_and_said() {
        let read = |text: &str| text.parse::<Bytes>().map(|bytes| bytes.to_string());
        assert_eq!(read("64MiB").as_deref(), Ok("64 MiB"));
        assert_eq!(read("1024MiB").as_deref(), Ok("1 GiB"));
        assert_eq!(read("1000").as_deref(), Ok("1000 B"));
        assert_eq!(read("0").as_deref(), Ok("0 B"));
        for wrong in ["", "MiB", "64MB", "-1", "1.5GiB", "64 MiB", "99999999999GiB"] {
            assert!(read(wrong).unwrap_err().contains("give one such as 64MiB"), "{wrong}");
        }
    }
}
