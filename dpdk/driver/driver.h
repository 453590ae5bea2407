/* What the files of the driver share: the device, its queues, and the link of two memory ports. */
#ifndef NICLAB_DRIVER_H
#define NICLAB_DRIVER_H

#include <stdint.h>

#include <rte_ring.h>
#include <rte_ether.h>
#include <rte_flow.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_spinlock.h>
#include <rte_version.h>

#include <ethdev_driver.h>
#include <rte_flow_driver.h>

#include "niclab.h"

/* From DPDK 23.11 on, a program chooses the hash function of a port. */
#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
#define NL_HAS_RSS_ALGORITHM
#endif

/* From DPDK 24.03 on, a device has the calls of flow queues outside of its flow operations. */
#if RTE_VERSION >= RTE_VERSION_NUM(24, 3, 0, 0)
#define NL_HAS_QUEUE_CALLS
#endif

#define NL_QUEUES_MAX 64
#define NL_MAC_ADDRS_MAX 16
#define NL_MC_ADDRS_MAX 64
#define NL_FLOW_QUEUES_MAX 64
#define NL_RING_LEN 1024
#define NL_RETA_LEN NICLAB_INDIRECTION_LEN
#define NL_VLAN_WORDS (4096 / 64)

extern int niclab_logtype;
#define NL_LOG(level, ...) rte_log(RTE_LOG_##level, niclab_logtype, "net_niclab: " __VA_ARGS__)
/* The same about a device, by its name: a program goes on with its other ports. */
#define NL_LOG_OF(device, level, format, ...) \
	NL_LOG(level, "%s: " format, (device)->data->name, ##__VA_ARGS__)

struct nl_device;
struct nl_meter_object;

/* Frames of a receive queue that did not reach the program, and why. One thread writes it. */
struct nl_rx_losses {
	uint64_t by_rule;
	uint64_t by_mac;
	uint64_t by_vlan;
	uint64_t too_long;
	uint64_t queue_full;
	uint64_t no_mbuf;
};

/* What a receive queue has counted. One thread writes it. */
struct nl_rx_counters {
	uint64_t packets;
	uint64_t bytes;
	struct nl_rx_losses losses;
};

/* What a transmit queue has counted. One thread writes it. */
struct nl_tx_counters {
	uint64_t packets;
	uint64_t bytes;
	uint64_t dropped;
};

/* A receive queue. The lcore that polls it also classifies the frames of its wires. */
struct nl_rx_queue {
	struct nl_device *device;
	uint16_t id;
	uint16_t port_id;
	struct rte_mempool *pool;
	struct niclab_worker *worker;
	/* Frames that other receive queues classified for this one. */
	struct rte_ring *ring;
	/* Empty mbufs for frames of a port of the system. */
	struct rte_mbuf *spare[NICLAB_BURST];
	unsigned int spare_count;
	/* When the worker got the time last, by the time-stamp counter. */
	uint64_t timed_tsc;
	uint64_t tsc_per_ms;
	int idle;
	struct nl_rx_counters counted;
	/* Counts at the last reset: the thread that counts goes on without a stop. */
	struct nl_rx_counters at_reset;
} __rte_cache_aligned;

/* A transmit queue. */
struct nl_tx_queue {
	struct nl_device *device;
	uint16_t id;
	struct nl_tx_counters counted;
	struct nl_tx_counters at_reset;
} __rte_cache_aligned;

/* Two memory ports that are connected. The link lives until both are closed. */
struct nl_link {
	struct nl_link *next;
	char name[32];
	/* The devices at both ends, or NULL. */
	struct nl_device *ends[2];
	/* Whether the device at this end is started. */
	int started[2];
	/* wires[e][q]: what transmit queue q of end e has sent; the other end receives it. */
	struct rte_ring *wires[2][NL_QUEUES_MAX];
	/* One more than the greatest number of a wire. */
	uint16_t wires_count[2];
	/* The time of a byte on the wire, in fine cycles; 0: as fast as memory. */
	uint64_t byte_time;
	/* Until when each end's wire is busy, in fine cycles. */
	uint64_t busy_until[2];
};

/* The card that a device is modelled on. */
struct nl_card {
	/* NULL: niclab's own. */
	struct niclab_profile *profile;
	struct niclab_card numbers;
	/* Held during an operation on rules, and for its time alone. */
	rte_spinlock_t lock;
	/* Until when operations on rules keep the card busy, and the end of the last call, cycles. */
	uint64_t busy_until;
	uint64_t ended;
	double cycles_per_ns;
	/* The time of a frame in the classifier, in fine cycles; 0: as fast as the software. */
	uint64_t frame_time;
	/* Until when the classifier is busy, in fine cycles. */
	uint64_t classified_until;
};

/* A queue for asynchronous flow operations. */
struct nl_flow_queue {
	struct niclab_flow_queue *queue;
};

struct nl_device {
	struct rte_eth_dev_data *data;
	struct niclab_nic *nic;
	/* Queues that the NIC was opened with. */
	uint16_t nic_queues;
	/* Queue pairs that the device may have. */
	uint16_t queues_max;
	/* A port of the system, or a link with another device of this process. */
	struct niclab_port *port;
	struct nl_link *link;
	int end;
	struct nl_card card;
	/* Profiles, policies and meters of rte_mtr. */
	struct nl_meter_object *meters;
	/* There were meters: workers get the time for each burst. */
	int has_meters;
	/* Queue pairs of the port of the system. */
	uint16_t wires;
	char port_name[256];
	struct rte_ether_addr mac_addrs[NL_MAC_ADDRS_MAX];
	struct rte_ether_addr mc_addrs[NL_MC_ADDRS_MAX];
	uint32_t mc_addrs_count;
	uint64_t vlans[NL_VLAN_WORDS];
	uint64_t rss_types;
	struct nl_flow_queue flow_queues[NL_FLOW_QUEUES_MAX];
	uint16_t flow_queues_count;
#ifdef NL_HAS_QUEUE_CALLS
	struct rte_flow_fp_ops queue_calls;
#endif
	struct nl_rx_queue rx[NL_QUEUES_MAX];
	struct nl_tx_queue tx[NL_QUEUES_MAX];
};

static inline struct nl_device *nl_device_of(struct rte_eth_dev *dev)
{
	return dev->data->dev_private;
}

uint64_t nl_now_ns(void);

/* packets.c */
uint16_t nl_rx_burst(void *queue, struct rte_mbuf **packets, uint16_t count);
uint16_t nl_tx_burst_memory(void *queue, struct rte_mbuf **packets, uint16_t count);
uint16_t nl_tx_burst_port(void *queue, struct rte_mbuf **packets, uint16_t count);
void nl_drain(struct rte_ring *ring);

/* card.c */
int nl_card_open(struct nl_device *device, const char *name);
void nl_card_close(struct nl_device *device);
uint64_t nl_operation_begin(struct nl_device *device);
void nl_operation_end(struct nl_device *device, uint64_t begin);
void nl_note_forwarding(uint64_t now);
void nl_card_on_link(struct nl_device *device);
uint16_t nl_wire_room(struct nl_link *link, int end, struct rte_mbuf **packets, uint16_t count);
uint16_t nl_classifier_room(struct nl_rx_queue *queue, struct rte_ring *wire, uint16_t count);
void nl_classifier_take(struct nl_device *device, uint16_t count);

/* meters.c */
int nl_mtr_ops_get(struct rte_eth_dev *dev, void *ops);
int nl_meters_reopen(struct nl_device *device, struct niclab_error *why);
void nl_meters_close(struct nl_device *device);

/* rss.c */
#define NL_RSS_TYPES                                                                               \
	(RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP |                   \
	 RTE_ETH_RSS_L3_SRC_ONLY | RTE_ETH_RSS_L3_DST_ONLY | RTE_ETH_RSS_L4_SRC_ONLY |             \
	 RTE_ETH_RSS_L4_DST_ONLY)
uint32_t nl_rss_types(uint64_t types);
int nl_rss_apply(struct nl_device *device, const struct rte_eth_rss_conf *conf);
int nl_rss_hash_update(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf);
int nl_rss_hash_conf_get(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf);
int nl_reta_update(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *entries, uint16_t len);
int nl_reta_query(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *entries, uint16_t len);

/* statistics.c */
int nl_stats_get(struct rte_eth_dev *dev, struct rte_eth_stats *stats);
int nl_stats_reset(struct rte_eth_dev *dev);
int nl_xstats_get(struct rte_eth_dev *dev, struct rte_eth_xstat *values, unsigned int count);
int nl_xstats_get_names(struct rte_eth_dev *dev, struct rte_eth_xstat_name *names,
			unsigned int count);

/* translate.c */
#define NL_ITEMS_MAX 16
#define NL_ACTIONS_MAX 16
#define NL_ITEM_BYTES 48
#define NL_ENCAP_BYTES 256

/* Items for libniclab, and the bytes of those that DPDK stores in another way. */
struct nl_items {
	uint32_t count;
	struct niclab_item items[NL_ITEMS_MAX];
	/* The item that each of them was made of. */
	const struct rte_flow_item *from[NL_ITEMS_MAX];
	uint8_t bytes[NL_ITEMS_MAX][3][NL_ITEM_BYTES];
};

/* Actions for libniclab. */
struct nl_actions {
	uint32_t count;
	struct niclab_action actions[NL_ACTIONS_MAX];
	const struct rte_flow_action *from[NL_ACTIONS_MAX];
	struct niclab_rss rss;
	int has_age;
	/* The headers that come, by action. */
	uint8_t encap[NL_ACTIONS_MAX][NL_ENCAP_BYTES];
};

/* What a translation leaves to others. */
enum nl_values {
	/* Every value is there. */
	NL_VALUES_ALL,
	/* A template: an action without a value gets one from each rule. */
	NL_VALUES_SOME,
};

int nl_translate_items(const struct rte_flow_item *from, struct nl_items *to,
		       struct rte_flow_error *error);
int nl_translate_actions(const struct nl_device *device, const struct rte_flow_action *from,
			 enum nl_values values, struct nl_actions *to,
			 struct rte_flow_error *error);
int nl_check_attr(const struct rte_flow_attr *attr, struct rte_flow_error *error);
int nl_flow_failed(int result, const struct niclab_error *why, const struct nl_items *items,
		   const struct nl_actions *actions, struct rte_flow_error *error);

/* rules.c, templates.c */
extern const struct rte_flow_ops nl_flow_ops;
struct rte_flow_action_handle *nl_action_handle_create(struct rte_eth_dev *dev,
						       const struct rte_flow_indir_action_conf *conf,
						       const struct rte_flow_action *action,
						       struct rte_flow_error *error);
int nl_action_handle_destroy(struct rte_eth_dev *dev, struct rte_flow_action_handle *handle,
			     struct rte_flow_error *error);
int nl_action_handle_update(struct rte_eth_dev *dev, struct rte_flow_action_handle *handle,
			    const void *update, struct rte_flow_error *error);
int nl_action_handle_query(struct rte_eth_dev *dev, const struct rte_flow_action_handle *handle,
			   void *data, struct rte_flow_error *error);
int nl_no_nic(struct rte_flow_error *error);
void nl_flow_queues_close(struct nl_device *device);
#ifdef NL_HAS_QUEUE_CALLS
void nl_queue_calls_set(struct rte_eth_dev *dev);
#endif

int nl_flow_info_get(struct rte_eth_dev *dev, struct rte_flow_port_info *port,
		     struct rte_flow_queue_info *queue, struct rte_flow_error *error);
int nl_flow_configure(struct rte_eth_dev *dev, const struct rte_flow_port_attr *port,
		      uint16_t count, const struct rte_flow_queue_attr *attrs[],
		      struct rte_flow_error *error);
struct rte_flow_pattern_template *
nl_pattern_template_create(struct rte_eth_dev *dev,
			   const struct rte_flow_pattern_template_attr *attr,
			   const struct rte_flow_item pattern[], struct rte_flow_error *error);
int nl_pattern_template_destroy(struct rte_eth_dev *dev, struct rte_flow_pattern_template *template,
				struct rte_flow_error *error);
struct rte_flow_actions_template *
nl_actions_template_create(struct rte_eth_dev *dev,
			   const struct rte_flow_actions_template_attr *attr,
			   const struct rte_flow_action actions[],
			   const struct rte_flow_action masks[], struct rte_flow_error *error);
int nl_actions_template_destroy(struct rte_eth_dev *dev, struct rte_flow_actions_template *template,
				struct rte_flow_error *error);
struct rte_flow_template_table *
nl_template_table_create(struct rte_eth_dev *dev, const struct rte_flow_template_table_attr *attr,
			 struct rte_flow_pattern_template *patterns[], uint8_t patterns_count,
			 struct rte_flow_actions_template *actions[], uint8_t actions_count,
			 struct rte_flow_error *error);
int nl_template_table_destroy(struct rte_eth_dev *dev, struct rte_flow_template_table *table,
			      struct rte_flow_error *error);
struct rte_flow *nl_async_create(struct rte_eth_dev *dev, uint32_t queue,
				 const struct rte_flow_op_attr *attr,
				 struct rte_flow_template_table *table,
				 const struct rte_flow_item pattern[], uint8_t pattern_index,
				 const struct rte_flow_action actions[], uint8_t actions_index,
				 void *user, struct rte_flow_error *error);
struct rte_flow *nl_async_create_by_index(struct rte_eth_dev *dev, uint32_t queue,
					  const struct rte_flow_op_attr *attr,
					  struct rte_flow_template_table *table, uint32_t index,
					  const struct rte_flow_action actions[],
					  uint8_t actions_index, void *user,
					  struct rte_flow_error *error);
int nl_async_actions_update(struct rte_eth_dev *dev, uint32_t queue,
			    const struct rte_flow_op_attr *attr, struct rte_flow *flow,
			    const struct rte_flow_action actions[], uint8_t actions_index,
			    void *user, struct rte_flow_error *error);
int nl_async_destroy(struct rte_eth_dev *dev, uint32_t queue, const struct rte_flow_op_attr *attr,
		     struct rte_flow *flow, void *user, struct rte_flow_error *error);
int nl_push(struct rte_eth_dev *dev, uint32_t queue, struct rte_flow_error *error);
int nl_pull(struct rte_eth_dev *dev, uint32_t queue, struct rte_flow_op_result results[],
	    uint16_t count, struct rte_flow_error *error);
struct rte_flow_action_handle *
nl_async_action_handle_create(struct rte_eth_dev *dev, uint32_t queue,
			      const struct rte_flow_op_attr *attr,
			      const struct rte_flow_indir_action_conf *conf,
			      const struct rte_flow_action *action, void *user,
			      struct rte_flow_error *error);
int nl_async_action_handle_destroy(struct rte_eth_dev *dev, uint32_t queue,
				   const struct rte_flow_op_attr *attr,
				   struct rte_flow_action_handle *handle, void *user,
				   struct rte_flow_error *error);
int nl_async_action_handle_update(struct rte_eth_dev *dev, uint32_t queue,
				  const struct rte_flow_op_attr *attr,
				  struct rte_flow_action_handle *handle, const void *update,
				  void *user, struct rte_flow_error *error);
int nl_async_action_handle_query(struct rte_eth_dev *dev, uint32_t queue,
				 const struct rte_flow_op_attr *attr,
				 const struct rte_flow_action_handle *handle, void *data,
				 void *user, struct rte_flow_error *error);

#endif
