//! The arguments of the command line.

mod analytics;
mod ctl;
mod ctl_help;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use niclab_card::{ExternalQueueConfig, PortName};
use niclab_device::echo::{Receive, Transport};
use niclab_lab::placement::{Cpu, CpuPath, UnknownLabel};
use niclab_lab::published::PublishedCard;
use niclab_lab::variants::{TIMEOUT_S_MAX, Variant};
use niclab_nic::rule::item::Item;

use crate::kvs::Bytes;
use crate::metrics;
pub use analytics::{
    AnalyticsArguments, AnalyticsCommand, GeneratorArguments, SendArguments, TupleInput, TupleMode,
};
pub use ctl::{
    CtlApplicationCommand, CtlArguments, CtlCommand, CtlProgramCommand, CtlTablesCommand,
    TableWords,
};

/// Tells the truth about a network card, and gives you one you can program.
#[derive(Debug, Parser)]
#[command(name = "niclab", version, max_term_width = 100, after_long_help = EXIT_CODES)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

/// The exit codes of `failure`, for the help page.
const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    something else went wrong, such as a full disk behind the output
  2    the command line cannot be understood
  3    an experiment, a value, a trace, a program, its test or a file of rules cannot be used
  4    a result directory cannot be used
  5    a device is unknown, none could be opened, or a port of `nic`, `analytics` or `ids run`
       could not be
  6    a run or `measure` came to its end and has measured nothing, or, with variants, no
       device under two of them; `conform` could not try a device, or nothing of it is right
  7    `rules check --strict` has found rules to fix, and every file could be used
  8    `compare` has found a regression
  9    `serve`, `kvs`, `analytics` or `--metrics` cannot have its address, or the server of
       `measure`, the card of `nic ctl` or the other end of `analytics` is not there or went away
  10   a packet test of `program test` did not hold
  11   `conform` found a device that accepts rules and does something else
  12   `fleet` found outliers: cards that are unlike the others
  13   `fleet` found no outlier, but could compare nothing, or left sources out
  130  `run` was stopped by Ctrl-C or SIGTERM; what was measured is kept

Ctrl-C and SIGTERM are how `nic`, `kvs`, `analytics`, `ids run` and `serve` end: with 0. A second
one ends these and `run` at once, with 130. Other commands end by the signal itself.";

const RUN_EXAMPLES: &str = "\
Examples:
  niclab run
      seven questions, an experiment each, in four minutes
  niclab run --all
      all experiments on every default device this machine has, in a quarter of an hour
  niclab run occupancy --device soft --set groups=0 --set rules=0,1k,64k -o first
      one device, three places, into the directory `first`
  niclab run --resume first
      what is missing there after Ctrl-C or a crash
  niclab run frame-size --device linux:eth0,eth1 --variant now='ethtool -C eth1 rx-usecs 0' \\
      --variant late='ethtool -C eth1 rx-usecs 50'
      which of two settings of the measured interface, eth1, is faster, in trials that alternate

Ctrl-C ends the run after the trial that is under way and writes the report of what was measured;
a second Ctrl-C ends it at once. Either way nothing that was finished is lost.";

const CONFORM_EXAMPLES: &str = "\
Examples:
  niclab conform
      niclab's own card, in a few seconds
  niclab conform --device dpdk:--vdev=net_tap0 -o tap
      a DPDK port, as root; tap/report.html has the smallest case of each fault
  niclab conform --device linux-tc:veth --items eth,ipv4,udp
      filters of the kernel, and patterns of three items
  niclab compare before after
      what a new driver or firmware changed";

const COMPARE_EXAMPLES: &str = "\
Examples:
  niclab compare before after
      two runs; exit code 8 where a point got worse by more than 5 %
  niclab compare before again after --tolerance 3%
      how far two runs of the same differ, beside what the change did
  niclab compare run
      the devices of one run, its first one being the baseline
  niclab compare before after --github | gh pr comment 12 --body-file -
      what changed, as a comment on pull request 12

A point is worse or better where the whole 95 % interval of the ratio to the baseline lies beyond
the tolerance. What the generator or the machine may have set decides nothing.";

const EXPORT_EXAMPLES: &str = "\
Examples:
  niclab export run --csv
      a line a sample, for a spreadsheet
  niclab export host1 host2 host3 --rows -o fleet.parquet
      a row a metric, for DuckDB, pandas and `niclab fleet`
  niclab export run --textfile /var/lib/node_exporter/textfile_collector
      the medians, for Prometheus
  niclab export run --bencher | bencher run --adapter json
      the medians, for Bencher";

const FLEET_EXAMPLES: &str = "\
Examples:
  niclab fleet results -o outliers
      all result directories in `results`; outliers/report.html is the page
  niclab fleet monday.parquet tuesday.parquet
      rows that `niclab export --rows` wrote

Cards are equal if device kind and driver are the same. At least five of them, with three repeats
each, are needed to find an outlier.";

const IDS_CHECK_EXAMPLES: &str = "\
Examples:
  niclab ids check --rules suricata.rules
      the share of the rules that the engine supports, and each keyword that it lacks
  niclab ids check --rules *.rules --json | jq -r '.lacks[] | [.rules, .name] | @tsv'

Rules with variables such as $HOME_NET need --config, or /etc/suricata/suricata.yaml.";

const ANALYTICS_EXAMPLES: &str = "\
Examples:
  niclab analytics --input generator
      a million generated tuples, and the ten most frequent keys of each window of 10 s
  niclab analytics --input json:tuples.jsonl --length-ms 60000 --slide-ms 10000 --top 3
      tuples of a file, a line each: {\"stream\": 0, \"key\": 42, \"time_ns\": 1500000000}
  niclab analytics --input udp:192.0.2.7:9770 --cores 0,1 --live
      tuples over UDP, counted on two cores; the latest window on the terminal
  niclab analytics send --to 192.0.2.7 --source 1
      generated tuples to that one, until all of them are safe

Counts are exact: a tuple that the network lost is sent again, and counted once.";

const PARTITION_EXAMPLES: &str = "\
Examples:
  niclab ids partition --rules suricata.rules --cores 2 -o parts
      parts/core-0.rules, parts/core-1.rules and the page parts/report.html
  niclab ids partition --rules local.rules --cores 4 --trace monday.pcap -o parts
      the same, weighed by the packets of a trace

Rules with variables such as $HOME_NET need --config, or /etc/suricata/suricata.yaml.";

const IDS_RUN_EXAMPLES: &str = "\
Examples:
  niclab ids run --rules suricata.rules --cores 3 --port xdp:eth0 -o alerts
      watches an interface; the events are in alerts/eve.json
  niclab ids run --rules local.rules --cores 2 --port pcap:in=monday.pcap,speed=max -o monday
      reads a trace as fast as the engines can";

const MERGE_EXAMPLES: &str = "\
Examples:
  niclab run echo-size --device peer:192.0.2.7 --where host --there peer --path on -o host
  niclab run echo-size --device peer:192.0.2.7 --where snic --there peer --path on -o snic
      once on the host and once on its SmartNIC, against the same server
  niclab merge host snic -o both
      both beside each other and beside the published cards, with a report of its own

Only experiments on round trips are merged. The directories are not changed.";

const NIC_EXAMPLES: &str = "\
Examples:
  niclab nic --port xdp:veth0 --port tap:nic0 --queues 4 --cores 0,1 --rules rules.flow
      veth0 on one side and a new interface nic0 on the other, four queues on two cores
  install -d /run/niclab && niclab nic --port tap:nic0 --control /run/niclab/card.sock
      and from another terminal (only who started the card may; a group by --control-group):
  niclab nic ctl --control /run/niclab/card.sock counters
  niclab nic top --control /run/niclab/card.sock
  niclab nic ctl --control /run/niclab/card.sock flow create 0 ingress pattern ipv4 / end \
      actions drop / end

It needs root. The other end of a veth pair must compute checksums: ethtool -K veth1 tx off.";

const TOP_HELP: &str = "\
Keys:
  q           quit
  p           pause
  s           sort rules by hits a second, by hits, or by number
  left, right choose a table
  up, down    scroll it; also page up, page down, home and end

Bits a second are of layer 2, without FCS. DROPS/s are packets that the card dropped, MISSED/s those
that the port had no room for. `not known` stands for a value that the card cannot know: a TAP
interface does not report what it missed, and a rule has hits only with the action `count`.";

const KVS_EXAMPLES: &str = "\
Examples:
  niclab kvs
      on one core, for clients on this machine: 127.0.0.1:11211, TCP and UDP
  niclab kvs --listen 192.0.2.7 --cores 0,1 --memory 4GiB --connections 10000
      for a network, on two cores; UDP only where `--udp on` is given
  niclab kvs -d -l 192.0.2.7 -p 11211 -U 0 -m 4096 -t 2 -c 10000
      the same in the background, in the words of memcached
  niclab kvs --mode steer --port tap:kvs0 --address 10.9.0.2/24 --cores 0,1
      UDP by a card, at an address of its own; the system's side of it is the interface kvs0:
      ip address add 10.9.0.1/24 dev kvs0 && ip link set kvs0 up";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say how a modelled card would carry a workload, and which limit binds first
    Advise {
        /// A modelled card, `model:PROFILE`
        #[arg(long, value_name = "DEVICE")]
        device: String,
        /// TOML file: rules, what they match, new ones a second, frames, rate, cores
        #[arg(long, value_name = "FILE")]
        workload: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Measure devices of this host for a niclab on another one, which starts it
    ///
    /// It answers requests on standard input with lines of JSON on standard output, and ends with
    /// its input. `--device ssh://HOST=DEVICE` starts it on that host.
    Agent,
    /// Count tuples by key in sliding windows, and write the most frequent keys of each window
    ///
    /// Tuples come over UDP, as lines of JSON or from a generator. A window's result is written
    /// when every source has passed its end.
    #[command(after_long_help = ANALYTICS_EXAMPLES)]
    Analytics(AnalyticsArguments),
    /// Say what differs between runs or devices, the first one being the baseline
    #[command(after_long_help = COMPARE_EXAMPLES)]
    Compare(CompareArguments),
    /// Try whether devices do what their rules say, frame by frame
    ///
    /// Rules and frames are generated from a seed. A matrix says of each item, with each form of
    /// mask and each action, whether the device does it right, refuses it, or accepts it and does
    /// something else. The exit code is 11 for the last.
    #[command(after_long_help = CONFORM_EXAMPLES)]
    Conform(ConformArguments),
    /// Print the completions of a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Say which cards and devices can be measured here, and what on this machine would disturb it
    Doctor {
        /// Check a testbed of two hosts instead: the port that offers the load, as `run` takes it
        #[arg(long, value_name = "HOST=PORT", requires = "device")]
        tester: Option<String>,
        /// The other end of its cable; given again, each is tried
        #[arg(long, value_name = "HOST=PORT")]
        device: Vec<String>,
        /// Copy this program to the other hosts for the time of the check
        #[arg(long, requires = "device")]
        deploy: bool,
        /// Put in order what killed measurements left at interfaces, and nothing else; needs root
        #[arg(long, conflicts_with_all = ["json", "device"])]
        clean: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write results in another format
    #[command(after_long_help = EXPORT_EXAMPLES)]
    Export(ExportArguments),
    /// Find outliers: hosts and cards that are unlike the others
    ///
    /// Each card is compared with equal cards of all hosts, in every figure that was measured of
    /// them. The exit code is 12 if there is an outlier. Without one it is 13 if no
    /// group of equal cards could be compared or a source was left out.
    #[command(after_long_help = FLEET_EXAMPLES)]
    Fleet(FleetArguments),
    /// Distribute rules of Suricata over cores
    Ids {
        /// The command
        #[command(subcommand)]
        command: IdsCommand,
    },
    /// Serve a key-value store to memcached's clients, until it is stopped
    ///
    /// It speaks memcached's text, meta and binary protocols. Items are kept in memory alone; the
    /// oldest that nobody reads make room for new ones.
    #[command(after_long_help = KVS_EXAMPLES)]
    Kvs(KvsArguments),
    /// List the experiments, their axes and the devices
    List {
        /// Print the TOML of this experiment instead, to copy and change
        experiment: Option<String>,
        /// Print JSON
        #[arg(long, conflicts_with = "experiment")]
        json: bool,
    },
    /// Make one result of several with round trips, measured on different hosts or from different
    /// places
    #[command(after_long_help = MERGE_EXAMPLES)]
    Merge(MergeArguments),
    /// Print the manual page, for `niclab man | man -l -`
    Man,
    /// Measure one thing at once and print it, without a result directory
    Measure {
        /// What
        #[command(subcommand)]
        command: MeasureCommand,
    },
    /// Run the software card between ports, until it is stopped
    ///
    /// Frames that come by the first port leave by the second and the other way round; with one
    /// port they go back where they came from, with the MAC addresses swapped. In between stand the
    /// rules and queues of the port that they came by.
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    #[command(after_long_help = NIC_EXAMPLES)]
    Nic(NicArguments),
    /// Write report.html of a run again, from its samples
    Report {
        /// Result directory, as `niclab run` printed it
        directory: PathBuf,
        /// Compare with an earlier run: the report lists what changed and draws both runs
        #[arg(long, value_name = "DIR")]
        baseline: Option<PathBuf>,
    },
    /// Read, write and fit profiles of modelled cards (devices `model:PROFILE`)
    Profile {
        /// What to do with them
        #[command(subcommand)]
        command: ProfileCommand,
    },
    /// Read programs of the card, the assembly that P4's compiler emits for DPDK, and test them
    Program {
        /// What to do with them
        #[command(subcommand)]
        command: ProgramCommand,
    },
    /// Read rules as text, as testpmd's `flow` commands write them
    Rules {
        /// What to do with them
        #[command(subcommand)]
        command: RulesCommand,
    },
    /// Measure devices, and write a result directory with a report
    #[command(after_long_help = RUN_EXAMPLES)]
    Run(RunArguments),
    /// Be the other side of a measurement
    Serve {
        /// What to serve
        #[command(subcommand)]
        command: ServeCommand,
    },
    /// Print the findings and figures of a run as tables
    Show {
        /// Result directory, as `niclab run` printed it
        directory: PathBuf,
        /// Print the summary as JSON, as `summary.json` has it
        #[arg(long)]
        json: bool,
    },
}

/// The commands of `niclab program`.
#[derive(Debug, Subcommand)]
pub enum ProgramCommand {
    /// Read programs, and say what each costs a packet at worst
    ///
    /// Warnings say what in a program is surely not meant; they do not make it fail.
    Check {
        /// Files of programs
        #[arg(required = true)]
        programs: Vec<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a program as it is understood
    Dump {
        /// File of a program
        program: PathBuf,
    },
    /// Print a program that `program-cost` measures
    ///
    /// --count is the number of `headers`, of tables (`exact`, `lpm`, `wildcard`), or of
    /// instructions in an action (`moves`, `adds`, `checksums`, `registers`).
    Make {
        /// Its name, as the experiment's axis `program` has it
        program: String,
        /// Headers, tables in a row, or instructions
        #[arg(long, value_name = "N", default_value_t = 1)]
        count: u32,
        /// Entries of a table [default: the most, up to 1024]
        #[arg(long, value_name = "N")]
        entries: Option<u32>,
    },
    /// Carry a packet test out, by the definition and by the fast path
    ///
    /// The test is written in the STF format of P4's compilers.
    Test {
        /// File of the test
        test: PathBuf,
        /// File of the program
        program: PathBuf,
    },
}

/// The commands of `niclab measure`.
#[derive(Debug, Subcommand)]
pub enum MeasureCommand {
    /// Send messages to an echo server and say how long they take there and back
    ///
    /// Without --server it makes two hosts in this machine, joined by a veth pair, and measures
    /// between them; that needs root.
    Echo(MeasureEchoArguments),
}

/// The commands of `niclab serve`.
#[derive(Debug, Subcommand)]
pub enum ServeCommand {
    /// Send messages of `niclab measure echo` back to where they came from, until it is stopped
    ///
    /// It answers its own messages only, each once and with as many bytes as it has.
    Echo(ServeEchoArguments),
}

/// Arguments of `niclab measure echo`.
#[derive(Args, Debug)]
pub struct MeasureEchoArguments {
    /// Where `niclab serve echo` runs, such as 192.0.2.7, `[2001:db8::7]:17007`, fe80::7%eth0 or a
    /// name; the port may be left out
    #[arg(long, value_name = "ADDRESS")]
    pub server: Option<String>,
    /// udp or tcp
    #[arg(long, value_name = "NAME", default_value = "udp")]
    pub transport: Transport,
    /// Length of a message, bytes of payload: 16 to 65507
    #[arg(long, value_name = "BYTES", default_value = "64")]
    pub size: u16,
    /// Messages sent together, and received together at most: 1 to 1024
    #[arg(long, value_name = "N", default_value = "1")]
    pub batch: u16,
    /// How to wait for what comes: blocking, busy-poll, epoll, or io-uring
    #[arg(long, value_name = "WAY", default_value = "blocking")]
    pub receive: Receive,
    /// Messages a second, whatever has come back [default: the next batch when the last is back]
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Measured part, milliseconds
    #[arg(long, value_name = "MS", default_value = "1000",
          value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub duration_ms: u64,
    /// Part before it that is never counted, milliseconds
    #[arg(long, value_name = "MS", default_value = "200",
          value_parser = clap::value_parser!(u64).range(0..=600_000))]
    pub warmup_ms: u64,
    /// Over IPv6, where both hosts are in this machine
    #[arg(long, conflicts_with = "server")]
    pub ipv6: bool,
    /// The client on the second host and the server on the first, where both are in this machine
    #[arg(long, conflicts_with = "server")]
    pub reverse: bool,
    /// Core of the client
    #[arg(long, value_name = "N", requires = "server")]
    pub core: Option<u32>,
    /// Real-time priority (SCHED_FIFO) of the client, and of a server in this machine
    #[arg(long, value_name = "1-99", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub fifo: Option<u8>,
    /// Turn interrupt coalescing off meanwhile at the interface toward the server; needs root
    #[arg(long, requires = "server")]
    pub tune: bool,
    /// One JSON document, times in nanoseconds
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `niclab serve echo`.
#[derive(Args, Debug)]
pub struct ServeEchoArguments {
    /// Address to listen at; 0.0.0.0 or `[::]` means all addresses; the port is optional; a
    /// link-local address names its interface, as in fe80::7%eth0
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub bind: String,
    /// udp or tcp alone [default: both]
    #[arg(long, value_name = "NAME")]
    pub transport: Option<Transport>,
    /// Messages received together at most, 1 to 1024
    #[arg(long, value_name = "N", default_value = "1024",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub batch: u16,
    /// How to wait for what comes: blocking, busy-poll, epoll, or io-uring
    #[arg(long, value_name = "WAY", default_value = "blocking")]
    pub receive: Receive,
    /// Close connections that were idle for this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "60",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub idle_timeout: u64,
    /// Core of the server
    #[arg(long, value_name = "N")]
    pub core: Option<u32>,
    /// Real-time priority (SCHED_FIFO)
    #[arg(long, value_name = "1-99", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub fifo: Option<u8>,
    /// Turn interrupt coalescing off meanwhile at the interface with this address; needs root
    #[arg(long)]
    pub tune: bool,
    /// Stamp messages as they pass that interface, for a breakdown of the client's; needs root
    #[arg(long)]
    pub stamps: bool,
}

/// Arguments of `niclab kvs`.
#[derive(Args, Debug)]
pub struct KvsArguments {
    /// Receive UDP by the system's sockets (kernel), or by a niclab card that spreads clients over
    /// the cores (rss), gives each core the requests for its own keys (steer), or parses requests
    /// and writes items itself (dma)
    #[arg(long, value_name = "HOW", default_value = "kernel")]
    pub mode: KvsMode,
    /// The card's port: xdp:INTERFACE, packet:INTERFACE or tap:INTERFACE; for all modes but
    /// kernel
    #[arg(long, value_name = "PORT", required_if_eq_any = CARD_MODES)]
    pub port: Option<PortName>,
    /// The store's own address at that port and the bits of its network, such as 10.9.0.2/24; for
    /// all modes but kernel
    #[arg(long, value_name = "ADDRESS/BITS", required_if_eq_any = CARD_MODES)]
    pub address: Option<String>,
    /// Control socket of the card, for `niclab nic ctl`; for all modes but kernel
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Group whose members may use the socket of --control too, by name or number
    #[arg(long, value_name = "NAME", requires = "control")]
    pub control_group: Option<String>,
    /// How a core of the card learns that a frame has come, as for `niclab nic`; for all modes but
    /// kernel [default: interrupt]
    #[arg(long, value_name = "HOW", value_parser = card_receives())]
    pub receive: Option<niclab_card::Receive>,
    /// Address to listen at; 0.0.0.0 or `[::]` means all addresses; the port is optional
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub listen: String,
    /// Port of TCP, where --listen has none [default: 11211, or the port of --udp]
    #[arg(short = 'p', long, value_name = "N", value_parser = tcp_port)]
    pub tcp_port: Option<u16>,
    /// UDP: on (at the port of TCP), off, or a port; 0 is off [default: on at a loopback address,
    /// and off at others, where a forged request directs the answer to another host]
    #[arg(short = 'U', long, value_name = "HOW")]
    pub udp: Option<UdpChoice>,
    /// Cores, a thread on each [default: the first that may be used]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub cores: Vec<u32>,
    /// Threads, on the cores that may be used in turn, in place of --cores
    #[arg(short, long, value_name = "N", conflicts_with = "cores",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// Memory for items and their index; 256 KiB at least for each core, with dma 2336 KiB
    #[arg(long, value_name = "BYTES", default_value = "64MiB")]
    pub memory: Bytes,
    /// The same in MiB, as memcached has it: `-m 64` is `--memory 64MiB`
    #[arg(short = 'm', value_name = "MIB", conflicts_with = "memory",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub memory_mib: Option<u32>,
    /// Largest number of open connections; a further client gets an error and is disconnected
    #[arg(short, long, value_name = "N", default_value = "1024", value_parser = connections())]
    pub connections: usize,
    /// Run in the background: return once the store listens
    #[arg(short, long)]
    pub daemon: bool,
    /// Close connections without input for this many seconds [default: never]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub idle_timeout: Option<u64>,
    /// Memory for incomplete requests and unread answers, of all connections; a connection that
    /// needs more is closed
    #[arg(long, value_name = "BYTES", default_value = "64MiB")]
    pub buffers: Bytes,
    /// Serve the counters to Prometheus at http://ADDRESS:PORT/metrics; a port alone is at
    /// 127.0.0.1
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics::address)]
    pub metrics: Option<SocketAddr>,
}

/// Modes of `niclab kvs` that need a card.
const CARD_MODES: [(&str, &str); 3] = [("mode", "rss"), ("mode", "steer"), ("mode", "dma")];

/// How `niclab kvs` receives UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KvsMode {
    /// Sockets of the system
    Kernel,
    /// A card that spreads clients over the cores; any core serves any key
    Rss,
    /// A card that gives each core the requests for its own keys
    Steer,
    /// A card that writes items and answers itself, and reports requests to each core
    Dma,
}

/// Whether and where `niclab kvs` serves UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpChoice {
    /// At the port of TCP.
    On,
    /// Nowhere.
    Off,
    /// At this port.
    At(u16),
}

impl FromStr for UdpChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<UdpChoice, &'static str> {
        match text {
            "on" => Ok(UdpChoice::On),
            "off" => Ok(UdpChoice::Off),
            text => match text.parse() {
                Ok(0) => Ok(UdpChoice::Off),
                Ok(port) => Ok(UdpChoice::At(port)),
                Err(_) => Err("write on, off or a port up to 65535"),
            },
        }
    }
}

/// A port of TCP for `niclab kvs`.
fn tcp_port(text: &str) -> Result<u16, &'static str> {
    match text.parse() {
        Ok(0) => Err("the store always serves TCP; write a port from 1 to 65535"),
        port => port.map_err(|_| "write a port from 1 to 65535"),
    }
}

/// Arguments of `niclab nic`.
#[derive(Args, Debug)]
pub struct NicArguments {
    /// What to do with a card that runs
    #[command(subcommand)]
    pub command: Option<NicCommand>,
    /// A port: xdp:INTERFACE, packet:INTERFACE, tap:INTERFACE, or packet traces,
    /// pcap:in=FILE,out=FILE,speed=N; frames of the first leave by the second, those of the
    /// third by the fourth
    #[arg(long = "port", value_name = "PORT", required = true)]
    pub ports: Vec<PortName>,
    /// Queues of each port, which RSS spreads over
    #[arg(long, value_name = "N", default_value = "1",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub queues: u16,
    /// Cores, each with a queue of each interface [default: the first that may be used]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub cores: Vec<u32>,
    /// How a core learns that a frame has come: it looks all the time (busy-poll), or sleeps until
    /// the system wakes it (interrupt), which leaves the core to others while nothing comes
    #[arg(long, value_name = "HOW", default_value = "busy-poll", value_parser = card_receives())]
    pub receive: niclab_card::Receive,
    /// What is done where a core is near its limit or a queue fills: flows move to other queues
    /// (moves), and only as many cores are in use as the load needs (save-cores); or the next key
    /// of a file of keys in hexadecimal digits, one a line, is taken (keys=FILE)
    #[arg(long, value_name = "HOW")]
    pub balance: Option<BalanceBy>,
    /// A queue that another process serves: it connects to this Unix socket; give one for each
    #[arg(long = "external-queue", value_name = "PORT.QUEUE=PATH", value_parser = external_queue)]
    pub external_queues: Vec<ExternalQueueConfig>,
    /// File of `flow` commands, carried out before the first frame
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// File of a program, which decides about frames in place of rules and RSS
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rules", "balance"])]
    pub program: Option<PathBuf>,
    /// File of the program's tables, in JSON
    #[arg(long, value_name = "FILE", requires = "program")]
    pub tables: Option<PathBuf>,
    /// File of an application, in JSON: its program, and the flows, ports, queues and memory that
    /// it owns; give one for each
    #[arg(long = "application", value_name = "FILE")]
    pub applications: Vec<PathBuf>,
    /// Control socket for `niclab nic ctl`; only the user who starts the card may use it
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Group whose members may use the socket of --control too, by name or number
    #[arg(long, value_name = "NAME", requires = "control")]
    pub control_group: Option<String>,
    /// Serve the counters to Prometheus at http://ADDRESS:PORT/metrics; a port alone is at
    /// 127.0.0.1
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics::address)]
    pub metrics: Option<SocketAddr>,
    /// Stop after this many seconds
    #[arg(long, value_name = "N")]
    pub seconds: Option<u64>,
    /// Print a JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// A queue for another process, as `PORT.QUEUE=PATH`.
fn external_queue(text: &str) -> Result<ExternalQueueConfig, &'static str> {
    let read = || {
        let (place, path) = text.split_once('=').filter(|(_, path)| !path.is_empty())?;
        let (port, queue) = place.split_once('.')?;
        Some(ExternalQueueConfig {
            port: port.parse().ok()?,
            queue: queue.parse().ok()?,
            path: path.into(),
        })
    };
    read().ok_or("write PORT.QUEUE=PATH, such as 0.3=/run/niclab/queue.sock")
}

/// The reaction of `niclab nic` to a queue that fills.
#[derive(Clone, Debug)]
pub enum BalanceBy {
    /// The keys of this file.
    Keys(PathBuf),
    /// Entries of the table move.
    Moves {
        /// And cores are saved.
        save_cores: bool,
    },
}

impl FromStr for BalanceBy {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<BalanceBy, &'static str> {
        match text.split_once('=') {
            None if text == "moves" => Ok(BalanceBy::Moves { save_cores: false }),
            None if text == "save-cores" => Ok(BalanceBy::Moves { save_cores: true }),
            Some(("keys", file)) if !file.is_empty() => Ok(BalanceBy::Keys(file.into())),
            _ => Err("write moves, save-cores or keys=FILE"),
        }
    }
}

/// The commands of `niclab nic`.
#[derive(Debug, Subcommand)]
pub enum NicCommand {
    /// Read from a running card, or change it
    #[command(help_template = ctl_help::template())]
    Ctl(CtlArguments),
    /// Watch a running card: ports, queues, cores and rules, with rates
    #[command(after_long_help = TOP_HELP)]
    Top(TopArguments),
}

/// Arguments of `niclab nic top`.
#[derive(Args, Debug)]
pub struct TopArguments {
    /// Its socket, as `niclab nic --control` was given it
    #[arg(long, value_name = "PATH")]
    pub control: PathBuf,
    /// Seconds between two looks at the card, 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: f64,
    /// Print one frame as text, with the rates of one interval
    #[arg(long)]
    pub once: bool,
}

/// How often `niclab nic top` may ask, seconds.
fn interval(text: &str) -> Result<f64, &'static str> {
    let read = text.parse().ok().filter(|seconds| (0.1..=3_600.0).contains(seconds));
    read.ok_or("write seconds from 0.1 to 3600")
}

/// The commands of `niclab profile`.
#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Read profiles, and say what is known of each card
    ///
    /// The first thing that is missing, unknown, out of range or contradicts another ends it, with
    /// its file, line and key.
    Check {
        /// Names of profiles that come with niclab, or files
        #[arg(required = true, value_name = "PROFILE")]
        profiles: Vec<String>,
    },
    /// Fit a profile to what was measured, and print it
    ///
    /// Of result directories all that they have of one device; of a published card (bf1, cx4, cx5,
    /// cx6, or a profile of round trips such as stingray) the points that its profile comes from,
    /// so that the others are predictions. A number that nothing measured depends on is unknown.
    Fit {
        /// Result directories, or `published:CARD`
        #[arg(required = true, value_name = "RESULTS")]
        from: Vec<String>,
        /// Which device, where there are several
        #[arg(long)]
        device: Option<String>,
        /// Where to write the profile: a file that does not exist
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// List what a profile says: sections and keys, with units and ranges
    Keys,
    /// Print a profile
    Show {
        /// Name of a profile that comes with niclab, or file
        profile: String,
    },
    /// Run the published experiments on the modelled cards, and compare with what was published
    Validate,
}

/// The commands of `niclab ids`.
#[derive(Debug, Subcommand)]
pub enum IdsCommand {
    /// Say which rules niclab's own engine supports, and what it lacks for the others
    ///
    /// The engine matches rules packet by packet, where Suricata is not installed.
    #[command(after_long_help = IDS_CHECK_EXAMPLES)]
    Check(IdsCheckArguments),
    /// Distribute rules over cores, and say what each core gets
    ///
    /// Writes a file of rules for each core, a program for niclab's card that gives each core its
    /// packets, and a page with the shares of each core.
    #[command(after_long_help = PARTITION_EXAMPLES)]
    Partition(PartitionArguments),
    /// Run Suricata on several cores behind a card that gives each its packets
    ///
    /// Each core has a part of the rules, as by `partition`. The events of all come to one file,
    /// ordered by time, as those of a single Suricata with all rules. Needs root, for
    /// TAP interfaces, unless the packets come from a trace.
    ///
    /// SIGHUP reads the rules again: they replace the old ones while packets flow. SIGINT and
    /// SIGTERM end it.
    #[command(after_long_help = IDS_RUN_EXAMPLES)]
    Run(IdsRunArguments),
}

/// Arguments of `niclab ids check`.
#[derive(Args, Debug)]
pub struct IdsCheckArguments {
    /// Files of rules in Suricata's language
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    pub rules: Vec<PathBuf>,
    /// Configuration of Suricata that defines variables such as $HOME_NET
    /// [default: /etc/suricata/suricata.yaml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `niclab ids run`.
#[derive(Args, Debug)]
pub struct IdsRunArguments {
    /// Rules and cores.
    #[command(flatten)]
    pub rules: PartitionedRules,
    /// Where packets come from: xdp:INTERFACE, packet:INTERFACE, or a trace,
    /// pcap:in=FILE,speed=N
    #[arg(long, value_name = "PORT")]
    pub port: PortName,
    /// Cores of the card; one for a trace [default: the first that may be used]. The engines run
    /// on the others
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub card_cores: Vec<u32>,
    /// Path of Suricata [default: that of `suricata`, as the shell finds it]
    #[arg(long, value_name = "PROGRAM")]
    pub suricata: Option<PathBuf>,
    /// End after this time; otherwise with the trace, or by a signal
    #[arg(long, value_name = "S")]
    pub seconds: Option<u64>,
    /// Directory for events, rules, and the logs of the engines; it must not exist
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Rules, and how they are divided over cores.
#[derive(Args, Debug)]
pub struct PartitionedRules {
    /// Files of rules in Suricata's language
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    pub rules: Vec<PathBuf>,
    /// Number of cores, 1 to 64; niclab's card supports 12 at most
    #[arg(long, value_name = "N")]
    pub cores: usize,
    /// Traces (pcap, pcapng) of your traffic: they say how many packets each rule can match
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub trace: Vec<PathBuf>,
    /// Configuration of Suricata that defines variables such as $HOME_NET
    /// [default: /etc/suricata/suricata.yaml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Arguments of `niclab ids partition`.
#[derive(Args, Debug)]
pub struct PartitionArguments {
    /// Rules and cores.
    #[command(flatten)]
    pub rules: PartitionedRules,
    /// Directory for the files of rules and the page; it must not exist
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The commands of `niclab rules`.
#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// Carry files out on a card of their own, and say which rules never act or meet others
    ///
    /// Reports the first error of each wrong file, with its line and column. Nothing is
    /// kept.
    Check(CheckArguments),
    /// Write rules of others as `flow create` lines, to standard output
    ///
    /// What has no equivalent and changes nothing becomes a comment; the first rule whose meaning
    /// would change ends it, with its line and column, and nothing is written.
    Convert {
        /// How they are written
        #[arg(value_enum, value_name = "FROM")]
        from: RulesFormat,
        /// One rule a line; what `tc filter show` prints has several
        file: PathBuf,
    },
}

/// Arguments of `niclab rules check`.
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// One `flow` command a line
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// List every rule with a problem, not only the first five of each kind
    #[arg(long)]
    pub all: bool,
    /// Exit with code 7 if a rule has a problem; an exception to a wider rule is no problem
    #[arg(long)]
    pub strict: bool,
    /// Print JSON, with every rule that has a problem
    #[arg(long)]
    pub json: bool,
}

/// How rules are written elsewhere.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RulesFormat {
    /// Filter sets of ClassBench
    Classbench,
    /// `ethtool -N` commands
    Ethtool,
    /// `tc filter add … flower` commands, or what `tc filter show` prints
    Tc,
}

/// Arguments of `niclab compare`.
#[derive(Args, Debug)]
pub struct CompareArguments {
    /// Result directories, as `niclab run` printed them; of a single one its devices are compared
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// What a point may differ by before it is worse or better
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = share)]
    pub tolerance: f64,
    /// A metric to compare wherever it is, in place of those that each trial is made for; may be
    /// given again (`niclab export --csv` names them all)
    #[arg(long, value_name = "NAME")]
    pub metric: Vec<String>,
    /// List every point, not those that differ most
    #[arg(long)]
    pub all: bool,
    /// Print JSON, with every point
    #[arg(long)]
    pub json: bool,
    /// Print a comment for a pull request, in GitHub's Markdown
    #[arg(long, conflicts_with = "json")]
    pub github: bool,
}

/// Arguments of `niclab conform`.
#[derive(Args, Debug)]
pub struct ConformArguments {
    /// A device, such as soft or dpdk:--vdev=net_tap0; may be given again
    #[arg(long, value_name = "DEVICE", default_value = "soft")]
    pub device: Vec<String>,
    /// Another host's port, or one of this host, that offers the load: local=linux:IFACE,
    /// ssh://HOST=linux:IFACE or exec:COMMAND=linux:IFACE; each --device is the other end of its
    /// cable, with its host before it
    #[arg(long, value_name = "HOST=PORT", requires = "device")]
    pub tester: Option<String>,
    /// Copy this program to the hosts of `ssh://HOST=DEVICE` and `exec:COMMAND=DEVICE` for the time
    /// of the test, in place of the niclab that is installed there
    #[arg(long)]
    pub deploy: bool,
    /// Seed of rules and frames
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Items to try, between commas, such as eth,ipv4,udp; all by default
    #[arg(long, value_name = "ITEMS", value_delimiter = ',', value_parser = item)]
    pub items: Option<Vec<Item>>,
    /// Where to write conform.json and report.html: a directory that does not exist
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print JSON, as conform.json has it
    #[arg(long)]
    pub json: bool,
}

/// An item by its name.
fn item(name: &str) -> Result<Item, String> {
    let known = || Item::ALL.map(Item::name).join(", ");
    Item::from_name(name).ok_or_else(|| format!("choose of {}", known()))
}

/// Arguments of `niclab merge`.
#[derive(Args, Debug)]
pub struct MergeArguments {
    /// Result directories, as `niclab run` or `niclab merge` printed them
    #[arg(required = true, num_args = 2.., value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// Where to write the merged result: a directory that is empty or does not exist
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
}

/// `5%` as 0.05.
fn share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.map(|percent| percent / 100.0).filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "give a percentage below 100, such as 5%".to_owned())
}

/// Arguments of `niclab export`.
#[derive(Args, Debug)]
pub struct ExportArguments {
    /// Result directories, as `niclab run` printed them; several with --rows
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    #[command(flatten)]
    pub format: ExportFormat,
    /// Where to write the rows: a file that does not exist, FILE.csv or FILE.parquet
    #[arg(short, long, value_name = "FILE", requires = "rows")]
    pub output: Option<PathBuf>,
}

/// The formats of `niclab export`.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub struct ExportFormat {
    /// Comma-separated values, one line a sample, to standard output
    #[arg(long)]
    pub csv: bool,
    /// One row a metric, the same columns for all experiments and hosts: comma-separated values to
    /// standard output, or a file with -o
    #[arg(long)]
    pub rows: bool,
    /// Medians for Prometheus: a file for each host and experiment in the directory that the
    /// textfile collector of node_exporter reads
    #[arg(long, value_name = "DIRECTORY")]
    pub textfile: Option<PathBuf>,
    /// Medians as Bencher Metric Format, to standard output
    #[arg(long)]
    pub bencher: bool,
}

/// Arguments of `niclab fleet`.
#[derive(Args, Debug)]
pub struct FleetArguments {
    /// Result directories, directories of these, or files of `niclab export --rows -o FILE.parquet`
    #[arg(required = true, value_name = "SOURCE")]
    pub sources: Vec<PathBuf>,
    /// Where to write fleet.json and report.html: a directory that does not exist
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print JSON, as fleet.json has it
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `niclab run`.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// Experiments: names (see `niclab list`) or TOML files [default: the seven of the grid
    /// `short`, one for each question, in four minutes]
    #[arg(value_name = "EXPERIMENT")]
    pub experiments: Vec<String>,

    /// All experiments, in a quarter of an hour
    #[arg(long, conflicts_with = "experiments")]
    pub all: bool,

    /// Device: soft, model:PROFILE, linux:veth, linux:IFACE,IFACE, dpdk:EAL-ARGUMENTS or swx, here
    /// or on another host by ssh://HOST=DEVICE or exec:COMMAND=DEVICE; may be given again [default:
    /// soft, linux:veth and model:connectx-5; beyond the grid `short` also dpdk:--vdev=net_ring0
    /// and swx; as far as they are here]
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<String>,

    /// Another host's port, or one of this host, that offers the load: local=linux:IFACE,
    /// ssh://HOST=linux:IFACE or exec:COMMAND=linux:IFACE; each --device is the other end of its
    /// cable, with its host before it
    #[arg(long, value_name = "HOST=PORT", requires = "device")]
    pub tester: Option<String>,

    /// Copy this program to the hosts of `ssh://HOST=DEVICE` and `exec:COMMAND=DEVICE` for the time
    /// of the run, in place of the niclab that is installed there
    #[arg(long)]
    pub deploy: bool,

    /// Result directory, which must not exist [default: results/DATE-TIME]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Compare with an earlier run: the report lists what changed and draws both runs
    ///
    /// It is read, and never written to. A directory that cannot be compared with this run is
    /// refused before anything is measured. With --resume: in place of the baseline of the run.
    #[arg(long, value_name = "DIR")]
    pub baseline: Option<PathBuf>,

    /// The full grid, as --grid full; prints how long it will take
    #[arg(long, conflicts_with = "grid")]
    pub full: bool,

    /// Which grid of each experiment [default: short without names, else reduced]
    #[arg(long, value_enum)]
    pub grid: Option<GridChoice>,

    /// Values of an axis in place of the experiment's; may be given again
    ///
    /// Values stand between commas: 0,1k,4M. Ranges stand in brackets: [1-4] is 1,2,3,4;
    /// `[0-100#50]` is 0,50,100; `[1*8]` is 1,2,4,8. `niclab list` shows the axes. The values
    /// replace the axis in every sweep of the grid.
    #[arg(long, value_name = "NAME=VALUES")]
    pub set: Vec<String>,

    /// Stamp inside the stacks too, in breakdowns over UDP: their axis deep=yes
    #[arg(long)]
    pub deep: bool,

    /// How often each trial is repeated; from 6 on a point has a 95 % interval [default: as the
    /// experiment says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: Option<u32>,

    /// Seed of everything random [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Go on with a run that was cut short: measure what is missing in its result directory
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "experiments", "all", "device", "output", "full", "grid", "set", "deep", "repeats", "seed",
        "trace", "rules", "card", "here", "there", "path", "tune", "variant_timeout", "dry_run",
    ])]
    pub resume: Option<PathBuf>,

    /// With --resume: open and run what the directory names besides niclab's own devices (programs,
    /// libraries, interfaces, addresses, files, commands of variants); it is shown without
    #[arg(long, requires = "resume", conflicts_with_all = ["experiments", "device", "output"])]
    pub trust: bool,

    /// Send the frames of this capture (pcap or pcapng) in place of generated ones
    ///
    /// It brings its own flows and frame sizes, and none of its frames may match a rule: not with
    /// --set of flows, frame or match_percent. Each frame grows by a stamp of 18 bytes at its end.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Measure with the rules of this file (`niclab rules check` says whether it can be used) in
    /// place of generated ones
    ///
    /// The traffic stays the experiment's: not with --set of groups, rules or match_percent. The
    /// card has as many queues as the file names.
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,

    /// Whose published figures are drawn beside the measured ones
    #[arg(long, value_name = "CARD", default_value = "cx5", value_parser = cards())]
    pub card: PublishedCard,

    /// Whose CPU this program and its client run on, a label of the report: host, snic (the
    /// SmartNIC's own) or peer (the machine at the other end of the wire)
    #[arg(long = "where", value_name = "CPU", value_parser = labels(Cpu::NAMES))]
    pub here: Option<Cpu>,

    /// Whose CPU the other side runs on: host, snic or peer
    #[arg(long, value_name = "CPU", value_parser = labels(Cpu::NAMES))]
    pub there: Option<Cpu>,

    /// Whether a SmartNIC's CPU is in the packets' way: on, off, or none (no SmartNIC)
    #[arg(long, value_name = "WAY", value_parser = labels(CpuPath::NAMES))]
    pub path: Option<CpuPath>,

    /// Turn interrupt coalescing off while it runs, at each interface of this host that is
    /// measured; needs root
    #[arg(long)]
    pub tune: bool,

    /// Compare settings: run COMMAND by `sh -c` before each trial of the variant NAME; give two to
    /// eight
    ///
    /// Trials of the variants alternate in random order, and the report compares them pair by pair
    /// with the first one. A trial whose command fails is not made. niclab does not undo what the
    /// commands change. With --resume: the variants of the run, which need no --trust then.
    #[arg(long, value_name = "NAME=COMMAND")]
    pub variant: Vec<Variant>,

    /// Seconds that the command of a variant may take [default: 10]
    #[arg(long, value_name = "SECONDS", requires = "variant",
          value_parser = clap::value_parser!(u64).range(1..=TIMEOUT_S_MAX))]
    pub variant_timeout: Option<u64>,

    /// Print what would be measured and run, and end: nothing is measured or written, and no
    /// command of a variant runs
    #[arg(long)]
    pub dry_run: bool,
}

/// The names of labels; their type has the last word.
fn labels<T>(names: [(&'static str, T); 3]) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = UnknownLabel> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names.map(|(name, _)| name)).try_map(|name| name.parse::<T>())
}

/// How a core of `niclab nic` receives.
fn card_receives() -> impl TypedValueParser<Value = niclab_card::Receive> {
    PossibleValuesParser::new(["busy-poll", "interrupt"]).map(|name| match name.as_str() {
        "interrupt" => niclab_card::Receive::Interrupt,
        _ => niclab_card::Receive::BusyPoll,
    })
}

/// How many connections `niclab kvs` may be asked to serve.
fn connections() -> impl TypedValueParser<Value = usize> {
    let most = niclab_apps::kvs::transport::CONNECTIONS_MAX as i64;
    clap::value_parser!(u32).range(1..=most).map(|count| count as usize)
}

/// The names of published cards; `Card` has the last word.
fn cards() -> impl TypedValueParser<Value = PublishedCard> {
    PossibleValuesParser::new(["bf1", "cx4", "cx5", "cx6"])
        .try_map(|name| name.parse::<PublishedCard>())
}

/// The grids of an experiment.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum GridChoice {
    /// Half a minute; what the seven experiments of the default run have
    Short,
    /// Minutes
    Reduced,
    /// Within 90 minutes on two cores
    Full,
    /// The published places, as long as it takes; resumable
    Published,
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;
