//! Engines behind the card report what one engine reports, and numbers out of range are refused.

use super::*;
use crate::detecting::{DetectionWorkload, RuleMix};

fn detecting(division: RuleDivision, mix: RuleMix, cores: u16) -> Detecting {
    Detecting {
        engine: InspectionEngine::Niclab,
        division,
        workload: DetectionWorkload { mix, rules: 1_000, seed: 3 },
        cores,
        duration_ns: 1,
        warmup_ns: 0,
    }
}

#[test]
fn all_cores_together_report_the_alerts_of_one_engine() {
    let cores = cores::allowed().len().min(4) as u16;
    for mix in [RuleMix::Services, RuleMix::Servers, RuleMix::Any] {
        for division in [RuleDivision::Copies, RuleDivision::Partitions] {
            let (seen, frames) = detect(&detecting(division, mix, cores), false).unwrap();
            assert_eq!((seen.wrong, seen.lost, seen.given_up), (0, 0, 0), "{mix:?}, {division:?}");
            assert!(seen.alerts > 100 && frames >= seen.packets, "{seen:?}");
            assert_eq!(seen.cores.iter().map(|core| core.packets).sum::<u64>(), seen.packets);
            assert_eq!(seen.passes_ns.len(), 1);
            assert!(seen.card_ns > Some(0.0));
            let rules: u64 = seen.cores.iter().map(|core| core.rules).sum();
            let is_divided = division == RuleDivision::Partitions && mix != RuleMix::Any;
            let all = 1_000 * u64::from(cores);
            assert_eq!(rules < all, is_divided && cores > 1, "{mix:?}, {division:?}: {rules}");
            let memory = |core: &crate::DetectionCore| core.memory_bytes > 100_000;
            assert!(seen.cores.iter().all(memory), "{seen:?}");
        }
    }
}

#[test]
fn a_missing_core_of_the_partition_is_noticed() {
    let load = DetectionLoad::new(&detecting(RuleDivision::Copies, RuleMix::Any, 1).workload);
    let load = load.unwrap();
    let partition = divide(&load, RuleDivision::Copies, 2).unwrap();
    let expected = alerts::of_one_engine(&load);
    let mut staged = staging::stage(&load.frames, &partition).unwrap();
    assert_eq!(staged.lost, 0);
    let engines = [0, 1].map(|core| inspection::engine(&load, &partition, core));
    let counted =
        |packets: &[staging::CorePackets]| inspection::counted(&engines, packets, &partition);
    assert_eq!(counted(&staged.cores), (expected.clone(), 0));
    staged.cores[1] = staging::CorePackets::default();
    assert!(alerts::difference(&counted(&staged.cores).0, &expected) > 10);
}

#[test]
fn a_rule_that_an_engine_gives_up_is_counted() {
    let mut load =
        DetectionLoad::new(&detecting(RuleDivision::Copies, RuleMix::Any, 1).workload).unwrap();
    let rule = "alert udp any any -> any any (pcre:\"/(a|aa|[a-z ]){1,2000}\\x00/\"; sid:9999999;)";
    let (_, signature) = niclab_ids::engine::read(rule, &Default::default()).unwrap().remove(0);
    load.signatures[0] = signature.unwrap();
    load.frames.truncate(16);
    let partition = divide(&load, RuleDivision::Copies, 1).unwrap();
    let staged = staging::stage(&load.frames, &partition).unwrap();
    let engines = [inspection::engine(&load, &partition, 0)];
    assert!(inspection::counted(&engines, &staged.cores, &partition).1 > 0);
}

#[test]
fn numbers_out_of_range_are_bad_loads_and_missing_cores_not_supported() {
    let refused = |change: fn(&mut Detecting)| {
        let mut of = detecting(RuleDivision::Copies, RuleMix::Any, 1);
        change(&mut of);
        detect(&of, false).unwrap_err().to_string()
    };
    assert_eq!(refused(|of| of.workload.rules = 0), "load: rules = 0: use 1 to 50000");
    assert_eq!(refused(|of| of.cores = 13), "load: cores = 13: use 1 to 12");
    let there = cores::allowed().len();
    if there < CORES_MAX {
        let words = format!("not supported: {CORES_MAX} cores: there are {there}");
        assert_eq!(refused(|of| of.cores = CORES_MAX as u16), words);
    }
}
