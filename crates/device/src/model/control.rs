//! Operations on rules in virtual time: when each begins and ends, and whom it keeps waiting.

use niclab_load::{Control, FLOWS_PROBED_MAX, Latency, Load};
use niclab_nic::rule::Action;

use super::card::{Costs, SECOND_NS};
use super::profile::Profile;
use super::rules::{Block, Rules, queue, supported};
use super::schema::INJECTED;
use crate::face::DeviceError;
use crate::plan::{
    CallMode, ControlCore, OPERATIONS_PER_S_MAX, RuleChangeKind, RuleWork, RulesPlan,
};

fn bad(reason: String) -> DeviceError {
    DeviceError::BadPlan { reason }
}

/// Operations of one kind.
pub(super) struct Operations {
    what: OperationKind,
    costs: Costs,
    /// Of the operations on the core that forwards what they take there.
    is_beside: bool,
    /// Rules in the group before the first.
    rules: f64,
    /// Operations in all, those that are refused included.
    count: usize,
    /// Of them: carried out.
    room: usize,
    refusal: Option<String>,
    /// The block that they are on, or make.
    pub block: Block,
    interval_ns: Option<f64>,
    gap_ns: f64,
    /// All times by this.
    scale: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum OperationKind {
    Create,
    Renew,
    Anew(Vec<Action>),
    Actions(Vec<Action>),
}

/// The effects of operations on packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Effects {
    /// Times in which core 0 does not forward, in order; of a stall, too.
    pub away_ns: Vec<(f64, f64)>,
    /// Times in which the card stands still, and no core gets a frame.
    pub stalled_ns: Vec<(f64, f64)>,
    /// When each rule was no longer met as it was, and when as it is.
    pub changed_ns: Vec<(f64, f64)>,
}

/// What a plan asks for, the block that it is on or makes, and the time from one operation to the
/// next.
fn asked(
    profile: &Profile,
    rules: &Rules,
    plan: &RulesPlan,
) -> Result<(OperationKind, Block, Option<f64>), DeviceError> {
    match plan.calls {
        CallMode::Single => {}
        CallMode::Queue => return Err(DeviceError::lacks("operation queues")),
        CallMode::Transaction => return Err(DeviceError::lacks("transactions")),
    }
    if plan.threads.is_some() {
        return Err(DeviceError::lacks("control threads"));
    }
    let standing = |at: usize| match rules.blocks.get(at) {
        Some(block) => Ok(block.clone()),
        None => Err(bad(format!("block {at}: the set-up has {}", rules.blocks.len()))),
    };
    let (what, block) = match &plan.work {
        RuleWork::Create(block) => (OperationKind::Create, Block::of(block)?),
        RuleWork::Renew { block } => (OperationKind::Renew, standing(*block)?),
        RuleWork::Change { block, change } => match change {
            RuleChangeKind::Actions(actions) => {
                (OperationKind::Actions(actions.clone()), standing(*block)?)
            }
            RuleChangeKind::Anew(actions) => {
                (OperationKind::Anew(actions.clone()), standing(*block)?)
            }
            RuleChangeKind::Values | RuleChangeKind::Mask | RuleChangeKind::Priority(_) => {
                return Err(DeviceError::lacks("changes of what rules match, in place"));
            }
        },
    };
    supported(profile, &block)?;
    if let OperationKind::Actions(actions) | OperationKind::Anew(actions) = &what
        && queue(actions).is_none()
    {
        return Err(DeviceError::lacks("changes of rules to actions without a queue"));
    }
    let interval_ns = match plan.per_s {
        Some(per_s) if !(1..=OPERATIONS_PER_S_MAX).contains(&per_s) => {
            return Err(bad(format!("per_s {per_s}: use 1 to {OPERATIONS_PER_S_MAX}")));
        }
        per_s => per_s.map(|per_s| SECOND_NS / f64::from(per_s)),
    };
    Ok((what, block, interval_ns))
}

impl Operations {
    /// Those of a plan that has `for_ns` to be carried out; `beside` packets.
    pub fn of(
        profile: &Profile,
        rules: &Rules,
        plan: &RulesPlan,
        for_ns: f64,
        is_beside: bool,
    ) -> Result<Operations, DeviceError> {
        let (what, block, interval_ns) = asked(profile, rules, plan)?;
        let each = block.count as usize;
        let (count, room) = match (&what, interval_ns) {
            (OperationKind::Create, _) => (each, each.min(rules.room(profile, &block)? as usize)),
            (OperationKind::Renew, None) => {
                return Err(bad("per_s: rules are renewed at a rate, and there is none".into()));
            }
            (OperationKind::Renew, Some(each_ns)) => ((for_ns / each_ns) as usize, usize::MAX),
            (OperationKind::Anew(_) | OperationKind::Actions(_), _) => (each, usize::MAX),
        };
        let room = room.min(count);
        let comes = if what == OperationKind::Create { room as f64 } else { 0.0 };
        let there = rules.count(block.group) as f64;
        let of = (there + comes, rules.others(block.group) as f64);
        let costs = Costs::of(profile, block.group, &block.kind, of)?;
        let most = rules.count(block.group) + room as u64;
        let refusal = (room < count).then(|| format!("group {} takes {most} rules", block.group));
        let all = Operations {
            what,
            costs,
            is_beside: is_beside && plan.core == ControlCore::Same,
            rules: there,
            count,
            room,
            refusal,
            block,
            interval_ns,
            gap_ns: profile.number(INJECTED, "gap_ns").unwrap_or(0.0),
            scale: 1.0,
        };
        all.takes_ns(0).ok_or_else(|| DeviceError::lacks(all.unknown()))?;
        Ok(all)
    }

    /// With all times by a factor: no two trials are the same.
    pub fn scaled(self, scale: f64) -> Operations {
        Operations { scale, ..self }
    }

    /// The unknown number if an operation has no time.
    fn unknown(&self) -> String {
        let section = if self.block.group == 0 { "root_rules" } else { "group_rules" };
        let key = match (&self.what, self.is_beside) {
            (OperationKind::Actions(_), _) => "update_ns",
            (OperationKind::Create | OperationKind::Renew, true) => "beside_ns",
            _ => "destroy_ns",
        };
        match (&self.what, self.block.group) {
            (OperationKind::Actions(_), 0) => "changes of actions in group 0, in place".to_owned(),
            _ => format!("what needs {section}.{key}, which is unknown in the profile"),
        }
    }

    /// The time of an operation; `None` if unknown.
    fn takes_ns(&self, at: usize) -> Option<f64> {
        let costs = &self.costs;
        let takes = match (&self.what, self.is_beside) {
            (OperationKind::Create, false) => Some(costs.create(self.rules + at as f64)),
            (OperationKind::Create, true) => costs.create_beside(self.rules + at as f64),
            // A core of its own: the oldest goes, and another comes.
            (OperationKind::Renew, false) => {
                costs.renew(self.rules).or_else(|| Some(costs.create(self.rules)))
            }
            (OperationKind::Renew, true) => costs.create_beside(self.rules),
            (OperationKind::Anew(_), _) => costs.renew(self.rules),
            (OperationKind::Actions(_), _) => costs.update(self.rules),
        };
        takes.map(|takes| takes * self.scale)
    }

    /// For how long of an operation's end its rule is met by nothing.
    fn absent_ns(&self) -> f64 {
        let of_kind = match self.what {
            OperationKind::Anew(_) => {
                let away = self.costs.renew(self.rules).zip(self.costs.destroy(self.rules));
                away.map_or(0.0, |(both, destroy)| (both - destroy) * self.scale)
            }
            OperationKind::Create | OperationKind::Renew | OperationKind::Actions(_) => 0.0,
        };
        of_kind + self.gap_ns * self.scale
    }

    /// The queue that changed rules send frames to.
    pub fn queue(&self) -> Option<u16> {
        match &self.what {
            OperationKind::Anew(actions) | OperationKind::Actions(actions) => queue(actions),
            OperationKind::Create | OperationKind::Renew => None,
        }
    }

    /// `true` where rules that come decide about frames, and do not drop them.
    pub fn decides(&self, load: &Load) -> bool {
        self.what == OperationKind::Create && !self.drops() && self.block.share_of(load) > 0.0
    }

    /// `true` where the rules that come drop frames.
    pub fn drops(&self) -> bool {
        self.what == OperationKind::Create && self.block.actions.contains(&Action::Drop)
    }

    /// Carries all of them out at once, without packets; what was created goes again.
    pub fn alone(&self) -> Control {
        let mut control = self.timed(self.count, |at| self.takes_ns(at));
        if self.what == OperationKind::Create && self.costs.destroy(self.rules).is_some() {
            let most = self.rules + self.room as f64;
            let destroyed = self.timed(self.room, |at| {
                self.costs.destroy(most - at as f64).map(|takes| takes * self.scale)
            });
            control.destroyed = Some(Box::new(destroyed));
        }
        control
    }

    fn timed(&self, count: usize, takes_ns: impl Fn(usize) -> Option<f64>) -> Control {
        let mut calls = Latency::new();
        let (mut all_ns, mut first_ns) = (0.0, None);
        for takes_ns in (0..count).map_while(takes_ns) {
            all_ns += takes_ns;
            match first_ns {
                None => first_ns = Some(takes_ns as u64),
                Some(_) => calls.record(takes_ns as u64),
            }
        }
        let refused = count.saturating_sub(self.room) as u64;
        Control {
            planned: count as u64,
            done: count as u64 - refused,
            refused,
            refusal: self.refusal.clone().filter(|_| refused > 0),
            begun_ns: Some(0),
            ended_ns: Some(all_ns as u64),
            busy_ns: all_ns as u64,
            calls_ns: all_ns as u64,
            calls: Some(calls),
            first_call_ns: first_ns,
            ..Control::default()
        }
    }

    /// Carries them out while packets flow. `turn_ns` is the core's other work between two slices.
    pub fn carry_out(
        &self,
        profile: &Profile,
        plan: &RulesPlan,
        turn_ns: f64,
        duration_ns: f64,
    ) -> (Control, Effects) {
        let (start_ns, slice) =
            (plan.start_ns as f64, plan.slice.map_or(usize::MAX, |n| n as usize));
        let mut effects = Effects::default();
        let mut control = Control {
            planned: self.count as u64,
            calls: Some(Latency::new()),
            late: self.interval_ns.map(|_| Latency::new()),
            ..Control::default()
        };
        let stall_ns = profile.number(INJECTED, "stall_ns").filter(|_| self.interval_ns.is_none());
        let stall_ns = stall_ns.unwrap_or(0.0) * self.scale;
        let (absent_ns, steady_ns) = (self.absent_ns(), self.steady_ns());
        let (mut now_ns, mut at, mut busy_ns) = (start_ns, 0, 0.0);
        let between_ns = match self.is_beside {
            true => turn_ns.max(plan.pause_ns.unwrap_or(0) as f64),
            false => plan.pause_ns.unwrap_or(0) as f64,
        };
        while at < self.count && now_ns < duration_ns {
            let due = self.due(now_ns - start_ns);
            if due <= at {
                now_ns = start_ns + at as f64 * self.interval_ns.unwrap_or(0.0);
                continue;
            }
            let begun_ns = now_ns;
            if at == 0 {
                control.begun_ns = Some(begun_ns as u64);
                now_ns += stall_ns;
            }
            let end = due.min(at.saturating_add(slice.max(1)));
            while at < end {
                let from_ns = now_ns;
                now_ns += steady_ns.or_else(|| self.takes_ns(at)).unwrap_or(0.0);
                self.note(&mut control, at, (from_ns, now_ns), start_ns);
                // Rules that are renewed are met by no packet.
                if at < self.room && self.what != OperationKind::Renew {
                    effects.changed_ns.push((now_ns - absent_ns, now_ns));
                }
                at += 1;
            }
            busy_ns += now_ns - begun_ns;
            if self.is_beside {
                effects.away_ns.push((begun_ns, now_ns));
            }
            if stall_ns > 0.0 && effects.stalled_ns.is_empty() {
                effects.stalled_ns.push((begun_ns, begun_ns + stall_ns));
            }
            control.ended_ns = (at == self.count).then_some(now_ns as u64);
            now_ns += between_ns;
        }
        if let (Some(each_ns), Some(calls)) = (steady_ns, &mut control.calls) {
            calls.record_n(each_ns as u64, (at as u64).saturating_sub(1));
        }
        control.busy_ns = busy_ns as u64;
        control.refused = at.saturating_sub(self.room) as u64;
        control.done = at as u64 - control.refused;
        control.refusal = self.refusal.clone().filter(|_| control.refused > 0);
        (control, effects)
    }

    /// The time of each operation, if all are equal.
    fn steady_ns(&self) -> Option<f64> {
        (self.what != OperationKind::Create).then(|| self.takes_ns(0)).flatten()
    }

    fn due(&self, since_ns: f64) -> usize {
        match self.interval_ns {
            None => self.count,
            // What is due now may be a rounding away.
            Some(each_ns) => self.count.min((since_ns / each_ns + 1e-6) as usize + 1),
        }
    }

    fn note(&self, control: &mut Control, at: usize, (from_ns, to_ns): (f64, f64), start_ns: f64) {
        let took_ns = (to_ns - from_ns) as u64;
        control.calls_ns += took_ns;
        match (control.first_call_ns, &mut control.calls) {
            (Some(_), Some(calls)) if self.what == OperationKind::Create => calls.record(took_ns),
            (Some(_), _) => {}
            (None, _) => control.first_call_ns = Some(took_ns),
        }
        if let Some((late, each_ns)) = control.late.as_mut().zip(self.interval_ns) {
            late.record((to_ns - start_ns - at as f64 * each_ns).max(0.0) as u64);
            if at < FLOWS_PROBED_MAX as usize {
                control.each_begun_ns.push(from_ns as u64);
            }
        }
    }
}
