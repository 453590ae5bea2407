//! The row driven with a peer that is a shell script, and with the peers themselves.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use niclab_packet::trace::{Trace, TraceLimits};

use super::*;
use crate::Slices;

fn packets(count: u64) -> Vec<PacketValues> {
    (0..count).map(tuple).collect()
}

/// A peer that takes rules, says what is in the file `count` and forwards ten packets in a
/// microsecond.
fn script(directory: &Path, counts: &[u64]) -> Bench {
    let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
    fs::write(directory.join("count"), format!("ok {}\n", counts.join(" "))).unwrap();
    let text = format!(
        "#!/bin/sh\necho ok\nwhile read -r command networks flows file; do case $command in\n\
         rules) left=$((networks + flows))\n\
         while [ $left -gt 0 ]; do read -r line; left=$((left - 1)); done\n\
         cp $file {0}/capture && echo ok ;;\ncount) cat {0}/count ;;\n*) echo 10 1000 ;; \
         esac; done\n",
        directory.display()
    );
    let path = directory.join("swx");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Bench { core: 0, other: None, pairs: 6, peers: directory.to_owned(), slice_ms: 1 }
}

#[test]
fn packets_go_all_the_way_and_are_spread() {
    let mut card = PipelineCard::new(1_000, &packets(640)).unwrap();
    let mut queues = [0; QUEUES as usize];
    for _ in 0..10 {
        let (region, burst) = card.frames.burst();
        assert_eq!(card.worker.classify(region, burst), 0);
        for desc in burst {
            assert_ne!(desc.hash, 0);
            queues[usize::from(desc.queue)] += 1;
        }
    }
    assert!(queues.iter().all(|&count| count > 100), "{queues:?}");
    assert_eq!(card.nic.len(), 64 + 2_000);
}

#[test]
fn each_rule_counts_its_packets_of_one_round() {
    let mut card = PipelineCard::new(100, &[packets(100), packets(28)].concat()).unwrap();
    let expected: Vec<u64> = (0..100).map(|rule| if rule < 28 { 2 } else { 1 }).collect();
    assert_eq!(card.count().unwrap(), expected);
    card.run(1);
    assert_eq!(card.count().unwrap(), expected, "whatever was counted before");
}

#[test]
fn the_row_gives_its_pairs_where_both_count_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let drawn: Vec<PacketValues> = indices(100).take(PACKETS).map(tuple).collect();
    let mut counts = PipelineCard::new(100, &drawn).unwrap().count().unwrap();
    assert_eq!(counts.iter().sum::<u64>(), PACKETS as u64);
    let bench = script(directory.path(), &counts);
    let slices = forward(&bench, 100, "swx").unwrap().slices;
    assert!(matches!(slices, Slices::Paired(pairs) if pairs.theirs == [1e7; 6]));
    counts[77] += 1;
    let error = forward(&script(directory.path(), &counts), 100, "swx").unwrap_err();
    let [ours, theirs] = [counts[77] - 1, counts[77]];
    assert_eq!(
        error.to_string(),
        format!("rule 77: we counted {ours} packets, the peer {theirs}: not the same work")
    );
    assert!(forward(&script(directory.path(), &counts[1..]), 100, "swx").is_err());
}

#[test]
fn the_peer_is_given_the_frames_in_their_order() {
    let directory = tempfile::tempdir().unwrap();
    let bench = script(directory.path(), &[]);
    assert!(forward(&bench, 100, "swx").is_err(), "no counts");
    let file = File::open(directory.path().join("capture")).unwrap();
    let trace = Trace::load(file, TraceLimits::default()).unwrap();
    let drawn: Vec<PacketValues> = indices(100).take(PACKETS).map(tuple).collect();
    let frames = Frames::new(&drawn).unwrap();
    assert_eq!(trace.len(), PACKETS);
    for (record, desc) in trace.records().zip(&frames.descs) {
        assert_eq!(record.data, frames.region.frame(desc));
    }
}

#[test]
fn without_the_peer_there_is_our_rate_and_no_verdict() {
    let bench = Bench { pairs: 6, slice_ms: 1, peers: "no/such".into(), ..Bench::default() };
    let slices = forward(&bench, 100, "swx").unwrap().slices;
    let Slices::Alone { ours, missing } = slices else { panic!("{slices:?}") };
    assert!(ours.len() == 6 && ours.iter().all(|&rate| rate > 0.0));
    assert_eq!(missing.to_string(), "swx is not built; build with benches/peers/build");
}

/// Run where `benches/peers/build` has put the peers.
#[test]
fn the_peers_themselves_count_the_same() {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
    let bench = Bench { core: 0, other: None, pairs: 2, peers, slice_ms: 1 };
    for peer in ["ovs", "swx"] {
        let measured = forward(&bench, 1_000, peer).unwrap();
        if let Slices::Alone { missing, .. } = measured.slices {
            println!("SKIP the_peers_themselves_count_the_same: {missing}");
        }
    }
}
