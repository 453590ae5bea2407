//! Facts about the interfaces of a wire, and the counters of their drivers.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use super::cards::pci_id_of_interface;
use super::ethtool::Card;
use super::ethtool::info::{Driver, Rings, Statistic};
use super::ethtool::rss::RssConfig;
use super::link::Link;
use super::name::{Ends, Path};
use super::ring::{RX_SLOTS, TX_SLOTS};
use super::stamp_setting::Stamping;
use super::{End, port_gbps, tune};
use crate::face::Fact;

/// Entries of an indirection table that are told one by one.
const ENTRIES_TOLD_MAX: usize = 16;

/// Those of a wire, in reading order.
pub(super) fn of_wire(
    ends: &Ends,
    path: Path,
    (tester, stamping): (Option<&End>, &Stamping),
    device: &End,
) -> Vec<Fact> {
    let fact = |name: &str, value: String| Fact { name: name.into(), value };
    let far = &device.link;
    let kind = match (far.is_veth(), tester) {
        (true, Some(_)) => "a pair of virtual interfaces of the kernel, without a card",
        (false, Some(_)) => "two interfaces of this machine, joined by a cable",
        (_, None) => "an interface; the tester is on another host",
    };
    let mut facts = vec![fact("kind", kind.into()), fact("interface under test", far.name.clone())];
    facts.extend(of_card(device, ""));
    if let Some(tester) = tester {
        facts.push(fact("interface of the tester", tester.link.name.clone()));
        facts.extend(of_card(tester, " of the tester"));
        facts.extend(stamping.facts());
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease");
    let (packet_path, ring) = match path {
        Path::Packet => (
            "AF_PACKET, TPACKET_V2 rings, queueing disciplines bypassed",
            format!("{RX_SLOTS} frames of all queues together, fewer of long ones"),
        ),
        Path::Tc => (
            "AF_PACKET, TPACKET_V2 rings behind the filters of tc's ingress, of IPv4 and IPv6; the \
             tester's bypass queueing disciplines",
            format!("{RX_SLOTS} frames of each protocol, of all queues together"),
        ),
        Path::Xdp => (
            "AF_XDP of the function; AF_PACKET of the tester, queueing disciplines bypassed",
            format!("{} frames of each queue", niclab_port::xdp::FRAMES / 4),
        ),
    };
    facts.extend([
        fact("MTU", tester.map_or(far.mtu, |near| far.mtu.min(near.link.mtu)).to_string()),
        fact("kernel", release.map_or_else(|_| "unknown".into(), |text| text.trim().into())),
        fact("packet path", packet_path.into()),
        fact("receive ring", ring),
        fact("transmit ring", format!("{TX_SLOTS} frames")),
    ]);
    if far.is_veth() {
        let how = "the kernel's hash of a flow, by a secret key, chooses the queue it is sent by";
        facts.push(fact("spread over several queues", how.into()));
    }
    facts.extend(match ends {
        Ends::Veth => vec![fact("coalescing", "none: a veth pair has no interrupts".into())],
        Ends::Named { .. } | Ends::Alone(_) => {
            let near = tester.map(|tester| &tester.link);
            [far].into_iter().chain(near).filter_map(|of| tune::fact(&of.name)).collect()
        }
    });
    facts
}

/// Those of an interface that is the tester's half of a testbed.
pub(super) fn of_tester(end: &End, stamping: &Stamping) -> Vec<Fact> {
    let fact = |name: &str, value: String| Fact { name: format!("{name} of the tester"), value };
    let mut facts = vec![fact("interface", end.link.name.clone())];
    facts.extend(of_card(end, " of the tester"));
    facts.extend(stamping.facts());
    facts.push(fact("MTU", end.link.mtu.to_string()));
    facts
}

/// What the driver of an interface says, by the place that it has in the wire: `""` of the one
/// under test, `" of the tester"`. What it has not is left out.
fn of_card(end: &End, whose: &str) -> Vec<Fact> {
    let fact = |name: &str, value: String| Fact { name: format!("{name}{whose}"), value };
    let mut facts = vec![fact("driver", driver(&end.link))];
    // A virtual interface has no card, and another one may have its name in this namespace.
    let card = end.link.kind.is_none().then(|| pci_id_of_interface(&end.link.name));
    facts.extend(card.flatten().map(|id| fact("PCI id", id)));
    let speed = port_gbps(&end.link).map(|gbps| fact("speed", format!("{gbps} Gbps")));
    facts.extend(speed);
    // What cannot be asked is not known: no fact.
    let reply = end.within("asking", |link| {
        Card::open(&link.name).and_then(|mut card| tell(&mut card, &fact))
    });
    facts.extend(reply.unwrap_or_default());
    facts
}

fn tell(card: &mut Card, fact: &dyn Fn(&str, String) -> Fact) -> io::Result<Vec<Fact>> {
    let Driver { version, firmware, bus, .. } = card.driver()?;
    let texts = [("driver version", version), ("firmware", firmware), ("bus", bus)];
    let is_known = |text: &str| !text.is_empty() && text != "N/A";
    let mut facts: Vec<Fact> = texts
        .into_iter()
        .filter(|(_, text)| is_known(text))
        .map(|(name, text)| fact(name, text))
        .collect();
    if let Some(channels) = card.channels()? {
        let (now, most) = (channels.now, channels.most);
        let kinds = [
            ("combined", now.combined, most.combined),
            ("rx", now.rx, most.rx),
            ("tx", now.tx, most.tx),
        ];
        let has = kinds.iter().filter(|(.., most)| *most > 0);
        let text: Vec<String> =
            has.map(|(kind, now, most)| format!("{kind} {now} of {most}")).collect();
        facts.push(fact("card queues", text.join(", ")));
    }
    if let Some(Rings { rx, rx_most, tx, tx_most }) = card.rings()? {
        let text = format!("rx {rx} of {rx_most}, tx {tx} of {tx_most} descriptors");
        facts.push(fact("card rings", text));
    }
    if let Some(pause) = card.pause()? {
        let text = match (pause.rx, pause.tx) {
            (false, false) => "off",
            (true, false) => "obeyed",
            (false, true) => "sent",
            (true, true) => "obeyed and sent",
        };
        facts.push(fact("pause frames", text.to_owned()));
    }
    facts.push(fact("possible time stamps", card.stamp_ability()?.words()));
    if let Some(config) = card.rss_config()? {
        facts.push(fact("RSS hash", hash(&config)));
        if !config.key.is_empty() {
            facts.push(fact("RSS key", hex(&config.key)));
        }
        if !config.indirection.is_empty() {
            facts.push(fact("RSS indirection", indirection(&config.indirection)));
        }
    }
    if let Some(table) = card.rules()? {
        let text = format!("{} places, {} taken", table.places, table.taken.len());
        facts.push(fact("n-tuple rules", text));
    }
    Ok(facts)
}

/// The driver of an interface: the kind of a virtual one, else what the device tree says.
fn driver(link: &Link) -> String {
    let path = format!("/sys/class/net/{}/device/driver", link.name);
    let of_device = || fs::read_link(path).ok()?.file_name()?.to_str().map(String::from);
    link.kind.clone().or_else(of_device).unwrap_or_else(|| "unknown".into())
}

fn hash(config: &RssConfig) -> String {
    let function = match config.function {
        0 => "not reported".into(),
        1 => "toeplitz".to_owned(),
        2 => "xor".into(),
        4 => "crc32".into(),
        other => format!("number {other}"),
    };
    if config.transform == 0 { function } else { format!("{function}, symmetric") }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// How often each queue stands in a table, and the table itself where it is short.
fn indirection(table: &[u32]) -> String {
    let mut counts = BTreeMap::new();
    table.iter().for_each(|queue| *counts.entry(*queue).or_insert(0_u32) += 1);
    let (queues, entries) = (counts.len(), table.len());
    let (least, most) = (counts.values().min(), counts.values().max());
    let (least, most) = (least.copied().unwrap_or(0), most.copied().unwrap_or(0));
    let mut text = format!("{entries} entries, {queues} queues with {least} to {most} each");
    if entries <= ENTRIES_TOLD_MAX {
        let table: Vec<String> = table.iter().map(u32::to_string).collect();
        text.push_str(&format!(": {}", table.join(" ")));
    }
    text
}

/// The counters of a driver at one moment.
pub(super) struct Statistics(Vec<Statistic>);

impl Statistics {
    /// The statistics of an interface; empty if its driver has none.
    pub(super) fn of(end: &End) -> Statistics {
        let reply = end.within("reading the statistics of", |link| {
            Card::open(&link.name).and_then(|mut card| card.statistics())
        });
        Statistics(reply.unwrap_or_default())
    }

    /// The nonzero counts since `before`. Values that fell are no counters. Values with the same
    /// name are added.
    pub(super) fn since(self, before: &Statistics) -> BTreeMap<String, u64> {
        let mut counted = BTreeMap::new();
        let mut add = |statistics: &[Statistic], sign: i128| {
            for Statistic { name, value } in statistics {
                *counted.entry(name.clone()).or_insert(0) += sign * i128::from(*value);
            }
        };
        add(&self.0, 1);
        add(&before.0, -1);
        let more = |(name, count): (String, i128)| Some((name, u64::try_from(count).ok()?));
        counted.into_iter().filter_map(more).filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_told_by_what_they_grew() {
        let of = |values: &[(&str, u64)]| {
            let statistic =
                |(name, value): &(&str, u64)| Statistic { name: (*name).to_owned(), value: *value };
            Statistics(values.iter().map(statistic).collect())
        };
        let before = of(&[("rx", 5), ("same", 7), ("gauge", 9), ("twice", 1), ("twice", 2)]);
        let after =
            of(&[("rx", 8), ("same", 7), ("gauge", 3), ("twice", 2), ("twice", 4), ("new", 1)]);
        let expected = [("new", 1), ("rx", 3), ("twice", 3)];
        let expected = expected.map(|(name, count)| (name.to_owned(), count));
        assert_eq!(after.since(&before), BTreeMap::from(expected));
    }

    #[test]
    fn a_table_is_reported_in_a_line() {
        assert_eq!(indirection(&[0, 1, 0]), "3 entries, 2 queues with 1 to 2 each: 0 1 0");
        let long = [0, 1, 2, 3].repeat(32);
        assert_eq!(indirection(&long), "128 entries, 4 queues with 32 to 32 each");
    }

    #[test]
    fn a_hash_is_reported_by_its_name() {
        let of =
            |function, transform| hash(&RssConfig { function, transform, ..RssConfig::default() });
        assert_eq!([of(1, 0), of(2, 0), of(1, 1)], ["toeplitz", "xor", "toeplitz, symmetric"]);
        assert_eq!(hex(&[0x6d, 5]), "6d:05");
    }
}
