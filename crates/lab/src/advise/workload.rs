//! A workload, declared in a TOML file.

use std::ops::Range;

use niclab_device::model::profile::line_of;
use niclab_device::{Action, Stack};
use niclab_packet::limits::FLOWS_MAX;
use niclab_packet::size::FrameSizes;
use niclab_result::Coordinate;
use serde::Deserialize;
use toml::Spanned;

use crate::axes::ACTIONS;
use crate::place;

/// What an application asks of a card.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Rules that stand in the card, 1 to as many as there can be flows.
    pub rules: u32,
    /// The headers that each of them matches.
    pub stack: Stack,
    /// The actions of each of them.
    pub actions: Vec<Action>,
    /// Rules that come a second; as many go.
    pub new_per_s: u32,
    /// Frames.
    pub frame: FrameSizes,
    /// Frames that are offered, millions a second.
    pub rate_mpps: f64,
    /// Cores of the host, 1 to 1,024.
    pub cores: u32,
    /// Most of the frames that may be lost, 0 to 1.
    pub loss_max: f64,
    /// Greatest 99th percentile of the latency, microseconds; none: any.
    pub latency_max_us: Option<f64>,
    file: String,
    rate_line: usize,
}

/// Why a workload cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {key}: {reason}")]
pub struct WorkloadError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The key.
    pub key: String,
    /// The defect, and a valid value.
    pub reason: String,
}

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenWorkload {
    name: String,
    rules: Spanned<i64>,
    #[serde(rename = "match")]
    stack: Spanned<String>,
    actions: Spanned<String>,
    new_per_s: Spanned<i64>,
    frame: Spanned<Coordinate>,
    rate_mpps: Spanned<f64>,
    cores: Spanned<i64>,
    loss_max: Spanned<f64>,
    latency_max_us: Option<Spanned<f64>>,
}

impl Workload {
    /// Reads a workload; `file` is what errors call it.
    ///
    /// # Errors
    /// The first thing that is missing, unknown or out of range.
    pub fn parse(file: &str, text: &str) -> Result<Workload, WorkloadError> {
        let reader = WorkloadReader { file, text };
        let written: WrittenWorkload = toml::from_str(text).map_err(|error| {
            let message = error.message().to_owned();
            let span = error.span().unwrap_or(0..0);
            let key = match message.contains("field") {
                // Which key is missing or unknown stands in the message alone.
                true => message.split('`').nth(1),
                false => text.lines().nth(reader.line(&span) - 1).and_then(|l| l.split('=').next()),
            };
            reader.error(span, key.unwrap_or("workload").trim(), message.clone())
        })?;
        let frame = place::frame(written.frame.get_ref())
            .map_err(|error| reader.error(written.frame.span(), "frame", error.to_string()))?;
        let stack = reader.one_of(&written.stack, "match", &Stack::ALL)?;
        let actions = reader.one_of(&written.actions, "actions", &ACTIONS)?;
        let share = |of: &Spanned<f64>, key| reader.within(of, key, 0.0, 1.0);
        let latency = |of: &Spanned<f64>| reader.within(of, "latency_max_us", 1e-3, 6e7);
        Ok(Workload {
            name: written.name,
            rules: reader.whole(&written.rules, "rules", 1, FLOWS_MAX)?,
            stack,
            actions: actions.to_vec(),
            new_per_s: reader.whole(&written.new_per_s, "new_per_s", 0, 5_000_000)?,
            frame,
            rate_mpps: reader.within(&written.rate_mpps, "rate_mpps", 1e-3, 1e6)?,
            cores: reader.whole(&written.cores, "cores", 1, 1_024)?,
            loss_max: share(&written.loss_max, "loss_max")?,
            latency_max_us: written.latency_max_us.as_ref().map(latency).transpose()?,
            file: file.to_owned(),
            rate_line: reader.line(&written.rate_mpps.span()),
        })
    }

    /// Frames that are offered a second.
    pub fn rate_pps(&self) -> f64 {
        self.rate_mpps * 1e6
    }

    /// What is said of its rate where no card can be asked for that.
    pub(super) fn refuse(&self, key: &str, reason: String) -> WorkloadError {
        WorkloadError { file: self.file.clone(), line: self.rate_line, key: key.into(), reason }
    }
}

struct WorkloadReader<'a> {
    file: &'a str,
    text: &'a str,
}

impl WorkloadReader<'_> {
    fn line(&self, span: &Range<usize>) -> usize {
        line_of(self.text, span)
    }

    fn error(&self, span: Range<usize>, key: &str, reason: String) -> WorkloadError {
        let line = self.line(&span);
        WorkloadError { file: self.file.to_owned(), line, key: key.to_owned(), reason }
    }

    fn whole(
        &self,
        of: &Spanned<i64>,
        key: &str,
        least: u32,
        most: u32,
    ) -> Result<u32, WorkloadError> {
        let number = *of.get_ref();
        match u32::try_from(number) {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(self.error(of.span(), key, format!("{number}: use {least} to {most}"))),
        }
    }

    fn within(
        &self,
        of: &Spanned<f64>,
        key: &str,
        least: f64,
        most: f64,
    ) -> Result<f64, WorkloadError> {
        let number = *of.get_ref();
        match (least..=most).contains(&number) {
            true => Ok(number),
            false => Err(self.error(of.span(), key, format!("{number}: use {least} to {most}"))),
        }
    }

    fn one_of<T: Copy>(
        &self,
        of: &Spanned<String>,
        key: &str,
        all: &[(&'static str, T)],
    ) -> Result<T, WorkloadError> {
        let found = all.iter().find(|(name, _)| name == of.get_ref());
        found.map(|(_, one)| *one).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            let reason = format!("no such; use one of {}", names.join(", "));
            self.error(of.span(), key, reason)
        })
    }
}
