// SPDX-License-Identifier: MIT OR Apache-2.0
#include <assert.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <rte_version.h>

#include "shim.h"

static_assert(sizeof(struct nl_port_info) == 108, "mirrored in shim.rs");
static_assert(sizeof(struct nl_stats) == 48, "mirrored in shim.rs");

int nl_init(int argc, char **argv)
{
	int taken = rte_eal_init(argc, argv);

	return taken < 0 ? -rte_errno : taken;
}

const char *nl_version(void)
{
	return rte_version();
}

int nl_thread_enter(void)
{
	/* The thread that started DPDK has a number; another would be taken from it again. */
	if (rte_lcore_id() != LCORE_ID_ANY)
		return -EEXIST;
	return rte_thread_register() < 0 ? -rte_errno : 0;
}

void nl_thread_leave(void)
{
	rte_thread_unregister();
}

uint16_t nl_ports(uint16_t *ports, uint16_t max)
{
	uint16_t port, count = 0;

	RTE_ETH_FOREACH_DEV(port)
		if (count < max)
			ports[count++] = port;
	return count;
}

int nl_port_info(uint16_t port, struct nl_port_info *info)
{
	struct rte_eth_dev_info device;
	struct rte_eth_link link = { 0 };
	int error = rte_eth_dev_info_get(port, &device);

	if (error < 0)
		return error;
	memset(info, 0, sizeof(*info));
	rte_eth_link_get_nowait(port, &link);
	rte_eth_dev_get_name_by_port(port, info->name);
	strncpy(info->driver, device.driver_name, sizeof(info->driver) - 1);
	info->speed_mbps = link.link_speed;
	info->mtu_max = device.max_mtu;
	info->rx_queues_max = device.max_rx_queues;
	info->tx_queues_max = device.max_tx_queues;
	return 0;
}

struct rte_ring *nl_ring(const char *name, uint32_t slots)
{
	return rte_ring_create(name, slots, SOCKET_ID_ANY,
			       RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
}

uint32_t nl_ring_room(const struct rte_ring *ring)
{
	return rte_ring_free_count(ring);
}

int nl_ring_port(const char *name, struct rte_ring *rx, struct rte_ring *tx)
{
	return rte_eth_from_rings(name, &rx, 1, &tx, 1, 0);
}

struct rte_mempool *nl_pool(const char *name, uint32_t frames, uint16_t data_len)
{
	return rte_pktmbuf_pool_create(name, frames, RTE_MEMPOOL_CACHE_MAX_SIZE, 0,
				       RTE_PKTMBUF_HEADROOM + data_len, SOCKET_ID_ANY);
}

int nl_port_configure(uint16_t port, struct rte_mempool *pool, uint16_t slots, uint32_t mtu)
{
	struct rte_eth_conf conf = { .rxmode.mtu = mtu };
	int error = rte_eth_dev_configure(port, 1, 1, &conf);

	if (!error)
		error = rte_eth_dev_adjust_nb_rx_tx_desc(port, &slots, &slots);
	if (!error)
		error = rte_eth_rx_queue_setup(port, 0, slots, SOCKET_ID_ANY, NULL, pool);
	if (!error)
		error = rte_eth_tx_queue_setup(port, 0, slots, SOCKET_ID_ANY, NULL);
	return error;
}

int nl_port_start(uint16_t port)
{
	int error = rte_eth_dev_start(port);

	/* Ports without an address filter do not have the operation, and need none. */
	if (!error)
		rte_eth_promiscuous_enable(port);
	return error;
}

int nl_port_stop(uint16_t port)
{
	return rte_eth_dev_stop(port);
}

int nl_port_link(uint16_t port)
{
	struct rte_eth_link link = { 0 };
	int error = rte_eth_link_get_nowait(port, &link);

	return error < 0 ? error : link.link_status == RTE_ETH_LINK_UP;
}

int nl_flow_validate(uint16_t port)
{
	const struct rte_flow_attr attr = { .ingress = 1 };
	const struct rte_flow_item pattern[] = {
		{ .type = RTE_FLOW_ITEM_TYPE_ETH },
		{ .type = RTE_FLOW_ITEM_TYPE_END },
	};
	const struct rte_flow_action_queue queue = { .index = 0 };
	const struct rte_flow_action actions[] = {
		{ .type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue },
		{ .type = RTE_FLOW_ACTION_TYPE_END },
	};
	struct rte_flow_error error;

	return rte_flow_validate(port, &attr, pattern, actions, &error);
}

int nl_port_stats(uint16_t port, struct nl_stats *stats)
{
	struct rte_eth_stats device;
	int error = rte_eth_stats_get(port, &device);

	if (error)
		return error;
	stats->rx_frames = device.ipackets;
	stats->tx_frames = device.opackets;
	stats->rx_missed = device.imissed;
	stats->rx_errors = device.ierrors;
	stats->rx_no_buffer = device.rx_nombuf;
	stats->tx_errors = device.oerrors;
	return 0;
}

int nl_tx_full(uint16_t port, uint16_t ahead)
{
	return rte_eth_tx_descriptor_status(port, 0, ahead) == RTE_ETH_TX_DESC_FULL;
}

uint16_t nl_rx_burst(uint16_t port, struct rte_mbuf **frames, uint16_t count)
{
	return rte_eth_rx_burst(port, 0, frames, count);
}

uint16_t nl_tx_burst(uint16_t port, struct rte_mbuf **frames, uint16_t count)
{
	return rte_eth_tx_burst(port, 0, frames, count);
}

int nl_alloc(struct rte_mempool *pool, struct rte_mbuf **frames, uint16_t count)
{
	return rte_pktmbuf_alloc_bulk(pool, frames, count);
}

void nl_free(struct rte_mbuf **frames, uint16_t count)
{
	rte_pktmbuf_free_bulk(frames, count);
}

void nl_data(struct rte_mbuf **frames, uint8_t **data, uint16_t *lens, uint16_t count)
{
	for (uint16_t i = 0; i < count; i++) {
		data[i] = rte_pktmbuf_mtod(frames[i], uint8_t *);
		lens[i] = rte_pktmbuf_data_len(frames[i]);
	}
}

void nl_set_lens(struct rte_mbuf **frames, const uint16_t *lens, uint16_t count)
{
	for (uint16_t i = 0; i < count; i++) {
		rte_pktmbuf_data_len(frames[i]) = lens[i];
		rte_pktmbuf_pkt_len(frames[i]) = lens[i];
	}
}

const char *nl_error(int error)
{
	return rte_strerror(-error);
}

int nl_last_error(void)
{
	return -rte_errno;
}
