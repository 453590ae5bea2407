//! Assigns groups to cores, and keeps the work of the busiest core low.

use std::collections::{HashMap, HashSet};

use super::groups::{PACKET_COST, Placement, RuleGroup};
use super::index::RegionIndex;
use super::{CoreShare, Traffic};
use crate::region::Selector;

/// Packets of a group that the traffic has none of: so few that no share shows them.
const UNSEEN_WEIGHT: f64 = 1e-6;

/// Flows that the same groups concern.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Class {
    /// The groups that are placed.
    groups: Vec<usize>,
    /// Work per packet of the replicated groups.
    replicated_cost: f64,
    /// Packets.
    weight: f64,
}

/// The classes of a traffic.
pub(super) fn classes(groups: &[RuleGroup], traffic: &Traffic) -> Vec<Class> {
    let index = RegionIndex::new(groups, |_| true);
    let mut weights: HashMap<Vec<usize>, u64> = HashMap::new();
    for (flow, packets) in &traffic.flows {
        *weights.entry(index.groups_of(groups, flow)).or_default() += packets;
    }
    let mut classes: Vec<_> = weights.into_iter().collect();
    classes.sort_unstable();
    let seen: HashSet<usize> = classes.iter().flat_map(|(members, _)| members).copied().collect();
    let unseen = |(at, group): (usize, &RuleGroup)| {
        let is_placed = matches!(group.placement, Placement::Core(_));
        (is_placed && !seen.contains(&at)).then_some(at)
    };
    // Groups without a packet weigh little, but something.
    let unseen: Vec<usize> = groups.iter().enumerate().filter_map(unseen).collect();
    let class = |(members, weight): (Vec<usize>, u64)| {
        let is_placed = |&at: &usize| matches!(groups[at].placement, Placement::Core(_));
        let (placed, replicated): (Vec<_>, Vec<_>) = members.into_iter().partition(is_placed);
        let replicated_cost = replicated.iter().map(|&at| groups[at].cost).sum();
        Class { groups: placed, replicated_cost, weight: weight as f64 }
    };
    let unseen = unseen.into_iter().map(|at| Class {
        groups: vec![at],
        replicated_cost: 0.0,
        weight: UNSEEN_WEIGHT,
    });
    classes.iter().cloned().map(class).chain(unseen).collect()
}

/// Classes that stand for an unknown traffic: one of each placed group, and one as large as all of
/// them that concerns none.
pub(super) fn equal_classes(groups: &[RuleGroup]) -> Vec<Class> {
    let placed = |(at, group): (usize, &RuleGroup)| {
        let is_some = group.region().selector != Selector::Any;
        (is_some && matches!(group.placement, Placement::Core(_))).then_some(at)
    };
    let wide = |(at, group): (usize, &RuleGroup)| {
        let is_any = group.region().selector == Selector::Any;
        (is_any && matches!(group.placement, Placement::Core(_))).then_some(at)
    };
    let placed: Vec<usize> = groups.iter().enumerate().filter_map(placed).collect();
    let wide: Vec<usize> = groups.iter().enumerate().filter_map(wide).collect();
    let is_replicated = |group: &&RuleGroup| matches!(group.placement, Placement::Replicated(_));
    let replicated_cost = groups.iter().filter(is_replicated).map(|group| group.cost).sum();
    let class = |at: Option<usize>, weight: f64| {
        let mut groups: Vec<usize> = wide.iter().copied().chain(at).collect();
        groups.sort_unstable();
        Class { groups, replicated_cost, weight }
    };
    let rest = class(None, placed.len().max(1) as f64);
    placed.iter().map(|&at| class(Some(at), 1.0)).chain([rest]).collect()
}

/// A placement of all groups, and its work.
#[derive(Clone, Debug)]
pub(super) struct Balance<'a> {
    groups: &'a [RuleGroup],
    classes: &'a [Class],
    cores: usize,
    /// The core of each group that is placed.
    core_of: Vec<Option<usize>>,
    /// Cores with the replicated rules.
    reporters: Vec<usize>,
    /// The cores that get each class, as bits, without those of a hash.
    owners: Vec<u64>,
    work: Vec<f64>,
}

impl<'a> Balance<'a> {
    /// The best placement that was found.
    ///
    /// A group that concerns all flows makes its core get all of them. That core has either all
    /// replicated rules, so that no other needs them, or none.
    pub(super) fn best(groups: &'a [RuleGroup], classes: &'a [Class], cores: usize) -> Balance<'a> {
        let is_wide = |group: &RuleGroup| {
            matches!(group.placement, Placement::Core(_))
                && group.region().selector == Selector::Any
        };
        let place = |reporters| {
            let mut balance = Balance {
                groups,
                classes,
                cores,
                core_of: vec![None; groups.len()],
                reporters,
                owners: vec![0; classes.len()],
                work: vec![0.0; cores],
            };
            balance.place(is_wide);
            balance
        };
        if cores < 2 || !groups.iter().any(is_wide) {
            return place((0..cores).collect());
        }
        let [one, others] = [place(vec![0]), place((1..cores).collect())];
        if others.most() < one.most() { others } else { one }
    }

    /// The work of the core with the most.
    fn most(&self) -> f64 {
        self.work.iter().copied().fold(0.0, f64::max)
    }

    /// Places the groups: those on all flows on core 0, the others where the least is to do behind
    /// it, the one with the most work first.
    fn place(&mut self, is_wide: impl Fn(&RuleGroup) -> bool) {
        let mut classes_of: Vec<Vec<usize>> = vec![Vec::new(); self.groups.len()];
        for (at, class) in self.classes.iter().enumerate() {
            for &group in &class.groups {
                classes_of[group].push(at);
            }
        }
        let weight =
            |classes: &[usize]| -> f64 { classes.iter().map(|&at| self.classes[at].weight).sum() };
        let mut order: Vec<(bool, f64, usize)> = Vec::new();
        for (at, group) in self.groups.iter().enumerate() {
            if matches!(group.placement, Placement::Core(_)) {
                let work = weight(&classes_of[at]) * (PACKET_COST + group.cost);
                order.push((is_wide(group), work, at));
            }
        }
        order.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
        for (is_wide, _, group) in order {
            let added = |core| self.added(group, &classes_of[group], core);
            let behind: Vec<f64> =
                (0..self.cores).map(|core| self.work[core] + added(core)).collect();
            let least = (0..self.cores).min_by(|&a, &b| behind[a].total_cmp(&behind[b]));
            let core = if is_wide { 0 } else { least.unwrap_or(0) };
            self.work[core] = behind[core];
            self.core_of[group] = Some(core);
            for &class in &classes_of[group] {
                self.owners[class] |= 1 << core;
            }
        }
        self.spread();
    }

    /// Spreads classes without a reporter over all reporters.
    fn spread(&mut self) {
        for (at, class) in self.classes.iter().enumerate() {
            if self.reporters.iter().any(|&core| self.owners[at] >> core & 1 == 1) {
                continue;
            }
            for &core in &self.reporters {
                let work = class.weight * (PACKET_COST + class.replicated_cost);
                self.work[core] += work / self.reporters.len() as f64;
            }
        }
    }

    /// The work that a group adds to a core.
    fn added(&self, group: usize, classes: &[usize], core: usize) -> f64 {
        let has_replicated = self.reporters.contains(&core);
        let work = |&at: &usize| {
            let class = &self.classes[at];
            let replicated = if has_replicated { class.replicated_cost } else { 0.0 };
            let is_new = self.owners[at] >> core & 1 == 0;
            let packet = if is_new { PACKET_COST + replicated } else { 0.0 };
            class.weight * (packet + self.groups[group].cost)
        };
        classes.iter().map(work).sum()
    }

    /// The core of each group that is placed, the reporters, and the share of each core; `others`
    /// are packets that go to all cores.
    pub(super) fn finish(self, others: f64) -> (Vec<Option<usize>>, Vec<usize>, Vec<CoreShare>) {
        let packets = self.classes.iter().map(|class| class.weight).sum::<f64>() + others;
        let all = |class: &Class| {
            let placed: f64 = class.groups.iter().map(|&at| self.groups[at].cost).sum();
            class.weight * (PACKET_COST + class.replicated_cost + placed)
        };
        let work_of_one = self.classes.iter().map(all).sum::<f64>() + others * PACKET_COST;
        let share = CoreShare { traffic_ratio: others / packets, ..CoreShare::default() };
        let mut shares = vec![share; self.cores];
        for (at, class) in self.classes.iter().enumerate() {
            let owns = |core: &usize| self.owners[at] >> *core & 1 == 1;
            for core in (0..self.cores).filter(owns) {
                shares[core].traffic_ratio += class.weight / packets;
            }
            if !self.reporters.iter().any(owns) {
                let share = class.weight / packets / self.reporters.len() as f64;
                self.reporters.iter().for_each(|&core| shares[core].traffic_ratio += share);
            }
        }
        for (core, share) in shares.iter_mut().enumerate() {
            share.cost_ratio = (self.work[core] + others * PACKET_COST) / work_of_one;
        }
        (self.core_of, self.reporters, shares)
    }
}
