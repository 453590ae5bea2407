//! The outcome of each request.

use super::{PASSED_MAX, Requested, StreamPosition};
use crate::histogram::Latency;

use super::workload::PlannedRequest;

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct PendingRequest {
    /// When it was due; in a closed loop, when it was sent.
    pub due_ns: u64,
    /// When the call began that sent it.
    pub called_ns: u64,
    /// Bytes that it has.
    pub bytes: u32,
    /// Bytes of its connection up to its end.
    pub end: u64,
    pub asked: PlannedRequest,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The value that is stored.
    Hit,
    /// No value.
    Miss,
    /// Success.
    Done,
    /// An error.
    Refused,
    /// Something that was not asked for.
    Foreign,
}

/// Counts requests and answers of the measured part.
pub struct Tally {
    pub seen: Requested,
    /// Requests count that are due from then on.
    begin_ns: u64,
    is_open: bool,
    /// When an answer was there last, or nobody waited for one.
    pub heard_ns: u64,
    /// An answer has come, whether it counts or not.
    pub has_answers: bool,
    /// Positions of the answered requests, if they were requested.
    pub passed: Option<Vec<StreamPosition>>,
}

impl Tally {
    /// Nothing was asked.
    pub fn new(is_open: bool, begin_ns: u64, now_ns: u64) -> Tally {
        let seen = Requested {
            service: is_open.then(Latency::new),
            lateness: is_open.then(Latency::new),
            ..Requested::default()
        };
        Tally { seen, begin_ns, is_open, heard_ns: now_ns, has_answers: false, passed: None }
    }

    /// A request is of the measured part.
    #[inline]
    pub fn counts(&self, request: &PendingRequest) -> bool {
        request.due_ns >= self.begin_ns
    }

    /// These requests leave by a call that begins at `now_ns`.
    #[inline]
    pub fn sent<'a>(
        &mut self,
        requests: impl Iterator<Item = &'a mut PendingRequest>,
        now_ns: u64,
    ) {
        for request in requests {
            request.called_ns = now_ns;
            if !self.is_open {
                request.due_ns = now_ns;
            }
            if self.counts(request) {
                self.seen.sent += 1;
                self.seen.sent_bytes += u64::from(request.bytes);
                if let Some(lateness) = &mut self.seen.lateness {
                    lateness.record(now_ns.saturating_sub(request.due_ns));
                }
            }
        }
    }

    /// A connection was made anew.
    pub fn reconnected(&mut self) {
        self.seen.reconnected += u64::from(self.heard_ns >= self.begin_ns);
    }

    /// Its answer of `bytes` was there at `now_ns`.
    #[inline]
    pub fn answered(
        &mut self,
        request: &PendingRequest,
        outcome: Outcome,
        bytes: u64,
        now_ns: u64,
    ) {
        (self.heard_ns, self.has_answers) = (now_ns, true);
        if !self.counts(request) {
            return;
        }
        let seen = &mut self.seen;
        seen.answered += 1;
        seen.received_bytes += bytes;
        match outcome {
            Outcome::Hit => seen.hits += 1,
            Outcome::Miss => seen.misses += 1,
            Outcome::Done => {}
            Outcome::Refused => seen.refused += 1,
            Outcome::Foreign => seen.foreign += 1,
        }
        seen.latency.record(now_ns.saturating_sub(request.due_ns));
        if let Some(service) = &mut seen.service {
            service.record(now_ns.saturating_sub(request.called_ns));
        }
    }

    /// Keeps what is known of a request that was answered, where it counts.
    #[inline]
    pub fn keep(&mut self, request: &PendingRequest, passed: impl FnOnce() -> StreamPosition) {
        let counts = self.counts(request);
        if let Some(kept) = &mut self.passed
            && counts
            && kept.len() < PASSED_MAX
        {
            kept.push(passed());
        }
    }

    /// The observation. `planned` requests were due in the measured part of `duration_ns`; in a
    /// closed loop, those that were sent.
    pub fn end(mut self, planned: u64, duration_ns: u64, ended: Option<String>) -> Requested {
        let sent = self.seen.sent;
        self.seen.planned = if self.is_open { planned.max(sent) } else { sent };
        self.seen.unsent = self.seen.planned - sent;
        self.seen.lost = sent - self.seen.answered;
        Requested { duration_ns, ended, ..self.seen }
    }
}
