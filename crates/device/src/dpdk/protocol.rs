//! What is said between niclab and its DPDK process: one JSON document a line, each way.
//!
//! niclab asks, the process answers each question with one line, in order. It ends when its input
//! ends, so that it never outlives the one who asks.

use serde::{Deserialize, Serialize};

use crate::cores::Cores;
use crate::face::{About, DeviceError, Plan, Setup, SetupReport};
use crate::{Load, Observation};

/// A question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Start DPDK and say what is there; asked once and first.
    Open(Open),
    /// [`crate::Testbed::setup`].
    Setup(Setup),
    /// [`crate::Testbed::run`].
    Run {
        /// What is offered.
        load: Load,
        /// What the control side does meanwhile.
        plan: Plan,
    },
}

/// What DPDK is started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// The device as it was asked for, for messages.
    pub name: String,
    /// Arguments of the environment abstraction layer, as they were given.
    pub arguments: Vec<String>,
    /// Where it runs.
    pub cores: Cores,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`Request::Open`].
    Opened(About),
    /// To [`Request::Setup`].
    Ready(SetupReport),
    /// To [`Request::Run`].
    Observed(Box<Observation>),
    /// To any of them.
    Refused(DeviceError),
}
