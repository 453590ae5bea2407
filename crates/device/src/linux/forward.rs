//! The forwarding function on an interface: swap the MAC addresses, send back.

use niclab_apps::forward::swap_macs;
use niclab_load::rings::{BURST, Inlet, Outlet};
use niclab_load::{PortCounters, QueueCounters};
use niclab_packet::size::FCS_LEN;

use super::ring::{RxRing, TxRing};
use crate::pair::{DeviceSide, LAST_TURNS_MAX, ShowFrame};
use crate::rule_case::{FrameExit, FrameMark};
use crate::rule_port::TakeFrame;

/// The time per frame in a turn that is no stall yet, nanoseconds.
pub const FRAME_NS: u64 = 3_000;

/// The function, on the rings of the interface under test.
pub struct Forward {
    /// The receive rings: one for each queue, and where there are more, those of queue 0 on again.
    pub rx: Vec<RxRing>,
    queues: usize,
    /// The transmit ring.
    pub tx: TxRing,
    /// Frames that found no room, a number for each ring, since the trial began.
    missed: Vec<u64>,
    /// Of them, those that nobody was told of.
    untold: u64,
}

impl Forward {
    /// The function on these rings of so many queues.
    pub fn new(rx: Vec<RxRing>, queues: usize, tx: TxRing) -> Forward {
        let missed = vec![0; rx.len()];
        Forward { rx, queues, tx, missed, untold: 0 }
    }

    /// Takes up to a burst from each ring, and sends none of it back.
    pub fn take_frames(&mut self, take: &mut TakeFrame<'_>) {
        for (at, rx) in self.rx.iter_mut().enumerate() {
            let queue = FrameExit::Queue((at % self.queues) as u16);
            for frame in 0..rx.poll() {
                take(queue, rx.frame(frame), FrameMark::Unknown);
            }
            rx.release();
        }
    }

    /// Takes up to a burst from one ring and sends it back.
    #[inline]
    fn serve(&mut self, ring: usize, counters: &mut PortCounters) -> usize {
        let found = self.rx[ring].poll();
        if found == 0 {
            return 0;
        }
        self.send_back(ring, found, counters)
    }

    /// Sends the frames back that one ring was found to have.
    #[inline]
    fn send_back(&mut self, ring: usize, found: usize, counters: &mut PortCounters) -> usize {
        let rx = &mut self.rx[ring];
        let room = self.tx.reserve(found);
        let mut lens = [0; BURST];
        let counted = &mut counters.queues[ring % self.queues];
        for (i, len) in lens.iter_mut().enumerate().take(found) {
            let frame = rx.frame(i);
            counted.rx_frames += 1;
            counted.rx_bytes += frame.len() as u64 + u64::from(FCS_LEN);
            if i < room {
                *len = swap_into(frame, self.tx.slot(i));
            }
        }
        rx.release();
        let sent = self.tx.commit(&lens[..room]);
        let bytes: u64 = lens[..sent].iter().map(|&len| u64::from(len + FCS_LEN)).sum();
        counted.tx_frames += sent as u64;
        counted.tx_bytes += bytes;
        counters.tx_dropped += (found - sent) as u64;
        found
    }

    fn count_missed(&mut self) {
        for (rx, missed) in self.rx.iter_mut().zip(&mut self.missed) {
            // The counter can be read as long as the socket is open, which it is.
            let more = rx.counters().map_or(0, |counters| counters.dropped);
            *missed += more;
            self.untold += more;
        }
    }
}

impl DeviceSide for Forward {
    // One frame through `send` and the receiver's soft interrupt takes 1 to 2 us here.
    fn frame_ns(&self) -> u64 {
        FRAME_NS
    }

    fn queues(&self) -> u16 {
        self.queues as u16
    }

    fn start(&mut self) {
        self.missed.fill(0);
    }

    fn turn(&mut self, counters: &mut PortCounters) -> usize {
        (0..self.rx.len()).map(|ring| self.serve(ring, counters)).sum()
    }

    fn turn_shown(&mut self, show: &mut ShowFrame<'_>) -> usize {
        let mut uncounted = PortCounters {
            queues: vec![QueueCounters::default(); self.queues],
            ..PortCounters::default()
        };
        let mut all = 0;
        for ring in 0..self.rx.len() {
            let found = self.rx[ring].poll();
            for at in 0..found {
                show(self.rx[ring].frame(at));
            }
            if found > 0 {
                all += self.send_back(ring, found, &mut uncounted);
            }
        }
        all
    }

    fn last(&mut self, counters: &mut PortCounters) {
        for _ in 0..LAST_TURNS_MAX {
            if self.turn(counters) == 0 {
                break;
            }
        }
        self.count_missed();
        for (at, queue) in counters.queues.iter_mut().enumerate() {
            queue.rx_missed = self.missed.iter().skip(at).step_by(self.queues).sum();
        }
    }

    fn missed(&mut self) -> u64 {
        self.count_missed();
        std::mem::take(&mut self.untold)
    }
}

/// Copies a frame with its MAC addresses exchanged; returns its length.
fn swap_into(frame: &[u8], slot: &mut [u8]) -> u16 {
    let len = frame.len().min(slot.len());
    let slot = &mut slot[..len];
    slot.copy_from_slice(&frame[..len]);
    swap_macs(slot);
    len as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_change_places_and_the_rest_stays() {
        let frame: Vec<u8> = (0..60).collect();
        let mut slot = [0xff; 128];
        assert_eq!(swap_into(&frame, &mut slot), 60);
        assert_eq!(slot[..12], [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5]);
        assert_eq!(slot[12..60], frame[12..]);
        assert_eq!(slot[60], 0xff);
    }

    #[test]
    fn a_stub_of_a_frame_does_not_panic() {
        assert_eq!(swap_into(&[1; 5], &mut [0; 8]), 5);
        assert_eq!(swap_into(&[], &mut [0; 8]), 0);
    }
}
