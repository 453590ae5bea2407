//! `tc filter … flower …` in the syntax of tc-flower(8): in scripts, in files of `tc -batch`, and
//! in the output of `tc filter show`, with statistics or without.
//!
//! Words, their abbreviations and their numbers are read as iproute2 6.1 reads them (`tc/tc.c`,
//! `tc/tc_filter.c`, `tc/f_flower.c`, `tc/m_action.c`); what they mean for the kernel is in
//! [`kernel`] (which filter wins) and [`flower`] (which packets a filter matches).
//!
//! Commands that create or show qdiscs are skipped, and a `\` joins lines. There is no shell here,
//! so a line of a script with more than one tc command is refused. The name of the device does not
//! matter: it may be a shell variable, and lines that assign its value are skipped.

mod action;
mod flower;
mod kernel;

use super::{Rules, Settings, Tokens};
use crate::text::TextError;
use flower::Filter;
use kernel::{Edit, Kernel};

/// Objects of tc, in the order in which it tries abbreviations.
const OBJECTS: &[&str] = &["qdisc", "class", "filter", "chain", "actions", "monitor", "exec"];
/// Commands about qdiscs, in that order.
const QDISC_COMMANDS: &[&str] =
    &["add", "change", "replace", "link", "delete", "list", "show", "lst", "help"];
/// Commands about filters, in that order.
const FILTER_COMMANDS: &[&str] =
    &["add", "change", "replace", "delete", "get", "list", "show", "lst", "help"];
/// Options before the object, in that order, and the number of words after each.
const OPTIONS: &[(&str, usize)] = &[
    ("-stats", 0),
    ("-statistics", 0),
    ("-details", 0),
    ("-raw", 0),
    ("-pretty", 0),
    ("-graph", 0),
    ("-iec", 0),
    ("-force", 0),
    ("-batch", 1),
    ("-netns", 1),
    ("-Numeric", 0),
    ("-names", 0),
    ("-nm", 0),
    ("-cf", 1),
    ("-conf", 1),
    ("-color", 0),
    ("-timestamp", 0),
    ("-tshort", 0),
    ("-json", 0),
    ("-oneline", 0),
    ("-brief", 0),
];

/// Words of one command at most, over all its lines.
const WORDS_MAX: usize = 4_096;

/// Resolves an abbreviation: the first of `words` that begins with `word`, which has at least one
/// letter (`matches` in iproute2's `lib/utils.c`).
fn resolve<'w>(word: &str, words: &[&'w str]) -> Option<&'w str> {
    words.iter().find(|full| !word.is_empty() && full.starts_with(word)).copied()
}

/// The form of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// In a script, after `tc`.
    Script,
    /// In a file of `tc -batch`, without `tc`.
    Batch,
    /// No command, but a filter in the output of `tc filter show`.
    Shown,
}

pub(super) fn convert(text: &str, rules: &mut Rules<'_>) -> Result<(), TextError> {
    let mut script = Script::default();
    for (line, text) in (1..).zip(text.lines()) {
        script.line(line, text)?;
    }
    script.end()?;
    script.kernel.write(rules);
    Ok(())
}

/// A text while it is read.
#[derive(Default)]
struct Script<'t> {
    kernel: Kernel,
    device: Option<String>,
    settings: Settings<'t>,
    /// The current command.
    words: Tokens<'t>,
    kind: Option<Kind>,
    /// The previous line ends with a `\`.
    is_joined: bool,
    /// Some line was a command of `tc -batch`.
    has_batch: bool,
}

impl<'t> Script<'t> {
    fn line(&mut self, line: u64, text: &'t str) -> Result<(), TextError> {
        let first = text.split_ascii_whitespace().next().unwrap_or("#");
        if first.starts_with('#') {
            self.is_joined = false;
            return Ok(());
        }
        if !self.is_joined {
            match begins(text) {
                Some(kind) => {
                    self.end()?;
                    self.kind = Some(kind);
                    self.has_batch |= kind == Kind::Batch;
                }
                // A filter that tc prints has several lines.
                None if self.kind == Some(Kind::Shown) && text.starts_with([' ', '\t']) => {}
                None if !self.has_batch && self.settings.take(line, text)? => {
                    return self.end();
                }
                None => return Err(self.no_command(line, text)),
            }
        }
        let joined = self.words.tokens.len();
        self.words.add(line, text);
        let is_blank = |it: char| it.is_ascii_whitespace();
        if self.is_joined && self.words.is_cut(joined) && !text.starts_with(is_blank) {
            let reason = "the `\\` before joins this to the word in front: put a blank between";
            return Err(self.words.unfit_at(joined, reason));
        }
        if self.kind == Some(Kind::Batch) {
            self.words.cut_comment();
        }
        if self.words.tokens.len() > WORDS_MAX {
            let reason = format!("a command of more than {WORDS_MAX} words");
            return Err(self.words.unfit_at(WORDS_MAX, &reason));
        }
        self.words.unquote()?;
        if self.kind == Some(Kind::Script) {
            check_shell(&self.words)?;
        }
        self.is_joined = self.kind != Some(Kind::Shown) && self.words.pop_backslash()?;
        Ok(())
    }

    /// The error for a line that is not a command of tc.
    fn no_command(&self, line: u64, text: &str) -> TextError {
        let mut words = Tokens::default();
        words.add(line, text);
        words.next();
        match self.has_batch {
            true => words.expected("an object of tc, such as `filter` or `qdisc`"),
            false => words.unfit(
                "no shell runs here: leave this out, or convert what `tc filter show dev DEV \
                 ingress` prints",
            ),
        }
    }

    /// Executes the current command, if there is one.
    fn end(&mut self) -> Result<(), TextError> {
        let Some(kind) = self.kind.take() else { return Ok(()) };
        let mut words = std::mem::take(&mut self.words);
        if kind == Kind::Shown {
            return match words.next() {
                "filter" => self.shown(&mut words),
                _ => Ok(()),
            };
        }
        if kind == Kind::Script && !options(&mut words)? {
            return Ok(());
        }
        match resolve(words.next(), OBJECTS) {
            Some("qdisc") => self.qdisc(&mut words),
            Some("filter") => self.filter(&mut words),
            Some(object) => Err(words.not_supported(format!("tc {object}"))),
            None => Err(words.expected("`filter` or `qdisc`")),
        }
    }

    /// Skips a command about qdiscs that does not change the filters.
    fn qdisc(&self, words: &mut Tokens<'_>) -> Result<(), TextError> {
        match resolve(words.next(), QDISC_COMMANDS) {
            Some("add" | "replace" | "show" | "list" | "lst") => Ok(()),
            Some("delete") if self.kernel.is_empty() => Ok(()),
            Some("delete") => Err(words.unfit(
                "a qdisc is deleted behind filters, which it may take along: convert what is added \
                 behind it alone",
            )),
            _ => Err(words.unfit(
                "of `tc qdisc` only `add`, `replace`, `show`, `list` and `delete` are passed over: \
                 leave this out",
            )),
        }
    }

    fn filter(&mut self, words: &mut Tokens<'_>) -> Result<(), TextError> {
        let edit = match resolve(words.next(), FILTER_COMMANDS) {
            Some("add") => Edit::Add,
            Some("change") => Edit::Change,
            Some("replace") => Edit::Replace,
            Some("delete") => return self.delete(words),
            Some("get" | "list" | "show" | "lst") => return Ok(()),
            _ => return Err(words.expected("`add`, `replace`, `change`, `delete` or `show`")),
        };
        let head = Head::read(words, &mut self.device, false)?;
        head.check(words)?;
        let mut filter = Filter::new(&head);
        while !words.is_at_end() {
            let key = words.next();
            match resolve(key, flower::KEYS) {
                Some("action") => filter.actions(words)?,
                Some(name) => filter.key(words, name)?,
                None if flower::SHOWN.contains(&key) => {
                    let reason = format!("tc prints {key} and does not read it: leave it out");
                    return Err(words.unfit(reason));
                }
                None => return Err(words.expected("a key of flower, or `action`")),
            }
        }
        let rule = filter.finish(words)?;
        self.kernel.put(words, edit, &head, rule)
    }

    /// Deletes filters that were added.
    fn delete(&mut self, words: &mut Tokens<'_>) -> Result<(), TextError> {
        let head = Head::read_to(words, &mut self.device, false, true)?;
        head.check(words)?;
        head.check_delete(words)?;
        self.kernel.delete(&head);
        Ok(())
    }

    /// A filter in the output of tc.
    fn shown(&mut self, words: &mut Tokens<'_>) -> Result<(), TextError> {
        let mut head = Head::read(words, &mut self.device, true)?;
        while matches!(words.peek(), "chain" | "handle") {
            head.word(words, true)?;
        }
        // The header line that tc prints before the filters of a priority.
        if head.handle.is_none() {
            return Ok(());
        }
        if head.pref.is_none() {
            return Err(words.unfit("the filter has no `pref`: show all filters of the device"));
        }
        let mut filter = Filter::new(&head);
        while !words.is_at_end() {
            match words.next() {
                "action" => filter.shown_actions(words)?,
                "eth_type" => filter.shown_type(words)?,
                "icmp_type" => filter.key(words, "type")?,
                "icmp_code" => filter.key(words, "code")?,
                key => match flower::KEYS.iter().find(|name| **name == key) {
                    Some(key) => filter.key(words, key)?,
                    None if flower::SHOWN.contains(&key) => {
                        words.at += usize::from(key == "in_hw_count");
                    }
                    None => return Err(words.not_supported(key)),
                },
            }
        }
        let rule = filter.finish(words)?;
        self.kernel.put(words, Edit::Add, &head, rule)
    }
}

/// Whether a line begins a command, and in which form.
fn begins(text: &str) -> Option<Kind> {
    let mut words = text.split_ascii_whitespace().peekable();
    if words.next_if_eq(&"sudo").is_some() || words.peek().is_some_and(|word| is_tc(word)) {
        return Some(Kind::Script);
    }
    let first = words.next()?;
    let object = resolve(first, OBJECTS)?;
    let is_command = words.next().is_some_and(|word| {
        resolve(word, QDISC_COMMANDS).or_else(|| resolve(word, FILTER_COMMANDS)).is_some()
    });
    let is_printed = first == object && matches!(object, "qdisc" | "class" | "filter" | "chain");
    match (is_command, is_printed) {
        (true, _) => Some(Kind::Batch),
        (false, true) => Some(Kind::Shown),
        (false, false) => None,
    }
}

fn is_tc(word: &str) -> bool {
    word == "tc" || word.ends_with("/tc")
}

/// Skips `tc` and its options; returns whether a command follows.
fn options(words: &mut Tokens<'_>) -> Result<bool, TextError> {
    if words.peek() == "sudo" {
        words.next();
    }
    if !is_tc(words.next()) {
        return Err(words.expected("`tc`"));
    }
    while words.peek().starts_with('-') {
        let word = words.next();
        let found = OPTIONS.iter().find(|(name, _)| word.len() > 1 && name.starts_with(word));
        match found {
            Some(("-batch", _)) => {
                return Err(words.unfit("the commands are in another file: convert that one"));
            }
            Some((_, behind)) => words.at += behind,
            None if ["-Version", "-help"].iter().any(|name| name.starts_with(word)) => {
                return Ok(false);
            }
            None => return Err(words.expected("an option of tc, `filter` or `qdisc`")),
        }
    }
    Ok(!words.is_at_end())
}

/// Refuses words with characters that a shell would interpret.
fn check_shell(words: &Tokens<'_>) -> Result<(), TextError> {
    let is_of_shell = |word: &str| word.contains([';', '&', '|', '<', '>', '`', '(', ')']);
    match words.tokens.iter().position(|token| is_of_shell(token.word)) {
        None => Ok(()),
        Some(at) => Err(words.unfit_at(
            at,
            "no shell runs here: write one command a line, without `&&`, `||`, `;`, `|`, `&` or \
             a redirection",
        )),
    }
}

/// The words before the keys of a filter.
#[derive(Default)]
struct Head {
    /// The line of the command.
    line: u64,
    is_ingress: bool,
    /// A type of Ethernet, or [`ETHER_ALL`](flower::ETHER_ALL).
    protocol: Option<u16>,
    pref: Option<u32>,
    chain: u32,
    handle: Option<u32>,
    /// Whether a handle is given, even if it is 0.
    has_handle: bool,
    /// Whether the kind of the filter is given.
    has_kind: bool,
}

impl Head {
    /// Reads the words up to and including `flower`.
    fn read(
        words: &mut Tokens<'_>,
        device: &mut Option<String>,
        is_shown: bool,
    ) -> Result<Head, TextError> {
        Head::read_to(words, device, is_shown, false)
    }

    /// The same, but the kind of the filter may be missing.
    fn read_to(
        words: &mut Tokens<'_>,
        device: &mut Option<String>,
        is_shown: bool,
        may_end: bool,
    ) -> Result<Head, TextError> {
        let mut head = Head { line: words.line(), ..Head::default() };
        loop {
            match words.peek() {
                "" if may_end => return Ok(head),
                "flower" => {
                    words.next();
                    head.has_kind = true;
                    return Ok(head);
                }
                "dev" => {
                    words.next();
                    let name = words.next();
                    if device.get_or_insert_with(|| name.to_owned()) != name {
                        let reason = "another device: convert the filters of one at a time";
                        return Err(words.unfit(reason));
                    }
                }
                _ => head.word(words, is_shown)?,
            }
        }
    }

    fn word(&mut self, words: &mut Tokens<'_>, is_shown: bool) -> Result<(), TextError> {
        const EXACT: [&str; 6] = ["root", "ingress", "egress", "parent", "handle", "pref"];
        const SHORT: &[&str] =
            &["block", "preference", "priority", "protocol", "chain", "estimator", "help"];
        let word = words.next();
        let exact = EXACT.into_iter().find(|exact| *exact == word);
        match exact.or_else(|| resolve(word, SHORT)) {
            Some("ingress" | "parent") if self.is_ingress => {
                return Err(words.unfit(format!("{word} is a second parent: name one")));
            }
            Some("ingress") => self.is_ingress = true,
            Some("parent") => match words.next() {
                "ffff:" | "ffff:0" | "ffff:fff1" | "ffff:fff2" => self.is_ingress = true,
                _ => return Err(words.not_supported("filters that are not of ingress")),
            },
            Some("egress" | "root") => {
                return Err(words.not_supported("filters that are not of ingress"));
            }
            Some("protocol") => self.protocol = Some(flower::ether_type(words, is_shown)?),
            Some("pref" | "preference" | "priority") => {
                let pref = words.c_number("pref", 0, u16::MAX.into())? as u32;
                // 0 is none.
                self.pref = Some(pref).filter(|pref| *pref > 0);
            }
            Some("chain") => self.chain = words.c_number("chain", 0, flower::CHAIN_MAX)? as u32,
            Some("handle") => {
                let handle = words.c_number("handle", 0, u32::MAX.into())? as u32;
                self.handle = Some(handle).filter(|handle| *handle > 0);
                self.has_handle = true;
            }
            Some(name @ ("block" | "estimator")) => return Err(words.not_supported(name)),
            _ => {
                return Err(words.expected(
                    "`flower` (other filters have no equivalent), or a word that may stand before \
                     it",
                ));
            }
        }
        Ok(())
    }

    /// Refuses filters of egress, once all words of it were read.
    fn check(&self, words: &Tokens<'_>) -> Result<(), TextError> {
        match self.is_ingress {
            true => Ok(()),
            false => Err(words.unfit(
                "neither `ingress` nor `parent ffff:`: tc means the filters of the root qdisc, \
                 where packets leave",
            )),
        }
    }

    /// Refuses what tc (`tc_filter_modify`) or the kernel (`tc_del_tfilter`) does not delete.
    fn check_delete(&self, words: &Tokens<'_>) -> Result<(), TextError> {
        if self.has_handle && !self.has_kind {
            return Err(
                words.unfit("`handle` without `flower`: tc deletes no filter; add `flower`")
            );
        }
        let given = [
            (self.protocol.is_some_and(|protocol| protocol != 0), "protocol"),
            (self.handle.is_some(), "handle"),
            (self.has_kind, "flower"),
        ];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, name)) if self.pref.is_none() => Err(words.unfit(format!(
                "`delete` with `{name}` and without `pref`: the kernel deletes no filter; add \
                 `pref`"
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
