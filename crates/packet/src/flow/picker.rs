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
}

impl Picker {
    pub(super) fn new(count: u32, zipf: Option<Zipf>, seed: u64) -> Self {
        Self { rng: Xoshiro256PlusPlus::seed_from_u64(seed), count, zipf }
    }

    /// The next flow number, below the set's count.
    #[allow(clippy::should_implement_trait, reason = "endless: no Option to unwrap per packet")]
    #[inline]
    pub fn next(&mut self) -> u32 {
        match &self.zipf {
            None => uniform(&mut self.rng, self.count),
            Some(zipf) => zipf.draw(&mut self.rng),
        }
    }

    /// Fills `flows` with the next flow numbers: the same as so many calls of [`Picker::next`].
    pub fn fill(&mut self, flows: &mut [u32]) {
        match &self.zipf {
            None => flows.fill_with(|| uniform(&mut self.rng, self.count)),
            Some(zipf) => flows.fill_with(|| zipf.draw(&mut self.rng)),
        }
    }
}

/// A number below `count` by multiply and shift (Lemire, ACM TOMACS 29(1), 2019). Without his
/// rejection step: with 64 random bits no number is favoured by more than one in 2^40.
#[inline]
fn uniform(rng: &mut Xoshiro256PlusPlus, count: u32) -> u32 {
    ((u128::from(rng.next_u64()) * u128::from(count)) >> 64) as u32
}
