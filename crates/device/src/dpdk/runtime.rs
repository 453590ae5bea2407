//! A run-time directory of DPDK's that goes with the process it was made for.
//!
//! DPDK makes `/var/run/dpdk/rte`, for an ordinary user `/tmp/dpdk/rte`, and never takes it away,
//! not even where it stays empty. `RUNTIME_DIRECTORY` moves it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, process};

use super::protocol::names_memory;

/// Where DPDK looks for the place of its run-time directory (`eal_create_runtime_dir`).
pub const VARIABLE: &str = "RUNTIME_DIRECTORY";

/// A directory of this process and this user alone, removed with this value.
#[derive(Debug)]
pub struct RuntimeDirectory(PathBuf);

impl RuntimeDirectory {
    /// Makes one where temporary files are kept.
    pub fn create() -> io::Result<RuntimeDirectory> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        loop {
            let count = MADE.fetch_add(1, Ordering::Relaxed);
            let name = format!("niclab-dpdk-{}-{count}", process::id());
            let path = env::temp_dir().join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(RuntimeDirectory(path)),
                // Left by a process that was killed and had the same number.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RuntimeDirectory {
    fn drop(&mut self) {
        // What cannot be removed stays; there is nobody to be told.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One for a process with these arguments, unless they ask for files in DPDK's own directory: there
/// other programs look for them, and a second primary process of the same name is kept out.
pub fn private(arguments: &[String]) -> io::Result<Option<RuntimeDirectory>> {
    let telemetry = arguments.iter().any(|argument| argument == "--telemetry");
    let shares_files = names_memory(arguments) || telemetry;
    (!shares_files).then(RuntimeDirectory::create).transpose()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_private_and_goes_with_its_value() {
        let [one, other] = [(); 2].map(|()| RuntimeDirectory::create().unwrap());
        assert_ne!(one.path(), other.path());
        assert_eq!(fs::metadata(one.path()).unwrap().permissions().mode() & 0o777, 0o700);
        let below = one.path().join("dpdk/rte");
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join("config"), "").unwrap();
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && other.path().exists());
    }

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
