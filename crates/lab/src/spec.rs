//! What was typed: an experiment's file, and what the command line changes in it.
//!
//! Nothing here is resolved: a [`Spec`] is exactly what the file says, [`Overrides`] what the
//! command line says. [`crate::run::resolve`] makes a [`crate::run::Run`] of both.

mod ranges;

use std::path::PathBuf;

use niclab_load::TraceFrames;
use serde::{Deserialize, Serialize};

use crate::placement::Placement;
use crate::published::Card;
use crate::throughput::{GoalSpec, SearchSpec};
use crate::values::{Values, ValuesError};

/// An experiment as its file declares it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Its name, such as `occupancy`.
    pub name: String,
    /// What kind of experiment it is: which rooms of the lab it uses.
    pub kind: Kind,
    /// One sentence: the question it asks.
    pub question: String,
    /// Rate of the `latency` trial, as a share of the measured maximum of its point.
    #[serde(default = "latency_share_default")]
    pub latency_share: f64,
    /// Rate of the `light` trial, as a share of the measured maximum of its point.
    #[serde(default = "light_share_default")]
    pub light_share: f64,
    /// Rate of the `effect` trials, as a share of the measured maximum of their point.
    #[serde(default = "effect_share_default")]
    pub effect_share: f64,
    /// Rate of the `rest`, `batch` and `change` trials, as a share of the measured maximum of their
    /// point.
    #[serde(default = "batch_share_default")]
    pub batch_share: f64,
    /// What is measured where nothing else is asked for.
    pub reduced: Grid,
    /// What `--full` measures.
    pub full: Grid,
    /// What `--grid published` measures: the places of the published figures.
    pub published: Grid,
}

/// The kinds of experiments there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Throughput and latency over the number of rules and groups.
    Occupancy,
    /// Throughput over time while a batch of rules is created.
    UpdateBatch,
    /// Throughput and latency while rules are renewed at a rate.
    UpdateRate,
    /// How fast rules are created and destroyed, and when they take effect.
    RuleRate,
    /// How fast rules are changed, and what packets meet meanwhile.
    RuleUpdate,
    /// How the hash spreads flows over queues.
    HashSkew,
    /// Throughput over the length of frames.
    FrameSize,
    /// Throughput over cores, queues and ports.
    QueueScaling,
    /// What changes of the spread over queues do to frames that flow.
    QueueChange,
    /// How long messages take there and back through the kernel's stack.
    Echo,
    /// Where the time of their round trips goes.
    Ledger,
    /// What real servers answer, and how soon.
    Application,
    /// How much data the kernel's stack carries from one host to another.
    Stream,
    /// What programs take of a core.
    ProgramCost,
    /// What a card's help is worth to a key-value store.
    KvsSteering,
}

/// One set of places to measure, and how thoroughly.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// How often each trial is repeated.
    pub repeats: u32,
    /// Fewest repeats that are left where more do not fit the budget, at least 1.
    #[serde(default = "repeats_min_default")]
    pub repeats_min: u32,
    /// Measured part of a trial.
    pub duration_ms: u64,
    /// Part before it, never counted.
    pub warmup_ms: u64,
    /// Longest time it should take in all, seconds: repeats are taken back down to `repeats_min`,
    /// then durations halved, until it fits. Without it there is no limit.
    pub budget_s: Option<u64>,
    /// Where to measure: each sweep is a full product of its axes.
    #[serde(default)]
    pub sweep: Vec<Sweep>,
    /// Which batches to measure: each is a full product of its axes.
    #[serde(default)]
    pub batch: Vec<BatchSweep>,
    /// Which rates of renewal to measure: each is a full product of its axes.
    #[serde(default)]
    pub renewal: Vec<RenewalSweep>,
    /// Which rules to create and destroy: each is a full product of its axes.
    #[serde(default)]
    pub insertion: Vec<InsertionSweep>,
    /// Which changes to measure: each is a full product of its axes.
    #[serde(default)]
    pub change: Vec<ChangeSweep>,
    /// When rules take effect: each is a full product of its axes.
    #[serde(default)]
    pub effect: Vec<EffectSweep>,
    /// Over how many queues flows are spread: each is a full product of its axes.
    #[serde(default)]
    pub spread: Vec<SpreadSweep>,
    /// Which frame sizes to measure: each is a full product of its axes.
    #[serde(default)]
    pub size: Vec<SizeSweep>,
    /// Which cores, queues and ports to measure: each is a full product of its axes.
    #[serde(default)]
    pub scaling: Vec<ScalingSweep>,
    /// What of a spread changes while frames flow: each is a full product of its axes.
    #[serde(default)]
    pub respread: Vec<RespreadSweep>,
    /// Which messages to exchange: each is a full product of its axes.
    #[serde(default)]
    pub echo: Vec<EchoSweep>,
    /// Of which messages a ledger is made: each is a full product of its axes.
    #[serde(default)]
    pub ledger: Vec<EchoSweep>,
    /// What to ask of which servers: each is a full product of its axes.
    #[serde(default)]
    pub application: Vec<ApplicationSweep>,
    /// Which bulk data to send: each is a full product of its axes.
    #[serde(default)]
    pub stream: Vec<StreamSweep>,
    /// Which programs to measure: each is a full product of its axes.
    #[serde(default)]
    pub program: Vec<ProgramSweep>,
    /// Which requests a key-value store is to serve: each is a full product of its axes.
    #[serde(default)]
    pub serving: Vec<ServingSweep>,
    /// Which knees to search.
    #[serde(default)]
    pub knee: Vec<KneeSpec>,
    /// Which throughputs to search, and where.
    #[serde(default)]
    pub search: Vec<SearchSpec>,
}

/// A product of axes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Non-root groups the rules are spread over; 0 puts them into group 0.
    pub groups: Values,
    /// Rules in these groups, the default rule of each included.
    pub rules: Values,
    /// Share of the traffic that matches an installed rule other than the default.
    #[serde(default = "zero")]
    pub match_percent: Values,
    /// Over what the matching traffic is uniform.
    #[serde(default)]
    pub hits: Hits,
    /// Flows of the traffic.
    #[serde(default = "flows_default")]
    pub flows: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
    /// Rates of the `fixed` trials, frames a second, or `max`: that of the saturating trial.
    #[serde(default = "no_values")]
    pub rate: Values,
    /// Which trials are made at each point.
    pub trials: Vec<TrialKind>,
}

/// A product of axes of batches: rules that are created while packets flow.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchSweep {
    /// What a batch is: names of [`WORKS`](crate::batch::WORKS).
    #[serde(default = "create")]
    pub work: Values,
    /// The group of the rules, 0 or 1; packets meet its default rule, or the rules that are
    /// changed.
    pub group: Values,
    /// Rules of the batch.
    pub batch: Values,
    /// The core that creates or changes them: `same` or `distinct`.
    pub core: Values,
    /// How: `single` calls, through an operation `queue`, or in one `transaction`.
    pub calls: Values,
    /// Operations between two bursts of packets; `all`: the batch is one call, and packets wait.
    pub slice: Values,
    /// Flows of the traffic.
    #[serde(default = "flows_default")]
    pub flows: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
    /// Measured part in front of the batch, milliseconds.
    pub before_ms: u64,
    /// Measured part from the start of the batch on, milliseconds.
    pub after_ms: u64,
}

/// A product of axes of renewals: the oldest of the rules goes and a new one comes, so many a
/// second, while packets flow.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenewalSweep {
    /// The group that the rules stand in, 0 or 1; packets meet its default rule.
    pub group: Values,
    /// Rules that stand there, the default rule included.
    pub rules: Values,
    /// Rules renewed a second: a number, or a name of [`PRESETS`](crate::renewal::PRESETS); 0:
    /// none.
    pub per_s: Values,
    /// The core that does it: `same` or `distinct`.
    pub core: Values,
    /// How: `single` calls, or through an operation `queue`.
    pub calls: Values,
    /// Renewals between two bursts of packets at most; `all`: all that are due.
    pub slice: Values,
    /// Flows of the traffic.
    #[serde(default = "flows_default")]
    pub flows: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
    /// Which trials are made at each point beside `saturate`: `latency`.
    pub trials: Vec<TrialKind>,
}

/// A product of axes of rules that are created, and destroyed again, without packets.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InsertionSweep {
    /// The group that they go to, empty before.
    pub group: Values,
    /// Rules.
    pub rules: Values,
    /// What they match: names of [`Stack`](niclab_device::Stack).
    pub stack: Values,
    /// What they do: names of [`ACTIONS`](crate::insertion::ACTIONS).
    pub actions: Values,
    /// How: `single` calls, through an operation `queue`, or in one `transaction`.
    pub calls: Values,
    /// Control threads, each with an operation `queue` of its own; where nothing is said, the
    /// thread that has the card does everything.
    #[serde(default = "no_values")]
    pub threads: Values,
}

/// A product of axes of rules that are changed, all of them once.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeSweep {
    /// The group that they stand in, 0 or 1.
    pub group: Values,
    /// Rules, each of a flow of the traffic.
    pub rules: Values,
    /// What is done to them: names of [`CHANGES`](crate::change::CHANGES).
    pub change: Values,
    /// How: `single` calls, through an operation `queue`, or in one `transaction`.
    pub calls: Values,
    /// `none`: without packets; `load`: while packets meet the rules.
    pub traffic: Values,
    /// The core that changes them while packets flow: `same` or `distinct`.
    pub core: Values,
    /// Changes between two bursts of packets; `all`: they are one call, and packets wait.
    pub slice: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
    /// Measured part in front of the first change, milliseconds.
    pub before_ms: u64,
    /// Measured part from there on, milliseconds.
    pub after_ms: u64,
}

/// A product of axes of rules that are created one by one while packets probe them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectSweep {
    /// The group that they go to, 0 or 1.
    pub group: Values,
    /// Rules, each of a flow of the traffic; at most [`FLOWS_PROBED_MAX`].
    ///
    /// [`FLOWS_PROBED_MAX`]: niclab_device::FLOWS_PROBED_MAX
    pub rules: Values,
    /// Rules created a second.
    pub per_s: Values,
    /// The core that creates them: `same` or `distinct`.
    pub core: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
}

/// A product of axes of queues, and of flows that the hash spreads over them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpreadSweep {
    /// Receive queues.
    pub queues: Values,
    /// Cores that poll them, never more than queues; `each`: one a queue.
    pub cores: Values,
    /// Flows of the traffic.
    pub flows: Values,
    /// Exponent of their popularity by Zipf's law; 0: all equally often.
    pub zipf: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
}

/// A product of axes of frame sizes, with what is searched at each.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeSweep {
    /// Receive queues.
    #[serde(default = "one")]
    pub queues: Values,
    /// Cores that poll them, never more than queues; `each`: one a queue.
    #[serde(default = "one")]
    pub cores: Values,
    /// Flows of the traffic.
    #[serde(default = "flows_default")]
    pub flows: Values,
    /// Frame size in bytes with FCS, or `imix`.
    pub frame: Values,
    /// What is searched.
    pub goal: Vec<GoalSpec>,
}

/// A product of axes of cores, and of queues and ports that bring them frames.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalingSweep {
    /// Which cores receive: `multi-queue`, `serial`.
    #[serde(default = "multi_queue")]
    pub receive: Values,
    /// Ports; a number of queues that they cannot share evenly is left out.
    #[serde(default = "one")]
    pub ports: Values,
    /// Receive queues of all ports.
    pub queues: Values,
    /// Cores that poll them, never more than queues; `each`: one a queue.
    pub cores: Values,
    /// Flows of the traffic.
    #[serde(default = "flows_default")]
    pub flows: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
}

/// A product of axes of changes to how frames are spread over queues while they flow.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RespreadSweep {
    /// What is changed: `none`, `entries`, `queues`, `key`, `function`, `fields`, `any`.
    #[serde(default = "none")]
    pub change: Values,
    /// Changes a second.
    #[serde(default = "respreads_default")]
    pub per_s: Values,
    /// What the device does about a queue that fills: `none`, `moves`, `save-cores`, `keys`.
    #[serde(default = "none")]
    pub answer: Values,
    /// Frames a second.
    pub pps: Values,
    /// So many times as many in the middle third of the measured part.
    #[serde(default = "one")]
    pub step: Values,
    /// Time that the function takes for each frame beside forwarding it, nanoseconds.
    #[serde(default = "zero")]
    pub work_ns: Values,
    /// Receive queues.
    pub queues: Values,
    /// Cores that poll them, never more than queues; `each`: one a queue.
    pub cores: Values,
    /// Flows of the traffic.
    #[serde(default = "flows_default")]
    pub flows: Values,
    /// Exponent of their popularity by Zipf's law; 0: all equally often.
    #[serde(default = "zero")]
    pub zipf: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
    /// Measured part of its trials, where that is another one than of others.
    #[serde(default)]
    pub duration_ms: Option<u64>,
}

fn respreads_default() -> Values {
    Values::number(100)
}

fn multi_queue() -> Values {
    word("multi-queue")
}

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
    /// What else stands in the path: `none`, `nft-100`, `vxlan`, `fq_codel`.
    #[serde(default = "none")]
    pub feature: Values,
    /// Of a ledger: whether it stamps inside the stacks too, `no` or `yes`.
    #[serde(default = "no")]
    pub deep: Values,
    /// Of a ledger: whose stamps it has, those of `probes` or of `sockets`.
    #[serde(default = "probes")]
    pub stamps: Values,
}

/// A product of axes of what clients ask of a server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplicationSweep {
    /// `memcached-tcp`, `memcached-udp`, `redis`, `http`.
    pub protocol: Values,
    /// `ipv4`, `ipv6`.
    #[serde(default = "ipv4")]
    pub family: Values,
    /// The host of the clients: `here`, `there`.
    #[serde(default = "here")]
    pub client: Values,
    /// What is asked for over HTTP.
    #[serde(default = "root")]
    pub path: Values,
    /// Percent of the requests that are gets.
    #[serde(default = "zero")]
    pub gets: Values,
    /// Bytes of a value, or `etc`.
    pub size: Values,
    /// How many keys there are.
    #[serde(default = "keys_default")]
    pub keys: Values,
    /// Requests a second whatever comes back, or `closed`.
    #[serde(default = "closed")]
    pub rate: Values,
    /// Connections, or so many for each core of the server: `100/core`.
    #[serde(default = "one")]
    pub connections: Values,
    /// Requests that wait on each connection.
    #[serde(default = "one")]
    pub depth: Values,
    /// Cores of the server, or `to-all`.
    #[serde(default = "one")]
    pub cores: Values,
    /// Whether there is a ledger of the requests, too: `no` or `yes`.
    #[serde(default = "no")]
    pub stamps: Values,
}

fn root() -> Values {
    word("/")
}

fn keys_default() -> Values {
    Values(vec![niclab_result::Coordinate::Number(10_000.0)])
}

/// A product of axes of bulk data from one host to another.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSweep {
    /// `udp`, `tcp`.
    pub transport: Values,
    /// The host that sends: `here`, `there`.
    #[serde(default = "here")]
    pub client: Values,
    /// Bytes given to the kernel at once.
    pub size: Values,
    /// Datagrams sent by one call.
    #[serde(default = "one")]
    pub batch: Values,
    /// Connections, or pairs of sockets.
    #[serde(default = "one")]
    pub connections: Values,
    /// Cores of each side, a thread on each.
    #[serde(default = "one")]
    pub cores: Values,
    /// Datagrams a second, or `full`.
    #[serde(default = "full")]
    pub rate: Values,
}

/// A product of axes of programs with their tables filled.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramSweep {
    /// Which: names of [`Case`](niclab_device::cases::Case).
    pub program: Values,
    /// Headers, tables in a row or instructions; of what does not grow there is one.
    #[serde(default = "one")]
    pub count: Values,
    /// Entries of a table, where there is one to be filled.
    #[serde(default = "zero")]
    pub entries: Values,
}

/// A product of axes of requests for a key-value store, and of who serves them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServingSweep {
    /// What the card does: `rss`, `steer`, `dma`.
    pub mode: Values,
    /// How often each key is asked for: `uniform`, `zipf`.
    pub keys: Values,
    /// Keys.
    pub count: Values,
    /// Percent of the requests that are gets.
    pub gets: Values,
    /// Cores that serve.
    pub cores: Values,
    /// Requests that are served together.
    pub burst: Values,
}

fn latency_share_default() -> f64 {
    0.6
}

fn light_share_default() -> f64 {
    1.0 / 30.0
}

fn effect_share_default() -> f64 {
    0.25
}

fn batch_share_default() -> f64 {
    0.5
}

fn repeats_min_default() -> u32 {
    1
}

fn word(word: &str) -> Values {
    Values(vec![niclab_result::Coordinate::Word(word.into())])
}

fn create() -> Values {
    word("create")
}

fn udp() -> Values {
    word("udp")
}

fn ipv4() -> Values {
    word("ipv4")
}

fn here() -> Values {
    word("here")
}

fn blocking() -> Values {
    word("blocking")
}

fn probes() -> Values {
    word("probes")
}

fn no() -> Values {
    word("no")
}

fn none() -> Values {
    word("none")
}

fn full() -> Values {
    word("full")
}

fn closed() -> Values {
    word(crate::exchange::CLOSED)
}

fn one() -> Values {
    Values::number(1)
}

fn no_values() -> Values {
    Values(Vec::new())
}

pub(crate) fn zero() -> Values {
    Values::number(0)
}

pub(crate) fn flows_default() -> Values {
    Values::number(10_000)
}

pub(crate) fn frame_default() -> Values {
    Values::number(64)
}

/// Over what matching traffic is uniform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hits {
    /// The flows of the traffic: the first `match_percent` of them have rules, the other rules are
    /// never hit.
    #[default]
    Flows,
    /// The rules: the traffic has as many flows as it takes to hit every rule.
    Rules,
}

/// What is asked of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialKind {
    /// As much as the device takes: throughput, and the latency of a full ring.
    Saturate,
    /// Latency, open loop, at a share of the maximum.
    Latency,
    /// Latency of an almost idle device.
    Light,
    /// Loss and latency, open loop, at a rate that was asked for.
    Fixed,
    /// Throughput over time while nothing changes: what `batch` is compared with.
    Rest,
    /// Throughput over time while a batch of rules is created.
    Batch,
    /// Rules are created and destroyed without packets.
    Insert,
    /// Rules are changed, without packets or while these meet them.
    Change,
    /// Rules are created one by one while frames of their flows probe whether they are there.
    Effect,
    /// As much as the device takes, over several queues: what comes to each.
    Spread,
    /// As much as the device takes, by so many cores.
    Scaling,
    /// Frames flow while their spread over queues changes.
    Respread,
    /// Messages go to a server and back.
    Echo,
    /// The same with stamps and without, in turn.
    Ledger,
    /// Clients ask a server.
    Application,
    /// One host sends to another as much as goes.
    Stream,
    /// Packets in memory go through a program.
    Process,
    /// Requests in memory are served by a key-value store.
    Serve,
}

impl TrialKind {
    /// Its name in samples.
    pub fn name(self) -> &'static str {
        match self {
            TrialKind::Saturate => "saturate",
            TrialKind::Latency => "latency",
            TrialKind::Light => "light",
            TrialKind::Fixed => "fixed",
            TrialKind::Rest => "rest",
            TrialKind::Batch => "batch",
            TrialKind::Insert => "insert",
            TrialKind::Change => "change",
            TrialKind::Effect => "effect",
            TrialKind::Spread => "spread",
            TrialKind::Scaling => "scaling",
            TrialKind::Respread => "respread",
            TrialKind::Echo => "echo",
            TrialKind::Ledger => "ledger",
            TrialKind::Application => "application",
            TrialKind::Stream => "stream",
            TrialKind::Process => "process",
            TrialKind::Serve => "serve",
        }
    }
}

/// A knee to search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KneeSpec {
    /// What breaks there.
    pub kind: KneeKind,
    /// Non-root groups; 0 is group 0.
    pub groups: u32,
    /// Greatest number of rules to try.
    pub rules_max: u32,
    /// Smallest number of rules to try, and what the plateau of a throughput is measured with;
    /// at least the default rule of each group, which is meant where nothing is said. A group of
    /// no other rule is no table to search: with twice as many each group has one, and the knee is
    /// where tables get slow, not where the first one comes.
    #[serde(default)]
    pub rules_min: u32,
    /// Bracket at which the search ends, as a share of its middle.
    pub width: f64,
    /// Share of the traffic that matches a rule other than the default, equally often each: 0 to
    /// 100, of a throughput alone. The traffic has as many flows as it takes, so that plateau and
    /// probe differ in these too: `rules_min` says from where on that is to count.
    #[serde(default)]
    pub match_percent: u32,
    /// Throughput below this share of the plateau is behind the knee.
    #[serde(default = "share_default")]
    pub share: f64,
    /// Pairs of trials behind each decision; the median decides.
    #[serde(default = "pairs_default")]
    pub pairs: u32,
}

fn share_default() -> f64 {
    0.8
}

fn pairs_default() -> u32 {
    3
}

/// What breaks at a knee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KneeKind {
    /// The device refuses rules.
    Capacity,
    /// Throughput falls below a share of the plateau.
    Throughput,
}

/// Longest measured part of a trial, milliseconds: what a stamp in a frame can say is far more,
/// what anybody waits for is less.
pub(crate) const DURATION_MS_MAX: u64 = 600_000;

pub(crate) fn in_range(
    axis: &'static str,
    value: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<(), SpecError> {
    if range.contains(&value) {
        return Ok(());
    }
    let remedy = format!("use {} to {} milliseconds", range.start(), range.end());
    Err(SpecError::OutOfRange { axis, value: value.to_string(), remedy })
}

/// What the command line changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// `--set NAME=VALUES`, in the order given.
    pub set: Vec<Assignment>,
    /// `--repeats N`.
    pub repeats: Option<u32>,
    /// `--seed N`; 1 where it is not given.
    pub seed: Option<u64>,
    /// `--full`, `--grid published`.
    pub grid: GridName,
    /// `--trace FILE`: these frames in place of generated ones.
    pub trace: Option<Trace>,
    /// `--rules FILE`: these rules in place of generated ones.
    pub rules: Option<RulesFile>,
    /// `--card NAME`: whose published figures are drawn beside ours.
    pub card: Card,
    /// `--where`, `--there`, `--path`: where programs run.
    pub placement: Placement,
    /// Interrupt coalescing is off meanwhile.
    pub tune: bool,
}

/// A capture that is sent in place of generated frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// The file.
    pub path: PathBuf,
    /// What is sent of it.
    #[serde(flatten)]
    pub frames: TraceFrames,
}

/// A file of `flow` commands whose rules are installed in place of generated ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesFile {
    /// The file.
    pub path: PathBuf,
    /// Rules that it creates.
    pub rules_count: u32,
    /// Queues that its rules name, all below this number.
    pub queues: u16,
    /// Rules that decided about a frame of the run's traffic within a fifth of a second; `None`
    /// where nobody looked.
    #[serde(default)]
    pub rules_met: Option<u32>,
}

/// Which grid of an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GridName {
    /// The default: minutes.
    #[default]
    Reduced,
    /// `--full`: an hour or so.
    Full,
    /// `--grid published`: as long as it takes.
    Published,
}

/// One `--set NAME=VALUES`.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Name of the axis.
    pub name: String,
    /// Its values.
    pub values: Values,
}

impl std::str::FromStr for Assignment {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Assignment, SpecError> {
        let (name, values) = text
            .split_once('=')
            .ok_or_else(|| SpecError::NoAssignment { text: text.to_string() })?;
        let values = Values::parse(values)
            .map_err(|source| SpecError::BadValues { name: name.to_string(), source })?;
        Ok(Assignment { name: name.trim().to_string(), values })
    }
}

impl Kind {
    /// It sends messages to a server that answers them, over the stack of the kernel.
    pub fn has_messages(self) -> bool {
        matches!(self, Kind::Echo | Kind::Ledger | Kind::Application)
    }

    /// Names that `--set` knows in an experiment of this kind, and what each means.
    pub fn axes(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Kind::Occupancy => &[
                ("groups", "non-root groups the rules are spread over; 0: all in group 0"),
                ("rules", "rules in these groups, the default rule of each included"),
                ("match_percent", "share of the traffic that matches an installed rule, percent"),
                ("flows", "flows of the traffic"),
                ("frame", "frame size in bytes with FCS, or imix"),
                ("rate", "frames a second of a trial at that rate, such as 10M; or max"),
                ("duration_ms", "measured part of a trial, one value"),
                ("warmup_ms", "part before it that is never counted, one value"),
            ],
            Kind::UpdateBatch => &[
                ("work", "create: rules are; failover: as many IPv4 prefixes are re-pointed"),
                ("group", "the group of the rules: 0 or 1"),
                ("batch", "rules that are created, or prefixes that are re-pointed"),
                ("core", "the core that does it: same or distinct"),
                ("calls", "how: single, queue or transaction"),
                ("slice", "operations between two bursts of packets, or all"),
                ("flows", "flows of the traffic"),
                ("frame", "frame size in bytes with FCS, or imix"),
                ("before_ms", "measured part in front of the batch, one value"),
                ("after_ms", "measured part from the start of the batch on, one value"),
                ("duration_ms", "measured part of a saturating trial, one value"),
                ("warmup_ms", "part before it that is never counted, one value"),
            ],
            Kind::RuleRate => &[
                ("group", "the group that the rules go to: 0 or 1"),
                ("rules", "rules that are created and destroyed"),
                ("stack", "what they match: eth, eth/ipv4, eth/ipv4/tcp, vxlan/ipv4/udp, …"),
                ("actions", "what they do: queue, mark+queue, mark+set_meta+queue, …"),
                ("calls", "how: single, queue or transaction"),
                ("threads", "control threads, each with an operation queue of its own"),
                ("per_s", "rules created a second while packets probe them"),
                ("core", "the core that creates those: same or distinct"),
                ("frame", "frame size of the probes in bytes with FCS, or imix"),
                ("duration_ms", "measured part of a saturating trial, one value"),
                ("warmup_ms", "part before it that is never counted, one value"),
            ],
            Kind::RuleUpdate => &[
                ("group", "the group that the rules stand in: 0 or 1"),
                ("rules", "rules, all of which are changed"),
                ("change", "what of them: actions, values, mask, priority, or anew"),
                ("calls", "how: single, queue or transaction"),
                ("traffic", "none, or load: packets that meet the rules meanwhile"),
                ("core", "the core that changes them then: same or distinct"),
                ("slice", "changes between two bursts of packets, or all"),
                ("frame", "frame size in bytes with FCS, or imix"),
                ("before_ms", "measured part in front of the first change, one value"),
                ("after_ms", "measured part from there on, one value"),
                ("duration_ms", "measured part of a saturating trial, one value"),
                ("warmup_ms", "part before it that is never counted, one value"),
            ],
            Kind::HashSkew => SPREAD_AXES,
            Kind::FrameSize => SIZE_AXES,
            Kind::QueueScaling => SCALING_AXES,
            Kind::QueueChange => RESPREAD_AXES,
            Kind::Echo | Kind::Ledger => ECHO_AXES,
            Kind::Application => APPLICATION_AXES,
            Kind::Stream => STREAM_AXES,
            Kind::ProgramCost => PROGRAM_AXES,
            Kind::KvsSteering => SERVING_AXES,
            Kind::UpdateRate => RENEWAL_AXES,
        }
    }
}

/// Axes of [`Kind::UpdateRate`].
const RENEWAL_AXES: &[(&str, &str)] = &[
    ("group", "the group that the rules stand in: 0 or 1"),
    ("rules", "rules that stand there, the default rule included"),
    ("per_s", "rules renewed a second, 0: none; hadoop, cache_follower, web_server"),
    ("core", "the core that renews them: same or distinct"),
    ("calls", "how: single or queue"),
    ("slice", "renewals between two bursts of packets at most, all, or tick"),
    ("flows", "flows of the traffic"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// Axes of [`Kind::HashSkew`].
const SPREAD_AXES: &[(&str, &str)] = &[
    ("queues", "receive queues"),
    ("cores", "cores that poll them, never more than queues; each: one a queue"),
    ("flows", "flows of the traffic"),
    ("zipf", "exponent of their popularity by Zipf's law, 0: all equally often"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// Axes of [`Kind::FrameSize`].
const SIZE_AXES: &[(&str, &str)] = &[
    ("queues", "receive queues"),
    ("cores", "cores that poll them, never more than queues; each: one a queue"),
    ("flows", "flows of the traffic"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("duration_ms", "measured part of a saturating trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// Axes of [`Kind::QueueScaling`].
const SCALING_AXES: &[(&str, &str)] = &[
    ("receive", "which cores receive: multi-queue, all of them; serial, one for all"),
    ("ports", "ports that share the queues evenly"),
    ("queues", "receive queues of all ports"),
    ("cores", "cores that poll them, never more than queues; each: one a queue"),
    ("flows", "flows of the traffic"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// Axes of [`Kind::QueueChange`].
const RESPREAD_AXES: &[(&str, &str)] = &[
    ("change", "what is changed: none, entries, queues, key, function, fields, any"),
    ("per_s", "changes a second"),
    ("answer", "what the device does about a queue that fills: none, moves, save-cores, keys"),
    ("pps", "frames a second"),
    ("step", "so many times as many in the middle third"),
    ("work_ns", "time the function takes for a frame beside forwarding it, nanoseconds"),
    ("queues", "receive queues"),
    ("cores", "cores that poll them, never more than queues; each: one a queue"),
    ("flows", "flows of the traffic"),
    ("zipf", "exponent of their popularity by Zipf's law, 0: all equally often"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// Axes of [`Kind::Echo`].
const ECHO_AXES: &[(&str, &str)] = &[
    ("transport", "udp or tcp"),
    ("family", "ipv4 or ipv6"),
    ("client", "the host of the client: here or there"),
    ("receive", "how both wait: blocking, busy-poll, epoll or io-uring"),
    ("rate", "messages a second whatever comes back, or closed: a batch when the last is back"),
    ("size", "bytes of a message, 16 to 65507"),
    ("batch", "messages sent by one call, 1 to 1024"),
    ("deep", "a ledger stamps inside the stacks too, over UDP: no, yes"),
    ("stamps", "whose a ledger has: of probes, or where there are none of sockets; sockets"),
    ("feature", "in the path: none, nft-RULES, vxlan, or a queueing discipline such as fq_codel"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// Axes of [`Kind::ProgramCost`].
const PROGRAM_AXES: &[(&str, &str)] = &[
    ("program", "which: l2-switch, l3-router, …, router; headers, exact, lpm, wildcard; moves, …"),
    ("count", "headers, tables in a row, or instructions"),
    ("entries", "entries of a table, where there is one to be filled"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// Axes of [`Kind::KvsSteering`].
const SERVING_AXES: &[(&str, &str)] = &[
    ("mode", "what the card does: rss, steer, dma"),
    ("keys", "how often each is asked for: uniform, zipf"),
    ("count", "keys"),
    ("gets", "percent of the requests that are gets"),
    ("cores", "cores that serve"),
    ("burst", "requests that are served together"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// Axes of [`Kind::Stream`].
const STREAM_AXES: &[(&str, &str)] = &[
    ("transport", "tcp or udp"),
    ("client", "the host that sends: here or there"),
    ("size", "bytes given to the kernel at once: 1 to 1048576 of a write, 16 to 65507 over UDP"),
    ("batch", "datagrams sent by one call, 1 to 1024 (UDP alone)"),
    ("connections", "connections, or pairs of sockets, 1 to 256"),
    ("cores", "cores of each side, a thread on each"),
    ("rate", "datagrams a second (UDP alone), or full: as fast as they go"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// Axes of [`Kind::Application`].
const APPLICATION_AXES: &[(&str, &str)] = &[
    ("protocol", "memcached-tcp, memcached-udp, redis or http"),
    ("family", "ipv4 or ipv6"),
    ("client", "the host of the clients: here or there"),
    ("path", "what is asked for over http: /"),
    ("gets", "percent of the requests that are gets; the others are sets"),
    ("size", "bytes of a value, or etc: lengths and order of keys as measured at Facebook"),
    ("keys", "how many there are"),
    ("rate", "requests a second whatever comes back, or closed: one when another is answered"),
    ("connections", "1 to 10000, or so many for each core of the server: 100/core"),
    ("depth", "requests that wait on each connection"),
    ("cores", "of the server; to-all: 1, 2, 4 and so on, and all there are"),
    ("stamps", "where the time of a request goes, too, over TCP: no, yes"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// Why an experiment cannot be read or resolved.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// No experiment has this name, and no file either.
    #[error("no experiment `{name}`: there are {known}; or give the path of a TOML file")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The file cannot be read.
    #[error("{}: {source}; give the path of an experiment's TOML file", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not an experiment.
    #[error("{origin}: {source}")]
    Syntax {
        /// The file or the name of the experiment.
        origin: String,
        /// Line, column and what may stand there.
        source: Box<toml::de::Error>,
    },
    /// `--set` without `=`.
    #[error("--set {text}: write NAME=VALUES, such as --set rules=0,1k,64k")]
    NoAssignment {
        /// What was typed.
        text: String,
    },
    /// The values of an axis cannot be read.
    #[error("--set {name}: {source}")]
    BadValues {
        /// The axis.
        name: String,
        /// What is wrong with them.
        source: ValuesError,
    },
    /// `--set` of something that is no axis.
    #[error("--set {name}: no such axis; there are {known}")]
    UnknownAxis {
        /// What was typed.
        name: String,
        /// The axes there are.
        known: String,
    },
    /// `--set` of something that a file of rules brings.
    #[error(
        "--set {name}: the rules of --rules stand where the file says; leave out one of the two"
    )]
    OfRules {
        /// The axis.
        name: String,
    },
    /// Rules of a file where no rule is to decide.
    #[error(
        "--rules: {experiment} measures what becomes of frames that no rule decides about; leave \
         out one of the two"
    )]
    NoRules {
        /// Its name.
        experiment: String,
    },
    /// `--set` of something that a trace brings.
    #[error("--set {name}: the frames of --trace bring their own {name}; leave out one of the two")]
    OfTrace {
        /// The axis.
        name: String,
    },
    /// A number of an experiment's file that cannot be.
    #[error("{origin}: {field} = {value}: {remedy}")]
    Field {
        /// The file or the name of the experiment.
        origin: String,
        /// Where in the file.
        field: String,
        /// What stands there.
        value: String,
        /// What would be right.
        remedy: String,
    },
    /// A value outside the range of its axis.
    #[error("{axis} = {value}: {remedy}")]
    OutOfRange {
        /// The axis.
        axis: &'static str,
        /// What was asked for.
        value: String,
        /// What would be right.
        remedy: String,
    },
    /// What is wrong with the values of one experiment of a run.
    #[error("{experiment}: {source}")]
    Of {
        /// Its name.
        experiment: String,
        /// What is wrong.
        source: Box<SpecError>,
    },
    /// A run without devices.
    #[error("no device to measure: give one with --device soft")]
    NoDevice,
    /// `run.toml` cannot be written or read again.
    #[error("run.toml: {reason}; start a new run with -o")]
    BadRun {
        /// What is wrong.
        reason: String,
    },
    /// `run.toml` was written by a later version.
    #[error("run.toml has schema {found}: use {program} or newer")]
    NewerRun {
        /// Its schema.
        found: u32,
        /// What wrote it.
        program: String,
    },
}

impl SpecError {
    /// A value that cannot be stands in a file or is of `--set`, which goes to several experiments:
    /// which one has it is said.
    pub(crate) fn of(self, experiment: &str) -> SpecError {
        match self {
            SpecError::OutOfRange { .. } => {
                SpecError::Of { experiment: experiment.to_owned(), source: Box::new(self) }
            }
            other => other,
        }
    }
}

impl Spec {
    /// Reads the text of an experiment; `origin` names it in errors.
    ///
    /// # Errors
    /// [`SpecError::Syntax`], [`SpecError::Field`].
    pub fn parse(origin: &str, text: &str) -> Result<Spec, SpecError> {
        let spec: Spec = toml::from_str(text).map_err(|source| SpecError::Syntax {
            origin: origin.to_string(),
            source: Box::new(source),
        })?;
        spec.check(origin)?;
        Ok(spec)
    }

    /// The grid of this name.
    pub fn grid(&self, name: GridName) -> &Grid {
        match name {
            GridName::Reduced => &self.reduced,
            GridName::Full => &self.full,
            GridName::Published => &self.published,
        }
    }
}

impl Overrides {
    /// `grid` with what was set on the command line.
    pub(crate) fn applied(&self, kind: Kind, grid: &Grid) -> Result<Grid, SpecError> {
        let mut grid = grid.clone();
        for Assignment { name, values } in &self.set {
            match name.as_str() {
                "match_percent" | "flows" | "zipf" | "frame" if self.trace.is_some() => {
                    return Err(SpecError::OfTrace { name: name.clone() });
                }
                // The rules of the other experiments stand beside those of the file.
                "groups" | "rules" | "match_percent"
                    if self.rules.is_some() && kind == Kind::Occupancy =>
                {
                    return Err(SpecError::OfRules { name: name.clone() });
                }
                "duration_ms" => {
                    grid.duration_ms = single("duration_ms", values)?;
                    grid.respread.iter_mut().for_each(|sweep| sweep.duration_ms = None);
                }
                "warmup_ms" => grid.warmup_ms = single("warmup_ms", values)?,
                _ => set_axis(kind, &mut grid, name, values)?,
            }
        }
        let batches = grid.batch.iter().map(|batch| (batch.before_ms, batch.after_ms));
        let changes = grid.change.iter().map(|change| (change.before_ms, change.after_ms));
        for (before_ms, after_ms) in batches.chain(changes) {
            in_range("before_ms", before_ms, 20..=DURATION_MS_MAX)?;
            in_range("after_ms", after_ms, 20..=DURATION_MS_MAX)?;
        }
        in_range("duration_ms", grid.duration_ms, 1..=DURATION_MS_MAX)?;
        in_range("warmup_ms", grid.warmup_ms, 0..=DURATION_MS_MAX)?;
        if self.sets_place() || self.rules.is_some() {
            grid.knee.clear();
        }
        grid.repeats = self.repeats.unwrap_or(grid.repeats);
        Ok(grid)
    }

    /// Refuses what is an axis of none of the experiments.
    pub(crate) fn check_axes(&self, specs: &[Spec]) -> Result<(), SpecError> {
        let mut known: Vec<&str> = Vec::new();
        for (name, _) in specs.iter().flat_map(|spec| spec.kind.axes()) {
            if !known.contains(name) {
                known.push(name);
            }
        }
        match self.set.iter().find(|set| !known.contains(&set.name.as_str())) {
            None => Ok(()),
            Some(Assignment { name, .. }) => {
                Err(SpecError::UnknownAxis { name: name.clone(), known: known.join(", ") })
            }
        }
    }

    /// `true` where the user chose the places to measure; he did not ask for knees elsewhere then.
    fn sets_place(&self) -> bool {
        self.set.iter().any(|set| matches!(set.name.as_str(), "groups" | "rules"))
    }
}

/// Sets an axis of all sweeps of this kind that have it.
fn set_axis(kind: Kind, grid: &mut Grid, name: &str, values: &Values) -> Result<(), SpecError> {
    let milliseconds = |axis| single(axis, values);
    let axes: Vec<&mut Values> = match kind {
        Kind::Occupancy => {
            let sweeps = grid.sweep.iter_mut().filter_map(|sweep| sweep.axis(name));
            let searches = grid.search.iter_mut().filter_map(|search| search.axis(name));
            sweeps.chain(searches).collect()
        }
        Kind::UpdateBatch => {
            for batch in &mut grid.batch {
                match name {
                    "before_ms" => batch.before_ms = milliseconds("before_ms")?,
                    "after_ms" => batch.after_ms = milliseconds("after_ms")?,
                    _ => {}
                }
            }
            grid.batch.iter_mut().filter_map(|batch| batch.axis(name)).collect()
        }
        Kind::RuleUpdate => {
            for change in &mut grid.change {
                match name {
                    "before_ms" => change.before_ms = milliseconds("before_ms")?,
                    "after_ms" => change.after_ms = milliseconds("after_ms")?,
                    _ => {}
                }
            }
            grid.change.iter_mut().filter_map(|change| change.axis(name)).collect()
        }
        Kind::RuleRate => {
            let insertions = grid.insertion.iter_mut().filter_map(|sweep| sweep.axis(name));
            let effects = grid.effect.iter_mut().filter_map(|sweep| sweep.axis(name));
            insertions.chain(effects).collect()
        }
        Kind::UpdateRate => {
            grid.renewal.iter_mut().filter_map(|renewal| renewal.axis(name)).collect()
        }
        Kind::HashSkew => grid.spread.iter_mut().filter_map(|spread| spread.axis(name)).collect(),
        Kind::FrameSize => grid.size.iter_mut().filter_map(|size| size.axis(name)).collect(),
        Kind::QueueScaling => grid.scaling.iter_mut().filter_map(|of| of.axis(name)).collect(),
        Kind::QueueChange => grid.respread.iter_mut().filter_map(|of| of.axis(name)).collect(),
        Kind::Echo => grid.echo.iter_mut().filter_map(|echo| echo.axis(name)).collect(),
        Kind::Ledger => grid.ledger.iter_mut().filter_map(|echo| echo.axis(name)).collect(),
        Kind::Stream => grid.stream.iter_mut().filter_map(|sweep| sweep.axis(name)).collect(),
        Kind::ProgramCost => grid.program.iter_mut().filter_map(|of| of.axis(name)).collect(),
        Kind::KvsSteering => grid.serving.iter_mut().filter_map(|of| of.axis(name)).collect(),
        Kind::Application => {
            grid.application.iter_mut().filter_map(|sweep| sweep.axis(name)).collect()
        }
    };
    axes.into_iter().for_each(|axis| *axis = values.clone());
    Ok(())
}

impl Sweep {
    fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "groups" => Some(&mut self.groups),
            "rules" => Some(&mut self.rules),
            "match_percent" => Some(&mut self.match_percent),
            "flows" => Some(&mut self.flows),
            "frame" => Some(&mut self.frame),
            "rate" => Some(&mut self.rate),
            _ => None,
        }
    }
}

impl BatchSweep {
    fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "work" => Some(&mut self.work),
            "group" => Some(&mut self.group),
            "batch" => Some(&mut self.batch),
            "core" => Some(&mut self.core),
            "calls" => Some(&mut self.calls),
            "slice" => Some(&mut self.slice),
            "flows" => Some(&mut self.flows),
            "frame" => Some(&mut self.frame),
            _ => None,
        }
    }
}

impl InsertionSweep {
    fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "group" => Some(&mut self.group),
            "rules" => Some(&mut self.rules),
            "stack" => Some(&mut self.stack),
            "actions" => Some(&mut self.actions),
            "calls" => Some(&mut self.calls),
            "threads" => Some(&mut self.threads),
            _ => None,
        }
    }
}

impl ChangeSweep {
    fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "group" => Some(&mut self.group),
            "rules" => Some(&mut self.rules),
            "change" => Some(&mut self.change),
            "calls" => Some(&mut self.calls),
            "traffic" => Some(&mut self.traffic),
            "core" => Some(&mut self.core),
            "slice" => Some(&mut self.slice),
            "frame" => Some(&mut self.frame),
            _ => None,
        }
    }
}

impl EffectSweep {
    /// Those of the rules that are probed; how many they are is not meant by `rules`.
    fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "group" => Some(&mut self.group),
            "per_s" => Some(&mut self.per_s),
            "core" => Some(&mut self.core),
            "frame" => Some(&mut self.frame),
            _ => None,
        }
    }
}

impl SpreadSweep {
    fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "queues" => Some(&mut self.queues),
            "cores" => Some(&mut self.cores),
            "flows" => Some(&mut self.flows),
            "zipf" => Some(&mut self.zipf),
            "frame" => Some(&mut self.frame),
            _ => None,
        }
    }
}

impl SizeSweep {
    fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "queues" => Some(&mut self.queues),
            "cores" => Some(&mut self.cores),
            "flows" => Some(&mut self.flows),
            "frame" => Some(&mut self.frame),
            _ => None,
        }
    }
}

impl ScalingSweep {
    fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "receive" => Some(&mut self.receive),
            "ports" => Some(&mut self.ports),
            "queues" => Some(&mut self.queues),
            "cores" => Some(&mut self.cores),
            "flows" => Some(&mut self.flows),
            "frame" => Some(&mut self.frame),
            _ => None,
        }
    }
}

impl ProgramSweep {
    fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "program" => Some(&mut self.program),
            "count" => Some(&mut self.count),
            "entries" => Some(&mut self.entries),
            _ => None,
        }
    }
}

impl ServingSweep {
    fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "mode" => Some(&mut self.mode),
            "keys" => Some(&mut self.keys),
            "count" => Some(&mut self.count),
            "gets" => Some(&mut self.gets),
            "cores" => Some(&mut self.cores),
            "burst" => Some(&mut self.burst),
            _ => None,
        }
    }
}

impl RespreadSweep {
    fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "change" => Some(&mut self.change),
            "per_s" => Some(&mut self.per_s),
            "answer" => Some(&mut self.answer),
            "pps" => Some(&mut self.pps),
            "step" => Some(&mut self.step),
            "work_ns" => Some(&mut self.work_ns),
            "queues" => Some(&mut self.queues),
            "cores" => Some(&mut self.cores),
            "flows" => Some(&mut self.flows),
            "zipf" => Some(&mut self.zipf),
            "frame" => Some(&mut self.frame),
            _ => None,
        }
    }
}

impl EchoSweep {
    fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "transport" => Some(&mut self.transport),
            "family" => Some(&mut self.family),
            "client" => Some(&mut self.client),
            "receive" => Some(&mut self.receive),
            "rate" => Some(&mut self.rate),
            "size" => Some(&mut self.size),
            "batch" => Some(&mut self.batch),
            "feature" => Some(&mut self.feature),
            "deep" => Some(&mut self.deep),
            "stamps" => Some(&mut self.stamps),
            _ => None,
        }
    }
}

impl StreamSweep {
    fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "transport" => Some(&mut self.transport),
            "client" => Some(&mut self.client),
            "size" => Some(&mut self.size),
            "batch" => Some(&mut self.batch),
            "connections" => Some(&mut self.connections),
            "cores" => Some(&mut self.cores),
            "rate" => Some(&mut self.rate),
            _ => None,
        }
    }
}

impl ApplicationSweep {
    fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "protocol" => Some(&mut self.protocol),
            "family" => Some(&mut self.family),
            "client" => Some(&mut self.client),
            "path" => Some(&mut self.path),
            "gets" => Some(&mut self.gets),
            "size" => Some(&mut self.size),
            "keys" => Some(&mut self.keys),
            "rate" => Some(&mut self.rate),
            "connections" => Some(&mut self.connections),
            "depth" => Some(&mut self.depth),
            "cores" => Some(&mut self.cores),
            "stamps" => Some(&mut self.stamps),
            _ => None,
        }
    }
}

impl RenewalSweep {
    fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "group" => Some(&mut self.group),
            "rules" => Some(&mut self.rules),
            "per_s" => Some(&mut self.per_s),
            "core" => Some(&mut self.core),
            "calls" => Some(&mut self.calls),
            "slice" => Some(&mut self.slice),
            "flows" => Some(&mut self.flows),
            "frame" => Some(&mut self.frame),
            _ => None,
        }
    }
}

fn single(axis: &'static str, values: &Values) -> Result<u64, SpecError> {
    match values.0.as_slice() {
        [niclab_result::Coordinate::Number(number)] => Ok(*number as u64),
        _ => Err(SpecError::OutOfRange {
            axis,
            value: values.to_string(),
            remedy: "give one number".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_is_read_or_refused_with_the_right_form() {
        let set: Assignment = "rules=0,1k".parse().unwrap();
        assert_eq!((set.name.as_str(), set.values.to_string().as_str()), ("rules", "0,1000"));
        let error = "rules".parse::<Assignment>().unwrap_err().to_string();
        assert!(error.contains("write NAME=VALUES"), "{error}");
        let error = "rules=[9-1]".parse::<Assignment>().unwrap_err().to_string();
        assert!(error.contains("--set rules: `[9-1]` is no range"), "{error}");
    }

    fn resolved(spec: Spec, overrides: &Overrides) -> Result<crate::run::Run, SpecError> {
        let about = niclab_device::About { name: "soft".into(), ..Default::default() };
        let device = crate::run::RunDevice { name: "soft".into(), absent: None, about };
        crate::run::resolve("x", &[spec], overrides, vec![device])
    }

    /// The points of the trials of a grid that has this part alone.
    fn points(spec: &Spec, only: impl Fn(&mut Grid)) -> Vec<niclab_result::Point> {
        let mut spec = spec.clone();
        only(&mut spec.reduced);
        spec.reduced.budget_s = None;
        let run = resolved(spec, &Overrides::default()).unwrap();
        run.experiments[0].trials.iter().map(|trial| trial.point.clone()).collect()
    }

    /// Experiments whose parts are sweeps alone.
    const SWEPT: [&str; 19] = [
        "update-batch",
        "update-rate",
        "rule-rate",
        "hash-skew",
        "frame-size",
        "queue-scaling",
        "queue-overhead",
        "queue-change",
        "echo-size",
        "echo-batch",
        "echo-features",
        "echo-ledger",
        "stream",
        "memcached",
        "redis",
        "function",
        "core-scaling",
        "program-cost",
        "kvs-steering",
    ];

    #[test]
    fn every_value_that_a_built_in_experiment_declares_is_measured() {
        let emptied = |grid: &mut Grid| {
            grid.sweep.clear();
            grid.batch.clear();
            grid.renewal.clear();
            grid.insertion.clear();
            grid.effect.clear();
            grid.change.clear();
            grid.spread.clear();
            grid.size.clear();
            grid.scaling.clear();
            grid.respread.clear();
            grid.echo.clear();
            grid.ledger.clear();
            grid.stream.clear();
            grid.program.clear();
            grid.serving.clear();
            grid.knee.clear();
            grid.search.clear();
        };
        let check = |points: &[niclab_result::Point], name: &str, axis: Option<&mut Values>| {
            for value in axis.into_iter().flat_map(|values| &values.0) {
                // A rate has a name, `each` is a number, and that rules are created goes without
                // saying.
                let is_named = matches!(value, niclab_result::Coordinate::Word(word)
                    if name == "per_s" || word == "create" || word == "each");
                let is_it = |at: &niclab_result::Coordinate| at.to_string() == value.to_string();
                let is_there = points.iter().any(|point| point.get(name).is_some_and(is_it));
                assert!(is_there || is_named, "{name}={value}");
            }
        };
        for name in SWEPT {
            let spec = crate::experiment::spec(name).unwrap();
            let axes: Vec<&str> = spec.kind.axes().iter().map(|(name, _)| *name).collect();
            for grid in [&spec.reduced, &spec.full, &spec.published] {
                // Every sweep of a part, as if it were the only one there is.
                macro_rules! check_part {
                    ($part:ident) => {
                        for mut sweep in grid.$part.clone() {
                            let of = points(&spec, |grid| {
                                emptied(grid);
                                grid.$part.push(sweep.clone());
                            });
                            axes.iter().for_each(|name| check(&of, name, sweep.axis(name)));
                        }
                    };
                }
                check_part!(batch);
                check_part!(renewal);
                check_part!(insertion);
                check_part!(spread);
                check_part!(size);
                check_part!(scaling);
                check_part!(respread);
                check_part!(echo);
                check_part!(ledger);
                check_part!(stream);
                check_part!(program);
                check_part!(serving);
            }
        }
    }

    #[test]
    fn a_value_out_of_the_range_of_its_axis_is_refused_in_every_experiment() {
        let refused = [
            ("update-batch", "flows=0", "flows = 0: "),
            ("update-batch", "frame=63", "frame = 63: use 64 to 9000"),
            ("update-batch", "before_ms=1", "before_ms = 1: use 20 to 600000"),
            ("update-batch", "slice=0", "slice = 0: "),
            ("update-rate", "core=none", "core = none: use one of same, distinct"),
            ("update-rate", "slice=0", "slice = 0: "),
            ("update-rate", "flows=0", "flows = 0: "),
            ("update-rate", "frame=9001", "frame = 9001: use 64 to 9000"),
            ("update-rate", "group=2", "group = 2: use 0 to 1"),
            ("rule-rate", "group=2", "group = 2: use 0 to 1"),
            ("rule-rate", "calls=twice", "calls = twice: use one of single, queue, transaction"),
            ("rule-rate", "per_s=0", "per_s = 0: use 1 to "),
            ("rule-rate", "core=2", "core = 2: use one of same, distinct"),
            ("rule-rate", "frame=1", "frame = 1: use 64 to 9000"),
            ("rule-rate", "stack=ip", "stack = ip: use one of "),
            ("rule-rate", "threads=0", "threads = 0: "),
            ("rule-update", "core=2", "core = 2: use one of same, distinct"),
            ("rule-update", "calls=2", "calls = 2: use one of single, queue, transaction"),
            ("rule-update", "slice=none", "slice = none: "),
            ("rule-update", "frame=63", "frame = 63: use 64 to 9000"),
            ("rule-update", "after_ms=19", "after_ms = 19: use 20 to 600000"),
            ("hash-skew", "queues=0", "queues = 0: use 1 to 256"),
            ("hash-skew", "queues=257", "queues = 257: use 1 to 256"),
            ("hash-skew", "cores=0", "cores = 0: use 1 to 256, or each"),
            ("hash-skew", "cores=all", "cores = all: use 1 to 256, or each"),
            ("hash-skew", "flows=0", "flows = 0: "),
            ("hash-skew", "zipf=10.1", "zipf = 10.1: use 0 to 10"),
            ("hash-skew", "zipf=-1", "zipf = -1: use 0 to 10"),
            ("hash-skew", "zipf=nan", "zipf = nan: use 0 to 10"),
            ("hash-skew", "zipf=steep", "zipf = steep: use 0 to 10"),
            ("hash-skew", "frame=63", "frame = 63: use 64 to 9000"),
            ("echo-size", "size=15", "size = 15: use 16 to 65507"),
            ("echo-ledger", "size=65508", "size = 65508: use 16 to 65507"),
            ("echo-size", "size=65508", "size = 65508: use 16 to 65507"),
            ("echo-size", "transport=sctp", "transport = sctp: use one of udp, tcp"),
            ("echo-size", "family=4", "family = 4: use one of ipv4, ipv6"),
            ("echo-size", "client=me", "client = me: use one of here, there"),
            ("echo-batch", "receive=select", "receive = select: use one of blocking, busy-poll, "),
            ("echo-batch", "batch=0", "batch = 0: use 1 to 1024"),
            ("echo-batch", "batch=1025", "batch = 1025: use 1 to 1024"),
            ("echo-batch", "rate=0", "rate = 0: use 1 to 1000M messages a second, or closed"),
            ("echo-batch", "rate=open", "rate = open: use 1 to 1000M messages a second, or closed"),
        ];
        for (name, set, words) in refused {
            let spec = crate::experiment::spec(name).unwrap();
            let overrides = Overrides { set: vec![set.parse().unwrap()], ..Default::default() };
            let error = resolved(spec, &overrides).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name}: {words}")), "{name}, {set}: {error}");
        }
        let of = |name: &str, set: &[&str]| {
            let set = set.iter().map(|text| text.parse().unwrap()).collect();
            let overrides = Overrides { set, ..Default::default() };
            resolved(crate::experiment::spec(name).unwrap(), &overrides).unwrap_err().to_string()
        };
        assert_eq!(
            of("rule-rate", &["threads=2", "calls=single,transaction"]),
            "rule-rate: calls = single,transaction: control threads have a queue each: use \
             calls=queue"
        );
        assert_eq!(
            of("rule-update", &["change=mask,values", "calls=queue"]),
            "rule-update: calls = queue: a queue knows changes of actions and anew: use \
             calls=single"
        );
    }

    #[test]
    fn a_frame_size_and_cores_that_cannot_be_are_refused() {
        let refused = [
            ("frame-size", "queues=0", "queues = 0: use 1 to 256"),
            ("frame-size", "cores=all", "cores = all: use 1 to 256, or each"),
            ("frame-size", "flows=0", "flows = 0: "),
            ("frame-size", "frame=63", "frame = 63: use 64 to 9000"),
            ("frame-size", "frame=jumbo", "frame = jumbo: "),
            ("queue-scaling", "receive=all", "receive = all: use one of multi-queue, serial"),
            ("queue-scaling", "ports=0", "ports = 0: use 1 to 64"),
            ("queue-scaling", "queues=257", "queues = 257: use 1 to 256"),
            ("queue-scaling", "cores=0", "cores = 0: use 1 to 256, or each"),
            ("queue-overhead", "flows=0", "flows = 0: "),
            ("queue-change", "change=all", "change = all: use one of none, entries, queues, "),
            ("queue-change", "answer=yes", "answer = yes: use one of none, moves, save-cores, "),
            ("queue-change", "per_s=0", "per_s = 0: use 1 to 10000"),
            ("queue-change", "pps=0", "pps = 0: use 1 to 100000000"),
            ("queue-change", "step=0", "step = 0: use 1 to 1000"),
            ("queue-change", "work_ns=1000001", "work_ns = 1000001: use 0 to 1000000"),
            ("queue-change", "queues=0", "queues = 0: use 1 to 256"),
            ("queue-change", "cores=0", "cores = 0: use 1 to 256, or each"),
            ("queue-change", "zipf=11", "zipf = 11: use 0 to 10"),
            ("queue-overhead", "frame=63", "frame = 63: use 64 to 9000"),
        ];
        for (name, set, words) in refused {
            let spec = crate::experiment::spec(name).unwrap();
            let overrides = Overrides { set: vec![set.parse().unwrap()], ..Default::default() };
            let error = resolved(spec, &overrides).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name}: {words}")), "{name}, {set}: {error}");
        }
    }

    #[test]
    fn a_value_that_a_stream_cannot_have_is_refused() {
        let refused = [
            ("transport=sctp", "transport = sctp: use one of udp, tcp"),
            ("size=0", "size = 0: use 1 to 1048576"),
            ("size=65508", "size = 65508: use 16 to 65507"),
            ("client=me", "client = me: use one of here, there"),
            ("batch=1025", "batch = 1025: use 1 to 1024"),
            ("connections=0", "connections = 0: use 1 to 256"),
            ("connections=257", "connections = 257: use 1 to 256"),
            ("cores=0", "cores = 0: use 1 to 64"),
            ("cores=32", "cores = 32: use at most as many as connections"),
            ("rate=0", "rate = 0: use 1 to 1000M datagrams a second, or full"),
        ];
        for (set, words) in refused {
            let spec = crate::experiment::spec("stream").unwrap();
            let overrides = Overrides { set: vec![set.parse().unwrap()], ..Default::default() };
            let error = resolved(spec, &overrides).unwrap_err().to_string();
            assert!(error.starts_with(&format!("stream: {words}")), "{set}: {error}");
        }
    }

    #[test]
    fn an_unknown_field_is_refused_with_its_place_and_the_fields_there_are() {
        let text = "name = \"x\"\nkind = \"occupancy\"\nquestoin = \"?\"\n";
        let error = Spec::parse("my.toml", text).unwrap_err().to_string();
        for part in ["my.toml", "line 3, column 1", "questoin", "`question`"] {
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
    }

    #[test]
    fn what_is_set_replaces_the_axis_and_an_unknown_axis_is_refused() {
        let spec = crate::experiment::spec("occupancy").unwrap();
        let set = |text: &str| Overrides {
            set: vec![text.parse().unwrap()],
            repeats: Some(2),
            ..Default::default()
        };
        let grid = set("rules=7").applied(spec.kind, &spec.reduced).unwrap();
        assert!(grid.sweep.iter().all(|sweep| sweep.rules == Values::number(7)));
        assert_eq!((grid.repeats, grid.knee.len()), (2, 0));
        let grid = set("flows=7").applied(spec.kind, &spec.reduced).unwrap();
        assert_eq!(grid.knee, spec.reduced.knee);
        assert_eq!(set("duration_ms=9").applied(spec.kind, &spec.reduced).unwrap().duration_ms, 9);
        let batches = crate::experiment::spec("update-batch").unwrap();
        let both = [spec.clone(), batches.clone()];
        let error = set("rulez=7").check_axes(&both).unwrap_err().to_string();
        assert!(error.contains("groups, rules, match_percent"), "{error}");
        assert_eq!(error.matches("frame").count(), 1, "{error}");
        assert!(
            set("batch=7").check_axes(&both).is_ok() && set("rules=7").check_axes(&both).is_ok()
        );
        assert!(set("batch=7").check_axes(&both[..1]).is_err());
        assert_eq!(
            set("batch=7").applied(spec.kind, &spec.reduced).unwrap().sweep,
            spec.reduced.sweep
        );
        let grid = set("batch=7").applied(batches.kind, &batches.reduced).unwrap();
        assert!(grid.batch.iter().all(|batch| batch.batch == Values::number(7)));
        let error =
            set("after_ms=3").applied(batches.kind, &batches.reduced).unwrap_err().to_string();
        assert!(error.contains("after_ms = 3: use 20 to 600000 milliseconds"), "{error}");
        for bad in ["duration_ms=0", "duration_ms=99999999999999", "warmup_ms=600001"] {
            let error = set(bad).applied(spec.kind, &spec.reduced).unwrap_err().to_string();
            assert!(error.contains("milliseconds"), "{error}");
        }
        let error =
            set("duration_ms=1,2").applied(spec.kind, &spec.reduced).unwrap_err().to_string();
        assert!(error.contains("give one number"), "{error}");
    }
}
