//! `tc filter add … flower …` as tc-flower(8) has it, and what `tc filter show` prints.
//!
//! A chain is a group, and the lowest `prio` acts first, as here. A filter without one gets what
//! the kernel would give it, as one of `prio 0` does: one below the lowest of its chain, 49152 at
//! first. `protocol ip` is the type behind the addresses, so it matches no tagged frame; `eth type`
//! says so.
//!
//! Of a script of commands those that make or show qdiscs are passed over, and a `\` joins lines.
//! No shell runs here, so whatever else stands in a script is refused, and so are lines of more
//! than one command. The name of the device does not count: it may be a variable of a shell.

use std::collections::HashMap;

use super::{Items, Rules, Tokens, ones, transport};
use crate::rule::item::{Image, Item};
use crate::rule::text::error::TextError;

/// The first priority that the kernel gives by itself.
const PRIORITY_FIRST: u64 = 0xc000;

const TAG_TYPES: [u128; 2] = [0x8100, 0x88a8];
const IPV4: u128 = 0x0800;
const IPV6: u128 = 0x86dd;

/// Keys that say nothing about packets: name, and words behind it.
const ASIDE: &[(&str, usize)] = &[
    ("skip_sw", 0),
    ("skip_hw", 0),
    ("verbose", 0),
    ("in_hw", 0),
    ("not_in_hw", 0),
    ("in_hw_count", 1),
    ("handle", 1),
];

/// What `tc filter show` prints behind an action that says nothing about packets.
const PRINTED: &[(&str, usize)] = &[
    ("index", 1),
    ("ref", 1),
    ("bind", 1),
    ("cookie", 1),
    ("used_hw_stats", 1),
    ("no_percpu", 0),
    ("not_in_hw", 0),
    ("in_hw", 0),
    ("in_hw_count", 1),
];

/// Which bits of which headers a filter matches.
type Mask = Vec<(Item, Image)>;

/// Lowest priority of each chain, the device, and what filters of each chain and priority match, in
/// the order of first use.
#[derive(Default)]
struct Seen {
    device: Option<String>,
    lowest: HashMap<u32, u64>,
    masks: HashMap<(u32, u32), Vec<Mask>>,
}

/// A filter while it is read.
#[derive(Default)]
struct Filter {
    items: Items,
    chain: u32,
    priority: Option<u64>,
    /// Types in the Ethernet header and in the tags behind it.
    types: Vec<u128>,
    protocol: Option<u128>,
    action: Option<String>,
    /// The chain that the action goes on in.
    goto: Option<u32>,
    /// What has no equivalent and changes nothing.
    aside: Vec<String>,
}

pub(super) fn convert(text: &str, rules: &mut Rules<'_>) -> Result<(), TextError> {
    let mut seen = Seen::default();
    let mut words = Tokens::new();
    let mut is_joined = false;
    for (line, text) in (1..).zip(text.lines()) {
        // A blank line says as much as a comment.
        let first = text.split_ascii_whitespace().next().unwrap_or("#");
        // What tc prints of a filter has several lines.
        let goes_on = is_joined
            || first.starts_with('#')
            || !words.is_at_end() && !is_qdisc(&words) && text.starts_with([' ', '\t']);
        if matches!(first, "tc" | "filter" | "sudo") && !is_joined {
            filter(&mut std::mem::replace(&mut words, Tokens::new()), &mut seen, rules)?;
        } else if !goes_on {
            let mut words = Tokens::new();
            words.add(line, text);
            words.next();
            return Err(words.unfit(
                "no shell runs here: leave this out, or convert what `tc filter show dev DEV \
                 ingress` prints",
            ));
        }
        words.add(line, text);
        check_shell(&words)?;
        is_joined = words.tokens.pop_if(|token| token.word == "\\").is_some();
    }
    filter(&mut words, &mut seen, rules)
}

/// Refuses what a shell makes more of than words of one command.
fn check_shell(words: &Tokens<'_>) -> Result<(), TextError> {
    let is_of_shell = |word: &str| word.contains([';', '&', '|', '<', '>', '`', '(', ')']);
    match words.tokens.iter().position(|token| is_of_shell(token.word)) {
        None => Ok(()),
        Some(at) => Err(words.unfit_at(
            at,
            "no shell runs here: write one command a line, without `&&`, `||`, `;`, `|`, `&` or \
             a redirection",
        )),
    }
}

/// Whether a command is about qdiscs, which filters of ingress need and rules do not.
fn is_qdisc(words: &Tokens<'_>) -> bool {
    let mut words = words.tokens.iter().map(|token| token.word).skip_while(|word| *word == "sudo");
    words.next() == Some("tc") && words.next() == Some("qdisc")
}

/// Passes over a command about qdiscs that leaves the filters as they are.
fn qdisc(words: &Tokens<'_>, seen: &Seen) -> Result<(), TextError> {
    let at = words.tokens.iter().take_while(|token| token.word != "qdisc").count() + 1;
    match words.tokens.get(at).map_or("", |token| token.word) {
        "add" | "replace" | "show" | "ls" => Ok(()),
        "del" if seen.lowest.is_empty() => Ok(()),
        "del" => Err(words.unfit_at(
            at,
            "a qdisc is deleted behind filters, which it may take along: convert what is added \
             behind it alone",
        )),
        _ => Err(words.unfit_at(
            at,
            "of `tc qdisc` only `add`, `replace`, `show`, `ls` and `del` are passed over: leave \
             this out",
        )),
    }
}

/// Converts the filter whose words these are; there may be none.
fn filter(words: &mut Tokens<'_>, seen: &mut Seen, rules: &mut Rules<'_>) -> Result<(), TextError> {
    if words.is_at_end() {
        return Ok(());
    }
    if is_qdisc(words) {
        return qdisc(words, seen);
    }
    let mut filter = Filter::default();
    let printed = head(words, &mut filter, seen)?;
    if printed && !words.tokens.iter().any(|token| token.word == "handle") {
        // The line that `tc filter show` prints before the filters of a priority.
        return Ok(());
    }
    while !words.is_at_end() {
        match words.next() {
            "action" => filter.actions(words)?,
            key => filter.key(words, key)?,
        }
    }
    let missing = || words.unfit("no action: add `action drop`, or another");
    let action = filter.action.take().ok_or_else(missing)?;
    filter.finish();
    let priority = filter.priority.filter(|&given| given > 0).unwrap_or_else(|| {
        seen.lowest.get(&filter.chain).map_or(PRIORITY_FIRST, |lowest| lowest.saturating_sub(1))
    });
    let lowest = seen.lowest.entry(filter.chain).or_insert(priority);
    *lowest = priority.min(*lowest);
    let priority = words.priority(priority)?;
    if filter.goto.is_some_and(|to| to <= filter.chain) {
        return Err(words.unfit("`goto chain` goes back, or stays: here rules jump forward alone"));
    }
    let mask = filter.items.0.iter().map(|item| (item.item, item.mask)).collect();
    let masks = seen.masks.entry((filter.chain, priority)).or_default();
    if masks.last() != Some(&mask) {
        if masks.contains(&mask) {
            return Err(words.unfit(
                "tc tries filters of one prio mask by mask: put those with the same keys and masks \
                 one behind the other",
            ));
        }
        masks.push(mask);
    }
    for what in &filter.aside {
        rules.comment(words.line(), what);
    }
    rules.rule((filter.chain, priority), &filter.items, &action);
    Ok(())
}

/// The words up to `flower`; whether they are those of `tc filter show`.
fn head(words: &mut Tokens<'_>, filter: &mut Filter, seen: &mut Seen) -> Result<bool, TextError> {
    if words.peek() == "sudo" {
        words.next();
    }
    let printed = words.next() == "filter";
    if !printed && words.next() != "filter" {
        return Err(words.expected("`tc filter add`, or `filter` as tc prints it"));
    }
    if !printed && !matches!(words.next(), "add" | "replace") {
        return Err(words.expected("`add`"));
    }
    loop {
        match words.next() {
            "flower" => return Ok(printed),
            "dev" => {
                let name = words.next();
                if seen.device.get_or_insert_with(|| name.to_owned()) != name {
                    return Err(words.unfit("another device: convert the filters of one at a time"));
                }
            }
            "ingress" => {}
            "parent" => match words.next() {
                "ffff:" | "ffff:fff2" => {}
                _ => return Err(words.not_supported("filters that are not of ingress")),
            },
            "egress" | "root" | "block" => {
                return Err(words.not_supported("filters that are not of ingress"));
            }
            "protocol" => filter.types = ether_type(words)?.into_iter().collect(),
            "prio" | "pref" | "priority" => {
                filter.priority = Some(words.number("prio", u16::MAX.into())? as u64);
            }
            "chain" => filter.chain = words.number("chain", u32::MAX.into())? as u32,
            "handle" => {
                words.next();
            }
            "u32" | "matchall" | "basic" | "bpf" | "fw" | "cgroup" | "flow" | "route" => {
                return Err(words.expected("`flower`: other filters have no equivalent"));
            }
            _ => return Err(words.expected("`flower`, or a word that may stand before it")),
        }
    }
}

/// A type of Ethernet; `None` for all of them.
fn ether_type(words: &mut Tokens<'_>) -> Result<Option<u128>, TextError> {
    let word = words.next();
    Ok(match word.to_ascii_lowercase().as_str() {
        "all" => None,
        "ip" | "ipv4" => Some(IPV4),
        "ipv6" => Some(IPV6),
        "arp" => Some(0x0806),
        "802.1q" => Some(0x8100),
        "802.1ad" => Some(0x88a8),
        _ => Some(words.number_of(word, 16, "protocol", 0xffff)?),
    })
}

impl Filter {
    fn key(&mut self, words: &mut Tokens<'_>, key: &str) -> Result<(), TextError> {
        if let Some((name, behind)) = ASIDE.iter().find(|(name, _)| *name == key) {
            words.at += *behind;
            if matches!(*name, "skip_sw" | "skip_hw") {
                self.aside.push(format!("{name} has no equivalent: rules are the card's"));
            }
            return Ok(());
        }
        match key {
            "chain" => self.chain = words.number("chain", u32::MAX.into())? as u32,
            "src_mac" | "dst_mac" => self.mac(words, &key[..3])?,
            "eth_type" => self.add_type(words, 0)?,
            "vlan_ethtype" => self.add_type(words, 1)?,
            "cvlan_ethtype" => self.add_type(words, 2)?,
            "vlan_id" | "cvlan_id" => self.tag(words, key, "vid", 0xfff)?,
            "vlan_prio" | "cvlan_prio" => self.tag(words, key, "pcp", 7)?,
            "ip_proto" => self.ip_proto(words)?,
            "ip_tos" => {
                let name = if self.ip(words)? == Item::Ipv6 { "tc" } else { "tos" };
                self.masked(words, (self.ip(words)?, name), 16, key)?;
            }
            "ip_ttl" => {
                let name = if self.ip(words)? == Item::Ipv6 { "hop" } else { "ttl" };
                self.masked(words, (self.ip(words)?, name), 10, key)?;
            }
            "src_ip" | "dst_ip" => {
                let ip = self.ip(words)?;
                let (value, mask) = words.prefix(ip, key)?;
                self.items.set(ip, &key[..3], value, mask);
            }
            "src_port" | "dst_port" => self.port(words, key)?,
            "tcp_flags" => {
                let header = self.header(words, &[Item::Tcp], key)?;
                self.masked(words, (header, "flags"), 16, key)?;
            }
            "type" | "code" => {
                let header = self.header(words, &[Item::Icmp, Item::Icmp6], key)?;
                self.masked(words, (header, key), 10, key)?;
            }
            "" => return Err(words.expected("a key of flower, or `action`")),
            _ => return Err(words.not_supported(key)),
        }
        Ok(())
    }

    /// The IP version that the types ask for.
    fn ip(&self, words: &Tokens<'_>) -> Result<Item, TextError> {
        match self.types.last() {
            Some(&IPV4) => Ok(Item::Ipv4),
            Some(&IPV6) => Ok(Item::Ipv6),
            _ => Err(words.unfit(
                "neither IPv4 nor IPv6: say `protocol ip` or `ipv6`, or `vlan_ethtype` before it",
            )),
        }
    }

    /// The transport header that `ip_proto` asks for, one of those that have this key.
    fn header(&self, words: &Tokens<'_>, have: &[Item], key: &str) -> Result<Item, TextError> {
        let header = self.protocol.and_then(transport);
        header.filter(|header| have.contains(header)).ok_or_else(|| {
            let names: Vec<&str> = have.iter().map(|item| item.name()).collect();
            words.unfit(format!("{key} needs `ip_proto {}` before it", names.join("` or `")))
        })
    }

    /// The type of what follows so many tags; `tc filter show` says again what `protocol` said.
    fn add_type(&mut self, words: &mut Tokens<'_>, tags: usize) -> Result<(), TextError> {
        let found = ether_type(words)?;
        let is_tag = |at: usize| self.types.get(at).is_some_and(|it| TAG_TYPES.contains(it));
        match found {
            Some(found) if self.types.get(tags) == Some(&found) => Ok(()),
            Some(found) if tags == 0 && self.types.last() == Some(&found) => Ok(()),
            Some(found) if self.types.len() == tags && (0..tags).all(is_tag) => {
                self.types.push(found);
                Ok(())
            }
            // Behind the tags that `protocol` names, tc prints the type of what they carry.
            Some(found) if tags == 0 && is_tag(0) => {
                self.types.push(found);
                Ok(())
            }
            _ => Err(words.unfit("the type does not fit `protocol`")),
        }
    }

    fn mac(&mut self, words: &mut Tokens<'_>, name: &str) -> Result<(), TextError> {
        let word = words.next();
        let (address, mask) = word.split_once('/').map_or((word, None), |(a, m)| (a, Some(m)));
        let value = words.mac_of(address, "address")?;
        let mask = match mask {
            None => ones(48),
            Some(mask) if mask.contains(':') => words.mac_of(mask, "mask")?,
            Some(len) => {
                let len = words.number_of(len, 10, "mask: bits", 48)? as u32;
                ones(48) & !ones(48 - len)
            }
        };
        self.items.set(Item::Eth, name, value, mask);
        Ok(())
    }

    /// A field of the outer tag, or of the inner one (`cvlan`).
    fn tag(
        &mut self,
        words: &mut Tokens<'_>,
        key: &str,
        field: &str,
        max: u128,
    ) -> Result<(), TextError> {
        let place = usize::from(key.starts_with('c'));
        let value = words.number(key, max)?;
        if !self.types.get(place).is_some_and(|it| TAG_TYPES.contains(it)) {
            let before = ["protocol 802.1Q", "vlan_ethtype 802.1Q"][place];
            return Err(words.unfit(format!("{key} needs `{before}` before it")));
        }
        self.items.set_at((Item::Vlan, place), field, value, max);
        Ok(())
    }

    fn ip_proto(&mut self, words: &mut Tokens<'_>) -> Result<(), TextError> {
        self.ip(words)?;
        let word = words.next();
        self.protocol = Some(match word {
            "tcp" => 6,
            "udp" => 17,
            "sctp" => 132,
            "icmp" => 1,
            "icmpv6" => 58,
            _ => words.number_of(word, 16, "ip_proto", 0xff)?,
        });
        Ok(())
    }

    fn port(&mut self, words: &mut Tokens<'_>, key: &str) -> Result<(), TextError> {
        let header = self.header(words, &[Item::Tcp, Item::Udp], key)?;
        let word = words.next();
        let port = |text: &str| words.number_of(text, 10, key, u16::MAX.into());
        match (word.split_once('-'), word.split_once('/')) {
            (Some((first, last)), _) => {
                let (first, last) = (port(first)? as u16, port(last)? as u16);
                if first >= last {
                    return Err(words.unfit(format!("{key}: the range ends where it begins")));
                }
                self.items.range(header, &key[..3], first, last);
            }
            (None, Some((value, mask))) => {
                // tc reads it as hexadecimal; with 0x nobody reads it otherwise.
                let Some(mask) = mask.strip_prefix("0x") else {
                    return Err(words.unfit(format!("{key}: write the mask with 0x")));
                };
                let mask = words.number_of(mask, 16, key, u16::MAX.into())?;
                self.items.set(header, &key[..3], port(value)?, mask);
            }
            (None, None) => self.items.is(header, &key[..3], port(word)?),
        }
        Ok(())
    }

    /// A value to this base, and behind a slash a mask, which is hexadecimal.
    fn masked(
        &mut self,
        words: &mut Tokens<'_>,
        (item, name): (Item, &str),
        base: u32,
        key: &str,
    ) -> Result<(), TextError> {
        let word = words.next();
        let (value, mask) = word.split_once('/').map_or((word, None), |(v, m)| (v, Some(m)));
        let max = item.field(name).map_or(0, |field| field.ones());
        let value = words.number_of(value, base, key, max)?;
        let mask = mask.map_or(Ok(max), |mask| words.number_of(mask, 16, key, max))?;
        self.items.set(item, name, value, mask);
        Ok(())
    }

    /// One action, `action` was read.
    fn actions(&mut self, words: &mut Tokens<'_>) -> Result<(), TextError> {
        if words.peek() == "order" {
            words.next();
            words.next();
        }
        if words.peek() == "gact" {
            words.next();
            if words.peek() == "action" {
                words.next();
            }
        }
        let action = match words.next() {
            "drop" | "shot" => "drop".to_owned(),
            "goto" if words.next() == "chain" => {
                let to = words.number("chain", u32::MAX.into())? as u32;
                self.goto = Some(to);
                format!("jump group {to}")
            }
            // To the host, as what no filter matches: testpmd's `rss` spreads so.
            "pass" | "ok" if self.action.is_none() => "rss".to_owned(),
            "pass" | "ok" => return self.aside(words),
            "skbedit" => skbedit(words)?,
            "mirred" => {
                let reason = "mirred names an interface, and rules know queues alone";
                return Err(words.unfit(reason));
            }
            "" => return Err(words.expected("an action")),
            name => return Err(words.not_supported(format!("action {name}"))),
        };
        if let Some(first) = self.action.replace(action) {
            return Err(words.unfit(format!("two fates: `{first}` and this one")));
        }
        self.aside(words)
    }

    /// What may stand behind an action and changes nothing.
    fn aside(&mut self, words: &mut Tokens<'_>) -> Result<(), TextError> {
        if words.peek() == "random" {
            let printed = ["random", "type", "none", "pass", "val", "0"];
            if !printed.iter().all(|word| words.next() == *word) {
                return Err(words.not_supported("random actions"));
            }
        }
        while let Some((_, behind)) = PRINTED.iter().find(|(name, _)| *name == words.peek()) {
            words.at += 1 + *behind;
        }
        match words.peek() {
            "" | "action" => Ok(()),
            _ => {
                words.next();
                Err(words.expected("`action` or the end of the filter"))
            }
        }
    }

    /// Adds the headers that the filter asks for without naming a field of theirs.
    fn finish(&mut self) {
        let tags = self.types.iter().take(2).take_while(|it| TAG_TYPES.contains(it)).count();
        for (at, &found) in self.types.iter().enumerate() {
            let field = if at == 0 { "type" } else { "inner_type" };
            match found {
                _ if at < tags => {
                    self.items.item(Item::Vlan, at);
                    let name = if found == TAG_TYPES[0] { "802.1Q" } else { "802.1ad" };
                    self.aside.push(format!("{name} is any tag here: its type is not compared"));
                }
                _ if at == 0 => self.items.is(Item::Eth, field, found),
                _ => {
                    let item = (Item::Vlan, at - 1);
                    self.items.set_at(item, field, found, 0xffff);
                }
            }
        }
        let ip = match self.types.last() {
            Some(&IPV4) => Item::Ipv4,
            Some(&IPV6) => Item::Ipv6,
            _ if self.items.0.is_empty() => Item::Eth,
            _ => return,
        };
        self.items.item(ip, 0);
        let header = self.protocol.and_then(transport);
        let named = self.items.0.iter().any(|item| Some(item.item) == header);
        if let Some(protocol) = self.protocol.filter(|_| !named) {
            self.items.is(ip, "proto", protocol);
        }
    }
}

/// `skbedit queue_mapping N`, and how it goes on.
fn skbedit(words: &mut Tokens<'_>) -> Result<String, TextError> {
    match words.next() {
        "queue_mapping" => {}
        word => return Err(words.not_supported(format!("skbedit {word}"))),
    }
    let queue = words.number("queue_mapping", u16::MAX.into())?;
    match words.peek() {
        "pipe" | "pass" | "ok" => words.at += 1,
        _ => {}
    }
    Ok(format!("queue index {queue}"))
}
