//! Cache misses of a thread, as the CPU counts them (perf_event_open(2)).

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

/// A counter of the calling thread that runs. It is closed with its value.
pub(crate) struct CacheMisses(Counter);

impl CacheMisses {
    /// Starts to count; `None` if the machine does not count, as most virtual ones, or does not
    /// allow it.
    pub(crate) fn start() -> Option<CacheMisses> {
        let mut counter = Builder::new().kind(Hardware::CACHE_MISSES).build().ok()?;
        counter.enable().ok()?;
        Some(CacheMisses(counter))
    }

    /// The misses since the start.
    pub(crate) fn stop(mut self) -> Option<u64> {
        self.0.disable().ok()?;
        self.0.read().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_counted_where_the_machine_counts_them() {
        let Some(counter) = CacheMisses::start() else {
            println!("SKIP misses_are_counted_where_the_machine_counts_them: no counter");
            return;
        };
        // More than a cache holds, line by line.
        let memory = vec![1u8; 256 << 20];
        let sum: u64 = memory.iter().step_by(4096).map(|byte| u64::from(*byte)).sum();
        assert_eq!(sum, (256 << 20) / 4096);
        assert!(counter.stop().unwrap() > 0);
    }
}
