//! The page in a real browser: every figure is drawn, nothing fails, nothing is fetched.
//!
//! Needs `chromium`; where it is missing the tests say SKIP. Pages that were broken on purpose
//! show that the check can fail.

#[allow(dead_code)]
mod sample;

use std::process::{Command, Stdio};

use niclab_report::{Options, html};
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
    html(&summary, &environment, sample::RUN_TOML, &Options::default()).unwrap()
}

/// Loads a page and gives what it wrote down about itself.
fn load(page: &str, query: &str) -> Result<Value, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    std::fs::write(&path, page).unwrap();
    let output = Command::new("chromium")
        .args(FLAGS)
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
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
    let report = match load(page, query) {
        Ok(report) => report,
        Err(error) => return vec![error],
    };
    let mut faults = Vec::new();
    for kind in ["errors", "requests"] {
        faults.extend(report[kind].as_array().unwrap().iter().map(|of| format!("{kind}: {of}")));
    }
    let marks = report["marks"].as_object().unwrap();
    if marks.len() != plots {
        faults.push(format!("{} of {plots} figures were drawn", marks.len()));
    }
    let bare = marks.iter().filter(|(_, count)| count.as_u64() == Some(0));
    faults.extend(bare.map(|(plot, _)| format!("figure {plot} has no marks")));
    faults
}

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

#[test]
fn figures_out_of_sight_are_drawn_when_idle() {
    if !chromium("figures_out_of_sight_are_drawn_when_idle") {
        return;
    }
    assert_eq!(faults(&page(), "", PLOTS), NONE);
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
