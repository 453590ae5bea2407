//! Texts made from the command line's own description: completions, manual page.

use std::io::stdout;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::failure::Failure;

/// Prints the completions of a shell.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    clap_complete::generate(shell, &mut Arguments::command(), "niclab", &mut stdout());
    Ok(())
}

/// Prints the manual page, all commands in one.
pub fn man() -> Result<(), Failure> {
    let mut out = stdout().lock();
    let command = Arguments::command();
    clap_mangen::Man::new(command.clone()).render(&mut out)?;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = format!("niclab-{}", sub.get_name());
        clap_mangen::Man::new(sub.clone().name(name)).render(&mut out)?;
    }
    Ok(())
}
