//! The metrics of `stream`.

use niclab_device::stream::{Stream, Transport};
use niclab_device::{CoreUse, StreamObservation};
use niclab_result::Mark;

use crate::measure::{Metrics, UnsentBasis, put, put_ratio};
use crate::metrics::{Metric, TrialMetrics, higher, lower, neither};
use crate::spec::TrialKind;

/// One host sends to another as much as goes.
pub(crate) const STREAM: TrialKind = TrialKind::new("stream");

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[TrialMetrics {
    trial: STREAM.name(),
    points: Some("stream"),
    judged_by: &[CARRIED],
    headlines: &[CARRIED, CPU],
    metrics: &[DATA],
    is_throughput: false,
    judged: UnsentBasis::Whole,
}];

/// Amounts and costs of bulk data.
const DATA: &[Metric] = &[
    higher(CARRIED, "bit/s", "payload that the receiver got"),
    higher("sent_bits_per_s", "bit/s", "payload that the sender's kernel took"),
    neither("sent_messages", "messages", "writes, or datagrams"),
    neither("unsent_messages", "messages", "were due by a rate and never left"),
    neither("received_messages", "messages", "datagrams that came"),
    neither("lost_messages", "messages", "datagrams whose numbers are missing"),
    neither("reordered_messages", "messages", "came behind a later one"),
    neither("foreign_messages", "messages", "are none of ours"),
    lower("loss_ratio", "1", "lost divided by lost and received, over UDP"),
    neither("retransmitted_segments", "segments", "sent again by TCP"),
    lower(
        "…cpu_ns_per_gigabit",
        "ns",
        "time of the cores, of both sides or of one, divided by the received data",
    ),
    neither("…_busy_ratio", "1", "share of the time in which a side's cores worked"),
    neither("…_user_ratio", "1", "of this, in programs"),
    neither("…_system_ratio", "1", "of this, in the kernel"),
    neither("…_softirq_ratio", "1", "of this, in softirqs and interrupts"),
    neither("…_thread_ratio", "1", "share in which the threads of a side were on a core"),
    neither(OTHERS, "1", "time of other programs, of the side that had more"),
];

/// Share of the datagrams due that a sender may leave unsent before a trial is marked.
const UNSENT_MAX: f64 = 0.005;

/// Payload that arrived, bits a second.
pub(crate) const CARRIED: &str = "carried_bits_per_s";

/// Time of both sides' cores for what arrived.
pub(crate) const CPU: &str = "cpu_ns_per_gigabit";

/// Share of the time in which the sender's cores worked.
pub(crate) const SENDER_BUSY: &str = "sender_busy_ratio";

/// The same of the receiver's.
pub(crate) const RECEIVER_BUSY: &str = "receiver_busy_ratio";

/// Share of a side's cores that programs of others had, the greater of both.
pub(crate) const OTHERS: &str = "others_ratio";

/// The metrics of a stream.
pub(crate) fn put_stream(metrics: &mut Metrics, observation: &StreamObservation, stream: &Stream) {
    let (sent, received) = (&observation.sent, &observation.received);
    put(metrics, CARRIED, received.bits_per_s(), "bit/s");
    put(metrics, "sent_bits_per_s", sent.bits_per_s(), "bit/s");
    put(metrics, "sent_messages", sent.messages as f64, "messages");
    if stream.transport == Transport::Udp {
        for (name, count) in [
            ("unsent_messages", sent.unsent),
            ("received_messages", received.messages),
            ("lost_messages", received.lost),
            ("reordered_messages", received.reordered),
            ("foreign_messages", received.foreign),
        ] {
            put(metrics, name, count as f64, "messages");
        }
        put_ratio(metrics, "loss_ratio", received.lost, received.lost + received.messages);
    }
    if let Some(segments) = sent.retransmits {
        put(metrics, "retransmitted_segments", segments as f64, "segments");
    }
    put_use(metrics, observation, stream);
}

/// A part of a core's time.
type CoreTimePart = fn(&CoreUse) -> u64;

fn put_use(metrics: &mut Metrics, observation: &StreamObservation, stream: &Stream) {
    let gigabits = observation.received.bytes as f64 * 8e-9;
    let busy = |cores: &[CoreUse]| cores.iter().map(CoreUse::busy_ns).sum::<u64>() as f64;
    let sides = [
        ("sender", &observation.sender_cores, observation.sent.time, observation.sent.duration_ns),
        (
            "receiver",
            &observation.receiver_cores,
            observation.received.time,
            observation.received.duration_ns,
        ),
    ];
    let mut others: f64 = 0.0;
    for (side, cores, time, duration_ns) in sides {
        let had: u64 = cores.iter().map(|core| core.busy_ns() + core.idle_ns).sum();
        let programs: u64 = cores.iter().map(|core| core.user_ns + core.nice_ns).sum();
        if had > 0 {
            others = others.max(programs.saturating_sub(time.user_ns) as f64 / had as f64);
        }
        let parts: [(&str, CoreTimePart); 4] = [
            ("busy", CoreUse::busy_ns),
            ("user", |core| core.user_ns + core.nice_ns),
            ("system", |core| core.system_ns),
            ("softirq", |core| core.softirq_ns + core.irq_ns),
        ];
        for (part, of) in parts.into_iter().filter(|_| had > 0) {
            let share = cores.iter().map(of).sum::<u64>() as f64 / had as f64;
            put(metrics, &format!("{side}_{part}_ratio"), share, "1");
        }
        let all_ns = duration_ns as f64 * f64::from(stream.threads);
        if all_ns > 0.0 {
            // A thread looks at the clock behind its last call, which may end behind the part.
            let share = (time.total_ns() as f64 / all_ns).min(1.0);
            put(metrics, &format!("{side}_thread_ratio"), share, "1");
        }
        if gigabits > 0.0 {
            put(metrics, &format!("{side}_cpu_ns_per_gigabit"), busy(cores) / gigabits, "ns");
        }
    }
    put(metrics, OTHERS, others, "1");
    if gigabits > 0.0 {
        let both = busy(&observation.sender_cores) + busy(&observation.receiver_cores);
        put(metrics, CPU, both / gigabits, "ns");
    }
}

/// Why a stream ended before its time; the receiver has the last word.
pub(crate) fn ended(observation: &StreamObservation) -> Option<String> {
    observation.received.ended.clone().or(observation.sent.ended.clone())
}

/// The warnings that belong to a stream.
pub(crate) fn marks(observation: &StreamObservation) -> Vec<Mark> {
    let due = observation.sent.messages + observation.sent.unsent;
    let is_limited = observation.sent.unsent as f64 > UNSENT_MAX * due as f64;
    if is_limited { vec![Mark::GeneratorLimited] } else { Vec::new() }
}
