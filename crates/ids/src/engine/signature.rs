//! Rules as the engine matches them.

use std::sync::Arc;

use super::content::{Content, Modifier, NextTest};
use super::field::{ByteJump, ByteTest, DataAt};
use super::header::{FlagTest, PayloadSize, Protocols, RuleHeader};
use super::lack::Lack;
use super::limits;
use super::pcre::Pcre;
use crate::rule::{Action, Keyword, Rule};

/// Priority of a rule without the keyword.
const PRIORITY: i32 = 3;
/// The number that Suricata has for no priority.
const NO_PRIORITY: i32 = -1;
/// Digits of a priority, at most.
const PRIORITY_DIGITS_MAX: usize = 127;

/// Keywords that change no match.
const DESCRIPTIONS: [&str; 9] =
    ["msg", "sid", "gid", "rev", "reference", "metadata", "classtype", "target", "noalert"];

/// A rule that the engine supports.
#[derive(Clone, Debug)]
pub struct Signature {
    pub(super) sid: u32,
    pub(super) gid: u32,
    pub(super) action: Action,
    /// Whether it reports nothing.
    pub(super) is_silent: bool,
    pub(super) priority: i32,
    /// One, or two if source and destination can change places.
    pub(super) headers: Vec<RuleHeader>,
    pub(super) size: Option<PayloadSize>,
    pub(super) flags: Vec<FlagTest>,
    /// In order.
    pub(super) tests: Vec<PayloadTest>,
    /// The content whose bytes find candidates, as the number of a test.
    pub(super) pattern: Option<usize>,
}

/// A keyword that looks into the payload.
#[derive(Clone, Debug)]
pub(super) enum PayloadTest {
    Content(Box<Content>),
    Pcre(Box<Pcre>),
    ByteTest(ByteTest),
    ByteJump(ByteJump),
    DataAt(DataAt),
}

impl PayloadTest {
    /// Whether it begins at the end of the match before.
    fn is_relative(&self) -> bool {
        match self {
            PayloadTest::Content(content) => content.is_relative(),
            PayloadTest::Pcre(pcre) => pcre.is_relative,
            PayloadTest::ByteTest(test) => test.field.is_relative,
            PayloadTest::ByteJump(jump) => jump.field.is_relative,
            PayloadTest::DataAt(place) => place.is_relative,
        }
    }

    /// Whether later tests can begin at its end.
    fn sets_place(&self) -> bool {
        match self {
            PayloadTest::Content(content) => !content.negated,
            PayloadTest::Pcre(pcre) => !pcre.negated,
            PayloadTest::ByteJump(_) => true,
            PayloadTest::ByteTest(_) | PayloadTest::DataAt(_) => false,
        }
    }
}

/// A reason why the engine has no signature for a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignatureProblem {
    /// The engine lacks what the rule needs.
    Unsupported(Vec<Lack>),
    /// A keyword is wrong. Suricata refuses the rule, or does something else than it says.
    Wrong {
        /// The number of the keyword.
        keyword: usize,
        /// What should be there.
        expected: &'static str,
    },
}

/// Why a value does not fit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Unfit {
    Expected(&'static str),
    Lack(Lack),
}

impl From<&'static str> for Unfit {
    fn from(expected: &'static str) -> Unfit {
        Unfit::Expected(expected)
    }
}

/// A keyword that the engine has read.
enum KeywordForm {
    Description,
    Test(PayloadTest),
    Modifier(Modifier),
    Size(PayloadSize),
    Flags(FlagTest),
    Priority(i64),
}

impl KeywordForm {
    fn read(keyword: &Keyword) -> Result<KeywordForm, Unfit> {
        let (name, value) = (keyword.name.as_str(), keyword.value.as_deref().unwrap_or_default());
        if let Some(modifier) = Modifier::read(name, keyword.value.as_deref()) {
            return Ok(KeywordForm::Modifier(modifier?));
        }
        Ok(match name {
            "content" => KeywordForm::Test(PayloadTest::Content(Box::new(Content::read(value)?))),
            "pcre" => KeywordForm::Test(PayloadTest::Pcre(Box::new(Pcre::read(value)?))),
            "byte_test" => KeywordForm::Test(PayloadTest::ByteTest(ByteTest::read(value)?)),
            "byte_jump" => KeywordForm::Test(PayloadTest::ByteJump(ByteJump::read(value)?)),
            "isdataat" => KeywordForm::Test(PayloadTest::DataAt(DataAt::read(value)?)),
            "dsize" => KeywordForm::Size(PayloadSize::read(value)?),
            "flags" | "tcp.flags" => KeywordForm::Flags(FlagTest::read(value)?),
            "priority" => KeywordForm::Priority(priority(value).ok_or("a number without a sign")?),
            "noalert" if !value.is_empty() => return Err("no value".into()),
            name if DESCRIPTIONS.contains(&name) => KeywordForm::Description,
            name => return Err(Unfit::Lack(Lack::Keyword(name.to_owned()))),
        })
    }
}

impl Signature {
    /// The signature of a rule.
    ///
    /// # Errors
    /// A keyword is wrong, or the engine lacks something: all that it lacks is named.
    pub fn of(rule: &Rule) -> Result<Signature, SignatureProblem> {
        let (mut forms, mut lacks) = (Vec::new(), Vec::new());
        for (at, keyword) in rule.keywords.iter().enumerate() {
            match KeywordForm::read(keyword) {
                Ok(form) => forms.push(form),
                Err(Unfit::Lack(lack)) => lacks.push(lack),
                Err(Unfit::Expected(expected)) => {
                    return Err(SignatureProblem::Wrong { keyword: at, expected });
                }
            }
        }
        if rule.action == Action::Config {
            lacks.push(Lack::Config);
        }
        let protocols = Protocols::named(&rule.protocol.name);
        if protocols.is_none() {
            lacks.push(Lack::Protocol(rule.protocol.name.clone()));
        }
        let Some(protocols) = protocols.filter(|_| lacks.is_empty()) else {
            lacks.sort_unstable();
            lacks.dedup();
            return Err(SignatureProblem::Unsupported(lacks));
        };
        let mut signature = Signature::with_headers(rule, protocols);
        signature.add(forms)?;
        signature.check(rule)?;
        signature.finish()?;
        Ok(signature)
    }

    /// Bytes that it has, with those that it points to and shares with no other.
    pub(super) fn memory_bytes(&self) -> usize {
        let tests = self.tests.iter().map(|test| match test {
            PayloadTest::Content(content) => size_of::<Content>() + content.memory_bytes(),
            PayloadTest::Pcre(pcre) => size_of::<Pcre>() + pcre.memory_bytes(),
            PayloadTest::ByteTest(_) | PayloadTest::ByteJump(_) | PayloadTest::DataAt(_) => 0,
        });
        size_of::<Signature>()
            + self.headers.capacity() * size_of::<RuleHeader>()
            + self.flags.capacity() * size_of::<FlagTest>()
            + self.tests.capacity() * size_of::<PayloadTest>()
            + tests.sum::<usize>()
    }

    /// Its regular expressions.
    pub(super) fn expressions(&self) -> impl Iterator<Item = &Pcre> {
        self.tests.iter().filter_map(|test| match test {
            PayloadTest::Pcre(pcre) => Some(&**pcre),
            _ => None,
        })
    }

    /// Its regular expressions.
    pub(super) fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Pcre> {
        self.tests.iter_mut().filter_map(|test| match test {
            PayloadTest::Pcre(pcre) => Some(&mut **pcre),
            _ => None,
        })
    }

    fn with_headers(rule: &Rule, protocols: Protocols) -> Signature {
        let [source, destination] =
            [&rule.source, &rule.destination].map(|end| Arc::new(end.clone()));
        let mut headers = vec![RuleHeader::new(protocols, source.clone(), destination.clone())];
        if rule.is_bidirectional && rule.source != rule.destination {
            headers.push(RuleHeader::new(protocols, destination, source));
        }
        Signature {
            sid: rule.sid,
            gid: rule.gid,
            action: rule.action,
            is_silent: rule.keywords.iter().any(|keyword| keyword.name == "noalert"),
            priority: PRIORITY,
            headers,
            size: None,
            flags: Vec::new(),
            tests: Vec::new(),
            pattern: None,
        }
    }

    /// Adds the keywords, whose numbers are those of the forms.
    fn add(&mut self, forms: Vec<KeywordForm>) -> Result<(), SignatureProblem> {
        let mut priority: Option<i32> = None;
        for (keyword, form) in forms.into_iter().enumerate() {
            let wrong = |expected| SignatureProblem::Wrong { keyword, expected };
            match form {
                KeywordForm::Description => {}
                KeywordForm::Test(test) => self.add_test(test).map_err(wrong)?,
                KeywordForm::Modifier(modifier) => self.modify(modifier).map_err(wrong)?,
                KeywordForm::Size(_) if self.size.is_some() => {
                    return Err(wrong("one dsize per rule"));
                }
                KeywordForm::Size(size) => self.size = Some(size),
                KeywordForm::Flags(flags) => self.flags.push(flags),
                // Suricata keeps the lower 32 bits, and compares all of the later numbers.
                KeywordForm::Priority(number) => {
                    let least = priority.map_or(number, |other| number.min(other.into()));
                    priority = Some(least as i32);
                }
            }
        }
        self.priority = priority.filter(|number| *number != NO_PRIORITY).unwrap_or(PRIORITY);
        Ok(())
    }

    fn add_test(&mut self, test: PayloadTest) -> Result<(), &'static str> {
        let is_relative = test.is_relative();
        if let (PayloadTest::DataAt(place), Some(PayloadTest::Content(content))) =
            (&test, self.tests.last_mut())
            && place.is_end()
        {
            content.limits.ends = true;
            return Ok(());
        }
        if let PayloadTest::Pcre(_) = &test {
            // PCRE looks for the last content or expression, whatever is between.
            if is_relative && !follow(&mut self.tests, NextTest::Near) {
                return Err("a content or an expression before a relative expression");
            }
        } else if is_relative && let Some(last) = self.tests.last_mut() {
            follow(std::slice::from_mut(last), NextTest::Near);
        }
        self.tests.push(test);
        Ok(())
    }

    /// Applies a modifier to the last content.
    fn modify(&mut self, modifier: Modifier) -> Result<(), &'static str> {
        let is_content = |test: &PayloadTest| matches!(test, PayloadTest::Content(_));
        let at = self.tests.iter().rposition(is_content).ok_or("a content before the modifier")?;
        let is_fast = |test: &PayloadTest| match test {
            PayloadTest::Content(content) => content.limits.fast,
            _ => false,
        };
        if let Modifier::Fast { only: false, part: None } = modifier
            && self.tests.iter().any(is_fast)
        {
            return Err("one fast_pattern per rule");
        }
        let (before, rest) = self.tests.split_at_mut(at);
        let PayloadTest::Content(content) = &mut rest[0] else { return Ok(()) };
        let is_relative = matches!(modifier, Modifier::Distance(_) | Modifier::Within(_));
        if is_relative && is_only_fast(before) {
            return Err("no content with fast_pattern:only before a relative content");
        }
        content.apply(modifier)?;
        let next = match modifier {
            Modifier::Within(_) => NextTest::Near,
            Modifier::Distance(_) if content.negated => NextTest::Near,
            Modifier::Distance(_) => NextTest::Behind,
            _ => return Ok(()),
        };
        follow(before, next);
        Ok(())
    }

    /// Refuses a rule that Suricata would not match packet by packet, or at all.
    fn check(&self, rule: &Rule) -> Result<(), SignatureProblem> {
        let unsupported = |lack| Err(SignatureProblem::Unsupported(vec![lack]));
        let is_of_packets = self.size.is_some() || !self.flags.is_empty();
        if self.tests.is_empty() && !is_of_packets {
            return unsupported(Lack::HeaderOnly);
        }
        let has_streams = match self.headers[0].protocols {
            Protocols::Tcp => rule.protocol.name != "tcp-pkt",
            Protocols::Ip { .. } => true,
            _ => false,
        };
        if has_streams && !is_of_packets {
            return unsupported(Lack::Stream);
        }
        if let Some(lack) = self.unequal() {
            return unsupported(lack);
        }
        let size = self.size.and_then(|size| size.contents_max);
        if size.is_some_and(|size| self.contents_len(size.into()) > size.into()) {
            let is_size = |keyword: &Keyword| keyword.name == "dsize";
            let keyword = rule.keywords.iter().position(is_size).unwrap_or_default();
            let expected = "a size that the contents fit into";
            return Err(SignatureProblem::Wrong { keyword, expected });
        }
        Ok(())
    }

    /// Why Suricata would report something else than the rule says, because of how it finds
    /// candidates.
    fn unequal(&self) -> Option<Lack> {
        let contents = || {
            self.tests.iter().filter_map(|test| match test {
                PayloadTest::Content(content) => Some(&**content),
                _ => None,
            })
        };
        if self.size.is_some_and(|size| size.negated) && contents().next().is_some() {
            return Some(Lack::value("dsize", "`!` beside contents"));
        }
        if contents().any(|content| content.negated && content.limits.fast) {
            return Some(Lack::value("fast_pattern", "a negated content"));
        }
        let depends = |content: &Content| content.is_relative() || content.limits.ends;
        if contents().all(|content| content.negated) && contents().any(depends) {
            return Some(Lack::value("content", "negated alone, behind a match or at the end"));
        }
        None
    }

    /// The size that contents need, as Suricata computes it before it refuses a rule.
    fn contents_len(&self, size: i64) -> i64 {
        let (mut len, mut offset, mut is_first) = (0, 0, true);
        for test in &self.tests {
            let PayloadTest::Content(content) = test else { continue };
            let distance = i64::from(content.distance.unwrap_or_default());
            if !is_first {
                if !content.is_relative() {
                    continue;
                }
                if content.negated {
                    let needed = len + distance + i64::from(content.within.unwrap_or_default());
                    if needed > size {
                        return needed;
                    }
                    continue;
                }
            }
            len += content.bytes.len() as i64 + distance;
            offset = offset.max(content.offset.into());
            is_first = false;
        }
        len + offset
    }

    /// Chooses the pattern, and prepares all searches.
    fn finish(&mut self) -> Result<(), SignatureProblem> {
        limits::narrow(&mut self.tests);
        if let Some(size) = self.size.and_then(|size| size.contents_max) {
            limits::apply_size(&mut self.tests, size);
        }
        // Whether a test behind begins at the end of the match before it.
        let mut is_next_relative = false;
        for test in self.tests.iter_mut().rev() {
            let has_place = is_next_relative && test.sets_place();
            is_next_relative = test.is_relative() || is_next_relative && !has_place;
            match test {
                PayloadTest::Content(content) => content.finish(),
                PayloadTest::Pcre(pcre) => {
                    pcre.has_place = has_place;
                    let lack = |lack| SignatureProblem::Unsupported(vec![lack]);
                    pcre.finish().map_err(lack)?;
                }
                _ => {}
            }
        }
        let rank = |test: &PayloadTest| match test {
            PayloadTest::Content(content) if !content.negated => {
                Some((content.limits.fast, strength(&content.bytes)))
            }
            _ => None,
        };
        let contents = self.tests.iter().enumerate();
        let contents = contents.filter_map(|(at, test)| Some((rank(test)?, at)));
        self.pattern = contents.max().map(|(_, at)| at);
        Ok(())
    }
}

/// The number of a priority. Suricata takes one that is too large as the greatest.
fn priority(value: &str) -> Option<i64> {
    let fits = value.bytes().all(|byte| byte.is_ascii_digit())
        && (1..=PRIORITY_DIGITS_MAX).contains(&value.len());
    fits.then(|| value.parse().unwrap_or(i64::MAX))
}

/// Tells the last content or expression that the next test begins at its end; `false` if there is
/// none.
fn follow(tests: &mut [PayloadTest], next: NextTest) -> bool {
    for test in tests.iter_mut().rev() {
        match test {
            PayloadTest::Content(content) => content.set_next(next),
            PayloadTest::Pcre(pcre) => pcre.is_followed = true,
            _ => continue,
        }
        return true;
    }
    false
}

/// Whether the last content or expression is a content with `fast_pattern:only`.
fn is_only_fast(tests: &[PayloadTest]) -> bool {
    let last = tests.iter().rev().find_map(|test| match test {
        PayloadTest::Content(content) => Some(content.limits.only_fast),
        PayloadTest::Pcre(_) => Some(false),
        _ => None,
    });
    last.unwrap_or(false)
}

/// How seldom bytes are in payloads: their number, and how many are different.
fn strength(bytes: &[u8]) -> usize {
    let mut sorted = bytes.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    bytes.len() + sorted.len()
}
