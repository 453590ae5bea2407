//! Energy that a machine consumes, where it has meters that Linux can read.
//!
//! Two kinds of meters count energy: RAPL's packages (`/sys/class/powercap`, *Intel SDM* volume 3B,
//! "RAPL interfaces"; AMD's likewise) and sensors of `hwmon` (`energyN_input`, microjoules). Those
//! of packages hold cores, caches and often memory, and leave out the card and the power supply.

use std::fs;
use std::path::{Path, PathBuf};

use crate::face::Energy;

/// One meter.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Meter {
    name: String,
    /// The file with its count, microjoules.
    path: PathBuf,
    /// The value at which its count wraps.
    range_uj: Option<u64>,
}

/// A reading of all meters of this machine.
#[derive(Clone, Debug)]
pub struct Reading {
    counts: Vec<(Meter, u64)>,
    why_none: String,
}

impl Reading {
    /// Reads them now.
    pub fn now() -> Reading {
        Reading::below(Path::new("/sys/class"))
    }

    fn below(class: &Path) -> Reading {
        let meters = match packages(&class.join("powercap")) {
            none if none.is_empty() => sensors(&class.join("hwmon")),
            packages => packages,
        };
        let mut why_none = "this machine has no meter that Linux can read (RAPL, hwmon): virtual \
                            machines have none"
            .to_owned();
        let mut counts = Vec::new();
        for meter in meters {
            match count(&meter.path) {
                Ok(count) => counts.push((meter, count)),
                Err(error) => why_none = format!("{}: {error}", meter.path.display()),
            }
        }
        Reading { counts, why_none }
    }

    /// The energy consumed since `before`.
    pub fn since(&self, before: &Reading) -> Energy {
        let mut meters = Vec::new();
        let mut joules = 0.0;
        for (meter, count) in &self.counts {
            let Some((_, was)) = before.counts.iter().find(|(other, _)| other == meter) else {
                continue;
            };
            let passed = match (count.checked_sub(*was), meter.range_uj) {
                (Some(passed), _) => passed,
                // It began anew.
                (None, Some(range)) => range.saturating_sub(*was) + count,
                (None, None) => continue,
            };
            joules += passed as f64 / 1e6;
            meters.push(meter.name.clone());
        }
        match meters.is_empty() {
            true => Energy::Unknown { why: self.why_none.clone() },
            false => Energy::Measured { joules, meters },
        }
    }
}

/// RAPL's packages; the parts of them are left out, they would count twice.
fn packages(powercap: &Path) -> Vec<Meter> {
    let mut meters = Vec::new();
    for zone in entries(powercap) {
        let path = zone.join("energy_uj");
        let Some(name) = text(&zone.join("name")).filter(|name| name.starts_with("package")) else {
            continue;
        };
        let range_uj = text(&zone.join("max_energy_range_uj")).and_then(|range| range.parse().ok());
        meters.push(Meter { name, path, range_uj });
    }
    meters
}

/// Energy sensors, of all chips that have one.
fn sensors(hwmon: &Path) -> Vec<Meter> {
    let mut meters = Vec::new();
    for chip in entries(hwmon) {
        let chip_name = text(&chip.join("name")).unwrap_or_default();
        for path in entries(&chip) {
            let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(sensor) = file.strip_suffix("_input").filter(|s| s.starts_with("energy"))
            else {
                continue;
            };
            let label = text(&chip.join(format!("{sensor}_label")));
            // One for each core stands beside that of the socket.
            if label.as_ref().is_some_and(|label| label.starts_with("Ecore")) {
                continue;
            }
            let name = format!("{chip_name} {}", label.unwrap_or_else(|| sensor.to_owned()));
            meters.push(Meter { name, path, range_uj: None });
        }
    }
    meters
}

/// The entries of a directory in a fixed order; empty if it does not exist.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn count(path: &Path) -> std::io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| std::io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn packages_are_added_up_their_parts_are_not_and_counts_begin_anew() {
        let class = tempfile::tempdir().unwrap();
        let rapl = |zone: &str, name: &str, count: &str| {
            put(
                class.path(),
                &[
                    (&format!("powercap/{zone}/name"), name),
                    (&format!("powercap/{zone}/energy_uj"), count),
                    (&format!("powercap/{zone}/max_energy_range_uj"), "10000000\n"),
                ],
            );
        };
        rapl("intel-rapl:0", "package-0\n", "1000000\n");
        rapl("intel-rapl:0:0", "core\n", "500000\n");
        rapl("intel-rapl:1", "package-1\n", "9000000\n");
        let before = Reading::below(class.path());
        rapl("intel-rapl:0", "package-0\n", "3500000\n");
        rapl("intel-rapl:0:0", "core\n", "900000\n");
        rapl("intel-rapl:1", "package-1\n", "500000\n");
        let observed = Reading::below(class.path()).since(&before);
        let meters = vec!["package-0".to_owned(), "package-1".to_owned()];
        assert_eq!(observed, Energy::Measured { joules: 4.0, meters });
    }

    #[test]
    fn sensors_count_where_there_are_no_packages() {
        let class = tempfile::tempdir().unwrap();
        let chip = |socket: &str| {
            put(
                class.path(),
                &[
                    ("hwmon/hwmon0/name", "amd_energy\n"),
                    ("hwmon/hwmon0/energy1_input", "77\n"),
                    ("hwmon/hwmon0/energy1_label", "Ecore000\n"),
                    ("hwmon/hwmon0/energy9_input", socket),
                    ("hwmon/hwmon0/energy9_label", "Esocket0\n"),
                ],
            );
        };
        chip("1000000");
        let before = Reading::below(class.path());
        chip("1250000");
        let observed = Reading::below(class.path()).since(&before);
        let meters = vec!["amd_energy Esocket0".to_owned()];
        assert_eq!(observed, Energy::Measured { joules: 0.25, meters });
    }

    #[test]
    fn a_missing_energy_meter_is_reported_with_the_reason() {
        let class = tempfile::tempdir().unwrap();
        let none = Reading::below(class.path());
        let Energy::Unknown { why } = none.since(&none) else { panic!() };
        assert!(why.contains("no meter"), "{why}");
    }
}
