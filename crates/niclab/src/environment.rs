//! The machine of a run, and its sources of noise.

use std::fs;
use std::io::Read;

use flate2::read::GzDecoder;
use niclab_device::cores::boot_id;
use niclab_device::{Fact, HostEnvironment};
use niclab_lab::run::RunDevice;
use niclab_result::{Environment, SCHEMA};

/// Reads the facts that bear on a measurement. What cannot be read is left out.
pub fn read() -> Environment {
    Environment { schema: SCHEMA, facts: facts(), noise: noise() }
}

/// This host, as an agent describes it to another one. Its place is empty.
pub fn this_host() -> HostEnvironment {
    let Environment { facts, noise, .. } = read();
    let facts = facts.into_iter().map(|(name, value)| Fact { name, value }).collect();
    HostEnvironment { place: String::new(), boot_id: boot_id(), facts, noise }
}

/// Adds the facts and the noise of other hosts, each behind its place.
pub fn add_hosts(environment: &mut Environment, devices: &[RunDevice]) {
    let mut known = Vec::new();
    for host in devices.iter().flat_map(|device| &device.about.environments) {
        if !known.contains(&host.place.as_str()) {
            known.push(host.place.as_str());
            let place = &host.place;
            let facts = host.facts.iter();
            let facts = facts.map(|fact| (format!("{place}: {}", fact.name), fact.value.clone()));
            environment.facts.extend(facts);
            environment.noise.extend(host.noise.iter().map(|noise| format!("{place}: {noise}")));
        }
    }
}

fn text(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim().trim_end_matches('\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// The value of a line `name : value` of a file of such lines.
fn line(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let of =
        |line: &str| line.split_once(':').map(|(n, v)| (n.trim().to_owned(), v.trim().to_owned()));
    text.lines().filter_map(of).find(|(n, _)| n == name).map(|(_, value)| value)
}

pub use niclab_lab::origin::HOST;

/// Where the processor says what it is.
const CPU: &str = "/proc/cpuinfo";
const GOVERNOR: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
const CMDLINE: &str = "/proc/cmdline";

/// The processor's name.
fn cpu() -> Option<String> {
    line(CPU, "model name").or_else(|| line(CPU, "CPU part"))
}

fn facts() -> Vec<(String, String)> {
    let uname = rustix::system::uname();
    let kernel = format!(
        "{} {} {}",
        uname.sysname().to_string_lossy(),
        uname.release().to_string_lossy(),
        uname.machine().to_string_lossy()
    );
    let cores = std::thread::available_parallelism().map(|n| n.to_string()).ok();
    let host = uname.nodename().to_string_lossy().into_owned();
    let named = [
        (HOST, Some(host).filter(|name| !name.is_empty())),
        ("cpu", cpu()),
        ("microcode", line(CPU, "microcode")),
        ("cores of this process", cores),
        ("hypervisor", hypervisor()),
        ("memory", line("/proc/meminfo", "MemTotal")),
        ("transparent huge pages", text("/sys/kernel/mm/transparent_hugepage/enabled")),
        ("kernel", Some(kernel)),
        ("kernel command line", text(CMDLINE)),
        ("kernel's clock and preemption", config().as_deref().map(timing)),
        ("kernel's debug options", config().as_deref().map(debugging)),
        ("mitigations", mitigations()),
        ("netfilter", Some(netfilter())),
        ("governor", Some(text(GOVERNOR).unwrap_or_else(|| "none visible".to_owned()))),
        ("clock source", text("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        ("counter", Some(niclab_load::clock::Clock::new().source().to_owned())),
        ("steal since boot", steal().map(|share| format!("{:.2} %", share * 100.0))),
        ("load average", text("/proc/loadavg")),
    ];
    named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The options that the running kernel was built with, where it tells.
fn config() -> Option<String> {
    let mut text = String::new();
    if let Ok(file) = fs::File::open("/proc/config.gz") {
        GzDecoder::new(file).read_to_string(&mut text).ok()?;
        return Some(text);
    }
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    fs::read_to_string(format!("/boot/config-{release}")).ok()
}

/// Options that make a kernel slower by more than measurements scatter.
const DEBUG: [&str; 8] = [
    "DEBUG_ATOMIC_SLEEP",
    "DEBUG_KMEMLEAK",
    "DEBUG_LOCK_ALLOC",
    "DEBUG_PAGEALLOC_ENABLE_DEFAULT",
    "KASAN",
    "KCSAN",
    "PROVE_LOCKING",
    "SLUB_DEBUG_ON",
];

/// `true` where an option is built in.
fn has(config: &str, option: &str) -> bool {
    config.lines().any(|line| line.strip_prefix("CONFIG_") == Some(&format!("{option}=y")))
}

fn debugging(config: &str) -> String {
    let on: Vec<&str> = DEBUG.into_iter().filter(|option| has(config, option)).collect();
    if on.is_empty() { "none that slows the kernel down".to_owned() } else { on.join(", ") }
}

/// `250 Hz, PREEMPT_NONE, PREEMPT_DYNAMIC`.
fn timing(config: &str) -> String {
    let hz = config.lines().find_map(|line| line.strip_prefix("CONFIG_HZ="));
    let models = ["PREEMPT_NONE", "PREEMPT_VOLUNTARY", "PREEMPT", "PREEMPT_RT", "PREEMPT_DYNAMIC"];
    let on = models.into_iter().filter(|model| has(config, model)).map(str::to_owned);
    hz.map(|hz| format!("{hz} Hz")).into_iter().chain(on).collect::<Vec<_>>().join(", ")
}

/// Flaws of the processor that the kernel works around, which costs at each call and interrupt.
fn mitigations() -> Option<String> {
    let flaws = fs::read_dir("/sys/devices/system/cpu/vulnerabilities").ok()?;
    let worked_around = |entry: fs::DirEntry| {
        let message = fs::read_to_string(entry.path()).ok()?;
        let name = entry.file_name().to_string_lossy().into_owned();
        message.starts_with("Mitigation").then_some(name)
    };
    let mut names: Vec<String> = flaws.flatten().filter_map(worked_around).collect();
    names.sort();
    Some(if names.is_empty() { "none".to_owned() } else { names.join(", ") })
}

/// Packet filters of this network namespace.
fn netfilter() -> String {
    let tables = ["ip_tables_names", "ip6_tables_names"].map(|name| {
        let names = fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
        names.lines().map(|table| name.replace("_names", " ") + table).collect::<Vec<_>>()
    });
    let tracked = text("/proc/sys/net/netfilter/nf_conntrack_count");
    let tracked = tracked.filter(|count| count != "0");
    let tracked = tracked.map(|count| format!("{count} tracked connections"));
    let all: Vec<String> = tables.concat().into_iter().chain(tracked).collect();
    match all.is_empty() {
        true => "no table of iptables, no tracked connection (nftables is not looked at)".into(),
        false => all.join(", "),
    }
}

/// Whether the processor says that a hypervisor runs this system.
fn hypervisor() -> Option<String> {
    let flags = line(CPU, "flags")?;
    let is_virtual = flags.split(' ').any(|flag| flag == "hypervisor");
    Some(if is_virtual { "yes: this is a virtual machine" } else { "none" }.to_owned())
}

/// Share of the time since boot in which the hypervisor ran something else.
fn steal() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<f64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|t| t.parse().ok()).collect();
    let all: f64 = ticks.iter().take(8).sum();
    Some(ticks.get(7)? / all)
}

/// Sources of noise, each with its remedy.
pub fn noise() -> Vec<String> {
    let busy = text("/proc/loadavg")
        .and_then(|load| load.split(' ').next()?.parse::<f64>().ok())
        .filter(|&load| load > 0.5)
        .map(|load| format!("load average {load}: other programs run; stop them"));
    let governor = text(GOVERNOR)
        .filter(|governor| governor != "performance")
        .map(|governor| format!("governor {governor}: set it to performance"));
    let steal = steal().filter(|&share| share > 0.001).map(|share| {
        format!("steal {:.1} %: other virtual machines run on this host", share * 100.0)
    });
    let hypervisor = hypervisor()
        .filter(|text| text.starts_with("yes"))
        .map(|_| "a virtual machine: its host can take the cores away at any time".to_owned());
    let isolated = text(CMDLINE)
        .filter(|cmdline| !cmdline.contains("isolcpus"))
        .map(|_| "no isolated cores: boot with isolcpus and nohz_full for the cores under test");
    [busy, governor, steal, hypervisor, isolated.map(str::to_owned)].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_kernel_are_told_by_their_whole_names() {
        let config = "CONFIG_HZ_250=y\nCONFIG_HZ=250\n# CONFIG_KASAN is not set\n\
                      CONFIG_KASAN_SHADOW_OFFSET=1\nCONFIG_PREEMPT_DYNAMIC=y\n";
        assert_eq!(timing(config), "250 Hz, PREEMPT_DYNAMIC");
        assert_eq!(debugging(config), "none that slows the kernel down");
        let slow = "CONFIG_PROVE_LOCKING=y\nCONFIG_KASAN=y\nCONFIG_PREEMPT=y\nCONFIG_HZ=1000\n";
        assert_eq!(debugging(slow), "KASAN, PROVE_LOCKING");
        assert_eq!(timing(slow), "1000 Hz, PREEMPT");
    }
}
