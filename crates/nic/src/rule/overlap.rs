//! Rules of a text that conflict: rules that never act, and rules that take packets from a rule
//! with other actions.
//!
//! A rule is *shadowed* if one better rule of its group (of better priority, or of the same
//! priority and created earlier) matches all its packets. The case that only several rules together
//! match them all is not found. A rule is an *exception* if a worse rule of its group with other
//! actions matches all its packets and more, as with the longer prefixes of routes. A rule is
//! *overlapped* if a better rule of its group, which has other actions and is no exception to it,
//! matches some of its packets.
//!
//! A survey also finds groups that no packet comes to, jumps to groups without rules, and values
//! without a mask.
//!
//! Rules are indexed by their mask. A rule can be covered only by a rule whose mask has no bit that
//! its own mask lacks. It shares packets only with rules whose values agree with its own in the
//! bits that both masks have. Either is found by a look-up in a hash map for each mask, not for
//! each rule. Bits that a pattern implies count as requested (`implied`).
//!
//! Ranges of ports are compared when a look-up finds a rule. They are not bits of a mask: a range
//! inside the leading bits of another rule's port is not found to be covered. A rule with another
//! range is never said to cover or to overlap a rule, but may be covered. `raw` bytes are compared
//! with those at the same offset from the same place; bytes that are counted from other places are
//! taken for other bytes.

mod implied;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use niclab_packet::key::{End, KEY_WORDS, Key, field as place};

use self::implied::Asked;
use super::Action;
use super::RAW;
use super::compile::pattern;
use super::item::{Item, ItemMatch};
use super::text::{Bare, Command, FlowRule, Parsed};
use crate::raw::RawByte;

/// Header keys whose words have fixed places: all but the raw key.
const HEADER_KEYS: usize = RAW;

/// The most look-ups and comparisons of one survey: some seconds.
const STEPS_MAX: u64 = 100_000_000;

/// The rules of a text, as its commands create, change and destroy them.
#[derive(Debug, Default)]
pub struct Survey {
    /// By number, as in a session; the last one always exists.
    rules: Vec<Option<SurveyedRule>>,
    masks: Vec<Mask>,
    mask_places: HashMap<(u32, Bits), u32>,
    /// The last mask: successive rules often have the same mask.
    mask_last: u32,
    actions: HashMap<Vec<Action>, u32>,
    /// The target of the jump, if any, of each list of actions.
    jumps: Vec<Option<u32>>,
    /// By the line of the rule.
    bare: HashMap<u64, Vec<Bare>>,
}

/// A rule and a better rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Line of the rule that is shadowed or overlapped.
    pub line: u64,
    /// Line of the better one.
    pub by: u64,
}

/// A group that no packet comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreachableGroup {
    /// Its number.
    pub group: u32,
    /// Line of its first rule.
    pub line: u64,
    /// How many rules it has.
    pub rules_count: u32,
}

/// A rule that jumps to a group without rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DanglingJump {
    /// Line of the rule.
    pub line: u64,
    /// The group.
    pub group: u32,
}

/// What a survey found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Shadowed rules, each with the best rule that covers it; by line.
    pub shadowed: Vec<Pair>,
    /// Overlapped rules that are not shadowed, each with the best rule that has other actions,
    /// shares packets with it and is no exception to it; by line.
    pub overlapped: Vec<Pair>,
    /// How many rules that are not shadowed are exceptions to worse ones.
    pub exceptions_count: usize,
    /// Groups that no packet comes to, by number.
    pub unreachable_groups: Vec<UnreachableGroup>,
    /// Rules that jump to a group without rules, by line.
    pub dangling_jumps: Vec<DanglingJump>,
    /// Items with values that have no mask, with the line of their rule; by line.
    pub bare: Vec<(u64, Bare)>,
    /// Number of rules with ranges that were not compared with the other rules of their group.
    pub uncompared_count: usize,
    /// Whether all other rules were compared: the work has a limit.
    pub complete: bool,
}

impl Report {
    /// Whether all rules were compared and none needs attention. Exceptions need none.
    pub fn is_clean(&self) -> bool {
        let Report { shadowed, overlapped, unreachable_groups, dangling_jumps, bare, .. } = self;
        self.complete
            && self.uncompared_count == 0
            && shadowed.is_empty()
            && overlapped.is_empty()
            && unreachable_groups.is_empty()
            && dangling_jumps.is_empty()
            && bare.is_empty()
    }
}

#[derive(Clone, Debug)]
struct SurveyedRule {
    line: u64,
    /// Lower is better.
    order: (u32, u64),
    mask: u32,
    actions: u32,
    value: Value,
    ranges: [Option<Range>; 2],
    /// Whether it has a range of another field than a port: then it covers nothing, and overlaps
    /// are not known.
    vague: bool,
    /// `raw` bytes by offset, ascending: values and masks.
    raw: Box<[RawByte]>,
}

/// Words of these header keys.
type Bits = [u64; KEY_WORDS * HEADER_KEYS];

/// The words of a pattern.
#[derive(Clone, Debug)]
struct Value {
    outer: [u64; KEY_WORDS],
    /// The other keys, if bits of them count.
    deep: Option<Box<[u64; KEY_WORDS * (HEADER_KEYS - 1)]>>,
}

impl Value {
    fn of(words: &Bits) -> Value {
        let (mut outer, mut deep) = ([0; KEY_WORDS], [0; KEY_WORDS * (HEADER_KEYS - 1)]);
        outer.copy_from_slice(&words[..KEY_WORDS]);
        deep.copy_from_slice(&words[KEY_WORDS..]);
        let deep = (deep != [0; KEY_WORDS * (HEADER_KEYS - 1)]).then(|| Box::new(deep));
        Value { outer, deep }
    }

    /// The words, masked by these bits.
    fn under<'a>(&'a self, bits: &'a Bits) -> impl Iterator<Item = u64> + 'a {
        let (outer, deep) = bits.split_at(KEY_WORDS);
        let words = self.outer.iter().zip(outer).map(|(word, bits)| word & bits);
        let counts = deep.iter().any(|bits| *bits != 0);
        let more = deep.iter().enumerate().take(if counts { deep.len() } else { 0 });
        words.chain(more.map(|(at, bits)| self.deep.as_ref().map_or(0, |deep| deep[at] & bits)))
    }
}

/// A range of ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
}

#[derive(Debug)]
struct Mask {
    group: u32,
    bits: Bits,
    /// Which bits of an outer port count.
    ports: [u16; 2],
}

/// A hasher for values that are already hashes.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = self.0.rotate_left(8) ^ value;
    }
}

/// The rules of one mask by the hash of their masked values; each rule by its index, best first.
struct Index {
    /// Hash and rule, in this order.
    entries: Vec<(u64, u32)>,
    /// Where the entries of a hash start.
    starts: HashMap<u64, u32, BuildHasherDefault<Mixed>>,
}

impl Index {
    /// Rules that may have this value, best first.
    fn bucket(&self, hash: u64) -> impl Iterator<Item = u32> {
        let start = self.starts.get(&hash).map_or(self.entries.len(), |start| *start as usize);
        let same = self.entries[start..].iter().take_while(move |entry| entry.0 == hash);
        same.map(|entry| entry.1)
    }
}

impl Survey {
    /// Applies a command to the rules. A command that a session would refuse is ignored.
    pub fn add(&mut self, parsed: &Parsed<'_>) {
        match parsed.command {
            Command::Create { rule, .. } => {
                let seen = self.seen(parsed.line, &rule);
                self.rules.push(seen);
                if !parsed.bare().is_empty() {
                    self.bare.insert(parsed.line, parsed.bare().to_vec());
                }
            }
            Command::Update { rule, actions, .. } => {
                let actions = self.class(actions);
                let seen = self.rules.get_mut(rule as usize).and_then(Option::as_mut);
                seen.into_iter().for_each(|seen| seen.actions = actions);
            }
            Command::Destroy { rules, .. } => {
                for &rule in rules {
                    self.rules.get_mut(rule as usize).into_iter().for_each(|rule| *rule = None);
                }
                while self.rules.pop_if(|last| last.is_none()).is_some() {}
            }
            Command::Flush { .. } => self.rules.clear(),
            Command::Isolate { .. }
            | Command::List { .. }
            | Command::Aged { .. }
            | Command::Query { .. }
            | Command::Set { .. }
            | Command::Validate { .. } => {}
        }
    }

    /// Compares the existing rules.
    pub fn report(&self) -> Report {
        let mut rules: Vec<&SurveyedRule> = self.rules.iter().flatten().collect();
        rules.sort_unstable_by_key(|rule| rule.order);
        let mut by_mask: Vec<Vec<u32>> = vec![Vec::new(); self.masks.len()];
        for (at, rule) in rules.iter().enumerate() {
            by_mask[rule.mask as usize].push(at as u32);
        }
        let mut bare: Vec<(u64, Bare)> = Vec::new();
        for line in rules.iter().map(|rule| rule.line).filter(|_| !self.bare.is_empty()) {
            bare.extend(self.bare.get(&line).into_iter().flatten().map(|bare| (line, *bare)));
        }
        bare.sort_by_key(|(line, _)| *line);
        let (unreachable_groups, dangling_jumps) = self.reach(&rules);
        let mut work = Work { masks: &self.masks, rules, by_mask, steps: 0 };
        let (covering, exceptions_count) = work.covering();
        let uncompared_count = work.uncompared_count(&covering);
        let sharing = work.sharing(&covering);
        let pairs = |found: Vec<Option<u32>>| {
            let pair = |(at, by): (usize, Option<u32>)| {
                let line = |at: usize| work.rules[at].line;
                Some(Pair { line: line(at), by: line(by? as usize) })
            };
            let mut pairs: Vec<Pair> = found.into_iter().enumerate().filter_map(pair).collect();
            pairs.sort_unstable_by_key(|pair| pair.line);
            pairs
        };
        Report {
            shadowed: pairs(covering),
            overlapped: pairs(sharing),
            exceptions_count,
            unreachable_groups,
            dangling_jumps,
            bare,
            uncompared_count,
            complete: work.steps < STEPS_MAX,
        }
    }

    /// Groups that no packet comes to, and jumps to groups without rules.
    fn reach(&self, rules: &[&SurveyedRule]) -> (Vec<UnreachableGroup>, Vec<DanglingJump>) {
        let mut groups: BTreeMap<u32, (UnreachableGroup, BTreeSet<u32>)> = BTreeMap::new();
        let mut jumps: Vec<DanglingJump> = Vec::new();
        for SurveyedRule { line, mask, actions, .. } in rules.iter().copied() {
            let group = self.masks[*mask as usize].group;
            let new = || (UnreachableGroup { group, line: *line, rules_count: 0 }, BTreeSet::new());
            let (found, to) = groups.entry(group).or_insert_with(new);
            (found.line, found.rules_count) = (found.line.min(*line), found.rules_count + 1);
            if let Some(group) = self.jumps[*actions as usize] {
                to.insert(group);
                jumps.push(DanglingJump { line: *line, group });
            }
        }
        // A jump leads to a greater group, so the reach of its own group is known by then.
        let (mut reached, mut unreachable_groups) = (BTreeSet::from([0]), Vec::new());
        for (group, (found, to)) in &groups {
            match reached.contains(group) {
                true => reached.extend(to),
                false => unreachable_groups.push(*found),
            }
        }
        jumps.retain(|jump| !groups.contains_key(&jump.group));
        jumps.sort_by_key(|jump| jump.line);
        (unreachable_groups, jumps)
    }

    /// A rule, prepared for comparisons; `None` if no frame can match it.
    fn seen(&mut self, line: u64, rule: &FlowRule<'_>) -> Option<SurveyedRule> {
        let mut items = rule.items.to_vec();
        let (mut ranges, vague) = take_ranges(&mut items);
        let pattern = pattern(&items).ok()?;
        let asked = Asked::of(&pattern);
        for (at, range) in ranges.iter_mut().enumerate() {
            // A tunnel implies the value of this port.
            range.take_if(|_| port(&asked.mask, at) != 0);
        }
        let mask = self.mask(rule.group, asked.mask);
        let actions = self.class(rule.actions);
        let order = (rule.priority, line);
        let (value, raw) = (Value::of(&asked.value), pattern.raw_bytes().into());
        Some(SurveyedRule { line, order, mask, actions, value, ranges, vague, raw })
    }

    fn mask(&mut self, group: u32, bits: Bits) -> u32 {
        let last = self.masks.get(self.mask_last as usize);
        if last.is_some_and(|last| last.group == group && last.bits == bits) {
            return self.mask_last;
        }
        let next = self.masks.len() as u32;
        self.mask_last = *self.mask_places.entry((group, bits)).or_insert(next);
        if self.mask_last == next {
            self.masks.push(Mask { group, bits, ports: [port(&bits, 0), port(&bits, 1)] });
        }
        self.mask_last
    }

    fn class(&mut self, actions: &[Action]) -> u32 {
        if let Some(&class) = self.actions.get(actions) {
            return class;
        }
        let class = self.actions.len() as u32;
        self.actions.insert(actions.to_vec(), class);
        let jump = |action: &Action| match action {
            Action::Jump(group) => Some(*group),
            _ => None,
        };
        self.jumps.push(actions.iter().find_map(jump));
        class
    }
}

/// The state of a survey.
struct Work<'a> {
    masks: &'a [Mask],
    /// Best first, of all groups.
    rules: Vec<&'a SurveyedRule>,
    by_mask: Vec<Vec<u32>>,
    steps: u64,
}

impl Work<'_> {
    /// For each rule, the best rule that covers it; and how many of the others are exceptions.
    fn covering(&mut self) -> (Vec<Option<u32>>, usize) {
        let mut found: Vec<Option<u32>> = vec![None; self.rules.len()];
        let mut exceptions = vec![false; self.rules.len()];
        let classes = self.classes();
        for wide in 0..self.masks.len() {
            let mask = &self.masks[wide];
            let fits = |other: &Mask| other.group == mask.group && within(&mask.bits, &other.bits);
            let narrow: Vec<usize> =
                (0..self.masks.len()).filter(|&at| fits(&self.masks[at])).collect();
            self.steps += self.masks.len() as u64 / 8;
            let index = self.index(wide, &mask.bits);
            let differs = |narrow: usize| differ(&classes, wide, narrow);
            let rules =
                |narrow: usize| self.by_mask[narrow].iter().map(move |at| (*at, differs(narrow)));
            for (at, differs) in narrow.into_iter().flat_map(rules) {
                self.steps += 1;
                let (rule, place) = (self.rules[at as usize], at as usize);
                let best = found[place].unwrap_or(at);
                // The rules after it tell whether the rule is an exception.
                let open = differs && best == at && !exceptions[place];
                let end = if open { u32::MAX } else { best };
                let bucket = index.bucket(mixed(&rule.value, &mask.bits));
                for by in bucket.take_while(|by| *by < end) {
                    self.steps += 1;
                    let other = self.rules[by as usize];
                    if by < best && self.covers(other, rule) {
                        found[place] = Some(by);
                        break;
                    }
                    if by > at && other.actions != rule.actions && self.is_wider(other, rule) {
                        exceptions[place] = true;
                        break;
                    }
                }
                if self.steps >= STEPS_MAX {
                    break;
                }
            }
            if self.steps >= STEPS_MAX {
                break;
            }
        }
        let acts = |(by, is): &(&Option<u32>, &bool)| by.is_none() && **is;
        let count = found.iter().zip(&exceptions).filter(acts).count();
        (found, count)
    }

    /// For each rule that is not covered, the best rule that has other actions, shares packets with
    /// it and is no exception to it.
    fn sharing(&mut self, covering: &[Option<u32>]) -> Vec<Option<u32>> {
        let mut found: Vec<Option<u32>> = vec![None; self.rules.len()];
        for (one, other) in self.mask_pairs() {
            let mut both = self.masks[one].bits;
            both.iter_mut().zip(&self.masks[other].bits).for_each(|(bits, more)| *bits &= more);
            let index = self.index(one, &both);
            let is_wider = within(&self.masks[other].bits, &self.masks[one].bits);
            for at in &self.by_mask[other] {
                self.steps += 1;
                let rule = self.rules[*at as usize];
                if covering[*at as usize].is_some() || rule.vague {
                    continue;
                }
                let best = found[*at as usize].unwrap_or(*at);
                for by in index.bucket(mixed(&rule.value, &both)).take_while(|by| *by < best) {
                    self.steps += 1;
                    let better = self.rules[by as usize];
                    let is_exception = || is_wider && self.covers(rule, better);
                    if better.actions != rule.actions
                        && self.shares(better, rule, &both)
                        && !is_exception()
                    {
                        found[*at as usize] = Some(by);
                        break;
                    }
                    if self.steps >= STEPS_MAX {
                        return found;
                    }
                }
            }
            if self.steps >= STEPS_MAX {
                return found;
            }
        }
        found
    }

    /// Number of rules that are not covered and have a range whose overlap with other rules of the
    /// group is not known.
    fn uncompared_count(&self, covering: &[Option<u32>]) -> usize {
        let group = |rule: &SurveyedRule| self.masks[rule.mask as usize].group;
        let mut vague: HashMap<u32, usize> = HashMap::new();
        for (rule, _) in
            self.rules.iter().zip(covering).filter(|(rule, by)| rule.vague && by.is_none())
        {
            *vague.entry(group(rule)).or_default() += 1;
        }
        if vague.is_empty() {
            return 0;
        }
        let mut rules_counts: HashMap<u32, usize> = HashMap::new();
        self.rules.iter().for_each(|rule| *rules_counts.entry(group(rule)).or_default() += 1);
        vague.iter().filter(|(group, _)| rules_counts[group] > 1).map(|(_, count)| count).sum()
    }

    /// The actions of all rules of each mask, if they are the same.
    fn classes(&self) -> Vec<Option<u32>> {
        let class = |at: usize| {
            let mut classes = self.by_mask[at].iter().map(|at| self.rules[*at as usize].actions);
            let first = classes.next()?;
            classes.all(|class| class == first).then_some(first)
        };
        (0..self.masks.len()).map(class).collect()
    }

    /// Pairs of masks whose rules may share packets and have other actions, with the better rules
    /// under the first mask.
    fn mask_pairs(&self) -> Vec<(usize, usize)> {
        let classes = self.classes();
        let masks = 0..self.masks.len();
        let ranged = |at: usize| {
            let mut rules = self.by_mask[at].iter().map(|at| self.rules[*at as usize]);
            rules.any(|rule| rule.ranges != [None; 2] || !rule.raw.is_empty())
        };
        let ranged: Vec<bool> = masks.clone().map(ranged).collect();
        let pairs = masks.clone().flat_map(|one| masks.clone().map(move |other| (one, other)));
        // A rule whose mask has all bits of the other's mask and that shares packets with it is an
        // exception, or equal and so covered, unless ranges or `raw` bytes differ.
        let meet = |&(one, other): &(usize, usize)| {
            self.masks[one].group == self.masks[other].group
                && differ(&classes, one, other)
                && (ranged[other] || !within(&self.masks[other].bits, &self.masks[one].bits))
        };
        pairs.filter(meet).collect()
    }

    fn index(&mut self, mask: usize, bits: &Bits) -> Index {
        let rules = &self.by_mask[mask];
        self.steps += rules.len() as u64;
        let entry = |at: &u32| (mixed(&self.rules[*at as usize].value, bits), *at);
        let mut entries: Vec<(u64, u32)> = rules.iter().map(entry).collect();
        entries.sort_unstable();
        let mut starts = HashMap::default();
        starts.reserve(entries.len());
        for (start, (hash, _)) in entries.iter().enumerate() {
            starts.entry(*hash).or_insert(start as u32);
        }
        Index { entries, starts }
    }

    /// Whether another rule, whose mask is within the rule's mask, matches all packets of the rule.
    fn covers(&self, wide: &SurveyedRule, rule: &SurveyedRule) -> bool {
        let ports = self.masks[rule.mask as usize].ports;
        let inside = (0..2).all(|at| match wide.ranges[at] {
            None => true,
            Some(range) => {
                let own = rule.range(at, ports[at]);
                range.first <= own.first && own.last <= range.last
            }
        });
        let bits = &self.masks[wide.mask as usize].bits;
        let raw = wide.raw.iter().all(|(place, (byte, mask))| {
            rule.byte(*place)
                .is_some_and(|(own, own_mask)| mask & !own_mask == 0 && (byte ^ own) & mask == 0)
        });
        !wide.vague && inside && raw && agree(wide, rule, bits)
    }

    /// Whether a rule, whose mask is within the other's mask, matches all packets of the other and
    /// more.
    fn is_wider(&self, wide: &SurveyedRule, rule: &SurveyedRule) -> bool {
        let bits = [rule, wide].map(|rule| &self.masks[rule.mask as usize].bits);
        self.covers(wide, rule) && !(within(bits[0], bits[1]) && self.covers(rule, wide))
    }

    /// Whether some packets match both rules; `both` are the bits that both masks have.
    fn shares(&self, better: &SurveyedRule, rule: &SurveyedRule, both: &Bits) -> bool {
        let ports = [better, rule].map(|rule| self.masks[rule.mask as usize].ports);
        let meet = (0..2).all(|at| {
            let (one, other) = (better.range(at, ports[0][at]), rule.range(at, ports[1][at]));
            let ranged = better.ranges[at].is_some() || rule.ranges[at].is_some();
            !ranged || one.first <= other.last && other.first <= one.last
        });
        let raw = better.raw.iter().all(|(place, (byte, mask))| {
            rule.byte(*place).is_none_or(|(own, own_mask)| (byte ^ own) & mask & own_mask == 0)
        });
        !better.vague && meet && raw && agree(better, rule, both)
    }
}

impl SurveyedRule {
    /// The values that a port can have under these bits; a superset if the mask is no prefix.
    fn range(&self, at: usize, mask: u16) -> Range {
        let first = port(&self.value.outer, at);
        self.ranges[at].unwrap_or(Range { first, last: first | !mask })
    }

    /// The byte at an offset, and its mask.
    fn byte(&self, place: (End, i16)) -> Option<(u8, u8)> {
        let at = self.raw.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        Some(self.raw[at].1)
    }
}

/// Whether all bits of the wider mask are bits of the other.
fn within(wide: &Bits, narrow: &Bits) -> bool {
    wide.iter().zip(narrow).all(|(wide, bits)| wide & !bits == 0)
}

/// Whether rules of these masks may have different actions, by the actions of all rules of each.
fn differ(classes: &[Option<u32>], one: usize, other: usize) -> bool {
    classes[one].is_none() || classes[one] != classes[other]
}

fn agree(one: &SurveyedRule, other: &SurveyedRule, bits: &Bits) -> bool {
    one.value.under(bits).eq(other.value.under(bits))
}

/// A hash of the masked value.
fn mixed(value: &Value, bits: &Bits) -> u64 {
    value.under(bits).fold(0, |hash: u64, word| {
        let product =
            u128::from(hash ^ word ^ 0x9e37_79b9_7f4a_7c15) * u128::from(0xd6e8_feb8_6659_fd93_u64);
        product as u64 ^ (product >> 64) as u64
    })
}

/// The source port, or the destination port, of the outer headers.
fn port(outer: &[u64], at: usize) -> u16 {
    let mut key = Key::default();
    key.0.copy_from_slice(&outer[..KEY_WORDS]);
    let (bytes, place) = (key.to_bytes(), [place::SPORT, place::DPORT][at].clone());
    u16::from_be_bytes([bytes[place.start], bytes[place.start + 1]])
}

/// Takes the ranges of ports out of items; true if an item has another range.
fn take_ranges(items: &mut [ItemMatch]) -> ([Option<Range>; 2], bool) {
    let (mut ranges, mut vague, mut inside) = ([None; 2], false, false);
    for item in items {
        let of_ports = !inside && matches!(item.item, Item::Tcp | Item::Udp);
        for field in item.item.fields().iter().filter(|field| item.has_range(field)) {
            let last = item.last.map_or(0, |last| field.value(&last));
            let [spec, mask] = [&item.spec, &item.mask].map(|image| field.value(image));
            match ["src", "dst"].iter().position(|name| of_ports && *name == field.name) {
                Some(at) if mask == field.ones() => {
                    ranges[at] = Some(Range { first: spec as u16, last: last as u16 });
                }
                _ => vague = true,
            }
        }
        let ranged: Vec<_> = item.item.fields().iter().filter(|it| item.has_range(it)).collect();
        for field in ranged {
            field.put(&mut item.mask, 0);
            field.put(&mut item.spec, 0);
        }
        item.last = None;
        // Items after that of a tunnel name headers inside it.
        inside |= !matches!(item.item, Item::Eth | Item::Vlan | Item::Ipv4 | Item::Ipv6);
    }
    (ranges, vague)
}

#[cfg(test)]
#[path = "overlap_tests.rs"]
mod tests;
