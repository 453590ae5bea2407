//! The places of the experiment `update-batch`: which rules are created, where and how.

use niclab_device::{Action, Calls, ControlCore, Plan, RuleBlock, RulesPlan, Work};
use niclab_result::{Coordinate, Point};

use crate::flows;
use crate::occupancy::{PRIORITY_RULES, Place, RULES_MAX};
use crate::run::number;
use crate::spec::{BatchSweep, Hits, SpecError, Trace};
use crate::values::Values;

/// One batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    /// The state of the device and its traffic.
    pub place: Place,
    /// Rules that are created, in the last group of the place.
    pub rules: u32,
    /// On which core.
    pub core: ControlCore,
    /// How.
    pub calls: Calls,
    /// Operations between two bursts; none: all at once.
    pub slice: Option<u32>,
}

/// All batches of a sweep: the product of its axes. A trace brings its own flows.
pub fn places(sweep: &BatchSweep, trace: Option<&Trace>) -> Result<Vec<Batch>, SpecError> {
    let flows = match trace {
        Some(trace) => Values::number(trace.frames.flows.into()),
        None => sweep.flows.clone(),
    };
    let mut batches = Vec::new();
    for group in numbers("group", &sweep.group, 0, 1)? {
        for rules in numbers("batch", &sweep.batch, 1, RULES_MAX)? {
            for core in words("core", &sweep.core, &CORES)? {
                for calls in words("calls", &sweep.calls, &CALLS)? {
                    for slice in slices(&sweep.slice)? {
                        for flows in numbers("flows", &flows, 1, u32::MAX)? {
                            let place = standing(group, flows);
                            batches.push(Batch { place, rules, core, calls, slice });
                        }
                    }
                }
            }
        }
    }
    Ok(batches)
}

const CORES: [(&str, ControlCore); 2] =
    [("same", ControlCore::Same), ("distinct", ControlCore::Distinct)];

const CALLS: [(&str, Calls); 3] =
    [("single", Calls::Single), ("queue", Calls::Queue), ("transaction", Calls::Transaction)];

/// What stands in the device: the default rule of group 0, or of group 1 with a jump to it.
fn standing(group: u32, flows: u32) -> Place {
    Place { groups: group, rules: 1, match_percent: 0, hits: Hits::Flows, flows }
}

fn numbers(axis: &'static str, values: &Values, min: u32, max: u32) -> Result<Vec<u32>, SpecError> {
    let one = |value: &Coordinate| {
        let number = number(axis, value)?;
        match (min..=max).contains(&number) {
            true => Ok(number),
            false => Err(refused(axis, value, format!("use {min} to {max}"))),
        }
    };
    values.0.iter().map(one).collect()
}

fn words<T: Copy>(
    axis: &'static str,
    values: &Values,
    known: &[(&str, T)],
) -> Result<Vec<T>, SpecError> {
    let one = |value: &Coordinate| {
        let found = known.iter().find(|(name, _)| *name == value.to_string());
        let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        found.map(|(_, word)| *word).ok_or_else(|| refused(axis, value, names()))
    };
    values.0.iter().map(one).collect()
}

fn slices(values: &Values) -> Result<Vec<Option<u32>>, SpecError> {
    let one = |value: &Coordinate| match value {
        Coordinate::Word(word) if word == "all" => Ok(None),
        Coordinate::Number(count) if (1.0..=4e9).contains(count) => Ok(Some(*count as u32)),
        _ => Err(refused("slice", value, "give a number from 1, or all".to_owned())),
    };
    values.0.iter().map(one).collect()
}

fn refused(axis: &'static str, value: &Coordinate, remedy: String) -> SpecError {
    SpecError::OutOfRange { axis, value: value.to_string(), remedy }
}

impl Batch {
    /// The coordinates of the trials without the batch, those of the frame size excepted.
    pub fn base_point(&self) -> Point {
        let number = |value: u32| Coordinate::Number(f64::from(value));
        let point = [("group", number(self.place.groups)), ("flows", number(self.place.flows))];
        point.into_iter().map(|(axis, at)| (axis.to_owned(), at)).collect()
    }

    /// The coordinates of the trial with it, those of the frame size excepted.
    pub fn point(&self) -> Point {
        let mut point = self.base_point();
        let word = |word: &str| Coordinate::Word(word.to_owned());
        let core = CORES.iter().find(|(_, core)| *core == self.core).map_or("", |(name, _)| name);
        let calls = CALLS.iter().find(|(_, way)| *way == self.calls).map_or("", |(name, _)| name);
        let slice = self.slice.map_or(word("all"), |count| Coordinate::Number(f64::from(count)));
        point.insert("batch".into(), Coordinate::Number(f64::from(self.rules)));
        point.insert("core".into(), word(core));
        point.insert("calls".into(), word(calls));
        point.insert("slice".into(), slice);
        point
    }

    /// Its rules are of flows that are never sent: that the packets' way stays as it is, and no
    /// packet is decided by them, keeps the cost of changes apart from that of rules.
    pub fn plan(&self, start_ns: u64, seed: u64) -> Plan {
        let rules = RuleBlock::FiveTuples {
            group: self.place.groups,
            priority: PRIORITY_RULES,
            flows: flows::never_sent(self.rules, seed),
            first: 0,
            count: self.rules,
            actions: vec![Action::Queue(0)],
        };
        let Batch { core, calls, slice, .. } = *self;
        Plan::Rules(Box::new(RulesPlan { core, start_ns, work: Work::Create(rules), calls, slice }))
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
