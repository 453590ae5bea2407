//! The server over sockets: many clients, slow ones, half requests, limits, and its end.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::thread::sched_getaffinity;

use super::*;
use crate::kvs::transport::shared::Udp;

/// Far more than any answer takes, on any machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server on the loopback, ended with its value.
struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<ServerTotals, ServerError>>>,
}

fn options() -> ServerOptions {
    let set = sched_getaffinity(None).unwrap();
    let mut cores = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
    // Two threads, be it on one core.
    let first = cores.next().unwrap() as u32;
    ServerOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        udp: Udp::OnLoopback,
        cores: vec![first, cores.next().map_or(first, |core| core as u32)],
        partitions: 2,
        spread: Spread::Secret,
        memory_bytes: 64 << 20,
        connections_max: 100,
        idle_timeout: None,
        buffers_bytes_max: 64 << 20,
    }
}

fn start(options: ServerOptions) -> Running {
    let server = Server::bind(options).unwrap();
    let (address, stop) = (server.address(), Arc::new(AtomicBool::new(false)));
    let thread = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || server.run(&stop).map(|over| over.ended())
    });
    Running { address, stop, thread: Some(thread) }
}

impl Running {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn end(mut self) -> ServerTotals {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap().unwrap()
    }

    /// A figure of `stats`.
    fn figure(&self, name: &str) -> u64 {
        let mut stream = self.connect();
        let reported = ask(&mut stream, b"stats\r\n", b"END\r\n");
        let line = format!("STAT {name} ");
        let at = reported
            .split("\r\n")
            .find_map(|reported| reported.strip_prefix(&line))
            .unwrap()
            .to_owned();
        at.parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Says something and reads until the answer ends so.
#[track_caller]
fn ask(stream: &mut TcpStream, message: &[u8], end: &[u8]) -> String {
    stream.write_all(message).unwrap();
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    while !all.ends_with(end) {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&piece[..count]);
    }
    String::from_utf8(all).unwrap()
}

/// Waits until `so` holds.
#[track_caller]
fn wait_until(so: impl Fn() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn requests_are_answered_whole_half_and_many_at_once() {
    let server = start(options());
    let mut one = server.connect();
    assert_eq!(ask(&mut one, b"set a 0 0 3\r\nabc\r\n", b"\r\n"), "STORED\r\n");
    // Another connection is another thread's, and sees the same items.
    let mut other = server.connect();
    other.set_nodelay(true).unwrap();
    for piece in [&b"get"[..], b" a", b"\r"] {
        other.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(ask(&mut other, b"\n", b"END\r\n"), "VALUE a 0 3\r\nabc\r\nEND\r\n");
    // Answers that are too many for one turn and not for the kernel's buffers: it gives way to
    // others and comes back, though nothing more comes.
    let value = "v".repeat(60);
    ask(&mut other, format!("set v 0 0 60\r\n{value}\r\n").as_bytes(), b"\r\n");
    let message = "get v\r\n".repeat(9_000) + "mn\r\n";
    let reported = ask(&mut one, message.as_bytes(), b"MN\r\n");
    let each = format!("VALUE v 0 60\r\n{value}\r\nEND\r\n");
    assert!(reported == each.repeat(9_000) + "MN\r\n");
    let mut binary = server.connect();
    binary.write_all(&[&[0x80, 0x0a][..], &[0; 22]].concat()).unwrap();
    let mut answer = [0; 24];
    binary.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..2], [0x81, 0x0a]);
    let large = vec![b'x'; 1 << 20];
    let message = [&b"set l 0 0 1048576\r\n"[..], &large, b"\r\nget l\r\n"].concat();
    assert_eq!(ask(&mut one, &message, b"END\r\n").len(), 8 + 19 + (1 << 20) + 2 + 5);
    one.write_all(b"quit\r\n").unwrap();
    assert_eq!(one.read(&mut answer).unwrap(), 0);
    let ended = server.end();
    assert_eq!(ended.server.total_connections, 3);
    assert_eq!(ended.server.curr_connections, 0);
    assert_eq!(ended.statistics.counters.cmd_set, 3);
}

#[test]
fn a_client_that_does_not_read_its_answers_delays_no_other() {
    let server = start(options());
    let mut slow = server.connect();
    let large = vec![b'x'; 1 << 20];
    ask(&mut slow, &[&b"set l 0 0 1048576\r\n"[..], &large, b"\r\n"].concat(), b"STORED\r\n");
    // Answers of 4 GB are asked for: the server takes some, and then no more of what is said.
    let message = "get l\r\n".repeat(4000);
    slow.write_all(message.as_bytes()).unwrap();
    slow.set_nonblocking(true).unwrap();
    wait_until(|| {
        let more = (&slow).write(message.as_bytes());
        more.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    });
    let mut others: Vec<TcpStream> = (0..8).map(|_| server.connect()).collect();
    for other in &mut others {
        assert_eq!(ask(other, b"mn\r\n", b"\r\n"), "MN\r\n");
    }
    assert!(server.figure("bytes_written") < 64 << 20);
    // When it reads again, it is served again.
    slow.set_nonblocking(false).unwrap();
    let mut read = vec![0; 1 << 20];
    for _ in 0..30 {
        slow.read_exact(&mut read).unwrap();
    }
    assert_eq!(server.end().server.overrun_kicks, 0);
}

#[test]
fn all_together_hold_no_more_than_they_may() {
    let server = start(ServerOptions { buffers_bytes_max: 4 << 20, ..options() });
    let half = [&b"set l 0 0 1048576\r\n"[..], &vec![b'x'; 1 << 19]].concat();
    let mut clients: Vec<TcpStream> = (0..20).map(|_| server.connect()).collect();
    for client in &mut clients {
        // One that is disconnected meanwhile has had its answer.
        let _ = client.write_all(&half);
    }
    wait_until(|| server.figure("overrun_kicks") > 0);
    let mut other = server.connect();
    assert_eq!(ask(&mut other, b"set s 0 0 1\r\nx\r\n", b"\r\n"), "STORED\r\n");
    drop(clients);
    wait_until(|| server.figure("curr_connections") == 2);
    let whole = [&half[..], &vec![b'x'; 1 << 19], b"\r\n"].concat();
    assert_eq!(ask(&mut other, &whole, b"\r\n"), "STORED\r\n", "what they held is free again");
}

#[test]
fn concurrent_counts_add_up() {
    const CLIENTS: usize = 4;
    const EACH: usize = 3000;
    let server = start(options());
    ask(
        &mut server.connect(),
        b"set n 0 0 1\r\n0\r\nset c 0 0 1\r\n0\r\n",
        b"STORED\r\nSTORED\r\n",
    );
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut stream = server.connect();
                let message = "incr n 1 noreply\r\n".repeat(EACH) + "mn\r\n";
                assert_eq!(ask(&mut stream, message.as_bytes(), b"\r\n"), "MN\r\n");
                // The same by comparing: whoever was too late tries again.
                for _ in 0..EACH / 100 {
                    while !add_one(&mut stream) {}
                }
            });
        }
    });
    let reported = ask(&mut server.connect(), b"incr n 0\r\nincr c 0\r\nmn\r\n", b"MN\r\n");
    assert_eq!(reported, format!("{}\r\n{}\r\nMN\r\n", CLIENTS * EACH, CLIENTS * EACH / 100));
}

/// Reads the number under `c` and stores the next one, unless somebody was faster.
fn add_one(stream: &mut TcpStream) -> bool {
    let reported = ask(stream, b"gets c\r\n", b"END\r\n");
    let words: Vec<&str> = reported.split_whitespace().collect();
    let (cas, next) = (words[4], (words[5].parse::<u64>().unwrap() + 1).to_string());
    let message = format!("cas c 0 0 {} {cas}\r\n{next}\r\n", next.len());
    ask(stream, message.as_bytes(), b"\r\n") == "STORED\r\n"
}

#[test]
fn ten_thousand_connections_are_served() {
    // Both ends are in this process: twice as many descriptors.
    const COUNT: usize = 10_000;
    let test = "ten_thousand_connections_are_served";
    if sockets::allow_descriptors(2 * COUNT + 100, 2).is_err() {
        println!("SKIP {test}: needs {} open files (ulimit -n)", 2 * COUNT + 180);
        return;
    }
    let server = start(ServerOptions { connections_max: COUNT + 1, ..options() });
    let mut clients: Vec<TcpStream> = (0..COUNT).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let message = format!("set k{number} 0 0 1\r\nx\r\n");
        client.write_all(message.as_bytes()).unwrap();
    }
    for client in &mut clients {
        assert_eq!(ask(client, b"", b"\r\n"), "STORED\r\n");
    }
    assert_eq!(server.figure("curr_connections"), COUNT as u64 + 1);
    drop(clients);
    wait_until(|| server.figure("curr_connections") == 1);
    assert_eq!(server.end().statistics.curr_items, COUNT as u64);
}

#[test]
fn one_connection_too_many_is_reported() {
    let server = start(ServerOptions { connections_max: 2, ..options() });
    let mut clients = [server.connect(), server.connect()];
    for client in &mut clients {
        ask(client, b"mn\r\n", b"\r\n");
    }
    let mut reported = String::new();
    server.connect().read_to_string(&mut reported).unwrap();
    assert_eq!(reported, "ERROR Too many open connections\r\n");
    let [first, mut second] = clients;
    drop(first);
    wait_until(|| {
        // There is room again as soon as the server has seen that one has gone.
        let mut stream = server.connect();
        let _ = stream.write_all(b"mn\r\n");
        let mut first = [0];
        matches!(stream.read(&mut first), Ok(1)) && first == *b"M"
    });
    assert_eq!(ask(&mut second, b"mn\r\n", b"\r\n"), "MN\r\n");
    assert!(server.end().server.rejected_connections >= 1);
}

#[test]
fn an_idle_client_is_disconnected() {
    let server = start(ServerOptions { idle_timeout: Some(Duration::from_secs(2)), ..options() });
    let (mut silent, mut lively) = (server.connect(), server.connect());
    let start = Instant::now();
    let mut is_over = false;
    while !is_over {
        assert!(start.elapsed() < PATIENCE, "it still is connected");
        ask(&mut lively, b"mn\r\n", b"\r\n");
        silent.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        is_over = matches!(silent.read(&mut [0]), Ok(0));
    }
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(server.end().server.idle_kicks, 1);
}

#[test]
fn datagrams_are_answered_where_they_are_wanted() {
    let server = start(options());
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect(server.address).unwrap();
    let mut answer = [0; 2000];
    client.send(b"short").unwrap();
    client.send(b"\x12\x34\0\0\0\x01\0\0set a 0 0 1\r\nx\r\n").unwrap();
    let len = client.recv(&mut answer).unwrap();
    assert_eq!(answer[..len], *b"\x12\x34\0\0\0\x01\0\0STORED\r\n");
    wait_until(|| server.figure("datagrams") == 2);
    drop(server);
    let quiet = Server::bind(ServerOptions { udp: Udp::Off, ..options() }).unwrap();
    assert_eq!(quiet.udp_address(), None);
    assert!(UdpSocket::bind(quiet.address()).is_ok(), "nobody has the port");
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let apart = Server::bind(ServerOptions { udp: Udp::At(free.port()), ..options() }).unwrap();
    assert_eq!(apart.udp_address(), Some(free));
    assert!(UdpSocket::bind(free).is_err(), "the server has the port");
    assert!(free.port() == apart.address().port() || UdpSocket::bind(apart.address()).is_ok());
    assert!(!Udp::OnLoopback.is_on("192.0.2.1".parse().unwrap()));
    assert!(!Udp::OnLoopback.is_on("0.0.0.0".parse().unwrap()));
    assert!(Udp::OnLoopback.is_on("::1".parse().unwrap()));
    assert!(Udp::On.is_on("0.0.0.0".parse().unwrap()));
}

#[test]
fn unusable_options_are_refused() {
    let server = start(options());
    let refused = |options: ServerOptions| Server::bind(options).unwrap_err().to_string();
    let taken = server.address;
    assert!(
        refused(ServerOptions { listen: taken, ..options() }).contains("is in use: choose another")
    );
    let elsewhere = "192.0.2.1:0".parse().unwrap();
    let reported = refused(ServerOptions { listen: elsewhere, ..options() });
    assert!(reported.contains("192.0.2.1:0 is not an address of this machine"), "{reported}");
    assert!(
        refused(ServerOptions { memory_bytes: 1000, ..options() }).contains("use at least 524288")
    );
    assert!(refused(ServerOptions { partitions: 0, ..options() }).contains("0 partitions"));
    let nowhere = ServerOptions { cores: vec![1023], ..options() };
    let reported = Server::bind(nowhere).unwrap().run(&AtomicBool::new(false)).unwrap_err();
    assert!(reported.to_string().contains("core 1023 cannot be used here"), "{reported}");
}
