//! Figures and tables of the experiment `kvs-steering`.

use niclab_result::{Figure, Mean, Origin, ReportTable, Scale, Series};

use super::analysis::{
    Limit, STUDY, bus, cells, cores_at, figure_id, has_no_reply, id, is_study, largest, millions,
    most, of_plain, ports_limit, slowest_limit, study, workload,
};
use super::metrics::{ANSWERED, CARD, REQUEST, STEPS, step_metric};
use super::trials::{MODES, PLAIN};
use crate::cells::Cell;
use crate::published::flexnic;
use crate::scaling::modelled_pps;
use crate::statistics::{Ends, Estimate};
use crate::summary::Results;
use crate::summary::curves::{add, add_computed, axis, ordinal_point};
use crate::summary::tables::{marks_of, median, results_from, table, worded};
use crate::{statistics, words};

/// Cores up to which a curve is continued by computation.
const MODELLED_CORES_MAX: u32 = 16;

/// Cores that the study had.
pub(crate) const STUDY_CORES: f64 = 6.0;

/// The tables.
pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let mut tables = vec![published(results), served(results), steps(results), bus(results)];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn places(cell: &Cell<'_>) -> Vec<String> {
    let [cores, burst] =
        ["cores", "burst"].map(|axis| words::whole(cell.number(axis).unwrap_or(0.0)));
    vec![cell.device.to_owned(), workload(cell), cores, burst, cell.word("mode")]
}

const PLACES: [&str; 5] = ["device", "workload", "cores", "together", "mode"];

/// What was answered, and what it took.
fn served(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for cell in results.devices().flat_map(|device| cells(results, device)) {
        let ratio = |metric, of| ratio_words(of_plain(results, cell, metric), of);
        let rest = vec![
            worded(cell.estimate(ANSWERED), millions),
            ratio(ANSWERED, "times rss"),
            worded(cell.estimate(REQUEST), words::time),
            ratio(REQUEST, "of rss's time"),
            ratio_words(cell.estimate("busiest_ratio"), "times the mean"),
            median(cell, CARD, words::time),
            marks_of_both(cell),
        ];
        rows.push([places(cell), rest].concat());
    }
    let rest = [
        "answered (interval)",
        "answered, against rss",
        "core time per request (interval)",
        "core time, against rss",
        "busiest core's requests",
        "card's work in software",
        "marks",
    ];
    let title = "Throughput, staged, and core time per request; workloads by their difference \
                 from the study's";
    results_from(
        "answered (interval)",
        table(&id(results, "served"), title, &[&PLACES[..], &rest].concat(), rows),
    )
}

/// A ratio with what it is of, to the digits that where it lies supports: `0.87 of rss's time
/// (0.86 to 0.89)`.
fn ratio_words(ratio: Option<Estimate>, of: &str) -> String {
    let Some(ratio) = ratio else { return "-".into() };
    let told = format!("{} {of}", words::supported(&ratio));
    match ratio.ends {
        Ends::Interval => format!("{told} ({})", words::ends(&ratio)),
        Ends::Range if ratio.repeats == 1 => told,
        Ends::Range => format!("{told} (all in {})", words::ends(&ratio)),
    }
}

/// Marks of both metrics of a row, those of both once.
fn marks_of_both(cell: &Cell<'_>) -> String {
    let [answered, took] = [ANSWERED, REQUEST].map(|metric| marks_of(cell, metric));
    match answered == took || took.is_empty() {
        true => answered,
        false if answered.is_empty() => took,
        false => format!("{answered}; a request: {took}"),
    }
}

/// Where the time of a request goes.
fn steps(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for cell in results.devices().flat_map(|device| cells(results, device)) {
        if !cell.is_at(&STUDY) {
            continue;
        }
        let times = STEPS.map(|(name, _)| match name == "reply" && has_no_reply(cell) {
            true => "in carry out, copy".to_owned(),
            false => median(cell, &step_metric(name), words::time),
        });
        rows.push([places(cell), times.to_vec()].concat());
    }
    let heads = STEPS.map(|(_, head)| head);
    let title = "Time of a request on the application's core by step: each step of a burst is \
                 timed in separate passes";
    results_from(
        STEPS[0].1,
        table(&id(results, "steps"), title, &[&PLACES[..], &heads].concat(), rows),
    )
}

/// From how many cores on ports and bus bind, and what the study says to it.
fn published_limits(results: &Results<'_>, cell: &Cell<'_>) -> Vec<Vec<String>> {
    let stated = flexnic::stated("kvs_pcie_bottleneck_cores").map(words::whole);
    let (ports, bus) = (ports_limit(results, cell), slowest_limit(cell));
    let of = |(limit, stated, binds): (Option<Limit>, Option<String>, &str)| {
        let limit = limit?;
        let what = format!(
            "cores at which {} {binds} the limit, {}, computed",
            limit.name,
            cell.word("mode")
        );
        let stated = stated.unwrap_or_else(|| "-".to_owned());
        Some(vec![cell.device.to_owned(), what, cores_at(Some(limit), cell), stated])
    };
    [(ports, None, "become"), (bus, stated, "becomes")].into_iter().filter_map(of).collect()
}

/// Ours and the study's.
fn published(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for device in results.devices() {
        let all = study(results, device);
        for cell in &all {
            let (mode, stated) = (cell.word("mode"), flexnic::request_ns(&cell.word("mode")));
            rows.push(vec![
                device.to_owned(),
                format!("core time per request, {mode}"),
                worded(cell.estimate(REQUEST), words::time),
                stated.map_or("-".to_owned(), words::time),
            ]);
        }
        if !all.is_empty() {
            let lack = "not supported: latency of staged passes";
            let what = "latency of a request";
            rows.push(vec![device.to_owned(), what.into(), lack.into(), "-".into()]);
        }
        for cell in all.iter().filter(|cell| cell.word("mode") != PLAIN) {
            let mode = cell.word("mode");
            let (least, most) = flexnic::steering_gain().unwrap_or_default();
            let [least, most] = [least, most].map(words::significant);
            let gain = format!("{least} to {most} times that with rss");
            let less = of_plain(results, cell, REQUEST);
            let [with, plain] = [mode.as_str(), PLAIN].map(flexnic::request_ns);
            let stated_less = with.zip(plain).map(|(with, plain)| with / plain);
            let stated_less = stated_less.map(|ratio| words::percent(1.0 - ratio));
            let dash = || "-".to_owned();
            rows.push(vec![
                device.to_owned(),
                format!("throughput with {mode}"),
                ratio_words(of_plain(results, cell, ANSWERED), "times that with rss"),
                if mode == "steer" { gain.clone() } else { "-".to_owned() },
            ]);
            rows.push(vec![
                device.to_owned(),
                format!("core time with {mode}, against rss"),
                less.map_or_else(dash, |ratio| format!("{} less", words::percent_less(&ratio))),
                stated_less.map_or_else(dash, |less| format!("{less} less")),
            ]);
            if let Some(ratio) = modelled_gain(results, cell) {
                rows.push(vec![
                    device.to_owned(),
                    format!(
                        "throughput with {mode} on {} cores, modelled",
                        words::whole(STUDY_CORES)
                    ),
                    format!("{} times that with rss", words::significant(ratio)),
                    if mode == "steer" { gain } else { "-".to_owned() },
                ]);
            }
        }
        for cell in &all {
            rows.extend(published_limits(results, cell));
        }
    }
    let title = "Comparison with the study (FlexNIC, ASPLOS 2016: six cores of 2.2 GHz, a card \
                 emulated in software)";
    table(&id(results, "published"), title, &["device", "what", "here", "stated"], rows)
}

/// Cells of a mode with the study's workload in the longest bursts, by cores.
fn by_cores<'a>(results: &'a Results<'_>, device: &str, mode: &str) -> Vec<&'a Cell<'a>> {
    let mut all = cells(results, device);
    let burst = most(&all, "burst");
    all.retain(|cell| {
        is_study(cell) && cell.word("mode") == mode && cell.is_at(&[("burst", burst)])
    });
    all
}

/// Requests a second on so many cores by the model: where cores share items, what a request takes
/// more beside others grows with the share of items that another core had last; where each has
/// its own, it takes what it takes on most of those measured.
fn modelled(measured: &[&Cell<'_>], cores: f64) -> Option<f64> {
    let (alone, most) = (*measured.first()?, *measured.last()?);
    let (one, many) = (alone.number("cores")?, most.number("cores")?);
    if one != 1.0 || many <= one || alone.is_disturbed() || most.is_disturbed() {
        return None;
    }
    let [one_ns, many_ns] = [alone, most].map(|cell| cell.estimate(REQUEST).map(|of| of.median));
    let (one_ns, many_ns) = (one_ns?, many_ns?);
    Some(match alone.word("mode") == PLAIN {
        true => {
            let (with, before) = most.paired(alone, REQUEST);
            let more = with.iter().zip(before).map(|(with, before)| with - before);
            let more_ns = statistics::median(&more.collect::<Vec<_>>())?.max(0.0);
            modelled_pps(one_ns, more_ns * many / (many - 1.0), cores)
        }
        false => modelled_pps(many_ns, 0.0, cores),
    })
}

/// How a mode's throughput stands to that without help on the study's cores, by the model.
pub(crate) fn modelled_gain(results: &Results<'_>, cell: &Cell<'_>) -> Option<f64> {
    // What was measured is not computed as well.
    if cell.number("cores") >= Some(STUDY_CORES) {
        return None;
    }
    let of = |mode: &str| modelled(&by_cores(results, cell.device, mode), STUDY_CORES);
    Some(of(&cell.word("mode"))? / of(PLAIN)?)
}

/// All figures, those without a measured point left out.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let mut figures = vec![requests(results), gains(results), over_steps(results)];
    figures.extend(results.devices().map(|device| over_cores(results, device)));
    figures.retain(|figure| {
        let is_drawn = |series: &Series| series.origin == Origin::Measured;
        figure.series.iter().any(is_drawn)
    });
    figures
}

/// The number of a mode's hue on a device: one in all figures, whatever else they show.
fn hue(results: &Results<'_>, device: &str, mode: &str) -> u32 {
    let device = results.devices().position(|of| of == device).unwrap_or(0);
    (device * MODES.len() + mode_at(mode)) as u32
}

fn mode_at(mode: &str) -> usize {
    MODES.iter().position(|(name, _)| *name == mode).unwrap_or(0)
}

/// Adds a point to the series of this name, in the hue of a mode.
fn add_hued(
    series: &mut Vec<Series>,
    (origin, hue): (Origin, u32),
    name: String,
    device: &str,
    point: Mean,
) {
    add(series, origin, name.clone(), device, point);
    if let Some(of) = series.iter_mut().find(|of| of.name == name) {
        of.hue = Some(hue);
    }
}

/// The study's workload, mode by mode, beside the study.
fn requests(results: &Results<'_>) -> Figure {
    let mut series = Vec::new();
    for cell in results.devices().flat_map(|device| study(results, device)) {
        let Some(estimate) = cell.estimate(REQUEST) else { continue };
        let cores = words::whole(cell.number("cores").unwrap_or(0.0));
        let noun = if cores == "1" { "core" } else { "cores" };
        let (device, mode) = (cell.device, cell.word("mode"));
        let point = ordinal_point(cell, &estimate, format!("{device}, {cores} {noun}"), REQUEST);
        let look = (Origin::Measured, hue(results, device, &mode));
        add_hued(&mut series, look, format!("{device}, {mode}"), device, point);
    }
    for (mode, _) in MODES {
        let Some(stated) = flexnic::request_ns(mode) else { continue };
        let name = format!("FlexNIC, {mode} (published)");
        let hue = Some(mode_at(mode) as u32);
        series.push(Series { hue, ..flexnic::curve(&name, &[("FlexNIC, 6 cores", stated)]) });
    }
    Figure {
        id: figure_id(results, "request"),
        title: "Core time of the application per request".into(),
        caption: "The study's workload: 100,000 keys of 32 B, values of 64 B, nine gets to a set. \
                  Staged: without the card's own work."
            .into(),
        x: axis("store", "", Scale::Ordinal),
        y: axis("core time per request", "ns", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}

/// What help brings, workload by workload.
fn gains(results: &Results<'_>) -> Figure {
    let mut series = Vec::new();
    for cell in results.devices().flat_map(|device| largest(results, device)) {
        let Some(ratio) = of_plain(results, cell, ANSWERED) else { continue };
        let (device, mode) = (cell.device, cell.word("mode"));
        let point = ordinal_point(cell, &ratio, workload(cell), ANSWERED);
        let look = (Origin::Measured, hue(results, device, &mode));
        add_hued(&mut series, look, format!("{device}, {mode}"), device, point);
    }
    if let Some((least, most)) = flexnic::steering_gain() {
        let ends = flexnic::STUDY_ENDS.into_iter().zip([least, most]);
        series.extend(ends.map(|(name, gain)| flexnic::curve(name, &[("the study's", gain)])));
    }
    Figure {
        id: figure_id(results, "gain"),
        title: "Throughput gain by workload".into(),
        caption:
            "Throughput divided by that of rss at the same place, on the most cores measured. \
             Names are the difference from the study's workload. Published: the study's smallest \
             and largest gain of key steering."
                .into(),
        x: axis("workload", "", Scale::Ordinal),
        y: axis("throughput, times that with rss", "", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}

/// Where the time goes.
fn over_steps(results: &Results<'_>) -> Figure {
    let is_step = |cell: &Cell<'_>, name: &str| name != "reply" || !has_no_reply(cell);
    let mut series = Vec::new();
    for cell in results.devices().flat_map(|device| study(results, device)) {
        for (name, label) in STEPS.into_iter().filter(|(name, _)| is_step(cell, name)) {
            let metric = step_metric(name);
            let Some(estimate) = cell.estimate(&metric) else { continue };
            let (device, mode) = (cell.device, cell.word("mode"));
            let point = ordinal_point(cell, &estimate, label.to_owned(), &metric);
            let look = (Origin::Measured, hue(results, device, &mode));
            add_hued(&mut series, look, format!("{device}, {mode}"), device, point);
        }
    }
    Figure {
        id: figure_id(results, "steps"),
        title: "Time of a request by step".into(),
        caption:
            "The study's workload on the most cores measured. Each step of a burst is timed in \
             separate passes; the lock includes the wait for it. A mode without a reply step \
             writes answers as it carries requests out."
                .into(),
        x: axis("step", "", Scale::Ordinal),
        y: axis("core time per request", "ns", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}

/// All cores together, over their number, and what the bus carries.
fn over_cores(results: &Results<'_>, device: &str) -> Figure {
    let mut series = Vec::new();
    let all = MODES.map(|(mode, _)| (mode, by_cores(results, device, mode)));
    for (mode, measured) in &all {
        for cell in measured {
            if let Some(point) = cell.mean(ANSWERED, 1e-6, cell.number("cores").unwrap_or(0.0)) {
                let look = (Origin::Measured, hue(results, device, mode));
                add_hued(&mut series, look, format!("{device}, {mode}"), device, point);
            }
        }
    }
    for (mode, measured) in &all {
        let from = measured.last().and_then(|cell| cell.number("cores")).unwrap_or(0.0) as u32;
        let cores = std::iter::successors(Some(from.max(1)), |cores| Some(cores * 2));
        for cores in cores.take_while(|cores| *cores <= MODELLED_CORES_MAX).map(f64::from) {
            let Some(per_s) = modelled(measured, cores) else { continue };
            let name = format!("{device}, {mode}, modelled");
            let point = Mean { x: cores, y: per_s / 1e6, repeats: 1, ..Mean::default() };
            let look = (Origin::Computed, hue(results, device, mode));
            add_hued(&mut series, look, name, device, point);
        }
    }
    let mut limits = carried(&all);
    limits.extend(all.iter().find_map(|(_, measured)| ports_limit(results, measured.last()?)));
    for limit in limits {
        for cores in [1.0, f64::from(MODELLED_CORES_MAX)] {
            let at = (cores, limit.requests_per_s / 1e6);
            add_computed(&mut series, limit.name.clone(), device, at);
        }
    }
    let stated = flexnic::stated("kvs_pcie_bottleneck_cores").map(words::whole);
    let stated = stated.map_or(String::new(), |cores| {
        format!("; the study states that PCIe is the limit from {cores} cores")
    });
    Figure {
        id: format!("{}-{device}", figure_id(results, "cores")),
        title: format!("Requests a second over cores: {device}"),
        caption: format!(
            "The study's workload, staged. Modelled: computed beyond the cores measured. With rss \
             the time of a request grows with the share of items that another core used last; \
             with one owner per key it is constant. PCIe (the slowest of all profiles) and ports: \
             their computed limits{stated}."
        ),
        x: axis("cores", "", Scale::Log),
        y: axis("answered", "M/s", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}

/// What the slowest bus carries; modes of which it carries as many together.
fn carried(all: &[(&str, Vec<&Cell<'_>>)]) -> Vec<Limit> {
    let mut carried: Vec<(Vec<&str>, Limit)> = Vec::new();
    for (mode, measured) in all {
        let limit = measured.last().and_then(|cell| slowest_limit(cell));
        let Some(limit) = limit else { continue };
        let is_same = |known: &&mut (_, Limit)| known.1.requests_per_s == limit.requests_per_s;
        match carried.iter_mut().find(is_same) {
            Some((modes, _)) => modes.push(mode),
            None => carried.push((vec![mode], limit)),
        }
    }
    let named = |(modes, limit): (Vec<&str>, Limit)| Limit {
        name: format!("{}, {}", limit.name, modes.join(" and ")),
        ..limit
    };
    carried.into_iter().map(named).collect()
}
