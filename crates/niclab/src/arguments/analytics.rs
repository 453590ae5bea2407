//! The arguments of `niclab analytics`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use niclab_card::PortName;
use niclab_packet::flow::EXPONENT_MAX;

use crate::metrics;

/// The address of `niclab analytics` without another one.
const LISTEN: &str = "127.0.0.1:9770";

/// Where tuples come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TupleInput {
    /// Frames over UDP, at this address.
    Udp(String),
    /// Lines of JSON in a file; `-` is standard input.
    Json(PathBuf),
    /// Lines of JSON that the program at this address sends by TCP.
    JsonTcp(String),
    /// Tuples from a seed.
    Generator,
}

impl FromStr for TupleInput {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<TupleInput, &'static str> {
        let of = |(kind, rest): (&str, &str)| match (kind, rest) {
            (_, "") => None,
            ("udp", address) => Some(TupleInput::Udp(address.to_owned())),
            ("json", path) => Some(TupleInput::Json(path.into())),
            ("json-tcp", address) => Some(TupleInput::JsonTcp(address.to_owned())),
            _ => None,
        };
        match text {
            "udp" => Ok(TupleInput::Udp(LISTEN.to_owned())),
            "generator" => Ok(TupleInput::Generator),
            text => text.split_once(':').and_then(of).ok_or(
                "write udp, udp:ADDRESS, json:FILE, json:- (standard input), json-tcp:ADDRESS:PORT \
                 or generator",
            ),
        }
    }
}

/// How `niclab analytics` receives tuples over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TupleMode {
    /// Sockets of the system
    Kernel,
    /// A card that spreads sources over its cores
    Rss,
    /// A card that gives each of its cores the frames with its own keys
    Steer,
    /// A card that writes tuples into the workers' rings, and acknowledges them
    Dma,
}

/// What a generator makes.
#[derive(Args, Clone, Debug)]
pub struct GeneratorArguments {
    /// Tuples of the generator
    #[arg(long, value_name = "N", default_value = "1000000")]
    pub tuples: u64,
    /// Keys of the generator, from 0 on
    #[arg(long, value_name = "N", default_value = "10000",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub keys: u32,
    /// Exponent of Zipf's law, by which the generator picks keys; 0: all equally often
    #[arg(long, value_name = "EXPONENT", default_value = "1.0", value_parser = exponent)]
    pub zipf: f64,
    /// Event time between two tuples of the generator, nanoseconds
    #[arg(long, value_name = "NS", default_value = "100000")]
    pub interval_ns: u64,
    /// Seed of the generator
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
}

/// An exponent of Zipf's law.
fn exponent(text: &str) -> Result<f64, &'static str> {
    const { assert!(EXPONENT_MAX == 10.0) };
    let number = text.parse().ok().filter(|of| (0.0..=EXPONENT_MAX).contains(of));
    number.ok_or("give a number from 0 to 10")
}

/// Arguments of `niclab analytics`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AnalyticsArguments {
    /// What to do in place of counting
    #[command(subcommand)]
    pub command: Option<AnalyticsCommand>,
    /// Where tuples come from: udp, udp:ADDRESS, json:FILE, json:- (standard input),
    /// json-tcp:ADDRESS:PORT (a program there sends lines) or generator; the port of udp is
    /// optional
    #[arg(long, value_name = "INPUT", default_value = "udp")]
    pub input: TupleInput,
    /// Count the tuples of this stream
    #[arg(long, value_name = "N", default_value = "0")]
    pub stream: u16,
    /// Receive udp by the system's sockets (kernel), or by a niclab card that spreads sources over
    /// its cores (rss), gives each of its cores the frames with its own keys (steer), or checks
    /// tuples, writes them into the workers' rings and acknowledges them itself (dma)
    #[arg(long, value_name = "HOW", default_value = "kernel")]
    pub mode: TupleMode,
    /// The card's port: xdp:INTERFACE, packet:INTERFACE or tap:INTERFACE; for all modes but
    /// kernel
    #[arg(long, value_name = "PORT", required_if_eq_any = super::CARD_MODES)]
    pub port: Option<PortName>,
    /// The receiver's own address at that port and the bits of its network, such as 10.9.0.2/24;
    /// for all modes but kernel
    #[arg(long, value_name = "ADDRESS/BITS", required_if_eq_any = super::CARD_MODES)]
    pub address: Option<String>,
    /// Cores of the card; for all modes but kernel [default: those of --cores]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub card_cores: Vec<u32>,
    /// How a core of the card learns that a frame has come, as for `niclab nic`; for all modes but
    /// kernel [default: interrupt]
    #[arg(long, value_name = "HOW", value_parser = super::card_receives())]
    pub receive: Option<niclab_card::Receive>,
    /// Length of a window in event time, milliseconds
    #[arg(long, value_name = "MS", default_value = "10000")]
    pub length_ms: u64,
    /// Event time from one window to the next, milliseconds; it divides the length
    #[arg(long, value_name = "MS", default_value = "1000")]
    pub slide_ms: u64,
    /// Keys of a result, 1 to 10000
    #[arg(long, value_name = "N", default_value = "10",
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub top: u16,
    /// Cores, a worker on each [default: the first that may be used]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub cores: Vec<u32>,
    /// Sources that have to be there before a window is complete: give all of them, because the
    /// tuples of one that starts after all others have ended are late; for udp
    #[arg(long, value_name = "N", default_value = "1",
          value_parser = clap::value_parser!(u16).range(1..=4_096))]
    pub sources: u16,
    /// After this long without a frame a source no longer delays windows, milliseconds, at least
    /// 3000: a source without tuples says once a second that it is there; for udp
    #[arg(long, value_name = "MS", default_value = "10000",
          value_parser = clap::value_parser!(u64).range(3_000..=3_600_000))]
    pub silence_ms: u64,
    /// End when all sources have ended, or are silent for --silence-ms; for udp
    #[arg(long)]
    pub until_end: bool,
    /// Write the results to this new file, a line of JSON for each window [default: standard
    /// output; none with --live]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show the latest window on the terminal; q ends it
    #[arg(long)]
    pub live: bool,
    /// Serve the counters to Prometheus at http://ADDRESS:PORT/metrics; a port alone is at
    /// 127.0.0.1
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = metrics::address)]
    pub metrics: Option<SocketAddr>,
    /// Several processes count together: a file with HOST:PORT of each, a line each. All have as
    /// many cores. The first one writes the results
    #[arg(long, value_name = "FILE", requires = "process")]
    pub hostfile: Option<PathBuf>,
    /// The line of this process in --hostfile, from 0 on
    #[arg(long, value_name = "N", requires = "hostfile")]
    pub process: Option<usize>,
    #[command(flatten)]
    pub generator: GeneratorArguments,
}

/// What `niclab analytics` can do beside counting.
#[derive(Debug, Subcommand)]
pub enum AnalyticsCommand {
    /// Send tuples to another `niclab analytics` over UDP, until all of them are safe there
    Send(SendArguments),
}

/// Arguments of `niclab analytics send`.
#[derive(Args, Debug)]
pub struct SendArguments {
    /// The address that tuples are sent to
    #[arg(long, value_name = "ADDRESS", default_value = LISTEN)]
    pub to: String,
    /// The id of this source; each source has its own, and a new one each time
    #[arg(long, value_name = "N")]
    pub source: u64,
    /// Divide the tuples by key among N sources, 1 to 16, for a receiver with --mode steer and N
    /// workers; source i has the id 256 times --source plus i
    #[arg(long, value_name = "N", default_value = "1",
          value_parser = clap::value_parser!(u8).range(1..=16))]
    pub split: u8,
    /// Where tuples come from: json:FILE, json:- (standard input), json-tcp:ADDRESS:PORT or
    /// generator
    #[arg(long, value_name = "INPUT", default_value = "generator")]
    pub input: TupleInput,
    /// Bytes of the payload of each tuple, 0 to 1024
    #[arg(long, value_name = "BYTES", default_value = "0",
          value_parser = clap::value_parser!(u16).range(0..=1_024))]
    pub payload: u16,
    /// Tuples of a frame at most, 1 to 45
    #[arg(long, value_name = "N", default_value = "45",
          value_parser = clap::value_parser!(u16).range(1..=45))]
    pub batch: u16,
    #[command(flatten)]
    pub generator: GeneratorArguments,
}
