/* Rules on net_niclab, one by one and asynchronously: checks them, and measures their rates.
 *
 *     rules EAL-OPTIONS -- RULES
 *
 * Creates RULES rules (eth / ipv4 src / end, to a queue, in group 1) one by one and destroys them;
 * then as rules of a template table in batches of 64. Prints the rates. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_flow.h>

#define BATCH 64
#define PORT 0
#define FLOW_QUEUE 0

static struct rte_flow_error error;

static void fail(const char *what)
{
	printf("not ok %s: %s\n", what, error.message != NULL ? error.message : "no reason");
	exit(1);
}

static void configure(void)
{
	const struct rte_eth_conf conf = {0};
	const struct rte_flow_port_attr port = {0};
	const struct rte_flow_queue_attr queue = {.size = 4 * BATCH};
	const struct rte_flow_queue_attr *queues[] = {&queue};
	struct rte_mempool *pool = rte_pktmbuf_pool_create("pool", 1023, 0, 0, 2048, SOCKET_ID_ANY);

	if (pool == NULL || rte_eth_dev_configure(PORT, 2, 1, &conf) != 0 ||
	    rte_eth_rx_queue_setup(PORT, 0, 256, SOCKET_ID_ANY, NULL, pool) != 0 ||
	    rte_eth_rx_queue_setup(PORT, 1, 256, SOCKET_ID_ANY, NULL, pool) != 0 ||
	    rte_eth_tx_queue_setup(PORT, 0, 256, SOCKET_ID_ANY, NULL) != 0)
		fail("the port is not configured");
	if (rte_flow_configure(PORT, &port, 1, queues, &error) != 0)
		fail("rte_flow_configure");
	if (rte_eth_dev_start(PORT) != 0)
		fail("the port does not start");
}

static const struct rte_flow_item_ipv4 source_mask = {.hdr.src_addr = RTE_BE32(UINT32_MAX)};

static struct rte_flow_template_table *make_table(uint32_t rules,
						  struct rte_flow_pattern_template **pattern,
						  struct rte_flow_actions_template **actions)
{
	const struct rte_flow_pattern_template_attr pattern_attr = {.ingress = 1};
	const struct rte_flow_item items[] = {
		{.type = RTE_FLOW_ITEM_TYPE_ETH},
		{.type = RTE_FLOW_ITEM_TYPE_IPV4, .mask = &source_mask},
		{.type = RTE_FLOW_ITEM_TYPE_END},
	};
	const struct rte_flow_actions_template_attr actions_attr = {.ingress = 1};
	const struct rte_flow_action list[] = {
		{.type = RTE_FLOW_ACTION_TYPE_QUEUE},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};
	const struct rte_flow_template_table_attr table_attr = {
		.flow_attr = {.ingress = 1, .group = 1},
		.nb_flows = rules,
	};

	*pattern = rte_flow_pattern_template_create(PORT, &pattern_attr, items, &error);
	*actions = rte_flow_actions_template_create(PORT, &actions_attr, list, list, &error);
	if (*pattern == NULL || *actions == NULL)
		fail("templates");
	struct rte_flow_template_table *table =
		rte_flow_template_table_create(PORT, &table_attr, pattern, 1, actions, 1, &error);
	if (table == NULL)
		fail("the template table");
	return table;
}

/* The same rules without a table, one by one. */
static uint64_t create_sync(struct rte_flow **flows, uint32_t rules)
{
	const struct rte_flow_attr attr = {.ingress = 1, .group = 1};
	struct rte_flow_item_ipv4 source = {0};
	const struct rte_flow_action_queue queue = {.index = 1};
	const struct rte_flow_item items[] = {
		{.type = RTE_FLOW_ITEM_TYPE_ETH},
		{.type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &source, .mask = &source_mask},
		{.type = RTE_FLOW_ITEM_TYPE_END},
	};
	const struct rte_flow_action actions[] = {
		{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};

	for (uint32_t i = 0; i < rules; i++) {
		source.hdr.src_addr = rte_cpu_to_be_32(i);
		flows[i] = rte_flow_create(PORT, &attr, items, actions, &error);
		if (flows[i] == NULL)
			fail("rte_flow_create");
	}
	return rules;
}

static uint64_t destroy_sync(struct rte_flow **flows, uint32_t rules)
{
	for (uint32_t i = 0; i < rules; i++)
		if (rte_flow_destroy(PORT, flows[i], &error) != 0)
			fail("rte_flow_destroy");
	return rules;
}

static uint64_t pull_all(uint64_t wanted)
{
	struct rte_flow_op_result results[BATCH];
	uint64_t done = 0;

	while (wanted > 0) {
		int count = rte_flow_pull(PORT, FLOW_QUEUE, results, BATCH, &error);

		if (count < 0)
			fail("rte_flow_pull");
		for (int i = 0; i < count; i++)
			done += results[i].status == RTE_FLOW_OP_SUCCESS;
		wanted -= count;
	}
	return done;
}

/* Creates the rules; returns how many were created. */
static uint64_t create(struct rte_flow_template_table *table, struct rte_flow **flows,
		       uint32_t rules)
{
	struct rte_flow_item_ipv4 source = {0};
	struct rte_flow_action_queue queue = {.index = 1};
	const struct rte_flow_item items[] = {
		{.type = RTE_FLOW_ITEM_TYPE_ETH},
		{.type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &source, .mask = &source_mask},
		{.type = RTE_FLOW_ITEM_TYPE_END},
	};
	const struct rte_flow_action actions[] = {
		{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};
	const struct rte_flow_op_attr postponed = {.postpone = 1};
	uint64_t done = 0;

	for (uint32_t begin = 0; begin < rules; begin += BATCH) {
		uint32_t count = RTE_MIN(rules - begin, (uint32_t)BATCH);

		for (uint32_t i = begin; i < begin + count; i++) {
			source.hdr.src_addr = rte_cpu_to_be_32(i);
			flows[i] = rte_flow_async_create(PORT, FLOW_QUEUE, &postponed, table, items,
							 0, actions, 0, NULL, &error);
			if (flows[i] == NULL)
				fail("rte_flow_async_create");
		}
		if (rte_flow_push(PORT, FLOW_QUEUE, &error) != 0)
			fail("rte_flow_push");
		done += pull_all(count);
	}
	return done;
}

static uint64_t destroy(struct rte_flow **flows, uint32_t rules)
{
	const struct rte_flow_op_attr postponed = {.postpone = 1};
	uint64_t done = 0;

	for (uint32_t begin = 0; begin < rules; begin += BATCH) {
		uint32_t count = RTE_MIN(rules - begin, (uint32_t)BATCH);

		for (uint32_t i = begin; i < begin + count; i++)
			if (rte_flow_async_destroy(PORT, FLOW_QUEUE, &postponed, flows[i], NULL,
						   &error) != 0)
				fail("rte_flow_async_destroy");
		if (rte_flow_push(PORT, FLOW_QUEUE, &error) != 0)
			fail("rte_flow_push");
		done += pull_all(count);
	}
	return done;
}

static void check(const char *what, uint64_t found, uint64_t wanted, uint64_t cycles)
{
	double seconds = (double)cycles / rte_get_tsc_hz();

	if (found != wanted) {
		printf("not ok %s: %" PRIu64 " of %" PRIu64 "\n", what, found, wanted);
		exit(1);
	}
	if (cycles == 0)
		printf("ok %s\n", what);
	else
		printf("ok %s: %" PRIu64 ", %.3f M/s\n", what, found, found / seconds / 1e6);
}

int main(int argc, char **argv)
{
	int used = rte_eal_init(argc, argv);

	if (used < 0 || used + 1 >= argc) {
		fprintf(stderr, "usage: rules EAL-OPTIONS -- RULES\n");
		return 2;
	}
	const uint32_t rules = strtoul(argv[used + 1], NULL, 10);
	struct rte_flow **flows = calloc(rules + 1, sizeof(*flows));
	struct rte_flow_pattern_template *pattern;
	struct rte_flow_actions_template *actions;
	if (flows == NULL)
		return 1;
	configure();
	uint64_t begin = rte_rdtsc();
	uint64_t created = create_sync(flows, rules);
	uint64_t middle = rte_rdtsc();
	uint64_t destroyed = destroy_sync(flows, rules);
	uint64_t end = rte_rdtsc();
	check("created one by one", created, rules, middle - begin);
	check("destroyed one by one", destroyed, rules, end - middle);

	struct rte_flow_template_table *table = make_table(rules, &pattern, &actions);
	begin = rte_rdtsc();
	created = create(table, flows, rules);
	middle = rte_rdtsc();
	destroyed = destroy(flows, rules);
	end = rte_rdtsc();
	check("created asynchronously", created, rules, middle - begin);
	check("destroyed asynchronously", destroyed, rules, end - middle);

	/* The same rule twice: the second is refused, and reported so. */
	created = create(table, flows, 1) + create(table, flows, 1);
	check("a rule that exists is refused", created, 1, 0);
	if (rte_flow_template_table_destroy(PORT, table, &error) != 0 ||
	    rte_flow_pattern_template_destroy(PORT, pattern, &error) != 0 ||
	    rte_flow_actions_template_destroy(PORT, actions, &error) != 0)
		fail("templates are destroyed");
	free(flows);
	if (rte_eth_dev_stop(PORT) != 0 || rte_eth_dev_close(PORT) != 0)
		fail("the port closes");
	rte_eal_cleanup();
	return 0;
}
