//! The Toeplitz hash of fields, as cards spread packets by it, over any number of bytes.

/// The key that cards come with, of Microsoft's specification of RSS ("Verifying the RSS hash
/// calculation").
pub(crate) const DEFAULT_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// What each value of a half of a byte adds, by the half's place: upper halves are even.
static HALVES: [[u32; 16]; 2 * DEFAULT_KEY.len()] = {
    let mut halves = [[0; 16]; 2 * DEFAULT_KEY.len()];
    let mut place = 0;
    while place < halves.len() {
        // The 40 bits of the key that begin at its byte.
        let (mut window, mut more) = (0_u64, 0);
        while more < 5 {
            window = window << 8 | DEFAULT_KEY[(place / 2 + more) % DEFAULT_KEY.len()] as u64;
            more += 1;
        }
        let mut bit = 0;
        while bit < 4 {
            let adds = (window >> (8 - 4 * (place % 2) - bit)) as u32;
            let mut value = 0;
            while value < 16 {
                if value << bit & 8 != 0 {
                    halves[place][value] ^= adds;
                }
                value += 1;
            }
            bit += 1;
        }
        place += 1;
    }
    halves
};

/// The hash of bytes by the key that cards come with; behind its end, that begins again.
pub(crate) fn hash(bytes: &[u8]) -> u32 {
    let (halves, _) = HALVES.as_chunks::<2>();
    let mut hash = 0;
    for stretch in bytes.chunks(halves.len()) {
        for (byte, [upper, lower]) in stretch.iter().zip(halves) {
            hash ^= upper[usize::from(byte >> 4)] ^ lower[usize::from(byte & 15)];
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, as the specification says it.
    fn plain(bytes: &[u8]) -> u32 {
        let bit = |of: &[u8], at: usize| of[at / 8 % of.len()] >> (7 - at % 8) & 1;
        let key = |from: usize| {
            (from..from + 32).fold(0, |key, at| key << 1 | u32::from(bit(&DEFAULT_KEY, at)))
        };
        let ones = (0..8 * bytes.len()).filter(|at| bit(bytes, *at) == 1);
        ones.fold(0, |hash, at| hash ^ key(at))
    }

    #[test]
    fn halves_of_bytes_do_what_bits_do() {
        let bytes: Vec<u8> = (0..200_u8).map(|at| at.wrapping_mul(37) ^ at >> 3).collect();
        for len in 0..bytes.len() {
            assert_eq!(hash(&bytes[..len]), plain(&bytes[..len]), "{len} bytes");
        }
    }

    /// Microsoft, "Verifying the RSS hash calculation": IPv4 with and without TCP's ports.
    #[test]
    fn published_vectors_come_out() {
        let bytes = [66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6];
        assert_eq!(hash(&bytes), 0x51cc_c178);
        assert_eq!(hash(&bytes[..8]), 0x323e_8fc2);
    }
}
