//! The protocol between niclab and its agent on another host: one JSON document a line, each way.
//!
//! The agent greets first. Then niclab sends requests, and the agent answers each with one line, in
//! order.
//!
//! Both sides give signs of life. The agent writes [`AgentAnswer::Working`] once a second while it
//! works on a request. niclab writes the line `"here"` after each second in which it wrote nothing.
//! If one side hears nothing for ten seconds, it takes the other one for gone. The agent ends then,
//! and when its input ends.
//!
//! A trial of two hosts consists of these lines:
//!
//! | step | niclab | answer | of |
//! |---|---|---|---|
//! | 1 | [`AgentRequest::MeasureHalf`]: `Serve` | [`AgentAnswer::Notice`]: `Serving` | device |
//! | 2 | [`AgentRequest::MeasureHalf`]: `Mark` | [`AgentAnswer::Half`]: `Marked` | tester |
//! | 3 | [`AgentRequest::Signal`]: `Markers` | [`AgentAnswer::Notice`]: `Markers` | device |
//! | 4 | [`AgentRequest::MeasureHalf`]: `Clock` | [`AgentAnswer::Half`]: `Clock` | tester |
//! | 5 | [`AgentRequest::Signal`]: `Open` | [`AgentAnswer::Notice`]: `Opening` | device |
//! | 6 | [`AgentRequest::MeasureHalf`]: `Offer` | [`AgentAnswer::Half`]: `Offered` | tester |
//! | 7 | [`AgentRequest::Signal`]: `Finish` | [`AgentAnswer::Half`]: `Served` | device |
//!
//! If a step fails, step 7 follows at once. Before any other answer the device may write
//! [`AgentAnswer::Ask`]. niclab then sends [`AgentRequest::MeasureHalf`] with `Exchange` to the
//! tester, and the result in [`AgentRequest::Far`] to the device.

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
    /// The machine that it runs on.
    #[serde(default)]
    pub host: AgentHost,
}

/// The machine of an agent, and its part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentHost {
    /// The kernel's number of its last boot: two agents with the same one are on one machine. Empty
    /// where it is unknown.
    pub boot_id: String,
    /// The cores that the agent may use, ascending.
    pub cores: Vec<u32>,
}

/// How often each side gives a sign of life where it has nothing else to write.
pub(super) const SIGN_EVERY: Duration = Duration::from_secs(1);

/// How long the other side may be silent before it is taken for gone.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The line by which niclab shows an agent that it is there.
pub(super) const SIGN: &str = "\"here\"";

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
    /// The cores that the agent uses from now on; `None`: those that it has.
    #[serde(default)]
    pub cores: Option<Vec<u32>>,
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
    /// The agent still works on the request; its answer follows.
    Working,
    /// A request of the device's half to the tester, before its answer.
    Ask(FarRequest),
    /// The first answer to [`HalfTask::Serve`], and the answer to each [`AgentRequest::Signal`] but
    /// the last.
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
