//! Frames of a port into a packet trace, while the card runs.
//!
//! Each core copies the frames of the port that it receives and sends into a ring of bytes, and a
//! thread writes them from there. Where a ring is full the frame is not captured, and counted; the
//! card waits for nothing. Frames of different cores may be in the trace a little out of order;
//! their times are right. A capture has its own memory, which goes with it: there can be any number
//! of them, one after the other.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use niclab_packet::trace::{LINK_ETHERNET, Record, Writer};
use niclab_port::error::PortError;
use niclab_port::output::Output;
use rtrb::{Consumer, Producer, RingBuffer};
use rustix::fs::{OFlags, fcntl_getfl};

/// Bytes that wait to be written, for each core: 2,709 of the longest frames.
const BYTES: usize = 4 << 20;

/// Bytes before each frame in the ring: its length, and when it came or left in nanoseconds since
/// the card was started.
const HEAD: usize = 4 + 8;

/// How long the writer sleeps where there is nothing to write.
const PAUSE: Duration = Duration::from_millis(1);

/// Most frames that are written from a core's ring before those of the other cores are.
const ROUND: usize = 256;

/// One core's part.
pub(crate) struct CoreCapture {
    ring: Producer<u8>,
    shared: Arc<CaptureShared>,
    /// The core's place.
    place: usize,
    /// Time, nanoseconds since the card was started.
    pub(crate) now_ns: u64,
}

#[derive(Default)]
struct CaptureShared {
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

impl CoreCapture {
    /// Takes a copy of a frame, where there is room for it.
    #[cold]
    pub(crate) fn take(&mut self, frame: &[u8]) {
        // Only the writer takes something out of the ring: what there is room for now fits.
        let has_room = self.ring.slots() >= HEAD + frame.len();
        let head = head(frame.len(), self.now_ns);
        let is_taken = has_room
            && self.ring.push_entire_slice(&head).is_ok()
            && self.ring.push_entire_slice(frame).is_ok();
        if !is_taken {
            self.shared.missed.fetch_add(1, Ordering::Relaxed);
        }
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

fn head(len: usize, at_ns: u64) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&(len as u32).to_ne_bytes());
    head[4..].copy_from_slice(&at_ns.to_ne_bytes());
    head
}

/// Takes the next frame out of a ring, if all of it is there; when it came or left.
fn next(ring: &mut Consumer<u8>, frame: &mut Vec<u8>) -> Option<u64> {
    let (mut len, mut at_ns) = ([0; 4], [0; 8]);
    let chunk = ring.read_chunk(HEAD).ok()?;
    let (one, two) = chunk.as_slices();
    let bytes = one.iter().chain(two);
    len.iter_mut().chain(&mut at_ns).zip(bytes).for_each(|(to, from)| *to = *from);
    let len = u32::from_ne_bytes(len) as usize;
    if ring.slots() < HEAD + len {
        return None;
    }
    ring.read_chunk(HEAD).ok()?.commit_all();
    frame.resize(len, 0);
    ring.pop_entire_slice(frame).ok()?;
    Some(u64::from_ne_bytes(at_ns))
}

/// Counters of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureCounters {
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
    shared: Arc<CaptureShared>,
}

/// Begins a capture into an open file, which is begun anew, by so many cores, of `frames_max`
/// frames at most; `begun_ns` is when the card was started, in nanoseconds since 1970.
///
/// # Errors
/// What the system says of the file or the thread; a file that a port has.
pub(crate) fn begin(
    (path, file): (&Path, File),
    cores: usize,
    frames_max: u64,
    begun_ns: u64,
) -> io::Result<(Capture, Vec<CoreCapture>)> {
    if fcntl_getfl(&file)?.intersection(OFlags::ACCMODE) == OFlags::RDONLY {
        return Err(io::Error::other("the file is open for reading alone: open it for writing"));
    }
    let output = Output::of(path, file).map_err(io_error)?;
    let has_begun = (0..cores).map(|_| AtomicBool::default()).collect();
    let shared = Arc::new(CaptureShared { has_begun, ..CaptureShared::default() });
    let (mut taps, mut ends) = (Vec::new(), Vec::new());
    for place in 0..cores {
        let (ring, end) = RingBuffer::new(BYTES);
        taps.push(CoreCapture { ring, shared: Arc::clone(&shared), place, now_ns: 0 });
        ends.push(end);
    }
    let here = Arc::clone(&shared);
    let work = move || {
        let written = output.begin().and_then(|mut writer| {
            write(&mut writer, &mut ends, &here, (frames_max, begun_ns)).map(|()| writer)
        });
        here.is_over.store(true, Ordering::Relaxed);
        let whole = written.and_then(|writer| writer.finish().map_err(io::Error::other)?.flush());
        let trouble = whole.as_ref().err().map(io::Error::to_string);
        *here.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
        here.is_done.store(true, Ordering::Release);
        whole
    };
    let writer = thread::Builder::new().name("capture".to_owned()).spawn(work)?;
    Ok((Capture { writer: Some(writer), shared }, taps))
}

/// The system's error, or the reason why another file is needed.
fn io_error(error: PortError) -> io::Error {
    match error {
        PortError::File { source, .. } => source,
        error => io::Error::other(error),
    }
}

/// Writes what comes, until it is over and all is written, or there are enough.
fn write(
    writer: &mut Writer<impl Write>,
    ends: &mut [Consumer<u8>],
    shared: &CaptureShared,
    (frames_max, begun_ns): (u64, u64),
) -> io::Result<()> {
    let mut data = Vec::new();
    loop {
        let was_over = shared.is_over.load(Ordering::Relaxed);
        let mut is_idle = true;
        for ring in &mut *ends {
            for _ in 0..ROUND {
                let Some(at_ns) = next(ring, &mut data) else { break };
                is_idle = false;
                let record = Record {
                    timestamp_ns: begun_ns + at_ns,
                    original_len: data.len() as u32,
                    link_type: LINK_ETHERNET,
                    data: &data,
                };
                writer.write(&record).map_err(io::Error::other)?;
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
    /// Its counters so far.
    pub(crate) fn counters(&self) -> CaptureCounters {
        let [frames, missed] =
            [&self.shared.written, &self.shared.missed].map(|count| count.load(Ordering::Relaxed));
        let trouble = self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        CaptureCounters { frames, missed, trouble }
    }

    /// The place of a core that has not begun yet.
    pub(crate) fn core_without_start(&self) -> Option<usize> {
        self.shared.has_begun.iter().position(|has_begun| !has_begun.load(Ordering::Acquire))
    }

    /// Whether it has ended by itself, and the file is done with: there were enough frames, or it
    /// could not be written.
    pub(crate) fn is_done(&self) -> bool {
        self.shared.is_done.load(Ordering::Acquire)
    }

    /// Captures no more frames, and waits for nothing: [`Capture::is_done`] once all is written.
    pub(crate) fn request_end(&self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }

    /// Ends it, once all that was captured is written.
    ///
    /// # Errors
    /// What the system says of the file.
    pub(crate) fn end(mut self) -> io::Result<CaptureCounters> {
        self.stop()?;
        Ok(self.counters())
    }

    fn stop(&mut self) -> io::Result<()> {
        self.request_end();
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.join().map_err(|_| io::Error::other("the writer of the capture ended by a fault"))?
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

#[cfg(test)]
mod tests {
    use niclab_packet::trace::{Endian, Format, Resolution};

    use super::*;

    #[test]
    fn frames_leave_a_ring_whole_and_in_their_order() {
        let (mut ring, mut end) = RingBuffer::new(100);
        let mut frame = Vec::new();
        // Lengths that lie across the end of the ring in all ways.
        for number in 0..1_000_u64 {
            let bytes = vec![number as u8; (number % 70) as usize];
            ring.push_entire_slice(&head(bytes.len(), number)).unwrap();
            if !bytes.is_empty() {
                assert_eq!(next(&mut end, &mut frame), None, "its bytes are not there yet");
            }
            ring.push_entire_slice(&bytes).unwrap();
            assert_eq!(next(&mut end, &mut frame), Some(number));
            assert_eq!(frame, bytes);
            assert_eq!(next(&mut end, &mut frame), None);
        }
    }

    #[test]
    fn a_capture_leaves_nothing_behind_however_many_there_were() {
        let file = tempfile::tempfile().unwrap();
        let mut ended = Vec::new();
        // More than a number of 8 bits counts.
        for number in 0..300 {
            let file = file.try_clone().unwrap();
            let begun = begin((Path::new("trace"), file), 1, 1, 0);
            let (capture, _) = begun.unwrap_or_else(|error| panic!("capture {number}: {error}"));
            ended.push(Arc::downgrade(&capture.shared));
            capture.end().unwrap();
        }
        assert!(ended.iter().all(|shared| shared.upgrade().is_none()));
    }

    #[test]
    fn a_frame_without_room_in_the_ring_is_counted_as_missed() {
        let (ring, mut end) = RingBuffer::new(HEAD + 64 + HEAD + 63);
        let shared = Arc::new(CaptureShared::default());
        let mut tap = CoreCapture { ring, shared: Arc::clone(&shared), place: 0, now_ns: 5 };
        let mut frame = Vec::new();
        for _ in 0..3 {
            shared.missed.store(0, Ordering::Relaxed);
            // The second has no room, of which the third takes all; the fourth has none.
            for len in [64, 64, 63, 0] {
                tap.take(&vec![len as u8; len]);
            }
            assert_eq!(shared.missed.load(Ordering::Relaxed), 2);
            for len in [64, 63] {
                assert_eq!(next(&mut end, &mut frame), Some(5));
                assert_eq!(frame, vec![len as u8; len]);
            }
            assert_eq!(next(&mut end, &mut frame), None);
        }
    }

    /// Puts another frame into a ring whenever something is written.
    struct Refill {
        ring: Producer<u8>,
        written: Vec<u8>,
    }

    impl Write for Refill {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.written.extend_from_slice(bytes);
            let _ = self.ring.push_entire_slice(&with_head(0xaa));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A frame of 20 such bytes, as it is in a ring.
    fn with_head(byte: u8) -> Vec<u8> {
        [&head(20, 0)[..], &[byte; 20]].concat()
    }

    #[test]
    fn a_ring_that_is_never_empty_does_not_hold_up_the_others() {
        let (ring, busy) = RingBuffer::new(1_000);
        let (mut other, quiet) = RingBuffer::new(1_000);
        other.push_entire_slice(&with_head(0x55)).unwrap();
        let format = Format::Pcap(Endian::Little, Resolution::Nano);
        // Its first bytes fill the ring for the first time.
        let mut writer = Writer::new(Refill { ring, written: Vec::new() }, format).unwrap();
        let frames_max = 4 * ROUND as u64;
        write(&mut writer, &mut [busy, quiet], &CaptureShared::default(), (frames_max, 0)).unwrap();
        let written = writer.finish().unwrap().written;
        let count = |byte| written.windows(20).filter(|frame| **frame == [byte; 20]).count();
        assert_eq!((count(0xaa), count(0x55)), (4 * ROUND - 1, 1));
    }
}
