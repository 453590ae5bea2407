//! Devices with a known time per packet, and the findings from them.

use niclab_device::{
    Detecting, DetectionCore, DetectionObservation, DeviceError, DeviceInfo, InspectionEngine,
    Observation, PathNode, RuleDivision, RuleMix, Setup, SetupReport, Task, Testbed,
};
use niclab_result::{Outcome, Sample};

use super::spec::DetectionSweep;
use super::trials::places;
use crate::simulated::cell_at;
use crate::spec::GridName;
use crate::validation::{MeasuredModel, measure};
use crate::values::Values;

/// Packets of a pass.
const PACKETS: u64 = 10_000;

/// A device on which a packet takes 500 ns, and 100 ns for each thousand rules of its core. A part
/// of the rules is half of them with `servers`; with `services` the time is that of all rules.
struct Detector {
    about: DeviceInfo,
    wrong: u64,
    lost: u64,
    given_up: u64,
    /// Work of the first core, by that of the second.
    first_ratio: f64,
    /// Every second repeat takes so much longer.
    moody_ratio: f64,
    /// Time for each rule squared, nanoseconds.
    squared_ns: f64,
    has_suricata: bool,
    asked: Vec<Detecting>,
}

impl Detector {
    fn new() -> Detector {
        let seat = PathNode { role: "function".into(), label: "engines".into(), core: None };
        let detecting = vec![seat];
        let about = DeviceInfo { name: "box".into(), detecting, ..DeviceInfo::default() };
        Detector {
            about,
            wrong: 0,
            lost: 0,
            given_up: 0,
            first_ratio: 1.0,
            moody_ratio: 1.0,
            squared_ns: 0.0,
            has_suricata: true,
            asked: Vec::new(),
        }
    }

    fn packet_ns(&self, of: &Detecting, rules: f64) -> f64 {
        let mood = if (self.asked.len() / 2).is_multiple_of(2) { 1.0 } else { self.moody_ratio };
        let is_less = of.workload.mix == RuleMix::Servers;
        let met = if is_less { rules } else { f64::from(of.workload.rules) };
        mood * (500.0 + met / 10.0 + self.squared_ns * met * met)
    }
}

impl Testbed for Detector {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, _: &Setup) -> Result<SetupReport, DeviceError> {
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let Task::Detection(of) = task else { return Err(task.not_supported()) };
        if of.engine != InspectionEngine::Niclab && !self.has_suricata {
            return Err(DeviceError::lacks("Suricata: install it (apt install suricata)"));
        }
        let cores = u64::from(of.cores);
        let parts = if of.division == RuleDivision::Copies { 1.0 } else { cores as f64 };
        let rules = f64::from(of.workload.rules) / parts;
        let packet_ns = self.packet_ns(of, rules);
        self.asked.push(of.clone());
        let core = |at: u64| {
            let more = if at == 0 { self.first_ratio } else { 1.0 };
            let packets = PACKETS / cores;
            DetectionCore {
                rules: rules as u64,
                packets,
                bytes: packets * 100,
                worked_ns: (more * packets as f64 * packet_ns) as u64,
                memory_bytes: (rules * 1e3) as u64,
            }
        };
        let cores: Vec<DetectionCore> = (0..cores).map(core).collect();
        let busiest_ns = cores.iter().map(|core| core.worked_ns).max().unwrap_or(0);
        let worked_ns = cores.iter().map(|core| core.worked_ns).sum();
        Ok(Observation::Detection(DetectionObservation {
            packets: PACKETS,
            bytes: PACKETS * 100,
            alerts: 70,
            wrong: self.wrong,
            lost: self.lost,
            given_up: self.given_up,
            cores,
            passes_ns: vec![busiest_ns, 9 * busiest_ns, busiest_ns],
            worked_ns: vec![worked_ns, 9 * worked_ns, worked_ns],
            is_disturbed: false,
            card_ns: Some(90.0),
            cache_misses: None,
        }))
    }
}

fn measured(device: &mut Detector, set: &[&str]) -> MeasuredModel {
    let given = ["engine=niclab", "mix=services,servers", "rules=1000,5000"];
    let set = [&given[..], set].concat();
    measure(device, "ids-partition", GridName::Reduced, &set, Some(6)).unwrap()
}

fn finding(measured: &MeasuredModel, id: &str) -> Option<(String, f64)> {
    let findings = measured.summary().findings;
    let found = findings.iter().find(|finding| finding.id == format!("box-niclab-{id}"))?;
    Some((format!("{} {}", found.sentence, found.implication), found.value.value))
}

fn near(value: f64, wanted: f64) -> bool {
    (value / wanted - 1.0).abs() < 1e-3
}

#[test]
fn partitions_are_faster_where_a_packet_meets_fewer_rules() {
    let measured = measured(&mut Detector::new(), &[]);
    let summary = measured.summary();
    assert!(!summary.partial && summary.warnings.is_empty(), "{:?}", summary.warnings);
    let first = &summary.findings[0].id;
    assert!(first.contains("-5000-"), "{first}: most rules first");
    // 500 ns and 500 ns for the rules, or half of these, by two cores.
    let (words, value) = finding(&measured, "servers-5000-gain").unwrap();
    assert!(near(value, 100.0 / 3.0), "{value}");
    let wanted = "With partitions of 5,000 rules of servers niclab's engine is 33.3 % faster than \
                  with copies on 2 cores of box: 2.67 Mpps instead of 2.00 Mpps. Divide such rules";
    assert!(words.starts_with(wanted), "{words}");
    let (words, value) = finding(&measured, "services-5000-gain").unwrap();
    assert!(near(value, 1.0) && words.contains("by less than 10 %"), "{words}");
    let (words, value) = finding(&measured, "servers-5000-memory").unwrap();
    assert!(near(value, 50.0), "{value}");
    let wanted = "With partitions of 5,000 rules of servers the largest of 2 engines takes 50.0 % \
                  less memory than a copy: 2.50 MB instead of 5.00 MB (niclab's engine, box).";
    assert!(words.starts_with(wanted), "{words}");
    let (words, value) = finding(&measured, "servers-5000-partitions-growth").unwrap();
    assert!(near(value, 750.0 / 550.0), "{value}");
    assert!(words.contains("with 5 times the rules"), "{words}");
    assert!(words.ends_with("grows less than linearly with the rules."), "{words}");
    assert!(finding(&measured, "servers-5000-imbalance").is_none());
    let tables = &summary.experiments[0].tables;
    let place = [("rules name", "servers"), ("rules", "5,000"), ("mode", "partitions")];
    assert_eq!(cell_at(&tables[0], &place, "times copies"), "1.33 (1.33 to 1.33)");
    assert_eq!(cell_at(&tables[0], &place, "card's work in software"), "90.0 ns");
    assert_eq!(cell_at(&tables[1], &place, "packets/s of a core"), "1.33 Mpps");
    assert_eq!(cell_at(&tables[1], &place, "bytes/s of a core"), "133 MB/s");
    assert_eq!(cell_at(&tables[1], &place, "cache misses per packet"), "not counted");
    let ids: Vec<&str> =
        summary.experiments[0].figures.iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(ids, ["gain", "time", "memory"].map(|id| format!("ids-partition-{id}")));
}

#[test]
fn what_the_repeats_do_not_show_is_no_finding() {
    let mut device = Detector::new();
    device.moody_ratio = 3.0;
    let mut measured = measured(&mut device, &[]);
    let is_of = |sample: &&mut Sample| sample.point["mode"].to_string() == "partitions";
    for sample in measured.samples.iter_mut().filter(is_of) {
        let factor = if sample.repeat.is_multiple_of(2) { 0.5 } else { 3.0 };
        sample.metrics.values_mut().for_each(|metric| metric.value *= factor);
    }
    assert!(finding(&measured, "servers-5000-gain").is_none());
    assert!(finding(&measured, "servers-5000-memory").is_none());
}

#[test]
fn slower_partitions_unequal_cores_and_steep_growth_are_told() {
    let mut device = Detector::new();
    (device.first_ratio, device.squared_ns) = (3.0, 0.001);
    let measured = measured(&mut device, &[]);
    let (words, value) = finding(&measured, "services-5000-imbalance").unwrap();
    assert!(near(value, 1.5), "{value}");
    assert!(words.contains("The busiest core limits all"), "{words}");
    // 500 + 500 + 25,000 ns instead of 500 + 100 + 1,000 ns.
    let (words, value) = finding(&measured, "services-5000-copies-growth").unwrap();
    assert!(near(value, 26_000.0 / 1_600.0), "{value}");
    assert!(words.contains("more than linearly"), "{words}");
}

#[test]
fn other_alerts_lost_packets_and_limits_invalidate_a_trial() {
    for (wrong, lost, given_up, words) in [
        (3, 0, 0, "3 alerts are missing or wrong; one engine with all rules has 70"),
        (0, 2, 0, "2 packets did not reach the engines"),
        (0, 0, 4, "4 inspections reached a limit of the engine"),
    ] {
        let mut device = Detector::new();
        (device.wrong, device.lost, device.given_up) = (wrong, lost, given_up);
        let measured = measured(&mut device, &[]);
        let is_failed = |sample: &Sample| match &sample.outcome {
            Outcome::Failed { reason, .. } => reason == words,
            _ => false,
        };
        assert!(!measured.samples.is_empty() && measured.samples.iter().all(is_failed));
        assert!(measured.summary().findings.is_empty());
    }
}

#[test]
fn without_suricata_the_engine_of_niclab_is_measured_and_the_lack_reported_once() {
    let mut device = Detector::new();
    device.has_suricata = false;
    let summary = measured(&mut device, &["engine=suricata,niclab"]).summary();
    let lack = "box: ids-partition: not supported: Suricata: install it (apt install suricata).";
    assert!(!summary.partial && summary.warnings == [lack], "{:?}", summary.warnings);
    assert!(summary.findings.iter().any(|found| found.id == "box-niclab-servers-5000-gain"));
    let mut device = Detector::new();
    device.about.detecting.clear();
    let measured = measured(&mut device, &[]);
    let lack = Outcome::NotSupported { capability: "intrusion detection".into() };
    assert!(measured.samples.iter().map(|sample| &sample.outcome).eq([&lack]));
}

#[test]
fn both_divisions_of_a_place_are_measured_one_after_the_other() {
    let mut device = Detector::new();
    measured(&mut device, &[]);
    for pair in device.asked.chunks(2) {
        assert_eq!(pair[0].workload, pair[1].workload);
        assert_ne!(pair[0].division, pair[1].division);
    }
}

#[test]
fn a_sweep_out_of_range_is_refused_with_what_would_be_right() {
    let refused = |change: fn(&mut DetectionSweep)| {
        let values = |text: &str| Values::parse(text).unwrap();
        let mut sweep = DetectionSweep {
            engine: values("niclab"),
            mode: values("copies"),
            mix: values("any"),
            rules: values("100"),
            cores: values("2"),
        };
        assert_eq!(places(&sweep).unwrap().len(), 1);
        change(&mut sweep);
        places(&sweep).unwrap_err().to_string()
    };
    let engine = refused(|of| of.engine = Values::parse("snort").unwrap());
    assert!(engine.contains("engine = snort: use one of niclab, suricata, suricata-ac"));
    let division = refused(|of| of.mode = Values::parse("halves").unwrap());
    assert!(division.contains("mode = halves: use one of copies, partitions"));
    let mix = refused(|of| of.mix = Values::parse("ports").unwrap());
    assert!(mix.contains("mix = ports: use one of services, servers, any"));
    let rules = refused(|of| of.rules = Values::parse("50001").unwrap());
    assert!(rules.contains("rules = 50001: use 1 to 50000"));
    let cores = refused(|of| of.cores = Values::parse("13").unwrap());
    assert!(cores.contains("cores = 13: use 1 to 12"));
}
