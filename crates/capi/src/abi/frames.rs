//! Workers: frames are classified.

use std::mem::offset_of;

use niclab_nic::Worker;
use niclab_nic::borrowed::BorrowedFrame;

use super::types::{NICLAB_BURST, niclab_error, niclab_frame};
use super::{Device, device, finish, lock, put};

// A list of one is a list of the other.
const _: () = assert!(size_of::<niclab_frame>() == size_of::<BorrowedFrame>());
const _: () = assert!(align_of::<niclab_frame>() == align_of::<BorrowedFrame>());
macro_rules! same_place {
    ($($field:ident),*) => {$(
        const _: () = assert!(
            offset_of!(niclab_frame, $field) == offset_of!(BorrowedFrame, $field)
        );
    )*};
}
same_place!(data, headroom, len, hash, mark, queue, port, flags);

/// A worker, opaque to C: it classifies the frames of one thread.
pub struct FrameWorker {
    worker: Worker,
}

/// Opens a worker, which classifies frames. A worker belongs to one thread at a time. It is offline
/// until its first burst.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_worker_open(
    nic: *const Device,
    worker: *mut *mut FrameWorker,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let open = || {
            let mut made = lock(&device(nic)?.control).nic.worker();
            made.offline();
            put(worker, Box::into_raw(Box::new(FrameWorker { worker: made })), "worker")
        };
        finish(open(), error)
    }
}

/// Closes a worker.
///
/// # Safety
/// `worker` is null or open, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_worker_close(worker: *mut FrameWorker) {
    if !worker.is_null() {
        // SAFETY: `niclab_worker_open` made it, and the caller gives it up.
        drop(unsafe { Box::from_raw(worker) });
    }
}

/// Classifies frames in the program's buffers: at most 64 at a time, or else the rest is left as it
/// is. Sets hash, mark, queue, port and flags of each; rules that change packets change them in
/// place.
///
/// From its first burst on, the worker is online: memory of destroyed rules is reused only after
/// its next burst. Call `niclab_worker_offline` when no burst comes for a while.
///
/// # Safety
/// `worker` is open and used by this thread alone. For each frame, `len` bytes from `data` and
/// `headroom` bytes before it may be read and written; no two frames share bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_classify(
    worker: *mut FrameWorker,
    frames: *mut niclab_frame,
    frames_len: usize,
) {
    // SAFETY: as the caller vouches; the structs have the same fields at the same places.
    unsafe {
        let Some(FrameWorker { worker }) = worker.as_mut() else { return };
        if frames.is_null() {
            return;
        }
        if !worker.is_online() {
            worker.online();
        }
        let frames = frames.cast::<BorrowedFrame>();
        let burst = std::slice::from_raw_parts_mut(frames, frames_len.min(NICLAB_BURST));
        worker.classify_borrowed(burst);
    }
}

/// Takes a worker offline until its next burst: memory of destroyed rules does not wait for it.
///
/// # Safety
/// `worker` is null, or open and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_worker_offline(worker: *mut FrameWorker) {
    // SAFETY: as the caller vouches.
    if let Some(FrameWorker { worker }) = unsafe { worker.as_mut() }
        && worker.is_online()
    {
        worker.offline();
    }
}

/// Sets the time for meters of the next burst alone, in nanoseconds from a moment that all workers
/// share. Call it once a burst if rules have meters.
///
/// # Safety
/// `worker` is null, or open and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_worker_set_meter_time(worker: *mut FrameWorker, now_ns: u64) {
    // SAFETY: as the caller vouches.
    if let Some(FrameWorker { worker }) = unsafe { worker.as_mut() } {
        worker.set_time_ns(now_ns);
    }
}

/// Sets the time for meters of the next bursts and for ages, in nanoseconds from a moment that all
/// workers share. Call it at most every millisecond: workers share the time of ages.
///
/// # Safety
/// `worker` is null, or open and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_worker_set_time(worker: *mut FrameWorker, now_ns: u64) {
    // SAFETY: as the caller vouches.
    if let Some(FrameWorker { worker }) = unsafe { worker.as_mut() } {
        worker.set_time_ns(now_ns);
        worker.set_age_time_ns(now_ns);
    }
}
