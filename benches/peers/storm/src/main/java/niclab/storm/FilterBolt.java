package niclab.storm;

import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** Keeps the tuples of one stream. */
final class FilterBolt extends BaseRichBolt {
    private static final long serialVersionUID = 1L;

    private transient OutputCollector collector;
    private transient Counter dropped;
    private int index;
    private int filters;
    private int stream;

    @Override
    public void prepare(
            Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        Run run = Run.current();
        this.collector = collector;
        index = context.getThisTaskIndex();
        filters = run.options.filters();
        stream = run.options.stream();
        dropped = run.counter(Run.Event.DROPPED);
    }

    @Override
    public void execute(Tuple tuple) {
        if (tuple.getSourceStreamId().equals(Topology.PROGRESS)) {
            // A source's tuples come by all filters, so its progress does.
            int sender = tuple.getInteger(0) * filters + index;
            collector.emit(Topology.PROGRESS, tuple, new Values(sender, tuple.getLong(1)));
        } else if (tuple.getInteger(InputTuple.STREAM) == stream) {
            collector.emit(tuple, tuple.getValues());
        } else {
            dropped.add();
        }
        collector.ack(tuple);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(InputTuple.FIELDS);
        declarer.declareStream(Topology.PROGRESS, new Fields("sender", "time"));
    }
}
