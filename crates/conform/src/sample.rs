//! Frames that have a header, and values of its fields that may be anything.

use niclab_device::proof::numbered_frame;
use niclab_nic::definition::image_of;
use niclab_nic::rule::item::{Field, IMAGE_LEN, Image, Item, ItemMatch};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The headers around an item in a frame.
struct HeaderStack {
    /// Those that a pattern names before it.
    before: &'static [Item],
    /// Those that the frame has behind it.
    after: &'static [Item],
    /// Fields that may have any value: no other header depends on them.
    free: &'static [&'static str],
}

const fn stack(
    before: &'static [Item],
    after: &'static [Item],
    free: &'static [&'static str],
) -> HeaderStack {
    HeaderStack { before, after, free }
}

/// The headers around an item; `None` of items that are no headers.
fn stack_of(item: Item) -> Option<HeaderStack> {
    use Item::{Eth, Gre, Gtpu, Ipv4, Ipv6, Udp};
    const IP_UDP: &[Item] = &[Ipv4, Udp];
    const INNER: &[Item] = &[Eth, Ipv4, Udp];
    const LINK: &[Item] = &[Eth];
    const OVER_IPV4: &[Item] = &[Eth, Ipv4];
    const OVER_UDP: &[Item] = &[Eth, Ipv4, Udp];
    Some(match item {
        Item::Eth => stack(&[], IP_UDP, &["dst", "src"]),
        Item::Vlan => stack(LINK, IP_UDP, &["pcp", "dei", "vid"]),
        Item::Ipv4 => stack(LINK, &[Udp], &["tos", "packet_id", "ttl", "src", "dst"]),
        Item::Ipv6 => stack(LINK, &[Udp], &["tc", "flow", "hop", "src", "dst"]),
        Item::Icmp => stack(OVER_IPV4, &[], &["type", "code", "ident", "seq"]),
        Item::Icmp6 => stack(&[Eth, Ipv6], &[], &["type", "code"]),
        Item::Tcp => stack(OVER_IPV4, &[], &["src", "dst", "flags"]),
        Item::Udp => stack(OVER_IPV4, &[], &["src", "dst"]),
        Item::Sctp => stack(OVER_IPV4, &[], &["src", "dst", "tag"]),
        Item::Esp | Item::Ah => stack(OVER_IPV4, &[], &["spi"]),
        Item::ArpEthIpv4 => stack(LINK, &[], &["sha", "spa", "tha", "tpa"]),
        Item::Ipv6FragExt => stack(&[Eth, Ipv6], &[Udp], &["packet_id"]),
        Item::Pppoed => stack(LINK, &[], &["seid"]),
        Item::Pppoes => stack(LINK, IP_UDP, &["seid"]),
        Item::Gre => stack(OVER_IPV4, IP_UDP, &[]),
        Item::GreKey => stack(&[Eth, Ipv4, Gre], IP_UDP, &["value"]),
        Item::Nvgre => stack(OVER_IPV4, INNER, &["tni"]),
        Item::Vxlan => stack(OVER_UDP, INNER, &["vni", "last_rsvd"]),
        Item::VxlanGpe => stack(OVER_UDP, INNER, &["vni"]),
        Item::Gtp | Item::Gtpu => stack(OVER_UDP, IP_UDP, &["teid"]),
        Item::Gtpc => stack(OVER_UDP, &[], &["teid"]),
        Item::GtpPsc => stack(&[Eth, Ipv4, Udp, Gtpu], IP_UDP, &["qfi", "pdu_t"]),
        Item::Geneve => stack(OVER_UDP, INNER, &["vni"]),
        Item::Mpls => stack(LINK, IP_UDP, &["label", "tc"]),
        Item::Meta | Item::Tag | Item::Raw => return None,
    })
}

/// A frame with a header of a kind.
#[derive(Clone, Debug)]
pub struct SampleFrame {
    /// All headers that niclab sets, with their values.
    items: Vec<ItemMatch>,
    /// Which of them the sample is of.
    at: usize,
    free: &'static [&'static str],
}

impl SampleFrame {
    /// A frame with this header, whose free fields have random values; `None` of items that are no
    /// headers.
    pub fn random(item: Item, random: &mut Xoshiro256PlusPlus) -> Option<SampleFrame> {
        let HeaderStack { before, after, free } = stack_of(item)?;
        let names = before.iter().chain([&item]).chain(after);
        let items = names.copied().map(ItemMatch::any).collect();
        let mut sample = SampleFrame { items, at: before.len(), free };
        for field in sample.free_fields() {
            let value = random_value(item, field, random);
            sample = sample.with(field, value);
        }
        Some(sample)
    }

    /// The item that it is of.
    pub fn item(&self) -> Item {
        self.items[self.at].item
    }

    /// Fields that may have any value.
    pub fn free_fields(&self) -> Vec<&'static Field> {
        self.free.iter().filter_map(|name| self.item().field(name)).collect()
    }

    /// The same frame with another value of a field.
    pub fn with(&self, field: &Field, value: u128) -> SampleFrame {
        let mut changed = self.clone();
        let item = &mut changed.items[self.at];
        field.put(&mut item.spec, value);
        field.put(&mut item.mask, field.ones());
        changed
    }

    /// Its bytes, with the number 0 as a probe.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        numbered_frame(&self.items, 0)
    }

    /// The bytes of its header, and its flags.
    pub fn image(&self) -> Option<Image> {
        image_of(&self.bytes()?, self.item()).map(|(image, _)| image)
    }

    /// The items of a pattern that names the headers before it and then this item.
    pub fn pattern(&self, item: ItemMatch) -> Vec<ItemMatch> {
        let before = self.items[..self.at].iter().map(|item| ItemMatch::any(item.item));
        before.chain([item]).collect()
    }

    /// Whether a pattern of it names a header.
    pub fn names(&self, item: Item) -> bool {
        self.items[..=self.at].iter().any(|one| one.item == item)
    }
}

/// A value that a frame may have: addresses of one host, ports of no tunnel, a TTL that lives.
fn random_value(item: Item, field: &Field, random: &mut Xoshiro256PlusPlus) -> u128 {
    let any = random.random::<u128>() & field.ones();
    match (item, field.name) {
        // Locally administered, one host's.
        (Item::Eth, _) | (Item::ArpEthIpv4, "sha" | "tha") => any & !(3 << 40) | 2 << 40,
        (Item::Ipv4, "src" | "dst") => any & 0x00ff_ffff | 10 << 24,
        (Item::Ipv6, "src" | "dst") => any & (u128::MAX >> 32) | 0x2001_0db8 << 96,
        (Item::Ipv4, "ttl") | (Item::Ipv6, "hop") => 2 + any % 200,
        // The tunnels' ports are lower.
        (Item::Udp | Item::Tcp | Item::Sctp, "src" | "dst") => 0x8000 | any,
        _ => any,
    }
}

/// An image with ones in a field.
pub fn mask_of(field: &Field, mask: u128) -> Image {
    let mut image = [0; IMAGE_LEN];
    field.put(&mut image, mask);
    image
}

/// Frames of other stacks, which most patterns miss.
pub fn other_frames() -> Vec<Vec<u8>> {
    use Item::{Eth, Ipv4, Ipv6, Tcp, Udp, Vlan};
    let stacks: [&[Item]; 4] =
        [&[Eth, Ipv4, Udp], &[Eth, Ipv6, Udp], &[Eth, Ipv4, Tcp], &[Eth, Vlan, Ipv6, Tcp]];
    let frame = |stack: &[Item]| {
        let items: Vec<ItemMatch> = stack.iter().copied().map(ItemMatch::any).collect();
        numbered_frame(&items, 0)
    };
    stacks.into_iter().filter_map(frame).collect()
}
