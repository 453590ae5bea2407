/*
 * What the peers that are DPDK libraries share: the clock, EAL without huge pages of its own and
 * without root, and transparent huge pages in their place.
 */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_memory.h>

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Bytes that are allocated from EAL's heaps. */
static inline uint64_t heap_bytes(void)
{
	struct rte_malloc_socket_stats stats;
	uint64_t bytes = 0;

	for (int socket = 0; socket < RTE_MAX_NUMA_NODES; socket++)
		if (rte_malloc_get_socket_stats(socket, &stats) == 0)
			bytes += stats.heap_allocsz_bytes;
	return bytes;
}

/*
 * Without huge pages EAL backs its memory by a memfd if there is one, which transparent huge pages
 * do not reach. This definition comes before libc's; EAL falls back to anonymous memory.
 */
int memfd_create(const char *name, unsigned int flags)
{
	(void)name;
	(void)flags;
	errno = ENOSYS;
	return -1;
}

static inline int advise_huge(const struct rte_memseg_list *list, void *unused)
{
	(void)unused;
	/* A refusal only costs speed. */
	(void)madvise(list->base_va, list->len, MADV_HUGEPAGE);
	return 0;
}

/*
 * Starts EAL with so many megabytes, pinned to the core that the program's first argument names, 1
 * if there is none; AVX-512 is allowed. Nonzero where it fails, which is said.
 */
static inline int start_eal(int argc, char **argv, char *megabytes)
{
	char lcores[16];
	char *eal[] = { argv[0], "--no-huge", "--no-pci", "-m", megabytes, "--no-shconf", "-l",
			lcores, "--log-level=error", "--no-telemetry",
			"--force-max-simd-bitwidth=512" };

	snprintf(lcores, sizeof(lcores), "%d", argc > 1 ? atoi(argv[1]) : 1);
	if (rte_eal_init(sizeof(eal) / sizeof(*eal), eal) < 0) {
		fprintf(stderr, "rte_eal_init: %s\n", rte_strerror(rte_errno));
		return 1;
	}
	rte_memseg_list_walk(advise_huge, NULL);
	return 0;
}
