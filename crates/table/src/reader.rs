//! The reading end of a table.

use std::sync::Arc;

use crate::bulk::bulk;
use crate::hash::{LiveHash, pack_bytes};
use crate::limits::BURST_MAX;
use crate::qsbr::Participant;
use crate::shared::Shared;
use crate::tags::Common;

/// A reading end of an [`Exact`](crate::Exact) table. Clone it into any number of threads.
///
/// Look-ups never wait and write nothing that is shared. They borrow the thread's [`Participant`],
/// and panic unless it is online and of the table's domain. After the table is dropped, its readers
/// still see its last state.
#[derive(Debug)]
pub struct Reader<const W: usize> {
    shared: Arc<Shared<W>>,
}

impl<const W: usize> Clone for Reader<W> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<const W: usize> Reader<W> {
    pub(crate) fn new(shared: &Arc<Shared<W>>) -> Self {
        Self { shared: Arc::clone(shared) }
    }

    /// The hash of `key`, for the look-ups that take it.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: &[u64; W]) -> u64 {
        self.shared.hasher.hash(key)
    }

    /// The value of `key`.
    #[inline]
    #[must_use]
    pub fn lookup(&self, participant: &Participant, key: &[u64; W]) -> Option<u64> {
        let view = self.shared.view(participant);
        Some(view.find(self.hash(key), key)?.value())
    }

    /// The value of a key of bytes, packed by [`pack_bytes`], in a table with such keys. `None`
    /// also if the key is too long.
    #[inline]
    #[must_use]
    pub fn lookup_bytes(&self, participant: &Participant, key: &[u8]) -> Option<u64> {
        self.lookup(participant, &pack_bytes(key)?)
    }

    /// Prefetches what the look-up of a key with this hash reads first.
    #[inline]
    pub fn prefetch_tags(&self, participant: &Participant, hash: u64) {
        self.shared.view(participant).first(hash).prefetch_home(hash);
    }

    /// Prefetches what the look-up reads next; call it when the tags have arrived.
    #[inline]
    pub fn prefetch_entry(&self, participant: &Participant, hash: u64) {
        let grid = self.shared.view(participant).first(hash);
        if let Some(entry) = grid.candidate(Common, LiveHash::of(hash)) {
            entry.prefetch();
        }
    }

    /// [`lookup`](Self::lookup) with the hash from [`hash`](Self::hash); a wrong hash is a miss.
    #[inline]
    #[must_use]
    pub fn lookup_hashed(
        &self,
        participant: &Participant,
        key: &[u64; W],
        hash: u64,
    ) -> Option<u64> {
        Some(self.shared.view(participant).find(hash, key)?.value())
    }

    /// Looks up a burst. Bit `i` of the result says whether `keys[i]` was found; its value is then
    /// in `values[i]`. Values of other keys are unchanged.
    ///
    /// # Panics
    /// If there are more than [`BURST_MAX`] keys or fewer values than keys.
    #[inline]
    pub fn lookup_bulk(
        &self,
        participant: &Participant,
        keys: &[[u64; W]],
        values: &mut [u64],
    ) -> u64 {
        assert!(keys.len() <= BURST_MAX && keys.len() <= values.len(), "burst too long");
        bulk(&self.shared.view(participant), keys, |_, key| self.shared.hasher.live(key), values)
    }

    /// [`lookup_bulk`](Self::lookup_bulk) with hashes from [`hash`](Self::hash); a wrong hash
    /// is a miss.
    ///
    /// # Panics
    /// If there are more than [`BURST_MAX`] keys, fewer values than keys, or not one hash for
    /// each key.
    #[inline]
    pub fn lookup_bulk_hashed(
        &self,
        participant: &Participant,
        keys: &[[u64; W]],
        hashes: &[u64],
        values: &mut [u64],
    ) -> u64 {
        assert!(keys.len() <= BURST_MAX && keys.len() <= values.len(), "burst too long");
        assert_eq!(keys.len(), hashes.len(), "one hash for each key");
        bulk(&self.shared.view(participant), keys, |index, _| LiveHash::of(hashes[index]), values)
    }
}
