//! Trials with neither a load nor a plan: one task, and one sample.

use niclab_device::Task;
use niclab_result::{Outcome, ResultError};

use super::record::failed;
use super::{MeasuredPoint, OpenedDevice, Runner, strange};

impl Runner<'_> {
    /// Has a device carry out a task, and stores its answer. A measurement that ended before its
    /// time is kept, and speaks for nothing.
    pub(super) fn ask(
        &mut self,
        beds: &mut [OpenedDevice<'_>],
        task: &Task,
        place: &MeasuredPoint<'_>,
    ) -> Result<(), ResultError> {
        let Some(Ok(bed)) = beds.get_mut(self.beds[place.device]) else {
            return Ok(());
        };
        let mut sample = self.sample(place, Outcome::Measured);
        let of = self.experiment.kind.of();
        let observed = bed.measure(task);
        match observed
            .and_then(|observed| of.task_result(task, observed).ok_or_else(|| strange(task)))
        {
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
