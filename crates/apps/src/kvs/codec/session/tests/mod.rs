//! Talks over both protocols, byte for byte, and forms of their requests that are malformed.

mod binary;
mod binary_malformed;
mod text;
mod text_malformed;
