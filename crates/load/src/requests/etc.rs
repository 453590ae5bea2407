//! Lengths as in memcached's pool ETC at Facebook: Atikoglu et al., *Workload Analysis of a
//! Large-Scale Key-Value Store*, SIGMETRICS 2012, §5.
//!
//! A length is looked up by 16 bits of the hash of a key's number: quantile i of [`QUANTILES`] has
//! the probability (i + 1/2) / [`QUANTILES`].

/// Lengths in a table.
pub const QUANTILES: usize = 1 << 16;

/// Shares of the values of 0, 1, 2, … 14 bytes. All others are longer.
const SHORT: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837,
    0.00837, 0.08989, 0.00092, 0.00326, 0.01980,
];

/// Length of keys, bytes, where a share of `p` is shorter: generalized extreme values.
fn key_len(p: f64) -> f64 {
    const LOCATION: f64 = 30.7984;
    const SCALE: f64 = 8.20449;
    const SHAPE: f64 = 0.078688;
    LOCATION + SCALE / SHAPE * ((-p.ln()).powf(-SHAPE) - 1.0)
}

/// Length of values, bytes, where a share of `p` is shorter: the table, then a generalized Pareto
/// distribution from where the table ends.
fn value_len(p: f64) -> f64 {
    const SCALE: f64 = 214.476;
    const SHAPE: f64 = 0.348238;
    let mut below = 0.0;
    for (len, share) in SHORT.iter().enumerate() {
        below += share;
        if p < below {
            return len as f64;
        }
    }
    let rest = (p - below) / (1.0 - below);
    SHORT.len() as f64 + SCALE / SHAPE * ((1.0 - rest).powf(-SHAPE) - 1.0)
}

fn table(quantile: fn(f64) -> f64, least: u32, most: u32) -> Vec<u32> {
    let p = |at: usize| (at as f64 + 0.5) / QUANTILES as f64;
    let len = |at| (quantile(p(at)).max(0.0) as u32).clamp(least, most);
    (0..QUANTILES).map(len).collect()
}

/// Lengths of keys, `least` to `most` bytes.
pub fn key_lens(least: u32, most: u32) -> Vec<u32> {
    table(key_len, least, most)
}

/// Lengths of values, at most `most` bytes.
pub fn value_lens(most: u32) -> Vec<u32> {
    table(value_len, 0, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(lens: &[u32], is: impl Fn(u32) -> bool) -> f64 {
        lens.iter().filter(|len| is(**len)).count() as f64 / lens.len() as f64
    }

    fn mean(lens: &[u32]) -> f64 {
        lens.iter().map(|len| f64::from(*len)).sum::<f64>() / lens.len() as f64
    }

    #[test]
    fn keys_are_as_long_as_the_distribution_says() {
        let lens = key_lens(1, 250);
        // Of generalized extreme values: μ + σ/k (Γ(1-k) - 1), and the median at ln 2. What has
        // no fractions is half a byte shorter.
        assert!((mean(&lens) - (36.0 - 0.5)).abs() < 0.3, "{}", mean(&lens));
        let median = 30.7984 + 8.20449 / 0.078688 * (2f64.ln().powf(-0.078688) - 1.0);
        assert_eq!(lens[QUANTILES / 2], median as u32);
        assert!(lens.is_sorted() && key_lens(9, 40)[0] == 9.max(lens[0]));
        assert_eq!(*key_lens(1, 40).last().unwrap(), 40);
    }

    #[test]
    fn values_are_as_long_as_the_distribution_says() {
        let lens = value_lens(1 << 20);
        assert!((share(&lens, |len| len < 15) - 0.44155).abs() < 1e-4);
        assert!((share(&lens, |len| len == 2) - 0.1782).abs() < 1e-4);
        // Half of the longer ones are below the Pareto median, and their mean is σ / (1 - k).
        let long: Vec<u32> = lens.iter().copied().filter(|len| *len >= 15).collect();
        let median = 15.0 + 214.476 / 0.348238 * (2f64.powf(0.348238) - 1.0);
        assert!((share(&long, |len| f64::from(len) < median) - 0.5).abs() < 0.01);
        assert!((mean(&long) - (15.0 + 214.476 / (1.0 - 0.348238))).abs() < 4.0, "{}", mean(&long));
        assert!((20_000..40_000).contains(lens.last().unwrap()), "{:?}", lens.last());
        assert_eq!(*value_lens(1000).last().unwrap(), 1000);
    }
}
