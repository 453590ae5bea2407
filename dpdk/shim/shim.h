/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the Rust side needs of DPDK: its inline functions and macros as plain functions, batches at
 * a time. No logic, no state. Mirrored in helper/src/shim/mod.rs; the sizes are asserted on both sides.
 */
#ifndef NICLAB_SHIM_H
#define NICLAB_SHIM_H

#include <stdint.h>

#include "flow.h"

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

/* Loads a driver before that; NULL, or what is wrong. */
const char *nl_load(const char *path);

/* Starts the environment; the number of arguments it took, or a negative errno. */
int nl_init(int argc, char **argv);

/* The version of DPDK. */
const char *nl_version(void);

/* Makes a port of a virtual device and its arguments; 0 or a negative errno. */
int nl_attach(const char *device);

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

/* How a port is set up. */
struct nl_port_shape {
	uint16_t rx_queues;
	uint16_t tx_queues;
	uint16_t slots;
	/* Operation queues of rules, and operations that each holds; 0: none. */
	uint16_t flow_queues;
	uint32_t flow_queue_size;
	/* Most rules at a time, for the queues. */
	uint32_t rules_max;
	uint32_t mtu;
};

/* Sets a port up; frames are spread over its queues by all of IP, TCP and UDP that it hashes, with
 * its own key and table. 0 or a negative errno; error is of the operation queues. */
int nl_port_configure(uint16_t port, struct rte_mempool *pool, const struct nl_port_shape *shape,
		      struct nl_flow_error *error);

/* How a port spreads frames over its queues. */
struct nl_rss {
	/* Hash types in niclab's bits. */
	uint64_t types;
	/* The same in DPDK's, with those that niclab has no bits for; where it is set, 0 stands for
	 * `types`. */
	uint64_t port_types;
	uint16_t key_len;
	/* Entries of the table; 0: unknown. */
	uint16_t entries;
	uint8_t key[128];
	uint16_t table[512];
};

/* Reads it; 0 or a negative errno. */
int nl_port_rss(uint16_t port, struct nl_rss *rss);

/* Sets key, types and, where it has entries, the table of a port; 0 or a negative errno. */
int nl_port_set_rss(uint16_t port, const struct nl_rss *rss);

/* Writes the firmware's version; 0, or a negative errno. */
int nl_port_firmware(uint16_t port, char *text, uint32_t len);

/* A counter of the driver's own. */
struct nl_xstat {
	char name[64];
	uint64_t value;
};

/* Writes all of them; how many, or a negative errno: -ENOSPC if there are more than max or 1,024. */
int nl_port_xstats(uint16_t port, struct nl_xstat *stats, uint32_t max);

/* Starts a port and makes it take frames for everybody; 0 or a negative errno. */
int nl_port_start(uint16_t port);

/* Stops a port; 0 or a negative errno. */
int nl_port_stop(uint16_t port);

/* 1 if the port has a link, 0 if not, or a negative errno. */
int nl_port_link(uint16_t port);

/* Counters since the port was made; 0 or a negative errno. */
int nl_port_stats(uint16_t port, struct nl_stats *stats);

/* 1 if the transmit descriptor that many places ahead is not free, 0 if it is, or unknown. */
int nl_tx_full(uint16_t port, uint16_t queue, uint16_t ahead);

/* Receives at most count frames. */
uint16_t nl_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t count);

/* Sends frames; how many were taken, in order. */
uint16_t nl_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t count);

/* Takes count frames from a pool: all or none; 0 or a negative errno. */
int nl_alloc(struct rte_mempool *pool, struct rte_mbuf **frames, uint16_t count);

/* Gives frames back to their pool. */
void nl_free(struct rte_mbuf **frames, uint16_t count);

/* Where the data of each frame starts, and its length in bytes. */
void nl_data(struct rte_mbuf **frames, uint8_t **data, uint16_t *lens, uint16_t count);

/* The mark of a frame that rules gave it, in `mark`: 0 none, 1 a flag, 2 a number. */
int nl_mark(const struct rte_mbuf *frame, uint32_t *mark);

/* Sets the length of each frame in bytes. */
void nl_set_lens(struct rte_mbuf **frames, const uint16_t *lens, uint16_t count);

/* The text of a negative errno. */
const char *nl_error(int error);

/* The reason of the last call that gave NULL, as a negative errno. */
int nl_last_error(void);

#endif
