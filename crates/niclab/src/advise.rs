//! `niclab advise`: a workload on a modelled card.

mod document;

use std::io::Write;
use std::path::Path;

use niclab_device::model::profile::Profile;
use niclab_device::{ControlCore, model};
use niclab_lab::advise::{Candidate, Forecast, Workload, advise};

use crate::failure::Failure;
use crate::output::{json, stdout};
use document::AdviceDocument;

/// Devices that there is something to compute of.
const MODEL: &str = "model:";

/// Longest file of a workload.
const LEN_MAX: u64 = 1 << 20;

/// Says whether to offload, how, what to expect, and which limit binds first; as JSON where that is
/// asked for.
pub fn run(device: &str, file: &Path, is_json: bool) -> Result<(), Failure> {
    let Some(name) = device.strip_prefix(MODEL) else {
        return Err(Failure::NotModelled { device: device.to_owned() });
    };
    let profile = model::read(name)?;
    let text = niclab_files::text(file, LEN_MAX)
        .map_err(|error| Failure::UnreadWorkload { path: file.to_owned(), error })?;
    let workload = Workload::parse(&file.display().to_string(), &text)?;
    let ways = advise(&profile, &workload)?;
    if is_json {
        return json(&AdviceDocument::of(device, &profile, &workload, &ways));
    }
    write(&mut stdout(), device, &profile, &workload, &ways)?;
    Ok(())
}

fn write(
    out: &mut impl Write,
    device: &str,
    profile: &Profile,
    workload: &Workload,
    ways: &[Candidate],
) -> std::io::Result<()> {
    writeln!(out, "{} on {device} ({}), computed, not measured", workload.name, profile.title)?;
    let known = ways.iter().filter_map(|way| Some((way, way.outcome.as_ref().ok()?)));
    match known.clone().next() {
        Some((way, outcome)) if outcome.fits() => {
            writeln!(out, "offload: yes, {}, {}", layout(way), worker(way))?;
            tell(out, workload, outcome)?;
        }
        Some((way, outcome)) => {
            writeln!(out, "offload: no; nearest: {}, {}", layout(way), worker(way))?;
            tell(out, workload, outcome)?;
            writeln!(out, "  does not fit: {}", outcome.misses.join("; "))?;
        }
        None => writeln!(out, "offload: not known")?,
    }
    writeln!(out)?;
    let head = ["layout", "rules from", "fits", "Mpps", "loss", "p50 us", "p99 us", "rules/s"];
    let [a, b, c, d, e, f, g, h] = head;
    writeln!(out, "{a:<10} {b:<21} {c:<4} {d:>6} {e:>8} {f:>7} {g:>8} {h:>8}  binds first")?;
    for way in ways {
        write!(out, "{:<10} {:<21} ", layout(way).trim_start_matches("in "), short(way.core))?;
        match &way.outcome {
            Ok(outcome) => row(out, outcome)?,
            Err(reason) => writeln!(out, "{reason}")?,
        }
    }
    let left_out = not_modelled(profile);
    if !left_out.is_empty() {
        writeln!(out, "\nNot modelled (no published data): {}.", left_out.join(", "))?;
    }
    if is_destroying_unknown(profile, ways) {
        writeln!(out, "Not modelled (no published data): the time to destroy a rule in group 0.")?;
    }
    Ok(())
}

/// The costs that the profile does not have.
fn not_modelled(profile: &Profile) -> Vec<&'static str> {
    let unknown = profile.unknown();
    let costs = ["pcie", "pcie.frame_ns", "pcie.byte_ps", "port.frame_rate_max"];
    costs.into_iter().filter(|cost| unknown.iter().any(|of| of == cost)).collect()
}

/// Whether some way has rules in group 0, and the profile does not know how long it takes to
/// destroy one there.
fn is_destroying_unknown(profile: &Profile, ways: &[Candidate]) -> bool {
    let has_root_rules = |way: &Candidate| way.groups == 0 && way.outcome.is_ok();
    profile.number("root_rules", "destroy_ns").is_none() && ways.iter().any(has_root_rules)
}

fn row(out: &mut impl Write, outcome: &Forecast) -> std::io::Result<()> {
    let fits = if outcome.fits() { "yes" } else { "no" };
    let [p50, p99] = latencies(outcome);
    let binds = outcome
        .room
        .first()
        .map_or(String::new(), |(limit, room)| format!("{} ({})", limit.words(), times(*room)));
    writeln!(
        out,
        "{fits:<4} {:>6.3} {:>8} {p50:>7} {p99:>8} {:>8.0}  {binds}",
        outcome.throughput_pps / 1e6,
        share(outcome.loss_ratio),
        outcome.rules_per_s,
    )
}

fn tell(out: &mut impl Write, workload: &Workload, outcome: &Forecast) -> std::io::Result<()> {
    let [p50, p99] = latencies(outcome);
    writeln!(
        out,
        "  {:.3} of {:.3} Mpps come through, {} are lost",
        outcome.throughput_pps / 1e6,
        workload.rate_mpps,
        share(outcome.loss_ratio),
    )?;
    writeln!(out, "  latency {p50} us (median), {p99} us (99 %)")?;
    let rate = outcome.rules_per_s;
    writeln!(
        out,
        "  {rate:.0} of {} new rules a second are in the card in time",
        workload.new_per_s
    )?;
    writeln!(out, "  what each limit allows, in times this workload:")?;
    for (limit, room) in &outcome.room {
        writeln!(out, "  {:>8}  {}", times(*room), limit.words())?;
    }
    Ok(())
}

/// Median and 99th percentile, microseconds; dashes where nothing came through.
fn latencies(outcome: &Forecast) -> [String; 2] {
    match outcome.latency_ns {
        Some((p50, p99)) => [p50, p99].map(|ns| format!("{:.1}", ns / 1e3)),
        None => ["-", "-"].map(str::to_owned),
    }
}

fn layout(way: &Candidate) -> String {
    match way.groups {
        0 => "in group 0".to_owned(),
        1 => "in group 1".to_owned(),
        count => format!("in {count} groups"),
    }
}

fn worker(way: &Candidate) -> &'static str {
    match way.core {
        ControlCore::Same => "rules changed by a core that forwards",
        ControlCore::Distinct => "rules changed by a core of its own",
    }
}

fn short(core: ControlCore) -> &'static str {
    match core {
        ControlCore::Same => "a core that forwards",
        ControlCore::Distinct => "a core of its own",
    }
}

fn share(share: f64) -> String {
    match 100.0 * share {
        percent if percent < 5e-5 => "0 %".to_owned(),
        percent => format!("{percent:.2} %"),
    }
}

fn times(times: f64) -> String {
    match times {
        times if times >= 100.0 => format!("{times:.0}"),
        times if times >= 10.0 => format!("{times:.1}"),
        times => format!("{times:.2}"),
    }
}
