//! The protocol between niclab and its DPDK process: one JSON document per line, each way.
//!
//! niclab asks, the process answers each question with one line, in order. It ends when its input
//! ends, so that it never outlives the one who asks.

use serde::{Deserialize, Serialize};

use crate::face::{DeviceError, DeviceInfo, Observation, Setup, SetupReport, Task};
use crate::rule_case::{RuleCases, RuleCasesObservation};
use crate::two_hosts::{
    FarAnswer, FarRequest, HalfObservation, HalfTask, Role, ServeNotice, ServeSignal,
};

/// A question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Start DPDK and say what is there; asked once and first.
    Open(Open),
    /// [`crate::Testbed::setup`].
    Setup(Setup),
    /// [`crate::Testbed::measure`].
    Measure(Task),
    /// [`crate::Testbed::try_rules`].
    TryRules(RuleCases),
    /// [`crate::Testbed::measure_half`].
    MeasureHalf(HalfTask),
    /// To an [`Answer::Ask`].
    Far(FarAnswer),
    /// While the process carries out [`HalfTask::Serve`].
    Signal(ServeSignal),
}

/// The arguments that DPDK is started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// The device as it was asked for, for messages.
    pub name: String,
    /// Arguments of the environment abstraction layer, as they were given.
    pub arguments: Vec<String>,
    /// The cores that it may use, ascending: generator and sink have the first, the function the
    /// next, as many as a set-up says, and a plan of its own core the one behind them. Half a
    /// testbed lacks those of the other half.
    pub cores: Vec<u32>,
    /// The part of a testbed that the ports are.
    pub role: Role,
}

/// Arguments that say which memory DPDK takes, and which files stand for it.
const MEMORY: &[&str] = &[
    "--no-huge",
    "--in-memory",
    "--no-shconf",
    "--huge-dir",
    "--huge-unlink",
    "--socket-mem",
    "--socket-limit",
    "--legacy-mem",
    "--single-file-segments",
    "--file-prefix",
];

/// Whether arguments say which memory DPDK takes; where none does it shares no file with anybody.
pub fn names_memory(arguments: &[String]) -> bool {
    let mut names = arguments.iter().filter_map(|argument| argument.split('=').next());
    names.any(|name| MEMORY.contains(&name))
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`Request::Open`].
    Opened(DeviceInfo),
    /// To [`Request::Setup`].
    Ready(SetupReport),
    /// To [`Request::Measure`].
    Observed(Box<Observation>),
    /// To [`Request::TryRules`].
    Tried(RuleCasesObservation),
    /// To [`Request::MeasureHalf`].
    Half(HalfObservation),
    /// To none: the device's half needs the tester.
    Ask(FarRequest),
    /// To none, or to a [`Request::Signal`], while it carries out [`HalfTask::Serve`].
    Notice(ServeNotice),
    /// To any of them.
    Refused(DeviceError),
}
