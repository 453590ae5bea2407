//! Profiles of cards: TOML in which every number says where it is from.
//!
//! ```toml
//! title = "ConnectX-5, 100 GbE"
//! source = "Katsikas et al., PAM 2021"
//! fitted_to = ["PAM 2021 2a: Table 0 from 1000"]
//!
//! groups = "none"     # the card has no such thing
//! pcie = "unknown"    # nobody has published it
//!
//! [port]
//! rate_gbps = { value = 100, basis = "stated", source = "section 3" }
//! fifo_frames = "unknown"
//! ```
//!
//! Every section and every key of [`SECTIONS`] is there: nothing has a silent default.

use std::fmt::Write as _;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::pcie::PciExpress;
use crate::schema::{INJECTED, Key, SECTIONS, Section};

/// A card, described.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// What the card is called.
    pub title: String,
    /// Where its numbers are from.
    pub source: String,
    /// Which published series some of them are fitted to, as `PAM 2021 FIGURE: SERIES …`; what is
    /// not among them is predicted.
    pub fitted_to: Vec<String>,
    sections: Vec<(&'static Section, Part)>,
}

/// What is known of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// The card has no such thing.
    Lacking,
    /// Nobody says what it is like.
    Unknown,
    /// These numbers, one a key.
    Known(Vec<(&'static Key, Entry)>),
}

/// What is known of a number.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// Nobody says it.
    Unknown,
    /// It is this.
    Known {
        /// In the unit of its key.
        value: f64,
        /// How it is known.
        basis: Basis,
        /// Where it is from.
        source: String,
    },
}

/// How a number is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The source says it.
    Stated,
    /// What the source measured is met best by it.
    Fitted,
    /// It is not more than this; what follows from it is a bound as well.
    AtMost,
    /// It is not less than this; what follows from it is a bound as well.
    AtLeast,
    /// It is that of another card, which has the same.
    Inherited,
    /// It is put in for a test.
    Injected,
}

impl Basis {
    /// All that a file may name.
    const WORDS: [(&str, Basis); 6] = [
        ("stated", Basis::Stated),
        ("fitted", Basis::Fitted),
        ("at most", Basis::AtMost),
        ("at least", Basis::AtLeast),
        ("inherited", Basis::Inherited),
        ("injected", Basis::Injected),
    ];

    /// Its word.
    pub fn word(self) -> &'static str {
        Basis::WORDS.iter().find(|(_, basis)| *basis == self).map_or("", |(word, _)| word)
    }
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {key}: {reason}")]
pub struct ProfileError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// `section.key`, as far as there is one.
    pub key: String,
    /// The defect, and a valid value.
    pub reason: String,
}

impl Profile {
    /// Reads a profile; `file` is what errors call it.
    ///
    /// # Errors
    /// The first thing that is missing, unknown, out of range, without its source, or contradicts
    /// another.
    pub fn parse(file: &str, text: &str) -> Result<Profile, ProfileError> {
        let reader = ProfileReader { file, text };
        let table = DeTable::parse(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            reader.error(span, "profile", error.message().to_owned())
        })?;
        let profile = reader.profile(table.get_ref())?;
        reader.contradictions(&profile)?;
        Ok(profile)
    }

    /// A profile of these sections; those not given are unknown, injected ones apart.
    pub fn of(
        title: String,
        source: String,
        fitted_to: Vec<String>,
        mut part: impl FnMut(&'static Section) -> Part,
    ) -> Profile {
        let sections = SECTIONS.iter().map(|section| (section, part(section))).collect();
        Profile { title, source, fitted_to, sections }
    }

    /// Sections with what is known of them, in the order of [`SECTIONS`].
    pub fn sections(&self) -> impl Iterator<Item = (&'static Section, &Part)> {
        self.sections.iter().map(|(section, part)| (*section, part))
    }

    /// A section.
    pub fn part(&self, section: &str) -> &Part {
        let found = self.sections.iter().find(|(known, _)| known.name == section);
        found.map_or(&Part::Unknown, |(_, part)| part)
    }

    /// What is known of a number.
    pub fn entry(&self, section: &str, key: &str) -> &Entry {
        let Part::Known(keys) = self.part(section) else { return &Entry::Unknown };
        keys.iter().find(|(known, _)| known.name == key).map_or(&Entry::Unknown, |(_, entry)| entry)
    }

    /// A number, where it is known.
    pub fn number(&self, section: &str, key: &str) -> Option<f64> {
        match self.entry(section, key) {
            Entry::Known { value, .. } => Some(*value),
            Entry::Unknown => None,
        }
    }

    /// What nobody knows: sections, and keys of those that are known, as `section.key`.
    pub fn unknown(&self) -> Vec<String> {
        let of = |(section, part): (&Section, &Part)| match part {
            Part::Lacking => Vec::new(),
            Part::Unknown => vec![section.name.to_owned()],
            Part::Known(keys) => {
                let unknown = keys.iter().filter(|(_, entry)| *entry == Entry::Unknown);
                unknown.map(|(key, _)| format!("{}.{}", section.name, key.name)).collect()
            }
        };
        self.sections().flat_map(of).collect()
    }

    /// The bus that the card sits on, where it is known.
    pub fn bus(&self) -> Option<PciExpress> {
        let [generation, lanes] = ["generation", "lanes"].map(|key| self.number("pcie", key));
        PciExpress::new(generation? as u8, lanes? as u8)
    }

    /// `true` where the card has no such thing.
    pub fn lacks(&self, section: &str) -> bool {
        *self.part(section) == Part::Lacking
    }

    /// Puts a number of [`INJECTED`] into the card, which a test is to find; one that there is not
    /// changes nothing, and will not be found.
    pub fn inject(&mut self, name: &str, value: f64) {
        let found = self.sections.iter_mut().find(|(section, _)| section.name == INJECTED);
        let Some((key, part)) = found.and_then(|(section, part)| Some((section.key(name)?, part)))
        else {
            return;
        };
        let entry = Entry::Known { value, basis: Basis::Injected, source: "test".into() };
        match part {
            Part::Known(keys) => {
                keys.retain(|(known, _)| known.name != name);
                keys.push((key, entry));
            }
            Part::Lacking | Part::Unknown => *part = Part::Known(vec![(key, entry)]),
        }
    }

    /// The same card with a number so many times as great; as it is where that is not known.
    pub fn scaled(mut self, section: &str, key: &str, factor: f64) -> Profile {
        let parts = self.sections.iter_mut().filter(|(known, _)| known.name == section);
        for (_, part) in parts {
            let Part::Known(keys) = part else { continue };
            let entries = keys.iter_mut().filter(|(known, _)| known.name == key);
            for (_, entry) in entries {
                if let Entry::Known { value, .. } = entry {
                    *value *= factor;
                }
            }
        }
        self
    }

    /// The profile as a file.
    pub fn text(&self) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let mut text = String::new();
        let _ = writeln!(text, "title = {}", quoted(&self.title));
        let _ = writeln!(text, "source = {}", quoted(&self.source));
        let fitted = self.fitted_to.iter().map(|series| format!("    {},\n", quoted(series)));
        let _ = writeln!(text, "fitted_to = [\n{}]", fitted.collect::<String>());
        let bare = |part: &Part| match part {
            Part::Lacking => Some("none"),
            Part::Unknown => Some("unknown"),
            Part::Known(_) => None,
        };
        let bare = self.sections().filter_map(|(section, part)| Some((section, bare(part)?)));
        let bare = bare.filter(|(section, _)| section.name != INJECTED);
        for (at, (section, word)) in bare.enumerate() {
            let gap = if at == 0 { "\n" } else { "" };
            let _ = writeln!(text, "{gap}{} = \"{word}\"", section.name);
        }
        for (section, part) in self.sections() {
            let Part::Known(keys) = part else { continue };
            let _ = writeln!(text, "\n# {}\n[{}]", section.text, section.name);
            for (key, entry) in keys {
                let _ = match entry {
                    Entry::Unknown => writeln!(text, "{} = \"unknown\"", key.name),
                    Entry::Known { value, basis, source } => {
                        let (basis, source) = (basis.word(), quoted(source));
                        writeln!(
                            text,
                            "{} = {{ value = {value}, basis = \"{basis}\", source = {source} }}",
                            key.name
                        )
                    }
                };
            }
        }
        text
    }
}

/// A number to so many significant digits, as a profile has them.
pub fn rounded(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(digits - 1 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// The line that a span of a text begins in, from 1.
pub fn line_of(text: &str, span: &Range<usize>) -> usize {
    let before = text.get(..span.start).unwrap_or(text);
    1 + before.bytes().filter(|byte| *byte == b'\n').count()
}

struct ProfileReader<'a> {
    file: &'a str,
    text: &'a str,
}

impl ProfileReader<'_> {
    fn error(&self, span: Range<usize>, key: &str, reason: String) -> ProfileError {
        let line = line_of(self.text, &span);
        ProfileError { file: self.file.to_owned(), line, key: key.to_owned(), reason }
    }

    /// Where a key of a section stands; the section's head, or the file's first line, where it does
    /// not.
    fn place(&self, section: &str, key: &str) -> Range<usize> {
        let table = DeTable::parse(self.text).ok();
        let found = table.as_ref().and_then(|table| table.get_ref().get(section));
        let inner = found.and_then(|value| value.get_ref().as_table()?.get(key));
        inner.or(found).map_or(0..0, Spanned::span)
    }

    fn profile(&self, table: &DeTable<'_>) -> Result<Profile, ProfileError> {
        const TEXTS: [&str; 3] = ["title", "source", "fitted_to"];
        let known = |name: &str| TEXTS.contains(&name) || crate::schema::section(name).is_some();
        if let Some((name, _)) = table.iter().find(|(name, _)| !known(name.get_ref())) {
            let names: Vec<&str> =
                TEXTS.into_iter().chain(SECTIONS.iter().map(|section| section.name)).collect();
            let reason = format!("unknown; there are {}", names.join(", "));
            return Err(self.error(name.span(), name.get_ref(), reason));
        }
        let title = self.string(table, "title")?;
        let source = self.string(table, "source")?;
        let fitted_to = self.fitted_to(table)?;
        let mut sections = Vec::new();
        for section in SECTIONS {
            sections.push((section, self.part(table, section)?));
        }
        Ok(Profile { title, source, fitted_to, sections })
    }

    fn string(&self, table: &DeTable<'_>, name: &str) -> Result<String, ProfileError> {
        let missing = || self.error(0..0, name, "missing; give a text".into());
        let value = table.get(name).ok_or_else(missing)?;
        match value.get_ref().as_str() {
            Some(text) if !text.trim().is_empty() => Ok(text.to_owned()),
            _ => Err(self.error(value.span(), name, "give a text that says something".into())),
        }
    }

    fn fitted_to(&self, table: &DeTable<'_>) -> Result<Vec<String>, ProfileError> {
        let missing = || {
            let reason = "missing; give a list of the series that numbers are fitted to, or []";
            self.error(0..0, "fitted_to", reason.into())
        };
        let value = table.get("fitted_to").ok_or_else(missing)?;
        let bad = |span| self.error(span, "fitted_to", "give a list of texts".into());
        let DeValue::Array(list) = value.get_ref() else { return Err(bad(value.span())) };
        let text = |one: &Spanned<DeValue<'_>>| {
            one.get_ref().as_str().map(str::to_owned).ok_or_else(|| bad(one.span()))
        };
        list.iter().map(text).collect()
    }

    fn part(&self, table: &DeTable<'_>, section: &'static Section) -> Result<Part, ProfileError> {
        let Some(value) = table.get(section.name) else {
            if section.name == INJECTED {
                return Ok(Part::Lacking);
            }
            let none = if section.may_lack { ", or \"none\"" } else { "" };
            let reason = format!("missing ({}); give the section, \"unknown\"{none}", section.text);
            return Err(self.error(0..0, section.name, reason));
        };
        match value.get_ref() {
            DeValue::String(word) if &**word == "unknown" => Ok(Part::Unknown),
            DeValue::String(word) if &**word == "none" && section.may_lack => Ok(Part::Lacking),
            DeValue::Table(keys) => self.keys(keys, section, value.span()).map(Part::Known),
            _ => {
                let none = if section.may_lack { " or \"none\"" } else { "" };
                let reason = format!("give a table, \"unknown\"{none}");
                Err(self.error(value.span(), section.name, reason))
            }
        }
    }

    fn keys(
        &self,
        keys: &DeTable<'_>,
        section: &'static Section,
        span: Range<usize>,
    ) -> Result<Vec<(&'static Key, Entry)>, ProfileError> {
        if let Some((name, _)) = keys.iter().find(|(name, _)| section.key(name.get_ref()).is_none())
        {
            let known: Vec<&str> = section.keys.iter().map(|key| key.name).collect();
            let at = format!("{}.{}", section.name, name.get_ref());
            return Err(self.error(
                name.span(),
                &at,
                format!("unknown; there are {}", known.join(", ")),
            ));
        }
        let mut read = Vec::new();
        for key in section.keys {
            let at = format!("{}.{}", section.name, key.name);
            match keys.get(key.name) {
                Some(value) => read.push((key, self.entry(value, key, &at, section)?)),
                None if section.name == INJECTED => {}
                None => {
                    let reason = format!(
                        "missing ({}, {}); give {{ value, basis, source }} or \"unknown\"",
                        key.text, key.unit
                    );
                    return Err(self.error(span, &at, reason));
                }
            }
        }
        Ok(read)
    }

    fn entry(
        &self,
        value: &Spanned<DeValue<'_>>,
        key: &Key,
        at: &str,
        section: &Section,
    ) -> Result<Entry, ProfileError> {
        let form = || {
            let reason = "give { value = …, basis = \"…\", source = \"…\" } or \"unknown\"";
            self.error(value.span(), at, reason.into())
        };
        let fields = match value.get_ref() {
            DeValue::String(word) if &**word == "unknown" => return Ok(Entry::Unknown),
            DeValue::Table(fields) => fields,
            DeValue::Integer(_) | DeValue::Float(_) if section.name == INJECTED => {
                let value = self.number(value, key, at)?;
                return Ok(Entry::Known {
                    value,
                    basis: Basis::Injected,
                    source: "injected".into(),
                });
            }
            _ => return Err(form()),
        };
        const FIELDS: [&str; 3] = ["value", "basis", "source"];
        if let Some((name, _)) =
            fields.iter().find(|(name, _)| !FIELDS.contains(&&**name.get_ref()))
        {
            let at = format!("{at}.{}", name.get_ref());
            return Err(self.error(
                name.span(),
                &at,
                "unknown; there are value, basis, source".into(),
            ));
        }
        let [number, basis, source] = FIELDS.map(|name| fields.get(name));
        let (Some(number), Some(basis), Some(source)) = (number, basis, source) else {
            return Err(form());
        };
        let value = self.number(number, key, at)?;
        let word = basis.get_ref().as_str().unwrap_or("");
        let known = Basis::WORDS.iter().find(|(known, _)| *known == word);
        let Some((_, basis)) = known else {
            let words: Vec<&str> = Basis::WORDS.iter().map(|(word, _)| *word).collect();
            let reason = format!("basis `{word}`; use one of {}", words.join(", "));
            return Err(self.error(basis.span(), at, reason));
        };
        match source.get_ref().as_str().filter(|source| !source.trim().is_empty()) {
            Some(text) => Ok(Entry::Known { value, basis: *basis, source: text.to_owned() }),
            None => {
                let reason = "source: say where the number is from".to_owned();
                Err(self.error(source.span(), at, reason))
            }
        }
    }

    fn number(
        &self,
        value: &Spanned<DeValue<'_>>,
        key: &Key,
        at: &str,
    ) -> Result<f64, ProfileError> {
        let digits = |text: &str| text.replace('_', "").parse::<f64>().ok();
        let number = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => digits(number.as_str()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .ok()
                .map(|number| number as f64),
            DeValue::Float(number) => digits(number.as_str()),
            _ => None,
        };
        match number {
            Some(number) if key.is_whole() && number.fract() != 0.0 => {
                let reason = format!("{number}: use a whole number of {}", key.unit);
                Err(self.error(value.span(), at, reason))
            }
            Some(number) if (key.least..=key.most).contains(&number) => Ok(number),
            Some(number) => {
                let (least, most) = (key.least, key.most);
                let unit = if key.unit == "1" { String::new() } else { format!(" {}", key.unit) };
                let reason = format!("{number}: use {least} to {most}{unit}");
                Err(self.error(value.span(), at, reason))
            }
            None => Err(self.error(value.span(), at, format!("give a number of {}", key.unit))),
        }
    }

    /// Numbers that cannot both be right.
    fn contradictions(&self, profile: &Profile) -> Result<(), ProfileError> {
        let refuse = |section: &str, key: &str, reason: String| {
            Err(self.error(self.place(section, key), &format!("{section}.{key}"), reason))
        };
        let of = |section, key| profile.number(section, key);
        if let (Some(near), Some(most)) = (of("root", "near_rules"), of("root", "rules_max"))
            && near > most
        {
            let reason = format!("{near}: contradicts root.rules_max = {most}; use at most that");
            return refuse("root", "near_rules", reason);
        }
        if let Some(lanes) = of("pcie", "lanes").filter(|lanes| !(*lanes as u32).is_power_of_two())
        {
            let reason = format!("{lanes}: there is no such bus; use 1, 2, 4, 8, 16 or 32");
            return refuse("pcie", "lanes", reason);
        }
        for section in ["root_rules", "group_rules"] {
            if let (Some(first), Some(create)) = (of(section, "first_ns"), of(section, "create_ns"))
                && first < create
            {
                let reason = format!(
                    "{first}: contradicts {section}.create_ns = {create}; the first takes no less"
                );
                return refuse(section, "first_ns", reason);
            }
        }
        if profile.lacks("groups") != profile.lacks("group_rules") {
            let word = if profile.lacks("groups") { "groups" } else { "group_rules" };
            let other = if word == "groups" { "group_rules" } else { "groups" };
            let reason = format!("\"none\" contradicts {other}; both are \"none\", or neither");
            return Err(self.error(self.place(word, ""), word, reason));
        }
        if let (Some(ring), Some(burst)) = (of("host", "ring_frames"), of("host", "burst_frames"))
            && burst > ring
        {
            let reason =
                format!("{burst}: contradicts host.ring_frames = {ring}; use at most that");
            return refuse("host", "burst_frames", reason);
        }
        for (one, other) in [("spike_ns", "spike_ratio"), ("spike_ratio", "spike_ns")] {
            if of(INJECTED, one).is_some() && of(INJECTED, other).is_none() {
                return refuse(
                    INJECTED,
                    one,
                    format!("contradicts the lack of {other}; give both"),
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
