//! Meters: token buckets that rules, programs and workers share.
//!
//! A meter has two buckets of tokens; a token is a byte. It colours packets as RFC 2697 (one rate)
//! or RFC 2698 (two rates) says. In the colour-aware mode a packet keeps a worse colour that it had
//! before; if all packets were green before, this is the colour-blind mode. A bucket has whole
//! tokens: at each time, the rate times that time, rounded down.
//!
//! Nothing here reads a clock: the caller passes the time ([`Worker::set_time_ns`]).
//!
//! # Many workers
//!
//! Each step is one or two atomic operations, and none is retried. The worker that moves the
//! meter's time forward adds the tokens of that interval, and no other worker does. A packet takes
//! all its tokens or none. So all workers together let at most the buckets' tokens plus the added
//! tokens through. They may let less through, for two reasons: tokens that are added while others
//! take some find the bucket fuller than it is, and a packet that is about to be refused hides its
//! tokens from others for a moment. With one worker the meter is exact.
//!
//! [`Worker::set_time_ns`]: crate::Worker::set_time_ns

use std::sync::atomic::{AtomicU64, Ordering};

use niclab_table::Segments;
use serde::{Deserialize, Serialize};

use crate::action_list::ActionStep;
use crate::action_word::Fate;
use crate::control::Nic;
use crate::error::RuleError;
use crate::limits::{METER_SIZE_MAX, METERS_MAX};

const NS_PER_S: u128 = 1_000_000_000;

/// The parameters of a meter. Rates are bytes a second, burst sizes are bytes, all at most
/// [`METER_SIZE_MAX`]. The length of a packet is the one that `count` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meter {
    /// One rate (RFC 2697): a packet takes its tokens from the first bucket, or else from the
    /// second, which fills when the first is full. At least one of the sizes is not 0.
    SingleRate {
        /// Committed information rate.
        cir_bytes_per_s: u64,
        /// Committed burst size: the first bucket.
        cbs_bytes: u64,
        /// Excess burst size: the second bucket.
        ebs_bytes: u64,
    },
    /// Two rates (RFC 2698): a packet that exceeds the peak rate is red. Sizes are not 0, and the
    /// peak rate is not below the committed rate.
    TwoRate {
        /// Committed information rate.
        cir_bytes_per_s: u64,
        /// Peak information rate.
        pir_bytes_per_s: u64,
        /// Committed burst size.
        cbs_bytes: u64,
        /// Peak burst size.
        pbs_bytes: u64,
    },
}

/// The colour of a packet, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Colour {
    /// Within the committed rate.
    Green,
    /// Above the committed rate, within the excess burst or the peak rate.
    Yellow,
    /// Above both.
    Red,
}

/// Words of a meter: one cache line.
const WORDS: usize = 8;

/// One rate, two rates, or no meter (0).
const KIND: usize = 0;
/// Bytes a second: committed, then peak.
const RATES: [usize; 2] = [1, 2];
/// Sizes of the committed bucket, and of the excess or peak bucket.
const SIZES: [usize; 2] = [3, 4];
/// Tokens in the buckets; an `i64` each.
const TOKENS: [usize; 2] = [5, 6];
/// The time until which tokens were added, nanoseconds.
const FILLED_NS: usize = 7;

const SINGLE: u64 = 1;
const TWO: u64 = 2;

/// An array of meters. One thread sets them, and any number of workers use them.
#[derive(Debug)]
pub struct Meters(Segments<WORDS>);

/// A meter of the array.
struct Buckets<'a>(&'a [AtomicU64; WORDS]);

impl Meter {
    /// What is wrong with the parameters, if anything.
    fn problem(&self) -> Option<&'static str> {
        let (rates, sizes) = self.numbers();
        let most = rates.into_iter().chain(sizes).max();
        match *self {
            _ if most > Some(METER_SIZE_MAX) => Some("rates and sizes are at most 2^40"),
            Meter::SingleRate { .. } if sizes == [0, 0] => Some("one of the sizes is not 0"),
            Meter::TwoRate { .. } if sizes.contains(&0) => Some("no size is 0"),
            Meter::TwoRate { .. } if rates[1] < rates[0] => {
                Some("the peak rate is not below the committed rate")
            }
            _ => None,
        }
    }

    /// Rates, and sizes of buckets.
    fn numbers(&self) -> ([u64; 2], [u64; 2]) {
        match *self {
            Meter::SingleRate { cir_bytes_per_s, cbs_bytes, ebs_bytes } => {
                ([cir_bytes_per_s, 0], [cbs_bytes, ebs_bytes])
            }
            Meter::TwoRate { cir_bytes_per_s, pir_bytes_per_s, cbs_bytes, pbs_bytes } => {
                ([cir_bytes_per_s, pir_bytes_per_s], [cbs_bytes, pbs_bytes])
            }
        }
    }
}

impl Meters {
    /// An array for numbers below `len`, without meters.
    #[must_use]
    pub fn new(len: u32) -> Meters {
        Meters(Segments::new(len))
    }

    /// Sets the meter of a number, with full buckets at this time. For one thread; may allocate. A
    /// worker that uses the meter at the same moment may see a mixture of the old and the new one.
    ///
    /// # Panics
    /// If the number is not below the length, or there is no memory.
    pub fn set(&self, number: u32, meter: &Meter, now_ns: u64) {
        Buckets(self.0.ensure(number)).set(meter, now_ns);
    }

    /// The colour of a packet of this length at this time, at best its colour before; `None` if the
    /// number has no meter.
    #[inline]
    #[must_use]
    pub fn colour(&self, number: u32, bytes: u64, before: Colour, now_ns: u64) -> Option<Colour> {
        Buckets(self.0.get(number)?).colour(bytes, before, now_ns)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

impl Buckets<'_> {
    fn set(&self, meter: &Meter, now_ns: u64) {
        let (rates, sizes) = meter.numbers();
        for at in 0..2 {
            self.0[RATES[at]].store(rates[at], Ordering::Relaxed);
            self.0[SIZES[at]].store(sizes[at], Ordering::Relaxed);
            self.0[TOKENS[at]].store(sizes[at], Ordering::Relaxed);
        }
        self.0[FILLED_NS].store(now_ns, Ordering::Relaxed);
        let kind = if matches!(meter, Meter::SingleRate { .. }) { SINGLE } else { TWO };
        self.0[KIND].store(kind, Ordering::Relaxed);
    }

    #[inline]
    fn colour(&self, bytes: u64, before: Colour, now_ns: u64) -> Option<Colour> {
        let kind = self.0[KIND].load(Ordering::Relaxed);
        if kind == 0 {
            return None;
        }
        self.fill(kind, now_ns);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let takes = |bucket: usize| take(&self.0[TOKENS[bucket]], bytes);
        Some(match (kind, before) {
            (_, Colour::Red) => Colour::Red,
            (SINGLE, Colour::Green) if takes(0) => Colour::Green,
            (SINGLE, _) if takes(1) => Colour::Yellow,
            (TWO, _) if !takes(1) => Colour::Red,
            (TWO, Colour::Green) if takes(0) => Colour::Green,
            (TWO, _) => Colour::Yellow,
            _ => Colour::Red,
        })
    }

    /// Adds the tokens for the time since the last worker added some.
    #[inline]
    fn fill(&self, kind: u64, now_ns: u64) {
        let before_ns = self.0[FILLED_NS].load(Ordering::Relaxed);
        if now_ns > before_ns && swap(&self.0[FILLED_NS], before_ns, now_ns) {
            self.fill_between(kind, before_ns, now_ns);
        }
    }

    #[cold]
    fn fill_between(&self, kind: u64, before_ns: u64, now_ns: u64) {
        let most = i64::try_from(2 * METER_SIZE_MAX).unwrap_or(i64::MAX);
        let came = |bucket: usize| {
            let rate = u128::from(self.0[RATES[bucket]].load(Ordering::Relaxed));
            let until = |time_ns| u128::from(time_ns) * rate / NS_PER_S;
            i64::try_from(until(now_ns) - until(before_ns)).map_or(most, |came| came.min(most))
        };
        let adds = |bucket: usize, came: i64| {
            let size = self.0[SIZES[bucket]].load(Ordering::Relaxed) as i64;
            add(&self.0[TOKENS[bucket]], came, size)
        };
        let over = adds(0, came(0));
        adds(1, if kind == SINGLE { over } else { came(1) });
    }
}

#[inline]
fn swap(slot: &AtomicU64, old: u64, new: u64) -> bool {
    slot.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// Takes tokens if there are enough.
#[inline]
fn take(tokens: &AtomicU64, bytes: i64) -> bool {
    if (tokens.load(Ordering::Relaxed) as i64) < bytes {
        return false;
    }
    let is_enough = tokens.fetch_sub(bytes as u64, Ordering::Relaxed) as i64 >= bytes;
    if !is_enough {
        // Another worker was faster.
        tokens.fetch_add(bytes as u64, Ordering::Relaxed);
    }
    is_enough
}

/// Adds tokens while there is room; returns how many found no room.
fn add(tokens: &AtomicU64, came: i64, size: i64) -> i64 {
    let room = (size - tokens.load(Ordering::Relaxed) as i64).max(0);
    let fits = came.min(room);
    if fits > 0 {
        tokens.fetch_add(fits as u64, Ordering::Relaxed);
    }
    came - fits
}

impl Nic {
    /// Creates a meter with full buckets, which rules can name.
    ///
    /// # Errors
    /// [`RuleError::MeterUnfit`], also while packets may still use a destroyed meter of this
    /// number; [`RuleError::MeterKnown`] if the meter exists.
    pub fn create_meter(&mut self, number: u32, meter: &Meter) -> Result<(), RuleError> {
        let numbered = (number >= METERS_MAX).then_some("meters have numbers 0 to 65535");
        if let Some(reason) = numbered.or(meter.problem()) {
            return Err(RuleError::MeterUnfit { number, reason });
        }
        match self.meters.get(&number) {
            Some(None) => return Err(RuleError::MeterKnown { number }),
            // A burst may still have the word of a rule that named it.
            Some(Some(stamp)) if *stamp > self.shared.domain.passed() => {
                let reason = "just destroyed; let every worker run, or use another number";
                return Err(RuleError::MeterUnfit { number, reason });
            }
            _ => {}
        }
        // Workers see it before the word of any rule that names it.
        self.shared.meters.set(number, meter, 0);
        self.meters.insert(number, None);
        Ok(())
    }

    /// Destroys a meter. Goes through all rules. A burst may still use it for a moment.
    ///
    /// # Errors
    /// [`RuleError::MeterUnknown`], and [`RuleError::MeterUsed`] while a rule names it.
    pub fn destroy_meter(&mut self, number: u32) -> Result<(), RuleError> {
        if !self.has_meter(number) {
            return Err(RuleError::MeterUnknown { number });
        }
        if self.records.iter().any(|record| self.names_meter(record.word.fate(), number)) {
            return Err(RuleError::MeterUsed { number });
        }
        self.meters.insert(number, Some(self.shared.domain.stamp()));
        Ok(())
    }

    /// Whether the meter exists.
    pub(crate) fn has_meter(&self, number: u32) -> bool {
        matches!(self.meters.get(&number), Some(None))
    }

    fn names_meter(&self, fate: Fate, number: u32) -> bool {
        let Fate::ActionList(program) = fate else { return false };
        let mut steps = self.shared.action_lists.read(program).1;
        while let Some(step) = steps.next() {
            match step {
                ActionStep::Meter(named) if named == number => return true,
                ActionStep::Encap(len) => steps.bytes(len).for_each(drop),
                _ => {}
            }
        }
        false
    }
}

#[cfg(test)]
#[path = "meter_tests.rs"]
mod tests;
