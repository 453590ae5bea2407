//! A workload on a modelled card, as JSON.

use niclab_device::ControlCore;
use niclab_device::model::profile::Profile;
use niclab_lab::advise::{Candidate, Forecast, Workload};
use serde::Serialize;

use super::{is_destroying_unknown, not_modelled};

/// The document of `advise --json`.
#[derive(Serialize)]
pub struct AdviceDocument<'a> {
    device: &'a str,
    card: &'a str,
    workload: &'a str,
    /// Whether a layout carries the workload; `None` where nothing could be computed.
    offload: Option<bool>,
    /// Best first.
    candidates: Vec<CandidateDocument<'a>>,
    /// Costs of the card that the profile does not know.
    not_modelled: Vec<&'static str>,
}

/// A layout, with the core that changes the rules.
#[derive(Serialize)]
struct CandidateDocument<'a> {
    groups: u32,
    control_core: ControlCore,
    fits: Option<bool>,
    /// Why nothing could be computed.
    reason: Option<&'a str>,
    forecast: Option<ForecastDocument<'a>>,
}

/// The forecast of the model.
#[derive(Serialize)]
struct ForecastDocument<'a> {
    throughput_pps: f64,
    loss_ratio: f64,
    latency_ns_p50: Option<f64>,
    latency_ns_p99: Option<f64>,
    rules_per_s: f64,
    /// The tightest first.
    limits: Vec<LimitDocument>,
    misses: &'a [&'static str],
}

/// A limit, and how many times the workload it allows.
#[derive(Serialize)]
struct LimitDocument {
    name: &'static str,
    times_workload: f64,
}

impl<'a> AdviceDocument<'a> {
    /// The document of all layouts, best first.
    pub fn of(
        device: &'a str,
        profile: &'a Profile,
        workload: &'a Workload,
        ways: &'a [Candidate],
    ) -> AdviceDocument<'a> {
        let mut not_modelled = not_modelled(profile);
        if is_destroying_unknown(profile, ways) {
            not_modelled.push("root_rules.destroy_ns");
        }
        let known = ways.iter().find_map(|way| way.outcome.as_ref().ok());
        AdviceDocument {
            device,
            card: &profile.title,
            workload: &workload.name,
            offload: known.map(Forecast::fits),
            candidates: ways.iter().map(CandidateDocument::of).collect(),
            not_modelled,
        }
    }
}

impl<'a> CandidateDocument<'a> {
    fn of(way: &'a Candidate) -> CandidateDocument<'a> {
        let outcome = way.outcome.as_ref();
        CandidateDocument {
            groups: way.groups,
            control_core: way.core,
            fits: outcome.ok().map(Forecast::fits),
            reason: outcome.err().map(String::as_str),
            forecast: outcome.ok().map(ForecastDocument::of),
        }
    }
}

impl<'a> ForecastDocument<'a> {
    fn of(forecast: &'a Forecast) -> ForecastDocument<'a> {
        let limits = forecast.room.iter();
        let limits = limits.map(|(limit, times_workload)| LimitDocument {
            name: limit.words(),
            times_workload: *times_workload,
        });
        ForecastDocument {
            throughput_pps: forecast.throughput_pps,
            loss_ratio: forecast.loss_ratio,
            latency_ns_p50: forecast.latency_ns.map(|(p50, _)| p50),
            latency_ns_p99: forecast.latency_ns.map(|(_, p99)| p99),
            rules_per_s: forecast.rules_per_s,
            limits: limits.collect(),
            misses: &forecast.misses,
        }
    }
}
