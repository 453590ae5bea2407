package niclab.storm;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiConsumer;

/**
 * Counts of keys in sliding windows. A tuple is counted once, in its pane. The counts of the window
 * that closes next are kept: a pane is added when it enters the window, and subtracted when it
 * leaves.
 */
final class RollingCounts {
    private final Windows windows;
    /** Panes that a window may still need. */
    private final TreeMap<Long, Map<Long, long[]>> panes = new TreeMap<>();
    /** The sum of the panes below {@code entered}. */
    private final Map<Long, long[]> totals = new HashMap<>();
    private long entered;
    /** The first window that is not closed. */
    private long next;
    /** All windows up to this one are closed. */
    private long lastClosed = -1;

    RollingCounts(Windows windows) {
        this.windows = windows;
    }

    /** Counts a tuple. False if a window that covers it was closed already. */
    boolean add(Long key, long timeNs) {
        long pane = windows.pane(timeNs);
        if (pane >= next) {
            count(panes.computeIfAbsent(pane, p -> new HashMap<>()), key, 1);
            if (pane < entered) {
                count(totals, key, 1);
            }
        }
        return windows.first(pane) > lastClosed;
    }

    /** Closes all windows that a progress has passed. Takes the number and counts of each. */
    void close(long progressNs, BiConsumer<Long, Map<Long, long[]>> take) {
        long last = windows.lastPassed(progressNs);
        lastClosed = Math.max(lastClosed, last);
        while (next <= last && !panes.isEmpty()) {
            // Windows before the first pane have no tuple.
            next = Math.max(next, Math.min(windows.first(panes.firstKey()), last + 1));
            entered = Math.max(entered, next);
            if (next > last) {
                break;
            }
            long end = next + windows.panes();
            for (Map<Long, long[]> pane : panes.subMap(entered, end).values()) {
                pane.forEach((key, count) -> count(totals, key, count[0]));
            }
            entered = end;
            take.accept(next, totals);
            Map<Long, long[]> left = panes.remove(next);
            if (left != null) {
                left.forEach(this::subtract);
            }
            next++;
        }
        next = Math.max(next, last + 1);
        entered = Math.max(entered, next);
    }

    private static void count(Map<Long, long[]> counts, Long key, long more) {
        counts.computeIfAbsent(key, k -> new long[1])[0] += more;
    }

    private void subtract(Long key, long[] count) {
        long[] total = totals.get(key);
        total[0] -= count[0];
        if (total[0] == 0) {
            totals.remove(key);
        }
    }
}
