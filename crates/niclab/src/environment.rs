//! The machine a run is made on, and what on it may disturb a measurement.

use std::fs;

use niclab_result::{Environment, SCHEMA};

/// Reads the facts that bear on a measurement. What cannot be read is left out.
pub fn read() -> Environment {
    Environment { schema: SCHEMA, facts: facts(), noise: noise() }
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

/// Where the processor says what it is.
const CPU: &str = "/proc/cpuinfo";
const GOVERNOR: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
const CMDLINE: &str = "/proc/cmdline";

/// The processor's name.
pub fn cpu() -> Option<String> {
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
    let named = [
        ("cpu", cpu()),
        ("microcode", line(CPU, "microcode")),
        ("cores of this process", cores),
        ("hypervisor", hypervisor()),
        ("memory", line("/proc/meminfo", "MemTotal")),
        ("transparent huge pages", text("/sys/kernel/mm/transparent_hugepage/enabled")),
        ("kernel", Some(kernel)),
        ("kernel command line", text(CMDLINE)),
        ("governor", Some(text(GOVERNOR).unwrap_or_else(|| "none visible".to_owned()))),
        ("clock source", text("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        ("counter", Some(niclab_load::clock::Clock::new().source().to_owned())),
        ("steal since boot", steal().map(|share| format!("{:.2} %", share * 100.0))),
        ("load average", text("/proc/loadavg")),
    ];
    named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Whether the processor says that it is a guest's.
fn hypervisor() -> Option<String> {
    let flags = line(CPU, "flags")?;
    let guest = flags.split(' ').any(|flag| flag == "hypervisor");
    Some(if guest { "yes: this is a virtual machine" } else { "none" }.to_owned())
}

/// Share of the time since boot in which the hypervisor ran something else.
fn steal() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<f64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|t| t.parse().ok()).collect();
    let all: f64 = ticks.iter().take(8).sum();
    Some(ticks.get(7)? / all)
}

/// What may disturb a measurement, each with what would mend it.
pub fn noise() -> Vec<String> {
    let busy = text("/proc/loadavg")
        .and_then(|load| load.split(' ').next()?.parse::<f64>().ok())
        .filter(|&load| load > 0.5)
        .map(|load| format!("load average {load}: other programs run; stop them"));
    let governor = text(GOVERNOR)
        .filter(|governor| governor != "performance")
        .map(|governor| format!("governor {governor}: set it to performance"));
    let steal = steal()
        .filter(|&share| share > 0.001)
        .map(|share| format!("steal {:.1} %: other guests run on this host", share * 100.0));
    let guest = hypervisor()
        .filter(|text| text.starts_with("yes"))
        .map(|_| "a virtual machine: gaps of its cores are not in its hands".to_owned());
    let isolated = text(CMDLINE)
        .filter(|cmdline| !cmdline.contains("isolcpus"))
        .map(|_| "no isolated cores: boot with isolcpus and nohz_full for the cores under test");
    [busy, governor, steal, guest, isolated.map(str::to_owned)].into_iter().flatten().collect()
}
