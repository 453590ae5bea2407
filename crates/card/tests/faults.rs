//! What fails while a card is at work: a queue pair of a port, or a core.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use niclab_card::{Card, CardConfig, PortError, PortSource};
use niclab_nic::memory::Region;
use niclab_port::Burst;
use niclab_port::frame_pool::FramePool;
use niclab_port::queue_pair::{QueuePair, QueuePairCounters};

/// What happens to the first queue pair of a port when it is looked at next.
#[derive(Default)]
struct Fate {
    fails: AtomicBool,
    panics: AtomicBool,
    opened: AtomicUsize,
    closed: AtomicUsize,
}

#[derive(Clone)]
struct Fated(Arc<Fate>);

impl fmt::Display for Fated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fated")
    }
}

impl PortSource for Fated {
    fn queue_pair_frames(&self) -> usize {
        0
    }

    fn open(&self, count: u32, _: &Arc<Region>) -> Result<Vec<Box<dyn QueuePair>>, PortError> {
        self.0.opened.fetch_add(1, Ordering::Relaxed);
        let queue_pair = |place| -> Box<dyn QueuePair> {
            Box::new(FatedQueuePair { fate: Arc::clone(&self.0), is_first: place == 0 })
        };
        Ok((0..count).map(queue_pair).collect())
    }

    fn can_reopen(&self) -> bool {
        true
    }
}

struct FatedQueuePair {
    fate: Arc<Fate>,
    is_first: bool,
}

impl QueuePair for FatedQueuePair {
    fn receive(&mut self, _: &mut FramePool, _: &mut Burst) -> io::Result<()> {
        if self.is_first && self.fate.fails.swap(false, Ordering::Relaxed) {
            return Err(io::Error::other("a queue fails"));
        }
        assert!(!(self.is_first && self.fate.panics.load(Ordering::Relaxed)), "on purpose");
        Ok(())
    }

    fn send(&mut self, _: &mut FramePool, _: &mut Burst) -> io::Result<()> {
        Ok(())
    }

    fn counters(&self) -> QueuePairCounters {
        QueuePairCounters::default()
    }

    fn close(self: Box<Self>, _: &mut FramePool) -> io::Result<QueuePairCounters> {
        self.fate.closed.fetch_add(1, Ordering::Relaxed);
        Ok(self.counters())
    }
}

fn card() -> (Arc<Fate>, Card) {
    let fate = Arc::new(Fate::default());
    let config = CardConfig::new(vec![Fated(Arc::clone(&fate))], 2, vec![0, 0]);
    let card = Card::start(&config, "").unwrap();
    (fate, card)
}

/// Tends a card until something is so; what it said last that is missing.
fn tended(card: &mut Card, is_so: impl Fn(&Card) -> bool) -> Vec<String> {
    let until = Instant::now() + Duration::from_secs(10);
    let mut message = Vec::new();
    while !is_so(card) {
        assert!(Instant::now() < until, "for ever");
        let missing = card.run_housekeeping();
        message.extend(missing.into_iter().map(|(name, error)| format!("{name}: {error}")));
        thread::sleep(Duration::from_millis(5));
    }
    message
}

#[test]
fn a_port_of_which_one_queue_pair_fails_is_opened_again_whole() {
    let (fate, mut card) = card();
    fate.fails.store(true, Ordering::Relaxed);
    let message = tended(&mut card, |card| {
        fate.opened.load(Ordering::Relaxed) == 2 && card.counters().ports[0].is_up
    });
    assert_eq!(fate.closed.load(Ordering::Relaxed), 2, "the queue pair beside it is closed, too");
    assert!(message.iter().any(|what| what.contains("a queue fails")), "{message:?}");
    assert_eq!(card.shut_down().frames_lost, 0);
    assert_eq!(fate.closed.load(Ordering::Relaxed), 4);
}

#[test]
fn a_card_with_a_core_that_panics_is_over() {
    let (fate, mut card) = card();
    assert!(!card.is_finished());
    fate.panics.store(true, Ordering::Relaxed);
    tended(&mut card, Card::is_finished);
    assert_eq!(card.shut_down().errors, ["core 0 ended by a fault of niclab"]);
}
