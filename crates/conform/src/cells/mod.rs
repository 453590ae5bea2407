//! The cells of the matrix, each with its cases: rules and frames, generated from a seed.

mod actions;
mod behaviours;
mod combinations;
mod patterns;

use niclab_device::rule_case::{RuleCase, RuleStep, WrittenRule};
use niclab_nic::rule::Action;
use niclab_nic::rule::item::{Item, ItemMatch};
use niclab_result::conform::ConformPart;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

pub use actions::{COLUMNS, action_cells};
pub use behaviours::behaviour_cells;
pub use combinations::{Combinable, combination_cell};
pub use patterns::{FORMS, passing_case, pattern_cells};

/// A cell that is to be tried.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedCell {
    /// Its part of the matrix.
    pub part: ConformPart,
    /// Its row.
    pub row: String,
    /// Its column.
    pub column: String,
    /// Its cases.
    pub cases: Vec<PlannedCase>,
}

/// A case that is to be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCase {
    /// The steps; places and counts that are wanted are not filled in.
    pub case: RuleCase,
    /// The first step whose refusal is one of the cell: before it stand rules that the cell needs.
    pub under_test: usize,
}

/// Priorities of the rule under test, and of the one of every frame below it.
const PRIORITY: u32 = 1;
const PRIORITY_BELOW: u32 = 2;

/// Random numbers of a cell, which are the same whatever other cells are tried.
fn random_of(seed: u64, names: &[&str]) -> Xoshiro256PlusPlus {
    // FNV-1a.
    let bytes = names.iter().flat_map(|name| name.bytes().chain([0]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Xoshiro256PlusPlus::seed_from_u64(seed ^ hash)
}

/// The fate of frames that hit the rule under test, and of all others: two queues, or a drop where
/// there is one queue.
fn fates(queues: u16) -> (Action, Action) {
    match queues {
        0 | 1 => (Action::Drop, Action::Queue(0)),
        _ => (Action::Queue(1), Action::Queue(0)),
    }
}

/// A rule of every frame.
fn any_rule(group: u32, priority: u32, action: Action) -> WrittenRule {
    let items = vec![ItemMatch::any(Item::Eth)];
    WrittenRule { group, priority, items, actions: vec![action] }
}

fn create(rule: WrittenRule) -> RuleStep {
    RuleStep::Create { rule, may_fail: false }
}

fn send(frame: &[u8]) -> RuleStep {
    RuleStep::Send { frame: frame.to_vec(), wanted: Vec::new(), wanted_frame: None }
}

/// A case with these rules, the one under test after them, and these frames. The first rule is one
/// of every frame, whose refusal says nothing about the one under test.
fn case_of(around: Vec<WrittenRule>, rule: WrittenRule, frames: &[Vec<u8>]) -> PlannedCase {
    let under_test = around.len().min(1);
    let rules = around.into_iter().chain([rule]).map(create);
    let steps = rules.chain(frames.iter().map(|frame| send(frame))).collect();
    PlannedCase { case: RuleCase { steps, effect_max_ns: 0 }, under_test }
}

fn cell(part: ConformPart, row: &str, column: &str, cases: Vec<PlannedCase>) -> PlannedCell {
    PlannedCell { part, row: row.to_owned(), column: column.to_owned(), cases }
}
