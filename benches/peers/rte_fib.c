/*
 * DPDK's forwarding tables as a peer for longest prefixes: rte_fib (DIR-24-8) of IPv4 addresses,
 * rte_fib6 (a trie of 24 bits, then 8 at a time) of IPv6.
 *
 * Speaks on standard input and output, one command per line, one answer per line; an answer is
 * "ops ns" (operations done, nanoseconds they took), "ok ..." or "error ...".
 *
 * Commands:
 *   routes FAMILY N    FAMILY is 4 or 6; and N lines "ADDRESS LENGTH NEXT", the address in
 *                      hexadecimal, all of its digits: answers "ok NS BYTES", what the additions
 *                      took and what the heap lost, with the tables that they go into
 *   addresses N        and N lines "ADDRESS", of the same family
 *   match              answers "ok" and for each address the next hop of its longest prefix
 *   look BURST MS      looks the addresses up round and round for MS milliseconds; each must hit
 *   quit
 *
 * Next hops have two bytes for IPv4; four for IPv6, where two would leave room for 32,767 nodes. The
 * way to look up is the best that the processor has, AVX-512 included; transparent huge pages are
 * asked for.
 *
 * Run: rte_fib CORE -- pinned to that core by EAL; memory without huge pages needs no root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_version.h>

#include "eal.h"

#define BURST_MAX 1024
#define IPV6_BYTES 16
#define TBL8_MAX (1 << 15)
#define TBL8_MAX6 (1 << 19)

static struct rte_fib *fib4;
static struct rte_fib6 *fib6;
static uint32_t *ips4;
static uint8_t (*ips6)[IPV6_BYTES];
static uint64_t addresses_count, cursor;

struct route {
	uint8_t address[IPV6_BYTES];
	uint8_t length;
	uint64_t next;
};

/* The bytes of an address from its digits; how many there are. */
static int read_address(const char *digits, uint8_t address[IPV6_BYTES])
{
	int count = 0;

	memset(address, 0, IPV6_BYTES);
	while (count < IPV6_BYTES && sscanf(&digits[2 * count], "%2" SCNx8, &address[count]) == 1)
		count++;
	return count;
}

static uint32_t to_ip4(const uint8_t address[IPV6_BYTES])
{
	return (uint32_t)address[0] << 24 | address[1] << 16 | address[2] << 8 | address[3];
}

static int family_bytes(void)
{
	return fib6 != NULL ? IPV6_BYTES : 4;
}

static void release(void)
{
	rte_fib_free(fib4);
	rte_fib6_free(fib6);
	fib4 = NULL;
	fib6 = NULL;
}

static int create(int family, int routes)
{
	if (family == 4) {
		struct rte_fib_conf conf = {
			.type = RTE_FIB_DIR24_8,
			.max_routes = routes,
			.dir24_8 = { .nh_sz = RTE_FIB_DIR24_8_2B, .num_tbl8 = TBL8_MAX - 1 },
		};
		fib4 = rte_fib_create("peer", SOCKET_ID_ANY, &conf);
		return fib4 == NULL ? -rte_errno :
				      rte_fib_select_lookup(fib4, RTE_FIB_LOOKUP_DEFAULT);
	}
	struct rte_fib6_conf conf = {
		.type = RTE_FIB6_TRIE,
		.max_routes = routes,
		.trie = { .nh_sz = RTE_FIB6_TRIE_4B, .num_tbl8 = TBL8_MAX6 },
	};
	fib6 = rte_fib6_create("peer", SOCKET_ID_ANY, &conf);
	return fib6 == NULL ? -rte_errno : rte_fib6_select_lookup(fib6, RTE_FIB6_LOOKUP_DEFAULT);
}

static int add(const struct route *route)
{
	if (fib4 != NULL)
		return rte_fib_add(fib4, to_ip4(route->address), route->length, route->next);
	return rte_fib6_add(fib6, route->address, route->length, route->next);
}

static void command_routes(int family, uint64_t count)
{
	struct route *routes = malloc(count * sizeof(*routes));
	uint64_t bytes, start;
	char line[80], digits[40];
	int status;

	release();
	bytes = heap_bytes();
	status = create(family, count);
	for (uint64_t i = 0; i < count; i++) {
		if (routes == NULL || fgets(line, sizeof(line), stdin) == NULL ||
		    sscanf(line, "%39s %" SCNu8 " %" SCNu64, digits, &routes[i].length,
			   &routes[i].next) != 3 ||
		    read_address(digits, routes[i].address) != (family == 4 ? 4 : IPV6_BYTES)) {
			printf("error route %" PRIu64 "\n", i + 1);
			free(routes);
			return;
		}
	}
	start = now_ns();
	for (uint64_t i = 0; i < count && status == 0; i++)
		status = add(&routes[i]);
	if (status != 0)
		printf("error routes: %s\n", strerror(-status));
	else
		printf("ok %" PRIu64 " %" PRIu64 "\n", now_ns() - start, heap_bytes() - bytes);
	free(routes);
}

static void command_addresses(uint64_t count)
{
	uint8_t address[IPV6_BYTES];
	char line[80];

	free(ips4);
	free(ips6);
	addresses_count = cursor = 0;
	ips4 = malloc(count * sizeof(*ips4));
	ips6 = malloc(count * sizeof(*ips6));
	for (uint64_t i = 0; i < count; i++) {
		if (ips4 == NULL || ips6 == NULL || fgets(line, sizeof(line), stdin) == NULL ||
		    read_address(line, address) != family_bytes()) {
			printf("error address %" PRIu64 "\n", i + 1);
			return;
		}
		ips4[i] = to_ip4(address);
		memcpy(ips6[i], address, IPV6_BYTES);
	}
	addresses_count = count;
	printf("ok\n");
}

static void look_up(uint64_t from, uint64_t *next_hops, uint64_t count)
{
	if (fib4 != NULL)
		rte_fib_lookup_bulk(fib4, &ips4[from], next_hops, count);
	else
		rte_fib6_lookup_bulk(fib6, &ips6[from], next_hops, count);
}

static int is_ready(void)
{
	return (fib4 != NULL || fib6 != NULL) && addresses_count > 0;
}

static void command_match(void)
{
	uint64_t *found = malloc(addresses_count * sizeof(*found));

	if (!is_ready() || found == NULL) {
		printf("error match needs routes and addresses\n");
	} else {
		look_up(0, found, addresses_count);
		printf("ok");
		for (uint64_t i = 0; i < addresses_count; i++)
			printf(" %" PRIu64, found[i]);
		printf("\n");
	}
	free(found);
}

static void command_look(uint64_t burst, uint64_t ms)
{
	uint64_t found[BURST_MAX];
	uint64_t done = 0, missed = 0, start, end;

	if (!is_ready() || burst == 0 || burst > BURST_MAX || addresses_count < burst) {
		printf("error look needs routes, addresses and a burst of 1 to 1024\n");
		return;
	}
	start = now_ns();
	do {
		for (uint64_t n = 0; n < 4096; n += burst) {
			if (cursor + burst > addresses_count)
				cursor = 0;
			look_up(cursor, found, burst);
			for (uint64_t i = 0; i < burst; i++)
				missed += found[i] == 0;
			cursor += burst;
			done += burst;
		}
		end = now_ns();
	} while (end - start < ms * 1000000);
	if (missed != 0)
		printf("error %" PRIu64 " addresses without a route\n", missed);
	else
		printf("%" PRIu64 " %" PRIu64 "\n", done, end - start);
}

static int serve(void)
{
	uint64_t a, b;
	char line[128];
	int family;

	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "routes %d %" SCNu64, &family, &a) == 2 &&
		    (family == 4 || family == 6))
			command_routes(family, a);
		else if (sscanf(line, "addresses %" SCNu64, &a) == 1)
			command_addresses(a);
		else if (sscanf(line, "look %" SCNu64 " %" SCNu64, &a, &b) == 2)
			command_look(a, b);
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
	printf("ok rte_fib of %s\n", rte_version());
	fflush(stdout);
	return serve();
}
