//! Core usage: the kernel's own account of the cores' time (`/proc/stat`).
//!
//! The account is kept in ticks: most kernels look once a tick (1 to 10 ms) at what a core is doing
//! and give it the whole tick. So a difference over half a second is good for a few percent, work
//! that starts with the tick may be missed for good, and softirq work that ends before the tick is
//! seen as what it interrupted. Kernels with `CONFIG_IRQ_TIME_ACCOUNTING` time interrupts exactly.

use std::fs;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Where the kernel keeps it: `proc_stat(5)`.
const ACCOUNT: &str = "/proc/stat";

/// How one core spent its time, nanoseconds: since the machine started ([`CoreUse::read`]), or
/// between two readings ([`CoreUse::since`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreUse {
    /// The core.
    pub core: u32,
    /// In programs, virtual machines of a hypervisor included.
    pub user_ns: u64,
    /// In programs of lower priority than usual.
    pub nice_ns: u64,
    /// In the kernel, for programs.
    pub system_ns: u64,
    /// In the kernel, for interrupts that were put off: most of what is received.
    pub softirq_ns: u64,
    /// In interrupts.
    pub irq_ns: u64,
    /// Ready, while the hypervisor ran something else.
    pub steal_ns: u64,
    /// With nothing to do, or waiting for a disk.
    pub idle_ns: u64,
}

impl CoreUse {
    /// Reads the account of these cores, in their order.
    ///
    /// # Errors
    /// What the kernel says; [`io::ErrorKind::NotFound`] for a core that is not there or switched
    /// off; [`io::ErrorKind::InvalidData`] for an account that is not the kernel's.
    pub fn read(cores: &[u32]) -> io::Result<Vec<CoreUse>> {
        let text = fs::read_to_string(ACCOUNT)?;
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        cores.iter().map(|&core| parse(&text, core, tick_ns)).collect()
    }

    /// What was added since `before`, a reading of the same core.
    pub fn since(&self, before: &CoreUse) -> CoreUse {
        // Idle time may go back by a tick (proc_stat(5)).
        CoreUse {
            core: self.core,
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            nice_ns: self.nice_ns.saturating_sub(before.nice_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            softirq_ns: self.softirq_ns.saturating_sub(before.softirq_ns),
            irq_ns: self.irq_ns.saturating_sub(before.irq_ns),
            steal_ns: self.steal_ns.saturating_sub(before.steal_ns),
            idle_ns: self.idle_ns.saturating_sub(before.idle_ns),
        }
    }

    /// Time in which it worked.
    pub fn busy_ns(&self) -> u64 {
        self.user_ns + self.nice_ns + self.system_ns + self.softirq_ns + self.irq_ns
    }

    /// All its time.
    pub fn total_ns(&self) -> u64 {
        self.busy_ns() + self.steal_ns + self.idle_ns
    }

    /// Share of the time that it had in which it worked: 0 to 1; 0 where no time has passed.
    pub fn busy_ratio(&self) -> f64 {
        let had_ns = self.busy_ns() + self.idle_ns;
        if had_ns == 0 { 0.0 } else { self.busy_ns() as f64 / had_ns as f64 }
    }

    /// The shortest time between two readings whose difference says something: 50 ticks of the
    /// slowest kernels.
    pub const SPAN_MIN: Duration = Duration::from_millis(500);
}

/// The account of one core.
fn parse(text: &str, core: u32, tick_ns: u64) -> io::Result<CoreUse> {
    let name = format!("cpu{core}");
    let found = text.lines().find_map(|line| {
        let (first, rest) = line.split_once(' ')?;
        (first == name).then_some(rest)
    });
    let absent = || io::Error::new(io::ErrorKind::NotFound, format!("no {name} in {ACCOUNT}"));
    let ticks: Result<Vec<u64>, _> =
        found.ok_or_else(absent)?.split_whitespace().map(str::parse).collect();
    // Virtual machines' time, behind these, is part of user's.
    match ticks.as_deref() {
        Ok([user, nice, system, idle, iowait, irq, softirq, steal, ..]) => Ok(CoreUse {
            core,
            user_ns: user * tick_ns,
            nice_ns: nice * tick_ns,
            system_ns: system * tick_ns,
            softirq_ns: softirq * tick_ns,
            irq_ns: irq * tick_ns,
            steal_ns: steal * tick_ns,
            idle_ns: (idle + iowait) * tick_ns,
        }),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{name} in {ACCOUNT}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::cores::{Pinned, allowed};

    const TEXT: &str = "cpu  99 99 99 99 99 99 99 99 99 99\n\
                        cpu1 1 2 3 4 5 6 7 8 9 10\n\
                        cpu11 11 0 0 0 0 0 0 0 0 0\n\
                        intr 5 0 0\n";

    #[test]
    fn a_line_is_read_by_its_fields() {
        let observed = parse(TEXT, 1, 10).unwrap();
        let expected = CoreUse {
            core: 1,
            user_ns: 10,
            nice_ns: 20,
            system_ns: 30,
            idle_ns: 90,
            irq_ns: 60,
            softirq_ns: 70,
            steal_ns: 80,
        };
        assert_eq!(observed, expected);
        assert_eq!((observed.busy_ns(), observed.total_ns()), (190, 360));
        assert_eq!(observed.busy_ratio(), 190.0 / 280.0);
        assert_eq!(parse(TEXT, 11, 10).unwrap().user_ns, 110);
    }

    #[test]
    fn a_missing_or_malformed_account_is_an_error() {
        let kind = |text, core| parse(text, core, 10).unwrap_err().kind();
        assert_eq!(kind(TEXT, 0), io::ErrorKind::NotFound);
        assert_eq!(kind("", 0), io::ErrorKind::NotFound);
        assert_eq!(kind("cpu0 1 2 3\n", 0), io::ErrorKind::InvalidData);
        assert_eq!(kind("cpu0 1 2 3 4 x 6 7 8\n", 0), io::ErrorKind::InvalidData);
        assert_eq!(CoreUse::read(&[u32::MAX]).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn core_times_never_fall_below_zero() {
        let before = parse(TEXT, 1, 20).unwrap();
        let after = parse(TEXT, 1, 10).unwrap();
        assert_eq!(after.since(&before), CoreUse { core: 1, ..CoreUse::default() });
        assert_eq!(before.since(&before).busy_ratio(), 0.0);
    }

    #[test]
    fn a_busy_core_is_reported_as_busy() {
        let core = allowed()[0];
        let _pinned = Pinned::to(core);
        let before = CoreUse::read(&[core]).unwrap();
        let start = Instant::now();
        while start.elapsed() < CoreUse::SPAN_MIN {}
        let passed = CoreUse::read(&[core]).unwrap()[0].since(&before[0]);
        // Others may have the core meanwhile, and a hypervisor: it is busy in any case.
        assert!(passed.total_ns() > 300_000_000, "{passed:?}");
        assert!(passed.busy_ratio() > 0.8, "{passed:?}");
        assert!(passed.user_ns + passed.nice_ns > 0, "{passed:?}");
    }
}
