//! Simulated fleets whose outliers are known.

use niclab_result::fleet::FleetDocument;
use niclab_result::rows::MetricRow;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal, StudentT};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

/// What is measured of each host: experiment, trial, metric, typical value and points.
const FIGURES: [(&str, &str, &str, f64, usize); 5] = [
    ("occupancy", "saturate", "throughput_pps", 2e7, 4),
    ("occupancy", "latency", "latency_ns_p50", 8e3, 2),
    ("occupancy", "latency", "latency_ns_p99", 2e4, 2),
    ("rule-rate", "insert", "operations_per_s", 3e5, 1),
    ("hash-skew", "rss", "full_queue_pps", 1e7, 3),
];

/// A simulated fleet.
struct Fleet {
    seed: u64,
    hosts: usize,
    /// Standard deviation between hosts, in all figures together and in each.
    between: f64,
    /// Degrees of freedom of Student's t between hosts; infinite for a normal one.
    freedom: f64,
    /// Repeats, and their standard deviation.
    repeats: u32,
    within: f64,
    /// Share of repeats that a stall slows down by up to a half.
    stalls: f64,
}

const PLAIN: Fleet = Fleet {
    seed: 1,
    hosts: 30,
    between: 0.007,
    freedom: f64::INFINITY,
    repeats: 5,
    within: 0.01,
    stalls: 0.0,
};

/// A factor by which host, figure and point differ from what is typical.
type Fault = dyn Fn(usize, &str, usize) -> f64;

impl Fleet {
    fn judged(&self, fault: &Fault) -> FleetDocument {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let mut values = FleetValues::default();
        for host in 0..self.hosts {
            let name = format!("host{host:05}");
            let common = self.of_host(&mut random);
            for (experiment, trial, metric, typical, points) in FIGURES {
                for point in 0..points {
                    let own = common + self.of_host(&mut random);
                    let centre = typical * own.exp() * fault(host, metric, point);
                    let at = format!("{{\"rules\":{point}}}");
                    for repeat in 0..self.repeats {
                        let value = centre * self.of_repeat(&mut random, metric);
                        let row = MetricRow {
                            repeat,
                            value,
                            ..row(&name, experiment, trial, metric, &at)
                        };
                        values.add(&row).unwrap();
                    }
                }
            }
        }
        values.judge()
    }

    fn of_host(&self, random: &mut Xoshiro256PlusPlus) -> f64 {
        let normal: f64 = StandardNormal.sample(random);
        let drawn = match self.freedom.is_finite() {
            true => StudentT::new(self.freedom).unwrap().sample(random),
            false => normal,
        };
        self.between * drawn
    }

    fn of_repeat(&self, random: &mut Xoshiro256PlusPlus, metric: &str) -> f64 {
        let noise: f64 = StandardNormal.sample(random);
        let is_stalled = random.random_bool(self.stalls);
        let stall: f64 = if is_stalled { random.random_range(0.0..0.5) } else { 0.0 };
        let slower = if metric.starts_with("latency") { 1.0 + stall } else { 1.0 - stall };
        (self.within * noise).exp() * slower
    }
}

fn row<'a>(
    host: &'a str,
    experiment: &'a str,
    trial: &'a str,
    metric: &'a str,
    point: &'a str,
) -> MetricRow<'a> {
    MetricRow {
        host,
        device: "linux:eth0,eth1",
        firmware: "16.35",
        driver: "mlx5_core",
        pci_id: "15b3:1017",
        started_unix_ns: 1,
        experiment,
        point,
        trial,
        repeat: 0,
        metric,
        value: 1.0,
        unit: "1",
        marks: "",
    }
}

/// The hosts of the outliers.
fn outliers(document: &FleetDocument) -> Vec<&str> {
    document.outliers.iter().map(|of| document.cards[of.card].host.as_str()).collect()
}

const SOUND: &Fault = &|_, _, _| 1.0;

/// Twenty hosts, in five kinds of trouble.
fn faults(host: usize, metric: &str, point: usize) -> f64 {
    if host % 500 != 77 {
        return 1.0;
    }
    match (host / 500 % 5, metric, point) {
        // Throughput at one point.
        (0, "throughput_pps", 2) => 0.9,
        // A slow table of rules.
        (1, "operations_per_s", _) => 0.5,
        // One of four queues is dead.
        (2, "throughput_pps", _) => 0.75,
        (2, "full_queue_pps", _) => 0.6,
        // A longer tail of latency.
        (3, "latency_ns_p99", _) => 1.5,
        // A link at a lower speed.
        (4, "throughput_pps" | "full_queue_pps", _) => 0.4,
        _ => 1.0,
    }
}

/// Of ten thousand hosts: found of the twenty faulty ones, and named wrongly.
fn found(fleet: &Fleet) -> (usize, usize) {
    let document = fleet.judged(&faults);
    let is_faulty = |name: &&&str| name[4..].parse::<usize>().unwrap() % 500 == 77;
    let named = outliers(&document);
    let found = named.iter().filter(is_faulty).count();
    (found, named.len() - found)
}

#[test]
fn of_ten_thousand_hosts_twenty_faulty_ones_are_found() {
    for seed in 1..=3 {
        let fleet = Fleet { seed, hosts: 10_000, ..PLAIN };
        let (found, wrong) = found(&fleet);
        eprintln!("normal, seed {seed}: {found} of 20 found, {wrong} named wrongly");
        assert!(found >= 19 && wrong <= 10, "seed {seed}: {found} found, {wrong} wrong");
        let fleet = Fleet { stalls: 0.05, ..fleet };
        let (found, wrong) = self::found(&fleet);
        eprintln!("stalled repeats, seed {seed}: {found} of 20 found, {wrong} named wrongly");
        assert!(found >= 19 && wrong <= 10, "stalls, seed {seed}: {found} found, {wrong} wrong");
    }
}

#[test]
fn heavy_tails_between_hosts_name_few_wrongly() {
    for (freedom, found_min) in [(10.0, 15), (5.0, 8)] {
        let fleet = Fleet { freedom, hosts: 10_000, stalls: 0.05, ..PLAIN };
        let (found, wrong) = found(&fleet);
        eprintln!("Student's t of {freedom}: {found} of 20 found, {wrong} named wrongly");
        assert!(found >= found_min && wrong <= 10, "{freedom}: {found} found, {wrong} wrong");
    }
}

#[test]
fn equal_hosts_raise_a_false_alarm_at_most_at_the_stated_rate() {
    for (hosts, runs) in [(5, 400), (8, 400), (30, 200), (250, 40)] {
        let is_alarm = |seed: &u64| {
            let fleet = Fleet { seed: *seed, hosts, ..PLAIN };
            !fleet.judged(SOUND).outliers.is_empty()
        };
        let alarms = (1..=runs).filter(is_alarm).count() as f64;
        eprintln!("{hosts} hosts: {alarms} of {runs} runs with a false alarm");
        // Two standard errors above the rate.
        let runs = runs as f64;
        let most = runs * FALSE_ALARM_RATE + 2.0 * (runs * FALSE_ALARM_RATE).sqrt();
        assert!(alarms <= most, "{hosts} hosts: {alarms} of {runs}");
    }
}

#[test]
fn a_host_is_named_with_its_ratio_its_interval_and_its_firmware() {
    let fault = |host, metric: &str, point| match (host, metric, point) {
        (3, "throughput_pps", 2) => 0.8,
        _ => 1.0,
    };
    let document = Fleet { hosts: 30, ..PLAIN }.judged(&fault);
    assert_eq!(outliers(&document), ["host00003"]);
    let only = &document.outliers[0].differences[0];
    let figure = &document.groups[0].figures[only.figure];
    assert_eq!((&figure.metric[..], &figure.point[..]), ("throughput_pps", "rules=2"));
    assert!(only.interval.0 < 0.8 && 0.8 < only.interval.1, "{only:?}");
    assert!(only.interval.1 - only.interval.0 < 0.05 && only.z_score < -10.0, "{only:?}");
    assert_eq!(document.outliers[0].firmware, "16.35");
    assert_eq!(
        (figure.outliers, figure.histogram.as_ref().unwrap().counts.iter().sum()),
        (1, 30u32)
    );
}

#[test]
fn a_host_that_is_a_little_slower_everywhere_is_named_over_all_points() {
    let fault = |host, metric: &str, _| match (host, metric) {
        (3, "throughput_pps") => 0.96,
        _ => 1.0,
    };
    let fleet = Fleet { hosts: 1000, between: 0.001, within: 0.012, ..PLAIN };
    let document = fleet.judged(&fault);
    assert_eq!(outliers(&document), ["host00003"]);
    let figures = &document.groups[0].figures;
    let points: Vec<&str> =
        document.outliers[0].differences.iter().map(|of| &figures[of.figure].point[..]).collect();
    assert!(points.contains(&"all points"), "{points:?}");
}

#[test]
fn small_groups_and_few_repeats_say_that_they_cannot_tell() {
    let fault: &Fault = &|host, _, _| if host == 0 { 0.1 } else { 1.0 };
    for (hosts, why) in [
        (1, "1 card has nothing to be compared with"),
        (2, "2 cards are too few to find an outlier: measure at least 5"),
        (4, "4 cards are too few to find an outlier: measure at least 5"),
    ] {
        let document = Fleet { hosts, ..PLAIN }.judged(fault);
        assert_eq!(document.groups[0].unjudged.as_deref(), Some(why));
        assert_eq!((document.outliers.len(), document.cards.len()), (0, hosts));
    }
    let document = Fleet { repeats: 2, ..PLAIN }.judged(fault);
    assert!(document.groups[0].unjudged.as_ref().unwrap().contains("three repeats"));
    assert!(document.outliers.is_empty());
}

#[test]
fn a_host_that_gives_nothing_is_named_and_equal_values_name_nobody() {
    let dead: &Fault =
        &|host, metric, _| if host == 4 && metric == "full_queue_pps" { 0.0 } else { 1.0 };
    assert_eq!(outliers(&Fleet { hosts: 12, ..PLAIN }.judged(dead)), ["host00004"]);
    let equal = Fleet { hosts: 12, between: 0.0, within: 0.0, ..PLAIN };
    assert!(equal.judged(SOUND).outliers.is_empty());
    let odd_one: &Fault = &|host, _, _| if host == 4 { 0.97 } else { 1.0 };
    assert_eq!(outliers(&equal.judged(odd_one)), ["host00004"]);
    for hosts in [5, 6, 7] {
        let half: &Fault = &|host, _, _| if host == 4 { 0.5 } else { 1.0 };
        let twice: &Fault = &|host, _, _| if host == 4 { 2.0 } else { 1.0 };
        for other in [half, twice] {
            assert_eq!(outliers(&Fleet { hosts, ..equal }.judged(other)), ["host00004"], "{hosts}");
        }
    }
    let nothing: &Fault = &|_, _, _| 0.0;
    assert!(equal.judged(nothing).groups[0].unjudged.is_some());
}

/// Rows of three points of eight hosts, each with two cards; `value` is that of host, card, repeat.
fn two_cards_each(value: impl Fn(usize, usize, u32) -> f64) -> FleetValues {
    let mut values = FleetValues::default();
    for (host, card) in (0..8).flat_map(|host| [(host, 0), (host, 1)]) {
        let (name, device) = (format!("dut-{host}"), ["linux:a0,a1", "linux:b0,b1"][card]);
        for repeat in 0..6 {
            let noise = 1.0 + ((host * 31 + card * 13 + repeat as usize * 17) % 41) as f64 / 4e3;
            let of = row(&name, "occupancy", "saturate", "throughput_pps", "{}");
            let value = value(host, card, repeat) * noise;
            values.add(&MetricRow { device, repeat, value, ..of }).unwrap();
        }
    }
    values
}

#[test]
fn a_dead_card_beside_an_equal_one_of_its_host_is_named() {
    let dead = |host, card, _| if (host, card) == (3, 1) { 0.0 } else { 1e7 };
    let document = two_cards_each(dead).judge();
    assert_eq!((document.hosts, document.cards.len(), document.groups[0].cards), (8, 16, 16));
    assert_eq!(outliers(&document), ["dut-3"]);
    assert_eq!(document.cards[document.outliers[0].card].device, "linux:b0,b1");
    assert_eq!(document.counted(1), "1 card");
    let slow = |host, card, _| if (host, card) == (3, 1) { 9e6 } else { 1e7 };
    assert_eq!(outliers(&two_cards_each(slow).judge()), ["dut-3"]);
    assert!(two_cards_each(|_, _, _| 1e7).judge().outliers.is_empty());
}

#[test]
fn a_card_is_one_whatever_place_it_is_reached_at() {
    let mut values = two_cards_each(|_, _, _| 1e7);
    let of = row("dut-0", "occupancy", "saturate", "throughput_pps", "{}");
    values.add(&MetricRow { device: "ssh://dut-0=linux:a0,a1", ..of }).unwrap();
    assert_eq!(values.judge().cards.len(), 16);
}

#[test]
fn rows_of_a_run_that_an_earlier_source_has_are_left_out() {
    let mut values = two_cards_each(|_, _, _| 1e7);
    let of = row("dut-0", "occupancy", "saturate", "throughput_pps", "{}");
    let again = MetricRow { device: "linux:a0,a1", ..of };
    values.begin_source();
    values.add(&again).unwrap();
    values.add(&MetricRow { started_unix_ns: 2, ..again }).unwrap();
    assert_eq!(values.judge().repeated_rows, 1);
}

#[test]
fn rows_that_a_source_has_twice_count_once() {
    let document = |copies: usize, devices: [&str; 2]| {
        let mut values = FleetValues::default();
        for device in devices.iter().take(copies) {
            for (host, repeat) in (0..5).flat_map(|host| [0, 1, 2].map(|repeat| (host, repeat))) {
                let name = format!("dut-{host}");
                let of = row(&name, "occupancy", "saturate", "throughput_pps", "{}");
                let value = 1e7 + f64::from(host * 7 + repeat * 3);
                values.add(&MetricRow { device, repeat, value, ..of }).unwrap();
            }
        }
        values.judge()
    };
    let once = document(1, ["linux:a"; 2]);
    let twice = document(2, ["linux:a"; 2]);
    assert_eq!((once.repeated_rows, twice.repeated_rows), (0, 15));
    assert_eq!(FleetDocument { repeated_rows: 0, ..twice }, once);
    // One run has measured the card under two names: both count.
    let named = document(2, ["linux:a", "ssh://dut=linux:a"]);
    assert_eq!((named.repeated_rows, named.cards.len()), (0, 5));
    let mut values = FleetValues::default();
    let of = row("a", "occupancy", "saturate", "throughput_pps", "{}");
    let error = values.add(&MetricRow { repeat: 4096, ..of }).unwrap_err();
    assert!(error.to_string().contains("repeat 4096, and a measurement has at most"), "{error}");
}

#[test]
fn a_row_without_a_host_and_more_cards_than_any_fleet_has_are_refused() {
    let mut values = FleetValues::default();
    let of = row("", "occupancy", "saturate", "throughput_pps", "{}");
    let error = values.add(&of).unwrap_err();
    assert!(error.to_string().contains("device linux:eth0,eth1 has no host"), "{error}");
    let host = |at: usize| format!("h{at}");
    (0..1 << 18).for_each(|at| values.add(&MetricRow { host: &host(at), ..of }).unwrap());
    assert_eq!(values.add(&MetricRow { host: "one more", ..of }), Err(FleetError::Cards));
    let mut values = FleetValues::default();
    let metric = |at: usize| format!("m{at}");
    let of = MetricRow { host: "a", ..of };
    (0..1 << 16).for_each(|at| values.add(&MetricRow { metric: &metric(at), ..of }).unwrap());
    assert_eq!(values.add(&MetricRow { metric: "x", ..of }), Err(FleetError::Metrics));
}

#[test]
fn marked_values_and_metrics_of_no_trial_are_left_out() {
    let mut values = FleetValues::default();
    let one = row("a", "occupancy", "saturate", "throughput_pps", "{}");
    for (repeat, marks) in (0..).zip(["unbalanced", "disturbed few-samples", "generator-limited"]) {
        values.add(&MetricRow { repeat, marks, ..one }).unwrap();
    }
    // A copy of a marked row is no other value.
    values.add(&MetricRow { marks: "unbalanced", ..one }).unwrap();
    values.add(&MetricRow { metric: "planned_frames", ..one }).unwrap();
    values.add(&MetricRow { value: f64::NAN, ..one }).unwrap();
    let document = values.judge();
    assert_eq!((document.marked_values, document.uncompared()), (3, 1));
    assert_eq!((document.repeated_rows, document.comparisons), (1, 0));
}

#[test]
fn two_models_with_one_driver_are_two_groups() {
    let of = |host: usize| ["15b3:1017", "15b3:1021", ""][host % 3];
    let mut values = FleetValues::default();
    for host in 0..18 {
        let (name, pci_id) = (format!("dut-{host}"), of(host));
        // The second model has half the throughput. That is no fault.
        let value = [2e7, 1e7, 3e7][host % 3];
        for repeat in 0..3 {
            let of = row(&name, "occupancy", "saturate", "throughput_pps", "{}");
            let value = value * (1.0 + ((host * 7 + repeat as usize * 3) % 11) as f64 / 1e3);
            values.add(&MetricRow { pci_id, repeat, value, ..of }).unwrap();
        }
    }
    let document = values.judge();
    let groups: Vec<(&str, usize)> =
        document.groups.iter().map(|group| (&group.name[..], group.cards)).collect();
    let driver = "linux, mlx5_core";
    let models = [format!("{driver}, 15b3:1017"), format!("{driver}, 15b3:1021")];
    assert_eq!(groups, [(driver, 6), (&models[0], 6), (&models[1], 6)]);
    assert!(document.outliers.is_empty());
    assert_eq!(document.comparisons, 18);
}

#[test]
fn a_reference_trial_is_no_card() {
    let mut values = FleetValues::default();
    let of = row("a", "reference", "reference", "throughput_pps", "{}");
    values.add(&MetricRow { device: "reference", driver: "", firmware: "", ..of }).unwrap();
    assert_eq!(values.judge().cards, []);
}

#[test]
fn more_groups_than_any_fleet_has_are_refused() {
    let mut values = FleetValues::default();
    let one = row("a", "occupancy", "saturate", "throughput_pps", "{}");
    let driver = |at: usize| format!("driver{at}");
    let add = |values: &mut FleetValues, at| values.add(&MetricRow { driver: &driver(at), ..one });
    (0..1000).for_each(|at| add(&mut values, at).unwrap());
    assert_eq!(add(&mut values, 1000), Err(FleetError::Groups));
}

#[test]
fn points_are_worded() {
    assert_eq!(point_words(r#"{"frame":"imix","rules":1000}"#), "frame=imix rules=1000");
    assert_eq!(point_words("no JSON"), "no JSON");
}
