//! What a process has used: its time on CPUs and its memory (proc_pid_stat(5),
//! proc_pid_status(5)).

use std::fs;
use std::time::Duration;

/// The use of one process, or of several one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Time of all its threads on CPUs.
    pub(super) cpu: Duration,
    /// The most memory that it had at a time, bytes.
    pub(super) resident_bytes: u64,
}

impl Usage {
    /// Reads it; `None` if there is no such process. One that has ended and that nobody has waited
    /// for has no memory any more.
    pub(super) fn read(pid: u32) -> Option<Usage> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        let cpu = Duration::from_nanos(ticks(&stat)? * (1_000_000_000 / per_second));
        Some(Usage { cpu, resident_bytes: resident(&status).unwrap_or(0) })
    }

    /// This use after that of `start`, which is of the same process.
    pub(super) fn since(self, start: Usage) -> Usage {
        Usage { cpu: self.cpu.saturating_sub(start.cpu), ..self }
    }

    /// This use and that of another process.
    pub(super) fn and(self, other: Usage) -> Usage {
        let resident_bytes = self.resident_bytes.max(other.resident_bytes);
        Usage { cpu: self.cpu + other.cpu, resident_bytes }
    }
}

/// Time on CPUs of all threads that a process has now, to the nanosecond
/// (`Documentation/scheduler/sched-stats.rst` of Linux), or to the tick if the kernel has no such
/// account.
pub(super) fn cpu(pid: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of = |thread: std::io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    let all: Option<u64> = threads.map(of).sum();
    all.map(Duration::from_nanos).or_else(|| Some(Usage::read(pid)?.cpu))
}

/// `utime` and `stime`: fields 14 and 15, counted behind the name, which may have blanks.
fn ticks(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(field(11)? + field(12)?)
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_a_name_with_blanks() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4 1 2 3 4 50 6 0 0 20 0 1 0 9 8 7";
        assert_eq!(ticks(stat), Some(56));
        assert_eq!(resident("Name:\ta\nVmHWM:\t    12 kB\nVmRSS:\t 3 kB\n"), Some(12 << 10));
        assert_eq!((ticks("7 (a"), resident("Name:\ta\n")), (None, None));
    }

    #[test]
    fn this_process_has_used_something() {
        let start = Usage::read(std::process::id()).unwrap();
        assert!(start.resident_bytes > 0);
        let until = start.cpu + Duration::from_millis(30);
        while Usage::read(std::process::id()).unwrap().cpu < until {}
        let used = Usage::read(std::process::id()).unwrap().since(start);
        assert!(used.cpu >= Duration::from_millis(30));
        assert!(cpu(std::process::id()).unwrap() > Duration::from_millis(20));
        assert_eq!(cpu(u32::MAX), None);
        assert_eq!(Usage::read(u32::MAX), None);
    }
}
