package niclab.storm;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** One run of the job on Apache Storm: see {@link Options#USAGE}. */
public final class Main {
    /** A run in which no tuple completes for this long has failed, seconds. */
    private static final long STALLED_S = 120;
    private static final int REMOVALS_MAX = 1_000;
    private static final int FAILED = 1;
    private static final int WRONG_USAGE = 2;

    private Main() {
    }

    /** Exits with 0; with 2 if arguments or input are wrong; with 1 if the run failed. */
    public static void main(String[] arguments) {
        PrintStream out = new PrintStream(
            new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        // Whatever a library prints is no result.
        System.setOut(System.err);
        if (arguments.length == 1 && arguments[0].equals("--help")) {
            out.print(Options.USAGE);
            out.flush();
            System.exit(0);
        }
        int status = 0;
        try {
            Options options = Options.parse(arguments);
            List<InputTuple> lines =
                options.input() == null ? null : InputLines.read(options.input());
            run(Run.begin(options, lines, out));
        } catch (UsageException error) {
            System.err.println("storm: " + error.getMessage());
            status = WRONG_USAGE;
        } catch (Exception error) {
            System.err.println("storm: the run failed: " + error);
            error.printStackTrace();
            status = FAILED;
        }
        // Storm leaves threads behind.
        System.exit(status);
    }

    private static void run(Run run) throws Exception {
        Path directory = Files.createTempDirectory("niclab-storm-");
        Runtime.getRuntime().addShutdownHook(new Thread(() -> remove(directory)));
        // Storm puts everything there.
        System.setProperty("java.io.tmpdir", directory.toString());
        Options options = run.options;
        try (Cluster cluster = new Cluster(options, directory)) {
            waitFor(run, () -> run.count(Run.Event.OFFERED) > 0, Long.MAX_VALUE);
            if (options.warmUpS() > 0 && waitFor(run, run::isExhausted, options.warmUpS())) {
                throw new UsageException("--warm-up-s " + options.warmUpS()
                    + ": all tuples were offered before; offer more, or shorten it");
            }
            Figures begin = new Figures(run);
            long endS = options.input() == null && options.tuples() == 0
                ? options.durationS() : Long.MAX_VALUE;
            waitFor(run, run::isComplete, endS);
            Figures end = new Figures(run);
            run.end();
            waitFor(run, run::isComplete, Long.MAX_VALUE);
            run.print(end.since(begin, run));
        }
    }

    private interface Condition {
        boolean holds();
    }

    /** Waits for a condition, but no longer than this. Says whether it holds. */
    private static boolean waitFor(Run run, Condition condition, long mostS) throws Exception {
        long begin = System.nanoTime();
        long moved = begin;
        long completed = -1;
        while (!condition.holds()) {
            long now = System.nanoTime();
            if (TimeUnit.NANOSECONDS.toSeconds(now - begin) >= mostS) {
                return false;
            }
            if (run.completed() != completed) {
                completed = run.completed();
                moved = now;
            }
            if (TimeUnit.NANOSECONDS.toSeconds(now - moved) >= STALLED_S) {
                throw new IOException("no tuple was completed for " + STALLED_S
                    + " s; -Dniclab.storm.log=info shows what Storm does");
            }
            if (run.isBroken()) {
                throw new IOException("standard output is closed");
            }
            Thread.sleep(5);
        }
        return true;
    }

    /** Storm's threads may still write while the process ends, so that a first try may fail. */
    private static void remove(Path directory) {
        for (int attempt = 0; attempt < REMOVALS_MAX && Files.exists(directory); attempt++) {
            try (Stream<Path> paths = Files.walk(directory)) {
                paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
            } catch (IOException | UncheckedIOException error) {
                // A file went away meanwhile.
                continue;
            }
        }
        if (Files.exists(directory)) {
            System.err.println("storm: " + directory + " could not be removed: remove it");
        }
    }
}
