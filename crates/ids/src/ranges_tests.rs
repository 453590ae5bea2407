//! Sets of ranges do what sets of numbers do.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// A set of numbers below 64, and the same as bits.
fn sets() -> impl Strategy<Value = (RangeSet, u64)> {
    vec((0..64u128, 0..64u128), 0..6).prop_map(|ranges| {
        let bit = |number: u128| 1u64 << number;
        let numbers = ranges.iter().flat_map(|&(low, high)| low..=high);
        (RangeSet::new(ranges.iter().copied()), numbers.fold(0, |bits, n| bits | bit(n)))
    })
}

fn bits(set: &RangeSet) -> u64 {
    (0..64u128).filter(|&number| set.contains(number)).fold(0, |bits, n| bits | 1 << n)
}

proptest! {
    #[test]
    fn operations_are_those_of_sets((a, a_bits) in sets(), (b, b_bits) in sets()) {
        prop_assert_eq!(bits(&a), a_bits);
        prop_assert_eq!(a.count(), u128::from(a_bits.count_ones()));
        prop_assert_eq!(bits(&a.union(&b)), a_bits | b_bits);
        prop_assert_eq!(bits(&a.difference(&b)), a_bits & !b_bits);
    }
}

#[test]
fn sets_reach_to_the_last_number() {
    let all = AddressSet::all();
    assert_eq!(all.v6.count(), u128::MAX, "one less than there are");
    let last = AddressSet::prefix(IpAddr::V6(Ipv6Addr::from(u128::MAX)), 128).unwrap();
    assert!(!all.difference(&last).contains(IpAddr::V6(Ipv6Addr::from(u128::MAX))));
    assert!(all.difference(&all).is_empty());
}

#[test]
fn a_prefix_has_the_addresses_that_share_it() {
    let ten = AddressSet::prefix("10.1.2.3".parse().unwrap(), 8).unwrap();
    assert_eq!(ten.v4.ranges(), [(0x0a00_0000, 0x0aff_ffff)]);
    assert!(AddressSet::prefix("10.0.0.0".parse().unwrap(), 33).is_none());
    assert_eq!(AddressSet::prefix("::1".parse().unwrap(), 0).unwrap().v6, AddressSet::all().v6);
}
