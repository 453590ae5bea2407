//! Cores: which this process may use, staying on one, and whose machine they are of.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::face::DeviceError;

/// A number that the kernel draws at each boot. All containers of a machine read the same one.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A number that the machine of this process has and no other has; empty where it is not known.
pub fn boot_id() -> String {
    fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}

/// The cores this process may use, ascending.
pub fn allowed() -> Vec<u32> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect()
}

/// Keeps the calling thread, and those that it starts from now on, to these of its cores.
///
/// # Errors
/// [`DeviceError::Cores`] where it may use none of them.
pub fn restrict(device: &str, cores: &[u32]) -> Result<(), DeviceError> {
    let mut kept = CpuSet::new();
    allowed().iter().filter(|core| cores.contains(core)).for_each(|core| kept.set(*core as usize));
    sched_setaffinity(None, &kept).map_err(|_| too_few(device, 1, kept.count()))
}

/// The first `needed` cores that may be used.
pub fn take(device: &str, needed: u32) -> Result<Vec<u32>, DeviceError> {
    let mut cores = allowed();
    let available = cores.len() as u32;
    if available < needed {
        return Err(too_few(device, needed, available));
    }
    cores.truncate(needed as usize);
    Ok(cores)
}

fn too_few(device: &str, needed: u32, available: u32) -> DeviceError {
    let remedy = "give the process more (taskset, container limits) or use a larger machine";
    let (device, remedy) = (device.to_owned(), remedy.to_owned());
    DeviceError::Cores { device, needed, available, remedy }
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
