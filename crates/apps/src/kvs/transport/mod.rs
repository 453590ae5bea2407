//! How requests reach the store: by sockets of the kernel, and by the queues of a card.
//!
//! - `shared`: what the threads of a server share.
//! - `socket`, `card`: the two ways; neither knows the other.
//! - `server`: both of them, from start to end.

pub mod card;
mod server;
mod shared;
mod socket;

pub use server::{Finished, Server, ServerTotals, StatisticsKind, StatisticsView};
pub use shared::error::ServerError;
pub use shared::{CONNECTIONS_MAX, ServerOptions, Udp, moment};
