//! Captures frames of a port into a packet trace. The client opens the file, so nobody can make the
//! card write where he may not write himself.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use niclab_card::{CaptureCounters, Card};
use niclab_control::{CaptureState, Response};

use super::wait::wait;
use crate::rules::counted;

/// The file that came beside a request, where frames can be written into it.
fn writable(path: &str, beside: Option<OwnedFd>) -> Result<File, String> {
    let beside = beside.ok_or_else(|| {
        format!(
            "{path}: the card opens no file for a client: send the open file beside the command \
             (SCM_RIGHTS), as `niclab nic ctl` does"
        )
    })?;
    let file = File::from(beside);
    let about = file.metadata().map_err(|error| format!("{path}: {error}"))?;
    // The card would wait for who reads a pipe.
    if !about.is_file() {
        return Err(format!("{path}: frames are captured into files: give one"));
    }
    Ok(file)
}

/// Begins, and waits until every frame that comes from then on is captured. The file, which
/// messages call `path`, came beside the request; so many frames go into it at most.
pub(super) fn begin(
    card: &mut Card,
    port: u16,
    (path, beside): (&str, Option<OwnedFd>),
    count: Option<u64>,
) -> Result<Response, String> {
    if count == Some(0) {
        return Err("count: a number of frames from 1 on".to_owned());
    }
    let (file, count) = (writable(path, beside)?, count.unwrap_or(u64::MAX));
    card.capture(port, (Path::new(path), file), count).map_err(|error| error.to_string())?;
    let waits_for = wait(|| Ok::<_, String>(card.core_without_capture(port)))?;
    Ok(Response::CaptureBegun { port, waits_for })
}

/// How far the capture of a port is.
pub(super) fn state(card: &Card, port: u16) -> Result<Response, String> {
    reported(port, card.capture_state(port))
}

/// Ends a capture once its file has taken all of it. The client chose the file: where that takes
/// long, the card does not wait for it.
pub(super) fn end(card: &mut Card, port: u16) -> Result<Response, String> {
    if !card.stop_capture(port) {
        return Err(format!("port {port}: nothing is captured"));
    }
    let is_written = |card: &Card| card.capture_state(port).is_none_or(|(_, goes_on)| !goes_on);
    if wait(|| Ok::<_, String>((!is_written(card)).then_some(())))?.is_some() {
        return Err(format!(
            "port {port}: the trace is still being written: say `capture {port} off` again"
        ));
    }
    let captured = card.end_capture(port).map_err(|error| error.to_string())?;
    reported(port, captured.map(|captured| (captured, false)))
}

fn reported(port: u16, captured: Option<(CaptureCounters, bool)>) -> Result<Response, String> {
    let Some((CaptureCounters { frames, missed, trouble }, goes_on)) = captured else {
        return Ok(Response::Capture { port, capture: None });
    };
    if let Some(trouble) = trouble {
        let kept = counted(frames, "frame", "frames");
        return Err(format!("port {port}: capture ended after {kept}: {trouble}"));
    }
    Ok(Response::Capture { port, capture: Some(CaptureState { frames, missed, goes_on }) })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::Duration;

    use niclab_card::{CardConfig, PortName};

    use super::*;

    #[test]
    fn a_file_that_takes_nothing_does_not_hold_up_the_card() {
        let directory = tempfile::tempdir().unwrap();
        let trace = directory.path().join("out.pcap");
        let port: PortName = format!("pcap:out={}", trace.display()).parse().unwrap();
        let mut card = Card::start(&CardConfig::new(vec![port], 1, vec![0]), "").unwrap();
        let (mut there, mut full) = UnixStream::pair().unwrap();
        full.set_nonblocking(true).unwrap();
        while full.write(&[0; 4_096]).is_ok() {}
        full.set_nonblocking(false).unwrap();
        let file = File::from(OwnedFd::from(full));
        card.capture(0, (Path::new("full"), file), u64::MAX).unwrap();
        // A card that waited would answer when it is read.
        let reader = thread::spawn(move || {
            thread::sleep(Duration::from_secs(5));
            there.read_to_end(&mut Vec::new()).unwrap();
        });
        let answer = end(&mut card, 0).unwrap_err();
        assert!(answer.contains("still being written: say `capture 0 off` again"), "{answer}");
        reader.join().unwrap();
        let capture = Some(CaptureState { frames: 0, missed: 0, goes_on: false });
        assert_eq!(end(&mut card, 0), Ok(Response::Capture { port: 0, capture }));
        assert_eq!(end(&mut card, 0), Err("port 0: nothing is captured".to_owned()));
    }
}
