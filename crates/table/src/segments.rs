//! Arrays that one thread lengthens while others use them: never moved, reached without a lock.

use std::sync::OnceLock;

/// Elements of one segment. (A model under loom can follow only so many atomics.)
const SEGMENT: usize = if cfg!(loom) { 4 } else { 1 << 14 };

/// An array in segments that stay where they are.
#[derive(Debug)]
pub struct Segments<T> {
    directory: Box<[OnceLock<Box<[T]>>]>,
}

impl<T: Default> Segments<T> {
    /// For indices below `len_max`; no element has memory yet.
    #[must_use]
    pub fn new(len_max: u32) -> Self {
        let segments = (len_max as usize).div_ceil(SEGMENT);
        Self { directory: (0..segments).map(|_| OnceLock::new()).collect() }
    }

    /// The element, with room made for it. For the one that writes: it allocates.
    ///
    /// # Panics
    /// If the index is not below `len_max`.
    pub fn reach(&self, index: u32) -> &T {
        let (segment, at) = (index as usize / SEGMENT, index as usize % SEGMENT);
        let made = self.directory[segment]
            .get_or_init(|| (0..SEGMENT).map(|_| T::default()).collect::<Box<[T]>>());
        &made[at]
    }

    /// The element, where there is room for it.
    #[inline]
    #[must_use]
    pub fn get(&self, index: u32) -> Option<&T> {
        let (segment, at) = (index as usize / SEGMENT, index as usize % SEGMENT);
        self.directory.get(segment)?.get()?.get(at)
    }

    /// Memory in use, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let made = self.directory.iter().filter(|s| s.get().is_some()).count();
        made * SEGMENT * size_of::<T>() + size_of_val(&*self.directory)
    }
}
