//! Time stamps of some frames of a load at the tester's interface.
//!
//! About a thousand frames a second are sent with a request for a stamp: a card may have room for
//! one at a time. They are frames of the load as all others are. Their stamps come later, by the
//! error queue of the socket that sent them, with a copy of the frame; received frames have theirs
//! in the ring. Both are laid side by side when the load is over.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use niclab_load::clock::Clock;
use niclab_load::stamp::Stamp;
use niclab_load::{Latency, Load, StampedFrames};
use niclab_port::packet::{RxRing, StampClock, TxRing};

/// Time from one request to the next, nanoseconds.
const EVERY_NS: u64 = 1_000_000;

/// Frames that may be on their way at once. Beyond that, the oldest is given up.
const ON_THE_WAY_MAX: usize = 64;

/// Frames of one load that are kept: an hour of them.
const KEPT_MAX: usize = 3_600_000;

/// Longest Ethernet frame that a stamp is read from, bytes.
const COPY_LEN: usize = 1 << 16;

/// How long the last stamps are waited for.
const WAIT: Duration = Duration::from_millis(20);

/// The stamps of one port. Its two rings share it.
pub(super) struct PortStamps {
    clock: StampClock,
    time: Clock,
    /// Frames whose return is waited for: while there are none, no received frame is looked at.
    on_the_way: AtomicUsize,
    sampled: Mutex<Sampled>,
}

/// What is known of the sampled frames.
#[derive(Default)]
struct Sampled {
    frames: HashMap<FrameId, SampledFrame>,
    /// Those that have not come back yet, the oldest first.
    on_the_way: Vec<FrameId>,
    asked_ns: u64,
    cost_ns: u64,
    asked: u64,
    /// What the socket said against it.
    failed: Option<io::Error>,
    copy: Vec<u8>,
}

/// Flow and sequence number of a frame.
type FrameId = (u32, u32);

/// Times of a frame, nanoseconds.
#[derive(Clone, Copy, Default)]
struct SampledFrame {
    /// When it was due, from the start of the load.
    planned_ns: u64,
    /// niclab's clock before the call that sent it, and when it was back.
    called_ns: u64,
    seen_ns: Option<u64>,
    /// Its stamps.
    sent_ns: Option<u64>,
    received_ns: Option<u64>,
}

fn id_of(stamp: &Stamp) -> FrameId {
    (stamp.flow, stamp.sequence)
}

impl PortStamps {
    /// Has received frames of a ring stamped from now on.
    pub(super) fn new(clock: StampClock, rx: &RxRing) -> io::Result<Arc<PortStamps>> {
        rx.stamp_by(clock)?;
        Ok(Arc::new(PortStamps {
            clock,
            time: Clock::new(),
            on_the_way: AtomicUsize::new(0),
            sampled: Mutex::default(),
        }))
    }

    fn sampled(&self) -> MutexGuard<'_, Sampled> {
        self.sampled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all frames.
    pub(super) fn begin(&self) {
        *self.sampled() = Sampled { copy: vec![0; COPY_LEN], ..Sampled::default() };
        self.on_the_way.store(0, Ordering::Relaxed);
    }

    /// Sends the reserved slots, as [`TxRing::commit`] does; where it is time, the first of them
    /// with a request for a stamp.
    pub(super) fn commit(&self, tx: &mut TxRing, lens: &[u16]) -> usize {
        let begun_ns = self.time.now_ns();
        let Some((first, rest)) = lens.split_first() else { return tx.commit(lens) };
        let mut sampled = self.sampled();
        let is_due = begun_ns.saturating_sub(sampled.asked_ns) >= EVERY_NS;
        if !is_due || sampled.failed.is_some() || sampled.frames.len() >= KEPT_MAX {
            return tx.commit(lens);
        }
        sampled.take_sent(tx, self.clock);
        let len = usize::from(*first);
        let Some(stamp) = tx.slot(0).get(..len).and_then(Stamp::of_frame) else {
            return tx.commit(lens);
        };
        // Before it is sent: it may be back at once.
        let called_ns = self.time.now_ns();
        let frame = SampledFrame { planned_ns: stamp.planned_ns, called_ns, ..Default::default() };
        sampled.enter(id_of(&stamp), frame);
        self.on_the_way.store(sampled.on_the_way.len(), Ordering::Relaxed);
        let left = match tx.commit_stamped(*first, self.clock) {
            Ok(left) => left,
            Err(e) => {
                sampled.failed = Some(e);
                false
            }
        };
        sampled.asked_ns = begun_ns;
        sampled.cost_ns += self.time.now_ns().saturating_sub(begun_ns);
        if !left {
            sampled.withdraw(&id_of(&stamp));
            return 0;
        }
        drop(sampled);
        // The slots behind it are filled, and lie behind the new head.
        let free = tx.reserve(rest.len()).min(rest.len());
        1 + tx.commit(&rest[..free])
    }

    /// Looks whether sampled frames are among those that were polled.
    pub(super) fn look(&self, rx: &RxRing, found: usize) {
        if self.on_the_way.load(Ordering::Relaxed) == 0 {
            return;
        }
        let seen_ns = self.time.now_ns();
        let mut sampled = self.sampled();
        for at in 0..found {
            if let Some(stamp) = Stamp::of_frame(rx.frame(at)) {
                sampled.receive(&id_of(&stamp), seen_ns, rx.stamp_ns(at));
            }
        }
        self.on_the_way.store(sampled.on_the_way.len(), Ordering::Relaxed);
    }

    /// The times of the measured part of a load that is over.
    ///
    /// # Errors
    /// Of the socket.
    pub(super) fn end(&self, tx: &mut TxRing, load: &Load) -> io::Result<StampedFrames> {
        let until_ns = self.time.now_ns() + WAIT.as_nanos() as u64;
        let mut sampled = self.sampled();
        loop {
            sampled.take_sent(tx, self.clock);
            let is_whole = sampled.frames.values().all(|frame| frame.sent_ns.is_some());
            if is_whole || sampled.failed.is_some() || self.time.now_ns() > until_ns {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        if let Some(error) = sampled.failed.take() {
            return Err(error);
        }
        Ok(sampled.times(load, self.clock))
    }
}

impl Sampled {
    fn enter(&mut self, id: FrameId, frame: SampledFrame) {
        self.asked += 1;
        self.frames.insert(id, frame);
        if self.on_the_way.len() >= ON_THE_WAY_MAX {
            self.on_the_way.remove(0);
        }
        self.on_the_way.push(id);
    }

    fn withdraw(&mut self, id: &FrameId) {
        self.asked -= 1;
        self.frames.remove(id);
        self.on_the_way.retain(|other| other != id);
    }

    fn receive(&mut self, id: &FrameId, seen_ns: u64, received_ns: Option<u64>) {
        let Some(at) = self.on_the_way.iter().position(|other| other == id) else { return };
        self.on_the_way.remove(at);
        if let Some(frame) = self.frames.get_mut(id) {
            (frame.seen_ns, frame.received_ns) = (Some(seen_ns), received_ns);
        }
    }

    /// Takes the stamps of sent frames that are there.
    fn take_sent(&mut self, tx: &mut TxRing, clock: StampClock) {
        for _ in 0..ON_THE_WAY_MAX {
            match tx.take_stamp(&mut self.copy, clock) {
                Ok(Some(sent)) => {
                    let stamp = self.copy.get(..sent.len).and_then(Stamp::of_frame);
                    if let Some(frame) = stamp.and_then(|s| self.frames.get_mut(&id_of(&s))) {
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

    fn times(&self, load: &Load, clock: StampClock) -> StampedFrames {
        let (mut port, mut program, mut step_ns) = (Latency::new(), Latency::new(), 0);
        let measured = load.warmup_ns..load.warmup_ns + load.duration_ns;
        let frames = self.frames.values().filter(|frame| measured.contains(&frame.planned_ns));
        let mut asked = 0;
        for frame in frames {
            asked += 1;
            let SampledFrame { called_ns, seen_ns, sent_ns, received_ns, .. } = *frame;
            let (Some(seen), Some(sent), Some(received)) = (seen_ns, sent_ns, received_ns) else {
                continue;
            };
            // A clock that was set meanwhile tells nothing.
            let Some(took_ns) = received.checked_sub(sent).filter(|took| *took > 0) else {
                continue;
            };
            step_ns = gcd(step_ns, took_ns);
            port.record(took_ns);
            program.record(seen.saturating_sub(called_ns));
        }
        StampedFrames {
            by: match clock {
                StampClock::Card => niclab_load::StampClock::Card,
                StampClock::Kernel => niclab_load::StampClock::Kernel,
            },
            asked,
            port,
            program,
            resolution_ns: step_ns,
            cost_ns: self.cost_ns / self.asked.max(1),
        }
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_of_a_clock_is_what_all_times_are_multiples_of() {
        assert_eq!([48, 80, 1_600].into_iter().fold(0, gcd), 16);
        assert_eq!([7, 11].into_iter().fold(0, gcd), 1);
        assert_eq!(gcd(0, 5), 5);
    }

    #[test]
    fn frames_that_never_come_back_are_given_up() {
        let mut sampled = Sampled::default();
        for number in 0..100 {
            sampled.enter((0, number), SampledFrame::default());
        }
        assert_eq!(sampled.on_the_way.len(), ON_THE_WAY_MAX);
        sampled.receive(&(0, 1), 5, Some(4));
        assert_eq!(sampled.frames[&(0, 1)].received_ns, None, "it was given up");
        sampled.receive(&(0, 99), 5, Some(4));
        assert_eq!(sampled.frames[&(0, 99)].received_ns, Some(4));
        sampled.withdraw(&(0, 98));
        assert_eq!((sampled.asked, sampled.on_the_way.len()), (99, ON_THE_WAY_MAX - 2));
    }
}
