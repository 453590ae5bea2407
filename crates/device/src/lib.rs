//! One face for everything measured: soft, model, linux, dpdk.
//!
//! A [`Testbed`] carries out what an experiment declares: it brings the device into a [`Setup`],
//! carries out a [`Task`], and returns an [`Observation`]. All three cross process borders as JSON,
//! because a testbed may live in another process or on another host.

pub mod address;
mod cache_misses;
pub mod capability;
pub mod cases;
pub mod control;
mod conversation;
pub mod cores;
mod counting;
mod detecting;
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
pub mod remote;
pub mod rule_case;
pub mod rule_port;
mod scratch;
mod serving;
pub mod soft;
mod stack;
pub mod swx;
pub mod two_hosts;
pub mod usage;

pub use counting::{AnalyticsObservation, Counting, TupleMode, TupleWorkload, WorkStepTime};
pub use detecting::{
    Detecting, DetectionCore, DetectionObservation, DetectionWorkload, InspectionEngine,
    RuleDivision, RuleMix,
};
pub use face::{
    Application, BreakdownObservation, BreakdownParts, BreakdownTerm, DeviceError, DeviceInfo,
    Energy, Fact, Family, Function, Host, HostEnvironment, LinkUse, Observation, PathNode,
    Processing, ProgramObservation, ProofResult, Receive, RequestsObservation, RoundTrips,
    RoundTripsObservation, RuleBlock, RuleProof, Setup, SetupReport, StreamObservation, Streaming,
    Task, Testbed, WorstCase,
};
pub use feature::Feature;
pub use niclab_load::{
    Arrivals, Control, FLOWS_PROBED_MAX, Honesty, Latency, Load, LoadObservation, PortCounters,
    QueueCounters, Rate, Slice, Stalls, StampedFrames,
};
pub use niclab_load::{echo, requests, stream};
pub use niclab_nic::rss::Rss;
pub use niclab_nic::rule::Action;
pub use niclab_packet::timestamp::TimestampClock;
pub use plan::{
    BalanceMode, CallMode, ControlCore, OPERATIONS_PER_S_MAX, Plan, RSS_CHANGES_PER_S_MAX,
    RssChangeKind, RssPlan, RuleChangeKind, RuleWork, RulesPlan,
};
pub use serving::{BusTraffic, Serving, StepTime, StoreObservation};
pub use stack::{PREFIXES_MAX, Stack, prefixes_range};
pub use usage::CoreUse;

/// Kinds of devices: what a name begins with, up to its colon.
const KINDS: [&str; 8] = ["soft", "model", "linux", "linux-xdp", "linux-tc", "dpdk", "peer", "swx"];

/// The kind of a device of this host.
fn kind(name: &str) -> &str {
    name.split_once(':').map_or(name, |(kind, _)| kind)
}

/// Whether a name begins as those of this host's devices do.
pub(crate) fn is_device_name(name: &str) -> bool {
    KINDS.contains(&kind(name))
}

/// Opens half of a testbed of two hosts: `linux:…`, `linux-xdp:…` or `linux-tc:…` with one
/// interface, or `dpdk:…` with one port. `far` is the connection to the host with the tester, for
/// the device's half.
///
/// # Errors
/// [`DeviceError::NotSupported`] for devices that cannot be halved; [`DeviceError::BadName`];
/// whatever keeps the device from being used.
pub(crate) fn open_half(
    name: &str,
    role: two_hosts::Role,
    far: two_hosts::FarLink,
) -> Result<Box<dyn Testbed>, DeviceError> {
    match (kind(name), role) {
        (_, two_hosts::Role::Whole) => open(name),
        ("linux" | "linux-xdp" | "linux-tc", two_hosts::Role::Tester) => linux::open_tester(name),
        ("linux" | "linux-xdp" | "linux-tc", two_hosts::Role::Device) => {
            linux::open_device(name, far)
        }
        ("dpdk", role) => dpdk::open_half(name, role, far),
        (kind, _) if KINDS.contains(&kind) => Err(DeviceError::lacks(format!(
            "a tester and a device on two hosts with {kind}; {}",
            halves_of(role)
        ))),
        _ => {
            Err(DeviceError::BadName { text: name.to_owned(), reason: halves_of(role).to_owned() })
        }
    }
}

/// Names the ports that can be this part of a testbed of two hosts.
pub(crate) fn halves_of(role: two_hosts::Role) -> &'static str {
    match role {
        two_hosts::Role::Tester => "a tester is linux:IFACE, linux-xdp:IFACE or dpdk:EAL-ARGUMENTS",
        two_hosts::Role::Device | two_hosts::Role::Whole => {
            "a device is linux:IFACE, linux-xdp:IFACE, linux-tc:IFACE or dpdk:EAL-ARGUMENTS"
        }
    }
}

/// Opens a device of this host by its name: `soft`, `model:…`, `linux:…`, `dpdk:…`, `peer:…` or
/// `swx`. [`remote::open`] opens those of others.
///
/// # Errors
/// [`DeviceError::BadName`] for another name; whatever keeps the device from being used.
pub fn open(name: &str) -> Result<Box<dyn Testbed>, DeviceError> {
    match kind(name) {
        "soft" if name == "soft" => Ok(Box::new(soft::Soft::open()?)),
        "model" => model::open(name),
        "linux" | "linux-xdp" | "linux-tc" => linux::open(name),
        "dpdk" => dpdk::open(name),
        "peer" => peer::open(name),
        "swx" => swx::open(name),
        _ if remote::is_remote(name) => Err(DeviceError::lacks("devices of other hosts here")),
        _ => Err(DeviceError::BadName {
            text: name.to_owned(),
            reason: "there are soft, model:PROFILE, linux:veth, linux:IFACE,IFACE, \
                     linux-xdp:veth, linux-xdp:IFACE,IFACE, linux-tc:veth, linux-tc:IFACE,IFACE, \
                     dpdk:EAL-ARGUMENTS, peer:ADDRESS, swx and swx:DIRECTORY; on another host \
                     ssh://HOST=DEVICE and exec:COMMAND=DEVICE"
                .to_owned(),
        }),
    }
}
