//! Verdicts, and rows driven with a peer that is a shell script.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::exact::{Probe, Prober, Setup};
use crate::insert::{InitialSize, RuleArrival};

fn figures(ratios: &[f64]) -> Figures {
    let theirs = vec![10.0; ratios.len()];
    let ours = ratios.iter().map(|ratio| ratio * 10.0).collect();
    Figures::new(&Pairs { ours, theirs }).unwrap()
}

#[test]
fn a_row_is_met_where_the_whole_interval_and_the_rate_reach_the_goal() {
    let goal = Goal { ratio: 3.0, floor: 20.0 };
    assert_eq!(figures(&[3.0; 30]).verdict(&goal), GoalVerdict::Met);
    assert_eq!(figures(&[3.0; 29]).verdict(&goal), GoalVerdict::Undecided);
    assert_eq!(figures(&[3.0; 30]).verdict(&Goal { floor: 31.0, ..goal }), GoalVerdict::Missed);
    let spread: Vec<f64> = (0..30).map(|i| 2.9 + 0.01 * f64::from(i)).collect();
    assert!(figures(&spread).ratio.median > 3.0);
    assert_eq!(figures(&spread).verdict(&goal), GoalVerdict::Missed);
}

/// A bench whose peers say ten operations in a microsecond to whatever they are asked.
fn bench(directory: &Path) -> Bench {
    let script = "#!/bin/sh\necho ok\nwhile read -r command rest; do\n\
        case $command in table|fill|huge) echo ok ;; *) echo 10 1000 ;; esac\ndone\n";
    for peer in ["rte_hash", "flowgen"] {
        let path = directory.join(peer);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    Bench { core: 0, other: None, pairs: 6, peers: directory.to_owned(), slice_ms: 20 }
}

#[test]
fn each_row_gives_its_pairs() {
    let directory = tempfile::tempdir().unwrap();
    let bench = bench(directory.path());
    let check = |measured: Result<Measured, BenchError>, count| {
        let Ok(Measured { slices: Slices::Paired(pairs), .. }) = measured else {
            panic!("{measured:?}")
        };
        assert_eq!(pairs.theirs, vec![1e7; count]);
        assert!(pairs.ours.len() == count && pairs.ours.iter().all(|&rate| rate > 0.0));
    };
    check(exact::hits(&bench, 1_000), 6);
    check(insert::keys(&bench, 1_000, InitialSize::Growing), 16);
    check(insert::keys(&bench, 1_000, InitialSize::Reserved), 16);
    check(insert::rules(&bench, 1_000, RuleArrival::InTable), 16);
    check(insert::rules(&bench, 1_000, RuleArrival::Whole), 16);
    check(generator::saturated(&bench, 100), 6);
}

#[test]
fn a_row_without_its_peer_gives_our_rate_and_says_how_to_build_the_peer() {
    let directory = tempfile::tempdir().unwrap();
    let bench =
        Bench { core: 0, other: None, pairs: 6, peers: directory.path().to_owned(), slice_ms: 20 };
    let check = |measured: Result<Measured, BenchError>, count, peer: &str| {
        let Ok(Measured { slices: Slices::Alone { ours, missing }, .. }) = measured else {
            panic!("{measured:?}")
        };
        // A busy machine may take the core away for the whole of a generator's slice.
        assert!(ours.len() == count && ours.iter().any(|&rate| rate > 0.0), "{peer}: {ours:?}");
        let expected = format!("{peer} is not built; build with benches/peers/build");
        assert_eq!(missing.to_string(), expected);
    };
    check(exact::hits(&bench, 1_000), 6, "rte_hash");
    check(insert::keys(&bench, 1_000, InitialSize::Reserved), 16, "rte_hash");
    check(insert::rules(&bench, 1_000, RuleArrival::InTable), 16, "rte_hash");
    check(rss::best(&bench), 6, "softrss");
    check(generator::saturated(&bench, 100), 6, "flowgen");
}

#[test]
fn a_peer_that_is_there_and_fails_is_no_missing_peer() {
    let directory = tempfile::tempdir().unwrap();
    let bench = bench(directory.path());
    fs::write(directory.path().join("rte_hash"), "#!/bin/sh\necho error no memory\n").unwrap();
    let error = exact::hits(&bench, 1_000).unwrap_err().to_string();
    assert!(error.contains("\"error no memory\""), "{error}");
}

#[test]
fn probes_hit_and_miss() {
    for probe in [Probe::Hit, Probe::Hashed, Probe::Miss] {
        let setup = Setup { probe, ..Setup::hits(1_000) };
        assert!(Prober::<2>::new(&setup).unwrap().run(1).is_ok());
    }
    let answer = Answer { ops: 5, ns: 1, rest: Vec::new() };
    let error = expect_hits(4, 5, answer).unwrap_err().to_string();
    assert_eq!(error, "4 hits in 5 look-ups, 5 expected");
}

/// Two cores for hosts, or none where there are not as many.
fn on_hosts() -> Bench {
    let cores = niclab_device::cores::allowed();
    let [core, other] = [0, 1].map(|at| cores.get(at).map(|&core| core as usize));
    Bench { core: core.unwrap_or(0), other, pairs: 1, ..Bench::default() }
}

#[test]
fn round_trips_of_ours_and_of_sockperf_are_times_of_the_same_hosts() {
    let measured = echo::round_trips(&on_hosts(), 64).unwrap();
    let times = match measured.slices {
        Slices::NotSupported(reason) => {
            println!(
                "SKIP round_trips_of_ours_and_of_sockperf_are_times_of_the_same_hosts: {reason}"
            );
            return;
        }
        Slices::Times(times) => times,
        slices => panic!("{slices:?}"),
    };
    let [p50, p99] = times.as_slice() else { panic!("{times:?}") };
    for times in [p50, p99] {
        assert_eq!((times.ours_ns.len(), times.theirs_ns.len()), (1, 1));
        // No round trip of the kernel takes less than a microsecond, or a second at p99.
        for ns in [times.ours_ns[0], times.theirs_ns[0]] {
            assert!((1e3..1e9).contains(&ns), "{times:?}");
        }
    }
    assert!(p99.ours_ns[0] >= p50.ours_ns[0] && p99.theirs_ns[0] >= p50.theirs_ns[0]);
}

#[test]
fn bits_of_ours_and_of_iperf3_are_rates_of_the_same_hosts() {
    let bench = on_hosts();
    // As the command is: on one core itself.
    bench.pin().unwrap();
    let measured = stream::carried(&bench, 128 << 10).unwrap();
    let pairs = match measured.slices {
        Slices::NotSupported(reason) => {
            println!("SKIP bits_of_ours_and_of_iperf3_are_rates_of_the_same_hosts: {reason}");
            return;
        }
        Slices::Paired(pairs) => pairs,
        slices => panic!("{slices:?}"),
    };
    // From a megabit to ten terabits a second.
    for rate in [pairs.ours[0], pairs.theirs[0]] {
        assert!((1e6..1e13).contains(&rate), "{pairs:?}");
    }
}

#[test]
fn one_core_is_no_place_for_two_hosts() {
    let alone = Bench { other: None, ..on_hosts() };
    let measured = echo::round_trips(&alone, 64).unwrap();
    let Slices::NotSupported(reason) = measured.slices else { panic!("{measured:?}") };
    assert!(reason == "sockperf" || reason.contains("needs 2 cores"), "{reason}");
}
