//! Template tables and operation queues.

use super::types::{niclab_completion, niclab_enqueued_rule, niclab_error, niclab_template};
use super::{Device, device, finish, given, null, put, read};
use crate::control::{GivenActions, RulePosition};
use crate::failure::{Failure, FailurePart};
use crate::flow_queue::{EnqueuedRule, FlowQueue};
use crate::templates::{ActionsTemplate, RuleTable};

/// Creates a template table: rules that share group, priority, masks and most of their actions.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_table_create(
    nic: *const Device,
    template: *const niclab_template,
    table: *mut *mut RuleTable,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let create = || {
            device(nic)?;
            let given = given(template, "template")?;
            let mut patterns = Vec::new();
            for one in read::slice(given.patterns, given.patterns_len) {
                let items = read::slice(one.items, one.items_len);
                patterns.push(read::template_items(items)?);
            }
            let mut actions = Vec::new();
            for one in read::slice(given.actions, given.actions_len) {
                let mut read = GivenActions::default();
                read::actions(read::slice(one.actions, one.actions_len), &mut read)?;
                let fixed = read::slice(one.fixed, one.actions_len);
                let fixed = (0..read.list.len()).map(|at| fixed.get(at).is_some_and(|f| *f != 0));
                actions.push(ActionsTemplate { given: read, fixed: fixed.collect() });
            }
            if patterns.is_empty() || actions.is_empty() {
                let text = "a table needs a pattern template and an actions template";
                return Err(Failure::new(libc::EINVAL, FailurePart::None, text));
            }
            let place = RulePosition { group: given.group, priority: given.priority };
            let made = Box::new(RuleTable::new(place, patterns, actions));
            put(table, Box::into_raw(made), "table")
        };
        finish(create(), error)
    }
}

/// Destroys a template table. Its rules stay; operations that name it must have been pushed.
///
/// # Safety
/// `nic` is open; `table` is null or a table of it, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_table_destroy(nic: *const Device, table: *mut RuleTable) {
    // SAFETY: as the caller vouches.
    unsafe {
        if table.is_null() {
            return;
        }
        let table = Box::from_raw(table);
        if let Ok(device) = device(nic) {
            table.close(&device.control);
        }
    }
}

/// Opens a queue for at most `size` operations whose results were not pulled, 1 to 1048576. A queue
/// belongs to one thread at a time.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_queue_open(
    nic: *const Device,
    size: u32,
    queue: *mut *mut FlowQueue,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let open = || {
            let made = Box::new(FlowQueue::new(&device(nic)?.control, size)?);
            put(queue, Box::into_raw(made), "queue")
        };
        finish(open(), error)
    }
}

/// Closes a queue. Operations that were not pushed are not carried out.
///
/// # Safety
/// `queue` is null or open, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_queue_close(queue: *mut FlowQueue) {
    if !queue.is_null() {
        // SAFETY: `niclab_queue_open` made it, and the caller gives it up.
        drop(unsafe { Box::from_raw(queue) });
    }
}

/// Enqueues the creation of a rule of a template table. `handle` gets the handle that the rule has
/// once the operation was carried out.
///
/// # Safety
/// `queue` and `table` are open and of one NIC, this thread alone uses the queue, and the pointers
/// are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_queue_create(
    queue: *mut FlowQueue,
    table: *const RuleTable,
    rule: *const niclab_enqueued_rule,
    handle: *mut u64,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let enqueue = || {
            let queue = queue.as_mut().ok_or_else(|| null("queue"))?;
            let (table, rule) = (given(table, "table")?, given(rule, "rule")?);
            if handle.is_null() {
                return Err(null("handle"));
            }
            let templates = (rule.pattern as usize, rule.actions_template as usize);
            let missing = |what| Failure::new(libc::EINVAL, FailurePart::None, what);
            let pattern = table.patterns.get(templates.0);
            let pattern =
                pattern.ok_or_else(|| missing("the table has no such pattern template"))?;
            if templates.1 >= table.actions.len() {
                return Err(missing("the table has no such actions template"));
            }
            let mut items = read::Items::new();
            let mut actions = GivenActions::default();
            let given_items = read::slice(rule.items, rule.items_len as usize);
            read::templated_items(given_items, pattern, &mut items)?;
            let given_actions = read::slice(rule.actions, rule.actions_len as usize);
            read::actions(given_actions, &mut actions)?;
            let (user, postpone) = (rule.user, rule.postpone != 0);
            let rule = EnqueuedRule { table, templates, items: &items, user, postpone };
            put(handle, queue.create(rule, &mut actions)?, "handle")
        };
        finish(enqueue(), error)
    }
}

/// Enqueues the destruction of a rule. `postpone` other than 0 lets it wait for the next push.
///
/// # Safety
/// `queue` is open, this thread alone uses it, and `error` is valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_queue_destroy(
    queue: *mut FlowQueue,
    handle: u64,
    user: u64,
    postpone: i32,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let enqueue = || {
            let queue = queue.as_mut().ok_or_else(|| null("queue"))?;
            queue.destroy(handle, user, postpone != 0)
        };
        finish(enqueue(), error)
    }
}

/// Checks that a queue takes another operation: `-EAGAIN` if it is full.
///
/// # Safety
/// As [`niclab_queue_destroy`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_queue_check_room(
    queue: *const FlowQueue,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe { finish(given(queue, "queue").and_then(FlowQueue::check_room), error) }
}

/// Adds a result to a queue, of an operation that the program has carried out itself.
///
/// # Safety
/// As [`niclab_queue_destroy`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_queue_complete(
    queue: *mut FlowQueue,
    user: u64,
    done: i32,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let complete = || {
            let queue = queue.as_mut().ok_or_else(|| null("queue"))?;
            queue.complete(user, done != 0)
        };
        finish(complete(), error)
    }
}

/// Carries out the operations that wait, in order.
///
/// # Safety
/// `queue` is null, or open and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_queue_push(queue: *mut FlowQueue) {
    // SAFETY: as the caller vouches.
    if let Some(queue) = unsafe { queue.as_mut() } {
        queue.push();
    }
}

/// Writes the oldest results, at most `results_len`, and returns their number.
///
/// # Safety
/// `queue` is null, or open and used by this thread alone; `results` points to `results_len`
/// places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_queue_pull(
    queue: *mut FlowQueue,
    results: *mut niclab_completion,
    results_len: usize,
) -> usize {
    // SAFETY: as the caller vouches.
    let Some(queue) = (unsafe { queue.as_mut() }) else { return 0 };
    let mut count = 0;
    while count < results_len
        && let Some(completion) = queue.pull()
    {
        let done = u32::from(completion.is_done);
        // SAFETY: `results` has a place for it, as the caller vouches.
        unsafe { results.add(count).write(niclab_completion { user: completion.user, done }) };
        count += 1;
    }
    count
}
