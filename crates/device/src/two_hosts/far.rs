//! The connection between a device's half and the host with the tester.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::SeenMarker;
use crate::face::DeviceError;

/// The other host, as the device's half needs it: its tester sends single frames, and it says when
/// a load is under way.
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

    /// Tells the other host.
    ///
    /// # Errors
    /// As [`FarHost::ask`].
    fn tell(&mut self, notice: ServeNotice) -> Result<(), DeviceError>;

    /// Sends a frame from the tester; `false` where there is no room for it now.
    ///
    /// # Errors
    /// As [`FarHost::ask`].
    fn send(&mut self, frame: &[u8]) -> Result<bool, DeviceError> {
        match self.ask(FarRequest::Send(frame.to_vec()))? {
            FarAnswer::Sent(sent) => Ok(sent),
            _ => Err(interrupted("the tester's answer is to another request")),
        }
    }

    /// Frames that have come to the tester, without FCS.
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

/// The connection to the other host, which every call of the device's half may need.
pub type FarLink = Rc<RefCell<dyn FarHost>>;

/// What the device's half asks of the tester while it works on a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FarRequest {
    /// Send a frame without FCS.
    Send(Vec<u8>),
    /// The frames that have come.
    Receive,
}

/// The tester's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FarAnswer {
    /// To [`FarRequest::Send`]: whether it left.
    Sent(bool),
    /// To [`FarRequest::Receive`]: without FCS.
    Received(Vec<Vec<u8>>),
    /// To any: the tester failed.
    Failed(DeviceError),
}

/// What the host with the tester asks of a device that serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServeSignal {
    /// The markers that were seen.
    Markers,
    /// The measured part begins at this time of the device's clock, nanoseconds.
    Open {
        /// When.
        at_ns: u64,
    },
    /// No more frames come.
    Finish,
}

/// What a device tells the host with the tester while it serves it: one notice first, and one for
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
    /// Markers that it saw.
    Markers {
        /// In their order.
        seen: Vec<SeenMarker>,
        /// The device's clock now, nanoseconds.
        now_ns: u64,
    },
    /// It knows when the measured part begins.
    Opening {
        /// The device's clock now, nanoseconds.
        now_ns: u64,
    },
}

/// A line of standard input; `None` is its end, or the end that was asked for.
pub type RequestLine = Option<io::Result<String>>;

/// Whoever asks this process on its standard input and reads its standard output, as the other
/// host.
pub struct Caller<W> {
    requests: Rc<Receiver<RequestLine>>,
    output: Arc<Mutex<W>>,
}

/// What comes while a request is carried out: variants of the requests of both protocols.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum FarLine {
    Far(FarAnswer),
    Signal(ServeSignal),
}

/// What goes out meanwhile: variants of the answers of both protocols.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum HalfLine {
    Ask(FarRequest),
    Notice(ServeNotice),
}

impl<W: Write> Caller<W> {
    /// The lines that come, and where answers go.
    pub fn new(requests: Rc<Receiver<RequestLine>>, output: Arc<Mutex<W>>) -> Caller<W> {
        Caller { requests, output }
    }

    fn write(&self, line: &HalfLine) -> Result<(), DeviceError> {
        write_line(&self.output, line).map_err(|e| interrupted(&e.to_string()))
    }
}

fn read(line: RequestLine) -> Result<FarLine, DeviceError> {
    let line = line.ok_or_else(|| interrupted("whoever asked is gone"))?;
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
        match read(self.requests.recv().unwrap_or(None))? {
            FarLine::Far(FarAnswer::Failed(error)) => Err(error),
            FarLine::Far(answer) => Ok(answer),
            FarLine::Signal(_) => Err(interrupted("a signal in place of the tester's answer")),
        }
    }

    fn wait(&mut self, most: Duration) -> Result<Option<ServeSignal>, DeviceError> {
        let line = match self.requests.recv_timeout(most) {
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => None,
            Ok(line) => line,
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
