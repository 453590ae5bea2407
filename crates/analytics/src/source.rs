//! The sending end of a source: it keeps each tuple until the receiver has it safe.
//!
//! A sender has no socket and no clock. The caller passes the time, sends the frames that
//! [`Sender::frame`] writes, and passes acknowledgements on. A tuple is sent again if frames that
//! left later were acknowledged, or if its timer has run out. The receiver's credit and the
//! sender's own window limit the tuples under way: at the limit [`Sender::offer`] refuses, and the
//! caller waits.
//!
//! A sender greets first: it sends progress until the receiver answers. Only then do tuples leave.
//! If the first answer says that tuples are safe, another source had this id: see [`SourceFault`].
//!
//! There is no congestion control: a sender is for a network that its owner has sized.

use std::collections::VecDeque;

use crate::receiver::WINDOW_MAX;
use crate::tuple::{
    self, Acknowledgement, END_NS, Frame, FrameError, SourceProgress, TIME_NS_MAX, Tuple,
};

/// Frames that may leave before a tuple and be acknowledged after it without its loss.
const REORDERED_FRAMES: u64 = 3;
/// Frames that may be under way, whatever gaps there are.
const GAP_FRAMES_MIN: u32 = 4;
/// Limits of the timer after which a tuple is sent again, nanoseconds.
const TIMER_NS_MIN: u64 = 2_000_000;
const TIMER_NS_MAX: u64 = 1_000_000_000;
/// The timer before a tuple was acknowledged, nanoseconds.
const TIMER_NS_FIRST: u64 = 100_000_000;
/// The timer of the first greeting, nanoseconds: a card does not answer a source's first frame.
const TIMER_NS_GREETING: u64 = 20_000_000;
/// A source that has nothing else to say sends its progress this often, nanoseconds.
const HEARTBEAT_NS: u64 = 1_000_000_000;
/// A receiver that says for this long that it lacks safe tuples has lost them, nanoseconds. For a
/// shorter time it may be acknowledgements that were under way for long.
const FORGOTTEN_NS: u64 = 5_000_000_000;

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
        /// The event time of the last tuple, nanoseconds.
        least_ns: u64,
    },
}

/// Why the receiver does not count the tuples of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFault {
    /// The receiver lacks tuples that it has acknowledged: it was started again.
    Forgotten,
    /// The receiver has tuples of another source with this id, and takes those of this one for
    /// duplicates.
    IdUsed,
    /// The receiver has too many sources.
    Refused,
    /// The receiver steers by key, and the source has keys of several of its cores.
    Foreign,
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

/// Counters of a sender.
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
    /// Tuples that may be under way: less than the window where a receiver keeps nothing behind a
    /// gap, so that what leaves behind a gap is little.
    flight: u32,
    /// No timer runs out before.
    expire_at_ns: u64,
    /// When a tuple became safe last, nanoseconds: all timers begin again.
    progress_ns: u64,
    /// The last frame's number.
    frame: u64,
    /// The last event time, nanoseconds.
    last_ns: u64,
    /// The receiver has answered a greeting.
    is_greeted: bool,
    /// The source has ended, and when progress last left, nanoseconds.
    has_ended: bool,
    progress_at_ns: Option<u64>,
    is_end_safe: bool,
    /// Since when every acknowledgement lacks safe tuples, nanoseconds.
    lacking_since_ns: Option<u64>,
    fault: Option<SourceFault>,
    timer: RetransmissionTimer,
    /// Its counters.
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
            limit: 0,
            flight: window,
            expire_at_ns: u64::MAX,
            progress_ns: 0,
            frame: 0,
            last_ns: 0,
            is_greeted: false,
            has_ended: false,
            progress_at_ns: None,
            is_end_safe: false,
            lacking_since_ns: None,
            fault: None,
            timer: RetransmissionTimer {
                smoothed_ns: None,
                variation_ns: 0,
                timer_ns: TIMER_NS_GREETING,
            },
            counters: SenderCounters::default(),
        }
    }

    /// The id of the source.
    pub fn source(&self) -> u64 {
        self.options.source
    }

    /// The sequence of the next tuple.
    fn next(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Sequences below this one may leave.
    fn limit(&self) -> u64 {
        self.limit.min(self.first + u64::from(self.flight))
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

    /// Says that no tuple with an earlier event time follows. The next progress passes it on.
    pub fn pass(&mut self, time_ns: u64) {
        self.last_ns = self.last_ns.max(time_ns.min(TIME_NS_MAX));
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

    /// Why the receiver counts nothing of this source, by what it has said. Only of
    /// [`SourceFault::Refused`] a later acknowledgement may be the opposite.
    pub fn fault(&self) -> Option<SourceFault> {
        self.fault
    }

    /// Whether the receiver has said that it has too many sources.
    pub fn is_refused(&self) -> bool {
        self.fault == Some(SourceFault::Refused)
    }

    /// Writes the next frame that is due into `out`, in place of its content; `false` if none is.
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
            let from_ns = at_ns.max(self.progress_ns);
            if now_ns.saturating_sub(from_ns) < timer_ns {
                self.expire_at_ns = self.expire_at_ns.min(from_ns + timer_ns);
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
        if !self.is_greeted {
            return false;
        }
        let (mut count, number) = (0, self.frame + 1);
        let (first_waits, limit) = (self.waiting_from, self.limit());
        for (at, kept) in self.kept.iter_mut().enumerate().skip(first_waits) {
            if kept.state != TupleState::Waiting {
                self.waiting_from = at + 1;
                continue;
            }
            let sequence = self.first + at as u64;
            // The first missing one leaves without credit, too: its acknowledgement has new credit.
            if count == self.options.batch || sequence >= limit && at > 0 {
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

    /// How often progress leaves; `None` if the end is safe.
    fn progress_every_ns(&self) -> Option<u64> {
        match self.has_ended {
            _ if !self.is_greeted => Some(self.timer.timer_ns),
            true if self.is_end_safe => None,
            true => Some(self.timer.timer_ns),
            false => Some(HEARTBEAT_NS),
        }
    }

    /// Writes progress: a greeting, the end, or that the source is still there.
    fn write_progress(&mut self, now_ns: u64, out: &mut Vec<u8>) -> bool {
        let Some(every_ns) = self.progress_every_ns() else { return false };
        if let Some(at_ns) = self.progress_at_ns {
            if now_ns.saturating_sub(at_ns) < every_ns {
                return false;
            }
            if !self.is_greeted || self.has_ended && self.kept.is_empty() {
                self.timer.ran_out();
            }
        }
        self.progress_at_ns = Some(now_ns);
        let progress = match (self.is_greeted, self.has_ended) {
            (false, _) => SourceProgress { next: 0, time_ns: 0 },
            (true, true) => SourceProgress { next: self.next(), time_ns: END_NS },
            (true, false) => SourceProgress { next: self.next(), time_ns: self.last_ns },
        };
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
            TupleState::Waiting if at == 0 || self.first + (at as u64) < self.limit() => {
                Some(now_ns)
            }
            TupleState::Sent { at_ns, .. } => Some(at_ns.max(self.progress_ns) + timer_ns),
            TupleState::Waiting | TupleState::Safe => None,
        };
        let kept = if self.is_greeted { self.kept.len() } else { 0 };
        let of_tuples = self.kept.iter().take(kept).enumerate().filter_map(due).min();
        let every_ns = self.progress_every_ns();
        let of_progress = every_ns.map(|ns| self.progress_at_ns.map_or(now_ns, |at_ns| at_ns + ns));
        of_tuples.into_iter().chain(of_progress).min().map(|due_ns| due_ns.max(now_ns))
    }

    /// Applies an acknowledgement; `false` if it is a frame of another kind or for another source,
    /// which changes nothing.
    ///
    /// # Errors
    /// [`FrameError`] of a datagram that is no frame.
    pub fn acknowledge(&mut self, now_ns: u64, datagram: &[u8]) -> Result<bool, FrameError> {
        match Frame::parse(datagram)? {
            (source, Frame::Acknowledgement(of)) if source == self.options.source => {
                self.apply(now_ns, &of);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn apply(&mut self, now_ns: u64, acknowledgement: &Acknowledgement<'_>) {
        match self.fault {
            Some(SourceFault::Forgotten | SourceFault::IdUsed | SourceFault::Foreign) => return,
            _ if acknowledgement.is_foreign => {
                self.fault = Some(SourceFault::Foreign);
                return;
            }
            _ if acknowledgement.is_refused => {
                self.fault = Some(SourceFault::Refused);
                return;
            }
            _ => self.fault = None,
        }
        if !self.is_greeted && !self.greeted(now_ns, acknowledgement) {
            return;
        }
        // No receiver has what was not sent yet.
        let cumulative = acknowledgement.cumulative.min(self.next());
        if cumulative < self.first {
            let since_ns = *self.lacking_since_ns.get_or_insert(now_ns);
            if now_ns.saturating_sub(since_ns) >= FORGOTTEN_NS {
                self.fault = Some(SourceFault::Forgotten);
            }
            return;
        }
        self.lacking_since_ns = None;
        let (mut newest, mut sent_at_ns) = (0, u64::MAX);
        for sequence in (self.first..cumulative).chain(acknowledgement.selective()) {
            if sequence >= self.next() {
                break;
            }
            let Some((at_ns, frame, is_first)) = self.mark_safe(sequence) else { continue };
            newest = newest.max(frame);
            self.progress_ns = now_ns;
            if is_first {
                sent_at_ns = sent_at_ns.min(at_ns);
            }
        }
        if sent_at_ns != u64::MAX {
            // One for an acknowledgement: the tuples of a frame would hide how round trips vary.
            self.timer.measured(now_ns.saturating_sub(sent_at_ns));
            // The timer may be shorter than before.
            self.expire_at_ns = 0;
        }
        let safe = (cumulative - self.first) as usize;
        if safe > 0 {
            self.flight = (self.flight + self.batch()).min(self.options.window);
        }
        self.kept.drain(..safe);
        self.first = cumulative;
        self.waiting_from = self.waiting_from.saturating_sub(safe);
        self.limit = cumulative.saturating_add(acknowledgement.credit.into());
        self.is_end_safe |= acknowledgement.is_ended && self.has_ended;
        if acknowledgement.has_gap && acknowledgement.cumulative == self.first {
            self.go_back(now_ns);
        }
        for (at, kept) in self.kept.iter_mut().enumerate() {
            if let TupleState::Sent { frame, .. } = kept.state
                && frame + REORDERED_FRAMES <= newest
            {
                kept.state = TupleState::Waiting;
                self.waiting_from = self.waiting_from.min(at);
            }
        }
    }

    /// Applies the first answer; whether tuples may leave.
    fn greeted(&mut self, now_ns: u64, answer: &Acknowledgement<'_>) -> bool {
        if answer.cumulative > 0 || answer.is_ended || answer.selective().next().is_some() {
            self.fault = Some(SourceFault::IdUsed);
            return false;
        }
        self.is_greeted = true;
        self.timer.timer_ns = TIMER_NS_FIRST;
        self.progress_at_ns = if self.has_ended { None } else { Some(now_ns) };
        true
    }

    /// Has all tuples wait again that left, if the first one could have been acknowledged by now:
    /// what is behind it was not kept. Acknowledgements of what left before it say the same.
    fn go_back(&mut self, now_ns: u64) {
        let Some(TupleState::Sent { at_ns, .. }) = self.kept.front().map(|kept| kept.state) else {
            return;
        };
        let round_trip_ns = self.timer.smoothed_ns.unwrap_or(0);
        if now_ns.saturating_sub(at_ns) < round_trip_ns {
            return;
        }
        for kept in &mut self.kept {
            if matches!(kept.state, TupleState::Sent { .. }) {
                kept.state = TupleState::Waiting;
            }
        }
        self.waiting_from = 0;
        let least = GAP_FRAMES_MIN * self.batch();
        self.flight = (self.flight / 2).max(least).min(self.options.window);
    }

    /// Tuples of a frame at most.
    fn batch(&self) -> u32 {
        u32::try_from(self.options.batch).unwrap_or(u32::MAX).min(tuple::TUPLES_MAX as u32)
    }

    /// Takes note that a tuple is safe. If that is new, and the tuple was under way: when it left,
    /// the frame that it left in, and whether it left once.
    fn mark_safe(&mut self, sequence: u64) -> Option<(u64, u64, bool)> {
        let at = (sequence - self.first) as usize;
        let kept = self.kept.get_mut(at)?;
        let state = std::mem::replace(&mut kept.state, TupleState::Safe);
        self.counters.safe += u64::from(state != TupleState::Safe);
        match state {
            TupleState::Sent { at_ns, frame } => Some((at_ns, frame, kept.sent == 1)),
            TupleState::Waiting | TupleState::Safe => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuple::{AcknowledgementHead, write_acknowledgement};

    const MS: u64 = 1_000_000;

    /// An acknowledgement for source 1.
    fn answer(cumulative: u64, credit: u32, is_ended: bool) -> Vec<u8> {
        let head = AcknowledgementHead { cumulative, credit, is_ended, ..Default::default() };
        let mut bytes = Vec::new();
        write_acknowledgement(&mut bytes, 1, &head, std::iter::empty());
        bytes
    }

    /// The frames that are due.
    fn due(sender: &mut Sender, now_ns: u64) -> Vec<Vec<u8>> {
        let (mut frames, mut frame) = (Vec::new(), Vec::new());
        while sender.frame(now_ns, &mut frame) {
            frames.push(frame.clone());
        }
        frames
    }

    fn is_progress(frame: &[u8], next: u64, time_ns: u64) -> bool {
        Frame::parse(frame) == Ok((1, Frame::Progress(SourceProgress { next, time_ns })))
    }

    /// A source with `tuples` tuples. The event time of each is its sequence.
    fn sender(tuples: u64) -> Sender {
        let mut sender = Sender::new(SenderOptions::new(1));
        for time_ns in 0..tuples {
            sender.offer(&NewTuple { time_ns, ..NewTuple::default() }).unwrap();
        }
        sender
    }

    #[test]
    fn tuples_leave_after_the_greeting_was_answered() {
        let mut sender = sender(50);
        let mut at_ns = 0;
        for wait_ms in [20, 40, 80] {
            assert_eq!(sender.due_ns(at_ns), Some(at_ns));
            let frames = due(&mut sender, at_ns);
            assert!(frames.len() == 1 && is_progress(&frames[0], 0, 0), "{frames:?}");
            at_ns += wait_ms * MS;
            assert_eq!(sender.due_ns(at_ns - 1), Some(at_ns));
            assert!(due(&mut sender, at_ns - 1).is_empty());
        }
        // The answer brings the credit: a frame of 45 tuples, and one with the other 3.
        sender.acknowledge(at_ns, &answer(0, 48, false)).unwrap();
        assert_eq!(due(&mut sender, at_ns).len(), 2);
        assert_eq!(sender.counters.tuples, 48);
        sender.acknowledge(at_ns, &answer(48, 100, false)).unwrap();
        sender.end();
        let frames = due(&mut sender, at_ns);
        assert!(frames.len() == 2 && is_progress(&frames[1], 50, END_NS), "{frames:?}");
        sender.acknowledge(at_ns, &answer(50, 0, true)).unwrap();
        assert!(sender.is_finished() && sender.fault().is_none());
    }

    #[test]
    fn a_source_that_ends_before_it_is_answered_greets_and_says_its_end() {
        let mut sender = sender(0);
        sender.end();
        assert!(is_progress(&due(&mut sender, 0)[0], 0, 0));
        sender.acknowledge(5, &answer(0, 48, false)).unwrap();
        assert!(is_progress(&due(&mut sender, 5)[0], 0, END_NS));
        sender.acknowledge(6, &answer(0, 48, true)).unwrap();
        assert!(sender.is_finished());
    }

    #[test]
    fn nothing_is_sent_again_while_acknowledgements_come() {
        let mut sender = sender(1_000);
        due(&mut sender, 0);
        sender.acknowledge(0, &answer(0, 1_024, false)).unwrap();
        let frames = due(&mut sender, 0).len() as u64;
        // The receiver is slower than the shortest timer allows for: the last one takes 23 ms.
        for frame in 1..=frames {
            let now_ns = frame * MS;
            sender.acknowledge(now_ns, &answer(1_000.min(45 * frame), 1_024, false)).unwrap();
            assert!(due(&mut sender, now_ns + MS - 1).is_empty(), "frame {frame} of {frames}");
        }
        assert_eq!((sender.counters.safe, sender.counters.repeated), (1_000, 0));
    }

    #[test]
    fn an_id_that_another_source_had_is_a_fault() {
        for first in [answer(7, 48, false), answer(0, 48, true)] {
            let mut sender = sender(50);
            due(&mut sender, 0);
            sender.acknowledge(5, &first).unwrap();
            assert_eq!(sender.fault(), Some(SourceFault::IdUsed));
            sender.acknowledge(6, &answer(0, 48, false)).unwrap();
            assert_eq!(sender.fault(), Some(SourceFault::IdUsed), "it stays");
            assert!(due(&mut sender, 7).is_empty());
        }
    }

    #[test]
    fn a_receiver_that_lacks_safe_tuples_for_five_seconds_has_lost_them() {
        let mut sender = sender(50);
        due(&mut sender, 0);
        for (at_ns, cumulative) in [(1, 0), (2, 40)] {
            sender.acknowledge(at_ns, &answer(cumulative, 99, false)).unwrap();
            due(&mut sender, at_ns);
        }
        let second = 1_000 * MS;
        // One that was under way for long, and another after the next progress.
        sender.acknowledge(second, &answer(9, 99, false)).unwrap();
        sender.acknowledge(3 * second, &answer(40, 99, false)).unwrap();
        sender.acknowledge(7 * second, &answer(0, 99, false)).unwrap();
        assert_eq!(sender.fault(), None);
        sender.acknowledge(12 * second - 1, &answer(0, 99, false)).unwrap();
        assert_eq!(sender.fault(), None);
        sender.acknowledge(12 * second, &answer(0, 99, false)).unwrap();
        assert_eq!(sender.fault(), Some(SourceFault::Forgotten));
    }

    #[test]
    fn a_source_without_tuples_says_how_far_it_is() {
        let mut sender = sender(0);
        due(&mut sender, 0);
        sender.acknowledge(0, &answer(0, 48, false)).unwrap();
        sender.pass(77);
        let later_ns = 1_000 * MS;
        assert_eq!(sender.due_ns(5), Some(later_ns));
        assert!(is_progress(&due(&mut sender, later_ns)[0], 0, 77));
        let early = sender.offer(&NewTuple { time_ns: 76, ..NewTuple::default() });
        assert_eq!(early, Err(OfferError::Time { time_ns: 76, least_ns: 77 }));
    }
}
