//! Tables as lists.

use std::collections::BTreeSet;

use crate::entry::{Change, ChangeError, Entry, Key, Member};
use crate::form::{Invocation, Kind, Match, Program};
use crate::select::pick;

use super::packet::{Last, Packet};

/// What is in all tables, by their number.
#[derive(Clone, Debug)]
pub(super) struct Tables(Vec<Content>);

#[derive(Clone, Debug)]
struct Content {
    /// In the order they were added; each with its number.
    entries: Vec<(usize, Entry)>,
    default: Option<Invocation>,
    learned: Vec<Learned>,
    groups: Vec<(u32, Vec<Member>)>,
}

#[derive(Clone, Debug)]
struct Learned {
    number: usize,
    key: Vec<u8>,
    does: Invocation,
    timeout: u64,
    expires_ns: u64,
}

/// An action to run.
pub(super) struct Found {
    pub last: Last,
    pub arguments: Vec<Vec<u8>>,
}

impl Tables {
    pub(super) fn new(program: &Program) -> Tables {
        let content = |table: &crate::form::Table| Content {
            entries: Vec::new(),
            default: table.kind.actions().map(|actions| actions.default.clone()),
            learned: Vec::new(),
            groups: Vec::new(),
        };
        Tables(program.tables.iter().map(content).collect())
    }

    /// Carries out a change that fits the program.
    pub(super) fn change(&mut self, program: &Program, change: &Change) -> Result<(), ChangeError> {
        let name = |table: usize| program.tables[table].name.clone();
        match change {
            Change::Add { table, entry } => {
                let content = &mut self.0[*table];
                let size = program.tables[*table].size;
                if content.at(&entry.key).is_some() {
                    return Err(ChangeError::Exists { table: name(*table) });
                }
                if content.entries.len() >= size {
                    return Err(ChangeError::Full { table: name(*table), size });
                }
                let used: BTreeSet<usize> = content.entries.iter().map(|(of, _)| *of).collect();
                let number = (0..size).find(|number| !used.contains(number)).unwrap_or(size);
                content.entries.push((number, entry.clone()));
            }
            Change::Modify { table, entry } => {
                let content = &mut self.0[*table];
                let missing = || ChangeError::Missing { table: name(*table) };
                let at = content.at(&entry.key).ok_or_else(missing)?;
                content.entries[at].1 = entry.clone();
            }
            Change::Delete { table, key } => {
                let content = &mut self.0[*table];
                let missing = || ChangeError::Missing { table: name(*table) };
                let at = content.at(key).ok_or_else(missing)?;
                content.entries.remove(at);
            }
            Change::Default { table, does } => self.0[*table].default = Some(does.clone()),
            Change::Group { table, group, members } => {
                let groups = &mut self.0[*table].groups;
                groups.retain(|(of, _)| of != group);
                groups.push((*group, members.clone()));
            }
        }
        Ok(())
    }

    /// Looks into a table for a packet; none of a selector, which runs no action.
    pub(super) fn look(
        &self,
        program: &Program,
        table: usize,
        packet: &mut Packet,
        now_ns: u64,
    ) -> Option<Found> {
        let content = &self.0[table];
        let found = match &program.tables[table].kind {
            Kind::Match { key, .. } => {
                let places = key.iter().map(|(place, _)| place);
                let values = packet.key(places);
                content.best(&values, key.iter().any(|(_, how)| *how == Match::Prefix))
            }
            Kind::Learner { key, .. } => {
                let key = packet.key(key).concat();
                let found = content.met(&key, now_ns);
                packet.learning = Some((table, key));
                found.map(|learned| (learned.number, &learned.does))
            }
            Kind::Selector { group, key, member, .. } => {
                let group = packet.number(group);
                let members = content.groups.iter().find(|(of, _)| u64::from(*of) == group);
                let key: Vec<u8> = key.iter().flat_map(|place| packet.hashed(place)).collect();
                let picked = members.map_or(0, |(_, members)| pick(members, &key));
                packet.set(member, u64::from(picked));
                return None;
            }
        };
        let default = content.default.as_ref()?;
        let (entry, does) = found.map_or((0, default), |(number, does)| (number as u64 + 1, does));
        let last = Last { is_hit: found.is_some(), action: does.action, entry };
        Some(Found { last, arguments: does.arguments.clone() })
    }

    /// Keeps the key that the packet was looked up by, with an action.
    pub(super) fn learn(
        &mut self,
        program: &Program,
        packet: &mut Packet,
        action: usize,
        first: Option<usize>,
        timeout: u64,
        now_ns: u64,
    ) {
        let Some((table, key)) = packet.learning.clone() else { return };
        let count = program.arguments(action).len();
        let arguments = first.map_or(Vec::new(), |first| packet.metadata_from(first, count));
        let does = Invocation { action, arguments };
        let expires_ns = now_ns.saturating_add(seconds_ns(program, table, timeout));
        let content = &mut self.0[table];
        content.learned.retain(|learned| learned.expires_ns > now_ns);
        if let Some(learned) = content.learned.iter_mut().find(|learned| learned.key == key) {
            (learned.does, learned.timeout, learned.expires_ns) = (does, timeout, expires_ns);
            return;
        }
        let is_free = |number: &usize| !content.learned.iter().any(|of| of.number == *number);
        if let Some(number) = (0..program.tables[table].size).find(is_free) {
            content.learned.push(Learned { number, key, does, timeout, expires_ns });
        }
    }

    /// Has the entry that the packet met stay for its timeout again.
    pub(super) fn rearm(
        &mut self,
        program: &Program,
        packet: &Packet,
        timeout: Option<u64>,
        now_ns: u64,
    ) {
        let Some((table, key)) = &packet.learning else { return };
        if let Some(learned) = self.0[*table].met_mut(key, now_ns) {
            learned.timeout = timeout.unwrap_or(learned.timeout);
            let ns = seconds_ns(program, *table, learned.timeout);
            learned.expires_ns = now_ns.saturating_add(ns);
        }
    }

    pub(super) fn forget(&mut self, packet: &Packet) {
        if let Some((table, key)) = &packet.learning {
            self.0[*table].learned.retain(|learned| learned.key != *key);
        }
    }
}

/// How long a timeout of a learner is; a number beyond is taken modulo the next power of two, and
/// is the first where that is beyond as well (DPDK's `rte_swx_table_learner.c`).
pub(crate) fn seconds_ns(program: &Program, table: usize, timeout: u64) -> u64 {
    let Kind::Learner { timeouts, .. } = &program.tables[table].kind else { return 0 };
    let at = timeout as usize & (timeouts.len().next_power_of_two() - 1);
    let seconds = timeouts.get(at).or(timeouts.first()).copied().unwrap_or(0);
    u64::from(seconds) * 1_000_000_000
}

impl Content {
    fn at(&self, key: &Key) -> Option<usize> {
        self.entries.iter().position(|(_, entry)| entry.key == *key)
    }

    /// The entry for a packet, and its number: of the longest prefix, or of the best priority.
    fn best(&self, values: &[Vec<u8>], by_prefix: bool) -> Option<(usize, &Invocation)> {
        let matches = |entry: &Entry| {
            !values.is_empty()
                && entry.key.iter().zip(values).all(|(part, value)| part.matches(value))
        };
        let rank = |entry: &Entry| match by_prefix {
            true => {
                let bits = |part: &crate::entry::Part| part.prefix_len().unwrap_or(0);
                u32::MAX - entry.key.iter().map(bits).sum::<u32>()
            }
            false => entry.priority,
        };
        let found = self.entries.iter().filter(|(_, entry)| matches(entry));
        // The first of equal ones.
        found.min_by_key(|(_, entry)| rank(entry)).map(|(number, entry)| (*number, &entry.does))
    }

    fn met(&self, key: &[u8], now_ns: u64) -> Option<&Learned> {
        self.learned.iter().find(|of| of.key == key && of.expires_ns > now_ns)
    }

    fn met_mut(&mut self, key: &[u8], now_ns: u64) -> Option<&mut Learned> {
        self.learned.iter_mut().find(|of| of.key == key && of.expires_ns > now_ns)
    }
}
