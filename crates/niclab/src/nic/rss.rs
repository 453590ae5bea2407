//! RSS of a port: reported, and changed while frames flow.

use std::time::Instant;

use niclab_card::{Card, ChangeError};
use niclab_control::Response;
use niclab_nic::rss::{Rss, RssAction, RssChange};
use niclab_nic::rule::text::port_rss;

use super::wait::wait;

/// Reports the RSS of a port, or changes it.
pub(super) fn answer(card: &mut Card, port: u16, change: Option<&str>) -> Result<Response, String> {
    let text = format!("rss {port} {}", change.unwrap_or_default());
    let (port, change) = port_rss(&text).map_err(|error| error.to_string())?;
    let answer = match change {
        None => shown(card, port),
        Some(change) => changed(card, port, &change),
    };
    answer.map_err(|error| error.to_string())
}

/// Reports the RSS of a port.
fn shown(card: &Card, port: u16) -> Result<Response, ChangeError> {
    card.core_without_rss(port)?;
    // A port that can be waited for has one.
    let rss = card.rss(port).cloned().unwrap_or_default();
    let parameters = RssAction {
        function: Some(rss.function),
        key: Some(rss.key),
        level: Some(rss.level),
        queues: Vec::new(),
        types: Some(rss.types),
    };
    let (parameters, indirection) = (parameters.to_string(), rss.indirection.to_vec());
    Ok(Response::Rss { port, parameters, indirection })
}

/// Changes it, and waits until the new state holds for all frames.
fn changed(card: &mut Card, port: u16, change: &RssChange) -> Result<Response, ChangeError> {
    // One before it may not be over.
    wait(|| card.core_without_rss(port))?;
    let before = card.rss(port).cloned();
    let begun = Instant::now();
    card.change_rss(port, change)?;
    let moved_entries = before.zip(card.rss(port)).map_or(0, |(old, new)| moved(&old, new));
    let waits_for = wait(|| card.core_without_rss(port))?;
    let settled_ns = waits_for.is_none().then(|| begun.elapsed().as_nanos() as u64);
    Ok(Response::RssChanged { port, moved_entries, settled_ns, waits_for })
}

/// Entries of the table that name another queue.
fn moved(old: &Rss, new: &Rss) -> u64 {
    let pairs = old.indirection.iter().zip(new.indirection.iter());
    pairs.filter(|(old, new)| old != new).count() as u64
}
