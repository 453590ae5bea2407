//! The rules of the port under test: those of a set-up, and the operations of a plan.

use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, Instant};

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

use crate::shim::flow::{self, FlowId, FlowRefusal, FlowRule, Flows, TemplatedRule};
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
    /// Arguments of calls that were made, to be freed when no call is timed.
    spent: Vec<FlowRule>,
}

/// The kind of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortCalls {
    /// Each operation by a call of its own.
    Single,
    /// Through this operation queue.
    Queue(u32),
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

/// How long an operation queue may take for its results.
const PULL_TIMEOUT: Duration = Duration::from_secs(5);

/// The mark of the first half of a replacement in a queue.
const GONE: u64 = 1 << 63;

impl<'f> PortRules<'f> {
    /// The rules of this port.
    pub fn new(flows: &'f mut Flows, port: u16, calls: PortCalls) -> PortRules<'f> {
        PortRules { flows, port, calls, spent: Vec::with_capacity(PREPARED_MAX) }
    }

    fn ready(&mut self, rule: PlannedRule<'_>) -> Ready {
        if self.spent.len() >= PREPARED_MAX {
            self.spent.clear();
        }
        let place = (rule.group, rule.priority);
        match (flow_rule(place, &rule.items(), rule.actions, self.port), self.calls) {
            (Err(unsaid), _) => Ready::Refused(RuleRefusal::Unsaid(unsaid)),
            (Ok(rule), PortCalls::Single) => Ready::Rule(rule),
            (Ok(rule), PortCalls::Queue(_)) => match self.flows.templated(rule) {
                Some(rule) => Ready::Templated(rule),
                None => Ready::Refused(RuleRefusal::Unsaid(Unsaid("rules without a template"))),
            },
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
            Ready::Rule(rule) if flow::has_update() => {
                let updated = self.flows.update(id, rule);
                CallResult::of(updated.map(|()| Some(id)).map_err(RuleRefusal::from))
            }
            _ => self.renew(id, ready),
        }
    }

    /// Puts one operation into a queue; the rule that it makes, or why it was not put.
    fn put(
        &mut self,
        queue: u32,
        user: u64,
        call: PortCall,
    ) -> Result<Option<FlowId>, RuleRefusal> {
        let (old, ready) = match call {
            PortCall::Destroy(id) => {
                self.flows.put_destroy(queue, id, user)?;
                return Ok(None);
            }
            PortCall::Create(ready) => (None, ready),
            PortCall::Update(id, ready) | PortCall::Renew(id, ready) => (Some(id), ready),
        };
        match ready {
            Ready::Templated(rule) => {
                if let Some(old) = old {
                    self.flows.put_destroy(queue, old, user | GONE)?;
                }
                Ok(Some(self.flows.put_create(queue, rule, user)?))
            }
            Ready::Refused(refusal) => Err(refusal),
            Ready::Rule(_) => Err(RuleRefusal::NotDone),
        }
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
        let PortCalls::Queue(queue) = self.calls else { return };
        let mut put: Vec<Put> = Vec::with_capacity(calls.len());
        for (at, call) in calls.drain(..) {
            let is_replacement = matches!(call, PortCall::Update(..) | PortCall::Renew(..));
            match self.put(queue, put.len() as u64, call) {
                Ok(stands) => put.push(Put {
                    at,
                    stands,
                    waiting: 1 + u8::from(is_replacement),
                    is_failed: false,
                    is_gone: false,
                }),
                Err(refusal) => results.push((at, CallResult::of(Err(refusal)))),
            }
        }
        self.settle(queue, put, results);
    }

    fn end(self) -> bool {
        true
    }
}

/// An operation in a queue.
struct Put {
    at: usize,
    /// The rule that stands there where it is done.
    stands: Option<FlowId>,
    /// Results that are to come: two of a replacement.
    waiting: u8,
    is_failed: bool,
    /// The rule that it replaces is gone.
    is_gone: bool,
}

impl PortRules<'_> {
    /// Pushes a queue and pulls the results of what was put.
    fn settle(&mut self, queue: u32, mut put: Vec<Put>, results: &mut Vec<PortPlacedResult>) {
        let pushed = self.flows.push(queue);
        let begun = Instant::now();
        let mut waiting: usize = put.iter().map(|put| usize::from(put.waiting)).sum();
        while waiting > 0 && pushed.is_ok() && begun.elapsed() < PULL_TIMEOUT {
            let pulled = self.flows.pull(queue, |user, is_done| {
                let Some(put) = put.get_mut((user & !GONE) as usize) else { return };
                put.waiting = put.waiting.saturating_sub(1);
                put.is_gone |= user & GONE != 0 && is_done;
                put.is_failed |= !is_done;
            });
            waiting -= pulled.unwrap_or(0).min(waiting);
        }
        for Put { at, stands, waiting, is_failed, is_gone } in put {
            let stands = match &pushed {
                Err(refusal) => Err(refusal.clone().into()),
                Ok(()) if is_failed => {
                    stands.into_iter().for_each(|id| self.flows.forget(id));
                    Err(RuleRefusal::NotDone)
                }
                Ok(()) if waiting > 0 => Err(RuleRefusal::NoResult),
                Ok(()) => Ok(stands),
            };
            results.push((at, CallResult { stands, is_gone }));
        }
    }
}

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
    let rule = flow_rule(place, items, actions, port).map_err(RuleRefusal::Unsaid)?;
    let PortCalls::Queue(_) = calls else { return Ok(flows.create(&rule)?) };
    flows.make_table(&rule, 1)?;
    let rule =
        flows.templated(rule).ok_or(RuleRefusal::Unsaid(Unsaid("rules without a template")))?;
    let (mut put, mut results) = (vec![(0, PortCall::Create(Ready::Templated(rule)))], Vec::new());
    PortRules::new(flows, port, calls).batch(&mut put, &mut results);
    let result = results.pop().map(|(_, result)| result.stands);
    result.unwrap_or(Err(RuleRefusal::NoResult))?.ok_or(RuleRefusal::NotDone)
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

/// The calls that a plan asks for, of these operations. `queue` is the operation queue, or says why
/// the port has none.
///
/// # Errors
/// [`DeviceError::NotSupported`] for calls or templates that the port lacks.
pub fn target<'f>(
    flows: &'f mut Flows,
    port: u16,
    plan: &RulesPlan,
    steps: &Steps<'_, FlowId>,
    queue: Result<u32, FlowRefusal>,
) -> Result<PortRules<'f>, DeviceError> {
    // Memory is not the port's time.
    flows.reserve(steps.places());
    if plan.calls != CallMode::Queue {
        return Ok(PortRules::new(flows, port, PortCalls::Single));
    }
    let lacks = |what: &str, refusal: &dyn fmt::Display| {
        DeviceError::lacks(format!("{what}: the port says: {refusal}"))
    };
    let queue = queue.map_err(|refusal| lacks("operation queues for rules", &refusal))?;
    // A replacement may have both its rules in the table for a moment.
    let rules_max = u32::try_from(2 * steps.places()).unwrap_or(u32::MAX);
    for sample in steps.samples() {
        let place = (sample.group, sample.priority);
        let rule = flow_rule(place, &sample.items(), sample.actions, port);
        let rule = rule.map_err(|unsaid| DeviceError::lacks(unsaid.0))?;
        let made = flows.make_table(&rule, rules_max);
        made.map_err(|refusal| lacks("templates for these rules", &refusal))?;
    }
    Ok(PortRules::new(flows, port, PortCalls::Queue(queue)))
}

/// Creates the rules of a set-up. The first refusal of a block ends it: the rest counts as refused,
/// too. So does a block that `fault` has a word against, as a whole.
///
/// # Errors
/// Where a block makes no rules: a file that cannot be read or has other commands.
pub fn install(
    flows: &mut Flows,
    port: u16,
    blocks: &[RuleBlock],
    faults: Vec<Option<String>>,
    report: &mut SetupReport,
) -> Result<Vec<InstalledBlock<FlowId>>, DeviceError> {
    flows.reserve(blocks.iter().map(|block| block.count() as usize).sum());
    let mut installed = Vec::with_capacity(blocks.len());
    for (block, fault) in blocks.iter().zip(faults) {
        installed.push(match (block, fault) {
            (block, Some(fault)) => {
                report.rules_refused += u64::from(block.count());
                report.refusal.get_or_insert(fault);
                InstalledBlock::default()
            }
            (RuleBlock::File { path, rules_count }, None) => {
                apply(flows, port, (path, *rules_count), report)?;
                InstalledBlock::default()
            }
            (block, None) => {
                let target = PortRules::new(flows, port, PortCalls::Single);
                InstalledBlock::install(block, target, report)?
            }
        });
    }
    Ok(installed)
}

/// Creates the rules of a file of `flow create` commands. Only the calls are timed.
fn apply(
    flows: &mut Flows,
    port: u16,
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
        let ready = flow_rule((rule.group, rule.priority), rule.items, rule.actions, port);
        let begun = Instant::now();
        let made = ready.map_err(RuleRefusal::Unsaid).and_then(|rule| Ok(flows.create(&rule)?));
        report.install += begun.elapsed();
        if let Err(refusal) = made {
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
