//! Devices with a known time per packet, and the findings from them.

use niclab_device::cases::{Case, Loaded};
use niclab_device::{
    DeviceError, DeviceInfo, Observation, PathNode, ProgramObservation, Setup, SetupReport, Task,
    Testbed, WorstCase,
};
use niclab_result::Outcome;

use super::spec::ProgramSweep;
use super::trials::programs;
use crate::simulated::cell_at;
use crate::spec::GridName;
use crate::validation::{MeasuredModel, measure, measure_beside};
use crate::values::Values;

/// A device that takes 20 ns for a packet, 3 ns for a header, 10 ns for a look-up and 1 ns more for
/// each time that its entries are 64 times as many, and half a nanosecond for an instruction; that
/// of a program that is used hangs on its name.
struct Card {
    about: DeviceInfo,
    /// So many times as long.
    factor: f64,
    /// What leaves is what it should be.
    is_right: bool,
    /// Packets of a pass that do not leave.
    lost: u64,
    /// Programs in the order in which they came.
    asked: Vec<(u32, Loaded)>,
    /// What it refuses.
    lacks: Option<Case>,
}

impl Card {
    fn new(name: &str, factor: f64) -> Card {
        let seat = PathNode { role: "device".into(), label: "a card".into(), core: None };
        let about = DeviceInfo {
            name: name.into(),
            programmed: vec![seat],
            program_load_ms: 1,
            ..DeviceInfo::default()
        };
        let asked = Vec::new();
        Card { about, factor, is_right: true, lost: 0, asked, lacks: None }
    }
}

fn known_ns(of: Loaded) -> f64 {
    let count = f64::from(of.count);
    match of.case {
        Case::Headers => 20.0 + 3.0 * count,
        Case::Exact | Case::Lpm | Case::Wildcard => {
            let larger = f64::from(of.entries).log(64.0);
            20.0 + count * (10.0 + larger)
        }
        Case::Moves | Case::Adds | Case::Checksums | Case::Registers => 20.0 + 0.5 * count,
        Case::RateLimiter => 200.0,
        Case::Router => 50.0,
        _ => 100.0,
    }
}

impl Testbed for Card {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        assert!(setup.rules.is_empty(), "a program needs no rules");
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let Task::Program(processing) = task else { return Err(task.not_supported()) };
        let of = processing.program;
        of.check().unwrap();
        self.asked.push((self.asked.len() as u32, of));
        if self.lacks == Some(of.case) {
            return Err(DeviceError::lacks(format!("program {}", of.case.name())));
        }
        let packets = 1_000;
        let stretch_ns = (self.factor * known_ns(of) * 1e2) as u64;
        // In the longest of three the machine took the core away.
        let stretches_ns = vec![stretch_ns, 100 * stretch_ns, stretch_ns];
        let digest = if self.is_right { "right" } else { "wrong" }.to_owned();
        let lookups = if of.case == Case::RateLimiter { 2 } else { 1 };
        let worst = WorstCase { instructions: 42, lookups, key_bits: 64, ..WorstCase::default() };
        let (lost, bytes) = (self.lost, 64 * packets);
        let stretch = 100;
        let observation =
            ProgramObservation { packets, lost, bytes, stretch, stretches_ns, digest, worst };
        Ok(Observation::Program(observation))
    }
}

fn measured(card: &mut Card, set: &[&str]) -> MeasuredModel {
    measure(card, "program-cost", GridName::Reduced, set, Some(6)).unwrap()
}

fn finding(measured: &MeasuredModel, id: &str) -> (String, f64) {
    let findings = measured.summary().findings;
    let found = findings.iter().find(|finding| finding.id == id);
    let found = found.unwrap_or_else(|| panic!("no {id} among {findings:#?}"));
    (format!("{} {}", found.sentence, found.implication), found.value.value)
}

fn near(value: f64, wanted: f64) -> bool {
    (value / wanted - 1.0).abs() < 1e-3
}

#[test]
fn the_costs_of_a_header_a_lookup_and_an_instruction_are_found() {
    let measured = measured(&mut Card::new("card", 1.0), &[]);
    let summary = measured.summary();
    assert!(!summary.partial && summary.warnings.is_empty(), "{:?}", summary.warnings);
    for table in &summary.experiments[0].tables {
        let heads = &table.columns;
        assert!(!heads.iter().any(|head| head.contains("'s time")), "of one device: {heads:?}");
        assert!(table.rows.iter().all(|row| row.len() == heads.len()), "{table:?}");
    }
    let (words, value) = finding(&measured, "card-header");
    assert!(near(value, 3.0), "{value}");
    assert!(words.contains("takes card 3.00 ns per packet, from 1 to 8"), "{words}");
    assert!(words.contains("one core has time for 22.4 of them"), "{words}");
    let (words, value) = finding(&measured, "card-lookup-exact-1024");
    assert!(near(value, 10.0 + 10.0 / 6.0), "{value}");
    assert!(
        words.contains("Each further look-up (exact among 1,024 entries) takes card"),
        "{words}"
    );
    let (words, value) = finding(&measured, "card-instruction-adds");
    assert!(near(value, 0.5), "{value}");
    assert!(
        words.contains("`adds` instruction takes card 0.500 ns per packet, from 4 to 64"),
        "{words}"
    );
    let (words, value) = finding(&measured, "card-entries-lpm");
    // 16,384 entries are 64^(14/6), 1,024 are 64^(10/6).
    let ratio = (30.0 + 14.0 / 6.0) / (30.0 + 10.0 / 6.0);
    assert!(near(1.0 + value / 100.0, ratio), "{value}");
    assert!(words.contains("takes card 2.1"), "{words}");
}

#[test]
fn the_dearest_program_and_line_rate_are_told_with_what_the_text_says() {
    let measured = measured(&mut Card::new("card", 1.0), &[]);
    let (words, value) = finding(&measured, "card-dearest");
    assert!(near(value, 200.0), "{value}");
    let start = "rate-limiter with 4,096 entries is the most expensive of 7 programs on card: 200 \
                 ns of a core per packet (at worst 42 instructions, 2 look-ups of";
    assert!(words.starts_with(start), "{words}");
    assert!(words.contains("The cheapest is router with 4,096 entries: 50.0 ns"), "{words}");
    assert!(words.ends_with("It has the most look-ups of all programs."), "{words}");
    let (words, value) = finding(&measured, "card-line-rate");
    assert!(near(value, 200.0 / 67.2), "{value}");
    assert!(words.contains("14.9 Mpps of 64 B, 67.2 ns each"), "{words}");
    assert!(
        words.contains(
            "Of 7 programs only router reaches the line rate of 10 Gbps on one core of card"
        ),
        "{words}"
    );
    let (words, value) = finding(&measured, "card-each");
    assert!(near(value, 200.0), "{value}");
    assert!(words.starts_with("Core time per packet on card: router 50.0 ns, "), "{words}");
    let end =
        ", rate-limiter 200 ns. One core has 67.2 ns per packet at 10 Gbps line rate of 64 B.";
    assert!(words.ends_with(end), "{words}");
    let (words, _) = finding(&self::measured(&mut Card::new("card", 2.0), &[]), "card-line-rate");
    assert!(
        words.starts_with("None of 7 programs reaches the line rate")
            && words.contains("The most expensive needs 5.95 cores"),
        "{words}"
    );
}

#[test]
fn one_program_alone_reaches_line_rate_or_does_not() {
    let words = |factor| {
        let mut card = Card::new("card", factor);
        finding(&self::measured(&mut card, &["program=router"]), "card-line-rate").0
    };
    let [fast, slow] = [1.0, 2.0].map(words);
    assert!(fast.starts_with("router reaches the line rate of 10 Gbps"), "{fast}");
    assert!(fast.contains("It needs 0.744 cores, if"), "{fast}");
    assert!(slow.starts_with("router does not reach the line rate of 10 Gbps"), "{slow}");
    assert!(slow.contains("It needs 1.49 cores, if"), "{slow}");
}

#[test]
fn from_few_repeats_nothing_follows() {
    let set = ["program=lpm", "entries=1k,4k,16k"];
    let few =
        measure(&mut Card::new("card", 1.0), "program-cost", GridName::Reduced, &set, Some(3));
    let (words, _) = finding(&few.unwrap(), "card-entries-lpm");
    let end = "one among 1,000 entries (3 repeats only). A conclusion needs at least 6 repeats: \
               fewer give no interval.";
    assert!(words.ends_with(end), "{words}");
    let (words, _) = finding(&measured(&mut Card::new("card", 1.0), &set), "card-entries-lpm");
    assert!(
        words.ends_with("one among 1,000 entries. The table size costs a packet almost nothing."),
        "{words}"
    );
}

#[test]
fn two_devices_are_compared_program_by_program_in_turn() {
    let (mut ours, mut theirs) = (Card::new("ours", 1.0), Card::new("theirs", 2.0));
    theirs.lacks = Some(Case::Acl);
    let beds: Vec<&mut dyn Testbed> = vec![&mut ours, &mut theirs];
    let measured = measure_beside(beds, "program-cost", GridName::Reduced, &[], Some(6)).unwrap();
    let (words, value) = finding(&measured, "ours-beside-theirs");
    assert!(near(value, 50.0), "{value}");
    let all = measured.run.experiments[0].trials.len();
    let start =
        format!("ours needs less time per packet than theirs in {0} of {0} programs", all - 1);
    assert!(words.starts_with(&start), "{words}");
    let summary = measured.summary();
    let table = &summary.experiments[0].tables[0];
    let at = |device, program| {
        cell_at(table, &[("device", device), ("program", program)], "of ours's time")
    };
    assert_eq!(at("theirs", "router"), "2.00 (2.00 to 2.00)");
    assert_eq!(at("ours", "router"), "-", "nothing is compared with itself");
    let lack = "theirs: program-cost: not supported: program acl.";
    assert!(summary.warnings.iter().any(|words| words == lack), "{:?}", summary.warnings);
    // One behind the other, so that both meet the machine in the same mood.
    let samples: Vec<_> =
        measured.samples.iter().filter(|of| of.point["program"].to_string() != "acl").collect();
    for pair in samples.chunks(2) {
        assert_eq!((&pair[0].point, pair[0].repeat), (&pair[1].point, pair[1].repeat));
        assert_ne!(pair[0].device, pair[1].device);
    }
    assert_eq!(theirs.asked.iter().filter(|(_, of)| of.case == Case::Acl).count(), 1, "told once");
}

#[test]
fn devices_that_send_other_packets_are_not_comparable() {
    let (mut ours, mut theirs) = (Card::new("ours", 1.0), Card::new("theirs", 2.0));
    theirs.is_right = false;
    let beds: Vec<&mut dyn Testbed> = vec![&mut ours, &mut theirs];
    let set = ["program=router"];
    let measured = measure_beside(beds, "program-cost", GridName::Reduced, &set, Some(6)).unwrap();
    let warnings = measured.summary().warnings;
    let words = "ours and theirs do not send the same packets in ";
    assert!(warnings.iter().any(|warning| warning.contains(words)), "{warnings:?}");
    let ids: Vec<String> = measured.summary().findings.into_iter().map(|found| found.id).collect();
    assert!(!ids.contains(&"ours-beside-theirs".to_owned()), "{ids:?}");
}

#[test]
fn packets_that_are_lost_on_the_way_speak_for_nothing() {
    let mut card = Card::new("card", 1.0);
    card.lost = 1;
    let measured = measured(&mut card, &["program=headers"]);
    let is_failed = |sample: &niclab_result::Sample| {
        matches!(&sample.outcome, Outcome::Failed { reason, .. }
            if reason == "1 of 1000 packets did not come through the program")
    };
    assert!(!measured.samples.is_empty() && measured.samples.iter().all(is_failed));
    assert!(measured.summary().findings.is_empty());
}

#[test]
fn a_device_without_programs_is_reported_once() {
    let mut card = Card::new("card", 1.0);
    card.about.programmed.clear();
    let measured = measured(&mut card, &[]);
    assert!(card.asked.is_empty());
    let lack = Outcome::NotSupported { capability: "programs".into() };
    assert!(measured.samples.iter().map(|sample| &sample.outcome).eq([&lack]));
    let summary = measured.summary();
    assert!(summary.warnings.is_empty() && !summary.partial, "{:?}", summary.warnings);
    assert!(summary.experiments[0].figures.is_empty());
}

#[test]
fn a_device_that_has_programs_alone_is_offered_no_frame() {
    let mut card = Card::new("card", 1.0);
    card.about.not_supported = ["rules", "queues", "frames"].map(String::from).into();
    for experiment in ["hash-skew", "frame-size", "occupancy"] {
        let measured = measure(&mut card, experiment, GridName::Reduced, &[], Some(1)).unwrap();
        let is_lack =
            |sample: &niclab_result::Sample| matches!(sample.outcome, Outcome::NotSupported { .. });
        assert_eq!(measured.samples.len(), 1, "{experiment}: {:?}", measured.samples);
        assert!(measured.samples.iter().all(is_lack));
        let summary = measured.summary();
        assert!(!summary.partial && summary.experiments[0].testbeds.is_empty(), "{experiment}");
    }
}

#[test]
fn numbers_that_do_not_go_together_are_left_out() {
    let of = |program: &str, count: &str, entries: &str| {
        let [program, count, entries] =
            [program, count, entries].map(|text| Values::parse(text).unwrap());
        programs(&ProgramSweep { program, count, entries })
            .map(|all| all.iter().map(|of| (of.case, of.count, of.entries)).collect::<Vec<_>>())
    };
    assert_eq!(
        of("router,headers,acl", "1,8,64", "64,65536").unwrap(),
        [
            (Case::Router, 1, 64),
            (Case::Router, 1, 65_536),
            (Case::Headers, 1, 0),
            (Case::Headers, 8, 0),
            (Case::Acl, 1, 64),
        ],
        "one router, no entries of headers, as many as that of no list of rules"
    );
    assert_eq!(of("acl", "1", "8k").unwrap(), [], "another sweep may have some");
    let nothing = |set: &str| {
        let mut card = Card::new("card", 1.0);
        let measured = measure(&mut card, "program-cost", GridName::Published, &[set], None);
        measured.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let words = "entries = 70000: router has 1 to 65536";
    assert!(nothing("entries=70k").contains(words), "{}", nothing("entries=70k"));
    let refused = |program, count, entries| of(program, count, entries).unwrap_err().to_string();
    assert!(refused("acls", "1", "1").contains("program = acls: use one of l2-switch, "));
    assert!(refused("headers", "65", "0").contains("count = 65: use 1 to 64"));
}

#[test]
fn numbers_that_were_asked_for_and_are_left_out_are_told() {
    let reported = |set: &[&str]| {
        let measured = measured(&mut Card::new("card", 1.0), set);
        measured.run.experiments[0].left_out.clone()
    };
    let set = ["program=exact,lpm,moves,router", "count=1,20,64", "entries=64,70k"];
    assert_eq!(
        reported(&set),
        [
            "count=20 is left out of exact, which has 1 to 8",
            "count=64 is left out of exact, which has 1 to 8",
            "count=20 is left out of lpm, which has 1 to 8",
            "count=64 is left out of lpm, which has 1 to 8",
            "entries=70000 is left out of router, which has 1 to 65536",
        ],
        "there is but one router, and none has entries of moves: that goes without saying"
    );
    assert_eq!(reported(&["program=acl,router"]), Vec::<String>::new(), "the file's own numbers");
}

/// What a finding says, where the time of a packet among `entries` entries is these multiples of
/// what it is, repeat by repeat; `None` where there is none.
fn said_with(entries: &str, factors: [f64; 6], id: &str) -> Option<String> {
    let set = ["program=lpm", "entries=1k,16k", "count=1"];
    let mut measured = measured(&mut Card::new("card", 1.0), &set);
    let is_of =
        |sample: &&mut niclab_result::Sample| sample.point["entries"].to_string() == entries;
    for sample in measured.samples.iter_mut().filter(is_of) {
        let value = sample.metrics.get_mut("packet_ns");
        value.into_iter().for_each(|it| it.value *= factors[sample.repeat as usize]);
    }
    let findings = measured.summary().findings;
    let found = findings.into_iter().find(|finding| finding.id == id)?;
    Some(format!("{} {}", found.sentence, found.implication))
}

#[test]
fn more_entries_cost_as_the_interval_shows_and_are_no_finding_where_it_shows_nothing() {
    let of = |factors| said_with("16000", factors, "card-entries-lpm");
    assert_eq!(of([0.58, 2.01, 1.2, 0.9, 1.1, 1.4]), None);
    let none = of([1.0, 1.01, 0.97, 0.95, 1.02, 0.99]).unwrap();
    assert!(none.contains(" times as long as one among"), "{none}");
    assert!(none.ends_with("The table size costs a packet almost nothing."), "{none}");
    let more = of([1.3, 1.4, 1.35, 1.3, 1.32, 1.4]).unwrap();
    assert!(
        more.contains(" % longer than one among ") && more.contains("look-ups wait for memory"),
        "{more}"
    );
}

#[test]
fn a_program_that_may_be_the_dearest_or_not_is_not_called_so() {
    let ids = |factors: [f64; 6]| {
        let set = ["program=router,acl", "count=1"];
        let mut measured = measured(&mut Card::new("card", 1.0), &set);
        let is_of =
            |sample: &&mut niclab_result::Sample| sample.point["program"].to_string() == "router";
        for sample in measured.samples.iter_mut().filter(is_of) {
            let value = sample.metrics.get_mut("packet_ns");
            value.into_iter().for_each(|it| it.value *= factors[sample.repeat as usize]);
        }
        let findings = measured.summary().findings;
        findings.into_iter().map(|found| found.id).collect::<Vec<String>>()
    };
    let has_dearest = |factors| ids(factors).contains(&"card-dearest".to_owned());
    assert!(has_dearest([1.0; 6]));
    assert!(!has_dearest([1.5, 2.5, 1.8, 2.2, 1.9, 2.1]), "of 100 ns, 75 to 125 ns");
}
