//! Errors of a device.

use serde::{Deserialize, Serialize};

/// Why a device could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceError {
    /// A result: the experiment goes on without it.
    #[error("not supported: {capability}")]
    NotSupported {
        /// `rules`, `latency`, `counters`, `queues`, …
        capability: String,
    },
    /// The text that names the device cannot be read.
    #[error("device `{text}`: {reason}")]
    BadName {
        /// The given text.
        text: String,
        /// The defect, and a valid form.
        reason: String,
    },
    /// There is no such thing here.
    #[error("{what} not found: {remedy}")]
    Absent {
        /// The interface, library or program.
        what: String,
        /// The remedy.
        remedy: String,
    },
    /// Nobody listens where a server is to answer, or nothing can be sent there.
    #[error("{reason}")]
    NoServer {
        /// Where, and what to do.
        reason: String,
    },
    /// The server answered none of a trial's messages; it may answer others.
    #[error("{reason}")]
    Silent {
        /// Where, and what to do.
        reason: String,
    },
    /// The user may not do this.
    #[error("{what} needs more rights: {remedy}")]
    Rights {
        /// The refused operation.
        what: String,
        /// The remedy.
        remedy: String,
    },
    /// The machine is too small.
    #[error("{device} needs {needed} cores, this process may use {available}: {remedy}")]
    Cores {
        /// The device.
        device: String,
        /// How many it needs.
        needed: u32,
        /// How many there are.
        available: u32,
        /// The remedy.
        remedy: String,
    },
    /// The load cannot be generated as declared.
    #[error("load: {reason}")]
    BadLoad {
        /// The field and what would be right.
        reason: String,
    },
    /// The plan cannot be carried out as declared.
    #[error("plan: {reason}")]
    BadPlan {
        /// The field and what would be right.
        reason: String,
    },
    /// The tester was not ready when its load was to begin. The same load may begin later.
    #[error("the tester was not ready when its load was to begin; repeat the trial")]
    TooLate,
    /// The connection to the device broke during a trial. The device may work after another set-up.
    #[error("{device} was interrupted: {reason}")]
    Interrupted {
        /// The device.
        device: String,
        /// The observed defect.
        reason: String,
    },
    /// The device stopped working.
    #[error("{device} failed: {reason}")]
    Broken {
        /// The device.
        device: String,
        /// The observed defect.
        reason: String,
    },
}

impl DeviceError {
    /// This error with the text of another one, that of the port at the other end of its cable. An
    /// error about a missing capability keeps its own text.
    pub(crate) fn with(self, other: DeviceError) -> DeviceError {
        use DeviceError::{Absent, Broken, Interrupted, Rights};
        if !matches!(other, Absent { .. } | Broken { .. } | Interrupted { .. } | Rights { .. }) {
            return self;
        }
        let both = |text: String| format!("{text}; {other}");
        match self {
            Absent { what, remedy } => Absent { what, remedy: both(remedy) },
            Broken { device, reason } => Broken { device, reason: both(reason) },
            Interrupted { device, reason } => Interrupted { device, reason: both(reason) },
            Rights { what, remedy } => Rights { what, remedy: both(remedy) },
            alone => alone,
        }
    }

    /// The device lacks this: a result.
    pub fn lacks(capability: impl Into<String>) -> DeviceError {
        DeviceError::NotSupported { capability: capability.into() }
    }
}
