//! Commands to an engine, by its Unix socket: an object of JSON a line (user guide of Suricata 7.0,
//! "Interacting via Unix Socket").

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::settings::SOCKET;

/// Version of the protocol.
const VERSION: &str = "0.2";

/// Bytes of an answer, at most.
const ANSWER_LEN_MAX: u64 = 16 << 20;

/// Asks the engine of a directory, and returns its `message`.
///
/// # Errors
/// The engine does not answer within `patience`, or refuses, with its reason.
pub(super) fn ask(directory: &Path, command: &str, patience: Duration) -> io::Result<Value> {
    let socket = UnixStream::connect(directory.join(SOCKET))?;
    socket.set_read_timeout(Some(patience))?;
    socket.set_write_timeout(Some(patience))?;
    let mut answers = BufReader::new(socket.try_clone()?.take(ANSWER_LEN_MAX));
    exchange(&socket, &mut answers, &json!({ "version": VERSION }))?;
    exchange(&socket, &mut answers, &json!({ "command": command }))
}

fn exchange(
    mut socket: &UnixStream,
    answers: &mut impl BufRead,
    request: &Value,
) -> io::Result<Value> {
    socket.write_all(format!("{request}\n").as_bytes())?;
    let mut line = Vec::new();
    answers.read_until(b'\n', &mut line)?;
    let mut answer: Value = serde_json::from_slice(&line)?;
    let message = answer.get_mut("message").map(Value::take).unwrap_or_default();
    match answer.get("return").and_then(Value::as_str) {
        Some("OK") => Ok(message),
        _ => Err(io::Error::other(match message {
            Value::String(message) => message,
            message => message.to_string(),
        })),
    }
}
