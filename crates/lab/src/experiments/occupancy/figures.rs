//! The figures of the occupancy experiment: medians with their intervals, published curves beside.

pub(crate) use super::tables::tables;
use niclab_device::Latency;
use niclab_result::{Axis, Figure, Mean, Origin, Scale, Series, SeriesShape};

use super::analysis::{flows_common, rate_words};
use crate::cells::Cell;
use crate::measure::DEVICE_TIME;
use crate::published::PublishedCard;
use crate::spec::TrialKind;
use crate::summary::curves::axis;
use crate::summary::frames::frame_words;
use crate::summary::{FoundKnee, Results};
use crate::{published, words};

/// Points of a cumulative distribution.
const CDF_POINTS: usize = 120;

/// Shares that have a point of their own in a cumulative distribution: a reader looks for them.
const CDF_SHARES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// All figures, those without a measured point left out.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let mut figures = match results.run.rules {
        None => over_rules(results),
        // A file is one set of rules: there is no curve over them.
        Some(_) => vec![latency_cdf(results), throughput_flows(results)],
    };
    let is_measured = |figure: &Figure| {
        figure
            .series
            .iter()
            .any(|series| series.origin != Origin::Published && !series.points.is_empty())
    };
    figures.retain(is_measured);
    figures
}

/// Those of rules that the experiment generates.
fn over_rules(results: &Results<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for frame in frames(results) {
        figures.push(throughput_root(results, &frame));
        figures.push(throughput_groups(results, &frame));
    }
    figures.push(throughput_chain(results));
    figures.push(device_time_root(results));
    figures.push(device_time_groups(results));
    figures.push(latency_root(results));
    figures.push(latency_groups(results));
    figures.push(latency_cdf(results));
    figures.push(throughput_flows(results));
    figures.push(throughput_match(results));
    figures
}

/// Frame sizes that were measured, in the order of the sweep.
pub(crate) fn frames(results: &Results<'_>) -> Vec<String> {
    let mut frames = Vec::new();
    for trial in &results.experiment.trials {
        let frame = trial.point.get("frame").map(ToString::to_string).unwrap_or_default();
        if !frames.contains(&frame) {
            frames.push(frame);
        }
    }
    frames
}

/// Frames a second for small frames; bits a second for 1500 B, as the publication has it.
struct Unit {
    metric: &'static str,
    scale: f64,
    axis: Axis,
}

fn unit(frame: &str) -> Unit {
    if frame == "1500" {
        let axis = axis("throughput, L2", "Gbps", Scale::Linear);
        return Unit { metric: "throughput_gbps_l2", scale: 1.0, axis };
    }
    let axis = axis("throughput", "Mpps", Scale::Linear);
    Unit { metric: "throughput_pps", scale: 1e-6, axis }
}

/// A measured curve over `x`, its points by ascending x; `None` where it has none.
fn curve<'a>(
    name: String,
    device: &str,
    shape: SeriesShape,
    cells: impl Iterator<Item = &'a Cell<'a>>,
    mean: impl Fn(&Cell<'_>) -> Option<Mean>,
) -> Option<Series> {
    let mut points: Vec<Mean> = cells.filter_map(mean).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let device = device.to_string();
    (!points.is_empty()).then_some(Series {
        name,
        device,
        origin: Origin::Measured,
        shape,
        hue: None,
        points,
    })
}

fn throughput_root(results: &Results<'_>, frame: &str) -> Figure {
    let (unit, flows) = (unit(frame), flows_common(results));
    let place = [("groups", 0.0), ("match_percent", 0.0), ("flows", flows)];
    let mut series: Vec<Series> = results
        .devices()
        .filter_map(|device| {
            let cells = results.cells.of(device, "saturate");
            let cells = cells.filter(|c| c.is_at(&place) && c.word("frame") == frame);
            curve(device.into(), device, SeriesShape::Line, cells, |cell| {
                cell.mean(unit.metric, unit.scale, cell.number("rules")?)
            })
        })
        .collect();
    let mut caption = format!(
        "Saturating load of {}, {} that can match only the default rule. {CALM}",
        frame_words(frame),
        words::counted(flows, "flow")
    );
    if frame == "1500" {
        let figure = published::Figure::ThroughputRoot;
        series.extend(published::without_boxes(published::series(figure, results.run.card, 1.0)));
        caption.push_str(PUBLISHED_GBPS);
    }
    let knees = results.knees.iter().filter(|k| k.is_of_misses() && k.frame == frame);
    let knees = knees.filter(|k| k.knee.spec.groups == 0);
    Figure {
        id: format!("occupancy-throughput-group0-{frame}"),
        title: format!("Throughput over rules in group 0, {}", frame_words(frame)),
        caption,
        x: axis("rules in group 0", "", Scale::Linear),
        y: unit.axis,
        series,
        knees: knees.filter_map(FoundKnee::drawn).collect(),
    }
}

/// Which maximum the rate of the latencies is a share of.
const SAME_RATE: &str = "All points of a device have one rate: the maximum is that with the \
                         fewest rules in the most groups, in the first repeat.";

/// Which part of a trial a throughput is of.
const CALM: &str = "Throughput of the 1 ms slices without a stall of the machine. Points with \
                    fewer than a fifth of such slices show all slices and are marked disturbed.";

const PUBLISHED_GBPS: &str = " Published: a card on a 100 Gbps link, 1500 B frames, PAM 2021, \
    median with p1 to p99; the paper does not say whether its Gbps are L1 or L2.";

/// Numbers at `axis` among the cells of `trial`, ascending.
fn numbers(results: &Results<'_>, trial: &str, axis: &str) -> Vec<f64> {
    let of = results.cells.all().iter().filter(|cell| cell.trial == trial);
    let mut numbers: Vec<f64> = of.filter_map(|cell| cell.number(axis)).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    numbers
}

fn throughput_groups(results: &Results<'_>, frame: &str) -> Figure {
    let (unit, flows) = (unit(frame), flows_common(results));
    let mut series = Vec::new();
    for device in results.devices() {
        for groups in numbers(results, "saturate", "groups").into_iter().filter(|g| *g > 0.0) {
            let place = [("groups", groups), ("match_percent", 0.0), ("flows", flows)];
            let cells = results.cells.of(device, "saturate");
            let cells = cells.filter(|c| c.is_at(&place) && c.word("frame") == frame);
            let name = groups_name(device, groups);
            series.extend(curve(name, device, SeriesShape::Line, cells, |cell| {
                cell.mean(unit.metric, unit.scale, cell.number("rules")?)
            }));
        }
    }
    let mut caption = format!(
        "Saturating load of {} that pass all groups and match only the default rules; the rules \
         are spread evenly over the groups. {CALM}",
        frame_words(frame)
    );
    if frame == "1500" {
        let figure = published::Figure::ThroughputGroups;
        series.extend(published::without_boxes(published::series(figure, results.run.card, 1.0)));
        caption.push_str(PUBLISHED_GBPS);
    }
    let knees = results.knees.iter().filter(|k| k.is_of_misses() && k.frame == frame);
    let knees = knees.filter(|k| k.knee.spec.groups > 0);
    Figure {
        id: format!("occupancy-throughput-groups-{frame}"),
        title: format!("Throughput over rules in non-root groups, {}", frame_words(frame)),
        caption,
        x: axis("rules over all non-root groups", "", Scale::Symlog),
        y: unit.axis,
        series,
        knees: knees.filter_map(FoundKnee::drawn).collect(),
    }
}

fn groups_name(device: &str, groups: f64) -> String {
    format!("{device}, {}", words::groups(groups))
}

/// Throughput over the length of the chain, at the number of rules with most lengths measured.
fn throughput_chain(results: &Results<'_>) -> Figure {
    let (frame, flows) = (first(results), flows_common(results));
    let is_at = |cell: &Cell<'_>, rules: f64| {
        cell.is_at(&[("rules", rules), ("match_percent", 0.0), ("flows", flows)])
            && cell.word("frame") == frame
            && cell.number("groups") > Some(0.0)
    };
    let lengths = |rules: &f64| {
        let of = results.cells.all().iter().filter(|cell| cell.trial == "saturate");
        of.filter(|cell| is_at(cell, *rules)).count()
    };
    let rules = numbers(results, "saturate", "rules").into_iter().max_by_key(lengths);
    let rules = rules.unwrap_or(0.0);
    let series = results.devices().filter_map(|device| {
        let cells = results.cells.of(device, "saturate").filter(|cell| is_at(cell, rules));
        curve(device.into(), device, SeriesShape::Line, cells, |cell| {
            cell.mean("throughput_pps", 1e-6, cell.number("groups")?)
        })
    });
    Figure {
        id: "occupancy-throughput-chain".into(),
        title: "Throughput over the number of chained groups".into(),
        caption: format!(
            "{} in all, spread evenly; saturating load of {} that pass every group. {CALM}",
            words::rules(rules),
            frame_words(&frame)
        ),
        x: axis("non-root groups", "", Scale::Log),
        y: axis("throughput", "Mpps", Scale::Linear),
        series: series.filter(|series| series.points.len() > 1).collect(),
        knees: Vec::new(),
    }
}

/// What a figure of the device's own time shows.
fn device_time_caption(frame: &str) -> String {
    format!(
        "Busy time of the device's core per frame, at a saturating load of {} that match only \
         default rules. It does not depend on the speed of the generator. If the core is partly \
         idle, its bursts are not full, and the time is an upper bound of the cost at saturation. \
         Repeats in which the core stalled for more than a quarter of that time are left out; \
         long turns count as stalls.",
        frame_words(frame)
    )
}

/// Where throughput shows the generator, this shows the device.
fn device_time_root(results: &Results<'_>) -> Figure {
    let (frame, flows) = (first(results), flows_common(results));
    let place = [("groups", 0.0), ("match_percent", 0.0), ("flows", flows)];
    let series = results.devices().filter_map(|device| {
        let cells = results.cells.of(device, "saturate");
        let cells = cells.filter(|c| c.is_at(&place) && c.word("frame") == frame);
        curve(device.into(), device, SeriesShape::Line, cells, |cell| {
            cell.mean(DEVICE_TIME, 1.0, cell.number("rules")?)
        })
    });
    Figure {
        id: "occupancy-device-time-group0".into(),
        title: "Device time per frame over rules in group 0".into(),
        caption: device_time_caption(&frame),
        x: axis("rules in group 0", "", Scale::Linear),
        y: axis("device time per frame", "ns", Scale::Linear),
        // A device without rules has one point, which may lie far off the curves of the others.
        series: series.filter(|series| series.points.len() > 1).collect(),
        knees: Vec::new(),
    }
}

fn device_time_groups(results: &Results<'_>) -> Figure {
    let (frame, flows) = (first(results), flows_common(results));
    let mut series = Vec::new();
    for device in results.devices() {
        for groups in numbers(results, "saturate", "groups").into_iter().filter(|g| *g > 0.0) {
            let place = [("groups", groups), ("match_percent", 0.0), ("flows", flows)];
            let cells = results.cells.of(device, "saturate");
            let cells = cells.filter(|c| c.is_at(&place) && c.word("frame") == frame);
            let name = groups_name(device, groups);
            series.extend(curve(name, device, SeriesShape::Line, cells, |cell| {
                cell.mean(DEVICE_TIME, 1.0, cell.number("rules")?)
            }));
        }
    }
    Figure {
        id: "occupancy-device-time-groups".into(),
        title: "Device time per frame over rules in non-root groups".into(),
        caption: device_time_caption(&frame),
        x: axis("rules over all non-root groups", "", Scale::Symlog),
        y: axis("device time per frame", "ns", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}

fn latency_root(results: &Results<'_>) -> Figure {
    let flows = flows_common(results);
    let place = [("groups", 0.0), ("match_percent", 0.0), ("flows", flows)];
    let mut series = Vec::new();
    for device in results.devices() {
        for kind in [TrialKind::LATENCY, TrialKind::LIGHT] {
            let cells = results.cells.of(device, kind.name());
            let cells = cells.filter(|c| c.is_at(&place) && c.word("frame") == first(results));
            let name = format!("{device}, {}", rate_words(results, kind));
            series.extend(curve(name, device, SeriesShape::Box, cells, |cell| {
                cell.latency_box(results.latencies, 1e-3, cell.number("rules")?)
            }));
        }
    }
    series.extend(published::series(published::Figure::LatencyRoot, results.run.card, 1.0));
    Figure {
        id: "occupancy-latency-group0".into(),
        title: "Latency over rules in group 0".into(),
        caption: format!(
            "From the planned departure to the sink, open loop; all repeats in one histogram. \
             {SAME_RATE}{}",
            published_latency(results.run.card)
        ),
        x: axis("rules in group 0", "", Scale::Linear),
        y: axis("latency", "us", Scale::Log),
        series,
        knees: Vec::new(),
    }
}

/// The smallest frame size of the sweep stands first in its file.
fn first(results: &Results<'_>) -> String {
    frames(results).into_iter().next().unwrap_or_default()
}

fn published_latency(card: PublishedCard) -> String {
    format!(" {}: 5 Mpps of 1500 B frames on a 100 Gbps link, PAM 2021.", card.label())
}

fn latency_groups(results: &Results<'_>) -> Figure {
    let flows = flows_common(results);
    let mut series = Vec::new();
    for device in results.devices() {
        for groups in [1.0, 16.0] {
            let place = [("groups", groups), ("match_percent", 0.0), ("flows", flows)];
            let cells = results.cells.of(device, "latency");
            let cells = cells.filter(|c| c.is_at(&place) && c.word("frame") == first(results));
            let name = groups_name(device, groups);
            series.extend(curve(name, device, SeriesShape::Box, cells, |cell| {
                cell.latency_box(results.latencies, 1e-3, cell.number("rules")?)
            }));
        }
    }
    series.extend(published::series(published::Figure::LatencyGroups, results.run.card, 1.0));
    Figure {
        id: "occupancy-latency-groups".into(),
        title: "Latency over rules in non-root groups".into(),
        caption: format!(
            "From the planned departure to the sink, open loop at {}. {SAME_RATE}{}",
            rate_words(results, TrialKind::LATENCY),
            published_latency(results.run.card)
        ),
        x: axis("rules over all non-root groups", "", Scale::Symlog),
        y: axis("latency", "us", Scale::Log),
        series,
        knees: Vec::new(),
    }
}

fn latency_cdf(results: &Results<'_>) -> Figure {
    let place = [("groups", 0.0), ("match_percent", 0.0), ("flows", flows_common(results))];
    let mut series = Vec::new();
    for device in results.devices() {
        let cells = results.cells.of(device, "latency");
        let mut cells: Vec<&Cell<'_>> =
            cells.filter(|c| c.is_at(&place) && c.word("frame") == first(results)).collect();
        cells.sort_by(|a, b| f64::total_cmp(&rules(a), &rules(b)));
        let ends = cells.first().into_iter().chain(cells.last().filter(|_| cells.len() > 1));
        for cell in ends {
            let Some(latency) = cell.latency(results.latencies) else {
                continue;
            };
            series.push(Series {
                name: format!("{device}, {}", words::rules(rules(cell))),
                device: device.into(),
                origin: Origin::Measured,
                shape: SeriesShape::Cdf,
                hue: None,
                points: distribution(&latency, cell),
            });
        }
    }
    let title = match results.run.rules {
        None => "Distribution of the latency, group 0 empty and full",
        Some(_) => "Distribution of the latency",
    };
    Figure {
        id: "occupancy-latency-cdf".into(),
        title: title.into(),
        caption: format!(
            "Open loop at {}; all repeats together. {SAME_RATE}",
            rate_words(results, TrialKind::LATENCY)
        ),
        x: axis("latency", "us", Scale::Log),
        y: axis("share of the frames", "", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}

fn rules(cell: &Cell<'_>) -> f64 {
    cell.number("rules").unwrap_or(0.0)
}

/// Quantiles of a distribution, closer together towards its upper end. Those that a reader looks
/// for carry the marks of the repeats.
fn distribution(latency: &Latency, cell: &Cell<'_>) -> Vec<Mean> {
    let (repeats, marks) = (cell.samples.len() as u32, cell.marks("latency_ns_p50"));
    let left_out = |step| 1.0 - step as f64 / CDF_POINTS as f64;
    let mut shares: Vec<f64> = (0..=CDF_POINTS).map(|step| 1.0 - left_out(step).powi(2)).collect();
    shares.extend(CDF_SHARES);
    shares.sort_by(f64::total_cmp);
    let mut points: Vec<Mean> = Vec::new();
    for y in shares {
        let x = latency.0.value_at_quantile(y) as f64 / 1e3;
        // Of equal latencies the last stands for all: a distribution is a function of x.
        let same = points.pop_if(|last| last.x == x);
        let is_marked = CDF_SHARES.contains(&y) || same.is_some_and(|of| !of.marks.is_empty());
        let marks = if is_marked { marks.clone() } else { Vec::new() };
        points.push(Mean { x, y, repeats, marks, ..Mean::default() });
    }
    points
}

fn throughput_flows(results: &Results<'_>) -> Figure {
    let frame = first(results);
    let mut series = Vec::new();
    for device in results.devices() {
        for rules in numbers(results, "saturate", "rules") {
            let place = [("groups", 0.0), ("match_percent", 0.0), ("rules", rules)];
            let cells = results.cells.of(device, "saturate");
            let cells = cells.filter(|c| c.is_at(&place) && c.word("frame") == frame);
            let name = format!("{device}, {}", words::rules(rules));
            series.extend(curve(name, device, SeriesShape::Line, cells, |cell| {
                cell.mean("throughput_pps", 1e-6, cell.number("flows")?)
            }));
        }
    }
    series.retain(|series| series.points.len() > 1);
    let place = match results.run.rules {
        None => "rules in group 0",
        Some(_) => "with the rules of the file",
    };
    Figure {
        id: "occupancy-throughput-flows".into(),
        title: "Throughput over the number of flows".into(),
        caption: format!("Saturating load of {}, {place}. {CALM}", frame_words(&frame)),
        x: axis("flows", "", Scale::Log),
        y: axis("throughput", "Mpps", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}

/// Throughput over the share of the traffic that matches, hits uniform over all rules.
fn throughput_match(results: &Results<'_>) -> Figure {
    let flows = flows_common(results);
    let mut series = Vec::new();
    for device in results.devices() {
        let of = |cell: &&Cell<'_>| {
            let without = cell.is_at(&[("match_percent", 0.0), ("flows", flows)]);
            cell.word("frame") == first(results) && (without || cell.word("hits") == "rules")
        };
        for groups in numbers(results, "saturate", "groups") {
            for rules in numbers(results, "saturate", "rules") {
                let place = [("groups", groups), ("rules", rules)];
                let cells = results.cells.of(device, "saturate").filter(of);
                let cells = cells.filter(|c| c.is_at(&place));
                let group = match groups {
                    0.0 => "group 0".into(),
                    groups => words::counted(groups, "group"),
                };
                let name = format!("{device}, {group}, {}", words::rules(rules));
                series.extend(curve(name, device, SeriesShape::Line, cells, |cell| {
                    cell.mean("throughput_pps", 1e-6, cell.number("match_percent")?)
                }));
            }
        }
    }
    series.retain(|series: &Series| series.points.len() > 1);
    Figure {
        id: "occupancy-throughput-match".into(),
        title: "Throughput over the share of traffic that matches a rule".into(),
        caption: format!(
            "Saturating load; the matching frames hit all rules equally often, the others only \
             the default rules. More rules hit means more flows sent. {CALM}"
        ),
        x: axis("traffic that matches a rule", "%", Scale::Linear),
        y: axis("throughput", "Mpps", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}
