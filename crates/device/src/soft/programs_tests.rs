//! Packets go through a program as often as is said, and are whole each time.

use super::*;
use crate::cases::{Case, Loaded, PACKETS};

fn asked(case: Case, count: u32, entries: u32) -> Processing {
    let program = Loaded { case, count, entries };
    Processing { program, duration_ns: 1, warmup_ns: 0 }
}

#[test]
fn a_pass_has_all_packets_and_none_is_lost() {
    for (case, entries) in [(Case::Headers, 0), (Case::Exact, 100), (Case::L2Switch, 100)] {
        let seen = process(&asked(case, 1, entries), false).unwrap().0;
        assert_eq!((seen.packets, seen.lost), (PACKETS as u64, 0), "{case:?}");
        assert_eq!(seen.bytes, 64 * PACKETS as u64);
        let whole = PACKETS as u64 / seen.stretch;
        assert_eq!(seen.stretches_ns.len() as u64, whole, "one pass is enough for a nanosecond");
        assert!(seen.worst.instructions > 0);
    }
}

#[test]
fn passes_fill_the_time_that_was_asked_for() {
    let asked = Processing { duration_ns: 20_000_000, ..asked(Case::Headers, 1, 0) };
    let (seen, _) = process(&asked, false).unwrap();
    let last = (seen.packets / seen.stretch) as usize;
    let before: u64 = seen.stretches_ns[..seen.stretches_ns.len() - last].iter().sum();
    assert!(before < 20_000_000 && seen.stretches_ns.iter().sum::<u64>() >= 20_000_000);
}

#[test]
fn a_program_finds_packets_as_they_were_in_each_pass() {
    // A router takes 1 off the time to live, which is 64: without it the 64th pass has none left.
    let of = Loaded { case: Case::L3Router, count: 1, entries: 16 };
    let mut prepared = of.prepare().unwrap();
    prepared.frames.truncate(200);
    let mut short = prepared.clone();
    let mut stage = ProgramBench::new(prepared).unwrap();
    for pass in 0..100 {
        stage.pass().unwrap();
        assert_eq!(stage.lost, 0, "pass {pass}");
    }
    assert_eq!(stage.end().unwrap(), 100 * 200, "the card's engine took each of them");
    // A packet that does not leave is counted.
    short.frames.iter_mut().take(3).for_each(|frame| frame[22] = 1);
    let mut stage = ProgramBench::new(short).unwrap();
    stage.pass().unwrap();
    assert_eq!(stage.lost, 3);
}

#[test]
fn the_digest_tells_what_left_and_by_which_port() {
    let digest = |case, count, entries| {
        let of = Loaded { case, count, entries };
        ProgramBench::new(of.prepare().unwrap()).unwrap().digest().unwrap()
    };
    let routed = digest(Case::Router, 1, 64);
    assert_eq!(routed, digest(Case::Router, 1, 64));
    assert_ne!(routed, digest(Case::Router, 1, 65), "other packets, and other hops");
    // The text differs, and what leaves does not.
    assert_eq!(digest(Case::Checksums, 2, 0), digest(Case::Checksums, 4, 0));
}

#[test]
fn numbers_out_of_range_are_bad_loads() {
    let refused = process(&asked(Case::Headers, 9, 0), false).unwrap_err();
    assert_eq!(refused.to_string(), "load: headers: count = 9: use 1 to 8");
}

/// A store's log is full after some passes, and its rings after two, unless each begins anew.
#[test]
fn registers_and_rings_begin_anew_in_each_pass() {
    let of = Loaded { case: Case::KvsItems, count: 1, entries: 0 };
    let mut stage = ProgramBench::new(of.prepare().unwrap()).unwrap();
    for pass in 0..6 {
        stage.pass().unwrap();
        assert_eq!(stage.lost, 0, "pass {pass}");
    }
    let program = stage.card.program().unwrap();
    let stored = (0..16).map(|owner| program.counter(0, owner).unwrap().0).sum::<u64>();
    assert_eq!(stored, 6 * PACKETS as u64, "the card has stored them all");
}
