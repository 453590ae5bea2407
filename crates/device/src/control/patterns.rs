//! The patterns of the rules of a block: one for each, made when it is asked for.

use std::net::IpAddr;
use std::ops::Range;

use niclab_nic::rule::Pattern;
use niclab_nic::rule::item::{Item, ItemMatch};
use niclab_packet::flow::{FiveTuple, FlowSet, Transport};

use crate::face::{DeviceError, RuleBlock};
use crate::plan::{RuleWork, RulesPlan};
use crate::soft::bad_load;
use crate::stack::Stack;

/// The patterns of a block.
pub enum Patterns {
    /// One, of every frame.
    Any,
    /// One a flow: so many, and the flows, those behind the block's own included, as many again.
    /// They are made beforehand: what making one takes is not the card's time.
    FiveTuples(Box<[FiveTuple]>, usize),
    /// One a number.
    Stack(Stack, Range<u32>),
}

impl Patterns {
    /// Those of the rules that a plan creates; `None` where it works on rules that are there.
    ///
    /// # Errors
    /// As [`Patterns::of`].
    pub fn of_plan(plan: &RulesPlan) -> Result<Option<Patterns>, DeviceError> {
        match &plan.work {
            RuleWork::Create(block) => Patterns::of(block).map(Some),
            RuleWork::Change { .. } | RuleWork::Renew { .. } => Ok(None),
        }
    }

    /// Those of a block; none of a file.
    ///
    /// # Errors
    /// [`DeviceError::BadPlan`] where the block has more rules than flows, or is a file;
    /// [`DeviceError::BadLoad`] for a flow set that is none.
    pub fn of(block: &RuleBlock) -> Result<Patterns, DeviceError> {
        match block {
            RuleBlock::Any { .. } => Ok(Patterns::Any),
            RuleBlock::File { .. } => {
                let reason = "the rules of a file belong into the set-up".to_owned();
                Err(DeviceError::BadPlan { reason })
            }
            RuleBlock::Stack { stack, first, count, .. } => match first.checked_add(*count) {
                Some(end) => Ok(Patterns::Stack(*stack, *first..end)),
                None => {
                    let reason = format!("{count} rules from {first} on: use at most 4294967295");
                    Err(DeviceError::BadPlan { reason })
                }
            },
            RuleBlock::FiveTuples { flows, first, count, .. } => {
                let set = FlowSet::new(flows).map_err(|error| bad_load(error.into()))?;
                if u64::from(*first) + u64::from(*count) > u64::from(set.count()) {
                    let flows = set.count();
                    let reason = format!("{count} rules from flow {first} on, and {flows} flows");
                    return Err(DeviceError::BadPlan { reason });
                }
                let end = set.count().min(first.saturating_add(count.saturating_mul(2)));
                let flows = (*first..end).map(|flow| set.tuple(flow));
                Ok(Patterns::FiveTuples(flows.collect(), *count as usize))
            }
        }
    }

    /// Rules of the block.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        match self {
            Patterns::Any => 1,
            Patterns::FiveTuples(_, count) => *count,
            Patterns::Stack(_, range) => range.len(),
        }
    }

    /// Flows that there are; the patterns of those behind the block's own go on from its last.
    pub(crate) fn flows(&self) -> usize {
        match self {
            Patterns::Any => 1,
            Patterns::FiveTuples(flows, _) => flows.len(),
            Patterns::Stack(_, numbers) => (u32::MAX - numbers.start) as usize,
        }
    }

    /// The pattern at a place.
    pub(crate) fn get(&self, at: usize) -> Pattern {
        match self {
            Patterns::Any => Pattern::any(),
            Patterns::FiveTuples(flows, _) => five_tuple(&flows[at]),
            Patterns::Stack(stack, numbers) => stack.pattern(numbers.start + at as u32),
        }
    }

    /// The items of the pattern at a place; of a flow without its source port where `is_wide`.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn items(&self, at: usize, is_wide: bool) -> Vec<ItemMatch> {
        match self {
            Patterns::Any => vec![ItemMatch::any(Item::Eth)],
            Patterns::FiveTuples(flows, _) => flow_items(&flows[at], is_wide),
            Patterns::Stack(stack, numbers) => stack.items(numbers.start + at as u32),
        }
    }

    /// The pattern at a place, of a flow without its source port; as it is of what is no flow.
    pub(crate) fn wider(&self, at: usize) -> Pattern {
        match self {
            Patterns::FiveTuples(flows, _) => without_sport(&flows[at]),
            Patterns::Any | Patterns::Stack(..) => self.get(at),
        }
    }
}

/// The items of a flow's pattern; a wide one leaves the source port out.
fn flow_items(tuple: &FiveTuple, is_wide: bool) -> Vec<ItemMatch> {
    let number = |address: IpAddr| match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let ip = if tuple.src.is_ipv4() { Item::Ipv4 } else { Item::Ipv6 };
    let transport = match tuple.proto {
        Transport::Udp => Item::Udp,
        Transport::Tcp => Item::Tcp,
    };
    let sport = (!is_wide).then_some(("src", u128::from(tuple.sport)));
    let ports = sport.into_iter().chain([("dst", u128::from(tuple.dport))]);
    let addresses = [("src", number(tuple.src)), ("dst", number(tuple.dst))];
    vec![ItemMatch::any(Item::Eth), exact(ip, addresses), exact(transport, ports)]
}

/// An item with these values of fields.
fn exact(item: Item, values: impl IntoIterator<Item = (&'static str, u128)>) -> ItemMatch {
    let mut found = ItemMatch::any(item);
    for (name, value) in values {
        if let Some(field) = item.field(name) {
            field.put(&mut found.spec, value);
            field.put(&mut found.mask, field.ones());
        }
    }
    found
}

/// The pattern of a flow.
fn five_tuple(tuple: &FiveTuple) -> Pattern {
    without_sport(tuple).sport(tuple.sport)
}

/// The pattern of all flows that differ from one in the source port alone.
fn without_sport(tuple: &FiveTuple) -> Pattern {
    let pattern = Pattern::any().src(tuple.src).dst(tuple.dst);
    let pattern = match tuple.proto {
        Transport::Udp => pattern.udp(),
        Transport::Tcp => pattern.tcp(),
    };
    pattern.dport(tuple.dport)
}

#[cfg(test)]
mod tests {
    use niclab_nic::rule::compile;
    use niclab_packet::flow::FlowSpec;

    use super::*;

    #[test]
    fn items_and_patterns_are_of_the_same_packets() {
        let flows = FlowSpec { count: 40, ..FlowSpec::default() };
        let tuples = RuleBlock::FiveTuples {
            group: 0,
            priority: 0,
            flows,
            first: 0,
            count: 20,
            actions: vec![],
        };
        let stacks = Stack::ALL.into_iter().map(|(_, stack)| Patterns::Stack(stack, 7..27));
        let of_block = Patterns::of(&tuples).unwrap();
        for patterns in stacks.chain([Patterns::Any, of_block]) {
            for at in 0..patterns.len() {
                for is_wide in [false, true] {
                    let of_items = compile::pattern(&patterns.items(at, is_wide)).unwrap();
                    let of_place = if is_wide { patterns.wider(at) } else { patterns.get(at) };
                    assert_eq!(of_items, of_place, "{of_place}");
                }
            }
        }
    }
}
