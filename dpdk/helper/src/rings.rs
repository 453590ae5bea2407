//! The tester's two ends and the function under test, on queues of DPDK ports.

use niclab_device::PortCounters;
use niclab_device::pair::{DeviceSide, ShowFrame};
use niclab_device::rule_case::FrameExit;
use niclab_device::rule_port::TakeFrame;
use niclab_load::rings::{BURST, Inlet, Outlet};

use crate::shim::{DpdkBurst, Pool, Ring, RxQueue, TxQueue, enter_thread};

/// Length of the frame check sequence, which DPDK does not show, bytes.
const FCS_LEN: u64 = 4;

/// Bursts of each queue that are taken away at most.
const DRAIN_TURNS: usize = 256;

/// Bytes of the two MAC addresses.
const ADDRESSES_LEN: usize = 12;

/// What one frame may cost in a turn before the turn looks like a stall, nanoseconds: a burst of a
/// card takes a microsecond or two, but a port of the kernel carries each frame through in the call
/// that sends it.
pub fn frame_ns(is_by_kernel: bool) -> u64 {
    if is_by_kernel { 4_000 } else { 0 }
}

/// The generator's end: fresh frames, filled in place.
pub struct Out {
    queue: TxQueue,
    pool: Pool,
    burst: DpdkBurst,
    /// The ring behind the queue, where it is one: it tells exactly how much room there is.
    ring: Option<Ring>,
    /// Longest frame, bytes without FCS.
    frame_len_max: u16,
    frame_ns: u64,
}

impl Out {
    /// Sends one frame without FCS; `false` where there is no room for it.
    pub fn send_one(&mut self, frame: &[u8]) -> bool {
        if self.reserve(1) == 0 {
            return false;
        }
        match self.slot(0).get_mut(..frame.len()) {
            None => false,
            Some(place) => {
                place.copy_from_slice(frame);
                self.commit(&[frame.len() as u16]) == 1
            }
        }
    }

    /// An end that sends frames of `pool`, of at most so many bytes without FCS.
    /// On each of them the core may spend `frame_ns` nanoseconds ([`frame_ns`]).
    pub fn new(
        queue: TxQueue,
        pool: Pool,
        ring: Option<Ring>,
        (frame_len_max, frame_ns): (u16, u64),
    ) -> Out {
        Out { queue, pool, burst: DpdkBurst::new(), ring, frame_len_max, frame_ns }
    }
}

impl Outlet for Out {
    fn frame_ns(&self) -> u64 {
        self.frame_ns
    }

    fn frame_len_max(&self) -> u16 {
        self.frame_len_max
    }

    #[inline]
    fn reserve(&mut self, want: usize) -> usize {
        enter_thread();
        let room = match &self.ring {
            Some(ring) => ring.room(),
            None if self.queue.has_room() => BURST,
            None => 0,
        };
        let want = want.min(room);
        if self.burst.len() < want {
            self.burst.fill(&self.pool);
        }
        self.burst.len().min(want)
    }

    #[inline]
    fn slot(&mut self, i: usize) -> &mut [u8] {
        self.burst.room_mut(i)
    }

    #[inline]
    fn commit(&mut self, lens: &[u16]) -> usize {
        self.burst.set_lens(lens);
        self.burst.send(&mut self.queue, lens.len())
    }
}

/// The sink's end.
pub struct In {
    queue: RxQueue,
    burst: DpdkBurst,
}

impl In {
    /// An end that receives from `queue`.
    pub fn new(queue: RxQueue) -> In {
        In { queue, burst: DpdkBurst::new() }
    }

    /// The queue, for its counters.
    pub fn queue(&self) -> &RxQueue {
        &self.queue
    }
}

impl Inlet for In {
    #[inline]
    fn poll(&mut self) -> usize {
        self.burst.receive(&mut self.queue)
    }

    #[inline]
    fn frame(&self, i: usize) -> &[u8] {
        self.burst.frame(i)
    }

    #[inline]
    fn release(&mut self) {
        self.burst.give_back();
    }
}

/// The forwarding function on the queues of one core: swaps the MAC addresses and sends back,
/// frames staying where they are.
pub struct Forward {
    /// With their numbers.
    rx: Vec<(usize, RxQueue)>,
    tx: TxQueue,
    burst: DpdkBurst,
    /// Queues of the port.
    queues: u16,
    /// What the port had missed when it was last asked; `None` where another core asks.
    missed: Option<u64>,
    frame_ns: u64,
}

impl Forward {
    /// The function on these queues of the port under test, which has `queues` of them. One core
    /// alone is to count what the port missed. On each frame it may spend `frame_ns` nanoseconds
    /// ([`frame_ns`]).
    pub fn new(
        rx: Vec<(usize, RxQueue)>,
        tx: TxQueue,
        (queues, frame_ns): (u16, u64),
        counts_missed: bool,
    ) -> Forward {
        let missed = counts_missed.then_some(0);
        Forward { rx, tx, burst: DpdkBurst::new(), queues, missed, frame_ns }
    }
}

impl Forward {
    /// Takes away what is there, as far as a queue holds it.
    pub fn drain(&mut self) {
        for _ in 0..DRAIN_TURNS {
            let mut found = false;
            self.take_frames(&mut |_, _, _| found = true);
            if !found {
                break;
            }
        }
    }

    /// Takes the frames that are there and forwards none of them.
    pub fn take_frames(&mut self, take: &mut TakeFrame<'_>) {
        let Forward { rx, burst, .. } = self;
        for (number, queue) in rx {
            for at in 0..burst.receive(queue) {
                take(FrameExit::Queue(*number as u16), burst.frame(at), burst.mark(at));
            }
            burst.give_back();
        }
    }
}

impl DeviceSide for Forward {
    fn frame_ns(&self) -> u64 {
        self.frame_ns
    }

    fn queues(&self) -> u16 {
        self.queues
    }

    fn start(&mut self) {
        enter_thread();
        self.missed();
    }

    #[inline]
    fn turn(&mut self, counters: &mut PortCounters) -> usize {
        let Forward { rx, tx, burst, .. } = self;
        let mut sum = 0;
        for (number, queue) in rx {
            let found = burst.receive(queue);
            if found == 0 {
                continue;
            }
            let mut bytes = [0; BURST];
            for (i, bytes) in bytes[..found].iter_mut().enumerate() {
                let frame = burst.frame_mut(i);
                *bytes = frame.len() as u64 + FCS_LEN;
                swap_addresses(frame);
            }
            let sent = burst.send(tx, found);
            burst.give_back();
            let queue = &mut counters.queues[*number];
            queue.rx_frames += found as u64;
            queue.rx_bytes += bytes[..found].iter().sum::<u64>();
            queue.tx_frames += sent as u64;
            queue.tx_bytes += bytes[..sent].iter().sum::<u64>();
            counters.tx_dropped += (found - sent) as u64;
            sum += found;
        }
        sum
    }

    fn turn_shown(&mut self, show: &mut ShowFrame<'_>) -> usize {
        let Forward { rx, tx, burst, .. } = self;
        let mut sum = 0;
        for (_, queue) in rx {
            let found = burst.receive(queue);
            for at in 0..found {
                show(burst.frame(at));
                swap_addresses(burst.frame_mut(at));
            }
            burst.send(tx, found);
            burst.give_back();
            sum += found;
        }
        sum
    }

    fn missed(&mut self) -> u64 {
        let (Some(before), Some((_, queue))) = (self.missed, self.rx.first()) else { return 0 };
        // A driver without the counter misses nothing that it could tell.
        let stats = queue.stats().unwrap_or_default();
        let missed = stats.rx_missed + stats.rx_no_buffer;
        self.missed = Some(missed);
        missed.saturating_sub(before)
    }
}

/// Sends a frame back to where it came from.
#[inline]
fn swap_addresses(frame: &mut [u8]) {
    if let Some(addresses) = frame.first_chunk_mut::<ADDRESSES_LEN>() {
        addresses.rotate_left(ADDRESSES_LEN / 2);
    }
}
