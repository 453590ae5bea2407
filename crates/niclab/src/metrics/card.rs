//! Metric families of a card: names and series.
//!
//! Names and units follow Prometheus: a counter ends in `_total`, times are in seconds. Bytes of
//! ports and queues are without FCS, those of rules with it.

use niclab_control::{
    ApplicationCounters, CoreCounters, ExternalQueueCounters, PortCounters, TableEntries,
};

use super::families::{Families, Family, Labels, MetricKind, MetricValue};
use crate::nic::sample::{CardSample, ProgramCounts, RuleCounts};

use MetricKind::{Counter, Gauge, Info};

/// Adds all families of a card.
pub fn push(sample: &CardSample, families: &mut Families) {
    ports(&sample.counters.ports, families);
    drops(&sample.counters.ports, families);
    queues(sample, families);
    external_queues(&sample.counters.ports, families);
    cores(&sample.counters.cores, families);
    applications(&sample.counters.applications, families);
    rules(sample, families);
    programs(sample, families);
}

/// Adds a family with a series for each thing that knows its value.
fn each<T>(
    families: &mut Families,
    (kind, name, unit, help): (MetricKind, &'static str, &str, &'static str),
    things: &[T],
    series: impl Fn(usize, &T) -> Option<(Labels, MetricValue)>,
) {
    let mut family = Family::new(kind, name, unit, help);
    for (at, thing) in things.iter().enumerate() {
        if let Some((labels, value)) = series(at, thing) {
            family.push(labels, value);
        }
    }
    families.push(family);
}

fn port(number: usize) -> Labels {
    vec![("port", number.to_string())]
}

fn ports(ports: &[PortCounters], families: &mut Families) {
    let mut info = Family::new(Info, "niclab_port", "", "Name of a port.");
    for (at, of) in ports.iter().enumerate() {
        let labels = [port(at), vec![("name", of.name.clone())]].concat();
        info.push(labels, MetricValue::Whole(1));
    }
    families.push(info);
    let help = "Whether the port is there (1) or its interface has gone (0).";
    let what = (Gauge, "niclab_port_up", "", help);
    each(families, what, ports, |at, of| Some((port(at), MetricValue::Whole(of.is_up.into()))));
    type Count = fn(&PortCounters) -> Option<u64>;
    let counters: [(&str, &str, &str, Count); 6] = [
        ("niclab_port_receive", "packets", "Packets received.", |of| Some(of.rx_frames)),
        ("niclab_port_receive", "bytes", "Bytes received, without FCS.", |of| Some(of.rx_bytes)),
        ("niclab_port_transmit", "packets", "Packets sent.", |of| Some(of.tx_frames)),
        ("niclab_port_transmit", "bytes", "Bytes sent, without FCS.", |of| Some(of.tx_bytes)),
        (
            "niclab_port_receive_partial_checksum",
            "packets",
            "Packets received without a whole TCP or UDP checksum, where the port can tell.",
            PortCounters::partial_checksums,
        ),
        (
            "niclab_port_program_ring",
            "packets",
            "Packets that went no further because a program wrote an entry of a ring for them.",
            |of| Some(of.program_reported),
        ),
    ];
    for (name, unit, help, count) in counters {
        let series = |at, of: &PortCounters| Some((port(at), MetricValue::Whole(count(of)?)));
        each(families, (Counter, name, unit, help), ports, series);
    }
}

/// Packets that a port lost, by the reason.
fn drops(ports: &[PortCounters], families: &mut Families) {
    type Count = fn(&PortCounters) -> Option<u64>;
    let reasons: [(&str, Count); 7] = [
        ("port_full", PortCounters::missed),
        // All that a TAP interface can tell.
        ("too_long", |of| (of.kind() == "tap").then_some(of.rx_missed)),
        ("rule", |of| Some(of.rule_drops)),
        ("rss_change", |of| Some(of.held_drops)),
        ("program", |of| Some(of.program_drops)),
        ("program_fault", |of| Some(of.program_faults)),
        ("program_ring_full", |of| Some(of.program_ring_full)),
    ];
    let help = "Received packets that were dropped before a queue, by reason.";
    let mut family = Family::new(Counter, "niclab_port_receive_drop", "packets", help);
    for (at, of) in ports.iter().enumerate() {
        for (reason, count) in reasons {
            if let Some(count) = count(of) {
                let labels = [port(at), vec![("reason", reason.to_owned())]].concat();
                family.push(labels, MetricValue::Whole(count));
            }
        }
    }
    families.push(family);
    let help = "Packets for the port that were dropped: it had no room, or was gone.";
    let what = (Counter, "niclab_port_transmit_drop", "packets", help);
    each(families, what, ports, |at, of| Some((port(at), MetricValue::Whole(of.tx_dropped))));
}

fn queues(sample: &CardSample, families: &mut Families) {
    let cores = &sample.counters.cores;
    let mut all: Vec<(Labels, [u64; 3])> = Vec::new();
    for (at, of) in sample.counters.ports.iter().enumerate() {
        for (number, queue) in of.queues.iter().enumerate() {
            // A queue of a core that is not listed has no core to name.
            let core = cores.get(queue.core).map(|of| ("core", of.core.to_string()));
            let own = [("queue", number.to_string())].into_iter().chain(core);
            let labels = port(at).into_iter().chain(own).collect();
            all.push((labels, [queue.rx_frames, queue.rx_bytes, queue.rx_missed]));
        }
    }
    for (place, (name, unit, help)) in [
        ("niclab_queue_receive", "packets", "Packets that the queue got."),
        ("niclab_queue_receive", "bytes", "Bytes that the queue got, without FCS."),
        ("niclab_queue_drop", "packets", "Packets that found the ring to the queue's core full."),
    ]
    .into_iter()
    .enumerate()
    {
        let series =
            |_, of: &(Labels, [u64; 3])| Some((of.0.clone(), MetricValue::Whole(of.1[place])));
        each(families, (Counter, name, unit, help), &all, series);
    }
}

fn external_queues(ports: &[PortCounters], families: &mut Families) {
    let all: Vec<(Labels, &ExternalQueueCounters)> = (ports.iter().enumerate())
        .flat_map(|(at, of)| of.external_queues.iter().map(move |queue| (at, queue)))
        .map(|(at, of)| ([port(at), vec![("queue", of.queue.to_string())]].concat(), of))
        .collect();
    type Count = fn(&ExternalQueueCounters) -> u64;
    let what: [(MetricKind, &str, &str, &str, Count); 4] = [
        (
            Gauge,
            "niclab_external_queue_connected",
            "",
            "Whether another process serves the queue.",
            |of| of.is_there.into(),
        ),
        (
            Counter,
            "niclab_external_queue_receive",
            "packets",
            "Packets that clients of the queue got.",
            |of| of.given_frames,
        ),
        (
            Counter,
            "niclab_external_queue_transmit",
            "packets",
            "Packets that clients of the queue sent.",
            |of| of.taken_frames,
        ),
        (
            Counter,
            "niclab_external_queue_drop",
            "packets",
            "Packets that were dropped: no client was there, or it had no slot for them.",
            |of| of.dropped,
        ),
    ];
    for (kind, name, unit, help, count) in what {
        let series = |_, of: &(Labels, &ExternalQueueCounters)| {
            Some((of.0.clone(), MetricValue::Whole(count(of.1))))
        };
        each(families, (kind, name, unit, help), &all, series);
    }
}

/// Nanoseconds as seconds.
fn seconds(ns: u64) -> MetricValue {
    MetricValue::Seconds(ns as f64 / 1e9)
}

fn cores(cores: &[CoreCounters], families: &mut Families) {
    let core = |of: &CoreCounters| vec![("core", of.core.to_string())];
    let help = "Processor time that the core has taken.";
    let what = (Counter, "niclab_core_cpu", "seconds", help);
    each(families, what, cores, |_, of| Some((core(of), seconds(of.cpu_ns))));
    let help = "Time in which the core had packets to work on.";
    let what = (Counter, "niclab_core_busy", "seconds", help);
    each(families, what, cores, |_, of| Some((core(of), seconds(of.busy_ns))));
    let help = "Packets that the function on the core has had.";
    let what = (Counter, "niclab_core_function", "packets", help);
    each(families, what, cores, |_, of| Some((core(of), MetricValue::Whole(of.frames))));
}

fn applications(all: &[ApplicationCounters], families: &mut Families) {
    let name = |of: &ApplicationCounters| vec![("application", of.name.clone())];
    let help = "Packets of the application's flows that its program has had.";
    let what = (Counter, "niclab_application_receive", "packets", help);
    each(families, what, all, |_, of| Some((name(of), MetricValue::Whole(of.frames))));
    let help = "Time that cores have worked for the application.";
    let what = (Counter, "niclab_application_busy", "seconds", help);
    each(families, what, all, |_, of| Some((name(of), seconds(of.busy_ns))));
    let help =
        "Packets that went no further because the program wrote an entry of a ring for them.";
    let what = (Counter, "niclab_application_ring", "packets", help);
    each(families, what, all, |_, of| Some((name(of), MetricValue::Whole(of.reported))));
    type Count = fn(&ApplicationCounters) -> u64;
    let reasons: [(&str, Count); 7] = [
        ("share", |of| of.missed),
        ("program", |of| of.drops),
        ("program_fault", |of| of.faults),
        ("not_owned", |of| of.outside),
        ("program_ring_full", |of| of.ring_full),
        ("queue_full", |of| of.queue_missed),
        ("port_full", |of| of.tx_dropped),
    ];
    let help = "Packets of the application that were dropped, by reason.";
    let mut family = Family::new(Counter, "niclab_application_drop", "packets", help);
    for of in all {
        for (reason, count) in reasons {
            let labels = [name(of), vec![("reason", reason.to_owned())]].concat();
            family.push(labels, MetricValue::Whole(count(of)));
        }
    }
    families.push(family);
}

fn rules(sample: &CardSample, families: &mut Families) {
    let ports = &sample.counters.ports;
    let what = (Gauge, "niclab_rules", "", "Rules that the port has now.");
    each(families, what, ports, |at, of| Some((port(at), MetricValue::Whole(of.rules.into()))));
    let help = "Rules that commands have created, updated and destroyed.";
    let mut operations = Family::new(Counter, "niclab_rule_operations", "", help);
    for (at, of) in ports.iter().enumerate() {
        for (operation, count) in [
            ("create", of.rules_created),
            ("update", of.rules_updated),
            ("destroy", of.rules_destroyed),
        ] {
            let labels = [port(at), vec![("operation", operation.to_owned())]].concat();
            operations.push(labels, MetricValue::Whole(count));
        }
    }
    families.push(operations);
    let help = "Requests with commands on rules that were refused.";
    let mut refused = Family::new(Counter, "niclab_rule_requests_refused", "", help);
    refused.push(Vec::new(), MetricValue::Whole(sample.counters.rule_texts_refused));
    families.push(refused);
    let labels = |of: &RuleCounts| -> Labels {
        let names = ["port", "rule", "group", "priority"];
        let numbers = [of.port.into(), of.rule, of.group, of.priority];
        names.into_iter().zip(numbers.map(|number: u32| number.to_string())).collect()
    };
    let help = "Packets that matched a rule with the action count.";
    let what = (Counter, "niclab_rule_match", "packets", help);
    each(families, what, &sample.rules, |_, of| Some((labels(of), MetricValue::Whole(of.packets))));
    let help = "Bytes, with FCS, of packets that matched a rule with the action count.";
    let what = (Counter, "niclab_rule_match", "bytes", help);
    each(families, what, &sample.rules, |_, of| Some((labels(of), MetricValue::Whole(of.bytes))));
    let help = "Rules without series of their own, because their port has more than 1000 rules.";
    let mut left_out = Family::new(Gauge, "niclab_rules_left_out", "", help);
    left_out.push(Vec::new(), MetricValue::Whole(sample.rules_left_out));
    families.push(left_out);
}

/// The label of a program: its application; the card's own program has none.
fn whose(of: &ProgramCounts) -> Labels {
    match of.application.as_str() {
        "" => Vec::new(),
        name => vec![("application", name.to_owned())],
    }
}

fn programs(sample: &CardSample, families: &mut Families) {
    let help = "Whether a program processes packets in place of rules and RSS.";
    let mut active = Family::new(Gauge, "niclab_program_active", "", help);
    active.push(Vec::new(), MetricValue::Whole(sample.has_program.into()));
    families.push(active);
    let help = "Entries of a table of a program; of a selector its groups.";
    let mut entries = Family::new(Gauge, "niclab_program_table_entries", "", help);
    let help = "Room of a table of a program; of a selector for groups.";
    let mut room = Family::new(Gauge, "niclab_program_table_entries_max", "", help);
    let help = "Packets of a counter of a program.";
    let mut packets = Family::new(Counter, "niclab_program_counter", "packets", help);
    let help = "Bytes of a counter of a program.";
    let mut bytes = Family::new(Counter, "niclab_program_counter", "bytes", help);
    let help = "Counters of a program without series of their own: it has more than 1000.";
    let mut left_out = Family::new(Gauge, "niclab_program_counters_left_out", "", help);
    for of in &sample.programs {
        for table in &of.tables {
            let labels = [whose(of), vec![("table", table.name.clone())]].concat();
            let (has, most) = match table.entries {
                TableEntries::Match { entries, size } => (entries, Some(size)),
                // Each core has room of its own.
                TableEntries::Learner { entries, .. } => (entries, None),
                TableEntries::Selector { groups, groups_max, .. } => (groups, Some(groups_max)),
                TableEntries::NoKey {} => continue,
            };
            entries.push(labels.clone(), MetricValue::Whole(has));
            most.into_iter().for_each(|most| room.push(labels.clone(), MetricValue::Whole(most)));
        }
        for (array, index, counted_packets, counted_bytes) in &of.counters {
            let own = vec![("counter", array.clone()), ("index", index.to_string())];
            let labels = [whose(of), own].concat();
            packets.push(labels.clone(), MetricValue::Whole(*counted_packets));
            bytes.push(labels, MetricValue::Whole(*counted_bytes));
        }
        left_out.push(whose(of), MetricValue::Whole(of.counters_left_out));
    }
    [entries, room, packets, bytes, left_out].into_iter().for_each(|family| families.push(family));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use niclab_control::{CardCounters, QueueCounters, TableState};

    use super::super::families::{Format, written};
    use super::*;

    fn sample() -> CardSample {
        let external = ExternalQueueCounters { queue: 1, dropped: 4, ..Default::default() };
        let tap = PortCounters {
            name: "tap:nic0".to_owned(),
            is_up: true,
            rx_frames: 10,
            rx_bytes: 1_000,
            rx_missed: 1,
            tx_frames: 8,
            tx_bytes: 800,
            tx_dropped: 2,
            rule_drops: 3,
            rules: 2,
            rules_created: 5,
            rules_destroyed: 3,
            queues: vec![QueueCounters { core: 0, rx_frames: 7, rx_bytes: 700, rx_missed: 6 }],
            external_queues: vec![external],
            ..PortCounters::default()
        };
        let xdp = PortCounters { name: "xdp:va".to_owned(), rx_missed: 9, ..Default::default() };
        let counters = CardCounters {
            ports: vec![tap, xdp],
            cores: vec![CoreCounters {
                core: 3,
                rx_frames: 9,
                frames: 7,
                cpu_ns: 2_500_000_000,
                busy_ns: 5,
            }],
            applications: vec![ApplicationCounters {
                name: "keeper".to_owned(),
                missed: 1,
                ..Default::default()
            }],
            rule_texts_refused: 2,
        };
        let rule = RuleCounts { port: 0, rule: 4, group: 1, priority: 2, packets: 6, bytes: 384 };
        let entries = TableEntries::Match { entries: 2, size: 64 };
        let program = ProgramCounts {
            application: String::new(),
            tables: vec![TableState { name: "routes".to_owned(), entries, default: None }],
            counters: vec![("seen".to_owned(), 1, 9, 900)],
            counters_left_out: 0,
        };
        let (rules, programs) = (vec![rule], vec![program]);
        CardSample { counters, has_program: true, rules, rules_left_out: 0, programs }
    }

    #[test]
    fn a_card_is_written_with_names_units_and_labels() {
        let mut families = Families::default();
        push(&sample(), &mut families);
        let text = written(&Arc::new(families), Format::Prometheus).unwrap();
        for line in [
            r#"niclab_port_info{port="0",name="tap:nic0"} 1"#,
            r#"niclab_port_up{port="0"} 1"#,
            r#"niclab_port_up{port="1"} 0"#,
            r#"niclab_port_receive_packets_total{port="0"} 10"#,
            r#"niclab_port_receive_bytes_total{port="0"} 1000"#,
            r#"niclab_port_transmit_packets_total{port="0"} 8"#,
            r#"niclab_port_receive_drop_packets_total{port="0",reason="rule"} 3"#,
            r#"niclab_port_receive_drop_packets_total{port="0",reason="too_long"} 1"#,
            r#"niclab_port_receive_drop_packets_total{port="1",reason="port_full"} 9"#,
            r#"niclab_port_transmit_drop_packets_total{port="0"} 2"#,
            r#"niclab_queue_receive_packets_total{port="0",queue="0",core="3"} 7"#,
            r#"niclab_queue_drop_packets_total{port="0",queue="0",core="3"} 6"#,
            r#"niclab_external_queue_connected{port="0",queue="1"} 0"#,
            r#"niclab_external_queue_drop_packets_total{port="0",queue="1"} 4"#,
            r#"niclab_core_cpu_seconds_total{core="3"} 2.5"#,
            r#"niclab_core_busy_seconds_total{core="3"} 5e-9"#,
            r#"niclab_application_drop_packets_total{application="keeper",reason="share"} 1"#,
            r#"niclab_rules{port="0"} 2"#,
            r#"niclab_rule_operations_total{port="0",operation="create"} 5"#,
            r#"niclab_rule_operations_total{port="0",operation="destroy"} 3"#,
            "niclab_rule_requests_refused_total 2",
            r#"niclab_rule_match_packets_total{port="0",rule="4",group="1",priority="2"} 6"#,
            r#"niclab_rule_match_bytes_total{port="0",rule="4",group="1",priority="2"} 384"#,
            "niclab_program_active 1",
            r#"niclab_program_table_entries{table="routes"} 2"#,
            r#"niclab_program_table_entries_max{table="routes"} 64"#,
            r#"niclab_program_counter_packets_total{counter="seen",index="1"} 9"#,
            r#"niclab_program_counter_bytes_total{counter="seen",index="1"} 900"#,
        ] {
            assert!(text.lines().any(|of| of == line), "{line} is missing in:\n{text}");
        }
        // What a port cannot tell has no series.
        for absent in [
            r#"{port="0",reason="port_full"}"#,
            r#"{port="1",reason="too_long"}"#,
            r#"partial_checksum_packets_total{port="1"}"#,
        ] {
            assert!(!text.contains(absent), "{absent}:\n{text}");
        }
    }
}
