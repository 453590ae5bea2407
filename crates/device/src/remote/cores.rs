//! The cores of two agents that may run on one machine.

use super::protocol::AgentHost;
use crate::cores::{allowed, boot_id};

/// The machine of this process.
pub(super) fn here() -> AgentHost {
    AgentHost { boot_id: boot_id(), cores: allowed() }
}

/// The cores of each half of a testbed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HalfCores {
    /// The tester's; `None`: all that its agent may use.
    pub tester: Option<Vec<u32>>,
    /// The device's; `None`: all that its agent may use.
    pub device: Option<Vec<u32>>,
    /// The only core of both.
    pub shared: Option<u32>,
}

/// Gives the tester a core that the device does not use, where both are on one machine.
///
/// Each half works on the first of its cores. The tester gets one that the device's agent may not
/// use, if there is one; else the device leaves the tester's first core out.
pub(super) fn divide(tester: &AgentHost, device: &AgentHost) -> HalfCores {
    let mut cores = HalfCores::default();
    if tester.boot_id.is_empty() || tester.boot_id != device.boot_id {
        return cores;
    }
    let Some(first) = tester.cores.first() else { return cores };
    if !device.cores.contains(first) {
        return cores;
    }
    let without = |of: &[u32], others: &[u32]| -> Vec<u32> {
        of.iter().copied().filter(|core| !others.contains(core)).collect()
    };
    let own = without(&tester.cores, &device.cores);
    let left = without(&device.cores, &[*first]);
    match (own.is_empty(), left.is_empty()) {
        (false, _) => cores.tester = Some(own),
        (true, false) => cores.device = Some(left),
        (true, true) => cores.shared = Some(*first),
    }
    cores
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(boot_id: &str, cores: &[u32]) -> AgentHost {
        AgentHost { boot_id: boot_id.to_owned(), cores: cores.to_vec() }
    }

    #[test]
    fn halves_of_one_machine_get_distinct_cores_where_it_has_them() {
        let all = HalfCores::default;
        for (tester, device, expected) in [
            (&[0, 1][..], &[0, 1][..], HalfCores { device: Some(vec![1]), ..all() }),
            (&[0], &[0, 1, 2], HalfCores { device: Some(vec![1, 2]), ..all() }),
            (&[0, 1, 2, 3], &[0, 1], HalfCores { tester: Some(vec![2, 3]), ..all() }),
            (&[0, 1], &[0], HalfCores { tester: Some(vec![1]), ..all() }),
            (&[0, 1], &[1], all()),
            (&[3], &[1], all()),
            (&[0], &[0], HalfCores { shared: Some(0), ..all() }),
            (&[], &[0], all()),
        ] {
            let found = divide(&on("a", tester), &on("a", device));
            assert_eq!(found, expected, "{tester:?} {device:?}");
        }
    }

    #[test]
    fn halves_of_two_machines_have_all_their_cores() {
        for (tester, device) in [("a", "b"), ("", ""), ("", "b"), ("a", "")] {
            let found = divide(&on(tester, &[0, 1]), &on(device, &[0, 1]));
            assert_eq!(found, HalfCores::default(), "{tester} {device}");
        }
        let here = here();
        assert_eq!(here, super::here());
        assert!(!here.boot_id.is_empty() && !here.cores.is_empty(), "{here:?}");
    }
}
