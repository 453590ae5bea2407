//! Addresses and ports as a rule writes them: `[10.0.0.0/8,!$DNS_SERVERS]`, `1024:`, `any`.

use std::net::IpAddr;
use std::ops::Range;

use crate::ranges::{AddressSet, RangeSet};
use crate::variables::Variables;

/// Lists within lists, and variables within variables, at most.
const DEPTH_MAX: u32 = 32;

/// An error in an expression, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpressionError {
    /// Bytes of the expression.
    pub(crate) place: Range<usize>,
    pub(crate) problem: ExpressionProblem,
}

/// An error in addresses or ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionProblem {
    /// Something else should be there.
    #[error("expected {0}")]
    Expected(&'static str),
    /// No variable has this name.
    #[error("the variable {0} is not defined; define it in `vars` of suricata.yaml")]
    Undefined(String),
    /// A variable's own value is wrong.
    #[error("the value of {name} is wrong: {problem}")]
    InVariable {
        /// The variable.
        name: String,
        /// The error in its value.
        problem: Box<ExpressionProblem>,
    },
    /// Lists or variables contain each other without end.
    #[error("more than 32 lists or variables within each other; does a variable contain itself?")]
    Depth,
    /// Nothing is left.
    #[error("this has no {0}, so the rule can never match")]
    Empty(&'static str),
}

/// A set that expressions denote.
pub(crate) trait Denoted: Default {
    /// `addresses` or `ports`.
    const NAME: &'static str;

    fn all() -> Self;
    fn is_empty(&self) -> bool;
    fn union(&self, other: &Self) -> Self;
    fn difference(&self, other: &Self) -> Self;
    /// The set that a single word names, or what should be there.
    fn word(word: &str) -> Result<Self, &'static str>;
    /// The set from which negated parts are taken, of the plain parts of a list if it has some.
    fn base(plain: Option<Self>, negated: &Self) -> Self;
    /// All but this set.
    fn negated(&self) -> Self {
        Self::base(None, self).difference(self)
    }
    /// The value of a variable.
    fn variable<'a>(variables: &'a Variables, name: &str) -> Option<&'a str>;
}

impl Denoted for AddressSet {
    const NAME: &'static str = "addresses";

    fn all() -> Self {
        AddressSet::all()
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn union(&self, other: &Self) -> Self {
        self.union(other)
    }

    fn difference(&self, other: &Self) -> Self {
        self.difference(other)
    }

    fn word(word: &str) -> Result<Self, &'static str> {
        let address = |text: &str| -> Result<IpAddr, &'static str> {
            text.trim().parse().map_err(|_| "an address, such as 10.0.0.1, 10.0.0.0/8 or $HOME_NET")
        };
        if let Some((first, last)) = word.split_once('-') {
            return AddressSet::range(address(first)?, address(last)?)
                .ok_or("two addresses of one version, the smaller first");
        }
        let (start, len) = match word.split_once('/') {
            None => {
                let start = address(word)?;
                (start, if start.is_ipv4() { 32 } else { 128 })
            }
            Some((start, mask)) => (address(start)?, prefix_len(mask)?),
        };
        AddressSet::prefix(start, len).ok_or("a prefix of at most 32 bits, or 128 for IPv6")
    }

    /// A version of IP with negated parts alone has all its other addresses. A version without any
    /// part has none.
    fn base(plain: Option<Self>, negated: &Self) -> Self {
        let (mut base, all) = (plain.unwrap_or_default(), AddressSet::all());
        if base.v4.is_empty() && !negated.v4.is_empty() {
            base.v4 = all.v4;
        }
        if base.v6.is_empty() && !negated.v6.is_empty() {
            base.v6 = all.v6;
        }
        base
    }

    fn variable<'a>(variables: &'a Variables, name: &str) -> Option<&'a str> {
        variables.addresses(name)
    }
}

/// A number of bits, or a mask such as 255.255.0.0.
fn prefix_len(mask: &str) -> Result<u32, &'static str> {
    const EXPECTED: &str = "a number of bits or a mask, such as 8 or 255.0.0.0";
    if let Ok(mask) = mask.parse::<std::net::Ipv4Addr>() {
        let bits = u32::from(mask);
        let len = bits.leading_ones();
        return if bits.count_ones() == len { Ok(len) } else { Err(EXPECTED) };
    }
    mask.parse().map_err(|_| EXPECTED)
}

impl Denoted for RangeSet {
    const NAME: &'static str = "ports";

    fn base(plain: Option<Self>, _negated: &Self) -> Self {
        plain.unwrap_or_else(Self::all)
    }

    fn all() -> Self {
        RangeSet::new([(0, u16::MAX.into())])
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn union(&self, other: &Self) -> Self {
        self.union(other)
    }

    fn difference(&self, other: &Self) -> Self {
        self.difference(other)
    }

    fn word(word: &str) -> Result<Self, &'static str> {
        let port = |text: &str| {
            let port = text.trim().parse::<u16>();
            port.map_err(|_| "a port up to 65535, or a range such as 80:90")
        };
        let open = |text: &str, limit| if text.trim().is_empty() { Ok(limit) } else { port(text) };
        let (low, high) = match word.split_once(':') {
            Some((low, high)) => (open(low, 0)?, open(high, u16::MAX)?),
            None => (port(word)?, port(word)?),
        };
        if low > high {
            return Err("a range of ports with the smaller first");
        }
        Ok(RangeSet::new([(low.into(), high.into())]))
    }

    fn variable<'a>(variables: &'a Variables, name: &str) -> Option<&'a str> {
        variables.ports(name)
    }
}

/// The set that an expression denotes, and whether variables are in it.
///
/// A list is the union of its plain parts, minus its negated parts. A list of negated parts alone
/// is everything minus them, of the versions of IP that it names.
pub(crate) fn evaluate<S: Denoted>(
    text: &str,
    variables: &Variables,
) -> Result<(S, bool), ExpressionError> {
    let mut reader = ExpressionReader { text, at: 0, variables, depth: 0, has_variables: false };
    let (negated, set) = reader.part::<S>()?;
    if reader.at < text.len() {
        return Err(reader.error(reader.at..text.len(), expected("the end of the list")));
    }
    let set = if negated { set.negated() } else { set };
    if set.is_empty() {
        return Err(reader.error(0..text.len(), ExpressionProblem::Empty(S::NAME)));
    }
    Ok((set, reader.has_variables))
}

fn expected(what: &'static str) -> ExpressionProblem {
    ExpressionProblem::Expected(what)
}

struct ExpressionReader<'a> {
    text: &'a str,
    at: usize,
    variables: &'a Variables,
    depth: u32,
    has_variables: bool,
}

impl ExpressionReader<'_> {
    fn error(&self, place: Range<usize>, problem: ExpressionProblem) -> ExpressionError {
        ExpressionError { place, problem }
    }

    /// Skips blanks, and `symbol` if it follows.
    fn take(&mut self, symbol: char) -> bool {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        let is_next = self.text[self.at..].starts_with(symbol);
        self.at += if is_next { symbol.len_utf8() } else { 0 };
        is_next
    }

    /// A part of a list, and whether a `!` is in front of it.
    fn part<S: Denoted>(&mut self) -> Result<(bool, S), ExpressionError> {
        let negated = self.take('!');
        let start = self.at;
        if self.depth >= DEPTH_MAX {
            return Err(self.error(start..self.text.len(), ExpressionProblem::Depth));
        }
        self.depth += 1;
        let set = if self.take('[') { self.list() } else { self.word() };
        self.depth -= 1;
        self.take(' ');
        Ok((negated, set?))
    }

    /// The parts after a `[`.
    fn list<S: Denoted>(&mut self) -> Result<S, ExpressionError> {
        let (mut with, mut without, mut has_with) = (S::default(), S::default(), false);
        loop {
            let (negated, set) = self.part::<S>()?;
            if negated {
                without = without.union(&set);
            } else {
                (with, has_with) = (with.union(&set), true);
            }
            if self.take(']') {
                return Ok(S::base(has_with.then_some(with), &without).difference(&without));
            }
            if !self.take(',') {
                let end = self.at + self.text[self.at..].chars().next().map_or(0, char::len_utf8);
                return Err(self.error(self.at..end, expected("`,` or `]`")));
            }
        }
    }

    fn word<S: Denoted>(&mut self) -> Result<S, ExpressionError> {
        let rest = &self.text[self.at..];
        let start = self.at + (rest.len() - rest.trim_start().len());
        let rest = &self.text[start..];
        let word = rest.split([',', ']', '[', '!']).next().unwrap_or_default().trim_end();
        let place = start..start + word.len();
        self.at = place.end;
        if word.eq_ignore_ascii_case("any") {
            return Ok(S::all());
        }
        let Some(name) = word.strip_prefix('$') else {
            return S::word(word).map_err(|what| self.error(place, expected(what)));
        };
        self.has_variables = true;
        let Some(value) = S::variable(self.variables, name) else {
            return Err(self.error(place, ExpressionProblem::Undefined(name.to_owned())));
        };
        let mut inner = ExpressionReader {
            text: value,
            at: 0,
            variables: self.variables,
            depth: self.depth,
            has_variables: false,
        };
        let part = inner.part::<S>().and_then(|(negated, set)| match &value[inner.at..] {
            "" => Ok(if negated { set.negated() } else { set }),
            _ => Err(inner.error(inner.at..value.len(), expected("the end of the list"))),
        });
        part.map_err(|error| {
            let problem = match error.problem {
                problem @ ExpressionProblem::Depth => problem,
                problem => ExpressionProblem::InVariable {
                    name: name.to_owned(),
                    problem: Box::new(problem),
                },
            };
            self.error(place, problem)
        })
    }
}

#[cfg(test)]
#[path = "expression_tests.rs"]
mod tests;
