package niclab.storm;

import java.util.HashMap;
import java.util.Map;

/** How far all senders of a task have come in event time. */
final class Progress {
    private final int senders;
    private final Map<Integer, Long> timesNs = new HashMap<>();
    private long allNs;

    /** Nothing has passed before this many senders have reported. */
    Progress(int senders) {
        this.senders = senders;
    }

    /** Takes a sender's report, and says whether it moved what all have passed. */
    boolean report(int sender, long timeNs) {
        timesNs.merge(sender, timeNs, Math::max);
        if (timesNs.size() < senders) {
            return false;
        }
        long least = timesNs.values().stream().mapToLong(Long::longValue).min().orElse(0);
        boolean moved = least > allNs;
        allNs = least;
        return moved;
    }

    /** What all senders have passed, nanoseconds. */
    long allNs() {
        return allNs;
    }
}
