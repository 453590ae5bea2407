//! The rules of a modelled card, and which of them packets meet.

use std::time::Duration;

use niclab_load::Load;
use niclab_nic::rule::Action;
use niclab_packet::flow::FlowSpec;

use super::card::{Costs, GroupPath, RuleKind, rule_kind, unknown};
use super::profile::{Basis, Entry, Profile};
use crate::face::{DeviceError, RuleBlock, Setup, SetupReport};
use crate::stack::Stack;

/// Most groups that a packet is followed through.
const GROUPS_MAX: usize = 4_096;

/// Rules of one block, as far as they are in the card.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub group: u32,
    pub kind: RuleKind,
    pub count: u32,
    pub actions: Vec<Action>,
    /// Flows of which each rule matches one, and the first of them; none of other rules.
    pub flows: Option<(FlowSpec, u32)>,
    is_any: bool,
}

impl Block {
    pub fn of(block: &RuleBlock) -> Result<Block, DeviceError> {
        let Some((group, _, actions)) = block.place() else {
            return Err(DeviceError::lacks("files of rules"));
        };
        let (kind, flows) = match block {
            RuleBlock::Stack { stack, .. } => (rule_kind(*stack, actions)?, None),
            RuleBlock::FiveTuples { flows, first, .. } => {
                (rule_kind(Stack::Ipv4Tcp, actions)?, Some((flows.clone(), *first)))
            }
            RuleBlock::Any { .. } | RuleBlock::File { .. } => {
                (rule_kind(Stack::Eth, actions)?, None)
            }
        };
        let is_any = matches!(block, RuleBlock::Any { .. });
        let (count, actions) = (block.count(), actions.to_vec());
        Ok(Block { group, kind, count, actions, flows, is_any })
    }

    /// Share of a load's frames that meets one of the rules.
    pub fn share_of(&self, load: &Load) -> f64 {
        let Some((flows, first)) = &self.flows else { return f64::from(u8::from(self.is_any)) };
        let sent = load.flows.count;
        if (FlowSpec { count: sent, ..flows.clone() }) != load.flows {
            return 0.0;
        }
        let end = first.saturating_add(self.count).min(sent);
        f64::from(end.saturating_sub(*first)) / f64::from(sent.max(1))
    }

    /// The queue that its rules send frames to.
    pub fn queue(&self) -> Option<u16> {
        queue(&self.actions)
    }
}

/// The queue that actions send a frame to.
pub(super) fn queue(actions: &[Action]) -> Option<u16> {
    actions.iter().find_map(|action| match action {
        Action::Queue(queue) => Some(*queue),
        _ => None,
    })
}

fn jump(actions: &[Action]) -> Option<u32> {
    actions.iter().find_map(|action| match action {
        Action::Jump(group) => Some(*group),
        _ => None,
    })
}

/// All rules of a card.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    pub blocks: Vec<Block>,
}

/// Where the frames of a load go.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FrameShares {
    pub way: GroupPath,
    /// Share of the frames that each queue gets.
    pub queues: Vec<(u16, f64)>,
    /// The queue that default rules send the other frames to; `None` where the hash does.
    pub default: Option<u16>,
}

impl Rules {
    /// Installs the rules of a set-up. Those for which group 0 has no room are refused.
    pub fn install(profile: &Profile, setup: &Setup) -> Result<(Rules, SetupReport), DeviceError> {
        let (mut rules, mut report) = (Rules::default(), SetupReport::default());
        // None where what it takes is not known.
        let mut install_ns = Some(0.0);
        for block in &setup.rules {
            let mut block = Block::of(block)?;
            supported(profile, &block)?;
            if block.actions.contains(&Action::Drop) {
                return Err(DeviceError::lacks("rules of a set-up that drop"));
            }
            let (there, others) = (rules.count(block.group), rules.others(block.group));
            let room = rules.room(profile, &block)?;
            let taken = block.count.min(room);
            let refused = block.count - taken;
            if refused > 0 {
                let refusal =
                    format!("group {} takes {} rules", block.group, there + u64::from(room));
                report.refusal.get_or_insert(refusal);
            }
            let of = ((there + u64::from(taken)) as f64, others as f64);
            // A refused rule takes its time too.
            let takes_ns = Costs::of(profile, block.group, &block.kind, of)
                .map(|costs| costs.created_ns(there as f64, block.count));
            install_ns = install_ns.zip(takes_ns.ok()).map(|(all, takes)| all + takes);
            block.count = taken;
            report.rules_installed += u64::from(taken);
            report.rules_refused += u64::from(refused);
            rules.blocks.push(block);
        }
        report.install = Duration::from_nanos(install_ns.unwrap_or(0.0) as u64);
        Ok((rules, report))
    }

    /// Rules of a group.
    pub fn count(&self, group: u32) -> u64 {
        let of = self.blocks.iter().filter(|block| block.group == group);
        of.map(|block| u64::from(block.count)).sum()
    }

    /// Rules of other groups in the memory that a group's are in: group 0 has its own, all others
    /// share one.
    pub fn others(&self, group: u32) -> u64 {
        let of = self.blocks.iter().filter(|block| block.group > 0 && block.group != group);
        of.filter(|_| group > 0).map(|block| u64::from(block.count)).sum()
    }

    /// Rules that the group of a block still takes.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] for more than anybody has tried.
    pub fn room(&self, profile: &Profile, block: &Block) -> Result<u32, DeviceError> {
        let section = if block.group == 0 { "root" } else { "groups" };
        let Entry::Known { value: most, basis, .. } = profile.entry(section, "rules_max") else {
            return Err(unknown(section, "rules_max"));
        };
        // The default rules of groups are not of a source's count.
        let of = self.blocks.iter().filter(|of| (of.group == 0) == (block.group == 0));
        let of = of.filter(|of| of.group == 0 || !of.is_any);
        let there: u64 = of.map(|of| u64::from(of.count)).sum();
        let room = (*most as u64).saturating_sub(there).min(u64::from(u32::MAX)) as u32;
        if (block.group > 0 && block.is_any) || block.count <= room {
            return Ok(block.count);
        }
        match block.group == 0 && *basis != Basis::AtLeast {
            true => Ok(room),
            false => {
                let reason = format!("more than {most} rules in {section}: untested");
                Err(DeviceError::lacks(reason))
            }
        }
    }

    /// Which rules the frames of a load meet; `shares` is that of each queue by the hash, of
    /// those that no rule decides.
    pub fn frame_shares(&self, load: &Load, shares: &[f64]) -> FrameShares {
        let mut met = FrameShares {
            way: GroupPath { root: self.count(0) as f64, ..GroupPath::default() },
            ..FrameShares::default()
        };
        let (mut group, mut share) = (0, 1.0);
        for _ in 0..GROUPS_MAX {
            let of_group = || self.blocks.iter().filter(move |block| block.group == group);
            for block in of_group().filter(|block| !block.is_any) {
                let hit = block.share_of(load).min(share);
                if let Some(queue) = block.queue().filter(|_| hit > 0.0) {
                    met.queues.push((queue, hit));
                    share -= hit;
                }
            }
            let default = of_group().find(|block| block.is_any);
            match default.and_then(|block| jump(&block.actions)) {
                Some(next) if next > group => {
                    group = next;
                    met.way.groups.push((self.count(group) as f64, share));
                }
                _ => {
                    met.default = default.and_then(Block::queue);
                    met.queues.extend(met.defaults(share, shares));
                    return met;
                }
            }
        }
        met
    }
}

impl FrameShares {
    /// A share of the frames that no rule but the default ones decides, by queue.
    pub fn defaults(&self, share: f64, shares: &[f64]) -> Vec<(u16, f64)> {
        match self.default {
            Some(queue) => vec![(queue, share)],
            None => (0..).zip(shares).map(|(queue, of)| (queue, share * of)).collect(),
        }
    }
}

/// Refuses rules that the card, or what is known of it, does not have.
pub(super) fn supported(profile: &Profile, block: &Block) -> Result<(), DeviceError> {
    if block.group > 0 && profile.lacks("groups") {
        return Err(DeviceError::lacks("non-root groups"));
    }
    if block.group > 0 && profile.number("groups", "table_ns").is_none() {
        return Err(unknown("groups", "table_ns"));
    }
    Ok(())
}
