//! Paired slices: ours and the peer's in turn, and the median of their ratios.

/// What one slice did.
#[derive(Debug, Clone, Copy)]
pub struct Slice {
    pub ops: u64,
    pub ns: u64,
}

impl Slice {
    /// Millions of operations per second.
    pub fn rate_mops(self) -> f64 {
        self.ops as f64 * 1e3 / self.ns as f64
    }
}

/// A median with its order-statistic confidence interval of at least 95 %.
#[derive(Debug, Clone, Copy)]
pub struct Median {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// The outcome of a paired run.
#[derive(Debug, Clone, Copy)]
pub struct Paired {
    pub pairs: usize,
    pub ours_mops: Median,
    pub peer_mops: Median,
    pub ratio: Median,
}

/// Runs `pairs` pairs of slices, the first of a pair alternating, after two that do not count.
pub fn paired(
    pairs: usize,
    mut ours: impl FnMut() -> Result<Slice, String>,
    mut peer: impl FnMut() -> Result<Slice, String>,
) -> Result<Paired, String> {
    let mut rates = Vec::new();
    for pair in 0..pairs + 2 {
        let both = if pair % 2 == 0 {
            let first = ours()?;
            (first, peer()?)
        } else {
            let first = peer()?;
            (ours()?, first)
        };
        if pair >= 2 {
            rates.push((both.0.rate_mops(), both.1.rate_mops()));
        }
    }
    let of = |pick: fn(&(f64, f64)) -> f64| median(rates.iter().map(pick).collect());
    Ok(Paired {
        pairs,
        ours_mops: of(|rates| rates.0),
        peer_mops: of(|rates| rates.1),
        ratio: of(|rates| rates.0 / rates.1),
    })
}

/// The median; its interval spans the order statistics that a binomial of one half leaves out
/// with at most 2.5 % on either side.
pub fn median(mut values: Vec<f64>) -> Median {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let outside = ranks_outside(count);
    let middle = (values[(count - 1) / 2] + values[count / 2]) / 2.0;
    Median { value: middle, low: values[outside], high: values[count - 1 - outside] }
}

fn ranks_outside(count: usize) -> usize {
    let mut probability = 0.5f64.powi(count as i32);
    let mut below = 0.0;
    for rank in 0..count / 2 {
        below += probability;
        if below > 0.025 {
            return rank.saturating_sub(1);
        }
        probability *= (count - rank) as f64 / (rank + 1) as f64;
    }
    0
}

/// Holds the statistics to published values before any of them is printed.
pub fn check() {
    // Order-statistic intervals of a median: n = 30 -> ranks 10 and 21, n = 10 -> 2 and 9.
    assert_eq!((ranks_outside(30), ranks_outside(10)), (9, 1));
    let m = median((1..=30).map(f64::from).collect());
    assert_eq!((m.value, m.low, m.high), (15.5, 10.0, 21.0));
}
