//! The search of a burst through the slots of a filter.

use super::{MaskSlots, MaskView};
use crate::limits::BURST_MAX;
use crate::prune::Burst;

/// Packets on their way through the slots of a filter; each packet is a *run*. It is as large as a
/// page: reuse it for each burst.
#[derive(Debug, Clone)]
pub struct MaskSearch<const F: usize> {
    /// By run: values, and remaining slots.
    burst: Burst<F>,
    /// The packet of each run.
    packets: [u8; BURST_MAX],
    /// The limit of each run: the rank of the best word so far; the greatest number if there is
    /// none.
    limits: [u64; BURST_MAX],
    /// Runs that are not finished.
    open: u64,
}

impl<const F: usize> Default for MaskSearch<F> {
    fn default() -> Self {
        let (packets, limits) = ([0; BURST_MAX], [u64::MAX; BURST_MAX]);
        Self { burst: Burst::default(), packets, limits, open: 0 }
    }
}

impl<const F: usize> MaskSearch<F> {
    /// Begins a run for each packet in `packets`, a bit each, with the values of its fields.
    #[inline]
    pub fn begin<'a, S>(
        &mut self,
        view: &'a MaskView<F, S>,
        mut packets: u64,
        values: impl Fn(usize) -> [u32; F],
    ) -> MaskSlots<'a, F, S> {
        let slots = view.slots_now();
        let mut count = 0;
        while packets != 0 {
            let packet = packets.trailing_zeros() as usize;
            packets &= packets - 1;
            self.burst.set(count, values(packet));
            self.packets[count % BURST_MAX] = packet as u8;
            count += 1;
        }
        slots.slots.reader.find_first(slots.joined, slots.used, &mut self.burst, count);
        self.limits = [u64::MAX; BURST_MAX];
        self.open = u64::MAX.checked_shr((BURST_MAX - count) as u32).unwrap_or(0);
        slots
    }

    /// Runs that are not finished, a bit each.
    #[inline]
    #[must_use]
    pub fn open(&self) -> u64 {
        self.open
    }

    /// The packet of a run.
    #[inline]
    #[must_use]
    pub fn packet(&self, run: usize) -> usize {
        usize::from(self.packets[run % BURST_MAX]) % BURST_MAX
    }

    /// A value of a run.
    #[inline]
    #[must_use]
    pub fn value(&self, run: usize, field: usize) -> u32 {
        self.burst.value(run, field)
    }

    /// The rank of the best word of a run so far.
    #[inline]
    #[must_use]
    pub fn limit(&self, run: usize) -> u64 {
        self.limits[run % BURST_MAX]
    }

    /// Sets the rank of the best word of a run.
    #[inline]
    pub fn set_limit(&mut self, run: usize, limit: u64) {
        self.limits[run % BURST_MAX] = limit;
    }

    /// The next slot that may have a better word for a run.
    #[inline]
    pub fn next<'a, S>(&mut self, slots: MaskSlots<'a, F, S>, run: usize) -> Option<&'a S> {
        let (of, limit) = (slots.slots, self.limit(run));
        loop {
            let (word, bits) = self.burst.left(run);
            // The first remaining slot of this word, or the first slot of the next word.
            let slot = (64 * word as usize).wrapping_add(bits.trailing_zeros() as usize);
            if slot >= slots.used || bits == 0 && self.burst.is_last(run) {
                return None;
            }
            if limit < u64::MAX && of.bound_from(slot) >= limit {
                return None;
            }
            if bits == 0 {
                of.reader.next_word(slots.joined, &mut self.burst, run, slots.used);
                continue;
            }
            self.burst.drop_first(run);
            if let Some(slot) = of.slot_below(slot, limit) {
                return Some(slot);
            }
        }
    }

    /// Finishes a run.
    #[inline]
    pub fn close(&mut self, run: usize) {
        self.open &= !(1 << run);
    }

    /// Finishes a run that has no slot left.
    #[inline]
    pub fn close_last(&mut self, run: usize) {
        let is_done = self.burst.is_last(run) && self.burst.left(run).1 == 0;
        self.open &= !(u64::from(is_done) << run);
    }

    /// Takes the rank of a better word for a run; finishes the run if no remaining slot can have a
    /// better one.
    #[inline]
    pub fn accept<S>(&mut self, slots: MaskSlots<'_, F, S>, run: usize, limit: u64) {
        self.set_limit(run, limit);
        let (word, bits) = self.burst.left(run);
        let slot = (64 * word as usize).wrapping_add(bits.trailing_zeros() as usize);
        let is_finished = slots.slots.bound_from(slot) >= limit;
        self.open &= !(u64::from(is_finished) << run);
    }
}
