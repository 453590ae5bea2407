//! The actions of a rule.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::headers::SavedHeaders;
use super::words::Words;
use super::{known, one_of, rss};
use crate::rule::item::{Field, FieldKind};
use crate::rule::{Action, Set};
use crate::text::{Problem, TextError};

/// The actions that are read here.
pub(super) const NAMES: &[&str] = &[
    "age",
    "count",
    "dec_ttl",
    "drop",
    "end",
    "flag",
    "jump",
    "mac_swap",
    "mark",
    "meter",
    "nvgre_decap",
    "nvgre_encap",
    "of_dec_nw_ttl",
    "of_pop_vlan",
    "of_push_vlan",
    "of_set_vlan_pcp",
    "of_set_vlan_vid",
    "port_id",
    "queue",
    "raw_decap",
    "raw_encap",
    "represented_port",
    "rss",
    "set_ipv4_dscp",
    "set_ipv4_dst",
    "set_ipv4_src",
    "set_ipv6_dscp",
    "set_ipv6_dst",
    "set_ipv6_src",
    "set_mac_dst",
    "set_mac_src",
    "set_meta",
    "set_tag",
    "set_tp_dst",
    "set_tp_src",
    "set_ttl",
    "void",
    "vxlan_decap",
    "vxlan_encap",
];

/// Reads actions up to and including the `end`, whose place it returns. `places` gets those of the
/// actions; `saved_headers` are the headers that some actions need.
pub(super) fn read_actions(
    words: &mut Words<'_>,
    saved_headers: &SavedHeaders,
    actions: &mut Vec<Action>,
    places: &mut Vec<(usize, usize)>,
) -> Result<(usize, usize), TextError> {
    loop {
        let word = words.next();
        let place = words.place();
        let action = match word {
            "end" => return Ok(place),
            "" if !actions.is_empty() => return Err(words.expected("`end`")),
            "void" => {
                words.keyword("/")?;
                continue;
            }
            "age" => Action::Age(number(words, "timeout", 0xff_ffff)? as u32),
            "count" => {
                count(words)?;
                Action::Count
            }
            "drop" => alone(words, Action::Drop)?,
            "flag" => alone(words, Action::Flag)?,
            "jump" => Action::Jump(number_u32(words, "group")?),
            "mark" => Action::Mark(number_u32(words, "id")?),
            "meter" => meter(words)?,
            "port_id" => Action::Port(port_id(words)?),
            "represented_port" => Action::Port(number_u16(words, "ethdev_port_id")?),
            "queue" => Action::Queue(number_u16(words, "index")?),
            "rss" => Action::Rss(Box::new(rss::read_rss(words)?)),
            "dec_ttl" | "of_dec_nw_ttl" => alone(words, Action::DecTtl)?,
            "mac_swap" => alone(words, Action::MacSwap)?,
            "nvgre_decap" => alone(words, Action::NvgreDecap)?,
            "vxlan_decap" => alone(words, Action::VxlanDecap)?,
            "of_pop_vlan" => alone(words, Action::PopVlan)?,
            "set_meta" => {
                let [data, mask] = bits_of(words, ["data", "mask"])?;
                Action::SetMeta { data, mask }
            }
            "set_tag" => {
                let [data, mask, index] = bits_of(words, ["data", "mask", "index"])?;
                let index = u8::try_from(index).unwrap_or(u8::MAX);
                Action::SetTag { index, data, mask }
            }
            "of_push_vlan" => Action::PushVlan(number_u16(words, "ethertype")?),
            word => match (saved_headers.action(words, word)?, read_set(words, word)?) {
                (Some(action), _) => action,
                (None, Some(set)) => Action::Set(set),
                (None, None) => match known::refusal(known::ACTIONS, word) {
                    Some(refusal) => return Err(words.not_supported(refusal)),
                    None => return Err(words.unknown(NAMES, one_of(NAMES))),
                },
            },
        };
        if let Some(reason) = action.problem() {
            let reason = format!("`{action}`: {reason}");
            return Err(words.error(Problem::Unfit { reason }));
        }
        actions.push(action);
        places.push(place);
    }
}

/// An action that sets a field, if the word names one.
fn read_set(words: &mut Words<'_>, word: &str) -> Result<Option<Set>, TextError> {
    Ok(Some(match word {
        "of_set_vlan_pcp" => Set::VlanPcp(number_u8(words, "vlan_pcp", 7)?),
        "of_set_vlan_vid" => Set::VlanVid(number(words, "vlan_vid", 4_095)? as u16),
        "set_ipv4_dscp" => Set::Ipv4Dscp(number_u8(words, "dscp_value", 63)?),
        "set_ipv4_dst" => Set::Ipv4Dst(ipv4(words)?),
        "set_ipv4_src" => Set::Ipv4Src(ipv4(words)?),
        "set_ipv6_dscp" => Set::Ipv6Dscp(number_u8(words, "dscp_value", 63)?),
        "set_ipv6_dst" => Set::Ipv6Dst(ipv6(words)?),
        "set_ipv6_src" => Set::Ipv6Src(ipv6(words)?),
        "set_mac_dst" => Set::MacDst(mac(words)?),
        "set_mac_src" => Set::MacSrc(mac(words)?),
        "set_tp_dst" => Set::TpDst(number_u16(words, "port")?),
        "set_tp_src" => Set::TpSrc(number_u16(words, "port")?),
        "set_ttl" => Set::Ttl(number_u8(words, "ttl_value", u8::MAX)?),
        _ => return Ok(None),
    }))
}

fn ipv4(words: &mut Words<'_>) -> Result<Ipv4Addr, TextError> {
    let bits = address(words, "ipv4_addr", FieldKind::Ipv4, 32)?;
    Ok(Ipv4Addr::from_bits(bits as u32))
}

fn ipv6(words: &mut Words<'_>) -> Result<Ipv6Addr, TextError> {
    address(words, "ipv6_addr", FieldKind::Ipv6, 128).map(Ipv6Addr::from_bits)
}

fn mac(words: &mut Words<'_>) -> Result<[u8; 6], TextError> {
    let bits = address(words, "mac_addr", FieldKind::Mac, 48)? as u64;
    let [_, _, address @ ..] = bits.to_be_bytes();
    Ok(address)
}

fn address(
    words: &mut Words<'_>,
    name: &'static str,
    kind: FieldKind,
    bits: usize,
) -> Result<u128, TextError> {
    let field = Field { name, bit_offset: 0, bits, kind };
    parameter(words, name, |words| words.value(&field))
}

fn number_u8(words: &mut Words<'_>, name: &'static str, max: u8) -> Result<u8, TextError> {
    Ok(number(words, name, max.into())? as u8)
}

/// The parameters of an action that sets bits, up to the `/`. The mask has to be given: testpmd
/// takes a missing mask for zero, which sets nothing.
fn bits_of<const N: usize>(
    words: &mut Words<'_>,
    names: [&'static str; N],
) -> Result<[u32; N], TextError> {
    let mut values = [None; N];
    loop {
        let word = words.next();
        match names.iter().position(|name| *name == word) {
            Some(at) => values[at] = Some(words.number(names[at], u32::MAX.into())? as u32),
            None if word == "/" => break,
            None => return Err(words.unended(&names, format!("{} or `/`", one_of(&names)))),
        }
    }
    match names.iter().position(|name| *name == "mask").filter(|at| values[*at].is_none()) {
        Some(_) => {
            let reason = "no mask: add `mask 0xffffffff` to set all bits".to_owned();
            Err(words.error(Problem::Unfit { reason }))
        }
        None => Ok(values.map(Option::unwrap_or_default)),
    }
}

/// An action without parameters.
fn alone(words: &mut Words<'_>, action: Action) -> Result<Action, TextError> {
    words.keyword("/").map(|()| action)
}

fn count(words: &mut Words<'_>) -> Result<(), TextError> {
    match words.next() {
        "/" => Ok(()),
        "identifier" => Err(words.not_supported("count identifier")),
        _ => Err(words.unended(&[], "`/`".to_owned())),
    }
}

/// The older name of `represented_port`, up to the `/`.
fn port_id(words: &mut Words<'_>) -> Result<u16, TextError> {
    let mut port = 0;
    loop {
        match words.next() {
            "/" => return Ok(port),
            "id" => port = words.number_u16("id")?,
            "original" => return Err(words.not_supported("port_id original")),
            _ => return Err(words.unended(&["id"], "`id` or `/`".into())),
        }
    }
}

fn meter(words: &mut Words<'_>) -> Result<Action, TextError> {
    let mut number = 0;
    loop {
        match words.next() {
            "/" => return Ok(Action::Meter(number)),
            "mtr_id" => number = words.number_u32("mtr_id")?,
            _ => return Err(words.unended(&["mtr_id"], "`mtr_id` or `/`".into())),
        }
    }
}

fn number_u16(words: &mut Words<'_>, name: &'static str) -> Result<u16, TextError> {
    Ok(number(words, name, u16::MAX.into())? as u16)
}

fn number_u32(words: &mut Words<'_>, name: &'static str) -> Result<u32, TextError> {
    Ok(number(words, name, u32::MAX.into())? as u32)
}

fn number(words: &mut Words<'_>, name: &'static str, max: u128) -> Result<u128, TextError> {
    parameter(words, name, |words| words.number(name, max))
}

/// The one parameter of an action, up to the `/`. The last value counts; without a value it is 0.
fn parameter<V: Default>(
    words: &mut Words<'_>,
    name: &'static str,
    read: impl Fn(&mut Words<'_>) -> Result<V, TextError>,
) -> Result<V, TextError> {
    let mut value = V::default();
    loop {
        match words.next() {
            "/" => return Ok(value),
            word if word == name => value = read(words)?,
            _ => return Err(words.unended(&[name], format!("`{name}` or `/`"))),
        }
    }
}
