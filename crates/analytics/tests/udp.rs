//! Sources send to an engine over loopback sockets, by a relay that loses, repeats and reorders
//! datagrams in both directions. The results are those of the definition.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use niclab_analytics::cost::{StepClock, StepObserver, StepTotals, WorkStep};
use niclab_analytics::definition::{Query, WindowResult, results};
use niclab_analytics::input::{
    Generator, GeneratorSpec, InputStatus, LocalTuple, UdpInput, UdpOptions,
};
use niclab_analytics::job::{EngineOptions, JobEngine, allowed_cores};
use niclab_analytics::receiver::{ReceiverCounters, ReceiverOptions};
use niclab_analytics::source::{NewTuple, Sender, SenderOptions};
use niclab_analytics::window::Windows;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn query() -> Query {
    Query { stream: 1, windows: Windows::new(100_000_000, 20_000_000).unwrap(), top: 10 }
}

fn local() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    socket
}

/// Passes datagrams on between any number of clients and a server, until it is stopped: of 100 it
/// loses 20, repeats 5, and holds 10 back behind later ones.
fn relay(front: &UdpSocket, server: SocketAddr, stop: &AtomicBool) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
    let mut backs: HashMap<SocketAddr, UdpSocket> = HashMap::new();
    let mut held: Vec<(bool, SocketAddr, Vec<u8>)> = Vec::new();
    let mut bytes = [0; 2_048];
    while !stop.load(Ordering::Relaxed) {
        let mut moved = Vec::new();
        while let Ok((len, client)) = front.recv_from(&mut bytes) {
            moved.push((true, client, bytes[..len].to_vec()));
            if moved.len() == 16 {
                break;
            }
        }
        for (client, back) in &backs {
            back.set_nonblocking(true).unwrap();
            while let Ok(len) = back.recv(&mut bytes) {
                moved.push((false, *client, bytes[..len].to_vec()));
            }
        }
        let mut passed = std::mem::take(&mut held);
        for datagram in moved {
            match random.random_range(0..100) {
                0..20 => {}
                20..30 => held.push(datagram),
                30..35 => passed.extend([datagram.clone(), datagram]),
                _ => passed.insert(0, datagram),
            }
        }
        for (to_server, client, datagram) in passed {
            let back = backs.entry(client).or_insert_with(|| {
                let back = UdpSocket::bind("127.0.0.1:0").unwrap();
                back.connect(server).unwrap();
                back
            });
            match to_server {
                true => _ = back.send(&datagram),
                false => _ = front.send_to(&datagram, client),
            }
        }
    }
}

/// Sends tuples of a source until all of them are safe.
fn send(to: SocketAddr, source: u64, tuples: &[LocalTuple]) {
    let (socket, started) = (local(), Instant::now());
    socket.connect(to).unwrap();
    let now_ns = || started.elapsed().as_nanos() as u64;
    let mut sender = Sender::new(SenderOptions { window: 512, ..SenderOptions::new(source) });
    let (mut rest, mut frame, mut bytes) = (tuples.iter().peekable(), Vec::new(), [0; 2_048]);
    while !sender.is_finished() {
        assert!(started.elapsed() < Duration::from_secs(100), "source {source} is not finished");
        while let Some(&&LocalTuple { stream, key, time_ns }) = rest.peek() {
            let payload = &[7; 16];
            if sender.offer(&NewTuple { stream, key, time_ns, payload }).is_err() {
                break;
            }
            rest.next();
        }
        if rest.peek().is_none() {
            sender.end();
        }
        while sender.frame(now_ns(), &mut frame) {
            let _ = socket.send(&frame);
        }
        if let Ok(len) = socket.recv(&mut bytes) {
            sender.acknowledge(now_ns(), &bytes[..len]).unwrap();
        }
    }
}

/// The tuples of each source.
fn sources(count: u64, tuples: u64) -> Vec<Vec<LocalTuple>> {
    let spec = |seed| GeneratorSpec {
        tuples,
        keys: 500,
        exponent: 1.1,
        start_ns: 1_000_000_000,
        interval_ns: 50_000,
        seed,
    };
    (0..count).map(|seed| Generator::new(spec(seed)).unwrap().collect()).collect()
}

/// Counts what sources send, by a relay or without one; the results, and the counters of the input.
fn counted(
    sources: &[Vec<LocalTuple>],
    is_bad: bool,
    observer: impl StepObserver + Clone + Sync + 'static,
) -> (Vec<WindowResult>, ReceiverCounters) {
    let (sender, receiver) = mpsc::channel();
    let cores = allowed_cores().into_iter().cycle().take(2).collect();
    let options = EngineOptions { inbox_entries: 2_000, ..EngineOptions::new(query(), cores) };
    let of_workers = observer.clone();
    let observers = Box::new(move |_| -> Box<dyn StepObserver> { Box::new(of_workers.clone()) });
    let emit = Box::new(move |result| sender.send(result).unwrap());
    let engine = JobEngine::start(options, emit, observers).unwrap();
    let input = UdpInput::bind(UdpOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        receiver: ReceiverOptions { sources_awaited: sources.len(), ..ReceiverOptions::default() },
        until_end: true,
    })
    .unwrap();
    let (status, stop, is_over) =
        (InputStatus::default(), AtomicBool::new(false), AtomicBool::new(false));
    let (front, at) = (local(), input.address().unwrap());
    let to = if is_bad { front.local_addr().unwrap() } else { at };
    thread::scope(|scope| {
        scope.spawn(|| {
            if is_bad {
                relay(&front, at, &is_over)
            }
        });
        for (source, tuples) in sources.iter().enumerate() {
            scope.spawn(move || send(to, source as u64, tuples));
        }
        let mut observer = observer.clone();
        input.run(&engine, &stop, &status, &mut observer).unwrap();
        is_over.store(true, Ordering::Relaxed);
    });
    engine.join().unwrap();
    (receiver.try_iter().collect(), status.read().counters)
}

fn expected(sources: &[Vec<LocalTuple>]) -> Vec<WindowResult> {
    let all = sources.iter().flatten().map(|tuple| (tuple.stream, tuple.key, tuple.time_ns));
    results(&query(), all)
}

#[test]
fn counts_are_exact_over_a_bad_network() {
    let sources = sources(3, 10_000);
    let (found, counters) = counted(&sources, true, ());
    assert_eq!(found, expected(&sources));
    assert_eq!((counters.taken, counters.late, counters.malformed), (30_000, 0, 0));
    assert!(counters.duplicates > 500, "{counters:?}");
}

/// A clock that can be copied to every thread.
#[derive(Clone)]
struct Clock(Arc<StepTotals>, Arc<std::sync::Mutex<HashMap<thread::ThreadId, StepClock>>>);

impl Clock {
    fn of_thread(&self, work: impl FnOnce(&mut StepClock)) {
        let mut all = self.1.lock().unwrap();
        work(
            all.entry(thread::current().id())
                .or_insert_with(|| StepClock::new(Arc::clone(&self.0))),
        );
    }
}

impl StepObserver for Clock {
    fn begin(&mut self) {
        self.of_thread(StepClock::begin);
    }

    fn done(&mut self, step: WorkStep) {
        self.of_thread(|clock| clock.done(step));
    }

    fn passed(&mut self, steps: &[WorkStep], tuples: usize) {
        self.of_thread(|clock| clock.passed(steps, tuples));
    }
}

#[test]
fn the_time_of_a_tuple_is_divided_into_steps() {
    let sources = sources(1, 20_000);
    let clock = Clock(Arc::default(), Arc::default());
    let totals = Arc::clone(&clock.0);
    let (found, _) = counted(&sources, false, clock);
    assert_eq!(found, expected(&sources));
    for step in WorkStep::ALL {
        let (time_ns, tuples) = totals.of(step);
        assert!(time_ns > 0 && tuples == 20_000, "{}: {time_ns} ns, {tuples}", step.name());
    }
}

#[test]
fn datagrams_of_others_are_counted_and_change_nothing() {
    let sources = sources(1, 2_000);
    let (sender, receiver) = mpsc::channel();
    let options = EngineOptions::new(query(), vec![allowed_cores()[0]]);
    let emit = Box::new(move |result| sender.send(result).unwrap());
    let engine = JobEngine::start(options, emit, Box::new(|_| Box::new(()))).unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let input = UdpInput::bind(UdpOptions {
        listen,
        receiver: ReceiverOptions::default(),
        until_end: true,
    })
    .unwrap();
    let (status, stop, at) =
        (InputStatus::default(), AtomicBool::new(false), input.address().unwrap());
    thread::scope(|scope| {
        scope.spawn(|| {
            let other = local();
            for len in [0, 1, 15, 16, 48, 1_472, 1_473, 9_000] {
                other.send_to(&vec![b'n'; len], at).unwrap();
            }
            send(at, 1, &sources[0]);
        });
        input.run(&engine, &stop, &status, &mut ()).unwrap();
    });
    engine.join().unwrap();
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), expected(&sources));
    assert_eq!(status.read().counters.malformed, 8);
}
