//! Stamps inside the network stack, for as long as the value lives.

use std::fmt;
use std::mem::{MaybeUninit, offset_of, size_of};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use crate::deep_skeleton::DeepSkelBuilder;
use crate::deep_skeleton::types::passed;
use crate::error::ProbeError;
use crate::maps::MessageId;
use crate::programs;

/// Places inside the stack that a message passes in one direction.
const PARTS: usize = 7;

/// Messages that are kept.
const ENTRIES: u32 = 1 << 14;

const _: () = {
    assert!(size_of::<passed>() == 8 + 2 * PARTS * 8 && offset_of!(passed, time_ns) == 8);
};

/// A place inside the stack, in the order in which a message passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Inside {
    /// UDP and IP are done, it goes to the queueing discipline (`net:net_dev_queue`).
    Queued,
    /// Which gives it to the driver (`net:net_dev_start_xmit`).
    ToDriver,
    /// The driver returns (`net:net_dev_xmit`).
    Sent,
    /// An interrupt of the other side asks for its receiving softirq (`irq:softirq_raise`).
    Raised,
    /// Which begins (`irq:softirq_entry`).
    Started,
    /// The socket has it, and wakes who waits (`sock:sk_data_ready`).
    Delivered,
    /// Who slept runs (`sched:sched_switch`); nobody, where the program polls.
    Runs,
}

/// When a message passed the places inside the stacks, `CLOCK_MONOTONIC`, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inner {
    /// Of the request and of the reply, by [`Inside`]; 0 where there is no stamp.
    times_ns: [[u64; PARTS]; 2],
}

impl Inner {
    /// When the request, or the reply, passed a place; `None` where there is no stamp.
    pub fn at(&self, is_reply: bool, place: Inside) -> Option<u64> {
        let time_ns = self.times_ns[usize::from(is_reply)][place as usize];
        (time_ns > 0).then_some(time_ns)
    }

    /// Puts a stamp there.
    pub fn put(&mut self, is_reply: bool, place: Inside, time_ns: u64) {
        self.times_ns[usize::from(is_reply)][place as usize] = time_ns;
    }
}

/// Programs at tracepoints of the kernel that stamp the echo messages of one port
/// over UDP; dropped, they go. They see the messages of all interfaces and namespaces.
pub struct Deep {
    passed: MapHandle,
    _links: Vec<Link>,
}

impl fmt::Debug for Deep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deep").finish_non_exhaustive()
    }
}

impl Deep {
    /// Stamps the messages from and to this port.
    ///
    /// # Errors
    /// [`ProbeError::NotAllowed`] without the right; [`ProbeError::NoTracepoint`] where the kernel
    /// has not one of the tracepoints; whatever else keeps the programs from being attached.
    pub fn attach(port: u16) -> Result<Deep, ProbeError> {
        if port == 0 {
            return Err(ProbeError::NoPort);
        }
        let mut object = MaybeUninit::uninit();
        let mut open = programs::listening(|| DeepSkelBuilder::default().open(&mut object))?;
        if let Some(settings) = open.maps.rodata_data.as_mut() {
            settings.port = port;
        }
        let skeleton = programs::listening(|| open.load())?;
        let passed = MapHandle::try_from(&skeleton.maps.passed)
            .map_err(|e| ProbeError::bpf("keep a map", &e))?;
        let progs = [
            ("net_dev_queue", &skeleton.progs.niclab_queued),
            ("net_dev_start_xmit", &skeleton.progs.niclab_to_driver),
            ("net_dev_xmit", &skeleton.progs.niclab_sent),
            ("softirq_raise", &skeleton.progs.niclab_raised),
            ("softirq_entry", &skeleton.progs.niclab_started),
            ("softirq_exit", &skeleton.progs.niclab_ended),
            ("netif_receive_skb", &skeleton.progs.niclab_came),
            ("sk_data_ready", &skeleton.progs.niclab_delivered),
            ("sched_waking", &skeleton.progs.niclab_waking),
            ("sched_switch", &skeleton.progs.niclab_runs),
        ];
        let attach = |(name, program): (&'static str, &libbpf_rs::ProgramMut<'_>)| {
            program.attach().map_err(|error| match error.kind() {
                libbpf_rs::ErrorKind::NotFound => ProbeError::NoTracepoint { name },
                _ => ProbeError::bpf("attach a program to a tracepoint", &error),
            })
        };
        let links = progs.into_iter().map(attach).collect::<Result<_, _>>()?;
        Ok(Deep { passed, _links: links })
    }

    /// The stamps of a message; of one run the last 16,384 messages are kept.
    ///
    /// # Errors
    /// What the kernel says against reading.
    pub fn message(&self, id: MessageId) -> Result<Option<Inner>, ProbeError> {
        let at = id.run.wrapping_mul(0x9e37_79b1).wrapping_add(id.number) % ENTRIES;
        let entry = self
            .passed
            .lookup(&at.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| ProbeError::bpf("read a map of stamps", &e))?
            .unwrap_or_default();
        Ok(inner(&entry, id))
    }
}

/// What an entry says of a message, if it is its own.
fn inner(entry: &[u8], id: MessageId) -> Option<Inner> {
    let word = |at: usize| Some(u32::from_ne_bytes(*entry.get(at..)?.first_chunk()?));
    if (word(offset_of!(passed, run))?, word(offset_of!(passed, number))?) != (id.run, id.number) {
        return None;
    }
    let mut inner = Inner::default();
    let times = entry.get(offset_of!(passed, time_ns)..)?.chunks_exact(8);
    for (time_ns, bytes) in inner.times_ns.iter_mut().flatten().zip(times) {
        *time_ns = u64::from_ne_bytes(*bytes.first_chunk()?);
    }
    Some(inner)
}
