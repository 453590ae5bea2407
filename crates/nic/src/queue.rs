//! Operation queues: several threads create rules, each through a queue of its own.
//!
//! As `rte_flow_async_*` of DPDK 22.03. A thread puts operations into its queue and goes on. The
//! thread that owns the NIC takes them out ([`Nic::serve`]), carries them out in bulk, and returns
//! the results through another ring. Neither side waits for the other or takes a lock: both rings
//! have one producer and one consumer. Operations of one queue are carried out in order; the order
//! among queues is not defined.
//!
//! An operation is carried out in place, in the ring, and so it is small. Rules come from template
//! tables, as in DPDK. A whole rule, which an operation only refers to, has to outlive the queue.

use rtrb::{Consumer, Producer, RingBuffer};

use crate::batch::Operation;
use crate::control::{Nic, RuleId};
use crate::error::{NicError, RuleError};
use crate::limits::OPERATIONS_MAX;

/// Why a queue refuses an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The queue has as many operations under way as it has room for.
    #[error("{size} operations are under way; pull their results")]
    Full {
        /// Size of the queue.
        size: usize,
    },
    /// The NIC of this queue was dropped.
    #[error("the NIC of this queue is gone")]
    Closed,
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationResult {
    /// The caller's value for this operation.
    pub user: u64,
    /// The rule, or the reason of the refusal.
    pub result: Result<RuleId, RuleError>,
}

/// An operation, and the caller's value for it.
type QueuedOperation = (Operation<'static>, u64);

const _: () = assert!(
    size_of::<QueuedOperation>() == 128,
    "two cache lines in a ring that is cycled through"
);

/// The caller's end of an operation queue; see [`Nic::operation_queue`].
#[derive(Debug)]
pub struct OperationQueue {
    size: usize,
    /// Operations that were put in and not pushed yet.
    waiting: Vec<QueuedOperation>,
    operations: Producer<QueuedOperation>,
    results: Consumer<OperationResult>,
    /// Operations whose results were not pulled.
    under_way: usize,
}

/// The NIC's end of an operation queue.
#[derive(Debug)]
pub(crate) struct ServedQueue {
    operations: Consumer<QueuedOperation>,
    results: Producer<OperationResult>,
}

impl OperationQueue {
    /// Puts an operation in, for the next [`push`](Self::push). Its result has `user` too.
    ///
    /// # Errors
    /// [`QueueError`]; the operation is then not in the queue.
    pub fn put(&mut self, operation: Operation<'static>, user: u64) -> Result<(), QueueError> {
        if self.operations.is_abandoned() {
            return Err(QueueError::Closed);
        }
        if self.under_way == self.size {
            return Err(QueueError::Full { size: self.size });
        }
        self.waiting.push((operation, user));
        self.under_way += 1;
        Ok(())
    }

    /// Hands all operations that were put in to the NIC.
    pub fn push(&mut self) {
        // There is room: at most as many are under way as the ring has entries.
        if let Ok(room) = self.operations.write_chunk_uninit(self.waiting.len()) {
            room.fill_from_iter(self.waiting.drain(..));
        }
    }

    /// The oldest result, if any.
    ///
    /// # Errors
    /// [`QueueError::Closed`] if the NIC was dropped before it carried out all operations; none are
    /// under way then.
    pub fn pull(&mut self) -> Result<Option<OperationResult>, QueueError> {
        // Checked before the look into the ring, so that the NIC's last result is seen.
        let gone = self.results.is_abandoned();
        if let Ok(done) = self.results.pop() {
            self.under_way -= 1;
            return Ok(Some(done));
        }
        if gone && self.under_way > 0 {
            self.waiting.clear();
            self.under_way = 0;
            return Err(QueueError::Closed);
        }
        Ok(None)
    }

    /// Operations whose results were not pulled yet, including those not pushed yet.
    pub fn under_way(&self) -> usize {
        self.under_way
    }
}

impl Nic {
    /// Creates a queue for operations of another thread, or of this one. At most `size` operations
    /// are under way at a time, 1 to [`OPERATIONS_MAX`].
    ///
    /// # Errors
    /// [`NicError::Operations`].
    ///
    /// ```
    /// use niclab_nic::rule::Pattern;
    /// use niclab_nic::{Nic, NicConfig, Operation, Template, TemplateAction};
    ///
    /// let mut nic = Nic::new(&NicConfig { queues: 4, ..NicConfig::default() })?;
    /// let (pattern, actions) = (Pattern::ipv4().udp().dport(0), &[TemplateAction::Queue]);
    /// let table = nic.template_table(&Template { group: 1, priority: 0, pattern, actions })?;
    /// let mut queue = nic.operation_queue(64)?;
    /// let control = std::thread::spawn(move || {
    ///     let dns = Pattern::ipv4().udp().dport(53);
    ///     let rule = table.rule(dns.value(), &[3]).unwrap();
    ///     queue.put(Operation::CreateIn(rule), 1).unwrap();
    ///     queue.push();
    ///     loop {
    ///         if let Some(done) = queue.pull().unwrap() {
    ///             assert_eq!((done.user, done.result.is_ok()), (1, true));
    ///             return;
    ///         }
    ///     }
    /// });
    /// while nic.serve(32) == 0 {}
    /// control.join().unwrap();
    /// assert_eq!(nic.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn operation_queue(&mut self, size: usize) -> Result<OperationQueue, NicError> {
        if !(1..=OPERATIONS_MAX).contains(&size) {
            return Err(NicError::Operations { size });
        }
        let (operations, ours) = RingBuffer::new(size);
        let (theirs, results) = RingBuffer::new(size);
        self.served.push(ServedQueue { operations: ours, results: theirs });
        Ok(OperationQueue {
            size,
            waiting: Vec::with_capacity(size),
            operations,
            results,
            under_way: 0,
        })
    }

    /// Carries out pushed operations, at most `most` of each queue; returns their number. Drops a
    /// queue that is empty and whose caller's end was dropped.
    pub fn serve(&mut self, most: usize) -> usize {
        let mut served = std::mem::take(&mut self.served);
        let count = served.iter_mut().map(|queue| self.serve_one(queue, most)).sum();
        served.retain(|queue| !queue.operations.is_abandoned() || !queue.operations.is_empty());
        self.served = served;
        count
    }

    fn serve_one(&mut self, queue: &mut ServedQueue, most: usize) -> usize {
        let ServedQueue { operations, results } = queue;
        let count = operations.slots().min(most);
        let Ok(taken) = operations.read_chunk(count) else { return 0 };
        let (first, second) = taken.as_slices();
        for some in [first, second] {
            let finish = |(_, user): &QueuedOperation, result| {
                // There is room for the results of all operations under way.
                let _ = results.push(OperationResult { user: *user, result });
            };
            self.run_each(some, |(operation, _)| operation, finish);
        }
        taken.commit_all();
        count
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
