//! The command line of niclab; the only crate that prints.
fn main() {}
