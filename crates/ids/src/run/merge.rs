//! The events of all engines as those of one: without doubles, in the order of their times.
//!
//! Suricata writes an event as a line of JSON with its time (user guide of Suricata 7.0, "Eve JSON
//! Format").

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Deserialize;

use super::pipe::Pipe;
use super::setup::Setup;
use crate::region::FlowEnds;
use crate::rule::Transport;

/// How long an event waits for earlier ones of other engines.
const HOLD: Duration = Duration::from_secs(2);

/// Events that wait, at most.
const HELD_MAX: usize = 1 << 17;

/// Time from the last packet that a core of the card sent by the old partition until that packet
/// has its time: the rest of a turn of the core.
const CHANGE_NS: i128 = 5_000_000;

/// What an event says of itself.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    timestamp: Cow<'a, str>,
    #[serde(borrow)]
    proto: Option<Cow<'a, str>>,
    src_ip: Option<IpAddr>,
    src_port: Option<u16>,
    dest_ip: Option<IpAddr>,
    dest_port: Option<u16>,
    alert: Option<Alert>,
    /// The number of its packet in a trace, from 1.
    pcap_cnt: Option<u64>,
}

#[derive(Deserialize)]
struct Alert {
    gid: Option<u32>,
    signature_id: u32,
}

impl Event<'_> {
    fn time_ns(&self) -> Option<i128> {
        let time = Timestamp::strptime("%Y-%m-%dT%H:%M:%S%.f%z", &*self.timestamp).ok()?;
        Some(time.as_nanosecond())
    }

    /// The flow that it is about.
    fn flow(&self) -> Option<FlowEnds> {
        let transport = match self.proto.as_deref()? {
            "TCP" => Transport::Tcp,
            "UDP" => Transport::Udp,
            "SCTP" => Transport::Sctp,
            "ICMP" | "IPv6-ICMP" => Transport::Icmp,
            _ => Transport::Other,
        };
        let port = |port: Option<u16>| port.unwrap_or(0);
        Some(FlowEnds {
            transport,
            source: (self.src_ip?, port(self.src_port)),
            destination: (self.dest_ip?, port(self.dest_port)),
        })
    }
}

/// What became of the events of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounters {
    /// Alerts that count.
    pub alerts: u64,
    /// Other events that count.
    pub others: u64,
    /// Events that do not count: another engine reports them.
    pub doubles: u64,
    /// Events that are cut short, because the engine died, or no JSON.
    pub damaged: u64,
}

/// A flow and the `gid` and `sid` of an alert, if the event has them.
type Subject = (Option<FlowEnds>, Option<(u32, u32)>);

/// A change of the rules.
struct Change {
    before: Arc<Setup>,
    /// The time before which only the old partition held, and after which only the new one.
    from_ns: i128,
    until_ns: i128,
    /// Between them: who reports what, if the two partitions differ in it.
    reporters: HashMap<Subject, usize>,
}

struct Held {
    time_ns: i128,
    /// Which it was, in the order of arrival.
    number: u64,
    line: Vec<u8>,
}

/// Brings the events of all engines together.
pub(super) struct Merge {
    /// The ways to the engines, if they are pipes: events of niclab's own frames do not count.
    pipes: Vec<Pipe>,
    setup: Arc<Setup>,
    change: Option<Change>,
    counters: Vec<EventCounters>,
    held: BinaryHeap<Reverse<Held>>,
    /// The times of held events in the order of arrival, with when each arrived.
    arrivals: VecDeque<(Instant, i128)>,
    arrived: u64,
    /// By rule, alerts that count.
    alerts: BTreeMap<(u32, u32), u64>,
    /// The latest time of the events that have waited long enough.
    due_ns: i128,
    /// The latest time of the events that were given out.
    last_ns: i128,
    /// Events that came after a later one had been given out.
    late: u64,
}

impl Merge {
    pub(super) fn new(setup: Arc<Setup>, pipes: Vec<Pipe>) -> Merge {
        let engines = setup.partition().cores_count();
        Merge {
            pipes,
            setup,
            change: None,
            counters: vec![EventCounters::default(); engines],
            held: BinaryHeap::new(),
            arrivals: VecDeque::new(),
            arrived: 0,
            alerts: BTreeMap::new(),
            due_ns: i128::MIN,
            last_ns: i128::MIN,
            late: 0,
        }
    }

    /// The rules changed between two times.
    pub(super) fn change(&mut self, setup: Arc<Setup>, from_ns: i128, until_ns: i128) {
        let before = std::mem::replace(&mut self.setup, setup);
        let (until_ns, reporters) = (until_ns + CHANGE_NS, HashMap::new());
        self.change = Some(Change { before, from_ns, until_ns, reporters });
    }

    /// Every event of the old rules has come.
    pub(super) fn settle(&mut self) {
        self.change = None;
    }

    /// Takes a line of an engine.
    pub(super) fn take(&mut self, engine: usize, mut line: Vec<u8>, is_whole: bool, now: Instant) {
        if line.first() != Some(&b'{') {
            // Suricata speaks of its configuration there, until it has read where to speak.
            return;
        }
        let event = serde_json::from_slice::<Event<'_>>(&line).ok();
        let event = event.and_then(|event| Some((event.time_ns()?, event)));
        let Some((time_ns, event)) = event.filter(|_| is_whole) else {
            self.counters[engine].damaged += 1;
            return;
        };
        let pipe = self.pipes.get(engine);
        if event.pcap_cnt.is_some_and(|number| pipe.is_some_and(|pipe| pipe.is_own(number))) {
            return;
        }
        let flow = event.flow();
        let rule = event.alert.map(|alert| (alert.gid.unwrap_or(1), alert.signature_id));
        let Some(setup) = self.counting(engine, time_ns, flow.as_ref(), rule) else {
            self.counters[engine].doubles += 1;
            return;
        };
        match rule {
            None => self.counters[engine].others += 1,
            Some((gid, sid)) => {
                self.counters[engine].alerts += 1;
                let own = setup.own_gid(gid, sid);
                if let Some(own) = own {
                    line = with_gid(&line, gid, own);
                }
                *self.alerts.entry((own.unwrap_or(gid), sid)).or_default() += 1;
            }
        }
        self.arrived += 1;
        self.held.push(Reverse(Held { time_ns, number: self.arrived, line }));
        self.arrivals.push_back((now, time_ns));
    }

    /// The rules by which an event counts, if it does.
    fn counting(
        &mut self,
        engine: usize,
        time_ns: i128,
        flow: Option<&FlowEnds>,
        rule: Option<(u32, u32)>,
    ) -> Option<Arc<Setup>> {
        let Some(change) = self.change.as_mut().filter(|change| time_ns <= change.until_ns) else {
            return self.setup.counts(engine, flow, rule).then(|| Arc::clone(&self.setup));
        };
        let by_old = change.before.counts(engine, flow, rule);
        if time_ns < change.from_ns {
            return by_old.then(|| Arc::clone(&change.before));
        }
        let by_new = self.setup.counts(engine, flow, rule);
        let [is_new, is_old] =
            [&self.setup, &change.before].map(|setup| setup.goes_to(engine, flow));
        if is_new != is_old {
            // No packet of the other partition goes to this engine.
            let (counts, setup) =
                if is_new { (by_new, &self.setup) } else { (by_old, &change.before) };
            return counts.then(|| Arc::clone(setup));
        }
        if by_new != by_old {
            // The packet may have gone to the engine of the other partition, too.
            let reporter = *change.reporters.entry((flow.copied(), rule)).or_insert(engine);
            if reporter != engine {
                return None;
            }
        }
        let setup = if by_new { &self.setup } else { &change.before };
        (by_new || by_old).then(|| Arc::clone(setup))
    }

    /// The next event that need not wait any longer; with `all`, any event that waits.
    pub(super) fn next(&mut self, now: Instant, all: bool) -> Option<Vec<u8>> {
        // All that is earlier than an event that has waited long enough goes with it.
        while let Some((at, time_ns)) = self.arrivals.front()
            && now.duration_since(*at) >= HOLD
        {
            self.due_ns = self.due_ns.max(*time_ns);
            self.arrivals.pop_front();
        }
        let Reverse(first) = self.held.peek()?;
        if !all && self.held.len() <= HELD_MAX && first.time_ns > self.due_ns {
            return None;
        }
        let Reverse(first) = self.held.pop()?;
        self.late += u64::from(first.time_ns < self.last_ns);
        self.last_ns = self.last_ns.max(first.time_ns);
        Some(first.line)
    }

    /// By engine, what became of its events.
    pub(super) fn counters(&self) -> &[EventCounters] {
        &self.counters
    }

    /// Alerts that count, by `gid` and `sid`.
    pub(super) fn alerts(&self) -> &BTreeMap<(u32, u32), u64> {
        &self.alerts
    }

    /// Events that were given out after a later one.
    pub(super) fn late(&self) -> u64 {
        self.late
    }
}

/// A line with another `gid`. No text in an event has these characters: its quotation marks have a
/// backslash.
fn with_gid(line: &[u8], gid: u32, own: u32) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    text.replacen(&format!("\"gid\":{gid},"), &format!("\"gid\":{own},"), 1).into_bytes()
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Held) -> std::cmp::Ordering {
        (self.time_ns, self.number).cmp(&(other.time_ns, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Variables;
    use crate::partition::{Partition, Placement, Traffic};
    use crate::rule::read;

    const RULES: &str = "alert tcp any any -> any 25 (sid:1;)\nalert tcp any any -> any 80 \
                         (sid:2;)\nalert http any any -> any any (sid:3;)\n";

    fn setup(text: &str, before: Option<&Setup>) -> Arc<Setup> {
        let rules = read(text, &Variables::default()).unwrap();
        let partition = Partition::new(&rules, &Traffic::default(), 2).unwrap();
        Arc::new(Setup::new(rules, partition, before))
    }

    fn core(setup: &Setup, rule: usize) -> usize {
        match setup.partition().group_of(rule).placement {
            Placement::Core(core) => core,
            Placement::Replicated(_) => panic!("rule {rule} is on several"),
        }
    }

    fn alert(micros: u32, port: u16, sid: u32) -> Vec<u8> {
        format!(
            "{{\"timestamp\":\"2026-11-28T10:00:00.{micros:06}+0100\",\"event_type\":\"alert\",\
             \"src_ip\":\"10.0.0.1\",\"src_port\":9,\"dest_ip\":\"10.0.0.2\",\"dest_port\":{port},\
             \"proto\":\"TCP\",\"alert\":{{\"gid\":1,\"signature_id\":{sid}}}}}"
        )
        .into_bytes()
    }

    fn all(merge: &mut Merge) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| merge.next(Instant::now(), true)).collect()
    }

    #[test]
    fn each_alert_counts_once_and_in_the_order_of_time() {
        let setup = setup(RULES, None);
        let (mail, web) = (core(&setup, 0), core(&setup, 1));
        assert_ne!(mail, web);
        let mut merge = Merge::new(setup, Vec::new());
        let now = Instant::now();
        merge.take(web, alert(30, 80, 2), true, now);
        merge.take(mail, alert(20, 25, 1), true, now);
        // HTTP on port 80 is reported where the rule of port 80 is.
        merge.take(web, alert(10, 80, 3), true, now);
        merge.take(mail, alert(10, 80, 3), true, now);
        assert!(merge.next(now, false).is_none(), "earlier ones may come");
        assert_eq!(all(&mut merge), [alert(10, 80, 3), alert(20, 25, 1), alert(30, 80, 2)]);
        assert_eq!(merge.late(), 0);
        let [of_mail, of_web] = [mail, web].map(|core| merge.counters()[core]);
        assert_eq!((of_mail.alerts, of_mail.doubles), (1, 1));
        assert_eq!((of_web.alerts, of_web.doubles), (2, 0));
        merge.take(web, alert(15, 80, 2), true, now);
        assert_eq!((all(&mut merge).len(), merge.late()), (1, 1));
    }

    #[test]
    fn an_event_waits_for_earlier_ones() {
        let setup = setup(RULES, None);
        let (mail, web) = (core(&setup, 0), core(&setup, 1));
        let mut merge = Merge::new(setup, Vec::new());
        let now = Instant::now();
        merge.take(web, alert(30, 80, 2), true, now);
        merge.take(mail, alert(20, 25, 1), true, now + HOLD / 2);
        merge.take(web, alert(40, 80, 2), true, now + HOLD / 2);
        assert_eq!(merge.next(now + HOLD, false), Some(alert(20, 25, 1)));
        assert_eq!(merge.next(now + HOLD, false), Some(alert(30, 80, 2)));
        assert_eq!(merge.next(now + HOLD, false), None);
        assert_eq!(merge.next(now + HOLD * 2, false), Some(alert(40, 80, 2)));
    }

    #[test]
    fn what_is_no_event_is_counted_and_left_out() {
        let setup = setup(RULES, None);
        let mut merge = Merge::new(setup, Vec::new());
        let whole = alert(1, 25, 1);
        for (line, is_whole) in [
            (whole[..40].to_vec(), false),
            (whole[..40].to_vec(), true),
            (b"{\"timestamp\":\"yesterday\"}".to_vec(), true),
            (b"{\xff".to_vec(), true),
        ] {
            merge.take(0, line, is_whole, Instant::now());
        }
        assert_eq!(merge.counters()[0].damaged, 4);
        merge.take(0, b"Info: conf-yaml-loader".to_vec(), true, Instant::now());
        assert_eq!(merge.counters()[0].damaged, 4, "no event at all");
        assert!(all(&mut merge).is_empty());
    }

    #[test]
    fn a_change_of_the_rules_holds_from_its_time_on() {
        let before = setup(RULES, None);
        let more = RULES.replace("any 25 ", "any [25,26] ");
        let after = setup(&more, Some(&before));
        let (old, new) = (core(&before, 0), core(&after, 0));
        let mut merge = Merge::new(Arc::clone(&before), Vec::new());
        let start: Timestamp = "2026-11-28T10:00:00+01:00".parse().unwrap();
        let start = start.as_nanosecond();
        merge.change(after, start + 500_000_000, start + 501_000_000);
        let other = |micros| {
            String::from_utf8(alert(micros, 25, 1))
                .unwrap()
                .replace("\"gid\":1,", "\"gid\":2147483649,")
        };
        let now = Instant::now();
        // The old rule counts before, and the new one after.
        merge.take(old, alert(100_000, 25, 1), true, now);
        merge.take(new, other(100_000).into_bytes(), true, now);
        merge.take(old, alert(900_000, 25, 1), true, now);
        merge.take(new, other(900_000).into_bytes(), true, now);
        assert_eq!(all(&mut merge), [alert(100_000, 25, 1), alert(900_000, 25, 1)]);
        assert_eq!(merge.alerts().get(&(1, 1)), Some(&2));
    }
}
