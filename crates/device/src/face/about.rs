//! The description of a device.

use serde::{Deserialize, Serialize};

/// The description of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// As it was asked for: `soft`, `linux:veth`, `dpdk:--vdev=net_ring0`.
    pub name: String,
    /// Driver, firmware, queues, speed, …: name and value in reading order.
    pub facts: Vec<Fact>,
    /// The path of the packets, from the generator to the sink.
    pub places: Vec<PathNode>,
    /// The path of packets in memory that pass a program ([`Task::Program`](crate::Task::Program));
    /// empty if it cannot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programmed: Vec<PathNode>,
    /// The path of requests in memory to a key-value store ([`Task::Store`](crate::Task::Store));
    /// empty if it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub serving: Vec<PathNode>,
    /// The path of packets in memory to engines of an intrusion detection
    /// ([`Task::Detection`](crate::Task::Detection)); empty if it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detecting: Vec<PathNode>,
    /// The path of tuples in memory to workers ([`Task::Analytics`](crate::Task::Analytics)); empty
    /// if it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counting: Vec<PathNode>,
    /// Time that it takes to load a program the first time, where that is more than the little that
    /// any trial takes, milliseconds.
    #[serde(default, skip_serializing_if = "is_none")]
    pub program_load_ms: u32,
    /// The path of messages between programs on two hosts
    /// ([`Task::RoundTrips`](crate::Task::RoundTrips)); empty if it cannot exchange messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<PathNode>,
    /// Both hosts are in this machine: neither a card nor a cable is between them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_one_machine: bool,
    /// Capabilities it lacks, by the names that
    /// [`DeviceError::NotSupported`](crate::DeviceError::NotSupported) uses.
    pub not_supported: Vec<String>,
    /// Reason for capabilities that name none: niclab does not drive it, or the card lacks it.
    /// A capability that says so itself has it in parentheses or behind a colon.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lacking: String,
    /// Its trials take far less time than they tell of.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_virtual_time: bool,
    /// Line rate of a port, Gbps L1; `None` where it has none, or does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_gbps: Option<f64>,
    /// Other hosts that have a part in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environments: Vec<HostEnvironment>,
}

/// Another host that has a part in a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostEnvironment {
    /// How it is reached: `ssh://dut`. Its agent leaves this empty.
    pub place: String,
    /// A number that its machine has and no other has; empty where it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
    /// Its name, processor, kernel, governor, …: name and value in reading order.
    pub facts: Vec<Fact>,
    /// Sources of noise there, each with its remedy.
    pub noise: Vec<String>,
}

impl DeviceInfo {
    /// A capability that is not supported, with who lacks it: niclab, the card, the kernel or a
    /// tool.
    pub fn lack(&self, capability: &str) -> String {
        let is_explained = capability.contains(" (") || capability.contains(": ");
        match self.lacking.is_empty() || is_explained {
            true => capability.to_owned(),
            false => format!("{capability} ({})", self.lacking),
        }
    }
}

/// One thing a device says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Such as `driver`.
    pub name: String,
    /// Such as `veth`.
    pub value: String,
}

/// A station of the packets' way, for the drawing of the testbed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathNode {
    /// `generator`, `wire`, `device`, `function`, `sink`, `client` or `server`.
    pub role: String,
    /// Its label.
    pub label: String,
    /// The core it has, where it runs on one.
    pub core: Option<u32>,
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsupported_capability_names_who_lacks_it() {
        let lacking = "niclab does not drive rte_flow".to_owned();
        let about = DeviceInfo { lacking, ..DeviceInfo::default() };
        assert_eq!(about.lack("rules"), "rules (niclab does not drive rte_flow)");
        for reported in ["rules (ntuple: driver veth has none)", "flower: the kernel lacks it"] {
            assert_eq!(about.lack(reported), reported);
        }
        assert_eq!(DeviceInfo::default().lack("rules"), "rules");
        for name in ["soft", "model:connectx-5", "peer:192.0.2.7"] {
            match crate::open(name) {
                Ok(device) => assert_ne!(device.about().lacking, "", "{name}"),
                Err(error) => {
                    println!("SKIP an_unsupported_capability_names_who_lacks_it: {error}")
                }
            }
        }
    }
}
