//! Latency histograms: HdrHistogram V2, 1 ns to 60 s, three significant digits.

use std::fmt;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

/// Highest latency that is kept apart, nanoseconds; longer ones count as this.
pub const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// A latency histogram in nanoseconds. Merged, never averaged.
#[derive(Clone, PartialEq)]
pub struct Latency(pub Histogram<u64>);

impl Latency {
    /// An empty histogram.
    pub fn new() -> Latency {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
            .expect("1 ns to 60 s at three digits is a valid range");
        Latency(histogram)
    }

    /// Counts one latency; longer than [`LATENCY_NS_MAX`] counts as that.
    pub fn record(&mut self, latency_ns: u64) {
        self.record_n(latency_ns, 1);
    }

    /// Counts the same latency `count` times.
    #[inline]
    pub fn record_n(&mut self, latency_ns: u64, count: u64) {
        if count > 0 {
            self.0.saturating_record_n(latency_ns.max(1), count);
        }
    }
}

impl Default for Latency {
    fn default() -> Latency {
        Latency::new()
    }
}

impl fmt::Debug for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let h = &self.0;
        if h.is_empty() {
            return f.write_str("Latency(0 samples)");
        }
        let (p50, p99) = (h.value_at_quantile(0.5), h.value_at_quantile(0.99));
        write!(f, "Latency({} samples, p50 {p50} ns, p99 {p99} ns, max {} ns)", h.len(), h.max())
    }
}

/// Stored as the bytes of the V2 format in hexadecimal, so that a histogram crosses a process or a
/// file without loss.
impl Serialize for Latency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&self.0, &mut bytes).map_err(serde::ser::Error::custom)?;
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        serializer.serialize_str(&hex)
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Latency, D::Error> {
        use serde::de::Error;
        let hex = String::deserialize(deserializer)?;
        let digits = |i: usize| hex.get(i..i + 2).and_then(|d| u8::from_str_radix(d, 16).ok());
        let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(digits).collect();
        let bytes = bytes.ok_or_else(|| D::Error::custom("histogram is not hexadecimal"))?;
        let histogram = niclab_histogram::plain(&bytes).map_err(D::Error::custom)?;
        // Those of one range can be merged; another's would be refused then, in part.
        match (histogram.low(), histogram.high(), histogram.sigfig()) {
            (1, LATENCY_NS_MAX, 3) => Ok(Latency(histogram)),
            _ => Err(D::Error::custom("histogram of another range")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_the_way_through_json() {
        let mut latency = Latency::new();
        for ns in [1, 999, 1_000_000, LATENCY_NS_MAX, u64::MAX] {
            latency.record(ns);
        }
        let text = serde_json::to_string(&latency).unwrap();
        assert_eq!(serde_json::from_str::<Latency>(&text).unwrap(), latency);
        assert!(serde_json::from_str::<Latency>("\"0g\"").is_err());
        // The head of a histogram that claims 4 GiB of counts, and nothing behind it.
        let claim = text[..2 + 2 * 40].replacen("1c849313", "1c849313ffffffff", 1);
        let claim = claim[..1 + 2 * 40].to_owned() + "\"";
        let error = serde_json::from_str::<Latency>(&claim).unwrap_err().to_string();
        assert!(error.contains("longer or shorter than it says"), "{error}");
    }
}
