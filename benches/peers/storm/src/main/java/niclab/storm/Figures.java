package niclab.storm;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.EnumMap;
import java.util.Map;
import org.apache.storm.utils.VersionInfo;

/** Counts and processor times at one moment, and the figures of the interval between two. */
final class Figures {
    private final ProcessorTime time = new ProcessorTime();
    private final Map<Run.Event, Long> counts = new EnumMap<>(Run.Event.class);

    Figures(Run run) {
        for (Run.Event event : Run.Event.values()) {
            counts.put(event, run.count(event));
        }
    }

    /** The last line of a run. Tuples of the interval, except {@code total_...}: of the whole run. */
    String since(Figures begin, Run run) {
        ObjectNode line = new ObjectMapper().createObjectNode();
        line.put("storm_version", VersionInfo.getVersion());
        line.put("java_version", Runtime.version().toString());
        long completed = 0;
        for (Run.Event event : Run.Event.values()) {
            long count = counts.get(event) - begin.counts.get(event);
            line.put(event.name().toLowerCase() + "_tuples", count);
            completed += event == Run.Event.DROPPED || event == Run.Event.COUNTED ? count : 0;
        }
        line.put("total_offered_tuples", run.count(Run.Event.OFFERED));
        line.put("total_acked_tuples", run.count(Run.Event.ACKED));
        line.put("total_failed_tuples", run.count(Run.Event.FAILED));
        line.put("total_late_tuples", run.count(Run.Event.LATE));
        long elapsedNs = time.elapsedNs(begin.time);
        long processNs = time.processNs(begin.time);
        line.put("interval_ns", elapsedNs);
        line.put("rate_tuples_per_s", 1e9 * completed / elapsedNs);
        line.put("cpu_ns", processNs);
        Map<String, Long> groups = time.groupsNs(begin.time);
        ObjectNode cpu = line.putObject("cpu_group_ns");
        for (String group : ProcessorTime.GROUPS) {
            cpu.put(group, groups.getOrDefault(group, 0L));
        }
        line.put("acker_cpu_share", (double) groups.getOrDefault("acker", 0L) / processNs);
        line.put("cores", (double) processNs / elapsedNs);
        line.put("rate_tuples_per_s_per_core", 1e9 * completed / processNs);
        return line.toString();
    }
}
