//! The cases: what is measured, in slices of at most 50 ms.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use niclab_table::{BURST_MAX, Config, Domain, Exact, Pages, Participant, Reader};

use crate::keys::{self, PROBES};
use crate::paired::{Median, Slice, median, paired};
use crate::peer::Peer;

/// How to measure.
pub struct Setup {
    pub core: usize,
    pub pages: Pages,
    pub pairs: usize,
    pub peer: Option<String>,
    pub peer_flags: String,
    /// Capacity of the peer's table as a multiple of its keys.
    pub peer_spare: usize,
    pub slice_ms: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            core: 1,
            pages: Pages::Huge,
            pairs: 40,
            peer: None,
            peer_flags: "d".into(),
            peer_spare: 1,
            slice_ms: 25,
        }
    }
}

impl Setup {
    /// Everything runs, nothing is to be believed.
    pub fn tiny() -> Self {
        Self { pairs: 1, slice_ms: 1, ..Self::default() }
    }

    /// Pins this thread; a core that does not exist is left to the system.
    pub fn pin(&self) {
        pin(self.core);
    }

    fn config(&self, keys: u64, reserve: bool) -> Config {
        let reserve = if reserve { keys as usize } else { 0 };
        Config { capacity_max: keys as usize, pages: self.pages, reserve, seed: 42 }
    }

    fn start_peer(&self) -> Result<Option<Peer>, String> {
        let Some(program) = &self.peer else {
            return Ok(None);
        };
        let mut peer = Peer::start(program, self.core)?;
        if self.pages == Pages::Huge {
            peer.ask("huge")?;
        }
        Ok(Some(peer))
    }
}

fn pin(core: usize) {
    #[cfg(target_os = "linux")]
    {
        let mut set = rustix::thread::CpuSet::new();
        set.set(core);
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}

/// All cases for the given numbers of keys.
pub fn all(setup: &Setup, sizes: &[u64]) -> Result<(), String> {
    for &keys in sizes {
        for mode in ["hit", "hashed", "miss"] {
            lookup(setup, keys, mode)?;
        }
        insert(setup, keys)?;
        grow(setup, keys)?;
    }
    widths(setup, sizes[0])?;
    update(setup, sizes[0])
}

fn filled<const W: usize>(config: Config, domain: &Domain, keys: u64) -> Exact<W> {
    let mut table = Exact::new(config, domain).expect("memory for the table");
    for index in 0..keys {
        table.insert(&keys::key(index), index + 1).expect("room for every key");
    }
    while !table.settle(1 << 20) {}
    table
}

/// Bulk look-ups of prepared probes, going on where the last slice ended.
struct Prober<const W: usize> {
    reader: Reader<W>,
    participant: Participant,
    probes: Vec<[u64; W]>,
    hashes: Option<Vec<u64>>,
    cursor: usize,
}

impl<const W: usize> Prober<W> {
    fn new(table: &Exact<W>, domain: &Domain, keys: u64, mode: &str) -> Self {
        let first = if mode == "miss" { keys } else { 0 };
        let reader = table.reader();
        let probes = keys::probes(first, keys);
        let hashes =
            (mode == "hashed").then(|| probes.iter().map(|key| reader.hash(key)).collect());
        Self { reader, participant: domain.reader_slot(), probes, hashes, cursor: 0 }
    }

    /// Hits and the slice.
    fn run(&mut self, slice_ms: u64) -> (u64, Slice) {
        let (mut ops, mut hits, start) = (0, 0, Instant::now());
        let mut values = [0; BURST_MAX];
        loop {
            for _ in 0..64 {
                hits += u64::from(self.burst(&mut values).count_ones());
                self.participant.quiescent();
            }
            ops += 64 * BURST_MAX as u64;
            let ns = start.elapsed().as_nanos() as u64;
            if ns >= slice_ms * 1_000_000 {
                return (hits, Slice { ops, ns });
            }
        }
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

/// Uniform random look-ups: `hit`, `hashed` (hashes computed beforehand) or `miss`.
pub fn lookup(setup: &Setup, keys: u64, mode: &str) -> Result<(), String> {
    let domain = Domain::new();
    let table = filled::<2>(setup.config(keys, true), &domain, keys);
    let mut prober = Prober::new(&table, &domain, keys, mode);
    let expected = |ops| if mode == "miss" { 0 } else { ops };
    let ours = || match prober.run(setup.slice_ms) {
        (hits, slice) if hits == expected(slice.ops) => Ok(slice),
        (hits, slice) => Err(format!("{hits} hits in {slice:?}")),
    };
    let label = format!("lookup {mode} {keys}");
    let bytes = table.bytes() as f64 / keys as f64;
    let mut peer = setup.start_peer()?;
    if let Some(peer) = &mut peer {
        let entries = keys * setup.peer_spare as u64;
        println!("# {}", peer.ask(&format!("table {entries} {keys} {}", setup.peer_flags))?);
    }
    let letter = match mode {
        "hashed" => 'p',
        "miss" => 'm',
        _ => 'h',
    };
    let command = format!("lookup {BURST_MAX} {letter} {}", setup.slice_ms);
    report(setup, &label, peer, &command, ours)?;
    println!("{label}: {bytes:.1} bytes per entry");
    Ok(())
}

fn report(
    setup: &Setup,
    label: &str,
    peer: Option<Peer>,
    command: &str,
    mut ours: impl FnMut() -> Result<Slice, String>,
) -> Result<(), String> {
    let Some(mut peer) = peer else {
        let rates: Result<Vec<f64>, String> =
            (0..setup.pairs + 1).map(|_| Ok(ours()?.rate_mops())).collect();
        println!("{label}: {} M/s", show(median(rates?.split_off(1))));
        return Ok(());
    };
    let both = paired(setup.pairs, ours, || peer.slice(command))?;
    println!(
        "{label}: ours {} M/s, peer {} M/s, ratio {} ({} pairs)",
        show(both.ours_mops),
        show(both.peer_mops),
        show(both.ratio),
        both.pairs
    );
    Ok(())
}

fn show(median: Median) -> String {
    format!("{:.2} [{:.2}, {:.2}]", median.value, median.low, median.high)
}

/// Insertion of all keys into an empty table made for them.
pub fn insert(setup: &Setup, keys: u64) -> Result<(), String> {
    insertion(setup, keys, true, "insert reserved")
}

/// Insertion of all keys into a table that starts empty and grows, with its worst insert.
pub fn grow(setup: &Setup, keys: u64) -> Result<(), String> {
    insertion(setup, keys, false, "insert growing")?;
    let list: Vec<[u64; 2]> = (0..keys).map(keys::key).collect();
    let domain = Domain::new();
    let mut table = Exact::new(setup.config(keys, false), &domain).map_err(|e| e.to_string())?;
    let mut worst: Vec<u64> = Vec::with_capacity(list.len());
    for (value, key) in list.iter().enumerate() {
        let start = Instant::now();
        table.insert(key, value as u64).map_err(|e| e.to_string())?;
        worst.push(start.elapsed().as_nanos() as u64);
    }
    worst.sort_unstable();
    let at = |share: f64| worst[((worst.len() - 1) as f64 * share) as usize];
    println!(
        "insert growing {keys}: ns p50 {} p99 {} p99.99 {} p99.999 {} max {}; {} bytes",
        at(0.5),
        at(0.99),
        at(0.9999),
        at(0.99999),
        at(1.0),
        table.bytes()
    );
    Ok(())
}

fn insertion(setup: &Setup, keys: u64, reserve: bool, label: &str) -> Result<(), String> {
    let list: Vec<[u64; 2]> = (0..keys).map(keys::key).collect();
    let domain = Domain::new();
    let ours = || {
        let mut table =
            Exact::new(setup.config(keys, reserve), &domain).map_err(|error| error.to_string())?;
        let start = Instant::now();
        for (value, key) in list.iter().enumerate() {
            table.insert(key, value as u64).map_err(|error| error.to_string())?;
        }
        Ok(Slice { ops: keys, ns: start.elapsed().as_nanos() as u64 })
    };
    let command = format!("insert {keys} {}", setup.peer_flags);
    report(setup, &format!("{label} {keys}"), setup.start_peer()?, &command, ours)
}

/// Bulk look-ups for every width of the key.
pub fn widths(setup: &Setup, keys: u64) -> Result<(), String> {
    fn width<const W: usize>(setup: &Setup, keys: u64) -> Result<(), String> {
        let domain = Domain::new();
        let table = filled::<W>(setup.config(keys, true), &domain, keys);
        let mut prober = Prober::new(&table, &domain, keys, "hit");
        let label = format!("lookup hit {keys}, {W} words");
        report(setup, &label, None, "", || Ok(prober.run(setup.slice_ms).1))?;
        println!("{label}: {:.1} bytes per entry", table.bytes() as f64 / keys as f64);
        Ok(())
    }
    width::<1>(setup, keys)?;
    width::<2>(setup, keys)?;
    width::<3>(setup, keys)?;
    width::<4>(setup, keys)?;
    width::<5>(setup, keys)?;
    width::<6>(setup, keys)?;
    width::<7>(setup, keys)?;
    width::<8>(setup, keys)
}

/// A value that says which key it is of, and which version.
fn versioned(index: u64, version: u64) -> u64 {
    index << 32 | version & 0xffff_ffff
}

/// Updates by key on one core beside a reader at full speed on another, in slices with and
/// without updates: update rate, the reader's loss, torn or stale values seen.
pub fn update(setup: &Setup, keys: u64) -> Result<(), String> {
    let domain = Domain::new();
    let mut table =
        Exact::<2>::new(setup.config(keys, true), &domain).map_err(|e| e.to_string())?;
    for index in 0..keys {
        table.insert(&keys::key(index), versioned(index, 0)).map_err(|e| e.to_string())?;
    }
    let (done, looked, wrong) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (reader, participant) = (table.reader(), domain.reader_slot());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(setup.core);
            watch(&reader, participant, keys, &done, &looked, &wrong);
        });
        pin(1 - setup.core.min(1));
        alternate(setup, &mut table, keys, &looked);
        done.store(true, Relaxed);
    });
    println!("update {keys}: {} torn or stale values", wrong.load(Relaxed));
    Ok(())
}

/// Slices without and with updates in turn.
fn alternate(setup: &Setup, table: &mut Exact<2>, keys: u64, looked: &AtomicU64) {
    let list: Vec<(u64, [u64; 2])> =
        keys::indices(keys).map(|index| (index, keys::key(index))).collect();
    let (mut rates, mut kept, mut reads) = (Vec::new(), Vec::new(), Vec::new());
    let slice = Duration::from_millis(setup.slice_ms);
    let mut version = 1;
    std::thread::sleep(slice);
    for _ in 0..setup.pairs {
        let (before, start) = (looked.load(Relaxed), Instant::now());
        while start.elapsed() < slice {
            std::hint::spin_loop();
        }
        let alone = (looked.load(Relaxed) - before) as f64 / start.elapsed().as_secs_f64();
        let (before, start) = (looked.load(Relaxed), Instant::now());
        let mut updates = 0u64;
        for part in list.chunks(4096).cycle() {
            for (index, key) in part {
                black_box(table.update(key, versioned(*index, version)));
            }
            version += 1;
            updates += part.len() as u64;
            if start.elapsed() >= slice {
                break;
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let beside = (looked.load(Relaxed) - before) as f64 / seconds;
        rates.push(updates as f64 / seconds / 1e6);
        reads.push(beside / 1e6);
        kept.push(beside / alone);
    }
    println!("update {keys}: {} M/s", show(median(rates)));
    println!("update {keys}: reader {} M/s, kept {}", show(median(reads)), show(median(kept)));
}

/// Looks up until `done`, and checks that values fit their keys and versions never go back.
fn watch(
    reader: &Reader<2>,
    mut participant: Participant,
    keys: u64,
    done: &AtomicBool,
    looked: &AtomicU64,
    wrong: &AtomicU64,
) {
    let probes: Vec<[u64; 2]> = keys::probes(0, keys);
    let indices: Vec<u32> = keys::indices(keys).map(|index| index as u32).collect();
    let mut seen = vec![0u32; keys as usize];
    let mut values = [0; BURST_MAX];
    for (burst, indices) in probes.chunks(BURST_MAX).zip(indices.chunks(BURST_MAX)).cycle() {
        let hits = reader.lookup_bulk(&participant, burst, &mut values);
        let mut bad = u64::from(hits != u64::MAX);
        for (value, index) in values.iter().zip(indices) {
            let version = *value as u32;
            let last = &mut seen[*index as usize];
            bad += u64::from(value >> 32 != u64::from(*index) || version < *last);
            *last = version;
        }
        if bad != 0 {
            wrong.fetch_add(bad, Relaxed);
        }
        participant.quiescent();
        looked.fetch_add(BURST_MAX as u64, Relaxed);
        if done.load(Relaxed) {
            return;
        }
    }
}
