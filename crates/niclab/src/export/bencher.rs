//! Medians as Bencher Metric Format (bencher.dev): `{benchmark: {measure: {value, …}}}`.

use std::collections::BTreeMap;
use std::path::Path;

use niclab_lab::fleet::point_words;
use niclab_lab::medians::medians;
use niclab_result::rows::point_text;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{json, one_line, say};
use crate::rows_failure::RowsFailure;
use crate::rules::plural;
use crate::stored;

/// Longest name of a benchmark, and of a measure, characters.
const NAME_LEN_MAX: [usize; 2] = [1024, 64];

/// One metric.
#[derive(Serialize)]
struct BencherMetric {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_value: Option<f64>,
}

/// Prints the medians of a run; each has its interval if there were enough repeats. A median that a
/// mark puts in doubt is left out, because Bencher would raise an alert for it.
pub fn print(directory: &Path) -> Result<(), Failure> {
    let stored = stored::open(directory)?;
    let run = stored::run(directory, &stored.run_toml()?)?;
    let mut benchmarks: BTreeMap<String, BTreeMap<String, BencherMetric>> = BTreeMap::new();
    let all = medians(&run, &stored.samples);
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    for of in &all {
        if let Some(mark) = of.doubts().first() {
            *left_out.entry(mark.to_string()).or_default() += 1;
            continue;
        }
        let point = point_words(&point_text(of.point));
        let words = [of.device, of.experiment, of.trial, &point].map(one_line);
        let benchmark = shortened(words.join(" ").trim_end(), NAME_LEN_MAX[0]);
        let interval = of.estimate.interval();
        let metric = BencherMetric {
            value: of.estimate.median,
            lower_value: interval.map(|(low, _)| low),
            upper_value: interval.map(|(_, high)| high),
        };
        let measure = shortened(&one_line(of.metric), NAME_LEN_MAX[1]);
        benchmarks.entry(benchmark).or_default().insert(measure, metric);
    }
    let marks: Vec<String> =
        left_out.iter().map(|(mark, count)| format!("{count} {mark}")).collect();
    let marks = marks.join(", ");
    if benchmarks.is_empty() && !all.is_empty() {
        return Err(RowsFailure::AllMarked { directory: directory.to_owned(), marks }.into());
    }
    if !marks.is_empty() {
        say(&format!(
            "left out, because a mark puts them in doubt: {marks}, of {}",
            plural(all.len(), "median", "medians")
        ));
    }
    json(&benchmarks)
}

fn shortened(name: &str, len_max: usize) -> String {
    name.chars().take(len_max).collect()
}
