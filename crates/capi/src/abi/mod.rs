//! The C interface: `niclab.h` declares these functions.
//!
//! A function checks what it can of its arguments, and leaves everything else to the safe code of
//! this crate. A panic would be a defect; it ends the process and does not reach C.

pub mod frames;
pub mod meters;
pub mod operations;
pub mod ports;
pub mod profiles;
mod read;
pub mod rules;
pub mod settings;
pub mod types;

use std::ffi::c_char;

use crate::control::Control;
use crate::failure::{Failure, FailurePart};
use crate::flow_queue::{SharedControl, lock};
use types::{NICLAB_MESSAGE_LEN, niclab_error};

/// A NIC, opaque to C. All functions that take one may be called by several threads at a time.
pub struct Device {
    pub(crate) control: SharedControl,
}

/// Makes the result of a call for C: 0, or a negative `errno`, and the error.
///
/// # Safety
/// `error` is null or points to an error that may be written.
unsafe fn finish(result: Result<(), Failure>, error: *mut niclab_error) -> i32 {
    let Err(failure) = result else { return 0 };
    if !error.is_null() {
        let mut message = [0; NICLAB_MESSAGE_LEN];
        // The last byte stays zero.
        for (to, from) in message[..NICLAB_MESSAGE_LEN - 1].iter_mut().zip(failure.message.bytes())
        {
            *to = from as c_char;
        }
        let given =
            niclab_error { part: failure.part as u32, index: failure.index as u32, message };
        // SAFETY: the caller vouches for the pointer.
        unsafe { error.write(given) };
    }
    -failure.errno
}

/// The NIC that C gives.
///
/// # Safety
/// `nic` is null or a NIC that is open.
unsafe fn device<'a>(nic: *const Device) -> Result<&'a Device, Failure> {
    // SAFETY: the caller vouches for the pointer.
    unsafe { nic.as_ref() }.ok_or_else(|| null("nic"))
}

/// Carries out a call on the control side of a NIC.
///
/// # Safety
/// As [`device`] and [`finish`].
unsafe fn call(
    nic: *const Device,
    error: *mut niclab_error,
    work: impl FnOnce(&mut Control) -> Result<(), Failure>,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe { finish(device(nic).and_then(|device| work(&mut lock(&device.control))), error) }
}

fn null(name: &str) -> Failure {
    Failure::new(libc::EINVAL, FailurePart::None, format!("{name} is null; give a pointer"))
}

/// A value that C gives by a pointer.
///
/// # Safety
/// `pointer` is null, or valid for reads while the result exists.
unsafe fn given<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller vouches for the pointer.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// Writes a result to where C wants it.
///
/// # Safety
/// `to` is null, or valid for a write.
unsafe fn put<T>(to: *mut T, value: T, name: &str) -> Result<(), Failure> {
    if to.is_null() {
        return Err(null(name));
    }
    // SAFETY: the caller vouches for the pointer.
    unsafe { to.write(value) };
    Ok(())
}
