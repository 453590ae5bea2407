//! The rows of the bar: our code beside peers, a line each.
//!
//! ```sh
//! cargo bench -p niclab-bench --bench rows -- --help
//! ```

use std::process::ExitCode;

fn main() -> ExitCode {
    niclab_bench::command::main()
}
