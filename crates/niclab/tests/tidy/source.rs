//! Source files as the rules read them: lines with comments and literals blanked, tests marked.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One file: its path from the root of the repository, and its lines.
pub struct File {
    pub path: String,
    pub lines: Vec<Line>,
}

/// One line: as written, its code alone (comments and literals blanked), and whether only tests
/// compile it.
pub struct Line {
    pub raw: String,
    pub code: String,
    pub test: bool,
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files git tracks, and those it would if they were added.
pub fn tree() -> Option<Vec<File>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let listed = String::from_utf8(listed.stdout).expect("paths are UTF-8");
    // A binary file has a path and no lines.
    let read = |path: &str| {
        let bytes = std::fs::read(root().join(path)).ok()?;
        Some(file(path, &String::from_utf8(bytes).unwrap_or_default()))
    };
    Some(listed.split_terminator('\0').filter_map(read).collect())
}

pub fn file(path: &str, text: &str) -> File {
    let code = if path.ends_with(".rs") { code_of(text) } else { text.to_owned() };
    let pairs = text.lines().zip(code.lines());
    let mut lines: Vec<Line> =
        pairs.map(|(raw, code)| Line { raw: raw.into(), code: code.into(), test: false }).collect();
    mark_tests(&mut lines);
    File { path: path.to_owned(), lines }
}

/// Marks what follows `#[cfg(test)]` and `#[test]`, to the end of the item.
fn mark_tests(lines: &mut [Line]) {
    for start in 0..lines.len() {
        let code = &lines[start].code;
        let attribute = ["#[cfg(test)]", "#[cfg(all(test", "#[test]"];
        if attribute.iter().any(|a| code.contains(a)) {
            let end = item_end(lines, start);
            lines[start..=end].iter_mut().for_each(|line| line.test = true);
        }
    }
}

/// Rust source with comments, strings and characters blanked; lines stay where they are.
fn code_of(text: &str) -> String {
    let source: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < source.len() {
        let end = literal_end(&source, at);
        if end == at {
            code.push(source[at]);
            at += 1;
            continue;
        }
        code.extend(source[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    code
}

/// End of the comment or literal that begins at `at`; `at` itself where none begins.
fn literal_end(source: &[char], at: usize) -> usize {
    let rest = &source[at..];
    let in_word = at > 0 && (source[at - 1].is_alphanumeric() || source[at - 1] == '_');
    match rest {
        ['/', '/', ..] => at + rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => block_comment_end(source, at),
        ['r', '#' | '"', ..] if !in_word => raw_string_end(source, at),
        ['b', 'r', '#' | '"', ..] if !in_word => raw_string_end(source, at + 1),
        ['"', ..] => quoted_end(source, at, '"'),
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => quoted_end(source, at, '\''),
        _ => at,
    }
}

fn quoted_end(source: &[char], start: usize, quote: char) -> usize {
    let mut at = start + 1;
    while at < source.len() && source[at] != quote {
        at += if source[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(source.len())
}

fn block_comment_end(source: &[char], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < source.len() {
        match source[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

/// End of `r"…"` or `r#"…"#`; the `r` itself of a raw identifier such as `r#type`.
fn raw_string_end(source: &[char], start: usize) -> usize {
    let hashes = source[start + 1..].iter().take_while(|&&c| c == '#').count();
    let open = start + 1 + hashes;
    if source.get(open) != Some(&'"') {
        return start;
    }
    let mut at = open + 1;
    while at < source.len() {
        let closes = source[at] == '"'
            && source[at + 1..].iter().take_while(|&&c| c == '#').count() >= hashes;
        if closes {
            return at + 1 + hashes;
        }
        at += 1;
    }
    at
}

/// `true` where `text` stands in `code` and is not the tail of a longer word (`print!` in
/// `sprint!`; the leading `e` of `eprint!` is let through).
pub fn contains_token(code: &str, text: &str) -> bool {
    let starts_word = text.starts_with(|c: char| c.is_alphanumeric());
    code.match_indices(text).any(|(at, _)| {
        let before = code[..at].strip_suffix('e').unwrap_or(&code[..at]);
        !starts_word || !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}

pub fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

pub fn declares_function(code: &str) -> bool {
    let named = |at: usize| {
        let name = code[at + 3..].trim_start();
        name.starts_with(|c: char| c.is_alphabetic() || c == '_')
    };
    code.match_indices("fn ").any(|(at, _)| {
        named(at) && !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}

/// Last line of the item that begins at line `start`: where its braces close, or its `;`.
pub fn item_end(lines: &[Line], start: usize) -> usize {
    let (mut braces, mut brackets) = (0_i32, 0_i32);
    for (index, line) in lines.iter().enumerate().skip(start) {
        for c in line.code.chars() {
            match c {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets -= 1,
                '{' => braces += 1,
                '}' => braces -= 1,
                _ => {}
            }
            if (c == '}' || c == ';') && braces <= 0 && brackets <= 0 {
                return index;
            }
        }
    }
    lines.len() - 1
}

#[test]
fn code_is_told_from_comments_and_literals() {
    let cases = [
        ("a // {", "a     "),
        ("a /* { /* { */ { */ b", "a                   b"),
        ("f(\"{ \\\" {\", x)", "f(        , x)"),
        ("r#\"{\"{\"# r#type", "         r#type"),
        ("'{' '\\'' &'a T", "         &'a T"),
        ("b\"{\" br\"{\"", "b"),
    ];
    for (text, expected) in cases {
        assert_eq!(code_of(text).trim_end(), expected.trim_end(), "{text}");
    }
}

#[test]
fn a_test_module_ends_where_its_braces_close() {
    let text = "fn a() {}\n#[cfg(test)]\nmod t {\n fn b() {}\n}\nfn c() {}\n#[test]\nfn d() {\n}\n";
    let marks: Vec<bool> = file("a.rs", text).lines.iter().map(|line| line.test).collect();
    assert_eq!(marks, [false, true, true, true, true, false, true, true, true]);
}
