//! Properties of an interface's driver: its number of receive queues (`ETHTOOL_GCHANNELS`), and
//! transmit checksum offload (`ETHTOOL_GTXCSUM`).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// linux/sockios.h
const SIOCETHTOOL: u32 = 0x8946;

/// linux/ethtool.h
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GTXCSUM: u32 = 0x16;

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    cmd: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx_count: u32,
    tx_count: u32,
    other_count: u32,
    combined_count: u32,
}

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    cmd: u32,
    data: u32,
}

/// Queues that an interface receives by, and the word by which ethtool sets their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveQueues {
    pub queues: u32,
    pub word: &'static str,
}

/// Asks an interface of the calling thread's network namespace by how many queues it receives.
///
/// # Errors
/// What the kernel says; `EOPNOTSUPP` where the driver does not tell.
pub fn receive_queues(name: &str) -> io::Result<ReceiveQueues> {
    let mut channels = Channels { cmd: ETHTOOL_GCHANNELS, ..Channels::default() };
    ask(name, &mut channels)?;
    let word = if channels.combined_count > 0 { "combined" } else { "rx" };
    Ok(ReceiveQueues { queues: channels.rx_count + channels.combined_count, word })
}

/// Asks an interface of the calling thread's network namespace whether the kernel leaves checksums
/// of what it sends to it.
///
/// # Errors
/// What the kernel says.
pub fn is_checksum_offloaded(name: &str) -> io::Result<bool> {
    let mut value = EthtoolValue { cmd: ETHTOOL_GTXCSUM, data: 0 };
    ask(name, &mut value)?;
    Ok(value.data != 0)
}

/// A request of ethtool's.
///
/// # Safety
/// It is a `repr(C)` type of integers that begins with a command, and for each command that this
/// module gives it, the kernel reads and writes no more than one value of the type.
unsafe trait EthtoolRequest {}

// SAFETY: `struct ethtool_channels`, which `ETHTOOL_GCHANNELS` reads and writes.
unsafe impl EthtoolRequest for Channels {}

// SAFETY: `struct ethtool_value`, which `ETHTOOL_GTXCSUM` reads and writes.
unsafe impl EthtoolRequest for EthtoolValue {}

fn ask<T: EthtoolRequest>(name: &str, asked: &mut T) -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: zeros are a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    if name.len() > room {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = ptr::from_mut(asked).cast();
    // SAFETY: the request and the value that it points to live through the call, and the command
    // that the value begins with reads and writes one value of its type (`Asked`).
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL.into(), &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
