//! A child process on one CPU, which the kernel ends with its parent.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Starts a child on a CPU. The kernel kills it when the calling thread ends (prctl(2),
/// `PR_SET_PDEATHSIG`), so the caller must live as long as the child may.
pub(super) fn spawn(command: &mut Command, cpu: u32) -> io::Result<Child> {
    let mut only = CpuSet::new();
    only.set(cpu as usize);
    let parent = getpid();
    // SAFETY: between fork and exec the closure only makes system calls, which take no lock and
    // allocate nothing; it owns what it uses.
    unsafe {
        command.pre_exec(move || {
            sched_setaffinity(None, &only)?;
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // A parent that ended before the call above sends no signal.
            match getppid() == Some(parent) {
                true => Ok(()),
                false => Err(io::ErrorKind::BrokenPipe.into()),
            }
        });
    }
    command.spawn()
}
