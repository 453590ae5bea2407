//! Takes connections and hands them to the workers.

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::worker::Inbox;
use super::{TURN, timespec};
use crate::kvs::transport::shared::error::ServerError;
use crate::kvs::transport::shared::{ServerShared, tally};

/// Takes connections and hands them to the workers in turn.
pub fn accept(
    tcp: &TcpListener,
    inboxes: &[Inbox],
    shared: &ServerShared,
    stop: &AtomicBool,
) -> Result<(), ServerError> {
    let mut turn = inboxes.iter().cycle();
    shared.tally.is_accepting.store(true, Ordering::Relaxed);
    while !stop.load(Ordering::Relaxed) {
        let timeout = timespec(TURN);
        match poll(&mut [PollFd::from_borrowed_fd(tcp.as_fd(), PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(ServerError::of("poll")(errno)),
        }
        loop {
            match tcp.accept() {
                Ok((stream, _)) => {
                    let Some(inbox) = turn.next() else { return Ok(()) };
                    welcome(stream, inbox, shared);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    pause(&error, shared);
                    break;
                }
            }
        }
    }
    shared.tally.is_accepting.store(false, Ordering::Relaxed);
    Ok(())
}

/// A connection could not be taken: it was gone before, or the system has no descriptor for it at
/// the moment.
fn pause(error: &io::Error, shared: &ServerShared) {
    let (tally, start) = (&shared.tally, Instant::now());
    let is_full = Errno::from_io_error(error).is_some_and(|errno| {
        [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].contains(&errno)
    });
    tally.is_accepting.store(!is_full, Ordering::Relaxed);
    thread::sleep(Duration::from_millis(1));
    if is_full {
        tally::add(&tally.listen_disabled, 1);
        tally::add(&tally.listen_disabled_us, start.elapsed().as_micros() as u64);
        tally.is_accepting.store(true, Ordering::Relaxed);
    }
}

fn welcome(mut stream: TcpStream, inbox: &Inbox, shared: &ServerShared) {
    if !shared.tally.enter(shared.options.connections_max) {
        // As memcached says it; who is gone already does not hear it.
        let _ = stream.write_all(b"ERROR Too many open connections\r\n");
        return;
    }
    let is_ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_ok();
    if !is_ready || !inbox.put(stream) {
        shared.tally.leave();
    }
}
