/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * rte_flow for the Rust side: rules are written as items and actions in niclab's form, and made
 * into DPDK's structures before any call is timed. No policy. Mirrored in helper/src/shim/flow.rs.
 */
#ifndef NICLAB_FLOW_H
#define NICLAB_FLOW_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of an item's spec, last and mask: a header as on the wire, then a byte of flags. */
#define NL_IMAGE_LEN 48

enum nl_item_kind {
	NL_ITEM_ETH,
	NL_ITEM_VLAN,
	NL_ITEM_IPV4,
	NL_ITEM_IPV6,
	NL_ITEM_ICMP,
	NL_ITEM_ICMP6,
	NL_ITEM_TCP,
	NL_ITEM_UDP,
	NL_ITEM_GRE,
	NL_ITEM_GRE_KEY,
	NL_ITEM_VXLAN,
	NL_ITEM_GENEVE,
	NL_ITEM_MPLS,
	NL_ITEM_META,
	NL_ITEM_TAG,
	NL_ITEM_RAW,
	NL_ITEM_NVGRE,
	NL_ITEM_SCTP,
	NL_ITEM_ESP,
	NL_ITEM_AH,
	NL_ITEM_ARP_ETH_IPV4,
	NL_ITEM_IPV6_FRAG_EXT,
	NL_ITEM_PPPOED,
	NL_ITEM_PPPOES,
	NL_ITEM_VXLAN_GPE,
	NL_ITEM_GTP,
	NL_ITEM_GTPC,
	NL_ITEM_GTPU,
	NL_ITEM_GTP_PSC,
	NL_ITEM_COUNT,
};

/* An item. One whose mask is all zeros has neither spec nor mask for DPDK. */
struct nl_item {
	uint32_t kind;
	uint32_t has_last;
	uint8_t spec[NL_IMAGE_LEN];
	uint8_t last[NL_IMAGE_LEN];
	uint8_t mask[NL_IMAGE_LEN];
};

enum nl_action_kind {
	NL_ACTION_AGE,
	NL_ACTION_COUNT,
	NL_ACTION_DEC_TTL,
	NL_ACTION_DROP,
	NL_ACTION_FLAG,
	NL_ACTION_JUMP,
	NL_ACTION_MAC_SWAP,
	NL_ACTION_MARK,
	NL_ACTION_METER,
	NL_ACTION_NVGRE_DECAP,
	NL_ACTION_NVGRE_ENCAP,
	NL_ACTION_OF_POP_VLAN,
	NL_ACTION_OF_PUSH_VLAN,
	NL_ACTION_OF_SET_VLAN_PCP,
	NL_ACTION_OF_SET_VLAN_VID,
	NL_ACTION_PORT,
	NL_ACTION_QUEUE,
	NL_ACTION_RAW_DECAP,
	NL_ACTION_RAW_ENCAP,
	NL_ACTION_RSS,
	NL_ACTION_SET_IPV4_DSCP,
	NL_ACTION_SET_IPV4_DST,
	NL_ACTION_SET_IPV4_SRC,
	NL_ACTION_SET_IPV6_DSCP,
	NL_ACTION_SET_IPV6_DST,
	NL_ACTION_SET_IPV6_SRC,
	NL_ACTION_SET_MAC_DST,
	NL_ACTION_SET_MAC_SRC,
	NL_ACTION_SET_META,
	NL_ACTION_SET_TAG,
	NL_ACTION_SET_TP_DST,
	NL_ACTION_SET_TP_SRC,
	NL_ACTION_SET_TTL,
	NL_ACTION_VXLAN_DECAP,
	NL_ACTION_VXLAN_ENCAP,
	NL_ACTION_KINDS,
};

/*
 * An action. numbers: its value, by kind: the timeout, group, id, queue, port, type or length; of
 * set_meta and set_tag data, mask and index; of rss function (0: toeplitz, 1: symmetric), level,
 * and hash types in niclab's bits. bytes: an address, the bytes of raw_encap, or the key of rss.
 * queues: of rss. headers: of vxlan_encap and nvgre_encap, outermost first.
 */
struct nl_action {
	uint32_t kind;
	uint32_t numbers[3];
	const uint8_t *bytes;
	const uint16_t *queues;
	const struct nl_item *headers;
	uint16_t bytes_len;
	uint16_t queues_count;
	uint16_t headers_count;
};

/* A rule whose arguments are ready. */
struct nl_rule;

/* What a port said against a call. */
struct nl_flow_error {
	int number;
	uint32_t type;
	uint32_t has_cause;
	char message[128];
};

/* Makes the arguments of a rule; NULL where there is no memory. */
struct nl_rule *nl_rule_new(uint32_t group, uint32_t priority, const struct nl_item *items,
			    uint16_t items_count, const struct nl_action *actions,
			    uint16_t actions_count);

/* Frees them; no call reads them any more. */
void nl_rule_free(struct nl_rule *rule);

struct rte_flow;

/* Creates a rule; NULL and the error, or the rule. */
struct rte_flow *nl_flow_create(uint16_t port, const struct nl_rule *rule,
				struct nl_flow_error *error);

/* Whether the port would take a rule: 0 or a negative errno. */
int nl_flow_validate(uint16_t port, const struct nl_rule *rule, struct nl_flow_error *error);

/* Destroys a rule. */
int nl_flow_destroy(uint16_t port, struct rte_flow *flow, struct nl_flow_error *error);

/* Destroys all rules of a port. */
int nl_flow_flush(uint16_t port, struct nl_flow_error *error);

/* What a rule has counted: frames and bytes. */
int nl_flow_count(uint16_t port, struct rte_flow *flow, uint64_t *frames, uint64_t *bytes,
		  struct nl_flow_error *error);

/* Rules that are aged: how many, at most `count`. */
int nl_flow_aged(uint16_t port, struct rte_flow **flows, uint32_t count,
		 struct nl_flow_error *error);

/* Gives a rule the actions of another. -ENOSYS: this DPDK has no such call. */
int nl_flow_update(uint16_t port, struct rte_flow *flow, const struct nl_rule *rule,
		   struct nl_flow_error *error);

/* Whether this DPDK has a call that gives a rule other actions. */
bool nl_flow_has_update(void);

/* Operation queues that a port can have, and operations that each can hold; 0: it has none. */
int nl_flow_queues_max(uint16_t port, uint32_t *queues, uint32_t *size,
		       struct nl_flow_error *error);

/* Gives a port, which is not started, so many operation queues of this size. */
int nl_flow_configure(uint16_t port, uint16_t queues, uint32_t size, uint32_t rules_max,
		      struct nl_flow_error *error);

/* A template table for rules that differ in values alone. */
struct nl_table;

/* Makes one for rules such as this; NULL and the error, or the table. */
struct nl_table *nl_table_new(uint16_t port, const struct nl_rule *rule, uint32_t rules_max,
			      struct nl_flow_error *error);

/* Destroys one, which has no rules. */
void nl_table_free(uint16_t port, struct nl_table *table);

/* Puts a create into an operation queue; NULL and the error, or the rule. */
struct rte_flow *nl_async_create(uint16_t port, uint32_t queue, const struct nl_table *table,
				 const struct nl_rule *rule, uint64_t user,
				 struct nl_flow_error *error);

/* Puts a destroy into an operation queue. */
int nl_async_destroy(uint16_t port, uint32_t queue, struct rte_flow *flow, uint64_t user,
		     struct nl_flow_error *error);

/* Hands what was put to the port. */
int nl_async_push(uint16_t port, uint32_t queue, struct nl_flow_error *error);

/* Results that are there, at most count: the user's numbers and whether each was done. */
int nl_async_pull(uint16_t port, uint32_t queue, uint64_t *users, bool *done, uint16_t count,
		  struct nl_flow_error *error);

#endif
