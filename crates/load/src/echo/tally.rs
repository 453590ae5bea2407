//! The outcome of each message: in time, late, twice, out of order, or lost.

use super::Echoed;
use crate::histogram::Latency;

/// Messages whose times are kept: answers to older ones are foreign. At least two batches.
const KEPT: usize = 1 << 17;

const _: () = assert!(KEPT >= 2 * super::BATCH_MAX as usize && KEPT.is_power_of_two());

/// A sent message.
#[derive(Clone, Copy, Debug, Default)]
struct SentMessage {
    due_ns: u64,
    called_ns: u64,
    state: MessageState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MessageState {
    #[default]
    Waiting,
    GivenUp,
    Answered,
}

/// Counts messages and answers.
#[derive(Debug)]
pub struct EchoTally {
    entries: Vec<SentMessage>,
    /// Number of the next message, from 0; the wire carries its low 32 bits.
    next: u64,
    /// Number of the first message that counts.
    measured: Option<u64>,
    /// Number above the highest one that was answered.
    expected: u64,
    is_open: bool,
    /// Messages that wait for their answer.
    pub waiting: u64,
    seen: Echoed,
}

impl EchoTally {
    /// Nothing was sent.
    pub fn new(is_open: bool) -> EchoTally {
        let seen = Echoed {
            service: is_open.then(Latency::new),
            lateness: is_open.then(Latency::new),
            ..Echoed::default()
        };
        EchoTally {
            entries: vec![SentMessage::default(); KEPT],
            next: 0,
            measured: None,
            expected: 0,
            is_open,
            waiting: 0,
            seen,
        }
    }

    /// Number of the next message.
    pub fn next(&self) -> u32 {
        self.next as u32
    }

    /// From the next message on they count.
    pub fn measure(&mut self) {
        self.measured.get_or_insert(self.next);
    }

    fn counts(&self, number: u64) -> bool {
        self.measured.is_some_and(|first| number >= first)
    }

    /// `count` messages that were due at `due_ns` were given to the kernel by a call at
    /// `called_ns`.
    #[inline]
    pub fn sent(&mut self, count: u64, due_ns: u64, called_ns: u64) {
        for number in self.next..self.next + count {
            let entry = &mut self.entries[number as usize % KEPT];
            // The oldest one is forgotten: it stays lost.
            if number >= KEPT as u64 && entry.state == MessageState::Waiting {
                self.waiting = self.waiting.saturating_sub(1);
            }
            *entry = SentMessage { due_ns, called_ns, state: MessageState::Waiting };
        }
        if self.counts(self.next) {
            self.seen.sent += count;
            if let Some(lateness) = &mut self.seen.lateness {
                lateness.record_n(called_ns.saturating_sub(due_ns), count);
            }
        }
        self.next += count;
        self.waiting += count;
    }

    /// An answer with the number that the wire carried, at `now_ns`.
    #[inline]
    pub fn answered(&mut self, number: u32, now_ns: u64) {
        let ago = self.next.wrapping_sub(1).wrapping_sub(u64::from(number)) & u64::from(u32::MAX);
        if ago >= self.next.min(KEPT as u64) {
            self.seen.foreign += 1;
            return;
        }
        let number = self.next - 1 - ago;
        let counts = self.counts(number);
        let entry = &mut self.entries[number as usize % KEPT];
        match entry.state {
            MessageState::Answered => {
                self.seen.duplicated += u64::from(counts);
                return;
            }
            MessageState::GivenUp => self.seen.late += u64::from(counts),
            MessageState::Waiting => {
                self.waiting = self.waiting.saturating_sub(1);
                if counts {
                    self.seen.answered += 1;
                    self.seen.rtt.record(now_ns.saturating_sub(entry.due_ns));
                    if let Some(service) = &mut self.seen.service {
                        service.record(now_ns.saturating_sub(entry.called_ns));
                    }
                }
            }
        }
        entry.state = MessageState::Answered;
        self.seen.reordered += u64::from(counts && number < self.expected);
        self.expected = self.expected.max(number + 1);
    }

    /// When the call began that sent a message which counts; `None` of one that does not, or is too
    /// old.
    pub fn called_ns(&self, number: u32) -> Option<u64> {
        let ago = self.next.wrapping_sub(1).wrapping_sub(u64::from(number)) & u64::from(u32::MAX);
        let number = self.next.wrapping_sub(1).wrapping_sub(ago);
        let is_kept = ago < self.next.min(KEPT as u64) && self.counts(number);
        is_kept.then(|| self.entries[number as usize % KEPT].called_ns)
    }

    /// Something came that is no answer of ours.
    pub fn foreign(&mut self) {
        self.seen.foreign += 1;
    }

    /// Nobody waits any longer for what has not come; `true` where there was something.
    pub fn give_up(&mut self) -> bool {
        let oldest = self.next.saturating_sub(KEPT as u64);
        let had = self.waiting > 0;
        for number in (oldest..self.next).rev().filter(|_| had) {
            let entry = &mut self.entries[number as usize % KEPT];
            if entry.state == MessageState::Waiting {
                entry.state = MessageState::GivenUp;
                self.waiting = self.waiting.saturating_sub(1);
            }
            if self.waiting == 0 {
                break;
            }
        }
        had
    }

    /// `true` where an answer has come, whether it counts or not.
    pub fn has_answers(&self) -> bool {
        self.expected > 0
    }

    /// The observation. `planned` messages were due in the measured part of `duration_ns`; in a
    /// closed loop, those that were sent.
    pub fn end(mut self, planned: u64, duration_ns: u64, ended: Option<String>) -> Echoed {
        let sent = self.seen.sent;
        self.seen.planned = if self.is_open { planned.max(sent) } else { sent };
        self.seen.unsent = self.seen.planned - sent;
        self.seen.lost = sent - self.seen.answered;
        Echoed { duration_ns, ended, ..self.seen }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_somewhere() {
        let mut tally = EchoTally::new(false);
        tally.sent(1, 10, 10);
        tally.answered(0, 20);
        tally.measure();
        tally.sent(6, 100, 100);
        // 1 in time, 3 before 2, 3 twice, 4 too late, 5 and 6 never, 9 was never sent.
        tally.answered(1, 150);
        tally.answered(3, 160);
        tally.answered(2, 170);
        tally.answered(3, 180);
        tally.answered(9, 190);
        assert_eq!(tally.waiting, 3);
        assert!(tally.give_up());
        assert!(!tally.give_up());
        tally.answered(4, 300);
        let seen = tally.end(0, 1000, None);
        assert_eq!((seen.planned, seen.sent, seen.answered, seen.lost), (6, 6, 3, 3));
        assert_eq!((seen.late, seen.reordered, seen.duplicated, seen.foreign), (1, 1, 1, 1));
        let rtt = &seen.rtt.0;
        assert_eq!((rtt.len(), rtt.min(), rtt.max()), (3, 50, 70));
    }

    #[test]
    fn an_open_loop_counts_from_when_a_message_was_due() {
        let mut tally = EchoTally::new(true);
        tally.measure();
        tally.sent(2, 100, 130);
        tally.answered(0, 150);
        tally.answered(1, 190);
        let seen = tally.end(5, 1000, None);
        assert_eq!((seen.planned, seen.sent, seen.unsent), (5, 2, 3));
        assert_eq!((seen.rtt.0.min(), seen.rtt.0.max()), (50, 90));
        let service = seen.service.unwrap().0;
        assert_eq!((service.min(), service.max()), (20, 60));
        assert_eq!(seen.lateness.unwrap().0.max(), 30);
    }

    #[test]
    fn numbers_wrap_on_the_wire() {
        let mut tally = EchoTally::new(false);
        tally.next = u64::from(u32::MAX);
        tally.measure();
        tally.sent(2, 5, 5);
        tally.answered(u32::MAX, 6);
        tally.answered(0, 7);
        tally.answered(1, 8);
        let seen = tally.end(0, 1, None);
        assert_eq!((seen.answered, seen.foreign, seen.reordered), (2, 1, 0));
    }

    #[test]
    fn frames_older_than_the_history_stay_lost() {
        let mut tally = EchoTally::new(true);
        tally.measure();
        tally.sent(1, 1, 1);
        tally.sent(KEPT as u64, 2, 2);
        assert_eq!(tally.waiting, KEPT as u64);
        tally.answered(0, 3);
        let seen = tally.end(0, 1, None);
        assert_eq!((seen.answered, seen.foreign, seen.lost), (0, 1, KEPT as u64 + 1));
    }
}
