//! Quiescent-state-based reclamation (QSBR): when can memory be reused that readers may have seen?
//!
//! Each polling thread owns one [`Participant`] and calls [`Participant::quiescent`] once per
//! burst, between two look-ups: one load and one store to a cache line of its own. A writer takes a
//! stamp after it has unlinked something, and checks now and then which stamp all readers have
//! passed. It never waits, because a thread that both reads and writes would wait for itself.
//!
//! # Why a stamp that has passed is safe
//!
//! Assume that a writer unlinks X, then advances the epoch to `s` (a read-modify-write, AcqRel),
//! and then finds every participant offline or with `seen >= s`.
//!
//! - *A participant with `seen >= s`* read, in `quiescent`, an epoch at or after the writer's
//!   advance in that variable's order (Acquire; later advances continue the release sequence). So
//!   every later look-up of its thread sees X unlinked. Every earlier look-up is sequenced before
//!   its `seen` store (Release), which the writer read (Acquire): what the writer then does to X
//!   happens after them.
//! - *A participant that is offline* stored `OFFLINE` (Release) after its last look-up. If it comes
//!   online at the same time, both sides have a SeqCst fence between their store and their loads:
//!   the participant stores `seen`, fences, then looks up; the writer unlinks, fences, then reads
//!   `seen`. Whichever fence is first in the single order, either the writer sees that the
//!   participant is online, or the participant sees X unlinked.
//! - *A participant that registers* does the same as one that comes online, under the lock that the
//!   writer takes to read the list. If the writer finds the lock taken, it learns nothing.

use std::sync::{Arc, PoisonError};

use crossbeam_utils::CachePadded;

use crate::sync::{AcqRel, Acquire, AtomicU64, Mutex, Release, SeqCst, fence};

/// `seen` of a participant that holds no reference.
const OFFLINE: u64 = u64::MAX;

/// A QSBR domain: a set of reading threads, and the writers whose memory they read. Clones are the
/// same domain.
#[derive(Debug, Clone)]
pub struct QsbrDomain {
    registry: Arc<Registry>,
}

#[derive(Debug)]
struct Registry {
    epoch: CachePadded<AtomicU64>,
    seen: Mutex<Vec<Arc<QuiescentCounter>>>,
}

type QuiescentCounter = CachePadded<AtomicU64>;

/// A moment in a [`QsbrDomain`]: what was unlinked before it can be reused once it has passed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

impl Stamp {
    /// Before every other stamp.
    pub const FIRST: Self = Self(0);
}

impl QsbrDomain {
    /// A domain without participants.
    #[must_use]
    pub fn new() -> Self {
        let registry =
            Registry { epoch: CachePadded::new(AtomicU64::new(0)), seen: Mutex::new(Vec::new()) };
        Self { registry: Arc::new(registry) }
    }

    /// Registers a reading thread; it is online. Locks; not for the packet path.
    #[must_use]
    pub fn register_reader(&self) -> Participant {
        let seen = Arc::new(CachePadded::new(AtomicU64::new(OFFLINE)));
        let mut list = self.registry.seen.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(Arc::clone(&seen));
        let mut participant = Participant { domain: self.clone(), seen, online: false };
        participant.online();
        drop(list);
        participant
    }

    /// A stamp for everything this thread has unlinked so far.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        Stamp(self.registry.epoch.fetch_add(1, AcqRel) + 1)
    }

    /// The latest stamp that is known to have passed. Does not wait.
    #[must_use]
    pub fn passed(&self) -> Stamp {
        let epoch = self.registry.epoch.load(Acquire);
        fence(SeqCst);
        let Ok(list) = self.registry.seen.try_lock() else {
            return Stamp::FIRST;
        };
        // OFFLINE is the largest number, so the minimum ignores it.
        let slowest = list.iter().map(|seen| seen.load(Acquire)).min().unwrap_or(OFFLINE);
        Stamp(slowest.min(epoch))
    }

    /// Whether both are the same domain.
    #[inline]
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.registry, &other.registry)
    }
}

impl Default for QsbrDomain {
    fn default() -> Self {
        Self::new()
    }
}

/// A reading thread's registration in a [`QsbrDomain`].
///
/// Look-ups borrow it, and quiescent states borrow it exclusively: the compiler checks that no
/// look-up is in progress at a quiescent state.
#[derive(Debug)]
pub struct Participant {
    domain: QsbrDomain,
    seen: Arc<QuiescentCounter>,
    online: bool,
}

impl Participant {
    /// Declares a quiescent state: this thread holds no result of a look-up. One load and one
    /// store; call it once per burst. Does nothing while offline.
    #[inline]
    pub fn quiescent(&mut self) {
        if self.online {
            let epoch = self.domain.registry.epoch.load(Acquire);
            self.seen.store(epoch, Release);
        }
    }

    /// Goes offline, so that no writer waits for this thread; call it before you block.
    pub fn offline(&mut self) {
        self.online = false;
        self.seen.store(OFFLINE, Release);
    }

    /// Comes back online; look-ups are allowed again.
    pub fn online(&mut self) {
        let epoch = self.domain.registry.epoch.load(Acquire);
        // Release: earlier look-ups, by a thread that was online or has just been offline, happen
        // before anything that the writer does once it sees this.
        self.seen.store(epoch, Release);
        fence(SeqCst);
        self.online = true;
    }

    /// Whether look-ups are allowed.
    #[must_use]
    pub fn is_online(&self) -> bool {
        self.online
    }

    /// Whether this participant protects readers of `domain`.
    #[inline]
    pub(crate) fn protects(&self, domain: &QsbrDomain) -> bool {
        self.online & self.domain.same(domain)
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        self.offline();
        let registry = &self.domain.registry;
        let mut list = registry.seen.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|seen| !Arc::ptr_eq(seen, &self.seen));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_passes_when_every_participant_was_quiescent() {
        let domain = QsbrDomain::new();
        let (mut one, mut two) = (domain.register_reader(), domain.register_reader());
        let stamp = domain.stamp();
        assert!(domain.passed() < stamp);
        one.quiescent();
        assert!(domain.passed() < stamp);
        two.quiescent();
        assert_eq!(domain.passed(), stamp);
    }

    #[test]
    fn a_writer_does_not_wait_for_offline_or_dropped_participants() {
        let domain = QsbrDomain::new();
        let mut offline = domain.register_reader();
        let gone = domain.register_reader();
        offline.offline();
        let stamp = domain.stamp();
        assert!(domain.passed() < stamp);
        drop(gone);
        assert_eq!(domain.passed(), stamp);
        offline.quiescent();
        assert_eq!(domain.passed(), stamp, "offline stays offline");
        let later = domain.stamp();
        offline.online();
        assert_eq!(domain.passed(), later, "it came online after the stamp");
        let last = domain.stamp();
        assert_eq!(domain.passed(), later);
        assert!(domain.passed() < last);
    }

    #[test]
    fn an_empty_domain_never_runs_ahead() {
        let domain = QsbrDomain::new();
        assert_eq!(domain.passed(), Stamp::FIRST);
        let stamp = domain.stamp();
        assert_eq!(domain.passed(), stamp);
        assert!(domain.passed() < domain.stamp());
    }
}
