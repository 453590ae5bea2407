//! Converts a card's counters into those of the control protocol.

use niclab_card as card;
use niclab_control::{
    ApplicationCounters, CardCounters, CoreCounters, ExternalQueueCounters, PortCounters,
    QueueCounters,
};

/// The counters of a card. What is new there has to be named here.
pub(super) fn counted(counters: card::Counters) -> CardCounters {
    let card::Counters { ports, cores, applications, rule_texts_refused } = counters;
    CardCounters {
        ports: ports.into_iter().map(port).collect(),
        cores: cores.into_iter().map(core).collect(),
        applications: applications.into_iter().map(application).collect(),
        rule_texts_refused,
    }
}

fn core(counters: card::CoreCounters) -> CoreCounters {
    let card::CoreCounters { core, rx_frames: _, frames, cpu_ns, busy_ns } = counters;
    CoreCounters { core, frames, cpu_ns, busy_ns }
}

fn port(counters: card::PortCounters) -> PortCounters {
    let card::PortCounters {
        name,
        is_up,
        rx_frames,
        rx_bytes,
        rx_missed,
        rx_partial_checksums,
        tx_frames,
        tx_bytes,
        tx_dropped,
        rule_drops,
        program_drops,
        program_told,
        program_faults,
        program_ring_full,
        held_drops,
        rules,
        rules_created,
        rules_updated,
        rules_destroyed,
        queues,
        external_queues,
    } = counters;
    PortCounters {
        name,
        is_up,
        rx_frames,
        rx_bytes,
        rx_missed,
        rx_partial_checksums,
        tx_frames,
        tx_bytes,
        tx_dropped,
        rule_drops,
        program_drops,
        program_told,
        program_faults,
        program_ring_full,
        held_drops,
        rules,
        rules_created,
        rules_updated,
        rules_destroyed,
        queues: queues.into_iter().map(queue).collect(),
        external_queues: external_queues.into_iter().map(external_queue).collect(),
    }
}

fn queue(counters: card::QueueCounters) -> QueueCounters {
    let card::QueueCounters { core, rx_frames, rx_bytes, rx_missed } = counters;
    QueueCounters { core, rx_frames, rx_bytes, rx_missed }
}

fn external_queue(counters: card::ExternalQueueCounters) -> ExternalQueueCounters {
    let card::ExternalQueueCounters {
        queue,
        is_there,
        given_frames,
        dropped,
        taken_frames,
        refused,
        ended,
    } = counters;
    ExternalQueueCounters { queue, is_there, given_frames, dropped, taken_frames, refused, ended }
}

fn application(counters: card::ApplicationCounters) -> ApplicationCounters {
    let card::ApplicationCounters {
        name,
        frames,
        missed,
        drops,
        told,
        faults,
        outside,
        ring_full,
        queue_missed,
        tx_dropped,
        busy_ns,
    } = counters;
    ApplicationCounters {
        name,
        frames,
        missed,
        drops,
        told,
        faults,
        outside,
        ring_full,
        queue_missed,
        tx_dropped,
        busy_ns,
    }
}
