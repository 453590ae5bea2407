//! Every command line in the documents is accepted.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};

use super::Arguments;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every document of the tree, but what a build made.
fn documents(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let is_made = name == "target" || name == "node_modules" || name.starts_with('.');
        if path.is_dir() && !path.is_symlink() && !is_made {
            documents(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The words of a line of a shell that calls niclab, by whatever path; without what the shell does.
fn words(line: &str) -> Option<Vec<String>> {
    let line = line.trim().trim_start_matches("$ ").trim_start_matches("sudo ");
    let mut words = split(line).into_iter();
    let head: &[&str] = match words.next()?.as_str() {
        "./run" => &["niclab", "run"],
        program if program == "niclab" || program.ends_with("/niclab") => &["niclab"],
        _ => return None,
    };
    Some(head.iter().map(|word| (*word).to_owned()).chain(words).collect())
}

/// The words of a line up to what the shell does. What is quoted, or the output of another command,
/// is of one word.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote): (Vec<String>, Option<String>, _) = (vec![], None, None);
    for char in line.chars() {
        match (quote, char) {
            (Some(end), _) if end == char => quote = None,
            (None, '"' | '\'') => quote = Some(char),
            (None, '(') if word.as_deref() == Some("$") => quote = Some(')'),
            (None, '#' | '|' | '>' | ';' | '&') => break,
            (None, _) if char.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

/// Lines in the shell blocks of a document, each with its number; a `\` at the end joins lines.
fn shell_lines(text: &str) -> Vec<(usize, String)> {
    let (mut lines, mut inside, mut joined) = (Vec::new(), false, String::new());
    for (at, line) in text.lines().enumerate() {
        if let Some(language) = line.trim().strip_prefix("```") {
            inside = !inside && matches!(language, "sh" | "console" | "bash" | "shell");
        } else if inside {
            match line.strip_suffix('\\') {
                Some(part) => joined += part,
                None => lines.push((at + 1, std::mem::take(&mut joined) + line)),
            }
        }
    }
    lines
}

#[test]
fn commands_in_the_documents_can_be_typed() {
    let mut paths = Vec::new();
    documents(&root(), &mut paths);
    let (mut typed, mut wrong) = (0, Vec::new());
    for path in paths {
        for (line, text) in shell_lines(&fs::read_to_string(&path).unwrap()) {
            let Some(words) = words(&text) else { continue };
            typed += 1;
            if let Err(error) = Arguments::try_parse_from(words).map(drop) {
                // A question for help or the version is answered like an error.
                if error.use_stderr() {
                    wrong.push(format!("{}:{line}: {text}\n{error}", path.display()));
                }
            }
        }
    }
    assert!(typed >= 3, "only {typed} commands found: the documents were not read");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_command_that_a_document_names_exists() {
    let mut paths = Vec::new();
    documents(&root(), &mut paths);
    let command = Arguments::command();
    let exists = |name: &str| {
        name.starts_with(['-', '[', '…'])
            || name.chars().all(|c| c.is_ascii_uppercase())
            || command.find_subcommand(name).is_some()
    };
    let (mut named, mut wrong) = (0, Vec::new());
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        for span in text.split('`').filter_map(|span| span.strip_prefix("niclab ")) {
            let name = span.split_whitespace().next().unwrap_or_default();
            named += 1;
            if !exists(name) {
                wrong.push(format!("{}: `niclab {span}`", path.display()));
            }
        }
    }
    assert!(named >= 3, "only {named} commands found: the documents were not read");
    assert!(wrong.is_empty(), "no such command:\n{}", wrong.join("\n"));
}

/// The value of each line `KEY=VALUE` of a unit of systemd.
fn settings<'a>(unit: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    unit.lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
}

#[test]
fn units_of_systemd_start_commands_that_can_be_typed() {
    for name in ["nic", "kvs"] {
        let path = root().join(format!("contrib/systemd/niclab-{name}.service"));
        let unit = fs::read_to_string(&path).unwrap();
        let one = |key| settings(&unit, key).next().unwrap_or_else(|| panic!("{name}: no {key}"));
        let (variable, value) = one("Environment").split_once('=').unwrap();
        let command = one("ExecStart").replace(&format!("${variable}"), value.trim_matches('"'));
        let command = command.strip_prefix("/usr/bin/").unwrap();
        let words = command.split_whitespace();
        Arguments::try_parse_from(words).unwrap_or_else(|error| panic!("{command}: {error}"));
        assert_eq!(settings(&unit, "Type").collect::<Vec<_>>(), ["notify"]);
        let file = format!("-/etc/default/niclab-{name}");
        assert_eq!(
            (one("EnvironmentFile"), variable),
            (&*file, &*format!("NICLAB_{}", name.to_uppercase()))
        );
        // Where the control socket is, if there is one.
        let directory = format!("/run/{}/", one("RuntimeDirectory"));
        let sockets = command.split_whitespace().filter(|word| word.starts_with("/run/"));
        assert!(sockets.into_iter().all(|path| path.starts_with(&directory)), "{command}");
    }
}

#[test]
fn a_line_of_a_shell_is_read_up_to_what_the_shell_does() {
    let typed = |line| words(line).map(|words| words.join(" "));
    assert_eq!(typed("$ niclab show DIR | head").as_deref(), Some("niclab show DIR"));
    assert_eq!(typed("./run --full   # all").as_deref(), Some("niclab run --full"));
    assert_eq!(typed("target/release/niclab list").as_deref(), Some("niclab list"));
    assert_eq!(typed("cargo build -p niclab"), None);
    let quoted = words("niclab run --variant a='x -y; z' # b").unwrap();
    assert_eq!(quoted, ["niclab", "run", "--variant", "a=x -y; z"]);
    let block = "```sh\nniclab run \\\n  --full\n```\nniclab no\n```toml\nniclab no\n```\n";
    assert_eq!(shell_lines(block), [(3, "niclab run   --full".to_owned())]);
}

#[test]
fn the_description_contradicts_itself_nowhere() {
    Arguments::command().debug_assert();
}
