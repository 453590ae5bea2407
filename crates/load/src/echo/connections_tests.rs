//! Connections between a thread of their own and an event loop.

use std::io::Read;
use std::time::Duration;

use niclab_packet::echo::{MessageHeader, MessageKind};

use super::*;
use crate::echo::{IDLE_NS, SIZE_MAX, Serve};

pub(crate) fn server() -> Server {
    server_of(Receive::Blocking)
}

fn server_of(receive: Receive) -> Server {
    let serve = Serve { transport: None, receive, batch: 1, size_max: SIZE_MAX, idle_ns: IDLE_NS };
    Server::bind("127.0.0.1:0".parse().unwrap(), serve).unwrap()
}

/// A connection of a server, and the client's end.
pub(crate) fn connected() -> (Connection, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    (Connection::new(listener.accept().unwrap().0).unwrap(), client)
}

fn request(number: u32) -> Vec<u8> {
    let mut bytes = vec![0; 40];
    MessageHeader { kind: MessageKind::Request, len: 40, run: 1, number }.write(&mut bytes);
    bytes
}

fn reply(number: u32) -> Vec<u8> {
    let mut bytes = request(number);
    niclab_packet::echo::turn(&mut bytes);
    bytes
}

#[test]
fn requests_that_a_ring_had_received_are_answered_behind_its_answers() {
    let (server, (mut connection, mut client)) = (server(), connected());
    // As a ring may leave it: an answer that did not go, a whole request and a part of one.
    connection.unsent = reply(1);
    connection.unanswered = 1;
    let held = [request(2), request(3)[..10].to_vec()].concat();
    connection.inflow.read(&mut held.as_slice()).unwrap();
    let mut connection = connection.rest(&server).unwrap();
    let mut arrived = [0; 80];
    client.read_exact(&mut arrived).unwrap();
    assert_eq!(arrived.to_vec(), [reply(1), reply(2)].concat());
    assert!(connection.has_asked && !connection.has_unsent());
    client.write_all(&request(3)[10..]).unwrap();
    while connection.serve_once(&server).is_err_and(|error| is_empty(&error)) {}
    client.read_exact(&mut arrived[..40]).unwrap();
    assert_eq!(arrived[..40], reply(3));
    let done = server.served();
    assert_eq!((done.received, done.answered), (2, 3), "the first was counted before: {done:?}");
}

#[test]
fn a_loop_that_ends_ends_the_server_with_its_error() {
    let (server, stop) = (server(), AtomicBool::new(false));
    let loops = [EventLoop::new().unwrap(), EventLoop::broken()];
    let served = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_secs(3));
            stop.store(true, Ordering::Relaxed);
        });
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        server.run_loops(&loops, &tcp, &stop)
    });
    let error = served.unwrap_err().to_string();
    assert!(error.starts_with("epoll: "), "{error}");
}

#[test]
fn a_thread_that_panics_ends_the_server_with_an_error() {
    let stop = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        ended(scope.spawn(|| {
            let _ending = StopOnDrop(&stop);
            panic!("as a defect would")
        }))
    });
    assert_eq!(ended.unwrap_err().to_string(), "thread: it panicked");
    assert!(stop.load(Ordering::Relaxed));
}

#[test]
fn threads_wait_where_there_is_nothing_to_wait_by() {
    let (server, stop) = (server_of(Receive::Epoll), AtomicBool::new(false));
    let pool = Pool::new(&server, &[], &stop);
    assert!(pool.may_have_thread());
    // No epoll waits for a file.
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let (connection, _client) = connected();
    let stream = TcpStream::from(std::os::fd::OwnedFd::from(file));
    let connection = pool.converse_by_calls(Connection { stream, ..connection });
    assert!(connection.is_ok(), "it goes to an event loop: {connection:?}");
    assert!(!pool.may_have_thread());
}
