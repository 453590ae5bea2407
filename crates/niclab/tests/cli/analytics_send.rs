//! `niclab analytics send`: slow inputs, receivers that lose their state, ids that were used, and
//! sources that are split by key.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use niclab_analytics::partition;
use niclab_analytics::receiver::{Receiver, ReceiverOptions, TupleSink};
use niclab_analytics::tuple::{Frame, Tuple};

use crate::analytics::Started;
use crate::command::{Ended, call, niclab, run, scratch, start};

/// A receiver, and what came to it.
struct Receiving {
    address: SocketAddr,
    came: Arc<Mutex<Came>>,
    /// It is to begin again, with an empty memory.
    forget: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Keys of tuples, in their order, and frames of progress, by source.
#[derive(Default)]
struct Came {
    keys: BTreeMap<u64, Vec<u64>>,
    progress: u64,
    source: u64,
}

impl TupleSink for Came {
    fn take(&mut self, tuple: &Tuple<'_>) -> bool {
        self.keys.entry(self.source).or_default().push(tuple.key);
        true
    }
}

impl Receiving {
    fn new() -> Receiving {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let address = socket.local_addr().unwrap();
        let came = Arc::new(Mutex::new(Came::default()));
        let [forget, stop] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let shared = (Arc::clone(&came), Arc::clone(&forget), Arc::clone(&stop));
        let thread = Some(thread::spawn(move || receive(&socket, shared)));
        Receiving { address, came, forget, stop, thread }
    }

    fn to(&self) -> String {
        self.address.to_string()
    }

    /// Waits until what came is as it is to be.
    fn wait(&self, is_there: impl Fn(&Came) -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while !is_there(&self.came.lock().unwrap()) {
            assert!(Instant::now() < until, "it does not come");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn receive(
    socket: &UdpSocket,
    (came, forget, stop): (Arc<Mutex<Came>>, Arc<AtomicBool>, Arc<AtomicBool>),
) {
    let mut receiver = Receiver::new(ReceiverOptions::default());
    let (mut bytes, mut answer) = ([0; 2_048], Vec::new());
    while !stop.load(Ordering::Relaxed) {
        if forget.swap(false, Ordering::Relaxed) {
            receiver = Receiver::new(ReceiverOptions::default());
        }
        let Ok((len, from)) = socket.recv_from(&mut bytes) else { continue };
        let mut came = came.lock().unwrap();
        let (source, frame) = Frame::parse(&bytes[..len]).unwrap();
        came.source = source;
        came.progress += u64::from(matches!(frame, Frame::Progress(_)));
        receiver.receive(0, &bytes[..len], &mut *came).unwrap();
        receiver.write_acknowledgement(source, 1_024, len, &mut answer);
        let _ = socket.send_to(&answer, from);
    }
}

/// A line of a tuple.
fn line(key: u64, time_ns: u64) -> String {
    format!("{{\"key\": {key}, \"time_ns\": {time_ns}}}\n")
}

#[test]
fn a_line_leaves_at_once_and_a_source_without_lines_says_that_it_is_there() {
    let (receiving, listener) = (Receiving::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let input = format!("json-tcp:{}", listener.local_addr().unwrap());
    let to = receiving.to();
    let sending =
        start(niclab(&["analytics", "send", "--to", &to, "--source", "1", "--input", &input]));
    let mut lines = listener.accept().unwrap().0;
    for at in 0..3 {
        lines.write_all(line(at, at).as_bytes()).unwrap();
        receiving.wait(|came| came.keys.get(&1).is_some_and(|keys| keys.len() as u64 == at + 1));
    }
    let before = receiving.came.lock().unwrap().progress;
    receiving.wait(|came| came.progress >= before + 2);
    drop(lines);
    sending.end().with(0, &["3 tuples safe in ", ", 0 sent again"]);
}

#[test]
fn a_receiver_that_was_started_again_is_reported() {
    let (receiving, listener) = (Receiving::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let input = format!("json-tcp:{}", listener.local_addr().unwrap());
    let to = receiving.to();
    let sending =
        start(niclab(&["analytics", "send", "--to", &to, "--source", "1", "--input", &input]));
    let mut lines = listener.accept().unwrap().0;
    lines.write_all(line(1, 1).as_bytes()).unwrap();
    receiving.wait(|came| !came.keys.is_empty());
    // The acknowledgement has arrived when the next progress comes.
    let before = receiving.came.lock().unwrap().progress;
    receiving.wait(|came| came.progress > before);
    receiving.forget.store(true, Ordering::Relaxed);
    sending.end().with(9, &["the receiver has lost its state (was it started again?)"]);
}

fn send(to: &str, arguments: &[&str]) -> Ended {
    call(&[&["analytics", "send", "--to", to], arguments].concat())
}

#[test]
fn an_id_that_was_used_is_refused_with_a_remedy() {
    let receiving = Receiving::new();
    let to = receiving.to();
    send(&to, &["--source", "1", "--tuples", "100"]).with(0, &["100 tuples safe"]);
    let used = "a source with the id 1 has sent tuples there before; give another --source";
    send(&to, &["--source", "1", "--tuples", "100"]).with(9, &[used]);
    send(&to, &["--source", "2", "--tuples", "100"]).with(0, &["100 tuples safe"]);
    // Without a tuple it has an end alone.
    send(&to, &["--source", "3", "--tuples", "0"]).with(0, &["0 tuples safe"]);
    send(&to, &["--source", "3", "--tuples", "0"]).with(9, &["give another --source"]);
}

#[test]
fn a_wrong_line_is_named_and_the_tuples_before_it_are_counted() {
    let place = scratch();
    let good = line(1, 5) + &line(2, 7);
    for (wrong, message) in [
        (line(1, 6), "json:bad.jsonl: line 3: time_ns is 6 after 7; sort the lines by time_ns"),
        ("wrong\n".to_owned(), "json:bad.jsonl: line 3: expected value"),
    ] {
        let mut udp = Started::new(&["--input", "udp:127.0.0.1:0", "--until-end"]);
        let to = udp.word("tuples from udp:");
        fs::write(place.path().join("bad.jsonl"), good.clone() + &wrong + &good).unwrap();
        let mut command = niclab(&["analytics", "send", "--to", &to, "--source", "1"]);
        command.args(["--input", "json:bad.jsonl"]).current_dir(place.path());
        run(command).with(3, &["2 tuples safe in ", message]);
        let (code, _, err) = udp.end();
        assert!(code == Some(0) && err.contains("2 tuples, 0 late"), "{code:?} {err}");
    }
}

#[test]
fn sources_are_split_by_key() {
    let receiving = Receiving::new();
    let split = ["--source", "5", "--split", "3", "--tuples", "3000", "--keys", "50"];
    send(&receiving.to(), &split).with(0, &["3,000 tuples safe"]);
    let came = receiving.came.lock().unwrap();
    assert_eq!(came.keys.keys().copied().collect::<Vec<_>>(), [1_280, 1_281, 1_282]);
    assert_eq!(came.keys.values().map(Vec::len).sum::<usize>(), 3_000);
    for (source, keys) in &came.keys {
        let part = (source & 0xff) as usize;
        assert!(keys.iter().all(|key| partition::worker(*key, 3) == part), "{source}: {keys:?}");
    }
    drop(came);
    let large = (1_u64 << 56).to_string();
    send("127.0.0.1:1", &["--source", &large, "--split", "2"])
        .with(2, &["with --split give a number below 2^56"]);
}

#[test]
fn split_sources_have_the_results_of_the_generator() {
    let generator = ["--tuples", "20000", "--keys", "2", "--interval-ns", "1000000"];
    let alone = call(&[&["analytics", "--input", "generator"], &generator[..]].concat());
    assert_eq!(alone.code, Some(0), "{alone:?}");
    let awaited = ["--input", "udp:127.0.0.1:0", "--until-end", "--sources", "4"];
    let mut udp = Started::new(&awaited);
    let to = udp.word("tuples from udp:");
    // With two keys at most two of the four sources have tuples.
    let sent = send(&to, &[&["--source", "5", "--split", "4"], &generator[..]].concat());
    sent.with(0, &["20,000 tuples safe"]);
    let (code, out, err) = udp.end();
    assert_eq!((code, out), (Some(0), alone.out), "{err}");
}
