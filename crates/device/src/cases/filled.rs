//! The initial content of tables of programs that do not grow.

use super::packets::{CLIENTS, SERVICE, SERVICE_PORT, STORE_PORT};
use super::{Case, Loaded, mix};

/// Next hops of routers, backends of the load balancer.
pub(super) const HOPS: u32 = 64;

/// Ports by which packets leave: 1 to so many.
const PORTS: u32 = 3;

/// The station of a router, and of what else has an address of its own.
pub(super) const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Number of the VXLAN segment.
const VNI: u32 = 5_000;

/// The commands to a program, a line each.
pub(super) fn lines(of: Loaded) -> Vec<String> {
    let all = 0..of.entries;
    match of.case {
        Case::L2Switch => l2_switch(of.entries),
        Case::L3Router => l3_router(of.entries),
        Case::Acl => {
            let wire = "add wires in_port:0 wire(port:1)".to_owned();
            [wire].into_iter().chain(all.map(rule)).collect()
        }
        Case::VxlanGateway => vxlan_gateway(of.entries),
        Case::LoadBalancer => load_balancer(),
        Case::RateLimiter => {
            let wire = "add wires in_port:0 wire(port:1)".to_owned();
            [wire].into_iter().chain(all.flat_map(customer)).collect()
        }
        Case::KvsSteering => store(&[]),
        Case::KvsItems => {
            // Each owner has a segment of its own.
            let next =
                (0..OWNERS).map(|owner| format!("register_write next {owner} {}", owner << 40));
            store(&next.collect::<Vec<_>>())
        }
        Case::Router => {
            let routes = all.map(|number| {
                let (prefix, bits, hop) = route(number);
                format!("add routes dst:{prefix}/{bits} route(next_hop:{hop})")
            });
            let hops = (0..HOPS).map(|hop| {
                let (port, station) = (1 + hop % PORTS, mac(station(hop)));
                let ours = mac(OURS);
                format!("add hops next_hop:{hop} hop(dst:{station}, src:{ours}, port:{port})")
            });
            routes.chain(hops).collect()
        }
        _ => Vec::new(),
    }
}

/// Owners of keys.
const OWNERS: u64 = 16;

/// A key-value store whose keys belong to owners in equal parts, and what else is said of it.
fn store(more: &[String]) -> Vec<String> {
    let (dst, ip) = (mac(OURS), SERVICE);
    let key = format!("h.ethernet.dst:{dst} h.ipv4.dst:{ip} dst_port:{STORE_PORT}");
    let owner = |part: u64| format!("register_write owners {part} {}", part % OWNERS);
    let mut lines = vec![format!("add stores {key} serve()")];
    lines.extend((0..256).map(owner));
    lines.extend_from_slice(more);
    lines
}

/// The MAC address of a station.
pub(super) fn station(number: u32) -> [u8; 6] {
    let [a, b, c, d] = number.to_be_bytes();
    [2, 1, a, b, c, d]
}

fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

fn l2_switch(entries: u32) -> Vec<String> {
    let mut lines = vec!["add memberships in_port:0 vid:0 admit(vlan:1)".to_owned()];
    for port in 1..=PORTS {
        lines.push(format!("add egress out_port:{port} vlan:1 untagged()"));
    }
    let station = |number: u32| {
        let (dst, port) = (mac(station(number)), 1 + number % PORTS);
        format!("add stations dst:{dst} vlan:1 forward(port:{port})")
    };
    lines.extend((0..entries).map(station));
    lines
}

/// Lengths of prefixes, in turn: most of 24 bits, as in tables of the Internet.
const LENGTHS: [u32; 4] = [24, 22, 24, 20];

/// The prefix of a route, its length and its next hop; different routes have different prefixes,
/// all of addresses that are routed.
pub(super) fn route(number: u32) -> (u32, u32, u32) {
    let bits = LENGTHS[number as usize % LENGTHS.len()];
    // The first byte is 1 to 62, or the same and 64; what is left over of the number comes behind.
    let (first, rest) = (1 + number / 4 % 62, number / 248);
    let prefix = match bits {
        20 => (first | (64 * (rest >> 12 & 1))) << 24 | (rest & 0xfff) << 12,
        // Both kinds of 24 bits differ in the last but one of these.
        _ => first << 24 | (rest & 0x3fff) << 10 | (number & 2) << 7,
    };
    (prefix, bits, number % HOPS)
}

fn l3_router(entries: u32) -> Vec<String> {
    let mut lines = vec![format!("add interfaces in_port:0 dst:{} ours()", mac(OURS))];
    lines.extend((0..entries).map(|number| {
        let (prefix, bits, hop) = route(number);
        format!("add routes4 dst:{prefix}/{bits} route(next_hop:{hop})")
    }));
    lines.extend((0..HOPS).map(|hop| {
        let (port, ours, station) = (1 + hop % PORTS, mac(OURS), mac(station(hop)));
        format!("add next_hops next_hop:{hop} hop(port:{port}, src:{ours}, dst:{station})")
    }));
    lines
}

/// Addresses and port of the packets of a rule.
pub(super) fn flow(number: u32) -> (u32, u32, u16) {
    let random = mix(u64::from(number));
    (0x0a00_0000 | number, 0xac10_0000 | random as u32 & 0xf_ffff, 1_024 + (number & 0x7fff) as u16)
}

/// A rule that permits the packets of its flow, and some others. Eight kinds of them, in turn; the
/// last bits of the source that all of them want tell rules of a kind apart.
fn rule(number: u32) -> String {
    let (src, dst, port) = flow(number);
    let exact = format!("add rules4 src:{src}");
    let wide = format!("add rules4 src:{}/27", src & !0x1f);
    match number % 8 {
        0 => format!("{exact} dst:{dst} protocol:17 l4:1 dst_port:{port} permit()"),
        1 => format!("{wide} dst:{dst} protocol:17 l4:1 dst_port:{port} permit()"),
        2 => format!("{exact} protocol:17 l4:1 dst_port:{port} permit()"),
        3 => format!("{exact} dst:{dst} permit()"),
        4 => format!("{wide} dst:{}/24 protocol:17 l4:1 dst_port:{port} permit()", dst & !0xff),
        5 => format!("{exact} dst:{}/16 permit()", dst & !0xffff),
        6 => format!("{wide} dst:{dst} protocol:17 l4:1 permit()"),
        _ => format!("{exact} permit()"),
    }
}

/// A customer's network and its rates, which its packets do not reach.
fn customer(number: u32) -> [String; 2] {
    let network = 0x0a00_0000 | number << 8;
    let dscp = "is_aware:0, green:10, yellow:12";
    [
        format!("add sources4 in_port:0 src:{network}/24 customer(customer:{number}, {dscp})"),
        format!(
            "meter_set_rates customers {number} 100000000000 1000000000 200000000000 1000000000"
        ),
    ]
}

fn vxlan_gateway(entries: u32) -> Vec<String> {
    let mut lines = vec![
        "add ports in_port:0 access()".to_owned(),
        format!("add segments in_port:0 vid:0 segment(vni:{VNI})"),
    ];
    lines.extend((0..entries).map(|number| {
        let (dst, port, own) = (mac(station(number)), 1 + number % PORTS, mac(OURS));
        let (gateway, ip) = (number % HOPS, 0x0a00_0002 + number % HOPS);
        let gateway = mac(station(0x00ff_0000 | gateway));
        let own_ip = 0x0a00_0001;
        let tunnel = format!("port:{port}, mac:{gateway}, own_mac:{own}, ip:{ip}, own_ip:{own_ip}");
        format!("add stations vni:{VNI} dst:{dst} tunnel({tunnel})")
    }));
    lines
}

/// A service for each backend: how a group's members are picked differs from device to device.
fn load_balancer() -> Vec<String> {
    let services = (0..HOPS).flat_map(|number| {
        let (dst, backend) = (SERVICE + number, 1 + number);
        let (ip, port) = (CLIENTS + 0x0100_0000 + backend, 1 + backend % PORTS);
        let (key, ours, station) =
            (format!("dst:{dst} protocol:17 dst_port:{SERVICE_PORT}"), mac(OURS), station(backend));
        let does = format!("ip:{ip}, port:{port}, src:{ours}, dst:{}", mac(station));
        [
            format!("add services {key} service(group:{number})"),
            format!("add backends backend:{backend} backend({does})"),
            format!("group members {number} {backend}"),
        ]
    });
    services.collect()
}
