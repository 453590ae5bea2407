//! Tuples: what all rules of one mask share, as workers see it.
//!
//! A *tuple* (Srinivasan, Suri and Varghese, "Packet Classification using Tuple Space Search",
//! SIGCOMM 1999) consists of the header bits that rules match and the ranges that their ports lie
//! in. Rules of one tuple differ only in the values of these bits: they are entries of an
//! exact-match table.

use std::sync::atomic::{AtomicU64, Ordering};

use niclab_packet::key::{Key, field};
use niclab_table::{Bits, Span};

use crate::rule::Pattern;
use crate::tables::Selector;

/// The fields of a group's filter: the first 32 bits of source and destination address, the ports,
/// and the protocol.
pub(crate) const FIELDS: [Bits; 5] =
    [Bits::ThirtyTwo, Bits::ThirtyTwo, Bits::Sixteen, Bits::Sixteen, Bits::Eight];

/// Values of [`FIELDS`].
pub(crate) type Values = [u32; FIELDS.len()];

/// The field values of a packet.
#[inline]
pub(crate) fn values_of(key: &Key) -> Values {
    let [addresses, ports] = [key.0[2], key.0[3]];
    let port = |at: u32| u32::from((ports >> at) as u16).swap_bytes() >> 16;
    let address = |at: u32| ((addresses >> at) as u32).swap_bytes();
    [address(0), address(32), port(0), port(16), u32::from((ports >> 32) as u8)]
}

/// The ports of a packet.
#[inline]
pub(crate) fn ports_of(key: &Key) -> [u32; 2] {
    let [_, _, source, destination, _] = values_of(key);
    [source, destination]
}

const _: () = assert!(field::SRC_HEAD.start == 16 && field::DST_HEAD.start == 20, "word 2");
const _: () = assert!(field::SPORT.start == 24 && field::PROTOCOL.start == 28, "word 3");

/// A range of source ports and a range of destination ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ranges {
    pub(crate) low: [u16; 2],
    pub(crate) high: [u16; 2],
}

impl Default for Ranges {
    /// All ports.
    fn default() -> Ranges {
        Ranges { low: [0; 2], high: [u16::MAX; 2] }
    }
}

impl Ranges {
    /// Whether some ports are outside.
    #[inline]
    pub(crate) fn limit(&self) -> bool {
        *self != Ranges::default()
    }

    /// Whether a packet's ports are inside.
    #[inline]
    pub(crate) fn hold(&self, ports: [u32; 2]) -> bool {
        let holds = |at: usize, port: u32| {
            u32::from(self.low[at]) <= port && port <= u32::from(self.high[at])
        };
        holds(0, ports[0]) & holds(1, ports[1])
    }
}

/// The bits and ranges of a tuple.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub(crate) struct Shape {
    pub(crate) ranges: Ranges,
    pub(crate) selector: Selector,
}

impl Shape {
    /// Bytes at the start of a shape that hold all that shapes of four words need.
    pub(crate) const FOUR_WORDS: usize =
        std::mem::offset_of!(Shape, selector) + Selector::FOUR_WORDS;

    pub(crate) fn of(pattern: &Pattern) -> Shape {
        Shape { selector: Selector::new(pattern), ranges: *pattern.ranges() }
    }

    /// The values that a rule with this key matches in each field, or a superset.
    pub(crate) fn spans(&self, key: &[u64]) -> [Span; FIELDS.len()] {
        let (value, mask) = self.selector.expand(key);
        let (values, masks) = (values_of(&value), values_of(&mask));
        let mut spans = std::array::from_fn(|at| {
            let unused = 32 - FIELDS[at].count();
            let leading = (masks[at] << unused).leading_ones().min(FIELDS[at].count());
            Span::prefix(FIELDS[at], values[at], leading)
        });
        for (span, at) in spans[2..4].iter_mut().zip(0..) {
            let (low, high) = (u32::from(self.ranges.low[at]), u32::from(self.ranges.high[at]));
            *span = Span { low: span.low.max(low), high: span.high.min(high) };
        }
        spans
    }
}

/// A tuple that is probed without the pruning filter.
#[derive(Debug)]
pub(crate) struct Tuple {
    pub(crate) shape: Shape,
    /// The last word of its keys.
    pub(crate) number: u16,
    /// The word of the best rule of an empty mask.
    pub(crate) any: AtomicU64,
    /// A lower bound of its rules' orders: lowered before a rule appears, never raised.
    best: AtomicU64,
    /// An upper bound of its rules' orders: raised before a rule appears, never lowered.
    worst: AtomicU64,
}

impl Default for Tuple {
    fn default() -> Tuple {
        Tuple::new(Shape::default(), 0)
    }
}

impl Tuple {
    pub(crate) fn new(shape: Shape, number: u16) -> Tuple {
        let (best, worst) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        Tuple { shape, number, any: AtomicU64::new(0), best, worst }
    }

    /// Widens the range of orders; call it before a packet can match the rule. True if the best
    /// order changed.
    ///
    /// Only the control side calls this.
    pub(crate) fn admit(&self, order: u64) -> bool {
        if self.worst.load(Ordering::Relaxed) < order {
            self.worst.store(order, Ordering::Release);
        }
        let better = self.best.load(Ordering::Relaxed) > order;
        if better {
            self.best.store(order, Ordering::Release);
        }
        better
    }

    /// Whether the tuple never had a rule.
    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        self.best.load(Ordering::Relaxed) == u64::MAX
    }

    #[inline]
    pub(crate) fn best(&self) -> u64 {
        self.best.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn worst(&self) -> u64 {
        self.worst.load(Ordering::Acquire)
    }
}
