// Prints the histograms of a log as HdrHistogram's C library reads them, one line each.
#include <hdr/hdr_histogram.h>
#include <hdr/hdr_histogram_log.h>
#include <hdr/hdr_time.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long long ms(const hdr_timespec *time)
{
	return llround(hdr_timespec_as_double(time) * 1000);
}

int main(int argc, char **argv)
{
	struct hdr_log_reader reader;
	FILE *log = argc == 2 ? fopen(argv[1], "r") : NULL;
	if (log == NULL || hdr_log_reader_init(&reader) != 0)
		return 2;
	if (hdr_log_read_header(&reader, log) != 0)
		return 3;
	for (;;) {
		struct hdr_histogram *found = NULL;
		char tag[64] = "";
		struct hdr_log_entry entry;
		memset(&entry, 0, sizeof entry);
		entry.tag = tag;
		entry.tag_len = sizeof tag - 1;
		int answer = hdr_log_read_entry(&reader, log, &entry, &found);
		if (answer == EOF)
			break;
		if (answer != 0)
			return 4;
		printf("%s %lld %lld %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", tag,
		       ms(&entry.start_timestamp), ms(&entry.interval), found->total_count,
		       hdr_value_at_percentile(found, 50), hdr_value_at_percentile(found, 99),
		       hdr_value_at_percentile(found, 100));
		hdr_close(found);
	}
	printf("began %lld\n", ms(&reader.start_timestamp));
	// The call that most programs use: from the start again.
	rewind(log);
	struct hdr_histogram *all = NULL;
	hdr_timespec start, length;
	if (hdr_log_reader_init(&reader) != 0 || hdr_log_read_header(&reader, log) != 0)
		return 5;
	while (hdr_log_read(&reader, log, &all, &start, &length) == 0) {
	}
	printf("all %" PRId64 "\n", all == NULL ? 0 : all->total_count);
	return 0;
}
