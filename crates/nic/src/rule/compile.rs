//! From the items of a rule to the pattern that packets' keys are compared with.
//!
//! Items not named are passed over: a VLAN tag that no item names does not keep `eth / ipv4` from
//! matching. A field means its own header: `eth type is 0x0800` is the type behind the addresses,
//! which a tagged frame has elsewhere. `ipv6 proto` is the protocol behind extension headers. An
//! item is matched by frames that have its header, and a field by those that have its bytes.

use std::ops::{Range, RangeInclusive};

use niclab_packet::key::{Depth, Key, field as place};

use super::Pattern;
use super::item::{Field, FieldKind, IMAGE_LEN, Item, ItemMatch};

/// Why items make no pattern. The index is that of the item, from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// No frame could match.
    #[error("{reason}")]
    Contradiction {
        /// The item that contradicts one before it, or itself.
        index: usize,
        /// What does not go together, and what would.
        reason: String,
    },
    /// The packet's key has no place for it, or no classifier matches it.
    #[error("not supported: {name}")]
    NotSupported {
        /// Which item.
        index: usize,
        /// What of it.
        name: String,
    },
    /// The headers do not follow each other.
    #[error("{reason}")]
    Order {
        /// The item in the wrong place.
        index: usize,
        /// Where it stands and where it belongs.
        reason: String,
    },
}

impl CompileError {
    /// The item that is refused, from 0.
    pub fn index(&self) -> usize {
        match self {
            CompileError::Contradiction { index, .. }
            | CompileError::NotSupported { index, .. }
            | CompileError::Order { index, .. } => *index,
        }
    }
}

const TAG_TYPES: [u128; 2] = [0x8100, 0x88a8];

/// Where the bits of a header stand in a key: first bit in the image, and bytes of the key.
const IPV4: &[(usize, Range<usize>)] = &[
    (8, place::TOS),
    (64, place::TTL),
    (72, place::PROTOCOL),
    (96, place::SRC_HEAD),
    (128, place::DST_HEAD),
];
const IPV6: &[(usize, Range<usize>)] = &[
    (4, place::TOS),
    (48, place::PROTOCOL),
    (56, place::TTL),
    (64, place::SRC_HEAD),
    (96, place::SRC_TAIL),
    (192, place::DST_HEAD),
    (224, place::DST_TAIL),
];
const ETH: &[(usize, Range<usize>)] = &[(0, place::ETH_DST), (48, place::ETH_SRC)];
const VLAN: [&[(usize, Range<usize>)]; 2] = [&[(0, place::VLAN_OUTER)], &[(0, place::VLAN_INNER)]];
const UDP: &[(usize, Range<usize>)] = &[(0, place::SPORT), (16, place::DPORT)];
const TCP: &[(usize, Range<usize>)] =
    &[(0, place::SPORT), (16, place::DPORT), (104, place::TCP_FLAGS)];

/// The pattern of these items, outermost first. No item, or `eth` alone, is every frame, even one
/// too short for Ethernet.
///
/// # Errors
/// Items in an order that no frame has; values that no frame has at once; a field that the key has
/// no place for, and `last` where it makes a range of anything but a whole port.
pub fn pattern(items: &[ItemMatch]) -> Result<Pattern, CompileError> {
    let mut draft = Draft::default();
    for (index, read) in items.iter().enumerate() {
        check_order(items, index)?;
        let mut rest = *read;
        draft.take_ranges(index, &mut rest)?;
        draft.index = index;
        draft.item(&mut rest, items.get(index + 1).map(|next| next.item))?;
        if rest.mask != [0; IMAGE_LEN] {
            let left = read.item.fields().iter().find(|field| field.value(&rest.mask) != 0);
            return Err(draft.not_supported(read.item, left.map_or("mask", |field| field.name)));
        }
    }
    let pattern = Pattern::masked(&Key::from_bytes(&draft.value), &Key::from_bytes(&draft.mask));
    let [sport, dport] = draft.ranges;
    let pattern = sport.into_iter().fold(pattern, Pattern::sport_range);
    Ok(dport.into_iter().fold(pattern, Pattern::dport_range))
}

/// A pattern while its items are added.
struct Draft {
    index: usize,
    /// VLAN items so far.
    tags: usize,
    value: [u8; 64],
    mask: [u8; 64],
    /// Of source and destination port.
    ranges: [Option<RangeInclusive<u16>>; 2],
}

impl Default for Draft {
    fn default() -> Draft {
        Draft { index: 0, tags: 0, value: [0; 64], mask: [0; 64], ranges: [None, None] }
    }
}

impl Draft {
    /// Adds an item, and takes out of its mask what it has dealt with.
    fn item(&mut self, read: &mut ItemMatch, next: Option<Item>) -> Result<(), CompileError> {
        match read.item {
            Item::Eth => {
                if read.mask != [0; IMAGE_LEN] {
                    self.reaches(Depth::Ethernet);
                }
                self.fields(read, ETH)?;
                self.ether_type(read, "type", next)?;
                self.more_tags(read, "has_vlan")
            }
            Item::Vlan => {
                let Some(places) = VLAN.get(self.tags) else {
                    let name = "a third vlan".to_owned();
                    return Err(CompileError::NotSupported { index: self.index, name });
                };
                let bit = 1 << self.tags;
                self.set(place::VLANS.start, bit, bit, || {
                    "vlan stands behind a header that is to have no tag".to_owned()
                })?;
                self.tags += 1;
                self.fields(read, places)?;
                self.ether_type(read, "inner_type", next)?;
                self.more_tags(read, "has_more_vlan")
            }
            Item::Ipv4 => {
                self.type_is(read.item, 0x0800)?;
                self.reaches(Depth::Ip);
                self.fields(read, IPV4)
            }
            Item::Ipv6 => {
                self.type_is(read.item, 0x86dd)?;
                self.reaches(Depth::Ip);
                self.fields(read, IPV6)
            }
            Item::Icmp => self.transport(read.item, 1),
            Item::Icmp6 => self.transport(read.item, 58),
            Item::Tcp => {
                self.transport(read.item, 6)?;
                if FLAGS.value(&read.mask) != 0 {
                    self.reaches(Depth::TcpFlags);
                }
                self.fields(read, TCP)
            }
            Item::Udp => {
                self.transport(read.item, 17)?;
                self.fields(read, UDP)
            }
            Item::Gre | Item::GreKey | Item::Vxlan | Item::Geneve | Item::Mpls => {
                let name = read.item.name().to_owned();
                Err(CompileError::NotSupported { index: self.index, name })
            }
        }
    }

    /// Takes the ranges out of an item: those of whole ports.
    fn take_ranges(&mut self, index: usize, read: &mut ItemMatch) -> Result<(), CompileError> {
        let item = read.item;
        for field in item.fields() {
            let Some(last) = read.last.as_ref().filter(|_| read.has_range(field)) else { continue };
            let port = match field.name {
                "src" => 0,
                "dst" => 1,
                _ => 2,
            };
            let whole = field.value(&read.mask) == field.ones();
            let Some(range) = self.ranges.get_mut(port).filter(|_| whole && has_ports(item)) else {
                let under = if has_ports(item) && port < 2 { " under a mask" } else { "" };
                let name = format!("{} {} last{under}", item.name(), field.name);
                return Err(CompileError::NotSupported { index, name });
            };
            let (first, last) = (field.value(&read.spec) as u16, field.value(last) as u16);
            if last < first {
                let (item, field) = (item.name(), field.name);
                let reason = format!("{item} {field} last {last} is below {first}");
                return Err(CompileError::Contradiction { index, reason });
            }
            *range = Some(first..=last);
            field.put(&mut read.mask, 0);
        }
        Ok(())
    }

    /// Fields that the key has as they are on the wire.
    fn fields(
        &mut self,
        read: &mut ItemMatch,
        places: &[(usize, Range<usize>)],
    ) -> Result<(), CompileError> {
        let name = read.item.name();
        for (bit_offset, bytes) in places {
            for (at, byte) in bytes.clone().enumerate() {
                let bits = Field { bit_offset: bit_offset + at * 8, ..BYTE };
                let mask = bits.value(&read.mask) as u8;
                if mask == 0 {
                    continue;
                }
                let value = bits.value(&read.spec) as u8;
                self.set(byte, value, mask, || format!("{name} contradicts what stands before"))?;
                bits.put(&mut read.mask, 0);
            }
        }
        Ok(())
    }

    /// The type in an Ethernet header or a tag. The key has the type behind all tags, and which tag
    /// it was that announced itself is not kept.
    fn ether_type(
        &mut self,
        read: &mut ItemMatch,
        name: &'static str,
        next: Option<Item>,
    ) -> Result<(), CompileError> {
        let Some(field) = read.item.field(name) else { return Ok(()) };
        let (mask, tags) = (field.value(&read.mask), self.tags);
        let value = field.value(&read.spec) & mask;
        let fits = TAG_TYPES.map(|tag| tag & mask == value);
        if mask == 0 {
            return Ok(());
        }
        if next == Some(Item::Vlan) && fits == [false; 2] {
            let item = read.item.name();
            let reason = format!(
                "{item} {name} {value:#06x} stands before vlan: use 0x8100, or leave it out"
            );
            return Err(CompileError::Contradiction { index: self.index, reason });
        }
        if next == Some(Item::Vlan) && fits == [true; 2] {
            field.put(&mut read.mask, 0);
            return Ok(());
        }
        if tags < 2 && fits != [false; 2] {
            // The type of a tag, which the key does not keep: refused as the rest of the mask.
            return Ok(());
        }
        field.put(&mut read.mask, 0);
        if tags < 2 {
            let bit = 1 << tags;
            self.set(place::VLANS.start, 0, bit, String::new)?;
        }
        for (at, byte) in place::ETHER_TYPE.enumerate() {
            let shift = 8 - at * 8;
            let (value, mask) = ((value >> shift) as u8, (mask >> shift) as u8);
            self.set(byte, value, mask, String::new)?;
        }
        Ok(())
    }

    /// Whether a tag follows.
    fn more_tags(&mut self, read: &mut ItemMatch, name: &'static str) -> Result<(), CompileError> {
        let Some(field) = read.item.field(name) else { return Ok(()) };
        // Of a third tag the key knows nothing.
        if field.value(&read.mask) == 0 || self.tags >= 2 {
            return Ok(());
        }
        field.put(&mut read.mask, 0);
        let bit = 1 << self.tags;
        let value = if field.value(&read.spec) == 0 { 0 } else { bit };
        let item = read.item.name();
        self.set(place::VLANS.start, value, bit, || {
            format!("{item} {name} contradicts {item}'s type, which is no tag's")
        })
    }

    fn type_is(&mut self, item: Item, ether_type: u16) -> Result<(), CompileError> {
        let before = place::ETHER_TYPE.fold(0, |sum, at| sum << 8 | u16::from(self.value[at]));
        for (byte, value) in place::ETHER_TYPE.zip(ether_type.to_be_bytes()) {
            self.set(byte, value, 0xff, || {
                let name = item.name();
                format!(
                    "the type before {name} is {before:#06x}; that of {name} is {ether_type:#06x}"
                )
            })?;
        }
        Ok(())
    }

    /// A transport header, which a cut-off packet or a later fragment does not have.
    fn transport(&mut self, item: Item, protocol: u8) -> Result<(), CompileError> {
        self.reaches(Depth::Transport);
        let before = self.value[place::PROTOCOL.start];
        self.set(place::PROTOCOL.start, protocol, 0xff, || {
            let name = item.name();
            format!("the proto before {name} is {before}; that of {name} is {protocol}")
        })
    }

    /// Asks for a header, for what a frame lacks is zero in its key, and zeros may be asked for.
    fn reaches(&mut self, depth: Depth) {
        self.value[place::DEPTH.start] |= depth.bit();
        self.mask[place::DEPTH.start] |= depth.bit();
    }

    /// Asks for bits of a byte of the key.
    fn set(
        &mut self,
        byte: usize,
        value: u8,
        mask: u8,
        reason: impl FnOnce() -> String,
    ) -> Result<(), CompileError> {
        let common = self.mask[byte] & mask;
        if (self.value[byte] ^ value) & common != 0 {
            return Err(CompileError::Contradiction { index: self.index, reason: reason() });
        }
        self.value[byte] |= value & mask;
        self.mask[byte] |= mask;
        Ok(())
    }

    fn not_supported(&self, item: Item, what: &str) -> CompileError {
        let name = format!("{} {what}", item.name());
        CompileError::NotSupported { index: self.index, name }
    }
}

/// The flags of a TCP header.
const FLAGS: Field = Field { bit_offset: 104, ..BYTE };
const BYTE: Field = Field { name: "", kind: FieldKind::Number, bit_offset: 0, bits: 8 };

fn has_ports(item: Item) -> bool {
    matches!(item, Item::Tcp | Item::Udp)
}

/// Which headers an item may stand right behind.
fn behind(item: Item) -> &'static [Item] {
    match item {
        Item::Eth => &[],
        Item::Vlan | Item::Ipv4 | Item::Ipv6 => &[Item::Eth, Item::Vlan],
        Item::Icmp => &[Item::Ipv4],
        Item::Icmp6 => &[Item::Ipv6],
        Item::Tcp | Item::Udp | Item::Gre => &[Item::Ipv4, Item::Ipv6],
        Item::GreKey => &[Item::Gre],
        Item::Vxlan | Item::Geneve => &[Item::Udp],
        Item::Mpls => &[Item::Eth, Item::Vlan, Item::Udp, Item::Gre],
    }
}

fn check_order(items: &[ItemMatch], index: usize) -> Result<(), CompileError> {
    let (item, name) = (items[index].item, items[index].item.name());
    let before = index.checked_sub(1).map(|at| items[at].item);
    // An `eth` that says nothing may be left out.
    let outer = before.unwrap_or(Item::Eth);
    if behind(item).contains(&outer) || item == Item::Eth && before.is_none() {
        return Ok(());
    }
    let stands = match before {
        Some(before) => format!("{name} stands behind {}", before.name()),
        None => format!("{name} stands first"),
    };
    let bridges: Vec<Item> =
        behind(item).iter().copied().filter(|&bridge| behind(bridge).contains(&outer)).collect();
    let remedy = match (item, &bridges[..], before) {
        (Item::Eth, ..) => "it belongs first".to_owned(),
        (_, [], _) => format!("it belongs behind {}", names(behind(item))),
        (_, bridges, Some(_)) => format!("put {} between", names(bridges)),
        (_, bridges, None) => format!("put {} before it", names(bridges)),
    };
    Err(CompileError::Order { index, reason: format!("{stands}; {remedy}") })
}

fn names(items: &[Item]) -> String {
    let names: Vec<&str> = items.iter().map(|item| item.name()).collect();
    names.join(" or ")
}

#[cfg(test)]
#[path = "compile_tests.rs"]
mod tests;
