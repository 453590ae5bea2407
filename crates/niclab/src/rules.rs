//! `niclab rules`: files of rules.

use std::fs::File;
use std::io::{BufReader, Write, stdout};
use std::path::Path;

use niclab_nic::rule::text::{Command, Commands, ReadError};

use crate::failure::Failure;

/// Reads a file of `flow` commands to its end or its first error, and says how many rules it has.
pub fn check(path: &Path) -> Result<(), Failure> {
    let bad = |error: ReadError| Failure::Rules { path: path.to_path_buf(), error };
    let file = File::open(path).map_err(|error| bad(error.into()))?;
    let mut commands = Commands::new(BufReader::new(file));
    let (mut rules_count, mut others_count) = (0_u64, 0_u64);
    while let Some(next) = commands.next_command() {
        let parsed = next.map_err(bad)?;
        match parsed.command {
            Command::Create { rule, .. } | Command::Validate { rule, .. } => {
                parsed.pattern(&rule).map_err(|error| bad(error.into()))?;
                rules_count += 1;
            }
            _ => others_count += 1,
        }
    }
    let others = match others_count {
        0 => String::new(),
        1 => ", 1 other command".to_owned(),
        count => format!(", {count} other commands"),
    };
    let rules = if rules_count == 1 { "rule" } else { "rules" };
    writeln!(stdout().lock(), "{}: {rules_count} {rules}{others}", path.display())?;
    Ok(())
}
