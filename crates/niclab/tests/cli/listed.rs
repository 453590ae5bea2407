//! Which experiments are measured on which devices: what `README.md` says, what `niclab list` says,
//! and what devices do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use niclab_lab::experiments;

use crate::command::{niclab, run, samples, scratch};

/// The names in backticks in a cell of a table.
fn names(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Experiments and their devices, by the table of `README.md`.
fn of_readme() -> BTreeMap<String, BTreeSet<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().skip_while(|line| !line.starts_with("| experiment |")).skip(2);
    let mut all = BTreeMap::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        for name in names(cells[1]) {
            assert!(all.insert(name.clone(), names(cells[3])).is_none(), "{name} stands twice");
        }
    }
    all
}

#[test]
fn the_readme_names_the_devices_that_the_experiments_have() {
    let listed: BTreeMap<String, BTreeSet<String>> = experiments::list()
        .unwrap()
        .into_iter()
        .map(|of| (of.name, of.devices.iter().map(ToString::to_string).collect()))
        .collect();
    assert_eq!(of_readme(), listed);
    let message = run(niclab(&["list"]));
    for (name, devices) in experiments::list().unwrap().into_iter().map(|of| (of.name, of.devices))
    {
        let part = message.out.split(&format!(" {name}: ")).nth(1).unwrap();
        let on = format!("    on {}", devices.join(", "));
        assert_eq!(part.lines().nth(1), Some(on.as_str()), "{name}");
    }
}

/// Modelled cards compute: all experiments take them a second.
#[test]
fn modelled_cards_measure_what_is_said_of_them_and_nothing_else() {
    let scratch = scratch();
    let path = scratch.path().join("run");
    let devices = ["--device", "model:connectx-5", "--device", "model:bluefield2-snic"];
    let mut command = niclab(&["run", "--all", "--repeats", "1", "-o"]);
    command.arg(&path).args(devices);
    run(command).with(0, &[]);
    let mut measured = BTreeSet::new();
    for sample in samples(&path) {
        if sample["outcome"] == "measured" {
            measured.insert(sample["experiment"].as_str().unwrap().to_owned());
        }
    }
    let message = of_readme().into_iter().filter(|(_, devices)| devices.contains("model:…"));
    assert_eq!(measured, message.map(|(name, _)| name).collect());
}
