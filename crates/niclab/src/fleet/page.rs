//! The outliers of a fleet in the terminal: a paragraph a card.

use std::io::{self, Write};

use niclab_result::fleet::{FleetDifference, FleetDocument, FleetGroup, Outlier};

use crate::output::one_line;
use crate::tables::wrapped;

/// Outliers of a group and figures of an outlier that are listed.
const LISTED_MAX: [usize; 2] = [100, 5];

/// Prints groups, outliers and the rate of false alarms.
pub fn print(document: &FleetDocument, width: usize, out: &mut impl Write) -> io::Result<()> {
    let mut line = |indent: &str, text: &str| {
        let lines = wrapped(text, width.saturating_sub(indent.len()));
        writeln!(out, "{indent}{}", lines.replace('\n', &format!("\n{indent}")))
    };
    let mut outliers: Vec<Vec<&Outlier>> = vec![Vec::new(); document.groups.len()];
    document.outliers.iter().for_each(|of| outliers[of.group].push(of));
    for (group, outliers) in document.groups.iter().zip(outliers) {
        line("", &about_group(group))?;
        for of in outliers.iter().take(LISTED_MAX[0]) {
            let card = &document.cards[of.card];
            let [host, device] = [&card.host, &card.device].map(|of| one_line(of));
            line("  ", &format!("{host} ({device}){}", firmware(of)))?;
            for difference in of.differences.iter().take(LISTED_MAX[1]) {
                line("    ", &words(group, difference))?;
            }
            if let Some(more @ 1..) = of.differences.len().checked_sub(LISTED_MAX[1]) {
                line("    ", &format!("and {}", counted(more, "more figure")))?;
            }
        }
        if let Some(more @ 1..) = outliers.len().checked_sub(LISTED_MAX[0]) {
            let more = counted(more, "more outlier");
            line("  ", &format!("and {more}: -o DIR writes a page with all of them"))?;
        }
    }
    for note in notes(document) {
        line("", &note)?;
    }
    line("", &verdict(document))
}

/// Says how many cards were not compared, and which rows and sources were left out.
fn notes(document: &FleetDocument) -> Vec<String> {
    let mut notes = Vec::new();
    let uncompared = document.uncompared();
    if uncompared > 0 && document.comparisons > 0 {
        notes.push(format!(
            "not compared: {}: their group has too few cards, or they have too few repeats without \
             a mark",
            document.counted(uncompared)
        ));
    }
    if document.marked_values > 0 {
        let values = counted(document.marked_values as usize, "value");
        notes.push(format!("left out: {values} with a mark that puts them in doubt"));
    }
    if document.repeated_rows > 0 {
        let rows = counted(document.repeated_rows as usize, "row");
        notes
            .push(format!("left out: {rows} that repeat earlier ones: copies of a run count once"));
    }
    if !document.left_out.is_empty() {
        notes.push(format!("left out: {}, see above", counted(document.left_out.len(), "source")));
    }
    notes
}

/// The result, and the rate of false alarms with its condition.
fn verdict(document: &FleetDocument) -> String {
    let (outliers, all) = (document.outliers.len(), document.counted(document.cards.len()));
    if document.comparisons == 0 {
        return format!("nothing was compared: {all}");
    }
    format!(
        "{outliers} of {all} {}, in {}. {}",
        if outliers == 1 { "is an outlier" } else { "are outliers" },
        counted(document.comparisons as usize, "comparison"),
        document.rate_words()
    )
}

/// `1 value`, `30 values`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn about_group(group: &FleetGroup) -> String {
    let FleetGroup { name, cards, unjudged, figures } = group;
    let name = one_line(name);
    match unjudged {
        Some(why) => format!("{name}: {why}"),
        None => {
            format!("{name}: {}, {}", counted(*cards, "card"), counted(figures.len(), "figure"))
        }
    }
}

fn firmware(of: &Outlier) -> String {
    let firmware = one_line(&of.firmware);
    if firmware.is_empty() { String::new() } else { format!(", firmware {firmware}") }
}

fn words(group: &FleetGroup, of: &FleetDifference) -> String {
    let figure = &group.figures[of.figure];
    let names = [&figure.experiment, &figure.trial, &figure.point].map(|of| one_line(of));
    let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    let [change, low, high] = [of.ratio, of.interval.0, of.interval.1].map(percent);
    let [score, near, far] =
        [of.z_score, of.z_score_interval.0, of.z_score_interval.1].map(|of| format!("{of:.1}"));
    format!(
        "{} {change} ({low} to {high}), z-score {score} ({near} to {far}): {}",
        one_line(&figure.metric),
        names.join(" ").trim_end()
    )
}
