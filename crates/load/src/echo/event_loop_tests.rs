//! Event loops: the connections that they close, those that they keep, and the end of accepting.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::*;
use crate::echo::connections::tests::{connected, server};

/// A connection that asks, and the client's end.
fn asking() -> (Connection, TcpStream) {
    let (mut connection, client) = connected();
    connection.has_asked = true;
    (connection, client)
}

/// The server has closed the connection.
fn is_closed(client: &mut TcpStream) -> bool {
    client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    client.read(&mut [0]).is_ok_and(|count| count == 0)
}

#[test]
fn a_new_connection_has_the_place_of_a_quiet_one_of_any_loop() {
    let (server, stop) = (server(), AtomicBool::new(false));
    let loops = [EventLoop::new().unwrap(), EventLoop::new().unwrap()];
    let pool = Pool::of(&server, &loops, &stop, 2);
    let [mut first, mut second] = [0, 1].map(|at| LoopState::new(&loops[at], &pool));
    let ((asks, mut asking_client), (idle, mut idle_client)) = (asking(), connected());
    loops[0].give(asks, 0);
    first.take_given();
    loops[1].give(idle, 0);
    second.take_given();
    // The loop that is given it has none that may go, the other one has.
    let (new, mut new_client) = asking();
    loops[0].give(new, 0);
    first.take_given();
    second.take_given();
    assert!(is_closed(&mut idle_client));
    assert!(!is_closed(&mut asking_client) && !is_closed(&mut new_client));
    assert_eq!((loops[0].load(), loops[1].load(), server.served().closed), (1, 1, 1));
    // Where each asks there is no place.
    let (more, mut client) = connected();
    pool.dispatch_to_loop(more);
    first.take_given();
    second.take_given();
    assert!(is_closed(&mut client));
    assert!(!is_closed(&mut asking_client) && !is_closed(&mut new_client));
    assert_eq!((loops[0].load(), loops[1].load(), server.served().closed), (1, 1, 2));
}

#[test]
fn a_loop_without_room_asks_the_others() {
    let (server, stop) = (server(), AtomicBool::new(false));
    let loops = [EventLoop::new().unwrap(), EventLoop::new().unwrap()];
    let pool = Pool::of(&server, &loops, &stop, 2);
    let mut second = LoopState::new(&loops[1], &pool);
    let (idle, mut client) = connected();
    loops[1].give(idle, 0);
    second.take_given();
    pool.ask_for_room(&loops[0]);
    second.take_given();
    assert!(is_closed(&mut client));
    assert_eq!((loops[1].load(), server.served().closed), (0, 1));
}

#[test]
fn an_error_that_is_no_lack_of_room_closes_no_connection() {
    let (server, stop) = (server(), AtomicBool::new(false));
    let loops = [EventLoop::new().unwrap()];
    let pool = Pool::of(&server, &loops, &stop, 2);
    let mut held = LoopState::new(&loops[0], &pool);
    let (idle, mut client) = connected();
    loops[0].give(idle, 0);
    held.take_given();
    // A socket that does not listen.
    let tcp = TcpListener::from(OwnedFd::from(client.try_clone().unwrap()));
    let error = held.accept(&tcp, &mut Some).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::INVAL));
    assert!(!is_closed(&mut client));
    assert_eq!((loops[0].load(), server.served().closed), (1, 0));
    for number in [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM] {
        let error = io::Error::from_raw_os_error(number);
        assert!(is_lack_of_room(&error) && !is_of_the_network(&error), "{error}");
    }
    for number in [libc::ECONNABORTED, libc::EPERM, libc::EPROTO, libc::EHOSTUNREACH] {
        let error = io::Error::from_raw_os_error(number);
        assert!(!is_lack_of_room(&error) && is_of_the_network(&error), "{error}");
    }
}

#[test]
fn quiet_connections_have_no_memory() {
    let (server, stop) = (server(), AtomicBool::new(false));
    let loops = [EventLoop::new().unwrap()];
    let pool = Pool::of(&server, &loops, &stop, 2);
    let mut held = LoopState::new(&loops[0], &pool);
    let (connection, mut client) = connected();
    loops[0].give(connection, 0);
    held.take_given();
    // A part of a request is kept.
    client.write_all(&[0; 3]).unwrap();
    held.serve(0, &mut Some);
    let memory = |held: &LoopState<'_>| held.places[0].as_ref().unwrap().memory();
    assert!(memory(&held) > 100_000);
    let now_ns = now_ns();
    held.close_idle(now_ns);
    assert!(memory(&held) > 100_000, "it is not quiet yet");
    held.close_idle(now_ns + QUIET_NS);
    assert!(memory(&held) < 100, "{} bytes", memory(&held));
}
