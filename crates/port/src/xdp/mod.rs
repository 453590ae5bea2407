//! AF_XDP: frames straight between the queues of a network interface and frame memory.
//!
//! A queue pair is one queue of the interface. Frames are the kernel's while they wait in one of
//! its rings; the queue pair keeps their descriptors meanwhile, so that whatever the kernel says,
//! only frames that it holds come back, and once. Where the driver can, it works in the frames
//! themselves (zero copy); else the kernel copies.
//!
//! Every socket registers the whole region for itself, so that queue pairs share frames and none
//! needs another one to stay.

mod queues;
mod redirect;
mod ring;
mod socket;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use niclab_nic::limits::BURST;
use niclab_nic::memory::Region;
use rustix::net::netdevice::index_to_name;
use rustix::net::sockopt::{socket_error, xdp_statistics};
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, bind, send, socket_with};
use rustix::time::{ClockId, clock_gettime};

use crate::burst::Burst;
use crate::error::{PortError, PortKind};
use crate::frame_pool::FramePool;
use crate::link::{self, HEADER_LEN, Link};
use crate::packet::promiscuous;
use crate::queue_pair::{QueuePair, QueuePairCounters};
use queues::{ReceiveQueues, is_checksum_offloaded, receive_queues};
use redirect::Redirect;
use socket::Xsk;

/// Entries of each ring; a power of two.
const RING: u32 = 2_048;

/// Frames that a queue pair holds at most: its fill ring and its transmit ring full, and what waits
/// to be taken out of the other two.
pub const FRAMES: usize = 4 * RING as usize;

/// Most queue pairs of a port: entries of the map in `bpf/redirect.bpf.c`.
pub const QUEUE_PAIRS_MAX: u32 = 256;

/// Bytes that the kernel keeps free before each frame it receives (`XDP_PACKET_HEADROOM`).
const KERNEL_HEADROOM: u32 = 256;

/// Time after which a queue pair without a frame asks whether the interface is still there. By the
/// clock, for a core that sleeps between two turns has few of them.
const LOOK_EVERY_MS: i64 = 100;

/// Calls that drive one burst out, at most: a call takes 32 frames where the kernel copies.
const KICKS_MAX: u32 = 4;

/// How long a queue pair that ends waits for the frames that it has given to the kernel.
const LAST_FRAMES_MAX: Duration = Duration::from_millis(100);

/// How often a queue is asked for that seems taken, and how long a pause is between two tries.
const BIND_TRIES: u32 = 50;
const BIND_PAUSE: Duration = Duration::from_millis(10);

/// One queue of an interface.
pub struct XdpQueuePair {
    /// Dropped in this order: the socket, then the program.
    socket: Xsk,
    _interface: Arc<Interface>,
    /// Frames that the kernel has, to be filled.
    filling: u32,
    /// And those to be sent, which count as sent already, with their bytes.
    sending: (u64, u64),
    counters: QueuePairCounters,
    /// When the interface was last asked for.
    looked_ms: i64,
}

/// State that all queue pairs of an interface share.
struct Interface {
    redirect: Redirect,
    /// The filter of a card lets in what is addressed to others.
    _promiscuous: OwnedFd,
}

/// Whether an interface of the calling thread's network namespace may hand over frames without
/// whole TCP or UDP checksums, which AF_XDP does not mark: one end of a veth pair whose other end
/// leaves them to it, or is out of sight.
pub fn has_partial_checksums(link: &Link) -> bool {
    let other_end = || {
        let socket =
            socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
        let name = index_to_name(&socket, link.peer?).ok()?;
        is_checksum_offloaded(&name).ok()
    };
    link.is_veth() && other_end().unwrap_or(true)
}

/// Opens all queues of an interface of the calling thread's network namespace, `count` of them, for
/// frames of `region`: every frame that arrives comes by a queue pair.
///
/// # Errors
/// [`PortError`]: [`PortError::QueuesLeft`] where there are more queues. Nothing stays attached.
pub fn open(name: &str, count: u32, region: &Arc<Region>) -> Result<Vec<XdpQueuePair>, PortError> {
    // A driver that does not tell may have others.
    if let Ok(ReceiveQueues { queues, word }) = receive_queues(name)
        && queues > count
        && count > 0
    {
        return Err(PortError::QueuesLeft { name: name.to_owned(), queues, count, word });
    }
    open_first(name, count, region)
}

/// Opens the first `count` queues. Frames of the others go to the kernel: for who has the card
/// spread its frames over these alone.
///
/// # Errors
/// [`PortError`]; nothing stays attached.
pub fn open_first(
    name: &str,
    count: u32,
    region: &Arc<Region>,
) -> Result<Vec<XdpQueuePair>, PortError> {
    let link = link::find(name).map_err(|e| PortError::of(PortKind::Xdp, "look up", name, e))?;
    let link = link.ok_or_else(|| PortError::Absent { name: name.to_owned() })?;
    let longest = (region.slot_len() as u32).saturating_sub(KERNEL_HEADROOM + HEADER_LEN);
    if link.mtu > longest {
        return Err(PortError::mtu(PortKind::Xdp, &link, longest));
    }
    if count == 0 || count > QUEUE_PAIRS_MAX {
        return Err(PortError::QueuePairs { name: name.to_owned(), count, most: QUEUE_PAIRS_MAX });
    }
    let redirect = Redirect::attach(link.index).map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => PortError::Taken { name: name.to_owned() },
        _ => PortError::of(PortKind::Xdp, "attach an XDP program to", name, error),
    })?;
    let promiscuous = promiscuous(&link);
    let promiscuous =
        promiscuous.map_err(|e| PortError::of(PortKind::Xdp, "receive all frames of", name, e))?;
    let interface = Arc::new(Interface { redirect, _promiscuous: promiscuous });
    let failed = |source| PortError::of(PortKind::Xdp, "open an AF_XDP socket on", name, source);
    let queue_pair = |queue| {
        let queue_pair = XdpQueuePair::open(region, &interface).map_err(failed)?;
        let bound = queue_pair.bind(link.index, queue);
        bound.map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => PortError::QueueTaken { name: name.to_owned(), queue },
            Some(libc::EINVAL) => PortError::NoQueue { name: name.to_owned(), queue },
            _ => failed(error),
        })?;
        Ok(queue_pair)
    };
    let queue_pairs = (0..count).map(queue_pair).collect::<Result<Vec<_>, PortError>>()?;
    for (queue, queue_pair) in (0..).zip(&queue_pairs) {
        let handed = interface.redirect.redirect_queue(queue, queue_pair.socket.as_fd());
        handed
            .map_err(|error| PortError::of(PortKind::Xdp, "redirect the frames of", name, error))?;
    }
    Ok(queue_pairs)
}

impl XdpQueuePair {
    /// A queue pair of no queue yet.
    fn open(region: &Arc<Region>, interface: &Arc<Interface>) -> io::Result<XdpQueuePair> {
        Ok(XdpQueuePair {
            socket: Xsk::open(region)?,
            _interface: Arc::clone(interface),
            filling: 0,
            sending: (0, 0),
            counters: QueuePairCounters::default(),
            looked_ms: now_ms(),
        })
    }

    /// Binds it to a queue of an interface. The kernel lets go of a socket that was just closed
    /// after the call that closes it: for a moment the queue seems taken.
    fn bind(&self, index: u32, queue: u32) -> io::Result<()> {
        // Zero copy where the driver can, else copies; the kernel chooses.
        let flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        let address = SocketAddrXdp::new(flags, index, queue);
        for _ in 0..BIND_TRIES {
            match bind(&self.socket, &address) {
                Err(rustix::io::Errno::BUSY) => std::thread::sleep(BIND_PAUSE),
                bound => return Ok(bound?),
            }
        }
        Ok(bind(&self.socket, &address)?)
    }

    /// Frames that can be sent now, at least: entries of the transmit ring that no frame has whose
    /// end the kernel has yet to report.
    pub fn send_room(&self) -> usize {
        (RING as usize).saturating_sub(self.sending.0 as usize)
    }

    /// Lends the kernel frames to be filled, once a burst of them is missing.
    #[inline]
    fn refill(&mut self, pool: &mut FramePool) {
        let missing = RING - self.filling;
        if missing < BURST as u32 {
            return;
        }
        let put = self.socket.fill(missing, || pool.take());
        self.filling += put;
        if put > 0 && self.socket.fill_needs_wakeup() {
            // The driver sleeps for want of frames; what it says shows with the next frames.
            let _ = rustix::net::recv(&self.socket, &mut [0_u8; 0][..], wakeup());
        }
    }

    /// Gives frames that were sent to the pool.
    #[inline]
    fn reclaim(&mut self, pool: &mut FramePool) -> io::Result<()> {
        let (frames, bytes) = &mut self.sending;
        self.socket.take_completed(|desc| {
            *frames = frames.saturating_sub(1);
            *bytes = bytes.saturating_sub(u64::from(desc.len()));
            pool.give(desc);
        })
    }

    /// Whether the interface is gone, which the kernel says once; asked now and then.
    fn look(&mut self) -> io::Result<()> {
        let now_ms = now_ms();
        if now_ms - self.looked_ms < LOOK_EVERY_MS {
            return Ok(());
        }
        self.looked_ms = now_ms;
        Ok(socket_error(&self.socket)??)
    }

    /// Has the kernel send what counts as sent, for a while: with the socket it would be dropped.
    fn drive_out(&mut self, pool: &mut FramePool) {
        use rustix::io::Errno;
        let until = Instant::now() + LAST_FRAMES_MAX;
        while self.reclaim(pool).is_ok() && self.sending.0 > 0 && Instant::now() < until {
            match send(&self.socket, &[], SendFlags::DONTWAIT) {
                Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) => {}
                // Switched off, or gone.
                Err(_) => return,
            }
            std::thread::yield_now();
        }
    }

    /// Has the kernel send what waits.
    fn kick(&mut self) -> io::Result<()> {
        for _ in 0..KICKS_MAX {
            if !self.socket.needs_kick() {
                return Ok(());
            }
            match send(&self.socket, &[], SendFlags::DONTWAIT) {
                // Sent, or as far as one call goes.
                Ok(_) | Err(rustix::io::Errno::AGAIN) => {}
                // The interface has no room: later.
                Err(rustix::io::Errno::BUSY | rustix::io::Errno::NOBUFS) => return Ok(()),
                // Switched off for a while: what waits is sent when it is on again.
                Err(rustix::io::Errno::NETDOWN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// The time by the clock that costs least to read, a few milliseconds coarse.
fn now_ms() -> i64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}

fn wakeup() -> rustix::net::RecvFlags {
    rustix::net::RecvFlags::DONTWAIT
}

impl QueuePair for XdpQueuePair {
    #[inline]
    fn receive(&mut self, pool: &mut FramePool, into: &mut Burst) -> io::Result<()> {
        let (filling, counters) = (&mut self.filling, &mut self.counters);
        let count = self.socket.receive(into.remaining_capacity() as u32, |desc| {
            *filling -= 1;
            counters.rx_bytes += u64::from(desc.len());
            into.push(desc);
        })?;
        if count > 0 {
            self.counters.rx_frames += u64::from(count);
        }
        self.refill(pool);
        if count > 0 { Ok(()) } else { self.look() }
    }

    #[inline]
    fn send(&mut self, pool: &mut FramePool, burst: &mut Burst) -> io::Result<()> {
        self.reclaim(pool)?;
        let (sending, counters) = (&mut self.sending, &mut self.counters);
        let count = self.socket.send(burst, |len| {
            counters.tx_bytes += u64::from(len);
            sending.1 += u64::from(len);
        });
        self.counters.tx_frames += u64::from(count);
        self.sending.0 += u64::from(count);
        self.kick()
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn counters(&self) -> QueuePairCounters {
        let observed = xdp_statistics(&self.socket).ok();
        // A frame for which the fill ring had none is among those that were dropped (`__xsk_rcv`),
        // and once more among the empty descriptors; a full receive ring is counted apart.
        let rx_missed = observed
            .as_ref()
            .map_or(0, |observed| observed.rx_dropped + observed.rx_ring_full.unwrap_or(0));
        let tx_dropped = observed.map_or(0, |observed| observed.tx_invalid_descs);
        QueuePairCounters { rx_missed, tx_dropped, ..self.counters }
    }

    fn close(mut self: Box<Self>, pool: &mut FramePool) -> io::Result<QueuePairCounters> {
        self.drive_out(pool);
        let mut counters = self.counters();
        let (frames, bytes) = self.sending;
        counters.tx_frames -= frames;
        counters.tx_bytes -= bytes;
        // What the kernel counts as dropped it does not give back either.
        counters.tx_dropped = counters.tx_dropped.max(frames);
        self.socket.close().for_each(|desc| pool.give(desc));
        Ok(counters)
    }
}
