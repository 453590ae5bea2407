#!/usr/bin/env python3
"""Ask the kernel which frames filters of flower match, and how tc prints them.

Needs root, python3, iproute2, and a kernel with veth, sch_ingress, cls_flower, act_gact and
act_skbedit. Run it in a network namespace of its own: `unshare -n python3 flower.py DIRECTORY`
writes `flower.txt`, `commands.txt` and `shown.txt` there. All filters are installed at once, each
with the action `continue`; the counters say after each frame which of them met it.
"""

import json
import os
import platform
import re
import socket
import struct
import subprocess
import sys
import time

MAC = bytes.fromhex("020000000002020000000001")


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def ip4(proto, payload, src="10.0.0.1", dst="10.0.0.2", frag=0, tos=0, ttl=64, options=b""):
    ihl = 5 + len(options) // 4
    addresses = socket.inet_aton(src) + socket.inet_aton(dst)
    head = struct.pack("!BBHHHBBH", 0x40 | ihl, tos, 4 * ihl + len(payload), 7, frag, ttl, proto, 0)
    head += addresses + options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def ip6(proto, payload, src="2001:db8::1", dst="2001:db8::2", tc=0, hop=64):
    head = struct.pack("!IHBB", 6 << 28 | tc << 20, len(payload), proto, hop)
    addresses = [socket.inet_pton(socket.AF_INET6, it) for it in (src, dst)]
    return head + addresses[0] + addresses[1] + payload


def eth(kind, payload, tags=()):
    return MAC + b"".join(struct.pack("!HH", *tag) for tag in tags) + struct.pack("!H", kind) + payload


def tcp(dst=80, src=1234, flags=2, high=0):
    return struct.pack("!HHIIBBHHH", src, dst, 1, 0, 0x50 | high, flags, 1000, 0, 0) + b"x" * 8


def udp(dst=53, src=1234):
    return struct.pack("!HHHH", src, dst, 16, 0) + b"x" * 8


def icmp(kind=8, code=0):
    return struct.pack("!BBHHH", kind, code, 0, 1, 1) + b"x" * 8


def frag6(proto, offset, payload):
    return struct.pack("!BBHI", proto, 0, offset, 9) + payload


FRAMES = {
    "tcp-syn": eth(0x800, ip4(6, tcp())),
    "tcp-syn-ns": eth(0x800, ip4(6, tcp(high=1))),
    "tcp-syn-reserved": eth(0x800, ip4(6, tcp(high=8))),
    "tcp-syn-ack": eth(0x800, ip4(6, tcp(flags=0x12))),
    "tcp-null": eth(0x800, ip4(6, tcp(flags=0))),
    "tcp-443": eth(0x800, ip4(6, tcp(dst=443))),
    "tcp-0": eth(0x800, ip4(6, tcp(dst=0, src=0))),
    "tcp-options": eth(0x800, ip4(6, tcp(), options=b"\1\1\1\0")),
    "tcp-df": eth(0x800, ip4(6, tcp(), frag=0x4000)),
    "tcp-reserved-bit": eth(0x800, ip4(6, tcp(), frag=0x8000)),
    "tcp-first": eth(0x800, ip4(6, tcp(), frag=0x2000)),
    "tcp-middle": eth(0x800, ip4(6, tcp(), frag=0x2002)),
    "tcp-last": eth(0x800, ip4(6, tcp(), frag=2)),
    "udp-53": eth(0x800, ip4(17, udp())),
    "udp-1500": eth(0x800, ip4(17, udp(dst=1500))),
    "udp-first": eth(0x800, ip4(17, udp(), frag=0x2000)),
    "udp-last": eth(0x800, ip4(17, udp(), frag=2)),
    "udp-10.0.1.2": eth(0x800, ip4(17, udp(), dst="10.0.1.2")),
    "udp-from-8.0.0.1": eth(0x800, ip4(17, udp(), src="8.0.0.1")),
    "udp-tos-20": eth(0x800, ip4(17, udp(), tos=20)),
    "udp-tos-32": eth(0x800, ip4(17, udp(), tos=32)),
    "udp-ttl-16": eth(0x800, ip4(17, udp(), ttl=16)),
    "udp-tos-32-first": eth(0x800, ip4(17, udp(), tos=32, frag=0x2000)),
    "icmp-request": eth(0x800, ip4(1, icmp())),
    "icmp-reply": eth(0x800, ip4(1, icmp(0))),
    "icmp-13": eth(0x800, ip4(1, icmp(13, 1))),
    "icmp-first": eth(0x800, ip4(1, icmp(), frag=0x2000)),
    "proto-23": eth(0x800, ip4(23, b"x" * 20)),
    "sctp": eth(0x800, ip4(132, struct.pack("!HHII", 1, 80, 0, 0))),
    "gre-udp": eth(0x800, ip4(47, struct.pack("!HH", 0, 0x800) + ip4(17, udp(dst=99)))),
    "ipip-udp": eth(0x800, ip4(4, ip4(17, udp(dst=99), src="9.9.9.9"))),
    "arp": eth(0x806, struct.pack("!HHBBH", 1, 0x800, 6, 4, 1) + b"\0" * 20),
    "lldp": eth(0x88cc, b"\0" * 30),
    "vlan-5-udp": eth(0x800, ip4(17, udp()), [(0x8100, 5)]),
    "vlan-5-pcp-3-udp": eth(0x800, ip4(17, udp()), [(0x8100, 0x6005)]),
    "svlan-5-udp": eth(0x800, ip4(17, udp()), [(0x88a8, 5)]),
    "vlan-5-arp": eth(0x806, b"\0" * 28, [(0x8100, 5)]),
    "qinq-5-7-udp": eth(0x800, ip4(17, udp()), [(0x88a8, 5), (0x8100, 7)]),
    "two-vlans-5-7-udp": eth(0x800, ip4(17, udp()), [(0x8100, 5), (0x8100, 7)]),
    "three-vlans-udp": eth(0x800, ip4(17, udp()), [(0x88a8, 5), (0x8100, 7), (0x8100, 9)]),
    "vlan-5-udp-first": eth(0x800, ip4(17, udp(), frag=0x2000), [(0x8100, 5)]),
    "vlan-5-udp6": eth(0x86dd, ip6(17, udp()), [(0x8100, 5)]),
    "tcp6": eth(0x86dd, ip6(6, tcp())),
    "udp6": eth(0x86dd, ip6(17, udp())),
    "udp6-tc-32": eth(0x86dd, ip6(17, udp(), tc=32, hop=16)),
    "udp6-hop-options": eth(0x86dd, ip6(0, bytes([17, 0, 1, 4, 0, 0, 0, 0]) + udp())),
    "udp6-atomic": eth(0x86dd, ip6(44, frag6(17, 0, udp()))),
    "udp6-first": eth(0x86dd, ip6(44, frag6(17, 1, udp()))),
    "udp6-last": eth(0x86dd, ip6(44, frag6(17, 16, udp()))),
    "icmp6-128": eth(0x86dd, ip6(58, icmp(128))),
    "icmp6-first": eth(0x86dd, ip6(44, frag6(58, 1, icmp(128)))),
    "udp6-other": eth(0x86dd, ip6(17, udp(), dst="2001:db9::2")),
}

FILTERS = """
protocol ip flower
protocol all flower
protocol arp flower
protocol 0x88cc flower
protocol 2048 flower
flower dst_mac 02:00:00:00:00:02
protocol ip flower src_mac 2:0:0:0:0:ff/40
protocol ip flower dst_ip 10.0.0.2
protocol ip flower dst_ip 10.0/16
protocol ip flower dst_ip 10.0.0.0/255.255.255.0
protocol ip flower src_ip 010.0.0.1
protocol ip flower src_ip 10.0.0.1 dst_ip 10.0.0.0/0
protocol ip flower ip_proto tcp
protocol ip flower ip_proto u
protocol ip flower ip_proto 17
protocol ip flower ip_proto 0x11
protocol ip flower ip_proto tcp dst_port 80
protocol ip flower ip_proto tcp dst_port 0x50/0xffff
protocol ip flower ip_proto tcp dst_port 0120/0xffff
protocol ip flower ip_proto tcp dst_port 080
protocol ip flower ip_proto tcp dst_port 64/0xc0
protocol ip flower ip_proto tcp dst_port 80/0
protocol ip flower ip_proto udp dst_port 1000-2000
protocol ip flower ip_proto udp src_port 1234 dst_port 0/0xff00
protocol ip flower ip_proto udp dst_port 0/0xff00 ip_flags nofrag
protocol ip flower ip_proto tcp tcp_flags 2
protocol ip flower ip_proto tcp tcp_flags 0x2/fff dst_port 80
protocol ip flower ip_proto tcp tcp_flags 2/12
protocol ip flower ip_proto tcp tcp_flags 2/ff
protocol ip flower ip_proto tcp tcp_flags 0/2 ip_flags nofrag
protocol ip flower tcp_flags 2/2 ip_proto tcp
protocol ip flower ip_tos 20
protocol ip flower ip_tos 0x20
protocol ip flower ip_tos 20/fc
protocol ip flower ip_ttl 10
protocol ip flower ip_ttl 0x10
protocol ip flower ip_proto icmp type 8
protocol ip flower ip_proto icmp type 8/15
protocol ip flower ip_proto icmp type 13 code 1
protocol ip flower ip_proto icmp type 0 ip_flags nofrag
protocol ip flower ip_flags nofrag
protocol ip flower ip_flags firstfrag
protocol ip flower ip_flags frag/firstfrag
protocol ip flower ip_proto udp ip_flags nofrag
protocol ip flower ip_proto sctp
protocol ip flower ip_proto 2f
protocol ip flower ip_proto 4
protocol 802.1Q flower
protocol 802.1ad flower
protocol 802.1Q flower vlan_id 5
protocol 802.1Q flower vlan_id 05 vlan_prio 3
protocol 802.1q flower vlan_id 5 vlan_ethtype ip
protocol 802.1Q flower vlan_ethtype ipv4 ip_proto udp dst_port 53
protocol 802.1Q flower vlan_ethtype ipv6 ip_proto udp
protocol 802.1Q flower vlan_ethtype arp
protocol 802.1ad flower vlan_id 5 vlan_ethtype 802.1Q cvlan_id 7
protocol 802.1ad flower vlan_id 5 vlan_ethtype 802.1Q cvlan_id 7 cvlan_ethtype ip
protocol 802.1Q flower vlan_id 5 vlan_ethtype 802.1Q cvlan_id 7 cvlan_ethtype ip dst_ip 10.0.0.2
protocol ipv6 flower
protocol ipv6 flower dst_ip 2001:db8::/32
protocol ipv6 flower ip_proto udp
protocol ipv6 flower ip_proto udp dst_port 53
protocol ipv6 flower ip_proto udp dst_port 50-60
protocol ipv6 flower ip_proto tcp tcp_flags 2/ff
protocol ipv6 flower ip_proto icmpv6 type 128
protocol ipv6 flower ip_flags frag
protocol ipv6 flower ip_flags nofrag
protocol ipv6 flower ip_tos 0x20
protocol ipv6 flower ip_ttl 16
""".strip().splitlines()


def tc(*words, given=None):
    ended = subprocess.run(["tc", *words], input=given, check=True, capture_output=True, text=True)
    return ended.stdout


def counts():
    found = json.loads(tc("-j", "-s", "filter", "show", "dev", "vb0", "ingress"))
    packets = {}
    for it in found:
        for action in it.get("options", {}).get("actions", []):
            packets[it["pref"]] = action["stats"]["packets"]
    return [packets[at + 1] for at in range(len(FILTERS))]


ACTIONS = ["drop", "pass", "goto chain 7", "skbedit queue_mapping 3", "skbedit queue_mapping 2 pass"]


def prepare():
    for command in [
        "ip link set lo up",
        "ip link add va0 type veth peer name vb0",
        "ip link set va0 up",
        "ip link set vb0 up",
        "tc qdisc add dev vb0 clsact",
    ]:
        subprocess.run(command.split(), check=True)
    # Of what the kernel sends by itself nothing is to come between.
    for side in ("va0", "vb0"):
        setting = f"/proc/sys/net/ipv6/conf/{side}/disable_ipv6"
        if os.path.exists(setting):
            open(setting, "w").write("1")
    time.sleep(1)


def matches(out):
    commands = [
        f"filter add dev vb0 ingress pref {at + 1} {line} action continue\n"
        for at, line in enumerate(FILTERS)
    ]
    tc("-batch", "-", given="".join(commands))
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    wire.bind(("va0", 0))
    matched = [""] * len(FILTERS)
    before = counts()
    for frame in FRAMES.values():
        wire.send(frame)
        time.sleep(0.01)
        after = counts()
        for at, (now, then) in enumerate(zip(after, before)):
            matched[at] += str(now - then)
        before = after
    tool = re.search(r"iproute2-[0-9.]+", tc("-V")).group()
    print(f"# Linux {platform.release()}, {tool}; made by flower.py.", file=out)
    for name, frame in FRAMES.items():
        print("frame", name, frame.hex(), file=out)
    for bits, line in zip(matched, FILTERS):
        print("filter", bits, line, file=out)


def prints(directory):
    tc("qdisc", "del", "dev", "vb0", "clsact")
    tc("qdisc", "add", "dev", "vb0", "clsact")
    lines = [
        f"filter add dev vb0 ingress pref {at + 1} {line} action {ACTIONS[at % len(ACTIONS)]}"
        for at, line in enumerate(FILTERS)
    ]
    lines += [
        "filter add dev vb0 ingress chain 7 protocol ip flower skip_hw action drop",
        "filter add dev vb0 ingress chain 7 protocol ip flower dst_ip 10.0.0.1 action gact pass",
    ]
    open(f"{directory}/commands.txt", "w").write("\n".join(lines) + "\n")
    tc("-batch", f"{directory}/commands.txt")
    open(f"{directory}/shown.txt", "w").write(tc("-s", "filter", "show", "dev", "vb0", "ingress"))


def main():
    directory = sys.argv[1]
    prepare()
    with open(f"{directory}/flower.txt", "w") as out:
        matches(out)
    prints(directory)


main()
