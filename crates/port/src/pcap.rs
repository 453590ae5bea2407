//! Packet traces as a port: frames come from one file, at their recorded times or another speed,
//! and go to another.
//!
//! The file that is read is looked through before the first frame: one that ends in the middle, or
//! has frames that cannot be sent as they were, is refused, and not found out half-way.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use niclab_nic::memory::{Desc, Region};
use niclab_packet::trace::{
    self, LINK_ETHERNET, Record, TraceError, TraceErrorKind, TraceReader, Writer,
};

use crate::burst::Burst;
use crate::error::PortError;
use crate::frame_pool::FramePool;
use crate::output::{Claim, Output};
use crate::queue_pair::{QueuePair, QueuePairCounters};

/// Frames that a queue pair holds: the one that is due next.
pub const FRAMES: usize = 1;

/// When the frames of a file come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// So many times as fast as they were recorded, above 0; 1 keeps their times.
    Times(f64),
    /// As fast as they are taken.
    Max,
}

/// The files of a port.
#[derive(Clone, Debug, PartialEq)]
pub struct Files {
    /// The file that frames come from; none: no frame ever comes.
    pub input: Option<PathBuf>,
    /// The file that frames go to; none: they are counted and dropped.
    pub output: Option<PathBuf>,
    /// When frames come.
    pub speed: Speed,
}

/// The output of frames.
enum Sink {
    /// A file that is to be begun anew.
    Waiting(Output),
    Begun(Writer<Output>),
}

/// A port that is a file or two; it has one queue pair.
pub struct PcapQueuePair {
    region: Arc<Region>,
    input: Option<TraceReader<BufReader<File>>>,
    /// Keeps others from writing to the file while the queue pair exists.
    _claim: Option<Claim>,
    output: Option<Sink>,
    speed: Speed,
    /// When the first frame was due, and when it was recorded.
    begun: Option<(Instant, u64)>,
    /// The frame that is due next, and when.
    next: Option<(Desc, Instant)>,
    counters: QueuePairCounters,
}

/// Opens the files. The one that is written is begun anew when the queue pair is first used, so
/// that a card which does not start leaves it as it was.
///
/// # Errors
/// [`PortError::Trace`] and [`PortError::File`]; [`PortError::FileTaken`] for a file that is read
/// and written, by this port or two; [`PortError::QueuePairs`] for more than one queue pair.
pub fn open(
    files: &Files,
    count: u32,
    region: &Arc<Region>,
) -> Result<Vec<PcapQueuePair>, PortError> {
    if count != 1 {
        return Err(PortError::QueuePairs { name: "pcap".to_owned(), count, most: 1 });
    }
    let input = files.input.as_deref().map(|path| {
        let file = file(path)?;
        let claim = Claim::to_read(path, file.get_ref())?;
        look_through(path, region.frame_len_max())?;
        Ok((reader(path, file)?, claim))
    });
    let (input, claim) = input.transpose()?.unzip();
    let output = files.output.as_deref().map(Output::open).transpose()?;
    Ok(vec![PcapQueuePair {
        region: Arc::clone(region),
        input,
        _claim: claim,
        output: output.map(Sink::Waiting),
        speed: files.speed,
        begun: None,
        next: None,
        counters: QueuePairCounters::default(),
    }])
}

fn file(path: &Path) -> Result<BufReader<File>, PortError> {
    trace::open(path)
        .map_err(|error| PortError::File { path: path.to_path_buf(), source: error.into() })
}

fn reader(path: &Path, file: BufReader<File>) -> Result<TraceReader<BufReader<File>>, PortError> {
    TraceReader::new(file).map_err(|error| refused(path, error))
}

fn refused(path: &Path, error: TraceError) -> PortError {
    PortError::Trace { path: path.to_path_buf(), error: Box::new(error) }
}

/// Reads a file to its end: every frame can be sent as it was, and fits.
fn look_through(path: &Path, len_max: usize) -> Result<(), PortError> {
    let mut reader = reader(path, file(path)?)?;
    loop {
        let (number, offset) = (reader.records_count(), reader.offset());
        let Some(frame) = reader.next_frame().map_err(|error| refused(path, error))? else {
            return Ok(());
        };
        if frame.data.len() > len_max {
            let reason = format!(
                "a frame of {} B, where {len_max} B fit: capture without the offloads that join \
                 segments (ethtool -K IFACE gro off tso off)",
                frame.data.len()
            );
            let kind = TraceErrorKind::Invalid { reason };
            return Err(refused(path, TraceError { record: number, offset, kind }));
        }
    }
}

impl PcapQueuePair {
    /// Begins the file anew that is written, if that is to be done.
    #[inline]
    fn begin(&mut self) -> io::Result<()> {
        match self.output {
            Some(Sink::Waiting(_)) => self.begin_anew(),
            _ => Ok(()),
        }
    }

    #[cold]
    fn begin_anew(&mut self) -> io::Result<()> {
        if let Some(Sink::Waiting(output)) = self.output.take() {
            self.output = Some(Sink::Begun(output.begin()?));
        }
        Ok(())
    }

    /// Reads the next frame, which takes one of the pool; `None` at the end, or without a frame.
    fn read(&mut self, pool: &mut FramePool) -> io::Result<Option<(Desc, Instant)>> {
        let Some(reader) = &mut self.input else { return Ok(None) };
        let Some(mut desc) = pool.take() else { return Ok(None) };
        let record = match reader.next_frame() {
            Ok(Some(record)) => record,
            ended => {
                let ended = ended.map(|_| None).map_err(io::Error::other);
                self.input = None;
                pool.give(desc);
                return ended;
            }
        };
        let len = record.data.len();
        let Some(slot) = self.region.slot_mut(&mut desc).get_mut(..len) else {
            // It was looked through, and somebody has written to it since.
            self.input = None;
            pool.give(desc);
            return Err(io::Error::other(format!(
                "a frame of {len} B, which was not there before"
            )));
        };
        slot.copy_from_slice(record.data);
        let now = Instant::now();
        let (begun, first_ns) = *self.begun.get_or_insert((now, record.timestamp_ns));
        let after_ns = record.timestamp_ns.saturating_sub(first_ns);
        let due = match self.speed {
            Speed::Max => now,
            Speed::Times(times) => begun + Duration::from_secs_f64(after_ns as f64 / 1e9 / times),
        };
        self.region.set_len(&mut desc, len as u16);
        Ok(Some((desc, due)))
    }
}

impl QueuePair for PcapQueuePair {
    fn receive(&mut self, pool: &mut FramePool, into: &mut Burst) -> io::Result<()> {
        self.begin()?;
        while !into.is_full() {
            if self.next.is_none() {
                self.next = self.read(pool)?;
            }
            match self.next.take() {
                None => return Ok(()),
                Some((desc, due)) if due <= Instant::now() => {
                    self.counters.rx_frames += 1;
                    self.counters.rx_bytes += u64::from(desc.len());
                    into.push(desc);
                }
                early => {
                    self.next = early;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Burst) -> io::Result<()> {
        self.begin()?;
        let mut output = match &mut self.output {
            Some(Sink::Begun(writer)) => Some(writer),
            _ => None,
        };
        let mut written = 0;
        let mut result = Ok(());
        for desc in burst.iter() {
            let data = self.region.frame(desc);
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let (timestamp_ns, original_len) = (since.as_nanos() as u64, data.len() as u32);
            let record = Record { timestamp_ns, original_len, link_type: LINK_ETHERNET, data };
            if let Some(Err(error)) = output.as_mut().map(|writer| writer.write(&record)) {
                result = Err(io::Error::other(error));
                break;
            }
            self.counters.tx_frames += 1;
            self.counters.tx_bytes += u64::from(original_len);
            written += 1;
        }
        burst.drain(..written).for_each(|desc| pool.give(desc));
        result
    }

    fn is_ended(&self) -> bool {
        self.input.is_none() && self.next.is_none()
    }

    fn counters(&self) -> QueuePairCounters {
        self.counters
    }

    fn close(mut self: Box<Self>, pool: &mut FramePool) -> io::Result<QueuePairCounters> {
        let begun = self.begin();
        if let Some((desc, _)) = self.next {
            pool.give(desc);
        }
        begun?;
        if let Some(Sink::Begun(writer)) = self.output {
            writer.finish().map_err(io::Error::other)?;
        }
        Ok(self.counters)
    }
}
