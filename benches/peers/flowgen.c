/*
 * DPDK's packet generator (testpmd, flowgen mode, null port) as a peer for the generator's bar.
 *
 * Speaks on standard input and output, one command per line, one answer per line; an answer is
 * "ops ns", "ok ..." or "error ...". It runs dpdk-testpmd (Debian: dpdk-dev) interactively and
 * translates:
 *
 *   generate MS   starts forwarding, waits until packets move, marks, sleeps MS milliseconds,
 *                 marks again and stops; the answer is the packets between the two marks and the
 *                 time testpmd itself measured between them (TX-packets and Tx-pps of `show port
 *                 stats`), so that neither start nor stop is counted. Between slices the
 *                 generating core sleeps in a read: it is free for the other side.
 *   quit
 *
 * Run: flowgen CORE [CONTROL_CORE [FLOWS [BURST]]] (defaults 1 0 10000 64)
 *
 * The setting is the one that favours testpmd: one core does nothing but generate, the null port
 * receives nothing (no-rx=1: flowgen would otherwise also receive and free what it is given) and
 * sends without copying. Its packets are 64-byte UDP with an IP checksum; it writes no UDP
 * checksum, sequence number or time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAKE_ATTEMPTS 10000 /* looks at the counter before a start is given up, 100 us apart */

struct mark {
	uint64_t packets;
	uint64_t packets_per_s; /* since the mark before */
};

static FILE *commands, *output;

/* Replaces the child by testpmd; stdbuf makes it write whole lines into the pipe at once. */
static void run_testpmd(int core, int control, const char *flows, const char *burst)
{
	char lcores[64], flows_option[64], burst_option[64];
	char *argv[] = { "stdbuf", "-oL", "dpdk-testpmd", "--no-huge", "--no-pci", "--no-shconf",
			 "-m", "512", "--no-telemetry", "--log-level=error",
			 "--vdev=net_null0,no-rx=1", lcores, "--main-lcore=0", "--", "-i",
			 "--forward-mode=flowgen", flows_option, burst_option, "--nb-cores=1",
			 "--total-num-mbufs=16384", NULL };

	snprintf(lcores, sizeof(lcores), "--lcores=0@%d,1@%d", control, core);
	snprintf(flows_option, sizeof(flows_option), "--flowgen-flows=%s", flows);
	snprintf(burst_option, sizeof(burst_option), "--burst=%s", burst);
	execvp(argv[0], argv);
	_exit(127);
}

static int start_testpmd(int core, int control, const char *flows, const char *burst)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
		return -1;
	switch (fork()) {
	case -1:
		return -1;
	case 0:
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		if (freopen("/dev/null", "w", stderr) != NULL)
			run_testpmd(core, control, flows, burst);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	commands = fdopen(in[1], "w");
	output = fdopen(out[0], "r");
	return commands && output ? 0 : -1;
}

static void tell(const char *command)
{
	fprintf(commands, "%s\n", command);
	fflush(commands);
}

/* Reads testpmd's output to the first line with TEXT; returns what follows it, or NULL. */
static const char *await(const char *text)
{
	static char line[1024];
	const char *found;

	while (fgets(line, sizeof(line), output) != NULL) {
		found = strstr(line, text);
		if (found != NULL)
			return found + strlen(text);
	}
	return NULL;
}

/* Reads the port's counter and its rate since the last mark; returns whether testpmd answered. */
static int mark(struct mark *m)
{
	const char *packets, *rate;

	tell("show port stats 0");
	packets = await("TX-packets:");
	if (packets == NULL)
		return 0;
	m->packets = strtoull(packets, NULL, 10);
	rate = await("Tx-pps:");
	if (rate == NULL)
		return 0;
	m->packets_per_s = strtoull(rate, NULL, 10);
	return 1;
}

static void pause_us(uint64_t us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };

	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		;
}

/* Marks until the counter moves; returns whether it did. */
static int await_packets(struct mark *m)
{
	struct mark before;

	if (!mark(&before))
		return 0;
	for (int i = 0; i < WAKE_ATTEMPTS; i++) {
		if (!mark(m))
			return 0;
		if (m->packets != before.packets)
			return 1;
		pause_us(100);
	}
	return 0;
}

static void command_generate(uint64_t ms)
{
	struct mark first, last;
	int good;

	tell("start");
	good = await_packets(&first);
	pause_us(ms * 1000);
	good = good && mark(&last);
	tell("stop");
	if (await("Done.") == NULL || !good || last.packets_per_s == 0) {
		printf("error testpmd sent nothing\n");
		return;
	}
	uint64_t packets = last.packets - first.packets;

	printf("%" PRIu64 " %.0f\n", packets, packets * 1e9 / last.packets_per_s);
}

static int serve(void)
{
	char line[128];
	uint64_t ms;

	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "generate %" SCNu64, &ms) == 1)
			command_generate(ms);
		else if (strcmp(line, "quit\n") == 0)
			break;
		else
			printf("error unknown command\n");
		fflush(stdout);
	}
	tell("quit");
	fclose(commands);
	while (await("Bye...") != NULL)
		;
	return wait(NULL) < 0;
}

int main(int argc, char **argv)
{
	int core = argc > 1 ? atoi(argv[1]) : 1;
	int control = argc > 2 ? atoi(argv[2]) : 0;
	const char *flows = argc > 3 ? argv[3] : "10000";
	const char *burst = argc > 4 ? argv[4] : "64";
	struct mark ready;

	signal(SIGPIPE, SIG_IGN);
	if (start_testpmd(core, control, flows, burst) != 0) {
		perror("flowgen");
		return 1;
	}
	if (!mark(&ready)) {
		printf("error dpdk-testpmd did not start (Debian: install dpdk-dev)\n");
		return 1;
	}
	printf("ok testpmd flowgen, %s flows, bursts of %s\n", flows, burst);
	fflush(stdout);
	return serve();
}
