/*
 * DPDK's software switch pipeline (rte_swx_pipeline) running a program that is given as text, as a
 * peer for programs: generated as C, compiled and loaded as DPDK's examples/pipeline does, or
 * interpreted. It is also an outside opinion on what a program does with a packet.
 *
 * Speaks on standard input and output, one command per line, one answer per line; an answer is
 * "ops ns ..." (operations done, nanoseconds they took), "ok ..." or "error ...".
 *
 * Before a program is loaded:
 *   ports IN OUT             input ports, a power of two, and output ports; 1 and 4 if not said. A
 *                            program that sends to port OUT drops; beyond it, this one ends
 *   feed own|copy|pcap       own: frames lie still and a program finds them as it left them, which
 *                            is so if nothing is said; copy: each is copied into a buffer;
 *                            pcap: DPDK's net_pcap with infinite_rx=1 receives, and drops what is
 *                            sent; its frames come before load
 *   frames FILE PORT         an input port gives out the frames of FILE, a pcap capture, round and
 *                            round; any time where the feed is not pcap
 *   load SPEC                generated, compiled, loaded; answers "ok" and the seconds it took
 *   interpret SPEC           the same program, interpreted
 * Afterwards; files are in the format of examples/pipeline:
 *   entries TABLE FILE       lines "match KEY ... action NAME ARGUMENT VALUE ..."
 *   default TABLE FILE       a line "action ...", which is the default of a table or a learner
 *   members SELECTOR FILE    lines "group ID member ID weight WEIGHT"
 *   mirror SESSION PORT fast|slow LENGTH   a session of mirroring; LENGTH 0 keeps all of a packet
 *   commit                   makes what was added so far effective
 *   changes TABLE FILE LIVE  reads lines as those of entries, for later; the first LIVE of them have
 *                            the keys of the entries there are, in their order
 *   modify COUNT MS          adds them in turn, round and round, for MS milliseconds: each takes the
 *                            place of the entry with its key. Every COUNT are committed together.
 *                            Answers "CHANGES NS"
 *   renew COUNT MS           the same, but the oldest entry goes and the next line's comes: COUNT
 *                            changes are half of the one and half of the other, one or one at least
 *   register ARRAY INDEX     answers "ok" and the value
 *   forward MS               runs for MS milliseconds; answers "PACKETS NS N ... DROPPED CLONED",
 *                            one N for each output port, clones included
 *   pass COUNT               lets each frame through once, as it was before the first pass: that it
 *                            is put back takes no time that counts. COUNT go in when those before
 *                            are out; answers as forward does, and the nanoseconds of each COUNT;
 *                            not with feed pcap
 *   send FILE OUT [PORT]     lets the frames of FILE in at PORT (0), each when the one before is
 *                            through, and writes a line to OUT for each outcome of it: "FRAME
 *                            PORT BYTES" or "FRAME drop", frames counted from 0, "short" in place
 *                            of bytes where more was read than there was; not with feed pcap
 *   quit
 *
 * The ports of own and copy are of this file, under the names of the library's source and sink, for
 * what builds a generated pipeline knows only the library's kinds; a program's symbols come before
 * those of a library. Dropped packets end in such a port whatever the feed.
 *
 * Run: spec CORE -- pinned to that core by EAL; memory without huge pages needs no root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_memcpy.h>
#include <rte_prefetch.h>
#include <rte_swx_ctl.h>
#include <rte_swx_pipeline.h>
#include <rte_swx_pipeline_spec.h>
#include <rte_swx_port_source_sink.h>
#include <rte_version.h>

#include "eal.h"

#define PORTS_MAX 64
#define HEADROOM 128 /* before a frame, for headers that are added; as RTE_PKTMBUF_HEADROOM */
#define FRAME_LEN_MAX 9600
#define BUFFERS 32	/* more than a pipeline has in hand, which is 16 */
#define BUFFER_LEN 9792 /* an odd number of cache lines: buffers lie in different sets */
/* What examples/pipeline has: buffers, beside those that net_pcap keeps, and bursts. */
#define POOL_SPARE 32768
#define POOL_BUFFER_LEN 2304
#define POOL_NAMED 512 /* where no buffer is taken, and the text that names the ports names a pool */
#define BURST "32"
#define INSTRUCTIONS_RUN 1000 /* between two looks at the clock; as examples/pipeline */
#define PASS_INSTRUCTIONS_RUN 64 /* so little that the end of a stretch is seen when it is there */
#define SEND_RUNS_MAX 10000   /* a frame that is not through then is given up */

enum feed { OWN, COPY, PCAP };

/* Frames one after the other, HEADROOM before each. */
struct frames {
	uint8_t *data;
	uint16_t *len;
	uint64_t count, stride;
};

struct input {
	struct frames frames;
	uint8_t *original; /* the frames as they were before the first pass; NULL before it */
	uint64_t at, left; /* the next frame; so many may still be handed out */
};

struct output {
	struct rte_swx_port_out_stats stats;
	uint32_t port; /* the number of output ports stands for dropped */
};

static uint32_t inputs_count = 1, outputs_count = 4;
static enum feed feed;
static struct input inputs[PORTS_MAX];
static struct output outputs[PORTS_MAX + 1];
static struct rte_mempool *pool;
static struct rte_swx_pipeline *pipeline;
static struct rte_swx_ctl_pipeline *control;
static uint64_t inside; /* packets between input and output; not counted where the feed is pcap */

static struct {
	uint8_t (*data)[BUFFER_LEN];
	uint8_t *unused[BUFFERS];
	uint32_t unused_count;
} buffers;

/* What `send` writes to, and for which frame. */
static FILE *record;
static uint64_t record_frame;

/*
 * Ports. The text that names them says their number in place of a file.
 */
static void *source_create(void *args)
{
	const struct rte_swx_port_source_params *params = args;

	return &inputs[atoi(params->file_name)];
}

static void *sink_create(void *args)
{
	const struct rte_swx_port_sink_params *params = args;
	uint32_t port = params->file_name ? (uint32_t)atoi(params->file_name) : outputs_count;

	outputs[port].port = port;
	return &outputs[port];
}

static void port_free(void *port)
{
	(void)port;
}

static int source_rx(void *port, struct rte_swx_pkt *packet)
{
	struct input *input = port;
	const struct frames *frames = &input->frames;
	uint8_t *frame = &frames->data[input->at * frames->stride];

	if (input->left == 0)
		return 0;
	packet->handle = NULL;
	packet->pkt = frame;
	packet->offset = HEADROOM;
	packet->length = frames->len[input->at];
	if (feed == COPY || record != NULL) {
		if (buffers.unused_count == 0)
			return 0;
		packet->pkt = buffers.unused[--buffers.unused_count];
		packet->handle = packet->pkt;
		/* What a program reads past the end is always the same. */
		if (record != NULL)
			memset(packet->pkt, 0, BUFFER_LEN);
		rte_memcpy(&packet->pkt[HEADROOM], &frame[HEADROOM], packet->length);
	}
	input->left--;
	inside++;
	if (++input->at == frames->count)
		input->at = 0;
	rte_prefetch0(&frames->data[input->at * frames->stride + HEADROOM]);
	return 1;
}

static void source_stats(void *port, struct rte_swx_port_in_stats *stats)
{
	(void)port;
	memset(stats, 0, sizeof(*stats));
}

static void write_record(const struct output *output, const struct rte_swx_pkt *packet,
			 uint32_t length)
{
	fprintf(record, "%" PRIu64, record_frame);
	if (output->port == outputs_count) {
		fprintf(record, " drop\n");
		return;
	}
	fprintf(record, " %" PRIu32 " ", output->port);
	/* A header read past the end of a packet makes its length less than nothing. */
	if (packet->offset > BUFFER_LEN || length > BUFFER_LEN - packet->offset) {
		fprintf(record, "short\n");
		return;
	}
	for (uint32_t i = 0; i < length; i++)
		fprintf(record, "%02x", packet->pkt[packet->offset + i]);
	fprintf(record, "\n");
}

static void sink_tx(void *port, struct rte_swx_pkt *packet)
{
	struct output *output = port;

	output->stats.n_pkts++;
	if (record != NULL)
		write_record(output, packet, packet->length);
	inside--;
	if (packet->handle == NULL)
		return;
	if (feed == PCAP)
		rte_pktmbuf_free(packet->handle);
	else
		buffers.unused[buffers.unused_count++] = packet->handle;
}

static void sink_clone(void *port, struct rte_swx_pkt *packet, uint32_t length)
{
	struct output *output = port;

	output->stats.n_pkts++;
	output->stats.n_pkts_clone++;
	if (record != NULL)
		write_record(output, packet, RTE_MIN(length ? length : UINT32_MAX, packet->length));
}

static void sink_fast_clone(void *port, struct rte_swx_pkt *packet)
{
	sink_clone(port, packet, 0);
}

static void sink_stats(void *port, struct rte_swx_port_out_stats *stats)
{
	const struct output *output = port;

	*stats = output->stats;
}

struct rte_swx_port_in_ops rte_swx_port_source_ops = {
	.create = source_create,
	.free = port_free,
	.pkt_rx = source_rx,
	.stats_read = source_stats,
};

struct rte_swx_port_out_ops rte_swx_port_sink_ops = {
	.create = sink_create,
	.free = port_free,
	.pkt_tx = sink_tx,
	.pkt_fast_clone_tx = sink_fast_clone,
	.pkt_clone_tx = sink_clone,
	.stats_read = sink_stats,
};

/*
 * Frames.
 */
static void free_frames(struct frames *frames)
{
	free(frames->data);
	free(frames->len);
	*frames = (struct frames){ 0 };
}

/* Goes to the first frame; the size of what follows is an upper bound for the number of frames. */
static long open_capture(FILE *file)
{
	uint32_t head[6];
	long size;

	if (fread(head, sizeof(head), 1, file) != 1 || fseek(file, 0, SEEK_END) != 0 ||
	    (size = ftell(file)) < 0 || fseek(file, sizeof(head), SEEK_SET) != 0)
		return -1;
	/* In microseconds, in nanoseconds. */
	return head[0] == 0xa1b2c3d4 || head[0] == 0xa1b23c4d ? size - (long)sizeof(head) : -1;
}

/* The length of the next frame, behind a header of four words; 0 at the end, negative if bad. */
static int read_length(FILE *file)
{
	uint32_t record[4];

	if (fread(record, sizeof(record), 1, file) != 1)
		return feof(file) ? 0 : -EIO;
	return record[2] == 0 || record[2] > FRAME_LEN_MAX ? -EINVAL : (int)record[2];
}

/* Counts the frames and finds the longest. */
static int measure_frames(FILE *file, struct frames *frames)
{
	int len, len_max = 0;

	while ((len = read_length(file)) > 0) {
		if (fseek(file, len, SEEK_CUR) != 0)
			return -EIO;
		len_max = RTE_MAX(len, len_max);
		frames->count++;
	}
	frames->stride = RTE_ALIGN_CEIL(HEADROOM + len_max, RTE_CACHE_LINE_SIZE);
	return len < 0 ? len : frames->count == 0 ? -EINVAL : 0;
}

static int fill_frames(FILE *file, struct frames *frames)
{
	uint64_t size;
	int len;

	if (open_capture(file) < 0 || measure_frames(file, frames) != 0)
		return -EINVAL;
	size = RTE_ALIGN_CEIL(frames->count * frames->stride, 1ul << 21);
	frames->data = aligned_alloc(1 << 21, size);
	frames->len = malloc(frames->count * sizeof(*frames->len));
	if (frames->data == NULL || frames->len == NULL)
		return -ENOMEM;
	/* A refusal only costs speed. */
	(void)madvise(frames->data, size, MADV_HUGEPAGE);
	rewind(file);
	if (open_capture(file) < 0)
		return -EINVAL;
	for (uint64_t i = 0; i < frames->count; i++) {
		len = read_length(file);
		if (len <= 0 ||
		    fread(&frames->data[i * frames->stride + HEADROOM], len, 1, file) != 1)
			return -EINVAL;
		frames->len[i] = len;
	}
	return 0;
}

static int read_frames(const char *path, struct frames *frames)
{
	FILE *file = fopen(path, "rb");
	int status;

	if (file == NULL)
		return -errno;
	status = fill_frames(file, frames);
	fclose(file);
	if (status != 0)
		free_frames(frames);
	return status;
}

static int make_pool(uint64_t buffers_count)
{
	if (pool == NULL)
		pool = rte_pktmbuf_pool_create("spec", buffers_count, 256, 0, POOL_BUFFER_LEN, 0);
	return pool == NULL ? -rte_errno : 0;
}

/* A port of net_pcap that gives out the frames of PATH for ever, and drops what it is to send. */
static int start_device(uint32_t port, const char *path, uint64_t frames_count)
{
	struct rte_eth_conf configuration = { 0 };
	char name[32], arguments[600];
	uint16_t device;
	int status = make_pool(frames_count * inputs_count + POOL_SPARE);

	snprintf(name, sizeof(name), "net_pcap%" PRIu32, port);
	snprintf(arguments, sizeof(arguments), "%s,rx_pcap=%s,infinite_rx=1", name, path);
	if (status == 0)
		status = rte_dev_probe(arguments);
	if (status == 0)
		status = rte_eth_dev_get_port_by_name(name, &device);
	if (status == 0)
		status = rte_eth_dev_configure(device, 1, 1, &configuration);
	if (status == 0)
		status = rte_eth_rx_queue_setup(device, 0, 128, 0, NULL, pool);
	if (status == 0)
		status = rte_eth_tx_queue_setup(device, 0, 512, 0, NULL);
	return status ? status : rte_eth_dev_start(device);
}

static void command_frames(const char *path, uint32_t port)
{
	struct frames frames = { 0 };
	int status;

	if (port >= inputs_count) {
		printf("error there are %" PRIu32 " input ports\n", inputs_count);
		return;
	}
	if (feed == PCAP && (pipeline != NULL || inputs[port].frames.count != 0)) {
		printf("error frames of net_pcap are given once, and before the program\n");
		return;
	}
	status = read_frames(path, &frames);
	if (status == 0 && feed == PCAP)
		status = start_device(port, path, frames.count);
	if (status != 0) {
		printf("error %s: %s\n", path, strerror(-status));
		free_frames(&frames);
		return;
	}
	free_frames(&inputs[port].frames);
	free(inputs[port].original);
	inputs[port] = (struct input){ .frames = frames };
	printf("ok %" PRIu64 "\n", frames.count);
}

/*
 * The program.
 */

/* The ports, in the text in which the library has them. */
static FILE *ports_text(void)
{
	FILE *text = tmpfile();

	if (text == NULL)
		return NULL;
	for (uint32_t port = 0; port < inputs_count; port++)
		if (feed == PCAP)
			fprintf(text, "port in %u ethdev net_pcap%u rxq 0 bsz " BURST "\n", port,
				port);
		else
			fprintf(text, "port in %u source mempool spec file %u loop 1 packets 0\n",
				port, port);
	for (uint32_t port = 0; port < outputs_count; port++)
		if (feed == PCAP)
			fprintf(text, "port out %u ethdev net_pcap0 txq 0 bsz " BURST "\n", port);
		else
			fprintf(text, "port out %u sink file %u\n", port, port);
	rewind(text);
	return text;
}

/* Writes the C that stands for the program; says what is wrong with the program. */
static int generate(const char *path, const char *code_path)
{
	FILE *spec = fopen(path, "r"), *code = fopen(code_path, "w");
	const char *message = "the file cannot be read";
	uint32_t line = 0;
	int status = spec == NULL || code == NULL ? -EIO : 0;

	if (status == 0) {
		message = "refused";
		status = rte_swx_pipeline_codegen(spec, code, &line, &message);
	}
	if (spec != NULL)
		fclose(spec);
	if (code != NULL && fclose(code) != 0 && status == 0)
		status = -EIO;
	if (status != 0)
		printf("error %s:%" PRIu32 ": %s\n", path, line, message);
	return status;
}

/* Runs a command of the shell; what it has to say goes to standard error. */
static int shell(const char *format, const char *directory)
{
	char command[2048];

	snprintf(command, sizeof(command), format, directory, directory);
	return system(command) == 0 ? 0 : -EIO;
}

static int build_generated(const char *path, FILE *ports)
{
	char directory[] = "/tmp/spec.XXXXXX", code[64], library[64];
	int status;

	if (mkdtemp(directory) == NULL) {
		printf("error a directory in /tmp: %s\n", strerror(errno));
		return -errno;
	}
	snprintf(code, sizeof(code), "%s/code.c", directory);
	snprintf(library, sizeof(library), "%s/code.so", directory);
	status = generate(path, code);
	if (status == 0) {
		status = shell("exec 1>&2; " SPEC_CC " -shared -o %s/code.so %s/code.c", directory);
		if (status != 0)
			printf("error the C compiler failed\n");
		else if ((status = rte_swx_pipeline_build_from_lib(&pipeline, "peer", library,
								   ports, 0)) != 0)
			printf("error %s: the pipeline: %s\n", path, strerror(-status));
	}
	(void)shell("rm -rf %s", directory);
	return status;
}

/* The configuration of a pipeline without code of its own, up to the first error. */
static int build_parts(struct pipeline_spec *spec, struct pipeline_iospec *ports,
		       const char **message)
{
	int status = rte_swx_pipeline_config(&pipeline, "peer", 0);

	if (status == 0)
		status = pipeline_iospec_configure(pipeline, ports, message);
	if (status == 0)
		status = pipeline_spec_configure(pipeline, spec, message);
	if (status != 0)
		return status;
	*message = "the pipeline cannot be built";
	return rte_swx_pipeline_build(pipeline);
}

static int build_interpreted(const char *path, FILE *ports_file)
{
	FILE *file = fopen(path, "r");
	const char *message = "the file cannot be read";
	struct pipeline_iospec *ports = NULL;
	struct pipeline_spec *spec = NULL;
	uint32_t line = 0;
	int status = -EINVAL;

	if (file != NULL)
		spec = pipeline_spec_parse(file, &line, &message);
	if (spec != NULL)
		ports = pipeline_iospec_parse(ports_file, &line, &message);
	if (ports != NULL) {
		message = "refused";
		line = 0;
		status = build_parts(spec, ports, &message);
	}
	if (status != 0)
		printf("error %s:%" PRIu32 ": %s\n", path, line, message);
	pipeline_iospec_free(ports);
	pipeline_spec_free(spec);
	if (file != NULL)
		fclose(file);
	return status;
}

static void command_load(const char *path, bool generated)
{
	uint64_t start = now_ns();
	FILE *ports;
	int status;

	if (pipeline != NULL) {
		printf("error a program is loaded once\n");
		return;
	}
	for (uint32_t port = 0; feed == PCAP && port < inputs_count; port++)
		if (inputs[port].frames.count == 0) {
			printf("error no frames for input port %" PRIu32 "\n", port);
			return;
		}
	ports = ports_text();
	if (ports == NULL || make_pool(feed == PCAP ? POOL_SPARE : POOL_NAMED) != 0) {
		printf("error no memory\n");
		return;
	}
	status = generated ? build_generated(path, ports) : build_interpreted(path, ports);
	fclose(ports);
	if (status != 0) {
		rte_swx_pipeline_free(pipeline);
		pipeline = NULL;
		return;
	}
	control = rte_swx_ctl_pipeline_create(pipeline);
	if (control == NULL)
		printf("error no memory\n");
	else
		printf("ok %.2f\n", (now_ns() - start) / 1e9);
}

/*
 * Tables.
 */
static void entry_free(struct rte_swx_table_entry *entry)
{
	free(entry->key);
	free(entry->key_mask);
	free(entry->action_data);
	free(entry);
}

/* Takes in a line; 1 if it adds something, 0 if it is empty or a comment, negative if it is bad. */
typedef int line_fn(const char *name, const char *line);

static int line_entry(const char *table, const char *line)
{
	int empty = 0, status;
	struct rte_swx_table_entry *entry =
		rte_swx_ctl_pipeline_table_entry_read(control, table, line, &empty);

	if (entry == NULL)
		return empty ? 0 : -EINVAL;
	status = rte_swx_ctl_pipeline_table_entry_add(control, table, entry);
	entry_free(entry);
	return status ? status : 1;
}

static int line_default(const char *table, const char *line)
{
	int empty = 0, status;
	struct rte_swx_table_entry *entry =
		rte_swx_ctl_pipeline_table_entry_read(control, table, line, &empty);
	bool learner = entry == NULL && !empty;

	if (learner)
		entry = rte_swx_ctl_pipeline_learner_default_entry_read(control, table, line,
									&empty);
	if (entry == NULL)
		return empty ? 0 : -EINVAL;
	status = learner ? rte_swx_ctl_pipeline_learner_default_entry_add(control, table, entry) :
			   rte_swx_ctl_pipeline_table_default_entry_add(control, table, entry);
	entry_free(entry);
	return status ? status : 1;
}

/* Groups are made by number, from 0, until there is the one that is meant. */
static int line_member(const char *selector, const char *line)
{
	uint32_t group, member, weight, made = 0;
	char first[3] = "";
	int status;

	if (sscanf(line, "%2s", first) != 1 || first[0] == '#' || first[0] == ';' ||
	    strcmp(first, "//") == 0)
		return 0;
	if (sscanf(line, " group %" SCNi32 " member %" SCNi32 " weight %" SCNi32, &group, &member,
		   &weight) != 3)
		return -EINVAL;
	while ((status = rte_swx_ctl_pipeline_selector_group_member_add(
			control, selector, group, member, weight)) == -EINVAL && made <= group)
		if (rte_swx_ctl_pipeline_selector_group_add(control, selector, &made) != 0 ||
		    made > group)
			return -EINVAL;
	return status ? status : 1;
}

static void command_lines(const char *name, const char *path, line_fn *take)
{
	FILE *file = fopen(path, "r");
	uint64_t start = now_ns(), number = 0, added = 0;
	char *line = NULL;
	size_t size = 0;
	int status = 0;

	if (file == NULL) {
		printf("error %s: %s\n", path, strerror(errno));
		return;
	}
	while (status >= 0 && getline(&line, &size, file) >= 0) {
		number++;
		status = take(name, line);
		added += status == 1;
	}
	free(line);
	fclose(file);
	if (status < 0)
		printf("error %s:%" PRIu64 ": not for %s\n", path, number, name);
	else
		printf("ok %" PRIu64 " %.3f\n", added, (now_ns() - start) / 1e9);
}

static void command_commit(void)
{
	uint64_t start = now_ns();
	int status = rte_swx_ctl_pipeline_commit(control, 1);

	if (status != 0)
		printf("error commit: %s\n", strerror(-status));
	else
		printf("ok %.3f\n", (now_ns() - start) / 1e9);
}

/* Entries that are to come, in turn. */
static struct {
	char table[256];
	struct rte_swx_table_entry **entries;
	uint64_t count, live, next;
} changes;

static int read_changes(FILE *file)
{
	char *line = NULL;
	size_t size = 0;
	int empty, status = 0;

	while (status == 0 && getline(&line, &size, file) >= 0) {
		struct rte_swx_table_entry *entry = rte_swx_ctl_pipeline_table_entry_read(
			control, changes.table, line, &empty);
		void *longer = realloc(changes.entries, (changes.count + 1) * sizeof(entry));

		if (longer != NULL)
			changes.entries = longer;
		if (entry == NULL || longer == NULL)
			status = -EINVAL;
		else
			changes.entries[changes.count++] = entry;
	}
	free(line);
	return status;
}

static void command_changes(const char *table, const char *path, uint64_t live)
{
	FILE *file = fopen(path, "r");
	int status;

	if (file == NULL || changes.entries != NULL) {
		printf("error %s: %s\n", path, file ? "changes are read once" : strerror(errno));
		return;
	}
	snprintf(changes.table, sizeof(changes.table), "%s", table);
	status = read_changes(file);
	fclose(file);
	changes.live = live;
	if (status != 0 || live == 0 || live > changes.count)
		printf("error %s:%" PRIu64 ": not for %s\n", path, changes.count + 1, table);
	else
		printf("ok %" PRIu64 "\n", changes.count);
}

/* The line that is so far behind the next one. */
static struct rte_swx_table_entry *later_entry(uint64_t behind)
{
	return changes.entries[(changes.next + behind) % changes.count];
}

/* So many changes, committed together; negative if one was refused. */
static int change_together(uint32_t count, bool renew)
{
	uint32_t lines = renew ? RTE_MAX(count / 2, 1u) : count;
	int status = 0;

	for (uint32_t i = 0; renew && status == 0 && i < lines; i++)
		status = rte_swx_ctl_pipeline_table_entry_delete(control, changes.table,
								 later_entry(i));
	/* One by one there is a commit for each. */
	if (renew && status == 0 && count == 1)
		status = rte_swx_ctl_pipeline_commit(control, 1);
	for (uint32_t i = 0; status == 0 && i < lines; i++)
		status = rte_swx_ctl_pipeline_table_entry_add(
			control, changes.table, later_entry(renew ? changes.live + i : i));
	changes.next = (changes.next + lines) % changes.count;
	return status ? status : rte_swx_ctl_pipeline_commit(control, 1);
}

static void command_change(uint32_t count, uint64_t ms, bool renew)
{
	uint64_t start = now_ns(), end, done = 0;
	int status;

	if (changes.entries == NULL || count == 0) {
		printf("error no changes\n");
		return;
	}
	do {
		status = change_together(count, renew);
		done += renew ? 2 * RTE_MAX(count / 2, 1u) : count;
		end = now_ns();
	} while (status == 0 && end - start < ms * 1000000);
	if (status != 0)
		printf("error a change: %s\n", strerror(-status));
	else
		printf("%" PRIu64 " %" PRIu64 "\n", done, end - start);
}

static void command_register(const char *array, uint32_t index)
{
	uint64_t value = 0;
	int status = rte_swx_ctl_pipeline_regarray_read(pipeline, array, index, &value);

	if (status != 0)
		printf("error register: %s\n", strerror(-status));
	else
		printf("ok %" PRIu64 "\n", value);
}

static void command_mirror(uint32_t session, uint32_t port, bool fast, uint32_t length)
{
	struct rte_swx_pipeline_mirroring_session_params params = {
		.port_id = port,
		.fast_clone = fast,
		.truncation_length = length,
	};
	int status = rte_swx_ctl_pipeline_mirroring_session_set(pipeline, session, &params);

	if (status != 0)
		printf("error mirror: %s\n", strerror(-status));
	else
		printf("ok\n");
}

/*
 * Packets.
 */

/* What left since the start, for each port and then dropped. Returns how often it was cloned. */
static uint64_t read_outputs(uint64_t *left)
{
	uint64_t clones = 0;

	for (uint32_t port = 0; port <= outputs_count; port++) {
		struct rte_swx_port_out_stats stats = { 0 };

		rte_swx_ctl_pipeline_port_out_stats_read(pipeline, port, &stats);
		left[port] = stats.n_pkts;
		clones += stats.n_pkts_clone;
	}
	return clones;
}

/* Lets nothing more in and waits for those inside; net_pcap cannot be stopped. */
static void drain(void)
{
	for (uint32_t port = 0; port < inputs_count; port++)
		inputs[port].left = 0;
	for (int run = 0; feed != PCAP && inside > 0 && run < SEND_RUNS_MAX; run++)
		rte_swx_pipeline_run(pipeline, INSTRUCTIONS_RUN);
}

/* Writes what left between two readings, of which so many were clones; the line stays open. */
static void answer_outputs(const uint64_t *before, const uint64_t *after, uint64_t clones,
			   uint64_t ns)
{
	uint64_t packets = 0;

	for (uint32_t port = 0; port <= outputs_count; port++)
		packets += after[port] - before[port];
	printf("%" PRIu64 " %" PRIu64, packets - clones, ns);
	for (uint32_t port = 0; port < outputs_count; port++)
		printf(" %" PRIu64, after[port] - before[port]);
	printf(" %" PRIu64 " %" PRIu64, after[outputs_count] - before[outputs_count], clones);
}

static void command_forward(uint64_t ms)
{
	uint64_t before[PORTS_MAX + 1], after[PORTS_MAX + 1], start, end, clones;

	clones = read_outputs(before);
	for (uint32_t port = 0; port < inputs_count; port++)
		inputs[port].left = inputs[port].frames.count > 0 ? UINT64_MAX : 0;
	start = now_ns();
	do {
		rte_swx_pipeline_run(pipeline, INSTRUCTIONS_RUN);
		end = now_ns();
	} while (end - start < ms * 1000000);
	clones = read_outputs(after) - clones;
	drain();
	answer_outputs(before, after, clones, end - start);
	printf("\n");
}

/* The frames of all inputs as they were before the first pass, to be let in once. */
static int rewind_frames(void)
{
	for (uint32_t port = 0; port < inputs_count; port++) {
		struct input *input = &inputs[port];
		size_t bytes = input->frames.count * input->frames.stride;

		if (input->original == NULL && bytes > 0) {
			input->original = malloc(bytes);
			if (input->original == NULL)
				return -ENOMEM;
			memcpy(input->original, input->frames.data, bytes);
		} else if (bytes > 0) {
			memcpy(input->frames.data, input->original, bytes);
		}
		input->at = 0;
	}
	return 0;
}

/* Lets the next frames of an input in and waits until they are through; the nanoseconds. */
static uint64_t run_frames(struct input *input, uint64_t count)
{
	uint64_t start = now_ns();

	input->left = count;
	while (input->left + inside > 0)
		rte_swx_pipeline_run(pipeline, PASS_INSTRUCTIONS_RUN);
	return now_ns() - start;
}

static void command_pass(uint32_t count)
{
	uint64_t before[PORTS_MAX + 1], after[PORTS_MAX + 1], clones, ns = 0, number = 0;
	uint64_t *each, stretches = 0;

	for (uint32_t port = 0; port < inputs_count; port++)
		stretches += inputs[port].frames.count / RTE_MAX(count, 1U) + 1;
	each = calloc(stretches, sizeof(*each));
	if (feed == PCAP || count == 0 || each == NULL || rewind_frames() != 0) {
		printf("error no pass with feed pcap, of no frames, or without memory\n");
		free(each);
		return;
	}
	clones = read_outputs(before);
	for (uint32_t port = 0; port < inputs_count; port++)
		for (uint64_t rest = inputs[port].frames.count; rest > 0;
		     rest -= RTE_MIN(rest, count)) {
			each[number] = run_frames(&inputs[port], RTE_MIN(rest, count));
			ns += each[number++];
		}
	clones = read_outputs(after) - clones;
	answer_outputs(before, after, clones, ns);
	for (uint64_t i = 0; i < number; i++)
		printf(" %" PRIu64, each[i]);
	printf("\n");
	free(each);
}

/* Lets frames in one by one; -ELOOP where one does not come out. */
static int send_frames(struct input *input)
{
	for (record_frame = 0; record_frame < input->frames.count; record_frame++) {
		input->left = 1;
		for (int run = 0; input->left > 0 || inside > 0; run++) {
			if (run == SEND_RUNS_MAX)
				return -ELOOP;
			rte_swx_pipeline_run(pipeline, INSTRUCTIONS_RUN);
		}
	}
	return 0;
}

static void command_send(const char *path, const char *out_path, uint32_t port)
{
	struct input frames = { 0 }, before;
	int status;

	if (feed == PCAP || port >= inputs_count) {
		printf("error send needs an input port, and a feed other than pcap\n");
		return;
	}
	if ((status = read_frames(path, &frames.frames)) != 0) {
		printf("error %s: %s\n", path, strerror(-status));
		return;
	}
	record = fopen(out_path, "w");
	if (record == NULL) {
		printf("error %s: %s\n", out_path, strerror(errno));
		free_frames(&frames.frames);
		return;
	}
	before = inputs[port];
	inputs[port] = frames;
	status = send_frames(&inputs[port]);
	inputs[port] = before;
	if (fclose(record) != 0)
		printf("error %s: %s\n", out_path, strerror(errno));
	else if (status != 0)
		printf("error frame %" PRIu64 " does not come out\n", record_frame);
	else
		printf("ok %" PRIu64 "\n", frames.frames.count);
	record = NULL;
	free_frames(&frames.frames);
}

/*
 * Commands.
 */
static void command_ports(uint32_t in, uint32_t out)
{
	if (in == 0 || (in & (in - 1)) != 0 || in > PORTS_MAX || out == 0 || out > PORTS_MAX) {
		printf("error 1 to %d ports, a power of two of input ports\n", PORTS_MAX);
		return;
	}
	inputs_count = in;
	outputs_count = out;
	printf("ok\n");
}

static void command_feed(const char *name)
{
	static const char *const names[] = { [OWN] = "own", [COPY] = "copy", [PCAP] = "pcap" };

	for (uint32_t i = 0; i < RTE_DIM(names); i++)
		if (strcmp(name, names[i]) == 0) {
			feed = i;
			printf("ok\n");
			return;
		}
	printf("error feed is own, copy or pcap\n");
}

/* What comes before a program; false if the line is none of it. */
static bool command_before(const char *line)
{
	char path[256];
	uint32_t a, b;

	if (sscanf(line, "frames %255s %" SCNu32, path, &a) == 2)
		command_frames(path, a);
	else if (sscanf(line, "load %255s", path) == 1)
		command_load(path, true);
	else if (sscanf(line, "interpret %255s", path) == 1)
		command_load(path, false);
	else if (sscanf(line, "ports %" SCNu32 "%" SCNu32, &a, &b) == 2 && pipeline == NULL &&
		 inputs[0].frames.count == 0)
		command_ports(a, b);
	else if (sscanf(line, "feed %255s", path) == 1 && pipeline == NULL &&
		 inputs[0].frames.count == 0)
		command_feed(path);
	else
		return false;
	return true;
}

/* What needs a program; false if the line is none of it. */
static bool command_after(const char *line)
{
	char a[256], b[256];
	uint32_t x, y, z = 0;

	if (control == NULL)
		return false;
	if (sscanf(line, "forward %" SCNu32, &x) == 1)
		command_forward(x);
	else if (sscanf(line, "entries %255s %255s", a, b) == 2)
		command_lines(a, b, line_entry);
	else if (sscanf(line, "default %255s %255s", a, b) == 2)
		command_lines(a, b, line_default);
	else if (sscanf(line, "members %255s %255s", a, b) == 2)
		command_lines(a, b, line_member);
	else if (sscanf(line, "pass %" SCNu32, &x) == 1)
		command_pass(x);
	else if (strcmp(line, "commit\n") == 0)
		command_commit();
	else if (sscanf(line, "changes %255s %255s %" SCNu32, a, b, &x) == 3)
		command_changes(a, b, x);
	else if (sscanf(line, "modify %" SCNu32 "%" SCNu32, &x, &y) == 2)
		command_change(x, y, false);
	else if (sscanf(line, "renew %" SCNu32 "%" SCNu32, &x, &y) == 2)
		command_change(x, y, true);
	else if (sscanf(line, "register %255s %" SCNu32, a, &x) == 2)
		command_register(a, x);
	else if (sscanf(line, "mirror %" SCNu32 "%" SCNu32 " %255s %" SCNu32, &x, &y, a, &z) == 4)
		command_mirror(x, y, strcmp(a, "fast") == 0, z);
	else if (sscanf(line, "send %255s %255s %" SCNu32, a, b, &z) >= 2)
		command_send(a, b, z);
	else
		return false;
	return true;
}

static int serve(void)
{
	char line[1024];

	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "quit\n") == 0)
			return 0;
		if (!command_before(line) && !command_after(line))
			printf("error unknown, or %s\n",
			       control == NULL ? "needs a program" : "comes before a program");
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	char megabytes[] = "2048";

	if (start_eal(argc, argv, megabytes) != 0)
		return 1;
	buffers.data = aligned_alloc(RTE_CACHE_LINE_SIZE, sizeof(*buffers.data) * BUFFERS);
	if (buffers.data == NULL)
		return 1;
	for (uint32_t i = 0; i < BUFFERS; i++)
		buffers.unused[buffers.unused_count++] = buffers.data[i];
	printf("ok rte_swx_pipeline of %s\n", rte_version());
	fflush(stdout);
	return serve();
}
