//! Which requests miss in a full store, ours and memcached's, on every trace of the bar.
//!
//! ```sh
//! cargo bench -p niclab-bench --bench traces            # all of them
//! cargo bench -p niclab-bench --bench traces -- once    # those with this in their names
//! ```

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

use niclab_bench::BenchError;
use niclab_bench::traces::{ALL, MEMORY_BYTES, Memcached, Missed, Ours, Trace, replay};

fn main() -> Result<(), BenchError> {
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    println!("{} MiB of memory; missed of the second half of each trace", MEMORY_BYTES >> 20);
    for trace in ALL.iter().filter(|trace| trace.name.contains(&wanted)) {
        println!("{}: {} keys, {} requests", trace.name, trace.keys, trace.requests);
        show("kvs", replay(trace, &mut Ours::new(MEMORY_BYTES)?)?);
        match beside(trace)? {
            Some(missed) => show("memcached", missed),
            None => println!("  SKIP memcached: it is not installed (apt-get install memcached)"),
        }
    }
    Ok(())
}

/// Misses of memcached; `None` if it is not installed.
fn beside(trace: &Trace) -> Result<Option<Missed>, BenchError> {
    let directory = tempfile::tempdir().map_err(BenchError::Temporary)?;
    // memcached gives root's rights up, and makes its socket afterwards.
    let open = Permissions::from_mode(0o777);
    set_permissions(directory.path(), open).map_err(BenchError::Temporary)?;
    let Some(mut memcached) = Memcached::start(directory.path(), MEMORY_BYTES >> 20)? else {
        return Ok(None);
    };
    replay(trace, &mut memcached).map(Some)
}

fn show(who: &str, missed: Missed) {
    let (requests, bytes) = (100.0 * missed.requests, 100.0 * missed.bytes);
    println!("  {who}: {requests:.2} % of requests, {bytes:.2} % of bytes");
}
