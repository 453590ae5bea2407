//! How a port spreads frames: asked for, and changed while they flow.

use std::collections::BTreeMap;
use std::time::Instant;

use niclab_card::{Card, ChangeError};
use niclab_lab::words;
use niclab_nic::rss::{Rss, RssAction, RssChange};
use niclab_nic::rule::text::port_rss;
use serde_json::{Value, json};

use super::patience::wait;

/// Carries out a line that begins with `rss`.
pub(super) fn answer(card: &mut Card, text: &str) -> Value {
    let done = port_rss(text).map_err(|error| error.to_string()).and_then(|(port, change)| {
        let Some(change) = change else { return shown(card, port) };
        changed(card, port, &change).map_err(|error| error.to_string())
    });
    done.unwrap_or_else(|error| json!({ "error": error }))
}

/// What a port's state of RSS is.
fn shown(card: &Card, port: u16) -> Result<Value, String> {
    card.waits_for(port).map_err(|error| error.to_string())?;
    let Some(rss) = card.rss(port) else { return Ok(Value::Null) };
    let says = RssAction {
        function: Some(rss.function),
        key: Some(rss.key.clone()),
        level: Some(rss.level),
        queues: Vec::new(),
        types: Some(rss.types),
    };
    let mut entries = BTreeMap::<u16, usize>::new();
    rss.indirection.iter().for_each(|queue| *entries.entry(*queue).or_default() += 1);
    let entries: Vec<String> =
        entries.iter().map(|(queue, count)| format!("queue {queue} {count}")).collect();
    let table = format!("port {port}: entries of the table: {}", entries.join(", "));
    Ok(json!({ "done": [format!("port {port}: {says}"), table], "rss": rss }))
}

/// Changes it, and waits until the new spread holds for all frames.
fn changed(card: &mut Card, port: u16, change: &RssChange) -> Result<Value, ChangeError> {
    // One before it may not be over.
    wait(|| card.waits_for(port))?;
    let before = card.rss(port).cloned();
    let begun = Instant::now();
    card.change_rss(port, change)?;
    let moved = before.zip(card.rss(port)).map_or(0, |(old, new)| moved(&old, new));
    let core = wait(|| card.waits_for(port))?;
    let passed_ns = begun.elapsed().as_nanos() as u64;
    let held = match core {
        None => format!("holds after {}", words::time(passed_ns as f64)),
        Some(core) => format!("does not hold yet: frames wait for core {core}"),
    };
    let settled_ns = core.is_none().then_some(passed_ns);
    let says = format!("port {port}: {moved} entries of the table changed; the new spread {held}");
    Ok(json!({ "done": [says], "moved_entries": moved, "settled_ns": settled_ns }))
}

/// Entries of the table that name another queue.
fn moved(old: &Rss, new: &Rss) -> usize {
    old.indirection.iter().zip(new.indirection.iter()).filter(|(old, new)| old != new).count()
}
