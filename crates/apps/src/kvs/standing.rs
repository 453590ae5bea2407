//! What `stats` tells, under memcached's names: of the store and of who serves it.

use super::VERSION;
use super::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use super::session::Context;
use super::store::Statistics;

/// Who serves.
pub trait Host {
    /// How he is, with such a store.
    fn standing(&self, store: &Statistics) -> Standing;
}

/// What a server has and has counted beside the store's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Connections that it serves at once.
    pub max_connections: u64,
    /// Connections that there are.
    pub curr_connections: u64,
    /// Connections that there were.
    pub total_connections: u64,
    /// Connections that were refused: there were too many.
    pub rejected_connections: u64,
    /// Connections that were ended: they said nothing for too long.
    pub idle_kicks: u64,
    /// Connections that were ended: too much waited to be sent or to become whole.
    pub overrun_kicks: u64,
    /// Bytes that came.
    pub bytes_read: u64,
    /// Bytes that went.
    pub bytes_written: u64,
    /// Datagrams that came.
    pub datagrams: u64,
    /// Threads.
    pub threads: u64,
    /// Seconds since it began.
    pub uptime_s: u64,
    /// Port that it listens at.
    pub port: u16,
    /// It serves UDP at that port, too.
    pub is_udp: bool,
    /// After so many seconds without a word a connection is ended; 0: never.
    pub idle_timeout_s: u64,
}

/// Takes a name and a value.
pub type Each<'a> = &'a mut dyn FnMut(&str, &str);

/// What `stats` alone tells.
pub fn general(context: &Context<'_>, each: Each<'_>) {
    let store = context.store.statistics();
    let standing = context.host.standing(&store);
    each("pid", &std::process::id().to_string());
    each("version", VERSION);
    each("pointer_size", &usize::BITS.to_string());
    let mut number = |name: &str, value: u64| each(name, &value.to_string());
    number("uptime", standing.uptime_s);
    number("time", context.now.0.into());
    number("max_connections", standing.max_connections);
    number("curr_connections", standing.curr_connections);
    number("total_connections", standing.total_connections);
    number("rejected_connections", standing.rejected_connections);
    number("idle_kicks", standing.idle_kicks);
    number("overrun_kicks", standing.overrun_kicks);
    number("bytes_read", standing.bytes_read);
    number("bytes_written", standing.bytes_written);
    number("datagrams", standing.datagrams);
    number("threads", standing.threads);
    number("cmd_flush", context.store.flushes());
    of_store(&store, &mut number);
}

fn of_store(store: &Statistics, number: &mut dyn FnMut(&str, u64)) {
    store.counters.each(&mut *number);
    number("curr_items", store.curr_items);
    number("bytes", store.bytes);
    number("memory_bytes", store.memory_bytes);
    number("limit_maxbytes", store.limit_maxbytes);
    number("hash_bytes", store.hash_bytes);
    number("lock_waits", store.lock_waits);
    number("lock_wait_us", store.lock_wait_ns / 1000);
}

/// What `stats settings` tells.
pub fn settings(context: &Context<'_>, each: Each<'_>) {
    let store = context.store.statistics();
    let standing = context.host.standing(&store);
    each("evictions", "on");
    each("cas_enabled", "yes");
    each("flush_enabled", "yes");
    each("auth_enabled_sasl", "no");
    each("binding_protocol", "auto-negotiate");
    let mut number = |name: &str, value: u64| each(name, &value.to_string());
    number("maxbytes", store.limit_maxbytes);
    number("maxconns", standing.max_connections);
    number("tcpport", standing.port.into());
    number("udpport", if standing.is_udp { standing.port.into() } else { 0 });
    number("num_threads", standing.threads);
    number("idle_timeout", standing.idle_timeout_s);
    number("item_size_max", VALUE_LEN_MAX as u64);
    number("key_size_max", KEY_LEN_MAX as u64);
}
