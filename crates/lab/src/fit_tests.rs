//! Profiles fitted to published figures and to measurements of known cards.

use std::io::Write;

use niclab_device::model::{self, Model, read};
use niclab_result::{Mark, Sample};

use super::*;
use crate::spec::GridName;
use crate::validation::{CARDS, measure};

/// The text that comes with niclab is what the fit gives today, to the last digit.
#[test]
fn profiles_of_published_cards_are_what_is_fitted_to_them() {
    for (card, name) in CARDS {
        let (_, text) = model::text(name).unwrap();
        assert!(
            fitted(card).text() == text,
            "profiles/{name}.toml is not what is fitted: run `niclab profile fit \
             published:{} > profiles/{name}.toml`",
            format!("{card:?}").to_lowercase()
        );
    }
}

/// The same of the profiles of round trips; and what is fitted is in the rows that they name.
#[test]
fn profiles_of_published_round_trips_are_what_is_fitted_to_them() {
    for one in echoes::ECHOING {
        let (_, text) = model::text(one.profile).unwrap();
        let profile = one.profile;
        assert!(
            one.fitted().text() == text,
            "profiles/{profile}.toml is not what is fitted: run `niclab profile fit \
             published:{profile} > profiles/{profile}.toml`"
        );
        assert_eq!(one.fitted().fitted_to.is_empty(), profile.contains("off-path"));
    }
}

/// A card like one of the shelf, with these numbers, each by section and key.
fn card(numbers: &[(&str, &str, f64)]) -> Profile {
    let known = read("connectx-5").unwrap();
    Profile::of(known.title.clone(), "a test".into(), Vec::new(), |section| {
        let Part::Known(keys) = known.part(section.name) else {
            return known.part(section.name).clone();
        };
        let keys = keys.iter().map(|(key, entry)| {
            let is_it =
                |(of, name, _): &&(&str, &str, f64)| *of == section.name && *name == key.name;
            let other = numbers.iter().find(is_it).map(|(.., value)| Entry::Known {
                value: *value,
                basis: Basis::Stated,
                source: "a test".to_owned(),
            });
            (*key, other.unwrap_or_else(|| entry.clone()))
        });
        Part::Known(keys.collect())
    })
}

/// Samples of all experiments that a fit reads.
fn measured(profile: &Profile) -> Vec<Sample> {
    let mut model = Model::new("card", profile.clone(), 11);
    let mut samples = Vec::new();
    let mut take = |experiment: &str, set: &[&str]| {
        let measured = measure(&mut model, experiment, GridName::Published, set, Some(3));
        samples.extend(measured.expect("an experiment with these values").samples);
    };
    take("occupancy", &["groups=0", "rules=1,16k,32k,48k,56k,58k,60k,65_536", "frame=1500"]);
    let rules = "rules=16,1k,4k,16k,64k,1M,4M";
    take("occupancy", &["groups=1,4,16", rules, "frame=1500"]);
    let single = "calls=single";
    for group in ["group=0", "group=1"] {
        let rules = "rules=1,16k,65_535";
        let stacks = "stack=eth,eth/ipv4,eth/ipv6,eth/ipv4/tcp,eth/vlan/ipv4/tcp,gre/ipv4/tcp";
        take("rule-rate", &[group, rules, stacks, "actions=queue", single]);
    }
    let actions = "actions=queue,mark+queue,mark+set_meta+queue";
    take("rule-rate", &["group=1", "rules=16k,65_535", "stack=eth", actions, single]);
    let rules = "rules=100k,200k,500k,1M,2M,4M";
    take("rule-update", &["group=1", rules, "change=actions,anew", single, "traffic=none"]);
    let tick = ["core=same", "slice=tick", single, "frame=1500"];
    take("update-rate", &[&["group=0", "rules=10k", "per_s=1k,5k"][..], &tick].concat());
    take("update-rate", &[&["group=1", "rules=64k", "per_s=50k,200k"][..], &tick].concat());
    samples
}

/// The room of group 0, searched for.
fn searched(profile: &Profile) -> Vec<Sample> {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let grid = "repeats = 1\nduration_ms = 4\nwarmup_ms = 1\n";
    let knee = "kind = \"capacity\"\ngroups = 0\nrules_min = 2\nrules_max = 131_072\nwidth = 0.0\n";
    let of = |name| format!("[{name}]\n{grid}[[{name}.knee]]\n{knee}");
    let grids = ["reduced", "full", "published"].map(of).concat();
    write!(file, "name = \"room\"\nkind = \"occupancy\"\nquestion = \"?\"\n{grids}").unwrap();
    let path = file.path().to_str().unwrap();
    let mut model = Model::new("card", profile.clone(), 11);
    measure(&mut model, path, GridName::Published, &[], None).unwrap().samples
}

/// Each number that is known of the card, with that which was found and by how much it is off.
fn compared(known: &Profile, found: &Profile) -> Vec<(String, Option<f64>, f64)> {
    let mut all = Vec::new();
    for (section, part) in known.sections().filter(|(section, _)| section.name != INJECTED) {
        let Part::Known(keys) = part else { continue };
        for (key, _) in keys {
            let Some(value) = known.number(section.name, key.name) else { continue };
            let other = found.number(section.name, key.name);
            let off = other.map_or(f64::INFINITY, |other| (other / value - 1.0).abs());
            all.push((format!("{}.{}", section.name, key.name), other, off));
        }
    }
    all
}

/// What is written reads back, so that the card can be modelled.
fn read_back(found: &Profile) -> Profile {
    let read =
        Profile::parse("found.toml", &found.text()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(&read, found);
    read
}

/// The card that is to be found. Two of its numbers lie between those that a fit tries.
fn wanted() -> Profile {
    card(&[
        ("root_rules", "destroy_ns", 9_000.0),
        ("groups", "near_rules", 1_450.0),
        ("group_rules", "near_rules", 650_000.0),
    ])
}

#[test]
fn every_number_of_a_steady_card_is_found_again() {
    let mut known = wanted();
    known.inject("noise_ratio", 0.0);
    let mut samples = measured(&known);
    samples.extend(searched(&known));
    let found = read_back(&of_results("card", "a test", &samples).unwrap());
    for (name, value, off) in compared(&known, &found) {
        let most = match name.as_str() {
            // Found on a grid, each step of which is 6 % greater than the one before; other numbers
            // make up for what it is off.
            "groups.near_rules" | "group_rules.near_rules" => 0.06,
            "groups.table_ns" | "groups.chain_ns" | "group_rules.miss_ns" => 0.02,
            // The first percentile of the latencies is a little more than the least.
            "host.base_ns" => 0.02,
            // A whole number: one frame of 154.
            "host.ring_frames" => 0.007,
            _ => 0.006,
        };
        assert!(off <= most, "{name}: {value:?}, {:.2} % off", 100.0 * off);
    }
    assert_eq!(found.number("root", "rules_max"), Some(65_536.0));
    // What the card was not said to do is not found either.
    for (section, key) in [("port", "frame_rate_max"), ("pcie", "frame_ns"), ("pcie", "byte_ps")] {
        assert_eq!(found.number(section, key), None, "{section}.{key}");
    }
    let bases = found.sections().filter_map(|(_, part)| match part {
        Part::Known(keys) => Some(keys),
        Part::Lacking | Part::Unknown => None,
    });
    for (key, entry) in bases.flatten() {
        let Entry::Known { source, .. } = entry else { continue };
        let usual = key.name == "burst_frames";
        assert!(source.starts_with("a test") || usual, "{}: {source}", key.name);
    }
    let message = ["occupancy", "room", "rule-rate", "rule-update", "update-rate"];
    assert_eq!(found.fitted_to, message.map(|experiment| format!("a test: {experiment}")));
}

#[test]
fn numbers_of_a_card_whose_trials_differ_are_found_nearly() {
    let known = wanted();
    let found = read_back(&of_results("card", "a test", &measured(&known)).unwrap());
    for (name, value, off) in compared(&known, &found) {
        let most = match name.as_str() {
            // Only a search finds it: so many were tried.
            "root.rules_max" => {
                assert_eq!(value, Some(65_536.0));
                continue;
            }
            // Differences of times that are far greater: what trials differ by, 0.3 % of 1.8 us or
            // of 230 ms, is not small beside them.
            "driver.ip_ns" => 0.3,
            "driver.vlan_ns" | "driver.action_ns" | "root.frame_ns" => 0.15,
            "root_rules.warm_rules" | "group_rules.warm_rules" => 0.05,
            // On a grid.
            "groups.near_rules" | "group_rules.near_rules" => 0.06,
            _ => 0.03,
        };
        assert!(off <= most, "{name}: {value:?}, {:.2} % off", 100.0 * off);
    }
}

/// A card that is fitted to few points is right at them.
#[test]
fn a_fit_to_few_points_of_group_0_matches_them() {
    let mut known = card(&[]);
    known.inject("noise_ratio", 0.0);
    for rules in ["1,56k,60k", "1,16k,60k", "1,60k", "1,16k,56k", "1,56k,57k,60k", "1", "60k"] {
        let at = |profile: &Profile| {
            let mut model = Model::new("card", profile.clone(), 11);
            let set = ["groups=0", &format!("rules={rules}"), "frame=1500"];
            measure(&mut model, "occupancy", GridName::Published, &set, Some(1)).unwrap().samples
        };
        let samples = at(&known);
        let found = read_back(&of_results("card", "a test", &samples).unwrap());
        let frame_ns = |samples: &[Sample]| -> Vec<f64> {
            let of = samples.iter().filter(|sample| sample.trial == "saturate");
            of.map(|sample| 1e9 / results::metric(sample, "throughput_pps").unwrap()).collect()
        };
        if found.number("host", "base_ns").is_none() {
            // Without a frame that waits for nothing, no latency is known.
            assert!(!rules.starts_with("1"), "{rules}");
            continue;
        }
        let [known, found] = [&samples, &at(&found)].map(|samples| frame_ns(samples));
        assert_eq!(known.len(), found.len());
        let near = |(a, b): (&f64, &f64)| (b / a - 1.0).abs() < 0.03;
        assert!(known.iter().zip(&found).all(near), "{rules}: {known:?} {found:?}");
    }
}

/// Where no frame waits for the core, all that is seen of it is that it keeps up.
#[test]
fn a_core_that_keeps_up_gets_a_bound() {
    let mut known = card(&[("host", "frame_ns", 60.0)]);
    known.inject("noise_ratio", 0.0);
    let mut model = Model::new("card", known, 11);
    let set = ["groups=0", "rules=1,16k,56k,60k", "frame=1500"];
    let samples = measure(&mut model, "occupancy", GridName::Published, &set, Some(1)).unwrap();
    let found = read_back(&of_results("card", "a test", &samples.samples).unwrap());
    let Entry::Known { value, basis, .. } = found.entry("host", "frame_ns") else {
        panic!("{:?}", found.part("host"));
    };
    assert!(*basis == Basis::AtMost && (60.0..122.0).contains(value), "{value} {basis:?}");
    assert!((found.number("port", "rate_gbps").unwrap() / 100.0 - 1.0).abs() < 1e-3);
    // What was not measured stays unknown.
    for section in ["groups", "driver", "root_rules", "group_rules", "pcie"] {
        assert_eq!(found.part(section), &Part::Unknown, "{section}");
    }
}

#[test]
fn a_fit_without_the_throughput_of_group_0_fails_and_names_the_measurement() {
    let mut model = Model::new("card", card(&[]), 11);
    let mut measured = |set: &[&str]| {
        let set = [set, &["frame=1500", "duration_ms=5"][..]].concat();
        measure(&mut model, "occupancy", GridName::Published, &set, Some(1)).unwrap().samples
    };
    let remedy = "niclab run occupancy --set groups=0";
    let refused = |device: &str, samples: &[Sample]| {
        let error = of_results(device, "a test", samples).unwrap_err();
        assert_eq!(error.device, device);
        assert!(error.to_string().starts_with(&format!("{device}: ")), "{error}");
        assert!(error.reason.contains(remedy), "{error}");
    };
    refused("card", &[]);
    refused("card", &measured(&["groups=1", "rules=16,1k"]));
    let mut samples = measured(&["groups=0", "rules=1,16k"]);
    refused("another", &samples);
    assert!(of_results("card", "a test", &samples).is_ok());
    for sample in &mut samples {
        sample.marks.push(Mark::Disturbed);
    }
    refused("card", &samples);
}
