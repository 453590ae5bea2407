//! Network functions that run on the NIC's queues.
