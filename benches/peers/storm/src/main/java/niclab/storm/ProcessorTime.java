package niclab.storm;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The processor time of every thread at one moment, nanoseconds. */
final class ProcessorTime {
    /** Groups in the order of the figures. */
    static final String[] GROUPS = {Topology.SPOUT, Topology.FILTER, Topology.COUNT, Topology.RANK,
        Topology.TOP, "acker", "transfer", "other", "jvm"};

    /** The end of the name of a task's thread: {@code Thread-35-count-executor[4, 4]}. */
    private static final Pattern EXECUTOR = Pattern.compile("-([a-z_]+)-executor\\[");

    private record ThreadTime(String group, long ns) {
    }

    private final long atNs = System.nanoTime();
    private final long processNs;
    private final Map<Long, ThreadTime> threads = new HashMap<>();

    ProcessorTime() {
        ThreadMXBean bean = ManagementFactory.getThreadMXBean();
        for (ThreadInfo thread : bean.getThreadInfo(bean.getAllThreadIds())) {
            long ns = thread == null ? -1 : bean.getThreadCpuTime(thread.getThreadId());
            if (ns >= 0) {
                String group = group(thread.getThreadName());
                threads.put(thread.getThreadId(), new ThreadTime(group, ns));
            }
        }
        processNs = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class)
            .getProcessCpuTime();
    }

    private static String group(String thread) {
        Matcher executor = EXECUTOR.matcher(thread);
        if (!executor.find()) {
            boolean moves = thread.startsWith("Worker-Transfer")
                || thread.startsWith("LocalClientFlusher") || thread.contains("etty");
            return moves ? "transfer" : "other";
        }
        return switch (executor.group(1)) {
            case "__acker" -> "acker";
            case Topology.SPOUT, Topology.FILTER, Topology.COUNT, Topology.RANK, Topology.TOP ->
                executor.group(1);
            default -> "other";
        };
    }

    long elapsedNs(ProcessorTime begin) {
        return atNs - begin.atNs;
    }

    long processNs(ProcessorTime begin) {
        return processNs - begin.processNs;
    }

    /**
     * The time that each group has used since. Group {@code jvm} has the threads that are not
     * Java's: garbage collection and compilation.
     */
    Map<String, Long> groupsNs(ProcessorTime begin) {
        Map<String, Long> groups = new TreeMap<>();
        long all = 0;
        for (Map.Entry<Long, ThreadTime> entry : threads.entrySet()) {
            ThreadTime before = begin.threads.get(entry.getKey());
            long ns = entry.getValue().ns() - (before == null ? 0 : before.ns());
            groups.merge(entry.getValue().group(), ns, Long::sum);
            all += ns;
        }
        groups.put("jvm", Math.max(0, processNs(begin) - all));
        return groups;
    }
}
