//! The findings of a merged run: which CPU answers soonest, and four lessons.
//!
//! The lessons are questions that tables 2 and 3 of the study let one compute: what the SmartNIC's
//! CPU costs against its host's, what share of a round trip is hardware, what it costs to have the
//! SmartNIC's CPU in the packets' way, and whether a slower CPU costs a client more or a server.
//! Beside each stands what the same code makes of the published tables.

use niclab_result::{Finding, Quantity};

use super::number::Number;
use super::{REPEATS_MIN, told};
use crate::placement::{Cpu, CpuPath};
use crate::statistics::{self, Estimate, paired_ratio, unpaired_ratio};
use crate::summary::placements::{APPLICATIONS, CpuProgram, Placed, RoundTrip, SIZES, published};
use crate::words;

/// All findings of these rows.
pub(crate) fn findings(rows: &[Placed]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for application in APPLICATIONS {
        findings.extend(
            CpuProgram::BOTH.into_iter().filter_map(|side| soonest(rows, application, side)),
        );
    }
    let published = published();
    findings.extend(LESSONS.iter().filter_map(|lesson| lesson.finding(rows, &published)));
    findings.extend(slower_side(rows, &published));
    findings
}

/// Enough repeats to conclude anything; what was published has its own behind it.
fn is_enough(one: &RoundTrip) -> bool {
    one.part.is_none() || one.values.len() >= REPEATS_MIN
}

/// How one is to another: by repeat where both were measured in the same run, interleaved; else
/// each with each.
fn ratio(one: &RoundTrip, by: &RoundTrip) -> Option<(Estimate, bool)> {
    let is_paired = one.part.is_some() && one.part == by.part;
    let values = |of: &RoundTrip| of.values.iter().map(|(_, ns)| *ns).collect::<Vec<f64>>();
    let estimate = match is_paired {
        false => unpaired_ratio(&values(one), &values(by)),
        true => {
            let other = |repeat: u32| by.values.iter().find(|(at, _)| *at == repeat);
            let pairs = one.values.iter().filter_map(|(at, ns)| Some((*ns, other(*at)?.1)));
            let (ns, by_ns): (Vec<f64>, Vec<f64>) = pairs.unzip();
            paired_ratio(&ns, &by_ns)
        }
    };
    Some((estimate?, is_paired))
}

/// The placement with the shortest round trip of an application, and by how much; nothing where the
/// interval of measured repeats allows that another one is as short.
fn soonest(
    rows: &[Placed],
    (application, head): (&str, &str),
    side: CpuProgram,
) -> Option<Finding> {
    let of = |size: f64| {
        let found =
            rows.iter().filter_map(|row| Some((row, row.round_trip(application, size, side)?)));
        let mut found: Vec<(&Placed, &RoundTrip)> =
            found.filter(|(_, one)| is_enough(one)).collect();
        found.sort_by(|(_, a), (_, b)| a.median().total_cmp(&b.median()));
        (found.len() > 1).then_some((size, found))
    };
    let (size, found) = SIZES.into_iter().find_map(of)?;
    let [(best, soonest), (next, second), ..] = found[..] else { return None };
    let (worst, last) = found.last()?;
    let (by, is_paired) = ratio(second, soonest)?;
    let how = match (second.part, is_paired) {
        (None, _) => "",
        (_, true) => " (repeat by repeat of one run)",
        (_, false) => " (repeats of different runs, not paired)",
    };
    if by.low <= 1.0 && soonest.part.is_some() {
        return None;
    }
    let most = match found.len() {
        2 => String::new(),
        _ => {
            let times = digits(last.median() / soonest.median());
            format!("; {}, the slowest, takes {times} times as long", worst.label)
        }
    };
    let number = Number::new(&by, "1");
    let sentence = format!(
        "{} has the shortest round trip of {} B of {} places for the {} of {head}: {}. {} takes \
         {number} as long{how}{most}{}.",
        best.label,
        words::whole(size),
        found.len(),
        side.word(),
        words::time(soonest.median()),
        next.label,
        if soonest.part.is_some() { words::few(&by) } else { String::new() }
    );
    let implication = "A client with one request at a time gets its answer soonest there. This \
                       says nothing about throughput.";
    let id = format!("placement-{application}-{}", side.word());
    Some(told(&best.label, id, number, (sentence, implication), None))
}

/// Two digits behind the point: ratios of round trips are near 1.
fn digits(ratio: f64) -> String {
    format!("{ratio:.2}")
}

/// One number of many of a kind, and what it is of.
struct Case {
    of: String,
    value: f64,
}

/// A number that is computed for every case there is.
struct Lesson {
    id: &'static str,
    cases: fn(&[Placed]) -> Vec<Case>,
    /// Before and behind the number.
    words: [&'static str; 2],
    /// What the number is in words.
    number: fn(f64) -> String,
    /// The number as a quantity: its factor and its unit.
    unit: (f64, &'static str),
    /// What follows where the median is above the bound, and where it is not.
    bound: f64,
    implications: [&'static str; 2],
}

/// Ratios of round trips up to this show no cost worth naming.
const NO_COST_MAX: f64 = 1.01;

const LESSONS: [Lesson; 3] = [
    Lesson {
        id: "lesson-snic-cpu",
        cases: snic_by_host,
        words: [
            "A round trip with a program on the SmartNIC's CPU takes",
            "times as long as on its host's",
        ],
        number: digits,
        unit: (1.0, "1"),
        bound: NO_COST_MAX,
        implications: [
            "The CPU nearer to the wire is not the faster one: its software takes longer.",
            "Programs answer as soon on the SmartNIC's CPU as on its host's: use it to free the \
             host's cores.",
        ],
    },
    Lesson {
        id: "lesson-hardware",
        cases: hardware_share,
        words: [
            "Cards and cable between the interfaces take",
            "of a round trip of 1,024 B, the software of both sides takes the rest",
        ],
        number: words::percent,
        unit: (100.0, "%"),
        bound: 0.5,
        implications: [
            "Most of the time is spent in hardware, where no program can save any.",
            "Most of the time is spent in software: a shorter path through the stack saves more \
             than a faster card.",
        ],
    },
    Lesson {
        id: "lesson-on-path",
        cases: on_by_off,
        words: ["A round trip through the SmartNIC's CPU takes", "times as long as past it"],
        number: digits,
        unit: (1.0, "1"),
        bound: NO_COST_MAX,
        implications: [
            "Let packets bypass the SmartNIC's CPU if it need not see them.",
            "Packets can pass the SmartNIC's CPU: it adds no visible time.",
        ],
    },
];

impl Lesson {
    fn finding(&self, rows: &[Placed], published: &[Placed]) -> Option<Finding> {
        let (median, range) = self.range((self.cases)(rows))?;
        let theirs = self.range((self.cases)(published)).filter(|_| rows != published);
        let number = self.number;
        let theirs =
            theirs.map(|(median, range)| format!(" Published: {}{range}.", number(median)));
        let [before, behind] = self.words;
        let (factor, unit) = self.unit;
        let implication = self.implications[usize::from(median <= self.bound)];
        Some(Finding {
            id: self.id.to_owned(),
            sentence: format!("{before} {} {behind}{range}.", number(median)),
            value: Quantity { value: factor * median, unit: unit.into() },
            interval: None,
            implication: format!("{implication}{}", theirs.unwrap_or_default()),
            figure: None,
            device: "placement".to_owned(),
            experiment: String::new(),
        })
    }

    /// The median of the cases, and where they lie in words.
    fn range(&self, mut cases: Vec<Case>) -> Option<(f64, String)> {
        cases.sort_by(|a, b| a.value.total_cmp(&b.value));
        let values: Vec<f64> = cases.iter().map(|case| case.value).collect();
        let median = statistics::median(&values)?;
        let (first, last) = (cases.first()?, cases.last()?);
        let one = |case: &Case| format!("{} ({})", (self.number)(case.value), case.of);
        let text = match cases.len() {
            1 => format!(" ({})", first.of),
            count => {
                format!(", the median of {count} cases from {} to {}", one(first), one(last))
            }
        };
        Some((median, text))
    }
}

/// The only row beside `row` that is as it, but for what `is_it` says.
fn twin(rows: &[Placed], is_it: impl Fn(&Placed) -> bool) -> Option<&Placed> {
    let mut found = rows.iter().filter(|row| is_it(row));
    found.next().filter(|_| found.next().is_none())
}

/// SmartNICs' CPUs, each with its host's: of the same card, by the same way.
fn snics(rows: &[Placed]) -> impl Iterator<Item = (&Placed, &Placed)> {
    let host = |snic: &Placed| {
        let is_host = |row: &Placed| {
            row.cpu == Some(Cpu::Host) && row.card == snic.card && row.way == snic.way
        };
        twin(rows, is_host)
    };
    let is_snic = |row: &&Placed| row.cpu == Some(Cpu::Snic);
    rows.iter().filter(is_snic).filter_map(move |snic| Some((snic, host(snic)?)))
}

/// Every round trip that two rows both have, as a ratio.
fn ratios<'a>(one: &'a Placed, by: &'a Placed) -> impl Iterator<Item = Case> + 'a {
    one.round_trips.iter().filter(|trip| is_enough(trip)).filter_map(|trip| {
        let other = by.round_trip(trip.application, trip.size, trip.side)?;
        let (_, head) = APPLICATIONS.iter().find(|(name, _)| *name == trip.application)?;
        let size = words::whole(trip.size);
        Some(Case {
            of: format!("{}: {} of {head}, {size} B", one.label, trip.side.word()),
            value: is_enough(other).then_some(ratio(trip, other)?.0.median)?,
        })
    })
}

fn snic_by_host(rows: &[Placed]) -> Vec<Case> {
    snics(rows).flat_map(|(snic, host)| ratios(snic, host)).collect()
}

/// Between measured rows alone: the off-path mode of a model is its on-path mode, as a bound.
fn on_by_off(rows: &[Placed]) -> Vec<Case> {
    let on = rows.iter().filter(|row| row.way == Some(CpuPath::On) && !row.is_computed);
    let pairs = on.filter_map(|on| {
        let is_off = |row: &Placed| {
            row.way == Some(CpuPath::Off) && row.cpu == on.cpu && row.card == on.card
        };
        Some((on, twin(rows, is_off)?))
    });
    pairs.flat_map(|(on, off)| ratios(on, off)).collect()
}

fn hardware_share(rows: &[Placed]) -> Vec<Case> {
    let of = |row: &Placed| {
        let case = |split: &crate::summary::placements::Split| {
            let all = split.client + split.server + split.hardware;
            let of = format!("{}: {}", row.label, split.side.word());
            (all > 0.0).then(|| Case { of, value: split.hardware / all })
        };
        row.splits.iter().filter_map(case).collect::<Vec<_>>()
    };
    // In one machine there is neither a card nor a cable.
    rows.iter().filter(|row| !row.is_one_machine).flat_map(of).collect()
}

/// What a slower CPU costs: further software of a client and of a server, nanoseconds.
struct Cost {
    label: String,
    client: f64,
    server: f64,
}

fn costs(rows: &[Placed]) -> Vec<Cost> {
    let mut costs: Vec<Cost> = snics(rows)
        .filter_map(|(snic, host)| {
            let client =
                snic.split(CpuProgram::Client)?.client - host.split(CpuProgram::Client)?.client;
            let server =
                snic.split(CpuProgram::Server)?.server - host.split(CpuProgram::Server)?.server;
            Some(Cost { label: snic.label.clone(), client, server })
        })
        .collect();
    costs.sort_by(|a, b| (b.client + b.server).total_cmp(&(a.client + a.server)));
    costs
}

/// Which program the slower CPU costs more, where it costs most.
fn slower_side(rows: &[Placed], published: &[Placed]) -> Option<Finding> {
    let costs_of = costs(rows);
    let most = costs_of.first()?;
    let signed = |ns: f64| match ns < 0.0 {
        true => format!("-{}", words::time(-ns)),
        false => words::time(ns),
    };
    let one = |cost: &Cost| {
        format!("{} and {} on {}", signed(cost.client), signed(cost.server), cost.label)
    };
    let all = |costs: &[Cost]| costs.iter().map(one).collect::<Vec<_>>().join("; ");
    let (more, implication) = match most.client > most.server {
        true => ("a client", "If one side must be on the slower CPU, choose the server."),
        false => ("a server", "If one side must be on the slower CPU, choose the client."),
    };
    let theirs = match rows == published {
        true => String::new(),
        false => format!(" Published: {}.", all(&costs(published))),
    };
    let sentence = format!(
        "The SmartNIC's CPU costs {more} more time than the other side, where it costs most. \
         Extra time of a client and of a server of 1,024 B: {}.",
        all(&costs_of)
    );
    Some(Finding {
        id: "lesson-side".to_owned(),
        sentence,
        value: Quantity { value: most.client - most.server, unit: "ns".into() },
        interval: None,
        implication: format!("{implication}{theirs}"),
        figure: None,
        device: "placement".to_owned(),
        experiment: String::new(),
    })
}

#[cfg(test)]
#[path = "placements_tests.rs"]
mod tests;
