//! Frame sizes: fixed or mixed, and what they cost on the wire.
//!
//! Sizes count the FCS and no preamble or gap, as RFC 2544 and the rest of niclab do.

use serde::{Deserialize, Serialize};

/// Shortest Ethernet frame in bytes, with FCS.
pub const FRAME_LEN_MIN: u16 = 64;

/// Length of the frame check sequence in bytes.
pub const FCS_LEN: u16 = 4;

/// What a frame costs on the wire beside itself: preamble and start 8, gap 12 (IEEE 802.3 §4.4).
pub const WIRE_OVERHEAD_LEN: u16 = 20;

/// The Internet mix of FD.io CSIT ("IMIX_v4_1"): per 48 frames 28 of 64, 16 of 570, 4 of 1518
/// bytes. Here as the shortest period, 7 : 4 : 1, in an order where neighbours differ and the
/// bytes are spread.
pub const IMIX: [u16; 12] = [64, 570, 64, 64, 570, 64, 1518, 64, 570, 64, 64, 570];

/// The sizes of a stream of frames, in bytes with FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameSizes {
    /// Every frame of this size, `64..=65535`; 9,000 and a little more are usual jumbo sizes.
    Fixed(u16),
    /// [`IMIX`], over and over.
    Imix,
}

impl FrameSizes {
    /// The period of sizes: one or twelve.
    pub const fn period(&self) -> &[u16] {
        match self {
            Self::Fixed(size) => std::slice::from_ref(size),
            Self::Imix => &IMIX,
        }
    }

    /// Size of frame `index`, in bytes with FCS.
    pub const fn size(&self, index: u64) -> u16 {
        let period = self.period();
        period[(index % period.len() as u64) as usize]
    }

    /// Mean size in bytes with FCS.
    pub fn mean(&self) -> f64 {
        let period = self.period();
        let total: f64 = period.iter().map(|size| f64::from(*size)).sum();
        total / period.len() as f64
    }

    /// Largest size in bytes with FCS.
    pub fn max(&self) -> u16 {
        self.period().iter().copied().max().unwrap_or(FRAME_LEN_MIN)
    }

    /// Mean bits per frame at `level`.
    pub fn bits_mean(&self, level: RateLevel) -> f64 {
        (self.mean() + f64::from(level.overhead_len())) * 8.0
    }

    /// Frames per second that make `rate_gbps`, measured at `level`.
    pub fn pps(&self, rate_gbps: f64, level: RateLevel) -> f64 {
        rate_gbps * 1e9 / self.bits_mean(level)
    }

    /// Gigabits per second that `rate_pps` frames make, measured at `level`.
    pub fn gbps(&self, rate_pps: f64, level: RateLevel) -> f64 {
        rate_pps * self.bits_mean(level) / 1e9
    }
}

impl Default for FrameSizes {
    fn default() -> Self {
        Self::Fixed(FRAME_LEN_MIN)
    }
}

/// What counts as bits of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateLevel {
    /// Frame, preamble and gap: the share of the link.
    L1,
    /// The frame with its FCS.
    L2,
}

impl RateLevel {
    /// Bytes per frame that count beside the frame itself.
    pub const fn overhead_len(self) -> u16 {
        match self {
            Self::L1 => WIRE_OVERHEAD_LEN,
            Self::L2 => 0,
        }
    }

    /// Bits of a frame of `size` bytes with FCS.
    pub const fn bits(self, size: u16) -> u32 {
        (size as u32 + self.overhead_len() as u32) * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_rate_of_ten_gigabits() {
        // The figure everyone knows: 14.88 Mpps of 64-byte frames; 812,743 pps of 1518.
        let pps = FrameSizes::Fixed(64).pps(10.0, RateLevel::L1);
        assert_eq!(pps.round(), 14_880_952.0);
        assert_eq!(FrameSizes::Fixed(1518).pps(10.0, RateLevel::L1).round(), 812_744.0);
        assert_eq!(RateLevel::L2.bits(64), 512);
        assert_eq!(RateLevel::L1.bits(64), 672);
    }

    #[test]
    fn imix_has_the_published_shares() {
        let sizes: Vec<u16> = (0..48).map(|i| FrameSizes::Imix.size(i)).collect();
        let count = |size| sizes.iter().filter(|s| **s == size).count();
        assert_eq!((count(64), count(570), count(1518)), (28, 16, 4));
        assert_eq!(FrameSizes::Imix.mean(), 16_984.0 / 48.0);
        assert_eq!(FrameSizes::Imix.max(), 1518);
    }

    #[test]
    fn imix_is_well_mixed() {
        // No large frames side by side, and at most two small ones.
        for i in 0..48 {
            let next = [0, 1, 2].map(|k| FrameSizes::Imix.size(i + k));
            assert!(next[0] == 64 || next[1] == 64, "{next:?} at {i}");
            assert!(next != [64; 3], "at {i}");
        }
    }

    #[test]
    fn rates_are_inverse() {
        for sizes in [FrameSizes::Fixed(9000), FrameSizes::Imix] {
            let pps = sizes.pps(40.0, RateLevel::L1);
            assert!((sizes.gbps(pps, RateLevel::L1) - 40.0).abs() < 1e-9);
        }
    }
}
