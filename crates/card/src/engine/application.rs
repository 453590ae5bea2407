//! The work of a core for applications that have flows of their own.

use niclab_port::Burst;

use super::Engine;
use super::function::apply_function;
use crate::applications::{CoreServices, OverflowCounts};
use crate::port_context::PortContext;
use crate::program_instance::ProgramInstance;
use crate::steering_rings::SteeringRings;
use crate::transmit_queue::OWN;

impl Engine {
    /// Lets applications work on what waits for them; whether anything did.
    pub(super) fn run_applications(&mut self) -> bool {
        let Some(mut host) = self.host.take() else { return false };
        let worked = host.turns(self);
        self.host = Some(host);
        worked
    }

    /// Does work that sends an application's frames; how many found no room.
    fn for_application(&mut self, whose: usize, work: impl FnOnce(&mut Engine)) -> u64 {
        let dropped = |contexts: &[PortContext]| {
            contexts.iter().map(|context| context.tally.tx_dropped).sum::<u64>()
        };
        let before = dropped(&self.contexts);
        self.contexts.iter_mut().for_each(|context| context.owner = whose);
        work(self);
        self.contexts.iter_mut().for_each(|context| context.owner = OWN);
        dropped(&self.contexts) - before
    }

    /// Gives frames that an application steered, which were put by, to the cores of their queues;
    /// how many found no room.
    fn dispatch_steered(&mut self, steered: &mut SteeringRings, port: usize) -> u64 {
        let mut missed = 0;
        for (core, bound) in self.bound.iter_mut().enumerate() {
            let queues = &mut self.contexts[port].tally.queues;
            bound.iter().for_each(|desc| queues[usize::from(desc.queue)].add(desc));
            if core == self.place {
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
            } else if !bound.is_empty() {
                self.cores_to_wake[core] |= steered.send(core, port, bound) > 0;
                missed += bound.len() as u64;
                for desc in bound.drain(..) {
                    queues[usize::from(desc.queue)].undo_add(&desc);
                    self.pool.give(desc);
                }
            }
        }
        missed
    }
}

impl CoreServices for Engine {
    fn classify(
        &mut self,
        whose: usize,
        instance: &mut ProgramInstance,
        steered: &mut SteeringRings,
        port: usize,
        burst: &mut Burst,
    ) -> OverflowCounts {
        let mut lost = OverflowCounts::default();
        lost.port = self.for_application(whose, |engine| {
            engine.classify_by_program(instance, port, burst);
            lost.queue = engine.dispatch_steered(steered, port);
        });
        lost
    }

    fn serve(&mut self, whose: usize, port: usize, burst: &mut Burst) -> OverflowCounts {
        let port = self.for_application(whose, |engine| {
            engine.frames += burst.len() as u64;
            let (contexts, external_queues) = (&mut engine.contexts, &mut engine.external_queues);
            apply_function(
                contexts,
                external_queues,
                &mut engine.pool,
                &mut engine.service,
                port,
                burst,
            );
        });
        OverflowCounts { queue: 0, port }
    }
}
