//! How a command can fail: one exit code for each kind of trouble.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | something else went wrong |
//! | 2 | the command line cannot be understood |
//! | 3 | an experiment, a value, a trace, a profile, a workload, a program, its test or a file of |
//! |   | rules cannot be used |
//! | 4 | a result directory cannot be used |
//! | 5 | a device is unknown, none could be opened, or a port of `nic`, `analytics` or `ids run` |
//! |   | could not be |
//! | 6 | a run, or `measure`, came to its end and has measured nothing |
//! | 7 | `rules check --strict` has found rules to fix |
//! | 8 | `compare` has found a regression |
//! | 9 | `serve`, `kvs`, `analytics` or `--metrics` cannot have the address; `measure`'s server, |
//! |   | `ctl`'s card or the other end of `analytics` is not there |
//! | 10 | a packet test of `program test` did not hold |
//! | 11 | `conform` has found a device that accepts rules and does something else |
//! | 12 | `fleet` has found outliers |
//! | 13 | `fleet` has found no outlier, but could compare nothing, or left sources out |
//! | 130 | `run` was stopped by Ctrl-C or SIGTERM; what was measured is kept |
//!
//! Ctrl-C and SIGTERM are how `nic`, `kvs`, `analytics`, `ids run` and `serve` end: with 0. A
//! second one ends these and `run` at once, with 130. All other commands end by the signal.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use niclab_apps::kvs::transport::ServerError;
use niclab_card::{CardError, PortError};
use niclab_device::DeviceError;
use niclab_device::address::AddressError;
use niclab_device::echo::EchoError;
use niclab_device::model::UnreadProfile;
use niclab_files::FileError;
use niclab_lab::advise::WorkloadError;
use niclab_lab::fit::FitError;
use niclab_lab::merge::MergeError;
use niclab_lab::published::UnknownCard;
use niclab_lab::spec::SpecError;
use niclab_lab::validation::ValidationError;
use niclab_nic::rule::text::ReadError;
use niclab_nic::text::TextError;
use niclab_program::SingleError;
use niclab_report::ReportError;
use niclab_result::ResultError;

use crate::analytics::AnalyticsFailure;
use crate::files::{reason, reason_of_profile, who_may};
use crate::ids::IdsFailure;
use crate::output::{one_line, quoted};
use crate::rows_failure::RowsFailure;
use crate::rules::{counted, plural};
use crate::suggestion;

/// Exit code of a run that was stopped: 128 and SIGINT, as shells count.
pub const STOPPED: i32 = 130;

/// Why a command ended without success.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An address that cannot be read.
    #[error("{reason}")]
    Address {
        /// A valid value.
        reason: String,
    },
    /// A device of `measure` cannot do it.
    #[error("{0}")]
    Device(#[from] DeviceError),
    /// The software card could not be started.
    #[error("{}", of_card(.0))]
    Card(#[from] CardError),
    /// A card gave back fewer frames than it had.
    #[error("{lost} of {frames} frames did not come back: a fault of niclab; please report it")]
    FramesLost {
        /// Those that are missing.
        lost: usize,
        /// All frames.
        frames: usize,
    },
    /// The socket of a card that is to be talked to, or to be made.
    #[error("{}: {reason}", path.display())]
    Control {
        /// Its path.
        path: PathBuf,
        /// The defect, and a valid value.
        reason: String,
    },
    /// A store that was to run in the background has ended at once.
    #[error("{reason}")]
    Background {
        /// Its message.
        reason: String,
        /// Its exit code.
        code: u8,
    },
    /// The address of metrics cannot be had.
    #[error("--metrics {address}: {}", of_metrics(error))]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// A view has no terminal to draw on.
    #[error("nic top needs a terminal; --once prints one frame as text")]
    NoTerminal,
    /// A card did not do what it was told.
    #[error("{reason}")]
    Refused {
        /// Why not.
        reason: String,
    },
    /// Rows of results, or a fleet.
    #[error("{0}")]
    Rows(#[from] RowsFailure),
    /// Tuples that cannot be counted or sent.
    #[error("{0}")]
    Analytics(#[from] AnalyticsFailure),
    /// Rules of an intrusion detection.
    #[error("{0}")]
    Ids(#[from] IdsFailure),
    /// Devices that accept rules and do something else.
    #[error("not as rules mean it: {}", inner_lines(devices))]
    NonConforming {
        /// Each, and how much of it.
        devices: Vec<String>,
    },
    /// Devices whose rules could not be tried, or of which nothing was right.
    #[error("not tried, or nothing is right: {}", inner_lines(devices))]
    Untried {
        /// Each, and why.
        devices: Vec<String>,
    },
    /// Messages could not be sent or served.
    #[error("{0}")]
    Echo(#[from] EchoError),
    /// A key-value store cannot be served.
    #[error("{0}")]
    Kvs(#[from] ServerError),
    /// A measurement that ended before its time.
    #[error("{reason}; the results until then are above")]
    Lost {
        /// Why.
        reason: String,
    },
    /// A program or a packet test that cannot be read.
    #[error("{}: {error}", path.display())]
    Program {
        /// The file.
        path: PathBuf,
        /// Place, defect, and the expected text.
        error: TextError,
    },
    /// A file of an application that cannot be used.
    #[error("{}: {reason}", path.display())]
    Application {
        /// The file.
        path: PathBuf,
        /// Place and defect.
        reason: String,
    },
    /// A program that no experiment measures.
    #[error("{reason}")]
    Case {
        /// The defect, and the available values.
        reason: String,
    },
    /// A file of tables that cannot be used; nothing of it was.
    #[error("{}: {reason}", path.display())]
    Tables {
        /// The file.
        path: PathBuf,
        /// Place and defect.
        reason: String,
    },
    /// A packet test that did not hold.
    #[error(
        "{}: {} failed, see above",
        path.display(), plural(*failures, "expectation", "expectations")
    )]
    Untrue {
        /// The file of the test.
        path: PathBuf,
        /// How many, in the execution that has more.
        failures: usize,
    },
    /// There is no memory for what a program needs.
    #[error("{}: {error}", path.display())]
    ProgramMemory {
        /// Its file.
        path: PathBuf,
        /// The missing part.
        error: SingleError,
    },
    /// A single run of a single device is to be compared.
    #[error(
        "{} has one device, {device}: give a second directory, or a run of several devices",
        directory.display(), device = one_line(device)
    )]
    Alone {
        /// Its directory.
        directory: PathBuf,
        /// Its device.
        device: String,
    },
    /// Files of rules, of which there was something to say.
    #[error("--strict: fix the rules in {}", named(files))]
    Amiss {
        /// The files.
        files: Vec<PathBuf>,
    },
    /// An option of `compare` that results of `conform` have nothing for.
    #[error("{option}: results of `niclab conform` are compared cell by cell; leave it out")]
    OfRuns {
        /// The option.
        option: &'static str,
    },
    /// Runs that have nothing in common.
    #[error(
        "nothing in common: measure the same places of the same experiment, and one device each or \
         devices of the same names\n  {base}\n  {other}"
    )]
    Apart {
        /// The value of the baseline.
        base: String,
        /// The value of the other side.
        other: String,
    },
    /// There is nothing to compute of a device that is no model.
    #[error("--device {device}: advise computes; give a modelled card, such as model:connectx-5")]
    NotModelled {
        /// The device.
        device: String,
    },
    /// Modelled cards that could not be measured.
    #[error("{0}")]
    Validation(#[from] ValidationError),
    /// A workload that is not there, or not to be opened.
    #[error(
        "{}: {}", path.display(), reason(path, error, "give a file that declares a workload")
    )]
    UnreadWorkload {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: FileError,
    },
    /// A workload that cannot be used.
    #[error("{0}")]
    Workload(#[from] WorkloadError),
    /// A core that is not there, or that this process may not use.
    #[error("core {core}: choose one of the cores this process may use: {}", listed(there))]
    Core {
        /// The requested value.
        core: usize,
        /// The cores that may be used.
        there: Vec<u32>,
    },
    /// Results that cannot be merged.
    #[error("{}", one_line(&.0.to_string()))]
    Merge(#[from] MergeError),
    /// A merged result is to be gone on with.
    #[error(
        "{} was merged of {}: go on with those, and merge them again",
        directory.display(), one_line(&of.join(", "))
    )]
    Merged {
        /// Its directory.
        directory: PathBuf,
        /// The results that it was merged from.
        of: Vec<String>,
    },
    /// Results would be written into a directory that is to stay as it is.
    #[error("--output {} lies in {}: choose another place", output.display(), of.display())]
    Within {
        /// The requested value.
        output: PathBuf,
        /// The directory that is to stay as it is.
        of: PathBuf,
    },
    /// A merged result or a profile cannot be written where it was to be.
    #[error("{} {reason}", path.display())]
    Unwritten {
        /// The requested value.
        path: PathBuf,
        /// Why not, and what to do.
        reason: String,
    },
    /// A metric that cannot be compared.
    #[error("--metric {name}: choose one of {}", known.join(", "))]
    Metric {
        /// The requested value.
        name: String,
        /// The metrics that can be compared.
        known: Vec<String>,
    },
    /// A device, an experiment, a directory or a core is named twice.
    #[error("{name} is named twice: name each once")]
    Twice {
        /// The name.
        name: String,
    },
    /// A name that is no device's.
    #[error("{}", of_name(.0))]
    UnknownDevice(DeviceError),
    /// A trace that cannot be read.
    #[error("trace {}: {reason}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// The defect, and a valid value.
        reason: String,
    },
    /// None of the devices could be opened.
    #[error("no device could be opened:\n  {}", reasons.join("\n  "))]
    NoDevice {
        /// The error of each.
        reasons: Vec<String>,
    },
    /// A run came to its end, and no device could do what was asked.
    #[error(
        "{}; `niclab show {}` says what was tried{}",
        match lacks_pair {
            true => "no device was measured under two variants",
            false => "nothing was measured",
        },
        word(directory),
        reasons.iter().map(|reason| format!("\n  {reason}")).collect::<String>()
    )]
    Nothing {
        /// The directory of the note.
        directory: PathBuf,
        /// The run has variants, and one of them alone is no comparison.
        lacks_pair: bool,
        /// Why, device by device.
        reasons: Vec<String>,
    },
    /// The terminal or the pipe is gone, or what is behind it is full.
    #[error("output: {0}")]
    Output(#[from] std::io::Error),
    /// A profile that is not there, or cannot be used.
    #[error("{}", of_profile(.0))]
    Profile(#[from] UnreadProfile),
    /// The measurements do not suffice for a profile.
    #[error("{}", one_line(&.0.to_string()))]
    NoFit(#[from] FitError),
    /// A name that is no published card's.
    #[error("{0}")]
    UnknownCard(#[from] UnknownCard),
    /// A measurement of messages none of which came back.
    #[error(
        "nothing was measured: {}",
        match sent {
            0 => format!(
                "no message was sent in {duration_ms} ms; measure for longer with --duration-ms"
            ),
            sent => format!(
                "none of {} came back in {duration_ms} ms; check that a server runs there and \
                 that no firewall drops its answers",
                counted(*sent, "message", "messages")
            ),
        }
    )]
    NoAnswer {
        /// Messages of the measured part.
        sent: u64,
        /// How long that was to be.
        duration_ms: u64,
    },
    /// Something got worse.
    #[error("regression: {}", inner_lines(regressions))]
    Regression {
        /// Where, and how much.
        regressions: Vec<String>,
    },
    /// The report cannot be drawn.
    #[error("report: {0}")]
    Report(#[from] ReportError),
    /// The result directory cannot be used.
    #[error("{}", of_result(.0))]
    Result(#[from] ResultError),
    /// The result directory of a run cannot be used.
    #[error("{}", of_run(.0))]
    RunDirectory(ResultError),
    /// A file of rules, a program or tables that is not there, or not to be opened.
    #[error("{}: {}", path.display(), reason(path, error, "give a file that can be read"))]
    Unread {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: FileError,
    },
    /// A file of RSS keys that cannot be used.
    #[error("{}: {reason}", path.display())]
    Keys {
        /// The file.
        path: PathBuf,
        /// Place and defect.
        reason: String,
    },
    /// A file of rules that cannot be read.
    #[error("{}: {error}", path.display())]
    Rules {
        /// The file.
        path: PathBuf,
        /// Place, defect, and the expected text.
        error: ReadError,
    },
    /// The rules that a run began with are others now.
    #[error(
        "{}: the rules are not those of the run: restore them, or start a new run",
        path.display()
    )]
    RulesChanged {
        /// The file.
        path: PathBuf,
    },
    /// A run without a finished measurement is to be compared.
    #[error(
        "{} has no finished measurement: go on with it: niclab run --resume {}",
        directory.display(), word(directory)
    )]
    Unmeasured {
        /// Its directory.
        directory: PathBuf,
    },
    /// More than one thing went wrong, in their order; the first says how it ends.
    #[error("{}", lines(failures))]
    Several {
        /// The failures.
        failures: Vec<Failure>,
    },
    /// The specification gives no run.
    #[error("{}", of_spec(.0))]
    Spec(#[from] SpecError),
    /// The user stopped it.
    #[error("stopped; go on with: {command}")]
    Stopped {
        /// The command that resumes it.
        command: String,
    },
    /// A run is to go on with other variants.
    #[error(
        "{} has other variants: {}\nleave --variant out with --trust, or begin anew with -o",
        directory.display(),
        if has.is_empty() { "none".to_owned() } else { inner_lines(has) }
    )]
    OtherVariants {
        /// Its directory.
        directory: PathBuf,
        /// The variants it has, as they are typed.
        has: Vec<String>,
    },
    /// A directory would have more opened or run than niclab's own.
    #[error(
        "{} names things that are not niclab's own:\n  {}\ncheck each of them; if you trust the \
         author of the directory: niclab run --resume {} --trust",
        directory.display(), named.join("\n  "), word(directory)
    )]
    Untrusted {
        /// Its directory.
        directory: PathBuf,
        /// The devices and commands that it names.
        named: Vec<String>,
    },
}

/// Why a card could not be started; where a right to a file is missing, who has it.
fn of_card(error: &CardError) -> String {
    match error {
        CardError::ExternalQueue { source: PortError::File { path, source }, .. }
        | CardError::Port { source: PortError::File { path, source }, .. }
            if source.kind() == ErrorKind::PermissionDenied =>
        {
            format!("{error}: {}", who_may(path))
        }
        error => error.to_string(),
    }
}

/// Why a result directory cannot be used; where a right to read is missing, who has it. The option
/// that names another one, where that is the remedy.
fn of_result(error: &ResultError) -> String {
    match error {
        ResultError::Unreadable { path } => format!("{error}: {}", who_may(path)),
        ResultError::Exists { .. }
        | ResultError::Occupied { .. }
        | ResultError::ReadOnly { .. }
        | ResultError::Busy { .. } => format!("{error} with -o"),
        error => error.to_string(),
    }
}

/// The same of a run, which may go on.
fn of_run(error: &ResultError) -> String {
    match error {
        ResultError::Exists { path } => {
            format!("{}, or go on with it: --resume {}", of_result(error), word(path))
        }
        ResultError::Full { .. } => {
            format!("{error} and go on with --resume; every finished measurement is kept")
        }
        ResultError::Disk { .. } => format!("{error}, then go on with --resume"),
        error => of_result(error),
    }
}

/// Why a profile cannot be used; where a right to its file is missing, who has it.
fn of_profile(error: &UnreadProfile) -> String {
    match error {
        UnreadProfile::Absent(absent) => {
            reason_of_profile(absent) + &suggestion::profile(&absent.name)
        }
        UnreadProfile::Bad(error) => error.to_string(),
    }
}

/// The same of an experiment.
fn of_spec(error: &SpecError) -> String {
    match error {
        SpecError::Unreadable { path, source } => {
            let reason = reason(path, source, "give the path of an experiment's TOML file");
            format!("{}: {reason}", path.display())
        }
        SpecError::Unknown { name, .. } => format!("{error}{}", suggestion::experiment(name)),
        SpecError::UnknownAxis { name, known } => {
            format!("{error}{}", suggestion::axis(name, known))
        }
        error => error.to_string(),
    }
}

/// A name that is no device's, and the one that was meant.
fn of_name(error: &DeviceError) -> String {
    match error {
        DeviceError::BadName { text, .. } => format!("{error}{}", suggestion::device(text)),
        error => error.to_string(),
    }
}

/// A path as a word of a command.
fn word(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// Numbers between commas.
fn listed(cores: &[u32]) -> String {
    cores.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// Lines below each other; none of them can pass for two.
fn inner_lines(all: &[String]) -> String {
    all.iter().map(|line| one_line(line)).collect::<Vec<_>>().join("\n  ")
}

/// Paths between commas.
fn named(files: &[PathBuf]) -> String {
    files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Failures, each with the name of the program before it but for the first, which gets its own.
fn lines(failures: &[Failure]) -> String {
    let message: Vec<String> =
        failures.iter().map(|failure| failure.to_string().trim_end().to_owned()).collect();
    message.join("\nniclab: ")
}

impl Failure {
    /// An address that cannot be read, and the option that has it.
    pub fn address(option: &'static str) -> impl Fn(AddressError) -> Failure {
        move |error| Failure::Address { reason: format!("{option}: {error}") }
    }

    /// All that went wrong, where anything did; the first one says how the process ends.
    pub fn of(mut failures: Vec<Failure>) -> Result<(), Failure> {
        match failures.len() {
            0 => Ok(()),
            1 => Err(failures.remove(0)),
            _ => Err(Failure::Several { failures }),
        }
    }

    /// `true` where whoever read the output has enough of it, such as `head`: no failure at all.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Failure::Output(error) if error.kind() == ErrorKind::BrokenPipe)
    }

    /// The exit code of the process.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    fn code(&self) -> u8 {
        match self {
            Failure::Background { code, .. } => *code,
            Failure::Several { failures } => failures.first().map_or(1, Failure::code),
            Failure::FramesLost { .. }
            | Failure::Output(_)
            | Failure::ProgramMemory { .. }
            | Failure::Report(_)
            | Failure::Validation(_) => 1,
            Failure::Address { .. }
            | Failure::Metric { .. }
            | Failure::NoTerminal
            | Failure::OfRuns { .. }
            | Failure::NotModelled { .. }
            | Failure::Spec(
                SpecError::OfTrace { .. } | SpecError::OfRules { .. } | SpecError::Variants(_),
            ) => 2,
            Failure::NoFit(_)
            | Failure::UnreadWorkload { .. }
            | Failure::Workload(_)
            | Failure::Profile(_)
            | Failure::UnknownCard(_)
            | Failure::Core { .. }
            | Failure::Keys { .. }
            | Failure::Kvs(
                ServerError::Core { .. } | ServerError::Descriptors { .. } | ServerError::Store(_),
            )
            | Failure::Refused { .. }
            | Failure::Case { .. }
            | Failure::Program { .. }
            | Failure::Rules { .. }
            | Failure::RulesChanged { .. }
            | Failure::Spec(_)
            | Failure::Application { .. }
            | Failure::Tables { .. }
            | Failure::Trace { .. }
            | Failure::Unread { .. }
            | Failure::Twice { .. } => 3,
            Failure::Alone { .. }
            | Failure::Apart { .. }
            | Failure::Merge(_)
            | Failure::Merged { .. }
            | Failure::Within { .. }
            | Failure::OtherVariants { .. }
            | Failure::Result(_)
            | Failure::RunDirectory(_)
            | Failure::Unwritten { .. }
            | Failure::Unmeasured { .. }
            | Failure::Untrusted { .. } => 4,
            Failure::Device(error) => of_device(error),
            Failure::Echo(error) => of_echo(error),
            Failure::Control { .. }
            | Failure::Kvs(_)
            | Failure::Lost { .. }
            | Failure::Metrics { .. } => 9,
            Failure::Card(error) => code_of_card(error),
            Failure::NoDevice { .. } | Failure::UnknownDevice(_) => 5,
            Failure::NoAnswer { .. } | Failure::Nothing { .. } | Failure::Untried { .. } => 6,
            Failure::Amiss { .. } => 7,
            Failure::Regression { .. } => 8,
            Failure::Untrue { .. } => 10,
            Failure::NonConforming { .. } => 11,
            Failure::Rows(failure) => failure.code(),
            Failure::Analytics(failure) => failure.code(),
            Failure::Ids(failure) => failure.code(),
            Failure::Stopped { .. } => STOPPED as u8,
        }
    }
}

/// Why the address of metrics cannot be had, and what to do.
fn of_metrics(error: &io::Error) -> String {
    let remedy = match error.kind() {
        ErrorKind::AddrInUse => "choose another port, or end the program that has this one",
        ErrorKind::AddrNotAvailable => "give an address of this machine (`ip address`)",
        ErrorKind::PermissionDenied => "ports below 1024 need root; choose a higher one",
        _ => "choose another address",
    };
    format!("{error}: {remedy}")
}

/// Exit code where the software card could not be started.
fn code_of_card(error: &CardError) -> u8 {
    match error {
        CardError::Ports | CardError::Cores => 2,
        CardError::Application(_)
        | CardError::ExternalQueueNumber { .. }
        | CardError::Key(_)
        | CardError::Rules(_) => 3,
        _ => 5,
    }
}

/// Exit code where a device of `measure` failed.
fn of_device(error: &DeviceError) -> u8 {
    match error {
        DeviceError::BadLoad { .. } => 3,
        DeviceError::Absent { .. } | DeviceError::NoServer { .. } | DeviceError::Silent { .. } => 9,
        _ => 5,
    }
}

/// Exit code where an echo server or its client failed.
fn of_echo(error: &EchoError) -> u8 {
    match error {
        EchoError::Range { .. } | EchoError::NotSupported { .. } => 3,
        _ => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_is_gone_on_with() {
        let errors = || {
            let path = PathBuf::from("a b");
            let source = io::Error::from_raw_os_error(5);
            [
                ResultError::Exists { path: path.clone() },
                ResultError::Full { path: path.clone() },
                ResultError::Disk { path, source },
            ]
        };
        assert_eq!(
            errors().map(|error| Failure::Result(error).to_string()),
            [
                "a b exists already: choose another directory with -o",
                "no space left for a b: free some",
                "a b: Input/output error (os error 5); check the disk",
            ]
        );
        assert_eq!(
            errors().map(|error| Failure::RunDirectory(error).to_string()),
            [
                "a b exists already: choose another directory with -o, or go on with it: --resume \
                 'a b'",
                "no space left for a b: free some and go on with --resume; every finished \
                 measurement is kept",
                "a b: Input/output error (os error 5); check the disk, then go on with --resume",
            ]
        );
    }
}
