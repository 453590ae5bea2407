//! A server that stalls: which load loop reports it.

use std::sync::Mutex;

use super::scripted::{Reply, memcached, served};
use super::*;

const STALL: Duration = Duration::from_millis(100);

/// The observation of a server that stalls once, for [`STALL`], in the middle.
fn stalled(asked: &Requests) -> Requested {
    let stall = Mutex::new(None);
    let reply = |_, stream| {
        memcached(stream, |_, _| {
            let mut until = stall.lock().unwrap();
            // All connections wait for the lock.
            if until.get_or_insert_with(|| Instant::now() + 4 * STALL).elapsed() > Duration::ZERO {
                thread::sleep(STALL);
                *until = Some(Instant::now() + 1000 * STALL);
            }
            Reply::Say(b"STORED\r\n".to_vec())
        });
    };
    let observed = served(reply, |server| go(asked, server));
    assert_balanced(&observed);
    assert!(observed.ended.is_none() && observed.refused == 0, "{observed:?}");
    observed
}

/// A stall of 100 ms in a second: a tenth of all that is due.
#[test]
fn an_open_loop_counts_all_that_was_due_while_the_server_stood_still() {
    let open = Requests {
        get_ratio: 0.0,
        pace: Pace::Open { per_s: 2000.0 },
        duration_ns: 1_000_000_000,
        ..requests(Protocol::MemcachedTcp)
    };
    let observed = stalled(&open);
    let p99 = |latency: &Latency| latency.0.value_at_quantile(0.99);
    // Of 200 requests due in the stall, evenly, the last of 2000 hundredths waited 90 ms.
    assert!(p99(&observed.latency) > 80_000_000, "{observed:?}");
    assert!(observed.latency.0.value_at_quantile(0.95) > 30_000_000, "{observed:?}");
    // Four connections cannot have more than four requests that waited all of it.
    let service = observed.service.as_ref().unwrap();
    assert!(p99(service) < 60_000_000, "{observed:?}");
    let lateness = observed.lateness.as_ref().unwrap();
    assert!(p99(lateness) > 80_000_000, "{observed:?}");

    let closed = Requests { pace: Pace::Closed, ..open };
    let observed = stalled(&closed);
    assert!(observed.sent > 1000, "{observed:?}");
    assert!(p99(&observed.latency) < 60_000_000, "{observed:?}");
    assert!(observed.latency.0.max() > 80_000_000, "{observed:?}");
}
