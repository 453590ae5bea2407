// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Stamps echo messages where they leave and enter the network stack: one
 * program for the egress of an interface, one for its ingress.
 *
 * A datagram that is one message (crates/packet/src/echo.rs has the format) and
 * has room gets its stamp written into it. A shorter one and a fragmented one
 * are left as they are, and their stamp is kept in a map by the number of the
 * message. A segment of TCP is never changed: its stamp is kept under its
 * flow and the sequence number behind its last byte.
 *
 * Whatever is not ours passes untouched, and so does a packet that could not be
 * stamped: the counters tell.
 */
#include "kernel.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* The format of the echo's messages. */
#define MAGIC 0x6e69636c
#define VERSION 1
#define REQUEST 1
#define REPLY 2
#define MESSAGE_LEN_MAX 65507
#define STAMPED_LEN_MIN 128
#define TIMES_AT 16
#define CORES_AT 80

enum place {
	CLIENT_EGRESS = 1,
	SERVER_INGRESS = 2,
	SERVER_EGRESS = 5,
	CLIENT_INGRESS = 6,
};

enum direction {
	EGRESS = 0,
	INGRESS = 1,
};

struct head {
	__be32 magic;
	__u8 version;
	__u8 kind;
	__be16 len;
	__be32 run;
	__be32 number;
};

/* Set before the programs are loaded: the port of the echo, and how many bytes
 * of a packet come before its IP header (14 where there is Ethernet).
 */
const volatile __u16 port = 0;
const volatile __u32 network_at = 14;

/* As it stands in the packets that go one way; IPv4 as ::ffff:a.b.c.d. */
struct flow {
	__be32 source[4];
	__be32 target[4];
	__u16 source_port;
	__u16 target_port;
};

/*
 * The tables of stamps are arrays, and which entry belongs to a message or a
 * segment is computed from it: an entry is a cache line, and writing it is all
 * that a stamp costs. A hash map of the kernel takes several lines for each and
 * was three times as dear (README.md). Who comes later takes the entry over; so
 * of one run the last 65,536 messages are there, and of several fewer. Two
 * cores may come to one entry, and user space reads it: each takes its lock.
 */
#define ENTRIES 65536

/* The stamps of a message, by place; a time of 0 is none. */
struct message {
	struct bpf_spin_lock lock;
	__u32 run;
	__u32 number;
	__u32 unused;
	__u64 time_ns[4];
	__u16 core[4];
	__u64 unused_too;
};

/* The stamp of a segment that ends before a sequence number. */
struct segment {
	struct bpf_spin_lock lock;
	__u32 end;
	struct flow flow;
	__u16 core;
	__u16 direction;
	__u64 time_ns;
	__u64 unused;
};

_Static_assert(sizeof(struct message) == 64, "an entry is a cache line");
_Static_assert(sizeof(struct segment) == 64, "an entry is a cache line");

struct counts {
	__u64 payload;
	__u64 map;
	__u64 segments;
	__u64 refused;
	__u64 failed;
};

/* Stamps of messages that have no room for them, or came in fragments. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ENTRIES);
	__type(key, __u32);
	__type(value, struct message);
} messages SEC(".maps");

/* Stamps of TCP segments by their end. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ENTRIES);
	__type(key, __u32);
	__type(value, struct segment);
} segments SEC(".maps");

/* The initial sequence number of each direction of a TCP connection: the first
 * byte of its stream has the next one.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct flow);
	__type(value, __u32);
} beginnings SEC(".maps");

/* What was done, per core; one entry. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counters SEC(".maps");

/* Adds one to a counter of this core; no other program of ours runs on it now. */
#define COUNT(name)                                                        \
	do {                                                               \
		__u32 only = 0;                                            \
		struct counts *counts =                                    \
			bpf_map_lookup_elem(&counters, &only);             \
		if (counts)                                                \
			counts->name++;                                    \
	} while (0)

/* A packet as far as its IP header tells. */
struct view {
	__u32 network_at;
	__u32 transport_at;
	__u32 end;
	__u8 protocol;
	bool v6;
	bool fragment;
};

/*
 * The bytes `at` to `at + len` of the packet; NULL where it has not so many.
 *
 * The bounds idiom: the verifier lets a program read behind `data` only as far
 * as a comparison with `data_end` on the way there has shown. So every read
 * goes through here, and the compare is with the very pointer that is returned.
 * A packet may have its first bytes alone at `data` and the rest elsewhere;
 * what is missing is then pulled there, after which pointers got earlier are
 * no longer good, and the verifier knows. The mask bounds `at` for it: headers
 * are shorter than that.
 */
static __always_inline void *bytes(struct __sk_buff *skb, __u32 at, __u32 len)
{
	void *start;

	at &= 0xff;
	start = (void *)(long)skb->data + at;
	if (start + len <= (void *)(long)skb->data_end)
		return start;
	if (at + len > skb->len || bpf_skb_pull_data(skb, at + len))
		return NULL;
	start = (void *)(long)skb->data + at;
	if (start + len <= (void *)(long)skb->data_end)
		return start;
	return NULL;
}

static __always_inline bool view_ip4(struct __sk_buff *skb, struct view *view)
{
	struct ip4 *ip = bytes(skb, view->network_at, sizeof(*ip));
	__u16 fragment, total_len;

	if (!ip || ip->version_ihl >> 4 != 4)
		return false;
	fragment = bpf_ntohs(ip->fragment);
	if (fragment & IP4_FRAGMENT_OFFSET)
		return false; /* not the first one, which alone has our head */
	total_len = bpf_ntohs(ip->total_len);
	view->transport_at = view->network_at + (ip->version_ihl & 0xf) * 4;
	/* A segment longer than 64 KiB, yet to be cut, says no length. */
	view->end = total_len ? view->network_at + total_len : skb->len;
	view->protocol = ip->protocol;
	view->fragment = fragment & IP4_FRAGMENT_MORE;
	view->v6 = false;
	return true;
}

static __always_inline bool view_ip6(struct __sk_buff *skb, struct view *view)
{
	struct ip6 *ip = bytes(skb, view->network_at, sizeof(*ip));
	struct ip6_fragment *fragment;
	__u16 payload_len;

	if (!ip || bpf_ntohl(ip->version_class_flow) >> 28 != 6)
		return false;
	payload_len = bpf_ntohs(ip->payload_len);
	view->transport_at = view->network_at + sizeof(*ip);
	view->end = payload_len ? view->transport_at + payload_len : skb->len;
	view->protocol = ip->next;
	view->v6 = true;
	view->fragment = ip->next == IPPROTO_FRAGMENT;
	if (!view->fragment)
		return true;
	fragment = bytes(skb, view->transport_at, sizeof(*fragment));
	if (!fragment || bpf_ntohs(fragment->offset) & IP6_FRAGMENT_OFFSET)
		return false;
	view->protocol = fragment->next;
	view->transport_at += sizeof(*fragment);
	return true;
}

/* Looks as far as the IP header, behind one VLAN tag at most; false where there
 * is none, or the packet is a fragment without the transport header.
 */
static __always_inline bool look(struct __sk_buff *skb, struct view *view)
{
	__be16 protocol = skb->protocol;

	view->network_at = network_at;
	if (protocol == bpf_htons(ETH_P_8021Q)) {
		__be16 *inner = bytes(skb, network_at + 2, sizeof(*inner));

		if (!inner)
			return false;
		protocol = *inner;
		view->network_at += VLAN_HLEN;
	}
	if (protocol == bpf_htons(ETH_P_IP))
		return view_ip4(skb, view);
	if (protocol == bpf_htons(ETH_P_IPV6))
		return view_ip6(skb, view);
	return false;
}

/* The sum of three words with those that they replace taken out (RFC 1624). */
static __always_inline __wsum difference(const __u32 *from, const __u32 *to)
{
	__u64 sum = (__u64)to[0] + to[1] + to[2];

	sum += (__u64)(__u32)~from[0] + (__u32)~from[1] + (__u32)~from[2];
	sum = (sum & 0xffffffff) + (sum >> 32);
	return (sum & 0xffffffff) + (sum >> 32);
}

/*
 * Writes a stamp into a message and keeps the checksum as true as it was:
 * - none (0): there stays none. Of a packet that its card summed up as a whole
 *   (CHECKSUM_COMPLETE) that sum is corrected.
 * - one that the card will complete (CHECKSUM_PARTIAL): the field holds the sum
 *   of the pseudo header alone; the helper leaves it.
 * - one in place: it is corrected by the difference, to 0xffff where that gives
 *   0, which would say "none". What was added to the message was taken from the
 *   field, so a sum of the whole packet still holds: it is not corrected.
 * The helpers take a packet that shares its bytes with others its own copy.
 */
static __always_inline bool write(struct __sk_buff *skb, __u32 udp_at,
				  enum place place, __sum16 check)
{
	__u32 message_at = udp_at + sizeof(struct udp);
	__u32 time_at = TIMES_AT + place * 8, core_at = CORES_AT + place * 2;
	__u64 flags = check ? 0 : BPF_F_RECOMPUTE_CSUM;
	__u8 *message = bytes(skb, message_at, STAMPED_LEN_MIN);
	__u32 from[3] = {}, to[3] = {};
	__be64 time;
	__be16 core;

	if (!message)
		return false;
	time = bpf_cpu_to_be64(bpf_ktime_get_ns());
	core = bpf_htons(bpf_get_smp_processor_id() + 1);
	from[0] = *(__u32 *)(message + time_at);
	from[1] = *(__u32 *)(message + time_at + 4);
	*(__be16 *)&from[2] = *(__be16 *)(message + core_at);
	__builtin_memcpy(to, &time, 8);
	*(__be16 *)&to[2] = core;

	if (bpf_skb_store_bytes(skb, message_at + time_at, to, 8, flags) ||
	    bpf_skb_store_bytes(skb, message_at + core_at, &to[2], 2, flags))
		return false;
	if (!check)
		return true;
	return !bpf_l4_csum_replace(skb,
				    udp_at + __builtin_offsetof(struct udp, check),
				    0, difference(from, to), BPF_F_MARK_MANGLED_0);
}

/* Which of a message's stamps one is. */
static __always_inline __u32 slot(enum place place)
{
	if (place == CLIENT_EGRESS)
		return 0;
	if (place == SERVER_INGRESS)
		return 1;
	return place == SERVER_EGRESS ? 2 : 3;
}

static __always_inline void keep(const struct head *head, enum place place)
{
	__u32 run = bpf_ntohl(head->run), number = bpf_ntohl(head->number);
	__u32 at = (run * 0x9e3779b1 + number) % ENTRIES;
	struct message *message = bpf_map_lookup_elem(&messages, &at);
	__u32 core = bpf_get_smp_processor_id();
	__u64 time_ns = bpf_ktime_get_ns();

	if (!message)
		return;
	bpf_spin_lock(&message->lock);
	if (message->run != run || message->number != number) {
		message->run = run;
		message->number = number;
		message->time_ns[0] = message->time_ns[1] = 0;
		message->time_ns[2] = message->time_ns[3] = 0;
	}
	message->time_ns[slot(place)] = time_ns;
	message->core[slot(place)] = core;
	bpf_spin_unlock(&message->lock);
	COUNT(map);
}

/*
 * A datagram to or from our port. Of a fragmented one this is the first
 * fragment: at egress the moment when the message begins to leave, at ingress
 * the one when it begins to come; the stack has it whole with the last only.
 */
static __always_inline void datagram(struct __sk_buff *skb, struct view *view,
				     enum direction direction)
{
	struct {
		struct udp udp;
		struct head head;
	} *d = bytes(skb, view->transport_at, sizeof(*d));
	enum place place;
	__u16 len;

	if (!d || d->head.magic != bpf_htonl(MAGIC))
		return;
	len = bpf_ntohs(d->head.len);
	if (d->head.version != VERSION ||
	    (d->head.kind != REQUEST && d->head.kind != REPLY) ||
	    len < sizeof(struct head) || len > MESSAGE_LEN_MAX ||
	    bpf_ntohs(d->udp.len) != len + sizeof(struct udp) ||
	    (!view->fragment && (view->transport_at + sizeof(struct udp) + len !=
				 view->end || view->end > skb->len))) {
		COUNT(refused);
		return;
	}
	if (d->head.kind == REQUEST)
		place = direction == EGRESS ? CLIENT_EGRESS : SERVER_INGRESS;
	else
		place = direction == EGRESS ? SERVER_EGRESS : CLIENT_INGRESS;

	if (view->fragment || len < STAMPED_LEN_MIN)
		keep(&d->head, place);
	else if (write(skb, view->transport_at, place, d->udp.check))
		COUNT(payload);
	else
		COUNT(failed);
}

static __always_inline bool read_flow(struct __sk_buff *skb, struct view *view,
				      struct flow *flow)
{
	if (view->v6) {
		struct ip6 *ip = bytes(skb, view->network_at, sizeof(*ip));

		if (!ip)
			return false;
		for (int at = 0; at < 4; at++) {
			flow->source[at] = ip->source[at];
			flow->target[at] = ip->target[at];
		}
	} else {
		struct ip4 *ip = bytes(skb, view->network_at, sizeof(*ip));

		if (!ip)
			return false;
		flow->source[2] = flow->target[2] = bpf_htonl(0xffff);
		flow->source[3] = ip->source;
		flow->target[3] = ip->target;
	}
	return true;
}

/* The entry of a segment: ends at equal distances in a flow spread evenly, and
 * a segment that both leaves and enters here (the loopback's) has two, half the
 * table apart.
 */
static __always_inline __u32 entry(const struct flow *flow, __u32 end,
				   enum direction direction)
{
	__u64 hash = (__u64)flow->source_port << 32 | flow->target_port;

	for (int at = 0; at < 4; at++)
		hash = (hash ^ ((__u64)flow->source[at] << 32 | flow->target[at])) *
		       0x9e3779b97f4a7c15;
	hash = (hash >> 32) + end * 0x9e3779b1;
	/*
	 * Each direction has a half of its own: the ends of two flows whose
	 * messages are of one length are spread by one pattern, and where one
	 * pattern is the other one moved by some messages, they all collide.
	 */
	return (__u32)direction << 15 | (__u32)hash >> 17;
}

static __always_inline bool same(const struct flow *a, const struct flow *b)
{
	__u32 differ = a->source_port ^ b->source_port;

	differ |= a->target_port ^ b->target_port;
	for (int at = 0; at < 4; at++)
		differ |= (a->source[at] ^ b->source[at]) |
			  (a->target[at] ^ b->target[at]);
	return !differ;
}

/* Keeps the stamp of an end, unless it is there already. */
static __always_inline void keep_end(const struct flow *flow, __u32 end,
				     enum direction direction)
{
	__u32 at = entry(flow, end, direction);
	struct segment *segment = bpf_map_lookup_elem(&segments, &at);
	__u32 core = bpf_get_smp_processor_id();
	__u64 time_ns = bpf_ktime_get_ns();
	bool known;

	if (!segment)
		return;
	bpf_spin_lock(&segment->lock);
	known = segment->time_ns && segment->end == end &&
		segment->direction == direction && same(&segment->flow, flow);
	if (!known) {
		segment->end = end;
		segment->flow = *flow;
		segment->direction = direction;
		segment->core = core;
		segment->time_ns = time_ns;
	}
	bpf_spin_unlock(&segment->lock);
	if (!known)
		COUNT(segments);
}

/*
 * A segment to or from our port. The stack hands it to egress before it is cut
 * to the size of the wire, and to ingress after segments were put together: an
 * end at one side need not be one at the other. The first stamp of an end wins:
 * what is sent, or comes, once more is not what the stream waited for.
 */
static __always_inline void stream(struct __sk_buff *skb, struct view *view,
				   enum direction direction)
{
	struct flow flow = {};
	struct tcp *tcp;
	__u32 sequence, data_at;

	if (!read_flow(skb, view, &flow))
		return;
	tcp = bytes(skb, view->transport_at, sizeof(*tcp));
	if (!tcp)
		return;
	flow.source_port = bpf_ntohs(tcp->ports.source);
	flow.target_port = bpf_ntohs(tcp->ports.target);
	sequence = bpf_ntohl(tcp->sequence);
	data_at = view->transport_at + (tcp->data_offset >> 4) * 4;
	if (tcp->flags & TCP_SYN) {
		bpf_map_update_elem(&beginnings, &flow, &sequence, BPF_ANY);
		sequence++;
	}
	if (view->end > data_at)
		keep_end(&flow, sequence + (view->end - data_at), direction);
}

static __always_inline int pass(struct __sk_buff *skb, enum direction direction)
{
	__be16 ours = bpf_htons(port);
	struct view view = {};
	struct ports *ports;

	if (!look(skb, &view))
		return TC_ACT_UNSPEC;
	if (view.protocol != IPPROTO_UDP && view.protocol != IPPROTO_TCP)
		return TC_ACT_UNSPEC;
	ports = bytes(skb, view.transport_at, sizeof(*ports));
	if (!ports || (ports->source != ours && ports->target != ours))
		return TC_ACT_UNSPEC;
	if (view.protocol == IPPROTO_UDP)
		datagram(skb, &view, direction);
	else if (!view.fragment)
		stream(skb, &view, direction);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int niclab_egress(struct __sk_buff *skb)
{
	return pass(skb, EGRESS);
}

SEC("tc")
int niclab_ingress(struct __sk_buff *skb)
{
	return pass(skb, INGRESS);
}

/* The helpers used are open to all; the verifier wants to be told one. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
