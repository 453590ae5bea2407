//! Gives tuples to the workers that have their keys, a burst at a time.

use std::sync::Arc;

use crate::inbox::{Entry, Inbox};
use crate::job::JobEngine;
use crate::receiver::TupleSink;
use crate::tuple::Tuple;
use crate::window::Windows;

/// Tuples of a burst, by worker.
#[derive(Debug)]
pub struct Demultiplexer {
    inboxes: Vec<Arc<Inbox>>,
    /// The lane of each inbox that it hands over by.
    lane: usize,
    /// The inbox of each part of the keys.
    places: Box<[u16]>,
    windows: Windows,
    bursts: Vec<Vec<Entry>>,
    room: Vec<usize>,
    /// Tuples of the burst.
    count: usize,
}

impl Demultiplexer {
    /// A demultiplexer for the workers of an engine, the only one that hands over by this lane.
    pub fn new(engine: &JobEngine, lane: usize) -> Demultiplexer {
        let inboxes = engine.inboxes().to_vec();
        let workers = inboxes.len();
        Demultiplexer {
            inboxes,
            lane,
            places: engine.places(),
            windows: engine.query().windows,
            bursts: vec![Vec::new(); workers],
            room: vec![0; workers],
            count: 0,
        }
    }

    /// Begins a burst: looks for room; that of the worker with the least.
    pub fn begin(&mut self) -> usize {
        for (room, inbox) in self.room.iter_mut().zip(&self.inboxes) {
            *room = inbox.room(self.lane);
        }
        self.room.iter().copied().min().unwrap_or(0)
    }

    /// Takes a tuple. `false` if its worker has no room.
    #[inline]
    pub fn push(&mut self, stream: u16, key: u64, time_ns: u64) -> bool {
        let place = usize::from(self.places[crate::partition::part(key)]);
        if self.room[place] == 0 {
            return false;
        }
        self.room[place] -= 1;
        self.count += 1;
        self.bursts[place].push(Entry { key, pane: self.windows.pane(time_ns), stream });
        true
    }

    /// Hands the burst over, after which its tuples are safe; how many there are. No tuple that
    /// follows has an earlier event time than `watermark_ns`, or is of an earlier pane.
    pub fn hand_over(&mut self, watermark_ns: u64) -> usize {
        let pane = self.windows.pane(watermark_ns);
        for (burst, inbox) in self.bursts.iter_mut().zip(&self.inboxes) {
            inbox.hand_over(self.lane, burst, pane);
        }
        std::mem::take(&mut self.count)
    }
}

impl TupleSink for Demultiplexer {
    #[inline]
    fn take(&mut self, tuple: &Tuple<'_>) -> bool {
        self.push(tuple.stream, tuple.key, tuple.time_ns)
    }
}
