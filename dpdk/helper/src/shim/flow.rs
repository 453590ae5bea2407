//! Rules of a port: `rte_flow`, by the shim's functions.

use std::ffi::{c_char, c_int};
use std::fmt;
use std::mem::{MaybeUninit, size_of};
use std::ptr::NonNull;
use std::sync::Arc;

use niclab_nic::rule::item::{IMAGE_LEN, Image};

use super::{Port, text};

/// `struct nl_item`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawItem {
    /// One of `enum nl_item_kind`.
    kind: u32,
    has_last: u32,
    spec: Image,
    last: Image,
    mask: Image,
}

impl RawItem {
    /// An item with these images.
    pub fn new(kind: ItemKind, spec: Image, last: Option<Image>, mask: Image) -> RawItem {
        let has_last = u32::from(last.is_some());
        RawItem { kind: kind as u32, has_last, spec, last: last.unwrap_or([0; IMAGE_LEN]), mask }
    }
}

/// `enum nl_item_kind`, in its order.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    Eth,
    Vlan,
    Ipv4,
    Ipv6,
    Icmp,
    Icmp6,
    Tcp,
    Udp,
    Gre,
    GreKey,
    Vxlan,
    Geneve,
    Mpls,
    Meta,
    Tag,
    Raw,
    Nvgre,
    Sctp,
    Esp,
    Ah,
    ArpEthIpv4,
    Ipv6FragExt,
    Pppoed,
    Pppoes,
    VxlanGpe,
    Gtp,
    Gtpc,
    Gtpu,
    GtpPsc,
}

/// `enum nl_action_kind`, in its order.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionKind {
    Age,
    Count,
    DecTtl,
    Drop,
    Flag,
    Jump,
    MacSwap,
    Mark,
    Meter,
    NvgreDecap,
    NvgreEncap,
    OfPopVlan,
    OfPushVlan,
    OfSetVlanPcp,
    OfSetVlanVid,
    Port,
    Queue,
    RawDecap,
    RawEncap,
    Rss,
    SetIpv4Dscp,
    SetIpv4Dst,
    SetIpv4Src,
    SetIpv6Dscp,
    SetIpv6Dst,
    SetIpv6Src,
    SetMacDst,
    SetMacSrc,
    SetMeta,
    SetTag,
    SetTpDst,
    SetTpSrc,
    SetTtl,
    VxlanDecap,
    VxlanEncap,
}

/// An action, as `struct nl_action` has it.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowAction<'a> {
    /// Its kind.
    pub kind: ActionKind,
    /// Its numbers; which, says `flow.h`.
    pub numbers: [u32; 3],
    /// An address, the bytes of `raw_encap`, or the key of `rss`.
    pub bytes: Vec<u8>,
    /// Of `rss`.
    pub queues: &'a [u16],
    /// Of `vxlan_encap` and `nvgre_encap`, outermost first.
    pub headers: Vec<RawItem>,
}

impl PartialEq for RawItem {
    fn eq(&self, other: &RawItem) -> bool {
        (self.kind, self.has_last) == (other.kind, other.has_last)
            && (self.spec, self.last, self.mask) == (other.spec, other.last, other.mask)
    }
}

impl fmt::Debug for RawItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawItem").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// `struct nl_action`.
#[repr(C)]
struct RawAction {
    kind: u32,
    numbers: [u32; 3],
    bytes: *const u8,
    queues: *const u16,
    headers: *const RawItem,
    bytes_len: u16,
    queues_count: u16,
    headers_count: u16,
}

/// `struct nl_flow_error`.
#[repr(C)]
pub(super) struct RawFlowError {
    number: c_int,
    kind: u32,
    has_cause: u32,
    message: [c_char; 128],
}

/// `struct nl_rule`.
#[repr(C)]
struct RawRule {
    _opaque: [u8; 0],
}

/// `struct rte_flow`.
#[repr(C)]
struct RteFlow {
    _opaque: [u8; 0],
}

/// `struct nl_table`.
#[repr(C)]
struct RawTable {
    _opaque: [u8; 0],
}

const _: () = assert!(size_of::<RawItem>() == 152);
const _: () = assert!(size_of::<RawAction>() == 48);
const _: () = assert!(size_of::<RawFlowError>() == 140);
const _: () = assert!(ItemKind::GtpPsc as u32 == 28 && ActionKind::VxlanEncap as u32 == 34);

unsafe extern "C" {
    fn nl_rule_new(
        group: u32,
        priority: u32,
        items: *const RawItem,
        items_count: u16,
        actions: *const RawAction,
        actions_count: u16,
    ) -> *mut RawRule;
    fn nl_rule_free(rule: *mut RawRule);
    fn nl_flow_create(port: u16, rule: *const RawRule, error: *mut RawFlowError) -> *mut RteFlow;
    fn nl_flow_validate(port: u16, rule: *const RawRule, error: *mut RawFlowError) -> c_int;
    fn nl_flow_destroy(port: u16, flow: *mut RteFlow, error: *mut RawFlowError) -> c_int;
    fn nl_flow_flush(port: u16, error: *mut RawFlowError) -> c_int;
    fn nl_flow_count(
        port: u16,
        flow: *mut RteFlow,
        frames: *mut u64,
        bytes: *mut u64,
        error: *mut RawFlowError,
    ) -> c_int;
    fn nl_flow_update(
        port: u16,
        flow: *mut RteFlow,
        rule: *const RawRule,
        error: *mut RawFlowError,
    ) -> c_int;
    fn nl_flow_has_update() -> bool;
    fn nl_flow_queues_max(
        port: u16,
        queues: *mut u32,
        size: *mut u32,
        error: *mut RawFlowError,
    ) -> c_int;
    fn nl_table_new(
        port: u16,
        rule: *const RawRule,
        rules_max: u32,
        error: *mut RawFlowError,
    ) -> *mut RawTable;
    fn nl_table_free(port: u16, table: *mut RawTable);
    fn nl_async_create(
        port: u16,
        queue: u32,
        table: *const RawTable,
        rule: *const RawRule,
        user: u64,
        error: *mut RawFlowError,
    ) -> *mut RteFlow;
    fn nl_async_destroy(
        port: u16,
        queue: u32,
        flow: *mut RteFlow,
        user: u64,
        error: *mut RawFlowError,
    ) -> c_int;
    fn nl_async_push(port: u16, queue: u32, error: *mut RawFlowError) -> c_int;
    fn nl_async_pull(
        port: u16,
        queue: u32,
        users: *mut u64,
        done: *mut bool,
        count: u16,
        error: *mut RawFlowError,
    ) -> c_int;
}

/// What a driver says against a call (`struct rte_flow_error`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRefusal {
    /// The errno.
    pub number: i32,
    /// Which part of the rule it is about (`enum rte_flow_error_type`).
    pub kind: u32,
    /// The driver named the very item or action.
    pub has_cause: bool,
    /// In the driver's words; empty where it has none.
    pub message: String,
}

/// The parts of a rule by `enum rte_flow_error_type`, as testpmd calls them.
const KINDS: [&str; 18] = [
    "no error",
    "cause unspecified",
    "flow rule (handle)",
    "group field",
    "priority field",
    "ingress field",
    "egress field",
    "transfer field",
    "attributes structure",
    "pattern length",
    "item specification",
    "item specification range",
    "item specification mask",
    "specific pattern item",
    "number of actions",
    "action configuration",
    "specific action",
    "current device state",
];

/// In the driver's own words, behind the part of the rule that it is about.
impl fmt::Display for FlowRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = KINDS.get(self.kind as usize).copied().unwrap_or("unknown part");
        if self.kind > 1 {
            write!(f, "{kind}: ")?;
        }
        let errno = std::io::Error::from_raw_os_error(self.number);
        match self.message.as_str() {
            "" => write!(f, "{errno}"),
            message => write!(f, "{message} ({errno})"),
        }
    }
}

/// The error of a call, filled by the shim where the call fails.
pub(super) struct FlowErrorCell(MaybeUninit<RawFlowError>);

impl FlowErrorCell {
    pub(super) fn new() -> FlowErrorCell {
        FlowErrorCell(MaybeUninit::zeroed())
    }

    pub(super) fn at(&mut self) -> *mut RawFlowError {
        self.0.as_mut_ptr()
    }

    pub(super) fn refusal(self) -> FlowRefusal {
        // SAFETY: zeros are a value of the structure, and the shim writes only whole fields.
        let raw = unsafe { self.0.assume_init() };
        FlowRefusal {
            number: -raw.number,
            kind: raw.kind,
            has_cause: raw.has_cause != 0,
            message: text(&raw.message),
        }
    }

    fn check(self, result: c_int) -> Result<u32, FlowRefusal> {
        u32::try_from(result).map_err(|_| self.refusal())
    }
}

/// A rule whose arguments are ready: DPDK's structures.
#[derive(Debug)]
pub struct FlowRule {
    raw: NonNull<RawRule>,
    /// What a template of it must have in common with it: everything but values.
    shape: Box<[u8]>,
}

// SAFETY: the structures are written once, in `new`, and only read afterwards.
unsafe impl Send for FlowRule {}
// SAFETY: as above.
unsafe impl Sync for FlowRule {}

impl FlowRule {
    /// Makes the arguments of an ingress rule. `None` where there is no memory for them, or a rule
    /// or an action has more than 65,535 parts.
    pub fn new(
        (group, priority): (u32, u32),
        items: &[RawItem],
        actions: &[FlowAction<'_>],
    ) -> Option<FlowRule> {
        let short = |len: usize| u16::try_from(len).ok();
        let raw = actions.iter().map(|action| {
            Some(RawAction {
                kind: action.kind as u32,
                numbers: action.numbers,
                bytes: action.bytes.as_ptr(),
                queues: action.queues.as_ptr(),
                headers: action.headers.as_ptr(),
                bytes_len: short(action.bytes.len())?,
                queues_count: short(action.queues.len())?,
                headers_count: short(action.headers.len())?,
            })
        });
        let raw = raw.collect::<Option<Vec<RawAction>>>()?;
        let (items_count, actions_count) = (short(items.len())?, short(raw.len())?);
        // SAFETY: all arrays have the lengths that go with them; the shim copies what it reads, and
        // kinds are those of its enums.
        let rule = unsafe {
            let (items, actions) = (items.as_ptr(), raw.as_ptr());
            nl_rule_new(group, priority, items, items_count, actions, actions_count)
        };
        let shape = shape((group, priority), items, actions);
        NonNull::new(rule).map(|raw| FlowRule { raw, shape })
    }

    fn raw(&self) -> *const RawRule {
        self.raw.as_ptr()
    }
}

/// Place, items with their masks, and kinds of actions.
fn shape(
    (group, priority): (u32, u32),
    items: &[RawItem],
    actions: &[FlowAction<'_>],
) -> Box<[u8]> {
    let place = [group, priority, items.len() as u32].into_iter().flat_map(u32::to_ne_bytes);
    let items = items
        .iter()
        .flat_map(|item| [item.kind as u8, item.has_last as u8].into_iter().chain(item.mask));
    place.chain(items).chain(actions.iter().map(|action| action.kind as u8)).collect()
}

impl Drop for FlowRule {
    fn drop(&mut self) {
        // SAFETY: it is ours; drivers copy what they keep of a rule.
        unsafe { nl_rule_free(self.raw.as_ptr()) }
    }
}

/// Names a rule among the [`Flows`] that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    slot: u32,
    /// Of the slot: a slot that is used again has another.
    turn: u32,
}

/// A rule that a template table of the [`Flows`] that made it fits.
#[derive(Debug)]
pub struct TemplatedRule {
    table: usize,
    rule: FlowRule,
}

/// A template table, and what its rules have in common.
struct FlowTable {
    raw: NonNull<RawTable>,
    shape: Box<[u8]>,
    rules_max: u32,
}

/// A place for a rule's handle.
struct Slot {
    flow: Option<NonNull<RteFlow>>,
    turn: u32,
}

/// The rules of a port that one thread has made; they are gone when this is dropped.
///
/// A handle of DPDK is valid until its rule is destroyed or the port is stopped. So handles stay in
/// here, behind [`FlowId`]s, and the port is neither started nor stopped while this exists
/// ([`Port::start`] refuses).
pub struct Flows {
    port: u16,
    slots: Vec<Slot>,
    free: Vec<u32>,
    tables: Vec<FlowTable>,
    /// Rules that were put into a queue: DPDK asks for their arguments until the results are there.
    put: Vec<FlowRule>,
    /// Operations whose results are not there.
    under_way: usize,
    /// Of all that have rules of the port: one more than there are.
    all: Arc<()>,
    _port: Arc<()>,
}

// SAFETY: DPDK serializes rule calls of drivers that are not thread-safe, and `&mut self` does for
// the operation queues.
unsafe impl Send for Flows {}

impl Port {
    /// The rules of the port, of which there are none yet. It is started.
    pub fn flows(&self) -> Flows {
        Flows {
            port: self.id,
            slots: Vec::new(),
            free: Vec::new(),
            tables: Vec::new(),
            put: Vec::new(),
            under_way: 0,
            all: Arc::clone(&self.flows),
            _port: Arc::clone(&self.queues),
        }
    }

    /// Operation queues that its driver has, and operations that each holds.
    pub fn operation_queues_max(&self) -> Result<(u32, u32), FlowRefusal> {
        let (mut queues, mut size, mut error) = (0, 0, FlowErrorCell::new());
        // SAFETY: the port exists as long as the process; all three places are writable.
        let result =
            unsafe { nl_flow_queues_max(self.id, &raw mut queues, &raw mut size, error.at()) };
        error.check(result).map(|_| (queues, size))
    }
}

/// Whether this DPDK can give a rule other actions in place (`rte_flow_actions_update`, 23.07).
pub fn has_update() -> bool {
    // SAFETY: looks a symbol up.
    unsafe { nl_flow_has_update() }
}

impl Flows {
    /// Room for so many rules more, so that no call waits for memory.
    pub fn reserve(&mut self, count: usize) {
        self.slots.reserve(count);
        self.free.reserve(count);
    }

    /// Creates a rule.
    #[inline]
    pub fn create(&mut self, rule: &FlowRule) -> Result<FlowId, FlowRefusal> {
        let mut error = FlowErrorCell::new();
        // SAFETY: the port is started, see `Flows`; the rule is whole.
        let flow = unsafe { nl_flow_create(self.port, rule.raw(), error.at()) };
        self.keep(flow, error)
    }

    /// Whether the port would take a rule.
    pub fn validate(&mut self, rule: &FlowRule) -> Result<(), FlowRefusal> {
        let mut error = FlowErrorCell::new();
        // SAFETY: as in `create`.
        let result = unsafe { nl_flow_validate(self.port, rule.raw(), error.at()) };
        error.check(result).map(drop)
    }

    /// Destroys a rule.
    #[inline]
    pub fn destroy(&mut self, id: FlowId) -> Result<(), FlowRefusal> {
        let (flow, mut error) = (self.flow(id)?, FlowErrorCell::new());
        // SAFETY: the handle is valid, see `Flows`.
        let result = unsafe { nl_flow_destroy(self.port, flow.as_ptr(), error.at()) };
        error.check(result)?;
        self.forget(id);
        Ok(())
    }

    /// Gives a rule the actions of another, by a call of its own where this DPDK has it
    /// ([`has_update`]).
    #[inline]
    pub fn update(&mut self, id: FlowId, rule: &FlowRule) -> Result<(), FlowRefusal> {
        let (flow, mut error) = (self.flow(id)?, FlowErrorCell::new());
        // SAFETY: as in `destroy`.
        let result = unsafe { nl_flow_update(self.port, flow.as_ptr(), rule.raw(), error.at()) };
        error.check(result).map(drop)
    }

    /// Frames and bytes that a rule has counted.
    pub fn count(&mut self, id: FlowId) -> Result<(u64, u64), FlowRefusal> {
        let (mut frames, mut bytes) = (0, 0);
        let (flow, mut error) = (self.flow(id)?.as_ptr(), FlowErrorCell::new());
        // SAFETY: as in `destroy`; both places are writable.
        let result =
            unsafe { nl_flow_count(self.port, flow, &raw mut frames, &raw mut bytes, error.at()) };
        error.check(result).map(|_| (frames, bytes))
    }

    /// Makes a template table for at most `rules_max` rules that differ from this one in values
    /// alone, unless there is one.
    pub fn make_table(&mut self, rule: &FlowRule, rules_max: u32) -> Result<(), FlowRefusal> {
        let fits = |table: &FlowTable| table.shape == rule.shape && table.rules_max >= rules_max;
        if self.tables.iter().any(fits) {
            return Ok(());
        }
        let mut error = FlowErrorCell::new();
        // SAFETY: as in `create`.
        let raw = unsafe { nl_table_new(self.port, rule.raw(), rules_max, error.at()) };
        let raw = NonNull::new(raw).ok_or_else(|| error.refusal())?;
        self.tables.push(FlowTable { raw, shape: rule.shape.clone(), rules_max });
        Ok(())
    }

    /// The rule, with its template table; `None` where no table fits it. Gives back what earlier
    /// rules needed.
    pub fn templated(&mut self, rule: FlowRule) -> Option<TemplatedRule> {
        if self.under_way == 0 {
            self.put.clear();
        }
        // The newest is the largest: a smaller one made no other.
        let table = self.tables.iter().rposition(|table| table.shape == rule.shape)?;
        Some(TemplatedRule { table, rule })
    }

    /// Puts the creation of a rule into an operation queue; `user` comes back with its result.
    #[inline]
    pub fn put_create(
        &mut self,
        queue: u32,
        rule: TemplatedRule,
        user: u64,
    ) -> Result<FlowId, FlowRefusal> {
        let TemplatedRule { table, rule } = rule;
        let (table, mut error) = (self.tables[table].raw.as_ptr(), FlowErrorCell::new());
        // SAFETY: as in `create`; the table lives as long as `self`, and its template has the
        // rule's items and actions (`templated`). `put` keeps the arguments until the result is
        // there.
        let flow =
            unsafe { nl_async_create(self.port, queue, table, rule.raw(), user, error.at()) };
        let id = self.keep(flow, error)?;
        self.put.push(rule);
        self.under_way += 1;
        Ok(id)
    }

    /// Puts the end of a rule into an operation queue. Its name is void.
    #[inline]
    pub fn put_destroy(&mut self, queue: u32, id: FlowId, user: u64) -> Result<(), FlowRefusal> {
        let (flow, mut error) = (self.flow(id)?, FlowErrorCell::new());
        // SAFETY: as in `destroy`.
        let result = unsafe { nl_async_destroy(self.port, queue, flow.as_ptr(), user, error.at()) };
        error.check(result)?;
        self.forget(id);
        self.under_way += 1;
        Ok(())
    }

    /// Hands what was put to the port.
    #[inline]
    pub fn push(&mut self, queue: u32) -> Result<(), FlowRefusal> {
        let mut error = FlowErrorCell::new();
        // SAFETY: the port is started.
        let result = unsafe { nl_async_push(self.port, queue, error.at()) };
        error.check(result).map(drop)
    }

    /// Results that are there: the number that the caller gave, and whether it was done.
    #[inline]
    pub fn pull(
        &mut self,
        queue: u32,
        mut result: impl FnMut(u64, bool),
    ) -> Result<usize, FlowRefusal> {
        let (mut users, mut done, mut error) = ([0; 64], [false; 64], FlowErrorCell::new());
        let (to_users, to_done) = (users.as_mut_ptr(), done.as_mut_ptr());
        // SAFETY: both arrays have room for as many as the shim may write.
        let found = unsafe { nl_async_pull(self.port, queue, to_users, to_done, 64, error.at()) };
        let found = error.check(found)? as usize;
        users.iter().zip(done).take(found).for_each(|(user, done)| result(*user, done));
        self.under_way = self.under_way.saturating_sub(found);
        Ok(found)
    }

    /// A rule that was put and did not come about: its name is void.
    pub fn forget(&mut self, id: FlowId) {
        if let Some(slot) = self.slots.get_mut(id.slot as usize).filter(|s| s.turn == id.turn) {
            slot.flow = None;
            slot.turn = slot.turn.wrapping_add(1);
            self.free.push(id.slot);
        }
    }

    /// Rules that there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn keep(&mut self, flow: *mut RteFlow, error: FlowErrorCell) -> Result<FlowId, FlowRefusal> {
        let flow = NonNull::new(flow).ok_or_else(|| error.refusal())?;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { flow: None, turn: 0 });
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        place.flow = Some(flow);
        Ok(FlowId { slot, turn: place.turn })
    }

    fn flow(&self, id: FlowId) -> Result<NonNull<RteFlow>, FlowRefusal> {
        let slot = self.slots.get(id.slot as usize).filter(|slot| slot.turn == id.turn);
        slot.and_then(|slot| slot.flow).ok_or_else(|| FlowRefusal {
            number: rustix::io::Errno::NOENT.raw_os_error(),
            kind: 2,
            has_cause: false,
            message: "niclab has no such rule".into(),
        })
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        let is_last = Arc::strong_count(&self.all) == 2;
        if is_last && self.len() > 0 {
            // SAFETY: the port is started; nobody else has a handle of it.
            let _ = unsafe { nl_flow_flush(self.port, FlowErrorCell::new().at()) };
        } else {
            for flow in self.slots.iter_mut().filter_map(|slot| slot.flow.take()) {
                let mut error = FlowErrorCell::new();
                // SAFETY: the handle is valid, and taken out of its slot.
                let _ = unsafe { nl_flow_destroy(self.port, flow.as_ptr(), error.at()) };
            }
        }
        for table in self.tables.drain(..) {
            // SAFETY: it is ours, and its rules are gone.
            unsafe { nl_table_free(self.port, table.raw.as_ptr()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_in_the_drivers_words_behind_the_part_that_it_is_about() {
        let refusal = |number, kind, message: &str| {
            FlowRefusal { number, kind, has_cause: true, message: message.into() }.to_string()
        };
        assert_eq!(
            refusal(95, 13, "not supported"),
            "specific pattern item: not supported (Operation not supported (os error 95))"
        );
        assert_eq!(refusal(28, 1, ""), "No space left on device (os error 28)");
    }
}
