//! What outlives a packet, and is shared by all cores: registers, meters, sessions.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use niclab_table::Segments;

use crate::entry::{Rates, Session};
use crate::form::Program;
use crate::limits::MIRROR_SESSIONS;

/// All of it.
#[derive(Debug)]
pub(super) struct State {
    pub registers: Vec<Registers>,
    pub meters: Vec<Meters>,
    /// Where copies go: port and length of each session, or none.
    sessions: Vec<AtomicU64>,
}

/// An array of registers.
#[derive(Debug)]
pub(super) struct Registers {
    /// What each has, less `initial`: memory that was never written is zero.
    words: Segments<1>,
    len: usize,
    pub initial: u64,
}

/// An array of meters.
///
/// A meter is three words that cores change by themselves: each is right whatever the order, and
/// two cores that ask at once may see each other's packet in one bucket and not yet in the other.
#[derive(Debug)]
pub(super) struct Meters {
    meters: Segments<METER_WORDS>,
    len: usize,
}

/// When the buckets were filled last, what is in both, and the rates: committed and peak, bytes a
/// second; both bursts, bytes; whether it has any.
const METER_WORDS: usize = 8;
const FILLED: usize = 0;
const COMMITTED: usize = 1;
const PEAK: usize = 2;
const COMMITTED_RATE: usize = 3;
const PEAK_RATE: usize = 4;
const BURSTS: usize = 5;
const IS_SET: usize = 6;

const NANO: u64 = 1_000_000_000;

impl State {
    pub(super) fn new(program: &Program) -> State {
        let registers = program.registers.iter().map(|array| {
            let words = Segments::new(array.len as u32);
            // The packet path allocates nothing.
            (0..array.len as u32).step_by(1 << 14).for_each(|at| _ = words.reach(at));
            Registers { words, len: array.len, initial: array.initial }
        });
        let meters = program.meters.iter().map(|array| {
            let meters = Segments::new(array.len as u32);
            (0..array.len as u32).step_by(1 << 14).for_each(|at| _ = meters.reach(at));
            Meters { meters, len: array.len }
        });
        State {
            registers: registers.collect(),
            meters: meters.collect(),
            sessions: (0..MIRROR_SESSIONS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(super) fn set_session(&self, number: usize, session: Session) {
        if let Some(place) = self.sessions.get(number) {
            // A length of zero is no session.
            let len = u64::from(session.len_max.max(1));
            place.store(len << 32 | u64::from(session.port), Relaxed);
        }
    }

    pub(super) fn session(&self, number: usize) -> Option<Session> {
        let word = self.sessions.get(number)?.load(Relaxed);
        (word != 0).then_some(Session { port: word as u32, len_max: (word >> 32) as u32 })
    }
}

impl Registers {
    /// A register; the index is taken modulo the length.
    #[inline]
    pub(super) fn at(&self, index: u64) -> Option<&AtomicU64> {
        self.words.get(index as u32 & (self.len as u32 - 1)).map(|[word]| word)
    }
}

impl Meters {
    fn at(&self, index: u64) -> Option<&[AtomicU64; METER_WORDS]> {
        self.meters.get(index as u32 & (self.len as u32 - 1))
    }

    /// Gives a meter its rates, and full buckets.
    pub(super) fn set(&self, index: u64, rates: Rates, now_ns: u64) {
        let Some(words) = self.at(index) else { return };
        let bursts = u64::from(rates.committed_burst) << 32 | u64::from(rates.peak_burst);
        words[FILLED].store(now_ns, Relaxed);
        words[COMMITTED].store(u64::from(rates.committed_burst) * NANO, Relaxed);
        words[PEAK].store(u64::from(rates.peak_burst) * NANO, Relaxed);
        words[COMMITTED_RATE].store(rates.committed, Relaxed);
        words[PEAK_RATE].store(rates.peak, Relaxed);
        words[BURSTS].store(bursts, Relaxed);
        words[IS_SET].store(1, Relaxed);
    }

    /// As `crate::meter::Meter::colour`.
    #[inline]
    pub(super) fn colour(&self, index: u64, len: u64, colour: u64, now_ns: u64) -> u64 {
        let Some(words) = self.at(index) else { return colour };
        if words[IS_SET].load(Relaxed) == 0 {
            return colour;
        }
        let past_ns = now_ns.saturating_sub(words[FILLED].fetch_max(now_ns, Relaxed));
        let bursts = words[BURSTS].load(Relaxed);
        let fill = |bucket: usize, rate: usize, burst: u64| {
            let more = words[rate].load(Relaxed).saturating_mul(past_ns);
            let filled = |level: u64| Some(level.saturating_add(more).min(burst * NANO));
            // It always says what to store.
            let _ = words[bucket].fetch_update(Relaxed, Relaxed, filled);
        };
        if past_ns > 0 {
            fill(COMMITTED, COMMITTED_RATE, bursts >> 32);
            fill(PEAK, PEAK_RATE, bursts & 0xffff_ffff);
        }
        let wanted = len.saturating_mul(NANO);
        let take = |bucket: usize| {
            let taken = words[bucket].fetch_update(Relaxed, Relaxed, |l| l.checked_sub(wanted));
            taken.is_ok()
        };
        match () {
            () if colour >= 2 || !take(PEAK) => 2,
            () if colour == 1 || !take(COMMITTED) => 1,
            () => 0,
        }
    }
}
