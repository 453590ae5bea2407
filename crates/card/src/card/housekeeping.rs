//! Housekeeping of a card: reclaims memory, ages rules, reopens interfaces.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use niclab_port::error::PortError;

use super::Card;
use crate::counters::PublishedPort;
use crate::program_instance::InstanceSender;

/// Steps of a change that are settled at a time.
const HOUSEKEEPING_STEPS: usize = 1 << 16;

impl Card {
    /// Runs the background work of the card; call it some times a second. It reclaims memory, ages
    /// rules, accepts clients, and reopens interfaces that have come back. Returns the ports that
    /// are down, with the reason.
    pub fn run_housekeeping(&mut self) -> Vec<(String, PortError)> {
        let now_ns = self.begun.elapsed().as_nanos() as u64;
        let (mut missing, mut is_changed) = (Vec::new(), false);
        self.program.iter_mut().for_each(|program| program.run_housekeeping(HOUSEKEEPING_STEPS));
        self.to_cores.iter_mut().for_each(InstanceSender::free_returned);
        self.applications.run_housekeeping(HOUSEKEEPING_STEPS);
        for port in &mut self.ports {
            port.nic.set_time_ns(now_ns);
            port.nic.run_housekeeping(HOUSEKEEPING_STEPS);
            for listener in &mut port.listeners {
                match listener.accept(&self.region) {
                    Ok(is_new) => is_changed |= is_new,
                    Err(error) => missing.push((
                        format!("the socket of queue {} of {}", listener.queue(), port.name),
                        error,
                    )),
                }
            }
            let is_gone = |shown: &Arc<PublishedPort>| shown.is_gone.load(Ordering::Acquire);
            let gone = port.published.iter().filter(|shown| is_gone(shown)).count();
            if gone == 0 {
                continue;
            }
            let has_all_closed = gone == port.published.len();
            if !has_all_closed {
                // It is opened again as a whole.
                port.published.iter().for_each(|shown| shown.closes.store(true, Ordering::Release));
                is_changed = true;
            }
            if !has_all_closed || !port.name.can_reopen() {
                let reason = port.errors().join("; ");
                missing.push((port.name.to_string(), PortError::Ended { reason }));
                continue;
            }
            let count = port.queue_pairs.len() as u32;
            match port.name.open(count, &self.region) {
                Ok(queue_pairs) => {
                    for ((to, queue_pair), shown) in
                        port.queue_pairs.iter_mut().zip(queue_pairs).zip(&port.published)
                    {
                        shown.closes.store(false, Ordering::Release);
                        shown.is_gone.store(false, Ordering::Release);
                        // There is room, for the core has taken the one before.
                        let _ = to.push(queue_pair);
                    }
                    is_changed = true;
                }
                Err(error) => missing.push((port.name.to_string(), error)),
            }
        }
        if is_changed {
            self.wake();
        }
        missing
    }
}
