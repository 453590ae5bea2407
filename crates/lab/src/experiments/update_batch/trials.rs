//! The places of the experiment `update-batch`: which rules are created or changed, where and how.

use niclab_device::{
    Action, CallMode, ControlCore, Load, PREFIXES_MAX, Plan, RuleBlock, RuleChangeKind, RuleWork,
    RulesPlan, Stack,
};
use niclab_packet::limits::FLOWS_MAX;
use niclab_result::{Coordinate, Point};

use super::metrics::{BATCH, REST};
use super::spec::BatchSweep;
use crate::axes::{
    CALLS, CORES, at_axes, default_rules, name_of, numbers, slice_at, slices, words,
};
use crate::flows;
use crate::place::{PRIORITY_RULES, RULES_MAX, SweepPoint};
use crate::rule_matches::{NEW, OLD, to_change};
use crate::run::{PlannedRate, Resolver, TaskIndex, Trial, index_of};
use crate::spec::{SpecError, Trace, TrialKind};
use crate::values::Values;

/// What a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchWork {
    /// Rules are created that no packet meets.
    Create,
    /// The prefixes of a routing table that packets meet are re-pointed, as when a link has failed.
    Failover,
}

/// What a batch is, by name.
pub const WORKS: [(&str, BatchWork); 2] =
    [("create", BatchWork::Create), ("failover", BatchWork::Failover)];

/// One batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    /// Its work.
    pub work: BatchWork,
    /// The state of the device and its traffic, without the rules that are changed.
    pub place: SweepPoint,
    /// Rules that are created or changed, in the last group of the place.
    pub rules: u32,
    /// On which core.
    pub core: ControlCore,
    /// How.
    pub calls: CallMode,
    /// Operations between two bursts; none: all at once.
    pub slice: Option<u32>,
}

/// All batches of a sweep: the product of its axes. A trace brings its own flows.
pub fn places(sweep: &BatchSweep, trace: Option<&Trace>) -> Result<Vec<Batch>, SpecError> {
    let flows = match trace {
        Some(trace) => Values::number(trace.frames.flows.into()),
        None => sweep.flows.clone(),
    };
    let mut batches: Vec<Batch> = Vec::new();
    for group in numbers("group", &sweep.group, 0, 1)? {
        for rules in numbers("batch", &sweep.batch, 1, RULES_MAX)? {
            for core in words("core", &sweep.core, &CORES)? {
                for calls in words("calls", &sweep.calls, &CALLS)? {
                    for slice in slices(&sweep.slice)? {
                        for flows in numbers("flows", &flows, 1, FLOWS_MAX)? {
                            let (work, place) = (BatchWork::Create, default_rules(group, flows));
                            batches.push(Batch { work, place, rules, core, calls, slice });
                        }
                    }
                }
            }
        }
    }
    let works = words("work", &sweep.work, &WORKS)?;
    if works.contains(&BatchWork::Failover) {
        numbers("batch", &sweep.batch, 1, PREFIXES_MAX)?;
    }
    // The frames of a trace go to no prefix of ours.
    let can_meet = |work: &BatchWork| trace.is_none() || *work != BatchWork::Failover;
    let of = |work| batches.iter().map(move |batch| Batch { work, ..*batch });
    Ok(works.into_iter().filter(can_meet).flat_map(of).collect())
}

impl Batch {
    /// The coordinates of the trials without the batch, those of the frame size excepted.
    pub fn base_point(&self) -> Point {
        let number = |value: u32| Coordinate::Number(f64::from(value));
        let mut point =
            vec![("group", number(self.place.groups)), ("flows", number(self.place.flows))];
        if self.work == BatchWork::Failover {
            let work = name_of(&WORKS, self.work).to_owned();
            point.extend([("work", Coordinate::Word(work)), ("rules", number(self.rules))]);
        }
        at_axes(point)
    }

    /// The coordinates of the trial with it, those of the frame size excepted.
    pub fn point(&self) -> Point {
        let mut point = self.base_point();
        let word = |word: &str| Coordinate::Word(word.to_owned());
        let (core, calls) = (name_of(&CORES, self.core), name_of(&CALLS, self.calls));
        point.insert("batch".into(), Coordinate::Number(f64::from(self.rules)));
        point.insert("core".into(), word(core));
        point.insert("calls".into(), word(calls));
        point.insert("slice".into(), slice_at(self.slice));
        point
    }

    /// The rules that are created. They are of flows that are never sent: that the packets' way
    /// stays as it is, and no packet is decided by them, keeps the cost of changes apart from that
    /// of rules.
    fn created(&self, seed: u64) -> RuleBlock {
        RuleBlock::FiveTuples {
            group: self.place.groups,
            priority: PRIORITY_RULES,
            flows: flows::never_sent(self.rules, seed),
            first: 0,
            count: self.rules,
            actions: vec![Action::Queue(0)],
        }
    }

    /// The rules that are re-pointed.
    fn prefixes(&self) -> RuleBlock {
        RuleBlock::Stack {
            group: self.place.groups,
            priority: PRIORITY_RULES,
            stack: Stack::Ipv4Prefix,
            first: 0,
            count: self.rules,
            actions: vec![Action::Queue(OLD)],
        }
    }

    fn plan(&self, work: RuleWork, start_ns: u64) -> Plan {
        let Batch { core, calls, slice, .. } = *self;
        let (threads, per_s, pause_ns) = (None, None, None);
        let plan = RulesPlan { core, start_ns, work, calls, slice, threads, per_s, pause_ns };
        Plan::Rules(Box::new(plan))
    }
}

impl Resolver<'_> {
    /// Each batch beside a trial in which nothing changes, both at a share of the maximum.
    pub fn add_batches(&mut self, sweeps: &[BatchSweep]) -> Result<(), SpecError> {
        let mut all: Vec<(Batch, Coordinate, (u64, u64))> = Vec::new();
        for sweep in sweeps {
            let before_ns = sweep.before_ms * 1_000_000;
            let duration_ns = before_ns + sweep.after_ms * 1_000_000;
            for batch in places(sweep, self.overrides.trace.as_ref())? {
                for frame in self.frames(&sweep.frame) {
                    let is_same = |other: &&mut (Batch, Coordinate, _)| {
                        (&other.0, &other.1) == (&batch, &frame)
                    };
                    // Of sweeps that `--set` made meet, the one that has most time for it.
                    match all.iter_mut().find(is_same) {
                        Some((.., times)) if times.1 >= duration_ns => {}
                        Some((.., times)) => *times = (before_ns, duration_ns),
                        None => all.push((batch, frame, (before_ns, duration_ns))),
                    }
                }
            }
        }
        if all.is_empty() && !sweeps.is_empty() {
            let remedy = "the frames of a trace meet no prefixes: use work=create".to_owned();
            return Err(SpecError::OutOfRange { axis: "work", value: "failover".into(), remedy });
        }
        for (batch, frame, times) in &all {
            self.add_batch(batch, frame, *times)?;
        }
        Ok(())
    }

    fn add_batch(
        &mut self,
        batch: &Batch,
        frame: &Coordinate,
        (before_ns, duration_ns): (u64, u64),
    ) -> Result<(), SpecError> {
        let place = batch.place;
        let (setup, flows, work) = match batch.work {
            BatchWork::Create => {
                let setup = self.setup(&place, frame);
                (setup, place.traffic(self.seed), RuleWork::Create(batch.created(self.seed)))
            }
            BatchWork::Failover => {
                let (longest, file) = (self.frame_len_max(frame), self.overrides.rules.as_ref());
                let (setup, block) = to_change(batch.prefixes(), place.groups, longest, file);
                let change = RuleChangeKind::Actions(vec![Action::Queue(NEW)]);
                let flows = flows::to_prefixes(place.flows, batch.rules, self.seed);
                let setup = index_of(&mut self.run.setups, setup);
                (setup, flows, RuleWork::Change { block, change })
            }
        };
        let saturating = self.load_of(flows, frame)?;
        let load = Load { duration_ns, ..self.run.loads[saturating].clone() };
        let load = index_of(&mut self.run.loads, load);
        let plan = Some(index_of(&mut self.run.plans, batch.plan(work, before_ns)));
        let at = |mut point: Point| {
            point.insert("frame".into(), frame.clone());
            point
        };
        let saturate = Trial {
            kind: TrialKind::SATURATE,
            setup,
            task: TaskIndex::offer(saturating),
            rate: PlannedRate::Saturate,
            point: at(batch.base_point()),
        };
        let of = self.trial(saturate);
        let rate = PlannedRate::ShareOf { of, share: self.spec.batch_share };
        let mut rest_point = batch.base_point();
        rest_point.insert("for_ms".into(), Coordinate::Number(duration_ns as f64 / 1e6));
        let trial = |kind, plan, point| Trial {
            kind,
            setup,
            task: TaskIndex::Offer { load, plan },
            rate,
            point,
        };
        self.trial(trial(REST, None, at(rest_point)));
        self.trial(trial(BATCH, plan, at(batch.point())));
        Ok(())
    }
}
