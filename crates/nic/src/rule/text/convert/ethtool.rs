//! `ethtool -N`: rules of receive flow classification, as ethtool(8) has them.
//!
//! A mask behind `m` has the bits that do not count. The place `loc` decides which rule acts, the
//! lowest first: it becomes the priority. Either all rules have it or none. Without it ethtool
//! gives each the highest place that is free (`rxclass.c`), unless the driver chooses: the newest
//! acts first, and they get priorities downwards.

use std::collections::HashMap;

use super::{Items, Rules, Tokens, ones, transport};
use crate::rule::item::Item;
use crate::rule::text::error::TextError;

/// Names of the option that adds a rule.
const OPTIONS: [&str; 5] = ["-N", "-U", "--config-nfc", "--config-ntuple", "--config-rxnfc"];

const SCTP: u128 = 132;

/// Flow types: name, IP version, protocol.
const FLOW_TYPES: &[(&str, Option<Item>, Option<u128>)] = &[
    ("ether", None, None),
    ("ip4", Some(Item::Ipv4), None),
    ("tcp4", Some(Item::Ipv4), Some(6)),
    ("udp4", Some(Item::Ipv4), Some(17)),
    ("sctp4", Some(Item::Ipv4), Some(SCTP)),
    ("ip6", Some(Item::Ipv6), None),
    ("tcp6", Some(Item::Ipv6), Some(6)),
    ("udp6", Some(Item::Ipv6), Some(17)),
    ("sctp6", Some(Item::Ipv6), Some(SCTP)),
];

/// What rules have in common.
#[derive(Default)]
struct Seen {
    device: Option<String>,
    /// Lines of the places that are taken.
    places: HashMap<u32, u64>,
    /// Whether rules have places; `None` before the first.
    placed: Option<bool>,
    /// Rules to come, of those without.
    newer: u32,
}

pub(super) fn convert(text: &str, rules: &mut Rules<'_>) -> Result<(), TextError> {
    let newer = text.lines().filter(|text| !is_empty(text)).count() as u32;
    let mut seen = Seen { newer, ..Seen::default() };
    for (line, text) in (1..).zip(text.lines()) {
        let mut words = Tokens::new();
        words.add(line, text);
        if words.is_at_end() {
            continue;
        }
        let (items, action, place) = rule(&mut words, &mut seen.device)?;
        let priority = seen.priority(&words, line, place)?;
        rules.rule((0, priority), &items, &action);
    }
    Ok(())
}

/// Whether a line has no rule.
fn is_empty(text: &str) -> bool {
    let mut words = Tokens::new();
    words.add(1, text);
    words.is_at_end()
}

impl Seen {
    fn priority(
        &mut self,
        words: &Tokens<'_>,
        line: u64,
        place: Option<u32>,
    ) -> Result<u32, TextError> {
        if *self.placed.get_or_insert(place.is_some()) != place.is_some() {
            let reason = "some rules have `loc` and some have none: give it to all, or to none";
            return Err(words.unfit(reason));
        }
        self.newer = self.newer.saturating_sub(1);
        let Some(place) = place else { return words.priority(self.newer.into()) };
        match self.places.insert(place, line) {
            None => words.priority(place.into()),
            Some(line) => Err(words.unfit(format!(
                "loc {place} is that of line {line}, which ethtool would replace: leave that out"
            ))),
        }
    }
}

/// The items of a rule, its action, and its place.
type Read = (Items, String, Option<u32>);

fn rule(words: &mut Tokens<'_>, device: &mut Option<String>) -> Result<Read, TextError> {
    if words.peek() == "sudo" {
        words.next();
    }
    if words.next() != "ethtool" {
        return Err(words.expected("`ethtool`"));
    }
    if !OPTIONS.contains(&words.next()) {
        return Err(words.expected("`-N`"));
    }
    let name = words.next();
    if device.get_or_insert_with(|| name.to_owned()) != name {
        return Err(words.unfit("another device: convert the rules of one at a time"));
    }
    match words.next() {
        "flow-type" => {}
        word @ ("delete" | "rx-flow-hash") => return Err(words.not_supported(word)),
        _ => return Err(words.expected("`flow-type`")),
    }
    let flow_type = words.next();
    let Some(&(_, ip, protocol)) = FLOW_TYPES.iter().find(|(name, ..)| *name == flow_type) else {
        return Err(words.not_supported(format!("flow-type {flow_type}")));
    };
    let mut items = Items::default();
    items.item(ip.unwrap_or(Item::Eth), 0);
    let header = protocol.and_then(transport);
    let (mut action, mut place) = (None, None);
    while !words.is_at_end() {
        match words.next() {
            "action" => action = Some(read_action(words)?),
            "loc" => place = Some(words.number("loc", u32::MAX.into())? as u32),
            name => field(words, &mut items, name, (ip, protocol))?,
        }
    }
    // Of all fragments, where no field asks for the header.
    let named = items.0.iter().any(|item| Some(item.item) == header);
    if let (Some(ip), Some(protocol), false) = (ip, protocol, named) {
        items.is(ip, "proto", protocol);
    }
    let missing = || words.unfit("no action: add `action N`, or `action -1` to drop");
    Ok((items, action.ok_or_else(missing)?, place))
}

fn read_action(words: &mut Tokens<'_>) -> Result<String, TextError> {
    match words.peek() {
        "-1" => {
            words.next();
            Ok("drop".to_owned())
        }
        "-2" => {
            words.next();
            Err(words.not_supported("action -2: wake on LAN"))
        }
        _ => Ok(format!("queue index {}", words.number("action", u16::MAX.into())?)),
    }
}

fn field(
    words: &mut Tokens<'_>,
    items: &mut Items,
    name: &str,
    (ip, protocol): (Option<Item>, Option<u128>),
) -> Result<(), TextError> {
    let wrong = |words: &Tokens<'_>| words.unfit(format!("{name} is no field of this flow-type"));
    let ports = protocol.and_then(transport);
    let (item, field) = match (name, ip) {
        ("src", None) => (Item::Eth, "src"),
        ("dst", None) | ("dst-mac", _) => (Item::Eth, "dst"),
        ("proto", None) => (Item::Eth, "type"),
        ("vlan", _) => (Item::Vlan, "tci"),
        ("src-ip", Some(ip)) => (ip, "src"),
        ("dst-ip", Some(ip)) => (ip, "dst"),
        ("tos", Some(Item::Ipv4)) => (Item::Ipv4, "tos"),
        ("tclass", Some(Item::Ipv6)) => (Item::Ipv6, "tc"),
        ("l4proto", Some(ip)) if protocol.is_none() => (ip, "proto"),
        ("src-port" | "dst-port", _) if protocol == Some(SCTP) => {
            return Err(words.not_supported("ports of SCTP"));
        }
        ("src-port", Some(_)) => (ports.ok_or_else(|| wrong(words))?, "src"),
        ("dst-port", Some(_)) => (ports.ok_or_else(|| wrong(words))?, "dst"),
        ("vlan-etype" | "user-def" | "l4data" | "spi" | "context" | "vf" | "queue", _) => {
            return Err(words.not_supported(name));
        }
        ("src" | "dst" | "proto" | "src-ip" | "dst-ip" | "tos" | "tclass" | "l4proto", _)
        | ("src-port" | "dst-port", None) => return Err(wrong(words)),
        _ => return Err(words.expected("a field of the flow-type, `action` or `loc`")),
    };
    let bits = item.field(field).map_or(0, |field| field.bits) as u32;
    let value = value(words, item, field, name)?;
    let mut ignored = 0;
    if words.peek() == "m" {
        words.next();
        ignored = self::value(words, item, field, name)?;
    }
    items.set(item, field, value, ones(bits) & !ignored);
    Ok(())
}

/// The next word, a value of a field or the mask behind it.
fn value(words: &mut Tokens<'_>, item: Item, field: &str, what: &str) -> Result<u128, TextError> {
    match (item, field) {
        (Item::Eth, "src" | "dst") => words.mac(what),
        (Item::Ipv4 | Item::Ipv6, "src" | "dst") => {
            let word = words.next();
            words.ip(item, word, what)
        }
        _ => {
            let ones = item.field(field).map_or(0, |field| field.ones());
            words.number(what, ones)
        }
    }
}
