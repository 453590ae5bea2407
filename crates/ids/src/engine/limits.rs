//! Limits of contents that follow from other contents.
//!
//! Suricata narrows the place of each content by the contents before it, when it reads a rule.
//! Where its limits are too strict, it reports less than the rule says, and so does the engine.
//! Source: `PropagateLimits` of Suricata 7.0.10, `detect-content.c`.

use super::content::Content;
use super::signature::PayloadTest;

/// What is known behind the tests so far.
#[derive(Default)]
struct KnownPlace {
    /// The least start of the last content, and its least end.
    offset: u16,
    end: u16,
    /// The greatest end of the last content; 0 if it is not known.
    depth: u16,
    has_depth: bool,
}

/// The greatest end of a payload, of contents at its end.
#[derive(Default)]
struct PayloadEnd {
    has_depth: bool,
    depth: Option<u16>,
}

impl PayloadEnd {
    fn add(&mut self, depth: u16) {
        self.depth = Some(self.depth.map_or(depth, |other| other.min(depth)));
    }
}

/// Narrows the places of contents.
pub(super) fn narrow(tests: &mut [PayloadTest]) {
    let (mut known, mut end) = (KnownPlace::default(), PayloadEnd::default());
    for (at, test) in tests.iter_mut().enumerate() {
        match test {
            PayloadTest::Content(content) => {
                if known.add(content, at == 0, &mut end).is_none() {
                    // Suricata gives up, and keeps what it has changed.
                    return;
                }
            }
            PayloadTest::Pcre(pcre) if pcre.is_relative => {
                (known.depth, known.has_depth) = (0, false);
            }
            _ => known = KnownPlace::default(),
        }
    }
    let Some(depth) = end.depth.filter(|_| end.has_depth) else { return };
    for test in tests {
        if let PayloadTest::Content(content) = test {
            content.depth = if content.depth == 0 { depth } else { content.depth.min(depth) };
            content.limits.depth |= content.depth != 0;
        }
    }
}

/// Limits contents to the bytes that `dsize` allows.
pub(super) fn apply_size(tests: &mut [PayloadTest], size: u16) {
    for test in tests {
        if let PayloadTest::Content(content) = test
            && (content.depth == 0 || content.depth >= size)
        {
            (content.depth, content.limits.depth) = (size, true);
        }
    }
}

impl KnownPlace {
    /// Narrows a content; `None` if a place is beyond 65,535.
    fn add(&mut self, content: &mut Content, is_first: bool, end: &mut PayloadEnd) -> Option<()> {
        let len = content.bytes.len() as u16;
        if !content.limits.depth && !content.limits.offset && !content.is_relative() {
            *self = KnownPlace { end: len, ..KnownPlace::default() };
            return Some(());
        }
        if is_first {
            make_absolute(content);
        }
        if content.negated {
            *self = KnownPlace::default();
            return Some(());
        }
        end.has_depth |= content.depth != 0;
        self.has_depth |= content.depth != 0;
        match content.distance {
            None => (self.offset, self.end) = (0, 0),
            Some(distance @ 0..) => {
                content.offset = sum(self.end, distance)?;
                self.offset = content.offset;
            }
            Some(distance) => {
                content.offset = (i32::from(self.end) + distance).max(0) as u16;
                self.offset = content.offset;
                self.end = self.offset.wrapping_add(len);
            }
        }
        if self.has_depth {
            self.add_depth(content, end)?;
        }
        if let Some(distance @ 0..) = content.distance {
            if content.offset == 0 {
                content.offset = self.end;
            }
            if !content.limits.depth && !content.limits.offset {
                content.offset = sum(self.end, distance)?;
                self.offset = content.offset;
                self.end = self.offset.wrapping_add(len);
            }
        }
        if content.limits.offset {
            self.offset = content.offset;
            self.end = self.offset.wrapping_add(len);
        }
        if content.depth != 0 {
            self.depth = content.depth;
            self.end = self.offset.wrapping_add(len);
            if content.limits.ends {
                end.add(self.depth);
            }
        }
        if content.within.is_none() && !content.limits.depth {
            (self.has_depth, self.depth) = (false, 0);
        }
        Some(())
    }

    /// Gives a content an end that follows from the end of the one before.
    fn add_depth(&mut self, content: &mut Content, end: &mut PayloadEnd) -> Option<()> {
        let within = content.within.unwrap_or_default();
        let distance = content.distance.unwrap_or_default();
        if self.end != 0 && content.within.is_some() && within >= 0 {
            if self.depth > self.end {
                self.depth = sum(self.depth, within + distance.max(0))?;
            } else {
                sum(self.depth, within)?;
                self.depth = (i32::from(self.offset) + within) as u16;
            }
            content.depth = self.depth;
        } else if content.depth == 0 && self.depth != 0 && within > 0 {
            if let Some(distance @ 0..) = content.distance {
                content.offset = sum(self.end, distance)?;
            }
            self.depth = sum(self.depth, within)?;
            content.depth = self.depth;
            if content.limits.ends {
                end.add(self.depth);
            }
        }
        Some(())
    }
}

/// The first test of a rule is relative to the start of the payload.
fn make_absolute(content: &mut Content) {
    let fits = |reach: Option<i32>| u16::try_from(reach.unwrap_or_default()).is_ok();
    if !fits(content.distance) || !fits(content.within) {
        return;
    }
    if let Some(distance) = content.distance.take() {
        content.limits.offset |= distance > 0;
        content.offset = distance as u16;
    }
    if let Some(within) = content.within.take() {
        content.limits.depth = true;
        content.depth = (within as u16).wrapping_add(content.offset);
    }
}

/// A place and a reach behind it, if that is a place.
fn sum(place: u16, reach: i32) -> Option<u16> {
    u16::try_from(i32::from(place) + reach).ok()
}
