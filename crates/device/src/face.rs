//! What an experiment can ask of a device, and how it is refused.

use std::path::PathBuf;
use std::time::Duration;

use niclab_load::echo::{Echo, Echoed, Served};
use niclab_load::requests::{Requested, Requests};
use niclab_load::stream::{Received, Sent, Stream};
use niclab_load::{Control, Latency, Load, Observation};
use niclab_nic::rss::Rss;
use niclab_nic::rule::Action;
use niclab_packet::flow::FlowSpec;
use serde::{Deserialize, Serialize};

use crate::cases::Loaded;
use crate::feature::Feature;
use crate::plan::{Plan, RulesPlan};
use crate::serving::{Answered, Serving};
use crate::stack::Stack;
use crate::usage::CoreUse;

/// A device under test with its generator and its sink.
pub trait Testbed {
    /// What it is and what it can do.
    fn about(&self) -> &About;

    /// Brings the device into the state that `setup` describes, whatever state it was in.
    ///
    /// Refused rules are data and stand in the report; an error means that nothing can be measured.
    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError>;

    /// Carries a plan out from now on, without any load, to its end; what it created goes in the
    /// same way behind it ([`Control::destroyed`]), what it changed is put back. The times are of
    /// the calls: making their arguments is left out.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]; [`DeviceError::BadPlan`] for one that has no end without a
    /// load, or does not fit the set-up; [`DeviceError::Broken`].
    fn operate(&mut self, _plan: &RulesPlan) -> Result<Control, DeviceError> {
        Err(DeviceError::NotSupported { capability: "rules".to_owned() })
    }

    /// Lets a client and a server exchange messages over the stack of the kernel, and says what
    /// became of them. It needs no set-up.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `echo`, or a part of the exchange; [`DeviceError::BadLoad`];
    /// [`DeviceError::Absent`] where no server answers; [`DeviceError::Broken`].
    fn exchange(&mut self, _exchange: &Exchange) -> Result<Exchanged, DeviceError> {
        Err(DeviceError::NotSupported { capability: "echo".to_owned() })
    }

    /// Makes so many pairs of slices of an exchange, each as long as it says: one with probes that
    /// stamp its messages in the kernel, and one without.
    ///
    /// # Errors
    /// As of [`Testbed::exchange`]; [`DeviceError::NotSupported`]: `stamps`.
    fn ledger(&mut self, _exchange: &Exchange, _pairs: u32) -> Result<Ledgered, DeviceError> {
        Err(DeviceError::NotSupported { capability: "stamps".to_owned() })
    }

    /// Lets clients ask a server's program, and says what became of what they asked. It needs no
    /// set-up.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `applications`, the server's program, or a part of what is
    /// asked; [`DeviceError::BadLoad`]; [`DeviceError::Absent`] where no server answers;
    /// [`DeviceError::Broken`].
    fn apply(&mut self, _application: &Application) -> Result<Applied, DeviceError> {
        Err(DeviceError::NotSupported { capability: "applications".to_owned() })
    }

    /// Lets one host send bulk data to the other over the stack of the kernel, and says how much of
    /// it arrived. It needs no set-up.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `stream`, or more cores than there are;
    /// [`DeviceError::BadLoad`]; [`DeviceError::Broken`].
    fn stream(&mut self, _streaming: &Streaming) -> Result<Streamed, DeviceError> {
        Err(DeviceError::NotSupported { capability: "stream".to_owned() })
    }

    /// Lets packets that lie in memory through a program, on one core, again and again, and says
    /// what that took; it tells neither of latency nor of loss. It needs no set-up.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `programs`, or something of this one;
    /// [`DeviceError::BadLoad`] where a number of it is out of range; [`DeviceError::Broken`].
    fn process(&mut self, _processing: &Processing) -> Result<Processed, DeviceError> {
        Err(DeviceError::NotSupported { capability: "programs".to_owned() })
    }

    /// Lets a key-value store serve requests that lie in memory behind a card's queues, on so many
    /// cores at once, again and again, and says what that took; it tells neither of latency nor of
    /// loss. It needs no set-up.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `key-value store`, or more cores than there are;
    /// [`DeviceError::BadLoad`] where a number is out of range; [`DeviceError::Broken`].
    fn serve(&mut self, _serving: &Serving) -> Result<Answered, DeviceError> {
        Err(DeviceError::NotSupported { capability: "key-value store".to_owned() })
    }

    /// Offers `load` while the control side carries out `plan`, and says what was seen.
    fn run(&mut self, load: &Load, plan: &Plan) -> Result<Observation, DeviceError>;
}

/// What a device is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// As it was asked for: `soft`, `linux:veth`, `dpdk:--vdev=net_ring0`.
    pub name: String,
    /// Driver, firmware, queues, speed, …: name and value in reading order.
    pub facts: Vec<Fact>,
    /// What stands along the packets' way, from the generator to the sink.
    pub places: Vec<Place>,
    /// What stands there where frames come from memory ([`Placement::Staged`]); empty where they
    /// never do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub staged: Vec<Place>,
    /// What stands there where a card runs as a program does ([`Placement::Card`]); empty where
    /// none ever does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carded: Vec<Place>,
    /// What stands there where packets in memory go through a program ([`Testbed::process`]); empty
    /// where none do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programmed: Vec<Place>,
    /// What stands there where a key-value store serves requests in memory ([`Testbed::serve`]);
    /// empty where none does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub serving: Vec<Place>,
    /// Time that it takes to load a program the first time, where that is more than the little that
    /// any trial takes, milliseconds.
    #[serde(default, skip_serializing_if = "is_none")]
    pub program_load_ms: u32,
    /// What stands between a program on the one host and one on the other, where it can exchange
    /// messages ([`Testbed::exchange`]); empty where it cannot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Place>,
    /// Capabilities it lacks, by the names that [`DeviceError::NotSupported`] uses.
    pub not_supported: Vec<String>,
    /// Its trials take far less time than they tell of.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_virtual_time: bool,
    /// Line rate of a port, Gbps L1; `None` where it has none, or does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_gbps: Option<f64>,
}

/// One thing a device says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Such as `driver`.
    pub name: String,
    /// Such as `veth`.
    pub value: String,
}

/// A station of the packets' way, for the drawing of the testbed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// `generator`, `wire`, `device`, `function`, `sink`, `client` or `server`.
    pub role: String,
    /// What stands there.
    pub label: String,
    /// The core it has, where it runs on one.
    pub core: Option<u32>,
}

/// The state of a device before the load starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Rules, installed in this order.
    pub rules: Vec<RuleBlock>,
    /// Receive queues of each port; RSS spreads over them.
    pub queues: u16,
    /// Cores that poll them: queue `q` of port `p` is of core `(p * queues + q) % cores`.
    #[serde(default = "one")]
    pub cores: u16,
    /// Ports that frames come by, all alike.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub ports: u16,
    /// Which of the cores receive.
    #[serde(default, skip_serializing_if = "Receive::is_queues")]
    pub receive: Receive,
    /// What is done with the packets that reach a queue.
    pub function: Function,
    /// Where the device's own work runs (soft device only; others ignore it).
    pub placement: Placement,
    /// Longest frame that will be offered, bytes with FCS.
    pub frame_len_max: u16,
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

fn one() -> u16 {
    1
}

fn is_one(count: &u16) -> bool {
    *count == 1
}

impl Setup {
    /// Refuses several ports, and cores that do not receive: few devices have either.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `ports` or `serial receive`.
    pub fn check_plain(&self) -> Result<(), DeviceError> {
        let lacks =
            |capability: &str| Err(DeviceError::NotSupported { capability: capability.to_owned() });
        match (self.ports, self.receive) {
            (2.., _) => lacks("ports"),
            (_, Receive::Serial) => lacks("serial receive"),
            _ => Ok(()),
        }
    }
}

/// Which cores receive, where there are several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receive {
    /// All of them: each has queues of its own.
    #[default]
    Queues,
    /// One, which hands each frame to another: a card with a single queue, multiplied in software.
    Serial,
}

impl Receive {
    fn is_queues(&self) -> bool {
        *self == Receive::Queues
    }
}

/// Many rules of one kind, declared by what generates them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleBlock {
    /// One rule for every frame: `eth / end`.
    Any {
        /// Group it stands in.
        group: u32,
        /// Priority, 0 is highest.
        priority: u32,
        /// What it does.
        actions: Vec<Action>,
    },
    /// The rules of a file of `flow` commands, applied whole or not at all.
    File {
        /// The file.
        path: PathBuf,
        /// Rules that it creates.
        rules_count: u32,
    },
    /// `count` rules over a stack of headers, from rule `first` on.
    Stack {
        /// Group they stand in.
        group: u32,
        /// Priority, 0 is highest.
        priority: u32,
        /// What each of them matches.
        stack: Stack,
        /// First rule.
        first: u32,
        /// Number of rules.
        count: u32,
        /// What each of them does.
        actions: Vec<Action>,
    },
    /// `count` rules, one for each flow `first .. first + count` of `flows`: both addresses, the
    /// protocol and both ports exact.
    FiveTuples {
        /// Group they stand in.
        group: u32,
        /// Priority, 0 is highest.
        priority: u32,
        /// The flows; its `count` must reach `first + count`.
        flows: FlowSpec,
        /// First flow.
        first: u32,
        /// Number of rules.
        count: u32,
        /// What each of them does.
        actions: Vec<Action>,
    },
}

impl RuleBlock {
    /// Group, priority and actions of its rules; `None` where each has its own.
    pub fn place(&self) -> Option<(u32, u32, &[Action])> {
        match self {
            RuleBlock::Any { group, priority, actions }
            | RuleBlock::Stack { group, priority, actions, .. }
            | RuleBlock::FiveTuples { group, priority, actions, .. } => {
                Some((*group, *priority, actions))
            }
            RuleBlock::File { .. } => None,
        }
    }

    /// Rules that there are to be.
    pub fn count(&self) -> u32 {
        match self {
            RuleBlock::Any { .. } => 1,
            RuleBlock::File { rules_count, .. } => *rules_count,
            RuleBlock::Stack { count, .. } | RuleBlock::FiveTuples { count, .. } => *count,
        }
    }
}

/// A network function on the device's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// Swap the MAC addresses and send the frame back out of the port it came from.
    #[default]
    Forward,
}

impl Function {
    /// What it does with a frame, in the words of its box in a testbed's drawing.
    pub fn label(self) -> &'static str {
        match self {
            Function::Forward => "forward: swap MACs, send back",
        }
    }
}

/// Where the software NIC runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// On the core that polls the queue.
    #[default]
    Inline,
    /// On a core of its own.
    Engine,
    /// On all cores, with frames that were prepared in memory: shows what a frame takes and how
    /// that scales, and neither latency nor loss.
    Staged,
    /// On cores of its own as `niclab nic` runs it, which hand each other frames: for plans that
    /// change how these are spread.
    Card,
}

/// Messages that two hosts exchange.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// The host that the client is on; the server is on the other.
    pub client: Host,
    /// The network protocol.
    pub family: Family,
    /// Real-time priority of both, as far as they are ours to set: 1 to 99.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fifo: Option<u8>,
    /// What else stands in their path.
    #[serde(default, skip_serializing_if = "Feature::is_none")]
    pub feature: Feature,
    /// A ledger stamps inside the stacks too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deep: bool,
    /// A ledger has the stamps of sockets, and not those of probes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sockets: bool,
    /// What the client sends, and how both wait.
    pub echo: Echo,
}

/// One of two hosts on a wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Host {
    /// The one that niclab runs on; of a testbed in one machine, the first.
    #[default]
    Here,
    /// The other one.
    There,
}

/// Network protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// IPv4 (RFC 791).
    #[default]
    V4,
    /// IPv6 (RFC 8200).
    V6,
}

/// What [`Testbed::exchange`] saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchanged {
    /// What the client saw.
    pub echoed: Echoed,
    /// What the server counted, warm-up included; `None` where it is not ours to ask.
    pub served: Option<Served>,
}

/// What clients ask of a server's program on the other of two hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Application {
    /// The host of the clients; the server is on the other.
    pub client: Host,
    /// The network protocol.
    pub family: Family,
    /// Cores of the server, from 1; the clients have the others, one client a core, or share one
    /// where none is left.
    pub cores: u16,
    /// A ledger of the requests is asked for, too: some are made again behind the measured part,
    /// with probes and without.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stamps: bool,
    /// What all clients together ask. Its protocol says which program serves: memcached,
    /// redis-server, or a function over HTTP that sends back what it is sent.
    pub requests: Requests,
}

/// What [`Testbed::apply`] saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// What the clients saw.
    pub requested: Requested,
    /// What the clients' cores were busy with in the measured part.
    pub client: Vec<CoreUse>,
    /// What the server's were; empty where they are not ours to ask.
    pub server: Vec<CoreUse>,
    /// What went over the clients' interface in the measured part.
    pub link: Option<LinkUse>,
    /// What the machine consumed meanwhile.
    pub energy: Energy,
    /// Where the time of a request goes, or why nobody knows; `None` where it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Result<Ledgered, String>>,
}

/// What went over an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkUse {
    /// Bytes of frames without FCS that it sent.
    pub tx_bytes: u64,
    /// Bytes of frames without FCS that it received.
    pub rx_bytes: u64,
    /// Its speed, bits a second; `None` where it has none, as a veth pair.
    pub bits_per_s: Option<u64>,
}

/// Energy of a whole machine over a measured part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Energy {
    /// So much.
    Measured {
        /// Joules.
        joules: f64,
        /// Which meters: `package-0`, …
        meters: Vec<String>,
    },
    /// Nobody knows.
    Unknown {
        /// Why.
        why: String,
    },
}

impl Default for Energy {
    fn default() -> Energy {
        Energy::Unknown { why: "it was not asked for".to_owned() }
    }
}

/// Packets in memory that go through a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processing {
    /// The program, its tables and its packets.
    pub program: Loaded,
    /// Time that is measured, of the program alone, nanoseconds.
    pub duration_ns: u64,
    /// Time before it, never counted.
    pub warmup_ns: u64,
}

/// What [`Testbed::process`] saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processed {
    /// Packets of a pass: each goes through once, as it was before the first pass.
    pub packets: u64,
    /// Of these, those that did not leave in the first pass.
    pub lost: u64,
    /// Their bytes with FCS, before the program.
    pub bytes: u64,
    /// Packets of a stretch: a pass is timed stretch by stretch, for a machine that takes the core
    /// away for a moment spoils a stretch, and not a pass.
    pub stretch: u64,
    /// What each stretch took, nanoseconds.
    pub stretches_ns: Vec<u64>,
    /// What the first packets came to, where the program began anew: a number that is the same for
    /// two devices that send the same bytes by the same ports.
    pub digest: String,
    /// What a packet costs at worst, once through the program, as its text says.
    pub worst: Worst,
}

/// What a packet costs at worst, figure by figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worst {
    /// Instructions.
    pub instructions: u64,
    /// Look-ups in tables.
    pub lookups: u64,
    /// Bits of the keys that are looked up.
    pub key_bits: u64,
    /// Reads and writes of registers, and questions to meters.
    pub array_accesses: u64,
    /// Bytes of headers that are taken off, and put on.
    pub header_bytes: u64,
}

/// Bulk data from one host to the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Streaming {
    /// The host that sends.
    pub client: Host,
    /// What is sent. Each side has as many cores as it has threads, a thread on each.
    pub stream: Stream,
}

/// What [`Testbed::stream`] saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Streamed {
    /// What the sender did.
    pub sent: Sent,
    /// What the receiver got: this is what was carried.
    pub received: Received,
    /// What the sender's cores were busy with in the measured part, whoever's work it was. It is
    /// counted in ticks: see [`usage`](crate::usage).
    pub sender_cores: Vec<CoreUse>,
    /// And the receiver's.
    pub receiver_cores: Vec<CoreUse>,
}

/// What [`Testbed::ledger`] saw: where the time of a round trip goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledgered {
    /// Messages with all stamps, and those that lack one and are left out.
    pub messages: u64,
    /// As said.
    pub incomplete: u64,
    /// Median round trip of those with all stamps, nanoseconds.
    pub rtt_ns: f64,
    /// What of it no term has, as a share; negative where they have more.
    pub residue_ratio: f64,
    /// The terms.
    pub terms: Vec<TermShown>,
    /// The parts of the stacks, where they were stamped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<PartsShown>,
    /// Round trips of the slices with probes.
    pub with: Latency,
    /// Those of the slices without.
    pub without: Latency,
    /// Median round trip of each pair of slices, with probes and without, nanoseconds.
    pub pairs: Vec<[u64; 2]>,
    /// Stamps that a message gets on its way there and back in slices with probes alone.
    pub stamps: u32,
    /// They travel in the message; else in tables of the kernel.
    pub in_payload: bool,
    /// The kernel took its stamps for the sockets (`SO_TIMESTAMPING`), and why probes did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_sockets: Option<String>,
}

/// The parts of a round trip inside the stacks: those of the request, the server's program, and
/// those of the reply. They add up to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartsShown {
    /// Messages with all stamps, and those that lack one and are left out.
    pub messages: u64,
    /// As said.
    pub incomplete: u64,
    /// The parts: `request_stack_send` … `request_socket_receive`, `reply_…`
    /// ([`niclab_probe::parts::NAMES`]).
    pub parts: Vec<TermShown>,
    /// What of the median round trip no part has, the server's program aside, as a share.
    pub residue_ratio: f64,
}

/// One term of a round trip.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TermShown {
    /// `client_transmit`, `server_receive`, `application`, `server_transmit`, `client_receive` or
    /// `hardware`; where nothing else is known, `client_software` and `server_software` in place of
    /// what they are the sums of.
    pub name: String,
    /// Mean over the messages whose round trip is in the middle tenth, nanoseconds: these add up.
    pub mean_ns: f64,
    /// Median over all messages, nanoseconds.
    pub median_ns: f64,
    /// 99th percentile over all messages, nanoseconds.
    pub tail_ns: f64,
    /// The core that it ended on most often.
    pub core: Option<u16>,
    /// In which share of the messages.
    pub core_share: f64,
}

/// What [`Testbed::setup`] did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SetupReport {
    /// Rules that are in effect.
    pub rules_installed: u64,
    /// Rules that the device refused.
    pub rules_refused: u64,
    /// What it said of the first of them.
    pub refusal: Option<String>,
    /// Time spent in rule operations.
    pub install: Duration,
    /// Memory the rules take, bytes; `None` where the device does not tell.
    pub rule_bytes: Option<u64>,
    /// How it says that it spreads packets that no rule decides about; `None` where it does not
    /// tell. A table of fewer entries stands in it over and over; one of more than
    /// [`INDIRECTION_LEN`](niclab_nic::limits::INDIRECTION_LEN) cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss: Option<Rss>,
}

/// Why a device could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceError {
    /// A result: the experiment goes on without it.
    #[error("not supported: {capability}")]
    NotSupported {
        /// `rules`, `latency`, `counters`, `queues`, …
        capability: String,
    },
    /// The text that names the device cannot be read.
    #[error("device `{text}`: {reason}")]
    BadName {
        /// What was given.
        text: String,
        /// What is wrong with it and what would be right.
        reason: String,
    },
    /// There is no such thing here.
    #[error("{what} not found: {remedy}")]
    Absent {
        /// The interface, library or program.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// The user may not do this.
    #[error("{what} needs more rights: {remedy}")]
    Rights {
        /// What was refused.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// The machine is too small.
    #[error("{device} needs {needed} cores, this process may use {available}: {remedy}")]
    Cores {
        /// The device.
        device: String,
        /// How many it needs.
        needed: u32,
        /// How many there are.
        available: u32,
        /// What to do.
        remedy: String,
    },
    /// The load cannot be generated as declared.
    #[error("load: {reason}")]
    BadLoad {
        /// The field and what would be right.
        reason: String,
    },
    /// The plan cannot be carried out as declared.
    #[error("plan: {reason}")]
    BadPlan {
        /// The field and what would be right.
        reason: String,
    },
    /// The device stopped working.
    #[error("{device} failed: {reason}")]
    Broken {
        /// The device.
        device: String,
        /// What was seen.
        reason: String,
    },
}
