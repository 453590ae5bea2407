//! What is read, what is refused and how, and that what is printed reads back to the same.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::super::item::{Field, FieldKind, IMAGE_LEN, Image, RAW_LEN_MAX};
use super::*;
use crate::limits::PRIORITY_MAX;
use crate::rule::Set;

fn read(text: &str) -> String {
    Parser::default().parse(1, text).map_or_else(|e| e.to_string(), |p| p.command.to_string())
}

#[test]
fn commands_are_read_as_they_are_printed() {
    for text in [
        "flow create 0 group 1 priority 2 ingress pattern eth / end actions drop / end",
        "flow validate 65535 group 0 priority 0 ingress pattern end actions end",
        "flow create 0 group 0 priority 0 ingress pattern ipv4 src is 10.0.0.1 / tcp flags spec 2 \
         flags mask 0x2 / end actions count / queue index 3 / end",
        "flow create 0 group 0 priority 0 ingress pattern eth type is 0x0800 / end actions \
         jump group 7 / end",
        "flow create 0 group 0 priority 0 ingress pattern vlan pcp is 1 vid is 5 / ipv6 src spec \
         2001:: src prefix 16 / end actions drop / end",
        "flow destroy 3 rule 0 rule 4294967295",
        "flow flush 1",
        "flow isolate 0 1",
        "flow list 2",
        "flow aged 0",
        "flow aged 0 destroy",
        "flow query 0 5 age",
        "flow query 0 5 count",
        "set nvgre ip-version ipv4 tni 4 ip-src 127.0.0.1 ip-dst 128.0.0.1 eth-src \
         11:11:11:11:11:11 eth-dst 22:22:22:22:22:22",
        "set nvgre-with-vlan ip-version ipv6 tni 16777215 ip-src ::1 ip-dst ::2222 vlan-tci 34 \
         eth-src 11:11:11:11:11:11 eth-dst 22:22:22:22:22:22",
        "set vxlan ip-version ipv4 vni 4 udp-src 4 udp-dst 4 ip-src 127.0.0.1 ip-dst 128.0.0.1 \
         eth-src 11:11:11:11:11:11 eth-dst 22:22:22:22:22:22",
        "set vxlan-with-vlan ip-version ipv4 vni 4 udp-src 4 udp-dst 65535 ip-src 127.0.0.1 ip-dst \
         128.0.0.1 vlan-tci 65535 eth-src 11:11:11:11:11:11 eth-dst 22:22:22:22:22:22",
        "set vxlan-tos-ttl ip-version ipv6 vni 16777215 udp-src 4 udp-dst 4789 ip-tos 255 ip-ttl \
         255 ip-src ::1 ip-dst ::2222 eth-src 11:11:11:11:11:11 eth-dst 22:22:22:22:22:22",
        "set raw_encap 7 eth src is 02:00:00:00:00:01 / vlan vid is 5 / ipv4 ttl is 64 src is \
         10.0.0.1 / udp dst is 4789 / vxlan vni is 5 / end_set",
        "set raw_decap 0 eth / ipv6 / gre / gre_key / end_set",
        "set raw_encap 2 eth / mpls label is 7 / tcp / geneve vni is 3 / end_set",
        "flow update 0 5 actions count / queue index 3 / end",
    ] {
        assert_eq!(read(text), text);
    }
}

#[test]
fn texts_that_say_the_same_read_the_same() {
    let create = |rest: &str| read(&format!("flow create 0 {rest}"));
    let table = [
        (
            "priority 9 group 8 group 1 priority 0x2 ingress pattern eth / void / end actions \
             void / drop / end # why",
            "group 1 priority 2 ingress pattern eth / end actions drop / end#",
        ),
        (
            "ingress pattern ipv4 src spec 10.1.1.1 src mask 0xffffffff / end actions end",
            "ingress pattern ipv4 src is 10.1.1.1 src last 0 / end actions end",
        ),
        (
            "ingress pattern ipv4 src spec 10.1.1.1 src prefix 32 / end actions queue / end",
            "\tingress pattern ipv4  src is 0x0A010101 / end actions queue index 4 \
             index 0 / end\r\n",
        ),
        (
            "ingress pattern vlan tci is 0x2005 / end actions end",
            "ingress pattern vlan pcp is 1 dei is 0 vid is 5 / end actions end",
        ),
        (
            "ingress pattern raw relative is 1 offset is 0xfffffffe pattern is ab / end actions \
             end",
            "ingress pattern raw relative is 1 offset is 4294967294 pattern_hex is 0x6162 / end \
             actions end",
        ),
        (
            "ingress pattern raw offset spec 2 pattern_hex spec 0a0b / end actions end",
            "ingress pattern raw relative is 0 search is 0 offset is 2 limit is 0 pattern_hex is \
             0A0B / end actions end",
        ),
        (
            "ingress pattern ipv4 src spec 1.2.3.4 src mask 0 dst is 10.0.0.1 / end actions end",
            "ingress pattern ipv4 src spec 1.2.3.4 src prefix 0 dst is 10.0.0.1 / end actions end",
        ),
        (
            "ingress pattern vlan vid is 5 vid is 5 tci spec 0x2005 tci mask 0xefff / end actions \
             end",
            "ingress pattern vlan tci spec 0x2005 tci mask 0xefff / end actions end",
        ),
        (
            "ingress pattern eth src is 0200:0000:0a01 / end actions end",
            "ingress pattern eth src is 02:00:00:00:0A:01 / end actions end",
        ),
        (
            "ingress pattern ipv4 / gre k_bit is true c_bit spec off c_bit mask on / end actions \
             end",
            "ingress pattern ipv4 / gre c_rsvd0_ver spec 0x2000 c_rsvd0_ver mask 0xa000 / end \
             actions end",
        ),
        (
            "ingress pattern raw relative is true pattern is ab / end actions end",
            "ingress pattern raw relative is 1 pattern is ab / end actions end",
        ),
        (
            "ingress pattern eth / end actions rss queues end key_len 0 types ipv4-udp end / end",
            "ingress pattern eth / end actions rss types ipv4-udp end / end",
        ),
        (
            "ingress pattern ipv4 src spec 1.2.3.4 / end actions end",
            "ingress pattern ipv4 src is 1.2.3.4 dst is 0.0.0.0 / end actions end",
        ),
    ];
    for (one, other) in table {
        assert_eq!(create(one), create(other));
        assert!(create(one).starts_with("flow create 0 group "), "{}", create(one));
    }
}

/// Fields that are parts of each other mean the same in any order.
#[test]
fn the_order_of_an_items_fields_does_not_count() {
    let table = [
        ("gre", "c_rsvd0_ver is 0x2000", "k_bit is 1"),
        ("gre", "c_rsvd0_ver spec 0 c_rsvd0_ver mask 0x8000", "k_bit is 1"),
        ("gre", "c_rsvd0_ver spec 0x2000 c_rsvd0_ver mask 0x8000", "k_bit is 1"),
        ("gre", "c_rsvd0_ver spec 0x1000 c_rsvd0_ver mask 0x1000", "s_bit is yes k_bit is no"),
        ("vlan", "tci spec 0x2005 tci mask 0xe000", "vid is 5"),
        ("vlan", "tci spec 0x2005 tci mask 0xe000", "vid spec 7 vid mask 0xf"),
        ("vlan", "pcp is 1 dei is 0", "vid is 5"),
        ("ipv6", "tc is 4", "flow is 9"),
        ("mpls", "label is 7 s is 1", "tc is 3"),
    ];
    for (item, one, other) in table {
        let text = |fields: String| {
            read(&format!("flow create 0 ingress pattern {item} {fields} / end actions end"))
        };
        let [first, second] = [format!("{one} {other}"), format!("{other} {one}")].map(text);
        assert_eq!(first, second);
        assert!(first.starts_with("flow create 0 group"), "{first}");
    }
    let both = "flow create 0 ingress pattern ipv4 / gre k_bit is 1 c_rsvd0_ver spec 0 c_rsvd0_ver \
                mask 0x8000 / end actions end";
    assert!(read(both).contains("gre c_bit is 0 k_bit is 1 /"), "{}", read(both));
}

/// Line, and what is said of it.
pub(super) const REFUSED: &[(&str, &str)] = &[
    (
        "flow",
        "expected `aged`, `create`, `destroy`, `flush`, `isolate`, `list`, `query`, `update` or \
         `validate`, found the end \
              of the line",
    ),
    ("flow cre 0", "`cre` is short for `create`: write it out"),
    ("flow isolate 0 2", "expected `0` or `1`, found `2`"),
    ("flow update 0 1 actions drop / end user_id", "not supported: update user_id"),
    ("flow flush", "expected port: a number, decimal or 0x…, found the end of the line"),
    ("flow flush x", "expected port: a number, decimal or 0x…, found `x`"),
    ("flow flush 65536", "65536 is too great: port is 0 to 65535"),
    ("flow flush 010", "a leading 0 makes `010` octal in testpmd: leave it out"),
    ("flow flush -1", "port has no sign: write 0 to 65535"),
    ("flow flush 0 1", "expected the end of the line, found `1`"),
    ("flow list 0 group 1", "not supported: list group"),
    ("flow destroy 0", "expected `rule`, found the end of the line"),
    ("flow destroy 0 rule 1 2", "expected `rule` or the end of the line, found `2`"),
    ("flow query 0 1 rss", "not supported: query rss"),
    ("flow query 0 1", "expected `age` or `count`, found the end of the line"),
    (
        "flow create 0 ingress pattern eth / end actions meter id 1 / end",
        "expected `mtr_id` or `/`, found `id`",
    ),
    ("sett vxlan", "expected `flow` or `set`, found `sett`"),
    (
        "add port meter profile srtcm_rfc2697 0 1 1250000 65536 0 0",
        "not supported: commands for meters of a port: a program that embeds the card makes meters \
         (`Nic::create_meter`), and a text names them",
    ),
    (
        "set port meter profile 0 1 1",
        "not supported: commands for meters of a port: a program that embeds the card makes meters \
         (`Nic::create_meter`), and a text names them",
    ),
    (
        "set vlan",
        "expected `nvgre`, `nvgre-with-vlan`, `raw_decap`, `raw_encap`, `vxlan`, `vxlan-tos-ttl` \
         or `vxlan-with-vlan`, found `vlan`",
    ),
    ("set vxlan ip-version 4", "expected `ipv4` or `ipv6`, found `4`"),
    ("set vxlan ip-version ipv4 vni 16777216", "16777216 is too great: vni is 0 to 16777215"),
    ("set vxlan ip-version ipv4 udp-src 4", "expected `vni`, found `udp-src`"),
    (
        "set nvgre ip-version ipv6 tni 4 ip-src 10.0.0.1",
        "expected ip-src: an IPv6 address, found `10.0.0.1`",
    ),
    (
        "set nvgre ip-version ipv4 tni 4 ip-src 1.1.1.1 ip-dst 1.1.1.2 eth-src 1",
        "expected a MAC address, such as 02:00:00:00:00:01, found `1`",
    ),
    ("set raw_encap 8 eth / end_set", "8 is too great: index is 0 to 7"),
    ("set raw_encap 1 icmp / end_set", "not supported: icmp among raw headers"),
    ("set raw_encap 1 end_set", "headers of 0 bytes: they have 1 to 128"),
    (
        "set raw_encap 1 ipv6 / ipv6 / ipv6 / ipv6 / end_set",
        "headers of 160 bytes: they have 1 to 128",
    ),
    ("set raw_encap 1 eth / end_set x", "expected the end of the line, found `x`"),
    (
        "flow create 0 ingress pattern eth / end actions vxlan_encap / end",
        "no headers were set: put a line `set vxlan …` before",
    ),
    (
        "flow create 0 ingress pattern eth / end actions raw_decap index 3 / end",
        "no headers were set: put a line `set raw_decap …` before",
    ),
    (
        "flow create 0 ingress pattern eth / end actions raw_encap index 8 / end",
        "8 is too great: index is 0 to 7",
    ),
    (
        "flow create 0 ingress pattern eth / end actions port_id original 1 / end",
        "not supported: port_id original",
    ),
    (
        "flow create 0 ingress pattern eth / end actions represented_port id 1 / end",
        "expected `ethdev_port_id` or `/`, found `id`",
    ),
    ("flow aged 0 destr", "`destr` is short for `destroy`: write it out"),
    ("flow aged 0 rule 1", "expected `destroy` or the end of the line, found `rule`"),
    (
        "flow create 0 ingress pattern eth / end actions age timeout 16777216 / end",
        "16777216 is too great: timeout is 0 to 16777215",
    ),
    (
        "flow create 0 ingress pattern eth / end actions age / end",
        "`age timeout 0`: a timeout is 1 to 16777215 seconds",
    ),
    ("flow create 0 pattern end actions end", "no direction: write `ingress` before `pattern`"),
    (
        "flow create 0 egress pattern end actions end",
        "not supported: egress: the card has rules for packets that it receives, and none for \
         those that it sends",
    ),
    (
        "flow create 0 ingress transfer pattern end actions end",
        "not supported: transfer: the card has no embedded switch; `represented_port` sends by \
         another port",
    ),
    (
        "flow create 0 ingress eth",
        "expected `group`, `ingress`, `pattern` or `priority`, found \
                                   `eth`",
    ),
    (
        "flow create 0 ingress pattern pfcp / end actions end",
        "not supported: pfcp: no key has its fields; match bytes with `raw`",
    ),
    ("flow create 0 ingress pattern et / end actions end", "`et` is short for `eth`: write it out"),
    (
        "flow create 0 ingress pattern udp sport is 1 / end actions end",
        "expected a field of udp (src, dst) or `/`, found `sport`",
    ),
    (
        "flow create 0 priority -1 ingress pattern eth / end actions drop / end",
        "priority has no sign: write 0 to 65535",
    ),
    (
        "flow create 0 priority 4294967296 ingress pattern eth / end actions drop / end",
        "4294967296 is too great: priority is 0 to 65535",
    ),
    (
        "flow create 0 ingress pattern ipv4 src is 10.0.0.1 src is 10.0.0.2 / end actions end",
        "ipv4 src is given twice, as 10.0.0.1 and as 10.0.0.2",
    ),
    (
        "flow create 0 ingress pattern udp dst spec 53 src is 1 dst spec 54 / end actions end",
        "udp dst is given twice, as 53 and as 54",
    ),
    (
        "flow create 0 ingress pattern vlan tci is 5 vid is 6 / end actions end",
        "vlan: tci 5 and vid 6 contradict each other",
    ),
    (
        "flow create 0 ingress pattern udp src eq 1 / end actions end",
        "expected `is`, `last`, `mask`, `prefix` or `spec`, found `eq`",
    ),
    (
        "flow create 0 ingress pattern udp src is 65536 / end actions end",
        "65536 is too great: src is 0 to 65535",
    ),
    (
        "flow create 0 ingress pattern udp src spec 1 src mask 0x1ffff / end actions end",
        "0x1ffff is too great: src is 0 to 65535",
    ),
    (
        "flow create 0 ingress pattern vlan vid is 4096 / end actions end",
        "4096 is too great: vid is 0 to 4095",
    ),
    (
        "flow create 0 ingress pattern ipv4 src is 10.0.0.256 / end actions end",
        "expected src: an IPv4 address, found `10.0.0.256`",
    ),
    (
        "flow create 0 ingress pattern ipv4 src is 10.0.0.0 src prefix 33 / end actions end",
        "33 is too great: prefix is 0 to 32",
    ),
    (
        "flow create 0 ingress pattern ipv6 src is 10.0.0.1 / end actions end",
        "expected src: an IPv6 address, found `10.0.0.1`",
    ),
    (
        "flow create 0 ingress pattern eth src is 02:00:00:00:01 / end actions end",
        "expected src: a MAC address, such as 02:00:00:00:00:01, found `02:00:00:00:01`",
    ),
    (
        "flow create 0 ingress pattern ipv4 src mask 255.0.0.0 / end actions end",
        "ipv4 has a mask and no value: add `is` or `spec`",
    ),
    (
        "flow create 0 ingress pattern ipv4 src prefix 0 / end actions end",
        "a mask of 0 matches anything: leave the field out, for `rte_flow` takes no mask without a \
         value",
    ),
    (
        "flow create 0 ingress pattern ipv4 src prefix 8 / end actions end",
        "ipv4 has a mask and no value: add `is` or `spec`",
    ),
    (
        "flow create 0 ingress pattern ipv4 dst is 10.0.0.0/24 / end actions end",
        "a prefix is written `dst spec 10.0.0.0 dst prefix 24`",
    ),
    (
        "flow create 0 ingress pattern ipv6 src spec 2001:db8::/32 / end actions end",
        "a prefix is written `src spec 2001:db8:: src prefix 32`",
    ),
    (
        "flow create 0 ingress pattern ipv4 dst is 10.0.0.0/33 / end actions end",
        "expected dst: an IPv4 address, found `10.0.0.0/33`",
    ),
    (
        "flow create 0 ingress pattern ipv4 src last 1.2.3.4 / end actions end",
        "ipv4 has a last and no value: add `is` or `spec`",
    ),
    ("flow create 0 ingress pattern eth / end", "expected `actions`, found the end of the line"),
    ("flow create 0 ingress pattern eth", "expected `/ end`, found the end of the line"),
    ("flow create 0 ingress pattern eth /", "expected `end`, found the end of the line"),
    ("flow create 0 ingress pattern eth actions drop / end", "expected `/ end`, found `actions`"),
    ("flow create 0 ingress pattern eth / actions drop / end", "expected `end`, found `actions`"),
    ("flow create 0 ingress pattern raw actions", "expected `/ end`, found `actions`"),
    ("set raw_encap 1 eth", "expected `/ end_set`, found the end of the line"),
    ("set raw_encap 1 eth / # why", "expected `end_set`, found the end of the line"),
    (
        "flow create 0 ingress pattern eth end actions end",
        "expected a field of eth (dst, src, type, has_vlan) or `/`, found `end`",
    ),
    (
        "flow create 0 ingress pattern eth / end actions rss level 3 / end",
        "not supported: rss level 3",
    ),
    (
        "flow create 0 ingress pattern eth / end actions rss func simple_xor / end",
        "not supported: rss func simple_xor",
    ),
    (
        "flow create 0 ingress pattern eth / end actions rss types ip eth end / end",
        "not supported: rss types eth",
    ),
    (
        "flow create 0 ingress pattern ipv4 / gre k_bit is 0 c_rsvd0_ver is 0x2000 / end actions \
         end",
        "gre: c_rsvd0_ver 8192 and k_bit 0 contradict each other",
    ),
    (
        "flow create 0 ingress pattern ipv4 / gre c_rsvd0_ver is 0x2000 k_bit is 0 / end actions \
         end",
        "gre: c_rsvd0_ver 8192 and k_bit 0 contradict each other",
    ),
    (
        "flow create 0 ingress pattern ipv4 / gre k_bit is 0x1 / end actions end",
        "expected k_bit: `0`, `1`, `false` or `true`, found `0x1`",
    ),
    (
        "flow create 0 ingress pattern raw relative is 2 / end actions end",
        "expected relative: `0`, `1`, `false` or `true`, found `2`",
    ),
    ("flow isolate 0 0x1", "expected `0` or `1`, found `0x1`"),
    (
        "flow create 0 ingress pattern eth src is 2:0:0:0:0:1 / end actions end",
        "expected src: a MAC address, such as 02:00:00:00:00:01, found `2:0:0:0:0:1`",
    ),
    (
        "flow create 0 ingress pattern eth src is 0200.0000.0001 / end actions end",
        "expected src: a MAC address, such as 02:00:00:00:00:01, found `0200.0000.0001`",
    ),
    (
        "flow create 0 ingress pattern eth / end actions rss key 6d5a / end",
        "a key has 40 to 64 bytes of two hexadecimal digits each",
    ),
    (
        "flow create 0 ingress pattern eth / end actions rss key_len 40 / end",
        "key_len is 40; the key has 0 bytes",
    ),
    ("flow create 0 ingress pattern eth / end actions drop end", "expected `/`, found `end`"),
    (
        "flow create 0 ingress pattern eth / end actions drop",
        "expected `/ end`, found the end of the line",
    ),
    (
        "flow create 0 ingress pattern eth / end actions drop /",
        "expected `end`, found the end of the line",
    ),
    (
        "flow create 0 ingress pattern eth / end actions queue index 3",
        "expected `/ end`, found the end of the line",
    ),
    (
        "flow create 0 ingress pattern eth / end actions count",
        "expected `/ end`, found the end of the line",
    ),
    (
        "flow create 0 ingress pattern eth / end actions meter mtr_id 1",
        "expected `/ end`, found the end of the line",
    ),
    (
        "flow create 0 ingress pattern eth / end actions port_id id 1",
        "expected `/ end`, found the end of the line",
    ),
    (
        "flow create 0 ingress pattern eth / end actions raw_encap index 1",
        "expected `/ end`, found the end of the line",
    ),
    (
        "flow create 0 ingress pattern eth / end actions set_meta data 1 mask 1",
        "expected `/ end`, found the end of the line",
    ),
    (
        "flow create 0 ingress pattern eth / end actions rss queues 1 end",
        "expected `/ end`, found the end of the line",
    ),
    (
        "flow create 0 ingress pattern eth / end actions queue index",
        "expected index: a number, decimal or 0x…, found the end of the line",
    ),
    (
        "flow create 0 ingress pattern eth / end actions queue index 65536 / end",
        "65536 is too great: index is 0 to 65535",
    ),
    (
        "flow create 0 ingress pattern eth / end actions queue index \
         999999999999999999999999999999999999999999 / end",
        "999999999999999999999999999999999999999999 is too great: index is 0 to 65535",
    ),
    (
        "flow create 0 ingress pattern eth / end actions queue 3 / end",
        "expected `index` or `/`, found `3`",
    ),
    (
        "flow create 0 ingress pattern eth / end actions fly / end",
        "expected `age`, `count`, `dec_ttl`, `drop`, `end`, `flag`, `jump`, `mac_swap`, `mark`, \
         `meter`, `nvgre_decap`, `nvgre_encap`, `of_dec_nw_ttl`, `of_pop_vlan`, `of_push_vlan`, \
         `of_set_vlan_pcp`, `of_set_vlan_vid`, `port_id`, `queue`, `raw_decap`, `raw_encap`, \
         `represented_port`, `rss`, `set_ipv4_dscp`, `set_ipv4_dst`, `set_ipv4_src`, \
         `set_ipv6_dscp`, `set_ipv6_dst`, `set_ipv6_src`, `set_mac_dst`, `set_mac_src`, \
         `set_meta`, `set_tag`, `set_tp_dst`, `set_tp_src`, `set_ttl`, `void`, `vxlan_decap` or \
         `vxlan_encap`, found `fly`",
    ),
    (
        "flow create 0 ingress pattern eth / end actions mark id 0x100000000 / end",
        "0x100000000 is too great: id is 0 to 4294967295",
    ),
    (
        "flow create 0 ingress pattern eth / end actions of_push_vlan / end",
        "`of_push_vlan ethertype 0x0000`: a tag has type 0x8100 or 0x88a8",
    ),
    (
        "flow create 0 ingress pattern eth / end actions of_set_vlan_vid vlan_vid 4096 / end",
        "4096 is too great: vlan_vid is 0 to 4095",
    ),
    (
        "flow create 0 ingress pattern eth / end actions set_ipv6_dscp dscp_value 64 / end",
        "64 is too great: dscp_value is 0 to 63",
    ),
    (
        "flow create 0 ingress pattern eth / end actions set_ipv4_src ipv4_addr ::1 / end",
        "expected ipv4_addr: an IPv4 address, found `::1`",
    ),
    (
        "flow create 0 ingress pattern eth / end actions set_meta data 3 / end",
        "no mask: add `mask 0xffffffff` to set all bits",
    ),
    (
        "flow create 0 ingress pattern eth / end actions set_mac_src addr 1 / end",
        "expected `mac_addr` or `/`, found `addr`",
    ),
    (
        "flow create 0 ingress pattern eth / end actions passthru / end",
        "not supported: passthru: one rule of a group acts on a packet; `jump` goes on in a \
         greater group",
    ),
    (
        "flow create 0 ingress pattern eth / end actions vf id 1 / end",
        "not supported: vf: the card has no physical and virtual functions; `represented_port` \
         sends by another port",
    ),
    (
        "flow queue 0 create 0 template_table 1 pattern_template 0",
        "not supported: flow queue: a program that embeds the card has templates and operation \
         queues (`Nic::template_table`, `Nic::operation_queue`); a text has rules alone",
    ),
    (
        "set sample_actions 0 mark id 1 / end",
        "not supported: set sample_actions: the card makes no copies of packets",
    ),
    ("flow create 0 ingress pattern eth / end actions flag on / end", "expected `/`, found `on`"),
    (
        "flow create 0 ingress pattern eth / end actions count identifier 1 / end",
        "not supported: count identifier",
    ),
    (
        "flow create 0 ingress pattern eth / end actions drop / end end",
        "expected the end of the line, found `end`",
    ),
];

#[test]
fn what_is_refused_is_said() {
    for (text, said) in REFUSED {
        let mut parser = Parser::default();
        let error = parser.parse(1, text).map(|parsed| parsed.command).unwrap_err();
        assert_eq!(error.problem().to_string(), *said, "{text}");
    }
}

#[test]
fn the_caret_stands_under_the_word() {
    assert_eq!(
        read("flow\tcreate 0 ingress pattern eth / ipv4 scr is 1.2.3.4 / end actions drop / end"),
        "line 1, column 42: expected a field of ipv4 (version_ihl, tos, packet_id, \
         fragment_offset, ttl, proto, src, dst) or `/`, found `scr`\n\
         flow create 0 ingress pattern eth / ipv4 scr is 1.2.3.4 / end actions drop / end\n\
         \x20                                        ^^^"
    );
    assert_eq!(
        read("flow flush  "),
        "line 1, column 12: expected port: a number, decimal or 0x…, found the end of the line\n\
         flow flush\n\
         \x20          ^"
    );
    assert_eq!(
        read("flow create 0 ingress pattern eth / end actions drop"),
        "line 1, column 53: expected `/ end`, found the end of the line\n\
         flow create 0 ingress pattern eth / end actions drop\n\
         \x20                                                   ^"
    );
}

#[test]
fn a_file_is_read_line_by_line() {
    let text = "# rules\n\n  flow flush 0\nflow flush x\n\t# more\nflow list 1".as_bytes();
    let mut commands = Commands::new(text);
    let mut said = Vec::new();
    while let Some(next) = commands.next_command() {
        said.push(match next {
            Ok(parsed) => format!("{}: {}", parsed.line, parsed.command),
            Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        });
    }
    let refused = "line 4, column 12: expected port: a number, decimal or 0x…, found `x`";
    assert_eq!(said, ["3: flow flush 0", refused, "6: flow list 1"]);
    let first =
        |bytes: &[u8]| Commands::new(bytes).next_command().unwrap().unwrap_err().to_string();
    assert_eq!(
        first(b"flow \xff"),
        "line 1: not UTF-8; a file of rules or a program is plain text"
    );
    let long = vec![b'x'; LINE_LEN_MAX + 1];
    assert_eq!(first(&long), "line 1: longer than 65536 bytes; write one command a line");
}

#[test]
fn a_field_is_put_where_it_is_read() {
    for field in Item::ALL.iter().flat_map(|item| item.fields()) {
        let mut image = [0xa5; IMAGE_LEN];
        let before = image;
        for value in [field.ones(), 0, 1, field.value(&before)] {
            field.put(&mut image, value);
            assert_eq!(field.value(&image), value, "{field:?}");
        }
        assert_eq!(image, before, "{field:?}: neighbours changed");
    }
}

/// An item with values in all its fields, some of them masked, some with a last value.
fn item_match() -> impl Strategy<Value = ItemMatch> {
    let image = || any::<[[u8; IMAGE_LEN / 2]; 2]>();
    let masks = prop::collection::vec(0..4u8, 8);
    (prop::sample::select(&Item::ALL[..]), image(), image(), masks).prop_map(
        |(item, values, bits, masks)| {
            let [values, bits]: [Image; 2] =
                [values, bits].map(|halves| std::array::from_fn(|at| halves[at / 24][at % 24]));
            let mut read = ItemMatch::any(item);
            let mut last = read.spec;
            for (field, how) in item.fields().iter().zip(masks) {
                let mask = match how {
                    0 => continue,
                    _ if field.kind == FieldKind::Index => field.ones(),
                    1 => field.ones(),
                    2 => {
                        field.ones() & !(field.ones() >> (field.value(&bits) as usize % field.bits))
                    }
                    _ => field.value(&bits),
                };
                field.put(&mut read.mask, mask);
                field.put(&mut read.spec, field.value(&values));
                if field.value(&bits) % 3 == 0 && field.kind != FieldKind::Index {
                    field.put(&mut last, field.value(&values) | mask);
                }
            }
            read.last = (last != [0; IMAGE_LEN]).then_some(last);
            if item == Item::Raw {
                put_bytes(&mut read, &values, &bits);
            }
            read
        },
    )
}

/// Gives a `raw` some bytes, under a mask that is whole as often as not.
fn put_bytes(read: &mut ItemMatch, values: &Image, bits: &Image) {
    let len = usize::from(values[7]) % (RAW_LEN_MAX + 1);
    read.spec[7] = len as u8;
    read.spec[8..][..len].copy_from_slice(&values[8..][..len]);
    read.mask[8..][..len].copy_from_slice(&bits[8..][..len]);
    if bits[7] < 128 {
        read.mask[8..][..len].fill(0xff);
    }
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_to_the_same(
        items in prop::collection::vec(item_match(), 0..5),
        (port, group, priority) in any::<(u16, u32, u32)>(),
    ) {
        let actions = [
            Action::Count,
            Action::Queue(port),
            Action::Jump(group),
            Action::Drop,
            Action::Flag,
            Action::Mark(group),
            Action::DecTtl,
            Action::MacSwap,
            Action::NvgreDecap,
            Action::VxlanDecap,
            Action::PopVlan,
            Action::PushVlan(0x88a8),
            Action::Set(Set::Ipv4Dscp(priority as u8 % 64)),
            Action::Set(Set::Ipv4Dst(Ipv4Addr::from_bits(group))),
            Action::Set(Set::Ipv4Src(Ipv4Addr::from_bits(priority))),
            Action::Set(Set::Ipv6Dscp(priority as u8 % 64)),
            Action::Set(Set::Ipv6Dst(Ipv6Addr::from_bits(u128::from(group) << 64))),
            Action::Set(Set::Ipv6Src(Ipv6Addr::from_bits(priority.into()))),
            Action::Set(Set::MacDst([2, 0, 0, 0, port as u8, 0xff])),
            Action::Set(Set::MacSrc([2, 0, 0, 0, port as u8, 0xfe])),
            Action::Set(Set::TpDst(port)),
            Action::Set(Set::TpSrc(port)),
            Action::Set(Set::Ttl(port as u8)),
            Action::Set(Set::VlanPcp(port as u8 % 8)),
            Action::Set(Set::VlanVid(port % 4_096)),
        ];
        let priority = priority % (PRIORITY_MAX + 1);
        let rule = FlowRule { group, priority, items: &items, actions: &actions };
        for command in [Command::Create { port, rule }, Command::Validate { port, rule }] {
            let text = command.to_string();
            let mut parser = Parser::default();
            let parsed = parser.parse(1, &text);
            prop_assert_eq!(parsed.map(|p| p.command), Ok(command), "{}", text);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(
        text in "(flow|create|0|ingress|pattern|eth|/|end|[ -~é]|\\PC){0,30}",
    ) {
        let mut parser = Parser::default();
        if let Err(error) = parser.parse(1, &text) {
            prop_assert!(error.column() <= text.chars().count() + 1);
            prop_assert_eq!(error.to_string().lines().count(), 3);
        }
    }
}

/// The fields of an item do not reach behind its header and the byte of flags.
#[test]
fn fields_lie_within_the_header() {
    for item in Item::ALL {
        let len = item.header_len() * 8;
        assert!(item.fields().len() <= 8, "as many as are kept while an item is read");
        let inside = |f: &Field| f.bit_offset + f.bits <= len || f.bit_offset == len + 7;
        assert!(item.fields().iter().all(inside), "{item:?}");
    }
}
