//! The axes of `occupancy`.

use serde::Deserialize;

use crate::run::Resolver;
use crate::spec::defaults::{flows_default, frame_default, no_values, zero};
use crate::spec::{
    Assignment, Hits, InvalidValue, KneeSpec, Overrides, SpecError, TrialKind, axes, in_knee,
    parts, set_all,
};
use crate::throughput::SearchSpec;
use crate::values::Values;

/// A product of axes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Non-root groups the rules are spread over; 0 puts them into group 0.
    pub groups: Values,
    /// Rules in these groups, the default rule of each included.
    pub rules: Values,
    /// Share of the traffic that matches an installed rule other than the default.
    #[serde(default = "zero")]
    pub match_percent: Values,
    /// Over what the matching traffic is uniform.
    #[serde(default)]
    pub hits: Hits,
    /// Flows of the traffic.
    #[serde(default = "flows_default")]
    pub flows: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
    /// Rates of the `fixed` trials, frames a second, or `max`: that of the saturating trial.
    #[serde(default = "no_values")]
    pub rate: Values,
    /// Which trials are made at each point.
    pub trials: Vec<TrialKind>,
}

impl Sweep {
    /// The places of a search, each with the trial that it needs.
    pub fn of_search(search: &SearchSpec) -> Sweep {
        Sweep {
            groups: search.groups.clone(),
            rules: search.rules.clone(),
            match_percent: search.match_percent.clone(),
            hits: search.hits,
            flows: search.flows.clone(),
            frame: search.frame.clone(),
            rate: Values(Vec::new()),
            trials: vec![TrialKind::SATURATE],
        }
    }
}

axes!(Sweep: groups, rules, match_percent, flows, frame, rate);

/// Axes of `occupancy`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("groups", "non-root groups the rules are spread over; 0: all in group 0"),
    ("rules", "rules in these groups, the default rule of each included"),
    ("match_percent", "share of the traffic that matches an installed rule, percent"),
    ("flows", "flows of the traffic"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("rate", "frames a second of a trial at that rate, such as 10M; or max"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// Over rules, groups and what is sent through them.
        sweep: Sweep,
        /// Which knees to search.
        knee: KneeSpec,
        /// Which throughputs to search, and where.
        search: SearchSpec,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(self.sweep.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        set_all(self.search.iter_mut().filter_map(|search| search.axis(axis)), values);
        Ok(())
    }

    fn check(&self, grid: &str) -> Result<(), InvalidValue> {
        self.knee.iter().try_for_each(|knee| in_knee(grid, knee))
    }

    /// Who chose the places to measure did not ask for knees elsewhere.
    fn overridden(&mut self, overrides: &Overrides) -> Result<(), SpecError> {
        let is_place = |set: &Assignment| matches!(set.name.as_str(), "groups" | "rules");
        if overrides.set.iter().any(is_place) || overrides.rules.is_some() {
            self.knee.clear();
        }
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_sweeps(&self.sweep)?;
        resolver.add_knees(&self.knee)?;
        resolver.add_searches(&self.search)
    }
}
