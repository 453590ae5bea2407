//! Arbitrary bytes as a talk over memcached's text protocol, its meta commands included.

#![no_main]

mod kvs;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| kvs::talk(b"", bytes));
