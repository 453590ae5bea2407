package niclab.storm;

import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/** A tuple of the job. The key and the sequence are unsigned; the time is in nanoseconds. */
record InputTuple(int stream, long key, long sequence, long timeNs, byte[] payload) {
    static final Fields FIELDS = new Fields("stream", "key", "sequence", "time", "payload");
    static final int STREAM = 0;
    static final int KEY = 1;
    static final int TIME = 3;
    static final int STREAM_MAX = 0xffff;
    static final int PAYLOAD_LEN_MAX = 1_024;

    Values values() {
        return new Values(stream, key, sequence, timeNs, payload);
    }
}
