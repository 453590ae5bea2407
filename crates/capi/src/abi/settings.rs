//! RSS of a port.

use niclab_nic::rss::{HashFunction, RssChange, RssLevel};

use super::types::{NICLAB_INDIRECTION_LEN, NICLAB_RSS_KEY_LEN_MAX, niclab_error, niclab_rss};
use super::{Device, call, given, put, read};
use crate::failure::{Failure, FailurePart};

/// Changes the settings of the port's RSS; its indirection table too, if queues are given. What is
/// left out stays. Takes effect between two bursts.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_rss_update(
    nic: *const Device,
    rss: *const niclab_rss,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        call(nic, error, |control| {
            let settings = read::rss(given(rss, "rss")?);
            let settings =
                settings.map_err(|reason| Failure::new(libc::EINVAL, FailurePart::None, reason))?;
            let rss = control.nic.rss_after(&RssChange::Settings(settings))?;
            Ok(control.nic.set_rss(&rss)?)
        })
    }
}

/// The settings of the port's RSS. `key` has room for 128 bytes, and `rss` gets its length; `rss`
/// names no queues.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_rss_settings(
    nic: *const Device,
    rss: *mut niclab_rss,
    key: *mut u8,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches; `key` has room for the longest key.
    unsafe {
        call(nic, error, |control| {
            let found = control.nic.rss();
            let key_len = found.key.len().min(NICLAB_RSS_KEY_LEN_MAX);
            if !key.is_null() {
                std::ptr::copy_nonoverlapping(found.key.as_ptr(), key, key_len);
            }
            let settings = niclab_rss {
                types: found.types.bits(),
                function: u8::from(found.function == HashFunction::SymmetricToeplitz),
                level: if found.level == RssLevel::Inner { 2 } else { 1 },
                queues_len: 0,
                key_len: key_len as u32,
                key: std::ptr::null(),
                queues: std::ptr::null(),
            };
            put(rss, settings, "rss")
        })
    }
}

/// Sets the queues of all 512 entries of the indirection table, at one instant.
///
/// # Safety
/// `nic` is open, and `queues` has 512 entries, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_indirection_set(
    nic: *const Device,
    queues: *const u16,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        call(nic, error, |control| {
            let queues = given(queues.cast::<[u16; NICLAB_INDIRECTION_LEN]>(), "queues")?;
            let mut rss = control.nic.rss().clone();
            *rss.indirection = *queues;
            Ok(control.nic.set_rss(&rss)?)
        })
    }
}

/// The queues of all 512 entries of the indirection table.
///
/// # Safety
/// `nic` is open, and `queues` has room for 512 entries, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_indirection(
    nic: *const Device,
    queues: *mut u16,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        call(nic, error, |control| put(queues.cast(), *control.nic.rss().indirection, "queues"))
    }
}
