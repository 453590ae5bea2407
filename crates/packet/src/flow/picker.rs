//! Which flow the next packet belongs to.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::zipf::Zipf;

/// An endless stream of flow numbers; see [`super::FlowSet::picker`].
#[derive(Clone, Debug)]
pub struct Picker {
    rng: Xoshiro256PlusPlus,
    count: u32,
    zipf: Option<Zipf>,
    /// The second number of a draw that was made for two.
    second: Option<u32>,
}

/// Largest set whose numbers are drawn two at a time.
const PAIR_COUNT_MAX: u32 = 1 << 16;

impl Picker {
    pub(super) fn new(count: u32, zipf: Option<Zipf>, seed: u64) -> Self {
        Self { rng: Xoshiro256PlusPlus::seed_from_u64(seed), count, zipf, second: None }
    }

    /// The next flow number, below the set's count.
    #[allow(clippy::should_implement_trait, reason = "endless: no Option to unwrap per packet")]
    #[inline]
    pub fn next(&mut self) -> u32 {
        match &self.zipf {
            None if self.count > PAIR_COUNT_MAX => uniform(&mut self.rng, self.count),
            None => self.second.take().unwrap_or_else(|| {
                let [first, second] = uniform_pair(&mut self.rng, self.count);
                self.second = Some(second);
                first
            }),
            Some(zipf) => zipf.draw(&mut self.rng),
        }
    }

    /// Fills `flows` with the next flow numbers: the same as so many calls of [`Picker::next`].
    pub fn fill(&mut self, flows: &mut [u32]) {
        match &self.zipf {
            None if self.count > PAIR_COUNT_MAX => {
                flows.fill_with(|| uniform(&mut self.rng, self.count));
            }
            None => self.fill_pairs(flows),
            Some(zipf) => flows.fill_with(|| zipf.draw(&mut self.rng)),
        }
    }

    fn fill_pairs(&mut self, flows: &mut [u32]) {
        let odd = usize::from(self.second.is_some()).min(flows.len());
        let (head, rest) = flows.split_at_mut(odd);
        head.fill_with(|| self.next());
        let mut pairs = rest.chunks_exact_mut(2);
        for pair in &mut pairs {
            pair.copy_from_slice(&uniform_pair(&mut self.rng, self.count));
        }
        pairs.into_remainder().fill_with(|| self.next());
    }
}

/// Two numbers below `count`, at most [`PAIR_COUNT_MAX`], of one draw: with 32 random bits each no
/// number is favoured by more than one in 2^16.
#[inline]
fn uniform_pair(rng: &mut Xoshiro256PlusPlus, count: u32) -> [u32; 2] {
    let draw = rng.next_u64();
    let below = |half: u32| ((u64::from(half) * u64::from(count)) >> 32) as u32;
    [below((draw >> 32) as u32), below(draw as u32)]
}

/// A number below `count` by multiply and shift (Lemire, ACM TOMACS 29(1), 2019). Without his
/// rejection step: with 64 random bits no number is favoured by more than one in 2^40.
#[inline]
fn uniform(rng: &mut Xoshiro256PlusPlus, count: u32) -> u32 {
    ((u128::from(rng.next_u64()) * u128::from(count)) >> 64) as u32
}
