//! How the cost of a packet and of a rule grows with rules, masks, the width of keys and the number
//! of control threads.
//!
//! `cargo bench -p niclab-bench --bench growth`: tables in Markdown. A packet is read, finds a
//! rule drawn uniformly and gets its queue; a rule is created in bulk and destroyed in bulk.
//! Without `--bench` (as under `cargo test`) everything runs once with few rules.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use niclab_bench::exact::{Probe, Prober, Setup};
use niclab_bench::{BenchError, frames::Frames, insert, keys, median};
use niclab_nic::limits::BURST;
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{
    Nic, NicConfig, Operation, OperationQueue, OperationResult, RuleError, TemplateTable,
};
use niclab_packet::key::{Key, field};
use niclab_pairing::{pin, slice};

/// Packets that go round.
const PACKETS: usize = 1 << 16;
/// Steps of what is put off, at a time.
const HOUSEKEEPING_STEPS: usize = 1_000;
/// Rules in a call of `Nic::run`.
const BULK: usize = 1 << 12;
/// Slices of a figure.
const SLICES: usize = 11;

/// How long a slice is, and how far it goes.
struct Scale {
    slice_ms: u64,
    rules_max: u64,
}

fn main() -> Result<(), BenchError> {
    let timed = std::env::args().any(|argument| argument == "--bench");
    let scale = match timed {
        true => Scale { slice_ms: 20, rules_max: 4 << 20 },
        false => Scale { slice_ms: 1, rules_max: 1_000 },
    };
    if timed {
        pin(std::thread::available_parallelism().map_or(0, |count| count.get() - 1))?;
    }
    println!(
        "| what | ns/packet | create ns/rule | destroy ns/rule | B/rule |\n|---|---|---|---|---|"
    );
    for rules in [1_000, 10_000, 100_000, 1_000_000, 4_000_000] {
        if rules <= scale.rules_max {
            show(&format!("{rules} rules, 1 mask"), &scale, rules, 1)?;
        }
    }
    for masks in [1, 4, 16, 64, 256, 1_000] {
        show(
            &format!("{} rules, {masks} masks", ROUND.min(scale.rules_max)),
            &scale,
            ROUND,
            masks,
        )?;
    }
    println!("\n| what | ns/packet of the rules | ns/packet of the attack |\n|---|---|---|");
    for masks in [16, 64, 256, 1_000] {
        attack(&scale, masks)?;
    }
    println!("\n| key, 64 k entries | ns/look-up | B/entry |\n|---|---|---|");
    width::<1>(&scale)?;
    width::<2>(&scale)?;
    width::<3>(&scale)?;
    width::<4>(&scale)?;
    width::<6>(&scale)?;
    width::<8>(&scale)?;
    println!("\n| control threads | M operations/s |\n|---|---|");
    [1, 2, 3, 4].into_iter().try_for_each(|count| threads(&scale, count))
}

/// Rules where masks grow.
const ROUND: u64 = 65_536;

/// Rule `index` of those with `masks` masks, at most 1,024: 64 of them leave out another number of
/// bits of the ports, at their end or at their start, and each 64 another number of bits of the
/// source.
fn pattern(index: u64, masks: u64) -> Pattern {
    let exact = insert::pattern(index);
    let (of_ports, of_source) = ((index % masks % 64) as u32, (index % masks / 64) as u32);
    let ports = match of_ports {
        0..32 => u32::MAX << of_ports,
        _ => u32::MAX.checked_shr(of_ports - 31).unwrap_or(0),
    };
    let mut mask = exact.mask().to_bytes();
    mask[field::SPORT.start..field::DPORT.end].copy_from_slice(&ports.to_be_bytes());
    mask[field::SRC_HEAD].copy_from_slice(&(u32::MAX << of_source).to_be_bytes());
    Pattern::masked(exact.value(), &Key::from_bytes(&mask))
}

fn show(what: &str, scale: &Scale, rules: u64, masks: u64) -> Result<(), BenchError> {
    let rules = rules.min(scale.rules_max);
    let mut nic = Nic::new(&NicConfig { seed: 42, ..NicConfig::default() })?;
    let jump = Rule { group: 0, priority: 0, pattern: Pattern::any(), actions: &[Action::Jump(1)] };
    nic.create(&jump)?;
    let packets: Vec<_> = keys::indices(rules).take(PACKETS).map(insert::tuple).collect();
    let (mut worker, mut frames) = (nic.worker(), Frames::new(&packets)?);
    let (mut ids, mut spent_ns) = (Vec::with_capacity(rules as usize), [0, 0]);
    let numbers: Vec<u64> = (0..rules).collect();
    for numbers in numbers.chunks(BULK) {
        let create = |&index: &u64| {
            let (group, pattern) = (1, pattern(index, masks));
            Rule { group, priority: 0, pattern, actions: &[Action::Queue(0)] }
        };
        let rules: Vec<Rule<'_>> = numbers.iter().map(create).collect();
        let operations: Vec<Operation<'_>> = rules.iter().map(Operation::Create).collect();
        spent_ns[0] += run(&mut nic, &operations, &mut ids)?;
        let (region, burst) = frames.burst();
        worker.classify(region, burst);
    }
    // As a control loop does when no rule comes.
    while !nic.run_housekeeping(HOUSEKEEPING_STEPS) {}
    let bytes = nic.rule_bytes();
    let packet_ns = median_ns(scale, || {
        let (region, burst) = frames.burst();
        black_box(worker.classify(region, burst));
    });
    for ids in std::mem::take(&mut ids).chunks(BULK) {
        let operations: Vec<Operation<'_>> = ids.iter().map(|&id| Operation::Destroy(id)).collect();
        spent_ns[1] += run(&mut nic, &operations, &mut Vec::new())?;
        let (region, burst) = frames.burst();
        worker.classify(region, burst);
    }
    let [create, destroy] = spent_ns.map(|ns| ns as f64 / rules as f64);
    println!(
        "| {what} | {packet_ns:.1} | {create:.0} | {destroy:.0} | {:.0} |",
        bytes as f64 / rules as f64
    );
    Ok(())
}

/// Two rules for each of `masks` masks, at most 1,024: one has the attacker's source and another's
/// destination, the other the opposite. So each field of the attacker's packets lies in a rule of
/// every mask and no rule has the packet: no filter by fields can leave out a mask.
fn attack(scale: &Scale, masks: u64) -> Result<(), BenchError> {
    let mut nic = Nic::new(&NicConfig { seed: 42, ..NicConfig::default() })?;
    let [ours, theirs] = [0x0a0b_0c0d_u32, 0xc0c1_c2c3];
    let mut rules = Vec::new();
    for mask in 0..masks as u32 {
        let lengths = [mask % 32, mask / 32].map(|bits| u32::MAX << (31 - bits));
        for pair in [[ours, theirs], [theirs, ours]] {
            let (mut value, mut bits) = ([0; 64], [0; 64]);
            for (at, place) in [field::SRC_HEAD, field::DST_HEAD].into_iter().enumerate() {
                value[place.clone()].copy_from_slice(&(pair[at] & lengths[at]).to_be_bytes());
                bits[place].copy_from_slice(&lengths[at].to_be_bytes());
            }
            let (value, bits) = (Key::from_bytes(&value), Key::from_bytes(&bits));
            rules.push(Pattern::masked(&value, &bits));
        }
    }
    for (priority, pattern) in rules.into_iter().enumerate() {
        let priority = priority as u32;
        nic.create(&Rule { group: 0, priority, pattern, actions: &[Action::Queue(0)] })?;
    }
    while !nic.run_housekeeping(HOUSEKEEPING_STEPS) {}
    let mut worker = nic.worker();
    let mut cost = |pairs: [[u32; 2]; 2]| -> Result<f64, BenchError> {
        let packet = |index: usize| {
            let [src, dst] = pairs[index % 2];
            [src, dst, 1_000 + index as u32 % 5_000, 80, 6]
        };
        let packets: Vec<_> = (0..PACKETS / 16).map(packet).collect();
        let mut frames = Frames::new(&packets)?;
        Ok(median_ns(scale, || {
            let (region, burst) = frames.burst();
            black_box(worker.classify(region, burst));
        }))
    };
    let friendly = cost([[ours, theirs], [theirs, ours]])?;
    let hostile = cost([[ours, ours], [theirs, theirs]])?;
    println!("| {masks} masks | {friendly:.1} | {hostile:.1} |");
    Ok(())
}

/// Carries out operations, keeps what they answer, and returns nanoseconds.
fn run(
    nic: &mut Nic,
    operations: &[Operation<'_>],
    ids: &mut Vec<niclab_nic::RuleId>,
) -> Result<u64, RuleError> {
    let (mut refused, start) = (Ok(()), Instant::now());
    nic.run(operations, |result| match result {
        Ok(id) => ids.push(id),
        Err(error) => refused = Err(error),
    });
    refused.map(|()| start.elapsed().as_nanos() as u64)
}

/// Nanoseconds a packet, `burst` being what is done with a burst of them.
fn median_ns(scale: &Scale, mut burst: impl FnMut()) -> f64 {
    let mut rate = || {
        let answer = slice(scale.slice_ms, || {
            (0..16).for_each(|_| burst());
            16 * BURST as u64
        });
        answer.rate()
    };
    rate();
    let rates: Vec<f64> = (0..SLICES).map(|_| rate()).collect();
    1e9 / median(&rates).unwrap_or(f64::NAN)
}

/// Look-ups of keys of `W` words in the table alone.
fn width<const W: usize>(scale: &Scale) -> Result<(), BenchError> {
    let setup = Setup { probe: Probe::Hit, ..Setup::hits(ROUND.min(scale.rules_max)) };
    let mut prober = Prober::<W>::new(&setup)?;
    let mut rates = Vec::new();
    for _ in 0..=SLICES {
        rates.push(prober.run(scale.slice_ms)?.rate());
    }
    // The first warmed up.
    let ns = 1e9 / median(&rates[1..]).unwrap_or(f64::NAN);
    let bytes = prober.bytes() as f64 / setup.keys as f64;
    println!("| {} B | {ns:.1} | {bytes:.0} |", 8 * W);
    Ok(())
}

/// Operations that a control thread has under way at most.
const UNDER_WAY: usize = 256;

/// Rules that `count` threads create and destroy through operation queues of their own, while one
/// more has the NIC and carries them out.
fn threads(scale: &Scale, count: usize) -> Result<(), BenchError> {
    let mut nic = Nic::new(&NicConfig { seed: 42, ..NicConfig::default() })?;
    let table = insert::table(&mut nic, 1)?;
    let queues = (0..count).map(|_| nic.operation_queue(UNDER_WAY));
    let queues: Vec<OperationQueue> = queues.collect::<Result<_, _>>()?;
    let stop = AtomicBool::new(false);
    let rates: Vec<f64> = std::thread::scope(|scope| {
        for (first, queue) in (0..).step_by(1 << 20).zip(queues) {
            let (table, stop) = (&table, &stop);
            scope.spawn(move || control(queue, table, first, stop));
        }
        let rate = || {
            let answer = slice(scale.slice_ms, || match nic.serve(UNDER_WAY) {
                0 => {
                    std::thread::yield_now();
                    0
                }
                served => served as u64,
            });
            answer.rate()
        };
        let rates = std::iter::repeat_with(rate).take(SLICES + 1).collect();
        stop.store(true, Ordering::Relaxed);
        rates
    });
    let rate = median(&rates[1..]).unwrap_or(f64::NAN) / 1e6;
    println!("| {count} | {rate:.2} |");
    Ok(())
}

/// Creates rules and destroys each as soon as it is there, until it is to stop.
fn control(mut queue: OperationQueue, table: &TemplateTable, first: u64, stop: &AtomicBool) {
    let mut next = first;
    while !stop.load(Ordering::Relaxed) {
        // What is there goes first: a queue that is full takes no create.
        let mut pulled = 0;
        while let Ok(Some(OperationResult { user, result })) = queue.pull() {
            pulled += 1;
            if let (Ok(id), CREATE) = (result, user) {
                let _ = queue.put(Operation::Destroy(id), DESTROY);
            }
        }
        while queue.under_way() < UNDER_WAY {
            let Ok(rule) = table.rule(&insert::line(next), &[0]) else { return };
            let _ = queue.put(Operation::CreateIn(rule), CREATE);
            next = first + (next + 1) % (1 << 20);
        }
        queue.push();
        if pulled == 0 {
            std::thread::yield_now();
        }
    }
}

/// What operations are known by.
const CREATE: u64 = 0;
const DESTROY: u64 = 1;
