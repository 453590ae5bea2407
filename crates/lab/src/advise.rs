//! Predicts a workload on a modelled card: table layout, core for the rules, and the first limit.
//!
//! Every way of carrying the workload is tried by trials on the model. Of several cores that
//! forward each gets an equal share of the frames, and with it an equal share of the card: the
//! trials are of one such share, of the core that also works on rules and of one that does not.

mod workload;

use niclab_device::model::Model;
use niclab_device::model::profile::{Profile, rounded};
use niclab_device::{
    Action, Arrivals, CallMode, ControlCore, DeviceError, Function, Latency, Load, LoadObservation,
    OPERATIONS_PER_S_MAX, Plan, Rate, Receive, RuleBlock, RuleWork, RulesPlan, Setup, Task,
    Testbed,
};
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::RateLevel;

use crate::words;

pub use workload::{Workload, WorkloadError};

/// Groups that the rules are spread over; 0: they stand in group 0.
const LAYOUTS: [u32; 5] = [0, 1, 2, 4, 16];

/// Length of a trial.
const DURATION_NS: u64 = 400_000_000;

/// Length of one that shows how many operations there are in a second, where that is many.
const SHORT_NS: u64 = 20_000_000;

/// Operations of a trial that are too few for that.
const FEW: u64 = 1_000;

/// Length of the part in front of it.
const WARMUP_NS: u64 = 20_000_000;

/// Operations between two bursts of packets.
const SLICE: u32 = 32;

/// Share of the new rules that are to be in the card in time.
const KEPT_UP: f64 = 0.99;

/// A part of the card that is to limit nothing takes this share of its time.
const NO_TIME: f64 = 1e-4;

/// What can be the first to bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The group takes no more rules.
    Capacity,
    /// The wire carries no more frames.
    Wire,
    /// The card classifies no more frames.
    Classifier,
    /// The cores forward no more frames beside what else they do.
    Cores,
    /// Rules are changed no faster.
    RulePath,
}

impl Limit {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Limit::Capacity => "capacity",
            Limit::Wire => "wire",
            Limit::Classifier => "classifier",
            Limit::Cores => "cores",
            Limit::RulePath => "rule rate",
        }
    }
}

/// One way to carry a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Groups that the rules are spread over; 0: group 0.
    pub groups: u32,
    /// The core that works on the rules.
    pub core: ControlCore,
    /// What became of it.
    pub outcome: Result<Forecast, String>,
}

/// What a workload would be like.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// Frames a second that come through.
    pub throughput_pps: f64,
    /// Share of the frames lost.
    pub loss_ratio: f64,
    /// Median latency of the core that is worst off, and its 99th percentile, nanoseconds; none
    /// where no frame comes through.
    pub latency_ns: Option<(f64, f64)>,
    /// Rules renewed a second.
    pub rules_per_s: f64,
    /// How many times the workload each limit allows, the least first.
    pub room: Vec<(Limit, f64)>,
    /// In what it is not carried as it asks to be; nothing where it fits.
    pub misses: Vec<&'static str>,
}

/// Tries every way to carry a workload; best first.
///
/// # Errors
/// Where the workload asks for more than the link of the card carries.
pub fn advise(profile: &Profile, workload: &Workload) -> Result<Vec<Candidate>, WorkloadError> {
    if let Some(gbps) = profile.number("port", "rate_gbps") {
        let line_pps = workload.frame.pps(gbps, RateLevel::L1);
        if workload.rate_pps() > line_pps {
            let most = line_pps / 1e6;
            let reason = format!("the card's link carries {most:.3} Mpps of such frames");
            return Err(workload.refuse("rate_mpps", reason));
        }
    }
    let cores: &[ControlCore] = match workload.cores {
        1 => &[ControlCore::Same],
        _ => &[ControlCore::Distinct, ControlCore::Same],
    };
    let mut ways = Vec::new();
    for groups in LAYOUTS {
        for core in cores {
            let trial = AdviceTrial { profile, workload, groups, core: *core };
            let outcome = trial.outcome().map_err(|error| error.to_string());
            ways.push(Candidate { groups, core: *core, outcome });
        }
    }
    // Of ways that are as good, the one with the fewest groups stays in front.
    ways.sort_by(|a, b| score(b).total_cmp(&score(a)));
    Ok(ways)
}

/// What fits comes first, of that the way with most room; what is not known comes last.
fn score(way: &Candidate) -> f64 {
    let Ok(outcome) = &way.outcome else { return -1.0 };
    let least = outcome.room.first().map_or(0.0, |(_, room)| rounded(*room, 2));
    if outcome.fits() { 1e9 + least } else { least.min(1e8) }
}

impl Forecast {
    /// The workload is carried as it asks to be.
    pub fn fits(&self) -> bool {
        self.misses.is_empty()
    }
}

struct AdviceTrial<'a> {
    profile: &'a Profile,
    workload: &'a Workload,
    groups: u32,
    core: ControlCore,
}

/// A part of a card that a trial leaves out: it takes no time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OmittedPart {
    Nothing,
    Classifier,
    Cores,
}

impl AdviceTrial<'_> {
    fn forwarding(&self) -> f64 {
        match self.core {
            ControlCore::Same => f64::from(self.workload.cores),
            ControlCore::Distinct => f64::from(self.workload.cores - 1),
        }
    }

    /// The share of the card that one core's frames have.
    fn share(&self, without: OmittedPart) -> Profile {
        const TIMES: [(&str, &str); 7] = [
            ("root", "frame_ns"),
            ("root", "rule_ps"),
            ("root", "far_ns"),
            ("groups", "table_ns"),
            ("groups", "chain_ns"),
            ("pcie", "frame_ns"),
            ("pcie", "byte_ps"),
        ];
        const RATES: [(&str, &str); 3] =
            [("port", "rate_gbps"), ("port", "frame_rate_max"), ("port", "fifo_frames")];
        let cores = self.forwarding();
        let slower = if without == OmittedPart::Classifier { NO_TIME } else { cores };
        let share = TIMES.iter().fold(self.profile.clone(), |profile, (section, key)| {
            profile.scaled(section, key, slower)
        });
        let share = RATES
            .iter()
            .fold(share, |profile, (section, key)| profile.scaled(section, key, 1.0 / cores));
        match without {
            OmittedPart::Nothing => share,
            OmittedPart::Classifier => share.scaled("port", "frame_rate_max", 1.0 / NO_TIME),
            OmittedPart::Cores => share.scaled("host", "frame_ns", NO_TIME),
        }
    }

    fn outcome(&self) -> Result<Forecast, DeviceError> {
        let asked_pps = self.workload.rate_pps() / self.forwarding();
        let works =
            self.run(OmittedPart::Nothing, Rate::Pps(asked_pps), Some(self.workload.new_per_s))?;
        let others = match self.core {
            ControlCore::Same => self.run(OmittedPart::Nothing, Rate::Pps(asked_pps), None)?,
            ControlCore::Distinct => works.clone(),
        };
        let share_works = match self.core {
            ControlCore::Same => 1.0 / self.forwarding(),
            ControlCore::Distinct => 0.0,
        };
        let mixed = |of: fn(&LoadObservation) -> f64| {
            share_works * of(&works) + (1.0 - share_works) * of(&others)
        };
        let received =
            mixed(|observation| observation.received as f64 / observation.offered.max(1) as f64);
        let times = works.latency.as_ref().filter(|Latency(times)| !times.is_empty());
        let latency = times.map(|Latency(times)| {
            (times.value_at_quantile(0.5) as f64, times.value_at_quantile(0.99) as f64)
        });
        let workload = self.workload;
        let (kept, rules_per_s) = match &works.control {
            // All that were due: what a trial has no room for is not counted.
            Some(control) if control.done as f64 >= KEPT_UP * control.planned as f64 => {
                (true, f64::from(workload.new_per_s))
            }
            Some(_) => (false, renewed(&works)),
            None => (true, 0.0),
        };
        let room = self.room(asked_pps)?;
        let most_ns = workload.latency_max_us.map_or(f64::INFINITY, |most| 1e3 * most);
        // A queue that is long enough hides for a trial what it cannot hold for good.
        let is_overloaded = room.iter().any(|(_, room)| *room < KEPT_UP);
        let misses = [
            (!kept, "rules come too late"),
            (1.0 - received > workload.loss_max, "more is lost than loss_max"),
            (latency.is_none_or(|(_, p99)| p99 > most_ns), "the latency is above latency_max_us"),
            (kept && is_overloaded, "a limit is below the workload"),
        ];
        let misses = misses.into_iter().filter_map(|(is_so, what)| is_so.then_some(what));
        Ok(Forecast {
            throughput_pps: workload.rate_pps() * received,
            loss_ratio: 1.0 - received,
            latency_ns: latency,
            rules_per_s,
            room,
            misses: misses.collect(),
        })
    }

    /// How many times the workload each limit allows, the least first.
    fn room(&self, asked_pps: f64) -> Result<Vec<(Limit, f64)>, DeviceError> {
        let workload = self.workload;
        let per_s = |observation: &LoadObservation| {
            observation.received as f64 * 1e9 / observation.duration_ns as f64
        };
        let classifier = per_s(&self.run(OmittedPart::Cores, Rate::Saturate, None)?) / asked_pps;
        let alone = per_s(&self.run(OmittedPart::Classifier, Rate::Saturate, None)?) / asked_pps;
        let rules = match workload.new_per_s {
            0 => f64::INFINITY,
            new_per_s => {
                let most = |duration_ns| {
                    let (asked, all) = (Rate::Pps(asked_pps), Some(OPERATIONS_PER_S_MAX));
                    self.run_for(duration_ns, OmittedPart::Nothing, asked, all)
                };
                let short = most(SHORT_NS)?;
                let is_few = short.control.as_ref().is_none_or(|control| control.done < FEW);
                let observation = if is_few { most(DURATION_NS)? } else { short };
                renewed(&observation) / f64::from(new_per_s)
            }
        };
        // A core that also works on rules has for both what is left by the other.
        let cores = match self.core {
            ControlCore::Same => 1.0 / (1.0 / alone + 1.0 / rules),
            ControlCore::Distinct => alone,
        };
        let mut room = vec![(Limit::Classifier, classifier), (Limit::Cores, cores)];
        if let Some(gbps) = self.profile.number("port", "rate_gbps") {
            let line_pps = workload.frame.pps(gbps, RateLevel::L1);
            let wire = line_pps / workload.rate_pps();
            // What limits a part that is faster than the wire is the wire.
            room.retain(|(_, room)| *room < 0.99 * wire);
            room.push((Limit::Wire, wire));
        }
        let section = if self.groups == 0 { "root" } else { "groups" };
        if let Some(most) = self.profile.number(section, "rules_max") {
            room.push((Limit::Capacity, most / f64::from(workload.rules)));
        }
        if rules.is_finite() {
            room.push((Limit::RulePath, rules));
        }
        room.sort_by(|a, b| a.1.total_cmp(&b.1));
        Ok(room)
    }

    fn run(
        &self,
        without: OmittedPart,
        rate: Rate,
        per_s: Option<u32>,
    ) -> Result<LoadObservation, DeviceError> {
        self.run_for(DURATION_NS, without, rate, per_s)
    }

    fn run_for(
        &self,
        duration_ns: u64,
        without: OmittedPart,
        rate: Rate,
        per_s: Option<u32>,
    ) -> Result<LoadObservation, DeviceError> {
        let mut model = Model::new("advised", self.share(without), 1);
        let (setup, block) = self.setup();
        let report = model.setup(&setup)?;
        if let Some(refusal) = report.refusal {
            let capability = format!("{}: {refusal}", words::rules(self.workload.rules.into()));
            return Err(DeviceError::lacks(capability));
        }
        let plan = |per_s| {
            Plan::Rules(Box::new(RulesPlan {
                core: self.core,
                start_ns: 0,
                work: RuleWork::Renew { block },
                calls: CallMode::Single,
                slice: Some(SLICE),
                threads: None,
                per_s: Some(per_s),
                pause_ns: None,
            }))
        };
        let load = Load {
            flows: FlowSpec::default(),
            sizes: self.workload.frame,
            rate,
            arrivals: Arrivals::Constant,
            duration_ns,
            warmup_ns: WARMUP_NS,
            seed: 1,
            trace: None,
        };
        let per_s = per_s.filter(|per_s| *per_s > 0);
        model.measure(&Task::Load { load, plan: per_s.map_or(Plan::Rest, plan) })?.into_load()
    }

    /// The rules, and which block of them is renewed. Frames go through all groups: how many of
    /// them meet a rule in front of the last is not known.
    fn setup(&self) -> (Setup, usize) {
        let workload = self.workload;
        let any = |group, action| RuleBlock::Any { group, priority: 1, actions: vec![action] };
        let mut rules = Vec::new();
        if self.groups > 0 {
            rules.push(any(0, Action::Jump(1)));
        }
        let chain = self.groups.max(1);
        let edge = |at: u32| (u64::from(workload.rules) * u64::from(at) / u64::from(chain)) as u32;
        for at in 0..chain {
            let group = if self.groups == 0 { 0 } else { at + 1 };
            let is_last = at + 1 == chain;
            rules.push(RuleBlock::Stack {
                group,
                priority: 0,
                stack: workload.stack,
                first: edge(at),
                // The default rule of group 0 is one of those that it takes.
                count: (edge(at + 1) - edge(at)).saturating_sub(u32::from(self.groups == 0)),
                actions: workload.actions.clone(),
            });
            let onward = if is_last { Action::Queue(0) } else { Action::Jump(group + 1) };
            rules.push(any(group, onward));
        }
        let block = rules.len() - 2;
        let setup = Setup {
            rules,
            queues: 1,
            cores: 1,
            ports: 1,
            receive: Receive::Queues,
            function: Function::Forward,
            frame_len_max: workload.frame.max(),
        };
        (setup, block)
    }
}

/// Rules renewed a second.
fn renewed(observation: &LoadObservation) -> f64 {
    let done = observation.control.as_ref().map_or(0, |control| control.done);
    done as f64 * 1e9 / observation.duration_ns as f64
}

#[cfg(test)]
#[path = "advise_tests.rs"]
mod tests;
