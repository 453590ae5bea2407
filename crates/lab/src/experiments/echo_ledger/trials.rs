//! How often `echo-ledger` measures; its messages are those of the [echo](super::super::echo).

/// Pairs of slices of a trial, one with probes and one without.
pub const PAIRS: u32 = 6;
