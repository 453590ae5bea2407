//! The experiment `queue-change`: RSS changes while frames flow.
//!
//! Two questions: what a change costs frames that flow (none may be lost, and none pass another of
//! its flow), and what a device does by itself when load steps: how soon, and by how many cores.

use niclab_device::{BalanceMode, Plan, RssChangeKind, RssPlan, Setup};
use niclab_packet::flow::{FlowSpec, Popularity};
use niclab_packet::limits::FLOWS_MAX;
use niclab_result::{Coordinate, Point};

use super::metrics::RSS_CHANGE;
use super::spec::RssChangeSweep;
use crate::axes::{QUEUES_MAX, at_axes, cores, exponents, name_of, numbers, words};
use crate::flows;
use crate::place::SweepPoint;
use crate::run::{PlannedRate, Resolver, TaskIndex, Trial, index_of};
use crate::spec::SpecError;

/// Most changes a second, frames a second, times of a step, and nanoseconds of work.
const PER_S_MAX: u32 = niclab_device::RSS_CHANGES_PER_S_MAX;

const PPS_MAX: u32 = 100_000_000;
const STEP_MAX: u32 = 1_000;
const WORK_NS_MAX: u32 = 1_000_000;

/// What is changed, by name.
pub(crate) const CHANGES: [(&str, Option<RssChangeKind>); 7] = [
    ("none", None),
    ("entries", Some(RssChangeKind::Entries)),
    ("queues", Some(RssChangeKind::Queues)),
    ("key", Some(RssChangeKind::Key)),
    ("function", Some(RssChangeKind::Function)),
    ("fields", Some(RssChangeKind::Fields)),
    ("any", Some(RssChangeKind::Any)),
];

/// What a device does about a queue that fills, by name.
pub(crate) const ANSWERS: [(&str, Option<BalanceMode>); 4] = [
    ("none", None),
    ("moves", Some(BalanceMode::Moves)),
    ("save-cores", Some(BalanceMode::SaveCores)),
    ("keys", Some(BalanceMode::Keys)),
];

/// What is changed, or answered, under which load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RssChange {
    /// What is changed.
    pub change: Option<RssChangeKind>,
    /// Changes a second.
    pub per_s: u32,
    /// What the device does by itself.
    pub answer: Option<BalanceMode>,
    /// Frames a second.
    pub pps: u32,
    /// So many times as many in the middle third.
    pub step: u32,
    /// Time that the function takes for a frame, nanoseconds.
    pub work_ns: u32,
    /// Receive queues.
    pub queues: u32,
    /// Cores that poll them.
    pub cores: u32,
    /// Flows of the traffic.
    pub flows: u32,
    /// Exponent of their popularity.
    pub zipf: f64,
}

/// All places of a sweep: the product of its axes.
pub fn places(sweep: &RssChangeSweep) -> Result<Vec<RssChange>, SpecError> {
    let queues = numbers("queues", &sweep.queues, 1, QUEUES_MAX)?;
    let mut shapes = Vec::new();
    for queues in queues {
        for cores in cores(&sweep.cores, queues)? {
            for flows in numbers("flows", &sweep.flows, 1, FLOWS_MAX)? {
                shapes
                    .extend(exponents(&sweep.zipf)?.into_iter().map(|z| (queues, cores, flows, z)));
            }
        }
    }
    let mut loads = Vec::new();
    for pps in numbers("pps", &sweep.pps, 1, PPS_MAX)? {
        for step in numbers("step", &sweep.step, 1, STEP_MAX)? {
            let work = numbers("work_ns", &sweep.work_ns, 0, WORK_NS_MAX)?;
            loads.extend(work.into_iter().map(|work_ns| (pps, step, work_ns)));
        }
    }
    let mut all = Vec::new();
    for change in words("change", &sweep.change, &CHANGES)? {
        for per_s in numbers("per_s", &sweep.per_s, 1, PER_S_MAX)? {
            for answer in words("answer", &sweep.answer, &ANSWERS)? {
                for (pps, step, work_ns) in loads.iter().copied() {
                    let of = |(queues, cores, flows, zipf)| RssChange {
                        change,
                        per_s,
                        answer,
                        pps,
                        step,
                        work_ns,
                        queues,
                        cores,
                        flows,
                        zipf,
                    };
                    all.extend(shapes.iter().copied().map(of));
                }
            }
        }
    }
    Ok(all)
}

/// The plan of a repeat, where it is one of RSS: each draws changes and keys of its own.
pub(crate) fn of_repeat(plan: &Plan, repeat: u32) -> Option<Plan> {
    let Plan::Rss(plan) = plan else { return None };
    // High bits: runs of neighbouring seeds share no repeat.
    let seed = plan.seed ^ u64::from(repeat) << 32;
    Some(Plan::Rss(RssPlan { seed, ..*plan }))
}

impl RssChange {
    fn point(&self, frame: &Coordinate) -> Point {
        let number = |value: u32| Coordinate::Number(f64::from(value));
        let word = |word: &str| Coordinate::Word(word.to_owned());
        at_axes([
            ("change", word(name_of(&CHANGES, self.change))),
            ("per_s", number(self.per_s)),
            ("answer", word(name_of(&ANSWERS, self.answer))),
            ("pps", number(self.pps)),
            ("step", number(self.step)),
            ("work_ns", number(self.work_ns)),
            ("queues", number(self.queues)),
            ("cores", number(self.cores)),
            ("flows", number(self.flows)),
            ("zipf", Coordinate::Number(self.zipf)),
            ("frame", frame.clone()),
        ])
    }

    fn traffic(&self, seed: u64) -> FlowSpec {
        let popularity = match self.zipf > 0.0 {
            true => Popularity::Zipf { exponent: self.zipf },
            false => Popularity::Uniform,
        };
        FlowSpec { popularity, ..flows::sent(self.flows, seed) }
    }

    pub(super) fn rate(&self) -> PlannedRate {
        let low_pps = f64::from(self.pps);
        match self.step {
            1 => PlannedRate::Pps(low_pps),
            step => PlannedRate::Step { low_pps, high_pps: low_pps * f64::from(step) },
        }
    }
}

impl Resolver<'_> {
    /// A trial at its rate at each place.
    pub fn add_rss_changes(&mut self, sweeps: &[RssChangeSweep]) -> Result<(), SpecError> {
        for sweep in sweeps {
            let duration_ns = sweep.duration_ms.unwrap_or(self.grid.duration_ms) * 1_000_000;
            for change in places(sweep)? {
                for frame in self.frames(&sweep.frame) {
                    self.add_rss_change(&change, &frame, duration_ns)?;
                }
            }
        }
        Ok(())
    }

    fn add_rss_change(
        &mut self,
        of: &RssChange,
        frame: &Coordinate,
        duration_ns: u64,
    ) -> Result<(), SpecError> {
        let place = SweepPoint::without_rules(of.flows);
        let (queues, cores) = (of.queues as u16, of.cores as u16);
        let plain = place.setup(self.seed, self.frame_len_max(frame));
        let setup = index_of(&mut self.run.setups, Setup { queues, cores, ..plain });
        let at = self.load_of(of.traffic(self.seed), frame)?;
        let mut load = self.run.loads[at].clone();
        load.duration_ns = duration_ns;
        let load = index_of(&mut self.run.loads, load);
        let plan = Plan::Rss(RssPlan {
            change: of.change,
            per_s: of.per_s,
            answer: of.answer,
            work_ns: of.work_ns,
            seed: self.seed,
        });
        let plan = Some(index_of(&mut self.run.plans, plan));
        let (kind, rate, point) = (RSS_CHANGE, of.rate(), of.point(frame));
        self.trial(Trial { kind, setup, task: TaskIndex::Offer { load, plan }, rate, point });
        Ok(())
    }
}
