//! How a card starts: its ports are opened, and its cores made and set to work.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use niclab_port::crossing::Crossing;
use niclab_port::stock::{Stock, stocks};
use niclab_port::wake::Bell;
use niclab_port::wire::Burst;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::config::check;
use super::{Card, CardConfig, FRAME_LEN_MAX, Receive};
use crate::applications::Applications;
use crate::counters::CoreShown;
use crate::engine::Engine;
use crate::error::CardError;
use crate::guests::Seat;
use crate::leaving;
use crate::moving::{Completed, HELD_MAX, Progress};
use crate::name::Opens;
use crate::ports::{port, seats};
use crate::programmed::{IN_HAND, way};
use crate::runs::Runs;
use crate::serving::Serving;
use crate::side::Side;
use crate::steered::Steered;

/// Frames that the ring between two cores holds, for each port: what a port brings while a core is
/// kept from work for some milliseconds. Of many cores each has a part of a port's frames alone.
fn ring_of(cores: usize) -> usize {
    (8_192 / cores).clamp(1_024, 4_096)
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
}

/// What each of so many cores has of so many things, which are made in parts for all of them.
fn by_core<T>(cores: usize, count: usize, make: impl Fn() -> Vec<T>) -> Vec<Vec<T>> {
    let mut all: Vec<Vec<T>> = (0..cores).map(|_| Vec::new()).collect();
    for _ in 0..count {
        all.iter_mut().zip(make()).for_each(|(of, part)| of.push(part));
    }
    all
}
