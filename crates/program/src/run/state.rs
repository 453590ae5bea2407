//! What outlives a packet, and is shared by all cores: registers, meters, sessions.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use niclab_nic::dma::{Filler, Reader, Shape, ring};
use niclab_nic::shared_memory::{SharedMemory, WORD};
use niclab_table::{CreateError, Segments};

use crate::entry::{Ports, Rates, Session, colour};
use crate::form::{Digests, Instruction, Program};
use crate::limits::{MIRROR_SESSIONS, MULTICAST_GROUPS};

/// All of it.
#[derive(Debug)]
pub(super) struct State {
    pub registers: Vec<Registers>,
    pub meters: Vec<Meters>,
    /// With the bytes that the program declares.
    pub windows: Vec<(Arc<SharedMemory>, usize)>,
    pub rings: Vec<Vec<Filler>>,
    pub digests: Vec<Filler>,
    /// Where copies go: port and length of each session, or none.
    sessions: Vec<AtomicU64>,
    /// Ports of each group, bit by bit; none of a program that does not ask.
    groups: Vec<AtomicU64>,
}

/// An array of registers.
#[derive(Debug)]
pub(super) struct Registers {
    /// What each has, less `initial`: memory that was never written is zero.
    words: Segments<1>,
    len: usize,
    pub initial: u64,
}

/// An array of meters.
#[derive(Debug)]
pub(super) struct Meters {
    meters: niclab_nic::Meters,
    len: usize,
}

/// The other ends of what the card fills.
#[derive(Debug)]
pub(super) struct Readers {
    /// Until the application takes them.
    pub rings: Vec<Vec<Option<Reader>>>,
    pub digests: Vec<Reader>,
}

/// Memory of an application.
fn memory(bytes: usize) -> Result<Arc<SharedMemory>, CreateError> {
    let made = SharedMemory::create(bytes.next_multiple_of(WORD));
    made.map(|(shared, _)| Arc::new(shared)).map_err(|_| CreateError::OutOfMemory { bytes })
}

impl State {
    pub(super) fn new(program: &Program) -> Result<(State, Readers), CreateError> {
        let windows = program.windows.iter().map(|window| Ok((memory(window.len)?, window.len)));
        let windows = windows.collect::<Result<_, CreateError>>()?;
        let (mut rings, mut readers) = (Vec::new(), Vec::new());
        for of in &program.rings {
            let both = (0..of.count).map(|_| Ok(ring(&memory(of.shape.bytes())?, of.shape)));
            let both: Vec<(Filler, Reader)> = both.collect::<Result<_, CreateError>>()?;
            let (fillers, theirs): (Vec<Filler>, Vec<Reader>) = both.into_iter().unzip();
            rings.push(fillers);
            readers.push(theirs.into_iter().map(Some).collect());
        }
        let digest = |of: &Digests| {
            let entry_len = program.structs[of.of].len;
            let shape = Shape { entries: of.len as u32, entry_len };
            Ok(ring(&memory(shape.bytes())?, shape))
        };
        let digests = program.digests.iter().map(digest).collect::<Result<Vec<_>, CreateError>>();
        let (digests, told): (Vec<Filler>, Vec<Reader>) = digests?.into_iter().unzip();
        let registers = program.registers.iter().map(|array| {
            let words = Segments::new(array.len as u32);
            // The packet path allocates nothing.
            (0..array.len as u32).step_by(1 << 14).for_each(|at| _ = words.ensure(at));
            Registers { words, len: array.len, initial: array.initial }
        });
        let meters = program.meters.iter().map(|array| Meters {
            meters: niclab_nic::Meters::new(array.len as u32),
            len: array.len,
        });
        let codes = program.actions.iter().map(|action| &action.code).chain([&program.apply]);
        let asks = |step: &Instruction| matches!(step, Instruction::Multicast(_));
        let groups = if codes.flat_map(|of| &of.steps).any(asks) { MULTICAST_GROUPS } else { 0 };
        let state = State {
            registers: registers.collect(),
            meters: meters.collect(),
            windows,
            rings,
            digests,
            sessions: (0..MIRROR_SESSIONS).map(|_| AtomicU64::new(0)).collect(),
            groups: (0..groups).map(|_| AtomicU64::new(0)).collect(),
        };
        Ok((state, Readers { rings: readers, digests: told }))
    }

    pub(super) fn set_session(&self, number: usize, session: Session) {
        if let Some(place) = self.sessions.get(number) {
            // A length of zero is no session.
            let len = u64::from(session.len_max.max(1));
            place.store(len << 32 | u64::from(session.port), Relaxed);
        }
    }

    pub(super) fn set_ports(&self, group: usize, ports: Ports) {
        if let Some(place) = self.groups.get(group) {
            place.store(ports.0, Relaxed);
        }
    }

    /// The ports of a group; a number is taken modulo how many groups there are.
    pub(super) fn ports(&self, group: u64) -> Ports {
        let group = self.groups.get((group % MULTICAST_GROUPS) as usize);
        Ports(group.map_or(0, |ports| ports.load(Relaxed)))
    }

    pub(super) fn session(&self, number: usize) -> Option<Session> {
        let word = self.sessions.get(number)?.load(Relaxed);
        (word != 0).then_some(Session { port: word as u32, len_max: (word >> 32) as u32 })
    }
}

/// What one core has counted: nobody else writes there.
#[derive(Debug)]
pub(super) struct Counts {
    /// Packets and bytes, by array.
    arrays: Vec<Box<[[AtomicU64; 2]]>>,
    /// Records that found no room, by digest.
    untold: Box<[AtomicU64]>,
    /// Entries that learners have, by table.
    learnt: Box<[AtomicU64]>,
}

impl Counts {
    pub(super) fn new(program: &Program) -> Counts {
        let array = |len: usize| (0..len).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect();
        let zeros = |len: usize| (0..len).map(|_| AtomicU64::new(0)).collect();
        Counts {
            arrays: program.counters.iter().map(|of| array(of.len)).collect(),
            untold: zeros(program.digests.len()),
            learnt: zeros(program.tables.len()),
        }
    }

    /// A record found no room.
    #[inline]
    pub(super) fn lose(&self, digest: usize) {
        let untold = &self.untold[digest];
        untold.store(untold.load(Relaxed) + 1, Relaxed);
    }

    /// Records that found no room.
    pub(super) fn untold(&self, digest: usize) -> u64 {
        self.untold.get(digest).map_or(0, |untold| untold.load(Relaxed))
    }

    /// A learner has so many entries.
    #[inline]
    pub(super) fn learn(&self, table: usize, entries: u64) {
        self.learnt[table].store(entries, Relaxed);
    }

    /// Entries that a learner has.
    pub(super) fn learnt(&self, table: usize) -> u64 {
        self.learnt.get(table).map_or(0, |learnt| learnt.load(Relaxed))
    }

    /// The learners are gone.
    pub(super) fn forget(&self) {
        self.learnt.iter().for_each(|learnt| learnt.store(0, Relaxed));
    }

    /// Counts a packet of so many bytes; the index is taken modulo the length.
    #[inline]
    pub(super) fn count(&self, array: usize, index: u64, bytes: u64) {
        let array = &self.arrays[array];
        let [packets, of_bytes] = &array[index as usize & (array.len() - 1)];
        packets.store(packets.load(Relaxed) + 1, Relaxed);
        of_bytes.store(of_bytes.load(Relaxed).wrapping_add(bytes), Relaxed);
    }

    /// Packets and bytes; `None` where there is no such array.
    pub(super) fn read(&self, array: usize, index: u64) -> Option<(u64, u64)> {
        let array = self.arrays.get(array)?;
        let [packets, bytes] = &array[index as usize & (array.len() - 1)];
        Some((packets.load(Relaxed), bytes.load(Relaxed)))
    }
}

impl Registers {
    /// A register; the index is taken modulo the length.
    #[inline]
    pub(super) fn at(&self, index: u64) -> Option<&AtomicU64> {
        self.words.get(index as u32 & (self.len as u32 - 1)).map(|[word]| word)
    }
}

impl Meters {
    fn number(&self, index: u64) -> u32 {
        index as u32 & (self.len as u32 - 1)
    }

    /// Gives a meter its rates, and full buckets.
    pub(super) fn set(&self, index: u64, rates: Rates, now_ns: u64) {
        self.meters.set(self.number(index), &rates.into(), now_ns);
    }

    /// The colour behind a meter. One without rates leaves it as it is.
    #[inline]
    pub(super) fn colour(&self, index: u64, len: u64, before: u64, now_ns: u64) -> u64 {
        let after = self.meters.colour(self.number(index), len, colour(before), now_ns);
        after.map_or(before, |after| after as u64)
    }
}
