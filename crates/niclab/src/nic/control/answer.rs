//! Carries out requests to a card, and makes their answers.

use std::os::fd::OwnedFd;

use niclab_card::Card;
use niclab_control::{FlowDone, Request, Response};

use super::Access;
use crate::nic::card_program::{self, ProgramOwner};
use crate::nic::{capture, memory, rss, table_contents};
use crate::rules;

/// Requests allowed on a card that another program controls, as `niclab nic ctl` calls them.
const READ_ONLY: &str = "counters; capture PORT …; rss PORT; flow list or query; program show, \
    register, counter or window; table show; stop";

/// Whether a request changes nothing about how frames are decided.
pub(super) fn is_read_only(request: &Request) -> bool {
    match request {
        Request::CaptureBegin { .. }
        | Request::CaptureEnd { .. }
        | Request::CaptureState { .. }
        | Request::Counters {}
        | Request::Rss { change: None, .. }
        | Request::Stop {} => true,
        Request::Flow { command } => asks_only(command),
        Request::ProgramCounter { application, .. }
        | Request::ProgramRegister { application, .. }
        | Request::ProgramShow { application }
        | Request::ProgramWindow { application, .. }
        | Request::TableFile { application, .. }
        | Request::TableShow { application, .. } => application.is_none(),
        _ => false,
    }
}

/// Whether every command in this text asks for something, and there is one.
fn asks_only(text: &str) -> bool {
    let asks = |line: &str| {
        let mut words = line.split_whitespace();
        words.next() == Some("flow") && matches!(words.next(), Some("list" | "query"))
    };
    !text.is_empty() && text.lines().all(asks)
}

/// The refusal of a request that is not allowed here.
pub(super) fn refused(request: &Request, access: Access) -> Option<Response> {
    let is_allowed = access == Access::Full || is_read_only(request);
    (!is_allowed).then(|| {
        let whose = "this card serves a store, which controls it";
        Response::error(format!("{whose}; it can be asked: {READ_ONLY}"))
    })
}

/// Carries out a request, with the file that came beside it.
pub(super) fn carry_out(card: &mut Card, request: &Request, file: Option<OwnedFd>) -> Response {
    done(card, request, file).unwrap_or_else(Response::error)
}

fn done(card: &mut Card, request: &Request, file: Option<OwnedFd>) -> Result<Response, String> {
    match request {
        Request::Applications { name } => card_program::applications(card, name.as_deref()),
        Request::CaptureBegin { port, file: name, count } => {
            capture::begin(card, *port, (name.as_str(), file), *count)
        }
        Request::CaptureEnd { port } => capture::end(card, *port),
        Request::CaptureState { port } => capture::state(card, *port),
        Request::Counters {} => Ok(Response::Counters(card.counters())),
        Request::Flow { command } => flow(card, command),
        Request::ProgramCounter { application, array, index } => {
            card_program::counter(&ProgramOwner::of(application).view(card)?, array, *index)
        }
        Request::ProgramDigests { application, digest } => {
            card_program::digests(ProgramOwner::of(application).pipeline(card)?, digest)
        }
        Request::ProgramLoad { application, program, tables } => card_program::load_another(
            card,
            ProgramOwner::of(application),
            program,
            tables.as_ref(),
        ),
        Request::ProgramNone { application } => {
            card_program::remove(card, ProgramOwner::of(application))
        }
        Request::ProgramRegister { application, array, index } => {
            card_program::register(&ProgramOwner::of(application).view(card)?, array, *index)
        }
        Request::ProgramRing { application, ring, index } => {
            memory::ring(ProgramOwner::of(application).pipeline(card)?, ring, *index)
        }
        Request::ProgramShow { application } => {
            card_program::show(card, ProgramOwner::of(application))
        }
        Request::ProgramWindow { application, window, offset, count, width } => {
            let look = ProgramOwner::of(application).view(card)?;
            memory::window(&look, window, (*offset, *count), *width)
        }
        Request::Rss { port, change } => rss::answer(card, *port, change.as_deref()),
        Request::Stop {} => Ok(Response::Stopping {}),
        Request::TableCommand { application, command } => {
            card_program::command(card, ProgramOwner::of(application), command)
        }
        Request::TableFile { application, table } => {
            table_contents::file(&ProgramOwner::of(application).view(card)?, table.as_deref())
        }
        Request::TableLoad { application, tables, replace } => {
            card_program::load_tables(card, ProgramOwner::of(application), tables, *replace)
        }
        Request::TableShow { application, table } => {
            table_contents::show(&ProgramOwner::of(application).view(card)?, table.as_deref())
        }
        Request::TableTransaction { application, commands } => {
            card_program::transaction(card, ProgramOwner::of(application), commands)
        }
    }
}

fn flow(card: &mut Card, text: &str) -> Result<Response, String> {
    let records = card.apply(text).map_err(|error| error.to_string())?;
    let done = records.into_iter().map(|(port, record)| rules::done(port, record));
    let done: Vec<FlowDone> = done.collect();
    let is_created = |done: &FlowDone| matches!(done, FlowDone::Created { .. });
    let is_idle = done.iter().any(is_created) && card.program().is_some();
    Ok(Response::Flow { done, is_idle })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_only_asks_has_no_other_command_in_it() {
        for (text, asks) in [
            ("flow list 0", true),
            (" flow  query 0 0 count", true),
            ("flow list 0\nflow list 1\n", true),
            ("", false),
            ("flow", false),
            ("flow flush 0", false),
            ("flow list 0\nflow flush 0", false),
            ("set raw_encap 0 eth / end_set", false),
        ] {
            assert_eq!(asks_only(text), asks, "{text}");
        }
    }
}
