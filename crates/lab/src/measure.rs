//! The metrics of one observation, with units, and its marks.

mod marks;
mod slices;
mod undisturbed;

use std::collections::BTreeMap;

use niclab_device::{Latency, LoadObservation, SetupReport, StampedFrames, TimestampClock};
use niclab_packet::size::RateLevel;
use niclab_result::Quantity;

use undisturbed::UndisturbedSlices;

pub use marks::{UnsentBasis, is_unbalanced, marks};
pub use slices::{slices, slices_of};

/// What a frame costs the device's core: measured where the device tells how idle it was.
pub const DEVICE_TIME: &str = "device_ns_per_frame";

/// Fewest rules whose installation is a rate, and whose memory is reported for each rule: of a few,
/// the first call and what a table has before its first rule are most of it.
const INSTALLED_MIN: u64 = 1_000;

/// Metrics by name; the unit stands last in each name too.
pub type Metrics = BTreeMap<String, Quantity>;

/// Quantiles kept of every latency, by the end of their names.
pub const QUANTILES: [(&str, f64); 6] =
    [("p1", 0.01), ("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p99", 0.99), ("p999", 0.999)];

/// The metrics of a trial.
///
/// A throughput is of the frames that the device dealt with as it was told: those that came back
/// and those that a rule dropped. `throughput_pps` is that of the calm slices, where there are
/// enough of them; `throughput_all_pps` is of the whole trial, the machine's stalls included.
///
/// `loss_ratio` is what the device lost of what it was offered, `dropped_ratio` what its rules
/// dropped of that, which is no loss. `undelivered_ratio` counts the loss and
/// what was due and never sent, as a search must (RFC 9971): it is never smaller.
///
/// `checked_damaged_frames` are those of the `checked_frames` whose checksums were wrong: a sample
/// of what came back is checked, and where nothing was there is no such figure. All counts are of
/// the measured part but `foreign_frames`, frames at the sink without a stamp of ours, which are of
/// the whole trial.
pub fn metrics(observation: &LoadObservation) -> Metrics {
    let mut metrics = Metrics::new();
    let o = observation;
    put(&mut metrics, "planned_frames", o.planned as f64, "frames");
    put(&mut metrics, "offered_frames", o.offered as f64, "frames");
    put(&mut metrics, "received_frames", o.received as f64, "frames");
    put(&mut metrics, "dropped_frames", o.dropped as f64, "frames");
    put(&mut metrics, "lost_frames", o.lost as f64, "frames");
    put(&mut metrics, "unsent_frames", o.unsent as f64, "frames");
    put(&mut metrics, "rx_missed_frames", o.rx_missed as f64, "frames");
    put(&mut metrics, "reordered_frames", o.reordered as f64, "frames");
    put(&mut metrics, "duplicated_frames", o.duplicated as f64, "frames");
    put(&mut metrics, "foreign_frames", o.foreign as f64, "frames");
    put(&mut metrics, "checked_frames", o.checked as f64, "frames");
    if o.checked > 0 {
        put(&mut metrics, "checked_damaged_frames", o.damaged as f64, "frames");
    }
    put_ratio(&mut metrics, "loss_ratio", o.lost, o.offered);
    put_ratio(&mut metrics, "dropped_ratio", o.dropped, o.offered);
    put_ratio(&mut metrics, "undelivered_ratio", o.planned.saturating_sub(done(o)), o.planned);
    put_rates(&mut metrics, o);
    put_slices(&mut metrics, o);
    put_device_time(&mut metrics, o);
    put_latency(&mut metrics, "latency_ns", o.latency.as_ref());
    put_latency(&mut metrics, "service_ns", o.service.as_ref());
    o.stamped.iter().for_each(|stamped| put_stamped(&mut metrics, stamped));
    metrics
}

/// The metrics of bringing a device into its state.
pub fn setup_metrics(report: &SetupReport) -> Metrics {
    let mut metrics = Metrics::new();
    put(&mut metrics, "rules_installed", report.rules_installed as f64, "rules");
    put(&mut metrics, "rules_refused", report.rules_refused as f64, "rules");
    // A refused rule takes its time too: it stands in numerator and denominator.
    let operations = report.rules_installed + report.rules_refused;
    let install_s = report.install.as_secs_f64();
    if install_s > 0.0 && operations >= INSTALLED_MIN {
        put(&mut metrics, "install_rules_per_s", operations as f64 / install_s, "rules/s");
    }
    if let Some(bytes) = report.rule_bytes.filter(|_| report.rules_installed > 0) {
        put(&mut metrics, "rule_bytes", bytes as f64, "B");
        if report.rules_installed >= INSTALLED_MIN {
            let each = bytes as f64 / report.rules_installed as f64;
            put(&mut metrics, "rule_bytes_per_rule", each, "B");
        }
    }
    metrics
}

/// Frames that the device dealt with as it was told.
fn done(o: &LoadObservation) -> u64 {
    o.received + o.dropped
}

/// A number that may be stored: never NaN or infinite.
pub(crate) fn put(metrics: &mut Metrics, name: &str, value: f64, unit: &str) {
    if value.is_finite() {
        metrics.insert(name.to_string(), Quantity { value, unit: unit.to_string() });
    }
}

pub(crate) fn put_ratio(metrics: &mut Metrics, name: &str, part: u64, whole: u64) {
    if whole > 0 {
        put(metrics, name, part as f64 / whole as f64, "1");
    }
}

fn put_rates(metrics: &mut Metrics, o: &LoadObservation) {
    if o.duration_ns == 0 {
        return;
    }
    let duration_s = o.duration_ns as f64 / 1e9;
    let all_pps = done(o) as f64 / duration_s;
    let pps = UndisturbedSlices::of(o).map_or(all_pps, |calm| calm.throughput_pps());
    // How long frames are does not hang on stalls: bytes go by frames. Dropped ones are as long as
    // those offered are on average.
    let dropped_bytes = o.dropped as f64 * o.offered_bytes as f64 / o.offered.max(1) as f64;
    let frame_len = (o.received_bytes as f64 + dropped_bytes) / done(o).max(1) as f64;
    let gbps = |frame_len: f64| pps * frame_len * 8.0 / 1e9;
    put(metrics, "planned_pps", o.planned as f64 / duration_s, "pps");
    put(metrics, "offered_pps", o.offered as f64 / duration_s, "pps");
    put(metrics, "throughput_pps", pps, "pps");
    put(metrics, "throughput_all_pps", all_pps, "pps");
    put(metrics, "throughput_gbps_l2", gbps(frame_len), "Gbps");
    let overhead = f64::from(RateLevel::L1.overhead_len());
    put(metrics, "throughput_gbps_l1", gbps(frame_len + overhead), "Gbps");
}

/// What stalls did: they are of the machine, not of the device.
fn put_slices(metrics: &mut Metrics, o: &LoadObservation) {
    let disturbed = o.slices.iter().filter(|slice| slice.disturbed).count();
    put_ratio(metrics, "disturbed_ratio", disturbed as u64, o.slices.len() as u64);
    if let Some(calm) = UndisturbedSlices::of(o) {
        put_ratio(metrics, "rx_missed_undisturbed_ratio", calm.rx_missed, calm.offered);
    }
}

/// Time in which the device's core had something to do, a frame; its stalls do not count. A trial
/// of nothing but stalls tells nothing.
fn put_device_time(metrics: &mut Metrics, o: &LoadObservation) {
    let Some(busy_ns) = o.honesty.device_busy_ns.filter(|busy| *busy > 0 && done(o) > 0) else {
        return;
    };
    if o.slices.is_empty() || UndisturbedSlices::of(o).is_some() {
        put(metrics, DEVICE_TIME, busy_ns as f64 / done(o) as f64, "ns");
    }
}

fn put_latency(metrics: &mut Metrics, name: &str, latency: Option<&Latency>) {
    let Some(latency) = latency.filter(|latency| !latency.0.is_empty()) else {
        return;
    };
    put(metrics, &format!("{name}_mean"), latency.0.mean(), "ns");
    quantiles(metrics, name, latency);
}

/// Times by time stamps, as far as there are frames for each quantile. With no stamped frame, only
/// the counts.
fn put_stamped(metrics: &mut Metrics, stamped: &StampedFrames) {
    let StampedFrames { by, asked, port, program, implausible, resolution_ns, cost_ns } = stamped;
    put(metrics, "stamps_asked", *asked as f64, "frames");
    put(metrics, "stamped_frames", port.0.len() as f64, "frames");
    put(metrics, "stamps_implausible", *implausible as f64, "frames");
    let name = match by {
        TimestampClock::Card => "latency_card_ns",
        TimestampClock::Kernel => "latency_kernel_ns",
    };
    for (name, Latency(times)) in [(name, port), ("latency_call_to_poll_ns", program)] {
        for (end, quantile) in QUANTILES {
            // As many frames that at least one lies beyond the quantile.
            let is_known = times.len() as f64 * quantile.min(1.0 - quantile) >= 1.0;
            if is_known {
                let value = times.value_at_quantile(quantile) as f64;
                put(metrics, &format!("{name}_{end}"), value, "ns");
            }
        }
    }
    if !port.0.is_empty() {
        put(metrics, "stamp_cost_ns", *cost_ns as f64, "ns");
    }
    if let Some(resolution_ns) = resolution_ns {
        put(metrics, "stamp_resolution_ns", *resolution_ns as f64, "ns");
    }
}

/// The quantiles and the maximum of times, by names that begin with `name`; nothing of none.
pub(crate) fn quantiles(metrics: &mut Metrics, name: &str, Latency(times): &Latency) {
    if times.is_empty() {
        return;
    }
    for (end, quantile) in QUANTILES {
        let value = times.value_at_quantile(quantile) as f64;
        put(metrics, &format!("{name}_{end}"), value, "ns");
    }
    put(metrics, &format!("{name}_max"), times.max() as f64, "ns");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use niclab_device::{Honesty, Slice};

    use super::*;

    /// 1000 frames due, 10 not sent, 90 lost, 900 back: in 1 ms.
    pub(super) fn observation() -> LoadObservation {
        let mut latency = Latency::new();
        (1..=1_000).for_each(|ns| latency.record(ns));
        LoadObservation {
            planned: 1_000,
            offered: 990,
            unsent: 10,
            received: 900,
            offered_bytes: 990 * 64,
            received_bytes: 900 * 64,
            lost: 90,
            rx_missed: 80,
            duration_ns: 1_000_000,
            latency: Some(latency),
            honesty: Honesty { balanced: true, ..Honesty::default() },
            ..LoadObservation::default()
        }
    }

    #[test]
    fn losses_of_device_and_generator_are_kept_apart() {
        let metrics = metrics(&observation());
        let value = |name: &str| metrics[name].value;
        assert_eq!(value("loss_ratio"), 90.0 / 990.0);
        assert_eq!(value("undelivered_ratio"), 0.1);
        assert_eq!(value("unsent_frames"), 10.0);
        assert_eq!(value("rx_missed_frames"), 80.0);
    }

    #[test]
    fn damage_is_said_of_checked_frames_alone() {
        let of = |checked, damaged| {
            let observation = LoadObservation { checked, damaged, foreign: 7, ..observation() };
            let metrics = metrics(&observation);
            assert_eq!(metrics["foreign_frames"].value, 7.0);
            let damaged = metrics.get("checked_damaged_frames").map(|quantity| quantity.value);
            (metrics["checked_frames"].value, damaged)
        };
        assert_eq!(of(14, 2), (14.0, Some(2.0)));
        assert_eq!(of(0, 0), (0.0, None), "nothing was looked at, so nothing was found whole");
    }

    #[test]
    fn rates_are_of_what_came_back_at_both_layers() {
        let metrics = metrics(&observation());
        let value = |name: &str| metrics[name].value;
        assert_eq!(value("throughput_pps"), 900_000.0);
        assert_eq!(value("offered_pps"), 990_000.0);
        assert!((value("throughput_gbps_l2") - 0.4608).abs() < 1e-9);
        assert!((value("throughput_gbps_l1") - 0.6048).abs() < 1e-9);
        assert_eq!(metrics["throughput_gbps_l1"].unit, "Gbps");
    }

    #[test]
    fn times_by_stamps_are_beside_the_same_frames_by_niclabs_clock() {
        let times = |ns: [u64; 3]| {
            let mut latency = Latency::new();
            ns.into_iter().for_each(|ns| latency.record(ns));
            latency
        };
        let mut observation = observation();
        observation.stamped = Some(StampedFrames {
            by: TimestampClock::Card,
            asked: 5,
            port: times([160, 176, 320]),
            program: times([900, 1_000, 1_100]),
            implausible: 1,
            resolution_ns: Some(16),
            cost_ns: 700,
        });
        let found = metrics(&observation);
        for (name, value) in [
            ("latency_card_ns_p50", 176.0),
            ("latency_call_to_poll_ns_p50", 1_000.0),
            ("stamps_asked", 5.0),
            ("stamped_frames", 3.0),
            ("stamps_implausible", 1.0),
            ("stamp_resolution_ns", 16.0),
            ("stamp_cost_ns", 700.0),
        ] {
            assert_eq!(found[name].value, value, "{name}");
        }
        assert!(!found.contains_key("latency_card_ns_p99"), "three frames have no such quantile");
        observation.stamped = Some(StampedFrames { asked: 4, ..StampedFrames::default() });
        let found = metrics(&observation);
        assert_eq!(found["stamped_frames"].value, 0.0);
        assert!(!found.contains_key("latency_card_ns_p50") && !found.contains_key("stamp_cost_ns"));
    }

    #[test]
    fn percentiles_are_those_of_the_histogram() {
        let metrics = metrics(&observation());
        let expected =
            [("p1", 10.0), ("p25", 250.0), ("p50", 500.0), ("p75", 750.0), ("p99", 990.0)];
        for (end, ns) in expected {
            assert_eq!(metrics[&format!("latency_ns_{end}")].value, ns, "{end}");
        }
        assert_eq!(metrics["latency_ns_p999"].value, 999.0);
        assert_eq!(metrics["latency_ns_max"].value, 1_000.0);
        assert_eq!(metrics["latency_ns_mean"].value, 500.5);
        assert!(!metrics.contains_key("service_ns_p50"), "what was not measured is not there");
    }

    /// A trial of slices of 1 us that received so many frames each; `-` marks a disturbed one.
    pub(super) fn sliced(received: &[i64]) -> LoadObservation {
        let slice = |(at, count): (usize, &i64)| Slice {
            start_ns: at as u64 * 1_000,
            offered: 100,
            received: count.unsigned_abs(),
            rx_missed: 100 - count.unsigned_abs().min(100),
            unsent: 0,
            disturbed: *count < 0,
        };
        let slices: Vec<Slice> = received.iter().enumerate().map(slice).collect();
        let duration_ns = slices.len() as u64 * 1_000;
        LoadObservation { slices, duration_ns, latency: None, ..observation() }
    }

    #[test]
    fn frames_that_a_rule_dropped_are_no_loss() {
        // Each slice of 1 us: 100 offered, 10 missed, 60 dropped, 30 back.
        let slice = |at: u64| Slice {
            start_ns: at * 1_000,
            offered: 100,
            received: 30,
            rx_missed: 10,
            ..Slice::default()
        };
        let o = LoadObservation {
            planned: 300,
            offered: 300,
            unsent: 0,
            received: 90,
            dropped: 180,
            lost: 30,
            offered_bytes: 300 * 64,
            received_bytes: 90 * 64,
            duration_ns: 3_000,
            slices: (0..3).map(slice).collect(),
            latency: None,
            honesty: Honesty { device_busy_ns: Some(2_700), ..observation().honesty },
            ..observation()
        };
        let metrics = metrics(&o);
        let near = |name: &str, want: f64| {
            let value = metrics[name].value;
            assert!((value / want - 1.0).abs() < 1e-9, "{name}: {value}, {want} expected");
        };
        near("throughput_pps", 270.0 / 3e-6);
        near("throughput_all_pps", 270.0 / 3e-6);
        near("throughput_gbps_l2", 270.0 * 64.0 * 8.0 / 3_000.0);
        near("loss_ratio", 0.1);
        near("undelivered_ratio", 0.1);
        near("dropped_ratio", 0.6);
        near(DEVICE_TIME, 10.0);
        assert_eq!(marks(&o, UnsentBasis::Whole), []);
        let all = LoadObservation { received: 0, received_bytes: 0, dropped: 270, ..o.clone() };
        assert!((super::metrics(&all)["throughput_pps"].value / 90e6 - 1.0).abs() < 1e-9);
        // What queues behind the ring refused no slice knows of.
        let queues = LoadObservation { dropped: 90, lost: 120, ..o };
        let pps = super::metrics(&queues)["throughput_pps"].value;
        assert!((pps / 60e6 - 1.0).abs() < 1e-9, "{pps}");
    }

    #[test]
    fn the_time_of_the_device_is_that_in_which_it_was_busy() {
        let busy = |busy_ns, calm: &[i64]| {
            let mut observation = sliced(calm);
            observation.honesty.device_busy_ns = busy_ns;
            metrics(&observation).get(DEVICE_TIME).map(|quantity| quantity.value)
        };
        // 900 frames in 2250 ns of work.
        assert_eq!(busy(Some(2_250), &[100, 100, 100]), Some(2.5));
        assert_eq!(busy(None, &[100, 100, 100]), None);
        assert_eq!(busy(Some(2_250), &[-100, -100, -100]), None, "a stall is no work");
    }

    #[test]
    fn a_refused_rule_counts_in_the_rate_and_not_in_the_memory() {
        let report = SetupReport {
            rules_installed: 9_000,
            rules_refused: 1_000,
            refusal: Some("full".into()),
            install: Duration::from_millis(10),
            rule_bytes: Some(900_000),
            ..SetupReport::default()
        };
        let metrics = setup_metrics(&report);
        assert_eq!(metrics["install_rules_per_s"].value, 1e6);
        assert_eq!(metrics["rule_bytes_per_rule"].value, 100.0);
        let few = SetupReport { rules_installed: 900, rules_refused: 99, ..report };
        let names = |report| setup_metrics(report).into_keys().collect::<Vec<_>>();
        assert_eq!(names(&few), ["rule_bytes", "rules_installed", "rules_refused"]);
        let nothing = setup_metrics(&SetupReport::default());
        assert!(!nothing.contains_key("install_rules_per_s"));
        assert!(nothing.values().all(|quantity| quantity.value.is_finite()));
    }

    #[test]
    fn an_observation_of_nothing_gives_no_impossible_numbers() {
        let metrics = metrics(&LoadObservation::default());
        assert!(metrics.values().all(|quantity| quantity.value.is_finite()));
        assert!(!metrics.contains_key("throughput_pps") && !metrics.contains_key("loss_ratio"));
    }
}
