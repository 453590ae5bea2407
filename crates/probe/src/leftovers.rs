//! What a killed process left at the interfaces of this network namespace, and taking it away.
//!
//! That is only by clsact: links of TCX go with their process. A qdisc that was added by a process
//! which was killed before its first filter bears no name and is not found.

use std::fmt;
use std::io;

use niclab_netlink::Netlink;

use crate::clsact::{
    DIRECTIONS, Direction, Filter, Qdisc, filters, remove, remove_if_empty, with_qdisc,
};
use crate::error::ProbeError;

/// A filter whose owner is dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Index of the interface.
    pub index: u32,
    /// Which way the packets go that it sees.
    pub direction: Direction,
    /// Name of the filter, as `tc filter show` has it.
    pub name: String,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interface {}: {} filter {}", self.index, self.direction, self.name)
    }
}

/// Filters of niclab in the calling thread's network namespace whose process is gone.
///
/// # Errors
/// What the kernel says against looking.
pub fn leftovers() -> Result<Vec<Leftover>, ProbeError> {
    let netlink = Netlink::route().map_err(looking)?;
    let found = dead(&netlink).map_err(looking)?;
    Ok(found.iter().filter_map(leftover).collect())
}

/// Takes them away, and the qdiscs that came with them where nobody else's filter is on one; what
/// was taken away.
///
/// # Errors
/// What the kernel says against it; what was taken away until then stays away.
pub fn clean() -> Result<Vec<Leftover>, ProbeError> {
    let cleaning = |e| ProbeError::system("take leftovers away", 0, e);
    let netlink = Netlink::route().map_err(looking)?;
    let found = dead(&netlink).map_err(looking)?;
    for filter in &found {
        remove(&netlink, filter).map_err(cleaning)?;
    }
    for filter in &found {
        if filter.mark.is_some_and(|mark| mark.qdisc == Qdisc::Added) {
            remove_if_empty(&netlink, filter.index()).map_err(cleaning)?;
        }
    }
    Ok(found.iter().filter_map(leftover).collect())
}

fn looking(error: io::Error) -> ProbeError {
    ProbeError::system("look for leftovers", 0, error)
}

fn leftover(filter: &Filter) -> Option<Leftover> {
    let name = filter.mark?.to_string();
    Some(Leftover { index: filter.index(), direction: filter.direction, name })
}

fn dead(netlink: &Netlink) -> io::Result<Vec<Filter>> {
    let mut found = Vec::new();
    for index in with_qdisc(netlink, "clsact")? {
        for direction in DIRECTIONS {
            let all = filters(netlink, index, direction)?;
            found.extend(
                all.into_iter().filter(|filter| filter.mark.is_some_and(|mark| !mark.is_held())),
            );
        }
    }
    Ok(found)
}
