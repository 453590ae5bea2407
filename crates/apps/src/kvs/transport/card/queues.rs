//! Requests that come by the queues of a card.

use std::sync::Arc;

use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};

use super::Station;
use crate::endpoint::Identity;
use crate::kvs::codec::context::Context;
use crate::kvs::store::Spread;
use crate::kvs::transport::shared::{ServerShared, moment};
use crate::service::{Answers, Service};

/// Frames after which a core adds its counters to the server's, where all its bursts are full.
const ADDED_EVERY: u64 = 1 << 10;

/// Bursts of events that are served before frames have their turn.
const BURSTS: usize = 4;

/// Serves the queues of one core.
pub struct Queues {
    shared: Arc<ServerShared>,
    station: Station,
    /// The number of the core, its partition, and the queue of requests for that.
    place: usize,
    /// The card writes items and reports events.
    has_dma: bool,
}

impl Queues {
    pub fn new(
        shared: Arc<ServerShared>,
        identity: Identity,
        place: usize,
        has_dma: bool,
    ) -> Queues {
        Queues { shared, station: Station::new(identity), place, has_dma }
    }

    fn add_counters(&mut self) {
        self.shared.tally.frames.add(&std::mem::take(self.station.counted()));
    }
}

impl Service for Queues {
    fn serve(&mut self, region: &Region, frames: &[Desc], answers: &mut dyn Answers) {
        let Queues { shared, station, place, has_dma } = self;
        let context = Context { store: &shared.store, now: moment(), host: &**shared };
        // With DMA segments nothing comes to the queue of a partition.
        let is_steered = shared.options.spread == Spread::Steered && !*has_dma;
        let place = *place;
        let owner = |queue| (is_steered && usize::from(queue) == place).then_some(place);
        station.serve(region, frames, owner, &context, &mut (), answers);
        if station.counted().frames >= ADDED_EVERY || frames.len() < BURST {
            self.add_counters();
        }
    }

    fn turn(&mut self, answers: &mut dyn Answers) -> bool {
        let Queues { shared, station, place, has_dma: true } = self else { return false };
        let context = Context { store: &shared.store, now: moment(), host: &**shared };
        let mut count = 0;
        for _ in 0..BURSTS {
            let served = station.turn(*place, BURST, &context, &mut (), answers);
            count += served;
            if served < BURST {
                break;
            }
        }
        if count > 0 {
            self.add_counters();
        }
        count > 0
    }

    fn has_work(&self) -> bool {
        self.has_dma && self.shared.store.own(self.place).has_events()
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        self.add_counters();
    }
}
