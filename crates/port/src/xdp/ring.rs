//! The rings of an AF_XDP socket: entries in memory shared with the kernel.
//!
//! A ring has one producer and one consumer, of which one is the kernel. Each has an index that it
//! alone stores, with release ordering, and the other loads, with acquire ordering; entries between
//! the two belong to the consumer, the others to the producer
//! (Documentation/networking/af_xdp.rst). That is the argument for the `unsafe` blocks below.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};

/// Memory shared with the kernel, and where in it the parts of a ring are.
struct Shared<T> {
    memory: NonNull<u8>,
    len: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: Option<NonNull<AtomicU32>>,
    entries: NonNull<T>,
    /// Entries less one: their number is a power of two.
    mask: u32,
}

// SAFETY: the memory is this ring's and the kernel's alone, and bound to no thread.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// Maps a ring of `entries`, a power of two, that was asked for before.
    fn map(
        socket: BorrowedFd<'_>,
        page_offset: u64,
        at: &XdpRingOffset,
        entries: u32,
    ) -> io::Result<Shared<T>> {
        let len = at.desc as usize + entries as usize * size_of::<T>();
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses the address; nothing else is mapped there.
        let memory = unsafe {
            mmap(ptr::null_mut(), len, protection, flags | MapFlags::POPULATE, socket, page_offset)
        }?;
        let memory: NonNull<u8> = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the kernel has told these offsets of the mapping, whose length covers them.
        let part = |offset: u64| unsafe { memory.add(offset as usize) };
        Ok(Shared {
            memory,
            len,
            producer: part(at.producer).cast(),
            consumer: part(at.consumer).cast(),
            flags: at.flags.map(|offset| part(offset).cast()),
            entries: part(at.desc).cast(),
            mask: entries - 1,
        })
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: it is inside the mapping, aligned, and mapped as long as `self`.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as of the producer.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: masked, so one of the entries that the mapping has.
        unsafe { self.entries.add((index & self.mask) as usize) }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: maps exactly what `map` mapped; no reference outlives the ring.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.len) };
    }
}

/// A ring that the kernel consumes: fill, or transmit.
pub struct ToKernel<T> {
    shared: Shared<T>,
    /// Our index: what lies before it and was published is the kernel's.
    produced: u32,
    /// The kernel's index when it was last looked at.
    consumed: u32,
}

impl<T: Copy> ToKernel<T> {
    /// Maps one of `entries` entries.
    pub fn map(
        socket: BorrowedFd<'_>,
        page_offset: u64,
        at: &XdpRingOffset,
        entries: u32,
    ) -> io::Result<ToKernel<T>> {
        let shared = Shared::map(socket, page_offset, at, entries)?;
        Ok(ToKernel { shared, produced: 0, consumed: 0 })
    }

    /// Entries that can be put in, at least `want` where there are as many.
    #[inline]
    pub fn room(&mut self, want: u32) -> u32 {
        let entries = self.shared.mask + 1;
        let free = entries - self.produced.wrapping_sub(self.consumed);
        if free >= want {
            return free;
        }
        self.consumed = self.shared.consumer().load(Ordering::Acquire);
        entries - self.produced.wrapping_sub(self.consumed)
    }

    /// Puts an entry in, for which there is room; the kernel sees it when it is published.
    #[inline]
    pub fn put(&mut self, entry: T) {
        debug_assert!(self.produced.wrapping_sub(self.consumed) <= self.shared.mask);
        // SAFETY: `room` saw the entry as ours, and the kernel reads it only once it is published.
        unsafe { self.shared.entry(self.produced).write(entry) };
        self.produced = self.produced.wrapping_add(1);
    }

    /// Gives the kernel what was put in.
    #[inline]
    pub fn publish(&mut self) {
        self.shared.producer().store(self.produced, Ordering::Release);
    }

    /// Entries that the kernel has not taken.
    #[inline]
    pub fn waiting(&mut self) -> u32 {
        self.consumed = self.shared.consumer().load(Ordering::Acquire);
        self.produced.wrapping_sub(self.consumed)
    }

    /// Whether the kernel wants to be told of new entries by a call.
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        self.shared.flags.is_some_and(|flags| {
            // SAFETY: as of the producer's index.
            let flags = unsafe { flags.as_ref() }.load(Ordering::Relaxed);
            flags & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
        })
    }
}

/// A ring that the kernel produces: receive, or completion.
pub struct FromKernel<T> {
    shared: Shared<T>,
    /// Our index: what lies before it and was released is the kernel's.
    consumed: u32,
    /// The kernel's index when it was last looked at.
    produced: u32,
}

impl<T: Copy> FromKernel<T> {
    /// Maps one of `entries` entries.
    pub fn map(
        socket: BorrowedFd<'_>,
        page_offset: u64,
        at: &XdpRingOffset,
        entries: u32,
    ) -> io::Result<FromKernel<T>> {
        let shared = Shared::map(socket, page_offset, at, entries)?;
        Ok(FromKernel { shared, consumed: 0, produced: 0 })
    }

    /// Entries that can be taken.
    #[inline]
    pub fn available(&mut self) -> u32 {
        if self.produced == self.consumed {
            self.produced = self.shared.producer().load(Ordering::Acquire);
        }
        self.produced.wrapping_sub(self.consumed)
    }

    /// Takes an entry that is available; the kernel has its place back when it is released.
    #[inline]
    pub fn take(&mut self) -> T {
        debug_assert!(self.produced != self.consumed);
        // SAFETY: `available` saw the entry published, and the kernel writes into it again only
        // once it is released.
        let entry = unsafe { self.shared.entry(self.consumed).read() };
        self.consumed = self.consumed.wrapping_add(1);
        entry
    }

    /// Gives the places of what was taken back to the kernel.
    #[inline]
    pub fn release(&mut self) {
        self.shared.consumer().store(self.consumed, Ordering::Release);
    }
}
