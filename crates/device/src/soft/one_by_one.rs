//! Frames one by one through the software NIC, to try rules.
//!
//! A frame passes the card's packet path ([`niclab_nic::Worker`]) when it is sent, so nothing is
//! waited for. Time passes only where a case lets it pass.

use std::sync::Arc;
use std::time::Duration;

use niclab_nic::memory::{Desc, Region};
use niclab_nic::rule::Rule;
use niclab_nic::rule::compile;
use niclab_nic::{Nic, RuleId, Worker};

use super::broken;
use crate::face::DeviceError;
use crate::rule_case::{FrameExit, FrameMark, RuleDenial, WrittenRule};
use crate::rule_port::{RulePort, TakeFrame};

/// Longest frame, bytes without FCS: longer than any frame and what rules put in front.
const FRAME_LEN_MAX: usize = 4_096;

/// The software NIC with one worker, and one frame at a time.
pub struct NicPort {
    nic: Nic,
    worker: Worker,
    region: Arc<Region>,
    desc: Desc,
    /// The time of ages, nanoseconds.
    now_ns: u64,
    /// Frames that have come out.
    out: Vec<(FrameExit, Vec<u8>, FrameMark)>,
}

impl NicPort {
    /// A port with the rules and queues of a NIC.
    ///
    /// # Errors
    /// [`DeviceError::Broken`]: there is no memory for a frame.
    pub fn new(mut nic: Nic) -> Result<NicPort, DeviceError> {
        let (region, descs) = Region::new(1, FRAME_LEN_MAX).map_err(broken)?;
        let desc = descs.into_iter().next().ok_or_else(|| broken("no memory for a frame"))?;
        let worker = nic.worker();
        Ok(NicPort { nic, worker, region, desc, now_ns: 0, out: Vec::new() })
    }
}

fn refused(reason: impl ToString) -> RuleDenial {
    RuleDenial::Device(reason.to_string())
}

/// Converts a written rule.
fn compiled(rule: &WrittenRule) -> Result<Rule<'_>, RuleDenial> {
    let WrittenRule { group, priority, items, actions } = rule;
    let pattern = compile::pattern(items).map_err(refused)?;
    Ok(Rule { group: *group, priority: *priority, pattern, actions })
}

impl RulePort for NicPort {
    type Id = RuleId;

    fn create(&mut self, rule: &WrittenRule) -> Result<RuleId, RuleDenial> {
        self.nic.create(&compiled(rule)?).map_err(refused)
    }

    fn replace(&mut self, id: RuleId, with: &WrittenRule) -> Result<RuleId, RuleDenial> {
        self.nic.update(id, &with.actions).map(|()| id).map_err(refused)
    }

    fn destroy(&mut self, id: RuleId) -> Result<(), RuleDenial> {
        self.nic.destroy(id).map_err(refused)
    }

    fn counted(&mut self, id: RuleId) -> Result<(u64, u64), RuleDenial> {
        let counts = self.nic.query(id).map_err(refused)?;
        Ok((counts.packets, counts.bytes))
    }

    fn aged(&mut self) -> Result<Vec<RuleId>, RuleDenial> {
        Ok(self.nic.aged())
    }

    fn send(&mut self, frame: &[u8]) -> Result<bool, DeviceError> {
        let NicPort { worker, region, desc, out, .. } = self;
        let slot = region.slot_mut(desc).get_mut(..frame.len());
        slot.ok_or_else(|| broken("a frame is too long"))?.copy_from_slice(frame);
        region.set_len(desc, frame.len() as u16);
        desc.queue = u16::MAX;
        let is_dropped = worker.classify(region, std::slice::from_mut(desc)) & 1 == 1;
        let exit = match (is_dropped, desc.port()) {
            (true, Some(_)) => FrameExit::Tester,
            (true, None) => return Ok(true),
            (false, _) => FrameExit::Queue(desc.queue),
        };
        let mark = match (region.mark(desc), desc.is_flagged()) {
            (Some(mark), _) => FrameMark::Id(mark),
            (None, true) => FrameMark::Flagged,
            (None, false) => FrameMark::None,
        };
        // A frame that leaves by a port leaves its mark behind.
        let mark = if exit == FrameExit::Tester { FrameMark::Unknown } else { mark };
        out.push((exit, region.frame(desc).to_vec(), mark));
        Ok(true)
    }

    fn receive(&mut self, take: &mut TakeFrame<'_>) -> Result<(), DeviceError> {
        for (exit, frame, mark) in self.out.drain(..) {
            take(exit, &frame, mark);
        }
        Ok(())
    }

    fn look(&self) -> Duration {
        Duration::ZERO
    }

    fn effect_max(&self) -> Duration {
        Duration::ZERO
    }

    fn wait(&mut self, time: Duration) {
        self.now_ns = self.now_ns.saturating_add(time.as_nanos() as u64);
        self.nic.set_time_ns(self.now_ns);
    }
}
