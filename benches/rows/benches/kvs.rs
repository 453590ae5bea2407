//! All builds of the key-value store behind the card's queues: times, and where they go.
//!
//! ```sh
//! cargo bench -p niclab-bench --bench kvs -- --pairs 31 --partitions 4 --burst 64
//! ```

use niclab_bench::kvs::{Build, Figure, KeyPopularity, KvsSetup, alone, beside};
use niclab_bench::{Bench, BenchError, Figures, Measured, Slices, median};

fn main() -> Result<(), BenchError> {
    let words: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: usize| {
        let at = words.iter().position(|word| word == name);
        at.and_then(|at| words.get(at + 1)?.parse().ok()).unwrap_or(default)
    };
    let (pairs, partitions) = (number("--pairs", 31), number("--partitions", 4));
    let burst = number("--burst", 64);
    let bench = Bench { pairs, ..Bench::default() };
    for keys in [KeyPopularity::Uniform, KeyPopularity::Zipf] {
        let shape = KvsSetup { keys, partitions, burst };
        show(&format!("rss, {}", keys.name()), &alone(&bench, &shape)?);
        for build in [Build::Steer, Build::Dma] {
            for figure in [Figure::Throughput, Figure::Time] {
                let what = format!("{}, {}, {figure:?}", build.name(), keys.name());
                show(&what, &beside(&bench, &shape, build, figure)?);
            }
        }
    }
    Ok(())
}

fn show(what: &str, measured: &Measured) {
    match &measured.slices {
        Slices::Paired(pairs) => {
            let millions = |rates: &[f64]| median(rates).unwrap_or(0.0) / 1e6;
            let (ours, theirs) = (millions(&pairs.ours), millions(&pairs.theirs));
            print!("{what}: {ours:.2} M/s, rss {theirs:.2} M/s");
            if let Some(figures) = Figures::new(pairs) {
                let ratio = figures.ratio;
                print!(", {:.2} [{:.2}, {:.2}]", ratio.median, ratio.low, ratio.high);
            }
            println!();
        }
        Slices::Single(rates) => println!("{what}: {:.2} M/s", median(rates).unwrap_or(0.0) / 1e6),
        other => println!("{what}: {other:?}"),
    }
    measured.notes.iter().for_each(|note| println!("  {note}"));
}
