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
    Window(usize),
    Rings(usize),
    Digest(usize),
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
        Op::RegisterAdd { before: Some(_), array, .. } => {
            Some((Object::Register(*array), Access::Write))
        }
        Op::RegisterAdd { array, .. } => Some((Object::Register(*array), Access::Add)),
        Op::DmaWrite { rings, .. } => Some((Object::Rings(*rings), Access::Write)),
        Op::DmaWriteAt { window, .. } => Some((Object::Window(*window), Access::Write)),
        Op::DmaReadAt { window, .. } => Some((Object::Window(*window), Access::Read)),
        Op::Digest(digest, _) => Some((Object::Digest(*digest), Access::Write)),
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

/// Who has to do with an object.
#[derive(Clone, Copy, Default)]
struct Sites {
    first: usize,
    last: usize,
    /// Several instructions, or one that is carried out at several places.
    several: bool,
    reads: bool,
    adds: bool,
    writes: bool,
}

/// What an action does with each object: the same wherever a table runs it.
type Summary = BTreeMap<Object, Sites>;

fn note(of: &mut Summary, at: usize, object: Object, access: Access) {
    let is_new = !of.contains_key(&object);
    let sites = of.entry(object).or_insert(Sites { first: at, last: at, ..Sites::default() });
    sites.several |= !is_new;
    sites.last = at;
    sites.reads |= access == Access::Read;
    sites.adds |= access == Access::Add;
    sites.writes |= access == Access::Write;
}

/// Looks through a program for what outlives a packet.
pub(super) fn alone(program: &Program, apply: &Line, actions: &[Line]) -> Alone {
    // What learns is of the learner that runs it: this number stands for it.
    let own = usize::MAX;
    let of_actions: Vec<Summary> = actions
        .iter()
        .map(|line| {
            let mut of = Summary::new();
            let seen = line.ops.iter().filter_map(|op| access(op, Some(own)));
            seen.for_each(|(object, access)| note(&mut of, 0, object, access));
            of
        })
        .collect();
    let mut all = Summary::new();
    for (at, op) in apply.ops.iter().enumerate() {
        if let Some((object, access)) = access(op, None) {
            note(&mut all, at, object, access);
        }
        let Op::Table(table) = op else { continue };
        let kind = &program.tables[*table].kind;
        if matches!(kind, Kind::Learner { .. }) {
            note(&mut all, at, Object::Learner(*table), Access::Read);
        }
        for (action, _) in kind.actions().into_iter().flat_map(|actions| &actions.of) {
            for (object, sites) in &of_actions[*action] {
                let object = match object {
                    Object::Learner(of) if *of == own => Object::Learner(*table),
                    object => *object,
                };
                let is_new = !all.contains_key(&object);
                let place = Sites { first: at, last: at, ..Sites::default() };
                let into = all.entry(object).or_insert(place);
                into.several |= !is_new || sites.several;
                into.last = at;
                into.reads |= sites.reads;
                into.adds |= sites.adds;
                into.writes |= sites.writes;
            }
        }
    }
    let telling = || all.values().filter(|sites| sites.writes || sites.adds && sites.reads);
    let several = telling().filter(|sites| sites.several);
    let mut ranges: Vec<(usize, usize)> = several.map(|of| (of.first, of.last)).collect();
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
