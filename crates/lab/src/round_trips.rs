//! Round trips of messages over the kernel's stack: their axes, the tasks that these make, and
//! words for them. Shared by the experiments that send messages.

use niclab_device::echo::{BATCH_MAX, Echo, Pace, Receive, SIZE_MAX, SIZE_MIN};
use niclab_device::{Feature, RoundTrips, Task};
use niclab_result::{Coordinate, Point};
use serde::Deserialize;

use crate::axes::{at_axes, name_of, numbers, refused, words};
use crate::cells::Cell;
use crate::hosts::{CLOSED, FAMILIES, HOSTS, TRANSPORTS, paces, product};
use crate::run::Resolver;
use crate::spec::defaults::{closed, here, ipv4, no, none, one, word};
use crate::spec::{SpecError, TrialKind, axes};
use crate::values::Values;

/// Trials that make the same round trips with stamps and without, in turn.
pub(crate) const LEDGER: TrialKind = TrialKind::new("ledger");

/// A product of axes of messages that go to an echo server and back.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EchoSweep {
    /// `udp`, `tcp`.
    #[serde(default = "udp")]
    pub transport: Values,
    /// `ipv4`, `ipv6`.
    #[serde(default = "ipv4")]
    pub family: Values,
    /// The host of the client: `here`, `there`.
    #[serde(default = "here")]
    pub client: Values,
    /// How both wait: `blocking`, `busy-poll`, `epoll`, `io-uring`.
    #[serde(default = "blocking")]
    pub receive: Values,
    /// Messages a second whatever comes back, or `closed`.
    #[serde(default = "closed")]
    pub rate: Values,
    /// Bytes of a message.
    pub size: Values,
    /// Messages sent by one call.
    #[serde(default = "one")]
    pub batch: Values,
    /// The feature in the path: `none`, `nft-100`, `vxlan`, `fq_codel`.
    #[serde(default = "none")]
    pub feature: Values,
    /// Whether a breakdown stamps inside the stacks too, `no` or `yes`.
    #[serde(default = "no")]
    pub deep: Values,
    /// The source of a breakdown's stamps: `probes` or `sockets`.
    #[serde(default = "probes")]
    pub stamps: Values,
}

axes!(EchoSweep: transport, family, client, receive, rate, size, batch, feature, deep, stamps);

fn udp() -> Values {
    word("udp")
}

fn blocking() -> Values {
    word("blocking")
}

fn probes() -> Values {
    word("probes")
}

/// Axes of `echo`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("transport", "udp or tcp"),
    ("family", "ipv4 or ipv6"),
    ("client", "the host of the client: here or there"),
    ("receive", "how both wait: blocking, busy-poll, epoll or io-uring"),
    ("rate", "messages a second whatever comes back, or closed: a batch when the last is back"),
    ("size", "bytes of a message, 16 to 65507"),
    ("batch", "messages sent by one call, 1 to 1024"),
    ("deep", "a breakdown stamps inside the stacks too, over UDP: no, yes"),
    ("stamps", "whose a breakdown has: of probes, or where there are none of sockets; sockets"),
    ("feature", "in the path: none, nft-RULES, vxlan, or a queueing discipline such as fq_codel"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// Ways to wait, by name.
const RECEIVES: [(&str, Receive); 4] = [
    ("blocking", Receive::Blocking),
    ("busy-poll", Receive::BusyPoll),
    ("epoll", Receive::Epoll),
    ("io-uring", Receive::IoUring),
];

/// Whether a breakdown stamps inside the stacks, by name.
const DEEP: [(&str, bool); 2] = [("no", false), ("yes", true)];

/// The sources of a breakdown's stamps, by name.
const STAMPS: [(&str, bool); 2] = [("probes", false), ("sockets", true)];

/// All tasks of a sweep, the product of its axes; of one length each.
fn tasks(
    sweep: &EchoSweep,
    duration_ms: u64,
    warmup_ms: u64,
) -> Result<Vec<RoundTrips>, SpecError> {
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
                    all.push(RoundTrips {
                        client,
                        family,
                        fifo: None,
                        feature,
                        deep,
                        sockets,
                        echo,
                    });
                }
            }
        }
    }
    Ok(all)
}

fn features(values: &Values) -> Result<Vec<Feature>, SpecError> {
    let one = |value: &Coordinate| {
        value.to_string().parse().map_err(|remedy| refused("feature", value, remedy))
    };
    values.0.iter().map(one).collect()
}

/// The point of a task.
fn point(trips: &RoundTrips) -> Point {
    let word = |word: &str| Coordinate::Word(word.to_owned());
    let number = |number: u16| Coordinate::Number(number.into());
    let echo = &trips.echo;
    let rate = match echo.pace {
        Pace::Closed => word(CLOSED),
        Pace::Open { per_s } => Coordinate::Number(per_s),
    };
    at_axes([
        ("transport", word(name_of(&TRANSPORTS, echo.transport))),
        ("family", word(name_of(&FAMILIES, trips.family))),
        ("client", word(name_of(&HOSTS, trips.client))),
        ("receive", word(name_of(&RECEIVES, echo.receive))),
        ("rate", rate),
        ("size", number(echo.size)),
        ("batch", number(echo.batch)),
        ("feature", word(&trips.feature.to_string())),
        ("deep", word(name_of(&DEEP, trips.deep))),
        ("stamps", word(name_of(&STAMPS, trips.sockets))),
    ])
}

impl Resolver<'_> {
    /// A trial for each task. They have no set-up but that nothing is set up.
    pub fn add_round_trips(
        &mut self,
        sweeps: &[EchoSweep],
        kind: TrialKind,
    ) -> Result<(), SpecError> {
        for sweep in sweeps {
            for asked in tasks(sweep, self.grid.duration_ms, self.grid.warmup_ms)? {
                for (is_asked, axis, value) in
                    [(asked.deep, "deep", "yes"), (asked.sockets, "stamps", "sockets")]
                {
                    if is_asked && kind != LEDGER {
                        let value = Coordinate::Word(value.to_owned());
                        let remedy = "a breakdown has it: echo-ledger".to_owned();
                        return Err(refused(axis, &value, remedy));
                    }
                }
                self.task(kind, point(&asked), Task::RoundTrips(asked));
            }
        }
        Ok(())
    }
}

/// The words for a cell's place on an axis.
pub(crate) fn words_at(cell: &Cell<'_>, axis: &str) -> String {
    let word = cell.word(axis);
    match (axis, cell.number(axis)) {
        ("transport", _) => word.to_uppercase(),
        ("family", _) => word.replace("ipv", "IPv"),
        ("client", _) => format!("client {word}"),
        ("feature", _) if word == "none" => "nothing else in the path".to_owned(),
        ("feature", _) => format!("{word} in the path"),
        ("rate", None) => "closed loop".to_owned(),
        ("rate", Some(per_s)) => format!("{}/s", crate::words::whole(per_s)),
        ("size", Some(bytes)) => format!("{} B", crate::words::whole(bytes)),
        ("batch", Some(1.0)) => "one at a time".to_owned(),
        ("batch", Some(batch)) => format!("batches of {}", crate::words::whole(batch)),
        _ => word,
    }
}
