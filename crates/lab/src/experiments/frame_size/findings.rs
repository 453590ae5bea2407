//! The findings of the experiment `frame-size`.

use niclab_result::{Finding, Quantity};

use super::analysis::{
    Bottleneck, FRAMES, PORTS_GBPS, SaturatedLength, Sized, filled_from, part_words, sized,
};
use crate::findings::REPEATS_MIN;
use crate::summary::Results;
use crate::summary::frames::frame_words;
use crate::wire::wire_ns;
use crate::words;

/// Device by device, and by its queues: which part binds, and from which length on frames fill a
/// port.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_calm = |of: &Sized<'_>| !of.sizes.iter().any(|size| size.cell.is_disturbed());
    for of in sized(results).into_iter().filter(is_calm) {
        findings.extend(bound(&of));
        findings.extend(match of.port_gbps {
            Some(gbps) => own_port(&of, gbps),
            None => any_port(&of),
        });
    }
    findings
}

fn finding(of: &Sized<'_>, id: &str, number: (f64, &str), said: (String, &str)) -> Finding {
    let cell = of.cell();
    let [queues, cores, flows] = ["queues", "cores", "flows"].map(|axis| cell.word(axis));
    let (value, unit) = number;
    Finding {
        id: format!("{}-{id}-{queues}-{cores}-{flows}", of.device),
        sentence: said.0,
        value: Quantity { value, unit: unit.into() },
        // The bounds of searches, and lengths between those measured, are no interval of
        // confidence: they stand in the table.
        interval: None,
        implication: said.1.into(),
        figure: Some(FRAMES.to_owned()),
        device: of.device.to_owned(),
        experiment: String::new(),
    }
}

/// What shows that a part binds with frames of these lengths.
fn evidence(part: Bottleneck, run: &[SaturatedLength]) -> &'static str {
    let [are_full, are_busy] = [SaturatedLength::is_ring_full, SaturatedLength::is_busy]
        .map(|is_so| run.iter().all(is_so));
    match part {
        Bottleneck::Port => "the wire is full",
        Bottleneck::FrameRate if run.len() == 1 => "frames are lost before they reach a queue",
        Bottleneck::FrameRate => {
            "frames are lost before they reach a queue, at the same frame rate for every length"
        }
        Bottleneck::Bytes => {
            "frames are lost before they reach a queue, and longer frames take longer"
        }
        Bottleneck::Cores => match (are_full, are_busy) {
            (true, true) => "rings are full, and the polling core is almost never idle",
            (true, false) => "rings are full",
            (false, true) => "the polling core is almost never idle",
            (false, false) => "rings are full, or the polling core is almost never idle",
        },
        Bottleneck::Generator => "it can send no more",
    }
}

/// Lengths next to each other with which the same part binds, and that part: with lengths in
/// between of which nobody knows they are not one range.
fn runs(of: &Sized<'_>) -> Vec<(Vec<(String, SaturatedLength)>, Bottleneck)> {
    let plain = of.sizes.iter().zip(&of.parts);
    let all: Vec<(String, SaturatedLength, Option<Bottleneck>)> = plain
        .filter(|(size, _)| size.cell.number("frame").is_some())
        .map(|(size, part)| (size.cell.word("frame"), size.shown, *part))
        .collect();
    let known = all.chunk_by(|a, b| a.2 == b.2).filter_map(|run| {
        let lengths = run.iter().map(|(frame, shown, _)| (frame.clone(), *shown)).collect();
        Some((lengths, run[0].2?))
    });
    known.collect()
}

/// Which part binds from which length to which.
fn bound(of: &Sized<'_>) -> Option<Finding> {
    if of.sizes.iter().any(|size| size.cell.values("throughput_pps").len() < REPEATS_MIN) {
        return None;
    }
    let known = runs(of);
    let said: Vec<String> = known
        .iter()
        .map(|(run, part)| {
            let (first, last) = (&run[0].0, &run[run.len() - 1].0);
            let sizes = match run.len() {
                1 => frame_words(first),
                _ => format!("{first} to {}", frame_words(last)),
            };
            let shown: Vec<SaturatedLength> = run.iter().map(|(_, shown)| *shown).collect();
            format!("{} with {sizes} ({})", part_words(*part), evidence(*part, &shown))
        })
        .collect();
    let (shortest, part) = known.first().map(|(run, part)| (&run[0].0, part))?;
    let implication = match part {
        Bottleneck::Cores => "More cores or a cheaper function forward more short frames.",
        Bottleneck::FrameRate => {
            "More cores do not forward more short frames: the card is the limit."
        }
        Bottleneck::Bytes => "Neither more cores nor a faster port help.",
        Bottleneck::Port => "The device is as fast as its port.",
        Bottleneck::Generator => "Use a faster generator to find the device's own limit.",
    };
    let sentence =
        format!("{} with {} is limited by {}.", of.device, of.place(), said.join(", then by "));
    let at = of.sizes.iter().find(|size| size.cell.word("frame") == *shortest)?;
    Some(finding(of, "bound", (at.shown.pps, "pps"), (sentence, implication)))
}

/// A saturating rate of the shortest frames, or where the generator set it `at least` the lower end
/// of its interval.
fn rate_words(of: &Sized<'_>, pps: f64, is_bound: bool) -> String {
    let plain = of.sizes.iter().find(|size| size.cell.number("frame").is_some());
    let rate = plain.and_then(|size| size.cell.estimate("throughput_pps"));
    match (rate, is_bound) {
        (Some(rate), true) => format!("at least {}", words::pps(rate.low)),
        _ => words::pps(pps),
    }
}

/// From which length on frames fill the device's own port.
fn own_port(of: &Sized<'_>, gbps: f64) -> Option<Finding> {
    let rates = of.rates(|size| size.shown.pps);
    let (shortest, pps) = *rates.first()?;
    let is_bound = of.parts.first() == Some(&Some(Bottleneck::Generator));
    let (length, unit) = (filled_from(&rates, gbps, Some(gbps)), "B");
    let rate = format!("{} in {shortest} B frames", rate_words(of, pps, is_bound));
    let place = of.place();
    let (value, sentence, implication) = match length {
        Some(length) if length <= shortest => (
            length,
            format!(
                "{} fills its {gbps} Gbps port with {shortest} B frames and {place}.",
                of.device
            ),
            "The port is the only limit: no traffic has shorter frames.",
        ),
        Some(length) => (
            length,
            format!(
                "{} forwards {rate} with {place}. Its {gbps} Gbps port is full from a mean frame \
                 size of {} B (with FCS){}.",
                of.device,
                words::significant(length),
                searched(of, gbps)
            ),
            "The port is the limit for traffic with longer frames on average.",
        ),
        None => {
            let (longest, pps) = *rates.last()?;
            let share = pps * wire_ns(longest, gbps) / 1e9;
            (
                longest,
                format!(
                    "{} forwards {rate} with {place}. Even {longest} B frames do not fill its \
                     {gbps} Gbps port: they reach {}.",
                    of.device,
                    words::percent(share)
                ),
                "The port is faster than the device behind it.",
            )
        }
    };
    Some(finding(of, "line-rate", (value, unit), (sentence, implication)))
}

/// `; at a loss of 0.5 % or less, from 90.4 B`; empty where a length was not searched.
fn searched(of: &Sized<'_>, gbps: f64) -> String {
    let goal = of.sizes.iter().find_map(|size| size.headline());
    let length = of.searched().and_then(|rates| filled_from(&rates, gbps, Some(gbps)));
    goal.zip(length).map_or(String::new(), |(goal, length)| {
        let loss = words::percent_asked(goal.goal.loss_ratio);
        format!("; at a loss of {loss} or less, from {} B", words::significant(length))
    })
}

/// From which length on frames would fill ports of usual speeds: the device has none of its own.
fn any_port(of: &Sized<'_>) -> Option<Finding> {
    let (searched, saturating) = (of.searched(), of.rates(|size| size.shown.pps));
    let rates = searched.as_ref().unwrap_or(&saturating);
    let ((shortest, pps), (longest, _)) = (*rates.first()?, *rates.last()?);
    let is_bound = of.sizes.iter().any(|size| size.is_at_least());
    let rate = match searched {
        // The bounds of a search are those of its loads.
        Some(_) if is_bound => format!("at least {}", words::pps(pps)),
        Some(_) => words::pps(pps),
        None => rate_words(of, pps, is_bound),
    };
    let filled = PORTS_GBPS.into_iter().filter_map(|gbps| {
        let length = filled_from(rates, gbps, None)?;
        Some(format!("{gbps} Gbps from {} B", words::significant(length)))
    });
    let mut filled: Vec<String> = filled.collect();
    let implication = match filled.is_empty() {
        true => "Longer frames may fill such a port: measure them.",
        false => {
            "Behind such a port the device keeps up with longer frames and loses shorter ones."
        }
    };
    if filled.len() < PORTS_GBPS.len() {
        let none = PORTS_GBPS[filled.len()];
        filled.push(format!("{none} Gbps with no measured length (the longest is {longest} B)"));
    }
    let goal = of.sizes.iter().find_map(|size| size.headline());
    let loss = searched.as_ref().and(goal).map_or("at full load".to_owned(), |goal| {
        format!("with a loss of {} or less", words::percent_asked(goal.goal.loss_ratio))
    });
    let bound = match is_bound {
        true => " The generator was the limit of some rates: shorter frames may be enough.",
        false => "",
    };
    let sentence = format!(
        "{} has no line rate. With {} it forwards {rate} in {shortest} B frames {loss}. It would \
         fill a port of {}.{bound}",
        of.device,
        of.place(),
        filled.join(", ")
    );
    Some(finding(of, "line-rate", (pps, "pps"), (sentence, implication)))
}
