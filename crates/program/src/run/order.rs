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

/// Who has to do with an object, and where in the main part.
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

impl Sites {
    /// One instruction at one place.
    fn one(at: usize, access: Access) -> Sites {
        Sites {
            first: at,
            last: at,
            several: false,
            reads: access == Access::Read,
            adds: access == Access::Add,
            writes: access == Access::Write,
        }
    }

    /// The same, wherever these are.
    fn at(self, places: Sites) -> Sites {
        let Sites { first, last, several, .. } = places;
        Sites { first, last, several: several || self.several, ..self }
    }

    fn join(&mut self, other: Sites) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.several = true;
        self.reads |= other.reads;
        self.adds |= other.adds;
        self.writes |= other.writes;
    }
}

/// What has been seen of each object.
type Summary = BTreeMap<Object, Sites>;

fn note(all: &mut Summary, object: Object, sites: Sites) {
    all.entry(object).and_modify(|of| of.join(sites)).or_insert(sites);
}

fn meet(place: &mut Option<Sites>, other: Sites) {
    match place {
        None => *place = Some(other),
        Some(place) => place.join(other),
    }
}

/// What learns is of the learner that runs it: this number stands for it.
const OWN: Object = Object::Learner(usize::MAX);

/// Looks through a program for what outlives a packet. Each instruction is looked at once, however
/// many tables run its action.
pub(super) fn alone(program: &Program, apply: &Line, actions: &[Line]) -> Alone {
    let (mut all, mut tables) = (Summary::new(), vec![None; program.tables.len()]);
    for (at, op) in apply.ops.iter().enumerate() {
        if let Some((object, access)) = access(op, None) {
            note(&mut all, object, Sites::one(at, access));
        }
        if let Op::Table(table) = op {
            meet(&mut tables[*table], Sites::one(at, Access::Read));
        }
    }
    let summary = |line: &Line| {
        let mut of = Summary::new();
        let seen = line.ops.iter().filter_map(|op| access(op, Some(usize::MAX)));
        seen.for_each(|(object, access)| note(&mut of, object, Sites::one(0, access)));
        of
    };
    let of_actions: Vec<Summary> = actions.iter().map(summary).collect();
    let mut places = vec![None; actions.len()];
    for (number, (table, sites)) in program.tables.iter().zip(tables).enumerate() {
        let Some(sites) = sites else { continue };
        let is_learner = matches!(table.kind, Kind::Learner { .. });
        if is_learner {
            note(&mut all, Object::Learner(number), sites);
        }
        for (action, _) in table.kind.actions().into_iter().flat_map(|actions| &actions.of) {
            meet(&mut places[*action], sites);
            if let Some(own) = of_actions[*action].get(&OWN) {
                note(&mut all, Object::Learner(number), own.at(sites));
            }
        }
    }
    for (of, places) in of_actions.iter().zip(places) {
        let Some(places) = places else { continue };
        let lasting = of.iter().filter(|(object, _)| **object != OWN);
        lasting.for_each(|(object, sites)| note(&mut all, *object, sites.at(places)));
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
