//! Snapshots of a running card's counters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use niclab_control::{CardCounters, Client, ControlError, FlowDone, ListedRule, Request, Response};

use crate::nic::rule_counters::counts;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A look at the rules takes the card some time: it is idle of that for so many times as long.
const REST: u32 = 10;

/// A snapshot of a card's counters.
#[derive(Clone, Debug)]
pub struct CardSnapshot {
    pub at: Instant,
    pub counters: CardCounters,
    /// A program processes frames in place of rules.
    pub has_program: bool,
    /// The last look at the rules, and the one before it.
    pub rules: Arc<RuleSnapshot>,
    pub rules_before: Option<Arc<RuleSnapshot>>,
}

/// A snapshot of rule counters. A card with many rules is polled less often.
#[derive(Clone, Debug)]
pub struct RuleSnapshot {
    pub at: Instant,
    pub rules: Vec<RuleState>,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleState {
    pub port: u16,
    pub rule: ListedRule,
    /// Frames that it has matched; `None` where it has no action `count`.
    pub hits: Option<u64>,
}

/// Polls a card.
pub struct CardPoller {
    client: Client,
    rules: Option<Arc<RuleSnapshot>>,
    rules_before: Option<Arc<RuleSnapshot>>,
    /// When the rules may be looked at again.
    rules_due: Instant,
}

impl CardPoller {
    /// Looks by this client, which has asked nothing yet.
    pub fn new(client: Client) -> CardPoller {
        let client = client.patience(PATIENCE);
        CardPoller { client, rules: None, rules_before: None, rules_due: Instant::now() }
    }

    /// Looks at all counters.
    pub fn poll(&mut self) -> Result<CardSnapshot, ControlError> {
        let Response::Counters(counters) = self.client.ask(&Request::Counters {})? else {
            return Err(ControlError::NoCard);
        };
        let at = Instant::now();
        let Response::Program { tables } =
            self.client.ask(&Request::ProgramShow { application: None })?
        else {
            return Err(ControlError::NoCard);
        };
        let rules = match self.rules.take() {
            Some(rules) if Instant::now() < self.rules_due => rules,
            last => {
                let begun = Instant::now();
                let rules = Arc::new(self.rules(counters.ports.len())?);
                self.rules_due = Instant::now() + begun.elapsed() * REST;
                self.rules_before = last;
                rules
            }
        };
        self.rules = Some(Arc::clone(&rules));
        let (has_program, rules_before) = (tables.is_some(), self.rules_before.clone());
        Ok(CardSnapshot { at, counters, has_program, rules, rules_before })
    }

    /// The rules of a card of so many ports.
    fn rules(&self, ports: usize) -> Result<RuleSnapshot, ControlError> {
        let lists: String = (0..ports).map(|port| format!("flow list {port}\n")).collect();
        // A rule that went after it was listed: once more.
        for _ in 0..2 {
            let mut rules = Vec::new();
            for done in self.flow(lists.clone())? {
                if let FlowDone::Listed { port, rules: listed } = done {
                    rules.extend(listed.into_iter().map(|rule| RuleState {
                        port,
                        rule,
                        hits: None,
                    }));
                }
            }
            match self.count(&mut rules) {
                Err(ControlError::Refused { .. }) => {}
                counted => return counted.map(|()| RuleSnapshot { at: Instant::now(), rules }),
            }
        }
        Ok(RuleSnapshot { at: Instant::now(), rules: Vec::new() })
    }

    /// Asks for the hits of rules that count.
    fn count(&self, rules: &mut [RuleState]) -> Result<(), ControlError> {
        let counting = |of: &&mut RuleState| counts(&of.rule.shape);
        let query = |of: &mut RuleState| format!("flow query {} {} count\n", of.port, of.rule.rule);
        let queries: String = rules.iter_mut().filter(counting).map(query).collect();
        if queries.is_empty() {
            return Ok(());
        }
        let answers = self.flow(queries)?;
        for (of, done) in rules.iter_mut().filter(counting).zip(answers) {
            if let FlowDone::Counted { packets, .. } = done {
                of.hits = Some(packets);
            }
        }
        Ok(())
    }

    fn flow(&self, command: String) -> Result<Vec<FlowDone>, ControlError> {
        match self.client.ask(&Request::Flow { command })? {
            Response::Flow { done, .. } => Ok(done),
            _ => Err(ControlError::NoCard),
        }
    }
}
