//! The odd hosts of a fleet in the terminal: a paragraph a host.

use std::io::{self, Write};

use niclab_result::fleet::{FleetDifference, FleetDocument, FleetGroup, OddHost};

use crate::output::one_line;
use crate::tables::wrapped;

/// Hosts and figures of a host that are listed.
const LISTED_MAX: [usize; 2] = [100, 5];

/// Prints groups, odd hosts and the rate of false alarms.
pub fn print(document: &FleetDocument, width: usize, out: &mut impl Write) -> io::Result<()> {
    let mut line = |indent: &str, text: &str| {
        let lines = wrapped(text, width.saturating_sub(indent.len()));
        writeln!(out, "{indent}{}", lines.replace('\n', &format!("\n{indent}")))
    };
    for (at, group) in document.groups.iter().enumerate() {
        line("", &about_group(group))?;
        let odd: Vec<&OddHost> = document.odd.iter().filter(|of| of.group == at).collect();
        for of in odd.iter().take(LISTED_MAX[0]) {
            let name = one_line(&document.hosts[of.host].host);
            line("  ", &format!("{name}{}", firmware(of)))?;
            for difference in of.differences.iter().take(LISTED_MAX[1]) {
                line("    ", &words(group, difference))?;
            }
            if let Some(more) = of.differences.len().checked_sub(LISTED_MAX[1] + 1) {
                line("    ", &format!("and {} figures more", more + 1))?;
            }
        }
        if let Some(more) = odd.len().checked_sub(LISTED_MAX[0] + 1) {
            line("  ", &format!("and {} hosts more: -o DIR writes a page with all", more + 1))?;
        }
    }
    if document.marked_values > 0 {
        let marked = document.marked_values;
        line("", &format!("{marked} values were left out: a mark puts them in doubt"))?;
    }
    if !document.left_out.is_empty() {
        line("", &format!("{} results were left out, see above", document.left_out.len()))?;
    }
    line("", &verdict(document))
}

/// The result in a sentence, with the rate of false alarms.
fn verdict(document: &FleetDocument) -> String {
    let (odd, all) = (distinct(document), document.hosts.len());
    if document.comparisons == 0 {
        return format!("no host was compared: {all} hosts are too few, or have too few repeats");
    }
    let rate = document.false_alarm_rate * 100.0;
    format!(
        "{odd} of {all} hosts {} unlike the others, in {} comparisons; if all hosts were equal, \
         the chance to name any would be {rate} %",
        if odd == 1 { "is" } else { "are" },
        document.comparisons
    )
}

/// A host may be odd in two groups.
fn distinct(document: &FleetDocument) -> usize {
    document.hosts.iter().filter(|host| host.is_odd).count()
}

fn about_group(group: &FleetGroup) -> String {
    let FleetGroup { name, hosts, unjudged, figures } = group;
    let name = one_line(name);
    match unjudged {
        Some(why) => format!("{name}: {why}"),
        None => format!("{name}: {hosts} hosts, {} figures", figures.len()),
    }
}

fn firmware(of: &OddHost) -> String {
    let firmware = one_line(&of.firmware);
    if firmware.is_empty() { String::new() } else { format!(", firmware {firmware}") }
}

fn words(group: &FleetGroup, of: &FleetDifference) -> String {
    let figure = &group.figures[of.figure];
    let names = [&figure.experiment, &figure.trial, &figure.point].map(|of| one_line(of));
    let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    let [change, low, high] = [of.ratio, of.interval.0, of.interval.1].map(percent);
    let [distance, near, far] =
        [of.distance, of.distance_interval.0, of.distance_interval.1].map(|of| format!("{of:.1}"));
    format!(
        "{} {change} ({low} to {high}), {distance} spreads ({near} to {far}): {}",
        one_line(&figure.metric),
        names.join(" ").trim_end()
    )
}
