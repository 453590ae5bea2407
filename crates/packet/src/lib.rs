//! Wire formats: parse, build, checksums; flow sets; pcap traces.
