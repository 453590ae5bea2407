//! Workers behind a card: their windows are those of a plain count, with each help.

use super::*;
use crate::counting::{CardHelp, Counting, TupleWorkload};
use crate::face::DeviceError;

const WORKLOAD: TupleWorkload =
    TupleWorkload { keys: 1_000, zipf: 1.0, payload_len: 0, batch: 45, seed: 1 };

fn counting(help: CardHelp) -> Counting {
    Counting { help, workload: WORKLOAD, workers: 2, duration_ns: 1, warmup_ns: 0 }
}

#[test]
fn every_help_gives_the_windows_of_a_plain_count() {
    if crate::cores::allowed().len() < 2 {
        return eprintln!("SKIP every_help_gives_the_windows_of_a_plain_count: 2 cores are needed");
    }
    for help in [CardHelp::Rss, CardHelp::Steer, CardHelp::Dma] {
        let (observed, frames) = count(&counting(help), false).unwrap();
        assert!(observed.windows >= 12 && observed.wrong == 0, "{help:?}: {observed:?}");
        // Batches of 45, and the ends of all sources.
        assert!((1_500..1_700).contains(&observed.frames), "{help:?}: {}", observed.frames);
        assert!(frames > 12 * observed.frames, "{help:?}: {frames}");
        let steps_ns: f64 = observed.steps.iter().map(|step| step.tuple_ns).sum();
        let worked_ns: u64 = observed.worked_ns.iter().sum();
        let all_ns = worked_ns as f64 / (observed.worked_ns.len() as u64 * observed.tuples) as f64;
        // Steps are timed by the clock, all of it by the CPU.
        assert!(steps_ns > 0.9 * all_ns, "{help:?}: {steps_ns} of {all_ns} ns");
        assert!(observed.card_ns > 0.0 && observed.results_ns.len() == 5);
        let is_timed = |name: &str| {
            let step = observed.steps.iter().find(|step| step.name == name).unwrap();
            step.tuple_ns > 0.0
        };
        for name in ["receive", "demultiplex", "acknowledge"] {
            assert_eq!(is_timed(name), help != CardHelp::Dma, "{help:?}: {name}");
        }
        assert!(is_timed("hand_over") && is_timed("operator"), "{help:?}");
    }
}

#[test]
fn tuples_with_a_payload_go_in_frames_that_have_room() {
    for (batch, payload_len) in [(1, 0), (45, 1_024)] {
        let workload = TupleWorkload { batch, payload_len, keys: 7, zipf: 0.0, ..WORKLOAD };
        let of = Counting { workload, workers: 1, ..counting(CardHelp::Rss) };
        let (observed, _) = count(&of, false).unwrap();
        assert_eq!((observed.frames, observed.wrong), (observed.tuples + 64, 0));
    }
}

#[test]
fn numbers_out_of_range_are_bad_loads_and_cores_that_are_not_there_not_supported() {
    let refused = |change: fn(&mut Counting)| {
        let mut of = counting(CardHelp::Rss);
        change(&mut of);
        count(&of, false).unwrap_err()
    };
    assert!(refused(|of| of.workload.keys = 0).to_string().contains("keys = 0: use 1 to 1000000"));
    assert!(refused(|of| of.workload.batch = 46).to_string().contains("batch = 46: use 1 to 45"));
    assert!(refused(|of| of.workload.payload_len = 1_025).to_string().contains("payload = 1025"));
    assert!(refused(|of| of.workload.zipf = f64::NAN).to_string().contains("zipf = NaN"));
    assert!(refused(|of| of.workers = 17).to_string().contains("workers = 17: use 1 to 16"));
    let cores = crate::cores::allowed().len();
    if cores < WORKERS_MAX {
        let lacking = refused(|of| of.workers = WORKERS_MAX as u16);
        assert!(matches!(lacking, DeviceError::NotSupported { .. }), "{lacking}");
    }
}
