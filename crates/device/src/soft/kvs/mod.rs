//! A key-value store behind a card's queues: measures how much the card's help saves the cores that
//! serve.
//!
//! The store runs behind the queues of the card that `niclab kvs` runs. The card takes all requests
//! before anything is timed. It chooses their queues by RSS or by the program `kvs-steering`, and
//! the core of a queue keeps its requests in memory, beyond the second cache. With the program
//! `kvs-items` the card writes items and events. Then the cores serve what they have, all at once,
//! and that is timed: the turns of the card's cores in which `Station` answers, as in `niclab kvs`.
//!
//! Staged: this shows time and throughput, no latency and no loss.

mod dma_writes;
mod host;
mod load;
mod pass;
mod serve;

pub use load::{FRAMES, KEY_LEN, KEYS_MAX, KeyPopularity, KeyWorkload, VALUE_LEN};
pub use pass::{AnswerCheck, Pass, StagedStore};
use serde::{Deserialize, Serialize};
pub use serve::CORES_MAX;
pub(super) use serve::{places, serve};

/// What the card does for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Build {
    /// It spreads clients over the cores by their addresses: any core may get any key.
    Rss {
        /// Partitions of the store.
        partitions: usize,
    },
    /// It gives each core the requests for the keys of its own partition.
    Steer,
    /// It writes items and answers for them, and tells each core what it is asked for.
    Dma,
}

impl Build {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Build::Rss { .. } => "rss",
            Build::Steer => "steer",
            Build::Dma => "dma",
        }
    }
}

#[cfg(test)]
mod tests {
    use niclab_apps::kvs::codec::datagram::batch::BatchStep;

    use super::*;

    const RSS: Build = Build::Rss { partitions: 2 };

    #[test]
    fn every_build_answers_every_request_right() {
        let many = Build::Rss { partitions: 9 };
        for keys in [KeyPopularity::Uniform, KeyPopularity::Zipf] {
            let one = [(RSS, 1), (Build::Dma, 5)];
            for (build, burst) in [RSS, many, Build::Steer, Build::Dma]
                .map(|build| (build, 64))
                .into_iter()
                .chain(one)
            {
                let asked = KeyWorkload::published(keys);
                let mut staged = StagedStore::new(build, &asked, &[None; 2], burst).unwrap();
                for pass in [staged.pass().unwrap(), staged.timed_pass().unwrap()] {
                    assert!((24_000..25_000).contains(&pass.requests), "three of four are timed");
                    assert!(pass.ns > 0 && pass.worked_ns > 0);
                    assert_eq!(pass.steps_ns[BatchStep::Hash as usize] > 0, pass.is_watched);
                }
                assert_eq!(staged.check_answers().unwrap().wrong, 0, "{build:?}");
                assert!(staged.card_ns().unwrap() > 0);
                assert!(staged.pass().is_ok());
                let share = staged.share();
                assert!(staged.end().unwrap() >= 5 * FRAMES as u64, "the card took all of them");
                assert!((0.4..0.6).contains(&share), "{build:?}, {keys:?}: {share}");
            }
        }
    }

    #[test]
    fn the_card_whose_work_is_timed_stands_on_the_requests_way() {
        let places = places();
        let roles: Vec<_> = places.iter().map(|place| place.role.as_str()).collect();
        assert_eq!(roles, ["memory", "device", "memory", "function"]);
    }

    #[test]
    fn any_number_of_cores_serves_what_is_asked() {
        let loads = [(1, 1_000, 100), (3, 10, 50), (4, 1_000, 0), (1, 10, 91), (3, 1_000, 95)];
        for (cores, count, gets_percent) in loads {
            for build in [RSS, Build::Steer, Build::Dma] {
                let asked = KeyWorkload { keys: KeyPopularity::Uniform, count, gets_percent };
                let made = StagedStore::new(build, &asked, &vec![None; cores], 64);
                if build == Build::Dma && gets_percent < 90 {
                    let message = made.err().unwrap().to_string();
                    assert!(message.contains("more sets in a pass"), "{message}");
                    continue;
                }
                let mut staged = made.unwrap();
                assert!(staged.pass().is_ok());
                assert_eq!(staged.check_answers().unwrap().wrong, 0, "{build:?} on {cores} cores");
            }
        }
    }

    #[test]
    fn a_wrong_answer_is_counted() {
        for build in [Build::Steer, Build::Dma] {
            let asked = KeyWorkload::published(KeyPopularity::Uniform);
            let mut staged = StagedStore::new(build, &asked, &[None; 2], 64).unwrap();
            staged.clear();
            staged.pass().unwrap();
            assert!(staged.check_answers().unwrap().wrong > 0, "gets of items that are not there");
        }
    }
}
