//! Lines of the log of histograms: what is written, what is read back, what is refused.

use super::*;

fn histogram(values: &[u64]) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
    values.iter().for_each(|ns| histogram.record(*ns).unwrap());
    histogram
}

fn at(start_s: u64, length_ms: u64) -> (Duration, Duration) {
    (Duration::from_secs(start_s), Duration::from_millis(length_ms))
}

#[test]
fn a_line_gives_its_histogram_back() {
    for values in [&[1, 77, 1_000, 59_999_999_999][..], &[]] {
        let histogram = histogram(values);
        let line = line("s12", at(5, 20), &histogram).unwrap();
        let (tag, bytes) = entry(line.as_bytes()).unwrap().unwrap();
        assert_eq!((tag.as_str(), packed(&bytes).unwrap()), ("s12", histogram));
    }
}

#[test]
fn a_line_has_seconds_milliseconds_and_a_packed_payload() {
    let line = line("p0-s1", at(1_700_000_000, 25), &histogram(&[2_000_000])).unwrap();
    // The cookie 0x1c849314 and the first half of the length, in base64.
    assert!(line.starts_with("Tag=p0-s1,1700000000.000,0.025,2.001,HISTFAAA"), "{line}");
}

#[test]
fn the_header_holds_no_histogram_is_legal_and_short_enough_for_every_reader() {
    let header = header(Duration::from_millis(1_700_000_000_500));
    assert!(header.lines().all(|l| entry(l.as_bytes()) == Ok(None)));
    // HdrHistogram_c reads lines of up to 127 bytes.
    assert!(header.lines().all(|l| l.len() < 127));
    let entries: Vec<_> = IntervalLogIterator::new(header.as_bytes()).collect();
    assert!(entries.iter().all(Result::is_ok), "{entries:?}");
    let start = Duration::from_millis(1_700_000_000_500);
    assert!(matches!(&entries[0], Ok(LogEntry::StartTime(at)) if *at == start), "{entries:?}");
}

#[test]
fn damage_is_named() {
    assert!(entry(b"Tag=s1,0.0,0.0,0.0,AAAA\n").unwrap_err().contains("cut short"));
    assert!(entry(b"Tag=s1,0.0,0.0,0.0,AAAAAAAAAAAA\n").unwrap_err().contains("not compressed"));
    assert!(entry(b"Tag=s1,0.0,0.0,0.0,Zm9*\n").unwrap_err().contains("base64"));
    assert!(entry(b"nonsense\n").unwrap_err().contains("not a line"));
    let line = line("s1", at(1, 1), &histogram(&[7])).unwrap();
    for cut in "Tag=s1,1.000,0.001,0.000,".len()..line.len() - 1 {
        assert!(entry(&line.as_bytes()[..cut]).is_err(), "cut at {cut}");
    }
}
