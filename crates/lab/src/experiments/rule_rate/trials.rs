//! The places of the experiment `rule-rate`: which rules are created and destroyed, and when they
//! take effect.

use niclab_device::{
    Action, CallMode, ControlCore, FLOWS_PROBED_MAX, Load, OPERATIONS_PER_S_MAX, Plan, RuleBlock,
    RuleWork, RulesPlan, Stack,
};
use niclab_result::{Coordinate, Point};

use super::metrics::{EFFECT, INSERT};
use super::spec::{EffectSweep, RuleRateSweep};
use crate::axes::{ACTIONS, CALLS, CORES, at_axes, default_rules, name_of, numbers, words};
use crate::flows;
use crate::place::{PRIORITY_RULES, RULES_MAX, SweepPoint};
use crate::run::{PlannedRate, Resolver, TaskIndex, Trial, index_of};
use crate::spec::{SpecError, TrialKind};

/// Most control threads.
const THREADS_MAX: u32 = 64;

/// Measured part of a trial of effects in front of the first rule and behind the last, nanoseconds.
const AROUND_NS: u64 = 20_000_000;

/// Nothing stands in the device.
const NOTHING: SweepPoint = SweepPoint::without_rules(1);

/// Rules that are created and destroyed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreatedRules {
    /// The group that they go to.
    pub group: u32,
    /// How many.
    pub rules: u32,
    /// What they match.
    pub stack: Stack,
    /// What they do.
    pub actions: &'static [Action],
    /// How.
    pub calls: CallMode,
    /// Control threads, each with an operation queue of its own; none: the one that has the card.
    pub threads: Option<u32>,
}

/// All insertions of a sweep: the product of its axes.
pub fn places(sweep: &RuleRateSweep) -> Result<Vec<CreatedRules>, SpecError> {
    let mut all: Vec<CreatedRules> = Vec::new();
    for group in numbers("group", &sweep.group, 0, 1)? {
        for stack in words("stack", &sweep.stack, &Stack::ALL)? {
            for actions in words("actions", &sweep.actions, &ACTIONS)? {
                for calls in words("calls", &sweep.calls, &CALLS)? {
                    for rules in numbers("rules", &sweep.rules, 1, RULES_MAX)? {
                        let threads = None;
                        all.push(CreatedRules { group, rules, stack, actions, calls, threads });
                    }
                }
            }
        }
    }
    let threads = numbers("threads", &sweep.threads, 1, THREADS_MAX)?;
    if threads.is_empty() {
        return Ok(all);
    }
    // Control threads have a queue each: there are no other calls.
    let of = |threads| all.iter().map(move |one| CreatedRules { threads: Some(threads), ..*one });
    let all = threads.into_iter().flat_map(of);
    Ok(all.filter(|insertion| insertion.calls == CallMode::Queue).collect())
}

impl CreatedRules {
    fn point(&self) -> Point {
        let number = |value: u32| Coordinate::Number(f64::from(value));
        let word = |word: &str| Coordinate::Word(word.to_owned());
        let mut point = vec![
            ("group", number(self.group)),
            ("rules", number(self.rules)),
            ("stack", word(name_of(&Stack::ALL, self.stack))),
            ("actions", word(name_of(&ACTIONS, self.actions))),
            ("calls", word(name_of(&CALLS, self.calls))),
        ];
        point.extend(self.threads.map(|threads| ("threads", number(threads))));
        at_axes(point)
    }

    fn plan(&self) -> Plan {
        let rules = RuleBlock::Stack {
            group: self.group,
            priority: PRIORITY_RULES,
            stack: self.stack,
            first: 0,
            count: self.rules,
            actions: self.actions.to_vec(),
        };
        Plan::Rules(Box::new(RulesPlan {
            core: ControlCore::Same,
            start_ns: 0,
            work: RuleWork::Create(rules),
            calls: self.calls,
            slice: None,
            threads: self.threads,
            per_s: None,
            pause_ns: None,
        }))
    }
}

/// Rules of which it is seen when they take effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Effect {
    place: SweepPoint,
    rules: u32,
    per_s: u32,
    core: ControlCore,
}

pub(super) fn effects(sweep: &EffectSweep) -> Result<Vec<Effect>, SpecError> {
    let mut all = Vec::new();
    for group in numbers("group", &sweep.group, 0, 1)? {
        for rules in numbers("rules", &sweep.rules, 1, FLOWS_PROBED_MAX)? {
            for per_s in numbers("per_s", &sweep.per_s, 1, OPERATIONS_PER_S_MAX)? {
                for core in words("core", &sweep.core, &CORES)? {
                    let place = default_rules(group, rules);
                    all.push(Effect { place, rules, per_s, core });
                }
            }
        }
    }
    Ok(all)
}

impl Effect {
    fn point(&self, frame: &Coordinate) -> Point {
        let number = |value: u32| Coordinate::Number(f64::from(value));
        let word = |word: &str| Coordinate::Word(word.to_owned());
        let mut point = self.base_point(frame);
        point.insert("per_s".into(), number(self.per_s));
        point.insert("core".into(), word(name_of(&CORES, self.core)));
        point
    }

    fn base_point(&self, frame: &Coordinate) -> Point {
        let number = |value: u32| Coordinate::Number(f64::from(value));
        let point = [
            ("group", number(self.place.groups)),
            ("flows", number(self.rules)),
            ("frame", frame.clone()),
        ];
        at_axes(point)
    }

    /// Each rule drops the frames of its flow: the last one that came back had met no rule.
    fn plan(&self, seed: u64) -> Plan {
        let rules = RuleBlock::FiveTuples {
            group: self.place.groups,
            priority: PRIORITY_RULES,
            flows: flows::sent(self.rules, seed),
            first: 0,
            count: self.rules,
            actions: vec![Action::Drop],
        };
        Plan::Rules(Box::new(RulesPlan {
            core: self.core,
            start_ns: AROUND_NS,
            work: RuleWork::Create(rules),
            calls: CallMode::Single,
            slice: Some(1),
            threads: None,
            per_s: Some(self.per_s),
            pause_ns: None,
        }))
    }

    fn duration_ns(&self) -> u64 {
        let rules_ns = u64::from(self.rules) * 1_000_000_000 / u64::from(self.per_s);
        2 * AROUND_NS + rules_ns
    }
}

impl Resolver<'_> {
    /// The rules that are created and destroyed.
    pub fn add_created(&mut self, sweeps: &[RuleRateSweep]) -> Result<(), SpecError> {
        for insertion in sweeps.iter().map(places) {
            for insertion in insertion? {
                let setup = self.setup(&NOTHING, &Coordinate::Number(64.0));
                let plan = index_of(&mut self.run.plans, insertion.plan());
                let (kind, rate) = (INSERT, PlannedRate::Saturate);
                let point = insertion.point();
                self.trial(Trial { kind, setup, task: TaskIndex::Operate { plan }, rate, point });
            }
        }
        if let (true, Some(first)) = (self.run.trials.is_empty(), sweeps.first()) {
            let remedy = "control threads have a queue each: use calls=queue".to_owned();
            let value = first.calls.to_string();
            return Err(SpecError::OutOfRange { axis: "calls", value, remedy });
        }
        Ok(())
    }

    /// The rules that are probed. The frames of a trace are of no flow that a rule could be made
    /// for.
    pub fn add_effects(&mut self, sweeps: &[EffectSweep]) -> Result<(), SpecError> {
        let can_probe = self.overrides.trace.is_none();
        for sweep in sweeps.iter().filter(|_| can_probe) {
            for effect in effects(sweep)? {
                for frame in &sweep.frame.0 {
                    self.add_effect(&effect, frame)?;
                }
            }
        }
        Ok(())
    }

    fn add_effect(&mut self, effect: &Effect, frame: &Coordinate) -> Result<(), SpecError> {
        let saturating = self.load(&effect.place, frame)?;
        let probing =
            Load { duration_ns: effect.duration_ns(), ..self.run.loads[saturating].clone() };
        let probing = index_of(&mut self.run.loads, probing);
        let setup = self.setup(&effect.place, frame);
        let plan = Some(index_of(&mut self.run.plans, effect.plan(self.seed)));
        let of = self.trial(Trial {
            kind: TrialKind::SATURATE,
            setup,
            task: TaskIndex::offer(saturating),
            rate: PlannedRate::Saturate,
            point: effect.base_point(frame),
        });
        self.trial(Trial {
            kind: EFFECT,
            setup,
            task: TaskIndex::Offer { load: probing, plan },
            rate: PlannedRate::ShareOf { of, share: self.spec.effect_share },
            point: effect.point(frame),
        });
        Ok(())
    }
}
