//! The packets that an instruction works on: those of a mask, or one.
//!
//! An instruction is written once, over [`Packets`]. For a mask it works on whole lanes, for one
//! packet on single numbers.

use super::burst::{BURST, Burst, LaneValues, each_of};
use super::plan::{Source, Target};

/// Packets of a burst, and how numbers of all of them are handled.
pub(super) trait Packets: Copy {
    /// A number for each.
    type Numbers;

    /// A bit for each.
    fn mask(self) -> u64;

    /// Does something for each, in order.
    fn each(self, of: impl FnMut(usize));

    /// Reads the numbers of a place.
    fn load(self, burst: &Burst, from: Source) -> Self::Numbers;

    /// Writes numbers, cut to the target's width.
    fn save(self, burst: &mut Burst, to: Target, numbers: &Self::Numbers);

    /// The number of one of them.
    fn number(numbers: &Self::Numbers, packet: usize) -> u64;

    /// Calculates a number from two, for each.
    fn calculate(
        a: &Self::Numbers,
        b: &Self::Numbers,
        of: impl Fn(u64, u64) -> u64,
    ) -> Self::Numbers;

    /// A bit for each packet whose numbers compare like this.
    fn compare(self, a: &Self::Numbers, b: &Self::Numbers, is_so: impl Fn(u64, u64) -> bool)
    -> u64;

    /// Gives all the same value; that of other packets may change, too.
    fn reset<T: Copy>(self, values: &mut [T; BURST], value: T);
}

/// The packets of a mask.
#[derive(Clone, Copy)]
pub(super) struct PacketMask(pub u64);

/// The packet of this number.
#[derive(Clone, Copy)]
pub(super) struct OnePacket(usize);

impl OnePacket {
    #[inline(always)]
    pub(super) fn new(packet: usize) -> OnePacket {
        OnePacket(packet % BURST)
    }

    /// The only packet of a mask.
    #[inline(always)]
    pub(super) fn of(mask: u64) -> Option<OnePacket> {
        mask.is_power_of_two().then(|| OnePacket::new(mask.trailing_zeros() as usize))
    }

    #[inline(always)]
    pub(super) fn packet(self) -> usize {
        self.0
    }
}

impl Packets for PacketMask {
    type Numbers = LaneValues;

    #[inline(always)]
    fn mask(self) -> u64 {
        self.0
    }

    #[inline(always)]
    fn each(self, of: impl FnMut(usize)) {
        each_of(self.0, of);
    }

    #[inline(always)]
    fn load(self, burst: &Burst, from: Source) -> LaneValues {
        burst.load(from, self.0)
    }

    #[inline(always)]
    fn save(self, burst: &mut Burst, to: Target, numbers: &LaneValues) {
        burst.save(to, self.0, numbers);
    }

    #[inline(always)]
    fn number(numbers: &LaneValues, packet: usize) -> u64 {
        numbers[packet]
    }

    #[inline(always)]
    fn calculate(a: &LaneValues, b: &LaneValues, of: impl Fn(u64, u64) -> u64) -> LaneValues {
        let mut numbers = [0; BURST];
        for ((number, a), b) in numbers.iter_mut().zip(a).zip(b) {
            *number = of(*a, *b);
        }
        numbers
    }

    #[inline(always)]
    fn compare(self, a: &LaneValues, b: &LaneValues, is_so: impl Fn(u64, u64) -> bool) -> u64 {
        let mut mask = 0;
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            mask |= u64::from(is_so(*a, *b)) << i;
        }
        mask & self.0
    }

    #[inline(always)]
    fn reset<T: Copy>(self, values: &mut [T; BURST], value: T) {
        *values = [value; BURST];
    }
}

impl Packets for OnePacket {
    type Numbers = u64;

    #[inline(always)]
    fn mask(self) -> u64 {
        1 << self.0
    }

    #[inline(always)]
    fn each(self, mut of: impl FnMut(usize)) {
        of(self.0);
    }

    #[inline(always)]
    fn load(self, burst: &Burst, from: Source) -> u64 {
        burst.one(from, self.0)
    }

    #[inline(always)]
    fn save(self, burst: &mut Burst, to: Target, number: &u64) {
        burst.set(to, self.0, *number);
    }

    #[inline(always)]
    fn number(number: &u64, _: usize) -> u64 {
        *number
    }

    #[inline(always)]
    fn calculate(a: &u64, b: &u64, of: impl Fn(u64, u64) -> u64) -> u64 {
        of(*a, *b)
    }

    #[inline(always)]
    fn compare(self, a: &u64, b: &u64, is_so: impl Fn(u64, u64) -> bool) -> u64 {
        u64::from(is_so(*a, *b)) << self.0
    }

    #[inline(always)]
    fn reset<T: Copy>(self, values: &mut [T; BURST], value: T) {
        values[self.0] = value;
    }
}
