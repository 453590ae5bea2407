// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Stamps inside the network stack: where an echo message over UDP passes from
 * one of its parts to the next, at tracepoints of the kernel, which stand where
 * they stood for years and may be looked at where functions may not. What has
 * no packet with it is kept by core and taken for the message that this core
 * handles then.
 *
 * Nothing is changed, and a packet that is not ours is looked at no further
 * than its ports. Messages over TCP have no number in their packets: not here.
 */
#include "kernel.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define MAGIC 0x6e69636c
#define VERSION 1
#define REQUEST 1
#define REPLY 2

/* linux/interrupt.h */
#define NET_RX_SOFTIRQ 3

enum part {
	QUEUED,    /* IP is done: it goes to the queueing discipline */
	TO_DRIVER, /* which gives it to the driver */
	SENT,	   /* the driver returns */
	RAISED,	   /* an interrupt here asks for the receiving softirq */
	STARTED,   /* which begins */
	DELIVERED, /* the socket has it, and wakes who waits */
	RUNS,	   /* who slept runs */
	PARTS,
};

struct head {
	__be32 magic;
	__u8 version;
	__u8 kind;
	__be16 len;
	__be32 run;
	__be32 number;
};

/* Set before the programs are loaded: the port of the echo. */
const volatile __u16 port = 0;

/* The kernel finds the fields by their names. */
#define KERNEL __attribute__((preserve_access_index))

struct sk_buff {
	unsigned char *head;
	unsigned char *data;
	__u16 network_header;
} KERNEL;

struct sock_common {
	__be16 skc_dport;
	__u16 skc_num;
} KERNEL;

struct sock {
	struct sock_common __sk_common;
} KERNEL;

struct task_struct {
	__s32 pid;
} KERNEL;

#define ENTRIES 16384

/* The stamps of a message, of its request and of its reply; a time of 0 is none. */
struct passed {
	__u32 run;
	__u32 number;
	__u64 time_ns[2][PARTS];
};

/*
 * As in stamps.bpf.c: the entry of a message is computed, and who comes later
 * takes it over. Here nobody locks: the places of one message come one after
 * the other, and it is read when the round trip is over.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ENTRIES);
	__type(key, __u32);
	__type(value, struct passed);
} passed SEC(".maps");

/* Which message, in which direction. */
struct id {
	__u32 at;
	__u32 run;
	__u32 number;
	__u32 direction;
};

/* What a core is at. */
struct core {
	/* The packet that a driver has now, and its message. */
	__u64 sending;
	struct id sent;
	/* The message that came last and is on its way to its socket. */
	struct id came;
	__u32 is_coming;
	/* Its socket wakes who waits. */
	__u32 is_waking;
	/* The first request for the receiving softirq since it began last; and
	 * that for the one which runs now, and its beginning.
	 */
	__u64 asked_ns;
	__u64 raised_ns;
	__u64 started_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct core);
} cores SEC(".maps");

/* Who was woken for a message, and does not run yet: of requests, of replies. */
struct woken {
	struct id id;
	__s32 pid;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct woken);
} wakes SEC(".maps");

static __always_inline struct core *this_core(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&cores, &only);
}

/* A field of one of the kernel's structures. */
#define READ(from, field)                                                  \
	({                                                                 \
		typeof((from)->field) value = 0;                           \
		bpf_probe_read_kernel(&value, sizeof(value),               \
				      __builtin_preserve_access_index(     \
					      &(from)->field));            \
		value;                                                     \
	})

/* Where the UDP header is behind the IP header at `ip`; NULL where there is none,
 * or none in this fragment.
 */
static __always_inline const unsigned char *udp_at(const unsigned char *ip)
{
	union {
		struct ip4 v4;
		struct {
			struct ip6 v6;
			struct ip6_fragment fragment;
		};
	} read;

	if (bpf_probe_read_kernel(&read.v4, sizeof(read.v4), ip))
		return NULL;
	if (read.v4.version_ihl >> 4 == 4) {
		if (read.v4.protocol != IPPROTO_UDP ||
		    read.v4.fragment & bpf_htons(IP4_FRAGMENT_OFFSET))
			return NULL;
		return ip + (read.v4.version_ihl & 0xf) * 4;
	}
	if (read.v4.version_ihl >> 4 != 6 ||
	    bpf_probe_read_kernel(&read, sizeof(read), ip))
		return NULL;
	if (read.v6.next == IPPROTO_UDP)
		return ip + sizeof(read.v6);
	if (read.v6.next != IPPROTO_FRAGMENT ||
	    read.fragment.next != IPPROTO_UDP ||
	    read.fragment.offset & bpf_htons(IP6_FRAGMENT_OFFSET))
		return NULL;
	return ip + sizeof(read.v6) + sizeof(read.fragment);
}

/* Whether the packet whose IP header is at `ip` is a message of ours, or the first
 * fragment of one.
 */
static __always_inline bool is_ours(const unsigned char *ip, struct id *id)
{
	const unsigned char *at = udp_at(ip);
	struct {
		struct udp udp;
		struct head head;
	} read;
	__be16 ours = bpf_htons(port);

	if (!at || bpf_probe_read_kernel(&read, sizeof(read), at))
		return false;
	if (read.udp.ports.source != ours && read.udp.ports.target != ours)
		return false;
	if (read.head.magic != bpf_htonl(MAGIC) || read.head.version != VERSION)
		return false;
	if (read.head.kind != REQUEST && read.head.kind != REPLY)
		return false;
	id->run = bpf_ntohl(read.head.run);
	id->number = bpf_ntohl(read.head.number);
	id->direction = read.head.kind == REPLY;
	id->at = (id->run * 0x9e3779b1 + id->number) % ENTRIES;
	return true;
}

static __always_inline bool is_sent(struct sk_buff *skb, struct id *id)
{
	return is_ours(READ(skb, head) + READ(skb, network_header), id);
}

/* The first of several stamps is kept: a packet may pass a place more than once. */
static __always_inline void put(const struct id *id, enum part part, __u64 time_ns)
{
	__u32 at = id->at % ENTRIES;
	struct passed *entry = bpf_map_lookup_elem(&passed, &at);
	__u64 *time;

	if (!entry)
		return;
	if (entry->run != id->run || entry->number != id->number) {
		__builtin_memset(entry, 0, sizeof(*entry));
		entry->run = id->run;
		entry->number = id->number;
	}
	time = &entry->time_ns[id->direction & 1][part];
	if (!*time)
		*time = time_ns;
}

SEC("raw_tp/net_dev_queue")
int niclab_queued(__u64 *arguments)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct id id;

	if (is_sent((void *)arguments[0], &id))
		put(&id, QUEUED, now_ns);
	return 0;
}

SEC("raw_tp/net_dev_start_xmit")
int niclab_to_driver(__u64 *arguments)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct core *core = this_core();
	struct id id;

	if (core && is_sent((void *)arguments[0], &id)) {
		put(&id, TO_DRIVER, now_ns);
		/* When the driver returns the packet is not its own any more. */
		core->sending = arguments[0];
		core->sent = id;
	}
	return 0;
}

SEC("raw_tp/net_dev_xmit")
int niclab_sent(__u64 *arguments)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct core *core = this_core();

	if (core && core->sending == arguments[0]) {
		core->sending = 0;
		put(&core->sent, SENT, now_ns);
	}
	return 0;
}

SEC("raw_tp/softirq_raise")
int niclab_raised(__u64 *arguments)
{
	struct core *core = arguments[0] == NET_RX_SOFTIRQ ? this_core() : NULL;

	if (core && !core->asked_ns)
		core->asked_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("raw_tp/softirq_entry")
int niclab_started(__u64 *arguments)
{
	struct core *core = arguments[0] == NET_RX_SOFTIRQ ? this_core() : NULL;

	if (core) {
		core->started_ns = bpf_ktime_get_ns();
		core->raised_ns = core->asked_ns;
		core->asked_ns = 0;
	}
	return 0;
}

SEC("raw_tp/softirq_exit")
int niclab_ended(__u64 *arguments)
{
	struct core *core = arguments[0] == NET_RX_SOFTIRQ ? this_core() : NULL;

	/* Nobody slept for the message: who is woken from here on is another. */
	if (core)
		core->is_waking = 0;
	return 0;
}

SEC("raw_tp/netif_receive_skb")
int niclab_came(__u64 *arguments)
{
	struct sk_buff *skb = (void *)arguments[0];
	struct core *core = this_core();
	struct id id;

	if (core && is_ours(READ(skb, data), &id)) {
		core->came = id;
		core->is_coming = 1;
		put(&id, RAISED, core->raised_ns);
		put(&id, STARTED, core->started_ns);
	}
	return 0;
}

SEC("raw_tp/sk_data_ready")
int niclab_delivered(__u64 *arguments)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct sock *sk = (void *)arguments[0];
	struct core *core = this_core();

	if (!core || !core->is_coming)
		return 0;
	if (READ(sk, __sk_common.skc_num) != port &&
	    READ(sk, __sk_common.skc_dport) != bpf_htons(port))
		return 0;
	core->is_coming = 0;
	core->is_waking = 1;
	put(&core->came, DELIVERED, now_ns);
	return 0;
}

SEC("raw_tp/sched_waking")
int niclab_waking(__u64 *arguments)
{
	struct task_struct *task = (void *)arguments[0];
	struct core *core = this_core();
	struct woken *woken;
	__u32 direction;

	if (!core || !core->is_waking)
		return 0;
	core->is_waking = 0;
	direction = core->came.direction & 1;
	woken = bpf_map_lookup_elem(&wakes, &direction);
	if (woken) {
		woken->id = core->came;
		woken->pid = READ(task, pid);
	}
	return 0;
}

SEC("raw_tp/sched_switch")
int niclab_runs(__u64 *arguments)
{
	struct task_struct *next = (void *)arguments[2];
	__s32 pid = READ(next, pid);
	__u32 direction;

	for (direction = 0; direction < 2; direction++) {
		__u32 at = direction;
		struct woken *woken = bpf_map_lookup_elem(&wakes, &at);

		if (woken && pid && woken->pid == pid) {
			woken->pid = 0;
			put(&woken->id, RUNS, bpf_ktime_get_ns());
		}
	}
	return 0;
}

/* Reading the kernel's memory is for programs under the GPL or with it among their licences. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
