//! The card's program `tuple-items` against a receiver in plain Rust, frame by frame, and between
//! senders and a network that loses, repeats and reorders.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use niclab_analytics::partition::{PARTS, part};
use niclab_analytics::source::{NewTuple, Sender, SenderOptions};
use niclab_analytics::tuple::{
    self, AcknowledgementHead, END_NS, SourceProgress, TIME_NS_MAX, Tuple,
};
use niclab_apps::kvs::protocol::hash::steering;
use niclab_nic::dma::Reader;
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use niclab_packet::checksum::{finish, finish_udp, fold, sum};
use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{IpProtocol, MacAddress, ethernet, ipv4, udp};
use niclab_program::definition::Definition;
use niclab_program::{Command, Execution, Fate, Lost, Outcome, Pipeline, Program, Single, Worker};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const PROGRAM: &str = include_str!("../../../programs/tuple-items/tuple-items.spec");

const MAC: MacAddress = MacAddress([2, 0, 10, 9, 0, 2]);
const SOURCE_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);
const IP: [u8; 4] = [10, 9, 0, 2];
const PORT: u16 = 9_770;
const ETHERNET_LEN: usize = 14;
const UDP_AT: usize = 34;
const PAYLOAD_AT: usize = 42;
const RINGS: usize = 16;
const ENTRY_LEN: usize = 24;

/// An entry of a ring.
type Entry = [u8; ENTRY_LEN];

/// Where a source sends from: id, IPv4 address, port of UDP.
type Origin = (u64, [u8; 4], u16);

/// The program, with rings of `entries` entries.
fn program(entries: usize) -> Program {
    let text = PROGRAM.replace("size 65536 entry 24", &format!("size {entries} entry 24"));
    assert_ne!(text, PROGRAM);
    Program::read(&text).unwrap()
}

/// Commands that register a receiver and these sources, in slots from 1 on.
fn registrations(origins: &[Origin]) -> Vec<String> {
    let receiver = "add receivers h.ethernet.dst:02:00:0a:09:00:02 h.ipv4.dst:10.9.0.2 \
                    dst_port:9770 serve()";
    let source = |(slot, (source, ip, port)): (usize, &Origin)| {
        let ip = std::net::Ipv4Addr::from(*ip);
        format!(
            "add sources source:{source} h.ipv4.src:{ip} src_port:{port} known(slot:{})",
            slot + 1
        )
    };
    let sources = origins.iter().enumerate().map(source);
    std::iter::once(receiver.to_owned()).chain(sources).collect()
}

fn array(program: &Program, name: &str) -> usize {
    program.registers.iter().position(|of| of.name == name).unwrap()
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(*bytes[at..].first_chunk().unwrap())
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(*bytes[at..].first_chunk().unwrap())
}

fn entry(key: u64, time_ns: u64, slot: u16, stream: u16, kind: u32) -> Entry {
    let mut entry = [0; ENTRY_LEN];
    entry[..8].copy_from_slice(&key.to_le_bytes());
    entry[8..16].copy_from_slice(&time_ns.to_le_bytes());
    entry[16..18].copy_from_slice(&slot.to_le_bytes());
    entry[18..20].copy_from_slice(&stream.to_le_bytes());
    entry[20..].copy_from_slice(&kind.to_le_bytes());
    entry
}

/// The sum of RFC 1071 over a datagram and its addresses, its checksum included.
fn udp_sum(ip: &[u8], datagram: &[u8]) -> u64 {
    sum(&ip[12..20]) + 17 + datagram.len() as u64 + sum(datagram)
}

/// The registers of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SlotState {
    expected: u64,
    ended: u64,
    marked: u64,
    heard: u64,
}

/// Counters of the card; tuples by ring first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CardCounters {
    taken: [u64; RINGS],
    repeated: u64,
    gaps: u64,
    malformed: u64,
    acknowledged: u64,
    left: u64,
}

/// The program's definition in plain Rust.
struct PlainCard {
    origins: Vec<Origin>,
    owners: [u64; PARTS],
    others: [u64; PARTS],
    shift: u64,
    credit: u32,
    workers: usize,
    slots: HashMap<u16, SlotState>,
    rings: Vec<VecDeque<Entry>>,
    ring_len: usize,
    counters: CardCounters,
    /// The frame has a gap.
    has_gap: bool,
}

/// A frame whose tuples, or whose progress, count.
struct ServedFrame<'a> {
    slot: u16,
    /// 0: progress.
    tuples: u16,
    rest: &'a [u8],
}

/// Why a frame is not answered.
enum Unanswered {
    /// The place of `others` that has its queue.
    Left(usize),
    Dropped(Lost),
}

impl PlainCard {
    /// A card for [`ORIGINS`], with rings of `entries` entries.
    fn new(entries: usize) -> PlainCard {
        PlainCard {
            origins: ORIGINS.to_vec(),
            owners: [0; PARTS],
            others: [0; PARTS],
            shift: 0,
            credit: 0,
            workers: 0,
            slots: HashMap::new(),
            rings: vec![VecDeque::new(); RINGS],
            ring_len: entries,
            counters: CardCounters::default(),
            has_gap: false,
        }
    }

    fn receive(&mut self, frame: &[u8]) -> Outcome {
        let done = self.serve(frame);
        let (fate, bytes) = match done {
            Ok(slot) => (Fate::Back, self.answer(frame, slot)),
            Err(Unanswered::Dropped(lost)) => (Fate::Dropped(lost), Vec::new()),
            Err(Unanswered::Left(place)) => {
                self.counters.left += 1;
                (Fate::Queue(self.others[place]), frame.to_vec())
            }
        };
        Outcome { fate, frame: bytes, copies: Vec::new() }
    }

    fn serve(&mut self, frame: &[u8]) -> Result<u16, Unanswered> {
        let ServedFrame { slot, tuples, rest } = self.check(frame)?;
        let state = self.slots.entry(slot).or_default();
        state.heard += 1;
        let has_ended = state.ended != 0;
        match tuples {
            _ if has_ended => {}
            0 => self.promise(slot, word(rest, 0), word(rest, 8))?,
            tuples => self.take(slot, tuples, rest).map_err(|unanswered| match unanswered {
                // Its queue is that of its ports.
                Unanswered::Left(_) => Unanswered::Left(ports_part(frame)),
                dropped => dropped,
            })?,
        }
        Ok(slot)
    }

    /// Checks everything before the tuples, as the card does.
    fn check<'a>(&self, frame: &'a [u8]) -> Result<ServedFrame<'a>, Unanswered> {
        let no_udp = Err(Unanswered::Left(0));
        let short = Err(Unanswered::Dropped(Lost::Short));
        if frame.len() < ETHERNET_LEN {
            return short;
        }
        if half(frame, 12) != 0x0800 {
            return no_udp;
        }
        if frame.len() < UDP_AT {
            return short;
        }
        let ip = &frame[ETHERNET_LEN..UDP_AT];
        let end = ETHERNET_LEN + usize::from(half(ip, 2));
        let is_udp = ip[0] == 0x45 && ip[9] == 17 && half(ip, 6) & 0x3fff == 0;
        if !is_udp || fold(sum(ip)) != 0xffff || end < PAYLOAD_AT || end > frame.len() {
            return no_udp;
        }
        let spread = || Unanswered::Left(ports_part(frame));
        let datagram = &frame[UDP_AT..end];
        let (from, to) = (half(datagram, 0), half(datagram, 2));
        let is_to_receiver = frame[..6] == MAC.0 && ip[16..] == IP && to == PORT;
        let is_whole = usize::from(half(datagram, 4)) == datagram.len();
        let can_be_frame =
            (8 + tuple::FIXED_LEN..=8 + tuple::FRAME_LEN_MAX).contains(&datagram.len());
        if !is_to_receiver || from == to || from == 0 || !is_whole || !can_be_frame {
            return Err(spread());
        }
        let (payload, count) = (&datagram[8..], half(datagram, 14));
        let origin = (word(payload, 8), *ip[12..].first_chunk().unwrap(), from);
        let slot = self.origins.iter().position(|of| *of == origin).ok_or_else(spread)?;
        let tuples = match (payload[5], usize::from(count)) {
            (1, 1..=tuple::TUPLES_MAX) => count,
            (2, 0) if payload.len() == tuple::FIXED_LEN => 0,
            _ => return Err(spread()),
        };
        let is_right = half(datagram, 6) == 0 || fold(udp_sum(ip, datagram)) == 0xffff;
        if payload[..5] != *b"nict\x01" || !is_right {
            return Err(spread());
        }
        Ok(ServedFrame { slot: slot as u16 + 1, tuples, rest: &payload[tuple::HEADER_LEN..] })
    }

    fn push(&mut self, ring: usize, entry: Entry) -> Result<(), Unanswered> {
        if self.rings[ring].len() == self.ring_len {
            return Err(Unanswered::Dropped(Lost::RingFull));
        }
        self.rings[ring].push_back(entry);
        Ok(())
    }

    fn mark(&mut self, slot: u16, time_ns: u64) -> Result<(), Unanswered> {
        (0..self.workers).try_for_each(|ring| self.push(ring, entry(0, time_ns, slot, 0, 2)))
    }

    /// Takes the tuples of a frame as far as they come next.
    fn take(&mut self, slot: u16, tuples: u16, rest: &[u8]) -> Result<(), Unanswered> {
        let mut rest = rest;
        for at in 0..tuples {
            let Some((head, behind)) = well_formed(rest) else {
                self.counters.malformed += 1;
                return Ok(());
            };
            rest = behind;
            let (key, time_ns) = (word(head, 8), word(head, 24));
            let SlotState { expected, marked, .. } = self.slots[&slot];
            match word(head, 16).cmp(&expected) {
                Ordering::Less => {
                    self.counters.repeated += 1;
                    continue;
                }
                Ordering::Greater => {
                    self.counters.gaps += 1;
                    self.has_gap = true;
                    return Ok(());
                }
                Ordering::Equal => {}
            }
            let ring = self.owners[part(key)] as usize;
            if ring >= RINGS {
                return if at == 0 { Err(Unanswered::Left(0)) } else { Ok(()) };
            }
            let step =
                u32::try_from(self.shift).map_or(0, |by| time_ns.checked_shr(by).unwrap_or(0));
            if step > marked {
                self.mark(slot, time_ns)?;
                self.slots.get_mut(&slot).unwrap().marked = step;
            }
            self.push(ring, entry(key, time_ns, slot, half(head, 0), 1))?;
            self.slots.get_mut(&slot).unwrap().expected += 1;
            self.counters.taken[ring] += 1;
        }
        self.counters.malformed += u64::from(!rest.is_empty());
        Ok(())
    }

    fn promise(&mut self, slot: u16, next: u64, time_ns: u64) -> Result<(), Unanswered> {
        let expected = self.slots[&slot].expected;
        let is_end = time_ns == END_NS;
        self.has_gap = next > expected;
        if next == expected || next < expected && !is_end {
            self.mark(slot, time_ns)?;
            self.slots.get_mut(&slot).unwrap().ended = u64::from(is_end);
        }
        Ok(())
    }

    /// The acknowledgement of a frame, and what was behind the end of its IPv4.
    fn answer(&mut self, frame: &[u8], slot: u16) -> Vec<u8> {
        self.counters.acknowledged += 1;
        let has_gap = std::mem::take(&mut self.has_gap);
        let SlotState { expected, ended, .. } = self.slots[&slot];
        let (source, ip, port) = self.origins[usize::from(slot) - 1];
        let head = AcknowledgementHead {
            cumulative: expected,
            credit: self.credit,
            is_ended: ended != 0,
            is_refused: false,
            is_foreign: false,
            has_gap,
        };
        let mut payload = Vec::new();
        tuple::write_acknowledgement(&mut payload, source, &head, std::iter::empty());
        let to = MacAddress(*frame[6..].first_chunk().unwrap());
        let layers = layers((MAC, IP, PORT), (to, ip, port), payload);
        let end = ETHERNET_LEN + usize::from(half(frame, ETHERNET_LEN + 2));
        [&build(&layers).unwrap(), &frame[end..]].concat()
    }
}

/// The place of `others` for the ports of a frame.
fn ports_part(frame: &[u8]) -> usize {
    steering(&frame[UDP_AT..UDP_AT + 4]) as usize % PARTS
}

/// The head of the first tuple and what is behind its payload.
fn well_formed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(tuple::TUPLE_LEN)?;
    let len = usize::from(half(head, 2));
    let (_, rest) = rest.split_at_checked(len)?;
    let is_well_formed =
        len <= tuple::PAYLOAD_LEN_MAX && head[4..8] == [0; 4] && word(head, 24) <= TIME_NS_MAX;
    is_well_formed.then_some((head, rest))
}

/// A station: Ethernet and IPv4 address, port of UDP.
type Station = (MacAddress, [u8; 4], u16);

fn layers(from: Station, to: Station, payload: Vec<u8>) -> [Layer; 4] {
    [
        Layer::Ethernet(ethernet::Repr { dst: to.0, src: from.0, ..ethernet::Repr::default() }),
        Layer::Ipv4(ipv4::Repr {
            src: from.1.into(),
            dst: to.1.into(),
            protocol: IpProtocol::UDP,
            ttl: 64,
            dont_fragment: true,
            ..ipv4::Repr::default()
        }),
        Layer::Udp(udp::Repr { src_port: from.2, dst_port: to.2, ..udp::Repr::default() }),
        Layer::Payload(payload),
    ]
}

fn frame_of((_, ip, port): Origin, payload: Vec<u8>) -> Vec<u8> {
    build(&layers((SOURCE_MAC, ip, port), (MAC, IP, PORT), payload)).unwrap()
}

/// Makes the checksums right again, as far as the frame has them.
fn make_right(frame: &mut [u8], has_udp_sum: bool) {
    let end = ETHERNET_LEN + usize::from(half(frame, ETHERNET_LEN + 2));
    frame[24..26].fill(0);
    let right = finish(sum(&frame[ETHERNET_LEN..UDP_AT]));
    frame[24..26].copy_from_slice(&right.to_be_bytes());
    if (PAYLOAD_AT..=frame.len()).contains(&end) {
        frame[40..42].fill(0);
        let right = finish_udp(udp_sum(&frame[ETHERNET_LEN..UDP_AT], &frame[UDP_AT..end]));
        let right = if has_udp_sum { right } else { 0 };
        frame[40..42].copy_from_slice(&right.to_be_bytes());
    }
}

const ORIGINS: [Origin; 3] =
    [(7, [10, 9, 0, 1], 4_000), (u64::MAX, [10, 9, 0, 1], 4_000), (0, [192, 0, 2, 1], 65_535)];

/// Makes frames of sources, some of them damaged or repeated.
struct FrameMaker {
    random: Xoshiro256PlusPlus,
    /// Frames that were made, and may come again.
    made: Vec<Vec<u8>>,
    time_ns: u64,
}

impl FrameMaker {
    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    /// A frame of a source whose next tuple has this sequence.
    fn next(&mut self, origin: Origin, expected: u64) -> Vec<u8> {
        if self.chance(10) && !self.made.is_empty() {
            let at = self.random.random_range(0..self.made.len());
            return self.made[at].clone();
        }
        let payload = match self.chance(15) {
            true => self.progress(origin.0, expected),
            false => self.tuples(origin.0, expected),
        };
        let mut frame = frame_of(origin, payload);
        if self.chance(25) {
            make_right(&mut frame, false);
        }
        if self.chance(30) {
            self.damage(&mut frame);
        }
        self.made.push(frame.clone());
        frame
    }

    fn progress(&mut self, source: u64, expected: u64) -> Vec<u8> {
        let next = (expected + self.random.random_range(0..4)).saturating_sub(2);
        let time_ns = if self.chance(20) { END_NS } else { self.random.random() };
        let mut payload = Vec::new();
        tuple::write_progress(&mut payload, source, &SourceProgress { next, time_ns });
        payload
    }

    fn tuples(&mut self, source: u64, expected: u64) -> Vec<u8> {
        let mut sequence = match self.random.random_range(0..10) {
            0..6 => expected,
            6..9 => expected.saturating_sub(self.random.random_range(1..30)),
            _ => expected + self.random.random_range(1..3),
        };
        let mut payload = Vec::new();
        tuple::begin_tuples(&mut payload, source);
        let tuples = self.random.random_range(1..=tuple::TUPLES_MAX);
        let has_payloads = self.chance(40);
        for _ in 0..tuples {
            let len = if has_payloads { self.random.random_range(0..60) } else { 0 };
            let bytes = vec![0xab; if self.chance(1) { tuple::PAYLOAD_LEN_MAX } else { len }];
            self.time_ns += if self.chance(4) { 2_000 } else { self.random.random_range(0..50) };
            let (stream, key) = (self.random.random(), self.random.random());
            let time_ns = self.time_ns;
            let tuple = Tuple { stream, key, sequence, time_ns, payload: &bytes };
            if !tuple::push_tuple(&mut payload, &tuple) {
                break;
            }
            sequence += if self.chance(1) { 2 } else { 1 };
        }
        payload
    }

    /// Changes some bytes or the length, and makes the checksums right again or does not.
    fn damage(&mut self, frame: &mut Vec<u8>) {
        if self.chance(20) {
            frame.truncate(self.random.random_range(0..frame.len()));
        } else if self.chance(10) {
            frame.extend_from_slice(&[1; 7]);
        } else if self.chance(20) {
            // Shorter by IPv4, too.
            let len = frame.len() - self.random.random_range(1..frame.len() - PAYLOAD_AT);
            frame.truncate(len);
            frame[16..18].copy_from_slice(&((len - ETHERNET_LEN) as u16).to_be_bytes());
            frame[38..40].copy_from_slice(&((len - UDP_AT) as u16).to_be_bytes());
        } else {
            let first = if self.chance(50) { 0 } else { PAYLOAD_AT };
            for _ in 0..self.random.random_range(1..3) {
                let at = self.random.random_range(first..frame.len().min(first + 120));
                frame[at] ^= 1 << self.random.random_range(0..8);
            }
        }
        if frame.len() > PAYLOAD_AT && self.chance(70) {
            let has_udp_sum = self.chance(70);
            make_right(frame, has_udp_sum);
        }
    }
}

fn tell(execution: &mut impl Execution, program: &Program, commands: &[String]) {
    for command in commands {
        execution.tell(&Command::read(program, command).unwrap()).unwrap();
    }
}

/// Chooses registers for the plain card, and writes the commands for the program.
fn set_up(plain: &mut PlainCard, random: &mut Xoshiro256PlusPlus) -> Vec<String> {
    plain.workers = random.random_range(1..=RINGS);
    plain.shift = if random.random_range(0..5) == 0 { 64 } else { random.random_range(0..12) };
    plain.credit = random.random();
    // Some parts have no worker.
    let owner = |part: usize, random: &mut Xoshiro256PlusPlus| match random.random_range(0..500) {
        0 => random.random_range(16..u64::from(u32::MAX)),
        _ => (part % plain.workers) as u64,
    };
    plain.owners = std::array::from_fn(|part| owner(part, random));
    plain.others = std::array::from_fn(|place| 100 + place as u64);
    let PlainCard { shift, credit, workers, .. } = plain;
    let mut commands = vec![
        format!("register_write workers 0 {workers}"),
        format!("register_write shift 0 {shift}"),
        format!("register_write credit 0 {credit}"),
    ];
    for (name, values) in [("owners", &plain.owners), ("others", &plain.others)] {
        let each = values.iter().enumerate();
        commands.extend(each.map(|(at, value)| format!("register_write {name} {at} {value}")));
    }
    commands
}

/// Compares registers and counters.
fn assert_alike(execution: &impl Execution, program: &Program, plain: &PlainCard) {
    let register = |name: &str, at: u64| execution.register(array(program, name), at);
    for slot in 1..=ORIGINS.len() as u16 {
        let at = u64::from(slot);
        let state = SlotState {
            expected: register("expected", at),
            ended: register("ended", at),
            marked: register("marked", at),
            heard: register("heard", at),
        };
        assert_eq!(state, plain.slots.get(&slot).copied().unwrap_or_default(), "slot {slot}");
    }
    let counter = |name: &str, at: usize| {
        let number = program.counters.iter().position(|of| of.name == name).unwrap();
        execution.counter(number, at as u64).0
    };
    let counters = CardCounters {
        taken: std::array::from_fn(|ring| counter("taken", ring)),
        repeated: counter("repeated", 0),
        gaps: counter("gaps", 0),
        malformed: counter("malformed", 0),
        acknowledged: counter("acknowledged", 0),
        left: counter("left", 0),
    };
    assert_eq!(counters, plain.counters);
}

/// Reads some entries of each ring, and compares them.
fn read_alike(execution: &mut impl Execution, plain: &mut PlainCard, maker: &mut FrameMaker) {
    for ring in 0..RINGS {
        let count = if maker.chance(40) { maker.random.random_range(0..60) } else { 0 };
        for _ in 0..count {
            let found = execution.take(0, ring as u64);
            let expected = plain.rings[ring].pop_front();
            assert_eq!(found.as_deref(), expected.as_ref().map(|entry| &entry[..]));
        }
    }
}

/// Runs frames through an execution and the plain card; how often each kind of end was seen.
fn compare(
    execution: &mut impl Execution,
    entries: usize,
    seed: u64,
) -> HashMap<&'static str, u64> {
    let program = program(entries);
    let mut maker = FrameMaker {
        random: Xoshiro256PlusPlus::seed_from_u64(seed),
        made: Vec::new(),
        time_ns: 0,
    };
    let mut plain = PlainCard::new(entries);
    tell(execution, &program, &registrations(&ORIGINS));
    tell(execution, &program, &set_up(&mut plain, &mut maker.random));
    let mut seen = HashMap::new();
    for number in 0..400 {
        let at = maker.random.random_range(0..ORIGINS.len());
        let slot = at as u16 + 1;
        let state = plain.slots.get(&slot).copied().unwrap_or_default();
        if state.ended != 0 && maker.chance(10) {
            // The host gives the slot to a source that begins.
            let names = ["expected", "ended", "marked", "heard"];
            names.iter().for_each(|name| {
                execution.set_register(array(&program, name), slot.into(), 0);
            });
            plain.slots.remove(&slot);
            *seen.entry("ended").or_default() += 1;
        }
        let origin = if maker.chance(3) { (1, [10, 9, 0, 1], 1) } else { ORIGINS[at] };
        let frame = maker.next(origin, state.expected);
        let (found, mut expected) = (execution.run(3, &frame), plain.receive(&frame));
        if let Fate::Dropped(lost) = expected.fate {
            // Nobody sees the bytes of a frame that is dropped.
            expected.frame.clone_from(&found.frame);
            *seen.entry(if lost == Lost::RingFull { "full" } else { "short" }).or_default() += 1;
        }
        assert_eq!(found, expected, "frame {number}: {frame:02x?}");
        assert_alike(execution, &program, &plain);
        read_alike(execution, &mut plain, &mut maker);
    }
    let CardCounters { taken, repeated, gaps, malformed, acknowledged, left } = plain.counters;
    let counted = [
        ("taken", taken.iter().sum()),
        ("repeated", repeated),
        ("gaps", gaps),
        ("malformed", malformed),
        ("acknowledged", acknowledged),
        ("left", left),
        ("marked", plain.slots.values().filter(|state| state.marked > 0).count() as u64),
    ];
    counted.into_iter().for_each(|(name, count)| *seen.entry(name).or_default() += count);
    seen
}

#[test]
fn the_card_takes_what_a_plain_receiver_takes() {
    let mut seen: HashMap<&str, u64> = HashMap::new();
    for seed in 0..14 {
        let entries = 1 << (4 + seed % 7);
        let mut both = compare(&mut Single::new(program(entries)).unwrap(), entries, seed);
        let defined = compare(&mut Definition::new(program(entries)), entries, seed);
        assert_eq!(both, defined);
        both.drain().for_each(|(name, count)| *seen.entry(name).or_default() += count);
    }
    let least = [
        ("taken", 10_000),
        ("repeated", 1_000),
        ("gaps", 100),
        ("malformed", 100),
        ("acknowledged", 1_000),
        ("left", 100),
        ("full", 100),
        ("short", 10),
        ("marked", 10),
        ("ended", 10),
    ];
    for (name, least) in least {
        assert!(seen.get(name).is_some_and(|count| *count >= least), "{name}: {seen:?}");
    }
}

/// Frames under way: arrival, whether it goes to the card, the place of its source, bytes.
struct BadNetwork {
    random: Xoshiro256PlusPlus,
    under_way: Vec<(u64, bool, usize, Vec<u8>)>,
}

impl BadNetwork {
    /// 20 % are lost, 5 % come twice, and all are late by up to 2 ms.
    fn send(&mut self, now_ns: u64, to_card: bool, place: usize, frame: &[u8]) {
        let times = if self.random.random_range(0..100) < 5 { 2 } else { 1 };
        for _ in 0..times {
            if self.random.random_range(0..100) >= 20 {
                let at_ns = now_ns + self.random.random_range(100_000..2_100_000);
                self.under_way.push((at_ns, to_card, place, frame.to_vec()));
            }
        }
    }

    /// The frames that arrive until a time, to the card or from it.
    fn arrived(&mut self, now_ns: u64, to_card: bool) -> Vec<(usize, Vec<u8>)> {
        let is_there = |of: &mut (u64, bool, usize, Vec<u8>)| of.0 <= now_ns && of.1 == to_card;
        let mut arrived: Vec<_> = self.under_way.extract_if(.., is_there).collect();
        arrived.sort_by_key(|of| of.0);
        arrived.into_iter().map(|(_, _, place, frame)| (place, frame)).collect()
    }
}

/// The fast path with memory for a burst.
struct BurstRunner {
    worker: Worker,
    region: Arc<Region>,
    descs: Vec<Desc>,
}

impl BurstRunner {
    /// Fate and bytes of each frame of a burst.
    fn run(&mut self, frames: &[Vec<u8>]) -> Vec<(Fate, Vec<u8>)> {
        let descs = &mut self.descs[..frames.len()];
        for (desc, frame) in descs.iter_mut().zip(frames) {
            self.region.slot_mut(desc)[..frame.len()].copy_from_slice(frame);
            self.region.set_len(desc, frame.len() as u16);
        }
        let mut fates = [Fate::Dropped(Lost::Told); BURST];
        self.worker.run(&self.region, descs, 0, &mut fates, |_, _| {});
        let ends = fates.into_iter().zip(descs);
        ends.map(|(fate, desc)| (fate, self.region.frame(desc).to_vec())).collect()
    }
}

/// The entries of a source that a worker has read.
#[derive(Clone, Copy, Default)]
struct ReadSource {
    tuples: u64,
    /// The sequence behind its last tuple.
    next: u64,
    mark_ns: u64,
}

/// The workers at the rings.
struct RingReaders {
    readers: Vec<Reader>,
    /// By ring and slot.
    read: Vec<[ReadSource; ORIGINS.len() + 1]>,
}

/// The key of a tuple, which says whose it is.
fn key_of(slot: usize, sequence: u64) -> u64 {
    sequence << 8 | slot as u64
}

/// Many tuples have the same time, and some are much later than the one before.
fn time_of(sequence: u64) -> u64 {
    sequence / 5 * 1_000 + sequence / 100 * 50_000
}

impl RingReaders {
    /// Reads up to `count` entries of a ring.
    fn read(&mut self, ring: usize, count: u32) {
        let workers = self.readers.len();
        for _ in 0..count {
            let mut entry = [0; ENTRY_LEN];
            let reader = &mut self.readers[ring];
            if reader.take(|shared, at| shared.copy_out(at, &mut entry)).is_none() {
                return;
            }
            let number = |at: usize, len: usize| {
                entry[at..at + len].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
            };
            let (key, time_ns, slot) = (number(0, 8), number(8, 8), number(16, 2) as usize);
            let source = &mut self.read[ring][slot];
            if number(20, 4) == 2 {
                assert_eq!((key, number(18, 2)), (0, 0));
                source.mark_ns = source.mark_ns.max(time_ns);
                continue;
            }
            let sequence = key >> 8;
            assert_eq!((number(20, 4), key), (1, key_of(slot, sequence)));
            assert_eq!((time_ns, number(18, 2)), (time_of(sequence), sequence & 0xffff));
            assert_eq!(part(key) % workers, ring, "a tuple in the ring of another worker");
            assert!(sequence >= source.next, "{sequence} behind {}", source.next);
            assert!(time_ns >= source.mark_ns, "{time_ns} behind the mark {}", source.mark_ns);
            (source.tuples, source.next) = (source.tuples + 1, sequence + 1);
        }
    }
}

/// Offers tuples as far as a sender takes them, and the end behind the last.
fn offer(sender: &mut Sender, slot: usize, offered: &mut u64, count: u64) {
    while *offered < count {
        let (key, time_ns) = (key_of(slot, *offered), time_of(*offered));
        let tuple = NewTuple { stream: *offered as u16, key, time_ns, payload: b"payload" };
        if sender.offer(&tuple).is_err() {
            return;
        }
        *offered += 1;
    }
    sender.end();
}

/// Sends `count` tuples of each source to the workers, over a bad network and rings of `entries`
/// entries. Returns the frames that found a ring full.
fn transfer(count: u64, workers: usize, entries: usize, batch: usize, seed: u64) -> u64 {
    let mut pipeline = Pipeline::new(program(entries)).unwrap();
    let owner = |part: usize| format!("register_write owners {part} {}", part % workers);
    let commands = registrations(&ORIGINS).into_iter().chain((0..PARTS).map(owner)).chain([
        format!("register_write workers 0 {workers}"),
        "register_write shift 0 12".to_owned(),
        "register_write credit 0 200".to_owned(),
    ]);
    let read = |command: String| Command::read(pipeline.program(), &command).unwrap();
    let commands: Vec<Command> = commands.map(read).collect();
    pipeline.tell(&commands, 0).unwrap();
    let readers = (0..workers).map(|ring| pipeline.reader(0, ring).unwrap()).collect();
    let mut readers = RingReaders { readers, read: vec![Default::default(); workers] };
    let (region, descs) = Region::new(BURST, 1_536).unwrap();
    let mut runner = BurstRunner { worker: pipeline.worker(), region, descs };
    let random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut network = BadNetwork { random, under_way: Vec::new() };
    let options = |source| SenderOptions { batch, window: 256, ..SenderOptions::new(source) };
    let mut senders = ORIGINS.map(|(source, ..)| (Sender::new(options(source)), 0));
    let (mut now_ns, mut payload, mut full) = (0, Vec::new(), 0);
    while !senders.iter().all(|(sender, _)| sender.is_finished()) {
        assert!(now_ns < 36_000_000_000_000, "ten hours are enough");
        for (at, (sender, offered)) in senders.iter_mut().enumerate() {
            offer(sender, at + 1, offered, count);
            while sender.frame(now_ns, &mut payload) {
                network.send(now_ns, true, at, &frame_of(ORIGINS[at], payload.clone()));
            }
        }
        let arrived = network.arrived(now_ns, true);
        for burst in arrived.chunks(BURST) {
            let frames: Vec<_> = burst.iter().map(|(_, frame)| frame.clone()).collect();
            for ((at, _), (fate, frame)) in burst.iter().zip(runner.run(&frames)) {
                match fate {
                    Fate::Back => network.send(now_ns, false, *at, &frame),
                    fate => {
                        assert_eq!(fate, Fate::Dropped(Lost::RingFull));
                        full += 1;
                    }
                }
            }
        }
        for (at, answer) in network.arrived(now_ns, false) {
            assert_eq!(fold(udp_sum(&answer[ETHERNET_LEN..UDP_AT], &answer[UDP_AT..])), 0xffff);
            senders[at].0.acknowledge(now_ns, &answer[PAYLOAD_AT..]).unwrap();
        }
        for ring in 0..workers {
            // Most of the time a worker does something else.
            if network.random.random_range(0..8) == 0 {
                readers.read(ring, network.random.random_range(0..2 * entries as u32));
            }
        }
        let due = senders.iter().filter_map(|(sender, _)| sender.due_ns(now_ns));
        let next_ns = due.chain(network.under_way.iter().map(|of| of.0)).min();
        now_ns = next_ns.map_or(now_ns + 1, |next_ns| next_ns.max(now_ns + 1));
    }
    (0..workers).for_each(|ring| readers.read(ring, u32::MAX));
    for slot in 1..=ORIGINS.len() {
        let of = readers.read.iter().map(|sources| sources[slot]);
        assert_eq!(of.clone().map(|source| source.tuples).sum::<u64>(), count, "slot {slot}");
        assert!(of.clone().all(|source| source.mark_ns == END_NS), "each worker has the end");
    }
    full
}

#[test]
fn each_tuple_is_in_one_ring_once_and_in_order_over_a_bad_network_and_small_rings() {
    let mut full = 0;
    for (seed, (workers, entries, batch)) in
        [(1, 16, 45), (3, 4, 45), (2, 8, 4), (16, 4, 8), (5, 16, 24)].into_iter().enumerate()
    {
        full += transfer(2_000, workers, entries, batch, seed as u64);
    }
    assert!(full > 500, "{full} frames found a ring full");
}
