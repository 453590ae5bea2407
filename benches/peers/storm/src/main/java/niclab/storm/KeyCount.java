package niclab.storm;

import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;

/** A key, which is unsigned, and the number of its tuples. */
record KeyCount(long key, long count) {
    /** The best first: count descending, then key ascending. */
    static final Comparator<KeyCount> RANK = (a, b) -> {
        int byCount = Long.compare(b.count, a.count);
        return byCount != 0 ? byCount : Long.compareUnsigned(a.key, b.key);
    };

    /** The best keys of some, each of which occurs once, the best first. */
    static List<KeyCount> best(Iterable<KeyCount> counts, int top) {
        PriorityQueue<KeyCount> best = new PriorityQueue<>(RANK.reversed());
        for (KeyCount count : counts) {
            best.add(count);
            if (best.size() > top) {
                best.remove();
            }
        }
        return best.stream().sorted(RANK).toList();
    }
}
