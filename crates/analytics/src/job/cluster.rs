//! Connections between the processes of a job, as timely's own cluster has them.
//!
//! Timely's function for this prints every failed attempt and waits forever. This one does neither.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use timely::communication::Hooks;
use timely::communication::allocator::zero_copy::initialize::{
    CommsGuard, initialize_networking_from_sockets,
};
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};

/// How often a process that is not there yet is asked again.
const RETRY: Duration = Duration::from_millis(100);
/// How long a process that has connected may take to say who it is.
const GREETING: Duration = Duration::from_secs(2);
/// What a process says first, and its number behind it.
const MAGIC: &[u8; 8] = b"niclab-a";

/// The processes of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterOptions {
    /// The number of this process.
    pub process: usize,
    /// Host and port of each process, in their order.
    pub addresses: Vec<String>,
    /// How long the others are waited for.
    pub patience: Duration,
}

/// Why the processes do not find each other.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A number that no process has.
    #[error("process {process} of {count}: give a number below {count}")]
    Process {
        /// The number.
        process: usize,
        /// How many processes there are.
        count: usize,
    },
    /// The address of this process cannot be had.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// Host and port.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// Another process is not there.
    #[error("process {process} at {address} is not there after {waited_s} s: start it")]
    Absent {
        /// Its number.
        process: usize,
        /// Host and port.
        address: String,
        /// How long it was waited for, seconds.
        waited_s: u64,
    },
    /// A connection failed.
    #[error("connection between processes: {0}")]
    Connection(#[from] io::Error),
}

/// The builders of all local workers, connected to those of the other processes. The guard is kept
/// as long as they are.
pub fn connect(
    options: &ClusterOptions,
    threads: usize,
) -> Result<(Vec<AllocatorBuilder>, CommsGuard), ClusterError> {
    let sockets = sockets(options)?;
    let hooks = Hooks::default();
    let builders =
        ProcessBuilder::new_typed_vector(threads, hooks.refill.clone(), hooks.spill.clone());
    let process = options.process;
    let (builders, guard) =
        initialize_networking_from_sockets(builders, sockets, process, threads, hooks)?;
    Ok((builders.into_iter().map(AllocatorBuilder::Tcp).collect(), guard))
}

/// A connection with each other process; each connects to those before it.
fn sockets(options: &ClusterOptions) -> Result<Vec<Option<TcpStream>>, ClusterError> {
    let ClusterOptions { process, addresses, patience } = options;
    let (own, count) = (*process, addresses.len());
    let until = Instant::now() + *patience;
    let address = addresses.get(own).ok_or(ClusterError::Process { process: own, count })?;
    let listener = TcpListener::bind(address)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|source| ClusterError::Listen { address: address.clone(), source })?;
    let absent = |process: usize| ClusterError::Absent {
        process,
        address: addresses[process].clone(),
        waited_s: patience.as_secs(),
    };
    let mut sockets: Vec<Option<TcpStream>> = (0..count).map(|_| None).collect();
    for (other, address) in addresses.iter().enumerate().take(own) {
        let stream = retried(until, || TcpStream::connect(address).ok());
        let mut stream = stream.ok_or_else(|| absent(other))?;
        stream.set_nodelay(true)?;
        stream.write_all(MAGIC)?;
        stream.write_all(&(own as u64).to_be_bytes())?;
        sockets[other] = Some(stream);
    }
    while let Some(missing) = (own + 1..count).find(|other| sockets[*other].is_none()) {
        let accepted = retried(until, || listener.accept().ok().and_then(|(of, _)| greeted(of)));
        let (other, stream) = accepted.ok_or_else(|| absent(missing))?;
        if other > own && other < count {
            sockets[other].get_or_insert(stream);
        }
    }
    Ok(sockets)
}

/// Tries until it succeeds or the time is over.
fn retried<T>(until: Instant, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        if let Some(done) = attempt() {
            return Some(done);
        }
        if Instant::now() >= until {
            return None;
        }
        thread::sleep(RETRY);
    }
}

/// The number of a process that has connected; `None` if it is another program.
fn greeted(mut stream: TcpStream) -> Option<(usize, TcpStream)> {
    stream.set_nonblocking(false).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(GREETING)).ok()?;
    let (mut magic, mut number) = ([0; 8], [0; 8]);
    stream.read_exact(&mut magic).ok().filter(|()| magic == *MAGIC)?;
    stream.read_exact(&mut number).ok()?;
    stream.set_read_timeout(None).ok()?;
    Some((usize::try_from(u64::from_be_bytes(number)).ok()?, stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_missing_is_named() {
        let options = |process, patience| ClusterOptions {
            process,
            addresses: vec!["127.0.0.1:0".to_owned(), "127.0.0.1:1".to_owned()],
            patience: Duration::from_millis(patience),
        };
        let error = sockets(&options(0, 10)).unwrap_err().to_string();
        assert_eq!(error, "process 1 at 127.0.0.1:1 is not there after 0 s: start it");
        let error = sockets(&options(2, 10)).unwrap_err().to_string();
        assert_eq!(error, "process 2 of 2: give a number below 2");
    }
}
