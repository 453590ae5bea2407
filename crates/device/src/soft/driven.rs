//! A card of one core under a clocked wire, and what the control side does to its rules meanwhile:
//! on that core between two turns of the card, or on another one.
//!
//! The card is driven ([`Card::driven`]): the thread that lets its core work also carries out the
//! operations of a plan that belong there, as an application does that polls a card and calls its
//! rule interface on the same core.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use niclab_card::{Card, CardConfig, Core, Ended, Runs};
use niclab_load::clock::Clock;
use niclab_load::clocked::{Clocked, observe};
use niclab_load::{Control, Load, LoadObservation};
use niclab_nic::limits::BURST;
use niclab_nic::{Nic, RuleId};
use niclab_packet::size::FCS_LEN;

use super::asking::Asker;
use super::clocked::{Trial, Wires, enter};
use super::control::Carrier;
use super::{Installed, Seats, WIRE_DEPTH, bad_load, broken};
use crate::cores::Pinned;
use crate::face::{DeviceError, Setup};
use crate::plan::{ControlCore, RulesPlan};

/// Whole bursts in a row that go before operations: packets come first, but under a load that never
/// leaves a burst open operations are to come to their end as well.
const PASSED_MAX: u32 = 16;

/// What the control side did, and the rules that are in the places where the plan worked.
pub(super) type Done = (Control, Vec<Option<RuleId>>);

/// What was seen, and what the control side did meanwhile.
pub(super) type Seen = (LoadObservation, Option<Done>);

/// What a trial is made of.
pub(super) struct Offer<'a> {
    pub(super) load: &'a Load,
    pub(super) setup: &'a Setup,
    pub(super) seats: Seats,
    /// A plan, and the blocks of rules that it works on.
    pub(super) plan: Option<(&'a RulesPlan, &'a [Installed])>,
}

impl Offer<'_> {
    /// Offers the load to a card with these rules, which come back unless the card broke.
    pub(super) fn run(&self, nic: Nic) -> (Option<Nic>, Result<Seen, DeviceError>) {
        let wire = match Clocked::one(self.load, WIRE_DEPTH, self.setup.frame_len_max) {
            Ok(wire) => wire,
            Err(error) => return (Some(nic), Err(bad_load(error))),
        };
        let (trial, wires) = Wires::one(wire);
        let config = CardConfig {
            frame_len_max: usize::from(self.setup.frame_len_max.saturating_sub(FCS_LEN)),
            ..CardConfig::new(vec![wires], nic.queues(), vec![0])
        };
        let runs = Runs { controls: vec![nic], ..Runs::default() };
        let (mut card, mut cores) = match Card::driven(&config, runs) {
            Ok(driven) => driven,
            Err(error) => return (None, Err(broken(error))),
        };
        let Some(core) = cores.pop() else { return (None, Err(broken("the card has no core"))) };
        let (core, done) = self.drive(&mut card, core, &trial);
        let Some(core) = core else { return (None, Err(broken("a thread of the card panicked"))) };
        let (ended, mut nics) = card.end_driven(vec![core]);
        let seen = done.map(|done| (self.observation(&trial, &ended), done));
        (nics.pop(), seen)
    }

    /// Lets the core work until the load is over; gives it back unless it panicked.
    fn drive(
        &self,
        card: &mut Card,
        core: Core,
        trial: &Trial,
    ) -> (Option<Core>, Result<Option<Done>, DeviceError>) {
        let mut control = None;
        if let (Some((plan, blocks)), Some(nic)) = (self.plan, card.control(0)) {
            match Carrier::new(plan, nic, blocks, self.load.duration_ns) {
                Ok(carrier) => control = Some((plan.core, carrier)),
                Err(error) => return (Some(core), Err(error)),
            }
        }
        let (same, asker, beside) = match &mut control {
            None => (None, None, None),
            Some((ControlCore::Same, carrier)) => (Some(carrier), None, None),
            Some((ControlCore::Distinct, carrier)) => (None, carrier.asked_by(), Some(carrier)),
        };
        let warmup_ns = self.load.warmup_ns;
        let turns = Turns { core, control: same, asker, warmup_ns, is_open: false, passed: 0 };
        let (ready, stop) = (&AtomicBool::new(false), &AtomicBool::new(false));
        let seat = self.seats.function;
        let core = thread::scope(|scope| {
            // Whatever becomes of this function, the core ends.
            let _end = EndOnDrop(stop);
            let work = move || {
                let _pinned = seat.map(Pinned::to);
                ready.store(true, Ordering::Release);
                turns.run(trial, stop)
            };
            let worker = thread::Builder::new().name("card".to_owned()).spawn_scoped(scope, work);
            let worker = worker.map_err(|error| broken(format!("no thread for it: {error}")))?;
            // The core polls before the first frame comes.
            while !ready.load(Ordering::Acquire) && !worker.is_finished() {
                thread::yield_now();
            }
            self.wait(trial, trial.begin() + warmup_ns, beside);
            stop.store(true, Ordering::Release);
            Ok(worker.join().ok())
        });
        match core {
            Ok(core) => (core, Ok(control.map(|(_, carrier)| carrier.end()))),
            Err(error) => (None, Err(error)),
        }
    }

    /// Waits for the end of the load, and carries out a plan of this core's meanwhile.
    fn wait(&self, trial: &Trial, opened_ns: u64, beside: Option<&mut Carrier<'_>>) {
        let (clock, closed_ns) = (Clock::new(), opened_ns + self.load.duration_ns);
        let until = |at_ns: u64| Duration::from_nanos(at_ns.saturating_sub(clock.now_ns()));
        if let Some(carrier) = beside {
            let _pinned = self.seats.tester.map(Pinned::to);
            thread::sleep(until(opened_ns));
            carrier.opened(opened_ns);
            while clock.now_ns() < closed_ns {
                carrier.turn();
            }
        }
        thread::sleep(until(closed_ns));
        trial.drain(1);
    }

    fn observation(&self, trial: &Trial, ended: &Ended) -> LoadObservation {
        let mut seen = observe(trial.wires());
        let queues: Vec<(usize, u16)> = (0..self.setup.queues).map(|queue| (0, queue)).collect();
        enter(&mut seen, ended, &queues);
        seen
    }
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The turns of the card's core, and what else is done on it.
struct Turns<'a, 'b> {
    core: Core,
    /// A plan that this core carries out between two turns.
    control: Option<&'a mut Carrier<'b>>,
    /// A plan whose operations this core asks another one for.
    asker: Option<Asker>,
    /// Time from the first frame to the measured part, and whether that has begun.
    warmup_ns: u64,
    is_open: bool,
    /// Whole bursts that went before operations.
    passed: u32,
}

impl Turns<'_, '_> {
    fn run(mut self, trial: &Trial, stop: &AtomicBool) -> Core {
        let clock = Clock::new();
        while !stop.load(Ordering::Relaxed) {
            let came = self.core.turn();
            if came == 0 {
                std::hint::spin_loop();
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
            self.control(came, trial);
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
    fn control(&mut self, came: usize, trial: &Trial) {
        let Some(control) = &mut self.control else { return };
        let is_full = came == BURST && self.passed < PASSED_MAX;
        let waits = is_full && !control.is_behind();
        self.passed = if waits { self.passed + 1 } else { 0 };
        if !waits {
            trial.other(control.turn());
        }
    }
}
