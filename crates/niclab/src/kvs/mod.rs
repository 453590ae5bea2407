//! `niclab kvs`: a key-value store for memcached's clients, until it is stopped.

mod card;

use std::fmt;
use std::io::Write;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use niclab_apps::kvs::store::Spread;
use niclab_apps::kvs::transport::{Server, ServerOptions, ServerTotals, Udp};
use niclab_device::address;
use niclab_lab::words;
use signal_hook::consts::SIGHUP;
use signal_hook::flag;

use crate::arguments::{KvsArguments, KvsMode, OnOff};
use crate::cores::cores;
use crate::failure::Failure;
use crate::metrics::{CardMetrics, StoreMetrics};
use crate::output::stdout;
use crate::run::stop_flag;

/// Port of memcached's clients.
const PORT: u16 = 11211;

/// Serves until it is stopped, then says what it did.
pub fn run(arguments: &KvsArguments) -> Result<(), Failure> {
    let stop: Arc<AtomicBool> = stop_flag()?;
    // As memcached: whoever started it may log out.
    flag::register(SIGHUP, Arc::new(AtomicBool::new(false)))?;
    let listen = address::read(&arguments.listen, PORT).map_err(Failure::address("--listen"))?;
    let udp = match arguments.udp {
        None => Udp::OnLoopback,
        Some(OnOff::On) => Udp::On,
        Some(OnOff::Off) => Udp::Off,
    };
    let mut options = ServerOptions {
        listen,
        udp,
        cores: cores(&arguments.cores)?,
        partitions: 0,
        spread: match arguments.mode {
            KvsMode::Steer | KvsMode::Dma => Spread::Steered,
            KvsMode::Kernel | KvsMode::Rss => Spread::Secret,
        },
        memory_bytes: arguments.memory.0,
        connections_max: arguments.connections,
        idle_timeout: arguments.idle_timeout.map(Duration::from_secs),
        buffers_bytes_max: arguments.buffers.0,
    };
    options.partitions = card::partitions(arguments.mode, &options);
    let wanted = card::Wanted::new(arguments, &options)?;
    let on_cores = options.cores.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let server = Server::bind(options)?;
    let protocols = if server.is_udp() { "TCP and UDP" } else { "TCP" };
    let banner = format!(
        "kvs over {protocols} at {}; cores {on_cores}; {} of memory; Ctrl-C ends it",
        server.address(),
        arguments.memory
    );
    let statistics = server.statistics();
    let Some(wanted) = wanted else {
        let metrics = arguments.metrics.map(|listen| StoreMetrics::start(listen, statistics));
        let _metrics = metrics.transpose()?;
        writeln!(stdout(), "{banner}")?;
        return print(&server.run(&stop)?.ended());
    };
    let metrics = arguments.metrics.map(|listen| CardMetrics::start(listen, Some(statistics)));
    let metrics = metrics.transpose()?;
    let served = wanted.serve(server, (&banner, metrics), &stop)?;
    print(&served.server)?;
    card::print(&served)
}

fn print(ended: &ServerTotals) -> Result<(), Failure> {
    let (standing, counters) = (&ended.server, &ended.statistics.ever);
    let whole = |count: u64| words::whole(count as f64);
    let mut out = stdout();
    writeln!(
        out,
        "{} connections, {} refused; {} datagrams; {} bytes in, {} out",
        whole(standing.total_connections),
        whole(standing.rejected_connections),
        whole(standing.datagrams),
        whole(standing.bytes_read),
        whole(standing.bytes_written)
    )?;
    writeln!(
        out,
        "{} keys read, {} found; {} stored; {} items there, {} evicted",
        whole(counters.cmd_get),
        whole(counters.get_hits),
        whole(counters.cmd_set),
        whole(ended.statistics.curr_items),
        whole(counters.evictions)
    )?;
    writeln!(
        out,
        "waited {} times for a partition, {} in all",
        whole(ended.statistics.lock_waits),
        words::time(ended.statistics.lock_wait_ns as f64)
    )?;
    Ok(())
}

/// A number of bytes, as it was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub usize);

/// Units of bytes, the largest first.
const UNITS: [(&str, usize); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

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
    use super::*;

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
