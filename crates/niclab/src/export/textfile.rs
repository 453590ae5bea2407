//! Medians as files for the textfile collector of Prometheus' node_exporter.
//!
//! Each host and experiment has a file of its own, so that no two files have the same series. A
//! file is written beside its place and renamed into it, as the collector demands.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use niclab_lab::fleet::point_words;
use niclab_lab::medians::{MetricMedian, medians};
use niclab_result::rows::{DeviceOrigin, point_text};

use super::named_origins;
use crate::failure::Failure;
use crate::files::{reason_of_system, replace};
use crate::output::{one_line, say};
use crate::rows_failure::RowsFailure;
use crate::stored;

/// Longest part of a file's name that a host or an experiment gives, characters.
const PART_LEN_MAX: usize = 80;

/// The family that says whether a mark puts a median in doubt. A label would make a new series of
/// each change of marks.
const MARKED: &str = "niclab_marked";

/// A file: the families by name, each with its series.
type Families = BTreeMap<String, BTreeSet<String>>;

/// Writes the files of a run into the directory that the collector reads.
pub fn write(directory: &Path, place: &Path) -> Result<(), Failure> {
    check_place(place)?;
    let stored = stored::open(directory)?;
    let run = stored::run(directory, &stored.run_toml()?)?;
    let origins = named_origins(directory, &run, stored.environment()?.as_ref());
    let unknown = DeviceOrigin::default();
    let mut files: BTreeMap<String, Families> = BTreeMap::new();
    for of in medians(&run, &stored.samples) {
        let origin = origins.get(of.device).unwrap_or(&unknown);
        let name = format!("niclab_{}_{}.prom", part(&origin.host), part(of.experiment));
        let (family, scale) = family(of.metric, of.unit);
        let families = files.entry(name).or_default();
        let series = families.entry(family.clone()).or_default();
        for (statistic, value) in statistics(&of) {
            let labels = labels(&of, origin, ("statistic", statistic));
            series.insert(format!("{family}{{{labels}}} {}", value * scale));
        }
        let labels = labels(&of, origin, ("family", &family));
        let is_marked = u8::from(!of.doubts().is_empty());
        let marked = families.entry(MARKED.to_owned()).or_default();
        marked.insert(format!("{MARKED}{{{labels}}} {is_marked}"));
    }
    if files.is_empty() {
        return Err(Failure::Unmeasured { directory: directory.to_owned() });
    }
    for (name, families) in files {
        let path = place.join(name);
        replace(&path, text(&families).as_bytes(), OTHER_DIRECTORY)?;
        say(&format!("textfile: {}", path.display()));
    }
    Ok(())
}

/// The remedy if a file cannot be written.
const OTHER_DIRECTORY: &str = "give another directory with --textfile";

/// Checks that files can have their place there.
fn check_place(place: &Path) -> Result<(), Failure> {
    let reason = match fs::metadata(place) {
        Ok(about) if about.is_dir() => return Ok(()),
        Ok(_) => "not a directory; give the one that the textfile collector reads".to_owned(),
        Err(error) => {
            let remedy = "make the directory (mkdir -p), or give the one that the textfile \
                          collector reads";
            reason_of_system(place, &error, remedy)
        }
    };
    Err(RowsFailure::Textfile { path: place.to_owned(), reason }.into())
}

fn statistics(of: &MetricMedian<'_>) -> Vec<(&'static str, f64)> {
    let mut all = vec![("median", of.estimate.median)];
    if let Some((low, high)) = of.estimate.interval() {
        all.extend([("low", low), ("high", high)]);
    }
    all
}

fn labels(of: &MetricMedian<'_>, origin: &DeviceOrigin, last: (&str, &str)) -> String {
    let point = point_words(&point_text(of.point));
    let pairs = [
        ("host", origin.host.as_str()),
        ("device", of.device),
        ("firmware", &origin.firmware),
        ("driver", &origin.driver),
        ("experiment", of.experiment),
        ("trial", of.trial),
        ("point", &point),
        last,
    ];
    pairs.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).join(",")
}

/// A value of a label: backslash and quote escaped, control characters as their numbers.
fn escaped(value: &str) -> String {
    one_line(value).replace('\\', r"\\").replace('"', r#"\""#)
}

/// The file, as the text format 0.0.4 has it.
fn text(families: &Families) -> String {
    let mut text = String::new();
    for (name, series) in families {
        // The text that is written to takes everything.
        let help = match name.as_str() {
            MARKED => "1 if the generator or the machine may have set a median, else 0.",
            _ => "Result of niclab: median and ends of its interval.",
        };
        let _ = writeln!(text, "# HELP {name} {help}");
        let _ = writeln!(text, "# TYPE {name} gauge");
        for line in series {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// Name of the family of a metric, in base units, and the factor to these.
fn family(metric: &str, unit: &str) -> (String, f64) {
    let (short, base, scale) = match unit {
        "ns" => ("ns", "seconds", 1e-9),
        "pps" => ("pps", "packets_per_second", 1.0),
        "Gbps" => ("gbps", "bits_per_second", 1e9),
        "B" => ("bytes", "bytes", 1.0),
        "1" if metric.ends_with("_ratio") => ("ratio", "ratio", 1.0),
        _ => ("", "", 1.0),
    };
    let words = metric.split('_').filter(|word| *word != short);
    let words = words.chain([base]).filter(|word| !word.is_empty());
    let name: Vec<String> = ["niclab"].into_iter().chain(words).map(identifier).collect();
    // `…_per_s` counts in seconds too.
    let name = name.join("_");
    let name = name.strip_suffix("_per_s").map(|of| format!("{of}_per_second")).unwrap_or(name);
    (name, scale)
}

/// Only what a name of a family may have.
fn identifier(word: &str) -> String {
    word.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// A name as a part of a file's name.
fn part(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let part = name.chars().take(PART_LEN_MAX).map(|c| if is_plain(c) { c } else { '_' });
    let part: String = part.collect();
    if part.is_empty() { "unknown".to_owned() } else { part }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_base_units() {
        for (metric, unit, name, scale) in [
            ("throughput_pps", "pps", "niclab_throughput_packets_per_second", 1.0),
            ("latency_ns_p99", "ns", "niclab_latency_p99_seconds", 1e-9),
            ("device_ns_per_frame", "ns", "niclab_device_per_frame_seconds", 1e-9),
            ("loss_ratio", "1", "niclab_loss_ratio", 1.0),
            ("operations_per_s", "1/s", "niclab_operations_per_second", 1.0),
            ("odd metric{}\n", "x", "niclab_odd_metric___", 1.0),
        ] {
            assert_eq!(family(metric, unit), (name.to_owned(), scale), "{metric}");
        }
    }

    #[test]
    fn labels_and_names_of_files_hold_any_text() {
        assert_eq!(escaped("a\"b\\c\nd\x1b"), r#"a\"b\\c\\u000ad\\u001b"#);
        assert_eq!(escaped(r"\u0041"), r"\\u0041");
        assert_eq!(part("../dut 1"), ".._dut_1");
        assert_eq!(part(""), "unknown");
    }
}
