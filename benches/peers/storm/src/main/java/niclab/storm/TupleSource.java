package niclab.storm;

import java.util.List;
import java.util.SplittableRandom;

/** The tuples of one source, in the order in which it offers them. */
interface TupleSource {
    /** The next tuple; null: there is none. */
    InputTuple next();

    /** Source {@code index} of a run. */
    static TupleSource of(Options options, List<InputTuple> lines, int index) {
        if (lines != null) {
            return new Share(lines, index, options.sources());
        }
        return new Generator(options, index);
    }

    /** Every {@code step}-th tuple of a list. */
    final class Share implements TupleSource {
        private final List<InputTuple> all;
        private final int step;
        private int next;

        Share(List<InputTuple> all, int first, int step) {
            this.all = all;
            this.next = first;
            this.step = step;
        }

        @Override
        public InputTuple next() {
            if (next >= all.size()) {
                return null;
            }
            InputTuple tuple = all.get(next);
            next += step;
            return tuple;
        }
    }

    /**
     * Drawn from a seed: key 0 is the most frequent. All tuples share one payload, because nothing
     * in the job reads it.
     */
    final class Generator implements TupleSource {
        private final SplittableRandom random;
        private final Zipf keys;
        private final Options options;
        private final byte[] payload;
        private final long count;
        private long sequence;

        Generator(Options options, int index) {
            this.options = options;
            random = new SplittableRandom(options.seed() + index);
            keys = new Zipf(options.keys(), options.exponent());
            payload = new byte[options.payloadLen()];
            long share = options.tuples() / options.sources();
            boolean hasOneMore = index < options.tuples() % options.sources();
            count = options.tuples() == 0 ? Long.MAX_VALUE : share + (hasOneMore ? 1 : 0);
        }

        @Override
        public InputTuple next() {
            if (sequence >= count) {
                return null;
            }
            long key = keys.draw(random) - 1;
            int stream = options.streams() == 1 ? 0 : random.nextInt(options.streams());
            long timeNs = sequence * options.spacingNs();
            return new InputTuple(stream, key, sequence++, timeNs, payload);
        }
    }
}
