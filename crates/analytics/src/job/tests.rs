//! The job on timely dataflow against the definition, with workers that die and stall.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use super::*;
use crate::cost::{StepObserver, WorkStep};
use crate::definition::{Query, WindowResult, results};
use crate::inbox::Entry;
use crate::partition;
use crate::window::Windows;

/// The cores that this process may use, in turn.
fn cores(workers: usize) -> Vec<u32> {
    allowed_cores().into_iter().cycle().take(workers).collect()
}

/// Tuples of three streams, with keys that are not equally frequent.
fn tuples(count: u64) -> impl Iterator<Item = (u16, u64, u64)> {
    (0..count).map(|at| {
        let mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        ((mixed % 3) as u16, mixed % 101 % (1 + mixed % 23), at * 10_000)
    })
}

fn query() -> Query {
    Query { stream: 1, windows: Windows::new(50_000_000, 10_000_000).unwrap(), top: 5 }
}

type Observers = Box<dyn Fn(usize) -> Box<dyn StepObserver> + Send + Sync>;

/// Counts tuples on an engine; its results, and how often it was started again.
fn counted(
    workers: usize,
    tuples: impl Iterator<Item = (u16, u64, u64)>,
    inbox_entries: usize,
    observers: Observers,
) -> (Vec<WindowResult>, u64) {
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let emit = Box::new(move |result| sender.lock().unwrap().send(result).unwrap());
    let options = EngineOptions { inbox_entries, ..EngineOptions::new(query(), cores(workers)) };
    let engine = JobEngine::start(options, emit, observers).unwrap();
    let places = engine.places();
    for (stream, key, time_ns) in tuples {
        let pane = query().windows.pane(time_ns);
        let place = usize::from(places[partition::part(key)]);
        while engine.inboxes()[place].room(0) == 0 {
            thread::sleep(Duration::from_micros(50));
        }
        engine.inboxes()[place].hand_over(0, &mut vec![Entry { key, pane, stream }], 0);
        engine.inboxes().iter().for_each(|inbox| inbox.hand_over(0, &mut Vec::new(), pane));
    }
    engine.close();
    while !engine.is_over() {
        thread::sleep(Duration::from_millis(1));
    }
    let restarts = engine.status().restarts;
    engine.join().unwrap();
    (receiver.try_iter().collect(), restarts)
}

fn no_observer() -> Observers {
    Box::new(|_| Box::new(()))
}

#[test]
fn results_are_those_of_the_definition() {
    for workers in 1..=3 {
        let (found, restarts) = counted(workers, tuples(20_000), 65_536, no_observer());
        assert_eq!((found, restarts), (results(&query(), tuples(20_000)), 0), "{workers} workers");
    }
}

/// Panics after so many steps of a worker, in all workers together.
struct Deadly {
    steps: Arc<AtomicU64>,
    every: u64,
}

impl StepObserver for Deadly {
    fn begin(&mut self) {}

    fn passed(&mut self, _: &[WorkStep], _: usize) {}

    fn done(&mut self, step: WorkStep) {
        let steps = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(!steps.is_multiple_of(self.every), "this worker dies of step {steps}, {step:?}");
    }
}

#[test]
fn counts_stay_exact_when_workers_die() {
    for every in [37, 100, 300] {
        let steps = Arc::new(AtomicU64::new(0));
        let observers: Observers =
            Box::new(move |_| Box::new(Deadly { steps: Arc::clone(&steps), every }));
        let (found, restarts) = counted(2, tuples(20_000), 300, observers);
        assert_eq!(found, results(&query(), tuples(20_000)), "dies every {every} steps");
        assert!(restarts > 0, "dies every {every} steps");
    }
}

/// Sleeps once for a while.
struct Stalling(bool);

impl StepObserver for Stalling {
    fn begin(&mut self) {}

    fn passed(&mut self, _: &[WorkStep], _: usize) {}

    fn done(&mut self, _: WorkStep) {
        if std::mem::take(&mut self.0) {
            thread::sleep(Duration::from_millis(300));
        }
    }
}

#[test]
fn a_worker_that_stalls_has_the_others_wait_and_loses_nothing() {
    let observers: Observers = Box::new(|worker| Box::new(Stalling(worker == 1)));
    let (found, restarts) = counted(2, tuples(5_000), 64, observers);
    assert_eq!((found, restarts), (results(&query(), tuples(5_000)), 0));
}

#[test]
fn a_worker_that_always_dies_ends_the_engine() {
    struct Dead;
    impl StepObserver for Dead {
        fn begin(&mut self) {
            panic!("no way");
        }
        fn done(&mut self, _: WorkStep) {}
        fn passed(&mut self, _: &[WorkStep], _: usize) {}
    }
    let options = EngineOptions::new(query(), cores(1));
    let engine = JobEngine::start(options, Box::new(|_| {}), Box::new(|_| Box::new(Dead))).unwrap();
    let error = engine.join().unwrap_err().to_string();
    assert_eq!(error, "a worker died 8 times without counting a tuple: no way");
}

#[test]
fn too_many_keys_end_the_engine_with_a_message() {
    let options = EngineOptions { pairs_max: 9, ..EngineOptions::new(query(), cores(1)) };
    let engine = JobEngine::start(options, Box::new(|_| {}), no_observer()).unwrap();
    let mut entries = (0..10).map(|key| Entry { key, pane: 0, stream: 1 }).collect();
    engine.inboxes()[0].hand_over(0, &mut entries, 0);
    let error = engine.join().unwrap_err().to_string();
    assert!(error.starts_with("more than 9 pairs of pane and key on one worker"), "{error}");
}

/// A field of the process's status in the system, MiB.
fn memory_mib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').trim_end_matches("kB").trim().parse::<u64>().unwrap() / 1_024
}

#[test]
fn many_windows_of_distant_panes_need_little_memory() {
    let windows = Windows::new(4_096_000, 1_000).unwrap();
    let query = Query { stream: 1, windows, top: 1 };
    let emitted = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&emitted);
    let emit = Box::new(move |_| _ = count.fetch_add(1, Ordering::Relaxed));
    let options = EngineOptions::new(query, cores(1));
    let engine = JobEngine::start(options, emit, no_observer()).unwrap();
    let before_mib = memory_mib("VmRSS");
    // Each pane has 4,096 windows of its own.
    let mut entries = (0..5_000).map(|at| Entry { key: 1, pane: at * 4_096, stream: 1 }).collect();
    engine.inboxes()[0].hand_over(0, &mut entries, 0);
    engine.close();
    while emitted.load(Ordering::Relaxed) < 10_000 {
        assert!(!engine.is_over());
        thread::sleep(Duration::from_millis(1));
    }
    let used_mib = memory_mib("VmHWM").saturating_sub(before_mib);
    assert!(used_mib < 300, "{used_mib} MiB for 5,000 counts");
    engine.stop();
    engine.join().unwrap();
}

/// Addresses for two processes.
fn addresses() -> Vec<String> {
    let free = |_| std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    (0..2).map(free).map(|address| address.to_string()).collect()
}

/// Starts a process of two, with a worker.
fn process(
    process: usize,
    addresses: &[String],
    pairs_max: usize,
    observers: Observers,
) -> JobEngine {
    let patience = Duration::from_secs(20);
    let cluster = Some(ClusterOptions { process, addresses: addresses.to_vec(), patience });
    let options = EngineOptions { cluster, pairs_max, ..EngineOptions::new(query(), cores(1)) };
    JobEngine::start(options, Box::new(|_| {}), observers).unwrap()
}

/// How engines end that end by themselves; an empty text for one without an error.
fn ended(engines: [JobEngine; 2]) -> [String; 2] {
    let until = std::time::Instant::now() + Duration::from_secs(30);
    engines.map(|engine| {
        while !engine.is_over() {
            assert!(std::time::Instant::now() < until, "an engine does not end");
            thread::sleep(Duration::from_millis(1));
        }
        engine.join().map_or_else(|error| error.to_string(), |()| String::new())
    })
}

#[test]
fn a_worker_that_ranks_for_other_processes_keeps_the_limit_of_pairs() {
    let addresses = addresses();
    let engines = [0, 1].map(|number| process(number, &addresses, 9, no_observer()));
    // Keys of worker 1, from both processes: 6 pairs of each, and 12 that worker 1 ranks.
    let keys: Vec<u64> = (0..).filter(|key| partition::worker(*key, 2) == 1).take(3).collect();
    for (number, engine) in engines.iter().enumerate() {
        let entry = |pane| keys.iter().map(move |&key| Entry { key, pane, stream: 1 });
        let mut entries = [0, 2].into_iter().flat_map(|at| entry(at + number as u64)).collect();
        engine.inboxes()[0].hand_over(0, &mut entries, 0);
        // These panes are complete, and no window is.
        engine.inboxes()[0].hand_over(0, &mut Vec::new(), 4);
    }
    let [first, second] = ended(engines);
    assert!(second.starts_with("more than 9 pairs of pane and key on one worker"), "{second}");
    assert!(first.starts_with("the connection with another process is lost"), "{first}");
}

/// Panics after the worker has run for a while.
struct Panicking(std::time::Instant);

impl StepObserver for Panicking {
    fn begin(&mut self) {
        assert!(self.0.elapsed() < Duration::from_millis(200), "no way");
    }
    fn done(&mut self, _: WorkStep) {}
    fn passed(&mut self, _: &[WorkStep], _: usize) {}
}

#[test]
fn a_process_that_ends_early_ends_the_others() {
    for (early, dies) in [(0, false), (1, false), (0, true), (1, true)] {
        let addresses = addresses();
        let engines = [0, 1].map(|number| {
            let observers: Observers = match dies && number == early {
                true => Box::new(|_| Box::new(Panicking(std::time::Instant::now()))),
                false => no_observer(),
            };
            process(number, &addresses, 99, observers)
        });
        if !dies {
            thread::sleep(Duration::from_millis(200));
            engines[early].stop();
        }
        let texts = ended(engines);
        let expected = if dies { "a thread of the job panicked: no way" } else { "" };
        assert!(texts[early].starts_with(expected), "{early} {dies}: {texts:?}");
        assert_eq!(texts[early].is_empty(), !dies, "{early} {dies}: {texts:?}");
        let other = &texts[1 - early];
        assert!(other.starts_with("the connection with another process is lost"), "{texts:?}");
    }
}

#[test]
fn impossible_engines_are_refused() {
    let start = |cores| {
        let options = EngineOptions::new(query(), cores);
        JobEngine::start(options, Box::new(|_| {}), no_observer()).err().unwrap().to_string()
    };
    let expected = "0 workers: give 1 to 64 in all processes together";
    assert_eq!(start(Vec::new()), expected);
    assert_eq!(start(vec![0; 65]), expected.replace("0 workers", "65 workers"));
    let options = EngineOptions::new(query(), vec![u32::MAX]);
    let engine = JobEngine::start(options, Box::new(|_| {}), no_observer()).unwrap();
    assert!(engine.join().unwrap_err().to_string().starts_with("core 4294967295: "));
}

#[test]
fn processes_of_a_cluster_count_together() {
    let (addresses, (sender, receiver)) = (addresses(), mpsc::channel());
    let run = |process: usize| {
        let (addresses, sender) = (addresses.clone(), Mutex::new(sender.clone()));
        thread::spawn(move || {
            let patience = Duration::from_secs(20);
            let cluster = Some(ClusterOptions { process, addresses, patience });
            let options = EngineOptions { cluster, ..EngineOptions::new(query(), cores(2)) };
            let emit = Box::new(move |of| sender.lock().unwrap().send((process, of)).unwrap());
            let engine = JobEngine::start(options, emit, no_observer()).unwrap();
            // Every second tuple comes to this process.
            for (_, (stream, key, time_ns)) in
                tuples(10_000).enumerate().filter(|(at, _)| at % 2 == process)
            {
                let pane = query().windows.pane(time_ns);
                let place = usize::from(engine.places()[partition::part(key)]);
                engine.inboxes()[place].hand_over(0, &mut vec![Entry { key, pane, stream }], 0);
                engine.inboxes().iter().for_each(|inbox| inbox.hand_over(0, &mut Vec::new(), pane));
            }
            engine.close();
            engine.join().unwrap();
        })
    };
    [run(0), run(1)].into_iter().for_each(|thread| thread.join().unwrap());
    let found: Vec<(usize, WindowResult)> = receiver.try_iter().collect();
    assert!(found.iter().all(|(process, _)| *process == 0));
    let found: Vec<WindowResult> = found.into_iter().map(|(_, result)| result).collect();
    assert_eq!(found, results(&query(), tuples(10_000)));
}
