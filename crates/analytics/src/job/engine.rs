//! The job's threads: a worker on each core, and one that starts them again.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use timely::{CommunicationConfig, WorkerConfig};

use timely::communication::WorkerGuards;
use timely::worker::Worker;

use super::cluster::{self, ClusterError, ClusterLinks, ClusterOptions, SharedOptions};
use super::dataflow::{Emit, EntryBatch, JobEnds, ResultOutput, build};
use crate::cost::{StepObserver, WorkStep};
use crate::definition::Query;
use crate::inbox::{Inbox, TakenEntries};
use crate::partition;

/// Workers of all processes together at most.
pub const WORKERS_MAX: usize = 64;
/// Entries that a worker reads together.
const BATCH: usize = 1_024;
/// How long a worker sleeps without being woken: others may have something for it.
const IDLE: Duration = Duration::from_millis(1);
/// Workers that may die one after the other without a tuple counted between.
const DEATHS_MAX: u32 = 8;

/// How an engine is set up.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The question about the tuples.
    pub query: Query,
    /// The core of each worker of this process.
    pub cores: Vec<u32>,
    /// Tuples that wait in a lane of a worker's inbox at most.
    pub inbox_entries: usize,
    /// Lanes of each inbox: receiving sides that hand over to each worker.
    pub lanes: usize,
    /// Pairs of pane and key at most: of the tuples that a worker counts, and again of the keys
    /// that it ranks, from all processes together. Each pair takes some 50 bytes in both of these.
    pub pairs_max: usize,
    /// The other processes.
    pub cluster: Option<ClusterOptions>,
}

impl EngineOptions {
    /// A process of its own with workers on these cores.
    pub fn new(query: Query, cores: Vec<u32>) -> EngineOptions {
        EngineOptions {
            query,
            cores,
            inbox_entries: 65_536,
            lanes: 1,
            pairs_max: 16 << 20,
            cluster: None,
        }
    }
}

/// Why an engine ends.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No worker, or too many.
    #[error("{0} workers: give 1 to {WORKERS_MAX} in all processes together")]
    Workers(usize),
    /// The other processes are not there.
    #[error("{0}")]
    Cluster(#[from] ClusterError),
    /// The connection with another process is gone.
    #[error("the connection with another process is lost; start all processes again")]
    Disconnected,
    /// Workers die whatever is done.
    #[error("a worker died {DEATHS_MAX} times without counting a tuple: {message}")]
    Died {
        /// The text of the last one's panic.
        message: String,
    },
    /// Too many keys for the memory.
    #[error(
        "more than {most} pairs of pane and key on one worker; allow more, or choose shorter \
         windows"
    )]
    Keys {
        /// The limit.
        most: usize,
    },
    /// A thread panicked, and what it did cannot be started again.
    #[error("a thread of the job panicked: {message}; start all processes again")]
    Panicked {
        /// The text of the panic.
        message: String,
    },
    /// A worker cannot be put on its core.
    #[error("core {core}: {source}; choose a core that this process may use")]
    Core {
        /// The core.
        core: u32,
        /// Why not.
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("a thread cannot be started: {0}")]
    Thread(io::Error),
}

/// Why a worker has ended.
#[derive(Debug)]
enum WorkerEnd {
    /// Everything is counted and emitted.
    Done,
    /// It was stopped, or another worker has died.
    Stopped,
    /// It panicked with this text.
    Died(String),
    Failed(EngineError),
}

/// The state that all threads of an engine share.
struct EngineShared {
    options: EngineOptions,
    inboxes: Vec<Arc<Inbox>>,
    output: Arc<ResultOutput>,
    observers: Box<ObserverFactory>,
    is_stopping: AtomicBool,
    /// A worker of this dataflow has died: the others end.
    is_broken: AtomicBool,
    /// How the first worker of this dataflow ended that did not come to the end of its tuples.
    first_end: Mutex<Option<WorkerEnd>>,
    /// The connections of this dataflow with other processes.
    links: Mutex<ClusterLinks>,
    is_over: AtomicBool,
    restarts: AtomicU64,
}

/// Says that an engine is over when its thread ends, however it ends.
struct OverGuard(Arc<EngineShared>);

impl Drop for OverGuard {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the observer of a worker, by its number in this process.
type ObserverFactory = dyn Fn(usize) -> Box<dyn StepObserver> + Send + Sync;

/// State and counters of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStatus {
    /// Tuples that wait, by worker of this process.
    pub waiting: Vec<usize>,
    /// Pairs of pane and key, by worker of this process.
    pub pairs: Vec<usize>,
    /// How often a worker died and the dataflow was started again.
    pub restarts: u64,
}

impl EngineShared {
    /// Ends the dataflow because one of its workers has ended before its tuples have.
    fn broke(&self, end: WorkerEnd) {
        locked(&self.first_end).get_or_insert(end);
        self.is_broken.store(true, Ordering::Release);
        self.inboxes.iter().for_each(|inbox| inbox.wake());
        // Timely says goodbye to the other processes as if all were done: they would wait for ever.
        locked(&self.links).cut();
    }

    fn status(&self) -> EngineStatus {
        EngineStatus {
            waiting: self.inboxes.iter().map(|inbox| inbox.waiting()).collect(),
            pairs: self.inboxes.iter().map(|inbox| inbox.counts().pairs()).collect(),
            restarts: self.restarts.load(Ordering::Relaxed),
        }
    }
}

/// State and counters of an engine, for another thread.
#[derive(Clone)]
pub struct EngineView(Weak<EngineShared>);

impl EngineView {
    /// `None` if the engine is gone.
    pub fn status(&self) -> Option<EngineStatus> {
        self.0.upgrade().map(|shared| shared.status())
    }
}

/// A job that runs.
pub struct JobEngine {
    shared: Arc<EngineShared>,
    thread: Option<JoinHandle<Result<(), EngineError>>>,
}

impl JobEngine {
    /// Starts the workers. Results go to `emit` on the first worker's thread, in their order, each
    /// once; in a cluster all are the first process's. `observers` makes an observer for each
    /// worker, again after a worker has died.
    ///
    /// # Errors
    /// [`EngineError::Workers`], [`EngineError::Thread`]; all others come from [`JobEngine::join`].
    pub fn start(
        options: EngineOptions,
        emit: Box<Emit>,
        observers: Box<ObserverFactory>,
    ) -> Result<JobEngine, EngineError> {
        let inbox = |_: &u32| Arc::new(Inbox::new(options.lanes, options.inbox_entries.max(1)));
        let inboxes = options.cores.iter().map(inbox).collect();
        JobEngine::start_on(inboxes, options, emit, observers)
    }

    /// The same, on inboxes that are there: one for each core. Cards write into their rings.
    ///
    /// # Errors
    /// As of [`JobEngine::start`].
    pub fn start_on(
        inboxes: Vec<Arc<Inbox>>,
        options: EngineOptions,
        emit: Box<Emit>,
        observers: Box<ObserverFactory>,
    ) -> Result<JobEngine, EngineError> {
        let workers = options.cores.len() * processes(&options);
        if !(1..=WORKERS_MAX).contains(&workers) || inboxes.len() != options.cores.len() {
            return Err(EngineError::Workers(workers));
        }
        let shared = Arc::new(EngineShared {
            options,
            inboxes,
            output: Arc::new(ResultOutput::new(emit)),
            observers,
            is_stopping: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            first_end: Mutex::default(),
            links: Mutex::default(),
            is_over: AtomicBool::new(false),
            restarts: AtomicU64::new(0),
        });
        let guard = OverGuard(Arc::clone(&shared));
        let run = move || supervise(&guard.0);
        let named = thread::Builder::new().name("analytics".to_owned());
        let thread = Some(named.spawn(run).map_err(EngineError::Thread)?);
        Ok(JobEngine { shared, thread })
    }

    /// The inboxes of this process's workers.
    pub fn inboxes(&self) -> &[Arc<Inbox>] {
        &self.shared.inboxes
    }

    /// The inbox of this process for each part of the keys: its worker's, or, if that is in another
    /// process, that of the worker with the same place here.
    pub fn places(&self) -> Box<[u16]> {
        let local = self.shared.inboxes.len();
        let workers = local * processes(&self.shared.options);
        (0..partition::PARTS).map(|part| (part % workers % local) as u16).collect()
    }

    /// The question about the tuples.
    pub fn query(&self) -> Query {
        self.shared.options.query
    }

    /// Whether other processes count, too.
    pub fn has_others(&self) -> bool {
        processes(&self.shared.options) > 1
    }

    /// Whether all workers have ended: nothing takes tuples any more.
    pub fn is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::Acquire)
    }

    /// Its state and counters.
    pub fn status(&self) -> EngineStatus {
        self.shared.status()
    }

    /// The same for another thread, which does not keep the engine alive.
    pub fn view(&self) -> EngineView {
        EngineView(Arc::downgrade(&self.shared))
    }

    /// Says that no tuple follows: the workers count and emit what is there, and end.
    pub fn close(&self) {
        self.shared.inboxes.iter().for_each(|inbox| inbox.close());
    }

    /// Has the workers end at once. Windows that are not complete are not emitted.
    pub fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.shared.inboxes.iter().for_each(|inbox| inbox.wake());
    }

    /// Waits until the workers have ended, after [`JobEngine::close`] or [`JobEngine::stop`].
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn join(mut self) -> Result<(), EngineError> {
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(ended)) => ended,
            Some(Err(panic)) => Err(EngineError::Panicked { message: message(panic.as_ref()) }),
        }
    }
}

impl Drop for JobEngine {
    fn drop(&mut self) {
        self.stop();
        self.thread.take().map(JoinHandle::join);
    }
}

fn processes(options: &EngineOptions) -> usize {
    options.cluster.as_ref().map_or(1, |cluster| cluster.addresses.len())
}

/// Runs dataflows until one ends by itself.
fn supervise(shared: &Arc<EngineShared>) -> Result<(), EngineError> {
    let (mut deaths, mut counted) = (0, 0);
    loop {
        shared.is_broken.store(false, Ordering::Release);
        let message = match run(shared)? {
            WorkerEnd::Done | WorkerEnd::Stopped => return Ok(()),
            WorkerEnd::Failed(error) => return Err(error),
            // Timely's cluster does not survive the end of a process's workers.
            WorkerEnd::Died(message) if shared.options.cluster.is_some() => {
                return Err(match cluster::is_of_a_lost_connection(&message) {
                    true => EngineError::Disconnected,
                    false => EngineError::Panicked { message },
                });
            }
            WorkerEnd::Died(message) => message,
        };
        if shared.is_stopping.load(Ordering::Acquire) {
            return Ok(());
        }
        let now = shared.inboxes.iter().map(|inbox| inbox.counts().counted_of_all()).sum();
        deaths = if now > counted { 1 } else { deaths + 1 };
        counted = now;
        if deaths == DEATHS_MAX {
            return Err(EngineError::Died { message });
        }
        shared.restarts.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs one dataflow on all workers; the first end of a worker that did not come to the end of its
/// tuples, if there is one.
fn run(shared: &Arc<EngineShared>) -> Result<WorkerEnd, EngineError> {
    let guards = match start(shared) {
        Err(EngineError::Cluster(ClusterError::Stopped)) => return Ok(WorkerEnd::Stopped),
        started => started?,
    };
    // The connections of a cluster end in a panic if another process is gone.
    let joined = catch_unwind(AssertUnwindSafe(|| guards.join()));
    *locked(&shared.links) = ClusterLinks::default();
    match (locked(&shared.first_end).take(), joined) {
        (Some(end), _) => Ok(end),
        (None, Err(_)) => Err(EngineError::Disconnected),
        (None, Ok(ends)) => {
            Ok(ends.into_iter().find_map(Result::err).map_or(WorkerEnd::Done, WorkerEnd::Died))
        }
    }
}

fn start(shared: &Arc<EngineShared>) -> Result<WorkerGuards<()>, EngineError> {
    let threads = shared.options.cores.len();
    let (builders, others): (_, Box<dyn std::any::Any + Send>) = match &shared.options.cluster {
        None => match CommunicationConfig::Process(threads).try_build() {
            Ok(built) => built,
            Err(_) => return Err(EngineError::Workers(threads)),
        },
        Some(options) => {
            let same = same_in_all(&shared.options);
            let stop = &shared.is_stopping;
            let (builders, links, guard) = cluster::connect(options, threads, &same, stop)?;
            *locked(&shared.links) = links;
            (builders, Box::new(guard))
        }
    };
    let first = shared.options.cluster.as_ref().map_or(0, |cluster| cluster.process * threads);
    let shared = Arc::clone(shared);
    let work = move |worker: &mut Worker| {
        let place = worker.index() - first;
        let worked = catch_unwind(AssertUnwindSafe(|| work(worker, place, &shared)));
        let end = match worked {
            Ok(Ok(end)) => end,
            Ok(Err(error)) => WorkerEnd::Failed(error),
            Err(panic) => WorkerEnd::Died(message(panic.as_ref())),
        };
        if !matches!(end, WorkerEnd::Done) {
            shared.broke(end);
        }
        for dataflow in worker.installed_dataflows() {
            worker.drop_dataflow(dataflow);
        }
    };
    let guards = timely::execute::execute_from(builders, others, WorkerConfig::default(), work);
    guards.map_err(|error| EngineError::Thread(io::Error::other(error)))
}

/// The options that all processes of a job have alike.
fn same_in_all(options: &EngineOptions) -> SharedOptions {
    let Query { stream, windows, top } = options.query;
    [
        ("processes", processes(options) as u64),
        ("cores", options.cores.len() as u64),
        ("stream", stream.into()),
        ("length_ns", windows.length_ns()),
        ("slide_ns", windows.slide_ns()),
        ("top", top as u64),
    ]
}

/// The text of a panic.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Runs one worker from its start to its end.
fn work(
    worker: &mut Worker,
    place: usize,
    shared: &EngineShared,
) -> Result<WorkerEnd, EngineError> {
    let EngineShared { options, inboxes, output, .. } = shared;
    let inbox = &inboxes[place];
    bind_to(options.cores[place])?;
    inbox.attach();
    let mut observer = (shared.observers)(place);
    let JobEnds { input, probe, ranked_pairs } = build(worker, options.query, inbox, output);
    let mut input = Some(input);
    let (mut entries, mut count, mut passed) = (Vec::with_capacity(BATCH), 0, 0);
    let is_ending =
        || shared.is_stopping.load(Ordering::Acquire) || shared.is_broken.load(Ordering::Acquire);
    while worker.has_dataflows() {
        if is_ending() {
            return Ok(WorkerEnd::Stopped);
        }
        observer.begin();
        let mut is_idle = true;
        if let Some(handle) = &mut input {
            let taken = inbox.take(BATCH, &mut entries);
            let TakenEntries { lane, end, .. } = taken;
            is_idle = end == taken.begin && taken.pane <= *handle.time();
            count = entries.len();
            // Marks of a ring have to be passed, too.
            if end > taken.begin {
                let entries = std::mem::replace(&mut entries, Vec::with_capacity(BATCH));
                handle.send(EntryBatch { lane, entries, end });
                handle.flush();
            }
            if taken.pane > *handle.time() {
                handle.advance_to(taken.pane);
            }
            if taken.is_end {
                input = None;
                is_idle = false;
            }
        }
        if !is_idle {
            observer.done(WorkStep::HandOver);
        }
        worker.step_or_park(Some(if is_idle { IDLE } else { Duration::ZERO }));
        if !is_idle {
            observer.done(WorkStep::Operator);
            observer.passed(&[WorkStep::Operator], count);
        }
        let time = probe.with_frontier(|frontier| frontier.first().copied());
        let emitted =
            time.map_or(u64::MAX, |time| (time + 1).saturating_sub(options.query.windows.panes()));
        let mut counts = inbox.counts();
        if emitted > passed {
            passed = emitted;
            counts.forget(emitted);
        }
        if counts.pairs().max(ranked_pairs.get()) > options.pairs_max {
            return Err(EngineError::Keys { most: options.pairs_max });
        }
    }
    Ok(WorkerEnd::Done)
}

/// Binds the calling thread to a core.
fn bind_to(core: u32) -> Result<(), EngineError> {
    let mut cores = CpuSet::new();
    let place = usize::try_from(core).unwrap_or(usize::MAX);
    if place < CpuSet::MAX_CPU {
        cores.set(place);
    }
    let bound = sched_setaffinity(None, &cores);
    bound.map_err(|source| EngineError::Core { core, source: source.into() })
}

/// The cores that this process may use; none if the system does not say.
pub fn allowed_cores() -> Vec<u32> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).map(|core| core as u32).collect()
}
