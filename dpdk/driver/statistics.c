/* Statistics of ports and queues. */
#include "driver.h"

#include <stdio.h>

/* Bytes of the counters of DPDK are without the frame check sequence, as those of the queues. */
int nl_stats_get(struct rte_eth_dev *dev, struct rte_eth_stats *stats)
{
	const struct nl_device *device = nl_device_of(dev);

	for (uint16_t i = 0; i < dev->data->nb_rx_queues; i++) {
		const struct nl_rx_queue *queue = &device->rx[i];

		stats->ipackets += queue->packets;
		stats->ibytes += queue->bytes;
		stats->imissed += queue->losses.queue_full;
		stats->ierrors += queue->losses.too_long;
		stats->rx_nombuf += queue->losses.no_mbuf;
		if (i < RTE_ETHDEV_QUEUE_STAT_CNTRS) {
			stats->q_ipackets[i] = queue->packets;
			stats->q_ibytes[i] = queue->bytes;
			stats->q_errors[i] = queue->losses.queue_full;
		}
	}
	for (uint16_t i = 0; i < dev->data->nb_tx_queues; i++) {
		const struct nl_tx_queue *queue = &device->tx[i];

		stats->opackets += queue->packets;
		stats->obytes += queue->bytes;
		stats->oerrors += queue->dropped;
		if (i < RTE_ETHDEV_QUEUE_STAT_CNTRS) {
			stats->q_opackets[i] = queue->packets;
			stats->q_obytes[i] = queue->bytes;
		}
	}
	return 0;
}

int nl_stats_reset(struct rte_eth_dev *dev)
{
	struct nl_device *device = nl_device_of(dev);

	for (uint16_t i = 0; i < NL_QUEUES_MAX; i++) {
		device->rx[i].packets = device->rx[i].bytes = 0;
		device->rx[i].losses = (struct nl_rx_losses){0};
		device->tx[i].packets = device->tx[i].bytes = device->tx[i].dropped = 0;
	}
	return 0;
}

/* Extended statistics: sums of all receive queues, and the number of rules. */
static const struct {
	const char *name;
	size_t offset;
} xstats[] = {
	{"rx_dropped_by_rule", offsetof(struct nl_rx_losses, by_rule)},
	{"rx_dropped_by_mac_filter", offsetof(struct nl_rx_losses, by_mac)},
	{"rx_dropped_by_vlan_filter", offsetof(struct nl_rx_losses, by_vlan)},
	{"rx_dropped_too_long", offsetof(struct nl_rx_losses, too_long)},
	{"rx_dropped_queue_full", offsetof(struct nl_rx_losses, queue_full)},
	{"rx_no_mbuf", offsetof(struct nl_rx_losses, no_mbuf)},
};
#define XSTATS_COUNT (RTE_DIM(xstats) + 1)

int nl_xstats_get_names(struct rte_eth_dev *dev, struct rte_eth_xstat_name *names,
			unsigned int count)
{
	RTE_SET_USED(dev);
	if (names == NULL || count < XSTATS_COUNT)
		return XSTATS_COUNT;
	for (size_t i = 0; i < RTE_DIM(xstats); i++)
		snprintf(names[i].name, sizeof(names[i].name), "%s", xstats[i].name);
	snprintf(names[RTE_DIM(xstats)].name, sizeof(names[0].name), "flow_rules");
	return XSTATS_COUNT;
}

int nl_xstats_get(struct rte_eth_dev *dev, struct rte_eth_xstat *values, unsigned int count)
{
	const struct nl_device *device = nl_device_of(dev);

	if (values == NULL || count < XSTATS_COUNT)
		return XSTATS_COUNT;
	for (size_t i = 0; i < XSTATS_COUNT; i++) {
		values[i].id = i;
		values[i].value = 0;
	}
	for (size_t i = 0; i < RTE_DIM(xstats); i++)
		for (uint16_t q = 0; q < dev->data->nb_rx_queues; q++) {
			const char *losses = (const char *)&device->rx[q].losses;

			values[i].value += *(const uint64_t *)(losses + xstats[i].offset);
		}
	values[RTE_DIM(xstats)].value = niclab_rule_count(device->nic);
	return XSTATS_COUNT;
}
