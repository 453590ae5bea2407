//! The work of a core for applications that have flows of their own.

use niclab_port::Burst;

use super::Engine;
use super::function::work_on;
use crate::applications::{CoreServices, NoRoom};
use crate::port_context::PortContext;
use crate::program_instance::ProgramInstance;
use crate::steered::Steered;
use crate::transmit_queue::OWN;

impl Engine {
    /// Lets applications work on what waits for them; whether anything did.
    pub(super) fn host(&mut self) -> bool {
        let Some(mut host) = self.host.take() else { return false };
        let worked = host.turns(self);
        self.host = Some(host);
        worked
    }

    /// Does work that sends an application's frames; how many found no room.
    fn for_application(&mut self, whose: usize, work: impl FnOnce(&mut Engine)) -> u64 {
        let dropped = |contexts: &[PortContext]| {
            contexts.iter().map(|context| context.seen.tx_dropped).sum::<u64>()
        };
        let before = dropped(&self.contexts);
        self.contexts.iter_mut().for_each(|context| context.whose = whose);
        work(self);
        self.contexts.iter_mut().for_each(|context| context.whose = OWN);
        dropped(&self.contexts) - before
    }

    /// Gives frames that an application steered, which were put by, to the cores of their queues;
    /// how many found no room.
    fn give_steered(&mut self, steered: &mut Steered, port: usize) -> u64 {
        let mut missed = 0;
        for (core, bound) in self.bound.iter_mut().enumerate() {
            let queues = &mut self.contexts[port].seen.queues;
            bound.iter().for_each(|desc| queues[usize::from(desc.queue)].add(desc));
            if core == self.place {
                self.frames += bound.len() as u64;
                let (contexts, external_queues) = (&mut self.contexts, &mut self.external_queues);
                work_on(contexts, external_queues, &mut self.pool, &mut self.service, port, bound);
            } else if !bound.is_empty() {
                self.gave[core] |= steered.give(core, port, bound) > 0;
                missed += bound.len() as u64;
                for desc in bound.drain(..) {
                    queues[usize::from(desc.queue)].miss(&desc);
                    self.pool.give(desc);
                }
            }
        }
        missed
    }
}

impl CoreServices for Engine {
    fn decide(
        &mut self,
        whose: usize,
        instance: &mut ProgramInstance,
        steered: &mut Steered,
        port: usize,
        burst: &mut Burst,
    ) -> NoRoom {
        let mut lost = NoRoom::default();
        lost.port = self.for_application(whose, |engine| {
            engine.decide_on(instance, port, burst);
            lost.queue = engine.give_steered(steered, port);
        });
        lost
    }

    fn serve(&mut self, whose: usize, port: usize, burst: &mut Burst) -> NoRoom {
        let port = self.for_application(whose, |engine| {
            engine.frames += burst.len() as u64;
            let (contexts, external_queues) = (&mut engine.contexts, &mut engine.external_queues);
            work_on(contexts, external_queues, &mut engine.pool, &mut engine.service, port, burst);
        });
        NoRoom { queue: 0, port }
    }
}
