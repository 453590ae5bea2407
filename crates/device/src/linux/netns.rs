//! Network namespaces without a name: they live as long as somebody holds them.
//!
//! Nothing is written to the file system, so nothing is left behind however the process ends: with
//! its last descriptor the kernel takes the namespace and the interfaces in it away.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// A network namespace: this process's own, or one held by a descriptor.
#[derive(Debug)]
pub struct NetNs(Option<OwnedFd>);

impl NetNs {
    /// The namespace this process is in.
    pub fn current() -> NetNs {
        NetNs(None)
    }

    /// A new one, with nothing in it but an interface `lo` that is down, and IPv6 switched off for
    /// interfaces to come: duplicate address detection and router solicitations would put foreign
    /// frames on the wire.
    pub fn anonymous() -> io::Result<NetNs> {
        let made = in_thread(|| -> io::Result<OwnedFd> {
            // SAFETY: the flags leave the table of file descriptors shared; the thread, which alone
            // moves, ends right after.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            for scope in ["all", "default"] {
                match fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1") {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                    _ => {}
                }
            }
            Ok(File::open("/proc/thread-self/ns/net")?.into())
        })?;
        made.map(|fd| NetNs(Some(fd)))
    }

    /// Carries out `work` in the namespace, on a thread of its own, and waits for it. A socket that
    /// is opened there stays in the namespace wherever it is used.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        in_thread(|| -> io::Result<T> {
            self.enter()?;
            Ok(work())
        })?
    }

    /// Moves the calling thread into it, for the rest of its life.
    pub fn enter(&self) -> io::Result<()> {
        match &self.0 {
            Some(fd) => {
                Ok(move_into_link_name_space(fd.as_fd(), Some(LinkNameSpaceType::Network))?)
            }
            None => Ok(()),
        }
    }

    /// The same namespace, held once more.
    pub fn try_clone(&self) -> io::Result<NetNs> {
        Ok(NetNs(self.0.as_ref().map(OwnedFd::try_clone).transpose()?))
    }

    /// The descriptor that holds it; `None` for the process's own.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|fd| fd.as_fd())
    }
}

/// Carries out `work` where what it mounts is seen by nobody else and ends with it, on a thread of
/// its own in the caller's network namespace.
pub fn apart<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    in_thread(|| {
        // SAFETY: the flag leaves the table of file descriptors shared; the thread, which alone
        // has mounts of its own, ends right after.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
        work()
    })?
}

/// Runs `work` on a thread of its own; a panic there is an error here.
fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("netns".into()).spawn_scoped(scope, work)?;
        worker.join().map_err(|_| io::Error::other("the namespace's thread panicked"))
    })
}
