//! Toeplitz hashes of 12-byte tuples against DPDK's, in pairs of slices on one core.
//!
//! `make -C benches/peers` builds the peers; then
//! `cargo bench -p niclab-nic --bench toeplitz -- [--core N] [--pairs N] [--ms N] [--peers DIR]`.
//! Ours hashes arrays of structures in bursts of 64, transposes included; the peers get theirs in
//! the form they like best (see `benches/peers/softrss.c`). Both checksums must agree.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use niclab_nic::toeplitz::{HashPath, MICROSOFT_KEY, Toeplitz};
use niclab_pairing::{
    Answer, PAIRS_MIN, PairingError, Peer, SLICE_MS_MAX, alternate, median_interval, pin, slice,
};

/// Tuples per call of ours.
const BURST: usize = 64;

/// Hashes between two looks at the clock, at least, on both sides.
const CLOCK_STRIDE: usize = 65_536;

/// The bar: our best path against `rte_softrss_be`.
const GOAL: f64 = 30.0;

struct Options {
    core: usize,
    pairs: usize,
    peers: PathBuf,
    slice_ms: u64,
}

/// One row of the table: a path of ours, a variant of the peer, and how many tuples go round.
struct Comparison {
    path: HashPath,
    variant: &'static str,
    tuples_count: usize,
}

/// Tuples and room for their hashes.
struct Work {
    toeplitz: Toeplitz,
    tuples: Vec<[u8; 12]>,
    hashes: Vec<u32>,
}

impl Work {
    fn new(path: HashPath, count: usize) -> Option<Self> {
        let toeplitz = Toeplitz::with_path(&MICROSOFT_KEY, path).ok()?;
        Some(Self { toeplitz, tuples: (0..count).map(tuple).collect(), hashes: vec![0; count] })
    }

    /// Hashes all tuples often enough for the clock, and returns how many hashes that made.
    fn run(&mut self) -> u64 {
        let passes = (CLOCK_STRIDE / self.tuples.len()).max(1);
        for _ in 0..passes {
            let bursts = self.tuples.chunks(BURST).zip(self.hashes.chunks_mut(BURST));
            for (tuples, hashes) in bursts {
                self.toeplitz.hash_bulk(black_box(tuples), black_box(hashes));
            }
        }
        (passes * self.tuples.len()) as u64
    }

    /// FNV-1a over the hashes as 64-bit units, as the peer has it.
    fn checksum(&self) -> u64 {
        self.hashes.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, &hash| {
            (sum ^ u64::from(hash)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// Output function of splitmix64 on `x` plus its increment.
fn mix(x: u64) -> u64 {
    let z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The tuple both sides have at `index`.
fn tuple(index: usize) -> [u8; 12] {
    let mut tuple = [0; 12];
    tuple[..8].copy_from_slice(&mix(2 * index as u64).to_le_bytes());
    tuple[8..].copy_from_slice(&(mix(2 * index as u64 + 1) as u32).to_le_bytes());
    tuple
}

/// Every path against the documented peer, the best one against all peers; and both ends of the
/// range once more with as few tuples as stay in the first-level cache and as let the branch
/// predictor learn the peer's loop over their bits.
fn comparisons() -> Vec<Comparison> {
    let best = HashPath::best();
    let row = |path, variant, tuples_count| Comparison { path, variant, tuples_count };
    let mut rows: Vec<Comparison> = HashPath::ALL.map(|path| row(path, "be", 65_536)).into();
    rows.extend(["generic", "gfni"].map(|variant| row(best, variant, 65_536)));
    rows.extend(["be", "gfni"].map(|variant| row(best, variant, 1024)));
    rows.retain(|row| row.path.is_available());
    rows
}

fn compare(options: &Options, row: &Comparison) -> Result<(), PairingError> {
    let Some(mut work) = Work::new(row.path, row.tuples_count) else {
        return Ok(());
    };
    let program = options.peers.join("softrss");
    let core = options.core.to_string();
    let mut peer = match Peer::spawn(&program, &[&core, row.variant]) {
        Ok(peer) => peer,
        Err(error) => {
            println!("skipped {}: {error} (make -C benches/peers builds it)", row.variant);
            return Ok(());
        }
    };
    let command = format!("hash {} {}", row.tuples_count, options.slice_ms);
    work.run();
    let ours = work.checksum();
    let pairs = alternate(
        options.pairs,
        || Ok(slice(options.slice_ms, || work.run())),
        || check(&command, ours, &mut peer),
    )?;
    print_row(row, &pairs);
    Ok(())
}

/// Returns the peer's answer if it computed the same hashes.
fn check(command: &str, ours: u64, peer: &mut Peer) -> Result<Answer, PairingError> {
    let answer = peer.ask(command)?;
    match answer.rest.first() {
        Some(&theirs) if theirs == ours => Ok(answer),
        theirs => Err(PairingError::Checksum {
            peer: peer.name().to_owned(),
            ours,
            theirs: theirs.copied().unwrap_or_default(),
        }),
    }
}

fn print_row(row: &Comparison, pairs: &niclab_pairing::Pairs) {
    let median = |rates: &[f64]| median_interval(rates).map_or(f64::NAN, |i| i.median / 1e6);
    let Some(ratio) = median_interval(&pairs.ratios()) else {
        println!("{:<13} {:<8} too few pairs for an interval", row.path.to_string(), row.variant);
        return;
    };
    let is_bar = row.path == HashPath::best() && row.variant == "be";
    let verdict = match (is_bar, ratio.low >= GOAL) {
        (false, _) => "",
        (true, true) => "  goal 30: met",
        (true, false) => "  goal 30: MISSED",
    };
    println!(
        "{:<13} {:<8} {:>7} {:>9.1} {:>9.1} {:>8.1} [{:.1}, {:.1}]{verdict}",
        row.path.to_string(),
        row.variant,
        row.tuples_count,
        median(&pairs.ours),
        median(&pairs.theirs),
        ratio.median,
        ratio.low,
        ratio.high,
    );
}

/// Reads the options; without `--bench` (as under `cargo test`) a few short pairs will do.
fn options() -> Result<Options, String> {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
    let mut options = Options { core: 1, pairs: 6, peers, slice_ms: 1 };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--bench") {
        (options.pairs, options.slice_ms) = (PAIRS_MIN + 1, 20);
    }
    let mut rest = arguments.iter().filter(|argument| *argument != "--bench");
    while let Some(name) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name}: not a number: {value}"));
        match name.as_str() {
            "--core" => options.core = number()? as usize,
            "--ms" => options.slice_ms = number()?.clamp(1, SLICE_MS_MAX),
            "--pairs" => options.pairs = number()? as usize,
            "--peers" => options.peers = value.into(),
            _ => {
                return Err(format!("unknown option {name}: --core, --ms, --pairs, --peers"));
            }
        }
    }
    Ok(options)
}

fn run() -> Result<(), String> {
    let options = options()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options { core: options.core.min(cores - 1), ..options };
    pin(options.core).map_err(|error| error.to_string())?;
    println!(
        "Toeplitz, 12-byte tuples, core {}, {} pairs of {} ms; M hashes/s, ratio [95 % interval]",
        options.core, options.pairs, options.slice_ms
    );
    println!("ours          peer      tuples      ours     peer    ratio");
    for row in comparisons() {
        compare(&options, &row).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("toeplitz: {error}");
            ExitCode::FAILURE
        }
    }
}
