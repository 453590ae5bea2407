//! What is asked of a point.

use serde::{Deserialize, Serialize};

/// What is asked of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialKind {
    /// As much as the device takes: throughput, and the latency of a full ring.
    Saturate,
    /// Latency, open loop, at a share of the maximum.
    Latency,
    /// Latency of an almost idle device.
    Light,
    /// Loss and latency, open loop, at a rate that was asked for.
    Fixed,
    /// Throughput over time while nothing changes: what `batch` is compared with.
    Rest,
    /// Throughput over time while a batch of rules is created.
    Batch,
    /// Rules are created and destroyed without packets.
    Insert,
    /// Rules are changed, without packets or while these meet them.
    Change,
    /// Rules are created one by one while frames of their flows probe whether they are there.
    Effect,
    /// As much as the device takes, over several queues: what comes to each.
    Spread,
    /// As much as the device takes, by so many cores.
    Scaling,
    /// Frames flow while their spread over queues changes.
    Respread,
    /// Messages go to a server and back.
    Echo,
    /// The same with stamps and without, in turn.
    Ledger,
    /// Clients ask a server.
    Application,
    /// One host sends to another as much as goes.
    Stream,
    /// Packets in memory go through a program.
    Process,
    /// Requests in memory are served by a key-value store.
    Serve,
}

impl TrialKind {
    /// Its name in samples.
    pub fn name(self) -> &'static str {
        match self {
            TrialKind::Saturate => "saturate",
            TrialKind::Latency => "latency",
            TrialKind::Light => "light",
            TrialKind::Fixed => "fixed",
            TrialKind::Rest => "rest",
            TrialKind::Batch => "batch",
            TrialKind::Insert => "insert",
            TrialKind::Change => "change",
            TrialKind::Effect => "effect",
            TrialKind::Spread => "spread",
            TrialKind::Scaling => "scaling",
            TrialKind::Respread => "respread",
            TrialKind::Echo => "echo",
            TrialKind::Ledger => "ledger",
            TrialKind::Application => "application",
            TrialKind::Stream => "stream",
            TrialKind::Process => "process",
            TrialKind::Serve => "serve",
        }
    }
}

/// Over what matching traffic is uniform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hits {
    /// The flows of the traffic: the first `match_percent` of them have rules, the other rules are
    /// never hit.
    #[default]
    Flows,
    /// The rules: the traffic has as many flows as it takes to hit every rule.
    Rules,
}
