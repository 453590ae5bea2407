//! Metric families, and their text: OpenMetrics 1.0, or the older format of Prometheus (0.0.4).
//!
//! A series that is not known is left out; it is never 0.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// Labels of a series.
pub type Labels = Vec<(&'static str, String)>;

/// The value of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricValue {
    /// A count.
    Whole(u64),
    /// Seconds.
    Seconds(f64),
}

/// The kind of a family. The suffixes `_total` and `_info` are added when it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Its labels are the information.
    Info,
}

/// Series of one name.
#[derive(Debug)]
pub struct Family {
    kind: MetricKind,
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    series: Vec<(Labels, MetricValue)>,
}

impl Family {
    /// An empty family. The unit, such as `bytes`, becomes a part of the name.
    pub fn new(kind: MetricKind, name: &'static str, unit: &str, help: &'static str) -> Family {
        let unit = match unit {
            "" => None,
            "bytes" => Some(Unit::Bytes),
            "seconds" => Some(Unit::Seconds),
            other => Some(Unit::Other(other.to_owned())),
        };
        Family { kind, name, unit, help, series: Vec::new() }
    }

    /// Adds a series.
    pub fn push(&mut self, labels: Labels, value: MetricValue) {
        self.series.push((labels, value));
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let kind = match self.kind {
            MetricKind::Counter => MetricType::Counter,
            MetricKind::Gauge => MetricType::Gauge,
            MetricKind::Info => MetricType::Info,
        };
        let unit = self.unit.as_ref();
        let mut family = encoder.encode_descriptor(self.name, self.help, unit, kind)?;
        for (labels, value) in &self.series {
            if self.kind == MetricKind::Info {
                family.encode_info(labels)?;
                continue;
            }
            let series = family.encode_family(labels)?;
            match (self.kind, *value) {
                (MetricKind::Counter, MetricValue::Whole(value)) => {
                    ConstCounter::new(value).encode(series)?
                }
                (MetricKind::Counter, MetricValue::Seconds(value)) => {
                    ConstCounter::new(value).encode(series)?
                }
                // The format has signed numbers here.
                (_, MetricValue::Whole(value)) => {
                    let value = i64::try_from(value).unwrap_or(i64::MAX);
                    ConstGauge::new(value).encode(series)?;
                }
                (_, MetricValue::Seconds(value)) => ConstGauge::new(value).encode(series)?,
            }
        }
        Ok(())
    }
}

/// All families of an answer.
#[derive(Debug, Default)]
pub struct Families(Vec<Family>);

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
}

impl Format {
    /// Its media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => prometheus_text::CONTENT_TYPE,
        }
    }
}

impl Families {
    /// Those that say which program answers.
    pub fn of_program() -> Families {
        let mut build = Family::new(MetricKind::Info, "niclab_build", "", "Version of niclab.");
        let version = env!("CARGO_PKG_VERSION").to_owned();
        build.push(vec![("version", version)], MetricValue::Whole(1));
        Families(vec![build])
    }

    /// Adds a family; one without series is left out.
    pub fn push(&mut self, family: Family) {
        if !family.series.is_empty() {
            self.0.push(family);
        }
    }
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|family| family.encode(&mut encoder))
    }
}

/// Writes families; `None` where a value cannot be written.
pub fn written(families: &Arc<Families>, format: Format) -> Option<String> {
    let (mut out, mut registry) = (String::new(), Registry::default());
    registry.register_collector(Box::new(Arc::clone(families)));
    let written = match format {
        Format::OpenMetrics => text::encode(&mut out, &registry),
        Format::Prometheus => prometheus_text::encode(&mut out, &registry),
    };
    written.ok().map(|()| out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families() -> Arc<Families> {
        let mut families = Families::default();
        let help = "Bytes that came.";
        let mut bytes = Family::new(MetricKind::Counter, "card_receive", "bytes", help);
        bytes.push(vec![("port", "0".to_owned())], MetricValue::Whole(u64::MAX));
        bytes.push(vec![("port", "a\"b\\c\nd".to_owned())], MetricValue::Whole(0));
        families.push(bytes);
        families.push(Family::new(MetricKind::Gauge, "empty", "", "Nothing."));
        let mut busy = Family::new(MetricKind::Counter, "card_busy", "seconds", "Time of work.");
        busy.push(Vec::new(), MetricValue::Seconds(1.5));
        families.push(busy);
        let mut rules = Family::new(MetricKind::Gauge, "card_rules", "", "Rules.");
        rules.push(Vec::new(), MetricValue::Whole(3));
        families.push(rules);
        let mut build = Family::new(MetricKind::Info, "card_build", "", "Version.");
        build.push(vec![("version", "1".to_owned())], MetricValue::Whole(1));
        families.push(build);
        Arc::new(families)
    }

    #[test]
    fn families_are_written_in_both_formats() {
        let series = concat!(
            "card_receive_bytes_total{port=\"0\"} 18446744073709551615\n",
            "card_receive_bytes_total{port=\"a\\\"b\\\\c\\nd\"} 0\n",
        );
        let prometheus = [
            "# HELP card_receive_bytes_total Bytes that came.\n",
            "# TYPE card_receive_bytes_total counter\n",
            series,
            "# HELP card_busy_seconds_total Time of work.\n",
            "# TYPE card_busy_seconds_total counter\ncard_busy_seconds_total 1.5\n",
            "# HELP card_rules Rules.\n# TYPE card_rules gauge\ncard_rules 3\n",
            "# HELP card_build_info Version.\n# TYPE card_build_info gauge\n",
            "card_build_info{version=\"1\"} 1\n",
        ];
        assert_eq!(written(&families(), Format::Prometheus).unwrap(), prometheus.concat());
        let open_metrics = [
            "# HELP card_receive_bytes Bytes that came.\n# TYPE card_receive_bytes counter\n",
            "# UNIT card_receive_bytes bytes\n",
            series,
            "# HELP card_busy_seconds Time of work.\n# TYPE card_busy_seconds counter\n",
            "# UNIT card_busy_seconds seconds\ncard_busy_seconds_total 1.5\n",
            "# HELP card_rules Rules.\n# TYPE card_rules gauge\ncard_rules 3\n",
            "# HELP card_build Version.\n# TYPE card_build info\n",
            "card_build_info{version=\"1\"} 1\n# EOF\n",
        ];
        assert_eq!(written(&families(), Format::OpenMetrics).unwrap(), open_metrics.concat());
    }
}
