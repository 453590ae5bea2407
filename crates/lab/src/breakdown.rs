//! The breakdown of a round trip's time, from the stamps of its messages.

use niclab_device::{BreakdownObservation, BreakdownTerm};
use niclab_result::Sample;
use serde::Deserialize;

use crate::cells::Cell;
use crate::hosts::RTT;
use crate::measure::{Metrics, put, put_ratio, quantiles};
use crate::metrics::{Metric, lower, neither};
use crate::statistics::Estimate;
use crate::summary::tables::median;
use crate::{statistics, words};

/// Seconds that it takes to attach the probes, to take them away and to read what they left.
pub(crate) const PROBES_S: f64 = 0.1;

/// What passes between the two interfaces: drivers, cards and cable, or, where both hosts are in
/// one machine, the interrupt of another core.
pub(crate) const BETWEEN: &str = "between the interfaces";

/// The terms, by name and by the head of their column.
pub(crate) const TERMS: [(&str, &str); 6] = [
    ("client_transmit", "client transmit"),
    ("server_receive", "server receive"),
    ("application", "application"),
    ("server_transmit", "server transmit"),
    ("client_receive", "client receive"),
    ("hardware", BETWEEN),
];

/// The parts inside the stacks of one direction, by name and as they are told.
pub(crate) const PARTS: [(&str, &str); 9] = [
    ("stack_send", "call, socket, UDP and IP"),
    ("qdisc", "queueing discipline"),
    ("driver_send", "driver, to its return or the interrupt"),
    ("wire", "way between the drivers, and interrupt"),
    ("softirq_wait", "wait for the softirq"),
    ("driver_receive", "driver and receive path"),
    ("stack_receive", "IP and UDP"),
    ("wake_up", "wake-up of the program"),
    ("socket_receive", "socket, to the return of the call"),
];

/// The two directions, as the parts' names begin.
pub(crate) const DIRECTIONS: [&str; 2] = ["request", "reply"];

/// The metric of a part of a direction.
pub(crate) fn parts_name(direction: &str, part: &str) -> String {
    format!("{direction}_{part}_ns")
}

/// Median round trip without probes.
pub(crate) const PLAIN_RTT: &str = "plain_rtt_ns_p50";

/// What of the round trip no term has.
pub(crate) const RESIDUE: &str = "residue_ratio";

/// What of it no part inside the stacks has.
pub(crate) const PARTS_RESIDUE: &str = "parts_residue_ratio";

/// What stamps of messages show.
pub(crate) const BREAKDOWN: &[Metric] = &[
    lower("plain_rtt_ns_…", "ns", "round trips of the slices without stamps"),
    lower("rtt_ns_…", "ns", "round trips of the slices with them"),
    neither(RESIDUE, "1", "share of the median round trip that no term has"),
    neither("stamped_ratio", "1", "messages with all their stamps"),
    neither(PARTS_RESIDUE, "1", "as above, of the parts inside the stacks"),
    neither("parts_stamped_ratio", "1", "as above, of these"),
    lower("request_…_ns…", "ns", "a part inside the stacks on the way there"),
    lower("reply_…_ns…", "ns", "a part inside the stacks on the way back"),
    lower("client_…_ns…", "ns", "a term of the client: mean of the middle tenth, median, tail"),
    lower("server_…_ns…", "ns", "the same of the server"),
    lower("server_ns…", "ns", "the server as a whole"),
    lower("application_ns…", "ns", "its program"),
    lower(
        "hardware_ns…",
        "ns",
        "between the interfaces: drivers, cards and cable, where there are any",
    ),
];

/// The metrics of a breakdown.
pub(crate) fn put_breakdown(metrics: &mut Metrics, observation: &BreakdownObservation) {
    let parts = observation.parts.iter().flat_map(|parts| &parts.parts);
    for term in observation.terms.iter().chain(parts) {
        let name = &term.name;
        put(metrics, &format!("{name}_ns"), term.mean_ns, "ns");
        put(metrics, &format!("{name}_ns_p50"), term.median_ns, "ns");
        put(metrics, &format!("{name}_ns_p99"), term.tail_ns, "ns");
    }
    put(metrics, RESIDUE, observation.residue_ratio, "1");
    put_ratio(
        metrics,
        "stamped_ratio",
        observation.messages,
        observation.messages + observation.incomplete,
    );
    if let Some(parts) = &observation.parts {
        put(metrics, PARTS_RESIDUE, parts.residue_ratio, "1");
        let all = parts.messages + parts.incomplete;
        put_ratio(metrics, "parts_stamped_ratio", parts.messages, all);
    }
    quantiles(metrics, "rtt_ns", &observation.with);
    quantiles(metrics, "plain_rtt_ns", &observation.without);
}

/// The terms that stand in a sample.
pub(crate) fn terms(sample: &Sample) -> Vec<BreakdownTerm> {
    let terms = sample.counters.get("terms");
    terms.and_then(|terms| Vec::deserialize(terms).ok()).unwrap_or_default()
}

/// Stamps that a message gets with probes alone.
pub(crate) fn stamps(cell: &Cell<'_>) -> Option<f64> {
    cell.samples.first()?.counters.get("stamps")?.as_f64()
}

/// What a stamp costs, nanoseconds: the median difference of neighbouring slices of all repeats,
/// by the stamps of a message.
pub(crate) fn price(cell: &Cell<'_>) -> Option<Estimate> {
    let mut each = Vec::new();
    for sample in &cell.samples {
        let pairs = Vec::<[f64; 2]>::deserialize(sample.counters.get("pairs")?).ok()?;
        let stamps = sample.counters.get("stamps")?.as_f64()?;
        each.extend(pairs.iter().map(|[with, without]| (with - without) / stamps));
    }
    statistics::estimate(&each)
}

/// Its median round trip, with probes.
pub(crate) fn rtt(cell: &Cell<'_>) -> Option<Estimate> {
    cell.estimate(RTT)
}

/// The time of a term and the core that it ended on.
pub(crate) fn with_core(cell: &Cell<'_>, name: &str) -> String {
    let shown = cell.samples.first().map(|sample| terms(sample)).unwrap_or_default();
    let core = shown.iter().find(|term| term.name == name).and_then(core_words);
    format!("{}{}", median(cell, &format!("{name}_ns"), words::time), core.unwrap_or_default())
}

/// ` (core 1)`; with its share where it was not always that one.
fn core_words(term: &BreakdownTerm) -> Option<String> {
    let core = term.core?;
    Some(match term.core_share > 0.99 {
        true => format!(" (core {core})"),
        false => format!(" (core {core}, {})", words::percent(term.core_share)),
    })
}
