//! The findings of the experiment `rule-rate`.

use niclab_result::Finding;

use super::analysis::{PLAIN, STACK, acted_stack, cells, figure_id};
use crate::cells::{Cell, paired};
use crate::findings::number::{FAST, Number, comparison};
use crate::findings::{REPEATS_MIN, RatioVerdict, core_words, told, verdict};
use crate::statistics::{Estimate, paired_ratio};
use crate::summary::Results;
use crate::words;

/// Device by device and group by group.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        let all = cells(results, device);
        for group in [0.0, 1.0] {
            let subject = RateSubject { all: &all, device, group };
            findings.extend(subject.rate());
            findings.extend(subject.filling());
            findings.extend(subject.of_stacks("ipv6", ("eth/ipv6/tcp", "eth/ipv4/tcp")));
            findings.extend(subject.of_stacks("vlan", ("eth/vlan/ipv4/tcp", "eth/ipv4/tcp")));
            findings.extend(subject.of_stacks("vxlan", ("vxlan/ipv4/udp", "eth/ipv4/tcp")));
            for (id, tunnel) in TUNNELS {
                findings.extend(subject.of_stacks(id, (tunnel, "eth/vlan/ipv4/tcp")));
            }
            findings.extend(subject.actions());
            findings.extend(subject.deletion());
            findings.extend(subject.queue());
            findings.extend(subject.threads());
        }
        findings.extend(root_against_group(&all, device));
        for core in ["same", "distinct"] {
            findings.extend(effect(results, device, core));
        }
    }
    findings
}

/// What is compared with a VLAN.
const TUNNELS: [(&str, &str); 3] = [
    ("gre-vlan", "gre/ipv4/tcp"),
    ("vxlan-vlan", "vxlan/ipv4/udp"),
    ("geneve-vlan", "geneve/ipv4/udp"),
];

struct RateSubject<'a> {
    all: &'a [&'a Cell<'a>],
    device: &'a str,
    group: f64,
}

/// What is compared: stack, actions, calls.
type ComparedCalls<'a> = (&'a str, &'a str, &'a str);

const SINGLE: ComparedCalls<'static> = (STACK, PLAIN, "single");

impl<'a> RateSubject<'a> {
    /// The cells of a kind by their number of rules, none with refusals.
    fn of(&self, kind: ComparedCalls<'_>) -> Vec<&'a Cell<'a>> {
        self.of_threads(kind, None)
    }

    fn of_threads(
        &self,
        (stack, actions, calls): ComparedCalls<'_>,
        threads: Option<f64>,
    ) -> Vec<&'a Cell<'a>> {
        let is_of = |cell: &&&Cell<'_>| {
            cell.is_at(&[("group", self.group)])
                && cell.word("stack") == stack
                && cell.word("actions") == actions
                && cell.word("calls") == calls
                && cell.number("threads") == threads
                && cell.values("operations_refused").iter().all(|refused| *refused == 0.0)
        };
        self.all.iter().filter(is_of).copied().collect()
    }

    fn largest(&self, kind: ComparedCalls<'_>) -> Option<&'a Cell<'a>> {
        self.of(kind).into_iter().max_by(|a, b| rules(a).total_cmp(&rules(b)))
    }

    /// The largest number of rules that both kinds have.
    fn both(
        &self,
        one: ComparedCalls<'_>,
        other: ComparedCalls<'_>,
    ) -> Option<(&'a Cell<'a>, &'a Cell<'a>)> {
        most(&self.of(one), &self.of(other))
    }

    fn finding(&self, id: &str, number: Number, words: (String, &str), what: &str) -> Finding {
        let figure = Some(figure_id(self.group, what));
        told(self.device, format!("{id}-group{}", self.group), number, words, figure)
    }

    fn group_words(&self) -> String {
        format!("group {}", self.group)
    }

    /// How fast rules go in.
    fn rate(&self) -> Option<Finding> {
        let cell = self.largest(SINGLE)?;
        let per_s = cell.estimate("operations_per_s").filter(|e| e.repeats >= REPEATS_MIN)?;
        let number = Number::new(&per_s, "rules/s");
        let sentence = format!(
            "{} creates {number} in {} ({} of {STACK}){}.",
            self.device,
            self.group_words(),
            words::rules(rules(cell)),
            words::few(&per_s)
        );
        let implication = "New flows that arrive faster than this wait for their rules.";
        Some(self.finding("insert-rate", number, (sentence, implication), "stacks"))
    }

    /// What it costs that many rules stand there already.
    fn filling(&self) -> Option<Finding> {
        let of = self.of(SINGLE);
        let (few, many) = (of.first()?, of.last()?);
        // A handful is no rate.
        let few = of.iter().find(|cell| rules(cell) >= 1_000.0).unwrap_or(few);
        let ratio = ratio(many, few)?;
        let (number, is_faster) = comparison(&ratio, FAST);
        let sentence = format!(
            "{} creates {} in {} {is_faster} {}{}.",
            self.device,
            words::rules(rules(many)),
            self.group_words(),
            words::rules(rules(few)),
            words::few(&ratio)
        );
        let implication = match verdict(&ratio)? {
            RatioVerdict::NoCost => "A full group accepts rules as fast as an empty one.",
            RatioVerdict::Differs if ratio.median < 1.0 => {
                "Plan with the rate of a full group, not of an empty one."
            }
            RatioVerdict::Differs => "A full group accepts rules faster than an empty one.",
        };
        let is_worth = rules(many) >= 4.0 * rules(few);
        is_worth.then(|| self.finding("filling", number, (sentence, implication), "stacks"))
    }

    /// What it costs to match other headers.
    fn of_stacks(&self, id: &str, (stack, plain): (&str, &str)) -> Option<Finding> {
        let (one, other) = self.both((stack, PLAIN, "single"), (plain, PLAIN, "single"))?;
        let ratio = ratio(one, other)?;
        let (number, is_faster) = comparison(&ratio, FAST);
        let sentence = format!(
            "{} creates rules of {stack} in {} {is_faster} rules of {plain} ({}){}.",
            self.device,
            self.group_words(),
            words::rules(rules(one)),
            words::few(&ratio)
        );
        let implication = match verdict(&ratio)? {
            RatioVerdict::NoCost => "The rate is the same for both kinds of headers.",
            RatioVerdict::Differs => "The rate depends on the headers that a rule matches.",
        };
        let what = if stack.starts_with("eth/ip") { "stacks" } else { "tunnels" };
        Some(self.finding(id, number, (sentence, implication), what))
    }

    /// What more actions cost.
    fn actions(&self) -> Option<Finding> {
        let most = crate::axes::ACTIONS[3].0;
        let stack = acted_stack(self.all, self.group);
        let (one, other) = self.both((&stack, most, "single"), (&stack, PLAIN, "single"))?;
        let ratio = ratio(one, other)?;
        let (number, is_faster) = comparison(&ratio, FAST);
        let sentence = format!(
            "{} creates rules of {stack} with four actions ({most}) in {} {is_faster} rules with \
             one ({}){}.",
            self.device,
            self.group_words(),
            words::rules(rules(one)),
            words::few(&ratio)
        );
        let implication = match verdict(&ratio)? {
            RatioVerdict::NoCost => "More actions do not slow down rule creation.",
            RatioVerdict::Differs => "The rate depends on the number of actions.",
        };
        Some(self.finding("actions", number, (sentence, implication), "actions"))
    }

    /// Deletion against insertion.
    fn deletion(&self) -> Option<Finding> {
        let cell = self.largest(SINGLE)?;
        let (insert, delete) =
            (cell.values("operations_per_s"), cell.values("destroy_operations_per_s"));
        let ratio = paired_ratio(&delete, &insert)
            .filter(|e| e.repeats >= REPEATS_MIN && delete.len() == insert.len())?;
        let (number, is_faster) = comparison(&ratio, FAST);
        let sentence = format!(
            "{} destroys rules in {} {is_faster} it creates them ({}){}.",
            self.device,
            self.group_words(),
            words::rules(rules(cell)),
            words::few(&ratio)
        );
        let implication = match verdict(&ratio)? {
            RatioVerdict::Differs if ratio.median < 1.0 => {
                "Destroying the old rules takes most of the time of rule churn."
            }
            _ => "Destroying rules does not limit rule churn.",
        };
        Some(self.finding("deletion", number, (sentence, implication), "stacks"))
    }

    /// What more threads gain, the most there are.
    fn threads(&self) -> Option<Finding> {
        const QUEUE: ComparedCalls<'static> = (STACK, PLAIN, "queue");
        let threads = self.all.iter().filter_map(|cell| cell.number("threads"));
        let threads = threads.max_by(f64::total_cmp).filter(|threads| *threads > 1.0)?;
        let of = |threads| self.of_threads(QUEUE, Some(threads));
        let (one, other) = most(&of(threads), &of(1.0))?;
        let ratio = ratio(one, other)?;
        let (number, is_faster) = comparison(&ratio, FAST);
        let sentence = format!(
            "{} control threads, each with an operation queue, create rules in {} of {} \
             {is_faster} one thread ({}){}.",
            words::whole(threads),
            self.group_words(),
            self.device,
            words::rules(rules(one)),
            words::few(&ratio)
        );
        let implication = match verdict(&ratio)? {
            RatioVerdict::Differs if ratio.median > 1.0 => {
                "More control threads create more rules."
            }
            _ => "More control threads gain nothing here.",
        };
        Some(self.finding("threads", number, (sentence, implication), "calls"))
    }

    /// What the operation queue gains.
    fn queue(&self) -> Option<Finding> {
        let (one, other) = self.both((STACK, PLAIN, "queue"), SINGLE)?;
        let ratio = ratio(one, other)?;
        let (number, is_faster) = comparison(&ratio, FAST);
        let sentence = format!(
            "{} creates rules in {} through the operation queue {is_faster} by single calls \
             ({}){}.",
            self.device,
            self.group_words(),
            words::rules(rules(one)),
            words::few(&ratio)
        );
        let implication = match verdict(&ratio)? {
            RatioVerdict::Differs if ratio.median > 1.0 => {
                "Use the queue to create many rules at a time."
            }
            _ => "Use the queue for calls from other threads, not for speed.",
        };
        Some(self.finding("insert-queue", number, (sentence, implication), "calls"))
    }
}

/// The cells of the largest number of rules that both kinds have.
fn most<'a>(one: &[&'a Cell<'a>], other: &[&'a Cell<'a>]) -> Option<(&'a Cell<'a>, &'a Cell<'a>)> {
    let pairs = one.iter().filter_map(|a| {
        let b = other.iter().find(|b| rules(b) == rules(a))?;
        Some((*a, *b))
    });
    pairs.max_by(|(a, _), (b, _)| rules(a).total_cmp(&rules(b)))
}

fn rules(cell: &Cell<'_>) -> f64 {
    cell.number("rules").unwrap_or(0.0)
}

/// Rates of insertion, pair by pair of repeats, of enough of them.
fn ratio(one: &Cell<'_>, other: &Cell<'_>) -> Option<Estimate> {
    paired(one, other, "operations_per_s").filter(|e| e.repeats >= REPEATS_MIN)
}

/// The root group against another one, both as full as the root can be.
fn root_against_group(all: &[&Cell<'_>], device: &str) -> Option<Finding> {
    let root = RateSubject { all, device, group: 0.0 };
    let group = RateSubject { all, device, group: 1.0 };
    let full = root.largest(SINGLE)?;
    let same = group.of(SINGLE).into_iter().find(|cell| rules(cell) == rules(full))?;
    let ratio = ratio(full, same)?;
    let (number, is_faster) = comparison(&ratio, FAST);
    let sentence = format!(
        "{device} creates {} in group 0 {is_faster} in group 1{}.",
        words::rules(rules(full)),
        words::few(&ratio)
    );
    let implication = match verdict(&ratio)? {
        RatioVerdict::NoCost => "The group does not affect the rate.",
        RatioVerdict::Differs if ratio.median < 1.0 => {
            "Put rules that change often into a group other than 0."
        }
        RatioVerdict::Differs => "Group 0 accepts rules faster than other groups.",
    };
    Some(root.finding("root-insert", number, (sentence, implication), "stacks"))
}

/// A rate is kept where rules come at this share of it at least.
const KEPT_MIN: f64 = 0.95;

/// When rules take effect.
fn effect(results: &Results<'_>, device: &str, core: &str) -> Option<Finding> {
    let cells = results.cells.of(device, "effect").filter(|cell| cell.word("core") == core);
    let place = |cell: &Cell<'_>| ["group", "per_s"].map(|axis| cell.number(axis).unwrap_or(0.0));
    let order = |a: &&Cell<'_>, b: &&Cell<'_>| place(a).partial_cmp(&place(b));
    let cell = cells.max_by(|a, b| order(a, b).unwrap_or(std::cmp::Ordering::Equal))?;
    let all = |metric, wanted: f64| cell.values(metric).iter().all(|count| *count == wanted);
    let (rules, per_s) = (cell.number("flows")?, cell.number("per_s")?);
    // All of them in effect, each seen, at the rate that was asked for.
    let is_whole = all("operations_done", rules) && all("effects", rules);
    let is_kept = cell.values("operations_per_s").iter().all(|rate| *rate >= KEPT_MIN * per_s);
    if !is_whole || !all("effects_missing", 0.0) || (rules > 1.0 && !is_kept) {
        return None;
    }
    let effect = cell.estimate("effect_ns_p99").filter(|e| e.repeats >= REPEATS_MIN)?;
    let resolution = cell.estimate("effect_resolution_ns")?;
    if cell.is_generator_limited() || cell.is_disturbed() {
        return None;
    }
    let number = Number::new(&effect, "ns");
    let from = match effect.median == 0.0 {
        true => format!("since the create call began ({number})"),
        false => format!("{number} or more after the create call began"),
    };
    let sentence = format!(
        "99 % of new rules in group {} of {device} match every frame that left {from} ({} creates \
         {} a second; resolution {}){}.",
        words::whole(cell.number("group").unwrap_or(0.0)),
        core_words(cell),
        words::whole(per_s),
        words::time(resolution.median),
        words::few(&effect)
    );
    // A frame that left behind the call and did not meet the rule shows that it was not there yet.
    let (effects, calls) = (cell.values("effect_ns_p99"), cell.values("call_ns_p99"));
    let is_late = match paired_ratio(&effects, &calls) {
        Some(of_call) => of_call.is_above(1.0)?,
        None => effect.is_above(0.0)?,
    };
    let implication = match is_late {
        false => "A rule is in effect when its create call returns, within this resolution.",
        true => "A rule is in effect some time after its create call: wait before relying on it.",
    };
    Some(told(device, format!("effect-{core}"), number, (sentence, implication), None))
}
