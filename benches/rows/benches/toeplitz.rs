//! Toeplitz hashes of 12-byte tuples on every path of ours, against every variant of DPDK's.
//!
//! `cargo bench -p niclab-bench --bench toeplitz -- [--core N] [--pairs N] [--ms N] [--peers DIR]`;
//! `benches/peers/build` makes the peers. The bar's row is the first.

use std::error::Error;
use std::path::Path;

use niclab_bench::{Bench, BenchError, Figures, Measured, Slices, rss};
use niclab_nic::toeplitz::HashPath;
use niclab_pairing::{SLICE_MS_MAX, pin};

/// One row of the table: a path of ours, a variant of the peer, and how many tuples go round.
struct Comparison {
    path: HashPath,
    variant: &'static str,
    tuples_count: usize,
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

fn compare(bench: &Bench, row: &Comparison) -> Result<(), BenchError> {
    let path = row.path.to_string();
    let pairs = match rss::compare(bench, row.path, row.variant, row.tuples_count) {
        Ok(Measured { slices: Slices::Paired(pairs), .. }) => pairs,
        Ok(Measured { slices: Slices::Alone { missing, .. }, .. }) => {
            println!("SKIP {path} against {}: {missing}", row.variant);
            return Ok(());
        }
        Ok(_) => return Ok(()),
        // Such as a variant that this processor has not.
        Err(BenchError::Pairing(error)) if row.variant == "gfni" => {
            println!("SKIP {path} against {}: {error}", row.variant);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    match Figures::new(&pairs) {
        Some(Figures { ours, theirs, ratio, .. }) => println!(
            "{path:<13} {:<8} {:>7} {:>9.1} {:>9.1} {:>8.1} [{:.1}, {:.1}]",
            row.variant,
            row.tuples_count,
            ours / 1e6,
            theirs / 1e6,
            ratio.median,
            ratio.low,
            ratio.high,
        ),
        None => println!("{path:<13} {:<8} too few pairs for an interval", row.variant),
    }
    Ok(())
}

/// Reads the options; without `--bench` (as under `cargo test`) a few short pairs will do.
fn options() -> Result<Bench, String> {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
    let mut bench = Bench { peers, ..Bench::default() };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        (bench.pairs, bench.slice_ms) = (6, 1);
    }
    let mut rest = arguments.iter().filter(|argument| *argument != "--bench");
    while let Some(name) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name}: not a number: {value}"));
        match name.as_str() {
            "--core" => bench.core = number()? as usize,
            "--ms" => bench.slice_ms = number()?.clamp(1, SLICE_MS_MAX),
            "--pairs" => bench.pairs = number()? as usize,
            "--peers" => bench.peers = value.into(),
            _ => {
                return Err(format!("unknown option {name}: --core, --ms, --pairs, --peers"));
            }
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    bench.core = bench.core.min(cores - 1);
    Ok(bench)
}

fn main() -> Result<(), Box<dyn Error>> {
    let bench = options()?;
    pin(bench.core)?;
    println!(
        "Toeplitz, 12-byte tuples, core {}, {} pairs of {} ms; M hashes/s, ratio [95 % interval]",
        bench.core, bench.pairs, bench.slice_ms
    );
    println!("ours          peer      tuples      ours     peer    ratio");
    for row in comparisons() {
        compare(&bench, &row)?;
    }
    Ok(())
}
