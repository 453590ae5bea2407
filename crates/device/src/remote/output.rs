//! Output whose reader may be frozen.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Output that a thread of its own writes, so that nobody else waits for its reader.
pub(super) struct QueuedOutput {
    queue: Option<Sender<Vec<u8>>>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl QueuedOutput {
    pub(super) fn start(mut output: impl Write + Send + 'static) -> QueuedOutput {
        let (queue, parts) = channel::<Vec<u8>>();
        let (end, ended) = channel();
        thread::spawn(move || {
            let _end: Sender<()> = end;
            for part in parts {
                if output.write_all(&part).and_then(|()| output.flush()).is_err() {
                    break;
                }
            }
        });
        QueuedOutput { queue: Some(queue), ended }
    }

    /// Waits until all is written, at most so long. Nothing can be written afterwards.
    pub(super) fn finish(&mut self, most: Duration) {
        self.queue = None;
        let _ = self.ended.recv_timeout(most);
    }
}

impl Write for QueuedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let queued = self.queue.as_ref().is_some_and(|queue| queue.send(bytes.to_vec()).is_ok());
        if queued { Ok(bytes.len()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn all_is_written_in_order_before_the_end() {
        let (reader, writer) = io::pipe().unwrap();
        let mut output = QueuedOutput::start(writer);
        let lines = thread::spawn(|| {
            BufReader::new(reader).lines().collect::<io::Result<Vec<String>>>().unwrap()
        });
        output.write_all(b"1\n").unwrap();
        output.write_all(b"2\n").unwrap();
        output.finish(LONG);
        assert_eq!(lines.join().unwrap(), ["1", "2"]);
        assert_eq!(output.write(b"3").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_frozen_reader_stops_nobody_and_a_gone_one_is_an_error() {
        let begun = Instant::now();
        let (reader, writer) = io::pipe().unwrap();
        let mut output = QueuedOutput::start(writer);
        // More than the pipe holds.
        output.write_all(&vec![b'x'; 4 << 20]).unwrap();
        output.finish(Duration::from_millis(10));
        assert!(begun.elapsed() < LONG);
        drop(reader);
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut output = QueuedOutput::start(writer);
        while output.write(b"x").is_ok() {
            assert!(begun.elapsed() < LONG);
            thread::sleep(Duration::from_millis(1));
        }
    }
}
