//! Metrics of the control side.

use niclab_device::Control;

use crate::measure::{Metrics, put, put_ratio, quantiles};

/// Adds the metrics of a plan that was carried out while a load of `duration_ns` ran.
/// `operations_per_s` of operations that are due one by one is by the time from the first to the
/// last and one interval more, or, where not all were done, by all that the load left from the
/// first on.
pub fn put_control(metrics: &mut Metrics, control: &Control, duration_ns: u64) {
    put_one(metrics, "", control, duration_ns);
    if let Some(destroyed) = &control.destroyed {
        put_one(metrics, "destroy_", destroyed, duration_ns);
    }
}

fn put_one(metrics: &mut Metrics, of: &str, control: &Control, duration_ns: u64) {
    let name = |name: &str| format!("{of}{name}");
    put(metrics, &name("operations_planned"), control.planned as f64, "operations");
    put(metrics, &name("operations_done"), control.done as f64, "operations");
    put(metrics, &name("operations_refused"), control.refused as f64, "operations");
    let operations = control.done + control.refused;
    if let Some(begun_ns) = control.begun_ns {
        let ended_ns = control.ended_ns.unwrap_or(duration_ns);
        let span_ns = ended_ns.saturating_sub(begun_ns).max(1);
        if control.ended_ns.is_some() {
            put(metrics, &name("batch_ns"), span_ns as f64, "ns");
        }
        // From the first of so many a second to the last is one less than they are.
        let span_ns = match (&control.late, control.ended_ns, operations) {
            (Some(_), Some(_), 2..) => {
                (span_ns as f64 * operations as f64 / (operations - 1) as f64) as u64
            }
            (Some(_), ..) => duration_ns.saturating_sub(begun_ns).max(1),
            (None, ..) => span_ns,
        };
        // The last calls may end behind the measured part: they had all that time.
        let span_ns = span_ns.max(control.busy_ns);
        let per_s = operations as f64 * 1e9 / span_ns as f64;
        put(metrics, &name("operations_per_s"), per_s, "operations/s");
        put_ratio(metrics, &name("control_busy_ratio"), control.busy_ns, span_ns);
    }
    if operations > 0 {
        let each_ns = control.calls_ns as f64 / operations as f64;
        put(metrics, &name("control_ns_per_operation"), each_ns, "ns");
    }
    if let Some(first_ns) = control.first_call_ns {
        put(metrics, &name("first_call_ns"), first_ns as f64, "ns");
    }
    control.calls.iter().for_each(|calls| quantiles(metrics, &name("call_ns"), calls));
    control.late.iter().for_each(|late| quantiles(metrics, &name("late_ns"), late));
    control.waited.iter().for_each(|waited| quantiles(metrics, &name("waited_ns"), waited));
}

#[cfg(test)]
mod tests {
    use niclab_device::Latency;

    use super::*;

    fn times(ns: &[u64]) -> Option<Latency> {
        let mut times = Latency::new();
        ns.iter().for_each(|ns| times.record(*ns));
        Some(times)
    }

    #[test]
    fn refused_operations_are_in_numerator_and_denominator_and_the_first_call_is_apart() {
        let destroyed = Control {
            planned: 60,
            done: 60,
            begun_ns: Some(0),
            ended_ns: Some(600),
            busy_ns: 600,
            ..Control::default()
        };
        let control = Control {
            planned: 100,
            done: 60,
            refused: 40,
            begun_ns: Some(1_000),
            ended_ns: Some(11_000),
            busy_ns: 5_000,
            calls_ns: 4_000,
            calls: times(&[50, 50, 50, 100]),
            first_call_ns: Some(3_000),
            destroyed: Some(Box::new(destroyed)),
            ..Control::default()
        };
        let mut metrics = Metrics::new();
        put_control(&mut metrics, &control, 20_000);
        let value = |name: &str| metrics[name].value;
        assert_eq!((value("batch_ns"), value("operations_per_s")), (10_000.0, 1e7));
        assert_eq!(value("control_ns_per_operation"), 40.0);
        assert_eq!(value("control_busy_ratio"), 0.5);
        assert_eq!((value("call_ns_p50"), value("call_ns_max")), (50.0, 100.0));
        assert_eq!(value("first_call_ns"), 3_000.0);
        assert_eq!(value("destroy_operations_per_s"), 1e8);
        assert!(!metrics.contains_key("destroy_call_ns_p50"), "nobody timed them");
    }

    #[test]
    fn operations_that_were_due_one_by_one_are_a_rate_by_the_time_that_they_had() {
        // One each 1,000 ns.
        let control = Control {
            planned: 10,
            done: 10,
            begun_ns: Some(0),
            ended_ns: Some(9_000),
            busy_ns: 10,
            late: times(&[7]),
            waited: times(&[3]),
            ..Control::default()
        };
        let measured = |control: &Control| {
            let mut metrics = Metrics::new();
            put_control(&mut metrics, control, 20_000);
            metrics
        };
        let metrics = measured(&control);
        let value = |name: &str| metrics[name].value;
        assert_eq!((value("operations_per_s"), value("control_busy_ratio")), (1e6, 1e-3));
        assert_eq!((value("late_ns_p99"), value("waited_ns_p50")), (7.0, 3.0));
        let behind = Control { ended_ns: None, done: 5, ..control.clone() };
        assert_eq!(measured(&behind)["operations_per_s"].value, 250_000.0);
        let one = Control { done: 1, ended_ns: Some(7), ..control };
        assert_eq!(measured(&one)["operations_per_s"].value, 50_000.0);
    }

    #[test]
    fn an_outage_without_an_end_lasts_until_the_end_of_the_load() {
        let control = Control {
            planned: 100,
            done: 50,
            begun_ns: Some(5_000),
            busy_ns: 5_000,
            ..Control::default()
        };
        let mut metrics = Metrics::new();
        put_control(&mut metrics, &control, 15_000);
        assert_eq!(metrics["operations_per_s"].value, 5e6);
        assert_eq!(metrics["control_busy_ratio"].value, 0.5);
        assert!(!metrics.contains_key("batch_ns"));
    }

    #[test]
    fn calls_that_end_behind_the_measured_part_are_no_more_than_all_of_the_time() {
        // Calls from 5 us on, the last of which ends at 45 us, of 20 us.
        let control = Control {
            planned: 100,
            done: 80,
            begun_ns: Some(5_000),
            busy_ns: 40_000,
            ..Control::default()
        };
        let mut metrics = Metrics::new();
        put_control(&mut metrics, &control, 20_000);
        assert_eq!(metrics["control_busy_ratio"].value, 1.0);
        assert_eq!(metrics["operations_per_s"].value, 2e6);
    }
}
