//! The control side of a device with rules: carries out the operations of a plan while packets
//! flow.
//!
//! [`Carrier`] decides when an operation is due, times it and keeps the record. The device carries
//! it out, behind [`RuleTarget`].

mod block;
mod carrier;
mod patterns;
mod requests;
mod rss;
mod steps;
pub mod threads;

use niclab_nic::rule::item::ItemMatch;
use niclab_nic::rule::{Action, Pattern};

pub use block::{InstalledBlock, PREPARED_MAX};
pub use carrier::Carrier;
pub use patterns::Patterns;
pub use requests::OperationRequester;
pub use rss::RandomRss;
pub use steps::Steps;

use crate::face::DeviceError;

/// Operations that a [`Carrier`] hands over at a time ([`RuleTarget::batch`]): as many as an
/// application has room for in a burst's work, and few enough to stay in the cache. A replacement
/// counts once.
pub const BATCH_MAX: usize = 256;

/// The rules of a device, as the carrier of a plan calls for them.
///
/// An operation is prepared first, which is not the device's time: `prepare` makes the arguments of
/// the call, and `call` or `batch` is timed.
pub trait RuleTarget<'a> {
    /// Names a rule of the device.
    type Id: Copy + PartialEq;
    /// An operation with its arguments.
    type Call;
    /// Why the device refuses one.
    type Error: std::fmt::Display;

    /// Makes the arguments of an operation.
    fn prepare(&mut self, operation: RuleOperation<'a, Self::Id>) -> Self::Call;

    /// Carries one operation out, by a call of its own or as a part of a transaction.
    fn call(&mut self, call: Self::Call) -> CallResult<Self::Id, Self::Error>;

    /// Carries out at most [`BATCH_MAX`] operations through an operation queue: hands them over,
    /// pushes, and pulls the result of each. `calls` is empty afterwards.
    fn batch(
        &mut self,
        calls: &mut Vec<(usize, Self::Call)>,
        results: &mut Vec<PlacedResult<Self::Id, Self::Error>>,
    );

    /// Makes the operations of a transaction visible; `None` where there is no transaction.
    fn commit(&mut self) -> Option<Result<(), Self::Error>> {
        None
    }

    /// Gives back what the calls needed. `false`: nothing of them holds, because they were parts of
    /// a transaction that was not committed.
    fn end(self) -> bool;
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallResult<I, E> {
    /// The rule that stands there now, if any; or the refusal.
    pub stands: Result<Option<I>, E>,
    /// The rule that the operation was on is gone, whatever became of the rest.
    pub is_gone: bool,
}

/// The result of the operation at a place.
pub type PlacedResult<I, E> = (usize, CallResult<I, E>);

impl<I, E> CallResult<I, E> {
    /// Of an operation whose refusal changes nothing.
    pub fn of(stands: Result<Option<I>, E>) -> CallResult<I, E> {
        CallResult { stands, is_gone: false }
    }
}

/// One operation.
#[derive(Clone, Copy)]
pub enum RuleOperation<'a, I> {
    /// Creates a rule.
    Create(PlannedRule<'a>),
    /// Gives a rule the actions of this one, which has the same pattern.
    Update(I, PlannedRule<'a>),
    /// Makes this rule of one, in place.
    Modify(I, PlannedRule<'a>),
    /// Destroys a rule.
    Destroy(I),
    /// Destroys a rule and creates this one.
    Renew(I, PlannedRule<'a>),
}

/// A rule of a block, or one that a plan makes of it.
#[derive(Clone, Copy)]
pub struct PlannedRule<'a> {
    /// Its group.
    pub group: u32,
    /// Its priority, 0 is highest.
    pub priority: u32,
    /// Its actions.
    pub actions: &'a [Action],
    patterns: &'a Patterns,
    at: usize,
    /// Without the source port.
    is_wide: bool,
}

impl PlannedRule<'_> {
    /// Its pattern.
    pub fn pattern(&self) -> Pattern {
        match self.is_wide {
            true => self.patterns.wider(self.at),
            false => self.patterns.get(self.at),
        }
    }

    /// The items of its pattern, outermost first.
    pub fn items(&self) -> Vec<ItemMatch> {
        self.patterns.items(self.at, self.is_wide)
    }
}

pub(crate) fn bad(reason: String) -> DeviceError {
    DeviceError::BadPlan { reason }
}
