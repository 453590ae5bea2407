//! Which hosts of a fleet are unlike the others.
//!
//! [`FleetValues`] gathers the values of all hosts, [`FleetValues::judge`] compares each host with
//! its group of equal cards. `docs/fleet.md` describes the method for users; `judge` has the steps.

mod figure;
mod judge;
mod tails;
#[cfg(test)]
mod tests;
mod values;

pub use judge::point_words;
pub use values::{FleetError, FleetValues, card_kind};

/// Fewest hosts of a group of which one can be named.
pub const GROUP_HOSTS_MIN: usize = 5;
/// Chance that any host is named in a fleet of equal hosts.
pub const FALSE_ALARM_RATE: f64 = 0.05;
/// A host is named only for a larger difference, as a share of its group's median.
pub const DIFFERENCE_MIN: f64 = 0.02;
