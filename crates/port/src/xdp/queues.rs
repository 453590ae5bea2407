//! How many queues an interface receives by, as its driver says (`ETHTOOL_GCHANNELS`).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// linux/sockios.h
const SIOCETHTOOL: u32 = 0x8946;

/// linux/ethtool.h
const ETHTOOL_GCHANNELS: u32 = 0x3c;

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

/// Queues that an interface receives by, and the word by which ethtool sets their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiving {
    pub queues: u32,
    pub word: &'static str,
}

/// Asks an interface of the calling thread's network namespace.
///
/// # Errors
/// What the kernel says; `EOPNOTSUPP` where the driver does not tell.
pub fn receiving(name: &str) -> io::Result<Receiving> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut channels = Channels { cmd: ETHTOOL_GCHANNELS, ..Channels::default() };
    // SAFETY: zeros are a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    if name.len() > room {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // SAFETY: the request and the channels that it points to live through the call, and this
    // command reads and writes one `struct ethtool_channels`.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL.into(), &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let word = if channels.combined_count > 0 { "combined" } else { "rx" };
    Ok(Receiving { queues: channels.rx_count + channels.combined_count, word })
}
