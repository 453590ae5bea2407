//! Experiments, searches, statistics and findings.
