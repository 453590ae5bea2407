//! The device's stages: the NIC inline with the network function, or each on a core of its own.

use std::sync::Arc;

use niclab_apps::forward::swap_macs;
use niclab_load::PortCounters;
use niclab_nic::Worker;
use niclab_nic::limits::BURST;
use niclab_nic::memory::Region;
use niclab_packet::size::FCS_LEN;
use niclab_port::queues::{FunctionSide, NicSide};
use niclab_port::wire::{Burst, Near};

use crate::pair::{Beside, LAST_TURNS_MAX, Side};

use super::asking::Asker;
use super::control::Carrier;

/// The NIC's end of the wire with what decides about its frames.
pub(super) struct Nic<'a> {
    worker: &'a mut Worker,
    near: Near,
    queues: u16,
    burst: Burst,
    out: Burst,
}

impl<'a> Nic<'a> {
    pub(super) fn new(worker: &'a mut Worker, near: Near, queues: u16) -> Nic<'a> {
        Nic { worker, near, queues, burst: Burst::new(), out: Burst::new() }
    }

    /// Takes a burst from the wire and decides about it; how many frames it had, and which of those
    /// that are left are to be discarded.
    #[inline]
    fn classify(&mut self, counters: &mut PortCounters) -> (usize, u64) {
        self.near.receive(&mut self.burst);
        let region = self.near.region();
        self.burst.iter().for_each(|desc| region.prefetch(desc));
        // An empty burst too: the worker says with each that it holds nothing of an earlier one,
        // and what rules have given up is kept until then.
        let dropped = self.worker.classify(region, &mut self.burst);
        let found = self.burst.len();
        (found, if dropped == 0 { 0 } else { self.turn_back(dropped, counters) })
    }

    /// Sends the frames of a mask that are to leave by the port as they are; which of the others
    /// are to be discarded. A port is no queue: they count as queue 0's.
    #[cold]
    fn turn_back(&mut self, mask: u64, counters: &mut PortCounters) -> u64 {
        let mut dropped = 0;
        for (i, desc) in std::mem::take(&mut self.burst).into_iter().enumerate() {
            if mask >> i & 1 == 1 && desc.port().is_some() {
                let bytes = u64::from(desc.len() + FCS_LEN);
                let queue = &mut counters.queues[0];
                (queue.rx_frames, queue.rx_bytes) = (queue.rx_frames + 1, queue.rx_bytes + bytes);
                (queue.tx_frames, queue.tx_bytes) = (queue.tx_frames + 1, queue.tx_bytes + bytes);
                self.out.push(desc);
            } else {
                dropped |= (mask >> i & 1) << self.burst.len();
                self.burst.push(desc);
            }
        }
        self.near.send(&mut self.out);
        dropped
    }

    /// Gives the frames of a mask back, as a rule said; the order of the rest stays.
    #[cold]
    fn discard(&mut self, mask: u64, counters: &mut PortCounters) {
        for (i, desc) in std::mem::take(&mut self.burst).into_iter().enumerate() {
            match mask >> i & 1 {
                1 => self.out.push(desc),
                _ => self.burst.push(desc),
            }
        }
        counters.rule_drops += self.out.len() as u64;
        self.near.discard(&mut self.out);
    }
}

impl Drop for Nic<'_> {
    fn drop(&mut self) {
        self.worker.offline();
    }
}

/// Swaps the addresses of a burst's frames and counts them as received.
#[inline]
fn swap(region: &Region, burst: &mut Burst, counters: &mut PortCounters) {
    let queues = counters.queues.as_mut_slice();
    for desc in burst {
        let queue = &mut queues[usize::from(desc.queue)];
        queue.rx_frames += 1;
        queue.rx_bytes += u64::from(desc.len() + FCS_LEN);
        swap_macs(region.frame_mut(desc));
    }
}

/// Counts the frames of a burst as sent.
#[inline]
fn count_sent(burst: &Burst, counters: &mut PortCounters) {
    let queues = counters.queues.as_mut_slice();
    for desc in burst {
        let queue = &mut queues[usize::from(desc.queue)];
        queue.tx_frames += 1;
        queue.tx_bytes += u64::from(desc.len() + FCS_LEN);
    }
}

/// Placement `inline`: burst in, decide, swap, burst out.
pub(super) struct Inline<'a, 'b> {
    nic: Nic<'a>,
    /// A plan that this core carries out between bursts.
    control: Option<&'a mut Carrier<'b>>,
    /// A plan that this core asks another one to carry out.
    asker: Option<Asker>,
    /// Whole bursts that went before operations.
    passed: u32,
}

/// Whole bursts in a row that go before operations: packets come first, but under a load that never
/// leaves a burst open operations are to come to their end as well.
const PASSED_MAX: u32 = 16;

impl<'a, 'b> Inline<'a, 'b> {
    pub(super) fn new(
        nic: Nic<'a>,
        control: Option<&'a mut Carrier<'b>>,
        asker: Option<Asker>,
    ) -> Inline<'a, 'b> {
        Inline { nic, control, asker, passed: 0 }
    }

    fn packets(&mut self, counters: &mut PortCounters) -> usize {
        let nic = &mut self.nic;
        let (found, dropped) = nic.classify(counters);
        if found == 0 {
            std::hint::spin_loop();
            return 0;
        }
        swap(nic.near.region(), &mut nic.burst, counters);
        if dropped != 0 {
            nic.discard(dropped, counters);
        }
        count_sent(&nic.burst, counters);
        nic.near.send(&mut nic.burst);
        found
    }
}

impl Side for Inline<'_, '_> {
    // Most bursts of 64 take a few microseconds, but a chain of 16 groups took 260 ns a frame on a
    // Zen 3: with nothing allowed for it every turn was a stall, and the device idle.
    const FRAME_NS: u64 = 500;

    fn queues(&self) -> u16 {
        self.nic.queues
    }

    fn start(&mut self) {
        self.nic.worker.online();
    }

    #[inline]
    fn turn(&mut self, counters: &mut PortCounters) -> usize {
        let found = self.packets(counters);
        if let Some(asker) = &mut self.asker {
            asker.turn();
        }
        if let Some(control) = &mut self.control {
            let is_full = found == BURST && self.passed < PASSED_MAX;
            let waits = is_full && !control.is_behind();
            self.passed = if waits { self.passed + 1 } else { 0 };
            if waits {
                control.pass();
            } else {
                control.turn();
            }
        }
        found
    }

    fn last(&mut self, counters: &mut PortCounters) {
        for _ in 0..LAST_TURNS_MAX {
            if self.packets(counters) == 0 {
                break;
            }
        }
    }

    fn opened(&mut self, at_ns: u64) {
        if let Some(control) = &mut self.control {
            control.opened(at_ns);
        }
        if let Some(asker) = &mut self.asker {
            asker.opened(at_ns);
        }
    }

    #[inline]
    fn other_ns(&self) -> u64 {
        self.control.as_ref().map_or(0, |control| control.turn_ns())
    }
}

/// Placement `engine`, the NIC's core: from the wire to the queues, from the function to the wire.
pub(super) struct Engine<'a> {
    nic: Nic<'a>,
    side: NicSide,
    /// Frames that found the ring of their queue full, since the last call.
    missed: u64,
}

impl<'a> Engine<'a> {
    pub(super) fn new(nic: Nic<'a>, side: NicSide) -> Engine<'a> {
        Engine { nic, side, missed: 0 }
    }

    /// A burst from the wire; how many frames it had. What the queues take the function counts.
    #[inline]
    fn receive(&mut self, counters: &mut PortCounters) -> usize {
        let nic = &mut self.nic;
        let (found, dropped) = nic.classify(counters);
        if dropped != 0 {
            let queues = counters.queues.as_mut_slice();
            for (_, desc) in nic.burst.iter().enumerate().filter(|(i, _)| dropped >> i & 1 == 1) {
                let queue = &mut queues[usize::from(desc.queue)];
                queue.rx_frames += 1;
                queue.rx_bytes += u64::from(desc.len() + FCS_LEN);
            }
            nic.discard(dropped, counters);
        }
        self.side.deliver(&mut nic.burst, &mut nic.out);
        if !nic.out.is_empty() {
            self.miss(counters);
        }
        found
    }

    /// Counts what the queues refused, and gives it back.
    #[cold]
    fn miss(&mut self, counters: &mut PortCounters) {
        for desc in &self.nic.out {
            counters.queues[usize::from(desc.queue)].rx_missed += 1;
        }
        self.missed += self.nic.out.len() as u64;
        self.nic.near.discard(&mut self.nic.out);
    }

    /// A burst to the wire; how many frames it had.
    #[inline]
    fn transmit(&mut self) -> usize {
        self.side.collect(&mut self.nic.out);
        self.nic.near.send(&mut self.nic.out)
    }
}

impl Side for Engine<'_> {
    // As inline.
    const FRAME_NS: u64 = 500;

    fn queues(&self) -> u16 {
        self.nic.queues
    }

    fn start(&mut self) {
        self.nic.worker.online();
    }

    #[inline]
    fn turn(&mut self, counters: &mut PortCounters) -> usize {
        let moved = self.receive(counters) + self.transmit();
        if moved == 0 {
            std::hint::spin_loop();
        }
        moved
    }

    fn last(&mut self, counters: &mut PortCounters) {
        while self.receive(counters) > 0 {}
        self.side.close();
        loop {
            let last = self.side.is_last();
            if self.transmit() == 0 && last {
                break;
            }
        }
    }

    fn missed(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }
}

/// Placement `engine`, the function's core: from the queues, swap, to the transmit ring.
pub(super) struct Function {
    region: Arc<Region>,
    side: FunctionSide,
    queues: u16,
    burst: Burst,
}

impl Function {
    pub(super) fn new(region: Arc<Region>, side: FunctionSide, queues: u16) -> Function {
        Function { region, side, queues, burst: Burst::new() }
    }
}

impl Side for Function {
    // A burst of 64 takes a microsecond.
    const FRAME_NS: u64 = 0;

    fn queues(&self) -> u16 {
        self.queues
    }

    #[inline]
    fn turn(&mut self, counters: &mut PortCounters) -> usize {
        self.side.receive(&mut self.burst);
        let found = self.burst.len();
        if found == 0 {
            std::hint::spin_loop();
            return 0;
        }
        self.burst.iter().for_each(|desc| self.region.prefetch(desc));
        swap(&self.region, &mut self.burst, counters);
        count_sent(&self.burst, counters);
        self.side.send(&mut self.burst);
        found
    }

    fn last(&mut self, counters: &mut PortCounters) {
        loop {
            let last = self.side.is_last();
            if self.turn(counters) == 0 && last {
                break;
            }
        }
    }
}
