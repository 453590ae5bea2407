//! Lists that grow without moving their elements: no addition copies earlier elements, however many
//! there are. A short list takes no more memory than a vector.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

/// Bytes of a chunk: the most that is copied when a short list grows, in a microsecond or two.
const CHUNK_BYTES: usize = if cfg!(miri) { 1 << 10 } else { 32 << 10 };

/// Elements that are taken from a short list before the others move to its start.
const COMPACTED: usize = 32;

/// Elements of a chunk: a power of two.
const fn chunk_len<T>() -> usize {
    let fits = CHUNK_BYTES / if size_of::<T>() == 0 { 1 } else { size_of::<T>() };
    1 << fits.ilog2()
}

/// A new chunk. The first chunk of a list grows; the others have all their memory from the start.
fn new_chunk<T>(is_first: bool) -> Vec<T> {
    if is_first { Vec::new() } else { Vec::with_capacity(chunk_len::<T>()) }
}

/// A list with access by index.
#[derive(Debug)]
pub struct Chunks<T> {
    /// All chunks but the last are full.
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<T> Chunks<T> {
    /// Elements.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends an element.
    #[inline]
    pub fn push(&mut self, element: T) {
        if self.len.is_multiple_of(chunk_len::<T>()) {
            self.chunks.push(new_chunk(self.len == 0));
        }
        if let Some(last) = self.chunks.last_mut() {
            last.push(element);
            self.len += 1;
        }
    }

    /// The element at an index.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / chunk_len::<T>())?.get(index % chunk_len::<T>())
    }

    /// The element at an index, to change.
    #[inline]
    pub fn element_mut(&mut self, index: usize) -> Option<&mut T> {
        self.chunks.get_mut(index / chunk_len::<T>())?.get_mut(index % chunk_len::<T>())
    }

    /// All elements in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// Memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let chunks = self.chunks.iter().map(Vec::capacity).sum::<usize>();
        chunks * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }
}

impl<T> Index<usize> for Chunks<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.chunks[index / chunk_len::<T>()][index % chunk_len::<T>()]
    }
}

impl<T> IndexMut<usize> for Chunks<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / chunk_len::<T>()][index % chunk_len::<T>()]
    }
}

/// A queue that grows at its end and shrinks at both ends.
#[derive(Debug)]
pub struct Fifo<T> {
    /// All chunks but the last are full.
    chunks: VecDeque<Vec<T>>,
    /// Elements of the first chunk that were taken.
    taken: usize,
    len: usize,
    /// An empty chunk to reuse.
    spare: Option<Vec<T>>,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self { chunks: VecDeque::new(), taken: 0, len: 0, spare: None }
    }
}

impl<T: Copy> Fifo<T> {
    /// Elements.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends an element.
    #[inline]
    pub fn push(&mut self, element: T) {
        if self.chunks.back().is_none_or(|last| last.len() == chunk_len::<T>()) {
            let new = self.spare.take().unwrap_or_else(|| new_chunk(self.chunks.is_empty()));
            self.chunks.push_back(new);
        }
        if let Some(last) = self.chunks.back_mut() {
            last.push(element);
            self.len += 1;
        }
    }

    /// The element after the `ahead` oldest ones.
    #[inline]
    #[must_use]
    pub fn get(&self, ahead: usize) -> Option<&T> {
        let at = self.taken + ahead;
        self.chunks.get(at / chunk_len::<T>())?.get(at % chunk_len::<T>())
    }

    /// Removes the oldest element.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let oldest = *self.chunks.front()?.get(self.taken)?;
        self.taken += 1;
        self.len -= 1;
        if self.taken == chunk_len::<T>() || self.len == 0 {
            let emptied = self.chunks.pop_front();
            self.keep(emptied);
            self.taken = 0;
        } else if self.taken >= COMPACTED && self.len <= self.taken {
            self.compact();
        }
        Some(oldest)
    }

    /// Moves the elements of a short list to the start of its one chunk.
    fn compact(&mut self) {
        if let [only] = self.chunks.make_contiguous() {
            only.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Removes the oldest element if `fits` accepts it.
    #[inline]
    pub fn pop_if(&mut self, fits: impl FnOnce(&T) -> bool) -> Option<T> {
        self.get(0).is_some_and(fits).then(|| self.pop())?
    }

    /// Removes the newest element.
    pub fn pop_newest(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let last = self.chunks.back_mut()?;
        let newest = last.pop();
        self.len -= 1;
        if last.is_empty() || self.len == 0 {
            let emptied = self.chunks.pop_back();
            self.keep(emptied);
            self.taken = if self.len == 0 { 0 } else { self.taken };
        }
        newest
    }

    /// Memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let chunks = self.chunks.iter().chain(&self.spare).map(Vec::capacity).sum::<usize>();
        chunks * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }

    fn keep(&mut self, emptied: Option<Vec<T>>) {
        self.spare = emptied.map(|mut emptied| {
            emptied.clear();
            emptied
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const CHUNK: usize = chunk_len::<u64>();

    #[test]
    fn what_is_in_a_list_stays_where_it_is_as_the_list_grows() {
        let mut list = Chunks::default();
        for index in 0..CHUNK as u64 {
            list.push(index);
        }
        let first: *const u64 = &raw const list[0];
        for index in CHUNK as u64..20 * CHUNK as u64 {
            list.push(index);
            assert!(std::ptr::eq(first, &raw const list[0]), "moved at {index}");
        }
        list[CHUNK + 1] += 7;
        assert_eq!(list.get(CHUNK + 1), Some(&(CHUNK as u64 + 8)));
        assert_eq!((list.len(), list.get(20 * CHUNK)), (20 * CHUNK, None));
        assert_eq!(list.iter().count(), list.len());
        assert!(list.bytes() < 21 * CHUNK_BYTES, "{}", list.bytes());
    }

    #[test]
    fn a_short_list_takes_little() {
        let (mut list, mut fifo) = (Chunks::default(), Fifo::default());
        list.push(1_u64);
        fifo.push(1_u64);
        assert!(list.bytes() < 256 && fifo.bytes() < 256);
        for number in 2..if cfg!(miri) { 500 } else { 10_000 } {
            fifo.push(number);
            assert_eq!(fifo.pop(), Some(number - 1));
        }
        assert!(fifo.bytes() < 1024, "{}", fifo.bytes());
    }

    #[test]
    fn the_oldest_goes_first_and_the_newest_where_it_is_asked_for() {
        let (mut fifo, mut twin, mut number) = (Fifo::default(), VecDeque::new(), 1_u64);
        for step in 0..40 * CHUNK as u64 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
            // Grows for a while, and then shrinks until it is empty.
            let adds = if step < 15 * CHUNK as u64 { 9 } else { 4 };
            match (number >> 33) % 12 {
                kind if kind < adds => {
                    fifo.push(step);
                    twin.push_back(step);
                }
                11 => assert_eq!(fifo.pop_newest(), twin.pop_back()),
                _ => assert_eq!(fifo.pop_if(|_| true), twin.pop_front()),
            }
            assert_eq!((fifo.len(), fifo.get(0)), (twin.len(), twin.front()));
            let ahead = twin.len() / 2;
            assert_eq!(fifo.get(ahead), twin.get(ahead));
        }
        assert!(fifo.is_empty() && fifo.pop().is_none() && fifo.pop_newest().is_none());
        fifo.push(1);
        assert_eq!(fifo.pop_if(|_| false), None);
        assert!(fifo.bytes() < 2 * CHUNK_BYTES, "emptied chunks go: {}", fifo.bytes());
    }
}
