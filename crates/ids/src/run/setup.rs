//! Rules with their partition, as the engines have them, and whose events count.

use std::collections::HashMap;

use crate::partition::{Partition, Route};
use crate::region::FlowEnds;
use crate::rule::Rule;

/// The bit that tells a rule from the one of the same number that it replaces.
const OTHER: u32 = 1 << 31;

/// Rules with their partition.
///
/// While rules are replaced the engines have the old and the new ones. A rule that has changed
/// keeps its `sid`, so engines know it by another `gid` meanwhile, and until it changes again.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    rules: Vec<Rule>,
    partition: Partition,
    /// The `gid` by which the engines have each rule.
    gids: Vec<u32>,
    /// Rules by the `gid` that the engines have, and the `sid`.
    places: HashMap<(u32, u32), usize>,
}

impl Setup {
    /// The first rules of a run, or those that replace others.
    pub(super) fn new(rules: Vec<Rule>, partition: Partition, before: Option<&Setup>) -> Setup {
        let gid = |rule: &Rule| {
            let Some(before) = before else { return rule.gid };
            let places = [rule.gid, rule.gid ^ OTHER].map(|gid| (gid, before.place(gid, rule.sid)));
            let is_same = |place: Option<usize>| {
                place.is_some_and(|place| before.rules[place].text == rule.text)
            };
            let same = places.iter().find(|(_, place)| is_same(*place));
            let free = || places.iter().find(|(_, place)| place.is_none());
            same.or_else(free).map_or(rule.gid, |(gid, _)| *gid)
        };
        let gids: Vec<u32> = rules.iter().map(gid).collect();
        let places = rules.iter().zip(&gids).enumerate();
        let places = places.map(|(place, (rule, gid))| ((*gid, rule.sid), place)).collect();
        Setup { rules, partition, gids, places }
    }

    pub(super) fn partition(&self) -> &Partition {
        &self.partition
    }

    fn place(&self, gid: u32, sid: u32) -> Option<usize> {
        self.places.get(&(gid, sid)).copied()
    }

    /// Whether engines have the rule by another `gid` than its own, which this is then.
    pub(super) fn own_gid(&self, gid: u32, sid: u32) -> Option<u32> {
        self.place(gid, sid).map(|place| self.rules[place].gid).filter(|own| *own != gid)
    }

    /// The rules of a core, a line each; without those that `but` has on it, too.
    pub(super) fn text(&self, core: usize, but: Option<&Setup>) -> String {
        let is_there = |place: usize| {
            let before = but
                .and_then(|but| Some((but, but.place(self.gids[place], self.rules[place].sid)?)));
            before.is_some_and(|(but, place)| but.partition.has(core, place))
        };
        let has = |place: &usize| self.partition.has(core, *place) && !is_there(*place);
        let line = |place: usize| {
            let (rule, gid) = (&self.rules[place], self.gids[place]);
            match rule.text.strip_suffix(')') {
                // The last `gid` of a rule holds.
                Some(text) if gid != rule.gid => format!("{text} gid:{gid};)\n"),
                _ => format!("{}\n", rule.text),
            }
        };
        (0..self.rules.len()).filter(has).map(line).collect()
    }

    fn route(&self, flow: Option<&FlowEnds>) -> Route {
        match flow {
            Some(flow) => self.partition.route(flow),
            None => self.partition.route_of_others(),
        }
    }

    /// Whether packets of a flow go to an engine.
    pub(super) fn goes_to(&self, engine: usize, flow: Option<&FlowEnds>) -> bool {
        self.route(flow).cores >> engine & 1 == 1
    }

    /// Whether an event counts that an engine reports. `rule` is the `gid` and the `sid` of an
    /// alert; all other events of a flow count where its alerts of replicated rules do.
    pub(super) fn counts(
        &self,
        engine: usize,
        flow: Option<&FlowEnds>,
        rule: Option<(u32, u32)>,
    ) -> bool {
        let route = self.route(flow);
        match rule {
            None => route.reporter == engine,
            Some((gid, sid)) => self
                .place(gid, sid)
                .is_some_and(|place| self.partition.counts(engine, place, &route)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Variables;
    use crate::partition::Traffic;
    use crate::rule::read;

    fn setup(text: &str, before: Option<&Setup>) -> Setup {
        let rules = read(text, &Variables::default()).unwrap();
        let partition = Partition::new(&rules, &Traffic::default(), 1).unwrap();
        Setup::new(rules, partition, before)
    }

    #[test]
    fn a_changed_rule_is_known_apart_from_the_one_that_it_replaces() {
        let a = setup(
            "alert tcp any any -> any 25 (sid:1;)\nalert tcp any any -> any 80 (sid:2;)\n",
            None,
        );
        let b = setup(
            "alert tcp any any -> any 26 (sid:1;)\nalert tcp any any -> any 80 (sid:2;)\n",
            Some(&a),
        );
        let other = 1 | OTHER;
        assert_eq!(
            b.text(0, Some(&a)),
            format!("alert tcp any any -> any 26 (sid:1; gid:{other};)\n")
        );
        assert_eq!(b.own_gid(other, 1), Some(1));
        assert_eq!(b.own_gid(1, 2), None);
        assert!(a.counts(0, None, Some((1, 1))) && !b.counts(0, None, Some((1, 1))));
        assert!(!a.counts(0, None, Some((other, 1))) && b.counts(0, None, Some((other, 1))));
        // The next change takes the first number, and a rule that stays keeps its own.
        let c = setup("alert tcp any any -> any 27 (sid:1;)\n", Some(&b));
        assert_eq!(c.text(0, None), "alert tcp any any -> any 27 (sid:1;)\n");
        let d = setup("alert tcp any any -> any 26 (sid:1;)\n", Some(&b));
        assert_eq!(d.text(0, None), format!("alert tcp any any -> any 26 (sid:1; gid:{other};)\n"));
        assert_eq!(d.text(0, Some(&b)), "");
    }
}
