//! Commands of variants: one runs before each trial. A trial whose command failed is not made.

use niclab_result::{ResultError, VariantRun};

use super::record::failed;
use super::{MeasuredPoint, Runner};
use crate::variants::{FAILURES_MAX, Variant};

/// A command that a [`Host`](super::Host) is to run.
#[derive(Clone, Copy, Debug)]
pub struct VariantCommand<'a> {
    /// The variant.
    pub variant: &'a Variant,
    /// The device that is measured afterwards, as it was asked for.
    pub device: &'a str,
    /// How long it may take, seconds.
    pub timeout_s: u64,
}

/// How a command ended, and what it wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutcome {
    /// How it ended.
    pub end: CommandEnd,
    /// The end of its standard output.
    pub stdout: String,
    /// The end of its standard error.
    pub stderr: String,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// By itself, with this exit status.
    Exited(i32),
    /// By a signal of this number.
    Killed(i32),
    /// It took too long, and was killed.
    TimedOut,
    /// It was not started: why.
    NotStarted(String),
}

impl CommandOutcome {
    /// Why the trial behind it is not made; `None` where the command succeeded.
    fn failure(&self, of: &VariantCommand<'_>) -> Option<String> {
        let how = match &self.end {
            CommandEnd::Exited(0) => return None,
            CommandEnd::Exited(status) => format!("ended with exit status {status}"),
            CommandEnd::Killed(signal) => format!("was killed by signal {signal}"),
            CommandEnd::TimedOut => format!("did not end within {} s and was killed", of.timeout_s),
            CommandEnd::NotStarted(reason) => format!("could not be started: {reason}"),
        };
        let last = self.stderr.lines().map(str::trim_end).rfind(|line| !line.is_empty());
        let last = last.map_or(String::new(), |line| format!(": {line}"));
        Some(format!("the command of variant {} {how}{last}", of.variant.name))
    }

    fn exit_code(&self) -> Option<i32> {
        match self.end {
            CommandEnd::Exited(status) => Some(status),
            CommandEnd::Killed(_) | CommandEnd::TimedOut | CommandEnd::NotStarted(_) => None,
        }
    }
}

impl Runner<'_> {
    /// Runs the command of the variant that a trial is made under. `false` where it failed: the
    /// failure is stored, and the trial is not made. `true` without a variant.
    ///
    /// The device is set up anew behind it: the command may have changed its state, and a trial
    /// behind a set-up is no pair of one without.
    pub(super) fn prepare(&mut self, place: &MeasuredPoint<'_>) -> Result<bool, ResultError> {
        let run = self.run;
        let Some(of) = &run.devices[place.device].variant else { return Ok(true) };
        let Some(variant) = run.variants.named(&of.name) else { return Ok(true) };
        let timeout_s = run.variants.timeout_s;
        let command = VariantCommand { variant, device: &of.device, timeout_s };
        let started_unix_ns = self.host.time_unix_ns();
        let outcome = self.host.prepare(&command);
        let duration_ns = self.host.time_unix_ns().saturating_sub(started_unix_ns);
        for at in self.siblings(place.device) {
            self.states[at].setup = None;
        }
        let (failure, exit_code) = (outcome.failure(&command), outcome.exit_code());
        let CommandOutcome { stdout, stderr, .. } = outcome;
        let name = variant.name.clone();
        let ran = VariantRun { name, started_unix_ns, duration_ns, exit_code, stdout, stderr };
        self.variant_run = Some(ran);
        let Some(reason) = failure else {
            self.states[place.device].failures = 0;
            return Ok(true);
        };
        self.states[place.device].failures += 1;
        let MeasuredPoint { device, trial, repeat, point } = *place;
        if self.states[device].failures >= FAILURES_MAX {
            let reason = format!("{reason} ({FAILURES_MAX} times in a row)");
            return self.drop_device(device, reason, trial, repeat, point).map(|()| false);
        }
        let sample = self.sample(place, failed(reason));
        self.keep(device, sample, None).map(|()| false)
    }

    /// This device and those that are the same one under other variants.
    pub(super) fn siblings(&self, device: usize) -> Vec<usize> {
        let of = self.groups.iter().find(|group| group.contains(&device));
        of.cloned().unwrap_or_else(|| vec![device])
    }

    /// `false` for a device under a variant whose other variants are all left out: its trials would
    /// have no pairs.
    pub(super) fn has_pair(&self, device: usize) -> bool {
        let siblings = self.siblings(device);
        let remaining = siblings.iter().filter(|at| !self.states[**at].known.gone).count();
        siblings.len() == 1 || remaining > 1
    }
}
