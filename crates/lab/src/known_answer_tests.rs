//! Limits put into a modelled card, which the lab is to find blind.
//!
//! Each limit is drawn anew for each of a hundred cards. The lab measures a card by an experiment
//! as it measures any other, and knows of it what its metrics and its summary say. Its interval is
//! to hold what was put in, in nine of ten cards, and to be narrow.

use std::io::Write;

use niclab_device::model::profile::Profile;
use niclab_device::model::{Model, read};
use niclab_result::Sample;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::spec::GridName;
use crate::statistics::estimate;
use crate::validation::{self, MeasuredModel};

/// Cards with a limit.
const CARDS: usize = 100;

/// Cards of them in which the interval is to hold the limit.
const HELD_MIN: usize = 90;

/// Greatest width of the interval, by the limit: the median of all cards.
const WIDTH_MAX: f64 = 0.05;

/// Repeats of a trial: with six to eight an interval of 95 % goes from the least value to the
/// greatest.
const REPEATS: u32 = 8;

/// Length of a slice of a trial, nanoseconds.
const SLICE_NS: f64 = 1e6;

/// Ends of where the lab says that a limit is.
type Interval = (f64, f64);

/// Has `find` look for limits around `nominal` in cards that `card` makes.
fn check(
    limit: &str,
    nominal: f64,
    card: impl Fn(f64) -> Profile,
    find: impl Fn(&mut Model) -> Interval,
) {
    let seed = limit.bytes().fold(0u64, |seed, byte| seed.rotate_left(7) ^ u64::from(byte));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut held, mut widths, mut missed) = (0, Vec::new(), Vec::new());
    for _ in 0..CARDS {
        let value = nominal * random.random_range(0.8..1.25);
        let (low, high) = find(&mut Model::new("card", card(value), random.random()));
        widths.push((high - low) / value);
        match (low..=high).contains(&value) {
            true => held += 1,
            false => missed.push((low, value, high)),
        }
    }
    widths.sort_by(f64::total_cmp);
    let width = widths[CARDS / 2];
    missed.truncate(3);
    let message = format!("{limit}: held in {held} of {CARDS}, median width {width:.5}");
    println!("{message}");
    assert!(
        held >= HELD_MIN && width <= WIDTH_MAX,
        "{message}; missed (low, value, high): {missed:?}"
    );
}

/// A card of the shelf.
fn plain() -> Profile {
    read("connectx-5").expect("a profile that comes with niclab")
}

/// It with one limit.
fn with(limit: &str, value: f64) -> Profile {
    let mut profile = plain();
    profile.inject(limit, value);
    profile
}

/// A card with other numbers, each by section and key.
fn with_numbers(profile: &Profile, numbers: &[(&str, &str, f64)]) -> Profile {
    let mut section = String::new();
    let mut replaced = 0;
    let line = |line: &str| {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.to_owned();
        }
        let is_of = |(of, key, _): &&(&str, &str, f64)| {
            *of == section && line.split_once(" = ").is_some_and(|(known, _)| known == *key)
        };
        let Some((_, key, value)) = numbers.iter().find(is_of) else { return line.to_owned() };
        replaced += 1;
        format!(r#"{key} = {{ value = {value}, basis = "injected", source = "test" }}"#)
    };
    let lines: Vec<String> = profile.text().lines().map(line).collect();
    assert_eq!(replaced, numbers.len(), "{numbers:?}");
    Profile::parse("card.toml", &lines.join("\n")).expect("a profile with other numbers")
}

fn measure(card: &mut Model, experiment: &str, set: &[&str]) -> MeasuredModel {
    validation::measure(card, experiment, GridName::Reduced, set, Some(REPEATS))
        .expect("an experiment with these values")
}

/// A value of each repeat of a trial that was made at one place.
fn each(measured: &MeasuredModel, trial: &str, value: impl Fn(&Sample) -> f64) -> Vec<f64> {
    let of = measured.samples.iter().filter(|sample| sample.trial == trial);
    let values: Vec<f64> = of.map(value).collect();
    assert_eq!(values.len(), REPEATS as usize, "{trial}");
    values
}

fn metric(sample: &Sample, name: &str) -> f64 {
    sample.metrics.get(name).unwrap_or_else(|| panic!("{name} in {}", sample.trial)).value
}

fn interval(values: &[f64]) -> Interval {
    estimate(values).and_then(|all| all.interval()).expect("enough repeats for an interval")
}

/// The interval of a metric of a trial that was made at one place.
fn interval_of(measured: &MeasuredModel, trial: &str, name: &str) -> Interval {
    interval(&each(measured, trial, |sample| metric(sample, name)))
}

/// An experiment that has trials of group 0 with the default rule alone.
fn measure_default_rule(card: &mut Model) -> MeasuredModel {
    measure_for(card, "duration_ms=10")
}

fn measure_for(card: &mut Model, duration: &str) -> MeasuredModel {
    let place = ["groups=0", "rules=1", "match_percent=0", "flows=100", "frame=64"];
    measure(card, "occupancy", &[&place[..], &[duration, "warmup_ms=2"]].concat())
}

/// The first rules of a table take longer, so that the rate of few is lower than the card's
/// greatest: it is that of the rules by which one batch is larger than another.
fn find_rule_rate(card: &mut Model) -> Interval {
    const SIZES: [f64; 2] = [2_000.0, 8_000.0];
    let of_rules = ["group=1", "rules=2k,8k", "stack=eth/ipv4/tcp", "actions=queue"];
    let rest = ["calls=single", "per_s=10k", "core=distinct", "duration_ms=5", "warmup_ms=1"];
    let measured = measure(card, "rule-rate", &[&of_rules[..], &rest].concat());
    let batches_s = SIZES.map(|size| {
        let is_of = |sample: &&Sample| {
            sample.trial == "insert" && sample.point["rules"].to_string() == size.to_string()
        };
        let of = measured.samples.iter().filter(is_of);
        of.map(|sample| size / metric(sample, "operations_per_s")).collect::<Vec<f64>>()
    });
    assert!(batches_s.iter().all(|batches| batches.len() == REPEATS as usize));
    let pairs = batches_s[0].iter().zip(&batches_s[1]);
    let rates = pairs.map(|(small_s, large_s)| (SIZES[1] - SIZES[0]) / (large_s - small_s));
    interval(&rates.collect::<Vec<f64>>())
}

#[test]
fn most_rules_a_second_are_found() {
    check("rule_rate_max", 50e3, |value| with("rule_rate_max", value), find_rule_rate);
}

/// The knees of an experiment that searches nothing else, and finer than the default one.
fn find_knee(card: &mut Model, kind: &str, width: f64) -> Interval {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a file");
    let grid = |name: &str| {
        format!(
            "[{name}]\nrepeats = 1\nduration_ms = 4\nwarmup_ms = 1\n\
             [[{name}.sweep]]\ngroups = 0\nrules = 1\nflows = 100\ntrials = [\"saturate\"]\n\
             [[{name}.knee]]\nkind = \"{kind}\"\ngroups = 0\nrules_min = 2\n\
             rules_max = 131_072\nwidth = {width:?}\n"
        )
    };
    let grids = ["reduced", "full", "published"].map(grid).concat();
    let head = "name = \"knee\"\nkind = \"occupancy\"\nquestion = \"Where is the knee?\"\n";
    write!(file, "{head}{grids}").expect("a file that takes it");
    let path = file.path().to_str().expect("a path in letters");
    let measured = validation::measure(card, path, GridName::Reduced, &[], None);
    let summary = measured.expect("an experiment").summary();
    let figures = summary.experiments.iter().flat_map(|experiment| &experiment.figures);
    let of = figures.filter(|figure| figure.id == "occupancy-throughput-group0-64");
    let knees: Vec<_> = of.flat_map(|figure| &figure.knees).collect();
    let [knee] = knees[..] else { return (f64::NAN, f64::NAN) };
    (knee.x - knee.width, knee.x + knee.width)
}

/// A bisection ends between a number in front of the knee and one behind it.
#[test]
fn a_cliff_of_the_throughput_is_found() {
    // Beyond the cliff a frame takes longer than the host; in front of it the host is the limit.
    let card = |value| with("cliff_rules", value);
    check("cliff_rules", 16e3, card, |card| find_knee(card, "throughput", 0.01));
}

/// Where a throughput sinks slowly, the knee is where it falls below the share that is asked for.
#[test]
fn the_point_at_which_throughput_falls_below_four_fifths_is_found() {
    const FRAME_NS: f64 = 100.0;
    let card = |value: f64| {
        // Beside so many rules a frame takes 5/4 of its time beside the two of the plateau.
        let rule_ps = FRAME_NS * 1e3 * 0.25 / (value - 1.25 * 2.0);
        let mut profile = plain();
        profile.inject("noise_ratio", 0.0);
        let root = [("root", "frame_ns", FRAME_NS), ("root", "rule_ps", rule_ps)];
        with_numbers(&profile, &[root[0], root[1], ("host", "frame_ns", 1.0)])
    };
    check("slope", 16e3, card, |card| find_knee(card, "throughput", 0.01));
}

#[test]
fn the_room_of_group_0_is_found() {
    let card = |value: f64| {
        let most = value.floor();
        with_numbers(&plain(), &[("root", "rules_max", most), ("root", "near_rules", most)])
    };
    check("rules_max", 40e3, card, |card| find_knee(card, "capacity", 0.0));
}

fn find_gap(card: &mut Model) -> Interval {
    let of_rules = ["group=1", "rules=1k", "change=actions", "calls=single", "traffic=load"];
    let rest = ["core=distinct", "slice=32", "before_ms=20", "after_ms=20", "duration_ms=10"];
    interval_of(
        &measure(card, "rule-update", &[&of_rules[..], &rest].concat()),
        "change",
        "none_ns",
    )
}

#[test]
fn how_long_a_changed_rule_is_met_by_nothing_is_found() {
    check("gap_ns", 200e3, |value| with("gap_ns", value), find_gap);
}

/// An outage is reported in whole slices in which no frame came back; those at its two ends, in
/// which some did, may have been part of it: it is as long as the slices say, or up to two longer.
fn find_stall(card: &mut Model) -> Interval {
    let of_rules = ["work=create", "group=1", "batch=1k", "core=distinct", "calls=single"];
    let rest = ["slice=32", "flows=100", "before_ms=20", "after_ms=320", "duration_ms=10"];
    let measured = measure(card, "update-batch", &[&of_rules[..], &rest].concat());
    let (low, high) = interval_of(&measured, "batch", "outage_ns");
    (low, high + 2.0 * SLICE_NS)
}

#[test]
fn how_long_a_batch_keeps_frames_waiting_is_found() {
    check("stall_ns", 200e6, |value| with("stall_ns", value), find_stall);
}

/// Where a few of a thousand frames take longer, one of these stands at the 99.9th percentile,
/// among the later ones. Beside its delay it waited for the queue to be polled, as all frames do:
/// for no less than the median frame, and for no longer than the longest wait, which is as far from
/// the median as the quartiles are from each other.
fn find_spike(card: &mut Model) -> Interval {
    let measured = measure_default_rule(card);
    let of = |name: &'static str| each(&measured, "latency", move |s| metric(s, name));
    let [p25, p50, p75] = ["latency_ns_p25", "latency_ns_p50", "latency_ns_p75"].map(of);
    let p999 = of("latency_ns_p999");
    let most: Vec<f64> = p999.iter().zip(&p50).map(|(p999, p50)| p999 - p50).collect();
    let wait = p75.iter().zip(&p25).map(|(p75, p25)| p75 - p25);
    let least: Vec<f64> = most.iter().zip(wait).map(|(most, wait)| most - wait).collect();
    (interval(&least).0, interval(&most).1)
}

#[test]
fn how_much_longer_a_few_frames_take_is_found() {
    let card = |value| {
        let mut profile = with("spike_ns", value);
        profile.inject("spike_ratio", 0.005);
        profile
    };
    check("spike_ns", 500e3, card, find_spike);
}

/// Any time up to the longest wait is as likely: between the first percentile and the 99.9th lie
/// 98.9 % of it.
fn find_wait(card: &mut Model) -> Interval {
    let measured = measure_default_rule(card);
    let spread = |sample: &Sample| {
        let [p1, p999] = ["latency_ns_p1", "latency_ns_p999"].map(|name| metric(sample, name));
        (p999 - p1) / (0.999 - 0.01)
    };
    interval(&each(&measured, "light", spread))
}

#[test]
fn how_long_a_frame_waits_to_be_polled_is_found() {
    let card = |value| with_numbers(&plain(), &[("host", "wait_ns", value)]);
    check("wait_ns", 30e3, card, find_wait);
}

/// A loss is counted in whole frames, so the ends are one frame off. Of some thousands that are
/// lost one by one a trial has some percent more than the next: long ones say it better. What was
/// lost, what did not come back and what the rates say is one thing: the loss is to lie where all
/// of them have it.
fn find_loss(card: &mut Model) -> Interval {
    let measured = measure_for(card, "duration_ms=100");
    let of = |value: &dyn Fn(&Sample) -> f64| interval(&each(&measured, "latency", value));
    let (frame, _) = of(&|sample| 1.0 / metric(sample, "offered_frames"));
    let message = [
        of(&|sample| metric(sample, "loss_ratio")),
        of(&|sample| metric(sample, "undelivered_ratio")),
        of(&|sample| metric(sample, "lost_frames") / metric(sample, "planned_frames")),
        of(&|sample| 1.0 - metric(sample, "received_frames") / metric(sample, "offered_frames")),
        of(&|sample| 1.0 - metric(sample, "throughput_all_pps") / metric(sample, "offered_pps")),
    ];
    let low = message.map(|(low, _)| low).into_iter().fold(f64::MIN, f64::max);
    let high = message.map(|(_, high)| high).into_iter().fold(f64::MAX, f64::min);
    (low - frame, high + frame)
}

#[test]
fn the_share_of_frames_that_is_lost_is_found() {
    check("loss_ratio", 0.01, |value| with("loss_ratio", value), find_loss);
}

fn find_frame_rate(card: &mut Model) -> Interval {
    interval_of(&measure_default_rule(card), "saturate", "throughput_pps")
}

fn with_frame_rate(profile: &Profile, value: f64) -> Profile {
    with_numbers(profile, &[("port", "frame_rate_max", value)])
}

#[test]
fn most_frames_a_second_are_found() {
    check("frame_rate_max", 5e6, |value| with_frame_rate(&plain(), value), find_frame_rate);
}

fn measure_rss(card: &mut Model, cores: &str, duration: &str) -> MeasuredModel {
    let place = ["queues=4", cores, "flows=4k", "zipf=0", "frame=64", duration, "warmup_ms=2"];
    measure(card, "hash-skew", &place)
}

/// Flows are drawn frame by frame: of long trials the share that chance moves is small.
fn find_skew(card: &mut Model) -> Interval {
    interval_of(&measure_rss(card, "cores=1", "duration_ms=50"), "rss", "misplaced_ratio")
}

#[test]
fn the_share_of_frames_that_a_hash_misplaces_is_found() {
    check("skew_ratio", 0.1, |value| with("skew_ratio", value), find_skew);
}

/// A queue is counted from the first frame of the warm-up to the last that waits when the load has
/// ended: of long trials these few are small.
fn find_slow_queue(card: &mut Model) -> Interval {
    let measured = measure_rss(card, "cores=each", "duration_ms=1000");
    interval_of(&measured, "rss", "full_queue_pps")
}

#[test]
fn how_many_frames_a_slow_queue_takes_is_found() {
    check("slow_queue_pps", 1e6, |value| with("slow_queue_pps", value), find_slow_queue);
}

#[test]
fn limits_of_an_unsteady_card_are_found() {
    const NOISE: f64 = 0.02;
    let card = |value| {
        let mut profile = with("rule_rate_max", value);
        profile.inject("noise_ratio", NOISE);
        profile
    };
    check("rule_rate_max, unsteady", 50e3, card, find_rule_rate);
    let card = |value| with_frame_rate(&with("noise_ratio", NOISE), value);
    check("frame_rate_max, unsteady", 5e6, card, find_frame_rate);
}

#[test]
fn a_fit_finds_nothing_that_the_card_lacks() {
    let has_no_knee = [("root", "rule_ps", 0.0), ("root", "far_ns", 0.0)];
    for seed in 0..5 {
        let card = |profile| Model::new("card", profile, seed);
        assert_eq!(find_gap(&mut card(plain())), (0.0, 0.0));
        assert_eq!(find_stall(&mut card(plain())), (0.0, 2.0 * SLICE_NS));
        let (low, high) = find_loss(&mut card(plain()));
        assert!(low < 0.0 && 0.0 < high && high < 1e-3, "{low} to {high}");
        let (low, high) = find_spike(&mut card(plain()));
        assert!(low < 0.0 && 0.0 < high, "{low} to {high}");
        let (low, high) = find_skew(&mut card(plain()));
        assert!(0.0 < low && high < 1e-3, "{low} to {high}");
        let (low, high) =
            find_knee(&mut card(with_numbers(&plain(), &has_no_knee)), "throughput", 0.01);
        assert!(low.is_nan() && high.is_nan(), "{low} to {high}");
    }
}
