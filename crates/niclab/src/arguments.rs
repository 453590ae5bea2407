//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Tells the truth about a network card, and gives you one you can program.
#[derive(Debug, Parser)]
#[command(name = "niclab", version, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the completions of a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Look for what would disturb a measurement on this machine
    Doctor,
    /// Write the samples of a run in another format
    Export(ExportArguments),
    /// List the experiments, their axes and the devices
    List,
    /// Print the manual page
    Man,
    /// Write report.html of a run anew, from its samples
    Report {
        /// Result directory
        directory: PathBuf,
    },
    /// Measure: all default experiments on three devices, or those that are named
    Run(RunArguments),
    /// Print the findings and figures of a run as tables
    Show {
        /// Result directory
        directory: PathBuf,
    },
}

/// What `niclab export` takes.
#[derive(Args, Debug)]
pub struct ExportArguments {
    /// Result directory
    pub directory: PathBuf,
    /// Comma-separated values, one line a sample, to standard output
    #[arg(long, required = true)]
    pub csv: bool,
}

/// What `niclab run` takes.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// Experiments: names (see `niclab list`) or TOML files [default: all default experiments]
    #[arg(value_name = "EXPERIMENT")]
    pub experiments: Vec<String>,

    /// Device: soft, linux:veth, linux:IFACE,IFACE or dpdk:EAL-ARGUMENTS; may be given again
    /// [default: soft, linux:veth and dpdk:--vdev=net_ring0]
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<String>,

    /// Result directory, which must not exist [default: results/DATE-TIME]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// The full grid; prints how long it will take
    #[arg(long, conflicts_with = "grid")]
    pub full: bool,

    /// Which grid of each experiment [default: reduced]
    #[arg(long, value_enum)]
    pub grid: Option<Grid>,

    /// Values of an axis in place of the experiment's: 1,4,16 or [1*16] or [0-100#10]
    #[arg(long, value_name = "NAME=VALUES")]
    pub set: Vec<String>,

    /// How often each trial is repeated
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: Option<u32>,

    /// Seed of everything random [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Go on with a run that was cut short
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "experiments", "device", "output", "full", "grid", "set", "repeats", "seed", "trace", "card",
    ])]
    pub resume: Option<PathBuf>,

    /// Send the frames of this capture (pcap or pcapng) in place of generated ones
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Whose published figures are drawn beside the measured ones: cx4, cx5, cx6 or bf1
    #[arg(long, value_name = "CARD", default_value = "cx5")]
    pub card: String,
}

/// The grids of an experiment.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Grid {
    /// Minutes
    Reduced,
    /// Within 90 minutes on two cores
    Full,
    /// The published places, as long as it takes; resumable
    Published,
}
