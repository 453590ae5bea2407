/*
 * DPDK's software Toeplitz hash (rte_thash.h) as a peer for the RSS benchmark.
 *
 * Speaks on standard input and output, one command per line, one answer per line; an answer is
 * "ops ns checksum", "ok ..." or "error ...". The driver on the other side draws the same tuples
 * and compares the checksum:
 *
 *   mix(x)    = the output function of splitmix64 on x + 0x9e3779b97f4a7c15
 *   tuple(i)  = 12 bytes in network order: mix(2i), then the low half of mix(2i+1), both written
 *               least significant byte first
 *   key       = the 40 bytes of Microsoft's verification suite
 *   checksum  = FNV-1a over the hashes of one pass as 64-bit units
 *
 * Commands:
 *   hash TUPLES MS   hashes tuples 0..TUPLES over and over for MS milliseconds; the clock is read
 *                    once per CLOCK_STRIDE hashes or pass, whichever is longer
 *   quit
 *
 * Run: softrss CORE be|generic|gfni
 *   be       rte_softrss_be: the documented fast path, key converted beforehand
 *   generic  rte_softrss: key as the card has it
 *   gfni     rte_thash_gfni_bulk (experimental): needs AVX-512 and GFNI
 *
 * The first two want tuples in words of the processor's byte order, the third an array of
 * pointers. Both are made before the clock starts, which favours the peer.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_thash.h>
#include <rte_version.h>

#define TUPLE_LEN 12
#define TUPLE_WORDS (TUPLE_LEN / 4)
#define TUPLES_MAX (1u << 22)
#define CLOCK_STRIDE 65536

struct tuples {
	uint32_t count;
	uint8_t (*network)[TUPLE_LEN];
	uint32_t (*host)[TUPLE_WORDS];
	uint8_t **pointers;
	uint32_t *hashes;
};

static const uint8_t key[40] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
	0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
	0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};
static uint8_t key_host[sizeof(key)] __attribute__((aligned(8)));
static uint64_t matrices[8 * sizeof(key)];

static uint64_t mix(uint64_t x)
{
	uint64_t z = x + 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void pass_be(struct tuples *t)
{
	for (uint32_t i = 0; i < t->count; i++)
		t->hashes[i] = rte_softrss_be(t->host[i], TUPLE_WORDS, key_host);
}

static void pass_generic(struct tuples *t)
{
	for (uint32_t i = 0; i < t->count; i++)
		t->hashes[i] = rte_softrss(t->host[i], TUPLE_WORDS, key);
}

#ifdef RTE_THASH_GFNI_DEFINED
static void pass_gfni(struct tuples *t)
{
	rte_thash_gfni_bulk(matrices, TUPLE_LEN, t->pointers, t->hashes, t->count);
}
#endif

/* Makes room for COUNT tuples and draws them; returns whether there is room. */
static int draw(struct tuples *t, uint32_t count)
{
	if (count == t->count)
		return 1;
	free(t->network);
	free(t->host);
	free(t->pointers);
	free(t->hashes);
	t->count = count;
	t->network = calloc(count, sizeof(*t->network));
	t->host = calloc(count, sizeof(*t->host));
	t->pointers = calloc(count, sizeof(*t->pointers));
	t->hashes = calloc(count, sizeof(*t->hashes));
	if (!t->network || !t->host || !t->pointers || !t->hashes)
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t words[2] = { mix(2 * (uint64_t)i), mix(2 * (uint64_t)i + 1) };

		memcpy(t->network[i], words, TUPLE_LEN);
		memcpy(t->host[i], words, TUPLE_LEN);
		for (int w = 0; w < TUPLE_WORDS; w++)
			t->host[i][w] = rte_be_to_cpu_32(t->host[i][w]);
		t->pointers[i] = t->network[i];
	}
	return 1;
}

static uint64_t checksum(const struct tuples *t)
{
	uint64_t sum = 0xcbf29ce484222325u;

	for (uint32_t i = 0; i < t->count; i++)
		sum = (sum ^ t->hashes[i]) * 0x100000001b3u;
	return sum;
}

static void command_hash(void (*pass)(struct tuples *), uint64_t count, uint64_t ms)
{
	static struct tuples tuples;
	uint64_t passes, done = 0, start, end;

	if (count == 0 || count > TUPLES_MAX || !draw(&tuples, count)) {
		printf("error 1 to %u tuples, and memory for them\n", TUPLES_MAX);
		return;
	}
	passes = count < CLOCK_STRIDE ? CLOCK_STRIDE / count : 1;
	start = now_ns();
	do {
		for (uint64_t i = 0; i < passes; i++) {
			pass(&tuples);
			__asm__ volatile("" ::: "memory");
		}
		done += passes * count;
		end = now_ns();
	} while (end - start < ms * 1000000);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", done, end - start, checksum(&tuples));
}

static int serve(void (*pass)(struct tuples *))
{
	char line[128];
	uint64_t count, ms;

	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "hash %" SCNu64 " %" SCNu64, &count, &ms) == 2)
			command_hash(pass, count, ms);
		else if (strcmp(line, "quit\n") == 0)
			return 0;
		else
			printf("error unknown command\n");
		fflush(stdout);
	}
	return 0;
}

/* Returns the pass of a variant, or NULL where there is none here. */
static void (*variant(const char *name))(struct tuples *)
{
	if (strcmp(name, "be") == 0)
		return pass_be;
	if (strcmp(name, "generic") == 0)
		return pass_generic;
#ifdef RTE_THASH_GFNI_DEFINED
	if (strcmp(name, "gfni") == 0 && __builtin_cpu_supports("gfni"))
		return pass_gfni;
#endif
	return NULL;
}

int main(int argc, char **argv)
{
	void (*pass)(struct tuples *) = argc == 3 ? variant(argv[2]) : NULL;
	cpu_set_t cores;

	if (pass == NULL) {
		fprintf(stderr, "usage: softrss CORE be|generic|gfni (gfni needs the processor's)\n");
		return 1;
	}
	CPU_ZERO(&cores);
	CPU_SET(atoi(argv[1]), &cores);
	if (sched_setaffinity(0, sizeof(cores), &cores) != 0) {
		perror("softrss: sched_setaffinity");
		return 1;
	}
	rte_convert_rss_key((const uint32_t *)key, (uint32_t *)key_host, sizeof(key));
	rte_thash_complete_matrix(matrices, key, sizeof(key));
	printf("ok softrss %s of %s\n", argv[2], rte_version());
	fflush(stdout);
	return serve(pass);
}
