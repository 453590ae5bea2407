// SPDX-License-Identifier: MIT OR Apache-2.0
#define _GNU_SOURCE
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_flow.h>

#include "flow.h"

/* Room of an item's structure, and of an action's. */
#define CONF_LEN 64

/* Results that one call of rte_flow_pull takes. */
#define PULL_MAX 64

static_assert(sizeof(struct nl_item) == 152, "mirrored in flow.rs");
static_assert(sizeof(struct nl_action) == 48, "mirrored in flow.rs");
static_assert(sizeof(struct nl_flow_error) == 140, "mirrored in flow.rs");
static_assert(sizeof(struct rte_flow_item_eth) <= CONF_LEN, "room");
static_assert(sizeof(struct rte_flow_item_ipv6) <= CONF_LEN, "room");
static_assert(sizeof(struct rte_flow_item_raw) <= CONF_LEN, "room");
static_assert(sizeof(struct rte_flow_action_rss) <= CONF_LEN, "room");
static_assert(sizeof(struct rte_flow_action_raw_encap) <= CONF_LEN, "room");
/* Headers lie first in their items, as they are on the wire. */
static_assert(offsetof(struct rte_flow_item_ipv4, hdr) == 0, "the header is first");
static_assert(offsetof(struct rte_flow_item_ipv6, hdr) == 0, "the header is first");
static_assert(offsetof(struct rte_flow_item_tcp, hdr) == 0, "the header is first");
static_assert(offsetof(struct rte_flow_item_udp, hdr) == 0, "the header is first");
static_assert(offsetof(struct rte_flow_item_icmp, hdr) == 0, "the header is first");
static_assert(offsetof(struct rte_flow_item_eth, type) == 12, "as on the wire");
static_assert(offsetof(struct rte_flow_item_vlan, inner_type) == 2, "as on the wire");
static_assert(offsetof(struct rte_flow_item_icmp6, code) == 1, "as on the wire");
static_assert(offsetof(struct rte_flow_item_gre, protocol) == 2, "as on the wire");
static_assert(offsetof(struct rte_flow_item_nvgre, tni) == 4, "as on the wire");
static_assert(offsetof(struct rte_flow_item_vxlan, vni) == 4, "as on the wire");
static_assert(offsetof(struct rte_flow_item_geneve, vni) == 4, "as on the wire");
static_assert(offsetof(struct rte_flow_item_mpls, label_tc_s) == 0, "as on the wire");

static_assert(offsetof(struct rte_flow_item_sctp, hdr) == 0, "the header is first");
static_assert(offsetof(struct rte_flow_item_esp, hdr) == 0, "the header is first");
static_assert(offsetof(struct rte_flow_item_ah, spi) == 4, "as on the wire");
static_assert(offsetof(struct rte_flow_item_arp_eth_ipv4, sha) == 8, "as on the wire");
static_assert(offsetof(struct rte_flow_item_ipv6_frag_ext, hdr) == 0, "the header is first");
static_assert(offsetof(struct rte_flow_item_pppoe, session_id) == 2, "as on the wire");
static_assert(offsetof(struct rte_flow_item_vxlan_gpe, vni) == 4, "as on the wire");
static_assert(offsetof(struct rte_flow_item_gtp, teid) == 4, "as on the wire");
static_assert(sizeof(struct rte_flow_item_gtp_psc) == 3, "as on the wire");

/* Where a `raw` image has its parts. */
enum { RAW_OFFSET = 1, RAW_LIMIT = 5, RAW_LEN = 7, RAW_BYTES = 8 };

static const struct {
	enum rte_flow_item_type type;
	/* Bytes of the header; 0: the item has a form of its own. */
	uint8_t header_len;
} ITEMS[NL_ITEM_COUNT] = {
	[NL_ITEM_ETH] = { RTE_FLOW_ITEM_TYPE_ETH, 14 },
	[NL_ITEM_VLAN] = { RTE_FLOW_ITEM_TYPE_VLAN, 4 },
	[NL_ITEM_IPV4] = { RTE_FLOW_ITEM_TYPE_IPV4, 20 },
	[NL_ITEM_IPV6] = { RTE_FLOW_ITEM_TYPE_IPV6, 40 },
	[NL_ITEM_ICMP] = { RTE_FLOW_ITEM_TYPE_ICMP, 8 },
	[NL_ITEM_ICMP6] = { RTE_FLOW_ITEM_TYPE_ICMP6, 4 },
	[NL_ITEM_TCP] = { RTE_FLOW_ITEM_TYPE_TCP, 20 },
	[NL_ITEM_UDP] = { RTE_FLOW_ITEM_TYPE_UDP, 8 },
	[NL_ITEM_GRE] = { RTE_FLOW_ITEM_TYPE_GRE, 4 },
	[NL_ITEM_GRE_KEY] = { RTE_FLOW_ITEM_TYPE_GRE_KEY, 4 },
	[NL_ITEM_VXLAN] = { RTE_FLOW_ITEM_TYPE_VXLAN, 8 },
	[NL_ITEM_GENEVE] = { RTE_FLOW_ITEM_TYPE_GENEVE, 8 },
	[NL_ITEM_MPLS] = { RTE_FLOW_ITEM_TYPE_MPLS, 4 },
	[NL_ITEM_META] = { RTE_FLOW_ITEM_TYPE_META, 0 },
	[NL_ITEM_TAG] = { RTE_FLOW_ITEM_TYPE_TAG, 0 },
	[NL_ITEM_RAW] = { RTE_FLOW_ITEM_TYPE_RAW, 0 },
	[NL_ITEM_NVGRE] = { RTE_FLOW_ITEM_TYPE_NVGRE, 8 },
	[NL_ITEM_SCTP] = { RTE_FLOW_ITEM_TYPE_SCTP, 12 },
	[NL_ITEM_ESP] = { RTE_FLOW_ITEM_TYPE_ESP, 8 },
	[NL_ITEM_AH] = { RTE_FLOW_ITEM_TYPE_AH, 12 },
	[NL_ITEM_ARP_ETH_IPV4] = { RTE_FLOW_ITEM_TYPE_ARP_ETH_IPV4, 0 },
	[NL_ITEM_IPV6_FRAG_EXT] = { RTE_FLOW_ITEM_TYPE_IPV6_FRAG_EXT, 8 },
	[NL_ITEM_PPPOED] = { RTE_FLOW_ITEM_TYPE_PPPOED, 6 },
	[NL_ITEM_PPPOES] = { RTE_FLOW_ITEM_TYPE_PPPOES, 6 },
	[NL_ITEM_VXLAN_GPE] = { RTE_FLOW_ITEM_TYPE_VXLAN_GPE, 8 },
	[NL_ITEM_GTP] = { RTE_FLOW_ITEM_TYPE_GTP, 8 },
	[NL_ITEM_GTPC] = { RTE_FLOW_ITEM_TYPE_GTPC, 8 },
	[NL_ITEM_GTPU] = { RTE_FLOW_ITEM_TYPE_GTPU, 8 },
	[NL_ITEM_GTP_PSC] = { RTE_FLOW_ITEM_TYPE_GTP_PSC, 3 },
};

static const enum rte_flow_action_type ACTIONS[NL_ACTION_KINDS] = {
	[NL_ACTION_AGE] = RTE_FLOW_ACTION_TYPE_AGE,
	[NL_ACTION_COUNT] = RTE_FLOW_ACTION_TYPE_COUNT,
	[NL_ACTION_DEC_TTL] = RTE_FLOW_ACTION_TYPE_DEC_TTL,
	[NL_ACTION_DROP] = RTE_FLOW_ACTION_TYPE_DROP,
	[NL_ACTION_FLAG] = RTE_FLOW_ACTION_TYPE_FLAG,
	[NL_ACTION_JUMP] = RTE_FLOW_ACTION_TYPE_JUMP,
	[NL_ACTION_MAC_SWAP] = RTE_FLOW_ACTION_TYPE_MAC_SWAP,
	[NL_ACTION_MARK] = RTE_FLOW_ACTION_TYPE_MARK,
	[NL_ACTION_METER] = RTE_FLOW_ACTION_TYPE_METER,
	[NL_ACTION_NVGRE_DECAP] = RTE_FLOW_ACTION_TYPE_NVGRE_DECAP,
	[NL_ACTION_NVGRE_ENCAP] = RTE_FLOW_ACTION_TYPE_NVGRE_ENCAP,
	[NL_ACTION_OF_POP_VLAN] = RTE_FLOW_ACTION_TYPE_OF_POP_VLAN,
	[NL_ACTION_OF_PUSH_VLAN] = RTE_FLOW_ACTION_TYPE_OF_PUSH_VLAN,
	[NL_ACTION_OF_SET_VLAN_PCP] = RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_PCP,
	[NL_ACTION_OF_SET_VLAN_VID] = RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID,
	[NL_ACTION_PORT] = RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT,
	[NL_ACTION_QUEUE] = RTE_FLOW_ACTION_TYPE_QUEUE,
	[NL_ACTION_RAW_DECAP] = RTE_FLOW_ACTION_TYPE_RAW_DECAP,
	[NL_ACTION_RAW_ENCAP] = RTE_FLOW_ACTION_TYPE_RAW_ENCAP,
	[NL_ACTION_RSS] = RTE_FLOW_ACTION_TYPE_RSS,
	[NL_ACTION_SET_IPV4_DSCP] = RTE_FLOW_ACTION_TYPE_SET_IPV4_DSCP,
	[NL_ACTION_SET_IPV4_DST] = RTE_FLOW_ACTION_TYPE_SET_IPV4_DST,
	[NL_ACTION_SET_IPV4_SRC] = RTE_FLOW_ACTION_TYPE_SET_IPV4_SRC,
	[NL_ACTION_SET_IPV6_DSCP] = RTE_FLOW_ACTION_TYPE_SET_IPV6_DSCP,
	[NL_ACTION_SET_IPV6_DST] = RTE_FLOW_ACTION_TYPE_SET_IPV6_DST,
	[NL_ACTION_SET_IPV6_SRC] = RTE_FLOW_ACTION_TYPE_SET_IPV6_SRC,
	[NL_ACTION_SET_MAC_DST] = RTE_FLOW_ACTION_TYPE_SET_MAC_DST,
	[NL_ACTION_SET_MAC_SRC] = RTE_FLOW_ACTION_TYPE_SET_MAC_SRC,
	[NL_ACTION_SET_META] = RTE_FLOW_ACTION_TYPE_SET_META,
	[NL_ACTION_SET_TAG] = RTE_FLOW_ACTION_TYPE_SET_TAG,
	[NL_ACTION_SET_TP_DST] = RTE_FLOW_ACTION_TYPE_SET_TP_DST,
	[NL_ACTION_SET_TP_SRC] = RTE_FLOW_ACTION_TYPE_SET_TP_SRC,
	[NL_ACTION_SET_TTL] = RTE_FLOW_ACTION_TYPE_SET_TTL,
	[NL_ACTION_VXLAN_DECAP] = RTE_FLOW_ACTION_TYPE_VXLAN_DECAP,
	[NL_ACTION_VXLAN_ENCAP] = RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP,
};

/* The arguments lie behind it, in one allocation. */
struct nl_rule {
	struct rte_flow_attr attr;
	struct rte_flow_item *items;
	struct rte_flow_action *actions;
	uint8_t *room;
	uint8_t *end;
};

static const uint8_t NOTHING[NL_IMAGE_LEN];

static void *take(struct nl_rule *rule, size_t len)
{
	uint8_t *start = rule->room;

	rule->room += (len + 7) & ~(size_t)7;
	assert(rule->room <= rule->end);
	return start;
}

static uint32_t be32(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

/* The flag behind the header, which is a bit field in DPDK's structures. */
static void write_flag(uint32_t kind, void *to, bool flag)
{
	if (kind == NL_ITEM_ETH)
		((struct rte_flow_item_eth *)to)->has_vlan = flag;
	else if (kind == NL_ITEM_VLAN)
		((struct rte_flow_item_vlan *)to)->has_more_vlan = flag;
	else if (kind == NL_ITEM_IPV6)
		((struct rte_flow_item_ipv6 *)to)->has_frag_ext = flag;
}

static void write_raw(struct nl_rule *rule, struct rte_flow_item_raw *raw, const uint8_t *image)
{
	uint8_t *bytes = take(rule, NL_IMAGE_LEN);

	memcpy(bytes, image + RAW_BYTES, NL_IMAGE_LEN - RAW_BYTES);
	raw->relative = image[0] >> 7;
	raw->search = image[0] >> 6 & 1;
	raw->offset = (int32_t)be32(image + RAW_OFFSET);
	raw->limit = (uint16_t)(image[RAW_LIMIT] << 8 | image[RAW_LIMIT + 1]);
	raw->length = image[RAW_LEN];
	raw->pattern = bytes;
}

/* DPDK's structure has gaps before the addresses of IPv4. */
static void write_arp(struct rte_flow_item_arp_eth_ipv4 *arp, const uint8_t *image)
{
	memcpy(arp, image, 8);
	memcpy(&arp->sha, image + 8, sizeof(arp->sha));
	memcpy(&arp->spa, image + 14, sizeof(arp->spa));
	memcpy(&arp->tha, image + 18, sizeof(arp->tha));
	memcpy(&arp->tpa, image + 24, sizeof(arp->tpa));
}

static const void *write_image(struct nl_rule *rule, uint32_t kind, const uint8_t *image)
{
	void *to = take(rule, CONF_LEN);
	uint8_t header_len = ITEMS[kind].header_len;

	if (kind == NL_ITEM_META) {
		((struct rte_flow_item_meta *)to)->data = be32(image);
	} else if (kind == NL_ITEM_TAG) {
		((struct rte_flow_item_tag *)to)->data = be32(image);
		((struct rte_flow_item_tag *)to)->index = image[4];
	} else if (kind == NL_ITEM_ARP_ETH_IPV4) {
		write_arp(to, image);
	} else if (kind == NL_ITEM_RAW) {
		write_raw(rule, to, image);
	} else {
		memcpy(to, image, header_len);
		write_flag(kind, to, image[header_len] & 1);
	}
	return to;
}

static void write_item(struct nl_rule *rule, struct rte_flow_item *to, const struct nl_item *item)
{
	to->type = ITEMS[item->kind].type;
	if (memcmp(item->mask, NOTHING, NL_IMAGE_LEN) == 0)
		return;
	to->spec = write_image(rule, item->kind, item->spec);
	to->mask = write_image(rule, item->kind, item->mask);
	if (item->has_last)
		to->last = write_image(rule, item->kind, item->last);
}

/* DPDK's hash types of niclab's. */
static uint64_t hash_types(uint32_t types)
{
	return (uint64_t)(types & 0x3f) << 2 | (types & 0x3f00) |
	       (types >> 16 & 1 ? RTE_ETH_RSS_L3_SRC_ONLY : 0) |
	       (types >> 17 & 1 ? RTE_ETH_RSS_L3_DST_ONLY : 0) |
	       (types >> 18 & 1 ? RTE_ETH_RSS_L4_SRC_ONLY : 0) |
	       (types >> 19 & 1 ? RTE_ETH_RSS_L4_DST_ONLY : 0);
}

static_assert(RTE_ETH_RSS_IPV4 == 1 << 2 && RTE_ETH_RSS_FRAG_IPV4 == 1 << 3, "hash_types");
static_assert(RTE_ETH_RSS_NONFRAG_IPV4_OTHER == 1 << 7, "hash_types");
static_assert(RTE_ETH_RSS_IPV6 == 1 << 8 && RTE_ETH_RSS_NONFRAG_IPV6_OTHER == 1 << 13, "hash_types");

static void write_rss(struct nl_rule *rule, struct rte_flow_action_rss *to,
		      const struct nl_action *action)
{
	uint8_t *key = take(rule, action->bytes_len);
	uint16_t *queues = take(rule, 2u * action->queues_count);

	to->func = action->numbers[0] ? RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ :
					RTE_ETH_HASH_FUNCTION_TOEPLITZ;
	to->level = action->numbers[1];
	to->types = hash_types(action->numbers[2]);
	if (action->bytes_len)
		to->key = memcpy(key, action->bytes, action->bytes_len);
	to->key_len = action->bytes_len;
	if (action->queues_count)
		to->queue = memcpy(queues, action->queues, 2u * action->queues_count);
	to->queue_num = action->queues_count;
}

static struct rte_flow_item *write_items(struct nl_rule *rule, const struct nl_item *items,
					 uint16_t count)
{
	struct rte_flow_item *to = take(rule, (count + 1u) * sizeof(*to));

	for (uint16_t i = 0; i < count; i++)
		write_item(rule, &to[i], &items[i]);
	to[count].type = RTE_FLOW_ITEM_TYPE_END;
	return to;
}

static void write_bytes(struct nl_rule *rule, void *to, const struct nl_action *action)
{
	uint8_t *bytes;

	if (action->kind == NL_ACTION_RAW_DECAP) {
		((struct rte_flow_action_raw_decap *)to)->data = take(rule, action->numbers[0]);
		((struct rte_flow_action_raw_decap *)to)->size = action->numbers[0];
		return;
	}
	bytes = take(rule, action->bytes_len);
	memcpy(bytes, action->bytes, action->bytes_len);
	((struct rte_flow_action_raw_encap *)to)->data = bytes;
	((struct rte_flow_action_raw_encap *)to)->size = action->bytes_len;
}

/* Actions whose structure is an address or a number in network order. */
static void write_header_field(void *to, const struct nl_action *action)
{
	uint32_t number = action->numbers[0];

	switch (action->kind) {
	case NL_ACTION_OF_PUSH_VLAN:
		((struct rte_flow_action_of_push_vlan *)to)->ethertype = rte_cpu_to_be_16(number);
		break;
	case NL_ACTION_OF_SET_VLAN_PCP:
		((struct rte_flow_action_of_set_vlan_pcp *)to)->vlan_pcp = (uint8_t)number;
		break;
	case NL_ACTION_OF_SET_VLAN_VID:
		((struct rte_flow_action_of_set_vlan_vid *)to)->vlan_vid = rte_cpu_to_be_16(number);
		break;
	case NL_ACTION_SET_IPV4_DSCP:
	case NL_ACTION_SET_IPV6_DSCP:
		((struct rte_flow_action_set_dscp *)to)->dscp = (uint8_t)number;
		break;
	case NL_ACTION_SET_TP_DST:
	case NL_ACTION_SET_TP_SRC:
		((struct rte_flow_action_set_tp *)to)->port = rte_cpu_to_be_16(number);
		break;
	case NL_ACTION_SET_TTL:
		((struct rte_flow_action_set_ttl *)to)->ttl_value = (uint8_t)number;
		break;
	default:
		/* Addresses. */
		memcpy(to, action->bytes, action->bytes_len);
	}
}

static const void *write_conf(struct nl_rule *rule, const struct nl_action *action)
{
	void *to = take(rule, CONF_LEN);
	uint32_t number = action->numbers[0];

	switch (action->kind) {
	case NL_ACTION_DEC_TTL:
	case NL_ACTION_DROP:
	case NL_ACTION_FLAG:
	case NL_ACTION_MAC_SWAP:
	case NL_ACTION_NVGRE_DECAP:
	case NL_ACTION_VXLAN_DECAP:
	case NL_ACTION_OF_POP_VLAN:
		return NULL;
	case NL_ACTION_AGE:
		((struct rte_flow_action_age *)to)->timeout = number;
		break;
	case NL_ACTION_COUNT:
		break;
	case NL_ACTION_JUMP:
		((struct rte_flow_action_jump *)to)->group = number;
		break;
	case NL_ACTION_MARK:
		((struct rte_flow_action_mark *)to)->id = number;
		break;
	case NL_ACTION_METER:
		((struct rte_flow_action_meter *)to)->mtr_id = number;
		break;
	case NL_ACTION_PORT:
		((struct rte_flow_action_ethdev *)to)->port_id = (uint16_t)number;
		break;
	case NL_ACTION_QUEUE:
		((struct rte_flow_action_queue *)to)->index = (uint16_t)number;
		break;
	case NL_ACTION_NVGRE_ENCAP:
	case NL_ACTION_VXLAN_ENCAP:
		/* Both structures are one pointer to the headers. */
		*(struct rte_flow_item **)to =
			write_items(rule, action->headers, action->headers_count);
		break;
	case NL_ACTION_RAW_DECAP:
	case NL_ACTION_RAW_ENCAP:
		write_bytes(rule, to, action);
		break;
	case NL_ACTION_RSS:
		write_rss(rule, to, action);
		break;
	case NL_ACTION_SET_META:
		((struct rte_flow_action_set_meta *)to)->data = number;
		((struct rte_flow_action_set_meta *)to)->mask = action->numbers[1];
		break;
	case NL_ACTION_SET_TAG:
		((struct rte_flow_action_set_tag *)to)->data = number;
		((struct rte_flow_action_set_tag *)to)->mask = action->numbers[1];
		((struct rte_flow_action_set_tag *)to)->index = (uint8_t)action->numbers[2];
		break;
	default:
		write_header_field(to, action);
	}
	return to;
}

/* Room that items take at most. */
static size_t items_room(const struct nl_item *items, uint16_t count)
{
	size_t room = (count + 1u) * sizeof(struct rte_flow_item);

	for (uint16_t i = 0; i < count; i++) {
		size_t bytes = items[i].kind == NL_ITEM_RAW ? NL_IMAGE_LEN : 0;

		if (memcmp(items[i].mask, NOTHING, NL_IMAGE_LEN) != 0)
			room += (items[i].has_last ? 3 : 2) * (CONF_LEN + bytes);
	}
	return room;
}

static size_t action_room(const struct nl_action *action)
{
	size_t decap = action->kind == NL_ACTION_RAW_DECAP ? action->numbers[0] : 0;

	/* Each part may begin behind a gap. */
	return CONF_LEN + action->bytes_len + 2u * action->queues_count + decap +
	       items_room(action->headers, action->headers_count) + 4 * 8;
}

struct nl_rule *nl_rule_new(uint32_t group, uint32_t priority, const struct nl_item *items,
			    uint16_t items_count, const struct nl_action *actions,
			    uint16_t actions_count)
{
	size_t len = sizeof(struct nl_rule) + items_room(items, items_count) +
		     (actions_count + 1u) * sizeof(struct rte_flow_action);
	struct nl_rule *rule;

	for (uint16_t i = 0; i < actions_count; i++)
		len += action_room(&actions[i]);
	rule = calloc(1, len);
	if (!rule)
		return NULL;
	rule->room = (uint8_t *)(rule + 1);
	rule->end = (uint8_t *)rule + len;
	rule->attr = (struct rte_flow_attr){ .group = group, .priority = priority, .ingress = 1 };
	rule->items = write_items(rule, items, items_count);
	rule->actions = take(rule, (actions_count + 1u) * sizeof(*rule->actions));
	for (uint16_t i = 0; i < actions_count; i++) {
		rule->actions[i].type = ACTIONS[actions[i].kind];
		rule->actions[i].conf = write_conf(rule, &actions[i]);
	}
	rule->actions[actions_count].type = RTE_FLOW_ACTION_TYPE_END;
	return rule;
}

void nl_rule_free(struct nl_rule *rule)
{
	free(rule);
}

/* Notes what was said; number is a negative errno. */
static int note(struct nl_flow_error *to, int number, const struct rte_flow_error *from)
{
	to->number = number;
	to->type = from->type;
	to->has_cause = from->cause != NULL;
	to->message[0] = 0;
	if (from->message)
		strncat(to->message, from->message, sizeof(to->message) - 1);
	return number;
}

struct rte_flow *nl_flow_create(uint16_t port, const struct nl_rule *rule,
				struct nl_flow_error *error)
{
	struct rte_flow_error said = { 0 };
	struct rte_flow *flow =
		rte_flow_create(port, &rule->attr, rule->items, rule->actions, &said);

	if (!flow)
		note(error, -rte_errno, &said);
	return flow;
}

int nl_flow_validate(uint16_t port, const struct nl_rule *rule, struct nl_flow_error *error)
{
	struct rte_flow_error said = { 0 };
	int result = rte_flow_validate(port, &rule->attr, rule->items, rule->actions, &said);

	return result < 0 ? note(error, result, &said) : 0;
}

int nl_flow_destroy(uint16_t port, struct rte_flow *flow, struct nl_flow_error *error)
{
	struct rte_flow_error said = { 0 };
	int result = rte_flow_destroy(port, flow, &said);

	return result < 0 ? note(error, result, &said) : 0;
}

int nl_flow_flush(uint16_t port, struct nl_flow_error *error)
{
	struct rte_flow_error said = { 0 };
	int result = rte_flow_flush(port, &said);

	return result < 0 ? note(error, result, &said) : 0;
}

int nl_flow_count(uint16_t port, struct rte_flow *flow, uint64_t *frames, uint64_t *bytes,
		  struct nl_flow_error *error)
{
	const struct rte_flow_action count[] = {
		{ .type = RTE_FLOW_ACTION_TYPE_COUNT },
		{ .type = RTE_FLOW_ACTION_TYPE_END },
	};
	struct rte_flow_query_count counted = { 0 };
	struct rte_flow_error said = { 0 };
	int result = rte_flow_query(port, flow, count, &counted, &said);

	if (result < 0)
		return note(error, result, &said);
	*frames = counted.hits_set ? counted.hits : 0;
	*bytes = counted.bytes_set ? counted.bytes : 0;
	return 0;
}

int nl_flow_aged(uint16_t port, struct rte_flow **flows, uint32_t count,
		 struct nl_flow_error *error)
{
	struct rte_flow_error said = { 0 };
	/* An age without a context of its own is reported by its rule (rte_flow.h). */
	int result = rte_flow_get_aged_flows(port, (void **)flows, count, &said);

	return result < 0 ? note(error, result, &said) : result;
}

/* Of DPDK 23.07 and later (rte_flow.h there). */
typedef int update_actions(uint16_t, struct rte_flow *, const struct rte_flow_action[],
			   struct rte_flow_error *);

static update_actions *find_update(void)
{
	static update_actions *found;
	static bool looked;

	if (!looked) {
		found = (update_actions *)dlsym(RTLD_DEFAULT, "rte_flow_actions_update");
		looked = true;
	}
	return found;
}

bool nl_flow_has_update(void)
{
	return find_update() != NULL;
}

int nl_flow_update(uint16_t port, struct rte_flow *flow, const struct nl_rule *rule,
		   struct nl_flow_error *error)
{
	struct rte_flow_error said = { 0 };
	update_actions *update = find_update();
	int result = update ? update(port, flow, rule->actions, &said) : -ENOSYS;

	return result < 0 ? note(error, result, &said) : 0;
}

int nl_flow_queues_max(uint16_t port, uint32_t *queues, uint32_t *size,
		       struct nl_flow_error *error)
{
	struct rte_flow_port_info info = { 0 };
	struct rte_flow_queue_info queue = { 0 };
	struct rte_flow_error said = { 0 };
	int result = rte_flow_info_get(port, &info, &queue, &said);

	if (result < 0)
		return note(error, result, &said);
	*queues = info.max_nb_queues;
	*size = queue.max_size;
	return 0;
}

int nl_flow_configure(uint16_t port, uint16_t queues, uint32_t size, uint32_t rules_max,
		      struct nl_flow_error *error)
{
	struct rte_flow_port_info info = { 0 };
	struct rte_flow_queue_info queue_info = { 0 };
	struct rte_flow_port_attr attr = { 0 };
	const struct rte_flow_queue_attr queue = { .size = size };
	const struct rte_flow_queue_attr *list[RTE_MAX_LCORE];
	struct rte_flow_error said = { 0 };
	int result;

	result = rte_flow_info_get(port, &info, &queue_info, &said);
	if (result < 0)
		return note(error, result, &said);
	attr.nb_counters = RTE_MIN(rules_max, info.max_nb_counters);
	attr.nb_aging_objects = RTE_MIN(rules_max, info.max_nb_aging_objects);
	if (queues > RTE_MAX_LCORE)
		queues = RTE_MAX_LCORE;
	for (uint16_t i = 0; i < queues; i++)
		list[i] = &queue;
	result = rte_flow_configure(port, &attr, queues, list, &said);
	return result < 0 ? note(error, result, &said) : 0;
}

struct nl_table {
	struct rte_flow_pattern_template *pattern;
	struct rte_flow_actions_template *actions;
	struct rte_flow_template_table *table;
};

/* Every value of an action is given with each rule. */
static struct rte_flow_actions_template *actions_template(uint16_t port,
							  const struct nl_rule *rule,
							  struct rte_flow_error *said)
{
	const struct rte_flow_actions_template_attr attr = { .ingress = 1 };
	struct rte_flow_action masks[64];
	uint16_t count = 0;

	while (rule->actions[count].type != RTE_FLOW_ACTION_TYPE_END) {
		masks[count] = (struct rte_flow_action){ .type = rule->actions[count].type };
		if (++count == RTE_DIM(masks)) {
			rte_flow_error_set(said, E2BIG, RTE_FLOW_ERROR_TYPE_ACTION_NUM, NULL,
					   "niclab makes templates of at most 63 actions");
			return NULL;
		}
	}
	masks[count] = (struct rte_flow_action){ .type = RTE_FLOW_ACTION_TYPE_END };
	return rte_flow_actions_template_create(port, &attr, rule->actions, masks, said);
}

struct nl_table *nl_table_new(uint16_t port, const struct nl_rule *rule, uint32_t rules_max,
			      struct nl_flow_error *error)
{
	const struct rte_flow_pattern_template_attr attr = { .ingress = 1 };
	const struct rte_flow_template_table_attr table_attr = { .flow_attr = rule->attr,
								 .nb_flows = rules_max };
	struct rte_flow_error said = { 0 };
	struct nl_table *table = calloc(1, sizeof(*table));

	if (!table) {
		note(error, -ENOMEM, &said);
		return NULL;
	}
	table->pattern = rte_flow_pattern_template_create(port, &attr, rule->items, &said);
	if (table->pattern)
		table->actions = actions_template(port, rule, &said);
	if (table->actions)
		table->table = rte_flow_template_table_create(port, &table_attr, &table->pattern, 1,
							      &table->actions, 1, &said);
	if (!table->table) {
		note(error, -rte_errno, &said);
		nl_table_free(port, table);
		return NULL;
	}
	return table;
}

void nl_table_free(uint16_t port, struct nl_table *table)
{
	struct rte_flow_error said;

	if (table->table)
		rte_flow_template_table_destroy(port, table->table, &said);
	if (table->actions)
		rte_flow_actions_template_destroy(port, table->actions, &said);
	if (table->pattern)
		rte_flow_pattern_template_destroy(port, table->pattern, &said);
	free(table);
}

struct rte_flow *nl_async_create(uint16_t port, uint32_t queue, const struct nl_table *table,
				 const struct nl_rule *rule, uint64_t user,
				 struct nl_flow_error *error)
{
	const struct rte_flow_op_attr attr = { .postpone = 1 };
	struct rte_flow_error said = { 0 };
	struct rte_flow *flow =
		rte_flow_async_create(port, queue, &attr, table->table, rule->items, 0,
				      rule->actions, 0, (void *)(uintptr_t)user, &said);

	if (!flow)
		note(error, -rte_errno, &said);
	return flow;
}

int nl_async_destroy(uint16_t port, uint32_t queue, struct rte_flow *flow, uint64_t user,
		     struct nl_flow_error *error)
{
	const struct rte_flow_op_attr attr = { .postpone = 1 };
	struct rte_flow_error said = { 0 };
	int result = rte_flow_async_destroy(port, queue, &attr, flow, (void *)(uintptr_t)user,
					    &said);

	return result < 0 ? note(error, result, &said) : 0;
}

int nl_async_push(uint16_t port, uint32_t queue, struct nl_flow_error *error)
{
	struct rte_flow_error said = { 0 };
	int result = rte_flow_push(port, queue, &said);

	return result < 0 ? note(error, result, &said) : 0;
}

int nl_async_pull(uint16_t port, uint32_t queue, uint64_t *users, bool *done, uint16_t count,
		  struct nl_flow_error *error)
{
	struct rte_flow_op_result results[PULL_MAX];
	struct rte_flow_error said = { 0 };
	int found;

	if (count > PULL_MAX)
		count = PULL_MAX;
	found = rte_flow_pull(port, queue, results, count, &said);
	if (found < 0)
		return note(error, found, &said);
	found = RTE_MIN(found, (int)count);
	for (int i = 0; i < found; i++) {
		users[i] = (uintptr_t)results[i].user_data;
		done[i] = results[i].status == RTE_FLOW_OP_SUCCESS;
	}
	return found;
}
