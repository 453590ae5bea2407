//! Which member of a group a packet takes.

use crate::entry::Member;
use crate::hash::crc32c;

/// The member for a key: the same for the same key, and each as often as its weight says over many
/// keys. 0 in a group without members.
pub(crate) fn pick(members: &[Member], key: &[u8]) -> u32 {
    let weights: u64 = members.iter().map(|member| u64::from(member.weight)).sum();
    // The upper bits of a product spread as evenly as a remainder and cost no division.
    let mut left = (u64::from(crc32c(key)) * weights) >> 32;
    for member in members {
        match left.checked_sub(u64::from(member.weight)) {
            Some(less) => left = less,
            None => return member.id,
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_picked_by_their_weights_and_always_the_same() {
        let members = [Member { id: 7, weight: 1 }, Member { id: 9, weight: 3 }];
        let mut picked = [0_u32; 2];
        for key in 0..10_000_u32 {
            let member = pick(&members, &key.to_be_bytes());
            assert_eq!(member, pick(&members, &key.to_be_bytes()));
            picked[usize::from(member == 9)] += 1;
        }
        assert!(picked[0].abs_diff(2_500) < 150 && picked[0] + picked[1] == 10_000, "{picked:?}");
        assert_eq!(pick(&[], b"key"), 0);
    }
}
