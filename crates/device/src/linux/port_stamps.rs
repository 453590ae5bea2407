//! Time stamps of some frames of a load at the tester's interface.
//!
//! About a thousand frames a second leave by a socket that has them stamped; a card may have room
//! for one at a time. They are frames of the load, each taken from a random place of its burst. The
//! times of sent frames come later, with the number of the frame; received frames have theirs in
//! the ring. When the load is over, each frame's times are put together.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use niclab_load::clock::Clock;
use niclab_load::stamp::Stamp;
use niclab_load::{Load, StampedFrames};
use niclab_packet::timestamp::TimestampClock;
use niclab_port::packet::{RxRing, StampingSocket, TxRing};

/// Time from one stamped frame to the next, nanoseconds.
const EVERY_NS: u64 = 1_000_000;

/// Places of frames on their way. A frame whose place another one takes is given up.
const PLACES: usize = 4_096;

/// Frames of one load that are kept at most: ten minutes of them.
const KEPT_MAX: u64 = 600_000;

/// Longest Ethernet frame that is sent again from another slot, bytes.
const FRAME_LEN_MAX: usize = 1 << 16;

/// How long the last times of sent frames are waited for.
const WAIT: Duration = Duration::from_millis(20);

/// A time by stamps may be longer than niclab's by one part in this many: the clocks run at
/// different rates.
const RATE_MAX: u64 = 100;

/// It may be longer by this in any case, nanoseconds.
const SLACK_NS: u64 = 1_000;

/// Fewest frames of which the smallest difference is the resolution of a clock.
const RESOLUTION_MIN: usize = 100;

/// The stamps of one port. Its two ends share it.
pub(super) struct PortStamps {
    clock: TimestampClock,
    time: Clock,
    /// When the next frame is to be stamped, by `time`: never while no load is offered.
    due_ns: AtomicU64,
    sampled: Mutex<Sampled>,
}

/// The sampled frames of a load.
struct Sampled {
    socket: StampingSocket,
    /// The frames by their number, from that of the first one on.
    frames: Vec<SampledFrame>,
    first: u32,
    on_the_way: Box<[Option<OnTheWay>; PLACES]>,
    /// Time of the generator's core in all, and since it was last asked for, nanoseconds.
    cost_ns: u64,
    beside_ns: u64,
    /// The error of the socket that ended the sampling.
    failed: Option<io::Error>,
    moved: Box<[u8; FRAME_LEN_MAX]>,
}

/// A frame that has not come back yet: flow and sequence number, and where its times are.
#[derive(Clone, Copy, PartialEq, Eq)]
struct OnTheWay {
    flow: u32,
    sequence: u32,
    at: u32,
}

/// Times of a frame, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct SampledFrame {
    /// When it was due, from the start of the load.
    planned_ns: u64,
    /// niclab's clock before the call that sent it, and when niclab had it back.
    called_ns: u64,
    seen_ns: Option<u64>,
    /// The time stamps of the port.
    sent_ns: Option<u64>,
    received_ns: Option<u64>,
}

fn place(stamp: &Stamp) -> usize {
    (stamp.flow.wrapping_mul(0x9e37_79b9) ^ stamp.sequence) as usize % PLACES
}

impl PortStamps {
    /// Has received frames of a ring stamped from now on, and some of those that `socket` sends.
    pub(super) fn new(
        clock: TimestampClock,
        rx: &mut RxRing,
        socket: StampingSocket,
    ) -> io::Result<Arc<PortStamps>> {
        rx.stamp_by(clock)?;
        let sampled = Sampled {
            socket,
            frames: Vec::new(),
            first: 0,
            on_the_way: Box::new([None; PLACES]),
            cost_ns: 0,
            beside_ns: 0,
            failed: None,
            moved: Box::new([0; FRAME_LEN_MAX]),
        };
        let (time, due_ns) = (Clock::new(), AtomicU64::new(u64::MAX));
        Ok(Arc::new(PortStamps { clock, time, due_ns, sampled: Mutex::new(sampled) }))
    }

    fn sampled(&self) -> MutexGuard<'_, Sampled> {
        self.sampled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A load begins.
    pub(super) fn begin(&self, load: &Load) {
        self.sampled().begin(load);
        self.due_ns.store(0, Ordering::Relaxed);
    }

    /// Sends the reserved slots, as [`TxRing::commit`] does; where it is time, one of them by the
    /// socket that has it stamped.
    pub(super) fn commit(&self, tx: &mut TxRing, lens: &[u16]) -> usize {
        let due_ns = self.due_ns.load(Ordering::Relaxed);
        if due_ns == u64::MAX || lens.is_empty() {
            return tx.commit(lens);
        }
        let begun_ns = self.time.now_ns();
        if begun_ns < due_ns {
            return tx.commit(lens);
        }
        self.due_ns.store(begun_ns + EVERY_NS, Ordering::Relaxed);
        self.sampled().commit(tx, lens, &self.time)
    }

    /// Looks for sampled frames among those that were polled.
    pub(super) fn look(&self, rx: &RxRing, found: usize) {
        if found == 0 || self.due_ns.load(Ordering::Relaxed) == u64::MAX {
            return;
        }
        let mut sampled = self.sampled();
        for at in 0..found {
            if let Some(stamp) = Stamp::of_frame(rx.frame(at)) {
                sampled.receive(&stamp, || (self.time.now_ns(), rx.stamp_ns(at)));
            }
        }
    }

    /// Time that the generator's core spent on stamps since this was last asked, nanoseconds.
    pub(super) fn beside_ns(&self) -> u64 {
        std::mem::take(&mut self.sampled().beside_ns)
    }

    /// The times of the measured part of a load that is over.
    ///
    /// # Errors
    /// Those of the stamping socket.
    pub(super) fn end(&self, load: &Load) -> io::Result<StampedFrames> {
        self.due_ns.store(u64::MAX, Ordering::Relaxed);
        let until_ns = self.time.now_ns() + WAIT.as_nanos() as u64;
        let mut sampled = self.sampled();
        loop {
            sampled.take_sent();
            let is_whole = sampled.frames.iter().all(|frame| frame.sent_ns.is_some());
            if is_whole || sampled.failed.is_some() || self.time.now_ns() > until_ns {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        if let Some(error) = sampled.failed.take() {
            return Err(error);
        }
        let sent = sampled.frames.iter().filter(|frame| frame.called_ns > 0).count();
        let cost_ns = sampled.cost_ns / (sent as u64).max(1);
        Ok(StampedFrames { cost_ns, ..times(&sampled.frames, load, self.clock) })
    }
}

impl Sampled {
    fn begin(&mut self, load: &Load) {
        let expected = (load.warmup_ns + load.duration_ns) / EVERY_NS + 64;
        // The queue may still have times of an earlier load.
        self.take_sent();
        self.frames.clear();
        self.frames.reserve(expected.min(KEPT_MAX) as usize);
        self.on_the_way.fill(None);
        (self.cost_ns, self.beside_ns, self.failed) = (0, 0, None);
    }

    fn commit(&mut self, tx: &mut TxRing, lens: &[u16], time: &Clock) -> usize {
        if self.failed.is_some() || self.frames.len() == self.frames.capacity() {
            return tx.commit(lens);
        }
        let begun_ns = time.now_ns();
        self.take_sent();
        // Any of them, so that those in front of it and behind it have their share.
        let chosen = (begun_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % lens.len();
        let before_ns = time.now_ns() - begun_ns;
        let left = tx.commit(&lens[..chosen]);
        if left < chosen {
            return left;
        }
        let rest = &lens[chosen..];
        if tx.reserve(rest.len()) < rest.len() {
            return left;
        }
        let stamped_ns = time.now_ns();
        let len = usize::from(rest[0]);
        let is_sent = self.send(&tx.slot(0)[..len], time);
        if !is_sent {
            // The interface, or its queue, is full.
            tx.commit(&[]);
            return left;
        }
        self.move_up(tx, &rest[1..]);
        let spent_ns = before_ns + (time.now_ns() - stamped_ns);
        self.cost_ns += spent_ns;
        self.beside_ns += spent_ns;
        left + 1 + tx.commit(&rest[1..])
    }

    /// Sends a frame with a request for its time; whether it left.
    fn send(&mut self, frame: &[u8], time: &Clock) -> bool {
        let stamp = Stamp::of_frame(frame);
        let called_ns = time.now_ns();
        let Some(number) = self.socket.send(frame) else { return false };
        let planned_ns = stamp.map_or(u64::MAX, |stamp| stamp.planned_ns);
        if self.frames.is_empty() {
            self.first = number;
        }
        // Of a frame that the driver refused there is a number without a frame.
        let at = number.wrapping_sub(self.first) as usize;
        if at < self.frames.capacity() {
            self.frames.resize(at, SampledFrame { planned_ns: u64::MAX, ..Default::default() });
            self.frames.push(SampledFrame { planned_ns, called_ns, ..Default::default() });
        }
        if let Some(stamp) = stamp {
            let Stamp { flow, sequence, .. } = stamp;
            self.on_the_way[place(&stamp)] = Some(OnTheWay { flow, sequence, at: at as u32 });
        }
        true
    }

    /// Moves the frames behind the first slot, which was sent otherwise, one slot to the front.
    fn move_up(&mut self, tx: &mut TxRing, lens: &[u16]) {
        for (at, len) in lens.iter().enumerate() {
            let len = usize::from(*len);
            self.moved[..len].copy_from_slice(&tx.slot(at + 1)[..len]);
            tx.slot(at)[..len].copy_from_slice(&self.moved[..len]);
        }
    }

    fn receive(&mut self, stamp: &Stamp, times: impl FnOnce() -> (u64, Option<u64>)) {
        let on_the_way = &mut self.on_the_way[place(stamp)];
        let is_it = |it: &mut OnTheWay| (it.flow, it.sequence) == (stamp.flow, stamp.sequence);
        let Some(OnTheWay { at, .. }) = on_the_way.take_if(is_it) else { return };
        if let Some(frame) = self.frames.get_mut(at as usize) {
            let (seen_ns, received_ns) = times();
            (frame.seen_ns, frame.received_ns) = (Some(seen_ns), received_ns);
        }
    }

    /// Takes the times of sent frames that are there.
    fn take_sent(&mut self) {
        loop {
            match self.socket.take() {
                Ok(Some(sent)) => {
                    let at = sent.number.wrapping_sub(self.first) as usize;
                    if let Some(frame) = self.frames.get_mut(at) {
                        frame.sent_ns = Some(sent.ns);
                    }
                }
                Ok(None) => return,
                Err(e) => {
                    self.failed = Some(e);
                    return;
                }
            }
        }
    }
}

/// The times of the measured part of a load.
fn times(frames: &[SampledFrame], load: &Load, clock: TimestampClock) -> StampedFrames {
    let measured = load.warmup_ns..load.warmup_ns + load.duration_ns;
    let frames = frames.iter().filter(|frame| measured.contains(&frame.planned_ns));
    let mut stamped = StampedFrames { by: clock, ..StampedFrames::default() };
    let mut took = Vec::new();
    for frame in frames {
        stamped.asked += 1;
        let SampledFrame { called_ns, seen_ns, sent_ns, received_ns, .. } = *frame;
        let (Some(seen), Some(sent), Some(received)) = (seen_ns, sent_ns, received_ns) else {
            continue;
        };
        let program_ns = seen.saturating_sub(called_ns);
        let most_ns = program_ns + program_ns / RATE_MAX + SLACK_NS;
        match received.checked_sub(sent).filter(|took| *took <= most_ns) {
            // Both stamps lie between two readings of niclab's clock, unless theirs was set.
            None => stamped.implausible += 1,
            Some(took_ns) => {
                stamped.port.record(took_ns);
                stamped.program.record(program_ns);
                took.push(took_ns);
            }
        }
    }
    stamped.resolution_ns = resolution_ns(took);
    stamped
}

/// The smallest difference between times, where there are enough of them.
fn resolution_ns(mut times: Vec<u64>) -> Option<u64> {
    if times.len() < RESOLUTION_MIN {
        return None;
    }
    times.sort_unstable();
    times.windows(2).map(|pair| pair[1] - pair[0]).filter(|difference| *difference > 0).min()
}

#[cfg(test)]
mod tests {
    use niclab_load::{Arrivals, Latency, Rate};
    use niclab_packet::flow::FlowSpec;
    use niclab_packet::size::FrameSizes;

    use super::*;

    /// Due at the 2nd millisecond of a load whose measured part is the 1st to the 3rd.
    fn frame() -> SampledFrame {
        SampledFrame {
            planned_ns: 2_000_000,
            called_ns: 50_000,
            seen_ns: Some(60_000),
            sent_ns: Some(7_000_000_001_000),
            received_ns: Some(7_000_000_009_000),
        }
    }

    fn of(frames: &[SampledFrame]) -> StampedFrames {
        let load = Load {
            flows: FlowSpec::default(),
            sizes: FrameSizes::Fixed(64),
            rate: Rate::Saturate,
            arrivals: Arrivals::Constant,
            duration_ns: 2_000_000,
            warmup_ns: 1_000_000,
            seed: 1,
            trace: None,
        };
        times(frames, &load, TimestampClock::Card)
    }

    fn counts(frames: &[SampledFrame]) -> (u64, u64, u64) {
        let stamped = of(frames);
        assert_eq!(stamped.port.0.len(), stamped.program.0.len());
        (stamped.asked, stamped.port.0.len(), stamped.implausible)
    }

    #[test]
    fn a_frame_has_its_time_from_port_to_port_and_niclabs_beside_it() {
        let stamped = of(&[frame()]);
        let only = |latency: &Latency| (latency.0.min(), latency.0.max());
        assert!((7_990..=8_010).contains(&only(&stamped.port).0), "{stamped:?}");
        assert!((9_990..=10_010).contains(&only(&stamped.program).1), "{stamped:?}");
    }

    #[test]
    fn frames_of_the_warm_up_and_those_without_both_stamps_do_not_count() {
        let early = SampledFrame { planned_ns: 999_999, ..frame() };
        let late = SampledFrame { planned_ns: 3_000_000, ..frame() };
        assert_eq!(counts(&[early, late]), (0, 0, 0));
        let unsent = SampledFrame { sent_ns: None, ..frame() };
        let unstamped = SampledFrame { received_ns: None, ..frame() };
        let lost = SampledFrame { seen_ns: None, received_ns: None, ..frame() };
        assert_eq!(counts(&[unsent, unstamped, lost, frame()]), (4, 1, 0));
    }

    #[test]
    fn stamps_of_a_clock_that_was_set_meanwhile_do_not_count() {
        let step = |ns: i64| SampledFrame {
            received_ns: frame().received_ns.map(|received| received.saturating_add_signed(ns)),
            ..frame()
        };
        assert_eq!(counts(&[step(100_000_000), step(-100_000_000), step(4_000)]), (3, 0, 3));
        // Another clock may run one in a hundred faster, and tell no time at all between two ticks.
        assert_eq!(counts(&[step(3_000), step(-8_000)]), (2, 2, 0));
    }

    #[test]
    fn the_resolution_is_the_smallest_difference_of_enough_times() {
        let ticks = |count: u64| (0..count).map(|tick| 48_000 + 16 * (tick % 7)).collect();
        assert_eq!(resolution_ns(ticks(99)), None);
        assert_eq!(resolution_ns(ticks(100)), Some(16));
        assert_eq!(resolution_ns(vec![5; 200]), None);
    }
}
