//! The legend of a figure, and what its error bars mean.
//!
//! The legend has an entry for each series. What all entries share stands once before them.

use niclab_result::{Figure, Origin, Scale, Series};

use crate::form::{self, Form};
use crate::{spec, theme};

/// Entries with a common heading.
pub(crate) struct LegendGroup {
    /// The heading; empty if there is none.
    pub heading: String,
    /// The entries.
    pub entries: Vec<LegendEntry>,
}

/// One series in the legend.
pub(crate) struct LegendEntry {
    pub name: String,
    /// Its device; empty for a publication, which belongs to none.
    pub device: String,
    pub light: &'static str,
    pub dark: &'static str,
    pub symbol: &'static str,
    /// `measured`, `computed`, `published` or `baseline`.
    pub origin: &'static str,
    /// Its form as the rows of the spec spell it; `bare` for a line without symbols.
    pub shape: &'static str,
    pub empty: bool,
}

/// The legend of a figure as it is drawn, those of publications last.
pub(crate) fn legend(figure: &Figure) -> Vec<LegendGroup> {
    let figure = &*form::arranged(figure);
    let styles = theme::styles(&spec::looks(figure));
    let names = spec::series_names(figure);
    let entries = || figure.series.iter().zip(&styles).zip(&names);
    let is_published = |series: &Series| series.origin == Origin::Published;
    let has_published = figure.series.iter().any(is_published);
    let has_baseline = figure.series.iter().any(|series| series.origin == Origin::Baseline);
    let group = |of_publications: bool| {
        let of = entries().filter(|((series, _), _)| is_published(series) == of_publications);
        let of: Vec<_> = of.collect();
        let names: Vec<String> = of.iter().map(|(_, name)| (*name).clone()).collect();
        let word = match (of_publications, has_published) {
            (true, _) => "Published",
            (false, true) if has_baseline => "Measured",
            (false, true) => "This run",
            (false, false) => "All",
        };
        let (heading, names) = shortened(&names, word);
        let of = of.iter().zip(names);
        let of = of.map(|(((series, style), _), name)| entry(figure, series, style, name));
        LegendGroup { heading, entries: of.collect() }
    };
    let groups = [group(false), group(true)];
    groups.into_iter().filter(|group| !group.entries.is_empty()).collect()
}

fn entry(figure: &Figure, series: &Series, style: &theme::Style, name: String) -> LegendEntry {
    let form = Form::of(figure, series);
    let only = series.points.first().filter(|_| form == Form::Reference);
    let origin = match series.origin {
        Origin::Measured => "measured",
        Origin::Computed => "computed",
        Origin::Published => "published",
        Origin::Baseline => "baseline",
    };
    LegendEntry {
        name: match only {
            Some(point) => format!("{name} (only at {})", form::at(figure, point.x)),
            None => name,
        },
        device: match series.origin {
            Origin::Published => String::new(),
            _ => series.device.clone(),
        },
        light: style.light,
        dark: style.dark,
        symbol: style.symbol,
        origin,
        shape: match form {
            Form::Curve | Form::Cdf if spec::crowded(figure, series) => "bare",
            form => form.name(),
        },
        empty: series.points.is_empty(),
    }
}

/// What publications are marked by in their names.
const PUBLISHED: &str = " (published)";

/// Names without the parts that all of them have, and these behind `word`; of publications also
/// without the word for them.
fn shortened(names: &[String], word: &str) -> (String, Vec<String>) {
    let plain = |name: &String| name.replace(PUBLISHED, "");
    let is_marked = names.iter().any(|name| name.contains(PUBLISHED));
    let mut parts: Vec<Vec<String>> =
        names.iter().map(|name| plain(name).split(", ").map(str::to_owned).collect()).collect();
    let mut shared = Vec::new();
    for part in parts.first().cloned().unwrap_or_default() {
        // An entry keeps a part of its own.
        if parts.iter().all(|own| own.contains(&part) && own.len() > 1) {
            parts.iter_mut().for_each(|own| own.retain(|one| *one != part));
            shared.push(part);
        }
    }
    let short: Vec<String> = parts.iter().map(|own| own.join(", ")).collect();
    let is_unique = short.iter().enumerate().all(|(at, name)| !short[..at].contains(name));
    let is_shorter = !shared.is_empty() || is_marked;
    if names.len() < 2 || !is_shorter || !is_unique || short.contains(&String::new()) {
        return (String::new(), names.to_vec());
    }
    let heading = match shared.is_empty() {
        true => format!("{word}:"),
        false => format!("{word}: {}", shared.join(", ")),
    };
    (heading, short)
}

/// What the error bars, boxes and lines across a figure mean.
pub(crate) fn error_bars(figure: &Figure) -> String {
    let figure = &*form::arranged(figure);
    let of_runs = match spec::has(figure, Form::Boxes) {
        true => "Boxes span p25 to p75 with a stroke at the median, whiskers p1 to p99.",
        false => of_this_run(figure),
    };
    let is_barred = |series: &Series| {
        series.origin == Origin::Published && series.points.iter().any(|point| point.low.is_some())
    };
    let mut sentences = vec![of_runs];
    let is_aside = || form::offsets(figure).into_iter().flatten().any(|offset| offset != 0.0);
    if figure.x.scale != Scale::Ordinal && spec::has(figure, Form::Boxes) && is_aside() {
        sentences.push("Boxes of one place stand side by side around it.");
    }
    if !spec::has(figure, Form::Boxes) && figure.series.iter().any(is_barred) {
        sentences.push("Error bars of published series span p1 to p99.");
    }
    if spec::has(figure, Form::Reference) {
        sentences.push("A series of one point is a line across the plot, its interval a band.");
    }
    sentences.join(" ").trim().to_owned()
}

fn of_this_run(figure: &Figure) -> &'static str {
    let barred_as = |is_few: bool| {
        let ours = figure.series.iter().filter(|series| series.origin != Origin::Published);
        let mut barred = ours.flat_map(|of| &of.points).filter(|point| point.low.is_some());
        barred.any(|point| spec::is_range(point) == is_few)
    };
    match (barred_as(false), barred_as(true)) {
        (true, true) => {
            "Error bars are 95 % intervals of the median; of points with too few repeats for one, \
             the smallest and the largest value."
        }
        (true, false) => "Error bars are 95 % intervals of the median.",
        (false, true) => {
            "Error bars are the smallest and the largest value: there are too few repeats for a \
             95 % interval of the median."
        }
        (false, false) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], heading: &str, short: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let (found, entries) = shortened(&names, "All");
        assert_eq!(
            (found.as_str(), entries),
            (heading, short.iter().map(ToString::to_string).collect())
        );
    }

    #[test]
    fn what_all_names_share_stands_before_them() {
        check(
            &["soft, 64,000 rules, same core", "model, 64,000 rules, other core"],
            "All: 64,000 rules",
            &["soft, same core", "model, other core"],
        );
        check(
            &["veth, TCP, blocking", "veth, UDP, blocking", "veth, UDP, busy-poll"],
            "All: veth",
            &["TCP, blocking", "UDP, blocking", "UDP, busy-poll"],
        );
        check(&["CX (published), one", "CX (published), two"], "All: CX", &["one", "two"]);
        check(&["A, host (published)", "B, SNIC (published)"], "All:", &["A, host", "B, SNIC"]);
    }

    #[test]
    fn a_name_keeps_a_part_and_no_two_become_one() {
        check(&["soft", "soft, by its hash"], "", &["soft", "soft, by its hash"]);
        check(&["soft", "ring"], "", &["soft", "ring"]);
        check(&["soft, 1 rule"], "", &["soft, 1 rule"]);
        check(&["a, b, a", "a, b"], "", &["a, b, a", "a, b"]);
    }
}
