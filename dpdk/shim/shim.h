/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the Rust side needs of DPDK: its inline functions and macros as plain functions, batches at
 * a time. No logic, no state. Mirrored in helper/src/shim.rs; the sizes are asserted on both sides.
 */
#ifndef NICLAB_SHIM_H
#define NICLAB_SHIM_H

#include <stdint.h>

struct rte_mbuf;
struct rte_mempool;
struct rte_ring;

/* What a port says about itself. */
struct nl_port_info {
	char name[64];
	char driver[32];
	uint32_t speed_mbps;
	uint32_t mtu_max;
	uint16_t rx_queues_max;
	uint16_t tx_queues_max;
};

/* Counters of a port, all queues together. */
struct nl_stats {
	uint64_t rx_frames;
	uint64_t tx_frames;
	uint64_t rx_missed;
	uint64_t rx_errors;
	uint64_t rx_no_buffer;
	uint64_t tx_errors;
};

/* Starts the environment; the number of arguments it took, or a negative errno. */
int nl_init(int argc, char **argv);

/* The version of DPDK. */
const char *nl_version(void);

/* Gives the calling thread a core number of DPDK's, and with it a cache in every pool. */
int nl_thread_enter(void);

/* Takes it away again. */
void nl_thread_leave(void);

/* The ports that are there, at most max of them; how many were written. */
uint16_t nl_ports(uint16_t *ports, uint16_t max);

/* What a port says about itself; 0 or a negative errno. */
int nl_port_info(uint16_t port, struct nl_port_info *info);

/* A ring of exactly slots places with one producer and one consumer, or NULL. */
struct rte_ring *nl_ring(const char *name, uint32_t slots);

/* Free places of a ring. */
uint32_t nl_ring_room(const struct rte_ring *ring);

/* A port that receives from one ring and sends into the other; its number or -1. */
int nl_ring_port(const char *name, struct rte_ring *rx, struct rte_ring *tx);

/* A pool of frames with room for data_len bytes each, or NULL. */
struct rte_mempool *nl_pool(const char *name, uint32_t frames, uint16_t data_len);

/* Sets a port up with one queue each way; 0 or a negative errno. */
int nl_port_configure(uint16_t port, struct rte_mempool *pool, uint16_t slots, uint32_t mtu);

/* Starts a port and makes it take frames for everybody; 0 or a negative errno. */
int nl_port_start(uint16_t port);

/* Stops a port; 0 or a negative errno. */
int nl_port_stop(uint16_t port);

/* 1 if the port has a link, 0 if not, or a negative errno. */
int nl_port_link(uint16_t port);

/* Whether the port would take the rule "eth / end" to queue 0: 0 or a negative errno. */
int nl_flow_validate(uint16_t port);

/* Counters since the port was made; 0 or a negative errno. */
int nl_port_stats(uint16_t port, struct nl_stats *stats);

/* 1 if the transmit descriptor that many places ahead is not free, 0 if it is, or unknown. */
int nl_tx_full(uint16_t port, uint16_t ahead);

/* Receives at most count frames. */
uint16_t nl_rx_burst(uint16_t port, struct rte_mbuf **frames, uint16_t count);

/* Sends frames; how many were taken, in order. */
uint16_t nl_tx_burst(uint16_t port, struct rte_mbuf **frames, uint16_t count);

/* Takes count frames from a pool: all or none; 0 or a negative errno. */
int nl_alloc(struct rte_mempool *pool, struct rte_mbuf **frames, uint16_t count);

/* Gives frames back to their pool. */
void nl_free(struct rte_mbuf **frames, uint16_t count);

/* Where the data of each frame starts, and its length in bytes. */
void nl_data(struct rte_mbuf **frames, uint8_t **data, uint16_t *lens, uint16_t count);

/* Sets the length of each frame in bytes. */
void nl_set_lens(struct rte_mbuf **frames, const uint16_t *lens, uint16_t count);

/* The text of a negative errno. */
const char *nl_error(int error);

/* The reason of the last call that gave NULL, as a negative errno. */
int nl_last_error(void);

#endif
