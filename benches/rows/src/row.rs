//! The rows of the bar, in its order.

use std::path::PathBuf;

use clap::ValueEnum;
use niclab_nic::limits::BURST;

use crate::chain::{Finds, Masks};
use crate::entries::{Case, EntryChange, MatchKind};
use crate::insert::{InitialSize, RuleArrival};
use crate::kvs::{Build, Figure, KeyPopularity, KvsSetup};
use crate::modify::{Modified, modify};
use crate::prefixes::Family;
use crate::requests::ServerPair;
use crate::stores::RequestPath;
use crate::update::{self, RuleChangeKind};
use crate::{
    Bench, BenchError, Goal, Measured, acl, beside, chain, echo, entries, exact, forward,
    generator, insert, kvs, pipeline, prefixes, program, requests, rss, scaling, sets, stores,
    stream, ternary,
};

/// What can be asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    /// Ternary rules in the root group
    Acl,
    /// Forwarding while the same core changes rules
    Beside,
    /// Sixteen groups one behind the other, against one
    Chain,
    /// Round trips over the stack of the kernel, against sockperf
    Echo,
    /// Look-ups in the exact-match table
    Exact,
    /// Frames over AF_XDP, there and back, beside testpmd
    Forward,
    /// Generated packets
    Generator,
    /// Pages of an HTTP server, beside wrk
    Http,
    /// New keys and new rules
    Insert,
    /// The key-value store behind the card's queues: steered by key, beside RSS
    Kvs,
    /// The same over sockets of the kernel, beside memcached
    KvsSockets,
    /// Gets and sets of memcached, beside memcaslap
    Memcached,
    /// All that happens to a packet
    Pipeline,
    /// Longest prefixes of routing tables
    Prefixes,
    /// Programs of the card, beside DPDK's SWX pipeline
    Program,
    /// Entries of a program's tables that change, beside DPDK's SWX pipeline
    ProgramUpdate,
    /// Sets of Redis, beside redis-benchmark
    Redis,
    /// Receive-side scaling hashes
    Rss,
    /// The software card on two cores, against one
    Scaling,
    /// Bulk data over the stack of the kernel, against iperf3
    Stream,
    /// Ternary rules in the root group, beside the ternary table of `niclab-table`
    Ternary,
    /// Rules that change beside a reader
    Update,
}

/// One row of the bar.
pub struct Row {
    /// What it belongs to.
    pub subject: Subject,
    /// What is done.
    pub what: String,
    /// Who does the same.
    pub peer: &'static str,
    /// What would be good enough.
    pub goal: Goal,
    measure: Box<Measure>,
}

type Measure = dyn Fn(&Bench) -> Result<Measured, BenchError>;
type GetRules = dyn Fn() -> Result<Vec<sets::Rule>, BenchError>;

impl Row {
    /// Measures this row on the core this thread is kept on; see [`Bench::pin`].
    pub fn measure(&self, bench: &Bench) -> Result<Measured, BenchError> {
        (self.measure)(bench)
    }
}

/// What the sets of the row `acl` are to reach in the geometric mean; each of them is to be no
/// slower than the peer.
pub const ACL_GOAL: Goal = Goal { ratio: 2.0, floor: 9e6 };

/// Rules of the generated sets.
const GENERATED: [usize; 3] = [1_000, 10_000, 65_536];

/// The rows. Those of `acl` and `ternary` use ClassBench's files, or generated sets without files.
pub fn rows(files: &[PathBuf]) -> Vec<Row> {
    let mut rows = acl_rows(files);
    rows.extend(ternary_rows(files));
    rows.extend(others());
    rows.extend(update_rows());
    rows.extend(beside_rows());
    rows.extend(chain_rows());
    rows.extend(pipeline_rows());
    rows.extend(prefix_rows());
    rows.extend(program_rows());
    rows.extend(entry_rows());
    rows.push(scaling_row());
    rows.extend(kvs_rows());
    rows.extend(store_rows());
    rows.push(forward_row());
    rows.extend(echo_rows());
    rows.push(stream_row());
    rows.extend(request_rows());
    rows
}

/// The sets of rules that a row is measured with: their names, and how to get them. Those of files,
/// or generated where none is given.
fn rule_sets(files: &[PathBuf]) -> Vec<(String, Box<GetRules>)> {
    if files.is_empty() {
        let generated = |count| -> (String, Box<GetRules>) {
            (format!("generated {count}"), Box::new(move || Ok(sets::generate(count))))
        };
        return GENERATED.map(generated).into();
    }
    let file = |path: &PathBuf| -> (String, Box<GetRules>) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let path = path.clone();
        (name, Box::new(move || sets::read(&path)))
    };
    files.iter().map(file).collect()
}

fn acl_rows(files: &[PathBuf]) -> Vec<Row> {
    let row = |(name, rules): (String, Box<GetRules>)| Row {
        subject: Subject::Acl,
        what: format!("acl, {name}"),
        peer: "rte_acl",
        goal: Goal { ratio: 1.0, floor: 0.0 },
        measure: Box::new(move |bench| acl::classify(bench, &rules()?, acl::PACKETS)),
    };
    rule_sets(files).into_iter().map(row).collect()
}

fn ternary_rows(files: &[PathBuf]) -> Vec<Row> {
    let row = |(name, rules): (String, Box<GetRules>)| Row {
        subject: Subject::Ternary,
        what: format!("card's classifier, {name}"),
        peer: "table::Ternary",
        goal: Goal { ratio: 1.0, floor: 0.0 },
        measure: Box::new(move |bench| ternary::classify(bench, &rules()?, acl::PACKETS)),
    };
    rule_sets(files).into_iter().map(row).collect()
}
fn others() -> Vec<Row> {
    let row = |subject, what: &str, peer, ratio, floor, measure: Box<Measure>| Row {
        subject,
        what: what.to_owned(),
        peer,
        goal: Goal { ratio, floor },
        measure,
    };
    vec![
        row(
            Subject::Exact,
            "exact match, 64 k entries",
            "rte_hash bulk",
            3.0,
            60e6,
            Box::new(|bench| exact::hits(bench, 65_536)),
        ),
        row(
            Subject::Exact,
            "exact match, 1 M entries",
            "rte_hash bulk",
            3.0,
            30e6,
            Box::new(|bench| exact::hits(bench, 1_000_000)),
        ),
        row(
            Subject::Insert,
            "insert, 1 M keys",
            "rte_hash add",
            2.0,
            0.0,
            Box::new(|bench| insert::keys(bench, 1_000_000, InitialSize::Reserved)),
        ),
        row(
            Subject::Insert,
            "insert, 1 M rules",
            "rte_hash add",
            2.0,
            5e6,
            Box::new(|bench| insert::rules(bench, 1_000_000, RuleArrival::InTable)),
        ),
        row(
            Subject::Insert,
            "insert, written whole",
            "rte_hash add",
            0.0,
            0.0,
            Box::new(|bench| insert::rules(bench, 1_000_000, RuleArrival::Whole)),
        ),
        row(
            Subject::Rss,
            "RSS hash, 12-byte tuples",
            "rte_softrss_be",
            30.0,
            0.0,
            Box::new(rss::best),
        ),
        row(
            Subject::Generator,
            "generator, 10 k flows, 64 B",
            "testpmd flowgen",
            4.0,
            0.0,
            Box::new(|bench| generator::saturated(bench, 10_000)),
        ),
    ]
}

/// Rules that are updated.
const UPDATED: u32 = 65_536;

/// The gain of a change in place that PAM 2021 (figure 6) measured on a card's memory.
const IN_PLACE_GAIN: f64 = 1.8;

fn update_rows() -> Vec<Row> {
    let in_place = |what: &str, modified| Row {
        subject: Subject::Update,
        what: format!("{what} changed in place, single calls"),
        peer: "destroy and create",
        goal: Goal { ratio: IN_PLACE_GAIN, floor: 0.0 },
        measure: Box::new(move |bench| modify(bench, UPDATED.into(), modified)),
    };
    let row = |what: &str, floor, change| Row {
        subject: Subject::Update,
        what: what.to_owned(),
        peer: "",
        goal: Goal { ratio: 0.0, floor },
        measure: Box::new(move |bench| update::changes(bench, UPDATED, change)),
    };
    vec![
        row("update, 64 k rules, bulk", 20e6, RuleChangeKind::Bulk),
        row("update, single calls", 20e6, RuleChangeKind::Single),
        row("update, transactions of 64", 0.0, RuleChangeKind::Transaction(64)),
        row("update, transactions of 10 k", 0.0, RuleChangeKind::Transaction(10_000)),
        row("destroy and create", 2e6, RuleChangeKind::Renew),
        Row {
            subject: Subject::Update,
            what: "reader beside updates".to_owned(),
            peer: "without",
            goal: Goal { ratio: 0.95, floor: 0.0 },
            measure: Box::new(|bench| update::reader(bench, UPDATED)),
        },
        in_place("values", Modified::Values),
        in_place("mask", Modified::Mask),
        in_place("priority", Modified::Priority),
    ]
}

/// A run with a batch is to forward as much as one without; this allows for the noise of two runs
/// at the same offered rate.
const NO_WORSE: f64 = 0.99;

fn beside_rows() -> Vec<Row> {
    let row = |what: &str, ratio, measure: Box<Measure>| {
        let (what, goal) = (what.to_owned(), Goal { ratio, floor: 0.0 });
        Row { subject: Subject::Beside, what, peer: "without", goal, measure }
    };
    let batch = |group, count| -> Box<Measure> {
        Box::new(move |bench| beside::batch(bench, beside::STANDING, group, count))
    };
    vec![
        row(
            "beside 500 k rules/s",
            0.9,
            Box::new(|bench| beside::insert(bench, beside::STANDING, 500e3)),
        ),
        row("batch, 10 k in group 0", NO_WORSE, batch(0, 10_000)),
        row("batch, 100 k in group 1", NO_WORSE, batch(1, 100_000)),
    ]
}

/// Rules in each group of a chain.
const CHAINED: u64 = 65_536;

fn chain_rows() -> Vec<Row> {
    let row = |what: &str, ratio, masks, finds| Row {
        subject: Subject::Chain,
        what: what.to_owned(),
        peer: "one group",
        goal: Goal { ratio, floor: 0.0 },
        measure: Box::new(move |bench| chain::forward(bench, CHAINED, masks, finds)),
    };
    vec![
        row("16 groups, one mask, no match", 0.85, Masks::One, Finds::Nothing),
        row("16 groups, one mask, all match", 0.85, Masks::One, Finds::Rules),
        row("16 groups, 16 masks, no match", 0.4, Masks::Each, Finds::Nothing),
        row("16 groups, 16 masks, all match", 0.4, Masks::Each, Finds::Rules),
    ]
}

fn pipeline_rows() -> [Row; 2] {
    [("Open vSwitch", "ovs"), ("DPDK SWX", "swx")].map(|(peer, program)| Row {
        subject: Subject::Pipeline,
        what: "pipeline, 64 B".to_owned(),
        peer,
        goal: Goal { ratio: 1.0, floor: 10e6 },
        measure: Box::new(move |bench| pipeline::forward(bench, 65_536, program)),
    })
}

fn program_rows() -> [Row; 2] {
    [18, 1_000].map(|routes| Row {
        subject: Subject::Program,
        what: format!("router, {routes} routes, 64 B"),
        peer: "DPDK SWX, as C",
        goal: Goal { ratio: 1.0, floor: 3e6 },
        measure: Box::new(move |bench| program::route(bench, routes)),
    })
}

/// A table of wildcards has fewer entries: the peer of the rows with a peer compares each with all.
const ENTRIES: [(MatchKind, &str, u32); 3] = [
    (MatchKind::Exact, "exact", 65_536),
    (MatchKind::Prefix, "lpm", 65_536),
    (MatchKind::Wildcard, "wildcard", 10_000),
];
/// Changes of a transaction.
const TOGETHER: u32 = 1_000;
/// Entries in rows with a peer.
const ENTRIES_BESIDE: u32 = 1_000;

fn entry_rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let ways = [
        (EntryChange::Modify, "modify", 1),
        (EntryChange::Modify, "modify, transactions", TOGETHER),
        (EntryChange::Renew, "delete, add", 1),
        (EntryChange::Renew, "delete, add, transactions", TOGETHER),
    ];
    for (kind, name, entries) in ENTRIES {
        for (done, way, together) in ways {
            let case = Case { kind, done, entries, together };
            rows.push(Row {
                subject: Subject::ProgramUpdate,
                what: format!("{name}, {entries} entries, {way}"),
                peer: "",
                goal: Goal { ratio: 0.0, floor: 1e6 },
                measure: Box::new(move |bench| entries::changes(bench, case)),
            });
        }
    }
    for (kind, name, _) in ENTRIES {
        for (done, way, together) in [ways[0], ways[3]] {
            let case = Case { kind, done, entries: ENTRIES_BESIDE, together };
            rows.push(Row {
                subject: Subject::ProgramUpdate,
                what: format!("{name}, {ENTRIES_BESIDE} entries, {way}"),
                peer: "DPDK SWX",
                goal: Goal { ratio: 1.0, floor: 1e6 },
                measure: Box::new(move |bench| entries::beside(bench, case)),
            });
        }
    }
    rows
}

fn prefix_rows() -> [Row; 2] {
    let row = |what: &str, family: Family, count| Row {
        subject: Subject::Prefixes,
        what: what.to_owned(),
        peer: family.peer(),
        goal: Goal::NONE,
        measure: Box::new(move |bench| prefixes::forward(bench, family, count)),
    };
    [
        row("1 M routes, IPv4", Family::Ipv4, 1_000_000),
        row("200 k routes, IPv6", Family::Ipv6, 200_000),
    ]
}

fn scaling_row() -> Row {
    Row {
        subject: Subject::Scaling,
        what: "two cores, 64 B".to_owned(),
        peer: "one core",
        goal: Goal { ratio: 1.9, floor: 0.0 },
        measure: Box::new(scaling::two_cores),
    }
}

/// Requests a second that the build without the card's help is to reach, so that a ratio to it says
/// something.
const KVS_FLOOR: f64 = 1e6;

/// What steering is to gain: throughput, and the time of a core for a request, of which 30 % are to
/// be saved.
const KVS_THROUGHPUT: f64 = 1.3;
const KVS_TIME: f64 = 1.0 / 0.7;

/// What a card that writes items and tells events is to gain: 55 % of the time.
const KVS_DMA_TIME: f64 = 1.0 / 0.45;

fn kvs_rows() -> Vec<Row> {
    // Of a whole burst of the card, and of what each of two cores gets of one on average.
    let shapes = [KeyPopularity::Uniform, KeyPopularity::Zipf]
        .map(|keys| [BURST, BURST / 2].map(|burst| (keys, burst)));
    shapes.into_iter().flatten().flat_map(|(keys, burst)| kvs_rows_of(keys, burst)).collect()
}

fn kvs_rows_of(keys: KeyPopularity, burst: usize) -> [Row; 5] {
    let row = |build: &str, peer, ratio, floor, measure: Box<Measure>| Row {
        subject: Subject::Kvs,
        what: format!("kvs, {}, bursts of {burst}, {build}", keys.name()),
        peer,
        goal: Goal { ratio, floor },
        measure,
    };
    let shape = KvsSetup { burst, ..KvsSetup::of(keys) };
    let beside = |build, figure| -> Box<Measure> {
        Box::new(move |bench| kvs::beside(bench, &shape, build, figure))
    };
    let (steer, dma) = (|figure| beside(Build::Steer, figure), |figure| beside(Build::Dma, figure));
    let alone = Box::new(move |bench: &Bench| kvs::alone(bench, &shape));
    [
        row("rss", "", 0.0, KVS_FLOOR, alone),
        row("steer", "rss", KVS_THROUGHPUT, 0.0, steer(Figure::Throughput)),
        row("steer, a core's time", "rss", KVS_TIME, 0.0, steer(Figure::Time)),
        row("dma", "rss", 0.0, 0.0, dma(Figure::Throughput)),
        row("dma, a core's time", "rss", KVS_DMA_TIME, 0.0, dma(Figure::Time)),
    ]
}

fn store_rows() -> Vec<Row> {
    let row = |what: String, ratio, measure: Box<Measure>| {
        let goal = Goal { ratio, floor: 0.0 };
        Row { subject: Subject::KvsSockets, what, peer: "memcached", goal, measure }
    };
    let of = |way: RequestPath| {
        let (name, rates) = (way.name(), Box::new(move |bench: &Bench| stores::rates(bench, way)));
        let latencies = Box::new(move |bench: &Bench| stores::latencies(bench, way));
        [
            row(format!("kvs over {name}, 64 clients"), 1.0, rates),
            row(format!("kvs over {name}, half that rate"), 0.0, latencies),
        ]
    };
    [RequestPath::Tcp, RequestPath::Udp].into_iter().flat_map(of).collect()
}

fn forward_row() -> Row {
    Row {
        subject: Subject::Forward,
        what: "forward over AF_XDP, 64 B".to_owned(),
        peer: "testpmd af_xdp",
        goal: Goal { ratio: 1.0, floor: 0.0 },
        measure: Box::new(forward::frames),
    }
}

/// They have no goal in rates: what they are to be is said by [`Times`](crate::Times).
fn echo_rows() -> [Row; 2] {
    [64, 1024].map(|size| Row {
        subject: Subject::Echo,
        what: format!("echo over UDP, {size} B"),
        peer: "sockperf",
        goal: Goal::NONE,
        measure: Box::new(move |bench| echo::round_trips(bench, size)),
    })
}

/// Bytes of a write: iperf3's own for TCP.
const WRITTEN: u32 = 128 << 10;

fn stream_row() -> Row {
    Row {
        subject: Subject::Stream,
        what: "stream, 1 TCP connection, bits".to_owned(),
        peer: "iperf3",
        goal: Goal { ratio: 1.0, floor: 0.0 },
        measure: Box::new(|bench| stream::carried(bench, WRITTEN)),
    }
}

fn request_rows() -> [Row; 4] {
    let row = |subject, what: &str, application: ServerPair| Row {
        subject,
        what: what.to_owned(),
        peer: application.peer().name,
        goal: Goal { ratio: 1.0, floor: 0.0 },
        measure: Box::new(move |bench| requests::rates(bench, application)),
    };
    let redis = |depth| ServerPair::Redis { depth };
    [
        row(Subject::Memcached, "memcached, 64 connections", ServerPair::Memcached),
        row(Subject::Redis, "Redis, 50 connections", redis(1)),
        row(Subject::Redis, "Redis, 16 on each of them", redis(16)),
        row(Subject::Http, "HTTP, 64 connections", ServerPair::Http),
    ]
}
