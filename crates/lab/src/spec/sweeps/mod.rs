//! Sweeps: products of axes, one type for each part that a grid may have.
//!
//! Each stands with the names that `--set` knows of it and what they mean. This file has what an
//! axis is where the file says nothing.

mod hosts;
mod memory;
mod queues;
mod rules;

use crate::values::Values;

pub(crate) use hosts::{APPLICATION_AXES, ECHO_AXES, STREAM_AXES};
pub use hosts::{ApplicationSweep, EchoSweep, StreamSweep};
pub(crate) use memory::{PROGRAM_AXES, SERVING_AXES};
pub use memory::{ProgramSweep, ServingSweep};
pub(crate) use queues::{RESPREAD_AXES, SCALING_AXES, SIZE_AXES, SPREAD_AXES};
pub use queues::{RespreadSweep, ScalingSweep, SizeSweep, SpreadSweep};
pub(crate) use rules::{BATCH_AXES, CHANGE_AXES, OCCUPANCY_AXES, RENEWAL_AXES, RULE_AXES};
pub use rules::{BatchSweep, ChangeSweep, EffectSweep, InsertionSweep, RenewalSweep, Sweep};

fn word(word: &str) -> Values {
    Values(vec![niclab_result::Coordinate::Word(word.into())])
}

fn none() -> Values {
    word("none")
}

fn one() -> Values {
    Values::number(1)
}

fn no_values() -> Values {
    Values(Vec::new())
}

pub(crate) fn zero() -> Values {
    Values::number(0)
}

pub(crate) fn flows_default() -> Values {
    Values::number(10_000)
}

pub(crate) fn frame_default() -> Values {
    Values::number(64)
}

#[cfg(test)]
mod tests;
