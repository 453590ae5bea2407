"""Prints the histograms of a log as HdrHistogram's Python port reads them, one line each."""
import sys

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

reader = HistogramLogReader(sys.argv[1], HdrHistogram(1, 3600 * 10**9, 3))
while (found := reader.get_next_interval_histogram()) is not None:
    start_ms, end_ms = found.get_start_time_stamp(), found.get_end_time_stamp()
    quantiles = [found.get_value_at_percentile(share) for share in (50, 99, 100)]
    print(found.get_tag(), round(start_ms), round(end_ms - start_ms), found.get_total_count(), *quantiles)
print("began", round(reader.get_start_time_sec() * 1000))
