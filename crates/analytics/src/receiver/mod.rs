//! What arrives from sources: each tuple is taken once, and acknowledged when it is safe.
//!
//! [`Receiver::receive`] offers every new tuple to a [`TupleSink`]. A tuple that the sink took is
//! safe: nothing but the end of the process can lose it (see [`crate::inbox`]). Only such tuples
//! are marked in the source's filter, and only marked tuples are acknowledged. A source sends all
//! others again. So every tuple of a source that goes on sending is counted exactly once, whatever
//! the network loses, repeats or reorders.
//!
//! A receiver trusts no source. Its memory for a source is a filter of a fixed window, and it has a
//! fixed number of sources. A sequence behind the window is a duplicate, one beyond it is refused.
//! It forgets a source only if every tuple it took of it would be late by now: whoever replays them
//! all adds nothing to a count.

mod filter;
mod sources;
#[cfg(test)]
mod tests;
mod watermark;

use std::collections::HashMap;
use std::sync::Arc;

pub use filter::{SequenceFilter, SequenceVerdict, WINDOW_MAX};
use sources::SourceState;
pub use watermark::Watermark;

use crate::partition::PARTS;
use crate::tuple::{
    self, AcknowledgementHead, END_NS, Frame, FrameError, SourceProgress, Tuple, Tuples,
};
use crate::window::Windows;

/// Takes tuples, in the order of their arrival.
pub trait TupleSink {
    /// Takes a tuple. `false` if there is no room: the source has to send it again.
    fn take(&mut self, tuple: &Tuple<'_>) -> bool;
}

/// How a receiver is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverOptions {
    /// Sequences that a source may be ahead of its first missing one, up to [`WINDOW_MAX`].
    pub window: u32,
    /// Sources at most.
    pub sources_max: usize,
    /// No result is complete before this many sources were there.
    pub sources_awaited: usize,
    /// A source that sends nothing for this long holds no result back, nanoseconds.
    pub silence_ns: u64,
    /// The windows of the results.
    pub windows: Windows,
}

impl Default for ReceiverOptions {
    fn default() -> ReceiverOptions {
        ReceiverOptions {
            window: 1_024,
            sources_max: 4_096,
            sources_awaited: 1,
            silence_ns: 10_000_000_000,
            windows: Windows::default(),
        }
    }
}

/// What a receiver has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverCounters {
    /// Frames without a defect.
    pub frames: u64,
    /// Datagrams that are no frame.
    pub malformed: u64,
    /// Tuples that were taken.
    pub taken: u64,
    /// Tuples that were taken before.
    pub duplicates: u64,
    /// Tuples for which there was no room; their sources send them again.
    pub no_room: u64,
    /// Tuples whose sequence is beyond the window or the end of their source.
    pub beyond: u64,
    /// Tuples whose windows may be complete already: acknowledged and not counted.
    pub late: u64,
    /// Frames of sources for which there is no memory.
    pub refused: u64,
    /// Frames of sources with keys of several cores of a card that steers by key.
    pub foreign: u64,
}

impl ReceiverCounters {
    /// The sum with another receiver's.
    #[must_use]
    pub fn with(&self, other: &ReceiverCounters) -> ReceiverCounters {
        ReceiverCounters {
            frames: self.frames + other.frames,
            malformed: self.malformed + other.malformed,
            taken: self.taken + other.taken,
            duplicates: self.duplicates + other.duplicates,
            no_room: self.no_room + other.no_room,
            beyond: self.beyond + other.beyond,
            late: self.late + other.late,
            refused: self.refused + other.refused,
            foreign: self.foreign + other.foreign,
        }
    }
}

/// The receiving end of any number of sources.
#[derive(Debug)]
pub struct Receiver {
    options: ReceiverOptions,
    sources: HashMap<u64, SourceState>,
    watermark: Arc<Watermark>,
    /// Its number among the receivers of the watermark.
    place: usize,
    /// By the lowest byte of a source's id: whether its keys are of this receiver; `None`: sources
    /// may have all keys.
    own: Option<Box<[bool; PARTS]>>,
    /// The latest event time of all tuples that were taken.
    latest_ns: Option<u64>,
    /// Until then no memory is looked for where all sources are taken.
    full_until_ns: u64,
    /// The state of all sources at the last look, with those that came later.
    look: SourcesLook,
    /// Nothing more is taken.
    is_closed: bool,
    /// What was done.
    pub counters: ReceiverCounters,
}

/// How long a receiver without memory for another source looks for none, nanoseconds.
const FULL_NS: u64 = 100_000_000;
/// Sources that are all looked at in each burst; more are looked at this often, nanoseconds.
const LOOKED_AT: usize = 64;
const LOOK_NS: u64 = 1_000_000;

/// The state of all sources of a receiver.
#[derive(Clone, Copy, Debug, Default)]
struct SourcesLook {
    /// The time of the look, nanoseconds.
    at_ns: u64,
    /// Sources that results wait for, and what they have passed, nanoseconds.
    live: usize,
    live_ns: Option<u64>,
    /// Sources that have fallen silent before their end.
    silent: usize,
}

impl Receiver {
    /// The only receiver of a job, without a source yet.
    pub fn new(options: ReceiverOptions) -> Receiver {
        let watermark = Watermark::new(options.windows, options.sources_awaited, 1);
        Receiver::one_of(options, Arc::new(watermark), 0)
    }

    /// One of several receivers of a job, each with a number of its own, from 0 on. Windows and the
    /// number of awaited sources are the watermark's. A source sends to one of them.
    pub fn one_of(options: ReceiverOptions, watermark: Arc<Watermark>, place: usize) -> Receiver {
        Receiver {
            options: ReceiverOptions { windows: watermark.windows(), ..options },
            sources: HashMap::new(),
            watermark,
            place,
            own: None,
            latest_ns: None,
            full_until_ns: 0,
            look: SourcesLook::default(),
            is_closed: false,
            counters: ReceiverCounters::default(),
        }
    }

    /// Takes sources of these lowest bytes of their ids alone: a card that steers by key gives a
    /// frame of any other one to this receiver because the source has keys of several cores.
    pub fn own(&mut self, own: [bool; PARTS]) {
        self.own = Some(Box::new(own));
    }

    fn is_foreign(&self, source: u64) -> bool {
        self.own.as_ref().is_some_and(|own| !own[source as usize % PARTS])
    }

    /// Receives the payload of a datagram at a time of the caller's clock; the source that gets an
    /// acknowledgement, which [`Receiver::write_acknowledgement`] writes.
    ///
    /// # Errors
    /// [`FrameError`] of a datagram that is no frame. Nothing of it was taken.
    pub fn receive(
        &mut self,
        now_ns: u64,
        datagram: &[u8],
        sink: &mut dyn TupleSink,
    ) -> Result<Option<u64>, FrameError> {
        let parsed = Frame::parse(datagram).inspect_err(|_| self.counters.malformed += 1)?;
        self.counters.frames += 1;
        let (source, frame) = parsed;
        if matches!(frame, Frame::Acknowledgement(_)) {
            return Ok(None);
        }
        if self.is_foreign(source) {
            self.counters.foreign += 1;
            return Ok(Some(source));
        }
        if self.is_closed && self.sources.contains_key(&source) {
            return Ok(Some(source));
        }
        if self.is_closed || !self.has_memory(source, now_ns) {
            self.counters.refused += 1;
            return Ok(Some(source));
        }
        let window = self.options.window;
        let state = self.sources.entry(source).or_insert_with(|| {
            self.watermark.count_source(self.place);
            // The next look may come later than this source's first tuples.
            self.look.live += 1;
            self.look.live_ns = Some(0);
            SourceState::new(window)
        });
        state.heard_at_ns = now_ns;
        match frame {
            Frame::Tuples(tuples) => self.take(source, tuples, sink),
            Frame::Progress(progress) => state.promise(&progress),
            Frame::Acknowledgement(_) => {}
        }
        Ok(Some(source))
    }

    /// Takes the new tuples of a source that is there.
    fn take(&mut self, source: u64, tuples: Tuples<'_>, sink: &mut dyn TupleSink) {
        let (windows, counters) = (self.options.windows, &mut self.counters);
        let closed = windows.pane(self.watermark.now_ns());
        let Some(state) = self.sources.get_mut(&source) else { return };
        for tuple in tuples {
            match state.check(tuple.sequence) {
                SequenceVerdict::Duplicate => counters.duplicates += 1,
                SequenceVerdict::Beyond => counters.beyond += 1,
                SequenceVerdict::New => {
                    let is_late = windows.pane(tuple.time_ns) < closed;
                    if !is_late && !sink.take(&tuple) {
                        counters.no_room += 1;
                        continue;
                    }
                    let counter = if is_late { &mut counters.late } else { &mut counters.taken };
                    *counter += 1;
                    self.latest_ns = self.latest_ns.max(Some(tuple.time_ns));
                    state.take(tuple.sequence, tuple.time_ns);
                }
            }
        }
    }

    /// Whether a source has memory, or can have some.
    fn has_memory(&mut self, source: u64, now_ns: u64) -> bool {
        if self.sources.contains_key(&source) || self.sources.len() < self.options.sources_max {
            return true;
        }
        if now_ns < self.full_until_ns {
            return false;
        }
        let (windows, silence_ns) = (self.options.windows, self.options.silence_ns);
        let closed = windows.pane(self.watermark.now_ns());
        let can_go = |state: &SourceState| {
            !state.is_live(now_ns, silence_ns)
                && state.latest_ns.is_none_or(|latest_ns| windows.pane(latest_ns) < closed)
        };
        let old = self.sources.iter().find(|(_, state)| can_go(state)).map(|(source, _)| *source);
        match old {
            Some(old) => _ = self.sources.remove(&old),
            None => self.full_until_ns = now_ns + FULL_NS,
        }
        old.is_some()
    }

    /// Writes what is safe of a source, in at most `len_max` bytes, or in the 32 that every
    /// acknowledgement has: nobody gets more bytes back than were sent in his name. `credit` limits
    /// the sequences that the source may send from the first missing one on; no source gets more
    /// than the window.
    pub fn write_acknowledgement(
        &self,
        source: u64,
        credit: u32,
        len_max: usize,
        out: &mut Vec<u8>,
    ) {
        let Some(state) = self.sources.get(&source) else {
            let is_foreign = self.is_foreign(source);
            let head = AcknowledgementHead { is_refused: true, is_foreign, ..Default::default() };
            return tuple::write_acknowledgement(out, source, &head, std::iter::empty());
        };
        let head = AcknowledgementHead {
            cumulative: state.filter.next(),
            credit: credit.min(state.filter.window() as u32),
            is_ended: state.is_ended(),
            is_refused: false,
            is_foreign: false,
            has_gap: false,
        };
        let words = len_max.saturating_sub(tuple::FIXED_LEN) / 8;
        let selective = state.filter.selective().take(words);
        tuple::write_acknowledgement(out, source, &head, selective);
    }

    /// Looks at all sources, if it is time to.
    fn look(&mut self, now_ns: u64) {
        let is_due = now_ns.saturating_sub(self.look.at_ns) >= LOOK_NS;
        if self.sources.len() > LOOKED_AT && !is_due {
            return;
        }
        let mut look = SourcesLook { at_ns: now_ns, ..SourcesLook::default() };
        for state in self.sources.values() {
            if state.is_live(now_ns, self.options.silence_ns) {
                look.live += 1;
                let least_ns =
                    look.live_ns.map_or(state.progress_ns, |ns| ns.min(state.progress_ns));
                look.live_ns = Some(least_ns);
            } else {
                look.silent += usize::from(!state.is_ended());
            }
        }
        self.look = look;
    }

    /// The event time from which on tuples may still be taken: those before it were taken, or their
    /// sources are silent. It never falls. Where no source is live, it is behind all windows of the
    /// tuples that were taken. With many sources it may be that of a millisecond ago.
    pub fn watermark_ns(&mut self, now_ns: u64) -> u64 {
        self.look(now_ns);
        let SourcesLook { live, live_ns, .. } = self.look;
        self.watermark.say(self.place, live_ns, self.latest_ns, live == 0);
        self.watermark.advance()
    }

    /// Sources that were heard of lately, and have not ended, as of the last look.
    pub fn live_sources(&self) -> usize {
        self.look.live
    }

    /// Sources that have fallen silent before their end, as of the last look.
    pub fn silent_sources(&self) -> usize {
        self.look.silent
    }

    /// Whether all awaited sources were there, and all sources have ended or are silent, as of the
    /// last look.
    pub fn is_finished(&self) -> bool {
        self.watermark.is_finished()
    }

    /// Sources that were ever there, of all receivers of the watermark.
    pub fn seen_sources(&self) -> usize {
        self.watermark.seen()
    }

    /// Whether it takes nothing more.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Ends the taking of tuples. Known sources still get acknowledgements, others are refused.
    pub fn close(&mut self) {
        self.is_closed = true;
    }
}
