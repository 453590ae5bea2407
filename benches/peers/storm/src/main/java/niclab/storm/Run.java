package niclab.storm;

import java.io.PrintStream;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * What the tasks share with the program that waits for them. All of them are in one process, but
 * Storm makes them from serialized copies, so there is one run, and it is static.
 */
final class Run {
    /** What happens to tuples. */
    enum Event {
        /** A source offered it for the first time. */
        OFFERED,
        /** Storm told the source that it was processed; never without ackers. */
        ACKED,
        /** Storm told the source that it was not processed in time; it was offered again. */
        FAILED,
        /** It is of another stream. */
        DROPPED,
        /** It was counted. */
        COUNTED,
        /** It was counted after a window that covers it was closed. */
        LATE,
    }

    private static Run current;

    final Options options;
    /** The tuples of a file; null: they are generated. */
    final List<InputTuple> lines;

    private final PrintStream out;
    private final Map<Event, List<Counter>> counters = new EnumMap<>(Event.class);
    private final AtomicInteger exhausted = new AtomicInteger();
    private volatile boolean isOver;
    private volatile boolean isComplete;

    private Run(Options options, List<InputTuple> lines, PrintStream out) {
        this.options = options;
        this.lines = lines;
        this.out = out;
        for (Event event : Event.values()) {
            counters.put(event, new CopyOnWriteArrayList<>());
        }
    }

    static Run begin(Options options, List<InputTuple> lines, PrintStream out) {
        current = new Run(options, lines, out);
        return current;
    }

    static Run current() {
        return current;
    }

    /** A new counter of one task. */
    Counter counter(Event event) {
        Counter counter = new Counter();
        counters.get(event).add(counter);
        return counter;
    }

    /** The sum over all tasks. */
    long count(Event event) {
        return counters.get(event).stream().mapToLong(Counter::get).sum();
    }

    /** Tuples with which the job is done. */
    long completed() {
        return count(Event.DROPPED) + count(Event.COUNTED);
    }

    /** Sources stop offering tuples. */
    void end() {
        isOver = true;
    }

    boolean isOver() {
        return isOver;
    }

    /** The last window was written. */
    void complete() {
        isComplete = true;
    }

    boolean isComplete() {
        return isComplete;
    }

    /** A source has offered its last tuple, and all are acknowledged. */
    void exhaust() {
        exhausted.incrementAndGet();
    }

    boolean isExhausted() {
        return exhausted.get() == options.sources();
    }

    /** Writes the result of a window. */
    void print(long window, List<KeyCount> top) {
        Windows windows = options.windows();
        long start = window * windows.slideNs();
        StringBuilder line = new StringBuilder("{\"window_start\":").append(start)
            .append(",\"window_end\":").append(Long.toUnsignedString(start + windows.lengthNs()))
            .append(",\"top\":[");
        String separator = "";
        for (KeyCount of : top) {
            line.append(separator).append("{\"key\":").append(Long.toUnsignedString(of.key()))
                .append(",\"count\":").append(of.count()).append('}');
            separator = ",";
        }
        print(line.append("]}").toString());
    }

    /** Writes a line to standard output. */
    void print(String line) {
        synchronized (out) {
            out.println(line);
            out.flush();
        }
    }

    /** Whether nobody reads standard output any more. */
    boolean isBroken() {
        return out.checkError();
    }
}
