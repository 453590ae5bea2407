//! The rules that packets match while rules change: the set-up and its counters.
//!
//! A rule as it was sends its packets to queue 0, a changed one to queue 1, and packets that match
//! neither go to queue 2.

use niclab_device::{Action, Function, LoadObservation, Receive, RuleBlock, Setup};

use crate::measure::{Metrics, put};
use crate::place::FRAME_LEN_COMMON;
use crate::spec::RulesFile;

const PRIORITY_DEFAULT: u32 = 2;

/// Queues of packets that met a rule as it was, as it is, and none.
pub(crate) const OLD: u16 = 0;

pub(crate) const NEW: u16 = 1;
const NONE: u16 = 2;

/// A set-up in which the rules of a block are to be changed, behind those of a file: what stands
/// around them in their group, and the index of the block.
pub(crate) fn to_change(
    block: RuleBlock,
    group: u32,
    frame_len_max: u16,
    file: Option<&RulesFile>,
) -> (Setup, usize) {
    let any =
        |group, action| RuleBlock::Any { group, priority: PRIORITY_DEFAULT, actions: vec![action] };
    let mut rules = Vec::new();
    let mut queues = NONE + 1;
    if let Some(RulesFile { path, rules_count, queues: of_file, .. }) = file {
        rules.push(RuleBlock::File { path: path.clone(), rules_count: *rules_count });
        queues = queues.max(*of_file);
    }
    rules.extend((group > 0).then(|| any(0, Action::Jump(group))));
    let at = rules.len();
    rules.extend([block, any(group, Action::Queue(NONE))]);
    let function = Function::Forward;
    let frame_len_max = frame_len_max.max(FRAME_LEN_COMMON);
    let (cores, ports, receive) = (1, 1, Receive::Queues);
    let setup = Setup { rules, queues, cores, ports, receive, function, frame_len_max };
    (setup, at)
}

/// Adds what packets met, of the whole trial, its warm-up included: nothing where the device does
/// not count by queue.
pub fn put_matched(metrics: &mut Metrics, o: &LoadObservation) {
    let Some(device) = o.device.as_ref().filter(|device| device.queues.len() == 3) else {
        return;
    };
    let named = [("met_old_frames", OLD), ("met_new_frames", NEW), ("met_none_frames", NONE)];
    for (name, queue) in named {
        let frames = device.queues[usize::from(queue)].rx_frames;
        put(metrics, name, frames as f64, "frames");
    }
    // Each flow has a rule: what they miss together, in frames of one flow.
    let Some(control) = o.control.as_ref().filter(|control| control.done > 0) else { return };
    let none = device.queues[usize::from(NONE)].rx_frames as f64;
    let frame_ns = o.duration_ns as f64 / o.planned.max(1) as f64;
    let none_ns = none * frame_ns * control.planned as f64 / control.done as f64;
    put(metrics, "none_ns", none_ns, "ns");
}
