//! The work of a signature on a packet is limited.
//!
//! A signature that reaches a limit does not match. Suricata does the same at
//! `inspection-recursion-limit`, and at `pcre.match-limit` for the expression.

/// Tests of one signature on one packet, at most: as `inspection-recursion-limit` of Suricata.
pub(super) const TESTS_MAX: u32 = 3000;
/// Steps of one signature on one packet, at most.
///
/// A step is a byte that the table of an expression reads, a state that an expression without a
/// table visits, or [`SEARCHED_PER_STEP`] bytes that a content is searched in. Contents alone
/// cannot reach this number in a frame of Ethernet: [`TESTS_MAX`] comes first.
pub(super) const STEPS_MAX: u32 = 5 << 20;
/// Bytes that a content is searched in per step.
const SEARCHED_PER_STEP: usize = 8;

/// Work that is left to a signature on a packet.
#[derive(Debug)]
pub(super) struct Budget {
    tests: u32,
    steps: u32,
    is_exhausted: bool,
}

impl Budget {
    pub(super) fn new() -> Budget {
        Budget { tests: TESTS_MAX, steps: STEPS_MAX, is_exhausted: false }
    }

    /// Whether a limit was reached.
    pub(super) fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// Takes a test; `false` if none is left.
    pub(super) fn take_test(&mut self) -> bool {
        self.tests -= 1;
        self.is_exhausted |= self.tests == 0;
        !self.is_exhausted
    }

    /// Takes steps; `false` if fewer are left.
    #[inline]
    pub(super) fn take(&mut self, steps: usize) -> bool {
        match self.steps.checked_sub(u32::try_from(steps).unwrap_or(u32::MAX)) {
            Some(left) => self.steps = left,
            None => (self.steps, self.is_exhausted) = (0, true),
        }
        !self.is_exhausted
    }

    /// Takes the steps of a search for a content; `false` if fewer are left.
    pub(super) fn take_search(&mut self, bytes: usize) -> bool {
        self.take(1 + bytes / SEARCHED_PER_STEP)
    }
}
