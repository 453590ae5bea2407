/* Items, actions and errors: from DPDK's structs to those of libniclab, and back. */
#include "driver.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_byteorder.h>

static int item_failed(const struct rte_flow_item *item, const char *message,
		       struct rte_flow_error *error)
{
	return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, item, message);
}

static int action_failed(const struct rte_flow_action *action, int code, const char *message,
			 struct rte_flow_error *error)
{
	return rte_flow_error_set(error, code, RTE_FLOW_ERROR_TYPE_ACTION, action, message);
}

static void put_be32(uint8_t *to, uint32_t value)
{
	value = rte_cpu_to_be_32(value);
	memcpy(to, &value, sizeof(value));
}

/* Makes the bytes of one of spec, last and mask of an item that DPDK stores otherwise. */
static int convert(enum rte_flow_item_type type, const void *from, uint8_t *to)
{
	switch (type) {
	case RTE_FLOW_ITEM_TYPE_ETH:
		memcpy(to, from, 14);
		to[14] = ((const struct rte_flow_item_eth *)from)->has_vlan;
		return 0;
	case RTE_FLOW_ITEM_TYPE_VLAN:
		memcpy(to, from, 4);
		to[4] = ((const struct rte_flow_item_vlan *)from)->has_more_vlan;
		return 0;
	case RTE_FLOW_ITEM_TYPE_IPV6: {
		const struct rte_flow_item_ipv6 *ipv6 = from;

		memcpy(to, from, 40);
		to[40] = ipv6->has_frag_ext;
		return ipv6->has_hop_ext || ipv6->has_route_ext || ipv6->has_auth_ext ||
				       ipv6->has_esp_ext || ipv6->has_dest_ext ||
				       ipv6->has_mobil_ext || ipv6->has_hip_ext ||
				       ipv6->has_shim6_ext
			       ? -1
			       : 0;
	}
	case RTE_FLOW_ITEM_TYPE_ARP_ETH_IPV4: {
		/* DPDK's structure has gaps before the addresses of IPv4. */
		const struct rte_flow_item_arp_eth_ipv4 *arp = from;

		memcpy(to, arp, 8);
		memcpy(to + 8, &arp->sha, 6);
		memcpy(to + 14, &arp->spa, 4);
		memcpy(to + 18, &arp->tha, 6);
		memcpy(to + 24, &arp->tpa, 4);
		return 0;
	}
	case RTE_FLOW_ITEM_TYPE_META:
		put_be32(to, ((const struct rte_flow_item_meta *)from)->data);
		return 0;
	case RTE_FLOW_ITEM_TYPE_TAG:
		put_be32(to, ((const struct rte_flow_item_tag *)from)->data);
		to[4] = ((const struct rte_flow_item_tag *)from)->index;
		return 0;
	default:
		return -1;
	}
}

/* `raw`: its fields, and the bytes that it looks for. A mask without bytes covers all of them. */
static int convert_raw(const struct rte_flow_item_raw *from, const struct rte_flow_item_raw *spec,
		       uint8_t *to)
{
	const uint8_t *pattern = from->pattern;
	const uint16_t len = spec->length;

	if (len > NL_ITEM_BYTES - 8)
		return -1;
	memset(to, 0, NL_ITEM_BYTES);
	to[0] = from->relative << 7 | from->search << 6;
	put_be32(to + 1, (uint32_t)from->offset);
	to[5] = from->limit >> 8;
	to[6] = (uint8_t)from->limit;
	to[7] = from == spec ? (uint8_t)len : 0;
	if (pattern != NULL)
		memcpy(to + 8, pattern, len);
	else
		memset(to + 8, 0xff, len);
	return 0;
}

/* Items whose bytes are read as those on the wire. */
static_assert(sizeof(struct rte_flow_item_sctp) == 12, "as on the wire");
static_assert(sizeof(struct rte_flow_item_esp) == 8, "as on the wire");
static_assert(sizeof(struct rte_flow_item_ah) == 12, "as on the wire");
static_assert(offsetof(struct rte_flow_item_ah, spi) == 4, "as on the wire");
static_assert(sizeof(struct rte_flow_item_ipv6_frag_ext) == 8, "as on the wire");
static_assert(sizeof(struct rte_flow_item_pppoe) == 6, "as on the wire");
static_assert(sizeof(struct rte_flow_item_nvgre) == 8, "as on the wire");
static_assert(offsetof(struct rte_flow_item_nvgre, tni) == 4, "as on the wire");
static_assert(sizeof(struct rte_flow_item_vxlan_gpe) == 8, "as on the wire");
static_assert(offsetof(struct rte_flow_item_vxlan_gpe, vni) == 4, "as on the wire");
static_assert(sizeof(struct rte_flow_item_gtp) == 8, "as on the wire");
static_assert(sizeof(struct rte_flow_item_gtp_psc) == 3, "as on the wire");

/* The kind of an item whose bytes are those on the wire in DPDK too, or -1. */
static int plain_kind(enum rte_flow_item_type type)
{
	switch (type) {
	case RTE_FLOW_ITEM_TYPE_IPV4:
		return NICLAB_ITEM_KIND_IPV4;
	case RTE_FLOW_ITEM_TYPE_ICMP:
		return NICLAB_ITEM_KIND_ICMP;
	case RTE_FLOW_ITEM_TYPE_ICMP6:
		return NICLAB_ITEM_KIND_ICMP6;
	case RTE_FLOW_ITEM_TYPE_TCP:
		return NICLAB_ITEM_KIND_TCP;
	case RTE_FLOW_ITEM_TYPE_UDP:
		return NICLAB_ITEM_KIND_UDP;
	case RTE_FLOW_ITEM_TYPE_GRE:
		return NICLAB_ITEM_KIND_GRE;
	case RTE_FLOW_ITEM_TYPE_GRE_KEY:
		return NICLAB_ITEM_KIND_GRE_KEY;
	case RTE_FLOW_ITEM_TYPE_VXLAN:
		return NICLAB_ITEM_KIND_VXLAN;
	case RTE_FLOW_ITEM_TYPE_GENEVE:
		return NICLAB_ITEM_KIND_GENEVE;
	case RTE_FLOW_ITEM_TYPE_MPLS:
		return NICLAB_ITEM_KIND_MPLS;
	case RTE_FLOW_ITEM_TYPE_SCTP:
		return NICLAB_ITEM_KIND_SCTP;
	case RTE_FLOW_ITEM_TYPE_ESP:
		return NICLAB_ITEM_KIND_ESP;
	case RTE_FLOW_ITEM_TYPE_AH:
		return NICLAB_ITEM_KIND_AH;
	case RTE_FLOW_ITEM_TYPE_IPV6_FRAG_EXT:
		return NICLAB_ITEM_KIND_IPV6_FRAG_EXT;
	case RTE_FLOW_ITEM_TYPE_PPPOED:
		return NICLAB_ITEM_KIND_PPPOED;
	case RTE_FLOW_ITEM_TYPE_PPPOES:
		return NICLAB_ITEM_KIND_PPPOES;
	case RTE_FLOW_ITEM_TYPE_NVGRE:
		return NICLAB_ITEM_KIND_NVGRE;
	case RTE_FLOW_ITEM_TYPE_VXLAN_GPE:
		return NICLAB_ITEM_KIND_VXLAN_GPE;
	case RTE_FLOW_ITEM_TYPE_GTP:
		return NICLAB_ITEM_KIND_GTP;
	case RTE_FLOW_ITEM_TYPE_GTPC:
		return NICLAB_ITEM_KIND_GTPC;
	case RTE_FLOW_ITEM_TYPE_GTPU:
		return NICLAB_ITEM_KIND_GTPU;
	case RTE_FLOW_ITEM_TYPE_GTP_PSC:
		return NICLAB_ITEM_KIND_GTP_PSC;
	default:
		return -1;
	}
}

static int converted_kind(enum rte_flow_item_type type)
{
	switch (type) {
	case RTE_FLOW_ITEM_TYPE_ETH:
		return NICLAB_ITEM_KIND_ETH;
	case RTE_FLOW_ITEM_TYPE_VLAN:
		return NICLAB_ITEM_KIND_VLAN;
	case RTE_FLOW_ITEM_TYPE_IPV6:
		return NICLAB_ITEM_KIND_IPV6;
	case RTE_FLOW_ITEM_TYPE_ARP_ETH_IPV4:
		return NICLAB_ITEM_KIND_ARP_ETH_IPV4;
	case RTE_FLOW_ITEM_TYPE_META:
		return NICLAB_ITEM_KIND_META;
	case RTE_FLOW_ITEM_TYPE_TAG:
		return NICLAB_ITEM_KIND_TAG;
	case RTE_FLOW_ITEM_TYPE_RAW:
		return NICLAB_ITEM_KIND_RAW;
	default:
		return -1;
	}
}

static int convert_item(const struct rte_flow_item *item, struct niclab_item *to, uint8_t bytes[3][48],
			struct rte_flow_error *error)
{
	const void *from[3] = {item->spec, item->last, item->mask};
	const uint8_t **into[3] = {&to->spec, &to->last, &to->mask};

	for (int i = 0; i < 3; i++) {
		if (from[i] == NULL)
			continue;
		if (item->type == RTE_FLOW_ITEM_TYPE_RAW) {
			if (item->spec == NULL || i == 1)
				return item_failed(item, "raw: give a spec and no last", error);
			if (convert_raw(from[i], item->spec, bytes[i]) != 0)
				return item_failed(item, "raw: a pattern has at most 40 bytes", error);
		} else if (convert(item->type, from[i], bytes[i]) != 0 && i != 1) {
			return item_failed(item, "ipv6: of the has_*_ext flags only has_frag_ext "
						 "is matched", error);
		}
		*into[i] = bytes[i];
	}
	return 0;
}

int nl_translate_items(const struct rte_flow_item *from, struct nl_items *to,
		       struct rte_flow_error *error)
{
	to->count = 0;
	if (from == NULL)
		return rte_flow_error_set(error, EINVAL, RTE_FLOW_ERROR_TYPE_ITEM_NUM, NULL,
					  "the pattern is NULL; end it with an END item");
	for (; from->type != RTE_FLOW_ITEM_TYPE_END; from++) {
		if (from->type == RTE_FLOW_ITEM_TYPE_VOID)
			continue;
		if (to->count == NL_ITEMS_MAX)
			return item_failed(from, "a pattern has at most 16 items", error);
		struct niclab_item *item = &to->items[to->count];
		int kind = plain_kind(from->type);

		if (kind >= 0) {
			*item = (struct niclab_item){kind, from->spec, from->last, from->mask};
		} else {
			kind = converted_kind(from->type);
			if (kind < 0)
				return item_failed(from, "niclab does not match this item", error);
			*item = (struct niclab_item){.kind = kind};
			int result = convert_item(from, item, to->bytes[to->count], error);

			if (result != 0)
				return result;
		}
		to->from[to->count++] = from;
	}
	return 0;
}

/* The headers of an encapsulation that is given as items, in a row. Types and protocols that are
 * left out are filled in. */
static int encapsulation(const struct rte_flow_item *items, int is_vxlan, uint8_t *to)
{
	size_t len = 0;
	rte_be16_t *type = NULL;
	uint8_t *protocol = NULL;

	if (items == NULL)
		return 0;
	for (; items->type != RTE_FLOW_ITEM_TYPE_END; items++) {
		size_t size;

		if (items->type == RTE_FLOW_ITEM_TYPE_VOID)
			continue;
		switch (items->type) {
		case RTE_FLOW_ITEM_TYPE_ETH:
			size = 14;
			break;
		case RTE_FLOW_ITEM_TYPE_VLAN:
		case RTE_FLOW_ITEM_TYPE_GRE_KEY:
			size = 4;
			break;
		case RTE_FLOW_ITEM_TYPE_IPV4:
			size = 20;
			break;
		case RTE_FLOW_ITEM_TYPE_IPV6:
			size = 40;
			break;
		case RTE_FLOW_ITEM_TYPE_UDP:
		case RTE_FLOW_ITEM_TYPE_VXLAN:
		case RTE_FLOW_ITEM_TYPE_NVGRE:
			size = 8;
			break;
		default:
			return -1;
		}
		if (items->spec == NULL || len + size > NL_ENCAP_BYTES)
			return -1;
		uint8_t *header = to + len;
		memcpy(header, items->spec, size);
		if (items->type == RTE_FLOW_ITEM_TYPE_ETH) {
			type = (rte_be16_t *)(header + 12);
		} else if (items->type == RTE_FLOW_ITEM_TYPE_VLAN) {
			if (type != NULL && *type == 0)
				*type = RTE_BE16(RTE_ETHER_TYPE_VLAN);
			type = (rte_be16_t *)(header + 2);
		} else if (items->type == RTE_FLOW_ITEM_TYPE_IPV4 ||
			   items->type == RTE_FLOW_ITEM_TYPE_IPV6) {
			const int is_ipv4 = items->type == RTE_FLOW_ITEM_TYPE_IPV4;

			if (type != NULL && *type == 0)
				*type = is_ipv4 ? RTE_BE16(RTE_ETHER_TYPE_IPV4)
						: RTE_BE16(RTE_ETHER_TYPE_IPV6);
			header[0] = is_ipv4 ? 0x45 : 0x60 | (header[0] & 0xf);
			protocol = header + (is_ipv4 ? 9 : 6);
			if (*protocol == 0)
				*protocol = is_vxlan ? 17 : 47;
			if (header[is_ipv4 ? 8 : 7] == 0)
				header[is_ipv4 ? 8 : 7] = 64;
		} else if (items->type == RTE_FLOW_ITEM_TYPE_UDP) {
			if (header[2] == 0 && header[3] == 0) {
				header[2] = 4789 >> 8;
				header[3] = 4789 & 0xff;
			}
		} else if (items->type == RTE_FLOW_ITEM_TYPE_VXLAN) {
			header[0] |= 0x08;
		} else if (items->type == RTE_FLOW_ITEM_TYPE_NVGRE) {
			/* The key bit, and transparent Ethernet bridging. */
			header[0] = 0x20;
			header[1] = 0;
			header[2] = 0x65;
			header[3] = 0x58;
		}
		len += size;
	}
	return (int)len;
}

/* Sets a field to a number, or to the bytes of an address. */
static void set_field(struct niclab_action *to, uint32_t field, uint32_t value, const void *bytes,
		      size_t len)
{
	to->kind = NICLAB_ACTION_KIND_SET;
	to->index = field;
	to->value = value;
	to->bytes = bytes;
	to->bytes_len = len;
}

/* Actions that set a field; -1 for any other action. */
static int translate_set(const struct rte_flow_action *from, struct niclab_action *to)
{
	const void *conf = from->conf;

	switch ((int)from->type) {
	case RTE_FLOW_ACTION_TYPE_SET_IPV4_SRC:
		set_field(to, NICLAB_FIELD_IPV4_SRC, 0, conf, 4);
		return 0;
	case RTE_FLOW_ACTION_TYPE_SET_IPV4_DST:
		set_field(to, NICLAB_FIELD_IPV4_DST, 0, conf, 4);
		return 0;
	case RTE_FLOW_ACTION_TYPE_SET_IPV6_SRC:
		set_field(to, NICLAB_FIELD_IPV6_SRC, 0, conf, 16);
		return 0;
	case RTE_FLOW_ACTION_TYPE_SET_IPV6_DST:
		set_field(to, NICLAB_FIELD_IPV6_DST, 0, conf, 16);
		return 0;
	case RTE_FLOW_ACTION_TYPE_SET_MAC_SRC:
		set_field(to, NICLAB_FIELD_MAC_SRC, 0, conf, 6);
		return 0;
	case RTE_FLOW_ACTION_TYPE_SET_MAC_DST:
		set_field(to, NICLAB_FIELD_MAC_DST, 0, conf, 6);
		return 0;
	case RTE_FLOW_ACTION_TYPE_SET_TP_SRC:
		set_field(to, NICLAB_FIELD_TP_SRC,
			  rte_be_to_cpu_16(((const struct rte_flow_action_set_tp *)conf)->port),
			  NULL, 0);
		return 0;
	case RTE_FLOW_ACTION_TYPE_SET_TP_DST:
		set_field(to, NICLAB_FIELD_TP_DST,
			  rte_be_to_cpu_16(((const struct rte_flow_action_set_tp *)conf)->port),
			  NULL, 0);
		return 0;
	case RTE_FLOW_ACTION_TYPE_SET_TTL:
		set_field(to, NICLAB_FIELD_TTL, ((const struct rte_flow_action_set_ttl *)conf)->ttl_value, NULL,
			  0);
		return 0;
	case RTE_FLOW_ACTION_TYPE_SET_IPV4_DSCP:
		set_field(to, NICLAB_FIELD_IPV4_DSCP, ((const struct rte_flow_action_set_dscp *)conf)->dscp, NULL,
			  0);
		return 0;
	case RTE_FLOW_ACTION_TYPE_SET_IPV6_DSCP:
		set_field(to, NICLAB_FIELD_IPV6_DSCP, ((const struct rte_flow_action_set_dscp *)conf)->dscp, NULL,
			  0);
		return 0;
	case RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID:
		set_field(to, NICLAB_FIELD_VLAN_VID,
			  rte_be_to_cpu_16(
				  ((const struct rte_flow_action_of_set_vlan_vid *)conf)->vlan_vid),
			  NULL, 0);
		return 0;
	case RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_PCP:
		set_field(to, NICLAB_FIELD_VLAN_PCP,
			  ((const struct rte_flow_action_of_set_vlan_pcp *)conf)->vlan_pcp, NULL,
			  0);
		return 0;
	default:
		return -1;
	}
}

/* Actions without a configuration; -1 for any other action. */
static int translate_bare(const struct rte_flow_action *from, struct niclab_action *to)
{
	switch ((int)from->type) {
	case RTE_FLOW_ACTION_TYPE_DROP:
		to->kind = NICLAB_ACTION_KIND_DROP;
		return 0;
	case RTE_FLOW_ACTION_TYPE_COUNT:
		to->kind = NICLAB_ACTION_KIND_COUNT;
		return 0;
	case RTE_FLOW_ACTION_TYPE_FLAG:
		to->kind = NICLAB_ACTION_KIND_FLAG;
		return 0;
	case RTE_FLOW_ACTION_TYPE_MAC_SWAP:
		to->kind = NICLAB_ACTION_KIND_MAC_SWAP;
		return 0;
	case RTE_FLOW_ACTION_TYPE_OF_DEC_NW_TTL:
	case RTE_FLOW_ACTION_TYPE_DEC_TTL:
		to->kind = NICLAB_ACTION_KIND_DEC_TTL;
		return 0;
	case RTE_FLOW_ACTION_TYPE_OF_POP_VLAN:
		to->kind = NICLAB_ACTION_KIND_POP_VLAN;
		return 0;
	case RTE_FLOW_ACTION_TYPE_VXLAN_DECAP:
		to->kind = NICLAB_ACTION_KIND_VXLAN_DECAP;
		return 0;
	case RTE_FLOW_ACTION_TYPE_NVGRE_DECAP:
		to->kind = NICLAB_ACTION_KIND_NVGRE_DECAP;
		return 0;
	case RTE_FLOW_ACTION_TYPE_INDIRECT:
		to->kind = NICLAB_ACTION_KIND_INDIRECT;
		to->context = (uintptr_t)from->conf;
		return 0;
	default:
		return -1;
	}
}

static int translate_rss(const struct rte_flow_action_rss *from, struct niclab_rss *to)
{
	*to = (struct niclab_rss){
		.types = from->types != 0 ? nl_rss_types(from->types) : UINT32_MAX,
		.level = from->level,
		.queues_len = from->queue_num,
		.key_len = from->key != NULL ? from->key_len : 0,
		.key = from->key,
		.queues = from->queue,
	};
	switch (from->func) {
	case RTE_ETH_HASH_FUNCTION_DEFAULT:
		to->function = 255;
		break;
	case RTE_ETH_HASH_FUNCTION_TOEPLITZ:
		to->function = 0;
		break;
	case RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ:
		to->function = 1;
		break;
	default:
		return -1;
	}
	return from->level <= 2 && from->queue_num <= UINT16_MAX && !(from->types & ~NL_RSS_TYPES)
		       ? 0
		       : -1;
}

/* Actions with numbers or bytes; 1 for any other action, or a negative error. */
static int translate_one(const struct nl_device *device, const struct rte_flow_action *from,
			 struct niclab_action *to, struct nl_actions *all,
			 struct rte_flow_error *error)
{
	const void *conf = from->conf;
	int len;

	switch ((int)from->type) {
	case RTE_FLOW_ACTION_TYPE_QUEUE:
		to->kind = NICLAB_ACTION_KIND_QUEUE;
		to->value = ((const struct rte_flow_action_queue *)conf)->index;
		return 0;
	case RTE_FLOW_ACTION_TYPE_MARK:
		to->kind = NICLAB_ACTION_KIND_MARK;
		to->value = ((const struct rte_flow_action_mark *)conf)->id;
		return 0;
	case RTE_FLOW_ACTION_TYPE_JUMP:
		to->kind = NICLAB_ACTION_KIND_JUMP;
		to->value = ((const struct rte_flow_action_jump *)conf)->group;
		return 0;
	case RTE_FLOW_ACTION_TYPE_METER:
		to->kind = NICLAB_ACTION_KIND_METER;
		to->value = ((const struct rte_flow_action_meter *)conf)->mtr_id;
		return 0;
	case RTE_FLOW_ACTION_TYPE_AGE:
		to->kind = NICLAB_ACTION_KIND_AGE;
		to->value = ((const struct rte_flow_action_age *)conf)->timeout;
		to->context = (uintptr_t)((const struct rte_flow_action_age *)conf)->context;
		all->has_age = 1;
		return 0;
	case RTE_FLOW_ACTION_TYPE_RSS:
		to->kind = NICLAB_ACTION_KIND_RSS;
		to->rss = &all->rss;
		if (translate_rss(conf, &all->rss) != 0)
			return action_failed(from, ENOTSUP,
					     "rss: the function is toeplitz or symmetric_toeplitz, "
					     "the level 0, 1 or 2", error);
		return 0;
	case RTE_FLOW_ACTION_TYPE_OF_PUSH_VLAN:
		to->kind = NICLAB_ACTION_KIND_PUSH_VLAN;
		to->value = rte_be_to_cpu_16(
			((const struct rte_flow_action_of_push_vlan *)conf)->ethertype);
		return 0;
	case RTE_FLOW_ACTION_TYPE_SET_META:
		to->kind = NICLAB_ACTION_KIND_SET_META;
		to->value = ((const struct rte_flow_action_set_meta *)conf)->data;
		to->mask = ((const struct rte_flow_action_set_meta *)conf)->mask;
		return 0;
	case RTE_FLOW_ACTION_TYPE_SET_TAG:
		to->kind = NICLAB_ACTION_KIND_SET_TAG;
		to->value = ((const struct rte_flow_action_set_tag *)conf)->data;
		to->mask = ((const struct rte_flow_action_set_tag *)conf)->mask;
		to->index = ((const struct rte_flow_action_set_tag *)conf)->index;
		return 0;
	case RTE_FLOW_ACTION_TYPE_RAW_ENCAP:
		to->kind = NICLAB_ACTION_KIND_RAW_ENCAP;
		to->bytes = ((const struct rte_flow_action_raw_encap *)conf)->data;
		to->bytes_len = ((const struct rte_flow_action_raw_encap *)conf)->size;
		return 0;
	case RTE_FLOW_ACTION_TYPE_RAW_DECAP:
		to->kind = NICLAB_ACTION_KIND_RAW_DECAP;
		to->value = (uint32_t)((const struct rte_flow_action_raw_decap *)conf)->size;
		return 0;
	case RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP:
	case RTE_FLOW_ACTION_TYPE_NVGRE_ENCAP: {
		const int is_vxlan = from->type == RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP;
		uint8_t *headers = all->encap[to - all->actions];

		/* Both actions have the same configuration: a list of items. */
		len = encapsulation(((const struct rte_flow_action_vxlan_encap *)conf)->definition,
				    is_vxlan, headers);
		if (len < 0)
			return action_failed(from, EINVAL,
					     "the headers are eth, vlan, ipv4 or ipv6, and udp / "
					     "vxlan or nvgre, each with a spec", error);
		to->kind = is_vxlan ? NICLAB_ACTION_KIND_VXLAN_ENCAP : NICLAB_ACTION_KIND_NVGRE_ENCAP;
		to->bytes = headers;
		to->bytes_len = len;
		return 0;
	}
	case RTE_FLOW_ACTION_TYPE_PORT_ID:
	case RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT:
		return action_failed(from, ENOTSUP,
				     "a net_niclab port sends no packet by itself; forward it "
				     "in the program", error);
	default:
		RTE_SET_USED(device);
		return 1;
	}
}

/* The configuration of an action of a template whose values come with each rule. */
static const uint64_t no_values[32];

int nl_translate_actions(const struct nl_device *device, const struct rte_flow_action *from,
			 enum nl_values values, struct nl_actions *to,
			 struct rte_flow_error *error)
{
	to->count = 0;
	to->has_age = 0;
	if (from == NULL)
		return rte_flow_error_set(error, EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_NUM, NULL,
					  "the list of actions is NULL; end it with an END action");
	for (; from->type != RTE_FLOW_ACTION_TYPE_END; from++) {
		if (from->type == RTE_FLOW_ACTION_TYPE_VOID)
			continue;
		if (to->count == NL_ACTIONS_MAX)
			return action_failed(from, EINVAL, "a rule has at most 16 actions", error);
		struct niclab_action *action = &to->actions[to->count];

		*action = (struct niclab_action){0};
		to->from[to->count++] = from;
		if (translate_bare(from, action) == 0)
			continue;
		if (from->conf == NULL && values == NL_VALUES_ALL)
			return action_failed(from, EINVAL, "the action has no configuration", error);
		const struct rte_flow_action one = {
			.type = from->type,
			/* The values come with each rule. */
			.conf = from->conf != NULL ? from->conf : no_values,
		};
		if (translate_set(&one, action) == 0)
			continue;
		int result = translate_one(device, &one, action, to, error);

		if (result > 0)
			return action_failed(from, ENOTSUP, "niclab does not have this action", error);
		if (result < 0) {
			/* The cause is the program's action, not our copy of it. */
			if (error != NULL)
				error->cause = from;
			return result;
		}
	}
	return 0;
}

int nl_check_attr(const struct rte_flow_attr *attr, struct rte_flow_error *error)
{
	if (attr == NULL)
		return rte_flow_error_set(error, EINVAL, RTE_FLOW_ERROR_TYPE_ATTR, NULL,
					  "the attributes are NULL");
	if (attr->egress)
		return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_EGRESS, attr,
					  "niclab has no rules for egress; use ingress");
	if (attr->transfer)
		return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_TRANSFER, attr,
					  "niclab has no transfer rules; use ingress");
	if (!attr->ingress)
		return rte_flow_error_set(error, EINVAL, RTE_FLOW_ERROR_TYPE_ATTR_INGRESS, attr,
					  "the rule has no direction; use ingress");
	return 0;
}

int nl_flow_failed(int result, const struct niclab_error *why, const struct nl_items *items,
		   const struct nl_actions *actions, struct rte_flow_error *error)
{
	/* rte_flow keeps a pointer: each thread's last message stays until its next. */
	static __thread char message[NICLAB_MESSAGE_LEN];
	enum rte_flow_error_type type = RTE_FLOW_ERROR_TYPE_UNSPECIFIED;
	const void *cause = NULL;

	if (result == 0)
		return 0;
	snprintf(message, sizeof(message), "%s", why->message);
	switch ((enum niclab_part)why->part) {
	case NICLAB_PART_ITEM:
		type = RTE_FLOW_ERROR_TYPE_ITEM;
		if (items != NULL && why->index < items->count)
			cause = items->from[why->index];
		break;
	case NICLAB_PART_ACTION:
		type = RTE_FLOW_ERROR_TYPE_ACTION;
		if (actions != NULL && why->index < actions->count)
			cause = actions->from[why->index];
		break;
	case NICLAB_PART_ACTIONS:
		type = RTE_FLOW_ERROR_TYPE_ACTION_NUM;
		break;
	case NICLAB_PART_GROUP:
		type = RTE_FLOW_ERROR_TYPE_ATTR_GROUP;
		break;
	case NICLAB_PART_PRIORITY:
		type = RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY;
		break;
	case NICLAB_PART_HANDLE:
		type = RTE_FLOW_ERROR_TYPE_HANDLE;
		break;
	default:
		break;
	}
	return rte_flow_error_set(error, -result, type, cause, message);
}
