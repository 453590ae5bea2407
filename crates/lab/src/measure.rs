//! What one observation says: metrics with their units, and the marks a reader must know.

use std::collections::BTreeMap;

use niclab_device::{Latency, Observation, SetupReport, Slice};
use niclab_packet::size::RateLevel;
use niclab_result::{Mark, Quantity};

/// Metrics by name; the unit stands last in each name too.
pub type Metrics = BTreeMap<String, Quantity>;

/// Quantiles kept of every latency, by the end of their names.
pub const QUANTILES: [(&str, f64); 6] =
    [("p1", 0.01), ("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p99", 0.99), ("p999", 0.999)];

/// The metrics of a trial.
///
/// `loss_ratio` is what the device lost of what it was offered. `undelivered_ratio` also counts
/// what was due and never sent, as a search must (RFC 9971): it is never smaller.
pub fn metrics(observation: &Observation) -> Metrics {
    let mut metrics = Metrics::new();
    let o = observation;
    put(&mut metrics, "planned_frames", o.planned as f64, "frames");
    put(&mut metrics, "offered_frames", o.offered as f64, "frames");
    put(&mut metrics, "received_frames", o.received as f64, "frames");
    put(&mut metrics, "lost_frames", o.lost as f64, "frames");
    put(&mut metrics, "unsent_frames", o.unsent as f64, "frames");
    put(&mut metrics, "rx_missed_frames", o.rx_missed as f64, "frames");
    put(&mut metrics, "reordered_frames", o.reordered as f64, "frames");
    put(&mut metrics, "duplicated_frames", o.duplicated as f64, "frames");
    put(&mut metrics, "damaged_frames", o.damaged as f64, "frames");
    put_ratio(&mut metrics, "loss_ratio", o.lost, o.offered);
    put_ratio(&mut metrics, "undelivered_ratio", o.planned.saturating_sub(o.received), o.planned);
    put_rates(&mut metrics, o);
    put_undisturbed(&mut metrics, o);
    put_latency(&mut metrics, "latency_ns", o.latency.as_ref());
    put_latency(&mut metrics, "service_ns", o.service.as_ref());
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
    if install_s > 0.0 && operations > 0 {
        put(&mut metrics, "install_rules_per_s", operations as f64 / install_s, "rules/s");
    }
    if let Some(bytes) = report.rule_bytes.filter(|_| report.rules_installed > 0) {
        let each = bytes as f64 / report.rules_installed as f64;
        put(&mut metrics, "rule_bytes", bytes as f64, "B");
        put(&mut metrics, "rule_bytes_per_rule", each, "B");
    }
    metrics
}

/// The warnings that belong to an observation.
pub fn marks(observation: &Observation) -> Vec<Mark> {
    let o = observation;
    let mut marks = Vec::new();
    if o.slices.iter().any(|slice| slice.disturbed) {
        marks.push(Mark::Disturbed);
    }
    if o.honesty.generator_limited || o.unsent > 0 {
        marks.push(Mark::GeneratorLimited);
    }
    let adds_up = o.planned == o.offered + o.unsent && o.offered == o.received + o.lost;
    if !o.honesty.balanced || !adds_up {
        marks.push(Mark::Unbalanced);
    }
    marks
}

/// A number that may be stored: never NaN or infinite.
fn put(metrics: &mut Metrics, name: &str, value: f64, unit: &str) {
    if value.is_finite() {
        metrics.insert(name.to_string(), Quantity { value, unit: unit.to_string() });
    }
}

fn put_ratio(metrics: &mut Metrics, name: &str, part: u64, whole: u64) {
    if whole > 0 {
        put(metrics, name, part as f64 / whole as f64, "1");
    }
}

fn put_rates(metrics: &mut Metrics, o: &Observation) {
    if o.duration_ns == 0 {
        return;
    }
    let duration_s = o.duration_ns as f64 / 1e9;
    let overhead = u64::from(RateLevel::L1.overhead_len());
    let gbps = |bytes: u64| bytes as f64 * 8.0 / duration_s / 1e9;
    put(metrics, "offered_pps", o.offered as f64 / duration_s, "pps");
    put(metrics, "throughput_pps", o.received as f64 / duration_s, "pps");
    put(metrics, "throughput_gbps_l2", gbps(o.received_bytes), "Gbps");
    let wire_bytes = o.received_bytes + o.received * overhead;
    put(metrics, "throughput_gbps_l1", gbps(wire_bytes), "Gbps");
}

/// What the slices without a stall show: stalls are of the machine, not of the device.
fn put_undisturbed(metrics: &mut Metrics, o: &Observation) {
    let Some(slice_ns) = slice_ns(&o.slices) else {
        return;
    };
    let calm: Vec<&Slice> = o.slices.iter().filter(|slice| !slice.disturbed).collect();
    put(metrics, "disturbed_slices", (o.slices.len() - calm.len()) as f64, "slices");
    if calm.is_empty() {
        return;
    }
    let sum = |count: fn(&Slice) -> u64| calm.iter().map(|slice| count(slice)).sum::<u64>();
    let duration_s = slice_ns as f64 * calm.len() as f64 / 1e9;
    let received = sum(|slice| slice.received) as f64;
    put(metrics, "throughput_undisturbed_pps", received / duration_s, "pps");
    let (missed, offered) = (sum(|slice| slice.rx_missed), sum(|slice| slice.offered));
    put_ratio(metrics, "rx_missed_undisturbed_ratio", missed, offered);
}

fn slice_ns(slices: &[Slice]) -> Option<u64> {
    let [first, second, ..] = slices else {
        return None;
    };
    second.start_ns.checked_sub(first.start_ns).filter(|length| *length > 0)
}

fn put_latency(metrics: &mut Metrics, name: &str, latency: Option<&Latency>) {
    let Some(Latency(histogram)) = latency.filter(|latency| !latency.0.is_empty()) else {
        return;
    };
    for (end, quantile) in QUANTILES {
        let value = histogram.value_at_quantile(quantile) as f64;
        put(metrics, &format!("{name}_{end}"), value, "ns");
    }
    put(metrics, &format!("{name}_mean"), histogram.mean(), "ns");
    put(metrics, &format!("{name}_max"), histogram.max() as f64, "ns");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use niclab_device::Honesty;

    use super::*;

    /// 1000 frames due, 10 not sent, 90 lost, 900 back: in 1 ms.
    fn observation() -> Observation {
        let mut latency = Latency::new();
        (1..=1_000).for_each(|ns| latency.record(ns));
        Observation {
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
            ..Observation::default()
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

    #[test]
    fn undisturbed_figures_leave_stalled_slices_out() {
        let slice = |start_ns, received, rx_missed, disturbed| Slice {
            start_ns,
            offered: 100,
            received,
            rx_missed,
            disturbed,
            ..Slice::default()
        };
        let slices =
            vec![slice(0, 100, 0, false), slice(1_000, 20, 80, true), slice(2_000, 98, 2, false)];
        let observation = Observation { slices, ..observation() };
        let metrics = metrics(&observation);
        assert_eq!(metrics["throughput_undisturbed_pps"].value, 198.0 / 2e-6);
        assert_eq!(metrics["rx_missed_undisturbed_ratio"].value, 0.01);
        assert_eq!(metrics["disturbed_slices"].value, 1.0);
        assert!(marks(&observation).contains(&Mark::Disturbed));
    }

    #[test]
    fn marks_follow_the_honesty_record_and_the_sums() {
        let check = |change: fn(&mut Observation), expected: &[Mark]| {
            let mut calm = Observation { unsent: 0, planned: 990, ..observation() };
            change(&mut calm);
            assert_eq!(marks(&calm), expected);
        };
        check(|_| {}, &[]);
        check(|o| o.honesty.generator_limited = true, &[Mark::GeneratorLimited]);
        check(
            |o| {
                o.unsent = 1;
                o.planned += 1;
            },
            &[Mark::GeneratorLimited],
        );
        check(|o| o.honesty.balanced = false, &[Mark::Unbalanced]);
        check(|o| o.lost += 1, &[Mark::Unbalanced]);
        check(|o| o.planned += 1, &[Mark::Unbalanced]);
    }

    #[test]
    fn a_refused_rule_counts_in_the_rate_and_not_in_the_memory() {
        let report = SetupReport {
            rules_installed: 900,
            rules_refused: 100,
            refusal: Some("full".into()),
            install: Duration::from_millis(1),
            rule_bytes: Some(90_000),
        };
        let metrics = setup_metrics(&report);
        assert_eq!(metrics["install_rules_per_s"].value, 1e6);
        assert_eq!(metrics["rule_bytes_per_rule"].value, 100.0);
        let nothing = setup_metrics(&SetupReport::default());
        assert!(!nothing.contains_key("install_rules_per_s"));
        assert!(nothing.values().all(|quantity| quantity.value.is_finite()));
    }

    #[test]
    fn an_observation_of_nothing_gives_no_impossible_numbers() {
        let metrics = metrics(&Observation::default());
        assert!(metrics.values().all(|quantity| quantity.value.is_finite()));
        assert!(!metrics.contains_key("throughput_pps") && !metrics.contains_key("loss_ratio"));
    }
}
