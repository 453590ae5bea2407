//! The help of `niclab nic ctl`: one table of all commands, grouped by task.
//!
//! The table is made from the commands that `ctl` declares. A test checks that every command has a
//! line.

use clap::{Arg, ArgAction, Command, Subcommand};

use super::ctl::CtlCommand;

/// Groups in the order of the table, each with its commands.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Observe", &["counters", "capture"]),
    ("Rules and RSS", &["flow", "set", "rss"]),
    ("Program", &["program"]),
    ("Tables of the program", &["table"]),
    ("Applications", &["application"]),
    ("Card", &["stop"]),
];

/// Commands of the rule language. To clap they are only words behind `flow`.
const FLOW: [(&str, &str); 9] = [
    ("flow create PORT …", "Create a rule"),
    ("flow validate PORT …", "Check whether a rule could be created"),
    ("flow update PORT RULE …", "Replace the actions of a rule"),
    ("flow destroy PORT rule RULE …", "Destroy rules"),
    ("flow flush PORT", "Destroy all rules"),
    ("flow list PORT", "List the rules"),
    ("flow query PORT RULE count", "Frames and bytes of a rule with action count"),
    ("flow aged PORT [destroy]", "List the aged rules, or destroy them"),
    ("flow isolate PORT 0|1", "1: drop frames that match no rule"),
];

/// Columns of the left half of the table. A longer left half is cut after its first argument.
const USAGE_COLUMNS: usize = 29;

/// The template of the help page.
pub fn template() -> String {
    let mut table = String::new();
    for (heading, lines) in groups() {
        table += &format!("{heading}:\n");
        for (usage, about) in lines {
            table += &format!("  {usage:<USAGE_COLUMNS$}  {about}\n");
        }
        table.push('\n');
    }
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{table}Options:\n{{options}}\n\n\
         Every command has its own help: niclab nic ctl program window --help\n"
    )
}

/// The lines of each group: how a command is typed, and its description.
fn groups() -> Vec<(&'static str, Vec<(String, String)>)> {
    let ctl = CtlCommand::augment_subcommands(Command::new("ctl"));
    let lines = |names: &[&str]| {
        let mut lines = Vec::new();
        for name in names {
            ctl.find_subcommand(name).into_iter().for_each(|command| push("", command, &mut lines));
        }
        lines
    };
    GROUPS.map(|(heading, names)| (heading, lines(names))).into()
}

/// Pushes the lines of a command, and of those below it.
fn push(path: &str, command: &Command, lines: &mut Vec<(String, String)>) {
    let path = format!("{path}{}", command.get_name());
    let about = |of: &Command| of.get_about().map(ToString::to_string).unwrap_or_default();
    if path == "flow" {
        let own = |(usage, about): (&str, &str)| (usage.to_owned(), about.to_owned());
        return lines.extend(FLOW.map(own));
    }
    let arguments: Vec<String> = command.get_positionals().map(argument).collect();
    if !command.has_subcommands() || !arguments.is_empty() {
        lines.push((usage(&path, &arguments), about(command)));
    }
    for below in command.get_subcommands() {
        match arguments.is_empty() {
            true => push(&format!("{path} "), below, lines),
            // A command for one of something: what is below it is in another group.
            false => {
                let name = arguments[0].trim_matches(['[', ']']);
                lines.push((format!("{path} {name} {} …", below.get_name()), about(below)));
            }
        }
    }
}

fn usage(path: &str, arguments: &[String]) -> String {
    let whole = format!("{path} {}", arguments.join(" "));
    match arguments.first() {
        Some(first) if whole.chars().count() > USAGE_COLUMNS => format!("{path} {first} …"),
        _ => whole.trim_end().to_owned(),
    }
}

/// An argument as a synopsis has it: `PORT`, `[FILE]`, `WORD…`.
fn argument(of: &Arg) -> String {
    let names = of.get_value_names().unwrap_or_default().iter();
    let name = names.map(|name| name.as_str()).collect::<Vec<_>>().join(" ");
    let more = if matches!(of.get_action(), ArgAction::Append) { "…" } else { "" };
    match of.is_required_set() {
        true => format!("{name}{more}"),
        false => format!("[{name}{more}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths of all commands that have none below them.
    fn leaves(path: &str, command: &Command) -> Vec<String> {
        let path = format!("{path}{}", command.get_name());
        let below = command.get_subcommands().flat_map(|of| leaves(&format!("{path} "), of));
        let below: Vec<String> = below.collect();
        if below.is_empty() { vec![path] } else { below }
    }

    #[test]
    fn every_command_has_a_line_of_at_most_80_columns() {
        let ctl = CtlCommand::augment_subcommands(Command::new("ctl"));
        let listed: Vec<(String, String)> =
            groups().into_iter().flat_map(|(_, lines)| lines).collect();
        for leaf in ctl.get_subcommands().flat_map(|command| leaves("", command)) {
            // Those of an application are the same as those of the card.
            let leaf = leaf.strip_prefix("application ").unwrap_or(&leaf);
            let has = listed
                .iter()
                .any(|(usage, _)| usage == leaf || usage.starts_with(&format!("{leaf} ")));
            assert!(has, "{leaf} is missing in {listed:?}");
        }
        let grouped: usize = GROUPS.iter().map(|(_, names)| names.len()).sum();
        assert_eq!(grouped, ctl.get_subcommands().count());
        assert!(listed.iter().all(|(_, about)| !about.is_empty()), "{listed:?}");
        for line in template().lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn a_line_says_how_a_command_is_typed() {
        let template = template();
        for line in [
            "Observe:\n  counters                       Counters of ports, queues, cores",
            "\n  capture PORT [FILE]            Capture a port's frames, or report",
            "\n  flow list PORT                 List the rules\n",
            "\n  rss PORT [WORD…]               Report the RSS of a port, or change it\n",
            "\n  program load PROGRAM [TABLES]  Replace the program",
            "\n  program window WINDOW …        Show a part of a window\n",
            "\n  application NAME table …       ",
            "\n  stop                           Stop the card\n",
        ] {
            assert!(template.contains(line), "{line} is missing in:\n{template}");
        }
    }
}
