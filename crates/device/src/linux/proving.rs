//! An interface with its rules, rule by rule and frame by frame: for cases, and for the proof
//! before rate.

use std::collections::HashMap;
use std::mem::Discriminant;
use std::time::Duration;

use niclab_load::rings::{Inlet, Outlet};
use niclab_nic::rule::compile;
use niclab_nic::rule::item::{Image, Item, ItemMatch};
use niclab_nic::rule::{Action, Pattern, Rule};

use super::ethtool::flow::ANYWHERE;
use super::rings::{Function, Rings, TesterRings};
use super::rules::{self, RuleTable};
use crate::control::Patterns;
use crate::face::{DeviceError, ProofResult, RuleBlock, RuleProof};
use crate::proof;
use crate::rule_case::{FrameExit, FrameMark, RuleDenial, WrittenRule};
use crate::rule_port::{RulePort, TakeFrame};
use crate::two_hosts::FarLink;

/// How long a frame is waited for that may not come.
const LOOK: Duration = Duration::from_millis(20);

/// The same where each look asks another host.
const LOOK_FAR: Duration = Duration::from_millis(100);

/// The kinds of rules that were tried, and the number of the next frame.
#[derive(Default)]
pub(super) struct Proofs {
    known: HashMap<RuleKind, RuleProof>,
    pub next: u64,
}

/// What rules of one kind have in common.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct RuleKind {
    items: Vec<(Item, Image)>,
    actions: Vec<Discriminant<Action>>,
}

impl RuleKind {
    fn of(items: &[ItemMatch], actions: &[Action]) -> RuleKind {
        RuleKind {
            items: items.iter().map(|item| (item.item, item.mask)).collect(),
            actions: actions.iter().map(std::mem::discriminant).collect(),
        }
    }
}

impl Proofs {
    /// Whether the kind of a block's rules, with these actions, was tried.
    pub(super) fn has(&self, block: &RuleBlock, actions: &[Action]) -> Result<bool, DeviceError> {
        let items = Patterns::of(block)?.items(0, false);
        Ok(self.known.contains_key(&RuleKind::of(&items, actions)))
    }

    /// Tries the kind of a block's rules with these actions in a table that has none of niclab's
    /// rules, unless it is known.
    ///
    /// # Errors
    /// [`DeviceError::Broken`] where a rule cannot be taken out again; those of [`Patterns::of`].
    pub(super) fn prove<P: RuleTable>(
        &mut self,
        table: &mut P,
        (rings, far): (&mut Rings, Option<FarLink>),
        (block, actions): (&RuleBlock, &[Action]),
    ) -> Result<RuleProof, DeviceError> {
        let items = Patterns::of(block)?.items(0, false);
        let kind = RuleKind::of(&items, actions);
        if let Some(proof) = self.known.get(&kind) {
            return Ok(proof.clone());
        }
        let (group, priority, _) = block.place().unwrap_or_default();
        let rule = WrittenRule { group, priority, items, actions: actions.to_vec() };
        let result = match (actions, &rings.function) {
            (_, Function::Xdp(_)) => {
                ProofResult::NotTried("frames of AF_XDP cannot be looked at one by one".into())
            }
            ([Action::Drop | Action::Queue(_)], _) => {
                let mut port = TablePort::new(table, rings, far);
                let result = proof::prove(&mut port, &rule, &mut self.next)?;
                port.left_behind()?;
                result
            }
            _ => ProofResult::NotTried("rules here have one queue or drop".into()),
        };
        let proof = RuleProof { rule: rule.to_string(), is_templated: false, result };
        self.known.insert(kind, proof.clone());
        Ok(proof)
    }
}

/// Why rules of a kind are not used, if the proof says so.
pub(super) fn fault(proof: &RuleProof) -> Option<DeviceError> {
    proof::fault(proof).map(|fault| DeviceError::lacks(format!("rules of a kind: {fault}")))
}

/// A table of rules and the rings of both ends, while nothing else uses them.
pub(super) struct TablePort<'t, P> {
    table: &'t mut P,
    rings: &'t mut Rings,
    /// The tester's host, where that is another one.
    far: Option<FarLink>,
    /// Places of the rules that are there, and their priorities, oldest first.
    made: Vec<(u32, u32)>,
    /// What is said against the first rule that cannot be taken out.
    left: Option<String>,
}

impl<'t, P: RuleTable> TablePort<'t, P> {
    pub(super) fn new(
        table: &'t mut P,
        rings: &'t mut Rings,
        far: Option<FarLink>,
    ) -> TablePort<'t, P> {
        TablePort { table, rings, far, made: Vec::new(), left: None }
    }

    /// # Errors
    /// [`DeviceError::Broken`] where a rule could not be taken out.
    pub(super) fn left_behind(self) -> Result<(), DeviceError> {
        self.left.map_or(Ok(()), |why| Err(rules::left_behind::<P>(&why)))
    }

    /// A place between the rules of higher and of lower priorities, with room on both sides: the
    /// last one for a rule of every frame.
    fn place(&mut self, rule: &Rule<'_>) -> Result<u32, RuleDenial> {
        if P::HAVE_PRIORITIES {
            return Ok(ANYWHERE);
        }
        let device = |error: DeviceError| RuleDenial::Device(error.to_string());
        let table = rules::table(self.table).map_err(device)?;
        if table.finds_places {
            return match self.made.iter().all(|(_, other)| *other == rule.priority) {
                true => Ok(ANYWHERE),
                false => {
                    let words = P::WORDS;
                    let why = format!("the driver finds the places of {words} itself");
                    Err(RuleDenial::Niclab(why))
                }
            };
        }
        let above = self.made.iter().filter(|(_, other)| *other <= rule.priority);
        let first = above.map(|(place, _)| place + 1).max().unwrap_or(0);
        let below = self.made.iter().filter(|(_, other)| *other > rule.priority);
        let end = below.map(|(place, _)| *place).min().unwrap_or(table.places);
        let free: Vec<u32> = table.free().filter(|place| (first..end).contains(place)).collect();
        let is_any = rule.pattern == Pattern::any();
        let at = if is_any { free.last() } else { free.get(free.len() / 2) };
        at.copied().ok_or_else(|| RuleDenial::Device(rules::full(P::WORDS)))
    }
}

impl<P: RuleTable> RulePort for TablePort<'_, P> {
    type Id = u32;

    fn create(&mut self, rule: &WrittenRule) -> Result<u32, RuleDenial> {
        let WrittenRule { group, priority, items, actions } = rule;
        let unsaid = |why: String| RuleDenial::Niclab(why);
        let pattern = compile::pattern(items).map_err(|error| unsaid(error.to_string()))?;
        let rule = Rule { group: *group, priority: *priority, pattern, actions };
        // What there are no words for needs no place.
        rules::flow_at::<P>(&rule, Some(ANYWHERE)).map_err(unsaid)?;
        let place = self.place(&rule)?;
        let flow = rules::flow_at::<P>(&rule, Some(place)).map_err(unsaid)?;
        let place = self.table.insert(&flow, *priority).map_err(RuleDenial::Device)?;
        self.made.push((place, *priority));
        Ok(place)
    }

    fn replace(&mut self, id: u32, with: &WrittenRule) -> Result<u32, RuleDenial> {
        let WrittenRule { group, priority, items, actions } = with;
        let unsaid = |why: String| RuleDenial::Niclab(why);
        let pattern = compile::pattern(items).map_err(|error| unsaid(error.to_string()))?;
        let rule = Rule { group: *group, priority: *priority, pattern, actions };
        let flow = rules::flow_at::<P>(&rule, Some(id)).map_err(unsaid)?;
        let place = self.table.replace(id, &flow, *priority).map_err(RuleDenial::Device)?;
        self.made.iter_mut().filter(|made| made.0 == id).for_each(|made| made.0 = place);
        Ok(place)
    }

    fn destroy(&mut self, id: u32) -> Result<(), RuleDenial> {
        self.made.retain(|(place, _)| *place != id);
        self.table.remove(id).map_err(|why| {
            self.left.get_or_insert_with(|| why.clone());
            RuleDenial::Device(why)
        })
    }

    fn counted(&mut self, _: u32) -> Result<(u64, u64), RuleDenial> {
        Err(RuleDenial::Niclab(format!("niclab reads no counters of {}", P::WORDS)))
    }

    fn aged(&mut self) -> Result<Vec<u32>, RuleDenial> {
        Err(RuleDenial::Niclab(format!("{} have no ages", P::WORDS)))
    }

    fn send(&mut self, frame: &[u8]) -> Result<bool, DeviceError> {
        if let Some(far) = &self.far {
            return far.borrow_mut().send(frame);
        }
        let Some(TesterRings { outlet, .. }) = &mut self.rings.tester else { return Ok(false) };
        if outlet.reserve(1) == 0 {
            return Ok(false);
        }
        let Some(slot) = outlet.slot(0).get_mut(..frame.len()) else { return Ok(false) };
        slot.copy_from_slice(frame);
        Ok(outlet.commit(&[frame.len() as u16]) == 1)
    }

    fn receive(&mut self, take: &mut TakeFrame<'_>) -> Result<(), DeviceError> {
        let Rings { function, tester } = &mut *self.rings;
        match function {
            Function::Packet(function) => function.take_frames(take),
            Function::Xdp(_) => return Err(DeviceError::lacks("frames of AF_XDP one by one")),
        }
        if let Some(TesterRings { inlet, .. }) = tester {
            for at in 0..inlet.poll() {
                take(FrameExit::Tester, inlet.frame(at), FrameMark::Unknown);
            }
            inlet.release();
        }
        if let Some(far) = &self.far {
            for frame in far.borrow_mut().receive()? {
                take(FrameExit::Tester, &frame, FrameMark::Unknown);
            }
        }
        Ok(())
    }

    fn look(&self) -> Duration {
        if self.far.is_some() { LOOK_FAR } else { LOOK }
    }
}
