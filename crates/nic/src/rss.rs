//! Receive side scaling: hash, indirection table, queue.
//!
//! The hash is Toeplitz's over the addresses and ports of TCP and UDP over IPv4 and IPv6, and over
//! the addresses of other IP packets (Microsoft, "RSS hashing types"); other frames have hash 0.

use niclab_packet::key::{Depth, Key, field};

use crate::limits::INDIRECTION_LEN;
use crate::toeplitz::{Toeplitz, ToeplitzError};

/// The hash and the table that turns it into a queue.
pub(crate) struct Rss {
    toeplitz: Toeplitz,
    indirection: Box<[u16; INDIRECTION_LEN]>,
}

impl Rss {
    /// Spreads evenly over `queues` queues.
    pub(crate) fn new(key: &[u8], queues: u16) -> Result<Rss, ToeplitzError> {
        let toeplitz = Toeplitz::new(key)?;
        let mut indirection = Box::new([0; INDIRECTION_LEN]);
        for (i, queue) in indirection.iter_mut().enumerate() {
            *queue = (i % usize::from(queues)) as u16;
        }
        Ok(Rss { toeplitz, indirection })
    }

    /// Hash and queue of a packet.
    pub(crate) fn spread(&self, key: &Key) -> (u32, u16) {
        let hash = self.hash(key);
        (hash, self.indirection[hash as usize % INDIRECTION_LEN])
    }

    fn hash(&self, key: &Key) -> u32 {
        let line = key.to_bytes();
        let ports = match key.depth() {
            Depth::Transport => &line[field::SPORT.start..field::DPORT.end],
            Depth::Ip => &[][..],
            Depth::Ethernet | Depth::Nothing => return 0,
        };
        let mut input = [0; 36];
        let mut len = 0;
        let mut put = |bytes: &[u8]| {
            input[len..len + bytes.len()].copy_from_slice(bytes);
            len += bytes.len();
        };
        let ipv6 = line[field::ETHER_TYPE] == [0x86, 0xdd];
        put(&line[field::SRC_HEAD]);
        put(if ipv6 { &line[field::SRC_TAIL] } else { &[] });
        put(&line[field::DST_HEAD]);
        put(if ipv6 { &line[field::DST_TAIL] } else { &[] });
        put(ports);
        self.toeplitz.hash(&input[..len])
    }
}
