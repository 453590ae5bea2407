//! An earlier run on the page of a run.

#[allow(dead_code)]
mod sample;

use niclab_report::{ReportOptions, html, vega_lite};
use niclab_result::{BaselineSummary, Figure, Mark, Origin, Series, Summary};

fn page(summary: &Summary) -> String {
    html(summary, &sample::environment(), sample::RUN_TOML, &ReportOptions::default()).unwrap()
}

/// The sample with an earlier run beside its first figure.
fn beside_an_earlier_run() -> Summary {
    let mut summary = sample::summary();
    let figure = &mut summary.experiments[0].figures[0];
    let mut before = figure.series[0].clone();
    before.name = "soft before (2026-11-20 10:11)".into();
    before.origin = Origin::Baseline;
    before.points.iter_mut().for_each(|point| point.marks = vec![Mark::Bimodal]);
    figure.series.insert(1, before);
    summary.baseline = Some(BaselineSummary {
        directory: "results/<before>".into(),
        program: "niclab 0.1.0".into(),
        started: "2026-11-20T10:11:12Z".into(),
        sentences: vec!["1 of 2 points is worse.".into(), "<b>no markup</b>".into()],
        caution: "kernel: one against two.".into(),
        ..BaselineSummary::default()
    });
    summary
}

#[test]
fn what_changed_is_above_the_findings_and_is_text() {
    let page = page(&beside_an_earlier_run());
    let expected = [
        "How far to trust it: ",
        "<h2 id=\"baseline\">Changes since the earlier run</h2>",
        "Compared with results/&#60;before&#62;: niclab 0.1.0, started 2026-11-20T10:11:12Z.",
        "<li>1 of 2 points is worse.</li>",
        "<li>&#60;b&#62;no markup&#60;/b&#62;</li>",
        "<strong>Compare with care.</strong> kernel: one against two.",
        "<h2 id=\"findings\">",
    ];
    let mut rest = page.as_str();
    for text in expected {
        let place = rest.find(text).unwrap_or_else(|| panic!("{text} is missing or too early"));
        rest = &rest[place + text.len()..];
    }
    let mut alike = beside_an_earlier_run();
    alike.baseline.as_mut().unwrap().caution.clear();
    assert!(!self::page(&alike).contains("Compare with care."));
    assert!(!self::page(&sample::summary()).contains("Changes since the earlier run"));
}

#[test]
fn an_earlier_curve_is_muted_in_the_legend_and_its_marks_are_not_those_of_the_run() {
    let (with, without) = (page(&beside_an_earlier_run()), page(&sample::summary()));
    // One legend of the figure, and one of the plot on top.
    assert_eq!(with.matches("class=\"swatch muted\"").count(), 2);
    assert!(!without.contains("class=\"swatch muted\""));
    let trust = |page: &str| {
        let (_, rest) = page.split_once("How far to trust it: ").unwrap();
        rest.split_once("</summary>").unwrap().0.to_owned()
    };
    assert_eq!(trust(&with), trust(&without));
    let honesty = |page: &str| {
        let (_, rest) = page.split_once("<h2 id=\"honesty\">").unwrap();
        rest.split_once("<h2 id=\"reproduce\">").unwrap().0.to_owned()
    };
    assert_eq!(honesty(&with), honesty(&without));
}

/// A figure of single points at one place. A series has a name, a device, an origin and a colour.
fn single_points(all: &[(&str, &str, Origin, u32)]) -> Figure {
    let mut figure = sample::summary().experiments[0].figures[0].clone();
    figure.knees.clear();
    let mut point = figure.series[0].points[0].clone();
    point.marks.clear();
    let series = |&(name, device, origin, hue): &(&str, &str, Origin, u32)| Series {
        name: name.into(),
        device: device.into(),
        origin,
        hue: Some(hue),
        points: vec![point.clone()],
        ..figure.series[0].clone()
    };
    figure.series = all.iter().map(series).collect();
    figure
}

/// The category and the series of each bar, and whether all series have one colour.
fn bars(figure: &Figure) -> (Vec<(String, String)>, bool) {
    let spec = vega_lite(figure);
    let text = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap().to_owned();
    let rows = spec["data"]["values"].as_array().unwrap().iter();
    let rows = rows.inspect(|row| assert_eq!(row["shape"], "bar"));
    let bars = rows.map(|row| (text(row, "x"), text(row, "series"))).collect();
    let hues = spec["encoding"]["color"]["scale"]["range"].as_array().unwrap();
    (bars, hues.iter().all(|hue| hue == &hues[0]))
}

fn texts(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(x, series)| (x.to_string(), series.to_string())).collect()
}

#[test]
fn an_earlier_bar_is_beside_its_own_and_has_a_name_and_the_colour_of_the_device() {
    use Origin::{Baseline, Computed, Measured};
    let (found, is_one_colour) = bars(&single_points(&[
        ("soft, A", "soft", Measured, 0),
        ("soft, B", "soft", Measured, 1),
        ("soft, B before (2026-11-20 10:11)", "soft", Baseline, 1),
        ("soft, C", "soft", Measured, 2),
        ("soft, C before (2026-11-20 10:11)", "soft", Baseline, 2),
        ("soft, A", "soft", Computed, 0),
    ]));
    let before = "soft before (2026-11-20 10:11)";
    let expected = [
        ("A", "soft"),
        ("B", "soft"),
        ("C", "soft"),
        ("B", before),
        ("C", before),
        ("A", "soft, computed"),
    ];
    assert_eq!(found, texts(&expected));
    assert!(is_one_colour);
}

#[test]
fn an_earlier_bar_of_a_device_under_another_name_keeps_the_name_and_changes_no_form() {
    use Origin::{Baseline, Measured};
    let (found, is_one_colour) = bars(&single_points(&[
        ("soft, A", "soft", Measured, 0),
        ("older, A before (2026-11-20 10:11)", "soft", Baseline, 0),
    ]));
    assert_eq!(found, texts(&[("A", "soft"), ("A", "older before (2026-11-20 10:11)")]));
    assert!(is_one_colour);
    // Names without their device are categories themselves.
    let (found, _) = bars(&single_points(&[
        ("A", "soft", Measured, 0),
        ("A before (2026-11-20 10:11)", "soft", Baseline, 0),
        ("B", "soft", Measured, 1),
    ]));
    let expected = [("A", "A"), ("A", "A before (2026-11-20 10:11)"), ("B", "B")];
    assert_eq!(found, texts(&expected));
}
