//! The workers, the receiving side, and the observed state of both.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use niclab_analytics::card::{HostReception, RingsSetup, TupleRings};
use niclab_analytics::cost::{StepClock, StepObserver, StepTotals};
use niclab_analytics::definition::{Query, WindowResult};
use niclab_analytics::job::{EngineOptions, JobEngine};
use niclab_analytics::rank::KeyCount;
use niclab_analytics::receiver::ReceiverOptions;
use niclab_apps::service::Service;
use niclab_program::Pipeline;

use super::super::broken;
use super::gate::{Gate, GatedWorker, OpenAtEnd};
use super::load::RECEIVER;
use crate::counting::TupleMode;
use crate::face::DeviceError;

/// No source falls silent.
const SILENCE_NS: u64 = u64::MAX / 2;

/// Results by window, and when they came.
pub(super) type Results = Mutex<HashMap<u64, (Vec<KeyCount>, Instant)>>;

/// The observed state of workers and receiving sides.
pub(super) struct Observed {
    pub(super) gate: Arc<Gate>,
    pub(super) results: Arc<Results>,
    /// Steps of the receiving sides, and of the workers.
    pub(super) receiving: Arc<StepTotals>,
    pub(super) working: Arc<StepTotals>,
}

/// The receiving side behind the card.
pub(super) enum Reception {
    Host(Box<HostReception>),
    Rings(Box<TupleRings>),
}

/// Workers behind a gate. It opens first when both go, for the engine waits for its workers then.
pub(super) struct GatedEngine {
    _open: OpenAtEnd,
    pub(super) engine: JobEngine,
}

/// Workers that are held, and what a card needs to feed them.
pub(super) struct StartedWorkers {
    pub(super) engine: GatedEngine,
    pub(super) program: Option<Pipeline>,
    /// A service for each core of the card.
    pub(super) services: Vec<Box<dyn Service>>,
    pub(super) reception: Reception,
}

impl Observed {
    /// Observes `workers` workers.
    pub(super) fn new(workers: usize) -> Observed {
        Observed {
            gate: Gate::new(workers),
            results: Arc::default(),
            receiving: Arc::default(),
            working: Arc::default(),
        }
    }

    /// Starts workers on `cores`, for tuples of `sources` sources.
    pub(super) fn start(
        &self,
        mode: TupleMode,
        query: Query,
        cores: &[u32],
        sources: usize,
    ) -> Result<StartedWorkers, DeviceError> {
        let workers = cores.len();
        let results = Arc::clone(&self.results);
        let emit = Box::new(move |WindowResult { window, top }| {
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.insert(window, (top, Instant::now()));
        });
        let (gate, working) = (Arc::clone(&self.gate), Arc::clone(&self.working));
        let observers = Box::new(move |place| {
            Box::new(GatedWorker::new(&gate, place, &working)) as Box<dyn StepObserver>
        });
        let options = EngineOptions { lanes: workers, ..EngineOptions::new(query, cores.to_vec()) };
        let receiver = ReceiverOptions {
            sources_awaited: sources,
            silence_ns: SILENCE_NS,
            windows: query.windows,
            ..ReceiverOptions::default()
        };
        let gated = |engine| GatedEngine { _open: OpenAtEnd(Arc::clone(&self.gate)), engine };
        if mode == TupleMode::Dma {
            let made = TupleRings::setup(RECEIVER, (workers, workers), query.windows, receiver);
            let RingsSetup { rings, program, services, inboxes } = made.map_err(broken)?;
            let engine = JobEngine::start_on(inboxes, options, emit, observers).map_err(broken)?;
            let reception = Reception::Rings(Box::new(rings));
            let (engine, program) = (gated(engine), Some(program));
            return Ok(StartedWorkers { engine, program, services, reception });
        }
        let engine = gated(JobEngine::start(options, emit, observers).map_err(broken)?);
        let shape = (workers, mode == TupleMode::Steer);
        let step_clock = |_| Box::new(StepClock::new(Arc::clone(&self.receiving))) as _;
        let made = HostReception::new(&engine.engine, RECEIVER, shape, receiver, &step_clock);
        let mut host = made.map_err(broken)?;
        let (program, services) = (host.program.take(), std::mem::take(&mut host.services));
        let reception = Reception::Host(Box::new(host));
        Ok(StartedWorkers { engine, program, services, reception })
    }
}
