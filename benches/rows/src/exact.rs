//! Look-ups in the exact-match table against `rte_hash`: uniform, random, in bursts.

use std::hint::black_box;

use niclab_pairing::slice;
use niclab_peer::{Answer, Peer};
use niclab_table::{BURST_MAX, Config, Exact, Pages, Participant, QsbrDomain, Reader};

use crate::keys::{self, PROBES};
use crate::{Bench, BenchError, Measured, expect_hits};

/// What is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Keys that are there.
    Hit,
    /// Keys that are there, their hashes computed beforehand on both sides.
    Hashed,
    /// Keys that are not there.
    Miss,
}

/// Both tables.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Entries.
    pub keys: u64,
    /// What is looked up.
    pub probe: Probe,
    /// Pages of both sides.
    pub pages: Pages,
    /// Flags of the peer's table; see the head of `benches/peers/rte_hash.c`.
    pub peer_flags: String,
    /// Capacity of the peer's table as a multiple of its keys.
    pub peer_spare: u64,
}

impl Setup {
    /// The bar's: hits, huge pages on both sides, the peer's table twice as large as its keys.
    /// That is its best: `rte_hash` slows down and refuses keys where its buckets fill up.
    pub fn hits(keys: u64) -> Setup {
        Setup { keys, probe: Probe::Hit, pages: Pages::Huge, peer_flags: "d".into(), peer_spare: 2 }
    }

    /// Starts the peer and fills its table.
    pub fn peer(&self, bench: &Bench) -> Result<Peer, BenchError> {
        let mut peer = start(bench, self.pages)?;
        let entries = self.keys * self.peer_spare;
        peer.tell(&format!("table {entries} {} {}", self.keys, self.peer_flags))?;
        Ok(peer)
    }

    /// The command of a slice.
    pub fn command(&self, bench: &Bench) -> String {
        let mode = match self.probe {
            Probe::Hit => 'h',
            Probe::Hashed => 'p',
            Probe::Miss => 'm',
        };
        format!("lookup {BURST_MAX} {mode} {}", bench.slice_ms)
    }
}

/// Starts `rte_hash` on the pages that ours gets.
pub(crate) fn start(bench: &Bench, pages: Pages) -> Result<Peer, BenchError> {
    let mut peer = bench.peer("rte_hash", &[])?;
    if pages == Pages::Huge {
        peer.tell("huge")?;
    }
    Ok(peer)
}

/// The row: hits in tables of `keys` entries.
pub fn hits(bench: &Bench, keys: u64) -> Result<Measured, BenchError> {
    let setup = Setup::hits(keys);
    let peer = setup.peer(bench);
    let mut prober = Prober::<2>::new(&setup)?;
    let command = setup.command(bench);
    let theirs = |peer: &mut Peer| Ok(peer.ask(&command)?);
    bench.compare(bench.pairs, peer, || prober.run(bench.slice_ms), theirs)
}

/// How our table for `keys` entries is made; without a reserve it starts empty and grows.
pub fn config(keys: u64, pages: Pages, reserve: bool) -> Config {
    let reserve = if reserve { keys as usize } else { 0 };
    Config { capacity_max: keys as usize, pages, reserve, seed: 42 }
}

/// Bulk look-ups of prepared probes, going on where the last slice ended.
#[derive(Debug)]
pub struct Prober<const W: usize> {
    table: Exact<W>,
    reader: Reader<W>,
    participant: Participant,
    probes: Vec<[u64; W]>,
    hashes: Option<Vec<u64>>,
    hit: bool,
    cursor: usize,
}

impl<const W: usize> Prober<W> {
    /// A filled table and its probes.
    pub fn new(setup: &Setup) -> Result<Self, BenchError> {
        let domain = QsbrDomain::new();
        let table = filled::<W>(config(setup.keys, setup.pages, true), &domain, setup.keys)?;
        let hit = setup.probe != Probe::Miss;
        let reader = table.reader();
        let probes = keys::probes(if hit { 0 } else { setup.keys }, setup.keys);
        let hashes = (setup.probe == Probe::Hashed)
            .then(|| probes.iter().map(|key| reader.hash(key)).collect());
        let participant = domain.register_reader();
        Ok(Self { table, reader, participant, probes, hashes, hit, cursor: 0 })
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// One slice; all look-ups must come out as they should.
    pub fn run(&mut self, slice_ms: u64) -> Result<Answer, BenchError> {
        let mut hits = 0;
        let mut values = [0; BURST_MAX];
        let answer = slice(slice_ms, || {
            for _ in 0..64 {
                hits += u64::from(self.burst(&mut values).count_ones());
                self.participant.quiescent();
            }
            64 * BURST_MAX as u64
        });
        let expected = if self.hit { answer.ops } else { 0 };
        expect_hits(hits, expected, answer)
    }

    #[inline(always)]
    fn burst(&mut self, values: &mut [u64; BURST_MAX]) -> u64 {
        let burst = self.cursor..self.cursor + BURST_MAX;
        self.cursor = burst.end % PROBES;
        let (it, keys) = (&self.participant, &self.probes[burst.clone()]);
        let hits = match &self.hashes {
            None => self.reader.lookup_bulk(it, keys, values),
            Some(hashes) => self.reader.lookup_bulk_hashed(it, keys, &hashes[burst], values),
        };
        black_box(values);
        hits
    }
}

/// A table of the keys 0 to `keys`, settled; values are one more than their index.
fn filled<const W: usize>(
    config: Config,
    domain: &QsbrDomain,
    keys: u64,
) -> Result<Exact<W>, BenchError> {
    let mut table = Exact::new(config, domain)?;
    for index in 0..keys {
        table.insert(&keys::key(index), index + 1)?;
    }
    while !table.run_housekeeping(1 << 20) {}
    Ok(table)
}
