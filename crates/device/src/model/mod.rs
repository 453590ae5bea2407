//! `model:NAME`: a card in virtual time, computed from a profile.
//!
//! A profile says of a card what its parts are like (`niclab_profile`); a trial lets a load flow
//! through them (`pipe`, `trial`) while operations on rules take their time (`control`); messages
//! between programs take what is published of them (`echoes`). The same seed and the same calls
//! give the same answers, far faster than a card would.
//!
//! Nothing here was measured on this machine: it is what follows from the profile's numbers.

mod card;
mod control;
mod echoes;
#[cfg(test)]
#[path = "model_tests.rs"]
mod model_tests;
mod pipe;
mod polled_queues;
mod rules;
mod trial;

use niclab_load::{Arrivals, Control, Load, LoadObservation, Rate};
use niclab_nic::rss::{Rss, evenly};
use niclab_packet::flow::FlowSet;
pub use niclab_profile::{NoProfile, UnreadProfile, names, pcie, profile, read, schema, text};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::face::{
    DeviceError, DeviceInfo, Fact, Function, Observation, PathNode, Receive, Setup, SetupReport,
    Task, Testbed,
};
use crate::plan::{Plan, RulesPlan, no_rss_changes};
use card::{Path, SECOND_NS};
use control::Operations;
use polled_queues::{Polling, chance, drawn, polled_queues, skew};
use profile::{Basis, Entry, Part, Profile};
use rules::Rules;
use schema::{INJECTED, Key};
use trial::{ModelTrial, arrivals_pps};

/// By how much a trial differs from the next at most where the profile does not say.
const NOISE: f64 = 0.003;

/// A modelled card with its generator and its sink.
pub struct Model {
    about: DeviceInfo,
    profile: Profile,
    random: Xoshiro256PlusPlus,
    state: Option<ModelState>,
}

struct ModelState {
    rules: Rules,
    polling: Polling,
    /// How frames are spread that no rule decides about. It is assumed that a driver has set any
    /// card to Toeplitz with Microsoft's key and a table that names the queues in turn.
    rss: Rss,
}

impl ModelState {
    /// Share of a load's frames that each queue gets by the hash; of no queue where default rules
    /// decide.
    fn hash_shares(&self, load: &Load) -> Result<Vec<f64>, DeviceError> {
        match self.rules.frame_shares(load, &[]).default {
            Some(_) => return Ok(Vec::new()),
            None if self.polling.queues == 1 => return Ok(vec![1.0]),
            None => {}
        }
        let bad = |reason: String| DeviceError::BadLoad { reason };
        let flows = FlowSet::new(&load.flows).map_err(|error| bad(error.to_string()))?;
        self.rss.shares(&flows, self.polling.queues).map_err(|error| bad(error.to_string()))
    }
}

/// Opens `model:NAME` or `model:FILE`.
///
/// # Errors
/// [`DeviceError::BadName`] for a profile that is not there or cannot be used.
pub fn open(name: &str) -> Result<Box<dyn Testbed>, DeviceError> {
    let bad = |reason: String| DeviceError::BadName { text: name.to_owned(), reason };
    let of = name.split_once(':').map_or("", |(_, of)| of);
    if of.is_empty() {
        let known = names().collect::<Vec<_>>().join(", ");
        return Err(bad(format!("say which: model:NAME of {known}, or model:FILE.toml")));
    }
    let profile = read(of).map_err(|error| bad(error.to_string()))?;
    // Devices are opened anew when a run is resumed: what it is called is its seed.
    let seed = name.bytes().fold(0u64, |seed, byte| seed.rotate_left(5) ^ u64::from(byte));
    Ok(Box::new(Model::new(name, profile, seed)))
}

impl Model {
    /// A card of this profile; `name` is what it is called, and all that is random in it comes from
    /// `seed` and those of its loads.
    pub fn new(name: &str, profile: Profile, seed: u64) -> Model {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Model { about: about(name, &profile), profile, random, state: None }
    }

    fn noise(&mut self) -> f64 {
        let most = self.profile.number(INJECTED, "noise_ratio").unwrap_or(NOISE);
        1.0 + most * self.random.random_range(-1.0..=1.0)
    }

    fn operate(&mut self, plan: &RulesPlan) -> Result<Control, DeviceError> {
        let scale = self.noise();
        let state = self.state.as_ref().ok_or_else(|| self.broken("operate before set-up"))?;
        let plan = RulesPlan { start_ns: 0, per_s: None, ..plan.clone() };
        let operations = Operations::of(&self.profile, &state.rules, &plan, 0.0, false)?;
        Ok(operations.scaled(scale).alone())
    }

    fn offer(&mut self, load: &Load, plan: &Plan) -> Result<LoadObservation, DeviceError> {
        check(load, plan)?;
        // Each trial draws other random numbers; the seed of the load decides which.
        self.random = Xoshiro256PlusPlus::seed_from_u64(self.random.random::<u64>() ^ load.seed);
        let (slower, scale, chance) = (self.noise(), self.noise(), chance(&mut self.random));
        let broken = self.broken("run before set-up");
        let state = self.state.as_ref().ok_or(broken)?;
        let (mut path, polling) = (Path::of(&self.profile)?, state.polling);
        path.host_ns = path.core_ns(polling)? * slower;
        path.fifo *= f64::from(polling.ports);
        path.slow_queue_ns = path.slow_queue_ns.map(|ns| ns * slower);
        let arrivals_pps =
            arrivals_pps(load, path.line_pps(&load.sizes) * f64::from(polling.ports));
        let frames = arrivals_pps * load.duration_ns as f64 / SECOND_NS;
        // Of frames that are lost one by one, never the exact share is.
        let deviation = (path.loss * (1.0 - path.loss) / frames.max(1.0)).sqrt();
        path.loss = (path.loss + chance * deviation).clamp(0.0, 1.0);
        let mut shares = state.hash_shares(load)?;
        let way = state.rules.frame_shares(load, &shares).way;
        let frame_ns = path.frame_ns(&way, &load.sizes, polling)? * slower;
        let classified_pps = arrivals_pps.min(SECOND_NS / frame_ns.max(1e-3));
        if shares.len() > 1 {
            let whole_s = (load.warmup_ns + load.duration_ns) as f64 / SECOND_NS;
            skew(&mut shares, self.profile.number(INJECTED, "skew_ratio").unwrap_or(0.0));
            drawn(&mut shares, classified_pps * whole_s, &mut self.random);
        }
        let met = state.rules.frame_shares(load, &shares);
        let polled_queues = polled_queues(&path, &met.queues, polling, classified_pps);
        let duration_ns = load.duration_ns as f64;
        let operations = match plan {
            Plan::Rest => None,
            Plan::Rss(_) => return no_rss_changes(),
            Plan::Rules(_) if polling.ports > 1 || polling.receive == Receive::Serial => {
                return Err(DeviceError::lacks("plans but for one port of several queues"));
            }
            Plan::Rules(plan) => {
                let turn_ns = path.turn_ns()?;
                if plan.start_ns >= load.duration_ns {
                    let reason = format!("start_ns {}: the load has ended then", plan.start_ns);
                    return Err(DeviceError::BadPlan { reason });
                }
                let for_ns = duration_ns - plan.start_ns as f64;
                let all = Operations::of(&self.profile, &state.rules, plan, for_ns, true)?;
                if all.decides(load) {
                    return Err(DeviceError::lacks(
                        "rules created for frames of the load, unless they drop",
                    ));
                }
                let all = all.scaled(scale);
                let done = all.carry_out(&self.profile, plan, turn_ns, duration_ns);
                Some((all, done))
            }
        };
        let (path, met, polled_queues, shares) = (&path, &met, &polled_queues[..], &shares[..]);
        let queues = polling.all();
        let trial =
            ModelTrial { path, met, polled_queues, shares, load, queues, arrivals_pps, frame_ns };
        Ok(trial.run(operations, &mut self.random))
    }

    fn broken(&self, reason: &str) -> DeviceError {
        DeviceError::Broken { device: self.about.name.clone(), reason: reason.to_owned() }
    }
}

fn about(name: &str, profile: &Profile) -> DeviceInfo {
    let fact = |name: &str, value: String| Fact { name: name.to_owned(), value };
    let place = |role: &str, label: &str| PathNode {
        role: role.to_owned(),
        label: label.to_owned(),
        core: None,
    };
    let of = |is: fn(Basis) -> bool| {
        let known = profile.sections().filter_map(|(_, part)| match part {
            Part::Known(keys) => Some(keys),
            Part::Lacking | Part::Unknown => None,
        });
        let is_so = |(_, entry): &&(&Key, Entry)| match entry {
            Entry::Known { basis, .. } => is(*basis),
            Entry::Unknown => false,
        };
        known.flatten().filter(is_so).count()
    };
    let fitted = of(|basis| matches!(basis, Basis::Fitted | Basis::Inherited));
    let bounds = of(|basis| matches!(basis, Basis::AtMost | Basis::AtLeast));
    let unknown = profile.unknown().join(", ");
    let rate = profile.number("port", "rate_gbps");
    let wire = rate.map_or("wire".to_owned(), |gbps| format!("wire, {gbps} Gbps"));
    let lacking = profile.lacks("groups").then(|| "non-root groups".to_owned());
    DeviceInfo {
        name: name.to_owned(),
        facts: vec![
            fact("card", profile.title.clone()),
            fact("modelled", "computed in virtual time from a profile, not measured".to_owned()),
            fact("source", profile.source.clone()),
            fact("profile", format!("{fitted} numbers fitted, {bounds} bounds")),
            fact("not modelled (no published data)", unknown),
        ],
        places: vec![
            place("generator", "generator, virtual"),
            place("wire", &wire),
            place("device", &format!("{}, modelled", profile.title)),
            place("function", Function::Forward.label()),
            place("wire", &wire),
            place("sink", "sink, virtual"),
        ],
        hosts: echoes::hosts(profile),
        not_supported: lacking.into_iter().collect(),
        lacking: "the modelled card has none, or nothing is published of it".into(),
        in_virtual_time: true,
        port_gbps: rate,
        ..DeviceInfo::default()
    }
}

impl Testbed for Model {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        self.state = None;
        let polling = Polling::of(&self.profile, setup)?;
        let (rules, mut report) = Rules::install(&self.profile, setup)?;
        report.install = report.install.mul_f64(self.noise());
        let rss = Rss { indirection: evenly(0..polling.queues), ..Rss::default() };
        report.rss = Some(rss.clone());
        self.state = Some(ModelState { rules, polling, rss });
        Ok(report)
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        match task {
            Task::Load { load, plan } => self.offer(load, plan).map(Observation::Load),
            Task::Plan(plan) => self.operate(plan).map(Observation::Plan),
            Task::RoundTrips(trips) => {
                let scale = self.noise();
                echoes::round_trips(&self.profile, trips, scale).map(Observation::RoundTrips)
            }
            Task::Breakdown { trips, .. } => {
                let scale = self.noise();
                echoes::breakdown(&self.profile, trips, scale).map(Observation::Breakdown)
            }
            _ => Err(task.not_supported()),
        }
    }
}

/// Refuses loads and plans that no modelled card knows.
fn check(load: &Load, plan: &Plan) -> Result<(), DeviceError> {
    match (plan, load.rate, load.arrivals) {
        _ if load.trace.is_some() => Err(DeviceError::lacks("traces")),
        (_, _, Arrivals::Poisson) => Err(DeviceError::lacks("arrivals other than constant")),
        (Plan::Rss(_), ..) => no_rss_changes(),
        (_, Rate::Step { .. }, _) => Err(DeviceError::lacks("a load that steps")),
        _ => Ok(()),
    }
}
