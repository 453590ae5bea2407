//! What a card has counted.

use serde::{Deserialize, Serialize};

/// What a card has counted since it was started; bytes are without FCS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardCounters {
    /// By port.
    pub ports: Vec<PortCounters>,
    /// By core.
    pub cores: Vec<CoreCounters>,
    /// By application.
    pub applications: Vec<ApplicationCounters>,
    /// Commands on rules that were refused, each with all that came in the same request.
    #[serde(default)]
    pub rule_texts_refused: u64,
}

impl CardCounters {
    /// Frames that all cores received from the ports.
    pub fn rx_frames(&self) -> u64 {
        self.cores.iter().map(|core| core.rx_frames).sum()
    }
}

/// What an application has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationCounters {
    /// Its name.
    pub name: String,
    /// Frames of its flows that its program has had.
    pub frames: u64,
    /// Frames of its flows that came while too many waited: it has used its share.
    pub missed: u64,
    /// Frames that its program dropped, and told nobody of.
    pub drops: u64,
    /// Frames that went no further, and of which its program has written an entry of a ring.
    pub reported: u64,
    /// Frames that could not go through its program: they end before a header that is taken off
    /// them, came round too often, have no room for headers, or were to be written where somebody
    /// else writes without end.
    pub faults: u64,
    /// Frames, and copies, that were to go by a port or to a queue that it has not, or for which
    /// its program would have reached outside of its memory.
    pub outside: u64,
    /// Frames that found a ring of the application full.
    pub ring_full: u64,
    /// Frames that it steered to a queue of another core, where too many of its own waited.
    pub queue_missed: u64,
    /// Frames, copies and answers that were to leave by a port, where too many of its own waited,
    /// or which was gone.
    pub tx_dropped: u64,
    /// Time that cores have worked for it, nanoseconds.
    pub busy_ns: u64,
}

/// What one core has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreCounters {
    /// Its number.
    pub core: u32,
    /// Frames that it received from its ports.
    #[serde(default)]
    pub rx_frames: u64,
    /// Frames that the function on it processed.
    pub frames: u64,
    /// Processor time that it has taken, nanoseconds.
    pub cpu_ns: u64,
    /// Time of turns in which there was something to do, nanoseconds: what of its time it needs.
    pub busy_ns: u64,
}

/// What became of the frames of a queue that another process serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalQueueCounters {
    /// The queue.
    pub queue: u16,
    /// A client serves it.
    pub is_there: bool,
    /// Frames that clients got.
    pub given_frames: u64,
    /// Frames that were dropped: no client was there, or it had no slot for them.
    pub dropped: u64,
    /// Frames that clients sent.
    pub taken_frames: u64,
    /// Refused requests of the last client.
    pub refused: u64,
    /// Why the last client has gone.
    pub ended: Option<String>,
}

/// What one port has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounters {
    /// Its name.
    pub name: String,
    /// It is there: frames come and go.
    pub is_up: bool,
    /// Frames received.
    pub rx_frames: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames that the port had no room for, as far as it tells.
    pub rx_missed: u64,
    /// Frames received whose TCP or UDP checksum is not whole: the sender left it to a card. As far
    /// as the port tells: AF_PACKET does, AF_XDP does not, and a TAP interface has none.
    pub rx_partial_checksums: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames for this port that were dropped: it had no room, or was gone.
    pub tx_dropped: u64,
    /// Frames that came by this port and that a rule dropped.
    pub rule_drops: u64,
    /// Frames that came by this port and that a program dropped and told nobody of, or for which it
    /// had no way out: a port or queue that is not there; copies for a port that is not there, too.
    pub program_drops: u64,
    /// Frames that came by this port and went no further, and of which a program has written an
    /// entry of a ring: who reads the ring has them.
    pub program_reported: u64,
    /// Frames that came by this port and could not go through the program: they end before a header
    /// that is taken off them, came round too often, have no room for headers, or would reach
    /// outside of the program's memory.
    pub program_faults: u64,
    /// Frames that came by this port and found a ring of the program full.
    pub program_ring_full: u64,
    /// Frames that came by this port, moved to another core by a change of RSS, and found no room
    /// among those that wait for the frames before them.
    pub held_drops: u64,
    /// Rules that the port has now.
    #[serde(default)]
    pub rules: u32,
    /// Rules that commands have created.
    #[serde(default)]
    pub rules_created: u64,
    /// Rules whose actions commands have changed.
    #[serde(default)]
    pub rules_updated: u64,
    /// Rules that commands have destroyed.
    #[serde(default)]
    pub rules_destroyed: u64,
    /// Its queues.
    pub queues: Vec<QueueCounters>,
    /// Those of them that other processes serve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_queues: Vec<ExternalQueueCounters>,
}

impl PortCounters {
    /// Frames that the port had no room for; `None` where the kind of port cannot tell. The kernel
    /// drops frames of a full TAP queue without reporting them.
    pub fn missed(&self) -> Option<u64> {
        matches!(self.kind(), "packet" | "pcap" | "xdp").then_some(self.rx_missed)
    }

    /// Frames received without a whole TCP or UDP checksum; `None` where the kind of port cannot
    /// tell. AF_PACKET marks them, and a TAP interface has none.
    pub fn partial_checksums(&self) -> Option<u64> {
        matches!(self.kind(), "packet" | "tap").then_some(self.rx_partial_checksums)
    }

    /// The kind of the port: the part of its name before the colon, such as `xdp`.
    pub fn kind(&self) -> &str {
        self.name.split_once(':').map_or("", |(kind, _)| kind)
    }
}

/// What one queue has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueCounters {
    /// The core that the function on it runs on, by its place among the card's.
    pub core: usize,
    /// Frames that it got.
    pub rx_frames: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames that found the ring to its core full.
    pub rx_missed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_does_not_know_what_its_kind_cannot_tell() {
        for (name, missed, partial) in [
            ("xdp:va", Some(7), None),
            ("packet:va", Some(7), Some(3)),
            ("tap:nic0", None, Some(3)),
            ("pcap:in=a.pcap", Some(7), None),
            ("memory", None, None),
        ] {
            let port = PortCounters {
                name: name.to_owned(),
                rx_missed: 7,
                rx_partial_checksums: 3,
                ..PortCounters::default()
            };
            assert_eq!((port.missed(), port.partial_checksums()), (missed, partial), "{name}");
        }
    }
}
