//! Devices with a known time per tuple, and the findings from them.

use niclab_device::{
    AnalyticsObservation, Counting, DeviceError, DeviceInfo, Observation, PathNode, Setup,
    SetupReport, Task, Testbed, TupleMode, WorkStepTime,
};
use niclab_result::{Outcome, Sample};

use super::spec::CountingSweep;
use super::trials::places;
use crate::simulated::cell_at;
use crate::spec::GridName;
use crate::validation::{MeasuredModel, measure};
use crate::values::Values;

/// Tuples of a pane.
const TUPLES: u64 = 10_000;

/// A device on which a tuple takes 50 ns, and 100 ns more where its core receives it. `steer` hands
/// tuples over in no time.
struct Counter {
    about: DeviceInfo,
    wrong: u64,
    /// The card's work with `dma`.
    dma_card_ns: f64,
    /// Share of the busiest of two cores with `steer`.
    steer_busiest: f64,
    asked: Vec<Counting>,
}

impl Counter {
    fn new() -> Counter {
        let seat = PathNode { role: "function".into(), label: "workers".into(), core: None };
        let about =
            DeviceInfo { name: "box".into(), counting: vec![seat], ..DeviceInfo::default() };
        Counter { about, wrong: 0, dma_card_ns: 300.0, steer_busiest: 0.6, asked: Vec::new() }
    }
}

impl Testbed for Counter {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, _: &Setup) -> Result<SetupReport, DeviceError> {
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let Task::Analytics(of) = task else { return Err(task.not_supported()) };
        self.asked.push(of.clone());
        let (received_ns, card_ns) = match of.mode {
            TupleMode::Rss => (100.0, 20.0),
            TupleMode::Steer => (60.0, 20.0),
            TupleMode::Dma => (0.0, self.dma_card_ns),
        };
        let tuple_ns = 50.0 + received_ns;
        let worked_ns = (TUPLES as f64 * tuple_ns) as u64;
        let busiest_share = if of.mode == TupleMode::Steer { self.steer_busiest } else { 0.6 };
        let busiest_ns = (worked_ns as f64 * busiest_share) as u64;
        let step = |(name, tuple_ns): (&str, f64)| WorkStepTime { name: name.into(), tuple_ns };
        Ok(Observation::Analytics(AnalyticsObservation {
            tuples: TUPLES,
            frames: 300,
            windows: 9,
            wrong: self.wrong,
            panes_ns: vec![busiest_ns, 9 * busiest_ns, busiest_ns],
            worked_ns: vec![worked_ns, 9 * worked_ns, worked_ns],
            steps: [("receive", received_ns), ("operator", 50.0)].map(step).into(),
            card_ns,
            results_ns: vec![(tuple_ns * 1e3) as u64; 3],
        }))
    }
}

fn measured(device: &mut Counter) -> MeasuredModel {
    let set = ["workers=2", "keys=1000", "zipf=1", "payload=0", "batch=45"];
    measure(device, "analytics-offload", GridName::Reduced, &set, Some(6)).unwrap()
}

fn finding(measured: &MeasuredModel, id: &str) -> Option<(String, f64)> {
    let findings = measured.summary().findings;
    let found = findings.iter().find(|finding| finding.id == format!("box-{id}"))?;
    Some((format!("{} {}", found.sentence, found.implication), found.value.value))
}

fn near(value: f64, wanted: f64) -> bool {
    (value / wanted - 1.0).abs() < 1e-3
}

#[test]
fn workers_are_faster_with_a_card_that_receives_and_its_work_is_reported() {
    let measured = measured(&mut Counter::new());
    let summary = measured.summary();
    assert!(!summary.partial && summary.warnings.is_empty(), "{:?}", summary.warnings);
    assert_eq!(summary.findings[0].id, "box-dma-1000-1-0-45-gain", "the headline");
    let (words, value) = finding(&measured, "dma-1000-1-0-45-gain").unwrap();
    assert!(near(value, 3.0), "{value}");
    let wanted = "With dma a worker's core of box is 3.00 times as fast as with rss: 20.0 M \
                  tuples/s instead of 6.67 M (2 workers, 1,000 keys, Zipf 1, no payload, batches \
                  of 45). Let the card receive if workers limit";
    assert!(words.starts_with(wanted), "{words}");
    let (words, value) = finding(&measured, "steer-1000-1-0-45-gain").unwrap();
    assert!(near(value, 36.363_636) && words.contains("36.4 % faster than with rss"), "{words}");
    assert!(words.ends_with("Steer by key if workers limit the application."), "{words}");
    let (words, value) = finding(&measured, "dma-1000-1-0-45-price").unwrap();
    assert!(near(value, 15.0), "{value}");
    assert!(
        words.contains("tuple takes 15.0 times as long with dma as with rss: 300 ns"),
        "{words}"
    );
    assert!(words.ends_with("on a card with processors of its own."), "280 ns for 100: {words}");
    assert!(finding(&measured, "steer-1000-1-0-45-price").is_none());
    let tables = &summary.experiments[0].tables;
    let place = [("mode", "dma")];
    assert_eq!(cell_at(&tables[0], &place, "times rss"), "3.00 (3.00 to 3.00)");
    assert_eq!(cell_at(&tables[0], &place, "card's work in software"), "300 ns");
    assert_eq!(
        cell_at(&tables[0], &place, "tuples/s of all workers (interval)"),
        "33.3 M (33.3 M to 33.3 M)"
    );
    assert_eq!(cell_at(&tables[0], &place, "busiest core's work, times the mean"), "1.20");
    assert_eq!(cell_at(&tables[1], &place, "operator"), "50.0 ns");
    let ids: Vec<&str> =
        summary.experiments[0].figures.iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(ids, ["gain", "steps"].map(|id| format!("analytics-offload-{id}")));
}

#[test]
fn what_the_repeats_do_not_show_is_no_finding() {
    let mut device = Counter::new();
    let mut measured = measured(&mut device);
    let is_of = |sample: &&mut Sample| sample.point["mode"].to_string() == "dma";
    for sample in measured.samples.iter_mut().filter(is_of) {
        let factor = if sample.repeat.is_multiple_of(2) { 0.05 } else { 20.0 };
        sample.metrics.values_mut().for_each(|metric| metric.value *= factor);
    }
    for what in ["gain", "price"] {
        assert!(finding(&measured, &format!("dma-1000-1-0-45-{what}")).is_none(), "{what}");
    }
}

#[test]
fn a_card_in_software_that_saves_more_than_it_takes_is_reported_as_such() {
    let mut device = Counter::new();
    device.dma_card_ns = 80.0;
    let (words, value) = finding(&measured(&mut device), "dma-1000-1-0-45-price").unwrap();
    assert!(near(value, 4.0), "{value}");
    assert!(words.ends_with("Even a software card saves more than it takes."), "60 ns: {words}");
}

#[test]
fn workloads_that_fewer_workers_count_have_findings_too() {
    let set = ["workers=4", "keys=5000", "zipf=1", "payload=0", "batch=45"];
    let grid = GridName::Reduced;
    let more = measure(&mut Counter::new(), "analytics-offload", grid, &set, Some(6)).unwrap();
    let mut measured = measured(&mut Counter::new());
    measured.samples.extend(more.samples);
    for keys in [1_000, 5_000] {
        assert!(finding(&measured, &format!("dma-{keys}-1-0-45-gain")).is_some(), "{keys}");
    }
}

#[test]
fn cores_that_are_faster_on_average_are_not_recommended_if_the_busiest_one_is_not() {
    let mut device = Counter::new();
    // 110 ns instead of 150 ns, and 90 ns of them on one core.
    device.steer_busiest = 0.82;
    let (words, value) = finding(&measured(&mut device), "steer-1000-1-0-45-gain").unwrap();
    assert!(near(value, 36.363_636), "{value}");
    assert!(
        words.ends_with(
            "The busiest core limits all workers together: they are not shown to be faster."
        ),
        "{words}"
    );
}

#[test]
fn the_steps_of_the_most_workers_are_drawn() {
    let set = ["workers=4", "keys=5000", "zipf=1", "payload=0", "batch=45"];
    let grid = GridName::Reduced;
    let mut more = measure(&mut Counter::new(), "analytics-offload", grid, &set, Some(6)).unwrap();
    more.samples.extend(measured(&mut Counter::new()).samples);
    let summary = more.summary();
    let steps = summary.experiments[0].figures.iter().find(|of| of.id.ends_with("steps")).unwrap();
    assert!(steps.caption.starts_with("4 workers, 5,000 keys"), "{}", steps.caption);
    let figure_of = |id: &str| {
        let found =
            summary.findings.iter().find(|of| of.id == format!("box-dma-{id}-1-0-45-price"));
        found.unwrap().figure.clone()
    };
    assert!(figure_of("5000").is_some() && figure_of("1000").is_none());
}

#[test]
fn wrong_windows_invalidate_a_trial() {
    let mut device = Counter::new();
    device.wrong = 2;
    let measured = measured(&mut device);
    let is_failed = |sample: &Sample| match &sample.outcome {
        Outcome::Failed { reason, .. } => reason == "2 of 9 windows differ from a plain count",
        _ => false,
    };
    assert!(!measured.samples.is_empty() && measured.samples.iter().all(is_failed));
    assert!(measured.summary().findings.is_empty());
}

#[test]
fn a_device_without_workers_lacks_the_experiment() {
    let mut device = Counter::new();
    device.about.counting.clear();
    let measured = measured(&mut device);
    let lack = Outcome::NotSupported { capability: "analytics".into() };
    assert!(measured.samples.iter().map(|sample| &sample.outcome).eq([&lack]));
}

#[test]
fn all_modes_of_a_place_are_measured_one_after_the_other() {
    let mut device = Counter::new();
    measured(&mut device);
    for place in device.asked.chunks(3) {
        let mut modes: Vec<&str> =
            place.iter().map(|of| super::trials::MODES[of.mode as usize].0).collect();
        modes.sort_unstable();
        assert_eq!(modes, ["dma", "rss", "steer"]);
    }
}

#[test]
fn a_sweep_out_of_range_is_refused_with_what_would_be_right() {
    let refused = |change: fn(&mut CountingSweep)| {
        let values = |text: &str| Values::parse(text).unwrap();
        let mut sweep = CountingSweep {
            mode: values("rss"),
            workers: values("2"),
            keys: values("100"),
            zipf: values("0.99"),
            payload: values("0"),
            batch: values("45"),
        };
        assert_eq!(places(&sweep).unwrap().len(), 1);
        change(&mut sweep);
        places(&sweep).unwrap_err().to_string()
    };
    let mode = refused(|of| of.mode = Values::parse("kernel").unwrap());
    assert!(mode.contains("mode = kernel: use one of rss, steer, dma"), "{mode}");
    let workers = refused(|of| of.workers = Values::parse("17").unwrap());
    assert!(workers.contains("workers = 17: use 1 to 16"), "{workers}");
    let batch = refused(|of| of.batch = Values::parse("46").unwrap());
    assert!(batch.contains("batch = 46: use 1 to 45"), "{batch}");
    let payload = refused(|of| of.payload = Values::parse("1025").unwrap());
    assert!(payload.contains("payload = 1025: use 0 to 1024"), "{payload}");
}
