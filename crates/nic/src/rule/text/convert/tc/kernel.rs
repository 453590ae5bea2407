//! Which filter wins: priorities, handles and masks as in the kernel.
//!
//! After Linux 6.1, `net/sched/cls_api.c` and `net/sched/cls_flower.c`. A filter without a priority
//! gets one below the lowest of its chain that is 0x8000 or more, 49152 at first. The filters of a
//! priority have one protocol. The kernel tries them mask by mask, in the order in which the masks
//! were first used, and their rules are written in that order.

use std::collections::{BTreeMap, HashMap};

use super::super::{Rules, Tokens};
use super::Head;
use super::flower::{ETHER_ALL, Keys, Rule};
use crate::text::TextError;

/// The first priority that the kernel assigns by itself, and the last.
const AUTO_FIRST: u32 = 0xc000;
const AUTO_LAST: u32 = 0x8000;

/// The effect of a command on a filter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit {
    /// Create a filter that does not exist.
    Add,
    /// Replace the filter with the same handle.
    Change,
    /// Replace it if it exists, else create one.
    Replace,
}

/// The filters of all chains.
#[derive(Default)]
pub(super) struct Kernel {
    /// By chain and priority.
    priorities: BTreeMap<(u32, u32), Priority>,
    /// Commands that deleted filters: their line, and the number of filters.
    deleted: Vec<(u64, usize)>,
}

/// Filters of one chain and priority.
struct Priority {
    protocol: u16,
    /// The line of the first filter.
    line: u64,
    /// In the order of creation; a deleted filter leaves a hole.
    filters: Vec<Option<InstalledFilter>>,
    /// Indices of `filters`.
    by_handle: HashMap<u32, usize>,
    by_keys: HashMap<Keys, usize>,
    /// The masks in use: when each was first used, and its number of filters.
    masks: HashMap<Keys, (usize, usize)>,
    masks_seen: usize,
    /// All handles below it are in use.
    handle_free: u32,
}

struct InstalledFilter {
    line: u64,
    handle: u32,
    rule: Rule,
}

impl Kernel {
    pub(super) fn is_empty(&self) -> bool {
        self.priorities.is_empty()
    }

    /// Adds or replaces a filter.
    pub(super) fn put(
        &mut self,
        words: &Tokens<'_>,
        edit: Edit,
        head: &Head,
        rule: Rule,
    ) -> Result<(), TextError> {
        let pref = match head.pref {
            Some(pref) => pref,
            None if edit == Edit::Change => {
                return Err(words.unfit("`change` without `pref`: the kernel changes no filter"));
            }
            None => self.free_pref(words, head.chain)?,
        };
        let protocol = head.protocol.unwrap_or(ETHER_ALL);
        let place = (head.chain, pref);
        match self.priorities.get(&place) {
            Some(there) if there.protocol != protocol => {
                let line = there.line;
                return Err(words.unfit(format!(
                    "pref {pref} is that of another protocol, of line {line}: the kernel takes one \
                     protocol for each"
                )));
            }
            None if edit == Edit::Change => {
                return Err(words.unfit(format!("no filter of pref {pref} is there to change")));
            }
            _ => {}
        }
        let there = self.priorities.entry(place);
        there.or_insert_with(|| Priority::new(protocol, head.line)).put(words, edit, head, rule)
    }

    /// The priority that the kernel gives to a filter without one.
    fn free_pref(&self, words: &Tokens<'_>, chain: u32) -> Result<u32, TextError> {
        let mut above = self.priorities.range((chain, AUTO_LAST)..=(chain, u32::MAX));
        match above.next() {
            None => Ok(AUTO_FIRST),
            Some(((_, AUTO_LAST), _)) => Err(words.unfit(format!(
                "the kernel gives no priority below {AUTO_LAST}, which is taken: add `pref`"
            ))),
            Some(((_, lowest), _)) => Ok(lowest - 1),
        }
    }

    /// Deletes the filters of a chain, of a priority, or one.
    pub(super) fn delete(&mut self, head: &Head) {
        let mut count = 0;
        for ((chain, pref), priority) in &mut self.priorities {
            let is_meant = *chain == head.chain
                && head.pref.is_none_or(|meant| meant == *pref)
                && head.protocol.is_none_or(|protocol| protocol == priority.protocol);
            if is_meant {
                count += priority.delete(head.handle);
            }
        }
        self.priorities.retain(|_, priority| !priority.by_handle.is_empty());
        if count > 0 {
            self.deleted.push((head.line, count));
        }
    }

    /// Writes the rules: the priorities in order of creation, and the filters of each in the order
    /// in which the kernel tries them.
    pub(super) fn write(&self, rules: &mut Rules<'_>) {
        for (line, count) in &self.deleted {
            rules.comment(*line, format_args!("deletes {count} of the filters before it"));
        }
        let mut priorities: Vec<_> = self.priorities.iter().collect();
        priorities.sort_by_key(|(_, priority)| priority.line);
        for (place, priority) in priorities {
            let mut entries: Vec<_> = priority.filters.iter().flatten().collect();
            entries.sort_by_cached_key(|entry| priority.masks.get(&mask_of(&entry.rule.keys)));
            for InstalledFilter { line, rule, .. } in entries {
                rule.aside.iter().for_each(|what| rules.comment(*line, what));
                rules.rule(*place, &rule.items, &rule.action);
            }
        }
    }
}

/// The mask of a filter: its keys without their values.
fn mask_of(keys: &Keys) -> Keys {
    keys.iter().map(|(name, (_, mask))| (*name, (0, *mask))).collect()
}

impl Priority {
    fn new(protocol: u16, line: u64) -> Priority {
        Priority {
            protocol,
            line,
            filters: Vec::new(),
            by_handle: HashMap::new(),
            by_keys: HashMap::new(),
            masks: HashMap::new(),
            masks_seen: 0,
            handle_free: 1,
        }
    }

    fn line_of(&self, at: usize) -> u64 {
        self.filters[at].as_ref().map_or(0, |entry| entry.line)
    }

    fn put(
        &mut self,
        words: &Tokens<'_>,
        edit: Edit,
        head: &Head,
        rule: Rule,
    ) -> Result<(), TextError> {
        let there = head.handle.and_then(|handle| self.by_handle.get(&handle).copied());
        let same = self.by_keys.get(&rule.keys).copied();
        match (there, same) {
            (Some(there), _) if edit == Edit::Add => {
                let line = self.line_of(there);
                let reason = format!("this handle is that of line {line}: use `replace`");
                return Err(words.unfit(reason));
            }
            (None, _) if edit == Edit::Change => {
                let reason = "no filter of this handle is there to change: use `add`";
                return Err(words.unfit(reason));
            }
            (there, Some(same)) if there != Some(same) => {
                let line = self.line_of(same);
                return Err(words.unfit(format!(
                    "line {line} has these keys with this pref: the kernel refuses a second such \
                     filter"
                )));
            }
            _ => {}
        }
        let mask = mask_of(&rule.keys);
        if let Some(entry) = there.and_then(|there| self.filters[there].as_ref())
            && mask_of(&entry.rule.keys) != mask
        {
            let line = entry.line;
            return Err(words.unfit(format!(
                "the filter of line {line} has other keys or masks: the kernel puts no filter of \
                 another mask in its place; delete it first"
            )));
        }
        let handle = head.handle.unwrap_or_else(|| self.free_handle());
        let at = there.unwrap_or(self.filters.len());
        // The mask of a replaced filter keeps its order.
        let came = self.masks_seen;
        self.masks_seen += 1;
        self.masks.entry(mask).or_insert((came, 0)).1 += 1;
        self.remove(there);
        self.by_handle.insert(handle, at);
        self.by_keys.insert(rule.keys.clone(), at);
        let entry = Some(InstalledFilter { line: head.line, handle, rule });
        match self.filters.get_mut(at) {
            Some(there) => *there = entry,
            None => self.filters.push(entry),
        }
        Ok(())
    }

    /// The lowest free handle, from 1.
    fn free_handle(&mut self) -> u32 {
        while self.by_handle.contains_key(&self.handle_free) {
            self.handle_free += 1;
        }
        self.handle_free
    }

    /// Deletes the filter with this handle, or all; returns their number.
    fn delete(&mut self, handle: Option<u32>) -> usize {
        let places: Vec<usize> = match handle {
            Some(handle) => self.by_handle.get(&handle).copied().into_iter().collect(),
            None => self.by_handle.values().copied().collect(),
        };
        places.iter().for_each(|at| self.remove(Some(*at)));
        places.len()
    }

    /// Deletes the filter at this index, if there is one.
    fn remove(&mut self, at: Option<usize>) {
        let Some(entry) = at.and_then(|at| self.filters[at].take()) else { return };
        self.by_handle.remove(&entry.handle);
        self.by_keys.remove(&entry.rule.keys);
        self.handle_free = self.handle_free.min(entry.handle);
        let mask = mask_of(&entry.rule.keys);
        if let Some((_, filters)) = self.masks.get_mut(&mask) {
            *filters -= 1;
            if *filters == 0 {
                self.masks.remove(&mask);
            }
        }
    }
}
