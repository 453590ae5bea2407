//! Decides how RSS changes if a queue fills. `card` carries the decision out.
//!
//! Two ways, to be compared: entries of the indirection table move from busy queues to others, as
//! in RSS++ (Barbette et al., "RSS++: load and state-aware receive side scaling", CoNEXT 2019), or
//! the next of some keys is taken, in the hope that it spreads these flows better. Both decide by
//! what was counted since they last did, and do nothing while no core is near its limit.
//!
//! Where cores are to be saved, as many are in use as the load needs: one less where those that
//! stay could do it with room to spare, one more where one is near its limit.

use niclab_nic::limits::INDIRECTION_LEN;
use niclab_nic::rss::Indirection;

/// A core that is busy for a greater share of the time is near its limit.
const BUSY_MAX: f64 = 0.8;

/// Cores are saved as long as those that stay are busy for a smaller share of the time.
const BUSY_SAVED: f64 = 0.5;

/// A queue that has more than so many times its share has too much.
const SHARE_MAX: f64 = 1.1;

/// Frames below which nothing is decided: they would say little.
const FRAMES_MIN: u64 = 1_000;

/// The reaction to a queue that fills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Balance {
    /// The next of these keys is taken, in turn; once all were tried, the best of them.
    Keys(Vec<Vec<u8>>),
    /// Entries of the indirection table move to other queues.
    Moves {
        /// Only as many cores are in use as the load needs.
        save_cores: bool,
    },
}

/// Counts since the last decision.
#[derive(Clone, Debug)]
pub(crate) struct PortLoad {
    /// Frames by entry of the indirection table.
    pub(crate) entries: Box<[u64; INDIRECTION_LEN]>,
    /// Share of the time that each core was busy, 0 to 1.
    pub(crate) busy: Vec<f64>,
    /// Frames that found the ring to their core full.
    pub(crate) missed: u64,
}

/// A change of RSS.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision {
    /// This key.
    Key(Vec<u8>),
    /// This table.
    Table(Box<Indirection>),
}

/// Makes the decisions for one port.
#[derive(Debug)]
pub(crate) struct Balancer {
    how: Balance,
    /// The queues that it spreads over; what the table gives to others stays with them.
    queues: Vec<u16>,
    cores: usize,
    /// Cores in use, the first ones.
    used: usize,
    /// Keys that were tried, and the share that the busiest queue had with each.
    tried: Vec<f64>,
    /// All keys were tried, and the best one taken.
    is_decided: bool,
}

impl Balancer {
    pub(crate) fn new(how: Balance, queues: Vec<u16>, cores: usize) -> Balancer {
        Balancer { how, queues, cores, used: cores, tried: Vec::new(), is_decided: false }
    }

    /// The change to make now, if any.
    pub(crate) fn decide(&mut self, seen: &PortLoad, table: &Indirection) -> Option<Decision> {
        let frames: u64 = seen.entries.iter().sum();
        let busiest = seen.busy.iter().copied().fold(0.0, f64::max);
        let fills = seen.missed > 0 || busiest > BUSY_MAX;
        match &self.how {
            Balance::Keys(_) if fills && frames >= FRAMES_MIN => self.next_key(seen, table),
            Balance::Keys(_) => None,
            Balance::Moves { save_cores } => {
                let before = self.used;
                if *save_cores {
                    self.used = self.needed(&seen.busy, fills);
                }
                let is_other = self.used != before;
                if !is_other && (!fills || frames < FRAMES_MIN) {
                    return None;
                }
                let even = self.rebalanced(&seen.entries, table);
                (*even != *table).then_some(Decision::Table(even))
            }
        }
    }

    /// Cores that the load needs.
    fn needed(&self, busy: &[f64], fills: bool) -> usize {
        let work: f64 = busy.iter().sum();
        match fills {
            true => (self.used + 1).min(self.cores),
            false if self.used > 1 && work < BUSY_SAVED * (self.used - 1) as f64 => self.used - 1,
            false => self.used,
        }
    }

    /// Queues that may be named: those of the cores in use.
    fn allowed(&self) -> Vec<u16> {
        let is_used = |queue: &u16| usize::from(*queue) % self.cores < self.used;
        self.queues.iter().copied().filter(is_used).collect()
    }

    /// A table by which no queue has much more than its share, with few entries moved: as long as
    /// the busiest has too much, it gives the least busy one the entry that evens both out best.
    fn rebalanced(
        &self,
        entries: &[u64; INDIRECTION_LEN],
        table: &Indirection,
    ) -> Box<Indirection> {
        let allowed = self.allowed();
        let place = |queue: u16| allowed.iter().position(|one| *one == queue);
        let mut table = Box::new(*table);
        if allowed.is_empty() {
            return table;
        }
        let mut loads = vec![0_u64; allowed.len()];
        for (entry, queue) in table.iter().enumerate() {
            if let Some(at) = place(*queue) {
                loads[at] += entries[entry];
            }
        }
        let least = |loads: &[u64]| (0..loads.len()).min_by_key(|at| loads[*at]).unwrap_or(0);
        // Entries of queues that are not in use any more, the heaviest first.
        let is_homeless = |entry: &usize| {
            let queue = table[*entry];
            place(queue).is_none() && self.queues.contains(&queue)
        };
        let mut homeless: Vec<usize> = (0..INDIRECTION_LEN).filter(is_homeless).collect();
        homeless.sort_by_key(|entry| std::cmp::Reverse(entries[*entry]));
        for (turn, entry) in homeless.into_iter().enumerate() {
            // Those without frames are spread evenly, for what comes later.
            let at = if entries[entry] == 0 { turn % loads.len() } else { least(&loads) };
            table[entry] = allowed[at];
            loads[at] += entries[entry];
        }
        let share = loads.iter().sum::<u64>() as f64 / loads.len() as f64;
        for _ in 0..INDIRECTION_LEN {
            let (low, high) =
                (least(&loads), (0..loads.len()).max_by_key(|at| loads[*at]).unwrap_or(0));
            if loads[high] as f64 <= SHARE_MAX * share {
                break;
            }
            let gap = loads[high] - loads[low];
            // Half of the gap would even both out; what is greater than the gap makes it worse.
            let own = (0..INDIRECTION_LEN).filter(|entry| table[*entry] == allowed[high]);
            let fits = own.filter(|entry| (1..gap).contains(&entries[*entry]));
            let Some(best) = fits.min_by_key(|entry| (2 * entries[*entry]).abs_diff(gap)) else {
                break;
            };
            table[best] = allowed[low];
            loads[high] -= entries[best];
            loads[low] += entries[best];
        }
        table
    }

    /// The next key, where the present one gives a queue too much.
    fn next_key(&mut self, seen: &PortLoad, table: &Indirection) -> Option<Decision> {
        let Balance::Keys(keys) = &self.how else { return None };
        let share = busiest_share(&seen.entries, table, &self.queues);
        if self.is_decided || share <= SHARE_MAX {
            return None;
        }
        // Of the key that was there first nothing is kept: it is not one of them.
        if self.tried.len() < keys.len() {
            self.tried.push(share);
            return keys.get(self.tried.len() - 1).cloned().map(Decision::Key);
        }
        self.is_decided = true;
        let mut shares = self.tried.split_off(1);
        shares.push(share);
        let best = (0..shares.len()).min_by(|a, b| shares[*a].total_cmp(&shares[*b]))?;
        (best + 1 != shares.len()).then(|| Decision::Key(keys[best].clone()))
    }
}

/// How many times its share the busiest of these queues has.
fn busiest_share(entries: &[u64; INDIRECTION_LEN], table: &Indirection, queues: &[u16]) -> f64 {
    let load = |queue: &u16| -> u64 {
        let own = entries.iter().zip(table).filter(|(_, named)| *named == queue);
        own.map(|(frames, _)| frames).sum()
    };
    let loads: Vec<u64> = queues.iter().map(load).collect();
    let (all, most) = (loads.iter().sum::<u64>(), loads.iter().copied().max().unwrap_or(0));
    most as f64 * queues.len() as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use niclab_nic::rss::evenly;

    use super::*;

    const QUEUES: u16 = 8;

    fn queues() -> Vec<u16> {
        (0..QUEUES).collect()
    }

    fn load(entries: impl Fn(usize) -> u64, busy: &[f64], missed: u64) -> PortLoad {
        let entries = Box::new(std::array::from_fn(entries));
        PortLoad { entries, busy: busy.to_vec(), missed }
    }

    fn moves(save_cores: bool) -> Balancer {
        Balancer::new(Balance::Moves { save_cores }, queues(), 4)
    }

    fn table_of(decision: Option<Decision>) -> Box<Indirection> {
        match decision {
            Some(Decision::Table(table)) => table,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_busy_queue_gives_away_few_entries_and_all_have_their_share() {
        // Every entry of queue 2 is ten times as heavy.
        let entries = |entry: usize| if entry % 8 == 2 { 1_000 } else { 100 };
        let (before, seen) = (evenly(0..QUEUES), load(entries, &[0.2, 0.2, 0.9, 0.2], 0));
        let after = table_of(moves(false).decide(&seen, &before));
        let share = |table| busiest_share(&seen.entries, table, &queues());
        assert!(share(&before) > 4.0 && share(&after) <= SHARE_MAX, "{}", share(&after));
        let moved = (0..INDIRECTION_LEN).filter(|at| before[*at] != after[*at]).count();
        assert!((40..60).contains(&moved), "{moved} entries moved of 64 heavy ones");
    }

    #[test]
    fn rss_stays_if_no_queue_fills_or_no_change_helps() {
        let before = evenly(0..QUEUES);
        let heavy = |entry: usize| if entry % 8 == 2 { 1_000 } else { 100 };
        assert_eq!(moves(false).decide(&load(heavy, &[0.5; 4], 0), &before), None, "idle");
        assert!(moves(false).decide(&load(heavy, &[0.5; 4], 1), &before).is_some(), "missed");
        let even = load(|_| 100, &[0.9; 4], 0);
        assert_eq!(moves(false).decide(&even, &before), None, "all have their share");
        // One flow that is heavier than all others together.
        let one = load(|entry| if entry == 2 { 100_000 } else { 0 }, &[0.9; 4], 9);
        assert_eq!(moves(false).decide(&one, &before), None, "one flow has one core");
        let few = load(|entry| u64::from(entry == 2), &[0.9; 4], 0);
        assert_eq!(moves(false).decide(&few, &before), None, "too few frames");
    }

    #[test]
    fn cores_are_saved_one_by_one_and_taken_back_when_load_comes() {
        let mut balancer = moves(true);
        let mut table = evenly(0..QUEUES);
        let cores = |table: &Indirection| {
            let mut cores: Vec<u16> = table.iter().map(|queue| queue % 4).collect();
            cores.sort_unstable();
            cores.dedup();
            cores.len()
        };
        for left in [3, 2, 1] {
            table = table_of(balancer.decide(&load(|_| 10, &[0.05; 4], 0), &table));
            assert_eq!(cores(&table), left);
        }
        assert_eq!(balancer.decide(&load(|_| 10, &[0.2, 0.0, 0.0, 0.0], 0), &table), None);
        // No frame says anything of the entries: they are spread all the same.
        for used in [2, 3, 4] {
            table = table_of(balancer.decide(&load(|_| 500, &[0.95, 0.0, 0.0, 0.0], 0), &table));
            assert_eq!(cores(&table), used);
        }
        let share = busiest_share(&load(|_| 500, &[], 0).entries, &table, &queues());
        assert!(share <= SHARE_MAX, "{share}");
    }

    #[test]
    fn queues_that_have_no_part_in_it_keep_their_entries_and_get_no_others() {
        let others = vec![0, 1, 2, 4, 5, 6, 7];
        let how = Balance::Moves { save_cores: true };
        let mut balancer = Balancer::new(how, others, 4);
        let mut table = evenly(0..QUEUES);
        let own = |table: &Indirection| -> Vec<usize> {
            (0..INDIRECTION_LEN).filter(|entry| table[*entry] == 3).collect()
        };
        let before = own(&table);
        // Cores go, core 3 and with it queue 3 first, and come back with a queue that is heavy.
        let heavy = |entry: usize| if entry % 8 < 4 { 1_000 } else { 10 };
        for busy in [0.05, 0.05, 0.05, 0.95, 0.95, 0.95] {
            if let Some(decision) = balancer.decide(&load(heavy, &[busy; 4], 0), &table) {
                table = table_of(Some(decision));
            }
            assert_eq!(own(&table), before, "{busy}");
        }
    }

    #[test]
    fn keys_are_tried_in_turn_and_the_best_is_kept() {
        let keys: Vec<Vec<u8>> = (1..=3).map(|byte| vec![byte; 40]).collect();
        let mut balancer = Balancer::new(Balance::Keys(keys.clone()), queues(), 4);
        let table = evenly(0..QUEUES);
        let skewed =
            |by: u64| load(move |entry| if entry % 8 == 2 { 100 * by } else { 100 }, &[0.9; 4], 1);
        assert_eq!(balancer.decide(&load(|_| 100, &[0.9; 4], 1), &table), None, "even");
        for (by, key) in [(9, 0), (7, 1), (2, 2)] {
            let wanted = Some(Decision::Key(keys[key].clone()));
            assert_eq!(balancer.decide(&skewed(by), &table), wanted);
        }
        assert_eq!(balancer.decide(&skewed(5), &table), Some(Decision::Key(keys[1].clone())));
        assert_eq!(balancer.decide(&skewed(9), &table), None, "all were tried");
    }
}
