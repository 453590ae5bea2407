//! `kvs --daemon`: the store in the background.
//!
//! The command starts itself a second time, in a session of its own, and returns when that process
//! listens or has failed: unlike memcached, it reports a port that is in use.

use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::process::{Command, Stdio};

use rustix::process::{chdir, setsid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::failure::Failure;
use crate::output::{say, stdout};

/// Set in the environment of the second process.
const MARK: &str = "NICLAB_KVS_IN_BACKGROUND";

/// Whether this is the second process.
pub fn is_child() -> bool {
    env::var_os(MARK).is_some()
}

/// Starts the second process, and waits until it listens.
///
/// # Errors
/// [`Failure::Background`]: what the second process said when it ended.
pub fn start() -> Result<(), Failure> {
    let mut command = Command::new(env::current_exe()?);
    command.args(env::args_os().skip(1)).env(MARK, "1").stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (mut message, mut complaints) = (String::new(), String::new());
    // It closes both when it listens, and has little to say until then.
    if let (Some(out), Some(err)) = (&mut child.stdout, &mut child.stderr) {
        out.read_to_string(&mut message)?;
        err.read_to_string(&mut complaints)?;
    }
    if message.is_empty() {
        let code = child.wait()?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
        let reason = complaints.trim().trim_start_matches("niclab: ").to_owned();
        return Err(Failure::Background { reason, code });
    }
    if !complaints.is_empty() {
        say(complaints.trim_end());
    }
    Ok(io::Write::write_all(&mut stdout(), message.as_bytes())?)
}

/// Leaves the terminal and the process that waits; and the working directory, if `may_move`.
pub fn detach(may_move: bool) -> io::Result<()> {
    // A leader of a session keeps the one that it has.
    let _ = setsid();
    let null = File::options().read(true).write(true).open("/dev/null")?;
    if may_move {
        chdir("/")?;
    }
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(())
}
