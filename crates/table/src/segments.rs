//! Arrays that one thread extends while others use them: never moved, and accessed without a lock.
//!
//! The system backs and zeroes their memory page by page at the first write, so that no operation
//! waits until a whole segment is zeroed.

use std::sync::OnceLock;

use crate::memory::{Memory, Pages};
use crate::sync::AtomicU64;

/// Elements of one segment. (A model under loom can follow only so many atomics.)
const SEGMENT: usize = if cfg!(loom) { 4 } else { 1 << 14 };

/// An array of elements of `N` words, zero at first, in segments that never move.
#[derive(Debug)]
pub struct Segments<const N: usize> {
    directory: Box<[OnceLock<Memory>]>,
}

impl<const N: usize> Segments<N> {
    /// For indices below `len_max`; no element has memory yet.
    #[must_use]
    pub fn new(len_max: u32) -> Self {
        let segments = (len_max as usize).div_ceil(SEGMENT);
        Self { directory: (0..segments).map(|_| OnceLock::new()).collect() }
    }

    /// The element; allocates memory for it if it has none. For the writer.
    ///
    /// # Panics
    /// If the index is not below `len_max`, or there is no memory.
    pub fn ensure(&self, index: u32) -> &[AtomicU64; N] {
        let (segment, at) = (index as usize / SEGMENT, index as usize % SEGMENT);
        let made = self.directory[segment].get_or_init(|| {
            let memory = Memory::zeroed(SEGMENT * N, Pages::Small);
            memory.unwrap_or_else(|refused| panic!("no memory for {} bytes", refused.bytes))
        });
        &made.words().as_chunks().0[at]
    }

    /// The element, if it has memory.
    #[inline]
    #[must_use]
    pub fn get(&self, index: u32) -> Option<&[AtomicU64; N]> {
        let (segment, at) = (index as usize / SEGMENT, index as usize % SEGMENT);
        self.directory.get(segment)?.get()?.words().as_chunks().0.get(at)
    }

    /// Memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let made = self.directory.iter().filter(|s| s.get().is_some()).count();
        made * SEGMENT * N * size_of::<u64>() + size_of_val(&*self.directory)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Relaxed;

    #[test]
    fn an_element_is_zero_at_first_and_stays_where_it_is() {
        let segments = Segments::<3>::new(3 * SEGMENT as u32);
        assert!(segments.get(SEGMENT as u32).is_none(), "it has no memory yet");
        let element = segments.ensure(SEGMENT as u32 + 1);
        assert!(element.iter().all(|word| word.load(Relaxed) == 0));
        element[2].store(7, Relaxed);
        segments.ensure(0);
        segments.ensure(3 * SEGMENT as u32 - 1);
        let again = segments.get(SEGMENT as u32 + 1).unwrap();
        assert!(std::ptr::eq(element, again) && again[2].load(Relaxed) == 7);
        assert!(segments.get(3 * SEGMENT as u32).is_none());
        assert!(segments.bytes() >= 3 * SEGMENT * 24);
    }
}
