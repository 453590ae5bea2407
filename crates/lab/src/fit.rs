//! Fits a profile of a modelled card to measurements of a real one.
//!
//! Each number of a profile is found from the few points that depend on it most, by a closed form
//! or a linear fit of least relative errors; one that nothing seen depends on stays unknown.

pub mod echoes;
pub(crate) mod published;
pub(crate) mod results;

pub use published::fitted;
pub use results::{FitError, of_results};

use niclab_device::model::profile::{Basis, Entry, Part, Profile, rounded};
use niclab_device::model::schema::{self, INJECTED, Section};

/// What was seen of a card. Times in nanoseconds, rates in operations a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CardMeasurements {
    /// What the profile says of the figures' source, and of each of them: by `2a`, … `6`.
    pub source: String,
    /// Who forwarded the frames, and that he takes 32 at a time.
    pub forwarder: String,
    /// The experiments are those of the study, by its figures; else by the names of ours.
    pub is_study: bool,
    /// Rate of the link, Gbps at L1, and whether the source says so.
    pub rate_gbps: Option<(f64, Basis)>,
    /// Time of a frame at the rate of the link.
    pub line_ns: f64,
    /// Most rules of group 0, and whether the source says so.
    pub capacity: Option<(f64, Basis)>,
    /// Rules of group 0, and time of a frame at full load.
    pub root: Vec<(f64, f64)>,
    /// Groups, rules in all of them, and time of a frame at full load.
    pub groups: Vec<(f64, f64, f64)>,
    /// Least and greatest latency of frames that meet hardly a rule and wait for nothing.
    pub idle_ns: Option<(f64, f64)>,
    /// Latency while the FIFO is full, and the time of a frame then.
    pub full_ns: Option<(f64, f64)>,
    /// Replacements a tick, for groups 0 and 1: a second, and time of a frame on the same core.
    pub churn: [Vec<(f64, f64)>; 2],
    /// Mean latency at full load while the core that forwards does nothing else.
    pub rest_ns: Option<f64>,
    /// Rules created a second.
    pub created: Vec<Created>,
    /// Rules changed a second in group 1, of so many: in place, and anew.
    pub updated: [Vec<(f64, f64)>; 2],
    /// Rules destroyed a second, of so many, for groups 0 and 1.
    pub destroyed: [Vec<(f64, f64)>; 2],
}

/// Rules created a second.
#[derive(Clone, Debug, PartialEq)]
pub struct Created {
    /// 0 or 1.
    pub group: usize,
    /// By its name in experiments: `eth/ipv4/tcp`.
    pub stack: &'static str,
    /// 1 to 4 of the experiment's actions.
    pub actions: usize,
    /// How many.
    pub rules: f64,
    /// A second.
    pub per_s: f64,
}

impl CardMeasurements {
    /// What a figure is called in its source.
    fn name<'a>(&self, figure: &'a str) -> &'a str {
        match (self.is_study, figure.as_bytes()) {
            (true, _) => figure,
            (false, [b'2', ..]) => "occupancy",
            (false, [b'4', ..]) => "update-rate",
            (false, [b'6', ..]) => "rule-update",
            (false, _) => "rule-rate",
        }
    }
}

/// From this share of the link's frame time on, the card is what limits.
const LIMITED: f64 = 1.03;

/// Frames that forwarders on DPDK take from a queue at a time.
const BURST: f64 = 32.0;

/// Time of a core that is hardly as fast as the wire, by that of the wire: a little more than what
/// trials of a model differ by.
const HARDLY: f64 = 1.004;

/// More rules than these may not fit the host's caches.
const GREAT: f64 = 65_536.0;

/// Rules of which the first are most of the time.
const FEW: f64 = 16.0;

/// A frame that takes so many times as long as with half the rules goes through far memory.
const FAR: f64 = 8.0;

/// Numbers as they are found, by section and key.
struct FittedNumbers<'a> {
    measurements: &'a CardMeasurements,
    entries: Vec<(&'static str, &'static str, Entry)>,
}

/// A profile that says what was seen; `inherits` is that of another card whose driver it shares.
pub fn fit(
    title: &str,
    seen: &CardMeasurements,
    fitted_to: Vec<String>,
    lacks_groups: bool,
    inherits: Option<&Profile>,
) -> Profile {
    let mut found = FittedNumbers { measurements: seen, entries: Vec::new() };
    found.port();
    let near = found.root();
    found.groups();
    found.host();
    found.created(near);
    found.changed();
    if let Some(from) = inherits {
        found.inherit(from);
    }
    let entries = found.entries;
    Profile::of(title.to_owned(), seen.source.clone(), fitted_to, |section: &'static Section| {
        if section.name == INJECTED || (section.may_lack && lacks_groups) {
            return Part::Lacking;
        }
        let keys = section.keys.iter().map(|key| {
            let known =
                |(of, name, _): &&(&str, &str, Entry)| *of == section.name && *name == key.name;
            let entry =
                entries.iter().find(known).map_or(Entry::Unknown, |(.., entry)| entry.clone());
            (key, entry)
        });
        let keys: Vec<_> = keys.collect();
        match keys.iter().all(|(_, entry)| *entry == Entry::Unknown) {
            true => Part::Unknown,
            false => Part::Known(keys),
        }
    })
}

impl FittedNumbers<'_> {
    fn put(
        &mut self,
        section: &'static str,
        key: &'static str,
        value: f64,
        basis: Basis,
        figure: &str,
    ) {
        // What comes out below nothing was not seen.
        if !value.is_finite() || value < 0.0 {
            return;
        }
        let source = match figure {
            "" => self.measurements.source.clone(),
            figure => format!("{}: {}", self.measurements.source, self.measurements.name(figure)),
        };
        self.push(section, key, value, basis, source);
    }

    /// Four digits say all that a figure does; what is counted is whole.
    fn push(
        &mut self,
        section: &'static str,
        key: &'static str,
        value: f64,
        basis: Basis,
        source: String,
    ) {
        let unit = schema::section(section).and_then(|known| known.key(key)).map(|key| key.unit);
        let value = match unit {
            Some("rules" | "frames") => value.round().max(1.0),
            _ if basis == Basis::Stated => value,
            _ => rounded(value, 4),
        };
        self.entries.push((section, key, Entry::Known { value, basis, source }));
    }

    fn fitted(&mut self, section: &'static str, key: &'static str, value: f64, figure: &str) {
        self.put(section, key, value, Basis::Fitted, figure);
    }

    fn number(&self, section: &str, key: &str) -> Option<f64> {
        self.entries.iter().find_map(|(of, name, entry)| match entry {
            Entry::Known { value, .. } if *of == section && *name == key => Some(*value),
            _ => None,
        })
    }

    fn port(&mut self) {
        let seen = self.measurements;
        if let Some((gbps, basis)) = seen.rate_gbps {
            self.put("port", "rate_gbps", gbps, basis, "");
        }
        if let Some(((full_ns, frame_ns), (least, most))) = seen.full_ns.zip(seen.idle_ns) {
            // Little's law: what waits, waits for those in front of it.
            let frames = (full_ns - (least + most) / 2.0) / frame_ns;
            self.fitted("port", "fifo_frames", frames, "2c");
        }
    }

    /// Group 0; gives the rules of its near memory.
    fn root(&mut self) -> Option<f64> {
        let seen = self.measurements;
        let tried = seen.root.iter().map(|(rules, _)| *rules).reduce(f64::max);
        let tried = tried.map(|rules| (rules.max(1.0), Basis::AtLeast));
        if let Some((rules, basis)) = seen.capacity.or(tried) {
            self.put("root", "rules_max", rules, basis, "");
        }
        let limited = |(_, ns): &&(f64, f64)| *ns > LIMITED * seen.line_ns;
        let limited: Vec<(f64, f64)> = seen.root.iter().filter(limited).copied().collect();
        let is_far = |(rules, ns): &(f64, f64)| {
            let lesser = seen.root.iter().filter(|(fewer, _)| *fewer < 0.95 * rules);
            let lesser = lesser.map(|(_, ns)| *ns).fold(seen.line_ns, f64::max);
            *ns > FAR * lesser.min(10.0 * seen.line_ns)
        };
        let (far, near): (Vec<_>, Vec<_>) = limited.into_iter().partition(is_far);
        let (mut frame_ns, mut rule_ns) = line(&near).unwrap_or((0.0, 0.0));
        if frame_ns < 0.0 || near.len() < 2 {
            frame_ns = 0.0;
            rule_ns = slope(&near).unwrap_or(0.0);
        }
        if seen.root.is_empty() {
            return None;
        }
        let basis = if frame_ns > 0.0 { Basis::Fitted } else { Basis::AtLeast };
        self.put("root", "frame_ns", frame_ns, basis, "2a");
        self.fitted("root", "rule_ps", 1e3 * rule_ns, "2a");
        let most = seen.capacity.map_or(f64::INFINITY, |(rules, _)| rules);
        let edge = match far.as_slice() {
            // Of a single point no line: the edge is where it was last seen to be near.
            [(rules, ns)] => {
                let fewer = seen.root.iter().map(|(fewer, _)| *fewer);
                let edge = fewer.filter(|fewer| fewer < rules).fold(1.0, f64::max);
                Some((edge, (ns - frame_ns - rule_ns * rules) / (rules - edge)))
            }
            far => line(far).map(|(start, far_ns)| (-start / far_ns, far_ns)),
        };
        let is_edge = |(_, far_ns): &(f64, f64)| far_ns.is_finite() && *far_ns > 0.0;
        let Some((edge, far_ns)) = edge.filter(is_edge) else {
            // No such edge: all of it is near.
            let most = seen.root.iter().map(|(rules, _)| *rules).fold(1.0, f64::max).min(most);
            self.fitted("root", "near_rules", most, "2a");
            self.fitted("root", "far_ns", 0.0, "2a");
            return Some(most);
        };
        let edge = edge.clamp(1.0, most);
        self.fitted("root", "near_rules", edge, "2a");
        self.fitted("root", "far_ns", far_ns, "2a");
        Some(edge)
    }

    fn groups(&mut self) {
        let seen = self.measurements;
        let limited = |(.., ns): &&(f64, f64, f64)| *ns > LIMITED * seen.line_ns;
        let limited: Vec<_> = seen.groups.iter().filter(limited).copied().collect();
        let Some(most) = seen.groups.iter().map(|(_, rules, _)| *rules).reduce(f64::max) else {
            return;
        };
        if limited.len() < 3 {
            return;
        }
        // Each frame goes through group 0 in front of them.
        let root_ns = self.number("root", "frame_ns").unwrap_or(0.0);
        let edges = (0..160).map(|step| 10f64.powf(1.0 + f64::from(step) / 40.0));
        let tried = edges.map(|near| {
            let basis = |(groups, rules, ns): &(f64, f64, f64)| {
                (groups * (1.0 - (-rules / groups / near).exp()), rules / 1e6, ns - root_ns)
            };
            let rows: Vec<_> = limited.iter().map(basis).collect();
            let (table, chain, error) = plane(&rows);
            (error, near, table, chain)
        });
        if let Some((_, near, table, chain)) = tried.min_by(|a, b| a.0.total_cmp(&b.0)) {
            self.put("groups", "rules_max", most, Basis::AtLeast, "2b");
            self.fitted("groups", "table_ns", table, "2b");
            self.fitted("groups", "near_rules", near, "2b");
            self.fitted("groups", "chain_ns", chain, "2b");
        }
    }

    fn host(&mut self) {
        let seen = self.measurements;
        let Some((least, most)) = seen.idle_ns else { return };
        self.fitted("host", "base_ns", least, "2c");
        // From the first to the 99th percentile: 98 % of the whole.
        self.fitted("host", "wait_ns", (most - least) / 0.98, "2c");
        if let Some(rest_ns) = seen.rest_ns {
            // Frames wait although the classifier keeps up: the queue in front of the core is full,
            // and the core hardly as fast as the wire. A ring has room for a burst: where less than
            // that waits, the core is at least as fast as the wire.
            let waits_ns = rest_ns - (least + most) / 2.0;
            let (host_ns, basis) = match waits_ns >= BURST * seen.line_ns {
                true => (HARDLY * seen.line_ns, Basis::Fitted),
                false => (seen.line_ns / HARDLY, Basis::AtMost),
            };
            // A ring that is never full has room for a burst at least.
            let (ring, of_ring) = match basis {
                Basis::Fitted => (waits_ns / host_ns, Basis::Fitted),
                _ => (BURST, Basis::AtLeast),
            };
            self.put("host", "frame_ns", host_ns, basis, "4c");
            self.put("host", "ring_frames", ring.max(BURST), of_ring, "4c");
            let usual = seen.forwarder.clone();
            self.push("host", "burst_frames", BURST, Basis::Stated, usual);
        }
        for (section, group) in [("root_rules", 0), ("group_rules", 1)] {
            let (per_s, ns): (Vec<f64>, Vec<f64>) = seen.churn[group].iter().copied().unzip();
            // A tick of work, then one of rest: of the time, 1 / (1 + rate x cost) is left.
            let costs = per_s.iter().zip(&ns).map(|(per_s, ns)| (ns / seen.line_ns - 1.0) / per_s);
            let costs: Vec<f64> = costs.collect();
            if let Some(cost_s) = crate::statistics::median(&costs) {
                self.fitted(
                    section,
                    "beside_ns",
                    1e9 * cost_s,
                    if group == 0 { "4a" } else { "4b" },
                );
            }
        }
    }

    fn created(&mut self, near: Option<f64>) {
        let seen = self.measurements;
        let of = |group: usize, stack: &str, actions: usize| -> Vec<(f64, f64)> {
            let is =
                |one: &&Created| one.group == group && one.stack == stack && one.actions == actions;
            let found = seen.created.iter().filter(is);
            let mut times: Vec<(f64, f64)> =
                found.map(|one| (one.rules, one.rules / one.per_s * 1e9)).collect();
            times.sort_by(|a, b| a.0.total_cmp(&b.0));
            times
        };
        for (section, group, figure) in [("root_rules", 0, "5a"), ("group_rules", 1, "5b")] {
            let Some(warmed) = WarmUp::of(&of(group, "eth", 1)) else { continue };
            self.fitted(section, "create_ns", warmed.each_ns, figure);
            self.fitted(section, "first_ns", warmed.first_ns, figure);
            self.fitted(section, "warm_rules", warmed.warm, figure);
            if group == 0 {
                self.root_ipv4(&of(0, "eth/ipv4", 1), &warmed, near);
                continue;
            }
            // What the last point of each takes longer, a rule.
            let last = |stack, actions| of(1, stack, actions).last().map(|(rules, ns)| ns / rules);
            let Some(eth) = last("eth", 1) else { continue };
            let (ipv4, ipv6) = (last("eth/ipv4", 1), last("eth/ipv6", 1));
            let less = |more: Option<f64>, base: Option<f64>| Some(more? - base?);
            let one = last("eth", 1);
            let costs = [
                ("ip_ns", ipv4.map(|ns| ns - eth), "5b"),
                ("ipv6_ns", less(ipv6, ipv4), "5b"),
                ("vlan_ns", less(last("eth/vlan/ipv4/tcp", 1), ipv4), "5c"),
                ("tunnel_ns", less(last("gre/ipv4/tcp", 1), ipv4), "5c"),
                ("action_ns", less(last("eth", 2), one), "5d"),
                ("modify_ns", less(last("eth", 3), last("eth", 2)), "5d"),
            ];
            let action_ns = less(last("eth", 2), one).unwrap_or(0.0).max(0.0);
            for (key, cost, figure) in costs {
                let cost = if key == "modify_ns" { cost.map(|ns| ns - action_ns) } else { cost };
                if let Some(cost) = cost {
                    self.fitted("driver", key, cost, figure);
                }
            }
        }
    }

    /// Rules that match IPv4 go through the near memory and what is beyond it.
    fn root_ipv4(&mut self, times: &[(f64, f64)], warmed: &WarmUp, near: Option<f64>) {
        let Some(near) = near else { return };
        let before: Vec<_> = times.iter().filter(|(rules, _)| *rules <= near).copied().collect();
        let Some((rules, ns)) = before.last().copied().filter(|(rules, _)| *rules > 1.0) else {
            return;
        };
        let each_ns = (ns - warmed.cold_ns(rules)) / rules;
        self.fitted("root_rules", "ipv4_ns", each_ns - warmed.each_ns, "5a");
        let far = times.iter().filter(|(rules, _)| *rules > near);
        let far: Vec<f64> = far
            .map(|(rules, ns)| {
                let far = rules - near;
                2.0 * (ns - warmed.cold_ns(*rules) - each_ns * rules) / (far * far)
            })
            .collect();
        self.fitted("root_rules", "far_ns", crate::statistics::median(&far).unwrap_or(0.0), "5a");
    }

    fn changed(&mut self) {
        let seen = self.measurements;
        let times = |rates: &[(f64, f64)]| -> Vec<(f64, f64)> {
            rates.iter().map(|(rules, per_s)| (*rules, 1e9 / per_s)).collect()
        };
        let in_place = times(&seen.updated[0]);
        let mut near_miss = None;
        if in_place.len() >= 3 {
            let edges = (0..130).map(|step| 10f64.powf(4.0 + f64::from(step) / 50.0));
            let tried = edges.map(|near| {
                let row = |(rules, ns): &(f64, f64)| (1.0, (1.0 - near / rules).max(0.0), *ns);
                let rows: Vec<_> = in_place.iter().map(row).collect();
                let (update, miss, error) = plane(&rows);
                (error, near, update, miss)
            });
            if let Some((_, near, update, miss)) = tried.min_by(|a, b| a.0.total_cmp(&b.0)) {
                self.fitted("group_rules", "near_rules", near, "6");
                self.fitted("group_rules", "miss_ns", miss, "6");
                self.fitted("group_rules", "update_ns", update, "6");
                near_miss = Some((near, miss));
            }
        }
        let create = self.number("group_rules", "create_ns");
        let create = create.map(|ns| ns + self.number("driver", "ip_ns").unwrap_or(0.0));
        if let (Some(create), Some((near, miss))) = (create, near_miss) {
            let anew = times(&seen.updated[1]);
            let destroy =
                anew.iter().map(|(rules, ns)| ns - create - miss * (1.0 - near / rules).max(0.0));
            if let Some(destroy) = crate::statistics::median(&destroy.collect::<Vec<_>>()) {
                self.fitted("group_rules", "destroy_ns", destroy, "6");
            }
        }
        for (section, group) in [("root_rules", 0), ("group_rules", 1)] {
            let each: Vec<f64> = times(&seen.destroyed[group]).iter().map(|(_, ns)| *ns).collect();
            let is_there = self.number(section, "destroy_ns").is_some();
            if let Some(ns) = crate::statistics::median(&each).filter(|_| !is_there) {
                self.fitted(section, "destroy_ns", ns, "5");
            }
        }
        // What misses cost was not seen: up to so many rules there were none.
        if near_miss.is_none() && create.is_some() {
            let most = seen.created.iter().map(|one| one.rules).fold(1.0, f64::max);
            self.put("group_rules", "near_rules", most, Basis::AtLeast, "5b");
        }
    }

    /// Takes what another card says of the driver, and of changes in groups.
    fn inherit(&mut self, from: &Profile) {
        let sections = from.sections().filter(|(section, _)| {
            section.name == "driver"
                || (section.name == "group_rules" && !self.measurements.groups.is_empty())
        });
        for (section, part) in sections {
            let Part::Known(keys) = part else { continue };
            for (key, entry) in keys {
                let Entry::Known { value, source, .. } = entry else { continue };
                let is_own = self.entries.iter().any(|(of, name, entry)| {
                    let is_it = *of == section.name && *name == key.name;
                    is_it && matches!(entry, Entry::Known { basis: Basis::Fitted, .. })
                });
                if is_own {
                    continue;
                }
                self.entries.retain(|(of, name, _)| !(*of == section.name && *name == key.name));
                let source = format!("as {}, which has the same driver: {source}", from.title);
                let entry = Entry::Known { value: *value, basis: Basis::Inherited, source };
                self.entries.push((section.name, key.name, entry));
            }
        }
    }
}

/// What creating rules takes: the first ones longer, until everything that grows has grown.
struct WarmUp {
    each_ns: f64,
    first_ns: f64,
    warm: f64,
}

impl WarmUp {
    /// Of numbers of rules and times; `None` of less than three. Great tables take longer for
    /// another reason.
    fn of(times: &[(f64, f64)]) -> Option<WarmUp> {
        let great = times.iter().position(|(rules, _)| *rules > GREAT);
        let times = &times[..great.unwrap_or(times.len())];
        let [(one, one_ns), rest @ ..] = times else { return None };
        // All but the first are of so many that whatever grows has grown: a line, and what it took.
        let (more_ns, each_ns) = line(rest).filter(|_| rest.len() > 1)?;
        // Only few show what the first takes; of many, the first are hardly seen.
        let first_ns = if *one <= FEW { (one_ns / one).max(each_ns) } else { each_ns };
        let warm = if first_ns > each_ns { more_ns / (first_ns - each_ns) } else { 1.0 };
        Some(WarmUp { each_ns, first_ns, warm: warm.max(1.0) })
    }

    /// What the first of so many rules took longer, all together.
    fn cold_ns(&self, rules: f64) -> f64 {
        (self.first_ns - self.each_ns) * self.warm * (1.0 - (-rules / self.warm).exp())
    }
}

/// Intercept and slope of a line with the least relative errors; of one point through the origin.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    if points.len() < 2 {
        return slope(points).map(|slope| (0.0, slope));
    }
    let weight = |y: f64| 1.0 / (y * y);
    let sum = |of: fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|(x, y)| weight(*y) * of(*x, *y)).sum()
    };
    let (w, x, y) = (sum(|_, _| 1.0), sum(|x, _| x), sum(|_, y| y));
    let (xx, xy) = (sum(|x, _| x * x), sum(|x, y| x * y));
    let slope = (w * xy - x * y) / (w * xx - x * x);
    Some(((y - slope * x) / w, slope))
}

/// Slope of a line through the origin with the least relative errors.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let shares = points.iter().map(|(x, y)| x / y);
    let (one, two) =
        shares.fold((0.0, 0.0), |(one, two), share| (one + share, two + share * share));
    (two > 0.0).then(|| one / two)
}

/// Factors a and b, neither below zero, so that `a x + b y` meets z with the least relative errors,
/// and their sum of squares.
fn plane(rows: &[(f64, f64, f64)]) -> (f64, f64, f64) {
    let sum = |of: fn(f64, f64, f64) -> f64| -> f64 {
        rows.iter().map(|(x, y, z)| of(x / z, y / z, 1.0)).sum()
    };
    let (xx, yy, xy) = (sum(|x, _, _| x * x), sum(|_, y, _| y * y), sum(|x, y, _| x * y));
    let (x, y) = (sum(|x, _, _| x), sum(|_, y, _| y));
    let determinant = xx * yy - xy * xy;
    let mut both = ((x * yy - y * xy) / determinant, (y * xx - x * xy) / determinant);
    if !both.0.is_finite() || both.1 < 0.0 {
        both = (if xx > 0.0 { x / xx } else { 0.0 }, 0.0);
    } else if both.0 < 0.0 {
        both = (0.0, y / yy);
    }
    let error = rows.iter().map(|(x, y, z)| ((both.0 * x + both.1 * y) / z - 1.0).powi(2)).sum();
    (both.0, both.1, error)
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
