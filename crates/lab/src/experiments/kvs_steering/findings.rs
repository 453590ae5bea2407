//! The findings of the experiment `kvs-steering`.

use niclab_result::{Finding, Mark};

use super::analysis::{
    Limit, STUDY_WORDS, figure_id, has_no_reply, largest, millions, of_plain, ports_limit,
    slowest_limit, study, with_mode, workload,
};
use super::metrics::{ANSWERED, BUS, CARD, REQUEST, STEPS, step_metric};
use super::trials::PLAIN;
use crate::cells::Cell;
use crate::findings::number::{MUCH, Number, comparison, estimated};
use crate::findings::{REPEATS_MIN, follows, told};
use crate::published::flexnic;
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::{statistics, words};

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
    ratio.filter(|of| of.excludes(1.0))
}

/// `2 cores`, `one core`.
fn cores(cell: &Cell<'_>) -> String {
    match cell.number("cores") {
        Some(1.0) => "one core".to_owned(),
        count => format!("{} cores", words::whole(count.unwrap_or(0.0))),
    }
}

/// What a mode is, as a clause.
fn help(cell: &Cell<'_>) -> String {
    match cell.word("mode").as_str() {
        "steer" => "when the card steers requests by key".to_owned(),
        "dma" => "when the card writes items and passes requests to cores".to_owned(),
        mode => format!("with mode `{mode}` on the card"),
    }
}

fn id(cell: &Cell<'_>, what: &str) -> String {
    format!("kvs-{}-{what}", cell.word("mode"))
}

/// What the ratio of two medians that stand beside it need not be: the median of the ratios.
const BY_PAIRS: &str = "(median of pairs)";

/// What repeats show that a reader must know before he trusts the sentence, point by point: ` Only
/// a hint: the point with steer is marked bimodal.` Few repeats the sentence tells by itself.
fn marked(points: &[(String, &Cell<'_>)], metrics: &[&str]) -> String {
    let of = |(name, cell): &(String, &Cell<'_>)| {
        let mut marks: Vec<Mark> = metrics.iter().flat_map(|metric| cell.marks(metric)).collect();
        marks.retain(|mark| *mark != Mark::FewSamples);
        marks.sort();
        marks.dedup();
        let marks: Vec<String> = marks.iter().map(Mark::to_string).collect();
        (!marks.is_empty())
            .then(|| format!("the point with {name} is marked {}", marks.join(" and ")))
    };
    let told: Vec<String> = points.iter().filter_map(of).collect();
    match told.is_empty() {
        true => String::new(),
        false => format!(" Only a hint: {}.", told.join(", ")),
    }
}

/// [`marked`], of cells by their modes.
fn marked_modes(cells: &[&Cell<'_>], metrics: &[&str]) -> String {
    let points: Vec<_> = cells.iter().map(|cell| (cell.word("mode"), *cell)).collect();
    marked(&points, metrics)
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
    let number = Number::new(&ratio, "1");
    let sentence = format!(
        "{} answers {} on {} {}: {number} the {} with RSS {BY_PAIRS}, staged, with the study's \
         workload{stated}{}.{}",
        cell.device,
        millions(with?.median),
        cores(cell),
        help(cell),
        millions(without?.median),
        words::few(&ratio),
        marked_modes(&[cell, plain], &[ANSWERED])
    );
    let implication = match ratio.low > 1.0 {
        true => why(cell, plain),
        false => "This costs more than it saves here: use RSS.".to_owned(),
    };
    let implication = follows(&ratio, &implication);
    let figure = Some(figure_id(results, "gain"));
    let words = (sentence, implication.as_str());
    Some(told(cell.device, id(cell, "throughput"), number, words, figure))
}

/// What carries requests out and answers them, where one of two modes does both in one step.
const ANSWERING: &str = "carry_out_reply";

/// Steps that are comparable: name, label, and metrics that are of it together. Where one of both
/// has no reply of its own, what writes its answers is timed as it carries requests out.
fn comparable(cell: &Cell<'_>, plain: &Cell<'_>) -> Vec<(&'static str, &'static str, Vec<String>)> {
    let of = |(name, label): (&'static str, _)| (name, label, vec![step_metric(name)]);
    let mut steps: Vec<_> = STEPS.into_iter().map(of).collect();
    if has_no_reply(cell) != has_no_reply(plain) {
        let both = ["carry_out", "reply"];
        steps.retain(|(name, ..)| !both.contains(name));
        steps.push((ANSWERING, "carry out, copy and reply", both.map(step_metric).to_vec()));
    }
    steps
}

/// A step that is shorter or longer than without help.
struct Changed {
    name: &'static str,
    label: &'static str,
    /// What it saves, below 0 where it is longer.
    saved: Estimate,
}

/// Differences of pairs of repeats, those without help less those with it, of metrics together.
fn saved(cell: &Cell<'_>, plain: &Cell<'_>, metrics: &[&str]) -> Option<Estimate> {
    let of = |metric: &&str| {
        let (with, without) = cell.paired(plain, metric);
        without.iter().zip(with).map(|(plain, with)| plain - with).collect::<Vec<f64>>()
    };
    let sum = |sum: Vec<f64>, more: Vec<f64>| sum.iter().zip(more).map(|(a, b)| a + b).collect();
    statistics::estimate(&metrics.iter().map(of).reduce(sum)?)
}

/// Steps that are not as long as without help, where the repeats hold it, what saves most first.
fn changed(cell: &Cell<'_>, plain: &Cell<'_>) -> Vec<Changed> {
    let of = |(name, label, metrics): (&'static str, &'static str, Vec<String>)| {
        let metrics: Vec<&str> = metrics.iter().map(String::as_str).collect();
        let saved = saved(cell, plain, &metrics)?;
        saved.excludes(0.0).then_some(Changed { name, label, saved })
    };
    let mut all: Vec<_> = comparable(cell, plain).into_iter().filter_map(of).collect();
    all.sort_by(|a: &Changed, b: &Changed| b.saved.median.total_cmp(&a.saved.median));
    all
}

/// Steps that have one cause where they are shorter, and the cause.
const CAUSES: [(&[&str], &str); 5] = [
    (
        &["look_up", "carry_out"],
        "memory: items and buckets are fetched from the core that wrote them last",
    ),
    (&["lock"], "waiting for locks that cores share"),
    (
        &["receive", "parse", "hash"],
        "work that the card has already done on headers, requests or keys",
    ),
    (&["reply"], "answering"),
    (&[ANSWERING], "copying items and answering, which are one step in one of the modes"),
];

/// Why a request is served sooner, by the very steps that [`time`] lists: what is saved by causes,
/// and whether one of them is most of it.
fn why(cell: &Cell<'_>, plain: &Cell<'_>) -> String {
    let all = changed(cell, plain);
    let of = |(names, cause): &(&[&str], &'static str)| {
        let steps = || all.iter().filter(|of| names.contains(&of.name));
        let ns: f64 = steps().map(|of| of.saved.median).sum();
        let least_ns: f64 = steps().map(|of| of.saved.low).sum();
        // One core shares nothing: there a shorter look-up has no cause that is known.
        let is_known = cell.number("cores") > Some(1.0) || names[0] != "look_up";
        let cause = if is_known { *cause } else { "finding and copying items" };
        (ns > 0.0).then_some((ns, least_ns, cause))
    };
    let mut causes: Vec<_> = CAUSES.iter().filter_map(of).collect();
    causes.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
    let half_ns = saved(cell, plain, &[REQUEST]).map_or(0.0, |saved| saved.median / 2.0);
    match causes.first() {
        None => UNTOLD.to_owned(),
        Some((ns, least_ns, cause)) if half_ns > 0.0 && *least_ns >= half_ns => {
            format!("Most of the time saved is {cause} ({}).", words::time(*ns))
        }
        Some(_) => {
            let told = causes.iter().map(|(ns, _, why)| format!("{why} ({})", words::time(*ns)));
            let told = told.collect::<Vec<_>>().join("; ");
            format!("The time saved, with no single main cause: {told}.")
        }
    }
}

/// What is said of steps where no repeats hold a difference.
const UNTOLD: &str = "The repeats do not show which step saves time.";

/// Which steps are shorter, and which longer.
fn steps(cell: &Cell<'_>, plain: &Cell<'_>) -> String {
    let all = changed(cell, plain);
    let (shorter, longer): (Vec<&Changed>, Vec<_>) =
        all.iter().partition(|of| of.saved.median > 0.0);
    if shorter.is_empty() {
        return UNTOLD.to_owned();
    }
    let list = |of: &[&Changed]| {
        let each =
            of.iter().map(|of| format!("{} {}", of.label, words::time(of.saved.median.abs())));
        each.collect::<Vec<_>>().join("; ")
    };
    let and = match longer.is_empty() {
        true => String::new(),
        false => format!(" Longer steps: {}.", list(&longer)),
    };
    format!("Shorter steps: {}.{and}", list(&shorter))
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
            "; the study states {} instead of {}, {less} less",
            words::time(with),
            words::time(before)
        )
    });
    let (number, _) = comparison(&ratio, MUCH);
    let sentence = format!(
        "A request takes {} of core time with {mode} instead of {} with {PLAIN} on {} of {}: \
         {number} {BY_PAIRS}{stated}{}.{}",
        words::time(with?.median),
        words::time(without?.median),
        cores(cell),
        cell.device,
        words::few(&ratio),
        marked_modes(&[cell, plain], &[REQUEST])
    );
    let implication = steps(cell, plain);
    let figure = Some(figure_id(results, "steps"));
    let words = (sentence, implication.as_str());
    Some(told(cell.device, id(cell, "time"), number, words, figure))
}

/// What the card's work takes more where a core does it, against what the application saves.
fn card(results: &Results<'_>, cell: &Cell<'_>, plain: &Cell<'_>) -> Option<Finding> {
    let (with, without) = cell.paired(plain, CARD);
    let more: Vec<f64> = with.iter().zip(without).map(|(with, without)| with - without).collect();
    let (with, without) = cell.paired(plain, REQUEST);
    let saved: Vec<f64> = without.iter().zip(with).map(|(without, with)| without - with).collect();
    // Of each pair of repeats what both cores together spend more.
    let net: Vec<f64> = more.iter().zip(&saved).map(|(more, saved)| more - saved).collect();
    let [more, saved, net] = [&more, &saved, &net].map(|of| statistics::estimate(of));
    let (more, saved, net) = (more.filter(|of| of.is_above(0.0) == Some(true))?, saved?, net?);
    let mode = cell.word("mode");
    let differs = |of: &Estimate, below, above| {
        let word = if of.median < 0.0 { below } else { above };
        let [low, high] = match of.median < 0.0 {
            true => [-of.high, -of.low],
            false => [of.low, of.high],
        };
        (estimated(&Estimate { median: of.median.abs(), low, high, ..*of }, "ns"), word)
    };
    // What the repeats do not hold stands in no sentence.
    let application = saved.excludes(0.0).then(|| {
        let (saved, verb) = differs(&saved, "spends", "saves");
        format!("the application's core {verb} {saved}")
    });
    let both = net.excludes(0.0).then(|| {
        let (sum, adjective) = differs(&net, "less", "more");
        format!("application and card together take {sum} {adjective}")
    });
    let held: Vec<String> = [application, both].into_iter().flatten().collect();
    let held = match held.is_empty() {
        true => " (median of pairs)".to_owned(),
        false => format!("; {} (each a median over pairs of repeats)", held.join(", and ")),
    };
    let number = Number::new(&more, "ns");
    let sentence = format!(
        "The card's work for a request takes a core of {} {number} more with {mode} than with \
         RSS{held}{}.{}",
        cell.device,
        words::few(&more),
        marked_modes(&[cell, plain], &[CARD, REQUEST])
    );
    let implication = match (net.low > 0.0, net.high < 0.0) {
        (true, _) => {
            "In software this costs more than it saves: it pays only on a card or on a spare core."
        }
        (_, true) => "This pays even when a core of the same machine does the card's work.",
        _ => "This is the cost in software, on a core that a card would leave free.",
    };
    let implication = follows(&net, implication);
    let words = (sentence, implication.as_str());
    Some(told(cell.device, id(cell, "card"), number, words, Some(figure_id(results, "request"))))
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
    let ends = [most, least].into_iter();
    let mut points = Vec::new();
    for (end, plain) in ends.filter_map(|end| Some((*end, with_mode(results, end, PLAIN)?))) {
        let of = |cell: &Cell<'_>| format!("{}, {}", differing(end), cell.word("mode"));
        points.extend([(of(end), end), (of(plain), plain)]);
    }
    let number = Number::new(more, "1");
    let sentence = format!(
        "{mode} gains most with {}: {number} the throughput with {PLAIN} on {} of {device}. It \
         gains least with {}: {} (of {} workloads){}.{}",
        differing(most),
        cores(most),
        differing(least),
        estimated(less, "1"),
        all.len(),
        words::few(more),
        marked(&points, &[ANSWERED])
    );
    let implication = "The gain depends on the workload: measure with your own keys and share of \
                       gets.";
    let words = (sentence, implication);
    let figure = Some(figure_id(results, "gain"));
    Some(told(device, id(most, "workloads"), number, words, figure))
}

/// A workload, by what tells it from the study's.
fn differing(cell: &Cell<'_>) -> String {
    match workload(cell) {
        words if words == STUDY_WORDS => words,
        words => format!("{words}, otherwise the study's"),
    }
}

/// What binds first where there are cores enough, and what the help takes off the bus.
fn bus(results: &Results<'_>, cell: &Cell<'_>, plain: &Cell<'_>) -> Option<Finding> {
    let time = cell.estimate(REQUEST).filter(|of| of.repeats >= REPEATS_MIN)?;
    let (ports, bus) = (ports_limit(results, cell)?, slowest_limit(cell)?);
    let are_ports_first = ports.requests_per_s <= bus.requests_per_s;
    let (first, then) = if are_ports_first { (&ports, &bus) } else { (&bus, &ports) };
    let without = match are_ports_first {
        true => ports_limit(results, plain),
        false => slowest_limit(plain),
    };
    let cores = time.scaled(first.requests_per_s / 1e9);
    let at = |limit: &Limit, cell: &Cell<'_>| limit.cores(cell).map(words::significant);
    let stated = flexnic::stated("kvs_pcie_bottleneck_cores").unwrap_or_default();
    let number = Number::new(&cores, "cores");
    let sentence = format!(
        "{} would be the first limit with {}, from {number} of {} ({PLAIN}: from {}). {} would \
         follow at {} (computed). The study, with such ports, states that PCIe is the limit from \
         {} cores.{}",
        first.name,
        cell.word("mode"),
        cell.device,
        at(&without?, plain)?,
        then.name,
        at(then, cell)?,
        words::whole(stated),
        marked_modes(&[cell, plain], &[REQUEST])
    );
    let means = match are_ports_first {
        true => {
            "More cores do not help: the wire is full before the bus, so use faster ports first."
        }
        false => "More cores do not help: the bus is full before the wire.",
    };
    let implication = format!("{means} {}", on_bus(results, cell, plain));
    let figure = Some(format!("{}-{}", figure_id(results, "cores"), cell.device));
    let words = (sentence, implication.as_str());
    Some(told(cell.device, id(cell, "bus"), number, words, figure))
}

/// What the help takes off the bus, or puts on it.
fn on_bus(results: &Results<'_>, cell: &Cell<'_>, plain: &Cell<'_>) -> String {
    let bytes = |cell: &Cell<'_>| {
        let of = |metric| cell.estimate(metric).map_or(0.0, |of| of.median);
        of(BUS[0][1]).max(of(BUS[1][1]))
    };
    let on_bus = match bytes(cell) / bytes(plain) {
        share if share > 1.01 => {
            format!("This mode loads the bus by {} more", words::percent(share - 1.0))
        }
        share if share < 0.99 => {
            format!("This mode takes {} off the bus", words::percent(1.0 - share))
        }
        _ => "This mode does not change the bus load".to_owned(),
    };
    let is_freed = held(of_plain(results, cell, REQUEST)).is_some_and(|of| of.high < 1.0);
    match is_freed {
        true => format!("{on_bus}, but fewer cores cause the same load."),
        false => format!("{on_bus}."),
    }
}
