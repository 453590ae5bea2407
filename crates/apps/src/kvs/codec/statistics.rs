//! The answers to `stats`, under memcached's names: statistics of the store and of the server.

use super::context::Context;
use crate::kvs::protocol::VERSION;
use crate::kvs::protocol::limits::{DATAGRAM_ANSWER_LEN_MAX, KEY_LEN_MAX, VALUE_LEN_MAX};
use crate::kvs::store::Statistics;
use crate::kvs::store::limits::PREFIXES_BYTES_MAX;

/// Takes a name and a value.
pub type StatisticSink<'a> = &'a mut dyn FnMut(&str, &str);

/// The statistics of `stats` without an argument.
pub fn general(context: &Context<'_>, each: StatisticSink<'_>) {
    let store = context.store.statistics();
    let (server, cpu) = (context.host.statistics(&store), context.host.cpu_time());
    each("pid", &std::process::id().to_string());
    each("version", VERSION);
    each("pointer_size", &usize::BITS.to_string());
    each("rusage_user", &seconds(cpu.user_us));
    each("rusage_system", &seconds(cpu.system_us));
    let mut number = |name: &str, value: u64| each(name, &value.to_string());
    number("uptime", server.uptime_s);
    number("time", context.now.0.into());
    number("max_connections", server.max_connections);
    number("curr_connections", server.curr_connections);
    number("total_connections", server.total_connections);
    number("rejected_connections", server.rejected_connections);
    number("idle_kicks", server.idle_kicks);
    number("overrun_kicks", server.overrun_kicks);
    number("accepting_conns", server.is_accepting.into());
    number("listen_disabled_num", server.listen_disabled);
    number("time_in_listen_disabled_us", server.listen_disabled_us);
    number("conn_yields", server.conn_yields);
    number("bytes_read", server.bytes_read);
    number("bytes_written", server.bytes_written);
    number("datagrams", server.datagrams);
    number("threads", server.threads);
    number("cmd_flush", context.store.flushes());
    of_store(&store, &mut number);
}

/// Microseconds as seconds with six decimals.
fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// Lines of `stats items`. Without slabs there is one class of items, as in `me`.
pub fn items(context: &Context<'_>, each: StatisticSink<'_>) {
    let store = context.store.statistics();
    if store.curr_items == 0 {
        return;
    }
    let of = &store.counters;
    for (name, value) in [
        ("number", store.curr_items),
        ("mem_requested", store.bytes),
        ("evicted", of.evictions),
        ("outofmemory", of.store_no_memory),
        ("reclaimed", of.reclaimed),
        ("expired_unfetched", of.expired_unfetched),
        ("evicted_unfetched", of.evicted_unfetched),
        ("evicted_active", of.evicted_active),
    ] {
        each(&format!("items:1:{name}"), &value.to_string());
    }
}

/// Lines of `stats slabs`: one class of items, whose pages are the segments of the log.
pub fn slabs(context: &Context<'_>, each: StatisticSink<'_>) {
    let store = context.store.statistics();
    let of = &store.counters;
    let class = [
        ("total_pages", store.segments),
        ("mem_requested", store.bytes),
        ("get_hits", of.get_hits),
        ("cmd_set", of.cmd_set),
        ("delete_hits", of.delete_hits),
        ("incr_hits", of.incr_hits),
        ("decr_hits", of.decr_hits),
        ("cas_hits", of.cas_hits),
        ("cas_badval", of.cas_badval),
        ("touch_hits", of.touch_hits),
    ];
    let is_used = store.segments > 0;
    for (name, value) in class.into_iter().filter(|_| is_used) {
        each(&format!("1:{name}"), &value.to_string());
    }
    each("active_slabs", if is_used { "1" } else { "0" });
    each("total_malloced", &(store.memory_bytes - store.hash_bytes).to_string());
}

const _: () = assert!(
    PREFIXES_BYTES_MAX < DATAGRAM_ANSWER_LEN_MAX,
    "all prefixes fit into the answer to a datagram"
);

/// Adds what `stats detail dump` tells: what was asked for, by prefix of the key.
pub fn prefixes(context: &Context<'_>, out: &mut Vec<u8>) {
    for (prefix, of) in context.store.prefixes() {
        out.extend_from_slice(b"PREFIX ");
        out.extend_from_slice(&prefix);
        let (gets, hits, sets, deletes) = (of.gets, of.hits, of.sets, of.deletes);
        let line = format!(" get {gets} hit {hits} set {sets} del {deletes}\r\n");
        out.extend_from_slice(line.as_bytes());
    }
    out.extend_from_slice(b"END\r\n");
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

/// The statistics of `stats settings`.
pub fn settings(context: &Context<'_>, each: StatisticSink<'_>) {
    let store = context.store.statistics();
    let server = context.host.statistics(&store);
    let inter = server.address.map_or_else(|| "NULL".to_owned(), |ip| ip.to_string());
    each("inter", &inter);
    each("detail_enabled", if context.store.is_detailed() { "yes" } else { "no" });
    for (name, value) in [
        ("evictions", "on"),
        // It listens at addresses alone.
        ("domain_socket", "NULL"),
        ("shutdown_command", "no"),
        ("stat_key_prefix", ":"),
        ("cas_enabled", "yes"),
        ("flush_enabled", "yes"),
        ("dump_enabled", "no"),
        ("auth_enabled_sasl", "no"),
        ("auth_enabled_ascii", "no"),
        ("binding_protocol", "auto-negotiate"),
        // A client beyond the limit gets an error at once.
        ("maxconns_fast", "yes"),
        ("slab_reassign", "no"),
        ("lru_crawler", "no"),
        ("lru_maintainer_thread", "no"),
        ("lru_segmented", "no"),
        ("track_sizes", "no"),
    ] {
        each(name, value);
    }
    let mut number = |name: &str, value: u64| each(name, &value.to_string());
    number("maxbytes", store.limit_maxbytes);
    number("maxconns", server.max_connections);
    number("verbosity", context.store.verbosity().into());
    number("tcp_backlog", server.backlog);
    number("tcpport", server.port.into());
    number("udpport", server.udp_port.into());
    number("num_threads", server.threads);
    number("idle_timeout", server.idle_timeout_s);
    number("item_size_max", VALUE_LEN_MAX as u64);
    number("key_size_max", KEY_LEN_MAX as u64);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::kvs::codec::context::{CpuTime, ServerStatistics, ServerView};
    use crate::kvs::protocol::time::UnixTime;
    use crate::kvs::store::Store;

    /// Counts how often somebody asks for the time of the process.
    #[derive(Default)]
    struct Asked(Cell<u32>);

    impl ServerView for Asked {
        fn statistics(&self, _: &Statistics) -> ServerStatistics {
            ServerStatistics::default()
        }

        fn cpu_time(&self) -> CpuTime {
            self.0.set(self.0.get() + 1);
            CpuTime { user_us: 2_000_001, system_us: 30_000 }
        }
    }

    #[test]
    fn only_stats_alone_asks_for_the_time_of_the_process() {
        let (store, host) = (Store::new(32 << 20, 1, 7).unwrap(), Asked::default());
        let context = Context { store: &store, now: UnixTime(9), host: &host };
        let mut reported = String::new();
        for of in [settings, items, slabs] {
            of(&context, &mut |name, value| reported += &format!("{name} {value}\n"));
        }
        assert!(host.0.get() == 0 && reported.contains("item_size_max 1048576\n"), "{reported}");
        general(&context, &mut |name, value| reported += &format!("{name} {value}\n"));
        assert_eq!(host.0.get(), 1);
        assert!(reported.contains("rusage_user 2.000001\nrusage_system 0.030000\n"), "{reported}");
    }
}
