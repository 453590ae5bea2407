//! Fields with a range of values.

use niclab_packet::key::extra;

use super::{
    CompileError, Draft, GENEVE, GRE_KEY, HEADER_KEY_LEN, IPV4, IPV6, META, MPLS, Places,
    TAG_INDEX, UDP, VLAN, VXLAN,
};
use crate::bounds::{BOUNDS_MAX, Bound};
use crate::parsed_headers::TAGS;
use crate::rule::item::{Field, FieldKind, Item, ItemMatch, Written};
use crate::rule::{EXTRA, OUTER};

impl Draft {
    /// Takes the ranges out of the item. The bits that all values of a range share stay in the
    /// item, except those of outer ports.
    pub(in crate::rule::compile) fn take_ranges(
        &mut self,
        read: &mut ItemMatch,
    ) -> Result<(), CompileError> {
        let item = read.item;
        for field in item.fields() {
            let Some(last) = read.last.as_ref().filter(|_| read.has_range(field)) else { continue };
            let mask = field.value(&read.mask);
            let free = field.ones() & !mask;
            if free & (free + 1) != 0 {
                let what = format!("{} last under a mask that is no prefix", field.name);
                return Err(self.not_supported(item, &what));
            }
            let (first, last) = (field.value(&read.spec) & mask, field.value(last) & mask);
            if last < first {
                let [last, first] = [last, first].map(|value| Written(field, value));
                let (item, field) = (item.name(), field.name);
                let reason = format!("{item} {field} last {last} is below {first}");
                return Err(CompileError::Contradiction { index: self.index, reason });
            }
            let last = last | free;
            match (item, field.name) {
                (Item::Tcp | Item::Udp | Item::Sctp, name @ ("src" | "dst"))
                    if self.level == OUTER =>
                {
                    let port = usize::from(name == "dst");
                    self.ranges[port] = Some(first as u16..=last as u16);
                    field.put(&mut read.mask, 0);
                }
                _ => self.bound(read, field, first, last)?,
            }
        }
        Ok(())
    }

    /// Requires values of a field from `first` to `last`.
    fn bound(
        &mut self,
        read: &mut ItemMatch,
        field: &Field,
        first: u128,
        last: u128,
    ) -> Result<(), CompileError> {
        let item = read.item;
        // A part has a range as its field only if no later part counts.
        if let Some(whole) = item.whole_of(field) {
            let behind = whole.bit_offset + whole.bits - field.bit_offset - field.bits;
            if whole.value(&read.mask) & !(u128::MAX << behind) != 0 {
                let what =
                    format!("{} last beside what stands behind it in {}", field.name, whole.name);
                return Err(self.not_supported(item, &what));
            }
        }
        let Some(bit) = self.place_of(read, field)? else {
            return Err(self.not_supported(item, &format!("{} last", field.name)));
        };
        let free = u128::MAX.checked_shr((first ^ last).leading_zeros()).unwrap_or(0);
        field.put(&mut read.spec, first & !free);
        field.put(&mut read.mask, field.ones() & !free);
        if first & free != 0 || last & free != free {
            if self.bounds.len() == BOUNDS_MAX {
                let what = format!("{} last as range {} of a pattern", field.name, BOUNDS_MAX + 1);
                return Err(self.not_supported(item, &what));
            }
            self.bounds.push(Bound::new(bit, field.bits, first as u32, last as u32));
        }
        Ok(())
    }

    /// The first bit of a field that can have a range, counted through all header keys.
    fn place_of(&self, read: &ItemMatch, field: &Field) -> Result<Option<usize>, CompileError> {
        let less_common = self.ranged_places(read.item);
        let (places, key): (Places<'_>, usize) = match read.item {
            Item::Ipv4 => (IPV4, self.level),
            Item::Ipv6 => (IPV6, self.level),
            Item::Vlan => (VLAN.get(self.tags).copied().unwrap_or_default(), self.level),
            Item::Tcp | Item::Udp => (UDP, self.level),
            Item::GreKey => (GRE_KEY, EXTRA),
            Item::Vxlan | Item::VxlanGpe => (VXLAN, EXTRA),
            // Its ports are ranges of the key; its tag has a place that it may lack.
            Item::Sctp if field.bit_offset < 32 => (UDP, self.level),
            Item::Esp | Item::Ah | Item::ArpEthIpv4 | Item::Ipv6FragExt => {
                (&less_common.0, less_common.1)
            }
            Item::Pppoed | Item::Pppoes | Item::Nvgre => (&less_common.0, less_common.1),
            Item::Gtp | Item::Gtpc | Item::Gtpu | Item::GtpPsc => (&less_common.0, less_common.1),
            Item::Geneve => (GENEVE, EXTRA),
            Item::Mpls => (MPLS, EXTRA),
            Item::Meta => (META, EXTRA),
            Item::Icmp | Item::Icmp6 => {
                let first = HEADER_KEY_LEN * EXTRA + self.detail() + extra::ICMP_TYPE;
                let is_there = field.bit_offset + field.bits <= 16;
                return Ok(is_there.then_some(first * 8 + field.bit_offset));
            }
            Item::Tag => {
                let first = HEADER_KEY_LEN * EXTRA + extra::TAGS.start;
                let index = self.tag_index(read)?;
                return Ok(Some((first + 4 * index) * 8));
            }
            Item::Eth | Item::Gre | Item::Raw | Item::Sctp => return Ok(None),
        };
        let has = |(first, bytes): &&(usize, std::ops::Range<usize>)| {
            let end = first + bytes.len() * 8;
            *first <= field.bit_offset && field.bit_offset + field.bits <= end
        };
        let is_number = field.bits <= 32 && field.kind != FieldKind::Mac;
        let place = places.iter().find(has).filter(|_| is_number);
        Ok(place.map(|(first, bytes)| {
            (HEADER_KEY_LEN * key + bytes.start) * 8 + field.bit_offset - first
        }))
    }

    /// The tag of an item that requires data.
    pub(super) fn tag_index(&self, read: &ItemMatch) -> Result<usize, CompileError> {
        let (index, mask) = (TAG_INDEX.value(&read.spec), TAG_INDEX.value(&read.mask));
        if mask != TAG_INDEX.ones() {
            return Err(self.not_supported(read.item, "without an index: add `index is`"));
        }
        match index < TAGS as u128 {
            true => Ok(index as usize),
            false => {
                let what = format!("index {index}; 0 to {}", TAGS - 1);
                Err(self.not_supported(read.item, &what))
            }
        }
    }
}
