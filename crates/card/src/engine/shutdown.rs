//! Shuts a core down: pending frames leave, and every frame goes back to the pool.

use niclab_port::Burst;
use niclab_port::frame_pool::FramePool;
use niclab_port::inter_core::InterCoreRings;
use niclab_port::queue_pair::QueuePair;

use super::Engine;

/// Turns at the end in which frames that wait may still leave.
const LAST_TURNS: u32 = 1_000;

impl Engine {
    /// Whether no other core gives anything any more.
    fn are_producers_closed(&self) -> bool {
        self.inter_core.iter().all(InterCoreRings::is_producer_closed)
            && self.host.as_ref().is_none_or(|host| host.is_producer_closed())
    }

    /// Lets what is under way leave, and gives back every frame.
    pub(super) fn shut_down(mut self, mut burst: Burst) -> FramePool {
        for _ in 0..LAST_TURNS {
            if !self.run_applications() {
                break;
            }
            self.forward(&mut burst);
        }
        if let Some(host) = &mut self.host {
            host.end(&mut self.pool);
            host.close();
        }
        for _ in 0..LAST_TURNS {
            if self.contexts.iter().all(|context| context.migration.is_idle()) {
                break;
            }
            self.forward(&mut burst);
            std::thread::yield_now();
        }
        for context in &mut self.contexts {
            for desc in context.migration.end() {
                context.tally.held_drops += 1;
                self.pool.give(desc);
            }
        }
        // Nothing is handed over from here on; the others learn it by this.
        self.inter_core.iter_mut().for_each(InterCoreRings::close);
        for _ in 0..LAST_TURNS {
            let are_last = self.are_producers_closed();
            let is_busy = self.run_applications() | self.forward(&mut burst);
            let waits = self.contexts.iter().any(|context| !context.transmit.is_empty());
            if are_last && !is_busy && !waits {
                break;
            }
            std::thread::yield_now();
        }
        // A core that still works has not ended its turn: wait for it, however long that takes.
        while !self.are_producers_closed() {
            self.run_applications();
            self.forward(&mut burst);
            std::thread::yield_now();
        }
        while self.run_applications() | self.receive_from_cores(&mut burst) | self.serve() {}
        // What the last turns answered leaves where the port takes it.
        for _ in 0..LAST_TURNS {
            if self.contexts.iter().all(|context| context.transmit.is_empty()) {
                break;
            }
            for context in &mut self.contexts {
                context.send(&mut burst, &mut self.pool);
            }
            std::thread::yield_now();
        }
        self.contexts.iter_mut().for_each(|context| context.drop_queued(&mut self.pool));
        for context in &mut self.contexts {
            let queue_pairs: Vec<Box<dyn QueuePair>> =
                std::iter::from_fn(|| context.queue_pairs.pop().ok())
                    .chain(context.queue_pair.take())
                    .collect();
            for queue_pair in queue_pairs {
                if let Err(error) = context.close(queue_pair, &mut self.pool) {
                    context.publish_error(&error);
                }
            }
        }
        self.program.instance.iter_mut().for_each(|instance| instance.rest());
        self.publish();
        self.external_queues.into_iter().for_each(|queue| queue.end(&mut self.pool));
        self.pool
    }
}
