//! The cores that a card or a store is to work on.

use niclab_device::cores::allowed;

use crate::failure::Failure;

/// Those that are wanted; without any the first that this process may use.
pub fn cores(wanted: &[u32]) -> Result<Vec<u32>, Failure> {
    let there = allowed();
    let cores = match wanted {
        [] => there.first().copied().into_iter().collect(),
        cores => cores.to_vec(),
    };
    if let Some(&core) = cores.iter().find(|core| !there.contains(core)) {
        return Err(Failure::Core { core: core as usize, there });
    }
    let twice = cores.iter().enumerate().find(|(at, core)| cores[..*at].contains(core));
    match twice {
        Some((_, core)) => Err(Failure::Twice { name: format!("core {core}") }),
        None => Ok(cores),
    }
}
