//! Generator and sink of the tester's half, on whatever port.

use std::time::Duration;

use niclab_load::clock::Clock;
use niclab_load::drive;
use niclab_load::rings::{BURST, Inlet, MeasuredPart, Outlet};

use super::{ExchangedFrames, MarkedTrips, Marker, MarkerTrip};
use crate::cores::Pinned;
use crate::face::DeviceError;
use crate::pair::{LAST_TURNS_MAX, count_late};
use crate::{Load, LoadObservation};

/// How long a marker is waited for.
const MARKER_MAX: Duration = Duration::from_millis(20);

/// So many markers are sent where none comes back.
const LOST_MAX: u64 = 4;

/// MAC addresses of markers, as those of the load's frames.
const TESTER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const DEVICE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// An exchange takes no further burst after this many bytes of frames, which bounds its answer.
const EXCHANGED_MAX: usize = 1 << 20;

/// The two ends of the tester's port.
pub struct TesterEnds<'a, O, I> {
    /// The generator's.
    pub outlet: &'a mut O,
    /// The sink's.
    pub inlet: &'a mut I,
    /// The core of both.
    pub core: u32,
}

impl<O: Outlet, I: Inlet> TesterEnds<'_, O, I> {
    /// Waits for the beginning of a load, offers it, and takes what comes back. With the time at
    /// which the measured part began, by this host's clock, nanoseconds.
    ///
    /// # Errors
    /// [`DeviceError::BadLoad`]; [`DeviceError::TooLate`] where `start_ns` is over.
    pub fn offer(
        &mut self,
        load: &Load,
        start_ns: u64,
        depth: u32,
    ) -> Result<(LoadObservation, u64), DeviceError> {
        let _pinned = Pinned::to(self.core);
        let mut begun = Begun { start_ns, is_late: false, opened_ns: 0 };
        let driven = drive(load, depth, self.outlet, &mut *self.inlet, &mut begun);
        let mut load = driven.map_err(|e| DeviceError::BadLoad { reason: e.to_string() })?;
        count_late(&mut load, self.inlet);
        if begun.is_late {
            return Err(DeviceError::TooLate);
        }
        Ok((load, begun.opened_ns))
    }

    /// Sends markers, each when the one before is back or lost. `next` is the number of the next.
    /// None of them may come back, for instance where a rule drops all frames: it gives up early
    /// then.
    pub fn mark(&mut self, count: u32, next: &mut u64) -> MarkedTrips {
        let clock = Clock::new();
        let _pinned = Pinned::to(self.core);
        let mut marked = MarkedTrips::default();
        for _ in 0..count {
            if marked.sent >= LOST_MAX && marked.trips.is_empty() {
                break;
            }
            let number = *next;
            *next += 1;
            let sent_ns = clock.now_ns();
            if !self.send(&Marker { number }.frame(DEVICE_MAC, TESTER_MAC)) {
                continue;
            }
            marked.sent += 1;
            let until_ns = sent_ns + MARKER_MAX.as_nanos() as u64;
            let mut received_ns = None;
            while received_ns.is_none() && clock.now_ns() < until_ns {
                self.receive(|frame| {
                    if Marker::of_frame(frame) == Some(Marker { number }) {
                        received_ns = Some(clock.now_ns());
                    }
                });
            }
            let trip = |received_ns| MarkerTrip { number, sent_ns, received_ns };
            marked.trips.extend(received_ns.map(trip));
        }
        marked
    }

    /// Sends frames, and takes those that have come.
    pub fn exchange(&mut self, frames: &[Vec<u8>]) -> ExchangedFrames {
        let sent = frames.iter().take_while(|frame| self.send(frame)).count();
        let (mut received, mut bytes) = (Vec::new(), 0);
        while bytes < EXCHANGED_MAX {
            let before = received.len();
            self.receive(|frame| {
                bytes += frame.len();
                received.push(frame.to_vec());
            });
            if received.len() - before < BURST {
                break;
            }
        }
        ExchangedFrames { sent, received }
    }

    /// Takes away what an earlier trial left behind.
    pub fn drain(&mut self) {
        for _ in 0..LAST_TURNS_MAX {
            let found = self.inlet.poll();
            self.inlet.release();
            if found == 0 {
                break;
            }
        }
    }

    fn send(&mut self, frame: &[u8]) -> bool {
        if self.outlet.reserve(1) == 0 {
            return false;
        }
        let Some(slot) = self.outlet.slot(0).get_mut(..frame.len()) else { return false };
        slot.copy_from_slice(frame);
        self.outlet.commit(&[frame.len() as u16]) == 1
    }

    /// Takes at most a burst.
    fn receive(&mut self, mut take: impl FnMut(&[u8])) {
        for at in 0..self.inlet.poll() {
            take(self.inlet.frame(at));
        }
        self.inlet.release();
    }
}

/// When the load and its measured part began.
struct Begun {
    /// When the load is to begin, nanoseconds.
    start_ns: u64,
    /// That was over before it was prepared.
    is_late: bool,
    opened_ns: u64,
}

impl MeasuredPart for Begun {
    fn start(&mut self, clock: &Clock) -> u64 {
        let now_ns = clock.now_ns();
        self.is_late = now_ns >= self.start_ns;
        if self.is_late {
            return now_ns;
        }
        while clock.now_ns() < self.start_ns {
            std::hint::spin_loop();
        }
        self.start_ns
    }

    fn opened(&mut self, at_ns: u64) {
        self.opened_ns = at_ns;
    }
}

#[cfg(test)]
mod tests {
    use niclab_load::{Arrivals, Rate};
    use niclab_packet::flow::FlowSpec;
    use niclab_packet::size::FrameSizes;

    use super::*;

    /// Takes every frame and gives none back.
    struct Sunk([u8; 2048]);

    impl Outlet for Sunk {
        fn reserve(&mut self, want: usize) -> usize {
            want.min(1)
        }

        fn slot(&mut self, _: usize) -> &mut [u8] {
            &mut self.0
        }

        fn commit(&mut self, lens: &[u16]) -> usize {
            lens.len()
        }
    }

    struct Nothing;

    impl Inlet for Nothing {
        fn poll(&mut self) -> usize {
            0
        }

        fn frame(&self, _: usize) -> &[u8] {
            &[]
        }

        fn release(&mut self) {}
    }

    /// Has a burst of long frames whenever it is asked.
    struct Endless([u8; 9000]);

    impl Inlet for Endless {
        fn poll(&mut self) -> usize {
            BURST
        }

        fn frame(&self, _: usize) -> &[u8] {
            &self.0
        }

        fn release(&mut self) {}
    }

    #[test]
    fn an_exchange_ends_at_its_bound_however_much_comes() {
        let (mut outlet, mut inlet) = (Sunk([0; 2048]), Endless([1; 9000]));
        let mut ends = TesterEnds { outlet: &mut outlet, inlet: &mut inlet, core: 0 };
        let exchanged = ends.exchange(&[vec![2; 60], vec![2; 4096], vec![2; 60]]);
        assert_eq!(exchanged.sent, 1, "one is too long, and ends it");
        let bytes: usize = exchanged.received.iter().map(Vec::len).sum();
        assert!((EXCHANGED_MAX..EXCHANGED_MAX + BURST * 9000).contains(&bytes), "{bytes}");
    }

    fn load(warmup_ns: u64) -> Load {
        Load {
            // It takes milliseconds to prepare a million flows.
            flows: FlowSpec { count: 1_000_000, ..FlowSpec::default() },
            sizes: FrameSizes::Fixed(64),
            rate: Rate::Pps(1000.0),
            arrivals: Arrivals::Constant,
            duration_ns: 1_000_000,
            warmup_ns,
            seed: 1,
            trace: None,
        }
    }

    #[test]
    fn a_load_begins_when_it_was_to_however_long_its_preparation_takes() {
        let (mut outlet, mut inlet) = (Sunk([0; 2048]), Nothing);
        let mut ends = TesterEnds { outlet: &mut outlet, inlet: &mut inlet, core: 0 };
        let start_ns = Clock::new().now_ns() + 3_000_000_000;
        let (_, opened_ns) = ends.offer(&load(500_000), start_ns, 64).unwrap();
        assert_eq!(opened_ns, start_ns + 500_000);
        let late = ends.offer(&load(0), Clock::new().now_ns() + 1, 64);
        assert_eq!(late.map(drop), Err(DeviceError::TooLate));
    }
}
