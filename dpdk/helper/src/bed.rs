//! The testbed: ports, their queues, and what is done with them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use niclab_device::capability;
use niclab_device::control::{Carrier, InstalledBlock, Patterns, Steps, threads};
use niclab_device::cores::Pinned;
use niclab_device::dpdk::protocol::Open;
use niclab_device::pair::{
    PlanThread, PlanWork, PlannedSide, Stage, Trial, TrialPlan, judge_refused,
};
use niclab_device::rule_case::{RuleCases, RuleCasesObservation, WrittenRule};
use niclab_device::rule_port::carry_out;
use niclab_device::two_hosts::{
    DeviceObservation, FarLink, HalfObservation, HalfTask, InterfaceCounts, Role,
};
use niclab_device::{
    CallMode, Control, ControlCore, DeviceError, DeviceInfo, Fact, Function, Load, LoadObservation,
    Observation, PathNode, Plan, PortCounters, Rate, RssPlan, RuleBlock, RuleChangeKind, RuleProof,
    RuleWork, RulesPlan, Setup, SetupReport, Task, Testbed,
};
use niclab_load::RssChanges;
use niclab_load::clock::Clock;
use niclab_load::rings::{BURST, Inlet};
use niclab_nic::rule::Action;
use niclab_nic::rule::item::{Item, ItemMatch};
use rustix::io::Errno;

use crate::arguments::{self, Arguments, Wiring};
use crate::pools::{POOL_FRAMES, Pools};
use crate::proving::{Claim, ProbedEnds, ProbingTester, Proofs};
use crate::rings::{Forward, In, Out, frame_ns};
use crate::rss::{self, RssWork};
use crate::rules::{self, PortCalls, PortRules, QUEUE_SIZE};
use crate::shim::flow::{self, FlowId, FlowRefusal, Flows};
use crate::shim::{Dpdk, Port, PortInfo, PortShape, Refusal, Ring, RxQueue, Stats, TxQueue};
use crate::{shim, translate};

/// Places of a ring between two ports: a quarter of a millisecond at 16 million frames a second.
const RING_SLOTS: u16 = 4096;

/// Descriptors of a card's queue, as far as it has them.
pub const CARD_SLOTS: u16 = 1024;

/// Frame check sequence, which DPDK leaves out, bytes.
pub const FCS_LEN: u16 = 4;

/// Ethernet header and frame check sequence, which the MTU leaves out, bytes.
const HEADER_AND_FCS_LEN: u16 = 18;

/// Most receive queues of the port under test.
const QUEUES_MAX: u16 = 64;

/// The driver's counter of frames that rules dropped, where it has one: niclab's own.
const DROPPED_BY_RULE: &str = "rx_dropped_by_rule";

/// Rules that operation queues are configured for.
const RULES_MAX: u32 = 1 << 22;

/// Longest frame before the first setup says otherwise, bytes with FCS.
pub const FRAME_LEN_DEFAULT: u16 = 1518;

/// How long a card's link may take to come up.
const LINK_TIMEOUT: Duration = Duration::from_secs(20);

const _: () = assert!(POOL_FRAMES as usize > 2 * RING_SLOTS as usize + 4 * CARD_SLOTS as usize);

/// DPDK ports as a device under test.
pub struct DpdkBed {
    about: DeviceInfo,
    /// The tester's, where it is here, then the function's, then that of a plan of its own core.
    cores: Vec<u32>,
    wiring: Wiring,
    ports: Ports,
    pools: Pools,
    /// The host with the tester, where that is another one.
    far: Option<FarLink>,
    /// What a frame may cost the tester's core, and the function's, nanoseconds.
    frame_ns: (u64, u64),
    rules: Option<PortState>,
    rings: Option<PortRings>,
    size: TrialSize,
    operation_queues: Result<OperationQueues, FlowRefusal>,
    /// Whether the port takes rules by single calls.
    single_calls: Result<(), FlowRefusal>,
    /// How the rules of a set-up are made: by single calls where the port takes them.
    setup_calls: PortCalls,
    /// The last.
    setup: Option<Setup>,
    proofs: Proofs,
}

/// What the ports are started for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TrialSize {
    /// Longest frame, bytes with FCS.
    frame_len_max: u16,
    /// Receive queues of the port under test.
    queues: u16,
    /// Cores that poll them.
    cores: u16,
}

/// Operation queues for rules that the port under test gets.
#[derive(Clone, Copy, Debug)]
struct OperationQueues {
    count: u16,
    size: u32,
}

/// The ports of a testbed.
struct Ports {
    tester: Option<Port>,
    device: Arc<Port>,
    /// From the tester's port to the device's, where it is a ring.
    ring: Option<Ring>,
}

/// The queues, in the hands that use them.
struct PortRings {
    tester: Option<(Out, In)>,
    /// By core.
    functions: Vec<Forward>,
}

/// The rules of the port under test.
struct PortState {
    flows: Flows,
    blocks: Vec<InstalledBlock<FlowId>>,
}

impl DpdkBed {
    /// Starts DPDK and finds or makes the ports. `far` is for the device's half of a testbed.
    pub fn open(open: &Open, far: FarLink) -> Result<DpdkBed, DeviceError> {
        let arguments = Arguments::of(open)?;
        let dpdk = start_dpdk(&arguments, open)?;
        let ports = Ports::find(&dpdk, &arguments, open)?;
        let mut bed = DpdkBed {
            about: DeviceInfo { name: open.name.clone(), ..DeviceInfo::default() },
            cores: open.cores.clone(),
            wiring: arguments.wiring,
            frame_ns: frame_ns_of(&arguments, &ports),
            ports,
            pools: Pools::new(dpdk),
            far: Some(far).filter(|_| open.role == Role::Device),
            rules: None,
            rings: None,
            size: TrialSize::default(),
            operation_queues: Err(no_queues("not asked yet")),
            single_calls: Ok(()),
            setup_calls: PortCalls::Single,
            setup: None,
            proofs: Proofs::default(),
        };
        let size = TrialSize { frame_len_max: FRAME_LEN_DEFAULT, queues: 1, cores: 1 };
        bed.start(size).map_err(|refusal| broken(open, refusal))?;
        // A port tells only once it is set up, and gets them when it is set up again.
        bed.operation_queues = operation_queues(&bed.ports.device, open.cores.len());
        if bed.operation_queues.is_ok()
            && let Err(refusal) = bed.start(size)
        {
            // It has rules without them.
            bed.operation_queues = Err(no_queues(&refusal.0));
            bed.start(size).map_err(|refusal| broken(open, refusal))?;
        }
        bed.single_calls = takes_rules(&bed.ports.device);
        if bed.single_calls.is_err() && takes_queued_rules(&bed.ports.device) {
            bed.setup_calls = PortCalls::Queue;
            bed.proofs.setup_calls = PortCalls::Queue;
        }
        bed.about = about(open, &arguments, &bed).map_err(|r| broken(open, r))?;
        Ok(bed)
    }

    /// Starts the ports.
    fn start(&mut self, size: TrialSize) -> Result<(), Refusal> {
        let pool = self.pools.of_frames(size.frame_len_max)?;
        (self.rings, self.rules) = (None, None);
        let slots = if self.wiring == Wiring::Rings { RING_SLOTS } else { CARD_SLOTS };
        let start = |port: &mut Port, shape: PortShape| {
            let mtu = mtu(port, size.frame_len_max)?;
            port.start(&pool, &PortShape { slots, mtu, ..shape })
        };
        let one = PortShape { rx_queues: 1, tx_queues: 1, ..PortShape::default() };
        let mut shape = PortShape { rx_queues: size.queues, tx_queues: size.cores, ..one };
        if let Ok(queues) = &self.operation_queues {
            shape.flow_queues = queues.count;
            (shape.flow_queue_size, shape.rules_max) = (queues.size, RULES_MAX);
        }
        let device = Arc::get_mut(&mut self.ports.device);
        let device = device.ok_or_else(|| Refusal("the port is in use".into()))?;
        let (rx, tx) = start(device, shape)?;
        let ring = self.ports.ring;
        let tester = match &mut self.ports.tester {
            None => None,
            Some(port) => {
                let (rx, tx) = start(port, one)?;
                let (rx, tx) = (rx.into_iter().next(), tx.into_iter().next());
                let ends = rx.zip(tx).ok_or_else(|| Refusal("no queues".into()))?;
                let frames = (size.frame_len_max - FCS_LEN, self.frame_ns.0);
                Some((Out::new(ends.1, pool, ring, frames), In::new(ends.0)))
            }
        };
        // The link of half a testbed comes when the other half has started, too.
        if self.far.is_none() {
            self.ports.wait_for_links()?;
        }
        self.rings =
            Some(PortRings { tester, functions: functions(rx, tx, size, self.frame_ns.1) });
        self.size = size;
        Ok(())
    }

    fn broken(&self, refusal: Refusal) -> DeviceError {
        DeviceError::Broken { device: self.about.name.clone(), reason: refusal.0 }
    }

    /// A trial between two ports, and a plan meanwhile.
    fn run_pair(&mut self, load: &Load, plan: Option<TrialPlan<'_>>) -> TrialResult {
        let name = self.about.name.clone();
        let gone = || DeviceError::Broken { device: name.clone(), reason: "not set up".into() };
        let before = self.counted().map_err(|refusal| self.broken(refusal))?;
        let rings = self.rings.as_mut().ok_or_else(gone)?;
        let (outlet, inlet) = rings.tester.as_mut().ok_or_else(gone)?;
        // What an earlier trial left behind.
        for _ in 0..2 * usize::from(RING_SLOTS) / BURST {
            if inlet.poll() == 0 {
                break;
            }
        }
        inlet.release();
        let depth = match self.wiring {
            Wiring::Rings => RING_SLOTS,
            _ => CARD_SLOTS,
        };
        let sunk = missed(inlet.queue());
        let trial =
            Trial { device: &name, load, depth: u32::from(depth), core: Some(self.cores[0]) };
        let (stages, beside) = stages(&mut rings.functions, &self.cores[1..], plan);
        let mut observation = trial.run((&mut *outlet, &mut *inlet), stages, beside)?;
        let sunk = missed(inlet.queue()) - sunk;
        self.account(&mut observation, &before)?;
        observation.balance(sunk);
        if self.wiring != Wiring::Rings {
            judge_refused(&mut observation);
        }
        Ok(observation)
    }

    /// The device's part of a load that a tester on another host offers, and a plan meanwhile.
    fn serve(
        &mut self,
        load: &Load,
        plan: Option<TrialPlan<'_>>,
    ) -> Result<DeviceObservation, DeviceError> {
        let lacks = || DeviceError::lacks(capability::TWO_HOSTS);
        let far = self.far.clone().ok_or_else(lacks)?;
        let name = self.about.name.clone();
        let gone = || DeviceError::Broken { device: name.clone(), reason: "not set up".into() };
        self.ports.wait_for_links().map_err(|refusal| self.broken(refusal))?;
        let rings = self.rings.as_mut().ok_or_else(gone)?;
        // What an earlier trial left behind.
        rings.functions.iter_mut().for_each(Forward::drain);
        let before = self.counted().map_err(|refusal| self.broken(refusal))?;
        let rings = self.rings.as_mut().ok_or_else(gone)?;
        let trial = Trial { device: &name, load, depth: CARD_SLOTS.into(), core: None };
        let (stages, beside) = stages(&mut rings.functions, &self.cores, plan);
        let mut observation = trial.serve(stages, beside, &mut *far.borrow_mut())?;
        let since = self.counted_since(&before)?;
        let function = &mut observation.function;
        since.enter(function);
        observation.interface = InterfaceCounts {
            rx_frames: since.stats.rx_frames + function.rx_missed + function.rule_drops,
            tx_frames: since.stats.tx_frames,
            ..InterfaceCounts::default()
        };
        observation.statistics = since.statistics;
        Ok(observation)
    }

    /// The function alone, on a port that makes its own frames.
    fn run_alone(&mut self, load: &Load) -> TrialResult {
        if load.rate != Rate::Saturate {
            return Err(DeviceError::lacks("rate"));
        }
        if load.trace.is_some() {
            return Err(DeviceError::lacks("trace"));
        }
        let name = self.about.name.clone();
        let gone = || DeviceError::Broken { device: name.clone(), reason: "not set up".into() };
        let before = self.counted().map_err(|refusal| self.broken(refusal))?;
        let rings = self.rings.as_mut().ok_or_else(gone)?;
        let function = rings.functions.first_mut().ok_or_else(gone)?;
        // A ring's depth and a tester's core mean nothing here: there is no tester.
        let trial = Trial { device: &name, load, depth: 0, core: None };
        let mut observation =
            trial.run_alone(Stage::new("function", Some(self.cores[1]), function))?;
        let made = observation.offered_bytes.checked_div(observation.offered).unwrap_or(0);
        if load.sizes.period().iter().any(|&size| u64::from(size) != made) {
            return Err(DeviceError::lacks("frame_size"));
        }
        observation.honesty.balanced = true;
        self.account(&mut observation, &before)?;
        Ok(observation)
    }

    /// Carries a plan out while `run` deals with frames.
    fn with_plan<O>(
        &mut self,
        load: &Load,
        plan: &Plan,
        run: impl FnOnce(&mut Self, Option<TrialPlan<'_>>) -> Result<O, DeviceError>,
    ) -> Result<(O, PlanRecord), DeviceError> {
        match plan {
            Plan::Rest => Ok((run(self, None)?, PlanRecord::default())),
            Plan::Rules(plan) => {
                self.prove_plan(plan)?;
                self.run_planned(load, plan, run)
            }
            Plan::Rss(plan) => self.run_rss(*plan, run),
        }
    }

    /// Works on the rules while `run` deals with frames. The rules of the set-up are back
    /// afterwards.
    fn run_planned<O>(
        &mut self,
        load: &Load,
        plan: &RulesPlan,
        run: impl FnOnce(&mut Self, Option<TrialPlan<'_>>) -> Result<O, DeviceError>,
    ) -> Result<(O, PlanRecord), DeviceError> {
        self.check_plan(plan)?;
        let core = self.plan_core(plan)?;
        let patterns = Patterns::of_plan(plan)?;
        let mut state = self.rules.take().ok_or_else(|| self.not_set_up())?;
        let outcome = self.run_beside((load, plan), core, patterns.as_ref(), &mut state, run);
        let outcome = outcome.and_then(|(observation, control, ids)| {
            let control = Some(control);
            let record = PlanRecord { control, ..PlanRecord::default() };
            self.undo(plan, &mut state, ids).map(|()| (observation, record))
        });
        // A port that broke has not the rules that it is to have.
        self.rules = Some(state).filter(|_| !matches!(outcome, Err(DeviceError::Broken { .. })));
        outcome
    }

    fn run_beside<O>(
        &mut self,
        (load, plan): (&Load, &RulesPlan),
        core: Option<u32>,
        patterns: Option<&Patterns>,
        state: &mut PortState,
        run: impl FnOnce(&mut Self, Option<TrialPlan<'_>>) -> Result<O, DeviceError>,
    ) -> Result<(O, Control, Vec<Option<FlowId>>), DeviceError> {
        let PortState { flows, blocks } = state;
        let (port, queues) = (self.ports.device.number(), self.operation_queues.clone());
        let mut carrier = Carrier::new(plan, (patterns, &blocks[..]), load.duration_ns, |steps| {
            rules::target(flows, port, plan, steps, queues.map(drop))
        })?;
        let mut requests = core.and_then(|_| carrier.requester());
        let trial_plan = match core {
            None => TrialPlan::Same(&mut carrier),
            Some(core) => TrialPlan::Distinct {
                work: &mut carrier,
                requests: requests.as_mut().map(|requests| requests as &mut dyn PlanWork),
                core,
            },
        };
        let observed = run(self, Some(trial_plan));
        let (control, ids) = carrier.end();
        Ok((observed?, control, ids))
    }

    /// Creates rules with so many threads, each with rules and an operation queue of its own.
    fn operate_with_threads(&self, plan: &RulesPlan, count: usize) -> Result<Control, DeviceError> {
        let RuleWork::Create(_) = plan.work else {
            return Err(DeviceError::lacks("control threads but for creates"));
        };
        let queues = self.operation_queues.clone().map(|queues| queues.count);
        if let (CallMode::Queue, Ok(queues)) = (plan.calls, &queues)
            && count > usize::from(*queues)
        {
            let capability = format!("{count} operation queues: the port has {queues}");
            return Err(DeviceError::lacks(capability));
        }
        let patterns = Patterns::of_plan(plan)?;
        let plan = &RulesPlan { start_ns: 0, per_s: None, threads: None, ..plan.clone() };
        let steps: Steps<'_, FlowId> = Steps::of(plan, patterns.as_ref(), &[], u64::MAX)?;
        let mut flows: Vec<Flows> = (0..count).map(|_| self.ports.device.flows()).collect();
        let mut targets = Vec::with_capacity(count);
        for flows in &mut flows {
            flows.reserve(steps.len() / count + 1);
            let (port, queues) = (self.ports.device.number(), queues.clone().map(drop));
            targets.push(rules::target(flows, port, plan, &steps, queues)?);
        }
        threads::operate(targets, &steps, plan.calls, &self.cores)
    }

    /// Changes RSS of the port while `run` deals with frames: on a core of its own where there is
    /// one.
    fn run_rss<O>(
        &mut self,
        plan: RssPlan,
        run: impl FnOnce(&mut Self, Option<TrialPlan<'_>>) -> Result<O, DeviceError>,
    ) -> Result<(O, PlanRecord), DeviceError> {
        let mut work = RssWork::new(&self.ports.device, plan, self.size.queues)?;
        let core = self.cores.get(self.first_core() + usize::from(self.size.cores)).copied();
        let trial_plan = match core {
            None => TrialPlan::Same(&mut work),
            Some(core) => TrialPlan::Distinct { work: &mut work, requests: None, core },
        };
        let observed = run(self, Some(trial_plan));
        // Whatever came of the trial, the next one has the RSS of its set-up.
        let restored = work.restore();
        let observation = observed?;
        restored?;
        let (changes, refusal) = work.end();
        let record = PlanRecord { rss_changes: Some(changes), refusal, ..PlanRecord::default() };
        Ok((observation, record))
    }

    /// Where the function's cores begin.
    fn first_core(&self) -> usize {
        usize::from(self.far.is_none())
    }

    /// Refuses a plan whose operations the port has no calls for.
    fn check_plan(&self, plan: &RulesPlan) -> Result<(), DeviceError> {
        rules::check_plan(plan)?;
        match (&self.single_calls, self.setup_calls, plan.calls) {
            (Err(refusal), PortCalls::Queue, CallMode::Single) => {
                Err(DeviceError::lacks(format!("rules by single calls: the port says: {refusal}")))
            }
            _ => Ok(()),
        }
    }

    /// The core of a plan, where it has one of its own.
    fn plan_core(&self, plan: &RulesPlan) -> Result<Option<u32>, DeviceError> {
        match plan.core {
            ControlCore::Same => Ok(None),
            ControlCore::Distinct => {
                let at = self.first_core() + usize::from(self.size.cores);
                let core = self.cores.get(at).copied().ok_or_else(|| {
                    let tester = if self.far.is_none() { "tester's and the " } else { "" };
                    DeviceError::lacks(format!(
                        "a core beside the {tester}{} of the function: this process may use no \
                         more",
                        self.size.cores
                    ))
                })?;
                Ok(Some(core))
            }
        }
    }

    /// Leaves the rules of the set-up, as they were; `ids` are those that stand where the plan
    /// worked.
    fn undo(
        &self,
        plan: &RulesPlan,
        state: &mut PortState,
        ids: Vec<Option<FlowId>>,
    ) -> Result<(), DeviceError> {
        let PortState { flows, blocks } = state;
        let broken = |refusal: String| DeviceError::Broken {
            device: self.about.name.clone(),
            reason: format!("putting its rules back: {refusal}"),
        };
        match &plan.work {
            RuleWork::Create(_) => ids
                .into_iter()
                .flatten()
                .try_for_each(|id| flows.destroy(id))
                .map_err(|refusal| broken(refusal.to_string())),
            RuleWork::Change { block, .. } | RuleWork::Renew { block, .. } => {
                let Some(block) = blocks.get_mut(*block) else { return Ok(()) };
                let (port, count) = (self.ports.device.number(), block.ids().len());
                let target = PortRules::new(flows, port, self.setup_calls, count);
                let mut target = target.map_err(|refusal| broken(refusal.to_string()))?;
                block.restore(&mut target, &ids).map_err(|refusal| broken(refusal.to_string()))
            }
        }
    }

    /// Carries a plan out without packets, and takes back what it did: what it created goes in the
    /// same way.
    fn operate(&mut self, plan: &RulesPlan) -> Result<Control, DeviceError> {
        self.check_plan(plan)?;
        if let RuleWork::Renew { .. } = plan.work {
            let reason = "rules are renewed as long as a load lasts, and there is none".to_owned();
            return Err(DeviceError::BadPlan { reason });
        }
        let mut state = self.rules.take().ok_or_else(|| self.not_set_up())?;
        let outcome = self.operate_on(plan, &mut state);
        self.rules = Some(state).filter(|_| !matches!(outcome, Err(DeviceError::Broken { .. })));
        outcome
    }

    fn operate_on(&self, plan: &RulesPlan, state: &mut PortState) -> Result<Control, DeviceError> {
        let port = self.ports.device.number();
        let queues = self.operation_queues.clone().map(|queues| queues.count);
        if let Some(threads) = plan.threads {
            let threads = usize::try_from(threads).unwrap_or(usize::MAX);
            if threads == 0 || threads > self.cores.len() {
                let cores = self.cores.len();
                return Err(DeviceError::lacks(format!(
                    "{threads} control threads on {cores} cores"
                )));
            }
            return self.operate_with_threads(plan, threads);
        }
        let patterns = Patterns::of_plan(plan)?;
        let plan = &RulesPlan { start_ns: 0, per_s: None, ..plan.clone() };
        let _pinned = Pinned::to(self.plan_core(plan)?.unwrap_or(self.cores[self.first_core()]));
        let queues = queues.map(drop);
        let PortState { flows, blocks } = &mut *state;
        let mut carrier =
            Carrier::new(plan, (patterns.as_ref(), &blocks[..]), u64::MAX, |steps| {
                rules::target(flows, port, plan, steps, queues.clone())
            })?;
        carrier.alone();
        let (mut record, mut ids) = carrier.end();
        if let RuleWork::Create(_) = plan.work {
            let created = std::mem::take(&mut ids);
            let mut carrier = Carrier::destroying(plan, created, |steps| {
                rules::target(flows, port, plan, steps, queues)
            })?;
            carrier.alone();
            let (destroyed, left) = carrier.end();
            (record.destroyed, ids) = (Some(Box::new(destroyed)), left);
        }
        self.undo(plan, state, ids)?;
        Ok(record)
    }

    /// Tries the kind of a block's rules with these actions, unless it is known; the port has no
    /// rules.
    fn prove(
        &mut self,
        flows: &mut Flows,
        (block, actions): (&RuleBlock, &[Action]),
        calls: PortCalls,
    ) -> Result<Option<RuleProof>, DeviceError> {
        let ends = probed_ends(self.rings.as_mut(), self.far.as_ref());
        let (Some(ends), Some((group, priority, _))) = (ends, block.place()) else {
            return Ok(None);
        };
        let items = Patterns::of(block)?.items(0, false);
        let rule = WrittenRule { group, priority, items, actions: actions.to_vec() };
        let port = self.ports.device.number();
        self.proofs.prove(flows, port, &Claim { rule, calls }, ends).map(Some)
    }

    /// Tries the rules of a plan, unless they are known; the set-up is made anew then.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] where the port accepts them and does something else.
    fn prove_plan(&mut self, plan: &RulesPlan) -> Result<(), DeviceError> {
        let Some(setup) = self.setup.clone() else { return Err(self.not_set_up()) };
        let of_setup = |block: usize| setup.rules.get(block);
        let claimed = match &plan.work {
            RuleWork::Create(block) => block.place().map(|(_, _, actions)| (block, actions)),
            RuleWork::Change { block, change } => of_setup(*block).and_then(|block| match change {
                RuleChangeKind::Actions(actions) | RuleChangeKind::Anew(actions) => {
                    Some((block, &actions[..]))
                }
                _ => None,
            }),
            RuleWork::Renew { block } => of_setup(*block)
                .and_then(|block| block.place().map(|(_, _, actions)| (block, actions))),
        };
        let Some((block, actions)) = claimed.filter(|(block, _)| block.count() > 0) else {
            return Ok(());
        };
        let calls = match plan.calls {
            CallMode::Queue if self.operation_queues.is_ok() => PortCalls::Queue,
            _ => PortCalls::Single,
        };
        let (group, priority, _) = block.place().unwrap_or_default();
        let items = Patterns::of(block)?.items(0, false);
        let rule = WrittenRule { group, priority, items, actions: actions.to_vec() };
        let claim = Claim { rule, calls };
        let proof = match self.proofs.get(&claim) {
            Some(proof) => Some(proof.clone()),
            None => {
                self.rules = None;
                let mut flows = self.ports.device.flows();
                let proof = self.prove(&mut flows, (block, actions), calls)?;
                drop(flows);
                self.setup(&setup)?;
                proof
            }
        };
        let fault = proof.as_ref().and_then(niclab_device::proof::fault);
        fault.map_or(Ok(()), |fault| Err(DeviceError::lacks(format!("rules of a kind: {fault}"))))
    }

    fn not_set_up(&self) -> DeviceError {
        let reason = "asked for rules before a set-up".to_owned();
        DeviceError::Broken { device: self.about.name.clone(), reason }
    }
}

/// What a frame may cost the cores of the two ports.
fn frame_ns_of(arguments: &Arguments, ports: &Ports) -> (u64, u64) {
    let of =
        |port: &Port| frame_ns(port.info().is_ok_and(|info| arguments.is_by_kernel(&info.name)));
    (ports.tester.as_ref().map_or(0, of), of(&ports.device))
}

type TrialResult = Result<LoadObservation, DeviceError>;

/// What was done beside the frames of a trial.
#[derive(Default)]
struct PlanRecord {
    control: Option<Control>,
    rss_changes: Option<RssChanges>,
    /// Why a change of RSS was refused.
    refusal: Option<String>,
}

/// The function's stages on these cores, and the thread of a plan on a core of its own.
fn stages<'f, 'p: 'f>(
    functions: &'f mut [Forward],
    cores: &[u32],
    plan: Option<TrialPlan<'p>>,
) -> (Vec<Stage<'f>>, Option<PlanThread<'f>>) {
    let (mut on_first, beside) = match plan {
        None => (None, None),
        Some(TrialPlan::Same(work)) => (Some(work), None),
        Some(TrialPlan::Distinct { work, requests, core }) => {
            (requests, Some(PlanThread { core: Some(core), work }))
        }
    };
    let stage = |(function, core): (&'f mut Forward, &u32)| match on_first.take() {
        None => Stage::new("function", Some(*core), function),
        Some(work) => Stage::new("function", Some(*core), PlannedSide::new(function, work, BURST)),
    };
    (functions.iter_mut().zip(cores).map(stage).collect(), beside)
}

/// The ends that single frames go between: the functions here, the tester here or far away.
fn probed_ends<'a>(
    rings: Option<&'a mut PortRings>,
    far: Option<&FarLink>,
) -> Option<ProbedEnds<'a>> {
    let PortRings { tester, functions } = rings?;
    let tester = match (tester, far) {
        (Some((outlet, inlet)), _) => ProbingTester::Here(outlet, inlet),
        (None, Some(far)) => ProbingTester::Far(Rc::clone(far)),
        (None, None) => return None,
    };
    Some(ProbedEnds { tester, functions })
}

/// The function of each core: queue `q` is of core `q` mod `cores`.
fn functions(rx: Vec<RxQueue>, tx: Vec<TxQueue>, size: TrialSize, frame_ns: u64) -> Vec<Forward> {
    let cores = usize::from(size.cores.max(1));
    let mut of_core: Vec<Vec<(usize, RxQueue)>> = (0..cores).map(|_| Vec::new()).collect();
    for (at, queue) in rx.into_iter().enumerate() {
        of_core[at % cores].push((at, queue));
    }
    let functions = (0..).zip(of_core.into_iter().zip(tx));
    functions
        .map(|(core, (rx, tx))| Forward::new(rx, tx, (size.queues, frame_ns), core == 0))
        .collect()
}

/// The operation queues that a port has, as far as there are cores for them, and one for the rules
/// of the set-up; an error where it has none.
fn operation_queues(port: &Port, cores: usize) -> Result<OperationQueues, FlowRefusal> {
    let (count, size) = port.operation_queues_max()?;
    let count = count.min(cores as u32 + 1) as u16;
    let size = if size == 0 { QUEUE_SIZE } else { size.min(QUEUE_SIZE) };
    Some(OperationQueues { count, size })
        .filter(|queues| queues.count > 0)
        .ok_or_else(|| no_queues("the driver has no operation queues"))
}

fn no_queues(message: &str) -> FlowRefusal {
    let number = Errno::OPNOTSUPP.raw_os_error();
    FlowRefusal { number, kind: 1, has_cause: false, message: message.into() }
}

impl Testbed for DpdkBed {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        setup.check_plain()?;
        let has_rules = setup.rules.iter().any(|block| block.count() > 0);
        if has_rules && self.about.not_supported.iter().any(|lacks| lacks == "rules") {
            return Err(DeviceError::lacks("rules"));
        }
        let info = self.ports.device.info().map_err(|refusal| self.broken(refusal))?;
        let (queues, cores) = (setup.queues.max(1), setup.cores.max(1));
        let queues_max = info.queues_max.0.min(QUEUES_MAX);
        if queues > queues_max || cores > info.queues_max.1 {
            let (port, tx) = (info.name, info.queues_max.1);
            let capability =
                format!("{queues} queues: {port} has {queues_max} receive, {tx} transmit");
            return Err(DeviceError::lacks(capability));
        }
        let there = self.cores.len().saturating_sub(self.first_core());
        if usize::from(cores) > there {
            let beside = if self.far.is_none() { " beside the tester's" } else { "" };
            return Err(DeviceError::lacks(format!("{cores} cores{beside}: there are {there}")));
        }
        let frame_len_max = setup.frame_len_max.max(FRAME_LEN_DEFAULT);
        let size = TrialSize { frame_len_max, queues, cores };
        self.rules = None;
        if size != self.size || self.rings.is_none() {
            self.start(size).map_err(|refusal| self.broken(refusal))?;
        }
        self.ports.wait_for_links().map_err(|refusal| self.broken(refusal))?;
        self.setup = Some(setup.clone());
        let mut report = SetupReport::default();
        let mut flows = self.ports.device.flows();
        let port = self.ports.device.number();
        let mut faults = Vec::with_capacity(setup.rules.len());
        for block in &setup.rules {
            let proof = match block.place() {
                Some((_, _, actions)) if block.count() > 0 => {
                    self.prove(&mut flows, (block, actions), self.setup_calls)?
                }
                _ => None,
            };
            faults.push(proof.as_ref().and_then(niclab_device::proof::fault));
            report.proofs.extend(proof);
        }
        // Whatever a proof has left on the port goes with those that made it.
        drop(flows);
        let mut flows = self.ports.device.flows();
        let place = (port, self.setup_calls);
        let blocks = rules::install(&mut flows, place, &setup.rules, faults, &mut report)?;
        self.rules = Some(PortState { flows, blocks });
        report.rss = (queues > 1).then(|| rss::of_port(&self.ports.device)).flatten();
        Ok(report)
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let (load, plan) = match task {
            Task::Load { load, plan } => (load, plan),
            Task::Plan(plan) => {
                self.prove_plan(plan)?;
                return self.operate(plan).map(Observation::Plan);
            }
            _ => return Err(task.not_supported()),
        };
        if self.wiring == Wiring::Null {
            plan.check_no_plan()?;
            return self.run_alone(load).map(Observation::Load);
        }
        let (mut observation, record) =
            self.with_plan(load, plan, |bed, plan| bed.run_pair(load, plan))?;
        (observation.control, observation.rss_changes) = (record.control, record.rss_changes);
        observation.honesty.reasons.extend(record.refusal);
        Ok(Observation::Load(observation))
    }

    fn measure_half(&mut self, task: &HalfTask) -> Result<HalfObservation, DeviceError> {
        match task {
            HalfTask::Serve { load, plan } => {
                let (mut served, record) =
                    self.with_plan(load, plan, |bed, plan| bed.serve(load, plan))?;
                (served.control, served.rss_changes) = (record.control, record.rss_changes);
                served.reasons.extend(record.refusal);
                Ok(HalfObservation::Served(Box::new(served)))
            }
            HalfTask::Clock => Ok(HalfObservation::Clock(Clock::new().now_ns())),
            _ => Err(DeviceError::lacks(capability::TWO_HOSTS)),
        }
    }

    fn try_rules(&mut self, cases: &RuleCases) -> Result<RuleCasesObservation, DeviceError> {
        if self.about.not_supported.iter().any(|lacks| lacks == "rules") {
            return Err(DeviceError::lacks("rules"));
        }
        // The rules of the set-up go with what made them.
        self.rules = None;
        let name = self.about.name.clone();
        let gone = || DeviceError::Broken { device: name, reason: "not set up".into() };
        let rings = Some(self.rings.as_mut().ok_or_else(gone)?);
        let ends = probed_ends(rings, self.far.as_ref());
        let ends = ends.ok_or_else(|| DeviceError::lacks("a tester's port"))?;
        let mut flows = self.ports.device.flows();
        let number = self.ports.device.number();
        let mut port = self.proofs.port(&mut flows, number, None, ends)?;
        let next = &mut self.proofs.next;
        let tried = cases.cases.iter().map(|case| carry_out(&mut port, case, next));
        Ok(RuleCasesObservation { cases: tried.collect::<Result<_, _>>()? })
    }
}

impl DpdkBed {
    /// The counters of the port under test, and those of its driver.
    fn counted(&self) -> Result<(Stats, Vec<(String, u64)>), Refusal> {
        let port = &self.ports.device;
        // A driver without counters of its own has none to show.
        Ok((port.stats()?, port.xstats().unwrap_or_default()))
    }

    /// Enters what the port and its driver have counted since `before`.
    fn account(
        &self,
        observation: &mut LoadObservation,
        before: &(Stats, Vec<(String, u64)>),
    ) -> Result<(), DeviceError> {
        let since = self.counted_since(before)?;
        hold_against_port(observation, &since.stats);
        if let Some(device) = &mut observation.device {
            since.enter(device);
            device.statistics = since.statistics;
        }
        Ok(())
    }

    fn counted_since(
        &self,
        (stats, statistics): &(Stats, Vec<(String, u64)>),
    ) -> Result<CountedSince, DeviceError> {
        let (now, statistics_now) = self.counted().map_err(|refusal| self.broken(refusal))?;
        let changed = statistics_now.into_iter().filter_map(|(name, value)| {
            let then = statistics.iter().find(|(then, _)| *then == name);
            let since = value.wrapping_sub(then.map_or(0, |(_, then)| *then));
            Some((name, since)).filter(|(_, since)| *since > 0)
        });
        let stats = Stats {
            rx_frames: now.rx_frames - stats.rx_frames,
            tx_frames: now.tx_frames - stats.tx_frames,
            ..Stats::default()
        };
        Ok(CountedSince { stats, statistics: changed.collect() })
    }
}

/// What the port under test and its driver have counted in a trial.
struct CountedSince {
    /// Frames received and sent.
    stats: Stats,
    statistics: BTreeMap<String, u64>,
}

impl CountedSince {
    /// Enters what rules dropped. It was at no queue: it counts as queue 0's.
    fn enter(&self, function: &mut PortCounters) {
        let drops = self.statistics.get(DROPPED_BY_RULE).copied().unwrap_or(0);
        function.rule_drops = drops;
        if let Some(first) = function.queues.first_mut() {
            first.rx_frames += drops;
        }
    }
}

impl Ports {
    fn find(dpdk: &Dpdk, arguments: &Arguments, open: &Open) -> Result<Ports, DeviceError> {
        let wiring = arguments.wiring;
        match wiring {
            Wiring::Rings => return Ports::of_rings(dpdk).map_err(|refusal| broken(open, refusal)),
            Wiring::Half => {
                let device = Arc::new(one_port(dpdk, arguments, open)?);
                return Ok(Ports { tester: None, device, ring: None });
            }
            Wiring::Null | Wiring::Cards | Wiring::Tap | Wiring::Niclab => {}
        }
        if let Some(interface) = &arguments.tap {
            attach_tester(dpdk, interface).map_err(|refusal| broken(open, refusal))?;
        }
        let bad = |reason: String| DeviceError::BadName { text: open.name.clone(), reason };
        let mut ports = named_ports(dpdk, arguments, open)?.into_iter();
        match (wiring, ports.next(), ports.next()) {
            (Wiring::Null, Some(device), _) => {
                Ok(Ports { tester: None, device: Arc::new(device), ring: None })
            }
            (_, Some(tester), Some(device)) => {
                Ok(Ports { tester: Some(tester), device: Arc::new(device), ring: None })
            }
            (_, Some(_), None) => Err(bad("one port; niclab needs two: name the tester's device \
                                           and the one under test"
                .into())),
            (_, None, _) => Err(bad("DPDK made no port".into())),
        }
    }

    /// Two ports, crossed: what one sends the other receives.
    fn of_rings(dpdk: &Dpdk) -> Result<Ports, Refusal> {
        let there = dpdk.ring(c"niclab-there", RING_SLOTS.into())?;
        let back = dpdk.ring(c"niclab-back", RING_SLOTS.into())?;
        let tester = dpdk.ring_port(c"tester", &back, &there)?;
        let device = dpdk.ring_port(c"device", &there, &back)?;
        Ok(Ports { tester: Some(tester), device: Arc::new(device), ring: Some(there) })
    }

    fn wait_for_links(&self) -> Result<(), Refusal> {
        let started = Instant::now();
        let ports = self.tester.iter().chain([&*self.device]);
        let without: Vec<String> =
            ports.filter_map(|port| wait_for_link(port, started).err()).map(|why| why.0).collect();
        if without.is_empty() { Ok(()) } else { Err(Refusal(without.join("; "))) }
    }
}

/// Waits until a port has a link, which may take [`LINK_TIMEOUT`] from `started` on.
///
/// # Errors
/// It has none.
pub fn wait_for_link(port: &Port, started: Instant) -> Result<(), Refusal> {
    while !port.has_link() {
        if started.elapsed() > LINK_TIMEOUT {
            let name = port.info().map_or("a port".to_owned(), |info| info.name);
            return Err(Refusal(format!("{name} has no link; check the cable and its other end")));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Starts DPDK with the arguments and the driver of a device.
///
/// # Errors
/// [`DeviceError::BadName`].
pub fn start_dpdk(arguments: &Arguments, open: &Open) -> Result<Dpdk, DeviceError> {
    let bad = |Refusal(reason)| DeviceError::BadName { text: open.name.clone(), reason };
    if let Some(driver) = &arguments.driver {
        shim::load(driver).map_err(bad)?;
    }
    Dpdk::start(&arguments.list).map_err(bad)
}

/// The ports of the devices that were named, in their order.
fn named_ports(dpdk: &Dpdk, arguments: &Arguments, open: &Open) -> Result<Vec<Port>, DeviceError> {
    let named = |port: Port| Ok((port.info()?.name, port));
    let ports = dpdk.ports().into_iter().map(named).collect::<Result<Vec<_>, Refusal>>();
    let ports = ports.map_err(|refusal| broken(open, refusal))?;
    let bad = |reason| DeviceError::BadName { text: open.name.clone(), reason };
    in_order(ports, &arguments.devices).map_err(bad)
}

/// The port of half a testbed.
///
/// # Errors
/// [`DeviceError::BadName`]: there is none, or several.
pub fn one_port(dpdk: &Dpdk, arguments: &Arguments, open: &Open) -> Result<Port, DeviceError> {
    let bad = |reason: String| DeviceError::BadName { text: open.name.clone(), reason };
    let mut ports = named_ports(dpdk, arguments, open)?;
    match (ports.pop(), ports.len()) {
        (Some(port), 0) => Ok(port),
        (None, _) => Err(bad("DPDK made no port".to_owned())),
        (Some(_), others) => {
            let found = others + 1;
            Err(bad(format!("{found} ports: half a testbed has one; name one device")))
        }
    }
}

/// The MTU for frames of so many bytes with FCS, as far as a port has it.
///
/// # Errors
/// DPDK's.
pub fn mtu(port: &Port, frame_len_max: u16) -> Result<u32, Refusal> {
    let mtu = u32::from(frame_len_max - HEADER_AND_FCS_LEN).max(1500);
    Ok(mtu.min(port.info()?.mtu_max))
}

/// Ports by the order in which their devices were named; DPDK's order is that of addresses. A
/// device of several ports has names that begin with its own.
fn in_order<P>(mut ports: Vec<(String, P)>, devices: &[String]) -> Result<Vec<P>, String> {
    if devices.is_empty() {
        return Ok(ports.into_iter().map(|(_, port)| port).collect());
    }
    let mut ordered = Vec::with_capacity(ports.len());
    for device in devices {
        let is_of = |(name, _): &mut (String, P)| {
            let rest = name.strip_prefix(device.as_str());
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
        };
        let of_device: Vec<P> = ports.extract_if(.., is_of).map(|(_, port)| port).collect();
        if of_device.is_empty() {
            return Err(no_port(device, Path::new("/sys/bus/pci/devices")));
        }
        ordered.extend(of_device);
    }
    Ok(ordered)
}

/// Why a device has no port, and what helps. `cards` is the kernel's directory of PCI devices.
fn no_port(device: &str, cards: &Path) -> String {
    if !arguments::is_pci_address(device) {
        return format!("{device} has no port; give it as DPDK names its devices");
    }
    let card = cards.join(device);
    if !card.exists() {
        return format!("no card has the address {device}; `lspci -D` shows the addresses");
    }
    let driver = fs::read_link(card.join("driver")).ok();
    let driver = driver.as_deref().and_then(Path::file_name);
    let driver = driver.map_or("no driver".into(), |driver| driver.to_string_lossy().into_owned());
    format!(
        "DPDK made no port of {device}, which is bound to {driver}; `dpdk-devbind.py -s` shows the \
         drivers, `dpdk-devbind.py -b vfio-pci {device}` binds it (ConnectX and BlueField stay \
         with mlx5_core)"
    )
}

/// Makes a port of the kernel's end of a TAP. The interface says nothing on its own.
fn attach_tester(dpdk: &Dpdk, interface: &str) -> Result<(), Refusal> {
    let set = |path: String, value: &str| {
        fs::write(&path, value).map_err(|error| Refusal(format!("{path}: {error}")))
    };
    // A kernel without IPv6 has nothing to say by it.
    let _ = set(format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"), "1");
    // Up, with multicast and broadcast (IFF_UP, IFF_BROADCAST, IFF_MULTICAST of if.h): older
    // kernels take no fan-out of packet sockets for an interface that is down.
    set(format!("/sys/class/net/{interface}/flags"), "0x1003")?;
    // Without this option frames go past the filters that the rules of the TAP become.
    dpdk.attach(&format!("{},iface={interface},qdisc_bypass=0", arguments::TAP_TESTER))
}

/// Frames the port of a queue had no room for.
fn missed(queue: &RxQueue) -> u64 {
    let stats = queue.stats().unwrap_or_default();
    stats.rx_missed + stats.rx_no_buffer
}

/// Holds the port's own counters of a trial against the function's.
fn hold_against_port(observation: &mut LoadObservation, since: &Stats) {
    let Some(queue) = observation.device.as_ref().map(PortCounters::total) else { return };
    let pairs = [
        ("received", since.rx_frames, queue.rx_frames),
        ("sent", since.tx_frames, queue.tx_frames),
    ];
    for (what, by_port, by_function) in pairs {
        if by_port != by_function {
            observation.honesty.balanced = false;
            let reason = format!("the port {what} {by_port} frames, the function {by_function}");
            observation.honesty.reasons.push(reason);
        }
    }
}

/// [`DeviceError::Broken`] of a device that is opened.
pub fn broken(open: &Open, refusal: Refusal) -> DeviceError {
    DeviceError::Broken { device: open.name.clone(), reason: refusal.0 }
}

/// The PCI id of a port's card; `None` of a virtual port. Ports of one card have names that begin
/// with its address: `0000:01:00.0_representor_vf0`, `0000:01:00.0 port 1`.
pub fn card_of(port: &str) -> Option<String> {
    let address = port.split([' ', '_']).next().filter(|name| arguments::is_pci_address(name))?;
    niclab_device::linux::cards::pci_id(address)
}

/// What can be told of the ports.
fn about(open: &Open, arguments: &Arguments, bed: &DpdkBed) -> Result<DeviceInfo, Refusal> {
    let fact = |name: &str, value: String| Fact { name: name.into(), value };
    let ports = &bed.ports;
    let device = ports.device.info()?;
    let mut facts = vec![
        fact("DPDK", bed.pools.dpdk().version()),
        fact("arguments", arguments.list[1..].join(" ")),
        fact("port under test", device.name.clone()),
        fact("driver", device.driver.clone()),
    ];
    facts.extend(card_of(&device.name).map(|id| fact("PCI id", id)));
    facts.push(fact(
        "queues it could have",
        format!("{} / {}", device.queues_max.0, device.queues_max.1),
    ));
    facts.extend(ports.device.firmware().map(|version| fact("firmware", version)));
    if device.speed_mbps > 0 && matches!(arguments.wiring, Wiring::Cards | Wiring::Half) {
        facts.push(fact("speed", format!("{} Gbps", f64::from(device.speed_mbps) / 1e3)));
    }
    facts.extend(rule_facts(bed));
    if ports.ring.is_some() {
        facts.push(fact("ring", format!("{RING_SLOTS} frames")));
    }
    let tester = ports.tester.as_ref().map(Port::info).transpose()?;
    let mut lacks: Vec<String> = match arguments.wiring {
        Wiring::Null => ["queues", "latency", "rate", "frame_size"].map(String::from).into(),
        Wiring::Rings => vec!["queues".into()],
        Wiring::Cards | Wiring::Tap | Wiring::Niclab | Wiring::Half => Vec::new(),
    };
    let has_no_calls = |refusal: &FlowRefusal| refusal.number == Errno::NOSYS.raw_os_error();
    let takes_none =
        bed.single_calls.as_ref().is_err_and(has_no_calls) && bed.setup_calls == PortCalls::Single;
    if takes_none || arguments.wiring == Wiring::Null {
        lacks.push("rules".into());
    }
    let lacking = format!("the driver {} has none", device.driver);
    Ok(DeviceInfo {
        name: open.name.clone(),
        facts,
        places: places(
            (bed.cores[0], bed.cores[bed.first_core()]),
            arguments.wiring,
            tester.as_ref(),
            &device,
        ),
        not_supported: lacks,
        lacking,
        ..DeviceInfo::default()
    })
}

/// Whether a port takes the rule `eth / end` to queue 0.
fn takes_rules(port: &Port) -> Result<(), FlowRefusal> {
    let (items, actions) = ([ItemMatch::any(Item::Eth)], [Action::Queue(0)]);
    match translate::flow_rule((0, 0), &items, &actions, port.number()) {
        Ok(rule) => port.flows().validate(&rule),
        // There is no memory: the next step says so.
        Err(_) => Ok(()),
    }
}

/// Whether a port takes the same rule through an operation queue.
fn takes_queued_rules(port: &Port) -> bool {
    let (items, actions) = ([ItemMatch::any(Item::Eth)], [Action::Queue(0)]);
    let rule = ((0, 0), &items[..], &actions[..]);
    rules::create_by(&mut port.flows(), port.number(), rule, PortCalls::Queue).is_ok()
}

/// What can be told of rules.
fn rule_facts(bed: &DpdkBed) -> Vec<Fact> {
    let fact = |name: &str, value: String| Fact { name: name.into(), value };
    let rules = match (&bed.single_calls, bed.setup_calls) {
        (Ok(()), _) => "the driver takes them".to_owned(),
        (Err(refusal), PortCalls::Queue) => {
            format!("the driver takes them through operation queues alone: {refusal}")
        }
        (Err(refusal), PortCalls::Single) => {
            format!("`eth / end` to queue 0 is refused: {refusal}")
        }
    };
    let queues = match &bed.operation_queues {
        Ok(queues) => format!("{} of {} operations", queues.count, queues.size),
        Err(refusal) => format!("none: {refusal}"),
    };
    let changes = match flow::has_update() {
        true => "in place, by rte_flow_actions_update",
        false => "by destroy and create: this DPDK has no rte_flow_actions_update",
    };
    let mut facts = vec![fact("flow rules", rules)];
    if bed.single_calls.is_ok() || bed.setup_calls == PortCalls::Queue {
        facts.push(fact("operation queues for rules", queues));
        facts.push(fact("actions of a rule change", changes.to_owned()));
    }
    facts
}

/// What stands along the way of a frame.
fn places(
    (tester_core, device_core): (u32, u32),
    wiring: Wiring,
    tester: Option<&PortInfo>,
    device: &PortInfo,
) -> Vec<PathNode> {
    let place =
        |role: &str, label: &str, core| PathNode { role: role.into(), label: label.into(), core };
    let function = place("function", Function::Forward.label(), Some(device_core));
    let device = place("device", &device.name, None);
    let Some(tester) = tester else {
        return vec![device, function];
    };
    let wire = match wiring {
        Wiring::Rings => "two rings in memory",
        Wiring::Niclab => "memory between two cards of niclab",
        Wiring::Tap => "the kernel's TAP",
        _ => "cable",
    };
    vec![
        place("generator", &tester.name, Some(tester_core)),
        place("wire", wire, None),
        device,
        function,
        place("sink", &tester.name, Some(tester_core)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(ports: &[&str], devices: &[&str]) -> Result<Vec<String>, String> {
        let ports = ports.iter().map(|port| (port.to_string(), port.to_string())).collect();
        let devices: Vec<String> = devices.iter().map(|device| device.to_string()).collect();
        in_order(ports, &devices)
    }

    #[test]
    fn ports_are_in_the_order_in_which_their_devices_were_named() {
        let probed = ["0000:01:00.0", "0000:01:00.1", "net_tap0"];
        let named = ["0000:01:00.1", "0000:01:00.0"];
        assert_eq!(ordered(&probed, &named).unwrap(), named);
        let named = ["net_tap0", "0000:01:00.0"];
        assert_eq!(ordered(&probed, &named).unwrap(), named);
        assert_eq!(ordered(&probed, &[]).unwrap(), probed);
        let two_of_one = ["0000:01:00.0 port 0", "0000:01:00.0 port 1", "0000:02:00.0"];
        let order = ["0000:02:00.0", "0000:01:00.0 port 0", "0000:01:00.0 port 1"];
        assert_eq!(ordered(&two_of_one, &["0000:02:00.0", "0000:01:00.0"]).unwrap(), order);
        assert_eq!(
            ordered(&["net_tap1", "net_tap10"], &["net_tap10", "net_tap1"]).unwrap()[0],
            "net_tap10"
        );
    }

    #[test]
    fn a_port_of_a_card_has_its_id_and_a_virtual_port_none() {
        for port in ["net_ring0", "net_tap0", "ffff:01:00.1", ""] {
            assert_eq!(card_of(port), None, "{port}");
        }
        let cards = niclab_device::linux::cards::cards();
        let Some(card) = cards.first() else {
            println!("SKIP a_port_of_a_card_has_its_id_and_a_virtual_port_none: no PCI card");
            return;
        };
        let id = card_of(&card.pci).unwrap();
        assert_eq!(id.find(':'), Some(4), "{id}");
        assert_eq!(card_of(&format!("{} port 1", card.pci)), Some(id.clone()));
        assert_eq!(card_of(&format!("{}_representor_vf0", card.pci)), Some(id));
    }

    #[test]
    fn a_device_without_a_port_is_named_with_the_remedy() {
        let error = ordered(&["0000:01:00.0"], &["0000:01:00.0", "ffff:01:00.1"]).unwrap_err();
        assert!(error.contains("no card has the address ffff:01:00.1; `lspci -D`"), "{error}");
        let place = std::env::temp_dir().join(format!("niclab-cards-{}", std::process::id()));
        let card = place.join("0000:18:00.0");
        fs::create_dir_all(&card).unwrap();
        std::os::unix::fs::symlink("/sys/bus/pci/drivers/ice", card.join("driver")).unwrap();
        let bound = no_port("0000:18:00.0", &place);
        fs::remove_dir_all(&place).unwrap();
        assert!(bound.contains("of 0000:18:00.0, which is bound to ice; "), "{bound}");
        assert!(bound.contains("dpdk-devbind.py -b vfio-pci 0000:18:00.0"), "{bound}");
    }
}
