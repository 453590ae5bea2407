//! Names of the capabilities that a device may lack as a whole.
//!
//! [`DeviceError::NotSupported`](crate::DeviceError::NotSupported) and
//! [`DeviceInfo::not_supported`](crate::DeviceInfo::not_supported) use them.

/// Frames of a generator.
pub const FRAMES: &str = "frames";
/// Rules.
pub const RULES: &str = "rules";
/// Cases of rules and frames, one frame at a time.
pub const RULE_CASES: &str = "rules frame by frame";
/// Round trips of messages.
pub const ECHO: &str = "echo";
/// Stamps of messages in the kernel.
pub const STAMPS: &str = "stamps";
/// Servers' programs.
pub const APPLICATIONS: &str = "applications";
/// Bulk data between two hosts.
pub const STREAM: &str = "stream";
/// Programs over packets in memory.
pub const PROGRAMS: &str = "programs";
/// Half of a testbed of two hosts.
pub const TWO_HOSTS: &str = "a tester and a device on two hosts";
/// A key-value store that serves requests in memory.
pub const STORE: &str = "key-value store";
/// Engines of an intrusion detection behind a card.
pub const DETECTION: &str = "intrusion detection";
/// Workers that count tuples in memory behind a card.
pub const ANALYTICS: &str = "analytics";
