//! Sockets of clients and servers, and their options.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

use super::{EchoError, Receive, Transport};
use crate::mmsg;

/// Microseconds for which the kernel polls the card in one call of a program that never sleeps.
const BUSY_POLL_US: i32 = 50;

/// Bytes of a socket's buffer that a short message needs: the kernel counts its own memory.
const OVERHEAD_LEN: usize = 1_280;

/// Largest buffer that is asked for, bytes; the kernel doubles it.
const BUFFER_MAX: usize = 256 << 20;

/// How long a server sleeps before it looks whether it is to end.
pub const TURN: Duration = Duration::from_millis(50);

/// A socket that sends to `server` and receives from it alone.
pub fn udp_client(server: SocketAddr) -> Result<UdpSocket, EchoError> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).map_err(EchoError::of("bind"))?;
    socket.connect(server).map_err(|source| unconnected(server, source))?;
    Ok(socket)
}

/// Why nothing can be sent to `server`: connect(2) refuses an address of many hosts (EACCES), and
/// those without a route or that no host has.
fn unconnected(server: SocketAddr, source: io::Error) -> EchoError {
    match source.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::TimedOut => EchoError::Nobody { server },
        io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::InvalidInput => EchoError::Unreachable { server, source },
        _ => EchoError::Socket { call: "connect", source },
    }
}

/// A connection to `server`.
pub fn tcp_client(server: SocketAddr, patience: Duration) -> Result<TcpStream, EchoError> {
    let connected = TcpStream::connect_timeout(&server, patience);
    let stream = connected.map_err(|source| unconnected(server, source))?;
    stream.set_nodelay(true).map_err(EchoError::of("TCP_NODELAY"))?;
    Ok(stream)
}

/// Ports that are tried until one is free for both protocols.
const PORTS_TRIED: usize = 32;

/// The sockets of a server: those of one protocol, or both on one address.
pub fn server(
    address: SocketAddr,
    only: Option<Transport>,
) -> Result<(Option<UdpSocket>, Option<TcpListener>), EchoError> {
    let refused = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => EchoError::InUse { address },
        io::ErrorKind::AddrNotAvailable => EchoError::NotHere { address },
        _ => EchoError::Socket { call: "bind", source },
    };
    match only {
        Some(Transport::Udp) => {
            return Ok((Some(UdpSocket::bind(address).map_err(refused)?), None));
        }
        Some(Transport::Tcp) => {
            return Ok((None, Some(TcpListener::bind(address).map_err(refused)?)));
        }
        None => {}
    }
    let tries = if address.port() == 0 { PORTS_TRIED } else { 1 };
    let mut result = Err(EchoError::InUse { address });
    for _ in 0..tries {
        let udp = UdpSocket::bind(address).map_err(refused)?;
        let both = udp.local_addr().map_err(EchoError::of("getsockname"))?;
        result = TcpListener::bind(both).map(|tcp| (Some(udp), Some(tcp))).map_err(refused);
        if !matches!(result, Err(EchoError::InUse { .. })) {
            break;
        }
    }
    result
}

/// Lets a socket hold `count` messages of `len` bytes each way, as far as the system allows it.
pub fn widen(socket: impl AsFd, count: usize, len: usize) {
    let bytes = (2 * count * (2 * len + OVERHEAD_LEN)).min(BUFFER_MAX);
    let fd = socket.as_fd();
    if sockopt::socket_recv_buffer_size(fd).is_ok_and(|now| now < bytes)
        && sockopt::set_socket_recv_buffer_size_force(fd, bytes).is_err()
    {
        let _ = sockopt::set_socket_recv_buffer_size(fd, bytes);
    }
    if sockopt::socket_send_buffer_size(fd).is_ok_and(|now| now < bytes)
        && sockopt::set_socket_send_buffer_size_force(fd, bytes).is_err()
    {
        let _ = sockopt::set_socket_send_buffer_size(fd, bytes);
    }
}

/// Tells a socket how it will be waited on. That the kernel polls the card is a help that not every
/// user may have and not every card has: without it a program asks no less often.
pub fn set_receive_mode(socket: impl AsFd, receive: Receive) {
    if receive == Receive::BusyPoll {
        let _ = mmsg::set_busy_poll(socket, BUSY_POLL_US);
    }
}
