//! Workers behind a card: their windows are those of a plain count, in each mode.

use super::*;
use crate::counting::{Counting, TupleMode, TupleWorkload};
use crate::face::DeviceError;

const WORKLOAD: TupleWorkload =
    TupleWorkload { keys: 1_000, zipf: 1.0, payload_len: 0, batch: 45, seed: 1 };

fn counting(mode: TupleMode) -> Counting {
    Counting { mode, workload: WORKLOAD, workers: 2, duration_ns: 1, warmup_ns: 0 }
}

#[test]
fn every_mode_gives_the_windows_of_a_plain_count() {
    if crate::cores::allowed().len() < 2 {
        return eprintln!("SKIP every_mode_gives_the_windows_of_a_plain_count: 2 cores are needed");
    }
    for mode in [TupleMode::Rss, TupleMode::Steer, TupleMode::Dma] {
        let (observed, frames) = count(&counting(mode), false).unwrap();
        assert!(observed.windows >= 12 && observed.wrong == 0, "{mode:?}: {observed:?}");
        // Batches of 45, and the ends of all sources.
        assert!((1_500..1_700).contains(&observed.frames), "{mode:?}: {}", observed.frames);
        assert!(frames > 12 * observed.frames, "{mode:?}: {frames}");
        assert!(observed.card_ns > 0.0 && observed.results_ns.len() == 5);
        let is_timed = |name: &str| {
            let step = observed.steps.iter().find(|step| step.name == name).unwrap();
            step.tuple_ns > 0.0
        };
        for name in ["receive", "demultiplex", "acknowledge"] {
            assert_eq!(is_timed(name), mode != TupleMode::Dma, "{mode:?}: {name}");
        }
        assert!(is_timed("hand_over") && is_timed("operator"), "{mode:?}");
    }
}

#[test]
fn tuples_with_a_payload_go_in_frames_that_have_room() {
    for (batch, payload_len) in [(1, 0), (45, 1_024)] {
        let workload = TupleWorkload { batch, payload_len, keys: 7, zipf: 0.0, ..WORKLOAD };
        let of = Counting { workload, workers: 1, ..counting(TupleMode::Rss) };
        let (observed, _) = count(&of, false).unwrap();
        assert_eq!((observed.frames, observed.wrong), (observed.tuples + 64, 0));
    }
}

#[test]
fn numbers_out_of_range_are_bad_loads_and_cores_that_are_not_there_not_supported() {
    let refused = |change: fn(&mut Counting)| {
        let mut of = counting(TupleMode::Rss);
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
