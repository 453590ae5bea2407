//! The Toeplitz hash of fields, as cards spread packets by it, over any number of bytes.

/// The key that cards come with, of Microsoft's specification of RSS ("Verifying the RSS hash
/// calculation").
pub(crate) const DEFAULT_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// The hash of bytes; behind its end, the key begins again.
pub(crate) fn hash(key: &[u8], bytes: &[u8]) -> u32 {
    let byte = |at: usize| u64::from(key[at % key.len()]);
    let mut hash = 0;
    for (at, value) in bytes.iter().enumerate() {
        // The 40 bits of the key that begin at this byte.
        let window = (0..5).fold(0, |window, more| window << 8 | byte(at + more));
        for bit in (0..8).filter(|bit| value << bit & 0x80 != 0) {
            hash ^= (window >> (8 - bit)) as u32;
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Microsoft, "Verifying the RSS hash calculation": IPv4 with and without TCP's ports.
    #[test]
    fn published_vectors_come_out() {
        let bytes = [66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6];
        assert_eq!(hash(&DEFAULT_KEY, &bytes), 0x51cc_c178);
        assert_eq!(hash(&DEFAULT_KEY, &bytes[..8]), 0x323e_8fc2);
    }
}
