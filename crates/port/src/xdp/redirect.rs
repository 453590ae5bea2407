//! The program at an interface that hands its frames to sockets, for as long as it is open.
//!
//! It is attached by a link, which the kernel takes away with its last descriptor, however the
//! process ends.
#![allow(unsafe_code)]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::{BPF_XDP, bpf_link_create, bpf_link_create_opts};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, PrintLevel, set_print};

#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/redirect.skel.rs"));
}

/// linux/if_link.h
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// The attached program.
pub struct Redirect {
    _link: OwnedFd,
    sockets: MapHandle,
}

impl Redirect {
    /// Attaches it to an interface of the calling thread's network namespace: in the driver, before
    /// the kernel makes a packet of the frame, or behind it where it has no place for programs.
    pub fn attach(index: u32) -> io::Result<Redirect> {
        set_print(Some((PrintLevel::Warn, |_, _| ())));
        let mut object = MaybeUninit::uninit();
        let open = skeleton::RedirectSkelBuilder::default().open(&mut object).map_err(os)?;
        let skeleton = open.load().map_err(os)?;
        let program = skeleton.progs.niclab_redirect.as_fd();
        let link = match link(program, index, XDP_FLAGS_DRV_MODE) {
            Ok(link) => link,
            Err(native) => match link(program, index, XDP_FLAGS_SKB_MODE) {
                Ok(link) => link,
                // Of a driver that could, what it said tells more.
                Err(_) if native.raw_os_error() != Some(libc::EOPNOTSUPP) => return Err(native),
                Err(generic) => return Err(generic),
            },
        };
        let sockets = MapHandle::try_from(&skeleton.maps.sockets).map_err(os)?;
        Ok(Redirect { _link: link, sockets })
    }

    /// Hands the frames of a queue to a socket that is bound to it.
    pub fn redirect_queue(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let (key, value) = (queue.to_ne_bytes(), socket.as_raw_fd().to_ne_bytes());
        self.sockets.update(&key, &value, MapFlags::ANY).map_err(os)
    }
}

fn link(program: BorrowedFd<'_>, index: u32, flags: u32) -> io::Result<OwnedFd> {
    let options = bpf_link_create_opts {
        sz: size_of::<bpf_link_create_opts>() as _,
        flags,
        ..bpf_link_create_opts::default()
    };
    let index = i32::try_from(index).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    // SAFETY: the program's descriptor is open, for it is borrowed; the options are read during the
    // call alone, say their own length, and hold no pointer.
    let link = unsafe { bpf_link_create(program.as_raw_fd(), index, BPF_XDP, &options) };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

/// Converts libbpf's error by its number.
fn os(error: libbpf_rs::Error) -> io::Error {
    match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => io::Error::from_raw_os_error(libc::EPERM),
        _ => io::Error::other(error.to_string()),
    }
}
