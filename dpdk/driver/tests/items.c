/* Items and actions of rte_flow on net_niclab: for each, a frame that the rule matches and one that
 * it does not. Rules send to queue 1, and everything else arrives at queue 0. */
#include "ports.h"

#define ETH(type) "020000000001 020000000002 " type " "
/* 80 and 64 bytes follow. */
#define IPV4(protocol) ETH("0800") "4500 0050 0000 0000 40 " protocol " 0000 0a000001 0a000002 "
#define IPV6(next) \
	ETH("86dd") "60000000 0040 " next " 40 20010db8000000000000000000000001 " \
		    "20010db8000000000000000000000002 "
#define UDP(port) IPV4("11") "1000 " port " 003c 0000 "
#define LEN 118

struct item_case {
	const char *name;
	/* The items between Ethernet and the end. */
	struct rte_flow_item items[4];
	const char *matching;
	const char *other;
};

static const struct rte_flow_item_sctp sctp = {.hdr.dst_port = RTE_BE16(9)};
static const struct rte_flow_item_sctp sctp_mask = {.hdr.dst_port = RTE_BE16(0xffff)};
static const struct rte_flow_item_esp esp = {.hdr.spi = RTE_BE32(7)};
static const struct rte_flow_item_esp esp_mask = {.hdr.spi = RTE_BE32(UINT32_MAX)};
static const struct rte_flow_item_ah ah = {.spi = RTE_BE32(7)};
static const struct rte_flow_item_ah ah_mask = {.spi = UINT32_MAX};
static const struct rte_flow_item_arp_eth_ipv4 arp = {
	.sha.addr_bytes = {2, 0, 0, 0, 0, 2},
	.spa = RTE_BE32(0x0a000001),
	.tpa = RTE_BE32(0x0a000002),
};
static const struct rte_flow_item_arp_eth_ipv4 arp_mask = {
	.sha.addr_bytes = {255, 255, 255, 255, 255, 255},
	.spa = RTE_BE32(UINT32_MAX),
	.tpa = RTE_BE32(UINT32_MAX),
};
static const struct rte_flow_item_ipv6_frag_ext fragment = {.hdr.id = RTE_BE32(7)};
static const struct rte_flow_item_ipv6_frag_ext fragment_mask = {.hdr.id = RTE_BE32(UINT32_MAX)};
static const struct rte_flow_item_pppoe pppoe = {.session_id = RTE_BE16(5)};
static const struct rte_flow_item_pppoe pppoe_mask = {.session_id = RTE_BE16(0xffff)};
static const struct rte_flow_item_nvgre nvgre = {.tni = {0, 0, 7}};
static const struct rte_flow_item_nvgre nvgre_mask = {.tni = {255, 255, 255}};
static const struct rte_flow_item_vxlan_gpe gpe = {.vni = {0, 0, 7}};
static const struct rte_flow_item_vxlan_gpe gpe_mask = {.vni = {255, 255, 255}};
static const struct rte_flow_item_gtp gtp = {.teid = RTE_BE32(7)};
static const struct rte_flow_item_gtp gtp_mask = {.teid = RTE_BE32(UINT32_MAX)};
static const struct rte_flow_item_gtp_psc psc = {.hdr.qfi = 5};
static const struct rte_flow_item_gtp_psc psc_mask = {.hdr.qfi = 63};

#define ITEM(kind, value) \
	{.type = RTE_FLOW_ITEM_TYPE_##kind, .spec = &(value), .mask = &value##_mask}
#define PLAIN(kind) {.type = RTE_FLOW_ITEM_TYPE_##kind}
#define END PLAIN(END)

static const struct item_case cases[] = {
	{"sctp", {PLAIN(IPV4), ITEM(SCTP, sctp), END},
	 IPV4("84") "0007 0009 00000001 00000000", IPV4("84") "0007 000a 00000001 00000000"},
	{"esp", {PLAIN(IPV4), ITEM(ESP, esp), END}, IPV4("32") "00000007 00000001",
	 IPV4("32") "00000008 00000001"},
	{"ah", {PLAIN(IPV4), ITEM(AH, ah), END}, IPV4("33") "1104 0000 00000007 00000001",
	 IPV4("33") "1104 0000 00000008 00000001"},
	{"arp_eth_ipv4", {ITEM(ARP_ETH_IPV4, arp), END},
	 ETH("0806") "0001 0800 0604 0001 020000000002 0a000001 000000000000 0a000002",
	 ETH("0806") "0001 0800 0604 0001 020000000002 0a000001 000000000000 0a000003"},
	{"ipv6_frag_ext", {PLAIN(IPV6), ITEM(IPV6_FRAG_EXT, fragment), END}, IPV6("2c") "11 00 0001 00000007",
	 IPV6("2c") "11 00 0001 00000008"},
	{"pppoed", {ITEM(PPPOED, pppoe), END}, ETH("8863") "1109 0005 0000",
	 ETH("8863") "1109 0006 0000"},
	{"pppoes", {ITEM(PPPOES, pppoe), END}, ETH("8864") "1100 0005 0002 c021",
	 ETH("8864") "1100 0006 0002 c021"},
	{"nvgre", {PLAIN(IPV4), ITEM(NVGRE, nvgre), END}, IPV4("2f") "2000 6558 000007 00",
	 IPV4("2f") "2000 6558 000008 00"},
	{"vxlan-gpe", {PLAIN(IPV4), PLAIN(UDP), ITEM(VXLAN_GPE, gpe), END}, UDP("12b6") "0c 0000 01 000007 00",
	 UDP("12b6") "0c 0000 01 000008 00"},
	{"gtp", {PLAIN(IPV4), PLAIN(UDP), ITEM(GTP, gtp), END}, UDP("0868") "30 ff 0010 00000007",
	 UDP("0868") "30 ff 0010 00000008"},
	{"gtpu", {PLAIN(IPV4), PLAIN(UDP), ITEM(GTPU, gtp), END}, UDP("0868") "30 ff 0010 00000007",
	 UDP("084b") "30 ff 0010 00000007"},
	{"gtpc", {PLAIN(IPV4), PLAIN(UDP), ITEM(GTPC, gtp), END}, UDP("084b") "32 01 0010 00000007 00000000",
	 UDP("0868") "32 01 0010 00000007 00000000"},
	{"gtp_psc", {PLAIN(IPV4), PLAIN(UDP), PLAIN(GTPU), ITEM(GTP_PSC, psc)},
	 UDP("0868") "34 ff 0020 00000007 0000 00 85 01 10 05 00 45000014",
	 UDP("0868") "34 ff 0020 00000007 0000 00 85 01 10 06 00 45000014"},
};

/* The queue that a frame of these digits arrives at. */
static int queue_of(const char *digits)
{
	uint8_t frame[FRAME_LEN_MAX];

	bytes_of(digits, frame);
	send_frame(frame, LEN);
	return receive_frame(2, NULL);
}

static const struct rte_flow_action_queue to_one = {.index = 1};
static const struct rte_flow_action queue_one[] = {
	{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to_one},
	{.type = RTE_FLOW_ACTION_TYPE_END},
};

static void check_item(const struct item_case *one)
{
	const struct rte_flow_item items[] = {
		PLAIN(ETH), one->items[0], one->items[1], one->items[2], one->items[3], END,
	};
	struct rte_flow *rule = create(items, queue_one);
	char name[128];

	snprintf(name, sizeof(name), "item %s%s%s", one->name, rule == NULL ? ": " : "",
		 rule == NULL ? error.message : "");
	check(name, rule != NULL && queue_of(one->matching) == 1 && queue_of(one->other) == 0);
	if (rule != NULL && rte_flow_destroy(RECEIVER, rule, &error) != 0)
		give_up("rte_flow_destroy");
}

/* The frame after an action, which the rule carries out before it sends the frame to queue 1. */
static void check_action(const char *name, enum rte_flow_action_type action, size_t at,
			 const char *expected)
{
	const struct rte_flow_item items[] = {PLAIN(ETH), PLAIN(IPV4), END};
	const struct rte_flow_action actions[] = {{.type = action}, queue_one[0], queue_one[1]};
	uint8_t frame[FRAME_LEN_MAX], wanted[FRAME_LEN_MAX];
	struct rte_flow *rule = create(items, actions);

	bytes_of(UDP("0009"), frame);
	bytes_of(expected, wanted);
	send_frame(frame, LEN);
	const int queue = receive_frame(2, frame);
	check(name, rule != NULL && queue == 1 && memcmp(frame + at, wanted, 12) == 0);
	if (rule != NULL && rte_flow_destroy(RECEIVER, rule, &error) != 0)
		give_up("rte_flow_destroy");
}

int main(int argc, char **argv)
{
	open_ports(argc, argv);
	for (size_t i = 0; i < RTE_DIM(cases); i++)
		check_item(&cases[i]);
	check_action("action mac_swap", RTE_FLOW_ACTION_TYPE_MAC_SWAP, 0,
		     "020000000002 020000000001");
	/* TTL, protocol, checksum and source. The checksum was 0, and changes with the TTL. */
	check_action("action of_dec_nw_ttl", RTE_FLOW_ACTION_TYPE_OF_DEC_NW_TTL, 22,
		     "3f 11 0100 0a000001 0a000002");
	return close_ports();
}
