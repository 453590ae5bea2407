//! The forwarding function on an interface: swap the MAC addresses, send back.

use niclab_apps::forward::swap_macs;
use niclab_load::PortCounters;
use niclab_load::lane::{BURST, Inlet, Outlet};
use niclab_packet::size::FCS_LEN;

use super::ring::{RxRing, TxRing};
use crate::pair::Side;

/// The function, on the rings of the interface under test.
pub struct Forward {
    /// What the interface receives.
    pub rx: RxRing,
    /// What it sends.
    pub tx: TxRing,
}

impl Side for Forward {
    // One frame through `send` and the receiver's soft interrupt takes 1 to 2 us here.
    const FRAME_NS: u64 = 3_000;

    fn turn(&mut self, counters: &mut PortCounters) -> usize {
        let found = self.rx.poll();
        if found == 0 {
            return 0;
        }
        let room = self.tx.reserve(found);
        let mut lens = [0; BURST];
        let queue = &mut counters.queues[0];
        for (i, len) in lens.iter_mut().enumerate().take(found) {
            let frame = self.rx.frame(i);
            queue.rx_frames += 1;
            queue.rx_bytes += frame.len() as u64 + u64::from(FCS_LEN);
            if i < room {
                *len = swap_into(frame, self.tx.slot(i));
            }
        }
        self.rx.release();
        let sent = self.tx.commit(&lens[..room]);
        let bytes: u64 = lens[..sent].iter().map(|&len| u64::from(len + FCS_LEN)).sum();
        queue.tx_frames += sent as u64;
        queue.tx_bytes += bytes;
        counters.tx_dropped += (found - sent) as u64;
        found
    }

    fn missed(&mut self) -> u64 {
        // The counter can be read as long as the socket is open, which it is.
        self.rx.counters().map_or(0, |counters| counters.dropped)
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
