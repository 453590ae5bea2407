// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Hands every frame that a receive queue of an interface has to the AF_XDP
 * socket of that queue. Frames of a queue without one go on into the kernel's
 * stack, as if nobody looked.
 */
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

/* linux/bpf.h, the few that are needed: its values are the kernel's promise. */
enum bpf_map_type {
	BPF_MAP_TYPE_XSKMAP = 17,
};

enum xdp_action {
	XDP_PASS = 2,
};

struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};

#include <bpf/bpf_helpers.h>

/* The sockets by their queue; QUEUE_PAIRS_MAX of src/xdp/mod.rs. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

SEC("xdp")
int niclab_redirect(struct xdp_md *frame)
{
	/* The lowest bits of the flags are the action for a frame without one. */
	return bpf_redirect_map(&sockets, frame->rx_queue_index, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
