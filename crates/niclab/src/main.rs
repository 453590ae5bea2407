//! The command line of niclab; the only crate that prints.
//!
//! Every command is a room of its own; `failure` says how each of them can end.
#![forbid(unsafe_code)]

mod advise;
mod agent;
mod analytics;
mod arguments;
mod baseline;
mod compare;
mod conform;
mod cores;
mod devices;
mod doctor;
mod echo;
mod environment;
mod export;
mod failure;
mod files;
mod fleet;
mod host_address;
mod ids;
mod kvs;
mod list;
mod merge;
mod metrics;
mod nic;
mod output;
mod preflight;
mod profile;
mod program;
mod progress;
mod readiness;
mod reference;
mod report;
mod rows_failure;
mod rules;
mod run;
mod show;
mod stored;
mod suggestion;
mod tables;
mod texts;
mod trust;
mod tune;
mod variant;

use std::process::ExitCode;

use clap::Parser;

use arguments::{
    Arguments, Command, IdsCommand, MeasureCommand, ProfileCommand, ProgramCommand, RulesCommand,
    ServeCommand,
};
use failure::Failure;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // Help and version are our own words.
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            output::say(error.render().to_string().trim_end());
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    match command(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            output::say(format!("niclab: {failure}").trim_end());
            failure.exit_code()
        }
    }
}

fn command(command: Command) -> Result<(), Failure> {
    match command {
        Command::Advise { device, workload, json } => advise::run(&device, &workload, json),
        Command::Agent => agent::run(),
        Command::Analytics(arguments) => analytics::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Conform(arguments) => conform::run(&arguments),
        Command::Completions { shell } => texts::completions(shell),
        Command::Doctor { clean: false, json, device, .. } if device.is_empty() => {
            doctor::run(json)
        }
        Command::Doctor { clean: false, json, tester, device, deploy } => {
            doctor::testbeds(tester.as_deref(), &device, deploy, json)
        }
        Command::Doctor { clean: true, .. } => doctor::clean(),
        Command::Export(arguments) => export::run(&arguments),
        Command::Fleet(arguments) => fleet::run(&arguments),
        Command::Ids { command: IdsCommand::Check(arguments) } => ids::check::run(&arguments),
        Command::Ids { command: IdsCommand::Partition(arguments) } => ids::partition(&arguments),
        Command::Ids { command: IdsCommand::Run(arguments) } => ids::run(&arguments),
        Command::Kvs(arguments) => kvs::run(&arguments),
        Command::List { experiment: None, json } => list::run(json),
        Command::List { experiment: Some(name), .. } => list::toml(&name),
        Command::Man => texts::man(),
        Command::Merge(arguments) => merge::run(&arguments),
        Command::Measure { command: MeasureCommand::Echo(arguments) } => echo::measure(&arguments),
        Command::Nic(arguments) => nic::run(&arguments),
        Command::Profile { command } => match command {
            ProfileCommand::Check { profiles } => profile::check(&profiles),
            ProfileCommand::Fit { from, device, output } => {
                profile::fit(&from, device.as_deref(), output.as_deref())
            }
            ProfileCommand::Keys => profile::keys(),
            ProfileCommand::Show { profile } => profile::show(&profile),
            ProfileCommand::Validate => profile::validate(),
        },
        Command::Program { command } => match command {
            ProgramCommand::Check { programs, json } => program::check(&programs, json),
            ProgramCommand::Dump { program } => program::dump(&program),
            ProgramCommand::Make { program, count, entries } => {
                program::make(&program, count, entries)
            }
            ProgramCommand::Test { test, program } => program::test(&test, &program),
        },
        Command::Report { directory, baseline } => report::run(&directory, baseline.as_deref()),
        Command::Rules { command: RulesCommand::Check(arguments) } => rules::check(&arguments),
        Command::Rules { command: RulesCommand::Convert { from, file } } => {
            rules::convert(from, &file)
        }
        Command::Run(arguments) => run::run(&arguments),
        Command::Serve { command: ServeCommand::Echo(arguments) } => echo::serve(&arguments),
        Command::Show { directory, json } => show::run(&directory, json),
    }
}
