//! A program at work: the control side, which changes tables while workers read them.
//!
//! # How a change becomes visible
//!
//! An entry is a word under its key. A change by itself stores the word: it is there for the next
//! look-up; so two changes that are not made together have no order within a burst. Changes that
//! come together put references to cells in place of words (`niclab_table::VersionedValues`), and
//! one store of the generation, which a worker reads once a burst, makes all of them visible. What
//! a word leads to, the record or the entries under a new mask, is there before the word is. Cells
//! are taken out of the places again when no burst of before the commit is under way.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use niclab_nic::dma::Reader;
use niclab_nic::shared_memory::SharedMemory;
use niclab_table::{
    CellId, CreateError, InsertError, QsbrDomain, Segments, Stamp, Transactions, VersionedValues,
    WordUpdate,
};

use super::content::{Content, Moved};
use super::plan::{Engine, Plan, Wide};
use super::record::{Does, HEAD, Rank, Records, Shelf, Word, head};
use super::state::{Counts, Readers, State};
use super::worker::Worker;
use crate::entry::{Change, ChangeError, Entry, Key, Member, Ports, Rates, Refused, Session};
use crate::form::{Invocation, Kind, Program};
use crate::text::Command;

/// What the control side shows workers.
#[derive(Debug)]
pub(super) struct Board {
    pub program: Program,
    pub plan: Plan,
    pub state: State,
    pub domain: QsbrDomain,
    pub versions: Arc<VersionedValues>,
    pub records: Records,
    pub defaults: Vec<AtomicU64>,
    pub groups: Vec<Option<Segments<1>>>,
    /// What each worker has counted, also those that are gone.
    pub counts: Mutex<Vec<Arc<Counts>>>,
}

/// A program, its tables and arrays: what changes them.
///
/// One thread has it; any number of [`Worker`]s carry packets through meanwhile.
#[derive(Debug)]
pub struct Pipeline {
    pub(super) board: Arc<Board>,
    pub(super) tables: Vec<Content>,
    pub(super) transactions: Transactions,
    shelf: Shelf,
    /// Places whose cells are to be taken out, oldest first.
    folding: VecDeque<(Stamp, Changed)>,
    passed: Stamp,
    /// What the open transaction did.
    done: Done,
    readers: Readers,
    /// Words of a record that is made.
    words: Vec<u64>,
}

/// An array of registers that an application and the program have in common.
#[derive(Clone, Debug)]
pub struct SharedRegisters {
    board: Arc<Board>,
    array: usize,
}

impl SharedRegisters {
    /// What a register has; the index is taken as a packet's.
    #[must_use]
    pub fn read(&self, index: u64) -> u64 {
        self.board.state.registers[self.array].read(index)
    }

    /// Adds to a register, as a packet does, and says what it had.
    pub fn add(&self, index: u64, value: u64) -> u64 {
        self.board.state.registers[self.array].add(index, value)
    }

    /// Writes a register. Who hands memory over by it has done with that memory: whatever was done
    /// before comes before what a packet does that has read the register.
    pub fn write(&self, index: u64, value: u64) {
        self.board.state.registers[self.array].write(index, value);
    }
}

/// A place that a transaction changed, and its cell.
type Changed = (WordPlace<Box<[u64]>>, CellId);

/// What a transaction did, to be undone or completed.
#[derive(Debug, Default)]
struct Done {
    cells: Vec<Changed>,
    /// Words that were replaced, and whether they are groups'.
    old: Vec<(bool, u64)>,
    /// Words that replaced them.
    new: Vec<(bool, u64)>,
    /// Entries that came, and entries that went, in their order: table, number of the mask, number.
    moved: Vec<(Moved, usize, usize, u32)>,
}

/// Where a word stands; an entry by its key.
#[derive(Clone, Copy, Debug)]
enum WordPlace<K> {
    Entry { table: usize, mask: usize, key: K },
    Default { table: usize },
    Group { table: usize, group: u32 },
}

impl<K: AsRef<[u64]>> WordPlace<K> {
    fn borrowed(&self) -> WordPlace<&[u64]> {
        match self {
            WordPlace::Entry { table, mask, key } => {
                WordPlace::Entry { table: *table, mask: *mask, key: key.as_ref() }
            }
            WordPlace::Default { table } => WordPlace::Default { table: *table },
            WordPlace::Group { table, group } => WordPlace::Group { table: *table, group: *group },
        }
    }
}

impl WordPlace<&[u64]> {
    fn kept(self) -> WordPlace<Box<[u64]>> {
        match self {
            WordPlace::Entry { table, mask, key } => {
                WordPlace::Entry { table, mask, key: key.into() }
            }
            WordPlace::Default { table } => WordPlace::Default { table },
            WordPlace::Group { table, group } => WordPlace::Group { table, group },
        }
    }

    fn table(self) -> usize {
        match self {
            WordPlace::Entry { table, .. }
            | WordPlace::Default { table }
            | WordPlace::Group { table, .. } => table,
        }
    }
}

impl Pipeline {
    /// A program with empty tables.
    ///
    /// # Errors
    /// Where there is no memory for its tables.
    pub fn new(program: Program) -> Result<Pipeline, CreateError> {
        let plan = Plan::of(&program);
        let domain = QsbrDomain::new();
        let transactions = Transactions::new(&domain);
        let mut tables = Vec::new();
        for (of, look) in program.tables.iter().zip(&plan.tables) {
            tables.push(Content::new(of, look, plan.entry_ids, &domain)?);
        }
        let groups = program.tables.iter().map(|table| match table.kind {
            Kind::Selector { groups_max, .. } => Some(Segments::new(groups_max as u32)),
            _ => None,
        });
        let (state, readers) = State::new(&program)?;
        let board = Board {
            state,
            counts: Mutex::default(),
            versions: transactions.versions(),
            records: Records::new(),
            defaults: program.tables.iter().map(|_| AtomicU64::new(0)).collect(),
            groups: groups.collect(),
            domain,
            plan,
            program,
        };
        let mut pipeline = Pipeline {
            board: Arc::new(board),
            tables,
            transactions,
            shelf: Shelf::default(),
            folding: VecDeque::new(),
            passed: Stamp::FIRST,
            done: Done::default(),
            readers,
            words: Vec::new(),
        };
        pipeline.set_defaults()?;
        Ok(pipeline)
    }

    fn set_defaults(&mut self) -> Result<(), CreateError> {
        for table in 0..self.tables.len() {
            let actions = self.board.program.tables[table].kind.actions();
            let Some(default) = actions.map(|actions| actions.default.clone()) else { continue };
            let word = self.word(table, &default, 0, Rank::FIRST);
            let word = word.map_err(|_| CreateError::OutOfMemory { bytes: 0 })?;
            self.board.defaults[table].store(word, Ordering::Release);
        }
        Ok(())
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.board.program
    }

    /// What carries packets through, for one thread.
    #[must_use]
    pub fn worker(&self) -> Worker {
        Worker::new(Arc::clone(&self.board), self.tables.iter().map(Content::reader).collect())
    }

    /// What a register has; `None` where there is no such array. The index is taken as a packet's.
    #[must_use]
    pub fn register(&self, array: usize, index: u64) -> Option<u64> {
        self.board.state.registers.get(array).map(|array| array.read(index))
    }

    /// Writes a register; the index is taken as a packet's.
    pub fn set_register(&mut self, array: usize, index: u64, value: u64) {
        if let Some(array) = self.board.state.registers.get(array) {
            array.write(index, value);
        }
    }

    /// An array of registers for an application; `None` where there is none.
    #[must_use]
    pub fn registers(&self, array: usize) -> Option<SharedRegisters> {
        let board = || Arc::clone(&self.board);
        let is_there = array < self.board.state.registers.len();
        is_there.then(|| SharedRegisters { board: board(), array })
    }

    /// Gives a meter its rates, and full buckets, at this time; the index is taken as a packet's.
    pub fn set_meter(&mut self, array: usize, index: u64, rates: Rates, now_ns: u64) {
        if let Some(array) = self.board.state.meters.get(array) {
            array.set(index, rates, now_ns);
        }
    }

    /// Packets and bytes that a counter has; as [`Pipeline::register`]. Each core counts for
    /// itself: these are the sums, exact once no packet is on its way.
    #[must_use]
    pub fn counter(&self, array: usize, index: u64) -> Option<(u64, u64)> {
        let counts = self.board.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = array < self.board.program.counters.len();
        let each = counts.iter().filter_map(|of| of.read(array, index));
        known.then(|| each.fold((0_u64, 0_u64), |all, of| (all.0 + of.0, all.1.wrapping_add(of.1))))
    }

    /// The memory of a window.
    #[must_use]
    pub fn window(&self, window: usize) -> Option<Arc<SharedMemory>> {
        self.board.state.windows.get(window).map(|(shared, _)| Arc::clone(shared))
    }

    /// The application's end of a ring; `None` where there is no such ring, or somebody has it.
    pub fn reader(&mut self, rings: usize, index: usize) -> Option<Reader> {
        self.readers.rings.get_mut(rings)?.get_mut(index)?.take()
    }

    /// A copy of the entry that waits in a ring behind so many others; `None` where fewer wait, and
    /// of a ring that is not there or that somebody reads.
    #[must_use]
    pub fn waiting(&self, rings: usize, index: usize, behind: u32) -> Option<Vec<u8>> {
        let reader = self.readers.rings.get(rings)?.get(index)?.as_ref()?;
        let mut entry = vec![0; reader.shape().entry_len];
        reader.look(behind.into(), |shared, at| shared.copy_out(at, &mut entry))?;
        Some(entry)
    }

    /// The next record for the control side, as its fields stand in metadata.
    pub fn digest(&mut self, digest: usize) -> Option<Vec<u8>> {
        let reader = self.readers.digests.get_mut(digest)?;
        let mut record = vec![0; reader.shape().entry_len];
        reader.take(|shared, at| shared.copy_out(at, &mut record))?;
        Some(record)
    }

    /// Records of a digest that were not told, for too many waited.
    #[must_use]
    pub fn untold(&self, digest: usize) -> u64 {
        self.sum(|of| of.untold(digest))
    }

    /// What all cores have counted.
    fn sum(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        let counts = self.board.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|counts| of(counts)).sum()
    }

    /// Says where copies of a session go.
    pub fn set_session(&mut self, number: usize, session: Session) {
        self.board.state.set_session(number, session);
    }

    /// Says which ports a group of `multicast` has.
    pub fn set_ports(&mut self, group: usize, ports: Ports) {
        self.board.state.set_ports(group, ports);
    }

    /// Entries of a table: those that the control side put there, and of a learner those that all
    /// cores have learnt, with some whose time has run out.
    #[must_use]
    pub fn entries(&self, table: usize) -> usize {
        let live = self.tables.get(table).map_or(0, Content::live);
        live + self.sum(|of| of.learnt(table)) as usize
    }

    /// Carries out changes: all of them, or none. Packets see all of them from one moment on, and
    /// none of them before.
    ///
    /// # Errors
    /// With the first that does not fit the program, else the first that its tables refuse.
    pub fn change(&mut self, changes: &[Change]) -> Result<(), ChangeError> {
        self.change_together(changes).map_err(|refused| refused.error)
    }

    fn change_together(&mut self, changes: &[Change]) -> Result<(), Refused> {
        let numbered = || changes.iter().enumerate();
        let refused = |at: usize| move |error: ChangeError| Refused { at, error };
        numbered()
            .try_for_each(|(at, change)| self.board.program.check(change).map_err(refused(at)))?;
        self.fold(2 * changes.len() + 2);
        if changes.len() > 1 {
            if !self.transactions.has_room(changes.len()) {
                let table = "the transaction".to_owned();
                let reason = "too many changes are not seen by all workers yet".to_owned();
                return Err(refused(0)(ChangeError::Room { table, reason }));
            }
            self.transactions.open();
        }
        let carried =
            numbered().try_for_each(|(at, change)| self.carry_out(change).map_err(refused(at)));
        match &carried {
            Ok(()) => self.commit(),
            Err(_) => self.undo(),
        }
        carried
    }

    /// Carries commands out at this time, nanoseconds as workers are told: the changes of tables
    /// together, or none of them and nothing else.
    ///
    /// # Errors
    /// As of [`Pipeline::change`].
    pub fn tell(&mut self, commands: &[Command], now_ns: u64) -> Result<(), ChangeError> {
        self.tell_together(commands, now_ns).map_err(|refused| refused.error)
    }

    /// As [`Pipeline::tell`], and says which command is refused.
    ///
    /// # Errors
    /// As of [`Pipeline::change`], with the place of the command.
    pub fn tell_together(&mut self, commands: &[Command], now_ns: u64) -> Result<(), Refused> {
        let change = |(at, command): (usize, &Command)| match command {
            Command::Change(change) => Some((at, change.clone())),
            _ => None,
        };
        let (places, changes): (Vec<usize>, Vec<Change>) =
            commands.iter().enumerate().filter_map(change).unzip();
        self.change_together(&changes)
            .map_err(|refused| Refused { at: places[refused.at], ..refused })?;
        for command in commands {
            match command {
                Command::Change(_) => {}
                Command::Register { array, index, value } => {
                    self.set_register(*array, *index, *value);
                }
                Command::Meter { array, index, rates } => {
                    self.set_meter(*array, *index, *rates, now_ns);
                }
                Command::Session { number, session } => self.set_session(*number, *session),
                Command::Ports { group, ports } => self.set_ports(*group, *ports),
            }
        }
        Ok(())
    }

    fn name(&self, table: usize) -> String {
        self.board.program.tables[table].name.clone()
    }

    fn room(&self, table: usize, reason: impl ToString) -> ChangeError {
        ChangeError::Room { table: self.name(table), reason: reason.to_string() }
    }

    fn carry_out(&mut self, change: &Change) -> Result<(), ChangeError> {
        match change {
            Change::Add { table, entry } => self.add(*table, entry),
            Change::Modify { table, entry } => self.modify(*table, entry),
            Change::Delete { table, key } => self.delete(*table, key),
            Change::Default { table, does } => {
                let word = self.word(*table, does, 0, Rank::FIRST)?;
                let place = WordPlace::Default { table: *table };
                self.put(place, self.at(place), word)
            }
            Change::Group { table, group, members } => self.group(*table, *group, members),
        }
    }

    /// The word for what an entry does, with a record where it needs one.
    fn word(
        &mut self,
        table: usize,
        does: &Invocation,
        id: u32,
        rank: Rank,
    ) -> Result<u64, ChangeError> {
        let plan = &self.board.plan;
        let fields = &plan.arguments[does.action];
        let number = |bytes: &[u8]| crate::value::to_number(bytes);
        let is_plain = !plan.entry_ids && self.tables[table].how != Engine::Wildcard;
        let only = match (fields.as_slice(), does.arguments.as_slice()) {
            ([], _) => Some(0),
            ([field], [bytes]) if field.words == 1 && bytes.len() <= 8 => Some(number(bytes)),
            _ => None,
        };
        let plain = only.filter(|_| is_plain).and_then(|only| Word::plain(does.action, only));
        if let Some(word) = plain {
            return Ok(word.0);
        }
        self.words.clear();
        self.words.extend(head(id, rank));
        for (field, bytes) in fields.iter().zip(&does.arguments) {
            match field.to {
                Wide::Lane { .. } => self.words.push(number(bytes)),
                Wide::Bytes { .. } => {
                    self.words.extend(bytes.chunks(8).map(|chunk| {
                        let mut eight = [0; 8];
                        eight[..chunk.len()].copy_from_slice(chunk);
                        u64::from_le_bytes(eight)
                    }));
                }
            }
        }
        let record = self.shelf.put(&self.board.records, &self.words, &self.board.domain);
        let record = record.ok_or_else(|| self.room(table, "no room for what entries do"))?;
        Ok(Word::record(does.action, record).0)
    }

    /// Words of the record that a word of a table names.
    fn record_words(&self, word: u64) -> usize {
        let Does::Record(action, _) = Word(word).does() else { return 0 };
        let arguments = &self.board.plan.arguments[usize::from(action)];
        HEAD + arguments.iter().map(|argument| argument.words).sum::<usize>()
    }

    /// Number and rank of an entry; those of one without a record are of no use.
    pub(super) fn known(&self, word: u64) -> (u32, Rank) {
        match Word(word).does() {
            Does::Record(_, number) => {
                (self.board.records.id(number), self.board.records.rank(number))
            }
            Does::Plain(..) => (0, Rank::FIRST),
        }
    }

    fn add(&mut self, table: usize, entry: &Entry) -> Result<(), ChangeError> {
        let packed = self.tables[table].pack(&entry.key);
        let key = packed.key();
        let known = self.tables[table].number(&packed);
        let current = known.map_or(0, |mask| self.tables[table].word(mask, key));
        if self.transactions.newest(current) != 0 {
            return Err(ChangeError::Exists { table: self.name(table) });
        }
        if let Err(size) = self.tables[table].has_room() {
            return Err(ChangeError::Full { table: self.name(table), size });
        }
        let mask = self.tables[table].number_for(&packed, known);
        let mask = mask.map_err(|error| self.room(table, error))?;
        let id = self.tables[table].id();
        let rank = Rank { priority: entry.priority, sequence: self.tables[table].sequence };
        let word = self.word(table, &entry.does, id, rank)?;
        self.advance_filter(table, 1);
        self.tables[table].admit(mask, &packed, current, rank);
        self.put(WordPlace::Entry { table, mask, key }, current, word)?;
        self.tables[table].sequence += 1;
        self.count(Moved::Came, table, mask, id);
        Ok(())
    }

    fn modify(&mut self, table: usize, entry: &Entry) -> Result<(), ChangeError> {
        let packed = self.tables[table].pack(&entry.key);
        let key = packed.key();
        let known = self.tables[table].number(&packed);
        let current = known.map_or(0, |mask| self.tables[table].word(mask, key));
        let (Some(mask), word @ 1..) = (known, self.transactions.newest(current)) else {
            return Err(ChangeError::Missing { table: self.name(table) });
        };
        let (id, before) = self.known(word);
        let rank = Rank { priority: entry.priority, ..before };
        let word = self.word(table, &entry.does, id, rank)?;
        self.tables[table].admit(mask, &packed, current, rank);
        self.put(WordPlace::Entry { table, mask, key }, current, word)
    }

    fn delete(&mut self, table: usize, key: &Key) -> Result<(), ChangeError> {
        let packed = self.tables[table].pack(key);
        let key = packed.key();
        let known = self.tables[table].number(&packed);
        let current = known.map_or(0, |mask| self.tables[table].word(mask, key));
        let (Some(mask), word @ 1..) = (known, self.transactions.newest(current)) else {
            return Err(ChangeError::Missing { table: self.name(table) });
        };
        let (id, _) = self.known(word);
        self.put(WordPlace::Entry { table, mask, key }, current, 0)?;
        self.count(Moved::Went, table, mask, id);
        Ok(())
    }

    /// Takes note of an entry that came or went.
    fn count(&mut self, moved: Moved, table: usize, mask: usize, id: u32) {
        self.tables[table].count(moved, mask, id);
        self.done.moved.push((moved, table, mask, id));
    }

    fn group(&mut self, table: usize, group: u32, members: &[Member]) -> Result<(), ChangeError> {
        let mut words = vec![0];
        let mut weights = 0;
        for member in members {
            weights += u64::from(member.weight);
            words.push(u64::from(member.id) << 32 | weights);
        }
        words[0] = (members.len() as u64) << 32 | weights;
        let record = self.shelf.put(&self.board.records, &words, &self.board.domain);
        let record = record.ok_or_else(|| self.room(table, "no room for members"))?;
        let place = WordPlace::Group { table, group };
        self.put(place, self.at(place), Word::record(0, record).0)
    }

    /// The word at a place.
    fn at(&self, place: WordPlace<&[u64]>) -> u64 {
        match place {
            WordPlace::Entry { table, mask, key } => self.tables[table].word(mask, key),
            WordPlace::Default { table } => self.board.defaults[table].load(Ordering::Relaxed),
            WordPlace::Group { table, group } => {
                let groups = self.board.groups[table].as_ref();
                groups.map_or(0, |groups| groups.ensure(group)[0].load(Ordering::Relaxed))
            }
        }
    }

    /// Stores a word at a place that has this one; zero takes the entry out.
    fn store(
        &mut self,
        place: WordPlace<&[u64]>,
        current: u64,
        word: u64,
    ) -> Result<(), InsertError> {
        match place {
            WordPlace::Entry { table, mask, key } => {
                self.tables[table].entries.store((mask, key), current, word)?;
            }
            WordPlace::Default { table } => {
                self.board.defaults[table].store(word, Ordering::Release)
            }
            WordPlace::Group { table, group } => {
                if let Some(groups) = &self.board.groups[table] {
                    groups.ensure(group)[0].store(word, Ordering::Release);
                }
            }
        }
        Ok(())
    }

    /// Has a place that holds `current` hold a word, at once or with the open transaction.
    fn put(
        &mut self,
        place: WordPlace<&[u64]>,
        current: u64,
        word: u64,
    ) -> Result<(), ChangeError> {
        let table = place.table();
        let old = self.transactions.newest(current);
        let placed = self.transactions.update(current, word);
        let stored = match placed {
            WordUpdate::Store(word) => self.store(place, current, word),
            WordUpdate::StoreReference(_, reference) => self.store(place, current, reference),
            WordUpdate::InCell => Ok(()),
        };
        let is_group = matches!(place, WordPlace::Group { .. });
        match (stored, placed) {
            (Err(error), _) => {
                if let WordUpdate::StoreReference(id, _) = placed {
                    self.transactions.cancel(id);
                }
                self.give_back(is_group, word, self.board.domain.stamp());
                return Err(self.room(table, error));
            }
            (Ok(()), WordUpdate::StoreReference(id, _)) => self.done.cells.push((place.kept(), id)),
            (Ok(()), _) => {}
        }
        self.done.old.extend((old != 0).then_some((is_group, old)));
        self.done.new.extend((word != 0).then_some((is_group, word)));
        Ok(())
    }

    /// Gives back the record that a word names, which nothing has named any more since this stamp.
    fn give_back(&mut self, is_group: bool, word: u64, stamp: Stamp) {
        if let Does::Record(_, number) = Word(word).does() {
            let words = match is_group {
                true => 1 + (self.board.records.word(number, 0) >> 32) as usize,
                false => self.record_words(word),
            };
            self.shelf.give_back(number, words, stamp);
        }
    }

    /// Shows what was done, and lets go of what it replaced.
    fn commit(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        let stamp = match self.transactions.is_open() {
            true => self.transactions.commit(),
            false => self.board.domain.stamp(),
        };
        self.folding.extend(done.cells.drain(..).map(|cell| (stamp, cell)));
        for (is_group, word) in done.old.drain(..) {
            self.give_back(is_group, word, stamp);
        }
        done.new.clear();
        done.moved.clear();
        // Its memory is used again.
        self.done = done;
    }

    /// Takes back what was done.
    fn undo(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        for (moved, table, mask, id) in done.moved.drain(..).rev() {
            let back = match moved {
                Moved::Came => Moved::Went,
                Moved::Went => Moved::Came,
            };
            self.tables[table].count(back, mask, id);
        }
        for (place, id) in done.cells.iter().rev() {
            let before = self.transactions.before(*id);
            let current = self.at(place.borrowed());
            // What was there before has room.
            let _ = self.store(place.borrowed(), current, before);
        }
        self.transactions.abort();
        done.cells.drain(..).for_each(|(_, id)| self.transactions.release(id));
        let stamp = self.board.domain.stamp();
        for (is_group, word) in done.new.drain(..) {
            self.give_back(is_group, word, stamp);
        }
        done.old.clear();
        self.done = done;
    }

    /// Takes up to so many cells out of their places that all workers have passed.
    fn fold(&mut self, count: usize) {
        for _ in 0..count {
            let Some((stamp, ..)) = self.folding.front() else { break };
            if *stamp > self.passed {
                self.passed = self.passed.max(self.board.domain.passed());
                if *stamp > self.passed {
                    break;
                }
            }
            let Some((_, (place, id))) = self.folding.pop_front() else { break };
            let current = self.at(place.borrowed());
            if let Some(word) = self.transactions.fold(current, id) {
                // It takes the place of what is there.
                let _ = self.store(place.borrowed(), current, word);
            }
            self.transactions.release(id);
        }
    }

    /// Does what is left to do of changes, up to so many steps of each kind; whether nothing is. To
    /// be called now and then while nothing changes.
    pub fn run_housekeeping(&mut self, count: usize) -> bool {
        self.fold(count);
        let mut is_done = self.folding.is_empty();
        let Pipeline { board, tables, transactions, .. } = self;
        for table in tables {
            let bound_of = |word| transactions.least(word, |word| bound_of(&board.records, word));
            is_done &= table.run_housekeeping(count, bound_of);
        }
        is_done
    }

    /// Takes the making of a table's filter further.
    fn advance_filter(&mut self, table: usize, steps: usize) {
        let Pipeline { board, tables, transactions, .. } = self;
        let bound_of = |word| transactions.least(word, |word| bound_of(&board.records, word));
        tables[table].advance_filter(steps, bound_of);
    }
}

/// The bound of the rank of the entry that a word is of; zero is none.
fn bound_of(records: &Records, word: u64) -> u64 {
    if word == 0 { u64::MAX } else { records.rank_of(word).bound() }
}

#[cfg(test)]
mod tests {
    use niclab_nic::memory::Region;

    use super::*;
    use crate::entry::Part;
    use crate::outcome::{Fate, Lost};

    const PROGRAM: &str = "
        struct h_t {
            bit<32> of
        }
        header h instanceof h_t
        struct m_t {
            bit<32> port
        }
        metadata instanceof m_t
        struct go_t {
            bit<32> port
        }
        action go args instanceof go_t {
            mov m.port t.port
            tx m.port
        }
        table all {
            key {
                h.h.of wildcard
            }
            actions {
                go
            }
            default_action go args port 99
        }
        apply {
            rx m.port
            extract h.h
            emit h.h
            table all
            tx m.port
        }";

    /// The number of entries that were ever added has more than 32 bits after an hour.
    #[test]
    fn the_first_of_equal_entries_counts_however_many_were_added_before() {
        let mut pipeline = Pipeline::new(Program::read(PROGRAM).unwrap()).unwrap();
        let mut worker = pipeline.worker();
        let (region, mut frames) = Region::new(1, 4).unwrap();
        let mut met = || {
            let mut fates = [Fate::Dropped(Lost::Told)];
            region.set_len(&mut frames[0], 4);
            worker.run(&region, &mut frames, 0, &mut fates, |_, _| {});
            fates[0]
        };
        pipeline.tables[0].sequence = u64::from(u32::MAX) - 3;
        let key = |bits: u32| vec![Part::prefix(&[0; 4], bits)];
        // The order of their masks is another one than theirs.
        let order: [u32; 8] = [5, 1, 7, 3, 8, 2, 6, 4];
        for bits in order {
            let does = Invocation { action: 0, arguments: vec![bits.to_be_bytes().to_vec()] };
            let entry = Entry { key: key(bits), priority: 1, does };
            pipeline.change(&[Change::Add { table: 0, entry }]).unwrap();
            assert_eq!(met(), Fate::Port(u64::from(order[0])));
        }
        for gone in 1..=order.len() {
            let key = key(order[gone - 1]);
            pipeline.change(&[Change::Delete { table: 0, key }]).unwrap();
            assert_eq!(met(), Fate::Port(order.get(gone).map_or(99, |of| u64::from(*of))));
        }
        assert!(pipeline.tables[0].sequence > u64::from(u32::MAX));
    }
}
