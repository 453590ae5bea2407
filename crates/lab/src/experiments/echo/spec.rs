//! The axes of the echo experiments.

use super::metrics::ECHO;
pub(crate) use crate::round_trips::AXES;
use crate::round_trips::EchoSweep;
use crate::run::Resolver;
use crate::spec::{SpecError, parts, set_all};
use crate::values::Values;

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// Which messages go there and back.
        echo: EchoSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(self.echo.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_round_trips(&self.echo, ECHO)
    }
}
