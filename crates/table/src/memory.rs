//! Zeroed arrays of atomic words, large ones on pages of their own.
//!
//! One of the modules that may use `unsafe`: it owns raw memory and hands out a slice.

#![allow(unsafe_code)]

use crate::sync::AtomicU64;

/// Which pages large arrays ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Pages {
    /// Transparent huge pages where the system grants them.
    #[default]
    Huge,
    /// Pages of the ordinary size.
    Small,
}

/// The memory could not be had.
#[derive(Debug)]
pub(crate) struct OutOfMemory {
    pub(crate) bytes: usize,
}

#[cfg(not(any(loom, miri)))]
pub(crate) use native::Memory;
#[cfg(any(loom, miri))]
pub(crate) use plain::Memory;

#[cfg(test)]
thread_local! {
    /// Set by a test that wants the next allocation of this thread to fail.
    pub(crate) static REFUSE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn refused() -> bool {
    #[cfg(test)]
    return REFUSE.get();
    #[cfg(not(test))]
    false
}

#[cfg(not(any(loom, miri)))]
mod native {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    use super::{AtomicU64, OutOfMemory, Pages, refused};
    use crate::limits::{
        HUGE_BYTES as HUGE, MAP_BYTES_MIN, PAGE_BYTES as PAGE, RELEASE_BYTES, RELEASE_SMALL_BYTES,
    };

    /// Two lines: the largest entry.
    const ALIGN: usize = 128;

    /// An owned, zeroed array of words, aligned to two cache lines.
    #[derive(Debug)]
    pub(crate) struct Memory {
        start: NonNull<u8>,
        bytes: usize,
        mapped: bool,
        /// Whether huge pages were asked for: it is large enough for one.
        huge: bool,
        /// Bytes that the system was made to back, and those that it is to be.
        backed: usize,
        due: usize,
    }

    // SAFETY: the memory is owned and holds atomics only, which any thread may use.
    unsafe impl Send for Memory {}
    // SAFETY: shared access is to atomics only.
    unsafe impl Sync for Memory {}

    impl Memory {
        pub(crate) fn zeroed(words: usize, pages: Pages) -> Result<Self, OutOfMemory> {
            let bytes = words.checked_mul(8).filter(|bytes| *bytes <= isize::MAX as usize / 2);
            let bytes = bytes.ok_or(OutOfMemory { bytes: usize::MAX })?;
            let mapped = bytes >= MAP_BYTES_MIN && cfg!(target_os = "linux");
            let huge = mapped && bytes >= HUGE && pages == Pages::Huge;
            let start = match (refused(), mapped) {
                (true, _) => None,
                (false, true) => map(bytes, if huge { HUGE } else { PAGE }),
                (false, false) => heap(bytes),
            };
            let start = start.ok_or(OutOfMemory { bytes })?;
            Ok(Self { start, bytes, mapped, huge, backed: 0, due: 0 })
        }

        pub(crate) fn bytes(&self) -> usize {
            self.bytes
        }

        pub(crate) fn words(&self) -> &[AtomicU64] {
            let start = self.start.as_ptr().cast();
            // SAFETY: `bytes` bytes at `start` are owned, zeroed (a valid AtomicU64), aligned.
            unsafe { std::slice::from_raw_parts(start, self.bytes / 8) }
        }

        /// Whether it is large enough for huge pages and has none.
        pub(crate) fn lacks_huge(&self) -> bool {
            self.mapped && self.bytes >= HUGE && !self.huge
        }

        /// Makes the system back `bytes` more of it now rather than at first use, as soon as they
        /// make a page; true when all of it is backed. Nobody else has it yet, and it is zero.
        pub(crate) fn populate(&mut self, bytes: usize) -> bool {
            self.due = self.due.saturating_add(bytes).min(self.bytes);
            let huge_end = if self.huge { self.bytes / HUGE * HUGE } else { 0 };
            let whole = if self.due < huge_end { self.due / HUGE * HUGE } else { self.due };
            let step = PAGE / 8;
            for word in self.words()[self.backed / 8..whole / 8].iter().step_by(step) {
                word.store(0, crate::sync::Relaxed);
            }
            self.backed = whole;
            self.backed == self.bytes
        }

        /// Bytes that the system was made to back.
        #[cfg(test)]
        pub(crate) fn backed(&self) -> usize {
            self.backed
        }

        /// Gives a piece back to the system, from the end; true when nothing is left.
        pub(crate) fn release(&mut self) -> bool {
            let bytes = if self.huge { RELEASE_BYTES } else { RELEASE_SMALL_BYTES };
            if !self.mapped || self.bytes <= bytes {
                return true;
            }
            let kept = (self.bytes - bytes).next_multiple_of(PAGE);
            if kept < self.bytes {
                // SAFETY: the tail is owned, page aligned, and `bytes` excludes it from here on.
                unsafe { unmap(self.start.as_ptr().wrapping_add(kept), self.bytes - kept) };
                self.bytes = kept;
            }
            false
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            if self.mapped {
                // SAFETY: what is left of the mapping is owned and not used after this.
                return unsafe { unmap(self.start.as_ptr(), self.bytes) };
            }
            if let Ok(layout) = Layout::from_size_align(self.bytes, ALIGN) {
                // SAFETY: it was allocated by `heap` with this very layout.
                unsafe { dealloc(self.start.as_ptr(), layout) }
            }
        }
    }

    fn heap(bytes: usize) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, ALIGN).ok()?;
        if bytes == 0 {
            return None;
        }
        // SAFETY: the layout is not of size zero.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }

    #[cfg(target_os = "linux")]
    fn map(bytes: usize, page: usize) -> Option<NonNull<u8>> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

        let flags = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        let kept = bytes.next_multiple_of(PAGE);
        let padded = kept.checked_add(if page == HUGE { HUGE } else { 0 })?;
        // SAFETY: a new anonymous mapping at an address of the system's choice harms nobody.
        let raw = unsafe { mmap_anonymous(std::ptr::null_mut(), padded, flags.0, flags.1) };
        let raw: *mut u8 = raw.ok()?.cast();
        // Start on a page of the size; the rest of the padding goes back.
        let skip = raw.align_offset(page);
        let start = raw.wrapping_add(skip);
        // SAFETY: both ends lie inside the mapping just made, are page aligned and unused.
        unsafe {
            if skip > 0 {
                let _ = munmap(raw.cast(), skip);
            }
            if padded > skip + kept {
                let _ = munmap(start.wrapping_add(kept).cast(), padded - skip - kept);
            }
        }
        // One that is too small for a huge page needs no advice.
        let advice = match page {
            HUGE => Advice::LinuxHugepage,
            _ if kept < HUGE => return NonNull::new(start),
            _ => Advice::LinuxNoHugepage,
        };
        // SAFETY: the range is owned; the advice changes no content. A kernel without
        // transparent huge pages refuses it, which costs speed only.
        let _ = unsafe { madvise(start.cast(), kept, advice) };
        NonNull::new(start)
    }

    /// # Safety
    /// The range is a page-aligned part of a mapping made by `map`, owned and unused.
    #[cfg(target_os = "linux")]
    unsafe fn unmap(start: *mut u8, bytes: usize) {
        // SAFETY: promised by the caller.
        let _ = unsafe { rustix::mm::munmap(start.cast(), bytes) };
    }

    #[cfg(not(target_os = "linux"))]
    fn map(bytes: usize, _: usize) -> Option<NonNull<u8>> {
        heap(bytes)
    }

    #[cfg(not(target_os = "linux"))]
    unsafe fn unmap(_: *mut u8, _: usize) {}
}

/// The same face over a plain vector, for the model checker and the interpreter.
#[cfg(any(loom, miri))]
mod plain {
    use super::{AtomicU64, OutOfMemory, Pages, refused};

    #[derive(Debug)]
    pub(crate) struct Memory {
        words: Box<[AtomicU64]>,
    }

    impl Memory {
        pub(crate) fn zeroed(words: usize, _: Pages) -> Result<Self, OutOfMemory> {
            if refused() || words > 1 << 28 {
                return Err(OutOfMemory { bytes: words.saturating_mul(8) });
            }
            Ok(Self { words: (0..words).map(|_| AtomicU64::new(0)).collect() })
        }

        pub(crate) fn bytes(&self) -> usize {
            8 * self.words.len()
        }

        pub(crate) fn words(&self) -> &[AtomicU64] {
            &self.words
        }

        pub(crate) fn lacks_huge(&self) -> bool {
            false
        }

        pub(crate) fn populate(&mut self, _: usize) -> bool {
            true
        }

        #[cfg(test)]
        pub(crate) fn backed(&self) -> usize {
            0
        }

        pub(crate) fn release(&mut self) -> bool {
            true
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::limits::{MAP_BYTES_MIN, RELEASE_BYTES, RELEASE_SMALL_BYTES};
    use crate::sync::Relaxed;

    #[test]
    fn small_and_large_are_zeroed_aligned_and_writable() {
        for words in [1, 100, MAP_BYTES_MIN / 8, MAP_BYTES_MIN / 8 + 1] {
            for pages in [Pages::Huge, Pages::Small] {
                let memory = Memory::zeroed(words, pages).unwrap();
                assert_eq!(memory.words().len(), words);
                assert!(memory.words().iter().all(|word| word.load(Relaxed) == 0));
                if cfg!(not(miri)) {
                    assert_eq!(memory.words().as_ptr() as usize % 128, 0);
                }
                memory.words()[words - 1].store(7, Relaxed);
                assert_eq!(memory.words()[words - 1].load(Relaxed), 7);
            }
        }
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(Memory::zeroed(usize::MAX / 8, Pages::Huge).is_err());
        assert!(Memory::zeroed(usize::MAX, Pages::Small).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long under Miri")]
    fn memory_goes_back_piece_by_piece() {
        for (pages, piece) in [(Pages::Small, RELEASE_SMALL_BYTES), (Pages::Huge, RELEASE_BYTES)] {
            let mut memory = Memory::zeroed((5 << 20) / 8, pages).unwrap();
            assert!(!memory.populate(4 << 20) || cfg!(miri), "a part");
            assert!(memory.populate(usize::MAX));
            let mut pieces = 0;
            while !memory.release() {
                pieces += 1;
            }
            let expected = ((5 << 20) - 1) / piece;
            assert!(cfg!(any(miri, not(target_os = "linux"))) || pieces == expected, "{pieces}");
        }
    }
}
