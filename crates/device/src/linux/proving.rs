//! Proof before rate: whether an interface does what a rule says, by one frame that must hit it and
//! one that must miss it.
//!
//! Under the rule lies one of every frame that does the opposite, so that both frames show
//! something: below a rule that drops it leads to queue 0, below any other it drops.

use std::collections::HashMap;
use std::mem::Discriminant;
use std::time::{Duration, Instant};

use niclab_load::rings::Outlet;
use niclab_nic::rule::item::{Image, Item, ItemMatch};
use niclab_nic::rule::{Action, Pattern, Rule};

use super::rings::Rings;
use super::rules::{self, RuleTable};
use crate::control::Patterns;
use crate::face::{DeviceError, ProofResult, RuleBlock, RuleProof};
use crate::proof::{self, Probes};

/// How long a rule may take until it has its effect.
const EFFECT_MAX: Duration = Duration::from_secs(1);

/// How long a frame is waited for that should not come, and between two that should.
const LOOK: Duration = Duration::from_millis(20);

/// The kinds of rules that were tried.
#[derive(Default)]
pub(super) struct Proofs {
    known: HashMap<RuleKind, RuleProof>,
    /// The number of the next probe.
    next: u64,
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
        rings: &mut Rings,
        (block, actions): (&RuleBlock, &[Action]),
    ) -> Result<RuleProof, DeviceError> {
        let patterns = Patterns::of(block)?;
        let items = patterns.items(0, false);
        let kind = RuleKind::of(&items, actions);
        if let Some(proof) = self.known.get(&kind) {
            return Ok(proof.clone());
        }
        let (group, priority, _) = block.place().unwrap_or_default();
        let rule = Rule { group, priority, pattern: patterns.get(0), actions };
        let result = match probes(&items, &rule.pattern, self.next) {
            Some(probes) => {
                rings.drain()?;
                proof::repeated(|| prove(table, rings, &rule, &probes))?
            }
            None => ProofResult::NotTried("niclab has no frame for its pattern".into()),
        };
        self.next += 2;
        let proof = RuleProof { rule: text(&rule, &items), is_templated: false, result };
        self.known.insert(kind, proof.clone());
        Ok(proof)
    }
}

/// The probes of a pattern. Those of Ethernet alone are packets of IP, which come through wherever
/// frames of other protocols do not (`linux-tc:`).
fn probes(items: &[ItemMatch], pattern: &Pattern, number: u64) -> Option<Probes> {
    let of_ip = || {
        let [ethernet] = items else { return None };
        let items = [*ethernet, ItemMatch::any(Item::Ipv4), ItemMatch::any(Item::Udp)];
        let Probes { hit, miss } = Probes::of(&items, number)?;
        let miss = miss.filter(|miss| !pattern.matches(miss));
        pattern.matches(&hit).then_some(Probes { hit, miss })
    };
    of_ip().or_else(|| Probes::of(items, number))
}

/// In testpmd's syntax.
fn text(rule: &Rule<'_>, items: &[ItemMatch]) -> String {
    let items: Vec<String> = items.iter().map(ItemMatch::to_string).collect();
    let actions: Vec<String> = rule.actions.iter().map(Action::to_string).collect();
    let (group, priority) = (rule.group, rule.priority);
    let (items, actions) = (items.join(" / "), actions.join(" / "));
    format!(
        "group {group} priority {priority} ingress pattern {items} / end actions {actions} / end"
    )
}

/// Why rules of a kind are not used, if the proof says so.
pub(super) fn fault(proof: &RuleProof) -> Option<DeviceError> {
    match &proof.result {
        ProofResult::Wrong(what) => Some(DeviceError::lacks(format!(
            "rules of a kind: accepted and wrong: {what}: {}",
            proof.rule
        ))),
        ProofResult::Right { .. } | ProofResult::Refused(_) | ProofResult::NotTried(_) => None,
    }
}

/// Where a probe comes out: at a queue of the function, or nowhere.
type Exit = Option<usize>;

fn prove<P: RuleTable>(
    table: &mut P,
    rings: &mut Rings,
    rule: &Rule<'_>,
    probes: &Probes,
) -> Result<ProofResult, DeviceError> {
    let (below, hit, miss) = match rule.actions {
        [Action::Drop] => (Action::Queue(0), None, Some(0)),
        [Action::Queue(queue)] => (Action::Drop, Some(usize::from(*queue)), None),
        _ => return Ok(ProofResult::NotTried("rules here have one queue or drop".into())),
    };
    let mut made = Vec::new();
    let result = try_both(table, rings, (rule, below), (probes, hit, miss), &mut made);
    for place in made.into_iter().rev() {
        table.remove(place).map_err(|why| rules::left_behind::<P>(&why))?;
    }
    Ok(result)
}

/// Puts the rules in, the one below first, and sends the probes.
fn try_both<P: RuleTable>(
    table: &mut P,
    rings: &mut Rings,
    (rule, below): (&Rule<'_>, Action),
    (probes, hit, miss): (&Probes, Exit, Exit),
    made: &mut Vec<u32>,
) -> ProofResult {
    let Some(priority) = rule.priority.checked_add(1) else {
        return ProofResult::NotTried("there is no lower priority".into());
    };
    let (group, pattern) = (rule.group, Pattern::any());
    let lower = Rule { group, priority, pattern, actions: &[below] };
    match rules::put_last(table, &lower) {
        Ok(place) => made.push(place),
        Err(why) => {
            return ProofResult::NotTried(format!("a rule of lower priority is refused: {why}"));
        }
    }
    // The one below has to work first: a card that accepts it and does nothing may do so with every
    // rule.
    if let ProofResult::Wrong(what) = outcome(rings, &probes.hit, None, (miss, miss)) {
        let below = "a rule for every frame below it is accepted and has no effect";
        return ProofResult::Wrong(format!("{below}: {what}"));
    }
    match rules::put_first(table, rule) {
        Ok(place) => made.push(place),
        Err(why) => return ProofResult::Refused(why),
    }
    outcome(rings, &probes.hit, probes.miss.as_deref(), (hit, miss))
}

/// Sends the frames until they come out where they have to, or the time is over.
fn outcome(
    rings: &mut Rings,
    hitting: &[u8],
    missing: Option<&[u8]>,
    (hit, miss): (Exit, Exit),
) -> ProofResult {
    let begun = Instant::now();
    loop {
        let Some(at) = look(rings, hitting) else { return unsent() };
        let other = match missing.map(|frame| look(rings, frame)) {
            Some(None) => return unsent(),
            Some(Some(other)) => other,
            None => miss,
        };
        let since = begun.elapsed();
        if at == hit && other == miss {
            // Looking takes two looks at least, where one is for a frame that does not come.
            let late_ns = since.saturating_sub(3 * LOOK).as_nanos() as u64;
            return ProofResult::Right { late_ns };
        }
        if since > EFFECT_MAX {
            let (frame, wanted, at) =
                if at == hit { ("must miss it", miss, other) } else { ("must hit it", hit, at) };
            let wanted = wanted.map_or("has to be dropped".to_owned(), |queue| {
                format!("has to come to queue {queue}")
            });
            let at =
                at.map_or("came out nowhere".to_owned(), |queue| format!("came to queue {queue}"));
            return ProofResult::Wrong(format!("the frame that {frame} {wanted} and {at}"));
        }
    }
}

fn unsent() -> ProofResult {
    ProofResult::NotTried(
        "the tester's interface does not send, or the function's path is AF_XDP".into(),
    )
}

/// Sends a frame and says where it comes out; `None` where that cannot be told.
fn look(rings: &mut Rings, frame: &[u8]) -> Option<Exit> {
    let number = proof::number(frame);
    let begun = Instant::now();
    while rings.outlet.reserve(1) == 0 {
        if begun.elapsed() > EFFECT_MAX {
            return None;
        }
    }
    rings.outlet.slot(0).get_mut(..frame.len())?.copy_from_slice(frame);
    rings.outlet.commit(&[frame.len() as u16]);
    let begun = Instant::now();
    while begun.elapsed() < LOOK {
        let found = rings.function.probes()?;
        if let Some((queue, _)) = found.into_iter().find(|(_, probe)| Some(*probe) == number) {
            return Some(Some(queue));
        }
    }
    Some(None)
}
