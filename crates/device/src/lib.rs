//! One face for everything measured: soft, model, linux, dpdk.
//!
//! A [`Testbed`] carries out what an experiment declares: it brings the device into a [`Setup`],
//! carries out a [`Task`], and returns an [`Observation`]. All three cross process borders as JSON,
//! because a testbed may live in another process or on another host.

pub mod address;
pub mod capability;
pub mod cases;
pub mod control;
pub mod cores;
pub mod dpdk;
pub mod energy;
pub mod face;
pub mod feature;
pub mod linux;
pub mod model;
pub mod pair;
pub mod peer;
pub mod plan;
mod processing;
pub mod program;
pub mod proof;
pub mod realtime;
pub mod rule_case;
pub mod rule_port;
mod scratch;
mod serving;
pub mod soft;
mod stack;
pub mod swx;
pub mod usage;

pub use face::{
    Application, BreakdownObservation, BreakdownParts, BreakdownTerm, DeviceError, DeviceInfo,
    Energy, Fact, Family, Function, Host, LinkUse, Observation, PathNode, Processing,
    ProgramObservation, ProofResult, Receive, RequestsObservation, RoundTrips,
    RoundTripsObservation, RuleBlock, RuleProof, Setup, SetupReport, StreamObservation, Streaming,
    Task, Testbed, WorstCase,
};
pub use feature::Feature;
pub use niclab_load::{
    Arrivals, Control, FLOWS_PROBED_MAX, Honesty, Latency, Load, LoadObservation, PortCounters,
    QueueCounters, Rate, Slice, Stalls,
};
pub use niclab_load::{echo, requests, stream};
pub use niclab_nic::rss::Rss;
pub use niclab_nic::rule::Action;
pub use plan::{
    BalanceMode, CallMode, ControlCore, OPERATIONS_PER_S_MAX, Plan, RSS_CHANGES_PER_S_MAX,
    RssChangeKind, RssPlan, RuleChangeKind, RuleWork, RulesPlan,
};
pub use serving::{BusTraffic, Serving, StepTime, StoreObservation};
pub use stack::{PREFIXES_MAX, Stack, prefixes_range};
pub use usage::CoreUse;

/// Opens a device by its name: `soft`, `model:…`, `linux:…`, `dpdk:…`, `peer:…` or `swx`.
///
/// # Errors
/// [`DeviceError::BadName`] for another name; whatever keeps the device from being used.
pub fn open(name: &str) -> Result<Box<dyn Testbed>, DeviceError> {
    match name.split_once(':').map_or(name, |(kind, _)| kind) {
        "soft" if name == "soft" => Ok(Box::new(soft::Soft::open()?)),
        "model" => model::open(name),
        "linux" | "linux-xdp" | "linux-tc" => linux::open(name),
        "dpdk" => dpdk::open(name),
        "peer" => peer::open(name),
        "swx" => swx::open(name),
        _ => Err(DeviceError::BadName {
            text: name.to_owned(),
            reason: "there are soft, model:PROFILE, linux:veth, linux:IFACE,IFACE, \
                     linux-xdp:veth, linux-xdp:IFACE,IFACE, linux-tc:veth, linux-tc:IFACE,IFACE, \
                     dpdk:EAL-ARGUMENTS, peer:ADDRESS, swx and swx:DIRECTORY"
                .to_owned(),
        }),
    }
}
