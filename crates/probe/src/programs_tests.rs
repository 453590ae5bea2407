//! Programs run by hand.
