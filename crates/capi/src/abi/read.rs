//! Reads what C programs give: items, actions, settings of RSS.

use arrayvec::ArrayVec;
use niclab_nic::limits::{ACTIONS_MAX, RSS_QUEUES_MAX};
use niclab_nic::rss::{HashFunction, HashTypes, RssAction, RssLevel};
use niclab_nic::rule::item::{IMAGE_LEN, Image, Item, ItemMatch};
use niclab_nic::rule::{Action, Set};

use super::types::{
    NICLAB_RSS_KEY_LEN_MAX, niclab_action, niclab_item, niclab_item_kind, niclab_rss,
};
use crate::control::GivenActions;
use crate::failure::{Failure, FailurePart};
use crate::shapes::{ItemBytes, bytes_len};

/// The most items of a pattern.
const ITEMS_MAX: usize = 16;

/// The most bytes of an encapsulation that are read; the NIC refuses more than 128.
const BYTES_MAX: usize = 256;

/// The items of a pattern.
pub type Items<'a> = ArrayVec<ItemBytes<'a>, ITEMS_MAX>;

/// A list that a C program gives; null stands for an empty one.
///
/// # Safety
/// `list` is null or points to `len` valid elements, which nobody changes while the result exists.
pub unsafe fn slice<'a, T>(list: *const T, len: usize) -> &'a [T] {
    match list.is_null() {
        true => &[],
        // SAFETY: the caller vouches for the elements.
        false => unsafe { std::slice::from_raw_parts(list, len) },
    }
}

// `niclab.h` has all items, in the order of [`Item::ALL`].
const _: () = assert!(niclab_item_kind::GtpPsc as usize + 1 == Item::ALL.len());

/// The item of a kind that `niclab.h` has.
#[inline]
fn item_of(kind: u32) -> Option<Item> {
    Item::ALL.get(kind as usize).copied()
}

/// Reads the items of a pattern.
///
/// # Safety
/// Each item's pointers are null or point to as many bytes as its kind has, while `items` exists.
#[inline]
pub unsafe fn items<'a>(given: &'a [niclab_item], items: &mut Items<'a>) -> Result<(), Failure> {
    if given.len() > ITEMS_MAX {
        let text = format!("{} items; a pattern has at most {ITEMS_MAX}", given.len());
        return Err(Failure::of_item(libc::ENOTSUP, ITEMS_MAX, text));
    }
    for (at, one) in given.iter().enumerate() {
        let Some(item) = item_of(one.kind) else {
            let text = format!("no item has the kind {}; use one of niclab_item_kind", one.kind);
            return Err(Failure::of_item(libc::ENOTSUP, at, text));
        };
        let len = bytes_len(item);
        let bytes = |bytes: *const u8| match bytes.is_null() {
            true => None,
            // SAFETY: the caller vouches for the bytes.
            false => Some(unsafe { std::slice::from_raw_parts(bytes, len) }),
        };
        let read =
            ItemBytes { item, spec: bytes(one.spec), last: bytes(one.last), mask: bytes(one.mask) };
        if read.spec.is_none() && read.last.is_some() {
            let text = format!("{}: last without spec; give a spec", item.name());
            return Err(Failure::of_item(libc::EINVAL, at, text));
        }
        items.push(read);
    }
    Ok(())
}

/// The items of a pattern template: masks alone matter.
///
/// # Safety
/// As [`items`].
pub unsafe fn template_items(given: &[niclab_item]) -> Result<Vec<ItemMatch>, Failure> {
    let mut read = Items::new();
    // SAFETY: as the caller vouches.
    unsafe { items(given, &mut read)? };
    read.iter_mut().for_each(|item| item.spec = item.spec.or(item.mask));
    Ok(read.into_iter().map(ItemBytes::to_match).collect())
}

/// The items of a rule of a template: its values, and the template's masks.
///
/// # Safety
/// As [`items`].
#[inline]
pub unsafe fn templated_items<'a>(
    given: &[niclab_item],
    template: &'a [ItemMatch],
    items: &mut Items<'a>,
) -> Result<(), Failure> {
    static NO_VALUES: Image = [0; IMAGE_LEN];
    if given.len() != template.len() {
        let text = format!("{} items, and the template has {}", given.len(), template.len());
        return Err(Failure::new(libc::EINVAL, FailurePart::None, text));
    }
    for ((at, one), template) in given.iter().enumerate().zip(template) {
        if item_of(one.kind) != Some(template.item) {
            let text = format!("the template has {} here", template.item.name());
            return Err(Failure::of_item(libc::EINVAL, at, text));
        }
        let len = bytes_len(template.item);
        let spec = match one.spec.is_null() {
            true => &NO_VALUES[..len],
            // SAFETY: the caller vouches for the bytes.
            false => unsafe { std::slice::from_raw_parts(one.spec, len) },
        };
        items.push(ItemBytes { spec: Some(spec), ..ItemBytes::from(template) });
    }
    Ok(())
}

fn unfit(at: usize, reason: &str) -> Failure {
    Failure::of_action(libc::EINVAL, at, reason)
}

/// The settings of an `rss` action.
///
/// # Safety
/// The pointers are null or point to as many elements as the settings say.
pub unsafe fn rss(given: &niclab_rss) -> Result<RssAction, &'static str> {
    if given.key_len as usize > NICLAB_RSS_KEY_LEN_MAX {
        return Err("an RSS key has 40 to 128 bytes");
    }
    if usize::from(given.queues_len) > RSS_QUEUES_MAX {
        return Err("rss names at most 128 queues");
    }
    let function = match given.function {
        0 => Some(HashFunction::Toeplitz),
        1 => Some(HashFunction::SymmetricToeplitz),
        255 => None,
        _ => return Err("a hash function is 0 (Toeplitz), 1 (symmetric Toeplitz) or 255"),
    };
    let level = match given.level {
        0 => None,
        1 => Some(RssLevel::Outermost),
        2 => Some(RssLevel::Inner),
        _ => return Err("an RSS level is 0, 1 (outermost) or 2 (inside the tunnel)"),
    };
    let types = match given.types {
        u32::MAX => None,
        bits => Some(HashTypes::from_bits(bits).ok_or("a hash type that niclab does not have")?),
    };
    // SAFETY: the caller vouches for the pointers.
    let (key, queues) = unsafe {
        (slice(given.key, given.key_len as usize), slice(given.queues, given.queues_len.into()))
    };
    let key = (!key.is_empty()).then(|| key.to_vec());
    Ok(RssAction { function, key, level, queues: queues.to_vec(), types })
}

fn address<const N: usize>(bytes: &[u8]) -> Result<[u8; N], &'static str> {
    bytes.try_into().map_err(|_| "the address has the wrong length; see niclab_field")
}

/// The field that a `set` action names, and its value.
fn set(given: &niclab_action, bytes: &[u8]) -> Result<Set, &'static str> {
    let byte = u8::try_from(given.value).map_err(|_| "the value is greater than 255");
    let word = u16::try_from(given.value).map_err(|_| "the value is greater than 65535");
    Ok(match given.index {
        0 => Set::Ipv4Dscp(byte?),
        1 => Set::Ipv4Dst(address::<4>(bytes)?.into()),
        2 => Set::Ipv4Src(address::<4>(bytes)?.into()),
        3 => Set::Ipv6Dscp(byte?),
        4 => Set::Ipv6Dst(address::<16>(bytes)?.into()),
        5 => Set::Ipv6Src(address::<16>(bytes)?.into()),
        6 => Set::MacDst(address(bytes)?),
        7 => Set::MacSrc(address(bytes)?),
        8 => Set::TpDst(word?),
        9 => Set::TpSrc(word?),
        10 => Set::Ttl(byte?),
        11 => Set::VlanPcp(byte?),
        12 => Set::VlanVid(word?),
        _ => return Err("no such field; use one of niclab_field"),
    })
}

/// # Safety
/// The action's pointers are null or point to what its kind has.
#[inline]
unsafe fn action(given: &niclab_action) -> Result<Action, &'static str> {
    let value = given.value;
    let word = || u16::try_from(value).map_err(|_| "the value is greater than 65535");
    // SAFETY: the caller vouches for the bytes.
    let bytes = || unsafe { slice(given.bytes, given.bytes_len.min(BYTES_MAX)) };
    let boxed = || -> Box<[u8]> { bytes().into() };
    Ok(match given.kind {
        0 => Action::Age(value),
        1 => Action::Count,
        2 => Action::DecTtl,
        3 => Action::Drop,
        4 => Action::Flag,
        5 => Action::Jump(value),
        6 => Action::Mark(value),
        7 => Action::Meter(value),
        8 => Action::NvgreDecap,
        9 => Action::NvgreEncap(boxed()),
        10 => Action::PopVlan,
        11 => Action::Port(word()?),
        12 => Action::PushVlan(word()?),
        13 => Action::Queue(word()?),
        14 => Action::RawDecap(word()?),
        15 => Action::RawEncap(boxed()),
        16 if given.rss.is_null() => return Err("rss without settings"),
        // SAFETY: the caller vouches for the settings.
        16 => Action::Rss(Box::new(unsafe { rss(&*given.rss)? })),
        17 => Action::Set(set(given, bytes())?),
        18 => Action::SetMeta { data: value, mask: given.mask },
        19 => {
            let index = u8::try_from(given.index).map_err(|_| "tags are 0 to 3")?;
            Action::SetTag { index, data: value, mask: given.mask }
        }
        20 => Action::VxlanDecap,
        21 => Action::VxlanEncap(boxed()),
        // The control side puts the indirect action here.
        22 => Action::Drop,
        23 => Action::MacSwap,
        _ => return Err("no such action; use one of niclab_action_kind"),
    })
}

/// Reads the actions of a rule.
///
/// # Safety
/// Each action's pointers are null or point to what its kind has.
#[inline]
pub unsafe fn actions(given: &[niclab_action], read: &mut GivenActions) -> Result<(), Failure> {
    if given.len() > ACTIONS_MAX {
        let text = format!("{} actions; a rule has at most {ACTIONS_MAX}", given.len());
        return Err(Failure::new(libc::EINVAL, FailurePart::Actions, text));
    }
    for (at, one) in given.iter().enumerate() {
        // SAFETY: the caller vouches for the pointers.
        let action = unsafe { action(one) }.map_err(|reason| unfit(at, reason))?;
        match one.kind {
            22 => read.indirect.push((at, one.context)),
            0 if one.context != 0 => read.age_context = Some(one.context),
            _ => {}
        }
        read.list.push(action);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: u32, bytes: &[u8]) -> niclab_item {
        let bytes = bytes.as_ptr();
        niclab_item { kind, spec: bytes, last: std::ptr::null(), mask: bytes }
    }

    #[test]
    fn a_rule_of_every_kind_of_item_fits_its_template() {
        let bytes = [0xff; IMAGE_LEN];
        for kind in 0..=niclab_item_kind::GtpPsc as u32 {
            let given = [item(kind, &bytes)];
            // SAFETY: there are as many bytes as the longest item has.
            let template = unsafe { template_items(&given) }.unwrap();
            let mut read = Items::new();
            // SAFETY: as above.
            let fits = unsafe { templated_items(&given, &template, &mut read) };
            assert!(fits.is_ok(), "{}", template[0].item.name());
            let other = [item((kind + 1) % 29, &bytes)];
            // SAFETY: as above.
            let misfit = unsafe { templated_items(&other, &template, &mut Items::new()) };
            assert!(misfit.is_err(), "{}", template[0].item.name());
        }
        let unknown = [item(niclab_item_kind::GtpPsc as u32 + 1, &bytes)];
        // SAFETY: as above; an unknown kind is not read.
        assert!(unsafe { template_items(&unknown) }.is_err());
    }
}
