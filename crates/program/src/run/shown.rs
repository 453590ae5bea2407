//! What tables have, for who asks: copies that the thread makes which changes them.
//!
//! It reads what workers read and writes nothing, so that they notice nothing of it; and as nobody
//! else changes tables, a copy is of one moment.

use std::sync::atomic::Ordering;

use super::control::Pipeline;
use super::plan::{Engine, Wide};
use super::record::{Does, HEAD, Rank, Word};
use crate::entry::{Change, Entry, Key, Member, Part};
use crate::form::{Invocation, Kind};
use crate::value;

impl Pipeline {
    /// The changes that make an empty table what this one is: its default action, unless it is
    /// constant, then its entries; of a selector, its groups that have members.
    ///
    /// Entries of a table with a `wildcard` field come in the order in which they count, those of
    /// others in the order of their keys. What packets have learnt is not among them: each core has
    /// its own, where nobody else can read.
    #[must_use]
    pub fn content(&self, table: usize) -> Vec<Change> {
        let Some(of) = self.program().tables.get(table) else { return Vec::new() };
        let is_const = of.kind.actions().is_none_or(|actions| actions.is_default_const);
        let default = self.default_of(table).filter(|_| !is_const);
        let default = default.map(|does| Change::Default { table, does });
        let entries = self.listed(table).into_iter().map(|entry| Change::Add { table, entry });
        let groups = self.groups(table).into_iter();
        let groups = groups.map(|(group, members)| Change::Group { table, group, members });
        default.into_iter().chain(entries).chain(groups).collect()
    }

    /// What packets do that no entry of a table matches; `None` of a selector.
    #[must_use]
    pub fn default_of(&self, table: usize) -> Option<Invocation> {
        self.program().tables.get(table)?.kind.actions()?;
        let word = self.board.defaults[table].load(Ordering::Relaxed);
        Some(self.invocation(self.transactions.newest(word)))
    }

    /// The entries of a table that the control side put there, in the order of
    /// [`Pipeline::content`].
    pub(super) fn listed(&self, table: usize) -> Vec<Entry> {
        let Kind::Match { key: fields, .. } = &self.program().tables[table].kind else {
            return Vec::new();
        };
        let lens: Vec<usize> = fields.iter().map(|(place, _)| place.len_bytes()).collect();
        let content = &self.tables[table];
        let mut ranked: Vec<(Rank, Entry)> = Vec::with_capacity(content.live());
        content.entries.each(&mut |mask, key, word| {
            let word = self.transactions.newest(word);
            if word == 0 {
                return;
            }
            let masks = content.unpack(mask, &lens);
            let parts = content.unpack(key, &lens).into_iter().zip(masks);
            let key = parts.map(|(value, mask)| Part { value, mask }).collect();
            let (rank, does) = (self.board.records.rank_of(word), self.invocation(word));
            ranked.push((rank, Entry { key, priority: rank.priority, does }));
        });
        match content.how {
            Engine::Wildcard => ranked.sort_unstable_by_key(|(rank, _)| *rank),
            _ => ranked.sort_unstable_by(|(_, a), (_, b)| bytes(&a.key).cmp(bytes(&b.key))),
        }
        ranked.into_iter().map(|(_, entry)| entry).collect()
    }

    /// The groups of a selector that have members.
    #[must_use]
    pub fn groups(&self, table: usize) -> Vec<(u32, Vec<Member>)> {
        let Some(Some(groups)) = self.board.groups.get(table) else { return Vec::new() };
        let Kind::Selector { groups_max, .. } = self.program().tables[table].kind else {
            return Vec::new();
        };
        let records = &self.board.records;
        let members = |group: u32| {
            let word = self.transactions.newest(groups.get(group)?[0].load(Ordering::Relaxed));
            let Does::Record(_, number) = Word(word).does() else { return None };
            let (count, mut before) = (records.word(number, 0) >> 32, 0);
            let member = |at: u64| {
                let word = records.word(number, at as usize);
                let weights = word as u32;
                let weight = weights - std::mem::replace(&mut before, weights);
                Member { id: (word >> 32) as u32, weight }
            };
            let members: Vec<Member> = (1..=count).map(member).collect();
            (!members.is_empty()).then_some((group, members))
        };
        (0..groups_max as u32).filter_map(members).collect()
    }

    /// What a word says is done.
    fn invocation(&self, word: u64) -> Invocation {
        let (action, argument, record) = match Word(word).does() {
            Does::Plain(action, argument) => (usize::from(action), argument, None),
            Does::Record(action, number) => (usize::from(action), 0, Some(number)),
        };
        let mut at = HEAD;
        let field = |(field, argument_of): (&crate::form::Field, &super::plan::Argument)| {
            let len = field.bits as usize / 8;
            let words: Vec<u64> = match record {
                None => vec![argument],
                Some(number) => (at..at + argument_of.words)
                    .map(|at| self.board.records.word(number, at))
                    .collect(),
            };
            at += argument_of.words;
            let mut bytes: Vec<u8> = match argument_of.to {
                Wide::Lane { .. } => value::from_number(words[0], len).unwrap_or_default(),
                Wide::Bytes { .. } => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
            };
            bytes.truncate(len);
            bytes
        };
        let fields = self.program().arguments(action).iter();
        let arguments = fields.zip(&self.board.plan.arguments[action]).map(field).collect();
        Invocation { action, arguments }
    }
}

/// What keys are put in order by.
fn bytes(key: &Key) -> impl Iterator<Item = (&[u8], &[u8])> {
    key.iter().map(|part| (&part.value[..], &part.mask[..]))
}
