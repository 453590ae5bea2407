//! Reads files of rules.

use std::ops::Range;

use niclab_nic::text::{Problem, TextError};

use super::expression::{Denoted, ExpressionError, ExpressionProblem, evaluate};
use super::{Action, Keyword, Protocol, Rule, RuleEnd};
use crate::ranges::{AddressSet, RangeSet};
use crate::variables::Variables;

/// The longest rule, bytes; Suricata's `DETECT_MAX_RULE_SIZE` is the same.
pub const LINE_MAX: usize = 8192;

/// The most errors that are reported of a file.
pub const ERRORS_MAX: usize = 20;

/// A rule that cannot be read. It is displayed with its line, and a caret under the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(#[source] TextError);

impl RuleError {
    /// The number of the line, from 1.
    pub fn line(&self) -> u64 {
        self.0.line()
    }

    /// The column, from 1.
    pub fn column(&self) -> usize {
        self.0.column()
    }
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleProblem {
    /// Something else should be there.
    #[error("expected {0}")]
    Expected(&'static str),
    /// Addresses or ports are wrong.
    #[error("{0}")]
    Expression(#[from] ExpressionProblem),
    /// The line is too long.
    #[error("a rule has at most 8192 bytes in Suricata; shorten it")]
    Long,
    /// The `sid` is taken.
    #[error("the rule of line {line} has the same sid and gid; give each rule its own")]
    Duplicate {
        /// The line of the other rule.
        line: u64,
    },
}

/// Reads the rules of a file, in order. Lines of comments, and rules within them, are left out.
///
/// # Errors
/// The first 20 rules that cannot be read, in order: nothing of the file is used.
pub fn read(text: &str, variables: &Variables) -> Result<Vec<Rule>, Vec<RuleError>> {
    let rules = read_with(text, variables, |_| Ok(()))?;
    Ok(rules.into_iter().map(|(rule, ())| rule).collect())
}

/// Reads as [`read`] does, and derives a value from each rule. An error of `derive` names the
/// number of a keyword, whose place it gets.
pub(crate) fn read_with<T>(
    text: &str,
    variables: &Variables,
    derive: impl Fn(&Rule) -> Result<T, (usize, RuleProblem)>,
) -> Result<Vec<(Rule, T)>, Vec<RuleError>> {
    let (mut rules, mut errors): (Vec<(Rule, T)>, Vec<RuleError>) = (Vec::new(), Vec::new());
    let mut lines_of = std::collections::HashMap::new();
    for line in joined_lines(text) {
        if errors.len() == ERRORS_MAX {
            break;
        }
        let derived = RuleReader::new(&line.text, variables).rule(line.first()).and_then(|read| {
            let (rule, places) = read;
            match derive(&rule) {
                Ok(value) => Ok((rule, value, places)),
                Err((keyword, problem)) => Err((places[keyword].clone(), problem)),
            }
        });
        match derived {
            Ok((rule, value, places)) => match lines_of.insert((rule.gid, rule.sid), rule.line) {
                None => rules.push((rule, value)),
                Some(other) => {
                    let is_sid = |keyword: &Keyword| keyword.name == "sid";
                    let sid = rule.keywords.iter().position(is_sid).unwrap_or_default();
                    let problem = RuleProblem::Duplicate { line: other };
                    errors.push(line.error(places[sid].clone(), problem));
                }
            },
            Err((place, problem)) => errors.push(line.error(place, problem)),
        }
    }
    if errors.is_empty() { Ok(rules) } else { Err(errors) }
}

/// A rule's lines as one: a `\` at the end of a line joins it with the next.
struct JoinedLine<'a> {
    text: String,
    /// The number of each line, where it begins in `text`, and its own text.
    lines: Vec<(u64, usize, &'a str)>,
}

impl JoinedLine<'_> {
    fn first(&self) -> u64 {
        self.lines[0].0
    }

    fn error(&self, place: Range<usize>, problem: RuleProblem) -> RuleError {
        let behind = self.lines.partition_point(|&(_, start, _)| start <= place.start);
        let (number, start, text) = self.lines[behind.max(1) - 1];
        let within = |at: usize| {
            let mut at = at.saturating_sub(start).min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let place = (within(place.start), within(place.end));
        let problem = Problem::Unfit { reason: problem.to_string() };
        RuleError(TextError::new(number, text, place, problem))
    }
}

/// The rules of a text. As in Suricata, a line that begins with a blank, `#` or `;` has none.
fn joined_lines(text: &str) -> Vec<JoinedLine<'_>> {
    let (mut rules, mut open): (Vec<JoinedLine<'_>>, bool) = (Vec::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        // Suricata goes over blanks at the end.
        let (part, goes_on) = match line.trim_end().strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        if !open {
            if line.is_empty() || line.starts_with([' ', '\t', '#', ';', '\r']) {
                continue;
            }
            rules.push(JoinedLine { text: String::new(), lines: Vec::new() });
        }
        if let Some(rule) = rules.last_mut() {
            rule.lines.push((number, rule.text.len(), line));
            rule.text.push_str(part);
        }
        open = goes_on;
    }
    rules
}

type Placed<T> = Result<T, (Range<usize>, RuleProblem)>;

/// A place in the text of a rule.
struct RuleReader<'a> {
    text: &'a str,
    at: usize,
    variables: &'a Variables,
}

const ACTIONS: [(&str, Action); 8] = [
    ("alert", Action::Alert),
    ("pass", Action::Pass),
    ("drop", Action::Drop),
    ("reject", Action::Reject),
    ("rejectsrc", Action::Reject),
    ("rejectdst", Action::Reject),
    ("rejectboth", Action::Reject),
    ("config", Action::Config),
];

impl<'a> RuleReader<'a> {
    fn new(text: &'a str, variables: &'a Variables) -> Self {
        RuleReader { text, at: 0, variables }
    }

    /// The rule, and the place of each keyword.
    fn rule(mut self, line: u64) -> Placed<(Rule, Vec<Range<usize>>)> {
        if self.text.len() > LINE_MAX {
            return Err((LINE_MAX..self.text.len(), RuleProblem::Long));
        }
        let (place, word) = self.word();
        let Some(&(_, action)) = ACTIONS.iter().find(|(name, _)| *name == word) else {
            return expected(place, "an action: alert, pass, drop, reject or config");
        };
        let (place, word) = self.word();
        let Some(protocol) = Protocol::named(&word.to_ascii_lowercase()) else {
            return expected(place, "a protocol, such as tcp, udp, icmp, ip, http or dns");
        };
        let source = self.end()?;
        let is_bidirectional = match self.word() {
            (_, "->") => false,
            (_, "<>") => true,
            (place, _) => return expected(place, "`->` or `<>`"),
        };
        let destination = self.end()?;
        let (keywords, places) = self.options()?;
        let number = |name: &str| {
            let at = keywords.iter().position(|keyword: &Keyword| keyword.name == name)?;
            let value = keywords[at].value.as_deref().unwrap_or_default();
            Some((places[at].clone(), value.parse::<u32>().ok()))
        };
        let (place, sid) = match number("sid") {
            Some((place, Some(sid @ 1..))) => (place, sid),
            Some((place, _)) => return expected(place, "a sid of 1 to 4294967295"),
            None => return expected(self.text.len()..self.text.len(), "a sid: `sid:NUMBER;`"),
        };
        if let Some(at) = keywords.iter().rposition(|keyword| keyword.name == "sid")
            && places[at] != place
        {
            return expected(places[at].clone(), "one sid; leave the others out");
        }
        let gid = match number("gid") {
            None => 1,
            Some((_, Some(gid))) => gid,
            Some((place, None)) => return expected(place, "a gid of 0 to 4294967295"),
        };
        let text = self.text.trim().to_owned();
        let rule = Rule {
            line,
            text,
            action,
            protocol,
            source,
            destination,
            is_bidirectional,
            keywords,
            sid,
            gid,
        };
        Ok((rule, places))
    }

    /// Skips blanks.
    fn skip(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// The next word. Blanks within brackets belong to it.
    fn word(&mut self) -> (Range<usize>, &'a str) {
        self.skip();
        let (start, mut depth) = (self.at, 0u32);
        for (at, char) in self.text[start..].char_indices() {
            match char {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                '(' => break,
                _ if depth == 0 && char.is_whitespace() => break,
                _ => {}
            }
            self.at = start + at + char.len_utf8();
        }
        (start..self.at, &self.text[start..self.at])
    }

    /// Addresses and ports.
    fn end(&mut self) -> Placed<RuleEnd> {
        let (addresses, has_address_variables) = self.set::<AddressSet>()?;
        self.skip();
        let start = self.at;
        let (ports, _) = self.set::<RangeSet>()?;
        let names_ports = !self.text[start..self.at].eq_ignore_ascii_case("any");
        Ok(RuleEnd { addresses, has_address_variables, ports, names_ports })
    }

    fn set<S: Denoted>(&mut self) -> Placed<(S, bool)> {
        let (place, word) = self.word();
        evaluate(word, self.variables).map_err(|ExpressionError { place: within, problem }| {
            (place.start + within.start..place.start + within.end, problem.into())
        })
    }

    /// The options, and the place of each.
    fn options(&mut self) -> Placed<(Vec<Keyword>, Vec<Range<usize>>)> {
        self.skip();
        let end = self.text.trim_end().len();
        if !self.text[self.at..].starts_with('(') {
            return expected(self.at..self.at, "`(` and the options");
        }
        if !self.text[..end].ends_with(')') || self.at + 1 == end {
            return expected(end..end, "`)`");
        }
        self.at += 1;
        let (mut keywords, mut places) = (Vec::new(), Vec::new());
        loop {
            self.skip();
            if self.at >= end - 1 {
                return Ok((keywords, places));
            }
            let start = self.at;
            let Some(len) = option_len(&self.text[start..end - 1]) else {
                return expected(end - 1..end, "`;` after the option");
            };
            self.at = start + len + 1;
            let option = &self.text[start..start + len];
            let (name, value) = match option.split_once(':') {
                Some((name, value)) => (name, Some(value.trim().to_owned())),
                None => (option, None),
            };
            let name = name.trim_end();
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            if name.is_empty() || !name.chars().all(fits) {
                return expected(start..start + name.len(), "the name of an option");
            }
            keywords.push(Keyword { name: name.to_ascii_lowercase(), value });
            places.push(start..start + len);
        }
    }
}

fn expected<T>(place: Range<usize>, what: &'static str) -> Placed<T> {
    Err((place, RuleProblem::Expected(what)))
}

/// Bytes of the first option, without its `;`. A `\` escapes the next character.
fn option_len(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b';' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
