//! The connection between a device's half and the host with the tester.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{SeenMarker, frame_text};
use crate::face::DeviceError;

/// The tester's host, as the device's half uses it: the tester sends and receives single frames,
/// and signals say when a load begins and ends.
pub trait FarHost {
    /// Asks the tester.
    ///
    /// # Errors
    /// [`DeviceError::Interrupted`]: the connection has ended; those of the tester.
    fn ask(&mut self, request: FarRequest) -> Result<FarAnswer, DeviceError>;

    /// Waits for a signal, at most so long.
    ///
    /// # Errors
    /// As [`FarHost::ask`].
    fn wait(&mut self, most: Duration) -> Result<Option<ServeSignal>, DeviceError>;

    /// Sends a notice to the other host.
    ///
    /// # Errors
    /// As [`FarHost::ask`].
    fn tell(&mut self, notice: ServeNotice) -> Result<(), DeviceError>;

    /// Has the tester send a frame; `false` where it has no room for it now.
    ///
    /// # Errors
    /// As [`FarHost::ask`].
    fn send(&mut self, frame: &[u8]) -> Result<bool, DeviceError> {
        match self.ask(FarRequest::Send(frame.to_vec()))? {
            FarAnswer::Sent(sent) => Ok(sent),
            _ => Err(interrupted("the tester's answer is to another request")),
        }
    }

    /// Takes the frames that the tester has received, without FCS.
    ///
    /// # Errors
    /// As [`FarHost::ask`].
    fn receive(&mut self) -> Result<Vec<Vec<u8>>, DeviceError> {
        match self.ask(FarRequest::Receive)? {
            FarAnswer::Received(frames) => Ok(frames),
            _ => Err(interrupted("the tester's answer is to another request")),
        }
    }
}

/// The connection to the tester's host, which all parts of the device's half share.
pub type FarLink = Rc<RefCell<dyn FarHost>>;

/// A request of the device's half to the tester, while the half works on a request itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FarRequest {
    /// Send a frame without FCS; base64 in JSON.
    Send(#[serde(with = "frame_text::one")] Vec<u8>),
    /// Return the frames that have come.
    Receive,
}

/// The tester's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FarAnswer {
    /// To [`FarRequest::Send`]: whether it left.
    Sent(bool),
    /// To [`FarRequest::Receive`]: without FCS; base64 in JSON.
    Received(#[serde(with = "frame_text::all")] Vec<Vec<u8>>),
    /// To any: the tester failed.
    Failed(DeviceError),
}

/// A signal of the tester's host to a device that serves a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServeSignal {
    /// Return the markers that the function saw.
    Markers,
    /// The measured part begins at this time of the device's clock, nanoseconds.
    Open {
        /// When.
        at_ns: u64,
    },
    /// The load is over.
    Finish,
}

/// A notice of a device that serves a load to the tester's host: one when it begins, and one for
/// each signal but [`ServeSignal::Finish`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServeNotice {
    /// The function polls.
    Serving {
        /// The device's clock now, nanoseconds.
        now_ns: u64,
        /// Frames that its ring holds.
        depth: u32,
    },
    /// The markers that the function saw.
    Markers {
        /// In the order in which they came.
        seen: Vec<SeenMarker>,
        /// The device's clock now, nanoseconds.
        now_ns: u64,
    },
    /// The device has heard when the measured part begins.
    Opening {
        /// The device's clock now, nanoseconds.
        now_ns: u64,
    },
}

/// A line of standard input. Behind the last one, or where the process is to end, its channel is
/// disconnected.
pub type RequestLine = io::Result<String>;

/// The other host, at the other end of standard input and standard output of this process.
pub struct Caller<W> {
    requests: Rc<Receiver<RequestLine>>,
    output: Arc<Mutex<W>>,
}

/// A line that may come while this process carries out a request: variants of the requests of both
/// protocols.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum FarLine {
    Far(FarAnswer),
    Signal(ServeSignal),
}

/// A line that this process may write meanwhile: variants of the answers of both protocols.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum HalfLine {
    Ask(FarRequest),
    Notice(ServeNotice),
}

impl<W: Write> Caller<W> {
    /// Reads its lines from `requests` and writes to `output`.
    pub fn new(requests: Rc<Receiver<RequestLine>>, output: Arc<Mutex<W>>) -> Caller<W> {
        Caller { requests, output }
    }

    fn write(&self, line: &HalfLine) -> Result<(), DeviceError> {
        write_line(&self.output, line).map_err(|e| interrupted(&e.to_string()))
    }
}

fn read(line: Option<RequestLine>) -> Result<FarLine, DeviceError> {
    let line = line.ok_or_else(|| interrupted("its connection has ended"))?;
    let line = line.map_err(|e| interrupted(&e.to_string()))?;
    serde_json::from_str(&line).map_err(|e| interrupted(&format!("another request came: {e}")))
}

fn interrupted(reason: &str) -> DeviceError {
    DeviceError::Interrupted { device: "the other host".into(), reason: reason.to_owned() }
}

/// Writes a JSON document in a line of its own.
///
/// # Errors
/// Of `output`.
pub fn write_line(output: &Mutex<impl Write>, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    output.write_all(text.as_bytes())?;
    output.flush()
}

impl<W: Write> FarHost for Caller<W> {
    fn ask(&mut self, request: FarRequest) -> Result<FarAnswer, DeviceError> {
        self.write(&HalfLine::Ask(request))?;
        match read(self.requests.recv().ok())? {
            FarLine::Far(FarAnswer::Failed(error)) => Err(error),
            FarLine::Far(answer) => Ok(answer),
            FarLine::Signal(_) => Err(interrupted("a signal in place of the tester's answer")),
        }
    }

    fn wait(&mut self, most: Duration) -> Result<Option<ServeSignal>, DeviceError> {
        let line = match self.requests.recv_timeout(most) {
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => None,
            Ok(line) => Some(line),
        };
        match read(line)? {
            FarLine::Signal(signal) => Ok(Some(signal)),
            FarLine::Far(_) => Err(interrupted("an answer in place of a signal")),
        }
    }

    fn tell(&mut self, notice: ServeNotice) -> Result<(), DeviceError> {
        self.write(&HalfLine::Notice(notice))
    }
}
