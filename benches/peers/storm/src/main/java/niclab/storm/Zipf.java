package niclab.storm;

import java.util.SplittableRandom;

/**
 * Ranks from 1 to {@code count}, rank k with a probability proportional to k^-exponent; exponent 0
 * makes all equal. Rejection-inversion: W. Hörmann and G. Derflinger, "Rejection-inversion to
 * generate variates from monotone discrete distributions", 1996.
 */
final class Zipf {
    private final long count;
    private final double exponent;
    private final double first;
    private final double last;
    private final double accepted;

    Zipf(long count, double exponent) {
        this.count = count;
        this.exponent = exponent;
        first = integral(1.5) - 1;
        last = integral(count + 0.5);
        accepted = 2 - inverse(integral(2.5) - density(2));
    }

    long draw(SplittableRandom random) {
        while (true) {
            double area = last + random.nextDouble() * (first - last);
            double at = inverse(area);
            long rank = Math.max(1, Math.min(count, Math.round(at)));
            if (rank - at <= accepted || area >= integral(rank + 0.5) - density(rank)) {
                return rank;
            }
        }
    }

    private double density(double at) {
        return Math.exp(-exponent * Math.log(at));
    }

    /** An integral of {@code density}, which is 0 at 1. */
    private double integral(double at) {
        double log = Math.log(at);
        double power = (1 - exponent) * log;
        return log * (Math.abs(power) < 1e-8 ? 1 + power / 2 : Math.expm1(power) / power);
    }

    private double inverse(double area) {
        double power = Math.max(-1, (1 - exponent) * area);
        double factor = Math.abs(power) < 1e-8 ? 1 - power / 2 : Math.log1p(power) / power;
        return Math.exp(area * factor);
    }
}
