//! Names of faults: the first explanation that agrees with everything that a case has shown.
//!
//! An explanation is a change of the rules, such as "this field does not count". If a card that
//! follows the changed rules would have done just what this one did, its name is that of the fault.

use std::cmp::Reverse;

use niclab_device::rule_case::{
    FrameExit, FrameMark, RuleCase, RuleCaseObservation, RuleStep, StepResult, WrittenRule,
};
use niclab_device::rule_port::fate;
use niclab_nic::rule::Action;
use niclab_nic::rule::item::{Field, FieldKind, IMAGE_LEN, ItemMatch};
use niclab_packet::LayerKind;
use niclab_packet::stack::walk;

use crate::predict::{Difference, Predicted, count_range, predict};

/// The names of the faults that explain all that a case has shown, the narrowest first; none where
/// nothing explains it.
pub fn explanations(
    case: &RuleCase,
    queues: u16,
    observation: &RuleCaseObservation,
    difference: &Difference,
) -> Vec<String> {
    if difference.step >= case.steps.len() {
        return vec!["a rule cannot be destroyed".to_owned()];
    }
    match (&case.steps[difference.step], observation.steps.get(difference.step)) {
        (RuleStep::Count { .. }, Some(StepResult::Counted { frames, .. })) => {
            return vec![count_name(case, queues, observation, (difference.step, *frames))];
        }
        (RuleStep::Aged, _) => {
            return vec![age_name(case, queues, observation, difference.step)];
        }
        (RuleStep::Traffic { .. }, Some(StepResult::Traffic { before, after, .. })) => {
            return vec![traffic_name(case, queues, (before, after))];
        }
        _ => {}
    }
    let all = changed_rules(case).into_iter();
    // Without a fate a frame would go round in its group for ever.
    let legal = all.filter(|(_, changed)| rules(changed).iter().all(|(_, rule)| has_fate(rule)));
    let agreeing = legal.filter(|(_, changed)| agrees(changed, queues, observation));
    let mut names: Vec<String> = Vec::new();
    for (name, _) in agreeing {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn has_fate(rule: &WrittenRule) -> bool {
    fate(&rule.actions).is_some()
}

/// Whether a device that follows these rules would have shown the same, as far as its frames go.
/// Rules that leave frames to RSS, which may choose any queue, explain nothing.
fn agrees(case: &RuleCase, queues: u16, observation: &RuleCaseObservation) -> bool {
    let predicted = predict(case, queues, Some(observation));
    let asked = case.steps.iter().map(|step| match step {
        RuleStep::Send { wanted, .. } => wanted.len(),
        _ => 0,
    });
    let is_vague = asked.zip(&predicted).any(|(asked, predicted)| match predicted {
        Predicted::Frame(frame) => frame.exits.len() > asked.max(1),
        _ => false,
    });
    let shown = observation.steps.iter().zip(&predicted);
    !is_vague
        && shown.into_iter().all(|pair| match pair {
            (StepResult::Frame(seen), Predicted::Frame(wanted)) => {
                let is_at_queue = matches!(seen.exit, FrameExit::Queue(_));
                let has_mark = seen.mark == FrameMark::Unknown || seen.mark == wanted.mark;
                wanted.exits.contains(&seen.exit)
                    && (seen.exit == FrameExit::Nowhere || seen.frame == wanted.frame)
                    && (!is_at_queue || has_mark)
            }
            _ => true,
        })
}

type Explanation = (String, RuleCase);

/// Every explanation of a case, the narrowest first.
fn changed_rules(case: &RuleCase) -> Vec<Explanation> {
    let mut all = Vec::new();
    for (step, rule) in rules(case) {
        all.extend(pattern_explanations(case, step, rule));
    }
    for (step, rule) in rules(case) {
        all.extend(action_explanations(case, step, rule));
    }
    all.extend(order_explanations(case));
    for (step, rule) in rules(case) {
        let mut without = case.clone();
        if let RuleStep::Create { rule, .. } = &mut without.steps[step] {
            // No frame comes to it.
            rule.group = u32::MAX;
        }
        let name = match fate(&rule.actions) {
            Some(action) => format!("a rule with `{}` has no effect", action_word(action)),
            None => "a rule has no effect".to_owned(),
        };
        all.push((name, without));
    }
    all
}

/// The rules that a case creates, by their steps; those of every frame come last.
fn rules(case: &RuleCase) -> Vec<(usize, &WrittenRule)> {
    let created = case.steps.iter().enumerate().filter_map(|(at, step)| match step {
        RuleStep::Create { rule, .. } => Some((at, rule)),
        _ => None,
    });
    let mut all: Vec<_> = created.collect();
    let asks = |rule: &WrittenRule| rule.items.iter().any(|item| item.mask != [0; IMAGE_LEN]);
    all.sort_by_key(|(_, rule)| Reverse(asks(rule)));
    all
}

fn with_rule(case: &RuleCase, step: usize, change: impl FnOnce(&mut WrittenRule)) -> RuleCase {
    let mut changed = case.clone();
    if let RuleStep::Create { rule, .. } = &mut changed.steps[step] {
        change(rule);
    }
    changed
}

fn pattern_explanations(case: &RuleCase, step: usize, rule: &WrittenRule) -> Vec<Explanation> {
    let mut all = Vec::new();
    for (at, item) in rule.items.iter().enumerate() {
        let name = item.item.name();
        let changed = |change: &dyn Fn(&mut ItemMatch)| {
            with_rule(case, step, |rule| change(&mut rule.items[at]))
        };
        for field in item.item.fields() {
            let mask = field.value(&item.mask);
            if mask == 0 {
                continue;
            }
            let field_name = format!("{name} {}", field.name);
            if item.has_range(field) {
                all.extend(range_explanations(&field_name, field, &changed));
            }
            if mask != field.ones() {
                let whole = changed(&|item| field.put(&mut item.mask, field.ones()));
                all.push((format!("ignores the mask of {field_name}"), whole));
            }
            all.push((format!("ignores {field_name}"), changed(&|item| ignore(field, item))));
            for (part, part_mask) in halves(field, mask) {
                let part_changed = changed(&|item| field.put(&mut item.mask, part_mask));
                all.push((format!("ignores the {part} half of {field_name}"), part_changed));
            }
        }
        if item.mask != [0; IMAGE_LEN] {
            let bare = changed(&|item| *item = ItemMatch::any(item.item));
            all.push((format!("ignores all fields of {name}"), bare));
        }
        let without = with_rule(case, step, |rule| {
            rule.items.remove(at);
        });
        all.push((format!("ignores the item {name}"), without));
    }
    all
}

/// The bits of a mask that an engine of half the width would know.
fn halves(field: &Field, mask: u128) -> Vec<(&'static str, u128)> {
    let low = field.ones() >> (field.bits - field.bits / 2);
    let halves = [("lower", mask & !low), ("upper", mask & low)];
    halves.into_iter().filter(|(_, rest)| *rest != 0 && *rest != mask).collect()
}

fn ignore(field: &Field, item: &mut ItemMatch) {
    field.put(&mut item.mask, 0);
    item.last.iter_mut().for_each(|last| field.put(last, 0));
}

/// The case with an item changed.
type ChangedItem<'a> = dyn Fn(&dyn Fn(&mut ItemMatch)) -> RuleCase + 'a;

fn range_explanations(name: &str, field: &Field, changed: &ChangedItem<'_>) -> Vec<Explanation> {
    let last_is = |item: &mut ItemMatch, value: u128| {
        item.last.iter_mut().for_each(|last| field.put(last, value));
    };
    let last = |item: &ItemMatch| item.last.as_ref().map_or(0, |last| field.value(last));
    vec![
        (format!("takes a range of {name} as its first value"), changed(&|item| last_is(item, 0))),
        (
            format!("leaves out the last value of a range of {name}"),
            changed(&|item| last_is(item, last(item).saturating_sub(1))),
        ),
        (
            format!("leaves out the first value of a range of {name}"),
            changed(&|item| {
                let first = field.value(&item.spec);
                field.put(&mut item.spec, first + 1);
            }),
        ),
        (
            format!("takes a range of {name} without its end"),
            changed(&|item| last_is(item, field.ones())),
        ),
    ]
}

fn action_explanations(case: &RuleCase, step: usize, rule: &WrittenRule) -> Vec<Explanation> {
    let mut all = Vec::new();
    for (at, action) in rule.actions.iter().enumerate() {
        let word = action_word(action);
        match action {
            Action::Queue(queue) => {
                all.extend((0..8).filter(|other| other != queue).map(|other| {
                    let moved =
                        with_rule(case, step, |rule| rule.actions[at] = Action::Queue(other));
                    (format!("sends frames of `queue index {queue}` to queue {other}"), moved)
                }))
            }
            Action::Drop | Action::Port(_) | Action::Jump(_) | Action::Rss(_) => {}
            _ => {
                let without = with_rule(case, step, |rule| drop(rule.actions.remove(at)));
                all.push((format!("ignores the action {word}"), without));
                let first = with_rule(case, step, |rule| {
                    let action = rule.actions.remove(at);
                    rule.actions.insert(0, action);
                });
                all.push((format!("carries {word} out before the other actions"), first));
            }
        }
        match action {
            Action::Set(_) | Action::DecTtl => {
                let twice = with_rule(case, step, |rule| {
                    rule.actions.insert(at, action.clone());
                });
                all.push((format!("carries {word} out twice"), twice));
            }
            Action::SetMeta { data, .. } => {
                let data = *data;
                let whole = with_rule(case, step, |rule| {
                    rule.actions[at] = Action::SetMeta { data, mask: u32::MAX };
                });
                all.push(("ignores the mask of set_meta".to_owned(), whole));
            }
            Action::Mark(_) => {
                let flagged = with_rule(case, step, |rule| rule.actions[at] = Action::Flag);
                all.push(("delivers a mark without its number".to_owned(), flagged));
            }
            _ => {}
        }
    }
    if rule.actions.len() > 1 {
        let reversed = with_rule(case, step, |rule| rule.actions.reverse());
        all.push(("carries the actions of a rule out in another order".to_owned(), reversed));
    }
    all
}

/// Explanations by the order of rules, by groups, and by calls that have no effect.
fn order_explanations(case: &RuleCase) -> Vec<Explanation> {
    let with_each = |change: &dyn Fn(usize, &mut WrittenRule)| {
        let mut changed = case.clone();
        let mut number = 0;
        for step in &mut changed.steps {
            if let RuleStep::Create { rule, .. } = step {
                change(number, rule);
                number += 1;
            }
        }
        changed
    };
    let count = rules(case).len() as u32;
    let greatest = rules(case).iter().map(|(_, rule)| rule.priority).max().unwrap_or(0);
    let mut all = vec![
        (
            "the rule of lower priority wins".to_owned(),
            with_each(&|_, rule| rule.priority = greatest - rule.priority),
        ),
        (
            "priorities do not count: the rule that was created first wins".to_owned(),
            with_each(&|_, rule| rule.priority = 0),
        ),
        (
            "priorities do not count: the rule that was created last wins".to_owned(),
            with_each(&|number, rule| rule.priority = count - number as u32),
        ),
        (
            "a rule acts on frames that did not jump to its group".to_owned(),
            with_each(&|_, rule| {
                let jumps = matches!(fate(&rule.actions), Some(Action::Jump(_)));
                rule.group = if jumps { u32::MAX } else { 0 };
            }),
        ),
    ];
    let created = |rule: usize| rules_in_order(case).get(rule).copied();
    for (at, step) in case.steps.iter().enumerate() {
        let mut changed = case.clone();
        match step {
            RuleStep::Destroy { .. } => {
                // It stays a step, so that the numbers of steps stay.
                changed.steps[at] = RuleStep::Wait { ns: 0 };
                all.push(("a destroyed rule still acts".to_owned(), changed));
                let mut both = case.clone();
                let is_equal = |rule: usize| {
                    matches!(step, RuleStep::Destroy { rule: gone } if *gone != rule
                        && created(*gone) == created(rule))
                };
                let twin = (0..count as usize).find(|rule| is_equal(*rule));
                let twin = twin.and_then(|twin| both.steps.iter_mut().filter(is_create).nth(twin));
                if let Some(RuleStep::Create { rule: gone, .. }) = twin {
                    gone.group = u32::MAX;
                    all.push(("destroying one of two equal rules removes both".to_owned(), both));
                }
            }
            RuleStep::Replace { .. } => {
                changed.steps[at] = RuleStep::Wait { ns: 0 };
                all.push(("a rule keeps its actions when they are replaced".to_owned(), changed));
            }
            _ => {}
        }
    }
    all
}

fn is_create(step: &&mut RuleStep) -> bool {
    matches!(step, RuleStep::Create { .. })
}

fn rules_in_order(case: &RuleCase) -> Vec<&WrittenRule> {
    let created = case.steps.iter().filter_map(|step| match step {
        RuleStep::Create { rule, .. } => Some(rule),
        _ => None,
    });
    created.collect()
}

/// An action without its values.
pub fn action_word(action: &Action) -> String {
    action.to_string().split(' ').next().unwrap_or_default().to_owned()
}

fn count_name(
    case: &RuleCase,
    queues: u16,
    observation: &RuleCaseObservation,
    (step, frames): (usize, u64),
) -> String {
    let predicted = predict(case, queues, Some(observation));
    let Some(Predicted::Count { per_frame }) = predicted.get(step) else {
        return "a counter is wrong".to_owned();
    };
    let (least, most) = count_range(per_frame, observation);
    match frames {
        0 => "a counter stays 0".to_owned(),
        _ if frames < least => "a counter misses frames".to_owned(),
        _ if frames == 2 * most => "a counter counts frames twice".to_owned(),
        _ => "a counter counts frames that its rule did not get".to_owned(),
    }
}

fn age_name(
    case: &RuleCase,
    queues: u16,
    observation: &RuleCaseObservation,
    step: usize,
) -> String {
    let predicted = predict(case, queues, Some(observation));
    match (predicted.get(step), observation.steps.get(step)) {
        (Some(Predicted::Aged(wanted)), Some(StepResult::Aged(seen))) => {
            match wanted.iter().all(|rule| seen.contains(rule)) {
                true => "a rule in use is reported as aged".to_owned(),
                false => "an idle rule is not reported as aged".to_owned(),
            }
        }
        _ => "ages are wrong".to_owned(),
    }
}

fn traffic_name(
    case: &RuleCase,
    queues: u16,
    (before, after): (&[FrameExit], &[FrameExit]),
) -> String {
    let predicted = predict(case, queues, None);
    let wanted = predicted.iter().find_map(|predicted| match predicted {
        Predicted::Traffic { old, new } => Some((old, new)),
        _ => None,
    });
    let Some((old, new)) = wanted else { return "replacing a rule is wrong".to_owned() };
    let is_stray = |exit: &&FrameExit| !old.contains(exit) && !new.contains(exit);
    match before.iter().chain(after).find(is_stray) {
        Some(FrameExit::Nowhere) => "frames are lost while a rule is replaced".to_owned(),
        Some(_) => "frames meet neither the old nor the new actions of a rule".to_owned(),
        None if after.iter().any(|exit| !new.contains(exit)) => {
            "frames match the old actions of a rule again after the new ones".to_owned()
        }
        None => "replacing a rule is wrong".to_owned(),
    }
}

/// A name for what nothing explains.
pub fn unexplained(
    case: &RuleCase,
    queues: u16,
    observation: &RuleCaseObservation,
    difference: &Difference,
) -> String {
    let predicted = predict(case, queues, Some(observation));
    let (Some(StepResult::Frame(seen)), Some(Predicted::Frame(wanted))) =
        (observation.steps.get(difference.step), predicted.get(difference.step))
    else {
        return difference.words.clone();
    };
    if !wanted.exits.contains(&seen.exit) {
        if !matches!(case.steps[difference.step], RuleStep::Send { .. }) {
            return difference.words.clone();
        }
        return match seen.exit {
            FrameExit::Nowhere => "drops frames that have to come to a queue or a port".to_owned(),
            exit => format!("frames go to {exit} against the rules"),
        };
    }
    if seen.frame != wanted.frame {
        return bytes_name(case, &wanted.frame, &seen.frame);
    }
    match (wanted.mark, seen.mark) {
        (FrameMark::None, _) => "delivers a mark that no rule set".to_owned(),
        (_, FrameMark::None) => "delivers no mark".to_owned(),
        _ => "delivers another mark".to_owned(),
    }
}

/// A name for bytes that differ: a checksum, or a header after an action.
fn bytes_name(case: &RuleCase, wanted: &[u8], seen: &[u8]) -> String {
    let actions = rules_in_order(case).into_iter().flat_map(|rule| &rule.actions);
    let is_change = |action: &&Action| {
        !matches!(
            action,
            Action::Age(_)
                | Action::Count
                | Action::Drop
                | Action::Flag
                | Action::Jump(_)
                | Action::Mark(_)
                | Action::Meter(_)
                | Action::Port(_)
                | Action::Queue(_)
                | Action::Rss(_)
                | Action::SetMeta { .. }
                | Action::SetTag { .. }
        )
    };
    let mut words: Vec<String> = actions.filter(is_change).map(action_word).collect();
    words.dedup();
    let after = match words.is_empty() {
        true => String::new(),
        false => format!(" after {}", words.join(", ")),
    };
    if wanted.len() != seen.len() {
        return format!("the length of the frame is wrong{after}");
    }
    let differing: Vec<usize> = (0..wanted.len()).filter(|at| wanted[*at] != seen[*at]).collect();
    let spans = walk(wanted).spans().to_vec();
    let span_of = |at: usize| {
        let found =
            spans.iter().rfind(|span| span.start <= at && at < span.start + span.header_len);
        found.map(|span| (span.kind, at - span.start))
    };
    let mut checksums: Vec<&str> = Vec::new();
    for at in &differing {
        match span_of(*at).and_then(|(kind, offset)| checksum(kind, offset)) {
            Some(name) if checksums.contains(&name) => {}
            Some(name) => checksums.push(name),
            None => {
                let kind =
                    span_of(*at).map_or_else(|| "payload".to_owned(), |(kind, _)| header(kind));
                return format!("the {kind} bytes of the frame are wrong{after}");
            }
        }
    }
    format!("the {} checksum is stale{after}", checksums.join(" and "))
}

/// The protocol whose checksum a byte of a header belongs to.
fn checksum(kind: LayerKind, offset: usize) -> Option<&'static str> {
    match (kind, offset) {
        (LayerKind::Ipv4, 10..=11) => Some("IPv4"),
        (LayerKind::Tcp, 16..=17) => Some("TCP"),
        (LayerKind::Udp, 6..=7) => Some("UDP"),
        (LayerKind::Icmpv6, 2..=3) => Some("ICMPv6"),
        _ => None,
    }
}

fn header(kind: LayerKind) -> String {
    format!("{kind:?}").to_lowercase()
}

/// How a value of a field is written: fields of numbers have no other.
pub fn is_number(field: &Field) -> bool {
    matches!(field.kind, FieldKind::Number)
}
