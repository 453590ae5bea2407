//! Lines of packet tests that P4's reference switch takes as they are (`direct_cmd` of p4c's
//! `bmv2stf.py`): groups of ports, rates of meters, resets.
//!
//! | line | effect |
//! |---|---|
//! | `mc_mgrp_create GROUP` | a group without ports |
//! | `mc_node_create RID PORT …` | a node with ports; nodes are numbered from 0 in their order |
//! | `mc_node_update NODE PORT …` | gives a node other ports |
//! | `mc_node_associate GROUP NODE` | the group has the node's ports from now on |
//! | `meter_set_rates ARRAY INDEX CIR:CBS PIR:PBS` | rates in bytes a microsecond |
//! | `meter_array_set_rates ARRAY CIR:CBS PIR:PBS` | the same for all meters of an array |
//! | `register_reset ARRAY` | all registers are 0 |
//! | `register_read`, `counter_read`, `meter_get_rates`, `mirroring_get` | none: they print |
//!
//! Refused by name: `mirroring_add_mc` and `mirroring_delete`, for a session is one port here and
//! stays; `counter_write`, for each core counts for itself.

use std::collections::BTreeMap;

use super::command::{self, Command, session};
use super::error::Wrong;
use super::stf::StfStep;
use super::words::{Line, Word};
use crate::entry::{Ports, Rates};
use crate::form::Program;

/// Groups and nodes that lines before have made.
#[derive(Debug, Default)]
pub(super) struct Multicast {
    /// Ports of each node.
    nodes: Vec<Ports>,
    /// Nodes of each group.
    groups: BTreeMap<usize, Vec<usize>>,
}

/// Whether a line is read here.
pub(super) fn reads(verb: &str, line: &Line<'_>) -> bool {
    match verb {
        // With rates in the way of that switch.
        "meter_set_rates" => line.at(3).text.contains(':'),
        "mc_mgrp_create"
        | "mc_node_create"
        | "mc_node_update"
        | "mc_node_associate"
        | "mirroring_add_mc"
        | "mirroring_delete"
        | "mirroring_get"
        | "counter_read"
        | "counter_write"
        | "register_read"
        | "register_reset"
        | "meter_get_rates"
        | "meter_array_set_rates" => true,
        _ => false,
    }
}

/// Reads a line that is read here.
pub(super) fn read(
    program: &Program,
    multicast: &mut Multicast,
    verb: &str,
    line: &Line<'_>,
) -> Result<Vec<StfStep>, Wrong> {
    let first = line.first();
    let refused = |reason: &str| Err(Wrong::not_supported(first.at, reason));
    match verb {
        "mirroring_add_mc" => refused("`mirroring_add_mc`: a session has one port, not a group"),
        "mirroring_delete" => refused("`mirroring_delete`: a session stays once it is there"),
        "counter_write" => refused("`counter_write`: each core counts for itself"),
        "mirroring_get" => {
            line.ends_at(2)?;
            session(line.at(1)).map(|_| Vec::new())
        }
        "register_read" => {
            line.ends_at(3)?;
            command::register(program, line).map(|_| Vec::new())
        }
        "counter_read" => {
            line.ends_at(3)?;
            let counters = program.counters.iter().map(|array| &array.name);
            let registers = program.registers.iter().map(|array| &array.name);
            let what = "regarray or countarray";
            let at = command::named(line.at(1), what, registers.chain(counters))?;
            let of_counter = at.checked_sub(program.registers.len());
            let len =
                of_counter.map_or_else(|| program.registers[at].len, |at| program.counters[at].len);
            command::index(line.at(2), len).map(|_| Vec::new())
        }
        "register_reset" => {
            line.ends_at(2)?;
            let array = command::registers(program, line.at(1))?;
            Ok(vec![StfStep::Reset { array, len: program.registers[array].len }])
        }
        "meter_get_rates" | "meter_set_rates" | "meter_array_set_rates" => {
            meters(program, verb, line)
        }
        _ => multicast.take(verb, line),
    }
}

/// Rates of one meter, or of all of an array.
fn meters(program: &Program, verb: &str, line: &Line<'_>) -> Result<Vec<StfStep>, Wrong> {
    let array = command::meters(program, line.at(1))?;
    let len = program.meters[array].len;
    let (index, at) = match verb {
        "meter_array_set_rates" => (None, 2),
        _ => (Some(command::index(line.at(2), len)?), 3),
    };
    if verb == "meter_get_rates" {
        return line.ends_at(3).map(|()| Vec::new());
    }
    line.ends_at(at + 2)?;
    let ((committed, committed_burst), (peak, peak_burst)) =
        (rate(line.at(at))?, rate(line.at(at + 1))?);
    if peak < committed {
        let what = format!("a peak rate that is no less than the committed {committed}");
        return Err(line.at(at + 1).expected(what));
    }
    let rates = Rates { committed, committed_burst, peak, peak_burst };
    Ok(vec![match index {
        Some(index) => StfStep::Told(Command::Meter { array, index, rates }),
        // One step, however many meters there are.
        None => StfStep::Rates { array, len, rates },
    }])
}

/// `RATE:BURST`: bytes a microsecond, and bytes; as bytes a second, and bytes.
fn rate(word: Word<'_>) -> Result<(u64, u32), Wrong> {
    let wrong = || word.expected("`RATE:BURST`, bytes a microsecond and bytes, as `0.5:1500`");
    let (rate, burst) = command::split(word).ok_or_else(wrong)?;
    let (whole, part) = rate.text.split_once('.').unwrap_or((rate.text, ""));
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || whole.is_empty() || part.len() > 6 {
        return Err(wrong());
    }
    let micro = format!("{whole}{part:0<6}").parse::<u64>().map_err(|_| wrong())?;
    let burst = burst.plain_in("bytes of a burst", 1, u64::from(u32::MAX))?;
    Ok((micro, burst as u32))
}

impl Multicast {
    fn take(&mut self, verb: &str, line: &Line<'_>) -> Result<Vec<StfStep>, Wrong> {
        match verb {
            "mc_mgrp_create" => {
                line.ends_at(2)?;
                let group = command::group_of_ports(line.at(1))?;
                if self.groups.insert(group, Vec::new()).is_some() {
                    return Err(line.at(1).unfit(format!("there is a group {group} already")));
                }
                Ok(vec![ports_of(group, Ports(0))])
            }
            "mc_node_create" => {
                // What copies are told apart by: no program reads it.
                line.at(1).plain()?;
                let ports = ports(line, 2)?;
                self.nodes.push(ports);
                Ok(Vec::new())
            }
            "mc_node_update" => {
                let node = self.node(line.at(1))?;
                self.nodes[node] = ports(line, 2)?;
                let of = self.groups.iter().filter(|(_, nodes)| nodes.contains(&node));
                let groups: Vec<usize> = of.map(|(group, _)| *group).collect();
                groups.iter().map(|group| self.group(*group, line.at(2))).collect()
            }
            _ => {
                line.ends_at(3)?;
                let (group, node) = (command::group_of_ports(line.at(1))?, self.node(line.at(2))?);
                let Some(nodes) = self.groups.get_mut(&group) else {
                    return Err(line.at(1).expected("a group that `mc_mgrp_create` made before"));
                };
                nodes.push(node);
                Ok(vec![self.group(group, line.at(2))?])
            }
        }
    }

    fn node(&self, word: Word<'_>) -> Result<usize, Wrong> {
        let node = word.plain()?;
        let there = self.nodes.len();
        match usize::try_from(node).ok().filter(|node| *node < there) {
            Some(node) => Ok(node),
            None => Err(word.expected(format!(
                "a node that `mc_node_create` made before, by its number from 0: there are {there}"
            ))),
        }
    }

    /// Says all ports of a group anew.
    fn group(&self, group: usize, word: Word<'_>) -> Result<StfStep, Wrong> {
        let mut all = 0;
        for node in self.groups.get(&group).into_iter().flatten() {
            let Ports(ports) = self.nodes[*node];
            if let Some(twice) = Ports(all & ports).each().next() {
                let what = format!("two copies by port {twice}: a group has each port once");
                return Err(Wrong::not_supported(word.at, what));
            }
            all |= ports;
        }
        Ok(ports_of(group, Ports(all)))
    }
}

fn ports_of(group: usize, ports: Ports) -> StfStep {
    StfStep::Told(Command::Ports { group, ports })
}

/// The ports of a node, from a word on.
fn ports(line: &Line<'_>, from: usize) -> Result<Ports, Wrong> {
    let mut all = 0;
    for at in from..line.len() {
        let word = line.at(at);
        if word.text == "|" {
            return Err(Wrong::not_supported(word.at, "groups of links (LAG) behind `|`"));
        }
        let bit = 1 << command::port(word)?;
        if all & bit != 0 {
            return Err(word.unfit("the node has this port already"));
        }
        all |= bit;
    }
    Ok(Ports(all))
}
