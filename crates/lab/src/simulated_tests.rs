//! A simulated device in virtual time with known answers.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use niclab_device::{
    CallMode, Control, ControlCore, DeviceError, DeviceInfo, Honesty, Latency, Load,
    LoadObservation, Observation, PathNode, Plan, PortCounters, QueueCounters, Rate, RuleBlock,
    RuleChangeKind, RuleWork, RulesPlan, Setup, SetupReport, Slice, Stack, Task, Testbed,
};
use niclab_packet::size::FrameSizes;
use niclab_result::{ReportTable, Sample, Summary};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::run::{Run, RunDevice, resolve};
use crate::runner::{
    CommandEnd, CommandOutcome, Event, Host, OpenedDevice, RunEnd, VariantCommand, execute,
};
use crate::spec::Overrides;
use crate::validation::MemoryStore;
use crate::variants::Variants;
use crate::{experiments, reference};

/// Why a device is not there.
pub const ABSENT: &str = "DPDK not found: install libdpdk-dev";

/// Length of a slice.
const SLICE_NS: u64 = 1_000_000;

/// Period of a machine that is slow now and then, seconds.
const TIDE_S: f64 = 7.0;

/// The properties of the device.
#[derive(Clone, Debug)]
pub struct Nature {
    pub name: &'static str,
    pub not_supported: Vec<&'static str>,
    /// Rules that group 0 takes.
    pub capacity: u64,
    /// Throughput in front of the knee.
    pub plateau_pps: f64,
    /// More rules than this in a group are behind the knee.
    pub knee_rules: u64,
    /// Throughput behind the knee, as a share of the plateau.
    pub behind_share: f64,
    /// The share of the throughput that remains with each further group.
    pub group_share: f64,
    /// The maximum rate of the generator.
    pub generator_pps: f64,
    /// Frames lost at any rate.
    pub loss_ratio: f64,
    /// Every trial differs by up to this share.
    pub noise: f64,
    /// The machine is slower by up to this share and fast again, once a [`TIDE_S`].
    pub tide: f64,
    /// Latency of an idle device.
    pub latency_ns: u64,
    /// Longest frame it can be set up for, bytes with FCS.
    pub frame_len_max: u16,
    /// Works for so many trials.
    pub trials_max: u32,
    /// The way to it breaks in these trials, and is back with the next set-up.
    pub interrupted: std::ops::Range<u32>,
    /// Every so many-th trial is one long stall.
    pub stall_every: u32,
    /// Stalls of the sink begin in this share of the steps of a trial.
    pub stall_share: f64,
    /// It tells how idle its core was.
    pub tells_idle: bool,
    /// What one operation on rules takes the core, nanoseconds; half as much again in a
    /// transaction. At once, they keep packets waiting, and all of these are lost.
    pub operation_ns: u64,
    /// A rule takes effect so long after the call for it began.
    pub effect_ns: u64,
    /// Share of the replacements that it refuses.
    pub refused_ratio: f64,
    /// The generator's core is away for so long at the begin of a trial beside a plan.
    pub away_ms: u64,
}

impl Default for Nature {
    fn default() -> Nature {
        Nature {
            name: "simulated",
            not_supported: Vec::new(),
            capacity: 65_536,
            plateau_pps: 10e6,
            knee_rules: 55_705,
            behind_share: 0.1,
            group_share: 0.9,
            generator_pps: 40e6,
            loss_ratio: 0.0,
            noise: 0.02,
            tide: 0.0,
            latency_ns: 2_000,
            frame_len_max: u16::MAX,
            trials_max: u32::MAX,
            interrupted: 0..0,
            stall_every: u32::MAX,
            stall_share: 0.0,
            tells_idle: false,
            operation_ns: 1_000,
            effect_ns: 50_000,
            refused_ratio: 0.0,
            away_ms: 0,
        }
    }
}

/// The device. Its clock is shared with its host.
pub struct Simulated {
    about: DeviceInfo,
    pub nature: Nature,
    pub setups: u32,
    pub trials: u32,
    /// The way to it is broken until the next set-up.
    is_away: bool,
    /// Shortest of the longest frames it was set up for, bytes with FCS.
    pub frame_len_max: u16,
    groups: Vec<u64>,
    /// Rules of the largest block, which is what plans change.
    changed: u64,
    clock_ns: Rc<Cell<u64>>,
    /// The factor by which commands change its throughput; 1 without commands.
    pub speed: Rc<Cell<f64>>,
    random: Xoshiro256PlusPlus,
}

impl Simulated {
    pub fn new(nature: Nature, clock_ns: Rc<Cell<u64>>) -> Simulated {
        let not_supported = nature.not_supported.iter().map(|word| word.to_string()).collect();
        let places = ["generator", "device", "sink"].map(|role| PathNode {
            role: role.into(),
            label: format!("simulated {role}"),
            core: None,
        });
        let about = DeviceInfo {
            name: nature.name.into(),
            facts: Vec::new(),
            places: places.into(),
            not_supported,
            ..DeviceInfo::default()
        };
        let random = Xoshiro256PlusPlus::seed_from_u64(nature.name.len() as u64);
        Simulated {
            about,
            nature,
            setups: 0,
            trials: 0,
            is_away: false,
            frame_len_max: u16::MAX,
            groups: Vec::new(),
            changed: 0,
            clock_ns,
            speed: Rc::new(Cell::new(1.0)),
            random,
        }
    }

    /// As a run describes it.
    pub fn described(&self) -> RunDevice {
        let (name, about) = (self.about.name.clone(), self.about.clone());
        RunDevice { name, variant: None, absent: None, about }
    }

    fn pass(&self, time: Duration) {
        self.clock_ns.set(self.clock_ns.get() + time.as_nanos() as u64);
    }

    fn lacks(&self, capability: &str) -> bool {
        self.nature.not_supported.contains(&capability)
    }

    /// The maximum rate of the device in its present state.
    fn able_pps(&self) -> f64 {
        let knee = self.groups.iter().any(|rules| *rules > self.nature.knee_rules);
        let behind = if knee { self.nature.behind_share } else { 1.0 };
        let chain = self.groups.len().saturating_sub(2) as i32;
        let pps = self.nature.plateau_pps * behind * self.nature.group_share.powi(chain);
        let turn = (self.clock_ns.get() as f64 / 1e9 / TIDE_S * std::f64::consts::TAU).sin();
        pps * self.speed.get() * (1.0 - self.nature.tide * (1.0 + turn) / 2.0)
    }
}

impl Testbed for Simulated {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        self.setups += 1;
        self.is_away = false;
        self.frame_len_max = self.frame_len_max.min(setup.frame_len_max);
        if self.lacks("rules") && !setup.rules.is_empty() {
            return Err(DeviceError::lacks("rules"));
        }
        if setup.frame_len_max > self.nature.frame_len_max {
            return Err(DeviceError::BadLoad { reason: "the frames are too long".into() });
        }
        self.groups.clear();
        self.changed = setup.rules.iter().map(|block| u64::from(block.count())).max().unwrap_or(0);
        let mut report = SetupReport::default();
        for block in &setup.rules {
            let group = block.place().map_or(0, |(group, ..)| group as usize);
            let count = u64::from(block.count());
            self.groups.resize(self.groups.len().max(group + 1), 0);
            let room = if group == 0 { self.nature.capacity } else { u64::MAX };
            let taken = count.min(room - self.groups[group]);
            self.groups[group] += taken;
            report.rules_installed += taken;
            report.rules_refused += count - taken;
        }
        report.refusal = (report.rules_refused > 0).then(|| "group 0 is full".into());
        report.install =
            Duration::from_nanos(500 * (report.rules_installed + report.rules_refused));
        report.rule_bytes = Some(report.rules_installed * 128);
        self.pass(report.install);
        Ok(report)
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        match task {
            Task::Load { load, plan } => self.offer(load, plan).map(Observation::Load),
            Task::Plan(plan) => self.operate(plan).map(Observation::Plan),
            _ => Err(task.not_supported()),
        }
    }
}

impl Simulated {
    fn operate(&mut self, plan: &RulesPlan) -> Result<Control, DeviceError> {
        if self.lacks("rules") {
            return Err(DeviceError::lacks("rules"));
        }
        if let Some(threads @ 3..) = plan.threads {
            let capability = format!("{threads} control threads on 2 cores");
            return Err(DeviceError::lacks(capability));
        }
        let control = self.alone(plan);
        self.pass(Duration::from_nanos(control.busy_ns));
        Ok(control)
    }

    fn offer(&mut self, load: &Load, plan: &Plan) -> Result<LoadObservation, DeviceError> {
        self.trials += 1;
        if self.trials > self.nature.trials_max {
            let device = self.about.name.clone();
            return Err(DeviceError::Broken { device, reason: "it went away".into() });
        }
        if self.is_away {
            return Err(DeviceError::BadPlan { reason: "it was not set up anew".into() });
        }
        if self.nature.interrupted.contains(&self.trials) {
            self.is_away = true;
            let device = self.about.name.clone();
            return Err(DeviceError::Interrupted { device, reason: "the way broke".into() });
        }
        if self.lacks("latency") && load.rate != Rate::Saturate {
            return Err(DeviceError::lacks("latency"));
        }
        if self.lacks("frame_size") && load.sizes != FrameSizes::Fixed(64) {
            return Err(DeviceError::lacks("frame_size"));
        }
        self.pass(Duration::from_nanos(load.duration_ns + load.warmup_ns));
        let noise = 1.0 + self.random.random_range(-1.0..=1.0) * self.nature.noise;
        // Ten gigabits a second, as a link would have it.
        let link_pps = load.sizes.pps(10.0, niclab_packet::size::RateLevel::L1);
        let able_pps = (self.able_pps() * noise * self.left_by(plan)).min(link_pps);
        let planned_pps = match load.rate {
            Rate::Saturate => able_pps.min(self.nature.generator_pps),
            Rate::Pps(pps) | Rate::Step { low_pps: pps, .. } => pps,
        };
        let observation = self.observe(load, planned_pps, able_pps);
        Ok(match plan {
            Plan::Rest | Plan::Rss(_) => observation,
            Plan::Rules(plan) => self.carry_out(plan, observation),
        })
    }

    fn observe(&mut self, load: &Load, planned_pps: f64, able_pps: f64) -> LoadObservation {
        let frames = |pps: f64| (pps * load.duration_ns as f64 / 1e9).round() as u64;
        let planned = frames(planned_pps);
        let offered = planned.min(frames(self.nature.generator_pps));
        let mut received =
            (offered.min(frames(able_pps)) as f64 * (1.0 - self.nature.loss_ratio)) as u64;
        let mut latency = Latency::new();
        let queued = if planned_pps >= able_pps { 50 } else { 1 };
        for step in 1..=1_000 {
            latency.record((self.nature.latency_ns + step * 3) * queued);
        }
        let mut slices = Vec::new();
        if self.trials.is_multiple_of(self.nature.stall_every) {
            slices.push(Slice { offered, received, disturbed: true, ..Slice::default() });
        } else if self.nature.stall_share > 0.0 {
            let under_way_ns = self.nature.latency_ns * queued;
            slices = self.slices(load.duration_ns, (planned_pps, able_pps), under_way_ns);
            received = slices.iter().map(|slice| slice.received).sum();
        }
        let size = load.sizes.mean();
        LoadObservation {
            planned,
            offered,
            unsent: planned - offered,
            received,
            offered_bytes: (offered as f64 * size) as u64,
            received_bytes: (received as f64 * size) as u64,
            lost: offered - received,
            rx_missed: offered - received,
            duration_ns: load.duration_ns,
            latency: (!self.lacks("latency")).then_some(latency),
            slices,
            honesty: Honesty {
                achieved_ratio: offered as f64 / planned.max(1) as f64,
                balanced: true,
                tester_limited: able_pps > self.nature.generator_pps,
                device_busy_ns: self
                    .nature
                    .tells_idle
                    .then(|| (received as f64 * 1e9 / able_pps) as u64),
                device_idle_ratio: self
                    .nature
                    .tells_idle
                    .then(|| 1.0 - received as f64 / frames(able_pps) as f64),
                ..Honesty::default()
            },
            ..LoadObservation::default()
        }
    }
}

impl Simulated {
    /// Time of one operation of a plan, nanoseconds: rules of tunnels take twice as long, each
    /// action but the first a tenth more, group 0 behind the knee ten times; two threads do half as
    /// many again as one.
    fn each_ns(&self, plan: &RulesPlan) -> u64 {
        let base = match plan.calls {
            CallMode::Transaction => self.nature.operation_ns * 3 / 2,
            _ => self.nature.operation_ns,
        };
        let (block, stack, count) = match &plan.work {
            RuleWork::Create(block @ RuleBlock::Stack { stack, count, .. }) => {
                (block, stack, count)
            }
            RuleWork::Change { change: RuleChangeKind::Anew(_), .. } => return base * 2,
            _ => return base,
        };
        let (group, _, actions) = block.place().unwrap();
        let deep = if *stack == Stack::VxlanIpv4Udp { 2 } else { 1 };
        let full = if group == 0 && u64::from(*count) > self.nature.knee_rules { 10 } else { 1 };
        base * deep * full * (9 + actions.len() as u64) / 10 * 2
            / u64::from(1 + plan.threads.unwrap_or(1))
    }

    /// A plan without packets: the first call takes ten times as long, what goes half as long.
    fn alone(&self, plan: &RulesPlan) -> Control {
        let each_ns = self.each_ns(plan);
        let (count, room) = match &plan.work {
            RuleWork::Create(block) => {
                let is_root = block.place().is_some_and(|(group, ..)| group == 0);
                let room = if is_root { self.nature.capacity } else { u64::MAX };
                (u64::from(block.count()), room)
            }
            _ => (self.changed, u64::MAX),
        };
        let done = count.min(room);
        let of = |each_ns: u64, done| {
            let mut calls = Latency::new();
            calls.record_n(each_ns, count - 1);
            Control {
                planned: count,
                done,
                refused: count - done,
                refusal: (done < count).then(|| "group 0 is full".into()),
                begun_ns: Some(0),
                ended_ns: Some(each_ns * (count + 9)),
                busy_ns: each_ns * (count + 9),
                calls_ns: each_ns * (count + 9),
                calls: Some(calls),
                first_call_ns: Some(10 * each_ns),
                ..Control::default()
            }
        };
        let destroyed = Some(Box::new(of(each_ns / 2, count)));
        Control { destroyed, ..of(each_ns, done) }
    }

    /// Packets at the queues of the experiment `rule-update`: half before the change, half behind
    /// it; one in a thousand meets no rule where that is taken away.
    fn met(&self, change: &RuleChangeKind, received: u64) -> PortCounters {
        let none = if matches!(change, RuleChangeKind::Anew(_)) { received / 1_000 } else { 0 };
        let met = [received / 2, received - received / 2 - none, none];
        let queue = |rx_frames| QueueCounters { rx_frames, ..QueueCounters::default() };
        PortCounters { queues: met.map(queue).to_vec(), ..PortCounters::default() }
    }

    /// The share of its time that rule churn on the core that forwards leaves.
    fn left_by(&self, plan: &Plan) -> f64 {
        match plan {
            Plan::Rules(plan) if plan.core == ControlCore::Same => match plan.work {
                RuleWork::Renew { .. } => {
                    let busy_ns = self.done_per_s(plan) * self.nature.operation_ns as f64;
                    1.0 - busy_ns / 1e9
                }
                _ => 1.0,
            },
            _ => 1.0,
        }
    }

    /// Replacements that it manages: as many as fill nine tenths of the core's time.
    fn done_per_s(&self, plan: &RulesPlan) -> f64 {
        f64::from(plan.per_s.unwrap_or(0)).min(0.9e9 / self.nature.operation_ns as f64)
    }

    /// Rule churn beside a load: each is done 5 us after it was due. Another core takes it up 3 us
    /// after it was asked.
    fn churn(&self, plan: &RulesPlan, mut observed: LoadObservation) -> LoadObservation {
        let seconds = observed.duration_ns as f64 / 1e9;
        let planned = (f64::from(plan.per_s.unwrap_or(0)) * seconds) as u64;
        let all = (self.done_per_s(plan) * seconds) as u64;
        let refused = (all as f64 * self.nature.refused_ratio) as u64;
        let mut late = Latency::new();
        late.record_n(5_000, all);
        let mut waited = Latency::new();
        waited.record_n(3_000, all);
        observed.control = Some(Control {
            planned,
            done: all - refused,
            refused,
            refusal: (refused > 0).then(|| "no room".into()),
            begun_ns: Some(0),
            ended_ns: (all == planned)
                .then_some(observed.duration_ns - observed.duration_ns / planned.max(1)),
            busy_ns: all * self.nature.operation_ns,
            calls_ns: all * self.nature.operation_ns,
            late: Some(late),
            waited: (plan.core == ControlCore::Distinct).then_some(waited),
            ..Control::default()
        });
        observed
    }

    /// Rules that drop the frames of one flow each, one after the other.
    fn probed(
        &self,
        plan: &RulesPlan,
        count: u32,
        mut observed: LoadObservation,
    ) -> LoadObservation {
        let each_ns = 1_000_000_000 / u64::from(plan.per_s.unwrap_or(1));
        let begun: Vec<u64> =
            (0..u64::from(count)).map(|at| plan.start_ns + at * each_ns).collect();
        let mut late = Latency::new();
        late.record_n(self.nature.operation_ns, count.into());
        observed.latest_ns = begun.iter().map(|ns| Some(ns + self.nature.effect_ns)).collect();
        observed.control = Some(Control {
            planned: count.into(),
            done: count.into(),
            begun_ns: Some(plan.start_ns),
            ended_ns: Some(plan.start_ns + u64::from(count - 1) * each_ns),
            late: Some(late),
            each_begun_ns: begun,
            ..Control::default()
        });
        observed
    }
}

impl Simulated {
    /// What a plan does to a trial without stalls: as long as operations keep packets waiting the
    /// device is dead, to the millisecond.
    fn carry_out(&self, plan: &RulesPlan, mut observed: LoadObservation) -> LoadObservation {
        let count = match &plan.work {
            RuleWork::Create(block) if plan.per_s.is_some() => {
                return self.probed(plan, block.count(), observed);
            }
            RuleWork::Create(RuleBlock::FiveTuples { count, .. }) => count,
            RuleWork::Create(_) => return observed,
            RuleWork::Renew { .. } => return self.churn(plan, observed),
            RuleWork::Change { change, .. } => {
                observed.device = Some(self.met(change, observed.received));
                &(self.changed as u32)
            }
        };
        let each_ns = self.each_ns(plan);
        let busy_ns = u64::from(*count) * each_ns;
        let blocks = plan.core == ControlCore::Same && plan.slice.is_none();
        let dead_ns = plan.start_ns..plan.start_ns + if blocks { busy_ns } else { 0 };
        let slices = observed.duration_ns.div_ceil(SLICE_NS);
        let each = observed.received / slices;
        observed.slices = (0..slices)
            .map(|at| {
                let start_ns = at * SLICE_NS;
                let received = if dead_ns.contains(&start_ns) { 0 } else { each };
                let rx_missed = each - received;
                if at < self.nature.away_ms {
                    return Slice { start_ns, unsent: each, disturbed: true, ..Slice::default() };
                }
                Slice { start_ns, offered: each, received, rx_missed, ..Slice::default() }
            })
            .collect();
        observed.received = observed.slices.iter().map(|slice| slice.received).sum();
        observed.offered = observed.slices.iter().map(|slice| slice.offered).sum();
        (observed.planned, observed.unsent) = (each * slices, each * slices - observed.offered);
        (observed.lost, observed.rx_missed) =
            (observed.offered - observed.received, observed.offered - observed.received);
        let mut calls = Latency::new();
        calls.record_n(each_ns, u64::from(*count));
        let is_root = match &plan.work {
            RuleWork::Create(block) => block.place().is_some_and(|(group, ..)| group == 0),
            _ => false,
        };
        let planned = u64::from(*count);
        let done = if is_root { planned.min(self.nature.capacity) } else { planned };
        observed.control = Some(Control {
            planned,
            done,
            refused: planned - done,
            begun_ns: Some(plan.start_ns),
            ended_ns: Some(plan.start_ns + busy_ns).filter(|ns| *ns <= observed.duration_ns),
            busy_ns,
            calls_ns: busy_ns,
            calls: Some(calls),
            ..Control::default()
        });
        observed
    }

    /// What a sink sees that stalls now and then. Meanwhile frames wait, as many as its ring holds,
    /// and are taken beside the others when the stall is over; the rest is lost. Frames of the
    /// warm-up come first, and are not counted.
    fn slices(
        &mut self,
        duration_ns: u64,
        (planned_pps, able_pps): (f64, f64),
        under_way_ns: u64,
    ) -> Vec<Slice> {
        const STEP_NS: u64 = 10_000;
        const STEPS: u64 = SLICE_NS / STEP_NS;
        const RING: f64 = 4_096.0;
        let pps = planned_pps.min(able_pps);
        let frames = pps * STEP_NS as f64 / 1e9;
        let due = planned_pps * STEP_NS as f64 / 1e9;
        let new = |at| Slice { start_ns: at * SLICE_NS, ..Slice::default() };
        let mut slices: Vec<Slice> = (0..duration_ns.div_ceil(SLICE_NS)).map(new).collect();
        let (mut stalled, mut waiting, mut observed) = (0, 0.0f64, 0.0);
        let (mut offered, mut missed) = (0.0f64, 0.0f64);
        for step in under_way_ns / STEP_NS..duration_ns / STEP_NS {
            if stalled == 0 && self.random.random_bool(self.nature.stall_share) {
                stalled = self.random.random_range(8..150);
            }
            let slice = &mut slices[(step / STEPS) as usize];
            let before = (offered as u64, missed as u64);
            offered += due;
            missed += due - frames;
            let is_stalled = stalled > 0;
            if is_stalled {
                stalled -= 1;
                slice.disturbed = true;
                missed += (waiting + frames - RING).max(0.0);
                waiting = (waiting + frames).min(RING);
            }
            slice.offered += offered as u64 - before.0;
            slice.rx_missed += missed as u64 - before.1;
            if is_stalled {
                continue;
            }
            let taken = waiting.min(RING / 40.0);
            waiting -= taken;
            let before = observed as u64;
            observed += frames + taken;
            slice.received += observed as u64 - before;
        }
        slices
    }
}

/// A host in virtual time that stops after some samples.
pub struct VirtualHost {
    pub clock_ns: Rc<Cell<u64>>,
    pub samples_max: usize,
    pub stored: usize,
    pub dropped: Vec<String>,
    pub done_ratio: f64,
    /// The factor that the commands of variants set, and the number of commands run.
    pub speed: Rc<Cell<f64>>,
    pub commands: usize,
    /// The device of reference trials.
    reference: Option<Simulated>,
}

impl VirtualHost {
    pub fn new() -> VirtualHost {
        let clock_ns = Rc::new(Cell::new(1_800_000_000_000_000_000));
        VirtualHost {
            clock_ns,
            samples_max: usize::MAX,
            stored: 0,
            dropped: vec![],
            done_ratio: 0.0,
            speed: Rc::new(Cell::new(1.0)),
            commands: 0,
            reference: None,
        }
    }

    /// Makes reference trials on a device like this.
    pub fn set_reference(&mut self, nature: Option<Nature>) {
        self.reference = nature.map(|nature| Simulated::new(nature, self.clock_ns.clone()));
    }
}

impl Host for VirtualHost {
    fn time_unix_ns(&mut self) -> u64 {
        self.clock_ns.get()
    }

    fn is_stopped(&mut self) -> bool {
        self.stored >= self.samples_max
    }

    fn reference(&mut self) -> Option<LoadObservation> {
        let bed = self.reference.as_mut()?;
        bed.setup(&reference::setup()).unwrap();
        Some(bed.offer(&reference::load(), &Plan::Rest).unwrap())
    }

    /// Commands are a number, which the speed of the device is multiplied by, or one of the ways to
    /// fail: `exit N`, `kill N`, `late`. Each takes a millisecond.
    fn prepare(&mut self, command: &VariantCommand<'_>) -> CommandOutcome {
        self.commands += 1;
        self.clock_ns.set(self.clock_ns.get() + 1_000_000);
        let text = command.variant.command.as_str();
        let number = |text: &str| text.parse::<i32>().unwrap();
        let end = match text.split_once(' ') {
            Some(("exit", status)) => CommandEnd::Exited(number(status)),
            Some(("kill", signal)) => CommandEnd::Killed(number(signal)),
            _ if text == "late" => CommandEnd::TimedOut,
            _ => {
                self.speed.set(text.parse().unwrap());
                CommandEnd::Exited(0)
            }
        };
        let stderr = format!("about to fail\n{} on {}\n\n", command.variant.name, command.device);
        CommandOutcome { end, stdout: "out\n".into(), stderr }
    }

    fn progress(&mut self, event: Event<'_>) {
        match event {
            Event::Started { .. } => {}
            Event::Stored { done_ratio, .. } => {
                self.stored += 1;
                assert!(done_ratio >= self.done_ratio, "progress never goes back");
                self.done_ratio = done_ratio;
            }
            Event::Dropped { device, reason } => self.dropped.push(format!("{device}: {reason}")),
        }
    }
}

/// A run of an experiment on simulated devices.
pub struct Bench {
    pub run: Run,
    pub devices: Vec<Simulated>,
    pub host: VirtualHost,
    pub store: MemoryStore,
}

impl Bench {
    pub fn new(natures: Vec<Nature>, set: &[&str], repeats: u32) -> Bench {
        Bench::of("occupancy", natures, set, repeats)
    }

    pub fn of(name: &str, natures: Vec<Nature>, set: &[&str], repeats: u32) -> Bench {
        let set = set.iter().map(|text| text.parse().unwrap()).collect();
        let overrides = Overrides { set, repeats: Some(repeats), ..Default::default() };
        Bench::typed(name, natures, &overrides)
    }

    /// With variants, `NAME=COMMAND` each; see [`VirtualHost`].
    pub fn with_variants(
        natures: Vec<Nature>,
        variants: &[&str],
        set: &[&str],
        (repeats, seed): (u32, u64),
    ) -> Bench {
        let list = variants.iter().map(|text| text.parse().unwrap()).collect();
        let overrides = Overrides {
            set: set.iter().map(|text| text.parse().unwrap()).collect(),
            repeats: Some(repeats),
            seed: Some(seed),
            variants: Variants { timeout_s: 10, list },
            ..Default::default()
        };
        Bench::typed("occupancy", natures, &overrides)
    }

    fn typed(name: &str, natures: Vec<Nature>, overrides: &Overrides) -> Bench {
        let host = VirtualHost::new();
        let new = |nature| {
            let mut device = Simulated::new(nature, host.clock_ns.clone());
            device.speed = host.speed.clone();
            if let Some(seed) = overrides.seed {
                device.random = Xoshiro256PlusPlus::seed_from_u64(seed);
            }
            device
        };
        let devices: Vec<Simulated> = natures.into_iter().map(new).collect();
        let described: Vec<RunDevice> = devices.iter().map(Simulated::described).collect();
        let spec = experiments::spec(name).unwrap();
        let run = resolve("niclab 0.1.0", &[spec], overrides, described).unwrap();
        Bench { run, devices, host, store: MemoryStore::default() }
    }

    pub fn execute(&mut self) -> RunEnd {
        let mut beds: Vec<OpenedDevice<'_>> =
            self.devices.iter_mut().map(|bed| Ok(bed as &mut dyn Testbed)).collect();
        let done = self.store.samples.clone();
        execute(&self.run, &mut beds, &done, &mut self.store, &mut self.host).unwrap()
    }

    /// As [`Bench::execute`], with this device away.
    pub fn execute_without(&mut self, device: usize) -> RunEnd {
        let beds = self.devices.iter_mut().map(|bed| Ok(bed as &mut dyn Testbed));
        let mut beds: Vec<OpenedDevice<'_>> = beds.collect();
        beds[device] = Err(ABSENT.into());
        let done = self.store.samples.clone();
        execute(&self.run, &mut beds, &done, &mut self.store, &mut self.host).unwrap()
    }

    pub fn samples(&self, trial: &str) -> Vec<&Sample> {
        self.store.samples.iter().filter(|sample| sample.trial == trial).collect()
    }
}

/// What stands in a row of a table.
pub fn cell_of(table: &ReportTable, row: usize, column: &str) -> String {
    let at = table.columns.iter().position(|one| one == column).unwrap();
    table.rows[row][at].clone()
}

/// What stands in the first row in which these columns have these words.
pub fn cell_at(table: &ReportTable, at: &[(&str, &str)], column: &str) -> String {
    let is = |row: &usize| at.iter().all(|(name, word)| cell_of(table, *row, name) == *word);
    let row = (0..table.rows.len()).find(is);
    cell_of(table, row.unwrap_or_else(|| panic!("no row at {at:?}")), column)
}

/// The number of a finding on the simulated device.
pub fn finding_value(summary: &Summary, id: &str) -> f64 {
    let id = format!("simulated-{id}");
    let found = summary.findings.iter().find(|finding| finding.id == id);
    found.unwrap_or_else(|| panic!("no {id} among {:#?}", summary.findings)).value.value
}
