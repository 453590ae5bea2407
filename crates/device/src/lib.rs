//! One face for everything measured: soft, linux, dpdk.
//!
//! A [`Testbed`] carries out what an experiment declares: a [`Setup`], then a [`Load`] under a
//! [`Plan`], and returns one [`Observation`]. All four cross process borders as JSON, because a
//! testbed may live in another process or on another host.

mod cores;
pub mod face;
pub mod soft;

pub use face::{About, DeviceError, Fact, Function, Place, Placement, Plan, RuleBlock, Setup,
    SetupReport, Testbed};
pub use niclab_load::{
    Arrivals, Honesty, Latency, Load, Observation, PortCounters, QueueCounters, Rate, Slice, Stalls,
};
