//! What `sockperf ping-pong --full-rtt` says of its run.
//!
//! Its text is made for people. What is read is asked for word by word, and what is not there is an
//! error: a figure of another format is no figure.

use std::time::Duration;

/// Round trips of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SockperfResult {
    /// Round trips that were measured.
    pub count: u64,
    /// Median, nanoseconds.
    pub p50_ns: f64,
    /// 99th percentile, nanoseconds.
    pub p99_ns: f64,
}

/// Length of a run: sockperf's shortest, of which it leaves out what it calls warm-up and end.
pub const RUN: Duration = Duration::from_secs(1);

/// What it leaves out at the beginning.
pub const WARMUP: Duration = Duration::from_millis(400);

/// What it measures of a run (`[Valid Duration] RunTime=0.549 sec`, within 1 ms).
pub const MEASURED: Duration = Duration::from_millis(549);

/// Reads what it wrote.
///
/// # Errors
/// What is missing or is not as it was expected.
pub fn read(text: &str) -> Result<SockperfResult, String> {
    let text = without_colours(text);
    // Without --full-rtt this line speaks of a latency, half a round trip.
    number(&text, "sockperf: Summary: Round trip is ", " usec")?;
    for what in ["dropped", "duplicated", "out-of-order"] {
        let count = number(&text, &format!("# {what} messages = "), "")?;
        if count != 0.0 {
            return Err(format!("{count} {what} messages"));
        }
    }
    let count = number(&text, "sockperf: Total ", " observations")?;
    let [p50, p99] = ["50.000", "99.000"].map(|percentile| {
        number(&text, &format!("sockperf: ---> percentile {percentile} = "), "\n")
    });
    let (p50_us, p99_us) = (p50?, p99?);
    if !(count >= 1.0 && p50_us > 0.0 && p99_us >= p50_us) {
        return Err(format!("{count} round trips, p50 {p50_us} us, p99 {p99_us} us"));
    }
    Ok(SockperfResult { count: count as u64, p50_ns: p50_us * 1e3, p99_ns: p99_us * 1e3 })
}

/// The number that stands once between `before` and `after`.
fn number(text: &str, before: &str, after: &str) -> Result<f64, String> {
    let mut found = text.match_indices(before).map(|(at, _)| &text[at + before.len()..]);
    let (Some(rest), None) = (found.next(), found.next()) else {
        return Err(format!("no line with `{}`, or more than one", before.trim_end()));
    };
    let rest = rest.trim_start_matches(' ');
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let number = rest[..end].parse::<f64>().ok().filter(|_| rest[end..].starts_with(after));
    number.ok_or_else(|| {
        let line = rest.lines().next().unwrap_or_default();
        format!("`{line}` behind `{}`", before.trim_end())
    })
}

/// Takes the terminal's colours out (ECMA-48, §8.3.117: SGR).
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As version 3.7 writes it.
    const TEXT: &str = "sockperf: Test ended\n\
        sockperf: [Total Run] RunTime=1.001 sec; Warm up time=400 msec; SentMessages=8025; \
        ReceivedMessages=8024\n\
        sockperf: ========= Printing statistics for Server No: 0\n\
        sockperf: [Valid Duration] RunTime=0.548 sec; SentMessages=4408; ReceivedMessages=4408\n\
        sockperf: \x1b[2;35m====> avg-rtt=124.233 (std-dev=472.851)\x1b[0m\n\
        sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0\n\
        sockperf: Summary: Round trip is 124.233 usec\n\
        sockperf: \x1b[2;35mTotal 4408 observations\x1b[0m; each percentile contains 44.08 \
        observations\n\
        sockperf: ---> <MAX> observation = 8485.588\n\
        sockperf: ---> percentile 99.999 = 8485.588\n\
        sockperf: ---> percentile 99.000 = 3113.734\n\
        sockperf: ---> percentile 50.000 =   61.430\n\
        sockperf: ---> <MIN> observation =   35.592\n";

    #[test]
    fn its_figures_are_read() {
        let said = read(TEXT).unwrap();
        assert_eq!(said, SockperfResult { count: 4408, p50_ns: 61_430.0, p99_ns: 3_113_734.0 });
    }

    #[test]
    fn another_format_is_an_error_and_no_figure() {
        let without = |line: &str| {
            let kept: Vec<&str> = TEXT.lines().filter(|one| !one.contains(line)).collect();
            read(&kept.join("\n")).unwrap_err()
        };
        assert!(without("percentile 99.000").contains("percentile 99.000"));
        assert!(without("percentile 50.000").contains("percentile 50.000"));
        assert!(without("Round trip is").contains("Round trip is"));
        assert!(without("Total 4408").contains("Total"));
        assert!(without("# dropped").contains("dropped"));
        let changed = |from: &str, to: &str| read(&TEXT.replace(from, to)).unwrap_err();
        assert!(changed("= 3113.734", "= fast").contains("fast"));
        assert!(changed("50.000 =   61.430", "50.000 =   61.430 ms").contains("61.430 ms"));
        assert!(changed("Round trip is 124.233 usec", "Latency is 62.1 usec").contains("Round"));
        assert_eq!(changed("dropped messages = 0", "dropped messages = 3"), "3 dropped messages");
        assert!(changed("   61.430", "    0.000").contains("p50 0 us"));
        assert!(changed("   61.430", " 9999.000").contains("p50 9999 us"));
        assert!(read("").is_err());
        assert!(read("sockperf: No messages were received from the server.").is_err());
    }
}
