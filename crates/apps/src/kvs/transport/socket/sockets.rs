//! Making sockets that listen, and room for descriptors.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, listen as listen_on, socket_with, sockopt,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::kvs::transport::shared::error::ServerError;
use crate::kvs::transport::shared::{BACKLOG, Udp};

/// Descriptors beside those of connections: the listener, standard streams, what the rest of the
/// process has.
const DESCRIPTORS_BESIDE: u64 = 64;

/// And for each core: epoll, doorbell and UDP, and what a card has there.
const DESCRIPTORS_OF_CORE: u64 = 8;

/// Bytes that a UDP socket may hold, each way: bursts are not lost while a thread serves TCP.
const UDP_BUFFER: usize = 1 << 20;

/// Ports that are tried until one is free for both protocols.
const PORTS_TRIED: usize = 32;

/// Sees to it that so many connections can be open, served on so many cores.
pub fn allow_descriptors(connections: usize, cores: usize) -> Result<(), ServerError> {
    let beside = DESCRIPTORS_BESIDE + DESCRIPTORS_OF_CORE * cores as u64;
    let needed = connections as u64 + beside;
    let limits = getrlimit(Resource::Nofile);
    if limits.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(needed), maximum: limits.maximum };
    if limits.maximum.is_none_or(|most| most >= needed)
        && setrlimit(Resource::Nofile, raised).is_ok()
    {
        return Ok(());
    }
    // The administrator may go beyond the limit of others.
    let both = Rlimit { current: Some(needed), maximum: Some(needed) };
    if setrlimit(Resource::Nofile, both).is_ok() {
        return Ok(());
    }
    let limit = limits.maximum.unwrap_or(u64::MAX);
    Err(ServerError::Descriptors { wanted: connections, limit })
}

/// Opens one TCP socket, and `udp_count` UDP sockets at the same address. The ports may differ.
pub fn listen(
    address: SocketAddr,
    udp: Udp,
    udp_count: usize,
) -> Result<(TcpListener, Vec<UdpSocket>), ServerError> {
    let own_port = if let Udp::At(port) = udp { Some(port) } else { None };
    let shares_any = address.port() == 0 && udp_count > 0 && own_port.is_none();
    let tries = if shares_any { PORTS_TRIED } else { 1 };
    let mut result = Err(ServerError::InUse { address });
    for _ in 0..tries {
        let tcp = tcp_socket(address)?;
        let mut at = tcp
            .local_addr()
            .map_err(|source| ServerError::System { call: "getsockname", source })?;
        at.set_port(own_port.unwrap_or(at.port()));
        let sockets = (0..udp_count).map(|_| udp_socket(at, udp_count));
        result = sockets.collect::<Result<_, _>>().map(|sockets| (tcp, sockets));
        if !matches!(result, Err(ServerError::InUse { .. })) {
            break;
        }
    }
    result
}

fn socket(address: SocketAddr, kind: SocketType) -> Result<OwnedFd, ServerError> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, kind, flags, None).map_err(ServerError::of("socket"))
}

fn tcp_socket(address: SocketAddr) -> Result<TcpListener, ServerError> {
    let socket = socket(address, SocketType::STREAM)?;
    // Connections of a server that has just ended do not keep its address.
    sockopt::set_socket_reuseaddr(&socket, true).map_err(ServerError::of("SO_REUSEADDR"))?;
    bind(&socket, &address).map_err(refused(address))?;
    listen_on(&socket, BACKLOG).map_err(refused(address))?;
    Ok(socket.into())
}

fn udp_socket(address: SocketAddr, count: usize) -> Result<UdpSocket, ServerError> {
    let socket = socket(address, SocketType::DGRAM)?;
    if count > 1 {
        sockopt::set_socket_reuseport(&socket, true).map_err(ServerError::of("SO_REUSEPORT"))?;
    }
    // What the system does not allow is no failure: it allows something.
    let _ = sockopt::set_socket_recv_buffer_size(&socket, UDP_BUFFER);
    let _ = sockopt::set_socket_send_buffer_size(&socket, UDP_BUFFER);
    bind(&socket, &address).map_err(refused(address))?;
    Ok(socket.into())
}

fn refused(address: SocketAddr) -> impl Fn(Errno) -> ServerError {
    move |errno| match errno {
        Errno::ADDRINUSE => ServerError::InUse { address },
        Errno::ADDRNOTAVAIL => ServerError::NotHere { address },
        Errno::ACCESS => ServerError::Rights { address },
        _ => ServerError::System { call: "bind", source: io::Error::from(errno) },
    }
}
