//! A run-time directory of DPDK's that goes with the process it was made for.
//!
//! DPDK makes `/var/run/dpdk/rte`, for an ordinary user `/tmp/dpdk/rte`, and never takes it away,
//! not even where it stays empty. `RUNTIME_DIRECTORY` moves it.

use std::io;

use super::protocol::names_memory;
use crate::scratch::Scratch;

/// The variable with the parent of DPDK's run-time directory (`eal_create_runtime_dir`).
pub const VARIABLE: &str = "RUNTIME_DIRECTORY";

/// One for a process with these arguments, unless they ask for files in DPDK's own directory: there
/// other programs look for them, and a second primary process of the same name is kept out.
pub fn private(arguments: &[String]) -> io::Result<Option<Scratch>> {
    let telemetry = arguments.iter().any(|argument| argument == "--telemetry");
    let shares_files = names_memory(arguments) || telemetry;
    (!shares_files).then(|| Scratch::create("dpdk")).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_asked_for_stay_where_dpdk_puts_them() {
        let is_private = |given: &str| {
            let arguments: Vec<String> = given.split_whitespace().map(String::from).collect();
            private(&arguments).unwrap().is_some()
        };
        assert!(is_private("--vdev=net_ring0") && is_private("-m 64 -a 0000:01:00.0"));
        for given in ["--file-prefix=mine", "--socket-mem 1024", "--telemetry"] {
            assert!(!is_private(&format!("--vdev=net_ring0 {given}")), "{given}");
        }
    }
}
