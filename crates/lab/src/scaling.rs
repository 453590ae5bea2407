//! The throughput of several cores, computed from the times of one.

/// Frames a second that `cores` cores forward. A core needs `one_ns` for a frame, and `more_ns`
/// more for a frame that another core received. Of `cores` frames, all but one were received by
/// another core.
pub(crate) fn modelled_pps(one_ns: f64, more_ns: f64, cores: f64) -> f64 {
    cores * 1e9 / (one_ns + more_ns * (cores - 1.0) / cores)
}

#[test]
fn more_cores_hand_over_more_frames() {
    assert_eq!(modelled_pps(20.0, 10.0, 1.0), 50e6);
    assert_eq!(modelled_pps(20.0, 10.0, 2.0), 80e6);
    assert!((modelled_pps(20.0, 10.0, 1_000.0) / 1e9 - 1_000.0 / 30.0).abs() < 0.1);
}
