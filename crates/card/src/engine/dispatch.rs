//! Frames go to the core of their queue: at once, or when those of their flow have left.

use niclab_nic::memory::Desc;
use niclab_port::Burst;

use super::Engine;
use super::function::{way_out, work_on};
use crate::port_context::PortContext;

impl Engine {
    /// Keeps a frame until those of its flow that came before are completed.
    #[cold]
    pub(super) fn hold(&mut self, port: usize, desc: Desc) {
        let context = &mut self.contexts[port];
        if let Some(desc) = context.moving.hold(desc) {
            context.seen.held_drops += 1;
            self.pool.give(desc);
        }
    }

    /// The core that has the queue of a frame.
    #[inline]
    pub(super) fn core_of(&self, desc: &Desc) -> usize {
        usize::from(desc.queue) % self.bound.len()
    }

    /// Gives the frames of a burst to the cores of their queues, as far as there is room.
    pub(super) fn give(&mut self, port: usize) {
        for (core, bound) in self.bound.iter_mut().enumerate() {
            let PortContext { moving, seen, .. } = &mut self.contexts[port];
            bound.iter().for_each(|desc| seen.queues[usize::from(desc.queue)].add(desc));
            if core == self.place {
                moving.give(core, bound.len());
                self.completed.take(core, port, bound.len());
                self.frames += bound.len() as u64;
                let (contexts, external_queues) = (&mut self.contexts, &mut self.external_queues);
                work_on(contexts, external_queues, &mut self.pool, &mut self.service, port, bound);
                continue;
            }
            let given = self.inter_core[port].give(core, bound);
            self.gave[core] |= given > 0;
            moving.give(core, given);
            for desc in bound.drain(..) {
                seen.queues[usize::from(desc.queue)].miss(&desc);
                self.pool.give(desc);
            }
        }
    }

    /// Gives a frame that was held to the core of its queue; back where there is no room.
    pub(super) fn give_one(&mut self, port: usize, desc: Desc) -> Option<Desc> {
        let (core, queue) = (self.core_of(&desc), usize::from(desc.queue));
        let mut seen = self.contexts[port].seen.queues[queue];
        seen.add(&desc);
        if core == self.place {
            self.completed.take(core, port, 1);
            self.frames += 1;
            let (contexts, external_queues) = (&mut self.contexts, &mut self.external_queues);
            let mut one = Burst::from_iter([desc]);
            work_on(contexts, external_queues, &mut self.pool, &mut self.service, port, &mut one);
        } else if let Some(desc) = self.inter_core[port].give_one(core, desc) {
            return Some(desc);
        }
        self.gave[core] |= core != self.place;
        let context = &mut self.contexts[port];
        context.moving.give(core, 1);
        context.seen.queues[queue] = seen;
        None
    }

    /// Gives on the frames of flows that move, once what came before them is completed; whether
    /// there was any.
    #[cold]
    pub(super) fn give_held(&mut self, port: usize) -> bool {
        self.contexts[port].moving.look();
        let mut is_busy = false;
        while self.contexts[port].moving.gives() {
            let Some(desc) = self.contexts[port].moving.next() else {
                self.contexts[port].show_followed();
                break;
            };
            let is_own = self.core_of(&desc) == self.place;
            let waits = match is_own && self.contexts[way_out(port, self.contexts.len())].is_full()
            {
                true => Some(desc),
                false => self.give_one(port, desc),
            };
            if let Some(desc) = waits {
                self.contexts[port].moving.put_back(desc);
                break;
            }
            is_busy = true;
        }
        is_busy
    }

    /// Says what was completed of what this core was given.
    pub(super) fn complete(&mut self) {
        let contexts = &self.contexts;
        self.completed
            .tell(&self.progress, |port| contexts[way_out(port, contexts.len())].transmit.own());
    }

    /// Takes what other cores have handed over; whether there was any.
    pub(super) fn take_over(&mut self, burst: &mut Burst) -> bool {
        let mut is_busy = false;
        for (port, rings) in self.inter_core.iter_mut().enumerate() {
            for core in 0..self.bound.len() {
                is_busy |= rings.take(core, self.pool.region(), burst);
                self.completed.take(core, port, burst.len());
                self.frames += burst.len() as u64;
                let (contexts, external_queues) = (&mut self.contexts, &mut self.external_queues);
                work_on(contexts, external_queues, &mut self.pool, &mut self.service, port, burst);
            }
        }
        is_busy
    }
}
