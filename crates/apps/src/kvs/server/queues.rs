//! Requests that come by the queues of a card.

use std::sync::Arc;

use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};

use super::super::frames::{Identity, Station};
use super::super::session::Context;
use super::super::store::Spread;
use super::{Shared, moment};
use crate::service::{Answers, Service};

/// Frames after which a core tells what it has counted, where all its bursts are full.
const TOLD_EVERY: u64 = 1 << 10;

/// What serves the queues of one core.
pub struct Queues {
    shared: Arc<Shared>,
    station: Station,
    /// The number of the core, its partition, and the queue of requests for that.
    place: usize,
}

impl Queues {
    pub fn new(shared: Arc<Shared>, identity: Identity, place: usize) -> Queues {
        Queues { shared, station: Station::new(identity), place }
    }

    fn tell(&mut self) {
        self.shared.tally.frames.add(&std::mem::take(&mut self.station.counted));
    }
}

impl Service for Queues {
    fn serve(&mut self, region: &Region, frames: &[Desc], answers: &mut dyn Answers) {
        let Queues { shared, station, place } = self;
        let context = Context { store: &shared.store, now: moment(), host: &**shared };
        let (is_steered, place) = (shared.options.spread == Spread::Steered, *place);
        let owner = |queue| (is_steered && usize::from(queue) == place).then_some(place);
        station.serve(region, frames, owner, &context, &mut (), answers);
        if station.counted.frames >= TOLD_EVERY || frames.len() < BURST {
            self.tell();
        }
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        self.tell();
    }
}
