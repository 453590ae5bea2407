/*
 * Open vSwitch's userspace datapath as a peer for the whole way of a packet.
 *
 * Speaks on standard input and output, one command per line, one answer per line; an answer is
 * "ops ns" (operations done, nanoseconds they took), "ok ..." or "error ...". It runs ovsdb-server
 * and ovs-vswitchd in a temporary directory and translates:
 *
 *   rules NETWORKS FLOWS FILE   and NETWORKS lines "DST LEN", FLOWS lines "SRC DST SPORT DPORT",
 *                               numbers in decimal: OpenFlow rules of tables 0, 1 and 2; the frames
 *                               are those of FILE, a pcap capture
 *   count                       forwards each frame once; answers "ok" and what each flow counted
 *   forward MS                  lets the switch run, marks, sleeps MS milliseconds, marks again and
 *                               stops it; the answer is the packets between the two marks and the
 *                               time in which, both as its polling thread counted them; each must
 *                               have hit in a table of its datapath
 *   quit
 *
 * Between slices the whole switch is stopped by a signal: the core is free for the other side.
 *
 * A port of DPDK's net_pcap holds the frames in memory and gives them out round and round
 * (infinite_rx=1); one that reads the capture once counts. The last table drops, which spares the
 * switch the sending. Its settings stand in `configure`.
 *
 * Run: ovs CORE -- the polling thread has that core, everything else another one where there is
 * one. However this program ends, the switch ends with it and the directory is removed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define ATTEMPTS 1000	 /* looks at something that is to become true, 10 ms apart */
#define PEER_PATH 256	 /* longest path of ours */
#define FRAME_LEN_MAX 64
#define LOST_MAX 100000	 /* frames that a new port may lose: a second, some 5 ms are seen */
#define FLOWS_MAX 200000 /* flows of the datapath, which allows 10,000 to begin with */

static char *tree; /* where Open vSwitch is unpacked */
static char home[] = "/tmp/niclab-ovs-XXXXXX";
static int core, control;
static pid_t forwarder; /* ovs-vswitchd */
static char capture[PEER_PATH];
static uint64_t flows_count;
static double cycles_per_ns;

static void pause_us(uint64_t us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };

	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Writes into one of a few buffers that take turns. */
static char *text(const char *format, ...)
{
	static char buffers[8][1024];
	static int turn;
	char *buffer = buffers[turn++ % 8];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(buffer, sizeof(buffers[0]), format, arguments);
	va_end(arguments);
	return buffer;
}

/*
 * Programs.
 */
/* Starts a program that is heard by nobody and ends when this one does. */
static pid_t start(char *const argv[])
{
	pid_t child = fork();

	if (child == 0) {
		int null = open("/dev/null", O_RDWR);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int file = 0; file < 3; file++)
			dup2(null, file);
		execv(argv[0], argv);
		_exit(127);
	}
	return child;
}

/* Runs a program to its end; returns whether it reported success. */
static int run(char *const argv[])
{
	pid_t child = start(argv);
	int status;

	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

#define RUN(...) run((char *[]){ __VA_ARGS__, NULL })
#define VSCTL(...)                                                                                 \
	RUN(text("%s/usr/bin/ovs-vsctl", tree), text("--db=unix:%s/db", home), "--timeout=60",     \
	    __VA_ARGS__)

/*
 * The directory is removed by a process that waits for the end of this one, whatever that is: its
 * end of the pipe is the last then.
 */
static int start_sweeper(void)
{
	int ends[2];
	char byte;

	if (mkdtemp(home) == NULL || pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	switch (fork()) {
	case -1:
		return -1;
	case 0:
		setsid();
		for (int file = 0; file < 3; file++)
			close(file);
		close(ends[1]);
		while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
			;
		/* The switch dies at the same time, and may still have written. */
		for (int i = 0; i < 3; i++) {
			if (i > 0)
				pause_us(300000);
			if (fork() == 0) {
				execlp("rm", "rm", "-rf", home, NULL);
				_exit(127);
			}
			wait(NULL);
		}
		_exit(0);
	}
	close(ends[0]);
	return 0;
}

/*
 * The switch.
 */
/* Asks the running switch; returns its answer, which stands until the next, or NULL. */
static const char *ask(const char *method, const char *parameter)
{
	static char answer[16384];
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int socket_file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t length = 0;
	ssize_t got = 0;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", home);
	if (connect(socket_file, (struct sockaddr *)&address, sizeof(address)) == 0) {
		dprintf(socket_file, "{\"id\":0,\"method\":\"%s\",\"params\":[%s]}", method,
			parameter);
		/* An answer is one JSON object, with newlines escaped. */
		do {
			got = read(socket_file, answer + length, sizeof(answer) - 1 - length);
			length += got > 0 ? got : 0;
			answer[length] = 0;
		} while (got > 0 && (length == 0 || strchr("}\n", answer[length - 1]) == NULL));
	}
	close(socket_file);
	return got > 0 && strstr(answer, "\"error\":null") != NULL ? answer : NULL;
}

static int await_file(const char *name)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		if (access(text("%s/%s", home, name), F_OK) == 0)
			return 1;
		pause_us(10000);
	}
	return 0;
}

static int start_database(void)
{
	char *file = text("%s/conf", home);
	char *schema = text("%s/usr/share/openvswitch/vswitch.ovsschema", tree);

	if (!RUN(text("%s/usr/bin/ovsdb-tool", tree), "create", file, schema))
		return 0;
	start((char *[]){ text("%s/usr/sbin/ovsdb-server", tree), file,
			  text("--remote=punix:%s/db", home), text("--unixctl=%s/dbcontrol", home),
			  "--log-file=/dev/null", NULL });
	return await_file("db");
}

static int configure(void)
{
	return VSCTL("--no-wait", "init", "--", "set", "Open_vSwitch", ".",
		     "other_config:dpdk-init=true",
		     text("other_config:dpdk-lcore-mask=0x%" PRIx64, UINT64_C(1) << control),
		     text("other_config:pmd-cpu-mask=0x%" PRIx64, UINT64_C(1) << core),
		     /* Memory without reserved huge pages, and none of it outside. */
		     "other_config:dpdk-extra=--no-huge --no-pci --legacy-mem --no-shconf "
		     "--no-telemetry -m 2048",
		     /* No flow of the datapath is forgotten while the switch is stopped. */
		     "other_config:max-idle=3600000",
		     /*
		      * No cache in front of the entries: the small one is too small for 64 k flows,
		      * the large one costs more than it saves. 2.0 to 2.2 million packets a second
		      * without, 1.1 to 2.0 with one or both.
		      */
		     "other_config:emc-insert-inv-prob=0", "other_config:smc-enable=false");
}

static int start_switch(void)
{
	char *program = text("%s/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk", tree);

	/* Its entries lie in huge pages. */
	setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 1);
	forwarder = start((char *[]){ program, text("unix:%s/db", home),
				      text("--unixctl=%s/control", home), "--log-file=/dev/null",
				      NULL });
	unsetenv("GLIBC_TUNABLES");
	return await_file("control") &&
	       VSCTL("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev",
		     "fail_mode=secure");
}

/* Lets the switch run, or stops all of it. */
static void wake(void)
{
	kill(forwarder, SIGCONT);
}

static void stop(void)
{
	kill(forwarder, SIGSTOP);
}

/*
 * Rules.
 */
static int copy_rules(FILE *to, uint64_t networks, uint64_t flows)
{
	uint32_t v[4];
	char line[80];

#define ADDRESS "%u.%u.%u.%u"
#define BYTES(v) (v) >> 24, (v) >> 16 & 255, (v) >> 8 & 255, (v) & 255
	for (uint64_t i = 0; i < networks; i++) {
		if (fgets(line, sizeof(line), stdin) == NULL ||
		    sscanf(line, "%" SCNu32 "%" SCNu32, &v[0], &v[1]) != 2)
			return 0;
		fprintf(to, "table=0,ip,nw_dst=" ADDRESS "/%u,actions=goto_table:1\n", BYTES(v[0]),
			v[1]);
	}
	for (uint64_t i = 0; i < flows; i++) {
		if (fgets(line, sizeof(line), stdin) == NULL ||
		    sscanf(line, "%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32, &v[0], &v[1], &v[2],
			   &v[3]) != 4)
			return 0;
		fprintf(to, "table=1,ip,nw_dst=" ADDRESS ",actions=goto_table:2\n", BYTES(v[1]));
		fprintf(to,
			"table=2,cookie=%" PRIu64 ",udp,nw_src=" ADDRESS ",nw_dst=" ADDRESS
			",tp_src=%u,tp_dst=%u,actions=drop\n",
			i, BYTES(v[0]), BYTES(v[1]), v[2], v[3]);
	}
	return 1;
}

static void command_rules(uint64_t networks, uint64_t flows, const char *path)
{
	char *file = text("%s/flows", home);
	FILE *to = fopen(file, "w");
	int good = to != NULL && copy_rules(to, networks, flows);

	snprintf(capture, sizeof(capture), "%s", path);
	flows_count = flows;
	if (to == NULL || fclose(to) != 0 || !good)
		printf("error rules: cannot be read, or written to %s\n", file);
	else if (!RUN(text("%s/usr/bin/ovs-ofctl", tree), "--bundle", "add-flows",
		      text("unix:%s/br0.mgmt", home), file) ||
		 ask("upcall/set-flow-limit", text("\"%d\"", FLOWS_MAX)) == NULL)
		printf("error rules: refused\n");
	else
		printf("ok\n");
}

/*
 * Packets.
 */
/* Adds a port that reads a capture. */
static int add_port(char *name, const char *file, const char *how)
{
	return VSCTL("add-port", "br0", name, "--", "set", "Interface", name, "type=dpdk",
		     text("options:dpdk-devargs=net_pcap_%s,rx_pcap=%s%s", name, file, how));
}

/*
 * Writes a capture of frames that no rule knows and then those of the capture, of which it returns
 * the number: a new port is polled before its switch knows it, and what it gives until then is
 * lost. A capture has a header of 24 bytes, and 16 before each frame, the third word its length.
 */
static uint64_t write_late(const char *path)
{
	uint8_t head[24], frame[16 + FRAME_LEN_MAX] = { 0 };
	uint32_t *record = (uint32_t *)frame;
	FILE *from = fopen(capture, "rb"), *to = fopen(path, "wb");
	uint64_t count = 0;
	int good = from != NULL && to != NULL && fread(head, sizeof(head), 1, from) == 1 &&
		   fwrite(head, sizeof(head), 1, to) == 1;

	record[2] = record[3] = 60;
	for (int i = 0; good && i < LOST_MAX; i++)
		good = fwrite(frame, 16 + 60, 1, to) == 1;
	while (good && fread(frame, 16, 1, from) == 1) {
		good = record[2] <= FRAME_LEN_MAX && fread(frame + 16, record[2], 1, from) == 1 &&
		       fwrite(frame, 16 + record[2], 1, to) == 1;
		count++;
	}
	if (from != NULL)
		fclose(from);
	if (to != NULL && fclose(to) != 0)
		good = 0;
	return good ? count : 0;
}

/* Reads what each flow has counted; returns the sum. */
static uint64_t read_counts(uint64_t *counts)
{
	FILE *flows = popen(text("exec '%s/usr/bin/ovs-ofctl' dump-flows 'unix:%s/br0.mgmt' table=2",
				 tree, home), "re");
	char line[1024];
	uint64_t flow, packets, sum = 0;

	if (flows == NULL)
		return 0;
	while (fgets(line, sizeof(line), flows) != NULL) {
		const char *cookie = strstr(line, "cookie=0x");
		const char *counted = strstr(line, "n_packets=");

		if (cookie == NULL || counted == NULL ||
		    sscanf(cookie, "cookie=0x%" SCNx64, &flow) != 1 ||
		    sscanf(counted, "n_packets=%" SCNu64, &packets) != 1 || flow >= flows_count)
			continue;
		counts[flow] = packets;
		sum += packets;
	}
	pclose(flows);
	return sum;
}

static void command_count(void)
{
	const char *late = text("%s/late", home);
	uint64_t frames = write_late(late), counted = 0;
	uint64_t *counts = calloc(flows_count, sizeof(*counts));

	if (counts == NULL || frames == 0 || !add_port("once", late, "")) {
		printf("error count needs rules and a capture\n");
		free(counts);
		return;
	}
	/* The datapath's counts reach the rules twice a second. */
	for (int i = 0; counted < frames && i < ATTEMPTS / 10; i++) {
		pause_us(100000);
		counted = read_counts(counts);
	}
	if (counted != frames || !VSCTL("del-port", "br0", "once")) {
		printf("error %" PRIu64 " of %" PRIu64 " packets were counted\n", counted, frames);
	} else {
		printf("ok");
		for (uint64_t flow = 0; flow < flows_count; flow++)
			printf(" %" PRIu64, counts[flow]);
		printf("\n");
	}
	free(counts);
}

/* What the polling thread has counted. */
struct mark {
	uint64_t packets, missed, cycles;
};

static int number(const char *text, const char *name, uint64_t *to)
{
	const char *found = strstr(text, name);

	return found != NULL && sscanf(found + strlen(name), ": %" SCNu64, to) == 1;
}

static int mark(struct mark *m)
{
	const char *said = ask("dpif-netdev/pmd-stats-show", "");
	uint64_t failed, busy, idle;

	said = said == NULL ? NULL : strstr(said, text("core_id %d:", core));
	if (said == NULL || !number(said, "packets received", &m->packets) ||
	    !number(said, "miss with success upcall", &m->missed) ||
	    !number(said, "miss with failed upcall", &failed) ||
	    !number(said, "idle cycles", &idle) || !number(said, "processing cycles", &busy))
		return 0;
	m->missed += failed;
	m->cycles = busy + idle;
	return 1;
}

/* Waits until the datapath has an entry for each packet. */
static int await_entries(void)
{
	struct mark before, now;

	for (int i = 0; i < ATTEMPTS / 10; i++) {
		if (!mark(&before))
			return 0;
		pause_us(100000);
		if (!mark(&now))
			return 0;
		if (now.packets - before.packets > 100000 && now.missed == before.missed)
			return 1;
	}
	return 0;
}

static void command_forward(uint64_t ms)
{
	static int ready; /* the port is there */
	struct mark first, last;

	if (!ready)
		ready = add_port("round", capture, ",infinite_rx=1") && await_entries();
	/* What was under way when the switch was stopped ends before the count begins. */
	pause_us(2000);
	if (!ready || !mark(&first)) {
		printf("error the switch forwards nothing\n");
		return;
	}
	pause_us(ms * 1000);
	if (!mark(&last))
		printf("error the switch says nothing\n");
	else if (last.missed != first.missed)
		printf("error %" PRIu64 " packets without an entry\n", last.missed - first.missed);
	else
		printf("%" PRIu64 " %.0f\n", last.packets - first.packets,
		       (last.cycles - first.cycles) / cycles_per_ns);
}

static int serve(void)
{
	char line[512], path[PEER_PATH];
	uint64_t a, b;

	while (fgets(line, sizeof(line), stdin)) {
		wake();
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
		stop();
		fflush(stdout);
	}
	return 0;
}

/* Takes a core, and measures how fast the counter of cycles runs there. */
static void settle(void)
{
	cpu_set_t cores;
	uint64_t ns, cycles;

	CPU_ZERO(&cores);
	CPU_SET(control, &cores);
	sched_setaffinity(0, sizeof(cores), &cores);
	ns = now_ns();
	cycles = __rdtsc();
	pause_us(50000);
	cycles_per_ns = (double)(__rdtsc() - cycles) / (now_ns() - ns);
}

int main(int argc, char **argv)
{
	char here[PEER_PATH];
	ssize_t length = readlink("/proc/self/exe", here, sizeof(here) - 64);

	here[length > 0 ? length : 0] = 0;
	dirname(here);
	if (asprintf(&tree, "%s/openvswitch", here) < 0)
		return 1;
	if (strchr(tree, '\'') != NULL) {
		printf("error the path %s has a quote in it: build elsewhere\n", tree);
		return 1;
	}
	core = argc > 1 ? atoi(argv[1]) : 1;
	control = sysconf(_SC_NPROCESSORS_ONLN) == 1 ? core : core == 0;
	settle();
	if (start_sweeper() != 0) {
		printf("error no directory %s: %s\n", home, strerror(errno));
		return 1;
	}
	setenv("OVS_RUNDIR", home, 1);
	setenv("OVS_LOGDIR", home, 1);
	setenv("OVS_DBDIR", home, 1);
	setenv("RUNTIME_DIRECTORY", home, 1); /* DPDK's */
	if (!start_database() || !configure() || !start_switch()) {
		printf("error Open vSwitch of %s did not start\n", tree);
		return 1;
	}
	stop();
	printf("ok the userspace datapath of Open vSwitch\n");
	fflush(stdout);
	return serve();
}
