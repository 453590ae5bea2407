//! Operation queues: a thread enqueues creates and destroys, pushes them, and pulls the results.
//!
//! Each queue belongs to one thread. It makes rules without a lock. Operations are carried out when
//! they are pushed, many at a time, so that the cache misses of one overlap with those of others
//! (`niclab_nic::Nic::run`). A rule has a handle from the moment it is enqueued.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use niclab_nic::{Operation, RuleId};

use crate::control::{Control, GivenActions};
use crate::failure::{Failure, FailurePart};
use crate::shapes::ItemBytes;
use crate::templates::{RuleMaker, RuleTable};

/// The most operations of a queue whose results were not pulled.
pub const QUEUE_SIZE_MAX: u32 = 1 << 20;

/// Handles that a queue takes at a time.
const HANDLES: usize = 256;

/// Pending operations that are carried out though nobody pushed: more would leave the cache.
const PENDING_MAX: usize = 256;

/// The control side of a NIC, shared by all threads.
pub type SharedControl = Arc<Mutex<Control>>;

/// Locks the control side. A thread that panicked left it as it was between two operations.
pub fn lock(control: &SharedControl) -> MutexGuard<'_, Control> {
    control.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The program's word for the operation.
    pub user: u64,
    /// Whether it was carried out.
    pub is_done: bool,
}

/// What a pending operation belongs to.
#[derive(Clone, Copy, Debug)]
struct Pending {
    user: u64,
    /// The handle of the rule.
    handle: u64,
    is_create: bool,
}

/// An operation queue.
pub struct FlowQueue {
    control: SharedControl,
    maker: RuleMaker,
    size: usize,
    operations: Vec<Operation<'static>>,
    pending: Vec<Pending>,
    completions: VecDeque<Completion>,
    /// Handles without a rule.
    handles: Vec<u64>,
    /// The NIC behaves as the card of a profile, which sees every rule as a whole.
    is_modelled: bool,
}

/// A rule to enqueue: templates by index, values, the program's word.
#[derive(Clone, Copy, Debug)]
pub struct EnqueuedRule<'a> {
    /// Its table.
    pub table: &'a RuleTable,
    /// Indices of the pattern template and the actions template.
    pub templates: (usize, usize),
    /// Its items, with the masks of the pattern template.
    pub items: &'a [ItemBytes<'a>],
    /// The program's word for the operation.
    pub user: u64,
    /// Whether the operation may wait for the next push.
    pub postpone: bool,
}

impl FlowQueue {
    /// A queue for at most `size` operations whose results were not pulled.
    ///
    /// # Errors
    /// `EINVAL` for a size that is not 1 to [`QUEUE_SIZE_MAX`].
    pub fn new(control: &SharedControl, size: u32) -> Result<FlowQueue, Failure> {
        if !(1..=QUEUE_SIZE_MAX).contains(&size) {
            let text = format!("a queue of {size} operations; use 1 to {QUEUE_SIZE_MAX}");
            return Err(Failure::new(libc::EINVAL, FailurePart::None, text));
        }
        Ok(FlowQueue {
            control: Arc::clone(control),
            maker: RuleMaker::default(),
            size: size as usize,
            operations: Vec::with_capacity(PENDING_MAX),
            pending: Vec::with_capacity(PENDING_MAX),
            completions: VecDeque::with_capacity(size as usize),
            handles: Vec::with_capacity(2 * HANDLES),
            is_modelled: lock(control).is_modelled(),
        })
    }

    /// Enqueues the creation of a rule; returns the handle that it will have.
    ///
    /// # Errors
    /// `EAGAIN` if the queue is full; values that no rule can have.
    #[inline]
    pub fn create(
        &mut self,
        rule: EnqueuedRule<'_>,
        given: &mut GivenActions,
    ) -> Result<u64, Failure> {
        let EnqueuedRule { table, templates, items, user, postpone } = rule;
        table.actions[templates.1].check(given)?;
        let handle = self.handle()?;
        let made = match self.is_modelled {
            true => None,
            false => self.maker.rule(table, templates, items, &given.list, &self.control)?,
        };
        self.handles.pop();
        match made {
            Some(rule) => {
                self.operations.push(Operation::CreateIn(rule));
                self.pending.push(Pending { user, handle, is_create: true });
                if !postpone || self.pending.len() >= PENDING_MAX {
                    self.push();
                }
            }
            None => self.create_whole(rule, given, handle),
        }
        Ok(handle)
    }

    /// Creates a rule that the NIC's template tables have no place for.
    fn create_whole(&mut self, rule: EnqueuedRule<'_>, given: &mut GivenActions, handle: u64) {
        self.push();
        rule.table.actions[rule.templates.1].complete(given);
        if given.has_age() {
            given.age_context.get_or_insert(handle);
        }
        let mut control = lock(&self.control);
        let created = control.create(rule.table.place, rule.items, given);
        match created {
            Ok(id) => control.fill_slot(handle, id),
            Err(_) => self.handles.push(handle),
        }
        drop(control);
        self.completions.push_back(Completion { user: rule.user, is_done: created.is_ok() });
    }

    /// Enqueues the destruction of a rule.
    ///
    /// # Errors
    /// `EAGAIN` if the queue is full.
    #[inline]
    pub fn destroy(&mut self, handle: u64, user: u64, postpone: bool) -> Result<(), Failure> {
        self.check_room()?;
        self.operations.push(Operation::Destroy(RuleId::from_bits(handle)));
        self.pending.push(Pending { user, handle, is_create: false });
        if !postpone || self.pending.len() >= PENDING_MAX {
            self.push();
        }
        Ok(())
    }

    /// Adds the result of an operation that was carried out at once.
    ///
    /// # Errors
    /// `EAGAIN` if the queue is full.
    pub fn complete(&mut self, user: u64, is_done: bool) -> Result<(), Failure> {
        self.check_room()?;
        self.completions.push_back(Completion { user, is_done });
        Ok(())
    }

    /// Carries out the pending operations, in order.
    pub fn push(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let FlowQueue { control, operations, pending, completions, handles, .. } = self;
        let mut control = lock(control);
        let mut begin = 0;
        while begin < pending.len() {
            // Handles of rules to destroy are resolved; one that an earlier operation of this push
            // creates is known only after that.
            let mut end = begin;
            while end < pending.len() {
                let Pending { handle, is_create, .. } = pending[end];
                if !is_create {
                    match control.rule_of(handle) {
                        Ok(id) => operations[end] = Operation::Destroy(id),
                        Err(_) if end > begin => break,
                        Err(_) => {}
                    }
                }
                end += 1;
            }
            let mut results = Vec::with_capacity(end - begin);
            control.run(&operations[begin..end], |result| results.push(result.ok()));
            for (pending, result) in pending[begin..end].iter().zip(results) {
                let Pending { user, handle, is_create } = *pending;
                match (is_create, result) {
                    (true, Some(id)) => control.fill_slot(handle, id),
                    (true, None) => handles.push(handle),
                    (false, Some(_)) if crate::control::is_slot(handle) => {
                        handles.push(control.vacate_slot(handle));
                    }
                    (false, _) => {}
                }
                completions.push_back(Completion { user, is_done: result.is_some() });
            }
            begin = end;
        }
        operations.clear();
        pending.clear();
    }

    /// The oldest result of an operation that was carried out.
    #[inline]
    pub fn pull(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// The NIC of the queue.
    pub fn control(&self) -> &SharedControl {
        &self.control
    }

    /// Checks that the queue takes another operation.
    ///
    /// # Errors
    /// `EAGAIN` if it is full.
    #[inline]
    pub fn check_room(&self) -> Result<(), Failure> {
        if self.pending.len() + self.completions.len() < self.size {
            return Ok(());
        }
        let text = format!("{} operations are under way; pull their results", self.size);
        Err(Failure::new(libc::EAGAIN, FailurePart::None, text))
    }

    /// The handle of the next rule.
    #[inline]
    fn handle(&mut self) -> Result<u64, Failure> {
        self.check_room()?;
        if self.handles.is_empty() {
            let reserved = lock(&self.control).reserve_slots(HANDLES);
            self.handles.extend(reserved);
        }
        self.handles.last().copied().ok_or_else(|| {
            Failure::new(libc::ENOSPC, FailurePart::Room, "no handle is left; destroy rules first")
        })
    }
}

impl Drop for FlowQueue {
    fn drop(&mut self) {
        let creates = self.pending.iter().filter(|pending| pending.is_create);
        self.handles.extend(creates.map(|pending| pending.handle));
        lock(&self.control).release_slots(&self.handles);
    }
}
