//! The findings of the experiments `queue-scaling` and `queue-overhead`.

use niclab_result::Finding;

use super::analysis::{AGGREGATE, EACH, QUEUES, at_cores, curve, figure_id, first, ideal, ports};
use crate::cells::Cell;
use crate::findings::number::{Comparative, Number, comparison};
use crate::findings::{RatioVerdict, follows, told, verdict};
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::summary::frames::frame_words;
use crate::summary::queues::number;
use crate::{cells, words};

/// Device by device: what more cores bring, with queues of their own and without; and what queues
/// and ports cost the same cores.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        let Some(like) = first(results, device) else { continue };
        for ports in ports(results, device) {
            let cells = curve(results, device, ("multi-queue", ports), like);
            findings.extend(scaling(results, &cells));
            let serial = curve(results, device, ("serial", ports), like);
            findings.extend(serial_of(results, &cells, &serial));
        }
        findings.extend(ports_of(results, device, like));
        findings
            .extend(at_cores(results, device).iter().filter_map(|cells| overhead(results, cells)));
    }
    findings
}

/// A number of frames beside another one.
const MANY: Comparative = ["as many frames as", "more frames than", "fewer frames than"];

/// How a metric of one cell stands to that of another; nothing where stalls may have set either.
fn paired(with: &Cell<'_>, without: &Cell<'_>, metric: &str) -> Option<Estimate> {
    let is_disturbed = with.is_disturbed() || without.is_disturbed();
    cells::paired(with, without, metric).filter(|_| !is_disturbed)
}

/// `2 cores`, `one core`.
fn cores(cell: &Cell<'_>) -> String {
    match number(cell, "cores") {
        1.0 => "one core".to_owned(),
        cores => format!("{} cores", words::whole(cores)),
    }
}

/// ` over 2 ports`; empty of one.
fn by_ports(cell: &Cell<'_>) -> String {
    match number(cell, "ports") {
        1.0 => String::new(),
        ports => format!(" over {} ports", words::whole(ports)),
    }
}

fn id(results: &Results<'_>, name: &str, cell: &Cell<'_>) -> String {
    let [ports, queues, cores] = ["ports", "queues", "cores"].map(|axis| cell.word(axis));
    format!("{}-{name}-{ports}-{queues}-{cores}", results.experiment.name)
}

/// What the most cores forward, of the ideal; nothing where the interval allows both that they
/// forward more than the fewest and that they do not.
fn scaling(results: &Results<'_>, cells: &[&Cell<'_>]) -> Option<Finding> {
    let (few, most) = (*cells.first()?, *cells.last()?);
    let (few_cores, cores_count) = (number(few, "cores"), number(most, "cores"));
    let ratio = paired(most, few, "throughput_pps")?;
    let found = verdict(&ratio)?;
    if cores_count <= few_cores {
        return None;
    }
    let pps = most.estimate("throughput_pps")?;
    let of_ideal = pps.scaled(1.0 / ideal(results, most)?);
    let (of_number, is_more) = comparison(&ratio, MANY);
    let sentence = format!(
        "{} of {} with a queue each forward {is_more} {} of the device ({}{}): {} of the ideal{}.",
        cores(most),
        most.device,
        cores(few),
        frame_words(&most.word("frame")),
        by_ports(most),
        Number::percent(&of_ideal).with_interval(),
        words::few(&ratio)
    );
    let implication = match (found, ratio.median > 1.0) {
        (RatioVerdict::NoCost, _) => "More cores forward no more: look for the bottleneck.",
        (RatioVerdict::Differs, false) => "More cores forward less: look for the bottleneck.",
        _ if of_ideal.low >= 0.95 => "Throughput scales with the cores.",
        _ if of_ideal.high < 0.75 => {
            "Throughput does not scale with the cores; look for the bottleneck."
        }
        _ => "Plan with this share of what one core forwards.",
    };
    let words = (sentence, implication);
    Some(told(
        most.device,
        id(results, "cores", most),
        of_number,
        words,
        Some(figure_id(results, AGGREGATE, most.device)),
    ))
}

/// What the most cores forward where one receives for all, by what they forward otherwise.
fn serial_of(results: &Results<'_>, cells: &[&Cell<'_>], serial: &[&Cell<'_>]) -> Option<Finding> {
    let most = serial.iter().rev().find_map(|serial| {
        let same = cells.iter().find(|cell| number(cell, "cores") == number(serial, "cores"));
        same.map(|cell| (*serial, *cell)).filter(|(of, _)| number(of, "cores") > 1.0)
    });
    let (serial, cell) = most?;
    let ratio = paired(serial, cell, "throughput_pps")?;
    let found = verdict(&ratio)?;
    let of_number = Number::percent(&ratio);
    let sentence = format!(
        "{} of {} reach {of_number} of their throughput with a queue each{} when one of them \
         receives for all{}.",
        cores(serial),
        serial.device,
        by_ports(serial),
        words::few(&ratio)
    );
    let implication = match (found, ratio.median < 1.0) {
        (RatioVerdict::Differs, true) => "Give each core its own queue.",
        _ => "A single queue is no limit with this number of cores.",
    };
    let implication = follows(&ratio, implication);
    let words = (sentence, implication.as_str());
    Some(told(
        serial.device,
        id(results, "serial", serial),
        of_number,
        words,
        Some(figure_id(results, EACH, serial.device)),
    ))
}

/// What the same queues and cores forward by one port, and by the most.
fn ports_of(results: &Results<'_>, device: &str, like: &Cell<'_>) -> Option<Finding> {
    let (fewest, most) = (*ports(results, device).first()?, *ports(results, device).last()?);
    if fewest != 1.0 {
        return None;
    }
    let [one, many] =
        [fewest, most].map(|ports| curve(results, device, ("multi-queue", ports), like));
    let pair = many.iter().rev().find_map(|many| {
        let same = one.iter().find(|one| number(one, "queues") == number(many, "queues"));
        same.map(|one| (*one, *many))
    });
    let (one, many) = pair.filter(|_| most > fewest)?;
    let ratio = paired(one, many, "throughput_pps")?;
    let found = verdict(&ratio)?;
    let queues = match number(one, "queues") {
        1.0 => format!("One queue on one core of {device} forwards"),
        queues => format!("{} queues on as many cores of {device} forward", words::whole(queues)),
    };
    let of_number = Number::percent(&ratio);
    let sentence = format!(
        "{queues} over one port {of_number} of the throughput over {} ports{}.",
        words::whole(most),
        words::few(&ratio)
    );
    let implication = match (found, ratio.median < 1.0) {
        (RatioVerdict::Differs, true) => "Spread the queues over ports.",
        (RatioVerdict::Differs, false) => "One port forwards more than several ports here.",
        (RatioVerdict::NoCost, _) => "The number of ports hardly matters.",
    };
    let words = (sentence, implication);
    Some(told(
        device,
        id(results, "ports", one),
        of_number,
        words,
        Some(figure_id(results, AGGREGATE, device)),
    ))
}

/// What the most queues of a port cost the same cores, by the fewest.
fn overhead(results: &Results<'_>, cells: &[&Cell<'_>]) -> Option<Finding> {
    let (few, most) = (*cells.first()?, *cells.last()?);
    let ratio = paired(most, few, "throughput_pps")?;
    let found = verdict(&ratio)?;
    let queues = |cell: &Cell<'_>| match number(cell, "queues") {
        1.0 => "one queue".to_owned(),
        queues => format!("{} queues", words::whole(queues)),
    };
    let of_number = Number::percent(&ratio);
    let sentence = format!(
        "{} with {} on {}{} reaches {of_number} of its throughput with {}{}.",
        most.device,
        queues(most),
        cores(most),
        by_ports(most),
        queues(few),
        words::few(&ratio)
    );
    let implication = match (found, ratio.median < 1.0) {
        (RatioVerdict::NoCost, _) => "This number of queues costs almost nothing.",
        (RatioVerdict::Differs, true) => "Do not use more queues than cores.",
        (RatioVerdict::Differs, false) => "More queues raise the throughput here.",
    };
    let words = (sentence, implication);
    Some(told(
        most.device,
        id(results, "queues", most),
        of_number,
        words,
        Some(figure_id(results, QUEUES, "all")),
    ))
}
