//! The protocol between niclab and its agent on another host: one JSON document a line, each way.
//!
//! The agent greets first. Then niclab asks, and the agent answers each request with one line, in
//! order. While it works on one, it writes [`AgentAnswer::Working`] once a second, so that silence
//! means that the host or the connection is gone. It ends when its input ends.

use std::path::PathBuf;

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
}

/// A device to open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenDevice {
    /// Its name.
    pub name: String,
    /// The part of a testbed that it is.
    #[serde(default)]
    pub role: Role,
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
}
