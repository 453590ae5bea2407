/* Forwards packets between two ports, as testpmd's io does, with rules in each port:
 *
 *     io EAL-OPTIONS -- RULES SECONDS
 *
 * Puts 512 datagrams into the circle, creates RULES rules in each port (by net_niclab alone), and
 * prints the packets that both ports received in a second. testpmd takes minutes to read a million
 * commands; this takes a second. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_mbuf.h>

#define BURST 32
#define PACKETS 256
/* Of the sources of the rules; every packet matches a rule. */
#define FIRST_SOURCE RTE_IPV4(10, 0, 0, 0)

static void fail(const char *what)
{
	printf("not ok %s\n", what);
	exit(1);
}

static void start_port(uint16_t port, struct rte_mempool *pool)
{
	const struct rte_eth_conf conf = {0};

	if (rte_eth_dev_configure(port, 1, 1, &conf) != 0 ||
	    rte_eth_rx_queue_setup(port, 0, 1024, SOCKET_ID_ANY, NULL, pool) != 0 ||
	    rte_eth_tx_queue_setup(port, 0, 1024, SOCKET_ID_ANY, NULL) != 0 ||
	    rte_eth_dev_start(port) != 0)
		fail("the port does not start");
	rte_eth_promiscuous_enable(port);
}

static void make_rules(uint16_t port, uint32_t rules)
{
	struct rte_flow_error error;
	const struct rte_flow_action_jump jump = {.group = 1};
	const struct rte_flow_action_queue queue = {.index = 0};
	const struct rte_flow_action to_group[] = {
		{.type = RTE_FLOW_ACTION_TYPE_JUMP, .conf = &jump},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};
	const struct rte_flow_action to_queue[] = {
		{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};
	struct rte_flow_item_ipv4 source = {0};
	const struct rte_flow_item_ipv4 mask = {.hdr.src_addr = RTE_BE32(UINT32_MAX)};
	const struct rte_flow_item all[] = {
		{.type = RTE_FLOW_ITEM_TYPE_ETH},
		{.type = RTE_FLOW_ITEM_TYPE_END},
	};
	const struct rte_flow_item one[] = {
		{.type = RTE_FLOW_ITEM_TYPE_ETH},
		{.type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &source, .mask = &mask},
		{.type = RTE_FLOW_ITEM_TYPE_END},
	};
	struct rte_flow_attr attr = {.ingress = 1};

	if (rules == 0)
		return;
	if (rte_flow_create(port, &attr, all, to_group, &error) == NULL)
		fail(error.message);
	attr.group = 1;
	for (uint32_t i = 0; i < rules; i++) {
		source.hdr.src_addr = rte_cpu_to_be_32(FIRST_SOURCE + i);
		if (rte_flow_create(port, &attr, one, to_queue, &error) == NULL)
			fail(error.message);
	}
}

static uint16_t forward(uint16_t from, uint16_t to)
{
	struct rte_mbuf *packets[BURST];
	uint16_t count = rte_eth_rx_burst(from, 0, packets, BURST);
	uint16_t sent = count > 0 ? rte_eth_tx_burst(to, 0, packets, count) : 0;

	if (sent < count)
		rte_pktmbuf_free_bulk(packets + sent, count - sent);
	return count;
}

/* Sends datagrams of 64 bytes with FCS from sources that are spread over the rules. */
static void send_first(uint16_t port, uint32_t rules, struct rte_mempool *pool)
{
	struct rte_mbuf *packets[PACKETS];

	if (rte_pktmbuf_alloc_bulk(pool, packets, PACKETS) != 0)
		fail("no mbufs");
	for (uint32_t i = 0; i < PACKETS; i++) {
		uint8_t *frame = (uint8_t *)rte_pktmbuf_append(packets[i], 60);
		uint32_t step = rules / PACKETS, at = FIRST_SOURCE + i * (step != 0 ? step : 1);

		memset(frame, 0, 60);
		frame[0] = frame[6] = 2;
		frame[12] = 8;
		frame[14] = 0x45;
		frame[17] = 46;
		frame[22] = 64;
		frame[23] = 17;
		at = rte_cpu_to_be_32(at);
		memcpy(frame + 26, &at, 4);
		frame[39] = 26;
	}
	for (uint16_t sent = 0; sent < PACKETS;) {
		sent += rte_eth_tx_burst(port, 0, packets + sent, PACKETS - sent);
		/* A net_memif client offers buffers to the server when it receives. */
		forward(0, 1);
		forward(1, 0);
	}
}

int main(int argc, char **argv)
{
	int used = rte_eal_init(argc, argv);

	if (used < 0 || used + 2 >= argc || rte_eth_dev_count_avail() != 2) {
		fprintf(stderr, "usage: io EAL-OPTIONS (two ports) -- RULES SECONDS\n");
		return 2;
	}
	const uint32_t rules = strtoul(argv[used + 1], NULL, 10);
	const uint64_t second = rte_get_tsc_hz();
	struct rte_mempool *pool =
		rte_pktmbuf_pool_create("pool", 16383, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	struct rte_eth_link links[2];
	uint64_t count = 0, until = rte_rdtsc() + 10 * second;
	if (pool == NULL)
		return 1;
	start_port(0, pool);
	start_port(1, pool);
	do {
		if (rte_eth_link_get_nowait(0, &links[0]) != 0 ||
		    rte_eth_link_get_nowait(1, &links[1]) != 0 || rte_rdtsc() > until)
			fail("the link is down");
	} while (!links[0].link_status || !links[1].link_status);
	make_rules(0, rules);
	make_rules(1, rules);
	send_first(0, rules, pool);
	send_first(1, rules, pool);
	for (until = rte_rdtsc() + second / 2; rte_rdtsc() < until;) {
		forward(0, 1);
		forward(1, 0);
	}
	const uint64_t begin = rte_rdtsc();
	for (until = begin + strtoul(argv[used + 2], NULL, 10) * second; rte_rdtsc() < until;)
		for (int i = 0; i < 64; i++)
			count += forward(0, 1) + forward(1, 0);
	printf("ok %.3f Mpps\n", count * ((double)second / (rte_rdtsc() - begin)) / 1e6);
	rte_eth_dev_stop(0);
	rte_eth_dev_stop(1);
	rte_eth_dev_close(0);
	rte_eth_dev_close(1);
	rte_eal_cleanup();
	return 0;
}
