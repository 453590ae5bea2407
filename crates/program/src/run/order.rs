//! Where the order of packets can be seen.
//!
//! Instruction by instruction, a burst reads a register for all its packets before it writes it for
//! the first. So the part from the first to the last instruction that has to do with an array is
//! carried out packet by packet, unless nothing tells the difference: nobody writes it, or all only
//! add and nobody reads, or one instruction alone has to do with it, which goes through the packets
//! in their order.

use std::collections::BTreeMap;

use super::plan::{Line, Op};
use crate::form::{Kind, Program};

/// What outlives a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Register(usize),
    Meter(usize),
    Learner(usize),
}

/// What an instruction does with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Add,
    Write,
}

fn access(op: &Op, learner: Option<usize>) -> Option<(Object, Access)> {
    match op {
        Op::RegisterRead { array, .. } => Some((Object::Register(*array), Access::Read)),
        Op::RegisterWrite { array, .. } => Some((Object::Register(*array), Access::Write)),
        Op::RegisterAdd { array, .. } => Some((Object::Register(*array), Access::Add)),
        Op::Meter { array, .. } => Some((Object::Meter(*array), Access::Write)),
        Op::Learn { .. } | Op::Rearm(_) | Op::Forget => {
            learner.map(|learner| (Object::Learner(learner), Access::Write))
        }
        _ => None,
    }
}

/// Where packets go one by one.
pub(super) struct Alone {
    /// Ranges of instructions that they go through so, in order and apart.
    pub ranges: Vec<(usize, usize)>,
    /// The order of packets can be seen at all: by who comes round again, also in one instruction.
    pub tells: bool,
}

/// Looks through a program for what outlives a packet.
pub(super) fn alone(program: &Program, apply: &Line, actions: &[Line]) -> Alone {
    let mut sites: BTreeMap<Object, Vec<(usize, Access)>> = BTreeMap::new();
    for (at, op) in apply.ops.iter().enumerate() {
        let mut note = |(object, access)| sites.entry(object).or_default().push((at, access));
        access(op, None).into_iter().for_each(&mut note);
        let Op::Table(table) = op else { continue };
        let kind = &program.tables[*table].kind;
        let learner = matches!(kind, Kind::Learner { .. }).then_some(*table);
        learner.into_iter().for_each(|table| note((Object::Learner(table), Access::Read)));
        for (action, _) in kind.actions().into_iter().flat_map(|actions| &actions.of) {
            let ops = actions[*action].ops.iter();
            ops.filter_map(|op| access(op, learner)).for_each(&mut note);
        }
    }
    let telling = || sites.values().filter(|of| tells(of));
    let several = telling().filter(|of| of.len() > 1);
    let mut ranges: Vec<(usize, usize)> = several.filter_map(|of| range(of)).collect();
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let meets = next.0 <= last.1;
        if meets {
            last.1 = last.1.max(next.1);
        }
        meets
    });
    Alone { ranges, tells: telling().next().is_some() }
}

/// Whether the order of packets can be seen.
fn tells(sites: &[(usize, Access)]) -> bool {
    let has = |access| sites.iter().any(|(_, of)| *of == access);
    has(Access::Write) || has(Access::Add) && has(Access::Read)
}

/// From the first instruction to the last.
fn range(sites: &[(usize, Access)]) -> Option<(usize, usize)> {
    let places = || sites.iter().map(|(at, _)| *at);
    Some((places().min()?, places().max()?))
}
