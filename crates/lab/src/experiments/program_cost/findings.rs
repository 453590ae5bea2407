//! The findings of the experiment `program-cost`.

use std::collections::BTreeMap;

use niclab_result::Finding;

use super::analysis::{
    Growth, LINE_RATE_PPS, beside, cells, figure_id, growth, largest, program_words, words_at,
};
use super::metrics::PACKET;
use crate::cells::{Cell, paired};
use crate::findings::number::{LONG, Number, comparison, estimated};
use crate::findings::{REPEATS_MIN, RatioVerdict, follows, told, verdict};
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::{statistics, words};

/// Device by device: which program is dearest, which reach line rate, what a header, a look-up and
/// an instruction take, and how the device stands to the others.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let devices: Vec<&str> = results.devices().collect();
    for (at, device) in devices.iter().enumerate() {
        findings.extend(dearest(results, device));
        findings.extend(line_rate(results, device));
        findings.extend(each(results, device));
        findings.extend(devices[at + 1..].iter().filter_map(|to| compared(results, device, to)));
        let all = cells(results, device);
        for curve in curves(&all, "count") {
            findings.extend(slope(results, &curve));
        }
        for curve in curves(&all, "entries") {
            findings.extend(entries(results, &curve));
        }
    }
    findings
}

/// Cells that differ by this axis alone, two or more of them, by its order.
fn curves<'a>(all: &[&'a Cell<'a>], axis: &str) -> Vec<Vec<&'a Cell<'a>>> {
    let mut curves: BTreeMap<(usize, u64), Vec<&Cell<'_>>> = BTreeMap::new();
    for cell in all.iter().copied().filter(|cell| growth(cell) != Growth::Nothing) {
        let other = if axis == "count" { "entries" } else { "count" };
        // In the order in which programs are named, and by number.
        let first = all.iter().position(|of| of.word("program") == cell.word("program"));
        let number = cell.number(other).unwrap_or(0.0) as u64;
        curves.entry((first.unwrap_or(0), number)).or_default().push(cell);
    }
    let at = |cell: &Cell<'_>| cell.number(axis).unwrap_or(0.0);
    let mut found: Vec<Vec<&Cell<'_>>> = curves.into_values().collect();
    found.iter_mut().for_each(|curve| curve.sort_by(|a, b| at(a).total_cmp(&at(b))));
    found.retain(|curve| curve.len() > 1);
    found
}

fn packet(cell: &Cell<'_>) -> Option<Estimate> {
    cell.estimate(PACKET).filter(|estimate| estimate.repeats >= REPEATS_MIN)
}

/// What a packet costs at worst, by the text of the program.
fn worst(cell: &Cell<'_>) -> String {
    let of = |metric| words::whole(cell.estimate(metric).map_or(0.0, |of| of.median));
    format!(
        "at worst {} instructions, {} look-ups of {} key bits and {} B of headers",
        of("worst_instructions"),
        of("worst_lookups"),
        of("worst_key_bits"),
        of("worst_header_bytes")
    )
}

/// The program that takes most of a core, beside the one that takes least; nothing where the
/// repeats allow that another one takes as much.
fn dearest(results: &Results<'_>, device: &str) -> Option<Finding> {
    let mut all: Vec<(&Cell<'_>, Estimate)> = largest(results, device)
        .into_iter()
        .filter_map(|cell| Some((cell, packet(cell)?)))
        .collect();
    all.sort_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
    let ((least, least_ns), (most, most_ns)) = (all.first()?, all.last()?);
    let (second, _) = all.iter().rev().nth(1)?;
    paired(most, second, PACKET).filter(|ratio| ratio.is_above(1.0) == Some(true))?;
    let number = Number::new(most_ns, "ns");
    let sentence = format!(
        "{} is the most expensive of {} programs on {device}: {number} of a core per packet ({}). \
         The cheapest is {}: {} ({}).",
        program_words(most),
        all.len(),
        worst(most),
        program_words(least),
        estimated(least_ns, "ns"),
        worst(least)
    );
    let implication = most_of(most, &all);
    let figure = Some(figure_id(results, "used"));
    Some(told(device, "dearest".to_owned(), number, (sentence, &implication), figure))
}

/// What the text of a program has the most of among others: why it may be dear.
fn most_of(cell: &Cell<'_>, all: &[(&Cell<'_>, Estimate)]) -> String {
    let of = |cell: &Cell<'_>, metric: &str| cell.estimate(metric).map_or(0.0, |of| of.median);
    let names = [
        ("instructions", "worst_instructions"),
        ("look-ups", "worst_lookups"),
        ("key bits", "worst_key_bits"),
        ("bytes of headers", "worst_header_bytes"),
        ("accesses of registers and meters", "worst_array_accesses"),
    ];
    let is_most = |metric: &str| {
        let mut others = all.iter().filter(|(other, _)| other.point != cell.point);
        others.all(|(other, _)| of(other, metric) < of(cell, metric))
    };
    let most = names.iter().filter(|(_, metric)| is_most(metric)).map(|(name, _)| *name);
    let most: Vec<&str> = most.collect();
    match most.is_empty() {
        true => "It has the most of none of the counted items: the counts do not explain its cost."
            .into(),
        false => format!("It has the most {} of all programs.", most.join(", ")),
    }
}

/// Which programs one core runs as fast as a port of 10 Gbps brings packets.
fn line_rate(results: &Results<'_>, device: &str) -> Option<Finding> {
    let all: Vec<(&Cell<'_>, Estimate)> = largest(results, device)
        .into_iter()
        .filter_map(|cell| Some((cell, packet(cell)?)))
        .collect();
    let line_ns = 1e9 / LINE_RATE_PPS;
    let most = all.iter().map(|(_, ns)| *ns).max_by(|a, b| a.median.total_cmp(&b.median))?;
    // A program whose interval holds line rate may reach it or not.
    let is_decided = |(_, ns): &&(&Cell<'_>, Estimate)| ns.is_above(line_ns).is_some();
    let all: Vec<(&Cell<'_>, Estimate)> = all.iter().filter(is_decided).copied().collect();
    let reach = all.iter().filter(|(_, ns)| ns.is_above(line_ns) == Some(false));
    let names: Vec<String> = reach.map(|(cell, _)| cell.word("program")).collect();
    if all.is_empty() {
        return None;
    }
    let cores = most.scaled(1.0 / line_ns);
    let (reaching, needing) = reaching(&all, &names);
    let number = Number::new(&cores, "cores");
    let sentence = format!(
        "{reaching} the line rate of 10 Gbps on one core of {device} ({} of 64 B, {} each). \
         {needing} {number}, if they scale.",
        words::pps(LINE_RATE_PPS),
        words::time(line_ns)
    );
    let implication = "Use RSS over several cores where a port is faster than one core, and keep \
                       the program short.";
    let figure = Some(figure_id(results, "used"));
    Some(told(device, "line-rate".to_owned(), number, (sentence, implication), figure))
}

/// The finding that lists the cost of each program, the cheapest first.
fn each(results: &Results<'_>, device: &str) -> Option<Finding> {
    let mut all: Vec<(&Cell<'_>, Estimate)> = largest(results, device)
        .into_iter()
        .filter_map(|cell| Some((cell, packet(cell)?)))
        .collect();
    all.sort_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
    let (_, most) = all.last().filter(|_| all.len() > 1)?;
    let costs =
        all.iter().map(|(cell, ns)| format!("{} {}", cell.word("program"), estimated(ns, "ns")));
    let sentence =
        format!("Core time per packet on {device}: {}.", costs.collect::<Vec<_>>().join(", "));
    // Each cost has its interval behind it.
    let number = Number::known(most.median, "ns");
    let implication = format!(
        "One core has {} per packet at 10 Gbps line rate of 64 B.",
        words::time(1e9 / LINE_RATE_PPS)
    );
    let figure = Some(figure_id(results, "used"));
    Some(told(device, "each".to_owned(), number, (sentence, &implication), figure))
}

/// Which of all programs reach line rate, and whose cores are counted.
fn reaching(all: &[(&Cell<'_>, Estimate)], names: &[String]) -> (String, &'static str) {
    let (one, most) = ("It needs", "The most expensive needs");
    match (all, names) {
        ([(only, _)], []) => (format!("{} does not reach", only.word("program")), one),
        ([_], [only, ..]) => (format!("{only} reaches"), one),
        (_, []) => (format!("None of {} programs reaches", all.len()), most),
        (_, [only]) => (format!("Of {} programs only {only} reaches", all.len()), most),
        _ => (format!("Of {} programs {} reach", all.len(), names.join(", ")), most),
    }
}

/// The slope of the line through the cells of a curve, repeat by repeat, by least squares.
fn slopes(curve: &[&Cell<'_>]) -> Vec<f64> {
    let first = curve.first().map_or(&[][..], |cell| &cell.samples[..]);
    let of_repeat = |repeat: u32| {
        let points: Option<Vec<(f64, f64)>> = curve
            .iter()
            .map(|cell| {
                let sample = cell.samples.iter().find(|sample| sample.repeat == repeat)?;
                Some((cell.number("count")?, sample.metrics.get(PACKET)?.value))
            })
            .collect();
        fitted(&points?)
    };
    first.iter().filter_map(|sample| of_repeat(sample.repeat)).collect()
}

fn fitted(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let square: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let product: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    (square > 0.0).then(|| product / square)
}

/// What one more of what grows takes.
fn slope(results: &Results<'_>, curve: &[&Cell<'_>]) -> Option<Finding> {
    let (first, last) = (curve.first()?, curve.last()?);
    let slope = statistics::estimate(&slopes(curve)).filter(|of| of.is_above(0.0) == Some(true))?;
    let (program, device, entries) =
        (first.word("program"), first.device, words_at(first, "entries"));
    let of = match growth(first) {
        Growth::Nothing => return None,
        Growth::Headers => "header (parsed, matched and emitted)".to_owned(),
        Growth::Tables => format!("look-up ({program} among {entries})"),
        Growth::Instructions => format!("`{program}` instruction"),
    };
    let number = Number::new(&slope, "ns");
    let sentence = format!(
        "Each further {of} takes {device} {number} per packet, from {} to {}{}.",
        words::whole(first.number("count")?),
        words::whole(last.number("count")?),
        words::few(&slope)
    );
    let (id, figure) = match growth(first) {
        Growth::Headers => ("header".to_owned(), "headers"),
        Growth::Tables => (format!("lookup-{program}-{}", first.word("entries")), "tables"),
        _ => (format!("instruction-{program}"), "instructions"),
    };
    let fit = 1e9 / LINE_RATE_PPS / slope.median;
    let implication = match fit < 1.0 {
        true => {
            "One alone takes longer than one core has per packet at 10 Gbps line rate.".to_owned()
        }
        false => format!(
            "At 10 Gbps line rate one core has time for {} of them per packet, and for nothing \
             else.",
            words::significant(fit)
        ),
    };
    let figure = Some(figure_id(results, figure));
    let implication = follows(&slope, &implication);
    Some(told(device, id, number, (sentence, &implication), figure))
}

/// What more entries of a table cost; nothing where the interval allows both a cost and none.
fn entries(results: &Results<'_>, curve: &[&Cell<'_>]) -> Option<Finding> {
    let (few, many) = (curve.first()?, curve.last()?);
    let ratio = paired(many, few, PACKET)?;
    // One look-up tells more of it than several beside each other.
    if few.number("count") != Some(1.0) {
        return None;
    }
    let (program, device) = (few.word("program"), few.device);
    let (number, is_longer) = comparison(&ratio, LONG);
    let implication = match (verdict(&ratio)?, ratio.median > 1.0) {
        (RatioVerdict::NoCost, _) => "The table size costs a packet almost nothing.",
        (RatioVerdict::Differs, true) => {
            "The table has outgrown a cache or has more masks: look-ups wait for memory."
        }
        (RatioVerdict::Differs, false) => "A larger table costs a packet no more here.",
    };
    let sentence = format!(
        "A packet with one {program} look-up among {} takes {device} {is_longer} one among {}{}.",
        words_at(many, "entries"),
        words_at(few, "entries"),
        words::few(&ratio)
    );
    let implication = follows(&ratio, implication);
    let figure = Some(figure_id(results, "entries"));
    let words = (sentence, implication.as_str());
    Some(told(device, format!("entries-{program}"), number, words, figure))
}

/// How a device stands to another in the programs that both take.
fn compared(results: &Results<'_>, device: &str, other: &str) -> Option<Finding> {
    let pairs: Vec<(&Cell<'_>, &Cell<'_>)> = cells(results, device)
        .into_iter()
        .filter_map(|cell| Some((cell, beside(results, cell, other)?)))
        .collect();
    let ratios: Vec<Estimate> =
        pairs.iter().filter_map(|(ours, theirs)| paired(ours, theirs, PACKET)).collect();
    let mean = statistics::estimate(&means(&pairs))?;
    let found = verdict(&mean)?;
    let less = ratios.iter().filter(|ratio| ratio.high < 1.0).count();
    let more = ratios.iter().filter(|ratio| ratio.low > 1.0).count();
    let (number, is_longer) = comparison(&mean, LONG);
    let sentence = format!(
        "{device} needs less time per packet than {other} in {less} of {} programs that both run, \
         and more in {more}. Over all programs a packet takes {is_longer} on {other} (geometric \
         mean){}.",
        ratios.len(),
        words::few(&mean)
    );
    let implication = match (found, mean.median < 1.0) {
        (RatioVerdict::NoCost, _) => "Overall neither needs fewer cores.",
        (RatioVerdict::Differs, true) => "The same program needs fewer cores here.",
        (RatioVerdict::Differs, false) => "The same program needs more cores here.",
    };
    let implication = follows(&mean, implication);
    let figure = Some(figure_id(results, "used"));
    let words = (sentence, implication.as_str());
    Some(told(device, format!("beside-{other}"), number, words, figure))
}

/// The geometric mean of all ratios of a repeat, for each repeat that all pairs have.
fn means(pairs: &[(&Cell<'_>, &Cell<'_>)]) -> Vec<f64> {
    let of = |cell: &Cell<'_>, repeat: u32| {
        let sample = cell.samples.iter().find(|sample| sample.repeat == repeat)?;
        Some(sample.metrics.get(PACKET)?.value)
    };
    let first = pairs.first().map_or(&[][..], |(ours, _)| &ours.samples[..]);
    let mean = |repeat: u32| {
        let logs: Option<Vec<f64>> = pairs
            .iter()
            .map(|(ours, theirs)| Some((of(ours, repeat)? / of(theirs, repeat)?).ln()))
            .collect();
        let logs = logs?;
        Some((logs.iter().sum::<f64>() / logs.len() as f64).exp())
    };
    first.iter().filter_map(|sample| mean(sample.repeat)).collect()
}
