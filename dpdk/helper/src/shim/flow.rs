//! Rules of a port: `rte_flow`, by the shim's functions.

use std::ffi::{c_char, c_int};
use std::fmt;
use std::mem::{MaybeUninit, size_of};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use niclab_nic::rule::item::{IMAGE_LEN, Image};
use rustix::io::Errno;

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
    fn nl_flow_aged(
        port: u16,
        flows: *mut *mut RteFlow,
        count: u32,
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

/// How long an operation queue may take for its results.
pub const PULL_TIMEOUT: Duration = Duration::from_secs(5);

/// Names a rule among the [`Flows`] that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    slot: u32,
    /// Of the slot: a slot that is used again has another.
    generation: u32,
}

/// A rule that a template table of the [`Flows`] that made it fits.
#[derive(Debug)]
pub struct TemplatedRule {
    /// [`Flows::number`].
    owner: u64,
    table: usize,
    rule: FlowRule,
}

/// A template table, and what its rules have in common.
struct FlowTable {
    raw: NonNull<RawTable>,
    shape: Box<[u8]>,
    rules_max: u32,
}

/// How a rule came about. It has to go in the same way: drivers keep the two apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// By a call of its own.
    Call,
    /// Through the operation queue of its [`Flows`].
    Queue,
}

/// Aged rules that are asked for at a time.
const AGED_MAX: usize = 64;

/// A place for a rule's handle.
struct Slot {
    flow: Option<NonNull<RteFlow>>,
    generation: u32,
    origin: Origin,
}

/// What all [`Flows`] of a port share.
#[derive(Default)]
pub(super) struct PortFlows(Mutex<SharedFlows>);

#[derive(Default)]
struct SharedFlows {
    /// How many [`Flows`] there are.
    owners: usize,
    /// How many there have been.
    made: u64,
    /// Nobody knows whether a rule is still there: a queue gave no result.
    is_uncertain: bool,
    /// By operation queue: whether somebody has it.
    taken: Vec<bool>,
    /// Operations that each holds.
    queue_size: u32,
}

impl PortFlows {
    /// The port was set up with so many operation queues of this size.
    pub(super) fn started(&self, queues: u16, queue_size: u32) {
        let mut shared = self.lock();
        // Nobody has one: `Port::start` refuses while there are `Flows`.
        shared.taken = vec![false; queues.into()];
        shared.queue_size = queue_size;
        shared.is_uncertain = false;
    }

    fn lock(&self) -> MutexGuard<'_, SharedFlows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rules of a port that one thread has made; they are gone when this is dropped.
///
/// A handle of DPDK is valid until its rule is destroyed or the port is stopped. So handles stay in
/// here, behind [`FlowId`]s, and the port is neither started nor stopped while this exists
/// ([`Port::start`] refuses).
pub struct Flows {
    port: u16,
    /// No two of a port have the same.
    number: u64,
    slots: Vec<Slot>,
    free: Vec<u32>,
    tables: Vec<FlowTable>,
    /// The operation queue, which no other `Flows` has meanwhile.
    queue: Option<u32>,
    /// The number of the next operation.
    next_user: u64,
    /// Rules that were put into a queue: DPDK asks for their arguments until the results are there.
    put: Vec<FlowRule>,
    /// Operations whose results are not there.
    under_way: usize,
    shared: Arc<PortFlows>,
    _port: Arc<()>,
}

// SAFETY: DPDK serializes rule calls of drivers that are not thread-safe. An operation queue is of
// one `Flows` at a time, and `&mut self` is of one thread.
unsafe impl Send for Flows {}

impl Port {
    /// The rules of the port, of which there are none yet. It is started.
    pub fn flows(&self) -> Flows {
        let mut shared = self.flows.lock();
        shared.owners += 1;
        shared.made += 1;
        Flows {
            port: self.id,
            number: shared.made,
            slots: Vec::new(),
            free: Vec::new(),
            tables: Vec::new(),
            queue: None,
            next_user: 0,
            put: Vec::new(),
            under_way: 0,
            shared: Arc::clone(&self.flows),
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

impl FlowRefusal {
    /// What niclab itself says against a call, with DPDK's number of the part that it is about.
    fn own(errno: Errno, kind: u32, message: &str) -> FlowRefusal {
        let number = errno.raw_os_error();
        FlowRefusal { number, kind, has_cause: false, message: message.into() }
    }
}

impl Flows {
    /// Room for so many rules more, so that no call waits for memory.
    pub fn reserve(&mut self, count: usize) {
        self.slots.reserve(count);
        self.free.reserve(count);
    }

    /// Has an operation queue of the port from now on; it is free again when this is dropped.
    ///
    /// # Errors
    /// Where all are taken.
    pub fn take_queue(&mut self) -> Result<(), FlowRefusal> {
        if self.queue.is_some() {
            return Ok(());
        }
        let mut shared = self.shared.lock();
        let free = shared.taken.iter().position(|taken| !taken);
        let free = free.ok_or_else(|| {
            let (there, message) = (shared.taken.len(), "operation queues, and none is free");
            FlowRefusal::own(Errno::BUSY, 1, &format!("the port has {there} {message}"))
        })?;
        shared.taken[free] = true;
        self.queue = u32::try_from(free).ok();
        Ok(())
    }

    /// Operations that the queue holds.
    pub fn queue_size(&self) -> usize {
        self.shared.lock().queue_size as usize
    }

    fn queue(&self) -> Result<u32, FlowRefusal> {
        let none = || FlowRefusal::own(Errno::INVAL, 1, "no operation queue was taken");
        self.queue.ok_or_else(none)
    }

    /// A number for the next operation in the queue; no two of one `Flows` have the same, so that a
    /// late result is not taken for another.
    pub fn next_user(&mut self) -> u64 {
        self.next_user += 1;
        self.next_user
    }

    /// How a rule came about; `None` of one that is gone.
    pub fn origin(&self, id: FlowId) -> Option<Origin> {
        self.slot(id).map(|slot| slot.origin)
    }

    /// Creates a rule.
    #[inline]
    pub fn create(&mut self, rule: &FlowRule) -> Result<FlowId, FlowRefusal> {
        let mut error = FlowErrorCell::new();
        // SAFETY: the port is started, see `Flows`; the rule is whole.
        let flow = unsafe { nl_flow_create(self.port, rule.raw(), error.at()) };
        self.keep(flow, Origin::Call, error)
    }

    /// Whether the port would take a rule.
    pub fn validate(&mut self, rule: &FlowRule) -> Result<(), FlowRefusal> {
        let mut error = FlowErrorCell::new();
        // SAFETY: as in `create`.
        let result = unsafe { nl_flow_validate(self.port, rule.raw(), error.at()) };
        error.check(result).map(drop)
    }

    /// Destroys a rule, in the way in which it came.
    #[inline]
    pub fn destroy(&mut self, id: FlowId) -> Result<(), FlowRefusal> {
        if self.origin(id) == Some(Origin::Queue) {
            return self.destroy_by_queue(id);
        }
        let (flow, mut error) = (self.flow(id)?, FlowErrorCell::new());
        // SAFETY: the handle is valid, see `Flows`.
        let result = unsafe { nl_flow_destroy(self.port, flow.as_ptr(), error.at()) };
        error.check(result)?;
        self.forget(id);
        Ok(())
    }

    /// Destroys a rule through the queue and waits for the result.
    fn destroy_by_queue(&mut self, id: FlowId) -> Result<(), FlowRefusal> {
        let user = self.next_user();
        self.put_destroy(id, user)?;
        self.await_result(user)
    }

    /// Pushes the queue and waits for the result of one operation.
    fn await_result(&mut self, user: u64) -> Result<(), FlowRefusal> {
        self.push()?;
        let mut result = None;
        let begun = Instant::now();
        while result.is_none() && begun.elapsed() < PULL_TIMEOUT {
            self.pull(|of, is_done| result = result.or((of == user).then_some(is_done)))?;
        }
        let own = |errno, message| Err(FlowRefusal::own(errno, 2, message));
        match result {
            Some(true) => Ok(()),
            Some(false) => {
                self.mark_uncertain();
                own(Errno::IO, "the operation queue says that it was not done")
            }
            None => {
                self.mark_uncertain();
                own(Errno::TIMEDOUT, "the operation queue gave no result within 5 s")
            }
        }
    }

    /// Nobody knows any more which rules there are: all of the port go when the last of them who
    /// have some is dropped.
    pub fn mark_uncertain(&mut self) {
        self.shared.lock().is_uncertain = true;
    }

    /// Destroys a rule that came by a call of its own, and makes it again through the queue, under
    /// its old name.
    ///
    /// # Errors
    /// The refusal; the rule may be gone then.
    pub fn move_to_queue(&mut self, id: FlowId, rule: TemplatedRule) -> Result<(), FlowRefusal> {
        self.destroy_keeping_slot(id)?;
        let user = self.next_user();
        let made = self.put_create(rule, user)?;
        self.await_result(user)?;
        self.rename(made, id);
        Ok(())
    }

    /// Destroys a rule that came through the queue, and makes it again by a call of its own, under
    /// its old name.
    ///
    /// # Errors
    /// The refusal; the rule may be gone then.
    pub fn move_to_call(&mut self, id: FlowId, rule: &FlowRule) -> Result<(), FlowRefusal> {
        self.destroy_keeping_slot(id)?;
        let made = self.create(rule)?;
        self.rename(made, id);
        Ok(())
    }

    /// Destroys a rule and keeps its slot for another handle.
    fn destroy_keeping_slot(&mut self, id: FlowId) -> Result<(), FlowRefusal> {
        self.destroy(id)?;
        // `destroy` has voided the name and freed the slot, which was the last to be freed.
        if self.free.last() == Some(&id.slot) {
            self.free.pop();
        }
        Ok(())
    }

    /// Gives the rule that has just been made the name of the one that it stands for, whose slot is
    /// kept empty.
    fn rename(&mut self, made: FlowId, id: FlowId) {
        let Some(from) = self.slots.get_mut(made.slot as usize) else { return };
        let (flow, origin) = (from.flow.take(), from.origin);
        self.forget(made);
        self.slots[id.slot as usize] = Slot { flow, generation: id.generation, origin };
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

    /// Rules that have become aged since they were asked for, at most [`AGED_MAX`] of them.
    pub fn aged(&mut self) -> Result<Vec<FlowId>, FlowRefusal> {
        let (mut aged, mut error) = ([ptr::null_mut(); AGED_MAX], FlowErrorCell::new());
        // SAFETY: the port is started; the array has room for as many as the shim may write.
        let found =
            unsafe { nl_flow_aged(self.port, aged.as_mut_ptr(), AGED_MAX as u32, error.at()) };
        let found = (error.check(found)? as usize).min(AGED_MAX);
        let is_aged = |slot: &Slot| slot.flow.is_some_and(|f| aged[..found].contains(&f.as_ptr()));
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| is_aged(slot));
        Ok(slots
            .map(|(at, slot)| FlowId { slot: at as u32, generation: slot.generation })
            .collect())
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
        Some(TemplatedRule { owner: self.number, table, rule })
    }

    /// Puts the creation of a rule into the operation queue; `user` comes back with its result.
    #[inline]
    pub fn put_create(&mut self, rule: TemplatedRule, user: u64) -> Result<FlowId, FlowRefusal> {
        let TemplatedRule { owner, table, rule } = rule;
        let queue = self.queue()?;
        let table = self.tables.get(table).filter(|_| owner == self.number);
        let foreign = || {
            let message = "the rule is of a template table of others";
            FlowRefusal::own(Errno::INVAL, 2, message)
        };
        let table = table.ok_or_else(foreign)?.raw.as_ptr();
        let mut error = FlowErrorCell::new();
        // SAFETY: as in `create`; the table lives as long as `self`, which has the queue alone, and
        // its template has the rule's items and actions (`templated`). `put` keeps the arguments
        // until the result is there.
        let flow =
            unsafe { nl_async_create(self.port, queue, table, rule.raw(), user, error.at()) };
        let id = self.keep(flow, Origin::Queue, error)?;
        self.put.push(rule);
        self.under_way += 1;
        Ok(id)
    }

    /// Puts the end of a rule that came through the queue into it. Its name is void.
    #[inline]
    pub fn put_destroy(&mut self, id: FlowId, user: u64) -> Result<(), FlowRefusal> {
        let (queue, flow) = (self.queue()?, self.flow(id)?);
        if self.origin(id) == Some(Origin::Call) {
            let message = "the rule came by a call of its own, and goes by one";
            return Err(FlowRefusal::own(Errno::INVAL, 2, message));
        }
        let mut error = FlowErrorCell::new();
        // SAFETY: as in `destroy`; `self` has the queue alone.
        let result = unsafe { nl_async_destroy(self.port, queue, flow.as_ptr(), user, error.at()) };
        error.check(result)?;
        self.forget(id);
        self.under_way += 1;
        Ok(())
    }

    /// Hands what was put to the port.
    #[inline]
    pub fn push(&mut self) -> Result<(), FlowRefusal> {
        let (queue, mut error) = (self.queue()?, FlowErrorCell::new());
        // SAFETY: the port is started; `self` has the queue alone.
        let result = unsafe { nl_async_push(self.port, queue, error.at()) };
        error.check(result).map(drop)
    }

    /// Results that are there: the number that the caller gave, and whether it was done.
    #[inline]
    pub fn pull(&mut self, mut result: impl FnMut(u64, bool)) -> Result<usize, FlowRefusal> {
        let queue = self.queue()?;
        let (mut users, mut done, mut error) = ([0; 64], [false; 64], FlowErrorCell::new());
        let (to_users, to_done) = (users.as_mut_ptr(), done.as_mut_ptr());
        // SAFETY: both arrays have room for as many as the shim may write; `self` has the queue
        // alone.
        let found = unsafe { nl_async_pull(self.port, queue, to_users, to_done, 64, error.at()) };
        let found = error.check(found)? as usize;
        users.iter().zip(done).take(found).for_each(|(user, done)| result(*user, done));
        self.under_way = self.under_way.saturating_sub(found);
        Ok(found)
    }

    /// A rule that was put and did not come about: its name is void.
    pub fn forget(&mut self, id: FlowId) {
        if let Some(slot) =
            self.slots.get_mut(id.slot as usize).filter(|s| s.generation == id.generation)
        {
            slot.flow = None;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(id.slot);
        }
    }

    /// Rules that there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn keep(
        &mut self,
        flow: *mut RteFlow,
        origin: Origin,
        error: FlowErrorCell,
    ) -> Result<FlowId, FlowRefusal> {
        let flow = NonNull::new(flow).ok_or_else(|| error.refusal())?;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { flow: None, generation: 0, origin });
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        (place.flow, place.origin) = (Some(flow), origin);
        Ok(FlowId { slot, generation: place.generation })
    }

    fn slot(&self, id: FlowId) -> Option<&Slot> {
        self.slots
            .get(id.slot as usize)
            .filter(|slot| slot.generation == id.generation && slot.flow.is_some())
    }

    fn flow(&self, id: FlowId) -> Result<NonNull<RteFlow>, FlowRefusal> {
        let none = || FlowRefusal::own(Errno::NOENT, 2, "niclab has no such rule");
        self.slot(id).and_then(|slot| slot.flow).ok_or_else(none)
    }

    /// Destroys all rules one by one, each as it came. What is refused stays; a queue that gives no
    /// result ends it.
    fn destroy_all(&mut self) {
        for slot in 0..self.slots.len() {
            let generation = self.slots[slot].generation;
            let gone = self.destroy(FlowId { slot: slot as u32, generation });
            if gone.is_err_and(|refusal| refusal.number == Errno::TIMEDOUT.raw_os_error()) {
                return;
            }
        }
    }

    /// Waits for results that are still to come.
    fn await_results(&mut self) {
        let begun = Instant::now();
        while self.under_way > 0 && begun.elapsed() < PULL_TIMEOUT {
            if self.push().is_err() || self.pull(|_, _| ()).is_err() {
                return;
            }
        }
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.await_results();
        if self.under_way > 0 {
            self.mark_uncertain();
            // DPDK may still read the arguments.
            std::mem::forget(std::mem::take(&mut self.put));
        }
        let all = Arc::clone(&self.shared);
        let mut shared = all.lock();
        if shared.owners > 1 {
            drop(shared);
            self.destroy_all();
            shared = all.lock();
        }
        // As long as it is locked, nobody else begins to have rules (`Port::flows`).
        shared.owners -= 1;
        shared.is_uncertain |= self.len() > 0;
        if shared.owners == 0 && shared.is_uncertain {
            // SAFETY: the port is started; nobody has a handle of it any more.
            let result = unsafe { nl_flow_flush(self.port, FlowErrorCell::new().at()) };
            shared.is_uncertain &= result < 0;
        }
        if self.under_way > 0 {
            // The queue may still work on its tables; nobody has it until the port is set up again.
            self.tables.clear();
            return;
        }
        for table in self.tables.drain(..) {
            // SAFETY: it is ours, and nothing is under way on it. DPDK refuses to free one that has
            // rules.
            unsafe { nl_table_free(self.port, table.raw.as_ptr()) }
        }
        if let Some(taken) = self.queue.and_then(|queue| shared.taken.get_mut(queue as usize)) {
            *taken = false;
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
