//! Rules and traffic of sweep points.

use super::*;

const PLACE: SweepPoint = SweepPoint::without_rules(10_000);

/// Group, kind and count of each block, `*` for a default rule with its action.
fn shape(place: SweepPoint) -> String {
    let words = place.setup(1, 64).rules.iter().map(word).collect::<Vec<_>>();
    words.join("; ")
}

fn word(block: &RuleBlock) -> String {
    match block {
        RuleBlock::Any { group, priority, actions } => {
            assert_eq!(*priority, PRIORITY_DEFAULT);
            format!("{group}: * {}", actions[0])
        }
        RuleBlock::File { .. } | RuleBlock::Stack { .. } => panic!("{block:?}"),
        RuleBlock::FiveTuples { group, priority, flows, first, count, actions } => {
            assert_eq!((*priority, actions.as_slice()), (PRIORITY_RULES, &[Action::Queue(0)][..]));
            assert!(flows.count >= first + count, "the block reaches beyond its flows");
            format!("{group}: {first}+{count}")
        }
    }
}

#[test]
fn group_0_holds_all_rules_and_the_default_counts_as_one() {
    assert_eq!(shape(PLACE), "");
    assert_eq!(shape(PLACE.with_rules(1)), "0: * queue index 0");
    assert_eq!(shape(PLACE.with_rules(65_536)), "0: 0+65535; 0: * queue index 0");
}

#[test]
fn non_root_groups_are_chained_and_share_the_rules() {
    let chain = SweepPoint { groups: 3, rules: 13, ..PLACE };
    assert_eq!(
        shape(chain),
        "0: * jump group 1; 1: 0+3; 1: * jump group 2; 2: 3+3; 2: * jump group 3; 3: 6+4; \
         3: * queue index 0"
    );
    let empty = SweepPoint { groups: 2, rules: 0, ..PLACE };
    assert_eq!(shape(empty), "0: * jump group 1; 1: * jump group 2; 2: * queue index 0");
}

#[test]
fn the_share_of_hits_is_kept_whatever_rules_and_flows_there_are() {
    let mix = |rules, match_percent, hits, flows| {
        let mix = SweepPoint { groups: 0, rules, match_percent, hits, flows }.mix();
        (mix.flows, mix.rules_hit, mix.rules_idle)
    };
    assert_eq!(mix(65_536, 0, Hits::Flows, 10_000), (10_000, 0, 65_535));
    assert_eq!(mix(65_536, 100, Hits::Flows, 10_000), (10_000, 10_000, 55_535));
    assert_eq!(mix(65_536, 25, Hits::Flows, 10_000), (10_000, 2_500, 63_035));
    assert_eq!(mix(1_001, 50, Hits::Flows, 10_000), (2_000, 1_000, 0), "fewer rules than flows");
    assert_eq!(mix(65_536, 100, Hits::Rules, 10_000), (65_535, 65_535, 0));
    assert_eq!(mix(65_536, 50, Hits::Rules, 10_000), (131_070, 65_535, 0));
    assert_eq!(mix(1, 100, Hits::Rules, 10_000), (10_000, 0, 0), "only the default rule");
    for percent in 1..=100 {
        for hits in [Hits::Flows, Hits::Rules] {
            let (flows, hit, idle) = mix(4_001, percent, hits, 777);
            assert_eq!(hit + idle, 4_000);
            let share = f64::from(hit) / f64::from(flows) * 100.0;
            assert!((share - f64::from(percent)).abs() < 0.2, "{percent} % became {share}");
        }
    }
}

#[test]
fn flows_that_are_hit_are_those_that_are_sent() {
    let place = SweepPoint { groups: 2, rules: 102, match_percent: 60, ..PLACE };
    let sent = place.traffic(9);
    let blocks = place.setup(9, 64).rules;
    let hit: u32 = blocks.iter().map(|block| count_of(block, &sent)).sum();
    assert_eq!((hit, sent.count), (100, 166));
    let idle = flows::never_sent(100, 9);
    assert_ne!(idle.src, sent.src, "rules that are not to be hit have addresses of their own");
}

fn count_of(block: &RuleBlock, sent: &FlowSpec) -> u32 {
    match block {
        RuleBlock::FiveTuples { flows, count, .. } if flows == sent => *count,
        _ => 0,
    }
}

#[test]
fn coordinates_say_what_is_really_sent() {
    let point = SweepPoint { rules: 1_001, match_percent: 50, ..PLACE }.point();
    assert_eq!(point["flows"], Coordinate::Number(2_000.0));
    assert_eq!(point["hits"], Coordinate::Word("flows".into()));
    let point = SweepPoint { rules: 1, match_percent: 50, ..PLACE }.point();
    assert_eq!(point["match_percent"], Coordinate::Number(0.0), "one rule: the default");
    assert!(!point.contains_key("hits"));
}

#[test]
fn an_unmeasurable_value_is_refused_with_the_range() {
    let refused = |place: SweepPoint| place.check().unwrap_err().to_string();
    assert!(refused(SweepPoint { groups: 5_000, ..PLACE }).contains("at most 1024"));
    assert!(refused(SweepPoint { rules: 70_000_000, ..PLACE }).contains("at most 16777216"));
    assert!(refused(SweepPoint { match_percent: 101, ..PLACE }).contains("0 to 100"));
    assert!(refused(SweepPoint { flows: 0, ..PLACE }).contains("1 to"));
    let many = SweepPoint { rules: 4_000_000, match_percent: 1, hits: Hits::Rules, ..PLACE };
    assert!(refused(many).contains("takes 399999900 flows"));
    assert!(PLACE.check().is_ok());
    assert!(frame(&Coordinate::Number(63.0)).is_err());
    assert!(frame(&Coordinate::Word("big".into())).is_err());
    assert_eq!(frame(&Coordinate::Word("imix".into())).unwrap(), FrameSizes::Imix);
}
