//! Connections to a server, made in bounded time.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::{Requests, RequestsError};
use crate::echo::{EchoError, now_ns};

/// How long all connections may take, nanoseconds.
const SETUP_NS: u64 = 10_000_000_000;

/// Connections that are made at once: servers let a few wait until they accept them, and one that
/// is dropped is tried again after a second.
const WAVE: usize = 64;

/// Begins a connection that never blocks; it is there when the socket has room.
pub fn begin(server: SocketAddr) -> io::Result<TcpStream> {
    let family = match server {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let made = || socket_with(family, SocketType::STREAM, flags, None);
    let socket: OwnedFd = match made() {
        Err(Errno::MFILE) => {
            raise_files()?;
            made()?
        }
        made => made?,
    };
    sockopt::set_tcp_nodelay(&socket, true)?;
    match connect(&socket, &server) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

/// A socket of UDP that sends to `server` and receives from it alone.
pub fn datagrams(server: SocketAddr, requests: &Requests) -> Result<UdpSocket, RequestsError> {
    let made = || crate::echo::socket::udp_client(server);
    let socket = match made() {
        Err(EchoError::Socket { source, .. }) if is_out_of_files(&source) => {
            raise_files()
                .map_err(|_| RequestsError::Files { connections: requests.connections })?;
            made()
        }
        made => made,
    };
    let socket = socket.map_err(|error| match error {
        EchoError::Socket { source, .. } if is_out_of_files(&source) => {
            RequestsError::Files { connections: requests.connections }
        }
        EchoError::Socket { call, source } => RequestsError::Socket { call, source },
        _ => RequestsError::Nobody { server, protocol: requests.protocol },
    })?;
    socket.set_nonblocking(true).map_err(RequestsError::of("O_NONBLOCK"))?;
    Ok(socket)
}

fn is_out_of_files(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::MFILE.raw_os_error())
}

/// Lets this process have as many open files as it may.
fn raise_files() -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return Err(Errno::MFILE.into());
    }
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// Waits until a connection is there, at most until `until_ns`.
fn finish(stream: &TcpStream, until_ns: u64) -> io::Result<()> {
    loop {
        let left_ns = until_ns.saturating_sub(now_ns());
        let timeout = Timespec {
            tv_sec: (left_ns / 1_000_000_000) as i64,
            tv_nsec: (left_ns % 1_000_000_000) as i64,
        };
        match poll(&mut [PollFd::new(stream, PollFlags::OUT)], Some(&timeout)) {
            Ok(0) if left_ns == 0 => return Err(io::ErrorKind::TimedOut.into()),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(sockopt::socket_error(stream)??),
            Err(error) => return Err(error.into()),
        }
    }
}

/// `count` connections of checked requests to `server`.
///
/// # Errors
/// [`RequestsError::Nobody`] where not one is made.
pub fn streams(
    requests: &Requests,
    count: usize,
    server: SocketAddr,
) -> Result<Vec<TcpStream>, RequestsError> {
    let until_ns = now_ns() + SETUP_NS;
    let mut streams = Vec::with_capacity(count);
    while streams.len() < count {
        let wave = WAVE.min(count - streams.len());
        let begun: io::Result<Vec<TcpStream>> = (0..wave).map(|_| begin(server)).collect();
        let made = begun.and_then(|begun| {
            for stream in begun {
                finish(&stream, until_ns)?;
                streams.push(stream);
            }
            Ok(())
        });
        made.map_err(|error| refused(error, requests, streams.len(), count, server))?;
    }
    Ok(streams)
}

fn refused(
    source: io::Error,
    requests: &Requests,
    made: usize,
    asked: usize,
    server: SocketAddr,
) -> RequestsError {
    match source.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::TimedOut if made == 0 => {
            RequestsError::Nobody { server, protocol: requests.protocol }
        }
        io::ErrorKind::TimedOut | io::ErrorKind::ConnectionReset => {
            RequestsError::Connections { server, made, asked }
        }
        _ if is_out_of_files(&source) => RequestsError::Files { connections: requests.connections },
        _ => RequestsError::Socket { call: "connect", source },
    }
}
