//! Cases of rules: what a port is asked to do with rules and frames, and what came of each step.
//!
//! A case is a short list of steps on a port that has no other rules. A device carries out all of
//! them ([`crate::rule_port::carry_out`]), destroys the rules, and returns what it saw. It does not
//! judge: the caller compares what was seen with what rules mean.

use std::fmt;
use std::time::Duration;

use niclab_nic::rule::Action;
use niclab_nic::rule::item::ItemMatch;
use serde::{Deserialize, Serialize};

/// The work of [`crate::Testbed::try_rules`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RuleCases {
    /// Carried out in this order, each on a port without rules.
    pub cases: Vec<RuleCase>,
}

/// What [`crate::Testbed::try_rules`] saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RuleCasesObservation {
    /// One for each case, in the same order.
    pub cases: Vec<RuleCaseObservation>,
}

/// Steps on a port without rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCase {
    /// In this order.
    pub steps: Vec<RuleStep>,
    /// How long a rule may take until it has its effect, nanoseconds.
    pub effect_max_ns: u64,
}

impl RuleCase {
    /// Calls and frames of the case, and how long it may take beside these.
    pub fn extent(&self) -> (u32, Duration) {
        let effect_max = Duration::from_nanos(self.effect_max_ns);
        let of_step = |step: &RuleStep| match step {
            RuleStep::Create { .. } | RuleStep::Destroy { .. } => (2, Duration::ZERO),
            RuleStep::Replace { .. } | RuleStep::Aged => (1, Duration::ZERO),
            RuleStep::Send { .. } => (4, effect_max),
            RuleStep::Traffic { frames, .. } => (frames.saturating_mul(2), effect_max),
            RuleStep::Count { .. } => (1, effect_max),
            RuleStep::Wait { ns } => (0, Duration::from_nanos(*ns)),
            RuleStep::Fill { count, .. } => (count.saturating_mul(2), Duration::ZERO),
        };
        self.steps.iter().map(of_step).fold((0, Duration::ZERO), |sum, (calls, time)| {
            (sum.0.saturating_add(calls), sum.1.saturating_add(time))
        })
    }
}

/// A rule as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenRule {
    /// Its group.
    pub group: u32,
    /// Its priority, 0 is the highest.
    pub priority: u32,
    /// Its pattern, outermost first.
    pub items: Vec<ItemMatch>,
    /// Its actions.
    pub actions: Vec<Action>,
}

/// In testpmd's syntax, as it follows `flow create PORT`.
impl fmt::Display for WrittenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group {} priority {} ingress pattern", self.group, self.priority)?;
        for item in &self.items {
            write!(f, " {item} /")?;
        }
        write!(f, " end actions")?;
        for action in &self.actions {
            write!(f, " {action} /")?;
        }
        write!(f, " end")
    }
}

/// One step. Rules are named by the number of the step that created them, among such steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleStep {
    /// Creates a rule.
    Create {
        /// The rule.
        rule: WrittenRule,
        /// The case goes on if it is refused.
        may_fail: bool,
    },
    /// Gives a rule other actions.
    Replace {
        /// Which rule.
        rule: usize,
        /// The same rule with its new actions.
        with: WrittenRule,
    },
    /// Destroys a rule.
    Destroy {
        /// Which rule.
        rule: usize,
    },
    /// Sends a frame, again and again until it comes out at one of these places with these bytes,
    /// or the time for an effect is over. Each time it has another number.
    Send {
        /// The frame without FCS, with the payload of a probe.
        frame: Vec<u8>,
        /// Where it may come out.
        wanted: Vec<FrameExit>,
        /// Its bytes there; any where none are given.
        wanted_frame: Option<Vec<u8>>,
    },
    /// Sends frames without waiting for them, gives a rule other actions meanwhile, and sends as
    /// many again.
    Traffic {
        /// The frame without FCS, with the payload of a probe.
        frame: Vec<u8>,
        /// Frames before the call, and as many after it.
        frames: u32,
        /// Which rule.
        rule: usize,
        /// The same rule with its new actions.
        with: WrittenRule,
    },
    /// Reads the counter of a rule, until it shows one of these numbers of frames or the time for
    /// an effect is over.
    Count {
        /// Which rule.
        rule: usize,
        /// The least and the greatest number of frames.
        wanted: (u64, u64),
    },
    /// Reads which rules are aged.
    Aged,
    /// Lets time pass, nanoseconds.
    Wait {
        /// How long.
        ns: u64,
    },
    /// Creates rules, one for each value of a field, until one is refused.
    Fill {
        /// The rule; the last bytes of its last item's `spec` count up from its value.
        rule: WrittenRule,
        /// The byte of the `spec` that counts, with the three before it.
        byte: usize,
        /// The most rules.
        count: u32,
    },
}

/// Where a frame comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameExit {
    /// At this queue of the port under test.
    Queue(u16),
    /// The tester has it back.
    Tester,
    /// Nowhere, within the time that a frame takes.
    Nowhere,
}

impl fmt::Display for FrameExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameExit::Queue(queue) => write!(f, "queue {queue}"),
            FrameExit::Tester => f.write_str("the tester"),
            FrameExit::Nowhere => f.write_str("nowhere"),
        }
    }
}

/// The mark that a frame was delivered with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameMark {
    /// The device does not tell.
    #[default]
    Unknown,
    /// None.
    None,
    /// Flagged, without a number.
    Flagged,
    /// This number.
    Id(u32),
}

/// What a device or niclab has against a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleDenial {
    /// The device refuses it, in the words of its driver.
    Device(String),
    /// niclab cannot ask this device for it: niclab's limit, not the card's.
    Niclab(String),
}

impl fmt::Display for RuleDenial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleDenial::Device(words) | RuleDenial::Niclab(words) => f.write_str(words),
        }
    }
}

/// What came of the steps of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RuleCaseObservation {
    /// One for each step, in the same order; fewer where the case ended early.
    pub steps: Vec<StepResult>,
    /// Why a rule could not be destroyed at the end, if one could not.
    pub left_behind: Option<String>,
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepResult {
    /// It was done.
    Done,
    /// It was not done. Unless the step may fail, the case ends here.
    Denied(RuleDenial),
    /// Of [`RuleStep::Send`]: where the last frame came out.
    Frame(FrameObservation),
    /// The frame could not be sent. The case ends here.
    Unsent,
    /// Of [`RuleStep::Traffic`].
    Traffic {
        /// Where the frames came out that were sent before the call.
        before: Vec<FrameExit>,
        /// The same of those that were sent after it.
        after: Vec<FrameExit>,
        /// How long after the call had returned each of these was sent, nanoseconds.
        after_ns: Vec<u64>,
    },
    /// Of [`RuleStep::Count`].
    Counted {
        /// Frames.
        frames: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Of [`RuleStep::Aged`]: the numbers of the rules that are aged.
    Aged(Vec<usize>),
    /// Of [`RuleStep::Fill`].
    Filled {
        /// Rules that were created.
        created: u32,
        /// Why the next one was refused, if one was.
        refusal: Option<RuleDenial>,
    },
}

/// A frame that was sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrameObservation {
    /// Where the last one came out.
    pub exit: FrameExit,
    /// Its bytes, with the number 0; none where it came out nowhere.
    pub frame: Vec<u8>,
    /// Its mark.
    pub mark: FrameMark,
    /// How often it was sent.
    pub sent: u32,
    /// How many of these came out as wanted.
    pub fitting: u32,
    /// How long after the first one was sent the last one was, nanoseconds.
    pub late_ns: u64,
}
