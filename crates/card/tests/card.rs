//! Two hosts talk through a card: one behind a veth pair, the other behind a TAP interface.

#[path = "../../port/tests/space/mod.rs"]
mod space;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use niclab_card::{
    Card, CardConfig, CardCounters, CardError, ChangeError, ExternalQueueConfig,
    ExternalQueueCounters, PortName, Receive,
};
use niclab_packet::trace::{
    Endian, Format, LINK_ETHERNET, Record, Resolution, Trace, TraceLimits, Writer,
};
use niclab_port::error::PortError;
use space::{apart, ip};

/// What the process in the other host is to do.
const ROLE: &str = "NICLAB_ROLE";

const HERE: &str = "10.8.0.2:7000";
const BYTES: usize = 4 << 20;

/// The other host: a process that waits in a network namespace of its own, and is killed.
struct Host(Child);

impl Host {
    /// Makes it, with one end of a veth pair of so many queues; the other end, `va`, is here.
    fn new(queues: u32) -> Host {
        let child = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo made; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut host = Host(child);
        host.0.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
        host.wire(queues);
        host
    }

    fn wire(&self, queues: u32) {
        let size = format!("numrxqueues {queues} numtxqueues {queues}");
        let pid = self.0.id();
        ip(&format!("link add va {size} type veth peer name vb {size} netns {pid}"));
        // This host answers by the card alone.
        ip("link set va arp off up");
        let set = "ip addr add 10.8.0.1/24 dev vb && ip link set vb up && \
                   ethtool -K vb tx off >/dev/null";
        let status = self.inside("sh").args(["-c", set]).status().unwrap();
        assert!(status.success(), "{set}");
    }

    /// A command there.
    fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.0.id())).arg(program);
        command
    }

    /// This program there, in a role.
    fn client(&self, test: &str, role: &str) -> Child {
        let program = env::current_exe().unwrap();
        let mut command = self.inside(program.to_str().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(ROLE, role);
        command.stdout(Stdio::null()).spawn().unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn config(queues: u16, cores: usize) -> CardConfig {
    over("xdp:va", queues, cores)
}

/// A card with this port towards the other host.
fn over(port: &str, queues: u16, cores: usize) -> CardConfig {
    let ports = [port, "tap:nic0"].map(|name| name.parse().unwrap());
    let cores = (0..cores as u32).collect();
    CardConfig::new(ports.into(), queues, cores)
}

/// Stops the server with its value.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends back what comes over TCP and UDP, until it has to stop.
fn serve(stop: &AtomicBool) {
    let listener = TcpListener::bind(HERE).unwrap();
    let socket = UdpSocket::bind(HERE).unwrap();
    listener.set_nonblocking(true).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut bytes = vec![0; 1 << 16];
    let mut streams: Vec<TcpStream> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            streams.push(stream);
        }
        if let Ok((len, from)) = socket.recv_from(&mut bytes) {
            socket.send_to(&bytes[..len], from).unwrap();
        }
        streams.retain_mut(|stream| match stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(len) => stream.write_all(&bytes[..len]).is_ok(),
            Err(_) => true,
        });
        thread::yield_now();
    }
}

/// The client's part, in the other host.
fn ask(role: &str) {
    match role {
        "tcp" => {
            let here = HERE.parse().unwrap();
            let mut stream = TcpStream::connect_timeout(&here, Duration::from_secs(5)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
            let sent: Vec<u8> = (0..BYTES).map(|at| (at * 7 / 3) as u8).collect();
            let (mut reader, all) = (stream.try_clone().unwrap(), sent.clone());
            let reading = thread::spawn(move || {
                let mut got = vec![0; BYTES];
                reader.read_exact(&mut got).unwrap();
                assert!(got == all, "what comes back is what was sent");
            });
            stream.write_all(&sent).unwrap();
            reading.join().unwrap();
        }
        "soon" => {
            // Of many flows, so that some go over each pair of cores.
            let mut waited: Vec<Duration> = (0..50)
                .map(|_| {
                    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                    thread::sleep(Duration::from_millis(2));
                    let begun = Instant::now();
                    socket.send_to(b"are you there?", HERE).unwrap();
                    socket.recv(&mut [0; 64]).unwrap();
                    begun.elapsed()
                })
                .collect();
            waited.sort();
            assert!(waited[40] < Duration::from_millis(50), "{waited:?}");
        }
        "unheard" => {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            socket.send_to(b"are you there?", HERE).unwrap();
            assert!(socket.recv(&mut [0; 64]).is_err(), "somebody answers");
        }
        _ => {
            // Whoever is asked may not be there at once: ARP, a port that comes back.
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            let (until, mut answers) = (Instant::now() + Duration::from_secs(10), 0);
            while answers < 20 {
                assert!(Instant::now() < until, "{answers} answers");
                let _ = socket.send_to(b"are you there?", HERE);
                answers += u32::from(socket.recv(&mut [0; 64]).is_ok());
            }
        }
    }
}

/// Starts a card between the hosts, with a server here.
fn talk(test: &str, config: &CardConfig, meanwhile: impl FnOnce(&mut Card, &Host)) {
    if let Ok(role) = env::var(ROLE) {
        return ask(&role);
    }
    let host = Host::new(config.cores.len() as u32);
    let mut card = Card::start(config, "").unwrap();
    ip("addr add 10.8.0.2/24 dev nic0");
    let stop = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        scope.spawn(|| serve(&stop));
        // Whatever fails below: nobody waits for the server for ever.
        let _stopping = Stopping(&stop);
        // Of many flows some come to each core, whatever their ports.
        for role in ["udp", "tcp", "soon"] {
            let status = host.client(test, role).wait().unwrap();
            assert!(status.success(), "{role}: {:?}", card.counters());
        }
        meanwhile(&mut card, &host);
        card.shut_down()
    });
    assert_eq!(ended.frames_lost, 0, "of {}", ended.frames);
    let total: CardCounters = ended.counters;
    let [xdp, tap] = &total.ports[..] else { panic!("two ports") };
    assert!(xdp.rx_bytes >= BYTES as u64 && tap.rx_bytes >= BYTES as u64, "{total:?}");
    for port in [xdp, tap] {
        let at_queues: u64 = port.queues.iter().map(|q| q.rx_frames + q.rx_missed).sum();
        assert_eq!(at_queues + port.rule_drops, port.rx_frames, "{port:?}");
    }
    for (place, core) in total.cores.iter().enumerate() {
        let queues = total.ports.iter().flat_map(|port| &port.queues);
        let of_core = queues.filter(|queue| queue.core == place);
        let frames: u64 = of_core.map(|queue| queue.rx_frames).sum();
        assert_eq!(frames, core.frames, "{total:?}");
        assert!(frames > 0, "each has work: {total:?}");
    }
}

#[test]
fn two_hosts_talk_over_one_core_and_rules_decide() {
    let test = "two_hosts_talk_over_one_core_and_rules_decide";
    let body = || {
        talk(test, &config(2, 1), |card, host| {
            let udp = "pattern eth / ipv4 / udp / end actions count / drop / end";
            let all = "pattern eth / end actions count / queue index 1 / end";
            let text = format!("flow create 0 ingress {udp}\nflow create 1 ingress {all}\n");
            assert_eq!(card.apply(&text).unwrap().len(), 2);
            quiet(card);
            let before = card.counters();
            assert!(host.client(test, "unheard").wait().unwrap().success(), "UDP is dropped");
            assert!(host.client(test, "tcp").wait().unwrap().success(), "TCP is not");
            quiet(card);
            let after = card.counters();
            assert!(after.ports[0].rule_drops > before.ports[0].rule_drops);
            let grew = |queue: usize| {
                let at = |of: &CardCounters| of.ports[1].queues[queue].rx_frames;
                at(&after) - at(&before)
            };
            assert!(grew(1) > 100 && grew(0) == 0, "{} {}", grew(0), grew(1));
            let unknown = card.apply("flow flush 2").unwrap_err();
            assert!(unknown.to_string().contains("no port 2"), "{unknown}");
            card.apply("flow flush 0\nflow flush 1").unwrap();
            assert!(host.client(test, "udp").wait().unwrap().success(), "as before");
        });
    };
    apart(test, body);
}

#[test]
fn two_hosts_talk_over_two_cores() {
    let test = "two_hosts_talk_over_two_cores";
    apart(test, || talk(test, &config(4, 2), |_, _| {}));
}

/// Waits until no frame comes any more, and the counters say so.
fn quiet(card: &Card) {
    let frames = || -> u64 { card.counters().cores.iter().map(|core| core.frames).sum() };
    let (until, mut before) = (Instant::now() + Duration::from_secs(5), frames());
    loop {
        thread::sleep(Duration::from_millis(150));
        let now = frames();
        if now == before || Instant::now() > until {
            return;
        }
        before = now;
    }
}

/// Cores that sleep are woken by the kernel, by each other and by the control side; what they run
/// while nobody talks is next to nothing.
fn talk_asleep(test: &str, port: &str) {
    let asleep = CardConfig { receive: Receive::Interrupt, ..over(port, 4, 2) };
    let body = || {
        talk(test, &asleep, |card, host| {
            let ran =
                |card: &Card| -> u64 { card.counters().cores.iter().map(|core| core.cpu_ns).sum() };
            // Each wakes now and then to show its counters.
            quiet(card);
            let (before, begun) = (ran(card), Instant::now());
            thread::sleep(Duration::from_millis(600));
            let share = (ran(card) - before) as f64 / begun.elapsed().as_nanos() as f64;
            assert!(share < 0.2, "{share} of a core, of two, while nobody talks");
            assert!(host.client(test, "soon").wait().unwrap().success(), "they wake at once");
            let all = "flow create 0 ingress pattern eth / ipv4 / udp / end actions drop / end";
            card.apply(all).unwrap();
            assert!(host.client(test, "unheard").wait().unwrap().success(), "told asleep");
        })
    };
    apart(test, body);
}

#[test]
fn two_hosts_talk_over_cores_that_sleep() {
    talk_asleep("two_hosts_talk_over_cores_that_sleep", "xdp:va");
}

#[test]
fn two_hosts_talk_over_cores_that_sleep_with_af_packet() {
    talk_asleep("two_hosts_talk_over_cores_that_sleep_with_af_packet", "packet:va");
}

#[test]
fn two_hosts_talk_over_af_packet() {
    let test = "two_hosts_talk_over_af_packet";
    apart(test, || {
        talk(test, &over("packet:va", 4, 2), |card, host| {
            ip("link del va");
            let until = Instant::now() + Duration::from_secs(5);
            // Each core sees it for itself.
            while card.run_housekeeping().is_empty() && Instant::now() < until {}
            assert!(!card.counters().ports[0].is_up, "it is gone");
            host.wire(2);
            while !card.run_housekeeping().is_empty() && Instant::now() < until {}
            assert!(host.client(test, "udp").wait().unwrap().success(), "it is back");
        })
    });
}

#[test]
fn a_port_that_goes_is_opened_again_when_it_comes_back() {
    let test = "a_port_that_goes_is_opened_again_when_it_comes_back";
    let body = || {
        talk(test, &config(1, 1), |card, host| {
            ip("link del va");
            let until = Instant::now() + Duration::from_secs(5);
            while card.counters().ports[0].is_up && Instant::now() < until {
                thread::sleep(Duration::from_millis(10));
            }
            let missing = card.run_housekeeping();
            assert!(matches!(&missing[..], [(_, PortError::Absent { .. })]), "{missing:?}");
            host.wire(1);
            while !card.run_housekeeping().is_empty() && Instant::now() < until {}
            assert!(host.client(test, "udp").wait().unwrap().success(), "it is back");
            assert!(card.counters().ports[0].is_up);
        });
    };
    apart(test, body);
}

#[test]
fn files_are_played_through_the_rules_and_it_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let [input, output] = ["in.pcap", "out.pcap"].map(|name| directory.path().join(name));
    let format = Format::Pcap(Endian::Little, Resolution::Nano);
    let mut writer = Writer::new(fs::File::create(&input).unwrap(), format).unwrap();
    // Every third frame is ARP.
    for number in 0..3_000_u32 {
        let mut data = vec![0; 60 + number as usize % 1_000];
        data[12..14].copy_from_slice(if number % 3 == 0 { &[8, 6] } else { &[0x88, 0xb5] });
        data[14..18].copy_from_slice(&number.to_be_bytes());
        let original_len = data.len() as u32;
        let record =
            Record { timestamp_ns: 0, original_len, link_type: LINK_ETHERNET, data: &data };
        writer.write(&record).unwrap();
    }
    writer.finish().unwrap();
    let ports = [
        format!("pcap:in={},speed=max", input.display()),
        format!("pcap:out={}", output.display()),
    ];
    let ports: Vec<PortName> = ports.map(|name| name.parse().unwrap()).into();
    let config = CardConfig { receive: Receive::Interrupt, ..CardConfig::new(ports, 4, vec![0]) };
    let rules = "flow create 0 ingress pattern eth type is 0x0806 / end actions drop / end\n";
    let card = Card::start(&config, rules).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while !card.is_finished() && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    assert!(card.is_finished());
    let ended = card.shut_down();
    assert_eq!((ended.frames_lost, ended.errors), (0, vec![]));
    assert_eq!(ended.counters.ports[0].rule_drops, 1_000);
    let trace = Trace::load(fs::File::open(&output).unwrap(), TraceLimits::default()).unwrap();
    let numbers: Vec<u32> = trace
        .records()
        .map(|record| u32::from_be_bytes(record.data[14..18].try_into().unwrap()))
        .collect();
    let wanted: Vec<u32> = (0..3_000).filter(|number| number % 3 != 0).collect();
    assert_eq!(numbers, wanted, "in order, and the others dropped");
    // Headers that are set are known to the commands that follow, in this text and in the next.
    let files = CardConfig { ports: config.ports.clone(), ..config.clone() };
    let mut card = Card::start(&files, "set raw_encap 0 eth / ipv4 / end_set\n").unwrap();
    let encap = "flow create 1 ingress pattern eth / end actions raw_encap index 0 / queue index 1 \
                 / end";
    assert_eq!(card.apply(encap).map_err(|error| error.to_string()).unwrap().len(), 1);
    drop(card);
    // A disk that is full.
    let full = ["pcap:out=/dev/full".to_owned(), format!("pcap:in={},speed=max", input.display())];
    let ports = full.map(|name| name.parse().unwrap()).into();
    let mut card = Card::start(&CardConfig { ports, ..config.clone() }, "").unwrap();
    let (mut missing, until) = (vec![], Instant::now() + Duration::from_secs(20));
    while missing.is_empty() && Instant::now() < until {
        missing = card.run_housekeeping();
    }
    assert!(matches!(&missing[..], [(_, PortError::Ended { .. })]), "{missing:?}");
    let ended = card.shut_down();
    assert_eq!(ended.frames_lost, 0);
    assert!(ended.errors[0].starts_with("pcap:out=/dev/full: "), "{:?}", ended.errors);
    assert!(ended.counters.ports[0].tx_dropped > 0 && !ended.counters.ports[0].is_up);
    let two = CardConfig { cores: vec![0, 1], ..config };
    assert!(Card::start(&two, "").is_err(), "a file has one queue pair");
}

#[test]
fn frames_of_a_port_without_a_partner_return_by_it() {
    let directory = tempfile::tempdir().unwrap();
    let [input, output] = ["in.pcap", "out.pcap"].map(|name| directory.path().join(name));
    let format = Format::Pcap(Endian::Little, Resolution::Nano);
    let mut writer = Writer::new(fs::File::create(&input).unwrap(), format).unwrap();
    let data = [[1; 6], [2; 6], [0x88; 6], [0xb5; 6]].concat();
    let original_len = data.len() as u32;
    let record = Record { timestamp_ns: 0, original_len, link_type: LINK_ETHERNET, data: &data };
    writer.write(&record).unwrap();
    writer.finish().unwrap();
    let (input, output_name) = (input.display(), output.display());
    let ports = [
        "pcap:out=/dev/null".to_owned(),
        "pcap:out=/dev/null".to_owned(),
        format!("pcap:in={input},out={output_name}"),
    ];
    let ports = ports.map(|name| name.parse().unwrap()).into();
    let card = Card::start(&CardConfig::<PortName>::new(ports, 1, vec![0]), "").unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while !card.is_finished() && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    let ended = card.shut_down();
    assert_eq!((ended.frames_lost, ended.errors), (0, vec![]));
    let sent: Vec<u64> = ended.counters.ports.iter().map(|port| port.tx_frames).collect();
    assert_eq!(sent, [0, 0, 1]);
    let (_, frame) = &records(&output)[0];
    assert_eq!(frame[..12], [[2; 6], [1; 6]].concat(), "with the addresses swapped");
}

/// The program that serves a queue: `port/external_queue/reply.c`. It swaps the MAC addresses of
/// each frame and sends it back. `None` where nothing compiles it.
fn reply(test: &str, directory: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../port/external_queue/reply.c");
    let program = directory.join("reply");
    match Command::new("cc").arg("-O2").arg("-o").arg(&program).arg(source).output() {
        Err(error) => {
            println!("SKIP {test}: no C compiler (cc): {error}");
            None
        }
        Ok(ran) => {
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
            Some(program)
        }
    }
}

/// A trace whose first frame comes at once, and the others some time later; every third is ARP.
fn delayed_trace(path: &Path, frames: u32) {
    let format = Format::Pcap(Endian::Little, Resolution::Nano);
    let mut writer = Writer::new(fs::File::create(path).unwrap(), format).unwrap();
    for number in 0..frames {
        let mut data = vec![0; 60];
        data[..12].copy_from_slice(&[1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
        data[12..14].copy_from_slice(if number % 3 == 0 { &[8, 6] } else { &[0x88, 0xb5] });
        data[14..18].copy_from_slice(&number.to_be_bytes());
        let at = u64::from(number.min(1)) * 2_000_000_000 + u64::from(number) * 100_000;
        let (original_len, link_type) = (60, LINK_ETHERNET);
        let record = Record { timestamp_ns: at, original_len, link_type, data: &data };
        writer.write(&record).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn a_queue_is_served_by_another_process_and_its_death_loses_no_frame() {
    let test = "a_queue_is_served_by_another_process_and_its_death_loses_no_frame";
    let directory = tempfile::tempdir().unwrap();
    let [input, output, door] =
        ["in.pcap", "out.pcap", "door"].map(|name| directory.path().join(name));
    let Some(program) = reply(test, directory.path()) else { return };
    delayed_trace(&input, 6_001);
    let ports: Vec<PortName> =
        [format!("pcap:in={}", input.display()), format!("pcap:out={}", output.display())]
            .map(|name| name.parse().unwrap())
            .into();
    let external = |queue, path: &Path| ExternalQueueConfig { port: 0, queue, path: path.into() };
    let external_queues = vec![external(1, &door)];
    let config = CardConfig { external_queues, ..CardConfig::new(ports, 2, vec![0]) };
    let rules = "flow create 0 ingress pattern eth type is 0x0806 / end actions queue index 1 / \
                 end\nflow create 0 ingress priority 1 pattern eth / end actions queue index 0 / \
                 end\n";
    let mut card = Card::start(&config, rules).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let wait = |card: &mut Card, so: &dyn Fn(&ExternalQueueCounters) -> bool| loop {
        card.run_housekeeping();
        let queue = card.counters().ports[0].external_queues[0].clone();
        if so(&queue) {
            return queue;
        }
        assert!(Instant::now() < until, "{:?}", card.counters());
        thread::sleep(Duration::from_millis(2));
    };
    // The first frame comes before anybody is there.
    wait(&mut card, &|queue| queue.dropped == 1);
    let mut running = Command::new(&program).arg(&door).stdout(Stdio::null()).spawn().unwrap();
    wait(&mut card, &|queue| queue.is_there);
    wait(&mut card, &|queue| queue.given_frames > 300 && queue.taken_frames > 200);
    running.kill().unwrap();
    running.wait().unwrap();
    let gone = wait(&mut card, &|queue| !queue.is_there);
    assert!(gone.ended.as_ref().is_some_and(|why| why.contains("gone")));
    // What the one that was killed had is gone with it.
    let lost = gone.given_frames - gone.taken_frames;
    let mut running = Command::new(&program).arg(&door).stdout(Stdio::null()).spawn().unwrap();
    wait(&mut card, &|queue| queue.is_there && queue.taken_frames > 400);
    while !card.is_finished() && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    // What is on its way back arrives.
    wait(&mut card, &|queue| queue.taken_frames + lost >= queue.given_frames);
    let ended = card.shut_down();
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(ended.frames_lost, 0, "of {}", ended.frames);
    let [from, to] = &ended.counters.ports[..] else { panic!("two ports") };
    let queue = &from.external_queues[0];
    assert_eq!(queue.given_frames + queue.dropped, 2_001, "all ARP, and nothing else: {queue:?}");
    assert_eq!(queue.refused, 0);
    // It sends by the port that its queue is of, which has no file to send to.
    assert_eq!(from.tx_frames + from.tx_dropped, queue.taken_frames);
    assert_eq!(to.tx_frames, 4_000, "the others went by the function");
    assert!(!door.exists());

    let refused = |external_queues| {
        Card::start(&CardConfig { external_queues, ..config.clone() }, "").err().unwrap()
    };
    for unfit in [vec![external(1, &door), external(1, &door)], vec![external(2, &door)]] {
        let refused = refused(unfit);
        assert!(matches!(refused, CardError::ExternalQueueNumber { .. }), "{refused}");
    }
    let refused = refused(vec![external(1, Path::new("/nowhere/door"))]);
    assert!(matches!(refused, CardError::ExternalQueue { .. }), "{refused}");
}

fn records(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let trace = Trace::load(fs::File::open(path).unwrap(), TraceLimits::default());
    let trace = trace.map_err(|incomplete| incomplete.error).unwrap();
    trace.records().map(|record| (record.timestamp_ns, record.data.to_vec())).collect()
}

/// A file to capture into, which keeps what is in it for now.
fn into(path: &Path) -> (&Path, fs::File) {
    let file = fs::File::options().write(true).create(true).truncate(false).open(path);
    (path, file.unwrap())
}

#[test]
fn received_and_sent_frames_are_captured_and_a_capture_delays_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let [input, output, all, few] =
        ["in", "out", "all", "few"].map(|name| directory.path().join(name));
    delayed_trace(&input, 3_001);
    let port = format!("pcap:in={},out={}", input.display(), output.display());
    let config = CardConfig::new(vec![port.parse::<PortName>().unwrap()], 1, vec![0]);
    let mut card = Card::start(&config, "").unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while card.counters().ports[0].tx_frames == 0 && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    let read = fs::read(&input).unwrap();
    for path in [&input, &output] {
        let refused = card.capture(0, into(path), 1).unwrap_err();
        assert!(refused.to_string().contains("same file as"), "{refused}");
    }
    assert!(read == fs::read(&input).unwrap(), "a file of the port stays as it is");
    card.capture(0, into(&all), u64::MAX).unwrap();
    let refused = card.capture(0, into(&few), 1).unwrap_err();
    assert!(matches!(refused, ChangeError::Capturing { port: 0 }), "{refused}");
    assert!(matches!(card.capture(1, into(&few), 1), Err(ChangeError::Port { .. })));
    while !card.is_finished() && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    let captured = card.end_capture(0).unwrap().unwrap();
    assert_eq!((captured.frames, captured.missed), (6_000, 0));
    assert_eq!(card.end_capture(0).unwrap(), None);
    assert_eq!(card.shut_down().frames_lost, 0);
    let (mut received, mut left) = (records(&input), records(&output));
    let (observed, started_ns) = (records(&all), records(&all)[0].0);
    assert!(observed.windows(2).all(|pair| pair[0].0 <= pair[1].0), "one core: in order of time");
    let now_ns = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let ago_ns = now_ns.as_nanos() as u64 - started_ns;
    assert!(ago_ns < 30_000_000_000, "{ago_ns} ns ago");
    let data = |of: Vec<(u64, Vec<u8>)>| -> Vec<Vec<u8>> {
        let mut data: Vec<Vec<u8>> = of.into_iter().map(|(_, data)| data).collect();
        data.sort();
        data
    };
    // The first came and left before.
    received.remove(0);
    left.remove(0);
    received.extend(left);
    assert!(data(received) == data(observed), "frames received, and frames sent");

    let mut card = Card::start(&config, "").unwrap();
    card.capture(0, into(&few), 10).unwrap();
    while card.capture_state(0).unwrap().1 && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(card.capture_state(0).unwrap().0.frames, 10);
    // One that has ended makes room for the next, which cannot be written.
    let full = Path::new("/dev/full");
    while let Err(ChangeError::Capturing { .. }) = card.capture(0, into(full), u64::MAX) {
        assert!(Instant::now() < until);
    }
    assert_eq!(records(&few).len(), 10);
    while !card.is_finished() && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    let ended = card.shut_down();
    assert_eq!(ended.frames_lost, 0);
    assert!(ended.errors.iter().any(|what| what.contains("capture")), "{:?}", ended.errors);
    // A file that is open for reading alone.
    let closed = (&*few, fs::File::open(&few).unwrap());
    assert!(Card::start(&config, "").unwrap().capture(0, closed, 1).is_err());
    assert_eq!(records(&few).len(), 10);
}
