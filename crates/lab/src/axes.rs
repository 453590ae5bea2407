//! Axes that several experiments have: how their values are read, and how they are written down.

use niclab_device::{Action, CallMode, ControlCore};
use niclab_packet::flow::EXPONENT_MAX;
use niclab_result::{Coordinate, Point};

use crate::place::SweepPoint;
use crate::run::number;
use crate::spec::{Hits, SpecError};
use crate::values::Values;

/// Cores that change rules, by name.
pub(crate) const CORES: [(&str, ControlCore); 2] =
    [("same", ControlCore::Same), ("distinct", ControlCore::Distinct)];

/// Ways to ask for a change, by name.
pub(crate) const CALLS: [(&str, CallMode); 3] = [
    ("single", CallMode::Single),
    ("queue", CallMode::Queue),
    ("transaction", CallMode::Transaction),
];

/// Actions by name, those of the published figure 5d.
pub(crate) const ACTIONS: [(&str, &[Action]); 4] = [
    ("queue", &[Action::Queue(0)]),
    ("mark+queue", &[Action::Mark(7), Action::Queue(0)]),
    ("mark+set_meta+queue", &[Action::Mark(7), META, Action::Queue(0)]),
    ("mark+set_meta+set_tag+queue", &[Action::Mark(7), META, TAG, Action::Queue(0)]),
];

const META: Action = Action::SetMeta { data: 5, mask: u32::MAX };
const TAG: Action = Action::SetTag { index: 1, data: 9, mask: u32::MAX };

/// What stands in the device: the default rule of group 0, or of group 1 with a jump to it.
pub(crate) fn default_rules(group: u32, flows: u32) -> SweepPoint {
    SweepPoint { groups: group, rules: 1, match_percent: 0, hits: Hits::Flows, flows }
}

/// The numbers of an axis, all from `min` to `max`.
pub(crate) fn numbers(
    axis: &'static str,
    values: &Values,
    min: u32,
    max: u32,
) -> Result<Vec<u32>, SpecError> {
    let one = |value: &Coordinate| {
        let number = number(axis, value)?;
        match (min..=max).contains(&number) {
            true => Ok(number),
            false => Err(refused(axis, value, format!("use {min} to {max}"))),
        }
    };
    values.0.iter().map(one).collect()
}

/// What the words of an axis stand for.
pub(crate) fn words<T: Copy>(
    axis: &'static str,
    values: &Values,
    known: &[(&str, T)],
) -> Result<Vec<T>, SpecError> {
    let one = |value: &Coordinate| {
        let found = known.iter().find(|(name, _)| *name == value.to_string());
        let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let remedy = || format!("use one of {}", names());
        found.map(|(_, word)| *word).ok_or_else(|| refused(axis, value, remedy()))
    };
    values.0.iter().map(one).collect()
}

/// The word of a value.
pub(crate) fn name_of<T: PartialEq>(known: &[(&'static str, T)], value: T) -> &'static str {
    known.iter().find(|(_, one)| *one == value).map_or("", |(name, _)| name)
}

/// Operations between two bursts; `None` for all at once.
pub(crate) fn slices(values: &Values) -> Result<Vec<Option<u32>>, SpecError> {
    let one = |value: &Coordinate| match value {
        Coordinate::Word(word) if word == "all" => Ok(None),
        Coordinate::Number(count) if (1.0..=4e9).contains(count) => Ok(Some(*count as u32)),
        _ => Err(refused("slice", value, "give a number from 1, or all".to_owned())),
    };
    values.0.iter().map(one).collect()
}

/// What is said of a value that cannot be.
pub(crate) fn refused(axis: &'static str, value: &Coordinate, remedy: String) -> SpecError {
    SpecError::OutOfRange { axis, value: value.to_string(), remedy }
}

/// Where `slice` stands of so many operations.
pub(crate) fn slice_at(slice: Option<u32>) -> Coordinate {
    slice.map_or(Coordinate::Word("all".to_owned()), |count| Coordinate::Number(f64::from(count)))
}

/// A place by its axes.
pub(crate) fn at_axes(axes: impl IntoIterator<Item = (&'static str, Coordinate)>) -> Point {
    axes.into_iter().map(|(axis, at)| (axis.to_owned(), at)).collect()
}

/// Most queues: those that any device here has.
pub(crate) const QUEUES_MAX: u32 = 256;

/// Cores of so many queues: no more than these.
pub(crate) fn cores(values: &Values, queues: u32) -> Result<Vec<u32>, SpecError> {
    let one = |value: &Coordinate| match value {
        Coordinate::Word(word) if word == "each" => Ok(queues),
        Coordinate::Number(cores) if (1.0..=f64::from(QUEUES_MAX)).contains(cores) => {
            Ok((*cores as u32).min(queues))
        }
        _ => Err(refused("cores", value, format!("use 1 to {QUEUES_MAX}, or each"))),
    };
    values.0.iter().map(one).collect()
}

/// Exponents have digits behind the point: as typed they are words.
pub(crate) fn exponents(values: &Values) -> Result<Vec<f64>, SpecError> {
    let one = |value: &Coordinate| {
        let number = value.to_string().parse::<f64>().ok();
        number
            .filter(|number| (0.0..=EXPONENT_MAX).contains(number))
            .ok_or_else(|| refused("zipf", value, format!("use 0 to {EXPONENT_MAX}")))
    };
    values.0.iter().map(one).collect()
}
