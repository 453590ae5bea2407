//! The counters of a partition, under memcached's names.

/// Declares the counters, and what is done with each of them, from one list.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters that only grow, but for `stats reset`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct StoreCounters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl StoreCounters {
            /// Calls `each` with the name and the value of every counter.
            pub fn each(&self, mut each: impl FnMut(&'static str, u64)) {
                $(each(stringify!($name), self.$name);)*
            }

            /// Adds what another one has counted.
            pub fn add(&mut self, other: &StoreCounters) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Keys asked for.
    cmd_get,
    /// Requests to store.
    cmd_set,
    /// Requests to give an item another end.
    cmd_touch,
    /// Meta commands.
    cmd_meta,
    /// Keys that were found.
    get_hits,
    /// Keys that were not found.
    get_misses,
    /// Of these, keys whose item was over.
    get_expired,
    /// Deletions of no item.
    delete_misses,
    /// Deletions.
    delete_hits,
    /// Increments of no item.
    incr_misses,
    /// Increments.
    incr_hits,
    /// Decrements of no item.
    decr_misses,
    /// Decrements.
    decr_hits,
    /// Comparisons with no item.
    cas_misses,
    /// Comparisons that held.
    cas_hits,
    /// Comparisons that did not hold.
    cas_badval,
    /// Items that got another end.
    touch_hits,
    /// Items that were to get one and were not there.
    touch_misses,
    /// Items that are longer than any may be.
    store_too_large,
    /// Items for which there was no room.
    store_no_memory,
    /// Items that were stored.
    total_items,
    /// Items that had to go for others.
    evictions,
    /// Of these, items that nobody had read.
    evicted_unfetched,
    /// Of these, items read since they last faded to zero.
    evicted_active,
    /// Items that were over and whose room was taken back.
    reclaimed,
    /// Items that were over before anybody had read them.
    expired_unfetched,
    /// Items that were moved in the log, so that the room around them is free.
    items_moved,
}

/// Items that a card has stored and answered. `stats reset` does not reset these counters, nor
/// those of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DmaItemCounters {
    /// Items, and requests.
    pub items: u64,
    /// Bytes of their keys and values.
    pub content_bytes: u64,
}

impl DmaItemCounters {
    /// Counts one more, whose key and value have so many bytes.
    pub(super) fn count(&mut self, content_len: usize) {
        self.items += 1;
        self.content_bytes += content_len as u64;
    }

    /// Adds what another partition has.
    pub fn add(&mut self, other: &DmaItemCounters) {
        self.items += other.items;
        self.content_bytes += other.content_bytes;
    }
}

/// Statistics of a partition, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Counts since the last `stats reset`.
    pub counters: StoreCounters,
    /// Counts since the start.
    pub ever: StoreCounters,
    /// Items that are stored.
    pub curr_items: u64,
    /// Bytes of them, headers included.
    pub bytes: u64,
    /// Memory that log and index have, bytes.
    pub memory_bytes: u64,
    /// Bytes of the index among them.
    pub hash_bytes: u64,
    /// Segments of the log.
    pub segments: u64,
    /// Most memory that they may have, bytes.
    pub limit_maxbytes: u64,
    /// Items that a card has stored, and has answered the requests for.
    pub stored: DmaItemCounters,
    /// Items of a card that could not be, and were not linked.
    pub unfit: u64,
    /// Times that somebody had to wait for a partition's lock.
    pub lock_waits: u64,
    /// How long all of them waited, ns.
    pub lock_wait_ns: u64,
}

impl Statistics {
    /// Adds what another partition has.
    pub fn add(&mut self, other: &Statistics) {
        self.counters.add(&other.counters);
        self.ever.add(&other.ever);
        self.curr_items += other.curr_items;
        self.bytes += other.bytes;
        self.memory_bytes += other.memory_bytes;
        self.hash_bytes += other.hash_bytes;
        self.segments += other.segments;
        self.limit_maxbytes += other.limit_maxbytes;
        self.stored.add(&other.stored);
        self.unfit += other.unfit;
        self.lock_waits += other.lock_waits;
        self.lock_wait_ns += other.lock_wait_ns;
    }
}
