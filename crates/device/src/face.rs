//! What an experiment can ask of a device, and how it is refused.

mod about;
mod applied;
mod error;
mod hosts;
mod ledgered;
mod processed;
mod setup;

use niclab_load::{Control, Load, Observation};

pub use self::about::{About, Fact, Place};
pub use self::applied::{Application, Applied, Energy, LinkUse};
pub use self::error::DeviceError;
pub use self::hosts::{Exchange, Exchanged, Family, Host, Streamed, Streaming};
pub use self::ledgered::{Ledgered, PartsShown, TermShown};
pub use self::processed::{Processed, Processing, Worst};
pub use self::setup::{Function, Receive, RuleBlock, Setup, SetupReport};
use crate::plan::{Plan, RulesPlan};
use crate::serving::{Answered, Serving};

/// A device under test with its generator and its sink.
pub trait Testbed {
    /// What it is and what it can do.
    fn about(&self) -> &About;

    /// Brings the device into the state that `setup` describes, whatever state it was in.
    ///
    /// Refused rules are data and stand in the report; an error means that nothing can be measured.
    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError>;

    /// Carries a plan out from now on, without any load, to its end; what it created goes in the
    /// same way behind it ([`Control::destroyed`]), what it changed is put back. The times are of
    /// the calls: making their arguments is left out.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]; [`DeviceError::BadPlan`] for one that has no end without a
    /// load, or does not fit the set-up; [`DeviceError::Broken`].
    fn operate(&mut self, _plan: &RulesPlan) -> Result<Control, DeviceError> {
        Err(DeviceError::NotSupported { capability: "rules".to_owned() })
    }

    /// Lets a client and a server exchange messages over the stack of the kernel, and says what
    /// became of them. It needs no set-up.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `echo`, or a part of the exchange; [`DeviceError::BadLoad`];
    /// [`DeviceError::Absent`] where no server answers; [`DeviceError::Broken`].
    fn exchange(&mut self, _exchange: &Exchange) -> Result<Exchanged, DeviceError> {
        Err(DeviceError::NotSupported { capability: "echo".to_owned() })
    }

    /// Makes so many pairs of slices of an exchange, each as long as it says: one with probes that
    /// stamp its messages in the kernel, and one without.
    ///
    /// # Errors
    /// As of [`Testbed::exchange`]; [`DeviceError::NotSupported`]: `stamps`.
    fn ledger(&mut self, _exchange: &Exchange, _pairs: u32) -> Result<Ledgered, DeviceError> {
        Err(DeviceError::NotSupported { capability: "stamps".to_owned() })
    }

    /// Lets clients ask a server's program, and says what became of what they asked. It needs no
    /// set-up.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `applications`, the server's program, or a part of what is
    /// asked; [`DeviceError::BadLoad`]; [`DeviceError::Absent`] where no server answers;
    /// [`DeviceError::Broken`].
    fn apply(&mut self, _application: &Application) -> Result<Applied, DeviceError> {
        Err(DeviceError::NotSupported { capability: "applications".to_owned() })
    }

    /// Lets one host send bulk data to the other over the stack of the kernel, and says how much of
    /// it arrived. It needs no set-up.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `stream`, or more cores than there are;
    /// [`DeviceError::BadLoad`]; [`DeviceError::Broken`].
    fn stream(&mut self, _streaming: &Streaming) -> Result<Streamed, DeviceError> {
        Err(DeviceError::NotSupported { capability: "stream".to_owned() })
    }

    /// Lets packets that lie in memory through a program, on one core, again and again, and says
    /// what that took; it tells neither of latency nor of loss. It needs no set-up.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `programs`, or something of this one;
    /// [`DeviceError::BadLoad`] where a number of it is out of range; [`DeviceError::Broken`].
    fn process(&mut self, _processing: &Processing) -> Result<Processed, DeviceError> {
        Err(DeviceError::NotSupported { capability: "programs".to_owned() })
    }

    /// Lets a key-value store serve requests that lie in memory behind a card's queues, on so many
    /// cores at once, again and again, and says what that took; it tells neither of latency nor of
    /// loss. It needs no set-up.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `key-value store`, or more cores than there are;
    /// [`DeviceError::BadLoad`] where a number is out of range; [`DeviceError::Broken`].
    fn serve(&mut self, _serving: &Serving) -> Result<Answered, DeviceError> {
        Err(DeviceError::NotSupported { capability: "key-value store".to_owned() })
    }

    /// Offers `load` while the control side carries out `plan`, and says what was seen.
    fn run(&mut self, load: &Load, plan: &Plan) -> Result<Observation, DeviceError>;
}
