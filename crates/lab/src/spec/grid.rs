//! A grid: one set of places to measure, and how thoroughly.

use serde::{Deserialize, Serialize};

use super::knee::KneeSpec;
use crate::experiments::application::spec::ApplicationSweep;
use crate::experiments::echo::spec::EchoSweep;
use crate::experiments::frame_size::spec::SizeSweep;
use crate::experiments::hash_skew::spec::SpreadSweep;
use crate::experiments::kvs_steering::spec::ServingSweep;
use crate::experiments::occupancy::spec::Sweep;
use crate::experiments::program_cost::spec::ProgramSweep;
use crate::experiments::queue_change::spec::RespreadSweep;
use crate::experiments::queue_scaling::spec::ScalingSweep;
use crate::experiments::rule_rate::spec::{EffectSweep, InsertionSweep};
use crate::experiments::rule_update::spec::ChangeSweep;
use crate::experiments::stream::spec::StreamSweep;
use crate::experiments::update_batch::spec::BatchSweep;
use crate::experiments::update_rate::spec::RenewalSweep;
use crate::throughput::SearchSpec;

/// Which grid of an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GridName {
    /// The default: minutes.
    #[default]
    Reduced,
    /// `--full`: an hour or so.
    Full,
    /// `--grid published`: as long as it takes.
    Published,
}

/// One set of places to measure, and how thoroughly.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// How often each trial is repeated.
    pub repeats: u32,
    /// Fewest repeats that are left where more do not fit the budget, at least 1.
    #[serde(default = "repeats_min_default")]
    pub repeats_min: u32,
    /// Measured part of a trial.
    pub duration_ms: u64,
    /// Part before it, never counted.
    pub warmup_ms: u64,
    /// Longest time it should take in all, seconds: repeats are taken back down to `repeats_min`,
    /// then durations halved, until it fits. Without it there is no limit.
    pub budget_s: Option<u64>,
    /// Where to measure: each sweep is a full product of its axes.
    #[serde(default)]
    pub sweep: Vec<Sweep>,
    /// Which batches to measure: each is a full product of its axes.
    #[serde(default)]
    pub batch: Vec<BatchSweep>,
    /// Which rates of renewal to measure: each is a full product of its axes.
    #[serde(default)]
    pub renewal: Vec<RenewalSweep>,
    /// Which rules to create and destroy: each is a full product of its axes.
    #[serde(default)]
    pub insertion: Vec<InsertionSweep>,
    /// Which changes to measure: each is a full product of its axes.
    #[serde(default)]
    pub change: Vec<ChangeSweep>,
    /// When rules take effect: each is a full product of its axes.
    #[serde(default)]
    pub effect: Vec<EffectSweep>,
    /// Over how many queues flows are spread: each is a full product of its axes.
    #[serde(default)]
    pub spread: Vec<SpreadSweep>,
    /// Which frame sizes to measure: each is a full product of its axes.
    #[serde(default)]
    pub size: Vec<SizeSweep>,
    /// Which cores, queues and ports to measure: each is a full product of its axes.
    #[serde(default)]
    pub scaling: Vec<ScalingSweep>,
    /// What of a spread changes while frames flow: each is a full product of its axes.
    #[serde(default)]
    pub respread: Vec<RespreadSweep>,
    /// Which messages to exchange: each is a full product of its axes.
    #[serde(default)]
    pub echo: Vec<EchoSweep>,
    /// Of which messages a ledger is made: each is a full product of its axes.
    #[serde(default)]
    pub ledger: Vec<EchoSweep>,
    /// What to ask of which servers: each is a full product of its axes.
    #[serde(default)]
    pub application: Vec<ApplicationSweep>,
    /// Which bulk data to send: each is a full product of its axes.
    #[serde(default)]
    pub stream: Vec<StreamSweep>,
    /// Which programs to measure: each is a full product of its axes.
    #[serde(default)]
    pub program: Vec<ProgramSweep>,
    /// Which requests a key-value store is to serve: each is a full product of its axes.
    #[serde(default)]
    pub serving: Vec<ServingSweep>,
    /// Which knees to search.
    #[serde(default)]
    pub knee: Vec<KneeSpec>,
    /// Which throughputs to search, and where.
    #[serde(default)]
    pub search: Vec<SearchSpec>,
}

fn repeats_min_default() -> u32 {
    1
}
