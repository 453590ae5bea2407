//! Exchanges of messages: places, samples, refusals, findings.
