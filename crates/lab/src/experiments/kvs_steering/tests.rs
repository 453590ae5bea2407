//! Devices with a known time per request, and the findings from them.

use std::collections::{BTreeMap, BTreeSet};

use niclab_device::soft::kvs::{Build, KeyPopularity};
use niclab_device::{
    BusTraffic, DeviceError, DeviceInfo, Observation, PathNode, Serving, Setup, SetupReport,
    StepTime, StoreObservation, Task, Testbed,
};
use niclab_result::{Origin, Outcome, Sample};

use super::spec::ServingSweep;
use super::trials::{Mode, places};
use crate::simulated::cell_at;
use crate::spec::GridName;
use crate::validation::{MeasuredModel, measure};
use crate::values::Values;

/// A device on which a request takes 200 ns of a core, and with `rss` on several cores `shared_ns`
/// more, of them 30 ns of a look-up and the rest of carrying it out; of Zipf's keys twice that.
/// What the card does takes 20 ns by RSS and `card_ns` by a program.
struct Store {
    about: DeviceInfo,
    shared_ns: f64,
    card_ns: f64,
    wrong: u64,
    /// Every second trial takes twice as long.
    is_moody: bool,
    /// Every second pair of trials does.
    is_in_turns: bool,
    /// The machine takes cores away.
    is_disturbed: bool,
    /// What the answer takes; with a card that writes items it is part of carrying out.
    reply_ns: f64,
    /// The longest step is timed with what makes it longer.
    is_seen: bool,
    /// Bytes that the card writes where requests are steered.
    dma_bytes: f64,
    /// What headers, a look-up and carrying it out take more where requests are steered.
    steered_ns: [f64; 3],
    cores: u16,
    asked: Vec<Serving>,
}

impl Store {
    fn new() -> Store {
        let seat = PathNode { role: "function".into(), label: "a store".into(), core: None };
        let about = DeviceInfo { name: "box".into(), serving: vec![seat], ..DeviceInfo::default() };
        let (shared_ns, card_ns, wrong, is_moody) = (100.0, 150.0, 0, false);
        let (is_seen, dma_bytes, steered_ns) = (true, 0.0, [0.0; 3]);
        let (cores, asked) = (2, Vec::new());
        Store {
            about,
            shared_ns,
            card_ns,
            wrong,
            is_moody,
            is_in_turns: false,
            is_disturbed: false,
            reply_ns: 20.0,
            is_seen,
            dma_bytes,
            steered_ns,
            cores,
            asked,
        }
    }

    fn more_ns(&self, serving: &Serving) -> f64 {
        let is_shared = matches!(serving.build, Build::Rss { .. }) && serving.cores > 1;
        let times = if serving.asked.keys == KeyPopularity::Zipf { 2.0 } else { 1.0 };
        if is_shared { times * self.shared_ns } else { 0.0 }
    }
}

impl Testbed for Store {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        assert!(setup.rules.is_empty(), "a store needs no rules");
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let Task::Store(serving) = task else { return Err(task.not_supported()) };
        if serving.cores > self.cores {
            let capability = format!("{} cores: there are {}", serving.cores, self.cores);
            return Err(DeviceError::lacks(capability));
        }
        self.asked.push(serving.clone());
        let is_slow = self.is_moody && self.asked.len().is_multiple_of(3);
        let is_slow = is_slow || self.is_in_turns && (self.asked.len() - 1) / 2 % 2 == 1;
        let mood = if is_slow { 2.0 } else { 1.0 };
        let (more_ns, cores) = (self.more_ns(serving), u64::from(serving.cores));
        let step = |name: &str, request_ns: f64| StepTime { name: name.into(), request_ns };
        let lookup_ns = (30.0_f64).min(more_ns);
        let carried_ns = if self.is_seen { more_ns - lookup_ns } else { 0.0 };
        let worked_ns = (mood * 1e3 * (200.0 + more_ns)) as u64;
        let is_steered = serving.build == Build::Steer;
        let has_dma = serving.build == Build::Dma;
        let more = if is_steered { self.steered_ns } else { [0.0; 3] };
        Ok(Observation::Store(StoreObservation {
            requests: 1_200,
            timed: 1_000,
            cores: vec![1_200 / cores; serving.cores.into()],
            wrong: self.wrong,
            passes_ns: vec![worked_ns / cores, 9 * worked_ns, worked_ns / cores],
            worked_ns: vec![worked_ns, 9 * worked_ns, worked_ns],
            is_disturbed: self.is_disturbed,
            steps: vec![
                step("receive", mood * (60.0 + more[0])),
                step("look_up", mood * (30.0 + lookup_ns + more[1])),
                step(
                    "carry_out",
                    mood * (90.0
                        + carried_ns
                        + more[2]
                        + if has_dma { self.reply_ns } else { 0.0 }),
                ),
                step("reply", if has_dma { 0.0 } else { mood * self.reply_ns }),
            ],
            card_ns: if is_steered { self.card_ns } else { 20.0 },
            crossed: BusTraffic {
                frames: 1.0,
                frame_bytes: 113.2,
                answers: 1.0,
                answer_bytes: 135.2,
                dma_writes: if is_steered && self.dma_bytes > 0.0 { 1.0 } else { 0.0 },
                dma_bytes: if is_steered { self.dma_bytes } else { 0.0 },
            },
        }))
    }
}

fn measured(store: &mut Store, set: &[&str]) -> MeasuredModel {
    let set = [&["mode=rss,steer"], set].concat();
    measure(store, "kvs-steering", GridName::Reduced, &set, Some(6)).unwrap()
}

fn finding(measured: &MeasuredModel, id: &str) -> (String, f64) {
    let findings = measured.summary().findings;
    let found = findings.iter().find(|finding| finding.id == id);
    let found = found.unwrap_or_else(|| panic!("no {id} among {findings:#?}"));
    (format!("{} {}", found.sentence, found.implication), found.value.value)
}

fn ids(measured: &MeasuredModel) -> BTreeSet<String> {
    measured.summary().findings.into_iter().map(|found| found.id).collect()
}

fn near(value: f64, wanted: f64) -> bool {
    (value / wanted - 1.0).abs() < 1e-3
}

#[test]
fn the_gain_of_card_help_and_its_cause_are_found() {
    let measured = measured(&mut Store::new(), &[]);
    let summary = measured.summary();
    assert!(!summary.partial && summary.warnings.is_empty(), "{:?}", summary.warnings);
    let (words, value) = finding(&measured, "box-kvs-steer-throughput");
    assert!(near(value, 1.5), "{value}");
    let start = "box answers 10.0 M/s on 2 cores when the card steers requests by key: 1.50 times \
                 the 6.67 M/s with RSS (median of pairs), staged, with the study's workload; the \
                 study states 1.30 to 1.45 times, on six cores.";
    assert!(words.starts_with(start), "{words}");
    let memory = "Most of the time saved is memory: items and buckets are fetched from the core \
                  that wrote them last (100 ns).";
    assert!(words.ends_with(memory), "{words}");
    let (words, value) = finding(&measured, "box-kvs-steer-time");
    assert!(near(value, 100.0 / 3.0), "{value}");
    let less = "A request takes 200 ns of core time with steer instead of 300 ns with rss on 2 \
                cores of box: 33.3 % less (median of pairs); ";
    assert!(words.contains(less), "{words}");
    assert!(!words.contains("Only a hint"), "{words}");
    assert!(words.contains("states 310 ns instead of 510 ns, 39.2 % less"), "{words}");
    assert!(words.ends_with("Shorter steps: carry out, copy 70.0 ns; look-up 30.0 ns."), "{words}");
    let (words, value) = finding(&measured, "box-kvs-steer-workloads");
    assert!(near(value, 2.0), "{value}");
    let most = "steer gains most with Zipf, otherwise the study's: 2.00 times the throughput with \
                rss on 2 cores of box. It gains least with";
    assert!(words.contains(most), "{words}");
}

#[test]
fn every_ratio_says_of_what_it_is() {
    let measured = measured(&mut Store::new(), &[]);
    let summary = measured.summary();
    let unit = |id: &str| {
        let found = summary.findings.iter().find(|found| found.id == format!("box-kvs-steer-{id}"));
        found.unwrap().value.unit.clone()
    };
    assert_eq!(unit("throughput"), "1");
    assert_eq!(unit("workloads"), "1");
    assert_eq!(unit("time"), "% less");
    let tables = &summary.experiments[0].tables;
    let served = tables.iter().find(|table| table.id == "kvs-steering-served").unwrap();
    let place = [("workload", "the study's"), ("cores", "2"), ("mode", "steer")];
    let at = |head: &str| cell_at(served, &place, head);
    assert_eq!(at("answered, against rss"), "1.50 times rss (1.50 to 1.50)");
    assert_eq!(at("core time, against rss"), "0.667 of rss's time (0.667 to 0.667)");
    assert_eq!(at("busiest core's requests"), "1.00 times the mean (1.00 to 1.00)");
}

#[test]
fn a_card_that_writes_items_stands_beside_the_studys() {
    let set = ["mode=rss,dma", "keys=uniform", "cores=2"];
    let mut store = Store::new();
    let measured = measure(&mut store, "kvs-steering", GridName::Reduced, &set, Some(6)).unwrap();
    let (words, value) = finding(&measured, "box-kvs-dma-time");
    assert!(near(value, 100.0 / 3.0), "{value}");
    assert!(words.contains("states 200 ns instead of 510 ns, 60.8 % less"), "{words}");
    let (words, _) = finding(&measured, "box-kvs-dma-throughput");
    assert!(words.contains("when the card writes items and passes requests to cores"), "{words}");
    assert!(!words.contains("the study states"), "it states none of this: {words}");
    assert!(store.asked.iter().any(|of| of.build == Build::Dma));
}

#[test]
fn work_of_the_card_is_compared_with_its_savings() {
    let of = |card_ns| {
        let mut store = Store::new();
        store.card_ns = card_ns;
        finding(&measured(&mut store, &["keys=uniform", "cores=2"]), "box-kvs-steer-card")
    };
    let (words, value) = of(150.0);
    assert!(near(value, 130.0), "{value}");
    let both = "a core of box 130 ns more with steer than with RSS; the application's core saves \
                100 ns, and application and card together take 30.0 ns more (each a median over \
                pairs of repeats).";
    assert!(words.contains(both), "{words}");
    assert!(words.contains("costs more than it saves"), "{words}");
    assert!(of(100.0).0.contains("This pays even when a core"), "{}", of(100.0).0);
    let mut store = Store::new();
    store.card_ns = 20.0;
    assert!(!ids(&measured(&mut store, &[])).contains("box-kvs-steer-card"), "nothing more");
}

#[test]
fn the_cause_is_the_steps_that_are_shorter() {
    let mut store = Store::new();
    store.shared_ns = 0.0;
    let without = measured(&mut store, &[]);
    let all = ids(&without);
    for id in ["throughput", "time", "workloads"] {
        assert!(!all.contains(&format!("box-kvs-steer-{id}")), "{all:?}");
    }
    let (words, _) = finding(&without, "box-kvs-steer-bus");
    assert!(words.ends_with("This mode does not change the bus load."), "{words}");
    let mut store = Store::new();
    store.shared_ns = -50.0;
    let (words, value) = finding(&measured(&mut store, &[]), "box-kvs-steer-throughput");
    assert!(near(value, 0.75), "{value}");
    assert!(words.contains("This costs more than it saves here"), "{words}");
}

#[test]
fn causes_and_steps_are_told_by_the_same_differences() {
    let reported = |change: fn(&mut Store)| {
        let mut store = Store::new();
        change(&mut store);
        let measured = measured(&mut store, &["keys=uniform", "cores=2"]);
        ["throughput", "time"].map(|id| finding(&measured, &format!("box-kvs-steer-{id}")).0)
    };
    // Of 100 ns that are saved the steps show 30.
    let [why, steps] = reported(|store| store.is_seen = false);
    let part = "The time saved, with no single main cause: memory: items and buckets are fetched \
                from the core that wrote them last (30.0 ns).";
    assert!(why.ends_with(part), "{why}");
    assert!(steps.ends_with("Shorter steps: look-up 30.0 ns."), "{steps}");
    // Steps of which none is shorter: neither of the two knows more than the other.
    let [why, steps] = reported(|store| store.steered_ns = [0.0, 30.0, 70.0]);
    for words in [why, steps] {
        assert!(words.ends_with("The repeats do not show which step saves time."), "{words}");
    }
    // Longer steps are reported as well.
    let [why, steps] = reported(|store| store.steered_ns = [-20.0, 30.0, 70.0]);
    assert!(
        why.contains("work that the card has already done on headers, requests or keys (20.0 ns)"),
        "{why}"
    );
    assert!(steps.ends_with("Shorter steps: receive, check 20.0 ns."), "{steps}");
    let [_, steps] = reported(|store| store.steered_ns = [15.0, 0.0, 0.0]);
    let both = "carry out, copy 70.0 ns; look-up 30.0 ns. Longer steps: receive, check 15.0 ns.";
    assert!(steps.ends_with(both), "{steps}");
}

#[test]
fn the_spread_of_repeats_is_in_the_sentence_and_the_warnings() {
    let place = ["keys=uniform", "count=100k", "gets=90", "cores=2"];
    let mut store = Store::new();
    store.is_in_turns = true;
    let in_turns = measured(&mut store, &place);
    let hint = "Only a hint: the point with steer is marked bimodal, the point with rss is marked \
                bimodal. ";
    for id in ["throughput", "time", "card"] {
        let (words, _) = finding(&in_turns, &format!("box-kvs-steer-{id}"));
        assert!(words.contains(hint), "{words}");
    }
    let (words, _) = finding(&in_turns, "box-kvs-steer-bus");
    assert!(words.contains("Only a hint: the point with steer is marked bimodal"), "{words}");
    let warnings = in_turns.summary().warnings;
    assert!(warnings.iter().any(|of| of.contains("2 of 2 store points have repeats in two")));
    let mut store = Store::new();
    store.is_disturbed = true;
    let disturbed = measured(&mut store, &[]);
    let (words, _) = finding(&disturbed, "box-kvs-steer-time");
    assert!(words.contains("the point with steer is marked disturbed"), "{words}");
    let (words, _) = finding(&disturbed, "box-kvs-steer-workloads");
    assert!(
        words.contains("the point with Zipf, otherwise the study's, rss is marked disturbed"),
        "{words}"
    );
    let warnings = disturbed.summary().warnings;
    let warned = |what: &str| warnings.iter().any(|of| of.contains(what));
    assert!(warned("Do not trust the answered requests and the time per request"), "{warnings:?}");
    assert!(!warned("latency") && !warned("loss"), "a store has none: {warnings:?}");
}

#[test]
fn an_answer_is_compared_with_the_step_that_writes_it() {
    let set = ["mode=rss,dma", "keys=uniform", "cores=2"];
    let mut store = Store::new();
    let measured = measure(&mut store, "kvs-steering", GridName::Reduced, &set, Some(6)).unwrap();
    let (words, _) = finding(&measured, "box-kvs-dma-time");
    let steps = "Shorter steps: carry out, copy and reply 70.0 ns; look-up 30.0 ns.";
    assert!(words.ends_with(steps), "{words}");
    let (words, _) = finding(&measured, "box-kvs-dma-throughput");
    assert!(
        words.contains("copying items and answering") && words.ends_with("(70.0 ns)."),
        "{words}"
    );
    let summary = measured.summary();
    let tables = &summary.experiments[0].tables;
    let table = tables.iter().find(|table| table.id == "kvs-steering-steps").unwrap();
    let reply = |mode| cell_at(table, &[("mode", mode)], "reply");
    assert_eq!(["rss", "dma"].map(reply), ["20.0 ns", "in carry out, copy"]);
    let figures = &summary.experiments[0].figures;
    let figure = figures.iter().find(|figure| figure.id == "kvs-steering-steps").unwrap();
    let has_reply = |mode: &str| {
        let series = figure.series.iter().find(|of| of.name == format!("box, {mode}")).unwrap();
        series.points.iter().any(|of| of.x_word == "reply")
    };
    assert_eq!(["rss", "dma"].map(has_reply), [true, false]);
}

#[test]
fn an_effect_that_repeats_do_not_confirm_is_no_finding() {
    let mut store = Store::new();
    store.shared_ns = 5.0;
    store.is_moody = true;
    let all = ids(&measured(&mut store, &["keys=uniform", "count=100k", "gets=90", "cores=2"]));
    assert!(!all.contains("box-kvs-steer-throughput"), "{all:?}");
    assert!(!all.contains("box-kvs-steer-time"), "{all:?}");
}

#[test]
fn the_bus_and_the_cores_beyond_are_computed_and_say_so() {
    let measured = measured(&mut Store::new(), &[]);
    let summary = measured.summary();
    let figure = |id: &str| {
        let found = summary.experiments[0].figures.iter().find(|figure| figure.id == id);
        found.unwrap_or_else(|| panic!("no {id}"))
    };
    let cores = figure("kvs-steering-cores-box");
    let curve = |name: &str| {
        let found = cores.series.iter().find(|series| series.name == name);
        let points = found.unwrap_or_else(|| panic!("no {name}: {:?}", cores.series));
        (points.origin, points.points.iter().map(|of| (of.x, of.y)).collect::<Vec<_>>())
    };
    let (origin, points) = curve("box, rss, modelled");
    assert_eq!(origin, Origin::Computed);
    assert_eq!(points.iter().map(|(x, _)| *x).collect::<Vec<_>>(), [2.0, 4.0, 8.0, 16.0]);
    // Of 2 cores half of the items were another core's, of 16 all but one in 16.
    assert!(near(points[0].1, 2e3 / 300.0) && near(points[3].1, 16e3 / 387.5), "{points:?}");
    let (_, points) = curve("box, steer, modelled");
    assert!(near(points[3].1, 16e3 / 200.0), "{points:?}");
    let (origin, points) = curve("PCIe 2.0 x8, rss and steer");
    // From the host: an answer, a quarter of a line of descriptors of each kind.
    let carried = 32e9 / 8.0 / (135.2 + 32.0 + 1.5 * 24.0) / 1e6;
    assert!(origin == Origin::Computed && near(points[0].1, carried), "{points:?}");
    // An answer, its FCS, preamble and gap, 10 Gbps each.
    let (_, points) = curve("2 ports of 10 Gbps");
    let ports = 2.0 * 10e9 / 8.0 / (135.2 + 24.0) / 1e6;
    assert!(near(points[0].1, ports), "{points:?}");
    let (words, value) = finding(&measured, "box-kvs-steer-bus");
    assert!(near(value, ports * 0.2), "{value}");
    let first = "2 ports of 10 Gbps would be the first limit with steer, from 3.14 cores of box \
                 (rss: from 4.71). PCIe 2.0 x8 would follow at 3.94 (computed). The study";
    assert!(words.starts_with(first), "{words}");
    assert!(
        words.contains("so use faster ports first. This mode does not change the bus load"),
        "{words}"
    );
    let request = figure("kvs-steering-request");
    let study = request.series.iter().filter(|series| series.origin == Origin::Published);
    let stated: Vec<_> = study.map(|of| (of.name.as_str(), of.points[0].y)).collect();
    let [rss, steer, dma] = ["rss", "steer", "dma"].map(|of| format!("FlexNIC, {of} (published)"));
    assert_eq!(stated, [(rss.as_str(), 510.0), (&steer, 310.0), (&dma, 200.0)]);
    let gain = figure("kvs-steering-gain");
    let stated = gain.series.iter().filter(|series| series.origin == Origin::Published);
    let stated: Vec<f64> = stated.flat_map(|series| &series.points).map(|of| of.y).collect();
    assert!(near(stated[0], 1.3) && near(stated[1], 1.45) && stated.len() == 2, "{stated:?}");
    let table = &summary.experiments[0].tables[0];
    let here = |what: &str| cell_at(table, &[("what", what)], "here");
    assert_eq!(here("latency of a request"), "not supported: latency of staged passes");
    assert_eq!(here("throughput with steer"), "1.50 times that with rss (1.50 to 1.50)");
    // 6 cores: (200 + 200 * 5 / 6) / 200.
    assert_eq!(here("throughput with steer on 6 cores, modelled"), "1.83 times that with rss");
    assert_eq!(here("cores at which 2 ports of 10 Gbps become the limit, steer, computed"), "3.14");
    assert_eq!(here("cores at which PCIe 2.0 x8 becomes the limit, steer, computed"), "3.94");
}

#[test]
fn a_mode_has_one_hue_in_all_figures_and_its_model_too() {
    let measured = measured(&mut Store::new(), &[]);
    let mut hues: BTreeMap<&str, BTreeSet<Option<u32>>> = BTreeMap::new();
    let summary = measured.summary();
    for series in summary.experiments[0].figures.iter().flat_map(|figure| &figure.series) {
        for mode in ["rss", "steer"] {
            let is_of = series.name == format!("box, {mode}")
                || series.name == format!("box, {mode}, modelled");
            if is_of {
                hues.entry(mode).or_default().insert(series.hue);
            }
        }
    }
    let wanted = [("rss", BTreeSet::from([Some(0)])), ("steer", BTreeSet::from([Some(1)]))];
    assert_eq!(hues, BTreeMap::from(wanted));
}

#[test]
fn the_bus_is_named_first_if_it_is_full_before_the_wire() {
    let mut store = Store::new();
    store.dma_bytes = 400.0;
    let measured = measured(&mut store, &["keys=uniform", "cores=2"]);
    let (words, _) = finding(&measured, "box-kvs-steer-bus");
    assert!(
        words.starts_with("PCIe 2.0 x8 would be the first limit with steer, from 1."),
        "{words}"
    );
    assert!(words.contains("the bus is full before the wire. This mode loads"), "{words}");
}

#[test]
fn modes_of_a_place_are_measured_one_behind_the_other() {
    let mut store = Store::new();
    measured(&mut store, &[]);
    for pair in store.asked.chunks(2) {
        let place = |of: &Serving| (of.asked, of.cores, of.burst);
        assert_eq!(place(&pair[0]), place(&pair[1]));
        assert_ne!(pair[0].build, pair[1].build);
    }
    let firsts = store.asked.chunks(2).filter(|pair| pair[0].build == Build::Steer).count();
    assert!(firsts > 0 && firsts < store.asked.len() / 2, "in random order: {firsts}");
    let two = store.asked.iter().filter(|of| of.cores == 2 && of.build != Build::Steer);
    assert!(
        two.clone().count() > 0
            && two.into_iter().all(|of| of.build == Build::Rss { partitions: 4 })
    );
}

#[test]
fn wrong_answers_invalidate_a_trial() {
    let mut store = Store::new();
    store.wrong = 1;
    let measured = measured(&mut store, &[]);
    let is_failed = |sample: &Sample| {
        matches!(&sample.outcome, Outcome::Failed { reason, .. }
            if reason == "1 of 1200 requests were not answered right")
    };
    assert!(!measured.samples.is_empty() && measured.samples.iter().all(is_failed));
    assert!(measured.summary().findings.is_empty());
}

#[test]
fn a_device_without_a_store_is_reported_once_and_missing_cores_are_no_failure() {
    let mut store = Store::new();
    store.about.serving.clear();
    let measured = measured(&mut store, &[]);
    assert!(store.asked.is_empty());
    let lack = Outcome::NotSupported { capability: "key-value store".into() };
    assert!(measured.samples.iter().map(|sample| &sample.outcome).eq([&lack]));
    let summary = measured.summary();
    assert!(summary.warnings.is_empty() && !summary.partial, "{:?}", summary.warnings);
    assert!(summary.experiments[0].figures.is_empty());
    let mut store = Store::new();
    store.cores = 1;
    let summary = self::measured(&mut store, &[]).summary();
    let lack = "box: kvs-steering: not supported: 2 cores: there are 1.";
    assert!(!summary.partial && summary.warnings == [lack], "{:?}", summary.warnings);
}

#[test]
fn a_sweep_out_of_range_is_refused_with_what_would_be_right() {
    let sweep = |change: fn(&mut ServingSweep)| {
        let values = |text: &str| Values::parse(text).unwrap();
        let mut sweep = ServingSweep {
            mode: values("rss,steer"),
            keys: values("uniform"),
            count: values("100k"),
            gets: values("90"),
            cores: values("1,2"),
            burst: values("64"),
        };
        change(&mut sweep);
        places(&sweep)
    };
    let all = sweep(|_| ()).unwrap();
    let reported: Vec<_> = all.iter().map(|of| (of.mode, of.cores)).collect();
    assert_eq!(reported, [(Mode::Rss, 1), (Mode::Steer, 1), (Mode::Rss, 2), (Mode::Steer, 2)]);
    let refused = |change: fn(&mut ServingSweep)| sweep(change).unwrap_err().to_string();
    let mode = refused(|of| of.mode = Values::parse("kernel").unwrap());
    assert!(mode.contains("mode = kernel: use one of rss, steer, dma"), "{mode}");
    let keys = refused(|of| of.keys = Values::parse("pareto").unwrap());
    assert!(keys.contains("keys = pareto: use one of uniform, zipf"), "{keys}");
    let count = refused(|of| of.count = Values::parse("2000000").unwrap());
    assert!(count.contains("count = 2000000: use 1 to 1000000"), "{count}");
    let gets = refused(|of| of.gets = Values::parse("101").unwrap());
    assert!(gets.contains("gets = 101: use 0 to 100"), "{gets}");
    let burst = refused(|of| of.burst = Values::parse("65").unwrap());
    assert!(burst.contains("burst = 65: use 1 to 64"), "{burst}");
    let cores = refused(|of| of.cores = Values::parse("0").unwrap());
    assert!(cores.contains("cores = 0: use 1 to 64"), "{cores}");
}
