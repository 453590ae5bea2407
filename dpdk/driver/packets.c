/* The packet path: receive, classify in place, hand over, send. Nothing here copies a frame of a
 * memory port: mbufs go from the sender's transmit queue to the receiver's queue. */
#include "driver.h"

#include <string.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_net.h>
#include <rte_tcp.h>
#include <rte_udp.h>

uint64_t nl_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void nl_drain(struct rte_ring *ring)
{
	struct rte_mbuf *packets[NICLAB_BURST];
	unsigned int count;

	while (ring != NULL &&
	       (count = rte_ring_dequeue_burst(ring, (void **)packets, NICLAB_BURST, NULL)) > 0)
		rte_pktmbuf_free_bulk(packets, count);
}

/* Whether the device takes frames to this address. */
static int is_for(const struct nl_device *device, const struct rte_ether_addr *to)
{
	if (rte_is_broadcast_ether_addr(to))
		return 1;
	if (rte_is_multicast_ether_addr(to)) {
		if (device->data->all_multicast)
			return 1;
		for (uint32_t i = 0; i < device->mc_addrs_count; i++)
			if (rte_is_same_ether_addr(to, &device->mc_addrs[i]))
				return 1;
		return 0;
	}
	/* Places without an address have zeros. */
	if (rte_is_zero_ether_addr(to))
		return 0;
	for (int i = 0; i < NL_MAC_ADDRS_MAX; i++)
		if (rte_is_same_ether_addr(to, &device->mac_addrs[i]))
			return 1;
	return 0;
}

/* Whether the VLAN filter lets a frame pass; one without a tag passes. */
static int passes_vlan_filter(const struct nl_device *device, const struct rte_mbuf *packet)
{
	const struct rte_ether_hdr *ethernet = rte_pktmbuf_mtod(packet, const struct rte_ether_hdr *);
	const struct rte_vlan_hdr *tag = (const struct rte_vlan_hdr *)(ethernet + 1);

	if (ethernet->ether_type != RTE_BE16(RTE_ETHER_TYPE_VLAN) || packet->data_len < 18)
		return 1;
	uint16_t id = rte_be_to_cpu_16(tag->vlan_tci) & 0xfff;
	return device->vlans[id / 64] >> (id % 64) & 1;
}

/* Removes the frames that the device does not take; returns how many are left. */
static uint16_t filter(struct nl_rx_queue *queue, struct rte_mbuf **packets, uint16_t count)
{
	const struct nl_device *device = queue->device;
	const int is_promiscuous = device->data->promiscuous;
	const int has_vlan_filter =
		(device->data->dev_conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_VLAN_FILTER) != 0;
	const uint32_t len_max = device->data->mtu + RTE_ETHER_HDR_LEN + 2 * RTE_VLAN_HLEN;
	uint16_t left = 0;

	for (uint16_t i = 0; i < count; i++) {
		struct rte_mbuf *packet = packets[i];
		uint64_t *loss = NULL;

		if (packet->pkt_len > len_max)
			loss = &queue->counted.losses.too_long;
		else if (packet->data_len < RTE_ETHER_HDR_LEN)
			loss = NULL;
		else if (!is_promiscuous &&
			 !is_for(device, rte_pktmbuf_mtod(packet, const struct rte_ether_addr *)))
			loss = &queue->counted.losses.by_mac;
		else if (has_vlan_filter && !passes_vlan_filter(device, packet))
			loss = &queue->counted.losses.by_vlan;
		if (loss == NULL) {
			packets[left++] = packet;
		} else {
			(*loss)++;
			rte_pktmbuf_free(packet);
		}
	}
	return left;
}

/* Tells the worker the time, once a millisecond for ages, and for each burst if there are meters. */
static void keep_time(struct nl_rx_queue *queue)
{
	const uint64_t now = rte_rdtsc();

	if (queue->device->card.profile != NULL)
		nl_note_forwarding(now);
	if (now - queue->timed_tsc > queue->tsc_per_ms) {
		queue->timed_tsc = now;
		niclab_worker_set_time(queue->worker, nl_now_ns());
	} else if (unlikely(queue->device->has_meters)) {
		niclab_worker_set_meter_time(queue->worker, nl_now_ns());
	}
}

/* Gives a packet to another receive queue. */
static void hand_over(struct nl_rx_queue *from, uint16_t to, struct rte_mbuf *packet)
{
	struct rte_ring *ring =
		to < from->device->data->nb_rx_queues ? from->device->rx[to].ring : NULL;

	if (ring == NULL || rte_ring_mp_enqueue(ring, packet) != 0) {
		from->counted.losses.queue_full++;
		rte_pktmbuf_free(packet);
	}
}

/* Writes what the NIC decided into an mbuf. */
static inline void write_back(const struct nl_rx_queue *queue, struct rte_mbuf *packet,
			      const struct niclab_frame *frame)
{
	uint64_t flags = 0;

	packet->data_off = (uint16_t)(frame->data - (uint8_t *)packet->buf_addr);
	packet->data_len = frame->len;
	packet->pkt_len = frame->len;
	packet->port = queue->port_id;
	packet->packet_type = 0;
	packet->hash.rss = frame->hash;
	if (frame->hash != 0)
		flags |= RTE_MBUF_F_RX_RSS_HASH;
	if (frame->flags & NICLAB_FLAGGED) {
		flags |= RTE_MBUF_F_RX_FDIR;
		if (frame->flags & NICLAB_MARKED) {
			flags |= RTE_MBUF_F_RX_FDIR_ID;
			packet->hash.fdir.hi = frame->mark;
		}
	}
	packet->ol_flags = (packet->ol_flags & (RTE_MBUF_F_EXTERNAL | RTE_MBUF_F_INDIRECT)) | flags;
}

/* Classifies frames. Those of this queue go to `mine`, which has `room`; others to their queues.
 * Returns how many went to `mine`. */
static uint16_t classify(struct nl_rx_queue *queue, struct rte_mbuf **packets, uint16_t count,
			 struct rte_mbuf **mine, uint16_t room)
{
	struct niclab_frame frames[NICLAB_BURST];
	uint16_t taken = 0;

	for (uint16_t i = 0; i < count; i++) {
		frames[i].data = rte_pktmbuf_mtod(packets[i], uint8_t *);
		/* The headers are read next. */
		rte_prefetch0(frames[i].data);
		frames[i].headroom = packets[i]->data_off;
		frames[i].len = packets[i]->data_len;
	}
	keep_time(queue);
	niclab_classify(queue->worker, frames, count);
	queue->idle = 0;
	for (uint16_t i = 0; i < count; i++) {
		struct rte_mbuf *packet = packets[i];

		if (frames[i].flags & (NICLAB_DROPPED | NICLAB_LEAVES)) {
			queue->counted.losses.by_rule++;
			rte_pktmbuf_free(packet);
			continue;
		}
		write_back(queue, packet, &frames[i]);
		if (frames[i].queue == queue->id && taken < room)
			mine[taken++] = packet;
		else
			hand_over(queue, frames[i].queue, packet);
	}
	return taken;
}

/* Takes frames that the other end of the link has sent. */
static uint16_t receive_memory(struct nl_rx_queue *queue, uint16_t wire, struct rte_mbuf **packets,
			       uint16_t count)
{
	const struct nl_device *device = queue->device;
	struct rte_ring *ring =
		__atomic_load_n(&device->link->wires[!device->end][wire], __ATOMIC_ACQUIRE);

	if (ring == NULL)
		return 0;
	if (device->card.frame_time != 0)
		count = nl_classifier_room(queue, ring, count);
	count = rte_ring_sc_dequeue_burst(ring, (void **)packets, count, NULL);
	/* The sender had them last. */
	for (uint16_t i = 0; i < count; i++)
		rte_prefetch0(packets[i]);
	return count;
}

/* Takes frames that came by a port of the system: they are copied into mbufs. */
static uint16_t receive_port(struct nl_rx_queue *queue, uint16_t wire, struct rte_mbuf **packets,
			     uint16_t count)
{
	struct niclab_frame frames[NICLAB_BURST];

	if (queue->spare_count < count) {
		unsigned int wanted = NICLAB_BURST - queue->spare_count;

		if (rte_pktmbuf_alloc_bulk(queue->pool, &queue->spare[queue->spare_count], wanted) == 0)
			queue->spare_count = NICLAB_BURST;
		else
			queue->counted.losses.no_mbuf++;
	}
	count = RTE_MIN(count, (uint16_t)queue->spare_count);
	for (uint16_t i = 0; i < count; i++) {
		struct rte_mbuf *packet = queue->spare[queue->spare_count - 1 - i];

		frames[i].data = rte_pktmbuf_mtod(packet, uint8_t *);
		frames[i].len = rte_pktmbuf_tailroom(packet);
	}
	int got = niclab_port_receive(queue->device->port, wire, frames, count, NULL);
	for (int i = 0; i < got; i++) {
		packets[i] = queue->spare[--queue->spare_count];
		packets[i]->data_len = frames[i].len;
		packets[i]->pkt_len = frames[i].len;
	}
	return got > 0 ? (uint16_t)got : 0;
}

/* Takes a VLAN tag out of a packet if the program wants that. */
static void strip_vlan(const struct nl_rx_queue *queue, struct rte_mbuf **packets, uint16_t count)
{
	if (!(queue->device->data->dev_conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_VLAN_STRIP))
		return;
	for (uint16_t i = 0; i < count; i++)
		if (packets[i]->data_len >= 18)
			rte_vlan_strip(packets[i]);
}

/* Checks the checksums of IPv4, UDP and TCP of a packet; fragments have none of the latter. */
static uint64_t checksum_flags(const struct rte_mbuf *packet)
{
	struct rte_net_hdr_lens lens;
	const uint32_t type = rte_net_get_ptype(packet, &lens, RTE_PTYPE_L2_MASK | RTE_PTYPE_L3_MASK |
								RTE_PTYPE_L4_MASK);
	const uint32_t l4 = type & RTE_PTYPE_L4_MASK;
	const void *ip = rte_pktmbuf_mtod_offset(packet, const void *, lens.l2_len);
	const void *transport = (const char *)ip + lens.l3_len;
	const uint32_t rest = packet->data_len - lens.l2_len;
	uint64_t flags = 0;
	int is_good;

	if (RTE_ETH_IS_IPV4_HDR(type)) {
		const struct rte_ipv4_hdr *ipv4 = ip;

		if (rte_be_to_cpu_16(ipv4->total_length) > rest || lens.l3_len < sizeof(*ipv4) ||
		    lens.l3_len > rte_be_to_cpu_16(ipv4->total_length))
			return 0;
		is_good = rte_raw_cksum(ipv4, lens.l3_len) == 0xffff;
		flags |= is_good ? RTE_MBUF_F_RX_IP_CKSUM_GOOD : RTE_MBUF_F_RX_IP_CKSUM_BAD;
		if ((l4 != RTE_PTYPE_L4_UDP && l4 != RTE_PTYPE_L4_TCP) ||
		    rte_be_to_cpu_16(ipv4->total_length) < lens.l3_len + 8)
			return flags;
		/* A datagram of UDP may have none. */
		if (l4 == RTE_PTYPE_L4_UDP && ((const struct rte_udp_hdr *)transport)->dgram_cksum == 0)
			return flags;
		is_good = rte_ipv4_udptcp_cksum_verify(ipv4, transport) == 0;
	} else if (RTE_ETH_IS_IPV6_HDR(type) && (l4 == RTE_PTYPE_L4_UDP || l4 == RTE_PTYPE_L4_TCP)) {
		const struct rte_ipv6_hdr *ipv6 = ip;

		if (lens.l3_len != sizeof(*ipv6) ||
		    (uint32_t)rte_be_to_cpu_16(ipv6->payload_len) + lens.l3_len > rest ||
		    rte_be_to_cpu_16(ipv6->payload_len) < 8)
			return 0;
		is_good = rte_ipv6_udptcp_cksum_verify(ipv6, transport) == 0;
	} else {
		return 0;
	}
	return flags | (is_good ? RTE_MBUF_F_RX_L4_CKSUM_GOOD : RTE_MBUF_F_RX_L4_CKSUM_BAD);
}

/* Checks checksums if the program wants that. */
static void check_checksums(const struct nl_rx_queue *queue, struct rte_mbuf **packets,
			    uint16_t count)
{
	if (!(queue->device->data->dev_conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_CHECKSUM))
		return;
	for (uint16_t i = 0; i < count; i++)
		packets[i]->ol_flags |= checksum_flags(packets[i]);
}

uint16_t nl_rx_burst(void *opaque, struct rte_mbuf **packets, uint16_t count)
{
	struct nl_rx_queue *queue = opaque;
	const struct nl_device *device = queue->device;
	const uint16_t step = device->data->nb_rx_queues;
	/* The other end may get more transmit queues. */
	const uint16_t wires =
		device->link != NULL
			? __atomic_load_n(&device->link->wires_count[!device->end], __ATOMIC_RELAXED)
			: device->wires;
	uint16_t taken = 0, came = 0;

	/* A queue alone has packets here, too, if the other end has more wires than room was left. */
	taken = rte_ring_sc_dequeue_burst(queue->ring, (void **)packets, count, NULL);
	for (uint16_t wire = queue->id; wire < wires; wire += step) {
		struct rte_mbuf *arrived[NICLAB_BURST];
		/* A queue that others keep full still classifies some frames of its own wires. */
		uint16_t wanted = taken < count ? count - taken : 8;

		wanted = RTE_MIN(wanted, (uint16_t)NICLAB_BURST);
		uint16_t got = device->link != NULL
				       ? receive_memory(queue, wire, arrived, wanted)
				       : receive_port(queue, wire, arrived, wanted);
		if (got == 0)
			continue;
		came += got;
		if (device->card.frame_time != 0)
			nl_classifier_take(queue->device, got);
		got = filter(queue, arrived, got);
		taken += classify(queue, arrived, got, packets + taken, count - taken);
	}
	/* Memory of destroyed rules does not wait for a queue without frames. */
	if (came == 0 && !queue->idle) {
		queue->idle = 1;
		niclab_worker_offline(queue->worker);
	}
	if (taken == 0)
		return 0;
	check_checksums(queue, packets, taken);
	strip_vlan(queue, packets, taken);
	for (uint16_t i = 0; i < taken; i++)
		queue->counted.bytes += packets[i]->pkt_len;
	queue->counted.packets += taken;
	return taken;
}

/* Flags of packets for which there is something left to do. */
#define NL_TX_WORK (RTE_MBUF_F_TX_VLAN | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_L4_MASK)

/* Whether the lengths of a packet's IP header lie within the packet, which sums up what they say. */
static int is_whole_ip(const struct rte_mbuf *m)
{
	const uint32_t rest = m->l2_len < m->data_len ? m->data_len - m->l2_len : 0;

	if (m->ol_flags & RTE_MBUF_F_TX_IPV6) {
		const struct rte_ipv6_hdr *ipv6 =
			rte_pktmbuf_mtod_offset(m, const struct rte_ipv6_hdr *, m->l2_len);

		return rest >= sizeof(*ipv6) && m->l3_len >= sizeof(*ipv6) && m->l3_len <= rest &&
		       sizeof(*ipv6) + rte_be_to_cpu_16(ipv6->payload_len) <= rest &&
		       sizeof(*ipv6) + rte_be_to_cpu_16(ipv6->payload_len) >= m->l3_len + 8u;
	}
	const struct rte_ipv4_hdr *ipv4 =
		rte_pktmbuf_mtod_offset(m, const struct rte_ipv4_hdr *, m->l2_len);

	return rest >= sizeof(*ipv4) && m->l3_len >= sizeof(*ipv4) &&
	       rte_ipv4_hdr_len(ipv4) <= m->l3_len && m->l3_len <= rest &&
	       rte_be_to_cpu_16(ipv4->total_length) <= rest &&
	       rte_be_to_cpu_16(ipv4->total_length) >= m->l3_len + 8u;
}

/* Does in software what the program left to the card. Returns 0, or -1 for a packet that cannot be
 * sent. `packet` may change. */
static int finish_packet(struct rte_mbuf **packet)
{
	struct rte_mbuf *m = *packet;

	if (m->ol_flags & RTE_MBUF_F_TX_VLAN) {
		if (rte_vlan_insert(packet) != 0)
			return -1;
		m = *packet;
	}
	if (m->nb_segs > 1 && rte_pktmbuf_linearize(m) != 0)
		return -1;
	const uint64_t l4 = m->ol_flags & RTE_MBUF_F_TX_L4_MASK;
	const uint32_t headers = m->l2_len + m->l3_len;
	if ((l4 || m->ol_flags & RTE_MBUF_F_TX_IP_CKSUM) && !is_whole_ip(m))
		return -1;
	if (m->ol_flags & RTE_MBUF_F_TX_IP_CKSUM) {
		struct rte_ipv4_hdr *ip =
			rte_pktmbuf_mtod_offset(m, struct rte_ipv4_hdr *, m->l2_len);

		ip->hdr_checksum = 0;
		ip->hdr_checksum = rte_ipv4_cksum(ip);
	}
	if ((l4 == RTE_MBUF_F_TX_UDP_CKSUM && m->data_len >= headers + sizeof(struct rte_udp_hdr)) ||
	    (l4 == RTE_MBUF_F_TX_TCP_CKSUM && m->data_len >= headers + sizeof(struct rte_tcp_hdr))) {
		void *ip = rte_pktmbuf_mtod_offset(m, void *, m->l2_len);
		void *transport = rte_pktmbuf_mtod_offset(m, void *, headers);
		uint16_t *sum = l4 == RTE_MBUF_F_TX_UDP_CKSUM
					? &((struct rte_udp_hdr *)transport)->dgram_cksum
					: &((struct rte_tcp_hdr *)transport)->cksum;

		*sum = 0;
		*sum = m->ol_flags & RTE_MBUF_F_TX_IPV6 ? rte_ipv6_udptcp_cksum(ip, transport)
							: rte_ipv4_udptcp_cksum(ip, transport);
	}
	return 0;
}

/* Whether somebody else may have the bytes of a packet, too. */
static inline int is_shared(const struct rte_mbuf *packet)
{
	return !RTE_MBUF_DIRECT(packet) || rte_mbuf_refcnt_read(packet) != 1;
}

/* A copy of a packet that others have, too: the other end writes into what it receives. */
static struct rte_mbuf *own_packet(struct rte_mbuf *packet)
{
	struct rte_mbuf *copy = rte_pktmbuf_copy(packet, packet->pool, 0, UINT32_MAX);

	if (copy == NULL)
		return NULL;
	rte_pktmbuf_free(packet);
	return copy;
}

/* Finishes the packets that need it; drops those that cannot be sent. Returns how many are left. */
static uint16_t prepare(struct nl_tx_queue *queue, struct rte_mbuf **packets, uint16_t count,
			struct rte_mbuf **ready)
{
	uint16_t left = 0;

	for (uint16_t i = 0; i < count; i++) {
		struct rte_mbuf *packet = packets[i];

		if (unlikely(is_shared(packet))) {
			struct rte_mbuf *own = own_packet(packet);

			if (own == NULL) {
				queue->counted.dropped++;
				rte_pktmbuf_free(packet);
				continue;
			}
			packet = own;
		}
		if (unlikely(packet->nb_segs > 1 || packet->ol_flags & NL_TX_WORK) &&
		    finish_packet(&packet) != 0) {
			queue->counted.dropped++;
			rte_pktmbuf_free(packet);
			continue;
		}
		ready[left++] = packet;
	}
	return left;
}

/* Sends packets that need nothing done; returns how many had room. */
static uint16_t send_plain(struct nl_tx_queue *queue, struct rte_ring *wire,
			   struct rte_mbuf **packets, uint16_t count, uint64_t bytes)
{
	/* The bytes of packets that may not have room, while they are ours. */
	uint32_t room = rte_ring_free_count(wire);

	for (uint16_t i = room; i < count; i++)
		bytes -= packets[i]->pkt_len;
	count = rte_ring_sp_enqueue_burst(wire, (void **)packets, RTE_MIN(count, room), NULL);
	queue->counted.packets += count;
	queue->counted.bytes += bytes;
	return count;
}

/* Sends at most a burst, and does what the program left to the card. A prepared packet cannot be
 * given back, so it is known beforehand how many have room. */
static uint16_t send_some(struct nl_tx_queue *queue, struct rte_ring *wire,
			  struct rte_mbuf **packets, uint16_t count)
{
	struct rte_mbuf *ready[NICLAB_BURST];
	uint64_t bytes = 0;

	count = RTE_MIN(count, RTE_MIN(rte_ring_free_count(wire), (unsigned int)NICLAB_BURST));
	uint16_t left = prepare(queue, packets, count, ready);
	for (uint16_t i = 0; i < left; i++)
		bytes += ready[i]->pkt_len;
	/* There is room: this queue alone sends by the wire. */
	rte_ring_sp_enqueue_bulk(wire, (void **)ready, left, NULL);
	queue->counted.packets += left;
	queue->counted.bytes += bytes;
	return count;
}

uint16_t nl_tx_burst_memory(void *opaque, struct rte_mbuf **packets, uint16_t count)
{
	struct nl_tx_queue *queue = opaque;
	const struct nl_device *device = queue->device;
	struct rte_ring *wire = device->link->wires[device->end][queue->id];
	uint16_t sent = 0;

	if (unlikely(!__atomic_load_n(&device->link->started[!device->end], __ATOMIC_RELAXED))) {
		queue->counted.dropped += count;
		rte_pktmbuf_free_bulk(packets, count);
		return count;
	}
	if (device->link->byte_time != 0 && count > 0)
		count = nl_wire_room(device->link, device->end, packets, count);
	uint64_t flags = 0, bytes = 0;
	uint16_t segments = 1;
	int shared = 0;
	for (uint16_t i = 0; i < count; i++) {
		flags |= packets[i]->ol_flags;
		segments |= packets[i]->nb_segs;
		shared |= is_shared(packets[i]);
		bytes += packets[i]->pkt_len;
	}
	if (likely(segments == 1 && !shared && !(flags & NL_TX_WORK)))
		return send_plain(queue, wire, packets, count, bytes);
	while (sent < count) {
		uint16_t more = send_some(queue, wire, packets + sent, count - sent);

		if (more == 0)
			break;
		sent += more;
	}
	return sent;
}

uint16_t nl_tx_burst_port(void *opaque, struct rte_mbuf **packets, uint16_t count)
{
	struct nl_tx_queue *queue = opaque;
	struct nl_device *device = queue->device;
	struct rte_mbuf *ready[NICLAB_BURST];
	struct niclab_frame frames[NICLAB_BURST];

	count = RTE_MIN(count, (uint16_t)NICLAB_BURST);
	uint16_t left = prepare(queue, packets, count, ready), fitting = 0;
	for (uint16_t i = 0; i < left; i++) {
		/* A frame that the interface cannot have is not cut. */
		if (ready[i]->pkt_len > NICLAB_FRAME_LEN_MAX) {
			queue->counted.dropped++;
			rte_pktmbuf_free(ready[i]);
			continue;
		}
		ready[fitting] = ready[i];
		frames[fitting].data = rte_pktmbuf_mtod(ready[i], uint8_t *);
		frames[fitting++].len = ready[i]->data_len;
	}
	left = fitting;
	int sent = niclab_port_send(device->port, queue->id % device->wires, frames, left, NULL);
	/* A port of the system that takes no frame now loses it, as a wire does. */
	if (sent < 0)
		sent = 0;
	for (int i = 0; i < sent; i++)
		queue->counted.bytes += ready[i]->pkt_len;
	queue->counted.packets += sent;
	queue->counted.dropped += left - sent;
	rte_pktmbuf_free_bulk(ready, left);
	return count;
}
