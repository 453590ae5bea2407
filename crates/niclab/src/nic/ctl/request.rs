//! The request that a command stands for; files that it names are read here.

use std::path::Path;

use niclab_control::{Request, TextFile};
use serde::de::IgnoredAny;

use crate::arguments::{
    CtlApplicationCommand, CtlCommand, CtlProgramCommand, CtlTablesCommand, TableWords,
};
use crate::failure::Failure;
use crate::files::{self, PROGRAM_LEN_MAX, TABLES_LEN_MAX};

/// Word in the place of a capture's file that ends the capture.
const OFF: &str = "off";

/// The request. `prints_json` asks for what tables have as a file.
pub(super) fn of(command: &CtlCommand, prints_json: bool) -> Result<Request, Failure> {
    Ok(match command {
        CtlCommand::Application { name: Some(name), command: Some(command) } => match command {
            CtlApplicationCommand::Program { command } => of_program(Some(name), command)?,
            CtlApplicationCommand::Table { command } => {
                of_tables(Some(name), command, prints_json)?
            }
        },
        CtlCommand::Application { name: None, command: Some(_) } => {
            let reason = "write application NAME, and then program or table".to_owned();
            return Err(Failure::Refused { reason });
        }
        CtlCommand::Application { name, command: None } => {
            Request::Applications { name: name.clone() }
        }
        CtlCommand::Capture { port, file: None, .. } => Request::CaptureState { port: *port },
        CtlCommand::Capture { port, file: Some(file), .. } if file == OFF => {
            Request::CaptureEnd { port: *port }
        }
        CtlCommand::Capture { port, file: Some(file), count } => {
            Request::CaptureBegin { port: *port, file: file.clone(), count: *count }
        }
        CtlCommand::Counters => Request::Counters {},
        CtlCommand::Flow { words } => Request::Flow { command: line("flow", words) },
        CtlCommand::Program { command } => of_program(None, command)?,
        CtlCommand::Rss { port, change } => {
            let change = (!change.is_empty()).then(|| one_line(change));
            Request::Rss { port: *port, change }
        }
        CtlCommand::Set { words } => Request::Flow { command: line("set", words) },
        CtlCommand::Stop => Request::Stop {},
        CtlCommand::Table { command } => of_tables(None, command, prints_json)?,
    })
}

/// Words on one line.
fn one_line(words: &[String]) -> String {
    words.join(" ").replace('\n', " ")
}

/// A command of a language: its first word and those behind it.
fn line(first: &str, words: &[String]) -> String {
    format!("{first} {}", one_line(words))
}

fn of_program(
    application: Option<&String>,
    command: &CtlProgramCommand,
) -> Result<Request, Failure> {
    let application = application.cloned();
    Ok(match command {
        CtlProgramCommand::Counter { array, index } => {
            Request::ProgramCounter { application, array: array.clone(), index: *index }
        }
        CtlProgramCommand::Digests { digest } => {
            Request::ProgramDigests { application, digest: digest.clone() }
        }
        CtlProgramCommand::Load { program, tables } => {
            let program =
                TextFile { name: named(program), text: files::text(program, PROGRAM_LEN_MAX)? };
            let tables = tables.as_deref().map(|path| {
                Ok::<_, Failure>(TextFile { name: named(path), text: tables_of(path)? })
            });
            Request::ProgramLoad { application, program, tables: tables.transpose()? }
        }
        CtlProgramCommand::None => Request::ProgramNone { application },
        CtlProgramCommand::Register { array, index } => {
            Request::ProgramRegister { application, array: array.clone(), index: *index }
        }
        CtlProgramCommand::Ring { ring, index } => {
            Request::ProgramRing { application, ring: ring.clone(), index: *index }
        }
        CtlProgramCommand::Show => Request::ProgramShow { application },
        CtlProgramCommand::Window { window, offset, count, width } => Request::ProgramWindow {
            application,
            window: window.clone(),
            offset: *offset,
            count: *count,
            width: *width,
        },
    })
}

fn of_tables(
    application: Option<&String>,
    command: &CtlTablesCommand,
    prints_json: bool,
) -> Result<Request, Failure> {
    let application = application.cloned();
    let (first, TableWords { words }) = match command {
        CtlTablesCommand::Load { file, replace } => {
            let tables = tables_of(file)?;
            return Ok(Request::TableLoad { application, tables, replace: *replace });
        }
        CtlTablesCommand::Show { table } if prints_json => {
            return Ok(Request::TableFile { application, table: table.clone() });
        }
        CtlTablesCommand::Show { table } => {
            return Ok(Request::TableShow { application, table: table.clone() });
        }
        CtlTablesCommand::Transaction { words } => {
            let commands = transaction(&one_line(words))?;
            return Ok(Request::TableTransaction { application, commands });
        }
        CtlTablesCommand::Add(words) => ("add", words),
        CtlTablesCommand::Delete(words) => ("delete", words),
        CtlTablesCommand::Group(words) => ("group", words),
        CtlTablesCommand::MeterSetRates(words) => ("meter_set_rates", words),
        CtlTablesCommand::MirroringAdd(words) => ("mirroring_add", words),
        CtlTablesCommand::Modify(words) => ("modify", words),
        CtlTablesCommand::MulticastGroup(words) => ("multicast_group", words),
        CtlTablesCommand::RegisterWrite(words) => ("register_write", words),
        CtlTablesCommand::Setdefault(words) => ("setdefault", words),
    };
    Ok(Request::TableCommand { application, command: line(first, words) })
}

/// The commands of a transaction, with `;` between them.
fn transaction(text: &str) -> Result<Vec<String>, Failure> {
    let each = text.split(';').map(str::trim).filter(|line| !line.is_empty());
    let commands: Vec<String> = each.map(str::to_owned).collect();
    match commands.is_empty() {
        true => Err(Failure::Refused {
            reason: "no command in it: table transaction 'COMMAND; COMMAND …'".to_owned(),
        }),
        false => Ok(commands),
    }
}

fn named(path: &Path) -> String {
    path.display().to_string()
}

/// A file of tables, which is JSON: who sends it knows its name.
fn tables_of(path: &Path) -> Result<String, Failure> {
    let text = files::text(path, TABLES_LEN_MAX)?;
    let read = serde_json::from_str::<IgnoredAny>(&text);
    read.map_err(|error| Failure::Tables {
        path: path.into(),
        reason: format!("no JSON, as `table load` and --tables take it: {error}"),
    })?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command, NicCommand};

    /// What `niclab nic ctl --control card` with these words asks.
    fn asked(words: &str) -> Result<Request, Failure> {
        let before = ["niclab", "nic", "ctl", "--control", "card"];
        let all = before.into_iter().chain(words.split('|')).map(OsString::from);
        let Command::Nic(nic) = Arguments::try_parse_from(all).unwrap().command else { panic!() };
        let Some(NicCommand::Ctl(ctl)) = nic.command else { panic!() };
        of(&ctl.command, ctl.json)
    }

    #[test]
    fn commands_are_requests() {
        let keeper = Some("keeper".to_owned());
        let text = str::to_owned;
        for (words, request) in [
            ("application", Request::Applications { name: None }),
            ("application|keeper", Request::Applications { name: keeper.clone() }),
            (
                "application|keeper|table|show|types",
                Request::TableShow { application: keeper.clone(), table: Some(text("types")) },
            ),
            (
                "application|keeper|program|counter|seen|1",
                Request::ProgramCounter { application: keeper, array: text("seen"), index: 1 },
            ),
            ("capture|0", Request::CaptureState { port: 0 }),
            ("capture|0|off", Request::CaptureEnd { port: 0 }),
            (
                "capture|0|a.pcap|--count|7",
                Request::CaptureBegin { port: 0, file: text("a.pcap"), count: Some(7) },
            ),
            ("counters|--json", Request::Counters {}),
            ("flow|list|0", Request::Flow { command: text("flow list 0") }),
            ("flow|list\n0", Request::Flow { command: text("flow list 0") }),
            ("set|raw_encap 0|eth", Request::Flow { command: text("set raw_encap 0 eth") }),
            ("rss|0", Request::Rss { port: 0, change: None }),
            ("rss|0|queues|0|end", Request::Rss { port: 0, change: Some(text("queues 0 end")) }),
            ("--json|table|show", Request::TableFile { application: None, table: None }),
            (
                "table|register_write|count 2|42",
                Request::TableCommand {
                    application: None,
                    command: text("register_write count 2 42"),
                },
            ),
            (
                "table|transaction|add a; |;delete b",
                Request::TableTransaction {
                    application: None,
                    commands: vec![text("add a"), text("delete b")],
                },
            ),
        ] {
            assert_eq!(asked(words).unwrap(), request, "{words}");
        }
        let window = asked("program|window|items|0x10|1|u64").unwrap();
        let json = r#"{"request":"program_window","window":"items","offset":16,"count":1,"#;
        assert_eq!(window.line(), format!(r#"{json}"width":"u64"}}"#));
        let message = asked("table|transaction| ; ").unwrap_err().to_string();
        assert!(message.starts_with("no command in it"), "{message}");
        let message = asked("application|table|show").unwrap_err().to_string();
        assert!(message.starts_with("write application NAME"), "{message}");
    }
}
