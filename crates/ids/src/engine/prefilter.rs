//! Finds the few signatures that can match a packet, among many.
//!
//! Signatures are in groups: by transport, and by port if they name few ports of one end. A group
//! searches the patterns of all its signatures at once. A signature without a pattern is a
//! candidate for each packet of its group.

use std::collections::{BTreeMap, HashMap};

use super::header::{Protocols, RuleHeader};
use super::matcher::{Matcher, MatcherScratch, PatternMatcher};
use super::packet::InspectedPacket;
use super::signature::{PayloadTest, Signature};
use crate::rule::RuleEnd;

/// Ports of one end, at most, for which a signature is in groups of these ports.
const PORTS_MAX: u128 = 64;

/// Transports with groups of their own: TCP, UDP, SCTP, ICMP, and all others.
const TRANSPORTS_COUNT: usize = 5;

/// Different places that the signatures of a pattern have, at most. Signatures with more share
/// places, and are candidates of more packets.
const PLACES_MAX: usize = 16;

/// A signature in one direction.
#[derive(Clone, Debug)]
pub(super) struct DirectedSignature {
    /// The number of its signature.
    pub(super) signature: u32,
    pub(super) header: RuleHeader,
}

/// Groups of entries.
#[derive(Debug)]
pub(super) struct Prefilter {
    groups: Vec<CandidateGroup>,
    /// The groups of each transport.
    places: [TransportGroups; TRANSPORTS_COUNT],
    /// The places of all groups' patterns.
    pattern_places: usize,
}

/// The numbers of groups.
#[derive(Clone, Debug, Default)]
struct TransportGroups {
    any: Option<u32>,
    by_source: HashMap<u16, u32>,
    by_destination: HashMap<u16, u32>,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GroupPlace {
    Any,
    Source(u16),
    Destination(u16),
}

#[derive(Debug)]
struct CandidateGroup {
    /// Candidates of each packet.
    always: Vec<u32>,
    patterns: PatternMatcher,
    /// Where the places of each pattern begin.
    starts: Vec<u32>,
    places: Vec<PatternPlace>,
    /// Candidates of all places.
    entries: Vec<u32>,
}

/// A pattern that ends within these bytes, and its candidates.
#[derive(Clone, Copy, Debug)]
struct PatternPlace {
    /// Its number among those of all groups.
    number: u32,
    end_min: u32,
    end_max: u32,
    /// The candidates in `entries`.
    first: u32,
    behind: u32,
}

/// An entry whose pattern can end within these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PlacedEntry {
    end_min: u32,
    end_max: u32,
    entry: u32,
}

/// Numbers of entries, each once.
#[derive(Debug)]
pub(super) struct CandidateSet {
    pub(super) entries: Vec<u32>,
    /// The round in which the entries of each place were added.
    rounds: Vec<u32>,
    round: u32,
}

impl CandidateSet {
    pub(super) fn memory_bytes(&self) -> usize {
        (self.entries.capacity() + self.rounds.capacity()) * size_of::<u32>()
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.rounds.fill(0);
            self.round = 1;
        }
    }
}

impl Prefilter {
    pub(super) fn new(
        entries: &[DirectedSignature],
        signatures: &[Signature],
        matcher: Matcher,
    ) -> Prefilter {
        let mut members: [BTreeMap<GroupPlace, Vec<u32>>; TRANSPORTS_COUNT] = Default::default();
        for (number, entry) in (0..).zip(entries) {
            for transport in transports(entry.header.protocols) {
                for place in places(&entry.header) {
                    members[transport].entry(place).or_default().push(number);
                }
            }
        }
        let (mut groups, mut numbers) = (Vec::new(), HashMap::<Vec<u32>, u32>::new());
        let mut pattern_places = 0;
        let places = members.map(|members| {
            let mut places = TransportGroups::default();
            for (place, members) in members {
                // Ports with the same entries share a group.
                let number = *numbers.entry(members).or_insert_with_key(|members| {
                    let group = CandidateGroup::new(
                        members,
                        entries,
                        signatures,
                        matcher,
                        &mut pattern_places,
                    );
                    groups.push(group);
                    groups.len() as u32 - 1
                });
                match place {
                    GroupPlace::Any => places.any = Some(number),
                    GroupPlace::Source(port) => drop(places.by_source.insert(port, number)),
                    GroupPlace::Destination(port) => {
                        places.by_destination.insert(port, number);
                    }
                }
            }
            places
        });
        Prefilter { groups, places, pattern_places: pattern_places as usize }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let ports =
            self.places.iter().map(|of| of.by_source.capacity() + of.by_destination.capacity());
        let groups = self.groups.iter().map(CandidateGroup::memory_bytes);
        groups.sum::<usize>() + ports.sum::<usize>() * size_of::<(u16, u32)>()
    }

    /// Memory for the candidates of a thread.
    pub(super) fn candidates(&self, entries_count: usize) -> CandidateSet {
        let entries = Vec::with_capacity(entries_count);
        CandidateSet { entries, rounds: vec![0; self.pattern_places], round: 0 }
    }

    /// Memory for the searches of a thread.
    pub(super) fn scratch(&self) -> MatcherScratch {
        let mut scratch = MatcherScratch::default();
        self.groups.iter().for_each(|group| group.patterns.grow(&mut scratch));
        scratch
    }

    /// Puts the entries that can match into `found`, in order.
    pub(super) fn find(
        &self,
        packet: &InspectedPacket<'_>,
        scratch: &MatcherScratch,
        found: &mut CandidateSet,
    ) {
        found.clear();
        let places = &self.places[match packet.protocol {
            6 => 0,
            17 => 1,
            132 => 2,
            1 | 58 => 3,
            _ => 4,
        }];
        let [source, destination] = match packet.ports {
            Some([source, destination]) => {
                [places.by_source.get(&source), places.by_destination.get(&destination)]
            }
            None => [None, None],
        };
        for number in [places.any.as_ref(), source, destination].into_iter().flatten() {
            self.groups[*number as usize].find(packet.payload, scratch, found);
        }
        found.entries.sort_unstable();
    }
}

impl CandidateGroup {
    /// `pattern_places` counts the places of all groups.
    fn new(
        members: &[u32],
        entries: &[DirectedSignature],
        signatures: &[Signature],
        matcher: Matcher,
        pattern_places: &mut u32,
    ) -> CandidateGroup {
        let (mut always, mut of) = (Vec::new(), BTreeMap::<Vec<u8>, Vec<PlacedEntry>>::new());
        for &entry in members {
            let signature = &signatures[entries[entry as usize].signature as usize];
            match pattern(signature) {
                None => always.push(entry),
                Some((bytes, end_min, end_max)) => {
                    of.entry(bytes).or_default().push(PlacedEntry { end_min, end_max, entry });
                }
            }
        }
        let (mut starts, mut places, mut candidates) = (vec![0], Vec::new(), Vec::new());
        for placed in of.values_mut() {
            for (end_min, end_max, entries) in shared_places(placed) {
                let first = candidates.len() as u32;
                candidates.extend(entries);
                let (number, behind) = (*pattern_places, candidates.len() as u32);
                places.push(PatternPlace { number, end_min, end_max, first, behind });
                *pattern_places += 1;
            }
            starts.push(places.len() as u32);
        }
        let patterns: Vec<&[u8]> = of.keys().map(Vec::as_slice).collect();
        let patterns = PatternMatcher::new(matcher, &patterns);
        CandidateGroup { always, patterns, starts, places, entries: candidates }
    }

    fn memory_bytes(&self) -> usize {
        let numbers = self.always.capacity() + self.starts.capacity() + self.entries.capacity();
        size_of::<CandidateGroup>()
            + numbers * size_of::<u32>()
            + self.places.capacity() * size_of::<PatternPlace>()
            + self.patterns.memory_bytes()
    }

    /// Adds each candidate once, however often its pattern is in the payload.
    fn find(&self, payload: &[u8], scratch: &MatcherScratch, found: &mut CandidateSet) {
        found.entries.extend_from_slice(&self.always);
        let CandidateSet { entries, rounds, round } = found;
        let mut add = |place: &PatternPlace| {
            let added = &mut rounds[place.number as usize];
            if *added != *round {
                *added = *round;
                let [first, behind] = [place.first, place.behind].map(|at| at as usize);
                entries.extend_from_slice(&self.entries[first..behind]);
            }
        };
        let is_complete = self.patterns.find(payload, scratch, |pattern, end| {
            let [start, behind] = [pattern, pattern + 1].map(|at| self.starts[at] as usize);
            for place in &self.places[start..behind] {
                if (place.end_min..=place.end_max).contains(&(end as u32)) {
                    add(place);
                }
            }
        });
        if !is_complete {
            self.places.iter().for_each(add);
        }
    }
}

/// The places of a pattern, at most [`PLACES_MAX`], and the entries of each.
fn shared_places(placed: &mut [PlacedEntry]) -> Vec<(u32, u32, Vec<u32>)> {
    placed.sort_unstable();
    let place = |entry: &PlacedEntry| (entry.end_min, entry.end_max);
    let places: Vec<&[PlacedEntry]> = placed.chunk_by(|a, b| place(a) == place(b)).collect();
    let shared = places.chunks(places.len().div_ceil(PLACES_MAX).max(1));
    let shared = shared.map(|places| {
        let entries = || places.iter().copied().flatten();
        let end_min = entries().map(|entry| entry.end_min).min().unwrap_or(0);
        let end_max = entries().map(|entry| entry.end_max).max().unwrap_or(u32::MAX);
        (end_min, end_max, entries().map(|entry| entry.entry).collect())
    });
    shared.collect()
}

/// The transports that packets of these protocols have.
fn transports(protocols: Protocols) -> std::ops::Range<usize> {
    match protocols {
        Protocols::Tcp => 0..1,
        Protocols::Udp => 1..2,
        Protocols::Sctp => 2..3,
        Protocols::Icmp { .. } => 3..4,
        Protocols::Ip { .. } => 0..TRANSPORTS_COUNT,
    }
}

/// The groups of an entry: of the ports of the end that names fewer, or of all.
fn places(header: &RuleHeader) -> Vec<GroupPlace> {
    let ports = |end: &RuleEnd| {
        let ranges = end.ports.ranges().to_vec();
        ranges.into_iter().flat_map(|(low, high)| low..=high).map(|port| port as u16)
    };
    let (source, destination) = (&*header.source, &*header.destination);
    let count = |end: &RuleEnd| if end.names_ports { end.ports.count() } else { u128::MAX };
    match (count(source), count(destination)) {
        (few, more) if few < more && few <= PORTS_MAX => {
            ports(source).map(GroupPlace::Source).collect()
        }
        (_, few) if few <= PORTS_MAX => ports(destination).map(GroupPlace::Destination).collect(),
        _ => vec![GroupPlace::Any],
    }
}

/// The pattern of a signature in lower case, and where it can end.
fn pattern(signature: &Signature) -> Option<(Vec<u8>, u32, u32)> {
    let PayloadTest::Content(content) = &signature.tests[signature.pattern?] else { return None };
    let len = content.bytes.len();
    let (at, part_len) = match content.limits.fast_part {
        Some((at, len)) => (usize::from(at), usize::from(len)),
        None => (0, len),
    };
    let bytes = content.bytes[at..at + part_len].to_ascii_lowercase();
    let behind = len - at - part_len;
    let (end_min, end_max) = match content.is_relative() {
        true => (0, u32::MAX),
        false => {
            let end_min = usize::from(content.offset) + at + part_len;
            let end_max = match content.depth {
                0 => usize::MAX,
                depth => usize::from(depth).saturating_sub(behind),
            };
            (end_min as u32, u32::try_from(end_max).unwrap_or(u32::MAX))
        }
    };
    Some((bytes, end_min, end_max))
}
