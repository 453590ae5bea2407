//! The port under test with its tester, rule by rule and frame by frame: for cases, and for the
//! proof before rate.

use std::collections::HashMap;
use std::mem::Discriminant;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use niclab_device::proof::{self, Probes};
use niclab_device::rule_case::{FrameExit, FrameMark, RuleDenial, WrittenRule};
use niclab_device::rule_port::{RulePort, TakeFrame, look};
use niclab_device::two_hosts::FarLink;
use niclab_device::{DeviceError, ProofResult, RuleProof};
use niclab_load::rings::Inlet;
use niclab_nic::rule::Action;
use niclab_nic::rule::item::{Image, Item, ItemMatch};

use crate::rings::{Forward, In, Out};
use crate::rules::{PortCalls, RuleRefusal, create_by};
use crate::shim::flow::{self, FlowId, FlowRefusal, Flows, Origin};
use crate::translate::{Unsaid, flow_rule};

/// How long a frame is waited for, at least and at most; between these, so many times as long as a
/// frame takes that meets no rule.
const LOOK: RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_millis(200);
const LOOK_FACTOR: u32 = 20;

/// Frames that show how long one takes.
const TIMED: usize = 3;

/// The port under test and the tester's, while nothing else uses their queues.
pub struct ProbedPort<'a> {
    flows: &'a mut Flows,
    /// The number of the port under test in DPDK.
    port: u16,
    /// The calls that create rules like this one.
    claim: Option<&'a Claim>,
    /// The calls that create others.
    calls: PortCalls,
    ends: ProbedEnds<'a>,
    /// How long a frame is waited for.
    look: Duration,
}

/// The ends that single frames go between.
pub struct ProbedEnds<'a> {
    /// Where they come from.
    pub tester: ProbingTester<'a>,
    /// Where they go to.
    pub functions: &'a mut [Forward],
}

/// The tester's port.
pub enum ProbingTester<'a> {
    /// Generator and sink of this process.
    Here(&'a mut Out, &'a mut In),
    /// On another host.
    Far(FarLink),
}

impl From<RuleRefusal> for RuleDenial {
    fn from(refusal: RuleRefusal) -> RuleDenial {
        match refusal {
            RuleRefusal::Unsaid(_) => RuleDenial::Niclab(refusal.to_string()),
            _ => RuleDenial::Device(refusal.to_string()),
        }
    }
}

fn refused(refusal: FlowRefusal) -> RuleDenial {
    RuleDenial::Device(refusal.to_string())
}

fn unsaid(unsaid: Unsaid) -> RuleDenial {
    RuleRefusal::Unsaid(unsaid).into()
}

impl RulePort for ProbedPort<'_> {
    type Id = FlowId;

    fn create(&mut self, rule: &WrittenRule) -> Result<FlowId, RuleDenial> {
        let place = (rule.group, rule.priority);
        let is_claimed = |claim: &&Claim| claim.rule.items == rule.items;
        let calls = self.claim.filter(is_claimed).map_or(self.calls, |claim| claim.calls);
        let written = (place, &rule.items[..], &rule.actions[..]);
        Ok(create_by(self.flows, self.port, written, calls)?)
    }

    fn replace(&mut self, id: FlowId, with: &WrittenRule) -> Result<FlowId, RuleDenial> {
        if !flow::has_update() {
            let what = "this DPDK has no rte_flow_actions_update";
            return Err(RuleDenial::Niclab(what.to_owned()));
        }
        if self.flows.origin(id) == Some(Origin::Queue) {
            let what = "niclab does not update rules that came through an operation queue";
            return Err(RuleDenial::Niclab(what.to_owned()));
        }
        let place = (with.group, with.priority);
        let rule = flow_rule(place, &with.items, &with.actions, self.port).map_err(unsaid)?;
        self.flows.update(id, &rule).map(|()| id).map_err(refused)
    }

    fn destroy(&mut self, id: FlowId) -> Result<(), RuleDenial> {
        self.flows.destroy(id).map_err(refused)
    }

    fn counted(&mut self, id: FlowId) -> Result<(u64, u64), RuleDenial> {
        self.flows.count(id).map_err(refused)
    }

    fn aged(&mut self) -> Result<Vec<FlowId>, RuleDenial> {
        self.flows.aged().map_err(refused)
    }

    fn send(&mut self, frame: &[u8]) -> Result<bool, DeviceError> {
        match &mut self.ends.tester {
            ProbingTester::Here(outlet, _) => Ok(outlet.send_one(frame)),
            ProbingTester::Far(far) => far.borrow_mut().send(frame),
        }
    }

    fn receive(&mut self, take: &mut TakeFrame<'_>) -> Result<(), DeviceError> {
        for function in &mut *self.ends.functions {
            function.take_frames(take);
        }
        match &mut self.ends.tester {
            ProbingTester::Here(_, inlet) => {
                for at in 0..inlet.poll() {
                    take(FrameExit::Tester, inlet.frame(at), FrameMark::Unknown);
                }
                inlet.release();
            }
            ProbingTester::Far(far) => {
                for frame in far.borrow_mut().receive()? {
                    take(FrameExit::Tester, &frame, FrameMark::Unknown);
                }
            }
        }
        Ok(())
    }

    fn look(&self) -> Duration {
        self.look
    }
}

/// A rule to be proven, and the calls that create it.
pub struct Claim {
    /// The rule.
    pub rule: WrittenRule,
    /// The calls.
    pub calls: PortCalls,
}

/// What rules of one kind have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClaimKind {
    is_root: bool,
    items: Vec<(Item, Image)>,
    actions: Vec<Discriminant<Action>>,
    calls: PortCalls,
}

impl Claim {
    fn kind(&self) -> ClaimKind {
        ClaimKind {
            is_root: self.rule.group == 0,
            items: self.rule.items.iter().map(|item| (item.item, item.mask)).collect(),
            actions: self.rule.actions.iter().map(std::mem::discriminant).collect(),
            calls: self.calls,
        }
    }
}

/// What is known of the kinds of rules of a port, and of its frames.
#[derive(Default)]
pub struct Proofs {
    known: HashMap<ClaimKind, RuleProof>,
    /// The number of the next frame.
    pub next: u64,
    /// The calls that create the rules of set-ups.
    pub setup_calls: PortCalls,
    look: Option<Duration>,
}

impl Proofs {
    /// What is known of a kind of rule, if anything.
    pub fn get(&self, claim: &Claim) -> Option<&RuleProof> {
        self.known.get(&claim.kind())
    }

    /// The port and its tester.
    ///
    /// # Errors
    /// Those of [`RulePort::send`] and [`RulePort::receive`].
    pub fn port<'a>(
        &mut self,
        flows: &'a mut Flows,
        port: u16,
        claim: Option<&'a Claim>,
        ends: ProbedEnds<'a>,
    ) -> Result<ProbedPort<'a>, DeviceError> {
        let look = *LOOK.end();
        let calls = self.setup_calls;
        let mut probed = ProbedPort { flows, port, claim, calls, ends, look };
        if self.look.is_none() {
            self.look = Some(time_to_look(&mut probed, &mut self.next)?);
        }
        probed.look = self.look.unwrap_or(look);
        Ok(probed)
    }

    /// Tries a kind of rule on a port that has no rules, unless it is known.
    ///
    /// # Errors
    /// Those of [`proof::prove`].
    pub fn prove(
        &mut self,
        flows: &mut Flows,
        port: u16,
        claim: &Claim,
        ends: ProbedEnds<'_>,
    ) -> Result<RuleProof, DeviceError> {
        let kind = claim.kind();
        if let Some(proof) = self.known.get(&kind) {
            return Ok(proof.clone());
        }
        let mut probed = self.port(flows, port, Some(claim), ends)?;
        let result: ProofResult = proof::prove(&mut probed, &claim.rule, &mut self.next)?;
        let is_templated = claim.calls != PortCalls::Single;
        let proof = RuleProof { rule: claim.rule.to_string(), is_templated, result };
        self.known.insert(kind, proof.clone());
        Ok(proof)
    }
}

/// How long to wait for a frame: a port that has no rules shows how long one takes.
fn time_to_look(port: &mut ProbedPort<'_>, next: &mut u64) -> Result<Duration, DeviceError> {
    let items = [Item::Eth, Item::Ipv4, Item::Udp].map(ItemMatch::any);
    let Some(probes) = Probes::of(&items, 0) else { return Ok(*LOOK.end()) };
    let mut longest = Duration::ZERO;
    for _ in 0..TIMED {
        let begun = Instant::now();
        look(port, &probes.hit, next)?;
        longest = longest.max(begun.elapsed());
    }
    Ok(longest.saturating_mul(LOOK_FACTOR).clamp(*LOOK.start(), *LOOK.end()))
}
