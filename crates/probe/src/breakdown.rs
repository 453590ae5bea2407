//! The breakdown: where the time of a round trip goes, by the stamps of its messages.
//!
//! Every difference is one of two stamps of the same clock: the client's, or the server's. What the
//! client saw pass between the two interfaces, less what the server saw of it, is the hardware's
//! and the wire's. So the terms of a message add up to its round trip whatever the two clocks say.

use niclab_packet::echo::{PLACES, Passage, StampPoint};

/// Kinds of terms.
const ALL: usize = 7;

/// What a term is of, in the order in which a message passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TermKind {
    /// The client's stack, from its call to the interface.
    ClientTransmit,
    /// The server's stack, from the interface to the program, its wake-up included.
    ServerReceive,
    /// The server's program, between its calls.
    Application,
    /// The server's stack, from its call to the interface.
    ServerTransmit,
    /// The client's stack, from the interface to the program, its wake-up included.
    ClientReceive,
    /// Interfaces, drivers below the stamps, cards and cable, both ways.
    Hardware,
    /// All of the server, stack and program, from its interface back to it: where the program takes
    /// no stamps.
    Server,
}

/// The terms of messages whose server takes stamps, in the order of a table.
pub const KINDS: [TermKind; 6] = [
    TermKind::ClientTransmit,
    TermKind::ServerReceive,
    TermKind::Application,
    TermKind::ServerTransmit,
    TermKind::ClientReceive,
    TermKind::Hardware,
];

/// The terms of requests to a program that takes none.
pub const OUTSIDE: [TermKind; 4] =
    [TermKind::ClientTransmit, TermKind::Server, TermKind::ClientReceive, TermKind::Hardware];

impl TermKind {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            TermKind::ClientTransmit => "client_transmit",
            TermKind::ServerReceive => "server_receive",
            TermKind::Application => "application",
            TermKind::ServerTransmit => "server_transmit",
            TermKind::ClientReceive => "client_receive",
            TermKind::Hardware => "hardware",
            TermKind::Server => "server",
        }
    }

    /// Where it begins and ends; of the hardware both ways.
    fn ends(self) -> (StampPoint, StampPoint) {
        use StampPoint::*;
        match self {
            TermKind::ClientTransmit => (ClientSend, ClientEgress),
            TermKind::ServerReceive => (ServerIngress, ServerReceive),
            TermKind::Application => (ServerReceive, ServerSend),
            TermKind::ServerTransmit => (ServerSend, ServerEgress),
            TermKind::ClientReceive => (ClientIngress, ClientReceive),
            TermKind::Hardware => (ClientEgress, ClientIngress),
            TermKind::Server => (ServerIngress, ServerEgress),
        }
    }
}

/// The messages that a breakdown is computed from: the middle tenth by their round trip. Their mean
/// is as far from the median as the round trips are skewed there; the residue reports that.
const MIDDLE: (f64, f64) = (0.45, 0.55);

/// One term.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// What it is of.
    pub kind: TermKind,
    /// Mean over the messages of the breakdown, nanoseconds. Of the hardware it may be negative
    /// where nothing is and the clocks' readings cost more than it.
    pub mean_ns: f64,
    /// Median and 99th percentile over all messages, nanoseconds.
    pub median_ns: f64,
    /// As said.
    pub tail_ns: f64,
    /// The core that it ended on most often, and in which share of the messages.
    pub core: Option<(u16, f64)>,
}

/// Where the time goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Breakdown {
    /// Messages with all stamps.
    pub messages: usize,
    /// Messages that lack one, which are left out.
    pub incomplete: usize,
    /// Median of the round trips, nanoseconds.
    pub rtt_ns: f64,
    /// The terms, in the order of the kinds asked for.
    pub terms: Vec<Term>,
}

/// The terms of one message by kind, those that were not asked for 0, and its round trip,
/// nanoseconds.
struct Times {
    terms: [f64; ALL],
    rtt: f64,
}

impl Times {
    fn of(passage: &Passage, kinds: &[TermKind]) -> Option<Times> {
        let at = |place| passage.at(place).map(|stamp| stamp.time_ns as i64);
        let between = |from, to| Some((at(to)? - at(from)?) as f64);
        let mut terms = [0.0; ALL];
        for &kind in kinds {
            let (from, to) = kind.ends();
            terms[kind as usize] = between(from, to)?;
        }
        terms[TermKind::Hardware as usize] -=
            between(StampPoint::ServerIngress, StampPoint::ServerEgress)?;
        Some(Times { terms, rtt: between(StampPoint::ClientSend, StampPoint::ClientReceive)? })
    }
}

impl Breakdown {
    /// The breakdown of these messages with these terms, [`KINDS`] or [`OUTSIDE`]; `None` where no
    /// message has all stamps that they need.
    pub fn of<'a>(
        passages: impl IntoIterator<Item = &'a Passage>,
        kinds: &[TermKind],
    ) -> Option<Breakdown> {
        let (mut all, mut whole) = (Vec::new(), Vec::new());
        let mut incomplete = 0;
        for passage in passages {
            match Times::of(passage, kinds) {
                Some(times) => {
                    all.push(times);
                    whole.push(passage);
                }
                None => incomplete += 1,
            }
        }
        let (rtt_ns, middle) = middle(&all, |times| times.rtt)?;
        let term = |kind: TermKind| {
            let mut values: Vec<f64> = all.iter().map(|times| times.terms[kind as usize]).collect();
            values.sort_by(f64::total_cmp);
            let sum: f64 = middle.iter().map(|times| times.terms[kind as usize]).sum();
            Some(Term {
                kind,
                mean_ns: sum / middle.len() as f64,
                median_ns: at(&values, 0.5)?,
                tail_ns: at(&values, 0.99)?,
                core: core(&whole, kind.ends().1).filter(|_| kind != TermKind::Hardware),
            })
        };
        let terms = kinds.iter().copied().map(term).collect::<Option<_>>()?;
        Some(Breakdown { messages: all.len(), incomplete, rtt_ns, terms })
    }

    /// What the terms come to, nanoseconds.
    pub fn sum_ns(&self) -> f64 {
        self.terms.iter().map(|term| term.mean_ns).sum()
    }

    /// What of the median round trip no term has, as a share of it; negative where they have more.
    pub fn residue_ratio(&self) -> f64 {
        (self.rtt_ns - self.sum_ns()) / self.rtt_ns
    }
}

/// The median of the round trips, and the middle tenth of the messages by theirs.
pub(crate) fn middle<T>(all: &[T], rtt: impl Fn(&T) -> f64) -> Option<(f64, Vec<&T>)> {
    let mut rtts: Vec<f64> = all.iter().map(&rtt).collect();
    rtts.sort_by(f64::total_cmp);
    let (low, high) = (at(&rtts, MIDDLE.0)?, at(&rtts, MIDDLE.1)?);
    let chosen = all.iter().filter(|times| (low..=high).contains(&rtt(times))).collect();
    Some((at(&rtts, 0.5)?, chosen))
}

/// A quantile of sorted values.
pub(crate) fn at(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((share * last as f64).round() as usize).copied()
}

/// The core that most stamps of a place were taken on, and their share.
fn core(passages: &[&Passage], place: StampPoint) -> Option<(u16, f64)> {
    let cores = passages.iter().filter_map(|passage| passage.at(place)?.core);
    let mut counts: Vec<(u16, usize)> = Vec::new();
    for core in cores {
        match counts.iter_mut().find(|(known, _)| *known == core) {
            Some((_, count)) => *count += 1,
            None => counts.push((core, 1)),
        }
    }
    let (core, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    Some((core, count as f64 / passages.len() as f64))
}

/// Places that programs in the kernel stamp.
pub fn of_kernel() -> impl Iterator<Item = StampPoint> {
    use StampPoint::*;
    PLACES
        .into_iter()
        .filter(|place| !matches!(place, ClientSend | ServerReceive | ServerSend | ClientReceive))
}

#[cfg(test)]
mod tests {
    use niclab_packet::echo::Stamp;

    use super::*;

    /// A message that leaves at `start_ns`, with the server's clock so far ahead.
    fn passage(start_ns: u64, ahead_ns: u64, steps: [u64; 7]) -> Passage {
        let mut passage = Passage::default();
        let mut now_ns = start_ns;
        for (at, place) in PLACES.into_iter().enumerate() {
            now_ns += if at == 0 { 0 } else { steps[at - 1] };
            let of_server = (2..=5).contains(&at);
            let time_ns = now_ns + if of_server { ahead_ns } else { 0 };
            passage.put(place, Stamp { time_ns, core: Some(u16::from(of_server)) });
        }
        passage
    }

    #[test]
    fn terms_are_what_they_are_whatever_the_servers_clock_says() {
        for ahead_ns in [0, 5_000_000_000] {
            let steps = [1_000, 200, 3_000, 50, 2_000, 300, 4_000];
            let all: Vec<Passage> =
                (1..=100).map(|i| passage(i * 1_000_000, ahead_ns, steps)).collect();
            let breakdown = Breakdown::of(&all, &KINDS).unwrap();
            let means: Vec<f64> = breakdown.terms.iter().map(|term| term.mean_ns).collect();
            assert_eq!(means, [1_000.0, 3_000.0, 50.0, 2_000.0, 4_000.0, 500.0]);
            assert_eq!((breakdown.rtt_ns, breakdown.sum_ns()), (10_550.0, 10_550.0));
            assert_eq!(breakdown.residue_ratio(), 0.0);
            let cores: Vec<Option<u16>> =
                breakdown.terms.iter().map(|term| term.core.map(|(core, _)| core)).collect();
            assert_eq!(cores, [Some(0), Some(1), Some(1), Some(1), Some(0), None]);
        }
    }

    #[test]
    fn of_a_program_without_stamps_the_server_is_one_term() {
        let mut all: Vec<Passage> = Vec::new();
        for i in 1..=100 {
            let whole = passage(i * 1_000_000, 7, [1_000, 200, 3_000, 50, 2_000, 300, 4_000]);
            let mut outside = Passage::default();
            for place in of_kernel().chain([StampPoint::ClientSend, StampPoint::ClientReceive]) {
                outside.put(place, whole.at(place).unwrap());
            }
            all.push(outside);
        }
        assert_eq!(Breakdown::of(&all, &KINDS), None);
        let breakdown = Breakdown::of(&all, &OUTSIDE).unwrap();
        let means: Vec<f64> = breakdown.terms.iter().map(|term| term.mean_ns).collect();
        assert_eq!(means, [1_000.0, 5_050.0, 4_000.0, 500.0]);
        assert_eq!(breakdown.sum_ns(), breakdown.rtt_ns);
    }

    #[test]
    fn a_tail_is_reported_and_does_not_move_the_breakdown() {
        let usual = [1_000, 200, 3_000, 50, 2_000, 300, 4_000];
        let mut all: Vec<Passage> = (1..=95).map(|i| passage(i * 1_000_000, 0, usual)).collect();
        let woken_late = [1_000, 200, 903_000, 50, 2_000, 300, 4_000];
        all.extend((96..=100).map(|i| passage(i * 1_000_000, 0, woken_late)));
        let breakdown = Breakdown::of(&all, &KINDS).unwrap();
        let receive = &breakdown.terms[TermKind::ServerReceive as usize];
        assert_eq!(
            (receive.mean_ns, receive.median_ns, receive.tail_ns),
            (3_000.0, 3_000.0, 903_000.0)
        );
    }

    #[test]
    fn messages_without_all_stamps_are_counted_and_left_out() {
        let whole = passage(1_000_000, 0, [1; 7]);
        let mut lacking = Passage::default();
        lacking.put(StampPoint::ClientSend, Stamp { time_ns: 1, core: None });
        let breakdown = Breakdown::of([&whole, &lacking, &lacking], &KINDS).unwrap();
        assert_eq!((breakdown.messages, breakdown.incomplete), (1, 2));
        assert_eq!(Breakdown::of([&lacking], &KINDS), None);
        assert_eq!(of_kernel().count(), 4);
    }
}
