//! A load that comes to the card by the clock, and a plan beside it. The plan runs on the first
//! core of the card between two of its turns, or on another core.
//!
//! The cores of the card are driven ([`Card::driven`]), each by a thread of its own. So the first
//! of them can also carry out the operations of a plan, as an application does that polls a card
//! and calls its rule interface on the same core.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use niclab_card::{Card, CardConfig, CardResult, CardWorkload, Core};
use niclab_load::clock::Clock;
use niclab_load::clocked::observe;
use niclab_load::{Control, Load, LoadObservation};
use niclab_nic::limits::BURST;
use niclab_nic::{Nic, RuleId};
use niclab_packet::size::FCS_LEN;

use super::clocked::{Trial, cross_core_frames, enter, ports, queue_numbers};
use super::nic_rules::NicRules;
use super::rss_change::{RssControl, RssPlanResult, balance};
use super::{TrialCores, broken};
use crate::control::{Carrier, InstalledBlock, OperationRequester, Patterns};
use crate::cores::Pinned;
use crate::face::{DeviceError, Setup};
use crate::plan::{ControlCore, Plan};

/// Whole bursts in a row that go before operations: packets come first, but under a load that never
/// leaves a burst open operations are to come to their end as well.
const PASSED_MAX: u32 = 16;

/// The observation, and the rules that a plan left, by place.
pub(super) type DrivenResult = (LoadObservation, Vec<Option<RuleId>>);

/// What a trial is made of.
pub(super) struct TrialSetup<'a> {
    pub(super) load: &'a Load,
    pub(super) setup: &'a Setup,
    pub(super) trial_cores: &'a TrialCores,
    pub(super) plan: &'a Plan,
    /// The patterns of the rules that the plan creates, and the rules of the set-up, which it may
    /// work on.
    pub(super) rules: (Option<&'a Patterns>, &'a [InstalledBlock<RuleId>]),
}

/// The control side of a trial: idle, or carrying out a plan.
enum ControlSide<'a> {
    Rest,
    Rules(ControlCore, Box<Carrier<'a, NicRules<'a>>>),
    Rss(Box<RssControl<'a>>),
}

/// The result of a plan.
#[derive(Default)]
struct PlanResult {
    rules: Option<(Control, Vec<Option<RuleId>>)>,
    rss: Option<RssPlanResult>,
}

impl TrialSetup<'_> {
    /// Offers the load to a card with rules and RSS of these ports, which come back unless the card
    /// broke.
    pub(super) fn run(
        &self,
        nics: Vec<Nic>,
    ) -> (Option<Vec<Nic>>, Result<DrivenResult, DeviceError>) {
        let (trial, count) = (Arc::new(Trial::default()), self.trial_cores.card.len());
        let ports = match ports((self.load, self.plan), self.setup, &nics, count, &trial) {
            Ok(ports) => ports,
            Err(error) => return (Some(nics), Err(error)),
        };
        let config = CardConfig {
            balance: balance(self.plan),
            frame_len_max: usize::from(self.setup.frame_len_max.saturating_sub(FCS_LEN)),
            ..CardConfig::new(ports, nics[0].queues(), (0..count as u32).collect())
        };
        let runs = CardWorkload { controls: nics, ..CardWorkload::default() };
        let (mut card, cores) = match Card::driven(&config, runs) {
            Ok(driven) => driven,
            Err(error) => return (None, Err(broken(error))),
        };
        let (cores, done) = self.drive(&mut card, cores, &trial);
        let Some(cores) = cores else {
            return (None, Err(done.err().unwrap_or_else(|| broken("a core of it panicked"))));
        };
        let (ended, nics) = card.shut_down_driven(cores);
        (Some(nics), done.and_then(|done| self.result(&trial, &ended, done)))
    }

    /// Lets the cores work until the load is over; gives them back unless one panicked.
    fn drive(
        &self,
        card: &mut Card,
        cores: Vec<Core>,
        trial: &Trial,
    ) -> (Option<Vec<Core>>, Result<PlanResult, DeviceError>) {
        let mut control = match self.control(card) {
            Ok(control) => control,
            Err(error) => return (Some(cores), Err(error)),
        };
        let mut rest = ControlSide::Rest;
        let (mut same, beside) = match &mut control {
            ControlSide::Rules(ControlCore::Same, carrier) => (Some(carrier), &mut rest),
            beside => (None, beside),
        };
        let mut asker = match beside {
            ControlSide::Rules(_, carrier) => carrier.requester(),
            ControlSide::Rest | ControlSide::Rss(_) => None,
        };
        let (ready, stop) = (&AtomicUsize::new(0), &AtomicBool::new(false));
        let driven = thread::scope(|scope| {
            // However this function ends, the cores end.
            let _end = EndOnDrop(stop);
            let mut workers = Vec::with_capacity(cores.len());
            for (core, pinned) in cores.into_iter().zip(&self.trial_cores.card) {
                let turns = CoreTurns {
                    core,
                    control: same.take().map(|carrier| &mut **carrier),
                    asker: asker.take(),
                    warmup_ns: self.load.warmup_ns,
                    is_open: false,
                    passed: 0,
                    yields: self.trial_cores.control.is_none(),
                };
                let work = move || {
                    let _pinned = pinned.map(Pinned::to);
                    ready.fetch_add(1, Ordering::Release);
                    turns.run(trial, stop)
                };
                let worker = thread::Builder::new().name("card".to_owned());
                let worker = worker.spawn_scoped(scope, work);
                workers.push(worker.map_err(|error| broken(format!("no thread for it: {error}")))?);
            }
            // All cores poll before the first frame comes.
            while ready.load(Ordering::Acquire) < workers.len()
                && !workers.iter().any(|worker| worker.is_finished())
            {
                thread::yield_now();
            }
            self.wait(trial, beside)?;
            stop.store(true, Ordering::Release);
            let cores = workers.into_iter().map(|worker| worker.join().ok());
            Ok(cores.collect::<Option<Vec<Core>>>())
        });
        match driven {
            Ok(cores) => (cores, Ok(control.end())),
            Err(error) => (None, Err(error)),
        }
    }

    fn control<'c>(&'c self, card: &'c mut Card) -> Result<ControlSide<'c>, DeviceError> {
        Ok(match self.plan {
            Plan::Rest => ControlSide::Rest,
            Plan::Rules(plan) => {
                let nic = card.control(0).ok_or_else(|| broken("a card without a port"))?;
                let (rules, duration_ns) = (self.rules, self.load.duration_ns);
                let carrier =
                    Carrier::new(plan, rules, duration_ns, |steps| NicRules::of(plan, nic, steps))?;
                ControlSide::Rules(plan.core, Box::new(carrier))
            }
            Plan::Rss(plan) => ControlSide::Rss(Box::new(RssControl::new(card, *plan))),
        })
    }

    /// Waits for the end of the load, and carries out a plan of this thread's meanwhile.
    fn wait(&self, trial: &Trial, beside: &mut ControlSide<'_>) -> Result<(), DeviceError> {
        if let ControlSide::Rss(control) = beside {
            control.settle()?;
        }
        let clock = Clock::new();
        let until = |at_ns: u64| Duration::from_nanos(at_ns.saturating_sub(clock.now_ns()));
        let opened_ns = trial.begin() + self.load.warmup_ns;
        let closed_ns = opened_ns + self.load.duration_ns;
        thread::sleep(until(opened_ns));
        match beside {
            ControlSide::Rest => {}
            ControlSide::Rules(_, carrier) => {
                let _pinned = self.trial_cores.control.map(Pinned::to);
                carrier.opened(opened_ns);
                while clock.now_ns() < closed_ns {
                    carrier.turn();
                }
            }
            ControlSide::Rss(control) => control.work(opened_ns, closed_ns),
        }
        thread::sleep(until(closed_ns));
        trial.drain(usize::from(self.setup.ports) * self.trial_cores.card.len());
        if let ControlSide::Rss(control) = beside {
            control.await_last();
        }
        Ok(())
    }

    /// Combines the observation of the wires, the counters of the card and the result of the plan.
    fn result(
        &self,
        trial: &Trial,
        ended: &CardResult,
        done: PlanResult,
    ) -> Result<DrivenResult, DeviceError> {
        if let Some(trouble) = ended.errors.first() {
            return Err(broken(trouble));
        }
        let (mut observed, count) = (observe(trial.wires()), self.trial_cores.card.len());
        let of_port = queue_numbers(self.setup, count)?;
        let queues = (0..).zip(&of_port);
        let queues = queues.flat_map(|(port, of)| of.iter().map(move |queue| (port, *queue)));
        enter(&mut observed, ended, &queues.collect::<Vec<_>>());
        observed.crossed = Some(cross_core_frames(&observed, ended, count));
        if let Some(rss) = done.rss {
            rss.enter(&mut observed, ended);
        }
        let (control, ids) = done.rules.unzip();
        observed.control = control;
        Ok((observed, ids.unwrap_or_default()))
    }
}

impl ControlSide<'_> {
    fn end(self) -> PlanResult {
        match self {
            ControlSide::Rest => PlanResult::default(),
            ControlSide::Rules(_, carrier) => {
                PlanResult { rules: Some(carrier.end()), ..PlanResult::default() }
            }
            ControlSide::Rss(control) => PlanResult { rules: None, rss: Some(control.end()) },
        }
    }
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The turns of one core of the card, and what else is done on it.
struct CoreTurns<'a, 'b> {
    core: Core,
    /// A plan that this core carries out between two turns.
    control: Option<&'a mut Carrier<'b, NicRules<'b>>>,
    /// A plan whose operations this core asks another one for.
    asker: Option<OperationRequester>,
    /// Time from the first frame to the measured part, and whether that has begun.
    warmup_ns: u64,
    is_open: bool,
    /// Whole bursts that went before operations.
    passed: u32,
    /// While it is idle others may have the core: the control side has none of its own.
    yields: bool,
}

impl CoreTurns<'_, '_> {
    /// Works until it is to stop and nothing is under way.
    fn run(mut self, trial: &Trial, stop: &AtomicBool) -> Core {
        let clock = Clock::new();
        while !(stop.load(Ordering::Relaxed) && self.core.is_idle()) {
            let received = self.core.turn();
            if received == 0 {
                match self.yields && self.core.is_idle() {
                    true => thread::yield_now(),
                    false => std::hint::spin_loop(),
                }
            }
            if self.control.is_none() && self.asker.is_none() {
                continue;
            }
            if !self.is_open {
                self.open(trial, clock.now_ns());
            }
            if let Some(asker) = &mut self.asker {
                asker.turn();
            }
            self.control(received, trial);
        }
        self.core
    }

    /// Tells those who wait for it that the measured part begins.
    fn open(&mut self, trial: &Trial, now_ns: u64) {
        let opens_ns = trial.begun_ns().map(|begun_ns| begun_ns + self.warmup_ns);
        let Some(opened_ns) = opens_ns.filter(|opens_ns| *opens_ns <= now_ns) else { return };
        self.is_open = true;
        self.control.iter_mut().for_each(|control| control.opened(opened_ns));
        self.asker.iter_mut().for_each(|asker| asker.opened(opened_ns));
    }

    /// Carries out what is due, unless packets go first.
    fn control(&mut self, received: usize, trial: &Trial) {
        let Some(control) = &mut self.control else { return };
        let is_full = received == BURST && self.passed < PASSED_MAX;
        let waits = is_full && !control.is_behind();
        self.passed = if waits { self.passed + 1 } else { 0 };
        if !waits {
            trial.add_other_work(control.turn());
        }
    }
}
