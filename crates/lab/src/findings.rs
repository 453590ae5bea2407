//! Sentences that the data support, each with its number, its interval and what follows from it.
//!
//! A finding that the data do not support does not appear. A figure that shows the generator's
//! limit is never called the device's: the sentence says "at least", and no ratio is taken from it,
//! for it could come out too good. There the time that the device's core was busy tells what a
//! frame costs, where the device tells it.

pub(crate) mod applications;
pub(crate) mod batches;
pub(crate) mod changes;
pub(crate) mod exchanges;
pub(crate) mod features;
pub(crate) mod frame_sizes;
pub(crate) mod insertions;
pub(crate) mod kvs;
pub(crate) mod ledgers;
pub(crate) mod placements;
pub(crate) mod programs;
pub(crate) mod renewals;
pub(crate) mod respreads;
pub(crate) mod scalings;
pub(crate) mod spreads;
pub(crate) mod streams;
mod throughput;

use niclab_result::{Finding, Quantity};

use crate::cells::{Cell, paired};
use crate::knee::{self, Found};
use crate::measure::DEVICE_TIME;
use crate::spec::{KneeKind, TrialKind};
use crate::statistics::{self, Estimate};
use crate::summary::figures::{a_frame, flows_common, frame_words, knee_figure, rate_words};
use crate::summary::{FoundKnee, Results};
use crate::words;

/// A sentence about a device, with its number: the median of an estimate and its interval, unless
/// that has no width and is known exactly.
fn told(
    device: &str,
    id: String,
    (e, unit): (&Estimate, &str),
    (sentence, implication): (String, &str),
    figure: Option<String>,
) -> Finding {
    Finding {
        id: format!("{device}-{id}"),
        sentence,
        value: Quantity { value: e.median, unit: unit.into() },
        interval: e.interval().filter(|(low, high)| low < high),
        implication: implication.into(),
        figure,
        device: device.to_owned(),
    }
}

/// A ratio whose interval lies within this distance of 1 shows that there is no cost worth naming.
const NO_COST: f64 = 0.1;

/// A ratio of times from here on is told as a factor, below as a percentage.
const FACTOR_MIN: f64 = 2.0;

/// What follows where an interval includes no difference.
const MORE_REPEATS: &str = " Whether there is a difference takes more repeats or a calmer machine.";

/// Fewest repeats from which anything is concluded.
const REPEATS_MIN: usize = 3;

/// The findings of the occupancy experiment, device by device.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let about: [fn(&Subject<'_>) -> Option<Finding>; 15] = [
        maximum,
        throughput::searched,
        usable_share,
        usable_share_hit,
        capacity,
        full_table,
        full_table_hit,
        full_group,
        chain,
        chain_hits,
        latency_p50,
        latency_p99,
        rule_memory,
        matching,
        frame_size,
    ];
    let mut findings = Vec::new();
    for device in results.devices() {
        let subject = Subject { results, device, flows: flows_common(results) };
        findings.extend(about.iter().filter_map(|find| find(&subject)));
    }
    findings
}

/// A device, and where its data are.
struct Subject<'a> {
    results: &'a Results<'a>,
    device: &'a str,
    flows: f64,
}

/// What a finding says.
struct Said {
    id: &'static str,
    sentence: String,
    value: f64,
    unit: &'static str,
    interval: Option<(f64, f64)>,
    implication: String,
    figure: Option<String>,
}

impl<'a> Subject<'a> {
    fn finding(&self, said: Said) -> Finding {
        Finding {
            id: format!("{}-{}", self.device, said.id),
            sentence: said.sentence,
            value: Quantity { value: said.value, unit: said.unit.into() },
            // What has no width is known exactly.
            interval: said.interval.filter(|(low, high)| low < high),
            implication: said.implication,
            figure: said.figure,
            device: self.device.to_string(),
        }
    }

    /// Cells of the sweep over rules: the published case, small frames.
    fn sweep(&self, trial: &'a str, groups: f64) -> Vec<&'a Cell<'a>> {
        let place = [("groups", groups), ("match_percent", 0.0), ("flows", self.flows)];
        let mut cells: Vec<&Cell<'_>> = self
            .results
            .cells
            .of(self.device, trial)
            .filter(|cell| cell.is_at(&place) && cell.word("frame") == self.frame())
            .filter(|cell| !cell.is_refused())
            .collect();
        cells.sort_by(|a, b| f64::total_cmp(&rules(a), &rules(b)));
        cells
    }

    /// Cells whose traffic hits all rules equally often, by rules.
    fn hits(&self, trial: &'a str) -> Vec<&'a Cell<'a>> {
        let cells = self.results.cells.of(self.device, trial).filter(|cell| {
            cell.is_at(&[("match_percent", 100.0)])
                && cell.word("hits") == "rules"
                && cell.word("frame") == self.frame()
                && !cell.is_refused()
        });
        let mut cells: Vec<&Cell<'_>> = cells.collect();
        cells.sort_by(|a, b| f64::total_cmp(&rules(a), &rules(b)));
        cells
    }

    /// 64 B where they were measured, else what was.
    fn frame(&self) -> String {
        let frames = self.results.experiment.trials.iter().filter_map(|t| t.point.get("frame"));
        let mut frames: Vec<String> = frames.map(ToString::to_string).collect();
        frames.sort_by_key(|frame| frame != "64");
        frames.into_iter().next().unwrap_or_default()
    }

    /// The emptiest and the fullest cell of the sweep.
    fn ends(&self, trial: &'a str, groups: f64) -> Option<(&'a Cell<'a>, &'a Cell<'a>)> {
        let cells = self.sweep(trial, groups);
        let (first, last) = (*cells.first()?, *cells.last()?);
        (rules(last) > rules(first)).then_some((first, last))
    }
}

fn rules(cell: &Cell<'_>) -> f64 {
    cell.number("rules").unwrap_or(0.0)
}

fn rules_words(cell: &Cell<'_>) -> String {
    match rules(cell) {
        0.0 => "no rule".into(),
        1.0 => "one rule".into(),
        rules => words::rules(rules),
    }
}

/// What a ratio shows, as far as it shows anything.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// The interval lies close around 1.
    NoCost,
    /// The interval does not hold 1.
    Differs,
}

fn verdict(ratio: &Estimate) -> Option<Verdict> {
    if ratio.repeats < REPEATS_MIN {
        return None;
    }
    if ratio.low > 1.0 - NO_COST && ratio.high < 1.0 + NO_COST {
        return Some(Verdict::NoCost);
    }
    (ratio.high < 1.0 || ratio.low > 1.0).then_some(Verdict::Differs)
}

/// What follows from the time that a transaction takes, by that of single calls.
fn of_transaction(ratio: &Estimate) -> Option<&'static str> {
    Some(match (verdict(ratio)?, ratio.median > 1.0) {
        (Verdict::NoCost, _) => "That no packet meets half of a change costs hardly anything.",
        (Verdict::Differs, true) => "This is the price of no packet meeting half of a change.",
        (Verdict::Differs, false) => "That no packet meets half of a change costs nothing.",
    })
}

/// `the core that forwards`, or `another core`.
fn core_words(cell: &Cell<'_>) -> &'static str {
    match cell.word("core").as_str() {
        "same" => "the core that forwards",
        _ => "another core",
    }
}

/// Throughput of the emptiest table, or with the rules of a file.
fn maximum(s: &Subject<'_>) -> Option<Finding> {
    let cell = s.sweep("saturate", 0.0).first().copied().filter(|cell| !cell.is_disturbed())?;
    let e = cell.estimate("throughput_pps")?;
    let of_file = s.results.run.rules.as_ref();
    let place = match of_file {
        None => rules_words(cell),
        Some(file) => {
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            format!("the {} of {name}, {} flows", words::rules(rules(cell)), words::whole(s.flows))
        }
    };
    let dropped = cell.estimate("dropped_ratio").map_or(0.0, |ratio| ratio.median);
    let (verb, rest) = match dropped > 0.0 {
        false => ("forwards", String::new()),
        true => {
            ("deals with", format!(" It drops {} of the frames, as told.", words::percent(dropped)))
        }
    };
    let (bound, implication) = if cell.is_generator_limited() {
        (" at least", "The generator was the limit; the device can do more or as much.")
    } else if of_file.is_some() {
        ("", "Compare it with what the same traffic costs without rules.")
    } else {
        ("", "This is what all shares below are shares of.")
    };
    Some(s.finding(Said {
        id: "maximum",
        sentence: format!(
            "{} {verb}{bound} {} in {} with {place}{}.{rest}",
            s.device,
            words::pps(e.median),
            frame_words(&s.frame()),
            words::few(&e)
        ),
        value: e.median,
        unit: "pps",
        interval: e.interval(),
        implication: implication.into(),
        // A file is one set of rules: there is no curve over them.
        figure: of_file.is_none().then(|| figure_of(s, "throughput-group0")).flatten(),
    }))
}

fn figure_of(s: &Subject<'_>, name: &str) -> Option<String> {
    Some(format!("occupancy-{name}-{}", s.frame()))
}

/// The knee of group 0 of this kind, searched with traffic of misses or of hits.
fn knee_group0<'a>(s: &Subject<'a>, kind: KneeKind, is_of_misses: bool) -> Option<&'a FoundKnee> {
    s.results.knees.iter().filter(|knee| knee.device == s.device).find(|knee| {
        let spec = &knee.knee.spec;
        spec.kind == kind && spec.groups == 0 && knee.is_of_misses() == is_of_misses
    })
}

/// Throughput knee of group 0, as a share of what it holds.
fn usable_share(s: &Subject<'_>) -> Option<Finding> {
    let knee = knee_group0(s, KneeKind::Throughput, true).filter(|knee| knee.doubt.is_none())?;
    let share = words::percent(knee.knee.spec.share);
    let figure = Some(knee_figure(knee));
    match knee.found {
        Found::Bracket { .. } => {
            let (x, width) = knee.found.middle_and_width()?;
            let capacity =
                knee_group0(s, KneeKind::Capacity, true).and_then(|knee| match knee.found {
                    Found::Bracket { low, .. } => Some(f64::from(low)),
                    _ => None,
                });
            let usable = capacity.map_or(String::new(), |capacity| {
                format!(
                    ", {} of the {} it holds",
                    words::percent(x / capacity),
                    words::whole(capacity)
                )
            });
            // Where the generator set the plateau, the device's own is higher and its knee earlier.
            let bound = if knee.is_generator_limited { "at most " } else { "" };
            Some(s.finding(Said {
                id: "knee-group0",
                sentence: format!(
                    "{} falls below {share} of its throughput at {bound}{} ± {} rules in group \
                     0{usable}.",
                    s.device,
                    words::whole(x),
                    words::significant(width)
                ),
                value: x,
                unit: "rules",
                // The width of a bisection is no interval of confidence: it stands in the sentence.
                interval: None,
                implication:
                    "Keep group 0 below this number, or move rules into other groups.".into(),
                figure,
            }))
        }
        // Where the generator was the limit a knee may hide behind it.
        Found::None { high } if !knee.is_generator_limited => Some(s.finding(Said {
            id: "knee-group0",
            sentence: format!(
                "{} keeps more than {share} of its throughput up to {} rules in group 0: no knee.",
                s.device,
                words::whole(high.into())
            ),
            value: high.into(),
            unit: "rules",
            interval: None,
            implication: "All of group 0 may be used.".into(),
            figure,
        })),
        _ => None,
    }
}

/// Throughput knee of group 0 whose rules the traffic hits, against the fewest rules of its search.
fn usable_share_hit(s: &Subject<'_>) -> Option<Finding> {
    let knee = knee_group0(s, KneeKind::Throughput, false).filter(|knee| knee.doubt.is_none())?;
    let (spec, limited) = (&knee.knee.spec, knee.is_generator_limited);
    let (share, plateau) = (words::percent(spec.share), knee::rules_min(spec));
    let of = format!("{share} of its throughput at {} rules", words::whole(plateau.into()));
    let (said, value, implication) = match knee.found {
        Found::Bracket { .. } => {
            let (x, width) = knee.found.middle_and_width()?;
            let bound = if limited { "at most " } else { "" };
            let place = format!("{} ± {}", words::whole(x), words::significant(width));
            let said = format!("falls below {of} at {bound}{place} rules in group 0");
            (
                said,
                x,
                "Traffic that hits more rules than this is slower: keep fewer of them in use.",
            )
        }
        // Where the generator was the limit a knee may hide behind it.
        Found::None { high } if !limited => {
            let high_words = words::whole(high.into());
            let said = format!("keeps more than {of} up to {high_words} rules in group 0: no knee");
            (said, high.into(), "All rules of group 0 may be in use.")
        }
        _ => return None,
    };
    let percent = spec.match_percent;
    Some(s.finding(Said {
        id: "knee-group0-hits",
        sentence: format!("With {percent} % of the traffic on rules, {} {said}.", s.device),
        value,
        unit: "rules",
        interval: None,
        implication: implication.into(),
        figure: None,
    }))
}

/// How many rules group 0 takes.
fn capacity(s: &Subject<'_>) -> Option<Finding> {
    let knee = knee_group0(s, KneeKind::Capacity, true)?;
    let (low, words) = match knee.found {
        Found::Bracket { low, high } if high - low == 1 => {
            (low, format!("takes {} rules", words::whole(low.into())))
        }
        Found::Bracket { low, high } => {
            let (low_words, high_words) = (words::whole(low.into()), words::whole(high.into()));
            (low, format!("takes {low_words} rules and refuses {high_words}"))
        }
        Found::None { high } => {
            (high, format!("takes all {} rules asked for", words::whole(high.into())))
        }
        Found::Below { .. } | Found::Stopped => return None,
    };
    Some(s.finding(Said {
        id: "capacity-group0",
        sentence: format!("Group 0 of {} {words}.", s.device),
        value: low.into(),
        unit: "rules",
        interval: None,
        implication: "A rule beyond it is refused: put the rest into non-root groups.".into(),
        figure: Some(knee_figure(knee)),
    }))
}

/// A throughput as a share of another one; nothing where a limit of the generator, or stalls, could
/// have made the share what it is.
fn share(cell: &Cell<'_>, base: &Cell<'_>) -> Option<(Estimate, Verdict)> {
    if [cell, base].iter().any(|cell| cell.is_generator_limited() || cell.is_disturbed()) {
        return None;
    }
    let ratio = paired(cell, base, "throughput_pps")?;
    let verdict = verdict(&ratio)?;
    Some((ratio, verdict))
}

/// A share of a throughput in a sentence.
struct ShareOf {
    id: &'static str,
    /// What stands in front of the share, and behind it.
    around: (String, String),
    /// What follows where there is no cost, a cost, a gain.
    follows: [&'static str; 3],
    figure: Option<String>,
}

impl ShareOf {
    fn finding(self, s: &Subject<'_>, (cell, base): (&Cell<'_>, &Cell<'_>)) -> Option<Finding> {
        let (ratio, verdict) = share(cell, base)?;
        let [none, cost, gain] = self.follows;
        let implication = match verdict {
            Verdict::NoCost => none,
            Verdict::Differs if ratio.median < 1.0 => cost,
            Verdict::Differs => gain,
        };
        let (share, few) = (words::percent(ratio.median), words::few(&ratio));
        Some(s.finding(Said {
            id: self.id,
            sentence: format!("{} {share} of {}{few}.", self.around.0, self.around.1),
            value: ratio.median,
            unit: "1",
            interval: ratio.interval(),
            implication: implication.into(),
            figure: self.figure,
        }))
    }
}

/// What a frame costs the device's core, against another place.
struct Cost {
    here_ns: f64,
    /// By the time at the other place, pair by pair.
    ratio: Estimate,
}

impl Cost {
    /// `None` where the throughput itself tells, and where there is too little of the time.
    fn of(cell: &Cell<'_>, base: &Cell<'_>) -> Option<Cost> {
        if !cell.is_generator_limited() && !base.is_generator_limited() {
            return None;
        }
        let ratio = paired(cell, base, DEVICE_TIME)?;
        if ratio.repeats < REPEATS_MIN {
            return None;
        }
        // Of the same repeats as the ratio.
        let (here, _) = cell.paired(base, DEVICE_TIME);
        Some(Cost { here_ns: statistics::median(&here)?, ratio })
    }

    /// The interval holds a ratio of 1.
    fn is_undecided(&self) -> bool {
        self.ratio.low <= 1.0 && self.ratio.high >= 1.0
    }

    /// As a factor where that reads better than a percentage.
    fn is_factor(&self) -> bool {
        self.ratio.median >= FACTOR_MIN
    }

    /// The time and its change against `base`. Pairs stand side by side in time, so the median of
    /// their changes differs from the change of the medians where the machine's speed changed.
    fn finding(&self, s: &Subject<'_>, about: &CostOf<'_>) -> Finding {
        let (sign, change) = (self.percent() < 0.0, words::significant(self.percent().abs()));
        let change = match (self.is_factor(), sign) {
            (true, _) => format!("{} times as much as", words::significant(self.ratio.median)),
            (false, false) => format!("{change} % more than"),
            (false, true) => format!("{change} % less than"),
        };
        let (undecided, more) = match self.is_undecided() {
            true => ("; the interval includes no difference", MORE_REPEATS),
            false => ("", ""),
        };
        let scaled = |ratio: f64| if self.is_factor() { ratio } else { (ratio - 1.0) * 100.0 };
        s.finding(Said {
            id: about.id,
            sentence: format!(
                "{}, {} spends {} of its core on {}, {change} {} (median of pairs){}{undecided}.",
                about.place,
                s.device,
                words::time(self.here_ns),
                a_frame(&s.frame()),
                about.base,
                words::few(&self.ratio)
            ),
            value: scaled(self.ratio.median),
            unit: if self.is_factor() { "1" } else { "%" },
            interval: self.ratio.interval().map(|(low, high)| (scaled(low), scaled(high))),
            implication: format!(
                "A core of it would carry about {}, or more: the bursts of a core that is \
                 partly idle are not full, and cost more a frame.{more}",
                words::pps(1e9 / self.here_ns)
            ),
            figure: about.figure.map(Into::into),
        })
    }

    fn percent(&self) -> f64 {
        (self.ratio.median - 1.0) * 100.0
    }
}

/// What a [`Cost`] is of.
struct CostOf<'a> {
    id: &'static str,
    /// Where, such as `With 65,536 rules in group 0`.
    place: String,
    /// Against what, such as `with no rule`.
    base: &'a str,
    figure: Option<&'static str>,
}

/// A full group 0 against an empty one.
fn full_table(s: &Subject<'_>) -> Option<Finding> {
    let (empty, full) = s.ends("saturate", 0.0)?;
    let figure = figure_of(s, "throughput-group0");
    let place = rules_words(full);
    if let Some(cost) = Cost::of(full, empty) {
        let about = CostOf {
            id: "device-time-group0",
            place: format!("With {place} in group 0"),
            base: &format!("with {}", rules_words(empty)),
            figure: Some("occupancy-device-time-group0"),
        };
        return Some(cost.finding(s, &about));
    }
    if full.is_generator_limited() && !full.is_disturbed() {
        let e = full.estimate("throughput_pps")?;
        return Some(s.finding(Said {
            id: "full-group0",
            sentence: format!(
                "With {place} in group 0, {} forwards at least {}{}: the generator was the limit.",
                s.device,
                words::pps(e.median),
                words::few(&e)
            ),
            value: e.median,
            unit: "pps",
            interval: e.interval(),
            implication: "What a full table costs cannot be told with this generator.".into(),
            figure,
        }));
    }
    let about = ShareOf {
        id: "full-group0",
        around: (
            format!("With {place} in group 0, {} forwards", s.device),
            format!("what it forwards with {}", rules_words(empty)),
        ),
        follows: [
            "The number of rules need not be spared.",
            "Each rule costs throughput: install what is used.",
            "More rules are no loss here; look for what the empty table costs.",
        ],
        figure,
    };
    about.finding(s, (full, empty))
}

/// The fullest group 1 against the emptiest, where only the time of the core tells.
fn full_group(s: &Subject<'_>) -> Option<Finding> {
    let (empty, full) = s.ends("saturate", 1.0)?;
    let cost = Cost::of(full, empty)?;
    // Its default rule is always there.
    let base = match rules(empty) {
        ..=1.0 => "with its default rule alone".into(),
        _ => format!("with {}", rules_words(empty)),
    };
    let about = CostOf {
        id: "device-time-group1",
        place: format!("With {} in group 1", rules_words(full)),
        base: &base,
        figure: Some("occupancy-device-time-groups"),
    };
    Some(cost.finding(s, &about))
}

/// Whose packets a chain is judged by.
struct Chained {
    /// With them matching the default rules alone, and with them on rules.
    ids: [&'static str; 2],
    groups: f64,
    /// `, all traffic on rules`.
    traffic: &'static str,
}

/// The longest chain of groups against one group, at the most rules that both have, with traffic
/// that meets default rules alone: the published case.
fn chain(s: &Subject<'_>) -> Option<Finding> {
    let chained = s.results.cells.of(s.device, "saturate").filter_map(|cell| cell.number("groups"));
    let groups = chained.filter(|groups| *groups > 1.0).max_by(f64::total_cmp)?;
    let about = Chained { ids: ["chain", "device-time-chain"], groups, traffic: "" };
    chained_against_one(s, &about, &s.sweep("saturate", groups), &s.sweep("saturate", 1.0))
}

/// The same with all traffic on rules.
fn chain_hits(s: &Subject<'_>) -> Option<Finding> {
    let hits = s.hits("saturate");
    let chained = hits.iter().filter_map(|cell| cell.number("groups"));
    let groups = chained.filter(|groups| *groups > 1.0).max_by(f64::total_cmp)?;
    let of = |groups| -> Vec<_> {
        hits.iter().copied().filter(|cell| cell.is_at(&[("groups", groups)])).collect()
    };
    let ids = ["chain-hits", "device-time-chain-hits"];
    let about = Chained { ids, groups, traffic: ", all traffic on rules" };
    chained_against_one(s, &about, &of(groups), &of(1.0))
}

fn chained_against_one(
    s: &Subject<'_>,
    about: &Chained,
    longest: &[&Cell<'_>],
    one: &[&Cell<'_>],
) -> Option<Finding> {
    let Chained { ids, groups, traffic } = about;
    let pair = longest.iter().rev().find_map(|cell| {
        one.iter().find(|other| rules(other) == rules(cell)).map(|other| (*cell, *other))
    });
    let (cell, base) = pair?;
    let is_published = traffic.is_empty();
    if let Some(cost) = Cost::of(cell, base) {
        let about = CostOf {
            id: ids[1],
            place: format!("With {} in {groups} chained groups{traffic}", rules_words(cell)),
            base: "with as many in group 1",
            figure: is_published.then_some("occupancy-device-time-groups"),
        };
        return Some(cost.finding(s, &about));
    }
    if base.is_generator_limited() && !cell.is_generator_limited() {
        return chain_at_most(s, about, cell, base);
    }
    let about = ShareOf {
        id: ids[0],
        around: (
            format!(
                "{} in {groups} chained groups leave {}",
                capitalised(&rules_words(cell)),
                s.device
            ),
            format!("the throughput of one group{traffic}"),
        ),
        follows: [
            "Groups may be used to order rules: they cost nothing to speak of.",
            "Each jump costs: keep the chain short.",
            "Spreading the rules pays here.",
        ],
        figure: is_published.then(|| figure_of(s, "throughput-groups")).flatten(),
    };
    about.finding(s, (cell, base))
}

/// The chain at its limit, one group at the generator's: one group can do more, so that the share
/// is an upper bound.
fn chain_at_most(
    s: &Subject<'_>,
    about: &Chained,
    cell: &Cell<'_>,
    base: &Cell<'_>,
) -> Option<Finding> {
    let Chained { ids, groups, traffic } = about;
    let ratio = paired(cell, base, "throughput_pps")?;
    let is_disturbed = cell.is_disturbed() || base.is_disturbed();
    if ratio.repeats < REPEATS_MIN || ratio.high >= 1.0 || is_disturbed {
        return None;
    }
    let here = cell.estimate("throughput_pps")?;
    Some(s.finding(Said {
        id: ids[0],
        sentence: format!(
            "With {} in {groups} chained groups{traffic}, {} forwards {}, at most {} of what it \
             forwards with as many in group 1{}: there the generator was the limit.",
            rules_words(cell),
            s.device,
            words::pps(here.median),
            words::percent(ratio.median),
            words::few(&ratio)
        ),
        value: ratio.median,
        unit: "1",
        interval: ratio.interval(),
        implication: "Each jump costs: keep the chain short.".into(),
        figure: traffic.is_empty().then(|| figure_of(s, "throughput-groups")).flatten(),
    }))
}

/// The fullest group 0 with all of its rules in use, against a tenth of them.
fn full_table_hit(s: &Subject<'_>) -> Option<Finding> {
    let hits = s.hits("saturate");
    let root = hits.iter().copied().filter(|cell| cell.is_at(&[("groups", 0.0)]));
    let root: Vec<&Cell<'_>> = root.collect();
    let full = *root.last()?;
    // A tenth, as near as a whole number of rules comes.
    let is_tenth = |cell: &&&Cell<'_>| (rules(cell) * 10.0 - rules(full)).abs() < 10.0;
    let tenth = *root.iter().find(is_tenth)?;
    let base = rules_words(tenth);
    let place = hit_equally(full);
    if let Some(cost) = Cost::of(full, tenth) {
        let base = &format!("with {base}");
        let about = CostOf { id: "device-time-group0-hits", place, base, figure: None };
        return Some(cost.finding(s, &about));
    }
    let about = ShareOf {
        id: "full-group0-hits",
        around: (
            format!("{place}, {} forwards", s.device),
            format!("what it forwards with {base}"),
        ),
        follows: [
            "All rules of group 0 may be in use.",
            "Rules in use cost throughput: their entries have to come into the cache.",
            "More rules are no loss here; look for what the fewer cost.",
        ],
        figure: None,
    };
    about.finding(s, (full, tenth))
}

/// `When the traffic hits all of 65,536 rules in group 0 equally often`.
fn hit_equally(cell: &Cell<'_>) -> String {
    format!("When the traffic hits all of {} in group 0 equally often", rules_words(cell))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn latency_p50(s: &Subject<'_>) -> Option<Finding> {
    latency(s, "latency_ns_p50", "latency-p50", "median latency")
}

fn latency_p99(s: &Subject<'_>) -> Option<Finding> {
    latency(s, "latency_ns_p99", "latency-p99", "99th percentile of the latency")
}

/// Latency of the full group 0 against the empty one, each at the same share of its own maximum.
fn latency(s: &Subject<'_>, metric: &str, id: &'static str, words: &str) -> Option<Finding> {
    let (empty, full) = s.ends("latency", 0.0)?;
    if [empty, full].iter().any(|cell| cell.is_generator_limited() || cell.is_disturbed()) {
        return None;
    }
    let ratio = paired(full, empty, metric)?;
    let verdict = verdict(&ratio)?;
    let (here, there) = (full.estimate(metric)?, empty.estimate(metric)?);
    let implication = match verdict {
        Verdict::NoCost => "The number of rules does not show in the latency.",
        Verdict::Differs if ratio.median > 1.0 => "Leave room for it in a latency budget.",
        Verdict::Differs => "A full table is no slower here.",
    };
    Some(s.finding(Said {
        id,
        sentence: format!(
            "At {}, the {words} of {} is {} with {} in group 0 and {} with {}{}.",
            rate_words(s.results, TrialKind::Latency),
            s.device,
            words::time(here.median),
            rules_words(full),
            words::time(there.median),
            rules_words(empty),
            words::few(&ratio)
        ),
        value: here.median,
        unit: "ns",
        interval: here.interval(),
        implication: implication.into(),
        figure: Some("occupancy-latency-group0".into()),
    }))
}

/// Memory of a rule in the fullest set-up.
fn rule_memory(s: &Subject<'_>) -> Option<Finding> {
    if s.results.run.rules.is_some() {
        // What a file's rules take is no figure of one kind of rule.
        return None;
    }
    let setups = s.results.cells.of(s.device, crate::runner::SETUP);
    let known =
        setups.filter(|cell| !cell.is_refused() && !cell.values("rule_bytes_per_rule").is_empty());
    let cell = known.max_by(|a, b| f64::total_cmp(&rules(a), &rules(b)))?;
    let e = cell.estimate("rule_bytes_per_rule")?;
    Some(s.finding(Said {
        id: "rule-memory",
        sentence: format!(
            "A five-tuple rule takes {} B of memory on {} ({} installed).",
            words::significant(e.median),
            s.device,
            rules_words(cell)
        ),
        value: e.median,
        unit: "B",
        interval: e.interval(),
        implication: "Where the tables outgrow the cache, look-ups wait for memory.".into(),
        figure: None,
    }))
}

/// All traffic on rules against all traffic on the default rule, in the fullest group 0.
fn matching(s: &Subject<'_>) -> Option<Finding> {
    let hit = s.hits("saturate").into_iter().rev().find(|cell| cell.is_at(&[("groups", 0.0)]))?;
    let missed = s.sweep("saturate", 0.0);
    let missed = missed.iter().find(|cell| rules(cell) == rules(hit))?;
    let (place, base) = (hit_equally(hit), "when only the default rule matches");
    if let Some(cost) = Cost::of(hit, missed) {
        let about = CostOf { id: "device-time-matching", place, base, figure: None };
        return (!cost.is_undecided()).then(|| cost.finding(s, &about));
    }
    let about = ShareOf {
        id: "matching",
        around: (format!("{place}, {} forwards", s.device), format!("what it forwards {base}")),
        follows: [
            "The published case, all traffic on one default rule, is no easier.",
            "Figures with all traffic on one default rule flatter the table: size it by this one.",
            "A miss costs more than a hit: let rules match most of the traffic.",
        ],
        figure: Some("occupancy-throughput-match".into()),
    };
    about.finding(s, (hit, missed))
}

/// Large frames against small ones, frames a second.
fn frame_size(s: &Subject<'_>) -> Option<Finding> {
    let of = |frame: &str| {
        let place = [("groups", 0.0), ("match_percent", 0.0), ("flows", s.flows)];
        let cells = s.results.cells.of(s.device, "saturate");
        let cells = cells.filter(|cell| cell.is_at(&place) && cell.word("frame") == frame);
        cells.min_by(|a, b| f64::total_cmp(&rules(a), &rules(b)))
    };
    let (large, small) = (of("1500")?, of("64")?);
    let (ratio, verdict) = share(large, small).filter(|_| rules(large) == rules(small))?;
    let gbps = large.estimate("throughput_gbps_l2")?;
    let implication = match verdict {
        Verdict::NoCost => "The cost is by the frame: small frames are what to size for.",
        Verdict::Differs => "Bytes cost too: measure with the sizes of your own traffic.",
    };
    Some(s.finding(Said {
        id: "frame-size",
        sentence: format!(
            "Of 1500 B frames {} forwards {} as many as of 64 B frames: {} Gbps (L2){}.",
            s.device,
            words::percent(ratio.median),
            words::significant(gbps.median),
            words::few(&ratio)
        ),
        value: ratio.median,
        unit: "1",
        interval: ratio.interval(),
        implication: implication.into(),
        figure: Some("occupancy-throughput-group0-1500".into()),
    }))
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
