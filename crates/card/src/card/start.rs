//! How a card starts: its ports are opened, and its cores made and set to work.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use niclab_port::Burst;
use niclab_port::frame_pool::{FramePool, frame_pools};
use niclab_port::inter_core::InterCoreRings;
use niclab_port::wake::Doorbell;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::config::check;
use super::{Card, CardConfig, FRAME_LEN_MAX};
use crate::applications::Applications;
use crate::core_service::CoreService;
use crate::counters::PublishedCoreCounters;
use crate::engine::{Core, Engine};
use crate::error::CardError;
use crate::external_queues::ExternalQueueEnd;
use crate::flow_migration::{Completed, HELD_MAX, Progress};
use crate::name::PortSource;
use crate::port_context::PortContext;
use crate::ports::{external_queues, open_port};
use crate::program_instance::{IN_HAND, channel};
use crate::steering_rings::SteeringRings;
use crate::transmit_queue::frames_max;
use crate::workload::CardWorkload;

/// Frames that the ring between two cores holds, for each port: what a port brings while a core is
/// kept from work for some milliseconds. Of many cores each has a part of a port's frames alone.
fn ring_frames(cores: usize) -> usize {
    (8_192 / cores).clamp(1_024, 4_096)
}

/// The parts of one core.
struct CoreParts {
    contexts: Vec<PortContext>,
    pool: FramePool,
    inter_core: Vec<InterCoreRings>,
    steered: Vec<SteeringRings>,
    external_queues: Vec<ExternalQueueEnd>,
    service: Option<CoreService>,
    progress: Arc<Progress>,
}

impl Card {
    /// Opens the ports in the calling thread's network namespace and starts the cores, with these
    /// `flow` commands carried out before the first frame (see [`Card::apply`]).
    ///
    /// # Errors
    /// [`CardError`]; nothing stays open.
    pub fn start<P: PortSource + Clone + 'static>(
        config: &CardConfig<P>,
        rules: &str,
    ) -> Result<Card, CardError> {
        Card::start_with(config, CardWorkload { rules, ..CardWorkload::default() })
    }

    /// The same, with all that a card can run.
    ///
    /// # Errors
    /// [`CardError`]; nothing stays open.
    pub fn start_with<P: PortSource + Clone + 'static>(
        config: &CardConfig<P>,
        runs: CardWorkload<'_>,
    ) -> Result<Card, CardError> {
        let (mut card, engines) = Card::build(config, runs)?;
        // Those that are not started are gone before the card is: a core that ends waits for the
        // other ends of its inter-core rings.
        config.cores.iter().zip(engines).try_for_each(|(core, engine)| card.run(*core, engine))?;
        Ok(card)
    }

    /// A card whose cores have no threads of their own: a core works whenever the caller lets it
    /// ([`Core::turn`]), on any thread, between other work. [`Card::shut_down_driven`] ends card
    /// and cores.
    ///
    /// # Errors
    /// [`CardError`]; nothing stays open.
    pub fn driven<P: PortSource + Clone + 'static>(
        config: &CardConfig<P>,
        runs: CardWorkload<'_>,
    ) -> Result<(Card, Vec<Core>), CardError> {
        let (card, engines) = Card::build(config, runs)?;
        Ok((card, engines.into_iter().map(Core::new).collect()))
    }

    /// A card whose ports are open, and its cores, which do not work yet.
    fn build<P: PortSource + Clone + 'static>(
        config: &CardConfig<P>,
        runs: CardWorkload<'_>,
    ) -> Result<(Card, Vec<Engine>), CardError> {
        let CardWorkload { rules, program, applications, services, controls } = runs;
        check(config, services.len())?;
        program.iter().try_for_each(|program| program.fits(config.cores.len()))?;
        let (count, cores) = (config.ports.len(), config.cores.len());
        let held: usize = config.ports.iter().map(PortSource::queue_pair_frames).sum();
        let hosted = applications.len();
        let applications = Applications::new(applications, (count, cores), config.queues)?;
        let waiting = Applications::frames(hosted, cores) + frames_max(hosted, count);
        let ring = ring_frames(cores);
        let under_way = count * ((cores - 1) * ring + HELD_MAX) + waiting + IN_HAND;
        let frame_len = config.frame_len_max.max(FRAME_LEN_MAX);
        let pools = frame_pools(cores, cores * (held + under_way), frame_len)?;
        let region = Arc::clone(pools[0].region());
        let (stop, begun) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let inter_core = by_core(cores, count, || InterCoreRings::between(cores, ring));
        let steered = by_core(cores, hosted, || SteeringRings::between(cores, &region));
        let progress = Progress::new(cores, count);
        let mut contexts: Vec<Vec<PortContext>> = (0..cores).map(|_| Vec::new()).collect();
        let (mut ports, mut controls) = (Vec::new(), controls.into_iter());
        for (number, name) in (0..).zip(&config.ports) {
            let opened = (Box::new(name.clone()) as Box<dyn PortSource>, controls.next());
            let (port, made) = open_port((number, hosted), opened, config, &region, &progress)?;
            ports.push(port);
            contexts.iter_mut().zip(made).for_each(|(contexts, context)| contexts.push(context));
        }
        let external_queues = external_queues(config, &mut ports)?;
        let serving = |of| Some(CoreService::new(of, Arc::clone(&region)));
        let serving: Vec<_> = services.into_iter().map(serving).collect();
        let services = serving.into_iter().chain(std::iter::repeat_with(|| None));
        let doorbell = |&core| Doorbell::new().map_err(|source| CardError::Thread { core, source });
        let doorbells =
            config.cores.iter().map(doorbell).collect::<Result<Arc<[Doorbell]>, CardError>>()?;
        let (threads, cores, reported) = (Vec::new(), Vec::new(), Arc::default());
        let mut card = Card {
            ports,
            threads,
            cores,
            doorbells,
            notifications: reported,
            stop,
            region,
            queues: config.queues,
            begun,
            program,
            to_cores: Vec::new(),
            applications,
            rule_texts_refused: 0,
            errors: Vec::new(),
        };
        card.apply(rules)?;
        let rings = inter_core.into_iter().zip(steered).zip(external_queues);
        let parts = contexts.into_iter().zip(pools).zip(rings).zip(services);
        let parts =
            parts.map(|(((contexts, pool), ((inter_core, steered), ends)), service)| CoreParts {
                contexts,
                pool,
                inter_core,
                steered,
                external_queues: ends,
                service,
                progress: Arc::clone(&progress),
            });
        let engines = config.cores.iter().zip(parts);
        let engines = engines.map(|(core, parts)| card.engine(config, *core, parts)).collect();
        Ok((card, engines))
    }

    /// The next core.
    fn engine<P>(&mut self, config: &CardConfig<P>, core: u32, parts: CoreParts) -> Engine {
        let (place, begun, cores) = (self.cores.len(), self.begun, config.cores.len());
        let (to_core, program) = channel(self.instance(place));
        self.to_cores.push(to_core);
        let CoreParts { contexts, pool, inter_core, steered, external_queues, service, progress } =
            parts;
        let host = self.applications.core(steered);
        let (ports, shown) = (contexts.len(), Arc::new(PublishedCoreCounters::default()));
        self.cores.push((core, Arc::clone(&shown)));
        Engine {
            place,
            contexts,
            inter_core,
            bound: (0..cores).map(|_| Burst::new()).collect(),
            external_queues,
            service,
            pool,
            program,
            host,
            progress,
            completed: Completed::new(place, cores, ports),
            stop: Arc::clone(&self.stop),
            begun,
            now_ns: 0,
            busy_ns: 0,
            received: 0,
            rx_frames: 0,
            frames: 0,
            published: shown,
            receive: config.receive,
            doorbells: Arc::clone(&self.doorbells),
            notifications: Arc::clone(&self.notifications),
            notifications_seen: 0,
            cores_to_wake: vec![false; cores].into(),
        }
    }

    /// Starts a core.
    fn run(&mut self, core: u32, engine: Engine) -> Result<(), CardError> {
        let run = move || {
            let mut only = CpuSet::new();
            only.set(core as usize);
            // Where that is not allowed it runs where there is room.
            let _ = sched_setaffinity(None, &only);
            Core::new(engine).run()
        };
        let thread = thread::Builder::new().name(format!("card-{core}")).spawn(run);
        // What was started ends with the card.
        self.threads.push(thread.map_err(|source| CardError::Thread { core, source })?);
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
