//! Carries a run out: brings devices into their states, offers loads, stores what was seen.
//!
//! The runner reads no clock and never sleeps: the time and the wish to stop come from its
//! [`Host`]. What is finished is stored before the next trial begins; what a store holds already is
//! not measured again. A device that breaks is recorded and left out, the others go on.

pub(crate) mod search;
pub(crate) mod throughput;

use niclab_device::{
    Application, Control, DeviceError, Exchange, Latency, Load, Observation, Plan, Processing,
    Rate, Rss, Serving, Setup, SetupReport, Streaming, Testbed,
};
use niclab_result::{Directory, Outcome, Point, ResultError, SCHEMA, Sample};

use crate::application::{self, put_application};
use crate::change::put_met;
use crate::control::put_control;
use crate::estimate;
use crate::exchange::{self, put_exchange};
use crate::frame_size::put_limits;
use crate::insertion::put_effects;
use crate::known::{Known, Seen};
use crate::kvs::{self, put_answered};
use crate::ledger::{PAIRS, put_ledger};
use crate::measure::{self, Judged, Metrics};
use crate::program::{self, put_processed};
use crate::respread::{self, put_respread};
use crate::run::{ExperimentRun, PlannedRate, Run, Task, Trial, Visit, lacks};
use crate::scaling::put_scaling;
use crate::spec::{Kind, TrialKind};
use crate::spread::{HASH_SHARES, hash_shares, put_spread};
use crate::statistics;
use crate::stream::{self, put_stream};
use crate::windows;

/// Name of the sample that says how the rules went in.
pub const SETUP: &str = "setup";

/// What is said of a trial in which no frame was due.
const NOTHING_DUE: &str = "no frame was due in the measured part: the machine took the \
    generator's core away for all of it; measure longer with --set duration_ms=50";

/// Where the runner gets the time from, and whom it tells.
pub trait Host {
    /// Nanoseconds since the Unix epoch. It never steps: how long a run takes is told by it.
    fn time_unix_ns(&mut self) -> u64;
    /// `true` when the user wants to stop: what is finished is kept.
    fn is_stopped(&mut self) -> bool;
    /// Something happened.
    fn progress(&mut self, event: Event<'_>);
}

/// What a [`Host`] is told.
#[derive(Debug)]
pub enum Event<'a> {
    /// An experiment begins.
    Started {
        /// Its name.
        experiment: &'a str,
        /// How long it will take, seconds.
        estimate_s: f64,
    },
    /// A sample is stored.
    Stored {
        /// The sample.
        sample: &'a Sample,
        /// How much is done of what was estimated, 0 to 1.
        done_ratio: f64,
        /// How long it will still take, seconds, at the pace so far.
        remaining_s: f64,
    },
    /// A device is left out from here on.
    Dropped {
        /// The device.
        device: &'a str,
        /// Why, with the remedy.
        reason: &'a str,
    },
}

/// Where samples go.
pub trait Store {
    /// Keeps a sample; it is safe when this returns.
    fn append(&mut self, sample: &Sample, latency: Option<&Latency>) -> Result<(), ResultError>;
}

impl Store for Directory {
    fn append(&mut self, sample: &Sample, latency: Option<&Latency>) -> Result<(), ResultError> {
        Directory::append(self, sample, latency.map(|latency| &latency.0))
    }
}

/// A device of the run with its testbed, in the order of [`Run::devices`]; or why it is not there.
pub type Bed<'a> = Result<&'a mut dyn Testbed, String>;

/// How a run ended, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ended {
    /// Everything is measured.
    Complete,
    /// The budget was used up: later repeats are missing.
    OutOfTime,
    /// It came to its end, and no device has measured anything, in this part or in an earlier one.
    Nothing,
    /// The user stopped it.
    Stopped,
}

/// Carries out what is missing of `run`: everything but `done`, the samples of an earlier part.
///
/// `beds` are the testbeds in the order of `run.devices`.
pub fn execute(
    run: &Run,
    beds: &mut [Bed<'_>],
    done: &[Sample],
    store: &mut dyn Store,
    host: &mut dyn Host,
) -> Result<Ended, ResultError> {
    let mut ended = Ended::Complete;
    let mut has_measured = done.iter().any(measures);
    let mut order = done.iter().map(|sample| sample.order + 1).max().unwrap_or(0);
    for experiment in &run.experiments {
        let mut runner = Runner::new(run, experiment, done, store, host, order);
        let this = runner.execute(beds)?;
        order = runner.order;
        has_measured |= runner.has_measured;
        ended = ended.max(this);
        if this == Ended::Stopped {
            break;
        }
    }
    Ok(if has_measured { ended } else { ended.max(Ended::Nothing) })
}

/// `true` for a sample that answers what an experiment asks; rules that went in are no answer yet.
fn measures(sample: &Sample) -> bool {
    let has_figures = matches!(sample.outcome, Outcome::Measured | Outcome::Refused { .. });
    has_figures && sample.trial != SETUP
}

/// A device as the runner has it.
struct State<'a> {
    /// What its samples say, those of this part and those of earlier ones that did not fail: what
    /// failed then is tried again.
    known: Known<'a>,
    /// Its samples end with the word that it is gone.
    is_told: bool,
    /// The set-up it is in.
    setup: Option<Setup>,
    /// What it said of that set-up, as far as it bears on the samples.
    refusal: Option<String>,
    /// How it says that it spreads frames over its queues then.
    rss: Option<Rss>,
}

struct Runner<'a> {
    run: &'a Run,
    experiment: &'a ExperimentRun,
    store: &'a mut dyn Store,
    host: &'a mut dyn Host,
    states: Vec<State<'a>>,
    order: u64,
    has_measured: bool,
    start_ns: u64,
    /// Estimated seconds that are behind us, and those of them that were measured just now.
    past_s: f64,
    worked_s: f64,
}

/// What is to be measured, and where.
struct Place<'a> {
    device: usize,
    trial: &'a str,
    repeat: u32,
    point: &'a Point,
}

impl<'a> Runner<'a> {
    fn new(
        run: &'a Run,
        experiment: &'a ExperimentRun,
        done: &[Sample],
        store: &'a mut dyn Store,
        host: &'a mut dyn Host,
        order: u64,
    ) -> Runner<'a> {
        let start_ns = host.time_unix_ns();
        let states = run.devices.iter().map(|device| {
            let whole = done.iter().filter(|s| !matches!(s.outcome, Outcome::Failed { .. }));
            State {
                known: Known::of(experiment, device, whole),
                is_told: Known::of(experiment, device, done).gone,
                setup: None,
                refusal: None,
                rss: None,
            }
        });
        Runner {
            run,
            experiment,
            states: states.collect(),
            store,
            host,
            order,
            has_measured: false,
            start_ns,
            past_s: 0.0,
            worked_s: 0.0,
        }
    }

    fn execute(&mut self, beds: &mut [Bed<'_>]) -> Result<Ended, ResultError> {
        let estimate_s = self.experiment.estimate_s;
        self.host.progress(Event::Started { experiment: &self.experiment.name, estimate_s });
        self.record_absent(beds)?;
        self.record_lacks()?;
        for visit in &self.experiment.order {
            if let Some(ended) = self.end() {
                return Ok(ended);
            }
            self.visit(beds, visit)?;
        }
        for at in 0..self.experiment.knees.len() {
            for device in 0..self.run.devices.len() {
                if let Some(ended) = self.end() {
                    return Ok(ended);
                }
                if let Some(ended) = self.search(beds, at, device)? {
                    return Ok(ended);
                }
            }
        }
        for at in 0..self.experiment.searches.len() {
            for device in 0..self.run.devices.len() {
                if let Some(ended) = self.end() {
                    return Ok(ended);
                }
                if let Some(ended) = self.search_throughput(beds, at, device)? {
                    return Ok(ended);
                }
            }
        }
        Ok(Ended::Complete)
    }

    /// Whether it is time to end, and how.
    fn end(&mut self) -> Option<Ended> {
        if self.host.is_stopped() {
            return Some(Ended::Stopped);
        }
        let end_s = self.experiment.end_s()?;
        (self.elapsed_s() > end_s).then_some(Ended::OutOfTime)
    }

    fn elapsed_s(&mut self) -> f64 {
        self.host.time_unix_ns().saturating_sub(self.start_ns) as f64 / 1e9
    }

    /// One failed sample for each device that could not be opened, if none says so yet.
    fn record_absent(&mut self, beds: &[Bed<'_>]) -> Result<(), ResultError> {
        for (device, bed) in beds.iter().enumerate() {
            let Err(reason) = bed else {
                continue;
            };
            if self.states[device].is_told {
                self.states[device].known.gone = true;
                continue;
            }
            self.drop_device(device, reason.clone(), SETUP, 0, &Point::new())?;
        }
        Ok(())
    }

    /// One result for each device that said beforehand that it lacks what a trial needs.
    fn record_lacks(&mut self) -> Result<(), ResultError> {
        let experiment = self.experiment;
        for (device, described) in self.run.devices.iter().enumerate() {
            let mut lacking = (0..experiment.trials.len())
                .filter_map(|at| Some((at, lacks(described, experiment, at)?)));
            let Some((at, capability)) = lacking.next() else {
                continue;
            };
            let trial = &experiment.trials[at];
            let point = setup_point(&trial.point);
            let place = Place { device, trial: SETUP, repeat: 0, point: &point };
            if self.states[device].known.gone || self.is_done(&place) {
                continue;
            }
            let error = DeviceError::NotSupported { capability: capability.into() };
            self.record_error(&place, error)?;
        }
        Ok(())
    }

    /// Seconds that a device takes for a second of a trial.
    fn pace(&self, device: usize) -> f64 {
        self.run.devices.get(device).map_or(1.0, estimate::pace)
    }

    fn visit(&mut self, beds: &mut [Bed<'_>], visit: &Visit) -> Result<(), ResultError> {
        let experiment = self.experiment;
        let Some(setup) = experiment.setup_of(visit) else {
            return Ok(());
        };
        let pace = self.pace(visit.device);
        let estimate_s = pace * estimate::visit_setup_s(experiment, visit);
        self.past_s += estimate_s;
        let repeat = visit.repeat as u32;
        let mut is_set_up = None;
        for &at in &visit.trials {
            let trial = &experiment.trials[at];
            let place = Place {
                device: visit.device,
                trial: trial.kind.name(),
                repeat,
                point: &trial.point,
            };
            let shares_s = estimate::shares_s(experiment, trial);
            let of_device = self.run.devices.get(visit.device);
            let load_s =
                of_device.map_or(0.0, |device| estimate::load_s(experiment, trial, device));
            let trial_s = pace * estimate::trial_s(experiment, trial) + shares_s + load_s;
            if self.is_done(&place) {
                self.past_s += trial_s;
                continue;
            }
            if !self.states[visit.device].known.is_able(trial) {
                self.past_s += trial_s;
                continue;
            }
            if is_set_up.is_none() {
                self.worked_s += estimate_s;
                let point = setup_point(&trial.point);
                let at = Place { trial: SETUP, point: &point, ..place };
                // Where it fails the frame size may be why: the whole point is named.
                let failed = Place { trial: SETUP, ..place };
                is_set_up = Some(self.set_up(beds, setup, &at, &failed)?);
            }
            self.past_s += trial_s;
            self.worked_s += trial_s;
            if self.host.is_stopped() {
                break;
            }
            if is_set_up == Some(true) {
                self.trial(beds, trial, &place)?;
            }
        }
        Ok(())
    }

    fn is_done(&self, place: &Place<'_>) -> bool {
        let known = &self.states[place.device].known;
        known.seen(place.trial, place.repeat, place.point).is_some()
    }

    /// Brings the device into the state; `false` where that is not to be had. What came of it is
    /// stored at `place`, why it could not be at `failed`.
    fn set_up(
        &mut self,
        beds: &mut [Bed<'_>],
        setup: &Setup,
        place: &Place<'_>,
        failed: &Place<'_>,
    ) -> Result<bool, ResultError> {
        let state = &self.states[place.device];
        if state.known.gone || (state.known.no_rules && !setup.rules.is_empty()) {
            return Ok(false);
        }
        if state.setup.as_ref() == Some(setup) {
            return Ok(true);
        }
        let Some(Ok(bed)) = beds.get_mut(place.device) else {
            return Ok(false);
        };
        self.states[place.device].setup = None;
        match bed.setup(setup) {
            Err(error) => self.record_error(failed, error).map(|()| false),
            Ok(report) => {
                let state = &mut self.states[place.device];
                state.setup = Some(setup.clone());
                state.refusal = refusal(&report);
                state.rss = report.rss.clone();
                if setup.rules.is_empty() || self.is_done(place) {
                    return Ok(true);
                }
                let mut sample = self.sample(place, outcome(&refusal(&report)));
                sample.metrics = measure::setup_metrics(&report);
                self.keep(place.device, sample, None).map(|()| true)
            }
        }
    }

    /// Makes one trial of the sweep.
    fn trial(
        &mut self,
        beds: &mut [Bed<'_>],
        trial: &Trial,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let experiment = self.experiment;
        match trial.task {
            Task::Offer { load, plan } => {
                let plan = plan.map_or(&Plan::Rest, |at| &experiment.plans[at]);
                self.offer_at_rate(beds, trial, (&experiment.loads[load], plan), place)
            }
            Task::Operate { plan } => self.operate(beds, &experiment.plans[plan], place),
            Task::Exchange { exchange } => match trial.kind {
                TrialKind::Ledger => self.ledger(beds, &experiment.exchanges[exchange], place),
                _ => self.exchange(beds, &experiment.exchanges[exchange], place),
            },
            Task::Apply { application } => {
                self.apply(beds, &experiment.applications[application], place)
            }
            Task::Stream { stream } => self.stream(beds, &experiment.streams[stream], place),
            Task::Process { processing } => {
                self.process(beds, &experiment.processings[processing], place)
            }
            Task::Serve { serving } => self.serve(beds, &experiment.servings[serving], place),
        }
    }

    /// Offers a load at the rate of its trial.
    fn offer_at_rate(
        &mut self,
        beds: &mut [Bed<'_>],
        trial: &Trial,
        (load, plan): (&Load, &Plan),
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let of_repeat = respread::of_repeat(plan, place.repeat);
        let plan = of_repeat.as_ref().unwrap_or(plan);
        let Some(rate) = self.rate(place.device, trial, load) else {
            let reason = "no frame was dealt with in the `saturate` trials of this point, \
                          or there is none: no rate to take a share of"
                .to_string();
            let sample = self.sample(place, failed(reason));
            return self.keep(place.device, sample, None);
        };
        let load = Load { rate, ..load.clone() };
        self.offer(beds, (&load, plan), place).map(drop)
    }

    /// Lets messages be exchanged and stores what became of them.
    fn exchange(
        &mut self,
        beds: &mut [Bed<'_>],
        exchange: &Exchange,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let Some(Ok(bed)) = beds.get_mut(place.device) else {
            return Ok(());
        };
        let mut sample = self.sample(place, Outcome::Measured);
        match bed.exchange(exchange) {
            Err(error) => self.record_error(place, error),
            Ok(seen) => {
                put_exchange(&mut sample.metrics, &seen, &exchange.echo);
                sample.marks = exchange::marks(&seen.echoed);
                sample.load = json(exchange);
                sample.counters = serde_json::json!({ "server": json(&seen.served) });
                // What was measured until then is kept, and speaks for nothing.
                if let Some(reason) = seen.echoed.ended {
                    sample.outcome = failed(reason);
                }
                let latency = Some(&seen.echoed.rtt).filter(|rtt| !rtt.0.is_empty());
                sample.latency_tag = latency.map(|_| format!("s{}", sample.order));
                self.keep(place.device, sample, latency)
            }
        }
    }

    /// Lets clients ask a server and stores what became of what they asked.
    fn apply(
        &mut self,
        beds: &mut [Bed<'_>],
        application: &Application,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let Some(Ok(bed)) = beds.get_mut(place.device) else {
            return Ok(());
        };
        let mut sample = self.sample(place, Outcome::Measured);
        match bed.apply(application) {
            Err(error) => self.record_error(place, error),
            Ok(seen) => {
                put_application(&mut sample.metrics, &seen);
                sample.marks = application::marks(&seen);
                sample.load = json(application);
                sample.counters = application::counters(&seen);
                // What was measured until then is kept, and speaks for nothing.
                if let Some(reason) = seen.requested.ended {
                    sample.outcome = failed(reason);
                }
                let latency = Some(&seen.requested.latency).filter(|seen| !seen.0.is_empty());
                sample.latency_tag = latency.map(|_| format!("s{}", sample.order));
                self.keep(place.device, sample, latency)
            }
        }
    }

    /// Lets one host send to the other and stores what arrived.
    fn stream(
        &mut self,
        beds: &mut [Bed<'_>],
        streaming: &Streaming,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let Some(Ok(bed)) = beds.get_mut(place.device) else {
            return Ok(());
        };
        let mut sample = self.sample(place, Outcome::Measured);
        match bed.stream(streaming) {
            Err(error) => self.record_error(place, error),
            Ok(seen) => {
                put_stream(&mut sample.metrics, &seen, &streaming.stream);
                sample.marks = stream::marks(&seen);
                sample.load = json(streaming);
                sample.counters = json(&seen);
                // What was measured until then is kept, and speaks for nothing.
                if let Some(reason) = stream::ended(&seen) {
                    sample.outcome = failed(reason);
                }
                self.keep(place.device, sample, None)
            }
        }
    }

    /// Lets packets through a program and stores what they took.
    fn process(
        &mut self,
        beds: &mut [Bed<'_>],
        processing: &Processing,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let Some(Ok(bed)) = beds.get_mut(place.device) else {
            return Ok(());
        };
        let mut sample = self.sample(place, Outcome::Measured);
        match bed.process(processing) {
            Err(error) => self.record_error(place, error),
            Ok(seen) => {
                put_processed(&mut sample.metrics, &seen);
                sample.load = json(processing);
                sample.counters = json(&seen);
                if let Some(reason) = program::failure(&seen) {
                    sample.outcome = failed(reason);
                }
                self.keep(place.device, sample, None)
            }
        }
    }

    /// Lets a store serve requests and stores what they took.
    fn serve(
        &mut self,
        beds: &mut [Bed<'_>],
        serving: &Serving,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let Some(Ok(bed)) = beds.get_mut(place.device) else {
            return Ok(());
        };
        let mut sample = self.sample(place, Outcome::Measured);
        match bed.serve(serving) {
            Err(error) => self.record_error(place, error),
            Ok(seen) => {
                put_answered(&mut sample.metrics, &seen);
                kvs::mark(&mut sample, &seen);
                sample.load = json(serving);
                sample.counters = json(&seen);
                if let Some(reason) = kvs::failure(&seen) {
                    sample.outcome = failed(reason);
                }
                self.keep(place.device, sample, None)
            }
        }
    }

    /// Has the stamps of an exchange read and stores what they come to.
    fn ledger(
        &mut self,
        beds: &mut [Bed<'_>],
        exchange: &Exchange,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let Some(Ok(bed)) = beds.get_mut(place.device) else {
            return Ok(());
        };
        let mut sample = self.sample(place, Outcome::Measured);
        match bed.ledger(exchange, PAIRS) {
            Err(error) => self.record_error(place, error),
            Ok(seen) => {
                put_ledger(&mut sample.metrics, &seen);
                sample.load = json(exchange);
                sample.counters = serde_json::json!({
                    "terms": json(&seen.terms),
                    "pairs": json(&seen.pairs),
                    "stamps": seen.stamps,
                    "in_payload": seen.in_payload,
                    "by_sockets": seen.by_sockets,
                });
                let latency = Some(&seen.with).filter(|rtt| !rtt.0.is_empty());
                sample.latency_tag = latency.map(|_| format!("s{}", sample.order));
                self.keep(place.device, sample, latency)
            }
        }
    }

    /// Carries a plan out alone and stores what came of it.
    fn operate(
        &mut self,
        beds: &mut [Bed<'_>],
        plan: &Plan,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let (Some(Ok(bed)), Plan::Rules(plan)) = (beds.get_mut(place.device), plan) else {
            return Ok(());
        };
        let outcome = outcome(&self.states[place.device].refusal);
        let mut sample = self.sample(place, outcome);
        match bed.operate(plan) {
            Err(error) => self.record_error(place, error),
            Ok(control) => {
                put_control(&mut sample.metrics, &control, 0);
                sample.control = json(&control);
                self.keep(place.device, sample, None)
            }
        }
    }

    /// The rate of a trial; `None` where the maximum is not known that it is a share of. All its
    /// repeats have one, so that they are repeats of one thing: the first that is measured sets it.
    fn rate(&self, device: usize, trial: &Trial, load: &Load) -> Option<Rate> {
        let (of, share) = match trial.rate {
            PlannedRate::Saturate => return Some(Rate::Saturate),
            PlannedRate::Pps(pps) => return Some(Rate::Pps(pps)),
            PlannedRate::Step { low_pps, high_pps } => {
                let (from_ns, until_ns) = respread::step(load.duration_ns);
                return Some(Rate::Step { low_pps, high_pps, from_ns, until_ns });
            }
            PlannedRate::ShareOf { of, share } => (of, share),
        };
        let first_pps = self.states[device].known.rate_pps(trial);
        first_pps.or_else(|| Some(self.maximum_pps(device, of)? * share)).map(Rate::Pps)
    }

    /// Median throughput that trial `of` has shown so far, above 0; of its undisturbed repeats
    /// where there is one.
    fn maximum_pps(&self, device: usize, of: usize) -> Option<f64> {
        let trial = &self.experiment.trials[of];
        let known = &self.states[device].known;
        let repeats = 0..self.experiment.repeats;
        let seen = repeats.filter_map(|r| known.seen(trial.kind.name(), r, &trial.point));
        let seen: Vec<&Seen> = seen.collect();
        let calm = seen.iter().any(|seen| !seen.disturbed);
        let kept = seen.iter().filter(|seen| !(calm && seen.disturbed));
        let values: Vec<f64> = kept.filter_map(|seen| seen.throughput_pps).collect();
        statistics::median(&values).filter(|maximum| *maximum > 0.0)
    }

    /// Offers a load and stores what was seen; the throughput, where it was measured.
    fn offer(
        &mut self,
        beds: &mut [Bed<'_>],
        (load, plan): (&Load, &Plan),
        place: &Place<'_>,
    ) -> Result<Option<f64>, ResultError> {
        let Some(Ok(bed)) = beds.get_mut(place.device) else {
            return Ok(None);
        };
        let outcome = outcome(&self.states[place.device].refusal);
        let mut sample = self.sample(place, outcome);
        match bed.run(load, plan) {
            Err(error) => self.record_error(place, error).map(|()| None),
            Ok(observation) if observation.planned == 0 => {
                sample.outcome = failed(NOTHING_DUE.to_string());
                sample.load = json(load);
                self.keep(place.device, sample, None).map(|()| None)
            }
            Ok(observation) => {
                sample.metrics = measure::metrics(&observation);
                let over_time = [TrialKind::Rest, TrialKind::Batch, TrialKind::Change];
                let is_over_time = over_time.map(TrialKind::name).contains(&place.trial);
                if is_over_time {
                    windows::put_windows(&mut sample.metrics, &observation);
                    if self.run.rules.is_none() && load.trace.is_none() {
                        put_met(&mut sample.metrics, &observation);
                    }
                }
                if place.trial == TrialKind::Effect.name() {
                    put_effects(&mut sample.metrics, &observation);
                }
                self.put_limits(&mut sample.metrics, &observation, place);
                if let Some(control) = &observation.control {
                    put_control(&mut sample.metrics, control, observation.duration_ns);
                }
                // What it takes to see effects is in the metrics, and is long.
                let control = observation
                    .control
                    .as_ref()
                    .map(|control| Control { each_begun_ns: Vec::new(), ..control.clone() });
                sample.control = json(&control);
                if let Some(seen) = &observation.respread {
                    put_respread(&mut sample.metrics, &observation, seen);
                    sample.control = json(seen);
                }
                let judged = if is_over_time { Judged::Undisturbed } else { Judged::Whole };
                sample.marks = measure::marks(&observation, judged);
                sample.load = json(load);
                sample.counters = serde_json::json!({
                    "generator": json(&observation.generator),
                    "device": json(&observation.device),
                    "sink": json(&observation.sink),
                });
                if place.trial == TrialKind::Spread.name() {
                    let state = &self.states[place.device];
                    let told = state.rss.as_ref().zip(state.setup.as_ref());
                    let shares = told.and_then(|(rss, setup)| hash_shares(rss, setup, load));
                    let shares = shares.unwrap_or_default();
                    put_spread(&mut sample.metrics, &observation, load, &shares);
                    sample.counters[HASH_SHARES] = json(&shares);
                }
                sample.honesty = json(&observation.honesty);
                sample.slices = measure::slices(&observation);
                let latency = observation.latency.as_ref().filter(|latency| !latency.0.is_empty());
                sample.latency_tag = latency.map(|_| format!("s{}", sample.order));
                let throughput_pps = sample.metrics.get("throughput_pps").map(|q| q.value);
                self.keep(place.device, sample, latency).map(|()| throughput_pps)
            }
        }
    }

    /// Adds what shows which part of a device binds, and what each core did.
    fn put_limits(&self, metrics: &mut Metrics, observation: &Observation, place: &Place<'_>) {
        if self.experiment.kind == Kind::FrameSize {
            put_limits(metrics, observation);
        }
        if place.trial == TrialKind::Scaling.name() {
            let setup = self.states[place.device].setup.as_ref();
            put_scaling(metrics, observation, setup.map_or(1, |setup| setup.cores));
        }
    }

    /// Notes what a device cannot do, or that it is gone.
    fn record_error(&mut self, place: &Place<'_>, error: DeviceError) -> Result<(), ResultError> {
        let outcome = match error {
            DeviceError::NotSupported { capability } => Outcome::NotSupported { capability },
            DeviceError::BadLoad { .. } | DeviceError::BadPlan { .. } => failed(error.to_string()),
            _ => {
                let Place { device, trial, repeat, point } = place;
                return self.drop_device(*device, error.to_string(), trial, *repeat, point);
            }
        };
        let sample = self.sample(place, outcome);
        self.keep(place.device, sample, None)
    }

    fn drop_device(
        &mut self,
        device: usize,
        reason: String,
        trial: &str,
        repeat: u32,
        point: &Point,
    ) -> Result<(), ResultError> {
        let place = Place { device, trial, repeat, point };
        let outcome = Outcome::Failed { reason: reason.clone(), dropped: true };
        let sample = self.sample(&place, outcome);
        self.keep(device, sample, None)?;
        let device = &self.run.devices[device].name;
        self.host.progress(Event::Dropped { device, reason: &reason });
        Ok(())
    }

    fn sample(&mut self, place: &Place<'_>, outcome: Outcome) -> Sample {
        Sample {
            schema: SCHEMA,
            order: self.order,
            time_unix_ns: self.host.time_unix_ns(),
            experiment: self.experiment.name.clone(),
            device: self.run.devices[place.device].name.clone(),
            point: place.point.clone(),
            trial: place.trial.to_string(),
            repeat: place.repeat,
            outcome,
            metrics: Default::default(),
            marks: Vec::new(),
            load: serde_json::Value::Null,
            counters: serde_json::Value::Null,
            honesty: serde_json::Value::Null,
            slices: serde_json::Value::Null,
            control: serde_json::Value::Null,
            search: serde_json::Value::Null,
            latency_tag: None,
        }
    }

    fn keep(
        &mut self,
        device: usize,
        sample: Sample,
        latency: Option<&Latency>,
    ) -> Result<(), ResultError> {
        self.store.append(&sample, latency)?;
        self.order += 1;
        self.has_measured |= measures(&sample);
        let (done_ratio, remaining_s) = self.outlook();
        self.host.progress(Event::Stored { sample: &sample, done_ratio, remaining_s });
        self.states[device].known.learn(&sample);
        Ok(())
    }

    /// Share done, and seconds still to come at the pace so far.
    fn outlook(&mut self) -> (f64, f64) {
        let estimate_s = self.experiment.estimate_s.max(f64::MIN_POSITIVE);
        let done_ratio = (self.past_s / estimate_s).clamp(0.0, 1.0);
        let pace = if self.worked_s > 0.0 { self.elapsed_s() / self.worked_s } else { 1.0 };
        (done_ratio, (estimate_s - self.past_s).max(0.0) * pace)
    }
}

/// The coordinates of a set-up: what the traffic is plays no part in it.
fn setup_point(point: &Point) -> Point {
    let of_setup =
        |axis: &str| matches!(axis, "groups" | "rules" | "match_percent" | "hits" | "group");
    point.iter().filter(|(axis, _)| of_setup(axis)).map(|(a, c)| (a.clone(), c.clone())).collect()
}

fn refusal(report: &SetupReport) -> Option<String> {
    let (refused, asked) = (report.rules_refused, report.rules_refused + report.rules_installed);
    let said = report.refusal.as_deref().unwrap_or("no reason given");
    (refused > 0).then(|| format!("{refused} of {asked} rules refused: {said}"))
}

fn outcome(refusal: &Option<String>) -> Outcome {
    match refusal {
        None => Outcome::Measured,
        Some(reason) => Outcome::Refused { reason: reason.clone() },
    }
}

/// A trial failed, and the device goes on.
fn failed(reason: String) -> Outcome {
    Outcome::Failed { reason, dropped: false }
}

/// A document of the device as it stands in a sample; one that is no JSON is left out.
pub(crate) fn json<T: serde::Serialize>(document: &T) -> serde_json::Value {
    serde_json::to_value(document).unwrap_or_default()
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
