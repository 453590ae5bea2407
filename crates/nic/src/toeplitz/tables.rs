//! What a key expands to: byte tables, bit matrices, half-byte tables.
//!
//! Output byte `j` (0 is the most significant) takes input byte `i` through the bit matrix
//! `M(i + j)`. A vector path holds four rows, input bytes `4w..4w + 4` of many tuples, in four
//! lanes, and multiplies them four times. In turn `c` lane `i` yields output byte `i ^ c`, so all
//! 16 products of a word are made without moving a row, and the lanes are brought together once
//! per burst instead of once per product. The tables are stored in exactly that order.

/// Rows held by a vector: the bytes of one 32-bit word of the tuples.
pub(super) const LANES: usize = 4;

/// The tables of one key.
#[derive(Clone)]
pub(super) struct Tables {
    /// Per input byte: what each of its values adds to the hash.
    pub(super) bytes: Box<[[u32; 256]]>,
    /// Per input word.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) matrices: Box<[Matrices]>,
    /// Per input word.
    #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
    pub(super) nibbles: Box<[Nibbles]>,
}

/// Bit matrices of an input word as `gf2p8affineqb` takes them: per turn, two per lane.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Matrices(pub(super) [[[u64; 2]; LANES]; LANES]);

/// Half-byte tables of an input word: per turn and lane 16 bytes.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Nibbles {
    /// What the low halves of the input bytes add.
    pub(super) low: [[[u8; 16]; LANES]; LANES],
    /// What the high halves of the input bytes add.
    pub(super) high: [[[u8; 16]; LANES]; LANES],
}

// One turn of either is one 64-byte vector, and nothing lies between the turns.
const _: () = assert!(size_of::<Matrices>() == 64 * LANES);
const _: () = assert!(size_of::<Nibbles>() == 2 * 64 * LANES);

impl Tables {
    /// Expands a key of at least 8 bytes.
    pub(super) fn new(key: &[u8]) -> Self {
        let inputs = key.len() - 4;
        let words = inputs / 4;
        Self {
            bytes: (0..inputs).map(|at| byte_table(key, at)).collect(),
            matrices: (0..words).map(|word| matrices(key, word)).collect(),
            nibbles: (0..words).map(|word| nibbles(key, word)).collect(),
        }
    }

    /// Memory, bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.bytes) + size_of_val(&*self.matrices) + size_of_val(&*self.nibbles)
    }
}

/// Returns the 8 key bits that start at `bit`; bits past the end are zero.
fn key_bits_8(key: &[u8], bit: usize) -> u8 {
    let at = |byte: usize| u16::from(key.get(byte).copied().unwrap_or(0));
    let pair = at(bit / 8) << 8 | at(bit / 8 + 1);
    (pair >> (8 - bit % 8)) as u8
}

/// Returns the 32 key bits that start at `bit`.
fn key_bits_32(key: &[u8], bit: usize) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|byte| key_bits_8(key, bit + 8 * byte)))
}

fn byte_table(key: &[u8], at: usize) -> [u32; 256] {
    let mut table = [0; 256];
    for value in 1..256_usize {
        // The value without its lowest bit is already known; that bit is `7 - zeros` from the top.
        let zeros = value.trailing_zeros() as usize;
        table[value] = table[value & (value - 1)] ^ key_bits_32(key, 8 * at + 7 - zeros);
    }
    table
}

/// Returns `M(sum)` times `value`: what an input byte adds to an output byte.
fn product(key: &[u8], sum: usize, value: u8) -> u8 {
    (0..8)
        .filter(|bit| value & (0x80 >> bit) != 0)
        .fold(0, |acc, bit| acc ^ key_bits_8(key, 8 * sum + bit))
}

/// Returns the index of the matrix that lane `lane` of word `word` needs in turn `turn`.
fn matrix_index(word: usize, turn: usize, lane: usize) -> usize {
    4 * word + lane + (lane ^ turn)
}

fn matrices(key: &[u8], word: usize) -> Matrices {
    // Byte `r` of the operand is the row that makes bit `7 - r` of the result, and that row is
    // the 8 key bits from `8 * sum + r`: a Toeplitz matrix is its own table of windows.
    let matrix =
        |sum: usize| u64::from_le_bytes(std::array::from_fn(|row| key_bits_8(key, 8 * sum + row)));
    Matrices(std::array::from_fn(|turn| {
        std::array::from_fn(|lane| [matrix(matrix_index(word, turn, lane)); 2])
    }))
}

fn nibbles(key: &[u8], word: usize) -> Nibbles {
    let table = |turn: usize, lane: usize, shift: u32| -> [u8; 16] {
        let sum = matrix_index(word, turn, lane);
        std::array::from_fn(|half| product(key, sum, (half as u8) << shift))
    };
    let vectors = |shift: u32| {
        std::array::from_fn(|turn| std::array::from_fn(|lane| table(turn, lane, shift)))
    };
    Nibbles { low: vectors(0), high: vectors(4) }
}
