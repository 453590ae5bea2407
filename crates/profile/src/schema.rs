//! The schema of a profile: every section and key, with unit, range and meaning.

/// One number of a profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Name within its section; the unit stands last in it.
    pub name: &'static str,
    /// Unit, in the words of a table.
    pub unit: &'static str,
    /// Least value.
    pub least: f64,
    /// Greatest value.
    pub most: f64,
    /// What it is.
    pub text: &'static str,
}

impl Key {
    /// What it counts has no half.
    pub fn is_whole(&self) -> bool {
        matches!(self.unit, "rules" | "frames" | "ports" | "queues" | "generation" | "lanes")
    }
}

/// Numbers that belong to one part of a card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Section {
    /// Name in the file.
    pub name: &'static str,
    /// What it is.
    pub text: &'static str,
    /// `true` where a card may lack it (`"none"`).
    pub may_lack: bool,
    /// Its numbers.
    pub keys: &'static [Key],
}

/// The section of limits that tests put into a card; it may be left out.
pub const INJECTED: &str = "injected";

const NS_MAX: f64 = 60e9;
const RULES_MAX: f64 = 4_294_967_295.0;

const fn ns(name: &'static str, text: &'static str) -> Key {
    Key { name, unit: "ns", least: 0.0, most: NS_MAX, text }
}

const fn rules(name: &'static str, text: &'static str) -> Key {
    Key { name, unit: "rules", least: 1.0, most: RULES_MAX, text }
}

const fn frames(name: &'static str, text: &'static str) -> Key {
    Key { name, unit: "frames", least: 1.0, most: 1e9, text }
}

const fn queues(name: &'static str, text: &'static str) -> Key {
    Key { name, unit: "queues", least: 1.0, most: 65_535.0, text }
}

const fn share(name: &'static str, text: &'static str) -> Key {
    Key { name, unit: "1", least: 0.0, most: 1.0, text }
}

/// All sections, in the order of a packet's way, then of a rule's.
pub const SECTIONS: &[Section] = &[
    Section {
        name: "port",
        text: "the wire, and the FIFO between it and the classifier",
        may_lack: false,
        keys: &[
            Key {
                name: "rate_gbps",
                unit: "Gbps L1",
                least: 0.001,
                most: 10_000.0,
                text: "line rate",
            },
            Key {
                name: "frame_rate_max",
                unit: "pps",
                least: 1.0,
                most: 1e12,
                text: "most frames a second, however short",
            },
            frames(
                "fifo_frames",
                "frames that wait for the classifier; one that finds no room is lost",
            ),
        ],
    },
    Section {
        name: "root",
        text: "group 0",
        may_lack: false,
        keys: &[
            rules("rules_max", "rules that it takes, the default rule included"),
            ns("frame_ns", "time of a frame while the group is empty"),
            Key {
                name: "rule_ps",
                unit: "ps",
                least: 0.0,
                most: 1e12,
                text: "further time of a frame, a rule in the group",
            },
            rules("near_rules", "rules that fit the near memory"),
            ns("far_ns", "further time of a frame, a rule beyond the near memory"),
        ],
    },
    Section {
        name: "groups",
        text: "groups other than 0, each a chain of exact-match hash tables",
        may_lack: true,
        keys: &[
            rules("rules_max", "most rules of all of them that the source speaks of"),
            ns("table_ns", "time of a frame in a group with many rules"),
            rules("near_rules", "rules of a group at which 63 % of that time are reached"),
            ns("chain_ns", "further time, a million rules in the group: lists behind the buckets"),
        ],
    },
    Section {
        name: "pcie",
        text: "the bus to the host, and what DMA takes to move a frame there and back",
        may_lack: false,
        keys: &[
            Key {
                name: "generation",
                unit: "generation",
                least: 1.0,
                most: 5.0,
                text: "generation of PCI Express, each with its rate of a lane",
            },
            Key {
                name: "lanes",
                unit: "lanes",
                least: 1.0,
                most: 32.0,
                text: "lanes of the card: 1, 2, 4, 8, 16 or 32",
            },
            ns("frame_ns", "time of a frame, whatever its length: descriptors"),
            Key {
                name: "byte_ps",
                unit: "ps",
                least: 0.0,
                most: 1e9,
                text: "further time, a byte",
            },
        ],
    },
    Section {
        name: "host",
        text: "the core that polls the queues, and everything on the way that is no queue",
        may_lack: false,
        keys: &[
            ns("base_ns", "latency of a frame that waits for nothing"),
            ns("wait_ns", "longest time until the queue is polled; any time up to it is as likely"),
            ns("frame_ns", "time of the core for a frame"),
            frames("ring_frames", "descriptors of a receive queue"),
            frames("burst_frames", "frames taken from a queue at a time"),
        ],
    },
    Section {
        name: "queues",
        text: "several ports, queues and cores",
        may_lack: false,
        keys: &[
            Key {
                name: "ports",
                unit: "ports",
                least: 1.0,
                most: 64.0,
                text: "ports of the card, each with a wire and a FIFO of its own",
            },
            queues("queues_max", "most queues of a port that the source speaks of"),
            queues("near_queues", "queues of a port that take nothing from its frame rate"),
            ns("far_ns", "further time of a frame on the port, a queue beyond these"),
            ns("several_ns", "further time of the core for a frame of a port with several queues"),
            ns("serial_ns", "time of a frame on a core that receives for all others"),
        ],
    },
    Section {
        name: "driver",
        text: "what an operation on a rule costs by match and actions, whichever group it goes to",
        may_lack: false,
        keys: &[
            ns("ip_ns", "further time of a rule that matches IP addresses"),
            ns("ipv6_ns", "further time where they are IPv6"),
            ns("vlan_ns", "further time of a rule that matches a VLAN"),
            ns("tunnel_ns", "further time of a rule that looks into a tunnel"),
            ns("action_ns", "further time of each action behind the first"),
            ns("modify_ns", "further time of a rule that writes metadata or a tag"),
        ],
    },
    Section {
        name: "root_rules",
        text: "operations on rules of group 0",
        may_lack: false,
        keys: &[
            ns("create_ns", "to create a rule among many"),
            ns("first_ns", "to create the first one"),
            rules("warm_rules", "rules after which 63 % of the difference between them are gone"),
            ns("ipv4_ns", "further time of a rule that matches IPv4 addresses"),
            ns("far_ns", "further time of such a rule, a rule beyond the near memory"),
            ns("beside_ns", "time of an operation on the core that forwards"),
            ns("destroy_ns", "to destroy a rule"),
        ],
    },
    Section {
        name: "group_rules",
        text: "operations on rules of other groups",
        may_lack: true,
        keys: &[
            ns("create_ns", "to create a rule among many"),
            ns("first_ns", "to create the first one"),
            rules("warm_rules", "rules after which 63 % of the difference between them are gone"),
            rules("near_rules", "rules whose tables the host has in its caches"),
            ns("miss_ns", "further time of an operation in a far greater table"),
            ns("beside_ns", "time of an operation on the core that forwards"),
            ns("destroy_ns", "to destroy a rule"),
            ns("update_ns", "to change the actions of a rule in place"),
        ],
    },
    Section {
        name: "echo",
        text: "a message of 1,024 B to a server and back over UDP, and the programs on both sides",
        may_lack: false,
        keys: &[
            ns("client_ns", "software of a client on this side: program and kernel"),
            ns("server_ns", "software of a server on this side"),
            ns("peer_client_ns", "software of a client on the other side"),
            ns("peer_server_ns", "software of a server on the other side"),
            ns("hardware_ns", "all between the stacks of both, there and back"),
            Key {
                name: "byte_ps",
                unit: "ps",
                least: 0.0,
                most: 1e9,
                text: "further time there and back, a byte",
            },
        ],
    },
    Section {
        name: INJECTED,
        text: "limits that a test puts into a card; the section may be left out",
        may_lack: false,
        keys: &[
            Key {
                name: "rule_rate_max",
                unit: "rules/s",
                least: 1.0,
                most: 1e9,
                text: "most operations a second",
            },
            rules("cliff_rules", "rules of group 0 beyond which a frame takes ten times as long"),
            ns("gap_ns", "time for which neither the old nor the new version of a rule is met"),
            ns("stall_ns", "time for which a batch keeps every frame waiting, once"),
            ns("spike_ns", "further latency of some frames"),
            share("spike_ratio", "share of the frames that have it"),
            share("loss_ratio", "share of the frames lost, whichever they are"),
            share("skew_ratio", "share of the frames that land in queue 0 against their hash"),
            Key {
                name: "slow_queue_pps",
                unit: "pps",
                least: 1.0,
                most: 1e12,
                text: "most frames a second that a core takes from the last queue",
            },
            share(
                "noise_ratio",
                "by how much at most a trial's rates and times differ from the next's",
            ),
        ],
    },
];

/// A section by its name.
pub fn section(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name == name)
}

impl Section {
    /// A key of it by its name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}
