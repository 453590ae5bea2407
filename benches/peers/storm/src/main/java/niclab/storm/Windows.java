package niclab.storm;

import java.io.Serializable;

/**
 * Sliding windows in event time, cut into panes of one slide each.
 *
 * <p>Window k covers the event times from k slides on, one length long: the panes k to
 * k + panes - 1. Times are nanoseconds from 0 to 2^63 - 1.
 */
record Windows(long lengthNs, long slideNs) implements Serializable {
    /** The progress of a source that has ended: it has passed the end of every window. */
    static final long END = Long.MAX_VALUE;

    private static final long PANES_MAX = 4_096;
    private static final long SLIDE_NS_MIN = 1_000;

    Windows {
        if (slideNs < SLIDE_NS_MIN) {
            throw new UsageException("--slide-ns " + slideNs + ": at least 1000 ns are needed");
        }
        if (lengthNs <= 0 || lengthNs % slideNs != 0) {
            throw new UsageException("--length-ns " + lengthNs + ", --slide-ns " + slideNs
                + ": the slide must divide the length");
        }
        if (lengthNs / slideNs > PANES_MAX) {
            throw new UsageException("--length-ns " + lengthNs + ": at most " + PANES_MAX
                + " slides are allowed");
        }
    }

    /** Panes of a window. */
    long panes() {
        return lengthNs / slideNs;
    }

    /** The pane of an event time. */
    long pane(long timeNs) {
        return timeNs / slideNs;
    }

    /** The first window that covers a pane. */
    long first(long pane) {
        return Math.max(0, pane - panes() + 1);
    }

    /** The last window whose end a progress has passed; -1: none. */
    long lastPassed(long progressNs) {
        if (progressNs == END) {
            return Long.MAX_VALUE - 1;
        }
        return Math.max(-1, pane(progressNs) - panes());
    }
}
