//! How errors in a text are shown, for whatever reads rules, commands or programs.

mod error;
mod visible;

pub use error::{Problem, TextError};
pub use visible::{visible, visible_word};
