//! The rings of an AF_XDP socket: entries in memory shared with the kernel.
//!
//! A ring has one producer and one consumer, of which one is the kernel. Each has an index that it
//! alone stores, with release ordering, and the other loads, with acquire ordering; entries between
//! the two belong to the consumer, the others to the producer
//! (Documentation/networking/af_xdp.rst). That is the argument for the `unsafe` blocks below. An
//! entry is written through a [`Room`] and read through a [`Taken`] alone, which have no more of
//! them than were seen to be ours and borrow the ring, so that nothing is published or given back
//! meanwhile.
#![allow(unsafe_code)]

use std::io;
use std::mem::{align_of, size_of};
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use arrayvec::Drain;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Memory shared with the kernel, and where in it the parts of a ring are.
struct SharedRing<T> {
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
unsafe impl<T: Send> Send for SharedRing<T> {}

/// An entry of a ring: any bytes are valid, and all of its bytes are written.
pub trait RingEntry: Copy + FromBytes + Immutable + IntoBytes {}

impl<T: Copy + FromBytes + Immutable + IntoBytes> RingEntry for T {}

impl<T: RingEntry> SharedRing<T> {
    /// Maps a ring of `entries` that was asked for before.
    ///
    /// # Safety
    /// It is mapped once, has so many entries of this type, and its parts are where `at` says.
    unsafe fn map(
        socket: BorrowedFd<'_>,
        page_offset: u64,
        at: &XdpRingOffset,
        entries: u32,
    ) -> io::Result<SharedRing<T>> {
        let word = size_of::<AtomicU32>() as u64;
        let len = at.desc as usize + entries as usize * size_of::<T>();
        let is_inside = |at: u64| at.is_multiple_of(word) && at + word <= len as u64;
        let indices = [Some(at.producer), Some(at.consumer), at.flags];
        let fits = indices.into_iter().flatten().all(is_inside)
            && at.desc.is_multiple_of(align_of::<T>() as u64)
            && entries.is_power_of_two();
        if !fits {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses the address; nothing else is mapped there.
        let memory = unsafe {
            mmap(ptr::null_mut(), len, protection, flags | MapFlags::POPULATE, socket, page_offset)
        }?;
        let memory: NonNull<u8> = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: all of these offsets were just found to be inside of the mapping.
        let part = |offset: u64| unsafe { memory.add(offset as usize) };
        Ok(SharedRing {
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
        // SAFETY: it is inside the mapping, aligned (`map`), and mapped as long as `self`.
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

impl<T> Drop for SharedRing<T> {
    fn drop(&mut self) {
        // SAFETY: maps exactly what `map` mapped; no reference outlives the ring.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.len) };
    }
}

/// A ring that the kernel consumes: fill, or transmit.
pub struct ProducerRing<T> {
    shared: SharedRing<T>,
    /// Our index: what lies before it and was published is the kernel's.
    produced: u32,
    /// The kernel's index when it was last looked at.
    consumed: u32,
}

impl<T: RingEntry> ProducerRing<T> {
    /// Maps one of `entries` entries.
    ///
    /// # Safety
    /// The socket has such a ring at `page_offset`, of so many entries of this type, with its parts
    /// where `at` says. It is mapped once.
    ///
    /// # Errors
    /// What the kernel says, or where the parts do not fit.
    pub unsafe fn map(
        socket: BorrowedFd<'_>,
        page_offset: u64,
        at: &XdpRingOffset,
        entries: u32,
    ) -> io::Result<ProducerRing<T>> {
        // SAFETY: promised by the caller.
        let shared = unsafe { SharedRing::map(socket, page_offset, at, entries) }?;
        Ok(ProducerRing { shared, produced: 0, consumed: 0 })
    }

    /// Room for as many entries as `want`, or for as many as there can be.
    #[inline]
    pub fn room(&mut self, want: u32) -> WritableEntries<'_, T> {
        let entries = self.shared.mask + 1;
        let mut free = entries - self.produced.wrapping_sub(self.consumed);
        if free < want {
            self.consumed = self.shared.consumer().load(Ordering::Acquire);
            // A kernel at fault may be ahead of us, or further behind than there are entries.
            free = entries.saturating_sub(self.produced.wrapping_sub(self.consumed));
        }
        WritableEntries { left: free.min(want), ring: self }
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

/// Entries of a ring that are ours to write: proof of room for so many.
pub struct WritableEntries<'a, T> {
    ring: &'a mut ProducerRing<T>,
    left: u32,
}

impl<T: RingEntry> WritableEntries<'_, T> {
    /// How many entries there is room for.
    #[inline]
    pub fn left(&self) -> u32 {
        self.left
    }

    /// Puts an entry in; the kernel sees it when it is published.
    ///
    /// # Panics
    /// If there is no room left.
    #[inline]
    pub fn put(&mut self, entry: T) {
        assert!(self.left > 0, "no room left in a ring");
        self.left -= 1;
        // SAFETY: there was room.
        unsafe { self.write(entry) };
    }

    /// Puts an entry in for each of some items: one look at whether there is room for all of them.
    ///
    /// # Panics
    /// If there is not.
    #[inline]
    pub fn put_all<U, const N: usize>(
        &mut self,
        items: Drain<'_, U, N>,
        mut entry: impl FnMut(U) -> T,
    ) {
        let count = items.len();
        assert!(count <= self.left as usize, "no room left in a ring");
        self.left -= count as u32;
        for item in items {
            let entry = entry(item);
            // SAFETY: there was room for all items, and a `Drain` has as many as it says.
            unsafe { self.write(entry) };
        }
    }

    /// Writes the next entry.
    ///
    /// # Safety
    /// There is room for it that `left` does not count any more.
    #[inline]
    unsafe fn write(&mut self, entry: T) {
        // SAFETY: `room` saw the entry as ours, and the kernel reads it only once it is published,
        // for which this borrow has to end.
        unsafe { self.ring.shared.entry(self.ring.produced).write(entry) };
        self.ring.produced = self.ring.produced.wrapping_add(1);
    }
}

/// A ring that the kernel produces: receive, or completion.
pub struct ConsumerRing<T> {
    shared: SharedRing<T>,
    /// Our index: what lies before it and was released is the kernel's.
    consumed: u32,
    /// The kernel's index when it was last looked at.
    produced: u32,
}

impl<T: RingEntry> ConsumerRing<T> {
    /// Maps one of `entries` entries.
    ///
    /// # Safety
    /// The socket has such a ring at `page_offset`, of so many entries of this type, with its parts
    /// where `at` says. It is mapped once.
    ///
    /// # Errors
    /// What the kernel says, or where the parts do not fit.
    pub unsafe fn map(
        socket: BorrowedFd<'_>,
        page_offset: u64,
        at: &XdpRingOffset,
        entries: u32,
    ) -> io::Result<ConsumerRing<T>> {
        // SAFETY: promised by the caller.
        let shared = unsafe { SharedRing::map(socket, page_offset, at, entries) }?;
        Ok(ConsumerRing { shared, consumed: 0, produced: 0 })
    }

    /// The entries that can be taken, `most` at most.
    #[inline]
    pub fn take(&mut self, most: u32) -> ReadableEntries<'_, T> {
        if self.produced == self.consumed {
            self.produced = self.shared.producer().load(Ordering::Acquire);
        }
        ReadableEntries { left: self.produced.wrapping_sub(self.consumed).min(most), ring: self }
    }

    /// Gives the places of what was taken back to the kernel.
    #[inline]
    pub fn release(&mut self) {
        self.shared.consumer().store(self.consumed, Ordering::Release);
    }
}

/// Entries of a ring that are ours to read.
pub struct ReadableEntries<'a, T> {
    ring: &'a mut ConsumerRing<T>,
    left: u32,
}

impl<T> ReadableEntries<'_, T> {
    /// How many there are.
    #[inline]
    pub fn left(&self) -> u32 {
        self.left
    }
}

/// Takes one entry after the other; the kernel has their places back when they are released.
impl<T: RingEntry> Iterator for ReadableEntries<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        // SAFETY: `take` saw the entry published, and the kernel writes into it again only once it
        // is released, for which this borrow has to end. Any bytes are an entry.
        let entry = unsafe { self.ring.shared.entry(self.ring.consumed).read() };
        self.ring.consumed = self.ring.consumed.wrapping_add(1);
        Some(entry)
    }
}
