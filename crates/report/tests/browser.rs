//! The page in a real browser: every figure is drawn, nothing fails, nothing is fetched.
//!
//! Needs `chromium`; where it is missing the tests say SKIP. Pages that were broken on purpose
//! show that the check can fail.

#[allow(dead_code)]
mod sample;

use std::process::{Command, Stdio};

use niclab_report::{ReportOptions, html};
use serde_json::Value;

const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=20000",
];

fn chromium(test: &str) -> bool {
    let found = Command::new("chromium").arg("--version").stdout(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        println!("SKIP {test}: chromium not found");
    }
    found
}

fn page() -> String {
    let (summary, environment) = (sample::summary(), sample::environment());
    html(&summary, &environment, sample::RUN_TOML, &ReportOptions::default()).unwrap()
}

/// Loads a page and gives what it wrote down about itself.
fn load(page: &str, query: &str, width: u32) -> Result<Value, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    std::fs::write(&path, page).unwrap();
    let output = Command::new("chromium")
        .args(FLAGS)
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("--window-size={width},900"))
        .arg("--dump-dom")
        .arg(format!("file://{}?{query}", path.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    let (_, rest) = dom.split_once("data-report=\"").ok_or("the page wrote nothing down")?;
    let (text, _) = rest.split_once('"').ok_or("the attribute does not end")?;
    let text = text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
    serde_json::from_str(&text.replace("&amp;", "&")).map_err(|error| error.to_string())
}

/// What is wrong with a page that must draw `plots` figures.
fn faults(page: &str, query: &str, plots: usize) -> Vec<String> {
    faults_at(WIDTH, page, query, plots)
}

/// The same in a window of so many pixels across.
fn faults_at(width: u32, page: &str, query: &str, plots: usize) -> Vec<String> {
    let report = match load(page, query, width) {
        Ok(report) => report,
        Err(error) => return vec![error],
    };
    let mut faults = Vec::new();
    for kind in ["errors", "requests"] {
        faults.extend(report[kind].as_array().unwrap().iter().map(|of| format!("{kind}: {of}")));
    }
    if report["wider"] != 0 {
        faults.push(format!("the page is wider than its window: by {}", report["wider"]));
    }
    let marks = report["marks"].as_object().unwrap();
    if marks.len() != plots {
        faults.push(format!("{} of {plots} figures were drawn", marks.len()));
    }
    let bare = marks.iter().filter(|(_, count)| count.as_u64() == Some(0));
    faults.extend(bare.map(|(plot, _)| format!("figure {plot} has no marks")));
    faults
}

/// Pixels across of a window on a desk, and of the narrowest one that a headless browser has.
const WIDTH: u32 = 1300;
const WIDTH_NARROW: u32 = 500;

const PLOTS: usize = 8;
const NONE: [&str; 0] = [];

#[test]
fn every_figure_is_drawn_in_both_themes() {
    if !chromium("every_figure_is_drawn_in_both_themes") {
        return;
    }
    assert_eq!(faults(&page(), "render=all&theme=light", PLOTS), NONE);
    assert_eq!(faults(&page(), "render=all&theme=dark", PLOTS), NONE);
}

/// Figures of the sample that are not folded.
const PLOTS_OPEN: usize = 3;

#[test]
fn figures_are_drawn_when_idle_and_folded_ones_when_a_link_unfolds_them() {
    if !chromium("figures_are_drawn_when_idle_and_folded_ones_when_a_link_unfolds_them") {
        return;
    }
    assert_eq!(faults(&page(), "", PLOTS_OPEN), NONE);
    // It stands in the first section, which has two folded ones.
    let folded = "#fig-occupancy-cliff-group0";
    assert!(page().contains(&format!("id=\"{}\"", &folded[1..])));
    assert_eq!(faults(&page(), folded, PLOTS_OPEN + 2), NONE);
}

#[test]
fn a_filter_leaves_what_is_of_one_device_or_has_one_mark() {
    if !chromium("a_filter_leaves_what_is_of_one_device_or_has_one_mark") {
        return;
    }
    let drawn = |query: &str| {
        let report = load(&page(), query, WIDTH).unwrap();
        assert_eq!(report["errors"], Value::Array(Vec::new()));
        let marks = report["marks"].as_object().unwrap().clone();
        marks.values().map(|count| count.as_u64().unwrap()).collect::<Vec<_>>()
    };
    let all = drawn("render=all");
    let of_one = drawn("render=all&device=soft");
    assert!(of_one.iter().all(|count| *count > 0), "{of_one:?}");
    assert!(of_one.iter().sum::<u64>() < all.iter().sum(), "{of_one:?} of {all:?}");
    // Marked figures are drawn whole. The first of them is on top, too.
    let marked = drawn("render=all&mark=generator-limited");
    assert_eq!(marked.len(), 1, "{marked:?} of {all:?}");
    assert_eq!(drawn("render=all&device=nowhere&mark=none"), all);
}

/// Breaks the page by replacing the first `from`, and expects a fault that contains `fault`.
fn check_broken(test: &str, from: &str, to: &str, fault: &str) {
    if !chromium(test) {
        return;
    }
    let page = page();
    assert!(page.contains(from));
    let found = faults(&page.replacen(from, to, 1), "render=all", PLOTS);
    assert!(found.iter().any(|text| text.contains(fault)), "{fault} not among {found:?}");
}

/// The sample with a table that has more columns than any window has room for.
fn page_with_wide_table() -> String {
    let mut summary = sample::summary();
    let table = &mut summary.experiments[0].tables[0];
    let rows = std::iter::once(&mut table.columns).chain(&mut table.rows);
    for (at, row) in rows.enumerate() {
        row.extend((0..40).map(|column| format!("column-{column}-{at}")));
    }
    html(&summary, &sample::environment(), sample::RUN_TOML, &ReportOptions::default()).unwrap()
}

#[test]
fn a_wide_table_scrolls_in_its_own_box() {
    if !chromium("a_wide_table_scrolls_in_its_own_box") {
        return;
    }
    let page = page_with_wide_table();
    assert_eq!(faults_at(WIDTH_NARROW, &page, "render=all", PLOTS), NONE);
    assert_eq!(faults(&page, "render=all", PLOTS), NONE);
    let from = ".scroll { overflow: auto;";
    assert!(page.contains(from));
    let broken = page.replacen(from, ".scroll { overflow: visible;", 1);
    let found = faults(&broken, "render=all", PLOTS);
    assert!(found.iter().any(|text| text.contains("wider than its window")), "{found:?}");
}

#[test]
fn an_image_from_elsewhere_is_noticed() {
    let to = "<main><img src=\"http://192.0.2.1/pixel.png\" alt=\"\">";
    check_broken("an_image_from_elsewhere_is_noticed", "<main>", to, "192.0.2.1");
}

#[test]
fn a_script_error_is_noticed() {
    let to = "<main><script>nowhere();</script>";
    check_broken("a_script_error_is_noticed", "<main>", to, "nowhere is not defined");
}

#[test]
fn a_broken_spec_is_noticed() {
    let (from, to) = ("\"type\":\"rule\"", "\"type\":\"ruler\"");
    check_broken("a_broken_spec_is_noticed", from, to, "figure 0 has no marks");
}

#[test]
fn a_figure_without_rows_is_noticed() {
    let (from, to) = ("\"name\":\"points\",\"values\":[", "\"name\":\"points\",\"none\":[");
    check_broken("a_figure_without_rows_is_noticed", from, to, "figure 0 has no marks");
}
