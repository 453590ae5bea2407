//! A key-value store behind a card's queues: what the card's help is worth to the cores that serve.
//!
//! [`StagedStore`] has the store and the requests; the experiment `kvs-steering` measures the same.
//! Two cores serve at once.
//!
//! Staged: this shows time and throughput, no latency and no loss.

use niclab_apps::kvs::codec::datagram::batch::{BATCH_STEPS, BatchStep};
pub use niclab_device::soft::kvs::Build;
pub use niclab_device::soft::kvs::KeyPopularity;
use niclab_device::soft::kvs::{KeyWorkload, StagedStore};
use niclab_nic::limits::BURST;
use niclab_pairing::alternate;
use niclab_peer::Answer;

use crate::{Bench, BenchError, Measured, Slices, median};

/// The two cores.
type Cores = [Option<u32>; 2];

/// What of two builds is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Requests a second of both cores together, which are done when the slower one is.
    Throughput,
    /// Requests for each second that a core works or waits for the other one.
    Time,
}

/// Passes that say where the time goes.
const WATCHED: usize = 31;

/// How it is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvsSetup {
    /// How often each key is asked for.
    pub keys: KeyPopularity,
    /// Partitions of the build that shares them; the other one has one a core.
    pub partitions: usize,
    /// Frames that are served together.
    pub burst: usize,
}

impl KvsSetup {
    /// As `niclab kvs` is on two cores.
    pub fn of(keys: KeyPopularity) -> KvsSetup {
        KvsSetup { keys, partitions: 4, burst: BURST }
    }

    fn staged(&self, build: Build, cores: Cores) -> Result<StagedStore, BenchError> {
        Ok(StagedStore::new(build, &KeyWorkload::published(self.keys), &cores, self.burst)?)
    }

    fn rss(&self, cores: Cores) -> Result<StagedStore, BenchError> {
        self.staged(Build::Rss { partitions: self.partitions }, cores)
    }
}

/// The row of the build without the card's help alone: its floor.
///
/// # Errors
/// [`BenchError`]. A machine of one core is no error but [`Slices::NotSupported`].
pub fn alone(bench: &Bench, shape: &KvsSetup) -> Result<Measured, BenchError> {
    let Some(cores) = two(bench) else { return Ok(one_core()) };
    let mut staged = shape.rss(cores)?;
    let rates = crate::alone(bench.pairs, || slice(&mut staged, bench, Figure::Throughput))?;
    Ok(Measured::of(Slices::Single(rates)).with(said(&mut staged)?))
}

/// A build with the card's help against RSS.
///
/// # Errors
/// As of [`alone`].
pub fn beside(
    bench: &Bench,
    shape: &KvsSetup,
    build: Build,
    figure: Figure,
) -> Result<Measured, BenchError> {
    let Some(cores) = two(bench) else { return Ok(one_core()) };
    let (mut helped, mut rss) = (shape.staged(build, cores)?, shape.rss(cores)?);
    let pairs = alternate(
        bench.pairs,
        || slice(&mut helped, bench, figure),
        || slice(&mut rss, bench, figure),
    )?;
    let ns = |rates: &[f64]| median(rates).map_or(0.0, |rate| 1e9 / rate);
    let (ours, theirs) = (ns(&pairs.ours), ns(&pairs.theirs));
    let what = match figure {
        Figure::Throughput => "from request to request on two cores",
        Figure::Time => "of a core for a request",
    };
    let note = format!(
        "staged: {ours:.1} ns {what} with {}, {theirs:.1} ns with rss: {:.0} % less",
        build.name(),
        100.0 * (1.0 - ours / theirs)
    );
    let (helped, rss) = (said(&mut helped)?, said(&mut rss)?);
    Ok(Measured::of(Slices::Paired(pairs)).with(note).with(helped).with(rss))
}

/// The cores of a bench, where there are two.
fn two(bench: &Bench) -> Option<Cores> {
    Some([Some(bench.core as u32), Some(bench.other? as u32)])
}

fn one_core() -> Measured {
    Measured::of(Slices::NotSupported("two cores on a machine that has one".to_owned()))
}

/// Passes for a slice. Those in which the machine took a core away count only where there is no
/// other.
fn slice(staged: &mut StagedStore, bench: &Bench, figure: Figure) -> Result<Answer, BenchError> {
    let until = std::time::Duration::from_millis(bench.slice_ms);
    let (start, mut calm, mut others) = (std::time::Instant::now(), (0, 0), (0, 0));
    while start.elapsed() < until {
        let pass = staged.pass()?;
        let (ops, ns) = if pass.is_disturbed { &mut others } else { &mut calm };
        let took = match figure {
            Figure::Throughput => pass.ns,
            Figure::Time => pass.worked_ns,
        };
        (*ops, *ns) = (*ops + pass.requests, *ns + took);
    }
    let (ops, ns) = if calm.0 > 0 { calm } else { others };
    Ok(Answer { ops, ns, rest: Vec::new() })
}

/// Where the time of a request goes: medians over passes that were watched.
fn said(staged: &mut StagedStore) -> Result<String, BenchError> {
    let mut of: [Vec<f64>; BATCH_STEPS] = Default::default();
    for _ in 0..WATCHED {
        let pass = staged.timed_pass()?;
        for (of, ns) in of.iter_mut().zip(pass.steps_ns) {
            of.push(ns as f64 / pass.requests.max(1) as f64);
        }
    }
    let names = [
        (BatchStep::Receive, "receive and check"),
        (BatchStep::Parse, "parse"),
        (BatchStep::Hash, "hash"),
        (BatchStep::Lock, "lock"),
        (BatchStep::LookUp, "look-up"),
        (BatchStep::CarryOut, "carry out and copy"),
        (BatchStep::Reply, "reply"),
    ];
    let part = |(step, name): (BatchStep, &str)| {
        format!("{name} {:.1}", median(&of[step as usize]).unwrap_or(0.0))
    };
    let parts: Vec<String> = names.map(part).into();
    let (name, share) = (staged.build().name(), 100.0 * staged.share());
    let parts = parts.join(", ");
    Ok(format!("{name}, {share:.0} % on the first core; ns of a request, watched: {parts}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_its_pairs_and_says_where_the_time_goes() {
        let peers = std::path::PathBuf::new();
        let bench = Bench { core: 0, other: Some(1), pairs: 2, peers, slice_ms: 1 };
        let shape = KvsSetup::of(KeyPopularity::Uniform);
        let measured = beside(&bench, &shape, Build::Dma, Figure::Time).unwrap();
        assert!(matches!(&measured.slices, Slices::Paired(pairs) if pairs.ours.len() == 2));
        assert!(measured.notes[0].contains(" with dma, "), "{:?}", measured.notes);
        assert!(measured.notes[1].contains("ns of a request, watched: receive"));
        let one = Bench { other: None, ..bench };
        let measured = alone(&one, &KvsSetup::of(KeyPopularity::Zipf)).unwrap();
        assert!(matches!(measured.slices, Slices::NotSupported(_)));
    }
}
