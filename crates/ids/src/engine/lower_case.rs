//! The payload in lower case, for contents with `nocase`.

/// Bytes of a payload, at most: the length of an IP packet has 16 bits.
const PAYLOAD_LEN_MAX: usize = 65_535;

/// Memory for a payload in lower case. It is made once per packet, and only for packets whose
/// candidates need it.
#[derive(Debug)]
pub(super) struct LowerCase {
    bytes: Vec<u8>,
    is_made: bool,
}

impl LowerCase {
    pub(super) fn new() -> LowerCase {
        LowerCase { bytes: Vec::with_capacity(PAYLOAD_LEN_MAX), is_made: false }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Another packet comes.
    pub(super) fn clear(&mut self) {
        self.is_made = false;
    }

    /// The payload of the packet in lower case.
    pub(super) fn of(&mut self, payload: &[u8]) -> &[u8] {
        if !self.is_made {
            self.bytes.clear();
            self.bytes.extend_from_slice(payload);
            self.bytes.make_ascii_lowercase();
            self.is_made = true;
        }
        &self.bytes
    }
}
