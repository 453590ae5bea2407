//! Profiles of modelled cards.
#![allow(non_camel_case_types)]

use std::ffi::{CStr, c_char};

use niclab_profile::profile::Profile;

use super::types::niclab_error;
use super::{Device, call, finish, given, put};
use crate::failure::{Failure, FailurePart};

/// The profile of a modelled card, opaque to C.
pub struct CardProfile {
    pub(crate) profile: Profile,
}

/// Numbers of a modelled card that the NIC does not carry out by itself; 0 where they are unknown.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct niclab_card {
    /// Rate of the wire, Gbps at L1.
    pub rate_gbps: f64,
    /// Frames that wait for the classifier.
    pub fifo_frames: u32,
    /// Descriptors of a receive queue.
    pub ring_frames: u32,
    /// The most queues of a port.
    pub queues_max: u32,
}

/// The time that a modelled card needs for operations on rules, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct niclab_spent {
    /// On a core that does nothing else.
    pub alone_ns: f64,
    /// On a core that forwards packets too.
    pub beside_ns: f64,
    /// The classifier takes this long for each frame from now on that only default rules match. 0:
    /// the profile does not say.
    pub frame_ns: f64,
}

/// Reads a profile: one of those that come with niclab by its name, another by its path. Close it
/// by `niclab_profile_close`; a NIC that was opened with it keeps a copy.
///
/// # Safety
/// The pointers are valid, or null; `name` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_profile_read(
    name: *const c_char,
    profile: *mut *mut CardProfile,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let read = || {
            given(name, "name")?;
            let refuse = |text: String| Failure::new(libc::EINVAL, FailurePart::None, text);
            let name = CStr::from_ptr(name).to_str();
            let name = name.map_err(|_| refuse("the profile's name is not UTF-8".to_owned()))?;
            let read = niclab_profile::read(name).map_err(|error| refuse(error.to_string()))?;
            put(profile, Box::into_raw(Box::new(CardProfile { profile: read })), "profile")
        };
        finish(read(), error)
    }
}

/// Closes a profile.
///
/// # Safety
/// `profile` is null or was read, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_profile_close(profile: *mut CardProfile) {
    if !profile.is_null() {
        // SAFETY: `niclab_profile_read` made it, and the caller gives it up.
        drop(unsafe { Box::from_raw(profile) });
    }
}

/// The numbers of a profile.
///
/// # Safety
/// The pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_profile_card(
    profile: *const CardProfile,
    card: *mut niclab_card,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let query = || {
            let profile = &given(profile, "profile")?.profile;
            let number = |section, key| profile.number(section, key).unwrap_or(0.0);
            let found = niclab_card {
                rate_gbps: number("port", "rate_gbps"),
                fifo_frames: number("port", "fifo_frames") as u32,
                ring_frames: number("host", "ring_frames") as u32,
                queues_max: number("queues", "queues_max") as u32,
            };
            put(card, found, "card")
        };
        finish(query(), error)
    }
}

/// The time that the modelled card needs for the operations on rules since this was called last;
/// the NIC has carried them out already. All zeros without a profile.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_take_spent(
    nic: *const Device,
    spent: *mut niclab_spent,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        call(nic, error, |control| {
            let time = control.take_spent();
            let (alone_ns, beside_ns) = (time.alone_ns, time.beside_ns);
            let frame_ns = control.frame_ns();
            put(spent, niclab_spent { alone_ns, beside_ns, frame_ns }, "spent")
        })
    }
}
