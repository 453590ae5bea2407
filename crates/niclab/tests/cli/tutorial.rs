//! The chapters about rules: files are written, commands run, and what is shown is compared.

use std::fs;
use std::path::Path;

use niclab_device::cores::allowed;

use crate::command::{cores, niclab, run, scratch};

const CHAPTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rules-tutorial.md");

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

#[test]
fn the_chapter_about_rules_runs_as_written() {
    let _cores = cores();
    let scratch = scratch();
    let measures = allowed().len() >= 2;
    let (mut files, mut commands) = (0, 0);
    for (info, text) in blocks(&fs::read_to_string(CHAPTER).unwrap()) {
        if let Some(name) = info.strip_prefix("text,") {
            fs::write(scratch.path().join(name), &text).unwrap();
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
            carry_out(command, expected, scratch.path());
            commands += 1;
        }
    }
    assert!(files >= 5 && commands >= 5, "{files} files, {commands} commands");
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
