//! `niclab doctor --tester … --device …`: both hosts, their ports, and the cable between them.

use std::io::Write;

use niclab_device::remote;
use niclab_device::{
    Arrivals, DeviceError, Fact, Function, HostEnvironment, Load, LoadObservation, Observation,
    Plan, Rate, Receive, Setup, Task, Testbed,
};
use niclab_load::Alignment;
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;
use serde::Serialize;

use crate::devices;
use crate::environment;
use crate::failure::Failure;
use crate::output::{json, one_line, stdout};

/// Frames that show whether the ports are cabled to each other.
const FRAMES: u32 = 100;
const FRAMES_PER_S: f64 = 1_000.0;

/// Facts whose values have to be equal at both ends, named `… of the tester` at one of them.
const EQUAL: [(&str, &str); 2] = [
    ("speed", "the slower port limits both; choose ports of one speed"),
    ("MTU", "set the same MTU on both: `ip link set IFACE mtu N`"),
];

/// What was found of a testbed.
#[derive(Serialize)]
struct CheckedTestbed {
    name: String,
    hosts: Vec<HostEnvironment>,
    facts: Vec<Fact>,
    cable: Cable,
    warnings: Vec<String>,
}

/// What frames between the two ports have shown.
#[derive(Serialize)]
struct Cable {
    /// Frames that the tester sent.
    offered: u64,
    /// Those that came back.
    received: u64,
    /// The difference of the clocks.
    alignment: Option<Alignment>,
}

/// Checks the testbed with each of the devices.
///
/// # Errors
/// [`Failure::NoDevice`] where a testbed cannot be opened, or its ports are not cabled to each
/// other.
pub fn run(
    tester: Option<&str>,
    devices: &[String],
    deploy: bool,
    is_json: bool,
) -> Result<(), Failure> {
    let names = devices::names(tester, devices)?;
    let agents = devices::agents(deploy)?;
    let mut checked = Vec::new();
    let (mut reasons, mut without_cable) = (Vec::new(), Vec::new());
    for name in &names {
        match remote::open(name, &agents).and_then(|mut bed| check(name, &mut *bed)) {
            Ok(testbed) => {
                if testbed.cable.received == 0 {
                    without_cable.push(format!("{}: no frame came back", one_line(name)));
                }
                checked.push(testbed);
            }
            Err(error @ DeviceError::BadName { .. }) => return Err(Failure::UnknownDevice(error)),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    match is_json {
        true => json(&checked)?,
        false => checked.iter().try_for_each(print)?,
    }
    // Of several ports that the cable may lead to, it leads to one.
    let is_found = checked.iter().any(|testbed| testbed.cable.received > 0);
    if !is_found {
        reasons.extend(without_cable);
    }
    match reasons.is_empty() {
        true => Ok(()),
        false => Err(Failure::NoDevice { reasons }),
    }
}

fn check(name: &str, bed: &mut dyn Testbed) -> Result<CheckedTestbed, DeviceError> {
    bed.setup(&Setup {
        rules: Vec::new(),
        queues: 1,
        cores: 1,
        ports: 1,
        receive: Receive::default(),
        function: Function::Forward,
        frame_len_max: 64,
    })?;
    let load = Load {
        flows: FlowSpec::default(),
        sizes: FrameSizes::Fixed(64),
        rate: Rate::Pps(FRAMES_PER_S),
        arrivals: Arrivals::Constant,
        duration_ns: (f64::from(FRAMES) / FRAMES_PER_S * 1e9) as u64,
        warmup_ns: 0,
        seed: 1,
        trace: None,
    };
    let observation = match bed.measure(&Task::Load { load, plan: Plan::Rest })? {
        Observation::Load(observation) => observation,
        _ => return Err(DeviceError::lacks("a load")),
    };
    let about = bed.about();
    let mut hosts = about.environments.clone();
    if name.contains("local=") {
        hosts.insert(0, HostEnvironment { place: "local".to_owned(), ..environment::this_host() });
    }
    let warnings = warnings(&about.facts, &observation);
    Ok(CheckedTestbed {
        name: name.to_owned(),
        hosts,
        facts: about.facts.clone(),
        cable: Cable {
            offered: observation.offered,
            received: observation.received,
            alignment: observation.honesty.alignment,
        },
        warnings,
    })
}

/// What is to be mended before a measurement, each with its remedy.
fn warnings(facts: &[Fact], observation: &LoadObservation) -> Vec<String> {
    let of = |name: &str| facts.iter().find(|fact| fact.name == name).map(|fact| &fact.value[..]);
    let mut warnings = Vec::new();
    for (name, remedy) in EQUAL {
        if let (Some(device), Some(tester)) = (of(name), of(&format!("{name} of the tester")))
            && device != tester
        {
            warnings.push(format!(
                "{name} is {device} at the device and {tester} at the tester; {remedy}"
            ));
        }
    }
    for (name, end) in [("pause frames", "device"), ("pause frames of the tester", "tester")] {
        if of(name).is_some_and(|value| value != "off") {
            warnings.push(format!(
                "the port of the {end} uses pause frames: a slow device slows the tester down and \
                 loses nothing; `ethtool -A IFACE rx off tx off`"
            ));
        }
    }
    if let Some(value) = of("shared core") {
        warnings.push(format!("{value}; give each half a core of its own: `exec:taskset -c 1 …`"));
    }
    if observation.received == 0 {
        warnings.push(
            "no frame came back: the ports are not cabled to each other, or a switch between them \
             does not pass the frames on; give each port that it may be as a --device"
                .to_owned(),
        );
    } else if !observation.honesty.balanced {
        let reasons = observation.honesty.reasons.join("; ");
        warnings.push(format!(
            "counters do not agree ({reasons}): somebody else sends to a port, or frames are lost"
        ));
    }
    warnings
}

/// What each host says of itself, behind its place. What several on one machine say is one line.
fn host_lines(hosts: &[HostEnvironment]) -> Vec<String> {
    let mut lines: Vec<(Vec<&HostEnvironment>, String)> = Vec::new();
    for host in hosts {
        let facts = host.facts.iter().map(|Fact { name, value }| format!("{name}: {value}"));
        for text in facts.chain(host.noise.iter().map(|noise| format!("noise: {noise}"))) {
            let is_same = |of: &[&HostEnvironment]| {
                of[0].place == host.place
                    || !host.boot_id.is_empty() && of[0].boot_id == host.boot_id
            };
            match lines.iter_mut().find(|(of, before)| *before == text && is_same(of)) {
                Some((of, _)) => of.push(host),
                None => lines.push((vec![host], text)),
            }
        }
    }
    let line = |(of, text): (Vec<&HostEnvironment>, String)| {
        let mut places: Vec<&str> = of.into_iter().map(|host| &host.place[..]).collect();
        places.dedup();
        format!("{}: {text}", places.join(" and "))
    };
    lines.into_iter().map(line).collect()
}

fn print(testbed: &CheckedTestbed) -> std::io::Result<()> {
    let mut out = stdout();
    writeln!(out, "testbed {}", one_line(&testbed.name))?;
    for line in host_lines(&testbed.hosts) {
        writeln!(out, "{}", one_line(&line))?;
    }
    for Fact { name, value } in &testbed.facts {
        writeln!(out, "{}: {}", one_line(name), one_line(value))?;
    }
    let Cable { offered, received, alignment } = &testbed.cable;
    writeln!(out, "cable: {received} of {offered} frames came back")?;
    if let Some(Alignment { offset_ns, error_ns, .. }) = alignment {
        let (offset, error) = (offset_ns.unsigned_abs() as f64 / 1e3, *error_ns as f64 / 1e3);
        let way = if *offset_ns < 0 { "behind" } else { "ahead of" };
        writeln!(
            out,
            "clocks: the device's is {offset:.1} us (± {error:.1} us) {way} the tester's; each \
             agent's clock has a beginning of its own"
        )?;
    }
    for warning in &testbed.warnings {
        writeln!(out, "warning: {}", one_line(warning))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(place: &str, boot_id: &str, netfilter: &str) -> HostEnvironment {
        let fact = |(name, value): (&str, &str)| Fact { name: name.into(), value: value.into() };
        HostEnvironment {
            place: place.into(),
            boot_id: boot_id.into(),
            facts: [("cpu", "EPYC"), ("netfilter", netfilter)].map(fact).into(),
            noise: vec!["a virtual machine".into()],
        }
    }

    #[test]
    fn what_two_halves_on_one_machine_say_is_printed_once() {
        let halves = [host("local", "7", "none"), host("exec:b", "7", "filter")];
        assert_eq!(
            host_lines(&halves),
            [
                "local and exec:b: cpu: EPYC",
                "local: netfilter: none",
                "local and exec:b: noise: a virtual machine",
                "exec:b: netfilter: filter",
            ]
        );
        assert_eq!(host_lines(&[host("exec:b", "7", "-"), host("exec:b", "7", "-")]).len(), 3);
    }

    #[test]
    fn what_two_machines_say_is_printed_of_each() {
        for (one, other) in [("7", "8"), ("", "")] {
            let halves = [host("ssh://a", one, "none"), host("ssh://b", other, "none")];
            let lines = host_lines(&halves);
            assert_eq!(lines.len(), 6, "{lines:?}");
            assert!(lines.contains(&"ssh://b: cpu: EPYC".to_owned()), "{lines:?}");
        }
    }
}
