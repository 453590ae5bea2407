//! Tuples by the system's UDP sockets: one thread receives, demultiplexes and acknowledges.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{InputStatus, PolledClock, Reception};
use crate::cost::{StepObserver, WorkStep};
use crate::job::JobEngine;
use crate::receiver::ReceiverOptions;
use crate::tuple::FRAME_LEN_MAX;

/// Datagrams that are worked on together.
const BURST: usize = 64;
/// How long nothing is waited for.
const TURN: Duration = Duration::from_millis(10);
/// How long a sender that missed the last acknowledgement is answered after the end.
const LINGER: Duration = Duration::from_millis(1_500);

/// How an input is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// The address at which tuples arrive.
    pub listen: SocketAddr,
    /// Limits; the windows are those of the engine.
    pub receiver: ReceiverOptions,
    /// Ends when all sources have ended or are silent.
    pub until_end: bool,
}

/// A socket for tuples.
#[derive(Debug)]
pub struct UdpInput {
    socket: UdpSocket,
    options: UdpOptions,
}

/// A burst of datagrams.
struct Datagrams {
    bytes: Box<[[u8; FRAME_LEN_MAX + 1]; BURST]>,
    of: Vec<(usize, SocketAddr)>,
}

impl Datagrams {
    /// Takes what is there, at most a burst.
    fn receive(&mut self, socket: &UdpSocket) -> io::Result<()> {
        self.of.clear();
        while self.of.len() < BURST {
            match socket.recv_from(&mut self.bytes[self.of.len()]) {
                Ok(received) => self.of.push(received),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_of_a_peer(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The datagrams, with their senders.
    fn iter(&self) -> impl Iterator<Item = (&[u8], SocketAddr)> {
        let datagrams = self.bytes.iter().zip(&self.of);
        datagrams.map(|(bytes, &(len, from))| (&bytes[..len], from))
    }
}

/// Whether an error is about an earlier datagram of ours, and says nothing of the socket.
fn is_of_a_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | Interrupted | NetworkUnreachable)
}

impl UdpInput {
    /// Takes the address.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(options: UdpOptions) -> io::Result<UdpInput> {
        let socket = UdpSocket::bind(options.listen)?;
        socket.set_nonblocking(true)?;
        Ok(UdpInput { socket, options })
    }

    /// How it was set up.
    pub fn options(&self) -> &UdpOptions {
        &self.options
    }

    /// The address at which tuples arrive.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Receives for an engine until `stop` is set, the engine is over, or, if so set up, all
    /// sources have ended or are silent; then the engine has no more tuples to expect.
    ///
    /// # Errors
    /// The system's, if the socket fails.
    pub fn run(
        &self,
        engine: &JobEngine,
        stop: &AtomicBool,
        status: &InputStatus,
        observer: &mut dyn StepObserver,
    ) -> io::Result<()> {
        let mut reception = Reception::new(engine, self.options.receiver);
        let bytes = Box::new([[0; FRAME_LEN_MAX + 1]; BURST]);
        let mut datagrams = Datagrams { bytes, of: Vec::with_capacity(BURST) };
        let mut clock = PolledClock::default();
        let mut closed_at: Option<Instant> = None;
        while !stop.load(Ordering::Relaxed) && (closed_at.is_some() || !engine.is_over()) {
            let turn = Timespec { tv_sec: 0, tv_nsec: TURN.as_nanos() as i64 };
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&turn)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            observer.begin();
            datagrams.receive(&self.socket)?;
            observer.done(WorkStep::Receive);
            reception.burst(clock.now_ns(), datagrams.iter(), observer, |to, frame| {
                // A lost acknowledgement is one of many; the next one says the same.
                let _ = self.socket.send_to(frame, to);
            });
            status.publish(&reception);
            if self.options.until_end && reception.is_finished() {
                let closed_at = *closed_at.get_or_insert_with(|| {
                    reception.close();
                    engine.close();
                    Instant::now()
                });
                if closed_at.elapsed() >= LINGER {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
