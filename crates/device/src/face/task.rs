//! Tasks of a device, and their observations.

use niclab_load::{Control, Load, LoadObservation};
use serde::{Deserialize, Serialize};

use super::{
    Application, BreakdownObservation, DeviceError, Processing, ProgramObservation,
    RequestsObservation, RoundTrips, RoundTripsObservation, StreamObservation, Streaming,
};
use crate::capability;
use crate::counting::{AnalyticsObservation, Counting};
use crate::detecting::{Detecting, DetectionObservation};
use crate::plan::{Plan, RulesPlan};
use crate::serving::{Serving, StoreObservation};

/// A measurement that a device can carry out.
///
/// [`Task::Load`] and [`Task::Plan`] need a set-up; the others need none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Frames of a load, while the control plane carries out a plan.
    Load {
        /// The frames.
        load: Load,
        /// The operations meanwhile.
        plan: Plan,
    },
    /// A plan without a load, from now on to its end. Afterwards the device destroys the rules that
    /// the plan created, in the same way ([`Control::destroyed`]), and undoes its changes. Times
    /// are those of the calls, without the time to prepare their arguments.
    Plan(RulesPlan),
    /// Messages between a client and a server over the kernel's stack.
    RoundTrips(RoundTrips),
    /// The parts of a round trip's latency. Each pair has one slice with probes that stamp the
    /// messages in the kernel, and one without; each slice is as long as the round trips without
    /// stamps.
    Breakdown {
        /// The messages.
        trips: RoundTrips,
        /// Pairs of slices.
        pairs: u32,
    },
    /// Requests of clients to a server's program.
    Requests(Application),
    /// Bulk data from one host to the other over the kernel's stack.
    Stream(Streaming),
    /// Packets in memory that pass a program on one core, again and again. It shows neither latency
    /// nor loss.
    Program(Processing),
    /// Requests in memory that a key-value store serves behind a card's queues, on several cores at
    /// once, again and again. It shows neither latency nor loss.
    Store(Serving),
    /// Packets in memory that engines of an intrusion detection inspect behind a card, on several
    /// cores at once, again and again. It shows neither latency nor loss.
    Detection(Detecting),
    /// Tuples in memory that workers count behind a card's queues, on several cores at once, pane
    /// by pane. It shows no loss.
    Analytics(Counting),
}

impl Task {
    /// The error of a device that has no task of this kind.
    pub fn not_supported(&self) -> DeviceError {
        let capability = match self {
            Task::Load { .. } => capability::FRAMES,
            Task::Plan(_) => capability::RULES,
            Task::RoundTrips(_) => capability::ECHO,
            Task::Breakdown { .. } => capability::STAMPS,
            Task::Requests(_) => capability::APPLICATIONS,
            Task::Stream(_) => capability::STREAM,
            Task::Program(_) => capability::PROGRAMS,
            Task::Store(_) => capability::STORE,
            Task::Detection(_) => capability::DETECTION,
            Task::Analytics(_) => capability::ANALYTICS,
        };
        DeviceError::lacks(capability)
    }
}

/// Declares [`Observation`]: for each kind of task a variant, and a method that returns its
/// content.
macro_rules! observations {
    ($($variant:ident, $into:ident: $content:ty;)*) => {
        /// The result of a [`Task`], in the variant of the same name.
        #[allow(clippy::large_enum_variant, reason = "a trial has one, and moves it a few times")]
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Observation {
            $(#[doc = concat!("Of [`Task::", stringify!($variant), "`].")] $variant($content),)*
        }

        impl Observation {$(
            #[doc = concat!("The observation of [`Task::", stringify!($variant), "`].")]
            ///
            /// # Errors
            /// [`DeviceError::Broken`]: it is the observation of another task.
            pub fn $into(self) -> Result<$content, DeviceError> {
                match self {
                    Observation::$variant(content) => Ok(content),
                    _ => Err(mismatch(stringify!($variant))),
                }
            }
        )*}
    };
}

fn mismatch(task: &str) -> DeviceError {
    let reason = format!("it did not carry out Task::{task}");
    DeviceError::Broken { device: "testbed".to_owned(), reason }
}

observations! {
    Load, into_load: LoadObservation;
    Plan, into_plan: Control;
    RoundTrips, into_round_trips: RoundTripsObservation;
    Breakdown, into_breakdown: BreakdownObservation;
    Requests, into_requests: RequestsObservation;
    Stream, into_stream: StreamObservation;
    Program, into_program: ProgramObservation;
    Store, into_store: StoreObservation;
    Detection, into_detection: DetectionObservation;
    Analytics, into_analytics: AnalyticsObservation;
}
