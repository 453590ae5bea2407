//! Counters of a card's rules, reported at its end.

use niclab_card::Card;
use niclab_control::FlowDone;
use niclab_nic::rule::session::Record;
use serde_json::{Value, json};

use crate::rules;

/// Rules that are told of in words; JSON has all.
const SHOWN_MAX: usize = 100;

/// Counters of the rules with the action `count`, by port; none if a program classifies frames.
pub(super) struct RuleCounters(Vec<FlowDone>);

impl RuleCounters {
    /// Asks a card of so many ports. What cannot be told is left out: it is no trouble of the card.
    pub(super) fn of(card: &mut Card, ports: usize) -> RuleCounters {
        if card.program_view().is_some() {
            return RuleCounters(Vec::new());
        }
        let lists: String = (0..ports).map(|port| format!("flow list {port}\n")).collect();
        let listed = card.apply(&lists).unwrap_or_default();
        let asked = |(port, record): &(u16, Record)| match record {
            Record::Listed(rules) => rules
                .iter()
                .filter(|rule| counts(&rule.shape))
                .map(|rule| format!("flow query {port} {} count\n", rule.rule))
                .collect(),
            _ => String::new(),
        };
        let queries: String = listed.iter().map(asked).collect();
        let counted = card.apply(&queries).unwrap_or_default();
        RuleCounters(counted.into_iter().map(|(port, record)| rules::done(port, record)).collect())
    }

    /// In words, a line each.
    pub(super) fn words(&self) -> String {
        let text =
            |done: &FlowDone| Some(format!("port {}: {}\n", done.port(), rules::output(done)?));
        let shown: String = self.0.iter().take(SHOWN_MAX).filter_map(text).collect();
        match self.0.len().saturating_sub(SHOWN_MAX) {
            0 => shown,
            more => {
                let more = rules::plural(more, "rule", "rules");
                format!("{shown}and {more} more: --json has all\n")
            }
        }
    }

    /// As JSON: port, rule, packets, and bytes with FCS.
    pub(super) fn json(&self) -> Value {
        let text = |done: &FlowDone| match done {
            FlowDone::Counted { port, rule, packets, bytes } => Some(json!({
                "port": port, "rule": rule, "packets": packets, "bytes": bytes
            })),
            _ => None,
        };
        self.0.iter().filter_map(text).collect()
    }
}

/// Whether a rule of this shape has the action.
pub(super) fn counts(shape: &str) -> bool {
    let actions = shape.split_once("=>").map_or("", |(_, actions)| actions);
    actions.split_whitespace().any(|action| action == "COUNT")
}
