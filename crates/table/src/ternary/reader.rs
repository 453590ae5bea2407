//! The reading end of a ternary table.

use std::sync::Arc;

use super::Hit;
use crate::domain::Participant;
use crate::limits::BURST_MAX;
use crate::tuples::TupleReader;
use crate::versions::Versions;

/// A reading end of a [`Ternary`](crate::Ternary) table. Clone it into any number of threads.
///
/// Look-ups never wait, allocate nothing, and write nothing that others read but for a counter when
/// masks or the filter are others than before. They borrow the thread's [`Participant`], which must
/// be online and of the table's domain: they may panic otherwise.
#[derive(Debug, Clone)]
pub struct TernaryReader<const W: usize> {
    tuples: TupleReader<W>,
    versions: Arc<Versions>,
}

impl<const W: usize> TernaryReader<W> {
    pub(super) fn new(tuples: TupleReader<W>, versions: Arc<Versions>) -> Self {
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

    /// Looks up a burst: the rule that wins for `keys[i]` is in `hits[i]`, `None` where there is
    /// none. All of the burst sees each transaction wholly or not at all.
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
            let word = versions.at(word, generation);
            (word != 0).then_some((word, word))
        };
        let mut words = [0; BURST_MAX];
        let found = self.tuples.find(participant, keys, rank_of, &mut words);
        for (at, hit) in hits[..keys.len()].iter_mut().enumerate() {
            *hit = (found >> at & 1 == 1).then(|| Hit::of(words[at]));
        }
    }
}
