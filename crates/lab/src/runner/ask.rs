//! Trials that are one question to a device, whose answer is one sample.

use niclab_device::{DeviceError, Latency, Testbed};
use niclab_result::{Outcome, ResultError, Sample};
use serde::Serialize;

use super::record::{failed, json};
use super::{Bed, Place, Runner};

impl Runner<'_> {
    /// Has the device of a place asked, and stores its answer, which `tell` writes into the sample:
    /// it gives back the latencies that are to be kept beside it, if there are any.
    pub(super) fn ask<T>(
        &mut self,
        beds: &mut [Bed<'_>],
        place: &Place<'_>,
        question: &impl Serialize,
        ask: impl FnOnce(&mut dyn Testbed) -> Result<T, DeviceError>,
        tell: impl FnOnce(&mut Sample, T) -> Option<Latency>,
    ) -> Result<(), ResultError> {
        let Some(Ok(bed)) = beds.get_mut(place.device) else {
            return Ok(());
        };
        let mut sample = self.sample(place, Outcome::Measured);
        match ask(&mut **bed) {
            Err(error) => self.record_error(place, error),
            Ok(seen) => {
                sample.load = json(question);
                let latency = tell(&mut sample, seen).filter(|latency| !latency.0.is_empty());
                sample.latency_tag = latency.as_ref().map(|_| format!("s{}", sample.order));
                self.keep(place.device, sample, latency.as_ref())
            }
        }
    }
}

/// What became of a trial that ended for this reason: what was measured until then is kept, and
/// speaks for nothing. `None`: it went to its end.
pub(super) fn ended(reason: Option<String>) -> Outcome {
    reason.map_or(Outcome::Measured, failed)
}
