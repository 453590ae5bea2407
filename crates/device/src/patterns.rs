//! The patterns of the rules of a block: one for each, made when it is asked for.

use std::ops::Range;

use niclab_nic::rule::Pattern;
use niclab_packet::flow::{FiveTuple, FlowSet, Transport};

use crate::face::{DeviceError, RuleBlock};
use crate::soft::bad_load;
use crate::stack::Stack;

/// The patterns of a block.
pub(crate) enum Patterns {
    /// One, of every frame.
    Any,
    /// One a flow: so many, and the flows, those behind the block's own included, as many again.
    /// They are made beforehand: what making one takes is not the card's time.
    FiveTuples(Box<[FiveTuple]>, usize),
    /// One a number.
    Stack(Stack, Range<u32>),
}

impl Patterns {
    /// Those of a block; none of a file.
    pub(crate) fn of(block: &RuleBlock) -> Result<Patterns, DeviceError> {
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

    pub(crate) fn len(&self) -> usize {
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

    pub(crate) fn get(&self, at: usize) -> Pattern {
        match self {
            Patterns::Any => Pattern::any(),
            Patterns::FiveTuples(flows, _) => five_tuple(&flows[at]),
            Patterns::Stack(stack, numbers) => stack.pattern(numbers.start + at as u32),
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
