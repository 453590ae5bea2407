//! Measurements for tests: a task of each kind, and its observation.

use niclab_load::{Load, LoadObservation};

use super::{
    Application, BreakdownObservation, DeviceError, Observation, Processing, ProgramObservation,
    RequestsObservation, RoundTrips, RoundTripsObservation, StreamObservation, Streaming, Task,
    Testbed,
};
use crate::plan::Plan;

/// A load without a plan.
pub fn load(bed: &mut dyn Testbed, load: &Load) -> Result<LoadObservation, DeviceError> {
    bed.measure(&Task::Load { load: load.clone(), plan: Plan::Rest })?.into_load()
}

pub fn round_trips(
    bed: &mut dyn Testbed,
    of: &RoundTrips,
) -> Result<RoundTripsObservation, DeviceError> {
    bed.measure(&Task::RoundTrips(of.clone()))?.into_round_trips()
}

pub fn breakdown(
    bed: &mut dyn Testbed,
    of: &RoundTrips,
    pairs: u32,
) -> Result<BreakdownObservation, DeviceError> {
    bed.measure(&Task::Breakdown { trips: of.clone(), pairs })?.into_breakdown()
}

pub fn requests(
    bed: &mut dyn Testbed,
    of: &Application,
) -> Result<RequestsObservation, DeviceError> {
    bed.measure(&Task::Requests(of.clone()))?.into_requests()
}

pub fn stream(bed: &mut dyn Testbed, of: &Streaming) -> Result<StreamObservation, DeviceError> {
    bed.measure(&Task::Stream(of.clone()))?.into_stream()
}

pub fn program(bed: &mut dyn Testbed, of: &Processing) -> Result<ProgramObservation, DeviceError> {
    bed.measure(&Task::Program(of.clone()))?.into_program()
}

#[test]
fn an_observation_of_another_task_is_an_error_and_no_panic() {
    let observed = Observation::Load(LoadObservation::default());
    let error = observed.clone().into_store().unwrap_err().to_string();
    assert_eq!(error, "testbed failed: it did not carry out Task::Store");
    assert_eq!(observed.into_load(), Ok(LoadObservation::default()));
}
