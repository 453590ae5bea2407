//! Operations that the core that forwards asks of another one, as an application does that sees a
//! new flow and leaves its rule to a control thread.

use niclab_load::clock::Clock;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::pair::PlanWork;

/// Operations that may be on their way; what is due beyond them is asked for when there is room.
const ASKED_MAX: usize = 4_096;

/// The forwarding core's end: asks for each operation when it is due.
pub struct OperationRequester {
    /// When each was asked for.
    asked: Producer<u64>,
    at: usize,
    count: usize,
    start_ns: u64,
    each_ns: f64,
    opened_ns: Option<u64>,
    clock: Clock,
}

/// An asker of `count` operations, the first of them `start_ns` into the measured part and one
/// every `each_ns` from there on; and the end that they are taken from.
pub(super) fn requester(
    count: usize,
    start_ns: u64,
    each_ns: f64,
) -> (OperationRequester, Consumer<u64>) {
    let (asked, taken) = RingBuffer::new(ASKED_MAX);
    let clock = Clock::new();
    (OperationRequester { asked, at: 0, count, start_ns, each_ns, opened_ns: None, clock }, taken)
}

impl OperationRequester {
    /// The measured part has begun, at this time.
    pub fn opened(&mut self, at_ns: u64) {
        self.opened_ns = Some(at_ns);
    }

    /// Asks for what is due.
    #[inline]
    pub fn turn(&mut self) {
        if let Some(opened_ns) = self.opened_ns.filter(|_| self.at < self.count) {
            self.ask(opened_ns, self.clock.now_ns());
        }
    }

    fn ask(&mut self, opened_ns: u64, now_ns: u64) {
        let Some(since_ns) = now_ns.checked_sub(opened_ns + self.start_ns) else { return };
        let due = self.count.min((since_ns as f64 / self.each_ns) as usize + 1);
        while self.at < due && self.asked.push(now_ns).is_ok() {
            self.at += 1;
        }
    }
}

/// On the core that polls: asking is cheap, and never waits for frames.
impl PlanWork for OperationRequester {
    fn opened(&mut self, at_ns: u64) {
        OperationRequester::opened(self, at_ns);
    }

    #[inline]
    fn turn(&mut self) -> u64 {
        OperationRequester::turn(self);
        0
    }

    #[inline]
    fn is_behind(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_operations_are_requested_once_and_retried_if_the_ring_is_full() {
        let (mut asker, mut taken) = requester(10_000, 100, 10.0);
        let mut ask = |now_ns: u64| {
            asker.ask(1_000, now_ns);
            std::iter::from_fn(|| taken.pop().ok()).collect::<Vec<u64>>()
        };
        assert!(ask(1_099).is_empty(), "nothing is due before the plan begins");
        assert_eq!(ask(1_100), [1_100]);
        assert!(ask(1_105).is_empty());
        assert_eq!(ask(1_129), [1_129, 1_129]);
        assert_eq!(ask(1_000_000).len(), ASKED_MAX, "no more have room");
        assert_eq!(ask(1_000_001), [1_000_001; ASKED_MAX]);
        assert_eq!(ask(1_000_002).len(), 10_000 - 3 - 2 * ASKED_MAX);
        assert!(ask(9_000_000).is_empty());
    }
}
