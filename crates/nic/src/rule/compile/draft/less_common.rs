//! Items that few rules have: their fields are in places of the extra key, and of the inner key
//! where no frame has both.

use niclab_packet::key::{extra, field as place};

use super::{CompileError, Draft, Places, UDP};
use crate::rule::item::{Item, ItemMatch};
use crate::rule::{EXTRA, INNER, OUTER};

const ETHER_ARP: u16 = 0x0806;
const ETHER_PPPOED: u16 = 0x8863;
const ETHER_PPPOES: u16 = 0x8864;
const PORT_GTPC: u16 = 2_123;
const PORT_GTPU: u16 = 2_152;

/// Flags and type that NVGRE has in GRE (RFC 7637).
const NVGRE_HEAD: [(usize, u8); 4] = [
    (extra::GRE_FLAGS.start, 0x20),
    (extra::GRE_FLAGS.start + 1, 0),
    (extra::TUNNEL_TYPE.start, 0x65),
    (extra::TUNNEL_TYPE.start + 1, 0x58),
];
/// ARP is in the inner key.
const ARP: Places<'_> = &[
    (48, place::SPORT),
    (64, place::ETH_SRC),
    (112, place::SRC_HEAD),
    (144, place::ETH_DST),
    (192, place::DST_HEAD),
];
/// What ARP begins with for Ethernet and IPv4.
const ARP_HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];
const NVGRE: Places<'_> =
    &[(0, extra::GRE_FLAGS), (16, extra::TUNNEL_TYPE), (32, extra::TUNNEL_ID)];
const GTP: Places<'_> = &[(0, extra::GRE_FLAGS), (32, extra::TUNNEL_ID)];
const GTP_PSC: Places<'_> = &[(8, extra::TUNNEL_TYPE)];
const FRAGMENT_DATA: usize = extra::OUTER + extra::FRAGMENT_DATA;
const FRAGMENT: Places<'_> = &[(16, FRAGMENT_DATA..FRAGMENT_DATA + 2), (32, extra::FRAGMENT_ID)];
/// The rest of the fragment header is in the inner key.
const FRAGMENT_NEXT: usize = extra::FRAGMENT_END.end - 1;
const FRAGMENT_INNER: Places<'_> =
    &[(48, extra::FRAGMENT_END.start..FRAGMENT_NEXT), (0, FRAGMENT_NEXT..FRAGMENT_NEXT + 1)];
const SESSION: usize = extra::OUTER + extra::PPPOE;
const PPPOE: Places<'_> = &[(8, SESSION..SESSION + 3)];

/// Whether the keys have this header outside of tunnels alone.
pub(super) fn is_outer(item: Item) -> bool {
    !matches!(
        item,
        Item::Eth
            | Item::Vlan
            | Item::Ipv4
            | Item::Ipv6
            | Item::Icmp
            | Item::Icmp6
            | Item::Tcp
            | Item::Udp
            | Item::Sctp
            | Item::Esp
            | Item::Ah
    ) && item.is_header()
}

impl Draft {
    /// SCTP, ESP or AH, which have a number of 32 bits.
    pub(super) fn numbered(&mut self, read: &mut ItemMatch) -> Result<(), CompileError> {
        match read.item {
            Item::Sctp => {
                self.transport(read.item, 132)?;
                self.fields(read, UDP, self.level)?;
            }
            item => self.protocol(item, if item == Item::Esp { 50 } else { 51 })?,
        }
        let (first, number) = self.number(read.item);
        let is_asked = read.mask[first / 8..][..4] != [0; 4];
        if is_asked || read.item != Item::Sctp {
            self.extra(self.detail() + extra::KNOWN, extra::HAS_SEQ, extra::HAS_SEQ)?;
        }
        self.fields(read, &[(first, number..number + 4)], EXTRA)
    }

    /// Where a header has its number, and the extra key.
    fn number(&self, item: Item) -> (usize, usize) {
        let echo = if self.level == OUTER { extra::OUTER_ECHO } else { extra::INNER_ECHO };
        (if item == Item::Esp { 0 } else { 32 }, echo)
    }

    pub(super) fn arp(&mut self, read: &mut ItemMatch) -> Result<(), CompileError> {
        self.type_is(read.item, ETHER_ARP)?;
        self.extra(extra::OUTER + extra::KNOWN, extra::HAS_ARP, extra::HAS_ARP)?;
        self.constant(read, &ARP_HEAD)?;
        self.fields(read, ARP, INNER)
    }

    /// Bytes that every header of this kind begins with.
    fn constant(&self, read: &mut ItemMatch, head: &[u8]) -> Result<(), CompileError> {
        for (at, byte) in head.iter().enumerate() {
            if (read.spec[at] ^ byte) & read.mask[at] != 0 {
                let name = read.item.name();
                let reason = format!("byte {at} of {name} is {byte:#04x} in every packet");
                return Err(CompileError::Contradiction { index: self.index, reason });
            }
            read.mask[at] = 0;
        }
        Ok(())
    }

    pub(super) fn fragment_header(&mut self, read: &mut ItemMatch) -> Result<(), CompileError> {
        let bit = extra::HAS_FRAGMENT_HEADER;
        self.extra(extra::OUTER + extra::KNOWN, bit, bit)?;
        self.fields(read, FRAGMENT, EXTRA)?;
        self.fields(read, FRAGMENT_INNER, INNER)
    }

    pub(super) fn pppoe(&mut self, read: &mut ItemMatch) -> Result<(), CompileError> {
        let is_session = read.item == Item::Pppoes;
        self.type_is(read.item, if is_session { ETHER_PPPOES } else { ETHER_PPPOED })?;
        self.extra(extra::OUTER + extra::KNOWN, extra::HAS_PPPOE, extra::HAS_PPPOE)?;
        self.constant(read, &[0x11])?;
        self.fields(read, PPPOE, EXTRA)
    }

    pub(super) fn nvgre(&mut self, read: &mut ItemMatch) -> Result<(), CompileError> {
        self.protocol(read.item, 47)?;
        for (at, value) in NVGRE_HEAD {
            self.extra(at, value, 0xff)?;
        }
        self.tunnel(read, extra::GRE | extra::GRE_KEY, NVGRE)
    }

    pub(super) fn gtp(&mut self, read: &mut ItemMatch) -> Result<(), CompileError> {
        let known = extra::OUTER + extra::KNOWN;
        match read.item {
            Item::GtpPsc => return self.tunnel(read, extra::GTP_PSC, GTP_PSC),
            Item::Gtpu => {
                self.port(read.item, PORT_GTPU)?;
                self.extra(known, extra::IS_GTPU, extra::IS_GTPU)?;
            }
            Item::Gtpc => {
                self.port(read.item, PORT_GTPC)?;
                self.extra(known, extra::IS_GTPC, extra::IS_GTPC)?;
            }
            _ => self.port(read.item, PORT_GTPU).or(self.port(read.item, PORT_GTPC))?,
        }
        if (read.spec[0] ^ 0x30) & read.mask[0] & 0xf0 != 0 {
            let reason = "v_pt_rsv_flags are 0x30 to 0x3f in GTP of version 1".to_owned();
            return Err(CompileError::Contradiction { index: self.index, reason });
        }
        self.tunnel(read, extra::GTP, GTP)
    }

    /// The places of an item's fields that can have ranges, and their key.
    pub(super) fn ranged_places(
        &self,
        item: Item,
    ) -> (Vec<(usize, std::ops::Range<usize>)>, usize) {
        match item {
            Item::Esp | Item::Ah => {
                let (first, number) = self.number(item);
                (vec![(first, number..number + 4)], EXTRA)
            }
            Item::ArpEthIpv4 => (ARP.to_vec(), INNER),
            Item::Ipv6FragExt => (FRAGMENT.to_vec(), EXTRA),
            Item::Pppoed | Item::Pppoes => (PPPOE.to_vec(), EXTRA),
            Item::Nvgre => (NVGRE.to_vec(), EXTRA),
            Item::Gtp | Item::Gtpc | Item::Gtpu => (GTP.to_vec(), EXTRA),
            Item::GtpPsc => (GTP_PSC.to_vec(), EXTRA),
            _ => (Vec::new(), EXTRA),
        }
    }
}
