//! Commands of variants: each runs by `sh -c` with a time limit, and the end of its output is kept.
//!
//! A command is a process group of its own: Ctrl-C stops the run and not the command, which may be
//! about to change a setting. What it starts in the background goes on, unless the time limit ends
//! the whole group.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use niclab_lab::runner::{CommandEnd, CommandOutcome, VariantCommand};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};

/// How often it is looked whether a command has ended.
const LOOK: Duration = Duration::from_millis(1);

/// Bytes that are kept of each of its outputs.
const KEPT_MAX: u64 = 1024;

/// Runs a command and waits for its end.
pub fn run(command: &VariantCommand<'_>) -> CommandOutcome {
    let mut outputs: [Option<File>; 2] = [None, None];
    let end = match started(command, &mut outputs) {
        Ok(child) => waited(child, Duration::from_secs(command.timeout_s)),
        Err(error) => CommandEnd::NotStarted(error.to_string()),
    };
    let [stdout, stderr] = outputs.map(|output| output.and_then(kept).unwrap_or_default());
    CommandOutcome { end, stdout, stderr }
}

/// Starts it. It writes into files, so that a process it leaves behind keeps nobody waiting.
fn started(command: &VariantCommand<'_>, outputs: &mut [Option<File>; 2]) -> io::Result<Child> {
    for output in outputs.iter_mut() {
        *output = Some(memfd_create("variant", MemfdFlags::CLOEXEC)?.into());
    }
    let [stdout, stderr] = outputs.each_ref().map(|output| -> io::Result<Stdio> {
        Ok(output.as_ref().map(File::try_clone).transpose()?.map_or(Stdio::null(), Stdio::from))
    });
    let mut shell = Command::new("sh");
    shell.args(["-c", &command.variant.command]);
    shell.env("NICLAB_VARIANT", &command.variant.name).env("NICLAB_DEVICE", command.device);
    shell.stdin(Stdio::null()).stdout(stdout?).stderr(stderr?).process_group(0).spawn()
}

fn waited(mut child: Child, timeout: Duration) -> CommandEnd {
    let until = Instant::now() + timeout;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return of_status(status),
            Ok(None) if Instant::now() < until => thread::sleep(LOOK),
            Ok(None) => break,
            Err(error) => return CommandEnd::NotStarted(error.to_string()),
        }
    }
    // Its group is that of the shell; where the signal cannot be sent, the shell has just ended.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let _ = child.wait();
    CommandEnd::TimedOut
}

fn of_status(status: ExitStatus) -> CommandEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => CommandEnd::Exited(code),
        (None, signal) => CommandEnd::Killed(signal.unwrap_or_default()),
    }
}

/// The end of what was written.
fn kept(mut file: File) -> Option<String> {
    let len = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(KEPT_MAX))).ok()?;
    let mut bytes = Vec::new();
    file.take(KEPT_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use niclab_lab::variants::Variant;

    use super::*;

    fn of(command: &str, timeout_s: u64) -> CommandOutcome {
        let variant = Variant { name: "one".into(), command: command.into() };
        run(&VariantCommand { variant: &variant, device: "soft", timeout_s })
    }

    #[test]
    fn how_a_command_ends_and_what_it_writes_is_kept() {
        let ended = of("echo $NICLAB_VARIANT on $NICLAB_DEVICE; echo bad >&2; exit 3", 10);
        let (stdout, stderr) = ("one on soft\n".to_owned(), "bad\n".to_owned());
        assert_eq!(ended, CommandOutcome { end: CommandEnd::Exited(3), stdout, stderr });
        assert_eq!(of("true", 10).end, CommandEnd::Exited(0));
        assert_eq!(of("kill -9 $$", 10).end, CommandEnd::Killed(9));
        let long = of("seq 100000; echo end", 10);
        assert!(long.stdout.len() <= KEPT_MAX as usize && long.stdout.ends_with("\n100000\nend\n"));
        assert_eq!(of("cat", 10).end, CommandEnd::Exited(0), "it has nothing to read");
    }

    #[test]
    fn the_time_limit_ends_a_command_and_all_that_it_started() {
        let begun = Instant::now();
        let ended = of("echo begun; sleep 1000 & echo $!; wait", 1);
        assert_eq!(ended.end, CommandEnd::TimedOut);
        assert!(begun.elapsed() < Duration::from_secs(60));
        let pid: i32 = ended.stdout.lines().nth(1).unwrap().parse().unwrap();
        let is_running = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.contains("(sleep)") && !stat.contains(") Z")
        };
        while is_running() && begun.elapsed() < Duration::from_secs(60) {
            thread::sleep(LOOK);
        }
        assert!(!is_running(), "sleep {pid} is still there");
    }

    #[test]
    fn background_processes_of_a_command_delay_nothing() {
        let begun = Instant::now();
        assert_eq!(of("sleep 30 & echo begun", 60).end, CommandEnd::Exited(0));
        assert!(begun.elapsed() < Duration::from_secs(25));
    }
}
