//! The software NIC: frame pool, rings, RSS, rule groups, actions, counters.

pub mod rule;
