//! Shuts a card down, and reports its counters and errors.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use niclab_control::CardCounters;
use niclab_nic::Nic;
use niclab_port::frame_pool::{self, FramePool};

use super::Card;
use crate::counters::PublishedPort;
use crate::engine::Core;
use crate::items::ItemCounters;
use crate::ports::Port;

/// The result of a card that has been shut down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardResult {
    /// Its counters.
    pub counters: CardCounters,
    /// Item counters, if it wrote items for a store.
    pub items: Option<ItemCounters>,
    /// Frames of its memory.
    pub frames: usize,
    /// Frames that did not come back: 0, unless a core ended by a fault.
    pub frames_lost: usize,
    /// Errors, such as a full disk that cut a file off, or a core that ended by a fault.
    pub errors: Vec<String>,
}

impl Card {
    /// Whether no frame will come any more by any port, for all are files and read to their end, or
    /// a core has ended by a fault, which [`Card::shut_down`] tells.
    pub fn is_finished(&self) -> bool {
        if self.threads.iter().any(JoinHandle::is_finished) {
            return true;
        }
        let is_over = |port: &Port| {
            let is_ended = |shown: &Arc<PublishedPort>| shown.is_ended.load(Ordering::Acquire);
            let have_ended = port.published.iter().all(is_ended);
            have_ended && (port.name.is_output_only() || !port.name.can_reopen())
        };
        self.ports.iter().all(is_over)
    }

    /// Stops the cores, lets what is under way leave, and closes the ports.
    pub fn shut_down(mut self) -> CardResult {
        let pools = self.stop();
        self.result(pools)
    }

    /// The same with the cores of a card that have no threads of their own; gives back rules and
    /// RSS of each port, for another card.
    pub fn shut_down_driven(mut self, cores: Vec<Core>) -> (CardResult, Vec<Nic>) {
        // Each waits for the others: none gives it a frame any more.
        let pools = thread::scope(|scope| {
            let ending = |core: Core| scope.spawn(move || core.shut_down());
            let threads: Vec<_> = cores.into_iter().map(ending).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        let ended = self.result(pools);
        (ended, self.ports.drain(..).map(|port| port.nic).collect())
    }

    fn result(&mut self, pools: Vec<FramePool>) -> CardResult {
        let ends = self.ports.iter_mut().filter_map(|port| port.capture.take());
        let captures = ends.filter_map(|capture| capture.end().err());
        self.errors.extend(captures.map(|error| format!("capture: {error}")));
        let frames = self.region.frames();
        let frames_lost = frames - frame_pool::count(pools);
        // An interface that went away may have come back; a file was to be whole.
        let files = self.ports.iter().filter(|port| !port.name.can_reopen());
        let named = |port: &Port| {
            let name = port.name.to_string();
            port.errors().into_iter().map(move |what| format!("{name}: {what}"))
        };
        let trouble = files.flat_map(named).chain(self.errors.drain(..)).collect();
        let reported = self.item_counters();
        CardResult {
            counters: self.counters(),
            items: reported,
            frames,
            frames_lost,
            errors: trouble,
        }
    }

    fn stop(&mut self) -> Vec<FramePool> {
        self.stop.store(true, Ordering::Relaxed);
        self.wake();
        let cores = self.cores.iter().map(|(core, _)| core);
        let ended = self.threads.drain(..).zip(cores).map(|(thread, core)| (core, thread.join()));
        let mut pools = Vec::new();
        for (core, pool) in ended {
            match pool {
                Ok(pool) => pools.push(pool),
                Err(_) => self.errors.push(format!("core {core} ended by a fault of niclab")),
            }
        }
        pools
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        drop(self.stop());
    }
}
