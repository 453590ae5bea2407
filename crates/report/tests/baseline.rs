//! An earlier run on the page of a run.

#[allow(dead_code)]
mod sample;

use niclab_report::{ReportOptions, html};
use niclab_result::{BaselineSummary, Mark, Origin, Summary};

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
        "<h2 id=\"baseline\">Since the last run</h2>",
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
    assert!(!self::page(&sample::summary()).contains("Since the last run"));
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
