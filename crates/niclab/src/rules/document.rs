//! Checked files of rules, as JSON.

use std::path::Path;

use niclab_control::FlowDone;
use niclab_nic::rule::overlap::{DanglingJump, Pair, Report, UnreachableGroup};
use serde::Serialize;

use super::{CheckedFile, CheckedPort, done, output};
use crate::failure::Failure;

/// The document of `rules check --json`.
#[derive(Serialize)]
pub struct CheckedFiles {
    /// In the order of the arguments.
    pub files: Vec<CheckedRules>,
}

/// A file of rules.
#[derive(Serialize)]
pub struct CheckedRules {
    path: String,
    /// Why it is refused.
    error: Option<String>,
    /// Rules that it creates or validates.
    rules: usize,
    other_commands: usize,
    /// Whether there is nothing to mend.
    clean: bool,
    ports: Vec<PortDocument>,
}

/// The commands of a port.
#[derive(Serialize)]
struct PortDocument {
    port: u16,
    /// Answers of the commands that have one, such as `query`.
    answers: Vec<FlowDone>,
    shadowed: Vec<PairDocument>,
    overlapped: Vec<PairDocument>,
    exceptions: usize,
    unreachable_groups: Vec<UnreachableGroupDocument>,
    dangling_jumps: Vec<JumpDocument>,
    missing_masks: Vec<ItemDocument>,
    uncompared: usize,
    /// Whether all rules were compared but the uncompared ones.
    complete: bool,
}

/// A rule, and the better rule that shadows or overlaps it.
#[derive(Serialize)]
struct PairDocument {
    line: u64,
    by_line: u64,
}

/// A group that no packet comes to; `line` is its first rule.
#[derive(Serialize)]
struct UnreachableGroupDocument {
    line: u64,
    group: u32,
    rules: u32,
}

/// A jump to a group without rules.
#[derive(Serialize)]
struct JumpDocument {
    line: u64,
    group: u32,
}

/// An item with a value that has no mask.
#[derive(Serialize)]
struct ItemDocument {
    line: u64,
    reason: String,
}

impl CheckedRules {
    /// A file that was carried out.
    pub(super) fn of(file: &CheckedFile<'_>) -> CheckedRules {
        let (rules, other_commands) = file.counts();
        CheckedRules {
            path: file.path.display().to_string(),
            error: None,
            rules,
            other_commands,
            clean: file.is_clean(),
            ports: file.ports.iter().map(PortDocument::of).collect(),
        }
    }

    /// A file that is refused.
    pub(super) fn refused(path: &Path, failure: &Failure) -> CheckedRules {
        CheckedRules {
            path: path.display().to_string(),
            error: Some(failure.to_string().trim_end().to_owned()),
            rules: 0,
            other_commands: 0,
            clean: false,
            ports: Vec::new(),
        }
    }
}

impl PortDocument {
    fn of(checked: &CheckedPort) -> PortDocument {
        let Report { shadowed, overlapped, unreachable_groups, dangling_jumps, bare, .. } =
            &checked.report;
        let answers = checked.records.iter().map(|record| done(checked.port, record.clone()));
        let unreachable_groups =
            unreachable_groups.iter().map(|UnreachableGroup { group, line, rules_count }| {
                UnreachableGroupDocument { line: *line, group: *group, rules: *rules_count }
            });
        let jumps = dangling_jumps.iter();
        let jumps =
            jumps.map(|DanglingJump { line, group }| JumpDocument { line: *line, group: *group });
        let items = bare.iter();
        let items =
            items.map(|(line, bare)| ItemDocument { line: *line, reason: bare.to_string() });
        PortDocument {
            port: checked.port,
            answers: answers.filter(|done| output(done).is_some()).collect(),
            shadowed: pairs(shadowed),
            overlapped: pairs(overlapped),
            exceptions: checked.report.exceptions_count,
            unreachable_groups: unreachable_groups.collect(),
            dangling_jumps: jumps.collect(),
            missing_masks: items.collect(),
            uncompared: checked.report.uncompared_count,
            complete: checked.report.complete,
        }
    }
}

fn pairs(found: &[Pair]) -> Vec<PairDocument> {
    let pair = |Pair { line, by }: &Pair| PairDocument { line: *line, by_line: *by };
    found.iter().map(pair).collect()
}
