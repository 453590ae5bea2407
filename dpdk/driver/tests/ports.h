/* Two connected memory ports of net_niclab, for the programs that check it: port 0 sends by queue 0,
 * port 1 receives by two queues or more. */
#ifndef NICLAB_TEST_PORTS_H
#define NICLAB_TEST_PORTS_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_mbuf.h>

#define SENDER 0
#define RECEIVER 1
#define FRAME_LEN_MAX 256

static struct rte_mempool *pool;
static struct rte_flow_error error;
static int failed;

/* Prints whether a check passed. */
static inline void check(const char *name, int passed)
{
	printf("%s %s\n", passed ? "ok" : "not ok", name);
	failed += !passed;
}

/* Ends the program: nothing can be checked without what failed. */
static void give_up(const char *what)
{
	printf("not ok %s: %s\n", what, error.message != NULL ? error.message : "no reason");
	exit(1);
}

static void start(uint16_t port, uint16_t rx_queues)
{
	const struct rte_eth_conf conf = {0};

	if (rte_eth_dev_configure(port, rx_queues, 1, &conf) != 0)
		give_up("the port is not configured");
	for (uint16_t queue = 0; queue < rx_queues; queue++)
		if (rte_eth_rx_queue_setup(port, queue, 512, SOCKET_ID_ANY, NULL, pool) != 0)
			give_up("a receive queue is not set up");
	if (rte_eth_tx_queue_setup(port, 0, 512, SOCKET_ID_ANY, NULL) != 0 ||
	    rte_eth_dev_start(port) != 0 || rte_eth_promiscuous_enable(port) != 0)
		give_up("the port does not start");
}

/* Opens EAL and both ports; returns the arguments behind `--`. */
static inline char **open_ports(int argc, char **argv)
{
	int used = rte_eal_init(argc, argv);

	if (used < 0 || rte_eth_dev_count_avail() < 2) {
		fprintf(stderr, "usage: %s EAL-OPTIONS (two net_niclab ports)\n", argv[0]);
		exit(2);
	}
	pool = rte_pktmbuf_pool_create("pool", 2047, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	if (pool == NULL)
		give_up("the pool");
	start(SENDER, 1);
	start(RECEIVER, 2);
	return argv + used;
}

static inline int close_ports(void)
{
	for (uint16_t port = 0; port < 2; port++)
		if (rte_eth_dev_stop(port) != 0 || rte_eth_dev_close(port) != 0)
			give_up("the port closes");
	rte_eal_cleanup();
	return failed != 0;
}

/* The bytes of hexadecimal digits, and zeros behind them; blanks do not matter. */
static inline void bytes_of(const char *digits, uint8_t to[FRAME_LEN_MAX])
{
	unsigned int byte;

	memset(to, 0, FRAME_LEN_MAX);
	for (int used; sscanf(digits, " %2x%n", &byte, &used) == 1; digits += used)
		*to++ = (uint8_t)byte;
}

/* Sends a frame. */
static inline void send_frame(const uint8_t *frame, uint16_t len)
{
	struct rte_mbuf *packet = rte_pktmbuf_alloc(pool);

	if (packet == NULL)
		give_up("no mbuf");
	memcpy(rte_pktmbuf_append(packet, len), frame, len);
	if (rte_eth_tx_burst(SENDER, 0, &packet, 1) != 1)
		give_up("the frame is not sent");
}

/* The queue that the frame arrives at, and its bytes; -1 if no queue gets it. */
static inline int receive_frame(uint16_t queues, uint8_t *frame)
{
	struct rte_mbuf *packet;

	for (int turn = 0; turn < 4; turn++)
		for (uint16_t queue = 0; queue < queues; queue++)
			if (rte_eth_rx_burst(RECEIVER, queue, &packet, 1) == 1) {
				if (frame != NULL)
					memcpy(frame, rte_pktmbuf_mtod(packet, const uint8_t *),
					       RTE_MIN(packet->data_len, FRAME_LEN_MAX));
				rte_pktmbuf_free(packet);
				return queue;
			}
	return -1;
}

/* A rule of the receiving port; NULL if it is refused. */
static inline struct rte_flow *create(const struct rte_flow_item *items,
				      const struct rte_flow_action *actions)
{
	const struct rte_flow_attr attr = {.ingress = 1};

	return rte_flow_create(RECEIVER, &attr, items, actions, &error);
}

#endif
