//! The clsact qdisc of an interface and the BPF filters on it: the way of kernels before 6.6.
//!
//! A filter outlives the process that made it. So each of ours says by its name, `niclab:OWNER:…`,
//! whose it is and whether the qdisc came with it, and its owner holds a socket of that name in the
//! abstract name space of the network namespace, which goes with the process: what has a filter and
//! no socket was left behind. The owner is the number of the egress program, which is nobody else's
//! as long as its filter is there.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use libbpf_rs::Program;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{
    TcAttribute, TcBpfFlags, TcFilterBpf, TcFilterBpfOption, TcHandle, TcHeader, TcMessage,
    TcOption,
};
use niclab_netlink::{Netlink, Refusal};

use crate::error::{EEXIST, EINVAL, ENOENT, EOPNOTSUPP, ProbeError};

/// Which way a packet passes an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Out of the stack.
    Egress = 0,
    /// Into the stack.
    Ingress = 1,
}

pub const DIRECTIONS: [Direction; 2] = [Direction::Egress, Direction::Ingress];

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Egress => "egress",
            Direction::Ingress => "ingress",
        })
    }
}

/// Who made the qdisc that a filter of ours is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qdisc {
    /// niclab did, and takes it away with its last filter.
    Added,
    /// It was there before, and stays.
    Found,
}

/// What the name of a filter of ours says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterName {
    pub owner: u32,
    pub qdisc: Qdisc,
}

impl fmt::Display for FilterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let qdisc = match self.qdisc {
            Qdisc::Added => "added",
            Qdisc::Found => "found",
        };
        write!(f, "niclab:{}:{qdisc}", self.owner)
    }
}

impl FilterName {
    fn read(name: &str) -> Option<FilterName> {
        let (owner, qdisc) = name.strip_prefix("niclab:")?.split_once(':')?;
        let qdisc = match qdisc {
            "added" => Qdisc::Added,
            "found" => Qdisc::Found,
            _ => return None,
        };
        Some(FilterName { owner: owner.parse().ok()?, qdisc })
    }

    /// Takes the owner's socket, in this thread's network namespace.
    fn hold(&self) -> io::Result<UnixDatagram> {
        let name = SocketAddr::from_abstract_name(format!("niclab-probe:{}", self.owner))?;
        UnixDatagram::bind_addr(&name)
    }

    /// Whether the owner lives.
    pub fn is_held(&self) -> bool {
        matches!(self.hold(), Err(e) if e.kind() == io::ErrorKind::AddrInUse)
    }
}

/// A filter as the kernel tells of it: what says which one it is.
#[derive(Clone, Debug)]
pub struct Filter {
    header: TcHeader,
    pub direction: Direction,
    /// `None` for one that is not ours.
    pub mark: Option<FilterName>,
    program: Option<u32>,
}

impl Filter {
    fn from_message(message: TcMessage, direction: Direction) -> Filter {
        let options = message.attributes.into_iter().flat_map(|attribute| match attribute {
            TcAttribute::Options(options) => options,
            _ => Vec::new(),
        });
        let mut filter = Filter { header: message.header, direction, mark: None, program: None };
        for option in options {
            match option {
                TcOption::Bpf(TcFilterBpfOption::ProgName(name)) => {
                    filter.mark = FilterName::read(&name)
                }
                TcOption::Bpf(TcFilterBpfOption::ProgId(id)) => filter.program = Some(id),
                _ => {}
            }
        }
        filter
    }

    /// Index of the interface.
    pub fn index(&self) -> u32 {
        self.header.index.cast_unsigned()
    }
}

const QDISC: TcHandle = TcHandle { major: 0xffff, minor: 0 };

/// Every protocol (`ETH_P_ALL`), in network order, and a priority ahead of all others, or any.
const PROTOCOL: u32 = 3_u16.to_be() as u32;
const FIRST: u32 = 1 << 16 | PROTOCOL;
const ANY: u32 = PROTOCOL;

fn parent(direction: Direction) -> TcHandle {
    let minor = match direction {
        Direction::Egress => TcHandle::MIN_EGRESS,
        Direction::Ingress => TcHandle::MIN_INGRESS,
    };
    TcHandle { major: 0xffff, minor }
}

fn message(index: u32, handle: TcHandle, parent: TcHandle, info: u32) -> TcMessage {
    let mut message = TcMessage::with_index(index.cast_signed());
    message.header = TcHeader { handle, parent, info, ..message.header };
    message
}

/// The filters of an interface in one direction; none where it has no clsact.
pub fn filters(netlink: &Netlink, index: u32, direction: Direction) -> io::Result<Vec<Filter>> {
    let asked = message(index, TcHandle::UNSPEC, parent(direction), 0);
    let told = netlink.dump(RouteNetlinkMessage::GetTrafficFilter(asked))?;
    Ok(told
        .into_iter()
        .filter_map(|message| match message {
            RouteNetlinkMessage::NewTrafficFilter(message) => Some(message),
            _ => None,
        })
        .map(|message| Filter::from_message(message, direction))
        .collect())
}

/// Interfaces with a qdisc of one kind.
pub fn with_qdisc(netlink: &Netlink, kind: &str) -> io::Result<Vec<u32>> {
    let asked = message(0, TcHandle::UNSPEC, TcHandle::UNSPEC, 0);
    let told = netlink.dump(RouteNetlinkMessage::GetQueueDiscipline(asked))?;
    Ok(told
        .into_iter()
        .filter_map(|message| match message {
            RouteNetlinkMessage::NewQueueDiscipline(message) => Some(message),
            _ => None,
        })
        .filter(|message| message.attributes.contains(&TcAttribute::Kind(kind.into())))
        .map(|message| message.header.index.cast_unsigned())
        .collect())
}

/// Takes a filter away; one that is gone already is no error.
pub fn remove(netlink: &Netlink, filter: &Filter) -> io::Result<()> {
    let mut gone = TcMessage::default();
    gone.header = filter.header.clone();
    gone.attributes.push(TcAttribute::Kind(TcFilterBpf::KIND.into()));
    unless_gone(netlink.request(RouteNetlinkMessage::DelTrafficFilter(gone), 0))
}

/// Takes the clsact of an interface away where no filter is left on it.
pub fn remove_if_empty(netlink: &Netlink, index: u32) -> io::Result<()> {
    for direction in DIRECTIONS {
        if !filters(netlink, index, direction)?.is_empty() {
            return Ok(());
        }
    }
    let gone = message(index, QDISC, TcHandle::CLSACT, 0);
    unless_gone(netlink.request(RouteNetlinkMessage::DelQueueDiscipline(gone), 0))
}

fn unless_gone<T>(result: Result<T, Refusal>) -> io::Result<()> {
    match result.map_err(io::Error::from) {
        // There is nothing of the name, or the interface itself has gone.
        Err(e) if matches!(e.raw_os_error(), Some(ENOENT | EINVAL)) => Ok(()),
        Err(e) if matches!(e.raw_os_error(), Some(crate::error::ENODEV)) => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Our filters on one interface; dropped, they go, and the qdisc with them where we added it.
pub struct Clsact {
    netlink: Netlink,
    index: u32,
    mark: FilterName,
    filters: Vec<Filter>,
    /// Says that we live, as long as it is open.
    _held: UnixDatagram,
}

impl Clsact {
    /// Puts both programs on an interface of the calling thread's network namespace.
    pub fn attach(
        index: u32,
        egress: BorrowedFd<'_>,
        ingress: BorrowedFd<'_>,
    ) -> Result<Clsact, ProbeError> {
        let system = |what| move |e| ProbeError::system(what, index, e);
        let netlink = Netlink::route().map_err(system("open a netlink socket"))?;
        let owner = Program::id_from_fd(egress)
            .map_err(|e| ProbeError::bpf("ask for a program's number", &e))?;
        // Before there is anything that a look for leftovers could find.
        let held = FilterName { owner, qdisc: Qdisc::Found }
            .hold()
            .map_err(system("take the name that marks the filters"))?;
        let qdisc = add_qdisc(&netlink, index)?;
        let mark = FilterName { owner, qdisc };
        let mut clsact = Clsact { netlink, index, mark, filters: Vec::new(), _held: held };
        clsact.add(Direction::Egress, egress)?;
        clsact.add(Direction::Ingress, ingress)?;
        Ok(clsact)
    }

    /// Adds a filter and asks the kernel under which number it keeps it.
    fn add(&mut self, direction: Direction, program: BorrowedFd<'_>) -> Result<(), ProbeError> {
        let system = |e| ProbeError::system("add a BPF filter", self.index, e);
        let id = Program::id_from_fd(program)
            .map_err(|e| ProbeError::bpf("ask for a program's number", &e))?;
        let add = |info| {
            let mut new = message(self.index, TcHandle::UNSPEC, parent(direction), info);
            let name = TcFilterBpfOption::ProgName(self.mark.to_string());
            new.attributes = vec![
                TcAttribute::Kind(TcFilterBpf::KIND.into()),
                TcAttribute::Options(vec![
                    TcOption::Bpf(TcFilterBpfOption::ProgFd(program.as_raw_fd().cast_unsigned())),
                    TcOption::Bpf(name),
                    TcOption::Bpf(TcFilterBpfOption::Flags(TcBpfFlags::DirectAction)),
                ]),
            ];
            let new = RouteNetlinkMessage::NewTrafficFilter(new);
            self.netlink.request(new, NLM_F_CREATE | NLM_F_EXCL).map_err(io::Error::from)
        };
        match add(FIRST) {
            Ok(_) => {}
            // No `bpf` kind: the module is missing.
            Err(e) if e.raw_os_error() == Some(ENOENT) => return Err(ProbeError::NoClsact),
            // A filter of another kind is at the first place: then wherever there is room.
            Err(e) if matches!(e.raw_os_error(), Some(EINVAL | EEXIST)) => {
                add(ANY).map_err(system)?;
            }
            Err(e) => return Err(system(e)),
        }
        let found = filters(&self.netlink, self.index, direction).map_err(system)?;
        self.filters.extend(found.into_iter().filter(|filter| filter.program == Some(id)));
        Ok(())
    }

    /// Takes all away that was added.
    pub fn remove(&mut self) -> io::Result<()> {
        for filter in std::mem::take(&mut self.filters) {
            remove(&self.netlink, &filter)?;
        }
        match self.mark.qdisc {
            Qdisc::Added => remove_if_empty(&self.netlink, self.index),
            Qdisc::Found => Ok(()),
        }
    }
}

impl Drop for Clsact {
    fn drop(&mut self) {
        // What could not be taken away is found by `leftovers` once we are gone.
        let _ = self.remove();
    }
}

/// Adds a clsact where there is none. One that another niclab added is as good as added by us: the
/// last of them takes it away.
fn add_qdisc(netlink: &Netlink, index: u32) -> Result<Qdisc, ProbeError> {
    const WHAT: &str = "add a clsact qdisc";
    let system = |e| ProbeError::system(WHAT, index, e);
    let mut new = message(index, QDISC, TcHandle::CLSACT, 0);
    new.attributes.push(TcAttribute::Kind("clsact".into()));
    let new = RouteNetlinkMessage::NewQueueDiscipline(new);
    match netlink.request(new, NLM_F_CREATE | NLM_F_EXCL).map_err(io::Error::from) {
        Ok(_) => return Ok(Qdisc::Added),
        Err(e) if e.raw_os_error() == Some(EEXIST) => {}
        Err(e) if matches!(e.raw_os_error(), Some(ENOENT | EOPNOTSUPP)) => {
            return Err(ProbeError::NoClsact);
        }
        Err(e) => return Err(system(e)),
    }
    if with_qdisc(netlink, "ingress").map_err(system)?.contains(&index) {
        return Err(ProbeError::Occupied { index });
    }
    for direction in DIRECTIONS {
        let there = filters(netlink, index, direction).map_err(system)?;
        let added = |filter: &Filter| filter.mark.is_some_and(|mark| mark.qdisc == Qdisc::Added);
        if there.iter().any(added) {
            return Ok(Qdisc::Added);
        }
    }
    Ok(Qdisc::Found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_back_from_its_name_and_other_names_are_none() {
        for qdisc in [Qdisc::Added, Qdisc::Found] {
            let mark = FilterName { owner: 17, qdisc };
            assert_eq!(FilterName::read(&mark.to_string()), Some(mark));
        }
        for other in ["niclab", "niclab:17", "niclab:x:added", "niclab:17:lost", "cil_to_netdev"] {
            assert_eq!(FilterName::read(other), None, "{other}");
        }
    }

    #[test]
    fn a_mark_is_held_as_long_as_its_owner_holds_it() {
        let mark = FilterName { owner: u32::MAX, qdisc: Qdisc::Found };
        assert!(!mark.is_held());
        let held = mark.hold().unwrap();
        assert!(mark.is_held());
        drop(held);
        assert!(!mark.is_held());
    }
}
