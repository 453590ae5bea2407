/* Statistics of ports and queues. */
#include "driver.h"

#include <stdio.h>

/* What a counter has counted since the last reset. */
#define SINCE_RESET(queue, counter) ((queue)->counted.counter - (queue)->at_reset.counter)

/* Bytes of the counters of DPDK are without the frame check sequence, as those of the queues. */
int nl_stats_get(struct rte_eth_dev *dev, struct rte_eth_stats *stats)
{
	const struct nl_device *device = nl_device_of(dev);

	for (uint16_t i = 0; i < dev->data->nb_rx_queues; i++) {
		const struct nl_rx_queue *queue = &device->rx[i];
		const uint64_t packets = SINCE_RESET(queue, packets);
		const uint64_t bytes = SINCE_RESET(queue, bytes);
		const uint64_t missed = SINCE_RESET(queue, losses.queue_full);

		stats->ipackets += packets;
		stats->ibytes += bytes;
		stats->imissed += missed;
		stats->ierrors += SINCE_RESET(queue, losses.too_long);
		stats->rx_nombuf += SINCE_RESET(queue, losses.no_mbuf);
		if (i < RTE_ETHDEV_QUEUE_STAT_CNTRS) {
			stats->q_ipackets[i] = packets;
			stats->q_ibytes[i] = bytes;
			stats->q_errors[i] = missed;
		}
	}
	for (uint16_t i = 0; i < dev->data->nb_tx_queues; i++) {
		const struct nl_tx_queue *queue = &device->tx[i];
		const uint64_t packets = SINCE_RESET(queue, packets);
		const uint64_t bytes = SINCE_RESET(queue, bytes);

		stats->opackets += packets;
		stats->obytes += bytes;
		stats->oerrors += SINCE_RESET(queue, dropped);
		if (i < RTE_ETHDEV_QUEUE_STAT_CNTRS) {
			stats->q_opackets[i] = packets;
			stats->q_obytes[i] = bytes;
		}
	}
	return 0;
}

int nl_stats_reset(struct rte_eth_dev *dev)
{
	struct nl_device *device = nl_device_of(dev);

	/* Other threads count at this moment, so their counters stay as they are. */
	for (uint16_t i = 0; i < NL_QUEUES_MAX; i++) {
		device->rx[i].at_reset = device->rx[i].counted;
		device->tx[i].at_reset = device->tx[i].counted;
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
			const struct nl_rx_queue *queue = &device->rx[q];
			const char *now = (const char *)&queue->counted.losses;
			const char *before = (const char *)&queue->at_reset.losses;

			values[i].value += *(const uint64_t *)(now + xstats[i].offset) -
					   *(const uint64_t *)(before + xstats[i].offset);
		}
	values[RTE_DIM(xstats)].value = niclab_rule_count(device->nic);
	return XSTATS_COUNT;
}
