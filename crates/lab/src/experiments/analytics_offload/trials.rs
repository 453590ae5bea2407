//! The trials of `analytics-offload`: workers in each mode of the card.
//!
//! All modes of a place are measured one after the other.

use niclab_device::soft::analytics::{BATCH_MAX, KEYS_MAX, PAYLOAD_LEN_MAX, WORKERS_MAX};
use niclab_device::{Counting, Task, TupleMode, TupleWorkload};
use niclab_result::{Coordinate, Point};

use super::metrics::COUNT;
use super::spec::CountingSweep;
use crate::axes::{at_axes, exponents, name_of, numbers, words};
use crate::run::Resolver;
use crate::spec::SpecError;

/// The mode that others are compared with.
pub(crate) const PLAIN: &str = "rss";

/// The modes by name.
pub(crate) const MODES: [(&str, TupleMode); 3] =
    [(PLAIN, TupleMode::Rss), ("steer", TupleMode::Steer), ("dma", TupleMode::Dma)];

/// A place of a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountingPoint {
    /// What the card does for the workers.
    pub mode: TupleMode,
    /// Workers.
    pub workers: u32,
    /// Keys.
    pub keys: u32,
    /// Exponent of their popularity.
    pub zipf: f64,
    /// Bytes of a payload.
    pub payload: u32,
    /// Tuples of a frame at most.
    pub batch: u32,
}

/// All places of a sweep: the product of its axes, all modes at each.
pub fn places(sweep: &CountingSweep) -> Result<Vec<CountingPoint>, SpecError> {
    let modes = words("mode", &sweep.mode, &MODES)?;
    let all_keys = numbers("keys", &sweep.keys, 1, KEYS_MAX)?;
    let exponents = exponents(&sweep.zipf)?;
    let payloads = numbers("payload", &sweep.payload, 0, PAYLOAD_LEN_MAX as u32)?;
    let batches = numbers("batch", &sweep.batch, 1, BATCH_MAX as u32)?;
    let mut all = Vec::new();
    for workers in numbers("workers", &sweep.workers, 1, WORKERS_MAX as u32)? {
        for &keys in &all_keys {
            for &zipf in &exponents {
                for &payload in &payloads {
                    for &batch in &batches {
                        let of = |mode: &TupleMode| CountingPoint {
                            mode: *mode,
                            workers,
                            keys,
                            zipf,
                            payload,
                            batch,
                        };
                        all.extend(modes.iter().map(of));
                    }
                }
            }
        }
    }
    Ok(all)
}

impl CountingPoint {
    fn point(&self) -> Point {
        let number = |number: u32| Coordinate::Number(number.into());
        at_axes([
            ("mode", Coordinate::Word(name_of(&MODES, self.mode).to_owned())),
            ("workers", number(self.workers)),
            ("keys", number(self.keys)),
            ("zipf", Coordinate::Number(self.zipf)),
            ("payload", number(self.payload)),
            ("batch", number(self.batch)),
        ])
    }
}

impl Resolver<'_> {
    /// A trial at each point. It needs no set-up.
    pub fn add_countings(&mut self, sweeps: &[CountingSweep]) -> Result<(), SpecError> {
        let ns = |ms: u64| ms * 1_000_000;
        let (duration_ns, warmup_ns) = (ns(self.grid.duration_ms), ns(self.grid.warmup_ms));
        for sweep in sweeps {
            for of in places(sweep)? {
                let CountingPoint { mode, workers, keys, zipf, payload, batch } = of;
                let workload = TupleWorkload {
                    keys,
                    zipf,
                    payload_len: payload as u16,
                    batch: batch as u16,
                    seed: self.seed,
                };
                let workers = workers as u16;
                let asked = Counting { mode, workload, workers, duration_ns, warmup_ns };
                self.task(COUNT, of.point(), Task::Analytics(asked));
            }
        }
        Ok(())
    }
}
