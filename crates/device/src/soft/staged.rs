//! Parts of all staged measurements: ranges of a load, repetition, and medians.

use std::time::Instant;

use crate::face::{DeviceError, PathNode};

/// Refuses a number of a load that is out of its range: name, number, least and greatest.
pub(super) fn check_ranges(ranges: &[(&str, u32, u32, u32)]) -> Result<(), DeviceError> {
    let is_out = |&&(_, value, min, max): &&(&str, u32, u32, u32)| !(min..=max).contains(&value);
    match ranges.iter().find(is_out) {
        None => Ok(()),
        Some((what, value, min, max)) => {
            let reason = format!("{what} = {value}: use {min} to {max}");
            Err(DeviceError::BadLoad { reason })
        }
    }
}

/// Repeats something for `ns` nanoseconds, and at least `least` times.
pub(super) fn repeat<T>(
    ns: u64,
    least: usize,
    mut once: impl FnMut() -> Result<T, DeviceError>,
) -> Result<Vec<T>, DeviceError> {
    let (start, mut all) = (Instant::now(), Vec::new());
    while all.len() < least || (start.elapsed().as_nanos() as u64) < ns {
        all.push(once()?);
    }
    Ok(all)
}

/// The upper median; 0 of nothing.
pub(super) fn median(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

/// A path by roles and labels, whose nodes have no core of their own.
pub(super) fn path<const N: usize>(nodes: [(&str, &str); N]) -> Vec<PathNode> {
    let node = |(role, label): (&str, &str)| PathNode {
        role: role.to_owned(),
        label: label.to_owned(),
        core: None,
    };
    nodes.map(node).into()
}
