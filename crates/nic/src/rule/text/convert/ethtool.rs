//! Rules of `ethtool -N` (receive flow classification), in the syntax of ethtool(8).
//!
//! Words and numbers are read as `rxclass.c` of ethtool 6.1 reads them. Numbers are as in C
//! (`0x10`; 010 is 8). Each option may be given once. A mask may follow directly, after `m` or
//! after the option's name with `-mask`; its set bits are ignored. A field of which all bits are
//! ignored has no effect, and does not ask for its header either: ethtool gives the driver a mask
//! of 0, as for a field that is not named.
//!
//! The location `loc` decides which rule wins, the lowest first: it becomes the priority. Either
//! all rules have it or none. Without it ethtool gives each rule the highest free location
//! (`rxclass.c`), unless the driver chooses: the newest rule wins, so the priorities go downwards.

use std::collections::{HashMap, HashSet};

use super::{Items, Rules, Settings, Tokens, c_number, ones, setting, transport};
use crate::rule::item::Item;
use crate::text::TextError;

/// Names of the option that adds a rule.
const OPTIONS: [&str; 4] = ["-N", "-U", "--config-nfc", "--config-ntuple"];

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

/// The state of a conversion.
#[derive(Default)]
struct EthtoolRules {
    device: Option<String>,
    /// The line of each location in use.
    locations: HashMap<u32, u64>,
    /// Whether rules have locations; `None` before the first rule.
    has_locations: Option<bool>,
    /// Number of rules still to come without a location.
    newer: u32,
}

pub(super) fn convert(text: &str, rules: &mut Rules<'_>) -> Result<(), TextError> {
    let newer = text.lines().filter(|text| !is_empty(text)).count() as u32;
    let mut seen = EthtoolRules { newer, ..EthtoolRules::default() };
    let mut settings = Settings::default();
    for (line, text) in (1..).zip(text.lines()) {
        let mut words = Tokens::default();
        words.add(line, text);
        if words.is_at_end() || settings.take(line, text)? {
            continue;
        }
        let (items, action, location) = rule(&mut words, &mut seen.device)?;
        let priority = seen.priority(&words, line, location)?;
        let action = action.unwrap_or_else(|| {
            rules.comment(line, "no action: ethtool then means queue 0");
            "queue index 0".to_owned()
        });
        rules.rule((0, priority), &items, &action);
    }
    Ok(())
}

/// Whether a line has no rule.
fn is_empty(text: &str) -> bool {
    let mut words = Tokens::default();
    words.add(1, text);
    words.is_at_end() || setting(&words).is_some()
}

impl EthtoolRules {
    fn priority(
        &mut self,
        words: &Tokens<'_>,
        line: u64,
        location: Option<u32>,
    ) -> Result<u32, TextError> {
        if *self.has_locations.get_or_insert(location.is_some()) != location.is_some() {
            let reason = "some rules have `loc` and some have none: give it to all, or to none";
            return Err(words.unfit(reason));
        }
        self.newer = self.newer.saturating_sub(1);
        let Some(location) = location else { return words.priority(self.newer.into()) };
        match self.locations.insert(location, line) {
            None => words.priority(location.into()),
            Some(line) => Err(words.unfit(format!(
                "loc {location} is that of line {line}, which ethtool would replace: leave that out"
            ))),
        }
    }
}

/// The items of a rule, its action and its location.
type Read = (Items, Option<String>, Option<u32>);

fn rule<'t>(words: &mut Tokens<'t>, device: &mut Option<String>) -> Result<Read, TextError> {
    if words.peek() == "sudo" {
        words.next();
    }
    if words.next() != "ethtool" {
        return Err(words.expected("`ethtool` (what `ethtool -n` prints is not read)"));
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
    let mut read = Options::default();
    while !words.is_at_end() {
        read.option(words, &mut items, (ip, protocol))?;
    }
    let protocol = read.protocol(words, &mut items, (ip, protocol))?;
    // If no field asks for the transport header, the rule matches all fragments.
    let header = protocol.and_then(transport);
    let named = items.0.iter().any(|item| Some(item.item) == header);
    if let (Some(ip), Some(protocol), false) = (ip, protocol, named) {
        items.is(ip, "proto", protocol);
    }
    Ok((items, read.action, read.location))
}

/// The options of a rule, while they are read.
#[derive(Default)]
struct Options<'t> {
    seen: HashSet<&'t str>,
    action: Option<String>,
    location: Option<u32>,
    /// Ports of `ip4` and `ip6`, whose header `l4proto` names: field, value, bits that count.
    ports: Vec<(&'static str, u128, u128)>,
}

impl<'t> Options<'t> {
    fn option(
        &mut self,
        words: &mut Tokens<'t>,
        items: &mut Items,
        (ip, protocol): (Option<Item>, Option<u128>),
    ) -> Result<(), TextError> {
        let name = words.next();
        if !self.seen.insert(name) {
            return Err(words.unfit(format!("{name} is given twice")));
        }
        if matches!(name, "action" | "queue") && self.action.is_some() {
            return Err(words.unfit("action and queue name the same: give one of them"));
        }
        match (name, ip) {
            ("action", _) => self.action = Some(read_action(words)?),
            ("queue", _) => self.action = Some(queue(words, name)?),
            ("loc", _) => self.location = Some(words.c_number("loc", 0, u32::MAX.into())? as u32),
            ("src-port" | "dst-port", Some(_)) if protocol.is_none() => {
                let (value, mask) = masked(words, Item::Udp, "src", name)?;
                let field = if name == "src-port" { "src" } else { "dst" };
                if mask != 0 {
                    self.ports.push((field, value, mask));
                }
            }
            _ => field(words, items, name, (ip, protocol))?,
        }
        Ok(())
    }

    /// The protocol of the header with the ports; for `ip4` and `ip6` it is `l4proto`.
    fn protocol(
        &self,
        words: &Tokens<'_>,
        items: &mut Items,
        (ip, protocol): (Option<Item>, Option<u128>),
    ) -> Result<Option<u128>, TextError> {
        let (Some(ip), false) = (ip, self.ports.is_empty()) else { return Ok(protocol) };
        let Some(field) = ip.field("proto") else { return Ok(protocol) };
        let read = items.item(ip, 0);
        let found = field.value(&read.spec);
        let header = transport(found).filter(|it| matches!(it, Item::Tcp | Item::Udp));
        let Some(header) = header.filter(|_| field.value(&read.mask) == field.ones()) else {
            let reason = "ports of `ip4` and `ip6` need `l4proto 6` or `l4proto 17`";
            return Err(words.unfit(reason));
        };
        field.put(&mut read.spec, 0);
        field.put(&mut read.mask, 0);
        for (name, value, mask) in &self.ports {
            items.set(header, name, *value, *mask);
        }
        Ok(Some(found))
    }
}

/// -1 and -2 are the greatest numbers of 64 bits (`RX_CLS_FLOW_DISC`, `RX_CLS_FLOW_WAKE`).
fn read_action(words: &mut Tokens<'_>) -> Result<String, TextError> {
    let number = c_number(words.peek(), 0);
    match words.peek() {
        "-1" => {
            words.next();
            Ok("drop".to_owned())
        }
        _ if number == Some(u64::MAX) => {
            words.next();
            Ok("drop".to_owned())
        }
        "-2" => {
            words.next();
            Err(words.not_supported("action -2: wake on LAN"))
        }
        _ => queue(words, "action"),
    }
}

fn queue(words: &mut Tokens<'_>, what: &str) -> Result<String, TextError> {
    let number = words.c_number(what, 0, u64::MAX.into())?;
    words.queue(number)
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
        ("dst", None) | ("dst-mac", Some(_)) => (Item::Eth, "dst"),
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
        ("vlan-etype" | "user-def" | "l4data" | "spi" | "context" | "vf", _) => {
            return Err(words.not_supported(name));
        }
        ("src" | "dst" | "proto" | "src-ip" | "dst-ip" | "tos" | "tclass" | "l4proto", _)
        | ("src-port" | "dst-port" | "dst-mac", None) => return Err(wrong(words)),
        _ => return Err(words.expected("a field of the flow-type, `action`, `queue` or `loc`")),
    };
    let (value, mask) = masked(words, item, field, name)?;
    if mask != 0 {
        items.set(item, field, value, mask);
    }
    Ok(())
}

/// The value of an option, and the bits of it that count.
fn masked(
    words: &mut Tokens<'_>,
    item: Item,
    field: &str,
    name: &str,
) -> Result<(u128, u128), TextError> {
    let bits = item.field(field).map_or(0, |field| field.bits) as u32;
    let value = value(words, item, field, name)?;
    let mut ignored = 0;
    if words.peek() == "m" || words.peek().strip_suffix("-mask") == Some(name) {
        words.next();
        ignored = self::value(words, item, field, name)?;
    }
    Ok((value, ones(bits) & !ignored))
}

/// The next word: a value of a field, or the mask after it.
fn value(words: &mut Tokens<'_>, item: Item, field: &str, what: &str) -> Result<u128, TextError> {
    match (item, field) {
        (Item::Eth, "src" | "dst") => words.mac(what),
        (Item::Ipv4 | Item::Ipv6, "src" | "dst") => {
            let word = words.next();
            words.ip(item, word, what)
        }
        _ => {
            let ones = item.field(field).map_or(0, |field| field.ones());
            words.c_number(what, 0, ones)
        }
    }
}
