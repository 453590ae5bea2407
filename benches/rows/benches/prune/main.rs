//! The pruning filter: how few tables it leaves, what a packet and a rule cost, how large it is.
//!
//! `cargo bench -p niclab-bench --bench prune -- [FILE…]`: files of ClassBench's rules; without
//! one, generated sets. A packet lies in a rule drawn uniformly. "probes" is what is left of
//! "all", the tables that are probed without a filter, both in order and with an early end.

mod space;

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use niclab_bench::sets::{self, Draw, FIELDS, PacketValues, Rule};
use niclab_table::{BURST_MAX, Filter, FilterConfig, FilterReader, Pages, Sets};

use space::Space;

const PACKETS: usize = 1 << 16;

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let timed = arguments.iter().any(|argument| argument == "--bench");
    let files: Vec<PathBuf> =
        arguments.iter().filter(|a| *a != "--bench").map(PathBuf::from).collect();
    println!(
        "set                 rules tables  sets    kB  build ms  add ns   mean (max us) | \
         ns/packet: find  +first   +all | candidates  (max)  probes  (max)    all"
    );
    let sizes: &[usize] = if timed { &[1000, 10_000, 65_536] } else { &[200] };
    if files.is_empty() {
        for count in sizes {
            measure(&format!("generated {count}"), &sets::generate(*count), timed)?;
        }
    }
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        measure(&name, &sets::read(&file).map_err(|error| error.to_string())?, timed)?;
    }
    Ok(())
}

fn config(space: &Space) -> FilterConfig<5> {
    let (tables_max, rules_max) = (space.tables_count(), space.rules.len());
    FilterConfig { fields: FIELDS, tables_max, rules_max, pages: Pages::Huge }
}

fn measure(name: &str, rules: &[Rule], timed: bool) -> Result<(), String> {
    let space = Space::new(rules);
    if space.tables_count() > niclab_table::TABLES_LIMIT {
        println!("{name:<19} {} tables are too many", space.tables_count());
        return Ok(());
    }
    let start = Instant::now();
    let filter = Filter::build(config(&space), space.rules.iter().copied());
    let filter = filter.map_err(|error| error.to_string())?;
    let build_ms = start.elapsed().as_secs_f64() * 1e3;
    let Additions { median_ns, mean_ns, max_us, widened } = additions(&space)?;
    let mut draw = Draw::new(7);
    let mut packet = || {
        let rule = rules[draw.below(rules.len() as u32) as usize];
        rule.map(|span| draw.within(span))
    };
    let packets: Vec<PacketValues> = (0..PACKETS).map(|_| packet()).collect();
    let rounds = if timed { 30 } else { 1 };
    let [find, first, all] = packet_ns(&filter.reader(), &packets, rounds);
    let Tally { candidates, candidates_max, probes, probes_max, unpruned } =
        tally(&space, &filter.reader(), &packets[..if timed { 20_000 } else { 500 }]);
    println!(
        "{name:<19} {:>5} {:>6} {:>5} {:>5} {build_ms:>9.1} {median_ns:>7.0} {mean_ns:>6.0} \
         ({max_us:>6.0}) | {find:>15.1} {first:>7.1} {all:>6.1} | \
         {candidates:>10.3} ({candidates_max:>5}) {probes:>7.3} ({probes_max:>5}) {unpruned:>6.1}",
        rules.len(),
        space.tables_count(),
        filter.sets_count(),
        filter.bytes() / 1024,
    );
    if filter.widened_count() + widened > 0 {
        println!("{name:<19} widened: {}, {widened} when added", filter.widened_count());
    }
    Ok(())
}

/// What it cost to add rules one by one.
struct Additions {
    median_ns: f64,
    mean_ns: f64,
    max_us: f64,
    widened: usize,
}

/// Adds every tenth rule to a filter built of the others.
fn additions(space: &Space) -> Result<Additions, String> {
    let held_back = |index: usize| index % 10 == 9;
    let rules = space.rules.iter().enumerate();
    let built = rules.clone().filter(|(index, _)| !held_back(*index)).map(|(_, rule)| *rule);
    let mut filter = Filter::build(config(space), built).map_err(|error| error.to_string())?;
    let mut times_ns = Vec::new();
    for (_, rule) in rules.filter(|(index, _)| held_back(*index)) {
        let start = Instant::now();
        filter.add(rule.table, &rule.spans).map_err(|error| error.to_string())?;
        times_ns.push(start.elapsed().as_secs_f64() * 1e9);
    }
    times_ns.sort_by(f64::total_cmp);
    let median_ns = times_ns[times_ns.len() / 2];
    let mean_ns = times_ns.iter().sum::<f64>() / times_ns.len() as f64;
    let max_us = times_ns[times_ns.len() - 1] / 1e3;
    Ok(Additions { median_ns, mean_ns, max_us, widened: filter.widened_count() })
}

/// Nanoseconds a packet, the median of rounds: to find the sets; and the first candidate; and all.
fn packet_ns(reader: &FilterReader<5>, packets: &[PacketValues], rounds: usize) -> [f64; 3] {
    let mut sets = [Sets::default(); BURST_MAX];
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for (kind, times) in times.iter_mut().enumerate() {
            let (start, mut sum) = (Instant::now(), 0);
            for burst in packets.chunks(BURST_MAX) {
                reader.find(burst, &mut sets);
                for sets in &sets[..burst.len()] {
                    sum += match kind {
                        0 => 0,
                        1 => reader.candidates(sets).next().unwrap_or(0),
                        _ => reader.candidates(sets).sum(),
                    };
                }
                black_box(&sets);
            }
            black_box(sum);
            times.push(start.elapsed().as_secs_f64() * 1e9 / packets.len() as f64);
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

struct Tally {
    candidates: f64,
    candidates_max: usize,
    probes: f64,
    probes_max: usize,
    /// Mean probes without a filter.
    unpruned: f64,
}

/// Counts candidates and probes, and makes sure that the filter hides no rule.
fn tally(space: &Space, reader: &FilterReader<5>, packets: &[PacketValues]) -> Tally {
    let mut sets = vec![Sets::default(); packets.len()];
    reader.find(packets, &mut sets);
    let (mut candidates, mut candidates_max) = (0, 0);
    let (mut probes, mut probes_max, mut unpruned) = (0, 0, 0);
    for (packet, sets) in packets.iter().zip(&sets) {
        let count = reader.candidates(sets).count();
        let (pruned, found) = space.probe(packet, reader.candidates(sets));
        let (all, expected) = space.probe(packet, 0..space.tables_count());
        assert_eq!(found, expected, "the rule of {packet:x?}");
        (candidates, candidates_max) = (candidates + count, candidates_max.max(count));
        (probes, probes_max) = (probes + pruned, probes_max.max(pruned));
        unpruned += all;
    }
    let mean = |sum: usize| sum as f64 / packets.len() as f64;
    let (candidates, probes, unpruned) = (mean(candidates), mean(probes), mean(unpruned));
    Tally { candidates, candidates_max, probes, probes_max, unpruned }
}
