//! Packet tests carried out, by either execution.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;

use niclab_nic::dma::Reader;
use niclab_nic::memory::{Desc, MemoryError, Region};
use niclab_table::CreateError;

use crate::definition::Definition;
use crate::entry::{Change, ChangeError, Key, Ports, Rates, Session};
use crate::form::Program;
use crate::limits::TEST_FRAME_LEN_MAX;
use crate::outcome::{Copied, Fate, Lost, Outcome};
use crate::run::{Pipeline, Worker};
use crate::text::{Checked, Command, Expected, Index, Stf, StfStep};

/// What carries a program out, packet by packet as far as a test sees.
pub trait Execution {
    /// Carries out changes: all of them, or none.
    ///
    /// # Errors
    /// With the first that is wrong.
    fn change(&mut self, changes: &[Change]) -> Result<(), ChangeError>;
    /// What a register has.
    fn register(&self, array: usize, index: u64) -> u64;
    /// Writes a register.
    fn set_register(&mut self, array: usize, index: u64, value: u64);
    /// Gives a meter its rates.
    fn set_meter(&mut self, array: usize, index: u64, rates: Rates);
    /// Says where copies go.
    fn set_session(&mut self, number: usize, session: Session);
    /// Says which ports a group has.
    fn set_ports(&mut self, group: usize, ports: Ports);
    /// Says what time it is.
    fn set_time_ns(&mut self, now_ns: u64);
    /// What happens to a packet.
    fn run(&mut self, port: u64, frame: &[u8]) -> Outcome;
    /// Packets and bytes that a counter has.
    fn counter(&self, array: usize, index: u64) -> (u64, u64);
    /// The next entry of a ring.
    fn take(&mut self, rings: usize, index: u64) -> Option<Vec<u8>>;
    /// The next record for the control side.
    fn digest(&mut self, digest: usize) -> Option<Vec<u8>>;
    /// Bytes of a window, of those that it has.
    fn window(&self, window: usize, offset: usize, len: usize) -> Vec<u8>;
    /// Writes to a window, as the application does.
    fn set_window(&mut self, window: usize, offset: usize, bytes: &[u8]);

    /// Carries out a command.
    ///
    /// # Errors
    /// Where it does not fit what is there.
    fn tell(&mut self, command: &Command) -> Result<(), ChangeError> {
        match command {
            Command::Change(change) => self.change(std::slice::from_ref(change))?,
            Command::Register { array, index, value } => self.set_register(*array, *index, *value),
            Command::Meter { array, index, rates } => self.set_meter(*array, *index, *rates),
            Command::Session { number, session } => self.set_session(*number, *session),
            Command::Ports { group, ports } => self.set_ports(*group, *ports),
        }
        Ok(())
    }
}

impl Execution for Definition {
    fn change(&mut self, changes: &[Change]) -> Result<(), ChangeError> {
        Definition::change(self, changes)
    }

    fn register(&self, array: usize, index: u64) -> u64 {
        Definition::register(self, array, index).unwrap_or(0)
    }

    fn set_register(&mut self, array: usize, index: u64, value: u64) {
        Definition::set_register(self, array, index, value);
    }

    fn set_meter(&mut self, array: usize, index: u64, rates: Rates) {
        Definition::set_meter(self, array, index, rates);
    }

    fn set_session(&mut self, number: usize, session: Session) {
        Definition::set_session(self, number, session);
    }

    fn set_ports(&mut self, group: usize, ports: Ports) {
        Definition::set_ports(self, group, ports);
    }

    fn set_time_ns(&mut self, now_ns: u64) {
        Definition::set_time_ns(self, now_ns);
    }

    fn run(&mut self, port: u64, frame: &[u8]) -> Outcome {
        Definition::run(self, port, frame)
    }

    fn counter(&self, array: usize, index: u64) -> (u64, u64) {
        Definition::counter(self, array, index).unwrap_or_default()
    }

    fn take(&mut self, rings: usize, index: u64) -> Option<Vec<u8>> {
        Definition::take(self, rings, index)
    }

    fn digest(&mut self, digest: usize) -> Option<Vec<u8>> {
        Definition::digest(self, digest)
    }

    fn window(&self, window: usize, offset: usize, len: usize) -> Vec<u8> {
        Definition::window(self, window, offset, len).to_vec()
    }

    fn set_window(&mut self, window: usize, offset: usize, bytes: &[u8]) {
        Definition::set_window(self, window, offset, bytes);
    }
}

/// The fast path, a burst of one packet at a time.
pub struct Single {
    pipeline: Pipeline,
    worker: Worker,
    /// The application's ends of the rings.
    readers: Vec<Vec<Reader>>,
    region: std::sync::Arc<Region>,
    frame: [Desc; 1],
    now_ns: u64,
}

/// Why the fast path cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SingleError {
    /// No memory for tables.
    #[error(transparent)]
    Tables(#[from] CreateError),
    /// No memory for frames.
    #[error(transparent)]
    Frames(#[from] MemoryError),
    /// The region has no frame.
    #[error("no frame")]
    NoFrame,
}

/// Packets for queue 0 of the host are expected at this port of a test, those for queue 1 at the
/// next, and so on.
const QUEUES: u64 = 1_000_000;

impl Single {
    /// A program with empty tables.
    ///
    /// # Errors
    /// Where there is no memory.
    pub fn new(program: Program) -> Result<Single, SingleError> {
        let mut pipeline = Pipeline::new(program)?;
        let counts: Vec<usize> = pipeline.program().rings.iter().map(|of| of.count).collect();
        let mut all =
            |(rings, count)| (0..count).filter_map(|n| pipeline.reader(rings, n)).collect();
        let readers = counts.into_iter().enumerate().map(&mut all).collect();
        let (region, mut frames) = Region::new(1, TEST_FRAME_LEN_MAX)?;
        let frame = [frames.pop().ok_or(SingleError::NoFrame)?];
        Ok(Single { worker: pipeline.worker(), pipeline, readers, region, frame, now_ns: 0 })
    }
}

impl Execution for Single {
    fn change(&mut self, changes: &[Change]) -> Result<(), ChangeError> {
        self.pipeline.change(changes)
    }

    fn register(&self, array: usize, index: u64) -> u64 {
        self.pipeline.register(array, index).unwrap_or(0)
    }

    fn set_register(&mut self, array: usize, index: u64, value: u64) {
        self.pipeline.set_register(array, index, value);
    }

    fn set_meter(&mut self, array: usize, index: u64, rates: Rates) {
        self.pipeline.set_meter(array, index, rates, self.now_ns);
    }

    fn set_session(&mut self, number: usize, session: Session) {
        self.pipeline.set_session(number, session);
    }

    fn set_ports(&mut self, group: usize, ports: Ports) {
        self.pipeline.set_ports(group, ports);
    }

    fn set_time_ns(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.worker.set_time_ns(now_ns);
    }

    fn run(&mut self, port: u64, frame: &[u8]) -> Outcome {
        let [desc] = &mut self.frame;
        let slot = self.region.slot_mut(desc);
        let len = frame.len().min(slot.len());
        slot[..len].copy_from_slice(&frame[..len]);
        self.region.set_len(desc, len as u16);
        let (mut fates, mut copies) = ([Fate::Dropped(Lost::Told)], Vec::new());
        self.worker.run(&self.region, &mut self.frame, port, &mut fates, |port, frame| {
            copies.push(Copied { port, frame: frame.to_vec() });
        });
        let [fate] = fates;
        Outcome { fate, frame: self.region.frame(&self.frame[0]).to_vec(), copies }
    }

    fn counter(&self, array: usize, index: u64) -> (u64, u64) {
        self.pipeline.counter(array, index).unwrap_or_default()
    }

    fn take(&mut self, rings: usize, index: u64) -> Option<Vec<u8>> {
        let reader = self.readers.get_mut(rings)?.get_mut(index as usize)?;
        let mut entry = vec![0; reader.shape().entry_len];
        reader.take(|shared, at| shared.copy_out(at, &mut entry))?;
        Some(entry)
    }

    fn digest(&mut self, digest: usize) -> Option<Vec<u8>> {
        self.pipeline.digest(digest)
    }

    fn window(&self, window: usize, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        if let Some(shared) = self.pipeline.window(window) {
            shared.copy_out(offset, &mut bytes);
        }
        bytes
    }

    fn set_window(&mut self, window: usize, offset: usize, bytes: &[u8]) {
        if let Some(shared) = self.pipeline.window(window) {
            shared.write(offset, bytes);
        }
    }
}

/// What a test came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Packets that came.
    pub packets: usize,
    /// What was expected and was so: packets that left, registers.
    pub met: usize,
    /// What was not as expected.
    pub failures: Vec<Failure>,
}

/// Something that is not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Line of the test, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

/// What leaves and what is expected, port by port.
#[derive(Default)]
struct ByPort<'a> {
    /// With the line of the packet that came.
    left: BTreeMap<u64, VecDeque<(usize, Vec<u8>)>>,
    expected: BTreeMap<u64, VecDeque<(usize, &'a Expected)>>,
    /// The ports that each packet left by, by the line of the packet.
    went: BTreeMap<usize, Vec<u64>>,
}

/// A line that expects a packet, and the line of the packet that it was given.
type Given = (usize, usize);

/// Carries out a test on a fresh execution.
pub fn carry_out(test: &Stf, execution: &mut impl Execution) -> Verdict {
    let (mut verdict, mut ports, mut now_ns) = (Verdict::default(), ByPort::default(), 0);
    let mut entries = Entries::default();
    // The line of the last packet, and whether any left for it.
    let mut last = (0, false);
    execution.set_time_ns(now_ns);
    for (line, step) in &test.steps {
        let line = *line;
        let mut fail = |reason: String| verdict.failures.push(Failure { line, reason });
        match step {
            StfStep::Told(command) => match execution.tell(command) {
                Ok(()) => entries.note(command),
                Err(error) => fail(error.to_string()),
            },
            StfStep::RemoveAll => {
                for command in entries.removal() {
                    match execution.tell(&command) {
                        Ok(()) => entries.note(&command),
                        Err(error) => fail(error.to_string()),
                    }
                }
            }
            StfStep::Reset { array, len } => {
                (0..*len as u64).for_each(|index| execution.set_register(*array, index, 0));
            }
            StfStep::Rates { array, len, rates } => {
                (0..*len as u64).for_each(|index| execution.set_meter(*array, index, *rates));
            }
            StfStep::Packet { port, frame } => {
                verdict.packets += 1;
                let outcome = execution.run(*port, frame);
                let copies = outcome.copies.into_iter().map(|of| (u64::from(of.port), of.frame));
                let whole = match outcome.fate {
                    Fate::Port(port) => Some((port, outcome.frame)),
                    Fate::Back => Some((*port, outcome.frame)),
                    // As if queues were ports, from so many on.
                    Fate::Queue(queue) => Some((QUEUES.saturating_add(queue), outcome.frame)),
                    Fate::Dropped(_) => None,
                };
                last = (line, ports.came(line, whole.into_iter().chain(copies)));
            }
            StfStep::Expect { port, frame } => {
                ports.expected.entry(*port).or_default().push_back((line, frame));
            }
            StfStep::NoPacket if last.0 == 0 => fail("no packet has come before".to_owned()),
            StfStep::NoPacket if last.1 => {
                fail(format!("the packet of line {} made one leave", last.0));
            }
            StfStep::NoPacket => verdict.met += 1,
            StfStep::Wait { ns } => {
                now_ns = now_ns.saturating_add(*ns);
                execution.set_time_ns(now_ns);
            }
            StfStep::Window { window, offset, bytes } => {
                execution.set_window(*window, *offset, bytes);
            }
            step => match look(step, execution, &entries) {
                None => verdict.met += 1,
                Some(reason) => fail(reason),
            },
        }
    }
    ports.judge(&mut verdict);
    verdict.failures.sort_by_key(|failure| failure.line);
    verdict
}

/// Looks at what a program leaves behind beside packets; what is wrong with it.
fn look(step: &StfStep, execution: &mut impl Execution, entries: &Entries) -> Option<String> {
    let differs =
        |what: &str, has: Option<Vec<u8>>, expected: &Option<Expected>| match (has, expected) {
            (None, None) => None,
            (Some(_), None) => Some(format!("there is {what}")),
            (None, Some(_)) => Some(format!("there is no {what}")),
            (Some(has), Some(expected)) => expected.differs(&has),
        };
    match step {
        StfStep::Check { name, of, index, is, value } => {
            let index = match index {
                Index::Number(index) => *index,
                Index::Entry { name, table, key, len } => match entries.number(*table, key) {
                    // As `entryid` says it; arrays have a power of two.
                    Some(number) => (number as u64 + 1) & (*len as u64 - 1),
                    None => return Some(format!("there is no entry {name}")),
                },
            };
            let has = match of {
                Checked::Register(array) => execution.register(*array, index),
                Checked::Packets(array) => execution.counter(*array, index).0,
                Checked::Bytes(array) => execution.counter(*array, index).1,
            };
            (!is.holds(has, *value)).then(|| format!("{name}({index}) is {has}"))
        }
        StfStep::Entry { rings, index, expected } => {
            differs("entry", execution.take(*rings, *index), expected)
        }
        StfStep::Digest { digest, expected } => {
            differs("record", execution.digest(*digest), expected)
        }
        StfStep::ExpectWindow { window, offset, expected } => {
            expected.differs(&execution.window(*window, *offset, expected.len()))
        }
        // Theirs who carry the test out.
        _ => None,
    }
}

/// Entries that a test has added, by table.
#[derive(Default)]
struct Entries(BTreeMap<usize, Numbers>);

/// Entries of a table, and their numbers.
#[derive(Default)]
struct Numbers {
    there: HashMap<Key, usize>,
    /// Numbers below [`Numbers::end`] that no entry has.
    free: BTreeSet<usize>,
    /// No entry has had this number or a higher one.
    end: usize,
}

impl Numbers {
    /// Gives an entry the least number that is free.
    fn add(&mut self, key: &Key) {
        let number = self.free.pop_first().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        });
        self.there.insert(key.clone(), number);
    }

    fn delete(&mut self, key: &Key) {
        self.free.extend(self.there.remove(key));
    }

    /// Keys in the order of their numbers.
    fn keys(&self) -> Vec<&Key> {
        let mut all: Vec<_> = self.there.iter().collect();
        all.sort_unstable_by_key(|(_, number)| **number);
        all.into_iter().map(|(key, _)| key).collect()
    }
}

impl Entries {
    /// Takes note of a command that was carried out.
    fn note(&mut self, command: &Command) {
        match command {
            Command::Change(Change::Add { table, entry }) => {
                self.0.entry(*table).or_default().add(&entry.key);
            }
            Command::Change(Change::Delete { table, key }) => {
                self.0.entry(*table).or_default().delete(key);
            }
            _ => {}
        }
    }

    /// The number of the entry with this key.
    fn number(&self, table: usize, key: &Key) -> Option<usize> {
        self.0.get(&table)?.there.get(key).copied()
    }

    /// The commands that take all out.
    fn removal(&self) -> Vec<Command> {
        let entries = self
            .0
            .iter()
            .flat_map(|(table, of)| of.keys().into_iter().map(move |key| (table, key)));
        let delete =
            |(table, key): (&usize, &Key)| Change::Delete { table: *table, key: key.clone() };
        entries.map(|of| Command::Change(delete(of))).collect()
    }
}

impl ByPort<'_> {
    /// Takes note of a packet and what left for it; whether any did.
    fn came(&mut self, line: usize, left: impl Iterator<Item = (u64, Vec<u8>)>) -> bool {
        let went = self.went.entry(line).or_default();
        for (port, frame) in left {
            went.push(port);
            self.left.entry(port).or_default().push_back((line, frame));
        }
        !went.is_empty()
    }

    fn judge(mut self, verdict: &mut Verdict) {
        for (port, expected) in std::mem::take(&mut self.expected) {
            let mut left = self.left.remove(&port).unwrap_or_default();
            let mut given: Vec<Given> = Vec::new();
            for (line, expected) in expected {
                let wrong = match left.pop_front() {
                    None => Some(self.absent(port, line, &given)),
                    Some((of, frame)) => {
                        given.push((line, of));
                        let why = expected.differs(&frame);
                        why.map(|why| format!("that of line {of} left by port {port}: {why}"))
                    }
                };
                match wrong {
                    None => verdict.met += 1,
                    Some(reason) => verdict.failures.push(Failure { line, reason }),
                }
            }
            self.surplus(port, left, &given, verdict);
        }
        for (port, left) in std::mem::take(&mut self.left) {
            self.surplus(port, left, &[], verdict);
        }
    }

    /// The last packet before a line, and the ports that it left by.
    fn before(&self, line: usize) -> Option<(usize, &[u64])> {
        self.went.range(..line).next_back().map(|(of, ports)| (*of, ports.as_slice()))
    }

    /// That no packet left by a port for a line that expects one, and where the one before it went.
    fn absent(&self, port: u64, line: usize, given: &[Given]) -> String {
        let none = format!("no packet left by port {port}");
        let Some((of, ports)) = self.before(line) else { return none };
        let taken = given.iter().rev().find(|(_, packet)| *packet == of);
        match (ports, taken) {
            ([], _) => format!("{none}; none left for that of line {of}"),
            (_, Some((line, _))) => format!("{none}; that of line {of} was given to line {line}"),
            _ => {
                let mut ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
                ports.dedup();
                format!("{none}; that of line {of} left by port {}", ports.join(", "))
            }
        }
    }

    /// What left by a port and was given to no line; with it the line that meant it, where that was
    /// given one of before.
    fn surplus(
        &self,
        port: u64,
        left: VecDeque<(usize, Vec<u8>)>,
        given: &[Given],
        verdict: &mut Verdict,
    ) {
        for (line, frame) in left {
            let digits: String = frame.iter().take(64).map(|b| format!("{b:02x}")).collect();
            let mut reason = format!("it left by port {port}, and nothing expects it: {digits}");
            let means = |(by, of): &&Given| {
                *of != line && self.before(*by).is_some_and(|(before, _)| before == line)
            };
            if let Some((by, of)) = given.iter().find(means) {
                reason +=
                    &format!("; line {by}, which expects one there, was given that of line {of}");
            }
            verdict.failures.push(Failure { line, reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::entry::Part;

    fn key(number: u32) -> Key {
        vec![Part { value: number.to_be_bytes().to_vec(), mask: vec![0xff; 4] }]
    }

    #[test]
    fn an_entry_gets_the_least_number_that_is_free() {
        let (mut numbers, mut expected) = (Numbers::default(), BTreeMap::new());
        let mut seed = 1_u32;
        for _ in 0..10_000 {
            // Numerical Recipes' generator.
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let of = seed >> 24;
            if expected.values().any(|there| *there == key(of)) {
                numbers.delete(&key(of));
                expected.retain(|_, there| *there != key(of));
            } else {
                let number = (0..).find(|number| !expected.contains_key(number)).unwrap();
                numbers.add(&key(of));
                expected.insert(number, key(of));
            }
            assert_eq!(numbers.keys(), expected.values().collect::<Vec<_>>());
        }
        numbers.delete(&key(1 << 30));
        assert_eq!(numbers.keys().len(), expected.len());
    }

    #[test]
    fn many_entries_are_added_and_deleted_in_a_moment() {
        let (mut numbers, start) = (Numbers::default(), Instant::now());
        (0..400_000).for_each(|number| numbers.add(&key(number)));
        (0..400_000).rev().for_each(|number| numbers.delete(&key(number)));
        // Some tenths of a second; minutes where each walks over all that are there.
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
        assert!(numbers.there.is_empty() && numbers.free.len() == 400_000);
    }
}
