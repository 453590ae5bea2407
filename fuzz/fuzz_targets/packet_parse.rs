//! Arbitrary bytes as a frame and as a capture file.
//!
//! As a frame: walked, shown, its checksums judged; what it was walked into is built, and built
//! again the same. As a file: every record is walked.

#![no_main]

use libfuzzer_sys::fuzz_target;
use niclab_packet::stack::{build, walk};
use niclab_packet::trace::{Trace, TraceLimits, TraceReader};

fuzz_target!(|bytes: &[u8]| {
    frame(bytes);
    file(bytes);
});

fn frame(bytes: &[u8]) {
    let stack = walk(bytes);
    let shown = stack.to_string();
    assert!(shown.lines().count() >= stack.spans().len());
    let mut at = 0;
    for span in stack.spans() {
        assert_eq!(span.start, at, "{stack}");
        at += span.header_len;
        assert!(at <= span.end && span.end <= bytes.len(), "{stack}");
    }
    let _ = stack.checksum_errors();
    if let Ok(built) = build(&stack.to_layers()) {
        let again = walk(&built);
        assert_eq!(again.missing_len(), 0, "{stack}{again}");
        assert_eq!(build(&again.to_layers()).as_ref(), Ok(&built), "{stack}{again}");
    }
}

fn file(bytes: &[u8]) {
    if let Ok(mut reader) = TraceReader::new(bytes) {
        while let Ok(Some(record)) = reader.next_record() {
            let _ = walk(record.data).to_string();
        }
        assert!(reader.offset() <= bytes.len() as u64);
    }
    let read = match Trace::load(bytes, TraceLimits::default()) {
        Ok(trace) => trace,
        Err(incomplete) => incomplete.trace,
    };
    assert!(read.bytes_len() <= bytes.len());
}
