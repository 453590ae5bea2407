//! The Internet checksum: RFC 1071 sums, pseudo headers, RFC 1624 updates.
//!
//! A *partial* is a `u64` that is congruent to the one's complement sum of big-endian 16-bit
//! words. Partials of pieces add up with `+` as long as every piece but the last is of even
//! length; [`fold`] makes 16 bits of one, [`finish`] the value that goes into a header.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::wire::IpProtocol;

/// The partial of `bytes`, at most `0xffff`, and 0 only if every byte is 0. An odd last byte
/// counts as the high half of a word (RFC 1071 §4.1).
///
/// Adds 4 bytes at a time in the machine's own order and swaps once at the end (RFC 1071 §2 (B)).
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    let mut total: u64 = 0;
    for word in &mut words {
        total += u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    }
    let rest = words.remainder();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total += u64::from(u32::from_ne_bytes(last));
    u64::from(u16::from_be(fold(total)))
}

/// Copies `from` to the start of `to`, which has room for it, and gives the partial of it, as
/// [`sum`] does.
#[inline]
pub fn copy(from: &[u8], to: &mut [u8]) -> u64 {
    let (words, rest) = from.as_chunks::<8>();
    let (whole, end) = to[..from.len()].split_at_mut(8 * words.len());
    let mut total: u64 = 0;
    for (to, word) in whole.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = *word;
        let word = u64::from_ne_bytes(*word);
        total += (word & 0xffff_ffff) + (word >> 32);
    }
    let partial = u64::from(u16::from_be(fold(total)));
    if rest.is_empty() {
        return partial;
    }
    end.copy_from_slice(rest);
    partial + sum(rest)
}

/// Folds a partial to 16 bits, carries added back in. Not complemented.
#[inline]
pub const fn fold(partial: u64) -> u16 {
    // The upper half of a number plus itself turned by half its length is the sum of its halves
    // with the carry added back in.
    let upper = (partial.wrapping_add(partial.rotate_left(32)) >> 32) as u32;
    (upper.wrapping_add(upper.rotate_left(16)) >> 16) as u16
}

/// The checksum field for data with this partial: its fold, complemented.
#[inline]
pub const fn finish(partial: u64) -> u16 {
    !fold(partial)
}

/// As [`finish`], for UDP: 0 means "no checksum" there, so 0 is sent as `0xffff` (RFC 768).
#[inline]
pub const fn finish_udp(partial: u64) -> u16 {
    match finish(partial) {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// The checksum field for `bytes`, whose own checksum field must be 0.
pub fn checksum(bytes: &[u8]) -> u16 {
    finish(sum(bytes))
}

/// Whether `bytes`, their checksum field included, sum up to what a receiver expects.
pub fn is_valid(bytes: &[u8]) -> bool {
    fold(sum(bytes)) == 0xffff
}

/// Adds the partial of a piece that starts at an odd offset: byte-swapped (RFC 1071 §2 (B)).
#[inline]
pub const fn add_at_odd(partial: u64, piece: u64) -> u64 {
    fold(partial) as u64 + fold(piece).swap_bytes() as u64
}

/// Partial of the IPv4 pseudo header (RFC 768, RFC 9293 §3.1); `len` counts the transport
/// header and its payload in bytes.
#[inline]
pub fn pseudo_ipv4(src: Ipv4Addr, dst: Ipv4Addr, protocol: IpProtocol, len: u16) -> u64 {
    let halves = |address: Ipv4Addr| {
        let bits = u64::from(u32::from(address));
        (bits >> 16) + (bits & 0xffff)
    };
    halves(src) + halves(dst) + u64::from(protocol.0) + u64::from(len)
}

/// Partial of the IPv6 pseudo header (RFC 8200 §8.1); `len` counts the upper-layer header and
/// its payload in bytes.
#[inline]
pub fn pseudo_ipv6(src: Ipv6Addr, dst: Ipv6Addr, protocol: IpProtocol, len: u32) -> u64 {
    let len = u64::from(len >> 16) + u64::from(len & 0xffff);
    sum(&src.octets()) + sum(&dst.octets()) + u64::from(protocol.0) + len
}

/// Partial of the pseudo header of either version, or `None` if the two addresses differ in it.
pub fn pseudo(src: IpAddr, dst: IpAddr, protocol: IpProtocol, len: u16) -> Option<u64> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Some(pseudo_ipv4(src, dst, protocol, len)),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some(pseudo_ipv6(src, dst, protocol, len.into())),
        _ => None,
    }
}

/// The checksum after one 16-bit word changed from `old` to `new`: equation 3 of RFC 1624,
/// `HC' = ~(~HC + ~m + m')`.
///
/// Equation 2 of RFC 1141 (`HC + m - m'`) gives `0xffff` (-0) where a full sum gives 0; this one
/// agrees with the full sum for all data that is not entirely zero.
#[inline]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    finish(!checksum as u64 + !old as u64 + new as u64)
}

/// As [`update`], for 32 aligned bits such as an IPv4 address.
#[inline]
pub const fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    let old = !old;
    let delta = (old >> 16) as u64 + (old & 0xffff) as u64 + (new >> 16) as u64;
    finish(!checksum as u64 + delta + (new & 0xffff) as u64)
}

/// As [`update`], for bytes at an even offset; `old` and `new` must be of the same length.
#[inline]
pub fn update_bytes(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    debug_assert_eq!(old.len(), new.len());
    finish(u64::from(!checksum) + u64::from(!fold(sum(old))) + sum(new))
}

/// As [`update`], for a UDP checksum: 0 ("none") stays 0, and a result of 0 becomes `0xffff`.
#[inline]
pub const fn update_udp(checksum: u16, old: u16, new: u16) -> u16 {
    if checksum == 0 {
        return 0;
    }
    finish_udp(!checksum as u64 + !old as u64 + new as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071 §4.1, as its C code does it.
    fn naive(bytes: &[u8]) -> u16 {
        let mut total: u32 = 0;
        for pair in bytes.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }

    #[test]
    fn rfc1071_example() {
        // RFC 1071 §3: the words 0001 f203 f4f5 f6f7 sum to ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes)), 0xddf2);
        assert_eq!(checksum(&bytes), !0xddf2);
    }

    #[test]
    fn rfc1624_example() {
        // RFC 1624 §4: checksum dd2f, a word changes from 5555 to 3285; the answer is 0000,
        // where equation 2 gives ffff.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
        assert_eq!(update_udp(0xdd2f, 0x5555, 0x3285), 0xffff);
        assert_eq!(update_udp(0, 0x5555, 0x3285), 0);
    }

    #[test]
    fn zero_sum_only_for_zero_bytes() {
        assert_eq!(sum(&[0; 64]), 0);
        assert_eq!(sum(&[0xff; 64]), 0xffff);
        assert_eq!(sum(&[0xff, 0xfe, 0x00, 0x01]), 0xffff);
    }

    #[test]
    fn largest_partial_folds() {
        assert_eq!(fold(u64::MAX), 0xffff);
        assert_eq!(fold(0xffff_ffff), 0xffff);
        assert_eq!(fold(0x1_0000_ffff), 1);
    }

    #[test]
    fn mixed_versions_have_no_pseudo_header() {
        let (v4, v6) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([0u16; 8]));
        assert_eq!(pseudo(v4, v6, IpProtocol::UDP, 8), None);
    }

    proptest! {
        #[test]
        fn sum_is_naive(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(fold(sum(&bytes)), naive(&bytes));
        }

        #[test]
        fn pieces_add_up(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0usize..300) {
            let (head, tail) = bytes.split_at(at.min(bytes.len()));
            let parts = if head.len() % 2 == 0 {
                sum(head) + sum(tail)
            } else {
                add_at_odd(sum(head), sum(tail))
            };
            prop_assert_eq!(fold(parts), naive(&bytes));
        }

        #[test]
        fn update_is_recomputation(
            mut bytes in prop::collection::vec(any::<u8>(), 8..64),
            at in 0usize..32,
            new in prop_oneof![Just(0u16), Just(0xffff), any::<u16>()],
        ) {
            let at = (at * 2) % (bytes.len() & !1);
            bytes[0] |= usize::from(at != 0) as u8; // never all zero
            let before = checksum(&bytes);
            let old = [bytes[at], bytes[at + 1]];
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            prop_assume!(bytes.iter().any(|b| *b != 0));
            let after = checksum(&bytes);
            prop_assert_eq!(update(before, u16::from_be_bytes(old), new), after);
            prop_assert_eq!(update_bytes(before, &old, &new.to_be_bytes()), after);
        }

        #[test]
        fn update_u32_is_two_updates(checksum: u16, old: u32, new: u32) {
            prop_assume!(checksum != 0xffff); // the sum of zeros alone
            let bytes = update_bytes(checksum, &old.to_be_bytes(), &new.to_be_bytes());
            prop_assert_eq!(update_u32(checksum, old, new), bytes);
        }

        #[test]
        fn pseudo_headers_are_their_bytes(src: [u8; 16], dst: [u8; 16], proto: u8, len: u16) {
            let mut v6 = [&src[..], &dst[..]].concat();
            v6.extend([0, 0]);
            v6.extend(len.to_be_bytes());
            v6.extend([0, 0, 0, proto]);
            let proto = IpProtocol(proto);
            prop_assert_eq!(
                fold(pseudo_ipv6(src.into(), dst.into(), proto, len.into())), naive(&v6));
            let (s, d) = ([src[0], src[1], src[2], src[3]], [dst[0], dst[1], dst[2], dst[3]]);
            let mut v4 = [s, d].concat();
            v4.extend([0, proto.0]);
            v4.extend(len.to_be_bytes());
            prop_assert_eq!(fold(pseudo_ipv4(s.into(), d.into(), proto, len)), naive(&v4));
        }
    }
}
