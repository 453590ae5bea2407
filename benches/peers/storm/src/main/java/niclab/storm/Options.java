package niclab.storm;

import java.io.Serializable;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What to run, as it was typed. {@link #USAGE} says what each field means. */
record Options(
    String input, long keys, double exponent, int payloadLen, long spacingNs, int streams,
    long seed, long tuples, long durationS, long warmUpS, int stream, Windows windows, int top,
    int sources, int filters, int workers, int processes, int ackers, int pending, int batch)
    implements Serializable {

    static final String USAGE = """
        java -jar storm.jar [--OPTION VALUE]...

        Counts keys in sliding windows of event time by Apache Storm, in this process: spout,
        filter, count, rank, top. Standard output has a line of JSON for each window, and a last
        line with figures.

        tuples from a file:
          --input FILE      JSON lines: stream, key, sequence, time (ns), payload (base64, or a
                            number of bytes); source i of n has the lines i, i + n, i + 2n, ...
        tuples from a generator:
          --keys N          keys; key 0 is the most frequent [100000]
          --exponent X      of their Zipf distribution, 0 to 10; 0 is uniform [1]
          --payload N       bytes of a payload, 0 to 1024 [100]
          --spacing-ns N    event time between two tuples of a source [1000]
          --streams N       tuples are of streams 0 to N - 1, drawn uniformly [1]
          --seed N          of all that is drawn [1]
          --tuples N        tuples of the run; without it they end with --duration-s
          --duration-s N    seconds that are measured, without --tuples [30]
        the run:
          --warm-up-s N     seconds before the measured interval [10; 0 with --input]
        the job:
          --stream N        tuples of this stream are kept [0]
          --length-ns N     length of a window [10000000000]
          --slide-ns N      windows begin this far apart; it divides the length [1000000000]
          --top N           keys of a result at most [10]
        Storm:
          --sources N       spout tasks [1]
          --filters N       filter tasks [1]
          --workers N       counting tasks, each with a ranking task of its own [1]
          --processes N     Storm's worker processes, which LocalCluster simulates [1]
          --ackers N        acker tasks; 0: Storm tracks no tuple [1]
          --pending N       tuples under way from a source at most (max spout pending), if there
                            are ackers [10000]
          --batch N         tuples that pass between tasks at a time (producer batch size); it
                            needs a single process [1]
        """;

    private static final List<String> OF_GENERATOR = List.of("keys", "exponent", "payload",
        "spacing-ns", "streams", "seed", "tuples", "duration-s");
    private static final List<String> OTHERS = List.of("input", "warm-up-s", "stream", "length-ns",
        "slide-ns", "top", "sources", "filters", "workers", "processes", "ackers", "pending",
        "batch");

    static Options parse(String[] arguments) {
        Map<String, String> typed = typed(arguments);
        boolean isFile = typed.containsKey("input");
        for (String option : OF_GENERATOR) {
            if (isFile && typed.containsKey(option)) {
                throw new UsageException("--" + option + " with --input: it is of the generator;"
                    + " leave one of the two out");
            }
        }
        if (typed.containsKey("tuples") && typed.containsKey("duration-s")) {
            throw new UsageException("--tuples with --duration-s: leave one of the two out");
        }
        Windows windows = new Windows(
            whole(typed, "length-ns", 10_000_000_000L, 1, Long.MAX_VALUE),
            whole(typed, "slide-ns", 1_000_000_000L, 1, Long.MAX_VALUE));
        Options options = new Options(
            typed.get("input"),
            whole(typed, "keys", 100_000, 1, 1L << 52),
            exponent(typed.getOrDefault("exponent", "1")),
            (int) whole(typed, "payload", 100, 0, InputTuple.PAYLOAD_LEN_MAX),
            whole(typed, "spacing-ns", 1_000, 0, 1_000_000_000),
            (int) whole(typed, "streams", 1, 1, InputTuple.STREAM_MAX + 1),
            whole(typed, "seed", 1, 0, Long.MAX_VALUE),
            whole(typed, "tuples", 0, 1, 1_000_000_000_000L),
            whole(typed, "duration-s", 30, 1, 86_400),
            whole(typed, "warm-up-s", isFile ? 0 : 10, 0, 86_400),
            (int) whole(typed, "stream", 0, 0, InputTuple.STREAM_MAX),
            windows,
            (int) whole(typed, "top", 10, 1, 1_000_000),
            (int) whole(typed, "sources", 1, 1, 1_024),
            (int) whole(typed, "filters", 1, 1, 1_024),
            (int) whole(typed, "workers", 1, 1, 1_024),
            (int) whole(typed, "processes", 1, 1, 64),
            (int) whole(typed, "ackers", 1, 0, 1_024),
            (int) whole(typed, "pending", 10_000, 1, 100_000_000),
            (int) whole(typed, "batch", 1, 1, 16_384));
        if (options.tuples > 0 && options.spacingNs > Long.MAX_VALUE / options.tuples) {
            throw new UsageException("--spacing-ns " + options.spacingNs + ", --tuples "
                + options.tuples + ": the last event time would exceed 2^63 - 1 ns");
        }
        if (options.batch > 1 && options.processes > 1) {
            throw new UsageException("--batch " + options.batch + ", --processes "
                + options.processes + ": Storm never delivers the last tuples of a batch from"
                + " another process; set one of the two to 1");
        }
        return options;
    }

    private static Map<String, String> typed(String[] arguments) {
        Map<String, String> typed = new HashMap<>();
        for (int at = 0; at < arguments.length; at += 2) {
            String name = arguments[at].startsWith("--") ? arguments[at].substring(2) : "";
            if (!OF_GENERATOR.contains(name) && !OTHERS.contains(name)) {
                throw new UsageException(arguments[at] + ": no such option; see --help");
            }
            if (at + 1 == arguments.length) {
                throw new UsageException(arguments[at] + ": its value is missing");
            }
            if (typed.put(name, arguments[at + 1]) != null) {
                throw new UsageException(arguments[at] + ": it is there twice");
            }
        }
        return typed;
    }

    private static long whole(
            Map<String, String> typed, String name, long otherwise, long least, long most) {
        String text = typed.get(name);
        if (text == null) {
            return otherwise;
        }
        try {
            long value = Long.parseLong(text);
            if (value >= least && value <= most) {
                return value;
            }
        } catch (NumberFormatException error) {
            // Said below.
        }
        throw new UsageException("--" + name + " " + text + ": a whole number from " + least
            + " to " + most + " is needed");
    }

    private static double exponent(String text) {
        try {
            double value = Double.parseDouble(text);
            if (value >= 0 && value <= 10) {
                return value;
            }
        } catch (NumberFormatException error) {
            // Said below.
        }
        throw new UsageException("--exponent " + text + ": a number from 0 to 10 is needed");
    }
}
