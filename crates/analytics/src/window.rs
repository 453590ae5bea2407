//! Sliding windows in event time, cut into panes.
//!
//! Window k covers the event times from k slides on, one length long. A pane is one slide long, so
//! every window is a whole number of panes: window k has the panes k to k + panes - 1. A tuple is
//! counted once, in its pane.

use crate::tuple::TIME_NS_MAX;

/// Length and slide of all windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    length_ns: u64,
    slide_ns: u64,
}

/// Panes of a window at most.
pub const PANES_MAX: u64 = 4_096;
/// The shortest slide, nanoseconds.
pub const SLIDE_NS_MIN: u64 = 1_000;

/// Windows that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// A slide that is too short.
    #[error("a slide of {slide_ns} ns: at least {SLIDE_NS_MIN} ns are needed")]
    Slide {
        /// The slide, nanoseconds.
        slide_ns: u64,
    },
    /// A length beyond all event times.
    #[error("a length of {length_ns} ns: less than 2^63 ns are needed")]
    Long {
        /// The length, nanoseconds.
        length_ns: u64,
    },
    /// A length that is no multiple of the slide.
    #[error(
        "a length of {length_ns} ns and a slide of {slide_ns} ns: the slide must divide the length"
    )]
    Length {
        /// The length, nanoseconds.
        length_ns: u64,
        /// The slide, nanoseconds.
        slide_ns: u64,
    },
    /// A length of too many slides.
    #[error("a length of {panes} slides: at most {PANES_MAX} are allowed")]
    Panes {
        /// Slides in a length.
        panes: u64,
    },
}

impl Default for Windows {
    /// A length of 10 s and a slide of 1 s.
    fn default() -> Windows {
        Windows { length_ns: 10_000_000_000, slide_ns: 1_000_000_000 }
    }
}

impl Windows {
    /// Windows of a length that slide by `slide_ns`.
    ///
    /// # Errors
    /// [`WindowError`].
    pub fn new(length_ns: u64, slide_ns: u64) -> Result<Windows, WindowError> {
        if slide_ns < SLIDE_NS_MIN {
            return Err(WindowError::Slide { slide_ns });
        }
        if length_ns > TIME_NS_MAX {
            return Err(WindowError::Long { length_ns });
        }
        if length_ns == 0 || !length_ns.is_multiple_of(slide_ns) {
            return Err(WindowError::Length { length_ns, slide_ns });
        }
        match length_ns / slide_ns {
            panes if panes > PANES_MAX => Err(WindowError::Panes { panes }),
            _ => Ok(Windows { length_ns, slide_ns }),
        }
    }

    /// Length of a window, nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.length_ns
    }

    /// Event time from one window to the next, nanoseconds: the length of a pane.
    pub fn slide_ns(&self) -> u64 {
        self.slide_ns
    }

    /// The pane of an event time.
    #[inline]
    pub fn pane(&self, time_ns: u64) -> u64 {
        time_ns / self.slide_ns
    }

    /// The event times of a pane.
    pub fn pane_ns(&self, pane: u64) -> std::ops::Range<u64> {
        let start_ns = pane.saturating_mul(self.slide_ns);
        start_ns..start_ns.saturating_add(self.slide_ns)
    }

    /// Panes of a window.
    pub fn panes(&self) -> u64 {
        self.length_ns / self.slide_ns
    }

    /// The windows that cover a pane.
    pub fn covering(&self, pane: u64) -> std::ops::RangeInclusive<u64> {
        (pane + 1).saturating_sub(self.panes())..=pane
    }

    /// The last pane of a window.
    pub fn last_pane(&self, window: u64) -> u64 {
        window + self.panes() - 1
    }

    /// The event time behind all windows that cover an event time.
    pub fn end_of_all_ns(&self, time_ns: u64) -> u64 {
        (self.pane(time_ns) + self.panes()).saturating_mul(self.slide_ns)
    }

    /// Start and end of a window, nanoseconds; the end is not part of it.
    pub fn bounds_ns(&self, window: u64) -> (u64, u64) {
        let start_ns = window * self.slide_ns;
        (start_ns, start_ns + self.length_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_covers_its_length_and_begins_at_each_slide() {
        let windows = Windows::default();
        assert_eq!((windows.panes(), windows.bounds_ns(3)), (10, (3_000_000_000, 13_000_000_000)));
        assert_eq!((windows.pane(999_999_999), windows.pane(1_000_000_000)), (0, 1));
        assert_eq!((windows.covering(0), windows.covering(12)), (0..=0, 3..=12));
        for pane in 0..30 {
            for window in 0..40 {
                let covers = (window..=windows.last_pane(window)).contains(&pane);
                assert_eq!(windows.covering(pane).contains(&window), covers, "{pane} {window}");
            }
        }
    }

    #[test]
    fn windows_that_cannot_be_are_refused() {
        let refused = |length, slide| Windows::new(length, slide).unwrap_err().to_string();
        assert_eq!(refused(10_000, 999), "a slide of 999 ns: at least 1000 ns are needed");
        assert!(refused(10_000, 3_000).contains("must divide the length"));
        assert!(refused(0, 1_000).contains("must divide the length"));
        let long = refused(2 * (TIME_NS_MAX - 7), TIME_NS_MAX - 7);
        assert!(long.ends_with("less than 2^63 ns are needed"), "{long}");
        let many = (PANES_MAX + 1) * 1_000;
        assert_eq!(refused(many, 1_000), "a length of 4097 slides: at most 4096 are allowed");
        assert!(Windows::new(1_000, 1_000).is_ok());
    }
}
