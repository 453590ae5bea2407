//! The measured window of a stream, and a thread's clocks in it.

use std::time::Duration;

use super::ThreadTime;

/// The measured part, nanoseconds of `CLOCK_MONOTONIC`: the same for all who take part on this
/// machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The start of the counted part.
    pub begin_ns: u64,
    /// And what comes before this.
    pub end_ns: u64,
}

impl Window {
    /// The one that begins when `warmup_ns` have passed from now on.
    pub fn from_now(warmup_ns: u64, duration_ns: u64) -> Window {
        let begin_ns = crate::echo::now_ns() + warmup_ns;
        Window { begin_ns, end_ns: begin_ns + duration_ns }
    }

    /// Sleeps until it begins.
    pub fn wait_begin(&self) {
        let left_ns = self.begin_ns.saturating_sub(crate::echo::now_ns());
        std::thread::sleep(Duration::from_nanos(left_ns));
    }
}

/// The progress of a thread in its window.
#[derive(Debug)]
pub(super) struct WindowMeter {
    pub window: Window,
    /// Its time when the window began, once that has come.
    begun: Option<ThreadTime>,
}

impl WindowMeter {
    pub fn new(window: Window) -> WindowMeter {
        WindowMeter { window, begun: None }
    }

    /// `true` once: when the window has begun.
    pub fn begins(&mut self, now_ns: u64) -> bool {
        if self.begun.is_some() || now_ns < self.window.begin_ns {
            return false;
        }
        self.begun = Some(ThreadTime::now());
        true
    }

    /// `true` when the window is over.
    pub fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.window.end_ns
    }

    /// How much of the window has passed by `now_ns`, and the thread's time in it.
    pub fn end(&self, now_ns: u64) -> (u64, ThreadTime) {
        let duration_ns = now_ns.min(self.window.end_ns).saturating_sub(self.window.begin_ns);
        let time = self.begun.map_or(ThreadTime::default(), |then| ThreadTime::now().since(then));
        (duration_ns, time)
    }
}
