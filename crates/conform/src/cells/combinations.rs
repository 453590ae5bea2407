//! Random rules beside each other, of what a device does right one by one.

use niclab_device::rule_case::{RuleCase, RuleStep, WrittenRule};
use niclab_nic::rule::item::Item;
use niclab_nic::rule::{Action, compile};
use niclab_result::conform::ConformPart;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::actions::changes;
use super::patterns::{group_bit, match_of};
use super::{PlannedCase, PlannedCell, any_rule, cell, create, random_of, send};
use crate::sample::SampleFrame;

/// Rules of a case, at most.
const RULES_MAX: usize = 5;

/// Actions of a rule beside its fate, at most.
const ACTIONS_MAX: usize = 3;

/// The parts that a combination may have, because the device does them right one by one.
#[derive(Clone, Debug, Default)]
pub struct Combinable {
    /// Items and forms.
    pub patterns: Vec<(Item, &'static str)>,
    /// Items and actions.
    pub actions: Vec<(Item, &'static str)>,
}

/// The cell of combinations; none where there is nothing to combine.
pub fn combination_cell(
    combinable: &Combinable,
    queues: u16,
    seed: u64,
    count: u32,
) -> Option<PlannedCell> {
    if combinable.patterns.is_empty() || count == 0 {
        return None;
    }
    let mut random = random_of(seed, &["combinations"]);
    let cases = (0..count).filter_map(|_| combination(combinable, queues, &mut random));
    Some(cell(ConformPart::Behaviours, "random combinations", "", cases.collect()))
}

fn pick<T: Copy>(all: &[T], random: &mut Xoshiro256PlusPlus) -> Option<T> {
    if all.is_empty() { None } else { Some(all[random.random_range(0..all.len())]) }
}

fn combination(
    combinable: &Combinable,
    queues: u16,
    random: &mut Xoshiro256PlusPlus,
) -> Option<PlannedCase> {
    let count = random.random_range(2..=RULES_MAX);
    // No two rules of a group have one priority: which of them acts is the card's choice.
    let mut priorities: Vec<u32> = (1..=count as u32).collect();
    let (mut rules, mut frames) = (Vec::new(), Vec::new());
    let has_jump = combinable.actions.iter().any(|(_, action)| *action == "jump");
    for _ in 0..count {
        let (item, form) = pick(&combinable.patterns, random)?;
        let sample = SampleFrame::random(item, random)?;
        let named = match_of(&sample, form, random)?;
        let items = sample.pattern(named);
        compile::pattern(&items).ok()?;
        let priority = priorities.remove(random.random_range(0..priorities.len()));
        let group = if has_jump { random.random_range(0..2) } else { 0 };
        let actions = actions_of(combinable, (&sample, group, has_jump), queues, random);
        rules.push(WrittenRule { group, priority, items, actions });
        frames.extend(frames_like(&sample, random));
    }
    let mut steps = vec![create(any_rule(0, RULES_MAX as u32 + 1, Action::Drop))];
    if has_jump {
        steps.push(create(any_rule(1, RULES_MAX as u32 + 1, Action::Queue(0))));
    }
    steps.extend(rules.into_iter().map(create));
    steps.extend(frames.iter().map(|frame| send(frame)));
    if random.random_range(0..3) == 0 {
        let created = steps.iter().filter(|step| matches!(step, RuleStep::Create { .. })).count();
        steps.push(RuleStep::Destroy { rule: created - 1 });
        steps.extend(frames.iter().map(|frame| send(frame)));
    }
    Some(PlannedCase { case: RuleCase { steps, effect_max_ns: 0 }, under_test: 0 })
}

/// The sample, and one with another value of a field.
fn frames_like(sample: &SampleFrame, random: &mut Xoshiro256PlusPlus) -> Vec<Vec<u8>> {
    let mut samples = vec![sample.clone()];
    let fields = sample.free_fields();
    if !fields.is_empty()
        && let Some(image) = sample.image()
    {
        let field = fields[random.random_range(0..fields.len())];
        let bit = 1 << random.random_range(0..field.bits);
        let changed = field.value(&image) ^ bit & !group_bit(sample.item(), field);
        samples.push(sample.with(field, changed));
    }
    samples.iter().filter_map(SampleFrame::bytes).collect()
}

fn actions_of(
    combinable: &Combinable,
    (sample, group, has_jump): (&SampleFrame, u32, bool),
    queues: u16,
    random: &mut Xoshiro256PlusPlus,
) -> Vec<Action> {
    let of_item = combinable.actions.iter().filter(|(item, _)| *item == sample.item());
    let of_item: Vec<&'static str> = of_item.map(|(_, action)| *action).collect();
    let has = |action: &str| of_item.contains(&action);
    let mut actions = Vec::new();
    for _ in 0..random.random_range(0..=ACTIONS_MAX) {
        // A rule has one age.
        let column = pick(&of_item, random).filter(|column| *column != "age");
        match column {
            Some("count") => actions.push(Action::Count),
            Some(column) => actions.extend(changes(column, sample, random).unwrap_or_default()),
            None => {}
        }
    }
    let fate = match random.random_range(0..6) {
        0 if has("drop") => Action::Drop,
        1 if has("represented_port") => Action::Port(0),
        2 | 3 if group == 0 && has_jump && has("jump") => Action::Jump(1),
        _ => Action::Queue(random.random_range(0..queues.max(1))),
    };
    actions.push(fate);
    actions
}
