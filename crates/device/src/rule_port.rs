//! A port with rules, as cases and proofs use it: one trait, and one way to carry out a case.

use std::time::{Duration, Instant};

use niclab_nic::rule::Action;

use crate::face::DeviceError;
use crate::proof;
use crate::rule_case::{
    FrameExit, FrameMark, FrameObservation, RuleCase, RuleCaseObservation, RuleDenial, RuleStep,
    StepResult, WrittenRule,
};

/// How often a frame is sent at least before its place is believed to be wrong.
const SENDS_MIN: u32 = 3;

/// How long a counter that shows too few frames is left alone before it is read again.
const COUNT_PAUSE: Duration = Duration::from_millis(20);

/// A port under test, and the tester's port, between which frames go.
pub trait RulePort {
    /// Names a rule.
    type Id: Copy + PartialEq;

    /// Creates a rule.
    ///
    /// # Errors
    /// Who has something against it, and what.
    fn create(&mut self, rule: &WrittenRule) -> Result<Self::Id, RuleDenial>;

    /// Gives a rule the actions of another, which has its place and its pattern; the rule may have
    /// another name then.
    ///
    /// # Errors
    /// As [`RulePort::create`]. The rule stands as it was.
    fn replace(&mut self, id: Self::Id, with: &WrittenRule) -> Result<Self::Id, RuleDenial>;

    /// Destroys a rule.
    ///
    /// # Errors
    /// As [`RulePort::create`].
    fn destroy(&mut self, id: Self::Id) -> Result<(), RuleDenial>;

    /// Frames and bytes that a rule has counted.
    ///
    /// # Errors
    /// As [`RulePort::create`].
    fn counted(&mut self, id: Self::Id) -> Result<(u64, u64), RuleDenial>;

    /// The rules that are aged.
    ///
    /// # Errors
    /// As [`RulePort::create`].
    fn aged(&mut self) -> Result<Vec<Self::Id>, RuleDenial>;

    /// Sends a frame without FCS from the tester; `false` where there is no room for it now.
    ///
    /// # Errors
    /// [`DeviceError::Broken`].
    fn send(&mut self, frame: &[u8]) -> Result<bool, DeviceError>;

    /// Takes the frames that have come out.
    ///
    /// # Errors
    /// [`DeviceError::Broken`]; [`DeviceError::NotSupported`] where the function's frames cannot
    /// be looked at.
    fn receive(&mut self, take: &mut TakeFrame<'_>) -> Result<(), DeviceError>;

    /// How long a frame is waited for that may not come.
    fn look(&self) -> Duration;

    /// How long a rule may take until it has its effect, at most; zero where calls wait for it.
    fn effect_max(&self) -> Duration {
        Duration::MAX
    }

    /// Lets time pass.
    fn wait(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Takes a frame that came out: where, its bytes, and its mark.
pub type TakeFrame<'a> = dyn FnMut(FrameExit, &[u8], FrameMark) + 'a;

/// How long a port that does not send is tried.
const SEND_MAX: Duration = Duration::from_secs(1);

/// Sends a probe with a new number; `None` where it cannot be sent.
///
/// # Errors
/// Those of [`RulePort::send`].
pub fn send_numbered<P: RulePort>(
    port: &mut P,
    frame: &[u8],
    next: &mut u64,
) -> Result<Option<u64>, DeviceError> {
    let number = *next;
    *next += 1;
    let mut frame = frame.to_vec();
    proof::set_number(&mut frame, number);
    let begun = Instant::now();
    while !port.send(&frame)? {
        if begun.elapsed() > SEND_MAX {
            return Ok(None);
        }
    }
    Ok(Some(number))
}

/// Sends a probe with a new number and waits for it; `None` where it cannot be sent.
///
/// # Errors
/// Those of [`RulePort::send`] and [`RulePort::receive`].
pub fn look<P: RulePort>(
    port: &mut P,
    frame: &[u8],
    next: &mut u64,
) -> Result<Option<FrameExit>, DeviceError> {
    Ok(look_for(port, frame, next)?
        .map(|found| found.map_or(FrameExit::Nowhere, |(exit, ..)| exit)))
}

type FoundFrame = Option<(FrameExit, Vec<u8>, FrameMark)>;

fn look_for<P: RulePort>(
    port: &mut P,
    frame: &[u8],
    next: &mut u64,
) -> Result<Option<FoundFrame>, DeviceError> {
    let Some(number) = send_numbered(port, frame, next)? else { return Ok(None) };
    let (begun, mut found) = (Instant::now(), None);
    loop {
        // Before the frames are taken: this thread may have had to wait.
        let is_over = begun.elapsed() >= port.look();
        port.receive(&mut |exit, frame, mark| {
            if proof::number(frame) == Some(number) {
                found = Some((exit, frame.to_vec(), mark));
            }
        })?;
        if found.is_some() || is_over {
            return Ok(Some(found));
        }
    }
}

/// Takes what is still on its way.
///
/// # Errors
/// Those of [`RulePort::receive`].
pub(crate) fn drain<P: RulePort>(port: &mut P) -> Result<(), DeviceError> {
    let (begun, mut last) = (Instant::now(), Instant::now());
    loop {
        let mut is_empty = true;
        port.receive(&mut |_, _, _| is_empty = false)?;
        if !is_empty {
            last = Instant::now();
        }
        if last.elapsed() >= port.look() || begun.elapsed() > SEND_MAX {
            return Ok(());
        }
    }
}

/// Carries out a case on a port without rules, and leaves it without. `next` is the number of the
/// next frame.
///
/// # Errors
/// Those of [`RulePort::send`] and [`RulePort::receive`].
pub fn carry_out<P: RulePort>(
    port: &mut P,
    case: &RuleCase,
    next: &mut u64,
) -> Result<RuleCaseObservation, DeviceError> {
    let effect_max = port.effect_max().min(Duration::from_nanos(case.effect_max_ns));
    let mut running = RunningCase { port, next, effect_max, rules: Vec::new(), others: Vec::new() };
    let mut steps = Vec::with_capacity(case.steps.len());
    let mut outcome = Ok(());
    for step in &case.steps {
        let result = match running.step(step) {
            Ok(result) => result,
            Err(error) => {
                outcome = Err(error);
                break;
            }
        };
        let may_fail = matches!(step, RuleStep::Create { may_fail: true, .. });
        let ends = match &result {
            StepResult::Denied(_) => !may_fail,
            StepResult::Unsent => true,
            _ => false,
        };
        steps.push(result);
        if ends {
            break;
        }
    }
    let left_behind = running.destroy_all();
    outcome?;
    drain(port)?;
    Ok(RuleCaseObservation { steps, left_behind })
}

/// A case that is being carried out.
struct RunningCase<'p, P: RulePort> {
    port: &'p mut P,
    next: &'p mut u64,
    effect_max: Duration,
    /// By the number of the step that created it; `None` once it is destroyed, or refused.
    rules: Vec<Option<P::Id>>,
    /// Rules that have no number.
    others: Vec<P::Id>,
}

impl<P: RulePort> RunningCase<'_, P> {
    fn step(&mut self, step: &RuleStep) -> Result<StepResult, DeviceError> {
        let answer = match step {
            RuleStep::Create { rule, .. } => {
                let created = self.port.create(rule);
                self.rules.push(created.as_ref().ok().copied());
                created.map(drop)
            }
            RuleStep::Replace { rule, with } => self.replace(*rule, with),
            RuleStep::Destroy { rule } => self.rule(*rule).and_then(|id| {
                self.port.destroy(id)?;
                self.rules[*rule] = None;
                Ok(())
            }),
            RuleStep::Send { frame, wanted, wanted_frame } => {
                return self.send(frame, (wanted, wanted_frame.as_deref()));
            }
            RuleStep::Traffic { frame, frames, rule, with } => {
                return self.traffic(frame, *frames, (*rule, with));
            }
            RuleStep::Count { rule, wanted } => return Ok(self.count(*rule, *wanted)),
            RuleStep::Aged => return Ok(self.aged()),
            RuleStep::Wait { ns } => {
                self.port.wait(Duration::from_nanos(*ns));
                Ok(())
            }
            RuleStep::Fill { rule, byte, count } => return Ok(self.fill(rule, *byte, *count)),
        };
        Ok(answer.map_or_else(StepResult::Denied, |()| StepResult::Done))
    }

    fn rule(&self, rule: usize) -> Result<P::Id, RuleDenial> {
        let id = self.rules.get(rule).copied().flatten();
        id.ok_or_else(|| RuleDenial::Niclab(format!("there is no rule {rule}")))
    }

    fn replace(&mut self, rule: usize, with: &WrittenRule) -> Result<(), RuleDenial> {
        let id = self.rule(rule)?;
        self.rules[rule] = Some(self.port.replace(id, with)?);
        Ok(())
    }

    fn send(
        &mut self,
        frame: &[u8],
        (wanted, wanted_frame): (&[FrameExit], Option<&[u8]>),
    ) -> Result<StepResult, DeviceError> {
        let begun = Instant::now();
        let (mut sent, mut fitting) = (0, 0);
        loop {
            let since = begun.elapsed();
            let Some(found) = look_for(self.port, frame, self.next)? else {
                return Ok(StepResult::Unsent);
            };
            let (exit, mut frame, mark) =
                found.unwrap_or((FrameExit::Nowhere, Vec::new(), FrameMark::Unknown));
            proof::set_number(&mut frame, 0);
            sent += 1;
            let has_bytes = wanted_frame.is_none_or(|wanted| frame == wanted);
            let fits = wanted.contains(&exit) && (exit == FrameExit::Nowhere || has_bytes);
            fitting += u32::from(fits);
            if fits || sent >= SENDS_MIN && begun.elapsed() > self.effect_max {
                let late_ns = since.as_nanos() as u64;
                let seen = FrameObservation { exit, frame, mark, sent, fitting, late_ns };
                return Ok(StepResult::Frame(seen));
            }
        }
    }

    fn traffic(
        &mut self,
        frame: &[u8],
        frames: u32,
        (rule, with): (usize, &WrittenRule),
    ) -> Result<StepResult, DeviceError> {
        let mut received: Vec<(u64, FrameExit)> = Vec::new();
        let first = *self.next;
        for _ in 0..frames {
            if send_numbered(self.port, frame, self.next)?.is_none() {
                return Ok(StepResult::Unsent);
            }
        }
        if let Err(denial) = self.replace(rule, with) {
            return Ok(StepResult::Denied(denial));
        }
        let (called, returned) = (*self.next, Instant::now());
        let mut after_ns = Vec::with_capacity(frames as usize);
        for _ in 0..frames {
            after_ns.push(returned.elapsed().as_nanos() as u64);
            if send_numbered(self.port, frame, self.next)?.is_none() {
                return Ok(StepResult::Unsent);
            }
        }
        let end = *self.next;
        let begun = Instant::now();
        loop {
            self.port.receive(&mut |exit, frame, _| {
                received.extend(proof::number(frame).map(|number| (number, exit)));
            })?;
            let is_whole = received.len() as u64 >= end - first;
            if is_whole || begun.elapsed() >= self.port.look() {
                break;
            }
        }
        let exits = |numbers: std::ops::Range<u64>| {
            let found = |number: u64| received.iter().find(|(one, _)| *one == number);
            numbers.map(|number| found(number).map_or(FrameExit::Nowhere, |one| one.1)).collect()
        };
        let (before, after) = (exits(first..called), exits(called..end));
        Ok(StepResult::Traffic { before, after, after_ns })
    }

    fn count(&mut self, rule: usize, (least, most): (u64, u64)) -> StepResult {
        let begun = Instant::now();
        loop {
            match self.rule(rule).and_then(|id| self.port.counted(id)) {
                Err(denial) => return StepResult::Denied(denial),
                Ok((frames, bytes)) => {
                    let fits = (least..=most).contains(&frames);
                    if fits || begun.elapsed() >= self.effect_max {
                        return StepResult::Counted { frames, bytes };
                    }
                }
            }
            self.port.wait(COUNT_PAUSE.min(self.effect_max));
        }
    }

    fn aged(&mut self) -> StepResult {
        match self.port.aged() {
            Err(denial) => StepResult::Denied(denial),
            Ok(aged) => {
                let is_aged = |id: &Option<P::Id>| id.is_some_and(|id| aged.contains(&id));
                let numbers = self.rules.iter().enumerate().filter(|(_, id)| is_aged(id));
                StepResult::Aged(numbers.map(|(number, _)| number).collect())
            }
        }
    }

    fn fill(&mut self, rule: &WrittenRule, byte: usize, count: u32) -> StepResult {
        let mut rule = rule.clone();
        for created in 0..count {
            if let Some(item) = rule.items.last_mut()
                && let Some(place) =
                    byte.checked_sub(3).and_then(|first| item.spec.get_mut(first..))
                && let Some(place) = place.first_chunk_mut::<4>()
            {
                *place =
                    (u32::from_be_bytes(*place).wrapping_add(u32::from(created > 0))).to_be_bytes();
            }
            match self.port.create(&rule) {
                Ok(id) => self.others.push(id),
                Err(denial) => return StepResult::Filled { created, refusal: Some(denial) },
            }
        }
        StepResult::Filled { created: count, refusal: None }
    }

    /// Destroys what is left, the newest first; what is said against the first that cannot be.
    fn destroy_all(&mut self) -> Option<String> {
        let mut left = None;
        let all = self.rules.drain(..).flatten().chain(self.others.drain(..));
        for id in all.collect::<Vec<_>>().into_iter().rev() {
            if let Err(denial) = self.port.destroy(id) {
                left.get_or_insert(denial.to_string());
            }
        }
        left
    }
}

/// The action that decides where a frame goes.
pub fn fate(actions: &[Action]) -> Option<&Action> {
    let is_fate = |action: &&Action| {
        matches!(
            action,
            Action::Drop | Action::Queue(_) | Action::Rss(_) | Action::Port(_) | Action::Jump(_)
        )
    };
    actions.iter().find(is_fate)
}
