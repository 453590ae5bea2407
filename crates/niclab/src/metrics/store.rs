//! Metric families of a key-value store, under the names of `memcached_exporter` (Prometheus'
//! exporter for memcached): dashboards made for it show this store.
//!
//! The values are those that the store gives to memcached's `stats` commands. A statistic that has
//! no meaning here has no series. What memcached does not have is called `niclab_kvs_…`.

use std::collections::BTreeMap;

use niclab_apps::kvs::transport::{StatisticsKind, StatisticsView};

use super::families::{Families, Family, MetricKind, MetricValue};

use MetricKind::{Counter, Gauge};

/// What `stats` calls a value, and the kind, name, unit and help of its family.
type Row = (&'static str, MetricKind, &'static str, &'static str, &'static str);

const GENERAL: [Row; 18] = [
    ("uptime", Gauge, "memcached_uptime", "seconds", "Time since the server started."),
    ("time", Gauge, "memcached_time", "seconds", "Unix time of the server."),
    ("curr_connections", Gauge, "memcached_current_connections", "", "Open connections."),
    ("max_connections", Gauge, "memcached_max_connections", "", "Most connections at once."),
    ("total_connections", Counter, "memcached_connections", "", "Connections opened."),
    (
        "rejected_connections",
        Counter,
        "memcached_connections_rejected",
        "",
        "Connections refused because there were too many.",
    ),
    (
        "conn_yields",
        Counter,
        "memcached_connections_yielded",
        "",
        "Times a connection with more requests gave way to others.",
    ),
    (
        "listen_disabled_num",
        Counter,
        "memcached_connections_listener_disabled",
        "",
        "Times the system had no descriptor for a new connection.",
    ),
    (
        "accepting_conns",
        Gauge,
        "memcached_accepting_connections",
        "",
        "Whether new connections are accepted.",
    ),
    ("bytes_read", Counter, "memcached_read", "bytes", "Bytes received."),
    ("bytes_written", Counter, "memcached_written", "bytes", "Bytes sent."),
    ("bytes", Gauge, "memcached_current", "bytes", "Bytes of the stored items."),
    ("limit_maxbytes", Gauge, "memcached_limit", "bytes", "Most memory of items and index."),
    ("curr_items", Gauge, "memcached_current_items", "", "Stored items."),
    ("total_items", Counter, "memcached_items", "", "Items stored since the start."),
    ("evictions", Counter, "memcached_items_evicted", "", "Items evicted for others."),
    ("reclaimed", Counter, "memcached_items_reclaimed", "", "Expired items whose room was reused."),
    ("store_too_large", Counter, "memcached_item_too_large", "", "Items longer than the limit."),
];

/// Names of the exporter and of this store, behind [`GENERAL`].
const MORE: [Row; 5] = [
    ("store_no_memory", Counter, "memcached_item_no_memory", "", "Items without room."),
    ("datagrams", Counter, "niclab_kvs_datagrams", "", "UDP datagrams received."),
    ("memory_bytes", Gauge, "niclab_kvs_memory", "bytes", "Memory of the log and the index."),
    ("hash_bytes", Gauge, "niclab_kvs_index", "bytes", "Memory of the index."),
    ("lock_waits", Counter, "niclab_kvs_lock_waits", "", "Waits for the lock of a partition."),
];

/// Of `stats items`, whose names have `items:1:` before them.
const ITEMS: [Row; 6] = [
    ("number", Gauge, "memcached_slab_current_items", "", "Stored items."),
    ("evicted", Counter, "memcached_slab_items_evicted", "", "Items evicted for others."),
    (
        "evicted_unfetched",
        Counter,
        "memcached_slab_items_evicted_unfetched",
        "",
        "Evicted items that nobody had read.",
    ),
    (
        "expired_unfetched",
        Counter,
        "memcached_slab_items_expired_unfetched",
        "",
        "Expired items that nobody had read.",
    ),
    ("outofmemory", Counter, "memcached_slab_items_outofmemory", "", "Items without room."),
    ("reclaimed", Counter, "memcached_slab_items_reclaimed", "", "Expired items, room reused."),
];

/// Of `stats slabs`, whose names have `1:` before them.
const SLABS: [Row; 2] = [
    ("total_pages", Gauge, "memcached_slab_current_pages", "", "Segments of the log."),
    ("mem_requested", Gauge, "memcached_slab_mem_requested", "bytes", "Bytes of stored items."),
];

type Stats = BTreeMap<String, String>;

/// Adds all families of a store.
pub fn push(store: &StatisticsView, families: &mut Families) {
    let of = |kind| -> Stats { store.statistics(kind).into_iter().collect() };
    let [general, items, slabs] =
        [StatisticsKind::General, StatisticsKind::Items, StatisticsKind::Slabs].map(of);
    let mut up = Family::new(Gauge, "memcached_up", "", "The server answers.");
    up.push(Vec::new(), MetricValue::Whole(1));
    families.push(up);
    let mut version = Family::new(Gauge, "memcached_version", "", "Version of the protocol.");
    if let Some(text) = general.get("version") {
        version.push(vec![("version", text.clone())], MetricValue::Whole(1));
    }
    families.push(version);
    rows(&general, "", &GENERAL, families);
    rows(&general, "", &MORE, families);
    times(&general, families);
    ends(&general, families);
    commands(&general, families);
    rows(&items, "items:1:", &ITEMS, families);
    rows(&slabs, "1:", &SLABS, families);
    rows(
        &slabs,
        "",
        &[("total_malloced", Gauge, "memcached_malloced", "bytes", "Memory of the log.")],
        families,
    );
    slab_commands(&slabs, families);
}

fn whole(stats: &Stats, name: &str) -> Option<u64> {
    stats.get(name)?.parse().ok()
}

/// A family for each row whose value is there. Rows of a class have its label.
fn rows(stats: &Stats, before: &str, rows: &[Row], families: &mut Families) {
    for (name, kind, family, unit, help) in rows {
        let mut family = Family::new(*kind, family, unit, help);
        if let Some(value) = whole(stats, &format!("{before}{name}")) {
            let labels = if before.is_empty() { vec![] } else { vec![("slab", "1".to_owned())] };
            family.push(labels, MetricValue::Whole(value));
        }
        families.push(family);
    }
}

fn times(stats: &Stats, families: &mut Families) {
    for (name, per_second, family, help) in [
        ("rusage_user", 1.0, "memcached_process_user_cpu", "Processor time in niclab's code."),
        ("rusage_system", 1.0, "memcached_process_system_cpu", "Processor time in the kernel."),
        ("lock_wait_us", 1e6, "niclab_kvs_lock_wait", "Time of waits for locks of partitions."),
    ] {
        let mut family = Family::new(Counter, family, "seconds", help);
        if let Some(value) = stats.get(name).and_then(|value| value.parse::<f64>().ok()) {
            family.push(Vec::new(), MetricValue::Seconds(value / per_second));
        }
        families.push(family);
    }
}

/// Connections that the server ended, by the reason.
fn ends(stats: &Stats, families: &mut Families) {
    let help = "Connections that the server ended, by reason.";
    let mut family = Family::new(Counter, "niclab_kvs_disconnects", "", help);
    for (name, reason) in [("idle_kicks", "idle"), ("overrun_kicks", "buffers")] {
        if let Some(value) = whole(stats, name) {
            family.push(vec![("reason", reason.to_owned())], MetricValue::Whole(value));
        }
    }
    families.push(family);
}

/// Commands that are counted with their outcome: name in `stats`, command, outcome.
const COMMANDS: [(&str, &str, &str); 14] = [
    ("get_hits", "get", "hit"),
    ("get_misses", "get", "miss"),
    ("delete_hits", "delete", "hit"),
    ("delete_misses", "delete", "miss"),
    ("incr_hits", "incr", "hit"),
    ("incr_misses", "incr", "miss"),
    ("decr_hits", "decr", "hit"),
    ("decr_misses", "decr", "miss"),
    ("cas_hits", "cas", "hit"),
    ("cas_misses", "cas", "miss"),
    ("cas_badval", "cas", "badval"),
    ("touch_hits", "touch", "hit"),
    ("touch_misses", "touch", "miss"),
    ("cmd_flush", "flush", "hit"),
];

/// Commands and their outcomes, those of `set` without `cas`, which `stats` counts among them.
fn outcomes<'a>(
    stats: &'a Stats,
    before: &'a str,
    cas: &'a [&str],
) -> impl Iterator<Item = (&'static str, &'static str, u64)> + 'a {
    let of = move |name: &str| whole(stats, &format!("{before}{name}"));
    let counted = COMMANDS.into_iter();
    let counted =
        counted.filter_map(move |(name, command, status)| Some((command, status, of(name)?)));
    let compared: u64 = cas.iter().filter_map(|name| of(name)).sum();
    let sets = of("cmd_set").map(|sets| ("set", "hit", sets.saturating_sub(compared)));
    counted.chain(sets)
}

fn commands(stats: &Stats, families: &mut Families) {
    let help = "Commands by outcome.";
    let mut family = Family::new(Counter, "memcached_commands", "", help);
    for (command, status, count) in outcomes(stats, "", &["cas_hits", "cas_misses", "cas_badval"]) {
        let labels = vec![("command", command.to_owned()), ("status", status.to_owned())];
        family.push(labels, MetricValue::Whole(count));
    }
    families.push(family);
}

fn slab_commands(stats: &Stats, families: &mut Families) {
    let help = "Commands by outcome; all items are of one class.";
    let mut family = Family::new(Counter, "memcached_slab_commands", "", help);
    for (command, status, count) in outcomes(stats, "1:", &["cas_hits", "cas_badval"]) {
        let labels = [("slab", "1"), ("command", command), ("status", status)];
        let labels = labels.map(|(name, value)| (name, value.to_owned())).into();
        family.push(labels, MetricValue::Whole(count));
    }
    families.push(family);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::families::{Format, written};
    use super::*;

    #[test]
    fn statistics_have_the_names_of_the_exporter() {
        let stats: Stats = [
            ("uptime", "7"),
            ("rusage_user", "1.500000"),
            ("lock_wait_us", "2500000"),
            ("cmd_set", "10"),
            ("cas_hits", "2"),
            ("cas_misses", "1"),
            ("cas_badval", "3"),
            ("get_hits", "5"),
            ("cmd_flush", "1"),
            ("overrun_kicks", "4"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let mut families = Families::default();
        rows(&stats, "", &GENERAL, &mut families);
        times(&stats, &mut families);
        ends(&stats, &mut families);
        commands(&stats, &mut families);
        let text = written(&Arc::new(families), Format::Prometheus).unwrap();
        let series: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let known = [
            "memcached_uptime_seconds 7",
            "memcached_process_user_cpu_seconds_total 1.5",
            "niclab_kvs_lock_wait_seconds_total 2.5",
            r#"niclab_kvs_disconnects_total{reason="buffers"} 4"#,
            r#"memcached_commands_total{command="get",status="hit"} 5"#,
            r#"memcached_commands_total{command="cas",status="hit"} 2"#,
            r#"memcached_commands_total{command="cas",status="miss"} 1"#,
            r#"memcached_commands_total{command="cas",status="badval"} 3"#,
            r#"memcached_commands_total{command="flush",status="hit"} 1"#,
            r#"memcached_commands_total{command="set",status="hit"} 4"#,
        ];
        assert_eq!(series, known);
    }
}
