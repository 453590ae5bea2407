//! Bytes by their offset, and the ends of headers that they are counted from.

use niclab_packet::key::End;

use super::{CompileError, Draft};
use crate::limits::RAW_REACH;
use crate::rule::OUTER;
use crate::rule::item::{IMAGE_LEN, Item, ItemMatch, RAW_BYTES, RAW_LEN, RAW_LEN_MAX};

/// Whether the keys do not say where a header ends.
fn has_no_end(item: Item) -> bool {
    use Item::{ArpEthIpv4, GtpPsc, Ipv6FragExt, Pppoed, Pppoes};
    matches!(item, ArpEthIpv4 | GtpPsc | Ipv6FragExt | Pppoed | Pppoes)
}

impl Draft {
    /// Notes where an item that was added ends. Ethernet and its tags have one length, so their
    /// ends are counted from where they begin: then the same bytes make the same pattern.
    pub(in crate::rule::compile) fn note_end(&mut self, item: Item) {
        let is_outer = self.level == OUTER;
        let link = if is_outer { End::Frame } else { End::Inside };
        self.end = match item {
            Item::Eth | Item::Vlan => (link, 14 + 4 * self.tags as i64),
            Item::Ipv4 | Item::Ipv6 if is_outer => (End::Ip, 0),
            Item::Ipv4 | Item::Ipv6 => (End::InnerIp, 0),
            Item::Icmp | Item::Icmp6 | Item::Tcp | Item::Udp if is_outer => (End::Transport, 0),
            Item::Icmp | Item::Icmp6 | Item::Tcp | Item::Udp => (End::InnerTransport, 0),
            Item::Sctp | Item::Esp | Item::Ah if is_outer => (End::Transport, 0),
            Item::Sctp | Item::Esp | Item::Ah => (End::InnerTransport, 0),
            Item::Gre => (End::Gre, 0),
            Item::GreKey | Item::Nvgre => (End::GreKey, 0),
            Item::Vxlan | Item::VxlanGpe | Item::Geneve => (End::Tunnel, 0),
            Item::Gtp | Item::Gtpc | Item::Gtpu => (End::Tunnel, 0),
            // `raw` refuses to be relative to these.
            Item::ArpEthIpv4 | Item::Ipv6FragExt | Item::GtpPsc => return,
            Item::Pppoed | Item::Pppoes => return,
            Item::Mpls => (End::Label, 0),
            // No headers; and `raw` has said where it ends.
            Item::Meta | Item::Tag | Item::Raw => return,
        };
    }

    pub(super) fn raw(&mut self, read: &mut ItemMatch) -> Result<(), CompileError> {
        let value = |name: &str| {
            let field = Item::Raw.field(name);
            field.map_or(0, |field| field.value(&read.spec) & field.value(&read.mask))
        };
        if value("search") != 0 {
            let what = "search: cards match bytes at fixed places; give the offset";
            return Err(self.not_supported(read.item, what));
        }
        if value("limit") != 0 {
            let what = "limit: it is about a search; leave it 0";
            return Err(self.not_supported(read.item, what));
        }
        let contradiction = |reason| CompileError::Contradiction { index: self.index, reason };
        if let (true, Some(before)) = (value("relative") != 0, self.before)
            && has_no_end(before)
        {
            let what = format!("relative to {}", before.name());
            return Err(self.not_supported(read.item, &what));
        }
        let (bytes, masks) = read.raw_bytes();
        let len = read.spec[RAW_LEN];
        if len == 0 || usize::from(len) > RAW_LEN_MAX {
            let reason = match len {
                0 => "raw has no pattern: add `pattern is` or `pattern_hex is`".to_owned(),
                _ => format!("raw has a pattern of {len} bytes: it has 1 to {RAW_LEN_MAX}"),
            };
            return Err(contradiction(reason));
        }
        let (end, from) = if value("relative") == 0 { (End::Frame, 0) } else { self.end };
        let first = from + i64::from(value("offset") as u32 as i32);
        let behind = first + i64::from(len);
        if end == End::Frame && first < 0 {
            return Err(contradiction(format!("raw begins {} bytes before the packet", -first)));
        }
        if first < -RAW_REACH || behind > RAW_REACH {
            let what = format!(
                "bytes {first} to {}: they are {RAW_REACH} at most from the packet's start or \
                 from the end of a header",
                behind - 1
            );
            return Err(self.not_supported(read.item, &what));
        }
        let contradicts = || "raw contradicts a raw before it".to_owned();
        for ((&byte, &mask), offset) in bytes.iter().zip(masks).zip(first as i16..) {
            let (before, counts) = self.raw.entry((end, offset)).or_default();
            if (*before ^ byte) & *counts & mask != 0 {
                let index = self.index;
                return Err(CompileError::Contradiction { index, reason: contradicts() });
            }
            (*before, *counts) = (*before | byte & mask, *counts | mask);
        }
        self.end = (end, behind);
        let fields = Item::Raw.fields();
        fields.iter().for_each(|field| field.put(&mut read.mask, 0));
        read.mask[RAW_BYTES..IMAGE_LEN].fill(0);
        Ok(())
    }
}
