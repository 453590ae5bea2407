//! Blocks of pages, and what root does in them: run in one shell, in namespaces of the test's own,
//! and compared with what is shown.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::command::{run, scratch};

/// Stands for any text in a line, and on a line of its own for any lines.
pub const ANY: &str = "…";

/// What root's blocks with what they say have behind the fence; each command stands behind `$ `.
pub const SHOWN: &str = "console,root";

/// A command, and what it is to say.
pub type Shown = (String, String);

/// The fenced blocks of a page: what stands behind the fence, and the text.
pub fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    let mut open = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(_) if open => open = false,
            Some(info) => {
                open = true;
                blocks.push((info.to_owned(), String::new()));
            }
            None if open => {
                let (_, text) = blocks.last_mut().unwrap();
                text.push_str(line);
                text.push('\n');
            }
            None => {}
        }
    }
    assert!(!open, "a block has no end");
    blocks
}

/// The commands of a block, each with what stands behind it.
pub fn commands(text: &str) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => commands.push((command.to_owned(), String::new())),
            None => {
                let (_, message) = commands.last_mut().expect("a block begins with a command");
                message.push_str(line);
                message.push('\n');
            }
        }
    }
    commands
}

/// Runs commands one behind the other in one shell, in namespaces of its own, and compares what
/// each of them says.
pub fn carry_out_as_root(commands: &[Shown], directory: &Path) {
    let message = scratch();
    // Names of namespaces that are the test's own.
    let mut script = "mount -t tmpfs none /run && mkdir -p /run/netns\n".to_owned();
    for (number, (command, _)) in commands.iter().enumerate() {
        script.push_str(&format!("{{ {command}\n}} >\"$SAID/{number}\" 2>&1\n"));
    }
    let here = Path::new(env!("CARGO_BIN_EXE_niclab")).parent().unwrap().display().to_string();
    let path = format!("{here}:{}", std::env::var("PATH").unwrap_or_default());
    // Whatever it starts ends with it.
    let mut shell = Command::new("unshare");
    shell.args(["-m", "-n", "-p", "-f", "--mount-proc", "--kill-child"]);
    shell.args(["timeout", "100", "bash", "-c", &script]);
    shell.current_dir(directory).stdin(Stdio::null());
    let ended = run({
        shell.env("PATH", path).env("SAID", message.path());
        shell
    });
    let message = |number: usize| fs::read_to_string(message.path().join(number.to_string()));
    for (number, (command, expected)) in commands.iter().enumerate() {
        let message = message(number).unwrap_or_default();
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert!(
            fits(&lines(expected), &lines(&message)),
            "{command}\nis shown to say:\n{expected}\nand says:\n{message}\n{ended:?}"
        );
    }
}

/// Whether lines are as they are shown.
fn fits(shown: &[String], message: &[String]) -> bool {
    match shown.split_first() {
        None => message.is_empty(),
        Some((line, rest)) if line == ANY => {
            (0..=message.len()).any(|count| fits(rest, &message[count..]))
        }
        Some((line, rest)) => message
            .split_first()
            .is_some_and(|(first, more)| line_fits(line, first) && fits(rest, more)),
    }
}

fn line_fits(shown: &str, message: &str) -> bool {
    let Some((front, rest)) = shown.split_once(ANY) else { return shown == message };
    let Some(behind) = message.strip_prefix(front) else { return false };
    let mut ends = behind.char_indices().map(|(at, _)| at).chain([behind.len()]);
    ends.any(|at| line_fits(rest, &behind[at..]))
}

/// Why namespaces with interfaces of ours cannot be had here.
pub fn missing(programs: &[&str]) -> Option<String> {
    let is_there = |program: &&&str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("command -v {program}")]);
        run(command).code == Some(0)
    };
    if let Some(program) = programs.iter().find(|program| !is_there(program)) {
        return Some(format!("needs {program}"));
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "-n", "-p", "-f", "--mount-proc", "true"]);
    if run(command).code != Some(0) {
        return Some("needs root".to_owned());
    }
    let has_tap = fs::exists("/dev/net/tun").unwrap_or(false);
    (!has_tap).then(|| "no /dev/net/tun: this kernel has no TAP interfaces".to_owned())
}

#[test]
fn an_example_of_a_page_is_compared_with_the_output() {
    let of = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    for (shown, message) in [
        ("", ""),
        ("a", "a"),
        ("…", ""),
        ("…\nb", "x\ny\nb"),
        ("a … c…\n…", "a b c d"),
        ("…a…", "ba"),
    ] {
        assert!(fits(&of(shown), &of(message)), "{shown}: {message}");
    }
    for (shown, message) in [("", "a"), ("a", ""), ("a", "b"), ("…\nb", "b\nc"), ("a…c", "a b")]
    {
        assert!(!fits(&of(shown), &of(message)), "{shown}: {message}");
    }
    let page = "text\n```console,root\n$ one\n1\n…\n$ two\n```\n";
    let (info, text) = blocks(page).remove(0);
    assert_eq!(info, SHOWN);
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(commands(&text), [pair("one", "1\n…\n"), pair("two", "")]);
}
