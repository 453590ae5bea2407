//! The rings of clients in every order that two threads can have with up to three preemptions, as
//! the memory model allows them.
//!
//! The very file of the rings, over memory of the model checker's instead of a mapping.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::model::Builder;
use loom::thread;

#[allow(dead_code)]
#[path = "../src/external_queue/ring.rs"]
mod ring;

/// Memory of the model checker's, with the face of the mapping.
mod shared {
    pub use loom::sync::atomic::fence;
    use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    pub const WORD: usize = 8;

    pub struct SharedMemory {
        indices: Vec<AtomicU32>,
        words: Vec<AtomicU64>,
    }

    impl SharedMemory {
        pub fn new(indices: usize, words: usize) -> SharedMemory {
            SharedMemory {
                indices: (0..indices).map(|_| AtomicU32::new(0)).collect(),
                words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            }
        }

        pub fn index(&self, at: usize, order: Ordering) -> u32 {
            self.indices[at / WORD].load(order)
        }

        pub fn set_index(&self, at: usize, index: u32, order: Ordering) {
            self.indices[at / WORD].store(index, order);
        }

        pub fn word(&self, at: usize) -> &AtomicU64 {
            &self.words[at / WORD]
        }
    }
}

use ring::{Consumer, Producer, RingAt, found_asleep};
use shared::{SharedMemory, WORD, fence};

/// Entries of the ring, and frames of a word each behind them.
const ENTRIES: u32 = 2;
const FRAMES: usize = ENTRIES as usize * WORD;

/// How many of them the consumer has read.
const READ: usize = 2 * FRAMES;

const PRODUCER: usize = 0;
const CONSUMER: usize = WORD;
const ASLEEP: usize = 2 * WORD;

fn model(body: impl Fn(Arc<SharedMemory>, Producer<1>, Consumer<1>) + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let (producer, consumer) = (PRODUCER, CONSUMER);
        let at = RingAt { name: "a", producer, consumer, entries: 0, count: ENTRIES };
        let shared = Arc::new(SharedMemory::new(3, 2 * ENTRIES as usize + 1));
        body(shared, Producer::new(at, 0), Consumer::new(at, 0));
    });
    let runs = runs.load(Ordering::Relaxed);
    assert!(runs > 20, "{runs} orders are too few to have tried anything");
}

/// Where the frame of an entry is, which is written over by one that comes two later.
fn frame(number: u64) -> usize {
    FRAMES + number as usize % ENTRIES as usize * WORD
}

#[test]
fn a_reader_of_an_index_sees_all_earlier_writes() {
    const COUNT: u64 = 3;
    model(|shared, mut producer, mut consumer| {
        let there = Arc::clone(&shared);
        let sending = thread::spawn(move || {
            for number in 0..COUNT {
                while producer.room(&there, 1).unwrap() == 0 {
                    thread::yield_now();
                }
                // What was there before has been read: the model has no loads that come late, so
                // the other says by a store that it has.
                let read = there.word(READ).load(Ordering::Relaxed);
                assert!(read + u64::from(ENTRIES) > number, "{read} frames are read of {number}");
                there.word(frame(number)).store(100 + number, Ordering::Relaxed);
                producer.put(&there, [number]);
                producer.publish(&there);
            }
        });
        let taking = thread::spawn(move || {
            for number in 0..COUNT {
                while consumer.available(&shared, 1).unwrap() == 0 {
                    thread::yield_now();
                }
                assert_eq!(consumer.take(&shared), [number]);
                let frame = shared.word(frame(number)).load(Ordering::Relaxed);
                assert_eq!(frame, 100 + number);
                shared.word(READ).store(number + 1, Ordering::Relaxed);
                consumer.release(&shared);
            }
        });
        sending.join().unwrap();
        taking.join().unwrap();
    });
}

#[test]
fn a_client_that_falls_asleep_is_woken_or_sees_the_entry() {
    model(|shared, mut producer, mut consumer| {
        let there = Arc::clone(&shared);
        let card = thread::spawn(move || {
            producer.room(&there, 1).unwrap();
            producer.put(&there, [1]);
            producer.publish(&there);
            found_asleep(&there, ASLEEP)
        });
        let client = thread::spawn(move || {
            shared.set_index(ASLEEP, 1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            consumer.available(&shared, 1).unwrap() > 0
        });
        let (is_rung, has_seen) = (card.join().unwrap(), client.join().unwrap());
        assert!(is_rung || has_seen, "a lost wake-up");
    });
}
