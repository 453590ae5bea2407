//! The times of a card, computed from its profile: of frames, and of operations on rules.

use niclab_nic::rule::Action;
use niclab_packet::size::{FrameSizes, RateLevel};

use super::polled_queues::Polling;
use super::profile::Profile;
use super::schema::INJECTED;
use crate::face::{DeviceError, Receive};
use crate::stack::Stack;

/// Nanoseconds of a second.
pub(super) const SECOND_NS: f64 = 1e9;

/// The error that an unknown number prevents a computation.
pub(super) fn unknown(section: &str, key: &str) -> DeviceError {
    let what = format!("what needs {section}.{key}, which is unknown in the profile");
    DeviceError::lacks(what)
}

fn needed(profile: &Profile, section: &str, key: &str) -> Result<f64, DeviceError> {
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
    /// The costs of group 0; `None` if unknown: without a rule there, the port is the limit.
    root: Option<Root>,
    cliff: Option<f64>,
    /// Time, rules near, time a million rules.
    table: Option<(f64, f64, f64)>,
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

/// The time of a frame in group 0, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Root {
    frame_ns: f64,
    rule_ns: f64,
    /// Rules that fit the near memory.
    near: f64,
    far_ns: f64,
}

impl Root {
    /// # Errors
    /// [`DeviceError::NotSupported`] where a part of it alone is known.
    fn of(profile: &Profile) -> Result<Option<Root>, DeviceError> {
        let number = |key| needed(profile, "root", key);
        let keys = ["frame_ns", "rule_ps", "near_rules", "far_ns"];
        if keys.iter().all(|key| profile.number("root", key).is_none()) {
            return Ok(None);
        }
        Ok(Some(Root {
            frame_ns: number("frame_ns")?,
            rule_ns: number("rule_ps")? / 1e3,
            near: number("near_rules")?,
            far_ns: number("far_ns")?,
        }))
    }
}

impl Path {
    /// # Errors
    /// [`DeviceError::NotSupported`] where the profile does not say what frames meet.
    pub fn of(profile: &Profile) -> Result<Path, DeviceError> {
        let number = |section, key| needed(profile, section, key);
        let injected = |key| profile.number(INJECTED, key);
        let table = |key| profile.number("groups", key);
        let pcie = |key| profile.number("pcie", key);
        let host = |key| profile.number("host", key);
        let queues = |key| profile.number("queues", key);
        Ok(Path {
            rate_gbps: number("port", "rate_gbps")?,
            frame_rate_max: profile.number("port", "frame_rate_max"),
            fifo: profile.number("port", "fifo_frames").unwrap_or(0.0),
            root: Root::of(profile)?,
            cliff: injected("cliff_rules"),
            table: table("table_ns")
                .zip(table("near_rules"))
                .zip(table("chain_ns"))
                .map(|((table, near), chain)| (table, near, chain)),
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
        let classifier = self.root_ns(way.root)? + self.groups_ns(way)?;
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

    /// Time in group 0. Rules beyond the near memory are gone through for each frame.
    fn root_ns(&self, rules: f64) -> Result<f64, DeviceError> {
        let root = match self.root {
            Some(root) => root,
            None if rules > 0.0 => return Err(unknown("root", "frame_ns")),
            None => return Ok(0.0),
        };
        let far = (rules - root.near).max(0.0);
        let time = root.frame_ns + root.rule_ns * rules + root.far_ns * far;
        Ok(match self.cliff {
            Some(cliff) if rules > cliff => 10.0 * time,
            _ => time,
        })
    }

    /// Time in the other groups. The tables of a group grow with its rules; few of them stay in
    /// the classifier's caches.
    fn groups_ns(&self, way: &GroupPath) -> Result<f64, DeviceError> {
        if way.groups.is_empty() {
            return Ok(0.0);
        }
        let (table, near, chain) = self.table.ok_or_else(|| unknown("groups", "table_ns"))?;
        let of = |(rules, share): &(f64, f64)| {
            share * (table * (1.0 - (-rules / near).exp()) + chain * rules / 1e6)
        };
        Ok(way.groups.iter().map(of).sum())
    }
}

/// The kind of a rule, as far as it determines its cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RuleKind {
    pub is_ipv4: bool,
    pub is_ipv6: bool,
    pub is_vlan: bool,
    pub is_tunnel: bool,
    /// Actions behind the first.
    pub actions: f64,
    /// It writes metadata or a tag.
    pub modifies: bool,
}

impl RuleKind {
    /// # Errors
    /// [`DeviceError::NotSupported`] for prefixes: each length is a table of its own, and what they
    /// cost nobody has published.
    pub fn of(stack: Stack, actions: &[Action]) -> Result<RuleKind, DeviceError> {
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
            Stack::Ipv4Prefix => {
                return Err(DeviceError::lacks("rules of prefixes"));
            }
        })
    }
}

/// The costs of operations on rules of one group and kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Costs {
    create_ns: f64,
    first_ns: f64,
    warm: f64,
    /// Of rules that go through the card's near memory: where it ends, and time a rule beyond it.
    far: Option<(f64, f64)>,
    /// Rules of other groups in the same memory.
    others: f64,
    /// Of great tables: rules near, further time.
    miss: Option<(f64, f64)>,
    beside_ns: Option<f64>,
    destroy_ns: Option<f64>,
    update_ns: Option<f64>,
    least_ns: f64,
}

impl Costs {
    /// Of a group that never has more rules than `most`; others that share its memory have
    /// `others` beside them.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] where the profile does not say.
    pub fn of(
        profile: &Profile,
        group: u32,
        kind: &RuleKind,
        (most, others): (f64, f64),
    ) -> Result<Costs, DeviceError> {
        let section = if group == 0 { "root_rules" } else { "group_rules" };
        let number = |key| needed(profile, section, key);
        let some = |key| profile.number(section, key);
        let is_root_ipv4 = group == 0 && kind.is_ipv4;
        let ipv4 = if is_root_ipv4 { number("ipv4_ns")? } else { 0.0 };
        let of_driver = |is: bool, key| if is { needed(profile, "driver", key) } else { Ok(0.0) };
        let is_ip = kind.is_ipv4 || kind.is_ipv6;
        let further = of_driver(is_ip && !is_root_ipv4, "ip_ns")?
            + of_driver(kind.is_ipv6, "ipv6_ns")?
            + of_driver(kind.is_vlan, "vlan_ns")?
            + of_driver(kind.is_tunnel, "tunnel_ns")?
            + kind.actions * of_driver(kind.actions > 0.0, "action_ns")?
            + of_driver(kind.modifies, "modify_ns")?
            + ipv4;
        let far = match is_root_ipv4 {
            true => Some((needed(profile, "root", "near_rules")?, number("far_ns")?)),
            false => None,
        };
        let miss = match group {
            0 => None,
            _ => match number("near_rules")? {
                near if most + others > near => Some((near, number("miss_ns")?)),
                near => Some((near, some("miss_ns").unwrap_or(0.0))),
            },
        };
        let rate_max = profile.number(INJECTED, "rule_rate_max");
        Ok(Costs {
            create_ns: number("create_ns")? + further,
            first_ns: number("first_ns")? + further,
            warm: number("warm_rules")?,
            far,
            miss,
            others,
            beside_ns: some("beside_ns"),
            destroy_ns: some("destroy_ns"),
            update_ns: if group == 0 { None } else { some("update_ns") },
            least_ns: rate_max.map_or(0.0, |per_s| SECOND_NS / per_s),
        })
    }

    fn miss_ns(&self, rules: f64) -> f64 {
        let all = (rules + self.others).max(1.0);
        self.miss.map_or(0.0, |(near, miss)| miss * (1.0 - near / all).max(0.0))
    }

    /// To create a rule beside so many, nanoseconds.
    pub fn create(&self, rules: f64) -> f64 {
        let cold = (self.first_ns - self.create_ns) * (-rules / self.warm).exp();
        let far = self.far.map_or(0.0, |(near, each)| each * (rules - near).max(0.0));
        (self.create_ns + cold + far + self.miss_ns(rules)).max(self.least_ns)
    }

    /// To create `count` rules beside so many, one after the other.
    pub fn created_ns(&self, rules: f64, count: u32) -> f64 {
        // What changes fast at first changes slowly later: steps that grow, each by its middle.
        let (mut at, mut total) = (0u32, 0.0);
        while at < count {
            let step = (at / 64).clamp(1, 4_096).min(count - at);
            total +=
                self.create(rules + f64::from(at) + f64::from(step - 1) / 2.0) * f64::from(step);
            at += step;
        }
        total
    }

    /// To create a rule or renew one on the core that forwards; `None` where nobody knows.
    pub fn create_beside(&self, rules: f64) -> Option<f64> {
        self.beside_ns.map(|beside| beside.max(self.create(rules)))
    }

    /// To destroy one of so many.
    pub fn destroy(&self, rules: f64) -> Option<f64> {
        self.destroy_ns.map(|destroy| (destroy + self.miss_ns(rules)).max(self.least_ns))
    }

    /// To destroy one of so many and create another: what the first brought into the caches, the
    /// second finds there.
    pub fn renew(&self, rules: f64) -> Option<f64> {
        let create = self.create(rules) - self.miss_ns(rules);
        self.destroy(rules).map(|destroy| (destroy + create).max(self.least_ns))
    }

    /// To change the actions of one of so many in place.
    pub fn update(&self, rules: f64) -> Option<f64> {
        self.update_ns.map(|update| (update + self.miss_ns(rules)).max(self.least_ns))
    }
}
