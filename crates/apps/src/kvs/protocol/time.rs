//! Times: whole seconds of the day, and when an item expires.

/// Seconds since 1970. Only transports read a clock; all else gets the time as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime(pub u32);

/// Times of clients up to this are counted from now, longer ones from 1970: 30 days
/// (memcached's protocol.txt, "Expiration times").
const RELATIVE_MAX_S: i64 = 60 * 60 * 24 * 30;

/// When an item ends, if ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry(u32);

impl Expiry {
    /// It does not end.
    pub const NEVER: Expiry = Expiry(0);
    /// It has ended already.
    const PAST: Expiry = Expiry(1);

    /// Converts a client's time: 0 is never, a negative one has passed, others count from now or
    /// from 1970.
    pub fn of(time: i64, now: UnixTime) -> Expiry {
        match time {
            0 => Expiry::NEVER,
            ..0 => Expiry::PAST,
            1..=RELATIVE_MAX_S => Expiry(now.0.saturating_add(time as u32)),
            _ => Expiry(u32::try_from(time).unwrap_or(u32::MAX)),
        }
    }

    /// As an item keeps it.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// As an item has kept it.
    pub fn from_bits(bits: u32) -> Expiry {
        Expiry(bits)
    }

    /// It is over.
    #[inline]
    pub fn is_past(self, now: UnixTime) -> bool {
        self.0 != 0 && self.0 <= now.0
    }

    /// Seconds that are left; `None` where it does not end.
    pub fn left_s(self, now: UnixTime) -> Option<u32> {
        (self.0 != 0).then(|| self.0.saturating_sub(now.0))
    }

    /// It ends, and before `other` does.
    pub fn is_before(self, other: Expiry) -> bool {
        self.0 != 0 && self.0 < other.0
    }
}

/// When everything goes that is stored before: times that have passed mean now.
pub fn flush_time(time: i64, now: UnixTime) -> UnixTime {
    if time <= 0 { now } else { UnixTime(Expiry::of(time, now).bits().max(now.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime(1_700_000_000);

    #[test]
    fn times_are_read_as_memcached_reads_them() {
        let later = |s| UnixTime(NOW.0 + s);
        assert!(!Expiry::of(0, NOW).is_past(UnixTime(u32::MAX)));
        assert!(Expiry::of(-1, NOW).is_past(NOW));
        assert!(!Expiry::of(1, NOW).is_past(NOW));
        assert!(Expiry::of(1, NOW).is_past(later(1)));
        let month = RELATIVE_MAX_S as u32;
        assert!(!Expiry::of(RELATIVE_MAX_S, NOW).is_past(later(month - 1)));
        assert!(Expiry::of(RELATIVE_MAX_S, NOW).is_past(later(month)));
        assert!(Expiry::of(RELATIVE_MAX_S + 1, NOW).is_past(NOW), "a day of 1970");
        assert!(Expiry::of(i64::from(NOW.0), NOW).is_past(NOW));
        assert!(!Expiry::of(i64::from(NOW.0) + 9, NOW).is_past(later(8)));
    }

    #[test]
    fn the_remaining_time_is_reported() {
        assert_eq!(Expiry::NEVER.left_s(NOW), None);
        assert_eq!(Expiry::of(9, NOW).left_s(NOW), Some(9));
        assert_eq!(Expiry::of(-9, NOW).left_s(NOW), Some(0));
        assert!(Expiry::of(5, NOW).is_before(Expiry::of(6, NOW)));
        assert!(!Expiry::NEVER.is_before(Expiry::of(6, NOW)));
    }
}
