package niclab.storm;

import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** Counts a worker's keys in windows, and gives each closed window to its ranking task. */
final class CountBolt extends BaseRichBolt {
    private static final long serialVersionUID = 1L;

    private transient OutputCollector collector;
    private transient Counter counted;
    private transient Counter late;
    private transient Progress progress;
    private transient RollingCounts counts;
    private int index;
    private int rankTask;

    @Override
    public void prepare(
            Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        Run run = Run.current();
        this.collector = collector;
        index = context.getThisTaskIndex();
        rankTask = context.getComponentTasks(Topology.RANK).get(index);
        progress = new Progress(run.options.sources() * run.options.filters());
        counts = new RollingCounts(run.options.windows());
        counted = run.counter(Run.Event.COUNTED);
        late = run.counter(Run.Event.LATE);
    }

    @Override
    public void execute(Tuple tuple) {
        if (!tuple.getSourceStreamId().equals(Topology.PROGRESS)) {
            if (!counts.add(tuple.getLong(InputTuple.KEY), tuple.getLong(InputTuple.TIME))) {
                late.add();
            }
            counted.add();
        } else if (progress.report(tuple.getInteger(0), tuple.getLong(1))) {
            counts.close(progress.allNs(), (window, totals) -> send(tuple, window, totals));
            Values values = new Values(index, progress.allNs());
            collector.emitDirect(rankTask, Topology.PROGRESS, tuple, values);
        }
        collector.ack(tuple);
    }

    private void send(Tuple anchor, long window, Map<Long, long[]> totals) {
        long[] keys = new long[totals.size()];
        long[] numbers = new long[totals.size()];
        int at = 0;
        for (Map.Entry<Long, long[]> entry : totals.entrySet()) {
            keys[at] = entry.getKey();
            numbers[at++] = entry.getValue()[0];
        }
        collector.emitDirect(rankTask, Topology.COUNTS, anchor, new Values(window, keys, numbers));
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declareStream(Topology.COUNTS, true, new Fields("window", "keys", "counts"));
        declarer.declareStream(Topology.PROGRESS, true, new Fields("sender", "time"));
    }
}
