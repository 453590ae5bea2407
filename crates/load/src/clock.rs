//! One clock for a whole trial: the time-stamp counter, scaled to nanoseconds.
//!
//! Reading the counter takes some 10 ns where the kernel's clock takes 25; a generator reads it
//! once a burst. Where a processor has no counter that user space may read, the kernel's clock is
//! read instead; that of x86-64 runs at one rate on all cores since 2008. All threads of a trial
//! share one [`Clock`], so their times can be compared.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long the counter is compared with the kernel's clock; 50 ns of reading error over it is
/// 2.5 parts in a million.
const CALIBRATION: Duration = Duration::from_millis(20);

/// Readings of both clocks of which the tightest is taken.
const READINGS: usize = 32;

/// Nanoseconds since the first clock of this process.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    counter: Option<Counter>,
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    origin_ticks: u64,
    /// Nanoseconds per tick, 32 bits behind the point.
    scale: u64,
}

impl Clock {
    /// The process's clock; the first call takes 20 ms.
    pub fn new() -> Clock {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(Clock::calibrate)
    }

    fn calibrate() -> Clock {
        let Some((origin, origin_ticks)) = both() else {
            return Clock { origin: Instant::now(), counter: None };
        };
        std::thread::sleep(CALIBRATION);
        let counter = both().and_then(|(end, end_ticks)| {
            let ns = end.duration_since(origin).as_nanos();
            let span = end_ticks.checked_sub(origin_ticks).filter(|&span| span > 0)?;
            Some(Counter { origin_ticks, scale: ((ns << 32) / u128::from(span)) as u64 })
        });
        Clock { origin, counter }
    }

    /// Nanoseconds since the origin.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match (self.counter, ticks()) {
            (Some(counter), Some(now)) => {
                let span = now.wrapping_sub(counter.origin_ticks);
                ((u128::from(span) * u128::from(counter.scale)) >> 32) as u64
            }
            _ => self.origin.elapsed().as_nanos() as u64,
        }
    }

    /// The source: `time-stamp counter` or `kernel clock`.
    pub fn source(&self) -> &'static str {
        if self.counter.is_some() { "time-stamp counter" } else { "kernel clock" }
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

/// Both clocks at one moment: the reading of several that took the shortest time, so that a stall
/// between the two does not count.
fn both() -> Option<(Instant, u64)> {
    let reading = || {
        let before = ticks()?;
        let now = Instant::now();
        let after = ticks()?;
        Some((after.saturating_sub(before), now, before))
    };
    let shortest = (0..READINGS).filter_map(|_| reading()).min_by_key(|(took, ..)| *took)?;
    let (took, now, before) = shortest;
    Some((now, before + took / 2))
}

/// The raw counter, where the processor has one that runs at one rate on all cores.
#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> Option<u64> {
    // SAFETY: every x86-64 processor has the instruction; it only reads a register.
    Some(unsafe { std::arch::x86_64::_rdtsc() })
}

/// The generic timer's virtual count (Arm ARM, D13.8.25), readable from user space on Linux.
#[cfg(target_arch = "aarch64")]
#[inline]
fn ticks() -> Option<u64> {
    let count: u64;
    // SAFETY: reads a register that Linux makes readable at EL0; touches no memory.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
    Some(count)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn ticks() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_kernels_clock() {
        let clock = Clock::new();
        let (a, t) = (clock.now_ns(), Instant::now());
        std::thread::sleep(Duration::from_millis(30));
        let (b, kernel) = (clock.now_ns(), t.elapsed().as_nanos() as u64);
        let (low, high) = (kernel - kernel / 100, kernel + kernel / 100 + 100_000);
        assert!((low..high).contains(&(b - a)), "ours {} ns, the kernel's {kernel} ns", b - a);
    }
}
