//! The reading end of a ternary table.

use std::sync::Arc;

use super::Hit;
use crate::limits::BURST_MAX;
use crate::qsbr::Participant;
use crate::tuples::TupleReader;
use crate::versioned_values::VersionedValues;

/// A reading end of a [`Ternary`](crate::Ternary) table. Clone it into any number of threads.
///
/// Look-ups never wait and allocate nothing. They write nothing that other threads read, except a
/// counter after a change of the masks or the filter. They borrow the thread's [`Participant`],
/// which must be online and of the table's domain: otherwise they may panic.
#[derive(Debug, Clone)]
pub struct TernaryReader<const W: usize> {
    tuples: TupleReader<W>,
    versions: Arc<VersionedValues>,
}

impl<const W: usize> TernaryReader<W> {
    pub(super) fn new(tuples: TupleReader<W>, versions: Arc<VersionedValues>) -> Self {
        Self { tuples, versions }
    }

    /// The rule that wins for a key.
    ///
    /// # Panics
    /// As [`lookup_bulk`](Self::lookup_bulk).
    #[must_use]
    pub fn lookup(&mut self, participant: &Participant, key: &[u64; W]) -> Option<Hit> {
        let mut hits = [None];
        self.lookup_bulk(participant, std::slice::from_ref(key), &mut hits);
        hits[0]
    }

    /// Looks up a burst: `hits[i]` is the rule that wins for `keys[i]`, or `None`. The whole burst
    /// sees all or nothing of each transaction.
    ///
    /// # Panics
    /// If there are more than [`BURST_MAX`] keys or fewer hits than keys; or the participant is
    /// offline or of another domain.
    pub fn lookup_bulk(
        &mut self,
        participant: &Participant,
        keys: &[[u64; W]],
        hits: &mut [Option<Hit>],
    ) {
        assert!(keys.len() <= hits.len(), "burst too long");
        // The generation first: see the module.
        let generation = self.versions.generation();
        let versions = &*self.versions;
        let rank_of = |word, _| {
            let word = versions.resolve(word, generation);
            (word != 0).then_some((word, word))
        };
        let mut words = [0; BURST_MAX];
        let found = self.tuples.find(participant, keys, rank_of, &mut words);
        for (at, hit) in hits[..keys.len()].iter_mut().enumerate() {
            *hit = (found >> at & 1 == 1).then(|| Hit::of(words[at]));
        }
    }
}
