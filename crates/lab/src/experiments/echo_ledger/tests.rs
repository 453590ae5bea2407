//! Latency breakdowns with known terms, and the findings from them.

use niclab_device::capability::STAMPS;
use niclab_device::{
    BreakdownObservation, BreakdownParts, BreakdownTerm, DeviceError, DeviceInfo, Latency,
    Observation, PathNode, Setup, SetupReport, Task, Testbed,
};

use crate::breakdown::{DIRECTIONS, PARTS, TERMS};
use crate::simulated::cell_at;
use crate::spec::GridName;
use crate::validation::{MeasuredModel, measure};

/// Terms of 1, 10, 0.1, 2, 8 and 20 us, the last of which the direction doubles; a stamp costs
/// 100 ns, and what is left over is a share of the round trip.
struct Hosts {
    about: DeviceInfo,
    residue_ratio: f64,
    lacks: Option<&'static str>,
    /// Why the stamps are those of sockets.
    no_probes: Option<&'static str>,
}

const TIMES_NS: [f64; 6] = [1_000.0, 10_000.0, 100.0, 2_000.0, 8_000.0, 20_000.0];

impl Hosts {
    fn new() -> Hosts {
        let seat = |role: &str| PathNode { role: role.into(), label: "a host".into(), core: None };
        let hosts = ["client", "wire", "server"].map(seat).into();
        let about = DeviceInfo { name: "known".into(), hosts, ..DeviceInfo::default() };
        Hosts { about, residue_ratio: 0.0, lacks: None, no_probes: None }
    }
}

impl Testbed for Hosts {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, _: &Setup) -> Result<SetupReport, DeviceError> {
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let Task::Breakdown { trips, pairs } = task else { return Err(task.not_supported()) };
        if let (Some(capability), true) = (self.lacks, trips.deep || self.lacks == Some(STAMPS)) {
            return Err(DeviceError::lacks(capability));
        }
        let there = trips.client == niclab_device::Host::There;
        let term = |((name, _), time): ((&str, &str), f64)| BreakdownTerm {
            name: name.to_owned(),
            mean_ns: if there && name == "hardware" { 2.0 * time } else { time },
            core: (name != "hardware").then_some(1),
            core_share: 1.0,
            ..BreakdownTerm::default()
        };
        let terms: Vec<BreakdownTerm> = TERMS.into_iter().zip(TIMES_NS).map(term).collect();
        let sum: f64 = terms.iter().map(|term| term.mean_ns).sum();
        let rtt_ns = sum / (1.0 - self.residue_ratio);
        let [mut with, mut without] = [Latency::new(), Latency::new()];
        with.record_n(rtt_ns as u64, 1_000);
        without.record_n(rtt_ns as u64 - 600, 1_000);
        let pair = [rtt_ns as u64, rtt_ns as u64 - 600];
        // Parts of 100, 200, … ns, those of the reply 10 ns longer.
        let part = |(side, name): (usize, &str)| BreakdownTerm {
            name: format!("{}_{name}", DIRECTIONS[side]),
            mean_ns: 100.0 * (1 + PARTS.iter().position(|(it, _)| *it == name).unwrap()) as f64
                + 10.0 * side as f64,
            ..BreakdownTerm::default()
        };
        let names = [0, 1].into_iter().flat_map(|side| PARTS.map(|(name, _)| (side, name)));
        let parts = trips.deep.then(|| BreakdownParts {
            messages: 980,
            incomplete: 20,
            parts: names.map(part).collect(),
            residue_ratio: 0.001,
        });
        Ok(Observation::Breakdown(BreakdownObservation {
            messages: 990,
            incomplete: 10,
            rtt_ns,
            residue_ratio: self.residue_ratio,
            terms,
            parts,
            with,
            without,
            pairs: vec![pair; *pairs as usize],
            stamps: if trips.deep { 20 } else { 6 },
            in_payload: true,
            by_sockets: if trips.sockets { Some("asked for") } else { self.no_probes }
                .map(String::from),
        }))
    }
}

fn measured(hosts: &mut Hosts) -> MeasuredModel {
    measure(hosts, "echo-ledger", GridName::Reduced, &[], Some(6)).unwrap()
}

fn finding(measured: &MeasuredModel, id: &str) -> (String, f64) {
    let findings = measured.summary().findings;
    let found = findings.iter().find(|finding| finding.id == format!("known-echo-ledger-{id}"));
    let found = found.unwrap_or_else(|| panic!("no {id} among {findings:#?}"));
    (found.sentence.clone() + " " + &found.implication, found.value.value)
}

#[test]
fn the_greatest_term_and_the_price_of_a_stamp_are_found() {
    let measured = measured(&mut Hosts::new());
    let (words, value) = finding(&measured, "greatest");
    assert_eq!(value, 20_000.0);
    assert!(
        words.contains(
            "The largest of six parts of a UDP round trip of 1,024 B on known is the time between \
             the interfaces: 20.0 us of "
        ),
        "{words}"
    );
    assert!(words.contains("between the two interfaces"), "{words}");
    let (words, value) = finding(&measured, "price");
    assert_eq!(value, 100.0);
    assert!(words.starts_with("A stamp costs 100 ns on known"), "{words}");
    let (words, value) = finding(&measured, "residue");
    assert_eq!(value, 0.0);
    assert!(words.ends_with("All of the time is accounted for."), "{words}");
}

#[test]
fn parts_inside_the_stacks_have_a_table_and_a_finding() {
    let measured = measured(&mut Hosts::new());
    let (words, _) = finding(&measured, "inside");
    assert!(words.contains("socket, to the return of the call 1.81 us; "), "{words}");
    let summary = measured.summary();
    let table = summary.experiments[0].tables.iter().find(|it| it.id == "echo-ledger-parts");
    let rows = &table.unwrap().rows;
    let qdisc = rows.iter().find(|row| row[2] == "queueing discipline").unwrap();
    assert_eq!(qdisc[1], "IPv4, client here, blocking, 1,024 B");
    assert_eq!(qdisc[3..], ["200 ns", "210 ns"]);
    assert!(rows.iter().any(|row| row[2] == "left over" && row[3] == "0.100 %"), "{rows:?}");
    // The ledger and the study's table are told without these stamps.
    let ledger = summary.experiments[0].tables.iter().find(|it| it.id == "echo-ledger").unwrap();
    let deep = measured.samples.iter().filter(|sample| sample.point["deep"] == word("yes"));
    assert!(deep.count() > 0 && ledger.rows.len() == 9, "{ledger:?}");
}

fn word(word: &str) -> niclab_result::Coordinate {
    niclab_result::Coordinate::Word(word.into())
}

#[test]
fn the_residue_is_named() {
    let measured = measured(&mut Hosts { residue_ratio: -0.02, ..Hosts::new() });
    let (words, value) = finding(&measured, "residue");
    assert_eq!(value, 2.0);
    assert!(words.contains("within 2.00 %") && words.contains("vary"), "{words}");
}

#[test]
fn the_tables_are_those_of_the_study_with_ours_on_top() {
    let measured = measured(&mut Hosts::new());
    let summary = measured.summary();
    let tables = &summary.experiments[0].tables;
    let ledger =
        [("client", "here"), ("protocol", "UDP"), ("bytes", "64 B"), ("receive", "blocking")];
    assert_eq!(cell_at(&tables[0], &ledger, "server receive"), "10.0 us (core 1)");
    assert_eq!(cell_at(&tables[0], &ledger, "between the interfaces"), "20.0 us");
    let ours = |side: &str, column: &str| {
        cell_at(&tables[1], &[("host", "known"), ("side", side)], column)
    };
    assert_eq!(ours("client here", "client, us"), "9.0");
    assert_eq!(ours("client here", "server, us"), "12.1");
    assert_eq!(ours("client there", "hardware, us"), "40.0");
    let card = [("host", "BlueField2, SNIC"), ("side", "client here")];
    assert_eq!(cell_at(&tables[1], &card, "hardware, us"), "22.5");
    let price = cell_at(&tables[3], &ledger, "per stamp (interval)");
    assert_eq!(price, "100 ns (100 ns to 100 ns)");
    // Each curve stands on the one below it.
    let figure = &summary.experiments[0].figures[0];
    let tops: Vec<f64> = figure.series.iter().map(|series| series.points[0].y).collect();
    assert_eq!(tops, [1.0, 11.0, 11.1, 13.1, 21.1, 41.1]);
}

#[test]
fn stamps_of_sockets_stand_beside_the_others_and_by_their_name() {
    let table = |hosts: &mut Hosts| {
        let mut tables = measured(hosts).summary().experiments.remove(0).tables;
        tables.remove(0)
    };
    let by_sockets = |rows: &[Vec<String>]| {
        rows.iter().filter(|row| row[4].ends_with(", stamps of sockets")).count()
    };
    let both = table(&mut Hosts::new());
    assert_eq!((by_sockets(&both.rows), both.rows.len()), (1, 9), "{both:?}");
    assert!(!both.title.contains("No probes"), "{}", both.title);
    let alone = table(&mut Hosts { no_probes: Some("stamps: no BPF"), ..Hosts::new() });
    assert_eq!((by_sockets(&alone.rows), alone.rows.len()), (9, 9), "{alone:?}");
    assert!(alone.title.ends_with(". No probes: not supported: stamps: no BPF"), "{alone:?}");
    let asked = |name, set: &str| {
        let error = measure(&mut Hosts::new(), name, GridName::Reduced, &[set], Some(6));
        error.err().unwrap().to_string()
    };
    assert!(asked("echo-ledger", "stamps=all").contains("use one of probes, sockets"));
    assert!(asked("echo-size", "stamps=sockets").contains("a breakdown has it: echo-ledger"));
}

#[test]
fn stamps_missing_at_one_point_are_taken_from_others() {
    let lacks = Some("stamps inside the stack over TCP (a stream has no numbers)");
    let mut hosts = Hosts { lacks, ..Hosts::new() };
    let measured = measure(&mut hosts, "echo-ledger", GridName::Reduced, &[], Some(6)).unwrap();
    let (_, value) = finding(&measured, "greatest");
    assert_eq!(value, 20_000.0);
    let summary = measured.summary();
    assert_eq!(summary.experiments[0].tables[0].rows.len(), 9, "all but those inside");
    assert!(summary.warnings.iter().any(|words| words.contains("inside the stack over TCP")));
}

#[test]
fn a_device_without_stamps_says_so_and_nothing_is_missing() {
    let measured = measured(&mut Hosts { lacks: Some("stamps"), ..Hosts::new() });
    let summary = measured.summary();
    assert!(!summary.partial && summary.findings.is_empty());
    assert!(summary.warnings.iter().any(|words| words.contains("not supported: stamps")));
}

#[test]
fn the_largest_residue_is_the_end_of_the_interval() {
    let mut measured = measured(&mut Hosts::new());
    for sample in &mut measured.samples {
        let of_repeat = [0.001, 0.002, -0.03, 0.001, 0.0, 0.004][sample.repeat as usize];
        sample.metrics.get_mut("residue_ratio").into_iter().for_each(|it| it.value = of_repeat);
    }
    let (words, value) = finding(&measured, "residue");
    assert_eq!(value, 3.0);
    assert!(words.contains("within 3.0 %") && words.contains("vary"), "{words}");
}

#[test]
fn between_hosts_of_one_machine_there_is_no_hardware() {
    let reported = |is_one_machine| {
        let mut hosts = Hosts::new();
        hosts.about.is_one_machine = is_one_machine;
        let measured = measured(&mut hosts);
        let findings = ["greatest", "inside"].map(|id| finding(&measured, id).0);
        let tables = measured.summary().experiments.remove(0).tables;
        let ours = [("host", "known"), ("side", "client here")];
        (findings.join(" "), cell_at(&tables[1], &ours, "hardware, us"))
    };
    let (words, cell) = reported(false);
    assert!(
        words.contains("drivers, cards and cable.") && words.contains("A faster card"),
        "{words}"
    );
    assert_eq!(cell, "20.0");
    let (words, cell) = reported(true);
    assert!(words.contains("the kernel interrupts another core"), "{words}");
    for word in ["hardware", "wire", "cable", "faster card"] {
        assert!(!words.contains(word), "{word}: {words}");
    }
    assert_eq!(cell, "-");
}

#[test]
fn a_term_that_may_be_the_greatest_or_not_is_not_called_so() {
    let mut measured = measured(&mut Hosts::new());
    for sample in &mut measured.samples {
        // 20 us between the interfaces, 10 us of the server's receive path.
        let factor = [1.8, 2.2, 1.9, 2.1, 1.7, 2.3][sample.repeat as usize];
        let value = sample.metrics.get_mut("server_receive_ns");
        value.into_iter().for_each(|it| it.value *= factor);
    }
    let findings = measured.summary().findings;
    assert!(!findings.iter().any(|of| of.id == "known-echo-ledger-greatest"), "{findings:#?}");
}
