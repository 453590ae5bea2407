package niclab.storm;

import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** Takes the best keys of a worker. */
final class RankBolt extends BaseRichBolt {
    private static final long serialVersionUID = 1L;

    private transient OutputCollector collector;
    private int top;

    @Override
    public void prepare(
            Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        this.collector = collector;
        top = Run.current().options.top();
    }

    @Override
    public void execute(Tuple tuple) {
        if (tuple.getSourceStreamId().equals(Topology.PROGRESS)) {
            collector.emit(Topology.PROGRESS, tuple, tuple.getValues());
        } else {
            List<KeyCount> best = KeyCount.best(counts(tuple), top);
            long[] keys = best.stream().mapToLong(KeyCount::key).toArray();
            long[] numbers = best.stream().mapToLong(KeyCount::count).toArray();
            collector.emit(Topology.COUNTS, tuple, new Values(tuple.getValue(0), keys, numbers));
        }
        collector.ack(tuple);
    }

    /** Keys and counts of a tuple: arrays, because Kryo knows those. */
    static Iterable<KeyCount> counts(Tuple tuple) {
        long[] keys = (long[]) tuple.getValue(1);
        long[] numbers = (long[]) tuple.getValue(2);
        return () -> new Iterator<>() {
            private int at;

            @Override
            public boolean hasNext() {
                return at < keys.length;
            }

            @Override
            public KeyCount next() {
                return new KeyCount(keys[at], numbers[at++]);
            }
        };
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declareStream(Topology.COUNTS, new Fields("window", "keys", "counts"));
        declarer.declareStream(Topology.PROGRESS, new Fields("sender", "time"));
    }
}
