//! A store behind a card that writes items and tells events answers what it answers behind one that
//! steers, whatever it is asked; and what the card could not do, it does itself.
//!
//! Cards whose cores work on the thread of the test, burst by burst; and a card at work.

mod made;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use made::Made;
use niclab_apps::endpoint::Identity;
use niclab_apps::kvs::store::{DMA_PARTITION_BYTES_MIN, Spread};
use niclab_apps::kvs::transport::{Server, ServerOptions, ServerTotals, Udp, moment};
use niclab_card::items::{ItemCounters, Items};
use niclab_card::{
    Card, CardConfig, CardError, CardWorkload, Core, PacketProcessor, Receive, steering,
};
use niclab_nic::limits::BURST;
use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{IpProtocol, MacAddress, ethernet, ipv4, udp};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::event::{EventfdFlags, eventfd};

const CORES: usize = 2;

const US: Identity = Identity {
    mac: MacAddress([2, 0, 10, 9, 0, 2]),
    ip: std::net::Ipv4Addr::new(10, 9, 0, 2),
    network_bits: 24,
    port: 11211,
};

/// Bytes before a datagram's content.
const HEADS_LEN: usize = 42;

/// Answers by the number of their datagrams: what each has behind the frame header.
type Said = BTreeMap<u16, Vec<Vec<u8>>>;

/// Frames that come to the first core, and those that have left.
#[derive(Default)]
struct Wire {
    asked: Mutex<VecDeque<Vec<u8>>>,
    sent: Mutex<Vec<Vec<u8>>>,
}

impl made::World for Wire {
    /// The place of the queue pair.
    type Own = u32;

    const HELD: usize = 2 * BURST;

    fn own(&self, place: u32, _: u32) -> u32 {
        place
    }

    fn make(&self, place: &mut u32, _: usize, slot: &mut [u8]) -> Option<u16> {
        let frame = if *place == 0 { self.asked.lock().unwrap().pop_front() } else { None }?;
        slot[..frame.len()].copy_from_slice(&frame);
        Some(frame.len() as u16)
    }

    fn left(&self, _: &mut u32, frame: &[u8]) {
        self.sent.lock().unwrap().push(frame.to_vec());
    }
}

/// A card with a program, whose cores work on the thread that calls, and a store behind it.
struct Stack {
    card: Card,
    cores: Vec<Core>,
    wire: Arc<Wire>,
    server: Server,
}

fn server(memory_bytes: usize) -> Server {
    let options = ServerOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        udp: Udp::Off,
        cores: vec![0, 1],
        partitions: CORES,
        spread: Spread::Steered,
        memory_bytes,
        connections_max: 16,
        idle_timeout: None,
        buffers_bytes_max: 1 << 20,
    };
    Server::bind(options).unwrap()
}

/// What a server has done that serves no more.
fn over(server: Server) -> ServerTotals {
    server.run(&AtomicBool::new(true)).unwrap().ended()
}

impl Stack {
    fn new(has_dma: bool, memory_bytes: usize) -> Stack {
        let server = server(memory_bytes);
        let (program, segments) = match has_dma {
            true => {
                let (mut items, segments) =
                    Items::new(&US, CORES, memory_bytes, Some(256)).unwrap();
                items.set_time(moment());
                (PacketProcessor::from(items), segments)
            }
            false => (steering::pipeline(&US, CORES).unwrap().into(), Vec::new()),
        };
        let (services, wire) = (server.services(US, segments), Arc::<Wire>::default());
        let (ports, queues) = (vec![Made(Arc::clone(&wire))], steering::queues(CORES));
        let config = CardConfig::new(ports, queues, vec![0, 1]);
        let runs = CardWorkload { program: Some(program), services, ..CardWorkload::default() };
        let (card, cores) = Card::driven(&config, runs).unwrap();
        Stack { card, cores, wire, server }
    }

    /// Sends frames together, runs the cores until they are idle, and returns the answers.
    fn ask(&mut self, frames: &[Vec<u8>]) -> Said {
        self.wire.asked.lock().unwrap().extend(frames.iter().cloned());
        loop {
            self.cores.iter_mut().for_each(|core| _ = core.turn());
            if self.cores.iter().all(Core::is_idle) {
                break;
            }
        }
        let mut message = Said::new();
        for frame in self.wire.sent.lock().unwrap().drain(..) {
            let packet = ipv4::Packet::new_checked(&frame[14..]).unwrap();
            assert!(packet.is_checksum_valid() && packet.src() == US.ip);
            let total_len = packet.total_len();
            assert!(frame[14 + total_len..].iter().all(|byte| *byte == 0), "padding");
            let datagram = udp::Datagram::new_unchecked(&frame[34..14 + total_len]);
            let pseudo = packet.pseudo(IpProtocol::UDP, datagram.length());
            assert!(datagram.is_checksum_valid(pseudo), "{frame:02x?}");
            let mut content = frame[HEADS_LEN..14 + total_len].to_vec();
            let id = u16::from_be_bytes([content[0], content[1]]);
            // The number of an item hangs on who gave it.
            if content.len() >= 32 && content[8] == 0x81 {
                content[8 + 16..8 + 24].fill(0);
            }
            let to = [&frame[..6], &frame[30..34], &frame[36..38]].concat();
            message.entry(id).or_default().push([to, content].concat());
        }
        message
    }

    fn counters(&self) -> ItemCounters {
        self.card.item_counters().unwrap_or_default()
    }

    fn end(self) -> ServerTotals {
        let (ended, _) = self.card.shut_down_driven(self.cores);
        let port = &ended.counters.ports[0];
        assert_eq!((ended.frames_lost, port.program_faults, port.tx_dropped), (0, 0, 0));
        over(self.server)
    }
}

fn frame(client: u8, port: u16, content: Vec<u8>) -> Vec<u8> {
    build(&[
        Layer::Ethernet(ethernet::Repr {
            dst: US.mac,
            src: MacAddress::local(client.into()),
            ..ethernet::Repr::default()
        }),
        Layer::Ipv4(ipv4::Repr {
            src: [10, 9, 0, client].into(),
            dst: US.ip,
            protocol: IpProtocol::UDP,
            ..ipv4::Repr::default()
        }),
        Layer::Udp(udp::Repr { src_port: port, dst_port: US.port, ..udp::Repr::default() }),
        Layer::Payload(content),
    ])
    .unwrap()
}

fn request(id: u16, code: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = [id, 0, 1, 0].map(u16::to_be_bytes).as_flattened().to_vec();
    bytes.extend([0x80, code, 0, key.len() as u8, extras.len() as u8, 0, 0, 0]);
    bytes.extend(((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
    bytes.extend([id.to_be_bytes(), [7, 8]].as_flattened());
    bytes.extend([0; 8]);
    [&bytes[..], extras, key, value].concat()
}

/// Requests of all kinds, most of them what the card takes; keys of all lengths.
fn random_request(random: &mut Xoshiro256PlusPlus, id: u16, keys: u32) -> Vec<u8> {
    let number = random.random_range(0..keys);
    let mut key = format!("key:{number}:").into_bytes();
    // Some keys are too long for the card.
    key.resize(key.len() + number as usize % 70, b'x');
    let mut value = vec![0; random.random_range(0..1_375)];
    random.fill_bytes(&mut value);
    let flags = [0, 0, 1, number as u8];
    let never = [&flags[..], &[0; 4]].concat();
    let once = [&flags[..], &[0, 0, 1, 0]].concat();
    let count = [&5_u64.to_be_bytes()[..], &1_u64.to_be_bytes(), &[0; 4]].concat();
    match random.random_range(0..40) {
        0..14 => request(id, 0x01, &never, &key, &value),
        14..30 => request(id, 0x00, b"", &key, b""),
        30 => request(id, 0x01, &once, &key, &value),
        31 => request(id, 0x04, b"", &key, b""),
        32 => request(id, 0x05, &count, &key, b""),
        33 => request(id, 0x0e, b"", &key, b"tail"),
        34 => request(id, 0x02, &never, &key, &value),
        35 => request(id, 0x0c, b"", &key, b""),
        36 => request(id, 0x11, &never, &key, &value),
        37 => {
            let text = [&b"get "[..], &key, b"\r\n"].concat();
            [[id, 0, 1, 0].map(u16::to_be_bytes).as_flattened(), &text].concat()
        }
        38 if random.random_range(0..40) == 0 => request(id, 0x08, b"", b"", b""),
        38 => request(id, 0x0a, b"", b"", b""),
        _ => {
            let head = format!(" 0 0 {}\r\n", value.len() % 100);
            let value = &value[..value.len() % 100];
            let text = [&b"set "[..], &key, head.as_bytes(), value, b"\r\n"].concat();
            [[id, 0, 1, 0].map(u16::to_be_bytes).as_flattened(), &text].concat()
        }
    }
}

#[test]
fn both_cards_lead_to_the_same_answers() {
    for seed in 0..2 {
        // Enough memory that nothing has to go, and so little that segments go round.
        let memory = 16 << 20;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut told, mut steered) = (Stack::new(true, memory), Stack::new(false, memory));
        for number in 0..20_000_u32 {
            let id = number as u16;
            let content = random_request(&mut random, id, 400);
            let asked = [frame(3 + (number % 200) as u8, 2_000 + id % 999, content)];
            assert_eq!(told.ask(&asked), steered.ask(&asked));
        }
        let message = told.counters();
        assert!(
            message.stored > 1_000 && message.requests > 2_000 && message.passed_through > 1_000,
            "{message:?}"
        );
        let (told, steered) = (told.end(), steered.end());
        let items = |of: &ServerTotals| of.statistics.curr_items;
        assert_eq!(items(&told), items(&steered));
        let (one, other) = (told.statistics.counters, steered.statistics.counters);
        assert_eq!((one.cmd_get, one.get_hits), (other.cmd_get, other.get_hits));
        assert_eq!((one.cmd_set, one.total_items), (other.cmd_set, other.total_items));
        assert_eq!((told.statistics.unfit, one.evictions), (0, 0));
        // All that the card took is counted, whoever came first.
        assert_eq!(
            (told.statistics.stored.items, told.frames.asked),
            (message.stored, message.requests)
        );
        let (one, other) = (told.server, steered.server);
        assert_eq!((one.datagrams, one.bytes_read), (other.datagrams, other.bytes_read));
        assert_eq!(one.bytes_written, other.bytes_written);
    }
}

/// Gets and sets of one key that come together are answered in their order, as long as the card
/// takes them all.
#[test]
fn a_get_behind_a_set_sees_it() {
    let (mut told, mut full) = (Stack::new(true, 16 << 20), 0);
    for round in 0..3_000_u16 {
        let value = |id: u16| format!("{id} ").repeat(1 + usize::from(id) % 50).into_bytes();
        let set = |id: u16| frame(9, 4_000, request(id, 1, &[0; 8], b"same", &value(id)));
        let get = |id: u16| frame(9, 4_000, request(id, 0, b"", b"same", b""));
        let at = round.wrapping_mul(8);
        let frames = [set(at), get(at + 1), get(at + 2), set(at + 3), set(at + 4), get(at + 5)];
        let left = told.counters().passed_through;
        let message = told.ask(&frames);
        assert_eq!(message.len(), 6);
        if told.counters().passed_through > left {
            full += 1;
            continue;
        }
        for (get, set) in [(at + 1, at), (at + 2, at), (at + 5, at + 4)] {
            let answer = &message[&get][0];
            assert!(answer.ends_with(&value(set)), "{get}: {}", String::from_utf8_lossy(answer));
        }
    }
    assert!((1..100).contains(&full), "segments were full now and then: {full}");
}

/// Its client has the answer, and the core has not had its turn: a request that comes by a queue
/// finds the item.
#[test]
fn items_that_the_card_answered_are_found_by_other_transports() {
    let mut told = Stack::new(true, 16 << 20);
    for id in 0..200_u16 {
        let key = format!("key:{id}").into_bytes();
        let set = frame(9, 4_000, request(2 * id, 1, &[0; 8], &key, b"value"));
        let text = [&b"get "[..], &key, b"\r\n"].concat();
        let head = [2 * id + 1, 0, 1, 0].map(u16::to_be_bytes);
        let get = frame(9, 4_000, [head.as_flattened(), &text].concat());
        let message = told.ask(&[set, get]);
        let answer = &message[&(2 * id + 1)][0];
        assert!(answer.ends_with(b"value\r\nEND\r\n"), "{}", String::from_utf8_lossy(answer));
    }
}

/// Whoever stores under a key, the card or the host: its number goes up.
#[test]
fn numbers_go_up_whoever_stores() {
    let mut told = Stack::new(true, 16 << 20);
    let text = |id: u16, message: &str| {
        let head = [id, 0, 1, 0].map(u16::to_be_bytes);
        frame(9, 4_000, [head.as_flattened(), message.as_bytes()].concat())
    };
    let (mut last, mut all) = ([0; 2], Vec::new());
    for id in 0..200_u16 {
        let (key, at) = (["a", "b"][usize::from(id) % 2], usize::from(id) % 2);
        let store = match id % 3 {
            0 => text(2 * id, &format!("set {key} 0 0 1\r\nx\r\n")),
            _ => frame(9, 4_000, request(2 * id, 1, &[0; 8], key.as_bytes(), b"x")),
        };
        told.ask(&[store]);
        let message = told.ask(&[text(2 * id + 1, &format!("gets {key}\r\n"))]);
        let message = String::from_utf8_lossy(&message[&(2 * id + 1)][0]).into_owned();
        let number = message.split("\r\n").next().and_then(|line| line.split(' ').next_back());
        let number: u64 = number.unwrap().parse().unwrap();
        assert!(number > last[at], "{number} behind {}", last[at]);
        last[at] = number;
        all.push(number);
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 200, "no two are the same");
    let message = told.counters();
    assert!(message.stored > 100 && message.passed_through > 250, "both have stored: {message:?}");
}

#[test]
fn no_answer_goes_to_a_harmful_address() {
    let mut told = Stack::new(true, 16 << 20);
    let get = || request(1, 0, b"", b"key", b"");
    assert_eq!(told.ask(&[frame(9, 4_000, get())]).len(), 1);
    assert_eq!(told.ask(&[frame(9, US.port, get())]).len(), 0, "another store");
    assert_eq!(told.ask(&[frame(9, 0, get())]).len(), 0);
    assert_eq!(told.ask(&[frame(255, 4_000, get())]).len(), 0, "all hosts of the network");
    assert_eq!(told.ask(&[frame(2, 4_000, get())]).len(), 0, "the store itself");
    let set = || request(1, 1, &[0; 8], b"key", b"value");
    assert_eq!(told.ask(&[frame(9, US.port, set())]).len(), 0, "another store");
    let mut group = frame(9, 4_000, get());
    group[6] |= 1;
    assert_eq!(told.ask(&[group]).len(), 0);
    let ended = told.end();
    assert_eq!((ended.frames.refused, ended.frames.asked), (6, 1));
}

/// Sets that come to the first core alone: a few whenever the second one has looked, or sleeps.
struct Sets {
    /// Never readable: nobody sends to the second core.
    silent: OwnedFd,
    made: AtomicU64,
    has_looked: AtomicBool,
    last: Mutex<Instant>,
}

impl Sets {
    fn new() -> Arc<Sets> {
        let silent = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let (made, has_looked) = Default::default();
        Arc::new(Sets { silent, made, has_looked, last: Mutex::new(Instant::now()) })
    }

    fn is_time(&self) -> bool {
        let mut last = self.last.lock().unwrap();
        let has_looked = self.has_looked.swap(false, Ordering::Relaxed);
        let is_time = has_looked || last.elapsed() > Duration::from_millis(1);
        *last = if is_time { Instant::now() } else { *last };
        is_time
    }
}

impl made::World for Sets {
    /// The place of the queue pair.
    type Own = u32;

    const HELD: usize = 64;

    fn own(&self, place: u32, _: u32) -> u32 {
        place
    }

    fn make(&self, place: &mut u32, at: usize, slot: &mut [u8]) -> Option<u16> {
        if *place != 0 {
            self.has_looked.store(true, Ordering::Relaxed);
            return None;
        }
        let number = self.made.load(Ordering::Relaxed);
        if number == SETS || at == 16 || at == 0 && !self.is_time() {
            return None;
        }
        let key = format!("key:{}", number % 500).into_bytes();
        let set = request(number as u16, 1, &[0; 8], &key, &[7; 1000]);
        // What the card leaves goes to both cores.
        let frame = frame(9, 4_000 + number as u16 % 64, set);
        slot[..frame.len()].copy_from_slice(&frame);
        self.made.store(number + 1, Ordering::Relaxed);
        Some(frame.len() as u16)
    }

    fn waits_on(&self, place: &u32) -> Option<BorrowedFd<'_>> {
        (*place == 1).then(|| self.silent.as_fd())
    }

    fn left(&self, _: &mut u32, _: &[u8]) {}
}

const SETS: u64 = 12_000;

/// Two segments of 1 MiB a core would be full after a third of the sets.
#[test]
fn segments_go_round_whether_cores_sleep_or_not() {
    for receive in [Receive::BusyPoll, Receive::Interrupt] {
        let memory_bytes = CORES * DMA_PARTITION_BYTES_MIN;
        let server = server(memory_bytes);
        let (items, segments) = Items::new(&US, CORES, memory_bytes, None).unwrap();
        let services = server.services(US, segments);
        let ports = vec![Made(Sets::new())];
        let config = CardConfig { receive, ..CardConfig::new(ports, 2, vec![0, 1]) };
        let runs =
            CardWorkload { program: Some(items.into()), services, ..CardWorkload::default() };
        let mut card = Card::start_with(&config, runs).unwrap();
        let (begun, mut told) = (Instant::now(), ItemCounters::default());
        while told.stored + told.passed_through < SETS {
            assert!(begun.elapsed() < Duration::from_secs(60), "{told:?}");
            thread::sleep(Duration::from_millis(1));
            told = card.item_counters().unwrap();
        }
        assert!(card.program().is_none(), "nobody else has it");
        // What it has counted can be looked at all the same.
        let look = card.program_view().unwrap();
        let stored = look.program().counters.iter().position(|of| of.name == "stored").unwrap();
        let of = |core| look.counter(stored, core).unwrap().0;
        assert_eq!((of(0) + of(1), look.counter(usize::MAX, 0)), (told.stored, None));
        assert_eq!((told.stored + told.passed_through, told.requests), (SETS, 0));
        assert!(told.stored > 2 * SETS / 3, "{told:?}");
        let ended = card.shut_down();
        assert_eq!((ended.frames_lost, ended.errors, ended.items), (0, Vec::new(), Some(told)));
        let missed = ended.counters.ports[0].queues.iter().map(|queue| queue.rx_missed);
        let (served, left) = (over(server), told.passed_through - missed.sum::<u64>());
        assert_eq!((served.statistics.stored.items, served.frames.datagrams), (told.stored, left));
        assert_eq!(served.server.datagrams, told.stored + left);
    }
}

/// A core that is not counted would not be waited for.
#[test]
fn items_for_another_number_of_cores_are_refused() {
    for cores in [vec![0], vec![0, 1, 0]] {
        let ports = vec![Made(Sets::new())];
        let (items, _) = Items::new(&US, CORES, 16 << 20, Some(256)).unwrap();
        let runs = CardWorkload { program: Some(items.into()), ..CardWorkload::default() };
        let refused = Card::start_with(&CardConfig::new(ports, 2, cores), runs).err().unwrap();
        assert!(matches!(refused, CardError::ItemsCores { items: 2, cores: 1 | 3 }));
    }
}

#[test]
fn too_little_memory_or_too_many_cores_are_refused() {
    let refused = |cores, bytes| Items::new(&US, cores, bytes, None).err().map(|e| e.to_string());
    assert_eq!(refused(CORES, CORES * DMA_PARTITION_BYTES_MIN), None);
    let message = refused(CORES, CORES * DMA_PARTITION_BYTES_MIN - CORES).unwrap();
    assert!(message.contains("too little memory"), "{message}");
    assert!(refused(17, 1 << 40).is_some());
}
