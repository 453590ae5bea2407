//! The trials of `rule-update`: updated rules, and the rules that packets match meanwhile.
//!
//! | group | what is installed |
//! |---|---|
//! | 0 | group 0: a five-tuple for each flow to queue 0, `any -> queue 2` |
//! | 1 | the same in group 1; group 0: `any -> jump 1` |
//!
//! A changed rule sends its packets to queue 1. So the counters of the queues tell how many packets
//! met a rule as it was (0), as it is (1), and none (2).

use niclab_device::{
    Action, CallMode, ControlCore, Load, Plan, RuleBlock, RuleChangeKind as Replaced, RuleWork,
    RulesPlan, Setup,
};
use niclab_packet::limits::FLOWS_MAX;
use niclab_result::{Coordinate, Point};

use super::metrics::CHANGE;
use super::spec::RuleUpdateSweep;
use crate::axes::{
    CALLS, CORES, at_axes, default_rules, name_of, numbers, slice_at, slices, words,
};
use crate::flows;
use crate::place::{FRAME_LEN_COMMON, PRIORITY_RULES, SweepPoint};
use crate::rule_matches::{NEW, OLD, to_change};
use crate::run::{PlannedRate, Resolver, TaskIndex, Trial, index_of};
use crate::spec::{RulesFile, SpecError, TrialKind};

/// Priorities of rules when that is changed, and of the default rule then.
const PRIORITY_CHANGED: u32 = 1;

/// What is done to a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateKind {
    /// Its actions are replaced in place.
    Actions,
    /// The values that it matches are replaced in place.
    Values,
    /// Its mask is, in place: the source port no longer counts.
    Mask,
    /// Its priority is, in place; what it does stays.
    Priority,
    /// It is destroyed, and created with other actions.
    Anew,
}

/// What is done to rules, by name.
pub const CHANGES: [(&str, UpdateKind); 5] = [
    ("actions", UpdateKind::Actions),
    ("values", UpdateKind::Values),
    ("mask", UpdateKind::Mask),
    ("priority", UpdateKind::Priority),
    ("anew", UpdateKind::Anew),
];

const TRAFFIC: [(&str, bool); 2] = [("none", false), ("load", true)];

/// Rules that are changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateTask {
    /// The group that they stand in.
    pub group: u32,
    /// How many.
    pub rules: u32,
    /// What of them.
    pub kind: UpdateKind,
    /// How.
    pub calls: CallMode,
    /// While packets flow: on which core, and how many between two bursts (none: all at once).
    pub beside: Option<(ControlCore, Option<u32>)>,
}

/// All changes of a sweep: the product of its axes. What is not there is not asked for: without
/// packets there is no core to share and no burst to wait for.
pub fn places(sweep: &RuleUpdateSweep) -> Result<Vec<UpdateTask>, SpecError> {
    let mut all: Vec<UpdateTask> = Vec::new();
    let cores = words("core", &sweep.core, &CORES)?;
    let slices = slices(&sweep.slice)?;
    let of_load = || cores.iter().flat_map(|core| slices.iter().map(|slice| Some((*core, *slice))));
    for group in numbers("group", &sweep.group, 0, 1)? {
        for kind in words("change", &sweep.change, &CHANGES)? {
            for calls in words("calls", &sweep.calls, &CALLS)? {
                for rules in numbers("rules", &sweep.rules, 1, FLOWS_MAX / 2)? {
                    for with_load in words("traffic", &sweep.traffic, &TRAFFIC)? {
                        let beside: Vec<_> =
                            if with_load { of_load().collect() } else { vec![None] };
                        let change = |beside| UpdateTask { group, rules, kind, calls, beside };
                        all.extend(beside.into_iter().map(change));
                    }
                }
            }
        }
    }
    // The queue takes rules by template, which has no word for these.
    all.retain(|change| {
        change.calls != CallMode::Queue
            || matches!(change.kind, UpdateKind::Actions | UpdateKind::Anew)
    });
    Ok(all)
}

impl UpdateTask {
    /// Coordinates of what stands in the device.
    fn base_point(&self) -> Point {
        let number = |value: u32| Coordinate::Number(f64::from(value));
        let point = [("group", number(self.group)), ("rules", number(self.rules))];
        at_axes(point)
    }

    fn point(&self) -> Point {
        let word = |word: &str| Coordinate::Word(word.to_owned());
        let mut point = self.base_point();
        point.insert("change".into(), word(name_of(&CHANGES, self.kind)));
        point.insert("calls".into(), word(name_of(&CALLS, self.calls)));
        point.insert("traffic".into(), word(name_of(&TRAFFIC, self.beside.is_some())));
        if let Some((core, slice)) = self.beside {
            point.insert("core".into(), word(name_of(&CORES, core)));
            point.insert("slice".into(), slice_at(slice));
        }
        point
    }

    /// The traffic: each flow has a rule.
    fn place(&self) -> SweepPoint {
        default_rules(self.group, self.rules)
    }

    /// The set-up, and which of its blocks is changed.
    pub(super) fn setup(
        &self,
        seed: u64,
        frame_len_max: u16,
        file: Option<&RulesFile>,
    ) -> (Setup, usize) {
        let block = RuleBlock::FiveTuples {
            group: self.group,
            priority: PRIORITY_RULES,
            flows: flows::sent(2 * self.rules, seed),
            first: 0,
            count: self.rules,
            actions: vec![Action::Queue(OLD)],
        };
        to_change(block, self.group, frame_len_max, file)
    }

    pub(super) fn plan(&self, block: usize, start_ns: u64) -> Plan {
        let new = || vec![Action::Queue(NEW)];
        let change = match self.kind {
            UpdateKind::Actions => Replaced::Actions(new()),
            UpdateKind::Values => Replaced::Values,
            UpdateKind::Mask => Replaced::Mask,
            UpdateKind::Priority => Replaced::Priority(PRIORITY_CHANGED),
            UpdateKind::Anew => Replaced::Anew(new()),
        };
        let (core, slice) = self.beside.unwrap_or((ControlCore::Same, None));
        Plan::Rules(Box::new(RulesPlan {
            core,
            start_ns,
            work: RuleWork::Change { block, change },
            calls: self.calls,
            slice,
            threads: None,
            per_s: None,
            pause_ns: None,
        }))
    }
}

impl Resolver<'_> {
    /// Each change, without packets or at a share of the maximum of the rules as they stand.
    pub fn add_changes(&mut self, sweeps: &[RuleUpdateSweep]) -> Result<(), SpecError> {
        for sweep in sweeps {
            let before_ns = sweep.before_ms * 1_000_000;
            let duration_ns = before_ns + sweep.after_ms * 1_000_000;
            for change in places(sweep)? {
                match change.beside {
                    None => self.add_change(&change),
                    Some(_) => {
                        for frame in self.frames(&sweep.frame) {
                            self.add_beside(&change, &frame, (before_ns, duration_ns))?;
                        }
                    }
                }
            }
        }
        if let (true, Some(first)) = (self.run.trials.is_empty(), sweeps.first()) {
            let remedy = "a queue knows changes of actions and anew: use calls=single".to_owned();
            let value = first.calls.to_string();
            return Err(SpecError::OutOfRange { axis: "calls", value, remedy });
        }
        Ok(())
    }

    fn add_change(&mut self, change: &UpdateTask) {
        let file = self.overrides.rules.as_ref();
        let (setup, block) = change.setup(self.seed, FRAME_LEN_COMMON, file);
        let setup = index_of(&mut self.run.setups, setup);
        let plan = index_of(&mut self.run.plans, change.plan(block, 0));
        let (kind, rate, point) = (CHANGE, PlannedRate::Saturate, change.point());
        self.trial(Trial { kind, setup, task: TaskIndex::Operate { plan }, rate, point });
    }

    fn add_beside(
        &mut self,
        change: &UpdateTask,
        frame: &Coordinate,
        (before_ns, duration_ns): (u64, u64),
    ) -> Result<(), SpecError> {
        let saturating = self.load(&change.place(), frame)?;
        let load = Load { duration_ns, ..self.run.loads[saturating].clone() };
        let load = index_of(&mut self.run.loads, load);
        let file = self.overrides.rules.as_ref();
        let (setup, block) = change.setup(self.seed, self.frame_len_max(frame), file);
        let setup = index_of(&mut self.run.setups, setup);
        let plan = Some(index_of(&mut self.run.plans, change.plan(block, before_ns)));
        let at = |mut point: Point| {
            point.insert("frame".into(), frame.clone());
            point
        };
        let of = self.trial(Trial {
            kind: TrialKind::SATURATE,
            setup,
            task: TaskIndex::offer(saturating),
            rate: PlannedRate::Saturate,
            point: at(change.base_point()),
        });
        let rate = PlannedRate::ShareOf { of, share: self.spec.batch_share };
        let (kind, point) = (CHANGE, at(change.point()));
        self.trial(Trial { kind, setup, task: TaskIndex::Offer { load, plan }, rate, point });
        Ok(())
    }
}
