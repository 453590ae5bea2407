//! Groups of many masks, as access lists have them: whatever the filter leaves out is no rule of
//! the packet's.
//!
//! Rules in the manner of ClassBench's come, change and go; packets inside of them and beside them
//! meet the NIC and the definition. `NICLAB_PACKETS` is how many there are at least.

use niclab_nic::definition::{DefinedRule, Definition, Verdict};
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use niclab_nic::rule::compile::pattern;
use niclab_nic::rule::item::{Image, Item, ItemMatch};
use niclab_nic::rule::{Action, Rule};
use niclab_nic::{Nic, NicConfig, RuleId, Worker};

const QUEUES: u16 = 64;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Random numbers: splitmix64.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// The five fields of a packet.
#[derive(Clone, Copy)]
struct Packet {
    addresses: [u32; 2],
    ports: [u16; 2],
    protocol: u8,
}

impl Packet {
    /// Few networks, hosts and ports, so that rules and packets meet.
    fn draw(draw: &mut Draw) -> Packet {
        let mut address = || draw.pick(&[0x0a00_0000, 0x0a01_0000, 0xc0a8_0000, 0x0b00_0000]);
        let networks = [address(), address()];
        let addresses = networks.map(|network| network | (draw.below(24) * 0x55) as u32);
        let mut port = || draw.pick(&[0, 22, 53, 80, 443, 1_023, 1_024, 6_000, 6_099, 40_000]);
        let ports = [port(), port()];
        Packet { addresses, ports, protocol: draw.pick(&[TCP, UDP]) }
    }

    fn frame(&self) -> [u8; 60] {
        let mut frame = [0; 60];
        (frame[12], frame[14], frame[22], frame[23]) = (8, 0x45, 64, self.protocol);
        frame[26..30].copy_from_slice(&self.addresses[0].to_be_bytes());
        frame[30..34].copy_from_slice(&self.addresses[1].to_be_bytes());
        frame[34..36].copy_from_slice(&self.ports[0].to_be_bytes());
        frame[36..38].copy_from_slice(&self.ports[1].to_be_bytes());
        frame
    }
}

/// Items that match a packet and others like it; prefixes of any length, and ranges.
fn items(draw: &mut Draw, packet: &Packet) -> Vec<ItemMatch> {
    let mut ip = ItemMatch::any(Item::Ipv4);
    for (name, address) in ["src", "dst"].into_iter().zip(packet.addresses) {
        let len = match draw.below(4) {
            0 => 0,
            1 => 32,
            _ => 8 + draw.below(25),
        };
        let mask = u64::from(u32::MAX) << (32 - len) & u64::from(u32::MAX);
        put(&mut ip.spec, Item::Ipv4, name, address.into());
        put(&mut ip.mask, Item::Ipv4, name, mask.into());
    }
    let item = if packet.protocol == TCP { Item::Tcp } else { Item::Udp };
    let mut transport = ItemMatch::any(item);
    let mut last: Image = [0; 48];
    for (name, port) in ["src", "dst"].into_iter().zip(packet.ports) {
        let asked = match draw.below(4) {
            0 => Some((port, 0)),
            1 => Some((port & !7, port.saturating_add(draw.below(3_000) as u16))),
            2 => {
                let low = draw.pick(&[0, 20, 1_024]).min(port);
                Some((low, u16::MAX - draw.below(2) as u16))
            }
            _ => None,
        };
        if let Some((low, high)) = asked {
            put(&mut transport.spec, item, name, low.into());
            put(&mut transport.mask, item, name, 0xffff);
            put(&mut last, item, name, high.into());
        }
    }
    transport.last = (last != [0; 48]).then_some(last);
    match draw.below(8) {
        0 => vec![ip],
        _ => vec![ip, transport],
    }
}

fn put(image: &mut Image, item: Item, name: &str, value: u128) {
    item.field(name).unwrap().put(image, value);
}

/// The NIC and the definition side by side.
struct Bench {
    nic: Nic,
    worker: Worker,
    definition: Definition,
    ids: Vec<RuleId>,
    region: std::sync::Arc<Region>,
    descs: Vec<Desc>,
    hits: u64,
}

impl Bench {
    fn new() -> Bench {
        let config = NicConfig { queues: QUEUES, ..NicConfig::default() };
        let mut nic = Nic::new(&config).unwrap();
        let worker = nic.worker();
        let (region, descs) = Region::new(BURST, 60).unwrap();
        let rss = nic.rss().clone();
        let definition = Definition { rss, queues: QUEUES, ..Definition::default() };
        Bench { nic, worker, definition, ids: Vec::new(), region, descs, hits: 0 }
    }

    fn change(&mut self, draw: &mut Draw, grows: bool) {
        let (group, priority) = (0, draw.below(12) as u32);
        let like = Packet::draw(draw);
        let items = items(draw, &like);
        let actions = vec![Action::Queue(draw.below(QUEUES.into()) as u16)];
        let rule = Rule { group, priority, pattern: pattern(&items).unwrap(), actions: &actions };
        let count = self.ids.len() as u64;
        match draw.below(10) {
            0..3 if !grows && count > 0 => {
                let at = draw.below(count) as usize;
                self.nic.destroy(self.ids.remove(at)).unwrap();
                self.definition.rules.remove(at);
            }
            3 if count > 0 => {
                let at = draw.below(count) as usize;
                // Its place among rules of a priority is what it was.
                if self.nic.modify(self.ids[at], &rule).is_ok() {
                    let defined = &mut self.definition.rules[at];
                    (defined.priority, defined.items, defined.actions) = (priority, items, actions);
                }
            }
            _ => {
                if let Ok(id) = self.nic.create(&rule) {
                    let rss = self.definition.rss.clone();
                    let rule = DefinedRule {
                        group,
                        priority,
                        items,
                        actions,
                        rss,
                        ..DefinedRule::default()
                    };
                    self.definition.rules.push(rule);
                    self.ids.push(id);
                }
            }
        }
    }

    fn burst(&mut self, draw: &mut Draw) {
        let packets: Vec<Packet> = (0..BURST).map(|_| Packet::draw(draw)).collect();
        for (desc, packet) in self.descs.iter_mut().zip(&packets) {
            self.region.slot_mut(desc)[..60].copy_from_slice(&packet.frame());
            self.region.set_len(desc, 60);
            desc.queue = u16::MAX;
        }
        assert_eq!(self.worker.classify(&self.region, &mut self.descs), 0);
        for (desc, packet) in self.descs.iter().zip(&packets) {
            match self
                .definition
                .classify(&mut niclab_nic::definition::Packet::new(&packet.frame()))
            {
                Verdict::Queue(queue) => {
                    self.hits += 1;
                    assert_eq!(desc.queue, queue, "{:x?} {:?}", packet.addresses, packet.ports);
                }
                Verdict::Rss { hash, queue } => {
                    assert_eq!((desc.hash, desc.queue), (hash, queue), "{:x?}", packet.ports);
                }
                Verdict::Drop | Verdict::Exceed | Verdict::Port(_) => panic!("no rule drops"),
            }
        }
    }
}

#[test]
fn a_filter_hides_no_rule_while_rules_come_change_and_go() {
    let wanted = std::env::var("NICLAB_PACKETS").ok().and_then(|n| n.parse().ok());
    let wanted = wanted.unwrap_or(60_000_u64);
    let (mut packets, mut hits, mut most) = (0, 0, 0);
    for seed in 0.. {
        if packets >= wanted {
            break;
        }
        let (mut bench, mut draw) = (Bench::new(), Draw(seed));
        for round in 0..200 {
            // In some rounds only a few packets, in others only a few changes.
            (0..draw.below(12)).for_each(|_| bench.change(&mut draw, round < 80));
            if draw.below(3) > 0 {
                bench.burst(&mut draw);
                packets += BURST as u64;
            }
            if draw.below(20) == 0 {
                bench.nic.run_housekeeping(1_000);
            }
            most = most.max(bench.ids.len());
        }
        hits += bench.hits;
    }
    println!("{packets} packets, {hits} of them met a rule; up to {most} rules");
    assert!(hits > packets / 2 && most > 300, "{hits} of {packets}, {most} rules");
}
