//! Headers of probes that `niclab_packet` reads as a payload: their bytes, and their numbers in the
//! headers before them.

use niclab_nic::rule::item::{Item, ItemMatch};
use niclab_packet::stack::Layer;
use niclab_packet::wire::{EtherType, IpProtocol};

const PORT_GTPC: u16 = 2_123;
const PORT_GTPU: u16 = 2_152;
const PORT_GPE: u16 = 4_790;

/// The flag that extension headers of GTP follow, and those that say of its optional bytes.
const GTP_EXTENSIONS: u8 = 0x04;
const GTP_OPTIONAL: u8 = 0x07;
/// The type of GTP's PDU session container.
const GTP_CONTAINER: u8 = 0x85;

/// Whether it is such a header.
pub(super) fn is_opaque(item: Item) -> bool {
    use Item::{Esp, Gtp, GtpPsc, Gtpc, Gtpu, Pppoed, Pppoes, Sctp, VxlanGpe};
    matches!(item, Esp | Gtp | GtpPsc | Gtpc | Gtpu | Pppoed | Pppoes | Sctp | VxlanGpe)
}

/// Sets the number of the header in the layers before it.
pub(super) fn announce(layers: &mut [Layer], item: Item) {
    let protocol = IpProtocol(if item == Item::Sctp { 132 } else { 50 });
    let ether_type = EtherType(if item == Item::Pppoed { 0x8863 } else { 0x8864 });
    match layers.last_mut() {
        Some(Layer::Ethernet(repr)) => repr.ether_type = ether_type,
        Some(Layer::Vlan(repr)) => repr.ether_type = ether_type,
        Some(Layer::Ipv4(repr)) => repr.protocol = protocol,
        Some(Layer::Ipv6(repr)) => repr.next_header = protocol,
        Some(Layer::Ipv6Fragment(repr)) => repr.next_header = protocol,
        Some(Layer::Udp(repr)) => {
            repr.dst_port = match item {
                Item::VxlanGpe => PORT_GPE,
                Item::Gtpc => PORT_GTPC,
                _ => PORT_GTPU,
            };
        }
        _ => {}
    }
}

/// The bytes of the header, of the items inside it, and of the payload.
pub(super) fn bytes(header: &ItemMatch, inside: &[ItemMatch], payload: &[u8]) -> Option<Vec<u8>> {
    if let Item::Gtp | Item::Gtpc | Item::Gtpu = header.item {
        return gtp(header, inside, payload);
    }
    let content = content(inside, payload)?;
    let first = inside.first().map(|item| item.item);
    let len = (content.len() as u16).to_be_bytes();
    let head: &[u8] = match header.item {
        Item::Sctp => return Some(sctp(header, &content)),
        Item::Esp => &[0, 0, 0, 1, 0, 0, 0, 1],
        // A discovery begins with code 9, without a session.
        Item::Pppoed => &[0x11, 9, 0, 0, len[0], len[1]],
        Item::Pppoes => {
            let kind: [u8; 2] = match first {
                Some(Item::Ipv4) => [0x00, 0x21],
                Some(Item::Ipv6) => [0x00, 0x57],
                _ => [0xc0, 0x21],
            };
            let len = (content.len() as u16 + 2).to_be_bytes();
            let head = filled(header, &[0x11, 0, 0, 1, len[0], len[1]]);
            return Some([&head[..], &kind, &content].concat());
        }
        Item::VxlanGpe => {
            let kind = match first {
                Some(Item::Ipv4) => 1,
                Some(Item::Ipv6) => 2,
                _ => 3,
            };
            &[0x0c, 0, 0, kind, 0, 0, 1, 0]
        }
        _ => return None,
    };
    Some([filled(header, head), content].concat())
}

/// GTP, with the container if the next item is it.
fn gtp(header: &ItemMatch, inside: &[ItemMatch], payload: &[u8]) -> Option<Vec<u8>> {
    let container = inside.first().filter(|item| item.item == Item::GtpPsc);
    let content = content(&inside[usize::from(container.is_some())..], payload)?;
    let flags = if container.is_some() { 0x30 | GTP_EXTENSIONS } else { 0x30 };
    let mut head = filled(header, &[flags, 255, 0, 0, 0, 0, 0, 1]);
    let has_extensions = head[0] & GTP_EXTENSIONS != 0;
    let mut rest = Vec::new();
    if head[0] & GTP_OPTIONAL != 0 {
        let next = if has_extensions && container.is_some() { GTP_CONTAINER } else { 0 };
        rest.extend([0, 0, 0, next]);
    }
    if let Some(container) = container {
        rest.extend(filled(container, &[1, 0, 0]));
        rest.push(0);
    }
    rest.extend(content);
    head[2..4].copy_from_slice(&(rest.len() as u16).to_be_bytes());
    Some([head, rest].concat())
}

/// SCTP with its checksum.
fn sctp(header: &ItemMatch, content: &[u8]) -> Vec<u8> {
    let head = [0x04, 0x01, 0x0b, 0x59, 0, 0, 0, 1, 0, 0, 0, 0];
    let mut packet = [filled(header, &head), content.to_vec()].concat();
    let checksum = crc32c(&packet);
    packet[8..12].copy_from_slice(&checksum.to_le_bytes());
    packet
}

/// The checksum of SCTP (RFC 9260, appendix A).
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// The bytes of the items inside a header, and of the payload.
fn content(inside: &[ItemMatch], payload: &[u8]) -> Option<Vec<u8>> {
    match inside.first().map(|item| item.item) {
        None => Some(payload.to_vec()),
        Some(Item::Eth) => super::frame(inside, payload),
        Some(_) => {
            let items = [&[ItemMatch::any(Item::Eth)][..], inside].concat();
            super::frame(&items, payload).map(|mut frame| frame.split_off(14))
        }
    }
}

/// A header with the values of an item.
fn filled(item: &ItemMatch, head: &[u8]) -> Vec<u8> {
    let value = |(at, byte): (usize, &u8)| byte & !item.mask[at] | item.spec[at] & item.mask[at];
    head.iter().enumerate().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    /// RFC 3720, appendix B.4.
    #[test]
    fn published_answers() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }
}
