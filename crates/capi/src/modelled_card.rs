//! The limits and times of a modelled card, which a NIC takes over from a profile.
//!
//! The NIC carries every operation out at once; what the card needs for it adds up here, and the
//! caller waits that long. Nothing here reads a clock.

use std::collections::HashMap;

use niclab_nic::RuleId;
use niclab_nic::rule::Action;
use niclab_nic::rule::item::Item;
use niclab_profile::classifier::Classifier;
use niclab_profile::profile::Profile;
use niclab_profile::rule_costs::{Costs, RuleKind};

use crate::failure::{Failure, FailurePart};
use crate::shapes::ItemBytes;

/// Groups that default rules are followed through.
const GROUPS_MAX: usize = 4_096;

/// A rule as the card's times depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelledRule {
    group: u32,
    kind: RuleKind,
    /// It matches every packet.
    is_default: bool,
    /// The group that it sends every packet to.
    jump: Option<u32>,
}

/// The rules of a group.
#[derive(Clone, Copy, Debug, Default)]
struct GroupRules {
    all: u32,
    /// Of them, those that match every packet.
    defaults: u32,
    /// The group that the newest of these jumps to.
    next: Option<u32>,
}

/// The time that operations on rules took on a modelled card, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpentTime {
    /// On a core that does nothing else.
    pub alone_ns: f64,
    /// On a core that forwards packets too.
    pub beside_ns: f64,
}

/// A modelled card: its profile, its rules, and the time that they took.
#[derive(Debug)]
pub(crate) struct ModelledCard {
    profile: Profile,
    /// `None` where the profile has only a part of its numbers.
    classifier: Option<Classifier>,
    groups: HashMap<u32, GroupRules>,
    rules: HashMap<RuleId, ModelledRule>,
    /// Rules of all groups but 0, and of them those that match every packet.
    others: (u32, u32),
    /// The costs of a kind of rule, in group 0 or another; `None` where they are unknown.
    costs: Vec<(bool, RuleKind, Option<Costs>)>,
    /// The group of a rule that was just destroyed: the next one there finds its tables cached.
    warm: Option<u32>,
    spent: SpentTime,
}

impl ModelledRule {
    /// The rule of these items and actions.
    pub fn new(group: u32, items: &[ItemBytes<'_>], actions: &[Action]) -> ModelledRule {
        let mut kind = RuleKind {
            actions: actions.len().saturating_sub(1) as f64,
            modifies: actions
                .iter()
                .any(|action| matches!(action, Action::SetMeta { .. } | Action::SetTag { .. })),
            ..RuleKind::default()
        };
        for item in items {
            match item.item {
                Item::Ipv4 => kind.is_ipv4 = true,
                Item::Ipv6 => kind.is_ipv6 = true,
                Item::Vlan => kind.is_vlan = true,
                Item::Gre | Item::Nvgre | Item::Vxlan | Item::VxlanGpe | Item::Geneve => {
                    kind.is_tunnel = true;
                }
                Item::Gtp | Item::Gtpc | Item::Gtpu | Item::Mpls => kind.is_tunnel = true,
                _ => {}
            }
        }
        let matches_all = |item: &ItemBytes<'_>| {
            let is_blank = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
            item.item == Item::Eth && (item.spec.is_none() || item.mask.is_some_and(is_blank))
        };
        let is_default = items.iter().all(matches_all);
        ModelledRule { group, kind, is_default, jump: jump(actions) }
    }
}

/// The group that actions send packets to.
fn jump(actions: &[Action]) -> Option<u32> {
    actions.iter().find_map(|action| match action {
        Action::Jump(group) => Some(*group),
        _ => None,
    })
}

impl ModelledCard {
    /// A card of this profile, without rules.
    pub fn new(profile: Profile) -> ModelledCard {
        let classifier = Classifier::of(&profile).ok();
        ModelledCard {
            profile,
            classifier,
            groups: HashMap::new(),
            rules: HashMap::new(),
            others: (0, 0),
            costs: Vec::new(),
            warm: None,
            spent: SpentTime::default(),
        }
    }

    /// Rules of a group.
    fn count(&self, group: u32) -> f64 {
        self.groups.get(&group).map_or(0.0, |rules| f64::from(rules.all))
    }

    /// The costs of operations on rules of a group and a kind; `None` where they are unknown.
    fn costs(&mut self, group: u32, kind: &RuleKind) -> Option<Costs> {
        let is_root = group == 0;
        let known = self.costs.iter().find(|(root, of, _)| (*root, of) == (is_root, kind));
        let found = match known {
            Some((.., costs)) => *costs,
            None => {
                let costs = Costs::of(&self.profile, group, kind, (0.0, 0.0)).ok();
                self.costs.push((is_root, *kind, costs));
                costs
            }
        };
        let others = if is_root { 0.0 } else { f64::from(self.others.0) - self.count(group) };
        found.map(|costs| costs.beside_others(others))
    }

    fn spend(&mut self, alone_ns: f64, beside_ns: Option<f64>) {
        self.spent.alone_ns += alone_ns;
        self.spent.beside_ns += beside_ns.unwrap_or(alone_ns);
    }

    /// Checks that the card takes a rule.
    ///
    /// # Errors
    /// `ENOTSUP` for groups that the card lacks or whose size is unknown; `ENOSPC` for a rule too
    /// many.
    pub fn check(&self, rule: &ModelledRule) -> Result<(), Failure> {
        let refuse = |errno, part, text| Err(Failure::new(errno, part, text));
        let title = &self.profile.title;
        let far = rule.jump.unwrap_or(0).max(rule.group);
        if far > 0 && self.profile.lacks("groups") {
            let text = format!("{title}: group {far}; the card has group 0 alone");
            return refuse(libc::ENOTSUP, FailurePart::Group, text);
        }
        for section in if far > 0 { &["root", "groups"][..] } else { &["root"] } {
            if self.profile.number(section, "rules_max").is_none() {
                let text = format!(
                    "{title}: {section}.rules_max is unknown in the profile; give a number there"
                );
                return refuse(libc::ENOTSUP, FailurePart::Group, text);
            }
        }
        let section = if rule.group == 0 { "root" } else { "groups" };
        let most = self.profile.number(section, "rules_max").unwrap_or(f64::INFINITY);
        // The rules that send all packets to the next group are not of a source's count.
        let there = match rule.group {
            0 => self.count(0),
            _ => f64::from(self.others.0 - self.others.1),
        };
        let is_free = rule.group > 0 && rule.is_default;
        if there >= most && !is_free {
            let text = format!("{title}: {section} takes {most} rules; destroy some");
            return refuse(libc::ENOSPC, FailurePart::Room, text);
        }
        Ok(())
    }

    /// Takes the time of creating a rule, and notes it unless it was refused.
    pub fn created(&mut self, rule: &ModelledRule, id: Option<RuleId>) {
        let before = self.count(rule.group);
        if let Some(costs) = self.costs(rule.group, &rule.kind) {
            let is_warm = self.warm.take() == Some(rule.group);
            let near = if is_warm { costs.miss_ns(before) } else { 0.0 };
            let beside = costs.create_beside(before).map(|beside| beside - near);
            self.spend(costs.create(before) - near, beside);
        }
        let Some(id) = id else { return };
        self.rules.insert(id, *rule);
        let is_default = u32::from(rule.is_default);
        let group = self.groups.entry(rule.group).or_default();
        group.all += 1;
        group.defaults += is_default;
        if rule.is_default {
            group.next = rule.jump;
        }
        if rule.group > 0 {
            self.others = (self.others.0 + 1, self.others.1 + is_default);
        }
    }

    /// Takes the time of destroying a rule, and forgets it.
    pub fn destroyed(&mut self, id: RuleId) {
        let Some(rule) = self.rules.remove(&id) else { return };
        let before = self.count(rule.group);
        if let Some(costs) = self.costs(rule.group, &rule.kind)
            && let Some(alone) = costs.destroy(before)
        {
            self.spend(alone, None);
        }
        self.warm = Some(rule.group);
        let is_default = u32::from(rule.is_default);
        if let Some(group) = self.groups.get_mut(&rule.group) {
            group.all -= 1;
            group.defaults -= is_default;
            if group.defaults == 0 {
                group.next = None;
            }
        }
        if rule.group > 0 {
            self.others = (self.others.0 - 1, self.others.1 - is_default);
        }
    }

    /// Takes the time of giving a rule these actions in place, and notes where they lead.
    pub fn updated(&mut self, id: RuleId, actions: &[Action]) {
        let Some(rule) = self.rules.get_mut(&id) else { return };
        rule.jump = jump(actions);
        let rule = *rule;
        if rule.is_default
            && let Some(group) = self.groups.get_mut(&rule.group)
        {
            group.next = rule.jump;
        }
        let there = self.count(rule.group);
        let costs = self.costs(rule.group, &rule.kind);
        if let Some(update) = costs.and_then(|costs| costs.update(there)) {
            self.spend(update, None);
        }
    }

    /// Forgets all rules.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.rules.clear();
        self.others = (0, 0);
        self.warm = None;
    }

    /// The operations since the last call of this function took this long.
    pub fn take_spent(&mut self) -> SpentTime {
        std::mem::take(&mut self.spent)
    }

    /// The time of a frame that only default rules match, nanoseconds: from group 0 along their
    /// jumps, and at least that of the port's greatest frame rate. 0 where it is unknown.
    pub fn frame_ns(&self) -> f64 {
        let rate_max = self.profile.number("port", "frame_rate_max");
        let least = rate_max.map_or(0.0, |pps| 1e9 / pps);
        let Some(classifier) = self.classifier else { return least };
        let mut all_ns = classifier.root_ns(self.count(0)).unwrap_or(0.0);
        let mut group = 0;
        for _ in 0..GROUPS_MAX {
            match self.groups.get(&group).and_then(|rules| rules.next) {
                Some(next) if next > group => group = next,
                _ => break,
            }
            all_ns += classifier.group_ns(self.count(group)).unwrap_or(0.0);
        }
        all_ns.max(least)
    }
}

#[cfg(test)]
mod tests {
    use niclab_nic::rule::item::ItemMatch;

    use super::*;

    fn card() -> ModelledCard {
        ModelledCard::new(niclab_profile::read("connectx-5").unwrap())
    }

    fn rule(group: u32, items: &[Item], actions: &[Action]) -> ModelledRule {
        let items: Vec<ItemMatch> = items.iter().map(|item| ItemMatch::any(*item)).collect();
        let mut bytes: Vec<ItemBytes<'_>> = items.iter().map(ItemBytes::from).collect();
        // A rule that is no default matches something.
        static ONES: [u8; 48] = [0xff; 48];
        if let Some(last) = bytes.last_mut().filter(|last| last.item != Item::Eth) {
            let len = crate::shapes::bytes_len(last.item);
            (last.spec, last.mask) = (Some(&ONES[..len]), Some(&ONES[..len]));
        }
        ModelledRule::new(group, &bytes, actions)
    }

    fn id(number: u64) -> RuleId {
        RuleId::from_bits(number + 1)
    }

    #[test]
    fn a_rule_takes_the_times_of_the_profile_by_group_match_and_actions() {
        let check = |group, items: &[Item], actions: &[Action], expected_ns: f64| {
            let mut card = card();
            // The first rules take longer.
            for number in 0..20_000 {
                card.created(
                    &rule(group, &[Item::Eth, Item::Tcp], &[Action::Drop]),
                    Some(id(number)),
                );
            }
            card.take_spent();
            card.created(&rule(group, items, actions), Some(id(20_000)));
            let spent = card.take_spent().alone_ns;
            assert!((spent - expected_ns).abs() < 0.001 * expected_ns, "{items:?}: {spent}");
        };
        let queue = [Action::Queue(1)];
        check(0, &[Item::Eth, Item::Tcp], &queue, 3_455.0);
        check(0, &[Item::Eth, Item::Ipv4], &queue, 3_455.0 + 22_850.0);
        check(1, &[Item::Eth, Item::Ipv4], &queue, 1_708.0 + 50.7);
        check(1, &[Item::Eth, Item::Vlan, Item::Ipv4], &queue, 1_708.0 + 50.7 + 93.66);
        check(1, &[Item::Eth, Item::Ipv6], &queue, 1_708.0 + 50.7 + 250.3);
        check(1, &[Item::Ipv4, Item::Vxlan], &queue, 1_708.0 + 50.7 + 1_125.0);
        let two = [Action::Count, Action::Queue(1)];
        check(1, &[Item::Eth, Item::Ipv4], &two, 1_708.0 + 50.7 + 94.95);
        let modifies = [Action::SetMeta { data: 1, mask: 1 }, Action::Queue(1)];
        check(1, &[Item::Eth, Item::Ipv4], &modifies, 1_708.0 + 50.7 + 94.95 + 675.4);
    }

    #[test]
    fn destroying_and_updating_take_their_times_and_forwarding_makes_them_longer() {
        let mut card = card();
        let one = rule(1, &[Item::Eth, Item::Ipv4], &[Action::Queue(1)]);
        for number in 0..10_000 {
            card.created(&one, Some(id(number)));
        }
        card.take_spent();
        card.created(&one, Some(id(10_000)));
        let spent = card.take_spent();
        assert_eq!(spent.beside_ns, 4_224.0);
        card.updated(id(5), &[Action::Drop]);
        assert_eq!(card.take_spent().alone_ns, 1_608.0);
        card.destroyed(id(5));
        assert_eq!(card.take_spent().alone_ns, 1_062.0);
        card.destroyed(id(5));
        assert_eq!(card.take_spent(), SpentTime::default(), "it is gone");
    }

    #[test]
    fn a_card_takes_no_more_rules_than_its_profile_says_and_no_groups_that_it_lacks() {
        let mut card = card();
        let root = rule(0, &[Item::Eth, Item::Tcp], &[Action::Drop]);
        for number in 0..65_536 {
            card.check(&root).unwrap();
            card.created(&root, Some(id(number)));
        }
        let refused = card.check(&root).unwrap_err();
        assert_eq!((refused.errno, refused.part), (libc::ENOSPC, FailurePart::Room));
        card.destroyed(id(7));
        card.check(&root).unwrap();
        let old = ModelledCard::new(niclab_profile::read("connectx-4").unwrap());
        for refused in [
            rule(1, &[Item::Eth, Item::Tcp], &[Action::Drop]),
            rule(0, &[Item::Eth], &[Action::Jump(1)]),
        ] {
            assert_eq!(old.check(&refused).unwrap_err().errno, libc::ENOTSUP);
        }
        old.check(&root).unwrap();
        let unknown = ModelledCard::new(niclab_profile::read("82599").unwrap());
        let refused = unknown.check(&root).unwrap_err();
        assert!(refused.message.contains("root.rules_max is unknown"), "{refused}");
    }

    #[test]
    fn a_frame_takes_longer_with_more_rules_and_more_groups() {
        let mut card = card();
        assert_eq!(card.frame_ns(), 12.75);
        card.created(&rule(0, &[Item::Eth], &[Action::Jump(1)]), Some(id(0)));
        for number in 1..=100_000 {
            card.created(&rule(1, &[Item::Eth, Item::Ipv4], &[Action::Drop]), Some(id(number)));
        }
        let expected = 12.75 + 0.004_156 + 46.37 + 2.697;
        assert!((card.frame_ns() - expected).abs() < 0.01, "{}", card.frame_ns());
        // In place, the rule leads elsewhere.
        let root_ns = 12.75 + 0.004_156;
        card.updated(id(0), &[Action::Drop]);
        assert!((card.frame_ns() - root_ns).abs() < 0.01, "{}", card.frame_ns());
        card.updated(id(0), &[Action::Jump(1)]);
        assert!((card.frame_ns() - expected).abs() < 0.01, "{}", card.frame_ns());
        card.destroyed(id(0));
        assert_eq!(card.frame_ns(), 12.75);
    }
}
