//! The socket of an external queue: a client gets the layout and the memory, and is woken.
//!
//! The first message has the layout and, beside it, the file of the memory. The client maps it and
//! sends any message: the card then seals the file, and the client is in. A client that sends none
//! is let go after [`COMING_MAX`], for the sake of the next. The first byte of the card's later
//! messages tells the kind: [`WAKE`], or [`END`] and why in words. The card never waits for a
//! client and reads no other message. A closed socket tells that the client has gone.
//!
//! The card wakes a client by a message and not by an eventfd: both processes would share its open
//! file, so a client could make it block and have the card's core wait.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use niclab_nic::memory::Region;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, Stat, fchmod, lstat, unlink};
use rustix::io::{Errno, IoSlice};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, connect, listen, recv, send, sendmsg, socket_with,
};

use super::layout::Layout;
use super::{ExternalQueue, ExternalQueueSize};
use crate::error::PortError;
use niclab_nic::shared_memory::{SharedMemory, seal};

/// First byte of a message that wakes, all of it.
const WAKE: u8 = b'w';

/// First byte of a message that says why the card disconnected the client.
const END: u8 = b'e';

/// Time that a client has to map its memory: another one may be waiting behind it.
const COMING_MAX: Duration = Duration::from_secs(5);

/// Longest message, bytes.
const MESSAGE_LEN_MAX: usize = 256;

/// No send waits for a client, and none ends this process.
const AT_ONCE: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// The listening socket of one queue, for one client at a time. A second client waits until the
/// first one is gone.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    shape: ExternalQueueSize,
    /// Device and number of the file that was made.
    file: (u64, u64),
    /// A client that has the memory's file, and may not have mapped it yet.
    coming: Option<Coming>,
}

/// A client that is not in yet.
#[derive(Debug)]
struct Coming {
    socket: OwnedFd,
    layout: Layout,
    shared: SharedMemory,
    file: OwnedFd,
    since: Instant,
}

impl Listener {
    /// Listens at a path. Whoever may write to the file there may be a client: its owner, until the
    /// mode or the owner is changed. The file of a card that was killed is put out of the way.
    ///
    /// # Errors
    /// [`PortError`]: another card listens there, something else has the name, or what the system
    /// says.
    pub fn bind(path: &Path, shape: ExternalQueueSize) -> Result<Listener, PortError> {
        let failed = |errno: Errno| match errno {
            Errno::ADDRINUSE => PortError::ExternalQueueTaken { path: path.to_owned() },
            Errno::NOTSOCK => PortError::ExternalQueuePath { path: path.to_owned() },
            errno => PortError::File { path: path.to_owned(), source: errno.into() },
        };
        let address = SocketAddrUnix::new(path).map_err(failed)?;
        let socket = unix_socket(SocketType::SEQPACKET).map_err(failed)?;
        let file = place(&socket, &address, path).map_err(failed)?;
        Ok(Listener { socket, path: path.to_owned(), shape, file, coming: None })
    }

    /// Takes in the client that waits, if there is one, by two calls at least: its queue carries
    /// frames of `region`. A client that has not mapped its memory within five seconds is let go.
    /// Called now and then while there is no client: a second one would serve the queue beside the
    /// first.
    ///
    /// # Errors
    /// [`PortError`]: there is no memory, or what the system says.
    pub fn accept(&mut self, region: &Arc<Region>) -> Result<Option<ExternalQueue>, PortError> {
        let failed = |source| PortError::File { path: self.path.clone(), source };
        let Some(coming) = self.coming.take() else {
            self.coming = self.greet(region).map_err(failed)?;
            return Ok(None);
        };
        if is_closed(&coming.socket) {
            return Ok(None);
        }
        match recv(&coming.socket, &mut [0_u8; 1], RecvFlags::DONTWAIT) {
            Ok(_) => {
                seal(coming.file.as_fd()).map_err(failed)?;
                let Coming { socket, layout, shared, .. } = coming;
                Ok(Some(ExternalQueue::new(region, shared, socket, layout)))
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                match coming.since.elapsed() < COMING_MAX {
                    true => self.coming = Some(coming),
                    false => {
                        let seconds = COMING_MAX.as_secs();
                        report(
                            &coming.socket,
                            &format_args!("not mapped within {seconds} seconds"),
                        );
                    }
                }
                Ok(None)
            }
            // It has left.
            Err(_) => Ok(None),
        }
    }

    /// Gives who waits the layout and the memory.
    fn greet(&self, region: &Arc<Region>) -> io::Result<Option<Coming>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match accept_with(&self.socket, flags) {
            Ok(socket) => socket,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let layout = Layout::new(self.shape, region.slot_len(), region.frame_len_max());
        let (shared, file) = SharedMemory::create(layout.memory_len)?;
        let files = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        beside.push(SendAncillaryMessage::ScmRights(&files));
        let header = layout.header();
        // Who does not take it has left already.
        let since = Instant::now();
        let sent = sendmsg(&socket, &[IoSlice::new(&header)], &mut beside, AT_ONCE);
        Ok(sent.is_ok().then_some(Coming { socket, layout, shared, file, since }))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Not what another has put there since.
        if lstat(&self.path).is_ok_and(|now| identity(&now) == self.file) {
            let _ = unlink(&self.path);
        }
    }
}

fn unix_socket(kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, kind, flags, None)
}

/// Has a socket listen at a path; which file it made. `ADDRINUSE` where another does, `NOTSOCK`
/// where something else has the name.
fn place(socket: &OwnedFd, address: &SocketAddrUnix, path: &Path) -> Result<(u64, u64), Errno> {
    // The file gets the mode of the socket.
    fchmod(socket, Mode::RUSR | Mode::WUSR)?;
    if bind(socket, address) == Err(Errno::ADDRINUSE) {
        if FileType::from_raw_mode(lstat(path)?.st_mode) != FileType::Socket {
            return Err(Errno::NOTSOCK);
        }
        // By a socket of another kind, which is distinguished from a client and not let in.
        match connect(unix_socket(SocketType::DGRAM)?, address) {
            Err(Errno::CONNREFUSED) => unlink(path)?,
            _ => return Err(Errno::ADDRINUSE),
        }
        bind(socket, address)?;
    }
    listen(socket, 1)?;
    Ok(identity(&lstat(path)?))
}

fn identity(file: &Stat) -> (u64, u64) {
    (file.st_dev, file.st_ino)
}

/// Whether a client has closed its end.
pub(super) fn is_closed(socket: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::RDHUP)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let gone = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
    poll(&mut asked, Some(&at_once)).is_ok_and(|_| asked[0].revents().intersects(gone))
}

/// Wakes a client; `false` where the message does not go: the system has no memory for it, or the
/// client has left too many unread.
#[cold]
pub(super) fn ring(socket: &OwnedFd) -> bool {
    send(socket, &[WAKE], AT_ONCE).is_ok()
}

/// Tells a client why it was disconnected, if it reads its messages.
#[cold]
pub(super) fn report(socket: &OwnedFd, why: &impl fmt::Display) {
    let mut message = why.to_string().into_bytes();
    message.insert(0, END);
    message.truncate(MESSAGE_LEN_MAX);
    let _ = send(socket, &message, AT_ONCE);
}
