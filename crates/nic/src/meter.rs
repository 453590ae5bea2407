//! Meters: rules share them, and so do workers; what exceeds one is dropped.
//!
//! A meter has two buckets of tokens, one a byte, and colours packets as RFC 2697 (one rate) or
//! RFC 2698 (two rates) says, colour-blind and byte by byte. Tokens are whole: so many came until a
//! time as the rate times the time makes, rounded down.
//!
//! Nothing here reads a clock: a worker is told the time ([`Worker::set_time_ns`]).
//!
//! # Many workers
//!
//! Every step is an atomic operation or two, and none is repeated. Tokens of a stretch of time are
//! added by the worker alone that moved the meter's time over it, and a packet takes what was there
//! or nothing. So together all workers let through at most what the buckets held and the rates
//! added. It may be less: tokens that are added while others take some find the bucket fuller than
//! it is, and a packet that is about to be refused hides its tokens from others for a moment. With
//! one worker it is exact.
//!
//! [`Worker::set_time_ns`]: crate::Worker::set_time_ns

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::control::Nic;
use crate::error::RuleError;
use crate::limits::{METER_SIZE_MAX, METERS_MAX};
use crate::program::Step;
use crate::word::Fate;

const NS_PER_S: u128 = 1_000_000_000;

/// What a meter lets through. Rates are bytes a second, sizes of bursts bytes, all of them at most
/// [`METER_SIZE_MAX`]; a packet has the bytes that `count` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meter {
    /// One rate (RFC 2697): what a packet does not find in the first bucket it may find in the
    /// second, which is filled when the first one is full. At least one of the sizes is not 0.
    SingleRate {
        /// Committed information rate.
        cir_bytes_per_s: u64,
        /// Committed burst size: the first bucket.
        cbs_bytes: u64,
        /// Excess burst size: the second bucket.
        ebs_bytes: u64,
    },
    /// Two rates (RFC 2698): a packet that exceeds the peak rate goes. Sizes are not 0, and the
    /// peak rate is not below the committed one.
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

/// What a meter says of a packet. Red ones are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Green,
    Yellow,
    Red,
}

/// There is no meter.
const SINGLE: u64 = 1;
const TWO: u64 = 2;

/// A meter at work: one cache line.
#[derive(Default)]
#[repr(align(64))]
struct Buckets {
    kind: AtomicU64,
    /// Bytes a second: committed and peak.
    rates: [AtomicU64; 2],
    /// Most tokens: committed, and excess or peak.
    sizes: [AtomicU64; 2],
    tokens: [AtomicI64; 2],
    /// Until when tokens were added.
    filled_ns: AtomicU64,
}

const _: () = assert!(size_of::<Buckets>() == 64);

/// All meters, by number.
pub(crate) struct Meters(Box<[OnceLock<Box<[Buckets]>>]>);

/// Meters that are made room for at once: they lie side by side and stay where they are.
const SHELF: usize = 256;

impl Meter {
    /// What is wrong with it, if anything is.
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
    pub(crate) fn new() -> Meters {
        Meters((0..METERS_MAX as usize / SHELF).map(|_| OnceLock::new()).collect())
    }

    /// The colour of a packet of so many bytes at this time.
    #[inline]
    pub(crate) fn meet(&self, number: u32, bytes: u64, now_ns: u64) -> Colour {
        let (shelf, at) = (number as usize / SHELF, number as usize % SHELF);
        let shelf = self.0.get(shelf).and_then(OnceLock::get);
        shelf.map_or(Colour::Red, |shelf| shelf[at].meet(bytes as i64, now_ns))
    }

    /// The buckets of a number below [`METERS_MAX`], with room made for them. Control side only.
    fn reach(&self, number: u32) -> &Buckets {
        let (shelf, at) = (number as usize / SHELF, number as usize % SHELF);
        let made = || (0..SHELF).map(|_| Buckets::default()).collect();
        &self.0[shelf].get_or_init(made)[at]
    }

    pub(crate) fn bytes(&self) -> usize {
        let made = self.0.iter().filter(|shelf| shelf.get().is_some()).count();
        made * SHELF * size_of::<Buckets>() + size_of_val(&*self.0)
    }
}

impl Buckets {
    /// Makes them a meter whose buckets are full. Control side only, while no packet can meet them.
    fn set(&self, meter: &Meter) {
        let (rates, sizes) = meter.numbers();
        for at in 0..2 {
            self.rates[at].store(rates[at], Ordering::Relaxed);
            self.sizes[at].store(sizes[at], Ordering::Relaxed);
            self.tokens[at].store(sizes[at] as i64, Ordering::Relaxed);
        }
        self.filled_ns.store(0, Ordering::Relaxed);
        let kind = if matches!(meter, Meter::SingleRate { .. }) { SINGLE } else { TWO };
        self.kind.store(kind, Ordering::Relaxed);
    }

    #[inline]
    fn meet(&self, bytes: i64, now_ns: u64) -> Colour {
        let kind = self.kind.load(Ordering::Relaxed);
        self.fill(kind, now_ns);
        let [committed, other] = &self.tokens;
        match kind {
            SINGLE if take(committed, bytes) => Colour::Green,
            SINGLE if take(other, bytes) => Colour::Yellow,
            TWO if take(other, bytes) => match take(committed, bytes) {
                true => Colour::Green,
                false => Colour::Yellow,
            },
            _ => Colour::Red,
        }
    }

    /// Adds the tokens that came since somebody did.
    #[inline]
    fn fill(&self, kind: u64, now_ns: u64) {
        let before_ns = self.filled_ns.load(Ordering::Relaxed);
        if now_ns > before_ns && swap(&self.filled_ns, before_ns, now_ns) {
            self.fill_between(kind, before_ns, now_ns);
        }
    }

    #[cold]
    fn fill_between(&self, kind: u64, before_ns: u64, now_ns: u64) {
        let most = i64::try_from(2 * METER_SIZE_MAX).unwrap_or(i64::MAX);
        let came = |rate: &AtomicU64| {
            let rate = u128::from(rate.load(Ordering::Relaxed));
            let until = |time_ns| u128::from(time_ns) * rate / NS_PER_S;
            i64::try_from(until(now_ns) - until(before_ns)).map_or(most, |came| came.min(most))
        };
        let sizes = [0, 1].map(|at: usize| self.sizes[at].load(Ordering::Relaxed) as i64);
        let over = add(&self.tokens[0], came(&self.rates[0]), sizes[0]);
        let came = if kind == SINGLE { over } else { came(&self.rates[1]) };
        add(&self.tokens[1], came, sizes[1]);
    }
}

#[inline]
fn swap(slot: &AtomicU64, old: u64, new: u64) -> bool {
    slot.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// Takes tokens if there are so many.
#[inline]
fn take(tokens: &AtomicI64, bytes: i64) -> bool {
    if tokens.load(Ordering::Relaxed) < bytes {
        return false;
    }
    let enough = tokens.fetch_sub(bytes, Ordering::Relaxed) >= bytes;
    if !enough {
        // Another worker was faster.
        tokens.fetch_add(bytes, Ordering::Relaxed);
    }
    enough
}

/// Adds tokens as far as there is room; how many there was none for.
fn add(tokens: &AtomicI64, came: i64, size: i64) -> i64 {
    let room = (size - tokens.load(Ordering::Relaxed)).max(0);
    let fits = came.min(room);
    if fits > 0 {
        tokens.fetch_add(fits, Ordering::Relaxed);
    }
    came - fits
}

impl Nic {
    /// Makes a meter, whose buckets are full, for rules to name.
    ///
    /// # Errors
    /// [`RuleError::MeterUnfit`], also while packets may meet a destroyed one of this number, and
    /// [`RuleError::MeterKnown`] if there is one.
    pub fn create_meter(&mut self, number: u32, meter: &Meter) -> Result<(), RuleError> {
        let numbered = (number >= METERS_MAX).then_some("meters have numbers 0 to 65535");
        if let Some(reason) = numbered.or(meter.problem()) {
            return Err(RuleError::MeterUnfit { number, reason });
        }
        match self.meters.get(&number) {
            Some(None) => return Err(RuleError::MeterKnown { number }),
            // A burst on its way may have the word of a rule that named it.
            Some(Some(stamp)) if *stamp > self.board.domain.passed() => {
                let reason = "just destroyed; let every worker run, or use another number";
                return Err(RuleError::MeterUnfit { number, reason });
            }
            _ => {}
        }
        // Workers see it before the word of any rule that names it.
        self.board.meters.reach(number).set(meter);
        self.meters.insert(number, None);
        Ok(())
    }

    /// Takes a meter away. Looks at all rules. A burst on its way may still meet it.
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
        self.meters.insert(number, Some(self.board.domain.stamp()));
        Ok(())
    }

    /// Whether there is a meter of this number.
    pub(crate) fn has_meter(&self, number: u32) -> bool {
        matches!(self.meters.get(&number), Some(None))
    }

    fn names_meter(&self, fate: Fate, number: u32) -> bool {
        let Fate::Program(program) = fate else { return false };
        let mut steps = self.board.programs.read(program).1;
        while let Some(step) = steps.next() {
            match step {
                Step::Meter(named) if named == number => return true,
                Step::Encap(len) => steps.bytes(len).for_each(drop),
                _ => {}
            }
        }
        false
    }
}

#[cfg(test)]
#[path = "meter_tests.rs"]
mod tests;
