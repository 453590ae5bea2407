//! The times of a card, computed from its profile: of frames, and of operations on rules.

use niclab_nic::rule::Action;
use niclab_packet::size::{FrameSizes, RateLevel};
use niclab_profile::UnknownNumber;
use niclab_profile::classifier::Classifier;
pub(super) use niclab_profile::rule_costs::{Costs, RuleKind};

use super::polled_queues::Polling;
use super::profile::Profile;
use super::schema::INJECTED;
use crate::face::{DeviceError, Receive};
use crate::stack::Stack;

/// Nanoseconds of a second.
pub(super) const SECOND_NS: f64 = 1e9;

/// The error that an unknown number prevents a computation.
pub(super) fn unknown(section: &'static str, key: &'static str) -> DeviceError {
    UnknownNumber { section, key }.into()
}

impl From<UnknownNumber> for DeviceError {
    fn from(unknown: UnknownNumber) -> DeviceError {
        DeviceError::lacks(unknown.to_string())
    }
}

fn needed(profile: &Profile, section: &'static str, key: &'static str) -> Result<f64, DeviceError> {
    profile.number(section, key).ok_or_else(|| unknown(section, key))
}

/// Rules that stand in the card's groups, and how the frames go through them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GroupPath {
    /// Rules of group 0.
    pub root: f64,
    /// Rules of each further group on the way, and the share of the frames that comes to it.
    pub groups: Vec<(f64, f64)>,
}

/// The path of frames through the card.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path {
    rate_gbps: f64,
    frame_rate_max: Option<f64>,
    /// Frames that wait for the classifier of a port; none where nobody knows, which changes
    /// nothing at a steady load.
    pub fifo: f64,
    classifier: Classifier,
    pcie: Option<(f64, f64)>,
    /// Queues of a port that take nothing from its frame rate, and the time of one beyond.
    queues: Option<(f64, f64)>,
    /// Latency that nothing shortens, and the longest time until the queue is polled, nanoseconds;
    /// `None` where latencies are unknown.
    pub idle_ns: Option<(f64, f64)>,
    /// Time of the host's core for a frame, nanoseconds.
    pub host_ns: f64,
    /// Further time of it where a port has several queues.
    several_ns: f64,
    /// Time of a core that receives for all others.
    serial_ns: Option<f64>,
    /// Descriptors of the receive queue; none where nobody knows, as of the FIFO.
    pub ring: f64,
    /// Frames taken from it at a time.
    burst: Option<f64>,
    /// Further latency, and the share of frames that have it.
    pub spike: Option<(f64, f64)>,
    /// Share of frames lost at random.
    pub loss: f64,
    /// Time of the core for a frame of the last of several queues, at least, nanoseconds.
    pub slow_queue_ns: Option<f64>,
}

impl Path {
    /// # Errors
    /// [`DeviceError::NotSupported`] where the profile does not say what frames meet.
    pub fn of(profile: &Profile) -> Result<Path, DeviceError> {
        let number = |section, key| needed(profile, section, key);
        let injected = |key| profile.number(INJECTED, key);
        let pcie = |key| profile.number("pcie", key);
        let host = |key| profile.number("host", key);
        let queues = |key| profile.number("queues", key);
        Ok(Path {
            rate_gbps: number("port", "rate_gbps")?,
            frame_rate_max: profile.number("port", "frame_rate_max"),
            fifo: profile.number("port", "fifo_frames").unwrap_or(0.0),
            classifier: Classifier::of(profile)?,
            pcie: match (pcie("frame_ns"), pcie("byte_ps")) {
                (Some(frame), Some(byte)) => Some((frame, byte)),
                (None, None) => None,
                (None, _) => return Err(unknown("pcie", "frame_ns")),
                (_, None) => return Err(unknown("pcie", "byte_ps")),
            },
            queues: queues("near_queues").zip(queues("far_ns")),
            idle_ns: host("base_ns").zip(host("wait_ns")),
            host_ns: number("host", "frame_ns")?,
            several_ns: queues("several_ns").unwrap_or(0.0),
            serial_ns: queues("serial_ns"),
            ring: host("ring_frames").unwrap_or(0.0),
            burst: host("burst_frames"),
            spike: injected("spike_ns").zip(injected("spike_ratio")),
            loss: injected("loss_ratio").unwrap_or(0.0),
            slow_queue_ns: injected("slow_queue_pps").map(|pps| SECOND_NS / pps),
        })
    }

    /// Frames a second that the wire carries.
    pub fn line_pps(&self, sizes: &FrameSizes) -> f64 {
        sizes.pps(self.rate_gbps, RateLevel::L1)
    }

    /// Mean time of a frame between the FIFOs and the host: the slowest of the stages that it goes
    /// through one behind the other. Each port has its own, but for the bus.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] where frames come to groups of which nothing is known.
    pub fn frame_ns(
        &self,
        way: &GroupPath,
        sizes: &FrameSizes,
        polling: Polling,
    ) -> Result<f64, DeviceError> {
        let mut classifier = self.classifier.root_ns(way.root)?;
        for (rules, share) in &way.groups {
            classifier += share * self.classifier.group_ns(*rules)?;
        }
        let most = self.frame_rate_max.map_or(0.0, |pps| {
            // A single core that receives needs a single queue.
            let queues = match polling.receive {
                Receive::Queues => f64::from(polling.queues),
                Receive::Serial => 1.0,
            };
            let far = |(near, ns): (f64, f64)| (queues - near).max(0.0) * ns;
            SECOND_NS / pps + self.queues.map_or(0.0, far)
        });
        let pcie = self.pcie.map_or(0.0, |(frame, byte)| frame + byte * sizes.mean() / 1e3);
        Ok((classifier.max(most) / f64::from(polling.ports)).max(pcie))
    }

    /// Time of a core for a frame, nanoseconds: where one receives for all others, of all of them
    /// together.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] where nobody knows what receiving for others takes.
    pub fn core_ns(&self, polling: Polling) -> Result<f64, DeviceError> {
        match (polling.receive, polling.cores) {
            (Receive::Serial, 1) => Ok(self.host_ns),
            (Receive::Serial, cores) => {
                let serial_ns = self.serial_ns.ok_or_else(|| unknown("queues", "serial_ns"))?;
                Ok(serial_ns.max(self.host_ns / f64::from(cores - 1)))
            }
            (Receive::Queues, _) if polling.queues > 1 => Ok(self.host_ns + self.several_ns),
            (Receive::Queues, _) => Ok(self.host_ns),
        }
    }

    /// Time between two looks of a busy core at a queue, nanoseconds.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] where nobody knows how many frames it takes at a time.
    pub fn turn_ns(&self) -> Result<f64, DeviceError> {
        Ok(self.host_ns * self.burst.ok_or_else(|| unknown("host", "burst_frames"))?)
    }
}

/// The kind of the rules of a stack.
///
/// # Errors
/// [`DeviceError::NotSupported`] for prefixes: each length is a table of its own, and what they
/// cost nobody has published.
pub(super) fn rule_kind(stack: Stack, actions: &[Action]) -> Result<RuleKind, DeviceError> {
    let kind = RuleKind {
        actions: actions.len().saturating_sub(1) as f64,
        modifies: actions
            .iter()
            .any(|action| matches!(action, Action::SetMeta { .. } | Action::SetTag { .. })),
        ..RuleKind::default()
    };
    Ok(match stack {
        Stack::Eth => kind,
        Stack::Ipv4 | Stack::Ipv4Tcp => RuleKind { is_ipv4: true, ..kind },
        Stack::Ipv6 | Stack::Ipv6Tcp => RuleKind { is_ipv6: true, ..kind },
        Stack::VlanIpv4Tcp => RuleKind { is_ipv4: true, is_vlan: true, ..kind },
        Stack::VlanIpv6Tcp => RuleKind { is_ipv6: true, is_vlan: true, ..kind },
        Stack::GreIpv4Tcp | Stack::VxlanIpv4Udp | Stack::GeneveIpv4Udp => {
            RuleKind { is_ipv4: true, is_tunnel: true, ..kind }
        }
        Stack::Ipv4Prefix => return Err(DeviceError::lacks("rules of prefixes")),
    })
}
