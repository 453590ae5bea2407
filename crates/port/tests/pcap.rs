//! Packet traces as a port.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use niclab_packet::trace::{
    Endian, Format, LINK_ETHERNET, Record, Resolution, Trace, TraceLimits, Writer,
};
use niclab_port::Burst;
use niclab_port::error::PortError;
use niclab_port::frame_pool::{FramePool, count, frame_pools};
use niclab_port::pcap::{self, Files, PcapQueuePair, Speed};
use niclab_port::queue_pair::QueuePair;
use tempfile::{TempDir, tempdir};

/// A file of frames of these lengths, one each millisecond; each byte says which.
fn file(directory: &TempDir, lens: &[usize]) -> PathBuf {
    let path = directory.path().join("in.pcap");
    let format = Format::Pcap(Endian::Big, Resolution::Micro);
    let mut writer = Writer::new(fs::File::create(&path).unwrap(), format).unwrap();
    for (number, len) in (0_u64..).zip(lens) {
        let data = vec![number as u8; *len];
        let (timestamp_ns, original_len) = (number * 1_000_000, *len as u32);
        let record = Record { timestamp_ns, original_len, link_type: LINK_ETHERNET, data: &data };
        writer.write(&record).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// A file of one frame, wrong in a way that its name says.
fn input(directory: &TempDir, name: &str) -> PathBuf {
    let (link, captured_len, original_len) = match name {
        "headers-only-snaplen34" => (1, 34, 60),
        "caplen-801-len-785" => (1, 801, 785),
        "with-fcs" => (0x2400_0001, 64, 64),
        "cooked" => (113, 60, 60),
        _ => (1, 0, 0),
    };
    let head = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, link];
    let words = head.into_iter().chain([1, 2, captured_len, original_len]);
    let bytes = words.flat_map(u32::to_le_bytes);
    let path = directory.path().join(name);
    fs::write(&path, bytes.chain((0..captured_len).map(|_| 7)).collect::<Vec<u8>>()).unwrap();
    path
}

fn open(files: &Files, pool: &FramePool) -> Result<PcapQueuePair, PortError> {
    Ok(pcap::open(files, 1, pool.region())?.remove(0))
}

/// Sends all that comes, until the end; how long that took.
fn copy(queue_pair: &mut PcapQueuePair, pool: &mut FramePool) -> Duration {
    let begun = Instant::now();
    let mut burst = Burst::new();
    while !queue_pair.is_ended() && begun.elapsed() < Duration::from_secs(10) {
        queue_pair.receive(pool, &mut burst).unwrap();
        queue_pair.send(pool, &mut burst).unwrap();
        assert!(burst.is_empty());
    }
    assert!(queue_pair.is_ended());
    begun.elapsed()
}

#[test]
fn frames_go_from_one_file_to_another_at_their_times() {
    let directory = tempdir().unwrap();
    let lens: Vec<usize> = (0..50).map(|number| 60 + number * 29).collect();
    let input = file(&directory, &lens);
    let output = directory.path().join("out.pcap");
    let speeds = [
        (Speed::Times(1.0), 49),
        (Speed::Times(0.5), 98),
        (Speed::Times(10.0), 4),
        (Speed::Max, 0),
    ];
    let mut last = Duration::MAX;
    for (speed, least_ms) in speeds {
        let mut pools = frame_pools(1, 64, 1_514).unwrap();
        let (pool, frames) = (&mut pools[0], 64);
        let files = Files { input: Some(input.clone()), output: Some(output.clone()), speed };
        let mut queue_pair = open(&files, pool).unwrap();
        let took = copy(&mut queue_pair, pool);
        // A busy machine is slower, and never faster.
        assert!(took >= Duration::from_millis(least_ms), "{speed:?}: {took:?}");
        let is_faster = !matches!(speed, Speed::Times(times) if times <= 1.0);
        assert!(!is_faster || took < last, "{speed:?}: {took:?}, and {last:?} before");
        last = took;
        let counters = queue_pair.counters();
        let bytes: usize = lens.iter().sum();
        assert_eq!((counters.rx_frames, counters.rx_bytes), (50, bytes as u64));
        assert_eq!((counters.tx_frames, counters.tx_bytes), (50, bytes as u64));
        Box::new(queue_pair).close(pool).unwrap();
        assert_eq!(count(pools), frames);
        let [read, written] = [&input, &output].map(|path| {
            let trace = Trace::load(fs::File::open(path).unwrap(), TraceLimits::default());
            trace.unwrap().records().map(|record| record.data.to_vec()).collect::<Vec<_>>()
        });
        assert_eq!(read, written);
    }
}

#[test]
fn a_file_that_cannot_be_played_whole_is_refused() {
    let directory = tempdir().unwrap();
    let pools = frame_pools(1, 64, 1_514).unwrap();
    let path = file(&directory, &[60, 100, 200]);
    let files = |input: PathBuf| Files { input: Some(input), output: None, speed: Speed::Max };
    let refused = |path: PathBuf| open(&files(path), &pools[0]).err().unwrap().to_string();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let message = refused(path.clone());
    assert!(message.contains("record 3 at byte"), "{message}");
    fs::write(&path, b"no trace at all").unwrap();
    assert!(refused(path).contains("not a pcap or pcapng file"));
    let message = refused(file(&directory, &[60, 9_000]));
    assert!(message.contains("record 2 at byte") && message.contains("ethtool -K"), "{message}");
    assert!(refused(directory.path().join("none")).contains("none: No such file"));
    let message = refused("/dev/null".into());
    assert!(message.contains("a device, not a file"), "{message}");
    for (name, phrases) in [
        ("headers-only-snaplen34", &["record 1 at byte 24: a frame of 60 B", "first 34 B"][..]),
        ("cooked", &["link type 113 (Linux cooked capture"]),
        ("empty-frame", &["record 1", "a frame of 0 B is shorter"]),
    ] {
        let message = refused(input(&directory, name));
        assert!(phrases.iter().all(|phrase| message.contains(phrase)), "{name}: {message}");
    }
    let unwritable = directory.path().join("no/where");
    let output = Files { input: None, output: Some(unwritable), speed: Speed::Max };
    assert!(matches!(open(&output, &pools[0]), Err(PortError::File { .. })));
    let two = pcap::open(&output, 2, pools[0].region());
    assert!(matches!(two, Err(PortError::QueuePairs { most: 1, .. })));
}

#[test]
fn a_frame_is_played_as_it_was_on_the_wire_without_fcs() {
    let directory = tempdir().unwrap();
    for (name, len) in [("caplen-801-len-785", 785), ("with-fcs", 60)] {
        let mut pools = frame_pools(1, 64, 1_514).unwrap();
        let (pool, output) = (&mut pools[0], directory.path().join("out"));
        let files = Files {
            input: Some(input(&directory, name)),
            output: Some(output.clone()),
            speed: Speed::Max,
        };
        let mut queue_pair = open(&files, pool).unwrap();
        copy(&mut queue_pair, pool);
        assert_eq!(queue_pair.counters().rx_bytes, len, "{name}");
        Box::new(queue_pair).close(pool).unwrap();
        let trace = Trace::load(fs::File::open(&output).unwrap(), TraceLimits::default()).unwrap();
        let record = trace.record(0).unwrap();
        assert_eq!((record.data.len() as u64, record.original_len as u64), (len, len), "{name}");
        assert!(record.data.iter().all(|byte| *byte == 7));
    }
}

#[test]
fn a_disk_that_is_full_ends_the_port_and_loses_no_frame() {
    if !fs::exists("/dev/full").unwrap() {
        return println!("SKIP a_disk_that_is_full_ends_the_port: no /dev/full");
    }
    let mut pools = frame_pools(1, 64, 1_514).unwrap();
    let pool = &mut pools[0];
    let full = Files { input: None, output: Some("/dev/full".into()), speed: Speed::Max };
    let mut queue_pair = open(&full, pool).unwrap();
    let region = Arc::clone(pool.region());
    let mut burst = Burst::new();
    let mut result = Ok(());
    for _ in 0..100 {
        while !burst.is_full()
            && let Some(mut desc) = pool.take()
        {
            region.slot_mut(&mut desc);
            region.set_len(&mut desc, 1_000);
            burst.push(desc);
        }
        result = queue_pair.send(pool, &mut burst);
        if result.is_err() {
            break;
        }
    }
    assert!(result.is_err(), "the file takes nothing");
    pool.give_all(&mut burst);
    assert!(Box::new(queue_pair).close(pool).is_err());
    assert_eq!(count(pools), 64);
}

#[test]
fn a_file_that_is_read_is_not_written_to() {
    let directory = tempdir().unwrap();
    let pools = frame_pools(1, 64, 1_514).unwrap();
    let input = file(&directory, &[60, 100]);
    let before = fs::read(&input).unwrap();
    let [symbolic, hard] = ["symbolic", "hard"].map(|name| directory.path().join(name));
    std::os::unix::fs::symlink(&input, &symbolic).unwrap();
    fs::hard_link(&input, &hard).unwrap();
    let files = |input: Option<&PathBuf>, output: Option<&PathBuf>| Files {
        input: input.cloned(),
        output: output.cloned(),
        speed: Speed::Max,
    };
    let refused = |files: &Files| {
        let error = open(files, &pools[0]).err().unwrap();
        assert!(matches!(error, PortError::FileTaken { .. }), "{error}");
        error.to_string()
    };
    for name in [&input, &symbolic, &hard] {
        let message = refused(&files(Some(&input), Some(name)));
        let (name, input) = (name.display(), input.display());
        let wanted = "which is open here: give another one to write to";
        assert_eq!(message, format!("{name} is the same file as {input}, {wanted}"));
    }
    // By two ports, whichever comes first; two may read, and none writes what another writes.
    let reads = open(&files(Some(&input), None), &pools[0]).unwrap();
    open(&files(Some(&hard), None), &pools[0]).unwrap();
    refused(&files(None, Some(&symbolic)));
    drop(reads);
    let writes = open(&files(None, Some(&symbolic)), &pools[0]).unwrap();
    refused(&files(Some(&input), None));
    refused(&files(None, Some(&hard)));
    drop(writes);
    assert!(before == fs::read(&input).unwrap(), "a port that was never used leaves it as it was");
    let mut pools = pools;
    let writes = open(&files(None, Some(&hard)), &pools[0]).unwrap();
    Box::new(writes).close(&mut pools[0]).unwrap();
    let trace = Trace::load(fs::File::open(&input).unwrap(), TraceLimits::default()).unwrap();
    assert_eq!(trace.records().count(), 0, "begun anew");
}
