//! The rules of the port under test: those of a set-up, and the operations of a plan.

use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Instant;

use niclab_device::control::{
    BATCH_MAX, CallResult, InstalledBlock, PREPARED_MAX, PlacedResult, PlannedRule, RuleOperation,
    RuleTarget, Steps,
};
use niclab_device::{
    CallMode, DeviceError, RuleBlock, RuleChangeKind, RuleWork, RulesPlan, SetupReport,
};
use niclab_nic::rule::Action;
use niclab_nic::rule::item::ItemMatch;
use niclab_nic::rule::text::{Command, Commands};

use crate::shim::flow::{
    self, FlowId, FlowRefusal, FlowRule, Flows, Origin, PULL_TIMEOUT, TemplatedRule,
};
use crate::translate::{Unsaid, flow_rule};

/// Why a rule is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleRefusal {
    /// The port refused it.
    Port(FlowRefusal),
    /// niclab cannot say it in rte_flow.
    Unsaid(Unsaid),
    /// A queue gave its result: not done. DPDK has no words for it.
    NotDone,
    /// Nothing came out of a queue within the time.
    NoResult,
}

impl fmt::Display for RuleRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleRefusal::Port(refusal) => refusal.fmt(f),
            RuleRefusal::Unsaid(Unsaid(what)) => {
                write!(f, "not supported: {what} (niclab does not write them for rte_flow)")
            }
            RuleRefusal::NotDone => f.write_str("the operation queue says that it was not done"),
            RuleRefusal::NoResult => f.write_str("the operation queue gave no result within 5 s"),
        }
    }
}

impl From<FlowRefusal> for RuleRefusal {
    fn from(refusal: FlowRefusal) -> RuleRefusal {
        RuleRefusal::Port(refusal)
    }
}

/// How the port's rules are called for.
pub struct PortRules<'f> {
    flows: &'f mut Flows,
    /// The port's number in DPDK.
    port: u16,
    calls: PortCalls,
    /// Rules that a template table is made for.
    rules_max: u32,
    /// Arguments of calls that were made, to be freed when no call is timed.
    spent: Vec<FlowRule>,
    /// Rules that the device has rejected after it had taken them.
    rejected: Vec<FlowId>,
}

/// The kind of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PortCalls {
    /// Each operation by a call of its own.
    #[default]
    Single,
    /// Through the operation queue of the rules.
    Queue,
}

/// An operation with its arguments.
pub enum PortCall {
    Create(Ready),
    /// By the call that DPDK has for it, or by destroying the rule and creating another.
    Update(FlowId, Ready),
    Destroy(FlowId),
    Renew(FlowId, Ready),
}

/// The arguments of a rule.
pub enum Ready {
    Rule(FlowRule),
    Templated(TemplatedRule),
    Refused(RuleRefusal),
}

type PortResult = CallResult<FlowId, RuleRefusal>;
type PortPlacedResult = PlacedResult<FlowId, RuleRefusal>;

/// The mark of the first half of a replacement in a queue.
const GONE: u64 = 1 << 63;

impl<'f> PortRules<'f> {
    /// The rules of this port, of which there are `count` or fewer of a kind.
    pub fn new(
        flows: &'f mut Flows,
        port: u16,
        calls: PortCalls,
        count: usize,
    ) -> Result<PortRules<'f>, FlowRefusal> {
        if calls == PortCalls::Queue {
            flows.take_queue()?;
        }
        // A replacement may have both its rules in the table for a moment.
        let rules_max = u32::try_from(2 * count).unwrap_or(u32::MAX);
        let (spent, rejected) = (Vec::with_capacity(PREPARED_MAX), Vec::new());
        Ok(PortRules { flows, port, calls, rules_max, spent, rejected })
    }

    fn ready(&mut self, rule: PlannedRule<'_>) -> Ready {
        self.ready_with((rule.group, rule.priority), &rule.items(), rule.actions)
    }

    /// The arguments of a rule; through a queue, with the template table that it needs.
    fn ready_with(&mut self, place: (u32, u32), items: &[ItemMatch], actions: &[Action]) -> Ready {
        if self.spent.len() >= PREPARED_MAX {
            self.spent.clear();
        }
        let rule = match flow_rule(place, items, actions, self.port) {
            Err(unsaid) => return Ready::Refused(RuleRefusal::Unsaid(unsaid)),
            Ok(rule) => rule,
        };
        if self.calls == PortCalls::Single {
            return Ready::Rule(rule);
        }
        if let Err(refusal) = self.flows.make_table(&rule, self.rules_max) {
            return Ready::Refused(refusal.into());
        }
        match self.flows.templated(rule) {
            Some(rule) => Ready::Templated(rule),
            None => Ready::Refused(RuleRefusal::Unsaid(Unsaid("rules without a template"))),
        }
    }

    fn create(&mut self, ready: Ready) -> Result<Option<FlowId>, RuleRefusal> {
        match ready {
            Ready::Rule(rule) => {
                let made = self.flows.create(&rule);
                self.spent.push(rule);
                Ok(made.map(Some)?)
            }
            Ready::Refused(refusal) => Err(refusal),
            Ready::Templated(_) => Err(RuleRefusal::NotDone),
        }
    }

    fn renew(&mut self, id: FlowId, ready: Ready) -> PortResult {
        if let Ready::Refused(refusal) = ready {
            return CallResult::of(Err(refusal));
        }
        if let Err(refusal) = self.flows.destroy(id) {
            return CallResult::of(Err(refusal.into()));
        }
        CallResult { stands: self.create(ready), is_gone: true }
    }

    fn update(&mut self, id: FlowId, ready: Ready) -> PortResult {
        match &ready {
            Ready::Rule(rule)
                if flow::has_update() && self.flows.origin(id) == Some(Origin::Call) =>
            {
                let updated = self.flows.update(id, rule);
                CallResult::of(updated.map(|()| Some(id)).map_err(RuleRefusal::from))
            }
            _ => self.renew(id, ready),
        }
    }

    /// Puts one operation into the queue; `None` and a result where nothing of it is there.
    fn put(&mut self, at: usize, call: PortCall) -> Result<Put, RuleRefusal> {
        let user = self.flows.next_user();
        let put = |stands, waiting| Put {
            at,
            user,
            stands,
            waiting,
            refusal: None,
            is_replacement: false,
            is_gone: false,
        };
        let (old, ready) = match call {
            PortCall::Destroy(id) => {
                self.flows.put_destroy(id, user)?;
                return Ok(put(None, 1));
            }
            PortCall::Create(ready) => (None, ready),
            PortCall::Update(id, ready) | PortCall::Renew(id, ready) => (Some(id), ready),
        };
        let rule = match ready {
            Ready::Templated(rule) => rule,
            Ready::Refused(refusal) => return Err(refusal),
            Ready::Rule(_) => return Err(RuleRefusal::NotDone),
        };
        let Some(old) = old else { return Ok(put(Some(self.flows.put_create(rule, user)?), 1)) };
        self.flows.put_destroy(old, user | GONE)?;
        // The old rule goes even if the new one is refused.
        Ok(match self.flows.put_create(rule, user) {
            Ok(id) => Put { is_replacement: true, ..put(Some(id), 2) },
            Err(refusal) => {
                Put { is_replacement: true, refusal: Some(refusal.into()), ..put(None, 1) }
            }
        })
    }

    /// Makes the rules that a plan works on anew where they came by other calls than the plan's: a
    /// rule goes as it came.
    fn recreate<'a>(&mut self, steps: &Steps<'a, FlowId>) -> Result<(), RuleRefusal> {
        let origin = match self.calls {
            PortCalls::Single => Origin::Call,
            PortCalls::Queue => Origin::Queue,
        };
        for (id, rule) in steps.rules_before() {
            if self.flows.origin(id).is_none_or(|of| of == origin) {
                continue;
            }
            match self.ready(rule) {
                Ready::Rule(rule) => self.flows.move_to_call(id, &rule)?,
                Ready::Templated(rule) => self.flows.move_to_queue(id, rule)?,
                Ready::Refused(refusal) => return Err(refusal),
            }
        }
        Ok(())
    }
}

impl<'a> RuleTarget<'a> for PortRules<'_> {
    type Id = FlowId;
    type Call = PortCall;
    type Error = RuleRefusal;

    fn prepare(&mut self, operation: RuleOperation<'a, FlowId>) -> PortCall {
        match operation {
            RuleOperation::Create(rule) => PortCall::Create(self.ready(rule)),
            // Patterns in place were refused with the plan: this gives a rule its actions back.
            RuleOperation::Update(id, rule) | RuleOperation::Modify(id, rule) => {
                PortCall::Update(id, self.ready(rule))
            }
            RuleOperation::Destroy(id) => PortCall::Destroy(id),
            RuleOperation::Renew(id, rule) => PortCall::Renew(id, self.ready(rule)),
        }
    }

    fn call(&mut self, call: PortCall) -> PortResult {
        if self.calls == PortCalls::Queue {
            let (mut one, mut results) = (vec![(0, call)], Vec::with_capacity(1));
            self.batch(&mut one, &mut results);
            let result = results.pop().map(|(_, result)| result);
            return result.unwrap_or_else(|| CallResult::of(Err(RuleRefusal::NoResult)));
        }
        match call {
            PortCall::Create(ready) => CallResult::of(self.create(ready)),
            PortCall::Update(id, ready) => self.update(id, ready),
            PortCall::Destroy(id) => {
                let gone = self.flows.destroy(id);
                CallResult::of(gone.map(|()| None).map_err(RuleRefusal::from))
            }
            PortCall::Renew(id, ready) => self.renew(id, ready),
        }
    }

    fn batch(&mut self, calls: &mut Vec<(usize, PortCall)>, results: &mut Vec<PortPlacedResult>) {
        let size = self.flows.queue_size();
        let mut put: Vec<Put> = Vec::with_capacity(calls.len());
        let mut room = size;
        for (at, call) in calls.drain(..) {
            let is_replacement = matches!(call, PortCall::Update(..) | PortCall::Renew(..));
            let needs = 1 + usize::from(is_replacement);
            if needs > room {
                self.settle(&mut put, results);
                room = size;
            }
            room = room.saturating_sub(needs);
            match self.put(at, call) {
                Ok(one) => put.push(one),
                Err(refusal) => results.push((at, CallResult::of(Err(refusal)))),
            }
        }
        self.settle(&mut put, results);
    }

    fn end(self) -> bool {
        true
    }
}

/// An operation in a queue.
struct Put {
    at: usize,
    /// Its number.
    user: u64,
    /// The rule that stands there where it is done.
    stands: Option<FlowId>,
    /// Results that are to come: two of a replacement.
    waiting: u8,
    /// Why it was not done, or not whole.
    refusal: Option<RuleRefusal>,
    is_replacement: bool,
    /// The rule that it replaces is gone.
    is_gone: bool,
}

impl PortRules<'_> {
    /// Pushes the queue and pulls the results of what was put.
    fn settle(&mut self, put: &mut Vec<Put>, results: &mut Vec<PortPlacedResult>) {
        let mut broken = self.flows.push().err();
        let begun = Instant::now();
        let first = put.first().map_or(0, |put| put.user);
        let mut waiting: usize = put.iter().map(|put| usize::from(put.waiting)).sum();
        while waiting > 0 && broken.is_none() && begun.elapsed() < PULL_TIMEOUT {
            let pulled = self.flows.pull(|user, is_done| {
                // A result that an earlier batch has waited for in vain is of no place here. The
                // numbers of a batch ascend.
                let of = user & !GONE;
                let place = of
                    .checked_sub(first)
                    .and_then(|_| put.binary_search_by_key(&of, |put| put.user).ok());
                let Some(put) = place.and_then(|at| put.get_mut(at)) else { return };
                put.waiting = put.waiting.saturating_sub(1);
                waiting = waiting.saturating_sub(1);
                put.is_gone |= user & GONE != 0 && is_done;
                if !is_done {
                    put.refusal.get_or_insert(RuleRefusal::NotDone);
                }
            });
            broken = pulled.err();
        }
        // A rule that was to be destroyed has no name any more, even if it stays.
        let stays = |put: &Put| match put.is_replacement {
            true => !put.is_gone,
            false => put.stands.is_none() && put.refusal.is_some(),
        };
        if waiting > 0 || put.iter().any(stays) {
            self.flows.mark_uncertain();
        }
        for Put { at, stands, waiting, refusal, is_replacement, is_gone, .. } in put.drain(..) {
            let stands = match (refusal, &broken) {
                (Some(refusal), _) => {
                    self.rejected.extend(stands);
                    Err(refusal)
                }
                (None, Some(refusal)) if waiting > 0 => Err(refusal.clone().into()),
                (None, None) if waiting > 0 => Err(RuleRefusal::NoResult),
                (None, _) => Ok(stands),
            };
            // The name of a rule that was to be destroyed is void, even if nobody knows its end.
            let is_gone = is_gone || is_replacement && stands.is_err();
            results.push((at, CallResult { stands, is_gone }));
        }
    }
}

impl Drop for PortRules<'_> {
    /// Destroys rules that the device has rejected: they have handles all the same
    /// (`rte_flow_async_create`, rte_flow.h). No call is timed any more.
    fn drop(&mut self) {
        for id in std::mem::take(&mut self.rejected) {
            if self.flows.destroy(id).is_err() {
                self.flows.forget(id);
            }
        }
    }
}

/// Rules of one kind that are created one by one.
const ONE_BY_ONE_MAX: usize = 1 << 12;

/// Creates one rule: its place, items and actions.
///
/// # Errors
/// Its refusal.
pub fn create_by(
    flows: &mut Flows,
    port: u16,
    (place, items, actions): ((u32, u32), &[ItemMatch], &[Action]),
    calls: PortCalls,
) -> Result<FlowId, RuleRefusal> {
    let mut rules = PortRules::new(flows, port, calls, ONE_BY_ONE_MAX)?;
    let ready = rules.ready_with(place, items, actions);
    let CallResult { stands, .. } = rules.call(PortCall::Create(ready));
    stands?.ok_or(RuleRefusal::NotDone)
}

/// Refuses a plan whose operations rte_flow has no calls for.
///
/// # Errors
/// [`DeviceError::NotSupported`].
pub fn check_plan(plan: &RulesPlan) -> Result<(), DeviceError> {
    let lacks = |what: &str| Err(DeviceError::lacks(format!("{what} (rte_flow has none)")));
    match (&plan.work, plan.calls) {
        (_, CallMode::Transaction) => lacks("transactions of rules"),
        (RuleWork::Change { change, .. }, _) => match change {
            RuleChangeKind::Values | RuleChangeKind::Mask | RuleChangeKind::Priority(_) => {
                lacks("changes in place of what rules match")
            }
            RuleChangeKind::Actions(_) | RuleChangeKind::Anew(_) => Ok(()),
        },
        (RuleWork::Create(_) | RuleWork::Renew { .. }, _) => Ok(()),
    }
}

/// The calls that a plan asks for, of these operations. `queues` says why the port has no operation
/// queue, if it has none. The rules that the plan works on come by the same calls afterwards.
///
/// # Errors
/// [`DeviceError::NotSupported`] for calls or templates that the port lacks;
/// [`DeviceError::Broken`] where a rule could not be made anew.
pub fn target<'f>(
    flows: &'f mut Flows,
    port: u16,
    plan: &RulesPlan,
    steps: &Steps<'_, FlowId>,
    queues: Result<(), FlowRefusal>,
) -> Result<PortRules<'f>, DeviceError> {
    // Memory is not the port's time.
    flows.reserve(steps.places());
    let lacks = |what: &str, refusal: &dyn fmt::Display| {
        DeviceError::lacks(format!("{what}: the port says: {refusal}"))
    };
    let broken = |refusal: RuleRefusal| DeviceError::Broken {
        device: "dpdk".into(),
        reason: format!("making a rule anew by the calls of the plan: {refusal}"),
    };
    let count = steps.places();
    if plan.calls != CallMode::Queue {
        let rules = PortRules::new(flows, port, PortCalls::Single, count);
        let mut rules = rules.map_err(|refusal| broken(refusal.into()))?;
        rules.recreate(steps).map_err(broken)?;
        return Ok(rules);
    }
    let of_queues = |refusal| lacks("operation queues for rules", &refusal);
    queues.map_err(of_queues)?;
    let mut rules = PortRules::new(flows, port, PortCalls::Queue, count).map_err(of_queues)?;
    for sample in steps.samples() {
        if let Ready::Refused(refusal) = rules.ready(sample) {
            return Err(lacks("templates for these rules", &refusal));
        }
    }
    rules.recreate(steps).map_err(broken)?;
    Ok(rules)
}

/// Creates the rules of a set-up. The first refusal of a block ends it: the rest counts as refused,
/// too. So does a block that `fault` has a word against, as a whole.
///
/// # Errors
/// Where a block makes no rules: a file that cannot be read or has other commands.
pub fn install(
    flows: &mut Flows,
    (port, calls): (u16, PortCalls),
    blocks: &[RuleBlock],
    faults: Vec<Option<String>>,
    report: &mut SetupReport,
) -> Result<Vec<InstalledBlock<FlowId>>, DeviceError> {
    let broken = |refusal: FlowRefusal| DeviceError::Broken {
        device: "dpdk".into(),
        reason: format!("rules of a set-up: {refusal}"),
    };
    flows.reserve(blocks.iter().map(|block| block.count() as usize).sum());
    let mut installed = Vec::with_capacity(blocks.len());
    for (block, fault) in blocks.iter().zip(faults) {
        installed.push(match (block, fault) {
            (block, Some(fault)) => {
                report.rules_refused += u64::from(block.count());
                report.refusal.get_or_insert(fault);
                InstalledBlock::default()
            }
            (block, None) => {
                let target = PortRules::new(flows, port, calls, block.count() as usize);
                let target = target.map_err(broken)?;
                match block {
                    RuleBlock::File { path, rules_count } => {
                        apply(target, (path, *rules_count), report)?;
                        InstalledBlock::default()
                    }
                    block => InstalledBlock::install(block, target, report)?,
                }
            }
        });
    }
    Ok(installed)
}

/// Creates the rules of a file of `flow create` commands. Only the calls are timed.
fn apply(
    mut rules: PortRules<'_>,
    (path, count): (&Path, u32),
    report: &mut SetupReport,
) -> Result<(), DeviceError> {
    let broken =
        |reason: String| DeviceError::Broken { device: path.display().to_string(), reason };
    let file = File::open(path).map_err(|error| DeviceError::Absent {
        what: path.display().to_string(),
        remedy: format!("{error}; the rules of the experiment stand there"),
    })?;
    let mut commands = Commands::new(BufReader::new(file));
    let mut created = 0;
    while let Some(parsed) = commands.next_command() {
        let parsed = parsed.map_err(|error| broken(error.to_string()))?;
        let rule = match parsed.command {
            Command::Create { rule, .. } => rule,
            Command::Set { .. } => continue,
            _ => return Err(broken(format!("line {}: use `flow create` alone", parsed.line))),
        };
        let place = (rule.group, rule.priority);
        let call = PortCall::Create(rules.ready_with(place, rule.items, rule.actions));
        let begun = Instant::now();
        let CallResult { stands, .. } = rules.call(call);
        report.install += begun.elapsed();
        if let Err(refusal) = stands {
            report.rules_refused += u64::from(count.saturating_sub(created));
            report.refusal.get_or_insert_with(|| format!("line {}: {refusal}", parsed.line));
            break;
        }
        created += 1;
    }
    report.rules_installed += u64::from(created);
    Ok(())
}

/// Operations that a queue of the port must hold: the two halves of replacements.
pub const QUEUE_SIZE: u32 = 2 * BATCH_MAX as u32;
