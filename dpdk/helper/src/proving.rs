//! Proof before rate: whether the port does what a rule says, by one frame that must hit it and one
//! that must miss it.
//!
//! Beside the rule under test stands one of lower priority that does the opposite, so that both
//! frames show something: a rule that drops has one to queue 0, any other has one that drops.

use std::collections::HashMap;
use std::convert::Infallible;
use std::mem::Discriminant;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use niclab_device::proof::{self, Probes};
use niclab_device::{ProofResult, RuleProof};
use niclab_load::rings::Inlet;
use niclab_nic::rule::Action;
use niclab_nic::rule::item::{Image, Item, ItemMatch};

use crate::rings::{Forward, In, Out};
use crate::rules::{PortCalls, RuleRefusal, create_by};
use crate::shim::flow::{FlowId, Flows};

/// How long a rule may take until it has its effect.
const EFFECT_MAX: Duration = Duration::from_secs(1);

/// How long a frame is waited for, at least and at most; between these, so many times as long as a
/// frame takes that meets no rule.
const LOOK: RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_millis(200);
const LOOK_FACTOR: u32 = 20;

/// Frames that show how long one takes.
const TIMED: usize = 3;

/// The group that a rule under test jumps to, where it does.
const GROUP_BEHIND: u32 = 1 << 10;

/// A rule to be proven.
pub struct Claim<'a> {
    /// Its group.
    pub group: u32,
    /// Its priority.
    pub priority: u32,
    /// Its pattern.
    pub items: &'a [ItemMatch],
    /// Its actions.
    pub actions: &'a [Action],
    /// The calls that create it.
    pub calls: PortCalls,
    /// The calls that create the rules around it.
    pub around: PortCalls,
}

/// What is sent by and received on.
struct ProbeEnds<'a> {
    /// The tester's.
    outlet: &'a mut Out,
    /// The tester's.
    inlet: &'a mut In,
    /// The device's.
    functions: &'a mut [Forward],
    /// The number of the next probe.
    next: &'a mut u64,
    /// How long a frame is waited for.
    look: Duration,
}

/// Where a probe came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeExit {
    Queue(usize),
    /// The tester has it back.
    Tester,
    Nowhere,
}

/// Where a probe has to come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WantedExit {
    Queue(usize),
    AnyQueue,
    Tester,
    Nowhere,
}

impl WantedExit {
    fn is(self, place: ProbeExit) -> bool {
        match (self, place) {
            (WantedExit::Queue(wanted), ProbeExit::Queue(queue)) => wanted == queue,
            (WantedExit::AnyQueue, ProbeExit::Queue(_))
            | (WantedExit::Tester, ProbeExit::Tester)
            | (WantedExit::Nowhere, ProbeExit::Nowhere) => true,
            _ => false,
        }
    }
}

/// Tries a kind of rule on a port that has no rules, and leaves it without.
fn prove(flows: &mut Flows, port: u16, claim: &Claim<'_>, ends: &mut ProbeEnds<'_>) -> ProofResult {
    let Some(probes) = Probes::of(claim.items, *ends.next) else {
        return ProofResult::NotTried("niclab has no frame for its pattern".into());
    };
    *ends.next += 2;
    let mut made = Vec::new();
    let mut hits = (0, 0);
    let result = surround(flows, port, claim, &mut made).and_then(|(hit, miss, actions)| {
        // Those around it have to work first: a card that accepts them and does nothing may do so
        // with every rule.
        if let ProofResult::Wrong(what) =
            outcome(ends, &probes.hit, None, (miss, miss), &mut (0, 0))
        {
            let around = "a rule for every frame beside it is accepted and has no effect";
            return Ok(ProofResult::Wrong(format!("{around}: {what}")));
        }
        let place = (claim.group, claim.priority);
        let id = create_by(flows, port, (place, claim.items, &actions), claim.calls);
        made.push(id.map_err(Staging::Refused)?);
        Ok(outcome(ends, &probes.hit, probes.miss.as_deref(), (hit, miss), &mut hits))
    });
    let wrong_count = match (&result, made.last()) {
        (Ok(ProofResult::Right { .. }), Some(rule)) if claim.actions.contains(&Action::Count) => {
            counted(flows, *rule, hits)
        }
        _ => None,
    };
    let removed = made.into_iter().rev().map(|id| flows.destroy(id)).fold(Ok(()), Result::and);
    // A late probe is no frame of the next trial.
    drain(ends);
    match (result, removed) {
        (Err(Staging::Refused(refusal)), _) => ProofResult::Refused(refusal.to_string()),
        (Err(Staging::NotTried(why)), _) => ProofResult::NotTried(why),
        (Ok(_), Err(refusal)) => ProofResult::Wrong(format!("it cannot be destroyed: {refusal}")),
        (Ok(result), Ok(())) => wrong_count.unwrap_or(result),
    }
}

/// What a rule's counter has wrong after so many frames; some cards tell it late.
fn counted(flows: &mut Flows, rule: FlowId, (hits, sent): (u64, u64)) -> Option<ProofResult> {
    let begun = Instant::now();
    loop {
        let told = flows.count(rule);
        match told {
            // A frame that comes out too late to be a hit is counted, too.
            Ok((frames, _)) if (hits..=sent).contains(&frames) => return None,
            Ok(_) if begun.elapsed() < EFFECT_MAX => std::thread::sleep(*LOOK.start()),
            Ok((frames, _)) => {
                let what = format!("its counter says {frames} frames after {hits} that hit it");
                return Some(ProofResult::Wrong(what));
            }
            Err(refusal) => {
                return Some(ProofResult::Wrong(format!("its counter cannot be read: {refusal}")));
            }
        }
    }
}

/// Why no frame was sent.
enum Staging {
    /// The port refuses the rule itself.
    Refused(RuleRefusal),
    /// It refuses one of those around it.
    NotTried(String),
}

/// Creates the rules around the one to be proven. Where a hit and a miss of it have to come out
/// then, and its actions: it jumps to a group of its own.
fn surround(
    flows: &mut Flows,
    port: u16,
    claim: &Claim<'_>,
    made: &mut Vec<FlowId>,
) -> Result<(WantedExit, WantedExit, Vec<Action>), Staging> {
    let any = [ItemMatch::any(Item::Eth)];
    let mut around = |flows: &mut Flows, what: &str, place: (u32, u32), action: Action| {
        let id = create_by(flows, port, (place, &any, &[action]), claim.around);
        made.push(
            id.map_err(|refusal| Staging::NotTried(format!("{what} is refused: {refusal}")))?,
        );
        Ok(())
    };
    if claim.group > 0 {
        around(flows, "the jump to its group", (0, 0), Action::Jump(claim.group))?;
    }
    let lower = claim.priority.checked_add(1);
    let lower = lower.ok_or_else(|| Staging::NotTried("there is no lower priority".into()))?;
    let below = (claim.group, lower);
    let (hit, miss) = match fate(claim.actions) {
        Some(Action::Drop) => {
            around(flows, "a rule of lower priority", below, Action::Queue(0))?;
            (WantedExit::Nowhere, WantedExit::Queue(0))
        }
        fate => {
            around(flows, "a rule of lower priority that drops", below, Action::Drop)?;
            let wanted = match fate {
                Some(Action::Queue(queue)) => WantedExit::Queue(usize::from(*queue)),
                Some(Action::Port(_)) => WantedExit::Tester,
                _ => WantedExit::AnyQueue,
            };
            (wanted, WantedExit::Nowhere)
        }
    };
    let mut actions = claim.actions.to_vec();
    for action in &mut actions {
        if let Action::Jump(group) = action {
            *group = claim.group.saturating_add(GROUP_BEHIND);
            around(flows, "a rule behind its jump", (*group, 0), Action::Queue(0))?;
        }
    }
    Ok((hit, miss, actions))
}

/// The action that decides where a frame goes.
fn fate(actions: &[Action]) -> Option<&Action> {
    let is_fate = |action: &&Action| {
        matches!(
            action,
            Action::Drop | Action::Queue(_) | Action::Rss(_) | Action::Port(_) | Action::Jump(_)
        )
    };
    actions.iter().find(is_fate)
}

/// Sends the frames until they come out where they have to, or the time is over; counts those that
/// hit, and those that had to.
fn outcome(
    ends: &mut ProbeEnds<'_>,
    hitting: &[u8],
    missing: Option<&[u8]>,
    (hit, miss): (WantedExit, WantedExit),
    (hits, sent): &mut (u64, u64),
) -> ProofResult {
    let begun = Instant::now();
    loop {
        let Some(place) = look(ends, hitting) else { return unsent() };
        *sent += 1;
        *hits += u64::from(hit.is(place));
        let other = match missing {
            None => None,
            Some(frame) => match look(ends, frame) {
                None => return unsent(),
                place => place,
            },
        };
        let is_hit = hit.is(place);
        let is_miss = other.is_none_or(|other| miss.is(other));
        let since = begun.elapsed();
        if is_hit && is_miss {
            // Looking takes two looks at least, where one is for a frame that does not come.
            let late_ns = since.saturating_sub(3 * ends.look).as_nanos() as u64;
            return ProofResult::Right { late_ns };
        }
        if since > EFFECT_MAX {
            let (frame, wanted, place) = match (is_hit, other) {
                (true, Some(other)) => ("must miss it", miss, other),
                _ => ("must hit it", hit, place),
            };
            return ProofResult::Wrong(format!(
                "the frame that {frame} {} and {}",
                wanted.text(),
                place.text()
            ));
        }
    }
}

impl WantedExit {
    fn text(self) -> String {
        match self {
            WantedExit::Queue(queue) => format!("has to come to queue {queue}"),
            WantedExit::AnyQueue => "has to come to a queue".into(),
            WantedExit::Tester => "has to go back to the tester".into(),
            WantedExit::Nowhere => "has to be dropped".into(),
        }
    }
}

impl ProbeExit {
    fn text(self) -> String {
        match self {
            ProbeExit::Queue(queue) => format!("came to queue {queue}"),
            ProbeExit::Tester => "went back to the tester".into(),
            ProbeExit::Nowhere => "came out nowhere".into(),
        }
    }
}

/// Takes what is still on its way.
fn drain(ends: &mut ProbeEnds<'_>) {
    let begun = Instant::now();
    let mut last = begun;
    while last.elapsed() < *LOOK.start() && begun.elapsed() < EFFECT_MAX {
        let found =
            ends.functions.iter_mut().map(|function| function.probes().len()).sum::<usize>();
        let back = ends.inlet.poll();
        ends.inlet.release();
        if found + back > 0 {
            last = Instant::now();
        }
    }
}

fn unsent() -> ProofResult {
    ProofResult::NotTried("the tester's port does not send".into())
}

/// Sends a frame and says where it comes out; `None` where it cannot be sent.
fn look(ends: &mut ProbeEnds<'_>, frame: &[u8]) -> Option<ProbeExit> {
    let number = proof::number(frame);
    let begun = Instant::now();
    while !ends.outlet.send_one(frame) {
        if begun.elapsed() > EFFECT_MAX {
            return None;
        }
    }
    let begun = Instant::now();
    while begun.elapsed() < ends.look {
        let found = ends.functions.iter_mut().flat_map(Forward::probes);
        if let Some((queue, _)) = found.filter(|(_, probe)| Some(*probe) == number).last() {
            return Some(ProbeExit::Queue(queue));
        }
        let count = ends.inlet.poll();
        let is_back = (0..count).any(|i| proof::number(ends.inlet.frame(i)) == number);
        ends.inlet.release();
        if is_back {
            return Some(ProbeExit::Tester);
        }
    }
    Some(ProbeExit::Nowhere)
}

/// What rules of one kind have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClaimKind {
    is_root: bool,
    items: Vec<(Item, Image)>,
    actions: Vec<Discriminant<Action>>,
    calls: PortCalls,
}

impl Claim<'_> {
    fn kind(&self) -> ClaimKind {
        ClaimKind {
            is_root: self.group == 0,
            items: self.items.iter().map(|item| (item.item, item.mask)).collect(),
            actions: self.actions.iter().map(std::mem::discriminant).collect(),
            calls: self.calls,
        }
    }

    /// In testpmd's syntax.
    fn text(&self) -> String {
        let items: Vec<String> = self.items.iter().map(ItemMatch::to_string).collect();
        let actions: Vec<String> = self.actions.iter().map(Action::to_string).collect();
        format!(
            "group {} priority {} ingress pattern {} / end actions {} / end",
            self.group,
            self.priority,
            items.join(" / "),
            actions.join(" / ")
        )
    }
}

/// What is known of the kinds of rules of a port.
#[derive(Default)]
pub struct Proofs {
    known: HashMap<ClaimKind, RuleProof>,
    next: u64,
    look: Option<Duration>,
}

impl Proofs {
    /// What is known of a kind of rule, if anything.
    pub fn get(&self, claim: &Claim<'_>) -> Option<&RuleProof> {
        self.known.get(&claim.kind())
    }

    /// Tries a kind of rule on a port that has no rules, unless it is known.
    pub fn prove(
        &mut self,
        flows: &mut Flows,
        port: u16,
        claim: &Claim<'_>,
        (tester, functions): (&mut (Out, In), &mut [Forward]),
    ) -> RuleProof {
        let kind = claim.kind();
        if let Some(proof) = self.known.get(&kind) {
            return proof.clone();
        }
        let (outlet, inlet) = tester;
        let look = *LOOK.end();
        let mut ends = ProbeEnds { outlet, inlet, functions, next: &mut self.next, look };
        let look = *self.look.get_or_insert_with(|| time_to_look(&mut ends));
        ends.look = look;
        let attempt = || Ok::<_, Infallible>(prove(flows, port, claim, &mut ends));
        let Ok(result) = proof::repeated(attempt);
        let is_templated = claim.calls != PortCalls::Single;
        let proof = RuleProof { rule: claim.text(), is_templated, result };
        self.known.insert(kind, proof.clone());
        proof
    }
}

/// How long to wait for a frame: a port that has no rules shows how long one takes.
fn time_to_look(ends: &mut ProbeEnds<'_>) -> Duration {
    let items = [Item::Eth, Item::Ipv4, Item::Udp].map(ItemMatch::any);
    let Some(probes) = Probes::of(&items, *ends.next) else { return *LOOK.end() };
    *ends.next += 2;
    let mut longest = Duration::ZERO;
    for _ in 0..TIMED {
        let begun = Instant::now();
        look(ends, &probes.hit);
        longest = longest.max(begun.elapsed());
    }
    longest.saturating_mul(LOOK_FACTOR).clamp(*LOOK.start(), *LOOK.end())
}

/// Why rules of a kind are not used, if the proof says so.
pub fn fault(proof: &RuleProof) -> Option<String> {
    match &proof.result {
        ProofResult::Wrong(what) => Some(format!("accepted and wrong: {what}: {}", proof.rule)),
        ProofResult::Right { .. } | ProofResult::Refused(_) | ProofResult::NotTried(_) => None,
    }
}
