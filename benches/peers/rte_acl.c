/*
 * DPDK's rte_acl as a peer for classification by ternary rules.
 *
 * Speaks on standard input and output, one command per line, one answer per line; an answer is
 * "ops ns" (operations done, nanoseconds they took), "ok ..." or "error ...".
 *
 * Commands:
 *   rules N            and N lines "SRC LEN DST LEN SLOW SHIGH DLOW DHIGH PROTOCOL MASK", numbers
 *                      in decimal, the best rule first: builds a trie; answers "ok NS BYTES", what
 *                      it took and what the heap lost
 *   packets N          and N lines "SRC DST SPORT DPORT PROTOCOL"
 *   match              answers "ok" and for each packet the number of its rule from 1, 0 for none
 *   classify BURST MS  classifies the packets round and round for MS milliseconds; each must hit
 *   quit
 *
 * The memory limit of the build is off, which gives the fewest tries; the algorithm is the best
 * that the processor has, AVX-512 included; transparent huge pages are asked for.
 *
 * Run: rte_acl CORE -- pinned to that core by EAL; memory without huge pages needs no root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_acl.h>
#include <rte_byteorder.h>
#include <rte_errno.h>
#include <rte_version.h>

#include "eal.h"

#define BURST_MAX 1024

/* A packet as the trie reads it: in network order. */
struct tuple {
	uint8_t protocol;
	uint8_t unused[3];
	uint32_t src, dst;
	uint16_t sport, dport;
};

enum { PROTOCOL, SRC, DST, SPORT, DPORT, FIELDS };

RTE_ACL_RULE_DEF(tuple_rule, FIELDS);

#define FIELD(index, kind, input, member)                                                          \
	{ .type = RTE_ACL_FIELD_TYPE_##kind, .size = sizeof(((struct tuple *)0)->member),          \
	  .field_index = (index), .input_index = (input),                                          \
	  .offset = offsetof(struct tuple, member) }

/* The first field is one byte, the others are read four bytes at a time: both ports at once. */
static const struct rte_acl_field_def fields[FIELDS] = {
	FIELD(PROTOCOL, BITMASK, 0, protocol), FIELD(SRC, MASK, 1, src), FIELD(DST, MASK, 2, dst),
	FIELD(SPORT, RANGE, 3, sport),	       FIELD(DPORT, RANGE, 3, dport),
};

static struct rte_acl_ctx *trie;
static struct tuple *packets;
static uint64_t packets_count, cursor;
static const uint8_t **pointers;

static int read_rule(struct tuple_rule *rule, uint64_t number, uint64_t count)
{
	uint32_t v[10];
	char line[160];

	if (fgets(line, sizeof(line), stdin) == NULL ||
	    sscanf(line,
		   "%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32
		   "%" SCNu32 "%" SCNu32 "%" SCNu32,
		   &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7], &v[8], &v[9]) != 10)
		return -1;
	memset(rule, 0, sizeof(*rule));
	rule->data.category_mask = 1;
	rule->data.priority = count - number;
	rule->data.userdata = number + 1;
	rule->field[SRC].value.u32 = v[0];
	rule->field[SRC].mask_range.u32 = v[1];
	rule->field[DST].value.u32 = v[2];
	rule->field[DST].mask_range.u32 = v[3];
	rule->field[SPORT].value.u16 = v[4];
	rule->field[SPORT].mask_range.u16 = v[5];
	rule->field[DPORT].value.u16 = v[6];
	rule->field[DPORT].mask_range.u16 = v[7];
	rule->field[PROTOCOL].value.u8 = v[8];
	rule->field[PROTOCOL].mask_range.u8 = v[9];
	return 0;
}

static int build(struct tuple_rule *rules, uint64_t count)
{
	struct rte_acl_param parameters = {
		.name = "peer",
		.socket_id = SOCKET_ID_ANY,
		.rule_size = RTE_ACL_RULE_SZ(FIELDS),
		.max_rule_num = count,
	};
	struct rte_acl_config config = { .num_categories = 1, .num_fields = FIELDS };
	int status;

	memcpy(config.defs, fields, sizeof(fields));
	trie = rte_acl_create(&parameters);
	if (trie == NULL)
		return -rte_errno;
	status = rte_acl_add_rules(trie, (struct rte_acl_rule *)rules, count);
	return status ? status : rte_acl_build(trie, &config);
}

static void command_rules(uint64_t count)
{
	struct tuple_rule *rules = malloc(count * sizeof(*rules));
	uint64_t bytes, start;
	int status;

	rte_acl_free(trie);
	trie = NULL;
	for (uint64_t i = 0; i < count; i++) {
		if (rules == NULL || read_rule(&rules[i], i, count) != 0) {
			printf("error rule %" PRIu64 "\n", i + 1);
			free(rules);
			return;
		}
	}
	bytes = heap_bytes();
	start = now_ns();
	status = build(rules, count);
	if (status != 0)
		printf("error build: %s\n", strerror(-status));
	else
		printf("ok %" PRIu64 " %" PRIu64 "\n", now_ns() - start, heap_bytes() - bytes);
	free(rules);
}

static void command_packets(uint64_t count)
{
	char line[80];
	uint32_t v[5];

	free(packets);
	free(pointers);
	packets_count = cursor = 0;
	packets = aligned_alloc(64, count * sizeof(*packets));
	pointers = malloc(count * sizeof(*pointers));
	for (uint64_t i = 0; i < count; i++) {
		if (packets == NULL || pointers == NULL || fgets(line, sizeof(line), stdin) == NULL ||
		    sscanf(line, "%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32, &v[0], &v[1],
			   &v[2], &v[3], &v[4]) != 5) {
			printf("error packet %" PRIu64 "\n", i + 1);
			return;
		}
		packets[i] = (struct tuple){ v[4],
					     { 0 },
					     rte_cpu_to_be_32(v[0]),
					     rte_cpu_to_be_32(v[1]),
					     rte_cpu_to_be_16(v[2]),
					     rte_cpu_to_be_16(v[3]) };
		pointers[i] = (const uint8_t *)&packets[i];
	}
	packets_count = count;
	printf("ok\n");
}

static void command_match(void)
{
	uint32_t *found = malloc(packets_count * sizeof(*found));

	if (trie == NULL || found == NULL || packets_count == 0 ||
	    rte_acl_classify(trie, pointers, found, packets_count, 1) != 0) {
		printf("error match needs rules and packets\n");
	} else {
		printf("ok");
		for (uint64_t i = 0; i < packets_count; i++)
			printf(" %" PRIu32, found[i]);
		printf("\n");
	}
	free(found);
}

static void command_classify(uint64_t burst, uint64_t ms)
{
	uint32_t found[BURST_MAX];
	uint64_t done = 0, missed = 0, start, end;

	if (trie == NULL || burst == 0 || burst > BURST_MAX || packets_count < burst) {
		printf("error classify needs rules, packets and a burst of 1 to 1024\n");
		return;
	}
	start = now_ns();
	do {
		for (uint64_t n = 0; n < 4096; n += burst) {
			if (cursor + burst > packets_count)
				cursor = 0;
			rte_acl_classify(trie, &pointers[cursor], found, burst, 1);
			for (uint64_t i = 0; i < burst; i++)
				missed += found[i] == 0;
			cursor += burst;
			done += burst;
		}
		end = now_ns();
	} while (end - start < ms * 1000000);
	if (missed != 0)
		printf("error %" PRIu64 " packets without a rule\n", missed);
	else
		printf("%" PRIu64 " %" PRIu64 "\n", done, end - start);
}

static int serve(void)
{
	char line[128];
	uint64_t a, b;

	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "rules %" SCNu64, &a) == 1)
			command_rules(a);
		else if (sscanf(line, "packets %" SCNu64, &a) == 1)
			command_packets(a);
		else if (sscanf(line, "classify %" SCNu64 " %" SCNu64, &a, &b) == 2)
			command_classify(a, b);
		else if (strcmp(line, "match\n") == 0)
			command_match();
		else if (strcmp(line, "quit\n") == 0)
			return 0;
		else
			printf("error unknown command\n");
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (start_eal(argc, argv, "4096") != 0)
		return 1;
	printf("ok rte_acl of %s\n", rte_version());
	fflush(stdout);
	return serve();
}
