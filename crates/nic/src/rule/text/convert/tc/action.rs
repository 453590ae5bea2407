//! The actions of a filter, as `tc/m_action.c` of iproute2 6.1 and its parsers for the actions read
//! them.

use super::super::Tokens;
use super::flower::{CHAIN_MAX, Filter};
use super::resolve;
use crate::text::TextError;

/// The fates of a packet, in the order in which tc tries abbreviations.
const CONTROLS: &[&str] =
    &["continue", "drop", "shot", "pass", "ok", "reclassify", "pipe", "goto", "jump", "trap"];

/// Commands, whose abbreviations end the actions of a filter.
const COMMANDS: &[&str] = &["change", "replace", "delete", "add"];

/// Options after an action that do not affect packets: name, and number of words after it.
const ASIDE: &[(&str, usize)] = &[
    ("index", 1),
    ("cookie", 1),
    ("hw_stats", 1),
    ("no_percpu", 0),
    ("skip_sw", 0),
    ("skip_hw", 0),
];

impl Filter {
    /// Reads all actions of a filter, to its end; the word `action` was read.
    pub(super) fn actions(&mut self, words: &mut Tokens<'_>) -> Result<(), TextError> {
        loop {
            while words.peek() == "action" {
                words.next();
            }
            self.action(words, false)?;
            if words.peek() == "random" {
                words.next();
                return Err(words.not_supported("random actions"));
            }
            while let Some((_, behind)) = ASIDE.iter().find(|(name, _)| *name == words.peek()) {
                words.at += 1 + *behind;
            }
            match words.peek() {
                "" => return Ok(()),
                "action" => {}
                _ => {
                    words.next();
                    return Err(words.expected("`action` or the end of the filter"));
                }
            }
        }
    }

    /// Reads one action in the output of tc, and its attributes after it.
    pub(super) fn shown_actions(&mut self, words: &mut Tokens<'_>) -> Result<(), TextError> {
        if words.peek() == "order" {
            words.at += 2;
        }
        self.action(words, true)?;
        while !words.is_at_end() && (words.peek(), words.peek_second()) != ("action", "order") {
            let is_random = words.next() == "random" && words.peek() == "type";
            if is_random && words.peek_second() != "none" {
                return Err(words.not_supported("random actions"));
            }
        }
        Ok(())
    }

    fn action(&mut self, words: &mut Tokens<'_>, is_shown: bool) -> Result<(), TextError> {
        let name = words.next();
        // tc accepts `g` for `gact`.
        if resolve(name, COMMANDS).is_some() || matches!(name, "g" | "ga" | "gac") {
            return Err(words.expected("an action, written out"));
        }
        let action = match (resolve(name, CONTROLS), name) {
            (Some(control), _) => self.control(words, control)?,
            (None, "gact") => {
                if is_shown && words.peek() == "action" {
                    words.next();
                }
                match resolve(words.next(), CONTROLS) {
                    Some(control) => self.control(words, control)?,
                    None => return Err(words.not_supported(format!("gact {}", words.last()))),
                }
            }
            (None, "skbedit") => Some(skbedit(words)?),
            (None, "mirred") => {
                let what = "action mirred: it names an interface, and rules know queues and ports \
                            by their number";
                return Err(words.not_supported(what));
            }
            (None, "") => return Err(words.expected("an action")),
            (None, name) => return Err(words.not_supported(format!("action {name}"))),
        };
        let Some(action) = action else { return Ok(()) };
        match self.action.replace(action) {
            Some(first) => Err(words.unfit(format!("two fates: `{first}` and this one"))),
            None => Ok(()),
        }
    }

    /// The action with this effect; `None` if an earlier action has chosen the queue and the packet
    /// passes.
    fn control(
        &mut self,
        words: &mut Tokens<'_>,
        control: &str,
    ) -> Result<Option<String>, TextError> {
        match control {
            "drop" | "shot" => Ok(Some("drop".to_owned())),
            // To the host, like a packet that no filter matches: testpmd's `rss` does the same.
            "pass" | "ok" => Ok(self.action.is_none().then(|| "rss".to_owned())),
            "goto" => {
                if resolve(words.next(), &["chain"]).is_none() {
                    return Err(words.expected("`chain`"));
                }
                let to = words.c_number("chain", 10, CHAIN_MAX)? as u32;
                if to <= self.chain {
                    return Err(words
                        .unfit("`goto chain` goes back, or stays: here rules jump forward alone"));
                }
                Ok(Some(format!("jump group {to}")))
            }
            control => Err(words.not_supported(format!("action {control}"))),
        }
    }
}

/// `queue_mapping N`, and the word after it.
fn skbedit(words: &mut Tokens<'_>) -> Result<String, TextError> {
    const WHAT: &[&str] = &["queue_mapping", "priority", "mark", "ptype", "inheritdsfield"];
    match resolve(words.next(), WHAT) {
        Some("queue_mapping") => {}
        Some(what) => return Err(words.not_supported(format!("skbedit {what}"))),
        None => return Err(words.expected("`queue_mapping`")),
    }
    let queue = words.c_number("queue_mapping", 10, u16::MAX.into())?;
    let action = words.queue(queue)?;
    match resolve(words.peek(), WHAT).or_else(|| resolve(words.peek(), CONTROLS)) {
        None => {}
        Some("pipe" | "pass" | "ok") => words.at += 1,
        Some(what) => {
            words.next();
            return Err(words.not_supported(format!("skbedit with {what}")));
        }
    }
    Ok(action)
}
