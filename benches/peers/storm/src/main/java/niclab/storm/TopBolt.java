package niclab.storm;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Tuple;

/** Merges the best keys of all workers, and writes each window once all have passed its end. */
final class TopBolt extends BaseRichBolt {
    private static final long serialVersionUID = 1L;

    private transient Run run;
    private transient OutputCollector collector;
    private transient Progress progress;
    private transient TreeMap<Long, List<KeyCount>> windows;

    @Override
    public void prepare(
            Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        run = Run.current();
        this.collector = collector;
        progress = new Progress(run.options.workers());
        windows = new TreeMap<>();
    }

    @Override
    public void execute(Tuple tuple) {
        if (!tuple.getSourceStreamId().equals(Topology.PROGRESS)) {
            List<KeyCount> all = windows.computeIfAbsent(tuple.getLong(0), w -> new ArrayList<>());
            RankBolt.counts(tuple).forEach(all::add);
        } else if (progress.report(tuple.getInteger(0), tuple.getLong(1))) {
            long last = run.options.windows().lastPassed(progress.allNs());
            Map<Long, List<KeyCount>> passed = windows.headMap(last, true);
            int top = run.options.top();
            passed.forEach((window, all) -> run.print(window, KeyCount.best(all, top)));
            passed.clear();
        }
        collector.ack(tuple);
        if (progress.allNs() == Windows.END) {
            run.complete();
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        // The results leave by standard output.
    }
}
