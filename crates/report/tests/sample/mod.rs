//! A synthetic run: made-up numbers in the shape of real ones, for tests and for looking at pages.
//!
//! Nothing here was measured; the published series are made up too.

use niclab_result::{
    Axis, DeviceSummary, Environment, ExperimentSummary, ExperimentVerdict, Figure, Finding, Knee,
    Mark, Mean, Origin, Quantity, ReportTable, SCHEMA, Scale, Series, SeriesShape, Summary,
    TestbedBox, TestbedSummary,
};

/// Device of ours in the sample.
const SOFT: &str = "soft";
/// Another device: its name is as long as such names get.
const RING: &str = "dpdk:--vdev=net_ring0,--vdev=net_null1,size=64";
/// A card in a publication.
const CARD: &str = "ConnectX-5";

/// A resolved run with everything that could end a script or a quotation.
pub const RUN_TOML: &str = r#"# synthetic
seed = 42
[[device]]
name = "soft"
note = "</script><script>alert('run')</script> & \"quoted\""
[[experiment]]
name = "occupancy"
rules = [1, 1000, 10000, 65536]
"#;

/// The run.
pub fn summary() -> Summary {
    Summary {
        schema: SCHEMA,
        program: "niclab 0.1.0 (synthetic)".to_owned(),
        started: "2026-11-20T14:02:11Z".to_owned(),
        duration_s: 1_527.4,
        partial: true,
        placement: "this side on the SmartNIC's CPU".to_owned(),
        findings: findings(),
        experiments: vec![occupancy(), update(), latency()],
        devices: devices(),
        warnings: vec![
            "Every number on this page is made up: it shows how a report looks.".to_owned(),
            "Steal time reached 3.1 % during `update`; its absolute rates are low by about as much."
                .to_owned(),
        ],
        skipped: None,
        baseline: None,
        reference: None,
    }
}

/// The machine of the run.
pub fn environment() -> Environment {
    let facts = [
        ("cpu", "Synthetic 2 x 2.0 GHz, 1 socket, 32 KiB L1d, 2 MiB L2, 33 MiB L3"),
        ("microcode", "0x0"),
        ("kernel", "Linux 6.12.0-synthetic"),
        (
            "kernel command line",
            "root=/dev/vda1 isolcpus=1 nohz_full=1 rcu_nocbs=1 mitigations=auto",
        ),
        ("governor", "performance"),
        ("steal", "3.1 % at most in any second"),
        ("huge pages", "512 x 2 MiB"),
    ];
    Environment {
        schema: SCHEMA,
        facts: pairs(&facts),
        noise: vec![
            "core 1 is shared with 14 kernel threads; isolate it with isolcpus=1".to_owned(),
            "the clock source is not the time-stamp counter".to_owned(),
        ],
    }
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn quantity(value: f64, unit: &str) -> Quantity {
    Quantity { value, unit: unit.to_owned() }
}

fn finding(
    (id, sentence, implication): (&str, &str, &str),
    value: Quantity,
    interval: Option<(f64, f64)>,
    figure: Option<&str>,
    device: &str,
) -> Finding {
    Finding {
        id: id.to_owned(),
        sentence: sentence.to_owned(),
        value,
        interval,
        implication: implication.to_owned(),
        figure: figure.map(str::to_owned),
        device: device.to_owned(),
        experiment: if figure == Some("update-rate") { "update" } else { "occupancy" }.to_owned(),
    }
}

fn findings() -> Vec<Finding> {
    vec![
        finding(
            (
                "soft-full-root",
                "With a full root group of 65,536 rules the soft device still forwards 8.7 Mpps, \
                 0.71 of its rate with one rule.",
                "Rules can live in group 0 without a reserve; no knee was found by bisection.",
            ),
            quantity(8_712_000.0, "pps"),
            Some((8_530_000.0, 8_840_000.0)),
            Some("occupancy-throughput-group0"),
            SOFT,
        ),
        finding(
            (
                "ring-knee-group0",
                "The ring device refuses rules beyond 52,300.",
                "Plan for at most 50,000 rules on this device and watch for refusals.",
            ),
            quantity(52_300.0, "rules"),
            Some((52_100.0, 52_500.0)),
            Some("occupancy-throughput-group0"),
            RING,
        ),
        finding(
            (
                "soft-update-same-core",
                "Inserting 500,000 rules/s on the forwarding core leaves 93 % of the throughput.",
                "A control plane can share the forwarding core at this rate.",
            ),
            quantity(0.93, "1"),
            Some((0.915, 0.941)),
            Some("update-rate"),
            SOFT,
        ),
        finding(
            (
                "soft-latency-p99",
                "At 80 % of its capacity the soft device's p99 latency is 38.4 µs.",
                "Most of it is the batch of 32: a burst of 8 would trade throughput for it.",
            ),
            quantity(38_400.0, "ns"),
            None,
            Some("a figure that was not finished"),
            SOFT,
        ),
    ]
}

fn devices() -> Vec<DeviceSummary> {
    vec![
        DeviceSummary {
            device: SOFT.to_owned(),
            facts: pairs(&[
                ("driver", "niclab-nic 0.1.0"),
                ("queues", "1 receive, 1 transmit, 4,096 descriptors each"),
                ("placement", "inline on core 1"),
                (
                    "rss key",
                    "6d:5a:56:da:25:5b:0e:c2:41:67:25:3d:43:a3:8f:b0:d0:ca:2b:cb:ae:7b:30:b4",
                ),
            ]),
            not_supported: Vec::new(),
        },
        DeviceSummary {
            device: RING.to_owned(),
            facts: pairs(&[("driver", "net_ring"), ("queues", "1 receive, 1 transmit")]),
            not_supported: vec!["rule update in place".to_owned(), "meter".to_owned()],
        },
        DeviceSummary {
            device: "</script><img src=x onerror=alert(1)> \"quoted\" & 'single'".to_owned(),
            facts: pairs(&[("driver", "a name meant to break the page")]),
            not_supported: vec!["rules".to_owned()],
        },
    ]
}

fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    Axis { label: label.to_owned(), unit: unit.to_owned(), scale }
}

/// A number in -1..1 that looks random and is always the same.
fn wobble(seed: f64) -> f64 {
    (seed * 12.989_8).sin() * 43_758.545_3 % 1.0
}

/// A point with an interval of `spread` (a share of it) to both sides.
fn point(x: f64, y: f64, spread: f64) -> Mean {
    let y = y * (1.0 + 0.3 * spread * wobble(x + y));
    Mean {
        x,
        y,
        low: Some(y * (1.0 - spread)),
        high: Some(y * (1.0 + 0.8 * spread)),
        repeats: 10,
        ..Mean::default()
    }
}

fn series(name: &str, device: &str, shape: SeriesShape, points: Vec<Mean>) -> Series {
    let origin = if device == CARD { Origin::Published } else { Origin::Measured };
    Series { name: name.to_owned(), device: device.to_owned(), origin, shape, hue: None, points }
}

fn figure(id: &str, title: &str, caption: &str, axes: (Axis, Axis), series: Vec<Series>) -> Figure {
    Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        x: axes.0,
        y: axes.1,
        series,
        knees: Vec::new(),
    }
}

fn testbed(device: &str, boxes: &[(&str, &str, Option<u32>)]) -> TestbedSummary {
    let boxes = boxes.iter().map(|(role, label, core)| TestbedBox {
        role: (*role).to_owned(),
        label: (*label).to_owned(),
        core: *core,
    });
    TestbedSummary { device: device.to_owned(), boxes: boxes.collect() }
}

fn soft_testbed() -> TestbedSummary {
    testbed(
        SOFT,
        &[
            ("generator", "10,000 flows, 64\u{a0}B, open loop", Some(0)),
            ("wire", "memory, 4,096 frames deep", None),
            ("device", "soft, inline", Some(1)),
            ("function", "forward: swap MACs, send back", Some(1)),
            ("wire", "memory, 4,096 frames deep", None),
            ("sink", "sequence and planned time", Some(0)),
        ],
    )
}

const RULES: [f64; 12] = [
    1.0, 10.0, 100.0, 1_000.0, 4_000.0, 8_000.0, 16_000.0, 32_000.0, 48_000.0, 56_000.0, 62_000.0,
    65_536.0,
];

fn occupancy() -> ExperimentSummary {
    let ring = testbed(
        RING,
        &[
            ("generator", "10,000 flows, 64 B", Some(0)),
            ("device", "net_ring with the flow shim of the lab", Some(1)),
            ("sink", "counts only", Some(0)),
        ],
    );
    ExperimentSummary {
        name: "occupancy".to_owned(),
        question: "What does a filling flow table cost in throughput and latency?".to_owned(),
        verdict: ExperimentVerdict::Answered,
        testbeds: vec![soft_testbed(), ring],
        figures: vec![occupancy_throughput(), occupancy_cliff(), occupancy_latency(), empty()],
        tables: vec![ReportTable {
            id: "occupancy-capacity".to_owned(),
            title: "Capacity by group, found by bisection".to_owned(),
            columns: ["device", "group", "rules", "± rules", "why it ends"]
                .map(str::to_owned)
                .to_vec(),
            inputs: 2,
            rows: [
                [SOFT, "0", "65,536", "0", "limit of the root group"],
                [SOFT, "1", "4,194,304", "–", "not reached"],
                [RING, "0", "52,300", "200", "refused: no space left in the table"],
            ]
            .map(|row| row.map(str::to_owned).to_vec())
            .to_vec(),
        }],
        ..ExperimentSummary::default()
    }
}

fn occupancy_throughput() -> Figure {
    let soft = RULES.iter().map(|x| point(*x, 12.3 - 0.75 * x.log10(), 0.03)).collect();
    let mut ring: Vec<_> =
        RULES[..9].iter().map(|x| point(*x, 9.1 - 1.1 * x.log10(), 0.05)).collect();
    ring[1].marks = vec![Mark::GeneratorLimited];
    ring[4].marks = vec![Mark::Disturbed, Mark::Bimodal];
    ring[8].marks = vec![Mark::FewSamples];
    let card = RULES[3..].iter().map(|x| point(*x, if *x < 56_000.0 { 8.2 } else { 0.9 }, 0.02));
    let mut figure = figure(
        "occupancy-throughput-group0",
        "Throughput against rules in group 0, 64 B",
        "Uniform hits over all rules, saturating load. Each point is the median of ten repeats.",
        (axis("rules in group 0", "", Scale::Log), axis("throughput", "Mpps", Scale::Linear)),
        vec![
            series("soft, inline", SOFT, SeriesShape::Line, soft),
            series("ring", RING, SeriesShape::Line, ring),
            series("ConnectX-5", CARD, SeriesShape::Line, card.collect()),
            series("soft, engine", SOFT, SeriesShape::Line, Vec::new()),
        ],
    );
    figure.knees = vec![Knee {
        device: "ring".to_owned(),
        x: 52_300.0,
        width: 6_000.0,
        label: "group 0: refused".to_owned(),
    }];
    figure
}

fn occupancy_cliff() -> Figure {
    let cliff = |x: f64| {
        if x < 56_000.0 { 98.9 } else { 0.84 - (x - 56_000.0) * 8.6e-5 }
    };
    let card = RULES[3..].iter().map(|x| point(*x, cliff(*x), 0.02)).collect();
    let soft = RULES.iter().map(|x| point(*x, 38.0 - 2.0 * x.log10(), 0.02)).collect();
    figure(
        "occupancy-cliff-group0",
        "The cliff: throughput against rules, 1500 B",
        "On a logarithmic axis the published card loses four orders of magnitude above 85 %.",
        (axis("rules in group 0", "", Scale::Linear), axis("throughput, L1", "Gbps", Scale::Log)),
        vec![
            series("soft, inline", SOFT, SeriesShape::Line, soft),
            series("ConnectX-5, Table 0", CARD, SeriesShape::Line, card),
        ],
    )
}

fn boxed(x: f64, median: f64, spread: f64) -> Mean {
    let at = |share: f64| median * (1.0 + spread * share);
    Mean {
        x,
        y: median,
        quartiles: Some([at(-0.45), at(-0.2), at(0.4), at(2.5)]),
        repeats: 5,
        ..Mean::default()
    }
}

fn occupancy_latency() -> Figure {
    let mut soft: Vec<_> = RULES[3..].iter().map(|x| boxed(*x, 9.0 + x / 9_000.0, 0.5)).collect();
    soft[2].marks = vec![Mark::Drift];
    let ring = RULES[3..9].iter().map(|x| boxed(*x, 22.0 + x / 2_500.0, 0.9)).collect();
    let late = |x: f64| {
        if x < 56_000.0 { 32.0 + x / 1_000.0 } else { 3_900.0 + x }
    };
    let card = RULES[3..].iter().map(|x| boxed(*x, late(*x), 0.6)).collect();
    figure(
        "occupancy-latency-group0",
        "Latency against rules in group 0",
        "From the planned departure of each packet, at 60 % of the capacity.",
        (axis("rules in group 0", "", Scale::Log), axis("latency", "µs", Scale::Log)),
        vec![
            series("soft, inline", SOFT, SeriesShape::Box, soft),
            series("ring", RING, SeriesShape::Box, ring),
            series("ConnectX-5", CARD, SeriesShape::Box, card),
        ],
    )
}

fn empty() -> Figure {
    figure(
        "occupancy-group1",
        "Throughput against rules in group 1",
        "The run ended before this sweep began.",
        (axis("rules in group 1", "", Scale::Log), axis("throughput", "Mpps", Scale::Linear)),
        vec![series("soft, inline", SOFT, SeriesShape::Line, Vec::new())],
    )
}

fn update() -> ExperimentSummary {
    let rates = [0.0, 1e3, 1e4, 5e4, 1e5, 2e5, 5e5];
    let mut same: Vec<_> = rates.iter().map(|x| point(*x, 11.9 - x * 1.6e-6, 0.02)).collect();
    same[6].marks = vec![Mark::Unbalanced];
    let distinct = rates.iter().map(|x| point(*x, 11.9 - x * 4e-7, 0.015)).collect();
    let card = rates.iter().map(|x| point(*x, 8.2 / (1.0 + x / 9e3), 0.04)).collect();
    let axes = (
        axis("insertion rate", "rules/s", Scale::Symlog),
        axis("throughput", "Mpps", Scale::Linear),
    );
    let rate = figure(
        "update-rate",
        "Throughput while rules are inserted",
        "Group 1, 64 k rules kept: each insertion destroys the oldest rule.",
        axes,
        vec![
            series("soft, same core", SOFT, SeriesShape::Line, same),
            series("soft, distinct cores", SOFT, SeriesShape::Line, distinct),
            series("ConnectX-5, same core", CARD, SeriesShape::Line, card),
        ],
    );
    ExperimentSummary {
        name: "update".to_owned(),
        question: "What do packets see while the control side changes rules?".to_owned(),
        verdict: ExperimentVerdict::Answered,
        testbeds: vec![soft_testbed()],
        figures: vec![rate, batch()],
        tables: Vec::new(),
        ..ExperimentSummary::default()
    }
}

/// A series over time: more points than symbols have room for.
fn batch() -> Figure {
    let line = |dead_s: f64, level: f64| {
        let slots = (0..120).map(|slot| f64::from(slot) * 0.05);
        let value = |t: f64| {
            let dead = t > 2.0 && t < 2.0 + dead_s;
            Mean {
                x: t,
                y: if dead { 0.0 } else { level * (1.0 + 0.02 * wobble(t + level)) },
                repeats: 1,
                marks: if t > 4.475 && t < 4.525 { vec![Mark::Disturbed] } else { Vec::new() },
                ..Mean::default()
            }
        };
        slots.map(value).collect()
    };
    let axes = (axis("time", "s", Scale::Linear), axis("throughput", "Mpps", Scale::Linear));
    figure(
        "update-batch",
        "A batch of 10,000 rules at two seconds",
        "Slices of 50 ms; the batch is committed at t = 2 s.",
        axes,
        vec![
            series("soft, one transaction", SOFT, SeriesShape::Line, line(0.0, 11.8)),
            series("ring, rule by rule", RING, SeriesShape::Line, line(0.6, 8.3)),
            series("ConnectX-5, Table 0", CARD, SeriesShape::Line, line(1.9, 8.1)),
        ],
    )
}

fn latency() -> ExperimentSummary {
    let curve = |scale: f64, tail: f64| {
        let steps = (0..400).map(|step| f64::from(step) / 400.0);
        let quantile = |p: f64| scale * (1.0 + tail * -(1.0 - p).ln() / 4.0 + p * p);
        steps.map(|p| Mean { x: quantile(p), y: p, repeats: 1, ..Mean::default() }).collect()
    };
    let cdf = figure(
        "latency-cdf",
        "Round-trip latency at 80 % of capacity",
        "Open loop, 64 B, from the planned departure; ten repeats merged.",
        (axis("latency", "µs", Scale::Log), axis("share of packets", "", Scale::Linear)),
        vec![
            series("soft, burst 8", SOFT, SeriesShape::Cdf, curve(4.0, 0.4)),
            series("soft, burst 32", SOFT, SeriesShape::Cdf, curve(9.0, 0.9)),
            series("ring", RING, SeriesShape::Cdf, curve(15.0, 2.8)),
        ],
    );
    ExperimentSummary {
        name: "latency".to_owned(),
        question: "How long does a packet take, and which application would notice?".to_owned(),
        verdict: ExperimentVerdict::CannotTell {
            reason: "ring: all of 3 latency points show the generator's limit.".to_owned(),
        },
        testbeds: vec![soft_testbed()],
        figures: vec![cdf, applications(), application_boxes()],
        tables: Vec::new(),
        ..ExperimentSummary::default()
    }
}

const APPLICATIONS: [&str; 5] =
    ["memcached get", "memcached set", "Redis get", "Redis set", "FaaS"];

fn worded(word: &str, mut point: Mean) -> Mean {
    point.x_word = word.to_owned();
    point.x = 0.0;
    point
}

fn applications() -> Figure {
    let line = |scale: f64| {
        let words = APPLICATIONS.iter().zip([1.0, 1.1, 1.6, 1.9, 4.2]);
        words.map(|(word, of)| worded(word, point(of, scale * of, 0.06))).collect()
    };
    figure(
        "latency-applications",
        "Median round trip by application",
        "One outstanding request.",
        (axis("application", "", Scale::Ordinal), axis("round trip", "µs", Scale::Linear)),
        vec![
            series("soft", SOFT, SeriesShape::Line, line(21.0)),
            series("ring", RING, SeriesShape::Line, line(29.0)),
            series("ConnectX-5", CARD, SeriesShape::Line, line(17.0)),
        ],
    )
}

fn application_boxes() -> Figure {
    let boxes = |scale: f64| {
        let words = APPLICATIONS.iter().zip([1.0, 1.1, 1.6, 1.9, 4.2]);
        words.map(|(word, of)| worded(word, boxed(0.0, scale * of, 0.5))).collect()
    };
    figure(
        "latency-application-boxes",
        "Round trips by application, at 50 % load",
        "A hundred thousand requests each.",
        (axis("application", "", Scale::Ordinal), axis("round trip", "µs", Scale::Log)),
        vec![
            series("soft", SOFT, SeriesShape::Box, boxes(23.0)),
            series("ring", RING, SeriesShape::Box, boxes(34.0)),
        ],
    )
}
