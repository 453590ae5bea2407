package niclab.storm;

import java.util.ArrayDeque;
import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/**
 * A source: offers tuples, offers those again that failed, and reports its progress at each begin
 * of a pane. Ids of messages are the values themselves, so that a failed tuple is at hand.
 */
final class TupleSpout extends BaseRichSpout {
    private static final long serialVersionUID = 1L;

    private static final long END_AGAIN_NS = 100_000_000;

    private transient Run run;
    private transient SpoutOutputCollector collector;
    private transient TupleSource tuples;
    private transient Counter offered;
    private transient Counter acked;
    private transient Counter failed;
    private transient ArrayDeque<Values> again;
    private transient Windows windows;
    private int index;
    private long pane;
    private long outstanding;
    private boolean hasMore = true;
    private boolean hasEnded;
    private long endedAtNs;

    /** A report of progress: source and nanoseconds. Another class tells it from a tuple. */
    private static final class Report extends Values {
        private static final long serialVersionUID = 1L;

        Report(int source, long timeNs) {
            super(source, timeNs);
        }
    }

    @Override
    public void open(
            Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
        run = Run.current();
        this.collector = collector;
        index = context.getThisTaskIndex();
        tuples = TupleSource.of(run.options, run.lines, index);
        windows = run.options.windows();
        again = new ArrayDeque<>();
        offered = run.counter(Run.Event.OFFERED);
        acked = run.counter(Run.Event.ACKED);
        failed = run.counter(Run.Event.FAILED);
    }

    @Override
    public void nextTuple() {
        if (!again.isEmpty()) {
            send(again.poll());
            return;
        }
        InputTuple tuple = hasMore && !run.isOver() ? tuples.next() : null;
        if (tuple == null) {
            hasMore = false;
            end();
            return;
        }
        long reached = windows.pane(tuple.timeNs());
        if (reached > pane) {
            pane = reached;
            send(new Report(index, Math.min(pane * windows.slideNs(), Windows.END - 1)));
        }
        offered.add();
        send(tuple.values());
    }

    /**
     * Reports the end, once nothing is under way that would come after it, and again until the run
     * is complete. Storm 2.8.3 may keep the end of a batch until another tuple follows: if a queue
     * is full, {@code JCQueue.BatchInserter.flush} is done with a part of the batch.
     */
    private void end() {
        long nowNs = System.nanoTime();
        if (outstanding > 0 || hasEnded && nowNs - endedAtNs < END_AGAIN_NS) {
            return;
        }
        if (!hasEnded) {
            hasEnded = true;
            run.exhaust();
        }
        endedAtNs = nowNs;
        send(new Report(index, Windows.END));
    }

    private void send(Values values) {
        outstanding++;
        if (values instanceof Report) {
            collector.emit(Topology.PROGRESS, values, values);
        } else {
            collector.emit(values, values);
        }
    }

    @Override
    public void ack(Object id) {
        outstanding--;
        // Without ackers Storm calls this at once, of a tuple that nobody has processed.
        if (!(id instanceof Report) && run.options.ackers() > 0) {
            acked.add();
        }
    }

    @Override
    public void fail(Object id) {
        outstanding--;
        if (!(id instanceof Report)) {
            failed.add();
        }
        again.add((Values) id);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(InputTuple.FIELDS);
        declarer.declareStream(Topology.PROGRESS, new Fields("sender", "time"));
    }
}
