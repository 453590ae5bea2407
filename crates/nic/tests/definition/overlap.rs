//! What a survey says of two rules, and the frames that they match.

use std::cell::Cell;

use niclab_nic::rule::item::ItemMatch;
use niclab_nic::rule::overlap::{Report, Survey};
use niclab_nic::rule::text::{Command, FlowRule, Parser};
use niclab_nic::rule::{Action, Pattern};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::{frames, raise, rules};

/// A frame, and items of two rules that are likely to match it.
fn met() -> impl Strategy<Value = (Vec<u8>, Vec<ItemMatch>, Vec<ItemMatch>)> {
    frames::frame().prop_flat_map(|frame| {
        let items = || prop_oneof![1 => rules::items(), 4 => rules::items_like(&frame)];
        (Just(frame.clone()), items(), items())
    })
}

/// What is said of two rules with other actions, the first one being better, and their patterns;
/// `None` where one cannot be.
fn surveyed(rules: [&[ItemMatch]; 2]) -> Option<(Report, [Pattern; 2])> {
    let (mut survey, mut patterns) = (Survey::default(), Vec::new());
    for (at, items) in rules.into_iter().enumerate() {
        let actions = &[Action::Queue(at as u16)];
        let rule = FlowRule { group: 0, priority: at as u32, items, actions };
        let line = format!("flow create 0 {rule}");
        let mut parser = Parser::default();
        let parsed = parser.parse(at as u64 + 1, &line).ok()?;
        let Command::Create { rule, .. } = &parsed.command else { return None };
        patterns.push(parsed.pattern(rule).ok()?);
        survey.add(&parsed);
    }
    Some((survey.report(), patterns.try_into().ok()?))
}

#[test]
fn what_is_said_of_two_rules_is_true_of_every_frame() {
    let (shared, shadowed, exceptions) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config { cases: 10_000, failure_persistence: None, ..Config::default() };
    let found = TestRunner::new_with_rng(config, rng).run(&met(), |(frame, one, other)| {
        let Some((report, patterns)) = surveyed([&one, &other]) else { return Ok(()) };
        let [better, worse] = patterns.map(|pattern| pattern.matches(&frame));
        let is_shadowed = !report.shadowed.is_empty();
        if better && worse {
            raise(&shared);
            let told = is_shadowed || !report.overlapped.is_empty() || report.exceptions_count > 0;
            prop_assert!(told || report.uncompared_count > 0, "{:?}", report);
        }
        if is_shadowed {
            raise(&shadowed);
            prop_assert!(better || !worse, "{:?}", report);
        }
        if report.exceptions_count > 0 {
            raise(&exceptions);
            prop_assert!(worse || !better, "{:?}", report);
        }
        Ok(())
    });
    found.unwrap_or_else(|error| panic!("{error}"));
    let often = [shared, shadowed, exceptions].map(|count| count.get());
    assert!(often.iter().all(|count| *count > 100), "{often:?}");
}
