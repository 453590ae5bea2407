//! What a receiver keeps of one source.

use super::{END_NS, SequenceFilter, SequenceVerdict, SourceProgress};

/// One source.
#[derive(Debug)]
pub struct SourceState {
    /// The sequences that were taken.
    pub filter: SequenceFilter,
    /// When it was last heard of, nanoseconds of the receiver's clock.
    pub heard_at_ns: u64,
    /// No tuple that is still missing has an earlier event time, as long as the event times of the
    /// source do not fall.
    pub progress_ns: u64,
    /// The latest event time that was taken.
    pub latest_ns: Option<u64>,
    /// A sequence that was taken above the first missing one, and its event time.
    milestone: Option<(u64, u64)>,
    /// What the source says of the tuples from a sequence on.
    promise: Option<SourceProgress>,
    /// The sequence behind its last tuple.
    end: Option<u64>,
}

impl SourceState {
    /// A source of which nothing was taken.
    pub fn new(window: u32) -> SourceState {
        SourceState {
            filter: SequenceFilter::new(window),
            heard_at_ns: 0,
            progress_ns: 0,
            latest_ns: None,
            milestone: None,
            promise: None,
            end: None,
        }
    }

    /// Whether a sequence may be taken.
    pub fn check(&self, sequence: u64) -> SequenceVerdict {
        match self.filter.check(sequence) {
            SequenceVerdict::New if self.end.is_some_and(|end| sequence >= end) => {
                SequenceVerdict::Beyond
            }
            verdict => verdict,
        }
    }

    /// Takes a tuple that is new.
    pub fn take(&mut self, sequence: u64, time_ns: u64) {
        let was_next = sequence == self.filter.next();
        self.filter.take(sequence);
        self.latest_ns = self.latest_ns.max(Some(time_ns));
        if was_next {
            self.progress_ns = self.progress_ns.max(time_ns);
        } else if self.milestone.is_none() {
            self.milestone = Some((sequence, time_ns));
        }
        self.advance();
    }

    /// Keeps what the source says of itself. The first end that it names counts.
    pub fn promise(&mut self, progress: &SourceProgress) {
        if progress.time_ns == END_NS && self.end.is_none() && progress.next >= self.filter.next() {
            self.end = Some(progress.next);
        }
        let is_later = self.promise.is_none_or(|of| of.next <= progress.next);
        if progress.time_ns != END_NS && is_later {
            self.promise = Some(*progress);
        }
        self.advance();
    }

    /// Applies what the first missing sequence has passed.
    fn advance(&mut self) {
        let next = self.filter.next();
        if let Some((_, time_ns)) = self.milestone.take_if(|(sequence, _)| *sequence < next) {
            self.progress_ns = self.progress_ns.max(time_ns);
        }
        if let Some(promise) = self.promise.take_if(|promise| promise.next <= next) {
            self.progress_ns = self.progress_ns.max(promise.time_ns);
        }
    }

    /// Whether it has ended, and all of its tuples were taken.
    pub fn is_ended(&self) -> bool {
        self.end.is_some_and(|end| self.filter.next() >= end)
    }

    /// Whether results wait for it: it was heard of lately, and has not ended.
    pub fn is_live(&self, now_ns: u64, silence_ns: u64) -> bool {
        !self.is_ended() && now_ns.saturating_sub(self.heard_at_ns) < silence_ns
    }
}
