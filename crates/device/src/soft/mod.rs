//! `soft`: the software NIC under a memory wire.
//!
//! The calling thread generates and counts; the NIC and the network function have a core of their
//! own (placement `inline`: the core that polls the queue runs the pipeline).

mod core;
mod lanes;

use std::time::Instant;

use niclab_load::{Load, LoadError, Observation, PortCounters, Rate, drive};
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, RuleError, Worker};
use niclab_packet::flow::{FiveTuple, FlowSet, Transport};
use niclab_packet::size::FCS_LEN;
use niclab_port::wire::wire;

use crate::cores;
use crate::face::{
    About, DeviceError, Fact, Place, Placement, Plan, RuleBlock, Setup, SetupReport, Testbed,
};
use core::Core;
use lanes::lanes;

/// Frames each ring of the wire holds, as a usual receive ring.
const WIRE_DEPTH: u32 = 1_024;

/// Share of time without work under saturation above which the generator, not the device, was the limit.
const IDLE_RATIO_MAX: f64 = 0.02;

/// The software NIC with its generator and sink.
pub struct Soft {
    about: About,
    /// The generator's and sink's core, the device's core.
    cores: [u32; 2],
    state: Option<State>,
}

/// What a set-up made.
struct State {
    nic: Nic,
    worker: Worker,
    frame_len: usize,
}

impl Soft {
    /// A NIC without rules on the first two cores this process may use.
    pub fn open() -> Result<Soft, DeviceError> {
        let cores = cores::take("soft", 2)?;
        let cores = [cores[0], cores[1]];
        Ok(Soft { about: about(cores), cores, state: None })
    }
}

fn about(cores: [u32; 2]) -> About {
    let fact = |name: &str, value: String| Fact { name: name.to_owned(), value };
    let place = |role: &str, label: String, core| Place { role: role.to_owned(), label, core };
    let wire = format!("memory wire, {WIRE_DEPTH} descriptors");
    About {
        name: "soft".to_owned(),
        facts: vec![
            fact("driver", format!("niclab {}", env!("CARGO_PKG_VERSION"))),
            fact("placement", "inline: the core that polls the queue runs the NIC".to_owned()),
            fact("rules of group 0", niclab_nic::limits::ROOT_RULES_MAX.to_string()),
            fact("rules in all", niclab_nic::limits::RULES_MAX.to_string()),
            fact("clock", niclab_load::clock::Clock::new().source().to_owned()),
        ],
        places: vec![
            place("generator", "generator".to_owned(), Some(cores[0])),
            place("wire", wire.clone(), None),
            place("device", "software NIC, inline".to_owned(), Some(cores[1])),
            place("function", "forward: swap MACs, send back".to_owned(), Some(cores[1])),
            place("wire", wire, None),
            place("sink", "sink".to_owned(), Some(cores[0])),
        ],
        not_supported: Vec::new(),
    }
}

impl Testbed for Soft {
    fn about(&self) -> &About {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        if setup.placement == Placement::Engine {
            return Err(DeviceError::NotSupported { capability: "placement engine".to_owned() });
        }
        self.state = None;
        let config = NicConfig { queues: setup.queues, ..NicConfig::default() };
        let mut nic = Nic::new(&config).map_err(broken)?;
        let mut report = SetupReport::default();
        let before = nic.rule_bytes();
        for block in &setup.rules {
            install(&mut nic, block, &mut report)?;
        }
        report.rules_installed = u64::from(nic.len());
        report.rule_bytes = Some((nic.rule_bytes() - before) as u64);
        let worker = nic.worker();
        let frame_len = usize::from(setup.frame_len_max - FCS_LEN);
        self.state = Some(State { nic, worker, frame_len });
        Ok(report)
    }

    fn run(&mut self, load: &Load, plan: &Plan) -> Result<Observation, DeviceError> {
        let Plan::Rest = plan;
        let State { nic, worker, frame_len } =
            self.state.take().ok_or_else(|| broken("run before set-up"))?;
        let (far, near) = wire(WIRE_DEPTH as usize, frame_len).map_err(broken)?;
        let (mut out, mut back) = lanes(far);
        let _pinned = cores::Pinned::to(self.cores[0]);
        let mut core = Core::start(worker, near, nic.queues(), self.cores[1]);
        let driven = drive(load, WIRE_DEPTH, &mut out, &mut back, &mut core);
        let idle_ratio = core.idle_ratio;
        let done = core.finish().ok_or_else(|| broken("the device's core stopped"))?;
        self.state = Some(State { nic, worker: done.worker, frame_len });
        let mut observation = driven.map_err(bad_load)?;
        let rx_missed = observation.generator.rx_missed;
        observation.device = Some(PortCounters { rx_missed, ..done.counters });
        observation.honesty.device_stalls = Some(done.stalls.sum());
        judge(&mut observation, load, idle_ratio);
        Ok(observation)
    }
}

/// Adds what only the device's side can tell: how idle it was, whether the counters balance.
fn judge(observation: &mut Observation, load: &Load, idle_ratio: f64) {
    observation.check_balance();
    let honesty = &mut observation.honesty;
    honesty.device_idle_ratio = Some(idle_ratio);
    if load.rate == Rate::Saturate && idle_ratio > IDLE_RATIO_MAX {
        honesty.generator_limited = true;
        let share = idle_ratio * 100.0;
        honesty.reasons.push(format!("{share:.1} % of the time the device had nothing to do"));
    }
}

fn broken(reason: impl ToString) -> DeviceError {
    DeviceError::Broken { device: "soft".to_owned(), reason: reason.to_string() }
}

/// What a load error is to a device.
pub(crate) fn bad_load(error: LoadError) -> DeviceError {
    DeviceError::BadLoad { reason: error.to_string() }
}

/// Creates the rules of a block. The first refusal ends it: the rest counts as refused too.
fn install(nic: &mut Nic, block: &RuleBlock, report: &mut SetupReport) -> Result<(), DeviceError> {
    match block {
        RuleBlock::Any { group, priority, actions } => {
            let rule = (*group, *priority, actions.as_slice());
            create(nic, rule, std::iter::once(Pattern::any()), report);
        }
        RuleBlock::FiveTuples { group, priority, flows, first, count, actions } => {
            let set = FlowSet::new(flows).map_err(|error| bad_load(error.into()))?;
            let patterns = (*first..first + count).map(|flow| five_tuple(&set.tuple(flow)));
            create(nic, (*group, *priority, actions.as_slice()), patterns, report);
        }
    }
    Ok(())
}

/// The pattern of a flow.
fn five_tuple(tuple: &FiveTuple) -> Pattern {
    let pattern = Pattern::any().src(tuple.src).dst(tuple.dst);
    let pattern = match tuple.proto {
        Transport::Udp => pattern.udp(),
        Transport::Tcp => pattern.tcp(),
    };
    pattern.sport(tuple.sport).dport(tuple.dport)
}

/// Creates one rule a pattern; `rule` is group, priority, actions. Only the creations are timed.
fn create(
    nic: &mut Nic,
    rule: (u32, u32, &[Action]),
    patterns: impl ExactSizeIterator<Item = Pattern>,
    report: &mut SetupReport,
) {
    let (group, priority, actions) = rule;
    let total = patterns.len() as u64;
    let mut created = 0;
    let mut patterns = patterns.peekable();
    while patterns.peek().is_some() {
        let chunk: Vec<Pattern> = patterns.by_ref().take(1_024).collect();
        let start = Instant::now();
        let one = |&pattern: &Pattern| nic.create(&Rule { group, priority, pattern, actions });
        let refused: Option<RuleError> = chunk.iter().map(one).find_map(|made| {
            created += u64::from(made.is_ok());
            made.err()
        });
        report.install += start.elapsed();
        if let Some(error) = refused {
            report.rules_refused += total - created;
            report.refusal.get_or_insert_with(|| error.to_string());
            return;
        }
    }
}
