//! Queues that other processes serve: one in C, and hostile ones.

mod card;
mod door;
mod hostile;
mod peer;
mod reply;

/// Mappings of the guests' memory, as the card has them.
#[allow(dead_code, unused_imports)]
#[path = "../../src/guest/shared.rs"]
mod shared;
