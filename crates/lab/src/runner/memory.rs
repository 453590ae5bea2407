//! Trials in memory: packets that go through a program, requests that a store serves.

use niclab_device::{Processing, Serving};
use niclab_result::{Outcome, ResultError};

use super::record::{failed, json};
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
        let Some(Ok(bed)) = beds.get_mut(place.device) else {
            return Ok(());
        };
        let mut sample = self.sample(place, Outcome::Measured);
        match bed.process(processing) {
            Err(error) => self.record_error(place, error),
            Ok(seen) => {
                put_processed(&mut sample.metrics, &seen);
                sample.load = json(processing);
                sample.counters = json(&seen);
                if let Some(reason) = program::failure(&seen) {
                    sample.outcome = failed(reason);
                }
                self.keep(place.device, sample, None)
            }
        }
    }

    /// Lets a store serve requests and stores what they took.
    pub(super) fn serve(
        &mut self,
        beds: &mut [Bed<'_>],
        serving: &Serving,
        place: &Place<'_>,
    ) -> Result<(), ResultError> {
        let Some(Ok(bed)) = beds.get_mut(place.device) else {
            return Ok(());
        };
        let mut sample = self.sample(place, Outcome::Measured);
        match bed.serve(serving) {
            Err(error) => self.record_error(place, error),
            Ok(seen) => {
                put_answered(&mut sample.metrics, &seen);
                kvs::mark(&mut sample, &seen);
                sample.load = json(serving);
                sample.counters = json(&seen);
                if let Some(reason) = kvs::failure(&seen) {
                    sample.outcome = failed(reason);
                }
                self.keep(place.device, sample, None)
            }
        }
    }
}
