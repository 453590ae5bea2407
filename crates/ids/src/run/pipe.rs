//! A port that gives the frames that leave by it to an engine, as a trace in a pipe.
//!
//! The card waits for a slow engine, so none of its frames is lost. If the engine ends, the port is
//! gone until the next engine has made another pipe.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, PipeReader, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use niclab_card::{PortError, PortName, PortSource};
use niclab_nic::memory::Region;
use niclab_packet::trace::{Endian, Format, Resolution, Writer};
use niclab_port::frame_pool::FramePool;
use niclab_port::queue_pair::{QueuePair, QueuePairCounters};
use niclab_port::{Burst, tap};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio, write};
use rustix::pipe::fcntl_setpipe_size;

use super::gate::Gate;

/// How long the card waits for an engine before it looks whether the run is over.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The pause between frames of niclab's own.
const NUDGE: Duration = Duration::from_millis(50);

/// Bytes that a pipe holds.
const PIPE_LEN: usize = 1 << 20;

/// A frame of niclab's own: an ARP probe for no address (RFC 5227, section 1.1). Suricata says that
/// it has started, and takes other rules, when it has a frame. Whatever it reports of these frames
/// does not count.
const OWN_FRAME: [u8; 42] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0, 0x08, 0x06, // Ethernet
    0, 1, 0x08, 0, 6, 4, 0, 1, // a request for IPv4
    2, 0, 0, 0, 0, 0, 0, 0, 0, 0, // by this address, which has none of IP
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// The time of day, nanoseconds since 1970.
fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// A port of the card of a run.
#[derive(Clone, Debug)]
pub(super) enum RunPort {
    /// A port as others have it, behind a gate.
    Named(PortName, Gate),
    /// A TAP interface of this name, for an engine alone.
    Tap(String),
    /// The way to an engine.
    Pipe(Pipe),
}

/// The way to an engine, for all its pipes one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Pipe {
    engine: usize,
    /// The pipe of an engine that is not ready, and of one that is.
    made: Arc<Mutex<Option<OwnedFd>>>,
    next: Arc<Mutex<Option<OwnedFd>>>,
    /// The numbers of niclab's own frames in the pipe, from 1, and whether more are to come.
    own: Arc<Mutex<HashSet<u64>>>,
    nudges: Arc<AtomicBool>,
    /// When the card stops waiting for the engine, if the run ends.
    until: Arc<Mutex<Option<Instant>>>,
}

impl Pipe {
    pub(super) fn new(engine: usize) -> Pipe {
        Pipe { engine, ..Pipe::default() }
    }

    /// Makes the pipe of the next engine, and returns the end that the engine reads. The head of a
    /// trace and [`OWN_FRAME`] are in it.
    pub(super) fn make(&self) -> io::Result<PipeReader> {
        let (reader, mut writer) = io::pipe()?;
        let head = Writer::new(Vec::new(), Format::Pcap(Endian::Little, Resolution::Nano));
        let mut start = head.and_then(Writer::finish).map_err(io::Error::other)?;
        push_record(&mut start, now_ns(), &OWN_FRAME);
        *lock_own(&self.own) = HashSet::from([1]);
        writer.write_all(&start)?;
        // A system may allow less.
        let _ = fcntl_setpipe_size(&writer, PIPE_LEN);
        ioctl_fionbio(&writer, true)?;
        *lock(&self.made) = Some(writer.into());
        *lock(&self.next) = None;
        Ok(reader)
    }

    fn waits(&self) -> bool {
        let until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_none_or(|until| Instant::now() < until)
    }

    /// Has an engine without packets get frames of niclab's own.
    pub(super) fn nudge(&self, nudges: bool) {
        self.nudges.store(nudges, Ordering::Relaxed);
    }

    /// Whether a frame is niclab's own, by its number in the pipe, from 1.
    pub(super) fn is_own(&self, number: u64) -> bool {
        lock_own(&self.own).contains(&number)
    }

    /// How many frames of the last pipe are niclab's own.
    pub(super) fn own_frames(&self) -> u64 {
        lock_own(&self.own).len() as u64
    }

    /// Gives the card the last pipe, whose engine is ready.
    pub(super) fn publish(&self) {
        *lock(&self.next) = lock(&self.made).take();
    }

    /// Has the card wait for this engine until then and no longer, whatever was said before.
    pub(super) fn wait_until(&self, until: Instant) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }
}

fn lock_own(own: &Mutex<HashSet<u64>>) -> MutexGuard<'_, HashSet<u64>> {
    own.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lock(end: &Mutex<Option<OwnedFd>>) -> MutexGuard<'_, Option<OwnedFd>> {
    end.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Display for RunPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunPort::Named(name, _) => name.fmt(f),
            RunPort::Tap(name) => write!(f, "tap:{name}"),
            RunPort::Pipe(pipe) => write!(f, "engine:{}", pipe.engine),
        }
    }
}

impl PortSource for RunPort {
    fn queue_pair_frames(&self) -> usize {
        match self {
            RunPort::Named(name, _) => name.queue_pair_frames(),
            RunPort::Tap(_) => tap::FRAMES,
            RunPort::Pipe(_) => 0,
        }
    }

    fn open(&self, count: u32, region: &Arc<Region>) -> Result<Vec<Box<dyn QueuePair>>, PortError> {
        let pipe = match self {
            RunPort::Named(name, gate) => {
                let queue_pairs = name.open(count, region)?.into_iter();
                return Ok(queue_pairs.map(|of| gate.guard(of)).collect());
            }
            RunPort::Tap(name) => {
                let queue_pairs = tap::open_for_sockets(name, count, region)?.into_iter();
                return Ok(queue_pairs.map(|of| Box::new(of) as Box<dyn QueuePair>).collect());
            }
            RunPort::Pipe(pipe) => pipe,
        };
        if count != 1 {
            return Err(PortError::QueuePairs { name: self.to_string(), count, most: 1 });
        }
        let Some(end) = lock(&pipe.next).take() else {
            return Err(PortError::Ended { reason: "the engine is not there yet".to_owned() });
        };
        let (region, pipe) = (Arc::clone(region), pipe.clone());
        let (waiting, counters) = Default::default();
        let (frames, last) = (1, Instant::now());
        Ok(vec![Box::new(PipeQueuePair { region, end, pipe, waiting, frames, last, counters })])
    }

    fn can_reopen(&self) -> bool {
        match self {
            RunPort::Named(name, _) => name.can_reopen(),
            RunPort::Tap(_) | RunPort::Pipe(_) => true,
        }
    }

    fn is_output_only(&self) -> bool {
        matches!(self, RunPort::Tap(_) | RunPort::Pipe(_))
    }
}

/// The queue pair of such a port. No frame ever comes by it.
struct PipeQueuePair {
    region: Arc<Region>,
    end: OwnedFd,
    pipe: Pipe,
    /// Bytes that are to be written.
    waiting: Vec<u8>,
    /// Frames in the pipe so far, and when the last one was written.
    frames: u64,
    last: Instant,
    counters: QueuePairCounters,
}

impl PipeQueuePair {
    /// Writes all that waits, however long the engine takes.
    fn write_all(&mut self) -> io::Result<()> {
        let mut rest = &self.waiting[..];
        while !rest.is_empty() {
            match write(&self.end, rest) {
                Ok(len) => rest = &rest[len..],
                Err(Errno::AGAIN) if self.pipe.waits() => {
                    let _ = poll(&mut [PollFd::new(&self.end, PollFlags::OUT)], Some(&LOOK));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(io::Error::other("the engine takes no frame")),
                Err(error) => return Err(error.into()),
            }
        }
        self.waiting.clear();
        Ok(())
    }
}

impl PipeQueuePair {
    /// Writes a frame of niclab's own, if that is wanted and there was none for a while.
    fn nudge(&mut self) -> io::Result<()> {
        if !self.pipe.nudges.load(Ordering::Relaxed) || self.last.elapsed() < NUDGE {
            return Ok(());
        }
        self.last = Instant::now();
        self.frames += 1;
        lock_own(&self.pipe.own).insert(self.frames);
        push_record(&mut self.waiting, now_ns(), &OWN_FRAME);
        self.write_all()
    }
}

/// Adds a record of a pcap file with times in nanoseconds (draft-ietf-opsawg-pcap, section 5).
fn push_record(to: &mut Vec<u8>, timestamp_ns: u64, frame: &[u8]) {
    let (seconds, rest) = (timestamp_ns / 1_000_000_000, timestamp_ns % 1_000_000_000);
    for field in [seconds as u32, rest as u32, frame.len() as u32, frame.len() as u32] {
        to.extend(field.to_le_bytes());
    }
    to.extend(frame);
}

impl QueuePair for PipeQueuePair {
    fn receive(&mut self, _pool: &mut FramePool, _into: &mut Burst) -> io::Result<()> {
        Ok(())
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Burst) -> io::Result<()> {
        if burst.is_empty() {
            return self.nudge();
        }
        self.last = Instant::now();
        let now_ns = now_ns();
        let (mut frames, mut bytes) = (0, 0);
        for desc in &*burst {
            let frame = self.region.frame(desc);
            push_record(&mut self.waiting, now_ns, frame);
            (frames, bytes) = (frames + 1, bytes + frame.len() as u64);
        }
        self.write_all()?;
        burst.drain(..).for_each(|desc| pool.give(desc));
        self.frames += frames;
        self.counters.tx_frames += frames;
        self.counters.tx_bytes += bytes;
        Ok(())
    }

    fn is_ended(&self) -> bool {
        true
    }

    fn counters(&self) -> QueuePairCounters {
        self.counters
    }

    fn close(self: Box<Self>, _pool: &mut FramePool) -> io::Result<QueuePairCounters> {
        Ok(self.counters)
    }
}
