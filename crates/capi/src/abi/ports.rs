//! Ports that lead out of the process.

use std::ffi::{CStr, c_char};

use super::types::{NICLAB_BURST, niclab_error, niclab_frame};
use super::{finish, given, null, put, read};
use crate::failure::{Failure, FailurePart};
use crate::port::Port;

/// Counters of a queue pair of a port; bytes are without the frame check sequence.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct niclab_port_counters {
    /// Frames received.
    pub rx_frames: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames that came and found no room.
    pub rx_missed: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames that could not be sent.
    pub tx_dropped: u64,
}

/// Opens a port with `queues` queue pairs, by the name that `niclab nic --port` takes: `tap:NAME`,
/// `xdp:NAME`, `packet:NAME`, or `pcap:in=FILE,out=FILE,speed=N`, which has one queue pair.
///
/// # Safety
/// The pointers are valid, or null; `name` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_port_open(
    name: *const c_char,
    queues: u32,
    port: *mut *mut Port,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let open = || {
            given(name, "name")?;
            let unfit =
                |_| Failure::new(libc::EINVAL, FailurePart::None, "the port's name is not UTF-8");
            let name = CStr::from_ptr(name).to_str().map_err(unfit)?;
            put(port, Box::into_raw(Box::new(Port::open(name, queues)?)), "port")
        };
        finish(open(), error)
    }
}

/// Closes a port. Fails if not all that was sent arrived; the port is closed then too.
///
/// # Safety
/// `port` is null or open, and no other call uses it; `error` is valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_port_close(port: *mut Port, error: *mut niclab_error) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        if port.is_null() {
            return 0;
        }
        finish(Box::from_raw(port).close(), error)
    }
}

/// Copies frames that have arrived into the program's buffers: frame i has `len` bytes of room at
/// `data`, and gets its length there. Returns the number of frames, at most 64, or a negative
/// `errno`.
///
/// # Safety
/// `port` is open, and each of the frames has `len` bytes at `data` that nobody else accesses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_port_receive(
    port: *const Port,
    queue: u32,
    frames: *mut niclab_frame,
    frames_len: usize,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches; the buffers and the lengths do not overlap.
    unsafe {
        let mut count = 0;
        let mut receive = || {
            if frames.is_null() {
                return Err(null("frames"));
            }
            let frames = std::slice::from_raw_parts_mut(frames, frames_len.min(NICLAB_BURST));
            let mut lens = [0; NICLAB_BURST];
            let mut next = lens.iter_mut();
            let buffers = frames
                .iter()
                .map(|frame| std::slice::from_raw_parts_mut(frame.data, usize::from(frame.len)));
            count = given(port, "port")?.receive(queue as usize, buffers, |len| {
                next.next().into_iter().for_each(|to| *to = len as u16);
            })?;
            for (frame, len) in frames.iter_mut().zip(lens).take(count) {
                frame.len = len;
            }
            Ok(())
        };
        match finish(receive(), error) {
            0 => count as i32,
            failed => failed,
        }
    }
}

/// Sends frames. Returns how many from the front were taken, at most 64, or a negative `errno`.
///
/// # Safety
/// `port` is open, and each of the frames has `len` bytes at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_port_send(
    port: *const Port,
    queue: u32,
    frames: *const niclab_frame,
    frames_len: usize,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let mut count = 0;
        let mut send = || {
            let frames = read::slice(frames, frames_len.min(NICLAB_BURST));
            let bytes = frames.iter().map(|f| read::slice(f.data.cast_const(), f.len.into()));
            count = given(port, "port")?.send(queue as usize, bytes)?;
            Ok(())
        };
        match finish(send(), error) {
            0 => count as i32,
            failed => failed,
        }
    }
}

/// The counters of a queue pair.
///
/// # Safety
/// `port` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_port_counters(
    port: *const Port,
    queue: u32,
    counters: *mut niclab_port_counters,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let query = || {
            let found = given(port, "port")?.counters(queue as usize)?;
            let counted = niclab_port_counters {
                rx_frames: found.rx_frames,
                rx_bytes: found.rx_bytes,
                rx_missed: found.rx_missed,
                tx_frames: found.tx_frames,
                tx_bytes: found.tx_bytes,
                tx_dropped: found.tx_dropped,
            };
            put(counters, counted, "counters")
        };
        finish(query(), error)
    }
}
