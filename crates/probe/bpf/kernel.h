/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The few types and numbers of the kernel's stable interface that stamps.bpf.c
 * needs (include/uapi/linux, RFC 791, 8200, 768, 9293): no header of the host
 * that builds it, and no dump of the types of the kernel that it runs on.
 */
#pragma once

#include <stdbool.h>

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u16 __sum16;
typedef __u32 __wsum;

#define NULL ((void *)0)

/* linux/bpf.h */
enum bpf_map_type {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
};

#define BPF_ANY 0
#define BPF_F_RECOMPUTE_CSUM (1ULL << 0)
#define BPF_F_MARK_MANGLED_0 (1ULL << 5)

/* Held by name in a map's value; the kernel finds it by its type. */
struct bpf_spin_lock {
	__u32 val;
};

/* The beginning of it: the kernel translates each access by its offset. */
struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
};

_Static_assert(__builtin_offsetof(struct __sk_buff, protocol) == 16, "uapi");
_Static_assert(__builtin_offsetof(struct __sk_buff, data) == 76, "uapi");
_Static_assert(__builtin_offsetof(struct __sk_buff, data_end) == 80, "uapi");

/* linux/pkt_cls.h: go on with the next program or filter, as if this were none. */
#define TC_ACT_UNSPEC (-1)

/* linux/if_ether.h, linux/in.h */
#define ETH_P_IP 0x0800
#define ETH_P_8021Q 0x8100
#define ETH_P_IPV6 0x86dd
#define VLAN_HLEN 4
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_FRAGMENT 44

struct ip4 {
	__u8 version_ihl;
	__u8 tos;
	__be16 total_len;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__sum16 check;
	__be32 source;
	__be32 target;
};

#define IP4_FRAGMENT_MORE 0x2000
#define IP4_FRAGMENT_OFFSET 0x1fff

struct ip6 {
	__be32 version_class_flow;
	__be16 payload_len;
	__u8 next;
	__u8 hop_limit;
	__be32 source[4];
	__be32 target[4];
};

struct ip6_fragment {
	__u8 next;
	__u8 reserved;
	__be16 offset;
	__be32 id;
};

#define IP6_FRAGMENT_OFFSET 0xfff8

struct ports {
	__be16 source;
	__be16 target;
};

struct udp {
	struct ports ports;
	__be16 len;
	__sum16 check;
};

struct tcp {
	struct ports ports;
	__be32 sequence;
	__be32 acknowledged;
	__u8 data_offset;
	__u8 flags;
	__be16 window;
	__sum16 check;
	__be16 urgent;
};

#define TCP_SYN 0x02
