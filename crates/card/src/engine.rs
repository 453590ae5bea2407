//! One core of a card: its lanes, the rules, the rings to the other cores, the function.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use niclab_apps::forward::swap_macs;
use niclab_nic::limits::INDIRECTION_LEN;
use niclab_nic::memory::Desc;
use niclab_port::crossing::Crossing;
use niclab_port::lane::Lane;
use niclab_port::stock::Stock;
use niclab_port::wake::Bell;
use niclab_port::wire::Burst;
use niclab_program::Fate;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::applications::{Host, NoRoom, Works};
use crate::card::Receive;
use crate::counters::CoreShown;
use crate::guests::Seat;
use crate::leaving::OWN;
use crate::moving::{Completed, Progress};
use crate::programmed::{AtCore, Carried};
use crate::serving::Serving;
use crate::side::Side;
use crate::steered::Steered;

/// Turns after which counters are shown, where there is no pause before; and time, where turns are
/// long.
const SHOWN_EVERY: u32 = 1_024;
const SHOWN_EVERY_NS: u64 = 2_000_000;

/// Turns without a frame after which others may have the core for a moment.
const IDLE_TURNS: u32 = 64;

/// How long a core sleeps at most where nothing wakes it: what it is told wakes it, too, so that
/// this is for what nobody thought of.
const SLEEP_MAX: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The same where somebody has to look whether a lane has room, or a frame.
const SLEEP_SHORT: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Bursts of each port in a turn where there are applications.
const INTAKE_BURSTS: usize = 4;

/// Turns at the end in which frames that wait may still leave.
const LAST_TURNS: u32 = 1_000;

/// Waits until a lane has a frame or this is readable, or it is time to look.
fn wait(sides: &[Side], has_guests: bool, event: BorrowedFd<'_>) {
    let lanes = || sides.iter().filter_map(|side| side.lane.as_deref());
    let has_to_look = has_guests
        || lanes().any(|lane| lane.waits_on().is_none())
        || sides.iter().any(|side| !side.leaving.is_empty());
    let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut fds: Vec<PollFd<'_>> =
        lanes().filter_map(|lane| lane.waits_on()).map(readable).collect();
    fds.push(readable(event));
    // Whatever it says, the lanes are looked at.
    let _ = poll(&mut fds, Some(if has_to_look { &SLEEP_SHORT } else { &SLEEP_MAX }));
}

/// The port whose lane frames of a port leave by, of so many ports.
#[inline]
fn way_out(port: usize, ports: usize) -> usize {
    if ports == 1 { port } else { port ^ 1 }
}

/// Works for as long as the function is to take for so many frames.
#[inline]
fn work(each: Duration, frames: usize) {
    if !each.is_zero() {
        let until = Instant::now() + each * frames as u32;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
}

/// The function where there is no service: out by the other port, or back with the MAC addresses
/// swapped. A guest gets the frames of its queue instead.
#[inline]
fn forward(sides: &mut [Side], seats: &mut [Seat], stock: &mut Stock, port: usize, mut desc: Desc) {
    let is_its = |seat: &&mut Seat| seat.port == port && seat.queue == desc.queue;
    if let Some(seat) = seats.iter_mut().find(is_its) {
        return seat.give(desc, stock);
    }
    if sides.len() == 1 {
        swap_macs(stock.region().frame_mut(&mut desc));
    }
    sides[way_out(port, sides.len())].leave(desc, stock);
}

/// The function on frames that came by a port and are this core's.
fn work_on(
    sides: &mut [Side],
    seats: &mut [Seat],
    stock: &mut Stock,
    service: &mut Option<Serving>,
    port: usize,
    burst: &mut Burst,
) {
    match service {
        Some(serving) if !burst.is_empty() => serving.serve(&mut sides[port], stock, burst),
        _ => burst.drain(..).for_each(|desc| forward(sides, seats, stock, port, desc)),
    }
}

/// One core.
pub(crate) struct Engine {
    /// Its place among the card's.
    pub(crate) place: usize,
    pub(crate) sides: Vec<Side>,
    /// By port that frames come by: rings to the other cores, and from them.
    pub(crate) crossings: Vec<Crossing>,
    /// By core: frames of a burst that go to it.
    pub(crate) bound: Vec<Burst>,
    /// Guests on queues of this core.
    pub(crate) seats: Vec<Seat>,
    /// What answers frames in place of forwarding them.
    pub(crate) service: Option<Serving>,
    pub(crate) stock: Stock,
    /// What decides about frames in place of rules and RSS, where there is a program.
    pub(crate) program: AtCore,
    /// Applications that have flows of their own.
    pub(crate) host: Option<Box<Host>>,
    /// How far all cores are, and this one.
    pub(crate) progress: Arc<Progress>,
    pub(crate) completed: Completed,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) begun: Instant,
    /// Since then, at the beginning of this turn.
    pub(crate) now_ns: u64,
    /// Time of turns with something to do.
    pub(crate) busy_ns: u64,
    /// Frames that the function here has had.
    pub(crate) frames: u64,
    /// Where that is shown.
    pub(crate) shown: Arc<CoreShown>,
    /// What it does while no frame comes.
    pub(crate) receive: Receive,
    /// Time that the function takes for a frame beside forwarding it.
    pub(crate) work: Duration,
    /// Where each core sleeps.
    pub(crate) bells: Arc<[Bell]>,
    /// How often the control side told the cores something, and how often this one has looked.
    pub(crate) told: Arc<AtomicU64>,
    pub(crate) has_heard: u64,
    /// Cores that were given something in this turn.
    pub(crate) gave: Box<[bool]>,
}

impl Engine {
    /// Works until it is told to stop, and gives back its frames.
    pub(crate) fn run(mut self) -> Stock {
        // Turns without a frame, and those since counters were shown.
        let (mut burst, mut idle, mut turns, mut shown_ns) = (Burst::new(), 1, 0, 0);
        while !self.stop.load(Ordering::Relaxed) {
            let was_busy = idle == 0;
            let before_ns =
                std::mem::replace(&mut self.now_ns, self.begun.elapsed().as_nanos() as u64);
            self.busy_ns += if was_busy { self.now_ns - before_ns } else { 0 };
            let is_busy = self.turn(&mut burst);
            (idle, turns) = (if is_busy { 0 } else { idle + 1 }, turns + 1);
            // Where one port has frames all the time another may have none.
            let is_time = turns == SHOWN_EVERY || self.now_ns - shown_ns > SHOWN_EVERY_NS;
            let is_told = self.told.load(Ordering::Relaxed) != self.has_heard;
            if idle >= IDLE_TURNS || is_time || is_told {
                self.refresh();
            }
            let sleeps = idle >= IDLE_TURNS && self.receive == Receive::Interrupt;
            // While it sleeps nobody would show them.
            if idle == IDLE_TURNS || is_time || sleeps {
                self.show();
                (turns, shown_ns) = (0, self.now_ns);
            }
            match sleeps {
                true => self.sleep(),
                false if idle >= IDLE_TURNS => std::thread::yield_now(),
                false => {}
            }
        }
        self.end(burst)
    }

    fn refresh(&mut self) {
        self.has_heard = self.told.load(Ordering::Acquire);
        self.program.follow();
        if let Some(carried) = &mut self.program.carried {
            // What was in its tables may be used again.
            carried.run(0, &mut Burst::new(), &mut self.stock);
        }
        if let Some(host) = &mut self.host {
            host.refresh(&mut self.stock);
        }
        for side in &mut self.sides {
            if side.refresh(&mut self.stock) {
                self.gave.fill(true);
            }
        }
        self.wake();
    }

    fn show(&mut self) {
        self.sides.iter_mut().for_each(Side::show);
        self.seats.iter().for_each(Seat::show);
        self.host.iter().for_each(|host| host.show());
        self.shown.frames.store(self.frames, Ordering::Relaxed);
        let ran = clock_gettime(ClockId::ThreadCPUTime);
        let ran_ns = ran.tv_sec as u64 * 1_000_000_000 + ran.tv_nsec as u64;
        self.shown.cpu_ns.store(ran_ns, Ordering::Relaxed);
        self.shown.busy_ns.store(self.busy_ns, Ordering::Relaxed);
    }

    /// Wakes the cores that were given something.
    #[inline]
    fn wake(&mut self) {
        if self.receive == Receive::BusyPoll {
            return;
        }
        for (gave, bell) in self.gave.iter_mut().zip(&self.bells[..]) {
            if std::mem::take(gave) {
                bell.ring();
            }
        }
    }

    /// Sleeps until a lane has a frame, another core gives one, or the control side wants
    /// something.
    #[cold]
    fn sleep(&mut self) {
        if self.sides.iter().any(|side| !side.moving.is_calm()) {
            // Others are at work on what it waits for.
            return std::thread::yield_now();
        }
        self.sides.iter_mut().for_each(|side| side.worker.offline());
        self.program.carried.iter_mut().for_each(|carried| carried.rest());
        self.host.iter_mut().for_each(|host| host.offline());
        let has_work = || {
            self.told.load(Ordering::Acquire) != self.has_heard
                || self.progress.is_awaited()
                || self.crossings.iter().any(|crossing| !crossing.is_empty())
                || self.host.as_ref().is_some_and(|host| host.is_given())
                || self.service.as_ref().is_some_and(Serving::has_work)
        };
        let has_guests = self.seats.iter().any(Seat::is_taken);
        self.bells[self.place].rest(has_work, |event| wait(&self.sides, has_guests, event));
        self.sides.iter_mut().for_each(|side| side.worker.online());
        self.program.carried.iter_mut().for_each(|carried| carried.wake());
        self.host.iter_mut().for_each(|host| host.online());
    }

    /// Frames of every lane, then of the other cores, then out; whether there was any.
    fn turn(&mut self, burst: &mut Burst) -> bool {
        let mut is_busy = false;
        for tap in self.sides.iter_mut().filter_map(|side| side.tap.as_mut()) {
            tap.now_ns = self.now_ns;
        }
        // Frames of an application that has too many are to be dropped for it, not missed for all.
        for _ in 0..if self.host.is_some() { INTAKE_BURSTS } else { 1 } {
            let mut any = false;
            for port in 0..self.sides.len() {
                any |= self.receive(port, burst);
            }
            is_busy |= any;
            if !any {
                break;
            }
        }
        is_busy |= self.host();
        self.pass_on(burst) | is_busy
    }

    /// What other cores gave, then out, and what was held; whether there was any.
    fn pass_on(&mut self, burst: &mut Burst) -> bool {
        self.program.carried.iter().for_each(|carried| carried.end_turn());
        let mut is_busy = self.take_over(burst);
        is_busy |= self.serve();
        for seat in &mut self.seats {
            is_busy |= seat.serve(burst, &mut self.stock);
            for desc in burst.drain(..) {
                self.sides[seat.port].leave(desc, &mut self.stock);
            }
        }
        for side in &mut self.sides {
            is_busy |= side.send(burst, &mut self.stock);
        }
        if self.progress.is_awaited() {
            self.complete();
        }
        for port in 0..self.sides.len() {
            if !self.sides[port].moving.is_calm() {
                is_busy |= self.give_held(port);
            }
        }
        self.wake();
        is_busy
    }

    /// Lets the service have its turn; whether it had anything to do.
    #[inline]
    fn serve(&mut self) -> bool {
        let Engine { service, sides, stock, .. } = self;
        service.as_mut().is_some_and(|serving| serving.turn(&mut sides[0], stock))
    }

    /// Says what was completed of what this core was given.
    fn complete(&mut self) {
        let sides = &self.sides;
        self.completed.tell(&self.progress, |port| sides[way_out(port, sides.len())].leaving.own());
    }

    /// Gives on the frames of flows that move, once what came before them is completed; whether
    /// there was any.
    #[cold]
    fn give_held(&mut self, port: usize) -> bool {
        self.sides[port].moving.look();
        let mut is_busy = false;
        while self.sides[port].moving.gives() {
            let Some(desc) = self.sides[port].moving.next() else {
                self.sides[port].show_followed();
                break;
            };
            let is_own = self.core_of(&desc) == self.place;
            let waits = match is_own && self.sides[way_out(port, self.sides.len())].is_full() {
                true => Some(desc),
                false => self.give_one(port, desc),
            };
            if let Some(desc) = waits {
                self.sides[port].moving.put_back(desc);
                break;
            }
            is_busy = true;
        }
        is_busy
    }

    /// Takes a burst of a port, has its rules decide, and hands each frame on.
    fn receive(&mut self, port: usize, burst: &mut Burst) -> bool {
        let side = &mut self.sides[port];
        if side.lane.is_none() {
            let Ok(lane) = side.lanes.pop() else { return false };
            side.lane = Some(lane);
        }
        let Some(lane) = &mut side.lane else { return false };
        let result = lane.receive(&mut self.stock, burst);
        side.met(result, &mut self.stock);
        if burst.is_empty() {
            return false;
        }
        side.worker.set_time_ns(self.now_ns);
        if let Some(tap) = &mut side.tap {
            burst.iter().for_each(|desc| tap.take(self.stock.region().frame(desc)));
        }
        if let Some(host) = &mut self.host {
            host.take(port, burst, &mut self.stock);
        }
        if self.program.carried.is_some() {
            self.carry(port, burst);
            return true;
        }
        let side = &mut self.sides[port];
        let decided = side.worker.classify(self.stock.region(), burst);
        if side.follow() {
            self.gave.fill(true);
        }
        let spread = side.worker.spread_by_port();
        let moves = if side.moving.is_calm() { 0 } else { spread };
        for (i, desc) in burst.drain(..).enumerate() {
            if decided & 1 << i != 0 {
                match desc.port() {
                    Some(to) => self.sides[usize::from(to)].leave(desc, &mut self.stock),
                    None => {
                        self.sides[port].seen.rule_drops += 1;
                        self.stock.give(desc);
                    }
                }
                continue;
            }
            if spread & 1 << i != 0 {
                self.sides[port].seen.entries[desc.hash as usize % INDIRECTION_LEN] += 1;
            }
            match moves & 1 << i != 0 && self.sides[port].moving.holds(&desc) {
                true => self.hold(port, desc),
                false => {
                    let core = self.core_of(&desc);
                    self.bound[core].push(desc);
                }
            }
        }
        self.give(port);
        true
    }

    /// Has the program decide about a burst of a port.
    fn carry(&mut self, port: usize, burst: &mut Burst) {
        let Some(mut carried) = self.program.carried.take() else { return };
        self.decide_on(&mut carried, port, burst);
        let filled = carried.worker.take_filled();
        if filled != 0 && self.service.is_some() {
            // Of the card's own program the ring of a number is read by the core of this number.
            let cores = self.gave.len();
            (0..64).filter(|ring| filled >> ring & 1 == 1).for_each(|ring| {
                self.gave[ring % cores] |= ring % cores != self.place;
            });
        }
        self.give(port);
        let [drops, unfit, outside, ring_full, no_way, told] = carried.lost.take();
        let seen = &mut self.sides[port].seen;
        seen.program_drops += drops + no_way;
        seen.program_told += told;
        seen.program_faults += unfit + outside;
        seen.program_ring_full += ring_full;
        self.program.carried = Some(carried);
    }

    /// Has a program decide about a burst of a port, and sends each frame on, but for those that go
    /// to queues: they are put by for the cores that have them.
    fn decide_on(&mut self, carried: &mut Carried, port: usize, burst: &mut Burst) {
        carried.worker.set_time_ns(self.now_ns);
        carried.run(port, burst, &mut self.stock);
        for (to, missed) in carried.missed.iter_mut().enumerate() {
            self.sides[to].seen.tx_dropped += std::mem::take(missed);
        }
        for (to, desc) in carried.copies.drain(..) {
            self.sides[to].leave(desc, &mut self.stock);
        }
        for (i, mut desc) in burst.drain(..).enumerate() {
            match carried.fate(i) {
                Fate::Port(to) if carried.owned.has_port(to) => {
                    self.sides[to as usize].leave(desc, &mut self.stock);
                }
                Fate::Queue(queue) if carried.owned.has_queue(queue) => {
                    desc.queue = queue as u16;
                    let core = usize::from(desc.queue) % self.bound.len();
                    self.bound[core].push(desc);
                }
                Fate::Back => self.sides[port].leave(desc, &mut self.stock),
                fate => {
                    carried.lost.add(fate);
                    self.stock.give(desc);
                }
            }
        }
    }

    /// Does work that sends an application's frames; how many found no room.
    fn on_behalf(&mut self, whose: usize, work: impl FnOnce(&mut Engine)) -> u64 {
        let dropped = |sides: &[Side]| sides.iter().map(|side| side.seen.tx_dropped).sum::<u64>();
        let before = dropped(&self.sides);
        self.sides.iter_mut().for_each(|side| side.whose = whose);
        work(self);
        self.sides.iter_mut().for_each(|side| side.whose = OWN);
        dropped(&self.sides) - before
    }

    /// Gives frames that an application steered, which were put by, to the cores of their queues;
    /// how many found no room.
    fn give_steered(&mut self, steered: &mut Steered, port: usize) -> u64 {
        let mut missed = 0;
        for (core, bound) in self.bound.iter_mut().enumerate() {
            let queues = &mut self.sides[port].seen.queues;
            bound.iter().for_each(|desc| queues[usize::from(desc.queue)].add(desc));
            if core == self.place {
                self.frames += bound.len() as u64;
                work(self.work, bound.len());
                let (sides, seats) = (&mut self.sides, &mut self.seats);
                work_on(sides, seats, &mut self.stock, &mut self.service, port, bound);
            } else if !bound.is_empty() {
                self.gave[core] |= steered.give(core, port, bound) > 0;
                missed += bound.len() as u64;
                for desc in bound.drain(..) {
                    queues[usize::from(desc.queue)].miss(&desc);
                    self.stock.give(desc);
                }
            }
        }
        missed
    }

    /// Lets applications work on what waits for them; whether anything did.
    fn host(&mut self) -> bool {
        let Some(mut host) = self.host.take() else { return false };
        let worked = host.turns(self);
        self.host = Some(host);
        worked
    }

    /// Keeps a frame until those of its flow that came before are completed.
    #[cold]
    fn hold(&mut self, port: usize, desc: Desc) {
        let side = &mut self.sides[port];
        if let Some(desc) = side.moving.hold(desc) {
            side.seen.held_drops += 1;
            self.stock.give(desc);
        }
    }

    /// The core that has the queue of a frame.
    #[inline]
    fn core_of(&self, desc: &Desc) -> usize {
        usize::from(desc.queue) % self.bound.len()
    }

    /// Gives the frames of a burst to the cores of their queues, as far as there is room.
    fn give(&mut self, port: usize) {
        for (core, bound) in self.bound.iter_mut().enumerate() {
            let Side { moving, seen, .. } = &mut self.sides[port];
            bound.iter().for_each(|desc| seen.queues[usize::from(desc.queue)].add(desc));
            if core == self.place {
                moving.give(core, bound.len());
                self.completed.take(core, port, bound.len());
                self.frames += bound.len() as u64;
                work(self.work, bound.len());
                let (sides, seats) = (&mut self.sides, &mut self.seats);
                work_on(sides, seats, &mut self.stock, &mut self.service, port, bound);
                continue;
            }
            let given = self.crossings[port].give(core, bound);
            self.gave[core] |= given > 0;
            moving.give(core, given);
            for desc in bound.drain(..) {
                seen.queues[usize::from(desc.queue)].miss(&desc);
                self.stock.give(desc);
            }
        }
    }

    /// Gives a frame that was held to the core of its queue; back where there is no room.
    fn give_one(&mut self, port: usize, desc: Desc) -> Option<Desc> {
        let (core, queue) = (self.core_of(&desc), usize::from(desc.queue));
        let mut seen = self.sides[port].seen.queues[queue];
        seen.add(&desc);
        if core == self.place {
            self.completed.take(core, port, 1);
            self.frames += 1;
            work(self.work, 1);
            let (sides, seats) = (&mut self.sides, &mut self.seats);
            let mut one = Burst::from_iter([desc]);
            work_on(sides, seats, &mut self.stock, &mut self.service, port, &mut one);
        } else if let Some(desc) = self.crossings[port].give_one(core, desc) {
            return Some(desc);
        }
        self.gave[core] |= core != self.place;
        let side = &mut self.sides[port];
        side.moving.give(core, 1);
        side.seen.queues[queue] = seen;
        None
    }

    /// Takes what other cores have handed over; whether there was any.
    fn take_over(&mut self, burst: &mut Burst) -> bool {
        let mut is_busy = false;
        for (port, crossing) in self.crossings.iter_mut().enumerate() {
            for core in 0..self.bound.len() {
                is_busy |= crossing.take(core, self.stock.region(), burst);
                self.completed.take(core, port, burst.len());
                self.frames += burst.len() as u64;
                work(self.work, burst.len());
                let (sides, seats) = (&mut self.sides, &mut self.seats);
                work_on(sides, seats, &mut self.stock, &mut self.service, port, burst);
            }
        }
        is_busy
    }

    /// Whether no other core gives anything any more.
    fn are_last(&self) -> bool {
        self.crossings.iter().all(Crossing::is_last)
            && self.host.as_ref().is_none_or(|host| host.is_last())
    }

    /// Lets what is under way leave, and gives back every frame.
    fn end(mut self, mut burst: Burst) -> Stock {
        for _ in 0..LAST_TURNS {
            if !self.host() {
                break;
            }
            self.pass_on(&mut burst);
        }
        if let Some(host) = &mut self.host {
            host.end(&mut self.stock);
            host.close();
        }
        for _ in 0..LAST_TURNS {
            if self.sides.iter().all(|side| side.moving.is_calm()) {
                break;
            }
            self.pass_on(&mut burst);
            std::thread::yield_now();
        }
        for side in &mut self.sides {
            for desc in side.moving.end() {
                side.seen.held_drops += 1;
                self.stock.give(desc);
            }
        }
        // Nothing is handed over from here on; the others learn it by this.
        self.crossings.iter_mut().for_each(Crossing::close);
        for _ in 0..LAST_TURNS {
            let are_last = self.are_last();
            let is_busy = self.host() | self.pass_on(&mut burst);
            let waits = self.sides.iter().any(|side| !side.leaving.is_empty());
            if are_last && !is_busy && !waits {
                break;
            }
            std::thread::yield_now();
        }
        // A core that still works has not ended its turn: wait for it, however long that takes.
        while !self.are_last() {
            self.host();
            self.pass_on(&mut burst);
            std::thread::yield_now();
        }
        while self.host() | self.take_over(&mut burst) | self.serve() {}
        // What the last turns answered leaves where the port takes it.
        for _ in 0..LAST_TURNS {
            if self.sides.iter().all(|side| side.leaving.is_empty()) {
                break;
            }
            for side in &mut self.sides {
                side.send(&mut burst, &mut self.stock);
            }
            std::thread::yield_now();
        }
        self.sides.iter_mut().for_each(|side| side.drop_leaving(&mut self.stock));
        for side in &mut self.sides {
            let lanes: Vec<Box<dyn Lane>> =
                std::iter::from_fn(|| side.lanes.pop().ok()).chain(side.lane.take()).collect();
            for lane in lanes {
                if let Err(error) = side.close(lane, &mut self.stock) {
                    side.note(&error);
                }
            }
        }
        self.program.carried.iter_mut().for_each(|carried| carried.rest());
        self.show();
        self.seats.into_iter().for_each(|seat| seat.end(&mut self.stock));
        self.stock
    }
}

impl Works for Engine {
    fn decide(
        &mut self,
        whose: usize,
        carried: &mut Carried,
        steered: &mut Steered,
        port: usize,
        burst: &mut Burst,
    ) -> NoRoom {
        let mut lost = NoRoom::default();
        lost.port = self.on_behalf(whose, |engine| {
            engine.decide_on(carried, port, burst);
            lost.queue = engine.give_steered(steered, port);
        });
        lost
    }

    fn serve(&mut self, whose: usize, port: usize, burst: &mut Burst) -> NoRoom {
        let port = self.on_behalf(whose, |engine| {
            engine.frames += burst.len() as u64;
            work(engine.work, burst.len());
            let (sides, seats) = (&mut engine.sides, &mut engine.seats);
            work_on(sides, seats, &mut engine.stock, &mut engine.service, port, burst);
        });
        NoRoom { queue: 0, port }
    }
}
