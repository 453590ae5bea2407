//! Cores: which this process may use, and staying on one.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::face::DeviceError;

/// The cores this process may use, ascending.
pub fn allowed() -> Vec<u32> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect()
}

/// Leaves these cores to somebody else: the calling thread, and those that it starts, use them no
/// more.
///
/// # Errors
/// [`DeviceError::Cores`]: there are no others.
pub fn leave(device: &str, to_others: &[u32]) -> Result<(), DeviceError> {
    let own: Vec<u32> = allowed().into_iter().filter(|core| !to_others.contains(core)).collect();
    if own.is_empty() {
        let remedy = "tester and device are on one machine and need a core each: give the \
                      processes more (taskset, container limits), or use a larger machine";
        let (device, remedy) = (device.to_owned(), remedy.to_owned());
        return Err(DeviceError::Cores { device, needed: 1, available: 0, remedy });
    }
    let mut set = CpuSet::new();
    own.iter().for_each(|core| set.set(*core as usize));
    // Where that is not allowed, both share a core, and the stall watch shows it.
    let _ = sched_setaffinity(None, &set);
    Ok(())
}

/// The first `needed` cores that may be used.
pub fn take(device: &str, needed: u32) -> Result<Vec<u32>, DeviceError> {
    let mut cores = allowed();
    let available = cores.len() as u32;
    if available < needed {
        let remedy = "give the process more (taskset, container limits) or use a larger machine";
        let (device, remedy) = (device.to_owned(), remedy.to_owned());
        return Err(DeviceError::Cores { device, needed, available, remedy });
    }
    cores.truncate(needed as usize);
    Ok(cores)
}

/// The cores of a trial on two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cores {
    /// The core of generator and sink.
    pub tester: u32,
    /// The core of the function.
    pub device: u32,
}

impl Cores {
    /// Those of half a testbed: the first core this process may use does the work, whichever half
    /// it is.
    pub fn alone(device: &str) -> Result<Cores, DeviceError> {
        let core = take(device, 1)?[0];
        Ok(Cores { tester: core, device: core })
    }

    /// The first two cores this process may use.
    pub fn choose(device: &str) -> Result<Cores, DeviceError> {
        let cores = take(device, 2)?;
        Ok(Cores { tester: cores[0], device: cores[1] })
    }
}

/// Keeps the calling thread on one core until dropped.
#[derive(Debug)]
pub struct Pinned(Option<CpuSet>);

impl Pinned {
    /// Moves the calling thread to `core`. Where that is not allowed it stays free, which costs
    /// figures but no correctness: the stall watch shows it.
    pub fn to(core: u32) -> Pinned {
        let before = sched_getaffinity(None).ok();
        let mut only = CpuSet::new();
        only.set(core as usize);
        match sched_setaffinity(None, &only) {
            Ok(()) => Pinned(before),
            Err(_) => Pinned(None),
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = sched_setaffinity(None, before);
        }
    }
}
