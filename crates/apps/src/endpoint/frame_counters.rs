//! Counters of frames that come by a card's queues.

use std::sync::atomic::{AtomicU64, Ordering};

/// Declares the counters, and what is done with each of them, from one list.
macro_rules! counted {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of frames.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct FrameCounters {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// Frame counters that several cores share.
        #[derive(Debug, Default)]
        pub struct SharedFrameCounters {
            $($name: AtomicU64,)*
        }

        impl SharedFrameCounters {
            /// Adds what a core has counted.
            pub fn add(&self, counted: &FrameCounters) {
                $(if counted.$name > 0 {
                    self.$name.fetch_add(counted.$name, Ordering::Relaxed);
                })*
            }

            /// The sum so far.
            pub fn all(&self) -> FrameCounters {
                FrameCounters { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counted! {
    /// Frames that came.
    frames,
    /// Datagrams for the service.
    datagrams,
    /// Bytes of them, and of those by which keys were asked for by events.
    datagram_bytes,
    /// Frames with answers of the service.
    answers,
    /// Bytes of the datagrams in them.
    answer_bytes,
    /// Keys asked for by events of a card, and answered.
    asked,
    /// ARP requests that were answered.
    arp,
    /// Echo requests that were answered.
    echoes,
    /// TCP segments that were answered by a reset.
    resets,
    /// Datagrams to another port that were answered: it cannot be reached.
    unreachable,
    /// Frames whose lengths or checksums are wrong.
    malformed,
    /// Fragments.
    fragments,
    /// Frames, and events, of a sender to whom nothing is answered, and resets of TCP.
    refused,
    /// Frames that are not for us: another address or protocol, and another port of which enough
    /// was said in that second.
    strange,
    /// Answers for which there was no free frame.
    unsent,
}
