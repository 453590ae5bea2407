/* The device: devargs, configuration, queues, link, addresses. */
#include "driver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_kvargs.h>
#include <rte_malloc.h>

#include <bus_vdev_driver.h>
#include <ethdev_vdev.h>

#define ARG_PORT "port"
#define ARG_QUEUES "queues"
#define ARG_PROFILE "profile"

RTE_LOG_REGISTER(niclab_logtype, pmd.net.niclab, NOTICE);

/* All links of memory ports. */
static rte_spinlock_t links_lock = RTE_SPINLOCK_INITIALIZER;
static struct nl_link *links;

/* Joins the link of this name: the first that has an end free, or a new one. */
static int join_link(struct nl_device *device, const char *name)
{
	struct nl_link *link;

	rte_spinlock_lock(&links_lock);
	for (link = links; link != NULL; link = link->next)
		if (strcmp(link->name, name) == 0 && (link->ends[0] == NULL || link->ends[1] == NULL))
			break;
	if (link == NULL) {
		link = calloc(1, sizeof(*link));
		if (link == NULL) {
			rte_spinlock_unlock(&links_lock);
			return -ENOMEM;
		}
		snprintf(link->name, sizeof(link->name), "%s", name);
		link->next = links;
		links = link;
	}
	device->end = link->ends[0] != NULL;
	link->ends[device->end] = device;
	device->link = link;
	rte_spinlock_unlock(&links_lock);
	return 0;
}

static void leave_link(struct nl_device *device)
{
	struct nl_link *link = device->link;

	rte_spinlock_lock(&links_lock);
	link->ends[device->end] = NULL;
	if (device->card.profile != NULL)
		link->byte_time = 0;
	/* That of the device at the other end, if it has one. */
	if (link->ends[!device->end] != NULL)
		nl_card_on_link(link->ends[!device->end]);
	if (link->ends[0] == NULL && link->ends[1] == NULL) {
		for (struct nl_link **at = &links; *at != NULL; at = &(*at)->next)
			if (*at == link) {
				*at = link->next;
				break;
			}
		for (int end = 0; end < 2; end++)
			for (int q = 0; q < NL_QUEUES_MAX; q++) {
				nl_drain(link->wires[end][q]);
				rte_free(link->wires[end][q]);
			}
		free(link);
	}
	rte_spinlock_unlock(&links_lock);
	device->link = NULL;
}

static struct rte_ring *make_ring(unsigned int flags)
{
	static unsigned int made;
	char name[RTE_RING_NAMESIZE];
	ssize_t size = rte_ring_get_memsize(NL_RING_LEN);
	struct rte_ring *ring = rte_zmalloc("niclab_ring", size, RTE_CACHE_LINE_SIZE);

	snprintf(name, sizeof(name), "niclab_%u", __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED));
	if (ring != NULL && rte_ring_init(ring, name, NL_RING_LEN, flags) != 0) {
		rte_free(ring);
		ring = NULL;
	}
	return ring;
}

/* Rate of the link, Mbps. */
static uint32_t link_speed(const struct nl_device *device)
{
	const double gbps = device->card.numbers.rate_gbps;

	return gbps > 0 ? (uint32_t)(gbps * 1000) : RTE_ETH_SPEED_NUM_100G;
}

/* Whether the port and the one at the other end are started. */
static int is_up(const struct nl_device *device)
{
	const struct nl_link *link = device->link;

	/* Wires of a memory port end at the other device. */
	return device->data->dev_started &&
	       (link == NULL || __atomic_load_n(&link->started[!device->end], __ATOMIC_ACQUIRE));
}

static int link_update(struct rte_eth_dev *dev, int wait)
{
	const struct nl_device *device = nl_device_of(dev);
	const struct rte_eth_link link = {
		.link_speed = link_speed(device),
		.link_duplex = RTE_ETH_LINK_FULL_DUPLEX,
		.link_autoneg = RTE_ETH_LINK_FIXED,
		.link_status = is_up(device) ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN,
	};

	RTE_SET_USED(wait);
	return rte_eth_linkstatus_set(dev, &link);
}

/* The link of a port changes when the port at the other end starts or stops. */
static void set_link_of_peer(const struct nl_device *device)
{
	struct rte_eth_dev *peer = NULL;
	int is_same = -1;

	if (device->link == NULL)
		return;
	/* The other end may close at this moment. */
	rte_spinlock_lock(&links_lock);
	const struct nl_device *other = device->link->ends[!device->end];
	if (other != NULL) {
		peer = &rte_eth_devices[other->data->port_id];
		is_same = link_update(peer, 0);
	}
	rte_spinlock_unlock(&links_lock);
	/* Without the lock: the program may start or stop ports there. */
	if (is_same == 0)
		rte_eth_dev_callback_process(peer, RTE_ETH_EVENT_INTR_LSC, NULL);
}

static int dev_start(struct rte_eth_dev *dev)
{
	struct nl_device *device = nl_device_of(dev);

	dev->data->dev_started = 1;
	if (device->link != NULL)
		__atomic_store_n(&device->link->started[device->end], 1, __ATOMIC_RELEASE);
	for (uint16_t i = 0; i < dev->data->nb_rx_queues; i++)
		dev->data->rx_queue_state[i] = RTE_ETH_QUEUE_STATE_STARTED;
	for (uint16_t i = 0; i < dev->data->nb_tx_queues; i++)
		dev->data->tx_queue_state[i] = RTE_ETH_QUEUE_STATE_STARTED;
	link_update(dev, 0);
	set_link_of_peer(device);
	return 0;
}

static int dev_stop(struct rte_eth_dev *dev)
{
	struct nl_device *device = nl_device_of(dev);

	dev->data->dev_started = 0;
	if (device->link != NULL) {
		__atomic_store_n(&device->link->started[device->end], 0, __ATOMIC_RELEASE);
		for (int q = 0; q < NL_QUEUES_MAX; q++)
			nl_drain(device->link->wires[!device->end][q]);
	}
	for (uint16_t i = 0; i < dev->data->nb_rx_queues; i++) {
		nl_drain(device->rx[i].ring);
		niclab_worker_offline(device->rx[i].worker);
		device->rx[i].idle = 1;
		dev->data->rx_queue_state[i] = RTE_ETH_QUEUE_STATE_STOPPED;
	}
	for (uint16_t i = 0; i < dev->data->nb_tx_queues; i++)
		dev->data->tx_queue_state[i] = RTE_ETH_QUEUE_STATE_STOPPED;
	link_update(dev, 0);
	set_link_of_peer(device);
	return 0;
}

/* Closes what must not outlive the rules of a NIC. */
static void close_users(struct nl_device *device)
{
	nl_flow_queues_close(device);
	for (int q = 0; q < NL_QUEUES_MAX; q++) {
		niclab_worker_close(device->rx[q].worker);
		device->rx[q].worker = NULL;
	}
	device->nic_queues = 0;
}

static void close_nic(struct nl_device *device)
{
	close_users(device);
	niclab_close(device->nic);
	device->nic = NULL;
}

/* Opens the NIC for so many queues. Another number of queues makes another NIC: its rules are gone,
 * their handles name nothing, and it is isolated if the former was. */
static int open_nic(struct nl_device *device, uint16_t queues)
{
	const struct niclab_config config = {
		.queues = queues,
		.ports = 1,
		.profile = device->card.profile,
	};
	struct niclab_error why;

	if (device->nic != NULL && device->nic_queues == queues)
		return 0;
	close_users(device);
	int result = device->nic != NULL ? niclab_reopen(device->nic, &config, &why)
					 : niclab_open(&config, &device->nic, &why);
	if (result == 0)
		result = nl_meters_reopen(device, &why);
	if (result == 0) {
		device->nic_queues = queues;
		/* The time of a frame without rules. */
		nl_operation_end(device, nl_operation_begin(device));
	}
	for (uint16_t q = 0; result == 0 && q < queues; q++)
		result = niclab_worker_open(device->nic, &device->rx[q].worker, &why);
	if (result != 0) {
		NL_LOG_OF(device, ERR, "%u queues: %s\n", queues, why.message);
		close_nic(device);
	}
	return result;
}

static int dev_configure(struct rte_eth_dev *dev)
{
	struct nl_device *device = nl_device_of(dev);
	struct rte_eth_conf *conf = &dev->data->dev_conf;
	int result = open_nic(device, RTE_MAX(dev->data->nb_rx_queues, 1));

	if (result != 0)
		return result;
	device->wires = device->queues_max;
	/* Without RSS, queue 0 gets what no rule takes. */
	if (conf->rxmode.mq_mode & RTE_ETH_MQ_RX_RSS_FLAG)
		return nl_rss_apply(device, &conf->rx_adv_conf.rss_conf);
	struct rte_eth_rss_conf none = {.rss_hf = 0};
	return nl_rss_apply(device, &none);
}

static int dev_infos_get(struct rte_eth_dev *dev, struct rte_eth_dev_info *info)
{
	const struct nl_device *device = nl_device_of(dev);

	info->if_index = 0;
	info->max_mac_addrs = NL_MAC_ADDRS_MAX;
	info->min_mtu = RTE_ETHER_MIN_MTU;
	info->max_mtu = device->link != NULL ? 9000 : RTE_ETHER_MTU;
	info->max_rx_pktlen = info->max_mtu + RTE_ETHER_HDR_LEN + 2 * RTE_VLAN_HLEN;
	info->min_rx_bufsize = 0;
	info->max_rx_queues = device->queues_max;
	info->max_tx_queues = device->queues_max;
	info->rx_offload_capa = RTE_ETH_RX_OFFLOAD_VLAN_STRIP | RTE_ETH_RX_OFFLOAD_VLAN_FILTER |
				RTE_ETH_RX_OFFLOAD_CHECKSUM | RTE_ETH_RX_OFFLOAD_RSS_HASH;
	info->tx_offload_capa = RTE_ETH_TX_OFFLOAD_VLAN_INSERT | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM |
				RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM |
				RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	info->flow_type_rss_offloads = NL_RSS_TYPES;
#ifdef NL_HAS_RSS_ALGORITHM
	info->rss_algo_capa |= RTE_ETH_HASH_ALGO_CAPA_MASK(TOEPLITZ) |
			       RTE_ETH_HASH_ALGO_CAPA_MASK(SYMMETRIC_TOEPLITZ);
#endif
	info->reta_size = NL_RETA_LEN;
	info->hash_key_size = 40;
	info->speed_capa = RTE_ETH_LINK_SPEED_100G;
	info->dev_capa = RTE_ETH_DEV_CAPA_FLOW_RULE_KEEP;
	info->default_rxportconf.burst_size = 32;
	info->default_txportconf.burst_size = 32;
	info->default_rxportconf.ring_size = NL_RING_LEN;
	info->default_txportconf.ring_size = NL_RING_LEN;
	info->rx_desc_lim.nb_max = NL_RING_LEN;
	info->tx_desc_lim.nb_max = NL_RING_LEN;
	return 0;
}

static int rx_queue_setup(struct rte_eth_dev *dev, uint16_t id, uint16_t descriptors,
			  unsigned int socket, const struct rte_eth_rxconf *conf,
			  struct rte_mempool *pool)
{
	struct nl_device *device = nl_device_of(dev);
	struct nl_rx_queue *queue = &device->rx[id];

	RTE_SET_USED(descriptors);
	RTE_SET_USED(socket);
	RTE_SET_USED(conf);
	/* Frames of a port of the system are copied; those of memory come as they are. */
	const uint32_t room = rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM;
	const uint32_t longest = dev->data->mtu + RTE_ETHER_HDR_LEN + 2 * RTE_VLAN_HLEN;
	if (device->link == NULL && room < longest) {
		NL_LOG_OF(device, ERR, "queue %u: buffers of %u bytes cannot hold frames of %u; make the pool "
			    "with larger buffers\n", id, room, longest);
		return -EINVAL;
	}
	if (queue->ring == NULL)
		queue->ring = make_ring(RING_F_SC_DEQ);
	if (queue->ring == NULL)
		return -ENOMEM;
	queue->device = device;
	queue->id = id;
	queue->port_id = dev->data->port_id;
	queue->pool = pool;
	queue->idle = 1;
	queue->tsc_per_ms = rte_get_tsc_hz() / 1000;
	dev->data->rx_queues[id] = queue;
	return 0;
}

static void rx_queue_release(struct rte_eth_dev *dev, uint16_t id)
{
	struct nl_rx_queue *queue = &nl_device_of(dev)->rx[id];

	rte_pktmbuf_free_bulk(queue->spare, queue->spare_count);
	queue->spare_count = 0;
	nl_drain(queue->ring);
	rte_free(queue->ring);
	queue->ring = NULL;
	dev->data->rx_queues[id] = NULL;
}

static int tx_queue_setup(struct rte_eth_dev *dev, uint16_t id, uint16_t descriptors,
			  unsigned int socket, const struct rte_eth_txconf *conf)
{
	struct nl_device *device = nl_device_of(dev);
	struct nl_tx_queue *queue = &device->tx[id];

	RTE_SET_USED(descriptors);
	RTE_SET_USED(socket);
	RTE_SET_USED(conf);
	if (device->link != NULL && device->link->wires[device->end][id] == NULL) {
		struct rte_ring *wire = make_ring(RING_F_SP_ENQ | RING_F_SC_DEQ);

		if (wire == NULL)
			return -ENOMEM;
		__atomic_store_n(&device->link->wires[device->end][id], wire, __ATOMIC_RELEASE);
		if (device->link->wires_count[device->end] <= id)
			__atomic_store_n(&device->link->wires_count[device->end], id + 1,
					 __ATOMIC_RELEASE);
	}
	queue->device = device;
	queue->id = id;
	dev->data->tx_queues[id] = queue;
	return 0;
}

static void tx_queue_release(struct rte_eth_dev *dev, uint16_t id)
{
	/* The wire stays: the other end may be polling it. */
	dev->data->tx_queues[id] = NULL;
}

static int nothing(struct rte_eth_dev *dev)
{
	RTE_SET_USED(dev);
	return 0;
}

static int mac_addr_set(struct rte_eth_dev *dev, struct rte_ether_addr *address)
{
	rte_ether_addr_copy(address, &nl_device_of(dev)->mac_addrs[0]);
	return 0;
}

static int mac_addr_add(struct rte_eth_dev *dev, struct rte_ether_addr *address, uint32_t index,
			uint32_t pool)
{
	RTE_SET_USED(pool);
	rte_ether_addr_copy(address, &nl_device_of(dev)->mac_addrs[index]);
	return 0;
}

static void mac_addr_remove(struct rte_eth_dev *dev, uint32_t index)
{
	memset(&nl_device_of(dev)->mac_addrs[index], 0, sizeof(struct rte_ether_addr));
}

static int set_mc_addr_list(struct rte_eth_dev *dev, struct rte_ether_addr *addresses,
			    uint32_t count)
{
	struct nl_device *device = nl_device_of(dev);

	if (count > NL_MC_ADDRS_MAX)
		return -ENOSPC;
	for (uint32_t i = 0; i < count; i++)
		rte_ether_addr_copy(&addresses[i], &device->mc_addrs[i]);
	device->mc_addrs_count = count;
	return 0;
}

static int mtu_set(struct rte_eth_dev *dev, uint16_t mtu)
{
	/* rte_ethdev has checked the limits, and receive queues read dev->data->mtu. */
	RTE_SET_USED(dev);
	RTE_SET_USED(mtu);
	return 0;
}

static int vlan_filter_set(struct rte_eth_dev *dev, uint16_t id, int on)
{
	uint64_t *word = &nl_device_of(dev)->vlans[id / 64];

	*word = on ? *word | UINT64_C(1) << (id % 64) : *word & ~(UINT64_C(1) << (id % 64));
	return 0;
}

static int vlan_offload_set(struct rte_eth_dev *dev, int mask)
{
	/* Receive queues read the offloads. */
	RTE_SET_USED(dev);
	return mask & RTE_ETH_QINQ_STRIP_MASK &&
			       dev->data->dev_conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_QINQ_STRIP
		       ? -ENOTSUP
		       : 0;
}

static int rx_metadata_negotiate(struct rte_eth_dev *dev, uint64_t *features)
{
	RTE_SET_USED(dev);
	*features &= RTE_ETH_RX_METADATA_USER_FLAG | RTE_ETH_RX_METADATA_USER_MARK;
	return 0;
}

static int flow_ops_get(struct rte_eth_dev *dev, const struct rte_flow_ops **ops)
{
	RTE_SET_USED(dev);
	*ops = &nl_flow_ops;
	return 0;
}

static void rxq_info_get(struct rte_eth_dev *dev, uint16_t id, struct rte_eth_rxq_info *info)
{
	info->mp = nl_device_of(dev)->rx[id].pool;
	info->nb_desc = NL_RING_LEN;
}

static void txq_info_get(struct rte_eth_dev *dev, uint16_t id, struct rte_eth_txq_info *info)
{
	RTE_SET_USED(dev);
	RTE_SET_USED(id);
	info->nb_desc = NL_RING_LEN;
}

/* Gives back what a device has outside of ethdev. */
static void close_device(struct nl_device *device)
{
	struct niclab_error why;

	close_nic(device);
	nl_meters_close(device);
	if (device->port != NULL && niclab_port_close(device->port, &why) != 0)
		NL_LOG_OF(device, ERR, "%s: %s\n", device->port_name, why.message);
	device->port = NULL;
	if (device->link != NULL)
		leave_link(device);
	nl_card_close(device);
}

static int dev_close(struct rte_eth_dev *dev)
{
	struct nl_device *device = nl_device_of(dev);

	if (rte_eal_process_type() != RTE_PROC_PRIMARY)
		return 0;
	dev_stop(dev);
	for (uint16_t i = 0; i < dev->data->nb_rx_queues; i++)
		if (dev->data->rx_queues[i] != NULL)
			rx_queue_release(dev, i);
	for (uint16_t i = 0; i < dev->data->nb_tx_queues; i++)
		dev->data->tx_queues[i] = NULL;
	close_device(device);
	/* The addresses are part of the device, which ethdev frees. */
	dev->data->mac_addrs = NULL;
	return 0;
}

static const struct eth_dev_ops ops = {
	.dev_configure = dev_configure,
	.dev_start = dev_start,
	.dev_stop = dev_stop,
	.dev_close = dev_close,
	.dev_infos_get = dev_infos_get,
	.link_update = link_update,
	.promiscuous_enable = nothing,
	.promiscuous_disable = nothing,
	.allmulticast_enable = nothing,
	.allmulticast_disable = nothing,
	.mac_addr_set = mac_addr_set,
	.mac_addr_add = mac_addr_add,
	.mac_addr_remove = mac_addr_remove,
	.set_mc_addr_list = set_mc_addr_list,
	.mtu_set = mtu_set,
	.vlan_filter_set = vlan_filter_set,
	.vlan_offload_set = vlan_offload_set,
	.rx_queue_setup = rx_queue_setup,
	.rx_queue_release = rx_queue_release,
	.tx_queue_setup = tx_queue_setup,
	.tx_queue_release = tx_queue_release,
	.rxq_info_get = rxq_info_get,
	.txq_info_get = txq_info_get,
	.stats_get = nl_stats_get,
	.stats_reset = nl_stats_reset,
	.xstats_get = nl_xstats_get,
	.xstats_get_names = nl_xstats_get_names,
	.xstats_reset = nl_stats_reset,
	.rss_hash_update = nl_rss_hash_update,
	.rss_hash_conf_get = nl_rss_hash_conf_get,
	.reta_update = nl_reta_update,
	.reta_query = nl_reta_query,
	.rx_metadata_negotiate = rx_metadata_negotiate,
	.flow_ops_get = flow_ops_get,
	.mtr_ops_get = nl_mtr_ops_get,
};

/* A comma or an equals sign ends a devarg, so a semicolon and a colon stand for them:
 * pcap:in:a.pcap;out:b.pcap is pcap:in=a.pcap,out=b.pcap. */
static void restore_options(char *at)
{
	int is_name = 1;

	for (; *at != '\0'; at++) {
		if (*at == ';') {
			*at = ',';
			is_name = 1;
		} else if (*at == ':' && is_name) {
			*at = '=';
			is_name = 0;
		}
	}
}

static int read_port(const char *key, const char *value, void *to)
{
	struct nl_device *device = to;

	RTE_SET_USED(key);
	if (value == NULL) {
		NL_LOG_OF(device, ERR, "port has no value; give port=memory, for example\n");
		return -EINVAL;
	}
	if (device->port_name[0] != '\0') {
		NL_LOG_OF(device, ERR, "port is given twice; give it once\n");
		return -EINVAL;
	}
	if (strlen(value) >= sizeof(device->port_name)) {
		NL_LOG_OF(device, ERR, "port=%s: longer than %zu bytes\n", value, sizeof(device->port_name) - 1);
		return -EINVAL;
	}
	snprintf(device->port_name, sizeof(device->port_name), "%s", value);
	if (strncmp(value, "pcap:", 5) == 0)
		restore_options(device->port_name + 5);
	return 0;
}

static int read_profile(const char *key, const char *value, void *to)
{
	struct nl_device *device = to;

	RTE_SET_USED(key);
	if (value == NULL || *value == '\0') {
		NL_LOG_OF(device, ERR, "profile has no value; give profile=connectx-5, for example\n");
		return -EINVAL;
	}
	if (device->card.profile != NULL) {
		NL_LOG_OF(device, ERR, "profile is given twice; give it once\n");
		return -EINVAL;
	}
	return nl_card_open(device, value);
}

static int read_queues(const char *key, const char *value, void *to)
{
	struct nl_device *device = to;
	char *end;
	unsigned long queues;

	RTE_SET_USED(key);
	if (value == NULL) {
		NL_LOG_OF(device, ERR, "queues has no value; give a number from 1 to %d\n", NL_QUEUES_MAX);
		return -EINVAL;
	}
	queues = strtoul(value, &end, 10);
	if (*value == '\0' || *end != '\0' || queues < 1 || queues > NL_QUEUES_MAX) {
		NL_LOG_OF(device, ERR, "queues=%s: give a number from 1 to %d\n", value, NL_QUEUES_MAX);
		return -EINVAL;
	}
	device->queues_max = queues;
	return 0;
}

/* Reads the devargs and opens what they name. */
static int open_device(struct nl_device *device, const char *text)
{
	static const char *const keys[] = {ARG_PORT, ARG_QUEUES, ARG_PROFILE, NULL};
	struct rte_kvargs *args = rte_kvargs_parse(text, keys);
	struct niclab_error why;

	if (args == NULL) {
		NL_LOG_OF(device, ERR, "devargs `%s`: unknown or without a value; there are port=, queues= and "
			    "profile=\n", text);
		return -EINVAL;
	}
	int result = rte_kvargs_process(args, ARG_PORT, read_port, device);
	if (result == 0)
		result = rte_kvargs_process(args, ARG_QUEUES, read_queues, device);
	if (result == 0)
		result = rte_kvargs_process(args, ARG_PROFILE, read_profile, device);
	rte_kvargs_free(args);
	if (result != 0)
		return -EINVAL;
	const uint32_t of_card = device->card.numbers.queues_max;
	if (of_card != 0 && device->queues_max > of_card) {
		NL_LOG_OF(device, ERR, "queues=%u: the profile's card has %u; give at most that\n",
		       device->queues_max, of_card);
		return -EINVAL;
	}
	const char *name = device->port_name[0] != '\0' ? device->port_name : "memory";
	const char *memory = strncmp(name, "memory", 6) == 0 ? name + 6 : NULL;
	if (memory != NULL && (*memory == '\0' || *memory == ':')) {
		if (strlen(memory) >= sizeof(((struct nl_link *)0)->name)) {
			NL_LOG_OF(device, ERR, "port=%s: a link's name has at most 30 bytes\n", name);
			return -EINVAL;
		}
		if (device->queues_max == 0)
			device->queues_max = of_card != 0 ? RTE_MIN(of_card, (uint32_t)NL_QUEUES_MAX)
							  : NL_QUEUES_MAX;
		result = join_link(device, memory);
		if (result == 0)
			nl_card_on_link(device);
		return result;
	}
	if (device->queues_max == 0)
		device->queues_max = 1;
	result = niclab_port_open(name, device->queues_max, &device->port, &why);
	if (result != 0)
		NL_LOG_OF(device, ERR, "port=%s: %s\n", name, why.message);
	return result;
}

static int probe(struct rte_vdev_device *vdev)
{
	const char *text = rte_vdev_device_args(vdev);

	if (rte_eal_process_type() != RTE_PROC_PRIMARY) {
		NL_LOG(ERR, "only the primary process has net_niclab devices\n");
		return -ENOTSUP;
	}
	/* The interface of drivers changes from release to release. */
	if (rte_version_year() != RTE_VER_YEAR || rte_version_month() != RTE_VER_MONTH) {
		NL_LOG(ERR, "built for DPDK %d.%02d, and this is %s; build the driver again\n",
		       RTE_VER_YEAR, RTE_VER_MONTH, rte_version());
		return -ENOTSUP;
	}
	struct rte_eth_dev *dev = rte_eth_vdev_allocate(vdev, sizeof(struct nl_device));
	if (dev == NULL)
		return -ENOMEM;
	struct nl_device *device = nl_device_of(dev);
	device->data = dev->data;
	int result = open_device(device, text != NULL ? text : "");
	if (result == 0)
		result = open_nic(device, 1);
	if (result != 0) {
		close_device(device);
		rte_eth_dev_release_port(dev);
		return result;
	}
	rte_eth_random_addr(device->mac_addrs[0].addr_bytes);
	dev->data->mac_addrs = device->mac_addrs;
	dev->data->promiscuous = 0;
	dev->data->dev_flags |= RTE_ETH_DEV_FLOW_OPS_THREAD_SAFE | RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS;
	dev->dev_ops = &ops;
#ifdef NL_HAS_QUEUE_CALLS
	nl_queue_calls_set(dev);
#endif
	dev->rx_pkt_burst = nl_rx_burst;
	dev->tx_pkt_burst = device->link != NULL ? nl_tx_burst_memory : nl_tx_burst_port;
	rte_eth_dev_probing_finish(dev);
	return 0;
}

static int unplug(struct rte_vdev_device *vdev)
{
	struct rte_eth_dev *dev = rte_eth_dev_allocated(rte_vdev_device_name(vdev));

	if (dev == NULL)
		return 0;
	int result = dev_close(dev);
	rte_eth_dev_release_port(dev);
	return result;
}

static struct rte_vdev_driver driver = {.probe = probe, .remove = unplug};

RTE_PMD_REGISTER_VDEV(net_niclab, driver);
RTE_PMD_REGISTER_PARAM_STRING(net_niclab, ARG_PORT "=<string> " ARG_QUEUES "=<int> " ARG_PROFILE "=<string>");
