//! Whether the machine left a measurement alone.

use std::fs;

/// Share of the time from which on it is worth saying that something else had it.
const SHARE_MIN: f64 = 0.02;

/// Looks at a thread and its core from one moment to another.
pub struct Watch {
    core: usize,
    /// What they were at the start: see [`sched`] and [`ticks`].
    sched: Option<Sched>,
    ticks: Option<Ticks>,
}

/// Time of a thread, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sched {
    /// In which it ran.
    ran: u64,
    /// In which it could run and the core ran others.
    waited: u64,
}

/// Time of a core since boot, in ticks of the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ticks {
    /// In which the hypervisor ran something else.
    stolen: u64,
    all: u64,
}

impl Watch {
    /// Watches the calling thread, which is kept on `core`.
    pub fn start(core: usize) -> Watch {
        Watch { core, sched: sched(), ticks: ticks(core) }
    }

    /// What took the core from the thread since the start, each in a clause. Nothing where nothing
    /// worth a word did, or where the kernel does not tell.
    pub fn disturbances(&self) -> Vec<String> {
        // Of the time it wanted to run: in that of a peer it waits for an answer.
        let waited = self.sched.zip(sched()).map(|(then, now)| waited(then, now));
        let stolen = self.ticks.zip(ticks(self.core)).map(|(then, now)| stolen(then, now));
        let said = |share: Option<f64>, what: &str| {
            let percent = share.filter(|share| *share >= SHARE_MIN)? * 100.0;
            Some(format!("{percent:.0} % of the time {what}"))
        };
        let core = self.core;
        [
            said(waited, &format!("another program ran on core {core}")),
            said(stolen, &format!("the hypervisor took core {core} away")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// The first two fields of the thread's schedstat (Documentation/scheduler/sched-stats.rst of the
/// kernel).
fn sched() -> Option<Sched> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut fields = text.split_whitespace().map(str::parse);
    Some(Sched { ran: fields.next()?.ok()?, waited: fields.next()?.ok()? })
}

/// Share of the time a thread wanted to run between two moments in which it did not.
fn waited(then: Sched, now: Sched) -> f64 {
    let waited = now.waited.saturating_sub(then.waited);
    let wanted = now.ran.saturating_sub(then.ran) + waited;
    waited as f64 / wanted.max(1) as f64
}

/// The core's line of /proc/stat (proc_stat(5)).
fn ticks(core: usize) -> Option<Ticks> {
    of_stat(&fs::read_to_string("/proc/stat").ok()?, core)
}

fn of_stat(stat: &str, core: usize) -> Option<Ticks> {
    let name = format!("cpu{core}");
    let line = stat.lines().find(|line| line.split_whitespace().next() == Some(&name))?;
    // user, nice, system, idle, iowait, irq, softirq, steal; virtual machines stand in the first
    // two again.
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).take(8).filter_map(|tick| tick.parse().ok()).collect();
    Some(Ticks { stolen: *ticks.get(7)?, all: ticks.iter().sum() })
}

/// Share that was stolen between two moments.
fn stolen(then: Ticks, now: Ticks) -> f64 {
    let all = now.all.saturating_sub(then.all).max(1);
    now.stolen.saturating_sub(then.stolen) as f64 / all as f64
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_line_of_the_core_says_what_was_stolen() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu1 10 0 20 50 5 5 5 5 7 0\ncpu10 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(of_stat(stat, 1), Some(Ticks { stolen: 5, all: 100 }));
        assert_eq!(of_stat(stat, 10), Some(Ticks { stolen: 1, all: 8 }));
        assert_eq!(of_stat(stat, 2), None);
        assert_eq!(stolen(Ticks { stolen: 5, all: 100 }, Ticks { stolen: 30, all: 200 }), 0.25);
        assert_eq!(stolen(Ticks { stolen: 5, all: 100 }, Ticks { stolen: 5, all: 100 }), 0.0);
    }

    #[test]
    fn a_peers_turn_is_no_time_that_was_waited() {
        let (then, now) = (Sched { ran: 100, waited: 50 }, Sched { ran: 400, waited: 150 });
        assert_eq!(waited(then, now), 0.25);
        assert_eq!(waited(then, then), 0.0);
    }

    #[test]
    fn a_thread_that_shares_its_core_is_reported() {
        if sched().is_none() {
            println!("SKIP a_thread_that_shares_its_core_is_reported: no schedstat in this kernel");
            return;
        }
        let core = niclab_device::cores::allowed().first().map_or(0, |&core| core as usize);
        let pin = || crate::Bench { core, ..Default::default() }.pin().unwrap();
        let over = AtomicBool::new(false);
        let told = thread::scope(|scope| {
            let spin = || {
                pin();
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            (0..3).for_each(|_| drop(scope.spawn(spin)));
            let told = scope.spawn(|| {
                pin();
                let watch = Watch::start(core);
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(200) {
                    std::hint::spin_loop();
                }
                over.store(true, Ordering::Relaxed);
                watch.disturbances()
            });
            told.join().unwrap()
        });
        let what = format!("% of the time another program ran on core {core}");
        assert!(told.iter().any(|said| said.contains(&what)), "{told:?}");
    }
}
