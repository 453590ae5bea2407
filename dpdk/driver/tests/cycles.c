/* Opens and closes net_niclab ports again and again, with packets and rules under way:
 *
 *     cycles EAL-OPTIONS -- CYCLES
 *
 * Built with AddressSanitizer, it ends with an error if memory was lost. */
#include <stdio.h>
#include <stdlib.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_mbuf.h>

#define QUEUES 2
#define RULES 20

static void fail(int cycle, const char *what)
{
	printf("not ok cycle %d: %s\n", cycle, what);
	exit(1);
}

static uint16_t open_port(int cycle, const char *name, struct rte_mempool *pool)
{
	const struct rte_eth_conf conf = {
		.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS,
		.rx_adv_conf.rss_conf.rss_hf = RTE_ETH_RSS_IP,
	};
	uint16_t port;

	if (rte_eal_hotplug_add("vdev", name, "port=memory") != 0 ||
	    rte_eth_dev_get_port_by_name(name, &port) != 0)
		fail(cycle, "no port");
	if (rte_eth_dev_configure(port, QUEUES, QUEUES, &conf) != 0)
		fail(cycle, "configure");
	for (uint16_t q = 0; q < QUEUES; q++)
		if (rte_eth_rx_queue_setup(port, q, 256, SOCKET_ID_ANY, NULL, pool) != 0 ||
		    rte_eth_tx_queue_setup(port, q, 256, SOCKET_ID_ANY, NULL) != 0)
			fail(cycle, "queue setup");
	if (rte_eth_dev_start(port) != 0)
		fail(cycle, "start");
	return port;
}

static void make_rules(int cycle, uint16_t port)
{
	const struct rte_flow_attr attr = {.ingress = 1};
	const struct rte_flow_action count = {.type = RTE_FLOW_ACTION_TYPE_COUNT};
	struct rte_flow_error error;
	struct rte_flow_action_handle *shared =
		rte_flow_action_handle_create(port, &(struct rte_flow_indir_action_conf){.ingress = 1},
					      &count, &error);

	if (shared == NULL)
		fail(cycle, "indirect action");
	for (uint32_t i = 0; i < RULES; i++) {
		const struct rte_flow_item_ipv4 spec = {.hdr.src_addr = rte_cpu_to_be_32(i)};
		const struct rte_flow_item_ipv4 mask = {.hdr.src_addr = RTE_BE32(UINT32_MAX)};
		const struct rte_flow_action_age age = {.timeout = 10};
		const struct rte_flow_action_mark mark = {.id = i};
		const struct rte_flow_action_queue queue = {.index = i % QUEUES};
		const struct rte_flow_item items[] = {
			{.type = RTE_FLOW_ITEM_TYPE_ETH},
			{.type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &spec, .mask = &mask},
			{.type = RTE_FLOW_ITEM_TYPE_END},
		};
		const struct rte_flow_action actions[] = {
			{.type = RTE_FLOW_ACTION_TYPE_AGE, .conf = &age},
			{.type = RTE_FLOW_ACTION_TYPE_MARK, .conf = &mark},
			{.type = RTE_FLOW_ACTION_TYPE_INDIRECT, .conf = shared},
			{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue},
			{.type = RTE_FLOW_ACTION_TYPE_END},
		};

		if (rte_flow_create(port, &attr, items, actions, &error) == NULL)
			fail(cycle, error.message);
	}
}

/* Sends packets; those that are not received stay under way. */
static void send_packets(int cycle, uint16_t from, uint16_t to, struct rte_mempool *pool)
{
	struct rte_mbuf *packets[32];

	if (rte_pktmbuf_alloc_bulk(pool, packets, 32) != 0)
		fail(cycle, "mbufs were lost");
	for (int i = 0; i < 32; i++) {
		uint8_t *frame = (uint8_t *)rte_pktmbuf_append(packets[i], 60);

		memset(frame, 0xff, 60);
	}
	uint16_t sent = rte_eth_tx_burst(from, 0, packets, 32);
	rte_pktmbuf_free_bulk(packets + sent, 32 - sent);
	uint16_t received = rte_eth_rx_burst(to, 0, packets, 8);
	rte_pktmbuf_free_bulk(packets, received);
}

int main(int argc, char **argv)
{
	int used = rte_eal_init(argc, argv);

	if (used < 0 || used + 1 >= argc) {
		fprintf(stderr, "usage: cycles EAL-OPTIONS -- CYCLES\n");
		return 2;
	}
	const int cycles = atoi(argv[used + 1]);
	struct rte_mempool *pool =
		rte_pktmbuf_pool_create("pool", 511, 0, 0, 2048, SOCKET_ID_ANY);
	if (pool == NULL)
		return 1;
	for (int cycle = 0; cycle < cycles; cycle++) {
		uint16_t one = open_port(cycle, "net_niclab0", pool);
		uint16_t other = open_port(cycle, "net_niclab1", pool);

		make_rules(cycle, one);
		make_rules(cycle, other);
		send_packets(cycle, one, other, pool);
		/* Rules live and packets under way when the ports close. */
		if (cycle % 2 == 0 && rte_eth_dev_stop(one) != 0)
			fail(cycle, "stop");
		if (rte_eal_hotplug_remove("vdev", "net_niclab0") != 0 ||
		    rte_eal_hotplug_remove("vdev", "net_niclab1") != 0)
			fail(cycle, "close");
		if (rte_mempool_avail_count(pool) != 511)
			fail(cycle, "mbufs were lost");
	}
	printf("ok %d cycles\n", cycles);
	rte_mempool_free(pool);
	rte_eal_cleanup();
	return 0;
}
