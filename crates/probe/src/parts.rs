//! The breakdown of the stacks' parts: where the time of a round trip goes, inside the kernels too.
//!
//! Both hosts are one machine, so that all stamps are of one clock. The parts of a direction meet:
//! each begins where the one before it ends, and with the program's part they add up to the round
//! trip.

use niclab_packet::echo::{Passage, StampPoint};

use crate::breakdown::{at, middle};
use crate::deep::{Inner, Inside};

/// Parts of one direction.
pub const DIRECTION: usize = 9;

/// Their names in documents, in the order in which a message passes: of the request, the program,
/// and of the reply.
pub const NAMES: [&str; DIRECTION] = [
    "stack_send",
    "qdisc",
    "driver_send",
    "wire",
    "softirq_wait",
    "driver_receive",
    "stack_receive",
    "wake_up",
    "socket_receive",
];

/// One part, of one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectionPart {
    /// Its name.
    pub name: &'static str,
    /// Of the reply; else of the request.
    pub is_reply: bool,
    /// Mean over the messages whose round trip is in the middle tenth, nanoseconds.
    pub mean_ns: f64,
    /// Median and 99th percentile over all messages, nanoseconds.
    pub median_ns: f64,
    /// As said.
    pub tail_ns: f64,
}

/// The parts of a round trip.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundTripParts {
    /// Messages with all stamps.
    pub messages: usize,
    /// Messages that lack one, or whose stamps contradict each other: they are left out.
    pub incomplete: usize,
    /// Median of the round trips, nanoseconds.
    pub rtt_ns: f64,
    /// The program of the server, mean over the middle tenth, nanoseconds.
    pub application_ns: f64,
    /// The parts of the request, then those of the reply, in the order of [`NAMES`].
    pub parts: Vec<DirectionPart>,
}

/// The parts of one message, nanoseconds.
struct Times {
    parts: [[f64; DIRECTION]; 2],
    application: f64,
    rtt: f64,
}

impl Times {
    fn of(passage: &Passage, inner: &Inner) -> Option<Times> {
        let at = |place| passage.at(place).map(|stamp| stamp.time_ns);
        let of = |is_reply: bool, [from, ingress, to]: [StampPoint; 3]| {
            direction(at(from)?, at(ingress)?, at(to)?, |place| inner.at(is_reply, place))
        };
        use StampPoint::*;
        let request = of(false, [ClientSend, ServerIngress, ServerReceive])?;
        let reply = of(true, [ServerSend, ClientIngress, ClientReceive])?;
        let between = |from, to| Some(at(to)?.checked_sub(at(from)?)? as f64);
        let application = between(ServerReceive, ServerSend)?;
        let rtt = between(ClientSend, ClientReceive)?;
        Some(Times { parts: [request, reply], application, rtt })
    }
}

/// The parts of one direction: from the sender's call over the other interface to the return of the
/// receiver's call. `None` where a stamp is missing or comes before the one that it follows.
fn direction(
    from_ns: u64,
    ingress_ns: u64,
    to_ns: u64,
    at: impl Fn(Inside) -> Option<u64>,
) -> Option<[f64; DIRECTION]> {
    let to_driver = at(Inside::ToDriver)?;
    // What goes on before the driver returns is the way: the other side has the packet.
    let sent = at(Inside::Sent)?.min(ingress_ns);
    // A softirq that ran already when the packet came was asked for by another.
    let raised = at(Inside::Raised).filter(|time| *time >= to_driver).unwrap_or(sent);
    let started = at(Inside::Started).filter(|time| *time >= raised).unwrap_or(raised);
    let delivered = at(Inside::Delivered)?;
    // Who polls is not woken, and another may be meanwhile.
    let runs = at(Inside::Runs).filter(|time| (delivered..=to_ns).contains(time));
    let ends = [
        at(Inside::Queued)?,
        to_driver,
        sent.min(raised),
        raised,
        started,
        ingress_ns,
        delivered,
        runs.unwrap_or(delivered),
        to_ns,
    ];
    let mut parts = [0.0; DIRECTION];
    let mut begin = from_ns;
    for (part, end) in parts.iter_mut().zip(ends) {
        *part = end.checked_sub(begin)? as f64;
        begin = end;
    }
    Some(parts)
}

impl RoundTripParts {
    /// The parts of these messages; `None` where none has all stamps.
    pub fn of<'a>(
        messages: impl IntoIterator<Item = (&'a Passage, &'a Inner)>,
    ) -> Option<RoundTripParts> {
        let (mut all, mut incomplete) = (Vec::new(), 0);
        for (passage, inner) in messages {
            match Times::of(passage, inner) {
                Some(times) => all.push(times),
                None => incomplete += 1,
            }
        }
        let (rtt_ns, chosen) = middle(&all, |times| times.rtt)?;
        let mean = |of: &dyn Fn(&Times) -> f64| {
            chosen.iter().map(|times| of(times)).sum::<f64>() / chosen.len() as f64
        };
        let part = |(is_reply, place): (bool, usize)| {
            let of = |times: &Times| times.parts[usize::from(is_reply)][place];
            let mut values: Vec<f64> = all.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            Some(DirectionPart {
                name: NAMES[place],
                is_reply,
                mean_ns: mean(&of),
                median_ns: at(&values, 0.5)?,
                tail_ns: at(&values, 0.99)?,
            })
        };
        let places =
            [false, true].into_iter().flat_map(|reply| (0..DIRECTION).map(move |at| (reply, at)));
        let parts = places.map(part).collect::<Option<_>>()?;
        let application_ns = mean(&|times: &Times| times.application);
        Some(RoundTripParts { messages: all.len(), incomplete, rtt_ns, application_ns, parts })
    }

    /// What of the median round trip no part has, as a share of it; negative where they have more.
    pub fn residue_ratio(&self) -> f64 {
        let sum: f64 = self.parts.iter().map(|part| part.mean_ns).sum();
        (self.rtt_ns - sum - self.application_ns) / self.rtt_ns
    }
}

#[cfg(test)]
mod tests {
    use niclab_packet::echo::{PLACES, Stamp};

    use super::*;

    const STEPS: [u64; DIRECTION] = [300, 300, 400, 500, 600, 700, 800, 900, 1000];

    /// A message that leaves at `start_ns` and takes these steps there, and back.
    fn message(start_ns: u64, there: [u64; DIRECTION], back: [u64; DIRECTION]) -> (Passage, Inner) {
        let (mut passage, mut inner) = (Passage::default(), Inner::default());
        let mut now_ns = start_ns;
        let at = |time_ns| Stamp { time_ns, core: None };
        for (is_reply, steps) in [(false, there), (true, back)] {
            let [send, egress, ingress, receive] =
                std::array::from_fn(|place| PLACES[place + 4 * usize::from(is_reply)]);
            passage.put(send, at(now_ns));
            for (step, take_ns) in steps.into_iter().enumerate() {
                now_ns += take_ns;
                use Inside::*;
                match step {
                    5 => passage.put(ingress, at(now_ns)),
                    8 => passage.put(receive, at(now_ns)),
                    _ => {
                        let places =
                            [Queued, ToDriver, Sent, Raised, Started, Sent, Delivered, Runs];
                        inner.put(is_reply, places[step], now_ns);
                    }
                }
                if step == 0 {
                    passage.put(egress, at(now_ns - 1));
                }
            }
            now_ns += 50;
        }
        (passage, inner)
    }

    fn parts(messages: &[(Passage, Inner)]) -> Option<RoundTripParts> {
        RoundTripParts::of(messages.iter().map(|(passage, inner)| (passage, inner)))
    }

    #[test]
    fn parts_are_what_they_are_and_add_up() {
        let back = STEPS.map(|ns| ns + 5);
        let all: Vec<_> = (1..=100).map(|at| message(at * 1_000_000, STEPS, back)).collect();
        let parts = parts(&all).unwrap();
        let means: Vec<u64> = parts.parts.iter().map(|part| part.mean_ns as u64).collect();
        assert_eq!(means, [STEPS, back].concat());
        let names: Vec<&str> = parts.parts.iter().map(|part| part.name).collect();
        assert_eq!(names, [NAMES, NAMES].concat());
        assert_eq!((parts.messages, parts.incomplete, parts.application_ns), (100, 0, 50.0));
        assert_eq!((parts.rtt_ns, parts.residue_ratio()), (11_095.0, 0.0));
    }

    #[test]
    fn a_softirq_that_ran_already_leaves_no_wait_and_the_sum_stands() {
        let mut all = vec![message(1_000_000, STEPS, STEPS)];
        let sent = all[0].1.at(false, Inside::Sent).unwrap();
        all[0].1.put(false, Inside::Raised, 900_000);
        all[0].1.put(false, Inside::Started, 900_100);
        let parts = parts(&all).unwrap();
        assert_eq!((parts.parts[3].mean_ns, parts.parts[4].mean_ns), (0.0, 0.0));
        let ingress = all[0].0.at(StampPoint::ServerIngress).unwrap().time_ns;
        assert_eq!(parts.parts[5].mean_ns, (ingress - sent) as f64);
        assert_eq!(parts.residue_ratio(), 0.0);
    }

    #[test]
    fn what_the_other_side_does_before_the_driver_returns_is_no_time_of_the_driver() {
        let mut all = vec![message(1_000_000, STEPS, STEPS)];
        let to_driver = all[0].1.at(true, Inside::ToDriver).unwrap();
        all[0].1.put(true, Inside::Raised, to_driver + 10);
        let parts = parts(&all).unwrap();
        assert_eq!((parts.parts[11].mean_ns, parts.parts[12].mean_ns), (10.0, 0.0));
        assert_eq!(parts.residue_ratio(), 0.0);
    }

    #[test]
    fn who_polls_is_not_woken() {
        let mut all = vec![message(1_000_000, STEPS, STEPS)];
        let returned = all[0].0.at(StampPoint::ServerReceive).unwrap().time_ns;
        for runs_ns in [0, returned + 1] {
            all[0].1.put(false, Inside::Runs, runs_ns);
            let parts = parts(&all).unwrap();
            assert_eq!((parts.parts[7].mean_ns, parts.parts[8].mean_ns), (0.0, 1_900.0));
            assert_eq!(parts.residue_ratio(), 0.0);
        }
    }

    #[test]
    fn stamps_that_are_missing_or_out_of_order_leave_the_message_out() {
        let whole = message(1_000_000, STEPS, STEPS);
        let mut early = whole;
        early.1.put(true, Inside::Delivered, 1);
        let mut lacking = whole;
        lacking.1.put(false, Inside::Delivered, 0);
        let two = parts(&[whole, early, lacking]).unwrap();
        assert_eq!((two.messages, two.incomplete), (1, 2));
        assert_eq!(parts(&[early, lacking]), None);
    }
}
