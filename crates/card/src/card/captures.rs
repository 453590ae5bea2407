//! Captures of ports: begun, asked and ended while the card works.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rtrb::Producer;

use super::Card;
use crate::capture::{self, Capture, CaptureCounters};
use crate::error::ChangeError;

/// Captures that could not be written and that nobody asked about, at most: these are reported when
/// the card ends.
const TROUBLE_MAX: usize = 16;

impl Card {
    /// Has the frames that come and leave by a port written into a packet trace, so many at most,
    /// until that is ended ([`Card::end_capture`]) or the card is. Each core begins when it comes
    /// to look ([`Card::core_without_capture`]). The file is open for writing and is begun anew;
    /// `path` is what messages call it.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing is then captured.
    pub fn capture(
        &mut self,
        number: u16,
        (path, file): (&Path, File),
        frames_max: u64,
    ) -> Result<(), ChangeError> {
        let (ports, cores) = (self.ports.len(), self.cores.len());
        let begun_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let begun_ns =
            (begun_ns.as_nanos() as u64).saturating_sub(self.begun.elapsed().as_nanos() as u64);
        let missing = ChangeError::Port { port: number, ports };
        let port = self.ports.get_mut(usize::from(number)).ok_or(missing)?;
        let is_under_way = port.capture.as_ref().is_some_and(|capture| !capture.is_done());
        if is_under_way || port.captures.iter().any(Producer::is_full) {
            return Err(ChangeError::Capturing { port: number });
        }
        // The error of the one before is reported at the end, where nobody asked.
        let before = port.capture.take().and_then(|capture| capture.end().err());
        if self.errors.len() < TROUBLE_MAX {
            self.errors.extend(before.map(|error| format!("capture: {error}")));
        }
        let failed = |source| ChangeError::Capture { path: path.to_owned(), source };
        let (capture, taps) =
            capture::begin((path, file), cores, frames_max, begun_ns).map_err(failed)?;
        for (to, tap) in port.captures.iter_mut().zip(taps) {
            // There is room, as was just seen.
            let _ = to.push(tap);
        }
        port.capture = Some(capture);
        self.wake();
        Ok(())
    }

    /// A core that has not started to capture yet, if any. `None` once every frame that comes from
    /// now on is captured, and where nothing is.
    pub fn core_without_capture(&self, port: u16) -> Option<u32> {
        let capture = self.ports.get(usize::from(port))?.capture.as_ref()?;
        capture.core_without_start().and_then(|place| self.cores.get(place)).map(|(core, _)| *core)
    }

    /// The counters of a port's capture, and whether it goes on; `None` without a capture.
    pub fn capture_state(&self, port: u16) -> Option<(CaptureCounters, bool)> {
        let capture = self.ports.get(usize::from(port))?.capture.as_ref()?;
        Some((capture.counters(), !capture.is_done()))
    }

    /// Captures no more frames of a port, and waits for nothing; whether there is a capture. The
    /// trace is whole once [`Card::capture_state`] says that it does not go on: end it then.
    pub fn stop_capture(&self, port: u16) -> bool {
        let port = self.ports.get(usize::from(port));
        let capture = port.and_then(|port| port.capture.as_ref());
        capture.inspect(|capture| capture.request_end()).is_some()
    }

    /// Ends the capture of a port, if there is one: the trace is whole then. This waits until the
    /// file has taken all of it.
    ///
    /// # Errors
    /// What the system says of the file.
    pub fn end_capture(&mut self, port: u16) -> io::Result<Option<CaptureCounters>> {
        let capture = self.ports.get_mut(usize::from(port)).and_then(|port| port.capture.take());
        capture.map(Capture::end).transpose()
    }
}
