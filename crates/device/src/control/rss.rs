//! Random changes of RSS, the same for every device that carries out such a plan.

use niclab_nic::limits::INDIRECTION_LEN;
use niclab_nic::rss::{HashFunction, HashTypes, Rss, evenly};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::plan::RssChangeKind;

/// Most entries of the table that one change gives other queues.
const ENTRIES_MAX: usize = 40;

/// Bytes of a key where a device does not tell how long its own is.
const KEY_LEN: usize = 40;

/// Makes the states of RSS that a plan goes through.
pub struct RandomRss {
    random: Xoshiro256PlusPlus,
    queues: u16,
    entries: usize,
}

impl RandomRss {
    /// Changes for a device of so many queues, all from this seed. Its table has 1 to
    /// [`INDIRECTION_LEN`] entries.
    pub fn new(seed: u64, queues: u16, entries: usize) -> RandomRss {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        RandomRss { random, queues: queues.max(1), entries: entries.clamp(1, INDIRECTION_LEN) }
    }

    /// The state of RSS with a random change.
    pub fn changed(&mut self, rss: &Rss, change: RssChangeKind) -> Rss {
        use RssChangeKind::{Any, Entries, Fields, Function, Key, Queues};
        let mut rss = rss.clone();
        match change {
            Any => {
                let one = [Entries, Queues, Key, Function, Fields][self.random.random_range(0..5)];
                return self.changed(&rss, one);
            }
            Entries => {
                for _ in 0..self.random.random_range(1..=ENTRIES_MAX) {
                    let entry = self.random.random_range(0..self.entries);
                    rss.indirection[entry] = self.random.random_range(0..self.queues);
                }
            }
            Queues => {
                rss.indirection = evenly(0..self.random.random_range(1..=self.queues));
            }
            Key => rss.key = self.key(rss.key.len()),
            Function => {
                rss.function = match rss.function {
                    HashFunction::Toeplitz => HashFunction::SymmetricToeplitz,
                    HashFunction::SymmetricToeplitz => HashFunction::Toeplitz,
                }
            }
            Fields => {
                let addresses = rss.types == HashTypes::IP;
                rss.types = if addresses { HashTypes::IP | HashTypes::UDP } else { HashTypes::IP };
            }
        }
        rss
    }

    /// A random key of this length, bytes; 0 stands for the usual one.
    pub fn key(&mut self, len: usize) -> Vec<u8> {
        let len = if len == 0 { KEY_LEN } else { len };
        (0..len).map(|_| self.random.random()).collect()
    }
}
