//! Time stamps of a card: two cabled Intel 82576 in the virtual machine of `scripts/guest`. They
//! stamp PTP frames alone, so the load is a capture of such frames.

use std::env;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use niclab_load::Latency;
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;
use niclab_packet::timestamp::TimestampClock;
use niclab_packet::trace::{Endian, Format, LINK_ETHERNET, Record, Resolution, Writer};
use niclab_port::packet::RxRing;

use super::ethtool::Card;
use super::ethtool::stamps::{RxFilter, StampSetting};
use super::veth_tests::setup;
use crate::face::measured;
use crate::pair::tests::alone;
use crate::{Arrivals, Load, Rate, linux};

/// Set in the guest, whose interfaces are the cards.
const INSIDE: &str = "NICLAB_IN_GUEST";

/// The tester's card.
const TESTER: &str = "eth1";

#[test]
fn a_card_stamps_frames_by_its_own_clock() {
    let test = "a_card_stamps_frames_by_its_own_clock";
    let _cores = alone();
    if env::var_os(INSIDE).is_some() {
        return inside();
    }
    if env::var_os("NICLAB_TEST_ALL").is_none() {
        return println!("SKIP {test}: takes more than ten seconds: ./test --all");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/guest");
    let mut command = Command::new(script);
    command.args(["--nic", "igb", "env", &format!("{INSIDE}=1")]);
    command.arg(env::current_exe().unwrap()).args([test, "--nocapture"]);
    let ended = command.output().unwrap();
    let [out, err] = [&ended.stdout, &ended.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    if ended.status.code() == Some(77) {
        return println!("SKIP {test}: {}", err.trim());
    }
    assert!(ended.status.success() && out.contains("1 passed"), "{out}{err}");
    print!("{out}");
}

fn inside() {
    let up = |name| super::link::find(name).unwrap().unwrap().up;
    while !up("eth0") || !up(TESTER) {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let directory = tempfile::tempdir().unwrap();
    let trace = capture(directory.path());
    let before = setting();
    let mut bed = linux::open("linux:eth1,eth0,stamps=card").unwrap();
    assert_eq!(setting(), Some(StampSetting::of(RxFilter::Ptp)));
    bed.setup(&setup(1518)).unwrap();
    let reader = Reader::start();
    let stamped = measured::load(&mut *bed, &load(Some(trace))).unwrap().stamped.unwrap();
    drop(reader);
    println!("{stamped:?}");
    assert_eq!(stamped.by, TimestampClock::Card);
    let p50 = |latency: &Latency| latency.0.value_at_quantile(0.5);
    // The emulated machine is slow, and the card stamps a frame at a time.
    assert!(stamped.port.0.len() > 10, "{stamped:?}");
    assert!(p50(&stamped.port) < p50(&stamped.program), "{stamped:?}");
    // Another program that asks for the kernel's time stamps has it write them into all rings.
    let loopback = super::link::find("lo").unwrap().unwrap();
    let mut other = RxRing::open(&loopback, 1_500, 64).unwrap();
    other.stamp_by(TimestampClock::Kernel).unwrap();
    let stamped = measured::load(&mut *bed, &load(None)).unwrap().stamped.unwrap();
    assert!(stamped.asked > 0 && stamped.port.0.is_empty(), "no PTP frames: {stamped:?}");
    drop(bed);
    assert_eq!(setting(), before, "it is set back");
}

/// Reads a register of the tester's card again and again. The emulated card stamps the next
/// received frame when RXSATRH was read; a real one, and the driver, do with RXSTMPH.
struct Reader(Child);

impl Reader {
    fn start() -> Reader {
        let program = "import mmap, time\n\
            card = open('/sys/class/net/eth1/device/resource0', 'r+b')\n\
            registers = memoryview(mmap.mmap(card.fileno(), 1 << 17)).cast('I')\n\
            print('ready', flush=True)\n\
            while True: registers[0xb630 // 4]; time.sleep(0.0005)";
        let mut command = Command::new("python3");
        let mut reader = command.args(["-c", program]).stdout(Stdio::piped()).spawn().unwrap();
        let mut word = [0; 5];
        reader.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
        Reader(reader)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn setting() -> Option<StampSetting> {
    Card::open(TESTER).unwrap().stamp_setting().unwrap()
}

/// A capture of a Sync message of PTP over Ethernet (IEEE 1588-2019, 13.3 and annex E), between the
/// cards.
fn capture(directory: &Path) -> PathBuf {
    let mut frame = [0; 60];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&0x88f7_u16.to_be_bytes());
    // Message type and version; the length of the message.
    frame[14..18].copy_from_slice(&[0, 2, 0, 44]);
    let path = directory.join("ptp.pcap");
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = Writer::new(file, Format::Pcap(Endian::Little, Resolution::Nano)).unwrap();
    let original_len = frame.len() as u32;
    let record = Record { timestamp_ns: 0, original_len, link_type: LINK_ETHERNET, data: &frame };
    writer.write(&record).unwrap();
    writer.finish().unwrap();
    path
}

fn load(trace: Option<PathBuf>) -> Load {
    Load {
        flows: FlowSpec::default(),
        sizes: FrameSizes::Fixed(128),
        rate: Rate::Pps(50.0),
        arrivals: Arrivals::Constant,
        duration_ns: 2_000_000_000,
        warmup_ns: 100_000_000,
        seed: 1,
        trace,
    }
}
