//! `niclab ids check`: the rules that the embedded engine supports.

use std::collections::BTreeMap;
use std::io::Write;

use niclab_ids::engine::{self, CheckedRule};
use niclab_lab::words;
use niclab_result::digits::percent;
use niclab_result::partition::RuleSource;
use serde::Serialize;

use super::{read_rules, variables};
use crate::arguments::IdsCheckArguments;
use crate::failure::Failure;
use crate::output::{json, stdout};
use crate::rules::counted;
use crate::tables::{self, Grid};

/// How much of some rules the engine supports.
#[derive(Serialize)]
struct SupportDocument {
    sources: Vec<RuleSource>,
    rules: usize,
    supported: usize,
    lacks: Vec<LackCount>,
}

/// Something that the engine lacks, and how many rules need it.
#[derive(Serialize)]
struct LackCount {
    name: String,
    rules: usize,
    sid: u32,
    gid: u32,
    path: String,
    line: u64,
}

/// Reads files of rules, and prints what the engine lacks for them.
pub fn run(arguments: &IdsCheckArguments) -> Result<(), Failure> {
    let variables = variables(arguments.config.as_deref())?;
    let read = |text: &str| engine::read(text, &variables);
    let (rules, sources) = read_rules(&arguments.rules, read, |(rule, _)| rule)?;
    let document = document(&rules, sources);
    if arguments.json {
        return json(&document);
    }
    let (out, width) = (&mut stdout(), tables::width());
    let lead = format!(
        "{}; niclab's own engine supports {} ({})",
        counted(document.rules as u64, "rule", "rules"),
        words::whole(document.supported as f64),
        percent(document.supported, document.rules)
    );
    writeln!(out, "{}", tables::wrapped(&lead, width))?;
    if document.lacks.is_empty() {
        return Ok(());
    }
    let columns = ["lacking", "rules", "sid", "first at"].map(str::to_owned).to_vec();
    let row = |lack: &LackCount| {
        let place = format!("{}:{}", lack.path, lack.line);
        vec![lack.name.clone(), words::whole(lack.rules as f64), lack.sid.to_string(), place]
    };
    let rows = document.lacks.iter().map(row).collect();
    Ok(Grid { columns, rows }.print(width, out)?)
}

fn document(rules: &[CheckedRule], sources: Vec<RuleSource>) -> SupportDocument {
    let paths = sources.iter().flat_map(|source| std::iter::repeat_n(&source.path, source.rules));
    let mut counts: BTreeMap<String, LackCount> = BTreeMap::new();
    let mut supported = 0;
    for ((rule, signature), path) in rules.iter().zip(paths) {
        let Err(lacks) = signature else {
            supported += 1;
            continue;
        };
        for lack in lacks {
            let name = lack.to_string();
            let count = counts.entry(name.clone()).or_insert_with(|| {
                let (path, line) = (path.clone(), rule.line);
                LackCount { name, rules: 0, sid: rule.sid, gid: rule.gid, path, line }
            });
            count.rules += 1;
        }
    }
    let mut lacks: Vec<LackCount> = counts.into_values().collect();
    lacks.sort_by_key(|lack| std::cmp::Reverse(lack.rules));
    SupportDocument { sources, rules: rules.len(), supported, lacks }
}
