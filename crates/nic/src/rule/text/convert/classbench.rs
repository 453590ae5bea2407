//! ClassBench filter sets: one rule a line, the most important first.
//!
//! `@SRC/LEN DST/LEN FIRST : LAST FIRST : LAST PROTOCOL/MASK FLAGS/MASK`; the flags may be missing.
//! They are 16 bits of the transport header as in memory: the TCP flags in the high byte (0x1000 is
//! ACK), or type and code of ICMP. IPv6 sets, as ClassBench-ng creates them, have IPv6 addresses in
//! the same positions; both addresses of a rule have the same IP version.

use super::{Items, Rules, Tokens, transport};
use crate::limits::PRIORITY_MAX;
use crate::rule::item::Item;
use crate::text::TextError;

pub(super) fn convert(text: &str, rules: &mut Rules<'_>) -> Result<(), TextError> {
    let mut priority = 0;
    for (line, text) in (1..).zip(text.lines()) {
        let mut words = Tokens::default();
        words.add(line, text);
        if words.is_at_end() {
            continue;
        }
        let items = rule(&mut words)?;
        if priority > PRIORITY_MAX {
            words.at = 1;
            return Err(words.unfit(format!(
                "each rule takes a priority of its own, and the last is {PRIORITY_MAX}: leave out \
                 the rules from here on"
            )));
        }
        rules.rule((0, priority), &items, "queue index 0");
        priority += 1;
    }
    Ok(())
}

fn rule(words: &mut Tokens<'_>) -> Result<Items, TextError> {
    let mut items = Items::default();
    match words.tokens.first_mut() {
        Some(first) if first.word.starts_with('@') => {
            first.word = &first.word[1..];
            first.place.0 += 1;
        }
        _ => {
            words.next();
            return Err(words.expected("`@` and a source prefix"));
        }
    }
    let ip = if words.peek().contains(':') { Item::Ipv6 } else { Item::Ipv4 };
    for name in ["src", "dst"] {
        let (value, mask) = words.prefix(ip, name)?;
        items.set(ip, name, value, mask);
    }
    let ports = [range(words, "source port")?, range(words, "destination port")?];
    let (protocol, mask) = masked(words, "protocol", 0xff)?;
    let asks_ports = ports.iter().any(|ports| *ports != (0, u16::MAX));
    let of = match mask {
        0 if asks_ports => {
            let reason = "ports of any protocol: write a rule for each protocol";
            return Err(words.unfit(reason));
        }
        0 => None,
        0xff => Some(protocol),
        _ => return Err(words.not_supported("a part of the protocol")),
    };
    let header = of.and_then(transport).filter(|header| match header {
        Item::Icmp => ip == Item::Ipv4,
        Item::Icmp6 => ip == Item::Ipv6,
        _ => true,
    });
    if asks_ports {
        let header = header.filter(|header| matches!(header, Item::Tcp | Item::Udp));
        let header = header.ok_or_else(|| words.not_supported("ports of this protocol"))?;
        for (name, (first, last)) in ["src", "dst"].into_iter().zip(ports) {
            items.range(header, name, first, last);
        }
    }
    let flags = if words.is_at_end() { (0, 0) } else { masked(words, "flags", 0xffff)? };
    match (header, flags) {
        (_, (_, 0)) => {}
        (Some(Item::Tcp), (value, mask)) if mask & 0xff == 0 => {
            items.set(Item::Tcp, "flags", value >> 8, mask >> 8);
        }
        (Some(header @ (Item::Icmp | Item::Icmp6)), (value, mask)) => {
            items.set(header, "type", value >> 8, mask >> 8);
            items.set(header, "code", value & 0xff, mask & 0xff);
        }
        _ => return Err(words.not_supported("these flags of this protocol")),
    }
    // All fragments have the protocol; only the first has the transport header.
    if let (Some(protocol), 1) = (of, items.0.len()) {
        items.is(ip, "proto", protocol);
    }
    match words.next() {
        "" => Ok(items),
        _ => Err(words.expected("the end of the line")),
    }
}

/// `FIRST : LAST`.
fn range(words: &mut Tokens<'_>, what: &str) -> Result<(u16, u16), TextError> {
    let first = words.number(what, u16::MAX.into())? as u16;
    if words.next() != ":" {
        return Err(words.expected("`:`"));
    }
    let last = words.number(what, u16::MAX.into())? as u16;
    match first <= last {
        true => Ok((first, last)),
        false => Err(words.unfit(format!("{what}s end at {last}, before {first}"))),
    }
}

/// `VALUE/MASK`.
fn masked(words: &mut Tokens<'_>, what: &str, max: u128) -> Result<(u128, u128), TextError> {
    let word = words.next();
    let Some((value, mask)) = word.split_once('/') else {
        return Err(words.expected(format!("{what}: VALUE/MASK")));
    };
    Ok((words.number_of(value, 10, what, max)?, words.number_of(mask, 10, what, max)?))
}
