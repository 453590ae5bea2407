//! `niclab analytics send`: a source over UDP.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use niclab_analytics::input::LocalTuple;
use niclab_analytics::source::{NewTuple, OfferError, Sender, SenderOptions};
use niclab_device::address;
use niclab_lab::words;

use super::AnalyticsFailure;
use super::input::{LocalTuples, name};
use crate::arguments::SendArguments;
use crate::failure::Failure;
use crate::output::say;
use crate::rules::counted;

/// How long the receiver may be silent.
const PATIENCE: Duration = Duration::from_secs(10);
/// The shortest and the longest wait for an acknowledgement.
const WAIT_MIN: Duration = Duration::from_micros(50);
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Sends everything, and returns when all of it is safe.
pub fn run(arguments: &SendArguments) -> Result<(), Failure> {
    let to = address::read(&arguments.to, super::input::PORT).map_err(Failure::address("--to"))?;
    let opened = LocalTuples::open(&arguments.input, &arguments.generator)?;
    let Some(mut tuples) = opened else {
        let reason = "--input udp: send takes json:FILE, json-tcp:ADDRESS:PORT or generator";
        return Err(Failure::Address { reason: reason.to_owned() });
    };
    let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.connect(to)?;
    let (source, batch) = (arguments.source, arguments.batch.into());
    let sender = Sender::new(SenderOptions { batch, ..SenderOptions::new(source) });
    let (started, payload) = (Instant::now(), vec![0; arguments.payload.into()]);
    let input = name(&arguments.input);
    let mut sending = Sending { sender, socket, started, heard_at: started, to: to.to_string() };
    let mut pending = None;
    loop {
        let wrong = |error| AnalyticsFailure::Json { input: input.clone(), error };
        while let Some(tuple) = match pending.take() {
            None => tuples.tuple().map_err(wrong)?,
            tuple => tuple,
        } {
            if !sending.offer(&tuple, &payload)? {
                pending = Some(tuple);
                break;
            }
        }
        if pending.is_none() {
            sending.sender.end();
        }
        if sending.turn()? {
            break;
        }
    }
    let counters = sending.sender.counters;
    say(&format!(
        "{} safe in {}: {}, {} sent again",
        counted(counters.safe, "tuple", "tuples"),
        words::time(started.elapsed().as_nanos() as f64),
        counted(counters.frames, "frame", "frames"),
        words::whole(counters.repeated as f64),
    ));
    Ok(())
}

/// A source and its socket.
struct Sending {
    sender: Sender,
    socket: UdpSocket,
    started: Instant,
    heard_at: Instant,
    to: String,
}

impl Sending {
    /// Whether a tuple was taken; not if too many are under way.
    fn offer(&mut self, tuple: &LocalTuple, payload: &[u8]) -> Result<bool, Failure> {
        let LocalTuple { stream, key, time_ns } = *tuple;
        match self.sender.offer(&NewTuple { stream, key, time_ns, payload }) {
            Ok(()) => Ok(true),
            Err(OfferError::Full) => Ok(false),
            Err(error) => Err(Failure::Address { reason: format!("--input: {error}") }),
        }
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Sends what is due, and takes acknowledgements; whether everything is safe.
    fn turn(&mut self) -> Result<bool, Failure> {
        let mut frame = Vec::new();
        while self.sender.frame(self.now_ns(), &mut frame) {
            // A frame that the system does not take is a lost one; who is not there, is silent.
            let _ = self.socket.send(&frame);
        }
        let now_ns = self.now_ns();
        let Some(due_ns) = self.sender.due_ns(now_ns) else { return Ok(true) };
        let wait = Duration::from_nanos(due_ns - now_ns).clamp(WAIT_MIN, WAIT_MAX);
        self.socket.set_read_timeout(Some(wait))?;
        let mut bytes = [0; niclab_analytics::tuple::FRAME_LEN_MAX];
        match self.socket.recv(&mut bytes) {
            // Whatever else comes to this port is no acknowledgement.
            Ok(len) if self.sender.acknowledge(self.now_ns(), &bytes[..len]).is_ok() => {
                self.heard_at = Instant::now();
            }
            Ok(_) => {}
            Err(error) if is_silence(error.kind()) => {}
            Err(error) => return Err(error.into()),
        }
        if self.sender.is_refused() {
            return Err(AnalyticsFailure::TooManySources { to: self.to.clone() }.into());
        }
        if self.heard_at.elapsed() >= PATIENCE {
            let (to, silent_s) = (self.to.clone(), PATIENCE.as_secs());
            return Err(AnalyticsFailure::NoAnswer { to, silent_s }.into());
        }
        Ok(self.sender.is_finished())
    }
}

/// Whether an error of a socket means that nothing came.
fn is_silence(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock
            | ErrorKind::TimedOut
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
    )
}
