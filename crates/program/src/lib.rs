#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cost;
pub mod definition;
mod dump;
mod entry;
mod form;
mod hash;
pub mod limits;
mod outcome;
mod room;
mod rss;
mod run;
mod select;
mod text;
mod trial;
mod turn;
mod value;
mod weight;

pub use cost::{Cost, Site};
pub use entry::{Change, ChangeError, Entry, Key, Member, Part, Ports, Rates, Refused, Session};
pub use form::{
    Action, Actions, Alu, Code, Condition, Counters, Digests, Field, FieldRef, Hash, Header,
    Instruction, Invocation, Kind, Listed, Match, Meters, Operand, Order, Owner, Program, Range,
    Registers, Rings, Scope, Struct, Summand, Table, Window,
};
pub use outcome::{Copied, Fate, Lost, Outcome};
pub use room::Room;
pub use run::{Pipeline, Replaced, SharedRegisters, Worker};
pub use text::{Command, FileError, Stf, TablesFile, TablesText, Warning, read_tables};
pub use trial::{Execution, Failure, Single, SingleError, Verdict, carry_out};
pub use weight::STEP_NS;
