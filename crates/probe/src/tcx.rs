//! TCX links: a program at an interface for as long as its descriptor is open.
//!
//! The kernel takes a link away with its last descriptor, however the process ends.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::{
    BPF_F_BEFORE, BPF_TCX_EGRESS, BPF_TCX_INGRESS, bpf_link_create, bpf_link_create_opts,
};

use crate::clsact::Direction;
use crate::error::ENODEV;

/// Attaches a program to an interface of the calling thread's network namespace, before all that
/// are there: a program ahead of it could end the row, and the packet would have no stamp.
pub fn attach(
    program: BorrowedFd<'_>,
    index: u32,
    direction: Direction,
) -> Result<OwnedFd, io::Error> {
    let place = match direction {
        Direction::Egress => BPF_TCX_EGRESS,
        Direction::Ingress => BPF_TCX_INGRESS,
    };
    let options = bpf_link_create_opts {
        sz: size_of::<bpf_link_create_opts>() as _,
        flags: BPF_F_BEFORE,
        ..bpf_link_create_opts::default()
    };
    // The kernel has interfaces of 1 to i32::MAX.
    let index = i32::try_from(index).map_err(|_| io::Error::from_raw_os_error(ENODEV))?;
    // SAFETY: the program's descriptor is open, for it is borrowed; the options are read during the
    // call alone, say their own length, and hold no pointer.
    let link = unsafe { bpf_link_create(program.as_raw_fd(), index, place, &options) };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}
