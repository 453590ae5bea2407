//! Rings of an application in every order that two cores and it can have with up to three
//! preemptions, as the memory model allows them.
//!
//! The very file of the rings, over memory of the model checker's instead of a mapping. Entries are
//! cells that it watches: one that is read or written while another thread may still be at it, for
//! want of a release or an acquire between the two, is found.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use loom::model::Builder;
use loom::thread;

#[allow(dead_code)]
#[path = "../src/dma.rs"]
mod dma;

/// Memory of the model checker's, with the face of the mapping.
mod shared_memory {
    use std::sync::Mutex;

    use loom::cell::Cell;
    pub use loom::sync::atomic::{AtomicU64, Ordering};

    pub const WORD: usize = 8;

    /// Of each word what the rings see, and what an entry has there: nothing reads both.
    #[derive(Debug)]
    pub struct SharedMemory(pub Vec<(AtomicU64, Entry)>);

    /// The lock lends the cell to several threads and is no part of the model: nothing else runs
    /// while it is held.
    pub type Entry = Mutex<Cell<u64>>;

    impl SharedMemory {
        pub fn of(words: usize) -> SharedMemory {
            SharedMemory(
                (0..words).map(|_| (AtomicU64::new(0), Mutex::new(Cell::new(0)))).collect(),
            )
        }

        pub fn word(&self, at: usize) -> &AtomicU64 {
            &self.0[at / WORD].0
        }

        pub fn read(&self, at: usize) -> u64 {
            self.0[at / WORD].1.lock().unwrap().get()
        }

        pub fn write(&self, at: usize, value: u64) {
            self.0[at / WORD].1.lock().unwrap().set(value);
        }

        pub fn len_bytes(&self) -> usize {
            self.0.len() * WORD
        }
    }
}

use dma::{Filler, Reader, Shape, ring};
use shared_memory::{AtomicU64, SharedMemory};

/// Of a word each.
const SHAPE: Shape = Shape { entries: 2, entry_len: 8 };

fn model(body: impl Fn(Filler, Reader) + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        let words = SHAPE.bytes() / shared_memory::WORD;
        let shared = Arc::new(SharedMemory::of(words));
        let (filler, reader) = ring(&shared, SHAPE);
        body(filler, reader);
    });
    let runs = runs.load(Relaxed);
    assert!(runs > 3, "{runs} orders are too few to have tried anything");
}

fn put(filler: &Filler, value: u64) -> bool {
    filler.fill(|shared, at| shared.write(at, value))
}

fn get(reader: &mut Reader) -> Option<u64> {
    reader.take(|shared, at| shared.read(at))
}

#[test]
fn what_two_cores_fill_comes_out_once_each_and_in_their_order() {
    model(|filler, mut reader| {
        let filler = Arc::new(filler);
        let cores = [1, 2].map(|core| {
            let filler = Arc::clone(&filler);
            // Three entries of two cores, in a ring of two.
            thread::spawn(move || (1..=core).filter(|n| put(&filler, 10 * core + n)).count())
        });
        let mut seen: Vec<u64> = (0..3).filter_map(|_| get(&mut reader)).collect();
        let filled: usize = cores.into_iter().map(|core| core.join().unwrap()).sum();
        seen.extend(std::iter::from_fn(|| get(&mut reader)));
        assert_eq!(seen.len(), filled, "{seen:?}");
        assert!(filled >= 2, "a ring of two has room for two");
        let second: Vec<u64> = seen.iter().copied().filter(|value| *value > 20).collect();
        assert!(second.is_sorted_by(|a, b| a < b) && seen.iter().all(|v| [11, 21, 22].contains(v)));
    });
}

#[test]
fn an_entry_is_not_filled_again_before_it_is_read() {
    model(|filler, mut reader| {
        assert!(put(&filler, 1) && put(&filler, 2) && !put(&filler, 3));
        let core = thread::spawn(move || put(&filler, 4));
        assert_eq!(get(&mut reader), Some(1));
        assert_eq!(get(&mut reader), Some(2));
        let came = core.join().unwrap();
        assert_eq!(get(&mut reader), came.then_some(4));
    });
}

#[test]
fn what_a_core_wrote_before_is_there_with_the_entry() {
    model(|filler, mut reader| {
        let window = Arc::new(AtomicU64::new(0));
        let written = Arc::clone(&window);
        let core = thread::spawn(move || {
            written.store(7, Relaxed);
            assert!(put(&filler, 1));
        });
        let application = thread::spawn(move || {
            if get(&mut reader).is_some() {
                assert_eq!(window.load(Relaxed), 7);
            }
        });
        core.join().unwrap();
        application.join().unwrap();
    });
}

#[test]
fn what_is_looked_at_stays_until_it_is_taken() {
    model(|filler, reader| {
        let look = |reader: &Reader, ahead| reader.look(ahead, |shared, at| shared.read(at));
        assert!(put(&filler, 1));
        let core = thread::spawn(move || assert!(put(&filler, 2) && !put(&filler, 3)));
        let application = thread::spawn(move || {
            assert_eq!((look(&reader, 0), look(&reader, 0)), (Some(1), Some(1)));
            let second = look(&reader, 1);
            assert!(second.is_none_or(|value| value == 2));
            // The slot of the first one is not that of the third.
            assert_eq!(look(&reader, 2), None);
            reader
        });
        core.join().unwrap();
        let mut reader = application.join().unwrap();
        assert_eq!(look(&reader, 1), Some(2));
        assert_eq!((get(&mut reader), reader.taken()), (Some(1), 1));
        assert_eq!((look(&reader, 0), look(&reader, 1)), (Some(2), None));
    });
}
