//! The programs in the kernel: loading them, and what they cost.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapHandle, OpenObject, PrintLevel, set_print};

use crate::clsact::Direction;
use crate::error::ProbeError;
use crate::maps::Maps;
use crate::skeleton::{StampsSkel, StampsSkelBuilder};

const LOAD: &str = "load the programs into the kernel";

/// Bytes of the verifier's log that are shown: its verdict is at the end.
const LOG_LEN_MAX: usize = 2000;

/// The programs and their maps, which live as long as this and what holds them in the kernel.
pub struct Programs {
    pub egress: OwnedFd,
    pub ingress: OwnedFd,
    pub maps: Maps,
}

/// How often a program ran, and for how long in all.
///
/// The kernel counts only while `/proc/sys/kernel/bpf_stats_enabled` is 1, which costs some
/// nanoseconds itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramRuns {
    /// Packets that it saw, ours or not.
    pub count: u64,
    /// Time that took, nanoseconds.
    pub time_ns: u64,
}

impl Programs {
    /// Loads both for the messages of one port, on an interface whose packets have so many bytes
    /// before the IP header.
    pub fn load(port: u16, network_at: u32) -> Result<Programs, ProbeError> {
        let mut object = MaybeUninit::uninit();
        let skeleton = load(&mut object, port, network_at)?;
        let own = |fd: std::os::fd::BorrowedFd<'_>| {
            fd.try_clone_to_owned()
                .map_err(|source| ProbeError::System { what: "keep a program", source })
        };
        Ok(Programs {
            egress: own(skeleton.progs.niclab_egress.as_fd())?,
            ingress: own(skeleton.progs.niclab_ingress.as_fd())?,
            maps: maps(&skeleton)?,
        })
    }

    /// How often a program ran, as `/proc` tells of its descriptor.
    pub fn runs(&self, direction: Direction) -> Result<ProgramRuns, ProbeError> {
        let program = match direction {
            Direction::Egress => &self.egress,
            Direction::Ingress => &self.ingress,
        };
        let text =
            fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd())).map_err(
                |source| ProbeError::System { what: "read how often a program ran", source },
            )?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim_start_matches(':').trim().parse().ok())
        };
        match (field("run_cnt"), field("run_time_ns")) {
            (Some(count), Some(time_ns)) => Ok(ProgramRuns { count, time_ns }),
            _ => Err(ProbeError::System {
                what: "read how often a program ran",
                source: io::Error::from(io::ErrorKind::Unsupported),
            }),
        }
    }
}

/// Loads the object that libbpf-cargo embedded.
pub fn load(
    object: &mut MaybeUninit<OpenObject>,
    port: u16,
    network_at: u32,
) -> Result<StampsSkel<'_>, ProbeError> {
    let mut open = listening(|| StampsSkelBuilder::default().open(object))?;
    if let Some(settings) = open.maps.rodata_data.as_mut() {
        settings.port = port;
        settings.network_at = network_at;
    }
    listening(|| open.load())
}

/// Has libbpf do something, and takes what it says against it for the reason.
pub fn listening<T>(act: impl FnOnce() -> libbpf_rs::Result<T>) -> Result<T, ProbeError> {
    LOG.take();
    set_print(Some((PrintLevel::Warn, note)));
    act().map_err(|e| why(&e))
}

/// Descriptors of our own of the maps.
pub fn maps(skeleton: &StampsSkel<'_>) -> Result<Maps, ProbeError> {
    let own = |map: &libbpf_rs::MapMut<'_>| {
        MapHandle::try_from(map).map_err(|e| ProbeError::bpf("keep a map", &e))
    };
    Ok(Maps {
        messages: own(&skeleton.maps.messages)?,
        segments: own(&skeleton.maps.segments)?,
        beginnings: own(&skeleton.maps.beginnings)?,
        counters: own(&skeleton.maps.counters)?,
    })
}

thread_local! {
    /// What libbpf said on this thread since it began to load.
    static LOG: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Takes down what libbpf would print.
fn note(_: PrintLevel, text: String) {
    LOG.with_borrow_mut(|log| log.push_str(&text));
}

/// Refusals of the verifier come with a log of its own; a missing right may have the same number.
pub fn why(error: &libbpf_rs::Error) -> ProbeError {
    match verdict(&LOG.take()) {
        Some(log) => ProbeError::Refused { log },
        None => ProbeError::bpf(LOAD, error),
    }
}

/// The end of the verifier's log in what libbpf said.
fn verdict(said: &str) -> Option<String> {
    let (_, log) = said.split_once("BEGIN PROG LOAD LOG --")?;
    let (log, _) = log.split_once("-- END PROG LOAD LOG").unwrap_or((log, ""));
    let mut from = log.len().saturating_sub(LOG_LEN_MAX);
    while !log.is_char_boundary(from) {
        from += 1;
    }
    Some(log[from..].trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_libbpf_says_the_end_of_the_verifiers_log_is_kept() {
        let long = "x".repeat(LOG_LEN_MAX);
        let said = format!(
            "libbpf: prog 'a': BPF program load failed: -EACCES\nlibbpf: prog 'a': -- BEGIN PROG \
             LOAD LOG --\n{long}\ninvalid access to packet, off=0 size=8\n-- END PROG LOAD LOG --\n\
             libbpf: prog 'a': failed to load\n"
        );
        let log = verdict(&said).unwrap();
        assert!(log.ends_with("xx\ninvalid access to packet, off=0 size=8"), "{log}");
        assert!(log.len() <= LOG_LEN_MAX);
        assert_eq!(verdict("libbpf: failed to create map: -EPERM\n"), None);
    }
}
