//! Links of Markdown files: to files, to headings in them, and from the book's contents to its
//! pages. And headings without a text.

use std::collections::{HashMap, HashSet};

use crate::rules::{Offence, offences};
use crate::source::File;

const CONTENTS: &str = "docs/SUMMARY.md";

/// Links to files that do not exist.
pub fn dead_links(files: &[File]) -> Vec<Offence> {
    let exists = |path: &str| {
        let directory = format!("{path}/");
        files.iter().any(|f| f.path == path || f.path.starts_with(&directory))
    };
    offences(markdown(files), |file, line| {
        let mut paths = links(&line.raw).map(|(path, _)| path).filter(|path| !path.is_empty());
        paths.any(|path| !exists(&joined(home(file), path)))
    })
}

/// Links to headings that their page does not have.
pub fn dead_anchors(files: &[File]) -> Vec<Offence> {
    let known: HashMap<&str, HashSet<String>> =
        markdown(files).map(|file| (file.path.as_str(), anchors(file))).collect();
    offences(markdown(files), |file, line| {
        links(&line.raw).filter(|(_, anchor)| !anchor.is_empty()).any(|(path, anchor)| {
            let page = match path {
                "" => file.path.clone(),
                path => joined(home(file), path),
            };
            known.get(page.as_str()).is_some_and(|known| !known.contains(anchor))
        })
    })
}

/// Pages of the book that its contents do not list.
pub fn unlisted_pages(files: &[File]) -> Vec<Offence> {
    let Some(contents) = files.iter().find(|file| file.path == CONTENTS) else {
        return vec![Offence::of_file(CONTENTS, "the file is missing".to_owned())];
    };
    let all = contents.lines.iter().flat_map(|line| links(&line.raw));
    let listed: HashSet<String> = all.map(|(path, _)| joined(home(contents), path)).collect();
    markdown(files)
        .filter(|page| page.path.starts_with("docs/") && page.path != CONTENTS)
        .filter(|page| !listed.contains(&page.path))
        .map(|page| Offence::of_file(&page.path, format!("not in {CONTENTS}")))
        .collect()
}

/// Headings that the next heading follows without a text between them.
pub fn empty_sections(files: &[File]) -> Vec<Offence> {
    let mut found = Vec::new();
    for page in markdown(files) {
        let mut is_code = false;
        let mut was_heading = false;
        let lines = page.lines.iter().enumerate();
        for (index, line) in lines.filter(|(_, line)| !line.raw.trim().is_empty()) {
            is_code ^= line.raw.starts_with("```");
            let is_heading = !is_code && heading(&line.raw).is_some();
            if is_heading && was_heading {
                let (path, text) = (page.path.clone(), line.raw.clone());
                found.push(Offence { path, line: index + 1, text });
            }
            was_heading = is_heading;
        }
    }
    found
}

/// The title of a heading.
fn heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#').strip_prefix(' ');
    title.filter(|_| line.starts_with('#'))
}

fn markdown(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.path.ends_with(".md"))
}

fn home(file: &File) -> &str {
    file.path.rsplit_once('/').map_or("", |(home, _)| home)
}

/// Relative links in a line of Markdown: path and heading, each of which may be empty.
fn links(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?;
        (!target.contains("://")).then(|| target.split_once('#').unwrap_or((target, "")))
    })
}

/// `target` as seen from the directory `home`, without `..`.
fn joined(home: &str, target: &str) -> String {
    let mut parts: Vec<&str> = home.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// What links to the headings of a page end with, in a browser of the repository and in the book.
fn anchors(page: &File) -> HashSet<String> {
    let mut times: HashMap<String, usize> = HashMap::new();
    let mut found = HashSet::new();
    let mut is_code = false;
    for line in &page.lines {
        if line.raw.starts_with("```") {
            is_code = !is_code;
        }
        if let Some(title) = heading(&line.raw).filter(|_| !is_code) {
            let anchor = anchor(title.trim());
            let before = times.entry(anchor.clone()).or_default();
            found.insert(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
            *before += 1;
        }
    }
    found
}

fn anchor(title: &str) -> String {
    let spaced = title.chars().map(|c| if c == ' ' { '-' } else { c });
    let kept = spaced.filter(|c| c.is_alphanumeric() || ['-', '_'].contains(c));
    kept.flat_map(char::to_lowercase).collect()
}

#[test]
fn anchors_are_those_of_headings_outside_of_code() {
    let page = "# A `b:…` and C_d\n```\n# e\n```\n## f\n### f\n#g\ntext # h\n";
    let mut found: Vec<String> =
        anchors(&crate::source::file("docs/a.md", page)).into_iter().collect();
    found.sort();
    assert_eq!(found, ["a-b-and-c_d", "f", "f-1"]);
}

#[test]
fn a_page_that_the_contents_leave_out_is_found() {
    let file = crate::source::file;
    let contents = || file(CONTENTS, "- [a](a.md)\n- [c](b/c.md)\n");
    let listed = [contents(), file("docs/a.md", ""), file("docs/b/c.md", ""), file("d.md", "")];
    assert!(unlisted_pages(&listed).is_empty());
    let found = unlisted_pages(&[contents(), file("docs/c.md", "")]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path, "docs/c.md");
}
