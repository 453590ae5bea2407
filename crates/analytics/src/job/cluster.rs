//! Connections between the processes of a job, as timely's own cluster has them.
//!
//! Timely's function for this prints every failed attempt and waits forever. This one does neither.
//!
//! Timely ends its connections in an orderly way however the workers end. Then the other processes
//! wait for tuples that never come. [`ClusterLinks::cut`] ends the connections of a process that
//! has not come to the end of its tuples, so that the others notice.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use timely::communication::Hooks;
use timely::communication::allocator::zero_copy::initialize::{
    CommsGuard, initialize_networking_from_sockets,
};
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};

/// How often a process that is not there yet is asked again.
const RETRY: Duration = Duration::from_millis(100);
/// How often a process that is there is looked at while others are missing.
const LOOK: Duration = Duration::from_millis(10);
/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(1);
/// How long a process that has connected may take to say its number.
const GREETING: Duration = Duration::from_secs(2);
/// Connections without a greeting at most; more are closed.
const STRANGERS_MAX: usize = 64;
/// A greeting: this, and then the number of the process and its [`SharedOptions`].
const MAGIC: &[u8; 8] = b"niclab-a";
/// Numbers of a greeting after that of the process.
const SAME: usize = 6;
/// Bytes of a greeting.
const GREETING_LEN: usize = 16 + 8 * SAME;
/// How timely's panics begin if the connection with another process is lost.
const LOST: [&str; 4] =
    ["timely communication error", "MergeQueue", "Send thread panic", "Recv thread panic"];

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

/// Names and values of the options that all processes need alike.
pub type SharedOptions = [(&'static str, u64); SAME];

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
    /// Another process was started in another way.
    #[error("process {process} has {theirs} as {name}, this one {own}: start all alike")]
    Different {
        /// Its number.
        process: usize,
        /// The option that differs.
        name: &'static str,
        /// Its value there.
        theirs: u64,
        /// Its value here.
        own: u64,
    },
    /// Something else answers at the address of another process.
    #[error(
        "{address} does not answer as process {process}: see that all processes have the same list \
         of addresses"
    )]
    Stranger {
        /// Its number.
        process: usize,
        /// Host and port.
        address: String,
    },
    /// A connection failed.
    #[error("connection between processes: {0}")]
    Connection(#[from] io::Error),
    /// The job was stopped before all processes were there.
    #[error("stopped before all processes were there")]
    Stopped,
}

/// The connections of this process.
#[derive(Debug, Default)]
pub struct ClusterLinks(Vec<TcpStream>);

impl ClusterLinks {
    /// Ends the connections: this process has not come to the end of its tuples.
    pub fn cut(&self) {
        for stream in &self.0 {
            // One that has ended already needs no end.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Whether the text of a panic is timely's of a connection that is lost.
pub fn is_of_a_lost_connection(message: &str) -> bool {
    LOST.iter().any(|start| message.starts_with(start))
}

/// The builders of all local workers, connected to those of the other processes, which need the
/// same `shared` options. The guard is kept as long as they are. It gives up once `stop` is set.
pub fn connect(
    options: &ClusterOptions,
    threads: usize,
    shared: &SharedOptions,
    stop: &AtomicBool,
) -> Result<(Vec<AllocatorBuilder>, ClusterLinks, CommsGuard), ClusterError> {
    let sockets = sockets(options, shared, stop)?;
    let links = sockets.iter().flatten().map(TcpStream::try_clone);
    let links = ClusterLinks(links.collect::<io::Result<_>>()?);
    let hooks = Hooks::default();
    let builders =
        ProcessBuilder::new_typed_vector(threads, hooks.refill.clone(), hooks.spill.clone());
    let process = options.process;
    let (builders, guard) =
        initialize_networking_from_sockets(builders, sockets, process, threads, hooks)?;
    Ok((builders.into_iter().map(AllocatorBuilder::Tcp).collect(), links, guard))
}

/// How long the other processes are waited for.
struct Patience<'a> {
    until: Instant,
    stop: &'a AtomicBool,
}

impl Patience<'_> {
    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Tries until it succeeds; `None` if the time is over.
    fn retry<T>(
        &self,
        pause: Duration,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, ClusterError> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(ClusterError::Stopped);
            }
            match attempt() {
                None if self.left().is_zero() => return Ok(None),
                None => thread::sleep(pause.min(self.left())),
                done => return Ok(done),
            }
        }
    }
}

/// A connection with each other process; each connects to those before it.
fn sockets(
    options: &ClusterOptions,
    shared: &SharedOptions,
    stop: &AtomicBool,
) -> Result<Vec<Option<TcpStream>>, ClusterError> {
    let ClusterOptions { process, addresses, patience } = options;
    let (own, count) = (*process, addresses.len());
    let waited_s = patience.as_secs();
    let patience = Patience { until: Instant::now() + *patience, stop };
    let address = addresses.get(own).ok_or(ClusterError::Process { process: own, count })?;
    let listener = TcpListener::bind(address)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|source| ClusterError::Listen { address: address.clone(), source })?;
    let absent = |process: usize| ClusterError::Absent {
        process,
        address: addresses[process].clone(),
        waited_s,
    };
    let greeting = greeting(own, shared);
    let mut sockets: Vec<Option<TcpStream>> = (0..count).map(|_| None).collect();
    for (other, address) in addresses.iter().enumerate().take(own) {
        let stream = patience.retry(RETRY, || connected(address, patience.left()))?;
        let mut stream = stream.ok_or_else(|| absent(other))?;
        stream.set_nodelay(true)?;
        stream.write_all(&greeting)?;
        sockets[other] = Some(stream);
    }
    // The first difference is kept until all are there, so that each process learns of it. Earlier
    // processes answer without waiting for later ones.
    let mut different = None;
    for (other, stream) in sockets.iter().enumerate().take(own) {
        let Some(stream) = stream else { continue };
        let said = answer(stream, &patience)?.ok_or_else(|| absent(other))?;
        if !is_greeting_of(&said, other) {
            let address = addresses[other].clone();
            return Err(ClusterError::Stranger { process: other, address });
        }
        different = different.or(compare(other, &said, shared).err());
    }
    let mut door = Door { listener, strangers: Vec::new() };
    while let Some(missing) = (own + 1..count).find(|other| sockets[*other].is_none()) {
        let accepted = patience.retry(LOOK, || door.greeted())?;
        let Some((other, mut stream, said)) = accepted else {
            return Err(different.unwrap_or_else(|| absent(missing)));
        };
        if other > own && other < count && sockets[other].is_none() {
            different = different.or(compare(other, &said, shared).err());
            // One that has gone needs no answer.
            let _ = stream.write_all(&greeting);
            sockets[other] = Some(stream);
        }
    }
    different.map_or(Ok(sockets), Err)
}

/// The answer of a process that this one has connected with; zeros if the connection ends before,
/// and `None` if the time is over.
fn answer(
    mut stream: &TcpStream,
    patience: &Patience<'_>,
) -> Result<Option<[u8; GREETING_LEN]>, ClusterError> {
    let (mut bytes, mut len) = ([0; GREETING_LEN], 0);
    stream.set_read_timeout(Some(RETRY))?;
    let is_whole = patience.retry(Duration::ZERO, || match stream.read(&mut bytes[len..]) {
        Ok(0) => Some(false),
        Ok(more) => {
            len += more;
            (len == GREETING_LEN).then_some(true)
        }
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => None,
            _ => Some(false),
        },
    })?;
    stream.set_read_timeout(None)?;
    Ok(is_whole.map(|is_whole| if is_whole { bytes } else { [0; GREETING_LEN] }))
}

fn is_greeting_of(said: &[u8; GREETING_LEN], process: usize) -> bool {
    said[..8] == *MAGIC && said[8..16] == (process as u64).to_be_bytes()
}

/// The first bytes of a process on a connection.
fn greeting(own: usize, shared: &SharedOptions) -> [u8; GREETING_LEN] {
    let mut greeting = [0; GREETING_LEN];
    greeting[..8].copy_from_slice(MAGIC);
    let numbers = std::iter::once(own as u64).chain(shared.iter().map(|(_, value)| *value));
    for (bytes, number) in greeting[8..].chunks_exact_mut(8).zip(numbers) {
        bytes.copy_from_slice(&number.to_be_bytes());
    }
    greeting
}

/// Compares the options of another process with those of this one.
fn compare(
    process: usize,
    greeting: &[u8; GREETING_LEN],
    shared: &SharedOptions,
) -> Result<(), ClusterError> {
    let said = greeting[16..].as_chunks().0.iter().map(|bytes| u64::from_be_bytes(*bytes));
    match said.zip(shared).find(|(theirs, (_, own))| theirs != own) {
        None => Ok(()),
        Some((theirs, &(name, own))) => Err(ClusterError::Different { process, name, theirs, own }),
    }
}

/// A connection with an address, if that is there within a time.
fn connected(address: &str, left: Duration) -> Option<TcpStream> {
    let limit = left.clamp(Duration::from_millis(1), ATTEMPT);
    let mut addresses = address.to_socket_addrs().ok()?;
    addresses.find_map(|address| TcpStream::connect_timeout(&address, limit).ok())
}

/// Where processes come in. Other programs that connect hold nobody up.
struct Door {
    listener: TcpListener,
    strangers: Vec<Stranger>,
}

/// A program that has connected, and as much of its greeting as has come.
struct Stranger {
    stream: TcpStream,
    greeting: Vec<u8>,
    until: Instant,
}

impl Door {
    /// The number, connection and greeting of a process whose greeting is there.
    fn greeted(&mut self) -> Option<(usize, TcpStream, [u8; GREETING_LEN])> {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.strangers.len() < STRANGERS_MAX && stream.set_nonblocking(true).is_ok() {
                let (greeting, until) = (Vec::new(), Instant::now() + GREETING);
                self.strangers.push(Stranger { stream, greeting, until });
            }
        }
        self.strangers.retain_mut(Stranger::listen);
        let is_whole = |stranger: &Stranger| stranger.greeting.len() == GREETING_LEN;
        let Stranger { stream, greeting, .. } =
            self.strangers.swap_remove(self.strangers.iter().position(is_whole)?);
        let greeting: [u8; GREETING_LEN] = greeting.try_into().ok()?;
        let number = greeting[8..].first_chunk().map(|bytes| u64::from_be_bytes(*bytes))?;
        stream.set_nonblocking(false).ok()?;
        stream.set_nodelay(true).ok()?;
        Some((usize::try_from(number).ok()?, stream, greeting))
    }
}

impl Stranger {
    /// Reads what has come; whether it can be a greeting yet.
    fn listen(&mut self) -> bool {
        let mut bytes = [0; GREETING_LEN];
        let missing = GREETING_LEN - self.greeting.len();
        match self.stream.read(&mut bytes[..missing]) {
            Ok(0) => return missing == 0,
            Ok(len) => self.greeting.extend(&bytes[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
        let start = self.greeting.len().min(MAGIC.len());
        self.greeting[..start] == MAGIC[..start] && Instant::now() < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: SharedOptions = [
        ("processes", 2),
        ("cores", 1),
        ("stream", 0),
        ("length_ns", 10),
        ("slide_ns", 5),
        ("top", 3),
    ];

    fn options(process: usize, addresses: &[String], patience_ms: u64) -> ClusterOptions {
        let patience = Duration::from_millis(patience_ms);
        ClusterOptions { process, addresses: addresses.to_vec(), patience }
    }

    /// Addresses that nobody has.
    fn free() -> Vec<String> {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        listeners.map(|listener| listener.local_addr().unwrap().to_string()).to_vec()
    }

    #[test]
    fn a_process_that_is_missing_is_named() {
        let addresses = ["127.0.0.1:0".to_owned(), "127.0.0.1:1".to_owned()];
        let go = AtomicBool::new(false);
        let error = |process| sockets(&options(process, &addresses, 10), &SHARED, &go).unwrap_err();
        assert_eq!(
            error(0).to_string(),
            "process 1 at 127.0.0.1:1 is not there after 0 s: start it"
        );
        assert_eq!(error(2).to_string(), "process 2 of 2: give a number below 2");
    }

    #[test]
    fn processes_with_other_options_are_told_on_both_sides() {
        let (addresses, go) = (free(), AtomicBool::new(false));
        let mut other = SHARED;
        other[4].1 = 2;
        thread::scope(|scope| {
            let first = scope.spawn(|| sockets(&options(0, &addresses, 20_000), &SHARED, &go));
            let second = scope.spawn(|| sockets(&options(1, &addresses, 20_000), &other, &go));
            let told = [first, second].map(|of| of.join().unwrap().unwrap_err().to_string());
            assert_eq!(told[0], "process 1 has 2 as slide_ns, this one 5: start all alike");
            assert_eq!(told[1], "process 0 has 5 as slide_ns, this one 2: start all alike");
        });
    }

    #[test]
    fn the_one_that_differs_is_named_by_all_that_know_it() {
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = listeners.map(|of| of.local_addr().unwrap().to_string()).to_vec();
        let (go, mut other) = (AtomicBool::new(false), SHARED);
        other[2].1 = 9;
        thread::scope(|scope| {
            let start = |process: usize, shared| {
                let (addresses, go) = (&addresses, &go);
                scope.spawn(move || sockets(&options(process, addresses, 20_000), shared, go))
            };
            let first = [start(0, &other), start(1, &SHARED)];
            thread::sleep(Duration::from_millis(300));
            let third = start(2, &SHARED);
            let [zero, one] = first.map(|of| of.join().unwrap().unwrap_err().to_string());
            assert!(zero.starts_with("process 1 has 0 as stream, this one 9"), "{zero}");
            assert!(one.starts_with("process 0 has 9 as stream, this one 0"), "{one}");
            let two = third.join().unwrap().unwrap_err().to_string();
            assert!(two.starts_with("process 0 has 9 as stream, this one 0"), "{two}");
        });
    }

    #[test]
    fn another_program_at_an_address_is_noticed_and_a_stop_ends_the_wait_for_its_answer() {
        let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = [stranger.local_addr().unwrap().to_string(), "127.0.0.1:0".to_owned()];
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let start = || scope.spawn(|| sockets(&options(1, &addresses, 60_000), &SHARED, &stop));
            let waiting = start();
            let mut stream = stranger.accept().unwrap().0;
            stream.write_all(&[b'x'; GREETING_LEN]).unwrap();
            let error = waiting.join().unwrap().unwrap_err();
            assert!(matches!(error, ClusterError::Stranger { process: 0, .. }), "{error}");
            let waiting = start();
            drop(stranger.accept().unwrap());
            let error = waiting.join().unwrap().unwrap_err();
            assert!(matches!(error, ClusterError::Stranger { process: 0, .. }), "{error}");
            let waiting = start();
            let _silent = stranger.accept().unwrap();
            stop.store(true, Ordering::Relaxed);
            let error = waiting.join().unwrap().unwrap_err();
            assert!(matches!(error, ClusterError::Stopped), "{error}");
        });
    }

    #[test]
    fn a_stop_ends_the_wait_for_others() {
        let (addresses, stop) = (free(), AtomicBool::new(false));
        for process in 0..2 {
            stop.store(false, Ordering::Relaxed);
            thread::scope(|scope| {
                let waiting =
                    scope.spawn(|| sockets(&options(process, &addresses, 60_000), &SHARED, &stop));
                thread::sleep(Duration::from_millis(50));
                stop.store(true, Ordering::Relaxed);
                let error = waiting.join().unwrap().unwrap_err();
                assert!(matches!(error, ClusterError::Stopped), "{error}");
            });
        }
    }

    #[test]
    fn programs_that_say_nothing_or_something_else_hold_nobody_up() {
        let (addresses, go) = (free(), AtomicBool::new(false));
        thread::scope(|scope| {
            let first = scope.spawn(|| sockets(&options(0, &addresses, 20_000), &SHARED, &go));
            let connect = || loop {
                if let Ok(stream) = TcpStream::connect(&addresses[0]) {
                    break stream;
                }
                thread::sleep(Duration::from_millis(5));
            };
            let silent: Vec<TcpStream> = (0..8).map(|_| connect()).collect();
            let mut other = connect();
            other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            let started = Instant::now();
            let second = scope.spawn(|| sockets(&options(1, &addresses, 20_000), &SHARED, &go));
            assert!(first.join().unwrap().unwrap()[1].is_some());
            assert!(second.join().unwrap().unwrap()[0].is_some());
            assert!(started.elapsed() < GREETING, "{:?}", started.elapsed());
            drop(silent);
        });
    }
}
