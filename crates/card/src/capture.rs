//! Frames of a port into a packet trace, while the card runs.
//!
//! Each core copies the frames of the port that it receives and sends into frames of the capture's
//! own, and hands them to a thread that writes them. Where that is behind, frames are not captured,
//! and counted; the card waits for nothing. Frames of different cores may stand in the trace a
//! little out of order; their times are right.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use niclab_nic::memory::{Desc, Region};
use niclab_packet::trace::{LINK_ETHERNET, Record, Writer};
use niclab_port::error::PortError;
use niclab_port::output::Output;
use rtrb::{Consumer, Producer, RingBuffer};

/// Frames of the capture for each core.
const FRAMES: usize = 2_048;

/// How long the writer sleeps where there is nothing to write.
const PAUSE: Duration = Duration::from_millis(1);

/// What is captured, and when it came or left, nanoseconds since the card was started.
type Taken = (Desc, u64);

/// One core's part.
pub(crate) struct Tap {
    region: Arc<Region>,
    free: Consumer<Desc>,
    full: Producer<Taken>,
    shared: Arc<Shared>,
    /// The core's place.
    place: usize,
    /// What the time is, nanoseconds since the card was started.
    pub(crate) now_ns: u64,
}

#[derive(Default)]
struct Shared {
    /// By core: it captures what comes from now on.
    has_begun: Vec<AtomicBool>,
    /// Nothing more is to be captured.
    is_over: AtomicBool,
    /// Nothing more will be written.
    is_done: AtomicBool,
    /// Why the file is not whole.
    trouble: Mutex<Option<String>>,
    missed: AtomicU64,
    written: AtomicU64,
}

impl Tap {
    /// Takes a copy of a frame, where there is room for it.
    #[cold]
    pub(crate) fn take(&mut self, frame: &[u8]) {
        let Ok(mut desc) = self.free.pop() else {
            self.shared.missed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let slot = self.region.slot_mut(&mut desc);
        // A frame that headers were put in front of may be longer than any that came.
        let len = frame.len().min(slot.len());
        slot[..len].copy_from_slice(&frame[..len]);
        self.region.set_len(&mut desc, len as u16);
        // There is room for all frames that there are.
        let _ = self.full.push((desc, self.now_ns));
    }

    /// The core has it, and captures what comes from now on.
    pub(crate) fn begin(&self) {
        self.shared.has_begun[self.place].store(true, Ordering::Release);
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::Relaxed)
    }
}

/// What a capture has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Frames in the trace.
    pub frames: u64,
    /// Frames that are not in it, for it was behind.
    pub missed: u64,
    /// Why the trace is not whole, where it could not be written.
    pub trouble: Option<String>,
}

/// A capture under way.
pub(crate) struct Capture {
    writer: Option<JoinHandle<io::Result<()>>>,
    shared: Arc<Shared>,
}

/// Begins a capture into a file, which is begun anew, by so many cores, of `frames_max` frames at
/// most; `begun_ns` is when the card was started, in nanoseconds since 1970.
///
/// # Errors
/// What the system says of the file, the memory or the thread; a file that a port has.
pub(crate) fn begin(
    path: &Path,
    cores: usize,
    frames_max: u64,
    frame_len_max: usize,
    begun_ns: u64,
) -> io::Result<(Capture, Vec<Tap>)> {
    let mut writer = Output::open(path).map_err(what_it_says)?.begin()?;
    let memory = Region::new(cores * FRAMES, frame_len_max);
    let (region, mut descs) = memory.map_err(io::Error::other)?;
    let has_begun = (0..cores).map(|_| AtomicBool::default()).collect();
    let shared = Arc::new(Shared { has_begun, ..Shared::default() });
    let (mut taps, mut ends) = (Vec::new(), Vec::new());
    for place in 0..cores {
        let (mut free, to_fill) = RingBuffer::new(FRAMES);
        let (filled, full) = RingBuffer::new(FRAMES);
        for desc in descs.drain(descs.len() - FRAMES..) {
            let _ = free.push(desc);
        }
        let (region, shared) = (Arc::clone(&region), Arc::clone(&shared));
        taps.push(Tap { region, free: to_fill, full: filled, shared, place, now_ns: 0 });
        ends.push((full, free));
    }
    let here = Arc::clone(&shared);
    let work = move || {
        let written = write(&mut writer, &mut ends, &region, &here, (frames_max, begun_ns));
        here.is_over.store(true, Ordering::Relaxed);
        let whole = written.and_then(|()| writer.finish().map_err(io::Error::other)?.flush());
        let trouble = whole.as_ref().err().map(io::Error::to_string);
        *here.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
        here.is_done.store(true, Ordering::Release);
        whole
    };
    let writer = thread::Builder::new().name("capture".to_owned()).spawn(work)?;
    Ok((Capture { writer: Some(writer), shared }, taps))
}

/// What the system says of a file, or why another one is to be taken.
fn what_it_says(error: PortError) -> io::Error {
    match error {
        PortError::File { source, .. } => source,
        error => io::Error::other(error),
    }
}

/// Writes what comes, until it is over and all is written, or there are enough.
fn write(
    writer: &mut Writer<impl Write>,
    ends: &mut [(Consumer<Taken>, Producer<Desc>)],
    region: &Region,
    shared: &Shared,
    (frames_max, begun_ns): (u64, u64),
) -> io::Result<()> {
    loop {
        let was_over = shared.is_over.load(Ordering::Relaxed);
        let mut is_idle = true;
        for (full, free) in &mut *ends {
            while let Ok((desc, at_ns)) = full.pop() {
                is_idle = false;
                let data = region.frame(&desc);
                let record = Record {
                    timestamp_ns: begun_ns + at_ns,
                    original_len: data.len() as u32,
                    link_type: LINK_ETHERNET,
                    data,
                };
                writer.write(&record).map_err(io::Error::other)?;
                let _ = free.push(desc);
                if shared.written.fetch_add(1, Ordering::Relaxed) + 1 >= frames_max {
                    return Ok(());
                }
            }
        }
        if is_idle {
            if was_over {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Capture {
    /// What it has come to so far.
    pub(crate) fn so_far(&self) -> Captured {
        let [frames, missed] =
            [&self.shared.written, &self.shared.missed].map(|count| count.load(Ordering::Relaxed));
        let trouble = self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Captured { frames, missed, trouble }
    }

    /// The place of a core that has not begun yet.
    pub(crate) fn waits_for(&self) -> Option<usize> {
        self.shared.has_begun.iter().position(|has_begun| !has_begun.load(Ordering::Acquire))
    }

    /// Whether it has ended by itself, and the file is done with: there were enough frames, or it
    /// could not be written.
    pub(crate) fn is_done(&self) -> bool {
        self.shared.is_done.load(Ordering::Acquire)
    }

    /// Ends it, once all that was captured is written.
    ///
    /// # Errors
    /// What the system says of the file.
    pub(crate) fn end(mut self) -> io::Result<Captured> {
        self.stop()?;
        Ok(self.so_far())
    }

    fn stop(&mut self) -> io::Result<()> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.join().map_err(|_| io::Error::other("the writer of the capture ended by a fault"))?
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
