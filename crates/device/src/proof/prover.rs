//! Proof before rate: whether a port does what a rule says, by one frame that must hit it and one
//! that must miss it.
//!
//! Beside the rule under test stands one of lower priority that does the opposite, so that both
//! frames show something: a rule that drops has one to queue 0, any other has one that drops.

use std::time::{Duration, Instant};

use niclab_nic::rule::Action;
use niclab_nic::rule::item::{Item, ItemMatch};

use super::{Probes, repeated};
use crate::face::{DeviceError, ProofResult, RuleProof};
use crate::rule_case::{FrameExit, RuleDenial, WrittenRule};
use crate::rule_port::{RulePort, drain, fate, look};

/// How long a rule may take until it has its effect.
const EFFECT_MAX: Duration = Duration::from_secs(1);

/// How long a counter that shows too few frames is left alone before it is read again.
const COUNT_PAUSE: Duration = Duration::from_millis(20);

/// The group that a rule under test jumps to, where it does, behind its own.
const GROUP_BEHIND: u32 = 1 << 10;

/// Tries a rule on a port that has no rules, up to three times, and leaves the port without.
/// `next` is the number of the next frame.
///
/// # Errors
/// Those of [`RulePort::send`] and [`RulePort::receive`].
pub fn prove<P: RulePort>(
    port: &mut P,
    rule: &WrittenRule,
    next: &mut u64,
) -> Result<ProofResult, DeviceError> {
    let Some(probes) = Probes::of(&rule.items, 0) else {
        return Ok(ProofResult::NotTried("niclab has no frame for its pattern".into()));
    };
    drain(port)?;
    repeated(|| {
        let mut attempt = Attempt { port, next, made: Vec::new() };
        let result = attempt.run(rule, &probes);
        let removed = attempt.remove();
        // A late probe is no frame of the next trial.
        drain(port)?;
        match (result, removed) {
            (Ok(_), Err(why)) => Ok(ProofResult::Wrong(format!("it cannot be destroyed: {why}"))),
            (Ok(result), Ok(())) => Ok(result),
            (Err(Staging::Refused(why)), _) => Ok(ProofResult::Refused(why.to_string())),
            (Err(Staging::NotTried(why)), _) => Ok(ProofResult::NotTried(why)),
            (Err(Staging::Broken(error)), _) => Err(error),
        }
    })
}

/// Why rules of a kind are not used, if the proof says so.
pub fn fault(proof: &RuleProof) -> Option<String> {
    match &proof.result {
        ProofResult::Wrong(what) => Some(format!("accepted and wrong: {what}: {}", proof.rule)),
        ProofResult::Right { .. } | ProofResult::Refused(_) | ProofResult::NotTried(_) => None,
    }
}

/// Where a probe has to come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WantedExit {
    Queue(u16),
    AnyQueue,
    Tester,
    Nowhere,
}

impl WantedExit {
    fn is(self, exit: FrameExit) -> bool {
        match (self, exit) {
            (WantedExit::Queue(wanted), FrameExit::Queue(queue)) => wanted == queue,
            (WantedExit::AnyQueue, FrameExit::Queue(_))
            | (WantedExit::Tester, FrameExit::Tester)
            | (WantedExit::Nowhere, FrameExit::Nowhere) => true,
            _ => false,
        }
    }

    fn text(self) -> String {
        match self {
            WantedExit::Queue(queue) => format!("has to come to queue {queue}"),
            WantedExit::AnyQueue => "has to come to a queue".into(),
            WantedExit::Tester => "has to go back to the tester".into(),
            WantedExit::Nowhere => "has to be dropped".into(),
        }
    }
}

fn text(exit: FrameExit) -> String {
    match exit {
        FrameExit::Queue(queue) => format!("came to queue {queue}"),
        FrameExit::Tester => "went back to the tester".into(),
        FrameExit::Nowhere => "came out nowhere".into(),
    }
}

/// Why an attempt has no result.
enum Staging {
    /// The device, or niclab, refuses the rule itself.
    Refused(RuleDenial),
    /// One of those around it is refused, or no frame could be sent.
    NotTried(String),
    /// The port is broken.
    Broken(DeviceError),
}

impl From<DeviceError> for Staging {
    fn from(error: DeviceError) -> Staging {
        Staging::Broken(error)
    }
}

/// The rules around the one to be proven, and where its frames have to come out then.
struct Surroundings {
    hit: WantedExit,
    miss: WantedExit,
    /// Those of the rule: it jumps to a group of its own.
    actions: Vec<Action>,
}

/// Frames that were sent to hit a rule, and those of them that came out as hits.
#[derive(Default)]
struct Hits {
    sent: u64,
    fitting: u64,
}

/// One attempt.
struct Attempt<'p, P: RulePort> {
    port: &'p mut P,
    next: &'p mut u64,
    /// The rules, oldest first.
    made: Vec<P::Id>,
}

impl<P: RulePort> Attempt<'_, P> {
    fn run(&mut self, rule: &WrittenRule, probes: &Probes) -> Result<ProofResult, Staging> {
        let Surroundings { hit, miss, actions } = self.surround(rule)?;
        // Those around it have to work first: a card that accepts them and does nothing may do so
        // with every rule.
        let alone = self.outcome(&probes.hit, None, (miss, miss), &mut Hits::default())?;
        if let ProofResult::Wrong(what) = alone {
            let around = "a rule for every frame beside it is accepted and has no effect";
            return Ok(ProofResult::Wrong(format!("{around}: {what}")));
        }
        let id = self.port.create(&WrittenRule { actions, ..rule.clone() });
        let id = id.map_err(|denial| match denial {
            RuleDenial::Niclab(why) => Staging::NotTried(why),
            refused => Staging::Refused(refused),
        })?;
        self.made.push(id);
        let mut hits = Hits::default();
        let result = self.outcome(&probes.hit, probes.miss.as_deref(), (hit, miss), &mut hits)?;
        match result {
            ProofResult::Right { .. } if rule.actions.contains(&Action::Count) => {
                Ok(self.counted(id, &hits).unwrap_or(result))
            }
            result => Ok(result),
        }
    }

    /// What a rule's counter has wrong after these frames; some cards tell it late.
    fn counted(&mut self, id: P::Id, hits: &Hits) -> Option<ProofResult> {
        let begun = Instant::now();
        loop {
            match self.port.counted(id) {
                // A frame that comes out too late to be a hit is counted, too.
                Ok((frames, _)) if (hits.fitting..=hits.sent).contains(&frames) => return None,
                Ok(_) if begun.elapsed() < EFFECT_MAX => self.port.wait(COUNT_PAUSE),
                Ok((frames, _)) => {
                    let hits = hits.fitting;
                    let what = format!("its counter says {frames} frames after {hits} that hit it");
                    return Some(ProofResult::Wrong(what));
                }
                Err(denial) => {
                    let what = format!("its counter cannot be read: {denial}");
                    return Some(ProofResult::Wrong(what));
                }
            }
        }
    }

    /// Creates a rule of every frame.
    fn around(
        &mut self,
        what: &str,
        (group, priority): (u32, u32),
        action: Action,
    ) -> Result<(), Staging> {
        let items = vec![ItemMatch::any(Item::Eth)];
        let rule = WrittenRule { group, priority, items, actions: vec![action] };
        let id = self.port.create(&rule);
        let refused = |why| Staging::NotTried(format!("{what} is refused: {why}"));
        self.made.push(id.map_err(refused)?);
        Ok(())
    }

    /// Creates the rules around the one to be proven.
    fn surround(&mut self, rule: &WrittenRule) -> Result<Surroundings, Staging> {
        if rule.group > 0 {
            self.around("the jump to its group", (0, 0), Action::Jump(rule.group))?;
        }
        let lower = rule.priority.checked_add(1);
        let lower = lower.ok_or_else(|| Staging::NotTried("there is no lower priority".into()))?;
        let below = (rule.group, lower);
        let (hit, miss) = match fate(&rule.actions) {
            Some(Action::Drop) => {
                self.around("a rule of lower priority", below, Action::Queue(0))?;
                (WantedExit::Nowhere, WantedExit::Queue(0))
            }
            fate => {
                self.around("a rule of lower priority that drops", below, Action::Drop)?;
                let wanted = match fate {
                    Some(Action::Queue(queue)) => WantedExit::Queue(*queue),
                    Some(Action::Port(_)) => WantedExit::Tester,
                    _ => WantedExit::AnyQueue,
                };
                (wanted, WantedExit::Nowhere)
            }
        };
        let mut actions = rule.actions.clone();
        for action in &mut actions {
            if let Action::Jump(group) = action {
                *group = rule.group.saturating_add(GROUP_BEHIND);
                self.around("a rule behind its jump", (*group, 0), Action::Queue(0))?;
            }
        }
        Ok(Surroundings { hit, miss, actions })
    }

    /// Sends the frames until they come out where they have to, or the time is over.
    fn outcome(
        &mut self,
        hitting: &[u8],
        missing: Option<&[u8]>,
        (hit, miss): (WantedExit, WantedExit),
        hits: &mut Hits,
    ) -> Result<ProofResult, Staging> {
        let begun = Instant::now();
        loop {
            let exit = self.look(hitting)?;
            hits.sent += 1;
            hits.fitting += u64::from(hit.is(exit));
            let other = missing.map(|frame| self.look(frame)).transpose()?;
            let is_hit = hit.is(exit);
            let is_miss = other.is_none_or(|other| miss.is(other));
            let since = begun.elapsed();
            if is_hit && is_miss {
                // Looking takes two looks at least, where one is for a frame that does not come.
                let late_ns = since.saturating_sub(3 * self.port.look()).as_nanos() as u64;
                return Ok(ProofResult::Right { late_ns });
            }
            if since > EFFECT_MAX.min(self.port.effect_max()) {
                let (frame, wanted, exit) = match (is_hit, other) {
                    (true, Some(other)) => ("must miss it", miss, other),
                    _ => ("must hit it", hit, exit),
                };
                let (wanted, exit) = (wanted.text(), text(exit));
                return Ok(ProofResult::Wrong(format!(
                    "the frame that {frame} {wanted} and {exit}"
                )));
            }
        }
    }

    fn look(&mut self, frame: &[u8]) -> Result<FrameExit, Staging> {
        let exit = look(self.port, frame, self.next)?;
        exit.ok_or_else(|| Staging::NotTried("the tester's port does not send".into()))
    }

    /// Destroys the rules, the newest first; what is said against the last that cannot be.
    fn remove(&mut self) -> Result<(), RuleDenial> {
        let removed = self.made.drain(..).rev().map(|id| self.port.destroy(id));
        removed.collect::<Vec<_>>().into_iter().fold(Ok(()), Result::and)
    }
}
