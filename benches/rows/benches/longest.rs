//! The longest calls: what a single operation on rules takes at worst.
//!
//! `cargo bench -p niclab-bench --bench longest [-- RULES]`: tables in Markdown. Each call is
//! timed, in several processes of their own one after the other, because one that had memory
//! before does not wait for it as a fresh one does. The least of all processes is taken call by
//! call, so that what is left is the code's and not the machine's. Without `--bench` (as under
//! `cargo test`) everything runs once with few rules.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use niclab_bench::{BenchError, frames::Frames, insert};
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, Operation, RuleId, Worker};
use niclab_pairing::pin;

/// Processes of which the least is taken.
const REPEATS: usize = 9;
/// Operations in a call of the queue, and between two bursts of packets.
const SLICE: usize = 32;
/// Calls that are named.
const NAMED: usize = 10;
/// What is done, by name.
const CASES: [(&str, Case); 6] = [
    ("create", create),
    ("queue, 32 a call", queue),
    ("destroy", destroy),
    ("renew: create", renew_create),
    ("renew: destroy", renew_destroy),
    ("transaction", transaction),
];

type Case = fn(&mut Card, u64) -> Result<(), BenchError>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [once, case, rules] = &arguments[..]
        && once == "--once"
    {
        return one(case, rules.parse()?);
    }
    let timed = arguments.iter().any(|argument| argument == "--bench");
    let asked: Vec<u64> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    let (rules, repeats) = match timed {
        true if asked.is_empty() => (vec![100_000, 1_000_000], REPEATS),
        true => (asked, REPEATS),
        false => (vec![500], 1),
    };
    println!("| rules | call | p50 ns | p99 | p99.9 | longest, us, and their index |");
    println!("|---|---|---|---|---|---|");
    for rules in rules {
        for (name, _) in CASES {
            let mut least = Vec::new();
            for _ in 0..repeats {
                take_least(&mut least, &process(name, rules)?);
            }
            show(rules, name, &least);
        }
    }
    Ok(())
}

/// Measures in a process of its own; nanoseconds of each call.
fn process(case: &str, rules: u64) -> Result<Vec<u32>, Box<dyn std::error::Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--once", case, &rules.to_string()]).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut bytes = Vec::new();
    child.stdout.take().ok_or("no output")?.read_to_end(&mut bytes)?;
    if !child.wait()?.success() {
        return Err("a process failed".into());
    }
    Ok(bytes.as_chunks().0.iter().map(|four| u32::from_le_bytes(*four)).collect())
}

fn take_least(least: &mut Vec<u32>, times: &[u32]) {
    if least.is_empty() {
        least.extend(times);
    }
    least.iter_mut().zip(times).for_each(|(least, time)| *least = (*least).min(*time));
}

fn show(rules: u64, name: &str, least: &[u32]) {
    let mut order: Vec<usize> = (0..least.len()).collect();
    order.sort_by_key(|&at| least[at]);
    let share = |share: f64| least[order[(share * (order.len() - 1) as f64) as usize]];
    let named = order.iter().rev().take(NAMED);
    let named = named.map(|&at| format!("{:.1} at {at}", f64::from(least[at]) / 1e3));
    let named: Vec<String> = named.collect();
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(share);
    println!("| {rules} | {name} | {p50} | {p99} | {p999} | {} |", named.join(", "));
}

/// One repeat.
fn one(case: &str, rules: u64) -> Result<(), Box<dyn std::error::Error>> {
    let (_, case) = CASES.into_iter().find(|(name, _)| *name == case).ok_or("no such case")?;
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
    pin(cores - 1)?;
    let mut card = Card::new(rules)?;
    case(&mut card, rules)?;
    let bytes: Vec<u8> = card.times_ns.iter().flat_map(|time| time.to_le_bytes()).collect();
    Ok(std::io::stdout().write_all(&bytes)?)
}

/// A card whose packets are met between two slices, and the times of calls.
struct Card {
    nic: Nic,
    worker: Worker,
    frames: Frames,
    times_ns: Vec<u32>,
    rules: VecDeque<RuleId>,
    next: u64,
    calls: usize,
}

impl Card {
    fn new(rules: u64) -> Result<Card, BenchError> {
        let mut nic = Nic::new(&NicConfig { seed: 42, ..NicConfig::default() })?;
        let actions = &[Action::Jump(1)];
        nic.create(&Rule { group: 0, priority: 0, pattern: Pattern::any(), actions })?;
        let packets: Vec<_> = (0..64).map(insert::tuple).collect();
        let (worker, frames) = (nic.worker(), Frames::new(&packets)?);
        let count = 4 * rules as usize;
        // Their memory is touched, so that it is not what is measured.
        let (mut times_ns, mut ids) = (vec![1; count], VecDeque::from(vec![None; count]));
        times_ns.clear();
        ids.clear();
        let rules = ids.into_iter().flatten().collect::<VecDeque<RuleId>>();
        let mut card = Card { nic, worker, frames, times_ns, rules, next: 0, calls: 0 };
        card.rules.reserve(count);
        Ok(card)
    }

    /// Times one call; between slices of them packets are met.
    fn time<T>(&mut self, call: impl FnOnce(&mut Nic) -> T) -> T {
        let start = Instant::now();
        let result = call(&mut self.nic);
        self.times_ns.push(start.elapsed().as_nanos() as u32);
        self.calls += 1;
        if self.calls.is_multiple_of(SLICE) {
            self.meet();
        }
        result
    }

    fn meet(&mut self) {
        let (region, burst) = self.frames.burst();
        self.worker.classify(region, burst);
    }

    fn create(&mut self) -> Result<(), BenchError> {
        let (group, priority, pattern) = (1, 0, insert::pattern(self.next));
        let rule = Rule { group, priority, pattern, actions: &[Action::Queue(0)] };
        let id = self.time(|nic| nic.create(&rule))?;
        self.rules.push_back(id);
        self.next += 1;
        Ok(())
    }

    fn destroy(&mut self) -> Result<(), BenchError> {
        match self.rules.pop_front() {
            Some(id) => Ok(self.time(|nic| nic.destroy(id))?),
            None => Ok(()),
        }
    }
}

fn create(card: &mut Card, rules: u64) -> Result<(), BenchError> {
    (0..rules).try_for_each(|_| card.create())
}

fn queue(card: &mut Card, rules: u64) -> Result<(), BenchError> {
    let table = insert::table(&mut card.nic, 1)?;
    let mut queue = card.nic.operation_queue(SLICE)?;
    for first in (0..rules).step_by(SLICE) {
        for index in first..rules.min(first + SLICE as u64) {
            let rule = table.rule(&insert::line(index), &[0])?;
            queue.put(Operation::CreateIn(rule), index).ok();
        }
        queue.push();
        card.time(|nic| nic.serve(SLICE));
        card.meet();
        while let Ok(Some(done)) = queue.pull() {
            done.result?;
        }
    }
    Ok(())
}

fn destroy(card: &mut Card, rules: u64) -> Result<(), BenchError> {
    create(card, rules)?;
    card.times_ns.clear();
    (0..rules).try_for_each(|_| card.destroy())
}

/// Creates rules and destroys as many, the oldest first, until all are others; reports the times
/// of one of the two calls.
fn renew(card: &mut Card, rules: u64, told: usize) -> Result<(), BenchError> {
    create(card, rules)?;
    card.times_ns.clear();
    for _ in 0..rules {
        card.create()?;
        card.destroy()?;
    }
    let told: Vec<u32> = card.times_ns.iter().skip(told).step_by(2).copied().collect();
    card.times_ns = told;
    Ok(())
}

fn renew_create(card: &mut Card, rules: u64) -> Result<(), BenchError> {
    renew(card, rules, 0)
}

fn renew_destroy(card: &mut Card, rules: u64) -> Result<(), BenchError> {
    renew(card, rules, 1)
}

/// Creates rules in one transaction, commits, and settles in slices.
fn transaction(card: &mut Card, rules: u64) -> Result<(), BenchError> {
    let mut times_ns = std::mem::take(&mut card.times_ns);
    let mut open = card.nic.transaction();
    for index in 0..rules {
        let (group, priority, pattern) = (1, 0, insert::pattern(index));
        let rule = Rule { group, priority, pattern, actions: &[Action::Queue(0)] };
        let start = Instant::now();
        open.create(&rule)?;
        times_ns.push(start.elapsed().as_nanos() as u32);
        if index % SLICE as u64 == 0 {
            let (region, burst) = card.frames.burst();
            card.worker.classify(region, burst);
        }
    }
    let start = Instant::now();
    open.commit()?;
    times_ns.push(start.elapsed().as_nanos() as u32);
    card.times_ns = times_ns;
    card.meet();
    while !card.time(|nic| nic.run_housekeeping(SLICE)) {}
    Ok(())
}
