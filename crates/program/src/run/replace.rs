//! Tables become what a file says of them, in one transaction.
//!
//! Entries that are there as the file says stay as they are, with their numbers. Of a table with a
//! `wildcard` field their order counts too, among those of one priority: an entry that stands
//! before the place that the file gives it is taken out and put in again.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::control::Pipeline;
use crate::entry::{Change, ChangeError, Entry, Key, Member};
use crate::form::{Kind, Match};
use crate::text::{Command, TablesFile};

/// What became of the entries of tables that a file named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// Entries that were not there.
    pub added: usize,
    /// Entries with another priority, place or thing to do.
    pub changed: usize,
    /// Entries that are there no more.
    pub deleted: usize,
    /// Entries that are as they were.
    pub kept: usize,
}

impl Pipeline {
    /// Carries a file of tables out so that each table that it names has the entries and the
    /// default action that it says, and no others, and each selector the groups: all together, or
    /// nothing of it. A default action that is not said is the program's own. Tables that are not
    /// named, and what a learner has learnt, stay as they are.
    ///
    /// # Errors
    /// As of [`Pipeline::change`], and with [`ChangeError::Twice`].
    pub fn replace(&mut self, file: &TablesFile, now_ns: u64) -> Result<Replaced, ChangeError> {
        let mut said: Vec<TableContent<'_>> =
            self.program().tables.iter().map(|_| TableContent::default()).collect();
        let mut others = Vec::new();
        for command in &file.commands {
            let Command::Change(change) = command else {
                others.push(command.clone());
                continue;
            };
            self.program().check(change)?;
            match change {
                Change::Add { table, entry } => said[*table].entries.push(entry),
                Change::Default { table, .. } => said[*table].default = Some(change),
                Change::Group { table, group, members } => {
                    said[*table].groups.insert(*group, members);
                }
                Change::Modify { .. } | Change::Delete { .. } => {}
            }
        }
        let (mut changes, mut replaced) = (Vec::new(), Replaced::default());
        for &table in &file.tables {
            self.entries_become(table, &said[table].entries, &mut changes, &mut replaced)?;
            changes.extend(self.default_becomes(table, said[table].default));
            self.groups_become(table, &said[table].groups, &mut changes);
        }
        let commands: Vec<Command> =
            changes.into_iter().map(Command::Change).chain(others).collect();
        self.tell(&commands, now_ns)?;
        Ok(replaced)
    }

    fn entries_become(
        &self,
        table: usize,
        said: &[&Entry],
        changes: &mut Vec<Change>,
        replaced: &mut Replaced,
    ) -> Result<(), ChangeError> {
        let Kind::Match { key, .. } = &self.program().tables[table].kind else { return Ok(()) };
        let is_ranked = key.iter().any(|(_, how)| *how == Match::Wildcard);
        let listed = self.listed(table);
        let there: HashMap<&Key, usize> =
            (0..).zip(&listed).map(|(at, of)| (&of.key, at)).collect();
        let mut keys = HashSet::with_capacity(said.len());
        if let Some(twice) = said.iter().find(|entry| !keys.insert(&entry.key)) {
            let (table, key) = (&self.program().tables[table].name, &twice.key);
            let key = self.program().key_written(self.program().table_number(table)?, key);
            return Err(ChangeError::Twice { table: table.clone(), key });
        }
        let gone = listed.iter().filter(|entry| !keys.contains(&entry.key));
        let delete = |entry: &Entry| Change::Delete { table, key: entry.key.clone() };
        changes.extend(gone.map(delete));
        replaced.deleted +=
            listed.len() - said.iter().filter(|of| there.contains_key(&of.key)).count();
        // Of each priority, behind which place the next one has to be; none can stay once one of
        // them has been put in.
        let mut behind: HashMap<u32, Option<usize>> = HashMap::new();
        let mut added = Vec::new();
        for &entry in said {
            let known = there.get(&entry.key).copied();
            let last = behind.entry(entry.priority).or_insert(Some(0));
            let stays = |at: usize| match is_ranked {
                true => listed[at].priority == entry.priority && last.is_some_and(|of| at >= of),
                false => true,
            };
            let put = || Change::Add { table, entry: entry.clone() };
            match known {
                Some(at) if stays(at) => {
                    *last = Some(at);
                    if listed[at].does == entry.does {
                        replaced.kept += 1;
                    } else {
                        changes.push(Change::Modify { table, entry: entry.clone() });
                        replaced.changed += 1;
                    }
                }
                Some(_) => {
                    changes.push(delete(entry));
                    added.push(put());
                    *last = None;
                    replaced.changed += 1;
                }
                None => {
                    added.push(put());
                    *last = None;
                    replaced.added += 1;
                }
            }
        }
        changes.append(&mut added);
        Ok(())
    }

    fn default_becomes(&self, table: usize, said: Option<&Change>) -> Option<Change> {
        let actions = self.program().tables[table].kind.actions()?;
        let own = Change::Default { table, does: actions.default.clone() };
        let becomes = said.unwrap_or(&own);
        let is = Change::Default { table, does: self.default_of(table)? };
        (*becomes != is).then(|| becomes.clone())
    }

    fn groups_become(
        &self,
        table: usize,
        said: &BTreeMap<u32, &Vec<Member>>,
        changes: &mut Vec<Change>,
    ) {
        let there: HashMap<u32, Vec<Member>> = self.groups(table).into_iter().collect();
        let mut gone: Vec<u32> =
            there.keys().copied().filter(|group| !said.contains_key(group)).collect();
        gone.sort_unstable();
        let empty = |group| Change::Group { table, group, members: Vec::new() };
        changes.extend(gone.into_iter().map(empty));
        for (group, members) in said {
            if there.get(group).map_or(&[][..], |of| of) != &members[..] {
                let (group, members) = (*group, members.to_vec());
                changes.push(Change::Group { table, group, members });
            }
        }
    }
}

/// What a file says of a table.
#[derive(Default)]
struct TableContent<'f> {
    entries: Vec<&'f Entry>,
    default: Option<&'f Change>,
    /// By number: of one that is said twice the last counts, as where they are carried out in turn.
    groups: BTreeMap<u32, &'f Vec<Member>>,
}
