//! One face for everything measured: soft, linux, dpdk.
