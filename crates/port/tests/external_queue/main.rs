//! Queues that other processes serve: one in C, and hostile ones.

mod card;
mod door;
mod hostile;
mod peer;
mod reply;
