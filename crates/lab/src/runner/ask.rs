//! Trials that are one question to a device, whose answer is one sample.

use niclab_result::{Outcome, ResultError};

use super::record::failed;
use super::{Bed, MeasuredPoint, Runner};
use crate::run::Trial;

impl Runner<'_> {
    /// Has the device of a place asked, and stores what it answered. What was measured until a
    /// trial ended before its time is kept, and speaks for nothing.
    pub(super) fn ask(
        &mut self,
        beds: &mut [Bed<'_>],
        trial: &Trial,
        place: &MeasuredPoint<'_>,
    ) -> Result<(), ResultError> {
        let Some(Ok(bed)) = beds.get_mut(place.device) else {
            return Ok(());
        };
        let mut sample = self.sample(place, Outcome::Measured);
        match self.experiment.kind.of().ask(&mut **bed, self.experiment, trial) {
            Err(error) => self.record_error(place, error),
            Ok(answer) => {
                sample.load = answer.question;
                sample.metrics = answer.metrics;
                sample.marks = answer.marks;
                sample.counters = answer.counters;
                sample.outcome = answer.ended.map_or(Outcome::Measured, failed);
                let latency = answer.latency.filter(|latency| !latency.0.is_empty());
                sample.latency_tag = latency.as_ref().map(|_| format!("s{}", sample.order));
                self.keep(place.device, sample, latency.as_ref())
            }
        }
    }
}
