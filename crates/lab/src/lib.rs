//! Experiments, searches, statistics and findings.
#![forbid(unsafe_code)]

pub mod estimate;
pub mod experiment;
pub mod flows;
pub mod knee;
pub mod measure;
pub mod occupancy;
pub mod published;
pub mod run;
pub mod runner;
pub mod spec;
pub mod statistics;
pub mod values;

#[cfg(test)]
mod simulated;
