//! How the cost of a packet grows with the rules of the engine.
//!
//! `cargo bench -p niclab-ids --bench engine`: a table in Markdown. Rules have one to three
//! contents, a fifth of them an expression, and half of them ports. Packets have 64 to 1,400 bytes
//! of payload; a hundredth of them has the contents of a rule. Without `--bench` (as under `cargo
//! test`) everything runs once with few rules.

use std::hint::black_box;
use std::time::{Duration, Instant};

use niclab_ids::Variables;
use niclab_ids::engine::{self, Matcher, RuleEngine};
use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{ethernet, ipv4, tcp, udp};

/// Packets that go round.
const PACKETS: usize = 4096;
/// Packets between two looks at the clock.
const BURST: u32 = 64;
/// Slices of a figure.
const SLICES: usize = 11;

fn main() {
    let timed = std::env::args().any(|argument| argument == "--bench");
    let (slice, rules_max) = if timed { (300, 50_000) } else { (1, 100) };
    println!("| matcher | rules | packets/s | ns/packet | of 100 rules | prepared in |");
    println!("|---|---|---|---|---|---|");
    for matcher in Matcher::ALL {
        grow(*matcher, slice, rules_max);
    }
}

/// Measures one matcher with more and more rules.
fn grow(matcher: Matcher, slice: u64, rules_max: usize) {
    let mut first_ns = f64::NAN;
    for count in [100, 1_000, 5_000, 50_000].into_iter().filter(|count| *count <= rules_max) {
        let mut random = Random(7);
        let rules: Vec<BenchRule> = (0..count).map(|_| BenchRule::new(&mut random)).collect();
        let text: String = (1..).zip(&rules).map(|(sid, rule)| rule.text(sid)).collect();
        let frames: Vec<Vec<u8>> = (0..PACKETS).map(|_| frame(&mut random, &rules)).collect();
        let start = Instant::now();
        let read = engine::read(&text, &Variables::default());
        let read = read.unwrap_or_else(|errors| panic!("{}", errors[0]));
        let signatures = read.into_iter().filter_map(|(_, signature)| signature.ok());
        let engine = RuleEngine::with_matcher(signatures, matcher);
        let prepared = start.elapsed();
        let ns = packet_ns(&engine, &frames, Duration::from_millis(slice));
        first_ns = if count == 100 { ns } else { first_ns };
        println!(
            "| {matcher:?} | {count} | {:.0} k | {ns:.0} | {:.2} x | {:.2} s |",
            1e6 / ns,
            ns / first_ns,
            prepared.as_secs_f64()
        );
    }
}

/// The median time of a packet.
fn packet_ns(engine: &RuleEngine, frames: &[Vec<u8>], slice: Duration) -> f64 {
    let (mut scratch, mut at, mut alerts) = (engine.scratch(), 0, 0u64);
    let mut time = || {
        let (mut packets, start) = (0u32, Instant::now());
        while start.elapsed() < slice {
            for _ in 0..BURST {
                let inspected = engine.inspect(&frames[at], &mut scratch, |_| alerts += 1);
                assert!(inspected.is_ok());
                at = (at + 1) % frames.len();
            }
            packets += BURST;
        }
        start.elapsed().as_nanos() as f64 / f64::from(packets)
    };
    // The first warms up.
    time();
    let mut times: Vec<f64> = (0..SLICES).map(|_| time()).collect();
    times.sort_by(f64::total_cmp);
    black_box(alerts);
    times[SLICES / 2]
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % count
    }

    /// A word of 5 to 16 letters.
    fn content(&mut self) -> String {
        let len = 5 + self.below(12);
        self.word(len)
    }

    /// A word of lower-case letters.
    fn word(&mut self, len: usize) -> String {
        (0..len).map(|_| (b'a' + self.below(26) as u8) as char).collect()
    }
}

struct BenchRule {
    is_tcp: bool,
    /// Any port if there is none.
    port: Option<u16>,
    contents: Vec<String>,
    has_expression: bool,
}

impl BenchRule {
    fn new(random: &mut Random) -> BenchRule {
        let count = 1 + random.below(3);
        BenchRule {
            is_tcp: random.below(2) == 0,
            port: (random.below(2) == 0).then(|| port(random)),
            contents: (0..count).map(|_| random.content()).collect(),
            has_expression: random.below(5) == 0,
        }
    }

    fn text(&self, sid: u32) -> String {
        let protocol = if self.is_tcp { "tcp-pkt" } else { "udp" };
        let port = self.port.map_or("any".to_owned(), |port| port.to_string());
        let contents: String =
            self.contents.iter().map(|word| format!("content:\"{word}\"; nocase; ")).collect();
        let expression = if self.has_expression { "pcre:\"/[a-z]+\\d{2,}/R\"; " } else { "" };
        format!("alert {protocol} any any -> any {port} ({contents}{expression}sid:{sid};)\n")
    }
}

/// One of a hundred ports that servers have.
fn port(random: &mut Random) -> u16 {
    20 + random.below(100) as u16 * 80
}

/// A packet of text, or one with the contents of a rule.
fn frame(random: &mut Random, rules: &[BenchRule]) -> Vec<u8> {
    let rule = (random.below(100) == 0).then(|| &rules[random.below(rules.len())]);
    let mut payload = String::new();
    for content in rule.iter().flat_map(|rule| &rule.contents) {
        payload += &format!("{content}42 ");
    }
    let len = payload.len() + 64 + random.below(1_337);
    while payload.len() < len {
        let word_len = 2 + random.below(9);
        payload += &(random.word(word_len) + if random.below(8) == 0 { "17 " } else { " " });
    }
    payload.truncate(1_400);
    let is_tcp = rule.map_or(random.below(2) == 0, |rule| rule.is_tcp);
    let dst_port = rule.and_then(|rule| rule.port).unwrap_or_else(|| port(random));
    let header: Layer = match is_tcp {
        true => tcp::Repr { src_port: 40_000, dst_port, ..Default::default() }.into(),
        false => udp::Repr { src_port: 40_000, dst_port, ..Default::default() }.into(),
    };
    let layers = [ethernet::Repr::default().into(), ipv4::Repr::default().into(), header];
    let frame = build(&[&layers[..], &[Layer::Payload(payload.into_bytes())]].concat());
    frame.unwrap_or_else(|error| panic!("{error:?}"))
}
