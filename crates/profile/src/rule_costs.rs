//! The times of operations on rules, computed from a profile.

use crate::profile::Profile;
use crate::schema::INJECTED;
use crate::{UnknownNumber, needed};

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;

/// The kind of a rule, as far as it determines its cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RuleKind {
    /// It matches IPv4 addresses.
    pub is_ipv4: bool,
    /// It matches IPv6 addresses.
    pub is_ipv6: bool,
    /// It matches a VLAN.
    pub is_vlan: bool,
    /// It looks into a tunnel.
    pub is_tunnel: bool,
    /// Actions behind the first.
    pub actions: f64,
    /// It writes metadata or a tag.
    pub modifies: bool,
}

/// The costs of operations on rules of one group and kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
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
    /// [`UnknownNumber`] where the profile does not say.
    pub fn of(
        profile: &Profile,
        group: u32,
        kind: &RuleKind,
        (most, others): (f64, f64),
    ) -> Result<Costs, UnknownNumber> {
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

    /// The same beside so many rules of other groups in the same memory.
    pub fn beside_others(self, others: f64) -> Costs {
        Costs { others, ..self }
    }

    /// Further time of an operation on one of so many rules that the host's caches do not have.
    pub fn miss_ns(&self, rules: f64) -> f64 {
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
