//! The declaration of a load.

use std::path::PathBuf;

use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;
use serde::{Deserialize, Serialize};

/// Offered traffic: everything a testbed needs to generate it, and nothing about the device.
///
/// Written down, a load with a trace has no `flows` and `sizes`: what was never sent is not told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "WrittenLoad", try_from = "WrittenLoad")]
pub struct Load {
    /// The flows; a trace brings its own.
    pub flows: FlowSpec,
    /// Frame sizes in bytes, with FCS; a trace brings its own.
    pub sizes: FrameSizes,
    /// How many frames a second.
    pub rate: Rate,
    /// How departures are spaced.
    pub arrivals: Arrivals,
    /// Length of the measured part, nanoseconds.
    pub duration_ns: u64,
    /// Length of the part before it, which is generated but never counted, nanoseconds.
    pub warmup_ns: u64,
    /// Seed of everything random in the load: which flow comes next, Poisson gaps.
    pub seed: u64,
    /// Frames of this capture, in its order and over again, in place of generated ones.
    pub trace: Option<PathBuf>,
}

/// A [`Load`] as it is written down.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLoad {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    flows: Option<FlowSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sizes: Option<FrameSizes>,
    rate: Rate,
    arrivals: Arrivals,
    duration_ns: u64,
    warmup_ns: u64,
    seed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<PathBuf>,
}

impl From<Load> for WrittenLoad {
    fn from(load: Load) -> WrittenLoad {
        let is_generated = load.trace.is_none();
        WrittenLoad {
            flows: is_generated.then_some(load.flows),
            sizes: is_generated.then_some(load.sizes),
            rate: load.rate,
            arrivals: load.arrivals,
            duration_ns: load.duration_ns,
            warmup_ns: load.warmup_ns,
            seed: load.seed,
            trace: load.trace,
        }
    }
}

impl TryFrom<WrittenLoad> for Load {
    type Error = &'static str;

    fn try_from(written: WrittenLoad) -> Result<Load, &'static str> {
        let has_trace = written.trace.is_some();
        Ok(Load {
            flows: written.flows.or_else(|| has_trace.then(FlowSpec::default)).ok_or(NO_FRAMES)?,
            sizes: written
                .sizes
                .or_else(|| has_trace.then(FrameSizes::default))
                .ok_or(NO_FRAMES)?,
            rate: written.rate,
            arrivals: written.arrivals,
            duration_ns: written.duration_ns,
            warmup_ns: written.warmup_ns,
            seed: written.seed,
            trace: written.trace,
        })
    }
}

const NO_FRAMES: &str = "a load has `flows` and `sizes`, or a `trace`";

/// How many frames a second are offered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Open loop: a frame leaves at each of its planned times whatever the device does.
    Pps(f64),
    /// Open loop as well, with a stretch of another rate in the measured part.
    Step {
        /// Before it and behind it, frames a second.
        low_pps: f64,
        /// In it, frames a second.
        high_pps: f64,
        /// Its beginning, nanoseconds after that of the measured part.
        from_ns: u64,
        /// Its end, likewise.
        until_ns: u64,
    },
    /// As fast as the device takes them: a frame is offered whenever its ring has room. It shows
    /// the device's capacity; loss and latency under it are those of a full ring.
    Saturate,
}

impl Rate {
    /// The same with so many times the frames a second.
    #[must_use]
    pub fn scaled(self, by: f64) -> Rate {
        match self {
            Rate::Pps(pps) => Rate::Pps(by * pps),
            Rate::Step { low_pps, high_pps, from_ns, until_ns } => {
                Rate::Step { low_pps: by * low_pps, high_pps: by * high_pps, from_ns, until_ns }
            }
            Rate::Saturate => Rate::Saturate,
        }
    }
}

/// How departures are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Frame k is due at k / rate.
    #[default]
    Constant,
    /// Gaps are exponential with mean 1 / rate.
    Poisson,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json, to_value};

    use super::*;

    #[test]
    fn a_load_with_a_trace_tells_no_flows_and_sizes() {
        let generated = Load {
            flows: FlowSpec { count: 7, ..FlowSpec::default() },
            sizes: FrameSizes::Imix,
            rate: Rate::Saturate,
            arrivals: Arrivals::Poisson,
            duration_ns: 1,
            warmup_ns: 2,
            seed: 3,
            trace: None,
        };
        let text = to_value(&generated).unwrap();
        assert_eq!(text["flows"]["count"], 7);
        assert_eq!(from_value::<Load>(text).unwrap(), generated);
        let traced = Load { trace: Some("a.pcap".into()), ..generated };
        let text = to_value(&traced).unwrap();
        let words = ["flows", "sizes", "trace"].map(|name| text.get(name).cloned());
        assert_eq!(words, [None, None, Some(json!("a.pcap"))]);
        let read: Load = from_value(text).unwrap();
        assert_eq!((&read.trace, read.seed), (&traced.trace, 3));
        let without = |name: &str| {
            let mut text = to_value(Load { trace: None, ..traced.clone() }).unwrap();
            text.as_object_mut().and_then(|fields| fields.remove(name)).unwrap();
            from_value::<Load>(text).unwrap_err().to_string()
        };
        for name in ["flows", "sizes"] {
            assert!(without(name).contains("or a `trace`"), "{}", without(name));
        }
        assert!(from_value::<Load>(Value::Null).is_err());
    }
}
