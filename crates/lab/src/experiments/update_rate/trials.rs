//! The places of the experiment `update-rate`: rules that are replaced at a rate while packets
//! flow.

use niclab_device::{
    Action, CallMode, ControlCore, OPERATIONS_PER_S_MAX, Plan, RuleBlock, RuleWork, RulesPlan,
};
use niclab_packet::limits::FLOWS_MAX;
use niclab_result::{Coordinate, Point};

use super::spec::RuleChurnSweep;
use crate::axes::{
    CALLS, CORES, at_axes, default_rules, name_of, numbers, refused, slice_at, slices, words,
};
use crate::flows;
use crate::place::{PRIORITY_RULES, RULES_MAX, SweepPoint};
use crate::run::{PlannedRate, Resolver, TaskIndex, Trial, index_of, no_trial, number};
use crate::spec::{SpecError, Trace, TrialKind};
use crate::values::Values;

/// Rates by name, in rules a second: what a card is asked for where each new flow of such a service
/// gets a rule. Orders of magnitude, not measurements of ours.
pub const PRESETS: [(&str, u32); 3] =
    [("hadoop", 4_000), ("cache_follower", 36_000), ("web_server", 338_000)];

/// Fewest replacements of a trial: of fewer there is no rate.
const REPLACEMENTS_MIN: u64 = 10;

/// One rate of rule churn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RuleChurn {
    /// The state of the device without the rules that are replaced, and its traffic.
    pub place: SweepPoint,
    /// Rules that are replaced, in the last group of the place.
    pub rules: u32,
    /// Rules a second; 0: none.
    pub per_s: u32,
    /// On which core.
    pub core: ControlCore,
    /// How.
    pub calls: CallMode,
    /// Replacements between two bursts at most.
    pub slice: Slice,
}

/// How the replacements are shared out over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// So many between two bursts of packets at most; none: all that are due.
    Of(Option<u32>),
    /// Those of a millisecond in a row, and a millisecond for packets behind them, however late the
    /// next are: what the study's generator did (`nic-live.npf` of
    /// github.com/nic-bench/experiments).
    Tick,
}

/// Length of a tick.
const TICK_NS: u64 = 1_000_000;

impl Slice {
    /// What is written for it.
    fn coordinate(self) -> Coordinate {
        match self {
            Slice::Of(slice) => slice_at(slice),
            Slice::Tick => Coordinate::Word("tick".to_owned()),
        }
    }

    /// Replacements in a row, and the pause behind them, nanoseconds.
    fn plan(self, per_s: u32) -> (Option<u32>, Option<u64>) {
        match self {
            Slice::Of(slice) => (slice, None),
            Slice::Tick => {
                let in_tick = (u64::from(per_s) * TICK_NS).div_ceil(1_000_000_000);
                (Some(in_tick.max(1) as u32), Some(TICK_NS))
            }
        }
    }
}

fn slices_or_ticks(values: &Values) -> Result<Vec<Slice>, SpecError> {
    let one = |value: &Coordinate| match value {
        Coordinate::Word(word) if word == "tick" => Ok(Slice::Tick),
        Coordinate::Word(word) if word != "all" => {
            Err(refused("slice", value, "give a number from 1, all, or tick".to_owned()))
        }
        _ => Ok(Slice::Of(slices(&Values(vec![value.clone()]))?[0])),
    };
    values.0.iter().map(one).collect()
}

/// All rates of a sweep: the product of its axes. A trace brings its own flows.
pub fn places(sweep: &RuleChurnSweep, trace: Option<&Trace>) -> Result<Vec<RuleChurn>, SpecError> {
    let flows = match trace {
        Some(trace) => Values::number(trace.frames.flows.into()),
        None => sweep.flows.clone(),
    };
    let mut all = Vec::new();
    for group in numbers("group", &sweep.group, 0, 1)? {
        for rules in numbers("rules", &sweep.rules, 2, RULES_MAX / 2)? {
            for per_s in rates(&sweep.per_s)? {
                for core in words("core", &sweep.core, &CORES)? {
                    // The last, a transaction, has no end here.
                    for calls in words("calls", &sweep.calls, &CALLS[..2])? {
                        for slice in slices_or_ticks(&sweep.slice)? {
                            for flows in numbers("flows", &flows, 1, FLOWS_MAX)? {
                                let place = default_rules(group, flows);
                                let rules = rules - 1;
                                all.push(RuleChurn { place, rules, per_s, core, calls, slice });
                            }
                        }
                    }
                }
            }
        }
    }
    Ok(all)
}

fn rates(values: &Values) -> Result<Vec<u32>, SpecError> {
    let one = |value: &Coordinate| {
        let preset = PRESETS.iter().find(|(name, _)| *name == value.to_string());
        match (preset, value) {
            (Some((_, per_s)), _) => Ok(*per_s),
            (None, Coordinate::Word(_)) => {
                let names = PRESETS.map(|(name, _)| name).join(", ");
                Err(refused("per_s", value, format!("give a number, or one of {names}")))
            }
            (None, Coordinate::Number(_)) => match number("per_s", value)? {
                per_s if per_s <= OPERATIONS_PER_S_MAX => Ok(per_s),
                _ => Err(refused("per_s", value, format!("use 0 to {OPERATIONS_PER_S_MAX}"))),
            },
        }
    };
    values.0.iter().map(one).collect()
}

/// Refuses a rate at which too few replacements fall into a trial.
pub(super) fn enough(per_s: u32, duration_ms: u64) -> Result<(), SpecError> {
    if per_s == 0 || u64::from(per_s) * duration_ms >= REPLACEMENTS_MIN * 1_000 {
        return Ok(());
    }
    let least_ms = (REPLACEMENTS_MIN * 1_000).div_ceil(per_s.into());
    let remedy = format!(
        "fewer than {REPLACEMENTS_MIN} in a trial of {duration_ms} ms: use --set \
         duration_ms={least_ms}"
    );
    Err(SpecError::OutOfRange { axis: "per_s", value: per_s.to_string(), remedy })
}

impl RuleChurn {
    /// The coordinates, those of the frame size excepted. Where nothing is replaced, nobody does
    /// it.
    pub fn point(&self) -> Point {
        let number = |value: u32| Coordinate::Number(f64::from(value));
        let word = |word: &str| Coordinate::Word(word.to_owned());
        let mut point = vec![
            ("group", number(self.place.groups)),
            ("rules", number(self.rules + 1)),
            ("flows", number(self.place.flows)),
            ("per_s", number(self.per_s)),
        ];
        if self.per_s > 0 {
            point.push(("core", word(name_of(&CORES, self.core))));
            point.push(("calls", word(name_of(&CALLS, self.calls))));
            point.push(("slice", self.slice.coordinate()));
        }
        at_axes(point)
    }

    /// The rules that are replaced. They are of flows that are never sent: no packet is decided by
    /// them, which keeps the cost of changes apart from that of rules.
    fn block(&self, seed: u64) -> RuleBlock {
        RuleBlock::FiveTuples {
            group: self.place.groups,
            priority: PRIORITY_RULES,
            flows: flows::never_sent(2 * self.rules, seed),
            first: 0,
            count: self.rules,
            actions: vec![Action::Queue(0)],
        }
    }

    fn plan(&self, block: usize) -> Option<Plan> {
        let RuleChurn { per_s, core, calls, slice, .. } = *self;
        let (slice, pause_ns) = slice.plan(per_s);
        let plan = RulesPlan {
            core,
            start_ns: 0,
            work: RuleWork::Renew { block },
            calls,
            slice,
            threads: None,
            per_s: Some(per_s),
            pause_ns,
        };
        (per_s > 0).then(|| Plan::Rules(Box::new(plan)))
    }
}

impl Resolver<'_> {
    /// Each rate beside none, at full load, and at one rate of packets for the latency.
    pub fn add_churns(&mut self, sweeps: &[RuleChurnSweep]) -> Result<(), SpecError> {
        for sweep in sweeps {
            for churn in places(sweep, self.overrides.trace.as_ref())? {
                enough(churn.per_s, self.grid.duration_ms)?;
                for frame in self.frames(&sweep.frame) {
                    self.add_churn(&churn, &frame, &sweep.trials)?;
                }
            }
        }
        Ok(())
    }

    fn add_churn(
        &mut self,
        churn: &RuleChurn,
        frame: &Coordinate,
        kinds: &[TrialKind],
    ) -> Result<(), SpecError> {
        let load = self.load(&churn.place, frame)?;
        let block = churn.block(self.seed);
        let (setup, block) = self.setup_with(&churn.place, frame, block);
        let latency_share = self.spec.latency_share;
        let mut trial = |churn: &RuleChurn, kind, rate| {
            let mut point = churn.point();
            point.insert("frame".into(), frame.clone());
            let plan = churn.plan(block).map(|plan| index_of(&mut self.run.plans, plan));
            self.trial(Trial { kind, setup, task: TaskIndex::Offer { load, plan }, rate, point })
        };
        let rest = RuleChurn { per_s: 0, ..*churn };
        let of = trial(&rest, TrialKind::SATURATE, PlannedRate::Saturate);
        for churn in [&rest, churn] {
            trial(churn, TrialKind::SATURATE, PlannedRate::Saturate);
            for kind in kinds {
                match *kind {
                    TrialKind::SATURATE => {}
                    TrialKind::LATENCY => {
                        let rate = PlannedRate::ShareOf { of, share: latency_share };
                        trial(churn, *kind, rate);
                    }
                    _ => return Err(no_trial(*kind, "saturate, latency")),
                }
            }
        }
        Ok(())
    }
}
