//! Traffic sources and sinks with honest pacing.
