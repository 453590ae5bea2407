//! Chapters of the book: files are written, commands run, and what is shown is compared.

use std::fs;
use std::path::Path;

use niclab_device::cores::allowed;

use crate::command::{cores, niclab, run, scratch};

const CHAPTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rules-tutorial.md");

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/first-program.md");

const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rules.md");

/// Stands for any output.
const ANY: &str = "…";

/// The fenced blocks of a chapter: what stands behind the fence, and the text.
fn blocks(chapter: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    let mut open = false;
    for line in chapter.lines() {
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

/// Runs a command of the chapter in `directory`, and compares what it says.
fn carry_out(command: &str, expected: &str, directory: &Path) {
    let words: Vec<&str> = command.split_whitespace().collect();
    assert_eq!(words[0], "niclab", "{command}");
    let mut started = niclab(&words[1..]);
    started.current_dir(directory);
    let ended = run(started);
    let said = format!("{}{}", ended.out, ended.err);
    match expected.trim_end() {
        ANY => assert_eq!(ended.code, Some(0), "{command}: {ended:?}"),
        _ => assert_eq!(said, expected, "{command}"),
    }
}

/// Carries a chapter out in a directory; how many files and commands it has, and the scripts that
/// it has for root.
fn carried_out(chapter: &str, directory: &Path) -> (usize, usize, String) {
    let measures = allowed().len() >= 2;
    let (mut files, mut commands, mut scripts) = (0, 0, String::new());
    for (info, text) in blocks(&fs::read_to_string(chapter).unwrap()) {
        if info == "sh" {
            scripts.push_str(&text);
            continue;
        }
        if let Some(name) = info.strip_prefix("text,") {
            fs::write(directory.join(name), &text).unwrap();
            files += 1;
            continue;
        }
        assert_eq!(info, "console", "{text}");
        for part in text.split("$ ").skip(1) {
            let (command, expected) = part.split_once('\n').unwrap();
            if expected.trim_end() == ANY && !measures {
                println!("SKIP {command}: this process may use one core alone");
                continue;
            }
            carry_out(command, expected, directory);
            commands += 1;
        }
    }
    (files, commands, scripts)
}

#[test]
fn the_chapter_about_rules_runs_as_written() {
    let _cores = cores();
    let (files, commands, _) = carried_out(CHAPTER, scratch().path());
    assert!(files >= 5 && commands >= 5, "{files} files, {commands} commands");
}

#[test]
fn the_chapter_about_programs_runs_as_written() {
    let test = "the chapter about programs on the card";
    let (_cores, scratch) = (cores(), scratch());
    let (files, commands, scripts) = carried_out(PROGRAMS, scratch.path());
    assert_eq!((files, commands), (3, 2));
    if let Some(reason) = missing(&["unshare", "ip", "ping", "ethtool"]) {
        println!("SKIP {test}: {reason}");
        return;
    }
    // Names of namespaces that are the test's own.
    let own = "mount -t tmpfs none /run && mkdir -p /run/netns && ";
    let command = Path::new(env!("CARGO_BIN_EXE_niclab")).parent().unwrap().display().to_string();
    let path = format!("{command}:{}", std::env::var("PATH").unwrap_or_default());
    let script = format!("{own}set -x\n{scripts}");
    let mut started = std::process::Command::new("unshare");
    started.args(["-m", "-n", "bash", "-c", &script]).current_dir(scratch.path());
    let ended = run({
        started.env("PATH", path);
        started
    });
    let said = format!("{}{}", ended.out, ended.err);
    assert_eq!(ended.code, Some(0), "{said}");
    assert_eq!(said.matches("3 packets transmitted, 3 received").count(), 4, "{said}");
    assert_eq!(said.matches("3 packets transmitted, 0 received").count(), 1, "{said}");
    for phrase in ["\nblocked\n", "\n3\n", "blocked: 2 of 256 entries", "the card ends"] {
        assert!(said.contains(phrase), "`{phrase}` is missing in: {said}");
    }
}

/// Why namespaces with interfaces of ours cannot be had here.
fn missing(programs: &[&str]) -> Option<String> {
    let is_there = |program: &&&str| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &format!("command -v {program}")]);
        run(command).code == Some(0)
    };
    if let Some(program) = programs.iter().find(|program| !is_there(program)) {
        return Some(format!("needs {program}"));
    }
    let mut command = std::process::Command::new("unshare");
    command.args(["-m", "-n", "true"]);
    if run(command).code != Some(0) {
        return Some("needs root".to_owned());
    }
    let has_tap = fs::exists("/dev/net/tun").unwrap_or(false);
    (!has_tap).then(|| "no /dev/net/tun: this kernel has no TAP interfaces".to_owned())
}

#[test]
fn the_examples_of_the_book_have_nothing_to_mend() {
    let scratch = scratch();
    let file = scratch.path().join("example.flow");
    let is_rules = |text: &str| ["# ", "flow ", "set "].iter().any(|word| text.starts_with(word));
    let mut examples = 0;
    for (_, text) in blocks(&fs::read_to_string(BOOK).unwrap()) {
        if !is_rules(&text) {
            continue;
        }
        fs::write(&file, &text).unwrap();
        let mut command = niclab(&["rules", "check", "--strict"]);
        command.arg(&file);
        let ended = run(command);
        assert_eq!(ended.code, Some(0), "{text}{}", ended.out);
        examples += 1;
    }
    assert!(examples >= 5, "{examples} examples");
}
