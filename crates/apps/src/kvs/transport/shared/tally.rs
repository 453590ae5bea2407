//! Counters that the threads of a server share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::endpoint::{FrameCounters, SharedFrameCounters};
use crate::kvs::codec::context::ServerStatistics;
use crate::kvs::protocol::event::{SET_ANSWER_LEN, SET_LEN};
use crate::kvs::store::DmaItemCounters;

/// Counters of connections, bytes and buffers.
#[derive(Debug, Default)]
pub struct ServerCounters {
    connections: AtomicUsize,
    connections_total: AtomicU64,
    rejected: AtomicU64,
    /// New connections are taken.
    pub is_accepting: AtomicBool,
    pub listen_disabled: AtomicU64,
    pub listen_disabled_us: AtomicU64,
    pub conn_yields: AtomicU64,
    pub idle_kicks: AtomicU64,
    pub overrun_kicks: AtomicU64,
    pub bytes_read: AtomicU64,
    pub bytes_written: AtomicU64,
    pub datagrams: AtomicU64,
    /// Frame counters of the cores.
    pub frames: SharedFrameCounters,
    /// Bytes of requests that are not whole and of answers that are not sent.
    buffers_bytes: AtomicUsize,
}

impl ServerCounters {
    /// A connection comes; `false` where there are as many as there may be.
    pub fn enter(&self, max: usize) -> bool {
        if self.connections.fetch_add(1, Ordering::Relaxed) >= max {
            self.leave();
            add(&self.rejected, 1);
            return false;
        }
        add(&self.connections_total, 1);
        true
    }

    /// A connection has gone.
    pub fn leave(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// A connection that held `before` bytes holds `now`; how many all hold.
    pub fn hold(&self, before: usize, now: usize) -> usize {
        match now >= before {
            true => self.buffers_bytes.fetch_add(now - before, Ordering::Relaxed) + now - before,
            false => self.buffers_bytes.fetch_sub(before - now, Ordering::Relaxed) - (before - now),
        }
    }

    /// The statistics of it, and of the requests that a card has stored.
    pub fn statistics(&self, stored: &DmaItemCounters) -> ServerStatistics {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let frames: FrameCounters = self.frames.all();
        let stored_in = stored.items * SET_LEN as u64 + stored.content_bytes;
        let stored_out = stored.items * SET_ANSWER_LEN as u64;
        ServerStatistics {
            curr_connections: self.connections.load(Ordering::Relaxed) as u64,
            total_connections: of(&self.connections_total),
            rejected_connections: of(&self.rejected),
            is_accepting: self.is_accepting.load(Ordering::Relaxed),
            listen_disabled: of(&self.listen_disabled),
            listen_disabled_us: of(&self.listen_disabled_us),
            conn_yields: of(&self.conn_yields),
            idle_kicks: of(&self.idle_kicks),
            overrun_kicks: of(&self.overrun_kicks),
            bytes_read: of(&self.bytes_read) + frames.datagram_bytes + stored_in,
            bytes_written: of(&self.bytes_written) + frames.answer_bytes + stored_out,
            datagrams: of(&self.datagrams) + frames.datagrams + frames.asked + stored.items,
            ..ServerStatistics::default()
        }
    }
}

/// Counts.
pub fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}
