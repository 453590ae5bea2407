//! The one call of ethtool's older interface (`SIOCETHTOOL`): a command in memory, which the kernel
//! reads and answers in place. The setting of time stamps is read and written alike.
//!
//! How long an answer is the driver decides when it gives it: of statistics and rules there may be
//! more by then than the caller was told of a moment before. So the memory is a mapping of its own
//! with a page behind it that nobody may touch. Whatever the driver wants to write, it ends there,
//! with `EFAULT`.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::param::page_size;

/// linux/sockios.h
const SIOCETHTOOL: u32 = 0x8946;

/// `SIOCGHWTSTAMP` and `SIOCSHWTSTAMP`: read the setting of time stamps, and write it.
pub(super) const STAMP_CALLS: [u32; 2] = [0x89b1, 0x89b0];

/// Longest name of an interface with its end, bytes (`IFNAMSIZ`).
const NAME_LEN: usize = 16;

/// An interface that can be asked, in the network namespace that it was opened in.
#[derive(Debug)]
pub struct EthtoolSocket {
    socket: OwnedFd,
    name: [u8; NAME_LEN],
    room: GuardedBuffer,
}

impl EthtoolSocket {
    /// Asks the interface of this name in the calling thread's network namespace; whether there is
    /// one shows with the first question.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for what is no name; what the kernel says.
    pub fn open(name: &str) -> io::Result<EthtoolSocket> {
        let mut bytes = [0; NAME_LEN];
        if name.is_empty() || name.len() >= NAME_LEN || name.contains('\0') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        Ok(EthtoolSocket { socket, name: bytes, room: GuardedBuffer::new(1)? })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        let len = self.name.iter().position(|byte| *byte == 0).unwrap_or(NAME_LEN);
        str::from_utf8(&self.name[..len]).unwrap_or_default()
    }

    /// Has the kernel carry a command out, which may answer in as many bytes as it has, or in `len`
    /// where that is more.
    ///
    /// # Errors
    /// What the kernel says; `EOPNOTSUPP` where the driver does not know the command.
    pub fn call(&mut self, command: &[u8], len: usize) -> io::Result<&[u8]> {
        self.request(SIOCETHTOOL, command, len)
    }

    /// Sets how frames are stamped (`struct hwtstamp_config`), or reads it; the setting that holds
    /// now.
    ///
    /// # Errors
    /// As [`EthtoolSocket::call`]; `ERANGE` for a setting that the driver does not have.
    pub fn stamp_setting(&mut self, setting: &[u8], is_new: bool) -> io::Result<&[u8]> {
        self.request(STAMP_CALLS[usize::from(is_new)], setting, 0)
    }

    /// Makes the call of this number.
    fn request(&mut self, number: u32, command: &[u8], len: usize) -> io::Result<&[u8]> {
        let len = len.max(command.len());
        if len > self.room.len {
            self.room = GuardedBuffer::new(len)?;
        }
        let bytes = self.room.bytes();
        bytes[..command.len()].copy_from_slice(command);
        bytes[command.len()..].fill(0);
        let mut request = libc::ifreq {
            ifr_name: self.name.map(|byte| byte as libc::c_char),
            ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: self.room.base.as_ptr().cast() },
        };
        let socket = self.socket.as_raw_fd();
        // SAFETY: the request lives through the call; the kernel reads and writes memory from the
        // start of the room on, upwards, where it meets nothing but the room and then a page that
        // it cannot write. No slice of the room exists meanwhile, for `self` is borrowed mutably.
        let result = unsafe { libc::ioctl(socket, number.into(), &raw mut request) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(&self.room.bytes()[..len])
    }
}

/// Memory for a command and its answer, with a page behind it that nobody may touch.
#[derive(Debug)]
struct GuardedBuffer {
    base: NonNull<c_void>,
    /// Whole pages, the last one apart.
    len: usize,
}

// SAFETY: the memory belongs to this room alone, and nothing in it is bound to a thread.
unsafe impl Send for GuardedBuffer {}

impl GuardedBuffer {
    fn new(len: usize) -> io::Result<GuardedBuffer> {
        let len = len.next_multiple_of(page_size());
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address; nothing else is mapped there.
        let base =
            unsafe { mmap_anonymous(ptr::null_mut(), len + page_size(), both, MapFlags::PRIVATE) }?;
        let room =
            GuardedBuffer { base: NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?, len };
        // SAFETY: the last page of what was just mapped, of which no reference exists.
        unsafe { mprotect(base.byte_add(len), page_size(), MprotectFlags::empty()) }?;
        Ok(room)
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `len` bytes from `base` on are mapped, can be written, hold zeros or what was
        // written since, and are borrowed through `self` alone.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().cast(), self.len) }
    }
}

impl Drop for GuardedBuffer {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; no slice outlives the borrow of the room. An error
        // would mean that it was not mapped, and leaves nothing to be done.
        let _ = unsafe { munmap(self.base.as_ptr(), self.len + page_size()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_told() {
        assert_eq!(EthtoolSocket::open("lo").unwrap().name(), "lo");
        assert_eq!(EthtoolSocket::open("fifteen-bytes-x").unwrap().name(), "fifteen-bytes-x");
        for name in ["", "sixteen-bytes-xx", "a\0b"] {
            assert_eq!(EthtoolSocket::open(name).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn the_kernel_cannot_write_behind_the_room() {
        let mut caller = EthtoolSocket::open("lo").unwrap();
        // ETHTOOL_GLINK, whose answer has eight bytes and which asks nothing but its number.
        let command = 10_u32.to_ne_bytes();
        let answer = caller.call(&command, 8).unwrap();
        assert_eq!(answer[..4], command);
        // As if the driver had more to say than there is room for.
        let page = page_size();
        let inner = GuardedBuffer { base: caller.room.base, len: caller.room.len };
        // SAFETY: four bytes below the end of the room, within what is mapped.
        caller.room.base = unsafe { inner.base.byte_add(page - 4) };
        caller.room.len = 4;
        let error = caller.call(&command, 4).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        std::mem::forget(std::mem::replace(&mut caller.room, inner));
    }
}
