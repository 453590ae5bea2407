// SPDX-License-Identifier: MIT OR Apache-2.0
#include <assert.h>
#include <dlfcn.h>
#include <string.h>

#include <rte_dev.h>
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

static_assert(sizeof(struct nl_port_info) == 108, "mirrored in shim/mod.rs");
static_assert(sizeof(struct nl_stats) == 48, "mirrored in shim/mod.rs");
static_assert(sizeof(struct nl_port_shape) == 20, "mirrored in shim/mod.rs");
static_assert(sizeof(struct nl_rss) == 1176, "mirrored in shim/mod.rs");
static_assert(sizeof(struct nl_xstat) == 72, "mirrored in shim/mod.rs");
static_assert(sizeof(((struct rte_eth_xstat_name *)0)->name) == 64, "nl_xstat");

const char *nl_load(const char *path)
{
	return dlopen(path, RTLD_NOW | RTLD_GLOBAL) ? NULL : dlerror();
}

int nl_init(int argc, char **argv)
{
	int taken = rte_eal_init(argc, argv);

	return taken < 0 ? -rte_errno : taken;
}

const char *nl_version(void)
{
	return rte_version();
}

int nl_attach(const char *device)
{
	return rte_dev_probe(device);
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
	/* A port that does not report its link has no known speed. */
	if (rte_eth_link_get_nowait(port, &link) < 0)
		link.link_speed = 0;
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

static int configure(uint16_t port, const struct nl_port_shape *shape)
{
	struct rte_eth_conf conf = { .rxmode.mtu = shape->mtu };
	struct rte_eth_dev_info info;
	int error = rte_eth_dev_info_get(port, &info);

	if (error)
		return error;
	if (shape->rx_queues > 1) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf =
			(RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP) &
			info.flow_type_rss_offloads;
	}
	return rte_eth_dev_configure(port, shape->rx_queues, shape->tx_queues, &conf);
}

int nl_port_configure(uint16_t port, struct rte_mempool *pool, const struct nl_port_shape *shape,
		      struct nl_flow_error *flow_error)
{
	uint16_t rx_slots = shape->slots, tx_slots = shape->slots;
	int error = configure(port, shape);

	if (!error)
		error = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx_slots, &tx_slots);
	for (uint16_t queue = 0; !error && queue < shape->rx_queues; queue++)
		error = rte_eth_rx_queue_setup(port, queue, rx_slots, SOCKET_ID_ANY, NULL, pool);
	for (uint16_t queue = 0; !error && queue < shape->tx_queues; queue++)
		error = rte_eth_tx_queue_setup(port, queue, tx_slots, SOCKET_ID_ANY, NULL);
	if (!error && shape->flow_queues)
		error = nl_flow_configure(port, shape->flow_queues, shape->flow_queue_size,
					  shape->rules_max, flow_error);
	return error;
}

/* niclab's bits of DPDK's hash types. */
static uint64_t hash_types(uint64_t types)
{
	return (types >> 2 & 0x3f) | (types & 0x3f00) |
	       (types & RTE_ETH_RSS_L3_SRC_ONLY ? 1 << 16 : 0) |
	       (types & RTE_ETH_RSS_L3_DST_ONLY ? 1 << 17 : 0) |
	       (types & RTE_ETH_RSS_L4_SRC_ONLY ? 1 << 18 : 0) |
	       (types & RTE_ETH_RSS_L4_DST_ONLY ? 1 << 19 : 0);
}

int nl_port_rss(uint16_t port, struct nl_rss *rss)
{
	struct rte_eth_rss_reta_entry64 table[RTE_DIM(rss->table) / RTE_ETH_RETA_GROUP_SIZE];
	struct rte_eth_rss_conf conf = { .rss_key = rss->key, .rss_key_len = sizeof(rss->key) };
	struct rte_eth_dev_info info;
	int error = rte_eth_dev_info_get(port, &info);

	if (error)
		return error;
	memset(rss, 0, sizeof(*rss));
	error = rte_eth_dev_rss_hash_conf_get(port, &conf);
	if (error)
		return error;
	rss->types = hash_types(conf.rss_hf);
	rss->port_types = conf.rss_hf;
	rss->key_len = conf.rss_key_len ? conf.rss_key_len : info.hash_key_size;
	if (rss->key_len > sizeof(rss->key))
		return -ENOTSUP;
	if (info.reta_size == 0 || info.reta_size > RTE_DIM(rss->table))
		return 0;
	memset(table, 0xff, sizeof(table));
	error = rte_eth_dev_rss_reta_query(port, table, info.reta_size);
	if (error)
		return error;
	for (uint16_t i = 0; i < info.reta_size; i++)
		rss->table[i] = table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
	rss->entries = info.reta_size;
	return 0;
}

/* DPDK's hash types of niclab's bits. */
static uint64_t port_hash_types(uint64_t types)
{
	return (types & 0x3f) << 2 | (types & 0x3f00) |
	       (types >> 16 & 1 ? RTE_ETH_RSS_L3_SRC_ONLY : 0) |
	       (types >> 17 & 1 ? RTE_ETH_RSS_L3_DST_ONLY : 0) |
	       (types >> 18 & 1 ? RTE_ETH_RSS_L4_SRC_ONLY : 0) |
	       (types >> 19 & 1 ? RTE_ETH_RSS_L4_DST_ONLY : 0);
}

int nl_port_set_rss(uint16_t port, const struct nl_rss *rss)
{
	struct rte_eth_rss_reta_entry64 table[RTE_DIM(rss->table) / RTE_ETH_RETA_GROUP_SIZE];
	uint8_t key[sizeof(rss->key)];
	struct rte_eth_rss_conf conf = { .rss_key = key,
					 .rss_key_len = (uint8_t)rss->key_len,
					 .rss_hf = rss->port_types };
	int error;

	if (!conf.rss_hf)
		conf.rss_hf = port_hash_types(rss->types);
	memcpy(key, rss->key, sizeof(key));
	error = rte_eth_dev_rss_hash_update(port, &conf);
	if (error || rss->entries == 0)
		return error;
	memset(table, 0, sizeof(table));
	for (uint16_t i = 0; i < rss->entries; i++) {
		struct rte_eth_rss_reta_entry64 *group = &table[i / RTE_ETH_RETA_GROUP_SIZE];

		group->mask |= 1ull << (i % RTE_ETH_RETA_GROUP_SIZE);
		group->reta[i % RTE_ETH_RETA_GROUP_SIZE] = rss->table[i];
	}
	return rte_eth_dev_rss_reta_update(port, table, rss->entries);
}

int nl_port_firmware(uint16_t port, char *text, uint32_t len)
{
	int error = rte_eth_dev_fw_version_get(port, text, len);

	return error > 0 ? -ENOSPC : error;
}

int nl_port_xstats(uint16_t port, struct nl_xstat *stats, uint32_t max)
{
	struct rte_eth_xstat values[1024];
	struct rte_eth_xstat_name names[1024];
	int count;

	if (max > RTE_DIM(values))
		max = RTE_DIM(values);
	count = rte_eth_xstats_get_names(port, names, max);
	if (count < 0 || (uint32_t)count > max)
		return count < 0 ? count : -ENOSPC;
	count = rte_eth_xstats_get(port, values, max);
	if (count < 0 || (uint32_t)count > max)
		return count < 0 ? count : -ENOSPC;
	for (int i = 0; i < count; i++) {
		memcpy(stats[i].name, names[values[i].id].name, sizeof(stats[i].name));
		stats[i].value = values[i].value;
	}
	return count;
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

int nl_tx_full(uint16_t port, uint16_t queue, uint16_t ahead)
{
	return rte_eth_tx_descriptor_status(port, queue, ahead) == RTE_ETH_TX_DESC_FULL;
}

uint16_t nl_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t count)
{
	return rte_eth_rx_burst(port, queue, frames, count);
}

uint16_t nl_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, frames, count);
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

int nl_mark(const struct rte_mbuf *frame, uint32_t *mark)
{
	if (frame->ol_flags & RTE_MBUF_F_RX_FDIR_ID) {
		*mark = frame->hash.fdir.hi;
		return 2;
	}
	return frame->ol_flags & RTE_MBUF_F_RX_FDIR ? 1 : 0;
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
