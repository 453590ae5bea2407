//! A program at work: the control side, which changes tables while workers read them.
//!
//! # How a change becomes visible
//!
//! An entry is a word under its key. A change by itself stores the word: it is there for the next
//! look-up, or, where it brings a mask or a filter that was not there, for the next burst; so two
//! changes that are not made together have no order within a burst. Changes that come together put
//! references to cells in place of words (`niclab_table::Versions`), and one store of the
//! generation, which a worker reads once a burst, makes all of them visible. What a word leads to,
//! the record or the entries under a new mask, is there before the word is. Cells are taken out of
//! the places again when no burst of before the commit is under way.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use niclab_nic::dma::Reader;
use niclab_nic::shared::Shared;
use niclab_table::{
    CellId, Changes, Config, CreateError, Domain, InsertError, Placed, Segments, Stamp, Versions,
};

use super::keyed::{Keyed, keyed, words_of};
use super::plan::{Engine, Look, Piece, Plan};
use super::prune::{Parts, Pruner, Ranks, SLOTS_MAX};
use super::record::{Does, Records, Shelf, Word};
use super::state::{Counts, Readers, State};
use super::tables::{Masked, RECORD_HEAD, RECORD_RANK, View, Views};
use super::worker::Worker;
use crate::entry::{Change, ChangeError, Entry, Key, Member, Rates, Session};
use crate::form::{Invocation, Kind, Match, Program};
use crate::limits::ENTRIES_MAX;

/// What the control side shows workers.
#[derive(Debug)]
pub(super) struct Board {
    pub program: Program,
    pub plan: Plan,
    pub state: State,
    pub domain: Domain,
    pub versions: Arc<Versions>,
    pub records: Records,
    pub defaults: Vec<AtomicU64>,
    pub groups: Vec<Option<Segments<1>>>,
    pub views: ArcSwap<Views>,
    /// Which views they are: one more for each that were shown.
    pub version: AtomicU64,
    /// What each worker has counted, also those that are gone.
    pub counts: Mutex<Vec<Arc<Counts>>>,
}

/// A program, its tables and arrays: what changes them.
///
/// One thread has it; any number of [`Worker`]s carry packets through meanwhile.
#[derive(Debug)]
pub struct Pipeline {
    board: Arc<Board>,
    tables: Vec<Content>,
    changes: Changes,
    shelf: Shelf,
    /// Places whose cells are to be taken out, oldest first.
    folding: VecDeque<(Stamp, Place, CellId)>,
    passed: Stamp,
    /// What the open transaction did.
    done: Done,
    readers: Readers,
}

/// What a transaction did, to be undone or completed.
#[derive(Debug, Default)]
struct Done {
    cells: Vec<(Place, CellId)>,
    /// Words that were replaced, and whether they are groups'.
    old: Vec<(bool, u64)>,
    /// Words that replaced them.
    new: Vec<(bool, u64)>,
    /// Entries that came, and entries that went, in their order: table and number.
    moved: Vec<(Moved, usize, u32)>,
}

/// Whether an entry came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    Came,
    Went,
}

/// Where a word stands.
#[derive(Clone, Debug)]
enum Place {
    Entry { table: usize, mask: usize, key: Box<[u64]> },
    Default { table: usize },
    Group { table: usize, group: u32 },
}

/// What the control side knows of a table.
#[derive(Debug)]
struct Content {
    key: Vec<Piece>,
    words: usize,
    size: usize,
    live: usize,
    /// Tables by mask; of a table without masks, one.
    masks: Vec<Mask>,
    /// What of the key the filter of masks looks at.
    parts: Parts,
    pruner: Pruner,
    ranks: Arc<Ranks>,
    /// Entries have numbers, for which the program asks.
    is_numbered: bool,
    /// Numbers of entries that were given back.
    free: BTreeSet<u32>,
    /// Numbers from here on were never used.
    fresh: u32,
    /// Entries that were ever added.
    sequence: u32,
    how: Engine,
}

/// The entries under one mask.
#[derive(Debug)]
struct Mask {
    mask: Vec<u64>,
    slot: usize,
    entries: Box<dyn Keyed>,
    shown: Arc<Masked>,
}

impl Pipeline {
    /// A program with empty tables.
    ///
    /// # Errors
    /// Where there is no memory for its tables.
    pub fn new(program: Program) -> Result<Pipeline, CreateError> {
        let plan = Plan::of(&program);
        let domain = Domain::new();
        let changes = Changes::new(&domain);
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
            versions: changes.versions(),
            records: Records::new(),
            defaults: program.tables.iter().map(|_| AtomicU64::new(0)).collect(),
            groups: groups.collect(),
            views: ArcSwap::from_pointee(tables.iter().map(Content::view).collect()),
            version: AtomicU64::new(1),
            domain,
            plan,
            program,
        };
        let mut pipeline = Pipeline {
            board: Arc::new(board),
            tables,
            changes,
            shelf: Shelf::default(),
            folding: VecDeque::new(),
            passed: Stamp::FIRST,
            done: Done::default(),
            readers,
        };
        pipeline.set_defaults()?;
        Ok(pipeline)
    }

    fn set_defaults(&mut self) -> Result<(), CreateError> {
        for table in 0..self.tables.len() {
            let actions = self.board.program.tables[table].kind.actions();
            let Some(default) = actions.map(|actions| actions.default.clone()) else { continue };
            let word = self.word(table, &default, 0, 0);
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
        Worker::new(Arc::clone(&self.board))
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
    pub fn window(&self, window: usize) -> Option<Arc<Shared>> {
        self.board.state.windows.get(window).map(|(shared, _)| Arc::clone(shared))
    }

    /// The application's end of a ring; `None` where there is no such ring, or somebody has it.
    pub fn reader(&mut self, rings: usize, index: usize) -> Option<Reader> {
        self.readers.rings.get_mut(rings)?.get_mut(index)?.take()
    }

    /// The next record that the control side is told, as its fields stand in metadata.
    pub fn digest(&mut self, digest: usize) -> Option<Vec<u8>> {
        let reader = self.readers.digests.get_mut(digest)?;
        let mut record = vec![0; reader.shape().entry_len];
        reader.take(|shared, at| shared.copy_out(at, &mut record))?;
        Some(record)
    }

    /// Says where copies of a session go.
    pub fn set_session(&mut self, number: usize, session: Session) {
        self.board.state.set_session(number, session);
    }

    /// Entries of a table, those alone that the control side put there.
    #[must_use]
    pub fn entries(&self, table: usize) -> usize {
        self.tables.get(table).map_or(0, |content| content.live)
    }

    /// Carries out changes: all of them, or none. Packets see all of them from one moment on, and
    /// none of them before.
    ///
    /// # Errors
    /// With the first that does not fit the program, else the first that its tables refuse.
    pub fn change(&mut self, changes: &[Change]) -> Result<(), ChangeError> {
        changes.iter().try_for_each(|change| self.board.program.check(change))?;
        self.settle(2 * changes.len() + 2);
        if changes.len() > 1 {
            if !self.changes.has_room(changes.len()) {
                let table = "the transaction".to_owned();
                let reason = "too many changes are not seen by all workers yet".to_owned();
                return Err(ChangeError::Room { table, reason });
            }
            self.changes.open();
        }
        let carried = changes.iter().try_for_each(|change| self.carry_out(change));
        match &carried {
            Ok(()) => self.commit(),
            Err(_) => self.undo(),
        }
        carried
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
                let word = self.word(*table, does, 0, 0)?;
                self.put(Place::Default { table: *table }, word)
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
        rank: u64,
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
        let mut words = vec![u64::from(id), rank];
        for (field, bytes) in fields.iter().zip(&does.arguments) {
            match field.to {
                super::plan::Wide::Lane { .. } => words.push(number(bytes)),
                super::plan::Wide::Bytes { .. } => {
                    words.extend(bytes.chunks(8).map(|chunk| {
                        let mut eight = [0; 8];
                        eight[..chunk.len()].copy_from_slice(chunk);
                        u64::from_le_bytes(eight)
                    }));
                }
            }
        }
        let record = self.shelf.put(&self.board.records, &words, &self.board.domain);
        let record = record.ok_or_else(|| self.room(table, "no room for what entries do"))?;
        Ok(Word::record(does.action, record).0)
    }

    /// Words of the record that a word of a table names.
    fn record_words(&self, word: u64) -> usize {
        let Does::Record(action, _) = Word(word).does() else { return 0 };
        let arguments = &self.board.plan.arguments[usize::from(action)];
        RECORD_HEAD + arguments.iter().map(|argument| argument.words).sum::<usize>()
    }

    /// The newest word under a key; zero is none.
    fn newest(&self, table: usize, mask: usize, key: &[u64]) -> u64 {
        let word = self.tables[table].masks[mask].entries.look_up(key).unwrap_or(0);
        self.changes.newest(word)
    }

    fn add(&mut self, table: usize, entry: &Entry) -> Result<(), ChangeError> {
        let (key, mask_words) = self.tables[table].pack(&entry.key);
        let known = self.tables[table].mask_of(&mask_words);
        if known.is_some_and(|mask| self.newest(table, mask, &key) != 0) {
            return Err(ChangeError::Exists { table: self.name(table) });
        }
        let content = &self.tables[table];
        if content.live >= content.size {
            return Err(ChangeError::Full { table: self.name(table), size: content.size });
        }
        let id = content.free.first().copied().unwrap_or(content.fresh);
        let rank = u64::from(entry.priority) << 32 | u64::from(content.sequence);
        let mask = match known {
            Some(mask) => mask,
            None => self.new_mask(table, mask_words)?,
        };
        let word = self.word(table, &entry.does, id, rank)?;
        self.admit(table, mask, rank, &key);
        self.put(Place::Entry { table, mask, key: key.into() }, word)?;
        let content = &mut self.tables[table];
        content.sequence = content.sequence.wrapping_add(1);
        self.done.moved.push((Moved::Came, table, id));
        content.came(id);
        Ok(())
    }

    fn modify(&mut self, table: usize, entry: &Entry) -> Result<(), ChangeError> {
        let (mask, key, word) = self.find(table, &entry.key)?;
        let (id, rank) = match Word(word).does() {
            Does::Record(_, number) => {
                let sequence = self.board.records.word(number, RECORD_RANK) & 0xffff_ffff;
                let id = self.board.records.word(number, super::tables::RECORD_ID) as u32;
                (id, u64::from(entry.priority) << 32 | sequence)
            }
            Does::Plain(..) => (0, 0),
        };
        let word = self.word(table, &entry.does, id, rank)?;
        self.admit(table, mask, rank, &key);
        self.put(Place::Entry { table, mask, key: key.into() }, word)
    }

    fn delete(&mut self, table: usize, key: &Key) -> Result<(), ChangeError> {
        let (mask, key, word) = self.find(table, key)?;
        let id = match Word(word).does() {
            Does::Record(_, number) => {
                self.board.records.word(number, super::tables::RECORD_ID) as u32
            }
            Does::Plain(..) => 0,
        };
        self.put(Place::Entry { table, mask, key: key.into() }, 0)?;
        self.done.moved.push((Moved::Went, table, id));
        self.tables[table].went(id);
        Ok(())
    }

    /// Mask, key and word of an entry.
    fn find(&self, table: usize, key: &Key) -> Result<(usize, Vec<u64>, u64), ChangeError> {
        let (key, mask_words) = self.tables[table].pack(key);
        let mask = self.tables[table].mask_of(&mask_words);
        let word = mask.map_or(0, |mask| self.newest(table, mask, &key));
        match (mask, word) {
            (Some(mask), 1..) => Ok((mask, key, word)),
            _ => Err(ChangeError::Missing { table: self.name(table) }),
        }
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
        self.put(Place::Group { table, group }, Word::record(0, record).0)
    }

    /// The word at a place.
    fn at(&self, place: &Place) -> u64 {
        match place {
            Place::Entry { table, mask, key } => {
                self.tables[*table].masks[*mask].entries.look_up(key).unwrap_or(0)
            }
            Place::Default { table } => self.board.defaults[*table].load(Ordering::Relaxed),
            Place::Group { table, group } => {
                let groups = self.board.groups[*table].as_ref();
                groups.map_or(0, |groups| groups.reach(*group)[0].load(Ordering::Relaxed))
            }
        }
    }

    /// Stores a word at a place; zero takes the entry out.
    fn store(&mut self, place: &Place, word: u64) -> Result<(), InsertError> {
        match place {
            Place::Entry { table, mask, key } => {
                let entries = &mut self.tables[*table].masks[*mask].entries;
                match (word, entries.look_up(key)) {
                    (0, _) => entries.remove(key),
                    (word, Some(_)) => entries.update(key, word),
                    (word, None) => entries.insert(key, word)?,
                }
            }
            Place::Default { table } => self.board.defaults[*table].store(word, Ordering::Release),
            Place::Group { table, group } => {
                if let Some(groups) = &self.board.groups[*table] {
                    groups.reach(*group)[0].store(word, Ordering::Release);
                }
            }
        }
        Ok(())
    }

    /// Has a place hold a word, at once or with the open transaction.
    fn put(&mut self, place: Place, word: u64) -> Result<(), ChangeError> {
        let (Place::Entry { table, .. } | Place::Default { table } | Place::Group { table, .. }) =
            place;
        let current = self.at(&place);
        let old = self.changes.newest(current);
        let placed = self.changes.place(current, word);
        let stored = match placed {
            Placed::Word(word) => self.store(&place, word),
            Placed::Cell(_, reference) => self.store(&place, reference),
            Placed::Kept => Ok(()),
        };
        match (stored, placed) {
            (Err(error), _) => {
                if let Placed::Cell(id, _) = placed {
                    self.changes.cancel(id);
                }
                self.give_back(matches!(place, Place::Group { .. }), word);
                return Err(self.room(table, error));
            }
            (Ok(()), Placed::Cell(id, _)) => self.done.cells.push((place.clone(), id)),
            (Ok(()), _) => {}
        }
        let is_group = matches!(place, Place::Group { .. });
        self.done.old.extend((old != 0).then_some((is_group, old)));
        self.done.new.extend((word != 0).then_some((is_group, word)));
        Ok(())
    }

    /// Gives back the record that a word names, which nothing names any more.
    fn give_back(&mut self, is_group: bool, word: u64) {
        if let Does::Record(_, number) = Word(word).does() {
            let words = match is_group {
                true => 1 + (self.board.records.word(number, 0) >> 32) as usize,
                false => self.record_words(word),
            };
            self.shelf.give_back(number, words, self.board.domain.stamp());
        }
    }

    /// Shows what was done, and lets go of what it replaced.
    fn commit(&mut self) {
        let done = std::mem::take(&mut self.done);
        if self.changes.is_open() {
            let stamp = self.changes.commit();
            self.folding.extend(done.cells.into_iter().map(|(place, id)| (stamp, place, id)));
        }
        for (is_group, word) in done.old {
            self.give_back(is_group, word);
        }
    }

    /// Takes back what was done.
    fn undo(&mut self) {
        let done = std::mem::take(&mut self.done);
        for (moved, table, id) in done.moved.into_iter().rev() {
            match moved {
                Moved::Came => self.tables[table].went(id),
                Moved::Went => self.tables[table].came(id),
            }
        }
        for (place, id) in done.cells.iter().rev() {
            let before = self.changes.before(*id);
            // What was there before has room.
            let _ = self.store(place, before);
        }
        self.changes.abort();
        for (_, id) in done.cells {
            self.changes.release(id);
        }
        for (is_group, word) in done.new {
            self.give_back(is_group, word);
        }
    }

    /// Takes cells out of their places that all workers have passed, at most so many; whether none
    /// is left, and no table grows. To be called now and then while nothing changes.
    pub fn settle(&mut self, count: usize) -> bool {
        for _ in 0..count {
            let Some((stamp, ..)) = self.folding.front() else { break };
            if *stamp > self.passed {
                self.passed = self.passed.max(self.board.domain.passed());
                if *stamp > self.passed {
                    break;
                }
            }
            let Some((_, place, id)) = self.folding.pop_front() else { break };
            let current = self.at(&place);
            if let Some(word) = self.changes.fold(current, id) {
                // It takes the place of what is there.
                let _ = self.store(&place, word);
            }
            self.changes.release(id);
        }
        let mut is_done = self.folding.is_empty();
        for mask in self.tables.iter_mut().flat_map(|table| &mut table.masks) {
            is_done &= mask.entries.rest(count);
        }
        is_done
    }

    /// Makes ready for an entry, before a packet can find it.
    fn admit(&mut self, table: usize, mask: usize, rank: u64, key: &[u64]) {
        let content = &mut self.tables[table];
        if content.how == Engine::Exact {
            return;
        }
        let Mask { slot, ref mask, .. } = content.masks[mask];
        content.ranks.admit(slot, if content.how == Engine::Wildcard { rank } else { 0 });
        content.pruner.take(slot, Pruner::spans(&content.parts, key, mask));
        if content.pruner.is_wanted(content.masks.len()) {
            let all = content.masks.iter().flat_map(|mask| {
                let keys = mask.entries.keys().into_iter();
                keys.map(|key| (mask.slot, key, mask.mask.as_slice()))
            });
            // The new one is not there yet.
            let all = all.chain([(slot, key.to_vec(), mask.as_slice())]).collect();
            content.pruner.make(&content.parts, all);
            self.show(table);
        }
    }

    /// A table for entries under a mask that had none, shown to workers.
    fn new_mask(&mut self, table: usize, mask: Vec<u64>) -> Result<usize, ChangeError> {
        let content = &self.tables[table];
        let slot = match content.how {
            // The longest first; other fields of such a key count whole.
            Engine::Prefix => {
                let ones: u32 = mask.iter().map(|word| word.count_ones()).sum();
                let bits: u32 = content.key.iter().map(|piece| piece.bits).sum();
                (bits - ones) as usize
            }
            _ => content.masks.len(),
        };
        if slot >= SLOTS_MAX {
            let reason = format!("entries have {SLOTS_MAX} different masks at most");
            return Err(self.room(table, reason));
        }
        let made = Mask::new(mask, slot, content, &self.board.domain);
        let made = made.map_err(|error| self.room(table, error))?;
        self.tables[table].masks.push(made);
        self.show(table);
        Ok(self.tables[table].masks.len() - 1)
    }

    /// Shows workers a table as it is.
    fn show(&mut self, table: usize) {
        let mut views = Views::clone(&self.board.views.load());
        views[table] = self.tables[table].view();
        self.board.views.store(Arc::new(views));
        self.board.version.fetch_add(1, Ordering::Release);
    }
}

/// A seed for a hash whose keys others may choose.
pub(super) fn seed() -> u64 {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0)
}

impl Mask {
    fn new(
        mask: Vec<u64>,
        slot: usize,
        content: &Content,
        domain: &Domain,
    ) -> Result<Mask, CreateError> {
        // Entries that are to go stay until workers have passed.
        let max = (2 * content.size as u64 + 64).min(ENTRIES_MAX) as usize;
        let entries = keyed(content.words, Config::growing(max, seed()), domain)?;
        let shown = Arc::new(Masked { mask: mask.clone(), entries: entries.reader() });
        Ok(Mask { mask, slot, entries, shown })
    }
}

impl Content {
    fn new(
        table: &crate::form::Table,
        look: &Look,
        is_numbered: bool,
        domain: &Domain,
    ) -> Result<Content, CreateError> {
        let (key, bits, how) = match look {
            Look::Match { key, bits, how } => (key.clone(), *bits, *how),
            _ => (Vec::new(), 0, Engine::Nothing),
        };
        // Which bits of the key are of fields that are matched by masks.
        let mut masked = Vec::new();
        if let Kind::Match { key, .. } = &table.kind {
            let mut bit = 0;
            for (place, how) in key {
                masked.extend((*how != Match::Exact).then_some(bit..bit + place.bits));
                bit += place.bits;
            }
        }
        let is_masked = |piece: &Piece| masked.iter().any(|of| of.contains(&piece.at));
        let parts = Parts::of(&key, is_masked);
        let mut content = Content {
            key,
            words: words_of(bits),
            size: table.size,
            live: 0,
            masks: Vec::new(),
            parts,
            pruner: Pruner::default(),
            ranks: Arc::new(Ranks::new()),
            is_numbered,
            free: BTreeSet::new(),
            fresh: 0,
            sequence: 0,
            how,
        };
        if how == Engine::Exact {
            content.masks.push(Mask::new(Vec::new(), 0, &content, domain)?);
        }
        Ok(content)
    }

    /// Key and mask of an entry, in words; the mask of an exact table is empty.
    fn pack(&self, key: &Key) -> (Vec<u64>, Vec<u64>) {
        let mut words = (vec![0; self.words], vec![0; self.words]);
        let chunks = key.iter().flat_map(|part| part.value.chunks(8).zip(part.mask.chunks(8)));
        for (piece, (value, mask)) in self.key.iter().zip(chunks) {
            let (word, shift) = (piece.at as usize / 64, piece.at % 64);
            for (words, bytes) in [(&mut words.0, value), (&mut words.1, mask)] {
                let number = crate::value::to_number(bytes);
                words[word] |= number << shift;
                if shift + piece.bits > 64 {
                    words[word + 1] |= number >> (64 - shift);
                }
            }
        }
        match self.how {
            Engine::Exact => (words.0, Vec::new()),
            _ => words,
        }
    }

    fn mask_of(&self, mask: &[u64]) -> Option<usize> {
        self.masks.iter().position(|of| of.mask == mask)
    }

    fn came(&mut self, id: u32) {
        self.live += 1;
        if self.is_numbered && !self.free.remove(&id) {
            self.fresh = id + 1;
        }
    }

    fn went(&mut self, id: u32) {
        self.live -= 1;
        if self.is_numbered {
            self.free.insert(id);
        }
    }

    /// What workers are to see.
    fn view(&self) -> Arc<View> {
        if self.how == Engine::Exact {
            let exact = self.masks.first().map(|mask| mask.entries.reader());
            return Arc::new(View { exact, slots: None });
        }
        let mut masks = Vec::new();
        for mask in &self.masks {
            if masks.len() <= mask.slot {
                masks.resize(mask.slot + 1, None);
            }
            masks[mask.slot] = Some(Arc::clone(&mask.shown));
        }
        let slots = self.pruner.slots(masks, &self.ranks, self.parts);
        Arc::new(View { exact: None, slots: Some(slots) })
    }
}
