//! Classifies the frames of a burst: by rules and RSS, or by a program.

use niclab_nic::limits::INDIRECTION_LEN;
use niclab_nic::memory::Desc;
use niclab_port::Burst;
use niclab_program::Fate;

use super::Engine;
use crate::program_instance::ProgramInstance;

impl Engine {
    /// Takes a burst of a port, has its rules decide, and hands each frame on.
    pub(super) fn receive(&mut self, port: usize, burst: &mut Burst) -> bool {
        let context = &mut self.contexts[port];
        if context.queue_pair.is_none() {
            let Ok(queue_pair) = context.queue_pairs.pop() else { return false };
            context.queue_pair = Some(queue_pair);
        }
        let Some(queue_pair) = &mut context.queue_pair else { return false };
        let result = queue_pair.receive(&mut self.pool, burst);
        context.handle_result(result, &mut self.pool);
        if burst.is_empty() {
            return false;
        }
        self.received += burst.len();
        context.worker.set_time_ns(self.now_ns);
        if let Some(tap) = &mut context.capture {
            burst.iter().for_each(|desc| tap.take(self.pool.region().frame(desc)));
        }
        if let Some(host) = &mut self.host {
            host.take(port, burst, &mut self.pool);
        }
        if self.program.instance.is_some() {
            self.run_program(port, burst);
            return true;
        }
        let context = &mut self.contexts[port];
        let decided = context.worker.classify(self.pool.region(), burst);
        if context.update_rss() {
            self.cores_to_wake.fill(true);
        }
        let spread = context.worker.port_rss_packets();
        let moves = if context.migration.is_idle() { 0 } else { spread };
        if decided | moves == 0 && self.bound.len() == 1 {
            // All of them are this core's.
            let entries = &mut self.contexts[port].tally.entries;
            let is_spread = |(i, _): &(usize, &Desc)| spread & 1 << i != 0;
            let by_port = burst.iter().enumerate().filter(is_spread);
            by_port.for_each(|(_, desc)| entries[desc.hash as usize % INDIRECTION_LEN] += 1);
            std::mem::swap(burst, &mut self.bound[0]);
        }
        for (i, desc) in burst.drain(..).enumerate() {
            if decided & 1 << i != 0 {
                match desc.port() {
                    Some(to) => self.contexts[usize::from(to)].transmit(desc, &mut self.pool),
                    None => {
                        self.contexts[port].tally.rule_drops += 1;
                        self.pool.give(desc);
                    }
                }
                continue;
            }
            if spread & 1 << i != 0 {
                self.contexts[port].tally.entries[desc.hash as usize % INDIRECTION_LEN] += 1;
            }
            match moves & 1 << i != 0 && self.contexts[port].migration.must_wait(&desc) {
                true => self.hold(port, desc),
                false => {
                    let core = self.core_of(&desc);
                    self.bound[core].push(desc);
                }
            }
        }
        self.dispatch(port);
        true
    }

    /// Has the program decide about a burst of a port.
    fn run_program(&mut self, port: usize, burst: &mut Burst) {
        let Some(mut instance) = self.program.instance.take() else { return };
        self.classify_by_program(&mut instance, port, burst);
        let filled = instance.worker.take_filled();
        if filled != 0 && self.service.is_some() {
            // Of the card's own program the ring of a number is read by the core of this number.
            let cores = self.cores_to_wake.len();
            (0..64).filter(|ring| filled >> ring & 1 == 1).for_each(|ring| {
                self.cores_to_wake[ring % cores] |= ring % cores != self.place;
            });
        }
        self.dispatch(port);
        let [drops, unfit, outside, ring_full, no_way, reported] = instance.lost.take();
        let observed = &mut self.contexts[port].tally;
        observed.program_drops += drops + no_way;
        observed.program_reported += reported;
        observed.program_faults += unfit + outside;
        observed.program_ring_full += ring_full;
        self.program.instance = Some(instance);
    }

    /// Has a program decide about a burst of a port, and sends each frame on, but for those that go
    /// to queues: they are put by for the cores that have them.
    pub(super) fn classify_by_program(
        &mut self,
        instance: &mut ProgramInstance,
        port: usize,
        burst: &mut Burst,
    ) {
        instance.worker.set_time_ns(self.now_ns);
        instance.run(port, burst, &mut self.pool);
        for (to, missed) in instance.missed.iter_mut().enumerate() {
            self.contexts[to].tally.tx_dropped += std::mem::take(missed);
        }
        for (to, desc) in instance.copies.drain(..) {
            self.contexts[to].transmit(desc, &mut self.pool);
        }
        for (i, mut desc) in burst.drain(..).enumerate() {
            match instance.fate(i) {
                Fate::Port(to) if instance.outputs.has_port(to) => {
                    self.contexts[to as usize].transmit(desc, &mut self.pool);
                }
                Fate::Queue(queue) if instance.outputs.has_queue(queue) => {
                    desc.queue = queue as u16;
                    let core = usize::from(desc.queue) % self.bound.len();
                    self.bound[core].push(desc);
                }
                Fate::Back => self.contexts[port].transmit(desc, &mut self.pool),
                fate => {
                    instance.lost.add(fate);
                    self.pool.give(desc);
                }
            }
        }
    }
}
