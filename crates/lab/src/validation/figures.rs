//! The published figures, measured of a modelled card by the experiments that anybody runs.

use niclab_device::model::Model;
use niclab_result::Sample;

use super::{ValidationError, measure};
use crate::fit::published::{FRAME_BITS, stack_of};
use crate::fit::results::{medians, metric, number, word};
use crate::published::{PublishedCard, Row, rows};
use crate::spec::GridName;

/// A number of a figure, as published and as the model has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// `2a` to `6`.
    pub figure: &'static str,
    /// As the figure's legend says.
    pub series: String,
    /// In the unit of the figure's axis.
    pub x: f64,
    /// In the unit of the figure's axis; the time without a frame, seconds, in figure 3.
    pub published: f64,
    /// In the same unit.
    pub model: f64,
}

/// Length of a sample of the published figure 3, seconds.
pub const OUTAGE_RESOLUTION_S: f64 = 0.1;

/// Less than so many Gbps in a sample are none.
const NOTHING_GBPS: f64 = 5.0;

/// Repeats of a trial: models differ little from trial to trial.
const REPEATS: u32 = 3;

/// All figures of a card, by point. What the model does not support is left out.
///
/// # Errors
/// What is wrong with the experiments.
pub fn pairs(card: PublishedCard, model: &mut Model) -> Result<Vec<Pair>, ValidationError> {
    let all: Vec<Row<'static>> = rows(card).collect();
    let mut pairs = Vec::new();
    occupancy(&all, model, &mut pairs)?;
    batches(&all, model, &mut pairs)?;
    churn(&all, model, &mut pairs)?;
    insertions(&all, model, &mut pairs)?;
    changes(&all, model, &mut pairs)?;
    Ok(pairs)
}

fn samples(model: &mut Model, name: &str, set: &[String]) -> Result<Vec<Sample>, ValidationError> {
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    Ok(measure(model, name, GridName::Published, &set, Some(REPEATS))?.samples)
}

/// The medians of a figure's series.
fn of<'a>(all: &'a [Row<'static>], figure: &'a str) -> impl Iterator<Item = &'a Row<'static>> {
    all.iter().filter(move |row| row.figure == figure && row.statistic == "median")
}

fn places(all: &[Row<'static>], figures: &[&str]) -> Vec<f64> {
    let mut at: Vec<f64> =
        figures.iter().flat_map(|figure| of(all, figure)).map(|row| row.x).collect();
    at.sort_by(f64::total_cmp);
    at.dedup();
    at
}

fn listed(numbers: &[f64]) -> String {
    numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
}

/// Pairs a figure's points with those of the model that are at the same place.
fn pair(
    all: &[Row<'static>],
    figure: &'static str,
    pairs: &mut Vec<Pair>,
    model: impl Fn(&Row<'static>) -> Option<f64>,
) {
    let found = of(all, figure).filter_map(|row| {
        let (series, x, published) = (row.series.to_owned(), row.x, row.y);
        Some(Pair { figure, series, x, published, model: model(row)? })
    });
    pairs.extend(found);
}

/// Groups of a series: `Table 0`, `Table 1`, `Tables 1-16`.
fn groups_of(series: &str) -> f64 {
    match series {
        "Table 0" => 0.0,
        _ => series.rsplit('-').next().and_then(|count| count.parse().ok()).unwrap_or(1.0),
    }
}

/// Rules that stand for so many: the default ones are there in any case.
fn rules_of(groups: f64, rules: f64) -> f64 {
    rules.max(groups)
}

fn occupancy(
    all: &[Row<'static>],
    model: &mut Model,
    pairs: &mut Vec<Pair>,
) -> Result<(), ValidationError> {
    let mut seen: Vec<Sample> = Vec::new();
    for (groups, figures) in
        [(vec![0.0], ["2a", "2c"]), (vec![1.0, 2.0, 4.0, 8.0, 16.0], ["2b", "2d"])]
    {
        let rules = places(all, &figures);
        for groups in groups.into_iter().filter(|_| !rules.is_empty()) {
            let rules: Vec<f64> = rules.iter().map(|rules| rules_of(groups, *rules)).collect();
            let set = [format!("groups={groups}"), format!("rules={}", listed(&rules))];
            let set = [&set[..], &["frame=1500".to_owned()]].concat();
            seen.extend(samples(model, "occupancy", &set)?);
        }
    }
    let all_seen: Vec<&Sample> = seen.iter().collect();
    let by = |trial: &str, name: &str| {
        medians(&all_seen, |sample| {
            (sample.trial == trial).then_some(())?;
            Some(((number(sample, "groups")?, number(sample, "rules")?), metric(sample, name)?))
        })
    };
    let (throughput, latency) = (by("saturate", "throughput_pps"), by("fixed", "latency_ns_p50"));
    let at = |values: &[((f64, f64), f64)], row: &Row<'_>| {
        let groups = groups_of(row.series);
        let place = (groups, rules_of(groups, row.x));
        values.iter().find(|(of, _)| *of == place).map(|(_, value)| *value)
    };
    for figure in ["2a", "2b"] {
        pair(all, figure, pairs, |row| Some(at(&throughput, row)? * FRAME_BITS / 1e9));
    }
    for figure in ["2c", "2d"] {
        pair(all, figure, pairs, |row| Some(at(&latency, row)? / 1e3));
    }
    Ok(())
}

fn batches(
    all: &[Row<'static>],
    model: &mut Model,
    pairs: &mut Vec<Pair>,
) -> Result<(), ValidationError> {
    for (figure, group, core) in
        [("3a", 0, "same"), ("3b", 1, "same"), ("3c", 0, "distinct"), ("3d", 1, "distinct")]
    {
        let of_figure = || all.iter().filter(|row| row.figure == figure);
        // More than the root table takes: how the study went on is not said.
        let largest = if group == 0 { "10000" } else { "10000,100000" };
        if of_figure().next().is_none() {
            continue;
        }
        let set = [
            format!("group={group}"),
            format!("batch=1,1000,{largest}"),
            format!("core={core}"),
            "slice=all".to_owned(),
            "frame=1500".to_owned(),
        ];
        let seen = samples(model, "update-batch", &set)?;
        let seen: Vec<&Sample> = seen.iter().collect();
        let outages = medians(&seen, |sample| {
            (sample.trial == "batch").then_some(())?;
            Some((number(sample, "batch")?, metric(sample, "outage_ns")? / 1e9))
        });
        for (batch, model) in outages {
            let name = match batch as u64 {
                1 => "-1 Rule".to_owned(),
                rules => format!("-{}k Rules", rules / 1_000),
            };
            let curve = of_figure().filter(|row| row.series.ends_with(&name));
            let dead = curve.filter(|row| row.y < NOTHING_GBPS).count();
            let published = dead as f64 * OUTAGE_RESOLUTION_S;
            let series = name.trim_start_matches('-').to_owned();
            pairs.push(Pair { figure, series, x: batch, published, model });
        }
    }
    Ok(())
}

fn churn(
    all: &[Row<'static>],
    model: &mut Model,
    pairs: &mut Vec<Pair>,
) -> Result<(), ValidationError> {
    for (group, rules, throughput, latency) in [(0, "10k", "4a", "4c"), (1, "64k", "4b", "4d")] {
        let rates = places(all, &[throughput]);
        if rates.is_empty() {
            continue;
        }
        let set = [
            format!("group={group}"),
            format!("rules={rules}"),
            format!("per_s={}", listed(&rates)),
            "core=same,distinct".to_owned(),
            "slice=tick".to_owned(),
            "frame=1500".to_owned(),
        ];
        let seen = samples(model, "update-rate", &set)?;
        let seen: Vec<&Sample> = seen.iter().collect();
        let by = |name: &str| {
            medians(&seen, |sample| {
                (sample.trial == "saturate").then_some(())?;
                let is_same = word(sample, "core")? == "same";
                Some(((number(sample, "per_s")?, is_same), metric(sample, name)?))
            })
        };
        let at = |values: &[((f64, bool), f64)], row: &Row<'_>| {
            let place = (row.x, row.series == "Same Core");
            values.iter().find(|(of, _)| *of == place).map(|(_, value)| *value)
        };
        let (pps, ns) = (by("throughput_pps"), by("latency_ns_mean"));
        pair(all, throughput, pairs, |row| Some(at(&pps, row)? * FRAME_BITS / 1e9));
        pair(all, latency, pairs, |row| Some(at(&ns, row)? / 1e3));
    }
    Ok(())
}

fn insertions(
    all: &[Row<'static>],
    model: &mut Model,
    pairs: &mut Vec<Pair>,
) -> Result<(), ValidationError> {
    for (figure, group) in [("5a", 0), ("5b", 1), ("5c", 1), ("5d", 1)] {
        let rules = places(all, &[figure]);
        let mut stacks: Vec<&str> = of(all, figure)
            .filter_map(|row| stack_of(row.series))
            .map(|(stack, _)| stack)
            .collect();
        stacks.sort_unstable();
        stacks.dedup();
        if rules.is_empty() {
            continue;
        }
        let actions = match figure {
            "5d" => "queue,mark+queue,mark+set_meta+queue,mark+set_meta+set_tag+queue",
            _ => "queue",
        };
        let set = [
            format!("group={group}"),
            format!("rules={}", listed(&rules)),
            format!("stack={}", stacks.join(",")),
            format!("actions={actions}"),
            "calls=single".to_owned(),
        ];
        let seen = samples(model, "rule-rate", &set)?;
        let seen: Vec<&Sample> = seen.iter().collect();
        let rates = |stack: &str, count: usize| {
            medians(&seen, |sample| {
                let actions = word(sample, "actions")?.split('+').count();
                (word(sample, "stack")? == stack && actions == count).then_some(())?;
                Some((number(sample, "rules")?, metric(sample, "operations_per_s")? / 1e3))
            })
        };
        pair(all, figure, pairs, |row| {
            let (stack, actions) = stack_of(row.series)?;
            let rates = rates(stack, actions);
            rates.iter().find(|(rules, _)| *rules == row.x).map(|(_, rate)| *rate)
        });
    }
    Ok(())
}

fn changes(
    all: &[Row<'static>],
    model: &mut Model,
    pairs: &mut Vec<Pair>,
) -> Result<(), ValidationError> {
    let rules = places(all, &["6"]);
    if rules.is_empty() {
        return Ok(());
    }
    let set = [format!("rules={}", listed(&rules)), "change=actions,anew".to_owned()];
    let seen = samples(model, "rule-update", &set)?;
    let seen: Vec<&Sample> = seen.iter().collect();
    let rates = medians(&seen, |sample| {
        let in_place = word(sample, "change")? == "actions";
        let rate = metric(sample, "operations_per_s")? / 1e3;
        Some(((number(sample, "rules")?, in_place), rate))
    });
    pair(all, "6", pairs, |row| {
        let place = (row.x, row.series == "Update - In-memory");
        rates.iter().find(|(of, _)| *of == place).map(|(_, rate)| *rate)
    });
    Ok(())
}
