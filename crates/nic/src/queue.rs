//! Operation queues: rules from several threads, each with a queue of its own.
//!
//! `rte_flow_async_*` of DPDK 22.03. A thread puts operations into its queue and goes on; the
//! thread that has the NIC takes them out ([`Nic::serve`]), carries them out in bulk, and puts the
//! results where the first thread finds them. Neither ever waits for the other, and no lock is
//! taken: both ways are rings of one producer and one consumer. Operations of one queue are carried
//! out in order; those of several queues in no order among each other.
//!
//! An operation is carried out where it lies in the ring. So it is small: rules come from template
//! tables, as in DPDK, and whole rules, which an operation only refers to, have to outlive the
//! queue.

use rtrb::{Consumer, Producer, RingBuffer};

use crate::batch::Operation;
use crate::control::{Nic, RuleId};
use crate::error::{NicError, RuleError};
use crate::limits::OPERATIONS_MAX;

/// Why a queue takes no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// So many operations are under way as the queue has room for.
    #[error("{size} operations are under way; pull their results")]
    Full {
        /// Its size.
        size: usize,
    },
    /// There is no NIC any more.
    #[error("the NIC of this queue is gone")]
    Gone,
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// What it was put into the queue with.
    pub user: u64,
    /// The rule, or why not.
    pub result: Result<RuleId, RuleError>,
}

/// An operation, and what its result is known by.
type Asked = (Operation<'static>, u64);

const _: () =
    assert!(size_of::<Asked>() == 128, "two cache lines in a ring that is cycled through");

/// The end of an operation queue that puts operations in; see [`Nic::operation_queue`].
#[derive(Debug)]
pub struct OperationQueue {
    size: usize,
    /// Put in and not pushed.
    waiting: Vec<Asked>,
    asked: Producer<Asked>,
    done: Consumer<Done>,
    /// Operations whose results were not pulled.
    under_way: usize,
}

/// The NIC's end.
#[derive(Debug)]
pub(crate) struct Served {
    asked: Consumer<Asked>,
    done: Producer<Done>,
}

impl OperationQueue {
    /// Puts an operation in, for the next [`push`](Self::push). `user` comes back with its result.
    ///
    /// # Errors
    /// [`QueueError`]; the operation is then not in the queue.
    pub fn put(&mut self, operation: Operation<'static>, user: u64) -> Result<(), QueueError> {
        if self.asked.is_abandoned() {
            return Err(QueueError::Gone);
        }
        if self.under_way == self.size {
            return Err(QueueError::Full { size: self.size });
        }
        self.waiting.push((operation, user));
        self.under_way += 1;
        Ok(())
    }

    /// Hands over all operations that were put in.
    pub fn push(&mut self) {
        // There is room: no more are under way than the ring takes.
        if let Ok(room) = self.asked.write_chunk_uninit(self.waiting.len()) {
            room.fill_from_iter(self.waiting.drain(..));
        }
    }

    /// The oldest result that is there.
    ///
    /// # Errors
    /// [`QueueError::Gone`] when the NIC has gone without carrying out all operations; nothing is
    /// under way then.
    pub fn pull(&mut self) -> Result<Option<Done>, QueueError> {
        // Before the look into the ring: what it put there last is then seen.
        let gone = self.done.is_abandoned();
        if let Ok(done) = self.done.pop() {
            self.under_way -= 1;
            return Ok(Some(done));
        }
        if gone && self.under_way > 0 {
            self.waiting.clear();
            self.under_way = 0;
            return Err(QueueError::Gone);
        }
        Ok(None)
    }

    /// Operations whose results were not pulled, those not pushed included.
    pub fn under_way(&self) -> usize {
        self.under_way
    }
}

impl Nic {
    /// A queue for operations of another thread, or of this one, of which at most `size` are under
    /// way at a time: 1 to [`OPERATIONS_MAX`].
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
        let (asked, ours) = RingBuffer::new(size);
        let (results, done) = RingBuffer::new(size);
        self.served.push(Served { asked: ours, done: results });
        Ok(OperationQueue { size, waiting: Vec::with_capacity(size), asked, done, under_way: 0 })
    }

    /// Carries out operations that were pushed, at most `most` of each queue; how many of all. A
    /// queue that is gone, and empty, is given up.
    pub fn serve(&mut self, most: usize) -> usize {
        let mut served = std::mem::take(&mut self.served);
        let count = served.iter_mut().map(|queue| self.serve_one(queue, most)).sum();
        served.retain(|queue| !queue.asked.is_abandoned() || !queue.asked.is_empty());
        self.served = served;
        count
    }

    fn serve_one(&mut self, queue: &mut Served, most: usize) -> usize {
        let Served { asked, done } = queue;
        let count = asked.slots().min(most);
        let Ok(taken) = asked.read_chunk(count) else { return 0 };
        let (first, second) = taken.as_slices();
        for some in [first, second] {
            let finish = |(_, user): &Asked, result| {
                // There is room for the results of all operations under way.
                let _ = done.push(Done { user: *user, result });
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
