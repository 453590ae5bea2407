//! Workloads on modelled cards whose limits are known.

use niclab_device::model::profile::Profile;
use niclab_device::model::read;
use niclab_packet::size::FrameSizes;

use super::*;

const TEXT: &str = "\
name = \"a workload\"
rules = 60_000
match = \"eth/ipv4/tcp\"
actions = \"queue\"
new_per_s = 1_000
frame = 1500
rate_mpps = 4.0
cores = 2
loss_max = 0.001
";

fn workload(changes: &[(&str, &str)]) -> Workload {
    let text = changes.iter().fold(TEXT.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    Workload::parse("w.toml", &text).unwrap()
}

fn card() -> Profile {
    read("connectx-5").unwrap()
}

fn outcome(ways: &[Candidate], groups: u32, core: ControlCore) -> &Forecast {
    let way = ways.iter().find(|way| (way.groups, way.core) == (groups, core)).unwrap();
    way.outcome.as_ref().unwrap()
}

fn first(outcome: &Forecast) -> Limit {
    outcome.room[0].0
}

#[test]
fn each_limit_is_the_first_to_bind_where_the_workload_asks_most_of_it() {
    use ControlCore::{Distinct, Same};
    let of = |changes: &[(&str, &str)], groups, core| {
        let ways = advise(&card(), &workload(changes)).unwrap();
        let outcome = outcome(&ways, groups, core).clone();
        (first(&outcome), outcome.fits())
    };
    assert_eq!(of(&[("= 4.0", "= 8.0")], 1, Distinct), (Limit::Wire, true));
    assert_eq!(of(&[("= 4.0", "= 7.0")], 16, Distinct), (Limit::Classifier, false));
    assert_eq!(of(&[("1_000", "400_000")], 1, Distinct), (Limit::RulePath, false));
    // A frame of 64 B comes every 7 ns, and the core takes 122.
    let short = [("1500", "64"), ("= 4.0", "= 20.0")];
    assert_eq!(of(&short, 1, Distinct), (Limit::Cores, false));
    let many = [("60_000", "3_900_000"), ("= 4.0", "= 1.0"), ("1_000", "10")];
    assert_eq!(of(&many, 1, Distinct), (Limit::Capacity, true));
    // 100,000 rules a second at 4.2 us each take two fifths of the core.
    let same = [("1_000", "100_000"), ("= 4.0", "= 7.0"), ("cores = 2", "cores = 1")];
    assert_eq!(of(&same, 1, Same), (Limit::Cores, false));
}

#[test]
fn fitting_layouts_come_first_and_unknown_ones_last() {
    let ways = advise(&card(), &workload(&[("60_000", "1_000_000")])).unwrap();
    let fits = |way: &Candidate| way.outcome.as_ref().is_ok_and(|outcome| outcome.fits());
    assert!(fits(&ways[0]) && ways[0].groups == 1, "{:?}", ways[0]);
    let place = ways.iter().position(|way| !fits(way)).unwrap();
    assert!(!ways[place..].iter().any(fits));
    let last = ways.last().unwrap();
    assert!(last.groups == 0 && last.outcome.as_ref().is_err_and(|why| why.contains("65536")));
}

#[test]
fn more_cores_share_the_frames_and_one_core_has_none_to_spare() {
    let short = [("1500", "64"), ("= 4.0", "= 20.0")];
    let room = |cores: &str| {
        let ways = advise(&card(), &workload(&[short[0], short[1], ("cores = 2", cores)])).unwrap();
        let room = &outcome(&ways, 1, ControlCore::Distinct).room;
        room.iter().find(|(limit, _)| *limit == Limit::Cores).unwrap().1
    };
    let (one, four) = (room("cores = 2"), room("cores = 5"));
    assert!((four / one - 4.0).abs() < 0.05, "{one} against {four}");
    let alone = advise(&card(), &workload(&[("cores = 2", "cores = 1")])).unwrap();
    assert!(alone.iter().all(|way| way.core == ControlCore::Same));
}

#[test]
fn a_latency_that_is_too_long_does_not_fit() {
    let limit = |most: &str| {
        let ways = advise(&card(), &workload(&[("loss_max", most)])).unwrap();
        outcome(&ways, 1, ControlCore::Distinct).fits()
    };
    assert!(limit("latency_max_us = 46\nloss_max"));
    assert!(!limit("latency_max_us = 40\nloss_max"));
}

#[test]
fn a_bad_workload_is_refused_with_its_line_and_key() {
    let refused = |from: &str, to: &str| {
        let text = TEXT.replace(from, to);
        assert_ne!(text, TEXT, "{from}");
        Workload::parse("w.toml", &text).unwrap_err().to_string()
    };
    for (from, to, want) in [
        ("60_000", "0", "w.toml:2: rules: 0: use 1 to "),
        ("60_000", "-5", "w.toml:2: rules: -5: use 1 to "),
        ("eth/ipv4/tcp", "eth/mpls", "w.toml:3: match: no such; use one of eth, eth/ipv4"),
        ("\"queue\"", "\"drop\"", "w.toml:4: actions: no such; use one of queue, "),
        ("= 1_000", "= -1", "w.toml:5: new_per_s: -1: use 0 to "),
        ("1500", "63", "w.toml:6: frame: "),
        ("= 4.0", "= 0.0", "w.toml:7: rate_mpps: 0: use "),
        ("= 4.0", "= nan", "w.toml:7: rate_mpps: NaN: use "),
        ("cores = 2", "cores = 0", "w.toml:8: cores: 0: use 1 to 1024"),
        ("0.001", "1.5", "w.toml:9: loss_max: 1.5: use 0 to 1"),
        ("cores = 2", "cores = 1.5", "w.toml:8: cores: invalid type: floating point `1.5`"),
        ("60_000", "\"many\"", "w.toml:2: rules: invalid type: string"),
        ("cores = 2", "core = 2", "w.toml:8: core: unknown field"),
        ("cores = 2\n", "", ": cores: missing field"),
        ("= 4.0", "= ", "w.toml:7: "),
    ] {
        let said = refused(from, to);
        assert!(said.contains(want), "{said}\nwanted {want}");
    }
}

#[test]
fn more_than_the_link_carries_is_refused() {
    let workload = workload(&[("= 4.0", "= 9.0")]);
    assert_eq!(workload.frame, FrameSizes::Fixed(1500));
    let said = advise(&card(), &workload).unwrap_err().to_string();
    assert_eq!(said, "w.toml:7: rate_mpps: the card's link carries 8.224 Mpps of such frames");
}

#[test]
fn few_rules_a_second_fit_where_many_do() {
    for new_per_s in ["0", "1", "3", "7", "99", "1_001"] {
        let ways = advise(&card(), &workload(&[("1_000", new_per_s)])).unwrap();
        let best = ways[0].outcome.as_ref().unwrap();
        assert!(best.fits(), "{new_per_s}: {best:?}");
    }
}

#[test]
fn a_workload_times_its_room_is_what_still_fits() {
    let at = |factor: f64, new_per_s: f64| {
        let rate = format!("rate_mpps = {}", 2.4 * factor);
        let rules = format!("new_per_s = {}", (new_per_s * factor) as u32);
        let changes = [
            ("rate_mpps = 4.0", rate.as_str()),
            ("new_per_s = 1_000", rules.as_str()),
            ("cores = 2", "cores = 1"),
        ];
        let ways = advise(&card(), &workload(&changes)).unwrap();
        outcome(&ways, 1, ControlCore::Same).clone()
    };
    let (limit, room) = at(1.0, 70_000.0).room[0];
    assert_eq!(limit, Limit::Cores);
    // 2.4 M frames of 122 ns and 70,000 operations of 4.2 us: 59 % of the core.
    assert!((room - 1.7).abs() < 0.1, "{room}");
    assert!(at(0.9 * room, 70_000.0).fits());
    assert!(!at(1.1 * room, 70_000.0).fits());
}

#[test]
fn a_long_queue_does_not_hide_an_overload() {
    let card = card().scaled("host", "ring_frames", 1e6);
    let short = [("1500", "64"), ("= 4.0", "= 20.0")];
    let ways = advise(&card, &workload(&short)).unwrap();
    let outcome = outcome(&ways, 1, ControlCore::Distinct);
    assert!(outcome.misses.contains(&"a limit is below the workload"), "{outcome:?}");
}
