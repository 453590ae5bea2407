//! The findings of the experiment `kvs-steering`.

use niclab_result::Finding;

use super::{REPEATS_MIN, told};
use crate::bus::BUSES;
use crate::cells::Cell;
use crate::kvs::{ANSWERED, BUS, CARD, PLAIN, REQUEST, STEPS, step_metric};
use crate::published::flexnic;
use crate::statistics::{self, Estimate};
use crate::summary::Results;
use crate::summary::kvs::{
    binding, figure_id, largest, millions, of_plain, study, with_mode, workload,
};
use crate::words;

/// Device by device and mode by mode: what the card's help is worth with the study's workload, and
/// why; what it costs; where it is worth most; and what it leaves on the bus.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        for cell in study(results, device) {
            let Some(plain) = with_mode(results, cell, PLAIN) else { continue };
            if cell.word("mode") == PLAIN {
                continue;
            }
            findings.extend(gain(results, cell, plain));
            findings.extend(time(results, cell, plain));
            findings.extend(card(results, cell, plain));
            findings.extend(workloads(results, device, &cell.word("mode")));
            findings.extend(bus(results, cell, plain));
        }
    }
    findings
}

/// A ratio that the repeats hold: its interval has no 1 in it.
fn held(ratio: Option<Estimate>) -> Option<Estimate> {
    ratio.filter(|of| of.repeats >= REPEATS_MIN && (of.low > 1.0 || of.high < 1.0))
}

/// `2 cores of soft`, `one core of soft`.
fn cores(cell: &Cell<'_>) -> String {
    match cell.number("cores") {
        Some(1.0) => format!("one core of {}", cell.device),
        count => format!("{} cores of {}", words::whole(count.unwrap_or(0.0)), cell.device),
    }
}

/// What a mode is, as a clause.
fn help(cell: &Cell<'_>) -> String {
    match cell.word("mode").as_str() {
        "steer" => "where the card steers requests by their keys".to_owned(),
        "dma" => "where the card writes items and tells cores what they are asked for".to_owned(),
        mode => format!("with the card's help `{mode}`"),
    }
}

fn id(cell: &Cell<'_>, what: &str) -> String {
    format!("kvs-{}-{what}", cell.word("mode"))
}

/// How many times the throughput, and why.
fn gain(results: &Results<'_>, cell: &Cell<'_>, plain: &Cell<'_>) -> Option<Finding> {
    let ratio = held(of_plain(results, cell, ANSWERED))?;
    let [with, without] = [cell, plain].map(|cell| cell.estimate(ANSWERED));
    let stated = flexnic::steering_gain().filter(|_| cell.word("mode") == "steer");
    let stated = stated.map_or(String::new(), |(least, most)| {
        let [least, most] = [least, most].map(words::significant);
        format!("; the study states {least} to {most} times, on six cores")
    });
    let sentence = format!(
        "With the study's workload {} answer {} (staged) {}, {} times the {} with RSS{stated}{}.",
        cores(cell),
        millions(with?.median),
        help(cell),
        words::significant(ratio.median),
        millions(without?.median),
        words::few(&ratio)
    );
    let implication = match ratio.low > 1.0 {
        true => why(cell, plain),
        false => "It costs more than it brings here: leave requests to RSS.".to_owned(),
    };
    let figure = Some(figure_id(results, "gain"));
    let words = (sentence, implication.as_str());
    Some(told(cell.device, id(cell, "throughput"), (&ratio, "1"), words, figure))
}

/// A step that is shorter than without help.
struct Shorter {
    name: &'static str,
    label: &'static str,
    /// By how much, and by how much at least.
    ns: f64,
    least_ns: f64,
}

/// Steps that are shorter than without help, where the repeats hold it, the most first.
fn shorter(cell: &Cell<'_>, plain: &Cell<'_>) -> Vec<Shorter> {
    let of = |(name, label): (&'static str, &'static str)| {
        let (with, without) = cell.paired(plain, &step_metric(name));
        let saved: Vec<f64> = without.iter().zip(with).map(|(plain, with)| plain - with).collect();
        let saved = statistics::estimate(&saved)?;
        let is_held = saved.repeats >= REPEATS_MIN && saved.low > 0.0;
        is_held.then_some(Shorter { name, label, ns: saved.median, least_ns: saved.low })
    };
    let mut all: Vec<_> = STEPS.into_iter().filter_map(of).collect();
    all.sort_by(|a: &Shorter, b: &Shorter| b.ns.total_cmp(&a.ns));
    all
}

/// Why a request is served sooner: where at least half of what is saved is saved for certain.
fn why(cell: &Cell<'_>, plain: &Cell<'_>) -> String {
    let all = shorter(cell, plain);
    let sum = |names: &[&str]| {
        all.iter().filter(|of| names.contains(&of.name)).map(|of| of.least_ns).sum::<f64>()
    };
    // One core shares nothing.
    let shared = |ns: f64| if cell.number("cores") > Some(1.0) { ns } else { 0.0 };
    let causes = [
        (
            shared(sum(&["look_up", "carry_out"])),
            "Most of what it saves is memory: items and buckets that another core wrote last have \
             to come from there.",
        ),
        (shared(sum(&["lock"])), "Most of what it saves is waiting for locks that cores share."),
        (
            sum(&["receive", "parse", "hash"]),
            "Most of what it saves is work that the card has done already: headers, requests or \
             keys are not looked at again.",
        ),
        (sum(&["reply"]), "Most of what it saves is answering."),
    ];
    let (with, without) = cell.paired(plain, REQUEST);
    let saved: Vec<f64> = without.iter().zip(with).map(|(plain, with)| plain - with).collect();
    let half = statistics::median(&saved).unwrap_or(0.0) / 2.0;
    let most = causes.iter().max_by(|(a, _), (b, _)| a.total_cmp(b));
    let most = most.filter(|(saved, _)| half > 0.0 && *saved >= half);
    let unknown = "Where most of it is saved these repeats do not tell.";
    most.map_or(unknown, |(_, words)| words).to_owned()
}

/// What a request takes of a core, and which steps are shorter.
fn time(results: &Results<'_>, cell: &Cell<'_>, plain: &Cell<'_>) -> Option<Finding> {
    let ratio = held(of_plain(results, cell, REQUEST)).filter(|ratio| ratio.high < 1.0)?;
    let [with, without] = [cell, plain].map(|cell| cell.estimate(REQUEST));
    let mode = cell.word("mode");
    let [stated, before] = [mode.as_str(), PLAIN].map(flexnic::request_ns);
    let stated = stated.zip(before).map_or(String::new(), |(with, before)| {
        let less = words::percent(1.0 - with / before);
        format!(
            "; the study states {} in place of {}, {less} less",
            words::time(with),
            words::time(before)
        )
    });
    let less = words::percent(1.0 - ratio.median);
    let sentence = format!(
        "A request takes each of {} {} with {mode} in place of {} with {PLAIN}, {less} \
         less{stated}{}.",
        cores(cell),
        words::time(with?.median),
        words::time(without?.median),
        words::few(&ratio)
    );
    let steps: Vec<String> = shorter(cell, plain)
        .iter()
        .map(|of| format!("{} {}", of.label, words::time(of.ns)))
        .collect();
    let implication = match steps.is_empty() {
        true => "Which step is shorter these repeats do not tell.".to_owned(),
        false => format!("Shorter are, by steps that were timed: {}.", steps.join("; ")),
    };
    let figure = Some(figure_id(results, "steps"));
    let words = (sentence, implication.as_str());
    Some(told(cell.device, id(cell, "time"), (&ratio, "1"), words, figure))
}

/// What the card's work takes more where a core does it, against what the application saves.
fn card(results: &Results<'_>, cell: &Cell<'_>, plain: &Cell<'_>) -> Option<Finding> {
    let differences = |metric: &str, sign: f64| {
        let (with, without) = cell.paired(plain, metric);
        let of = with.iter().zip(without).map(|(with, without)| sign * (with - without));
        statistics::estimate(&of.collect::<Vec<_>>()).filter(|of| of.repeats >= REPEATS_MIN)
    };
    let (more, saved) = (differences(CARD, 1.0)?, differences(REQUEST, -1.0)?);
    if more.low <= 0.0 {
        return None;
    }
    let mode = cell.word("mode");
    let sentence = format!(
        "What the card does for a request takes a core of {} {} with {mode}, {} more than RSS; the \
         application's core saves {}{}.",
        cell.device,
        words::time(cell.estimate(CARD)?.median),
        words::time(more.median),
        words::time(saved.median.max(0.0)),
        words::few(&more)
    );
    let implication = match (saved.high < more.low, saved.low > more.high) {
        (true, _) => {
            "In software on the same cores the help costs more than it brings: it is worth its \
             price where a card, or a core that nothing else needs, does it."
        }
        (_, true) => "The help pays even where a core of the same machine does the card's work.",
        _ => "Whether a core that does the card's work earns it back these repeats do not tell.",
    };
    let words = (sentence, implication);
    Some(told(
        cell.device,
        id(cell, "card"),
        (&more, "ns"),
        words,
        Some(figure_id(results, "request")),
    ))
}

/// Which workload the help is worth most to, and which least.
fn workloads(results: &Results<'_>, device: &str, mode: &str) -> Option<Finding> {
    let of_mode = |cell: &&Cell<'_>| cell.word("mode") == mode;
    let mut all: Vec<(&Cell<'_>, Estimate)> = largest(results, device)
        .into_iter()
        .filter(of_mode)
        .filter_map(|cell| Some((cell, of_plain(results, cell, ANSWERED)?)))
        .filter(|(_, ratio)| ratio.repeats >= REPEATS_MIN)
        .collect();
    all.sort_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
    let ((least, less), (most, more)) = (all.first()?, all.last()?);
    if more.low <= less.high {
        return None;
    }
    let sentence = format!(
        "Of {} workloads {mode} brings {} most where what differs from the study's is {}: {} times \
         the throughput; least where it is {}: {} times{}.",
        all.len(),
        cores(most),
        differing(most),
        words::significant(more.median),
        differing(least),
        words::significant(less.median),
        words::few(more)
    );
    let implication = "What the help is worth hangs on what is asked: measure with your keys and \
                       your share of gets.";
    let words = (sentence, implication);
    let figure = Some(figure_id(results, "gain"));
    Some(told(device, id(most, "workloads"), (more, "1"), words, figure))
}

fn differing(cell: &Cell<'_>) -> String {
    match workload(cell) {
        words if words == "the study's" => "nothing".to_owned(),
        words => words,
    }
}

/// When the bus binds, and what the help takes off it.
fn bus(results: &Results<'_>, cell: &Cell<'_>, plain: &Cell<'_>) -> Option<Finding> {
    let bus = &BUSES[0];
    let time = cell.estimate(REQUEST).filter(|of| of.repeats >= REPEATS_MIN)?;
    let (with, without) = (binding(cell, bus)?, binding(plain, bus)?);
    let bytes = |cell: &Cell<'_>| {
        let of = |metric| cell.estimate(metric).map_or(0.0, |of| of.median);
        of(BUS[0][1]).max(of(BUS[1][1]))
    };
    let share = bytes(cell) / bytes(plain);
    let cores = time.scaled(with / time.median);
    let stated = flexnic::stated("kvs_pcie_bottleneck_cores").unwrap_or_default();
    let sentence = format!(
        "By what a request takes of it, {} binds from {} cores of {} on with {}, from {} on with \
         {PLAIN} (computed; the study states {} cores).",
        bus.name,
        words::significant(with),
        cell.device,
        cell.word("mode"),
        words::significant(without),
        words::whole(stated)
    );
    let on_bus = match share {
        share if share > 1.01 => {
            format!("The help loads the bus by {} more", words::percent(share - 1.0))
        }
        share if share < 0.99 => {
            format!("The help takes {} off the bus", words::percent(1.0 - share))
        }
        _ => "The help leaves the bus as it is".to_owned(),
    };
    let is_freed = held(of_plain(results, cell, REQUEST)).is_some_and(|of| of.high < 1.0);
    let implication = match is_freed {
        true => format!("{on_bus}, and frees cores: fewer of them load it as much."),
        false => format!("{on_bus}."),
    };
    let figure = Some(format!("{}-{}", figure_id(results, "cores"), cell.device));
    let words = (sentence, implication.as_str());
    Some(told(cell.device, id(cell, "bus"), (&cores, "cores"), words, figure))
}
