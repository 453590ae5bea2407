//! The protocol between niclab and its agent on another host: one JSON document a line, each way.
//!
//! The agent greets first. Then niclab asks, and the agent answers each request with one line, in
//! order. While it works on one, it writes [`AgentAnswer::Working`] once a second, and niclab
//! answers with [`AgentRequest::Waiting`]: silence of [`SILENCE_MAX`] means that the other host or
//! the connection is gone. The agent ends when its input ends, and when it works and niclab is
//! silent.
//!
//! Half a testbed may need the other one before it answers. The device's agent then writes
//! [`AgentAnswer::Ask`], and niclab hands it the tester's answer ([`AgentRequest::Far`]). A load
//! goes like this, with T for the tester's agent and D for the device's:
//!
//! ```text
//! D <- MeasureHalf(Serve)     D -> Notice(Serving)
//! T <- MeasureHalf(Mark)      T -> Half(Marked)
//! D <- Signal(Markers)        D -> Notice(Markers)
//! T <- MeasureHalf(Clock)     T -> Half(Clock)
//! D <- Signal(Open)           D -> Notice(Opening)
//! T <- MeasureHalf(Offer)     T -> Half(Offered)
//! D <- Signal(Finish)         D -> Half(Served)
//! ```

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::face::{
    DeviceError, DeviceInfo, HostEnvironment, Observation, Setup, SetupReport, Task,
};
use crate::rule_case::{RuleCases, RuleCasesObservation};
use crate::two_hosts::{
    FarAnswer, FarRequest, HalfObservation, HalfTask, Role, ServeNotice, ServeSignal,
};

/// The agent's first line. What a login shell writes before it is passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// Its version.
    pub niclab_agent: String,
}

/// The version that this program greets with, and asks for.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long either side may be silent while the agent works: ten of its signs.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentRequest {
    /// Open a device, in the place of one that is open.
    Open(OpenDevice),
    /// Keep a part of a file that set-ups or loads name.
    Keep(FilePart),
    /// [`crate::Testbed::setup`].
    Setup(Setup),
    /// [`crate::Testbed::measure`].
    Measure(Task),
    /// [`crate::Testbed::try_rules`].
    TryRules(RuleCases),
    /// [`crate::Testbed::measure_half`].
    MeasureHalf(HalfTask),
    /// To an [`AgentAnswer::Ask`].
    Far(FarAnswer),
    /// While the agent carries out [`HalfTask::Serve`].
    Signal(ServeSignal),
    /// No request: somebody still waits for the agent's work. It has no answer.
    Waiting,
}

/// A device to open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenDevice {
    /// Its name.
    pub name: String,
    /// The part of a testbed that it is.
    #[serde(default)]
    pub role: Role,
    /// The cores of the other half, which this one leaves alone on the same machine.
    #[serde(default)]
    pub others: Option<TakenCores>,
}

/// Cores of a machine that somebody has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenCores {
    /// The machine, as [`Opened::machine`] tells it.
    pub machine: String,
    /// The cores.
    pub cores: Vec<u32>,
}

/// A part of a file of the host that asks; the next part of the same file goes behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePart {
    /// Its path on the host that asks, as set-ups and loads name it.
    pub path: PathBuf,
    /// The first part: what the agent had of that path goes.
    pub is_first: bool,
    /// The content, in base64 (RFC 4648, section 4).
    pub content: String,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentAnswer {
    /// To none: the agent still works on the request.
    Working,
    /// To none: the device's half needs the tester.
    Ask(FarRequest),
    /// To none, or to an [`AgentRequest::Signal`], while it carries out [`HalfTask::Serve`].
    Notice(ServeNotice),
    /// To [`AgentRequest::MeasureHalf`].
    Half(HalfObservation),
    /// To [`AgentRequest::Open`].
    Opened(Box<Opened>),
    /// To [`AgentRequest::Keep`].
    Kept,
    /// To [`AgentRequest::Setup`].
    Ready(SetupReport),
    /// To [`AgentRequest::Measure`].
    Observed(Box<Observation>),
    /// To [`AgentRequest::TryRules`].
    Tried(RuleCasesObservation),
    /// To any of them.
    Refused(DeviceError),
}

/// A device that is open, and its host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// The device.
    pub about: DeviceInfo,
    /// Its host.
    pub environment: HostEnvironment,
    /// The same word from all agents of one running kernel, and from no other.
    pub machine: String,
}
