//! Tests of captures: round trips, damage, limits.

use std::io::{Cursor, Error, ErrorKind};

use proptest::prelude::*;

use super::*;

const FORMATS: [Format; 8] = [
    Format::Pcap(Endian::Big, Resolution::Micro),
    Format::Pcap(Endian::Big, Resolution::Nano),
    Format::Pcap(Endian::Little, Resolution::Micro),
    Format::Pcap(Endian::Little, Resolution::Nano),
    Format::PcapNg(Endian::Big, Resolution::Micro),
    Format::PcapNg(Endian::Big, Resolution::Nano),
    Format::PcapNg(Endian::Little, Resolution::Micro),
    Format::PcapNg(Endian::Little, Resolution::Nano),
];

fn write(trace: &Trace, format: Format) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), format).unwrap();
    for record in trace.records() {
        writer.write(&record).unwrap();
    }
    assert_eq!(writer.records_count(), trace.len() as u64);
    let offset = writer.offset();
    let bytes = writer.finish().unwrap();
    assert_eq!(offset, bytes.len() as u64);
    bytes
}

fn load(bytes: &[u8]) -> Result<Trace, Box<Incomplete>> {
    Trace::load(bytes, TraceLimits::default())
}

/// Three frames; the second was cut by the capture. Times are whole microseconds.
fn sample() -> Trace {
    let mut trace = Trace::new();
    trace.push(1_700_000_000_123_456_000, 60, &[1; 60]);
    trace.push(1_700_000_000_123_457_000, 9000, &[2; 97]);
    trace.push(4_000_000_001_000_000_000, 1, &[3]);
    trace
}

#[test]
fn every_format_round_trips() {
    for format in FORMATS {
        assert_eq!(load(&write(&sample(), format)).unwrap(), sample(), "{format:?}");
    }
}

#[test]
fn micro_drops_what_it_cannot_hold() {
    let mut trace = Trace::new();
    trace.push(1_999, 4, &[0; 4]);
    for (format, expected) in [
        (Format::Pcap(Endian::Big, Resolution::Micro), 1_000),
        (Format::PcapNg(Endian::Little, Resolution::Nano), 1_999),
    ] {
        let read = load(&write(&trace, format)).unwrap();
        assert_eq!(read.record(0).unwrap().timestamp_ns, expected);
    }
}

#[test]
fn a_known_pcap_file() {
    let mut bytes = vec![
        0xd4, 0xc3, 0xb2, 0xa1, 0x02, 0x00, 0x04,
        0x00, // little end, microseconds, version 2.4
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // zone, accuracy
        0x04, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, // cut at 4 bytes, Ethernet
    ];
    bytes.extend([
        0x01, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, // 1 s, 2 us
        0x04, 0x00, 0x00, 0x00, 0xdc, 0x05, 0x00, 0x00, // 4 bytes of 1500
        0xaa, 0xbb, 0xcc, 0xdd,
    ]);
    let trace = load(&bytes).unwrap();
    let expected = Record {
        timestamp_ns: 1_000_002_000,
        original_len: 1500,
        link_type: LINK_ETHERNET,
        data: &[0xaa, 0xbb, 0xcc, 0xdd],
    };
    assert_eq!(trace.records().collect::<Vec<_>>(), [expected]);
    assert_eq!(write(&sample(), FORMATS[2])[..16], bytes[..16]);
}

#[test]
fn a_known_pcapng_file() {
    let word = |value: u32| value.to_le_bytes();
    let block = |kind: u32, body: &[u8]| {
        let len = word(body.len() as u32 + 12);
        [&word(kind), &len, body, &len].concat()
    };
    let section = [&word(0x1a2b_3c4d)[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    // No resolution given: microseconds.
    let interface = [1, 0, 0, 0, 0x60, 0, 0, 0];
    let times = [word(0), word(5), word(6), word(3), word(1500)].concat();
    let enhanced = [&times[..], &[7, 8, 9, 0]].concat();
    // The old packet block: interface and drops as halves of one word.
    let old_times = [word(0), word(1), word(2), word(2), word(2)].concat();
    let old = [&old_times[..], &[5, 6, 0, 0]].concat();
    let simple = [&word(2)[..], &[3, 4, 0, 0]].concat();
    let bytes = [
        block(0x0a0d_0d0a, &section),
        block(1, &interface),
        block(6, &enhanced),
        block(0x4242_4242, &[1, 2, 3, 4]), // unknown
        block(2, &old),
        block(3, &simple),
    ]
    .concat();
    let trace = load(&bytes).unwrap();
    let high = |words: u64, low: u64| ((words << 32) + low) * 1000;
    let seen: Vec<_> =
        trace.records().map(|r| (r.timestamp_ns, r.original_len, r.data.to_vec())).collect();
    assert_eq!(
        seen,
        [(high(5, 6), 1500, vec![7, 8, 9]), (high(1, 2), 2, vec![5, 6]), (0, 2, vec![3, 4]),]
    );
}

#[test]
fn truncation_keeps_what_was_read() {
    for format in FORMATS {
        let bytes = write(&sample(), format);
        let ends: Vec<usize> = record_ends(&bytes);
        for len in 0..bytes.len() {
            let whole = ends.iter().filter(|end| **end <= len).count();
            match load(&bytes[..len]) {
                Ok(trace) => {
                    assert!(ends.contains(&len) || heads(format).contains(&len), "{len}");
                    assert_eq!(trace.len(), whole);
                }
                Err(incomplete) => {
                    let Incomplete { trace, error } = *incomplete;
                    assert_eq!((trace.len(), error.record), (whole, whole as u64));
                    assert!(trace.records().eq(sample().records().take(whole)));
                    assert!(error.offset <= len as u64);
                }
            }
        }
    }
}

/// Lengths of a file's head; that of pcapng is two blocks, and it may end after the first too.
fn heads(format: Format) -> &'static [usize] {
    match format {
        Format::Pcap(..) => &[24],
        Format::PcapNg(..) => &[28, 60],
    }
}

/// Offsets at which a record ends.
fn record_ends(bytes: &[u8]) -> Vec<usize> {
    let mut reader = TraceReader::new(bytes).unwrap();
    let mut ends = vec![];
    while reader.next_record().unwrap().is_some() {
        ends.push(reader.offset() as usize);
    }
    ends
}

#[test]
fn errors_say_where() {
    let mut bytes = write(&sample(), FORMATS[3]);
    bytes.truncate(24 + 16 + 60 + 16 + 5);
    let incomplete = load(&bytes).unwrap_err();
    assert_eq!(
        incomplete.to_string(),
        "record 2 at byte 100: the file ends within it, 21 bytes after its start: repair the file \
         (editcap IN OUT), or give another (1 records before it were read)"
    );
    assert_eq!(
        load(b"GIF89a").unwrap_err().error.to_string(),
        "record 1 at byte 0: not a pcap or pcapng file (first bytes [47, 49, 46, 38]): give one"
    );
    assert!(matches!(load(b"").unwrap_err().error.kind, TraceErrorKind::Format { .. }));
}

#[test]
fn a_wrong_length_is_no_reason_to_read_for_ever() {
    let mut bytes = write(&sample(), FORMATS[3]);
    bytes[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let endless = bytes.chain(std::io::repeat(0));
    let error = Trace::load(endless, TraceLimits::default()).unwrap_err().error;
    assert!(matches!(error.kind, TraceErrorKind::Invalid { .. }), "{error}");
}

#[test]
fn limits_hold() {
    let bytes = write(&sample(), FORMATS[7]);
    for limits in [
        TraceLimits { len_max: 60 + 97, records_max: 9 },
        TraceLimits { len_max: 1000, records_max: 2 },
    ] {
        let incomplete = Trace::load(&bytes[..], limits).unwrap_err();
        assert_eq!(incomplete.trace.len(), 2);
        assert!(matches!(incomplete.error.kind, TraceErrorKind::Limit { .. }));
        assert_eq!(incomplete.error.record, 2);
    }
}

#[test]
fn other_link_types_are_told() {
    let mut bytes = write(&sample(), FORMATS[0]);
    bytes[23] = 113; // Linux "cooked" capture
    let mut reader = TraceReader::new(&bytes[..]).unwrap();
    assert_eq!(reader.next_record().unwrap().unwrap().link_type, 113);
    let error = load(&bytes).unwrap_err().error;
    assert!(matches!(error.kind, TraceErrorKind::LinkType { link_type: 113 }), "{error}");
}

/// A pcap file of one record with these lengths, and a link type as it is in the file.
fn pcap(link: u32, captured_len: u32, original_len: u32) -> Vec<u8> {
    let head = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, link];
    let record = [1, 2, captured_len, original_len];
    let words = head.into_iter().chain(record).flat_map(u32::to_le_bytes);
    words.chain((0..captured_len).map(|at| at as u8)).collect()
}

/// A pcapng file of one frame of 64 bytes, as an enhanced packet block with these flags, of an
/// interface with these options of a byte each.
fn pcapng(options: &[(u16, u8)], flags: Option<u32>) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let len = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &len, body, &len].concat()
    };
    let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let mut interface = vec![1, 0, 0, 0, 0, 0, 4, 0];
    for (code, value) in options {
        let [low, high] = code.to_le_bytes();
        interface.extend([low, high, 1, 0, *value, 0, 0, 0]);
    }
    if !options.is_empty() {
        interface.extend([0; 4]);
    }
    let mut packet: Vec<u8> =
        [0_u32, 0, 7, 64, 64].into_iter().flat_map(u32::to_le_bytes).collect();
    packet.extend(0..64_u8);
    if let Some(flags) = flags {
        packet.extend([2, 0, 4, 0]);
        packet.extend(flags.to_le_bytes());
        packet.extend([0; 4]);
    }
    [block(0x0a0d_0d0a, &section), block(1, &interface), block(6, &packet)].concat()
}

/// Length of the only frame, as it is to be sent, and as it was.
fn lens(bytes: &[u8]) -> Result<(usize, u32), String> {
    let trace = Trace::load_whole(bytes, TraceLimits::default());
    let trace = trace.map_err(|incomplete| incomplete.error.to_string())?;
    let record = trace.record(0).unwrap();
    assert!(record.data.iter().enumerate().all(|(at, byte)| at as u8 == *byte));
    Ok((record.data.len(), record.original_len))
}

#[test]
fn an_fcs_is_no_part_of_a_frame() {
    for (link, len) in [
        (1, 64),
        (0x2400_0001, 60), // two words of 16 bits
        (0x0400_0001, 64), // none
        (0x2000_0001, 64), // the bit is not set that says so
        (0x27ff_0001, 60), // bits that mean nothing
    ] {
        assert_eq!(lens(&pcap(link, 64, 64)), Ok((len, len as u32)), "{link:#x}");
    }
    let fcs = 4 << 5;
    for (options, flags, len) in [
        (&[][..], None, 64),
        (&[(13, 4)], None, 60),
        (&[(13, 32)], None, 60),
        (&[(13, 0)], None, 64),
        (&[(9, 9), (13, 4)], None, 60),
        (&[], Some(fcs), 60),
        (&[(13, 0)], Some(fcs), 60),
        (&[(13, 4)], Some(1), 60),      // inbound; nothing of the FCS
        (&[(13, 4)], Some(2 << 5), 62), // that of the frame counts
        (&[], Some(!(0xf << 5)), 64),
    ] {
        let found = lens(&pcapng(options, flags));
        assert_eq!(found, Ok((len, len as u32)), "{options:?} {flags:?}");
    }
    let said = lens(&pcapng(&[(13, 5)], None)).unwrap_err();
    assert!(said.contains("an Ethernet FCS has 4 bytes"), "{said}");
    // It says nothing of another link type, which is what is wrong then.
    let mut cooked = pcapng(&[(13, 5)], None);
    cooked[36] = 113;
    let error = load(&cooked).unwrap_err().error;
    assert!(matches!(error.kind, TraceErrorKind::LinkType { link_type: 113 }), "{error}");
    // The cut goes through the FCS, or before it.
    for (captured_len, cut_len) in [(62, None), (60, None), (50, Some(50))] {
        match (lens(&pcap(0x2400_0001, captured_len, 64)), cut_len) {
            (found, None) => assert_eq!(found, Ok((60, 60)), "{captured_len}"),
            (found, Some(_)) => assert!(found.unwrap_err().contains("has the first 50 B")),
        }
    }
}

#[test]
fn bytes_beyond_the_original_length_are_no_part_of_a_frame() {
    assert_eq!(lens(&pcap(1, 801, 785)), Ok((785, 785)));
    assert_eq!(lens(&pcap(0x2400_0001, 68, 64)), Ok((60, 60)));
    let mut ng = pcapng(&[], None);
    let original_at = 28 + 20 + 8 + 16;
    ng[original_at..original_at + 4].copy_from_slice(&50_u32.to_le_bytes());
    assert_eq!(lens(&ng), Ok((50, 50)));
}

#[test]
fn frames_that_cannot_be_sent_as_they_were_are_refused() {
    let said = |bytes: &[u8]| lens(bytes).unwrap_err();
    let cut = said(&pcap(1, 34, 1_514));
    assert!(cut.starts_with(
        "record 1 at byte 24: a frame of 1514 B, of which the file has the first 34 B"
    ));
    assert!(cut.contains("tcpdump -s 0"), "{cut}");
    for len in [0, 13] {
        let short = said(&pcap(1, len, len));
        assert!(short.contains(&format!("a frame of {len} B is shorter than")), "{short}");
    }
    assert!(said(&pcap(1, 60, 0)).contains("a frame of 0 B"));
    assert_eq!(lens(&pcap(1, 14, 14)), Ok((14, 14)));
    for (link, name) in [
        (101, "101 (raw IP)"),
        (228, "228 (raw IPv4)"),
        (113, "113 (Linux cooked capture"),
        (276, "276 (Linux cooked capture"),
        (0, "0 (BSD loopback)"),
        (7_777, "7777 is not Ethernet"),
    ] {
        let other = said(&pcap(link, 60, 60));
        assert!(other.contains(&format!("link type {name}")), "{other}");
    }
}

#[test]
fn only_a_file_is_opened() {
    let said = |path: &str| open(Path::new(path)).err().unwrap().to_string();
    assert_eq!(said("/"), "a directory, not a file; give a regular file");
    assert_eq!(said("/dev/null"), "a device, not a file; give a regular file");
    // A shell's pipe cannot be read twice.
    let (pipe, _writer) = std::io::pipe().unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe));
    assert_eq!(said(&path), "a pipe, not a file; give a regular file");
    assert!(said("/no/trace").contains("No such file"));
}

/// Gives one byte at a time, is interrupted before each, and fails at the end.
struct Reluctant(Cursor<Vec<u8>>, bool);

impl Read for Reluctant {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(ErrorKind::Interrupted.into());
        }
        match self.0.read(&mut buffer[..1])? {
            0 => Err(Error::other("unplugged")),
            n => Ok(n),
        }
    }
}

#[test]
fn reluctant_readers_are_read() {
    let bytes = write(&sample(), FORMATS[5]);
    let input = Reluctant(Cursor::new(bytes), false);
    let incomplete = Trace::load(input, TraceLimits::default()).unwrap_err();
    assert_eq!(incomplete.trace, sample());
    assert!(incomplete.error.to_string().ends_with("unplugged"), "{}", incomplete.error);
}

#[test]
fn times_beyond_the_format_are_refused() {
    let data = [0; 60];
    let record = Record {
        timestamp_ns: (1 << 32) * 1_000_000_000,
        original_len: 60,
        link_type: LINK_ETHERNET,
        data: &data,
    };
    let mut pcap = Writer::new(Vec::new(), FORMATS[0]).unwrap();
    assert!(pcap.write(&record).unwrap_err().to_string().contains("after 2106"));
    let mut pcapng = Writer::new(Vec::new(), FORMATS[7]).unwrap();
    pcapng.write(&record).unwrap();
    let cooked = Record { link_type: 113, ..record };
    assert!(pcapng.write(&cooked).is_err());
}

proptest! {
    #[test]
    fn any_trace_round_trips(
        records in prop::collection::vec(
            (0u64..4_000_000_000_000_000, 0u32..9000, prop::collection::vec(any::<u8>(), 0..300)),
            0..20,
        ),
        format in prop::sample::select(&FORMATS[..]),
    ) {
        let mut trace = Trace::new();
        for (time_us, original_len, data) in &records {
            trace.push(time_us * 1000, *original_len, data);
        }
        prop_assert_eq!(load(&write(&trace, format)).unwrap(), trace);
    }

    #[test]
    fn damaged_files_are_read_or_refused(
        at in 0usize..500, value: u8, format in prop::sample::select(&FORMATS[..]),
    ) {
        let mut bytes = write(&sample(), format);
        let at = at % bytes.len();
        bytes[at] = value;
        let read = match load(&bytes) {
            Ok(trace) => trace.len(),
            Err(incomplete) => incomplete.trace.len(),
        };
        prop_assert!(read <= 3);
    }
}
