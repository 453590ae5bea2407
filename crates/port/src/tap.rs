//! TAP: a kernel interface whose frames come from and go to this program.
//!
//! What the kernel sends by the interface arrives here, and what is sent here the kernel receives.
//! A queue pair is one queue of the interface (Documentation/networking/tuntap.rst). One that this
//! made goes with its last queue pair.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use niclab_netlink::Netlink;
use niclab_nic::memory::Region;

use crate::burst::Burst;
use crate::error::{PortError, PortKind};
use crate::frame_pool::FramePool;
use crate::link::{self, HEADER_LEN, Link};
use crate::queue_pair::{QueuePair, QueuePairCounters};

/// Most queues of a TAP interface (`MAX_TAP_QUEUES`).
pub const QUEUE_PAIRS_MAX: u32 = 256;

/// Frames that a queue pair holds: none, for the kernel copies within each call.
pub const FRAMES: usize = 0;

/// The device that TAP interfaces come by.
const DEVICE: &str = "/dev/net/tun";

/// One queue of a TAP interface.
pub struct TapQueuePair {
    region: Arc<Region>,
    file: File,
    counters: QueuePairCounters,
}

/// Opens an interface with `count` queues in the calling thread's network namespace and switches it
/// on: one that is there, if it is a TAP interface that nobody uses, else a new one.
///
/// # Errors
/// [`PortError`]; a new interface is gone then.
pub fn open(name: &str, count: u32, region: &Arc<Region>) -> Result<Vec<TapQueuePair>, PortError> {
    let (queue_pairs, link) = join_all(name, count, region)?;
    switch_on(link.index, LinkFlags::empty())
        .map_err(|error| PortError::of(PortKind::Tap, "switch on", name, error))?;
    Ok(queue_pairs)
}

/// Opens an interface as [`open`] does, whose frames are for sockets of AF_PACKET alone: the kernel
/// has no ARP and no IPv6 on it, and drops IPv4 that comes by it. So frames of somebody else's
/// network change nothing on this host, and it sends none.
///
/// # Errors
/// As [`open`].
pub fn open_for_sockets(
    name: &str,
    count: u32,
    region: &Arc<Region>,
) -> Result<Vec<TapQueuePair>, PortError> {
    let (queue_pairs, link) = join_all(name, count, region)?;
    let failed = |error| PortError::of(PortKind::Tap, "keep the kernel from", name, error);
    match fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1") {
        // A kernel without IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        written => written.map_err(failed)?,
    }
    // Strict (RFC 3704): no route leads back by it, for it has no address.
    fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "1").map_err(failed)?;
    switch_on(link.index, LinkFlags::Noarp)
        .map_err(|error| PortError::of(PortKind::Tap, "switch on", name, error))?;
    Ok(queue_pairs)
}

/// Makes the queues of an interface, which is not switched on.
fn join_all(
    name: &str,
    count: u32,
    region: &Arc<Region>,
) -> Result<(Vec<TapQueuePair>, Link), PortError> {
    if count == 0 || count > QUEUE_PAIRS_MAX {
        return Err(PortError::QueuePairs { name: name.to_owned(), count, most: QUEUE_PAIRS_MAX });
    }
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(['/', ' ', ':', '%']) {
        return Err(PortError::Name { name: name.to_owned() });
    }
    let look =
        || link::find(name).map_err(|error| PortError::of(PortKind::Tap, "look up", name, error));
    // The kernel says another thing of each case, and lets in who asks for a queue more.
    let is_taken = |link: &Link| link.kind.as_deref() == Some("tun") && link.has_carrier;
    if look()?.is_some_and(|link| is_taken(&link)) {
        return Err(PortError::TapTaken { name: name.to_owned() });
    }
    let queue = |_| {
        let file = device()?;
        let joined = join(&file, name, count > 1);
        joined.map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => PortError::TapTaken { name: name.to_owned() },
            Some(libc::EINVAL) => PortError::NoTap { name: name.to_owned(), count },
            _ => PortError::of(PortKind::Tap, "open the TAP interface", name, error),
        })?;
        Ok(TapQueuePair {
            region: Arc::clone(region),
            file,
            counters: QueuePairCounters::default(),
        })
    };
    let queue_pairs = (0..count).map(queue).collect::<Result<Vec<_>, PortError>>()?;
    let link = look()?.ok_or_else(|| PortError::Absent { name: name.to_owned() })?;
    let longest = (region.frame_len_max() as u32).saturating_sub(HEADER_LEN);
    // A frame as long as the slot is taken for one that was cut.
    if link.mtu >= longest {
        let longest = longest.saturating_sub(1);
        return Err(PortError::mtu(PortKind::Tap, &link, longest));
    }
    Ok((queue_pairs, link))
}

/// Switches an interface on, with other flags.
fn switch_on(index: u32, others: LinkFlags) -> io::Result<()> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.flags = LinkFlags::Up | others;
    message.header.change_mask = LinkFlags::Up | others;
    Ok(Netlink::route()?.request(RouteNetlinkMessage::SetLink(message), 0).map(|_| ())?)
}

/// Opens the device that TAP interfaces come by.
fn device() -> Result<File, PortError> {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
    options.open(DEVICE).map_err(no_device)
}

/// Why there are no TAP interfaces, by what the system says of the device.
fn no_device(source: io::Error) -> PortError {
    let remedy = match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "run as root, or have root allow it (chmod 0666 /dev/net/tun)"
        }
        // No file, or no driver behind it.
        _ if matches!(source.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::ENXIO)) => {
            "load the driver (modprobe tun), or give the container the device (--device \
             /dev/net/tun)"
        }
        _ => "see what the system says of it",
    };
    PortError::NoTun { source, remedy }
}

/// Makes an open device a queue of an interface, which is made where there is none of this name.
fn join(file: &File, name: &str, is_one_of_many: bool) -> io::Result<()> {
    let many = if is_one_of_many { libc::IFF_MULTI_QUEUE } else { 0 };
    // SAFETY: zeros are a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | many) as libc::c_short;
    // SAFETY: the request lives through the call and is what this command reads and writes.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Errors of a call: nothing is there now, the interface is down, or it is gone.
enum ErrorKind {
    Nothing,
    Off,
    Gone(io::Error),
}

fn met(error: io::Error) -> ErrorKind {
    match error.raw_os_error() {
        // The kernel has no memory for a frame, and may have it soon.
        Some(libc::ENOBUFS | libc::ENOMEM) => ErrorKind::Nothing,
        Some(libc::EAGAIN | libc::EINTR) => ErrorKind::Nothing,
        // Switched off (EIO), or the frame is none that the kernel takes (EINVAL).
        Some(libc::EIO | libc::EINVAL) => ErrorKind::Off,
        _ => ErrorKind::Gone(error),
    }
}

impl QueuePair for TapQueuePair {
    fn receive(&mut self, pool: &mut FramePool, into: &mut Burst) -> io::Result<()> {
        while !into.is_full() {
            let Some(mut desc) = pool.take() else { return Ok(()) };
            let slot = self.region.slot_mut(&mut desc);
            let room = slot.len();
            match self.file.read(slot) {
                Ok(len) if len < room => {
                    self.region.set_len(&mut desc, len as u16);
                    self.counters.rx_frames += 1;
                    self.counters.rx_bytes += len as u64;
                    into.push(desc);
                }
                Ok(_) => {
                    // It was longer than the slot, for somebody has raised the MTU.
                    self.counters.rx_missed += 1;
                    pool.give(desc);
                }
                Err(error) => {
                    pool.give(desc);
                    return match met(error) {
                        ErrorKind::Nothing | ErrorKind::Off => Ok(()),
                        ErrorKind::Gone(error) => Err(error),
                    };
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Burst) -> io::Result<()> {
        let mut sent = 0;
        let mut result = Ok(());
        for desc in burst.iter() {
            match self.file.write(self.region.frame(desc)) {
                Ok(_) => {
                    self.counters.tx_frames += 1;
                    self.counters.tx_bytes += u64::from(desc.len());
                }
                Err(error) => match met(error) {
                    ErrorKind::Nothing => break,
                    ErrorKind::Off => self.counters.tx_dropped += 1,
                    ErrorKind::Gone(error) => {
                        result = Err(error);
                        break;
                    }
                },
            }
            sent += 1;
        }
        burst.drain(..sent).for_each(|desc| pool.give(desc));
        result
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn counters(&self) -> QueuePairCounters {
        self.counters
    }

    fn close(self: Box<Self>, _pool: &mut FramePool) -> io::Result<QueuePairCounters> {
        Ok(self.counters())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_cannot_be_opened_is_named_with_the_remedy() {
        for (code, remedy) in [
            (libc::ENOENT, "modprobe tun"),
            (libc::ENODEV, "modprobe tun"),
            (libc::EACCES, "run as root"),
        ] {
            let text = no_device(io::Error::from_raw_os_error(code)).to_string();
            assert!(text.starts_with("/dev/net/tun: ") && text.contains(remedy), "{text}");
        }
    }

    #[test]
    fn an_interface_is_there_though_memory_is_short() {
        for code in [libc::ENOMEM, libc::ENOBUFS, libc::EAGAIN] {
            assert!(
                matches!(met(io::Error::from_raw_os_error(code)), ErrorKind::Nothing),
                "{code}"
            );
        }
        let gone = io::Error::from_raw_os_error(libc::EBADFD);
        assert!(matches!(met(gone), ErrorKind::Gone(_)));
    }
}
