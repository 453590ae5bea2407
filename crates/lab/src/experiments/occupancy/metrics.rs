//! The metrics of `occupancy`.

use crate::measure::UnsentBasis;
use crate::metrics::{INSTALLED, LATENCY, LOAD, SATURATE, TrialMetrics, search};
use crate::runner::search::{CAPACITY, PLATEAU, PROBE};
use crate::throughput::Mode;

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[
    SATURATE,
    LATENCY,
    TrialMetrics { trial: "light", ..LATENCY },
    FIXED,
    search(Mode::Mlrsearch),
    search(Mode::Rfc2544),
    TrialMetrics { metrics: &[INSTALLED], ..ASKED },
    TrialMetrics { trial: PLATEAU, ..ASKED },
    TrialMetrics { trial: PROBE, ..ASKED },
];

/// Frames at a rate that was asked for.
const FIXED: TrialMetrics = TrialMetrics {
    trial: "fixed",
    headlines: &["throughput_pps", "device_ns_per_frame", "latency_ns_p50", "latency_ns_p99"],
    ..LATENCY
};

/// What a search for a knee asks; what it finds is compared as a knee.
const ASKED: TrialMetrics = TrialMetrics {
    trial: CAPACITY,
    points: None,
    judged_by: &["latency_ns_p50"],
    headlines: &[],
    metrics: &[LOAD],
    is_throughput: true,
    judged: UnsentBasis::Whole,
};
