//! The engine of niclab on several cores: each inspects its packets in memory, again and again.

use std::hint::black_box;

use niclab_ids::engine::RuleEngine;
use niclab_ids::flow_of;
use niclab_ids::partition::Partition;
use niclab_load::clock::Clock;

use super::super::at_once::{Barrier, delayed_ns, on_cores};
use super::super::staged::{median, repeat};
use super::DetectionLoad;
use super::alerts::{self, Alerts};
use super::staging::{CorePackets, StagedPackets, stage};
use crate::cache_misses::CacheMisses;
use crate::detecting::{Detecting, DetectionCore, DetectionObservation};
use crate::face::DeviceError;

/// A core that does not run us for more than this share of a pass disturbs it.
const AWAY_MAX: f64 = 0.02;

/// Bytes of a frame's FCS.
const FCS_LEN: u64 = 4;

/// The engine of a core.
pub(super) struct CoreEngine {
    engine: RuleEngine,
    /// Its rules, by their numbers.
    rules: Vec<usize>,
}

/// What a core did in a pass.
#[derive(Clone, Copy, Default)]
struct CorePass {
    begun_ns: u64,
    ended_ns: u64,
    /// Time in which something else had the core.
    away_ns: u64,
    /// Cache misses, if the machine counts them.
    misses: Option<u64>,
}

impl CorePass {
    fn took_ns(&self) -> u64 {
        self.ended_ns - self.begun_ns
    }

    fn worked_ns(&self) -> u64 {
        self.took_ns().saturating_sub(self.away_ns)
    }

    fn is_disturbed(&self) -> bool {
        self.away_ns as f64 > AWAY_MAX * self.took_ns() as f64
    }
}

/// Lets the cores inspect. The threads keep to `pinned`. Returns the frames that the card took,
/// too.
pub(super) fn detect(
    of: &Detecting,
    load: &DetectionLoad,
    partition: &Partition,
    pinned: &[Option<u32>],
) -> Result<(DetectionObservation, u64), DeviceError> {
    let StagedPackets { cores: packets, lost, card_ns, card_frames } =
        stage(&load.frames, partition)?;
    let engines: Vec<CoreEngine> =
        (0..pinned.len()).map(|core| engine(load, partition, core)).collect();
    let expected = alerts::of_one_engine(load);
    let (found, given_up) = counted(&engines, &packets, partition);
    let passes = Passes { engines: &engines, packets: &packets, pinned, clock: Clock::new() };
    passes.run(of.warmup_ns, 0)?;
    let mut measured = passes.run(of.duration_ns, 1)?;
    let is_disturbed = |pass: &Vec<CorePass>| pass.iter().any(CorePass::is_disturbed);
    let are_all_disturbed = measured.iter().all(is_disturbed);
    if !are_all_disturbed {
        measured.retain(|pass| !is_disturbed(pass));
    }
    let core = |at: usize| {
        let worked_ns = measured.iter().map(|pass| pass[at].worked_ns()).collect();
        let engine = &engines[at].engine;
        DetectionCore {
            rules: engines[at].rules.len() as u64,
            packets: packets[at].len() as u64,
            bytes: packets[at].bytes_len() as u64 + FCS_LEN * packets[at].len() as u64,
            worked_ns: median(worked_ns),
            memory_bytes: (engine.memory_bytes() + engine.scratch().memory_bytes()) as u64,
        }
    };
    let busiest = |pass: &Vec<CorePass>| pass.iter().map(CorePass::took_ns).max().unwrap_or(0);
    let all = |pass: &Vec<CorePass>| pass.iter().map(CorePass::worked_ns).sum();
    let count = load.frames.len() as u64;
    let observed = DetectionObservation {
        packets: count,
        bytes: load.frames.iter().map(|frame| frame.len() as u64 + FCS_LEN).sum(),
        alerts: expected.values().sum(),
        wrong: alerts::difference(&found, &expected),
        lost,
        given_up,
        cores: (0..pinned.len()).map(core).collect(),
        passes_ns: measured.iter().map(busiest).collect(),
        worked_ns: measured.iter().map(all).collect(),
        is_disturbed: are_all_disturbed,
        card_ns: Some(card_ns),
        cache_misses: misses(&measured, count),
    };
    Ok((observed, card_frames))
}

/// The engine of a core, with its part of the rules.
pub(super) fn engine(load: &DetectionLoad, partition: &Partition, core: usize) -> CoreEngine {
    let rules: Vec<usize> =
        (0..load.rules.len()).filter(|rule| partition.has(core, *rule)).collect();
    let signatures = rules.iter().map(|rule| load.signatures[*rule].clone());
    CoreEngine { engine: RuleEngine::new(signatures), rules }
}

/// The alerts of all cores that count, and rules that were given up.
pub(super) fn counted(
    engines: &[CoreEngine],
    packets: &[CorePackets],
    partition: &Partition,
) -> (Alerts, u64) {
    let (mut alerts, mut given_up) = (Alerts::new(), 0);
    for (core, (CoreEngine { engine, rules }, packets)) in engines.iter().zip(packets).enumerate() {
        let mut scratch = engine.scratch();
        for frame in packets.iter() {
            let flow = flow_of(frame);
            let route = flow.map_or(partition.route_of_others(), |flow| partition.route(&flow));
            let report = |alert: niclab_ids::engine::Alert| {
                if partition.counts(core, rules[alert.signature], &route) {
                    *alerts.entry(alert.sid).or_default() += 1;
                }
            };
            // A frame that is not inspected has no alert.
            let _ = engine.inspect(frame, &mut scratch, report);
        }
        given_up += scratch.given_up();
    }
    (alerts, given_up)
}

/// Cache misses for a packet of the load.
fn misses(passes: &[Vec<CorePass>], packets: u64) -> Option<f64> {
    let all: Option<u64> = passes.iter().flatten().map(|of| of.misses).sum();
    let packets = packets * passes.len() as u64;
    all.filter(|_| packets > 0).map(|all| all as f64 / packets as f64)
}

/// Passes over all packets, on all cores at once.
struct Passes<'a> {
    engines: &'a [CoreEngine],
    packets: &'a [CorePackets],
    pinned: &'a [Option<u32>],
    clock: Clock,
}

impl Passes<'_> {
    /// Passes for so long, and no fewer than so many.
    fn run(&self, ns: u64, least: usize) -> Result<Vec<Vec<CorePass>>, DeviceError> {
        repeat(ns, least, || self.pass())
    }

    /// One pass: what each core did.
    fn pass(&self) -> Result<Vec<CorePass>, DeviceError> {
        let parts = self.engines.iter().zip(self.packets);
        on_cores(self.pinned, parts, |(of, packets), barrier| {
            inspect(&of.engine, packets, barrier, self.clock)
        })
    }
}

/// Inspects all packets of a core, at the same time as the others.
fn inspect(
    engine: &RuleEngine,
    packets: &CorePackets,
    barrier: &Barrier,
    clock: Clock,
) -> CorePass {
    let (mut scratch, mut alerts) = (engine.scratch(), 0u64);
    let counter = CacheMisses::start();
    barrier.wait();
    let (away_ns, begun_ns) = (delayed_ns(), clock.now_ns());
    for frame in packets.iter() {
        // A frame that is not inspected costs what it costs.
        let _ = engine.inspect(frame, &mut scratch, |_| alerts += 1);
    }
    let ended_ns = clock.now_ns();
    let away_ns = delayed_ns() - away_ns;
    let misses = counter.and_then(CacheMisses::stop);
    black_box(alerts);
    CorePass { begun_ns, ended_ns, away_ns, misses }
}
