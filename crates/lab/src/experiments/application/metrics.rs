//! The metrics of the experiments on applications.

use niclab_device::{CoreUse, Energy, RequestsObservation};
use niclab_result::Mark;

use crate::breakdown::{BREAKDOWN, put_breakdown};
use crate::measure::{Metrics, UnsentBasis, put, put_ratio, quantiles};
use crate::metrics::{BUSY, Metric, TrialMetrics, higher, lower, neither};
use crate::runner::json;
use crate::spec::TrialKind;

/// Clients ask a server.
pub(crate) const APPLICATION: TrialKind = TrialKind::new("application");

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[TrialMetrics {
    trial: APPLICATION.name(),
    points: Some("application"),
    judged_by: &[RATE],
    headlines: &[RATE, LATENCY, LATENCY_TAIL, SERVER_TIME],
    metrics: &[REQUESTS, BREAKDOWN],
    is_throughput: false,
    judged: UnsentBasis::Whole,
}];

/// Counts and times of requests.
const REQUESTS: &[Metric] = &[
    neither("planned_requests", "requests", "were due"),
    neither("sent_requests", "requests", "were sent"),
    neither("unsent_requests", "requests", "were due and never sent"),
    neither("answered_requests", "requests", "were answered"),
    neither("lost_requests", "requests", "were not"),
    neither("late_requests", "requests", "of these, after the wait was over"),
    neither("refused_requests", "requests", "answered with an error"),
    neither("duplicated_requests", "requests", "answered again"),
    neither("foreign_requests", "requests", "answers that are none of ours"),
    lower("loss_ratio", "1", "lost divided by sent"),
    neither("miss_ratio", "1", "gets that found nothing, divided by gets"),
    higher(RATE, "requests/s", "answered"),
    neither(WAITING, "requests", "that waited for an answer at once, on average"),
    neither("request_gbps", "Gbps", "bytes of the application there"),
    neither("answer_gbps", "Gbps", "bytes of the application back"),
    lower("request_ns_…", "ns", "from when a request was due to its answer; closed: from the call"),
    lower("service_ns_…", "ns", "of an open loop: from the call that sent it"),
    lower("lateness_ns_…", "ns", "of an open loop: how late it left"),
    neither("server_…_ratio", "1", "use of the server's cores"),
    neither(CLIENT_BUSY, "1", "share of the time in which the clients' cores worked"),
    lower(SERVER_TIME, "ns", "time of the server's cores for a request"),
    neither("shared_cores", "cores", "that both have"),
    neither("link_…_gbps", "Gbps", "frames on the link, each way"),
    neither("link_ratio", "1", "these divided by the link's speed"),
    neither(ENERGY, "J", "energy of the machine for a request"),
];

/// Share of the requests due that clients may leave unsent before a trial is marked.
const UNSENT_MAX: f64 = 0.005;

/// Requests answered a second.
pub(crate) const RATE: &str = "requests_per_s";

/// Requests that waited for an answer at once, on average.
pub(crate) const WAITING: &str = "waiting_requests";

/// Median of the latency.
pub(crate) const LATENCY: &str = "request_ns_p50";

/// Its tail.
pub(crate) const LATENCY_TAIL: &str = "request_ns_p99";

/// Share of the time in which the server's cores worked.
pub(crate) const SERVER_BUSY: &str = "server_busy_ratio";

/// The same of the clients'.
pub(crate) const CLIENT_BUSY: &str = "client_busy_ratio";

/// Time of the server's cores for a request.
pub(crate) const SERVER_TIME: &str = "server_ns_per_request";

/// Energy of the machine for a request.
pub(crate) const ENERGY: &str = "joules_per_request";

/// The metrics of an application.
pub(crate) fn put_application(metrics: &mut Metrics, observation: &RequestsObservation) {
    let r = &observation.requested;
    for (name, count) in [
        ("planned_requests", r.planned),
        ("sent_requests", r.sent),
        ("unsent_requests", r.unsent),
        ("answered_requests", r.answered),
        ("lost_requests", r.lost),
        ("late_requests", r.late),
        ("refused_requests", r.refused),
        ("duplicated_requests", r.duplicated),
        ("foreign_requests", r.foreign),
    ] {
        put(metrics, name, count as f64, "requests");
    }
    put_ratio(metrics, "loss_ratio", r.lost, r.sent);
    put_ratio(metrics, "miss_ratio", r.misses, r.hits + r.misses);
    let duration_s = r.duration_ns as f64 / 1e9;
    put(metrics, RATE, r.answered as f64 / duration_s, "requests/s");
    // In an open loop what waits for its turn at the client is not sent yet.
    let sent = &r.service.as_ref().unwrap_or(&r.latency).0;
    if !sent.is_empty() {
        let waiting = r.answered as f64 * sent.mean() / r.duration_ns as f64;
        put(metrics, WAITING, waiting, "requests");
    }
    put(metrics, "request_gbps", r.sent_bytes as f64 * 8e-9 / duration_s, "Gbps");
    put(metrics, "answer_gbps", r.received_bytes as f64 * 8e-9 / duration_s, "Gbps");
    quantiles(metrics, "request_ns", &r.latency);
    if let Some(service) = &r.service {
        quantiles(metrics, "service_ns", service);
    }
    if let Some(lateness) = &r.lateness {
        quantiles(metrics, "lateness_ns", lateness);
    }
    put_use(metrics, observation);
    if let Some(Ok(breakdown)) = &observation.breakdown {
        put_breakdown(metrics, breakdown);
    }
}

fn put_use(metrics: &mut Metrics, observation: &RequestsObservation) {
    let share = |cores: &[CoreUse], of: fn(&CoreUse) -> u64| {
        let had: u64 = cores.iter().map(|core| core.busy_ns() + core.idle_ns).sum();
        (had > 0).then(|| cores.iter().map(of).sum::<u64>() as f64 / had as f64)
    };
    let shares = [
        ("server_user_ratio", share(&observation.server, |core| core.user_ns + core.nice_ns)),
        ("server_system_ratio", share(&observation.server, |core| core.system_ns)),
        ("server_softirq_ratio", share(&observation.server, |core| core.softirq_ns + core.irq_ns)),
        (SERVER_BUSY, share(&observation.server, CoreUse::busy_ns)),
        (CLIENT_BUSY, share(&observation.client, CoreUse::busy_ns)),
    ];
    for (name, share) in shares {
        if let Some(share) = share {
            put(metrics, name, share, "1");
        }
    }
    let answered = observation.requested.answered as f64;
    // The share is of a time that is not to the nanosecond that of the requests.
    if let Some(busy) = share(&observation.server, CoreUse::busy_ns).filter(|_| answered > 0.0) {
        let had_ns = observation.requested.duration_ns as f64 * observation.server.len() as f64;
        put(metrics, SERVER_TIME, busy * had_ns / answered, "ns");
    }
    let is_shared =
        |core: &&CoreUse| observation.client.iter().any(|client| client.core == core.core);
    put(
        metrics,
        "shared_cores",
        observation.server.iter().filter(is_shared).count() as f64,
        "cores",
    );
    // Link bytes and energy cover the time between the two readings, which is longer than that of
    // the requests if the machine stalled.
    let watched_s = observation.watched_ns as f64 / 1e9;
    if let Some(link) = observation.link {
        let [tx, rx] = [link.tx_bytes, link.rx_bytes].map(|bytes| bytes as f64 * 8.0 / watched_s);
        put(metrics, "link_tx_gbps", tx / 1e9, "Gbps");
        put(metrics, "link_rx_gbps", rx / 1e9, "Gbps");
        if let Some(speed) = link.bits_per_s {
            put(metrics, "link_ratio", tx.max(rx) / speed as f64, "1");
        }
    }
    if let Energy::Measured { joules, .. } = observation.energy
        && answered > 0.0
    {
        let part = observation.requested.duration_ns as f64 / observation.watched_ns as f64;
        put(metrics, ENERGY, joules * part / answered, "J");
    }
}

/// What stands beside the metrics of a sample.
pub(crate) fn counters(observation: &RequestsObservation) -> serde_json::Value {
    let mut counters = serde_json::json!({
        "server": json(&observation.server),
        "client": json(&observation.client),
        "link": json(&observation.link),
        "energy": json(&observation.energy),
    });
    match &observation.breakdown {
        Some(Ok(breakdown)) => {
            counters["terms"] = json(&breakdown.terms);
            counters["pairs"] = json(&breakdown.pairs);
            counters["stamps"] = breakdown.stamps.into();
        }
        Some(Err(why)) => counters["no_breakdown"] = why.as_str().into(),
        None => {}
    }
    counters
}

/// The warnings that belong to an application.
pub(crate) fn marks(observation: &RequestsObservation) -> Vec<Mark> {
    let requested = &observation.requested;
    let mut marks = Vec::new();
    let busy =
        |cores: &[CoreUse]| !cores.is_empty() && cores.iter().all(|core| core.busy_ratio() >= BUSY);
    let is_unsent = requested.unsent as f64 > UNSENT_MAX * requested.planned as f64;
    if busy(&observation.client) && !busy(&observation.server)
        || is_unsent && busy(&observation.client)
    {
        marks.push(Mark::GeneratorLimited);
    }
    if requested.sent != requested.answered + requested.lost
        || requested.planned != requested.sent + requested.unsent
    {
        marks.push(Mark::Unbalanced);
    }
    marks
}
