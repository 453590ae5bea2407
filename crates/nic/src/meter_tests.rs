//! Meters against answers worked out by hand from the RFCs, against the definition, and among
//! workers.

use std::sync::atomic::AtomicUsize;

use proptest::prelude::*;

use super::*;
use crate::definition::DefinedMeter;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

const SINGLE_RATE: Meter =
    Meter::SingleRate { cir_bytes_per_s: 1_000, cbs_bytes: 1_500, ebs_bytes: 1_000 };
const TWO_RATE: Meter = Meter::TwoRate {
    cir_bytes_per_s: 1_000,
    pir_bytes_per_s: 2_000,
    cbs_bytes: 1_500,
    pbs_bytes: 2_000,
};

/// A single meter, of number 0.
fn of(meter: &Meter) -> Meters {
    let meters = Meters::new(1);
    meters.set(0, meter, 0);
    meters
}

fn colours(meter: &Meter, packets: &[(u64, u64)]) -> Vec<Colour> {
    let meters = of(meter);
    let colour = |at_ns, bytes| meters.colour(0, bytes, Colour::Green, at_ns).unwrap();
    packets.iter().map(|&(at_ns, bytes)| colour(at_ns, bytes)).collect()
}

#[test]
fn one_rate_colours_as_rfc_2697_says() {
    use Colour::{Green, Red, Yellow};
    // Buckets at first: 1500 and 1000. Behind each packet: what is left of them.
    let packets = [
        (0, 1_000, Green),           // 500, 1000
        (0, 600, Yellow),            // 500, 400
        (0, 501, Red),               // 500, 400
        (0, 500, Green),             // 0, 400
        (0, 400, Yellow),            // 0, 0
        (0, 1, Red),                 // 0, 0
        (S, 1_001, Red),             // 1000, 0: a second brings 1000
        (S, 1_000, Green),           // 0, 0
        (S + MS / 2, 1, Red),        // half a byte
        (S + MS, 1, Green),          // 0, 0
        (4 * S + MS, 1_500, Green),  // 3000 came: 1500, 1000, and 500 are lost
        (4 * S + MS, 1_000, Yellow), // 0, 0
        (3 * S, 1, Red),             // time does not go back
        (4 * S + 2 * MS, 1, Green),  // 0, 0
    ];
    let sent = packets.map(|(at_ns, bytes, _)| (at_ns, bytes));
    assert_eq!(colours(&SINGLE_RATE, &sent), packets.map(|(.., colour)| colour));
}

#[test]
fn two_rates_colour_as_rfc_2698_says() {
    use Colour::{Green, Red, Yellow};
    // Committed and peak bucket at first: 1500 and 2000.
    let packets = [
        (0, 1_000, Green),       // 500, 1000
        (0, 600, Yellow),        // 500, 400
        (0, 401, Red),           // 500, 400
        (0, 400, Green),         // 100, 0
        (0, 1, Red),             // 100, 0
        (100 * MS, 201, Red),    // 200, 200
        (100 * MS, 200, Green),  // 0, 0
        (200 * MS, 150, Yellow), // 100, 50
        (200 * MS, 50, Green),   // 50, 0
        (10 * S, 2_001, Red),    // 1500, 2000: full
        (10 * S, 2_000, Yellow), // 1500, 0
        (10 * S + MS, 2, Green), // 1499, 0
    ];
    let sent = packets.map(|(at_ns, bytes, _)| (at_ns, bytes));
    assert_eq!(colours(&TWO_RATE, &sent), packets.map(|(.., colour)| colour));
}

#[test]
fn a_colour_gets_no_better_and_asks_only_the_buckets_that_are_left() {
    use Colour::{Green, Red, Yellow};
    // Bytes, the colour before, and behind it: both buckets, 1500 and 2000 or 1000 at first.
    let two = [(500, Yellow, Yellow), (1_500, Green, Green), (1, Green, Red), (0, Red, Red)];
    let one = [(600, Yellow, Yellow), (600, Yellow, Red), (1_500, Green, Green), (0, Red, Red)];
    for (meter, packets) in [(TWO_RATE, two), (SINGLE_RATE, one)] {
        let meters = of(&meter);
        for (bytes, before, after) in packets {
            assert_eq!(meters.colour(0, bytes, before, 0), Some(after), "{meter:?}, {bytes} B");
        }
    }
    assert_eq!(Meters::new(1).colour(0, 1, Green, 0), None, "no meter");
    assert_eq!(of(&TWO_RATE).colour(0, u64::MAX, Green, u64::MAX), Some(Red));
}

#[test]
fn the_time_begins_when_a_meter_is_set() {
    let meters = Meters::new(1);
    meters.set(0, &TWO_RATE, S);
    assert_eq!(meters.colour(0, 1_500, Colour::Green, 0), Some(Colour::Green));
    assert_eq!(meters.colour(0, 1, Colour::Green, S), Some(Colour::Yellow), "no second has passed");
    meters.set(0, &TWO_RATE, S);
    assert_eq!(meters.colour(0, 1_500, Colour::Green, S), Some(Colour::Green), "full again");
}

fn any_meter() -> impl Strategy<Value = Meter> {
    let rate = || prop_oneof![0..2_000u64, 0..METER_SIZE_MAX];
    let size = || prop_oneof![0..3_000u64, 0..100_000u64];
    (rate(), rate(), size(), size(), any::<bool>()).prop_map(|(cir, more, cbs, other, single)| {
        match single {
            true => Meter::SingleRate { cir_bytes_per_s: cir, cbs_bytes: cbs, ebs_bytes: other },
            false => Meter::TwoRate {
                cir_bytes_per_s: cir,
                pir_bytes_per_s: cir.saturating_add(more),
                cbs_bytes: cbs,
                pbs_bytes: other,
            },
        }
    })
}

proptest! {
    #[test]
    fn one_worker_colours_as_the_definition_does(
        meter in any_meter(),
        packets in prop::collection::vec(
            (0..3 * S, prop_oneof![0..100u64, 0..2_000u64], 0..6),
            1..200,
        ),
    ) {
        let (meters, mut defined) = (of(&meter), DefinedMeter::new(meter, 0));
        let mut now_ns = 0;
        for (pause_ns, bytes, before) in packets {
            // Most come at once, and some time goes back.
            now_ns = match pause_ns % 8 {
                0 => now_ns + pause_ns,
                1 => now_ns.saturating_sub(pause_ns),
                _ => now_ns + pause_ns % 100_000,
            };
            let before = match before {
                0 => Colour::Red,
                1 => Colour::Yellow,
                _ => Colour::Green,
            };
            let expected = defined.colour(bytes, before, now_ns);
            prop_assert_eq!(meters.colour(0, bytes, before, now_ns), Some(expected));
        }
    }
}

/// Two workers offer several times what a meter lets through, at times that one clock gives them.
#[test]
fn workers_together_get_what_the_meter_has_and_not_more() {
    let (cir_bytes_per_s, sizes) = (1_000_000_000, 20_000 + 10_000);
    let meter = Meter::SingleRate { cir_bytes_per_s, cbs_bytes: 20_000, ebs_bytes: 10_000 };
    let meters = of(&meter);
    let (clock, ready) = (AtomicU64::new(0), AtomicUsize::new(0));
    let bursts = 20_000;
    let work = || {
        ready.fetch_add(1, Ordering::SeqCst);
        while ready.load(Ordering::SeqCst) < 2 {
            std::hint::spin_loop();
        }
        let mut passed = 0;
        for _ in 0..bursts {
            // A burst of 64 packets of 500 bytes in 8 us: 4 GB a second.
            let now_ns = clock.fetch_add(8_000, Ordering::SeqCst) + 8_000;
            for _ in 0..64 {
                let colour = meters.colour(0, 500, Colour::Green, now_ns);
                passed += if colour == Some(Colour::Red) { 0 } else { 500 };
            }
        }
        passed
    };
    let passed: u64 = std::thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    let came = sizes + 8_000 * 2 * bursts;
    assert!(passed <= came, "{passed} bytes of {came}");
    assert!(passed >= came - came / 20, "{passed} bytes of {came}");
}

/// A burst on its way may have the word of a rule that named the meter that was there before.
#[test]
fn a_number_is_used_again_when_every_worker_has_passed() {
    let mut nic = Nic::new(&crate::NicConfig::default()).unwrap();
    let mut worker = nic.worker();
    nic.create_meter(5, &SINGLE_RATE).unwrap();
    nic.destroy_meter(5).unwrap();
    assert!(matches!(nic.create_meter(5, &TWO_RATE), Err(RuleError::MeterUnfit { .. })));
    assert_eq!(nic.destroy_meter(5), Err(RuleError::MeterUnknown { number: 5 }));
    nic.create_meter(6, &TWO_RATE).unwrap();
    worker.offline();
    nic.create_meter(5, &TWO_RATE).unwrap();
    assert_eq!(nic.create_meter(5, &TWO_RATE), Err(RuleError::MeterKnown { number: 5 }));
}
