/*
 * DPDK's software switch pipeline (rte_swx_pipeline) as a peer for the whole way of a packet.
 *
 * Speaks on standard input and output, one command per line, one answer per line; an answer is
 * "ops ns" (operations done, nanoseconds they took), "ok ..." or "error ...".
 *
 * Commands:
 *   rules NETWORKS FLOWS FILE   and NETWORKS lines "DST LEN", FLOWS lines "SRC DST SPORT DPORT",
 *                               numbers in decimal: builds the tables and reads the frames of FILE,
 *                               a pcap capture
 *   count                       forwards each frame once; answers "ok" and what each flow counted
 *   forward MS                  forwards the frames round and round for MS milliseconds; each must
 *                               hit in all tables
 *   quit
 *
 * The program: Ethernet, IPv4 and UDP are read and checked, a wildcard table of networks, an exact
 * table of destinations, an exact table of 5-tuples that counts each flow in a register of its own,
 * then a hash of addresses and ports chooses one of four output ports. The hash is CRC-32, for this
 * DPDK has no Toeplitz hash among its instructions; it is the cheaper one.
 *
 * The ports are of this file: the input hands out the frames where they lie, the output only
 * counts. Those of the library (source and sink) take a buffer from a pool and copy each frame.
 * Instructions are interpreted; spec.c has compiled ones.
 *
 * Run: swx CORE -- pinned to that core by EAL; memory without huge pages needs no root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_byteorder.h>
#include <rte_errno.h>
#include <rte_prefetch.h>
#include <rte_swx_ctl.h>
#include <rte_swx_pipeline.h>
#include <rte_swx_table_em.h>
#include <rte_swx_table_wm.h>
#include <rte_version.h>

#include "eal.h"

#define FRAME_LEN_MAX 64
#define QUEUES 4	       /* output ports; their number is a power of two */
#define INSTRUCTIONS_RUN 20000 /* instructions between two looks at the clock, some 100 us */

/* The tables in the order in which they are made, which is their number. */
enum { ROOT, HOST, FLOW, TABLES };

static const char *const table_names[TABLES] = { "ROOT", "HOST", "FLOW" };

/* What is matched, as it lies in a packet. */
struct tuple {
	uint32_t src, dst;
	uint16_t sport, dport;
};

static struct rte_swx_pipeline *pipeline;
static uint64_t flows_count;
static struct {
	uint8_t (*data)[FRAME_LEN_MAX];
	uint16_t *len;
	uint64_t count, at;
	uint64_t left; /* so many may still be handed out */
} frames;
static uint64_t sent; /* packets that left on some output port */

/*
 * Ports.
 */
static void *port_create(void *args)
{
	return args;
}

static void port_free(void *port)
{
	(void)port;
}

static int port_rx(void *port, struct rte_swx_pkt *packet)
{
	(void)port;
	if (frames.left == 0)
		return 0;
	frames.left--;
	packet->handle = NULL;
	packet->pkt = frames.data[frames.at];
	packet->offset = 0;
	packet->length = frames.len[frames.at];
	if (++frames.at == frames.count)
		frames.at = 0;
	rte_prefetch0(frames.data[frames.at]);
	return 1;
}

static void port_in_stats(void *port, struct rte_swx_port_in_stats *stats)
{
	(void)port;
	memset(stats, 0, sizeof(*stats));
}

static void port_tx(void *port, struct rte_swx_pkt *packet)
{
	(void)port;
	(void)packet;
	sent++;
}

static void port_clone_tx(void *port, struct rte_swx_pkt *packet, uint32_t length)
{
	(void)length;
	port_tx(port, packet);
}

static void port_out_stats(void *port, struct rte_swx_port_out_stats *stats)
{
	(void)port;
	memset(stats, 0, sizeof(*stats));
}

static struct rte_swx_port_in_ops port_in_ops = {
	.create = port_create,
	.free = port_free,
	.pkt_rx = port_rx,
	.stats_read = port_in_stats,
};

static struct rte_swx_port_out_ops port_out_ops = {
	.create = port_create,
	.free = port_free,
	.pkt_tx = port_tx,
	.pkt_fast_clone_tx = port_tx,
	.pkt_clone_tx = port_clone_tx,
	.stats_read = port_out_stats,
};

/*
 * The program.
 */
static struct rte_swx_field_params ethernet_fields[] = {
	{ "dst", 48 },
	{ "src", 48 },
	{ "type", 16 },
};

static struct rte_swx_field_params ipv4_fields[] = {
	{ "version_ihl", 8 }, { "dscp", 8 },	 { "length", 16 }, { "id", 16 },
	{ "fragment", 16 },   { "ttl", 8 },	 { "protocol", 8 }, { "checksum", 16 },
};

/* Both addresses and both ports lie next to each other where IPv4 has no options. */
static struct rte_swx_field_params tuple_fields[] = {
	{ "src", 32 }, { "dst", 32 }, { "sport", 16 }, { "dport", 16 },
};

static struct rte_swx_field_params meta_fields[] = { { "port", 32 }, { "queue", 32 } };

static struct rte_swx_field_params count_fields[] = { { "flow", 32 } };

static const char *pass_instructions[] = { "return" };

static const char *count_instructions[] = { "regadd COUNT t.flow 1", "return" };

static const char *instructions[] = {
	"rx m.port",
	"extract h.ethernet",
	"extract h.ipv4",
	"extract h.tuple",
	"jmpneq DROP h.ethernet.type 0x0800",
	"jmpneq DROP h.ipv4.version_ihl 0x45",
	"jmpneq DROP h.ipv4.protocol 17",
	"table ROOT",
	"jmpnh SPREAD",
	"table HOST",
	"jmpnh SPREAD",
	"table FLOW",
	"SPREAD : hash crc32 m.queue h.tuple.src h.tuple.dport",
	"and m.queue 3",
	"emit h.ethernet",
	"emit h.ipv4",
	"emit h.tuple",
	"tx m.queue",
	"DROP : drop",
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static int make_header(const char *name, struct rte_swx_field_params *fields, uint32_t count)
{
	int status = rte_swx_pipeline_struct_type_register(pipeline, name, fields, count, 0);

	return status ? status : rte_swx_pipeline_packet_header_register(pipeline, name, name);
}

static int make_ports(void)
{
	int status = rte_swx_pipeline_port_in_type_register(pipeline, "memory", &port_in_ops);

	if (status == 0)
		status = rte_swx_pipeline_port_out_type_register(pipeline, "count", &port_out_ops);
	if (status == 0)
		status = rte_swx_pipeline_port_in_config(pipeline, 0, "memory", &frames);
	for (uint32_t queue = 0; status == 0 && queue < QUEUES; queue++)
		status = rte_swx_pipeline_port_out_config(pipeline, queue, "count", &frames);
	return status;
}

static int make_structures(void)
{
	int status = make_header("ethernet", ethernet_fields, COUNT_OF(ethernet_fields));

	if (status == 0)
		status = make_header("ipv4", ipv4_fields, COUNT_OF(ipv4_fields));
	if (status == 0)
		status = make_header("tuple", tuple_fields, COUNT_OF(tuple_fields));
	if (status == 0)
		status = rte_swx_pipeline_struct_type_register(pipeline, "meta", meta_fields,
							       COUNT_OF(meta_fields), 0);
	if (status == 0)
		status = rte_swx_pipeline_packet_metadata_register(pipeline, "meta");
	if (status == 0)
		status = rte_swx_pipeline_struct_type_register(pipeline, "counted", count_fields,
							       COUNT_OF(count_fields), 0);
	return status;
}

/* The actions; their numbers are in the order of being made. */
enum { PASS, TALLY };

static int make_actions(void)
{
	int status = rte_swx_pipeline_regarray_config(pipeline, "COUNT", flows_count, 0);

	if (status == 0)
		status = rte_swx_pipeline_action_config(pipeline, "pass", NULL, pass_instructions,
							COUNT_OF(pass_instructions));
	if (status == 0)
		status = rte_swx_pipeline_action_config(pipeline, "tally", "counted",
							count_instructions,
							COUNT_OF(count_instructions));
	return status;
}

static int make_table(int table, const char **keys, uint32_t keys_count, int match, uint64_t size)
{
	static const char *actions[] = { "pass", "tally" };
	struct rte_swx_match_field_params fields[4];
	struct rte_swx_pipeline_table_params parameters = {
		.fields = fields,
		.n_fields = keys_count,
		.action_names = actions,
		.n_actions = table == FLOW ? 2 : 1,
		.default_action_name = "pass",
	};

	for (uint32_t i = 0; i < keys_count; i++)
		fields[i] = (struct rte_swx_match_field_params){ keys[i], match };
	return rte_swx_pipeline_table_config(pipeline, table_names[table], &parameters, NULL, NULL,
					     size);
}

static int make_tables(uint64_t networks_count)
{
	static const char *tuple[] = { "h.tuple.src", "h.tuple.dst", "h.tuple.sport",
				       "h.tuple.dport" };
	int status = make_table(ROOT, &tuple[1], 1, RTE_SWX_TABLE_MATCH_WILDCARD, networks_count);

	if (status == 0)
		status = make_table(HOST, &tuple[1], 1, RTE_SWX_TABLE_MATCH_EXACT, flows_count);
	if (status == 0)
		status = make_table(FLOW, tuple, 4, RTE_SWX_TABLE_MATCH_EXACT, flows_count);
	return status;
}

static int make_pipeline(uint64_t networks_count)
{
	int status = rte_swx_pipeline_config(&pipeline, "peer", 0);

	if (status == 0)
		status = make_ports();
	if (status == 0)
		status = make_structures();
	if (status == 0)
		status = make_actions();
	if (status == 0)
		status = make_tables(networks_count);
	if (status == 0)
		status = rte_swx_pipeline_instructions_config(pipeline, instructions,
							      COUNT_OF(instructions));
	return status ? status : rte_swx_pipeline_build(pipeline);
}

/*
 * Rules.
 */
static int read_numbers(uint32_t *numbers, int count)
{
	char line[80];

	if (fgets(line, sizeof(line), stdin) == NULL)
		return -EINVAL;
	return sscanf(line, "%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32, &numbers[0], &numbers[1],
		      &numbers[2], &numbers[3]) == count ? 0 : -EINVAL;
}

static int add_networks(uint64_t count)
{
	struct rte_swx_ctl_pipeline *control = rte_swx_ctl_pipeline_create(pipeline);
	int status = control == NULL ? -ENOMEM : 0;
	uint32_t v[4], key, mask;
	struct rte_swx_table_entry entry = {
		.key = (uint8_t *)&key,
		.key_mask = (uint8_t *)&mask,
		.action_id = PASS,
	};

	for (uint64_t i = 0; status == 0 && i < count; i++) {
		status = read_numbers(v, 2);
		key = rte_cpu_to_be_32(v[0]);
		mask = rte_cpu_to_be_32(v[1] == 0 ? 0 : UINT32_MAX << (32 - v[1]));
		if (status == 0)
			status = rte_swx_ctl_pipeline_table_entry_add(control, "ROOT", &entry);
	}
	return status ? status : rte_swx_ctl_pipeline_commit(control, 1);
}

/*
 * Straight into the tables: the control interface compares each new entry with all there are, which
 * takes minutes for 64 k.
 */
static int add_flows(uint64_t count)
{
	struct rte_swx_table_state *state;
	struct tuple tuple;
	uint32_t v[4], flow;
	struct rte_swx_table_entry entry = { .key = (uint8_t *)&tuple, .action_id = TALLY,
					     .action_data = (uint8_t *)&flow };
	struct rte_swx_table_entry host = { .key = (uint8_t *)&tuple.dst, .action_id = PASS };
	int status = rte_swx_pipeline_table_state_get(pipeline, &state);

	for (flow = 0; status == 0 && flow < count; flow++) {
		status = read_numbers(v, 4);
		tuple = (struct tuple){ rte_cpu_to_be_32(v[0]), rte_cpu_to_be_32(v[1]),
					rte_cpu_to_be_16(v[2]), rte_cpu_to_be_16(v[3]) };
		if (status == 0)
			status = rte_swx_table_exact_match_ops.add(state[HOST].obj, &host);
		if (status == 0)
			status = rte_swx_table_exact_match_ops.add(state[FLOW].obj, &entry);
	}
	return status;
}

/* The frames of a capture: a header of 24 bytes, 16 before each frame, two words of it lengths. */
static int read_frames(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint32_t head[6], record[4];
	long size;

	if (file == NULL)
		return -errno;
	if (fread(head, sizeof(head), 1, file) != 1 || fseek(file, 0, SEEK_END) != 0 ||
	    (size = ftell(file)) < 0 || fseek(file, sizeof(head), SEEK_SET) != 0)
		goto bad;
	frames.data = aligned_alloc(1 << 21, RTE_ALIGN_CEIL(size * 4ul, 1ul << 21));
	frames.len = malloc(size);
	if (frames.data == NULL || frames.len == NULL)
		goto bad;
	/* A refusal only costs speed. */
	(void)madvise(frames.data, RTE_ALIGN_CEIL(size * 4ul, 1ul << 21), MADV_HUGEPAGE);
	while (fread(record, sizeof(record), 1, file) == 1) {
		if (record[2] > FRAME_LEN_MAX || record[2] == 0 ||
		    fread(frames.data[frames.count], record[2], 1, file) != 1)
			goto bad;
		frames.len[frames.count++] = record[2];
	}
	fclose(file);
	return frames.count > 0 ? 0 : -EINVAL;
bad:
	fclose(file);
	return -EINVAL;
}

static void command_rules(uint64_t networks, uint64_t flows, const char *path)
{
	int status;

	if (pipeline != NULL || networks == 0 || flows == 0) {
		printf("error rules are given once, and there are some\n");
		return;
	}
	flows_count = flows;
	if ((status = make_pipeline(networks)) != 0)
		printf("error the pipeline: %s\n", strerror(-status));
	else if ((status = add_networks(networks)) != 0)
		printf("error networks: %s\n", strerror(-status));
	else if ((status = add_flows(flows)) != 0)
		printf("error flows: %s\n", strerror(-status));
	else if ((status = read_frames(path)) != 0)
		printf("error frames: %s\n", strerror(-status));
	else
		printf("ok\n");
}

/*
 * Packets.
 */
/* Lets COUNT packets in and waits until all are through. */
static void forward(uint64_t count)
{
	uint64_t until = sent + count;

	frames.left = count;
	while (sent < until && frames.left > 0)
		rte_swx_pipeline_run(pipeline, INSTRUCTIONS_RUN);
	/* Those inside: more instructions than a packet takes on each of 16 threads. */
	rte_swx_pipeline_run(pipeline, INSTRUCTIONS_RUN);
}

/* Packets that some table had no entry for, since the start. */
static uint64_t misses(void)
{
	uint64_t actions[8], sum = 0;

	for (int table = 0; table < TABLES; table++) {
		struct rte_swx_table_stats stats = { .n_pkts_action = actions };

		rte_swx_ctl_pipeline_table_stats_read(pipeline, table_names[table], &stats);
		sum += stats.n_pkts_miss;
	}
	return sum;
}

static void command_count(void)
{
	uint64_t before = sent, value;

	if (frames.count == 0) {
		printf("error count needs rules\n");
		return;
	}
	for (uint64_t flow = 0; flow < flows_count; flow++)
		rte_swx_ctl_pipeline_regarray_write(pipeline, "COUNT", flow, 0);
	forward(frames.count);
	if (sent - before != frames.count) {
		printf("error %" PRIu64 " of %" PRIu64 " packets came out\n", sent - before,
		       frames.count);
		return;
	}
	printf("ok");
	for (uint64_t flow = 0; flow < flows_count; flow++) {
		rte_swx_ctl_pipeline_regarray_read(pipeline, "COUNT", flow, &value);
		printf(" %" PRIu64, value);
	}
	printf("\n");
}

static void command_forward(uint64_t ms)
{
	uint64_t start, end, missed, before = sent;

	if (frames.count == 0) {
		printf("error forward needs rules\n");
		return;
	}
	missed = misses();
	frames.left = UINT64_MAX;
	start = now_ns();
	do {
		rte_swx_pipeline_run(pipeline, INSTRUCTIONS_RUN);
		end = now_ns();
	} while (end - start < ms * 1000000);
	frames.left = 0;
	if (misses() != missed)
		printf("error %" PRIu64 " misses\n", misses() - missed);
	else
		printf("%" PRIu64 " %" PRIu64 "\n", sent - before, end - start);
}

static int serve(void)
{
	char line[512], path[256];
	uint64_t a, b;

	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "rules %" SCNu64 " %" SCNu64 " %255s", &a, &b, path) == 3)
			command_rules(a, b, path);
		else if (sscanf(line, "forward %" SCNu64, &a) == 1)
			command_forward(a);
		else if (strcmp(line, "count\n") == 0)
			command_count();
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
	if (start_eal(argc, argv, "1024") != 0)
		return 1;
	printf("ok rte_swx_pipeline of %s\n", rte_version());
	fflush(stdout);
	return serve();
}
