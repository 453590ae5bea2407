//! What the tests beside the protocols share.

use crate::ParseError;

/// Shows every head of `bytes` to `parse`: those shorter than `header_len` must be refused as
/// truncated, the others accepted.
pub(crate) fn every_truncation<R>(
    bytes: &[u8],
    header_len: usize,
    parse: impl Fn(&[u8]) -> Result<R, ParseError>,
) {
    for len in 0..=bytes.len() {
        match parse(&bytes[..len]) {
            Ok(_) => assert!(len >= header_len, "{len} bytes were accepted"),
            Err(ParseError::Truncated { needed_len, available_len, .. }) => {
                assert!(len < header_len, "{len} bytes were refused");
                assert_eq!(available_len, len);
                assert!(needed_len > len && needed_len <= header_len);
            }
            Err(other) => panic!("{len} bytes: {other}"),
        }
    }
}
