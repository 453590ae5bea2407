//! Trials in memory: packets that go through a program, requests that a store serves.

use niclab_device::{Processing, Serving, Testbed};
use niclab_result::ResultError;

use super::ask::ended;
use super::record::json;
use super::{Bed, Place, Runner};
use crate::kvs::{self, put_answered};
use crate::program::{self, put_processed};

impl Runner<'_> {
    /// Lets packets through a program and stores what they took.
    pub(super) fn process(
        &mut self,
        beds: &mut [Bed<'_>],
        processing: &Processing,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let ask = |bed: &mut dyn Testbed| bed.process(processing);
        self.ask(beds, place, processing, ask, |sample, seen| {
            put_processed(&mut sample.metrics, &seen);
            sample.counters = json(&seen);
            sample.outcome = ended(program::failure(&seen));
            None
        })
    }

    /// Lets a store serve requests and stores what they took.
    pub(super) fn serve(
        &mut self,
        beds: &mut [Bed<'_>],
        serving: &Serving,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let ask = |bed: &mut dyn Testbed| bed.serve(serving);
        self.ask(beds, place, serving, ask, |sample, seen| {
            put_answered(&mut sample.metrics, &seen);
            kvs::mark(sample, &seen);
            sample.counters = json(&seen);
            sample.outcome = ended(kvs::failure(&seen));
            None
        })
    }
}
