/* What rte_flow of net_niclab keeps in seldom used cases: handles after a port has other queues,
 * counters after updates, templates with masks, full operation queues, aged rules, statistics, two
 * tunnels in one rule. */
#include "ports.h"

#define FLOW_QUEUE 0
#define LEN 60
#define DATAGRAM \
	"020000000001 020000000002 0800 4500 002e 0000 0000 40 11 0000 0a000001 0a000002 1000 0009 " \
	"001a 0000"

static const struct rte_flow_item datagrams[] = {
	{.type = RTE_FLOW_ITEM_TYPE_ETH},
	{.type = RTE_FLOW_ITEM_TYPE_IPV4},
	{.type = RTE_FLOW_ITEM_TYPE_UDP},
	{.type = RTE_FLOW_ITEM_TYPE_END},
};
static const struct rte_flow_action_queue to_one = {.index = 1};
static const struct rte_flow_action queue_one[] = {
	{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to_one},
	{.type = RTE_FLOW_ACTION_TYPE_END},
};

/* Sends a datagram; returns the queue that gets it. */
static int send_datagram(uint16_t queues, uint8_t *frame)
{
	uint8_t bytes[FRAME_LEN_MAX];

	bytes_of(DATAGRAM, bytes);
	send_frame(bytes, LEN);
	return receive_frame(queues, frame);
}

static void open_flow_queue(uint32_t size)
{
	const struct rte_flow_port_attr port = {0};
	const struct rte_flow_queue_attr queue = {.size = size};
	const struct rte_flow_queue_attr *queues[] = {&queue};

	if (rte_eth_dev_stop(RECEIVER) != 0 ||
	    rte_flow_configure(RECEIVER, &port, 1, queues, &error) != 0 ||
	    rte_eth_dev_start(RECEIVER) != 0)
		give_up("rte_flow_configure");
}

/* The status of the operation that ends next. */
static int pull(void)
{
	struct rte_flow_op_result result;

	for (int turn = 0; turn < 1000; turn++)
		if (rte_flow_pull(RECEIVER, FLOW_QUEUE, &result, 1, &error) == 1)
			return result.status;
	return -1;
}

struct templates {
	struct rte_flow_pattern_template *pattern;
	struct rte_flow_actions_template *actions;
	struct rte_flow_template_table *table;
};

static struct templates make_templates(const struct rte_flow_action *actions,
				       const struct rte_flow_action *masks)
{
	const struct rte_flow_pattern_template_attr pattern_attr = {.ingress = 1};
	const struct rte_flow_actions_template_attr actions_attr = {.ingress = 1};
	const struct rte_flow_template_table_attr attr = {
		.flow_attr = {.ingress = 1},
		.nb_flows = 16,
	};
	struct templates made;

	made.pattern = rte_flow_pattern_template_create(RECEIVER, &pattern_attr, datagrams, &error);
	made.actions =
		rte_flow_actions_template_create(RECEIVER, &actions_attr, actions, masks, &error);
	if (made.pattern == NULL || made.actions == NULL)
		give_up("templates");
	made.table = rte_flow_template_table_create(RECEIVER, &attr, &made.pattern, 1, &made.actions,
						    1, &error);
	if (made.table == NULL)
		give_up("the template table");
	return made;
}

static void destroy_templates(struct templates *made)
{
	if (rte_flow_template_table_destroy(RECEIVER, made->table, &error) != 0 ||
	    rte_flow_actions_template_destroy(RECEIVER, made->actions, &error) != 0 ||
	    rte_flow_pattern_template_destroy(RECEIVER, made->pattern, &error) != 0)
		give_up("templates are destroyed");
}

static struct rte_flow *enqueue(struct templates *made, const struct rte_flow_action *actions)
{
	const struct rte_flow_op_attr now = {0};
	struct rte_flow *rule = rte_flow_async_create(RECEIVER, FLOW_QUEUE, &now, made->table,
						      datagrams, 0, actions, 0, NULL, &error);

	return rule != NULL && pull() == RTE_FLOW_OP_SUCCESS ? rule : NULL;
}

/* Another number of queues: the port stays isolated, and old handles name nothing. */
static void check_other_queues(void)
{
	struct rte_flow *old[2], *new;

	if (rte_flow_isolate(RECEIVER, 1, &error) != 0)
		give_up("rte_flow_isolate");
	old[0] = create(datagrams, queue_one);
	open_flow_queue(8);
	struct templates made = make_templates(queue_one, queue_one);
	if (old[0] == NULL || rte_flow_destroy(RECEIVER, old[0], &error) != 0)
		give_up("the first rule");
	old[1] = enqueue(&made, queue_one);
	if (old[1] == NULL)
		give_up("the second rule");
	rte_eth_dev_stop(RECEIVER);
	start(RECEIVER, 4);
	check("a port stays isolated when it gets other queues", send_datagram(4, NULL) == -1);
	open_flow_queue(8);
	new = create(datagrams, queue_one);
	int named = 0;
	for (int i = 0; i < 2; i++)
		named += rte_flow_destroy(RECEIVER, old[i], &error) == 0;
	check("handles of rules before that name nothing",
	      new != NULL && named == 0 && send_datagram(4, NULL) == 1);
	if (new != NULL)
		rte_flow_destroy(RECEIVER, new, &error);
	new = enqueue(&made, queue_one);
	check("a template table works on", new != NULL && send_datagram(4, NULL) == 1);
	rte_flow_flush(RECEIVER, &error);
	destroy_templates(&made);
	rte_flow_isolate(RECEIVER, 0, &error);
}

/* Masks of actions templates: a value whose mask is 0 comes with each rule. */
static void check_masks(void)
{
	const struct rte_flow_action_set_mac of_template = {.mac_addr = {2, 0, 0, 0, 0, 7}};
	const struct rte_flow_action_set_mac of_rule = {.mac_addr = {2, 0, 0, 0, 0, 8}};
	const struct rte_flow_action_set_mac none = {0}, all = {.mac_addr = {255, 255, 255, 255, 255, 255}};
	const struct rte_flow_action_set_mac *masks[] = {&none, &all, NULL};
	const uint8_t expected[] = {8, 7, 8};

	for (int i = 0; i < 3; i++) {
		const struct rte_flow_action actions[] = {
			{.type = RTE_FLOW_ACTION_TYPE_SET_MAC_DST, .conf = &of_template},
			queue_one[0], queue_one[1],
		};
		const struct rte_flow_action mask[] = {
			{.type = RTE_FLOW_ACTION_TYPE_SET_MAC_DST, .conf = masks[i]},
			{.type = RTE_FLOW_ACTION_TYPE_QUEUE},
			{.type = RTE_FLOW_ACTION_TYPE_END},
		};
		const struct rte_flow_action given[] = {
			{.type = RTE_FLOW_ACTION_TYPE_SET_MAC_DST, .conf = &of_rule},
			queue_one[0], queue_one[1],
		};
		static const char *const names[] = {
			"a value with a mask of zeros is the rule's",
			"a value with a mask of ones is the template's",
			"a value without a mask is the rule's",
		};
		struct templates made = make_templates(actions, mask);
		uint8_t frame[FRAME_LEN_MAX] = {0};
		struct rte_flow *rule = enqueue(&made, given);

		check(names[i], rule != NULL && send_datagram(4, frame) == 1 &&
				frame[5] == expected[i]);
		rte_flow_flush(RECEIVER, &error);
		destroy_templates(&made);
	}
}

/* A full queue refuses an operation before it is carried out. */
static void check_full_queue(void)
{
	const struct rte_flow_op_attr now = {0};
	const struct rte_flow_indir_action_conf conf = {.ingress = 1};
	const struct rte_flow_action count = {.type = RTE_FLOW_ACTION_TYPE_COUNT};
	struct rte_flow_action_handle *first, *second;

	open_flow_queue(1);
	first = rte_flow_action_handle_create(RECEIVER, &conf, &count, &error);
	second = rte_flow_async_action_handle_create(RECEIVER, FLOW_QUEUE, &now, &conf, &count, NULL,
						     &error);
	if (first == NULL || second == NULL)
		give_up("indirect actions");
	int result = rte_flow_async_action_handle_destroy(RECEIVER, FLOW_QUEUE, &now, first, NULL,
							  &error);
	const int is_there = rte_flow_action_handle_destroy(RECEIVER, first, &error) == 0;
	check("a full queue carries nothing out", result == -EAGAIN && is_there);
	check("a queue with room does", pull() == RTE_FLOW_OP_SUCCESS &&
	      rte_flow_async_action_handle_destroy(RECEIVER, FLOW_QUEUE, &now, second, NULL,
						   &error) == 0 &&
	      pull() == RTE_FLOW_OP_SUCCESS);
}

/* Statistics that are reset while packets flow start at 0, and lose none later. */
static void check_statistics(void)
{
	struct rte_eth_stats stats;

	for (int i = 0; i < 5; i++)
		send_datagram(4, NULL);
	rte_eth_stats_reset(RECEIVER);
	rte_eth_stats_get(RECEIVER, &stats);
	const uint64_t before = stats.ipackets;
	send_datagram(4, NULL);
	rte_eth_stats_get(RECEIVER, &stats);
	check("statistics begin at 0 after a reset", before == 0 && stats.ipackets == 1);
}

/* Buffers that cannot hold a frame are refused where frames are copied, as by other drivers. */
static void check_small_buffers(void)
{
	struct rte_mempool *small =
		rte_pktmbuf_pool_create("small", 255, 0, 0, 512 + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
	const struct rte_eth_conf conf = {0};
	uint16_t port;

	if (rte_eth_dev_get_port_by_name("net_niclab2", &port) != 0)
		return;
	if (small == NULL || rte_eth_dev_configure(port, 1, 1, &conf) != 0)
		give_up("the port with a trace");
	check("buffers shorter than a frame are refused",
	      rte_eth_rx_queue_setup(port, 0, 64, SOCKET_ID_ANY, NULL, small) == -EINVAL);
	rte_eth_dev_close(port);
}

/* Two tunnels in one rule: each has its own headers, the later one outside. */
static void check_two_tunnels(void)
{
	static struct rte_flow_item_eth eth;
	static struct rte_flow_item_ipv4 ipv4;
	static struct rte_flow_item_udp udp;
	static struct rte_flow_item_vxlan vxlan;
	static struct rte_flow_item_nvgre nvgre;
	struct rte_flow_item inner[] = {
		{.type = RTE_FLOW_ITEM_TYPE_ETH, .spec = &eth},
		{.type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &ipv4},
		{.type = RTE_FLOW_ITEM_TYPE_NVGRE, .spec = &nvgre},
		{.type = RTE_FLOW_ITEM_TYPE_END},
	};
	struct rte_flow_item outer[] = {
		{.type = RTE_FLOW_ITEM_TYPE_ETH, .spec = &eth},
		{.type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &ipv4},
		{.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp},
		{.type = RTE_FLOW_ITEM_TYPE_VXLAN, .spec = &vxlan},
		{.type = RTE_FLOW_ITEM_TYPE_END},
	};
	const struct rte_flow_action_nvgre_encap nvgre_encap = {.definition = inner};
	const struct rte_flow_action_vxlan_encap vxlan_encap = {.definition = outer};
	const struct rte_flow_action actions[] = {
		{.type = RTE_FLOW_ACTION_TYPE_NVGRE_ENCAP, .conf = &nvgre_encap},
		{.type = RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP, .conf = &vxlan_encap},
		{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to_one},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};
	struct rte_flow *rule = create(datagrams, actions);
	uint8_t frame[FRAME_LEN_MAX] = {0};
	int queue = rule != NULL ? send_datagram(2, frame) : -1;

	/* Protocol 17 of the outer IPv4 header, and 47 of the one behind 50 bytes. */
	check("two tunnels of one rule have their own headers",
	      queue == 1 && frame[23] == 17 && frame[50 + 23] == 47);
	if (rule != NULL && rte_flow_destroy(RECEIVER, rule, &error) != 0)
		give_up("rte_flow_destroy");
}

int main(int argc, char **argv)
{
	open_ports(argc, argv);
	check_other_queues();
	check_two_tunnels();
	check_masks();
	check_full_queue();
	check_statistics();
	check_small_buffers();
	return close_ports();
}
