//! The words of the project: those that `docs/glossary.md` replaces, and type names too general.

use crate::ratchet::{Counted, Ratchet};
use crate::rules::{Offence, is_beside_the_product};
use crate::source::{File, Line};

const GLOSSARY: &str = "docs/glossary.md";

pub const COUNTED: &[Ratchet] = &[
    Ratchet {
        name: "word",
        remedy: "use the term of docs/glossary.md",
        find: replaced_words,
        bad: &[
            &[SAMPLE_GLOSSARY, ("docs/a.md", "A Guest has gone.\n")],
            &[SAMPLE_GLOSSARY, ("docs/a.md", "guests\n")],
            &[SAMPLE_GLOSSARY, ("experiments/a.toml", "[[reduced.guest]]\n")],
            &[SAMPLE_GLOSSARY, ("crates/nic/src/a.rs", "//! Rings.\nfn open_guest() {}\n")],
            &[SAMPLE_GLOSSARY, ("crates/nic/src/a.rs", "//! Rings.\nstruct GuestRing;\n")],
            &[SAMPLE_GLOSSARY, ("crates/nic/src/a.rs", "//! What becomes of frames.\n")],
            &[SAMPLE_GLOSSARY, ("crates/nic/src/a.rs", "//! Rings.\npub(crate) struct Side {\n")],
            &[("docs/a.md", "a glossary that is missing\n")],
            &[("docs/glossary.md", "# Glossary\n")],
            &[("docs/glossary.md", "| term | meaning | not |\n|---|---|---|\n| a | b |\n")],
            &[("docs/glossary.md", "| term | meaning | not |\n|---|---|---|\n| a | | `b` |\n")],
        ],
        good: &[
            SAMPLE_GLOSSARY,
            ("docs/a.md", "An external queue; a guesthouse; becomes a side of\n"),
            ("crates/nic/src/a.rs", "//! Rings.\nstruct LeftSide;\nfn f() -> Side {}\n"),
            ("reference/x/README.md", "guest\n"),
        ],
    },
    Ratchet {
        name: "type",
        remedy: "a name that more than three types have says too little: add the noun it is about",
        find: shared_type_names,
        bad: &[
            &[("crates/nic/src/a.rs", FOUR_TYPES)],
            &[
                ("crates/nic/src/a.rs", "pub struct Kind;\nenum Kind {}\n"),
                ("crates/load/src/a.rs", "mod a {\n    trait Kind {}\n}\ntype Kind<T> = T;\n"),
            ],
        ],
        good: &[
            SAMPLE_GLOSSARY,
            ("crates/nic/src/a.rs", "struct Kind;\nstruct Kind;\nstruct Kind;\n"),
            (
                "crates/nic/src/b.rs",
                "impl A {\n    type Kind = u8;\n}\n#[cfg(test)]\nenum Kind {}\n",
            ),
            ("crates/nic/tests/a.rs", "struct Kind;\n"),
            (
                "crates/packet/src/wire/a.rs",
                "struct Repr;\nstruct Repr;\nstruct Repr;\nstruct Repr;\n",
            ),
        ],
    },
];

const SAMPLE_GLOSSARY: (&str, &str) = (
    GLOSSARY,
    "| term | meaning | not |\n|---|---|---|\n| queue | A ring. | `guest`, spread, `Side` |\n\
     | fate | An end. | `becomes of` |\n",
);

const FOUR_TYPES: &str = "struct Kind;\nstruct Kind;\nstruct Kind;\nstruct Kind;\n";

/// Types of one name, at most.
const SAME_NAME_MAX: usize = 3;

/// Names that several types have on purpose: the name, the folder, and why.
const SHARED_NAMES: &[(&str, &str, &str)] = &[
    ("Repr", "crates/packet/src/wire/", "all headers are built alike: a view, its fields, `Repr`"),
    ("Parts", "crates/lab/src/experiments/", "every experiment declares the lists of its grids"),
];

/// What the glossary replaces.
#[derive(Debug, PartialEq)]
enum Replaced {
    /// One word or several in a row, in lower case.
    Words(Vec<String>),
    /// The whole name of a type.
    Type(String),
}

fn replaced_words(files: &[File]) -> Vec<Counted> {
    let all = match glossary(files) {
        Ok(all) => all,
        Err(text) => return vec![Counted::new(GLOSSARY, Offence::of_file(GLOSSARY, text))],
    };
    let mut found = Vec::new();
    for file in files.iter().filter(|file| is_ours(&file.path)) {
        for (index, line) in file.lines.iter().enumerate() {
            let words = words_of(&line.raw);
            for replaced in &all {
                let (subject, times) = match replaced {
                    Replaced::Words(run) => {
                        let times = words.windows(run.len()).filter(|found| is_run(found, run));
                        (run.join(" "), times.count())
                    }
                    Replaced::Type(name) => {
                        (name.clone(), usize::from(defined_type(file, line) == Some(name)))
                    }
                };
                for _ in 0..times {
                    let text = format!("{subject}: {}", line.raw.trim());
                    let offence = Offence { path: file.path.clone(), line: index + 1, text };
                    found.push(Counted::new(&subject, offence));
                }
            }
        }
    }
    found
}

/// Whether words are these, or the plural of a single one.
fn is_run(found: &[String], run: &[String]) -> bool {
    match (found, run) {
        ([found], [word]) => found.strip_suffix('s').unwrap_or(found) == word || found == word,
        _ => found == run,
    }
}

/// Prose and code that we write. Published data, stored results, the glossary and these rules name
/// words that are replaced.
fn is_ours(path: &str) -> bool {
    let outside = ["reference/", "docs/results/", GLOSSARY, "crates/niclab/tests/tidy/"];
    let endings = [".md", ".rs", ".toml", ".c", ".h", ".sh"];
    let written = endings.iter().any(|ending| path.ends_with(ending));
    written && !outside.iter().any(|folder| path.starts_with(folder))
}

/// The words in code that the third column has.
fn glossary(files: &[File]) -> Result<Vec<Replaced>, String> {
    let file = files.iter().find(|file| file.path == GLOSSARY).ok_or("the file is missing")?;
    let mut found = Vec::new();
    let rows = file.lines.iter().map(|line| line.raw.as_str()).filter(|row| row.starts_with('|'));
    for row in rows.filter(|row| !row.starts_with("|--") && !row.starts_with("| term |")) {
        let cells: Vec<&str> = row.trim().trim_matches('|').split(" |").map(str::trim).collect();
        let [term, meaning, not] = cells[..] else {
            return Err(format!("not three columns: {row}"));
        };
        if term.is_empty() || meaning.is_empty() {
            return Err(format!("no term or no meaning: {row}"));
        }
        let quoted = not.split('`').skip(1).step_by(2);
        found.extend(quoted.map(|word| match word.starts_with(char::is_uppercase) {
            true => Replaced::Type(word.to_owned()),
            false => Replaced::Words(word.split(' ').map(str::to_owned).collect()),
        }));
    }
    if found.is_empty() { Err("no row replaces a word".to_owned()) } else { Ok(found) }
}

/// Words in lower case; those of identifiers too: `queue_count` and `QueueCount` have two.
fn words_of(line: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in line.chars() {
        let begins = !before.is_alphabetic() || c.is_uppercase() && before.is_lowercase();
        if c.is_alphabetic() {
            if begins {
                found.push(String::new());
            }
            found.last_mut().into_iter().for_each(|word| word.extend(c.to_lowercase()));
        }
        before = c;
    }
    found
}

fn shared_type_names(files: &[File]) -> Vec<Counted> {
    let mut all: Vec<(&str, &File, usize)> = Vec::new();
    for file in files {
        for (index, line) in file.lines.iter().enumerate() {
            all.extend(defined_type(file, line).map(|name| (name, file, index + 1)));
        }
    }
    // The other rule finds the names that the glossary replaces.
    let replaced = glossary(files).unwrap_or_default();
    all.retain(|(name, file, _)| {
        let is_replaced = replaced.contains(&Replaced::Type((*name).to_owned()));
        !is_replaced && !is_shared_on_purpose(name, &file.path)
    });
    let times = |name: &str| all.iter().filter(|(other, ..)| *other == name).count();
    let offences = all.iter().filter(|(name, ..)| times(name) > SAME_NAME_MAX);
    offences
        .map(|(name, file, line)| {
            let text = format!("one of {} types that are named {name}", times(name));
            Counted::new(name, Offence { path: file.path.clone(), line: *line, text })
        })
        .collect()
}

fn is_shared_on_purpose(name: &str, path: &str) -> bool {
    SHARED_NAMES.iter().any(|(shared, folder, _)| *shared == name && path.starts_with(folder))
}

/// The type that a line of the product's code defines. Types of traits have the names of the trait.
fn defined_type<'a>(file: &File, line: &'a Line) -> Option<&'a str> {
    if !file.path.ends_with(".rs") || line.test || is_beside_the_product(&file.path) {
        return None;
    }
    let mut code = line.code.as_str();
    let is_indented = code.starts_with(' ');
    code = code.trim_start();
    if let Some(rest) = code.strip_prefix("pub") {
        code = rest.trim_start();
        if code.starts_with('(') {
            code = code.split_once(')')?.1.trim_start();
        }
    }
    let (keyword, rest) = code.strip_prefix("unsafe ").unwrap_or(code).split_once(' ')?;
    let defines = ["struct", "enum", "trait", "union"].contains(&keyword);
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    let is_type = name.starts_with(char::is_uppercase);
    (is_type && (defines || keyword == "type" && !is_indented)).then_some(name)
}

#[test]
fn words_are_found_in_identifiers() {
    let words = |line: &str| words_of(line).join(" ");
    assert_eq!(
        words("The guest's `queue_count` of QueueRSS2"),
        "the guest s queue count of queue rss"
    );
    assert_eq!(words("RSSChange"), "rsschange");
}

#[test]
fn the_glossary_is_read_whole() {
    let files = [crate::source::file(GLOSSARY, SAMPLE_GLOSSARY.1)];
    let words = |text: &str| Replaced::Words(text.split(' ').map(str::to_owned).collect());
    let expected = [words("guest"), Replaced::Type("Side".to_owned()), words("becomes of")];
    assert_eq!(glossary(&files).unwrap(), expected);
}

#[test]
fn no_shared_name_is_stale() {
    let Some(files) = crate::source::tree() else {
        println!("SKIP no_shared_name_is_stale: not a git working tree, or git is missing");
        return;
    };
    for (name, folder, why) in SHARED_NAMES {
        let named = files.iter().filter(|file| file.path.starts_with(folder));
        let times = named.flat_map(|f| f.lines.iter().filter(|l| defined_type(f, l) == Some(name)));
        assert!(times.count() > SAME_NAME_MAX && !why.is_empty(), "{name} in {folder} is stale");
    }
}
