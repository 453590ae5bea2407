//! Memory that another process writes too, and that stays mapped whatever that process does.
//!
//! Every access is atomic and a whole word wide, so that no two accesses of this process differ in
//! size. This also holds for an index, which is half a word to the other process. The other process
//! may write any word at any moment. So a value may be torn, and no two loads of it need agree;
//! nothing worse can happen. A reader copies a value first and checks only the copy.
//!
//! Two seals on the file protect this process. The file cannot become shorter, because an access
//! past its end would kill this process (SIGBUS). Once the other process has mapped the file, it
//! cannot give pages back either ([`seal`]), because this process would then wait in page faults.
//!
//! This is the argument for the `unsafe` blocks below.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
pub use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes of one access.
pub const WORD: usize = size_of::<u64>();

/// A mapping of shared memory.
#[derive(Debug)]
pub struct SharedMemory {
    base: NonNull<AtomicU64>,
    /// In bytes, whole words.
    len: usize,
}

// SAFETY: the mapping is bound to no thread.
unsafe impl Send for SharedMemory {}
// SAFETY: it is accessed by atomics only.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Creates `len` bytes of zeroed memory, and the file through which another process maps it.
    pub fn create(len: usize) -> io::Result<(SharedMemory, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Before Linux 6.3, nothing can keep such a file from being executed.
        let file = memfd_create("niclab", flags | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| memfd_create("niclab", flags))?;
        ftruncate(&file, len as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        Ok((SharedMemory::map(file.as_fd(), len)?, file))
    }

    /// Maps the first `len` bytes, whole words, of a file that cannot become shorter.
    pub fn map(file: BorrowedFd<'_>, len: usize) -> io::Result<SharedMemory> {
        let is_sealed = fcntl_get_seals(file)?.contains(SealFlags::SHRINK);
        let has_len = fstat(file)?.st_size as u64 >= len as u64;
        if !is_sealed || !has_len || len == 0 || !len.is_multiple_of(WORD) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses the address; nothing else is mapped there.
        let base =
            unsafe { mmap(ptr::null_mut(), len, protection, flags | MapFlags::POPULATE, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedMemory { base, len })
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this many words for as long as `self` lives, aligned to a page,
        // and the file cannot become shorter. All Rust code accesses them by atomics, except code
        // with an unsafe contract about a part of the memory ([`SharedMemory::base`]).
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.len / WORD) }
    }

    /// The start of the memory. For code that knows a part of the memory that nobody else writes
    /// any more, and that nobody reads, by atomics or otherwise, while this code writes it.
    #[inline]
    pub fn base(&self) -> NonNull<AtomicU64> {
        self.base
    }

    /// The word at an offset, which is a multiple of [`WORD`].
    ///
    /// # Panics
    /// Outside of the memory.
    #[inline]
    pub fn word(&self, at: usize) -> &AtomicU64 {
        &self.words()[at / WORD]
    }

    /// The index at an offset, which is a multiple of [`WORD`]: the first half of the word. The
    /// other half has no meaning.
    ///
    /// # Panics
    /// Outside of the memory.
    #[inline]
    pub fn index(&self, at: usize, order: Ordering) -> u32 {
        let [b0, b1, b2, b3, ..] = self.word(at).load(order).to_ne_bytes();
        u32::from_ne_bytes([b0, b1, b2, b3])
    }

    /// Stores the index at an offset, which is a multiple of [`WORD`]; zeroes the other half of the
    /// word.
    ///
    /// # Panics
    /// Outside of the memory.
    #[inline]
    pub fn set_index(&self, at: usize, index: u32, order: Ordering) {
        let [b0, b1, b2, b3] = index.to_ne_bytes();
        self.word(at).store(u64::from_ne_bytes([b0, b1, b2, b3, 0, 0, 0, 0]), order);
    }

    /// Copies `bytes` to an offset, which is a multiple of [`WORD`]; zeroes the rest of the last
    /// word.
    ///
    /// # Panics
    /// Outside of the memory.
    #[inline]
    pub fn copy_in(&self, at: usize, bytes: &[u8]) {
        let words = &self.words()[at / WORD..][..bytes.len().div_ceil(WORD)];
        let (whole, rest) = bytes.as_chunks::<WORD>();
        for (word, bytes) in words.iter().zip(whole) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if let Some(word) = words.get(whole.len()) {
            let mut last = [0; WORD];
            last[..rest.len()].copy_from_slice(rest);
            word.store(u64::from_ne_bytes(last), Ordering::Relaxed);
        }
    }

    /// Copies `bytes` to any offset. A word with other bytes is changed atomically, so that other
    /// cores may write these bytes at the same time. False if another core changed such a word all
    /// the time.
    ///
    /// # Panics
    /// Outside of the memory.
    #[inline]
    pub fn write(&self, at: usize, bytes: &[u8]) -> bool {
        let (mut at, mut bytes, mut is_done) = (at, bytes, true);
        if !at.is_multiple_of(WORD) {
            let (front, rest) = bytes.split_at((WORD - at % WORD).min(bytes.len()));
            is_done &= merge(self.word(at), at, front);
            (at, bytes) = (at + front.len(), rest);
        }
        let (whole, rest) = bytes.as_chunks::<WORD>();
        let words = &self.words()[at / WORD..][..whole.len()];
        for (word, bytes) in words.iter().zip(whole) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let at = at + WORD * whole.len();
            is_done &= merge(self.word(at), at, rest);
        }
        is_done
    }

    /// Its length.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        self.len
    }

    /// Copies bytes from any offset until `into` is full.
    ///
    /// # Panics
    /// Outside of the memory.
    #[inline]
    pub fn copy_out(&self, at: usize, into: &mut [u8]) {
        let (first, skip) = (at / WORD, at % WORD);
        let words = &self.words()[first..(at + into.len()).div_ceil(WORD).max(first)];
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed).to_ne_bytes();
        let (into, words) = match words.split_first() {
            Some((word, words)) if skip > 0 => {
                let (front, into) = into.split_at_mut((WORD - skip).min(into.len()));
                front.copy_from_slice(&load(word)[skip..][..front.len()]);
                (into, words)
            }
            _ => (into, words),
        };
        let (whole, rest) = into.as_chunks_mut::<WORD>();
        for (bytes, word) in whole.iter_mut().zip(words) {
            *bytes = load(word);
        }
        if let Some(word) = words.get(whole.len()) {
            rest.copy_from_slice(&load(word)[..rest.len()]);
        }
    }
}

/// Tries to change a part of a word. If several cores write parts of one word, each succeeds long
/// before.
const TRIES_MAX: usize = 1_024;

/// Writes the part of a word that begins at an offset; false if that failed.
#[inline]
fn merge(word: &AtomicU64, at: usize, bytes: &[u8]) -> bool {
    change(word, |old| {
        let mut merged = old.to_ne_bytes();
        merged[at % WORD..][..bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(merged)
    })
}

/// Changes a word that others change too; false if they change it all the time.
#[inline]
pub(crate) fn change(word: &AtomicU64, mut changed: impl FnMut(u64) -> u64) -> bool {
    let mut old = word.load(Ordering::Relaxed);
    for _ in 0..TRIES_MAX {
        let new = changed(old);
        match word.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => old = now,
        }
    }
    false
}

/// Seals the file: nobody can map it for writing any more, or write to it by system calls, or
/// change its seals. Existing mappings stay.
pub fn seal(file: BorrowedFd<'_>) -> io::Result<()> {
    Ok(fcntl_add_seals(file, SealFlags::FUTURE_WRITE | SealFlags::SEAL)?)
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: maps exactly what `map` mapped; no reference outlives `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
