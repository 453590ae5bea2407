//! Sets of ports and addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A set of numbers, as sorted ranges with both ends. Ranges neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeSet(Vec<(u128, u128)>);

impl RangeSet {
    /// All numbers of these ranges. They may overlap and have any order. A range whose first number
    /// is greater than its last is empty.
    pub fn new(ranges: impl IntoIterator<Item = (u128, u128)>) -> RangeSet {
        let mut sorted: Vec<_> = ranges.into_iter().filter(|(low, high)| low <= high).collect();
        sorted.sort_unstable();
        let mut joined: Vec<(u128, u128)> = Vec::with_capacity(sorted.len());
        for (low, high) in sorted {
            match joined.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => joined.push((low, high)),
            }
        }
        RangeSet(joined)
    }

    /// The ranges, in order.
    pub fn ranges(&self) -> &[(u128, u128)] {
        &self.0
    }

    /// Whether it has no number.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many numbers it has, up to `u128::MAX`.
    pub fn count(&self) -> u128 {
        let len = |(low, high): &(u128, u128)| (high - low).saturating_add(1);
        self.0.iter().map(len).fold(0, u128::saturating_add)
    }

    /// Whether it has this number.
    pub fn contains(&self, number: u128) -> bool {
        let behind = self.0.partition_point(|&(low, _)| low <= number);
        behind > 0 && number <= self.0[behind - 1].1
    }

    /// The numbers of either set.
    #[must_use]
    pub fn union(&self, other: &RangeSet) -> RangeSet {
        RangeSet::new(self.0.iter().chain(&other.0).copied())
    }

    /// The numbers of this set that `other` lacks.
    #[must_use]
    pub fn difference(&self, other: &RangeSet) -> RangeSet {
        let mut left = Vec::new();
        for &(mut low, high) in &self.0 {
            let first = other.0.partition_point(|&(_, end)| end < low);
            let mut rest = true;
            for &(start, end) in other.0[first..].iter().take_while(|&&(start, _)| start <= high) {
                if start > low {
                    left.push((low, start - 1));
                }
                match end.checked_add(1) {
                    Some(next) if next <= high => low = next,
                    _ => rest = false,
                }
            }
            if rest {
                left.push((low, high));
            }
        }
        RangeSet::new(left)
    }
}

/// Addresses of both versions of IP.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressSet {
    /// IPv4, as numbers of 32 bits.
    pub v4: RangeSet,
    /// IPv6, as numbers of 128 bits.
    pub v6: RangeSet,
}

impl AddressSet {
    /// All addresses.
    pub fn all() -> AddressSet {
        let up_to = |last| RangeSet::new([(0, last)]);
        AddressSet { v4: up_to(u32::MAX.into()), v6: up_to(u128::MAX) }
    }

    /// The addresses from `first` to `last`; `None` if they are of different versions or in the
    /// wrong order.
    pub fn range(first: IpAddr, last: IpAddr) -> Option<AddressSet> {
        let mut set = AddressSet::default();
        let (place, low, high) = match (first, last) {
            (IpAddr::V4(low), IpAddr::V4(high)) => (&mut set.v4, v4(low), v4(high)),
            (IpAddr::V6(low), IpAddr::V6(high)) => (&mut set.v6, v6(low), v6(high)),
            _ => return None,
        };
        *place = RangeSet::new([(low, high)]);
        (low <= high).then_some(set)
    }

    /// The addresses that share their first `len` bits with `address`; `None` if an address of this
    /// version has fewer bits.
    pub fn prefix(address: IpAddr, len: u32) -> Option<AddressSet> {
        let mut set = AddressSet::default();
        match address {
            IpAddr::V4(address) => {
                let rest = u32::MAX.checked_shr(len).unwrap_or(0);
                let low = u32::from(address) & !rest;
                set.v4 = RangeSet::new([(low.into(), (low | rest).into())]);
                (len <= 32).then_some(set)
            }
            IpAddr::V6(address) => {
                let rest = u128::MAX.checked_shr(len).unwrap_or(0);
                let low = u128::from(address) & !rest;
                set.v6 = RangeSet::new([(low, low | rest)]);
                (len <= 128).then_some(set)
            }
        }
    }

    /// Whether it has this address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.v4.contains(v4(address)),
            IpAddr::V6(address) => self.v6.contains(v6(address)),
        }
    }

    /// Whether it has no address.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// The addresses of either set.
    #[must_use]
    pub fn union(&self, other: &AddressSet) -> AddressSet {
        AddressSet { v4: self.v4.union(&other.v4), v6: self.v6.union(&other.v6) }
    }

    /// The addresses of this set that `other` lacks.
    #[must_use]
    pub fn difference(&self, other: &AddressSet) -> AddressSet {
        AddressSet { v4: self.v4.difference(&other.v4), v6: self.v6.difference(&other.v6) }
    }
}

fn v4(address: Ipv4Addr) -> u128 {
    u32::from(address).into()
}

fn v6(address: Ipv6Addr) -> u128 {
    address.into()
}

#[cfg(test)]
#[path = "ranges_tests.rs"]
mod tests;
