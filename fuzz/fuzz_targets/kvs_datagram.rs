//! Arbitrary bytes as datagrams of memcached's UDP, each with its length before it.

#![no_main]

mod kvs;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| kvs::datagrams(bytes));
