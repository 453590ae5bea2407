//! Real-time priority of a thread (`SCHED_FIFO`): nothing of lower priority takes its core away.
#![allow(unsafe_code)]

use std::io;

/// Priorities that the kernel knows.
pub const PRIORITIES: std::ops::RangeInclusive<u8> = 1..=99;

/// A thread's real-time priority, until dropped on the thread that asked for it.
#[derive(Debug)]
pub struct RealTime(());

impl RealTime {
    /// Gives the calling thread, and those that it starts from now on, this priority.
    ///
    /// # Errors
    /// What the kernel says: it takes `CAP_SYS_NICE`, or room in `ulimit -r`.
    pub fn with(priority: u8) -> io::Result<RealTime> {
        set(libc::SCHED_FIFO, priority.into()).map(|()| RealTime(()))
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        let _ = set(libc::SCHED_OTHER, 0);
    }
}

fn set(policy: i32, priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameters live for the call, which only reads them; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, policy, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
