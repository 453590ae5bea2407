//! The rules: what each forbids, what to do instead, and samples that break and keep it.
//!
//! A rule that cannot fail is caught here too: every one must find its bad samples.

use std::path::Path;

use crate::claims::false_claims;
use crate::layers::{entangled_experiments, upward_names};
use crate::links::{dead_anchors, dead_links, empty_sections, unlisted_pages};
use crate::map::{Map, SAMPLE};
use crate::source::{File, Line, contains_token, declares_function, file, item_end, words};

/// A line that breaks a rule.
#[derive(Debug)]
pub struct Offence {
    pub path: String,
    pub line: usize,
    pub text: String,
}

/// Path and text of a file made up for a test.
type Sample = (&'static str, &'static str);

pub struct Rule {
    pub name: &'static str,
    /// What to do instead.
    pub remedy: &'static str,
    pub find: fn(&[File]) -> Vec<Offence>,
    pub bad: &'static [Sample],
    pub good: &'static [Sample],
}

const COLUMNS_MAX: usize = 100;
const FUNCTION_LINES_MAX: usize = 70;

pub const RULES: &[Rule] = &[
    Rule {
        name: "columns",
        remedy: "break the line: 100 columns",
        find: long_lines,
        bad: &[("crates/nic/src/a.rs", LONG_LINE)],
        good: &[("crates/nic/src/a.rs", "// a short line\n")],
    },
    Rule {
        name: "function-length",
        remedy: "split the function: 70 lines",
        find: long_functions,
        bad: &[("crates/nic/src/a.rs", LONG_FUNCTION)],
        good: &[("crates/nic/src/a.rs", "fn f(x: fn(u8) -> u8) {\n}\ntrait T { fn g(&self); }\n")],
    },
    Rule {
        name: "module-line",
        remedy: "open the file with `//!` and one plain sentence that says what it is",
        find: missing_module_line,
        bad: &[("crates/nic/src/a.rs", "use std::fmt;\n")],
        good: &[("crates/nic/src/a.rs", "//! Rings of descriptors.\n")],
    },
    Rule {
        name: "readme",
        remedy: "add a README.md that says what the directory holds",
        find: missing_readme,
        bad: &[("crates/nic/Cargo.toml", ""), ("reference/x/a.csv", "")],
        good: &[("crates/nic/Cargo.toml", ""), ("crates/nic/README.md", "")],
    },
    Rule {
        name: "forbid-unsafe",
        remedy: "put #![forbid(unsafe_code)] into lib.rs, or name the module in ARCHITECTURE.md",
        find: missing_forbid_unsafe,
        bad: &[
            ("crates/lab/src/lib.rs", "//! Experiments.\n"),
            ("ARCHITECTURE.md", "# Architecture\n"),
        ],
        good: &[("crates/lab/src/lib.rs", "//! Experiments.\n#![forbid(unsafe_code)]\n")],
    },
    Rule {
        name: "unsafe-module",
        remedy: "keep unsafe code in the modules that ARCHITECTURE.md names",
        find: stray_unsafe,
        bad: &[
            ("crates/lab/src/a.rs", "fn f() { unsafe { g() } }\n"),
            ("ARCHITECTURE.md", "# Architecture\n"),
        ],
        good: &[("crates/lab/src/a.rs", "// unsafe\n#![forbid(unsafe_code)]\nf(\"unsafe\");\n")],
    },
    Rule {
        name: "banned",
        remedy: "see BANNED for what to write instead",
        find: banned_code,
        bad: &[("crates/lab/src/a.rs", "fn f() { g().unwrap() }\n")],
        good: &[(
            "crates/lab/src/a.rs",
            "// g().unwrap()\n#[cfg(test)]\nmod tests {\n    fn f() { g().unwrap() }\n}\n",
        )],
    },
    Rule {
        name: "type-name",
        remedy: "name the type by a noun of the domain: no Manager, Helper, Util",
        find: vague_type_names,
        bad: &[("crates/nic/src/a.rs", "struct RingManager {\n"), ("crates/nic/src/util.rs", "")],
        good: &[("crates/nic/src/a.rs", "pub struct Ring {\n// a RingManager\n")],
    },
    Rule {
        name: "printing",
        remedy: "print by output::stdout() and output::say(): nothing there steers a terminal",
        find: direct_printing,
        bad: &[
            ("crates/niclab/src/a.rs", "use std::io::{Write, stdout};\n"),
            ("crates/niclab/src/a.rs", "fn f() { println!(\"x\") }\n"),
            ("crates/niclab/src/nic/a.rs", "let out = std::io::stderr();\n"),
            ("crates/niclab/src/a.rs", "let out = io::stdout().lock();\n"),
            ("crates/niclab/src/a.rs", "use std::io::{\n    Write,\n    stdout,\n};\n"),
            ("crates/niclab/src/a.rs", "use std::{\n    io::{Write, stderr},\n};\n"),
            ("crates/niclab/src/a.rs", "pub(crate) use std::{fs, io::stdout as out};\n"),
        ],
        good: &[
            ("crates/niclab/src/output.rs", "use std::io::{Write, stdout};\n"),
            ("crates/niclab/src/a.rs", "use std::io::Write;\nuse crate::output::{say, stdout};\n"),
            ("crates/lab/src/a.rs", "use std::io::stdout;\n"),
        ],
    },
    Rule {
        name: "wording",
        remedy: "see WORDING for the plain word",
        find: bad_wording,
        bad: &[("README.md", "It leverages rings.\n"), ("docs/a.md", "a Blazing speed\n")],
        good: &[("README.md", "It uses rings.\n")],
    },
    Rule {
        name: "links",
        remedy: "correct the link, or add the file it points to",
        find: dead_links,
        bad: &[("docs/a.md", "See [b](b.md).\n")],
        good: &[
            ("docs/a.md", "[b](b.md#c) [d](../d.md) [e](https://e.org) [f](#f) [g](../docs/)\n"),
            ("docs/b.md", ""),
            ("d.md", ""),
        ],
    },
    Rule {
        name: "anchors",
        remedy: "correct what follows `#`: the page has no such heading",
        find: dead_anchors,
        bad: &[("docs/a.md", "# A\n\nSee [b](#b).\n"), ("docs/a.md", "[b](../docs/a.md#b)\n")],
        good: &[
            ("docs/a.md", "# A\n\n[a](#a) [b](b.md#b-c) [c](c.rs#L1) [d](https://d.org#d)\n"),
            ("docs/b.md", "## `b` c\n"),
        ],
    },
    Rule {
        name: "empty-section",
        remedy: "a heading needs a sentence below it: write one, or remove the heading",
        find: empty_sections,
        bad: &[("docs/a.md", "# A\n\n## B\n\ntext\n")],
        good: &[("docs/a.md", "# A\n\ntext\n\n```sh\n# one\n# two\n```\n\n## B\n\ntext\n")],
    },
    Rule {
        name: "contents",
        remedy: "list the page in docs/SUMMARY.md, under the kind of page that it is",
        find: unlisted_pages,
        bad: &[("docs/a.md", ""), ("docs/b/c.md", "")],
        good: &[("docs/SUMMARY.md", "- [a](a.md)\n"), ("docs/a.md", ""), ("README.md", "")],
    },
    Rule {
        name: "dependencies",
        remedy: "make Cargo.toml and the table of crates in ARCHITECTURE.md equal",
        find: unmapped_dependencies,
        bad: &[
            ("crates/nic/Cargo.toml", "[dependencies]\nniclab-lab = {}\nniclab-table = {}\n"),
            ("crates/nic/Cargo.toml", "[dev-dependencies]\nniclab-table.workspace = true\n"),
            ("crates/other/Cargo.toml", "[dependencies]\n"),
            ("ARCHITECTURE.md", "# Architecture\n"),
        ],
        good: &[(
            "crates/nic/Cargo.toml",
            "[dependencies]\nniclab-table.workspace = true\n[dev-dependencies]\nniclab-lab = {}\n",
        )],
    },
    Rule {
        name: "claims",
        remedy: "a README says these two things in these words, and nothing else about them",
        find: false_claims,
        bad: &[
            ("crates/nic/README.md", "- Depends on: `table`.\n"),
            (
                "crates/nic/README.md",
                "- Depends on: no crate of this workspace.\n- Unsafe code: none.\n",
            ),
            (
                "crates/table/README.md",
                "- Depends on: no crate of this workspace.\n- Unsafe code: none.\n",
            ),
            (
                "crates/table/README.md",
                "- Depends on: no crate of this workspace.\n- Unsafe code: `grid`.\n",
            ),
            (
                "crates/nic/README.md",
                "- Depends on: `table`.\n- Unsafe code: none.\nIt must not know devices.\n",
            ),
            (
                "crates/nic/README.md",
                "- Depends on: `table`.\n- Unsafe code: none.\n`unsafe` is in `a`.\n",
            ),
        ],
        good: &[
            ("crates/nic/README.md", "# nic\n\n- Depends on: `table`.\n- Unsafe code: none.\n"),
            (
                "crates/table/README.md",
                "- Depends on: no crate of this workspace.\n- Unsafe code: `grid`, `prune`.\n",
            ),
        ],
    },
    Rule {
        name: "layers",
        remedy: "the table of layers in ARCHITECTURE.md: name modules below alone, by crate::",
        find: upward_names,
        bad: &[("crates/apps/src/kvs/store/a.rs", "use crate::kvs::codec::text;\n")],
        good: &[("crates/apps/src/kvs/codec/session.rs", "use crate::kvs::store::Store;\n")],
    },
    Rule {
        name: "experiments",
        remedy: "move shared code to crates/lab/src; analysis is below findings and figures",
        find: entangled_experiments,
        bad: &[
            (
                "crates/lab/src/experiments/a/analysis.rs",
                "use crate::experiments::a::figures::plot;\n",
            ),
            ("crates/lab/src/experiments/a/analysis.rs", "use super::{findings, metrics};\n"),
            ("crates/lab/src/experiments/a/figures.rs", "fn f() { super::findings::f() }\n"),
            ("crates/lab/src/experiments/a/findings/b.rs", "use super::super::figures;\n"),
        ],
        good: &[
            (
                "crates/lab/src/experiments/a/analysis.rs",
                "use super::metrics::RATE;\nuse crate::experiments::a::trials;\n",
            ),
            ("crates/lab/src/experiments/a/figures.rs", "use super::{analysis, strange};\n"),
            ("crates/lab/src/experiments/a/mod.rs", "use self::findings::findings;\n"),
            ("crates/lab/src/experiments/mod.rs", "pub mod a;\nuse self::a::analysis;\n"),
        ],
    },
    Rule {
        name: "confined",
        remedy: "only the crates that CONFINED names may depend on this",
        find: strayed_dependencies,
        bad: &[("crates/nic/Cargo.toml", "[dependencies]\ntokio = { workspace = true }\n")],
        good: &[("crates/device/Cargo.toml", "[dependencies]\ntokio.workspace = true\n")],
    },
    Rule {
        name: "versions",
        remedy: "pin the version in the root Cargo.toml and write `name.workspace = true` here",
        find: local_versions,
        bad: &[("crates/nic/Cargo.toml", "[dev-dependencies]\nproptest = \"1\"\n")],
        good: &[("crates/nic/Cargo.toml", "[dev-dependencies]\nproptest.workspace = true\n")],
    },
    Rule {
        name: "setcap",
        remedy: "say beside it who may run the file: `chgrp GROUP FILE`, `chmod 750 FILE`",
        find: lone_setcap,
        bad: &[("docs/a.md", "setcap cap_net_raw+ep niclab\n")],
        good: &[("docs/a.md", "chgrp lab niclab\nchmod 750 niclab\nsetcap cap_net_raw+ep\n")],
    },
    Rule {
        name: "locked",
        remedy: "build what Cargo.lock and package-lock.json say: `cargo … --locked`, `npm ci`",
        find: unlocked_builds,
        bad: &[
            ("run", "cargo build --release\n"),
            (".ci/run", "check clippy cargo clippy \\\n    -- -D warnings\n"),
            ("scripts/setup.sh", "npm install\n"),
            ("test", "cargo test --workspace -- --locked\n"),
        ],
        good: &[
            ("run", "# cargo build\ncargo build --locked --release\nhave cargo\n"),
            (".ci/run", "cargo install --quiet \\\n    --locked x\ncargo fmt --all\nnpm ci\n"),
            ("test", "cargo deny --version >/dev/null\n"),
        ],
    },
];

/// Where a banned word counts.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    /// Every line of code, tests too.
    Code,
    /// Code that is shipped: not tests, benches, examples or build scripts.
    Shipped,
    /// Shipped code outside the command line, the only crate that prints.
    Library,
    /// Shipped code of one crate.
    Crate(&'static str),
}

/// What is not written, where, and what is written instead.
const BANNED: &[(&str, Scope, &str)] = &[
    ("todo!", Scope::Code, "the code, or an issue"),
    ("unimplemented!", Scope::Code, "the code, or an error that names the missing capability"),
    ("dbg!", Scope::Code, "nothing"),
    ("static mut ", Scope::Code, "an atomic, or a value that is passed on"),
    ("#[ignore]", Scope::Code, "#[ignore = \"reason\"]: a skipped test says why"),
    ("fn get_", Scope::Code, "the bare noun"),
    (".unwrap()", Scope::Shipped, "`?`, a match, or an error of the crate"),
    (".expect(", Scope::Shipped, "`?`, or an entry of EXCEPTIONS that states the invariant"),
    ("Box<dyn Error", Scope::Shipped, "the crate's own error enum"),
    ("Box<dyn std::error::Error", Scope::Shipped, "the crate's own error enum"),
    ("println!", Scope::Library, "a value: only the command line prints"),
    ("print!", Scope::Library, "a value: only the command line prints"),
    ("Instant::now", Scope::Crate("lab"), "the observation's time: lab reads no clock"),
    ("SystemTime::now", Scope::Crate("lab"), "the observation's time: lab reads no clock"),
    ("thread::sleep", Scope::Crate("lab"), "a plan: lab never sleeps"),
    ("Instant::now", Scope::Crate("nic"), "the caller's time: nic reads no clock"),
    ("Instant::now", Scope::Crate("packet"), "the caller's time: packet reads no clock"),
    ("Instant::now", Scope::Crate("program"), "the caller's time: program reads no clock"),
    ("Instant::now", Scope::Crate("table"), "the caller's time: table reads no clock"),
    ("thread::spawn", Scope::Crate("packet"), "nothing: packet starts no thread"),
    ("thread::spawn", Scope::Crate("table"), "nothing: table starts no thread"),
    ("std::fs", Scope::Crate("program"), "text that the caller read: program opens no file"),
    ("std::fs", Scope::Crate("table"), "nothing: table does no I/O"),
];

/// Words of prose and their plain equivalents.
const WORDING: &[(&str, &str)] = &[
    ("blacklist", "deny list"),
    ("blazing", "a figure and the command that gives it"),
    ("cutting-edge", "what it does"),
    ("leverag", "use"),
    ("seamless", "what happens"),
    ("state-of-the-art", "the peer and the figure"),
    ("utilis", "use"),
    ("utiliz", "use"),
    ("whitelist", "allow list"),
    ("world-class", "a figure and the command that gives it"),
];

/// Outside crates that only some of ours may depend on, and why.
const CONFINED: &[(&str, &[&str], &str)] = &[
    ("anyhow", &["niclab"], "libraries have error enums that carry data"),
    ("clap", &["niclab"], "only the command line reads arguments"),
    ("comfy-table", &["niclab"], "only the command line prints"),
    ("futures", &[], "the packet path knows no async runtime"),
    ("indicatif", &["niclab"], "only the command line prints"),
    ("prometheus-client", &["niclab"], "only the command line serves metrics"),
    ("ratatui", &["niclab"], "only the command line draws"),
    ("rtnetlink", &["device", "niclab"], "needs tokio: control plane only"),
    ("tokio", &["device", "niclab"], "the packet path knows no async runtime"),
];

// ---- the rules --------------------------------------------------------------------------------

fn long_lines(files: &[File]) -> Vec<Offence> {
    let too_long =
        |line: &Line| line.raw.chars().count() > COLUMNS_MAX && !line.raw.contains("https://");
    offences(rust(files), |_, line| too_long(line))
}

fn long_functions(files: &[File]) -> Vec<Offence> {
    let mut found = Vec::new();
    for file in rust(files) {
        for (start, line) in file.lines.iter().enumerate() {
            if !declares_function(&line.code) {
                continue;
            }
            let lines_count = item_end(&file.lines, start) - start + 1;
            if lines_count > FUNCTION_LINES_MAX {
                let text = format!("{} lines: {}", lines_count, file.lines[start].raw.trim());
                found.push(Offence { path: file.path.clone(), line: start + 1, text });
            }
        }
    }
    found
}

fn missing_module_line(files: &[File]) -> Vec<Offence> {
    // A crate may show its README as its documentation.
    let opens = |line: &Line| {
        line.raw.starts_with("//! ") || line.raw.starts_with("#![doc = include_str!(")
    };
    rust(files)
        .filter(|f| !f.lines.first().is_some_and(opens))
        .map(|f| whole_file(&f.path))
        .collect()
}

fn missing_readme(files: &[File]) -> Vec<Offence> {
    let mut homes: Vec<String> = files
        .iter()
        .filter_map(|f| {
            let mut parts = f.path.split('/');
            let (top, name, rest) = (parts.next()?, parts.next()?, parts.next());
            let listed = ["crates", "reference"].contains(&top) && rest.is_some();
            listed.then(|| format!("{top}/{name}/README.md"))
        })
        .collect();
    homes.sort();
    homes.dedup();
    homes.retain(|home| !files.iter().any(|f| f.path == *home));
    homes.iter().map(|home| whole_file(home)).collect()
}

/// Offences of a rule that needs the tables of `ARCHITECTURE.md`; that they are malformed, if so.
pub fn with_map(files: &[File], find: impl Fn(&Map) -> Vec<Offence>) -> Vec<Offence> {
    match Map::read(files) {
        Ok(map) => find(&map),
        Err(text) => vec![Offence::of_file("ARCHITECTURE.md", text)],
    }
}

fn missing_forbid_unsafe(files: &[File]) -> Vec<Offence> {
    let is_root = |f: &&File| f.path.ends_with("/src/lib.rs") || f.path.ends_with("/src/main.rs");
    with_map(files, |map| {
        let forgot = |f: &&File| {
            let home = f.path.rsplit_once("/src/").map_or("", |(home, _)| home);
            let home = format!("{home}/");
            let named = map.unsafe_modules.iter().any(|(path, _)| path.starts_with(&home));
            !named && !f.lines.iter().any(|l| l.code.contains("#![forbid(unsafe_code"))
        };
        files.iter().filter(is_root).filter(forgot).map(|f| whole_file(&f.path)).collect()
    })
}

fn stray_unsafe(files: &[File]) -> Vec<Offence> {
    with_map(files, |map| {
        offences(rust(files), |file, line| {
            !map.has_unsafe(&file.path) && words(&line.code).any(|word| word == "unsafe")
        })
    })
}

fn banned_code(files: &[File]) -> Vec<Offence> {
    let mut found = Vec::new();
    for (text, scope, instead) in BANNED {
        let hits = offences(rust(files), |file, line| {
            in_scope(*scope, file, line) && contains_token(&line.code, text)
        });
        found.extend(hits.into_iter().map(|o| o.with_remedy(instead)));
    }
    found
}

/// Lines of the command line that reach the terminal past the one place that all text passes. A
/// `use` may be of several lines.
fn direct_printing(files: &[File]) -> Vec<Offence> {
    const PLACE: &str = "crates/niclab/src/output.rs";
    let of_line = |line: &Line| {
        let names_stream = line.code.contains("stdout") || line.code.contains("stderr");
        let of_io = line.code.contains("std::io") || line.code.contains("io::std");
        let prints = line.code.contains("print!(") || line.code.contains("println!(");
        names_stream && of_io || prints
    };
    let of_use = |file: &File, start: usize| {
        let mut first = words(&file.lines[start].code).filter(|w| !["pub", "crate"].contains(w));
        if first.next() != Some("use") {
            return false;
        }
        let lines = &file.lines[start..=item_end(&file.lines, start)];
        let names = |name: &str| lines.iter().flat_map(|l| words(&l.code)).any(|word| word == name);
        names("io") && (names("stdout") || names("stderr"))
    };
    let mut found = Vec::new();
    for file in rust(files).filter(|file| file.path != PLACE) {
        for (index, line) in file.lines.iter().enumerate() {
            if in_scope(Scope::Crate("niclab"), file, line)
                && (of_line(line) || of_use(file, index))
            {
                let text = line.raw.trim().to_owned();
                found.push(Offence { path: file.path.clone(), line: index + 1, text });
            }
        }
    }
    found
}

fn vague_type_names(files: &[File]) -> Vec<Offence> {
    const VAGUE: [&str; 3] = ["Manager", "Helper", "Util"];
    const FILES: [&str; 6] = ["common", "helper", "helpers", "misc", "util", "utils"];
    let mut found = offences(rust(files), |_, line| {
        let mut before = "";
        words(&line.code).any(|word| {
            let declares = ["struct", "enum", "trait", "type", "union"].contains(&before);
            before = word;
            declares && VAGUE.iter().any(|v| word.contains(v))
        })
    });
    let stem = |f: &File| Path::new(&f.path).file_stem().map(|s| s.to_string_lossy().into_owned());
    let vague = |f: &&File| stem(f).is_some_and(|s| FILES.contains(&s.as_str()));
    found.extend(rust(files).filter(vague).map(|f| whole_file(&f.path)));
    found
}

fn bad_wording(files: &[File]) -> Vec<Offence> {
    let prose = || {
        let own = |f: &&File| f.path.ends_with(".md") || f.path.ends_with(".rs");
        files.iter().filter(own).filter(|f| !f.path.starts_with("reference/") && !is_this(f))
    };
    let mut found = Vec::new();
    for (word, instead) in WORDING {
        let hits = offences(prose(), |_, line| line.raw.to_lowercase().contains(word));
        found.extend(hits.into_iter().map(|o| o.with_remedy(instead)));
    }
    found
}

/// Dependencies that the map does not have, and those of the map that are none.
fn unmapped_dependencies(files: &[File]) -> Vec<Offence> {
    with_map(files, |map| {
        let mut found = Vec::new();
        let of_ours = |d: &(&str, usize, &str, &str)| d.2 == "dependencies";
        let all: Vec<_> = dependencies(files).filter(of_ours).collect();
        for (home, line, _, name) in &all {
            let Some(other) = name.strip_prefix("niclab-") else { continue };
            let known = map.crates.iter().find(|(name, _)| name == home);
            if !known.is_some_and(|(_, others)| others.iter().any(|name| name == other)) {
                found.push(manifest_offence(home, *line, format!("{home} must not know {other}")));
            }
        }
        for file in files {
            let Some(home) = crate_of_manifest(file) else { continue };
            let Some((_, others)) = map.crates.iter().find(|(name, _)| name == home) else {
                found.push(manifest_offence(home, 1, format!("{home} has no row in the map")));
                continue;
            };
            let has = |other: &String| {
                let name = format!("niclab-{other}");
                all.iter().any(|(from, _, _, to)| *from == home && *to == name)
            };
            let spare = others.iter().filter(|other| !has(other));
            found.extend(spare.map(|other| {
                manifest_offence(home, 1, format!("{home} does not depend on {other}"))
            }));
        }
        found
    })
}

fn crate_of_manifest(file: &File) -> Option<&str> {
    file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")
}

fn strayed_dependencies(files: &[File]) -> Vec<Offence> {
    let mut found = Vec::new();
    for (home, line, _, name) in dependencies(files).filter(|d| d.2 != "dev-dependencies") {
        if let Some((_, homes, why)) = CONFINED.iter().find(|(confined, ..)| *confined == name)
            && !homes.contains(&home)
        {
            found.push(manifest_offence(home, line, format!("{home} on {name}: {why}")));
        }
    }
    found
}

fn local_versions(files: &[File]) -> Vec<Offence> {
    let mut found = Vec::new();
    for file in files {
        let Some(home) = crate_of_manifest(file) else { continue };
        for (line, _, text) in manifest_entries(file) {
            let workspace = text.replace(' ', "").contains("workspace=true");
            if !workspace {
                found.push(manifest_offence(home, line, text.to_owned()));
            }
        }
    }
    found
}

/// Advice to give a program capabilities that does not say who may run it then.
fn lone_setcap(files: &[File]) -> Vec<Offence> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !is_this(file)) {
        let advice = |line: &Line| line.raw.contains("setcap ");
        for (at, line) in file.lines.iter().enumerate().filter(|(_, line)| advice(line)) {
            let near = file.lines[at.saturating_sub(3)..].iter().take(7);
            if !near.clone().any(|line| line.raw.contains("chmod 750")) {
                let text = line.raw.trim().to_owned();
                found.push(Offence { path: file.path.clone(), line: at + 1, text });
            }
        }
    }
    found
}

/// Calls of cargo and npm in scripts that may build something else than the lock files say.
fn unlocked_builds(files: &[File]) -> Vec<Offence> {
    const RESOLVING: [&str; 9] =
        ["bench", "build", "check", "clippy", "deny", "doc", "install", "run", "test"];
    let is_script = |path: &str| {
        ["run", "test", ".ci/run", "benches/peers/build", "scripts/package"].contains(&path)
            || path.ends_with(".sh")
    };
    let mut found = Vec::new();
    for file in files.iter().filter(|file| is_script(&file.path)) {
        let mut command = String::new();
        for (at, line) in file.lines.iter().enumerate() {
            command += line.raw.trim_end_matches('\\');
            if line.raw.ends_with('\\') {
                continue;
            }
            let said = std::mem::take(&mut command);
            let code = said.split(" -- ").next().unwrap_or_default();
            let words: Vec<&str> = code.split_whitespace().collect();
            let calls = |tool: &str, with: &[&str]| {
                words.windows(2).any(|two| two[0] == tool && with.contains(&two[1]))
            };
            let is_bare = calls("cargo", &RESOLVING)
                && !words.iter().any(|word| ["--locked", "--version"].contains(word));
            if !code.trim_start().starts_with('#') && (is_bare || calls("npm", &["install", "i"])) {
                found.push(Offence { path: file.path.clone(), line: at + 1, text: said });
            }
        }
    }
    found
}

// ---- what they share ---------------------------------------------------------------------

fn rust(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|f| f.path.ends_with(".rs"))
}

fn is_this(file: &File) -> bool {
    file.path.starts_with("crates/niclab/tests/tidy/")
}

pub fn offences<'a>(
    files: impl Iterator<Item = &'a File>,
    offends: impl Fn(&File, &Line) -> bool,
) -> Vec<Offence> {
    let mut found = Vec::new();
    for file in files {
        for (index, line) in file.lines.iter().enumerate().filter(|(_, l)| offends(file, l)) {
            let text = line.raw.trim().to_owned();
            found.push(Offence { path: file.path.clone(), line: index + 1, text });
        }
    }
    found
}

fn whole_file(path: &str) -> Offence {
    Offence { path: path.to_owned(), line: 1, text: String::new() }
}

fn manifest_offence(home: &str, line: usize, text: String) -> Offence {
    Offence { path: format!("crates/{home}/Cargo.toml"), line, text }
}

impl Offence {
    pub fn of_file(path: &str, text: String) -> Offence {
        Offence { path: path.to_owned(), line: 1, text }
    }

    fn with_remedy(self, instead: &str) -> Offence {
        Offence { text: format!("{} (write instead: {instead})", self.text), ..self }
    }
}

fn in_scope(scope: Scope, file: &File, line: &Line) -> bool {
    let shipped = !line.test && !is_beside_the_product(&file.path);
    match scope {
        Scope::Code => !is_this(file),
        Scope::Shipped => shipped,
        Scope::Library => shipped && !file.path.starts_with("crates/niclab/"),
        Scope::Crate(name) => shipped && file.path.starts_with(&format!("crates/{name}/")),
    }
}

/// Benches, examples, build scripts and whole files of tests.
pub fn is_beside_the_product(path: &str) -> bool {
    let beside = ["tests", "benches", "examples", "build.rs", "tests.rs"];
    path.split('/').any(|part| beside.contains(&part) || part.ends_with("_tests.rs"))
}

/// Entries of the dependency sections of a manifest: line, section, text.
fn manifest_entries(file: &File) -> impl Iterator<Item = (usize, &str, &str)> {
    let mut section = "";
    file.lines.iter().enumerate().filter_map(move |(index, line)| {
        let text = line.raw.trim();
        if let Some(head) = text.strip_prefix('[') {
            section = head.trim_end_matches(']');
        }
        let listed = section.ends_with("dependencies") && !text.starts_with(['[', '#']);
        (listed && !text.is_empty()).then_some((index + 1, section, text))
    })
}

/// Dependencies of our crates: crate, line of its manifest, section, name of the dependency.
fn dependencies(files: &[File]) -> impl Iterator<Item = (&str, usize, &str, &str)> {
    let manifests = files.iter().filter_map(|f| Some((crate_of_manifest(f)?, f)));
    manifests.flat_map(|(home, file)| {
        manifest_entries(file).map(move |(line, section, text)| {
            let name = text.split(['.', '=', ' ']).next().unwrap_or(text);
            (home, line, section, name)
        })
    })
}

// ---- tests ------------------------------------------------------------------------------------

#[test]
fn every_rule_can_fail() {
    for rule in RULES {
        // The map is there, unless the sample has another.
        let map = file(SAMPLE.0, SAMPLE.1);
        for &(path, text) in rule.bad {
            let found = (rule.find)(&[file(path, text), file(SAMPLE.0, SAMPLE.1)]);
            assert!(!found.is_empty(), "{}: {path} passes", rule.name);
        }
        let mut good: Vec<File> = rule.good.iter().map(|&(path, text)| file(path, text)).collect();
        good.push(map);
        let found = (rule.find)(&good);
        assert!(found.is_empty(), "{}: good sample fails: {found:?}", rule.name);
    }
}

#[test]
fn every_banned_word_is_found_in_its_scope_and_not_outside() {
    for (text, scope, _) in BANNED {
        let home = if let Scope::Crate(name) = scope { name } else { "nic" };
        let line = format!("fn f() {{ {text} }}\n");
        let count = |path: &str, line: &str| banned_code(&[file(path, line)]).len();
        assert!(count(&format!("crates/{home}/src/a.rs"), &line) > 0, "{text} passes");
        assert_eq!(count(&format!("crates/{home}/src/a.rs"), &format!("// {line}")), 0, "{text}");
        let in_tests = count(&format!("crates/{home}/tests/a.rs"), &line);
        assert_eq!(in_tests > 0, *scope == Scope::Code, "{text} in tests");
    }
    assert_eq!(banned_code(&[file("crates/niclab/src/a.rs", "println!()")]).len(), 0);
    assert_eq!(banned_code(&[file("crates/nic/src/a.rs", "eprintln!()")]).len(), 1);
    assert_eq!(banned_code(&[file("crates/nic/src/a.rs", "blueprint!()")]).len(), 0);
}

#[test]
fn every_word_of_the_wording_list_is_found() {
    for (word, _) in WORDING {
        let text = format!("It {} it\n", word.to_uppercase());
        assert_eq!(bad_wording(&[file("docs/a.md", &text)]).len(), 1, "{word}");
    }
}

const LONG_LINE: &str = concat!(
    "// 1234567890 1234567890 1234567890 1234567890 1234567890 ",
    "1234567890 1234567890 1234567890 1234567890\n",
);

const LONG_FUNCTION: &str = concat!(
    "fn f() {\n",
    "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
    "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
    "}\n",
);
