//! The definition of rules predicts the result of each step of a case.

use niclab_device::rule_case::{
    FrameExit, FrameMark, RuleCase, RuleCaseObservation, RuleDenial, RuleStep, StepResult,
    WrittenRule,
};
use niclab_nic::definition::{DefinedRule, Definition, Packet, Verdict};
use niclab_nic::rule::Action;

const NS_PER_S: u64 = 1_000_000_000;

/// The result that a step has to have.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicted {
    /// The step shows nothing.
    Nothing,
    /// One frame was sent.
    Frame(PredictedFrame),
    /// Many frames were sent: each has to come out in one of the old places, later ones in one of
    /// the new.
    Traffic { old: Vec<FrameExit>, new: Vec<FrameExit> },
    /// A counter was read: how often the rule counts the frame of each step until then.
    Count { per_frame: Vec<(usize, u64)> },
    /// The rules that are aged.
    Aged(Vec<usize>),
}

/// The fate that a frame has to have.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictedFrame {
    /// Where it may come out.
    pub exits: Vec<FrameExit>,
    /// Its bytes.
    pub frame: Vec<u8>,
    /// Its mark, where it comes to a queue.
    pub mark: FrameMark,
}

/// The definition while a case runs.
struct Simulation {
    definition: Definition,
    /// By the number of a rule: its place among the rules of the definition.
    places: Vec<Option<usize>>,
    /// By the number of a rule: the frames that it has counted.
    counted: Vec<Vec<(usize, u64)>>,
    queues: u16,
}

/// Predicts the result of each step on a device with `queues` queues. The prediction leaves out the
/// rules that the device refused in `observation`; without an observation it has all rules.
pub fn predict(
    case: &RuleCase,
    queues: u16,
    observation: Option<&RuleCaseObservation>,
) -> Vec<Predicted> {
    let definition = Definition { queues, ..Definition::default() };
    let mut simulation = Simulation { definition, places: Vec::new(), counted: Vec::new(), queues };
    let denied = |at: usize| {
        let result = observation.and_then(|observation| observation.steps.get(at));
        matches!(result, Some(StepResult::Denied(_)))
    };
    let steps = case.steps.iter().enumerate();
    steps.map(|(at, step)| simulation.step(at, step, denied(at))).collect()
}

impl Simulation {
    fn step(&mut self, at: usize, step: &RuleStep, is_denied: bool) -> Predicted {
        match step {
            RuleStep::Create { rule, .. } => {
                let place = self.definition.rules.len();
                self.places.push((!is_denied).then_some(place));
                self.counted.push(Vec::new());
                if !is_denied {
                    let last_hit_ns = self.definition.now_ns;
                    self.definition.rules.push(DefinedRule { last_hit_ns, ..defined(rule) });
                }
            }
            RuleStep::Replace { rule, with } => self.replace(*rule, with),
            RuleStep::Destroy { rule } => self.destroy(*rule),
            RuleStep::Send { frame, .. } => return Predicted::Frame(self.send(at, frame)),
            RuleStep::Traffic { frame, rule, with, .. } => {
                let old = self.send(at, frame).exits;
                self.replace(*rule, with);
                let new = self.send(at, frame).exits;
                return Predicted::Traffic { old, new };
            }
            RuleStep::Count { rule, .. } => {
                let per_frame = self.counted.get(*rule).cloned().unwrap_or_default();
                return Predicted::Count { per_frame };
            }
            RuleStep::Aged => return Predicted::Aged(self.aged()),
            RuleStep::Wait { ns } => self.definition.now_ns += ns,
            RuleStep::Fill { .. } => {}
        }
        Predicted::Nothing
    }

    fn place(&self, rule: usize) -> Option<usize> {
        self.places.get(rule).copied().flatten()
    }

    fn replace(&mut self, rule: usize, with: &WrittenRule) {
        let (place, now_ns) = (self.place(rule), self.definition.now_ns);
        if let Some(rule) = place.and_then(|place| self.definition.rules.get_mut(place)) {
            rule.set_actions(with.actions.clone(), now_ns);
        }
    }

    fn destroy(&mut self, rule: usize) {
        let Some(gone) = self.place(rule) else { return };
        self.definition.rules.remove(gone);
        for place in &mut self.places {
            *place = match *place {
                Some(at) if at == gone => None,
                Some(at) if at > gone => Some(at - 1),
                other => other,
            };
        }
    }

    fn send(&mut self, at: usize, frame: &[u8]) -> PredictedFrame {
        let counts = |definition: &Definition| -> Vec<u64> {
            definition.rules.iter().map(|rule| rule.counts.packets).collect()
        };
        let before = counts(&self.definition);
        let mut packet = Packet::new(frame);
        let verdict = self.definition.classify(&mut packet);
        let after = counts(&self.definition);
        for (rule, place) in self.places.iter().enumerate() {
            let Some(place) = *place else { continue };
            let more = after[place] - before[place];
            if more > 0 {
                self.counted[rule].push((at, more));
            }
        }
        let exits = match verdict {
            Verdict::Drop | Verdict::Exceed => vec![FrameExit::Nowhere],
            Verdict::Port(_) => vec![FrameExit::Tester],
            Verdict::Queue(queue) => vec![FrameExit::Queue(queue)],
            Verdict::Rss { .. } => self.rss_queues().into_iter().map(FrameExit::Queue).collect(),
        };
        let mark = match (packet.mark, packet.flagged) {
            (Some(mark), _) => FrameMark::Id(mark),
            (None, true) => FrameMark::Flagged,
            (None, false) => FrameMark::None,
        };
        PredictedFrame { exits, frame: packet.frame, mark }
    }

    /// The queues that RSS may choose: those of the rules, or all. Which one depends on keys and
    /// tables that cards do not tell.
    fn rss_queues(&self) -> Vec<u16> {
        let actions = self.definition.rules.iter().flat_map(|rule| &rule.actions);
        let named = actions.filter_map(|action| match action {
            Action::Rss(rss) => Some(rss.queues.clone()),
            _ => None,
        });
        let mut named: Vec<u16> = named.flatten().collect();
        named.sort_unstable();
        named.dedup();
        if named.is_empty() { (0..self.queues.max(1)).collect() } else { named }
    }

    fn aged(&self) -> Vec<usize> {
        let now_ns = self.definition.now_ns;
        let is_aged = |place: usize| {
            let rule = self.definition.rules.get(place);
            rule.and_then(|rule| rule.age(now_ns)).is_some_and(|(_, is_aged)| is_aged)
        };
        let places = self.places.iter().enumerate();
        places.filter(|(_, place)| place.is_some_and(is_aged)).map(|(rule, _)| rule).collect()
    }
}

fn defined(rule: &WrittenRule) -> DefinedRule {
    let WrittenRule { group, priority, items, actions } = rule.clone();
    DefinedRule { group, priority, items, actions, ..DefinedRule::default() }
}

/// The case with the places where its frames may come out, and the numbers that its counters may
/// show.
pub fn with_expected(case: &RuleCase, queues: u16) -> RuleCase {
    let mut case = case.clone();
    let predicted = predict(&case, queues, None);
    for (step, predicted) in case.steps.iter_mut().zip(predicted) {
        match (step, predicted) {
            (RuleStep::Send { wanted, wanted_frame, .. }, Predicted::Frame(frame)) => {
                (*wanted, *wanted_frame) = (frame.exits, Some(frame.frame));
            }
            (RuleStep::Count { wanted, .. }, Predicted::Count { per_frame }) => {
                let frames = per_frame.iter().map(|(_, count)| count).sum();
                *wanted = (frames, frames);
            }
            _ => {}
        }
    }
    case
}

/// The judgement of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum CaseVerdict {
    /// All of it is as rules mean it.
    Right,
    /// The same, but a rule had its effect so late, nanoseconds.
    Late(u64),
    /// A rule or a call was refused.
    Denied {
        /// The step.
        step: usize,
        /// By whom, and the words.
        denial: RuleDenial,
    },
    /// No frame could be sent.
    Unsent,
    /// Something differs.
    Wrong(Difference),
}

/// The first difference between a prediction and an observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The step that shows it.
    pub step: usize,
    /// What had to happen, and what happened.
    pub words: String,
}

/// How long an effect may take before it counts as late: a look or two of a device that has to
/// wait for its frames, and a thread that was not scheduled.
const LATE_MIN_NS: u64 = NS_PER_S / 20;

/// Compares what came of a case with what rules mean.
pub fn judge(case: &RuleCase, queues: u16, observation: &RuleCaseObservation) -> CaseVerdict {
    let predicted = predict(case, queues, Some(observation));
    let mut late_ns = 0;
    for (at, (result, predicted)) in observation.steps.iter().zip(&predicted).enumerate() {
        let words = match (result, predicted) {
            (StepResult::Denied(denial), _) => {
                let may_fail = matches!(&case.steps[at], RuleStep::Create { may_fail: true, .. });
                if may_fail {
                    continue;
                }
                return CaseVerdict::Denied { step: at, denial: denial.clone() };
            }
            (StepResult::Unsent, _) => return CaseVerdict::Unsent,
            (StepResult::Frame(seen), Predicted::Frame(wanted)) => {
                // The device waited for another place where it refused a rule that may be refused.
                let was_asked = matches!(&case.steps[at],
                    RuleStep::Send { wanted: asked, .. } if *asked == wanted.exits);
                let is_late = seen.sent > 1 && seen.late_ns >= LATE_MIN_NS || seen.sent > 2;
                if was_asked && is_late {
                    late_ns = late_ns.max(seen.late_ns.max(1));
                }
                frame_difference(seen, wanted).or_else(|| flow_difference(case, at, observation))
            }
            (StepResult::Traffic { before, after, after_ns }, Predicted::Traffic { old, new }) => {
                // The first frames may match the old actions: the rule is late, not wrong.
                let is_old = |exit: &&FrameExit| old.contains(exit) && !new.contains(exit);
                let count = after.iter().take_while(is_old).count();
                let last_ns = count.checked_sub(1).and_then(|last| after_ns.get(last).copied());
                let last_ns = last_ns.unwrap_or(0);
                if count > 1 || last_ns >= LATE_MIN_NS {
                    late_ns = late_ns.max(last_ns.max(1));
                }
                traffic_difference((before, old), (&after[count..], new))
            }
            (StepResult::Counted { frames, .. }, Predicted::Count { per_frame }) => {
                count_difference(*frames, per_frame, observation)
            }
            (StepResult::Aged(aged), Predicted::Aged(wanted)) if aged != wanted => Some(format!(
                "the aged rules are {}; they are reported as {}",
                list(wanted),
                list(aged)
            )),
            _ => None,
        };
        if let Some(words) = words {
            return CaseVerdict::Wrong(Difference { step: at, words });
        }
    }
    if let Some(words) = &observation.left_behind {
        let words = format!("a rule cannot be destroyed: {words}");
        return CaseVerdict::Wrong(Difference { step: case.steps.len(), words });
    }
    if late_ns > 0 { CaseVerdict::Late(late_ns) } else { CaseVerdict::Right }
}

fn list(rules: &[usize]) -> String {
    let numbers: Vec<String> = rules.iter().map(usize::to_string).collect();
    if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") }
}

/// Places as a sentence has them.
pub fn places(exits: &[FrameExit]) -> String {
    let mut names: Vec<String> = Vec::new();
    for exit in exits {
        let name = exit.to_string();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" or ")
}

fn frame_difference(
    seen: &niclab_device::rule_case::FrameObservation,
    wanted: &PredictedFrame,
) -> Option<String> {
    if !wanted.exits.contains(&seen.exit) {
        let wanted = places(&wanted.exits);
        return Some(format!("the frame has to go to {wanted}; it went to {}", seen.exit));
    }
    if seen.exit == FrameExit::Nowhere {
        return None;
    }
    if seen.frame != wanted.frame {
        return Some(bytes_difference(&wanted.frame, &seen.frame));
    }
    let knows = seen.mark != FrameMark::Unknown && matches!(seen.exit, FrameExit::Queue(_));
    (knows && seen.mark != wanted.mark)
        .then(|| format!("its mark has to be {}; it is {}", mark(wanted.mark), mark(seen.mark)))
}

fn mark(mark: FrameMark) -> String {
    match mark {
        FrameMark::Unknown | FrameMark::None => "none".to_owned(),
        FrameMark::Flagged => "a flag".to_owned(),
        FrameMark::Id(number) => number.to_string(),
    }
}

fn bytes_difference(wanted: &[u8], seen: &[u8]) -> String {
    if wanted.len() != seen.len() {
        return format!("the frame has to have {} bytes; it has {}", wanted.len(), seen.len());
    }
    let at = wanted.iter().zip(seen).position(|(one, two)| one != two).unwrap_or(0);
    let end = |bytes: &[u8]| hex(&bytes[at..bytes.len().min(at + 4)]);
    format!("from byte {at} on the frame has to be {}; it is {}", end(wanted), end(seen))
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn traffic_difference(
    (before, old): (&[FrameExit], &[FrameExit]),
    (after, new): (&[FrameExit], &[FrameExit]),
) -> Option<String> {
    let stray = |seen: &[FrameExit], wanted: &[FrameExit]| {
        let strays = seen.iter().filter(|exit| !wanted.contains(exit));
        (strays.clone().count(), strays.copied().next())
    };
    // The call takes effect before it returns.
    let either: Vec<FrameExit> = old.iter().chain(new).copied().collect();
    let (count, first) = stray(before, &either);
    if let Some(first) = first {
        let (all, old) = (before.len(), places(&either));
        return Some(format!(
            "frames before the call have to go to {old}; {count} of {all} went to {first}"
        ));
    }
    let (count, first) = stray(after, new);
    let (all, new) = (after.len(), places(new));
    first.map(|first| {
        format!("frames after the call have to go to {new}; {count} of {all} went to {first}")
    })
}

/// A flow comes to one of the queues of RSS: a frame that was sent before came to the same one.
fn flow_difference(
    case: &RuleCase,
    at: usize,
    observation: &RuleCaseObservation,
) -> Option<String> {
    let RuleStep::Send { frame, wanted, .. } = &case.steps[at] else { return None };
    if wanted.len() < 2 {
        return None;
    }
    let exit_of = |step: usize| match observation.steps.get(step) {
        Some(StepResult::Frame(seen)) => Some(seen.exit),
        _ => None,
    };
    // By the same rules: another one may have been created meanwhile.
    let is_same = |step: &RuleStep| {
        matches!(step, RuleStep::Send { frame: other, wanted: asked, .. }
            if other == frame && asked == wanted)
    };
    let (now, first) = (exit_of(at)?, case.steps.iter().position(is_same).and_then(exit_of)?);
    (now != first).then(|| {
        format!("frames of a flow have to go to one queue; they went to {first} and {now}")
    })
}

/// A frame that came out elsewhere may have been counted, or not.
fn count_difference(
    frames: u64,
    per_frame: &[(usize, u64)],
    observation: &RuleCaseObservation,
) -> Option<String> {
    let (least, most) = count_range(per_frame, observation);
    if (least..=most).contains(&frames) {
        return None;
    }
    let wanted = if least == most { least.to_string() } else { format!("{least} to {most}") };
    Some(format!("the counter has to show {wanted} frames; it shows {frames}"))
}

/// The least and the greatest number of frames that a rule may have counted.
pub fn count_range(per_frame: &[(usize, u64)], observation: &RuleCaseObservation) -> (u64, u64) {
    let mut range = (0, 0);
    for (step, count) in per_frame {
        match observation.steps.get(*step) {
            Some(StepResult::Frame(seen)) => {
                range.0 += count * u64::from(seen.fitting);
                range.1 += count * u64::from(seen.sent);
            }
            Some(StepResult::Traffic { before, after, .. }) => {
                range.1 += (before.len() + after.len()) as u64;
            }
            _ => range.1 += count,
        }
    }
    range
}
