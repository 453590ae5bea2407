//! Applications on a card: each has a program of its own, for flows of its own.
//!
//! # What keeps them apart
//! - **Frames.** A classifier of rules says whose a frame is, before any program sees it; of
//!   several applications whose flows a frame is in, the first has it. What is nobody's goes on as
//!   on a card without applications.
//! - **Ways out.** A program sends by the ports and to the queues that its application owns, and
//!   back where a frame came from. Elsewhere it is refused where that is known when it is loaded,
//!   and dropped and counted where it is not.
//! - **Memory.** Windows and rings are of one program; the frames that are not its own are not in
//!   the bursts that it is given.
//! - **Time.** What waits for an application waits in a queue of its own on each core. A core takes
//!   turns: each application may work for a time in proportion to its share, and what it takes
//!   beyond, at most one burst, is taken off its next turn. What the function does with frames that
//!   it steered to a queue, on whichever core, is its work, too. Time in which the system ran
//!   something else on the core is nobody's. One that asks for more than its share has its queue
//!   full, and loses frames of its own.
//! - **Room.** What it sends waits for a port apart from what others send (`leaving`), and what it
//!   steers goes to other cores by rings of its own (`steered`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use niclab_nic::limits::BURST;
use niclab_nic::memory::Desc;
use niclab_nic::rule::session::Session;
use niclab_nic::rule::text::ReadError;
use niclab_nic::{Nic, NicConfig, Worker};
use niclab_port::stock::Stock;
use niclab_port::wire::Burst;
use niclab_program::{Fate, Lost, Operand, Pipeline, Program, Step};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::card::CardError;
use crate::leaving::OWN;
use crate::programmed::{AtCore, Carried, ToCore, way};
use crate::steered::{self, Steered};

/// Frames that wait for an application on a core, at most.
pub(crate) const WAITING_MAX: usize = 512;

/// Time in which each application has a turn, all of them asking for more, nanoseconds for each of
/// them: some bursts of a fast program, some packets of a slow one.
const TURN_NS: i64 = 10_000;

/// The largest share.
const SHARE_MAX: u32 = 100;

/// What an instruction takes at most, nanoseconds, as long as it touches what is near: a burst is
/// so short that its worst packets take some turns and no more.
const STEP_NS: u64 = 5;

/// Applications of a card, at most: a frame says whose it is by a number of a queue.
const APPLICATIONS_MAX: usize = 64;

/// An application that a card is to run.
#[derive(Debug)]
pub struct Application {
    /// Its name.
    pub name: String,
    /// Its program, with its tables.
    pub pipeline: Pipeline,
    /// Ports that its frames come by and that it may send by.
    pub ports: Vec<u16>,
    /// Queues that it may steer to.
    pub queues: Vec<u16>,
    /// Its flows: patterns as of rules, such as `eth / ipv4 / udp dst is 11211 / end`.
    pub flows: Vec<String>,
    /// Its share of the cores' time beside those of others, 1 to 100.
    pub share: u32,
    /// Memory that its program may take.
    pub grant: Grant,
}

/// Memory that an application's program may take, bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// For each window.
    pub windows: BTreeMap<String, u64>,
    /// For the rings of each name.
    pub rings: BTreeMap<String, u64>,
    /// For registers, meters, counters, learners and digests, on all cores together.
    pub memory: u64,
}

impl Default for Grant {
    /// No windows and rings, and arrays of some size.
    fn default() -> Grant {
        Grant { windows: BTreeMap::new(), rings: BTreeMap::new(), memory: 64 << 20 }
    }
}

/// Why an application cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ApplicationError {
    /// Too many.
    #[error("{count} applications: a card has {APPLICATIONS_MAX} at most")]
    TooMany {
        /// How many were asked for.
        count: usize,
    },
    /// Two of one name.
    #[error("there is another application {name}")]
    Twice {
        /// The name.
        name: String,
    },
    /// It owns a port or a queue that is not there.
    #[error("application {name}: the card has no {what} {number}")]
    Missing {
        /// The application.
        name: String,
        /// `port` or `queue`.
        what: &'static str,
        /// Its number.
        number: u16,
    },
    /// It has no flow or no port: no frame would ever be its own.
    #[error(
        "application {name}: give at least one flow, one port, and a share of 1 to {SHARE_MAX}"
    )]
    Nothing {
        /// The application.
        name: String,
    },
    /// A pattern that cannot be read, or that another application has.
    #[error("application {name}: flow `{flow}`: {reason}")]
    Flow {
        /// The application.
        name: String,
        /// The pattern.
        flow: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Its program sends where it may not.
    #[error("application {name}: the program names {what} {number}, which the application has not")]
    Outside {
        /// The application.
        name: String,
        /// `port` or `queue`.
        what: &'static str,
        /// Its number.
        number: u64,
    },
    /// Its program asks for memory that it has not.
    #[error(
        "application {name}: {what} {memory}: its program takes {bytes} bytes, and it has {most}"
    )]
    Memory {
        /// The application.
        name: String,
        /// `window`, `ring`, or `memory`.
        what: &'static str,
        /// Which.
        memory: String,
        /// What the program takes.
        bytes: u64,
        /// What it may take.
        most: u64,
    },
    /// The last program has not come to all cores.
    #[error("application {name}: a core has not taken the last program yet: ask again")]
    UnderWay {
        /// The application.
        name: String,
    },
    /// There is none of this name.
    #[error("no application {name}; there are: {there}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names.
        there: String,
    },
}

/// What an application has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationCounters {
    /// Its name.
    pub name: String,
    /// Frames of its flows that its program has had.
    pub frames: u64,
    /// Frames of its flows that came while too many waited: it has used its share.
    pub missed: u64,
    /// Frames that its program dropped.
    pub drops: u64,
    /// Frames that could not go through its program: they end before a header that is taken off
    /// them, came round too often, have no room for headers, or were to be written where somebody
    /// else writes without end.
    pub faults: u64,
    /// Frames, and copies, that were to go by a port or to a queue that it has not, or for which
    /// its program would have reached outside of its memory.
    pub outside: u64,
    /// Frames that found a ring of the application full.
    pub ring_full: u64,
    /// Frames that it steered to a queue of another core, where too many of its own waited.
    #[serde(default)]
    pub queue_missed: u64,
    /// Frames, copies and answers that were to leave by a port, where too many of its own waited,
    /// or which was gone.
    #[serde(default)]
    pub tx_dropped: u64,
    /// Time that cores have worked for it, nanoseconds.
    pub busy_ns: u64,
}

/// The numbers of [`ApplicationCounters`], in their order.
type Numbers = [u64; 9];

const FRAMES: usize = 0;
const MISSED: usize = 1;
const DROPS: usize = 2;
const FAULTS: usize = 3;
const OUTSIDE: usize = 4;
const RING_FULL: usize = 5;
const QUEUE_MISSED: usize = 6;
const TX_DROPPED: usize = 7;
const BUSY_NS: usize = 8;

/// Where a core shows them.
#[derive(Debug, Default)]
struct Shown([AtomicU64; 9]);

/// What an application may send by.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    ports: Vec<bool>,
    queues: Vec<bool>,
}

impl Owned {
    /// All ports and queues of a card.
    pub(crate) fn all(ports: usize, queues: u16) -> Owned {
        Owned { ports: vec![true; ports], queues: vec![true; queues.into()] }
    }

    /// How many ports the card has.
    pub(crate) fn ports(&self) -> usize {
        self.ports.len()
    }

    #[inline]
    pub(crate) fn has_port(&self, port: u64) -> bool {
        usize::try_from(port).ok().and_then(|port| self.ports.get(port)) == Some(&true)
    }

    #[inline]
    pub(crate) fn has_queue(&self, queue: u64) -> bool {
        usize::try_from(queue).ok().and_then(|queue| self.queues.get(queue)) == Some(&true)
    }
}

impl Grant {
    /// That a program takes no more memory than this on so many cores.
    ///
    /// # Errors
    /// [`ApplicationError::Memory`], of the application of this name.
    pub fn allows(
        &self,
        name: &str,
        program: &Program,
        cores: usize,
    ) -> Result<(), ApplicationError> {
        let of = |what: &'static str, of: &str, bytes: usize, most: Option<&u64>| {
            (what, of.to_owned(), bytes as u64, most.copied().unwrap_or(0))
        };
        let windows = program.windows.iter();
        let windows = windows.map(|at| of("window", &at.name, at.len, self.windows.get(&at.name)));
        let rings = program.rings.iter().map(|at| {
            let bytes = at.shape.bytes().saturating_mul(at.count);
            of("ring", &at.name, bytes, self.rings.get(&at.name))
        });
        let arrays = format!("of arrays, learners and digests (cores: {cores})");
        let arrays = of("memory", &arrays, program.room().of(cores), Some(&self.memory));
        let mut takes = windows.chain(rings).chain([arrays]);
        match takes.find(|(_, _, bytes, most)| bytes > most) {
            None => Ok(()),
            Some((what, memory, bytes, most)) => {
                Err(ApplicationError::Memory { name: name.to_owned(), what, memory, bytes, most })
            }
        }
    }
}

/// An application as the control side has it.
struct Hosted {
    name: String,
    pipeline: Pipeline,
    owned: Owned,
    grant: Grant,
    /// Cores that its program runs on.
    cores: usize,
    to_cores: Vec<ToCore>,
    shown: Vec<Arc<Shown>>,
}

/// All applications of a card, and whose flows are whose.
pub(crate) struct Applications {
    all: Vec<Hosted>,
    /// By port: what says whose a frame is.
    dispatch: Vec<Nic>,
    shares: Vec<u32>,
}

impl Applications {
    /// Makes what a card of so many ports, queues and cores needs for these.
    ///
    /// # Errors
    /// [`ApplicationError`] of the first that cannot be had.
    pub(crate) fn new(
        given: Vec<Application>,
        (ports, cores): (usize, usize),
        queues: u16,
    ) -> Result<Applications, CardError> {
        if given.len() > APPLICATIONS_MAX {
            return Err(ApplicationError::TooMany { count: given.len() }.into());
        }
        let config = NicConfig { queues: given.len() as u16, ports: 1, ..NicConfig::default() };
        let mut dispatch = match given.is_empty() {
            true => Vec::new(),
            false => (0..ports).map(|_| Nic::new(&config)).collect::<Result<Vec<Nic>, _>>()?,
        };
        let (mut all, mut shares): (Vec<Hosted>, Vec<u32>) = (Vec::new(), Vec::new());
        let mut claimed = Vec::new();
        for (number, of) in given.into_iter().enumerate() {
            if all.iter().any(|other| other.name == of.name) {
                return Err(ApplicationError::Twice { name: of.name }.into());
            }
            let owned = owned(&of, ports, queues)?;
            for port in &of.ports {
                claim(&mut dispatch[usize::from(*port)], &of, (number, *port), &mut claimed)?;
            }
            shares.push(of.share);
            let Application { name, pipeline, grant, .. } = of;
            let (to_cores, shown) = (Vec::new(), Vec::new());
            let hosted = Hosted { name, pipeline, owned, grant, cores, to_cores, shown };
            hosted.permits(hosted.pipeline.program())?;
            all.push(hosted);
        }
        Ok(Applications { all, dispatch, shares })
    }

    /// The frames that so many of them have waiting for a core, of so many, at most, without those
    /// that are to leave.
    pub(crate) fn frames(count: usize, cores: usize) -> usize {
        count * (WAITING_MAX + steered::frames_max(cores))
    }

    /// What one more core needs, with its ends of each one's rings; `None` where there are no
    /// applications.
    pub(crate) fn core(&mut self, steered: Vec<Steered>) -> Option<Box<Host>> {
        if self.all.is_empty() {
            return None;
        }
        let dispatch: Vec<Worker> = self.dispatch.iter_mut().map(|nic| nic.worker()).collect();
        let total: i64 = self.shares.iter().map(|share| i64::from(*share)).sum();
        let round_ns = TURN_NS * self.all.len() as i64;
        let rings = self.shares.iter().zip(steered);
        let places = self.all.iter_mut().zip(rings).enumerate().map(|(at, (of, rings))| {
            let ((share, steered), whose) = (rings, OWN + 1 + at);
            let (to_core, program) = way(Some(of.carried()));
            let shown = Arc::<Shown>::default();
            of.to_cores.push(to_core);
            of.shown.push(Arc::clone(&shown));
            let waiting = dispatch.iter().map(|_| VecDeque::with_capacity(WAITING_MAX)).collect();
            let turn_ns = round_ns * i64::from(*share) / total;
            Place {
                whose,
                program,
                steered,
                waiting,
                count: 0,
                next: 0,
                turn_ns,
                credit_ns: 0,
                each_ns: 1,
                seen: Numbers::default(),
                shown,
            }
        });
        let places = places.collect();
        Some(Box::new(Host { dispatch, places, clock: None }))
    }

    /// The program of an application.
    ///
    /// # Errors
    /// [`ApplicationError::Unknown`].
    pub(crate) fn pipeline(&mut self, name: &str) -> Result<&mut Pipeline, ApplicationError> {
        self.of(name).map(|of| &mut of.pipeline)
    }

    fn of(&mut self, name: &str) -> Result<&mut Hosted, ApplicationError> {
        match self.all.iter().position(|of| of.name == name) {
            Some(at) => Ok(&mut self.all[at]),
            None => {
                let names: Vec<&str> = self.all.iter().map(|of| of.name.as_str()).collect();
                let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                Err(ApplicationError::Unknown { name: name.to_owned(), there })
            }
        }
    }

    /// That a program may run for an application.
    ///
    /// # Errors
    /// [`ApplicationError`].
    pub(crate) fn permits(
        &mut self,
        name: &str,
        program: &Program,
    ) -> Result<(), ApplicationError> {
        self.of(name)?.permits(program)
    }

    /// Has another program run for an application.
    ///
    /// # Errors
    /// [`ApplicationError`]; the last one goes on then.
    pub(crate) fn replace(&mut self, name: &str, by: Pipeline) -> Result<(), ApplicationError> {
        let of = self.of(name)?;
        of.permits(by.program())?;
        if !of.to_cores.iter().all(ToCore::is_free) {
            return Err(ApplicationError::UnderWay { name: name.to_owned() });
        }
        of.pipeline = by;
        for place in 0..of.to_cores.len() {
            let carried = of.carried();
            of.to_cores[place].give(Some(carried));
        }
        Ok(())
    }

    /// Lets what packets no longer see be used again.
    pub(crate) fn settle(&mut self, steps: usize) {
        for of in &mut self.all {
            of.pipeline.settle(steps);
            of.to_cores.iter_mut().for_each(ToCore::tidy);
        }
    }

    /// What they have counted.
    pub(crate) fn counters(&self) -> Vec<ApplicationCounters> {
        let of = |of: &Hosted| {
            let sum =
                |at: usize| of.shown.iter().map(|shown| shown.0[at].load(Ordering::Relaxed)).sum();
            ApplicationCounters {
                name: of.name.clone(),
                frames: sum(FRAMES),
                missed: sum(MISSED),
                drops: sum(DROPS),
                faults: sum(FAULTS),
                outside: sum(OUTSIDE),
                ring_full: sum(RING_FULL),
                queue_missed: sum(QUEUE_MISSED),
                tx_dropped: sum(TX_DROPPED),
                busy_ns: sum(BUSY_NS),
            }
        };
        self.all.iter().map(of).collect()
    }
}

impl Hosted {
    /// That a program names no port or queue but the application's, and takes no more memory.
    fn permits(&self, program: &Program) -> Result<(), ApplicationError> {
        let codes = program.actions.iter().map(|action| &action.code).chain([&program.apply]);
        for step in codes.flat_map(|code| &code.steps) {
            let (what, number) = match step {
                Step::Tx(Operand::Value(port)) if !self.owned.has_port(*port) => ("port", *port),
                Step::Steer(Operand::Value(queue)) if !self.owned.has_queue(*queue) => {
                    ("queue", *queue)
                }
                _ => continue,
            };
            return Err(ApplicationError::Outside { name: self.name.clone(), what, number });
        }
        self.grant.allows(&self.name, program, self.cores)
    }

    fn carried(&self) -> Box<Carried> {
        let worst_steps = self.pipeline.program().worst_steps();
        Carried::new(self.pipeline.worker(), self.owned.clone(), worst_steps)
    }
}

/// What an application owns, of a card of so many ports and queues.
fn owned(of: &Application, ports: usize, queues: u16) -> Result<Owned, ApplicationError> {
    let name = || of.name.clone();
    if of.flows.is_empty() || of.ports.is_empty() || !(1..=SHARE_MAX).contains(&of.share) {
        return Err(ApplicationError::Nothing { name: name() });
    }
    let mut owned = Owned { ports: vec![false; ports], queues: vec![false; queues.into()] };
    for (what, numbers, has) in
        [("port", &of.ports, &mut owned.ports), ("queue", &of.queues, &mut owned.queues)]
    {
        for &number in numbers {
            let place = has.get_mut(usize::from(number));
            *place.ok_or(ApplicationError::Missing { name: name(), what, number })? = true;
        }
    }
    Ok(owned)
}

/// Gives an application its flows at a port.
fn claim(
    nic: &mut Nic,
    of: &Application,
    (number, port): (usize, u16),
    claimed: &mut Vec<(usize, u16, String)>,
) -> Result<(), ApplicationError> {
    let mut session = Session::new(0);
    for flow in &of.flows {
        let refused = |reason: String| {
            let (name, flow) = (of.name.clone(), flow.clone());
            ApplicationError::Flow { name, flow, reason }
        };
        if flow.contains(['\n', '\r']) || flow.contains(" actions ") {
            return Err(refused("give a pattern alone".to_owned()));
        }
        let pattern = flow.trim().trim_end_matches("end").trim_end().trim_end_matches('/').trim();
        let words = pattern.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_it = |(owner, at, other): &(usize, u16, String)| {
            *owner != number && *at == port && *other == words
        };
        if claimed.iter().any(is_it) {
            return Err(refused("another application has it".to_owned()));
        }
        claimed.push((number, port, words));
        let rule = format!(
            "flow create 0 priority {number} ingress pattern {pattern} / end \
             actions queue index {number} / end\n"
        );
        // Of the rule that was made of it, what is wrong is told, and not its words.
        session.apply(nic, rule.as_bytes()).map_err(|error| match error {
            ReadError::Text(error) => refused(error.problem().to_string()),
            error => refused(error.to_string()),
        })?;
    }
    Ok(())
}

/// An application on a core.
struct Place {
    /// Its frames among those that are to leave.
    whose: usize,
    program: AtCore,
    /// Its rings from and to the other cores.
    steered: Steered,
    /// By port: its frames that wait.
    waiting: Vec<VecDeque<Desc>>,
    count: usize,
    /// The port whose frames come next.
    next: usize,
    /// Time that it may work in a turn.
    turn_ns: i64,
    /// Time that it may still work, or has worked too long.
    credit_ns: i64,
    /// What a frame takes it, as far as was seen.
    each_ns: u64,
    seen: Numbers,
    shown: Arc<Shown>,
}

/// Time that a core has had of the system, beside time that has passed.
struct Clock {
    passed: Instant,
    had_ns: u64,
}

/// A burst that takes longer may have been interrupted; and how old what was read of the clock may
/// be when one begins, for asking the system takes some 200 ns.
const SUSPECT_NS: u64 = 50_000;

impl Clock {
    fn now() -> Clock {
        let had = clock_gettime(ClockId::ThreadCPUTime);
        let had_ns = had.tv_sec as u64 * 1_000_000_000 + had.tv_nsec as u64;
        Clock { passed: Instant::now(), had_ns }
    }

    /// Work begins: when that is.
    fn begin(&mut self) -> Instant {
        let begun = Instant::now();
        match begun.duration_since(self.passed).as_nanos() as u64 > SUSPECT_NS {
            false => begun,
            true => {
                *self = Clock::now();
                self.passed
            }
        }
    }

    /// What of the time since work began was the core's own. Of the time just before it, what the
    /// system took is forgiven as well: no more than what was read may be old.
    fn own(&mut self, begun: Instant) -> u64 {
        let took_ns = begun.elapsed().as_nanos() as u64;
        if took_ns < SUSPECT_NS {
            return took_ns;
        }
        let now = Clock::now();
        let passed_ns = now.passed.duration_since(self.passed).as_nanos() as u64;
        let lost_ns = passed_ns.saturating_sub(now.had_ns - self.had_ns);
        *self = now;
        took_ns.saturating_sub(lost_ns)
    }
}

/// All applications on a core.
pub(crate) struct Host {
    /// By port.
    dispatch: Vec<Worker>,
    places: Vec<Place>,
    /// `None` until the core runs.
    clock: Option<Clock>,
}

impl Host {
    /// Takes the frames of applications out of a burst of a port; what finds no room is dropped.
    pub(crate) fn take(&mut self, port: usize, burst: &mut Burst, stock: &mut Stock) {
        let worker = &mut self.dispatch[port];
        worker.classify(stock.region(), burst);
        let (mut i, spread) = (0, worker.spread_by_port());
        let mut rest = Burst::new();
        for desc in burst.drain(..) {
            let is_nobodys = spread >> i & 1 == 1;
            i += 1;
            match self.places.get_mut(usize::from(desc.queue)).filter(|_| !is_nobodys) {
                None => rest.push(desc),
                Some(place) if place.count == WAITING_MAX => {
                    place.seen[MISSED] += 1;
                    stock.give(desc);
                }
                Some(place) => {
                    place.waiting[port].push_back(desc);
                    place.count += 1;
                }
            }
        }
        *burst = rest;
    }

    /// The turn of each. Whether any had something to do.
    pub(crate) fn turns(&mut self, works: &mut impl Works) -> bool {
        let has_work = self.places.iter().any(|place| !place.is_idle());
        if has_work {
            let clock = self.clock.get_or_insert_with(Clock::now);
            self.places.iter_mut().for_each(|place| place.turn(clock, works));
        }
        has_work
    }

    /// Whether there are frames that other cores gave.
    pub(crate) fn is_given(&self) -> bool {
        self.places.iter().any(|place| !place.steered.is_empty())
    }

    /// Gives other cores nothing any more.
    pub(crate) fn close(&mut self) {
        self.places.iter_mut().for_each(|place| place.steered.close());
    }

    /// Whether no other core gives anything any more.
    pub(crate) fn is_last(&self) -> bool {
        self.places.iter().all(|place| place.steered.is_last())
    }

    /// Takes new programs, and lets what was in tables before be used again.
    pub(crate) fn refresh(&mut self, stock: &mut Stock) {
        self.dispatch.iter_mut().for_each(|of| _ = of.classify(stock.region(), &mut []));
        for place in &mut self.places {
            place.program.follow();
            if let Some(carried) = &mut place.program.carried {
                carried.run(0, &mut Burst::new(), stock);
            }
        }
    }

    /// Nobody looks at what was there before, until [`Host::online`].
    pub(crate) fn offline(&mut self) {
        self.dispatch.iter_mut().for_each(Worker::offline);
        let carried = self.places.iter_mut().filter_map(|place| place.program.carried.as_mut());
        carried.for_each(|carried| carried.worker.offline());
    }

    pub(crate) fn online(&mut self) {
        self.dispatch.iter_mut().for_each(Worker::online);
        let carried = self.places.iter_mut().filter_map(|place| place.program.carried.as_mut());
        carried.for_each(|carried| carried.worker.online());
    }

    pub(crate) fn show(&self) {
        for place in &self.places {
            for (slot, value) in place.shown.0.iter().zip(place.seen) {
                slot.store(value, Ordering::Relaxed);
            }
        }
    }

    /// Gives back what waits for programs.
    pub(crate) fn end(&mut self, stock: &mut Stock) {
        for place in &mut self.places {
            place.seen[MISSED] += place.count as u64;
            place.waiting.iter_mut().flat_map(|of| of.drain(..)).for_each(|desc| stock.give(desc));
            place.count = 0;
        }
        self.show();
    }
}

/// What a core does for an application.
pub(crate) trait Works {
    /// Has the program decide about a burst of a port, and hands each frame on: some to other cores
    /// by `steered`. What was lost on the way.
    fn decide(
        &mut self,
        whose: usize,
        carried: &mut Carried,
        steered: &mut Steered,
        port: usize,
        burst: &mut Burst,
    ) -> NoRoom;

    /// Has the function work on a burst that came by a port. What was lost on the way.
    fn serve(&mut self, whose: usize, port: usize, burst: &mut Burst) -> NoRoom;
}

/// Frames of an application for which there was no room: on the way to a queue, and out by a port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoRoom {
    pub(crate) queue: u64,
    pub(crate) port: u64,
}

impl Place {
    fn is_idle(&self) -> bool {
        self.count == 0 && self.steered.is_empty()
    }

    fn turn(&mut self, clock: &mut Clock, works: &mut impl Works) {
        if self.is_idle() {
            // What it did not use is not kept: else it could hold others up later.
            self.credit_ns = self.credit_ns.min(0);
            return;
        }
        self.credit_ns = (self.credit_ns + self.turn_ns).min(self.turn_ns);
        for _ in 0..self.steered.cores() {
            if self.credit_ns > 0 && !self.steered.is_empty() {
                let begun = clock.begin();
                let (mut lost, whose) = (NoRoom::default(), self.whose);
                let count = self.steered.take(|port, burst| {
                    let NoRoom { port, .. } = works.serve(whose, port, burst);
                    lost.port += port;
                });
                if count > 0 {
                    self.charge(clock.own(begun), lost);
                }
            }
        }
        while self.credit_ns > 0 && self.count > 0 {
            self.decide(clock, works);
        }
    }

    /// Has the program decide about a burst.
    fn decide(&mut self, clock: &mut Clock, works: &mut impl Works) {
        let mut burst = Burst::new();
        let ports = self.waiting.len();
        let has = |port: &usize| !self.waiting[*port].is_empty();
        let next = (self.next..self.next + ports).map(|port| port % ports).find(has);
        let Some(port) = next else { return };
        self.next = port + 1;
        let usual = self.turn_ns as u64 / self.each_ns;
        let worst = self.program.carried.as_ref().map_or(1, |of| of.worst_steps);
        let most = usual.min(4 * TURN_NS as u64 / (worst * STEP_NS).max(1));
        let most = most.clamp(1, BURST as u64) as usize;
        let count = self.waiting[port].len().min(most);
        burst.extend(self.waiting[port].drain(..count));
        self.count -= count;
        let begun = clock.begin();
        let lost = match &mut self.program.carried {
            None => NoRoom::default(),
            Some(of) => works.decide(self.whose, of, &mut self.steered, port, &mut burst),
        };
        let took_ns = clock.own(begun);
        self.charge(took_ns, lost);
        self.seen[FRAMES] += count as u64;
        self.each_ns = ((7 * self.each_ns + took_ns / count as u64) / 8).max(1);
        if let Some(carried) = &mut self.program.carried {
            let [drops, faults, outside, ring_full, no_way] = carried.lost.take();
            self.seen[DROPS] += drops;
            self.seen[FAULTS] += faults;
            self.seen[OUTSIDE] += outside + no_way;
            self.seen[RING_FULL] += ring_full;
        }
    }

    /// Takes time that was worked for it off what it may work.
    fn charge(&mut self, took_ns: u64, lost: NoRoom) {
        self.credit_ns -= took_ns as i64;
        self.seen[BUSY_NS] += took_ns;
        self.seen[QUEUE_MISSED] += lost.queue;
        self.seen[TX_DROPPED] += lost.port;
    }
}

/// Frames that a program did not let through: as it says, unfit for it, that would have reached
/// outside of its memory, that found a ring full, and for which there is no way out.
#[derive(Debug, Default)]
pub(crate) struct Losses([u64; 5]);

impl Losses {
    /// One more that goes nowhere.
    #[inline]
    pub(crate) fn add(&mut self, fate: Fate) {
        let at = match fate {
            Fate::Dropped(Lost::Told | Lost::Empty) => 0,
            Fate::Dropped(Lost::Short | Lost::Rounds | Lost::NoRoom | Lost::Hindered) => 1,
            Fate::Dropped(Lost::Outside) => 2,
            Fate::Dropped(Lost::RingFull) => 3,
            Fate::Port(_) | Fate::Queue(_) | Fate::Back => 4,
        };
        self.0[at] += 1;
    }

    /// The numbers, which begin anew.
    pub(crate) fn take(&mut self) -> [u64; 5] {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_the_system_took_is_forgiven_once_and_not_what_it_took_before() {
        // It has the core while this sleeps.
        let pause = Duration::from_millis(20);
        let mut clock = Clock::now();
        std::thread::sleep(pause);
        let (begun, before_ns) = (clock.begin(), Clock::now().had_ns);
        while Clock::now().had_ns - before_ns < 4 * SUSPECT_NS {}
        let own_ns = clock.own(begun);
        assert!(own_ns >= 3 * SUSPECT_NS, "{own_ns} ns of work");
        let begun = clock.begin();
        std::thread::sleep(pause);
        let own_ns = clock.own(begun);
        assert!(own_ns < pause.as_nanos() as u64 / 2, "{own_ns} ns of a pause");
    }
}
