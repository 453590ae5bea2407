//! Match engines: exact match with bulk look-up, incremental growth and lock-free readers.
