package niclab.storm;

import java.util.concurrent.atomic.AtomicLong;

/** Counts events of one thread; others may read it. */
final class Counter extends AtomicLong {
    private static final long serialVersionUID = 1L;

    void add() {
        // No other thread writes, and no reader needs the newest value.
        lazySet(get() + 1);
    }
}
