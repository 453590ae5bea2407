//! The experiments on the echo: where they measure, and what an exchange of messages shows.

use niclab_device::echo::{BATCH_MAX, Echo, Echoed, Pace, Receive, SIZE_MAX, SIZE_MIN, Transport};
use niclab_device::{Exchange, Exchanged, Family, Feature, Host};
use niclab_result::{Coordinate, Mark, Point};

use crate::axes::{at_axes, name_of, numbers, refused, words};
use crate::measure::{Metrics, put, put_ratio, quantiles};
use crate::occupancy::Place;
use crate::run::{PlannedRate, Resolver, Task, Trial, index_of};
use crate::spec::{EchoSweep, Hits, SpecError, TrialKind};
use crate::values::Values;

/// Protocols, by name.
pub(crate) const TRANSPORTS: [(&str, Transport); 2] =
    [("udp", Transport::Udp), ("tcp", Transport::Tcp)];

/// Ways to wait, by name.
const RECEIVES: [(&str, Receive); 4] = [
    ("blocking", Receive::Blocking),
    ("busy-poll", Receive::BusyPoll),
    ("epoll", Receive::Epoll),
    ("io-uring", Receive::IoUring),
];

/// Hosts of the client, by name.
pub(crate) const HOSTS: [(&str, Host); 2] = [("here", Host::Here), ("there", Host::There)];

/// Network protocols, by name.
pub(crate) const FAMILIES: [(&str, Family); 2] = [("ipv4", Family::V4), ("ipv6", Family::V6)];

/// Whether a ledger stamps inside the stacks, by name.
const DEEP: [(&str, bool); 2] = [("no", false), ("yes", true)];

/// Whose stamps a ledger has, by name.
const STAMPS: [(&str, bool); 2] = [("probes", false), ("sockets", true)];

/// Stands for a closed loop among rates.
pub(crate) const CLOSED: &str = "closed";

/// Greatest rate, messages a second.
const PER_S_MAX: f64 = 1e9;

/// Share of the messages due that a client may leave unsent before a trial is marked.
const UNSENT_MAX: f64 = 0.005;

/// Median of the round trip.
pub(crate) const RTT: &str = "rtt_ns_p50";
/// Its tail.
pub(crate) const RTT_TAIL: &str = "rtt_ns_p99";
/// Messages answered a second.
pub(crate) const ANSWERED: &str = "answered_per_s";

/// All exchanges of a sweep, the product of its axes; of one length each.
pub fn exchanges(
    sweep: &EchoSweep,
    duration_ms: u64,
    warmup_ms: u64,
) -> Result<Vec<Exchange>, SpecError> {
    let sizes = numbers("size", &sweep.size, SIZE_MIN.into(), SIZE_MAX.into())?;
    let batches = numbers("batch", &sweep.batch, 1, BATCH_MAX.into())?;
    let receives = words("receive", &sweep.receive, &RECEIVES)?;
    let paces = paces(&sweep.rate)?;
    let hosts = words("client", &sweep.client, &HOSTS)?;
    let families = words("family", &sweep.family, &FAMILIES)?;
    let features = features(&sweep.feature)?;
    let deeps = words("deep", &sweep.deep, &DEEP)?;
    let stamps = words("stamps", &sweep.stamps, &STAMPS)?;
    let deeps: Vec<(bool, bool)> =
        product(&stamps, &deeps).map(|(&sockets, &deep)| (deep, sockets)).collect();
    let milliseconds = |ms: u64| ms * 1_000_000;
    let mut all = Vec::new();
    for transport in words("transport", &sweep.transport, &TRANSPORTS)? {
        for (&family, &client) in product(&families, &hosts) {
            for (&receive, &pace) in product(&receives, &paces) {
                for ((feature, &(deep, sockets)), (&size, &batch)) in product(&features, &deeps)
                    .flat_map(|one| product(&sizes, &batches).map(move |at| (one, at)))
                {
                    let echo = Echo {
                        transport,
                        size: size as u16,
                        batch: batch as u16,
                        receive,
                        pace,
                        duration_ns: milliseconds(duration_ms),
                        warmup_ns: milliseconds(warmup_ms),
                    };
                    let feature = feature.clone();
                    all.push(Exchange { client, family, fifo: None, feature, deep, sockets, echo });
                }
            }
        }
    }
    Ok(all)
}

/// All pairs of two lists, the second going round faster.
pub(crate) fn product<'a, A, B>(a: &'a [A], b: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    a.iter().flat_map(|one| b.iter().map(move |other| (one, other)))
}

fn features(values: &Values) -> Result<Vec<Feature>, SpecError> {
    let one = |value: &Coordinate| {
        value.to_string().parse().map_err(|remedy| refused("feature", value, remedy))
    };
    values.0.iter().map(one).collect()
}

pub(crate) fn paces(values: &Values) -> Result<Vec<Pace>, SpecError> {
    let one = |value: &Coordinate| match value {
        Coordinate::Word(word) if word == CLOSED => Ok(Pace::Closed),
        Coordinate::Number(per_s) if (1.0..=PER_S_MAX).contains(per_s) => {
            Ok(Pace::Open { per_s: *per_s })
        }
        _ => Err(refused("rate", value, "use 1 to 1000M messages a second, or closed".to_owned())),
    };
    values.0.iter().map(one).collect()
}

/// Where an exchange stands.
fn point(exchange: &Exchange) -> Point {
    let word = |word: &str| Coordinate::Word(word.to_owned());
    let number = |number: u16| Coordinate::Number(number.into());
    let echo = &exchange.echo;
    let rate = match echo.pace {
        Pace::Closed => word(CLOSED),
        Pace::Open { per_s } => Coordinate::Number(per_s),
    };
    at_axes([
        ("transport", word(name_of(&TRANSPORTS, echo.transport))),
        ("family", word(name_of(&FAMILIES, exchange.family))),
        ("client", word(name_of(&HOSTS, exchange.client))),
        ("receive", word(name_of(&RECEIVES, echo.receive))),
        ("rate", rate),
        ("size", number(echo.size)),
        ("batch", number(echo.batch)),
        ("feature", word(&exchange.feature.to_string())),
        ("deep", word(name_of(&DEEP, exchange.deep))),
        ("stamps", word(name_of(&STAMPS, exchange.sockets))),
    ])
}

impl Resolver<'_> {
    /// A trial for each exchange. They have no set-up but that nothing is set up.
    pub fn add_exchanges(
        &mut self,
        sweeps: &[EchoSweep],
        kind: TrialKind,
    ) -> Result<(), SpecError> {
        let (groups, rules, match_percent, hits, flows) = (0, 0, 0, Hits::Flows, 1);
        let nothing = Place { groups, rules, match_percent, hits, flows }.setup(self.seed, 64);
        let setup = index_of(&mut self.run.setups, nothing);
        for sweep in sweeps {
            for asked in exchanges(sweep, self.grid.duration_ms, self.grid.warmup_ms)? {
                for (is_asked, axis, value) in
                    [(asked.deep, "deep", "yes"), (asked.sockets, "stamps", "sockets")]
                {
                    if is_asked && kind != TrialKind::Ledger {
                        let value = Coordinate::Word(value.to_owned());
                        let remedy = "a ledger has it: echo-ledger".to_owned();
                        return Err(refused(axis, &value, remedy));
                    }
                }
                let point = point(&asked);
                let exchange = index_of(&mut self.run.exchanges, asked);
                let rate = PlannedRate::Saturate;
                self.trial(Trial { kind, setup, task: Task::Exchange { exchange }, rate, point });
            }
        }
        Ok(())
    }
}

/// The metrics of an exchange.
///
/// | metric | meaning |
/// |---|---|
/// | `planned_messages` … `unsent_messages` | were due, were sent, came back, did not |
/// | `late_messages` | of the lost, those whose answer came when nobody waited for it any more |
/// | `reordered_messages`, `duplicated_messages`, `foreign_messages` | as they came back |
/// | `loss_ratio` | lost by sent |
/// | `answered_per_s`, `payload_gbps` | what came back, and its bytes, in one direction |
/// | `rtt_ns_…` | from when a message was due to its answer; in a closed loop from the call |
/// | `service_ns_…` | of an open loop: from the call that sent it |
/// | `lateness_ns_…` | of an open loop: how late it left |
pub(crate) fn put_exchange(metrics: &mut Metrics, seen: &Exchanged, echo: &Echo) {
    let e = &seen.echoed;
    for (name, count) in [
        ("planned_messages", e.planned),
        ("sent_messages", e.sent),
        ("unsent_messages", e.unsent),
        ("answered_messages", e.answered),
        ("lost_messages", e.lost),
        ("late_messages", e.late),
        ("reordered_messages", e.reordered),
        ("duplicated_messages", e.duplicated),
        ("foreign_messages", e.foreign),
    ] {
        put(metrics, name, count as f64, "messages");
    }
    put_ratio(metrics, "loss_ratio", e.lost, e.sent);
    let duration_s = e.duration_ns as f64 / 1e9;
    let per_s = e.answered as f64 / duration_s;
    put(metrics, ANSWERED, per_s, "messages/s");
    put(metrics, "payload_gbps", per_s * f64::from(echo.size) * 8.0 / 1e9, "Gbps");
    quantiles(metrics, "rtt_ns", &e.rtt);
    if let Some(service) = &e.service {
        quantiles(metrics, "service_ns", service);
    }
    if let Some(lateness) = &e.lateness {
        quantiles(metrics, "lateness_ns", lateness);
    }
}

/// Why an exchange speaks for nothing: it ended before its time, or none of its messages left.
pub(crate) fn ended(echoed: &Echoed) -> Option<String> {
    let nothing = "no message was sent in the measured part: measure longer with \
                   --set duration_ms=1000";
    echoed.ended.clone().or_else(|| (echoed.sent == 0).then(|| nothing.to_owned()))
}

/// The warnings that belong to an exchange.
pub(crate) fn marks(echoed: &Echoed) -> Vec<Mark> {
    let mut marks = Vec::new();
    if echoed.unsent as f64 > UNSENT_MAX * echoed.planned as f64 {
        marks.push(Mark::GeneratorLimited);
    }
    if echoed.sent != echoed.answered + echoed.lost || echoed.planned != echoed.sent + echoed.unsent
    {
        marks.push(Mark::Unbalanced);
    }
    marks
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
