//! Arbitrary bytes as a talk over memcached's binary protocol.

#![no_main]

mod kvs;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| kvs::talk(&[0x80], bytes));
