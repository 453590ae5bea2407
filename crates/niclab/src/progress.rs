//! The progress display of a run.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressStyle};
use niclab_lab::run::{Run, RunDevice};
use niclab_lab::runner::{CommandOutcome, Event, Host, VariantCommand};
use niclab_lab::spec::{RulesFile, Trace};
use niclab_lab::variants::Variant;
use niclab_load::{LoadObservation, TraceFrames};
use niclab_result::{Directory, Outcome, REPORT, ReportWriter, ResultError, Sample};

use crate::baseline::EarlierRun;
use crate::output::{is_terminal, one_line, say};
use crate::reference::ReferenceBed;
use crate::rules::plural;
use crate::{report, variant};

/// Steps of the bar: a thousandth each.
const STEPS: u64 = 1_000;

/// The bar on a terminal, a line now and then elsewhere; and the run's clock and stop flag.
pub struct Screen {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
    course: RunEstimate,
    /// When the run began: by a clock that nobody sets, and by the calendar.
    began: (Instant, Duration),
    /// Tenths of the run that were announced, where there is no terminal.
    announced: u64,
    terminal: bool,
    interim: InterimReport,
    reference: Option<ReferenceBed>,
    /// Messages about left-out devices, each once for all experiments.
    left_out: Vec<String>,
}

/// The report, written whenever an experiment is through: a picture comes long before the end.
struct InterimReport {
    writer: ReportWriter,
    path: PathBuf,
    /// The run that it is compared with.
    earlier: Option<Rc<EarlierRun>>,
    /// Samples that are not in it yet.
    is_behind: bool,
    is_announced: bool,
}

impl InterimReport {
    /// Writes it, and says once where it is. What keeps it from being written the last report says.
    fn write(&mut self) {
        if std::mem::take(&mut self.is_behind)
            && report::write_by(&self.writer, &self.path, self.earlier.as_deref()).is_ok()
            && !std::mem::replace(&mut self.is_announced, true)
        {
            let report = self.path.join(REPORT);
            say(&format!("report so far: {}, renewed with each experiment", report.display()));
        }
    }
}

impl Screen {
    /// Says what will be done and how long it will take; `done` samples are there already. Reports
    /// are compared with the `earlier` run.
    ///
    /// # Errors
    /// [`ResultError::Disk`].
    pub fn new(
        run: &Run,
        directory: &Directory,
        done: usize,
        earlier: Option<Rc<EarlierRun>>,
        stop: Arc<AtomicBool>,
    ) -> Result<Screen, ResultError> {
        let devices: Vec<&str> = run
            .devices
            .iter()
            .filter(|device| device.absent.is_none())
            .map(|device| device.name.as_str())
            .collect();
        let names: Vec<&str> = run.experiments.iter().map(|e| e.name.as_str()).collect();
        let estimate = duration(run.estimate_s());
        let estimate = match done {
            0 => format!("about {estimate}"),
            _ => {
                let there = plural(done, "sample is", "samples are");
                format!("about {estimate} in all, {there} there")
            }
        };
        let [names, devices] = [names, devices].map(|all| one_line(&all.join(", ")));
        say(&format!("{names} on {devices}: {estimate}"));
        run.trace.iter().for_each(|trace| say(&trace_words(trace)));
        if let Some(RulesFile { path, rules_count, queues, rules_met }) = &run.rules {
            let rules = plural(*rules_count as usize, "rule", "rules");
            let queues = plural(usize::from(*queues), "queue", "queues");
            let met = rules_met
                .map_or(String::new(), |met| format!("; 0.2 s of the traffic match {met}"));
            say(&format!("rules: {}: {rules}, {queues}{met}", path.display()));
        }
        variant_words(run).iter().for_each(|words| say(words));
        earlier.iter().for_each(|earlier| say(&earlier.words()));
        for experiment in &run.experiments {
            let budget = experiment.plan_words().into_iter();
            budget.for_each(|words| say(&one_line(&format!("{}: {words}", experiment.name))));
        }
        say(&format!("results: {}", directory.path().display()));
        let terminal = is_terminal();
        let bar = if terminal { ProgressBar::new(STEPS) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {wide_msg}") {
            bar.set_style(style);
        }
        let course = RunEstimate { all_s: run.estimate_s(), ..RunEstimate::default() };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let began = (Instant::now(), since);
        let (writer, path) = (ReportWriter::of(directory)?, directory.path().to_path_buf());
        let interim =
            InterimReport { writer, path, earlier, is_behind: false, is_announced: false };
        Ok(Screen {
            bar,
            stop,
            course,
            began,
            announced: 0,
            terminal,
            interim,
            reference: ReferenceBed::open(run),
            left_out: Vec::new(),
        })
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn stored(&mut self, sample: &Sample, done_ratio: f64, remaining_s: f64) {
        let (done_ratio, remaining_s) = self.course.of_run(done_ratio, remaining_s);
        let left = duration(remaining_s);
        self.bar.set_position((done_ratio * STEPS as f64) as u64);
        self.bar.set_message(one_line(&format!("{left} left  {} {}", sample.device, what(sample))));
        let tenths = (done_ratio * 10.0) as u64;
        if !self.terminal && tenths > self.announced {
            self.announced = tenths;
            say(&format!("{:>3} %  {left} left", tenths * 10));
        }
    }
}

/// How far a run is whose experiments come one after the other: what they were estimated to take,
/// seconds.
#[derive(Default)]
struct RunEstimate {
    /// All of them.
    all_s: f64,
    /// Those that are through.
    before_s: f64,
    /// The one under way.
    now_s: f64,
}

impl RunEstimate {
    fn begins(&mut self, estimate_s: f64) {
        self.before_s += self.now_s;
        self.now_s = estimate_s;
    }

    /// The share of the run that is done, and the seconds that it still takes, where so much is of
    /// the experiment under way.
    fn of_run(&self, done_ratio: f64, remaining_s: f64) -> (f64, f64) {
        let done_s = self.before_s + done_ratio * self.now_s;
        let behind_s = (self.all_s - self.before_s - self.now_s).max(0.0);
        ((done_s / self.all_s.max(f64::MIN_POSITIVE)).min(1.0), remaining_s + behind_s)
    }
}

/// The command of each variant, and before how many trials it runs. A device may lack what a point
/// asks for, which only its set-up shows; so the number is the most there can be.
pub fn variant_words(run: &Run) -> Vec<String> {
    let words = run.variants.list.iter().map(|Variant { name, command }| {
        let is_of = |device: &RunDevice| device.variant.as_ref().is_some_and(|of| of.name == *name);
        let visits = run.experiments.iter().flat_map(|experiment| &experiment.order);
        let is_made = |device: &RunDevice| device.absent.is_none() && is_of(device);
        let times = visits.filter(|visit| run.devices.get(visit.device).is_some_and(is_made));
        let times = plural(times.count(), "trial", "trials");
        one_line(&format!("variant {name}: before each of at most {times}: {command}"))
    });
    words.collect()
}

/// The part of a capture that is sent.
fn trace_words(Trace { path, frames }: &Trace) -> String {
    let TraceFrames { frames, flows, frame_len_min, frame_len_max, .. } = frames;
    format!(
        "trace: {}: {} of {frame_len_min} to {frame_len_max} B with stamp and FCS, flows: {flows}",
        path.display(),
        plural(*frames as usize, "frame", "frames")
    )
}

/// A sample in a few words.
fn what(sample: &Sample) -> String {
    match (&sample.outcome, sample.metrics.get("throughput_pps")) {
        (Outcome::Measured, Some(rate)) if rate.value < 1e6 => {
            format!("{} {:.0} kpps", sample.trial, rate.value / 1e3)
        }
        (Outcome::Measured, Some(rate)) => format!("{} {:.2} Mpps", sample.trial, rate.value / 1e6),
        (Outcome::NotSupported { capability }, _) => format!("not supported: {capability}"),
        _ => sample.trial.clone(),
    }
}

/// Minutes and seconds, or seconds.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match (seconds / 60, seconds % 60) {
        (0, s) => format!("{s} s"),
        (m, _) if m >= 60 => format!("{} h {} min", m / 60, m % 60),
        (m, s) => format!("{m} min {s} s"),
    }
}

impl Host for Screen {
    fn time_unix_ns(&mut self) -> u64 {
        // The calendar may be set meanwhile, forward or back.
        let (began, since) = self.began;
        (since + began.elapsed()).as_nanos() as u64
    }

    fn is_stopped(&mut self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn reference(&mut self) -> Option<LoadObservation> {
        self.reference.as_mut()?.measure()
    }

    fn prepare(&mut self, command: &VariantCommand<'_>) -> CommandOutcome {
        variant::run(command)
    }

    fn progress(&mut self, event: Event<'_>) {
        match event {
            Event::Started { estimate_s, .. } => {
                self.course.begins(estimate_s);
                let Screen { bar, interim, .. } = self;
                bar.suspend(|| interim.write());
            }
            Event::Stored { sample, done_ratio, remaining_s } => {
                self.interim.is_behind = true;
                self.stored(sample, done_ratio, remaining_s);
            }
            Event::Dropped { device, reason } => {
                let text = format!("left out: {}: {reason}", one_line(device));
                if !self.left_out.contains(&text) {
                    self.bar.suspend(|| say(&text));
                    self.left_out.push(text);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RunEstimate, duration};

    #[test]
    fn a_run_is_done_when_the_last_of_its_experiments_is() {
        let mut course = RunEstimate { all_s: 100.0, ..RunEstimate::default() };
        course.begins(20.0);
        assert_eq!(course.of_run(1.0, 0.0), (0.2, 80.0));
        course.begins(80.0);
        assert_eq!(course.of_run(0.5, 30.0), (0.6, 30.0));
        assert_eq!(course.of_run(1.0, 0.0), (1.0, 0.0));
    }

    #[test]
    fn durations_read_as_people_say_them() {
        assert_eq!(duration(0.4), "0 s");
        assert_eq!(duration(59.6), "1 min 0 s");
        assert_eq!(duration(200.0), "3 min 20 s");
        assert_eq!(duration(5_400.0), "1 h 30 min");
        assert_eq!(duration(-1.0), "0 s");
    }
}
