//! The figures of `niclab nic top`, as texts of cells: rates between two looks at a card.
//!
//! What the card does not know is `not known`: a counter that its port cannot have, hits of a rule
//! without the action `count`, and every rate before the second look.

use std::collections::HashMap;

use niclab_control::{CardCounters, PortCounters};
use niclab_lab::words;

use super::snapshot::{CardSnapshot, RuleSnapshot};
use crate::output::one_line;

/// The text of a cell without a known value.
const NOT_KNOWN: &str = "not known";

/// The order of rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleOrder {
    /// Those with most hits a second first.
    #[default]
    HitRate,
    /// Those with most hits first.
    Hits,
    /// By port and number.
    Number,
}

impl RuleOrder {
    /// The one after it.
    pub fn next(self) -> RuleOrder {
        match self {
            RuleOrder::HitRate => RuleOrder::Hits,
            RuleOrder::Hits => RuleOrder::Number,
            RuleOrder::Number => RuleOrder::HitRate,
        }
    }

    fn name(self) -> &'static str {
        match self {
            RuleOrder::HitRate => "hits/s",
            RuleOrder::Hits => "hits",
            RuleOrder::Number => "number",
        }
    }
}

/// All cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopView {
    /// Port, name, received packets and bits a second, sent ones, missed and dropped packets.
    pub ports: Vec<[String; 8]>,
    /// Port, queue, core, packets, bits and dropped packets a second.
    pub queues: Vec<[String; 6]>,
    /// Core, busy and processor time, packets a second of its function.
    pub cores: Vec<[String; 4]>,
    /// Port, number, group, priority, hits a second, hits, items and actions.
    pub rules: Vec<[String; 7]>,
    /// A note on the rules.
    pub rules_note: String,
}

/// The figures of the last look, with rates since the one before it.
pub fn view(now: &CardSnapshot, before: Option<&CardSnapshot>, order: RuleOrder) -> TopView {
    let seconds = before.map_or(0.0, |before| now.at.duration_since(before.at).as_secs_f64());
    let rates = Rates { before: before.map(|before| &before.counters), seconds };
    let (rules, rules_note) = rules(now, order);
    TopView {
        ports: rates.ports(&now.counters),
        queues: rates.queues(&now.counters),
        cores: rates.cores(&now.counters),
        rules,
        rules_note,
    }
}

/// The previous counters, and the time since.
struct Rates<'a> {
    before: Option<&'a CardCounters>,
    seconds: f64,
}

/// Counts a second; `None` where one of them is not known, or the card has begun anew.
fn rate(now: Option<u64>, before: Option<u64>, seconds: f64) -> Option<f64> {
    let more = now?.checked_sub(before?)?;
    (seconds > 0.0).then(|| more as f64 / seconds)
}

impl Rates<'_> {
    /// The counters of a port before.
    fn port(&self, at: usize, name: &str) -> Option<&PortCounters> {
        self.before?.ports.get(at).filter(|before| before.name == name)
    }

    fn ports(&self, counters: &CardCounters) -> Vec<[String; 8]> {
        let row = |(at, now): (usize, &PortCounters)| {
            let before = self.port(at, &now.name);
            let rate = |count: fn(&PortCounters) -> Option<u64>| {
                rate(count(now), before.and_then(count), self.seconds)
            };
            // The end of a long name finds no room.
            let state = if now.is_up { "" } else { "gone: " };
            [
                at.to_string(),
                format!("{state}{}", one_line(&now.name)),
                shown(rate(|of| Some(of.rx_frames))),
                shown(rate(|of| Some(8 * of.rx_bytes))),
                shown(rate(|of| Some(of.tx_frames))),
                shown(rate(|of| Some(8 * of.tx_bytes))),
                shown(rate(PortCounters::missed)),
                shown(rate(|of| Some(dropped(of)))),
            ]
        };
        counters.ports.iter().enumerate().map(row).collect()
    }

    fn queues(&self, counters: &CardCounters) -> Vec<[String; 6]> {
        let mut rows = Vec::new();
        for (at, port) in counters.ports.iter().enumerate() {
            let before = self.port(at, &port.name).map(|of| &of.queues);
            for (number, now) in port.queues.iter().enumerate() {
                let before = before.and_then(|queues| queues.get(number));
                let core = counters.cores.get(now.core).map(|of| of.core.to_string());
                let rate = |now, before| shown(rate(Some(now), before, self.seconds));
                rows.push([
                    at.to_string(),
                    number.to_string(),
                    core.unwrap_or_else(|| NOT_KNOWN.to_owned()),
                    rate(now.rx_frames, before.map(|of| of.rx_frames)),
                    rate(8 * now.rx_bytes, before.map(|of| 8 * of.rx_bytes)),
                    rate(now.rx_missed, before.map(|of| of.rx_missed)),
                ]);
            }
        }
        rows
    }

    fn cores(&self, counters: &CardCounters) -> Vec<[String; 4]> {
        let mut rows = Vec::new();
        for (at, now) in counters.cores.iter().enumerate() {
            let before = self.before.and_then(|of| of.cores.get(at));
            let before = before.filter(|before| before.core == now.core);
            let share = |now, before| {
                let share = rate(Some(now), before, self.seconds).map(|ns| ns / 1e9);
                share.map_or(NOT_KNOWN.to_owned(), |share| format!("{:.0} %", 100.0 * share))
            };
            rows.push([
                now.core.to_string(),
                share(now.busy_ns, before.map(|of| of.busy_ns)),
                share(now.cpu_ns, before.map(|of| of.cpu_ns)),
                shown(rate(Some(now.frames), before.map(|of| of.frames), self.seconds)),
            ]);
        }
        rows
    }
}

/// Packets of a port that the card itself has dropped.
fn dropped(of: &PortCounters) -> u64 {
    let at_queues: u64 = of.queues.iter().map(|queue| queue.rx_missed).sum();
    let outside: u64 = of.external_queues.iter().map(|queue| queue.dropped).sum();
    let by_program = of.program_drops + of.program_faults + of.program_ring_full;
    of.rule_drops + of.held_drops + of.tx_dropped + at_queues + outside + by_program
}

/// The rows of the rules, in order, and what is to be said about them.
fn rules(now: &CardSnapshot, order: RuleOrder) -> (Vec<[String; 7]>, String) {
    let before = now.rules_before.as_deref();
    let seconds = before.map_or(0.0, |of| now.rules.at.duration_since(of.at).as_secs_f64());
    let hits = |of: &RuleSnapshot| -> HashMap<(u16, u32), (String, Option<u64>)> {
        let rule = |of: &super::snapshot::RuleState| {
            ((of.port, of.rule.rule), (of.rule.shape.clone(), of.hits))
        };
        of.rules.iter().map(rule).collect()
    };
    let hits_before = before.map(hits).unwrap_or_default();
    let mut all: Vec<_> = (now.rules.rules.iter())
        .map(|of| {
            // Another rule may have got its number.
            let before = hits_before.get(&(of.port, of.rule.rule));
            let before = before.filter(|(shape, _)| *shape == of.rule.shape);
            (of, rate(of.hits, before.and_then(|(_, hits)| *hits), seconds))
        })
        .collect();
    match order {
        // What is not known comes last: `None` is less than anything else.
        RuleOrder::HitRate => all.sort_by(|(one, one_rate), (other, other_rate)| {
            let by_rate = other_rate.partial_cmp(one_rate).unwrap_or(std::cmp::Ordering::Equal);
            by_rate.then(other.hits.cmp(&one.hits))
        }),
        RuleOrder::Hits => all.sort_by_key(|(of, _)| std::cmp::Reverse(of.hits)),
        RuleOrder::Number => all.sort_by_key(|(of, _)| (of.port, of.rule.rule)),
    }
    let row = |(of, rate): (&super::snapshot::RuleState, Option<f64>)| {
        let hits = of.hits.map(|hits| words::whole(hits as f64));
        [
            of.port.to_string(),
            of.rule.rule.to_string(),
            of.rule.group.to_string(),
            of.rule.priority.to_string(),
            shown(rate),
            hits.unwrap_or_else(|| NOT_KNOWN.to_owned()),
            one_line(&of.rule.shape),
        ]
    };
    let rows = all.into_iter().map(row).collect();
    let age_s = now.at.saturating_duration_since(now.rules.at).as_secs();
    let idle = if now.has_program { "; idle: a program processes the packets" } else { "" };
    let age = if age_s > 1 { format!("; {age_s} s old") } else { String::new() };
    (rows, format!("by {}{idle}{age}", order.name()))
}

fn shown(rate: Option<f64>) -> String {
    rate.map_or(NOT_KNOWN.to_owned(), short)
}

/// A number with three digits and the letter of its thousands.
fn short(value: f64) -> String {
    let (mut value, mut letters) = (value, ["", " k", " M", " G", " T"].iter());
    let mut letter = letters.next().copied().unwrap_or_default();
    while value >= 999.5 {
        let Some(next) = letters.next() else { break };
        (value, letter) = (value / 1_000.0, next);
    }
    let decimals = match value {
        0.0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{letter}")
}

#[cfg(test)]
pub mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use niclab_control::{CoreCounters, ListedRule, QueueCounters};

    use super::super::snapshot::RuleState;
    use super::*;

    /// Two looks, two seconds apart.
    pub fn looks() -> [CardSnapshot; 2] {
        let at = Instant::now();
        let look = |times: u64| {
            let queue = |core, packets| QueueCounters {
                core,
                rx_frames: packets * times,
                rx_bytes: 60 * packets * times,
                rx_missed: 4 * times,
            };
            let xdp = PortCounters {
                name: "xdp:va".to_owned(),
                is_up: true,
                rx_frames: 3_000_000 * times,
                rx_bytes: 180_000_000 * times,
                rx_missed: 10 * times,
                tx_frames: 5 * times,
                rule_drops: 90 * times,
                queues: vec![queue(0, 2_000_000), queue(1, 1_000_000)],
                ..PortCounters::default()
            };
            let name = "tap:nic0\u{1b}[2J".to_owned();
            let tap = PortCounters { name, tx_dropped: 2, ..PortCounters::default() };
            let core = |core| CoreCounters {
                core,
                rx_frames: 1_000 * times,
                frames: 1_000 * times,
                cpu_ns: 2_000_000_000 * times,
                busy_ns: 500_000_000 * times,
            };
            let rule = |port, rule, shape: &str, hits: Option<u64>| RuleState {
                port,
                rule: ListedRule { rule, group: 0, priority: 1, shape: shape.to_owned() },
                hits: hits.map(|hits| hits * times),
            };
            let rules = vec![
                rule(0, 0, "ETH IPV4 => DROP", None),
                rule(0, 1, "ETH IPV4 UDP => COUNT QUEUE", Some(40)),
                rule(1, 0, "ETH => COUNT DROP", Some(2_000_000)),
            ];
            let counters = CardCounters {
                ports: vec![xdp, tap],
                cores: vec![core(2), core(3)],
                ..CardCounters::default()
            };
            let at = at + Duration::from_secs(2 * (times - 1));
            let rules = Arc::new(RuleSnapshot { at, rules });
            CardSnapshot { at, counters, has_program: false, rules, rules_before: None }
        };
        let (first, mut second) = (look(1), look(2));
        second.rules_before = Some(Arc::clone(&first.rules));
        [first, second]
    }

    #[test]
    fn rates_are_between_two_looks_and_the_first_knows_none() {
        let [first, second] = looks();
        let observed = view(&second, Some(&first), RuleOrder::HitRate);
        let port = ["0", "xdp:va", "1.50 M", "720 M", "2.50", "0", "5.00", "49.0"];
        assert_eq!(observed.ports[0], port);
        // A TAP interface does not report what it missed, and its name cannot clear the screen.
        let tap = ["1", "gone: tap:nic0\\u001b[2J", "0", "0", "0", "0", NOT_KNOWN, "0"];
        assert_eq!(observed.ports[1], tap);
        assert_eq!(observed.queues[1], ["0", "1", "3", "500 k", "240 M", "2.00"]);
        assert_eq!(observed.cores[0], ["2", "25 %", "100 %", "500"]);
        let first_seen = view(&first, None, RuleOrder::HitRate);
        assert!(first_seen.ports[0][2..].iter().all(|cell| cell == NOT_KNOWN), "{first_seen:?}");
        assert!(first_seen.queues[0][3..].iter().all(|cell| cell == NOT_KNOWN), "{first_seen:?}");
        // A card that has begun anew has counted less.
        let again = view(&first, Some(&second), RuleOrder::HitRate);
        assert_eq!(again.ports[0][2], NOT_KNOWN);
    }

    #[test]
    fn rules_are_sorted_and_those_without_a_counter_come_last() {
        let [first, second] = looks();
        let of = |order| {
            let observed = view(&second, Some(&first), order);
            let shapes: Vec<String> = observed.rules.iter().map(|row| row[6].clone()).collect();
            (shapes, observed.rules_note)
        };
        let by_hits = ["ETH => COUNT DROP", "ETH IPV4 UDP => COUNT QUEUE", "ETH IPV4 => DROP"];
        assert_eq!(
            of(RuleOrder::HitRate),
            (by_hits.map(str::to_owned).into(), "by hits/s".to_owned())
        );
        assert_eq!(of(RuleOrder::Hits).0, by_hits);
        assert_eq!(of(RuleOrder::Number).0[0], "ETH IPV4 => DROP");
        let observed = view(&second, Some(&first), RuleOrder::HitRate);
        let row = ["1", "0", "0", "1", "1.00 M", "4,000,000", "ETH => COUNT DROP"];
        assert_eq!(observed.rules[0], row);
        assert_eq!(observed.rules[2][4..6], [NOT_KNOWN, NOT_KNOWN]);
        let idle = CardSnapshot { has_program: true, ..second.clone() };
        let note = view(&idle, Some(&first), RuleOrder::Hits).rules_note;
        assert_eq!(note, "by hits; idle: a program processes the packets");
        // A number that another rule has now tells nothing about its rate.
        let mut other = first.rules.rules.clone();
        other[2].rule.shape = "ETH VLAN => COUNT DROP".to_owned();
        let before = Arc::new(RuleSnapshot { at: first.at, rules: other });
        let renumbered = CardSnapshot { rules_before: Some(before), ..second };
        let observed = view(&renumbered, Some(&first), RuleOrder::Number);
        assert_eq!(observed.rules[2][4..6], [NOT_KNOWN, "4,000,000"]);
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.5, "0.50"),
            (9.996, "10.0"),
            (99.96, "100"),
            (999.4, "999"),
            (999.6, "1.00 k"),
            (14_880_952.0, "14.9 M"),
            (1e12, "1.00 T"),
            (2e16, "20000 T"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
