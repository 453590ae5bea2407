//! Hashes that programs may ask for, over bytes.

use crate::form::Hash;

impl Hash {
    /// The hash of bytes.
    #[must_use]
    pub fn of(self, bytes: &[u8]) -> u64 {
        match self {
            Hash::Crc32c => u64::from(crc32c(bytes)),
            Hash::Jhash => u64::from(jhash(bytes, 0)),
            Hash::Crc16 => u64::from(reflected(bytes, &CRC16, 0)),
            Hash::Crc32 => u64::from(!reflected(bytes, &CRC32, u32::MAX)),
            Hash::Identity => crate::value::to_number(bytes),
        }
    }
}

/// CRC tables by byte, of polynomials with their bits turned round.
const CRC16: [u32; 256] = table(0xa001);
const CRC32: [u32; 256] = table(0xedb8_8320);
const CRC32C: [u32; 256] = table(0x82f6_3b78);

/// What a byte adds to a CRC-32C that so many bytes stand behind.
static CRC32C_EIGHT: [[u32; 256]; 8] = {
    let mut tables = [CRC32C; 8];
    let mut behind = 1;
    while behind < 8 {
        let mut byte = 0;
        while byte < 256 {
            let last = tables[behind - 1][byte];
            tables[behind][byte] = last >> 8 ^ CRC32C[(last & 0xff) as usize];
            byte += 1;
        }
        behind += 1;
    }
    tables
};

const fn table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut value, mut bit) = (byte as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ polynomial } else { value >> 1 };
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
}

fn reflected(bytes: &[u8], table: &[u32; 256], start: u32) -> u32 {
    bytes.iter().fold(start, |crc, byte| crc >> 8 ^ table[usize::from(crc as u8 ^ byte)])
}

/// CRC-32C from 0, without a last inversion, as DPDK's `rte_hash_crc`; eight bytes at a time.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let mut crc = 0;
    for eight in eights {
        let word = u64::from_le_bytes(*eight) ^ u64::from(crc);
        let part = |at: usize| CRC32C_EIGHT[7 - at][(word >> (8 * at)) as usize & 0xff];
        crc = (0..8).fold(0, |crc, at| crc ^ part(at));
    }
    rest.iter().fold(crc, |crc, byte| crc >> 8 ^ CRC32C[usize::from(crc as u8 ^ byte)])
}

/// Bob Jenkins' lookup3 (`hashlittle`), as DPDK's `rte_jhash` takes it.
fn jhash(bytes: &[u8], initial: u32) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32).wrapping_add(initial);
    let mut state = [start; 3];
    let word = |chunk: &[u8]| -> u32 {
        chunk.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
    };
    let mut rest = bytes;
    loop {
        let (now, after) = rest.split_at(rest.len().min(12));
        for (sum, chunk) in state.iter_mut().zip(now.chunks(4)) {
            *sum = sum.wrapping_add(word(chunk));
        }
        // The last block, which has 1 to 12 bytes, is mixed in another way.
        if after.is_empty() {
            return if now.is_empty() { state[2] } else { finish(state) };
        }
        state = mix(state);
        rest = after;
    }
}

fn mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    for (turn, round) in [4, 6, 8, 16, 19, 4].into_iter().enumerate() {
        // The three words take turns.
        let (x, y, z) = match turn % 3 {
            0 => (&mut a, &mut b, &mut c),
            1 => (&mut b, &mut c, &mut a),
            _ => (&mut c, &mut a, &mut b),
        };
        *x = x.wrapping_sub(*z) ^ z.rotate_left(round);
        *z = z.wrapping_add(*y);
    }
    [a, b, c]
}

fn finish([mut a, mut b, mut c]: [u32; 3]) -> u32 {
    for (turn, round) in [14, 11, 25, 16, 4, 14, 24].into_iter().enumerate() {
        let (x, y) = match turn % 3 {
            0 => (&mut c, b),
            1 => (&mut a, c),
            _ => (&mut b, a),
        };
        *x = (*x ^ y).wrapping_sub(y.rotate_left(round));
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check values of the catalogue of parametrised CRC algorithms (reveng), for `123456789`.
    #[test]
    fn crcs_have_their_check_values() {
        let text = b"123456789";
        assert_eq!(Hash::Crc16.of(text), 0xbb3d, "CRC-16/ARC");
        assert_eq!(Hash::Crc32.of(text), 0xcbf4_3926, "CRC-32/ISO-HDLC");
        assert_eq!(!reflected(text, &CRC32C, u32::MAX), 0xe306_9283, "CRC-32/ISCSI");
        let bytes: Vec<u8> = (0..100_u8).map(|at| at.wrapping_mul(37)).collect();
        for len in 0..bytes.len() {
            let bytes = &bytes[..len];
            assert_eq!(crc32c(bytes), reflected(bytes, &CRC32C, 0), "{len} bytes");
        }
    }

    /// Of Bob Jenkins' lookup3.c, driver5: the empty string, and a line of text.
    #[test]
    fn lookup3_has_its_known_answers() {
        assert_eq!(jhash(b"", 0), 0xdead_beef);
        assert_eq!(jhash(b"", 0xdead_beef), 0xbd5b_7dde);
        assert_eq!(jhash(b"Four score and seven years ago", 0), 0x1777_0551);
        assert_eq!(jhash(b"Four score and seven years ago", 1), 0xcd62_8161);
    }
}
