//! Lists what a resumed run would open or execute; `--trust` allows it.
//!
//! A run that goes on opens what its `run.toml` names. Devices that niclab makes itself are opened
//! at once. Everything else (a program, a library, a file, an interface, an address) was chosen by
//! whoever wrote the directory, and it may have come from anybody.

use std::path::Path;

use niclab_device::RuleBlock;
use niclab_device::model;
use niclab_lab::run::Run;
use niclab_lab::variants::Variant;

use crate::arguments::RunArguments;
use crate::failure::Failure;
use crate::output::{one_line, quoted};

/// Devices for which nothing is opened that is not niclab's own or a namespace of its own.
const OWN: [&str; 7] = [
    "soft",
    "linux:veth",
    "linux-xdp:veth",
    "linux-tc:veth",
    "dpdk:--vdev=net_ring0",
    "dpdk:--vdev=net_null0",
    "swx",
];

/// Refuses a run that names more than niclab's own devices, unless it is trusted. Commands and a
/// baseline that were typed are the user's own.
pub fn check(directory: &Path, run: &Run, arguments: &RunArguments) -> Result<(), Failure> {
    let mut named = named(run);
    named.extend(commands(run, &arguments.variant));
    if arguments.baseline.is_none() {
        named.extend(run.baseline.iter().map(|path| baseline_words(path)));
    }
    match arguments.trust || named.is_empty() {
        true => Ok(()),
        false => Err(Failure::Untrusted { directory: directory.to_path_buf(), named }),
    }
}

/// The command that goes on with a run.
pub fn command(directory: &Path, run: &Run) -> String {
    let is_own = named(run).is_empty() && run.variants.is_none();
    let name = |path: &Path| quoted(&path.display().to_string());
    let more = match &run.baseline {
        _ if !is_own => " --trust".to_owned(),
        Some(baseline) => format!(" --baseline {}", name(baseline)),
        None => String::new(),
    };
    format!("niclab run --resume {}{more}", name(directory))
}

/// The baseline of a run, as the list has it.
fn baseline_words(path: &Path) -> String {
    one_line(&format!("baseline {}", path.display()))
}

/// The commands that a run would run, but those that were typed.
fn commands(run: &Run, typed: &[Variant]) -> Vec<String> {
    let of = run.variants.list.iter().filter(|variant| !typed.contains(variant));
    of.map(|of| one_line(&format!("command of variant {}: {}", of.name, of.command))).collect()
}

/// The devices and commands of a run that are not niclab's own, each once.
fn named(run: &Run) -> Vec<String> {
    let devices = run.asked().into_iter().filter(|device| !is_own(device));
    let mut named: Vec<String> = devices.map(|device| format!("device {device}")).collect();
    let loads = run.experiments.iter().flat_map(|experiment| &experiment.loads);
    let traces = loads.filter_map(|load| load.trace.as_deref());
    let traces = traces.chain(run.trace.iter().map(|trace| trace.path.as_path()));
    named.extend(traces.map(|path| format!("trace {}", path.display())));
    let setups = run.experiments.iter().flat_map(|experiment| &experiment.setups);
    let files = setups.flat_map(|setup| &setup.rules).filter_map(|block| match block {
        RuleBlock::File { path, .. } => Some(path.as_path()),
        RuleBlock::Any { .. } | RuleBlock::Stack { .. } | RuleBlock::FiveTuples { .. } => None,
    });
    let files = files.chain(run.rules.iter().map(|rules| rules.path.as_path()));
    named.extend(files.map(|path| format!("rules {}", path.display())));
    // A name cannot pass for a line of the list.
    named.iter_mut().for_each(|name| *name = one_line(name));
    let mut observed = std::collections::BTreeSet::new();
    named.retain(|name| observed.insert(name.clone()));
    named
}

fn is_own(device: &str) -> bool {
    let is_known = |profile: &str| model::names().any(|name| name == profile);
    OWN.contains(&device) || device.strip_prefix("model:").is_some_and(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices;

    #[test]
    fn niclabs_own_devices_need_no_trust_and_all_others_do() {
        assert!(devices::DEFAULT.into_iter().all(is_own));
        assert!(is_own("model:connectx-5") && is_own("linux-xdp:veth"));
        for device in [
            "swx:",
            "swx:/tmp/his",
            "swx:.",
            "dpdk:--vdev=net_ring0 -d /tmp/his.so",
            "dpdk:-d/tmp/his.so",
            "dpdk: --vdev=net_ring0",
            "linux:eth0,eth1",
            "model:/tmp/his.toml",
            "model:connectx-5.toml",
            "peer:192.0.2.7",
            "ssh://dut=soft",
            "exec:reboot=soft",
            "soft ",
            "",
        ] {
            assert!(!is_own(device), "{device}");
        }
    }
}
