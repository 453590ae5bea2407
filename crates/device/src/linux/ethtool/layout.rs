//! Numbers and texts in the structures of `linux/ethtool.h`, by their offset.
//!
//! Numbers are in the machine's order unless the header says otherwise; structures are those of
//! 64-bit machines, whose 64-bit numbers lie at multiples of eight.

/// A structure that is written by offsets.
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Bytes {
    /// `len` zeros behind the number of a command.
    pub(super) fn of(command: u32, len: usize) -> Bytes {
        let mut bytes = Bytes(vec![0; len]);
        bytes.put(0, &command.to_ne_bytes());
        bytes
    }

    pub(super) fn put(&mut self, at: usize, value: &[u8]) {
        self.0[at..at + value.len()].copy_from_slice(value);
    }

    pub(super) fn u32(mut self, at: usize, value: u32) -> Bytes {
        self.put(at, &value.to_ne_bytes());
        self
    }

    pub(super) fn u64(mut self, at: usize, value: u64) -> Bytes {
        self.put(at, &value.to_ne_bytes());
        self
    }
}

/// Some bytes of an answer; zeros where it is shorter.
pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let found = bytes.get(at..at + N).and_then(|bytes| bytes.try_into().ok());
    found.unwrap_or([0; N])
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(array(bytes, at))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(array(bytes, at))
}

/// A text in a field of `len` bytes, which ends with the first zero.
pub(super) fn text_at(bytes: &[u8], at: usize, len: usize) -> String {
    let field = bytes.get(at..at + len).unwrap_or_default();
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).trim().to_owned()
}
