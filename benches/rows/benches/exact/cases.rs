//! The cases: what is measured beyond the bar, in slices of at most 50 ms.

use std::error::Error;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use niclab_bench::exact::{Probe, Prober, Setup, config};
use niclab_bench::insert::{self, InitialSize};
use niclab_bench::{Bench, BenchError, Figures, Slices, keys};
use niclab_pairing::{Interval, Pairs, alternate, median_interval, pin};
use niclab_table::{BURST_MAX, Exact, Pages, Participant, QsbrDomain, Reader};

/// How to measure.
#[derive(Clone)]
pub struct Options {
    pub bench: Bench,
    pub pages: Pages,
    pub peer_flags: String,
    /// Capacity of the peer's table as a multiple of its keys.
    pub peer_spare: u64,
}

impl Options {
    fn setup(&self, keys: u64, probe: Probe) -> Setup {
        let (pages, peer_flags) = (self.pages, self.peer_flags.clone());
        Setup { keys, probe, pages, peer_flags, peer_spare: self.peer_spare }
    }
}

type Outcome = Result<(), Box<dyn Error>>;

/// All cases for the given numbers of keys.
pub fn all(options: &Options, sizes: &[u64]) -> Outcome {
    for &keys in sizes {
        for probe in [Probe::Hit, Probe::Hashed, Probe::Miss] {
            lookup(options, keys, probe)?;
        }
        insertion(options, keys)?;
        grow(options, keys)?;
    }
    widths(options, sizes[0])?;
    update(options, sizes[0])
}

/// Uniform random look-ups, with the peer if it is there.
pub fn lookup(options: &Options, keys: u64, probe: Probe) -> Outcome {
    let bench = &options.bench;
    let setup = options.setup(keys, probe);
    let label = format!("lookup {probe:?} {keys}");
    let mut prober = Prober::<2>::new(&setup)?;
    let bytes = prober.bytes() as f64 / keys as f64;
    match setup.peer(bench) {
        Ok(mut peer) => {
            let command = setup.command(bench);
            let ours = || prober.run(bench.slice_ms);
            report(&label, &alternate(bench.pairs, ours, || Ok(peer.ask(&command)?))?);
        }
        Err(error @ BenchError::NotBuilt { .. }) => {
            println!("SKIP peer of {label}: {error}");
            alone(bench, &label, &mut prober)?;
        }
        Err(error) => return Err(error.into()),
    }
    println!("{label}: {bytes:.1} bytes per entry");
    Ok(())
}

fn alone<const W: usize>(bench: &Bench, label: &str, prober: &mut Prober<W>) -> Outcome {
    rates(label, &niclab_bench::alone(bench.pairs, || prober.run(bench.slice_ms))?);
    Ok(())
}

fn rates(label: &str, ours: &[f64]) {
    let millions: Vec<f64> = ours.iter().map(|rate| rate / 1e6).collect();
    println!("{label}: {} M/s", show(median_interval(&millions)));
}

fn report(label: &str, pairs: &Pairs) {
    match Figures::new(pairs) {
        Some(figures) => println!(
            "{label}: ours {:.2} M/s, peer {:.2} M/s, ratio {} ({} pairs)",
            figures.ours / 1e6,
            figures.theirs / 1e6,
            show(Some(figures.ratio)),
            figures.pairs
        ),
        None => println!("{label}: too few pairs for an interval"),
    }
}

fn show(interval: Option<Interval>) -> String {
    match interval {
        Some(i) => format!("{:.2} [{:.2}, {:.2}]", i.median, i.low, i.high),
        None => "too few slices for an interval:".into(),
    }
}

/// Insertion into a table made for all keys, and into one that grows, against the peer's.
pub fn insertion(options: &Options, keys: u64) -> Outcome {
    for room in [InitialSize::Reserved, InitialSize::Growing] {
        let label = format!("insert {room:?} {keys}");
        match insert::keys(&options.bench, keys, room)?.slices {
            Slices::Paired(pairs) => report(&label, &pairs),
            Slices::Alone { ours, missing } => {
                println!("SKIP peer of {label}: {missing}");
                rates(&label, &ours);
            }
            Slices::NotSupported(_) | Slices::Single(_) | Slices::Times(_) => {}
        }
    }
    Ok(())
}

/// How long single insertions take while a table grows.
pub fn grow(options: &Options, keys: u64) -> Outcome {
    let list: Vec<[u64; 2]> = (0..keys).map(keys::key).collect();
    let mut table = Exact::new(config(keys, options.pages, false), &QsbrDomain::new())?;
    let mut all_ns: Vec<u64> = Vec::with_capacity(list.len());
    for (value, key) in list.iter().enumerate() {
        let start = Instant::now();
        table.insert(key, value as u64)?;
        all_ns.push(start.elapsed().as_nanos() as u64);
    }
    all_ns.sort_unstable();
    let at = |share: f64| all_ns[((all_ns.len() - 1) as f64 * share) as usize];
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

/// Bulk look-ups for every width of the key.
pub fn widths(options: &Options, keys: u64) -> Outcome {
    fn width<const W: usize>(options: &Options, keys: u64) -> Outcome {
        let mut prober = Prober::<W>::new(&options.setup(keys, Probe::Hit))?;
        let label = format!("lookup hit {keys}, {W} words");
        alone(&options.bench, &label, &mut prober)?;
        println!("{label}: {:.1} bytes per entry", prober.bytes() as f64 / keys as f64);
        Ok(())
    }
    width::<1>(options, keys)?;
    width::<2>(options, keys)?;
    width::<3>(options, keys)?;
    width::<4>(options, keys)?;
    width::<5>(options, keys)?;
    width::<6>(options, keys)?;
    width::<7>(options, keys)?;
    width::<8>(options, keys)
}

/// A value that says which key it is of, and which version.
fn versioned(index: u64, version: u64) -> u64 {
    index << 32 | version & 0xffff_ffff
}

/// Updates by key on one core beside a reader at full speed on another, in slices with and
/// without updates: update rate, the reader's loss, torn or stale values seen.
pub fn update(options: &Options, keys: u64) -> Outcome {
    let domain = QsbrDomain::new();
    let mut table = Exact::<2>::new(config(keys, options.pages, true), &domain)?;
    for index in 0..keys {
        table.insert(&keys::key(index), versioned(index, 0))?;
    }
    let (done, looked, wrong) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (reader, participant) = (table.reader(), domain.register_reader());
    let core = options.bench.core;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = pin(core);
            watch(&reader, participant, keys, &done, &looked, &wrong);
        });
        // On a machine of one core they share it.
        let _ = pin(1 - core.min(1));
        in_turn(&options.bench, &mut table, keys, &looked);
        done.store(true, Relaxed);
    });
    println!("update {keys}: {} torn or stale values", wrong.load(Relaxed));
    Ok(())
}

/// Slices without and with updates in turn.
fn in_turn(bench: &Bench, table: &mut Exact<2>, keys: u64, looked: &AtomicU64) {
    let list: Vec<(u64, [u64; 2])> =
        keys::indices(keys).map(|index| (index, keys::key(index))).collect();
    let (mut rates, mut kept, mut reads) = (Vec::new(), Vec::new(), Vec::new());
    let slice = Duration::from_millis(bench.slice_ms);
    let mut version = 1;
    std::thread::sleep(slice);
    for _ in 0..bench.pairs {
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
    println!("update {keys}: {} M/s", show(median_interval(&rates)));
    println!(
        "update {keys}: reader {} M/s, kept {}",
        show(median_interval(&reads)),
        show(median_interval(&kept))
    );
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
