//! Frames go to the core of their queue: at once, or when those of their flow have left.

use niclab_nic::memory::Desc;
use niclab_port::Burst;

use super::Engine;
use super::function::{apply_function, output_port};
use crate::port_context::PortContext;

impl Engine {
    /// Keeps a frame until those of its flow that came before are completed.
    #[cold]
    pub(super) fn hold(&mut self, port: usize, desc: Desc) {
        let context = &mut self.contexts[port];
        if let Some(desc) = context.migration.hold(desc) {
            context.tally.held_drops += 1;
            self.pool.give(desc);
        }
    }

    /// The core that has the queue of a frame.
    #[inline]
    pub(super) fn core_of(&self, desc: &Desc) -> usize {
        usize::from(desc.queue) % self.bound.len()
    }

    /// Gives the frames of a burst to the cores of their queues, as far as there is room.
    pub(super) fn dispatch(&mut self, port: usize) {
        for (core, bound) in self.bound.iter_mut().enumerate() {
            let PortContext { migration: moving, tally: observed, .. } = &mut self.contexts[port];
            bound.iter().for_each(|desc| observed.queues[usize::from(desc.queue)].add(desc));
            if core == self.place {
                moving.count_dispatched(core, bound.len());
                self.completed.take(core, port, bound.len());
                self.frames += bound.len() as u64;
                let (contexts, external_queues) = (&mut self.contexts, &mut self.external_queues);
                apply_function(
                    contexts,
                    external_queues,
                    &mut self.pool,
                    &mut self.service,
                    port,
                    bound,
                );
                continue;
            }
            let given = self.inter_core[port].send(core, bound);
            self.cores_to_wake[core] |= given > 0;
            moving.count_dispatched(core, given);
            for desc in bound.drain(..) {
                observed.queues[usize::from(desc.queue)].undo_add(&desc);
                self.pool.give(desc);
            }
        }
    }

    /// Gives a frame that was held to the core of its queue; back where there is no room.
    pub(super) fn dispatch_one(&mut self, port: usize, desc: Desc) -> Option<Desc> {
        let (core, queue) = (self.core_of(&desc), usize::from(desc.queue));
        let mut observed = self.contexts[port].tally.queues[queue];
        observed.add(&desc);
        if core == self.place {
            self.completed.take(core, port, 1);
            self.frames += 1;
            let (contexts, external_queues) = (&mut self.contexts, &mut self.external_queues);
            let mut one = Burst::from_iter([desc]);
            apply_function(
                contexts,
                external_queues,
                &mut self.pool,
                &mut self.service,
                port,
                &mut one,
            );
        } else if let Some(desc) = self.inter_core[port].send_one(core, desc) {
            return Some(desc);
        }
        self.cores_to_wake[core] |= core != self.place;
        let context = &mut self.contexts[port];
        context.migration.count_dispatched(core, 1);
        context.tally.queues[queue] = observed;
        None
    }

    /// Gives on the frames of flows that move, once what came before them is completed; whether
    /// there was any.
    #[cold]
    pub(super) fn dispatch_held(&mut self, port: usize) -> bool {
        self.contexts[port].migration.poll();
        let mut is_busy = false;
        while self.contexts[port].migration.is_releasing() {
            let Some(desc) = self.contexts[port].migration.next() else {
                self.contexts[port].publish_rss_state();
                break;
            };
            let is_own = self.core_of(&desc) == self.place;
            let waits =
                match is_own && self.contexts[output_port(port, self.contexts.len())].is_full() {
                    true => Some(desc),
                    false => self.dispatch_one(port, desc),
                };
            if let Some(desc) = waits {
                self.contexts[port].migration.put_back(desc);
                break;
            }
            is_busy = true;
        }
        is_busy
    }

    /// Says what was completed of what this core was given.
    pub(super) fn publish_completed(&mut self) {
        let contexts = &self.contexts;
        self.completed.publish(&self.progress, |port| {
            contexts[output_port(port, contexts.len())].transmit.own_frames()
        });
    }

    /// Takes what other cores have handed over; whether there was any.
    pub(super) fn receive_from_cores(&mut self, burst: &mut Burst) -> bool {
        let mut is_busy = false;
        for (port, rings) in self.inter_core.iter_mut().enumerate() {
            for core in 0..self.bound.len() {
                is_busy |= rings.receive(core, self.pool.region(), burst);
                self.completed.take(core, port, burst.len());
                self.frames += burst.len() as u64;
                let (contexts, external_queues) = (&mut self.contexts, &mut self.external_queues);
                apply_function(
                    contexts,
                    external_queues,
                    &mut self.pool,
                    &mut self.service,
                    port,
                    burst,
                );
            }
        }
        is_busy
    }
}
