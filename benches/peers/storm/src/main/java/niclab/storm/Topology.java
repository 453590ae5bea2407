package niclab.storm;

import org.apache.storm.Config;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;

/** The job as Storm's topology. Names of components are those of the groups in the figures. */
final class Topology {
    static final String SPOUT = "spout";
    static final String FILTER = "filter";
    static final String COUNT = "count";
    static final String RANK = "rank";
    static final String TOP = "top";

    /** Stream of reports of how far a sender has come in event time. */
    static final String PROGRESS = "progress";
    /** Stream of closed windows. */
    static final String COUNTS = "counts";

    private Topology() {
    }

    static StormTopology build(Options options) {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout(SPOUT, new TupleSpout(), options.sources());
        builder.setBolt(FILTER, new FilterBolt(), options.filters())
            .shuffleGrouping(SPOUT)
            .allGrouping(SPOUT, PROGRESS);
        builder.setBolt(COUNT, new CountBolt(), options.workers())
            .fieldsGrouping(FILTER, new Fields("key"))
            .allGrouping(FILTER, PROGRESS);
        builder.setBolt(RANK, new RankBolt(), options.workers())
            .directGrouping(COUNT, COUNTS)
            .directGrouping(COUNT, PROGRESS);
        builder.setBolt(TOP, new TopBolt(), 1)
            .globalGrouping(RANK, COUNTS)
            .globalGrouping(RANK, PROGRESS);
        return builder.createTopology();
    }

    static Config config(Options options) {
        Config config = new Config();
        config.setNumWorkers(options.processes());
        config.setNumAckers(options.ackers());
        config.setMaxSpoutPending(options.pending());
        config.put(Config.TOPOLOGY_PRODUCER_BATCH_SIZE, options.batch());
        config.registerSerialization(long[].class);
        return config;
    }
}
