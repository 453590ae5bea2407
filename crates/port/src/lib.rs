//! Packets in and out of the NIC: the memory wire.
