/* Rules on net_niclab, one by one and asynchronously: checks them, and measures their rates.
 *
 *     rules EAL-OPTIONS -- RULES [GROUP]
 *
 * Creates RULES rules (eth / ipv4 src / end, to a queue, in group 1 or GROUP) one by one, gives them
 * other actions and destroys them; then creates and destroys them as rules of a template table in
 * batches of 64. Prints the rates. If GROUP is given, prints the median time of an operation in the
 * second half of calls or batches, too: to read the clock for each takes time. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_version.h>

#define BATCH 64
#define PORT 0
#define FLOW_QUEUE 0

static struct rte_flow_error error;
static uint32_t group = 1;
static int is_timed;

static void fail(const char *what)
{
	printf("not ok %s: %s\n", what, error.message != NULL ? error.message : "no reason");
	exit(1);
}

static void check(const char *what, uint64_t found, uint64_t wanted, uint64_t cycles,
		  double median)
{
	double seconds = (double)cycles / rte_get_tsc_hz();

	if (found != wanted) {
		printf("not ok %s: %" PRIu64 " of %" PRIu64 "\n", what, found, wanted);
		exit(1);
	}
	if (cycles == 0)
		printf("ok %s\n", what);
	else if (!is_timed)
		printf("ok %s: %" PRIu64 ", %.3f M/s\n", what, found, found / seconds / 1e6);
	else
		printf("ok %s: %" PRIu64 ", median %.0f ns, %.3f M/s\n", what, found, median,
		       found / seconds / 1e6);
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
		.flow_attr = {.ingress = 1, .group = group},
		.nb_flows = rules,
	};

	*pattern = rte_flow_pattern_template_create(PORT, &pattern_attr, items, &error);
	*actions = rte_flow_actions_template_create(PORT, &actions_attr, list, list, &error);
	if (*pattern == NULL || *actions == NULL)
		fail("templates");
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	struct rte_flow_template_table_attr by_index = table_attr;

	by_index.insertion_type = RTE_FLOW_TABLE_INSERTION_TYPE_INDEX;
	check("a table of rules by index is refused",
	      rte_flow_template_table_create(PORT, &by_index, pattern, 1, actions, 1, &error) ==
		      NULL && rte_errno == ENOTSUP, 1, 0, 0);
#endif
	struct rte_flow_template_table *table =
		rte_flow_template_table_create(PORT, &table_attr, pattern, 1, actions, 1, &error);
	if (table == NULL)
		fail("the template table");
	return table;
}

/* Times of single calls or of operations of a batch, cycles. */
static uint64_t *times;
static uint32_t times_count;

static inline uint64_t now(void)
{
	return is_timed ? rte_rdtsc() : 0;
}

static int compare(const void *one, const void *other)
{
	const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return (a > b) - (a < b);
}

/* The median of the second half of the times, nanoseconds. */
static double median_ns(void)
{
	const uint32_t half = times_count / 2;
	uint64_t *last = times + half;

	if (!is_timed)
		return 0;
	qsort(last, times_count - half, sizeof(*last), compare);
	return 1e9 * last[(times_count - half) / 2] / rte_get_tsc_hz();
}

/* The same rules without a table, one by one. */
static uint64_t create_sync(struct rte_flow **flows, uint32_t rules)
{
	const struct rte_flow_attr attr = {.ingress = 1, .group = group};
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

	times_count = rules;
	for (uint32_t i = 0; i < rules; i++) {
		const uint64_t begin = now();

		source.hdr.src_addr = rte_cpu_to_be_32(i);
		flows[i] = rte_flow_create(PORT, &attr, items, actions, &error);
		times[i] = now() - begin;
		if (flows[i] == NULL)
			fail("rte_flow_create");
	}
	return rules;
}

#if RTE_VERSION >= RTE_VERSION_NUM(23, 7, 0, 0)
static uint64_t update_sync(struct rte_flow **flows, uint32_t rules)
{
	const struct rte_flow_action_queue queue = {.index = 0};
	const struct rte_flow_action actions[] = {
		{.type = RTE_FLOW_ACTION_TYPE_COUNT},
		{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};

	for (uint32_t i = 0; i < rules; i++)
		if (rte_flow_actions_update(PORT, flows[i], actions, &error) != 0)
			fail("rte_flow_actions_update");
	return rules;
}

static void check_update(struct rte_flow **flows, uint32_t rules)
{
	const struct rte_flow_action count[] = {
		{.type = RTE_FLOW_ACTION_TYPE_COUNT},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};
	const struct rte_flow_op_attr attr = {0};
	struct rte_flow_query_count counted;
	const int had = rte_flow_query(PORT, flows[0], count, &counted, &error) == 0;
	const uint64_t begin = rte_rdtsc();
	const uint64_t updated = update_sync(flows, rules);
	const uint64_t end = rte_rdtsc();

	check("updated one by one", updated, rules, end - begin, 0);
	const int has = rte_flow_query(PORT, flows[rules - 1], count, &counted, &error) == 0;
	check("rules count only from then on", has && !had, 1, 0, 0);
	/* Calls that DPDK makes without a check that the driver has them. */
	int result = rte_flow_async_actions_update(PORT, FLOW_QUEUE, &attr, flows[0], count, 0,
						   NULL, &error);
	check("an update through a queue is refused", result == -ENOTSUP, 1, 0, 0);
	struct rte_flow *flow = rte_flow_async_create_by_index(PORT, FLOW_QUEUE, &attr, NULL, 0,
							       count, 0, NULL, &error);
	check("a rule by index is refused", flow == NULL && rte_errno == ENOTSUP, 1, 0, 0);
}
#else
static void check_update(struct rte_flow **flows, uint32_t rules)
{
	RTE_SET_USED(flows);
	RTE_SET_USED(rules);
	printf("skip updated one by one: DPDK before 23.07 has no rte_flow_actions_update\n");
}
#endif

static uint64_t destroy_sync(struct rte_flow **flows, uint32_t rules)
{
	times_count = rules;
	for (uint32_t i = 0; i < rules; i++) {
		const uint64_t begin = now();

		if (rte_flow_destroy(PORT, flows[i], &error) != 0)
			fail("rte_flow_destroy");
		times[i] = now() - begin;
	}
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

	times_count = 0;
	for (uint32_t begin = 0; begin < rules; begin += BATCH) {
		uint32_t count = RTE_MIN(rules - begin, (uint32_t)BATCH);
		const uint64_t started = now();

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
		times[times_count++] = (now() - started) / count;
	}
	return done;
}

static uint64_t destroy(struct rte_flow **flows, uint32_t rules)
{
	const struct rte_flow_op_attr postponed = {.postpone = 1};
	uint64_t done = 0;

	times_count = 0;
	for (uint32_t begin = 0; begin < rules; begin += BATCH) {
		uint32_t count = RTE_MIN(rules - begin, (uint32_t)BATCH);
		const uint64_t started = now();

		for (uint32_t i = begin; i < begin + count; i++)
			if (rte_flow_async_destroy(PORT, FLOW_QUEUE, &postponed, flows[i], NULL,
						   &error) != 0)
				fail("rte_flow_async_destroy");
		if (rte_flow_push(PORT, FLOW_QUEUE, &error) != 0)
			fail("rte_flow_push");
		done += pull_all(count);
		times[times_count++] = (now() - started) / count;
	}
	return done;
}

int main(int argc, char **argv)
{
	int used = rte_eal_init(argc, argv);

	if (used < 0 || used + 1 >= argc) {
		fprintf(stderr, "usage: rules EAL-OPTIONS -- RULES [GROUP]\n");
		return 2;
	}
	const uint32_t rules = strtoul(argv[used + 1], NULL, 10);
	is_timed = used + 2 < argc;
	if (is_timed)
		group = strtoul(argv[used + 2], NULL, 10);
	struct rte_flow **flows = calloc(rules + 1, sizeof(*flows));
	struct rte_flow_pattern_template *pattern;
	struct rte_flow_actions_template *actions;
	times = calloc(rules + 1, sizeof(*times));
	if (flows == NULL || times == NULL)
		return 1;
	configure();
	uint64_t begin = rte_rdtsc();
	uint64_t created = create_sync(flows, rules);
	uint64_t end = rte_rdtsc();
	check("created one by one", created, rules, end - begin, median_ns());
	check_update(flows, rules);
	begin = rte_rdtsc();
	uint64_t destroyed = destroy_sync(flows, rules);
	end = rte_rdtsc();
	check("destroyed one by one", destroyed, rules, end - begin, median_ns());

	struct rte_flow_template_table *table = make_table(rules, &pattern, &actions);
	begin = rte_rdtsc();
	created = create(table, flows, rules);
	end = rte_rdtsc();
	check("created asynchronously", created, rules, end - begin, median_ns());
	begin = rte_rdtsc();
	destroyed = destroy(flows, rules);
	end = rte_rdtsc();
	check("destroyed asynchronously", destroyed, rules, end - begin, median_ns());

	/* The same rule twice: the second is refused, and reported so. */
	created = create(table, flows, 1) + create(table, flows, 1);
	check("a rule that exists is refused", created, 1, 0, 0);
	if (rte_flow_template_table_destroy(PORT, table, &error) != 0 ||
	    rte_flow_pattern_template_destroy(PORT, pattern, &error) != 0 ||
	    rte_flow_actions_template_destroy(PORT, actions, &error) != 0)
		fail("templates are destroyed");
	free(flows);
	free(times);
	if (rte_eth_dev_stop(PORT) != 0 || rte_eth_dev_close(PORT) != 0)
		fail("the port closes");
	rte_eal_cleanup();
	return 0;
}
