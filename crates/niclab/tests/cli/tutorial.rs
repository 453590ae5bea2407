//! Chapters of the book: files are written, commands run, and what is shown is compared.

use std::fs;
use std::path::Path;

use niclab_device::cores::allowed;

use crate::command::{cores, niclab, run, scratch};
use crate::ids_run;
use crate::pages::{ANY, SHOWN, Shown, blocks, carry_out_as_root, commands, missing};

const CHAPTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rules-tutorial.md");

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/first-program.md");

const IDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ids.md");

const ANALYTICS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/analytics.md");

const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rules.md");

/// Runs a command of the chapter in `directory`, and compares what it says.
fn carry_out(command: &str, expected: &str, directory: &Path) {
    let words: Vec<&str> = command.split_whitespace().collect();
    assert_eq!(words[0], "niclab", "{command}");
    let mut started = niclab(&words[1..]);
    // Programs of the chapter are there.
    let path = std::env::var("PATH").unwrap_or_default();
    started.current_dir(directory).env("PATH", format!("{}:{path}", directory.display()));
    let ended = run(started);
    let message = format!("{}{}", ended.out, ended.err);
    match expected.trim_end() {
        ANY => assert_eq!(ended.code, Some(0), "{command}: {ended:?}"),
        _ => assert_eq!(message, expected, "{command}"),
    }
}

/// Carries a chapter out in a directory; how many files and commands it has, and what it has for
/// root.
fn carried_out(chapter: &str, directory: &Path) -> (usize, usize, Vec<Shown>) {
    let measures = allowed().len() >= 2;
    let (mut files, mut count, mut for_root) = (0, 0, Vec::new());
    for (info, text) in blocks(&fs::read_to_string(chapter).unwrap()) {
        if info == "sh" {
            // Whatever it says.
            for_root.push((text, ANY.to_owned()));
            continue;
        }
        if info == SHOWN {
            for_root.extend(commands(&text));
            continue;
        }
        if let Some(name) = info.strip_prefix("text,") {
            fs::write(directory.join(name), &text).unwrap();
            files += 1;
            continue;
        }
        assert_eq!(info, "console", "{text}");
        for (command, expected) in commands(&text) {
            if expected.trim_end() == ANY && !measures {
                println!("SKIP {command}: this process may use one core alone");
                continue;
            }
            carry_out(&command, &expected, directory);
            count += 1;
        }
    }
    (files, count, for_root)
}

#[test]
fn the_chapter_about_rules_runs_as_written() {
    let _cores = cores();
    let (files, commands, _) = carried_out(CHAPTER, scratch().path());
    assert!(files >= 5 && commands >= 5, "{files} files, {commands} commands");
}

#[test]
fn the_page_about_rules_of_suricata_runs_as_written() {
    let test = "the page about rules of Suricata";
    let (_cores, scratch) = (cores(), scratch());
    ids_run::trace(&scratch.path().join("monday.pcap"), 10, 1);
    if !ids_run::suricata(scratch.path()) {
        println!("SKIP {test}: Suricata is missing (./test unpacks it on Debian)");
        return;
    }
    let (files, commands, _) = carried_out(IDS, scratch.path());
    assert_eq!((files, commands), (3, 3));
}

#[test]
fn the_page_about_tuples_runs_as_written() {
    let place = scratch();
    let (files, commands, more) = carried_out(ANALYTICS, place.path());
    let (shell, for_root): (Vec<_>, Vec<_>) =
        more.into_iter().partition(|(_, message)| message == ANY);
    assert_eq!((files, commands, shell.len(), for_root.len()), (1, 2, 2, 16));
    // Those of other hosts, in a shell in which `niclab` is this one.
    for (text, _) in &shell {
        let path = Path::new(env!("CARGO_BIN_EXE_niclab")).parent().unwrap();
        let paths = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
        let mut bash = std::process::Command::new("bash");
        bash.args(["-euc", text]).env("PATH", paths).current_dir(place.path());
        let ended = run(bash);
        assert_eq!(ended.code, Some(0), "{text}{ended:?}");
        assert!(ended.err.contains("100,000 tuples"), "{text}{ended:?}");
    }
    let lines = |name: &str| fs::read_to_string(place.path().join(name)).unwrap().lines().count();
    assert_eq!((lines("both.jsonl"), lines("all.jsonl")), (10, 10));
    match missing(&["unshare", "ip", "cmp"]) {
        Some(reason) => println!("SKIP tuples by a card: {reason}"),
        None => carry_out_as_root(&for_root, place.path()),
    }
}

#[test]
fn the_chapter_about_programs_runs_as_written() {
    let test = "the chapter about programs on the card";
    let (_cores, scratch) = (cores(), scratch());
    let (files, commands, for_root) = carried_out(PROGRAMS, scratch.path());
    assert_eq!((files, commands), (3, 2));
    if let Some(reason) = missing(&["unshare", "ip", "ping", "ethtool"]) {
        println!("SKIP {test}: {reason}");
        return;
    }
    assert!(for_root.iter().filter(|(_, message)| message.contains("3 received")).count() == 4);
    carry_out_as_root(&for_root, scratch.path());
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
