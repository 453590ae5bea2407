//! Queries and settings of a network card by ethtool's older interface, an `ioctl`.
//!
//! `linux/ethtool.h` of the kernel has the structures; each is written and read here by plain
//! functions, of bytes and back, and one module makes the call. What has come to generic netlink
//! alone, as coalescing did in part, lies elsewhere.

mod call;
pub mod flow;
pub mod info;
mod layout;
#[cfg(test)]
mod layout_tests;
pub mod rss;
pub mod rules;
pub mod stamps;

use std::io;

use call::EthtoolSocket;

/// A network interface, asked by its name in the network namespace that it was opened in.
#[derive(Debug)]
pub struct Card {
    caller: EthtoolSocket,
}

impl Card {
    /// The interface of this name in the calling thread's network namespace; whether there is one
    /// shows with the first question.
    ///
    /// # Errors
    /// For what is no name; what the kernel says.
    pub fn open(name: &str) -> io::Result<Card> {
        Ok(Card { caller: EthtoolSocket::open(name)? })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.caller.name()
    }

    /// What `read` makes of the answer to a command; `None` where the driver does not know it.
    fn if_known<T>(
        &mut self,
        command: &[u8],
        len: usize,
        read: fn(&[u8]) -> T,
    ) -> io::Result<Option<T>> {
        match self.caller.call(command, len) {
            Err(e) if is_unknown(&e) => Ok(None),
            answer => answer.map(|answer| Some(read(answer))),
        }
    }
}

/// Whether an error says that the driver lacks what was asked for.
pub fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP))
}
