//! Frames on a wire: how long they are, and how long they take.

use niclab_packet::size::{FrameSizes, RateLevel};
use niclab_result::Coordinate;

use crate::place;

/// Mean length of the frames of this size, bytes with FCS; `None` of a trace.
pub(crate) fn mean_len(frame: &Coordinate) -> Option<f64> {
    place::frame(frame).ok().map(|sizes: FrameSizes| sizes.mean())
}

/// Time of a frame of so many bytes on a wire, nanoseconds.
pub(crate) fn wire_ns(bytes: f64, gbps: f64) -> f64 {
    (bytes + f64::from(RateLevel::L1.overhead_len())) * 8.0 / gbps
}
