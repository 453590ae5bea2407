//! The sending end of a source: it keeps each tuple until the receiver has it safe.
//!
//! A sender has no socket and no clock. The caller passes the time, sends the frames that
//! [`Sender::frame`] writes, and passes acknowledgements on. A tuple is sent again if frames that
//! left later were acknowledged, or if its timer has run out. The receiver's credit and the
//! sender's own window limit the tuples under way: at the limit [`Sender::offer`] refuses, so that
//! whoever makes tuples waits.
//!
//! There is no congestion control: a sender is for a network that its owner has sized.

use std::collections::VecDeque;

use crate::receiver::WINDOW_MAX;
use crate::tuple::{
    self, Acknowledgement, END_NS, Frame, FrameError, SourceProgress, TIME_NS_MAX, Tuple,
};

/// Frames that may leave before a tuple and be acknowledged after it without its loss.
const REORDERED_FRAMES: u64 = 3;
/// Limits of the timer after which a tuple is sent again, nanoseconds.
const TIMER_NS_MIN: u64 = 2_000_000;
const TIMER_NS_MAX: u64 = 1_000_000_000;
/// The timer before anything was acknowledged, nanoseconds.
const TIMER_NS_FIRST: u64 = 100_000_000;
/// A source that has nothing else to say sends its progress this often, nanoseconds.
const HEARTBEAT_NS: u64 = 1_000_000_000;

/// How a sender is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderOptions {
    /// The id of the source, which no other source has, and no earlier one had.
    pub source: u64,
    /// Tuples that are kept at most, 1 to [`WINDOW_MAX`].
    pub window: u32,
    /// Tuples of a frame at most, from 1 on.
    pub batch: usize,
}

impl SenderOptions {
    /// A source with a window of 1024 tuples and batches as large as a frame.
    pub fn new(source: u64) -> SenderOptions {
        SenderOptions { source, window: 1_024, batch: tuple::TUPLES_MAX }
    }
}

/// A tuple that is to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewTuple<'a> {
    /// Its stream.
    pub stream: u16,
    /// Its key.
    pub key: u64,
    /// Event time, nanoseconds; not before that of the last tuple.
    pub time_ns: u64,
    /// At most [`tuple::PAYLOAD_LEN_MAX`] bytes.
    pub payload: &'a [u8],
}

/// Why a tuple was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// As many tuples as may be are under way; wait for an acknowledgement.
    #[error("the window is full: wait for acknowledgements")]
    Full,
    /// The source has ended.
    #[error("the source has ended: use a source with another id")]
    Ended,
    /// A payload that is too long.
    #[error("a payload of {0} bytes: at most 1024 are allowed")]
    Payload(usize),
    /// An event time before that of the last tuple, or too late for the format.
    #[error("the event time {time_ns} ns: at least {least_ns} and below 2^63 are needed")]
    Time {
        /// The event time, nanoseconds.
        time_ns: u64,
        /// That of the last tuple, nanoseconds.
        least_ns: u64,
    },
}

/// Where a tuple is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TupleState {
    /// It waits for its first frame, or for another one.
    Waiting,
    /// It left at this time, in the frame of this number.
    Sent { at_ns: u64, frame: u64 },
    /// The receiver has it.
    Safe,
}

/// A tuple that is kept.
#[derive(Debug)]
struct KeptTuple {
    stream: u16,
    key: u64,
    time_ns: u64,
    payload: Box<[u8]>,
    state: TupleState,
    /// How often it left. After the second time nobody knows which frame an acknowledgement is for.
    sent: u32,
}

/// What a sender has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Frames.
    pub frames: u64,
    /// Tuples that left for the first time.
    pub tuples: u64,
    /// Tuples that left again.
    pub repeated: u64,
    /// Tuples that are safe.
    pub safe: u64,
}

/// The sending end of a source.
#[derive(Debug)]
pub struct Sender {
    options: SenderOptions,
    /// The tuples from `first` on.
    kept: VecDeque<KeptTuple>,
    /// The lowest sequence that is not known to be safe.
    first: u64,
    /// No tuple below this place of `kept` waits.
    waiting_from: usize,
    /// Sequences below this one may leave.
    limit: u64,
    /// No timer runs out before.
    expire_at_ns: u64,
    /// The last frame's number.
    frame: u64,
    /// The last event time, nanoseconds.
    last_ns: u64,
    /// The source has ended, and when progress last left, nanoseconds.
    has_ended: bool,
    progress_at_ns: Option<u64>,
    is_end_safe: bool,
    is_refused: bool,
    timer: RetransmissionTimer,
    /// What was done.
    pub counters: SenderCounters,
}

/// When a tuple is sent again: by RFC 6298, with other limits.
#[derive(Debug)]
struct RetransmissionTimer {
    smoothed_ns: Option<u64>,
    variation_ns: u64,
    timer_ns: u64,
}

impl RetransmissionTimer {
    fn measured(&mut self, round_trip_ns: u64) {
        let smoothed_ns = match self.smoothed_ns {
            None => {
                self.variation_ns = round_trip_ns / 2;
                round_trip_ns
            }
            Some(smoothed_ns) => {
                let away_ns = smoothed_ns.abs_diff(round_trip_ns);
                self.variation_ns = (3 * self.variation_ns + away_ns) / 4;
                (7 * smoothed_ns + round_trip_ns) / 8
            }
        };
        self.smoothed_ns = Some(smoothed_ns);
        let timer_ns = smoothed_ns.saturating_add(4 * self.variation_ns);
        self.timer_ns = timer_ns.clamp(TIMER_NS_MIN, TIMER_NS_MAX);
    }

    fn ran_out(&mut self) {
        self.timer_ns = (2 * self.timer_ns).min(TIMER_NS_MAX);
    }
}

impl Sender {
    /// A source without tuples.
    pub fn new(options: SenderOptions) -> Sender {
        let window = options.window.clamp(1, WINDOW_MAX);
        Sender {
            options: SenderOptions { window, batch: options.batch.max(1), ..options },
            kept: VecDeque::with_capacity(window as usize),
            first: 0,
            waiting_from: 0,
            // The first frame asks for the receiver's credit.
            limit: options.batch.max(1) as u64,
            expire_at_ns: u64::MAX,
            frame: 0,
            last_ns: 0,
            has_ended: false,
            progress_at_ns: None,
            is_end_safe: false,
            is_refused: false,
            timer: RetransmissionTimer {
                smoothed_ns: None,
                variation_ns: 0,
                timer_ns: TIMER_NS_FIRST,
            },
            counters: SenderCounters::default(),
        }
    }

    /// The sequence of the next tuple.
    fn next(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Takes a tuple, and keeps it until it is safe.
    ///
    /// # Errors
    /// [`OfferError`]; the tuple was not taken.
    pub fn offer(&mut self, tuple: &NewTuple<'_>) -> Result<(), OfferError> {
        if self.has_ended {
            return Err(OfferError::Ended);
        }
        if tuple.payload.len() > tuple::PAYLOAD_LEN_MAX {
            return Err(OfferError::Payload(tuple.payload.len()));
        }
        let NewTuple { stream, key, time_ns, payload } = *tuple;
        if !(self.last_ns..=TIME_NS_MAX).contains(&time_ns) {
            return Err(OfferError::Time { time_ns, least_ns: self.last_ns });
        }
        if self.kept.len() >= self.options.window as usize {
            return Err(OfferError::Full);
        }
        self.last_ns = time_ns;
        let (state, payload) = (TupleState::Waiting, payload.into());
        self.kept.push_back(KeptTuple { stream, key, time_ns, payload, state, sent: 0 });
        Ok(())
    }

    /// Says that no tuple follows.
    pub fn end(&mut self) {
        if !self.has_ended {
            (self.has_ended, self.progress_at_ns) = (true, None);
        }
    }

    /// Whether all tuples and the end are safe.
    pub fn is_finished(&self) -> bool {
        self.has_ended && self.kept.is_empty() && self.is_end_safe
    }

    /// Whether the receiver has said that it has too many sources.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Writes the next frame that is due in place of whatever `out` has; `false` if there is none.
    pub fn frame(&mut self, now_ns: u64, out: &mut Vec<u8>) -> bool {
        self.expire(now_ns);
        let is_written = self.write_tuples(now_ns, out) || self.write_progress(now_ns, out);
        self.counters.frames += u64::from(is_written);
        is_written
    }

    /// Has tuples wait again whose timer has run out.
    fn expire(&mut self, now_ns: u64) {
        if now_ns < self.expire_at_ns {
            return;
        }
        let timer_ns = self.timer.timer_ns;
        let mut is_out = false;
        self.expire_at_ns = u64::MAX;
        for (at, tuple) in self.kept.iter_mut().enumerate() {
            let TupleState::Sent { at_ns, .. } = tuple.state else { continue };
            if now_ns.saturating_sub(at_ns) < timer_ns {
                self.expire_at_ns = self.expire_at_ns.min(at_ns + timer_ns);
                continue;
            }
            tuple.state = TupleState::Waiting;
            self.waiting_from = self.waiting_from.min(at);
            is_out = true;
        }
        if is_out {
            self.timer.ran_out();
        }
    }

    /// Writes a frame of tuples that wait and may leave.
    fn write_tuples(&mut self, now_ns: u64, out: &mut Vec<u8>) -> bool {
        let (mut count, number) = (0, self.frame + 1);
        let first_waits = self.waiting_from;
        for (at, kept) in self.kept.iter_mut().enumerate().skip(first_waits) {
            if kept.state != TupleState::Waiting {
                self.waiting_from = at + 1;
                continue;
            }
            let sequence = self.first + at as u64;
            // The first missing one leaves without credit, too: its acknowledgement has new credit.
            if count == self.options.batch || sequence >= self.limit && at > 0 {
                break;
            }
            let (stream, key, time_ns) = (kept.stream, kept.key, kept.time_ns);
            if count == 0 {
                tuple::begin_tuples(out, self.options.source);
            }
            let tuple = Tuple { stream, key, sequence, time_ns, payload: &kept.payload };
            if !tuple::push_tuple(out, &tuple) {
                break;
            }
            kept.state = TupleState::Sent { at_ns: now_ns, frame: number };
            let SenderCounters { tuples, repeated, .. } = &mut self.counters;
            *(if kept.sent == 0 { tuples } else { repeated }) += 1;
            kept.sent = kept.sent.saturating_add(1);
            count += 1;
            self.waiting_from = at + 1;
        }
        if count > 0 {
            self.frame = number;
            self.expire_at_ns = self.expire_at_ns.min(now_ns + self.timer.timer_ns);
        }
        count > 0
    }

    /// Writes progress, if the end is to be said or nothing else is.
    fn write_progress(&mut self, now_ns: u64, out: &mut Vec<u8>) -> bool {
        let every_ns = match self.has_ended {
            true if self.is_end_safe => return false,
            true => self.timer.timer_ns,
            false => HEARTBEAT_NS,
        };
        let is_due = match self.progress_at_ns {
            Some(at_ns) => now_ns.saturating_sub(at_ns) >= every_ns,
            // The first tuples say that the source is there.
            None => self.has_ended || self.kept.is_empty(),
        };
        if !is_due {
            return false;
        }
        if self.has_ended && self.progress_at_ns.is_some() && self.kept.is_empty() {
            self.timer.ran_out();
        }
        self.progress_at_ns = Some(now_ns);
        let time_ns = if self.has_ended { END_NS } else { self.last_ns };
        let progress = SourceProgress { next: self.next(), time_ns };
        tuple::write_progress(out, self.options.source, &progress);
        true
    }

    /// The time at which [`Sender::frame`] has something to send, if nothing else happens before;
    /// `None` if the source is finished.
    pub fn due_ns(&self, now_ns: u64) -> Option<u64> {
        if self.is_finished() {
            return None;
        }
        let timer_ns = self.timer.timer_ns;
        let due = |(at, kept): (usize, &KeptTuple)| match kept.state {
            TupleState::Waiting if at == 0 || self.first + (at as u64) < self.limit => Some(now_ns),
            TupleState::Sent { at_ns, .. } => Some(at_ns + timer_ns),
            TupleState::Waiting | TupleState::Safe => None,
        };
        let of_tuples = self.kept.iter().enumerate().filter_map(due).min();
        let every_ns = if self.has_ended { timer_ns } else { HEARTBEAT_NS };
        let of_progress = match self.progress_at_ns {
            Some(at_ns) => at_ns + every_ns,
            None if self.has_ended || self.kept.is_empty() => now_ns,
            None => now_ns + every_ns,
        };
        Some(of_tuples.map_or(of_progress, |of_tuples| of_tuples.min(of_progress)).max(now_ns))
    }

    /// Applies an acknowledgement; frames of other kinds and for other sources change nothing.
    ///
    /// # Errors
    /// [`FrameError`] of a datagram that is no frame.
    pub fn acknowledge(&mut self, now_ns: u64, datagram: &[u8]) -> Result<(), FrameError> {
        let (source, frame) = Frame::parse(datagram)?;
        let Frame::Acknowledgement(acknowledgement) = frame else { return Ok(()) };
        if source == self.options.source {
            self.apply(now_ns, &acknowledgement);
        }
        Ok(())
    }

    fn apply(&mut self, now_ns: u64, acknowledgement: &Acknowledgement<'_>) {
        if acknowledgement.is_refused {
            self.is_refused = true;
            return;
        }
        self.is_refused = false;
        // No receiver has what was not sent yet.
        let cumulative = acknowledgement.cumulative.min(self.next());
        if cumulative < self.first {
            return;
        }
        let mut newest = 0;
        for sequence in (self.first..cumulative).chain(acknowledgement.selective()) {
            if sequence >= self.next() {
                break;
            }
            newest = newest.max(self.mark_safe(now_ns, sequence));
        }
        let safe = (cumulative - self.first) as usize;
        self.kept.drain(..safe);
        self.first = cumulative;
        self.waiting_from = self.waiting_from.saturating_sub(safe);
        self.limit = cumulative.saturating_add(acknowledgement.credit.into());
        self.is_end_safe |= acknowledgement.is_ended && self.has_ended;
        for (at, kept) in self.kept.iter_mut().enumerate() {
            if let TupleState::Sent { frame, .. } = kept.state
                && frame + REORDERED_FRAMES <= newest
            {
                kept.state = TupleState::Waiting;
                self.waiting_from = self.waiting_from.min(at);
            }
        }
    }

    /// Takes note that a tuple is safe; the frame that it left in, if that is new.
    fn mark_safe(&mut self, now_ns: u64, sequence: u64) -> u64 {
        let at = (sequence - self.first) as usize;
        let Some(kept) = self.kept.get_mut(at) else { return 0 };
        let state = std::mem::replace(&mut kept.state, TupleState::Safe);
        self.counters.safe += u64::from(state != TupleState::Safe);
        let TupleState::Sent { at_ns, frame } = state else { return 0 };
        if kept.sent == 1 {
            self.timer.measured(now_ns.saturating_sub(at_ns));
            // The timer may be shorter than before.
            self.expire_at_ns = 0;
        }
        frame
    }
}
