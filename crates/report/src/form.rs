//! The form of a figure: curves over numbers, or bars over categories.
//!
//! A figure over numbers in which no series has two points has no curve. It becomes a figure over
//! categories: a group of bars for whatever the names of the series say beside the device. The bar
//! of a baseline stands beside the bar that it is compared with.

use std::borrow::Cow;

use niclab_result::{Figure, Mean, Origin, Scale, Series, SeriesShape};

use crate::{axis, words};

/// How the points of a series are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Symbols along a line.
    Curve,
    /// A bare line.
    Cdf,
    /// Boxes.
    Boxes,
    /// Bars from zero.
    Bars,
    /// Symbols without a line: categories on an axis that has no zero.
    Dots,
    /// One point among curves, as a line across the plot.
    Reference,
}

impl Form {
    /// The form of a series of a figure as [`arranged`] gives it.
    pub fn of(figure: &Figure, series: &Series) -> Form {
        let over_words = figure.x.scale == Scale::Ordinal;
        match series.shape {
            SeriesShape::Box => Form::Boxes,
            _ if over_words && figure.y.scale == Scale::Linear => Form::Bars,
            _ if over_words => Form::Dots,
            SeriesShape::Cdf => Form::Cdf,
            SeriesShape::Line if series.points.len() == 1 => Form::Reference,
            SeriesShape::Line => Form::Curve,
        }
    }

    /// As the rows of a spec spell it.
    pub fn name(self) -> &'static str {
        match self {
            Form::Curve => "line",
            Form::Cdf => "cdf",
            Form::Boxes => "box",
            Form::Bars => "bar",
            Form::Dots => "dot",
            Form::Reference => "reference",
        }
    }

    /// `true` where series stand side by side instead of on one another.
    pub fn is_beside(self) -> bool {
        matches!(self, Form::Boxes | Form::Bars | Form::Dots)
    }
}

/// The figure to draw: itself where it has a curve or categories, else one over categories.
pub(crate) fn arranged(figure: &Figure) -> Cow<'_, Figure> {
    let has_curve = |series: &Series| series.points.len() > 1 || series.shape == SeriesShape::Cdf;
    let is_arranged = figure.x.scale == Scale::Ordinal
        || !figure.knees.is_empty()
        || figure.series.iter().any(has_curve)
        || figure.series.iter().all(|series| series.points.is_empty());
    if is_arranged { Cow::Borrowed(figure) } else { Cow::Owned(over_categories(figure)) }
}

fn over_categories(figure: &Figure) -> Figure {
    let mut places: Vec<f64> = points(figure).map(|point| point.x).collect();
    places.dedup();
    let [only] = places[..] else { return categories(figure, &|x| at(figure, x)) };
    let mut of = categories(figure, &|_| String::new());
    of.x.label = format!("{} = {}", figure.x.label, at(figure, only)).trim().to_owned();
    of.x.unit = String::new();
    of
}

/// A place on the horizontal axis in words.
pub(crate) fn at(figure: &Figure, x: f64) -> String {
    format!("{} {}", words::number(x), figure.x.unit).trim().to_owned()
}

fn points(figure: &Figure) -> impl Iterator<Item = &Mean> {
    figure.series.iter().flat_map(|series| &series.points)
}

/// The figure with a category for each name, and behind it `place` in words where there are any.
fn categories(figure: &Figure, place: &dyn Fn(f64) -> String) -> Figure {
    let all = figure.series.iter().enumerate();
    let drawn = || all.clone().filter(|(_, series)| !series.points.is_empty());
    let behind = |at: usize| behind_device(compared_with(figure, at));
    // Names that all begin with their device are a category behind it, and one colour a device.
    let is_by_device = drawn().all(|(at, _)| behind(at).is_some());
    let mut grouped: Vec<Series> = Vec::new();
    for (at, series) in drawn() {
        let category = match behind(at).filter(|_| is_by_device) {
            Some(category) => category,
            None => &compared_with(figure, at).name,
        };
        let word = |point: &Mean| {
            let parts = [category.to_owned(), place(point.x)];
            let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            parts.join(", ")
        };
        let points = series.points.iter();
        let points = points.map(|point| Mean { x_word: word(point), ..point.clone() });
        let points: Vec<Mean> = points.collect();
        let is_of = |one: &&mut Series| {
            is_by_device && (&one.device, one.origin) == (&series.device, series.origin)
        };
        match grouped.iter_mut().find(is_of) {
            Some(one) => one.points.extend(points),
            None => {
                let name = match (is_by_device, series.origin) {
                    (false, _) => series.name.clone(),
                    (true, Origin::Baseline) => {
                        series.name.replacen(&format!(", {category}"), "", 1)
                    }
                    (true, Origin::Computed) => format!("{}, computed", series.device),
                    (true, _) => series.device.clone(),
                };
                let device = grouped.iter().find(|one| one.device == series.device);
                let hue = match (device, series.origin) {
                    (Some(device), Origin::Baseline) if is_by_device => device.hue,
                    _ => series.hue,
                };
                grouped.push(Series { name, points, hue, ..series.clone() });
            }
        }
    }
    let x = niclab_result::Axis { scale: Scale::Ordinal, ..figure.x.clone() };
    Figure { x, series: grouped, ..figure.clone() }
}

/// The series itself; of a baseline the one before it, which has the same curve now.
fn compared_with(figure: &Figure, at: usize) -> &Series {
    let is_now = |series: &&Series| series.origin != Origin::Baseline;
    figure.series[..=at].iter().rfind(is_now).unwrap_or(&figure.series[at])
}

/// The name of a series without the device that it begins with; `None` where nothing is left.
fn behind_device(series: &Series) -> Option<&str> {
    series.name.strip_prefix(series.device.as_str())?.strip_prefix(", ")
}

/// The offset of each point from its place, in widths of a bar. The points of one place stand side
/// by side around it. A point alone stands at it.
pub(crate) fn offsets(figure: &Figure) -> Vec<Vec<f64>> {
    let meets = |a: &Mean, b: &Mean| match figure.x.scale {
        Scale::Ordinal => a.x_word == b.x_word,
        _ => a.x == b.x,
    };
    let has = |series: &Series, point: &Mean| {
        Form::of(figure, series).is_beside() && series.points.iter().any(|one| meets(one, point))
    };
    let offset = |place: usize, point: &Mean| {
        let count = |of: &[Series]| of.iter().filter(|series| has(series, point)).count() as f64;
        let is_beside = Form::of(figure, &figure.series[place]).is_beside();
        let middle = (count(&figure.series) - 1.0) / 2.0;
        if is_beside { count(&figure.series[..place]) - middle } else { 0.0 }
    };
    let of_series = |(place, series): (usize, &Series)| {
        series.points.iter().map(|point| offset(place, point)).collect()
    };
    figure.series.iter().enumerate().map(of_series).collect()
}

/// Places at which series stand side by side.
pub(crate) fn places_count(figure: &Figure) -> usize {
    let beside = figure.series.iter().filter(|series| Form::of(figure, series).is_beside());
    let points: Vec<&Mean> = beside.flat_map(|series| &series.points).collect();
    match figure.x.scale {
        Scale::Ordinal => axis::words(points.iter().map(|point| point.x_word.as_str())).len(),
        _ => {
            let mut places: Vec<f64> = points.iter().map(|point| point.x).collect();
            places.sort_by(f64::total_cmp);
            places.dedup();
            places.len()
        }
    }
}
