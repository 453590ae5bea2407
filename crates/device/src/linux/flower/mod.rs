//! Rules in tc's flower classifier, on the clsact discipline of an interface: in the card, where
//! its driver takes filters over, or in the kernel.
//!
//! All filters of one preference are of one protocol and, of two that match, either may win: rules
//! of one priority that overlap are not in order. What was there stays: only filters of preferences
//! that are niclab's are taken out, and the discipline where it was not there before and has no
//! filters of others by now.

mod message;
#[cfg(test)]
mod message_tests;

use std::collections::HashMap;
use std::io;

use niclab_netlink::{Netlink, RawMessage, Refusal};
use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use serde::{Deserialize, Serialize};

pub use self::message::{FilterId, FilterPlace};
use self::message::{
    RTM_DELQDISC, RTM_DELTFILTER, RTM_GETQDISC, RTM_GETTFILTER, RTM_NEWQDISC, RTM_NEWTFILTER,
};
use super::ethtool::flow::{ANYWHERE, Fate, Fields, Flow, FlowKind};
use super::ethtool::rules::NtupleTable;
use super::link::Link;
use super::note::{Note, NoteContent, NoteKind};
use super::refused;
use super::rules::RuleTable;
use crate::face::DeviceError;

/// The first preference that is niclab's, and how many there are: four of each priority, for all,
/// IPv4, IPv6 and tagged packets.
const PREFERENCE_FIRST: u16 = 0x4c00;
const PROTOCOLS: u16 = 4;
/// The last priority that a filter can have.
pub const PRIORITY_MAX: u16 = 1_023;

/// Notes of what was there.
const NOTES: NoteKind<PreviousState> = NoteKind::new("flower");

/// The previous state of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PreviousState {
    /// It had the discipline.
    clsact: bool,
}

/// Filters on an interface, which go with this.
pub struct Filters {
    netlink: Netlink,
    interface: String,
    index: u32,
    place: FilterPlace,
    before: PreviousState,
    /// Removed when the interface is as it was; `None` of one of niclab's own.
    note: Option<Note>,
    is_held: bool,
    /// By their numbers.
    filters: HashMap<u32, FilterId>,
    /// The number of the next, and from one to the next: threads share the numbers.
    next: u32,
    step: u32,
}

impl Filters {
    /// Makes ready for filters on an interface of the calling thread's namespace, which niclab made
    /// itself or not.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `flower`, where the kernel has no clsact discipline;
    /// [`DeviceError::Rights`]; [`DeviceError::Broken`] where another process has filters on it.
    pub fn attach(link: &Link, place: FilterPlace, is_own: bool) -> Result<Filters, DeviceError> {
        let name = &link.name;
        let opening = |e| refused(&format!("opening netlink for {name}"), &e);
        let netlink = Netlink::route().map_err(opening)?;
        let mut before = None;
        let mut note = None;
        if !is_own {
            let taken = NOTES.take(name, link.index)?.ok_or_else(|| DeviceError::Broken {
                device: format!("interface {name}"),
                reason: "another process of niclab has filters on it; wait for its end".into(),
            })?;
            let (mut mine, left) = taken;
            // Until it is known whose the discipline is, it is nobody's to take away.
            before = left;
            mine.write(name, &before.unwrap_or(PreviousState { clsact: true }))?;
            note = Some(mine);
        }
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        let had = match ask(&netlink, RTM_NEWQDISC, flags, message::clsact(link.index)) {
            Ok(_) => false,
            Err(refusal) if refusal.error.raw_os_error() == Some(libc::EEXIST) => true,
            Err(refusal) => {
                note.map_or(Ok(()), Note::remove)?;
                return Err(lacks("clsact", &refusal));
            }
        };
        let was_left = before.is_some();
        let before = before.unwrap_or(PreviousState { clsact: had });
        if let Some(note) = &mut note {
            note.write(name, &before)?;
        }
        let filters = Filters {
            netlink,
            interface: name.clone(),
            index: link.index,
            place,
            before,
            note,
            is_held: true,
            filters: HashMap::new(),
            next: 1,
            step: 1,
        };
        if was_left {
            let cleared = clear(&filters.netlink, filters.index, preferences());
            cleared.map_err(|refusal| lacks("filters", &refusal))?;
        }
        Ok(filters)
    }

    /// Puts a filter in.
    ///
    /// # Errors
    /// What filters have no words for, or the kernel's refusal, as text.
    pub fn insert(&mut self, flow: &Flow, priority: u32) -> Result<FilterId, String> {
        let id = FilterId { handle: self.next, ..found_by(flow, priority)? };
        self.put(id, flow, NLM_F_CREATE | NLM_F_EXCL)?;
        self.next += self.step;
        self.filters.insert(id.handle, id);
        Ok(id)
    }

    /// Puts a filter in the stead of one that is there, as `tc filter replace` does: the kernel has
    /// the new one before it takes the old one out.
    ///
    /// # Errors
    /// As [`Filters::insert`]; a filter keeps its priority and its protocol.
    pub fn replace(&mut self, handle: u32, flow: &Flow, priority: u32) -> Result<(), String> {
        let id = *self.filters.get(&handle).ok_or_else(|| no_filter(handle))?;
        let new = found_by(flow, priority)?;
        if (new.preference, new.protocol) != (id.preference, id.protocol) {
            return Err("a flower filter keeps its priority and its protocol".into());
        }
        self.put(id, flow, NLM_F_CREATE)
    }

    fn put(&self, id: FilterId, flow: &Flow, flags: u16) -> Result<(), String> {
        let asked = message::filter(self.index, id, flow, self.place).map_err(no_words)?;
        let put = ask(&self.netlink, RTM_NEWTFILTER, flags, asked);
        put.map(|_| ()).map_err(|refusal| refusal.to_string())
    }

    /// Packets and bytes that a filter has met; `None` where it does not say.
    ///
    /// # Errors
    /// What the kernel says.
    #[cfg(test)]
    fn counts(&self, id: FilterId) -> Result<Option<(u64, u64)>, Refusal> {
        let answers = ask(&self.netlink, RTM_GETTFILTER, 0, message::named(self.index, id))?;
        Ok(answers.first().and_then(|answer| message::counts(&answer.body)))
    }

    /// Takes all filters out.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn remove_all(&mut self) -> Result<(), Refusal> {
        let all: Vec<FilterId> = self.filters.values().copied().collect();
        all.into_iter().try_for_each(|id| self.remove(id))
    }

    /// Takes a filter out.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn remove(&mut self, id: FilterId) -> Result<(), Refusal> {
        ask(&self.netlink, RTM_DELTFILTER, 0, message::named(self.index, id))?;
        self.filters.remove(&id.handle);
        Ok(())
    }

    fn restore(&mut self) -> Result<(), DeviceError> {
        if !std::mem::take(&mut self.is_held) {
            return Ok(());
        }
        let mut used: Vec<u16> = self.filters.values().map(|id| id.preference).collect();
        used.sort_unstable();
        used.dedup();
        restore(&self.netlink, (&self.interface, self.index), self.before, used)?;
        self.note.take().map_or(Ok(()), Note::remove)
    }
}

impl Drop for Filters {
    fn drop(&mut self) {
        // Where this fails the note stays, and `clean` tells of it.
        let _ = self.restore();
    }
}

/// Filters on an interface that takes them there: one is put in and taken out again, of packets
/// that there are none of.
///
/// # Errors
/// [`DeviceError::NotSupported`] with what is missing; those of [`Filters::attach`].
pub fn offered(link: &Link, place: FilterPlace, is_own: bool) -> Result<Filters, DeviceError> {
    let mut filters = Filters::attach(link, place, is_own)?;
    let (mut value, mut mask) = (Fields::default(), Fields::default());
    // An address for texts (RFC 5737), which nobody has.
    value.src[..4].copy_from_slice(&[192, 0, 2, 1]);
    mask.src[..4].fill(0xff);
    let flow = Flow { kind: FlowKind::Ipv4, value, mask, fate: Fate::Drop, location: ANYWHERE };
    let lacks = |why: String| DeviceError::lacks(format!("flower: {why}"));
    let id = filters.insert(&flow, 0).map_err(lacks)?;
    filters.remove(id).map_err(|refusal| lacks(refusal.to_string()))?;
    Ok(filters)
}

/// What the kernel finds a filter by, but for its number; or what filters have no words for.
fn found_by(flow: &Flow, priority: u32) -> Result<FilterId, String> {
    let protocol = message::protocol(flow).map_err(no_words)?;
    let at = match protocol {
        0x0800 => 1,
        0x86dd => 2,
        0x8100 => 3,
        3 => 0,
        other => return Err(no_words(&format!("the Ethernet type {other:#06x}"))),
    };
    let priority = u16::try_from(priority).ok().filter(|of| *of <= PRIORITY_MAX);
    let priority = priority.ok_or_else(|| format!("a priority above {PRIORITY_MAX}"))?;
    let preference = PREFERENCE_FIRST + priority * PROTOCOLS + at;
    Ok(FilterId { preference, protocol, handle: 0 })
}

fn no_words(what: &str) -> String {
    format!("{what}: flower filters have no words for that")
}

fn no_filter(handle: u32) -> String {
    format!("there is no flower filter {handle}")
}

impl RuleTable for Filters {
    const WORDS: &str = "flower filters";
    const HAVE_PRIORITIES: bool = true;
    type Socket = Netlink;

    fn table(&mut self) -> io::Result<Option<NtupleTable>> {
        Ok(Some(NtupleTable { finds_places: true, ..NtupleTable::default() }))
    }

    fn insert(&mut self, flow: &Flow, priority: u32) -> Result<u32, String> {
        Filters::insert(self, flow, priority).map(|id| id.handle)
    }

    fn replace(&mut self, place: u32, flow: &Flow, priority: u32) -> Result<u32, String> {
        Filters::replace(self, place, flow, priority).map(|()| place)
    }

    fn remove(&mut self, place: u32) -> Result<(), String> {
        let id = *self.filters.get(&place).ok_or_else(|| no_filter(place))?;
        Filters::remove(self, id).map_err(|refusal| refusal.to_string())
    }

    fn socket(_interface: &str) -> io::Result<Netlink> {
        Netlink::route()
    }

    fn share(&self, netlink: Netlink, at: u32, count: u32) -> Filters {
        Filters {
            netlink,
            interface: self.interface.clone(),
            index: self.index,
            place: self.place,
            before: self.before,
            note: None,
            is_held: false,
            filters: HashMap::new(),
            next: self.next + at,
            step: count,
        }
    }

    fn join(&mut self, mut shared: Filters) {
        self.filters.extend(shared.filters.drain());
        self.next = self.next.max(shared.next);
    }
}

/// Frames that filters of an interface of the calling thread's namespace have dropped in the
/// kernel, whoever put them there; the number wraps, and is 0 where there is no discipline for
/// filters.
///
/// # Errors
/// What the kernel says.
pub fn dropped(link: &Link) -> io::Result<u32> {
    let body = message::all_at(link.index, 0);
    let disciplines = Netlink::route()?.dump(RawMessage { kind: RTM_GETQDISC, body })?;
    let drops = disciplines.iter().find_map(|of| message::clsact_drops(&of.body, link.index));
    Ok(drops.unwrap_or(0))
}

/// Takes away what killed processes have left on interfaces of the calling thread's namespace.
///
/// # Errors
/// [`DeviceError::Rights`]; [`DeviceError::Broken`].
pub fn clean() -> Result<Vec<String>, DeviceError> {
    let mut cleaned = Vec::new();
    for (note, NoteContent { interface, process, before }, index) in NOTES.left()? {
        let netlink = Netlink::route().map_err(|e| refused("opening netlink", &e))?;
        restore(&netlink, (&interface, index), before, preferences())?;
        note.remove()?;
        cleaned.push(format!("interface {interface}: flower filters, left by process {process}"));
    }
    Ok(cleaned)
}

fn restore(
    netlink: &Netlink,
    (interface, index): (&str, u32),
    before: PreviousState,
    used: impl IntoIterator<Item = u16>,
) -> Result<(), DeviceError> {
    let restored = clear(netlink, index, used).and_then(|()| {
        // What others put there since would go with it.
        if before.clsact || has_filters(netlink, index)? {
            return Ok(());
        }
        ask(netlink, RTM_DELQDISC, 0, message::clsact(index)).map(|_| ())
    });
    match restored {
        // It is gone, and its filters with it; or the discipline is.
        Err(e) if matches!(e.error.raw_os_error(), Some(libc::ENODEV | libc::ENOENT)) => Ok(()),
        Err(e) => Err(refused(&format!("taking filters off {interface}"), &e.error)),
        Ok(()) => Ok(()),
    }
}

/// All preferences that are niclab's.
fn preferences() -> impl IntoIterator<Item = u16> {
    PREFERENCE_FIRST..PREFERENCE_FIRST + PROTOCOLS * (PRIORITY_MAX + 1)
}

/// Takes the filters of these preferences out, whoever put them there.
fn clear(
    netlink: &Netlink,
    index: u32,
    preferences: impl IntoIterator<Item = u16>,
) -> Result<(), Refusal> {
    for preference in preferences {
        match ask(netlink, RTM_DELTFILTER, 0, message::all_of(index, preference)) {
            // There is none.
            Err(e) if matches!(e.error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => {}
            done => {
                done?;
            }
        }
    }
    Ok(())
}

/// Whether there are filters on the discipline, whoever put them there.
fn has_filters(netlink: &Netlink, index: u32) -> Result<bool, Refusal> {
    for parent in [message::INGRESS, message::EGRESS] {
        let body = message::all_at(index, parent);
        if !netlink.dump(RawMessage { kind: RTM_GETTFILTER, body })?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn lacks(what: &str, refusal: &Refusal) -> DeviceError {
    match refusal.error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => refused(what, &refusal.error),
        _ => DeviceError::lacks(format!("flower: {what}: {refusal}")),
    }
}

fn ask(
    netlink: &Netlink,
    kind: u16,
    flags: u16,
    body: Vec<u8>,
) -> Result<Vec<RawMessage>, Refusal> {
    netlink.request(RawMessage { kind, body }, flags)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use niclab_nic::rule::Action;
    use niclab_packet::flow::FlowSpec;

    use super::super::netns::NetNs;
    use super::super::veth_tests::cores;
    use super::super::{link, rules};
    use super::*;
    use crate::face::{RuleBlock, SetupReport};
    use crate::plan::{CallMode, ControlCore, RuleWork, RulesPlan};
    use crate::stack::Stack;

    /// Drops UDP to this port.
    fn drop_udp(port: u16) -> Flow {
        let value = Fields { dport: port.to_be_bytes(), ..Fields::default() };
        let mask = Fields { dport: [0xff; 2], ..Fields::default() };
        Flow { kind: FlowKind::Udp4, value, mask, fate: Fate::Drop, location: ANYWHERE }
    }

    /// Disciplines of the loopback interface of the calling thread's namespace.
    fn disciplines() -> String {
        let shown = std::process::Command::new("tc").args(["qdisc", "show", "dev", "lo"]).output();
        String::from_utf8(shown.unwrap().stdout).unwrap()
    }

    /// Filters of what comes in by it, as tc shows them.
    fn filters_shown() -> String {
        let arguments = ["filter", "show", "dev", "lo", "ingress"];
        let shown = std::process::Command::new("tc").args(arguments).output().unwrap();
        String::from_utf8(shown.stdout).unwrap()
    }

    fn with_lo(test: &str, work: impl FnOnce(Link) + Send) {
        let Some(_cores) = cores(test) else {
            return;
        };
        let within = NetNs::anonymous().unwrap().within(|| {
            link::switch_on("lo").unwrap();
            work(link::find("lo").unwrap().unwrap());
        });
        within.unwrap();
    }

    #[test]
    fn a_filter_in_the_kernel_drops_and_counts() {
        let test = "a_filter_in_the_kernel_drops_and_counts";
        with_lo(test, |lo| {
            let mut filters = match offered(&lo, FilterPlace::Kernel, true) {
                Ok(filters) => filters,
                Err(error) => return println!("SKIP {test}: {error}"),
            };
            let id = filters.insert(&drop_udp(9), 3).unwrap();
            let netlink = UdpSocket::bind("127.0.0.1:0").unwrap();
            (0..5).for_each(|_| assert_eq!(netlink.send_to(&[0; 10], "127.0.0.1:9").unwrap(), 10));
            let counts = || filters.counts(id).unwrap().unwrap();
            // The last may still be on its way through the loopback interface.
            for _ in 0..100 {
                if counts().0 == 5 {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            let (packets, bytes) = counts();
            // Linux counts the bytes of what comes in from the IP header on.
            assert_eq!((packets, bytes), (5, 5 * (20 + 8 + 10)));
            filters.remove(id).unwrap();
            assert!(filters.counts(id).is_err());
            // Two priorities, two protocols; they all go.
            filters.insert(&drop_udp(9), 0).unwrap();
            filters.insert(&Flow { kind: FlowKind::Udp6, ..drop_udp(9) }, 0).unwrap();
            drop(filters);
            assert!(!disciplines().contains("clsact"), "{}", disciplines());
        });
    }

    #[test]
    fn a_discipline_that_was_there_stays_and_ours_goes() {
        with_lo("a_discipline_that_was_there_stays_and_ours_goes", |lo| {
            let filters = Filters::attach(&lo, FilterPlace::Kernel, true).unwrap();
            assert!(disciplines().contains("clsact"));
            drop(filters);
            assert!(!disciplines().contains("clsact"));
            let other = Filters::attach(&lo, FilterPlace::Kernel, true).unwrap();
            drop(Filters::attach(&lo, FilterPlace::Kernel, true).unwrap());
            assert!(disciplines().contains("clsact"), "the other's");
            drop(other);
        });
    }

    #[test]
    fn a_discipline_on_which_others_have_filters_by_now_stays() {
        let test = "a_discipline_on_which_others_have_filters_by_now_stays";
        with_lo(test, |lo| {
            let first = Filters::attach(&lo, FilterPlace::Kernel, true).unwrap();
            let mut other = Filters::attach(&lo, FilterPlace::Kernel, true).unwrap();
            if let Err(error) = other.insert(&drop_udp(9), 0) {
                return println!("SKIP {test}: {error}");
            }
            drop(first);
            assert!(disciplines().contains("clsact"), "{}", disciplines());
            assert!(other.remove_all().is_ok(), "its filter is there");
        });
    }

    #[test]
    fn leftovers_of_a_killed_process_are_removed() {
        with_lo("leftovers_of_a_killed_process_are_removed", |lo| {
            let kill = |mut filters: Filters| {
                filters.is_held = false;
                drop(filters.note.take());
            };
            kill(Filters::attach(&lo, FilterPlace::Kernel, false).unwrap());
            assert!(disciplines().contains("clsact"));
            let held = Filters::attach(&lo, FilterPlace::Kernel, false).unwrap();
            let Err(DeviceError::Broken { reason, .. }) =
                Filters::attach(&lo, FilterPlace::Kernel, false).map(|_| ())
            else {
                panic!("a second one must be refused");
            };
            assert!(reason.starts_with("another process of niclab has filters"), "{reason}");
            assert_eq!(clean().unwrap(), Vec::<String>::new(), "who is at work is let be");
            kill(held);
            let process = std::process::id();
            let expected = format!("interface lo: flower filters, left by process {process}");
            assert_eq!(clean().unwrap(), [expected]);
            assert!(!disciplines().contains("clsact"), "{}", disciplines());
            assert_eq!(clean().unwrap(), Vec::<String>::new());
        });
    }

    #[test]
    fn a_card_that_takes_no_filters_is_named_with_the_reason() {
        with_lo("a_card_that_takes_no_filters_is_named_with_the_reason", |lo| {
            let refused = offered(&lo, FilterPlace::Card, true).map(|_| ()).unwrap_err();
            let text = refused.to_string();
            assert!(text.starts_with("not supported: flower: "), "{text}");
            assert!(!disciplines().contains("clsact"), "{}", disciplines());
        });
    }

    /// Rules of experiments: each for one flow, or over headers.
    fn blocks(count: u32) -> [RuleBlock; 3] {
        let flows = FlowSpec { count, ..FlowSpec::default() };
        let actions = vec![Action::Queue(0)];
        let stack = |stack, actions| RuleBlock::Stack {
            group: 0,
            priority: 7,
            stack,
            first: 0,
            count,
            actions,
        };
        [
            RuleBlock::FiveTuples { group: 0, priority: 0, flows, first: 0, count, actions },
            stack(Stack::Ipv6Tcp, vec![Action::Drop]),
            stack(Stack::VlanIpv4Tcp, vec![Action::Drop]),
        ]
    }

    #[test]
    fn rules_of_a_set_up_fill_the_kernels_table_and_leave_it() {
        let test = "rules_of_a_set_up_fill_the_kernels_table_and_leave_it";
        with_lo(test, |lo| {
            let mut filters = match offered(&lo, FilterPlace::Kernel, true) {
                Ok(filters) => filters,
                Err(error) => return println!("SKIP {test}: {error}"),
            };
            let installed = |filters: &mut Filters| {
                let mut report = SetupReport::default();
                rules::install(filters, &blocks(200), &mut report).unwrap();
                (report.rules_installed, report.rules_refused, report.refusal)
            };
            assert_eq!(installed(&mut filters), (600, 0, None));
            // The kernel has each of them, by what it matches, its priority and its action.
            let shown = filters_shown();
            let count = |words: &str| shown.matches(words).count();
            assert_eq!(count("pref 19457 flower chain 0 handle"), 200, "{shown}");
            assert_eq!(count("pref 19486 flower chain 0 handle"), 200, "{shown}");
            assert_eq!(count("pref 19487 flower chain 0 handle"), 200, "{shown}");
            assert_eq!((count("queue_mapping 0"), count("action drop")), (200, 400), "{shown}");
            assert_eq!((count("ip_proto udp"), count("ip_proto tcp")), (200, 400), "{shown}");
            // The same rule again is the kernel's to refuse. The first refusal ends its block.
            let why = "File exists (os error 17)".to_owned();
            assert_eq!(installed(&mut filters), (0, 600, Some(why)));
            filters.remove_all().unwrap();
            assert_eq!(filters_shown(), "");
            assert_eq!(installed(&mut filters), (600, 0, None), "there is room again");
        });
    }

    #[test]
    fn a_plan_times_the_calls_that_create_and_remove_filters() {
        let test = "a_plan_times_the_calls_that_create_and_remove_filters";
        with_lo(test, |lo| {
            let mut filters = match offered(&lo, FilterPlace::Kernel, true) {
                Ok(filters) => filters,
                Err(error) => return println!("SKIP {test}: {error}"),
            };
            for block in blocks(100) {
                let plan = RulesPlan {
                    core: ControlCore::Same,
                    start_ns: 0,
                    work: RuleWork::Create(block),
                    calls: CallMode::Single,
                    slice: None,
                    threads: None,
                    per_s: None,
                    pause_ns: None,
                };
                let made = rules::operate(&mut filters, &plan, &mut []).unwrap();
                assert_eq!((made.done, made.refused, &made.refusal), (100, 0, &None));
                let gone = made.destroyed.unwrap();
                assert_eq!((gone.done, gone.refused, &gone.refusal), (100, 0, &None));
                assert!(made.calls_ns > 100_000 && gone.calls_ns > 100_000, "calls of the kernel");
                assert_eq!(filters_shown(), "");
            }
        });
    }

    #[test]
    fn a_rule_without_a_free_preference_is_named() {
        with_lo("a_rule_without_a_free_preference_is_named", |lo| {
            let mut filters = Filters::attach(&lo, FilterPlace::Kernel, true).unwrap();
            let why = filters.insert(&drop_udp(9), 1_024).unwrap_err();
            assert_eq!(why, "a priority above 1023");
            let ptp = Fields { ether_type: [0x88, 0xf7], ..Fields::default() };
            let mask = Fields { ether_type: [0xff; 2], ..Fields::default() };
            let flow = Flow { kind: FlowKind::Ether, value: ptp, mask, ..drop_udp(9) };
            let why = "the Ethernet type 0x88f7: flower filters have no words for that";
            assert_eq!(filters.insert(&flow, 0).unwrap_err(), why);
        });
    }
}
