//! Frame memory: one region of fixed frames, and the descriptors that own them.
//!
//! A [`Desc`] is the only key to its frame: it can be neither copied nor made, only moved (through
//! rings, between threads), so whoever holds it may read and write the frame, and nobody else can.
//! That is the whole argument for the `unsafe` blocks below.
//!
//! A frame starts at one of eight offsets within its slot: were all frames at the start of a 2 KiB
//! slot, their first lines would share two sets of a first-level cache.
#![allow(unsafe_code)]

use std::num::{NonZeroU16, NonZeroU64};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::limits::PORTS_MAX;

/// Slot length for frames up to 1518 bytes, with tags.
const SLOT_SMALL: usize = 2_048;
/// Slot length for frames up to 9000 bytes and more.
const SLOT_LARGE: usize = 16_384;
/// The least headroom in front of a frame, for headers and the mark.
const HEADROOM: usize = 64;
/// Bytes at the start of a slot that have the mark.
const MARK_LEN: usize = 8;
/// Offsets within a slot at which frames start, in cache lines.
const COLOURS: usize = 8;
/// A region's descriptors address 4 GiB at most.
const REGION_LEN_MAX: usize = u32::MAX as usize;
const HUGE_PAGE: usize = 2 << 20;

const _: () = assert!(MARK_LEN < HEADROOM && SLOT_SMALL.is_power_of_two());
const _: () = assert!(SLOT_LARGE.is_power_of_two());
const _: () = assert!(SLOT_SMALL - HEADROOM - (COLOURS - 1) * 64 >= 1_518);

/// Why frame memory cannot be allocated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// More memory than descriptors can address.
    #[error("{frames} frames of {slot_len} B exceed 4 GiB; use fewer or shorter frames")]
    TooLarge {
        /// Asked for.
        frames: usize,
        /// Bytes of one slot.
        slot_len: usize,
    },
    /// A frame does not fit a slot.
    #[error("frames of {frame_len} B do not fit a slot; the longest is {frame_len_max} B")]
    FrameTooLong {
        /// Asked for, without FCS.
        frame_len: usize,
        /// Longest possible, without FCS.
        frame_len_max: usize,
    },
    /// Every id that a descriptor can name was used. Ids are not reused, so that a leftover
    /// descriptor of one region never opens another.
    #[error("65,534 regions were made by this process; restart it")]
    TooManyRegions,
    /// The system has no memory.
    #[error("no memory for {len} B of frames: {source}")]
    System {
        /// Bytes asked for.
        len: usize,
        /// The system's error.
        source: rustix::io::Errno,
    },
}

/// Fixed frames in one stretch of memory, in huge pages where the system gives them.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    slot_len: usize,
    /// Its number, as in [`Desc::place`].
    id: NonZeroU64,
}

// SAFETY: the memory belongs to the region until it is dropped; who may touch which part of it is
// decided by descriptors, which are moved, never shared for writing.
unsafe impl Send for Region {}
// SAFETY: as above; `&Region` gives access only through a descriptor.
unsafe impl Sync for Region {}

/// The frame at `address`, and the right to use it.
#[derive(Debug)]
pub struct Desc {
    /// Address, length and region, from the lowest bit. One word, so that a descriptor and its
    /// absence are moved in whole words: after writes of parts, the processor would wait for a read
    /// across them.
    place: NonZeroU64,
    /// RSS hash, if RSS computed one.
    pub hash: u32,
    /// Receive queue it was steered to.
    pub queue: u16,
    /// What rules set on the packet: [`FLAGGED`], [`MARKED`], [`LEAVES`] and the port.
    flags: u16,
}

/// Where parts of [`Desc::place`] begin; the address has the lowest bits.
const LEN_SHIFT: u32 = 32;
const REGION_SHIFT: u32 = 48;
/// The region of descriptors whose frames are the caller's: the last number, which no region has.
const BORROWED: u64 = (u16::MAX as u64) << REGION_SHIFT;

/// A rule flagged the packet.
const FLAGGED: u16 = 1;
/// A rule marked the packet with a number, which is in the slot.
const MARKED: u16 = 2;

/// A rule sends the packet by the port in the upper byte.
const LEAVES: u16 = 4;
const PORT_SHIFT: u32 = 8;

const _: () = assert!(PORTS_MAX <= 1 << (16 - PORT_SHIFT));
const _: () = assert!(size_of::<Desc>() == 16, "four descriptors to a cache line");
const _: () = assert!(size_of::<Option<Desc>>() == 16, "where somebody lends one out as well");

impl Desc {
    /// Where the frame begins in its region, bytes.
    #[inline]
    pub fn address(&self) -> u32 {
        self.place.get() as u32
    }

    /// Length of the frame in bytes, without FCS.
    #[inline]
    pub fn len(&self) -> u16 {
        (self.place.get() >> LEN_SHIFT) as u16
    }

    /// Whether the frame has no byte.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a rule flagged or marked the packet.
    #[inline]
    pub fn is_flagged(&self) -> bool {
        self.flags & FLAGGED != 0
    }

    /// Flags the packet.
    #[inline]
    pub(crate) fn flag(&mut self) {
        self.flags |= FLAGGED;
    }

    /// The Ethernet port by which a rule sends the packet; no queue gets it then.
    #[inline]
    pub fn port(&self) -> Option<u16> {
        (self.flags & LEAVES != 0).then_some(self.flags >> PORT_SHIFT)
    }

    /// Sends the packet by a port, below [`PORTS_MAX`].
    #[inline]
    pub(crate) fn set_port(&mut self, port: u16) {
        self.flags |= LEAVES | port << PORT_SHIFT;
    }

    /// Clears what rules set on the packet that had this descriptor before.
    #[inline]
    pub(crate) fn clear_flags(&mut self) {
        self.flags = 0;
    }

    /// Number of its region, at its bits in the word.
    #[inline]
    fn region(&self) -> u64 {
        self.place.get() >> REGION_SHIFT << REGION_SHIFT
    }

    /// The descriptor of frame `index` of a burst whose bytes are the caller's. Its region is one
    /// that [`Region::new`] never makes, so that every region refuses it.
    #[inline]
    pub(crate) fn borrowed(index: u32, len: u16) -> Desc {
        let place = BORROWED | u64::from(len) << LEN_SHIFT | u64::from(index);
        // SAFETY: the number of the region is not zero.
        let place = unsafe { NonZeroU64::new_unchecked(place) };
        Desc { place, hash: 0, queue: 0, flags: 0 }
    }

    /// Sets the length of a frame whose bytes are the caller's.
    #[inline]
    pub(crate) fn set_borrowed_len(&mut self, len: u16) {
        assert!(self.region() == BORROWED, "a descriptor of a region");
        self.put(self.address(), len);
    }

    /// Notes that a rule marked the packet with a number.
    #[inline]
    pub(crate) fn set_marked(&mut self) {
        self.flags |= FLAGGED | MARKED;
    }

    /// Whether a rule marked the packet with a number.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        self.flags & MARKED != 0
    }

    /// Sets the address and the length, within the same region.
    #[inline]
    fn put(&mut self, address: u32, len: u16) {
        let place = self.region() | u64::from(len) << LEN_SHIFT | u64::from(address);
        // SAFETY: the number of the region is not zero, and its bits are unchanged.
        self.place = unsafe { NonZeroU64::new_unchecked(place) };
    }
}

/// The bytes of a burst's frames, for the pipeline: those of a [`Region`], or the caller's own
/// (`borrowed`).
pub(crate) trait Frames {
    /// [`Region::frame`].
    fn frame<'a>(&'a self, desc: &'a Desc) -> &'a [u8];
    /// [`Region::frame_mut`].
    fn frame_mut<'a>(&'a self, desc: &'a mut Desc) -> &'a mut [u8];
    /// [`Region::grow_front`].
    fn grow_front<'a>(&'a self, desc: &'a mut Desc, len: usize) -> Option<&'a mut [u8]>;
    /// [`Region::shrink_front`].
    fn shrink_front(&self, desc: &mut Desc, len: usize);
    /// Marks a packet with a number.
    fn set_mark(&self, desc: &mut Desc, mark: u32);
}

impl Frames for Region {
    #[inline]
    fn frame<'a>(&'a self, desc: &'a Desc) -> &'a [u8] {
        self.frame(desc)
    }

    #[inline]
    fn frame_mut<'a>(&'a self, desc: &'a mut Desc) -> &'a mut [u8] {
        self.frame_mut(desc)
    }

    #[inline]
    fn grow_front<'a>(&'a self, desc: &'a mut Desc, len: usize) -> Option<&'a mut [u8]> {
        self.grow_front(desc, len)
    }

    #[inline]
    fn shrink_front(&self, desc: &mut Desc, len: usize) {
        self.shrink_front(desc, len);
    }

    #[inline]
    fn set_mark(&self, desc: &mut Desc, mark: u32) {
        self.set_mark(desc, mark);
    }
}

impl Region {
    /// `frames` slots for frames of at most `frame_len` bytes without FCS, and a descriptor for
    /// each.
    pub fn new(frames: usize, frame_len: usize) -> Result<(Arc<Region>, Vec<Desc>), MemoryError> {
        static LAST_ID: AtomicU16 = AtomicU16::new(0);
        let reserved = HEADROOM + (COLOURS - 1) * 64;
        let fits = |slot_len: &usize| frame_len + reserved <= *slot_len;
        let slot_len = [SLOT_SMALL, SLOT_LARGE]
            .into_iter()
            .find(fits)
            .ok_or(MemoryError::FrameTooLong { frame_len, frame_len_max: SLOT_LARGE - reserved })?;
        let len = frames.checked_mul(slot_len).filter(|len| *len <= REGION_LEN_MAX);
        let len = len.ok_or(MemoryError::TooLarge { frames, slot_len })?;
        let next = |id: u16| id.checked_add(1).filter(|id| *id < u16::MAX);
        let last = LAST_ID.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok();
        let id = last.and_then(next).and_then(NonZeroU16::new);
        let id = id.and_then(|id| NonZeroU64::new(u64::from(id.get()) << REGION_SHIFT));
        let id = id.ok_or(MemoryError::TooManyRegions)?;
        let base = map(len)?;
        let region = Arc::new(Region { base, len, slot_len, id });
        let descs = (0..frames).map(|i| region.desc(i)).collect();
        Ok((region, descs))
    }

    fn desc(&self, frame: usize) -> Desc {
        let address = frame * self.slot_len + HEADROOM + frame % COLOURS * 64;
        Desc { place: self.id | address as u64, hash: 0, queue: 0, flags: 0 }
    }

    /// Longest frame a slot holds, bytes without FCS.
    pub fn frame_len_max(&self) -> usize {
        self.slot_len - HEADROOM - (COLOURS - 1) * 64
    }

    /// Start and length of the region in bytes, for code that shares it with a party without
    /// descriptors, such as the kernel. Descriptors still decide which bytes may be accessed.
    pub fn extent(&self) -> (NonNull<u8>, usize) {
        (self.base, self.len)
    }

    /// Bytes of a slot, a power of two.
    pub fn slot_len(&self) -> usize {
        self.slot_len
    }

    /// Number of frames.
    pub fn frames(&self) -> usize {
        self.len / self.slot_len
    }

    /// Number of the slot that an address of the region lies in, from 0.
    #[inline]
    pub fn slot_at(&self, address: u64) -> usize {
        (address >> self.slot_len.trailing_zeros()) as usize
    }

    /// Number of the slot of a frame of this region. For a frame of another region, a number that
    /// no slot has.
    #[inline]
    pub fn slot_of(&self, desc: &Desc) -> usize {
        // The number of the region cancels out, or leaves bits above all addresses.
        let len = u64::from(u16::MAX) << LEN_SHIFT;
        self.slot_at((desc.place.get() ^ self.id.get()) & !len)
    }

    /// Moves a frame within its slot: it begins at `address` of the region and has `len` bytes from
    /// now on. For code that wrote the bytes by other means. False, and nothing is changed, if this
    /// is not within the slot.
    #[inline]
    pub fn set_extent(&self, desc: &mut Desc, address: u64, len: u32) -> bool {
        assert!(desc.region() == self.id.get(), "a descriptor of another region");
        let inside = address & (self.slot_len as u64 - 1);
        let fits = inside + u64::from(len) <= self.slot_len as u64 && len <= u32::from(u16::MAX);
        if self.slot_at(address) != self.slot_at(desc.address().into()) || !fits {
            return false;
        }
        desc.put(address as u32, len as u16);
        true
    }

    /// Pointer to the frame of a descriptor of this region.
    #[inline]
    fn at(&self, desc: &Desc) -> NonNull<u8> {
        assert!(desc.region() == self.id.get(), "a descriptor of another region");
        assert!((desc.address() as usize) < self.len);
        // SAFETY: the address lies inside the mapping, as was just checked.
        unsafe { self.base.add(desc.address() as usize) }
    }

    /// The bytes of a frame.
    #[inline]
    pub fn frame<'a>(&'a self, desc: &'a Desc) -> &'a [u8] {
        // SAFETY: `at` checked that the slot is ours, and every function that sets a place or a
        // length makes sure that the frame ends in its slot. Nobody writes while the only
        // descriptor of the frame is borrowed.
        unsafe { std::slice::from_raw_parts(self.at(desc).as_ptr(), usize::from(desc.len())) }
    }

    /// The bytes of a frame, to change.
    #[inline]
    pub fn frame_mut<'a>(&'a self, desc: &'a mut Desc) -> &'a mut [u8] {
        // SAFETY: as in `frame`; the descriptor is borrowed for writing, so this is the only
        // access.
        unsafe { std::slice::from_raw_parts_mut(self.at(desc).as_ptr(), usize::from(desc.len())) }
    }

    /// All bytes that a new frame may have. The new frame begins at the slot's start offset,
    /// wherever the last one began.
    #[inline]
    pub fn slot_mut<'a>(&'a self, desc: &'a mut Desc) -> &'a mut [u8] {
        let address = desc.address() as usize - self.offset(desc) + self.home(desc);
        // A longer frame ended in its slot when counted from its own start, not from here.
        let len = usize::from(desc.len()).min(self.frame_len_max());
        desc.put(address as u32, len as u16);
        // SAFETY: as in `frame_mut`; a slot has `frame_len_max` bytes behind its home.
        unsafe { std::slice::from_raw_parts_mut(self.at(desc).as_ptr(), self.frame_len_max()) }
    }

    /// Sets the length of a frame, cut to [`Region::frame_len_max`] and to the rest of its slot.
    #[inline]
    pub fn set_len(&self, desc: &mut Desc, len: u16) {
        assert!(desc.region() == self.id.get(), "a descriptor of another region");
        let max = self.frame_len_max().min(self.slot_len - self.offset(desc));
        desc.put(desc.address(), len.min(max as u16));
    }

    /// Adds bytes in front of a frame, if its slot has headroom; returns all its bytes. The new
    /// bytes have old content. Moves a frame that begins too early in its slot.
    #[inline]
    pub fn grow_front<'a>(&'a self, desc: &'a mut Desc, len: usize) -> Option<&'a mut [u8]> {
        let (offset, old_len) = (self.offset(desc), usize::from(desc.len()));
        if MARK_LEN + len + old_len > self.slot_len {
            return None;
        }
        let to = offset.checked_sub(len).filter(|&to| to >= MARK_LEN).unwrap_or(MARK_LEN);
        let slot = self.at(desc).as_ptr().wrapping_sub(offset);
        if to + len != offset {
            // SAFETY: both ranges lie in the slot, which only the holder of the descriptor uses:
            // the old one as in `frame`, the new one as was just checked.
            unsafe { std::ptr::copy(slot.add(offset), slot.add(to + len), old_len) };
        }
        let address = desc.address() as usize - offset + to;
        desc.put(address as u32, (old_len + len) as u16);
        Some(self.frame_mut(desc))
    }

    /// Removes the first bytes of a frame, fewer than it has.
    ///
    /// # Panics
    /// If they are all of its bytes, or more.
    #[inline]
    pub fn shrink_front(&self, desc: &mut Desc, len: usize) {
        assert!(desc.region() == self.id.get(), "a descriptor of another region");
        assert!(len < usize::from(desc.len()), "a frame begins in its slot");
        desc.put(desc.address() + len as u32, desc.len() - len as u16);
    }

    /// Where a frame begins in its slot.
    #[inline]
    fn offset(&self, desc: &Desc) -> usize {
        desc.address() as usize & (self.slot_len - 1)
    }

    /// Where new frames begin in their slot.
    #[inline]
    fn home(&self, desc: &Desc) -> usize {
        let slot = desc.address() as usize >> self.slot_len.trailing_zeros();
        HEADROOM + slot % COLOURS * 64
    }

    /// The number with which a rule marked the packet.
    #[inline]
    pub fn mark(&self, desc: &Desc) -> Option<u32> {
        if !desc.is_marked() {
            return None;
        }
        let at = self.mark_at(desc);
        // SAFETY: the mark lies in the slot of the frame, in front of it, and is aligned; nobody
        // writes while the frame's only descriptor is borrowed.
        Some(unsafe { at.read() })
    }

    /// Marks a packet with a number.
    #[inline]
    pub(crate) fn set_mark(&self, desc: &mut Desc, mark: u32) {
        desc.set_marked();
        let at = self.mark_at(desc);
        // SAFETY: as in `mark`; the descriptor is borrowed for writing.
        unsafe { at.write(mark) };
    }

    /// Where the mark of a frame is: at the start of its slot.
    #[inline]
    fn mark_at(&self, desc: &Desc) -> NonNull<u32> {
        let behind = self.offset(desc);
        // SAFETY: `at` is inside the slot, which starts `behind` bytes before.
        unsafe { self.at(desc).sub(behind).cast() }
    }

    /// Prefetches the first line of a frame for writing. A core that takes a frame from another
    /// core also changes or refills it, so one request for writing saves a second one.
    #[inline]
    pub fn prefetch(&self, desc: &Desc) {
        let line = self.base.as_ptr().wrapping_add(desc.address() as usize);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch never faults, whatever the address; processors without this one
        // (before Broadwell) do nothing.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe {
            let line = line.cast_const();
            std::arch::asm!("prfm pstl1keep, [{}]", in(reg) line, options(nostack));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = line;
    }
}

/// Anonymous memory, all of it present, aligned to huge pages by the kernel where it can.
fn map(len: usize) -> Result<NonNull<u8>, MemoryError> {
    let flags = MapFlags::PRIVATE;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let failed = |source| MemoryError::System { len, source };
    // SAFETY: a new private mapping at an address of the kernel's choice disturbs nothing.
    let base = unsafe {
        rustix::mm::mmap_anonymous(std::ptr::null_mut(), len.max(1), protection, flags)
            .map_err(failed)?
    };
    if len >= HUGE_PAGE {
        // SAFETY: advice on our own mapping; a refusal only costs speed.
        let _ = unsafe { rustix::mm::madvise(base, len, Advice::LinuxHugepage) };
    }
    // SAFETY: the mapping is ours and `len` long; touching it now keeps faults off the packet path.
    unsafe { std::ptr::write_bytes(base.cast::<u8>(), 0, len) };
    NonNull::new(base.cast()).ok_or(MemoryError::System { len, source: rustix::io::Errno::NOMEM })
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length and is unmapped once; descriptors
        // reach it only through the region, which is being dropped.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len.max(1)) };
    }
}

/// Free frames of one region, for one thread.
#[derive(Debug)]
pub struct Pool {
    region: Arc<Region>,
    free: Vec<Desc>,
}

impl Pool {
    /// A pool of `frames` frames of at most `frame_len` bytes without FCS.
    pub fn new(frames: usize, frame_len: usize) -> Result<Pool, MemoryError> {
        let (region, free) = Region::new(frames, frame_len)?;
        Ok(Pool { region, free })
    }

    /// The region of its frames.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Number of free frames.
    #[inline]
    pub fn available(&self) -> usize {
        self.free.len()
    }

    /// Takes a frame: the one that was returned last, which is most likely in the cache.
    #[inline]
    pub fn take(&mut self) -> Option<Desc> {
        self.free.pop()
    }

    /// Returns a frame.
    #[inline]
    pub fn give(&mut self, desc: Desc) {
        self.free.push(desc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_do_not_overlap_and_start_on_different_lines() {
        let (region, mut descs) = Region::new(64, 1_514).unwrap();
        for (i, desc) in descs.iter_mut().enumerate() {
            region.set_len(desc, 1_514);
            region.frame_mut(desc).fill(i as u8);
        }
        for (i, desc) in descs.iter().enumerate() {
            assert!(region.frame(desc).iter().all(|&b| b == i as u8), "frame {i}");
        }
        let lines: std::collections::HashSet<u32> =
            descs.iter().map(|d| d.address() / 64 % 32).collect();
        assert_eq!(lines.len(), COLOURS);
    }

    #[test]
    fn frames_grow_in_front_until_their_slot_is_full_and_keep_their_bytes() {
        let (region, mut descs) = Region::new(9, 1_514).unwrap();
        for (i, desc) in descs.iter_mut().enumerate() {
            let home = desc.address();
            region.slot_mut(desc)[..1_000].fill(i as u8);
            region.set_len(desc, 1_000);
            region.set_mark(desc, 77);
            let mut grown = 0;
            while let Some(frame) = region.grow_front(desc, 40) {
                frame[..40].fill(0xff);
                grown += 1;
            }
            assert_eq!(grown, (SLOT_SMALL - MARK_LEN - 1_000) / 40);
            let (front, rest) = region.frame(desc).split_at(grown * 40);
            assert!(front.iter().all(|byte| *byte == 0xff));
            assert_eq!(rest, [i as u8; 1_000], "frame {i}");
            assert_eq!(region.mark(desc), Some(77));
            region.shrink_front(desc, grown * 40 + 990);
            assert_eq!(region.frame(desc), [i as u8; 10]);
            assert_eq!(region.slot_mut(desc).len(), region.frame_len_max());
            assert_eq!(desc.address(), home, "a new frame begins where the first did");
        }
    }

    #[test]
    fn a_frame_moves_within_its_slot_and_not_out_of_it() {
        let (region, mut descs) = Region::new(3, 1_514).unwrap();
        let desc = &mut descs[1];
        let slot = SLOT_SMALL as u64;
        assert_eq!((region.frames(), region.slot_at(slot), region.slot_at(slot - 1)), (3, 1, 0));
        for (address, len) in [(slot, 2_048), (slot + 256, 1_514), (2 * slot - 1, 1)] {
            assert!(region.set_extent(desc, address, len));
            assert_eq!((desc.address(), desc.len()), (address as u32, len as u16));
        }
        for (address, len) in [
            (slot - 1, 2),
            (0, 60),
            (2 * slot, 60),
            (slot + 1, 2_048),
            (slot, u32::MAX),
            (1 << 40, 1),
        ] {
            assert!(!region.set_extent(desc, address, len), "{address} {len}");
        }
        assert_eq!((desc.address(), desc.len()), (2 * slot as u32 - 1, 1));
    }

    #[test]
    fn jumbo_frames_fit_and_longer_ones_are_refused() {
        assert!(Region::new(2, 8_996).unwrap().0.frame_len_max() >= 8_996);
        assert!(matches!(Region::new(2, 20_000), Err(MemoryError::FrameTooLong { .. })));
        assert!(matches!(Region::new(1 << 20, 9_000), Err(MemoryError::TooLarge { .. })));
    }

    #[test]
    fn a_slot_has_the_number_of_its_frame_and_none_of_another_regions() {
        let (region, descs) = Region::new(64, 1_514).unwrap();
        for (number, desc) in descs.iter().enumerate() {
            assert_eq!(region.slot_of(desc), number);
        }
        let (other, _) = Region::new(64, 1_514).unwrap();
        assert!(descs.iter().all(|desc| other.slot_of(desc) >= 1 << 32));
        assert!(matches!(Region::new(1 << 60, 64), Err(MemoryError::TooLarge { .. })));
    }

    #[test]
    #[should_panic(expected = "another region")]
    fn a_descriptor_opens_only_its_own_region() {
        let (_a, descs) = Region::new(1, 64).unwrap();
        let (b, _) = Region::new(1, 64).unwrap();
        b.frame(&descs[0]);
    }

    #[test]
    #[should_panic(expected = "another region")]
    fn a_region_sets_lengths_of_its_own_frames_only() {
        let (jumbo, _) = Region::new(1, 9_000).unwrap();
        let (_small, mut descs) = Region::new(1, 64).unwrap();
        jumbo.set_len(&mut descs[0], 9_000);
    }
}
