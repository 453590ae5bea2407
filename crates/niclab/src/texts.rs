//! Texts made from the command line's own description: completions, manual page.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::output::stdout;

/// Prints the completions of a shell.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "niclab", &mut text);
    Ok(stdout().write_all(&text)?)
}

/// Prints the manual page: one page, each command a part of it.
pub fn man() -> Result<(), Failure> {
    let mut page = Vec::new();
    let mut command = Arguments::command();
    command.build();
    let top = clap_mangen::Man::new(command.clone().disable_help_subcommand(true));
    top.render_title(&mut page)?;
    top.render_name_section(&mut page)?;
    top.render_synopsis_section(&mut page)?;
    top.render_description_section(&mut page)?;
    top.render_options_section(&mut page)?;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        part(sub, &mut page)?;
    }
    let mut notes = Vec::new();
    top.render_extra_section(&mut notes)?;
    let notes = String::from_utf8_lossy(&notes).replace("\n.SH EXTRA", "\n.SH NOTES");
    page.write_all(notes.as_bytes())?;
    Ok(stdout().write_all(&page)?)
}

/// One command and those below it: its sections become parts of a section of its own.
fn part(command: &clap::Command, page: &mut Vec<u8>) -> io::Result<()> {
    let man = clap_mangen::Man::new(command.clone().disable_help_flag(true));
    let mut sections = Vec::new();
    man.render_synopsis_section(&mut sections)?;
    man.render_description_section(&mut sections)?;
    man.render_options_section(&mut sections)?;
    if command.get_after_long_help().is_some() {
        man.render_extra_section(&mut sections)?;
    }
    let name = command.get_bin_name().unwrap_or(command.get_name());
    writeln!(page, ".SH \"{}\"", name.to_uppercase())?;
    let sections = String::from_utf8_lossy(&sections).replace("\n.SH ", "\n.SS ");
    page.write_all(sections.replace("\n.SS EXTRA", "\n.SS NOTES").as_bytes())?;
    let mut below = command.get_subcommands().filter(|sub| sub.get_name() != "help");
    below.try_for_each(|sub| part(sub, page))
}
