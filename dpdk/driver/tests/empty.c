/* A driver that does nothing, for comparison: the ceiling of DPDK's API and its tools. */
#include <rte_bus_vdev.h>
#include <rte_malloc.h>

#include <bus_vdev_driver.h>
#include <ethdev_driver.h>
#include <ethdev_vdev.h>
#include <rte_flow_driver.h>

static struct rte_flow *create(struct rte_eth_dev *dev, const struct rte_flow_attr *attr,
			       const struct rte_flow_item items[],
			       const struct rte_flow_action actions[], struct rte_flow_error *error)
{
	RTE_SET_USED(dev);
	RTE_SET_USED(attr);
	RTE_SET_USED(items);
	RTE_SET_USED(actions);
	RTE_SET_USED(error);
	return (struct rte_flow *)1;
}

static int destroy(struct rte_eth_dev *dev, struct rte_flow *flow, struct rte_flow_error *error)
{
	RTE_SET_USED(dev);
	RTE_SET_USED(flow);
	RTE_SET_USED(error);
	return 0;
}

static int flush(struct rte_eth_dev *dev, struct rte_flow_error *error)
{
	RTE_SET_USED(dev);
	RTE_SET_USED(error);
	return 0;
}

static const struct rte_flow_ops flow_ops = {.create = create, .destroy = destroy, .flush = flush};

static int flow_ops_get(struct rte_eth_dev *dev, const struct rte_flow_ops **ops)
{
	RTE_SET_USED(dev);
	*ops = &flow_ops;
	return 0;
}

static int nothing(struct rte_eth_dev *dev)
{
	RTE_SET_USED(dev);
	return 0;
}

static int infos_get(struct rte_eth_dev *dev, struct rte_eth_dev_info *info)
{
	RTE_SET_USED(dev);
	info->max_rx_queues = 1;
	info->max_tx_queues = 1;
	info->max_rx_pktlen = 1518;
	info->max_mac_addrs = 1;
	info->flow_type_rss_offloads = RTE_ETH_RSS_IP;
	return 0;
}

static int rx_queue_setup(struct rte_eth_dev *dev, uint16_t id, uint16_t descriptors,
			  unsigned int socket, const struct rte_eth_rxconf *conf,
			  struct rte_mempool *pool)
{
	RTE_SET_USED(descriptors);
	RTE_SET_USED(socket);
	RTE_SET_USED(conf);
	RTE_SET_USED(pool);
	dev->data->rx_queues[id] = dev;
	return 0;
}

static int tx_queue_setup(struct rte_eth_dev *dev, uint16_t id, uint16_t descriptors,
			  unsigned int socket, const struct rte_eth_txconf *conf)
{
	RTE_SET_USED(descriptors);
	RTE_SET_USED(socket);
	RTE_SET_USED(conf);
	dev->data->tx_queues[id] = dev;
	return 0;
}

static int link_update(struct rte_eth_dev *dev, int wait)
{
	RTE_SET_USED(dev);
	RTE_SET_USED(wait);
	return 0;
}

static int close_port(struct rte_eth_dev *dev)
{
	dev->data->mac_addrs = NULL;
	return 0;
}

static const struct eth_dev_ops ops = {
	.dev_configure = nothing,
	.dev_start = nothing,
	.dev_stop = nothing,
	.dev_close = close_port,
	.dev_infos_get = infos_get,
	.link_update = link_update,
	.promiscuous_enable = nothing,
	.promiscuous_disable = nothing,
	.rx_queue_setup = rx_queue_setup,
	.tx_queue_setup = tx_queue_setup,
	.flow_ops_get = flow_ops_get,
};

static uint16_t no_burst(void *queue, struct rte_mbuf **packets, uint16_t count)
{
	RTE_SET_USED(queue);
	RTE_SET_USED(packets);
	RTE_SET_USED(count);
	return 0;
}

static int probe(struct rte_vdev_device *vdev)
{
	struct rte_eth_dev *dev = rte_eth_vdev_allocate(vdev, sizeof(struct rte_ether_addr));

	if (dev == NULL)
		return -1;
	dev->data->mac_addrs = dev->data->dev_private;
	dev->data->dev_flags |= RTE_ETH_DEV_FLOW_OPS_THREAD_SAFE;
	dev->dev_ops = &ops;
	dev->rx_pkt_burst = no_burst;
	dev->tx_pkt_burst = no_burst;
	rte_eth_dev_probing_finish(dev);
	return 0;
}

static int unplug(struct rte_vdev_device *vdev)
{
	struct rte_eth_dev *dev = rte_eth_dev_allocated(rte_vdev_device_name(vdev));

	return dev == NULL ? 0 : rte_eth_dev_release_port(dev);
}

static struct rte_vdev_driver driver = {.probe = probe, .remove = unplug};

RTE_PMD_REGISTER_VDEV(net_empty, driver);
