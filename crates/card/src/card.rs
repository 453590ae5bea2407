//! A card: made, changed, asked and ended by one thread, while its cores work.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use niclab_apps::kvs::time::Moment;
use niclab_nic::memory::Region;
use niclab_nic::rss::{Rss, RssChange};
use niclab_nic::rule::session::Record;
use niclab_nic::rule::text::ReadError;
use niclab_nic::toeplitz::Toeplitz;
use niclab_port::crossing::Crossing;
use niclab_port::error::PortError;
use niclab_port::stock::{self, Stock, stocks};
use niclab_port::wake::Bell;
use niclab_port::wire::Burst;
use niclab_program::{Pipeline, Program};
use rtrb::Producer;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::applications::{ApplicationError, Applications, LoadedApplication, Owned};
use crate::balance::{Balance, Decision};
use crate::capture::{self, Capture, Captured};
use crate::counters::{CoreCounters, CoreShown, Counters, PortCounters, QueueCounters, Shown};
use crate::engine::Engine;
use crate::error::{CardError, ChangeError};
use crate::guests::{Door, GuestAt, Seat};
use crate::items::Told;
use crate::leaving;
use crate::look::Look;
use crate::moving::{Completed, HELD_MAX, Progress};
use crate::name::{Opens, PortName};
use crate::ports::{Port, port, seats};
use crate::programmed::{Carried, IN_HAND, ToCore, way};
use crate::runs::{Decider, Runs};
use crate::serving::Serving;
use crate::side::Side;
use crate::steered::Steered;

/// Longest frame, bytes without FCS: an Ethernet frame of 1,500 B with two VLAN tags and more.
pub(crate) const FRAME_LEN_MAX: usize = 1_536;

/// Frames that the ring between two cores holds, for each port: what a port brings while a core is
/// kept from work for some milliseconds. Of many cores each has a part of a port's frames alone.
fn ring_of(cores: usize) -> usize {
    (8_192 / cores).clamp(1_024, 4_096)
}

/// Steps of a change that are settled at a time.
const SETTLE_STEPS: usize = 1 << 16;

/// What a card is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct CardConfig<P = PortName> {
    /// Its ports: one, or an even number.
    pub ports: Vec<P>,
    /// Queues of each port, 1 to 256; RSS spreads over them.
    pub queues: u16,
    /// The cores it runs on, by their numbers; each has a lane of each port.
    pub cores: Vec<u32>,
    /// What they do while no frame comes.
    pub receive: Receive,
    /// What is done about a queue that fills; nothing where there is nothing said.
    pub balance: Option<Balance>,
    /// Queues that other processes serve.
    pub guests: Vec<GuestAt>,
    /// Time that the function takes for each frame beside forwarding it, nanoseconds: to see what a
    /// card does that is busy.
    pub work_ns: u32,
}

impl<P> CardConfig<P> {
    /// A card that forwards, and whose cores look for frames all the time.
    pub fn new(ports: Vec<P>, queues: u16, cores: Vec<u32>) -> CardConfig<P> {
        let (receive, balance, guests) = (Receive::BusyPoll, None, Vec::new());
        CardConfig { ports, queues, cores, receive, balance, guests, work_ns: 0 }
    }
}

/// What was done about a queue that filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balanced {
    /// The port that spreads frames in another way now.
    pub port: u16,
    /// How many entries of its table name another queue; `None` where it has another key.
    pub moved_entries: Option<usize>,
}

/// How a core learns that a frame has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Receive {
    /// It looks all the time.
    #[default]
    BusyPoll,
    /// It sleeps until the system wakes it.
    Interrupt,
}

/// What is left of a card that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What it counted.
    pub counters: Counters,
    /// What it did for a store, where it writes items.
    pub told: Option<Told>,
    /// Frames of its memory.
    pub frames: usize,
    /// Of them, those that did not come back: none, unless a core ended by a fault.
    pub frames_lost: usize,
    /// What kept a file from being written whole, such as a disk that is full; which core ended by
    /// a fault.
    pub trouble: Vec<String>,
}

/// What one core is made of.
struct Parts {
    sides: Vec<Side>,
    stock: Stock,
    crossings: Vec<Crossing>,
    steered: Vec<Steered>,
    seats: Vec<Seat>,
    service: Option<Serving>,
    progress: Arc<Progress>,
}

/// A card at work.
pub struct Card {
    ports: Vec<Port>,
    threads: Vec<JoinHandle<Stock>>,
    /// Cores, and where each shows its counters.
    cores: Vec<(u32, Arc<CoreShown>)>,
    bells: Arc<[Bell]>,
    /// How often the cores were told something.
    told: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    region: Arc<Region>,
    queues: u16,
    begun: Instant,
    /// What decides about frames in place of rules and RSS, and the way to each core.
    program: Option<Decider>,
    to_cores: Vec<ToCore>,
    applications: Applications,
    /// What went wrong and is to be told at the end.
    trouble: Vec<String>,
}

impl Card {
    /// Opens the ports in the calling thread's network namespace and starts the cores, with these
    /// `flow` commands carried out before the first frame (see [`Card::apply`]).
    ///
    /// # Errors
    /// [`CardError`]; nothing stays open.
    pub fn start<P: Opens + Clone + 'static>(
        config: &CardConfig<P>,
        rules: &str,
    ) -> Result<Card, CardError> {
        Card::start_with(config, Runs { rules, ..Runs::default() })
    }

    /// The same, with all that a card can run.
    ///
    /// # Errors
    /// [`CardError`]; nothing stays open.
    pub fn start_with<P: Opens + Clone + 'static>(
        config: &CardConfig<P>,
        runs: Runs<'_>,
    ) -> Result<Card, CardError> {
        let Runs { rules, program, applications, services } = runs;
        check(config, services.len())?;
        program.iter().try_for_each(|program| program.fits(config.cores.len()))?;
        let (count, cores) = (config.ports.len(), config.cores.len());
        let held: usize = config.ports.iter().map(Opens::lane_frames).sum();
        let hosted = applications.len();
        let applications = Applications::new(applications, (count, cores), config.queues)?;
        let waiting = Applications::frames(hosted, cores) + leaving::frames_max(hosted, count);
        let under_way = count * (cores * ring_of(cores) + HELD_MAX) + waiting + IN_HAND;
        let stocks = stocks(cores, cores * (held + under_way), FRAME_LEN_MAX)?;
        let region = Arc::clone(stocks[0].region());
        let (stop, begun) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let crossings = by_core(cores, count, || Crossing::between(cores, ring_of(cores)));
        let steered = by_core(cores, hosted, || Steered::between(cores, &region));
        let progress = Progress::new(cores, count);
        let mut sides: Vec<Vec<Side>> = (0..cores).map(|_| Vec::new()).collect();
        let mut ports = Vec::new();
        for (number, name) in (0..).zip(&config.ports) {
            let name = Box::new(name.clone());
            let (port, made) = port((number, hosted), name, config, &region, &progress)?;
            ports.push(port);
            sides.iter_mut().zip(made).for_each(|(sides, side)| sides.push(side));
        }
        let seats = seats(config, &mut ports)?;
        let serving = |of| Some(Serving::new(of, Arc::clone(&region)));
        let serving: Vec<_> = services.into_iter().map(serving).collect();
        let services = serving.into_iter().chain(std::iter::repeat_with(|| None));
        let queues = config.queues;
        let bell = |&core| Bell::new().map_err(|source| CardError::Thread { core, source });
        let bells = config.cores.iter().map(bell).collect::<Result<Arc<[Bell]>, CardError>>()?;
        let (threads, cores, told) = (Vec::new(), Vec::new(), Arc::default());
        let mut card = Card {
            ports,
            threads,
            cores,
            bells,
            told,
            stop,
            region,
            queues,
            begun,
            program,
            to_cores: Vec::new(),
            applications,
            trouble: Vec::new(),
        };
        card.apply(rules)?;
        // Those that are not taken are gone before the card is: a core that ends waits for the
        // other ends of its crossings.
        let rings = crossings.into_iter().zip(steered).zip(seats);
        let parts = sides.into_iter().zip(stocks).zip(rings).zip(services);
        let parts = parts.map(|(((sides, stock), ((crossings, steered), seats)), service)| Parts {
            sides,
            stock,
            crossings,
            steered,
            seats,
            service,
            progress: Arc::clone(&progress),
        });
        config.cores.iter().zip(parts).try_for_each(|(core, parts)| {
            card.engage(config.receive, config.work_ns, *core, config.cores.len(), parts)
        })?;
        Ok(card)
    }

    /// Makes the next core of so many, and starts it.
    fn engage(
        &mut self,
        receive: Receive,
        work_ns: u32,
        core: u32,
        cores: usize,
        parts: Parts,
    ) -> Result<(), CardError> {
        let (place, begun) = (self.cores.len(), self.begun);
        let (to_core, program) = way(self.carried(place));
        self.to_cores.push(to_core);
        let Parts { sides, stock, crossings, steered, seats, service, progress } = parts;
        let host = self.applications.core(steered);
        let ports = sides.len();
        self.run(core, |card, shown| Engine {
            place,
            sides,
            crossings,
            bound: (0..cores).map(|_| Burst::new()).collect(),
            seats,
            service,
            stock,
            program,
            host,
            progress,
            completed: Completed::new(place, cores, ports),
            stop: Arc::clone(&card.stop),
            begun,
            now_ns: 0,
            busy_ns: 0,
            frames: 0,
            shown,
            receive,
            work: Duration::from_nanos(work_ns.into()),
            bells: Arc::clone(&card.bells),
            told: Arc::clone(&card.told),
            has_heard: 0,
            gave: vec![false; cores].into(),
        })
    }

    /// Starts a core.
    fn run(
        &mut self,
        core: u32,
        engine: impl FnOnce(&Card, Arc<CoreShown>) -> Engine,
    ) -> Result<(), CardError> {
        let shown = Arc::new(CoreShown::default());
        let engine = engine(self, Arc::clone(&shown));
        let run = move || {
            let mut only = CpuSet::new();
            only.set(core as usize);
            // Where that is not allowed it runs where there is room.
            let _ = sched_setaffinity(None, &only);
            engine.run()
        };
        let thread = thread::Builder::new().name(format!("card-{core}")).spawn(run);
        // What was started ends with the card.
        self.threads.push(thread.map_err(|source| CardError::Thread { core, source })?);
        self.cores.push((core, shown));
        Ok(())
    }

    /// Carries out a text of `flow` commands, each for the port that it names. What is for one port
    /// is applied whole or not at all, port by port.
    ///
    /// # Errors
    /// What cannot be read or is refused, with its line; what was for ports before that one stays.
    pub fn apply(&mut self, text: &str) -> Result<Vec<(u16, Record)>, ReadError> {
        // A port that is not there is refused by the first.
        let is_unknown = |port: u16| usize::from(port) >= self.ports.len();
        let unknown = text.lines().filter_map(port_of).any(is_unknown);
        let now_ns = self.begun.elapsed().as_nanos() as u64;
        let mut records = Vec::new();
        for (number, port) in (0..).zip(&mut self.ports) {
            port.nic.set_time_ns(now_ns);
            let own = if unknown { text.to_owned() } else { of_port(text, number) };
            let done = port.session.apply(&mut port.nic, own.as_bytes())?;
            records.extend(done.into_iter().map(|record| (number, record)));
        }
        self.wake();
        Ok(records)
    }

    /// The program that decides about frames, to change its tables; `None` where rules and RSS do,
    /// or the program of a store.
    pub fn program(&mut self) -> Option<&mut Pipeline> {
        match &mut self.program {
            Some(Decider::Program(program)) => Some(program),
            Some(Decider::Items(_)) | None => None,
        }
    }

    /// What decides about frames, to be looked at; `None` where rules and RSS do.
    pub fn look(&self) -> Option<Look<'_>> {
        Some(match self.program.as_ref()? {
            Decider::Items(items) => Look::at(items.pipeline()),
            Decider::Program(program) => Look::at(program),
        })
    }

    /// What the program that writes items for a store has counted, where it decides.
    pub fn told(&self) -> Option<Told> {
        match &self.program {
            Some(Decider::Items(items)) => Some(items.told()),
            Some(Decider::Program(_)) | None => None,
        }
    }

    /// Says to the program that writes items for a store, where it decides, what time it is, for
    /// items to come.
    pub fn set_items_time(&mut self, now: Moment) {
        if let Some(Decider::Items(items)) = &mut self.program {
            items.set_time(now);
        }
    }

    /// Has another program decide about frames from now on, or none. No frame is lost for it, and
    /// none sees two programs: each core takes it between two of its bursts.
    ///
    /// # Errors
    /// Where a core has not taken the last one yet; nothing is then changed.
    pub fn set_program(&mut self, program: Option<Pipeline>) -> Result<(), ChangeError> {
        if let Some(core) = self.program_waits_for() {
            return Err(ChangeError::ProgramUnderWay { core });
        }
        self.program = program.map(Decider::from);
        for place in 0..self.to_cores.len() {
            let carried = self.carried(place);
            self.to_cores[place].give(carried);
        }
        self.wake();
        Ok(())
    }

    /// A core that has not taken the last program yet: it has not come to look. `None` once that
    /// decides about all frames. What cores had before is freed: while they cannot give it back
    /// they take no other one.
    pub fn program_waits_for(&mut self) -> Option<u32> {
        self.to_cores.iter_mut().for_each(ToCore::tidy);
        let place = self.to_cores.iter().position(|to| !to.is_free())?;
        Some(self.cores.get(place).map_or(0, |(core, _)| *core))
    }

    /// The program, for the core of this number.
    fn carried(&self, core: usize) -> Option<Box<Carried>> {
        let owned = || Owned::all(self.ports.len(), self.queues);
        let carried = |of: &Pipeline| Carried::new(of, owned());
        Some(match self.program.as_ref()? {
            Decider::Items(of) => carried(of.pipeline()).waited_for(of.turns(), core),
            Decider::Program(of) => carried(of),
        })
    }

    /// The applications that it runs, in their order.
    pub fn applications(&self) -> impl Iterator<Item = LoadedApplication<'_>> {
        self.applications.loaded()
    }

    /// The program of an application, to change its tables.
    ///
    /// # Errors
    /// [`ApplicationError::Unknown`].
    pub fn application(&mut self, name: &str) -> Result<&mut Pipeline, ApplicationError> {
        self.applications.pipeline(name)
    }

    /// That a program may run for an application: to be asked before memory is taken for it.
    ///
    /// # Errors
    /// [`ApplicationError`].
    pub fn permits(&mut self, name: &str, program: &Program) -> Result<(), ApplicationError> {
        self.applications.permits(name, program)
    }

    /// Has another program run for an application from now on, as [`Card::set_program`].
    ///
    /// # Errors
    /// [`ApplicationError`]; nothing is then changed.
    pub fn set_application(&mut self, name: &str, by: Pipeline) -> Result<(), ApplicationError> {
        self.applications.replace(name, by)?;
        self.wake();
        Ok(())
    }

    /// Whether all cores have taken the last program of an application.
    ///
    /// # Errors
    /// [`ApplicationError::Unknown`].
    pub fn has_taken_application(&mut self, name: &str) -> Result<bool, ApplicationError> {
        self.applications.has_taken(name)
    }

    /// Time since the card began, nanoseconds: what its program is told.
    pub fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Memory of its frames.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// How a port spreads frames that no rule decides about; `None` where there is no such port.
    pub fn rss(&self, port: u16) -> Option<&Rss> {
        self.ports.get(usize::from(port)).map(|port| port.nic.rss())
    }

    /// Has a port spread frames in another way from now on: another key, hash function, set of
    /// fields or table, or all of them. No frame is lost for it, and those of a flow keep their
    /// order: where a flow goes from one core to another, its frames wait until those before them
    /// have left (up to a limit: [`PortCounters::held_drops`]).
    ///
    /// # Errors
    /// [`ChangeError`]; nothing is then changed.
    pub fn set_rss(&mut self, port: u16, rss: &Rss) -> Result<(), ChangeError> {
        if let Some(core) = self.waits_for(port)? {
            return Err(ChangeError::UnderWay { port, core });
        }
        let refused = |source| ChangeError::Unfit { port, source };
        self.ports[usize::from(port)].nic.set_rss(rss).map_err(refused)?;
        self.wake();
        Ok(())
    }

    /// Has the cores look at what they were told.
    fn wake(&self) {
        self.told.fetch_add(1, Ordering::Release);
        self.bells.iter().for_each(Bell::ring);
    }

    /// [`Card::set_rss`] with what a change makes of the present state.
    ///
    /// # Errors
    /// As of [`Card::set_rss`].
    pub fn change_rss(&mut self, port: u16, change: &RssChange) -> Result<(), ChangeError> {
        let ports = self.ports.len();
        let of = self.ports.get(usize::from(port)).ok_or(ChangeError::Port { port, ports })?;
        let rss = of.nic.rss_after(change);
        self.set_rss(port, &rss.map_err(|source| ChangeError::Unfit { port, source })?)
    }

    /// A core that has not followed the last change of a port's RSS yet: it has not come to look,
    /// or holds frames for what others were given before. `None` once the new spread holds for all
    /// frames.
    ///
    /// # Errors
    /// [`ChangeError::Port`].
    pub fn waits_for(&self, port: u16) -> Result<Option<u32>, ChangeError> {
        let ports = self.ports.len();
        let of = self.ports.get(usize::from(port)).ok_or(ChangeError::Port { port, ports })?;
        let wanted = of.nic.rss_stamp().state;
        let lags = |(shown, _): &(&Arc<Shown>, _)| shown.followed.load(Ordering::Acquire) != wanted;
        Ok(of.shown.iter().zip(&self.cores).find(lags).map(|(_, (core, _))| *core))
    }

    /// Has the frames that come and leave by a port written into a packet trace, so many at most,
    /// until that is ended ([`Card::end_capture`]) or the card is. Each core begins when it comes
    /// to look ([`Card::capture_waits_for`]).
    ///
    /// # Errors
    /// [`ChangeError`]; nothing is then captured.
    pub fn capture(
        &mut self,
        number: u16,
        path: &Path,
        frames_max: u64,
    ) -> Result<(), ChangeError> {
        let (ports, cores) = (self.ports.len(), self.cores.len());
        let begun_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let begun_ns =
            (begun_ns.as_nanos() as u64).saturating_sub(self.begun.elapsed().as_nanos() as u64);
        let missing = ChangeError::Port { port: number, ports };
        let port = self.ports.get_mut(usize::from(number)).ok_or(missing)?;
        let is_under_way = port.capture.as_ref().is_some_and(|capture| !capture.is_done());
        if is_under_way || port.taps.iter().any(Producer::is_full) {
            return Err(ChangeError::Capturing { port: number });
        }
        // What became of the one before is told at the end, where nobody asked.
        let before = port.capture.take().and_then(|capture| capture.end().err());
        self.trouble.extend(before.map(|error| format!("capture: {error}")));
        let failed = |source| ChangeError::Capture { path: path.to_owned(), source };
        let frame_len_max = self.region.frame_len_max();
        let (capture, taps) =
            capture::begin(path, cores, frames_max, frame_len_max, begun_ns).map_err(failed)?;
        for (to, tap) in port.taps.iter_mut().zip(taps) {
            // There is room, as was just seen.
            let _ = to.push(tap);
        }
        port.capture = Some(capture);
        self.wake();
        Ok(())
    }

    /// A core that does not take part in the capture of a port yet, for it has not come to look.
    /// `None` once every frame that comes from now on is captured, and where nothing is.
    pub fn capture_waits_for(&self, port: u16) -> Option<u32> {
        let capture = self.ports.get(usize::from(port))?.capture.as_ref()?;
        capture.waits_for().and_then(|place| self.cores.get(place)).map(|(core, _)| *core)
    }

    /// What the capture of a port has come to, and whether it goes on; `None` where there is none.
    pub fn captured(&self, port: u16) -> Option<(Captured, bool)> {
        let capture = self.ports.get(usize::from(port))?.capture.as_ref()?;
        Some((capture.so_far(), !capture.is_done()))
    }

    /// Ends the capture of a port, if there is one: the trace is whole then.
    ///
    /// # Errors
    /// What the system says of the file.
    pub fn end_capture(&mut self, port: u16) -> io::Result<Option<Captured>> {
        let capture = self.ports.get_mut(usize::from(port)).and_then(|port| port.capture.take());
        capture.map(Capture::end).transpose()
    }

    /// What is to be done now and then, some times a second: changes are settled, ages told, and
    /// interfaces that are gone opened again where they are back. Why each port that is gone is not
    /// there is returned.
    pub fn tend(&mut self) -> Vec<(String, PortError)> {
        let now_ns = self.begun.elapsed().as_nanos() as u64;
        let (mut missing, mut is_told) = (Vec::new(), false);
        self.program.iter_mut().for_each(|program| program.settle(SETTLE_STEPS));
        self.to_cores.iter_mut().for_each(ToCore::tidy);
        self.applications.settle(SETTLE_STEPS);
        for port in &mut self.ports {
            port.nic.set_time_ns(now_ns);
            port.nic.settle(SETTLE_STEPS);
            for door in &mut port.doors {
                match door.look(&self.region) {
                    Ok(came) => is_told |= came,
                    Err(error) => missing.push((
                        format!("the door of queue {} of {}", door.queue(), port.name),
                        error,
                    )),
                }
            }
            let is_gone = |shown: &Arc<Shown>| shown.is_gone.load(Ordering::Acquire);
            let gone = port.shown.iter().filter(|shown| is_gone(shown)).count();
            if gone == 0 {
                continue;
            }
            let has_all_closed = gone == port.shown.len();
            if !has_all_closed {
                // It is opened again as a whole.
                port.shown.iter().for_each(|shown| shown.closes.store(true, Ordering::Release));
                is_told = true;
            }
            if !has_all_closed || !port.name.comes_back() {
                let reason = port.trouble().join("; ");
                missing.push((port.name.to_string(), PortError::Ended { reason }));
                continue;
            }
            let count = port.lanes.len() as u32;
            match port.name.open(count, &self.region) {
                Ok(lanes) => {
                    for ((to, lane), shown) in port.lanes.iter_mut().zip(lanes).zip(&port.shown) {
                        shown.closes.store(false, Ordering::Release);
                        shown.is_gone.store(false, Ordering::Release);
                        // There is room, for the core has taken the one before.
                        let _ = to.push(lane);
                    }
                    is_told = true;
                }
                Err(error) => missing.push((port.name.to_string(), error)),
            }
        }
        if is_told {
            self.wake();
        }
        missing
    }

    /// Decides, where that was asked for, whether ports should spread frames in another way, by
    /// what was counted since the last time, and has them do so ([`Card::set_rss`]); to be called
    /// some times a second. What was done is returned, by port.
    pub fn balance(&mut self) -> Vec<Balanced> {
        (0..self.ports.len() as u16).filter_map(|port| self.balance_port(port)).collect()
    }

    fn balance_port(&mut self, number: u16) -> Option<Balanced> {
        let waits = self.waits_for(number);
        let port = self.ports.get_mut(usize::from(number))?;
        port.balancer.as_ref()?;
        let now = port.counted(&self.cores);
        let seen = now.since(&port.before);
        port.before = now;
        if !matches!(waits, Ok(None)) {
            // Frames of two spreads are in it.
            return None;
        }
        let mut rss = port.nic.rss().clone();
        let decision = port.balancer.as_mut()?.decide(&seen, &rss.indirection)?;
        let balanced = match decision {
            Decision::Key(key) => {
                rss.key = key;
                Balanced { port: number, moved_entries: None }
            }
            Decision::Table(table) => {
                let pairs = table.iter().zip(rss.indirection.iter());
                let moved = pairs.filter(|(new, old)| new != old).count();
                rss.indirection = table;
                Balanced { port: number, moved_entries: Some(moved) }
            }
        };
        // What was decided is a table of known queues, or a key that was looked at before.
        self.set_rss(number, &rss).ok().map(|()| balanced)
    }

    /// Whether no frame will come any more by any port, for all are files and read to their end, or
    /// a core has ended by a fault, which [`Card::end`] tells.
    pub fn is_over(&self) -> bool {
        if self.threads.iter().any(JoinHandle::is_finished) {
            return true;
        }
        let is_over = |port: &Port| {
            let is_ended = |shown: &Arc<Shown>| shown.is_ended.load(Ordering::Acquire);
            let have_ended = port.shown.iter().all(is_ended);
            !port.name.comes_back() && have_ended
        };
        self.ports.iter().all(is_over)
    }

    /// What the card has counted so far; a core shows what it sees with a delay of a millisecond or
    /// so.
    pub fn counters(&self) -> Counters {
        let ports = self.ports.iter().map(|port| {
            let core = |queue: usize| queue % port.shown.len();
            let queue = |at| QueueCounters { core: core(at), ..QueueCounters::default() };
            let mut counters = PortCounters {
                name: port.name.to_string(),
                is_up: !port.shown.iter().any(|shown| shown.is_gone.load(Ordering::Acquire)),
                queues: (0..usize::from(self.queues)).map(queue).collect(),
                ..PortCounters::default()
            };
            port.shown.iter().for_each(|shown| shown.add_to(&mut counters));
            counters.guests = port.doors.iter().map(Door::counters).collect();
            counters
        });
        let core = |(core, shown): &(u32, Arc<CoreShown>)| CoreCounters {
            core: *core,
            frames: shown.frames.load(Ordering::Relaxed),
            cpu_ns: shown.cpu_ns.load(Ordering::Relaxed),
            busy_ns: shown.busy_ns.load(Ordering::Relaxed),
        };
        Counters {
            ports: ports.collect(),
            cores: self.cores.iter().map(core).collect(),
            applications: self.applications.counters(),
        }
    }

    /// Stops the cores, lets what is under way leave, and closes the ports.
    pub fn end(mut self) -> Ended {
        let stocks = self.stop();
        let ends = self.ports.iter_mut().filter_map(|port| port.capture.take());
        let captures = ends.filter_map(|capture| capture.end().err());
        self.trouble.extend(captures.map(|error| format!("capture: {error}")));
        let frames = self.region.frames();
        let frames_lost = frames - stock::count(stocks);
        // An interface that went away may have come back; a file was to be whole.
        let files = self.ports.iter().filter(|port| !port.name.comes_back());
        let named = |port: &Port| {
            let name = port.name.to_string();
            port.trouble().into_iter().map(move |what| format!("{name}: {what}"))
        };
        let trouble = files.flat_map(named).chain(self.trouble.drain(..)).collect();
        let told = self.told();
        Ended { counters: self.counters(), told, frames, frames_lost, trouble }
    }

    fn stop(&mut self) -> Vec<Stock> {
        self.stop.store(true, Ordering::Relaxed);
        self.wake();
        let cores = self.cores.iter().map(|(core, _)| core);
        let ended = self.threads.drain(..).zip(cores).map(|(thread, core)| (core, thread.join()));
        let mut stocks = Vec::new();
        for (core, stock) in ended {
            match stock {
                Ok(stock) => stocks.push(stock),
                Err(_) => self.trouble.push(format!("core {core} ended by a fault of niclab")),
            }
        }
        stocks
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        drop(self.stop());
    }
}

/// What each of so many cores has of so many things, which are made in parts for all of them.
fn by_core<T>(cores: usize, count: usize, make: impl Fn() -> Vec<T>) -> Vec<Vec<T>> {
    let mut all: Vec<Vec<T>> = (0..cores).map(|_| Vec::new()).collect();
    for _ in 0..count {
        all.iter_mut().zip(make()).for_each(|(of, part)| of.push(part));
    }
    all
}

/// Refuses a card of no use.
fn check<P>(config: &CardConfig<P>, services: usize) -> Result<(), CardError> {
    let count = config.ports.len();
    if count == 0 || (count > 1 && !count.is_multiple_of(2)) {
        return Err(CardError::Ports { count });
    }
    if config.cores.is_empty() {
        return Err(CardError::Cores);
    }
    if services > 0 && (services != config.cores.len() || !config.guests.is_empty()) {
        let (cores, guests) = (config.cores.len(), config.guests.len());
        return Err(CardError::Services { services, cores, guests });
    }
    if let Some(Balance::Keys(keys)) = &config.balance {
        keys.iter().try_for_each(|key| Toeplitz::new(key).map(drop)).map_err(CardError::Key)?;
    }
    Ok(())
}

/// The port that a line is for, which every `flow` command names behind its own word; `None` where
/// it is for all, or no command.
fn port_of(line: &str) -> Option<u16> {
    let mut words = line.split_whitespace();
    match (words.next(), words.nth(1)) {
        (Some("flow"), Some(port)) => port.parse().ok(),
        _ => None,
    }
}

/// The lines of a text that are for one port, each in its place; those for all as well.
fn of_port(text: &str, port: u16) -> String {
    let own = |line| if port_of(line).is_none_or(|named| named == port) { line } else { "" };
    text.lines().map(own).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_go_to_the_port_they_name_and_keep_their_lines() {
        let text = "flow flush 1\n# words\nflow create 0 ingress pattern eth / end actions drop / \
                    end\nflow isolate 1 1\n";
        assert_eq!(of_port(text, 1), "flow flush 1\n# words\n\nflow isolate 1 1");
        assert!(of_port(text, 0).starts_with("\n# words\nflow create 0"));
    }

    #[test]
    fn a_card_of_no_use_is_refused() {
        let tap = |at| PortName::Tap(format!("none{at}"));
        let config = |ports: usize, cores: Vec<u32>| {
            CardConfig::new((0..ports).map(tap).collect(), 1, cores)
        };
        for ports in [0, 3] {
            let refused = Card::start(&config(ports, vec![0]), "").err().unwrap();
            assert!(matches!(refused, CardError::Ports { count } if count == ports));
        }
        assert!(matches!(Card::start(&config(1, vec![]), ""), Err(CardError::Cores)));
        let none = CardConfig { queues: 0, ..config(1, vec![0]) };
        assert!(matches!(Card::start(&none, ""), Err(CardError::Nic(_))));
    }
}
