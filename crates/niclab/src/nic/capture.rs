//! Frames of a port into a packet trace, as somebody asks for it.

use std::path::Path;

use niclab_card::{Captured, Card};
use niclab_lab::words;
use serde_json::{Value, json};

use super::patience::wait;

/// Carries out `capture PORT FILE [count N]`, `capture PORT off` or `capture PORT`.
pub(super) fn answer(card: &mut Card, text: &str) -> Value {
    let words: Vec<&str> = text.split_whitespace().skip(1).collect();
    carried_out(card, &words).unwrap_or_else(|error| json!({ "error": error }))
}

fn carried_out(card: &mut Card, words: &[&str]) -> Result<Value, String> {
    let wrong =
        || "write capture PORT FILE, with count N or without; capture PORT; capture PORT off";
    let (first, rest) = words.split_first().ok_or_else(wrong)?;
    let port: u16 = first.parse().map_err(|_| format!("`{first}` is no port; {}", wrong()))?;
    match *rest {
        [] => Ok(told(port, card.captured(port))),
        ["off"] => match card.end_capture(port).map_err(|error| error.to_string())? {
            Some(captured) => Ok(told(port, Some((captured, false)))),
            None => Err(format!("port {port}: nothing is captured")),
        },
        [file] => begun(card, port, file, u64::MAX),
        [file, "count", count] => {
            let count = count.parse().ok().filter(|count| *count > 0);
            begun(card, port, file, count.ok_or("count: a number of frames from 1 on")?)
        }
        _ => Err(wrong().to_owned()),
    }
}

/// Begins, and waits until every frame that comes from then on is captured.
fn begun(card: &mut Card, port: u16, file: &str, count: u64) -> Result<Value, String> {
    card.capture(port, Path::new(file), count).map_err(|error| error.to_string())?;
    let waits_for = wait(|| Ok::<_, String>(card.capture_waits_for(port)))?;
    let later = waits_for.map_or(String::new(), |core| {
        format!("; those of core {core} do later: it has not come to look yet")
    });
    let says = format!("port {port}: frames go into {file}{later}");
    Ok(json!({ "done": [says], "waits_for": waits_for }))
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
