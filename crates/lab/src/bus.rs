//! Bus cost of requests between card and host, and the point at which the bus is the limit. It is
//! computed from frames, descriptors, and the bytes that a program writes into an application's
//! memory.
//!
//! A frame to the host is a write, cut where it is longer than a transaction may be; one from the
//! host is a read, which is asked for and answered. Descriptors are read and written back by cache
//! lines, several frames each. Doorbells, interrupts and flow control are left out: one of many for
//! a burst, or none.

use std::sync::LazyLock;

use niclab_device::{BusTraffic, model};

/// Header, sequence number, check and framing of a transaction, bytes (PCI Express Base
/// Specification, 64-bit addresses).
const HEADER_BYTES: f64 = 24.0;

/// Data of a transaction at most, bytes: what root ports usually allow.
const DATA_MAX: f64 = 256.0;

/// A descriptor of a frame, bytes (82599).
const DESCRIPTOR_BYTES: f64 = 16.0;

/// Descriptors that are read or written back together: a cache line.
const DESCRIPTORS: f64 = 4.0;

/// A bus that cards sit on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bus {
    /// Generation and lanes: `PCIe 2.0 x8`.
    pub name: String,
    /// The first profile that names it.
    pub card: &'static str,
    /// What it carries each way, Gbps.
    pub gbps: f64,
}

/// The buses of all profiles that say theirs, each once, the slowest first.
pub(crate) fn buses() -> &'static [Bus] {
    static BUSES: LazyLock<Vec<Bus>> = LazyLock::new(|| {
        let of = |card: &'static str| {
            let bus = model::read(card).ok()?.bus()?;
            Some(Bus { name: bus.to_string(), card, gbps: bus.gbps() })
        };
        each_once(model::names().filter_map(of).collect())
    });
    &BUSES
}

/// Each bus once, by its first card, the slowest first and those of one rate by their names.
fn each_once(mut buses: Vec<Bus>) -> Vec<Bus> {
    buses.sort_by(|a, b| a.gbps.total_cmp(&b.gbps).then_with(|| a.name.cmp(&b.name)));
    buses.dedup_by(|later, first| later.name == first.name);
    buses
}

/// What goes one way for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct BusTransfer {
    /// Transactions.
    pub transactions: f64,
    /// Bytes with their headers.
    pub bytes: f64,
}

impl BusTransfer {
    /// So many transactions with these bytes of data together.
    fn of(transactions: f64, data_bytes: f64) -> BusTransfer {
        BusTransfer { transactions, bytes: data_bytes + HEADER_BYTES * transactions }
    }

    fn and(self, other: BusTransfer) -> BusTransfer {
        BusTransfer {
            transactions: self.transactions + other.transactions,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// Transactions of frames with these bytes together.
fn cut(frames: f64, bytes: f64) -> f64 {
    match frames > 0.0 {
        true => frames * (bytes / frames / DATA_MAX).ceil(),
        false => 0.0,
    }
}

/// What a request takes of the bus: to the host, and from it.
pub(crate) fn ways(of: &BusTraffic) -> [BusTransfer; 2] {
    let lines = |frames: f64| BusTransfer::of(frames / DESCRIPTORS, frames * DESCRIPTOR_BYTES);
    let asked = |frames: f64| BusTransfer::of(frames / DESCRIPTORS, 0.0);
    let frames = BusTransfer::of(cut(of.frames, of.frame_bytes), of.frame_bytes);
    let answers = BusTransfer::of(cut(of.answers, of.answer_bytes), of.answer_bytes);
    let dma = BusTransfer::of(cut(of.dma_writes, of.dma_bytes), of.dma_bytes);
    // Descriptors of both are asked for by the card; those of received frames are written back.
    let to = frames.and(lines(of.frames)).and(asked(of.frames)).and(asked(of.answers)).and(dma);
    let to = to.and(BusTransfer::of(of.answers, 0.0));
    [to, answers.and(lines(of.frames)).and(lines(of.answers))]
}

impl Bus {
    /// Requests a second that it carries.
    pub fn requests_per_s(&self, ways: [BusTransfer; 2]) -> f64 {
        self.gbps * 1e9 / 8.0 / ways[0].bytes.max(ways[1].bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: BusTraffic = BusTraffic {
        frames: 1.0,
        frame_bytes: 100.0,
        answers: 1.0,
        answer_bytes: 300.0,
        dma_writes: 0.0,
        dma_bytes: 0.0,
    };

    #[test]
    fn frames_and_descriptors_are_counted_by_hand() {
        let [to, from] = ways(&FRAMES);
        // A frame, a quarter of a line back, two quarters of questions, the question for an answer.
        assert_eq!(to, BusTransfer { transactions: 2.75, bytes: 100.0 + 16.0 + 2.75 * 24.0 });
        // An answer in two, and a quarter of a line of each kind.
        assert_eq!(from, BusTransfer { transactions: 2.5, bytes: 300.0 + 32.0 + 2.5 * 24.0 });
        let bus = Bus { name: "a bus".into(), card: "a card", gbps: 8.0 };
        assert!((bus.requests_per_s([to, from]) - 1e9 / 392.0).abs() < 1.0);
    }

    #[test]
    fn requests_answered_by_the_card_do_not_cross_the_bus_and_its_writes_do() {
        let kept = BusTraffic { frames: 0.0, frame_bytes: 0.0, ..FRAMES };
        let [before, after] = [FRAMES, kept].map(|of| ways(&of)[0]);
        assert!((before.bytes - after.bytes - (100.0 + 16.0 + 1.5 * 24.0)).abs() < 1e-9);
        let written = BusTraffic { dma_writes: 2.0, dma_bytes: 96.0, ..kept };
        let more = ways(&written)[0];
        assert_eq!(more.transactions, after.transactions + 2.0);
        assert!((more.bytes - after.bytes - (96.0 + 48.0)).abs() < 1e-9);
        let long = ways(&BusTraffic { dma_bytes: 600.0, ..written })[0];
        assert_eq!(long.transactions, after.transactions + 4.0, "each in two");
        assert_eq!(ways(&BusTraffic::default()), [BusTransfer::default(); 2]);
    }

    #[test]
    fn buses_of_one_rate_stand_each_once_whatever_the_order_of_cards() {
        let bus = |(name, card, gbps): (&str, _, _)| Bus { name: name.to_owned(), card, gbps };
        let all = [("b", "1st", 32.0), ("a", "2nd", 32.0), ("b", "3rd", 32.0), ("c", "4th", 8.0)];
        let once = each_once(all.map(bus).to_vec());
        let once: Vec<_> = once.iter().map(|bus| (bus.name.as_str(), bus.card)).collect();
        assert_eq!(once, [("c", "4th"), ("a", "2nd"), ("b", "1st")]);
    }

    #[test]
    fn buses_are_those_of_the_profiles_each_once() {
        let buses = buses();
        let all: Vec<_> = buses.iter().map(|bus| (bus.name.as_str(), bus.card)).collect();
        let wanted =
            [("PCIe 2.0 x8", "82599"), ("PCIe 3.0 x8", "stingray"), ("PCIe 4.0 x16", "bluefield2")];
        assert_eq!(all, wanted);
    }
}
