package niclab.storm;

import java.io.File;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.List;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.LocalCluster;
import org.apache.storm.metricstore.NoOpMetricStore;
import org.apache.storm.shade.org.apache.zookeeper.server.NIOServerCnxnFactory;
import org.apache.storm.shade.org.apache.zookeeper.server.ZooKeeperServer;

/**
 * A LocalCluster with a ZooKeeper of its own. LocalCluster's would listen at a fixed port of every
 * interface; this one listens on loopback, at a port that the kernel chooses.
 */
final class Cluster implements AutoCloseable {
    private static final int TICK_MS = 2_000;
    private static final String NAME = "niclab";

    private final NIOServerCnxnFactory zookeeper;
    private final LocalCluster cluster;

    Cluster(Options options, Path directory) throws Exception {
        InetAddress loopback = InetAddress.getLoopbackAddress();
        File state = directory.resolve("zookeeper").toFile();
        zookeeper = new NIOServerCnxnFactory();
        zookeeper.configure(new InetSocketAddress(loopback, 0), 0);
        zookeeper.startup(new ZooKeeperServer(state, state, TICK_MS));
        cluster = new LocalCluster.Builder()
            .withSupervisors(1)
            .withPortsPerSupervisor(options.processes())
            .withDaemonConf(Config.STORM_ZOOKEEPER_SERVERS, List.of(loopback.getHostAddress()))
            .withDaemonConf(Config.STORM_ZOOKEEPER_PORT, zookeeper.getLocalPort())
            .withDaemonConf(Config.TOPOLOGY_ENABLE_MESSAGE_TIMEOUTS, true)
            .withDaemonConf(DaemonConfig.STORM_METRIC_STORE_CLASS, NoOpMetricStore.class.getName())
            .build();
        cluster.submitTopology(NAME, Topology.config(options), Topology.build(options));
    }

    @Override
    public void close() throws Exception {
        cluster.killTopologyWithOpts(NAME, LocalCluster.KILL_NOW);
        cluster.close();
        zookeeper.shutdown();
    }
}
