//! Reduces an experiment so that it fits its time budget.

use niclab_device::{
    Application, Counting, Detecting, Load, Plan, Processing, RoundTrips, Serving, Streaming,
};

use super::order::order;
use super::{ExperimentRun, Resolver, RunDevice};
use crate::estimate;

impl Resolver<'_> {
    /// Puts the trials in order; where they do not fit the budget, takes repeats back down to the
    /// floor of the grid, then time, and says so.
    pub(super) fn finish(mut self, devices: &[RunDevice]) -> ExperimentRun {
        let planned = self.run.clone();
        loop {
            self.run.order = order(&self.run, devices, self.seed);
            self.run.estimate_s = estimate::seconds(&self.run, devices);
            let fits = self.run.budget_s.is_none_or(|b| self.run.estimate_s <= b as f64);
            if fits || !take_back(&mut self.run, self.grid.repeats_min) {
                break;
            }
        }
        self.run.taken_back = taken_back(&planned, &self.run);
        self.run
    }
}

/// Makes a run shorter: one repeat less, then half the duration; `false` at the end.
fn take_back(run: &mut ExperimentRun, repeats_min: u32) -> bool {
    const DURATION_NS_MIN: u64 = 10_000_000;
    if run.repeats > repeats_min.max(1) {
        run.repeats -= 1;
        return true;
    }
    let long = |load: &&mut Load| load.duration_ns > DURATION_NS_MIN;
    let mut taken = false;
    for load in run.loads.iter_mut().filter(long) {
        load.duration_ns /= 2;
        taken = true;
    }
    let long = |trips: &&mut RoundTrips| trips.echo.duration_ns > DURATION_NS_MIN;
    for trips in run.round_trips.iter_mut().filter(long) {
        trips.echo.duration_ns /= 2;
        taken = true;
    }
    let long = |application: &&mut Application| application.requests.duration_ns > DURATION_NS_MIN;
    for application in run.applications.iter_mut().filter(long) {
        application.requests.duration_ns /= 2;
        taken = true;
    }
    let long = |streaming: &&mut Streaming| streaming.stream.duration_ns > DURATION_NS_MIN;
    for streaming in run.streams.iter_mut().filter(long) {
        streaming.stream.duration_ns /= 2;
        taken = true;
    }
    let long = |processing: &&mut Processing| processing.duration_ns > DURATION_NS_MIN;
    for processing in run.processings.iter_mut().filter(long) {
        processing.duration_ns /= 2;
        taken = true;
    }
    let long = |serving: &&mut Serving| serving.duration_ns > DURATION_NS_MIN;
    for serving in run.servings.iter_mut().filter(long) {
        serving.duration_ns /= 2;
        taken = true;
    }
    let long = |detecting: &&mut Detecting| detecting.duration_ns > DURATION_NS_MIN;
    for detecting in run.detections.iter_mut().filter(long) {
        detecting.duration_ns /= 2;
        taken = true;
    }
    let long = |counting: &&mut Counting| counting.duration_ns > DURATION_NS_MIN;
    for counting in run.countings.iter_mut().filter(long) {
        counting.duration_ns /= 2;
        taken = true;
    }
    for plan in run.plans.iter_mut().filter(|_| taken) {
        if let Plan::Rules(plan) = plan {
            plan.start_ns /= 2;
        }
    }
    taken
}

/// The reductions of `run` against `planned`, in words.
fn taken_back(planned: &ExperimentRun, run: &ExperimentRun) -> Vec<String> {
    let Some(budget_s) = run.budget_s else {
        return Vec::new();
    };
    let mut words = Vec::new();
    if run.repeats < planned.repeats {
        words.push(format!(
            "{} of {} repeats, to fit the budget of {budget_s} s",
            run.repeats, planned.repeats
        ));
    }
    // All loads are halved together, and so are all round trips, applications, streams and so on.
    let duration_ms = |run: &ExperimentRun| {
        let of_load = run.loads.last().map(|load| load.duration_ns);
        let of_round_trips = run.round_trips.last().map(|trips| trips.echo.duration_ns);
        let of_application = run.applications.last().map(|asked| asked.requests.duration_ns);
        let of_stream = run.streams.last().map(|streaming| streaming.stream.duration_ns);
        let of_program = run.processings.last().map(|processing| processing.duration_ns);
        let of_store = run.servings.last().map(|serving| serving.duration_ns);
        let of_detection = run.detections.last().map(|detecting| detecting.duration_ns);
        let of_counting = run.countings.last().map(|counting| counting.duration_ns);
        let of_memory = of_program.or(of_store).or(of_detection).or(of_counting);
        let duration_ns = of_load.or(of_round_trips).or(of_application).or(of_stream).or(of_memory);
        duration_ns.map(|ns| ns as f64 / 1e6)
    };
    let durations = duration_ms(planned).zip(duration_ms(run)).filter(|(before, now)| now < before);
    if let Some((before, now)) = durations {
        words.push(format!("{now} of {before} ms a trial, to fit the budget of {budget_s} s"));
    }
    words
}
