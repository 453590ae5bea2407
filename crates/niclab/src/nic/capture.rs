//! Frames of a port into a packet trace, as somebody asks for it. The file is opened by who asks:
//! nobody has the card write where he may not write himself.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use niclab_card::{Captured, Card};
use niclab_lab::words;
use serde_json::{Value, json};

use super::patience::wait;

/// Carries out `capture PORT FILE [count N]`, `capture PORT off` or `capture PORT`; the file came
/// beside the command.
pub(super) fn answer(card: &mut Card, text: &str, file: Option<OwnedFd>) -> Value {
    let words: Vec<&str> = text.split_whitespace().skip(1).collect();
    carried_out(card, &words, file).unwrap_or_else(|error| json!({ "error": error }))
}

fn carried_out(card: &mut Card, words: &[&str], beside: Option<OwnedFd>) -> Result<Value, String> {
    let wrong =
        || "write capture PORT FILE, with count N or without; capture PORT; capture PORT off";
    let (first, rest) = words.split_first().ok_or_else(wrong)?;
    let port: u16 = first.parse().map_err(|_| format!("`{first}` is no port; {}", wrong()))?;
    match *rest {
        [] => Ok(told(port, card.captured(port))),
        ["off"] => ended(card, port),
        [file] => begun(card, port, (file, beside), u64::MAX),
        [file, "count", count] => {
            let count = count.parse().ok().filter(|count| *count > 0);
            begun(card, port, (file, beside), count.ok_or("count: a number of frames from 1 on")?)
        }
        _ => Err(wrong().to_owned()),
    }
}

/// The file that came beside a command, where frames can be written into it.
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

/// Begins, and waits until every frame that comes from then on is captured.
fn begun(
    card: &mut Card,
    port: u16,
    (path, beside): (&str, Option<OwnedFd>),
    count: u64,
) -> Result<Value, String> {
    let file = writable(path, beside)?;
    card.capture(port, (Path::new(path), file), count).map_err(|error| error.to_string())?;
    let waits_for = wait(|| Ok::<_, String>(card.capture_waits_for(port)))?;
    let later = waits_for.map_or(String::new(), |core| {
        format!("; those of core {core} do later: it has not come to look yet")
    });
    let says = format!("port {port}: frames go into {path}{later}");
    Ok(json!({ "done": [says], "waits_for": waits_for }))
}

/// Ends a capture once its file has taken all of it. The client chose the file: where that takes
/// long, the card does not wait for it.
fn ended(card: &mut Card, port: u16) -> Result<Value, String> {
    if !card.stop_capture(port) {
        return Err(format!("port {port}: nothing is captured"));
    }
    let is_written = |card: &Card| card.captured(port).is_none_or(|(_, goes_on)| !goes_on);
    if wait(|| Ok::<_, String>((!is_written(card)).then_some(())))?.is_some() {
        return Err(format!(
            "port {port}: the trace is still being written: say `capture {port} off` again"
        ));
    }
    let captured = card.end_capture(port).map_err(|error| error.to_string())?;
    Ok(told(port, captured.map(|captured| (captured, false))))
}

fn told(port: u16, captured: Option<(Captured, bool)>) -> Value {
    let Some((Captured { frames, missed, trouble }, goes_on)) = captured else {
        return json!({ "done": [format!("port {port}: nothing is captured")] });
    };
    if let Some(trouble) = trouble {
        let kept = words::whole(frames as f64);
        let says = format!("port {port}: capture ended after {kept} frames: {trouble}");
        return json!({ "error": says });
    }
    let [count, behind] = [frames, missed].map(|count| words::whole(count as f64));
    let so_far = if goes_on { "so far" } else { "in all" };
    let says = format!("port {port}: {count} frames captured {so_far}, {behind} missed");
    json!({ "done": [says], "frames": frames, "missed": missed, "goes_on": goes_on })
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
        let answer = super::answer(&mut card, "capture 0 off", None).to_string();
        assert!(answer.contains("still being written: say `capture 0 off` again"), "{answer}");
        reader.join().unwrap();
        let answer = super::answer(&mut card, "capture 0 off", None).to_string();
        assert!(answer.contains("0 frames captured in all"), "{answer}");
        let answer = super::answer(&mut card, "capture 0 off", None).to_string();
        assert!(answer.contains("nothing is captured"), "{answer}");
    }
}
