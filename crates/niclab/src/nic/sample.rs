//! One look at all counters of a card, for its metrics.

use niclab_card::{Card, ProgramView};
use niclab_control::{CardCounters, FlowDone, ListedRule, TableState};
use niclab_nic::rule::session::Record;

use super::rule_counters::counts;
use super::table_contents;
use crate::rules;

/// A port with more rules has no counters of single rules: no database of metrics wants as many
/// series, and to list them takes long.
const RULES_MAX: u32 = 1_000;

/// Counters of a program that are read, over all of its arrays.
const COUNTERS_MAX: usize = 1_000;

/// The counters of a card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardSample {
    pub counters: CardCounters,
    /// A program of the card's own decides about frames.
    pub has_program: bool,
    /// Counters of each rule that counts.
    pub rules: Vec<RuleCounts>,
    /// Rules of ports that have too many for [`rules`](CardSample::rules).
    pub rules_left_out: u64,
    pub programs: Vec<ProgramCounts>,
}

/// The counters of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCounts {
    pub port: u16,
    pub rule: u32,
    pub group: u32,
    pub priority: u32,
    pub packets: u64,
    /// With FCS.
    pub bytes: u64,
}

/// Tables and counters of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCounts {
    /// Empty for the program of the card itself.
    pub application: String,
    pub tables: Vec<TableState>,
    /// Array, index, packets and bytes.
    pub counters: Vec<(String, usize, u64, u64)>,
    /// Further counters of its arrays.
    pub counters_left_out: u64,
}

/// Looks at a card.
pub fn sample(card: &mut Card) -> CardSample {
    let counters = card.counters();
    let of_card = card.program_view().map(|look| program("", &look));
    let has_program = of_card.is_some();
    let of_applications =
        card.applications().map(|of| program(of.name, &ProgramView::new(of.pipeline)));
    let programs: Vec<ProgramCounts> = of_card.into_iter().chain(of_applications).collect();
    let is_listed = |rules: u32| rules <= RULES_MAX;
    let ports = (0..).zip(&counters.ports);
    let ports: Vec<u16> =
        ports.filter(|(_, of)| of.rules > 0 && is_listed(of.rules)).map(|(port, _)| port).collect();
    let left_out = counters.ports.iter().map(|of| of.rules).filter(|rules| !is_listed(*rules));
    let rules_left_out = left_out.map(u64::from).sum();
    CardSample { rules: rules_of(card, &ports), rules_left_out, counters, has_program, programs }
}

/// The counters of the rules of these ports that count.
fn rules_of(card: &mut Card, ports: &[u16]) -> Vec<RuleCounts> {
    let lists: String = ports.iter().map(|port| format!("flow list {port}\n")).collect();
    let mut listed: Vec<(u16, ListedRule)> = Vec::new();
    for (port, record) in card.apply(&lists).unwrap_or_default() {
        if let FlowDone::Listed { rules, .. } = rules::done(port, record) {
            let counting = rules.into_iter().filter(|rule| counts(&rule.shape));
            listed.extend(counting.map(|rule| (port, rule)));
        }
    }
    let query =
        |(port, rule): &(u16, ListedRule)| format!("flow query {port} {} count\n", rule.rule);
    let queries: String = listed.iter().map(query).collect();
    let counted = card.apply(&queries).unwrap_or_default().into_iter();
    let counts = listed.into_iter().zip(counted).filter_map(|((port, of), (_, record))| {
        let ListedRule { rule, group, priority, .. } = of;
        let Record::Counted { rule: answered, counts } = record else { return None };
        let (packets, bytes) = (counts.packets, counts.bytes);
        let is_same = answered == rule;
        is_same.then_some(RuleCounts { port, rule, group, priority, packets, bytes })
    });
    counts.collect()
}

fn program(application: &str, look: &ProgramView<'_>) -> ProgramCounts {
    let arrays = &look.program().counters;
    let all = (0..).zip(arrays).flat_map(|(array, of)| {
        let counter = move |index: usize| {
            let (packets, bytes) = look.counter(array, index as u64).unwrap_or_default();
            (of.name.clone(), index, packets, bytes)
        };
        (0..of.len).map(counter)
    });
    let counters: Vec<_> = all.take(COUNTERS_MAX).collect();
    let there: usize = arrays.iter().map(|of| of.len).sum();
    ProgramCounts {
        application: application.to_owned(),
        tables: table_contents::states(look),
        counters_left_out: (there - counters.len()) as u64,
        counters,
    }
}

#[cfg(test)]
mod tests {
    use niclab_card::{CardConfig, PortName};

    use super::*;

    #[test]
    fn rules_that_count_are_listed_and_the_others_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let port: PortName =
            format!("pcap:out={}", directory.path().join("out.pcap").display()).parse().unwrap();
        let rules = "flow create 0 ingress pattern eth / end actions count / drop / end\n\
                     flow create 0 priority 2 ingress pattern ipv4 / end actions drop / end\n\
                     flow create 0 group 1 priority 3 ingress pattern ipv6 / end actions count / \
                     drop / end\n";
        let mut card = Card::start(&CardConfig::new(vec![port], 1, vec![0]), rules).unwrap();
        let observed = sample(&mut card);
        let of = |rule, group, priority| RuleCounts {
            port: 0,
            rule,
            group,
            priority,
            packets: 0,
            bytes: 0,
        };
        assert_eq!(observed.rules, [of(0, 0, 0), of(2, 1, 3)]);
        let port = &observed.counters.ports[0];
        assert_eq!((port.rules, port.rules_created, port.rules_destroyed), (3, 3, 0));
        assert_eq!((observed.rules_left_out, observed.has_program), (0, false));
        // To look changes nothing, and what is refused is counted.
        card.apply("flow destroy 0 rule 7\n").unwrap_err();
        card.apply("flow update 0 1 actions count / drop / end\nflow destroy 0 rule 0\n").unwrap();
        let observed = sample(&mut card);
        let port = &observed.counters.ports[0];
        let operations = [port.rules_created, port.rules_updated, port.rules_destroyed];
        assert_eq!((operations, observed.counters.rule_texts_refused), ([3, 1, 1], 1));
        assert_eq!(observed.rules, [of(1, 0, 2), of(2, 1, 3)]);
        let more = |rule: u32| {
            let pattern = format!("eth / ipv4 src is 10.0.{}.{} / end", rule / 256, rule % 256);
            format!("flow create 0 ingress pattern {pattern} actions count / drop / end\n")
        };
        card.apply(&(0..RULES_MAX).map(more).collect::<String>()).unwrap();
        let observed = sample(&mut card);
        assert_eq!((observed.rules.len(), observed.rules_left_out), (0, u64::from(RULES_MAX) + 2));
    }
}
