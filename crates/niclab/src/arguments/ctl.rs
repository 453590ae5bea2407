//! The arguments of `niclab nic ctl`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use niclab_control::Width;

/// Arguments of `niclab nic ctl`.
#[derive(Args, Debug)]
pub struct CtlArguments {
    /// Its socket, as `niclab nic --control` was given it
    #[arg(long, value_name = "PATH")]
    pub control: PathBuf,
    /// Print the answer as the card gives it: a JSON object
    #[arg(long, global = true)]
    pub json: bool,
    /// What to ask it
    #[command(subcommand)]
    pub command: CtlCommand,
}

/// The commands of `niclab nic ctl`.
#[derive(Debug, Subcommand)]
pub enum CtlCommand {
    /// List the applications and what they own
    ///
    /// With a name only this one. With `program` or `table` behind the name, the command is for
    /// the program of this application.
    Application {
        /// Its name
        name: Option<String>,
        /// What to ask it
        #[command(subcommand)]
        command: Option<CtlApplicationCommand>,
    },
    /// Capture a port's frames, or report how many
    ///
    /// `ctl` opens the file, with the rights of its user. The file becomes a packet trace (pcap)
    /// of the frames that the port receives and sends. Without a file, the answer is the number of
    /// frames captured so far.
    Capture {
        /// The port, from 0
        port: u16,
        /// The file to write, or `off` to end the capture, after which its file is whole
        file: Option<String>,
        /// Capture no more than so many frames
        #[arg(long, value_name = "N", requires = "file",
              value_parser = clap::value_parser!(u64).range(1..))]
        count: Option<u64>,
    },
    /// Counters of ports, queues, cores, applications
    Counters,
    /// Create, change, destroy, list and query rules, as testpmd writes it
    ///
    /// Such as `flow create 0 ingress pattern eth / ipv4 / end actions drop / end`, `flow list 0`,
    /// `flow query 0 RULE count` and `flow destroy 0 rule RULE`; the number is the port's.
    Flow {
        /// The command
        #[arg(required = true, trailing_var_arg = true, value_name = "WORD")]
        words: Vec<String>,
    },
    /// Replace the program that processes frames, or read from it
    Program {
        /// What to do
        #[command(subcommand)]
        command: CtlProgramCommand,
    },
    /// Report the RSS of a port, or change it
    ///
    /// Changes are parameters of the action `rss`, such as `rss 0 queues 0 1 end` and `rss 0 key …
    /// types ip end`, or name queues for entries of the table: `rss 0 reta '(0,1),(7,0)'`.
    Rss {
        /// The port, from 0
        port: u16,
        /// The change
        #[arg(trailing_var_arg = true, value_name = "WORD")]
        change: Vec<String>,
    },
    /// Set the headers of later encap actions
    ///
    /// The commands are those of testpmd, such as `set raw_encap 0 eth / ipv4 / end_set`.
    Set {
        /// The command
        #[arg(required = true, trailing_var_arg = true, value_name = "WORD")]
        words: Vec<String>,
    },
    /// Stop the card
    Stop,
    /// Show and change the tables of the program
    Table {
        /// What to do
        #[command(subcommand)]
        command: CtlTablesCommand,
    },
}

/// Commands on an application.
#[derive(Debug, Subcommand)]
pub enum CtlApplicationCommand {
    /// Commands of `program` for an application
    Program {
        /// What to do
        #[command(subcommand)]
        command: CtlProgramCommand,
    },
    /// Commands of `table` for an application
    Table {
        /// What to do
        #[command(subcommand)]
        command: CtlTablesCommand,
    },
}

/// Commands on a program.
#[derive(Debug, Subcommand)]
pub enum CtlProgramCommand {
    /// Read a counter
    Counter {
        /// Name of the countarray
        array: String,
        /// Which of them, from 0
        #[arg(value_parser = number)]
        index: u64,
    },
    /// Take the records reported since the last time
    Digests {
        /// Name of the digest
        digest: String,
    },
    /// Replace the program, without losing a frame
    Load {
        /// File of the program
        program: PathBuf,
        /// File of its tables, in JSON [default: they are empty]
        tables: Option<PathBuf>,
    },
    /// Remove it; rules and RSS classify again
    None,
    /// Read a register
    Register {
        /// Name of the regarray
        array: String,
        /// Which of them, from 0
        #[arg(value_parser = number)]
        index: u64,
    },
    /// Show the entries that wait in a ring
    ///
    /// They stay there.
    Ring {
        /// Name of the ring
        ring: String,
        /// Which of them, from 0
        #[arg(value_parser = number)]
        index: u64,
    },
    /// List its tables and their sizes
    Show,
    /// Show a part of a window
    Window {
        /// Name of the window
        window: String,
        /// First byte, from 0; decimal, or hexadecimal behind `0x`
        #[arg(value_parser = number)]
        offset: u64,
        /// Bytes, or numbers where a width is given
        #[arg(value_parser = number)]
        count: u64,
        /// Show numbers of so many bits, the last byte first, in place of bytes
        #[arg(value_parser = widths())]
        width: Option<Width>,
    },
}

/// Commands on tables.
#[derive(Debug, Subcommand)]
pub enum CtlTablesCommand {
    /// Add an entry
    ///
    /// `add TABLE [PRIORITY] FIELD:VALUE … ACTION(ARGUMENT:VALUE …)`
    Add(TableWords),
    /// Delete an entry
    ///
    /// `delete TABLE FIELD:VALUE …`
    Delete(TableWords),
    /// Set the members of a selector's group
    ///
    /// `group SELECTOR GROUP MEMBER[:WEIGHT] …`
    Group(TableWords),
    /// Add the entries of a JSON file to the tables
    Load {
        /// The file
        file: PathBuf,
        /// The tables that the file names have nothing else afterwards
        #[arg(long)]
        replace: bool,
    },
    /// Set the rates of a meter
    #[command(name = "meter_set_rates")]
    MeterSetRates(TableWords),
    /// Set a mirroring session
    #[command(name = "mirroring_add")]
    MirroringAdd(TableWords),
    /// Change an entry
    ///
    /// `modify TABLE [PRIORITY] FIELD:VALUE … ACTION(ARGUMENT:VALUE …)`
    Modify(TableWords),
    /// Set the ports of a multicast group
    #[command(name = "multicast_group")]
    MulticastGroup(TableWords),
    /// Write a register
    ///
    /// `register_write ARRAY INDEX VALUE`
    #[command(name = "register_write")]
    RegisterWrite(TableWords),
    /// Set the action for packets that match no entry
    ///
    /// `setdefault TABLE ACTION(ARGUMENT:VALUE …)`
    Setdefault(TableWords),
    /// Show table sizes, or the entries of one table
    ///
    /// With --json the answer is a file for `table load`.
    Show {
        /// The table
        table: Option<String>,
    },
    /// Apply several commands at once, or none
    ///
    /// Such as 'add …; delete …'.
    Transaction {
        /// The commands, with `;` between them
        #[arg(required = true, trailing_var_arg = true, value_name = "COMMANDS")]
        words: Vec<String>,
    },
}

/// The words of a command on a table, as packet tests write them.
#[derive(Args, Debug)]
pub struct TableWords {
    /// The rest of the command
    #[arg(required = true, trailing_var_arg = true, value_name = "WORD")]
    pub words: Vec<String>,
}

/// A number, decimal or behind `0x`.
fn number(text: &str) -> Result<u64, &'static str> {
    let read = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.map_err(|_| "write a number, decimal or hexadecimal behind 0x")
}

/// How wide the numbers of a window may be.
fn widths() -> impl TypedValueParser<Value = Width> {
    PossibleValuesParser::new(["u8", "u16", "u32", "u64"]).map(|name| match name.as_str() {
        "u8" => Width::U8,
        "u16" => Width::U16,
        "u32" => Width::U32,
        _ => Width::U64,
    })
}
