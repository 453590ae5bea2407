//! The page of a [`FleetDocument`]: the outliers, how the others lie, and a list of all cards.

use std::collections::HashMap;

use askama::Template;
use niclab_result::digits::significant;
use niclab_result::fleet::{
    FleetCard, FleetDifference, FleetDocument, FleetFigure, FleetGroup, Outlier, RatioHistogram,
};
use serde_json::json;

use crate::{ReportError, words};

/// Outliers and figures that the page describes one by one; the list has all cards.
const DESCRIBED_MAX: [usize; 2] = [200, 12];
/// Figures of a card.
const DIFFERENCES_MAX: usize = 5;
/// Width of a figure, and height of its bars.
const SIZE: [f64; 2] = [700.0, 78.0];

/// The whole page.
#[derive(Template)]
#[template(path = "fleet.html")]
struct FleetPage<'a> {
    program: &'a str,
    lead: String,
    rate: String,
    notes: Vec<String>,
    difference_min: String,
    left_out: &'a [String],
    outliers: Vec<OutlierView>,
    more_outliers: Option<String>,
    strips: Vec<StripView>,
    groups: Vec<GroupView<'a>>,
    data: String,
    style: &'static str,
    script: &'static str,
}

/// A card that is unlike the others.
struct OutlierView {
    name: String,
    about: String,
    differences: Vec<String>,
}

/// How the cards of a group lie in one figure.
struct StripView {
    title: String,
    caption: String,
    /// Left edge, width and height.
    bars: Vec<(f64, f64, f64)>,
    marks: Vec<f64>,
    labels: Vec<(f64, &'static str, String)>,
}

/// A group.
struct GroupView<'a> {
    name: &'a str,
    about: String,
    summary: String,
    rows: Vec<FigureRow<'a>>,
}

/// A figure of it.
struct FigureRow<'a> {
    trial: String,
    point: &'a str,
    metric: &'a str,
    median: String,
    unit: &'a str,
    spread: String,
    cards: usize,
    outliers: usize,
}

/// The report of `niclab fleet` as one HTML file.
///
/// # Errors
/// [`ReportError::Template`].
pub fn fleet_html(document: &FleetDocument) -> Result<String, ReportError> {
    let outliers = document.outliers.len();
    let more = outliers.saturating_sub(DESCRIBED_MAX[0]);
    let described = document.outliers.iter().take(DESCRIBED_MAX[0]);
    let page = FleetPage {
        program: &document.program,
        lead: format!(
            "{outliers} of {} {}, in {}.",
            document.counted(document.cards.len()),
            if outliers == 1 { "is an outlier" } else { "are outliers" },
            words::count(document.comparisons as usize, "comparison")
        ),
        rate: document.rate_words(),
        notes: notes(document),
        difference_min: format!("{} %", document.difference_min * 100.0),
        left_out: &document.left_out,
        outliers: described.map(|of| outlier(document, of)).collect(),
        more_outliers: (more > 0)
            .then(|| format!("The list of all cards has {}.", words::count(more, "more outlier"))),
        strips: strips(document),
        groups: document.groups.iter().map(group).collect(),
        data: data(document),
        style: include_str!("../templates/style.css"),
        script: include_str!("../templates/fleet.js"),
    };
    Ok(page.render()?)
}

/// What was left out, and which cards were not compared.
fn notes(document: &FleetDocument) -> Vec<String> {
    let mut notes = Vec::new();
    if document.uncompared() > 0 {
        notes.push(format!(
            "Not compared: {}. Their group has too few cards, or they have too few repeats without \
             a mark.",
            document.counted(document.uncompared())
        ));
    }
    if document.marked_values > 0 {
        let values = words::count(document.marked_values as usize, "value");
        notes.push(format!("Left out: {values} with a mark that puts them in doubt."));
    }
    if document.repeated_rows > 0 {
        let rows = words::count(document.repeated_rows as usize, "row");
        notes.push(format!(
            "Left out: {rows} that repeat earlier ones: copies of a run count once."
        ));
    }
    notes
}

/// A change in percent.
fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

fn interval(of: &FleetDifference) -> String {
    format!("{} to {}", percent(of.interval.0), percent(of.interval.1))
}

/// A figure in words.
fn figure_words(figure: &FleetFigure) -> String {
    let FleetFigure { experiment, trial, point, metric, .. } = figure;
    format!("{metric}: {experiment} {trial} {point}")
}

fn outlier(document: &FleetDocument, of: &Outlier) -> OutlierView {
    let group = &document.groups[of.group];
    let firmware = match of.firmware.is_empty() {
        true => String::new(),
        false => format!("; firmware {}", of.firmware),
    };
    let words = |difference: &FleetDifference| {
        format!(
            "{} ({}), z-score {:.1} ({:.1} to {:.1}), {}",
            percent(difference.ratio),
            interval(difference),
            difference.z_score,
            difference.z_score_interval.0,
            difference.z_score_interval.1,
            figure_words(&group.figures[difference.figure])
        )
    };
    let mut differences: Vec<String> =
        of.differences.iter().take(DIFFERENCES_MAX).map(words).collect();
    if let Some(more @ 1..) = of.differences.len().checked_sub(DIFFERENCES_MAX) {
        differences.push(format!("and {}", words::count(more, "more figure")));
    }
    let FleetCard { host, device, .. } = &document.cards[of.card];
    let name = format!("{host} ({device})");
    OutlierView { name, about: format!("{}{firmware}", group.name), differences }
}

fn group(group: &FleetGroup) -> GroupView<'_> {
    let about = match &group.unjudged {
        Some(why) => format!("Not judged: {why}."),
        None => format!("{}.", words::count(group.cards, "card")),
    };
    let row = |of: &'_ FleetFigure| -> (String, String, String) {
        let spread = format!("{} %", significant(of.spread * 100.0));
        (format!("{} {}", of.experiment, of.trial), significant(of.median), spread)
    };
    let rows = group.figures.iter().map(|of| {
        let (trial, median, spread) = row(of);
        let FleetFigure { point, metric, unit, cards, outliers, .. } = of;
        let (cards, outliers) = (*cards, *outliers);
        FigureRow { trial, point, metric, median, unit, spread, cards, outliers }
    });
    let summary = words::count(group.figures.len(), "figure");
    GroupView { name: &group.name, about, summary, rows: rows.collect() }
}

/// The figures that name a card, those with the most cards first.
fn strips(document: &FleetDocument) -> Vec<StripView> {
    let mut ratios: HashMap<(usize, usize), Vec<f64>> = HashMap::new();
    for of in &document.outliers {
        for difference in &of.differences {
            ratios.entry((of.group, difference.figure)).or_default().push(difference.ratio);
        }
    }
    let groups = document.groups.iter().enumerate();
    let mut drawn: Vec<_> = groups
        .flat_map(|(at, group)| {
            let figures = group.figures.iter().enumerate();
            figures.filter_map(move |(place, figure)| {
                Some(((at, place), group, figure, figure.histogram.as_ref()?))
            })
        })
        .collect();
    drawn.sort_by_key(|(_, _, figure, _)| std::cmp::Reverse(figure.outliers));
    let strips = drawn.into_iter().take(DESCRIBED_MAX[1]).map(|(at, group, figure, histogram)| {
        strip(group, figure, histogram, ratios.get(&at).map_or(&[], |of| of))
    });
    strips.collect()
}

/// Bars of logarithmic height: one card is seen beside ten thousand.
fn strip(
    group: &FleetGroup,
    figure: &FleetFigure,
    histogram: &RatioHistogram,
    outliers: &[f64],
) -> StripView {
    let RatioHistogram { low, high, counts } = histogram;
    let tenth = |number: f64| (number * 10.0).round() / 10.0;
    let place = |ratio: f64| tenth((ratio - low) / (high - low) * SIZE[0]);
    let height = |count: u32| f64::from(count + 1).ln();
    let most = counts.iter().copied().map(height).fold(f64::MIN_POSITIVE, f64::max);
    let width = SIZE[0] / counts.len().max(1) as f64;
    let bar = |(at, count): (usize, &u32)| {
        (tenth(at as f64 * width), tenth(width - 1.0), tenth(height(*count) / most * SIZE[1]))
    };
    let mut labels = vec![(0.0, "start", percent(*low)), (SIZE[0], "end", percent(*high))];
    let middle = place(1.0);
    if (SIZE[0] * 0.15..SIZE[0] * 0.85).contains(&middle) {
        labels.push((middle, "middle", "median".to_owned()));
    }
    StripView {
        title: figure_words(figure),
        caption: format!(
            "{}: {} cards by their difference from the median; the height of a bar is logarithmic. \
             Triangles are outliers.",
            group.name, figure.cards
        ),
        bars: counts.iter().enumerate().filter(|(_, count)| **count > 0).map(bar).collect(),
        marks: outliers.iter().map(|ratio| place(*ratio)).collect(),
        labels,
    }
}

/// What the list of cards shows, as `fleet.js` reads it.
fn data(document: &FleetDocument) -> String {
    let mut starts = Vec::new();
    let mut figures: Vec<String> = Vec::new();
    for group in &document.groups {
        starts.push(figures.len());
        figures.extend(group.figures.iter().map(figure_words));
    }
    let card = |of: &FleetCard| match &of.farthest {
        None => json!([of.host, of.device, of.firmware, of.figures]),
        Some(far) => json!([
            of.host,
            of.device,
            of.firmware,
            of.figures,
            starts[of.group] + far.figure,
            percent(far.ratio),
            interval(far),
            (far.z_score * 10.0).round() / 10.0,
            u8::from(of.is_outlier),
        ]),
    };
    let cards: Vec<serde_json::Value> = document.cards.iter().map(card).collect();
    // Nothing in it can end the element that holds it.
    json!({ "figures": figures, "cards": cards }).to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_become_markup_or_end_the_data() {
        let card = FleetCard { host: "</script><b onload=x>".into(), ..FleetCard::default() };
        let group = FleetGroup { name: "<i>".into(), cards: 1, ..FleetGroup::default() };
        let document =
            FleetDocument { cards: vec![card], groups: vec![group], ..FleetDocument::default() };
        let page = fleet_html(&document).unwrap();
        assert!(!page.contains("<b onload") && !page.contains("<i>"));
        assert!(page.contains("\\u003c/script>\\u003cb onload=x>"));
        assert_eq!(page.matches("</script>").count(), 2);
    }

    #[test]
    fn the_rate_of_false_alarms_has_its_condition() {
        let document = FleetDocument { false_alarm_rate: 0.05, ..FleetDocument::default() };
        let page = fleet_html(&document).unwrap();
        assert!(page.contains("about as a normal distribution does"), "{page}");
        assert!(page.contains("the chance to name any would be 5 %."), "{page}");
    }

    #[test]
    fn one_more_outlier_and_one_more_figure_are_singular() {
        let differences = vec![FleetDifference::default(); DIFFERENCES_MAX + 1];
        let outlier = Outlier { differences, ..Outlier::default() };
        let figures = vec![FleetFigure::default()];
        let group = FleetGroup { figures, ..FleetGroup::default() };
        let page = |count: usize| {
            let document = FleetDocument {
                cards: vec![FleetCard::default()],
                groups: vec![group.clone()],
                outliers: vec![outlier.clone(); count],
                ..FleetDocument::default()
            };
            fleet_html(&document).unwrap()
        };
        assert!(page(DESCRIBED_MAX[0] + 1).contains("list of all cards has 1 more outlier."));
        assert!(page(DESCRIBED_MAX[0] + 2).contains("list of all cards has 2 more outliers."));
        assert!(page(1).contains("and 1 more figure<"));
    }

    #[test]
    fn a_strip_marks_the_outliers_of_its_own_figure() {
        let histogram = RatioHistogram { low: 0.5, high: 1.5, counts: vec![1, 8] };
        let figure = |metric: &str, outliers| FleetFigure {
            metric: metric.into(),
            outliers,
            histogram: Some(histogram.clone()),
            ..FleetFigure::default()
        };
        let figures = vec![figure("first", 1), figure("second", 2)];
        let group = FleetGroup { figures, ..FleetGroup::default() };
        let of = |figure, ratio| FleetDifference { figure, ratio, ..FleetDifference::default() };
        let outlier = |differences| Outlier { differences, ..Outlier::default() };
        let document = FleetDocument {
            groups: vec![group],
            outliers: vec![outlier(vec![of(0, 0.5), of(1, 1.5)]), outlier(vec![of(1, 1.0)])],
            ..FleetDocument::default()
        };
        let strips = strips(&document);
        let seen: Vec<_> = strips.iter().map(|of| (&of.title[..6], of.marks.clone())).collect();
        assert_eq!(seen, [("second", vec![700.0, 350.0]), ("first:", vec![0.0])]);
    }
}
