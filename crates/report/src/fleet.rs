//! The page of a [`FleetDocument`]: the odd hosts, how the others lie, and a list of all.

use askama::Template;
use niclab_result::digits::significant;
use niclab_result::fleet::{
    FleetDifference, FleetDocument, FleetFigure, FleetGroup, OddHost, RatioHistogram,
};
use serde_json::json;

use crate::ReportError;

/// Odd hosts and figures that the page describes one by one; the list has all hosts.
const DESCRIBED_MAX: [usize; 2] = [200, 12];
/// Figures of a host.
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
    difference_min: String,
    left_out: &'a [String],
    odd: Vec<OddView<'a>>,
    more_odd: Option<String>,
    strips: Vec<StripView>,
    groups: Vec<GroupView<'a>>,
    data: String,
    style: &'static str,
    script: &'static str,
}

/// A host that is unlike the others.
struct OddView<'a> {
    name: &'a str,
    about: String,
    differences: Vec<String>,
}

/// How the hosts of a group lie in one figure.
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
    hosts: usize,
    odd: usize,
}

/// The report of `niclab fleet` as one HTML file.
///
/// # Errors
/// [`ReportError::Template`].
pub fn fleet_html(document: &FleetDocument) -> Result<String, ReportError> {
    let odd_hosts = document.hosts.iter().filter(|host| host.is_odd).count();
    let more = document.odd.len().saturating_sub(DESCRIBED_MAX[0]);
    let page = FleetPage {
        program: &document.program,
        lead: format!(
            "{odd_hosts} of {} {} unlike the others, in {}.",
            counted(document.hosts.len(), "host"),
            if odd_hosts == 1 { "is" } else { "are" },
            counted(document.comparisons as usize, "comparison")
        ),
        rate: rate(document),
        difference_min: format!("{} %", document.difference_min * 100.0),
        left_out: &document.left_out,
        odd: document.odd.iter().take(DESCRIBED_MAX[0]).map(|of| odd(document, of)).collect(),
        more_odd: (more > 0).then(|| format!("{more} more are in the list of all hosts.")),
        strips: strips(document),
        groups: document.groups.iter().map(group).collect(),
        data: data(document),
        style: include_str!("../templates/style.css"),
        script: include_str!("../templates/fleet.js"),
    };
    Ok(page.render()?)
}

/// The rate of false alarms, and what was left out.
fn rate(document: &FleetDocument) -> String {
    let rate = document.false_alarm_rate * 100.0;
    let marked = match document.marked_values {
        0 => String::new(),
        count => format!(" {count} values were left out because a mark puts them in doubt."),
    };
    format!("If all hosts were equal, the chance to name any of them would be {rate} %.{marked}")
}

/// `1 host`, `30 hosts`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
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

fn odd<'a>(document: &'a FleetDocument, of: &'a OddHost) -> OddView<'a> {
    let group = &document.groups[of.group];
    let firmware = match of.firmware.is_empty() {
        true => String::new(),
        false => format!("; firmware {}", of.firmware),
    };
    let words = |difference: &FleetDifference| {
        format!(
            "{} ({}), {:.1} spreads ({:.1} to {:.1}), {}",
            percent(difference.ratio),
            interval(difference),
            difference.distance,
            difference.distance_interval.0,
            difference.distance_interval.1,
            figure_words(&group.figures[difference.figure])
        )
    };
    let mut differences: Vec<String> =
        of.differences.iter().take(DIFFERENCES_MAX).map(words).collect();
    if of.differences.len() > DIFFERENCES_MAX {
        differences.push(format!("and {} figures more", of.differences.len() - DIFFERENCES_MAX));
    }
    let name = &document.hosts[of.host].host;
    OddView { name, about: format!("{}{firmware}", group.name), differences }
}

fn group(group: &FleetGroup) -> GroupView<'_> {
    let about = match &group.unjudged {
        Some(why) => format!("Not judged: {why}."),
        None => format!("{}.", counted(group.hosts, "host")),
    };
    let row = |of: &'_ FleetFigure| -> (String, String, String) {
        let spread = format!("{} %", significant(of.spread * 100.0));
        (format!("{} {}", of.experiment, of.trial), significant(of.median), spread)
    };
    let rows = group.figures.iter().map(|of| {
        let (trial, median, spread) = row(of);
        let FleetFigure { point, metric, unit, hosts, odd, .. } = of;
        FigureRow { trial, point, metric, median, unit, spread, hosts: *hosts, odd: *odd }
    });
    let summary = counted(group.figures.len(), "figure");
    GroupView { name: &group.name, about, summary, rows: rows.collect() }
}

/// The figures that name a host, those with the most hosts first.
fn strips(document: &FleetDocument) -> Vec<StripView> {
    let mut strips: Vec<(usize, StripView)> = Vec::new();
    for (at, group) in document.groups.iter().enumerate() {
        for (place, figure) in group.figures.iter().enumerate() {
            let Some(histogram) = &figure.histogram else { continue };
            let of_group = document.odd.iter().filter(|of| of.group == at);
            let differences = of_group.flat_map(|of| &of.differences);
            let ratios = differences.filter(|of| of.figure == place).map(|of| of.ratio);
            strips.push((figure.odd, strip(group, figure, histogram, &ratios.collect::<Vec<_>>())));
        }
    }
    strips.sort_by_key(|(odd, _)| std::cmp::Reverse(*odd));
    strips.into_iter().take(DESCRIBED_MAX[1]).map(|(_, strip)| strip).collect()
}

/// Bars of logarithmic height: one host is seen beside ten thousand.
fn strip(
    group: &FleetGroup,
    figure: &FleetFigure,
    histogram: &RatioHistogram,
    odd: &[f64],
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
            "{}: {} hosts by their difference from the median; the height of a bar is logarithmic. \
             Triangles are named hosts.",
            group.name, figure.hosts
        ),
        bars: counts.iter().enumerate().filter(|(_, count)| **count > 0).map(bar).collect(),
        marks: odd.iter().map(|ratio| place(*ratio)).collect(),
        labels,
    }
}

/// What the list of hosts shows, as `fleet.js` reads it.
fn data(document: &FleetDocument) -> String {
    let mut starts = vec![0];
    let mut figures: Vec<String> = Vec::new();
    for group in &document.groups {
        figures.extend(group.figures.iter().map(figure_words));
        starts.push(figures.len());
    }
    let host = |of: &niclab_result::fleet::FleetHost| match &of.farthest {
        None => json!([of.host, of.firmware, of.figures]),
        Some((group, far)) => json!([
            of.host,
            of.firmware,
            of.figures,
            starts[*group] + far.figure,
            percent(far.ratio),
            interval(far),
            (far.distance * 10.0).round() / 10.0,
            u8::from(of.is_odd),
        ]),
    };
    let hosts: Vec<serde_json::Value> = document.hosts.iter().map(host).collect();
    // Nothing in it can end the element that holds it.
    json!({ "figures": figures, "hosts": hosts }).to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use niclab_result::fleet::FleetHost;

    use super::*;

    #[test]
    fn names_cannot_become_markup_or_end_the_data() {
        let host = FleetHost { host: "</script><b onload=x>".into(), ..FleetHost::default() };
        let group = FleetGroup { name: "<i>".into(), hosts: 1, ..FleetGroup::default() };
        let document =
            FleetDocument { hosts: vec![host], groups: vec![group], ..FleetDocument::default() };
        let page = fleet_html(&document).unwrap();
        assert!(!page.contains("<b onload") && !page.contains("<i>"));
        assert!(page.contains("\\u003c/script>\\u003cb onload=x>"));
        assert_eq!(page.matches("</script>").count(), 2);
    }
}
