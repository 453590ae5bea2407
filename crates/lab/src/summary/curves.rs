//! Curves of a metric over an axis, a curve for all that is the same but for that axis.

use niclab_result::{Axis, Mean, Origin, Scale, Series, SeriesShape};

use crate::cells::Cell;
use crate::statistics::Estimate;
use crate::summary::Results;

/// Cells by their axes: which there are, and what is said of a place on one.
pub(crate) struct Axes {
    /// All of them, in the order in which they are named.
    pub axes: &'static [&'static str],
    /// The cells of a device, in reading order.
    pub cells: for<'a> fn(&'a Results<'_>, &str) -> Vec<&'a Cell<'a>>,
    /// A cell's place on an axis, in words.
    pub words_at: fn(&Cell<'_>, &str) -> String,
}

impl Axes {
    /// A metric over `x`, times `scale`, and what is the same for all curves, in words. Curves are
    /// named by what tells them apart; where nothing varies but other axes there is none.
    pub fn curves(
        &self,
        results: &Results<'_>,
        x: &str,
        metric: &str,
        scale: f64,
    ) -> (Vec<Series>, String) {
        let others: Vec<&str> = self.axes.iter().copied().filter(|axis| *axis != x).collect();
        let mut all: Vec<(String, &Cell<'_>)> = Vec::new();
        for device in results.devices() {
            let here = (self.cells)(results, device);
            let is_same =
                |a: &Cell<'_>, b: &Cell<'_>| others.iter().all(|at| a.word(at) == b.word(at));
            let is_varied = |cell: &&&Cell<'_>| {
                here.iter().any(|one| is_same(one, cell) && one.number(x) != cell.number(x))
            };
            all.extend(here.iter().filter(is_varied).map(|cell| (device.to_owned(), *cell)));
        }
        let tells =
            |axis: &&str| all.iter().any(|(_, cell)| cell.word(axis) != all[0].1.word(axis));
        let (telling, same): (Vec<&str>, Vec<&str>) = others.iter().copied().partition(tells);
        let worded = |cell: &Cell<'_>, axes: &[&str]| {
            let words = axes.iter().map(|axis| (self.words_at)(cell, axis));
            words.filter(|words| !words.is_empty()).collect::<Vec<_>>()
        };
        let mut series = Vec::new();
        for (device, cell) in &all {
            let name = [vec![device.clone()], worded(cell, &telling)].concat().join(", ");
            let Some(at) = cell.number(x) else { continue };
            if let Some(point) = cell.mean(metric, scale, at) {
                add_point(&mut series, name, device, point);
            }
        }
        let same = all.first().map(|(_, cell)| worded(cell, &same).join(", "));
        (series, same.unwrap_or_default())
    }
}

/// An estimate as a point of an axis of words.
pub(crate) fn ordinal_point(cell: &Cell<'_>, of: &Estimate, x_word: String, metric: &str) -> Mean {
    Mean {
        y: of.median,
        low: Some(of.low).filter(|_| of.repeats > 1),
        high: Some(of.high).filter(|_| of.repeats > 1),
        repeats: of.repeats as u32,
        marks: cell.marks(metric),
        x_word,
        ..Mean::default()
    }
}

/// An axis of a figure.
pub(crate) fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    Axis { label: label.into(), unit: unit.into(), scale }
}

/// Adds a measured point to the line of this name.
pub(crate) fn add_point(series: &mut Vec<Series>, name: String, device: &str, point: Mean) {
    add(series, Origin::Measured, name, device, point);
}

/// Adds a point that was computed, `y` at `x`, to the line of this name.
pub(crate) fn add_computed(
    series: &mut Vec<Series>,
    name: String,
    device: &str,
    (x, y): (f64, f64),
) {
    let point = Mean { x, y, repeats: 1, ..Mean::default() };
    add(series, Origin::Computed, name, device, point);
}

/// Adds a point to the line of this name, which is begun where it is new.
pub(crate) fn add(
    series: &mut Vec<Series>,
    origin: Origin,
    name: String,
    device: &str,
    point: Mean,
) {
    match series.iter_mut().find(|series| series.name == name) {
        Some(series) => series.points.push(point),
        None => {
            let (device, shape) = (device.to_string(), SeriesShape::Line);
            series.push(Series { name, device, origin, shape, hue: None, points: vec![point] });
        }
    }
}
