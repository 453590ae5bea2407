/*
 * DPDK's rte_hash as a peer for exact-match benchmarks.
 *
 * Speaks on standard input and output, one command per line, one answer per line; an answer is
 * "ops ns" (operations done, nanoseconds they took), "ok ..." or "error ...". The same keys in
 * the same order are drawn by the driver on the other side:
 *
 *   splitmix64(state): state += 0x9e3779b97f4a7c15, then the usual output function
 *   mix(x)           = the output function of splitmix64 on x + 0x9e3779b97f4a7c15
 *   key(i)           = 16 bytes: mix(2i), then mix(2i+1) & 0xffffffffff (a 13-byte 5-tuple)
 *   probe order      = splitmix64 from state 1; index = high 64 bits of draw * keys
 *
 * Commands:
 *   table ENTRIES KEYS FLAGS   a table for ENTRIES with keys 0..KEYS inserted and the probe list
 *                              drawn; FLAGS: d(efault), l(ock-free), e(xtendable)
 *   huge                       asks for transparent huge pages under DPDK's memory; before "table"
 *   lookup BURST MODE MS       bulk look-ups of random keys for MS milliseconds; MODE: h (hash
 *                              inside), p (hashes computed before the clock starts), m (misses)
 *   fill ENTRIES KEYS FLAGS    prepares to add keys 0..KEYS to an empty table for ENTRIES
 *   add COUNT                  times the insertion of the next COUNT of them; the first after the
 *                              last key goes into a new table
 *   quit
 *
 * Run: rte_hash CORE -- pinned to that core by EAL; memory without huge pages needs no root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_memory.h>
#include <rte_version.h>

#include "eal.h"

#define PROBES (1u << 20) /* random indices drawn beforehand, used round and round */
#define BURST_MAX 64

struct key {
	uint64_t word[2];
};

static struct rte_hash *table;
static uint64_t keys_count;
static struct key *probes;
static hash_sig_t *hashes;
static uint32_t cursor;
static volatile uint64_t sink;

static uint64_t finish(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint64_t mix(uint64_t x)
{
	return finish(x + 0x9e3779b97f4a7c15u);
}

static struct key key_of(uint64_t i)
{
	return (struct key){ { mix(2 * i), mix(2 * i + 1) & 0xffffffffffu } };
}

static struct rte_hash *create(uint32_t entries, const char *flags)
{
	static unsigned int serial;
	char name[32];
	uint8_t extra = 0;

	if (strchr(flags, 'l'))
		extra |= RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY_LF;
	if (strchr(flags, 'e'))
		extra |= RTE_HASH_EXTRA_FLAGS_EXT_TABLE;
	snprintf(name, sizeof(name), "peer%u", serial++);
	struct rte_hash_parameters parameters = {
		.name = name,
		.entries = entries,
		.key_len = sizeof(struct key),
		.hash_func = rte_hash_crc,
		.extra_flag = extra,
	};
	return rte_hash_create(&parameters);
}

/* Draws the probe list: hits are keys 0..keys_count, misses the as many after them. */
static void draw(uint64_t first)
{
	uint64_t state = 1;

	for (uint32_t i = 0; i < PROBES; i++) {
		state += 0x9e3779b97f4a7c15u;
		uint64_t index = (uint64_t)(((unsigned __int128)finish(state) * keys_count) >> 64);

		probes[i] = key_of(first + index);
		hashes[i] = rte_hash_hash(table, &probes[i]);
	}
}

static void command_table(uint32_t entries, uint64_t keys, const char *flags)
{
	rte_hash_free(table);
	table = create(entries, flags);
	if (table == NULL) {
		printf("error create: %s\n", rte_strerror(rte_errno));
		return;
	}
	uint64_t failed = 0;

	for (uint64_t i = 0; i < keys; i++) {
		struct key key = key_of(i);

		failed += rte_hash_add_key_data(table, &key, (void *)(uintptr_t)(i + 1)) != 0;
	}
	keys_count = keys;
	draw(0);
	printf("ok %" PRId32 " keys, %" PRIu64 " refused\n", rte_hash_count(table), failed);
}

static uint32_t bulk(const struct key *burst, uint32_t count, const hash_sig_t *hash)
{
	const void *pointers[BURST_MAX];
	void *data[BURST_MAX];
	uint64_t mask = 0;

	for (uint32_t i = 0; i < count; i++)
		pointers[i] = &burst[i];
	if (hash)
		rte_hash_lookup_with_hash_bulk_data(table, pointers, (hash_sig_t *)(uintptr_t)hash,
						    count, &mask, data);
	else
		rte_hash_lookup_bulk_data(table, pointers, count, &mask, data);
	if (mask)
		sink = sink + (uintptr_t)data[__builtin_ctzll(mask)];
	return __builtin_popcountll(mask);
}

static void command_lookup(uint32_t burst, char mode, uint64_t ms)
{
	static int missing;
	uint64_t done = 0, hits = 0, start, end;

	if (table == NULL || burst == 0 || burst > BURST_MAX || PROBES % burst != 0) {
		printf("error lookup needs a table and a burst of 1 to 64, a power of two\n");
		return;
	}
	if ((mode == 'm') != missing) {
		missing = mode == 'm';
		draw(missing ? keys_count : 0);
	}
	start = now_ns();
	do {
		for (int i = 0; i < 64; i++) {
			hits += bulk(&probes[cursor], burst, mode == 'p' ? &hashes[cursor] : NULL);
			cursor = (cursor + burst) % PROBES;
		}
		done += 64 * (uint64_t)burst;
		end = now_ns();
	} while (end - start < ms * 1000000);
	if (missing ? hits != 0 : hits < done - done / 64)
		printf("error %" PRIu64 " hits in %" PRIu64 "\n", hits, done);
	else
		printf("%" PRIu64 " %" PRIu64 "\n", done, end - start);
}

static struct fill {
	struct rte_hash *table;
	struct key *list;
	uint64_t entries, keys, next;
	char flags[16];
} fill;

static void command_fill(uint64_t entries, uint64_t keys, const char *flags)
{
	rte_hash_free(fill.table);
	free(fill.list);
	fill = (struct fill){ .list = malloc(keys * sizeof(struct key)), .entries = entries };
	if (fill.list == NULL || keys == 0) {
		printf("error no memory for %" PRIu64 " keys\n", keys);
		return;
	}
	fill.keys = keys;
	snprintf(fill.flags, sizeof(fill.flags), "%s", flags);
	for (uint64_t i = 0; i < keys; i++)
		fill.list[i] = key_of(i);
	printf("ok\n");
}

static void command_add(uint64_t count)
{
	uint64_t refused = 0, start, ns, end;

	if (fill.next == fill.keys || fill.table == NULL) {
		rte_hash_free(fill.table);
		fill.table = create(fill.entries, fill.flags);
		fill.next = 0;
	}
	if (fill.table == NULL) {
		printf("error create: %s\n", rte_strerror(rte_errno));
		return;
	}
	end = RTE_MIN(fill.next + count, fill.keys);
	start = now_ns();
	for (uint64_t i = fill.next; i < end; i++)
		refused += rte_hash_add_key_data(fill.table, &fill.list[i],
						 (void *)(uintptr_t)(i + 1)) != 0;
	ns = now_ns() - start;
	if (refused)
		printf("error %" PRIu64 " keys refused\n", refused);
	else
		printf("%" PRIu64 " %" PRIu64 "\n", end - fill.next, ns);
	fill.next = end;
}

static int advise(const struct rte_memseg_list *list, void *refused)
{
	if (madvise(list->base_va, list->len, MADV_HUGEPAGE) != 0)
		*(int *)refused = errno;
	return 0;
}

static void command_huge(void)
{
	int refused = 0;

	rte_memseg_list_walk(advise, &refused);
	if (refused)
		printf("error madvise: %s\n", strerror(refused));
	else
		printf("ok\n");
}

static int serve(void)
{
	char line[128], flags[16], mode;
	uint64_t a, b;

	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "table %" SCNu64 " %" SCNu64 " %15s", &a, &b, flags) == 3)
			command_table(a, b, flags);
		else if (sscanf(line, "lookup %" SCNu64 " %c %" SCNu64, &a, &mode, &b) == 3)
			command_lookup(a, mode, b);
		else if (sscanf(line, "fill %" SCNu64 " %" SCNu64 " %15s", &a, &b, flags) == 3)
			command_fill(a, b, flags);
		else if (sscanf(line, "add %" SCNu64, &a) == 1)
			command_add(a);
		else if (strcmp(line, "huge\n") == 0)
			command_huge();
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
	char lcores[16];
	char *eal[] = { argv[0], "--no-huge", "--no-pci", "-m", "1536", "--no-shconf", "-l",
			lcores, "--log-level=error", "--no-telemetry" };

	snprintf(lcores, sizeof(lcores), "%d", argc > 1 ? atoi(argv[1]) : 1);
	if (rte_eal_init(sizeof(eal) / sizeof(*eal), eal) < 0) {
		fprintf(stderr, "rte_eal_init: %s\n", rte_strerror(rte_errno));
		return 1;
	}
	probes = malloc(PROBES * sizeof(*probes));
	hashes = malloc(PROBES * sizeof(*hashes));
	if (probes == NULL || hashes == NULL)
		return 1;
	printf("ok rte_hash of %s\n", rte_version());
	fflush(stdout);
	return serve();
}
