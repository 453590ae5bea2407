//! Arrays that one thread lengthens while others use them: never moved, reached without a lock.

use std::sync::OnceLock;

use crate::limits::RULES_MAX;

/// Elements of one segment.
const SEGMENT: usize = 1 << 14;

/// An array indexed by rule, in segments that stay where they are.
pub(crate) struct Segments<T> {
    directory: Box<[OnceLock<Box<[T]>>]>,
}

impl<T: Default> Segments<T> {
    pub(crate) fn new() -> Segments<T> {
        let segments = RULES_MAX as usize / SEGMENT;
        Segments { directory: (0..segments).map(|_| OnceLock::new()).collect() }
    }

    /// Makes room for an index. Control side only: it allocates.
    pub(crate) fn reach(&self, index: u32) -> &T {
        let (segment, at) = (index as usize / SEGMENT, index as usize % SEGMENT);
        let made = self.directory[segment]
            .get_or_init(|| (0..SEGMENT).map(|_| T::default()).collect::<Box<[T]>>());
        &made[at]
    }

    /// The element, where there is room for it.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (segment, at) = (index as usize / SEGMENT, index as usize % SEGMENT);
        self.directory.get(segment)?.get()?.get(at)
    }

    /// Memory in use, bytes.
    pub(crate) fn bytes(&self) -> usize {
        let made = self.directory.iter().filter(|s| s.get().is_some()).count();
        made * SEGMENT * size_of::<T>() + size_of_val(&*self.directory)
    }
}
