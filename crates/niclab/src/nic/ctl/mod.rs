//! `niclab nic ctl`: sends a request to a running card and prints the response.
//!
//! `arguments` is what can be typed, `request` makes a request of it, `capture` opens the file of a
//! capture, `response` prints responses as text.

mod capture;
mod request;
mod response;

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use niclab_control::{Client, ControlError, Request, Response};

use crate::arguments::CtlArguments;
use crate::failure::Failure;
use crate::files;
use crate::output::{one_line, stdout};
use capture::CaptureFile;

/// Asks a card that runs, and prints what it says. Files that are named are opened here, with the
/// rights of who calls.
pub(in crate::nic) fn run(arguments: &CtlArguments) -> Result<(), Failure> {
    let CtlArguments { control, json, command } = arguments;
    let (client, request) = (Client::new(control), request::of(command, *json)?);
    let answer = match &request {
        Request::CaptureBegin { file, .. } => {
            // No file is made for a card that is not there.
            let card = client.connect().map_err(|error| failed(control, error))?;
            let file = CaptureFile::open(file.as_ref())?;
            let answer = card.ask_with(&request, file.attachment());
            if answer.is_ok() {
                file.keep();
            }
            answer
        }
        request => client.ask(request),
    };
    match answer {
        Ok(response) => print(&request, &response, *json),
        Err(error) => {
            if let (true, ControlError::Refused { reason }) = (*json, &error) {
                writeln!(stdout(), "{}", Response::error(reason).line())?;
            }
            Err(failed(control, error))
        }
    }
}

fn print(request: &Request, response: &Response, is_json: bool) -> Result<(), Failure> {
    let mut out = stdout();
    match response {
        // What tables have, as a file.
        Response::TablesFile { text } => writeln!(out, "{text}")?,
        response if is_json => writeln!(out, "{}", response.line())?,
        response => write!(out, "{}", response::words(request, response))?,
    }
    Ok(())
}

/// Why there is no answer, and what to do.
pub(in crate::nic) fn failed(path: &Path, error: ControlError) -> Failure {
    let control = |reason: String| Failure::Control { path: path.to_path_buf(), reason };
    match error {
        ControlError::Unreachable(error) if error.kind() == ErrorKind::PermissionDenied => {
            control(format!("{error}: {}", files::who_may(path)))
        }
        ControlError::Unreachable(_) if path.is_dir() => control(of_directory(path)),
        ControlError::Unreachable(error) => {
            let start = format!("niclab nic --control {}", path.display());
            control(format!("{error}; no card listens there: {start}"))
        }
        error @ (ControlError::Silent { .. } | ControlError::NoCard) => control(error.to_string()),
        error => Failure::Refused { reason: error.to_string() },
    }
}

/// The error for a directory in place of a socket; it names the sockets in the directory.
fn of_directory(path: &Path) -> String {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let sockets = entries.filter(|entry| entry.file_type().is_ok_and(|of| of.is_socket()));
    let mut sockets: Vec<String> =
        sockets.map(|entry| one_line(&entry.path().to_string_lossy())).collect();
    sockets.sort();
    match sockets.is_empty() {
        true => "it is a directory, and has no socket; give the path of a card's socket".to_owned(),
        false => format!("it is a directory; give a socket in it: {}", sockets.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;
    use crate::arguments::CtlCommand;

    #[test]
    fn a_file_that_a_silent_card_does_not_take_does_not_stay() {
        let directory = tempfile::tempdir().unwrap();
        let [socket, path] = ["card", "seen.pcap"].map(|name| directory.path().join(name));
        let listener = UnixListener::bind(&socket).unwrap();
        let card = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            BufReader::new(stream).read_line(&mut String::new()).unwrap();
        });
        let command =
            CtlCommand::Capture { port: 0, file: Some(path.display().to_string()), count: None };
        run(&CtlArguments { control: socket, json: false, command }).unwrap_err();
        card.join().unwrap();
        assert!(!path.exists(), "the card gave no answer");
    }
}
