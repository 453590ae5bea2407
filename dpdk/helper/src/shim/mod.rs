//! DPDK from Rust's side: the C shim's functions, and owners that keep its rules.
//!
//! The only module with unsafe code. The rules it keeps: a queue is used by one thread at a time (a
//! queue handle is not `Clone` and needs `&mut`); a frame belongs to one [`DpdkBurst`] until it is
//! sent or given back; pools, rings and ports live as long as the process: nobody frees them. The
//! rules of a port are in `flow`.
#![allow(unsafe_code)]

pub mod flow;

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::{MaybeUninit, size_of};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::{Arc, Mutex};

use niclab_device::rule_case::FrameMark;
use niclab_load::rings::BURST;

/// `struct rte_mbuf`.
#[repr(C)]
struct Mbuf {
    _opaque: [u8; 0],
}

/// `struct rte_mempool`.
#[repr(C)]
struct Mempool {
    _opaque: [u8; 0],
}

/// `struct rte_ring`.
#[repr(C)]
struct RteRing {
    _opaque: [u8; 0],
}

/// `struct nl_port_info`.
#[repr(C)]
struct RawPortInfo {
    name: [c_char; 64],
    driver: [c_char; 32],
    speed_mbps: u32,
    mtu_max: u32,
    rx_queues_max: u16,
    tx_queues_max: u16,
}

/// Counters of a port, all queues together (`struct nl_stats`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames received.
    pub rx_frames: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Frames that found no descriptor.
    pub rx_missed: u64,
    /// Frames received in error.
    pub rx_errors: u64,
    /// Frames that found no buffer.
    pub rx_no_buffer: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
}

/// How a port is set up (`struct nl_port_shape`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortShape {
    /// Receive queues; frames are spread over several of them by RSS.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
    /// Descriptors of each, as far as the port has them.
    pub slots: u16,
    /// Operation queues of rules; 0: none.
    pub flow_queues: u16,
    /// Operations that each of these holds.
    pub flow_queue_size: u32,
    /// Most rules at a time through them.
    pub rules_max: u32,
    /// The MTU, bytes.
    pub mtu: u32,
}

/// `struct nl_rss`.
#[repr(C)]
struct RawRss {
    types: u64,
    port_types: u64,
    key_len: u16,
    entries: u16,
    key: [u8; 128],
    table: [u16; 512],
}

/// `struct nl_xstat`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawXstat {
    name: [c_char; 64],
    value: u64,
}

/// How a port spreads frames over its queues, as it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRss {
    /// Hash types, in the bits of `niclab_nic::rss::HashTypes`.
    pub types: u32,
    /// The same in DPDK's bits, with those that niclab has no bits for; a port that is given 0 gets
    /// `types`.
    pub port_types: u64,
    /// The key.
    pub key: Vec<u8>,
    /// The table; empty where it is unknown.
    pub table: Vec<u16>,
}

const _: () = assert!(size_of::<PortShape>() == 20 && size_of::<RawRss>() == 1176);
const _: () = assert!(size_of::<RawXstat>() == 72);
const _: () = assert!(size_of::<RawPortInfo>() == 108);
const _: () = assert!(size_of::<Stats>() == 48);

unsafe extern "C" {
    fn nl_load(path: *const c_char) -> *const c_char;
    fn nl_init(argc: c_int, argv: *mut *mut c_char) -> c_int;
    fn nl_version() -> *const c_char;
    fn nl_attach(device: *const c_char) -> c_int;
    fn nl_thread_enter() -> c_int;
    fn nl_thread_leave();
    fn nl_ports(ports: *mut u16, max: u16) -> u16;
    fn nl_port_info(port: u16, info: *mut RawPortInfo) -> c_int;
    fn nl_ring(name: *const c_char, slots: u32) -> *mut RteRing;
    fn nl_ring_room(ring: *const RteRing) -> u32;
    fn nl_ring_port(name: *const c_char, rx: *mut RteRing, tx: *mut RteRing) -> c_int;
    fn nl_pool(name: *const c_char, frames: u32, data_len: u16) -> *mut Mempool;
    fn nl_port_configure(
        port: u16,
        pool: *mut Mempool,
        shape: *const PortShape,
        error: *mut flow::RawFlowError,
    ) -> c_int;
    fn nl_port_rss(port: u16, rss: *mut RawRss) -> c_int;
    fn nl_port_set_rss(port: u16, rss: *const RawRss) -> c_int;
    fn nl_port_firmware(port: u16, text: *mut c_char, len: u32) -> c_int;
    fn nl_port_xstats(port: u16, stats: *mut RawXstat, max: u32) -> c_int;
    fn nl_port_start(port: u16) -> c_int;
    fn nl_port_stop(port: u16) -> c_int;
    fn nl_port_link(port: u16) -> c_int;
    fn nl_port_stats(port: u16, stats: *mut Stats) -> c_int;
    fn nl_tx_full(port: u16, queue: u16, ahead: u16) -> c_int;
    fn nl_rx_burst(port: u16, queue: u16, frames: *mut *mut Mbuf, count: u16) -> u16;
    fn nl_tx_burst(port: u16, queue: u16, frames: *mut *mut Mbuf, count: u16) -> u16;
    fn nl_alloc(pool: *mut Mempool, frames: *mut *mut Mbuf, count: u16) -> c_int;
    fn nl_free(frames: *mut *mut Mbuf, count: u16);
    fn nl_data(frames: *mut *mut Mbuf, data: *mut *mut u8, lens: *mut u16, count: u16);
    fn nl_mark(frame: *const Mbuf, mark: *mut u32) -> c_int;
    fn nl_set_lens(frames: *mut *mut Mbuf, lens: *const u16, count: u16);
    fn nl_error(error: c_int) -> *const c_char;
    fn nl_last_error() -> c_int;
}

/// A refusal of DPDK, in its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl Refusal {
    fn of(what: &str, error: c_int) -> Refusal {
        // SAFETY: the text is a thread's own buffer of DPDK's, read before the next call.
        let text = unsafe { CStr::from_ptr(nl_error(error)) }.to_string_lossy().into_owned();
        Refusal(format!("{what}: {text}"))
    }

    /// Of the call that just gave NULL.
    fn last(what: &str) -> Refusal {
        // SAFETY: reads a variable of the calling thread.
        Refusal::of(what, unsafe { nl_last_error() })
    }
}

/// A negative errno as an error.
fn check(what: &str, result: c_int) -> Result<(), Refusal> {
    if result < 0 { Err(Refusal::of(what, result)) } else { Ok(()) }
}

/// DPDK, started. There is one for a process, and what it makes lives as long as the process.
pub struct Dpdk(());

/// Loads a driver, before DPDK starts. DPDK itself (`-d`) refuses a file below a directory that
/// everybody can write to, such as `/tmp`; this one lies beside the program.
pub fn load(driver: &Path) -> Result<(), Refusal> {
    let path = CString::new(driver.as_os_str().as_bytes());
    let path = path.map_err(|e| Refusal(format!("{}: {e}", driver.display())))?;
    // SAFETY: the path is a C string; the driver's constructors only enter it into DPDK's lists.
    let error = NonNull::new(unsafe { nl_load(path.as_ptr()) }.cast_mut());
    // SAFETY: an error is a C string of this thread.
    let text = |error: NonNull<c_char>| unsafe { CStr::from_ptr(error.as_ptr()) };
    error.map_or(Ok(()), |error| Err(Refusal(text(error).to_string_lossy().into_owned())))
}

impl Dpdk {
    /// Starts it; it pins the calling thread to its first core.
    pub fn start(arguments: &[String]) -> Result<Dpdk, Refusal> {
        let owned: Result<Vec<CString>, _> =
            arguments.iter().map(|argument| CString::new(argument.as_str())).collect();
        let owned = owned.map_err(|e| Refusal(format!("argument: {e}")))?;
        let mut argv: Vec<*mut c_char> = owned.into_iter().map(CString::into_raw).collect();
        let argc = argv.len() as c_int;
        argv.push(ptr::null_mut());
        // DPDK keeps pointers into its arguments and reorders the list: both are left to it.
        let argv = Box::leak(argv.into_boxed_slice());
        // SAFETY: `argv` is a list of `argc` C strings and a NULL, writable, never freed.
        let taken = unsafe { nl_init(argc, argv.as_mut_ptr()) };
        check("starting DPDK", taken)?;
        // DPDK moves what is no option of its own behind those that are.
        match argv.get(taken as usize + 1).filter(|left| !left.is_null()) {
            None => Ok(Dpdk(())),
            Some(&left) => {
                // SAFETY: DPDK reorders the list; each of its strings is as it was made.
                let left = unsafe { CStr::from_ptr(left) }.to_string_lossy();
                Err(Refusal(format!("DPDK has no argument `{left}`; leave it out")))
            }
        }
    }

    /// The version, such as `DPDK 22.11.11`.
    pub fn version(&self) -> String {
        // SAFETY: a static C string.
        unsafe { CStr::from_ptr(nl_version()) }.to_string_lossy().into_owned()
    }

    /// The ports that are there.
    pub fn ports(&self) -> Vec<Port> {
        let mut ids = [0; 32];
        // SAFETY: the shim writes at most as many as the length that it gets.
        let count = unsafe { nl_ports(ids.as_mut_ptr(), ids.len() as u16) };
        ids[..usize::from(count)].iter().map(|&id| Port::new(id)).collect()
    }

    /// Makes a port of a virtual device, such as `net_af_packet0,iface=tap0`.
    pub fn attach(&self, device: &str) -> Result<(), Refusal> {
        let text = CString::new(device).map_err(|e| Refusal(format!("{device}: {e}")))?;
        // SAFETY: DPDK is started; it copies the text.
        check(device, unsafe { nl_attach(text.as_ptr()) })
    }

    /// A ring of `slots` places.
    pub fn ring(&self, name: &CStr, slots: u32) -> Result<Ring, Refusal> {
        // SAFETY: DPDK is started, as `self` shows; it copies the name.
        let ring = NonNull::new(unsafe { nl_ring(name.as_ptr(), slots) });
        ring.map(Ring).ok_or_else(|| Refusal::last("making a ring"))
    }

    /// A port that receives from `rx` and sends into `tx`.
    pub fn ring_port(&self, name: &CStr, rx: &Ring, tx: &Ring) -> Result<Port, Refusal> {
        // SAFETY: rings are never freed; DPDK copies the name.
        let port = unsafe { nl_ring_port(name.as_ptr(), rx.0.as_ptr(), tx.0.as_ptr()) };
        u16::try_from(port).map(Port::new).map_err(|_| Refusal::last("making a port of rings"))
    }

    /// A pool of `frames` frames of `data_len` bytes.
    pub fn pool(&self, name: &CStr, frames: u32, data_len: u16) -> Result<Pool, Refusal> {
        // SAFETY: as in `ring`.
        let pool = NonNull::new(unsafe { nl_pool(name.as_ptr(), frames, data_len) });
        let pool = pool.ok_or_else(|| Refusal::last("making a pool of frames"))?;
        Ok(Pool { pool, data_len })
    }
}

/// A ring of frames between two ports.
#[derive(Clone, Copy, Debug)]
pub struct Ring(NonNull<RteRing>);

// SAFETY: only its counters are read here; DPDK reads and writes them atomically.
unsafe impl Send for Ring {}

impl Ring {
    /// Free places. The producer may rely on them: the consumer only makes more.
    #[inline]
    pub fn room(&self) -> usize {
        // SAFETY: rings are never freed.
        unsafe { nl_ring_room(self.0.as_ptr()) as usize }
    }
}

/// A pool of frames.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    pool: NonNull<Mempool>,
    data_len: u16,
}

// SAFETY: DPDK's pools serve any number of threads at once.
unsafe impl Send for Pool {}

/// What a port says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Its name, such as `0000:01:00.0`.
    pub name: String,
    /// Its driver, such as `net_mlx5`.
    pub driver: String,
    /// Speed of its link in Mbit/s; 0 where there is none.
    pub speed_mbps: u32,
    /// Greatest MTU.
    pub mtu_max: u32,
    /// Most queues, receive and transmit.
    pub queues_max: (u16, u16),
}

/// A port.
pub struct Port {
    id: u16,
    /// Held by the queues and rules, too, so that there is one of each at a time.
    queues: Arc<()>,
    /// What those who have rules of the port share.
    flows: Arc<flow::PortFlows>,
}

impl Port {
    fn new(id: u16) -> Port {
        Port { id, queues: Arc::new(()), flows: Arc::default() }
    }

    /// What it says about itself.
    pub fn info(&self) -> Result<PortInfo, Refusal> {
        let mut raw = MaybeUninit::<RawPortInfo>::uninit();
        // SAFETY: the shim fills the whole structure where it succeeds.
        let raw = unsafe {
            check("asking a port", nl_port_info(self.id, raw.as_mut_ptr()))?;
            raw.assume_init()
        };
        Ok(PortInfo {
            name: text(&raw.name),
            driver: text(&raw.driver),
            speed_mbps: raw.speed_mbps,
            mtu_max: raw.mtu_max,
            queues_max: (raw.rx_queues_max, raw.tx_queues_max),
        })
    }

    /// Sets the port up anew and starts it. The queues and rules of an earlier start must be gone.
    ///
    /// # Errors
    /// What DPDK or the driver says against it.
    ///
    /// # Panics
    /// If a queue or [`flow::Flows`] of the port still exist.
    pub fn start(
        &mut self,
        pool: &Pool,
        shape: &PortShape,
    ) -> Result<(Vec<RxQueue>, Vec<TxQueue>), Refusal> {
        assert_eq!(Arc::strong_count(&self.queues), 1, "the port's queues are in use");
        let mut error = flow::FlowErrorCell::new();
        // SAFETY: nobody uses the port's queues or rules, see above; the pool is never freed.
        let configured = unsafe {
            // A port that is not running yet has nothing to stop.
            nl_port_stop(self.id);
            nl_port_configure(self.id, pool.pool.as_ptr(), shape, error.at())
        };
        if configured < 0 {
            let refusal = error.refusal();
            let of_rules = (refusal.number != 0).then(|| format!("operation queues: {refusal}"));
            return Err(
                of_rules.map_or_else(|| Refusal::of("setting a port up", configured), Refusal)
            );
        }
        // SAFETY: it is set up, and nobody uses it.
        check("starting a port", unsafe { nl_port_start(self.id) })?;
        self.flows.started(shape.flow_queues, shape.flow_queue_size);
        let queues = || Arc::clone(&self.queues);
        let rx = (0..shape.rx_queues).map(|queue| RxQueue(self.id, queue, queues()));
        let tx = (0..shape.tx_queues).map(|queue| TxQueue(self.id, queue, queues()));
        Ok((rx.collect(), tx.collect()))
    }

    /// The port's number in DPDK.
    pub fn number(&self) -> u16 {
        self.id
    }

    /// How it spreads frames over its queues.
    pub fn rss(&self) -> Result<PortRss, Refusal> {
        let mut raw = MaybeUninit::<RawRss>::zeroed();
        // SAFETY: the port exists as long as the process; zeros are a value of the structure.
        let raw = unsafe {
            check("reading RSS", nl_port_rss(self.id, raw.as_mut_ptr()))?;
            raw.assume_init()
        };
        let (key, table) = (&raw.key[..raw.key_len.into()], &raw.table[..raw.entries.into()]);
        Ok(PortRss {
            types: raw.types as u32,
            port_types: raw.port_types,
            key: key.to_vec(),
            table: table.to_vec(),
        })
    }

    /// Sets how it spreads frames: key, types, and the table where there is one. It may be called
    /// beside the traffic.
    pub fn set_rss(&self, rss: &PortRss) -> Result<(), Refusal> {
        static CONTROL: Mutex<()> = Mutex::new(());
        let mut raw = RawRss {
            types: rss.types.into(),
            port_types: rss.port_types,
            key_len: rss.key.len().min(128) as u16,
            entries: rss.table.len().min(512) as u16,
            key: [0; 128],
            table: [0; 512],
        };
        raw.key.iter_mut().zip(&rss.key).for_each(|(to, from)| *to = *from);
        raw.table.iter_mut().zip(&rss.table).for_each(|(to, from)| *to = *from);
        // Drivers take one such call at a time.
        let _alone = CONTROL.lock();
        // SAFETY: the port exists as long as the process, the structure through the call.
        check("setting RSS", unsafe { nl_port_set_rss(self.id, &raw const raw) })
    }

    /// The version of its firmware; `None` where its driver does not tell.
    pub fn firmware(&self) -> Option<String> {
        let mut bytes = [0; 128];
        // SAFETY: the shim writes at most 128 bytes.
        let result = unsafe { nl_port_firmware(self.id, bytes.as_mut_ptr(), 128) };
        Some(text(&bytes)).filter(|text| result >= 0 && !text.is_empty())
    }

    /// The counters of its driver, by name.
    pub fn xstats(&self) -> Result<Vec<(String, u64)>, Refusal> {
        let mut raw = vec![RawXstat { name: [0; 64], value: 0 }; 1_024];
        // SAFETY: the shim writes at most so many.
        let count = unsafe { nl_port_xstats(self.id, raw.as_mut_ptr(), raw.len() as u32) };
        check("reading the driver's counters", count)?;
        raw.truncate(count as usize);
        Ok(raw.iter().map(|stat| (text(&stat.name), stat.value)).collect())
    }

    /// Whether it has a link.
    pub fn has_link(&self) -> bool {
        // SAFETY: the port exists as long as the process.
        unsafe { nl_port_link(self.id) == 1 }
    }

    /// Its counters now.
    pub fn stats(&self) -> Result<Stats, Refusal> {
        port_stats(self.id)
    }
}

fn port_stats(port: u16) -> Result<Stats, Refusal> {
    let mut stats = Stats::default();
    // SAFETY: the port exists as long as the process, the structure through the call.
    check("reading a port's counters", unsafe { nl_port_stats(port, &raw mut stats) })?;
    Ok(stats)
}

/// The text of a C array that ends with a zero.
fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|&b| b as u8).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A receive queue of a started port.
pub struct RxQueue(u16, u16, #[allow(dead_code)] Arc<()>);

impl RxQueue {
    /// The port's counters now; they may be read beside the traffic.
    pub fn stats(&self) -> Result<Stats, Refusal> {
        port_stats(self.0)
    }
}

/// A transmit queue of a started port.
pub struct TxQueue(u16, u16, #[allow(dead_code)] Arc<()>);

impl TxQueue {
    /// Whether a burst finds room, as far as the driver tells.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        // SAFETY: the port is started and this thread has its queue.
        unsafe { nl_tx_full(self.0, self.1, BURST as u16 - 1) == 0 }
    }
}

/// Up to [`BURST`] frames, given back when dropped.
pub struct DpdkBurst {
    frames: [*mut Mbuf; BURST],
    data: [*mut u8; BURST],
    lens: [u16; BURST],
    /// Bytes that each has room for, from `data` on.
    rooms: [u16; BURST],
    count: usize,
}

// SAFETY: the frames belong to this burst alone; DPDK does not bind them to a thread.
unsafe impl Send for DpdkBurst {}

impl DpdkBurst {
    /// No frames yet.
    pub fn new() -> DpdkBurst {
        let (frames, data) = ([ptr::null_mut(); BURST], [ptr::null_mut(); BURST]);
        DpdkBurst { frames, data, lens: [0; BURST], rooms: [0; BURST], count: 0 }
    }

    /// How many frames are in it.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Receives frames in the place of those in it; says how many.
    #[inline]
    pub fn receive(&mut self, queue: &mut RxQueue) -> usize {
        self.give_back();
        // SAFETY: the port is started and this thread has its queue; there is room for BURST.
        let count =
            unsafe { nl_rx_burst(queue.0, queue.1, self.frames.as_mut_ptr(), BURST as u16) };
        self.count = usize::from(count);
        self.find_data(0);
        // Nobody says how much room they have.
        self.rooms[..self.count].fill(0);
        self.count
    }

    /// Fills the burst up with fresh frames of a pool, all it lacks or none; says how many it has.
    #[inline]
    pub fn fill(&mut self, pool: &Pool) -> usize {
        let (from, lack) = (self.count, BURST - self.count);
        if lack > 0 {
            let to = self.frames[from..].as_mut_ptr();
            // SAFETY: `to` has room for `lack`; the pool is never freed.
            if unsafe { nl_alloc(pool.pool.as_ptr(), to, lack as u16) } == 0 {
                self.count = BURST;
                self.find_data(from);
                self.rooms[from..].fill(pool.data_len);
            }
        }
        self.count
    }

    /// Notes data and length of the frames from `from` on.
    #[inline]
    fn find_data(&mut self, from: usize) {
        let count = (self.count - from) as u16;
        let frames = self.frames[from..].as_mut_ptr();
        let (data, lens) = (self.data[from..].as_mut_ptr(), self.lens[from..].as_mut_ptr());
        // SAFETY: frames from..count are ours, and all three arrays are BURST long.
        unsafe { nl_data(frames, data, lens, count) }
    }

    /// Frame `i`.
    #[inline]
    pub fn frame(&self, i: usize) -> &[u8] {
        assert!(i < self.count, "frame {i} is not there");
        // SAFETY: DPDK says that the first segment of the frame has `lens[i]` bytes of data; the
        // frame is ours as long as `self` is borrowed.
        unsafe { slice::from_raw_parts(self.data[i], usize::from(self.lens[i])) }
    }

    /// The mark of frame `i`, where a rule set one.
    pub fn mark(&self, i: usize) -> FrameMark {
        assert!(i < self.count, "frame {i} is not there");
        let mut number = 0;
        // SAFETY: the frame is ours as long as `self` is borrowed; the place is writable.
        match unsafe { nl_mark(self.frames[i], &raw mut number) } {
            0 => FrameMark::None,
            1 => FrameMark::Flagged,
            _ => FrameMark::Id(number),
        }
    }

    /// Frame `i`, to be changed.
    #[inline]
    pub fn frame_mut(&mut self, i: usize) -> &mut [u8] {
        assert!(i < self.count, "frame {i} is not there");
        // SAFETY: as in `frame`; no two frames share memory.
        unsafe { slice::from_raw_parts_mut(self.data[i], usize::from(self.lens[i])) }
    }

    /// The whole room of frame `i`; one that was received has none.
    #[inline]
    pub fn room_mut(&mut self, i: usize) -> &mut [u8] {
        assert!(i < self.count, "frame {i} is not there");
        // SAFETY: a fresh frame has `data_len` bytes of its pool behind its headroom, where DPDK
        // puts its data; of others `rooms` is zero.
        unsafe { slice::from_raw_parts_mut(self.data[i], usize::from(self.rooms[i])) }
    }

    /// Sets the lengths of the first frames, each within its room.
    #[inline]
    pub fn set_lens(&mut self, lens: &[u16]) {
        let fits = |(len, room): (&u16, &u16)| len <= room;
        assert!(lens.len() <= self.count && lens.iter().zip(&self.rooms).all(fits));
        self.lens[..lens.len()].copy_from_slice(lens);
        // SAFETY: the frames are ours and have that much room.
        unsafe { nl_set_lens(self.frames.as_mut_ptr(), lens.as_ptr(), lens.len() as u16) }
    }

    /// Sends the first `count` frames; says how many were taken. The others stay, in order.
    #[inline]
    pub fn send(&mut self, queue: &mut TxQueue, count: usize) -> usize {
        let count = count.min(self.count);
        // SAFETY: the port is started and this thread has its queue; the frames are ours.
        let sent = unsafe { nl_tx_burst(queue.0, queue.1, self.frames.as_mut_ptr(), count as u16) };
        let sent = usize::from(sent);
        self.frames.copy_within(sent..self.count, 0);
        self.data.copy_within(sent..self.count, 0);
        self.lens.copy_within(sent..self.count, 0);
        self.rooms.copy_within(sent..self.count, 0);
        self.count -= sent;
        sent
    }

    /// Gives the frames back to their pools.
    #[inline]
    pub fn give_back(&mut self) {
        if self.count > 0 {
            // SAFETY: the frames are ours, and forgotten here.
            unsafe { nl_free(self.frames.as_mut_ptr(), self.count as u16) }
            self.count = 0;
        }
    }
}

impl Drop for DpdkBurst {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Gives the calling thread a core number of DPDK's, until it ends, unless it has one. Without it
/// every frame is taken from the shared pool and not from a cache. Cheap when it was done before.
#[inline]
pub fn enter_thread() {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Number {
        NotAsked,
        Ours,
        NotOurs,
    }
    struct Entered(Cell<Number>);
    impl Drop for Entered {
        fn drop(&mut self) {
            if self.0.get() == Number::Ours {
                // SAFETY: this thread entered and uses DPDK no more.
                unsafe { nl_thread_leave() }
            }
        }
    }
    thread_local!(static ENTERED: Entered = const { Entered(Cell::new(Number::NotAsked)) });
    ENTERED.with(|entered| {
        if entered.0.get() == Number::NotAsked {
            // SAFETY: DPDK is started, for frames and queues exist only then. Where no number is
            // free the thread works without.
            let ours = unsafe { nl_thread_enter() } == 0;
            entered.0.set(if ours { Number::Ours } else { Number::NotOurs });
        }
    });
}
