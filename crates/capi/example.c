/* A NIC with four queues, one rule, and the queues of two frames:
 *
 *     cargo build --release -p niclab-capi
 *     cc -I crates/capi crates/capi/example.c -L target/release -l:libniclab.a -lelf -lz -lm
 *     ./a.out
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "niclab.h"

/* Room for headers that rules put in front. */
#define HEADROOM 128

static int failed(const char *what, const struct niclab_error *error)
{
	fprintf(stderr, "%s: %s\n", what, error->message);
	return 1;
}

/* A UDP datagram from 10.0.0.1 to 10.0.0.2 and to this port. */
static size_t datagram(uint8_t *frame, uint16_t port)
{
	static const uint8_t headers[] = {
		2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, /* Ethernet, IPv4 */
		0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0,       /* length 28, TTL 64, UDP */
		10, 0, 0, 1, 10, 0, 0, 2,                       /* addresses */
		0x30, 0x39, 0, 0, 0, 8, 0, 0,                   /* ports, length 8 */
	};

	memcpy(frame, headers, sizeof(headers));
	frame[36] = port >> 8;
	frame[37] = port & 0xff;
	return sizeof(headers);
}

int main(void)
{
	const struct niclab_config config = {.queues = 4, .ports = 1};
	struct niclab_error error;
	struct niclab_nic *nic;
	struct niclab_worker *worker;

	if (niclab_open(&config, &nic, &error) != 0)
		return failed("open", &error);

	/* DNS goes to queue 3, and is counted: eth / ipv4 / udp dst is 53. */
	const uint8_t spec[8] = {0, 0, 0, 53}, mask[8] = {0, 0, 0xff, 0xff};
	const struct niclab_item items[] = {
		{.kind = NICLAB_ITEM_KIND_ETH},
		{.kind = NICLAB_ITEM_KIND_IPV4},
		{.kind = NICLAB_ITEM_KIND_UDP, .spec = spec, .mask = mask},
	};
	const struct niclab_action actions[] = {
		{.kind = NICLAB_ACTION_KIND_COUNT},
		{.kind = NICLAB_ACTION_KIND_QUEUE, .value = 3},
	};
	const struct niclab_rule rule = {
		.items_len = 3, .actions_len = 2, .items = items, .actions = actions};
	uint64_t handle;

	if (niclab_rule_create(nic, &rule, &handle, &error) != 0)
		return failed("create", &error);
	if (niclab_worker_open(nic, &worker, &error) != 0)
		return failed("worker", &error);

	uint8_t buffers[2][HEADROOM + 64];
	struct niclab_frame frames[2];
	for (int i = 0; i < 2; i++) {
		frames[i].data = buffers[i] + HEADROOM;
		frames[i].headroom = HEADROOM;
		frames[i].len = (uint16_t)datagram(frames[i].data, i == 0 ? 53 : 80);
	}
	niclab_classify(worker, frames, 2);
	for (int i = 0; i < 2; i++)
		printf("frame %d: queue %u by %s\n", i, frames[i].queue,
		       frames[i].flags & NICLAB_PORT_RSS ? "RSS" : "a rule");

	struct niclab_counts counts;
	if (niclab_rule_counts(nic, handle, 0, &counts, &error) != 0)
		return failed("counts", &error);
	printf("counted %" PRIu64 " packets, %" PRIu64 " bytes\n", counts.packets, counts.bytes);

	niclab_worker_close(worker);
	niclab_close(nic);
	return 0;
}
