//! Rules and indirect actions.

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex};

use niclab_nic::limits::QUEUES_MAX;
use niclab_nic::rule::Action;
use niclab_nic::{Age, Counts, Nic, NicConfig};

use super::types::{
    niclab_action, niclab_age, niclab_config, niclab_counts, niclab_error, niclab_rule,
    niclab_write,
};
use super::{Device, call, device, finish, given, lock, put, read};
use crate::control::{Control, GivenActions, RulePosition};
use crate::failure::Failure;

fn nic_of(config: &niclab_config) -> Result<Nic, Failure> {
    let niclab_config { queues, ports, seed, .. } = *config;
    Ok(Nic::new(&NicConfig { queues, ports, seed, ..NicConfig::default() })?)
}

/// Opens a NIC without rules: RSS sends all packets to the queues. Close it by `niclab_close`.
///
/// # Safety
/// The pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_open(
    config: *const niclab_config,
    nic: *mut *mut Device,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let open = || {
            let config = given(config, "config")?;
            let opened = nic_of(config)?;
            let control = match config.profile.as_ref() {
                None => Control::new(opened),
                Some(profile) => Control::of_card(opened, profile.profile.clone()),
            };
            let control = Arc::new(Mutex::new(control));
            put(nic, Box::into_raw(Box::new(Device { control })), "nic")
        };
        finish(open(), error)
    }
}

/// Opens the NIC anew with these queues and ports: its rules and indirect actions are gone, and
/// their handles name nothing. Isolation and template tables stay; the profile of `config` does not
/// matter. Workers and operation queues must be closed before.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_reopen(
    nic: *const Device,
    config: *const niclab_config,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        match given(config, "config").and_then(nic_of) {
            Ok(opened) => call(nic, error, |control| control.succeed(opened)),
            Err(failure) => finish(Err(failure), error),
        }
    }
}

/// Closes a NIC. Its workers, template tables and operation queues must be closed before.
///
/// # Safety
/// `nic` is null or open, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_close(nic: *mut Device) {
    if !nic.is_null() {
        // SAFETY: `niclab_open` made it, and the caller gives it up.
        drop(unsafe { Box::from_raw(nic) });
    }
}

/// The most receive queues of a NIC.
#[unsafe(no_mangle)]
pub extern "C" fn niclab_queues_max() -> u16 {
    QUEUES_MAX
}

/// Reads a rule; returns its place.
///
/// # Safety
/// `rule` is null, or it and its pointers are valid while `items` exists.
#[inline]
unsafe fn read_rule<'a>(
    rule: *const niclab_rule,
    items: &mut read::Items<'a>,
    actions: &mut GivenActions,
) -> Result<RulePosition, Failure> {
    // SAFETY: as the caller vouches.
    unsafe {
        let rule: &'a niclab_rule = given(rule, "rule")?;
        read::items(read::slice(rule.items, rule.items_len as usize), items)?;
        read::actions(read::slice(rule.actions, rule.actions_len as usize), actions)?;
        Ok(RulePosition { group: rule.group, priority: rule.priority })
    }
}

/// Creates a rule; packets match it from now on. `handle` gets its handle, which is not 0.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_rule_create(
    nic: *const Device,
    rule: *const niclab_rule,
    handle: *mut u64,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let create = || {
            let mut items = read::Items::new();
            let mut actions = GivenActions::default();
            let place = read_rule(rule, &mut items, &mut actions)?;
            let device = device(nic)?;
            if handle.is_null() {
                return Err(super::null("handle"));
            }
            let id = lock(&device.control).create(place, &items, &mut actions)?;
            put(handle, id.to_bits(), "handle")
        };
        finish(create(), error)
    }
}

/// Checks that a rule could be created now, and creates none.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_rule_validate(
    nic: *const Device,
    rule: *const niclab_rule,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let validate = || {
            let mut items = read::Items::new();
            let mut actions = GivenActions::default();
            let place = read_rule(rule, &mut items, &mut actions)?;
            lock(&device(nic)?.control).validate(place, &items, &mut actions)
        };
        finish(validate(), error)
    }
}

/// Replaces the actions of a rule. Each packet sees either the old or the new ones.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_rule_update(
    nic: *const Device,
    handle: u64,
    actions: *const niclab_action,
    actions_len: usize,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        call(nic, error, |control| {
            let mut read = GivenActions::default();
            read::actions(read::slice(actions, actions_len), &mut read)?;
            control.update_handle(handle, &mut read)
        })
    }
}

/// Destroys a rule; later packets do not match it.
///
/// # Safety
/// `nic` is open, and `error` is valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_rule_destroy(
    nic: *const Device,
    handle: u64,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe { call(nic, error, |control| control.destroy_handle(handle)) }
}

/// Destroys all rules.
///
/// # Safety
/// `nic` is open, and `error` is valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_rule_flush(nic: *const Device, error: *mut niclab_error) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe { call(nic, error, Control::flush) }
}

/// Sets the fate of packets that no rule matches: dropped if `on` is not 0, else sent by RSS.
///
/// # Safety
/// `nic` is open, and `error` is valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_isolate(
    nic: *const Device,
    on: i32,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe { call(nic, error, |control| Ok(control.nic.isolate(on != 0)?)) }
}

/// Number of rules; 0 if `nic` is null.
///
/// # Safety
/// `nic` is open, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_rule_count(nic: *const Device) -> u32 {
    // SAFETY: as the caller vouches.
    unsafe { device(nic) }.map_or(0, |device| lock(&device.control).nic.len())
}

/// Reads what a rule has counted since the last reset. `reset` other than 0 resets it.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_rule_counts(
    nic: *const Device,
    handle: u64,
    reset: i32,
    counts: *mut niclab_counts,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        call(nic, error, |control| {
            let id = control.rule_of(handle)?;
            put(counts, counts_for_c(control.counts(id, reset != 0)?), "counts")
        })
    }
}

/// The age of a rule.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_rule_age(
    nic: *const Device,
    handle: u64,
    age: *mut niclab_age,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        call(nic, error, |control| {
            let id = control.rule_of(handle)?;
            put(age, age_for_c(control.age(id)?), "age")
        })
    }
}

fn counts_for_c(counts: Counts) -> niclab_counts {
    niclab_counts { packets: counts.packets, bytes: counts.bytes }
}

fn age_for_c(age: Age) -> niclab_age {
    let aged = u32::from(age.is_aged());
    niclab_age { idle_ns: age.idle_ns, timeout_s: age.timeout_s, aged }
}

/// Sets the time, in nanoseconds from any moment: ages follow from it. Call it before the first
/// rule that ages, and now and then; a worker can do so too. Earlier times are ignored.
///
/// # Safety
/// `nic` is open, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_set_time(nic: *const Device, now_ns: u64) {
    // SAFETY: as the caller vouches.
    if let Ok(device) = unsafe { device(nic) } {
        lock(&device.control).set_time_ns(now_ns);
    }
}

/// The contexts of aged rules and indirect ages; the handle of those that have none. Returns how
/// many there are, and writes at most `contexts_len` of them.
///
/// # Safety
/// `nic` is open, and `contexts` points to `contexts_len` places, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_aged(
    nic: *const Device,
    contexts: *mut u64,
    contexts_len: usize,
) -> usize {
    // SAFETY: as the caller vouches.
    unsafe {
        let Ok(device) = device(nic) else { return 0 };
        let aged = lock(&device.control).aged();
        let written = if contexts.is_null() { 0 } else { aged.len().min(contexts_len) };
        std::ptr::copy_nonoverlapping(aged.as_ptr(), contexts, written);
        aged.len()
    }
}

/// Writes a line about a rule, or about all rules if `handle` is 0.
///
/// # Safety
/// `nic` is open, `write` may be called with `context`, and `error` is valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_dump(
    nic: *const Device,
    handle: u64,
    write: niclab_write,
    context: *mut c_void,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let dump = || {
            let mut control = lock(&device(nic)?.control);
            let one = if handle == 0 { None } else { Some(control.rule_of(handle)?) };
            let text = control.dump(one)?;
            drop(control);
            write(context, text.as_ptr().cast::<c_char>(), text.len());
            Ok(())
        };
        finish(dump(), error)
    }
}

/// An action that is to be indirect, and the program's word for its age.
///
/// # Safety
/// `action` is null or valid.
unsafe fn one_action(action: *const niclab_action) -> Result<(Action, Option<u64>), Failure> {
    // SAFETY: as the caller vouches.
    let read = unsafe {
        let one = given(action, "action")?;
        let mut read = GivenActions::default();
        read::actions(std::slice::from_ref(one), &mut read)?;
        read
    };
    match read.list.first() {
        Some(action) if read.indirect.is_empty() => Ok((action.clone(), read.age_context)),
        _ => Err(Failure::of_action(libc::EINVAL, 0, "an indirect action of another one")),
    }
}

/// Creates an indirect action, which several rules may have: age, count or rss.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_action_create(
    nic: *const Device,
    action: *const niclab_action,
    handle: *mut u64,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        call(nic, error, |control| {
            let (action, age_context) = one_action(action)?;
            if handle.is_null() {
                return Err(super::null("handle"));
            }
            put(handle, control.create_indirect(action, age_context)?, "handle")
        })
    }
}

/// Changes an indirect action, and at the same instant all rules that have it.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_action_update(
    nic: *const Device,
    handle: u64,
    action: *const niclab_action,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        call(nic, error, |control| {
            let (action, _) = one_action(action)?;
            control.update_indirect(handle, action)
        })
    }
}

/// Destroys an indirect action that no rule has.
///
/// # Safety
/// `nic` is open, and `error` is valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_action_destroy(
    nic: *const Device,
    handle: u64,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe { call(nic, error, |control| control.destroy_indirect(handle)) }
}

/// Reads the counts of all rules with an indirect counter since the last reset.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_action_counts(
    nic: *const Device,
    handle: u64,
    reset: i32,
    counts: *mut niclab_counts,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        call(nic, error, |control| {
            let counted = control.indirect_counts(handle, reset != 0)?;
            put(counts, counts_for_c(counted), "counts")
        })
    }
}

/// The age of an indirect age: of the rule that was hit last. All zeros while no rule has it.
///
/// # Safety
/// `nic` is open, and the pointers are valid, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn niclab_action_age(
    nic: *const Device,
    handle: u64,
    age: *mut niclab_age,
    error: *mut niclab_error,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        call(nic, error, |control| {
            let found = control.indirect_age(handle)?;
            put(age, found.map_or_else(niclab_age::default, age_for_c), "age")
        })
    }
}
