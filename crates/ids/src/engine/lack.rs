//! Reasons why the engine does not support a rule.

use std::fmt;

/// Something that a rule needs and the engine lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lack {
    /// A keyword, such as `flow` or `http.uri`.
    Keyword(String),
    /// A value of a keyword, such as `dce` of `byte_test`.
    Value {
        /// The keyword.
        keyword: &'static str,
        /// The value, in words.
        value: String,
    },
    /// A protocol of applications, or `tcp-stream`.
    Protocol(String),
    /// Payload of TCP without a keyword of packets: Suricata matches it in the stream.
    Stream,
    /// Nothing but a header: Suricata matches it once per flow and direction.
    HeaderOnly,
    /// The action `config`.
    Config,
}

impl Lack {
    pub(super) fn value(keyword: &'static str, value: impl Into<String>) -> Lack {
        Lack::Value { keyword, value: value.into() }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Keyword(name) => f.write_str(name),
            Lack::Value { keyword, value } => write!(f, "{keyword}: {value}"),
            Lack::Protocol(name) => write!(f, "protocol {name}"),
            Lack::Stream => f.write_str("payload of a TCP stream"),
            Lack::HeaderOnly => f.write_str("a header alone"),
            Lack::Config => f.write_str("action config"),
        }
    }
}
