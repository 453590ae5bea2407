//! Loom's atomics, and a file of them that wakes. The file orders nothing: what the system's does
//! beside waking, the code does not rely on.

use std::io;
use std::sync::atomic::Ordering::{self, Relaxed};

use loom::sync::atomic;
pub use loom::sync::atomic::{AtomicU64, fence};
use rustix::event::EventfdFlags;

/// Loom's, with stores that are swaps. Where a swap and a store both follow one store, loom
/// leaves open which of the two is the later one, and its loads return either. But a swap comes
/// right after what it found, and so before the store.
#[derive(Debug)]
pub struct AtomicBool(atomic::AtomicBool);

impl AtomicBool {
    pub fn new(value: bool) -> AtomicBool {
        AtomicBool(atomic::AtomicBool::new(value))
    }

    pub fn load(&self, order: Ordering) -> bool {
        self.0.load(order)
    }

    pub fn swap(&self, value: bool, order: Ordering) -> bool {
        self.0.swap(value, order)
    }

    pub fn store(&self, value: bool, order: Ordering) {
        self.swap(value, order);
    }
}

#[derive(Debug)]
pub struct OwnedFd(AtomicU64);

pub struct BorrowedFd<'a>(&'a OwnedFd);

pub trait AsFd {
    fn as_fd(&self) -> BorrowedFd<'_>;
}

impl AsFd for OwnedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        BorrowedFd(self)
    }
}

impl BorrowedFd<'_> {
    pub fn is_readable(&self) -> bool {
        self.0.0.load(Relaxed) > 0
    }
}

pub fn eventfd(count: u32, _: EventfdFlags) -> io::Result<OwnedFd> {
    Ok(OwnedFd(AtomicU64::new(count.into())))
}

pub fn write(file: &OwnedFd, bytes: &[u8; 8]) -> io::Result<usize> {
    file.0.fetch_add(u64::from_ne_bytes(*bytes), Relaxed);
    Ok(bytes.len())
}

pub fn read(file: &OwnedFd, bytes: &mut [u8; 8]) -> io::Result<usize> {
    match file.0.swap(0, Relaxed) {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        count => {
            *bytes = count.to_ne_bytes();
            Ok(bytes.len())
        }
    }
}
