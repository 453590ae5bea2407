//! The axes of `echo-ledger`, which are those of the echo.

pub(crate) use crate::round_trips::AXES;
use crate::round_trips::{EchoSweep, LEDGER};
use crate::run::Resolver;
use crate::spec::{SpecError, parts, set_all};
use crate::values::Values;

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// Of which messages the time is broken down.
        ledger: EchoSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(self.ledger.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_round_trips(&self.ledger, LEDGER)
    }
}
