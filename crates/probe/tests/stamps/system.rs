//! Calls to the kernel that the standard library does not make: namespaces, raw frames, offloads.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libbpf_rs::libbpf_sys;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// Moves the calling thread into a new network namespace, and gives a descriptor of it.
pub fn new_namespace() -> io::Result<OwnedFd> {
    // SAFETY: the flags leave the table of file descriptors shared; the thread alone moves.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

/// Moves the calling thread into a network namespace.
pub fn enter(namespace: &OwnedFd) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Numbers of the programs at an interface of this thread's namespace by TCX, in the order in which
/// they see a packet: egress, then ingress.
pub fn tcx_programs(index: u32) -> Vec<u32> {
    let programs = |place| {
        let mut ids = [0; 64];
        // SAFETY: zeros are an empty list, and the one pointer that is followed is set below.
        let mut options: libbpf_sys::bpf_prog_query_opts = unsafe { zeroed() };
        options.sz = size_of::<libbpf_sys::bpf_prog_query_opts>() as _;
        options.prog_ids = ids.as_mut_ptr();
        options.__bindgen_anon_1.prog_cnt = ids.len() as u32;
        // SAFETY: options and list live through the call and say their own length.
        let status = unsafe { libbpf_sys::bpf_prog_query_opts(index as i32, place, &mut options) };
        if status != 0 {
            return Vec::new(); // nothing was ever there, or the kernel has no TCX
        }
        // SAFETY: both fields of the union are numbers that say the same.
        ids[..unsafe { options.__bindgen_anon_1.prog_cnt } as usize].to_vec()
    };
    [programs(libbpf_sys::BPF_TCX_EGRESS), programs(libbpf_sys::BPF_TCX_INGRESS)].concat()
}

/// Has the kernel count the time that programs take, as long as this is open.
pub fn count_runs() -> io::Result<OwnedFd> {
    // SAFETY: a call with a number alone.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An interface whose packets have no Ethernet header, and the other end of it as a file.
pub fn new_tun(name: &str) -> io::Result<File> {
    const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
    let file = File::options().read(true).write(true).open("/dev/net/tun")?;
    let mut request = request_for(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as _;
    // SAFETY: the request lives through the call and is what this command reads.
    check(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &mut request) })?;
    Ok(file)
}

/// Whole frames out of and into an interface.
pub struct Raw(OwnedFd);

impl Raw {
    /// Opens a raw socket on an interface of this thread's namespace.
    pub fn open(index: u32) -> io::Result<Raw> {
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: a call with numbers alone.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, protocol.into()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just made this descriptor, and nobody else knows it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: zeros are a valid address structure.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = index as i32;
        let len = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the address is one of the length that is said.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
        let raw = Raw(fd);
        let wait = Duration::from_millis(300);
        let wait = libc::timeval { tv_sec: 0, tv_usec: wait.as_micros() as _ };
        set(&raw.0, libc::SOL_SOCKET, libc::SO_RCVTIMEO, wait)?;
        Ok(raw)
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: the bytes live through the call.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
    }

    /// The next frame that comes in, none where none comes for a while; what goes out is not told.
    pub fn receive(&self) -> Option<Vec<u8>> {
        loop {
            let mut frame = vec![0; 1 << 16];
            // SAFETY: zeros are a valid address structure.
            let mut from: libc::sockaddr_ll = unsafe { zeroed() };
            let mut len = size_of::<libc::sockaddr_ll>() as u32;
            // SAFETY: buffer and address live through the call, and their lengths are theirs.
            let came = unsafe {
                let (buffer, room) = (frame.as_mut_ptr().cast(), frame.len());
                let address = (&raw mut from).cast();
                libc::recvfrom(self.0.as_raw_fd(), buffer, room, 0, address, &mut len)
            };
            if came < 0 {
                return None;
            }
            if from.sll_pkttype != libc::PACKET_OUTGOING {
                frame.truncate(came as usize);
                return Some(frame);
            }
        }
    }
}

/// Leaves the UDP checksum of a socket's IPv4 datagrams 0.
pub fn send_no_checksums(socket: &UdpSocket) {
    set(socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1_i32).unwrap();
}

/// Switches the offload of checksums of what an interface sends on or off.
pub fn offload_checksums(name: &str, on: bool) {
    /// `struct ethtool_value` (linux/ethtool.h).
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    const ETHTOOL_STXCSUM: u32 = 0x17;
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    let mut value = Value { command: ETHTOOL_STXCSUM, data: u32::from(on) };
    let mut request = request_for(name);
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // SAFETY: request and value live through the call and are what this command reads.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &mut request) }).unwrap();
}

fn request_for(name: &str) -> libc::ifreq {
    // SAFETY: zeros are a valid request.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    request
}

fn set<T>(socket: &impl AsRawFd, level: i32, option: i32, value: T) -> io::Result<()> {
    let len = size_of::<T>() as u32;
    // SAFETY: the value lives through the call and is of the length that is said.
    check(unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), len)
    })
}

fn check(status: i32) -> io::Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
