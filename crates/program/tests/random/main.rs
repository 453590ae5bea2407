//! Random programs and packets: the fast path does what the definition says, packet by packet,
//! while tables change.

mod generate;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use niclab_nic::dma::Reader;
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use niclab_program::definition::Definition;
use niclab_program::{
    Change, ChangeError, Entry, Fate, Invocation, Kind, Lost, Match, Member, Part, Pipeline, Ports,
    Program, Rates, Session,
};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The longest frame that comes, and bytes of a slot and of what it keeps in front.
const FRAME_LEN_MAX: usize = 1_500;
const SLOT_LEN: usize = 2_048;
const NOTE_LEN: usize = 8;
/// Entries of a table: some are refused.
const SIZE: usize = 12;

/// Programs that are tried; `NICLAB_PROGRAMS` for more.
fn programs() -> u64 {
    std::env::var("NICLAB_PROGRAMS").ok().and_then(|count| count.parse().ok()).unwrap_or(400)
}

/// Bytes that are often the same.
fn bytes(rng: &mut Xoshiro256PlusPlus, len: usize) -> Vec<u8> {
    let few = rng.random_bool(0.7);
    (0..len).map(|_| if few { rng.random_range(0..2) } else { rng.random() }).collect()
}

fn invocation(rng: &mut Xoshiro256PlusPlus, program: &Program, action: usize) -> Invocation {
    let arguments = program.arguments(action).iter();
    let arguments = arguments.map(|field| bytes(rng, field.bits as usize / 8)).collect();
    Invocation { action, arguments }
}

fn entry(rng: &mut Xoshiro256PlusPlus, program: &Program, table: usize) -> Option<Entry> {
    let Kind::Match { key, actions } = &program.tables[table].kind else { return None };
    let mut priority = 0;
    let parts = key.iter().map(|(place, how)| {
        let value = bytes(rng, place.len_bytes());
        match how {
            Match::Exact => Part::exact(value),
            Match::Prefix => Part::prefix(&value, rng.random_range(0..=place.bits)),
            Match::Wildcard => {
                priority = rng.random_range(0..3);
                let masks = [0, 0xff, 0x0f, 1];
                let mask = masks[rng.random_range(0..4)];
                Part::masked(&value, vec![mask; place.len_bytes()])
            }
        }
    });
    let key = parts.collect();
    let action = actions.of[rng.random_range(0..actions.of.len())].0;
    Some(Entry { key, priority, does: invocation(rng, program, action) })
}

fn change(rng: &mut Xoshiro256PlusPlus, program: &Program, known: &[(usize, Entry)]) -> Change {
    let table = rng.random_range(0..program.tables.len());
    if let Kind::Selector { .. } = program.tables[table].kind {
        let member = |_| Member { id: rng.random_range(0..100), weight: rng.random_range(1..4) };
        let members = (0..3).map(member).collect();
        return Change::Group { table, group: rng.random_range(0..4), members };
    }
    let some = (!known.is_empty()).then(|| known[rng.random_range(0..known.len())].clone());
    match (rng.random_range(0..6), some) {
        (0, Some((table, entry))) => Change::Delete { table, key: entry.key },
        (1, Some((table, entry))) => {
            let other = self::entry(rng, program, table);
            let entry = other.map(|other| Entry { key: entry.key, ..other });
            entry.map_or(Change::Delete { table, key: vec![] }, |entry| Change::Modify {
                table,
                entry,
            })
        }
        (2, _) => {
            let Some(actions) = program.tables[table].kind.actions() else {
                return Change::Delete { table, key: vec![] };
            };
            let action = actions.of[rng.random_range(0..actions.of.len())].0;
            Change::Default { table, does: invocation(rng, program, action) }
        }
        _ => match entry(rng, program, table) {
            Some(entry) => Change::Add { table, entry },
            None => Change::Delete { table, key: vec![] },
        },
    }
}

/// Both sides, and what the test knows of them.
struct Sides {
    definition: Definition,
    pipeline: Pipeline,
    /// What one learns the other does not know: the second has work where nothing learns.
    workers: [niclab_program::Worker; 2],
    learns: bool,
    now_ns: u64,
    known: Vec<(usize, Entry)>,
    readers: Vec<Vec<Reader>>,
    region: Arc<Region>,
    frames: Vec<Desc>,
}

impl Sides {
    /// The same changes, alone or together, which both carry out or refuse.
    fn change(&mut self, rng: &mut Xoshiro256PlusPlus) {
        let count = if rng.random_bool(0.5) { 1 } else { rng.random_range(1..6) };
        let changes: Vec<Change> =
            (0..count).map(|_| change(rng, self.definition.program(), &self.known)).collect();
        let said = self.definition.change(&changes);
        let told = self.pipeline.change(&changes);
        if matches!(told, Err(ChangeError::Room { .. })) {
            panic!("{told:?}");
        }
        assert_eq!(said, told, "{changes:?}");
        if said.is_ok() {
            for change in changes {
                if let Change::Add { table, entry } = change {
                    self.known.push((table, entry));
                }
            }
        }
    }

    fn arrays(&mut self, rng: &mut Xoshiro256PlusPlus) {
        let (index, value) = (rng.random_range(0..5), rng.next_u64());
        self.definition.set_register(1, index, value);
        self.pipeline.set_register(1, index, value);
        let rates = Rates {
            committed: rng.random_range(0..1000),
            peak: rng.random_range(0..2000),
            committed_burst: rng.random_range(0..1000),
            peak_burst: rng.random_range(0..2000),
        };
        self.definition.set_time_ns(self.now_ns);
        self.definition.set_meter(0, index, rates);
        self.pipeline.set_meter(0, index, rates, self.now_ns);
        let number = rng.random_range(0..4);
        let session = Session { port: number, len_max: rng.random_range(1..100) };
        self.definition.set_session(number as usize, session);
        self.pipeline.set_session(number as usize, session);
        let (group, ports) = (rng.random_range(0..3), Ports(rng.random_range(0..16)));
        self.definition.set_ports(group, ports);
        self.pipeline.set_ports(group, ports);
    }

    /// The application reads and writes its memory, and both have had the same.
    fn memory(&mut self, rng: &mut Xoshiro256PlusPlus) {
        for (rings, index) in [(0, 0), (0, 1), (1, 0)] {
            let reader = &mut self.readers[rings][index as usize];
            for _ in 0..rng.random_range(0..6) {
                let mut entry = vec![0; reader.shape().entry_len];
                let told =
                    reader.take(|shared, at| shared.copy_out(at, &mut entry)).map(|()| entry);
                assert_eq!(self.definition.take(rings, index), told, "ring {rings} {index}");
            }
        }
        for _ in 0..rng.random_range(0..4) {
            assert_eq!(self.definition.digest(0), self.pipeline.digest(0), "digest");
        }
        for (window, of) in self.definition.program().windows.clone().iter().enumerate() {
            let shared = self.pipeline.window(window).unwrap();
            let mut bytes = vec![0; of.len];
            shared.copy_out(0, &mut bytes);
            assert_eq!(self.definition.window(window, 0, of.len), bytes, "{}", of.name);
            let offset = rng.random_range(0..of.len - 8);
            let bytes = self::bytes(rng, 8);
            shared.write(offset, &bytes);
            self.definition.set_window(window, offset, &bytes);
        }
        for index in 0..4 {
            assert_eq!(self.definition.counter(0, index), self.pipeline.counter(0, index));
        }
    }

    /// Workers go offline and come back, for the burst that follows at the latest.
    fn come_and_go(&mut self, rng: &mut Xoshiro256PlusPlus) {
        for at in 0..2 {
            if rng.random_bool(0.2) {
                self.workers[at].offline();
                if rng.random_bool(0.5) {
                    self.change(rng);
                }
                self.workers[at].online();
            }
        }
        if rng.random_bool(0.2) {
            self.pipeline.run_housekeeping(rng.random_range(0..100));
        }
    }

    /// Packets go through both and are the same afterwards.
    fn burst(&mut self, rng: &mut Xoshiro256PlusPlus) {
        let count = match rng.random_range(0..3) {
            0 => 1,
            1 => BURST,
            _ => rng.random_range(1..=BURST),
        };
        let at = if self.learns { 0 } else { rng.random_range(0..2) };
        let (region, descs) = (&self.region, &mut self.frames[..count]);
        let worker = &mut self.workers[at];
        let port = rng.random_range(0..3);
        let mut expected = Vec::new();
        self.definition.set_time_ns(self.now_ns);
        worker.set_time_ns(self.now_ns);
        for desc in &mut *descs {
            let len_max = if rng.random_bool(0.1) { FRAME_LEN_MAX } else { 150 };
            let len = rng.random_range(1..len_max);
            let frame = bytes(rng, len);
            region.slot_mut(desc)[..len].copy_from_slice(&frame);
            region.set_len(desc, len as u16);
            expected.push(self.definition.run(port, &frame));
        }
        let (mut fates, mut copies) = (vec![Fate::Dropped(Lost::Told); count], Vec::new());
        // One by one, in parts or at once: nothing tells the difference.
        let part = match rng.random_range(0..3) {
            0 => 1,
            1 => count,
            _ => rng.random_range(1..=count),
        };
        for (descs, fates) in descs.chunks_mut(part).zip(fates.chunks_mut(part)) {
            worker.run(region, descs, port, fates, |port, frame| {
                copies.push((port, frame.to_vec()));
            });
        }
        for (i, (expected, fate)) in expected.iter().zip(&fates).enumerate() {
            assert_eq!(expected.fate, *fate, "packet {i} of {count} by {part}, worker {at}");
            if let Fate::Port(_) | Fate::Queue(_) | Fate::Back = fate {
                let frame = region.frame(&descs[i]);
                assert_eq!(expected.frame, frame, "packet {i} of {count} by {part}");
            }
        }
        let all = expected.iter().flat_map(|outcome| &outcome.copies);
        let mut said: Vec<_> = all.map(|copy| (copy.port, copy.frame.clone())).collect();
        said.sort();
        copies.sort();
        assert!(
            said == copies,
            "copies missing {:?}, too many {:?}",
            without(&said, &copies),
            without(&copies, &said)
        );
    }
}

/// Of these in `a`, those that are not in `b`; both are sorted.
fn without<T: PartialEq + Clone>(a: &[T], b: &[T]) -> Vec<T> {
    let mut rest = b.to_vec();
    let is_missing = |of: &&T| match rest.iter().position(|other| other == *of) {
        Some(at) => {
            rest.swap_remove(at);
            false
        }
        None => true,
    };
    a.iter().filter(is_missing).cloned().collect()
}

impl Sides {
    fn new(program: Program, text: &str, region: &Arc<Region>, frames: Vec<Desc>) -> Sides {
        assert_eq!(Program::read(&program.to_string()).as_ref(), Ok(&program), "{text}");
        let mut pipeline = Pipeline::new(program.clone()).unwrap();
        let mut readers = |(rings, count)| -> Vec<Reader> {
            (0..count).map(|index| pipeline.reader(rings, index).unwrap()).collect()
        };
        let readers = [(0, 2), (1, 1)].map(&mut readers).into();
        let mut definition = Definition::new(program.clone());
        definition.set_frame_len_max(SLOT_LEN - NOTE_LEN);
        Sides {
            workers: [pipeline.worker(), pipeline.worker()],
            learns: program.tables.iter().any(|of| matches!(of.kind, Kind::Learner { .. })),
            pipeline,
            definition,
            now_ns: 1,
            known: Vec::new(),
            readers,
            region: Arc::clone(region),
            frames,
        }
    }

    /// Adds many entries to a table, and takes the oldest out where there are more than so many.
    fn renew(&mut self, rng: &mut Xoshiro256PlusPlus, table: usize, live_max: usize) {
        let mut changes = Vec::new();
        for _ in 0..400 {
            let Some(entry) = entry(rng, self.definition.program(), table) else { break };
            if !self.known.iter().any(|(of, known)| *of == table && known.key == entry.key) {
                self.known.push((table, entry.clone()));
                changes.push(Change::Add { table, entry });
            }
        }
        let surplus = self.known.len().saturating_sub(live_max);
        let gone = self.known.drain(..surplus);
        changes.extend(gone.map(|(table, entry)| Change::Delete { table, key: entry.key }));
        if rng.random_bool(0.5) {
            for change in &changes {
                assert_eq!(self.pipeline.change(std::slice::from_ref(change)), Ok(()));
            }
        } else {
            assert_eq!(self.pipeline.change(&changes), Ok(()));
        }
        assert_eq!(self.definition.change(&changes), Ok(()));
    }
}

/// A program, if a packet is not too much work for it.
fn read(text: &str) -> Option<Program> {
    match Program::read(text) {
        Ok(program) => Some(program),
        Err(error) if error.problem().to_string().starts_with("the work of a packet") => None,
        Err(error) => panic!("{text}\n{error}"),
    }
}

fn compare(seed: u64, region: &Arc<Region>, frames: Vec<Desc>, refused: &mut u64) -> Vec<Desc> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let text = generate::program(&mut rng, SIZE);
    let Some(program) = read(&text) else {
        *refused += 1;
        return frames;
    };
    let mut sides = Sides::new(program.clone(), &text, region, frames);
    for _ in 0..8 {
        for _ in 0..rng.random_range(0..8) {
            sides.change(&mut rng);
        }
        sides.arrays(&mut rng);
        sides.now_ns += rng.random_range(0..1_500_000_000);
        sides.come_and_go(&mut rng);
        sides.burst(&mut rng);
        sides.memory(&mut rng);
        for (array, registers) in program.registers.iter().enumerate() {
            for index in 0..registers.len as u64 {
                let both = (
                    sides.definition.register(array, index),
                    sides.pipeline.register(array, index),
                );
                assert_eq!(both.0, both.1, "{}[{index}]", registers.name);
            }
        }
    }
    sides.frames
}

#[test]
fn the_fast_path_does_what_the_definition_says() {
    let first = std::env::var("NICLAB_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = first.map_or(0..programs(), |seed| seed..seed + 1);
    let (region, mut frames) = Region::new(BURST, FRAME_LEN_MAX).unwrap();
    let mut refused = 0;
    for seed in seeds {
        let own = std::mem::take(&mut frames);
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
            compare(seed, &region, own, &mut refused)
        }));
        match outcome {
            Ok(back) => frames = back,
            Err(panic) => {
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
                println!("seed {seed}:\n{}", generate::program(&mut rng, SIZE));
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(refused <= programs() / 20, "{refused} programs are too much work");
}

/// Tables of prefixes and of wildcards grow past several sizes, and have their filters made anew.
#[test]
fn tables_of_thousands_of_entries_that_come_and_go_do_what_the_definition_says() {
    let (region, mut frames) = Region::new(BURST, FRAME_LEN_MAX).unwrap();
    for seed in 0..4 + programs() / 1_000 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let text = generate::program(&mut rng, 1 << 16);
        let Some(program) = read(&text) else { continue };
        let mut sides = Sides::new(program, &text, &region, std::mem::take(&mut frames));
        for round in 0..24 {
            sides.renew(&mut rng, 1 + seed as usize % 4, 1_500);
            sides.burst(&mut rng);
            if round % 8 == 0 {
                sides.workers[1].offline();
                sides.pipeline.run_housekeeping(100);
                sides.workers[1].online();
            }
        }
        frames = sides.frames;
    }
}
