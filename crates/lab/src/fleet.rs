//! Which cards of a fleet are outliers.
//!
//! A card is a device of a host. [`FleetValues`] gathers the values of all cards,
//! [`FleetValues::judge`] compares each card with its group of equal cards. `docs/fleet.md`
//! describes the method for users; `judge` has the steps.

mod figure;
mod judge;
mod tails;
#[cfg(test)]
mod tests;
mod values;

pub use judge::point_words;
pub use values::{FleetError, FleetValues, card_kind};

/// Fewest cards of a group of which one can be named.
pub const GROUP_CARDS_MIN: usize = 5;
/// Chance that any card is named in a fleet of equal cards that differ about normally.
pub const FALSE_ALARM_RATE: f64 = 0.05;
/// A card is named only for a larger difference, as a share of its group's median.
pub const DIFFERENCE_MIN: f64 = 0.02;
