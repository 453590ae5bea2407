//! Experiments, searches, statistics and findings.
//!
//! What was typed ([`spec::Spec`], [`spec::Overrides`]) is resolved to what will run
//! ([`run::Run`]); [`runner::execute`] carries it out on devices and stores a sample a trial;
//! [`summary::summarize`] computes from the samples what the report shows. The lab knows devices
//! only through the face in `device`, reads no clock, never sleeps and prints nothing.
#![forbid(unsafe_code)]

pub mod advise;
mod axes;
pub mod baseline;
mod breakdown;
mod bus;
mod cells;
pub mod compare;
pub mod control;
mod device_samples;
pub mod estimate;
pub mod experiments;
mod findings;
pub mod fit;
pub mod fleet;
pub mod flows;
mod hosts;
pub mod knee;
pub mod loss;
pub mod measure;
pub mod medians;
pub mod merge;
pub mod metrics;
pub mod mlr;
pub mod origin;
pub mod place;
pub mod placement;
pub mod published;
pub mod reference;
pub mod remaining;
mod round_trips;
mod rule_matches;
pub mod run;
pub mod runner;
mod scaling;
pub mod spec;
pub mod statistics;
pub mod summary;
pub mod throughput;
pub mod validation;
pub mod values;
pub mod variants;
mod windows;
mod wire;
pub mod words;

#[cfg(test)]
#[path = "simulated_tests.rs"]
mod simulated;

#[cfg(test)]
mod throughput_tests;

#[cfg(test)]
mod known_answer_tests;
