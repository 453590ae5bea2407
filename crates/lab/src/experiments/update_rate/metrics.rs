//! The metrics of `update-rate`.

use crate::metrics::{CONTROL, LATENCY, LOAD, SATURATE, TrialMetrics};

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[
    TrialMetrics {
        headlines: &[
            "throughput_pps",
            "device_ns_per_frame",
            "operations_per_s",
            "operations_done",
        ],
        metrics: &[LOAD, CONTROL],
        ..SATURATE
    },
    TrialMetrics { metrics: &[LOAD, CONTROL], ..LATENCY },
];
