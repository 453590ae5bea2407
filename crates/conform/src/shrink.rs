//! The smallest case that still differs: fewer rules, frames, items, fields, bits and actions.

use niclab_device::rule_case::{RuleCase, RuleStep, WrittenRule};
use niclab_device::rule_port::fate;
use niclab_nic::rule::compile;
use niclab_nic::rule::item::{IMAGE_LEN, ItemMatch};

/// Makes a case smaller as long as `differs` holds of the smaller one, with at most `tries` of
/// them.
///
/// # Errors
/// The first of `differs`.
pub fn shrink<E>(
    case: RuleCase,
    mut tries: u32,
    mut differs: impl FnMut(&RuleCase) -> Result<bool, E>,
) -> Result<RuleCase, E> {
    let mut smallest = case;
    'smaller: loop {
        for candidate in smaller(&smallest) {
            if tries == 0 {
                return Ok(smallest);
            }
            tries -= 1;
            if differs(&candidate)? {
                smallest = candidate;
                continue 'smaller;
            }
        }
        return Ok(smallest);
    }
}

/// Cases that are one step smaller, the most promising first.
fn smaller(case: &RuleCase) -> Vec<RuleCase> {
    let mut all = Vec::new();
    let steps = case.steps.len();
    // What comes after the step that differs shows nothing more.
    for at in (0..steps).rev() {
        if !matches!(case.steps[at], RuleStep::Create { .. }) {
            all.extend(without_step(case, at));
        }
    }
    // Without the rule of every frame, frames would go wherever the port's RSS sends them.
    let is_of_every_frame = |rule: &WrittenRule| {
        rule.group == 0 && rule.items.iter().all(|item| item.mask == [0; IMAGE_LEN])
    };
    for at in (0..steps).rev() {
        if let RuleStep::Create { rule, .. } = &case.steps[at]
            && !is_of_every_frame(rule)
        {
            all.extend(without_step(case, at));
        }
    }
    for (at, step) in case.steps.iter().enumerate() {
        if let RuleStep::Create { rule, .. } = step {
            all.extend(simpler_rules(rule).into_iter().map(|simpler| {
                let mut changed = case.clone();
                if let RuleStep::Create { rule, .. } = &mut changed.steps[at] {
                    *rule = simpler;
                }
                changed
            }));
        }
    }
    all
}

/// The case without a step; `None` where another step names the rule that it creates.
fn without_step(case: &RuleCase, at: usize) -> Option<RuleCase> {
    let mut steps = case.steps.clone();
    let removed = steps.remove(at);
    if let RuleStep::Create { .. } = removed {
        let is_create = |step: &&RuleStep| matches!(step, RuleStep::Create { .. });
        let number = case.steps[..at].iter().filter(is_create).count();
        for step in &mut steps {
            let named = match step {
                RuleStep::Replace { rule, .. }
                | RuleStep::Destroy { rule }
                | RuleStep::Traffic { rule, .. }
                | RuleStep::Count { rule, .. } => rule,
                _ => continue,
            };
            if *named == number {
                return None;
            }
            *named -= usize::from(*named > number);
        }
    }
    let shows = |step: &RuleStep| {
        use RuleStep::{Aged, Count, Send, Traffic};
        matches!(step, Send { .. } | Traffic { .. } | Count { .. } | Aged)
    };
    steps.iter().any(shows).then_some(RuleCase { steps, ..case.clone() })
}

fn simpler_rules(rule: &WrittenRule) -> Vec<WrittenRule> {
    let mut all = Vec::new();
    for at in 0..rule.actions.len() {
        let mut simpler = rule.clone();
        simpler.actions.remove(at);
        if fate(&simpler.actions).is_some() {
            all.push(simpler);
        }
    }
    for at in (0..rule.items.len()).rev() {
        let mut simpler = rule.clone();
        simpler.items.remove(at);
        all.push(simpler);
        let item = &rule.items[at];
        let mut with = |changed: ItemMatch| {
            if changed != *item {
                let mut simpler = rule.clone();
                simpler.items[at] = changed;
                all.push(simpler);
            }
        };
        with(ItemMatch::any(item.item));
        for field in item.item.fields() {
            let mask = field.value(&item.mask);
            if mask == 0 {
                continue;
            }
            let mut changed = *item;
            field.put(&mut changed.mask, 0);
            field.put(&mut changed.spec, 0);
            changed.last.iter_mut().for_each(|last| field.put(last, 0));
            with(changed);
            let mut changed = *item;
            changed.last = None;
            with(changed);
            // Half of the bits, the lower ones first.
            for half in halves(mask) {
                let mut changed = *item;
                field.put(&mut changed.mask, half);
                field.put(&mut changed.spec, field.value(&item.spec) & half);
                with(changed);
            }
        }
    }
    all.retain(|rule| compile::pattern(&rule.items).is_ok());
    all
}

/// The upper and the lower half of the bits of a mask.
fn halves(mask: u128) -> Vec<u128> {
    let count = mask.count_ones();
    if count < 2 {
        return Vec::new();
    }
    let (mut lower, mut rest) = (0, mask);
    for _ in 0..count / 2 {
        let lowest = rest & rest.wrapping_neg();
        lower |= lowest;
        rest &= !lowest;
    }
    vec![rest, lower]
}
