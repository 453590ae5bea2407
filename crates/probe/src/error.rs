//! Why there are no stamps, and what to do about it.

use std::io;

/// Why stamps could not be attached, read or taken away.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The right is missing; stamps of the sockets (`SO_TIMESTAMPING`) need none.
    #[error(
        "not allowed to {what}: run as root, or give the program CAP_BPF and CAP_NET_ADMIN (setcap \
         cap_bpf,cap_net_admin+ep, behind chmod 750 and chgrp: every user who may run it has \
         them); without them only the sockets' own time stamps are to be had"
    )]
    NotAllowed {
        /// What was refused.
        what: &'static str,
    },
    /// A kernel without the system call.
    #[error("this kernel has no BPF: one with CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT is needed")]
    NoBpf,
    /// The kernel lacks the way that was asked for.
    #[error("this kernel has no TCX links (6.6 has, with CONFIG_NET_XGRESS): attach by clsact")]
    NoTcx,
    /// The kernel lacks the way that older ones have, too.
    #[error(
        "this kernel has no clsact qdisc or no BPF filters: load their modules (modprobe -a \
         sch_ingress cls_bpf), or take a kernel with CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF"
    )]
    NoClsact,
    /// What stamps inside the stack are taken at.
    #[error(
        "this kernel has no tracepoint {name}: one from 6.3 on with CONFIG_TRACEPOINTS and \
         CONFIG_BPF_EVENTS is needed"
    )]
    NoTracepoint {
        /// Its name.
        name: &'static str,
    },
    /// The verifier did not let a program in.
    #[error(
        "the kernel's verifier refused a program, which is a fault of niclab or of a kernel it \
         was not tried on: report both with what it said, of which this is the end:\n{log}"
    )]
    Refused {
        /// The end of the verifier's log.
        log: String,
    },
    /// No such interface, or none any more.
    #[error("no interface of index {index} in this network namespace: see `ip link`")]
    NoInterface {
        /// Its index.
        index: u32,
    },
    /// Its packets begin with a header that the programs do not know.
    #[error(
        "interface {index} carries neither Ethernet nor bare IP packets (link type {link_type}): \
         attach to the interface below or above it that does"
    )]
    LinkType {
        /// Its index.
        index: u32,
        /// What it carries (`ARPHRD_…`).
        link_type: u16,
    },
    /// Where a clsact qdisc goes, there is one of the older kind.
    #[error(
        "interface {index} has an `ingress` qdisc, which leaves no room for clsact: take it away \
         (tc qdisc del dev … ingress), or use a kernel from 6.6 on"
    )]
    Occupied {
        /// Index of the interface.
        index: u32,
    },
    /// Port 0 belongs to nobody.
    #[error("port 0 is no port of an echo: name the one its server listens on")]
    NoPort,
    /// The kernel refused for another reason.
    #[error("cannot {what}: {source}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// libbpf refused for another reason.
    #[error("cannot {what}: {message}")]
    Bpf {
        /// What was to be done.
        what: &'static str,
        /// What libbpf said.
        message: String,
    },
}

impl ProbeError {
    /// What the kernel said when `what` was to be done to interface `index`.
    pub(crate) fn system(what: &'static str, index: u32, source: io::Error) -> ProbeError {
        match source.raw_os_error() {
            Some(EPERM | EACCES) => ProbeError::NotAllowed { what },
            Some(ENODEV | ENXIO) => ProbeError::NoInterface { index },
            Some(ENOSYS) => ProbeError::NoBpf,
            _ => ProbeError::System { what, source },
        }
    }

    /// What libbpf said when `what` was to be done.
    pub(crate) fn bpf(what: &'static str, error: &libbpf_rs::Error) -> ProbeError {
        match error.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => ProbeError::NotAllowed { what },
            libbpf_rs::ErrorKind::Unsupported => ProbeError::NoBpf,
            _ => ProbeError::Bpf { what, message: format!("{error:#}") },
        }
    }
}

// errno(3): the same on every architecture that Rust builds for Linux, MIPS and SPARC aside.
pub(crate) const EPERM: i32 = 1;
pub(crate) const ENOENT: i32 = 2;
pub(crate) const ENXIO: i32 = 6;
pub(crate) const EACCES: i32 = 13;
pub(crate) const EEXIST: i32 = 17;
pub(crate) const ENODEV: i32 = 19;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const ENOSYS: i32 = 38;
pub(crate) const EOPNOTSUPP: i32 = 95;
