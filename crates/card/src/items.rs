//! The program that writes a key-value store's items. It reports requests to the core that owns the
//! key. The card gives the store DMA segments.
//!
//! # Why it is sound
//! The store reads what the program has written as plain bytes, and [`DmaSegments::new`] says what
//! that takes. So nobody has the program's memory, its registers or what runs it but this crate:
//! [`Items`] goes into one card ([`Card`](crate::Card)), each core of which says between two bursts
//! that it has nothing under way.
#![allow(unsafe_code)]

use std::sync::Arc;

use niclab_apps::endpoint::Identity;
use niclab_apps::kvs::protocol::time::UnixTime;
use niclab_apps::kvs::store::{
    AppendRegisters, DMA_SEGMENT_LEN, DmaSegments, QuiescenceCounters, dma_segments_of,
};
use niclab_program::{Pipeline, Program, SharedRegisters};

use crate::CardError;
use crate::steering::{array, broken, fill};

/// Its text.
pub const PROGRAM: &str = include_str!("../../../programs/kvs-items/kvs-items.spec");

/// Cores that it can have as owners of keys.
pub const CORES_MAX: usize = 16;

/// The bits of register `next` that say where in a segment.
const WITHIN: u64 = (1 << 40) - 1;

/// Counters of a card that writes items for a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemCounters {
    /// Items that it has written and answered.
    pub stored: u64,
    /// Keys that cores were told are asked for.
    pub requests: u64,
    /// Frames that went to a queue as they came.
    pub passed_through: u64,
}

/// The place and the number of the next item of one owner.
#[derive(Debug)]
struct OwnerRegisters {
    places: SharedRegisters,
    numbers: SharedRegisters,
    owner: u64,
}

impl AppendRegisters for OwnerRegisters {
    fn read(&self) -> u64 {
        self.places.read(self.owner)
    }

    fn write(&self, place: u64) {
        self.places.write(self.owner, place);
    }

    /// As the program makes one.
    fn number(&self) -> u64 {
        (self.numbers.add(self.owner, 1) + 1) << 8 | self.owner | 1 << 63
    }
}

/// The program, with its tables for a store.
#[derive(Debug)]
pub struct Items {
    pipeline: Pipeline,
    quiescence: Arc<QuiescenceCounters>,
    /// Numbers of its registers: where items go, which numbers they get, and what time it is.
    next: usize,
    numbers: usize,
    clock: usize,
}

impl Items {
    /// The program for a store whose cores have a queue each, and the DMA segments of each
    /// core. `memory_bytes` are the store's; at most half of it becomes DMA segments. The rings
    /// have as many entries as the program says, or as many as are asked for.
    ///
    /// # Errors
    /// [`CardError::Program`]: too many cores, no memory, or the text is not what this was made
    /// for.
    pub fn new(
        identity: &Identity,
        cores: usize,
        memory_bytes: usize,
        entries: Option<u32>,
    ) -> Result<(Items, Vec<DmaSegments>), CardError> {
        let mut program = Program::read(PROGRAM).map_err(|error| broken(&error))?;
        let [next, numbers, clock] = ["next", "numbers", "clock"].map(|name| array(&program, name));
        let (next, numbers, clock) = (next?, numbers?, clock?);
        let ([window], [rings]) = (&mut program.windows[..], &mut program.rings[..]) else {
            return Err(broken(&"another window or other rings"));
        };
        let count = dma_segments_of(memory_bytes, cores, window.len / DMA_SEGMENT_LEN);
        let count = count.filter(|_| cores <= CORES_MAX && cores <= rings.count);
        let count =
            count.ok_or_else(|| broken(&"too many cores, or too little memory for them"))?;
        // The window has no memory beside the segments.
        (window.len, rings.count) = (count * cores * DMA_SEGMENT_LEN, cores);
        rings.shape.entries = entries.unwrap_or(rings.shape.entries);
        let mut pipeline = Pipeline::new(program).map_err(|error| broken(&error))?;
        fill(&mut pipeline, identity, cores, 0)?;
        let turns = Arc::new(QuiescenceCounters::new(cores));
        let mut items = Items { pipeline, quiescence: turns, next, numbers, clock };
        let segments = (0..cores).map(|core| items.segments(core, count));
        let segments = segments.collect::<Option<Vec<_>>>().ok_or_else(|| broken(&"no window"))?;
        Ok((items, segments))
    }

    /// Hands the segments of a core out, `count` of them. The second call gives none.
    fn segments(&mut self, core: usize, count: usize) -> Option<DmaSegments> {
        let memory = self.pipeline.window(0)?;
        let places = self.pipeline.registers(self.next)?;
        let numbers = self.pipeline.registers(self.numbers)?;
        let events = self.pipeline.reader(0, core)?;
        let next = Box::new(OwnerRegisters { places, numbers, owner: core as u64 });
        let (segments, turns) = (core * count..(core + 1) * count, Arc::clone(&self.quiescence));
        // SAFETY: the program writes where `regadd` on register `next` of the owner says, which
        // stands there at 1 MiB first, and nothing of what would go beyond; it tells of that behind
        // it, with the rest of the same burst. The register of one owner alone leads to these
        // segments, for its store writes numbers of them. Nobody else has memory, registers, rings
        // or turns: `Items` gives nothing of them away, but to a card of as many cores, which count
        // turns between bursts. The ring's reader is had once, so nobody else gets these
        // segments.
        Some(unsafe { DmaSegments::new(memory, segments, events, next, turns) })
    }

    /// Cores that it is for.
    pub fn cores(&self) -> usize {
        self.quiescence.cores()
    }

    /// Says what time it is, for items to come.
    pub fn set_time(&mut self, now: UnixTime) {
        self.pipeline.set_register(self.clock, 0, now.0.into());
    }

    /// The counters of the program.
    pub fn counters(&self) -> ItemCounters {
        let counters = &self.pipeline.program().counters;
        let count = |name: &str, index: u64| {
            let array = counters.iter().position(|array| array.name == name);
            let counted = array.and_then(|array| self.pipeline.counter(array, index));
            counted.map_or(0, |(packets, _)| packets)
        };
        let of_all = |name: &str| (0..self.cores() as u64).map(|owner| count(name, owner)).sum();
        ItemCounters {
            stored: of_all("stored"),
            requests: of_all("asked"),
            passed_through: count("left", 0),
        }
    }

    /// Bytes of items that the segment has room for that the program fills for an owner.
    pub(crate) fn room(&self, owner: usize) -> usize {
        let at = self.pipeline.register(self.next, owner as u64).unwrap_or(u64::MAX);
        DMA_SEGMENT_LEN.saturating_sub((at & WITHIN) as usize)
    }

    /// Takes the segment that the program fills for an owner for full.
    pub(crate) fn skip_segment(&mut self, owner: usize) {
        // By an addition, as the program's: no place is given twice.
        if let Some(places) = self.pipeline.registers(self.next)
            && places.read(owner as u64) & WITHIN < DMA_SEGMENT_LEN as u64
        {
            places.add(owner as u64, DMA_SEGMENT_LEN as u64);
        }
    }

    /// The program: for the card that it is put into, which gives it to nobody.
    pub(crate) fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Lets what packets no longer see be used again, so many steps.
    pub(crate) fn run_housekeeping(&mut self, steps: usize) {
        self.pipeline.run_housekeeping(steps);
    }

    /// The quiescence counters of the cores.
    pub(crate) fn quiescence(&self) -> &Arc<QuiescenceCounters> {
        &self.quiescence
    }
}
